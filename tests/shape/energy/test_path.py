"""Paths to commands: long commands reach what short ones reach, limits are named, budgets end a command."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import trimesh
from shapes import block, half_arch, shell

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Load, Passive, Prescribed, Status
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.newton.steps import step_limit
from geosim.shape.energy.path import continuation, relaxation
from geosim.shape.energy.path.branches import EquilibriumPath, PathPoint, parabola
from geosim.shape.energy.path.continuation import Continuation
from geosim.shape.energy.path.loading import Loading
from geosim.shape.energy.path.options import ContinuationOptions
from geosim.shape.energy.path.path import Path, Verdict
from geosim.shape.energy.path.predictor import predict, tangent_share
from geosim.shape.energy.path.relaxation import relaxed_equilibrium
from geosim.shape.energy.solver import _flat
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, LoadState, NewtonOutcome

OPTIONS = ContinuationOptions()
ALONE = Environment(self_contact=False)
MU = 50e3  # Pa


def turn(monkeypatch, **options):
    """Give constants of the continuation other values."""
    monkeypatch.setattr(EnergyShapeSolver, "continuation", replace(OPTIONS, **options))


def _cantilever():
    vertices, tets = block((0.1, 0.01, 0.01), (10, 1, 1))
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=MU), fixed=vertices[:, 0] < 1e-9, tip=vertices[:, 0] > 0.1 - 1e-9
    )


def _sphere(material=None):
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    material = geosim.MooneyRivlin() if material is None else material
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=None)


def test_one_long_command_ends_where_many_short_ones_do():
    """A bar bent by far more than its length under a dead load, and a sphere under pressure: the same to 1e-6.

    Forces within the default tolerance leave 2e-6 of the length open: the bar is soft in bending.
    """
    robot, fine = _cantilever(), EnergyShapeSolver(tolerance=1e-9)
    total = np.array([0.0, 0.0, -0.06])
    at_once = geosim.solve(
        robot, Passive(), Environment(loads=Load.force(robot.tip, total), self_contact=False), solver=fine
    )
    loads = Load.force(robot.tip, np.arange(1, 9)[:, None] / 8 * total)
    little = geosim.solve(robot, Passive(steps=8), Environment(loads=loads, self_contact=False), solver=fine)
    assert little.tip[-1, 2] < -0.05
    assert "snapped" not in at_once.message
    np.testing.assert_allclose(at_once.frames[-1], little.frames[-1], atol=1e-6 * 0.1)
    sphere = _sphere()
    once = geosim.solve(sphere, Inflation(pressure=[60e3]), ALONE)
    steps = geosim.solve(sphere, Inflation(pressure=np.arange(1, 7) * 10e3), ALONE)
    np.testing.assert_allclose(once.volume_ratios[-1], steps.volume_ratios[-1], rtol=1e-7)


def test_no_step_goes_farther_than_the_path_has_been_straight(monkeypatch):
    """After the first increment no step is longer than 2.5 times what that increment made, nor are those of a correction."""
    solver = EnergyShapeSolver(check_stability=False)
    state = solver.start(_sphere(), ALONE)
    lengths, places, found = [], [state.problem.rest], EquilibriumSearch.equilibrium

    def watched(self, problem, start, aim, budget, **how):
        outcome = found(self, problem, start, aim, budget, **how)
        lengths.append(aim.longest)
        places.append(outcome.point.x)
        return outcome

    monkeypatch.setattr(EquilibriumSearch, "equilibrium", watched)
    assert geosim.solve(_sphere(), Inflation(pressure=[60e3]), ALONE).converged
    made = [np.linalg.norm(after - before, axis=1).max() for before, after in itertools.pairwise(places)]
    assert len(lengths) > 1
    assert lengths[0] == np.inf
    assert all(
        longest <= max(2.5 * way, OPTIONS.min_step_bound_rel) * (1.0 + 1e-9) for longest, way in zip(lengths[1:], made)
    )
    end = solver.target(state.problem, state, Inflation(pressure=[60e3]).command(0))
    aim = ArcLengthConstraint(state.target, end, 1.0, state.contact_state, longest=0.003)
    evaluation = solver._newton.evaluate(state.problem, state.point, end, matrix=True)
    step = solver._newton.direction(state.problem, state.point, aim, evaluation, 1e-6, reuse=False)
    size = np.linalg.norm(step.x, axis=1).max()
    assert size > 0.01
    most = step_limit(state.problem, aim, step, evaluation)
    assert most * size == pytest.approx(0.003)


@pytest.mark.slow
def test_where_walls_touch_equilibria_on_the_way_are_only_passed(monkeypatch):
    """Notches that a cable closes with snaps, in fewer iterations; sharp equilibria may lead to another fold near."""
    design = geosim.generate.tendon_finger(joints=2, height=0.02, notch=(0.006, 0.0185), cable_height=0.0105)
    robot, pulled = design.robot("ecoflex-00-30-fang2022", max_edge=30e-3), geosim.CableTensions([0.1])
    solver = EnergyShapeSolver(element="p1", check_stability=False)
    residuals, found = [], EquilibriumSearch.equilibrium

    def watched(self, problem, start, aim, budget, **how):
        outcome = found(self, problem, start, aim, budget, **how)
        residuals.append((how.get("passing", 0.0), outcome))
        return outcome

    monkeypatch.setattr(EquilibriumSearch, "equilibrium", watched)
    passed = geosim.solve(robot, pulled, solver=solver)
    touching = [
        outcome
        for passing, outcome in residuals
        if passing == OPTIONS.passed_residual
        and outcome.status is Status.CONVERGED
        and len(outcome.evaluation.contact.pairs)
    ]
    assert touching
    assert any(1e-6 < outcome.residual < OPTIONS.passed_residual for outcome in touching)
    assert passed.residual[-1] < 1e-6
    turn(monkeypatch, passed_residual=0.0)
    sharp = geosim.solve(robot, pulled, solver=solver)
    assert 2 * len(passed.trace) < len(sharp.trace)  # measured: 50 and 439
    np.testing.assert_allclose(passed.frames[-1], sharp.frames[-1], atol=0.02 * robot.size)


def test_walls_that_newton_does_not_bring_together_are_brought_downhill(monkeypatch):
    """A box sucked to 0.3 of its volume in one command: 26 iterations, and 49 where a failed attempt is only shortened."""
    body, chamber = (
        trimesh.creation.box(extents=size) for size in ((28e-3, 17.9e-3, 17.8e-3), (19.6e-3, 11.6e-3, 11.5e-3))
    )
    robot = geosim.VolumetricRobot.from_surfaces(
        body,
        [chamber],
        material="ecoflex-00-30-fang2022",
        max_edge=9e-3,
        fixed=geosim.Select.plane("x", below=-13.99e-3),
        remesh=False,
    )
    solver = EnergyShapeSolver(check_stability=False)
    downhill = geosim.solve(robot, Inflation(volume_ratio=[0.3]), solver=solver)
    assert downhill.crossings[-1] == downhill.inverted_elements[-1] == 0

    def newton(self, path, start, aim, tangent):
        return self.newton.equilibrium(self.problem, start, aim, self.budget, along=tangent, passing=self.passing(path))

    monkeypatch.setattr(Continuation, "correct", newton)
    alone = geosim.solve(robot, Inflation(volume_ratio=[0.3]), solver=solver)
    assert 4 * len(downhill.trace) < 3 * len(alone.trace)


def _box(size: tuple[float, float, float], x: float) -> trimesh.Trimesh:
    box = trimesh.creation.box(extents=size)
    box.apply_translation([x, 0.0, 0.0])
    return box


@pytest.mark.slow
def test_linear_elements_lead_to_where_grown_chambers_meet(monkeypatch):
    """Two boxes that bulge into each other: 9 iterations of quadratic elements, and 27 without; the same state."""
    body = trimesh.util.concatenate([_box((12e-3, 20e-3, 20e-3), side * 6.5e-3) for side in (-1, 1)])
    chambers = [_box((8e-3, 16e-3, 16e-3), side * 6.5e-3) for side in (-1, 1)]
    robot = geosim.VolumetricRobot.from_surfaces(
        body,
        chambers,
        material="ecoflex-00-30-fang2022",
        max_edge=5e-3,
        fixed=geosim.Select.plane("z", below=-9.99e-3),
        remesh=False,
    )

    def solved():
        result = geosim.solve(robot, Inflation(volume_ratio=[[1.3, 1.3]]))
        return result, sum(not record.get("nested", False) for record in result.trace)

    alone, many = solved()
    monkeypatch.setattr(continuation, "MIN_NESTED_UNKNOWNS", 0)
    nested, few = solved()
    assert 2 * few < many
    np.testing.assert_allclose(nested.frames[-1], alone.frames[-1], atol=1e-6 * robot.size)
    assert nested.crossings[-1] == nested.inverted_elements[-1] == 0

    # a landing on another branch does not count: quadratic elements go on alone
    monkeypatch.setattr(continuation, "MAX_LANDING_MISS", 1e-4)
    refused, _ = solved()
    np.testing.assert_allclose(refused.frames[-1], alone.frames[-1], atol=1e-6 * robot.size)


def test_equilibria_on_an_arc_are_only_passed(monkeypatch):
    """In fewer iterations, to the same state; a limit is named as where they are sharp."""
    robot, solver = _sphere(geosim.NeoHookean(mu=MU)), EnergyShapeSolver(tolerance=1e-8)

    def ways():
        there = geosim.solve(robot, Inflation(pressure=[0.7 * MU]), ALONE, solver=solver)
        beyond = geosim.solve(robot, Inflation(pressure=[0.95 * MU]), ALONE, solver=solver, throw=False)
        assert beyond.status is Status.PRESSURE_LIMIT
        return there.frames[-1], len(there.trace), float(beyond.message.split("The limit is ")[1].split(" kPa")[0])

    passed, few, limit = ways()
    turn(monkeypatch, passed_residual=0.0)
    sharp, many, same = ways()
    assert few < many
    np.testing.assert_allclose(passed, sharp, atol=1e-7 * robot.size)
    assert limit == pytest.approx(same, rel=1e-3)


def test_the_arc_is_the_derivative_of_the_path():
    """The bordered step on an arc meets the linear equations: force, volume and arc, by differences of the residual."""
    robot = _sphere()
    solver = EnergyShapeSolver(check_stability=False)
    state = solver.start(robot, ALONE)
    state, report = solver.step(state, Inflation(pressure=[20e3]).command(0))
    assert report.reached
    problem, point, newton = state.problem, state.point, solver._newton
    end = solver.target(problem, state, Inflation(pressure=[40e3]).command(0))
    aim = ArcLengthConstraint(
        solver.origin(state, end, Inflation(pressure=[40e3]).command(0)), end, 1.0, state.contact_state
    )
    here = newton.evaluate(problem, point, aim.origin, matrix=True)
    arc = aim.onto(point, here.scalars, (1.0, 2.0), 0.3)
    arc = type(arc)(**{**arc.__dict__, "level": arc.level + 1e-5})
    step = newton.direction(problem, point, arc, here, 1e-10, reuse=False)
    assert step.load_factor != 0.0
    force = []
    for sign in (1.0, -1.0):
        there = point.stepped(step, sign * 1e-3)
        force.append(newton.evaluate(problem, there, arc.at(there), matrix=False).force)
    free = ~problem.held[: point.x.size].reshape(-1, 3)
    slope = np.where(free, force[0] - force[1], 0.0) / 2e-3
    assert np.abs(slope).max() < 1e-4 * np.abs(aim.load(here.gradients)).max() * abs(step.load_factor)
    volumes = here.scalars + np.einsum("cni,ni->c", here.gradients, step.x)
    ahead = point.stepped(step, 1.0)
    a, b = arc.weights
    gain = a / arc.scale * (arc.conjugate(ahead, volumes) - arc.conjugate(point, here.scalars)) + b * step.load_factor
    assert gain == pytest.approx(1e-5, rel=1e-6)


def test_the_largest_load_of_an_arch_does_not_depend_on_the_steps():
    """One command and twelve name the same largest load of a shallow arch, and keep the state there."""
    robot = half_arch()
    plane = Prescribed(robot.tip, (0.0, np.nan, np.nan))
    loads = {1: (0.0, 0.0, -0.013), 12: np.arange(1, 13)[:, None] / 12 * np.array([0.0, 0.0, -0.013])}
    limits = []
    for steps, load in loads.items():
        environment = Environment(loads=Load.force(robot.tip, load), prescribed=plane, self_contact=False)
        stops = geosim.solve(robot, Passive(steps=steps), environment, throw=False)
        assert stops.status is Status.PRESSURE_LIMIT
        share = float(stops.message.split("The limit is ")[1].split(" %")[0]) / 100.0
        limits.append((len(stops.frames) + share) / steps)
        assert stops.partial is not None
        assert stops.partial.times[0] == pytest.approx(share, rel=0.02)
    assert limits[0] == pytest.approx(limits[1], rel=0.01)
    assert 0.7 < limits[0] < 0.95


def test_a_body_goes_to_the_next_stable_state_beyond_a_limit():
    """An arch under more than its largest load snaps through; that state lies far, and it balances without any drag."""
    robot = half_arch()
    environment = Environment(
        loads=Load.force(robot.tip, (0.0, 0.0, -0.014)),
        prescribed=Prescribed(robot.tip, (0.0, np.nan, np.nan)),
        self_contact=False,
    )
    solver = EnergyShapeSolver()
    start = solver.start(robot, environment)
    end = solver.target(start.problem, start, Passive().command(0))
    aim = ArcLengthConstraint(solver.origin(start, end, Passive().command(0)), end, 1.0, start.contact_state)
    budget, given = Budget(), (solver._newton, start.problem, start.point, aim)
    lost = relaxed_equilibrium(*given, OPTIONS.snap_displacement_rel, Budget())
    assert lost.status is Status.NOT_CONVERGED
    assert lost.far
    found = relaxed_equilibrium(*given, np.inf, budget)
    assert found.status is Status.CONVERGED
    assert found.target.drag is None
    assert found.residual < 1e-6
    assert len(budget.records) == found.iterations
    assert solver._newton.is_stable(start.problem, found.point, found.target)
    tip = start.problem.place[: len(robot.vertices)][robot.tip]
    height = found.point.x[tip, 2].mean() - start.point.x[tip, 2].mean()
    assert height * start.problem.length < -0.012  # below its supports
    dynamic = geosim.solve(robot, Passive(), environment, solver=EnergyShapeSolver(follow="dynamic"))
    assert dynamic.status is Status.CONVERGED
    assert dynamic.stable[-1] == 1
    assert "snapped to another state in command 1" in dynamic.message
    assert "Another shape may exist beyond" in dynamic.trust()[-1]
    assert dynamic.trust()[-1] in dynamic.message
    assert [record["left"]["times"] for record in dynamic.trace if "left" in record] == [1]
    np.testing.assert_allclose(dynamic.state.point.x, found.point.x, atol=1e-6)


def test_beyond_a_smooth_maximum_one_descent_is_enough(monkeypatch):
    """Nothing touches at the largest load of an arch: a state that is asked for a tenth of the load farther on tells nothing."""
    robot, asked = half_arch(), []
    environment = Environment(
        loads=Load.force(robot.tip, (0.0, 0.0, -0.014)),
        prescribed=Prescribed(robot.tip, (0.0, np.nan, np.nan)),
        self_contact=False,
    )

    def watched(newton, problem, start, aim, *rest):
        asked.append(aim.load_factor)
        return relaxed_equilibrium(newton, problem, start, aim, *rest)

    monkeypatch.setattr(continuation, "relaxed_equilibrium", watched)
    stops = geosim.solve(robot, Passive(), environment, throw=False)
    assert stops.status is Status.PRESSURE_LIMIT
    assert len(asked) == 1
    assert asked[0] == pytest.approx(stops.partial.times[0], rel=0.02)


def test_rounds_of_friction_do_not_hold_a_relaxation_up(monkeypatch):
    """Springs soften by the iterations of the first round: with all of thirty they would stiffen, and it would never end."""
    calls = []

    @dataclass(frozen=True)
    class Rubs:
        tolerance: float = 1e-6

        def equilibrium(self, problem, start, aim, budget):
            calls.append(aim.drag)
            evaluation = SimpleNamespace(scalars=np.zeros(0))
            return NewtonOutcome(Status.CONVERGED, start, evaluation, 0.0, 30, aim, first=2)

    solver = EnergyShapeSolver()
    state = solver.start(_cantilever(), ALONE)
    monkeypatch.setattr(relaxation, "has_potential", lambda problem, aim: False)
    aim = ArcLengthConstraint(state.target, state.target, 1.0, state.contact_state)
    found = relaxed_equilibrium(Rubs(), state.problem, state.point, aim, 1.0, Budget())
    assert found.status is Status.CONVERGED
    assert not found.far
    assert calls[-1] is None
    assert len(calls) < 10


def test_constant_loads_are_put_on_before_anything_else():
    """A heavy bar that sags onto a rough ball, and whose end then moves: friction is the same in one command as in three."""
    vertices, tets = block((0.04, 0.01, 0.01), (4, 1, 1))
    end = vertices[:, 0] > 0.04 - 1e-9
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=MU), fixed=vertices[:, 0] < 1e-9, tip=end
    )
    ball = geosim.Obstacle.sphere((0.035, 0.005, -0.0112), 0.01, friction=0.4)
    forces = []
    for steps in (1, 3):
        aside = np.full((steps, 3), np.nan)
        aside[:, 1] = 2e-3 * np.arange(1, steps + 1) / steps
        around = Environment(
            gravity=(0.0, 0.0, -40.0), obstacles=ball, prescribed=Prescribed(robot.tip, aside), self_contact=False
        )
        result = geosim.solve(robot, Passive(steps=steps), around, solver=EnergyShapeSolver(element="p1"))
        forces.append(result.obstacle_forces[-1, 0])
    assert np.linalg.norm(forces[0][:2]) > 0.1 * abs(forces[0][2]) > 1e-4
    assert np.linalg.norm(forces[0] - forces[1]) < 0.02 * np.linalg.norm(forces[1])


def test_no_state_beyond_the_limit_of_a_balloon():
    balloon = _sphere(geosim.NeoHookean(mu=MU))
    none = geosim.solve(
        balloon, Inflation(pressure=[0.95 * MU]), ALONE, solver=EnergyShapeSolver(follow="dynamic"), throw=False
    )
    assert none.status is Status.PRESSURE_LIMIT
    assert "up to V/V0 = 10" in none.message
    assert not len(none.frames)
    at_limit = geosim.solve(balloon, Inflation(pressure=[0.95 * MU]), ALONE, throw=False)
    limits = [r.message.split("The limit is ")[1].split(" kPa")[0] for r in (none, at_limit)]
    assert float(limits[0]) == pytest.approx(float(limits[1]), rel=1e-3)


def test_a_budget_ends_a_command_and_keeps_the_last_equilibrium():
    robot = _cantilever()
    environment = Environment(loads=Load.force(robot.tip, (0, 0, -0.06)), self_contact=False)
    result = geosim.solve(robot, Passive(), environment, solver=EnergyShapeSolver(max_factorisations=4), throw=False)
    assert result.status is Status.STOPPED
    assert "max_factorisations = 4" in result.message
    assert not result.converged
    assert len(result.trace) >= 4
    assert result.partial is not None
    assert 0.0 < result.partial.times[0] < 1.0
    assert result.partial.residual[0] < 1e-6
    stopped = geosim.solve(robot, Passive(), environment, solver=EnergyShapeSolver(max_seconds=1e-6), throw=False)
    assert stopped.status is Status.STOPPED


def test_a_pressure_of_another_order_is_named():
    sphere, solver = _sphere(geosim.NeoHookean(mu=MU)), EnergyShapeSolver(max_factorisations=2)
    absurd = geosim.solve(sphere, Inflation(pressure=[1e9]), ALONE, solver=solver, throw=False)
    assert "1e+09 Pa, is 2e+04 times the shear modulus: check the unit" in absurd.message
    plain = geosim.solve(sphere, Inflation(pressure=[0.9 * MU]), ALONE, solver=solver, throw=False)
    assert "check the unit" not in plain.message


def test_what_is_passed_on_the_way_is_sharp_where_it_is_the_answer():
    command, solver = Inflation(volume_ratio=[8.0]), EnergyShapeSolver(max_growth=0.5, max_factorisations=6)
    result = geosim.solve(_sphere(geosim.NeoHookean(mu=MU)), command, ALONE, solver=solver, throw=False)
    assert result.status is Status.STOPPED
    ends = [a for a, b in itertools.pairwise(result.trace) if a["increment"] != b["increment"]]
    assert any(record["residual"] > 1e-3 for record in ends)  # passed
    assert result.partial.residual[0] < 1e-6


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"max_factorisations": 0}, "max_factorisations"),
        ({"threads": 0}, "threads = 0 must be a whole number of at least 1"),
        ({"threads": 1.5}, "threads = 1.5"),
        ({"threads": True}, "threads = True"),
        ({"threads": "x"}, "threads = 'x'"),
        ({"threads": 100_000}, "at most 1024"),
        ({"follow": "on"}, "limit"),
    ],
)
def test_silly_budgets_are_refused(option, words):
    with pytest.raises(geosim.InputError, match=words):
        EnergyShapeSolver(**option)


def test_progress_is_told_in_every_iteration():
    seen = []
    robot = _cantilever()
    environment = Environment(loads=Load.force(robot.tip, (0, 0, -0.01)), self_contact=False)
    result = geosim.solve(robot, Passive(), environment, progress=seen.append)
    inside = [p for p in seen if p.frame is None]
    assert len(inside) == len([r for r in result.trace if "iteration" in r])
    assert [p.iteration for p in inside] == list(range(1, len(inside) + 1))
    assert all(0.0 <= p.share <= 1.0 for p in inside)


def test_the_vertex_of_aparabola():
    g = np.array([0.0, 1.0, 3.0])
    weights = parabola(g, 2.0 - (g - 1.4) ** 2)
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ g == pytest.approx(1.4)
    assert parabola(g, (g - 1.4) ** 2) is None


def test_where_a_path_branches_is_found_by_bisection():
    """Stability ends at 0.33 of the way, however far apart the equilibria are; a path that turns before has a limit point."""

    class Newton:
        def is_stable(self, problem, point, target):
            return bool(point.load_factor < 0.33)

        def equilibrium(self, problem, start, aim, budget):
            assert start.load_factor == aim.load_factor
            return SimpleNamespace(status=Status.CONVERGED, point=start, evaluation=SimpleNamespace(scalars=nothing))

    nothing = np.zeros(0)
    still = LoadState(nothing > 0, nothing, nothing, np.zeros((1, 3)), np.zeros((1, 3)))
    problem = SimpleNamespace(settled=lambda x: x)

    def way(*shares):
        points = [Configuration(np.zeros((1, 3)), nothing, nothing, share) for share in shares]
        marks = tuple(PathPoint(point, point.load_factor, nothing) for point in points)
        return EquilibriumPath(Newton(), problem, still, still, None, marks)

    for shares in (np.arange(11) / 10, (0.0, 1.0)):
        low, high = way(*shares).branches_between(None)
        assert low.share < 0.33 <= high.share < low.share + 0.02
        low, high = way(*shares, 1.1, 0.9).branches_before_limit(None)
        assert low.share < 0.33 <= high.share < low.share + 0.02
    assert way(0.0, 0.5, 0.4).branches_between(None) is None
    assert way(0.0, 0.1, 0.3, 0.35, 0.2).branches_before_limit(None) is None


def test_the_limit_of_a_load_is_that_of_sharp_equilibria():
    """On the path s = 1 - (g - 1)^2, whose marks are rough: one of them lies 5 % above it."""

    class Newton:
        def equilibrium(self, problem, start, aim, budget):
            point = replace(start, load_factor=1.0 - (start.x[0, 0] - 1.0) ** 2)
            return SimpleNamespace(status=Status.CONVERGED, point=point, evaluation=SimpleNamespace(scalars=nothing))

    nothing, along = np.zeros(0), np.array([[1.0, 0.0, 0.0]])
    origin, end = (LoadState(nothing > 0, nothing, nothing, load, np.zeros((1, 3))) for load in (0.0 * along, along))
    marks = tuple(
        PathPoint(Configuration(g * along, nothing, nothing, share), g, nothing)
        for g, share in ((0.5, 0.75), (0.8, 0.96 + 0.05), (1.3, 0.91))
    )
    problem = SimpleNamespace(settled=lambda x: x)
    share, _, found = EquilibriumPath(Newton(), problem, origin, end, None, marks).maximum(None)
    assert share == pytest.approx(1.0, abs=1e-6)
    assert found[-1].point.load_factor == share


def test_a_budget_that_is_spent_is_one_of_its_own():
    from geosim.shape.energy.newton.budget import BudgetError

    class Linear:
        factorisations = 7

    class Problem:
        linear = Linear()

    Budget(factorisations=3, counted=5).check(Problem())
    with pytest.raises(BudgetError):
        Budget(factorisations=2, counted=5).check(Problem())


def _path(*marks: tuple[float, float], **known) -> Path:
    """A path through places of a node along x, each with its share."""
    points = [Configuration(np.array([[x, 0.0, 0.0]]), np.zeros(0), np.zeros(0), share) for x, share in marks]
    made = [0.0, *np.abs(np.diff([x for x, _ in marks]))]
    trail = tuple(PathPoint(point, 0.0, np.zeros(0), size) for point, size in zip(points, made))
    state = SimpleNamespace(point=points[-1], contact_state=None, scalars=np.zeros(0))
    return Path(state, None, trail, **known)  # type: ignore[arg-type]


def _continuation(bends=True, volume=0.0) -> Continuation:
    """A continuation of which nothing but what it says of attempts is asked."""
    problem = SimpleNamespace(contact=None, chambers=1, rest_chamber_volumes=np.ones(1))
    aim = SimpleNamespace(conjugate=lambda point, scalars: 0.0)
    loading = SimpleNamespace(bends=bends, problem=problem, origin=None, aim=lambda *args: aim)
    return Continuation(None, loading, None, Budget(), 1e-3)  # type: ignore[arg-type]


def _found(x: float, share: float, start: float | None = None, **known) -> NewtonOutcome:
    """An attempt that ended at a place of the node, from a prediction."""
    point = Configuration(np.array([[x, 0.0, 0.0]]), np.zeros(0), np.zeros(0), share)
    at = None if start is None else replace(point, x=np.array([[start, 0.0, 0.0]]))
    evaluation = SimpleNamespace(contact=None, scalars=np.zeros(1))
    given = {"status": Status.CONVERGED, "residual": 0.0, "iterations": 2, **known}
    target = SimpleNamespace(contact_state=None)
    return NewtonOutcome(point=point, evaluation=evaluation, target=target, start=at, **given)  # type: ignore[arg-type]


def test_steps_along_the_tangent_become_longer_and_shorter_as_the_path_allows():
    """Where no secant is free of contact, share by share: as far as the longest displacement allows, not as far as before."""
    for length, share in ((0.02, 0.2), (0.01, 0.1), (0.0035, 0.035), (np.inf, 0.1 * OPTIONS.max_increment_growth)):
        assert tangent_share(_path((0.0, 0.2), (0.01, 0.3), length=length), OPTIONS) == pytest.approx(share)


def test_what_failed_is_tried_again_from_nearer_whatever_limited_it():
    """A volume that may only double limits the first attempt to a seventh of the way to eight times; the next one is shorter."""
    solver = EnergyShapeSolver(check_stability=False)
    state, command = solver.start(_sphere(), ALONE), Inflation(volume_ratio=[8.0]).command(0)
    end = solver.target(state.problem, state, command)
    loading = Loading(state.problem, solver.origin(state, end, command), end, 1.0)
    path = Path(state, None, (PathPoint(state.point, 0.0, state.scalars),))
    first = predict(path, loading, (), OPTIONS)[1].load_factor
    assert first == pytest.approx(1.0 / 7.0)
    assert 0.0 < predict(path.shortened(OPTIONS), loading, (), OPTIONS)[1].load_factor < 0.4 * first


@pytest.mark.parametrize("made", [5e-3 * OPTIONS.min_step_bound_rel, 4.0 * OPTIONS.min_step_bound_rel])
def test_an_increment_of_next_to_nothing_is_not_cut_for_what_its_prediction_missed(monkeypatch, made):
    """A body that has become stiff at once goes on in longer increments; one that moves is predicted from nearer."""
    monkeypatch.setattr(continuation, "next_state", lambda state, outcome: state)
    path = _continuation().accept(_path((0.0, 0.0)), _found(made, 0.1, 0.5 * made))  # missed as far as it went
    assert path.share == 0.1
    cut = np.sqrt(OPTIONS.prediction_miss_share)
    assert path.length > 1.5 * made if made < OPTIONS.min_step_bound_rel else path.length == pytest.approx(cut * made)


@pytest.mark.parametrize(
    ("path", "outcome", "verdict"),
    [
        (_path((0.0, 0.0)), _found(0.01, 0.5), Verdict.ACCEPT),
        (_path((0.0, 0.0)), _found(0.01, 0.5, status=Status.NOT_CONVERGED), Verdict.FAIL),
        (_path((0.0, 0.0)), _found(0.01, 1.0, 0.004), Verdict.FAIL),  # the prediction misses: another branch
        (_path((0.0, 0.0)), _found(0.01, 1.2), Verdict.OVERSHOOT),
        (_path((0.0, 0.0), (0.01, 0.5)), _found(0.02, 0.4), Verdict.SHARPEN),
        (_path((0.0, 0.0), (0.01, 0.5), sharp=True), _found(0.02, 0.4), Verdict.LIMIT),
        (_path((0.0, 0.0), (0.01, 0.5), (0.02, 0.4), sharp=True), _found(0.03, 0.3), Verdict.ACCEPT),  # it turned before
        (_path((0.0, 0.0), (0.01, 0.5), sharp=True), _found(0.02, -1.5), Verdict.LOSE),
        (_path((0.0, 0.0), (0.01, 0.5), sharp=True), _found(0.01, 0.5), Verdict.LOSE),  # it gets nowhere
    ],
)  # fmt: skip
def test_what_is_said_of_an_attempt(path, outcome, verdict):
    path = replace(path, state=SimpleNamespace(**{**vars(path.state), "point": replace(path.state.point, hold=None)}))
    assert _continuation().judge(path, outcome) is verdict


def test_flat_tets_that_are_sucked_shut_are_told_of_the_remedy():
    """Linear ones under a vacuum, not quadratic ones or those of a chamber that is blown up."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 1)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=geosim.NeoHookean(mu=MU), fixed=None)
    for element in ("p1", "p2"):
        state = EnergyShapeSolver(element=element).start(robot, ALONE)
        sucked, blown = (replace(state, point=replace(state.point, scalar_forces=np.array([p]))) for p in (-0.1, 0.1))
        assert ("take element='p2'" in _flat(state.problem, sucked)) == (element == "p1")
        assert _flat(state.problem, blown) == ""
        by_volume = replace(sucked, target=replace(sucked.target, by_value=np.ones(1, dtype=bool)))
        assert "Prescribe volumes" not in _flat(state.problem, by_volume)


def test_a_chamber_that_has_grown_without_a_limit_is_named_as_such():
    """Beyond ten times its volume, under a load, on one path: not below, under a volume, or where the path was left."""

    def message(volume, bends=True, **known):
        path = _path((0.0, 0.0), (0.1, 0.3), **known)
        path.state.scalars = np.array([volume])  # type: ignore[misc]
        return replace(_continuation(bends), skip_relaxation=True).last_resort(
            path, _found(0.0, 0.3, status=Status.SINGULAR)
        )[2]

    assert "at V/V0 = 12" in message(12.0)
    assert "without a limit, to more than V/V0 = 10" in message(12.0)
    for other in (message(8.0), message(12.0, bends=False), message(12.0, left=({"share": 0.1},))):
        assert "without a limit" not in other
