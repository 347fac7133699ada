"""Reads the robot.toml of a volumetric robot: bodies and chambers as surfaces or one mesh, what is held, cables."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arguments import suggestion
from geosim.arrays import METRES_PER_UNIT
from geosim.files.messages import Place
from geosim.files.schema import BodyTable, VolumetricFile
from geosim.files.tetmesh import read_mesh
from geosim.files.values import inside, positive, read_cables, read_material, read_selection, validated, vector
from geosim.generate import make
from geosim.geometry.surface import read_surface
from geosim.material.materials import Material
from geosim.model.fabric import Fibre, Layer
from geosim.model.robot import VolumetricRobot
from geosim.model.tolerances import Tolerances


def read_robot(table: dict[str, Any], place: Place) -> VolumetricRobot:
    """Return the robot of the tables of a robot.toml, which stand at `place`.

    Raises
    ------
    InputError
        A key is unknown or missing, a value impossible, or the robot cannot be meshed; file and key are named.
    """
    if ("body" in table) == ("bodies" in table):
        problem = "[body] is missing" if "body" not in table else "[body] and [[bodies]] are both given"
        for key in sorted(table.keys() - VolumetricFile.model_fields):
            if hint := suggestion(key, ("body", "bodies")):
                raise place.error(f"{problem}, and [{key}] is unknown{hint}")
        raise place.error(f'{problem}; write one [body] with surface = "body.stl", or several [[bodies]]')
    example_fixed = 'write [fixed] with plane = "x", below = 0.1, or fixed = "none" for a free body'
    if "fixed" not in table:
        raise place.error(f"[fixed] is missing, so nothing says what holds the robot; {example_fixed}")
    file: VolumetricFile = validated(VolumetricFile, table, place)
    unit = METRES_PER_UNIT[file.units]
    bodies = _bodies(file, place)
    carried: dict[str, Any] = {
        "fixed": None if file.fixed == "none" else read_selection(file.fixed, place.at("fixed"), unit, example_fixed),
        "tip": None if file.tip is None else read_selection(file.tip, place.at("tip"), unit),
        "name": file.name or (place.path.resolve().parent.name if place.path.stem == "robot" else place.path.stem),
        "units": file.units,
        "allow_any_size": file.allow_any_size,
        "cables": read_cables(file.cables, place, unit),
        "layers": _layers(file, place, unit),
        "fibres": _fibres(file, place, unit),
    }
    made = _meshed_robot if bodies[0].table.mesh is not None else _surface_robot
    return replace(made(file, bodies, carried, place), tolerances=_tolerances(file, place, unit))


@dataclass(frozen=True)
class _Body:
    """A body of a robot file: its table, where that stands, and its material."""

    table: BodyTable
    spot: Place
    material: Material


def _bodies(file: VolumetricFile, place: Place) -> list[_Body]:
    """The bodies of a robot file: of one [body], or of several [[bodies]]."""
    tables = [file.body] if file.body is not None else list(file.bodies or [])
    spots = [place.at("body")] if file.body is not None else [place.at("bodies", i) for i in range(len(tables))]
    if not tables:
        raise place.error("[[bodies]] is empty; give at least one with a surface")
    materials = [read_material(body.material, spot, body.state, body.hold_s) for body, spot in zip(tables, spots)]
    for body, spot in zip(tables, spots):
        if (body.surface is None) == (body.mesh is None):
            raise spot.error('needs either surface = "body.stl" or mesh = "robot.vtu"')
    return [_Body(*parts) for parts in zip(tables, spots, materials)]


def _surface_robot(file: VolumetricFile, bodies: list[_Body], carried: dict[str, Any], place: Place) -> VolumetricRobot:
    """The robot whose bodies and chambers are closed surfaces; lengths in the units of the file."""
    unit = METRES_PER_UNIT[file.units]
    surfaces = [inside(body.table.surface, body.spot.at("surface")) for body in bodies]
    for body in bodies:
        if body.table.region is not None:
            raise body.spot.error(f"region = {body.table.region} goes with mesh = ...; a surface has no regions")
    chambers: list[Any] | str = (
        file.chambers
        if isinstance(file.chambers, str)
        else [inside(chamber.surface, place.at("chambers", i, "surface")) for i, chamber in enumerate(file.chambers)]
    )
    edges = [
        positive(body.table.max_edge, body.spot.at("max_edge")) for body in bodies if body.table.max_edge is not None
    ]
    # a design keeps all vertices of its surfaces: derivatives by dimensions need them
    simplify = 0.0 if file.simplify is None and file.design is not None and not file.preview else file.simplify
    remesh: Any = file.design is None if file.remesh is None else file.remesh
    if not isinstance(remesh, bool):
        remesh = {"distance": positive(remesh.distance, place.at("remesh", "distance")) * unit}
    materials = [body.material for body in bodies]
    robot = VolumetricRobot.from_surfaces(
        surfaces if len(surfaces) > 1 else surfaces[0],
        chambers,
        material=materials if len(materials) > 1 else materials[0],
        max_edge=min(edges) * unit if edges else None,
        **carried,
        rescue=file.rescue,
        simplify=simplify and positive(simplify, place.at("simplify")) * unit,
        remesh=remesh,
        preview=file.preview,
        symmetry=file.symmetry,
        inlet=file.inlet,
        inlet_depth=file.inlet_depth * unit,
    )
    given = [*(body.table for body in bodies), *(() if isinstance(file.chambers, str) else file.chambers)]
    regions = (*robot.materials, *map(int, robot.chamber_regions))
    names = {**robot.region_names, **{region: part.name for region, part in zip(regions, given) if part.name}}
    robot = replace(robot, region_names=names, chamber_names=())
    if file.design is None:
        return robot
    with place.naming("design"):
        return replace(robot, design=make(file.design.name, **file.design.parameters))


def _tolerances(file: VolumetricFile, place: Place, unit: float) -> Tolerances | None:
    """The tolerances of a robot file; lengths in its units."""
    given = file.tolerances
    if given is None:
        return None
    with place.at("tolerances").naming():
        return Tolerances(
            given.wall * unit, 1e3 * given.gauge_kpa, math.radians(given.clamp_deg), given.marker * unit, given.model
        )


def _layers(file: VolumetricFile, place: Place, unit: float) -> tuple[Layer, ...]:
    """The layers of a robot file; lengths in its units."""
    out = []
    for i, table in enumerate(file.layers):
        spot = place.at("layers", i)
        if (table.faces is None) == (table.surface is None):
            raise spot.error('needs either faces = { plane = "z", below = 0.1, of = "skin" } or surface = "paper.stl"')
        thickness, material = table.thickness * unit, read_material(table.material, spot)
        with spot.naming():
            if table.surface is not None:
                sheet = read_surface(inside(table.surface, spot.at("surface")), units=file.units, name="layer")
                out.append(Layer(sheet.faces, thickness, material, vertices=sheet.vertices))
            else:
                faces = dict(table.faces or {})
                of = faces.pop("of", "any")
                out.append(Layer(read_selection(faces, spot.at("faces"), unit), thickness, material, of=of))
    return tuple(out)


def _fibres(file: VolumetricFile, place: Place, unit: float) -> tuple[Fibre, ...]:
    """The fibres of a robot file; lengths in its units."""
    out = []
    for i, table in enumerate(file.fibres):
        spot = place.at("fibres", i)
        material = read_material(table.material, spot)
        with spot.naming():
            points = [vector(point, spot.at("points"), unit) for point in table.points]
            out.append(Fibre(points, table.radius * unit, material, table.tension_only))
    return tuple(out)


def _meshed_robot(file: VolumetricFile, bodies: list[_Body], carried: dict[str, Any], place: Place) -> VolumetricRobot:
    """The robot of a tetrahedral mesh whose tets carry a region."""
    body, spot = bodies[0].table, bodies[0].spot
    if len({one.table.mesh for one in bodies}) > 1:
        raise place.error("[[bodies]] name several meshes; they share one mesh and differ in region")
    _refuse_meshing(file, bodies[0], place)
    source = inside(body.mesh, spot.at("mesh"))
    vertices, tets, regions, notices = read_mesh(source)
    present = np.unique(regions).tolist()
    first = present[0] if len(bodies) == len(present) == 1 else 0  # one region, one body: whatever its number
    regions_of = [first + i if one.table.region is None else one.table.region for i, one in enumerate(bodies)]
    for region, one in zip(regions_of, bodies):
        if region not in present:
            others = f" and [[chambers]] with region = {present[1]}" if len(bodies) == 1 and len(present) > 1 else ""
            raise one.spot.error(
                f"region = {region} has no tet in {source.name}; its regions are {present}: write for example "
                f"region = {present[0]}{others}"
            )
    return VolumetricRobot.from_tets(
        vertices * METRES_PER_UNIT[file.units],
        tets,
        regions,
        material={region: one.material for region, one in zip(regions_of, bodies)},
        notices=notices,
        **carried,
        chambers=file.chambers if isinstance(file.chambers, str) else None,
    )


def _refuse_meshing(file: VolumetricFile, body: _Body, place: Place) -> None:
    """Refuse what says how surfaces are meshed, where a mesh is given."""
    mesh = body.table.mesh
    for key, given in (
        ("rescue", file.rescue),
        ("simplify", file.simplify),
        ("remesh", file.remesh is not None and "..."),
        ("preview", file.preview),
        ("symmetry", file.symmetry),
        ("inlet", file.inlet),
    ):
        if given:
            raise place.at(key).error(f"= {json.dumps(given)} goes with surfaces; mesh = {mesh!r} is meshed already")
    if file.chambers and not isinstance(file.chambers, str):
        raise place.error(
            f"[[chambers]] do not go with mesh = {mesh!r}; its chambers are the regions that no body names, "
            'or chambers = "cavities"'
        )
    if body.table.max_edge is not None:
        where = body.spot.at("max_edge")
        raise where.error(
            f"= {body.table.max_edge} does not go with mesh = {mesh!r}, which is meshed already; remove it"
        )
