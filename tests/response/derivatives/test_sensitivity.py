"""Sensitivities are the central differences of states that are solved again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Load, Obstacle, generate
from geosim.measures.spine import moved_spine, spine
from geosim.measures.turning import bending
from geosim.response.derivatives.parameters import KNOWN_PARAMETERS
from geosim.response.derivatives.quantities import ContactConfiguration, quantity
from geosim.response.derivatives.rest_shape import design_motion
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.problem import make_problem
from geosim.shape.energy.states.configuration import ArcLengthConstraint
from geosim.shape.energy.states.last_evaluation import LastEvaluation

SHARP = EnergyShapeSolver(tolerance=1e-11, check_stability=False)
ALONE = Environment(self_contact=False)
RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)


def _finger(material=RUBBER, chamber=True):
    """A bar of 4 x 3 x 3 cells with a cavity off its middle, which bends when it is inflated."""
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    vertices[vertices[:, 2] > 0.0079, 2] += 0.002
    middle = vertices[tets].mean(axis=1)
    inside = (np.abs(middle - (0.02, 0.006, 0.007)) < (0.01, 0.002, 0.003)).all(axis=1)
    regions = inside.astype(int) if chamber else None
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.04 - 1e-9
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=ends[0], tip=ends[1])


def _values(result):
    return {
        "tip": result.tip[-1],
        "bend_angle": result.bend_angle[-1],
        "chamber_pressures": result.chamber_pressures[-1],
        "chamber_volumes": result.chamber_volumes[-1],
    }


def _agree(result, to, sides, step, pick=lambda jacobian: jacobian, tolerance=1e-5, of=None):
    one, other = (_values(side) for side in sides)
    for name in of or one:
        difference = (np.asarray(one[name]) - np.asarray(other[name])) / (2.0 * step)
        found = pick(geosim.sensitivity(result, name, to).jacobian)
        size = max(np.abs(difference).max(), 1e-7 * np.abs(one[name]).max() / step)  # differences of what stays
        np.testing.assert_allclose(found, difference, atol=tolerance * size, err_msg=f"{name} by {to}")


ACTS = {"volume_ratio": (1.3, 1e-4), "pressure": (4e3, 4.0)}


@pytest.mark.parametrize("control", ACTS)
def test_every_measure_by_controls_materials_and_loads(control):
    """Measured: 1e-6 and better."""
    robot, (level, step) = _finger(), ACTS[control]
    environment = Environment(gravity=(0, 0, -9.81), loads=Load.force(robot.tip, (0.0, 0.01, 0.02)))
    solve = lambda r=robot, d=0.0, e=environment: geosim.solve(  # noqa: E731
        r, geosim.Inflation(**{control: level + d}), e, solver=SHARP
    )
    result = solve()
    _agree(result, control, (solve(d=step), solve(d=-step)), step, lambda j: j[..., 0])
    soft = lambda h: solve(robot.with_materials(replace(RUBBER, c1=RUBBER.c1 + h)))  # noqa: E731
    _agree(result, "material.c1", (soft(40.0), soft(-40.0)), 40.0)
    loaded = lambda h: solve(e=replace(environment, loads=Load.force(robot.tip, (0.0, 0.01 + h, 0.02))))  # noqa: E731
    _agree(result, "load:0", (loaded(1e-5), loaded(-1e-5)), 1e-5, lambda j: j[..., 1])
    with pytest.raises(geosim.InputError, match="no chamber has a prescribed"):
        geosim.sensitivity(result, "tip", next(name for name in ACTS if name != control))


@pytest.mark.parametrize(
    ("of", "element"), [("tip", "p2"), ("tip", "p1"), ("chamber_pressures", "p2"), ("chamber_volumes", "p2")]
)
def test_rest_positions_move_supports_volumes_and_loads_along(of, element):
    """A random direction of all vertices; measured: 1e-7."""
    solver = replace(SHARP, element=element)
    robot = _finger()
    environment = Environment(gravity=(0, 0, -9.81), loads=Load.force([robot.tip[0]], (0.0, 0.01, 0.02)))
    solve = lambda r: geosim.solve(r, geosim.Inflation(volume_ratio=1.3), environment, solver=solver)  # noqa: E731
    way, h = np.random.default_rng(0).standard_normal(robot.vertices.shape), 1e-7
    moved = lambda s: solve(replace(robot, vertices=robot.vertices + s * way))  # noqa: E731
    along = lambda jacobian: np.einsum("...ni,ni->...", jacobian, way)  # noqa: E731
    _agree(solve(robot), "vertices", (moved(h), moved(-h)), h, along, of=[of])


def test_a_measure_of_ones_own_and_a_free_body():
    """The squared distance of two vertices; the solution of a free body is turned back, and so is its derivative."""
    robot = replace(_finger(), fixed=np.zeros(0, dtype=np.int64))
    a, b = 3, len(robot.vertices) - 5

    def squared(x):
        gradient = np.zeros_like(x)
        gradient[a], gradient[b] = 2.0 * (x[a] - x[b]), 2.0 * (x[b] - x[a])
        return np.sum((x[a] - x[b]) ** 2), gradient

    solve = lambda p: geosim.solve(robot, geosim.Inflation(pressure=p), solver=SHARP)  # noqa: E731
    result, plus, minus = solve(4e3), solve(4004.0), solve(3996.0)
    found = geosim.sensitivity(result, squared, "pressure").jacobian[0]
    assert found == pytest.approx((squared(plus.frames[-1])[0] - squared(minus.frames[-1])[0]) / 8.0, rel=1e-6)
    tip = geosim.sensitivity(result, "tip", "pressure").jacobian[:, 0]
    difference = (plus.tip[-1] - minus.tip[-1]) / 8.0
    np.testing.assert_allclose(tip, difference, atol=1e-5 * np.abs(difference).max())


@pytest.mark.parametrize("kind", [geosim.CableLengths, geosim.CableTensions])
def test_cables_beside_a_chamber(kind):
    """Two cables, the second of which stays; the chamber's pressure is prescribed. Measured: 1e-6."""
    ways = [[(x, y, z) for x in np.linspace(0.0, 0.04, 5)] for y, z in ((0.006, 0.0125), (0.011, 0.006))]
    robot = replace(_finger(), cables=tuple(geosim.Cable(way) for way in ways))
    level, step = ((0.038, 0.0395), 1e-6) if kind is geosim.CableLengths else ((0.3, 0.1), 1e-4)
    solve = lambda r=robot, d=0.0: geosim.solve(  # noqa: E731
        r, kind([[level[0] + d, level[1]]]) & geosim.Inflation(pressure=4e3), ALONE, solver=SHARP
    )
    result = solve()
    assert (result.cable_tensions[-1] > 0.01).all()
    _agree(result, "cable", (solve(d=step), solve(d=-step)), step, lambda j: j[..., 0])
    soft = lambda h: solve(robot.with_materials(replace(RUBBER, c1=RUBBER.c1 + h)))  # noqa: E731
    _agree(result, "material.c1", (soft(40.0), soft(-40.0)), 40.0)
    with pytest.raises(geosim.InputError, match="not known for robots with cables"):
        geosim.sensitivity(result, "tip", "vertices")


def test_a_slack_cable_answers_to_nothing():
    ways = [[(x, 0.006, 0.0125) for x in np.linspace(0.0, 0.04, 5)]]
    robot = replace(_finger(), cables=(geosim.Cable(ways[0]),))
    result = geosim.solve(robot, geosim.CableLengths(0.05), solver=EnergyShapeSolver(element="p1"))
    assert (geosim.sensitivity(result, "tip", "cable").jacobian == 0.0).all()


def test_closed_gas_is_a_spring():
    """Measured: 1e-6."""
    robot = _finger()

    def solve(d=0.0, c1=RUBBER.c1):
        environment = Environment(loads=Load.force(robot.tip, (0.0, 0.01, -0.2 + d)), self_contact=False)
        soft = robot.with_materials(replace(RUBBER, c1=c1))
        return geosim.solve(soft, geosim.Inflation(gas=True, extra_volume=2e-6), environment, solver=SHARP)

    result = solve()
    _agree(result, "load:0", (solve(1e-5), solve(-1e-5)), 1e-5, lambda j: j[..., 2])
    _agree(result, "material.c1", (solve(c1=RUBBER.c1 + 40.0), solve(c1=RUBBER.c1 - 40.0)), 40.0)
    with pytest.raises(geosim.InputError, match="no chamber has a prescribed"):
        geosim.sensitivity(result, "tip", "pressure")


def _pressed(friction, obstacle, groups, element="p2"):
    robot = _finger(chamber=False)
    shapes = {
        "sphere": Obstacle.sphere((0.03, 0.006, -0.0105), 0.01, friction=friction),
        "edge": Obstacle.plane((0.04, 0.0, -0.0005), (0, 0.02, 1), friction=friction),
        # between the points of the skin, on flat faces and on quadratic ones
        "faces": Obstacle.sphere((0.0345, 0.0055, -0.0028), 0.0025, friction=friction),
        "needle": Obstacle.sphere((0.0344, 0.0056, -0.0007), 0.0004, friction=friction),
    }
    environment = Environment(
        loads=Load.force(robot.tip, (0.02, 0.0, -0.2)), obstacles=shapes[obstacle], rigid_groups=groups
    )
    return geosim.solve(robot, geosim.Passive(), environment, solver=replace(SHARP, element=element))


PLATE = geosim.RigidGroup(geosim.Select.plane("x", above=0.0299))


CONTACTS = [
    (0.0, "sphere", (), "p2"),
    (0.6, "sphere", (), "p2"),
    pytest.param(0.05, "edge", (), "p2", marks=pytest.mark.slow),
    (0.0, "sphere", PLATE, "p2"),
    (0.6, "faces", (), "p1"),
    (0.05, "faces", (), "p1"),
    pytest.param(0.05, "needle", (), "p2", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("friction", "obstacle", "groups", "element"), CONTACTS)
def test_contact_with_the_history_of_the_increment_held(friction, obstacle, groups, element):
    """Equilibria are found again from the same anchors; points slip at 0.05. Measured: 2e-5 and better."""
    result = _pressed(friction, obstacle, groups, element)
    by_faces = result.state.problem.contact.evaluate(
        result.state.point.x, result.state.target.contact_state, matrix=False
    ).by_faces
    assert by_faces.any() == (obstacle in ("faces", "needle"))
    state, target = result.state, result.state.target
    problem, newton = state.problem, EquilibriumSearch(SHARP.tolerance, SHARP.max_iterations)

    def again(changed, problem=problem):
        found = newton.equilibrium(
            problem, state.point, ArcLengthConstraint(changed, changed, 1.0, changed.contact_state), Budget()
        )
        contact_state = replace(found.target.contact_state, own=friction > 0.0)
        return ContactConfiguration(problem, found.point, contact_state)

    def moved(h):
        poses = target.contact_state.poses.copy()
        poses[0, :3, 3] += h * np.array([0.6, 0.0, 0.8])
        return replace(target, contact_state=target.contact_state.at(poses))

    def loaded(h):
        external = target.external.copy()
        external[: len(problem.nodes), 2] += h * problem.load_shapes[0][0][problem.nodes] / problem.force_unit
        return replace(target, external=external)

    ways = {"obstacle:0": (moved, 3e-8, (0.6, 0.0, 0.8)), "load:0": (loaded, 1e-5, (0.0, 0.0, 1.0))}
    for to, (change, h, way) in ways.items():
        sides = again(change(h)), again(change(-h))
        for of in ("tip", "bend_angle", "obstacle_forces", "grip_force"):
            value = quantity(of, problem, sides[0]).value
            difference = (value(sides[0]) - value(sides[1])) / (2.0 * h)
            found = geosim.sensitivity(result, of, to)
            assert found.history_frozen == (friction > 0.0)
            error = np.abs(found.jacobian @ np.array(way) - difference).max()
            assert error < 1e-4 * np.abs(difference).max(), (of, to, error / np.abs(difference).max())
    assert ("rough obstacle" in geosim.sensitivity(result, "tip", "obstacle:0").note) == (friction > 0.0)
    if friction == 0.0:
        with pytest.raises(geosim.InputError, match="at the coefficient 0"):
            geosim.sensitivity(result, "tip", "friction:0")
        return
    h, contact = 1e-3 * friction, problem.contact
    others = [contact.obstacles._replace(friction=np.array([friction + s * h])) for s in (1.0, -1.0)]
    beside = [replace(problem, contact=replace(contact, obstacles=o), latest=LastEvaluation()) for o in others]
    sides = [again(target, other) for other in beside]
    for of in ("tip", "obstacle_forces"):
        value = quantity(of, problem, sides[0]).value
        difference = (value(sides[0]) - value(sides[1])) / (2.0 * h)
        found = geosim.sensitivity(result, of, "friction:0").jacobian
        np.testing.assert_allclose(found, difference, atol=1e-4 * np.abs(difference).max(), err_msg=of)


@pytest.mark.slow
def test_a_wall_of_a_design_on_the_moved_mesh():
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot("dragon-skin-10-dubied2022", max_edge=12e-3)
    motion, h = design_motion(robot, "wall"), 2e-7
    solve = lambda d: geosim.solve(  # noqa: E731
        replace(robot, vertices=robot.vertices + d * motion), geosim.Inflation(pressure=2e3), solver=SHARP
    )
    _agree(solve(0.0), "design.wall", (solve(h), solve(-h)), h, of=["tip", "chamber_volumes"])
    thicker = generate.pneunet(chambers=1, chamber_length=12e-3, wall=2.1e-3)
    mine = motion * 1e-4 + robot.vertices
    corner = np.abs(thicker.chambers[0].vertices[:, None] - mine[None]).max(axis=2).min(axis=1)
    assert corner.max() < 1e-9, "vertices of the chamber go where the design puts them"


def test_the_bend_angle_by_a_wall_keeps_the_windows_of_the_line():
    """Measured: 2e-6, P1."""
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot("dragon-skin-10-dubied2022", max_edge=20e-3)
    motion, h, line = design_motion(robot, "wall"), 2e-7, spine(robot)
    moved = lambda d: replace(robot, vertices=robot.vertices + d * motion)  # noqa: E731
    solver = replace(SHARP, element="p1")
    solve = lambda d: geosim.solve(moved(d), geosim.Inflation(pressure=8e3), solver=solver)  # noqa: E731
    bend = lambda d: np.linalg.norm(bending(moved_spine(moved(d), line), solve(d).frames[-1]))  # noqa: E731
    found = geosim.sensitivity(solve(0.0), "bend_angle", "design.wall").jacobian
    assert found == pytest.approx((bend(h) - bend(-h)) / (2.0 * h), rel=1e-4)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_a_moved_mesh_is_solved_like_one_made_anew(element):
    """With another mesh's numbers and units, the robot has its own masses, volumes, areas, energy and forces."""
    robot, order = _finger(), int(element[1])
    environment = Environment(gravity=(0, 0, -9.81), obstacles=Obstacle.sphere((0.03, 0.006, -0.0105), 0.01))
    places = 1.1 * robot.vertices + 2e-4 * np.sin(300.0 * robot.vertices[:, [1, 2, 0]])
    moved, anew = robot.moved(places), replace(robot, vertices=places)
    own = make_problem(robot, environment, order, "auto")
    like = make_problem(moved, environment, order, "auto", like=own, apart=True)
    fresh = make_problem(anew, environment, order, "auto")
    assert like.length == own.length != fresh.length
    stretched = fresh.to_metres(fresh.rest) * [1.02, 1.0, 0.95] - [0.0, 0.0, 8e-4]
    forces, energies = [], []
    for problem in (like, fresh):
        x, p = problem.scaled(stretched), np.full(len(problem.pressure_vertices), 2e3 / problem.stress)
        grip = problem.contact.start(x)
        found = problem.evaluate(
            x, p, np.full(1, 1e3 / problem.stress), problem.external_forces(0), matrix=True, contact_state=grip
        )
        assert (found.contact.push > 0).any()
        forces.append(found.force * problem.force_unit)
        energies.append(found.energy * problem.stress * problem.length**3)
    np.testing.assert_allclose(forces[0], forces[1], atol=1e-9 * np.abs(forces[1]).max())
    assert energies[0] == pytest.approx(energies[1], rel=1e-9)


def test_what_cannot_be_derived_is_named():
    result = geosim.solve(_finger(), geosim.Inflation(volume_ratio=1.1), solver=EnergyShapeSolver(element="p1"))
    for of, to, words in (
        ("tip", "cable", "no cables"),
        ("tip", "material.c9", "no body has this constant"),
        ("tip", "material.bulk_modulus", "infinite"),
        ("tip", "load:0", "0 loads"),
        ("tip", "obstacle:0", "0 obstacles"),
        ("tip", "design.wall", "not made from a design"),
        ("tip", "wall", KNOWN_PARAMETERS[:10]),
        ("tips", "vertices", "no measure"),
        ("obstacle_forces", "volume_ratio", "no obstacle"),
        (lambda: None, "volume_ratio", "called with one argument"),
        (lambda x: x, "volume_ratio", "returns .* and not"),
    ):
        with pytest.raises(geosim.InputError, match=words):
            geosim.sensitivity(result, of, to)


@pytest.mark.parametrize("element", ["p2", "p1"])
@pytest.mark.parametrize("control", ACTS)
def test_forces_of_supports(control, element):
    """The tip is held, a load pushes at the held and at free vertices; the gauge reads what a Prescribed takes up."""
    robot, (level, step) = _finger(), ACTS[control]
    solver = replace(SHARP, element=element)
    held = geosim.Prescribed(robot.tip, (0.0, np.nan, 0.0))
    middle = np.flatnonzero(np.abs(robot.vertices[:, 0] - 0.02) < 1e-9)
    pushed = np.union1d(robot.tip, middle)
    around = Environment(
        gravity=(0, 0, -9.81), loads=[Load.force(pushed, (0.0, 0.01, 0.02))], prescribed=held, self_contact=False
    )
    solve = lambda r=robot, d=0.0, e=around: geosim.solve(  # noqa: E731
        r, geosim.Inflation(**{control: level + d}), e, solver=solver
    )
    result = solve()
    assert geosim.sensitivity(result, "blocked_force", control).value == pytest.approx(result.blocked_force[-1])

    def wrench(found):
        ids = robot.fixed
        arm = robot.vertices[ids] - robot.vertices[ids].mean(axis=0)
        force = found.reactions[-1][ids]
        return force.sum(axis=0), np.cross(arm, force).sum(axis=0)

    whole = geosim.sensitivity(result, "support_wrench", control).value
    assert whole[:3] == pytest.approx(wrench(result)[0], rel=1e-9)
    if element == "p1":  # where mid-edge nodes have no forces that vertices share
        assert whole[3:] == pytest.approx(wrench(result)[1], rel=1e-9)
    sides = {
        control: (solve(d=step), solve(d=-step), step, lambda j: j[..., 0]),
        "material.c1": (
            *(solve(robot.with_materials(replace(RUBBER, c1=RUBBER.c1 + h))) for h in (40.0, -40.0)), 40.0, lambda j: j,
        ),
        "load:0": (
            *(solve(e=replace(around, loads=[Load.force(pushed, (0.0, 0.01 + h, 0.02))])) for h in (1e-4, -1e-4)), 1e-4,
            lambda j: j[..., 1],
        ),
    }  # fmt: skip
    for to, (high, low, h, pick) in sides.items():
        for of in ("blocked_force", "support_wrench"):
            ends = [
                side.blocked_force[-1] if of == "blocked_force" else np.concatenate(wrench(side))
                for side in (high, low)
            ]
            found, difference = pick(geosim.sensitivity(result, of, to).jacobian), (ends[0] - ends[1]) / (2.0 * h)
            read = slice(0, 3 if element == "p2" else 6)
            for part in (slice(0, 3), slice(3, 6)):
                size = np.abs(difference[part]).max(initial=0.0)
                inside = found[part][: read.stop]
                if part.start < read.stop and size > 0.0:
                    np.testing.assert_allclose(inside, difference[part], atol=2e-5 * size, err_msg=f"{of} by {to}")


def test_the_arc_and_the_way_of_the_tip_by_everything():
    """Curvature of the arc and displacement of the tip: by pressure, by a dimension's worth of rest positions."""
    robot = _finger()
    solve = lambda r=robot, p=4e4: geosim.solve(r, geosim.Inflation(pressure=p), ALONE, solver=SHARP)  # noqa: E731

    def read(found):
        r = found.robot
        base, rest = r.vertices[r.fixed].mean(axis=0), r.tip_weights @ r.vertices[r.tip]
        a, b = rest - base, found.tip[-1] - base
        turned = np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        return {
            "tip_displacement": np.linalg.norm(found.tip[-1] - rest),
            "curvature": 2.0 * np.sin(turned) / np.linalg.norm(b),
        }

    result = solve()
    way, h = np.random.default_rng(0).standard_normal(robot.vertices.shape), 1e-7
    moved = [read(solve(replace(robot, vertices=robot.vertices + s * way))) for s in (h, -h)]
    high, low = read(solve(p=40040.0)), read(solve(p=39960.0))
    for of, value in read(result).items():
        found = geosim.sensitivity(result, of, "pressure")
        assert found.value == pytest.approx(value, rel=1e-9)
        assert found.jacobian[0] == pytest.approx((high[of] - low[of]) / 80.0, rel=1e-5)
        by_rest = np.einsum("ni,ni->", geosim.sensitivity(result, of, "vertices").jacobian, way)
        assert by_rest == pytest.approx((moved[0][of] - moved[1][of]) / (2.0 * h), rel=1e-4)


def test_forces_of_supports_that_are_not_there_are_refused():
    result = geosim.solve(_finger(), geosim.Inflation(pressure=1e3), ALONE, solver=SHARP)
    with pytest.raises(geosim.InputError, match="no `Prescribed` holds its tip"):
        geosim.sensitivity(result, "blocked_force", "pressure")
    with pytest.raises(geosim.InputError, match="not known for forces of supports"):
        geosim.sensitivity(result, "support_wrench", "vertices")
