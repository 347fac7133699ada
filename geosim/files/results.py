"""Results on disk: VTU, PVD, XDMF, VTP, GLB, USD, NPZ, STL, OBJ, PLY and the summary table.

Every file is written beside its place and then renamed, so that a reader never meets half a file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from geosim.arrays import METRES_PER_UNIT, Floats, Ints, choice
from geosim.errors import InputError
from geosim.files.archive import write_archive
from geosim.files.tetmesh import write_series
from geosim.geometry import topology
from geosim.model.display import later
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show import fields
from geosim.show.contact import contact_pressures, obstacle_surfaces
from geosim.show.glb import glb
from geosim.show.summary import summary_header, summary_rows
from geosim.writing import XML, checked_target, replacing, write_vtp, write_vtu

SURFACES = (".stl", ".obj", ".ply")


def save_result(result: Result, path: str | Path, units: str | None = None) -> Path:
    """Write a result; the suffix chooses the format.

    Parameters
    ----------
    result
        What was solved.
    path
        .npz (complete), .vtu and .vtp (last frame), .pvd (all frames, with one VTU each), .xdmf (all frames in one file), .glb
        (the skin, animated), .usda and .usdc (tets, skin and obstacles, all frames) in metres; .stl, .obj and .ply (outer skin of
        the last frame) in `units`; .csv (summary table).
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
    path = checked_target(path, *_WRITERS)
    suffix = path.suffix.lower()
    if units is not None and suffix not in SURFACES:
        raise InputError(f"save: {path.suffix} files are always in metres; units={units!r} goes with .stl, .obj, .ply")
    unit = choice(units or result.robot.units, "save: units", METRES_PER_UNIT)
    if not len(result.frames) and suffix not in (".npz", ".csv"):
        raise InputError(f"save: the result has no frame, so {path.name} would be empty: {result.message}")
    _WRITERS[suffix](result, path, unit)
    return path


def _write_npz(result: Result, path: Path, unit: str) -> None:
    with replacing(path) as beside, beside.open("wb") as file:
        write_archive(result, file)


def _write_vtu(result: Result, path: Path, unit: str, i: int = -1) -> None:
    """Frame i in metres: points where they are, displacement from rest as a field; quadratic where curved."""
    robot = result.robot
    points = result.nodes(i) if _curved(result) else result.frames[i]
    point_data, cell_data = _fields(result, points, i)
    if isinstance(robot, VolumetricRobot):
        cell_data["region"] = [robot.regions[robot.is_body]]
    with replacing(path) as beside:
        write_vtu(beside, points, _cells(result), point_data, cell_data)


def _curved(result: Result) -> bool:
    return bool(result.mid_edge_frames.shape[1] > 0)


def _cells(result: Result) -> list[tuple[str, Ints]]:
    """Tets of a body, else triangles and lines."""
    robot = result.robot
    if isinstance(robot, VolumetricRobot):
        return [("tetra10", robot.p2_tets) if _curved(result) else ("tetra", robot.body_tets)]
    return [(kind, ids) for kind, ids in (("triangle", robot.skin), ("line", robot.edges)) if len(ids)]


def _fields(result: Result, points: Floats, i: int) -> tuple[dict[str, Floats], dict[str, list[Floats | Ints]]]:
    """Fields of frame i at its points, and in its cells."""
    robot = result.robot
    point_data = {"displacement": points - (fields.rest_nodes(robot) if _curved(result) else robot.vertices)}
    for name, value in (("reactions", result.reactions[i]), ("contact_forces", result.contact_forces[i])):
        if np.isfinite(value).any():
            point_data[name] = np.vstack([value, np.zeros((len(points) - len(value), 3))])
    contact = contact_pressures(result, i)
    if contact is not None:
        point_data["contact_pressure"] = topology.with_mid_edges(contact, robot.p2_edges)[: len(points)]
    if not isinstance(robot, VolumetricRobot):
        return point_data, {}
    stress = np.nan_to_num(result.stress(i))  # points of no body carry none
    point_data["von_mises"] = topology.with_mid_edges(stress, robot.p2_edges)[: len(points)]
    return point_data, {"max_stretch": [fields.max_stretch(result, i)]}


def _write_xdmf(result: Result, path: Path, unit: str) -> None:
    """All frames in one file: the mesh at rest once, and the fields of every frame, among them its displacement."""
    curved = _curved(result)
    steps = []
    for i, time in enumerate(result.times):
        steps.append((float(time), *_fields(result, result.nodes(i) if curved else result.frames[i], i)))
    rest = fields.rest_nodes(result.robot) if curved else result.robot.vertices
    with replacing(path) as beside:
        write_series(beside, rest, _cells(result), steps)


def _write_glb(result: Result, path: Path, unit: str) -> None:
    with replacing(path) as beside:
        beside.write_bytes(glb(result, 1 if _curved(result) else 0))


def _write_pvd(result: Result, path: Path, unit: str) -> None:
    """All frames in metres: the robot, a file each, and obstacles that move or are free where they are, as part 1."""
    lines = []
    moves = any(o.free or o.motion is not None for o in result.environment.obstacles)
    for i, time in enumerate(result.times):
        parts = [path.with_name(f"{path.stem}_{i:04d}.vtu")]
        _write_vtu(result, parts[0], unit, i)
        if moves and (around := obstacle_surfaces(result, i, result.frames[i])):
            parts.append(path.with_name(f"{path.stem}_obstacles_{i:04d}.vtp"))
            first = np.cumsum([0, *(len(points) for points, _ in around)])
            faces = np.vstack([triangles + start for (_, triangles), start in zip(around, first)])
            write_vtp(parts[1], np.vstack([points for points, _ in around]), faces, {})
        for number, part in enumerate(parts):
            lines.append(f'<DataSet timestep="{float(time)!r}" part="{number}" file={quoteattr(part.name)}/>\n')
    text = f"{XML.format(kind='Collection')}<Collection>\n{''.join(lines)}</Collection>\n</VTKFile>\n"
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _write_vtp(result: Result, path: Path, unit: str) -> None:
    """Skin (part 0) and chamber walls (part 1, 2, ...) of the last frame, curved faces split."""
    level = 2 if result.mid_edge_frames.shape[1] else 0
    walls = result.robot.chamber_walls if isinstance(result.robot, VolumetricRobot) else ()
    shown = [fields.shown_surface(result, -1, level, faces) for faces in (None, *walls) if faces is None or len(faces)]
    first = np.cumsum([0, *(len(s.points) for s in shown)])
    points = np.vstack([s.points for s in shown])
    write_vtp(
        path,
        points,
        np.vstack([s.triangles + start for s, start in zip(shown, first)]),
        {
            "displacement": points - np.vstack([s.rest for s in shown]),
            "max_stretch": np.concatenate([s.stretch for s in shown]),
            "von_mises": np.concatenate([s.stress for s in shown]),
        },
        {"part": np.repeat(np.arange(len(shown)), [len(s.triangles) for s in shown])},
    )


def _write_surface(result: Result, path: Path, unit: str) -> None:
    import trimesh  # slow to import, and most formats need none of it

    shown = fields.shown_surface(result, -1, 2 if result.mid_edge_frames.shape[1] else 0)
    used, triangles = np.unique(shown.triangles, return_inverse=True)
    mesh = trimesh.Trimesh(shown.points[used] / METRES_PER_UNIT[unit], triangles.reshape(-1, 3), process=False)
    data: Any = mesh.export(file_type=path.suffix.lower()[1:])
    with replacing(path) as beside:
        beside.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


def _write_csv(result: Result, path: Path, unit: str) -> None:
    """The summary table; without a frame, one row holds the status. What `trust` says ends the last row, in a last column."""
    text, said = io.StringIO(), " ".join(result.trust())
    header = [*summary_header(result), *(["trust"] if said else [])]
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    rows: list[dict[str, Any]] = [*summary_rows(result)] or [{"status": result.status.name}]
    rows[-1] |= {"trust": said} if said else {}
    for row in rows:
        writer.writerow({key: f"{value:.10g}" if isinstance(value, float) else value for key, value in row.items()})
    with replacing(path) as beside:
        beside.write_text(text.getvalue(), encoding="utf-8", newline="")


def _write_usd(result: Result, path: Path, unit: str) -> None:
    later("files.usd.write_usd")(result, path, unit)


_WRITERS: dict[str, Callable[[Result, Path, str], None]] = {
    ".npz": _write_npz,
    ".vtu": _write_vtu,
    ".pvd": _write_pvd,
    ".xdmf": _write_xdmf,
    ".vtp": _write_vtp,
    ".glb": _write_glb,
    **dict.fromkeys(SURFACES, _write_surface),
    ".csv": _write_csv,
    **dict.fromkeys((".usd", ".usda", ".usdc"), _write_usd),
}
