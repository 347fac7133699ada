"""Rigid groups: a plate moves as one body, whatever carries it; chambers closed by plates and by planes of symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from shapes import block

import geosim
from geosim import Environment, Inflation, Load, Passive, Prescribed, RigidGroup, Select, VolumetricRobot
from geosim.errors import InputError
from geosim.shape.energy.problem import make_problem

MU = 20e3
RADIUS, LENGTH = 0.01, 0.03
FREE = (np.nan, np.nan, np.nan)


def disc(radii, sectors, turn=2 * np.pi):
    """Points and triangles of a disc, or of a wedge of it, in rings."""
    whole = turn > 6
    angles = turn * np.arange(sectors if whole else sectors + 1) / sectors
    points = [(0.0, 0.0)] + [(r * np.cos(a), r * np.sin(a)) for r in radii for a in angles]
    m = len(angles)
    at = lambda ring, k: 1 + ring * m + (k % m if whole else k)  # noqa: E731
    triangles = [(0, at(0, k), at(0, k + 1)) for k in range(sectors)]
    for i in range(len(radii) - 1):
        for k in range(sectors):
            a, b, c, d = at(i, k), at(i + 1, k), at(i + 1, k + 1), at(i, k + 1)
            triangles += [(a, b, c), (a, c, d)]
    return np.array(points), np.array(triangles)


def stack(flat, triangles, levels):
    """Prisms over triangles between levels, in tets: points, tets, and the triangle of every tet."""
    n = len(flat)
    points = np.vstack([np.column_stack([flat, np.full(n, z)]) for z in levels])
    a, b, c = np.sort(triangles, axis=1).T
    one = [(a, b, c, c + n), (a, b, b + n, c + n), (a, a + n, b + n, c + n)]
    tets = [np.stack(t, axis=1) + n * i for i in range(len(levels) - 1) for t in one]
    return points, np.concatenate(tets), np.tile(np.arange(len(triangles)), 3 * (len(levels) - 1))


def cylinder(sectors=12, layers=6, material=None, **more):
    step = 2 * np.pi / sectors
    radii = RADIUS * np.array([0.5, 1.0]) * np.sqrt(step / np.sin(step))  # the polygon has the area of the circle
    points, tets, _ = stack(*disc(radii, sectors), np.linspace(0, LENGTH, layers + 1))
    return VolumetricRobot.from_tets(
        points, tets, material=material or geosim.NeoHookean(MU), **{"fixed": Select.plane("z", below=1e-9), **more}
    )


TOP = Select.plane("z", above=LENGTH - 1e-9)


def solve(robot, environment, actuation=None, **options):
    solver = geosim.EnergyShapeSolver(
        **{"check_stability": False, "tolerance": 1e-8, "invariants": "isochoric", **options}
    )
    return geosim.solve(robot, actuation or Passive(), environment, solver=solver)


def bar(**more):
    """A bar of Poisson ratio 0 at small strain (bulk modulus 2 mu / 3): bonded ends disturb no uniform state."""
    points, tets = block((0.01, 0.01, LENGTH), (2, 2, 3))
    cork = geosim.NeoHookean(MU, bulk_modulus=10 * MU)
    object.__setattr__(cork, "bulk_modulus", 2 * MU / 3)  # no rubber, so its constructor refuses it
    return VolumetricRobot.from_tets(points, tets, material=cork, **{"fixed": Select.plane("z", below=1e-9), **more})


def test_torsion_of_a_bar_by_its_end():
    """A plate turned by theta: M = pi mu a^4 theta / 2 L and N = -pi mu a^4 theta^2 / 4 L^2 [Rivlin 1949], beyond half a turn."""
    theta = np.array([0.05, 1.0, 2.0, 4.0])
    group = RigidGroup(TOP, displacement=(0, 0, 0), rotation=np.outer(theta, [0, 0, 1.0]))
    result = solve(cylinder(), Environment(rigid_groups=group, self_contact=False), Passive(steps=4), tolerance=1e-6)
    moment, force = result.extra["rigid_moments"][:, 0], result.extra["rigid_forces"][:, 0]
    twist = theta / LENGTH
    assert moment[:, 2] == pytest.approx(np.pi * MU * RADIUS**4 * twist / 2, rel=0.012)
    assert moment[0, 2] == pytest.approx(np.pi * MU * RADIUS**4 * twist[0] / 2, rel=1e-3)
    assert force[:, 2] == pytest.approx(-np.pi * MU * RADIUS**4 * twist**2 / 4, rel=0.02)
    assert np.abs(force[:, :2]).max() < 1e-3 * np.abs(force[:, 2]).max()
    angle = Rotation.from_matrix(result.extra["rigid_poses"][-1, 0, :3, :3]).as_rotvec()
    assert angle == pytest.approx([0, 0, 4.0 - 2 * np.pi], abs=1e-12)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_a_moment_turns_by_what_needs_it(element):
    """The moment that a prescribed rotation needs, given as a load, turns the plate as far; the plate stays rigid."""
    robot = cylinder(8, 3)
    turned = RigidGroup(TOP, displacement=(0, 0, 0), rotation=(0.1, -0.2, 0.7))
    one = solve(robot, Environment(rigid_groups=turned, self_contact=False), element=element)
    loaded = RigidGroup(TOP, force=one.extra["rigid_forces"][0, 0], moment=one.extra["rigid_moments"][0, 0])
    two = solve(robot, Environment(rigid_groups=loaded, self_contact=False), element=element)
    assert Rotation.from_matrix(two.extra["rigid_poses"][0, 0, :3, :3]).as_rotvec() == pytest.approx(
        [0.1, -0.2, 0.7], abs=1e-5
    )
    np.testing.assert_allclose(two.nodes(), one.nodes(), atol=1e-5 * LENGTH)
    plate = np.flatnonzero(TOP(robot.vertices))
    apart = lambda x: np.linalg.norm(x[plate][:, None] - x[plate][None], axis=2)  # noqa: E731
    np.testing.assert_allclose(apart(two.frames[0]), apart(robot.vertices), atol=1e-14)
    assert np.abs(two.extra["rigid_forces"]).max() == 0.0  # nothing supports it
    assert two.reactions[0].sum(axis=0) + one.extra["rigid_forces"][0, 0] == pytest.approx([0, 0, 0], abs=1e-9)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_a_force_at_the_centre_stretches_a_bar(element):
    """u = F L / E A, to the order of the strain."""
    area, force = 1e-4, 1e-5 * MU * 1e-4
    result = solve(
        bar(), Environment(rigid_groups=RigidGroup(TOP, force=(0, 0, force)), self_contact=False), element=element
    )
    pose = result.extra["rigid_poses"][0, 0]
    assert pose[2, 3] == pytest.approx(force * LENGTH / (2 * MU * area), rel=1e-4)
    assert np.abs(pose[:3, :3] - np.eye(3)).max() < 1e-9
    assert result.reactions[0].sum(axis=0) == pytest.approx([0, 0, -force], abs=1e-7 * force)


def test_a_moment_and_an_eccentric_force_bend_a_bar():
    """Slope M L / E I; a force at a point e beside the axis, even outside of the plate, is a force and the moment F e."""
    inertia, moment, arm = 0.01**4 / 12, 1e-4 * MU * 1e-7, 0.02
    by_moment = RigidGroup(TOP, moment=(0, moment, 0))
    by_force = RigidGroup(TOP, force=(0, 0, -moment / arm), point=(0.005 + arm, 0.005, LENGTH))
    for group, element in ((by_moment, "p2"), (by_force, "p2")):
        result = solve(bar(), Environment(rigid_groups=group, self_contact=False), element=element)
        slope = Rotation.from_matrix(result.extra["rigid_poses"][0, 0, :3, :3]).as_rotvec()
        assert slope == pytest.approx([0, moment * LENGTH / (2 * MU * inertia), 0], rel=1e-3, abs=1e-8)


def test_the_plate_is_what_prescribed_vertices_are():
    """Displacements of all of its vertices: the same shape, and reactions that sum to its support."""
    robot, move = cylinder(8, 3), (1e-3, -2e-3, 4e-3)
    group = solve(robot, Environment(rigid_groups=RigidGroup(TOP, move, (0, 0, 0)), self_contact=False))
    plain = solve(robot, Environment(prescribed=Prescribed(TOP, move), self_contact=False))
    np.testing.assert_allclose(group.nodes(), plain.nodes(), atol=1e-7 * LENGTH)
    plate = np.flatnonzero(TOP(robot.vertices))
    assert group.extra["rigid_forces"][0, 0] == pytest.approx(plain.reactions[0, plate].sum(axis=0), rel=1e-5)
    np.testing.assert_allclose(group.reactions, plain.reactions, atol=1e-6 * np.abs(plain.reactions).max())


def test_turning_everything_turns_the_result():
    turn = Rotation.from_rotvec([0.7, -1.1, 0.4]).as_matrix()
    robot = cylinder(8, 3)
    turned = VolumetricRobot.from_tets(
        robot.vertices @ turn.T, robot.tets, material=geosim.NeoHookean(MU), fixed=robot.fixed
    )
    plate = np.flatnonzero(TOP(robot.vertices))
    force, moment = np.array([0.2, 0.4, -0.2]), np.array([3e-3, 1e-3, -2e-3])
    one = solve(robot, Environment(rigid_groups=RigidGroup(plate, force=force, moment=moment), gravity=(0, 0, -9.81)))
    two = solve(
        turned,
        Environment(
            rigid_groups=RigidGroup(plate, force=turn @ force, moment=turn @ moment), gravity=turn @ [0, 0, -9.81]
        ),
    )
    assert np.linalg.norm(one.extra["rigid_poses"][0, 0, :3, :3] - np.eye(3)) > 0.3
    np.testing.assert_allclose(two.frames[0], one.frames[0] @ turn.T, atol=1e-6 * LENGTH)


def test_forces_on_body_and_plate_balance():
    """Weight, load and moment against the reactions, forces and moments, with the plate tilted and half of it guided."""
    robot = cylinder(8, 3)
    group = RigidGroup(TOP, displacement=(np.nan, 1e-3, np.nan), force=(0.05, 0, -0.1), moment=(0, 1e-3, 0))
    load = Load.force(np.flatnonzero(TOP(robot.vertices))[:3], (0.02, 0.01, 0))
    result = solve(robot, Environment(rigid_groups=group, loads=load, gravity=(0, 0, -9.81), self_contact=False))
    x, reactions = result.frames[0], result.reactions[0]
    weight = np.array([0, 0, -9.81 * geosim.NeoHookean(MU).density * robot.body_volume])
    total = reactions.sum(axis=0) + weight + [0.05, 0, -0.1] + [0.02, 0.01, 0]
    assert total == pytest.approx([0, 0, 0], abs=1e-7)
    support = result.extra["rigid_forces"][0, 0]
    assert support[[0, 2]].tolist() == [0.0, 0.0]
    assert abs(support[1]) > 1e-3
    plate = np.flatnonzero(TOP(robot.vertices))
    assert reactions[plate].sum(axis=0) == pytest.approx(support, abs=1e-8)
    pose = result.extra["rigid_poses"][0, 0]
    np.testing.assert_allclose(x[plate], robot.vertices[plate] @ pose[:3, :3].T + pose[:3, 3], atol=1e-14)


def tube(material=None, sectors=8, layers=3, turn=2 * np.pi, radii=(0.005, 0.008, 0.01)):
    """A thick tube with a chamber inside, open at both ends; of a wedge `turn` wide."""
    flat, triangles = disc(np.array(radii), sectors, turn)
    points, tets, kind = stack(flat, triangles, np.linspace(0, LENGTH, layers + 1))
    ring = sectors if turn > 6 else sectors + 1
    inside = triangles.max(axis=1) <= ring
    return VolumetricRobot.from_tets(
        points,
        tets,
        np.where(inside[kind], 1, 0),
        material=material or geosim.NeoHookean(MU),
        fixed=Select.plane("z", below=1e-9),
    )


def test_a_group_may_hold_whole_elements():
    """The upper third of a bar turned as one body leaves the twist to the rest, whatever is inside."""
    theta, robot = 0.5, cylinder(8, 6)
    group = RigidGroup(Select.plane("z", above=LENGTH * 2 / 3 - 1e-9), displacement=(0, 0, 0), rotation=(0, 0, theta))
    result = solve(robot, Environment(rigid_groups=group, self_contact=False))
    exact = np.pi * MU * RADIUS**4 * theta / (2 * LENGTH * 2 / 3)
    assert result.extra["rigid_moments"][0, 0, 2] == pytest.approx(exact, rel=0.01)
    assert result.trace[-1]["perturbed_pivots"] == 0


def capped(**options):
    return Environment(rigid_groups=RigidGroup(TOP, **options), self_contact=False)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("options", [{}, {"displacement": (0, np.nan, np.nan)}, {"rotation": (0, 0, 0)}])
def test_the_reduced_matrix_is_the_second_derivative(order, options):
    """Along a motion of plate, nodes and pressures: d/ds of the residual's work is q . K q, with caps, at a turned place."""
    robot = tube(geosim.MooneyRivlin(c1=8e3, c2=2e3, bulk_modulus=1e6))
    problem = make_problem(robot, capped(**options), order, "superlu")
    rng = np.random.default_rng(0)
    x = problem.settled(
        problem.rest @ Rotation.from_rotvec([0.5, -0.3, 0.2]).as_matrix().T * [1.1, 0.95, 1.05]
        + 2e-3 * rng.standard_normal(problem.rest.shape)
    )
    p, pressures = rng.standard_normal(len(problem.pressure_vertices)), np.array([0.7])
    loads = np.vstack([0.01 * rng.standard_normal(x.shape), 0.1 * rng.standard_normal((1, 3)), np.zeros((1, 3))])
    evaluation = problem.evaluate(x, p, pressures, loads, matrix=True)
    solver = problem.solver_of(evaluation)
    T = solver.reduction.map(evaluation.rigid)
    data = solver.reduction.matrix(evaluation.sparsity, evaluation.data, evaluation.rigid, T)
    pattern = solver.reduction.pattern(evaluation.sparsity)
    for _ in range(4):
        q = rng.standard_normal(solver.reduction.size)
        full = T @ q
        step, dp = full[: x.size].reshape(-1, 3), full[x.size :]
        product = pattern.product(data, q)

        def work(s, q=q, step=step, dp=dp):
            at = problem.evaluate(problem.moved(x, step, s), p + s * dp, pressures, loads, matrix=True)
            residual = np.concatenate([at.force.ravel(), at.constraint])
            return residual @ (solver.reduction.map(at.rigid) @ q)

        h = 1e-6
        assert (work(h) - work(-h)) / (2 * h) == pytest.approx(q @ product, rel=2e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_pressure_on_a_cap(order):
    """At rest it pushes the plate with p A; the volume's gradient is its derivative, wherever the plate is."""
    robot, point = tube(), (0.004, -0.002, 0.5 * LENGTH)  # the reference point is beside the cap
    problem = make_problem(robot, capped(displacement=(0, 0, 0), rotation=(0, 0, 0), point=point), order, "superlu")
    p, zero = np.zeros(len(problem.pressure_vertices)), np.zeros_like(problem.rest)
    at = problem.evaluate(problem.rest, p, np.array([0.4]), zero, matrix=False)
    off = problem.evaluate(problem.rest, p, np.array([0.0]), zero, matrix=False)
    area = 8 * 0.5 * 0.005**2 * np.sin(np.pi / 4) / problem.length**2
    assert (at.rigid.supports - off.rigid.supports)[0, :3] == pytest.approx([0, 0, -0.4 * area], abs=1e-9)
    assert at.scalars[0] == pytest.approx(robot.chamber_volumes[0] / problem.length**3, rel=1e-12)
    assert np.abs(at.gradients[0, np.unique(problem.closed.walls[0][0])]).max() > 0
    free = make_problem(robot, capped(point=point), order, "superlu")
    rng = np.random.default_rng(2)
    x = free.settled(free.rest * [1.1, 0.9, 1.2] + 5e-3 * rng.standard_normal(free.rest.shape))
    evaluation = free.evaluate(x, p, np.zeros(1), zero, matrix=False)
    rim = np.where(free.held[: x.size].reshape(-1, 3), 0.0, 1.0)
    step = rim * rng.standard_normal(x.shape)
    step[free.rigid.nodes[0]] = free.rigid.lifted(x, rng.standard_normal((1, 6)))[free.rigid.nodes[0]]
    h = 1e-5
    plus, minus = (
        free.evaluate(free.moved(x, step, s * h), p, np.zeros(1), zero, matrix=False).scalars[0] for s in (1, -1)
    )
    assert (plus - minus) / (2 * h) == pytest.approx((evaluation.gradients[0] * step).sum(), rel=1e-6)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_a_capped_tube_carries_its_pressure(element):
    """Inflated: reactions of base and plate sum to what the gas does on the fixed cap; work of the gas is the energy."""
    robot = tube()
    result = solve(robot, capped(), Inflation(volume_ratio=[1.2, 1.5, 1.797, 1.8, 1.803]), element=element)
    area = 8 * 0.5 * 0.005**2 * np.sin(np.pi / 4)
    gas = result.chamber_pressures[:, 0] * area  # on the base's cap, which is no part of the body, it pushes down
    assert result.reactions.sum(axis=1)[:, 2] == pytest.approx(-gas, rel=1e-6)
    lift = result.extra["rigid_poses"][:, 0, 2, 3]
    assert (np.diff(lift) > 0).all()
    v, q = result.chamber_volumes[:, 0], result.chamber_pressures[:, 0]
    if element == "p2":  # p1 is stabilised by an energy that is not reported
        assert (result.energies[4] - result.energies[2]) / (v[4] - v[2]) == pytest.approx(q[3], rel=1e-5)


def test_a_disc_carries_a_weight_on_gas():
    """A plate guided along z on a tube: the more it carries the lower it is, and the pressure times area takes it up."""
    robot = tube(radii=(0.008, 0.0085, 0.009))
    weights = np.array([0.0, 0.5, 1.0])
    group = RigidGroup(TOP, (0, 0, np.nan), (0, 0, 0), force=np.outer(weights, [0, 0, -1.0]))
    result = solve(robot, Environment(rigid_groups=group, self_contact=False), Inflation(volume_ratio=[1.3] * 3))
    assert (np.diff(result.extra["rigid_poses"][:, 0, 2, 3]) < 0).all()
    assert (np.diff(result.chamber_pressures[:, 0]) > 0).all()
    assert result.volume_ratios[:, 0] == pytest.approx([1.3] * 3, rel=1e-7)


def test_a_quarter_of_a_tube_is_the_tube():
    """Cut at two planes of symmetry, between smooth plates: p = mu/2 (ln(k_a / k_b) + 1/k_b - 1/k_a), k = (r / R)^2.

    The work of the gas is the energy: the area of the curved caps belongs to the volume.
    """
    robot = tube(sectors=6, layers=1, turn=np.pi / 2, radii=(0.005, 0.006, 0.0075, 0.01))
    x, nan = robot.vertices, np.nan
    sides = [
        Prescribed(Select.plane("x", below=1e-9), (0, nan, nan)),
        Prescribed(Select.plane("y", below=1e-9), (nan, 0, nan)),
        Prescribed(Select.plane("z", below=1e-9), (nan, nan, 0)),
        Prescribed(TOP, (nan, nan, 0)),
    ]
    robot = VolumetricRobot.from_tets(x, robot.tets, robot.regions, material=geosim.NeoHookean(MU), fixed=None)
    ratios = np.array([1.5, 2.497, 2.5, 2.503])
    result = solve(robot, Environment(prescribed=sides, self_contact=False), Inflation(volume_ratio=ratios))
    ka = ratios
    kb = 1 + (ratios - 1) * 0.005**2 / 0.01**2
    exact = MU / 2 * (np.log(ka / kb) + 1 / kb - 1 / ka)
    assert result.chamber_pressures[:, 0] == pytest.approx(exact, rel=0.01)
    assert result.volume_ratios[:, 0] == pytest.approx(ratios, rel=1e-8)
    work = (result.energies[3] - result.energies[1]) / np.diff(result.chamber_volumes[[1, 3], 0])
    assert work == pytest.approx(result.chamber_pressures[2], rel=1e-5)


def test_a_plate_pressed_on_a_ball():
    """An obstacle under the plate takes the force that the plate carries and the bar does not."""
    robot = bar()
    ball = geosim.Obstacle.sphere((0.005, 0.005, LENGTH + 0.02), 0.02)
    group = RigidGroup(TOP, force=(0, 0, 0.05))
    result = solve(robot, Environment(rigid_groups=group, obstacles=ball, self_contact=False), tolerance=1e-6)
    assert result.obstacle_forces[0, 0, 2] == pytest.approx(0.05 + result.reactions[0].sum(axis=0)[2], abs=1e-6)
    assert result.obstacle_forces[0, 0, 2] > 0.02


@pytest.mark.parametrize(("options", "factor"), [({}, 0.25), ({"rotation": (0, 0, 0)}, 1.0)])
def test_a_column_under_a_plate_loses_stability_at_its_euler_load(options, factor):
    """pi^2 E I / L^2 times 1/4 with the plate free, times 1 where it may sway but not tilt; thick, so 10 % below at most."""
    length = 0.1
    points, tets = block((0.01, 0.01, length), (1, 1, 10))
    robot = VolumetricRobot.from_tets(points, tets, material=geosim.NeoHookean(MU), fixed=Select.plane("z", below=1e-9))
    critical = factor * np.pi**2 * 3 * MU * 0.01**4 / 12 / length**2
    top = Select.plane("z", above=length - 1e-9)
    for share, stable in ((0.85, 1.0), (1.1, 0.0)):
        group = RigidGroup(top, force=(0, 0, -share * critical), **options)
        result = geosim.solve(
            robot,
            Passive(),
            Environment(rigid_groups=group, self_contact=False),
            solver=geosim.EnergyShapeSolver(invariants="isochoric", factoriser="auto"),
        )
        if np.isnan(result.stable[-1]):
            pytest.skip("the factoriser does not count negative pivots")
        assert result.stable[-1] == stable


def test_two_bodies_share_a_plate():
    """A bar that nothing holds but a plate bonded to another one is held; its end hangs where the plate says."""
    points, tets = block((0.01, 0.01, LENGTH), (2, 2, 3))
    n = len(points)
    robot = VolumetricRobot.from_tets(
        np.vstack([points, points + [0.02, 0, 0]]),
        np.vstack([tets, tets + n]),
        material=geosim.NeoHookean(MU),
        fixed=np.flatnonzero(points[:, 2] < 1e-9),
    )
    with pytest.raises(InputError, match="load"):
        solve(robot, Environment(gravity=(0, 0, -9.81)))
    result = solve(robot, Environment(gravity=(0, 0, -9.81), rigid_groups=RigidGroup(TOP), self_contact=False))
    weight = 9.81 * geosim.NeoHookean(MU).density * robot.body_volume
    assert result.reactions[0].sum(axis=0) == pytest.approx([0, 0, weight], abs=1e-7 * weight)
    assert not result.state.problem.supports.free_bodies


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        ([RigidGroup([60, 61])], "2 vertices"),
        ([RigidGroup(Select.box((0.005 - 1e-6, -1, 0.02), (0.005 + 1e-6, 1e-6, 1)))], "line"),
        ([RigidGroup(TOP), RigidGroup(TOP)], "belongs to rigid group 1"),
        ([RigidGroup(Select.plane("z", below=1e-9))], "held by"),
        ([RigidGroup(Select.plane("z", above=1.0))], "selects no vertex"),
    ],
)
def test_bad_groups_are_named(groups, match):
    points, tets = block((0.01, 0.01, LENGTH), (2, 2, 6))
    robot = VolumetricRobot.from_tets(points, tets, material=geosim.NeoHookean(MU), fixed=Select.plane("z", below=1e-9))
    with pytest.raises(InputError, match=match) as error:
        solve(robot, Environment(rigid_groups=groups))
    assert "\n" not in str(error.value)


def test_bad_fields_are_named():
    for options in (
        {"rotation": (0, np.nan, 0)},
        {"force": (1, 2)},
        {"displacement": [(0, 0, 0), FREE]},
        {"moment": "much"},
        {"point": (1, 2)},
    ):
        with pytest.raises(InputError, match=f"RigidGroup: {next(iter(options))}"):
            RigidGroup(TOP, **options)
    with pytest.raises(InputError, match="chamber 1 is open"):
        solve(tube(), Environment())
    with pytest.raises(InputError, match="EnergyShapeSolver"):
        geosim.solve(tube(), Inflation(volume_ratio=1.2), capped(), solver=geosim.ProjectiveShapeSolver())
    with pytest.raises(InputError, match="resultant"):
        solve(cylinder(fixed=None), Environment(rigid_groups=RigidGroup(TOP, moment=(0, 0, 1e-3))))


def test_files_hold_rigid_groups(tmp_path):
    """robot.toml in its units, and a result that is read back."""
    import meshio

    robot = cylinder(6, 2)
    meshio.write(tmp_path / "bar.vtu", meshio.Mesh(robot.vertices * 1e3, [("tetra", robot.tets)]))
    (tmp_path / "robot.toml").write_text("""kind = "volumetric"
units = "mm"
[body]
mesh = "bar.vtu"
material = { model = "neo-hookean", mu = 20e3 }
[fixed]
plane = "z"
below = 0.01
[environment]
self_contact = false
[[environment.rigid_groups]]
vertices = { plane = "z", above = 29.99 }
displacement = [0.0, nan, 2.0]
force = [0.0, 0.01, 0.0]
[solver]
element = "p1"
""")
    from geosim.files.robot import load_problem

    robot, environment, solver = load_problem(tmp_path / "robot.toml")
    group = environment.rigid_groups[0]
    assert group.at("displacement", 0) == pytest.approx([0, 0, 2e-3])
    assert group.held.tolist() == [True, False, True, False, False, False]
    result = geosim.solve(robot, Passive(), environment, solver=solver)
    result.save(tmp_path / "result.npz")
    again = geosim.load_result(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.extra["rigid_poses"], result.extra["rigid_poses"])
    assert again.environment.rigid_groups[0].held.tolist() == group.held.tolist()
    pose = result.extra["rigid_poses"][0, 0]
    assert (pose[:3, :3] @ [0, 0, LENGTH] + pose[:3, 3])[[0, 2]] == pytest.approx([0, LENGTH + 2e-3], abs=1e-9)
