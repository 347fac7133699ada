"""Reads and writes meshes with a region per tet: the only file that knows meshio."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.files.abaqus import has_parts, read_abaqus
from geosim.resources import DAMAGE


def read_mesh(path: Path) -> tuple[Floats, Ints, Ints, tuple[str, ...]]:
    """Read a tetrahedral mesh in the unit of its file: vertices (n, 3), tets (m, 4), regions (m,), notices.

    The numbering is kept; of quadratic tets only the corners are used. Regions are a number per tet, or, in an INP file, the
    sets of elements in the order of their names (in one with an assembly its solid sections), from 0 on. A notice says which
    is which.

    Raises
    ------
    InputError
        It is neither .vtu, .vtk, .msh nor .inp, unreadable, or holds no tets; or a region is no whole number.
    """
    import meshio

    if path.suffix.lower() == ".inp" and path.is_file() and has_parts(path):
        model = read_abaqus(path)
        named = ", ".join(f"{i} = {one}" for i, one in enumerate(model.sections))
        return model.vertices, model.tets, model.regions, (f"{path.name}: regions {named}",) if named else ()
    readers = {".vtu": meshio.vtu.read, ".vtk": meshio.vtk.read, ".msh": meshio.gmsh.read, ".inp": meshio.abaqus.read}
    if path.suffix.lower() not in readers:
        raise InputError(f"mesh = {path.name!r}: use .vtu, .vtk, .msh or .inp with a region per tet, or surface = ...")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # what meshio warns of is refused below, or harmless
            mesh = readers[path.suffix.lower()](str(path))
    except (meshio.ReadError, AssertionError, *DAMAGE) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"mesh = {path.name!r} cannot be read ({text[:120]}); write it again") from None
    key, data, notices = _regions(mesh, path.name)
    tets, regions = [], []
    for i, block in enumerate(mesh.cells):
        if block.type in ("tetra", "tetra10"):
            tets.append(np.asarray(block.data, dtype=np.int64)[:, :4])
            regions.append(np.ravel(data[i]))
    if not tets:
        kinds = ", ".join(sorted({block.type for block in mesh.cells})) or "nothing"
        raise InputError(f"mesh = {path.name!r} holds no tetrahedra ({kinds}); use surface = ... for a surface")
    region = np.concatenate(regions)
    if not np.array_equal(region, np.rint(region)):
        bad = int(np.flatnonzero(region != np.rint(region))[0])
        raise InputError(
            f"mesh = {path.name!r}: the region of tet {bad} is {region[bad]:g}; write whole numbers into {key!r}"
        )
    corners = np.vstack(tets)
    vertices = np.asarray(mesh.points, dtype=float)
    if any(block.type == "tetra10" for block in mesh.cells) and len(corners) and corners.min() >= 0:
        vertices = vertices[: corners.max() + 1]  # mid-edge nodes follow the corners
    return vertices, corners, region.astype(np.int64), notices


def _regions(mesh: Any, name: str) -> tuple[str, Sequence[Floats], tuple[str, ...]]:
    """The key of the regions, the region of every cell of every block, and a notice where they have no numbers."""
    region_keys = (
        "region",
        "regions",
        "gmsh:physical",
        "gmsh:geometrical",
        "medit:ref",
        "CellEntityIds",
        "MaterialIds",
        "material",
    )
    key = next((k for k in region_keys if k in mesh.cell_data), None)
    if key is not None:
        return key, mesh.cell_data[key], ()
    if None in mesh.cell_sets:
        raise InputError(f"mesh = {name!r}: a set of elements has no name; write *Elset, elset=NAME")
    data = [np.zeros(len(block.data)) for block in mesh.cells]
    count = {
        one: sum(len(ids) for ids, block in zip(where, mesh.cells) if block.type.startswith("tetra"))
        for one, where in mesh.cell_sets.items()
        if ":" not in one  # meshio's own
    }
    sets = sorted(one for one in count if count[one])
    for one in sorted(sets, key=count.__getitem__, reverse=True):  # of sets within sets the smallest counts
        for values, ids in zip(data, mesh.cell_sets[one]):
            values[np.asarray(ids, dtype=np.int64)] = sets.index(one)
    if sets:
        return "", data, (f"{name}: regions " + ", ".join(f"{i} = {one}" for i, one in enumerate(sets)),)
    return "", data, (f"{name} has no region per tet; all of it is body",)


def write_series(
    path: Path,
    points: Floats,
    cells: Sequence[tuple[str, Ints]],
    steps: Sequence[tuple[float, Mapping[str, Floats], Mapping[str, Sequence[Floats | Ints]]]],
) -> None:
    """Write an .xdmf in metres: one mesh, and the fields of points and cells at every time."""
    import meshio

    # numbers as text: the other formats of XDMF put them into files beside it
    with meshio.xdmf.TimeSeriesWriter(str(path), data_format="XML") as writer:
        writer.write_points_cells(points, list(cells))
        for time, point_data, cell_data in steps:
            writer.write_data(time, point_data=dict(point_data), cell_data={k: list(v) for k, v in cell_data.items()})
