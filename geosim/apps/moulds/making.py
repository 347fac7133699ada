"""`geosim.make`: everything that a laboratory prints and pours for a robot, as files, a table, a picture and a page.

Printers get STL and 3MF, in millimetres.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import trimesh
from trimesh.exchange.stl import export_stl

from geosim.apps.moulds.body import Inlet, Walls, inlets, walls
from geosim.apps.moulds.moulds import Part, moulds
from geosim.apps.moulds.page import write_page, write_picture
from geosim.apps.moulds.solids import arrays, of_robot, place_mm, united, whole
from geosim.arguments import guarded
from geosim.arrays import number
from geosim.errors import InputError
from geosim.geometry.step import can_step, write_step
from geosim.model.display import later
from geosim.model.robot import VolumetricRobot
from geosim.writing import replacing, write_whole

TUBE = 3e-3  # outer diameter [m] of common silicone tube
LEAST_WALL = 0.8e-3  # [m]: two lines of a nozzle of 0.4 mm; silicone of thinner walls tears when it leaves the mould
COLUMNS = ("part", "kind", "file", "volume_cm3", "mass_g", "x_mm", "y_mm", "z_mm", "note")


@guarded
@dataclass(frozen=True)
class Made:
    """What was made of a robot.

    `parts`: the body to print first, then moulds, cores and casts; `inlets`: one a chamber; `walls`: thickness map of the body;
    `cavity_error`: relative difference of the cut body's volume, before inlets, from that of the robot that is solved; `notices`:
    what to know, one line each; `folder`: where the files are.
    """

    parts: tuple[Part, ...]
    inlets: tuple[Inlet, ...]
    walls: Walls
    cavity_error: float
    notices: tuple[str, ...]
    folder: Path

    def part(self, name: str) -> Part:
        """The part of a name."""
        named = {part.name: part for part in self.parts}
        if name not in named:
            raise InputError(f"part {name!r}: there is none; there are {', '.join(named)}")
        return named[name]


@guarded
def make(
    robot: VolumetricRobot | str | Path,
    out: str | Path,
    tube: float = TUBE,
    least_wall: float = LEAST_WALL,
    *,
    step: bool | None = None,
) -> Made:
    """Write what a robot is printed or cast with.

    Parameters
    ----------
    robot
        A volumetric robot, or the path of its robot file.
    out
        Folder, made if it does not exist: an STL [mm] for every part, `parts.3mf` with all to print, `parts.csv`, `parts.png`,
        `walls.png`, `index.html`; `parts.step` [mm].
    tube
        Outer diameter [m] of the tubes that feed the chambers.
    least_wall
        Wall [m] below which a notice says where it is thinner.
    step
        Whether `parts.step` is written; default where the extra `step` is installed.

    Returns
    -------
    Made

    Raises
    ------
    InputError
        The robot has no volume to make, or a length is not positive.
    """
    tube, least_wall = number(tube, "tube [m]", above=0.0), number(least_wall, "least_wall [m]", above=0.0)
    found: Any = later("files.robot.load_problem")(robot)[0] if isinstance(robot, (str, Path)) else robot
    if not isinstance(found, VolumetricRobot):
        raise InputError(f"{type(found).__name__}: only volumetric robots are made of parts; give one with a body")
    robot = found
    skin, chambers = of_robot(robot)
    body = skin - united(chambers) if chambers else skin
    wanted = robot.body_volume
    error = body.volume() / wanted - 1.0
    held = robot.vertices[robot.fixed] if len(robot.fixed) else robot.vertices
    bores = inlets(skin, chambers, np.array([held.min(axis=0), held.max(axis=0)]), tube)
    opened = body - united([b.bore for b in bores]) if bores else body
    parts = (Part("body", "print", whole(opened), "printed in one piece, with inlets"), *moulds(skin, chambers, bores))
    thickness = walls(body)
    notices = _notices(robot, bores, thickness, parts, tube, least_wall)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    made = Made(parts, tuple(bores), thickness, float(error), notices, folder)
    for part in parts:
        write_stl(part.solid, folder / f"{part.name}.stl")
    printed = {p.name: p.solid for p in parts if p.kind != "cast"}
    write_3mf(printed, folder / "parts.3mf")
    if can_step() if step is None else step:
        write_step({name: folder / f"{name}.stl" for name in printed}, folder / "parts.step")
    rows = _table(made, robot.mass / wanted)
    with (folder / "parts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    write_picture(made.parts, thickness, folder, robot.fibres)
    write_page(robot.name, rows, notices, folder)
    return made


def _table(made: Made, density: float) -> list[dict[str, Any]]:
    """Rows of parts.csv; the mass is that of the silicone, of parts that are cast or printed as the body."""
    rows = []
    for part in made.parts:
        mass = f"{part.volume * density * 1e3:.4g}" if part.kind == "cast" or part.name == "body" else ""
        sizes = (f"{edge:.4g}" for edge in part.size * 1e3)
        cells = (part.name, part.kind, f"{part.name}.stl", f"{part.volume * 1e6:.4g}", mass, *sizes, part.note)
        rows.append(dict(zip(COLUMNS, cells)))
    return rows


def _notices(
    robot: VolumetricRobot, bores: list[Inlet], thickness: Walls, parts: tuple[Part, ...], tube: float, least: float
) -> tuple[str, ...]:
    """What to know before printing."""
    said = []
    for k, bore in enumerate(bores):
        narrow = f", not the {tube * 1e3:.3g} mm of the tube: the chamber is too narrow" if bore.diameter < tube else ""
        where = "" if bore.is_held else "; no held face is in reach"
        said.append(
            f"inlet {k + 1}: {bore.diameter * 1e3:.3g} mm wide{narrow}, comes out at {place_mm(bore.end)}{where}"
        )
    thin, at = thickness.least
    verdict = f"thinner than {least * 1e3:.3g} mm: thicken it" if thin < least else f"above {least * 1e3:.3g} mm"
    said.append(f"walls: the thinnest is {thin * 1e3:.3g} mm near {place_mm(at)}, {verdict}")
    said += [f"{p.name}: {p.note}" for p in parts if not p.leaves]
    longest = max(parts, key=lambda part: part.slides)
    if longest.slides > 0.0:
        said.append(
            f"draft: none on walls up to {longest.slides * 1e3:.3g} mm along the way of {longest.name}; coat moulds and cores "
            "with a release agent"
        )
    if robot.layers or robot.fibres:
        said.append(
            f"{len(robot.layers)} layers and {len(robot.fibres)} fibres are laid in by hand before the last pour"
        )
    return tuple(said)


MM = 1e3  # a metre in the unit of the files


def write_stl(solid: Any, path: Path) -> None:
    """Write a binary STL file [mm]."""
    # of the largest coordinate, with room for rounding of both ends
    single_precision = 4.0 * float(np.finfo(np.float32).eps)
    # the file has single precision: edges that would be of no length there are collapsed
    vertices, faces = arrays(solid.simplify(single_precision * float(np.abs(solid.bounding_box()).max())))
    write_whole(path, export_stl(trimesh.Trimesh(vertices * MM, faces, process=False)))


def write_3mf(solids: Mapping[str, Any], path: Path) -> None:
    """Write solids with their names as objects of one 3MF file (core specification 1.3)."""
    core = "http://schemas.microsoft.com/3dmanufacturing/core/2015/02"
    types = (
        '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="model" ContentType="application/vnd.ms-package.3dmanufacturing-3dmodel+xml"/></Types>'
    )
    relations = (
        '<?xml version="1.0" encoding="UTF-8"?><Relationships '
        'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Target="/3D/3dmodel.model" Id="rel0" '
        'Type="http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel"/></Relationships>'
    )
    objects, items = [], []
    for k, (name, solid) in enumerate(solids.items()):
        vertices, faces = arrays(solid)
        points = "".join(f'<vertex x="{x:.9g}" y="{y:.9g}" z="{z:.9g}"/>' for x, y, z in vertices * MM)
        triangles = "".join(f'<triangle v1="{a}" v2="{b}" v3="{c}"/>' for a, b, c in faces)
        objects.append(
            f'<object id="{k + 1}" type="model" name={quoteattr(name)}><mesh><vertices>{points}</vertices>'
            f"<triangles>{triangles}</triangles></mesh></object>"
        )
        items.append(f'<item objectid="{k + 1}"/>')
    model = (
        f'<?xml version="1.0" encoding="UTF-8"?><model unit="millimeter" xml:lang="en-US" xmlns="{core}">'
        f"<resources>{''.join(objects)}</resources><build>{''.join(items)}</build></model>"
    )
    with replacing(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in (("[Content_Types].xml", types), ("_rels/.rels", relations), ("3D/3dmodel.model", model)):
            file.writestr(name, text)
