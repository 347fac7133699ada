"""Environments of Gymnasium: what they promise, and that their numbers are those of the solvers beneath."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import geosim
from geosim.geometry import topology

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install '.[learning]'")
learning = pytest.importorskip("geosim.learning")

NAMES = sorted(learning.ENVIRONMENTS)
ROOT = Path(__file__).resolve().parents[3]


def made(name, **options):
    return gymnasium.make(f"geosim/{name}-v0", **options).unwrapped


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * name.startswith(("geosim/Gripper", "geosim/Snake")))
        for name in NAMES
    ],
)
def test_an_environment_keeps_the_contract_of_gymnasium(name):
    """Spaces, seeds and the five answers of a step, by Gymnasium's own checker, which notes nothing."""
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(name, render_mode="rgb_array")
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=name == "geosim/Gripper-v0")
    assert not [str(n.message) for n in notes]
    assert np.isfinite([env.observation_space.low, env.observation_space.high]).all()
    image = env.unwrapped.render()
    assert image.shape == (320, 480, 3)
    assert image.dtype == np.uint8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50  # something shaded is seen
    with pytest.raises(geosim.InputError, match="an action is of Box"):
        env.unwrapped.step(np.full(env.action_space.shape, 1.5, np.float32))


@pytest.mark.parametrize("name", ["Snake", "RodReach", "Catch", "Walker"])
def test_a_seed_and_actions_give_the_same_episode(name):
    env = made(name)
    seen = []
    for seed in (3, 3, 4):
        first, _ = env.reset(seed=seed)
        env.action_space.seed(0)
        rows = [first] + [env.step(env.action_space.sample())[0] for _ in range(3)]
        seen.append(np.array(rows))
    np.testing.assert_array_equal(seen[0], seen[1])
    assert abs(seen[1] - seen[2]).max() > 1e-3


def test_the_rewards_of_a_snake_add_up_to_its_way_along_the_goal():
    env = made("Snake")
    env.reset(options={"goal": 0.5})
    begin, total = env.state.center_of_mass, 0.0
    for k in range(6):
        total += env.step(np.sin(k + np.arange(4)).astype(np.float32))[1] / 15.0
    way = (env.state.center_of_mass - begin)[:2] @ [np.cos(0.5), np.sin(0.5)]
    assert abs(way) > 1e-5
    np.testing.assert_allclose(total, way, rtol=1e-9)


@pytest.mark.slow
def test_every_step_of_a_snake_under_random_actions_converges():
    """By the budget of real time a third of the steps held a frame that did not."""
    env = gymnasium.make("geosim/Snake-v0")
    env.reset(seed=1)
    env.action_space.seed(1)
    said = [env.step(env.action_space.sample())[4] for _ in range(20)]
    assert all(info["converged"] for info in said)
    assert max(info["residual"] for info in said) <= 0.1


def test_the_goal_is_seen_from_the_head():
    env = made("Snake")
    observation, _ = env.reset(options={"goal": 0.5})
    np.testing.assert_allclose(observation[-2:], [np.cos(0.5), np.sin(0.5)], atol=1e-6)
    left = np.tile(
        [np.cos(0.15), 0.0, 0.0, np.sin(0.15)], (len(env.state.orientations), 1)
    )  # all point 0.3 rad to the left
    env.state = replace(env.state, orientations=left)
    np.testing.assert_allclose(env.observation()[-2:], [np.cos(0.2), np.sin(0.2)], atol=1e-6)


def test_an_arm_held_at_a_command_ends_at_the_equilibrium_of_that_command():
    """Against statics of the same rod with the same natural curvature."""
    env = made("RodReach")
    env.reset(seed=0, options={"goal": (1.0, 0.0, 0.0)})
    action = np.array([0.5, 0, 0.2, 0.3, 0, -0.4], np.float32)
    for _ in range(60):
        observation, reward, terminated, _, info = env.step(action)
    assert not terminated
    assert info["status"] == "CONVERGED"
    rows = 8.0 * action.astype(float).reshape(3, 2)[np.arange(14) * 3 // 14]  # of the nodes between edges
    shape = geosim.NaturalShape([1.0], curvature=rows[None])
    still = geosim.solve(env.robot, shape, env.surroundings, solver=geosim.RodShellStepper(static=True))
    np.testing.assert_allclose(observation[12:15], still.tip[-1], atol=1e-3)
    np.testing.assert_allclose(reward, -np.linalg.norm(still.tip[-1] - [1, 0, 0]), atol=1e-3)


def test_an_arm_at_its_goal_has_reached_it():
    env = made("RodReach")
    env.reset(options={"goal": (0.0, 0.0, -0.3)})
    _, reward, terminated, _, info = env.step(np.zeros(6, np.float32))
    assert terminated
    assert info["is_success"]
    assert -0.01 < reward <= 0.0


@pytest.mark.slow
def test_a_gripper_squeezes_the_harder_the_more_it_is_inflated():
    """Its forces are those on the ball, they grow with the pressure, and the reward is how far they are from the goal."""
    env = made("Gripper")
    env.reset(options={"radius": 12.5e-3, "offset": 0.0, "force": 10.0})
    forces = []
    for _ in range(4):
        observation, reward, terminated, _, info = env.step(np.ones(2, np.float32))
        forces.append(info["forces"])
        assert not terminated
    assert forces[0].max() < forces[-1].min()
    np.testing.assert_allclose(observation[:2], 12.0 / 30.0)
    pushes = [env.state.frame.contact_forces[side].sum(axis=0) for side in env.sides]
    np.testing.assert_allclose(np.linalg.norm(pushes, axis=1), forces[-1], rtol=1e-9)
    np.testing.assert_allclose(env.state.frame.obstacle_forces[0], -np.sum(pushes, axis=0), atol=1e-9)
    assert pushes[0][0] > 0 > pushes[1][0]  # the ball pushes the fingers apart
    np.testing.assert_allclose(reward, -np.mean(1 - forces[-1] / 10.0), rtol=1e-6)


def _return(env, policy, seed, actions):
    """Sum of the rewards of an episode, and what its last action said."""
    env.reset(seed=seed)
    total = 0.0
    for k in range(actions):
        _, reward, ended, _, info = env.step(policy(k))
        total += reward
        if ended:
            break
    return total, info


def _random(env, seed):
    env.action_space.seed(seed)
    return lambda k: env.action_space.sample()


@pytest.mark.slow
def test_fingers_that_close_hold_the_ball_and_random_ones_lose_it():
    """Of twelve actions without support a close grip keeps nearly all reward; six actions bring 31 kPa."""
    env = made("Catch")
    closing = lambda k: np.full(2, 0.85 if k < 6 else 0.0, np.float32)  # noqa: E731
    held, info = _return(env, closing, 3, 20)
    assert info["status"] == "CONVERGED"
    assert info["drop"] < 3e-3
    assert held > 10.0
    lost, info = _return(env, _random(env, 3), 3, 20)
    assert info["drop"] > env.lost_distance
    assert lost < 2.0


def test_a_ball_that_nothing_holds_falls_freely():
    """Implicit Euler falls by g h^2 n (n + 1) / 2 in n steps of h; the support leaves faster."""
    env = made("Catch")
    env.reset(options={"offset": 0.0, "density": 400.0})
    for _ in range(env.supported + 1):
        _, reward, ended, _, info = env.step(np.zeros(2, np.float32))
        assert not ended
        assert reward == 0.0 or info["released"]
    steps = round(env.period / env.stepper.dt)
    assert info["drop"] == pytest.approx(9.81 * env.stepper.dt**2 * steps * (steps + 1) / 2, rel=0.02)
    assert reward == pytest.approx(1.0 - info["drop"] / env.lost_distance)


@pytest.mark.slow
def test_an_open_loop_gait_walks_farther_than_random_legs():
    """The hind leg leads the fore leg by a quarter of 0.2 s."""
    env = made("Walker")
    cycle = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)], np.float32)
    walked, info = _return(env, lambda k: cycle[k % 4], 1, 24)
    assert not info["tipped"]
    assert walked > 6.0  # mm
    assert walked > 2.0 * _return(env, _random(env, 1), 1, 24)[0]


def test_a_walker_stands_by_its_weight_and_its_rewards_are_its_way():
    env = made("Walker")
    env.reset(options={"friction": 0.6})
    begin, total = env.place(env._back)[0], 0.0
    for action in ((-1, -1), (1, -1), (0, 0), (-1, -1), (-1, -1), (-1, -1), (-1, -1), (-1, -1)):
        observation, reward, ended, _, info = env.step(np.array(action, np.float32))
        assert not ended
        total += reward
    assert total == pytest.approx(1e3 * (info["place"] - begin), abs=1e-9)
    weight = 9.81 * 1070.0 * topology.tet_volumes(env.robot.vertices, env.robot.body_tets).sum()
    assert env.state.frame.obstacle_forces[0, 2] == pytest.approx(-weight, rel=0.05)
    np.testing.assert_allclose(observation[:2], 0.0, atol=1e-6)


@pytest.mark.slow
def test_environments_run_in_processes_of_their_own():
    """Two at once give what one gives alone with the same seeds."""
    one = made("RodReach")
    both = gymnasium.make_vec("geosim/RodReach-v0", num_envs=2, vectorization_mode="async")
    try:
        together, _ = both.reset(seed=[5, 6])
        actions = np.full((2, 6), 0.2, np.float32)
        after, rewards, *_ = both.step(actions)
    finally:
        both.close()
    for k in range(2):
        np.testing.assert_array_equal(together[k], one.reset(seed=5 + k)[0])
        observation, reward, *_ = one.step(actions[k])
        np.testing.assert_allclose(after[k], observation, rtol=1e-6)
        np.testing.assert_allclose(rewards[k], reward, rtol=1e-6)


def test_without_gymnasium_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['gymnasium'] = None\ntry:\n import geosim.learning\nexcept ValueError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "geosim.learning needs gymnasium: pip install 'geosim[learning]'\n"


def test_the_extra_names_what_is_needed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["learning"] == ["gymnasium>=1.0"]
    assert "gymnasium>=1.0" in extras["test"]
