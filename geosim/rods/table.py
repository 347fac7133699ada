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
    [shell]
    thickness = 1.0
    material = "..."
    bending = "hinge"
    [fixed]
    ids = [0, 1]
    edges = [0]                        # theta of these edges; the rest of [fixed] selects vertices
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from geosim.rods.files import read_geometry
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section

__all__ = ["robot_from_table"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Section(_Table):
    width: float | None = None
    height: float | None = None
    outer: float | None = None
    inner: float | None = None


class _Rod(_Table):
    radius: float | list[float] | None = None
    material: Any = None
    section: _Section | None = None


class _Shell(_Table):
    thickness: float | list[float] | None = None
    material: Any = None
    bending: Literal["hinge", "mid-edge"] = "hinge"
    constants: Literal["plate", "published", "matlab"] = "plate"


class _Limb(_Table):
    start: list[float]
    end: list[float]
    nodes: int
    radius: float | None = None
    material: Any = None


class _Robot(_Table):
    kind: Literal["rod-shell"]
    units: Literal["m", "mm", "cm", "in"]
    geometry: str | None = None
    limbs: list[_Limb] | None = None
    rod: _Rod | None = None
    shell: _Shell | None = None
    fixed: Any = None
    planar: bool | Literal["xz", "xy", "yz"] = False
    masses: dict[str, float] | None = None


def robot_from_table(table: dict[str, Any], path: Path) -> RodShellRobot:
    """Return the robot of a robot.toml without its [environment] and [solver].

    Parameters
    ----------
    table
        The tables of the file.
    path
        The file, for its folder and for messages.

    Raises
    ------
    InputError
        A key is unknown or missing, or a value impossible; file and key are named.
    """
    from geosim.files.messages import Place
    from geosim.files.values import inside, read_material, read_selection, validated, vector
    from geosim.robot import UNITS

    place = Place(path)
    if "units" not in table:
        raise place.error('units is missing; write units = "mm" (or "m", "cm", "in")')
    given: _Robot = validated(_Robot, table, place)
    unit = UNITS[given.units]
    if (given.geometry is None) == (given.limbs is None):
        raise place.error('needs geometry = "robot.txt" or [[limbs]], and not both')
    options: dict[str, Any] = {"planar": given.planar}
    selection = dict(given.fixed) if isinstance(given.fixed, dict) else {}
    if "fixed" not in table:
        raise place.error('[fixed] is missing; write [fixed] ids = [0, 1], plane = "x", below = ..., or fixed = "none"')
    if "edges" in selection:
        options["fixed_edges"] = np.array(selection.pop("edges"), dtype=np.int64)
    if selection:
        options["fixed_vertices"] = read_selection(selection, place.at("fixed"), unit)
    elif not isinstance(given.fixed, dict) and given.fixed != "none":
        raise place.at("fixed").error(
            f'= {given.fixed!r} is not a selection; write [fixed] ids = [0, 1] or fixed = "none"'
        )
    rod = given.rod or _Rod()
    if rod.section is not None:
        options["section"] = _section(rod.section, unit, place.at("rod", "section"))
    if given.limbs is not None:
        limbs = []
        for i, limb in enumerate(given.limbs):
            spot = place.at("limbs", i)
            radius = limb.radius if limb.radius is not None else rod.radius
            if not isinstance(radius, (int, float)):
                raise spot.at("radius").error("is missing; give it here or one in [rod]")
            material = read_material(limb.material if limb.material is not None else rod.material, spot)
            with spot.naming():
                limbs.append(
                    Limb(
                        vector(limb.start, spot.at("start"), unit),
                        vector(limb.end, spot.at("end"), unit),
                        limb.nodes,
                        radius * unit,
                        material,
                    )
                )
        return RodShellRobot.from_limbs(limbs, **options)
    with place.naming("geometry"):
        vertices, edges, triangles = read_geometry(inside(given.geometry, place.at("geometry")))
    if len(edges):
        options["radius"] = None if rod.radius is None else np.asarray(rod.radius) * unit
        options["rod_material"] = read_material(rod.material, place.at("rod"))
    if len(triangles):
        shell = given.shell or _Shell()
        options["thickness"] = None if shell.thickness is None else np.asarray(shell.thickness) * unit
        options["shell_material"] = read_material(shell.material, place.at("shell"))
        options["shell_bending"], options["shell_constants"] = shell.bending, shell.constants
    if given.masses:
        masses = np.zeros(len(vertices))
        for key, mass in given.masses.items():
            if not key.isdigit() or int(key) >= len(vertices):
                raise place.at("masses", key).error(f"is not a vertex id 0 .. {len(vertices) - 1}")
            masses[int(key)] = mass
        options["masses"] = masses
    return RodShellRobot(vertices * unit, edges=edges, triangles=triangles, **options)


def _section(given: _Section, unit: float, place: Any) -> Section:
    sides, radii = (given.width, given.height), (given.outer, given.inner)
    with place.naming():
        if None not in sides and radii == (None, None):
            return Section.rectangle(sides[0] * unit, sides[1] * unit)  # type: ignore[operator]
        if None not in radii and sides == (None, None):
            return Section.tube(radii[0] * unit, radii[1] * unit)  # type: ignore[operator]
    raise place.error("needs width and height, or outer and inner")
