"""`geosim generate` on the command line."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner

from geosim.apps.study.study import read_study
from geosim.cli.commands import main
from geosim.generate import GENERATORS
from geosim.generate.dimensions import dimensions


def run(*arguments: str):
    return CliRunner().invoke(main, ["generate", *arguments])


def test_alone_it_lists_the_designs_with_their_dimensions():
    found = run()
    assert found.exit_code == 0
    assert "pneunet  --chambers 6  --chamber-length-mm 8  --wall-mm 2" in found.output
    assert "--channel-mm 2,2" in found.output
    assert "twister" in found.output


def test_what_is_refused_is_said_in_the_unit_of_the_option(tmp_path):
    for wall, words in (
        ("-1", "wall [mm] = -1 must be a positive number"),
        ("1800", "wall = 1800 mm must be less than"),
    ):
        refused = run("pneunet", "--wall-mm", wall, "--out", str(tmp_path / "no"))
        assert (refused.exit_code, words in refused.output) == (1, True), refused.output


def test_it_writes_surfaces_and_a_robot_file(tmp_path):
    out = tmp_path / "finger"
    found = run("pneunet", "--chambers", "2", "--wall-mm", "1.8", "--channel-mm", "2,1.5", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert sorted(p.name for p in out.iterdir()) == ["body.stl", "chamber_1.stl", "robot.toml"]
    table = tomllib.loads((out / "robot.toml").read_text(encoding="utf-8"))
    assert table["design"]["name"] == "pneunet"
    assert table["design"]["parameters"]["wall"] == pytest.approx(1.8e-3)
    assert table["design"]["parameters"]["channel"] == pytest.approx([2e-3, 1.5e-3])
    again = run("pneunet", "--out", str(out))
    assert again.exit_code == 1
    assert "--force" in again.output


def test_what_may_be_left_out_is_an_option_and_can_be_varied(tmp_path):
    """Paper under a finger: none by default, its thickness in mm on the command line and in studies."""
    assert "--layer-mm none" in run().output
    out = tmp_path / "finger"
    found = run("pneunet", "--chambers", "1", "--layer-mm", "0.1", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert tomllib.loads((out / "robot.toml").read_text(encoding="utf-8"))["layers"][0]["thickness"] == pytest.approx(
        0.1
    )
    study = {"design": "pneunet", "material": "ecoflex-00-30-fang2022", "vary": {"layer_mm": [0.1, 0.2]}}
    read = read_study(study)
    assert [read.job(row).parameters["layer"] for row in read.rows] == pytest.approx([1e-4, 2e-4])


def test_a_gripper_takes_the_dimensions_of_its_finger(tmp_path):
    """Those of a pneunet, or of the finger that is named, in either spelling of the option."""
    assert "gripper  --finger pneunet" in run().output
    assert "--finger-wall-mm 2 " in run().output
    for finger in ((), ("--finger", "round_finger"), ("--finger=round_finger",)):
        out = tmp_path / str(len(finger))
        found = run(
            "gripper", *finger, "--finger-chambers", "2", "--finger-wall-mm", "1.5", "--out", str(out), "--force"
        )
        assert found.exit_code == 0, found.output
        made = tomllib.loads((out / "robot.toml").read_text(encoding="utf-8"))["design"]["parameters"]
        assert made["finger"] == ("round_finger" if finger else "pneunet")
        assert (made["finger_chambers"], made["finger_wall"]) == (2, pytest.approx(1.5e-3))
    assert (
        "No such option '--finger-height-mm'"
        in run("gripper", "--finger", "round_finger", "--finger-height-mm", "9").output
    )
    assert "not held at its face x = 0" in run("gripper", "--finger", "membrane", "--out", str(tmp_path / "no")).output


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("pneunet", "--wall-mm", "12"), 1, "wall = 12 mm"),
        (("pneumatic",), 2, "choose one of pneunet"),
        (("pneunet", "--wall", "2"), 2, "No such option"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, arguments, status, says):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert found.exit_code == status
    assert says in found.output
    assert list(tmp_path.iterdir()) == []


def test_a_made_robot_file_shows_how_to_choose_the_mesh(tmp_path):
    """The default mesh is fine: the file and the next command name what makes the first solve quick."""
    found = run("pneunet", "--chambers", "1", "--out", str(tmp_path / "finger"))
    text = (tmp_path / "finger" / "robot.toml").read_text(encoding="utf-8")
    assert "# max_edge = 8  # mm" in text
    assert "--preview" in found.output
    coarse = tomllib.loads(text.replace("# max_edge", "max_edge"))
    assert coarse["body"]["max_edge"] == 8
    assert max(len(str(v)) for corner in coarse["fixed"]["box"] for v in corner) <= 13  # no noise of the last digits


def test_python_m_geosim_is_the_command():
    done = subprocess.run([sys.executable, "-m", "geosim", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("geosim, version")


def test_millimetres_are_metres_without_rounding():
    """1.8 mm are 0.0018 m in the robot file, not 0.0018000000000000002."""
    wall = dimensions(GENERATORS["pneunet"])["wall_mm"]
    for value in (1.8, 2.2, 0.7, 14.6):
        assert repr(wall.si(value)) == repr(float(f"{value}e-3"))


def test_a_length_of_each_chamber_is_given_with_commas(tmp_path):
    given = ("--chambers", "2", "--height-mm", "18,14", "--wall-mm", "1.5", "--tip-height-mm", "9")
    assert "tip_height does not go with a height of each" in run("pneunet", *given, "--out", str(tmp_path / "a")).output
    assert run("pneunet", *given[:-2], "--out", str(tmp_path / "b")).exit_code == 0
    made = tomllib.loads((tmp_path / "b" / "robot.toml").read_text(encoding="utf-8"))["design"]["parameters"]
    assert (made["height"], made["wall"]) == ([18e-3, 14e-3], 1.5e-3)
