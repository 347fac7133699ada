"""Reads [environment]: gravity, obstacles, loads, prescribed displacements, rigid groups."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from pydantic import create_model

from geosim.arrays import Ints, marked
from geosim.collision.shapes import DIRECTION, KINDS, LENGTH, POINT, kind_of
from geosim.files.messages import Place
from geosim.files.schema import EnvironmentTable, LoadTable, ObstacleTable, PrescribedTable, RigidGroupTable, Table
from geosim.files.values import inside, numbers, positive, read_selection, unit_name, validated, vector
from geosim.model.environment import Environment, Fluid, Load, Obstacle, Prescribed, RigidGroup
from geosim.model.select import selected_ids


def read_environment(e: EnvironmentTable, robot: Any, unit: float, place: Place) -> Environment:
    """Return the environment that a table describes; lengths are in `unit` metres."""
    obstacles = [_obstacle(o, unit, place.at("obstacles", i)) for i, o in enumerate(e.obstacles)]
    loads = [_load(load, robot, unit, place.at("loads", i)) for i, load in enumerate(e.loads)]
    held = [_prescribed(p, robot, unit, place.at("prescribed", i)) for i, p in enumerate(e.prescribed)]
    rigid = [_rigid_group(g, robot, unit, place.at("rigid_groups", i)) for i, g in enumerate(e.rigid_groups)]
    fluid = None
    if e.fluid is not None:
        with place.at("fluid").naming():
            fluid = Fluid(**e.fluid.model_dump())
    for i, pair in enumerate(e.exclude_pairs):
        if len(pair) != 2:
            raise place.at("exclude_pairs", i).error(f"= {pair!r} must be two names")
    return Environment(
        gravity=vector(e.gravity, place.at("gravity")),
        obstacles=obstacles,
        loads=loads,
        prescribed=held,
        fluid=fluid,
        self_contact=e.self_contact,
        self_friction=e.self_friction,
        exclude_pairs=tuple(tuple(pair) for pair in e.exclude_pairs),
        rigid_groups=rigid,
    )


def _obstacle(o: ObstacleTable, unit: float, place: Place) -> Obstacle:
    kind = kind_of(o.shape)
    if o.shape not in KINDS:
        kinds: dict[str, Any] = {
            key: (float if kind.parameters[key] == LENGTH else list[float], ...) for key in kind.keys
        }
        table = {key: value for key, value in o.model_dump(exclude_unset=True).items() if key in kinds}
        validated(create_model(o.shape, __base__=Table, **kinds), table, place)
    options = o.model_dump(include={"friction", "free", "mass", "released"})
    given = {k: v for k, v in o.model_dump().items() if v is not None and k not in (*options, "shape", "motion")}
    for key in kind.keys:
        if key not in given:
            raise place.at(key).error(f'is missing; shape = "{o.shape}" needs {", ".join(kind.keys)}')
    with place.naming():
        motion = None if o.motion is None else numbers(o.motion, place.at("motion"))
        if motion is not None:
            if motion.ndim == 3 and motion.shape[1:] == (4, 4):
                motion[:, :3, 3] *= unit
            else:
                motion = motion * unit
        if "surface" in given:
            surface = inside(given["surface"], place.at("surface"))
            return Obstacle.mesh(surface, units=unit_name(unit), motion=motion, **options)
        read: dict[str, Callable[[Any, Place], Any]] = {
            POINT: lambda value, at: vector(value, at, unit),
            DIRECTION: vector,
            LENGTH: lambda value, at: positive(value, at) * unit,
        }
        parameters = {key: read[sort](given[key], place.at(key)) for key, sort in kind.parameters.items()}
        return Obstacle(o.shape, parameters, motion=motion, **options)


def _vertex_ids(given: Any, robot: Any, unit: float, place: Place) -> Ints:
    if given in ("tip", "fixed"):  # of the robot itself, wherever its dimensions put them
        return np.asarray(getattr(robot, given))
    selector = np.array(given) if isinstance(given, list) else read_selection(given, place, unit)
    with place.naming():
        return selected_ids(selector, robot.vertices, "selection", among=robot.body_vertices)


def _load(load: LoadTable, robot: Any, unit: float, place: Place) -> Load:
    fields = {
        "force": ("vertices", "total_force"),
        "traction": ("faces", "t"),
        "pressure": ("faces", "p"),
        "torque": ("edges", "torque"),
        "moment": ("edges", "moment"),
    }
    needed = fields[load.kind]
    for key in dict.fromkeys(chain(*fields.values())):
        if (getattr(load, key) is None) == (key in needed):
            problem = "is missing" if key in needed else "does not belong here"
            raise place.at(key).error(f'{problem}; kind = "{load.kind}" needs {" and ".join(needed)}')
    with place.naming():
        if load.kind == "force":
            ids = _vertex_ids(load.vertices, robot, unit, place.at("vertices"))
            return Load.force(ids, numbers(load.total_force, place.at("total_force")))
        if load.kind == "torque":
            return Load.torque(load.edges, load.torque)
        if load.kind == "moment":
            return Load.moment(load.edges, numbers(load.moment, place.at("moment")))
        faces = load.faces
        if isinstance(faces, dict):  # the faces of the skin whose corners are all selected
            chosen = marked(len(robot.vertices), _vertex_ids(faces, robot, unit, place.at("faces")))
            faces = robot.skin[chosen[robot.skin].all(axis=1)]
            if not len(faces):
                raise place.at("faces").error("selects no face of the skin; select all three corners of some")
        if load.kind == "pressure":
            return Load.pressure(faces, np.asarray(load.p, dtype=float))
        return Load.traction(faces, numbers(load.t, place.at("t")))


def _prescribed(p: PrescribedTable, robot: Any, unit: float, place: Place) -> Prescribed:
    with place.naming():
        return Prescribed(
            _vertex_ids(p.vertices, robot, unit, place.at("vertices")),
            numbers(p.displacement, place.at("displacement")) * unit,
        )


def _rigid_group(g: RigidGroupTable, robot: Any, unit: float, place: Place) -> RigidGroup:
    with place.naming():
        given = {
            key: numbers(getattr(g, key), place.at(key))
            for key in ("displacement", "rotation", "force", "moment")
            if getattr(g, key) is not None
        }
        if "displacement" in given:
            given["displacement"] = given["displacement"] * unit
        point = None if g.point is None else vector(g.point, place.at("point"), unit)
        return RigidGroup(_vertex_ids(g.vertices, robot, unit, place.at("vertices")), point=point, **given)
