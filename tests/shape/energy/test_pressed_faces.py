"""Follower pressure on faces: closed forms, chambers, finite differences, and the limit of a ring under pressure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bending import BAR_FILE, save_bar
from shapes import block, shell

import geosim
from geosim import EnergyShapeSolver, Environment, InputError, Load, Passive, Select
from geosim.files.robot import load_problem

ALONE = {"self_contact": False}


def bar(size=(0.05, 0.01, 0.01), cells=(5, 1, 1), material=None):
    """A bar along x, held at x = 0, and the faces of its top."""
    points, tets = block(size, cells)
    robot = geosim.VolumetricRobot.from_tets(
        points,
        tets,
        np.zeros(len(tets), dtype=int),
        material=material or geosim.NeoHookean(30e3),
        fixed=Select.plane("x", below=1e-9),
        tip=Select.plane("x", above=size[0] - 1e-9),
    )
    return robot, robot.skin[(points[robot.skin][..., 2] > size[2] - 1e-9).all(axis=1)]


def moved(result, robot):
    return result.frames[-1] - robot.vertices


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_a_cube_under_pressure_on_all_faces_shrinks_by_its_bulk_modulus(element):
    """J = 1 - p / kappa of a free cube: the true pressure is p, also where the cube is much smaller than at rest."""
    points, tets = block((0.02, 0.02, 0.02), (2, 2, 2), skew=0.1)
    soft = geosim.NeoHookean(30e3, bulk_modulus=3e5)
    robot = geosim.VolumetricRobot.from_tets(points, tets, np.zeros(len(tets), dtype=int), material=soft, fixed=None)
    turned = robot.skin[:, [1, 0, 2]]  # the order of the ids says nothing
    around = Environment(loads=[Load.pressure(turned, [3e4, 9e4])])
    result = geosim.solve(robot, Passive(steps=2), around, solver=EnergyShapeSolver(element=element, tolerance=1e-10))
    assert result.body_volume_ratio == pytest.approx([0.9, 0.7], rel=1e-8)
    assert result.stable == pytest.approx(1.0)


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_pressure_on_the_walls_is_that_of_a_chamber(element):
    """A thick sphere inflated by its chamber, and by the pressure on the same faces with the chamber open to the room."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=geosim.NeoHookean(40e3), fixed=None)
    solver = EnergyShapeSolver(element=element, tolerance=1e-10)
    inflated = geosim.solve(robot, geosim.Inflation(pressure=1.5e4), solver=solver)
    walls = robot.chamber_walls[0]
    pressed = geosim.solve(robot, Passive(), Environment(loads=[Load.pressure(walls, 1.5e4)]), solver=solver)
    np.testing.assert_allclose(pressed.frames[-1], inflated.frames[-1], atol=1e-9)
    assert np.abs(moved(inflated, robot)).max() > 1e-3
    both = Environment(loads=[Load.pressure(walls, 0.5e4)])
    shared = geosim.solve(robot, geosim.Inflation(pressure=1e4), both, solver=solver)
    np.testing.assert_allclose(shared.frames[-1], inflated.frames[-1], atol=1e-9)


def tube(inner, outer, around=6, layers=4):
    """A quarter of a slice of a thick-walled tube between two plates: mesh, faces of the bore, supports."""
    points, tets = block((1.0, 1.0, 0.1), (layers, around, 1))
    radius, angle = inner + (outer - inner) * points[:, 0], 0.5 * np.pi * points[:, 1]
    vertices = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), 0.02 * points[:, 2]])
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, np.zeros(len(tets), dtype=int), material=geosim.NeoHookean(50e3), fixed=None
    )
    bore = robot.skin[(points[robot.skin][..., 0] < 1e-9).all(axis=1)]
    held = [("x", 1.0, 1), ("y", 0.0, 1), ("z", 0.0, 2), ("z", 0.1, 2)]
    supports = []
    for name, level, column in held:
        step = np.full(3, np.nan)
        step["xyz".index(name)] = 0.0
        supports.append(geosim.Prescribed(np.flatnonzero(np.abs(points[:, column] - level) < 1e-9), step))
    return robot, bore, supports


def test_a_thick_walled_tube_has_its_closed_form():
    """Plane strain of a neo-Hookean tube, p = mu (ln(k_a / k_b) + (1/k_b^2 - 1/k_a^2) / 2) with the stretches k of its radii.

    The rim slides in four planes. The bore of 6 straight edges is 1 % off.
    """
    inner, outer, mu = 0.01, 0.02, 50e3
    robot, bore, supports = tube(inner, outer)
    a = 1.4 * inner
    b = np.sqrt(outer**2 + a**2 - inner**2)
    ka, kb = a / inner, b / outer
    p = mu * (np.log(ka / kb) + 0.5 * (kb**-2 - ka**-2))
    around = Environment(loads=[Load.pressure(bore, p)], prescribed=supports, **ALONE)
    result = geosim.solve(robot, Passive(), around, solver=EnergyShapeSolver(tolerance=1e-9))
    for rest, now in ((inner, a), (outer, b)):
        ring = np.abs(np.linalg.norm(robot.vertices[:, :2], axis=1) - rest) < 1e-9
        assert np.linalg.norm(result.frames[-1][ring, :2], axis=1) == pytest.approx(now, rel=0.02)
    assert result.stable[-1] == 1.0  # it has a potential


@pytest.mark.parametrize("element", ["p2", "p1"])
@pytest.mark.parametrize("rim", ["loose", "closed"])
def test_the_tangent_is_the_derivative_of_the_forces(element, rim):
    """Central differences on a crumpled bar; the loose rim's part is beside the matrix."""
    robot, top = bar(cells=(3, 2, 2))
    load = Load.pressure(top if rim == "loose" else robot.skin, 7e3)
    state = EnergyShapeSolver(element=element).start(robot, Environment(loads=[load], **ALONE))
    problem, rng = state.problem, np.random.default_rng(0)
    constraints = problem.constraints
    x = problem.rest + 2e-2 * rng.standard_normal(problem.rest.shape)
    way, h = rng.standard_normal(x.shape), 1e-5
    free = ~problem.held[: x.size].reshape(-1, 3)
    way *= free  # a rim that is held does not move
    p, zero, force = np.zeros(len(problem.pressure_vertices)), np.zeros_like(x), constraints.steady_forces

    def at(x, force, matrix=False):
        return problem.evaluate(x, p, force, zero, matrix=matrix, hold=state.point.hold)

    def push(x):  # of the pressure alone
        return at(x, force).force - at(x, 0.0 * force).force

    here, bare = at(x, force, matrix=True), at(x, 0.0 * force, matrix=True)
    product = problem.pattern.product(here.data - bare.data, np.r_[way.ravel(), 0.0 * p])[: x.size].reshape(x.shape)
    beside = constraints.turn(x, force, constraints.first_modes, way)
    numeric = (push(x + h * way) - push(x - h * way)) / (2.0 * h)
    assert np.abs((product + beside - numeric)[free]).max() < 1e-6 * np.abs(numeric).max()
    assert constraints.rough == (rim == "loose")
    if rim == "closed":
        slope = (at(x + h * way, force).scalars[-1] - at(x - h * way, force).scalars[-1]) / (2.0 * h)
        assert np.sum(here.gradients[-1] * way) == pytest.approx(slope, rel=1e-6)
        assert not beside.any()
    else:
        assert np.abs(beside).max() > 1e-3 * np.abs(numeric).max()


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_a_rim_in_planes_leaves_a_potential(element):
    """Its slope is the force, in all directions that the planes leave open; four planes, two of them parallel."""
    robot, bore, supports = tube(0.01, 0.02, around=2, layers=1)
    around = Environment(loads=[Load.pressure(bore, 5e3)], prescribed=supports, **ALONE)
    problem = EnergyShapeSolver(element=element).start(robot, around).problem
    rng = np.random.default_rng(0)
    free = ~problem.held[: problem.rest.size].reshape(-1, 3)
    x = problem.rest + 2e-2 * free * rng.standard_normal(problem.rest.shape)
    way, h = free * rng.standard_normal(x.shape), 1e-5
    p, zero, force = np.zeros(len(problem.pressure_vertices)), np.zeros_like(x), problem.constraints.steady_forces
    here, before, after = (problem.evaluate(x + s * h * way, p, force, zero, matrix=False) for s in (0, -1, 1))
    slope = (after.scalars[-1] - before.scalars[-1]) / (2.0 * h)
    assert np.sum(here.gradients[-1] * way) == pytest.approx(slope, rel=1e-7)


def test_pressure_follows_where_a_traction_does_not():
    """A bar that bends far: small pressures act as tractions do; large ones keep at right angles, and bend it farther back."""
    robot, top = bar()

    def tip(load):
        return moved(geosim.solve(robot, Passive(), Environment(loads=[load], **ALONE)), robot)[robot.tip].mean(axis=0)

    small = [tip(load) for load in (Load.pressure(top, 0.1), Load.traction(top, (0.0, 0.0, -0.1)))]
    np.testing.assert_allclose(small[0], small[1], atol=1e-3 * np.abs(small[1]).max())
    large = [tip(load) for load in (Load.pressure(top, 500.0), Load.traction(top, (0.0, 0.0, -500.0)))]
    assert np.linalg.norm(large[0] - large[1]) > 0.03 * np.linalg.norm(large[1])


def test_the_reaction_balances_the_pressure_on_the_deformed_area():
    """Flat faces: the push is the pressure on their vector areas, which the bend turns by tens of degrees."""
    robot, top = bar()
    around = Environment(loads=[Load.pressure(top, 250.0)], **ALONE)
    result = geosim.solve(robot, Passive(), around, solver=EnergyShapeSolver(element="p1", tolerance=1e-10))
    corners = result.frames[-1][top]
    push = -125.0 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).sum(axis=0)
    np.testing.assert_allclose(result.reactions[-1].sum(axis=0), -push, rtol=1e-7, atol=1e-9)
    assert abs(push[0]) > 0.2 * abs(push[2])


def test_sensitivity_to_a_pressure_is_the_difference_of_two_solves():
    """Of a closed set of faces, and of one whose rim moves, in both ways of solving: by columns and by values."""
    robot, top = bar(material=geosim.NeoHookean(30e3, bulk_modulus=3e5))
    sharp = EnergyShapeSolver(tolerance=1e-11)
    loads = lambda p: [Load.force(robot.tip, (0.0, 0.0, 0.01)), Load.pressure(robot.skin, p)]  # noqa: E731
    solve = lambda p: geosim.solve(robot, Passive(), Environment(loads=loads(p), **ALONE), solver=sharp)  # noqa: E731
    found = geosim.sensitivity(solve(2e4), "tip", "load:1").jacobian
    difference = (solve(20010.0).tip[-1] - solve(19990.0).tip[-1]) / 20.0
    np.testing.assert_allclose(found, difference, atol=1e-5 * np.abs(difference).max())
    bend = lambda p: geosim.solve(  # noqa: E731
        robot, Passive(), Environment(loads=[Load.pressure(top, p)], **ALONE), solver=sharp
    )
    loose, sides = bend(400.0), (bend(400.1), bend(399.9))
    difference = (sides[0].tip[-1] - sides[1].tip[-1]) / 0.2
    found = geosim.sensitivity(loose, "tip", "load:0").jacobian
    np.testing.assert_allclose(found, difference, atol=1e-5 * np.abs(difference).max())
    way, h = np.random.default_rng(0).standard_normal(robot.vertices.shape), 1e-7
    shapes = [
        geosim.solve(
            replace(robot, vertices=robot.vertices + s * way),
            Passive(),
            Environment(loads=[Load.pressure(top, 400.0)], **ALONE),
            solver=sharp,
        ).tip[-1]
        for s in (h, -h)
    ]
    found = np.einsum("ani,ni->a", geosim.sensitivity(loose, "tip", "vertices").jacobian, way)
    np.testing.assert_allclose(found, (shapes[0] - shapes[1]) / (2.0 * h), atol=1e-5 * np.abs(found).max())


def test_a_file_has_pressures(tmp_path):
    save_bar(tmp_path)
    text = '[[environment.loads]]\nkind = "pressure"\nfaces = { plane = "z", above = 19.9 }\n'
    (tmp_path / "bar.toml").write_text(f"{BAR_FILE}{text}p = 250\n")
    robot, around, _ = load_problem(tmp_path / "bar.toml")
    (load,) = around.loads
    assert load.kind == "pressure"
    assert load.value == pytest.approx([250.0])
    assert (robot.vertices[load.where][..., 2] > 0.0199).all()
    (tmp_path / "bar.toml").write_text(f"{BAR_FILE}{text}t = [0, 0, 1]\n")
    with pytest.raises(InputError, match='kind = "pressure" needs faces and p'):
        load_problem(tmp_path / "bar.toml")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda r, top: Load.pressure([[0, 1, 2000]], 1.0), "load 1: .* is not a face of the body's surface"),
        (lambda r, top: Load.pressure(np.vstack([top, top[:1, ::-1]]), 1.0), "load 1: a face is named twice"),
        (
            lambda r, top: Load.pressure(r.skin[np.isin(r.skin, r.fixed).all(axis=1)], 1.0),
            "load 1: every vertex that it acts on is held",
        ),
        (lambda r, top: Load.pressure(top, np.nan), "Load.pressure: p"),
        (lambda r, top: Load.pressure(top, [[1.0, 2.0]]), "Load.pressure: p"),
    ],
)
def test_refused_in_one_clear_line(load, message):
    robot, top = bar()
    with pytest.raises(InputError, match=message) as caught:
        geosim.solve(robot, Passive(), Environment(loads=[load(robot, top)]))
    assert "\n" not in str(caught.value)


def test_the_other_solver_of_meshes_refuses_it():
    robot, top = bar()
    with pytest.raises(InputError, match=r"ProjectiveShapeSolver has no .*; use EnergyShapeSolver"):
        geosim.solve(
            robot, Passive(), Environment(loads=[Load.pressure(top, 1.0)]), solver=geosim.ProjectiveShapeSolver()
        )
