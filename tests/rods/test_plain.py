"""Compiled increments where nothing touches: the same motion as by the general iteration, and never through anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geosim import Environment, LinearElastic, NaturalShape, Passive, solve
from geosim.cli.rod_cases import cantilever, helix
from geosim.rods import newton
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import load_state, save_state
from geosim.rods.stepper import RodShellStepper


def moves(case, solver=None):
    return solve(case.robot, case.actuation, case.environment, solver=solver or case.solver)


@pytest.fixture
def compiled(monkeypatch):
    """Counts the compiled increments that were carried through, and says how to leave them out."""
    whole, run = [], newton.glided

    def counted(*given):
        found = run(*given)
        whole.append(found[2])
        return found

    monkeypatch.setattr(newton, "glided", counted)
    return whole, lambda: monkeypatch.setattr(newton, "glides", lambda balance: False)


def spun_arm():
    """Return an arm whose natural curvature and twist change: its edges spin while they turn."""
    s = np.linspace(0, 0.2, 21)
    material = LinearElastic(1e6, 0.5, 1100.0)
    x = np.stack([s, 0 * s, 0 * s], axis=1)
    robot = RodShellRobot(x, radius=4e-3, rod_material=material, fixed_vertices=[0, 1], fixed_edges=[0])
    curl = NaturalShape(times=[0.0, 0.1], curvature=[0.0, 12.0], twist=[0.0, 20.0])
    return replace(helix(), robot=robot, actuation=curl, solver=RodShellStepper(dt=2e-3, tolerance=1e-10))


@pytest.mark.parametrize("integrator", ["implicit-midpoint", "implicit-euler", "generalized-alpha"])
@pytest.mark.parametrize(
    "make",
    [lambda: helix(duration=0.12), lambda: cantilever(31, 1e6, 1.0, 0.05), spun_arm],
    ids=["helix", "flat", "spun"],
)
def test_compiled_increments_move_a_rod_as_the_general_iteration_does(make, integrator, compiled):
    whole, leave_out = compiled
    case = make()
    solver = replace(case.solver, integrator=integrator, tolerance=1e-10)
    ours = moves(case, solver)
    assert np.mean(whole) > 0.5
    count = len(whole)
    leave_out()
    general = moves(case, solver)
    assert len(whole) == count
    np.testing.assert_allclose(ours.frames, general.frames, atol=1e-8 * np.ptp(ours.frames))
    for key in ("theta", "velocities", "work", "dissipated", "drift"):
        size = max(np.abs(general.extra[key]).max(), np.abs(general.energies).max())
        np.testing.assert_allclose(ours.extra[key], general.extra[key], atol=1e-6 * size)
    assert ours.residual.max() < 1e-10


def test_steps_that_need_care_are_left_to_the_general_iteration(compiled):
    """A rod that is bent by half a turn in one increment: steps are shortened."""
    whole, _ = compiled
    case = spun_arm()
    curl = NaturalShape(times=[0.0, 0.05], curvature=[0.0, 200.0])
    result = solve(case.robot, curl, case.environment, solver=RodShellStepper(dt=0.05, frame_interval=0.05))
    assert not all(whole)
    assert result.converged


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
def test_what_is_far_at_first_is_met_and_not_passed(speed, compiled):
    """At 30 m/s a step goes five times the way between them."""
    whole, leave_out = compiled
    solver = RodShellStepper(dt=6e-3, tolerance=1e-9)
    result = solve(flying(speed), Passive(0.045 / speed), solver=solver)
    assert whole
    assert np.nanmax(result.crossings) == 0
    leave_out()
    general = solve(flying(speed), Passive(0.045 / speed), solver=solver)
    assert np.abs(general.contact_forces).max() > 0
    np.testing.assert_allclose(result.frames, general.frames, atol=1e-7)


def test_a_motion_goes_on_exactly_from_a_saved_state(tmp_path):
    """With the list of pairs, which says where compiled increments end."""
    case = helix(duration=0.18)
    commands = case.solver.commands(case.robot, case.actuation)
    state = case.solver.start(case.robot, case.environment)
    for command in commands[:17]:
        state, _ = case.solver.step(state, command)
    start = case.solver.start(case.robot, Environment(gravity=case.environment.gravity))
    again = load_state(start, save_state(state, tmp_path / "state.npz"))
    for command in commands[17:]:
        state, _ = case.solver.step(state, command)
        again, _ = case.solver.step(again, command)
    assert np.array_equal(state.q, again.q)
    assert state.frame.energies == again.frame.energies
