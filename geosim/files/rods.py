"""Robots of rods and shells from a robot.toml.

::

    kind = "rod-shell"
    units = "mm"
    geometry = "robot.txt"             # *Nodes, *Edges, *Triangles; or [[limbs]] with start, end, nodes
    planar = "xz"
    [rod]
    radius = 5.0                       # or one value an edge
    material = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5, density = 1000.0 }
    section = { width = 20.0, height = 1.0 }     # or { outer = 5.0, inner = 4.0 }; default a disc
    [[cables]]
    points = [[5, 0, 8], [100, 0, 8], [200, 0, 8]]     # tendons through guides at the sections of the nearest rods
    friction = 0.2
    [shell]
    thickness = 1.0
    material = "..."
    bending = "mid-edge"               # the default, or "hinge"
    [fixed]
    ids = [0, 1]
    edges = [0]                        # theta of these edges; the rest of [fixed] selects vertices
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import METRES_PER_UNIT, Floats
from geosim.files.messages import Place
from geosim.files.schema import LimbTable, RodShellFile, RodTable, SectionTable
from geosim.files.values import inside, read_cables, read_material, read_selection, validated, vector
from geosim.generate import make
from geosim.rods.files import read_geometry
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section


def read_robot(table: dict[str, Any], place: Place) -> RodShellRobot:
    """Return the robot of the tables of a robot.toml, which stand at `place`.

    Raises
    ------
    InputError
        A key is unknown or missing, or a value impossible; file and key are named.
    """
    given: RodShellFile = validated(RodShellFile, table, place)
    unit = METRES_PER_UNIT[given.units]
    if (given.geometry is None) == (given.limbs is None):
        raise place.error('needs geometry = "robot.txt" or [[limbs]], and not both')
    options: dict[str, Any] = {"planar": given.planar, "units": given.units, "allow_any_size": given.allow_any_size}
    if given.name is not None:
        options["name"] = given.name
    if given.design is not None:
        with place.naming("design"):
            options["design"] = make(given.design.name, **given.design.parameters)
    if "fixed" not in table:
        raise place.error('[fixed] is missing; write [fixed] ids = [0, 1], plane = "x", below = ..., or fixed = "none"')
    options |= _held(given.fixed, place.at("fixed"), unit)
    rod = given.rod
    options |= {"cables": read_cables(given.cables, place, unit), "retardation_time": rod.retardation_time}
    if rod.section is not None:
        options["section"] = _section(rod.section, unit, place.at("rod", "section"))
    if given.limbs is not None:
        limbs = [_limb(limb, rod, place.at("limbs", i), unit) for i, limb in enumerate(given.limbs)]
        return RodShellRobot.from_limbs(limbs, **options)
    with place.naming("geometry"):
        vertices, edges, triangles = read_geometry(inside(given.geometry, place.at("geometry")))
    if len(edges):
        options["radius"] = None if rod.radius is None else np.asarray(rod.radius) * unit
        options["rod_material"] = read_material(rod.material, place.at("rod"))
    if len(triangles):
        shell = given.shell
        options["thickness"] = None if shell.thickness is None else np.asarray(shell.thickness) * unit
        options["shell_material"] = read_material(shell.material, place.at("shell"))
        options["shell_bending"], options["shell_constants"] = shell.bending, shell.constants
        options["shell_membrane"] = shell.membrane
    if given.masses:
        options["masses"] = _masses(given.masses, len(vertices), place.at("masses"))
    return RodShellRobot(vertices * unit, edges=edges, triangles=triangles, **options)


def _held(fixed: Any, place: Place, unit: float) -> dict[str, Any]:
    """Return what [fixed] holds, as arguments of the robot."""
    if not isinstance(fixed, dict) and fixed != "none":
        raise place.error(f'= {fixed!r} is not a selection; write [fixed] ids = [0, 1] or fixed = "none"')
    options: dict[str, Any] = {}
    selection = dict(fixed) if isinstance(fixed, dict) else {}
    if "edges" in selection:
        options["fixed_edges"] = np.array(selection.pop("edges"), dtype=np.int64)
    if selection:
        options["fixed_vertices"] = read_selection(selection, place, unit)
    return options


def _limb(limb: LimbTable, rod: RodTable, place: Place, unit: float) -> Limb:
    """Return a limb, with radius and material of [rod] where it has none."""
    radius = limb.radius if limb.radius is not None else rod.radius
    if not isinstance(radius, (int, float)):
        raise place.at("radius").error("is missing; give it here or one in [rod]")
    material = read_material(limb.material if limb.material is not None else rod.material, place)
    ends = vector(limb.start, place.at("start"), unit), vector(limb.end, place.at("end"), unit)
    with place.naming():
        return Limb(*ends, limb.nodes, radius * unit, material)


def _masses(given: dict[str, float], count: int, place: Place) -> Floats:
    """Return the masses [kg] of `count` vertices from a table by id."""
    masses = np.zeros(count)
    for key, mass in given.items():
        if not key.isdigit() or int(key) >= count:
            raise place.at(key).error(f"is not a vertex id 0 .. {count - 1}")
        masses[int(key)] = mass
    return masses


def _section(given: SectionTable, unit: float, place: Place) -> Section:
    sides, radii = (given.width, given.height), (given.outer, given.inner)
    with place.naming():
        if None not in sides and radii == (None, None):
            return Section.rectangle(sides[0] * unit, sides[1] * unit)  # type: ignore[operator]
        if None not in radii and sides == (None, None):
            return Section.tube(radii[0] * unit, radii[1] * unit)  # type: ignore[operator]
    raise place.error("needs width and height, or outer and inner")
