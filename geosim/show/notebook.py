"""HTML representations in notebooks: picture and table of results and robots."""

from __future__ import annotations

import base64
import html as escaping
from collections.abc import Iterable, Sequence

import numpy as np

from geosim.geometry import topology
from geosim.geometry.quality import mesh_quality
from geosim.measures.trust import headline
from geosim.model.contract import Robot, Status
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.picture import DPI, picture_of
from geosim.show.rest import rest_picture
from geosim.show.summary import cell, headings, known_columns, summary_rows

Rows = list[tuple[str, str]]


def result_html(result: Result) -> str:
    """Return the status sentence, a picture of the last frame and the table of frames."""
    said = headline(result.status, result.trust())
    tone = "#27864f" if said == Status.CONVERGED.name else "#b3541e"
    head = f'<b style="color:{tone}">{said}</b> {escaping.escape(result.message)}'
    if not len(result.frames):
        return _block(head)
    picture = picture_of(result, -1, "displacement", "light", DPI).png()
    rows = summary_rows(result)
    max_table_rows = 12  # rows of the table of frames
    note = f"<p>the last {max_table_rows} of {len(rows)} frames</p>" if len(rows) > max_table_rows else ""
    columns = known_columns(rows)
    table = _table([[cell(row[c]) for c in columns] for row in rows[-max_table_rows:]], headings(result, columns))
    return _block(f"{head}<br>{_image(picture, 'last frame')}{note}{table}")


def robot_html(robot: Robot) -> str:
    """Return a picture of a robot at rest (walls of chambers, what is held red, the tip green) and what it consists of."""
    rows = [("robot", f"{robot.name} ({type(robot).__name__})"), *robot_facts(robot)]
    rows += [("notice", notice) for notice in robot.notices]
    return _block(_image(rest_picture(robot), "at rest") + _table(rows))


def robot_facts(robot: Robot) -> Rows:
    """Return what a robot consists of: rows of a name and a value."""
    mass = ("mass", f"{1e3 * robot.mass:.4g} g")
    if not isinstance(robot, VolumetricRobot):
        counts = (("vertices", robot.vertices), ("edges", robot.edges), ("faces", robot.skin))
        rows = [(name, str(len(items))) for name, items in counts if len(items)]
        return [*rows, mass]
    used = robot.vertices[robot.body_vertices]
    span = " x ".join(f"{v * 1e3:.4g}" for v in np.ptp(used, axis=0))
    volumes = topology.tet_volumes(robot.vertices, robot.tets)
    of = {region: float(volumes[robot.regions == region].sum()) for region in robot.materials}
    rows = [("size", f"{span} mm"), ("from", f"{np.round(used.min(axis=0) * 1e3, 4).tolist()} mm")]
    called = {region: f" ({name})" for region, name in robot.region_names.items()}
    for region, m in robot.materials.items():
        rows.append((f"body {region}{called.get(region, '')}", f"{of[region] * 1e9:.6g} mm^3, {m}"))
    names = robot.chamber_names or ("",) * robot.chambers
    for c, (volume, wall, name) in enumerate(zip(robot.chamber_volumes, robot.chamber_walls, names)):
        label = f"chamber {c + 1}" + f" ({name})" * bool(name)
        rows.append((label, f"{volume * 1e9:.6g} mm^3, {len(wall)} wall faces"))
    held = f"{len(robot.fixed)} vertices" if len(robot.fixed) else "nothing: a free body"
    return [
        *rows,
        mass,
        ("mesh", str(mesh_quality(robot.vertices, robot.body_tets))),
        ("fixed", held),
        ("tip", f"{len(robot.tip)} vertices"),
    ]


def _block(inside: str) -> str:
    return f'<div style="font-family:sans-serif">{inside}</div>'


def _image(png: bytes, alt: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    return f'<img alt="{alt}" style="max-width:760px" src="data:image/png;base64,{data}">'


def _table(rows: Iterable[Iterable[str]], header: Sequence[str] = ()) -> str:
    cell_style = 'style="padding:1px 8px 1px 0;text-align:left;white-space:nowrap"'
    head = "".join(f"<th {cell_style}>{escaping.escape(c)}</th>" for c in header)
    lines = "".join(
        "<tr>" + "".join(f"<td {cell_style}>{escaping.escape(v)}</td>" for v in row) + "</tr>" for row in rows
    )
    return (
        f'<div style="overflow-x:auto"><table style="font-size:85%">{f"<thead><tr>{head}</tr></thead>" * bool(head)}'
        f"<tbody>{lines}</tbody></table></div>"
    )
