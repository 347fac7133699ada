"""Parameters of a robot from measurements: exact recovery, honest intervals, identifiability."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from geosim.calibrate import Measurement, Parameter, Problem, fit_robot
from geosim.compare import read_markers
from shapes import block

import geosim
from geosim.apps.calibrate.parameters import thicken
from geosim.errors import InputError


@dataclasses.dataclass(frozen=True)
class Spring:
    """A stand-in: stiffness k, gain g; the tip moves by g p / k + 0.1 (p / k)^3."""

    stiffness: float = 100.0
    gain: float = 1.0


def pull(robot, actuation, environment=None, *, solver=None):
    x = np.asarray(actuation) / robot.stiffness
    tip = np.stack([robot.gain * x + 0.1 * x**3, 0 * x, 0 * x], axis=1)
    return SimpleNamespace(tip=tip, robot=robot, frames=tip[:, None])


def spring_parameter(name, initial, **options):
    def change(problem, value):
        return dataclasses.replace(problem, robot=dataclasses.replace(problem.robot, **{name: value}))

    return Parameter(name, initial, change, **options)


FORCES = np.linspace(20.0, 200.0, 10)


def test_exact_data_return_the_parameter():
    """From a first value wrong by three the stiffness is found to the tolerance."""
    truth = pull(Spring(137.0), FORCES).tip
    found = fit_robot(Spring(), [Measurement.tip(FORCES, truth)], [spring_parameter("stiffness", 400.0)], solve=pull)
    assert found.parameters["stiffness"] == pytest.approx(137.0, rel=1e-6)
    assert found.converged
    assert found.robot.stiffness == found.parameters["stiffness"]
    assert found.warnings == ()


def test_intervals_cover():
    """With noise the 95 % interval covers the truth in 200 draws, give or take 1.5 %, as wide as the estimates scatter."""
    rng = np.random.default_rng(0)
    hits, widths, values = np.zeros(2), [], []
    for _ in range(200):
        noisy = pull(Spring(137.0, 1.3), FORCES).tip + 0.01 * rng.standard_normal((10, 3))
        found = fit_robot(
            Spring(),
            [Measurement(FORCES, lambda r: r.tip[:, 0], noisy[:, 0], sigma=1.0)],
            [spring_parameter("stiffness", 120.0), spring_parameter("gain", 1.0)],
            solve=pull,
        )
        for i, (name, value) in enumerate((("stiffness", 137.0), ("gain", 1.3))):
            hits[i] += found.intervals[name][0] <= value <= found.intervals[name][1]
        widths.append(np.ptp(list(found.intervals.values()), axis=1))
        values.append(list(found.parameters.values()))
    assert (hits / 200 >= 0.88).all()
    assert np.median(widths, axis=0) == pytest.approx(2 * 2.3 * np.std(values, axis=0), rel=0.3)  # Student, 8 degrees


def test_parameters_that_act_alike_are_reported():
    """Stiffness and gain in the linear range only enter as their ratio: correlation and condition say so."""
    small = FORCES * 1e-3
    truth = pull(Spring(137.0), small).tip
    found = fit_robot(
        Spring(),
        [Measurement.tip(small, truth)],
        [spring_parameter("stiffness", 130.0), spring_parameter("gain", 1.0)],
        solve=pull,
    )
    assert any("hardly told apart" in w for w in found.warnings)
    assert found.condition > 1e3


def test_a_parameter_without_effect_is_reported():
    found = fit_robot(
        Spring(),
        [Measurement.tip(FORCES, pull(Spring(137.0), FORCES).tip)],
        [spring_parameter("stiffness", 130.0), Parameter("colour", 1.0, lambda p, v: p)],
        solve=pull,
    )
    assert any("colour has no effect" in w for w in found.warnings)
    assert found.parameters["stiffness"] == pytest.approx(137.0, rel=1e-4)


def test_a_bound_is_respected_and_named():
    found = fit_robot(
        Spring(),
        [Measurement.tip(FORCES, pull(Spring(137.0), FORCES).tip)],
        [spring_parameter("stiffness", 100.0, upper=120.0)],
        solve=pull,
    )
    assert found.parameters["stiffness"] == pytest.approx(120.0)
    assert any("rests on its bound" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("measured", "parameters", "match"),
    [
        ([], [1], "at least one measurement"),
        ([np.zeros((9, 3))], ["stiffness"], "shape"),
        ([np.full((10, 3), np.nan)], ["stiffness"], "no finite"),
    ],
)
def test_bad_arguments_are_named(measured, parameters, match):
    with pytest.raises(InputError, match=match):
        fit_robot(
            Spring(),
            [Measurement.tip(FORCES, m) for m in measured],
            [spring_parameter(p, 100.0) for p in parameters if isinstance(p, str)] or [None],
            solve=pull,
        )


def beam(counts=(2, 2, 6)):
    """The cantilever of the ETH data set: 30 x 30 x 100 mm, held at z = 0."""
    points, tets = block((0.03, 0.03, 0.10), counts)
    return geosim.VolumetricRobot.from_tets(
        points,
        tets,
        np.zeros(len(tets), int),
        material=geosim.NeoHookean(60e3),
        fixed=geosim.Select.plane("z", below=1e-6),
        tip=geosim.Select.plane("z", above=0.0999),
    )


def test_material_changes_reach_the_robot():
    """Constants, Young's modulus and pressure offsets change the problem and nothing else."""
    robot = beam()
    problem = Problem(robot, geosim.Inflation(pressure=[1e3, 2e3]))
    assert Parameter.material("mu", 60e3).change(problem, 70e3).robot.materials[0].mu == 70e3
    assert Parameter.youngs_modulus(1e5).change(problem, 264e3).robot.materials[0].mu == pytest.approx(88e3)
    two = dataclasses.replace(
        robot,
        regions=(np.arange(len(robot.tets)) % 2) * 3,
        materials={0: geosim.NeoHookean(60e3), 3: geosim.NeoHookean(240e3)},
    )
    stiffer = Parameter.youngs_modulus(1e5).change(Problem(two, None), 264e3).robot.materials
    assert [stiffer[r].mu for r in (0, 3)] == pytest.approx([88e3, 352e3])  # the ratio of two bodies is kept
    shifted = Parameter.pressure_offset().change(problem, 500.0).actuation
    assert np.ravel(shifted.pressure) == pytest.approx([1500, 2500])
    with pytest.raises(InputError, match="no constant"):
        Parameter.material("c9", 1.0).change(problem, 2.0)


def test_a_friction_coefficient_is_a_parameter():
    """Of all obstacles, or of one; an environment without any is refused."""
    plane = geosim.Obstacle.plane((0, 0, -1), (0, 0, 1))
    vertices, tets = block((0.02, 0.01, 0.01), (2, 1, 1))
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(5e4), fixed=vertices[:, 0] < 1e-9
    )
    problem = Problem(robot, None, geosim.Environment(obstacles=[plane, plane]))
    rubbed = Parameter.friction(0.3).change(problem, 0.5).environment
    assert [o.friction for o in rubbed.obstacles] == [0.5, 0.5]
    rubbed = Parameter.friction(0.3, obstacle=1).change(problem, 0.5).environment
    assert [o.friction for o in rubbed.obstacles] == [0.0, 0.5]
    with pytest.raises(geosim.InputError, match="no obstacle 2; there are 2"):
        Parameter.friction(0.3, obstacle=2).change(problem, 0.5)
    with pytest.raises(geosim.InputError, match="has no obstacle"):
        Parameter.friction(0.3).change(Problem(robot, None), 0.5)


def test_walls_get_thicker_and_the_skin_stays():
    """A cubic chamber in a cubic block shrinks by its wall's change on every side."""
    points, tets = block((0.03,) * 3, (6,) * 3)
    brick = np.array(list(np.ndindex(6, 6, 6)))
    inside = ((brick > 1) & (brick < 4)).all(axis=1).astype(int)
    robot = geosim.VolumetricRobot.from_tets(
        points, tets, np.repeat(inside, 6), material=geosim.NeoHookean(60e3), fixed=geosim.Select.plane("x", below=1e-6)
    )
    thick = thicken(robot, 1.1)
    on_skin = (points.min(axis=1) < 1e-9) | (points.max(axis=1) > 0.03 - 1e-9)
    assert thick.vertices[on_skin] == pytest.approx(points[on_skin], abs=1e-15)
    assert thick.chamber_volumes.sum() < robot.chamber_volumes.sum()
    middle = np.ravel_multi_index((2, 3, 3), (7, 7, 7))
    assert thick.vertices[middle, 0] == pytest.approx(0.011, abs=1e-9)
    assert thicken(robot, 1.0).vertices == pytest.approx(points, abs=1e-15)
    with pytest.raises(InputError, match="no chamber wall"):
        thicken(beam(), 1.1)


def inflated_block(material=None, cells=4):
    """A block with a chamber, open at its base to a fixed plate, and a plate on top."""
    points, tets = block((0.02, 0.02, 0.03), (cells,) * 3)
    brick = np.array(list(np.ndindex(cells, cells, cells)))
    inside = ((brick >= [1, 1, 0]) & (brick < [cells - 1, 2, cells - 1])).all(axis=1).astype(int)
    return geosim.VolumetricRobot.from_tets(
        points,
        tets,
        np.repeat(inside, 6),
        fixed=geosim.Select.plane("z", below=1e-6),
        material=material or geosim.MooneyRivlin(20e3, 4e3),
    )


PLATE = geosim.Environment(
    gravity=(0, 0, -9.81),
    self_contact=False,
    rigid_groups=geosim.RigidGroup(geosim.Select.plane("z", above=0.0299), force=(0.05, 0, 0)),
)
FREE_END = geosim.Environment(gravity=(0, 3.0, -9.81), self_contact=False)
CONSTANTS = [
    Parameter.material("c1", 20e3),
    Parameter.material("c2", 4e3),
    Parameter.wall_thickness(1.02),
    Parameter.pressure_offset(50.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "element"), [(PLATE, "p2"), (FREE_END, "p1")])
def test_tangents_give_the_sensitivities_of_whole_solves(environment, element):
    """Constants, wall and pressure offset, at prescribed pressures and volumes: to 1e-4 of differences of solves."""
    from geosim.apps.calibrate.identify import _Residuals

    solver = geosim.EnergyShapeSolver(element=element, tolerance=1e-9, check_stability=False, invariants="isochoric")
    acts = [geosim.Inflation(pressure=[2e3]), geosim.Inflation(volume_ratio=[1.5])]
    robot = inflated_block(cells=3 if element == "p2" else 4)
    marks = np.flatnonzero(robot.vertices[:, 2] > 0.0299)
    record = [
        Measurement.markers(acts[0], marks, np.zeros((1, len(marks), 3)), environment),
        Measurement.volumes(acts[0], [0.0], environment, sigma=1e-9),
    ]
    by_volume = [
        Measurement.pressures(acts[1], [0.0], environment),
        Measurement.tip(acts[1], np.zeros((1, 3)), environment),
    ]
    for measured, parameters in ((record, CONSTANTS), (by_volume, CONSTANTS[:3])):
        work = _Residuals(robot, tuple(measured), tuple(parameters), solver, None, True)
        u = work.scaled(np.array([p.initial for p in parameters]))
        r = work(u)
        before = work.solves
        found = work.jacobian(u, r)
        assert work.solves == before
        for i in range(len(u)):
            h = np.eye(len(u))[i] * 2e-2 * parameters[i].step
            exact = (work(u + h) - work(u - h)) / (2 * h[i])
            rounding = 1e-7 * np.abs(r).max() / h[i]
            np.testing.assert_allclose(found[:, i], exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max() + rounding * 1e-2)


@pytest.mark.slow
def test_a_fit_by_tangents_spares_solves():
    """The same constant and gauge offset with and without; the tangent takes a solve an iteration instead of three."""
    solver = geosim.EnergyShapeSolver(element="p1", tolerance=1e-8, check_stability=False)
    act = geosim.Inflation(pressure=[1e3, 3e3])
    read_off = geosim.Inflation(pressure=[1.2e3, 3.2e3])
    truth = geosim.solve(inflated_block(geosim.MooneyRivlin(23e3, 4e3)), read_off, FREE_END, solver=solver)
    measured = [
        Measurement.volumes(act, truth.chamber_volumes[:, 0], FREE_END, sigma=1e-9),
        Measurement.tip(act, truth.tip, FREE_END, sigma=1e-5),
    ]
    fits = [
        fit_robot(inflated_block(), measured, [CONSTANTS[0], CONSTANTS[3]], solver=solver, tangent=t)
        for t in (True, False)
    ]
    for found in fits:
        assert found.converged
        assert found.parameters["c1"] == pytest.approx(23e3, rel=1e-4)
        assert found.parameters["pressure offset"] == pytest.approx(200.0, rel=1e-3)
    assert fits[0].spared == 2 * 2 * fits[0].iterations
    each = [found.solves / found.iterations for found in fits]  # however many iterations either takes
    assert each[0] < 0.5 * each[1]
    assert fits[1].spared == 0
    assert "spared by the tangent" in fits[0].lines()[0]


@pytest.mark.slow
def test_where_first_order_is_not_enough_solves_are_compared():
    """A ball in contact; a parameter that changes the mesh; the projective solver."""
    robot = inflated_block()
    ball = geosim.Environment(obstacles=geosim.Obstacle.sphere((0.01, -0.0103, 0.011), 0.01), self_contact=False)
    act = geosim.Inflation(volume_ratio=[1.4])
    solver = geosim.EnergyShapeSolver(element="p1", check_stability=False)
    touched = geosim.solve(robot, act, ball, solver=solver)
    assert touched.contact_count[-1] > 0
    found = fit_robot(
        robot, [Measurement.pressures(act, 1.1 * touched.chamber_pressures, ball)], CONSTANTS[:1], solver=solver
    )
    assert found.spared == 0
    assert found.parameters["c1"] > 20e3
    free = geosim.solve(robot, act, FREE_END, solver=solver)
    cut = Parameter(
        "cells", 1.0, lambda p, v: dataclasses.replace(p, robot=inflated_block(geosim.MooneyRivlin(20e3 * v, 4e3)))
    )
    found = fit_robot(robot, [Measurement.pressures(act, 1.1 * free.chamber_pressures, FREE_END)], [cut], solver=solver)
    assert found.spared > 0  # the same mesh built again is the same mesh


def beam_problem(robot):
    """Gravity and 0.51012 N on the top edge of the free end, both along -x of the robot."""
    top = geosim.Select.box((0.0299, -1, 0.0999), (1, 1, 1))
    return geosim.Environment(gravity=(-9.81, 0, 0), loads=(geosim.Load.force(top, (-0.51012, 0, 0)),))


def test_the_noise_of_a_record_is_its_sigma():
    """Distance and sigma of synthetic markers; rounding adds q^2 / 12 of each marker; windows too short are named."""
    rng = np.random.default_rng(3)
    frames, markers, noise = 4000, 4, 5e-5
    motion = np.where(np.arange(frames)[:, None, None] < frames // 2, 0.0, [3e-3, 0.0, -4e-3])
    positions = 0.1 + motion + noise * rng.standard_normal((frames, markers, 3))
    first, last = slice(0, frames // 2), slice(frames // 2, frames)
    found = Measurement.record(None, positions, first, last)
    assert found.values == pytest.approx([5e-3], abs=5e-6)
    assert found.sigma == pytest.approx(noise * np.sqrt(2 / markers), rel=0.05)
    still = np.where(np.arange(frames)[:, None, None] < frames // 2, 0.0, [3e-3, 0.0, 0.0]) + np.zeros(
        (frames, markers, 1)
    )
    coarse = Measurement.record(None, still + 1e-4 * (np.arange(markers)[:, None] > 1), first, last)
    assert coarse.sigma == pytest.approx(1e-4 * np.sqrt(2 / 12 / markers), rel=1e-6)
    positions[5 : frames // 2, 1] = np.nan
    assert Measurement.record(None, positions, first, last).values == pytest.approx([5e-3], abs=1e-4)
    for window in (slice(6, 9), slice(0, 1)):
        with pytest.raises(InputError, match="window rest"):
            Measurement.record(None, positions, window, last)
    with pytest.raises(InputError, match="shape"):
        Measurement.record(None, positions[0], first, last)


def test_beam_modulus_from_the_loaded_record(reference_data):
    """From the 0.51 N record alone: E within 5 % of the authors' 263.8 kPa, the interval from the record's own noise."""
    data = read_markers(reference_data / "robots" / "beam" / "beam_load52_V2_a.csv")
    robot = beam((3, 3, 8))
    record = Measurement.record(
        geosim.Passive(), data.positions[:, data.index("tip")], slice(0, 5), slice(-50, None), beam_problem(robot)
    )
    assert 1e-5 < record.sigma < 5e-4
    found = fit_robot(robot, [record], [Parameter.youngs_modulus(200e3)])
    low, high = found.intervals["E"]
    assert found.parameters["E"] == pytest.approx(263.8e3, rel=0.05)
    assert low < found.parameters["E"] < high
    assert np.log(high / low) == pytest.approx(
        2 * 1.96 * record.sigma / record.values[0], rel=0.3
    )  # E ~ 1 / displacement
    assert found.converged
