"""Results on disk: VTU, PVD, VTP, NPZ, STL, OBJ, PLY and the summary table. Robots: see `geosim.files.robot`.

Every file is written beside its place and then renamed, so that a reader never meets half a file.
"""

from __future__ import annotations

import base64
import csv
import io as stdio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from geosim.contract import Robot
from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.archive import load_result, write_archive
from geosim.files.robot import load_problem, load_robot
from geosim.result import Result, Status
from geosim.robot import UNITS, VolumetricRobot
from geosim.show import fields
from geosim.show.contact import contact_pressures

__all__ = [
    "load_actuation",
    "load_problem",
    "load_result",
    "load_robot",
    "save_result",
    "summary_header",
    "summary_rows",
    "write_summary",
]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a sibling to write to; it takes the place of `path` when everything went well."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def save_result(result: Result, path: str | Path, units: str | None = None) -> Path:
    """Write a result; the suffix chooses the format.

    Parameters
    ----------
    result
        What was solved.
    path
        .npz (complete), .vtu and .vtp (last frame), .pvd (all frames, with one VTU each) in metres; .stl, .obj and
        .ply (outer skin of the last frame) in `units`; .csv (summary table).
    units
        "m", "cm", "mm" or "in", for surfaces only; default the unit of the robot's file.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix or the unit is unknown, the folder does not exist, or there is no frame to write.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"save: {path.name!r} has no known suffix; use one of {', '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise InputError(f"save: folder {str(path.parent)!r} does not exist; create it first")
    surface = path.suffix.lower() in (".stl", ".obj", ".ply")
    if units is not None and not surface:
        raise InputError(f"save: {path.suffix} files are always in metres; units={units!r} goes with .stl, .obj, .ply")
    unit = units or result.robot.units
    if unit not in UNITS:
        raise InputError(f"save: units={unit!r} is unknown; use one of {', '.join(UNITS)}")
    if not len(result.frames) and path.suffix.lower() not in (".npz", ".csv"):
        raise InputError(f"save: the result has no frame, so {path.name} would be empty: {result.message}")
    writer(result, path, unit)
    return path


def _write_npz(result: Result, path: Path, unit: str) -> None:
    with replacing(path) as beside, beside.open("wb") as file:
        write_archive(result, file)


def _cells(robot: Robot) -> list[tuple[str, Any]]:
    if len(robot.body_tets):
        return [("tetra", robot.body_tets)]
    return [(name, ids) for name, ids in (("triangle", robot.skin), ("line", robot.edges)) if len(ids)]


def _vtu_mesh(result: Result, i: int) -> Any:
    """Mesh of frame i in metres: points where they are, displacement from rest as a field; quadratic where curved."""
    import meshio

    robot = result.robot
    cells, points = _cells(robot), result.frames[i]
    rest = np.asarray(robot.vertices)
    if result.mid_edge_frames.shape[1]:
        assert isinstance(robot, VolumetricRobot)
        cells, points, rest = [("tetra10", robot.p2_tets)], result.nodes(i), fields.rest_nodes(robot)
    extra = len(points) - result.frames.shape[1]
    point_data = {"displacement": points - rest}
    for name in ("reactions", "contact_forces"):
        value = getattr(result, name)[i]
        if np.isfinite(value).any():
            point_data[name] = np.vstack([value, np.zeros((extra, 3))])
    contact = contact_pressures(result, i)
    if contact is not None:
        edges = robot.p2_edges if extra else np.empty((0, 2), dtype=int)
        point_data["contact_pressure"] = np.concatenate([contact, contact[edges].mean(axis=1)])
    cell_data = {}
    if isinstance(robot, VolumetricRobot):
        cell_data = {"region": [robot.regions[robot.is_body]], "max_stretch": [fields.max_stretch(result, i)]}
    return meshio.Mesh(points, cells, point_data=point_data, cell_data=cell_data)


def _write_vtu(result: Result, path: Path, unit: str, i: int = -1) -> None:
    import meshio

    with replacing(path) as beside:
        meshio.vtu.write(str(beside), _vtu_mesh(result, i), binary=True)


def _write_pvd(result: Result, path: Path, unit: str) -> None:
    lines = [
        '<?xml version="1.0"?>',
        '<VTKFile type="Collection" version="0.1" byte_order="LittleEndian">',
        "<Collection>",
    ]
    for i, time in enumerate(result.times):
        part = path.with_name(f"{path.stem}_{i:04d}.vtu")
        _write_vtu(result, part, unit, i)
        lines.append(f'<DataSet timestep="{float(time)!r}" part="0" file={quoteattr(part.name)}/>')
    with replacing(path) as beside:
        beside.write_text("\n".join([*lines, "</Collection>", "</VTKFile>", ""]), encoding="utf-8")


def _array_xml(name: str, array: Any, kind: str) -> str:
    """One DataArray in base64, preceded by its length in bytes (UInt64)."""
    array = np.ascontiguousarray(array, dtype={"Float64": "<f8", "Int64": "<i8"}[kind])
    width = f' NumberOfComponents="{array.shape[1]}"' if array.ndim == 2 else ""
    text = base64.b64encode(np.uint64(array.nbytes).astype("<u8").tobytes() + array.tobytes()).decode("ascii")
    return f'<DataArray type="{kind}" Name="{name}"{width} format="binary">{text}</DataArray>'


def _write_vtp(result: Result, path: Path, unit: str) -> None:
    """Skin (part 0) and chamber walls (part 1, 2, ...) of the last frame, curved faces split."""
    level = 2 if result.mid_edge_frames.shape[1] else 0
    walls = [None, *getattr(result.robot, "chamber_walls", ())]
    shown = [fields.shown_surface(result, -1, level, faces) for faces in walls if faces is None or len(faces)]
    first = np.cumsum([0, *(len(s.points) for s in shown)])
    triangles = np.vstack([s.triangles + start for s, start in zip(shown, first)])
    part = np.concatenate([np.full(len(s.triangles), number) for number, s in enumerate(shown)])
    points = np.vstack([s.points for s in shown])
    moved = points - np.vstack([s.rest for s in shown])
    body = [
        '<?xml version="1.0"?>',
        '<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
        "<PolyData>",
        f'<Piece NumberOfPoints="{len(points)}" NumberOfVerts="0" NumberOfLines="0" NumberOfStrips="0" '
        f'NumberOfPolys="{len(triangles)}">',
        "<PointData>",
        _array_xml("displacement", moved, "Float64"),
        _array_xml("max_stretch", np.concatenate([s.stretch for s in shown]), "Float64"),
        "</PointData>",
        "<CellData>",
        _array_xml("part", part, "Int64"),
        "</CellData>",
        "<Points>",
        _array_xml("Points", points, "Float64"),
        "</Points>",
        "<Polys>",
        _array_xml("connectivity", triangles.ravel(), "Int64"),
        _array_xml("offsets", 3 * np.arange(1, len(triangles) + 1), "Int64"),
        "</Polys>",
        "</Piece>",
        "</PolyData>",
        "</VTKFile>",
        "",
    ]
    with replacing(path) as beside:
        beside.write_text("\n".join(body), encoding="ascii")


def _write_surface(result: Result, path: Path, unit: str) -> None:
    import trimesh

    shown = fields.shown_surface(result, -1, 2 if result.mid_edge_frames.shape[1] else 0)
    used, triangles = np.unique(shown.triangles, return_inverse=True)
    mesh = trimesh.Trimesh(shown.points[used] / UNITS[unit], triangles.reshape(-1, 3), process=False)
    data: Any = mesh.export(file_type=path.suffix.lower()[1:])
    with replacing(path) as beside:
        beside.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


def summary_header(chambers: int) -> list[str]:
    """Return the columns of summary.csv for a robot with so many chambers."""
    each = [f"{name}_{c}" for c in range(1, chambers + 1) for name in ("volume_ratio", "volume_mm3", "pressure_kpa")]
    return [
        "frame",
        "load",
        "status",
        *each,
        "tip_x_mm",
        "tip_y_mm",
        "tip_z_mm",
        "max_displacement_mm",
        "body_volume_ratio",
        "iterations",
        "seconds",
    ]


def summary_rows(result: Result) -> list[dict[str, Any]]:
    """Return one row a frame, keyed as in `summary_header`; mm, kPa, seconds.

    `status` is what holds for the frame (CROSSED, UNSTABLE, else CONVERGED); in the last row it is the status of the
    whole solve, so that a solve that stopped early shows why.
    """
    effort = _effort(result)
    rows = []
    for i in range(len(result.frames)):
        row: dict[str, Any] = {"frame": i, "load": float(result.times[i]), "status": _frame_status(result, i).name}
        for c in range(result.chamber_volumes.shape[1]):
            row[f"volume_ratio_{c + 1}"] = float(result.volume_ratios[i, c])
            row[f"volume_mm3_{c + 1}"] = float(result.chamber_volumes[i, c]) * 1e9
            row[f"pressure_kpa_{c + 1}"] = float(result.chamber_pressures[i, c]) * 1e-3
        row.update({f"tip_{axis}_mm": float(value) * 1e3 for axis, value in zip("xyz", result.tip[i])})
        row["max_displacement_mm"] = fields.max_displacement(result, i) * 1e3
        row["body_volume_ratio"] = float(result.body_volume_ratio[i])
        row["iterations"], row["seconds"] = effort.get(i, (0, 0.0))
        rows.append(row)
    return rows


def _frame_status(result: Result, i: int) -> Status:
    if i == len(result.frames) - 1:
        return result.status
    if result.crossings[i] > 0:
        return Status.CROSSED
    return Status.UNSTABLE if result.stable[i] == 0 else Status.CONVERGED


def _effort(result: Result) -> dict[int, tuple[int, float]]:
    """Iterations and seconds of every frame, from the trace."""
    total: dict[int, tuple[int, float]] = {}
    for record in result.trace:
        if "frame" in record:
            count, seconds = total.get(int(record["frame"]), (0, 0.0))
            spent = record.get("seconds", 0.0)
            spent = sum(spent.values()) if hasattr(spent, "values") else spent
            total[int(record["frame"])] = (count + ("iteration" in record), seconds + float(spent))
    return total


def write_summary(result: Result, file: Any) -> None:
    """Write the summary table as CSV to an open text file; without a frame, one row holds the status."""
    writer = csv.DictWriter(file, summary_header(result.chamber_volumes.shape[1]), restval="", lineterminator="\n")
    writer.writeheader()
    for row in summary_rows(result) or [{"status": result.status.name}]:
        writer.writerow({key: f"{value:.10g}" if isinstance(value, float) else value for key, value in row.items()})


def _write_csv(result: Result, path: Path, unit: str) -> None:
    text = stdio.StringIO()
    write_summary(result, text)
    with replacing(path) as beside:
        beside.write_text(text.getvalue(), encoding="utf-8", newline="")


_WRITERS: dict[str, Callable[[Result, Path, str], None]] = {
    ".npz": _write_npz,
    ".vtu": _write_vtu,
    ".pvd": _write_pvd,
    ".vtp": _write_vtp,
    ".stl": _write_surface,
    ".obj": _write_surface,
    ".ply": _write_surface,
    ".csv": _write_csv,
}
