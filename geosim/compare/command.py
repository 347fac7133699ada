"""What `geosim compare` does: a result and a scan or markers in, lines of text and a folder of files out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geosim.arrays import choice
from geosim.compare.marker_fit import over_time, to_markers
from geosim.compare.scan import to_scan
from geosim.errors import InputError

__all__ = ["run"]

MARKER_SUFFIXES = (".c3d", ".trc", ".tsv")
SCAN_SUFFIXES = (".ply", ".stl", ".obj", ".off", ".glb", ".xyz", ".asc", ".pts")


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
    units, frame
        As in `to_scan` and `to_markers`.
    path
        With markers: also compare all frames over the path; written as path.csv.
    **options
        Further arguments of `to_scan` or `to_markers`.

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
        from geosim.files.archive import load_result

        result = load_result(result)
    folder = None if out is None else Path(out)
    if folder is not None and folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty; choose another --out or pass --force")
    if kind is not None:
        choice(kind, "compare: kind", ("scan", "markers"))
    suffix = measured.suffix.lower()
    chosen = kind or (
        "scan" if suffix in SCAN_SUFFIXES else "markers" if suffix in MARKER_SUFFIXES else _guess(measured)
    )
    rows = []
    if chosen == "scan":
        found = to_scan(result, measured, frame=frame, units=units, **options)
    else:
        found = to_markers(result, measured, frame=frame, units=units, **options)
        rows = over_time(result, measured, units=units, **options) if path else []
    lines = found.lines()
    for row in rows:
        lines.append(
            f"  frame {row['frame']:4d}  t {row['time']:8.3f}  rms {1e3 * row['rms']:8.3f} mm  max "
            f"{1e3 * row['max']:8.3f} mm"
        )
    if folder is not None:
        files = found.save(folder)
        if rows:
            table = folder / "path.csv"
            keys = ("rms", "mean", "max")
            body = [f"{r['frame']},{r['time']:.6g}," + ",".join(f"{1e3 * r[k]:.6g}" for k in keys) for r in rows]
            table.write_text("\n".join(["frame,time,rms_mm,mean_mm,max_mm", *body]) + "\n", encoding="utf-8")
            files.append(table)
        lines.append("written: " + ", ".join(str(f) for f in files))
    return lines


def _guess(path: Path) -> str:
    """Tell a table of markers from a point cloud: a cloud has three columns."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            fields = line.replace(",", " ").replace(";", " ").split()
            if len(fields) >= 3 and all(f.lstrip("+-").replace(".", "", 1)[:1].isdigit() for f in fields):
                return "scan" if len(fields) in (3, 6) else "markers"
    return "markers"
