"""Newton's method of increments: factors that serve again, and lists of pairs that end on the way."""

from __future__ import annotations

import numpy as np
import pytest

from geosim import Environment, LinearElastic, NaturalShape, Passive, Status, solve
from geosim.cli.rod_cases import helix
from geosim.rods import newton
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import restored
from geosim.rods.stepper import RodShellStepper


def test_factors_serve_again_where_a_step_left_little_and_the_motion_stays(monkeypatch):
    """The same frames as with factors of every iterate, for at most half as many iterations more."""
    case = helix(duration=0.12)
    ours = solve(**case.arguments())
    monkeypatch.setattr(newton, "REUSED_FACTORS_RESIDUAL_SHARE", 0.0)
    exact = solve(**case.arguments())
    np.testing.assert_allclose(ours.frames, exact.frames, atol=1e-6 * np.ptp(ours.frames))
    assert ours.extra["iterations"].sum() <= 1.5 * exact.extra["iterations"].sum()


def flying(speed: float):
    """Return a rod of 5 mm radius that flies at one that is held, 40 mm away, far from every list of pairs."""
    s = np.linspace(-0.05, 0.05, 6)
    x = np.concatenate([np.stack([s, 0 * s, 0 * s], axis=1), np.stack([0 * s, s, 0 * s + 0.04], axis=1)])
    velocities = np.repeat([[0, 0, 0], [0, 0, -speed]], 6, axis=0)
    edges = [[i, i + 1] for i in (*range(5), *range(6, 11))]
    material = LinearElastic(1e6, 0.5, 1000.0)
    held = {"fixed_vertices": [0, 5]}
    return RodShellRobot(x, edges, radius=5e-3, rod_material=material, velocities=velocities, **held)


@pytest.mark.parametrize("speed", [1.0, 3.0, 30.0])
def test_what_is_far_at_first_is_met_and_not_passed(speed):
    """At 30 m/s a step goes five times the way between them."""
    result = solve(flying(speed), Passive(0.045 / speed), solver=RodShellStepper(dt=6e-3, tolerance=1e-9))
    assert np.nanmax(result.crossings) == 0
    assert np.abs(result.contact_forces).max() > 0


def test_a_motion_goes_on_exactly_from_what_its_state_keeps():
    """With the list of pairs, which says where an increment ends."""
    case = helix(duration=0.18)
    commands = case.solver.commands(case.robot, case.actuation)
    state = case.solver.start(case.robot, case.environment)
    for command in commands[:17]:
        state, _ = case.solver.step(state, command)
    start = case.solver.start(case.robot, Environment(gravity=case.environment.gravity))
    again = restored(start, state.arrays())
    for command in commands[17:]:
        state, _ = case.solver.step(state, command)
        again, _ = case.solver.step(again, command)
    assert np.array_equal(state.q, again.q)
    assert state.frame.energies == again.frame.energies


@pytest.mark.parametrize("rule", ["implicit-euler", "generalized-alpha"])
def test_what_flies_is_looked_for_where_its_velocity_takes_it(rule):
    """Before the first iteration of an increment, which then has nothing to do; from where it was it takes two."""
    x = np.stack([np.linspace(0, 0.1, 6), np.zeros(6), np.zeros(6)], axis=1)
    velocities = np.tile([0.03, -0.02, 0.05], (6, 1))
    robot = RodShellRobot(x, radius=5e-3, rod_material=LinearElastic(1e6, 0.5, 1000.0), velocities=velocities)
    for forces in ((), pushed_by_nothing):
        result = solve(robot, Passive(0.02), solver=RodShellStepper(dt=0.01, integrator=rule, forces=forces))
        np.testing.assert_allclose(result.frames[-1], x + 0.02 * velocities, atol=1e-9)
        assert result.extra["iterations"].sum() == 0


def pushed_by_nothing(time, positions, velocities):
    """A user's force of zero: with one the general loop runs, without contact the compiled one."""
    return np.zeros_like(positions)


@pytest.mark.parametrize("rule", ["implicit-euler", "implicit-midpoint", "generalized-alpha"])
def test_the_compiled_loop_and_the_general_one_take_the_same_steps(rule):
    """A rod that spins, bends, creeps and turns far; with the work of actuation and the moment of what spins."""
    x = np.stack([np.linspace(0, 0.2, 9), np.zeros(9), np.zeros(9)], axis=1)
    material = LinearElastic(1e6, 0.5, 1000.0)
    spin = {"edge_angular_velocities": np.full(8, 40.0), "retardation_time": 1e-3}
    robot = RodShellRobot(x, radius=8e-3, rod_material=material, fixed_vertices=[0], **spin)
    shape = NaturalShape([0.0, 0.1], curvature=[0.0, 20.0])
    found = [
        solve(robot, shape, solver=RodShellStepper(dt=0.01, integrator=rule, forces=forces, spectral_radius=0.7))
        for forces in ((), pushed_by_nothing)
    ]
    assert [len(result.trace) for result in found] == [len(found[0].trace)] * 2
    np.testing.assert_allclose(found[0].frames, found[1].frames, atol=1e-10)
    for key in ("work", "drift", "elastic_energy"):
        np.testing.assert_allclose(found[0].extra[key], found[1].extra[key], atol=1e-10)
    assert np.ptp(found[0].extra["work"]) > 1e-3


def test_an_arm_that_bends_anew_is_found_in_few_iterations():
    """Tensions that are unknowns of their own: six an increment; those that follow from positions took nine."""
    x = np.stack([np.zeros(16), np.zeros(16), np.linspace(0, -0.3, 16)], axis=1)
    material, held = LinearElastic(1e7, 0.49, 1070.0), {"fixed_vertices": [0, 1], "fixed_edges": [0]}
    arm = RodShellRobot(x, radius=0.01, rod_material=material, **held)
    bends = np.zeros((5, 14, 2))
    bends[1:, :, 0], bends[1:, :, 1] = np.array([8, -8, 4, -2])[:, None], np.array([-4, 8, 8, -8])[:, None]
    shape = NaturalShape(0.1 * np.arange(5), curvature=bends)
    result = solve(arm, shape, solver=RodShellStepper(dt=0.02, integrator="generalized-alpha", damping=2.0))
    assert result.status is Status.CONVERGED
    assert result.extra["iterations"].sum() <= 7.5 * 20
