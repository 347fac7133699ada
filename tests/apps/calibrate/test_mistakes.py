"""Mistakes in material tests are said, with the line, the sample or the option that settles them; sound tests raise none."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from geosim.calibrate import MaterialTest, fit, nominal_stress, read_test

from geosim import InputError
from geosim.apps.calibrate.command import run
from geosim.cli import main

STRETCH = np.linspace(1.05, 2.0, 20)
STRESS = nominal_stress("neo-hookean", [100e3], "uniaxial", STRETCH)
PLACE = Path(__file__).parents[3] / "scripts" / "planted_mistakes.py"


@pytest.fixture(scope="module")
def planted():
    """The study of planted mistakes."""
    return SimpleNamespace(**runpy.run_path(str(PLACE)))


def pull(tmp_path, rows, header="strain (%),stress (kPa)"):
    path = tmp_path / "pull.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def rows(stretch=STRETCH, stress=STRESS):
    return [f"{100 * (s - 1):.4f},{p / 1e3:.6f}" for s, p in zip(stretch, stress)]


@pytest.mark.slow
def test_planted_mistakes_of_every_kind_are_found(planted):
    """One of each kind; the script runs forty."""
    for seed, mistake in enumerate(planted.MISTAKES):
        good, said = planted.calibrated(mistake, seed)
        assert good, f"{mistake.__name__}: {said}"


def test_sound_tests_raise_no_doubt(planted):
    for seed, sound in enumerate(3 * planted.SOUND):
        good, said = planted.calibrated(sound, 500 + seed)
        assert good, f"{sound.__name__}: {said}"


def test_what_follows_an_unreadable_row_is_kept(tmp_path):
    """Of 20 rows 19 are used, and the one left out is named with its line."""
    lines = rows()
    lines[12] = "error;see log"
    test = read_test(pull(tmp_path, lines))
    assert len(test.stretch) == 19
    assert test.stretch[-1] == pytest.approx(2.0)
    assert "1 of 20 rows cannot be read" in test.warnings[0]
    assert "line 14: 'error;see log'" in test.warnings[0]


def test_a_factor_of_ten_is_left_out_and_named(tmp_path):
    """100 kPa, not 388: in a file and in arrays, and the pull does not end there."""
    stress = STRESS.copy()
    stress[7] *= 10.0
    for given in (pull(tmp_path, rows(stress=stress)), MaterialTest("UT", STRETCH, stress)):
        found = fit(given, "neo-hookean")
        assert found.parameters["mu"] == pytest.approx(100e3, rel=1e-3)
        assert sum(len(t.stretch) for t in found.tests) == 19
        assert f"stretch {STRETCH[7]:.4g} with {stress[7] / 1e3:.4g} kPa" in found.doubts[0]


def test_a_falling_strain_is_no_first_loading(tmp_path):
    """The note and the number of samples used agree."""
    test = read_test(pull(tmp_path, rows()[::-1]))
    assert len(test.stretch) == 20
    assert "all 20 samples are used" in test.warnings[0]
    assert not any("first loading kept" in note for note in test.notes)


def test_the_default_range_is_where_soft_robots_work():
    """Up to stretch 2 of 8; a range that is named is taken; the material is that of small stretches."""
    stretch = np.linspace(1.05, 8.0, 140)
    stress = nominal_stress("yeoh", [25e3, 300.0, 20.0], "uniaxial", stretch)
    test = MaterialTest("UT", stretch, stress)
    found = fit(test, "best")
    assert found.stretch_range[1] == pytest.approx(2.0, abs=0.05)
    assert found.material.shear_modulus == pytest.approx(50e3, rel=0.03)
    assert "recommended of 5 models" in found.choice
    assert "to stretch 2 of 8, where soft robots work" in found.choice
    assert any("to stretch 2 of 8" in line for line in found.lines())
    assert fit(test, "best", max_stretch=np.inf).stretch_range[1] == 8.0
    assert (
        fit(test, max_stretch=np.inf).parameters["c1"] > 100e3
    )  # Mooney-Rivlin of all samples is far too stiff at rest


def test_the_range_shrinks_to_where_the_model_holds():
    """A curve that stiffens sharply at stretch 1.6: neo-Hookean is taken to where it is within 5 % rms, and says so."""
    stretch = np.linspace(1.02, 2.0, 80)
    stress = nominal_stress("neo-hookean", [60e3], "uniaxial", stretch) * (1.0 + 3.0 * np.maximum(stretch - 1.6, 0.0))
    found = fit(MaterialTest("UT", stretch, stress), "neo-hookean")
    assert found.rms < 0.05
    assert 1.6 < found.stretch_range[1] < 1.95
    assert "the longest range in which neo-hookean is off by at most 5 % rms" in found.choice


def test_few_samples_below_two_are_not_all_there_is():
    """Where a sparse test has fewer than eight samples to stretch 2, eight are used, and it says so."""
    stretch = np.linspace(1.4, 6.0, 12)
    found = fit(MaterialTest("UT", stretch, nominal_stress("neo-hookean", [50e3], "uniaxial", stretch)), "neo-hookean")
    assert found.stretch_range[1] == pytest.approx(stretch[7])
    assert "too few samples" in found.choice


@pytest.mark.parametrize(
    ("header", "lines", "option", "remedy"),
    [
        ("strain (%),stress", rows(), "--stress-unit", ["--stress-unit", "kPa"]),
        ("a,b", rows(), "--strain-column", None),
        ("extension (mm),stress (kPa)", rows(), "--gauge-length-mm", ["--gauge-length-mm", "100"]),
        ("strain (%),force (N)", rows(), "--area-mm2", ["--area-mm2", "1000"]),
    ],
)
def test_refusals_name_options_that_help(tmp_path, header, lines, option, remedy):
    """What the command line asks for is an option that it has, and following it works."""
    path = pull(tmp_path, lines, header)
    refused = CliRunner().invoke(main, ["calibrate", str(path)])
    assert refused.exit_code == 1
    assert option in refused.output
    assert f"{option.lstrip('-').replace('-', '_')}=" not in refused.output
    assert option in CliRunner().invoke(main, ["calibrate", "--help"]).output
    kinds = ["--strain-column", "0", "--strain-kind", "engineering strain", "--strain-unit", "%"]
    kinds += ["--stress-column", "1", "--stress-kind", "engineering stress", "--stress-unit", "kPa"]
    done = CliRunner().invoke(main, ["calibrate", str(path), *(remedy or kinds)])
    assert done.exit_code == 0, done.output
    assert "recommended of 5 models" in done.output


def test_an_unknown_option_of_reading_is_named(tmp_path):
    with pytest.raises(InputError, match="`reading` has 'a', which is no argument of read_test"):
        run([pull(tmp_path, ["0, 0", "1, 2", "2, 4"])], reading={"a": 1})
