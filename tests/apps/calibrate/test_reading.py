"""Reading tests as machines write them."""

from __future__ import annotations

import numpy as np
import pytest
from geosim.calibrate import MaterialTest, nominal_stress, read_test

from geosim.apps.calibrate.toe import correlation_time
from geosim.errors import InputError

STRETCH = np.linspace(1.0, 2.0, 21)
STRESS = 60e3 * (STRETCH - STRETCH**-2)  # Pa


def table(columns, delimiter=",", decimal=".", form="{:.6g}"):
    rows = [delimiter.join(form.format(v).replace(".", decimal) for v in row) for row in np.stack(columns, axis=1)]
    return "\n".join(rows) + "\n"


FILES = {
    "plain.csv": "stretch,nominal stress (MPa)\n" + table([STRETCH, STRESS / 1e6]),
    "semicolon.csv": "Dehnung [%];Spannung [kPa]\n" + table([100 * (STRETCH - 1), STRESS / 1e3], ";", ","),
    "tabs.txt": "Time\tStrain\tStress\n(s)\t(mm/mm)\t(MPa)\n" + table([STRETCH, STRETCH - 1, STRESS / 1e6], "\t"),
    "blanks.txt": "Strain_%   Stress_kPa\n" + table([100 * (STRETCH - 1), STRESS / 1e3], " "),
    "machine.csv": (
        "﻿Specimen Thickness (mm);2;;\nSpecimen Width (mm);4;;\nSpecimen Length (mm);25;;\n;;;\n"
        "Zeit;Standardweg;Standardkraft\ns;mm;N\n"
        + table([STRETCH, 25 * (STRETCH - 1), STRESS * 8e-6], ";", ",", "{:.8g}")
    ),
    "area.csv": (
        "Area: 8 mm^2\nGauge length: 25 mm\nExtension (mm),Load (N)\n"
        + table([25 * (STRETCH - 1), STRESS * 8e-6], form="{:.8g}")
    ),
    "true.csv": "True Strain,True Stress (kPa)\n" + table([np.log(STRETCH), STRESS * STRETCH / 1e3]),
    "quoted.csv": '"Time","Tensile strain","Tensile stress"\n"(s)","(%)","(MPa)"\n'
    + "".join(f'"{i}","{100 * (s - 1):.5f}","{p / 1e6:.7f}"\n' for i, (s, p) in enumerate(zip(STRETCH, STRESS))),
}


@pytest.mark.parametrize("name", FILES)
def test_dialects_give_the_same_test(tmp_path, name):
    """Delimiters, decimal commas, BOM, header blocks, units, forces, true measures: one and the same curve."""
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    test = read_test(path)
    assert test.mode == "uniaxial"
    assert test.stretch == pytest.approx(STRETCH, abs=1e-5)
    assert test.nominal_stress == pytest.approx(STRESS, rel=1e-4, abs=1.0)
    assert any("delimiter" in note for note in test.notes)
    assert any("mode uniaxial" in note for note in test.notes)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(("Prüfung;;\n" + FILES["semicolon.csv"]).encode(encoding))
    assert read_test(path).stretch == pytest.approx(STRETCH, abs=1e-5)


def test_mode_from_header_then_name_then_assumed(tmp_path):
    """Header before file name before the assumption; the note says which."""
    body = FILES["plain.csv"]
    for name, head, mode, why in [
        ("a.csv", "", "uniaxial", "assumed"),
        ("a_ET.csv", "", "equibiaxial", "file name"),
        ("a_PS.csv", "", "pure-shear", "file name"),
        ("a_ET.csv", "Pure shear test,\n", "pure-shear", "header"),
        ("a_PS.csv", "Type of test,Equi-biaxial bulge\n", "equibiaxial", "header"),
    ]:
        path = tmp_path / name
        path.write_text(head + body)
        test = read_test(path)
        assert test.mode == mode
        assert any(note.startswith("mode") and why in note for note in test.notes)
    assert read_test(path, "uniaxial").mode == "uniaxial"


def test_compression_counted_positive_is_turned(tmp_path):
    """Machines write compressive strain and force as positive numbers."""
    stretch = np.linspace(1.0, 0.6, 21)
    stress = 60e3 * (stretch - stretch**-2)
    path = tmp_path / "puck.csv"
    path.write_text("Compression test,\nstrain (%),stress (kPa)\n" + table([100 * (1 - stretch), -stress / 1e3]))
    test = read_test(path)
    assert test.mode == "compression"
    assert test.stretch == pytest.approx(stretch, abs=1e-5)
    assert test.nominal_stress == pytest.approx(stress, rel=1e-4, abs=1.0)


def test_first_loading_is_kept_and_the_break_cut(tmp_path):
    """Unloading and what follows the break do not enter; both are told, and can be kept."""
    back = STRETCH[::-1]
    path = tmp_path / "cycle.csv"
    path.write_text("stretch,stress (kPa)\n" + table([np.r_[STRETCH, back], np.r_[STRESS, 0.7 * STRESS[::-1]] / 1e3]))
    test = read_test(path)
    assert test.stretch == pytest.approx(STRETCH, abs=1e-5)
    assert any("first loading" in note for note in test.notes)
    assert len(read_test(path, first_loading=False).stretch) == 42
    path.write_text("stretch,stress (kPa)\n" + table([np.r_[STRETCH, 2.05, 2.1], np.r_[STRESS, 10.0, 0.0] / 1e3]))
    test = read_test(path)
    assert len(test.stretch) == 21
    assert any("break" in note for note in test.notes)


def test_everything_detected_can_be_overridden(tmp_path):
    """Without a header nothing is guessed; with arguments the same curve results."""
    path = tmp_path / "bare.csv"
    path.write_text(table([25 * (STRETCH - 1), STRESS * 8e-6], form="{:.8g}"))
    with pytest.raises(InputError, match="strain_column="):
        read_test(path)
    test = read_test(
        path,
        strain_column=0,
        strain_kind="displacement",
        strain_unit="mm",
        stress_column=1,
        stress_kind="force",
        stress_unit="N",
        area=8e-6,
        gauge_length=25e-3,
    )
    assert test.stretch == pytest.approx(STRETCH, abs=1e-5)
    assert test.nominal_stress == pytest.approx(STRESS, rel=1e-4, abs=1.0)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "empty"),
        ("hello\nworld\n", "no table"),
        ("strain,stress\n0,1\n1,2\n2,3\n", "stress_unit="),
        ("Extension (mm),Load (N)\n0,1\n1,2\n2,3\n", "gauge_length="),
        ("Gauge length: 5 mm\nExtension (mm),Load (N)\n0,1\n1,2\n2,3\n", "area="),
        ("stretch,stress (MPa)\n0,1\n-1,2\n-2,3\n", "impossible"),
        ("stretch,temperature\n1,1\n1.1,2\n1.2,3\n", "stress_column="),
        ("a\x00b", "binary"),
    ],
)
def test_unusable_files_are_named_with_the_remedy(tmp_path, text, match):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        read_test(path)


def test_missing_file_and_bad_arrays():
    with pytest.raises(InputError, match="cannot be read"):
        read_test("nowhere.csv")
    with pytest.raises(InputError, match="equally many"):
        MaterialTest("UT", [1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="nan"):
        MaterialTest("UT", [1, 2], [1, np.nan])
    with pytest.raises(InputError, match="unknown"):
        MaterialTest("torsion", [1, 2], [1, 2])


@pytest.mark.parametrize("grade", ["Ecoflex 00-30", "Dragon Skin 20", "Dragon Skin 30"])
def test_database_files_read_unaided(reference_data, grade):
    """The engineering columns in MPa of a ';' file with a header block are found without help."""
    path = reference_data / "materials" / "tensile" / f"{grade}.csv"
    test = read_test(path)
    raw = np.genfromtxt(path, delimiter=";", skip_header=18, encoding="utf-8-sig")
    raw = raw[np.isfinite(raw).all(axis=1)]
    assert test.stretch == pytest.approx(1 + raw[:, 3])
    assert test.nominal_stress == pytest.approx(raw[:, 4] * 1e6)
    assert any("Engineering Strain" in note for note in test.notes)


def test_speed_and_hold_are_read_from_a_time_column(tmp_path):
    """A pull of 10 %/s to stretch 2 and a hold of 30 s, in which a tenth of the stress goes."""
    time = np.r_[np.linspace(0.0, 10.0, 50), np.linspace(10.5, 40.0, 60)]
    strain = np.minimum(0.1 * time, 1.0)
    stress = nominal_stress("neo-hookean", [50e3], "uniaxial", 1.0 + strain) * np.where(time > 10.0, 0.9, 1.0)
    path = tmp_path / "held.csv"
    rows = [f"{t:.4f},{e:.6f},{p / 1e3:.6f}" for t, e, p in zip(time, strain, stress)]
    path.write_text("\n".join(["Time (s),strain,stress (kPa)", *rows]))
    notes = " | ".join(read_test(path).notes)
    assert "pulled at 10 %/s" in notes
    assert "held for 30 s at stretch 2, where the stress falls by 10 %" in notes


def test_compliance_of_the_machine_is_taken_from_displacements(tmp_path):
    """50 um/N on 25 mm: the specimen's own stretch comes back; a file of strains refuses it."""
    stretch = np.linspace(1.0, 2.0, 30)
    force = nominal_stress("neo-hookean", [50e3], "uniaxial", stretch) * 24e-6
    path = tmp_path / "soft.csv"
    rows = [f"{25.0 * (s - 1) + 0.05 * f:.6f},{f:.8f}" for s, f in zip(stretch, force)]
    path.write_text("\n".join(["displacement (mm),force (N)", *rows]))
    test = read_test(path, area=24e-6, gauge_length=25e-3, compliance=50e-6)
    assert test.stretch == pytest.approx(stretch, abs=1e-6)
    path.write_text("\n".join(["strain,stress (kPa)", "0,0", "1,10"]))
    with pytest.raises(InputError, match="needs columns of displacement and force"):
        read_test(path, compliance=50e-6)


def test_the_correlation_time_of_a_long_record_is_its_closed_form():
    """Of x_k = f x_(k - 1) + noise it is (1 + f) / (1 - f); 200,000 samples take no longer than their sum."""
    from scipy.signal import lfilter

    noise = np.random.default_rng(3).standard_normal(200_000)
    for share in (0.0, 0.5, 0.8):
        found = correlation_time(lfilter([1.0], [1.0, -share], noise))
        assert found == pytest.approx((1.0 + share) / (1.0 - share), rel=0.1)
    ramp = np.linspace(-1.0, 1.0, 100_000)  # as a law that does not fit leaves it
    assert correlation_time(ramp) > 1e3
