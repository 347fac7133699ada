"""The picture of the parts pulled apart, the map of wall thickness, and the page that shows both with the table."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.moulds.body import Walls
from geosim.moulds.moulds import Part
from geosim.moulds.solids import arrays
from geosim.show.picture import DPI, DRAWING_PIXELS, framed, pixels
from geosim.show.raster import RasterLayer, camera_for, draw
from geosim.writing import replacing

__all__ = ["write_page", "write_picture"]

COLORS = {
    "print": (0.62, 0.75, 0.86),
    "mould": (0.80, 0.80, 0.76),
    "core": (0.90, 0.55, 0.20),
    "cast": (0.93, 0.76, 0.78),
}
APART = 1.4  # of the lowest part: how far parts stand apart in the picture
STYLE = (
    "body{font:16px/1.45 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse}"
    "td,th{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}img{max-width:100%}"
)


def write_picture(parts: Sequence[Part], walls: Walls, folder: Path) -> None:
    """Write `parts.png`, parts to print drawn off each other along their ways, and `walls.png`, wall thickness by colour."""
    shown = _stacked([p for p in parts if p.kind in ("mould", "core", "cast")])
    axis = next((int(np.argmax(np.abs(p.draw))) for p in shown if p.draw is not None), 2)
    layers, top = [], 0.0
    gap = APART * min(float(p.size[axis]) for p in shown)
    for part in shown:
        points, faces = arrays(part.solid)
        moved = points + (top - points[:, axis].min()) * np.eye(3)[axis]
        top = float(moved[:, axis].max()) + gap
        layers.append(_facets(moved, faces, np.tile(COLORS[part.kind], (len(faces), 1))))
    _write(layers, "parts to print and to pour, drawn apart", folder / "parts.png")
    from matplotlib import colormaps

    top = np.nanquantile(walls.thickness, 0.9)
    shade = colormaps["viridis"](np.clip(np.nan_to_num(walls.thickness, nan=top) / top, 0.0, 1.0))[:, :3]
    thin, _ = walls.least
    title = f"wall thickness from {thin * 1e3:.3g} mm (dark) to {top * 1e3:.3g} mm (yellow) and more"
    _write([_facets(walls.vertices, walls.faces, shade)], title, folder / "walls.png")


def _stacked(parts: Sequence[Part]) -> list[Part]:
    """Parts in the order they stand in along the way they are drawn: those that leave backwards, loose ones, the others."""
    back = [p for p in parts if p.draw is not None and p.draw.sum() < 0.0]
    loose = [p for p in parts if p.draw is None]
    return [*back[::-1], *loose, *(p for p in parts if p.draw is not None and p.draw.sum() > 0.0)]


def _facets(points: Any, faces: Any, colors: Any) -> RasterLayer:
    """A layer whose triangles (m, 3) keep their own colour (m, 3) and normal."""
    return RasterLayer(
        points[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3), np.repeat(colors, 3, axis=0)
    )


def _write(layers: Sequence[RasterLayer], title: str, path: Path) -> None:
    points = np.vstack([layer.points for layer in layers])
    camera = camera_for(points, points, aspect=DRAWING_PIXELS[0] / DRAWING_PIXELS[1])
    figure = framed(draw(layers, camera, pixels(DPI)), camera, DPI)
    figure.text(0.03, 0.94, title, fontsize=15, fontweight="bold")
    with replacing(path) as beside:
        figure.savefig(beside, format="png", metadata={"Software": "geosim"})


def write_page(name: str, rows: Sequence[Mapping[str, Any]], notices: Sequence[str], folder: Path) -> None:
    """Write `index.html` with the table, the notices and both pictures."""
    head = "".join(f"<th>{html.escape(key.replace('_', ' '))}</th>" for key in rows[0])
    lines = []
    for row in rows:
        cells = [
            f'<td><a href="{html.escape(str(v))}">{html.escape(str(v))}</a></td>'
            if k == "file"
            else f"<td>{html.escape(str(v))}</td>"
            for k, v in row.items()
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    said = "".join(f"<li>{html.escape(notice)}</li>" for notice in notices)
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Parts of {html.escape(name)}</title><style>{STYLE}</style>'
        f"<h1>Parts of {html.escape(name)}</h1><ul>{said}</ul><table><tr>{head}</tr>{''.join(lines)}</table>"
        '<p><img src="parts.png" alt="The parts, drawn apart"></p>'
        '<p><img src="walls.png" alt="Thickness of walls by colour"></p></html>'
    )
    with replacing(folder / "index.html") as beside:
        beside.write_text(text, encoding="utf-8")
