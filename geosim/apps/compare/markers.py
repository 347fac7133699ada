"""Reads marker trajectories: C3D, TRC and the CSV / TSV files of OptiTrack, Qualisys and Vicon.

Missing markers become nan: empty fields, nan, negative C3D residuals, and positions that are exactly zero (the way
some systems write a marker that was not seen).
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import METRES_PER_UNIT, Floats, Ints, frozen, ints, real_array, shown
from geosim.errors import InputError, MeshError
from geosim.geometry.child import Allowance, run_mesher
from geosim.resources import readable


def unit_scale(unit: str | None, source: str) -> float:
    """Return metres per unit.

    Raises
    ------
    InputError
        There is no unit, or it is unknown; `source` is named.
    """
    if not unit:
        raise InputError(
            f"{source}: no unit of length is given in the file; pass units= one of {', '.join(METRES_PER_UNIT)}"
        )
    name = str(unit).strip().lower()
    words = {
        "meters": "m",
        "metres": "m",
        "meter": "m",
        "millimeters": "mm",
        "millimetres": "mm",
        "millimeter": "mm",
        "centimeters": "cm",
        "centimetres": "cm",
        "inches": "in",
        "inch": "in",
    }
    name = words.get(name, name)
    if name not in METRES_PER_UNIT:
        raise InputError(f"{source}: the unit {unit!r} is unknown; pass units= one of {', '.join(METRES_PER_UNIT)}")
    return METRES_PER_UNIT[name]


READING_SECONDS = 60.0  # an hour of markers takes some; a damaged file may be read for ever
MAX_COORDINATE_M = 1e6  # m: no set-up is larger, whatever its unit was taken for
# A name's beginning, or names and indices of markers.
Chosen = str | Iterable[str | int]


@guarded
@dataclass(frozen=True)
class Markers:
    """Trajectories of markers.

    Parameters
    ----------
    positions
        [m], shape (k, m, 3) or (m, 3) for one frame; nan where a marker was not seen.
    names
        One for each marker; empty where the markers are unordered.
    times
        [s], shape (k,); default frame numbers.
    source
        Named in messages.
    notes
        What a reader detected, one line each.

    Raises
    ------
    InputError
        Shapes do not fit, or no position is finite.
    """

    positions: Any
    names: tuple[str, ...] = ()
    times: Any = None
    source: str = "markers"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        array = real_array(self.positions, f"{self.source}: positions")
        array = array[None] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
            raise InputError(
                f"{self.source}: marker positions have shape {array.shape}; give (markers, 3) or "
                f"(frames, markers, 3) [m]"
            )
        array[~np.isfinite(array).all(axis=2)] = np.nan
        if np.isnan(array).all():
            raise InputError(f"{self.source}: no marker was seen in any frame")
        if np.nanmax(np.abs(array)) > MAX_COORDINATE_M:
            raise InputError(
                f"{self.source}: a marker is {np.nanmax(np.abs(array)):.4g} m away; pass units= as in the file"
            )
        times = (
            np.arange(len(array), dtype=float)
            if self.times is None
            else real_array(self.times, f"{self.source}: times")
        )
        if times.shape != (len(array),) or (self.names and len(self.names) != array.shape[1]):
            raise InputError(
                f"{self.source}: {array.shape[0]} frames of {array.shape[1]} markers, but {times.size} "
                f"times and "
                f"{len(self.names)} names"
            )
        object.__setattr__(self, "positions", frozen(array))
        object.__setattr__(self, "times", frozen(times))
        object.__setattr__(self, "names", tuple(map(str, self.names)))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names, or "marker 1" and so on where there are none."""
        return self.names or tuple(f"marker {i + 1}" for i in range(self.positions.shape[1]))

    def index(self, chosen: Chosen) -> Ints:
        """Return marker indices of names, a name's beginning, or indices.

        Raises
        ------
        InputError
            A name or index does not exist.
        """
        there = ", ".join(self.names) or "no names"
        if isinstance(chosen, str):
            found = [i for i, n in enumerate(self.names) if n.lower().startswith(chosen.lower())]
            if not found:
                raise InputError(f"{self.source}: no marker begins with {chosen!r}; there are {there}")
            return np.array(found)
        if not isinstance(chosen, (list, tuple)) and getattr(chosen, "ndim", 0) != 1:
            raise InputError(f"{self.source}: {shown(chosen)} names no markers; give names or indices")
        unknown = [item for item in chosen if isinstance(item, str) and item not in self.names]
        if unknown:
            raise InputError(f"{self.source}: there is no marker {unknown[0]!r}; there are {there}")
        out = [self.names.index(item) if isinstance(item, str) else item for item in chosen]
        return ints(out, f"{self.source}: marker index", (None,), below=self.positions.shape[1])


@guarded
def read_markers(path: str | Path, units: str | None = None) -> Markers:
    """Read marker trajectories (.c3d .trc .csv .tsv .txt).

    Parameters
    ----------
    path
        The file.
    units
        "m", "cm", "mm" or "in"; overrides what the file says, needed where it says nothing.

    Raises
    ------
    InputError
        The file is missing, empty, has no unit or no markers, or its format is not known.
    """
    path = Path(path)
    if not readable(path).is_file():
        raise InputError(f"{path}: no such marker file")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    if path.suffix.lower() == ".c3d":
        return _c3d(path, units)
    if path.suffix.lower() not in (".trc", ".csv", ".tsv", ".txt"):
        raise InputError(f"{path}: {path.suffix!r} is no marker format; use .c3d, .trc, .csv or .tsv")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max("\t;,", key=lambda d: max((line.count(d) for line in text.splitlines()[:12]), default=0))
    rows = [[f.strip() for f in row] for row in csv.reader(text.splitlines(), delimiter=delimiter)]
    if path.suffix.lower() == ".trc" or first.startswith("PathFileType"):
        return _trc(path, rows, units)
    if first.startswith("Format Version"):
        return _optitrack(path, rows, units)
    if any(row and row[0] == "MARKER_NAMES" for row in rows[:20]):
        return _qualisys(path, rows, units)
    if first.split(delimiter)[0].strip() in ("Trajectories", "Markers"):
        return _vicon(path, rows, units)
    return _columns(path, rows, units)


def _c3d(path: Path, units: str | None) -> Markers:
    if importlib.util.find_spec("ezc3d") is None:
        raise InputError(f"{path}: reading C3D needs the package ezc3d; pip install geosim[mocap]")
    try:
        file = run_mesher(dict(engine="ezc3d", path=str(path.resolve())), Allowance.of(READING_SECONDS), str(path))
    except MeshError:
        raise InputError(f"{path}: not read within {READING_SECONDS:g} s; it may be damaged: export it again") from None
    if isinstance(file, str):
        raise InputError(f"{path}: not a readable C3D file: {file}; export it again")
    found = units or str(file["units"])
    positions = file["points"][:3].transpose(2, 1, 0).copy()
    positions[file["residuals"][0].T < 0] = np.nan
    rate = float(file["rate"]) or 1.0
    names = tuple(str(n).strip() for n in file["labels"][: positions.shape[1]])
    return _markers(path, positions, names, np.arange(len(positions)) / rate, found, "C3D")


def _markers(
    path: Path, positions: Floats, names: tuple[str, ...], times: Floats, unit: str | None, kind: str
) -> Markers:
    if positions.size == 0:
        raise InputError(f"{path}: {kind} file without markers or frames")
    positions = positions * unit_scale(unit, str(path))
    positions[(positions == 0).all(axis=2)] = np.nan
    missing = int(np.isnan(positions).any(axis=2).sum())
    notes = (
        f"{kind}: {positions.shape[1]} markers, {positions.shape[0]} frames, unit {unit}, {missing} missing positions",
    )
    return Markers(positions, names if any(names) else (), times, str(path), notes)


def _value(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return np.nan


def _numbers(rows: list[list[str]], width: int) -> Floats:
    """Rows that begin with a number, padded with nan to `width`."""
    good = [r for r in rows if r and np.isfinite(_value(r[0]))]
    return np.array([[_value(f) for f in (r + [""] * width)[:width]] for r in good]).reshape(-1, width)


def _points(table: Floats) -> Floats:
    """Columns x, y, z, x, y, z, ... as points (k, m, 3)."""
    return table.reshape(len(table), table.shape[1] // 3, 3)


def _trc(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    if len(rows) < 6 or "Units" not in rows[1]:
        raise InputError(f"{path}: not a TRC file: line 2 names no Units")
    unit = units or rows[2][rows[1].index("Units")]
    names = tuple(n for n in rows[3][2:] if n)
    table = _numbers(rows[5:], 2 + 3 * len(names))
    return _markers(path, _points(table[:, 2:]), names, table[:, 1], unit, "TRC")


def _optitrack(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    head = dict(zip(rows[0][::2], rows[0][1::2]))
    start = next((i for i, r in enumerate(rows) if r and r[0] == "Frame"), None)
    kinds = next((r for r in rows if "Type" in r[:2]), None)
    labels = next((r for r in rows if "Name" in r[:2]), None)
    if start is None or kinds is None or labels is None:
        raise InputError(f"{path}: an OptiTrack file without Type, Name or Frame line; export with headers")
    what = rows[start - 1]
    columns = [i for i in range(2, len(rows[start])) if kinds[i] == "Marker" and what[i] == "Position"]
    if not columns:
        raise InputError(f"{path}: no marker positions among the columns; export markers, not rigid bodies alone")
    table = _numbers(rows[start + 1 :], len(rows[start]))
    names = tuple(labels[i] for i in columns[::3])
    return _markers(
        path, _points(table[:, columns]), names, table[:, 1], units or head.get("Length Units"), "OptiTrack"
    )


def _qualisys(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    at = next(i for i, r in enumerate(rows) if r[0] == "MARKER_NAMES")
    names = tuple(n for n in rows[at][1:] if n)
    rate = next((_value(r[1]) for r in rows if r[0] == "FREQUENCY" and len(r) > 1), np.nan)
    numeric = [r for r in rows[at + 1 :] if r and np.isfinite(_value(r[0]))]
    lead = max(len(numeric[0]) - 3 * len(names), 0) if numeric else 0
    lead = min(lead, 2) if numeric and len([f for f in numeric[0] if f]) > 3 * len(names) else 0
    table = _numbers(numeric, lead + 3 * len(names))
    times = table[:, lead - 1] if lead == 2 else np.arange(len(table)) / (rate if rate > 0 else 1.0)
    return _markers(path, _points(table[:, lead:]), names, times, units or "mm", "Qualisys")


def _vicon(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    at = next((i for i, r in enumerate(rows) if r and r[0] == "Frame"), None)
    if at is None or at < 1:
        raise InputError(f"{path}: a Vicon file without a Frame line")
    width = len(rows[at])
    names = tuple(n.rsplit(":", 1)[-1] for n in rows[at - 1][2:] if n)
    rate = next((_value(r[0]) for r in rows[:at] if r and _value(r[0]) > 0), 1.0)
    unit = units or next((f for f in rows[at + 1] if f), "")
    width = 2 + 3 * len(names)
    table = _numbers(rows[at + 1 :], width)
    return _markers(path, _points(table[:, 2:]), names, table[:, 0] / rate, unit, "Vicon")


_AXIS = re.compile(r"^(.*?)[ _.:\-]*([xyzXYZ])(?:[ _]*[\[(]?(mm|cm|m|in)[\])]?)?$")


def _columns(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    """Columns such as tip-1_x_m, tip-1_y_m, tip-1_z_m; or, without a header, x, y, z for every marker in turn."""
    rows = [r for r in rows if any(r)]
    header = rows[0] if rows else []
    if header and all(np.isfinite(_value(f)) for f in header if f):
        width = len(header) // 3 * 3
        table = _numbers(rows, width)
        return _markers(path, _points(table), (), np.arange(len(table), dtype=float), units, "table")
    found: dict[str, dict[str, int]] = {}
    unit = units
    for i, name in enumerate(header):
        match = _AXIS.match(name)
        if match and match.group(1):
            found.setdefault(match.group(1), {})[match.group(2).lower()] = i
            unit = unit or match.group(3)
    full = {n: a for n, a in found.items() if len(a) == 3}
    if not full:
        return _listed(path, rows, units)
    table = _numbers(rows[1:], len(header))
    order = [full[n][axis] for n in full for axis in "xyz"]
    clock = next((i for i, n in enumerate(header) if n.lower().startswith("time")), None)
    times = table[:, clock] if clock is not None else np.arange(len(table), dtype=float)
    return _markers(path, _points(table[:, order]), tuple(full), times, unit, "CSV")


_BARE = re.compile(r"^([xyzXYZ])(?:[ _]*[\[(]?(mm|cm|m|in)[\])]?)?$")


def _listed(path: Path, rows: list[list[str]], units: str | None) -> Markers:
    """One frame, a marker a row: name, x, y, z. Without names it may be a scan, so they are asked for."""
    header = rows[0] if rows else []
    axes = {m[1].lower(): (i, m[2]) for i, name in enumerate(header) if (m := _BARE.match(name))}
    label = next((i for i in range(len(header)) if i not in [at for at, _ in axes.values()]), None)
    if len(axes) < 3 or label is None or len(rows) < 2:
        raise InputError(
            f"{path}: no marker columns recognised; name them like tip_x_mm, tip_y_mm, tip_z_mm (a row a frame), or name, x_mm, "
            "y_mm, z_mm (a row a marker)"
        )
    body = [row + [""] * (len(header) - len(row)) for row in rows[1:]]
    positions = np.array([[[_value(row[axes[axis][0]]) for axis in "xyz"] for row in body]])
    unit = units or next((unit for _, unit in axes.values() if unit), None)
    return _markers(path, positions, tuple(row[label] for row in body), np.zeros(1), unit, "list")
