"""Reads marker trajectories: C3D, TRC and the CSV / TSV files of Motive, Qualisys, Vicon and others.

What columns hold is in `layouts`, what a table is in `geosim.tables`. Markers that were not seen are nan: empty fields, nan,
negative residuals of C3D. C3D, TRC and Qualisys files may write a gap as 0, 0, 0: such a position is a gap unless the file
marks gaps in its own way elsewhere, or gives C3D residuals above zero. The notes say which. Nothing else is left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.compare.cloud import check_filled
from geosim.apps.compare.layouts import Layout, layout_of
from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, choice, frozen, ints, real_array, shown
from geosim.errors import InputError, MeshError
from geosim.geometry.child import Allowance, run_mesher
from geosim.tables import agreed_unit, read_table_text, unit_scale

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
        Shapes do not fit, a name stands twice, a position is infinite, or none is finite.
    """

    positions: Any
    names: tuple[str, ...] = ()
    times: Any = None
    source: str = "markers"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        array = _checked(self.positions, self.source)
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
        names = tuple(map(str, self.names))
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            first = names.index(twice) + 1
            raise InputError(
                f"{self.source}: markers {first} and {names.index(twice, first) + 1} are both named {twice!r}; rename one"
            )
        object.__setattr__(self, "positions", frozen(array))
        object.__setattr__(self, "times", frozen(times))
        object.__setattr__(self, "names", names)

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


def _checked(positions: Any, source: str) -> Floats:
    """Return positions [m] (k, m, 3) of which all coordinates are known or none; refuse what is no set of markers."""
    array = real_array(positions, f"{source}: positions")
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise InputError(
            f"{source}: marker positions have shape {array.shape}; give (markers, 3) or (frames, markers, 3) [m]"
        )
    if np.isinf(array).any():
        frame, marker, _ = np.argwhere(np.isinf(array))[0]
        raise InputError(f"{source}: marker {marker + 1} is infinitely far away in frame {frame}; a gap is nan")
    array[np.isnan(array).any(axis=2)] = np.nan
    if np.isnan(array).all():
        raise InputError(f"{source}: no marker was seen in any frame")
    if np.nanmax(np.abs(array)) > MAX_COORDINATE_M:
        raise InputError(f"{source}: a marker is {np.nanmax(np.abs(array)):.4g} m away; pass units= as in the file")
    return array


@guarded
def read_markers(path: str | Path, units: str | None = None, *, up: str = "z") -> Markers:
    """Read marker trajectories (.c3d .trc .csv .tsv .txt); `docs/formats.md` shows every layout.

    Parameters
    ----------
    path
        The file.
    units
        "m", "cm", "mm" or "in": needed where the file states none, refused where it states another one.
    up
        The axis of the file that points up: "y" turns (x, y, z) to (x, -z, y), "x" to (y, z, x), so that z points up.

    Raises
    ------
    InputError
        The file is missing, fits no layout, contradicts its header, or has no unit; line and column are named.
    """
    path = Path(path)
    choice(up, "read_markers: up", ("x", "y", "z"))
    check_filled(path, "marker")
    suffix = path.suffix.lower()
    if suffix == ".c3d":
        return _c3d(path, units, up)
    if suffix not in (".trc", ".csv", ".tsv", ".txt"):
        raise InputError(f"{path}: {path.suffix!r} is no marker format; use .c3d, .trc, .csv or .tsv")
    return _in_columns(layout_of(read_table_text(path), suffix), units, up)


def _in_columns(layout: Layout, units: str | None, up: str) -> Markers:
    """Return the markers of a table."""
    table, markers = layout.table, layout.markers
    if not layout.rows:
        raise InputError(f"{table.source}: {layout.kind} file without rows; export it again")
    used = [agreed_unit(unit, units, table.source) or layout.unit for marker in markers for unit in marker.units]
    scales = np.array([unit_scale(unit, table.source) for unit in used]).reshape(-1, 3)
    at = [column for marker in markers for column in marker.columns]
    is_list = layout.kind == "list"  # a row a marker: all stand in the same columns
    values = table.numbers(layout.rows, at[:3] if is_list else at, layout.width).reshape(-1, len(markers), 3)
    _check_whole(layout, values)
    unit = ", ".join(dict.fromkeys(str(units or one) for one in used))
    names = tuple(marker.name for marker in markers)
    times = np.zeros(1) if is_list else _times(layout)
    told = layout.kind, unit, up
    return _markers(table.source, values * scales, names, times, told, layout.zeros_are_gaps, layout.remarks)


def _check_whole(layout: Layout, values: Floats) -> None:
    """Refuse positions of which a coordinate is missing."""
    missing = np.isnan(values)
    torn = np.argwhere(missing.any(axis=2) & ~missing.all(axis=2))
    if len(torn):
        frame, k = torn[0]
        line = layout.rows[k if layout.kind == "list" else frame]
        axis = int(np.argmax(missing[frame, k]))
        raise layout.table.error(
            line,
            f"the marker {layout.markers[k].name!r} has no {'xyz'[axis]} here, but other coordinates",
            layout.markers[k].columns[axis],
        )


def _times(layout: Layout) -> Floats:
    """Return the times of the rows [s]: as they stand, else of frame numbers and rate, else the numbers of the rows."""
    table, count = layout.table, len(layout.rows)
    known = layout.rate if layout.rate > 0 else 1.0
    if layout.clock is not None:
        column, factor = layout.clock
    elif layout.frames is not None:
        column, factor = layout.frames, 1.0 / known
    else:
        return np.arange(count) / known
    times = table.numbers(layout.rows, [column], layout.width)[:, 0]
    for problem, wrong in (
        ("has no time", np.isnan(times)),
        ("goes back in time", np.diff(times, prepend=-np.inf) < 0),
    ):
        if wrong.any():
            line = layout.rows[int(np.argmax(wrong))]
            raise table.error(line, f"{problem}; a second take? one file for each take", column)
    return times * factor


def _c3d(path: Path, units: str | None, up: str) -> Markers:
    """Return the markers of a binary C3D file: its groups POINT state labels, unit, rate and which axis points up."""
    if importlib.util.find_spec("ezc3d") is None:
        raise InputError(f"{path}: reading C3D needs the package ezc3d; pip install geosim[mocap]")
    try:
        file = run_mesher(dict(engine="ezc3d", path=str(path.resolve())), Allowance.of(READING_SECONDS), str(path))
    except MeshError:
        raise InputError(f"{path}: not read within {READING_SECONDS:g} s; it may be damaged: export it again") from None
    if isinstance(file, str):
        raise InputError(f"{path}: not a readable C3D file: {file}; export it again")
    unit = agreed_unit(str(file["units"]), units, str(path))
    positions = file["points"][:3].transpose(2, 1, 0) * unit_scale(unit, str(path))
    residuals = file["residuals"][0].T
    positions[residuals < 0] = np.nan
    positions[~np.isfinite(positions).all(axis=2)] = np.nan
    rate, count = float(file["rate"]) or 1.0, positions.shape[1]
    labels = [str(label).strip() for label in file["labels"][:count]]
    names = tuple(label or f"marker {i + 1}" for i, label in enumerate(labels + [""] * (count - len(labels))))
    screen = str(file["screen"])
    remarks = (f"the file says that {screen} points up on the screen",) if screen else ()
    times, told = np.arange(len(positions)) / rate, ("C3D", str(unit), up)
    return _markers(str(path), positions, names, times, told, not (residuals > 0).any(), remarks)


def _markers(
    source: str,
    positions: Floats,
    names: tuple[str, ...],
    times: Floats,
    told: tuple[str, str, str],
    zeros_are_gaps: bool,
    remarks: tuple[str, ...],
) -> Markers:
    """Return markers at positions [m]; `told` are format, unit and the axis that points up."""
    kind, unit, up = told
    if positions.size == 0:
        raise InputError(f"{source}: {kind} file without markers or frames")
    zeros = (positions == 0).all(axis=2)
    zeros_are_gaps = zeros_are_gaps and not np.isnan(positions).any()  # a file that marks gaps needs no zeros for them
    if zeros.any():
        what = "were kept; a gap of this file is an empty cell, nan or a negative residual"
        if zeros_are_gaps:
            what = "were taken as gaps, because the file marks none; where they were measured, write gaps as empty cells or nan"
        remarks = (*remarks, f"{int(zeros.sum())} positions are exactly 0, 0, 0 and {what}")
    if zeros_are_gaps:
        positions[zeros] = np.nan
    missing = int(np.isnan(positions).any(axis=2).sum())
    if up == "y":
        positions = np.stack([positions[..., 0], -positions[..., 2], positions[..., 1]], axis=-1)
    elif up == "x":
        positions = positions[..., [1, 2, 0]]
    turned = "" if up == "z" else f", turned so that {up} points up as z"
    first = f"{kind}: {positions.shape[1]} markers, {positions.shape[0]} frames, unit {unit}, {missing} missing positions{turned}"
    return Markers(positions, names, times, source, (first, *remarks))
