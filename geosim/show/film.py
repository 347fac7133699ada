"""Films of results: the pictures of all frames with one camera and one colour scale, as MP4 or GIF."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from geosim.arrays import choice, number
from geosim.errors import InputError
from geosim.result import Result
from geosim.show.fields import COLORS
from geosim.show.picture import draw_frame, look_of
from geosim.writing import checked_target, replacing

FILM_DPI = 100
FILM_PIXELS = (11 * FILM_DPI, 7 * FILM_DPI)  # of a picture of 11 x 7 inches: even numbers, which video codecs ask for


def film(result: Result, path: str | Path, fps: float = 12.0, *, color: str = "displacement") -> Path:
    """Write a film of all frames, one after the other; nothing is interpolated between equilibria.

    Parameters
    ----------
    result
        What was solved; a smooth film has many commands, for example `Inflation(volume_ratio=np.linspace(1.02, 2, 48))`.
    path
        .mp4 (H.264, by the extra `film`) or .gif.
    fps
        Frames of the result a second, 0.02 to 1000.
    color
        "displacement", "stretch", "stress" or "contact".

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix, folder, colour or number is wrong, there is no frame, or an MP4 is asked for without imageio-ffmpeg.
    """
    min_fps, max_fps = 0.02, 1000.0  # a GIF has up to ten minutes for a frame
    path, fps = checked_film(path), number(fps, "film: fps", low=min_fps, high=max_fps)
    result.checked_frame(-1)
    write = _write_mp4 if path.suffix.lower() == ".mp4" else _write_gif
    last_frame_seconds = 1.0  # seconds for which the last frame stays
    with replacing(path) as beside:
        write(beside, _images(result, choice(color, "film: color", COLORS), round(last_frame_seconds * fps)), fps)
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


def _images(result: Result, color: str, hold: int) -> Iterator[np.ndarray]:
    """RGB images (height, width, 3) of all frames; the last one is repeated."""
    count = len(result.frames)
    look = look_of(result, range(count), color, FILM_DPI)
    for index in range(count):
        image = np.asarray(draw_frame(result, index, look).image())[: FILM_PIXELS[1], : FILM_PIXELS[0]]
        yield from [image] * (1 + (hold if index == count - 1 else 0))


def _write_mp4(path: Path, images: Iterator[np.ndarray], fps: float) -> None:
    from imageio_ffmpeg import write_frames

    writer = write_frames(str(path), FILM_PIXELS, fps=fps, macro_block_size=2, output_params=["-f", "mp4"])
    writer.send(None)
    try:
        for image in images:
            writer.send(np.ascontiguousarray(image))
    finally:
        writer.close()


def _write_gif(path: Path, images: Iterator[np.ndarray], fps: float) -> None:
    from PIL import Image

    pictures = [Image.fromarray(image) for image in images]
    palette = pictures[-1].quantize(256)  # one for all: the last frame has most colours, and none must flicker
    first, *others = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    first.save(path, format="GIF", save_all=True, append_images=others, duration=1000.0 / fps, loop=0)
