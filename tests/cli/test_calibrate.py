"""geosim calibrate and geosim compare, as a user types them."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from shapes import shell

import geosim
from geosim.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, [str(a) for a in args])


def _uniaxial(path, c1=40e3, c2=10e3):
    stretch = np.linspace(1.0, 2.0, 30)
    stress = 2 * (stretch - stretch**-2) * (c1 + c2 / stretch)
    rows = [f"{s - 1:.6f},{t / 1e6:.9f}" for s, t in zip(stretch, stress)]
    path.write_text("\n".join(["Engineering Strain,Engineering Stress (MPa)", *rows]) + "\n")


def test_calibrate_writes_a_material_that_solves(run, tmp_path):
    _uniaxial(tmp_path / "pull.csv")
    done = run("calibrate", "pull.csv:uniaxial", "--model", "mooney-rivlin", "--out", "mine.toml")
    assert done.exit_code == 0, done.output
    material = geosim.materials.load_material(tmp_path / "mine.toml")
    assert material.c1 == pytest.approx(40e3, rel=0.01)
    assert material.c2 == pytest.approx(10e3, rel=0.03)
    assert (tmp_path / "mine.png").is_file()
    again = run("calibrate", "pull.csv", "--out", "mine.toml")
    assert again.exit_code == 1
    assert "--force" in again.output


def test_slack_is_found_given_or_left(run, tmp_path):
    """1 mm on 25 mm: auto and the length in mm give mu = 36 kPa, none is 8 % off or more; what is no length is refused."""
    strain = np.linspace(0.0, 2.0, 150)
    stretch = 1.0 + np.maximum(strain - 0.04, 0.0)
    force = 24e-6 * 2 * (stretch - stretch**-2) * (12e3 + 6e3 / stretch)
    rows = [f"{25 * e:.5f};{f:.7f}".replace(".", ",") for e, f in zip(strain, force)]
    (tmp_path / "zwick.csv").write_text("\n".join(["Weg;Kraft", "mm;N", *rows]) + "\n")
    given = ("calibrate", "zwick.csv", "--area-mm2", "24", "--gauge-length-mm", "25", "--max-stretch", "3")
    modulus = {}
    for toe in ("auto", "none", "1"):
        done = run(*given, "--toe", toe)
        assert done.exit_code == 0, done.output
        modulus[toe] = float(done.output.split("shear modulus at rest ")[1].split()[0])
    assert modulus["auto"] == pytest.approx(36.0, rel=0.02)
    assert modulus["1"] == pytest.approx(36.0, rel=0.02)
    assert modulus["none"] < 33.0
    wrong = run(*given, "--toe", "some")
    assert (wrong.exit_code, len(wrong.output.strip().splitlines())) == (1, 1)


def test_a_cyclic_record_gives_both_states(run, tmp_path):
    """Three pulls, the later ones 30 % softer: the file answers a conditioned body, the output names what it found."""
    up = np.linspace(1.0, 2.0, 80)
    first = 50e3 * (up - up**-2)
    stretch = np.concatenate([np.r_[up, up[::-1]]] * 3)
    stress = np.concatenate([np.r_[first if k == 0 else 0.72 * first, 0.68 * first[::-1]] for k in range(3)])
    rows = [f"{s:.6f},{p / 1e3:.6f}" for s, p in zip(stretch, stress)]
    (tmp_path / "cycles.csv").write_text("\n".join(["stretch,stress (kPa)", *rows]) + "\n")
    done = run("calibrate", "cycles.csv", "--out", "rubber.toml")
    assert done.exit_code == 0, done.output
    assert "3 cycles to stretch 2; hysteresis" in done.output
    assert "softening (Mullins)" in done.output
    law, worn = (
        geosim.materials.load_material(tmp_path / "rubber.toml", state) for state in ("first pull", "conditioned")
    )
    assert law.shear_modulus == pytest.approx(50e3, rel=0.02)
    assert worn.shear_modulus == pytest.approx(35e3, rel=0.03)


@pytest.mark.slow
def test_compare_recognises_its_own_surface(run, tmp_path):
    vertices, tets, regions = shell(0.01, 0.02, 1, 1)
    vertices = vertices * np.array([1.0, 0.7, 1.5])
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, regions, material="ecoflex-00-30-fang2022", fixed=geosim.Select.plane("z", below=-0.02)
    )
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.2), solver=geosim.EnergyShapeSolver(element="p1"))
    result.save(tmp_path / "result.npz")
    result.save(tmp_path / "scan.ply", units="mm")
    done = run("compare", "result.npz", "scan.ply", "--units", "mm", "--out", "map")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "map" / "report.html").is_file()
    assert "rms" in done.output
    assert ".part" not in done.output


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("calibrate", "nope.csv"), 1),
        (("calibrate",), 2),
        (("compare", "a.npz", "b.ply"), 1),
        (("compare", "a.npz", "b.ply", "--units", "yard"), 2),
    ],
)
def test_mistakes_are_one_line(run, args, status, tmp_path):
    done = run(*args)
    assert done.exit_code == status
    assert len(done.output.strip().splitlines()) == 1
    assert not any(tmp_path.iterdir())
