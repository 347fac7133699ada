"""The arm of four chambers: its section, and calibration at one pressure that predicts the next."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

CALIBRATION = Path(__file__).resolve().parents[3] / "calibration"


@pytest.fixture(scope="module")
def script():
    """The study in calibration/arm.py."""
    place = importlib.util.spec_from_file_location("arm", CALIBRATION / "arm.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_section_converges_to_its_area(script):
    """Chambers are the disc inside the wall less core and ribs, alike in all four; polygons approach it from below."""
    inner, core, rib = script.OUTER - script.WALL, script.CORE, script.WALL
    strip = 2 * (
        inner * np.sqrt(inner**2 - rib**2 / 4) * rib / inner / 2 + inner**2 * np.arcsin(rib / 2 / inner)
    )  # both ways
    cross = 2 * strip - rib**2
    outside = 2 * core**2 - (4 * (core * rib - rib**2 / 4) - rib**2)  # core beyond the cross
    area = (np.pi * inner**2 - cross - outside) / 4
    for cells, tolerance in ((2, 0.12), (16, 0.003)):
        points, triangles, kinds = script.section(cells)
        a, b, c = (points[triangles[:, i]] for i in range(3))
        areas = 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])
        assert (areas > 0).all()
        chambers = [areas[kinds == k].sum() for k in (1, 2, 3, 4)]
        assert chambers == pytest.approx([chambers[0]] * 4)
        assert chambers[0] == pytest.approx(area, rel=tolerance)
        assert chambers[0] < area


def test_calibrated_at_200_predicts_300_mbar(script, reference_data):
    """With the modulus that meets the hold at 200 mbar the hold at 300 mbar, creep included, is met within 8 %."""
    folder = reference_data / "robots" / "arm"
    found = script.calibrate(folder, script.arm(script.FIRST, frames=8))
    low, high = found.intervals["E"]
    assert low < found.parameters["E"] < high
    assert found.rms < 0.01  # of half the creep
    for mbar in (200, 300):
        start, end, noise = script.holds(folder, mbar)
        assert noise < 1e-4 < start < end
    assert script.tip_at(found.robot, 300) == pytest.approx(0.5 * (start + end), rel=0.08)
