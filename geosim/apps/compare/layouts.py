"""Layouts of marker tables: which columns hold which coordinate, from the headers and counts that a file states.

A layout is known by its first words, never by the cells of one row of numbers. Where a header, a count and the rows differ, the
file is refused with line and column. Rows of only gaps are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from geosim.errors import InputError
from geosim.tables import GAPS, Table, delimiter_of, split_unit

AXES = "xyz"
HEADER_LINES = 40  # lines that the header of an exporter takes, at most
# What columns of times, of frame numbers, and of the names of markers are called.
TIME_NAMES = ("time", "t", "timestamp", "times")
FRAME_NAMES = ("frame", "frames", "frame#", "fnum")
LABEL_NAMES = ("name", "marker", "label", "id")
SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}


@dataclass(frozen=True)
class MarkerColumns:
    """Where the coordinates of one marker stand, and their unit as the file states it.

    Parameters
    ----------
    name
        Of the marker.
    columns
        Of x, y and z, from 0.
    units
        Of x, y and z; None where the file states none.
    """

    name: str
    columns: tuple[int, int, int]
    units: tuple[str | None, ...] = (None, None, None)


@dataclass(frozen=True)
class Layout:
    """How a table lists the markers.

    Parameters
    ----------
    kind
        The format, for messages.
    table, rows, width
        The table, the lines of its rows, and the cells that each has.
    markers
        Columns of every marker.
    clock
        Column of the time and seconds in its unit; None: there is none.
    frames
        Column of frame numbers; None: there is none.
    rate
        Frames a second; nan where the file states none.
    unit
        Of all coordinates, where the format has one and the file does not state it.
    zeros_are_gaps
        Whether the format writes zeros where a marker was not seen.
    remarks
        What a reader should know, one sentence each.
    """

    kind: str
    table: Table
    rows: list[int]
    width: int
    markers: list[MarkerColumns]
    clock: tuple[int, float] | None = None
    frames: int | None = None
    rate: float = np.nan
    unit: str | None = None
    zeros_are_gaps: bool = False
    remarks: tuple[str, ...] = ()


def layout_of(table: Table, suffix: str) -> Layout:
    """Return the layout of a table, by its first words.

    Raises
    ------
    InputError
        The table fits no layout, or its headers, counts and rows differ.
    """
    first = next((i for i, line in enumerate(table.lines) if line.strip()), 0)
    opening = table.lines[first].lstrip(' "').lower()
    for word, known in (("pathfiletype", trc), ("format version", motive)):
        if opening.startswith(word):
            return known(_delimited(table, first, word), first)
    if suffix == ".trc":
        raise table.error(first, "a TRC file begins with PathFileType; export it again")
    for words, layout in (("marker_names", qualisys), ("bodyparts", deeplabcut), ("trajectories|markers", vicon)):
        begins = re.compile(rf'[ "]*({words})"?[ ]*($|[\t;,])', re.IGNORECASE)
        header = table.lines if layout is vicon else table.lines[:HEADER_LINES]
        at = next((i for i, line in enumerate(header) if line[:1].upper() in ' "MBT' and begins.match(line)), None)
        if at is not None and (layout is not vicon or _titled(table, at)):
            return layout(_delimited(table, at, words), at)
    return columns(table, first)


def _titled(table: Table, line: int) -> bool:
    """Whether a line is the title of a section: a word alone."""
    return len(re.findall(r"\w+", table.lines[line])) == 1


def _delimited(table: Table, line: int, word: str) -> Table:
    """Return the table with the delimiter that follows a word; a section's title alone tells none, lines below it do."""
    below = table.filled(line)[:4]
    header = next((i for i in below if delimiter_of(table.lines[i]) != " "), None)
    if header is None:
        raise table.error(line, f"no delimiter in or below {word!r}: use tabs, semicolons or commas")
    return replace(table, delimiter=delimiter_of(table.lines[header]))


# ---- what the layouts share


def _row(table: Table, line: int, width: int = 0) -> list[str]:
    """Return the cells of a line, padded with empty ones to a width; refuse a line beyond the end."""
    if line >= len(table.lines):
        raise table.error(len(table.lines) - 1, "the file ends within its header; export it again")
    cells = table.cells(line)
    return cells + [""] * (width - len(cells))


def _grouped(
    table: Table, line: int, labels: Sequence[str], columns: Iterable[int], keys: Callable[[int], object]
) -> list[tuple[int, int, int]]:
    """Return the columns of x, y, z of every marker: neighbours with one key, in any order of axes.

    Raises
    ------
    InputError
        A marker has an axis twice, or lacks one; `line` is that of the labels.
    """
    groups: list[dict[str, int]] = []
    last: object = None
    for column in columns:
        axis = labels[column].lower()
        if not groups or keys(column) != last or len(groups[-1]) == len(AXES):
            groups.append({})
        last = keys(column)
        if axis in groups[-1]:
            raise table.error(
                line, f"a second {axis.upper()} of one marker, which has no {_missing(groups[-1])}", column
            )
        groups[-1][axis] = column
    for group in groups:
        if len(group) < len(AXES):
            at = max(group.values())
            raise table.error(line, f"a marker with {', '.join(group).upper()} and no {_missing(group)}", at)
    return [_ordered(group) for group in groups]


def _missing(group: Iterable[str]) -> str:
    return " and ".join(axis.upper() for axis in AXES if axis not in group)


def _ordered(group: dict[str, int]) -> tuple[int, int, int]:
    return group["x"], group["y"], group["z"]


def _check_names(table: Table, line: int, markers: list[MarkerColumns]) -> list[MarkerColumns]:
    """Refuse a name that two markers have."""
    first: dict[str, int] = {}
    for marker in markers:
        at = min(marker.columns)
        if marker.name in first:
            raise table.error(
                line, f"the marker {marker.name!r} is also in column {first[marker.name] + 1}; rename one", at
            )
        first[marker.name] = at
    return markers


def _check_count(table: Table, head: Mapping[str, tuple[int, str]], what: str, found: int) -> None:
    """Refuse a count in a header {name: (line, value)} that is not what the file holds."""
    line, text = head.get(what, (0, str(found)))
    stated = _rate(text)
    if np.isnan(stated):
        raise table.error(line, f"{what} is {text!r}, which is no number")
    if stated != found:
        raise table.error(
            line, f"{what} is {text}, the file holds {found}: torn or edited; export it again, or correct it"
        )


def _frames_and_times(titles: Sequence[str]) -> bool:
    """Whether titles begin with a frame and a time."""
    return [title[:length].lower() for title, length in zip(titles, (5, 4))] == ["frame", "time"]


def _rate(text: str) -> float:
    """Return a frame rate, nan where it is none."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return np.nan


# ---- the layouts


def trc(table: Table, first: int) -> Layout:
    """Track Row Column of OpenSim, Cortex, Motive, Nexus, Pose2Sim (version 4, X/Y/Z); counts and units are in line 3.

        PathFileType  4  (X/Y/Z)  walk.trc
        DataRate  CameraRate  NumFrames  NumMarkers  Units  OrigDataRate  OrigDataStartFrame  OrigNumFrames
        100       100         2          2           mm     100           1                   2
        Frame#  Time  tip          base
                      X1  Y1  Z1   X2  Y2  Z2

        1       0.00  1   2   3    4   5   6
        2       0.01               4   5   6

    A name stands over the first coordinate of its marker. Zeros, nan and empty cells are gaps.
    """
    keys = _row(table, first + 1)
    head = {key: (first + 2, value) for key, value in zip(keys, _row(table, first + 2, len(keys))) if value}
    for key in ("NumFrames", "NumMarkers", "Units"):
        if key not in head:
            raise table.error(first + 1, f"the header of a TRC file names {key} and its value one line below")
    titles = _row(table, first + 3)
    if not _frames_and_times(titles):
        raise table.error(first + 3, "names no Frame# and Time")
    names = list(filter(None, titles[2:]))
    _check_count(table, head, "NumMarkers", len(names))
    labels = _row(table, first + 4)
    axes = [label[:1] if re.match(r"[xyzXYZ]\d*$", label) else "" for label in labels]
    placed = [i for i in range(2, len(labels)) if axes[i]]
    if len(placed) != 3 * len(names) or any(labels[i] for i in range(len(labels)) if i not in placed):
        raise table.error(first + 4, f"{len(names)} markers need the labels X1 Y1 Z1 ... below their names")
    groups = _grouped(table, first + 4, axes, placed, lambda i: labels[i][1:])
    markers = [MarkerColumns(name, group, (head["Units"][1],) * 3) for name, group in zip(names, groups)]
    rows = table.filled(first + 5)
    _check_count(table, head, "NumFrames", len(rows))
    return Layout(
        "TRC",
        table,
        rows,
        2 + 3 * len(names),
        _check_names(table, first + 3, markers),
        clock=(1, 1.0),
        frames=0,
        rate=_rate(head.get("DataRate", (0, ""))[1]),
        zeros_are_gaps=True,
    )


MOTIVE_MARKERS = ("marker", "unlabeled marker")


def motive(table: Table, first: int) -> Layout:
    """CSV of OptiTrack Motive 1.x to 3.x (format versions 1.0 to 1.25), markers among rigid bodies, bones and errors.

        Format Version,1.23,Take Name,grip,Capture Frame Rate,120.000000,...,Length Units,Millimeters,Coordinate Space,Global

        ,Type,Rigid Body,...,Marker,Marker,Marker
        ,Name,Clamp,...,Clamp:tip,Clamp:tip,Clamp:tip
        ,ID,"1",...,"2","2","2"
        ,,Rotation,...,Position,Position,Position
        Frame,Time (Seconds),X,...,X,Y,Z
        0,0.000000,0.1,...,1,2,3

    Version 1.25 has a line Parent more, version 1.0 has neither the words Type, Name, ID nor Frame; a column TimeCode may stand
    third. Of the types, Marker is measured. "Rigid Body Marker" is where a rigid body expects it, and is left out.
    """
    opening = table.cells(first)
    head = dict(zip(opening[::2], opening[1::2]))
    titles = _motive_titles(table, first)
    placed = titles.placed(table)
    measured = [i for i in placed if titles.kinds[i].lower() in MOTIVE_MARKERS]
    if not measured:
        there = ", ".join(dict.fromkeys(titles.kinds[i] for i in placed)) or "none"
        raise table.error(
            titles.kind_line, f"no columns of the type Marker ({there}); export markers, not rigid bodies alone"
        )
    names, ids = titles.names, titles.ids
    groups = _grouped(table, titles.axes_line, titles.labels, measured, lambda i: (names[i], ids[i]))
    count = Counter(names[min(group)] for group in groups)
    markers = []
    for group in groups:
        at = min(group)
        name = f"{names[at]} ({ids[at]})" if count[names[at]] > 1 and ids[at] else names[at]
        markers.append(MarkerColumns(name, group, (head.get("Length Units"),) * 3))
    rows = table.filled(titles.axes_line + 1)
    remarks = ["Motive's own axes have Y up"]
    if others := sorted({titles.kinds[i] for i in {*placed} - {*measured}}):
        remarks.append(f"positions of the type {', '.join(others)} are no measured markers and not read")
    stated = head.get("Total Exported Frames", "")
    if stated and _rate(stated) != len(rows):
        remarks.append(f"the header states {stated} frames, the file holds {len(rows)}")
    return Layout(
        f"Motive {head.get('Format Version', '')}".strip(),
        table,
        rows,
        len(titles.labels),
        _check_names(table, titles.name_line, markers),
        clock=(1, 1.0),
        frames=0,
        rate=_rate(head.get("Export Frame Rate", "")),
        remarks=tuple(remarks),
    )


@dataclass(frozen=True)
class _MotiveTitles:
    """What stands above every column of a Motive file: type, name, number and what is measured, and the axis."""

    kinds: list[str]
    names: list[str]
    ids: list[str]
    what: list[str]
    labels: list[str]
    kind_line: int
    name_line: int
    axes_line: int

    def placed(self, table: Table) -> list[int]:
        """Return the columns of positions; refuse those without type or name."""
        columns = range(2, len(self.labels))
        out = [i for i in columns if self.what[i].lower() == "position" and self.labels[i] in tuple(AXES)]
        for line, title, cells in ((self.kind_line, "Type", self.kinds), (self.name_line, "Name", self.names)):
            bare = next((i for i in out if not cells[i]), None)
            if bare is not None:
                raise table.error(line, f"a position has no {title}", bare)
        return out


def _motive_titles(table: Table, first: int) -> _MotiveTitles:
    """Find the lines of titles below the first, by their words or, where they have none, by their order."""
    below = table.filled(first + 1)[:8]
    axes_line = next((i for i in below if _are_axes(table.cells(i))), None)
    if axes_line is None:
        raise table.error(first, "no line of X, Y, Z below the header; export the take with its header information")
    labels = [label.lower() for label in table.cells(axes_line)]
    width, lines = len(labels), [i for i in below if i < axes_line]
    named = {table.cells(i)[1].lower(): i for i in lines if len(table.cells(i)) > 1 and table.cells(i)[1]}
    if len(lines) < 3:
        raise table.error(axes_line, "an OptiTrack file names Type, Name and Position above this line; export it again")
    kind_line, name_line = named.get("type", lines[0]), named.get("name", lines[1])
    kinds, names, what = (_row(table, i, width) for i in (kind_line, name_line, lines[-1]))
    id_line = named.get("id", lines[2] if len(lines) > 3 else None)
    ids = [""] * width if id_line is None else _row(table, id_line, width)
    return _MotiveTitles(kinds, names, ids, what, labels, kind_line, name_line, axes_line)


def _are_axes(cells: Sequence[str]) -> bool:
    """Whether a line labels columns with X, Y, Z and other axes, or nothing, behind frame and time."""
    rest = [cell.lower() for cell in cells[2:]]
    return set(AXES) <= set(rest) and set(rest) <= {*AXES, "w", "", "timecode"} and cells[0].lower() in ("", "frame")


def qualisys(table: Table, at: int) -> Layout:
    """TSV of Qualisys Track Manager with header, in mm; with or without the columns Frame and Time and a line that names columns.

        NO_OF_FRAMES  2
        NO_OF_MARKERS  2
        FREQUENCY  100
        DATA_INCLUDED  3D
        MARKER_NAMES  tip  base
        TRAJECTORY_TYPES  Measured  Measured
        Frame  Time  tip X  tip Y  tip Z  base X  base Y  base Z
        1      0.00  1      2      3      4       5       6

    Where no line names columns, all rows together tell whether Frame and Time stand first: three cells a marker, or two more.
    Zeros, NULL and empty cells are gaps.
    """
    head = {cells[0].upper(): (i, cells[1]) for i in table.filled(0, at) if len(cells := table.cells(i)) > 1}
    line, included = head.get("DATA_INCLUDED", (at, "3D"))
    if included.upper() != "3D":
        raise table.error(line, f"holds {included} data, no markers; export 3D trajectories", 1)
    titles = table.cells(at)[1:]
    names = titles[: max((i + 1 for i, name in enumerate(titles) if name), default=0)]
    if not all(names):
        raise table.error(at, "a marker without a name", names.index("") + 1)
    _check_count(table, head, "NO_OF_MARKERS", len(names))
    body = table.filled(at + 1)
    body = body[1:] if body and table.cells(body[0])[0].upper() == "TRAJECTORY_TYPES" else body
    lead, columns, body = _qualisys_columns(table, at, body, len(names))
    _check_count(table, head, "NO_OF_FRAMES", len(body))
    markers = list(map(MarkerColumns, names, columns))
    return Layout(
        "Qualisys",
        table,
        body,
        lead + 3 * len(names),
        _check_names(table, at, markers),
        clock=(1, 1.0) if lead == 2 else None,
        frames=0 if lead else None,
        rate=_rate(head.get("FREQUENCY", (0, ""))[1]),
        unit="mm",
        zeros_are_gaps=True,
    )


def _qualisys_columns(
    table: Table, at: int, body: list[int], count: int
) -> tuple[int, list[tuple[int, int, int]], list[int]]:
    """Return the columns before the markers, those of every marker, and the rows of numbers."""
    if not body:
        raise table.error(at, "no rows below MARKER_NAMES")
    if any(cell.lower() not in GAPS and not np.isfinite(_rate(cell)) for cell in table.cells(body[0])):
        return *_named_columns(table, body[0], count), body[1:]
    lead = _columns_before(table, body, count)
    return lead, _in_turn(lead, count), body


def _in_turn(lead: int, count: int) -> list[tuple[int, int, int]]:
    """Columns of markers that stand one after the other behind so many others."""
    return [(lead + 3 * k, lead + 3 * k + 1, lead + 3 * k + 2) for k in range(count)]


def _named_columns(table: Table, line: int, count: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the columns before the markers, and those of every marker, by a line that names columns."""
    titles = table.cells(line)
    lead = 2 if titles[0].lower() == "frame" else 0
    if lead and not _frames_and_times(titles):
        raise table.error(line, "Frame and no Time; export both, or neither")
    labels = [title.rsplit(" ", 1)[-1].lower() for title in titles[lead:] if title]
    if not labels:
        return lead, _in_turn(lead, count)
    if len(labels) != 3 * count or set(labels) - set(AXES):
        raise table.error(
            line, f"{len(labels)} columns named by X, Y or Z at their end; {count} markers have {3 * count}"
        )
    axes = [""] * lead + labels
    return lead, _grouped(table, line, axes, range(lead, len(axes)), lambda i: titles[i][:-1])


def _columns_before(table: Table, body: list[int], count: int) -> int:
    """Return how many columns stand before the markers, by the cells of all rows."""
    widths = {len(cells): line for line in reversed(body) if (cells := table.cells(line))}
    if len(widths) > 1:
        line = widths[min(widths)]
        raise table.error(
            line, f"{min(widths)} cells, other lines have {max(widths)}: the line is cut off; export it again"
        )
    (width,) = widths
    ended = all(table.cells(line)[-1] == "" for line in body)  # a tab at the end of every line
    lead = {0: 0, 1: 0 if ended else -1, 2: 2, 3: 2 if ended else -1}.get(width - 3 * count, -1)
    if lead < 0:
        raise table.error(
            body[0], f"{width} cells; {count} markers have {3 * count}, with Frame and Time {3 * count + 2}"
        )
    return lead


def vicon(table: Table, at: int) -> Layout:
    """ASCII export of Vicon Nexus and Tracker, section Trajectories, wherever it stands among other sections.

        Trajectories
        100
        ,,S:tip,,,S:base,,
        Frame,Sub Frame,X,Y,Z,X,Y,Z
        ,,mm,mm,mm,mm,mm,mm
        1,0,1,2,3,4,5,6

    A name stands over the first column of its marker and reaches to the next name. Of its columns those named X, Y and Z
    are read, velocities X' and accelerations X'' not. Names lose their subject where all have the same. A blank line ends it.
    """
    word = table.cells(at)[0].lower()
    again = table.find(word, at + 1)
    if again is not None:
        raise table.error(again, f"a second section {word.title()}; one file for each take")
    lines = table.filled(at + 1)
    if len(lines) < 5:
        raise table.error(at, "the section ends within its header: rate, names, axes, units, rows; export it again")
    rate_line, name_line, axes_line, unit_line = lines[:4]
    labels = table.cells(axes_line)
    if [label.lower() for label in labels[:2]] != ["frame", "sub frame"]:
        raise table.error(axes_line, "a Vicon section names Frame and Sub Frame here, below the names; export it again")
    width = max(i + 1 for i, label in enumerate(labels) if label)
    names, units = _row(table, name_line, width), _row(table, unit_line, width)
    owners = _vicon_owners(table, name_line, names, width)
    placed = [i for i in range(2, width) if labels[i].lower() in tuple(AXES)]
    for line, is_bare in ((axes_line, lambda i: owners[i] < 0), (unit_line, lambda i: not units[i])):
        if bare := list(filter(is_bare, placed)):
            raise table.error(line, "a coordinate without a name or a unit", bare[0])
    groups = _grouped(table, axes_line, labels, placed, lambda i: owners[i])
    bearing = [owners[group[0]] for group in groups]
    if lonely := sorted({i for i in range(2, width) if names[i]} - {*bearing}):
        raise table.error(name_line, f"{names[lonely[0]]!r} has no X, Y, Z", lonely[0])
    given = _without_subject([names[i] for i in bearing])
    markers = [MarkerColumns(name, group, tuple(units[i] for i in group)) for name, group in zip(given, groups)]
    end = next((i for i in range(unit_line + 1, len(table.lines)) if not table.lines[i].strip(" \r\n\f\t;,")), None)
    return Layout(
        "Vicon",
        table,
        table.filled(unit_line + 1, end),
        width,
        _check_names(table, name_line, markers),
        frames=0,
        rate=_rate(table.cells(rate_line)[0]),
    )


def _vicon_owners(table: Table, line: int, names: list[str], width: int) -> list[int]:
    """Return over which column the name of every column stands, -1 for none: a name reaches to the next one."""
    extra = next((i for i in range(width, len(names)) if names[i]), None)
    if extra is not None:
        raise table.error(line, f"{names[extra]!r} stands over no X, Y, Z", extra)
    owners = [-1] * width
    for i in range(2, width):
        owners[i] = i if names[i] else owners[i - 1]
    return owners


def _without_subject(names: list[str]) -> list[str]:
    """Return names like S:tip without their subject, where all have the same."""
    parts = [name.rpartition(":") for name in names]
    return [part[2] for part in parts] if len({part[0] for part in parts}) == 1 else names


def deeplabcut(table: Table, at: int) -> Layout:
    """CSV of DeepLabCut and Anipose in 3D: three (or, with individuals, four) lines of header; it states no unit.

        scorer,DLC_3D,DLC_3D,DLC_3D
        bodyparts,tip,tip,tip
        coords,x,y,z
        0,1,2,3

    Columns of other coords, such as likelihood, are left out.
    """
    if table.cells(at + 1)[0].lower() != "coords":
        raise table.error(at + 1, "coords follows bodyparts; export the file again")
    parts, coords = table.cells(at), table.cells(at + 1)
    width = len(coords)
    above = table.cells(at - 1) if at else [""]
    owners = above if above[0].lower() == "individuals" else [""] * width
    names = [":".join(filter(None, pair)) for pair in zip(owners, _row(table, at, width))]
    placed = [i for i in range(1, min(width, len(parts))) if coords[i].lower() in AXES and coords[i]]
    groups = _grouped(table, at + 1, coords, placed, lambda i: names[i])
    if not groups:
        raise table.error(at + 1, "no coords x, y, z; export in three dimensions")
    markers = [MarkerColumns(names[group[0]], group) for group in groups]
    return Layout("DeepLabCut", table, table.filled(at + 2), width, _check_names(table, at, markers), frames=0)


# ---- tables whose columns name marker, axis and unit

_BEHIND = re.compile(r"^(.*?)([ _.:\-]*)([xyzXYZ])$")
_BEFORE = re.compile(r"^([xyzXYZ])[ _.:\-]*(.+)$")


def columns(table: Table, first: int) -> Layout:
    """A table with one row an instant, whose columns name marker, axis and unit, in any order, among others.

        frame,time_s,tip_x_mm,tip_y_mm,tip_z_mm,base_x_mm,base_y_mm,base_z_mm
        0,0.00,1,2,3,4,5,6

    So write Anipose, DLTdv, Optotrak and most laboratories: `tip_x`, `tip X [mm]`, `tip.x`, `tipX`, `x_tip`, `x1`. The header is
    the first line (of 40) that names all three axes of a marker. Or a table of one instant with a row a marker:

        name,x_mm,y_mm,z_mm
        tip,1,2,3
    """
    for line in table.filled(first)[:HEADER_LINES]:
        mine = replace(table, delimiter=delimiter_of(table.lines[line]))
        titles = mine.cells(line)
        if any(len(group) == len(AXES) for group in _named(mine, line, titles).values()):
            return _by_column(mine, line, titles)
        if {split_unit(title)[0].lower() for title in titles} >= set(AXES) and len(titles) > len(AXES):
            return _by_row(mine, line, titles)
    raise InputError(
        f"{table.source}: no header names markers and axes; name columns tip_x_mm, tip_y_mm, tip_z_mm (one row per frame) or "
        "name, x_mm, y_mm, z_mm (one row per marker)"
    )


def _named(table: Table, line: int, titles: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the columns of the axes of every marker: of names that end in an axis, else of those that begin with one."""
    for pattern, axis_at, name_at in ((_BEHIND, 3, 1), (_BEFORE, 1, 2)):
        found: dict[str, dict[str, int]] = {}
        twice: list[tuple[str, str, int]] = []
        for i, title in enumerate(titles):
            match = pattern.match(split_unit(title)[0])
            if match is None or not match[name_at]:
                continue
            name, axis = match[name_at], match[axis_at].lower()
            if axis in found.setdefault(name, {}):
                twice.append((name, axis, i))
            found[name].setdefault(axis, i)
        for name, axis, i in twice:
            if len(found[name]) == len(AXES):
                raise table.error(
                    line, f"{titles[i]!r}: column {found[name][axis] + 1} is the {axis} of {name!r} as well", i
                )
        if any(len(group) == len(AXES) for group in found.values()):
            return found
    return {}


def _by_column(table: Table, line: int, titles: list[str]) -> Layout:
    """Return the layout of a table with one row an instant."""
    found = _named(table, line, titles)
    _check_full(table, line, titles, found)
    full = {name: _ordered(group) for name, group in found.items() if len(group) == len(AXES)}
    markers = [MarkerColumns(name, at, tuple(split_unit(titles[i])[1] for i in at)) for name, at in full.items()]
    taken = {i for at in full.values() for i in at}
    others = {i: _split_time(title) for i, title in enumerate(titles) if i not in taken}
    clock, frames = (_first_called(names, others) for names in (TIME_NAMES, FRAME_NAMES))
    unit = "" if clock is None else others[clock][1]
    if unit not in SECONDS:
        raise table.error(line, f"the unit {unit!r} of the time is unknown; use one of {', '.join(SECONDS)[2:]}", clock)
    unused = ", ".join(titles[i] for i in others if titles[i] and i not in (clock, frames))
    return Layout(
        "table",
        table,
        table.filled(line + 1),
        len(titles),
        markers,
        clock=None if clock is None else (clock, SECONDS[unit]),
        frames=frames,
        remarks=(f"columns that are no coordinates: {unused[:200]}",) if unused else (),
    )


def _check_full(table: Table, line: int, titles: list[str], found: Mapping[str, dict[str, int]]) -> None:
    """Refuse a marker without all axes; a name that no sign parts from its axis may be another word."""
    for name, group in found.items():
        parted = any((match := _BEHIND.match(split_unit(titles[i])[0])) and match[2] for i in group.values())
        if len(group) < len(AXES) and parted:
            raise table.error(
                line, f"the marker {name!r} has {', '.join(group)} and no {_missing(group)}", max(group.values())
            )


def _first_called(names: Sequence[str], columns: Mapping[int, tuple[str, str]]) -> int | None:
    """Return the first of columns {number: (name, unit)} that has one of some names."""
    return next((i for i, (name, _) in columns.items() if name in names), None)


def _split_time(title: str) -> tuple[str, str]:
    """Return the name of a column and the unit of its time, in small letters."""
    found = re.match(r"^(.*?)[ _]*[\[(]\s*(.*?)\s*[\])]$", title) or re.match(
        r"^(time|t|timestamp)[ _](\w+)$", title, re.IGNORECASE
    )
    return (found[1].strip().lower(), found[2].lower()) if found else (title.lower(), "")


def _by_row(table: Table, line: int, titles: list[str]) -> Layout:
    """Return the layout of one instant with a row a marker: every row is a marker whose coordinates are in it."""
    bare = [split_unit(title)[0].lower() for title in titles]
    x, y, z = map(bare.index, AXES)
    at = x, y, z
    if any(bare.count(axis) > 1 for axis in AXES):
        raise table.error(line, "names an axis twice")
    others = [i for i in range(len(titles)) if i not in at]
    labels = [i for i in others if bare[i] in LABEL_NAMES]
    if len(others) > 1 and not labels:
        raise table.error(line, f"{', '.join(titles[i] for i in others)}: which names the markers? call it name")
    label, rows = (labels or others)[0], table.filled(line + 1)
    names = [_row(table, row, len(titles))[label] for row in rows]
    _check_rows(table, rows, names, label)
    units = tuple(split_unit(titles[i])[1] for i in at)
    return Layout("list", table, rows, len(titles), [MarkerColumns(name, at, units) for name in names])


def _check_rows(table: Table, rows: Sequence[int], names: Sequence[str], label: int) -> None:
    """Refuse rows whose markers have no name, or that of a row above."""
    seen = {""}
    for row, name in zip(rows, names):
        if name in seen:
            twice = f"the marker {name!r} has a row above: give one instant, a row a marker"
            raise table.error(row, twice if name else "a marker without a name", label)
        seen.add(name)
