"""What the studio opens: a generator, a robot file, a result, the folder of a study; else one line says what it could."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'geosim[studio]'")
pytest.importorskip("tomli_w", reason="tomli-w is not installed: pip install 'geosim[studio]'")

import geosim
from geosim import generate
from geosim.apps.studio.opening import opened


def test_a_result_opens_with_the_design_and_the_pressure_that_it_has(tmp_path):
    robot = generate.pneunet(chambers=1, wall=2.5e-3).robot("ecoflex-00-30-fang2022", max_edge=25e-3)
    result = geosim.solve(robot, geosim.Inflation(pressure=[500.0]), solver=geosim.EnergyShapeSolver(element="p1"))
    result.save(tmp_path / "result.npz")
    scene = opened(str(tmp_path / "result.npz"), tmp_path).scene
    assert (scene.design, scene.values["chambers"], scene.values["pressure_kpa:0"]) == ("pneunet", 1, 0.5)
    assert scene.values["wall_mm"] == pytest.approx(2.5)


def test_the_folder_of_a_study_opens_with_its_design_and_its_report(tmp_path):
    (tmp_path / "study.toml").write_text('design = "bellows"\n')
    (tmp_path / "report.html").write_text("<p>report</p>")
    session = opened(str(tmp_path), tmp_path)
    assert (session.scene.design, session.report) == ("bellows", tmp_path / "report.html")
    (tmp_path / "study.toml").write_text("robot = 1\n")
    with pytest.raises(geosim.InputError, match="neither a best design nor a generator"):
        opened(str(tmp_path), tmp_path)


@pytest.mark.parametrize("target", ["nothing", "robot.txt", "."])
def test_what_is_none_of_these_is_refused(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(geosim.InputError, match=r"neither a generator \(pneunet, "):
        opened(target, tmp_path)
