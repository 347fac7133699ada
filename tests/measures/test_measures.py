"""Measures of known shapes: rigid motions, arcs, twists, simple states of stress, work and stiffness."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bending import LENGTH, WIDTH, bar_robot, bend, bent_result
from scipy.spatial.transform import Rotation
from shapes import block

import geosim
from geosim import (
    EnergyShapeSolver,
    Environment,
    Inflation,
    InputError,
    Load,
    NeoHookean,
    Obstacle,
    Passive,
    Prescribed,
    Result,
    Select,
    Status,
    VolumetricRobot,
    generate,
    solve,
)
from geosim.measures import turning
from geosim.measures.spine import spine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measures.md"


def shown(robot, *shapes, **given) -> Result:
    """A result of the robot in these shapes."""
    frames = np.array(shapes)
    times = np.arange(1.0, len(frames) + 1.0)
    return Result(Status.CONVERGED, "", True, times, frames, robot, **given)


def twisted(points, angle):
    """The bar twisted about its axis by so much at its end."""
    at, centre = angle * points[:, 0] / LENGTH, np.array([0.0, 0.0, WIDTH / 2])
    turns = Rotation.from_rotvec(np.stack([at, 0 * at, 0 * at], axis=1))
    return turns.apply(points - centre) + centre


def test_a_rigid_motion_turns_the_tip_by_itself_and_bends_nothing():
    robot = bar_robot()
    vectors = np.array([[0.1, 0.2, -0.3], [1.0, -2.0, 0.5], [0.0, 0.0, np.pi]])
    moved = [Rotation.from_rotvec(v).apply(robot.vertices.copy()) + [1.0, 2.0, 3.0] for v in vectors]
    result = shown(robot, *moved)
    np.testing.assert_allclose(result.tip_rotation[:2], vectors[:2], atol=1e-12)
    np.testing.assert_allclose(np.abs(result.tip_rotation[2]), vectors[2], atol=1e-12)
    np.testing.assert_allclose(result.bend_angle, 0.0, atol=1e-12)
    np.testing.assert_allclose(result.twist_angle, 0.0, atol=1e-12)
    np.testing.assert_allclose(result.max_stretch, 1.0, atol=1e-12)
    np.testing.assert_allclose(result.max_von_mises, 0.0, atol=1e-5)  # [Pa]


@pytest.mark.parametrize("degrees", [30.0, 180.0, 250.0, 400.0])
def test_an_arc_bends_by_its_angle_beyond_half_a_turn(degrees):
    """Ten cells see it but for a third power of the angle of a cell: 0.03 degrees of 250."""
    robot = bar_robot()
    result = shown(robot, bend(robot.vertices, np.radians(degrees)))
    np.testing.assert_allclose(np.degrees(result.bend_angle), degrees, atol=5e-9 * degrees**3)
    np.testing.assert_allclose(np.degrees(result.twist_angle), 0.0, atol=0.05)
    np.testing.assert_allclose(np.degrees(result.tip_rotation), [[0.0, degrees, 0.0]], atol=1e-9)


def test_the_centre_line_of_an_arc_is_an_arc():
    """Half a turn of 31.8 mm: the middle of the bar is 10 mm beyond, less what ten chords cut off."""
    robot = bar_robot()
    line = shown(robot, bend(robot.vertices, np.pi)).center_line(points=11)
    radius = LENGTH / np.pi
    np.testing.assert_allclose(np.hypot(line[:, 0], line[:, 2] + radius), radius + 0.5 * WIDTH, atol=0.1 * WIDTH)
    np.testing.assert_allclose(np.linalg.norm(np.diff(line, axis=0), axis=1), 0.013, rtol=0.04)
    np.testing.assert_allclose(line[:, 1], 0.0, atol=0.02 * WIDTH)


@pytest.mark.parametrize("degrees", [-30.0, 60.0, 400.0])
def test_a_twist_is_no_bend(degrees):
    robot = bar_robot()
    result = shown(robot, twisted(robot.vertices, np.radians(degrees)))
    np.testing.assert_allclose(np.degrees(result.twist_angle), degrees, atol=2e-8 * abs(degrees) ** 3 + 1e-3)
    assert np.degrees(result.bend_angle[0]) < 1e-4 * degrees**2
    np.testing.assert_allclose(np.degrees(result.tip_rotation), [[degrees, 0.0, 0.0]], atol=1e-9)


def test_an_s_cancels():
    """Two arcs of opposite angles, one after the other."""
    robot = bar_robot()
    half = LENGTH / 2
    first = bend(np.where(robot.vertices[:, :1] < half, robot.vertices, 0.0), np.radians(60.0))
    turn = Rotation.from_rotvec([0.0, np.radians(30.0), 0.0])
    beyond = robot.vertices - [half, 0.0, 0.0]
    mirrored = bend(beyond * [1, 1, -1], np.radians(60.0)) * [1, 1, -1]
    joint = bend(np.array([[half, 0.0, 0.0]]), np.radians(60.0))
    second = turn.apply(mirrored) + joint
    shape = np.where(robot.vertices[:, :1] < half, first, second)
    assert np.degrees(shown(robot, shape).bend_angle[0]) < 0.5
    assert np.degrees(shown(robot, bend(robot.vertices, np.radians(60.0))).bend_angle[0]) > 59.9


def test_the_gradient_of_the_bend_is_that_of_differences():
    robot = bar_robot()
    line, rng = spine(robot), np.random.default_rng(0)
    x = bend(robot.vertices, 1.7)
    way, h = rng.normal(size=x.shape), 1e-6
    difference = sum(s * np.linalg.norm(turning.bending(line, x + s * h * way)) for s in (1.0, -1.0)) / (2 * h)
    assert np.sum(turning.bend_gradient(line, x) * way) == pytest.approx(difference, rel=1e-6)


def test_a_robot_that_is_bent_at_rest_bends_by_what_is_added():
    straight = bar_robot()
    curved = replace(straight, vertices=bend(straight.vertices, np.radians(90.0)))
    result = shown(
        curved,
        curved.vertices,
        bend(straight.vertices, np.radians(150.0)),
        Rotation.from_euler("y", 1.0).apply(curved.vertices.copy()),
    )
    np.testing.assert_allclose(np.degrees(result.bend_angle), [0.0, 60.0, 0.0], atol=0.5)


def test_a_rod_bends_by_its_angle():
    angle, n = np.radians(300.0), 31
    s = np.linspace(0.0, 1.0, n)
    rest = np.stack([s, 0 * s, 0 * s], axis=1)
    arc = np.stack([np.sin(angle * s), 0 * s, 1.0 - np.cos(angle * s)], axis=1) / angle
    soft = geosim.LinearElastic(youngs_modulus=1e6)
    robot = geosim.RodShellRobot(rest, radius=0.01, rod_material=soft, fixed_vertices=[0, 1])
    result = shown(robot, arc)
    np.testing.assert_allclose(np.degrees(result.bend_angle), 300.0, rtol=1e-9)
    assert np.isnan(result.twist_angle).all()
    chord = 2.0 * np.sin(0.5 * angle / (n - 1)) / angle * (n - 1)
    np.testing.assert_allclose(result.max_stretch, chord, rtol=1e-9)


def test_a_plate_held_all_round_has_no_centre_line():
    """What flows from the rim to the middle flows from all sides."""
    vertices, tets = block((0.06, 0.06, 0.004), (8, 8, 1))
    from_middle = lambda x: np.abs(x[:, :2] - 0.03).max(axis=1)  # noqa: E731
    robot = VolumetricRobot.from_tets(
        vertices,
        tets,
        material=NeoHookean(mu=5e4),
        fixed=lambda x: from_middle(x) > 0.0299,
        tip=lambda x: from_middle(x) < 1e-6,
    )
    result = shown(robot, vertices)
    assert np.isnan(result.bend_angle).all()
    assert np.isnan(result.twist_angle).all()
    with pytest.raises(InputError, match="no way of one direction"):
        result.center_line()


def test_stress_of_a_stretched_block_is_that_of_the_law():
    """Uniaxial stretch l of an incompressible neo-Hookean bar: sigma = mu (l^2 - 1 / l)."""
    mu, stretch = 5e4, 1.3
    vertices, tets = block((0.02, 0.01, 0.01), (2, 1, 1))
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=NeoHookean(mu=mu), fixed=None, tip=Select.plane("x", above=0.0199)
    )
    ends = [Prescribed(Select.plane("x", below=1e-6), (0.0, np.nan, np.nan))]
    ends += [Prescribed(Select.plane("x", above=0.0199), (0.02 * (stretch - 1), np.nan, np.nan))]
    ends += [Prescribed(Select.plane("y", below=1e-6), (np.nan, 0.0, np.nan))]
    ends += [Prescribed(Select.plane("z", below=1e-6), (np.nan, np.nan, 0.0))]
    result = solve(robot, Passive(), Environment(prescribed=ends))
    sigma = mu * (stretch**2 - 1 / stretch)
    np.testing.assert_allclose(result.stress(), sigma, rtol=1e-5)
    np.testing.assert_allclose(
        result.stress(kind="cauchy"), np.tile(np.diag([sigma, 0, 0]), (len(vertices), 1, 1)), atol=1e-4 * sigma
    )
    np.testing.assert_allclose(result.max_stretch, stretch, rtol=1e-6)
    force = sigma * 1e-4 / stretch
    np.testing.assert_allclose(result.blocked_force, [[force, 0.0, 0.0]], atol=1e-5 * force)
    with pytest.raises(InputError, match="kind"):
        result.stress(kind="tresca")


def test_holding_force_is_the_largest_against_the_motion():
    robot = bar_robot()
    motion = [[0.0, 0.0, 0.01], [0.0, 0.0, 0.02], [0.01, 0.0, 0.02]]
    moved = Obstacle.sphere((0.05, 0.0, 0.1), 0.01, motion=motion)
    still = Obstacle.sphere((0.05, 0.0, -0.1), 0.01)
    forces = np.zeros((3, 2, 3))
    forces[0, 0], forces[1, 0], forces[2, 0] = (9.0, 0.0, -1.0), (0.0, 0.0, -3.0), (-2.0, 0.0, -9.0)
    result = shown(
        robot, *[robot.vertices] * 3, environment=Environment(obstacles=[moved, still]), obstacle_forces=forces
    )
    np.testing.assert_allclose(result.holding_force, [3.0, np.nan])


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_work_of_pressure_is_stored_or_lifts_the_weight(element):
    """The integral of p dV over fine frames less the work on gravity and on a load is what is stored, to 1e-4."""
    vertices, tets = block((0.03, 0.012, 0.012), (5, 3, 3))
    middle = vertices[tets].mean(axis=1)
    hollow = (np.abs(middle[:, 1:] - 0.006) < 0.002).all(axis=1) & (middle[:, 0] > 0.006) & (middle[:, 0] < 0.024)
    robot = VolumetricRobot.from_tets(
        vertices, tets, hollow.astype(int), material=NeoHookean(mu=5e4), fixed=Select.plane("x", below=1e-6)
    )
    pull = np.array([0.0, 0.0, -0.02])
    around = Environment(gravity=(0.0, 0.0, -9.81), loads=[Load.force(robot.tip, pull)])
    solver = EnergyShapeSolver(element=element, tolerance=1e-9)
    start = solve(robot, Inflation(volume_ratio=1.0), around, solver=solver)
    result = solve(robot, Inflation(volume_ratio=np.linspace(1.0, 1.6, 13)), around, solver=solver)
    assert result.work[0] == pytest.approx(start.work[-1], rel=1e-6)
    by_pressure = _simpson(result.chamber_volumes[:, 0], result.chamber_pressures[:, 0])
    state = result.state.problem
    x = np.array([result.nodes(i)[state.nodes] for i in (0, -1)])
    share = next(weights for weights, _ in state.load_shapes)[state.nodes]
    by_loads = np.sum((state.mass[:, None] * [0.0, 0.0, -9.81] + share[:, None] * pull) * (x[1] - x[0]))
    gained = result.work[-1] - result.work[0]
    assert by_pressure + by_loads == pytest.approx(gained, rel=1e-4)
    assert abs(by_loads) > 1e-3 * by_pressure


def _simpson(x, y):
    from scipy.integrate import simpson

    return simpson(y, x=x)


def test_tip_stiffness_is_that_of_differences_and_survives_a_file(tmp_path):
    vertices, tets = block((0.06, 0.01, 0.01), (4, 1, 1))
    robot = VolumetricRobot.from_tets(
        vertices,
        tets,
        material=NeoHookean(mu=5e4),
        fixed=Select.plane("x", below=1e-6),
        tip=Select.plane("x", above=0.0599),
    )
    solver, weight, h = EnergyShapeSolver(tolerance=1e-9), np.array([0.0, 0.0, -0.01]), 1e-5

    def bent(force):
        return solve(robot, Passive(steps=2), Environment(loads=[Load.force(robot.tip, force)]), solver=solver)

    result = bent(weight)
    steps = np.eye(3) * h
    compliance = np.stack([(bent(weight + s).tip[-1] - bent(weight - s).tip[-1]) / (2 * h) for s in steps], axis=1)
    np.testing.assert_allclose(np.linalg.inv(result.tip_stiffness()), compliance, atol=1e-5 * np.abs(compliance).max())
    back = geosim.load_result(result.save(tmp_path / "r.npz"))
    for frame in (0, 1):
        np.testing.assert_allclose(back.tip_stiffness(frame), result.tip_stiffness(), rtol=1e-6)
    with pytest.raises(InputError, match="EnergyShapeSolver"):
        bent_result().tip_stiffness()


def test_a_bellows_on_one_side_bends_through_250_degrees_monotonically():
    """A half ring of known shapes between: the counted angle never falls back."""
    robot = bar_robot()
    angles = np.linspace(10.0, 300.0, 30)
    result = shown(robot, *(bend(robot.vertices, np.radians(a)) for a in angles))
    assert (np.diff(result.bend_angle) > 0).all()
    assert (np.diff(result.tip_rotation[:, 1]) > 0).all()


@pytest.mark.slow
def test_actuation_design_and_provenance_survive_a_file(tmp_path):
    design = generate.round_finger(length=40e-3, radius=6e-3)
    robot = design.robot("ecoflex-00-30-fang2022", preview=True)
    result = shown(robot, robot.vertices, actuation=Inflation(volume_ratio=[1.0]) & geosim.CableTensions([0.0]))
    back = geosim.load_result(result.save(tmp_path / "r.npz"))
    assert back.robot.design.name == "round_finger"
    assert dict(back.robot.design.parameters) == dict(design.parameters)
    assert [type(p).__name__ for p in back.actuation.parts] == ["Inflation", "CableTensions"]
    made = geosim.solve(bar_robot(), Inflation(volume_ratio=1.01), solver=EnergyShapeSolver(element="p1"))
    again = geosim.load_result(made.save(tmp_path / "made.npz"))
    assert again.provenance == made.provenance
    assert again.provenance["version"] == geosim.__version__
    assert again.provenance["options"]["element"] == "p1"
    assert again.provenance["mesh_hash"] == made.provenance["mesh_hash"]


def test_plots_of_measures(tmp_path):
    result = bent_result()
    for y, x in (("bend_angle", "chamber_pressures"), ("tip_z_mm", "bend_angle_deg"), ("volume_ratio", "load")):
        assert result.plot_measure(y, x, tmp_path / f"{y}.png").stat().st_size > 5000
    with pytest.raises(InputError, match="no measure"):
        result.plot_measure("bend", "load", tmp_path / "a.png")
    with pytest.raises(InputError, match="not defined"):
        result.plot_measure("work", "load", tmp_path / "a.png")


@pytest.mark.slow
def test_the_example_of_the_page_measures_a_bend(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block_of_page, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict = {}
    exec(compile(block_of_page, "measures.md", "exec"), names)
    result = names["result"]
    assert result.converged
    assert (np.diff(result.bend_angle, prepend=0.0) > np.radians(3.0)).all()
    turned = np.linalg.norm(result.tip_rotation, axis=1)
    np.testing.assert_allclose(result.bend_angle, turned, rtol=0.1)  # the stiff end turns as the finger bends
    assert (np.linalg.eigvals(names["stiffness"]).real > 0).all()
    assert result.tip[-1, 2] < 0.0  # 9 mm at rest
    assert (tmp_path / "bend.png").is_file()
