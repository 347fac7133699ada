"""Films of results: the motion from rest through all frames with one camera and one colour scale, as MP4 or GIF."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from geosim.arrays import choice, number
from geosim.errors import InputError
from geosim.result import Result
from geosim.show.fields import COLORS
from geosim.show.motion import MOTION_SECONDS, resampled
from geosim.show.picture import PAGE_INCHES, Look, draw_frame, look_of
from geosim.writing import checked_target, replacing

FILM_DPI = 100
WIDTH, HEIGHT = (round(side * FILM_DPI) for side in PAGE_INCHES)  # even numbers, which video codecs ask for


def film(
    result: Result,
    path: str | Path,
    fps: float = 12.0,
    *,
    seconds: float = MOTION_SECONDS,
    color: str = "displacement",
    theme: str = "light",
) -> Path:
    """Write a film that begins at rest and goes evenly through all frames; the last shape stays a second longer.

    Shapes between two frames are interpolated (`geosim.show.motion`), and so are the numbers of the title.

    Parameters
    ----------
    result
        What was solved.
    path
        .mp4 (H.264, by the extra `film`) or .gif.
    fps
        Pictures a second, 0.02 to 100.
    seconds
        How long the motion takes, at most 600.
    color
        "displacement", "stretch", "stress" or "contact".
    theme
        "light" or "dark".

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix, folder, colour, theme or number is wrong, there is no frame, or an MP4 is asked for without imageio-ffmpeg.
    """
    min_fps, max_fps, max_seconds = 0.02, 100.0, 600.0  # a GIF counts hundredths of a second
    path, fps = checked_film(path), number(fps, "film: fps", low=min_fps, high=max_fps)
    seconds = number(seconds, "film: seconds", above=0.0, high=max_seconds)
    result.checked_frame(-1)
    write = _write_mp4 if path.suffix.lower() == ".mp4" else _write_gif
    last_seconds, looked_at = 1.0, 24  # for which the last picture stays; frames by which camera and colours are chosen
    frames = np.unique(np.linspace(0, len(result.frames) - 1, min(looked_at, len(result.frames))).round().astype(int))
    look = look_of(result, frames.tolist(), choice(color, "film: color", COLORS), FILM_DPI, theme)
    images = _images(result, replace(look, doubts=result.trust()), max(2, round(seconds * fps)))
    with replacing(path) as beside:
        write(beside, images, fps, round(last_seconds * fps))
    return path


def checked_film(path: str | Path) -> Path:
    """Return the path of a film that can be written here.

    Raises
    ------
    InputError
        The suffix is no film's, the folder does not exist, or imageio-ffmpeg is not installed for an MP4.
    """
    path = checked_target(path, ".mp4", ".gif")
    if path.suffix.lower() == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise InputError(f"{path.name}: MP4 needs imageio-ffmpeg: pip install 'geosim[film]', or write a .gif")
    return path


def _images(result: Result, look: Look, count: int) -> Iterator[np.ndarray]:
    """RGB images (height, width, 3), even in time from rest to the last frame."""
    moving = resampled(result, np.linspace(min(0.0, result.times[0]), result.times[-1], count))
    for index in range(count):
        yield np.asarray(draw_frame(moving, index, look).image())[:HEIGHT, :WIDTH]


def _write_mp4(path: Path, images: Iterator[np.ndarray], fps: float, hold: int) -> None:
    from imageio_ffmpeg import write_frames

    writer = write_frames(str(path), (WIDTH, HEIGHT), fps=fps, macro_block_size=2, output_params=["-f", "mp4"])
    writer.send(None)
    try:
        for image in images:
            writer.send(np.ascontiguousarray(image))
        for _ in range(hold):
            writer.send(np.ascontiguousarray(image))
    finally:
        writer.close()


def _write_gif(path: Path, images: Iterator[np.ndarray], fps: float, hold: int) -> None:
    from PIL import Image

    pictures = [Image.fromarray(image) for image in images]
    ends = (1000.0 / fps * np.arange(len(pictures) + 1)).round(-1)  # milliseconds: a GIF counts hundredths of a second
    ends[-1] += round(hold * 1000.0 / fps, -1)
    palette = pictures[-1].quantize(256)  # one for all: the last frame has most colours, and none must flicker
    first, *others = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    first.save(path, format="GIF", save_all=True, append_images=others, duration=np.diff(ends).tolist(), loop=0)
