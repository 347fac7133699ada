"""A membrane with a bonded disc over a chamber that a fixed plate closes, against the thin membrane and measurements."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import geosim

CALIBRATION = Path(__file__).resolve().parents[3] / "calibration"


@pytest.fixture(scope="module")
def script():
    """The study in calibration/membrane.py."""
    place = importlib.util.spec_from_file_location("membrane", CALIBRATION / "membrane.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lifted(script):
    """The Gent membrane on a coarse mesh, as high as 35 mm."""
    return script.lift(script.membrane(script.materials()["gent"], 6, 12), script.RATIOS[:5])


def test_the_plate_closes_the_chamber(script, lifted):
    """Its floor and side are caps at rest for good: volume below a flat membrane, V/V0 as prescribed."""
    robot = lifted.robot
    assert len(robot.chamber_caps[0]) > 0
    assert robot.chamber_volumes[0] == pytest.approx(np.pi * script.RADIUS**2 * script.DEPTH, rel=1e-9)
    assert lifted.volume_ratios[:, 0] == pytest.approx(script.RATIOS[:5], rel=1e-7)


@pytest.mark.slow
def test_finite_elements_agree_with_the_thin_membrane(script, lifted):
    """The clamped membrane is a little stiffer than one without bending, by less than 4 % on a coarse mesh."""
    height, pressure = script.curve(lifted)
    at, values = script.thin_curve(script.materials()["gent"], np.arange(2400.0, 2901.0, 125.0))
    line = np.interp(height[1:3], at, values)
    assert (pressure[1:3] > line).all()
    assert pressure[1:3] == pytest.approx(line, rel=0.04)


def test_the_disc_is_flat_and_level(script, lifted):
    """Guided or not it neither bends nor tilts on the axisymmetric membrane; what guides it holds no weight."""
    assert np.ptp(lifted.frames[:, lifted.robot.tip, 2], axis=1).max() < 1e-15
    free = script.lift(lifted.robot, script.RATIOS[:3], guided=False)
    assert script.curve(free)[1] == pytest.approx(script.curve(lifted)[1][:2], rel=1e-6)
    assert free.extra["rigid_poses"][-1, 0, 2, 2] == pytest.approx(1.0, abs=1e-6)
    assert np.abs(lifted.extra["rigid_forces"][:, 0, 2]).max() == 0.0
    assert np.abs(lifted.extra["rigid_forces"][:, 0]).max() < 1e-3 * script.WEIGHT


def test_weight_and_floor_balance(script, lifted):
    """Clamp and floor carry what hangs on the membrane: weight of the disc and of the membrane less the gas on the floor."""
    mass = lifted.robot.body_volume * script.materials()["gent"].density
    gas = lifted.chamber_pressures[1:, 0] * np.pi * script.RADIUS**2
    assert lifted.reactions[1:].sum(axis=1)[:, 2] == pytest.approx(script.WEIGHT + 9.81 * mass - gas, rel=1e-5)


def test_measured_pressures_are_met(script, lifted, reference_data):
    """Constants of a tensile test give the medians within 8 % at 10 .. 30 mm; the study covers 10 .. 60 mm."""
    height, median = script.measured(reference_data / "robots" / "membrane")
    at, pressure = script.curve(lifted)
    use = height <= 30.0
    assert np.interp(height[use], 1e3 * at, pressure) == pytest.approx(median[use], rel=0.08)


def test_a_heavy_disc_turns_no_point_at_its_edge_inside_out(script):
    """40 N on the sharp edge of the disc at V/V0 = 1.6: only the barrier keeps J above 0 at points there."""
    robot = script.membrane(script.materials()["gent"], 6, 12)
    force = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -40.0]])
    disc = geosim.RigidGroup(robot.tip, force=force, displacement=(0.0, 0.0, np.nan), rotation=(0.0, 0.0, 0.0))
    result = geosim.solve(
        robot,
        geosim.Inflation(volume_ratio=[1.6, 1.6]),
        geosim.Environment(rigid_groups=disc, self_contact=False),
        solver=geosim.EnergyShapeSolver(check_stability=False, max_factorisations=25),
    )
    assert result.inverted_elements[-1] == 0
    up = 40.0 - result.chamber_pressures[-1, 0] * np.pi * script.RADIUS**2
    assert result.reactions[-1, :, 2].sum() == pytest.approx(up, rel=1e-5)
    assert result.tip[-1, 2] < result.tip[0, 2] - 0.03
