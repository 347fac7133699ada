"""Sheets: what is drawn covers its area, colours are those of the maps of that name, and marks stand at round numbers."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pytest
from PIL import Image

from geosim.show.colors import MAPS, colored
from geosim.show.sheet import Sheet, ticks


@pytest.fixture
def sheet() -> Sheet:
    return Sheet(np.full((100, 200, 3), 255, dtype=np.uint8), (100.0, 50.0), 0.5, 100)


def covered(sheet: Sheet) -> float:
    """Pixels that are black, grey ones in part."""
    return float((255.0 - np.asarray(sheet.image(), dtype=float)).sum() / (3 * 255.0))


@pytest.mark.parametrize("name", MAPS)
def test_colors_are_those_of_the_map_of_that_name(name):
    shares = np.linspace(0.0, 1.0, 101)
    assert np.abs(colored(shares, name) - matplotlib.colormaps[name](shares)[:, :3]).max() < 0.04
    assert np.array_equal(colored(np.array([-1.0, 2.0]), name), colored(np.array([0.0, 1.0]), name))


@pytest.mark.parametrize("turn", [0.0, 0.4, 2.0])
def test_a_polygon_covers_its_area_whichever_way_it_is_gone_around(sheet, turn):
    corners = 30.0 * np.array([[1.0, 0.0], [0.0, 0.8], [-0.7, 0.0], [0.0, -1.0]])
    corners = corners @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) + (90.3, 50.6)
    for order in (slice(None), slice(None, None, -1)):
        one = Sheet(sheet.pixels.copy(), sheet.middle, sheet.pixel_mm, sheet.dpi)
        one.polygon(corners[order], "#000000")
        assert covered(one) == pytest.approx(0.5 * 51.0 * 54.0, rel=0.01)


def test_lines_and_rings_are_as_wide_as_they_are_said_to_be(sheet):
    unit = sheet.dpi / 72.0  # pixels of a point
    sheet.line((20.5, 30.2), (120.0, 63.0), "#000000", 3.0)
    line = covered(sheet)
    assert line == pytest.approx(3.0 * unit * np.hypot(99.5, 32.8), rel=0.01)
    sheet.ring((160.0, 40.0), 14.0, "#000000", 2.0)
    assert covered(sheet) - line == pytest.approx(2.0 * unit * 2.0 * np.pi * 14.0 * unit, rel=0.01)


def test_what_lies_beyond_the_sheet_is_cut_off(sheet):
    sheet.line((-50.0, 50.0), (250.0, 50.0), "#000000", 7.2)
    sheet.polygon(np.array([[300.0, 10.0], [310.0, 10.0], [300.0, 20.0]]), "#000000")
    assert covered(sheet) == pytest.approx(200.0 * 10.0, rel=1e-6)


def test_a_place_on_the_drawing_is_in_millimetres_from_its_middle(sheet):
    assert sheet.on(0.0, 0.0) == sheet.middle
    assert sheet.on(10.0, 5.0) == (120.0, 40.0)
    assert sheet.at(0.25, 0.1) == pytest.approx((50.0, 90.0))


def test_a_text_stands_where_its_anchor_is_and_may_be_read_from_below(sheet):
    sheet.text((100.0, 50.0), "mmmm", 10, anchor="mm")
    flat = np.argwhere(np.asarray(sheet.image())[..., 0] < 128)
    upright = Sheet(sheet.pixels.copy(), sheet.middle, sheet.pixel_mm, sheet.dpi)
    upright.text((100.0, 50.0), "mmmm", 10, anchor="mm", upright=True)
    turned = np.argwhere(np.asarray(upright.image())[..., 0] < 128)
    for drawn in (flat, turned):
        assert np.abs(0.5 * (drawn.min(axis=0) + drawn.max(axis=0)) - (50.0, 100.0)).max() < 4.0
    assert np.ptp(flat, axis=0)[1] == pytest.approx(np.ptp(turned, axis=0)[0], abs=2.0)
    assert np.ptp(flat, axis=0)[1] == pytest.approx(sheet.width_of(sheet.texts[0]), abs=4.0)


def test_the_file_has_the_pixels_of_the_sheet(sheet):
    sheet.arrow((20.0, 20.0), (150.0, 80.0), "#c0392b", 2.0)
    sheet.text((10.0, 90.0), "a \u00b1 b", 9, backing=True)
    out = io.BytesIO()
    out.write(sheet.png())
    with Image.open(out) as image:
        assert image.info["Software"] == "geosim"
        assert np.array_equal(np.asarray(image), np.asarray(sheet.image()))


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.0, 54.6, [0, 10, 20, 30, 40, 50]),
        (1.0, 1.1, [1.0, 1.02, 1.04, 1.06, 1.08, 1.1]),
        (0.0, 1e-9, [0.0, 2e-10, 4e-10, 6e-10, 8e-10, 1e-9]),
        (0.87, 2.4, [1.0, 1.5, 2.0]),
    ],
)
def test_marks_stand_at_round_numbers(low, high, marks):
    assert ticks(low, high) == pytest.approx(marks, rel=1e-12, abs=1e-24)
