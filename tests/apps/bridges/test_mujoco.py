"""The chain of a robot goes where the robot goes, in its own statics and in MuJoCo."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import geosim
from geosim import EnergyShapeSolver
from geosim.apps.bridges.chain import Chain

QUICK = EnergyShapeSolver(element="p1", check_stability=False)


def _chain(links=4, seed=0):
    rng = np.random.default_rng(seed)
    places = np.cumsum(np.vstack([np.zeros(3), [0.02, 0.0, 0.0] + 2e-3 * rng.standard_normal((links, 3))]), axis=0)
    stiffness = np.tile([0.05, 0.1, 500.0], links)
    pulls = rng.uniform(0.5, 1.0, (2, 3 * links)) * np.tile([1e-6, 1e-6, 1e-5], links)
    return Chain(places, stiffness, np.tile([0.02, -0.01, 1e-4], links), pulls, np.array([-2e4, 3e4]))


def test_joints_and_points_are_inverse():
    chain = _chain()
    q = np.random.default_rng(1).standard_normal((5, 12)) * np.tile([0.3, 0.3, 1e-3], 4)
    np.testing.assert_allclose(chain.joints(chain.points(q)), q, atol=1e-12)
    lengths = np.linalg.norm(np.diff(chain.points(0.0 * q[:1])[0], axis=0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(np.diff(chain.places, axis=0), axis=1), rtol=1e-12)


def test_torques_balance_and_forces_scale_without_moving():
    chain, controls = _chain(), np.array([[3e3, 1e3], [0.0, 5e3]])
    q = chain.equilibria(controls)
    pull = controls * (1.0 + chain.softening * (q @ chain.pulls.T)) @ chain.pulls
    np.testing.assert_allclose(chain.stiffness * (q - chain.rest), pull, rtol=1e-10)
    np.testing.assert_allclose(chain.scaled(3.0).equilibria(controls), q, rtol=1e-10)


def test_a_blocked_chain_presses_with_its_lever():
    """One stiff lever of length L with a torque T about its first axis, blocked across: F = T / L."""
    places = np.array([[0.0, 0, 0], [0.05, 0, 0], [0.1, 0, 0]])
    pulls = np.zeros((1, 6))
    chain = Chain(places, np.full(6, 1e4), np.zeros(6), pulls, np.zeros(1))
    axis = int(np.argmax(np.abs(chain.axes[0, 1])))
    across = int(np.argmax(np.abs(np.cross(chain.axes[0, 1], [1.0, 0, 0]))))
    assert axis != across
    pulls[0, 1] = 0.2
    stiff = np.array([1e4, 1e-3, 1e6, 1e4, 1e4, 1e6])  # all but the first hinge is rigid
    force = Chain(places, stiff, np.zeros(6), pulls, np.zeros(1)).blocked_force(np.array([0.01]), across)
    assert abs(force) == pytest.approx(0.01 * 0.2 / 0.1, rel=1e-3)


@pytest.mark.slow
def test_mujoco_holds_what_the_file_states(finger, model, tmp_path):
    """At fresh tensions the tip comes to rest within the stated distance of geosim, stepped at 2 ms."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")
    path = geosim.write_mjcf(finger, model, tmp_path / "finger.xml", solver=QUICK)
    made = mujoco.MjModel.from_xml_path(str(path))
    stated, motion = (float(made.numeric(name).data[0]) for name in ("tip_mismatch", "tip_motion"))
    assert motion == pytest.approx(model.motion)
    assert stated < 0.05 * motion
    assert float(made.numeric("force_mismatch").data[0]) < 0.2
    assert made.opt.timestep == 2e-3
    data = mujoco.MjData(made)
    for tension in (0.03, 0.11):
        data.ctrl[:] = tension
        for _ in range(750):
            mujoco.mj_step(made, data)
        assert np.abs(data.qvel).max() < 1e-4
        exact = geosim.solve(finger, model.actuation([tension]), solver=QUICK)
        assert np.linalg.norm(data.site("tip").xpos - exact.tip[-1]) <= stated
    volume = (
        sum(np.linalg.det(finger.vertices[finger.body_tets[:, 1:]] - finger.vertices[finger.body_tets[:, :1]])) / 6.0
    )
    density = next(iter(finger.materials.values())).density
    assert made.body_mass.sum() == pytest.approx(density * volume, rel=1e-6)


@pytest.mark.slow
def test_the_file_is_xml_and_says_its_mismatch_in_words(finger, model, tmp_path):
    text = geosim.write_mjcf(finger, model, tmp_path / "finger.xml", links=3, solver=QUICK).read_text(encoding="utf-8")
    assert "% of its largest way" in text.splitlines()[0]
    assert len(ElementTree.fromstring(text).findall(".//joint[@type='hinge']")) == 6
    other = geosim.generate.tendon_finger(joints=1, length=50e-3).robot("ecoflex-00-30-fang2022", max_edge=20e-3)
    with pytest.raises(geosim.InputError, match="another mesh"):
        geosim.write_mjcf(other, model, tmp_path / "other.xml")
    with pytest.raises(geosim.InputError, match=r"must end in \.xml"):
        geosim.write_mjcf(finger, model, tmp_path / "finger.txt")
