"""Sweeps: what goes wrong with a design costs that design; what is killed goes on and nothing is lost or done twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas
import pytest
from apps.study import planted
from apps.study.planted import BAR, solve_here
from click.testing import CliRunner

import geosim
from geosim.apps.study.runs import Runs
from geosim.apps.study.study import read_study
from geosim.apps.study.sweeping import interrupts
from geosim.cli import main
from geosim.cli.study import summary
from geosim.errors import GeosimWarning, InputError


@pytest.mark.slow
def test_a_fault_costs_its_design_alone(tmp_path, monkeypatch, one_server):
    one_server(monkeypatch)
    study = {**BAR, "design": planted.faulty, "vary": {"fault": [1, 4, 5, 0]}, "limits": {"memory_gb": 1.0}}
    table = geosim.sweep(study, workers=1, out=tmp_path / "out")
    assert table["fault"].tolist() == [1, 4, 5, 0]
    assert table["status"].tolist() == ["CRASHED", "OUT_OF_MEMORY", "MESH_FAILED", "CONVERGED"]
    assert "SIGSEGV" in table["message"][0]
    assert "crashed (SIGSEGV)" in table["message"][2]
    assert table["memory_mb"][1] > 1000
    assert table["tip_z_mm"].isna().tolist() == [True] * 3 + [False]


@pytest.mark.slow
def test_one_design_after_the_other_without_mkl(tmp_path, monkeypatch):
    """A server solves before it forks: no factoriser may leave it threads that a child waits for."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "without_mkl"))  # for the server, which starts afresh
    study = {**BAR, "sampling": {"method": "list", "file": "designs.csv"}, "limits": {"seconds": 6.0}}
    (tmp_path / "designs.csv").write_text("length_mm\n20\n21\n22\n")
    monkeypatch.chdir(tmp_path)
    table = geosim.sweep(study, workers=1, out=tmp_path / "out")
    assert table["status"].tolist() == ["CONVERGED"] * 3


def test_what_never_ends_is_ended(tmp_path, monkeypatch, one_server):
    """One design waits, the other computes."""
    one_server(monkeypatch)
    study = {**BAR, "design": planted.faulty, "vary": {"fault": [2, 3]}, "limits": {"seconds": 0.2}}
    table = geosim.sweep(study, workers=1, out=tmp_path / "out")
    assert table["status"].tolist() == ["TIMEOUT"] * 2
    assert all("more than 0.2 s of CPU time, or 1 s in all" in said for said in table["message"])


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """A sweep with a refused design, one that is listed twice, and a good one."""
    folder = tmp_path_factory.mktemp("bars")
    (folder / "designs.csv").write_text("length_mm,height_mm\n20,6\n-20,6\n24,6\n20,6\n")
    out = folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        solve_here(patch)
        table = geosim.sweep({**BAR, "sampling": {"method": "list", "file": "designs.csv"}}, workers=1, out=out)
    return out, table


def test_the_table_has_a_row_a_design_in_the_order_of_the_list(bars):
    out, table = bars
    assert table.columns.tolist() == [
        *("run", "length_mm", "height_mm", "status", "message", "seconds", "memory_mb"),
        *("tip_z_mm", "mass_g", "tets", "pressure_kpa_1"),
    ]
    assert table["length_mm"].tolist() == [20, -20, 24, 20]
    assert table["run"][0] == table["run"][3]
    assert len(list((out / "runs").iterdir())) == 3
    assert table["status"].tolist() == ["CONVERGED", "REFUSED", "CONVERGED", "CONVERGED"]
    assert table["message"][1] == "length [m] = -0.02 must be a positive number"
    density = geosim.materials.ECOFLEX_00_30.density
    np.testing.assert_allclose(table["mass_g"][[0, 2]], 1e3 * density * 36e-6 * np.array([20e-3, 24e-3]), rtol=1e-9)
    assert table["tip_z_mm"][2] < table["tip_z_mm"][0] < 3.0  # a longer bar sags more
    assert table["pressure_kpa_1"].isna().all()
    pandas.testing.assert_frame_equal(pandas.read_parquet(out / "table.parquet"), table)
    pandas.testing.assert_frame_equal(pandas.read_csv(out / "table.csv"), table)


def test_a_run_can_be_solved_again_from_its_folder(bars):
    out, table = bars
    run = out / "runs" / table["run"][0]
    assert {"robot.toml", "result.npz", "picture.png", "log.txt"} <= {p.name for p in run.iterdir()}
    result = geosim.load_result(run / "result.npz")
    assert result.tip[-1, 2] * 1e3 == table["tip_z_mm"][0]
    robot, environment, solver = geosim.files.robot.load_problem(run / "robot.toml")
    again = geosim.solve(robot, geosim.Passive(), environment, solver=solver)
    np.testing.assert_allclose(again.tip, result.tip, rtol=1e-9)


def test_the_report_is_one_page_with_a_picture_and_a_link_for_every_design(bars):
    out, table = bars
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('class="card"') == 4
    assert page.count("data:image/jpeg;base64,") == 3
    assert "<script src" not in page
    for run in table["run"]:
        assert f"runs/{run}/index.html" in page
        assert (out / "runs" / run / "index.html").is_file()


def test_a_design_that_is_solved_is_not_solved_again(bars):
    out, table = bars
    before = {p: p.stat().st_mtime_ns for p in (out / "runs").glob("*/row.json")}
    study = {**BAR, "vary": {"length_mm": [20], "height_mm": [6]}}
    pandas.testing.assert_frame_equal(geosim.sweep(study, workers=1, out=out), table[:1])
    assert {p: p.stat().st_mtime_ns for p in (out / "runs").glob("*/row.json")} == before
    with pytest.raises(InputError, match="exists and is not empty"):
        geosim.sweep(study, out=out, resume=False)


STUDY = """
robot = "robot.toml"
[vary]
"environment.gravity.2" = { from = -10.0, to = -5.0, steps = 5 }
[measures]
columns = ["tip_z_mm"]
"""
ROBOT = """
kind = "volumetric"
units = "mm"
[body]
surface = "body.stl"
material = "ecoflex-00-30-fang2022"
max_edge = 6.0
[fixed]
plane = "x"
below = 0.1
[environment]
gravity = [0, 0, -9.81]
[solver]
element = "p1"
"""


@pytest.fixture
def sagging(tmp_path):
    planted.bar().body.copy().apply_scale(1e3).export(tmp_path / "body.stl")
    (tmp_path / "robot.toml").write_text(ROBOT)
    (tmp_path / "sag.toml").write_text(STUDY)
    return tmp_path


def swept(folder, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "geosim.cli", "sweep", "sag.toml", "--workers", "1", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kept(folder):
    """Runs that are whole, and when they were written."""
    found = (folder / "geosim-sag" / "runs").glob("[0-9a-f]*/row.json")
    return {p.parent.name: p.stat().st_mtime_ns for p in found}


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_where_it_was(sagging, monkeypatch):
    """Killed after its first run, interrupted after its second: in the end it has what each design gives by itself.

    There are more designs than could be solved while the signal is on its way.
    """
    seen: dict[str, int] = {}
    for count, how in ((1, signal.SIGKILL), (2, signal.SIGINT)):
        process = swept(sagging, *(["--resume"] if seen else []))
        while len(kept(sagging)) < count and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
        assert process.returncode == (130 if how is signal.SIGINT else -how), said
        assert seen.items() <= kept(sagging).items()  # none again
        seen = kept(sagging)
    assert "go on with --resume" in said
    assert 2 <= len(pandas.read_csv(sagging / "geosim-sag" / "table.csv")) < 5
    solve_here(monkeypatch)
    table = geosim.sweep(sagging / "sag.toml", workers=1, out=sagging / "geosim-sag")
    assert seen.items() <= kept(sagging).items()
    np.testing.assert_allclose(table["environment.gravity.2"], np.linspace(-10.0, -5.0, 5))
    assert table["run"].is_unique
    assert (np.diff(table["tip_z_mm"]) > 0).all()  # less weight, less sag
    study = read_study(sagging / "sag.toml")
    assert table["run"].tolist() == [study.job(row).run for row in study.rows]
    assert table["status"].tolist() == ["CONVERGED"] * 5
    for run, tip in zip(table["run"], table["tip_z_mm"]):
        path = sagging / "geosim-sag" / "runs" / run / "robot.toml"
        robot, environment, solver = geosim.files.robot.load_problem(path)
        alone = geosim.solve(robot, geosim.Passive(), environment, solver=solver)
        assert tip == pytest.approx(1e3 * alone.tip[-1, 2], rel=1e-9)


def test_an_interrupt_that_is_lost_is_noticed():
    """Whatever becomes of what Ctrl-C raises, the event is set; afterwards signals go where they went."""
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as interrupted:
        assert not interrupted.is_set()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_invalid_study_is_refused_with_status_1_and_writes_nothing(sagging, monkeypatch):
    monkeypatch.chdir(sagging)
    (sagging / "sag.toml").write_text(STUDY.replace("steps = 5", "step = 5"))
    done = CliRunner().invoke(main, ["sweep", "sag.toml"])
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "step is an unknown key" in done.stderr
    assert not (sagging / "geosim-sag").exists()


def test_a_large_study_goes_on(tmp_path):
    """Files of hundreds of runs are no reason to refuse the folder that holds them."""
    run = tmp_path / "runs" / "0123456789ab"
    run.mkdir(parents=True)
    for i in range(1001):
        (run / str(i)).touch()
    Runs(tmp_path, resume=True, force=False)


@pytest.mark.slow
def test_a_damaged_run_is_named_and_solved_again(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    study = {**BAR, "vary": {"length_mm": [20.0, 24.0]}}
    first = geosim.sweep(study, workers=1, out=tmp_path / "out")
    for content in ("{", '{"run": 1}', "[1, 2]"):
        path = tmp_path / "out" / "runs" / first["run"][0] / "row.json"
        path.write_text(content)
        with pytest.warns(GeosimWarning, match=f"{path} is damaged; the design is solved again"):
            again = geosim.sweep(study, workers=1, out=tmp_path / "out")
        assert again["status"].tolist() == first["status"].tolist() == ["CONVERGED", "CONVERGED"]
        assert json.loads(path.read_text(encoding="utf-8"))["run"] == first["run"][0]


def test_another_study_does_not_replace_the_table_of_one(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    study = {**BAR, "vary": {"length_mm": [20.0]}}
    geosim.sweep(study, workers=1, out=tmp_path / "out")
    kept = (tmp_path / "out" / "table.csv").read_bytes(), (tmp_path / "out" / "study.toml").read_bytes()
    for another in ({"vary": {"height_mm": [7.0]}}, {"design": planted.faulty, "vary": {"length_mm": [20.0]}}):
        with pytest.raises(InputError, match=r"holds another study: (vary|design) was .* there and is .* here"):
            geosim.sweep({**BAR, **another}, workers=1, out=tmp_path / "out")
    assert ((tmp_path / "out" / "table.csv").read_bytes(), (tmp_path / "out" / "study.toml").read_bytes()) == kept
    more = geosim.sweep({**BAR, "vary": {"length_mm": [20.0, 22.0]}}, workers=1, out=tmp_path / "out")
    assert len(more) == 2  # the same study with one more


@pytest.mark.parametrize("memory", [np.inf, np.nan, 1e300, 0.0])
def test_impossible_limits_are_refused(memory):
    with pytest.raises(InputError, match="memory_gb"):
        read_study({**BAR, "vary": {"length_mm": [20.0]}, "limits": {"memory_gb": memory}})


def test_resume_and_force_exclude_each_other(sagging, monkeypatch):
    monkeypatch.chdir(sagging)
    done = CliRunner().invoke(main, ["sweep", "sag.toml", "--resume", "--force"])
    assert done.exit_code == 2
    assert "give one of them" in done.stderr
    assert not (sagging / "geosim-sag").exists()


@pytest.mark.slow
def test_a_mesh_is_refined_until_the_tip_is_accurate(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    study = {**BAR, "vary": {"length_mm": [30.0]}, "solver": {"element": "p2"}, "mesh": {"accuracy": 0.02}}
    row = geosim.sweep(study, workers=1, out=tmp_path / "out").iloc[0]
    assert row["status"] == "CONVERGED"
    result = geosim.load_result(tmp_path / "out" / "runs" / row["run"] / "result.npz")
    robot = result.robot
    moved = result.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip]
    assert np.linalg.norm(geosim.error_bars(result).mesh) <= 0.02 * np.linalg.norm(moved)


def test_a_wider_limit_solves_again_what_the_old_one_ended(tmp_path, monkeypatch, one_server):
    one_server(monkeypatch)
    study = {**BAR, "vary": {"length_mm": [20.0]}, "limits": {"memory_gb": 0.01}}
    assert geosim.sweep(study, workers=1, out=tmp_path / "out")["status"].tolist() == ["OUT_OF_MEMORY"]
    solve_here(monkeypatch)
    assert geosim.sweep({**study, "limits": {}}, workers=1, out=tmp_path / "out")["status"].tolist() == ["CONVERGED"]
    row = json.loads(next((tmp_path / "out" / "runs").glob("*/row.json")).read_text(encoding="utf-8"))
    assert row["limits"] == {"seconds": 600.0, "memory": 4_000_000_000}


def test_a_sweep_prints_its_first_rows_and_why_others_have_none():
    rows = [
        {"run": f"r{i}", "wall_mm": 1.0 + i, "status": "CONVERGED", "message": "", "seconds": 1.0} for i in range(12)
    ]
    rows.append({**rows[0], "run": "refused", "status": "REFUSED", "message": "too thick"})
    lines = "\n".join(summary(pandas.DataFrame(rows)))
    assert "13 designs: 12 CONVERGED, 1 REFUSED" in lines
    assert "REFUSED: too thick" in lines
    assert "r9" in lines
    assert "r10" not in lines
    assert "and 2 more in table.csv" in lines
    assert "seconds" not in lines
