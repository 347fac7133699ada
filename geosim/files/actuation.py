"""Reads actuation files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from geosim import actuation as act
from geosim.arrays import UNITS
from geosim.files.messages import Place, suggestion
from geosim.files.values import numbers, read_toml

_ACTUATIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "inflation": (act.Inflation, ("volume_ratio", "pressure_kpa")),
    "cable_lengths": (act.CableLengths, ("length",)),
    "cable_tensions": (act.CableTensions, ("tension",)),
    "edge_lengths": (act.EdgeLengths, ("edges", "ratio")),
    "face_areas": (act.FaceAreas, ("faces", "ratio")),
    "passive": (act.Passive, ("duration", "steps")),
    "natural_shape": (act.NaturalShape, ("times", "curvature", "twist", "hinge_angle")),
    "valve_commands": (act.ValveCommands, ("times", "pressures_kpa")),
    "undulatory_gait": (act.UndulatoryGait, ("amplitude_kpa", "frequency", "phase_lag", "offset", "duration")),
}


def load_actuation(path: str | Path, robot: Any = None) -> Any:
    """Read an actuation file: [inflation] volume_ratio or pressure_kpa, other actuations by their arguments.

    Parameters
    ----------
    path
        TOML with one table for every actuation that goes together ([inflation], [cable_lengths], [cable_tensions],
        [edge_lengths], [face_areas], [passive], [natural_shape], [valve_commands], [undulatory_gait]). Pressures are in
        kPa, where the key says so; `units` is the unit of cable lengths, default "m". [edge_lengths] names pairs of vertex
        ids, `edges = [[0, 1], [1, 2]]`, [face_areas] triples, `faces = [[0, 1, 2]]`, of the mesh (a tetrahedral mesh
        file keeps its numbering); their `ratio` is that of present to rest length or area, one a command.
    robot
        If given, the number of chambers is checked.

    Raises
    ------
    InputError
        The file is missing, not TOML, or commands something impossible.
    """
    path = Path(path)
    table = read_toml(path, "actuation file")
    place = Place(path)
    unit = table.pop("units", "m")
    if unit not in UNITS:
        raise place.error(f"units = {unit!r} is unknown; use one of {', '.join(UNITS)}")
    parts = []
    for name, arguments in table.items():
        if name not in _ACTUATIONS:
            raise place.error(
                f"[{name}] is not an actuation{suggestion(name, _ACTUATIONS)}; use one of {', '.join(_ACTUATIONS)}"
            )
        parts.append(_actuation(name, arguments, UNITS[unit], place.at(name)))
    if not parts:
        raise place.error(
            "commands nothing; write [inflation] with volume_ratio = [[1.5], [2.0]] or pressure_kpa = [[5.0]]"
        )
    with place.naming():
        whole = parts[0]
        for part in parts[1:]:
            whole = whole & part
        if robot is not None and isinstance(parts[0], act.Inflation):
            parts[0].targets(0, robot.chambers)
    return whole


def _actuation(name: str, arguments: Any, unit: float, place: Place) -> Any:
    build, keys = _ACTUATIONS[name]
    if not isinstance(arguments, dict):
        raise place.error(f"= {arguments!r} must be a table [{name}] with {', '.join(keys)}")
    values = {}
    for key, value in arguments.items():
        if key not in keys:
            raise place.error(f"{key!r} is unknown{suggestion(key, keys)}; [{name}] has {', '.join(keys)}")
        spot = place.at(key)
        if isinstance(value, (str, bool, dict)):
            raise spot.error(f"= {value!r} must be a number or a list of numbers")
        if key in ("edges", "faces"):
            values[key] = _vertex_ids(value, spot)
            continue
        array = numbers(value, spot) if isinstance(value, list) else value
        scale = 1e3 if key.endswith("_kpa") else unit if key == "length" else 1
        values[key.removesuffix("_kpa")] = array if scale == 1 else array * scale
    with place.naming():
        try:
            return build(**values)
        except TypeError as error:
            raise place.error(f"is incomplete: {error}; it has {', '.join(keys)}") from None


def _vertex_ids(value: Any, spot: Place) -> Any:
    """Rows of whole numbers as an array; what they may be is for the actuation to say."""
    array = np.atleast_2d(numbers(value, spot))
    if (array != np.round(array)).any():
        raise spot.error(f"= {str(value)[:60]} must be vertex ids, whole numbers from 0")
    return array.astype(np.int64)
