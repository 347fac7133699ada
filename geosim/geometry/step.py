"""Solids of STEP files, cut into triangles by Open CASCADE (extra `step`), and files of solids that triangles bound.

One file may hold bodies and chambers: "robot.step#finger" is the solid of that name in it, "robot.step#2" the second one,
"robot.step##ff8000" the one of that colour. A STEP file says its own unit.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.assemblies import ASSEMBLY_SUFFIXES, chosen_part
from geosim.geometry.child import Allowance, run_mesher
from geosim.geometry.widths import thin_width
from geosim.writing import replacing

STEP_SUFFIXES = (".step", ".stp")
NO_NAME = "Open CASCADE STEP translator"  # what Open CASCADE calls solids without a name
WALL_SPACING_REL = 0.02  # of the size of all solids: between the points where walls are measured
MAX_READING_SECONDS = 300.0  # for reading and writing: large assemblies take minutes


def file_part(given: str) -> tuple[str, str]:
    """Split "robot.step#finger" into the file and the solid; the solid is empty where none is named."""
    path, mark, solid = given.partition("#")
    while mark and not path.lower().endswith((*STEP_SUFFIXES, *ASSEMBLY_SUFFIXES)):
        more, mark, solid = solid.partition("#")
        path += f"#{more}"
    return (path, solid) if mark else (given, "")


def read_step(path: Path, solid: str, label: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the surface of a solid in a STEP file.

    Parameters
    ----------
    path
        The file.
    solid
        Its name, its number from 1 on, or its colour like "#ff8000"; empty for the only one.
    label
        Of the surface, for messages.

    Returns
    -------
    vertices, faces
        Positions [m], shape (n, 3), and outward triangles (m, 3).
    name
        Of the solid; "" where the CAD program gave none.

    Raises
    ------
    InputError
        The extra is not installed, the file is damaged, or it holds no such solid.
    """
    step_header, step_footer = b"ISO-10303-21;", b"END-ISO-10303-21;"
    export_advice = "export it again from the CAD program as STEP AP214 or AP242, solids, or as STL (binary, fine, mm)"
    # Of the triangles from the surface: over the size, a tenth of a millimetre on 100 mm, the precision of a mould; over the
    # walls of all solids, a third of what remeshing may move; their largest angle [rad]; and the loss of a volume by them.
    deflection_rel, deflection_walls, deflection_angle_rad, largest_loss = 1e-3, 0.05, 0.35, 0.003
    step_unit_m = 1e-3  # [m]: Open CASCADE converts every unit to millimetres
    text = path.read_bytes()
    if not text.lstrip().startswith(step_header) or step_footer not in text:
        raise InputError(f"{label}: no STEP file, or it ends in the middle; {export_advice}")
    if not can_step():
        raise InputError(
            f"{label}: to read STEP files, pip install 'geosim[step]'; or export the part as STL (binary, fine, mm) in the "
            "CAD program"
        )
    given = dict(engine="Open CASCADE", path=str(path.resolve()), angle=deflection_angle_rad, loss=largest_loss)
    found = _read({**given, "deflection": -deflection_rel}, label, export_advice)
    size = float(np.linalg.norm(np.ptp(found["vertices"], axis=0)))
    coarse = deflection_rel * size  # solids that are no farther apart touch
    deflection = deflection_walls * thin_width(found["vertices"], found["faces"], WALL_SPACING_REL * size, coarse)
    if deflection < coarse:
        found = _read({**given, "deflection": deflection}, label, export_advice)
    names = ["" if name.startswith(NO_NAME) else name for name in map(str, found["names"])]
    colors = [str(color) for color in found["colors"]]
    chosen = chosen_part(names, solid, path, label, colors)
    vertices, faces = shells.compact(found["vertices"] * step_unit_m, found["faces"][found["solid"] == chosen])
    size = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    # faces of the CAD program have vertices of their own along common edges, apart by rounding
    vertices, faces, _ = shells.merge_vertices(vertices, faces, shells.MERGE_TOLERANCE * size)
    return vertices, faces, names[chosen]


def _read(given: dict[str, Any], label: str, advice: str) -> dict[str, np.ndarray]:
    """Return what Open CASCADE makes of a file, in a process of its own."""
    found = run_mesher(given, Allowance.of(MAX_READING_SECONDS), label)
    if isinstance(found, str):
        raise InputError(f"{label}: {found}; {advice}")
    return found


def can_step() -> bool:
    """Whether Open CASCADE is installed."""
    return importlib.util.find_spec("OCP") is not None


def write_step(files: dict[str, Path], path: Path) -> None:
    """Write closed STL files [mm] as solids of one STEP file, by their names.

    Raises
    ------
    InputError
        The extra is not installed, or Open CASCADE cannot make solids of them.
    """
    if not can_step():
        raise InputError(f"{path}: to write STEP files, pip install 'geosim[step]'")
    given: dict[str, Any] = {"names": list(files), "files": [str(file.resolve()) for file in files.values()]}
    with replacing(path) as beside:
        given |= {"engine": "STEP writer", "path": str(beside.resolve())}
        wrong = run_mesher(given, Allowance.of(MAX_READING_SECONDS), str(path))
        if isinstance(wrong, str):
            raise InputError(f"{path}: {wrong}; the STL files are complete")
