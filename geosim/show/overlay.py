"""Two results in one picture, each in a colour of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from geosim.result import Result
from geosim.show import fields
from geosim.show.colors import rgb
from geosim.show.picture import DPI, camera_of, framed, named, pixels, title
from geosim.show.raster import RasterLayer, draw
from geosim.writing import checked_target


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
    first, second = "#2161a8", "#d96b1a"
    layers = [
        RasterLayer(s.points, s.triangles, rgb(color), opacity)
        for s, color, opacity in zip(shown, (first, second), (0.6, 0.55))
    ]
    sheet = framed(draw(layers, camera, pixels(DPI)), camera)
    for height, result, word, color in ((0.96, one, "first", first), (0.92, two, "second", second)):
        what = f"{word}: {named(result, title(result, -1))}, {result.status.name}"
        sheet.across(height, what, 12, color)
    return sheet.save(path)
