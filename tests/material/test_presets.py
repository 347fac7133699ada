"""Presets: every one is cited, stable where it was fitted, and knows its range and its scatter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from click.testing import CliRunner
from geosim.calibrate import stability_statement

import geosim
from geosim import materials
from geosim.cli import main


@pytest.mark.parametrize("name", materials.names())
def test_a_preset_is_cited_and_stable(name):
    """Source with its year; no mode of loading is unstable within the range that was fitted, or within stretch 2."""
    found = materials.get(name)
    assert any(str(year) in found.source for year in range(1940, 2027))
    assert np.isnan(found.max_stretch) or found.max_stretch >= 1.5
    assert np.isnan(found.scatter) or 0 < found.scatter < 2
    assert stability_statement(found.model, found.constants())[0]
    assert materials.get(name) == getattr(materials, name.upper().replace("-", "_"))


def test_there_are_at_least_eight_and_the_scatter_is_that_of_the_sources():
    """284 and 122.3 kPa: mean 203.2, standard deviation 114.3; one source tells no scatter."""
    assert len(materials.names()) >= 8
    assert materials.get("dragon-skin-20").scatter == pytest.approx(161.7 / np.sqrt(2) / 203.15, rel=1e-3)
    assert np.isnan(materials.get("dragon-skin-30").scatter)
    assert materials.get("dragon-skin-30").max_stretch == 2.0


def test_printed_elastomers_are_of_the_stiffness_of_their_shore_hardness():
    """Gent's relation E = 0.0981 (56 + 7.66 S) / (0.137505 (254 - 2.54 S)) MPa [1958] within a factor of two."""
    printed = {"filaflex-60a": 60, "diabase-x60": 60, "filaflex-70a": 70, "chinchilla-75a": 75, "ninjaflex-85a": 85}
    for name, shore in printed.items():
        young = 0.0981e6 * (56 + 7.66 * shore) / (0.137505 * (254 - 2.54 * shore))
        assert 0.5 < 3 * materials.get(name).shear_modulus / young < 2.0, name


def test_what_is_known_of_a_preset_stays_with_it():
    """A robot keeps it; a changed material has forgotten it; equality is that of the constants."""
    preset = materials.get("dragon-skin-30")
    assert dataclasses.replace(preset, c1=1e5).source == ""
    assert preset == geosim.Yeoh(c1=preset.c1, c2=preset.c2, c3=preset.c3)
    assert preset.stiffened(2.0).source == ""


def test_the_command_line_lists_them():
    done = CliRunner().invoke(main, ["materials"])
    assert done.exit_code == 0, done.output
    assert all(f"{name}: " in done.output for name in materials.names())
    assert "scatter between sources 56 %" in done.output
    wrong = CliRunner().invoke(main, ["materials", "ecoflex"])
    assert wrong.exit_code == 1
    assert "did you mean" in wrong.output
