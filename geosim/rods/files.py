"""Text files of rods and shells: geometry as the MATLAB tool of [Lahoti] writes it, actuation tables, tag tables."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.model.actuation import NATURAL_SHAPE_KINDS, NaturalShape
from geosim.resources import check_sizes, readable
from geosim.tables import delimiter_of, read_table_text, read_text

# Cells of a workbook, of which some 200,000 are read in a second; times its length that it may unpack to.
MOST_CELLS, MOST_PACKED = 2_000_000, 200.0

SECTIONS = {
    "*nodes": 3,
    "*rodnodes": 3,
    "*shellnodes": 3,
    "*edges": 2,
    "*rodedges": 2,
    "*rodshelljointedges": 2,
    "*triangles": 3,
    "*facenodes": 3,
}


def read_geometry(path: str | Path) -> tuple[Floats, Ints, Ints]:
    """Return vertices [as in the file], edges and triangles (ids from 0) of a `*Nodes/*Edges/*Triangles` file.

    Or of one with `*rodNodes`, `*shellNodes`, `*rodEdges`, `*rodshellJointEdges` and `*FaceNodes`: ids count through the nodes
    of rods and then those of shells, and joints are edges from the ones to the others. Capitals do not matter. Rows are
    separated by commas or blanks, ids in the file count from 1, lines that start with # are ignored, and edges or triangles
    may be missing.

    Raises
    ------
    InputError
        Naming the file and the line.
    """
    path = Path(path)
    rows: dict[str, list[list[float]]] = {key: [] for key in SECTIONS}
    section = ""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("*"):
            section = text.lower()
            if section not in SECTIONS:
                raise InputError(
                    f"{path}: line {number}: {text!r} is unknown; use *Nodes, *Edges, *Triangles, or "
                    f"*rodNodes, *shellNodes, *rodEdges, *rodshellJointEdges, *FaceNodes"
                )
            continue
        if not section:
            raise InputError(f"{path}: line {number}: {text[:40]!r} stands before *Nodes or *rodNodes")
        rows[section].append(_row(f"{path}: line {number}", text, section))
    vertices = np.array(rows["*nodes"] + rows["*rodnodes"] + rows["*shellnodes"], dtype=float).reshape(-1, 3)
    if len(vertices) == 0:
        raise InputError(f"{path}: no *Nodes")
    edges = [_ids(path, key, rows[key], len(vertices)) for key in SECTIONS if SECTIONS[key] == 2]
    triangles = [_ids(path, key, rows[key], len(vertices)) for key in ("*triangles", "*facenodes")]
    return vertices, np.concatenate(edges), np.concatenate(triangles)


def _row(where: str, text: str, section: str) -> list[float]:
    """Return the numbers of a line of a section."""
    try:
        row = [float(v) for v in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"{where}: {text[:40]!r} is not a row of numbers") from None
    if len(row) != SECTIONS[section]:
        raise InputError(f"{where}: {len(row)} numbers, {SECTIONS[section]} needed in {section}")
    return row


def _ids(path: Path, section: str, rows: list[list[float]], vertices: int) -> Ints:
    """Ids from 0 of the rows of a section, checked."""
    given = np.array(rows, dtype=float).reshape(-1, SECTIONS[section])
    wrong = (given != np.round(given)) | (given < 1) | (given > vertices)
    if wrong.any():
        raise InputError(f"{path}: {section}: id {given[wrong][0]:g} is outside 1 .. {vertices} (ids count from 1)")
    return given.astype(np.int64) - 1


def read_table(path: str | Path) -> tuple[list[str], Floats]:
    """Return header (empty if there is none) and numbers of a CSV, TXT, XLSX or XLS table; nan where a cell is empty.

    Raises
    ------
    InputError
        The suffix is unknown, the file is missing or empty, rows differ in length, or a cell is not a number.
    """
    path = Path(path)
    if path.suffix.lower() in (".xlsx", ".xls"):
        cells = _sheet(path)
    elif path.suffix.lower() in (".csv", ".txt"):
        text = read_table_text(path)
        rows = [i for i in text.filled(0) if not text.lines[i].lstrip().startswith("#")]
        text = replace(text, delimiter=delimiter_of(text.lines[rows[0]]) if rows else " ")
        cells = [text.cells(i) for i in rows]
    else:
        raise InputError(f"{path}: tables are .csv, .txt, .xlsx or .xls")
    if not cells:
        raise InputError(f"{path}: the table is empty")
    header: list[str] = []
    if any(_number(cell) is None for cell in cells[0] if str(cell or "").strip()):
        header = [str(cell or "").strip() for cell in cells.pop(0)]
    width = max(len(row) for row in cells) if cells else 0
    table = np.full((len(cells), width), np.nan)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            value = _number(cell)
            if value is None:
                raise InputError(
                    f"{path}: row {i + 1 + bool(header)}, column {j + 1}: {str(cell)[:30]!r} is not a number"
                )
            table[i, j] = value
    filled = ~np.isnan(table).all(axis=0) if len(table) else np.ones(width, dtype=bool)
    last = int(np.flatnonzero(filled).max()) + 1 if filled.any() else width  # a comma at the end of every row
    if header and last > len(header):
        raise InputError(f"{path}: {last} columns of numbers under {len(header)} names; name every column")
    return header[:last], table[:, :last]


def read_natural_shape(path: str | Path, kind: str | None = None) -> NaturalShape:
    """Return the actuation of a table: time [s], then natural values: one column for all, or one a stencil or hinge.

    Parameters
    ----------
    path
        .csv, .txt, .xlsx or .xls; an optional header names columns curvature, curvature_1 (about kappa1), curvature_2, twist,
        hinge_angle or stretch, each once (for all) or as often as there are stencils, hinges or edges.
    kind
        What a table without such names holds: "curvature" (default) [1/m], "twist" [rad/m], "hinge_angle" [rad] or "stretch".

    Raises
    ------
    InputError
        The table cannot be read, names are mixed up, or a value is missing.
    """
    header, table = read_table(path)
    name = str(path)
    if table.shape[1] < 2:
        raise InputError(f"{name}: a time column and at least one column of values are needed")
    if np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0]
        raise InputError(f"{name}: row {row + 1 + bool(header)}, column {column + 1} is empty")
    labels = [h.lower().split("[")[0].split(":")[0].strip() for h in header[1:]]
    known = (*NATURAL_SHAPE_KINDS, "curvature_1", "curvature_2")
    if not labels or not any(label in known for label in labels):
        if kind not in (None, *NATURAL_SHAPE_KINDS):
            raise InputError(f"{name}: kind = {kind!r}: use one of {', '.join(NATURAL_SHAPE_KINDS)}")
        labels = [kind or "curvature"] * (table.shape[1] - 1)
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise InputError(f"{name}: column {unknown[0]!r} is unknown; use time and {', '.join(known)}")
    columns = {key: table[:, 1:][:, [label == key for label in labels]] for key in known}
    values: dict[str, Any] = {}
    for key in NATURAL_SHAPE_KINDS:
        if columns[key].shape[1]:
            values[key] = columns[key][:, 0] if columns[key].shape[1] == 1 else columns[key]
    one, two = columns["curvature_1"], columns["curvature_2"]
    if one.shape[1] or two.shape[1]:
        if "curvature" in values or one.shape != two.shape:
            raise InputError(f"{name}: give curvature, or as many columns curvature_1 as curvature_2")
        values["curvature"] = np.stack([one, two], axis=2)
    return NaturalShape(table[:, 0], **values)


def read_tags(
    path: str | Path, prefix: tuple[str, str] = ("tagid_x_", "tagid_y_"), time: str = "Test time"
) -> tuple[Floats, Floats]:
    """Return times [s] (k,) and tag positions in the file's unit (k, tags, 2); nan where a tag was not seen.

    Columns are recognised by the start of their names and sorted by what follows; a tag at exactly (0, 0) was not seen.
    Rows without any tag or without a time are kept as nan.

    Raises
    ------
    InputError
        The table has no such columns.
    """
    header, table = read_table(path)
    name = str(path)
    ids = sorted(h[len(prefix[0]) :] for h in header if h.startswith(prefix[0]))
    if not ids or time not in header:
        raise InputError(f"{name}: no columns {time!r} and {prefix[0]}...; name them with time= and prefix=")
    try:
        tags = np.stack([table[:, [header.index(p + i) for i in ids]] for p in prefix], axis=2)
    except ValueError:
        raise InputError(f"{name}: not every {prefix[0]}... has its {prefix[1]}...") from None
    tags[(tags == 0).all(axis=2) | np.isnan(tags).any(axis=2)] = np.nan
    return table[:, header.index(time)], tags


def _number(cell: Any) -> float | None:
    """Return the number of a cell, nan for an empty one, None for text."""
    text = str("" if cell is None else cell).strip()
    if text == "":
        return float("nan")
    try:
        return float(text)
    except ValueError:
        return None


def _sheet(path: Path) -> list[list[Any]]:
    """Return the rows of the first sheet of a workbook that are not empty."""
    library, read = ("xlrd", _rows_of_xls) if path.suffix.lower() == ".xls" else ("openpyxl", _rows_of_xlsx)
    kind = path.suffix[1:].upper()
    if importlib.util.find_spec(library) is None:
        raise InputError(f"{path}: {kind} tables need {library} (pip install 'geosim[tables]'), or save it as .csv")
    try:
        rows = read(readable(path))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 (a zip, an XML and a workbook can each be wrong in their own way)
        raise InputError(f"{path}: not a readable {kind} workbook ({error})") from None
    return [row for row in rows if any(cell not in (None, "") for cell in row)]


def _rows_of_xlsx(path: Path) -> list[list[Any]]:
    from openpyxl import load_workbook

    check_sizes(path, MOST_PACKED)
    book = load_workbook(path, read_only=True, data_only=True)
    smaller_file_advice = "leave out what is not needed, or save it as .csv"
    try:
        sheet = book.worksheets[0]
        if (sheet.max_row or 0) * (sheet.max_column or 0) > MOST_CELLS:
            raise InputError(
                f"{path}: says to have {sheet.max_row} rows of {sheet.max_column} cells; {smaller_file_advice}"
            )
        rows: list[list[Any]] = []
        count = 0
        for row in sheet.iter_rows(values_only=True):  # a sheet may not say how large it is
            count += max(len(row), 1)
            if count > MOST_CELLS:
                raise InputError(f"{path}: more than {MOST_CELLS} cells; {smaller_file_advice}")
            rows.append(list(row))
    finally:
        book.close()
    return rows


def _rows_of_xls(path: Path) -> list[list[Any]]:
    from xlrd import open_workbook

    sheet = open_workbook(path).sheet_by_index(0)
    return [sheet.row_values(i) for i in range(sheet.nrows)]
