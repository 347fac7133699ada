"""Films: as many pictures as frames, with one camera and one scale of colours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bending import bent_result
from PIL import Image

from geosim import InputError, Result
from geosim.show.picture import look_of


@pytest.fixture(scope="module")
def result() -> Result:
    return bent_result(frames=2)


@pytest.mark.slow
def test_a_film_shows_every_frame_and_holds_the_last(result, tmp_path):
    path = result.film(tmp_path / "film.gif", fps=10)
    with Image.open(path) as film:
        pictures, seconds = [], 0.0
        for i in range(film.n_frames):
            film.seek(i)
            pictures.append(np.asarray(film.convert("RGB"), dtype=int))
            seconds += film.info["duration"] / 1000.0
    assert len(pictures) == len(result.frames)  # equal pictures at the end are one that lasts
    assert seconds == pytest.approx(len(result.frames) / 10 + 1.0, abs=0.02)
    assert all((a != b).any() for a, b in itertools.pairwise(pictures))
    bar = [p[220:560, 992:1008] for p in pictures]  # the colour bar stands still
    assert np.abs(bar[0] - bar[-1]).mean() < 2.0  # of 255: one palette for all


def test_one_look_serves_all_frames(result):
    look = look_of(result, range(len(result.frames)), "displacement")
    assert look.limits == look_of(result, [len(result.frames) - 1], "displacement").limits  # the last moves most
    for nodes in result.frames:
        assert (np.abs(look.camera.project(nodes)[:, :2]) < 0.5 * np.array(look.camera.extent)).all()


@pytest.mark.slow
def test_a_film_as_mp4(result, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    path = result.film(tmp_path / "film.mp4", fps=8)
    count, seconds = ffmpeg.count_frames_and_secs(str(path))
    assert count == len(result.frames) + 8
    assert seconds == pytest.approx(count / 8, abs=0.2)


@pytest.mark.parametrize(
    ("name", "fps"), [("film.avi", 12), ("film.gif", 0), ("film.gif", float("nan")), ("film.gif", 5e-324)]
)
def test_a_film_that_cannot_be_is_refused(result, tmp_path, name, fps):
    with pytest.raises(InputError, match=r"film|must end"):
        result.film(tmp_path / name, fps=fps)
    assert not list(tmp_path.iterdir())
