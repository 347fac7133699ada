"""Mistakes in markers are named, poses that are not the only one are said; sound comparisons raise no doubt."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from geosim.compare import to_markers

from geosim.apps.compare.mistakes import misfit
from geosim.apps.compare.registration import apply, kabsch
from geosim.cli import main
from geosim.errors import InputError

PLACE = Path(__file__).parents[3] / "scripts" / "planted_mistakes.py"


@pytest.fixture(scope="module")
def planted():
    """The study of planted mistakes."""
    return SimpleNamespace(**runpy.run_path(str(PLACE)))


@pytest.fixture(scope="module")
def robot(planted):
    return planted.beam()


@pytest.mark.parametrize("seed", range(2))
def test_marker_mistakes_are_named(planted, robot, seed):
    """Metres for millimetres and back, exchanged labels, a mirror image, one outlier; and no doubt without them."""
    for mistake in (*planted.OF_MARKERS, "clean", "wrong model"):
        good, said = planted.marked(mistake, seed, robot)
        assert good, f"{mistake}: {said}"


def test_the_misfit_is_that_of_the_best_pose():
    """The formula agrees with registering and measuring, also for the mirror image."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 6, 3))
    image = a * [-1, 1, 1]
    for one, mirrored in ((a, False), (image, True)):
        expected = ((apply(kabsch(a, b), a) - b) ** 2).sum()
        assert misfit(one, b, mirrored=mirrored) == pytest.approx(expected)


@pytest.mark.parametrize(
    "plant", ["symmetric", *(pytest.param(p, marks=pytest.mark.slow) for p in ("part of a prism", "tip third"))]
)
def test_ambiguous_poses_are_said(planted, robot, plant):
    """Half a turn of a straight block, its middle anywhere along it; the tip third of a bent body is placed right or said."""
    good, said = planted.scanned(plant, 200, robot)
    assert good, said


def test_unordered_markers_on_a_symmetric_set_are_doubtful(planted, robot):
    """Four corners of a rectangle can be told in two ways."""
    there = planted.result(robot, robot.vertices)
    y, z = robot.vertices[robot.fixed, 1:].T
    corners = robot.fixed[[np.argmin(sy * y + sz * z) for sy in (-1, 1) for sz in (-1, 1)]]
    found = to_markers(there, robot.vertices[corners], vertices=corners, ordered=False)
    assert any("another assignment" in text for text in found.doubts)


@pytest.mark.slow
def test_the_command_line_names_its_options(planted, robot, tmp_path):
    """`--units` and `--vertices`, not arguments of Python; places may be given as ids or by name."""
    there = planted.result(robot, planted.bent(robot.vertices, 5.0))
    there.save(tmp_path / "result.npz")
    places = np.r_[robot.fixed[[0, 3, -1]], robot.tip[[0, 5, -1]]]
    points = there.frames[-1][places]
    names = [f"{name}_{axis}" for name in "abcdef" for axis in "xyz"]
    path = tmp_path / "markers.csv"
    path.write_text(",".join(["time", *names]) + "\n" + ",".join(["0", *(f"{v:.7f}" for v in points.ravel())]) + "\n")
    run = lambda *more: CliRunner().invoke(  # noqa: E731
        main, ["compare", str(tmp_path / "result.npz"), str(path), "--out", str(tmp_path / "map"), "--force", *more]
    )
    assert "--units one of m, cm, mm, in" in run().output
    assert "--vertices" in run("--units", "m").output
    ids = ",".join(map(str, places))
    done = run("--units", "m", "--vertices", ids)
    assert done.exit_code == 0, done.output
    wrong = run("--units", "mm", "--vertices", ids)
    assert wrong.exit_code == 1
    assert "m read as mm" in wrong.output
    assert "--units one of" in wrong.output
    named = ",".join(f"{name}={vertex}" for name, vertex in zip("abcdef", places))
    assert run("--units", "m", "--vertices", named).exit_code == 0


def test_a_registered_mirror_image_is_refused(planted, robot):
    there = planted.result(robot, planted.bent(robot.vertices, 5.0))
    places = np.r_[robot.fixed[[0, 3, -1]], robot.tip[[0, 5, -1]]]
    with pytest.raises(InputError, match="handedness"):
        to_markers(there, there.frames[-1][places] * [1, 1, -1], vertices=places)
