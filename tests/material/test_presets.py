"""Presets: every one is cited, stable where it was fitted, and knows its range and its scatter."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from geosim.calibrate import nominal_stress, stability_statement

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
    for name in ("dragon-skin-20", "dragon-skin-20-fang2022"):
        assert materials.get(name).scatter == pytest.approx(161.7 / np.sqrt(2) / 203.15, rel=1e-3)
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


def test_moduli_rise_with_hardness_within_a_family():
    """One product line, one cure, one source: the harder the stiffer, by more than 5 %."""
    families = {}
    for found in materials.presets():
        families.setdefault(found.family, []).append((float(found.shore.split("-")[-1].split()[-1]), found))
    families.pop("")
    assert {"ecoflex", "dragon-skin", "mold-star", "filaflex"} <= set(families)
    for family in families.values():
        assert len(family) > 1
        moduli = [found.material.shear_modulus for _, found in sorted(family, key=lambda pair: pair[0])]
        assert (np.diff(np.log(moduli)) > 0.05).all(), [found.name for _, found in family]
        sources = {found.material.source[:30] for _, found in family}
        assert len({source.split(",")[0] for source in sources}) == 1


@pytest.mark.parametrize(
    ("name", "kept", "old"),
    [
        ("ecoflex-00-30", "ecoflex-00-30-fang2022", geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3, density=1070.0)),
        ("dragon-skin-20", "dragon-skin-20-fang2022", geosim.MooneyRivlin(c1=119e3, c2=23e3, density=1080.0)),
        ("dragon-skin-10", "dragon-skin-10-dubied2022", geosim.NeoHookean(mu=87.9e3, density=1070.0)),
    ],
)
def test_a_name_whose_constants_changed_says_so_and_names_the_old_ones(name, kept, old):
    assert materials.get(kept) == old
    with pytest.warns(FutureWarning, match=kept) as said:
        new = materials.get(name)
    text = str(said[0].message)
    line = warnings.formatwarning(text, FutureWarning, said[0].filename, said[0].lineno)
    assert line.count("\n") == 1, "one line, without the source of geosim"
    assert f"{new.shear_modulus / 1e3:.4g} kPa" in text
    assert f"{old.shear_modulus / 1e3:.4g} kPa" in text


def test_alternatives_of_a_preset_follow_its_curve_and_part_beyond():
    """Other laws are within 6 % of the largest stress to max_stretch; the last is 17 % stiffer at 1.5 times that."""
    for found in materials.presets():
        law = found.material
        for _, other in law.alternatives:
            at = np.linspace(1.05, law.max_stretch, 40)
            own, off = (nominal_stress(m.model, m.constants(), "uniaxial", at) for m in (law, other))
            assert np.abs(off - own).max() < 0.06 * own.max(), (found.name, other)
        if law.alternatives:
            far = np.array([1.5 * law.max_stretch])
            own, off = (nominal_stress(m.model, m.constants(), "uniaxial", far) for m in (law, law.alternatives[-1][1]))
            assert off / own - 1.0 == pytest.approx(0.17, abs=0.06), found.name
    assert sum(bool(found.material.alternatives) for found in materials.presets()) > 10


def test_the_command_line_lists_them(tmp_path):
    done = CliRunner().invoke(main, ["materials", "--picture", str(tmp_path / "rubbers.png")])
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: line for line in done.output.splitlines()}
    assert set(materials.names()) < set(rows)
    assert rows["dragon-skin-20"].split()[1:7] == ["A", "20", "122.3", "2", "56", "%"]
    assert "estimate: Smooth-On" in rows["mold-star-30"]
    assert "ecoflex-00-30-fang2022 keeps the old constants" in rows["ecoflex-00-30"]
    assert (tmp_path / "rubbers.png").stat().st_size > 20_000
    one = CliRunner().invoke(main, ["materials", "dragon-skin-20"])
    assert "scatter between sources 56 %" in one.output
    assert "Fang et al." in one.output
    wrong = CliRunner().invoke(main, ["materials", "ecoflex"])
    assert wrong.exit_code == 1
    assert "did you mean" in wrong.output
