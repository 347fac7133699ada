"""The command `geosim compare`: a result and a scan or markers in, lines of text and a folder of files out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from geosim.apps.compare.comparison import Comparison
from geosim.apps.compare.layouts import HEADER_LINES
from geosim.apps.compare.marker_fit import over_time, to_markers
from geosim.apps.compare.scan import to_scan
from geosim.arguments import guarded
from geosim.arrays import choice
from geosim.errors import InputError
from geosim.model.display import later
from geosim.tables import read_table_text, split_unit

_NUMERIC = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?")


@guarded
def run(
    result: Any,
    measured: str | Path,
    out: str | Path | None = None,
    *,
    kind: str | None = None,
    force: bool = False,
    units: str | None = None,
    frame: int = -1,
    path: bool = False,
    **options: Any,
) -> list[str]:
    """Compare as the command line does.

    Parameters
    ----------
    result
        A `Result`, or the path of a result file.
    measured
        Scan or marker file.
    out
        Folder for the files; None writes nothing.
    kind
        "scan" or "markers"; default by suffix (.csv and .txt: markers if they read as such).
    force
        Whether a folder that is not empty may be written to.
    path
        With markers: also compare all frames over the path; written as path.csv.
    units, frame, **options
        Arguments of `to_scan` or `to_markers`.

    Returns
    -------
    list of str
        The comparison and the files written.

    Raises
    ------
    InputError
        The input cannot be used; nothing has been written then.
    """
    measured = Path(measured)
    if isinstance(result, (str, Path)):
        result = later("files.archive.load_result")(result)
    folder = None if out is None else Path(out)
    if folder is not None and folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty; choose another --out or pass --force")
    options = {"frame": frame, "units": units, **{key: value for key, value in options.items() if value is not None}}
    found, rows = _compared(result, measured, _kind(measured, kind), path, options)
    lines = found.lines()
    lines += [
        f"  frame {r['frame']:4d}  t {r['time']:8.3f}  rms {1e3 * r['rms']:8.3f} mm  max {1e3 * r['max']:8.3f} mm"
        for r in rows
    ]
    if folder is not None:
        files = found.save(folder) + ([_write_path(rows, folder / "path.csv")] if rows else [])
        lines.append("written: " + ", ".join(str(f) for f in files))
    return lines


def _compared(
    result: Any, measured: Path, kind: str, path: bool, options: dict[str, Any]
) -> tuple[Comparison, list[dict[str, float]]]:
    """Return the comparison, and of markers the rows over the path where they are asked for."""
    options_of_kind = {
        "scan": ("register", "base_extent"),
        "markers": ("vertices", "at", "marker_frame", "rest", "average", "ordered"),
    }
    foreign = [key for key in options_of_kind["scan" if kind == "markers" else "markers"] if key in options]
    if foreign:
        said = f"{' and '.join(f'{key}=' for key in foreign)} {'is' if len(foreign) == 1 else 'are'} not for {kind}"
        raise InputError(f"{measured}: {said}; leave it out, or pass kind= scan or markers")
    if kind == "scan":
        return to_scan(result, measured, **options), []
    found = to_markers(result, measured, **options)
    return found, over_time(result, measured, **{k: v for k, v in options.items() if k != "frame"}) if path else []


def marker_places(text: str | None) -> dict[str, int] | list[int] | None:
    """Read where markers sit: "7,12,40", or "base1=7,tip=40".

    Raises
    ------
    InputError
        A vertex id is no whole number, or only some markers have names.
    """
    if text is None:
        return None
    pairs = [item.strip().rpartition("=") for item in text.split(",")]
    if not all(vertex.strip().isdigit() for *_, vertex in pairs) or len({bool(name) for name, *_ in pairs}) > 1:
        raise InputError(f"vertices= {text!r}: give vertex ids in the order of the markers, 7,12,40, or base1=7,tip=40")
    if pairs[0][0]:
        return {name.strip(): int(vertex) for name, _, vertex in pairs}
    return [int(vertex) for *_, vertex in pairs]


def marker_points(texts: tuple[str, ...], unit: float) -> list[tuple[float, ...]] | None:
    """Read where markers sit at rest, "60,8,0" each, in `unit` metres; None where nothing is given.

    Raises
    ------
    InputError
        A place is not three numbers.
    """
    return [_point(text, unit) for text in texts] or None


def _point(text: str, unit: float) -> tuple[float, ...]:
    try:
        x, y, z = (unit * float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"at= {text!r}: give the place of a marker at rest as x,y,z, for example 60,8,0") from None
    return x, y, z


def marker_names(text: str | None) -> str | list[str] | None:
    """Read names of markers separated by commas; a single one is the beginning of names."""
    return [name.strip() for name in text.split(",")] if text and "," in text else text


def _write_path(rows: list[dict[str, float]], path: Path) -> Path:
    body = [
        f"{r['frame']},{r['time']:.6g}," + ",".join(f"{1e3 * r[k]:.6g}" for k in ("rms", "mean", "max")) for r in rows
    ]
    path.write_text("\n".join(["frame,time,rms_mm,mean_mm,max_mm", *body]) + "\n", encoding="utf-8")
    return path


def _kind(path: Path, given: str | None) -> str:
    """Return "scan" or "markers": as given, by suffix, or from the table itself."""
    if given is not None:
        return choice(given, "compare: kind", ("scan", "markers"))
    marker_suffixes = (".c3d", ".trc", ".tsv")
    scan_suffixes = (".ply", ".stl", ".obj", ".off", ".glb", ".xyz", ".asc", ".pts")
    suffixes = dict.fromkeys(scan_suffixes, "scan") | dict.fromkeys(marker_suffixes, "markers")
    return suffixes.get(path.suffix.lower()) or _guess(path)


def _guess(path: Path) -> str:
    """Tell a table of markers from a point cloud: a cloud names x, y, z and no marker, or has three or six columns of numbers."""
    table = read_table_text(path)
    for line in table.filled(0)[:HEADER_LINES]:
        for part in "\t;, ":
            cells = replace(table, delimiter=part).cells(line)
            names = [split_unit(cell.strip("/#% "))[0].lower() for cell in cells]
            if {"x", "y", "z"} <= set(names):
                return "markers" if {"name", "marker", "label"} & set(names) else "scan"
            if len(cells) >= 3 and all(_NUMERIC.fullmatch(cell) for cell in cells):
                return "scan" if len(cells) in (3, 6) else "markers"
    return "markers"
