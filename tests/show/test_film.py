"""Films: from rest through all frames, even in time, with one camera and one scale of colours."""

from __future__ import annotations

import itertools
import types

import numpy as np
import pytest
from bending import bent_result
from PIL import Image

from geosim import InputError, Result
from geosim.show import film as film_module
from geosim.show.motion import resampled
from geosim.show.picture import look_of


@pytest.fixture(scope="module")
def result() -> Result:
    return bent_result(frames=2)


@pytest.mark.slow
def test_a_film_begins_at_rest_is_even_in_time_and_holds_the_last(result, tmp_path):
    """At each end the picture is that of the rest shape, and of the last frame; every other lasts as long as each other."""
    path = result.film(tmp_path / "film.gif", fps=10, seconds=0.8)
    with Image.open(path) as film:
        pictures, seconds = [], []
        for i in range(film.n_frames):
            film.seek(i)
            pictures.append(np.asarray(film.convert("RGB"), dtype=int))
            seconds.append(film.info["duration"] / 1000.0)
    assert len(pictures) == 8
    assert seconds == pytest.approx([0.1] * 7 + [1.1], abs=0.011)
    assert all((a != b).any() for a, b in itertools.pairwise(pictures))
    bar = [p[200:480, 992:1008] for p in pictures]  # the colour bar stands still
    assert np.abs(bar[0] - bar[-1]).mean() < 2.0  # of 255: one palette for all


def test_a_film_takes_three_seconds_whatever_the_result(result, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        film_module, "draw_frame", lambda moving, index, look: drawn.append(moving.frames[index]) or stand_in
    )
    stand_in = types.SimpleNamespace(image=lambda: np.zeros((700, 1100, 3), dtype=np.uint8))
    for one in (result, bent_result(frames=1)):
        drawn.clear()
        with Image.open(one.film(tmp_path / "film.gif")) as film:
            assert film.info["duration"] / 1000.0 == pytest.approx(4.0, abs=0.02)  # equal pictures are one that lasts
        assert len(drawn) == 36
        assert np.array_equal(drawn[0], one.robot.vertices)
        assert np.array_equal(drawn[-1], one.frames[-1])


def test_one_look_serves_all_frames(result):
    """The camera shows what lies between frames, too."""
    look = look_of(result, range(len(result.frames)), "displacement")
    assert look.limits == look_of(result, [len(result.frames) - 1], "displacement").limits  # the last moves most
    for nodes in resampled(result, np.linspace(0.0, result.times[-1], 12)).frames:
        assert (np.abs(look.camera.project(nodes)[:, :2]) < 0.5 * np.array(look.camera.extent)).all()


@pytest.mark.slow
def test_a_film_as_mp4(result, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    path = result.film(tmp_path / "film.mp4", fps=8, seconds=1.0)
    count, seconds = ffmpeg.count_frames_and_secs(str(path))
    assert count == 8 + 8
    assert seconds == pytest.approx(count / 8, abs=0.2)


@pytest.mark.parametrize(
    ("name", "fps"), [("film.avi", 12), ("film.gif", 0), ("film.gif", float("nan")), ("film.gif", 5e-324)]
)
def test_a_film_that_cannot_be_is_refused(result, tmp_path, name, fps):
    with pytest.raises(InputError, match=r"film|must end"):
        result.film(tmp_path / name, fps=fps)
    with pytest.raises(InputError, match=r"seconds"):
        result.film(tmp_path / "film.gif", seconds=0.0)
    assert not list(tmp_path.iterdir())
