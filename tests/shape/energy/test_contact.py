"""Contact with obstacles on blocks: patch test, balance, friction, derivatives, refusals, motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from scipy import sparse
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Obstacle, Passive, Prescribed
from geosim.shape.energy.contact.laws import linearised_at, soft_law
from geosim.shape.energy.newton import newton_solve
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch

MU = 20e3
NAN = np.nan


def _robot(cells=(3, 3, 3), size=(0.02, 0.02, 0.02), fixed=None):
    vertices, tets = block(size, cells)
    held = None if fixed is None else np.flatnonzero(vertices[:, 2] > size[2] - 1e-9)
    return geosim.VolumetricRobot.from_tets(vertices, tets, material=geosim.NeoHookean(mu=MU), fixed=held)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_patch(element):
    """A block squeezed onto a plane is uniform: one pressure everywhere, the exact one, and balanced forces."""
    robot = _robot()
    x = robot.vertices
    top = np.flatnonzero(x[:, 2] > 0.02 - 1e-9)
    env = Environment(
        obstacles=Obstacle.plane((0, 0, 0), (0, 0, 1)),
        prescribed=[
            Prescribed(top, (NAN, NAN, -0.003)),
            Prescribed(np.flatnonzero(x[:, 0] < 1e-9), (0, NAN, NAN)),
            Prescribed(np.flatnonzero(x[:, 1] < 1e-9), (NAN, 0, NAN)),
        ],
    )
    result = geosim.solve(robot, Passive(), env, solver=geosim.EnergyShapeSolver(element=element, tolerance=1e-9))
    bottom = np.flatnonzero(x[:, 2] < 1e-9)
    at = result.frames[0]
    stretch = (at[top, 2].mean() - at[bottom, 2].mean()) / 0.02
    force = 0.02**2 * MU * (stretch**-2 - stretch)  # nominal stress of uniaxial compression times the rest area
    assert -result.obstacle_forces[0, 0, 2] == pytest.approx(force, rel=1e-6)
    assert np.abs(result.obstacle_forces[0, 0, :2]).max() < 1e-9 * force
    assert result.grip_force[0, 0] == pytest.approx(force, rel=1e-6)
    pressures = result.extra["contact_pressures"][0][bottom]
    assert pressures == pytest.approx(np.full(len(bottom), force / 0.02**2 * stretch), rel=1e-5)  # true pressure
    assert result.reactions[0].sum(axis=0)[2] == pytest.approx(result.obstacle_forces[0, 0, 2], rel=1e-6)
    assert result.contact_forces[0].sum(axis=0) == pytest.approx(-result.obstacle_forces[0, 0], abs=1e-9 * force)
    moment = result.obstacle_moments[0, 0]
    half = 0.5 * at[:, 0].max()
    assert moment[1] == pytest.approx(-result.obstacle_forces[0, 0, 2] * half, rel=1e-5)
    assert result.crossings[0] == 0
    assert result.max_penetration[0] < 0.01 * 0.02 / 3


def test_a_robot_at_rest_feels_nothing():
    robot = _robot(fixed=True)
    env = Environment(
        obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1)), Obstacle.box((0.0205, 0, 0), (0.04, 0.02, 0.02))]
    )
    result = geosim.solve(robot, Passive(), env)
    # what rounding moves, 1e-16 of the size, is all that may press: the square of nothing, in N
    assert np.abs(result.contact_forces).max() < 1e-20
    assert result.contact_count[0] == 0
    assert np.abs(result.frames[0] - robot.vertices).max() < 1e-12


@pytest.mark.parametrize(("element", "own"), [("p1", False), ("p2", False), ("p1", True), ("p2", True)])
@pytest.mark.parametrize(
    "obstacle",
    [
        Obstacle.plane((0, 0, -1e-4), (0, 0.05, 1), friction=0.4, motion=[[0.001, 0, 0.002]]),
        Obstacle.sphere((0.01, 0.01, -0.0121), 0.012, friction=0.4, motion=[[0, 0, 0.002]]),
        Obstacle.cylinder((0.01, -0.01, -0.0061), (0.01, 0.03, -0.0061), 0.006, motion=[[0, 0, 0.001]]),
    ],
)
def test_tangent_is_the_derivative_of_the_forces(element, own, obstacle):
    if not own:
        obstacle = replace(obstacle, friction=0.0)  # with friction that is not its own the matrix is an upper bound
    robot = _robot((2, 2, 2), fixed=True)
    solver = geosim.EnergyShapeSolver(element=element)
    state = solver.start(robot, Environment(obstacles=obstacle))
    state, report = solver.step(state, solver.commands(robot, Passive())[0])
    assert report.reached
    rng = np.random.default_rng(0)
    x = state.point.x + 1e-4 * rng.normal(size=state.point.x.shape)
    target = replace(state.target, contact_state=replace(state.target.contact_state, own=own))
    at = lambda y, matrix=False: solver._newton.evaluate(  # noqa: E731
        state.problem, replace(state.point, x=y), target, matrix=matrix
    )
    evaluation = at(x, True)
    assert evaluation.contact.count > 0
    evaluation = state.problem.sharpened(evaluation)
    pattern = evaluation.sparsity
    upper = sparse.csr_matrix((evaluation.data, pattern.indices, pattern.indptr), shape=(pattern.size, pattern.size))
    matrix = upper + sparse.triu(upper, 1).T
    for _ in range(2):
        d = rng.normal(size=x.shape)
        want = (at(x + 1e-7 * d).force - at(x - 1e-7 * d).force) / 2e-7
        got = matrix @ np.concatenate([d.ravel(), np.zeros(pattern.size - d.size)])
        if own:  # what is unsymmetric is not in the matrix
            state.problem.contact.apply_slides(evaluation.contact, np.ones(d.size, dtype=bool), d.ravel(), got)
        got = got[: d.size].reshape(d.shape)
        assert got == pytest.approx(want, abs=2e-6 * np.abs(want).max())


def test_force_is_the_gradient_of_the_energy():
    robot = _robot((2, 2, 2), fixed=True)
    solver = geosim.EnergyShapeSolver()
    state = solver.start(
        robot, Environment(obstacles=Obstacle.sphere((0.01, 0.01, -0.0121), 0.012, motion=[[0, 0, 0.002]]))
    )
    state, _ = solver.step(state, solver.commands(robot, Passive())[0])
    problem, x, contact_state = state.problem, state.point.x, state.target.contact_state
    at = lambda y: problem.contact.evaluate(y, contact_state, matrix=False)  # noqa: E731
    step = np.random.default_rng(1).normal(size=x.shape)
    step[:, :2] *= 0.01  # the share of an edge that looks at the sphere is a weight, not a part of the energy
    change = (at(x + 1e-6 * step).energy - at(x - 1e-6 * step).energy) / 2e-6
    assert change == pytest.approx(float(np.sum(at(x).force * step)), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.3, 0.6])
def test_stick_then_slip_at_the_coefficient(mu):
    """A flat pad on a sliding floor: elastic first, then the force stays at mu times the normal force."""
    steps = 7
    robot = _robot((5, 3, 2), (0.03, 0.02, 0.004), fixed=True)
    motion = np.zeros((steps, 3))
    motion[:, 2] = 0.0004
    motion[1:, 0] = np.linspace(0.0003, 0.0024, steps - 1) * mu / 0.3
    env = Environment(obstacles=Obstacle.plane((0, 0, -1e-5), (0, 0, 1), friction=mu, motion=motion))
    result = geosim.solve(robot, Passive(steps=steps), env, solver=geosim.EnergyShapeSolver(invariants="isochoric"))
    force = result.obstacle_forces[:, 0]
    assert len(result.trace) < 60 * steps  # a face that slides as a whole does not crawl
    ratio = -force[:, 0] / -force[:, 2]
    assert abs(ratio[0]) < 0.01
    assert 0.02 < abs(ratio[1]) < 0.95 * mu  # it sticks: the shear is the pad's own
    assert abs(ratio[-1]) == pytest.approx(mu, rel=0.02)
    assert abs(ratio[-2]) == pytest.approx(mu, rel=0.02)
    assert result.extra["slip_ratio"].max() <= 1.0 + 1e-4
    assert np.sign(force[-1, 0]) == -1.0  # the pad holds the floor back
    # before it slides the pad holds on sideways, too: its diagonals all run one way; friction then opposes the motion alone
    assert abs(force[-1, 1]) < 1e-4 * abs(force[-1, 2])


@pytest.mark.slow
def test_work_of_a_rough_floor_is_stored_or_lost_to_friction():
    """Pressed, dragged and dragged back: the integral of force over the floor's motion is `work`, to 1e-3."""
    robot, press, drag = _robot((2, 1, 1), (0.03, 0.02, 0.004), fixed=True), 8, 16
    motion = np.zeros((press + 2 * drag, 3))
    motion[:, 2] = 0.0004 * np.minimum(np.arange(1, len(motion) + 1) / press, 1.0)
    motion[press:, 0] = np.interp(np.arange(1, 2 * drag + 1), [0, drag, 2 * drag], [0.0, 0.0024, -0.0012])
    env = Environment(obstacles=Obstacle.plane((0, 0, -1e-5), (0, 0, 1), friction=0.3, motion=motion))
    result = geosim.solve(robot, Passive(steps=len(motion)), env, solver=geosim.EnergyShapeSolver(element="p1"))
    forces = np.vstack([np.zeros((1, 3)), result.obstacle_forces[:, 0]])  # on the floor: it pushes against them
    ways = np.diff(motion, axis=0, prepend=0.0)
    done = np.cumsum(-0.5 * np.sum((forces[1:] + forces[:-1]) * ways, axis=1))
    for frame in (press + drag - 1, -1):
        assert result.work[frame] == pytest.approx(done[frame], rel=1e-3)
    lost = result.friction_work
    assert lost[-1] > lost[press + drag - 1] > 0.3 * done[press + drag - 1], "most is lost, both ways"
    np.testing.assert_allclose(result.grip_force[:, 0], -result.obstacle_forces[:, 0, 2], rtol=1e-9)  # without friction
    onward = result.solver.start(robot, env, result.state).frame
    assert onward.extra["friction_work"] == lost[-1], "what was lost stays lost where a solve goes on"


def test_overlap_is_refused_with_vertices():
    robot = _robot(fixed=True)
    with pytest.raises(
        geosim.InputError, match=r"obstacles\[0\]: the sphere overlaps the robot at rest by 1 mm, at vertices"
    ):
        geosim.solve(robot, Passive(), Environment(obstacles=Obstacle.sphere((0.01, 0.01, -0.009), 0.01)))


def test_unknown_pairs_are_refused():
    robot = _robot(fixed=True)
    with pytest.raises(geosim.InputError, match="'skin', 'chamber 1'"):
        geosim.solve(robot, Passive(), Environment(exclude_pairs=[("skin", "nose")]))
    with pytest.raises(geosim.InputError, match="contact_thickness"):
        geosim.EnergyShapeSolver(contact_thickness=2.0)


@pytest.mark.slow
def test_rounds_of_friction_do_not_shorten_increments(monkeypatch):
    """A ball that presses between the points of a skin, where friction needs many rounds: few increments all the same.

    How far a prediction was off is told by the first round, which corrects it; the further ones begin beside the equilibrium.
    """
    half, inner = np.array([10e-3, 7e-3, 9e-3]), np.array([6e-3, 3.5e-3, 5.5e-3])
    body, chamber = (trimesh.creation.box(extents=2.0 * size) for size in (half, inner))
    robot = geosim.VolumetricRobot.from_surfaces(
        body,
        [chamber],
        material="dragon-skin-10-dubied2022",
        max_edge=6e-3,
        fixed=geosim.Select.plane("x", below=1e-5 - half[0]),
    )
    ball = Obstacle.sphere((8.2e-3, 0.0, -18e-3), 8e-3, friction=0.4)
    outcomes, found = [], EquilibriumSearch.equilibrium

    def watched(self, problem, start, aim, budget, *, along=None, **how):
        outcome = found(self, problem, start, aim, budget, along=along, **how)
        outcomes.append((start, along, outcome))
        return outcome

    monkeypatch.setattr(EquilibriumSearch, "equilibrium", watched)
    result = geosim.solve(
        robot,
        geosim.Inflation(volume_ratio=5.0),
        Environment(obstacles=ball),
        solver=EnergyShapeSolver(element="p1", check_stability=False),
    )
    assert result.max_penetration[-1] < 1e-4
    assert np.linalg.norm(result.obstacle_forces[-1, 0]) > 0.1
    touching = [found for found in outcomes if found[2].evaluation.contact is not None]  # None: elements folded
    rounds = [
        (start, outcome) for start, along, outcome in touching if along is None and outcome.evaluation.contact.count
    ]
    assert all(outcome.start is start for start, outcome in rounds)
    assert any(outcome.effort < outcome.iterations for _, outcome in rounds)
    assert len(result.trace) < 150


@pytest.mark.parametrize("force", [1e-4, 1e-2, 0.3])
def test_the_law_is_linearised_where_it_has_the_force_that_a_step_foretold(force):
    """A force that does not depend on the place is found in two steps from however deep; the law's own tangents halve u."""
    u = np.array([5.0, 0.0])
    at = linearised_at(None, u)
    assert at[0] == u[0]
    assert np.isnan(at[1])
    value, slope, _ = soft_law(u[0])
    u = np.array([u[0] + (force - value) / slope, 0.0])
    at = linearised_at(at, u)
    assert soft_law(at[0])[0] == pytest.approx(
        max(force, soft_law(0.1 * u[0])[0]), rel=1e-9
    )  # no less than a tenth of u
    value, slope, _ = soft_law(at[0])
    found = at[0] + (force - value) / slope
    if force > 1e-3:
        assert soft_law(found)[0] == pytest.approx(force, rel=1e-9)
        assert soft_law(u[0])[0] > force  # where the law's own tangent leads


@pytest.mark.parametrize("radius", [6e-3, 0.1])
def test_what_meets_an_obstacle_balances_in_a_few_steps(monkeypatch, radius):
    """A beam sinks onto a ball, small or large beside its faces: 6 and 3 steps, 11 and 5 by the law's own tangents."""
    vertices, tets = block((0.1, 0.01, 0.01), (10, 1, 1))
    robot = geosim.VolumetricRobot.from_tets(
        vertices,
        tets,
        material=geosim.NeoHookean(mu=50e3),
        fixed=vertices[:, 0] < 1e-9,
        tip=vertices[:, 0] > 0.1 - 1e-9,
    )
    loads = geosim.Load.force(robot.tip, [[0.0, 0.0, -5e-3], [0.0, 0.0, -6.5e-3]])
    solver = EnergyShapeSolver(element="p1")
    free = geosim.solve(robot, Passive(), Environment(loads=geosim.Load.force(robot.tip, (0, 0, -5e-3))), solver=solver)
    under = free.frames[0][robot.tip][:, 2].min()
    ball = Obstacle.sphere((0.095, 0.005, under - 2e-4 - radius), radius)

    def steps():
        result = geosim.solve(robot, Passive(), Environment(loads=loads, obstacles=ball), solver=solver)
        assert result.contact_count[-1] > 0
        return result.frames[-1], sum(record["command"] == 1 for record in result.trace if "iteration" in record)

    frame, few = steps()
    monkeypatch.setattr(newton_solve, "linearised_at", lambda before, u: np.where(u > 0.0, u, np.nan))
    same, many = steps()
    assert same == pytest.approx(frame, abs=1e-6 * robot.size)
    assert many > few
