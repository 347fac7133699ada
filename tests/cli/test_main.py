"""The command line: what it writes, what it refuses, and with which exit status."""

from __future__ import annotations

import csv
import importlib
import os
import pathlib
import subprocess
import sys

import meshio
import numpy as np
import pytest
import trimesh
from bending import BAR_FILE, bent_result, save_bar
from click.testing import CliRunner

import geosim
from geosim import Inflation, InputError, Passive, Status, cli
from geosim.files.folder import write_folder

SOLVE = importlib.import_module("geosim.solve")  # geosim.solve itself is the function
FILES = {"result.npz", "frames.pvd", "picture.png", "view.html", "summary.csv"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a small robot."""
    save_bar(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def solved(monkeypatch):
    """Stand in for the solver: records what it was asked and returns bent frames."""
    asked = {}

    def run(robot, actuation, environment, **options):
        asked.update(robot=robot, actuation=actuation, environment=environment, **options)
        return bent_result(2, **asked.get("changes", {}))

    monkeypatch.setattr(SOLVE, "solve", run)
    monkeypatch.setattr(geosim.Result, "plot", lambda self, path: path.write_bytes(b"png"))
    return asked


def run(*arguments):
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


def one_line(outcome, status, *words):
    assert outcome.exit_code == status, outcome.output
    lines = [line for line in outcome.stderr.splitlines() if not line.startswith(("note:", "compiling"))]
    assert len(lines) == 1, outcome.stderr
    assert lines[0].startswith("geosim: ")
    for word in words:
        assert word in lines[0]


def test_solve_writes_everything_and_prints_the_table(folder, solved):
    outcome = run("solve", "bar.toml", "--volume-ratio", "1.1,1.2")
    assert outcome.exit_code == 0, outcome.output
    target = folder / "geosim-bar"
    assert {p.name for p in target.iterdir()} == FILES | {"frames_0000.vtu", "frames_0001.vtu"}
    assert "CONVERGED" in outcome.stdout
    assert "V/V0" in outcome.stdout
    assert np.array_equal(solved["actuation"].volume_ratio, [[1.1], [1.2]])
    assert solved["throw"] is False
    assert geosim.load_result(target / "result.npz").converged
    rows = list(csv.DictReader((target / "summary.csv").open()))
    assert [row["status"] for row in rows] == ["CONVERGED", "CONVERGED"]
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_a_robot_file_may_name_what_it_is_told(folder, solved):
    """An option takes its place; a file that is not there is refused before the mesher is asked."""
    text = (folder / "bar.toml").read_text()
    (folder / "bar.toml").write_text(f'actuation = "act.toml"\n{text}')
    one_line(run("solve", "bar.toml"), 1, "'act.toml' does not exist")
    assert "robot" not in solved
    (folder / "act.toml").write_text("[inflation]\nvolume_ratio = [1.3]\n")
    assert run("solve", "bar.toml").exit_code == 0
    assert np.array_equal(solved["actuation"].volume_ratio, [[1.3]])
    assert run("solve", "bar.toml", "--volume-ratio", "1.1", "--force").exit_code == 0
    assert np.array_equal(solved["actuation"].volume_ratio, [[1.1]])


def test_a_solve_that_stops_early_leaves_complete_files_and_exit_status_1(folder, solved):
    solved["changes"] = {"status": Status.PRESSURE_LIMIT, "message": "The pressure has a maximum.", "converged": False}
    outcome = run("solve", "bar.toml", "--pressure-kpa", "1,2,3", "--out", "deep/er/out")
    one_line(outcome, 1, "stopped early after 2 of 3", "maximum")
    target = folder / "deep" / "er" / "out"
    assert {p.name for p in target.iterdir()} >= FILES
    assert list(csv.DictReader((target / "summary.csv").open()))[-1]["status"] == "PRESSURE_LIMIT"
    assert np.array_equal(solved["actuation"].pressure, [[1e3], [2e3], [3e3]])


def test_a_film_is_written_where_it_is_asked_for_and_refused_before_the_solve(folder, solved, monkeypatch):
    monkeypatch.setattr(geosim.Result, "film", lambda self, path: path.write_bytes(b"film") and path)
    one_line(run("solve", "bar.toml", "--volume-ratio", "1.1", "--film", "bar.avi"), 1, "bar.avi", ".mp4, .gif")
    assert "robot" not in solved
    outcome = run("solve", "bar.toml", "--volume-ratio", "1.1", "--film", "bar.gif")
    assert outcome.exit_code == 0, outcome.output
    assert "film of 2 frames: bar.gif" in outcome.stdout
    assert (folder / "bar.gif").is_file()


def test_a_folder_that_holds_something_is_refused_without_force(folder, solved):
    target = folder / "geosim-bar"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    (target / "frames_0099.vtu").write_text("old")
    one_line(run("solve", "bar.toml", "--volume-ratio", "1.1"), 1, "not empty", "--force")
    assert "robot" not in solved
    assert run("solve", "bar.toml", "--volume-ratio", "1.1", "--force").exit_code == 0
    names = {p.name for p in target.iterdir()}
    assert names >= FILES | {"notes.txt"}
    assert "frames_0099.vtu" not in names
    one_line(run("solve", "bar.toml", "--volume-ratio", "2", "--out", "bar.vtu"), 1, "is a file")


def test_nothing_is_left_when_writing_fails(folder, monkeypatch):
    def broken(self, path):
        raise OSError("disk full")

    monkeypatch.setattr(geosim.Result, "save", broken)
    monkeypatch.setattr(geosim.Result, "plot", lambda self, path: path.write_bytes(b"png"))
    before = sorted(folder.iterdir())
    with pytest.raises(InputError, match="out: disk full"):
        write_folder(bent_result(1), folder / "out")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--volume-ratio", "abc"], ["'abc' is not numbers", "1.5:1,2:1"]),
        (["--volume-ratio", "1.5:1,2"], ["different length"]),
        (["--volume-ratio", "-1"], ["V/V0 is positive"]),
        (["--volume-ratio", ""], ["not numbers"]),
        (["--volume-ratio", "inf"], ["inf"]),
        (["--pressure-kpa", "1:2"], ["--pressure-kpa", "2 columns", "1 chamber"]),
        (["--volume-ratio", "2", "--pressure-kpa", "2"], ["exclude each other"]),
        (["--gravity", "9.81"], ["three numbers"]),
        (["--gravity", "0,0,-98100"], ["--gravity", "times the Earth"]),
        (["--element", "p3"], ["p3", "p2"]),
        (["--threads", "0"], ["--threads", "0 is not in the range x>=1"]),
        (["--threads", "1.5"], ["--threads", "1.5"]),
        (["--threads", "2", "--solver", "projective"], ["--threads does not go with ProjectiveShapeSolver"]),
        (["--sovler", "energy"], ["--sovler"]),
        (["extra"], ["extra"]),
    ],
)
def test_wrong_arguments_have_exit_status_2(folder, solved, arguments, words):
    one_line(run("solve", "bar.toml", *arguments), 2, *words)
    assert not (folder / "geosim-bar").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--actuation", "no.toml"], "no such actuation file"),
        (["--material", "rubber"], "not a preset"),
        (["--target", "bend_angle=9"], "is no goal, did you mean 'bend_angle_deg'?"),
    ],
)
def test_mistakes_are_said_before_the_folder_that_is_full(folder, solved, arguments, word):
    (folder / "geosim-bar").mkdir()
    (folder / "geosim-bar" / "note").touch()
    found = run("solve", "bar.toml", *arguments)
    assert found.exit_code == 1
    assert word in found.output
    assert "exists and is not empty" in run("solve", "bar.toml").output
    assert "cannot be written; choose another --out" in run("solve", "bar.toml", "--out", "/proc/x").output


def test_wrong_input_has_exit_status_1(folder, solved):
    one_line(run("solve", "gone.toml", "--volume-ratio", "2"), 1, "gone.toml", "no such robot file")
    (folder / "bar.toml").write_text(BAR_FILE.replace("below", "bellow"))
    one_line(run("solve", "bar.toml", "--volume-ratio", "2"), 1, "bar.toml", "did you mean 'below'")
    one_line(run("info", "bar.toml"), 1, "did you mean 'below'")
    (folder / "bar.toml").write_text(BAR_FILE)
    one_line(run("solve", "bar.toml", "--actuation", "act.toml"), 1, "act.toml", "no such actuation file")
    one_line(run("solve"), 2, "ROBOT")
    one_line(run("sovle"), 2, "sovle")
    one_line(run("info"), 2, "--system")


def test_options_reach_the_solve(folder, solved):
    (folder / "act.toml").write_text("[inflation]\nvolume_ratio = [1.5]\npressure_kpa = [nan]")
    outcome = run(
        "solve",
        "bar.toml",
        "--actuation",
        "act.toml",
        "--gravity",
        "0,-9.81,0",
        "--element",
        "p1",
        "--threads",
        "2",
        "--out",
        "a",
    )
    assert outcome.exit_code == 0, outcome.output
    assert np.array_equal(solved["environment"].gravity, [0, -9.81, 0])
    assert solved["solver"] == geosim.EnergyShapeSolver(element="p1", threads=2)
    assert isinstance(solved["actuation"], Inflation)
    outcome = run("solve", "bar.toml", "--out", "b")
    assert isinstance(solved["actuation"], Passive)
    assert "note: nothing inflates" in outcome.stderr


def test_an_interrupt_and_a_fault_are_one_line(folder, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    def fault(*arguments, **options):
        raise ZeroDivisionError("oops\nmore")

    monkeypatch.setattr(SOLVE, "solve", interrupted)
    outcome = run("solve", "bar.toml", "--volume-ratio", "2")
    assert outcome.exit_code == 130
    assert "interrupted" in outcome.stderr
    monkeypatch.setattr(SOLVE, "solve", fault)
    one_line(run("solve", "bar.toml", "--volume-ratio", "2"), 1, "ZeroDivisionError", "oops more")
    assert {p.name for p in folder.iterdir()} == {"bar.toml", "bar.vtu"}


def test_info_names_volumes_quality_and_notices(folder):
    outcome = run("info", "bar.toml", "--picture", "rest.png")
    assert outcome.exit_code == 0, outcome.output
    assert pathlib.Path("rest.png").read_bytes().startswith(b"\x89PNG")
    assert "100 x 20 x 20 mm" in outcome.stdout
    volume = 20.0 * 20.0 * 100.0 * (3 / 5) * (1 / 9)
    assert ["chamber", "1", f"{volume:.6g}", "mm^3,"] in [line.split()[:4] for line in outcome.stdout.splitlines()]
    assert "dihedral" in outcome.stdout
    assert "none found" in outcome.stdout
    meshio.vtu.write("bar.vtu", meshio.Mesh(*(lambda m: (m.points, m.cells))(meshio.read("bar.vtu"))))
    assert "no region per tet" in run("info", "bar.toml").stdout


def _with(folder, name, more):
    (folder / name).write_text((folder / "bar.toml").read_text() + more)
    return name


@pytest.mark.parametrize(
    ("command", "more", "status", "words"),
    [
        ("solve bar.toml --pressure-kpa -300", "", 2, ("pressure = -300 kPa", "give -101.325 kPa gauge or more")),
        ("solve bar.toml --pressure-kpa 5:6", "", 2, ("pressure = [5, 6] kPa", "1 chamber", "give 1")),
        (
            "solve bad.toml",
            "[actuation.inflation]\npressure_kpa = [[-500.0]]",
            1,
            ("bad.toml: ", "pressure = -500 kPa", "give -101.325 kPa"),
        ),
        (
            "info bad.toml",
            "[environment]\ngravity = 9.81",
            1,
            ("bad.toml: [environment] gravity = 9.81", "[0, 0, -9.81]"),
        ),
        (
            "solve bad.toml --volume-ratio 1.1",
            '[[environment.obstacles]]\nshape = "sphere"\ncenter = [50, 2, 2]\nradius = 0.2',
            1,
            ("bad.toml: obstacles[0]: ", "lies inside the robot at rest, its middle at (50, 2, 2) mm", "move it out"),
        ),
        ("generate pneunte", "", 2, ("'pneunte'", "did you mean 'pneunet'?")),
        ("demo pneunte", "", 2, ("'pneunte'", "did you mean 'pneunet'?")),
        ("explain unstble", "", 2, ("'unstble'", "did you mean 'UNSTABLE'?")),
        ("sweep bar.toml", "", 1, ("bar.toml is a robot file", 'robot = "bar.toml"', "[vary]")),
    ],
)
def test_what_is_refused_is_said_with_its_value_and_a_remedy(folder, command, more, status, words):
    _with(folder, "bad.toml", more)
    one_line(run(*command.split()), status, *words)


@pytest.mark.parametrize(
    ("options", "more", "status", "words"),
    [
        ("--actuation act.toml", "", 1, "did you mean 'pressure_kpa'?"),
        ("", '[solver]\nelemnt = "p1"', 1, "did you mean 'element'?"),
        ("", "[environment]\ngravty = [0, 0, -9.81]", 1, "did you mean 'gravity'?"),
        ("--solver projective --error-bars", "", 2, "--error-bars does not go with ProjectiveShapeSolver"),
        ("--element p1", '[solver]\nkind = "projective"', 2, "--element does not go with ProjectiveShapeSolver"),
    ],
)
def test_what_needs_no_robot_is_said_before_the_mesher_is_asked(folder, monkeypatch, options, more, status, words):
    monkeypatch.setattr(geosim.VolumetricRobot, "from_tets", lambda *given, **options: pytest.fail("it was asked"))
    (folder / "act.toml").write_text("[inflation]\npressure_kp = [[5.0]]")
    _with(folder, "bad.toml", more)
    one_line(run("solve", "bad.toml", *options.split()), status, words)


def test_a_cell_that_is_no_number_is_said_with_the_place_of_its_file(folder):
    (folder / "tables").mkdir()
    (folder / "tables" / "k.csv").write_text("time,curvature\n1,2\n1.1,a\n")
    one_line(run("solve", "bar.toml", "--actuation", "tables/k.csv"), 1, "tables/k.csv: row 3, column 2: 'a'")


def test_info_says_the_mass_of_every_kind_of_robot(folder):
    """A rod of 1200 kg/m^3, 0.5 m long and 2 mm in radius; a bar and a snake as they are read."""
    (folder / "rod.toml").write_text(
        'kind = "rod-shell"\nunits = "mm"\nfixed = { plane = "x", below = 1.0 }\n'
        "[[limbs]]\nstart = [0, 0, 0]\nend = [500, 0, 0]\nnodes = 6\n[rod]\nradius = 2.0\n"
        'material = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5, density = 1200 }\n'
    )
    snake = pathlib.Path(__file__).resolve().parents[2] / "meshes" / "snake" / "robot.toml"
    for file in ("bar.toml", "rod.toml", snake):
        outcome = run("info", file)
        assert outcome.exit_code == 0, outcome.output
        (said,) = (line.split()[1:] for line in outcome.stdout.splitlines() if line.startswith("mass "))
        mass = geosim.load_case(file)[0].mass
        assert said == [f"{1e3 * mass:.4g}", "g"]
        if file == "rod.toml":
            assert mass == pytest.approx(1200 * 0.5 * np.pi * 2e-3**2, rel=1e-12)


def test_a_command_of_nan_alone_is_refused(folder):
    outcome = run("solve", "bar.toml", "--pressure-kpa", "nan")
    assert outcome.exit_code == 2
    assert "prescribes nothing" in outcome.stderr


def test_matplotlib_has_a_folder_where_there_is_no_home(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLCONFIGDIR", "none")
    monkeypatch.delenv("MPLCONFIGDIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run().exit_code == 0
    assert "MPLCONFIGDIR" not in os.environ
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    assert run().exit_code == 0
    assert os.environ["MPLCONFIGDIR"].endswith("matplotlib")


def test_info_system_names_versions_factoriser_and_threads():
    outcome = run("info", "--system")
    assert outcome.exit_code == 0, outcome.output
    for word in ("geosim", geosim.__version__, "numpy", "factoriser", "threads"):
        assert word in outcome.stdout


def test_help_has_examples_and_demo_knows_its_names(folder, solved):
    for command in ("demo", "info", "solve"):
        outcome = run(command, "--help")
        assert outcome.exit_code == 0
        assert f"  geosim {command}" in outcome.stdout.split("Examples")[1]
    assert "solve" in run().stdout
    assert geosim.__version__ in run("--version").stdout
    one_line(run("demo", "octopus"), 2, "octopus", "finger, ", "pneunet, ", "sphere, ")


def test_the_demonstration_is_the_pneunet(folder, solved):
    assert run("demo").exit_code == 0
    assert solved["robot"].name == "pneunet"
    assert (folder / "geosim-pneunet" / "summary.csv").is_file()
    again = run("demo")
    assert again.exit_code == 0
    assert again.stderr == "note: the results of an earlier demo pneunet in geosim-pneunet are replaced\n"
    one_line(run("demo", "sphere", "--out", "geosim-pneunet"), 1, "--force")
    bent_result(1).save(folder / "geosim-pneunet" / "result.npz")  # not of a demo
    one_line(run("demo"), 1, "--force")


@pytest.mark.slow
def test_a_whole_process_solves_a_robot(folder):
    command = [sys.executable, "-m", "geosim.cli", "solve", "bar.toml", "--volume-ratio", "1.1,1.3", "--element", "p1"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    result = geosim.load_result(folder / "geosim-bar" / "result.npz")
    assert np.allclose(result.volume_ratios[:, 0], [1.1, 1.3], rtol=1e-6)
    assert result.solver.element == "p1"
    rows = list(csv.DictReader((folder / "geosim-bar" / "summary.csv").open()))
    assert all(int(row["iterations"]) >= 1 and float(row["seconds"]) > 0 for row in rows)
    one_line(run(*command[3:]), 1)


def test_input_errors_of_a_folder(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_folder(bent_result(1), tmp_path / "f")


def test_a_body_with_a_hole_is_solved_where_its_rescue_is_asked_for(tmp_path, monkeypatch, solved):
    """The refusal names the option, and the option mends the surface of the file."""
    monkeypatch.chdir(tmp_path)
    box = trimesh.creation.box([0.06, 0.016, 0.016])
    trimesh.Trimesh(box.vertices, box.faces[1:], process=False).export("open.stl")
    (tmp_path / "open.toml").write_text(
        'kind = "volumetric"\nunits = "m"\n[body]\nsurface = "open.stl"\nmax_edge = 0.01\nmaterial = "ecoflex-00-50"\n'
        '[fixed]\nplane = "x"\nbelow = -0.0299\n[tip]\nplane = "x"\nabove = 0.0299\n'
    )
    one_line(run("solve", "open.toml"), 1, "open.stl", "--rescue")
    outcome = run("solve", "open.toml", "--rescue")
    assert outcome.exit_code == 0, outcome.output
    assert solved["robot"].body_volume == pytest.approx(0.06 * 0.016**2, rel=1e-6)
    assert "rescued: 1 hole closed" in outcome.stderr
