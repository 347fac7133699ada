"""The picture of the parts pulled apart, the map of wall thickness, and the page that shows both with the table."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.moulds.body import Walls
from geosim.apps.moulds.moulds import Part
from geosim.apps.moulds.solids import arrays
from geosim.arrays import Floats, Ints
from geosim.model.fabric import Fibre
from geosim.show.cables import threads
from geosim.show.colors import CABLE, SKIN, WALL, colored, rgb
from geosim.show.picture import DPI, titled
from geosim.show.raster import Camera, RasterLayer
from geosim.show.rest import drawn_sheet
from geosim.show.sheet import Sheet
from geosim.writing import write_whole

COLORS = {"print": SKIN, "mould": "#ccccc2", "core": WALL, "cast": "#edc2c7"}  # of parts, by their kind
APART = 0.3  # of the mean size of parts: how far they stand apart in the picture
STYLE = (
    "body{font:16px/1.45 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse}"
    "td,th{padding:0.3em 0.7em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}img{max-width:100%}"
)


def write_picture(parts: Sequence[Part], walls: Walls, folder: Path, fibres: Sequence[Fibre] = ()) -> None:
    """Write `parts.png`, parts to print and to pour drawn apart along their ways, and `walls.png`, thickness by colour.

    Fibres are drawn in the body that is cast, which is then seen through.
    """
    fibre_width = 0.008  # over the length of the cast body
    seen_through = 0.45  # opacity of a body that holds fibres
    shown, axis = _apart([p for p in parts if p.kind in COLORS and p.kind != "print"])
    layers = []
    for part, points, faces in shown:
        holds = bool(fibres) and part.name == "cast_body"
        layer = _facets(points, faces, np.tile(rgb(COLORS[part.kind]), (len(faces), 1)))
        layers.append(replace(layer, opacity=seen_through if holds else 1.0))
        if holds:
            layers.append(_threads(fibres, points[0] - arrays(part.solid)[0][0], fibre_width * float(part.size.max())))
    said = ", fibres (dark)" if fibres else ""
    sheet, camera = _drawing(layers, f"parts to print (grey, orange) and to pour (pink){said}, drawn apart")
    for part, points, _ in shown:
        flat = 1e3 * camera.project(points)[:, :2]
        low, high = flat.min(axis=0), flat.max(axis=0)
        middle = 0.5 * (low + high)
        name, color = f" {part.name}", "#262626"
        if not part.leaves:
            name, color = f"{name}: undercut {1e3 * part.undercut:.3g} mm", "#b00020"
        if axis == 2:  # names stand beside a pile, and on what lies in a row
            sheet.text(sheet.on(high[0], middle[1]), name, 9, color, "lm")
        else:
            sheet.text(sheet.on(*middle), name, 9, color, "mm", backing=True)
    sheet.save(folder / "parts.png")
    thin, top = walls.least[0], float(np.nanquantile(walls.thickness, 0.9))
    share = (np.nan_to_num(walls.thickness, nan=top) - thin) / max(top - thin, np.finfo(float).tiny)
    title = f"wall thickness from {thin * 1e3:.3g} mm (dark) to {top * 1e3:.3g} mm (yellow) and more"
    layer = _facets(walls.vertices, walls.faces, colored(share, "viridis"))
    _drawing([layer], title)[0].save(folder / "walls.png")


def _apart(parts: Sequence[Part]) -> tuple[list[tuple[Part, Floats, Ints]], int]:
    """Surfaces moved off each other in the order they are put together along an axis, and that axis.

    The tray and the lid, the plate, cores, the body with what is drawn off sideways around it, and the mould over it.
    """
    ways = {p.name: p.draw for p in parts if p.draw is not None}
    first = -ways["core_plate"] if "core_plate" in ways else np.abs(next(iter(ways.values())))
    axis, sense = int(np.argmax(np.abs(first))), float(first.sum())
    rows: list[list[Part]] = [[], [], [], [], [], []]
    for part in parts:
        rows[_row(part, first)].append(part)
    gap = APART * float(np.mean([p.size.mean() for p in parts]))
    out, top = [], 0.0
    for row in filter(None, rows):
        bottom = min(float((sense * arrays(p.solid)[0][:, axis]).min()) for p in row)
        for part in row:
            points, faces = arrays(part.solid)
            points = points + (top - bottom) * first
            if part.draw is not None and abs(part.draw @ first) < 0.5:
                points = points + (0.5 * float(np.abs(part.draw) @ part.size) + gap) * part.draw
            out.append((part, points, faces))
        top = max(float((sense * points[:, axis]).max()) for part, points, _ in out if part in row) + gap
    return out, axis


def _row(part: Part, first: Floats) -> int:
    """Number of the row of a part: tray, lid, plate, loose cores, body with what is drawn off sideways, mould."""
    along = 0 if part.draw is None else round(float(part.draw @ first))
    if along:
        return 5 if along > 0 else 2 if part.kind == "core" else 0
    if part.name == "cast_lid":
        return 1
    return 3 if part.kind == "core" and part.draw is None else 4


def _threads(fibres: Sequence[Fibre], shift: Floats, width: float) -> RasterLayer:
    """A layer of fibres, moved by a shift [m] (3,), at least so wide [m] that they are seen."""
    radii = [max(f.radius, 0.5 * width) for f in fibres]
    return RasterLayer(*threads([f.points + shift for f in fibres], radii, sides=12), rgb(CABLE))


def _facets(points: Any, faces: Any, colors: Any) -> RasterLayer:
    """A layer whose triangles (m, 3) keep their own colour (m, 3) and normal."""
    return RasterLayer(
        points[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3), np.repeat(colors, 3, axis=0)
    )


def _drawing(layers: Sequence[RasterLayer], title: str) -> tuple[Sheet, Camera]:
    sheet, camera = drawn_sheet(layers, DPI)
    titled(sheet, title)
    return sheet, camera


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
    write_whole(folder / "index.html", text)
