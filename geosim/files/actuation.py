"""Reads actuation files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from geosim.arguments import suggestion
from geosim.arrays import METRES_PER_UNIT
from geosim.files.messages import Place, saying
from geosim.files.values import inside, numbers
from geosim.model.actuation import Actuation, Combined, Inflation, NaturalShape, cable_targets
from geosim.model.contract import Robot
from geosim.model.display import later
from geosim.resources import read_toml, readable

TABLES = (".csv", ".txt", ".xlsx", ".xls")


def actuation_kinds(root: type[Actuation] = Actuation) -> dict[str, type[Actuation]]:
    """Name of the table -> actuation, for every actuation whose fields can be in a file: InflationRate is inflation_rate."""
    found: dict[str, type[Actuation]] = {}
    for kind in root.__subclasses__():
        if dataclasses.is_dataclass(kind) and kind is not Combined:
            found[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()] = kind
        found |= actuation_kinds(kind)
    return found


def load_actuation(path: str | Path, robot: Robot | None = None) -> Actuation:
    """Read an actuation file: [inflation] volume_ratio or pressure_kpa, other actuations by their arguments.

    Parameters
    ----------
    path
        A table of natural values over time, .csv, .txt, .xlsx or .xls (see `geosim.rods.files.read_natural_shape`), or
        TOML with one table for every actuation that goes together ([inflation], [cable_lengths], [cable_tensions],
        [edge_lengths], [face_areas], [passive], [natural_shape], [valve_commands], [undulatory_gait]). Pressures are in
        kPa, where the key says so; `units` is the unit of cable lengths, default "m". [edge_lengths] names pairs of vertex
        ids, `edges = [[0, 1], [1, 2]]`, [face_areas] triples, `faces = [[0, 1, 2]]`, of the mesh (a tetrahedral mesh
        file keeps its numbering); their `ratio` is that of present to rest length or area, one a command. [natural_shape] takes
        `file = "curvature.csv"`, such a table beside the file.
    robot
        If given, the numbers of chambers and cables are checked.

    Raises
    ------
    InputError
        The file is missing, not TOML, or commands something impossible.
    """
    path = readable(path)
    if path.suffix.lower() in TABLES:
        return cast(Actuation, later("rods.files.read_natural_shape")(path))
    return read_actuation(read_toml(path, "actuation file"), Place(path), robot)


def read_actuation(tables: Mapping[str, Any], place: Place, robot: Robot | None = None) -> Actuation:
    """Return the actuation that the tables of an actuation file describe, which stand at `place`.

    Raises
    ------
    InputError
        As `load_actuation`.
    """
    table = dict(tables)
    unit = table.pop("units", "m")
    if not isinstance(unit, str) or unit not in METRES_PER_UNIT:
        raise place.error(f"units = {unit!r} is unknown; use one of {', '.join(METRES_PER_UNIT)}")
    if not table.keys() <= actuation_kinds().keys():
        later("shape.energy.constraints.scalars.constraint_kinds")()  # imports commands that stand beside a constraint
    if not table:
        raise place.error(
            "commands nothing; write [inflation] with volume_ratio = [[1.5], [2.0]] or pressure_kpa = [[5.0]]"
        )
    parts, known = [], actuation_kinds()
    with place.naming(), saying("kPa"), saying(unit):
        for name, arguments in table.items():
            if name not in known:
                raise place.error(
                    f"[{name}] is not an actuation{suggestion(name, known)}; use one of {', '.join(known)}"
                )
            parts.append(_actuation(known[name], arguments, METRES_PER_UNIT[unit], place.at(name)))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole & part
        if robot is not None and robot.cables:
            cable_targets(whole.command(0), len(robot.cables))
        for part in parts:
            if robot is not None and isinstance(part, Inflation):
                part.targets(0, robot.chambers)
    return whole


def _actuation(kind: type[Actuation], arguments: Any, unit: float, place: Place) -> Actuation:
    fields = {f.name + f.metadata.get("suffix", ""): f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(arguments, dict):
        raise place.error(f"= {arguments!r} must be a table [{place.keys[-1]}] with {', '.join(fields)}")
    if kind is NaturalShape and "file" in arguments:
        if len(arguments) > 1:
            raise place.error(f"has {', '.join(arguments)}; a file holds times and values, so give it alone")
        return cast(Actuation, later("rods.files.read_natural_shape")(inside(arguments["file"], place.at("file"))))
    values = {}
    for key, value in arguments.items():
        if key not in fields:
            raise place.error(
                f"{key!r} is unknown{suggestion(key, fields)}; [{place.keys[-1]}] has {', '.join(fields)}"
            )
        spot, marks = place.at(key), fields[key].metadata
        if marks.get("plain"):
            values[fields[key].name] = value
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float, list)):
            raise spot.error(f"= {value!r} must be a number or a list of numbers")
        if marks.get("ids"):
            values[fields[key].name] = _vertex_ids(value, spot)
            continue
        array = numbers(value, spot) if isinstance(value, list) else value
        scale = unit if marks.get("length") else marks.get("factor", 1)
        values[fields[key].name] = array if scale == 1 else array * scale
    with place.naming():
        try:
            return kind(**values)
        except TypeError as error:
            raise place.error(f"is incomplete: {error}; it has {', '.join(fields)}") from None


def _vertex_ids(value: Any, spot: Place) -> Any:
    """Rows of whole numbers as an array; what they may be is for the actuation to say."""
    array = np.atleast_2d(numbers(value, spot))
    if (array != np.round(array)).any():
        raise spot.error(f"= {str(value)[:60]} must be vertex ids, whole numbers from 0")
    return array.astype(np.int64)
