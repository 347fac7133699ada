"""Sizes of studies are bounded, and truth values are no numbers."""

from __future__ import annotations

import numpy as np
import pytest

import geosim
from geosim import Inflation, InputError, Load, Prescribed

STUDY = """
design = "pneunet"
material = "ecoflex-00-30"

[vary]
{vary}

[sampling]
{sampling}

[actuation]
pressure_kpa = [10]
"""


@pytest.mark.parametrize(
    ("vary", "sampling"),
    [
        ("wall_mm = { from = 1.0, to = 2.0 }", 'method = "random"\ncount = 20000000'),
        ("wall_mm = { from = 1.0, to = 2.0, steps = 10000000 }", ""),
        ("chambers = { from = 1, to = 2000000000, integer = true }", ""),
        ("wall_mm = { from = 1.0, to = 2.0, steps = 2000 }\nheight_mm = { from = 9.0, to = 12.0, steps = 2000 }", ""),
    ],
    ids=["count", "steps", "whole numbers", "grid"],
)
def test_a_study_of_millions_is_refused_before_it_is_drawn(tmp_path, vary, sampling):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(vary=vary, sampling=sampling))
    with pytest.raises(InputError, match=r"1000000|1,000,000"):
        geosim.sweep(path, out=tmp_path / "out")


@pytest.mark.parametrize("value", [(True, False, True), (True, np.nan, 0.0)])
def test_truth_values_are_no_numbers(value):
    for make in (lambda: Prescribed(np.array([0]), value), lambda: Load.force(np.array([0]), value)):
        with pytest.raises(InputError, match="not an array of numbers"):
            make()
    with pytest.raises(InputError, match="not an array of numbers"):
        Inflation(pressure=[True, False])
