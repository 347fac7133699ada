"""Reads single values of a file: paths, vectors, materials, selections of vertices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from geosim.arrays import METRES_PER_UNIT, Floats, real_array
from geosim.errors import InputError
from geosim.files.messages import Place, first_error
from geosim.files.schema import CableTable, SelectionTable
from geosim.geometry.step import file_part
from geosim.material.laws import material_from_dict
from geosim.model.cable import Cable
from geosim.model.materials import known_unsoftened, load_material, preset
from geosim.model.select import Select
from geosim.resources import readable


def validated(model: type[BaseModel], table: Any, place: Place) -> Any:
    """Return the table as the model; what does not fit is an `InputError` of one line."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise InputError(first_error(error, model, place)) from None


def inside(given: str | None, place: Place) -> Path:
    """Return the path of a file that lies in the folder of the robot file; of a STEP file with the solid in it."""
    folder = place.path.resolve().parent
    name, solid = file_part(str(given))
    with place.naming():
        target = readable(folder / name).resolve()
    if not target.is_relative_to(folder):
        raise place.error(f"= {given!r} is outside the folder of the file; copy it there")
    if not target.is_file():
        raise place.error(f"= {given!r} does not exist in {place.path.parent}")
    return target.with_name(f"{target.name}#{solid}") if solid else target


def positive(value: float, place: Place) -> float:
    """Return a length that must be positive, in the units of the file."""
    if not (np.isfinite(value) and value > 0):
        raise place.error(f"= {value!r} must be a positive length in the units of the file")
    return float(value)


def read_material(given: Any, place: Place, state: str | None = None, hold: float | None = None) -> Any:
    """Return the material of a body: a preset, a material file or an inline table; after first pulls and a hold [s]."""
    place = place.at("material")
    if given is None:
        raise place.error(
            'is missing; write material = "ecoflex-00-30", the path of a material file or '
            '{ model = "neo-hookean", mu = 30e3 }'
        )
    with place.naming():
        if isinstance(given, str):
            if given.lower().endswith(".toml"):
                return load_material(inside(given, place), state, hold)
            return known_unsoftened(preset(given), state, hold)
        if isinstance(given, dict):
            if "kind" in given and "model" not in given:
                raise place.at("kind").error(f"names no law; the key is model: write model = {given['kind']!r}")
            for key, value in given.items():
                numbers = value if isinstance(value, list) else [value]
                if key != "model" and not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers):
                    raise place.at(key).error(f"= {value!r} must be a number (Pa, kg/m^3)")
            made = material_from_dict({k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
            return known_unsoftened(made, state, hold)
    raise place.error(f'= {given!r} must be a preset name, a material file or {{ model = "neo-hookean", mu = 30e3 }}')


def vector(value: Any, place: Place, unit: float = 1.0) -> Floats:
    """Return three finite numbers times `unit`, shape (3,)."""
    if len(value) != 3 or not np.isfinite(value).all():
        raise place.error(f"= {value!r} must be three finite numbers [x, y, z]")
    return np.asarray(value, dtype=float) * unit


# What selects -> the keys that go with it.
_OPTIONS = {"plane": ("below", "above"), "box": (), "sphere": ("radius",), "nearest": ("count",)}
_OPTIONS |= {"surface": ("within",), "ids": ()}


def read_selection(table: Any, place: Place, unit: float, example: str = "") -> Any:
    """Return a `Select` or vertex ids from a selection table; lengths are in `unit` metres."""
    example = example or 'write plane = "x", below = 0.1, or box, sphere, nearest, surface, ids'
    if not isinstance(table, dict):
        raise place.error(f"= {table!r} is not a selection; {example}")
    s = validated(SelectionTable, table, place)
    given = [kind for kind in _OPTIONS if getattr(s, kind) is not None]
    if len(given) != 1:
        raise place.error(f"needs exactly one of {', '.join(_OPTIONS)}; {' and '.join(given) or 'none'} given")
    kind = given[0]
    for key in sorted(s.model_fields_set - {kind, *_OPTIONS[kind]}):
        raise place.at(key).error(f"= {getattr(s, key)!r} does not go with {kind}; remove it")
    length: Callable[[float | None], float | None] = lambda value: None if value is None else value * unit  # noqa: E731
    with place.naming():
        if kind == "plane":
            if s.below is None and s.above is None:
                raise place.error("needs below = ..., above = ... or both, in the units of the file")
            return Select.plane(str(s.plane), below=length(s.below), above=length(s.above))
        if kind == "box":
            if len(s.box or ()) != 2:
                raise place.at("box").error(f"= {s.box!r} must be [[x, y, z], [x, y, z]], lower and upper corner")
            return Select.box(*(vector(corner, place.at("box"), unit) for corner in s.box or ()))
        if kind == "sphere":
            if s.radius is None:
                raise place.at("radius").error("is missing; give the radius of the sphere in the units of the file")
            radius = positive(s.radius, place.at("radius")) * unit
            return Select.sphere(vector(s.sphere, place.at("sphere"), unit), radius)
        if kind == "nearest":
            return Select.nearest(vector(s.nearest, place.at("nearest"), unit), 1 if s.count is None else s.count)
        if kind == "surface":
            within = 1e-6 if s.within is None else positive(s.within, place.at("within")) * unit
            return Select.surface(inside(s.surface, place.at("surface")), units=unit_name(unit), within=within)
    if not s.ids:
        raise place.at("ids").error('= [] selects nothing; write fixed = "none" for a free body')
    # that a 64-bit number can be; which ones a mesh has is checked where it is known
    max_vertex_id = 2**63 - 1
    for i in s.ids:
        if not 0 <= i <= max_vertex_id:
            raise place.at("ids").error(f"= [..., {str(i)[:20]}, ...] names no vertex; they are numbered from 0")
    return np.array(s.ids, dtype=np.int64)


def unit_name(unit: float) -> str:
    """Return the name of a unit of this many metres."""
    return next(name for name, size in METRES_PER_UNIT.items() if size == unit)


def numbers(value: Any, place: Place) -> Floats:
    """Return nested lists as an array."""
    try:
        return real_array(value, "")
    except InputError:
        raise place.error(f"= {str(value)[:60]} must be numbers, in rows of equal length") from None


def read_cables(tables: list[CableTable], place: Place, unit: float) -> tuple[Cable, ...]:
    """Return the cables of [[cables]] of the robot file at `place`; points in its units, of `unit` [m]."""
    out = []
    for i, table in enumerate(tables):
        spot = place.at("cables", i)
        with spot.naming():
            points = [vector(point, spot.at("points"), unit) for point in table.points]
            out.append(Cable(points, table.friction, table.pulled, table.name or ""))
    return tuple(out)
