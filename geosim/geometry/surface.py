"""Closed triangle surfaces: reading files, and the type that every check and mesher works on."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import METRES_PER_UNIT
from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.assemblies import ASSEMBLY_SUFFIXES, read_assembly
from geosim.geometry.holes import place
from geosim.geometry.intersections import crossing_pairs
from geosim.geometry.step import STEP_SUFFIXES, file_part, read_step
from geosim.geometry.topology import face_normals, linked
from geosim.resources import DAMAGE, readable

# metres per unit
SURFACE_SUFFIXES = (".stl", ".obj", ".ply", ".off")
CAD_SUFFIXES = (
    ".iges",
    ".igs",
    ".f3d",
    ".f3z",
    ".sldprt",
    ".sldasm",
    ".ipt",
    ".iam",
    ".x_t",
    ".x_b",
    ".prt",
    ".catpart",
    ".par",
    ".3dm",
    ".fcstd",
    ".brep",
    ".sat",
    ".dwg",
    ".dxf",
    ".scad",
    ".blend",
)
# Sizes that are almost always a wrong unit: a 100 mm robot read as metres, or as micrometres [m].
MIN_PLAUSIBLE_SIZE_M, MAX_PLAUSIBLE_SIZE_M = 1e-3, 5.0
# Lengths relative to the bounding-box diagonal.
SLIVER_TOLERANCE = 1e-6
TOUCH_TOLERANCE = 1e-9


class PartsError(InputError):
    """A surface of hundreds of parts: no repair makes it one."""


@dataclass(frozen=True)
class Surface:
    """A triangle surface.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    faces
        Vertex ids, shape (m, 3).
    notices
        One line for everything that was repaired.
    name
        What the surface is, for messages: "body", "chamber 1".
    source
        File it came from, "" if none.
    units
        Unit of the numbers it was given in, a key of `METRES_PER_UNIT`.
    part
        Name of the part of an assembly that it is, "" for none.

    Raises
    ------
    InputError
        If the arrays are empty, have a wrong shape, hold nan, or point outside each other.
    """

    vertices: np.ndarray
    faces: np.ndarray
    notices: tuple[str, ...] = ()
    name: str = "body"
    source: str = ""
    units: str = "m"
    part: str = ""

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=np.float64, order="C")
        faces = np.array(self.faces, dtype=np.int64, order="C")
        if vertices.size == 0 or faces.size == 0:
            raise InputError(f"{self.label}: the surface is empty (no triangles); export it again from the CAD program")
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
            raise InputError(
                f"{self.label}: need vertices (n, 3) and triangles (m, 3), got {vertices.shape} and "
                f"{faces.shape}; triangulate the surface"
            )
        bad = int(np.sum(~np.isfinite(vertices).all(axis=1)))
        if bad:
            raise InputError(f"{self.label}: {bad} vertices have nan or infinite coordinates; export the surface again")
        if faces.min() < 0 or faces.max() >= len(vertices):
            bad = faces[(faces < 0) | (faces >= len(vertices))][0]
            raise InputError(
                f"{self.label}: a triangle names vertex {int(bad)} of {len(vertices)}; the "
                "file is damaged, export it again"
            )
        vertices.flags.writeable = False
        faces.flags.writeable = False
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)

    @property
    def label(self) -> str:
        """Name and file, as messages write it."""
        return f"{self.name} surface" + (f" ({self.source})" if self.source else "")

    @property
    def diagonal(self) -> float:
        """Diagonal of the bounding box of the triangles [m]."""
        used = self.vertices[self.faces.ravel()]
        return float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))

    @property
    def volume(self) -> float:
        """Enclosed volume [m^3], positive for outward triangles; meaningful if the surface is closed."""
        return shells.signed_volume(self.vertices, self.faces)


def read_surface(surface: Any, units: str | None = None, name: str = "body") -> Surface:
    """Read a triangle surface in metres.

    Parameters
    ----------
    surface
        Path of an STL, OBJ, PLY, OFF, STEP, 3MF or GLB file ("robot.step#finger" is a solid of it), a `trimesh.Trimesh`, or a
        `Surface` (returned as it is).
    units
        "m", "mm", "cm" or "in": of the file (required; STEP, 3MF and GLB files say it themselves), or of the Trimesh (metres if
        None).
    name
        What the surface is, for messages: "body", "chamber 1".

    Returns
    -------
    Surface
        Positions in metres, unchecked; see `check_surface`.

    Raises
    ------
    InputError
        If the file is missing, empty, unreadable, of a kind that holds no triangles, or holds nan; or if the unit
        is missing or unknown.
    """
    if isinstance(surface, Surface):
        return surface
    if units is not None and not (isinstance(units, str) and units in METRES_PER_UNIT):
        raise InputError(
            f"{name} surface: units = {units!r} is unknown; choose one of {', '.join(map(repr, METRES_PER_UNIT))}"
        )
    if isinstance(surface, (str, os.PathLike)):
        name_of, solid = file_part(os.fspath(surface))
        path = Path(name_of)
        if path.suffix.lower() in (*STEP_SUFFIXES, *ASSEMBLY_SUFFIXES):
            label = f"{name} surface ({surface})"
            _check_file(path, label)
            read = read_step if path.suffix.lower() in STEP_SUFFIXES else read_assembly
            vertices, faces, part = read(path, solid, label)
            return Surface(vertices, faces, name=name, source=str(surface), part=part)
        if units is None:
            raise InputError(
                f"{name} surface ({path}): the file does not say its unit; give units='mm' (or 'm', 'cm', 'in')"
            )
        vertices, faces = _read_file(path, f"{name} surface ({path})")
        return Surface(vertices * METRES_PER_UNIT[units], faces, name=name, source=str(path), units=units)
    if not (hasattr(surface, "vertices") and hasattr(surface, "faces")):
        raise InputError(f"{name} surface: need a path or a trimesh.Trimesh, got {type(surface).__name__}")
    scale = METRES_PER_UNIT[units or "m"]
    return Surface(
        np.asarray(surface.vertices, dtype=np.float64) * scale, np.asarray(surface.faces), name=name, units=units or "m"
    )


def _read_file(path: Path, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Vertices in the file's unit and triangles, or one line that says what is wrong with the file."""
    suffix = path.suffix.lower()
    if suffix in CAD_SUFFIXES:
        raise InputError(
            f"{label}: {suffix[1:].upper()} is a CAD format without triangles; export the part as STL "
            "(File > Export or Save as > STL, binary, fine resolution, mm)"
        )
    if suffix not in SURFACE_SUFFIXES:
        raise InputError(
            f"{label}: unknown suffix {suffix!r}; give {', '.join(s[1:].upper() for s in SURFACE_SUFFIXES)}"
        )
    _check_file(path, label)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{label}: cannot be read ({error.strerror}); check its permissions") from error
    if not data.strip():
        raise InputError(f"{label}: the file is empty; export it again")
    return _parse_stl(data, label) if suffix == ".stl" else _parse_other(path, label)


def _check_file(path: Path, label: str) -> None:
    try:
        readable(path)
    except InputError as error:
        raise InputError(f"{label}: {error}") from None
    if path.is_dir():
        raise InputError(f"{label}: is a folder; give the file inside it")
    if not path.is_file():
        raise InputError(f"{label}: no such file; check the path (relative paths start at {Path.cwd()})")


def _parse_stl(data: bytes, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of an STL file. STL repeats the corners of every triangle: equal corners become one vertex."""
    count = struct.unpack("<I", data[80:84])[0] if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
        corners = np.frombuffer(data, record, count, 84)["corners"].reshape(-1, 3).astype(np.float64)
    elif data.lstrip()[:5].lower() == b"solid":
        corners = _parse_ascii_stl(data, label)
    else:
        holds = max(len(data) - 84, 0) // 50
        raise InputError(
            f"{label}: not a complete STL file (the header promises {max(count, 0)} triangles, the file "
            f"holds {holds}; it may be of another kind); export or copy it again"
        )
    if len(corners) == 0:
        raise InputError(f"{label}: the file holds no triangles; export it again")
    if not np.isfinite(corners).all():
        bad = int(np.sum(~np.isfinite(corners).all(axis=1)))
        raise InputError(f"{label}: {bad} vertices have nan or infinite coordinates; export the surface again")
    vertices, ids = np.unique(corners, axis=0, return_inverse=True)
    return vertices, ids.reshape(-1, 3)


def _parse_ascii_stl(data: bytes, label: str) -> np.ndarray:
    words = data.split()
    numbers = [words[i + 1 : i + 4] for i, word in enumerate(words) if word == b"vertex" or word == b"VERTEX"]
    try:
        corners = np.array(numbers, dtype=np.float64).reshape(-1, 3)
    except ValueError as error:
        raise InputError(f"{label}: an ASCII STL with a vertex that is not three numbers; export it again") from error
    if len(corners) % 3 or data.lower().count(b"endsolid") == 0:
        raise InputError(f"{label}: the ASCII STL ends in the middle ({len(corners)} corners); export or copy it again")
    return corners


def _parse_other(path: Path, label: str) -> tuple[np.ndarray, np.ndarray]:
    import trimesh  # slow to import, and an STL needs none of it

    try:
        data = path.read_bytes()  # without the path no texture is looked for, and no library guesses an encoding
        stream = io.StringIO(data.decode(errors="replace")) if path.suffix.lower() == ".obj" else io.BytesIO(data)
        with np.errstate(invalid="ignore"):  # of ids that no integer holds: they are refused as such
            mesh = trimesh.load(
                stream, file_type=path.suffix[1:].lower(), force="mesh", process=False, skip_materials=True
            )
    except (AssertionError, NameError, *DAMAGE) as error:  # NameError: of a reader that forgot a case
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{label}: cannot be read as {path.suffix[1:].upper()} ({reason}); export it again") from error
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise InputError(f"{label}: the file holds no triangles; export a triangle mesh")
    return np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces)


def check_surface(
    surface: Any, *, units: str | None = None, name: str = "body", allow_any_size: bool = False
) -> Surface:
    """Return a closed, outward-oriented surface without defects, or say what is wrong.

    Repaired, each with a notice: duplicate vertices, duplicate and sliver triangles, mixed or flipped orientation
    (shells nested in others point into the cavity that they enclose). Everything else is refused.

    Parameters
    ----------
    surface
        A `Surface`, or what `read_surface` takes together with `units` and `name`.
    units
        Unit of a path or a Trimesh, see `read_surface`.
    name
        What the surface is, for messages.
    allow_any_size
        Accept a bounding-box diagonal under 1 mm or over 5 m.

    Returns
    -------
    Surface
        Every edge has two triangles of opposite sense, no two triangles cross.

    Raises
    ------
    InputError
        If the surface is of suspicious size, open, non-manifold, one-sided, self-intersecting, or holds slivers
        that cannot be removed.
    """
    surface = read_surface(surface, units, name)
    check_size(surface, allow_any_size)
    return _repaired(surface)


def _repaired(surface: Surface) -> Surface:
    """Repair and check a surface of sound size."""
    diagonal, notices = surface.diagonal, list(surface.notices)
    vertices, faces, merged = shells.merge_vertices(surface.vertices, surface.faces, shells.MERGE_TOLERANCE * diagonal)
    if merged:
        notices.append(f"{surface.label}: {merged} duplicate vertices merged")
    faces, removed = shells.drop_degenerate(faces)
    vertices, faces = shells.compact(vertices, faces)
    if len(faces) < 4:
        raise InputError(f"{surface.label}: the {len(surface.faces)} triangles enclose nothing; export a closed solid")
    _refuse_open(surface.label, vertices, faces)
    _refuse_dust(surface.label, vertices, faces)
    faces, flipped, stuck = shells.flip_slivers(vertices, faces, SLIVER_TOLERANCE * diagonal)
    if stuck:
        raise InputError(
            f"{surface.label}: {stuck} sliver triangles (zero area) cannot be removed; clean the mesh "
            "(MeshLab: Remove Zero Area Faces, Merge Close Vertices) or export it again"
        )
    if removed + flipped:
        kind = "sliver or duplicate triangles" if removed else "sliver triangles (zero area)"
        notices.append(f"{surface.label}: {removed + flipped} {kind} removed")
    faces, turned = shells.orient(vertices, faces)
    if turned < 0:
        raise InputError(f"{surface.label}: the surface is one-sided (no consistent inside); export a closed solid")
    if turned:
        notices.append(f"{surface.label}: orientation of {turned} of {len(faces)} triangles flipped outward")
    pairs = crossing_pairs(vertices, faces, tolerance=TOUCH_TOLERANCE * diagonal)
    if len(pairs):
        raise InputError(
            f"{surface.label}: self-intersecting, {len(pairs)} pairs of triangles cross, e.g. near "
            f"{place(vertices[faces[pairs[0, 0]]].mean(axis=0))}; unite overlapping parts in the CAD program (Boolean union) "
            "and export again"
        )
    return replace(surface, vertices=vertices, faces=faces, notices=tuple(notices))


def check_size(surface: Surface, allow_any_size: bool) -> None:
    """Refuse a surface that is a point, or so small or large that its unit is another one; the message names it."""
    diagonal = surface.diagonal
    if diagonal == 0:
        raise InputError(f"{surface.label}: all vertices are one point; export it again")
    if allow_any_size or MIN_PLAUSIBLE_SIZE_M <= diagonal <= MAX_PLAUSIBLE_SIZE_M:
        return
    raise InputError(
        f"{surface.label}: suspicious size, the bounding box has a diagonal of {diagonal:.4g} m (usual: "
        f"1 mm to 5 m); {_fitting_units(diagonal / METRES_PER_UNIT[surface.units])}, or set allow_any_size = true"
    )


def _fitting_units(size: float) -> str:
    """Say which units make a size in the file's unit that of a robot, the likeliest first."""
    usual_size_m = 0.1  # of soft robots
    fitting = [u for u in METRES_PER_UNIT if MIN_PLAUSIBLE_SIZE_M <= size * METRES_PER_UNIT[u] <= MAX_PLAUSIBLE_SIZE_M]
    if not fitting:
        return f"no unit of {', '.join(METRES_PER_UNIT)} fits a size of {size:.4g}; scale the surface"
    fitting.sort(key=lambda u: abs(np.log(size * METRES_PER_UNIT[u] / usual_size_m)))
    many = [f"units = {u!r} ({size * METRES_PER_UNIT[u] * 1e3:.4g} mm)" for u in fitting]
    return f"check the unit: {many[0]} fits" + (f", so does {', '.join(many[1:])}" if many[1:] else "")


def _refuse_dust(label: str, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Refuse surfaces of hundreds of parts, which no robot is."""
    max_shells = 500
    shell = shells.shell_ids(faces)
    count = int(shell.max()) + 1
    if count > max_shells:
        used = [vertices[faces[shell == k].ravel()] for k in range(max_shells)]
        sizes = [float(np.linalg.norm(np.ptp(points, axis=0))) for points in used]
        least = int(np.argmin(sizes))
        raise PartsError(
            f"{label}: is {count} separate closed parts, e.g. one of {1e3 * sizes[least]:.2g} mm near "
            f"{place(used[least].mean(axis=0))}, and {max_shells} are too many; remove the small ones in the CAD program"
        )


def _refuse_open(label: str, vertices: np.ndarray, faces: np.ndarray) -> None:
    """Refuse edges with other than two triangles, with the widest opening and its place."""
    sheet_share = 0.7  # of the area, as a vector: half a ball has 0.5, a flat sheet 1
    directed, ids, _ = shells.edges(faces)
    count = np.bincount(ids)
    rim = directed[count[ids] == 1]
    if len(rim):
        part = linked(rim[:, 0], rim[:, 1], len(vertices))[rim[:, 0]]
        openings = [vertices[np.unique(rim[part == k])] for k in np.unique(part)]
        sizes = [float(np.linalg.norm(np.ptp(points, axis=0))) for points in openings]
        widest = int(np.argmax(sizes))
        what = f"the widest opening is {1e3 * sizes[widest]:.3g} mm across near {place(openings[widest].mean(axis=0))}"
        normals = face_normals(vertices, faces)
        is_sheet = np.linalg.norm(normals.sum(axis=0)) > sheet_share * np.linalg.norm(normals, axis=1).sum()
        advice = "close the holes (MeshLab: Close Holes) or"
        advice = "it is a sheet, no solid: thicken it in the CAD program and" if is_sheet else advice
        raise InputError(
            f"{label}: open, {len(rim)} edges have a triangle on one side only (not watertight); {what}; {advice} "
            "export a solid body"
        )
    crowded = directed[count[ids] > 2]
    if len(crowded):
        raise InputError(
            f"{label}: non-manifold, {int(np.sum(count > 2))} edges have more than two triangles (parts share an edge or a "
            f"wall, e.g. near {place(vertices[crowded[0]].mean(axis=0))}); unite the parts in CAD and export again"
        )
