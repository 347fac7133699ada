"""Reads and writes meshes with a region per tet: the only file that knows meshio."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError

REGION_KEYS = ("region", "regions", "gmsh:physical", "gmsh:geometrical", "medit:ref")


def read_mesh(path: Path) -> tuple[Floats, Ints, Ints, tuple[str, ...]]:
    """Read a tetrahedral mesh in the unit of its file: vertices (n, 3), tets (m, 4), regions (m,), notices.

    The numbering is kept; of quadratic tets only the corners are used.

    Raises
    ------
    InputError
        It is neither .vtu nor .msh, unreadable, or holds no tets.
    """
    import meshio

    readers = {".vtu": meshio.vtu.read, ".msh": meshio.gmsh.read}
    if path.suffix.lower() not in readers:
        raise InputError(f"mesh = {path.name!r}: use .vtu or .msh with a region per tet, or surface = ...")
    try:
        mesh = readers[path.suffix.lower()](str(path))
    except (
        meshio.ReadError,
        OSError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        AssertionError,
        ElementTree.ParseError,
        zlib.error,
        struct.error,
    ) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"mesh = {path.name!r} cannot be read ({text[:120]}); write it again") from None
    key = next((k for k in REGION_KEYS if k in mesh.cell_data), None)
    tets, regions = [], []
    for i, block in enumerate(mesh.cells):
        if block.type in ("tetra", "tetra10"):
            tets.append(np.asarray(block.data, dtype=np.int64)[:, :4])
            regions.append(np.zeros(len(block.data)) if key is None else np.asarray(mesh.cell_data[key][i]).ravel())
    if not tets:
        kinds = ", ".join(sorted({block.type for block in mesh.cells})) or "nothing"
        raise InputError(f"mesh = {path.name!r} holds no tetrahedra ({kinds}); use surface = ... for a surface")
    notices = () if key is not None else (f"{path.name} has no region per tet; all of it is body",)
    corners = np.vstack(tets)
    vertices = np.asarray(mesh.points, dtype=float)
    if any(block.type == "tetra10" for block in mesh.cells) and len(corners) and corners.min() >= 0:
        vertices = vertices[: corners.max() + 1]  # mid-edge nodes follow the corners
    return vertices, corners, np.concatenate(regions).astype(np.int64), notices


def write_mesh(
    path: Path,
    points: Floats,
    cells: Sequence[tuple[str, Ints]],
    point_data: Mapping[str, Floats],
    cell_data: Mapping[str, Sequence[Floats | Ints]],
) -> None:
    """Write a .vtu in metres: points (p, 3), cells of each kind, fields of the points and of the cells of each kind."""
    import meshio

    mesh = meshio.Mesh(points, list(cells), point_data=dict(point_data), cell_data=dict(cell_data))
    meshio.vtu.write(str(path), mesh, binary=True)
