"""Minimisation: the slope of the merit is that of its values, every step gains, and walls under vacuum end in balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh

import geosim
from geosim import (
    CableLengths,
    CableTensions,
    EnergyShapeSolver,
    Environment,
    Inflation,
    Obstacle,
    Select,
    Status,
    VolumetricRobot,
    generate,
)
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.merit import AugmentedLagrangian, has_potential
from geosim.shape.energy.newton.minimise import Direction, Iterate, Minimisation, with_multipliers
from geosim.shape.energy.states.configuration import ArcLengthConstraint

SIZE, INNER = (28e-3, 17.9e-3, 17.8e-3), (19.6e-3, 11.6e-3, 11.5e-3)


def _block(max_edge: float) -> VolumetricRobot:
    """Return a hollow block that stands on one end."""
    body, chamber = trimesh.creation.box(extents=SIZE), trimesh.creation.box(extents=INNER)
    end = Select.plane("x", below=1e-5 - 0.5 * SIZE[0])
    return VolumetricRobot.from_surfaces(
        body, [chamber], material="ecoflex-00-30-fang2022", max_edge=max_edge, fixed=end
    )


def _tendon() -> VolumetricRobot:
    """Return a finger whose deep notches leave slender webs."""
    design = generate.tendon_finger(joints=2, height=0.02, notch=(0.006, 0.0185), cable_height=0.0105)
    return design.robot("ecoflex-00-30-fang2022", max_edge=30e-3)


def _aim(solver: EnergyShapeSolver, robot: VolumetricRobot, command: geosim.Actuation, environment: Environment):
    state = solver.start(robot, environment)
    end = solver.target(state.problem, state, command.command(0))
    return state, ArcLengthConstraint(solver.origin(state, end, command.command(0)), end, 1.0, state.contact_state)


def _slopes(solver: EnergyShapeSolver, robot: VolumetricRobot, command: geosim.Actuation) -> tuple[float, float]:
    """Return the slope of the potential along a random step from a random place, and that of its values by differences."""
    rng = np.random.default_rng(3)
    state, aim = _aim(solver, robot, command, Environment(gravity=(0.0, 0.0, -9.81)))
    problem, newton = state.problem, solver._newton
    free = ~problem.held[: problem.rest.size].reshape(-1, 3)
    here = replace(
        state.point,
        x=problem.rest + 4e-4 * free * rng.normal(size=problem.rest.shape),
        p=0.02 * rng.normal(size=len(state.point.p)),
    )
    target = aim.at(here)
    now = newton.evaluate(problem, here, target, matrix=True)
    step = replace(
        here,
        x=1e-2 * free * rng.normal(size=here.x.shape),
        p=rng.normal(size=len(here.p)),
        scalar_forces=np.abs(rng.normal(size=1)),
    )
    moves = np.concatenate([step.x.ravel(), np.zeros(len(step.p))])
    change = now.sparsity.product(now.data, moves)[step.x.size :]
    goal = replace(here, p=here.p + step.p, scalar_forces=here.scalar_forces + step.scalar_forces)
    merit = AugmentedLagrangian(problem, target, goal)

    def value(length: float) -> float:
        trial = replace(goal, x=here.x + length * step.x)
        found = newton.evaluate(problem, trial, target, matrix=False)
        return merit.at(trial.x, found)

    h = 1e-5
    start = newton.evaluate(problem, replace(goal, x=here.x), target, matrix=False)
    return merit.slope(start, step, change), (value(h) - value(-h)) / (2.0 * h)


@pytest.mark.parametrize("element", ["p1", "p2"])
@pytest.mark.parametrize("command", [Inflation(pressure=[-9e3]), Inflation(volume_ratio=[0.8])], ids=["by p", "by V"])
def test_the_slope_is_that_of_the_potential(element, command):
    slope, measured = _slopes(EnergyShapeSolver(element=element), _block(9e-3), command)
    assert slope == pytest.approx(measured, rel=1e-5)


@pytest.mark.parametrize(
    "command", [CableTensions([0.05]), CableLengths([0.08]), CableLengths([0.3])], ids=["by tension", "taut", "slack"]
)
def test_cables_pull_and_never_push(command):
    slope, measured = _slopes(EnergyShapeSolver(element="p1"), _tendon(), command)
    assert slope == pytest.approx(measured, rel=1e-5)


def test_how_slack_a_cable_is_does_not_matter():
    slopes = [_slopes(EnergyShapeSolver(element="p1"), _tendon(), CableLengths([length]))[0] for length in (0.3, 0.4)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-12)


@pytest.mark.slow
def test_notches_that_close_with_a_snap_end_in_balance():
    """A slender web under a strong tendon: its notches close one by one, by tension and by length.

    At one length the finger has several states that last: which notch closed first makes them.
    """
    robot, options = _tendon(), {"solver": EnergyShapeSolver(element="p1", max_seconds=600.0), "throw": False}
    pulled = geosim.solve(robot, CableTensions([0.2]), **options)
    assert pulled.status is Status.CONVERGED
    assert pulled.contact_count[-1] > 0
    held = geosim.solve(robot, CableLengths(pulled.cable_lengths[-1:]), **options)
    assert held.status is Status.CONVERGED
    assert held.cable_lengths[-1] == pytest.approx(pulled.cable_lengths[-1], rel=1e-9)
    for result in (pulled, held):
        assert result.stable[-1] == 1.0
        assert result.residual[-1] < 1e-6
        assert result.crossings[-1] == 0


def test_downhill_ends_where_newton_ends_and_never_climbs():
    """A little farther on a smooth path both find the same equilibrium; with a start far off only one of them can."""
    robot, solver = _block(9e-3), EnergyShapeSolver(element="p1")
    command = Inflation(pressure=[-6e3])
    state, aim = _aim(solver, robot, command, Environment())
    found = Minimisation(solver._newton, state.problem, aim, Budget()).run(state.point)
    assert not found.far
    assert found.status is Status.CONVERGED
    assert found.residual < 1e-6
    straight = solver._newton.equilibrium(state.problem, state.point, aim, Budget())
    np.testing.assert_allclose(found.point.x, straight.point.x, atol=1e-7)
    lost = Minimisation(solver._newton, state.problem, aim, Budget(), farthest=1e-3).run(state.point)
    assert lost.far
    assert lost.status is Status.NOT_CONVERGED


def test_no_step_gains_less_than_its_slope_foretells():
    """From a place far off balance, whatever the direction: the value falls by a share of the slope, or nothing moves."""
    robot, solver, rng = _block(9e-3), EnergyShapeSolver(element="p1"), np.random.default_rng(5)
    state, aim = _aim(solver, robot, Inflation(pressure=[-9e3]), Environment())
    problem, newton = state.problem, solver._newton
    free = ~problem.held[: problem.rest.size].reshape(-1, 3)
    for size in (1e-3, 1e-2, 3e-2):
        search = Minimisation(newton, problem, aim, Budget())
        here = replace(state.point, load_factor=1.0)
        target = aim.at(here)
        now = newton.evaluate(problem, here, target, matrix=True)
        step = replace(here, x=size * free * rng.normal(size=here.x.shape), p=0.0 * here.p, scalar_forces=np.zeros(1))
        size = here.x.size
        change = now.sparsity.product(now.data, np.concatenate([step.x.ravel(), np.zeros(len(step.p))]))[size:]
        merit = AugmentedLagrangian(problem, target, here)
        begin = Iterate(here, now, newton.residuals(problem, here, target, now))
        there = search.search(begin, Direction(step, change, 0.0, 0.0))
        gain = merit.at(there.point.x, there.evaluation) - merit.at(here.x, now)
        assert gain <= 1e-4 * there.length * merit.slope(now, step, change) if there.length > 0.0 else gain == 0.0


def test_a_step_that_is_too_short_is_made_longer():
    """A quarter of a Newton step on a smooth potential becomes the whole step, by the slope that is left at its end."""
    robot, solver = _block(9e-3), EnergyShapeSolver(element="p1")
    state, aim = _aim(solver, robot, Inflation(pressure=[-3e3]), Environment())
    problem, newton, here = state.problem, solver._newton, replace(state.point, load_factor=1.0)
    now = newton.evaluate(problem, here, aim.at(here), matrix=True)
    begin = Iterate(here, now, newton.residuals(problem, here, aim.at(here), now))
    search = Minimisation(newton, problem, aim, Budget())
    whole = search.descent(begin)
    assert whole is not None
    quarter = replace(whole, step=replace(whole.step, x=0.25 * whole.step.x), change=0.25 * whole.change)
    made = search.search(begin, quarter).point.x - here.x
    share = float(np.sum(made * whole.step.x) / np.sum(whole.step.x**2))
    assert share == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_walls_under_vacuum_close_and_balance_in_one_command():
    robot = _block(6e-3)
    result = geosim.solve(robot, Inflation(pressure=[-30e3]), solver=EnergyShapeSolver(element="p1"), throw=False)
    assert result.status is Status.CONVERGED, result.message
    assert result.volume_ratios[-1, 0] < 0.4
    assert result.crossings[-1] == 0
    assert result.stable[-1] == 1
    newton = sum("iteration" in record for record in result.trace)
    assert newton <= 150


def test_a_smooth_path_is_followed_without_relaxations():
    """Walls under vacuum until they touch: with relaxations at short increments 23 of 79 iterations are thrown away."""
    result = geosim.solve(
        _block(9e-3), Inflation(pressure=[-30e3]), solver=EnergyShapeSolver(element="p1"), throw=False
    )
    assert result.status is Status.CONVERGED
    assert sum("discarded" in record for record in result.trace) <= 17


def test_what_has_no_potential_is_not_asked_for_one():
    robot, solver = _block(9e-3), EnergyShapeSolver(element="p1")
    rough = Environment(obstacles=(Obstacle.sphere((0.0, 0.0, 40e-3), 5e-3, friction=0.4),))
    for environment, known in ((Environment(), True), (rough, True), (Environment(self_friction=0.2), False)):
        state, aim = _aim(solver, robot, Inflation(pressure=[-6e3]), environment)
        assert has_potential(state.problem, aim) is known
    state, aim = _aim(solver, robot, Inflation(pressure=[-6e3]), rough)
    pressed = replace(aim.contact_state, push=np.ones_like(aim.contact_state.push))
    assert not has_potential(state.problem, replace(aim, contact_state=pressed))


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_other_multipliers_need_no_other_evaluation(element):
    """Forces, constraints and energy at the same place, also of linear tets whose pressures are stabilised."""
    rng, solver = np.random.default_rng(7), EnergyShapeSolver(element=element)
    state, aim = _aim(solver, _block(9e-3), Inflation(volume_ratio=[0.9]), Environment())
    problem, newton, point = state.problem, solver._newton, replace(state.point, load_factor=1.0)
    point = replace(point, x=point.x + 1e-3 * rng.normal(size=point.x.shape), p=0.1 * rng.normal(size=len(point.p)))
    target = aim.at(point)
    found = newton.evaluate(problem, point, target, matrix=True)
    step = replace(point, p=rng.normal(size=len(point.p)), scalar_forces=rng.normal(size=1))
    got = with_multipliers(Iterate(point, found, newton.residuals(problem, point, target, found)), step)
    there = replace(point, p=point.p + step.p, scalar_forces=point.scalar_forces + step.scalar_forces)
    asked = newton.evaluate(problem, there, target, matrix=False)
    np.testing.assert_allclose(got.force, asked.force, atol=1e-12)
    np.testing.assert_allclose(got.constraint, asked.constraint, atol=1e-12)
    assert got.energy == pytest.approx(asked.energy, rel=1e-10, abs=1e-14)


def test_a_body_that_meets_a_rough_obstacle_is_not_minimised():
    """The same inflation beside a smooth ball ends in contact with it, beside a rough one without an answer."""
    robot, solver = _block(9e-3), EnergyShapeSolver(element="p1")
    for friction in (0.0, 0.4):
        ball = Obstacle.sphere((0.0, 0.0, 0.5 * SIZE[2] + 5.5e-3), 5e-3, friction=friction)
        state, aim = _aim(solver, robot, Inflation(pressure=[12e3]), Environment(obstacles=(ball,)))
        found = Minimisation(solver._newton, state.problem, aim, Budget()).run(state.point)
        assert (found.status is Status.CONVERGED) is (friction == 0.0)
        assert not found.far
