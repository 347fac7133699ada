"""Reads scans: point clouds of text, whose columns a header names, and what trimesh reads.

    x_mm,y_mm,z_mm                 //X Y Z R G B             30412
    12.5,3.1,40.2                  12.5 3.1 40.2 90 80 70    12.5 3.1 40.2 -811

A header names x, y and z in any order, with or without units, also behind // or # (CloudCompare); other columns are left out. A
number alone on the first line is the count of points (.pts). Without a header a row is x, y, z, perhaps with three more columns
(normals or colours); in .xyz, .asc and .pts files perhaps with an intensity. A row of nan is a point without a return. Decimal
commas are known where blanks, tabs or semicolons part the cells.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.compare.surface import ComparedSurface
from geosim.arguments import guarded
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.resources import readable
from geosim.tables import Table, agreed_unit, delimiter_of, read_table_text, split_unit, unit_scale

TEXT_SUFFIXES = (".xyz", ".txt", ".csv", ".asc", ".pts")
# Columns of a row without a header: x, y, z; with an intensity; with normals or colours; with both.
PLAIN_WIDTHS, CLOUD_WIDTHS = (3, 6), (3, 4, 6, 7)
_COMMENT = re.compile(r"\s*(//|#|%)\s*")
_NUMBER = re.compile(r"[-+]?(\d|[.,]\d|nan|inf)", re.IGNORECASE)


@guarded
def read_scan(path: str | Path, units: str | None = None) -> Floats:
    """Read a scan (.ply .stl .obj .off .glb, or text: .xyz .txt .csv .asc .pts) in metres, shape (p, 3).

    Of a mesh with faces points are drawn evenly over the area. Points without a return (nan) are left out.

    Raises
    ------
    InputError
        The file is missing, empty or unreadable, has no unit or states another one, or its columns are not known.
    """
    path = Path(path)
    check_filled(path, "scan")
    if path.suffix.lower() in TEXT_SUFFIXES:
        points = _of_text(path, units)
    else:
        points = _of_mesh(path) * unit_scale(units, str(path))
    if np.isinf(points).any():
        point = int(np.argwhere(np.isinf(points))[0][0])
        raise InputError(f"{path}: point {point + 1} is infinitely far away; export the scan again")
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) == 0:
        raise InputError(f"{path}: the file holds no points")
    return points


def check_filled(path: Path, kind: str) -> None:
    """Refuse a file of a scan or of markers that is missing or empty.

    Raises
    ------
    InputError
        It is.
    """
    if not readable(path).is_file():
        raise InputError(f"{path}: no such {kind} file")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")


def _of_mesh(path: Path) -> Floats:
    """Return the points of what trimesh reads, in the file's unit."""
    import trimesh

    mesh_scan_points = 30000  # points drawn from a scan that is a mesh
    try:
        with np.errstate(invalid="ignore"):  # of ids that no integer holds: they are refused below
            loaded: Any = trimesh.load(path, process=False)
    except (ValueError, KeyError, IndexError, OSError, NotImplementedError, TypeError) as error:
        raise InputError(f"{path}: not a readable scan ({error}); use .ply, .stl, .obj or .xyz") from None
    if isinstance(loaded, trimesh.Scene):
        loaded = loaded.to_geometry()
    faces = np.asarray(getattr(loaded, "faces", np.empty((0, 3))))
    points = np.asarray(loaded.vertices, dtype=float)
    if len(faces) and (faces.min() < 0 or faces.max() >= len(points)):
        bad = faces[(faces < 0) | (faces >= len(points))][0]
        raise InputError(
            f"{path}: a triangle names vertex {bad} of {len(points)}; the file is damaged, export it again"
        )
    if not len(faces):
        return points
    return ComparedSurface(points, faces).sample(max(mesh_scan_points, len(points)), np.random.default_rng(0))[0]


def _of_text(path: Path, units: str | None) -> Floats:
    """Return the points [m] of a table of text."""
    table = read_table_text(path, " ")
    heading, at = _commented(table)
    stated = None
    if len(at) > 1 and re.fullmatch(r"\s*\d+\s*", table.lines[at[0]]):
        stated, at = int(table.lines[at[0]]), at[1:]
    if at and not _NUMBER.match(table.lines[at[0]].strip(' "')):
        heading = (at[0], Table(table.source, table.lines, delimiter_of(table.lines[at[0]])))
        at = at[1:]
    if not at:
        return np.empty((0, 3))
    if stated is not None and stated != len(at):
        raise table.error(0, f"states {stated} points, the file holds {len(at)}: torn; export it again")
    body = Table(table.source, table.lines, _parted(table, at))
    width = len(body.cells(at[0]))
    if heading is None:
        columns, scales = _plain(body, at, width, path.suffix.lower()), [unit_scale(units, str(path))] * 3
    else:
        line, named = heading
        found = _axes(named, line)
        if found is None:
            raise named.error(line, "a header that names no x, y and z; name the columns of the coordinates so")
        titles = named.cells(line)
        columns, width = found, len(titles)
        stated_units = [agreed_unit(split_unit(titles[i])[1], units, f"{path}: line {line + 1}") for i in columns]
        scales = [unit_scale(unit, str(path)) for unit in stated_units]
    values = body.numbers(at, columns, width)
    torn = np.isnan(values).any(axis=1) & ~np.isnan(values).all(axis=1)
    if torn.any():
        raise body.error(at[int(np.argmax(torn))], "a point of which a coordinate is missing")
    return values * scales


def _commented(table: Table) -> tuple[tuple[int, Table] | None, list[int]]:
    """Return the last comment at the beginning that names x, y and z, as a line and its table, and the lines below."""
    at, heading = table.filled(0), None
    while at and _COMMENT.match(table.lines[at[0]]):
        words = _COMMENT.sub("", table.lines[at[0]])
        named = Table(table.source, (*table.lines[: at[0]], words), delimiter_of(words))
        heading = (at[0], named) if _axes(named, at[0]) is not None else heading
        at = at[1:]
    return heading, at


def _axes(table: Table, line: int) -> list[int] | None:
    """Return the columns of x, y and z of a header; None where it does not name them."""
    names = [split_unit(cell)[0].lower() for cell in table.cells(line)]
    for axis in "xyz":
        if names.count(axis) > 1:
            raise table.error(line, f"names {axis} twice", len(names) - 1 - names[::-1].index(axis))
    return [names.index(axis) for axis in "xyz"] if {*"xyz"} <= set(names) else None


def _parted(table: Table, lines: list[int]) -> str:
    """Return what parts the cells of rows of numbers: commas do, unless blanks, tabs or semicolons part them."""
    found = set()
    for i in lines[:50]:
        text = table.lines[i].strip()
        tokens = text.split()
        if ";" in text or "\t" in text:
            found.add(";" if ";" in text else "\t")
        elif "," not in text:
            found.add(" ")
        elif len(tokens) == 1 or all(token.endswith(",") and "," not in token[:-1] for token in tokens[:-1]):
            found.add(",")
        elif not any(token.endswith(",") for token in tokens):
            found.add(" ")
        else:
            raise table.error(i, f"{text[:40]!r}: commas part the cells and are decimal signs; export with semicolons")
    if len(found) > 1:
        raise table.error(lines[0], "some rows are parted by commas, others by blanks; export the scan again")
    return found.pop()


def _plain(table: Table, lines: list[int], width: int, suffix: str) -> list[int]:
    """Return the columns of x, y and z in rows that no header names.

    Raises
    ------
    InputError
        The rows may as well hold something else first.
    """
    remedy = "write a header that names x, y and z above the rows"
    widths = CLOUD_WIDTHS if suffix in (".xyz", ".asc", ".pts") else PLAIN_WIDTHS
    if width not in widths:
        raise table.error(lines[0], f"{width} columns without a header; {remedy}")
    if table.delimiter == "," and width == 6 and not any("." in table.lines[i] for i in lines[:50]):
        raise table.error(lines[0], f"six whole numbers, or three with decimal commas; {remedy}")
    if width > 3:
        first = table.numbers(lines, [0], width)[:, 0]
        if len(first) > 2 and (np.diff(first) == 1.0).all():
            raise table.error(lines[0], f"the first column counts the rows; {remedy}", 0)
    return [0, 1, 2]
