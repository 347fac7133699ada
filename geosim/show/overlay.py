"""Two results in one picture, each in a colour of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from geosim.result import Result
from geosim.show import fields
from geosim.show.picture import DPI, camera_of, framed, named, pixels, title
from geosim.show.raster import RasterLayer, draw
from geosim.writing import checked_target, replacing


def overlay(one: Result, two: Result, path: str | Path) -> Path:
    """Write a PNG of the last frames of two results as they are in space: the first blue, the second orange.

    Raises
    ------
    InputError
        A result has no frame, or the suffix or the folder is wrong.
    """
    path = checked_target(path, ".png")
    shown = [fields.shown_surface(r, r.checked_frame(-1), 1 if r.mid_edge_frames.shape[1] else 0) for r in (one, two)]
    camera, _ = camera_of(one, np.vstack([s.points for s in shown]))
    first_rgb, second_rgb = np.array([0.13, 0.38, 0.66]), np.array([0.85, 0.42, 0.10])
    layers = [
        RasterLayer(s.points, s.triangles, color, opacity)
        for s, color, opacity in zip(shown, (first_rgb, second_rgb), (0.6, 0.55))
    ]
    figure = framed(draw(layers, camera, pixels(DPI)), camera)
    for height, result, word, color in ((0.97, one, "first", first_rgb), (0.93, two, "second", second_rgb)):
        what = f"{word}: {named(result, title(result, -1))}, {result.status.name}"
        figure.text(0.03, height, what, color=tuple(color), fontsize=12)
    with replacing(path) as beside:
        figure.savefig(beside, format="png")
    return path
