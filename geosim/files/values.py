"""Reads single values of a file: paths, vectors, materials, selections of vertices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from geosim.arrays import METRES_PER_UNIT, Floats, Ints, real_array
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
        raise place.error(f"= {given!r} does not exist in {folder}")
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
            constants = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
            made = material_from_dict(constants, f"{place.path}: {place.text}")
            return known_unsoftened(made, state, hold)
    raise place.error(f'= {given!r} must be a preset name, a material file or {{ model = "neo-hookean", mu = 30e3 }}')


def vector(value: Any, place: Place, unit: float = 1.0) -> Floats:
    """Return three finite numbers times `unit`, shape (3,)."""
    if len(value) != 3 or not np.isfinite(value).all():
        raise place.error(f"= {value!r} must be three finite numbers [x, y, z]")
    return np.asarray(value, dtype=float) * unit


def _plane(s: SelectionTable, place: Place, unit: float) -> Select:
    if s.below is None and s.above is None:
        raise place.error("needs below = ..., above = ... or both, in the units of the file")
    below, above = (None if value is None else value * unit for value in (s.below, s.above))
    return Select.plane(str(s.plane), below=below, above=above)


def _box(s: SelectionTable, place: Place, unit: float) -> Select:
    if len(s.box or ()) != 2:
        raise place.at("box").error(f"= {s.box!r} must be [[x, y, z], [x, y, z]], lower and upper corner")
    return Select.box(*(vector(corner, place.at("box"), unit) for corner in s.box or ()))


def _sphere(s: SelectionTable, place: Place, unit: float) -> Select:
    if s.radius is None:
        raise place.at("radius").error("is missing; give the radius of the sphere in the units of the file")
    radius = positive(s.radius, place.at("radius")) * unit
    return Select.sphere(vector(s.sphere, place.at("sphere"), unit), radius)


def _nearest(s: SelectionTable, place: Place, unit: float) -> Select:
    return Select.nearest(vector(s.nearest, place.at("nearest"), unit), 1 if s.count is None else s.count)


def _surface(s: SelectionTable, place: Place, unit: float) -> Select:
    within = 1e-6 if s.within is None else positive(s.within, place.at("within")) * unit
    return Select.surface(inside(s.surface, place.at("surface")), units=unit_name(unit), within=within)


def _ids(s: SelectionTable, place: Place, unit: float) -> Ints:
    if not s.ids:
        raise place.at("ids").error('= [] selects nothing; write fixed = "none" for a free body')
    # that a 64-bit number can be; which ones a mesh has is checked where it is known
    max_vertex_id = 2**63 - 1
    for i in s.ids:
        if not 0 <= i <= max_vertex_id:
            raise place.at("ids").error(f"= [..., {str(i)[:20]}, ...] names no vertex; they are numbered from 0")
    return np.array(s.ids, dtype=np.int64)


# What selects -> the keys that go with it, and who reads it.
_SELECTIONS: dict[str, tuple[tuple[str, ...], Callable[[SelectionTable, Place, float], Any]]] = {
    "plane": (("below", "above"), _plane),
    "box": ((), _box),
    "sphere": (("radius",), _sphere),
    "nearest": (("count",), _nearest),
    "surface": (("within",), _surface),
    "ids": ((), _ids),
}


def read_selection(table: Any, place: Place, unit: float, example: str = "") -> Any:
    """Return a `Select` or vertex ids from a selection table; lengths are in `unit` metres."""
    example = example or 'write plane = "x", below = 0.1, or box, sphere, nearest, surface, ids'
    if not isinstance(table, dict):
        raise place.error(f"= {table!r} is not a selection; {example}")
    s = validated(SelectionTable, table, place)
    given = [kind for kind in _SELECTIONS if getattr(s, kind) is not None]
    if len(given) != 1:
        raise place.error(f"needs exactly one of {', '.join(_SELECTIONS)}; {' and '.join(given) or 'none'} given")
    options, read = _SELECTIONS[given[0]]
    for key in sorted(s.model_fields_set - {given[0], *options}):
        raise place.at(key).error(f"= {getattr(s, key)!r} does not go with {given[0]}; remove it")
    with place.naming():
        return read(s, place, unit)


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
