"""The complete result as one .npz: arrays as they are, everything else as JSON, nothing executable.

Objects are written as the name of a public geosim data type and its fields, and built again through its
constructor, so that what is read has been validated. A callable (an `on_frame` hook) cannot be kept: it comes back as
None. Rules that select vertices are kept as the ids that they select. The design of a robot is kept as its generator's name
and parameters, and made again.

What is read is checked first (`npz`): its digest, shapes, finite numbers, signs, and a status that fits them. A file of an
earlier version has no digest; the tip and the counts are then checked against the frames and the status.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, StrictBool

import geosim
from geosim.arguments import guarded
from geosim.arrays import choice, shown
from geosim.errors import InputError
from geosim.files.npz import ANYTHING, Layout, Numbers, read_npz, write_npz
from geosim.generate import Design, RodDesign, make, names
from geosim.model.contract import Frame, Resumable, SavedState, Status
from geosim.model.environment import Environment
from geosim.model.select import Select, selected_ids
from geosim.resources import readable
from geosim.result import FIELDS, Result

ARCHIVE_FORMAT = 1
# Fields by the names that they have in files of 0.2, and their present ones.
EARLIER_NAMES = {
    ("MultibodyStepper", "iterations"): "max_iterations",
    ("MultibodyStepper", "throw_out"): "throw",
    ("MultibodyStepper", "creep_speed"): "slip_velocity",
    ("MultibodyStepper", "contact_margin"): "contact_distance",
    ("MultibodyStepper", "factorisation"): "factoriser",
    ("RodShellStepper", "iterations"): "max_iterations",
    ("ProjectiveShapeSolver", "contact_offset"): "contact_distance",
}
KEPT_OBJECTS = ("robot", "environment", "solver", "extra", "actuation", "provenance")
_STATE = "state."
MAX_COORDINATE_M = 1e6  # m: no robot and no way of one is larger; differences of such places still tell 0.1 nm
_POSITIVE = ("volume_ratios", "chamber_volumes", "cable_lengths", "body_volume_ratio")
_COUNTS = ("contact_count", "crossings", "inverted_elements")
_NOT_NEGATIVE = ("cable_tensions", "max_penetration", "residual", *_COUNTS)
_PLACES = {
    "times": Numbers(("k",)),
    "frames": Numbers(("k", "n", 3), least=-MAX_COORDINATE_M, most=MAX_COORDINATE_M),
    "mid_edge_frames": Numbers(("k", "e", 3), least=-MAX_COORDINATE_M, most=MAX_COORDINATE_M),
}


def _measure(name: str, axes: tuple[str, ...]) -> Numbers:
    """What a file holds of a measure of `FIELDS`."""
    least = np.nextafter(0.0, 1.0) if name in _POSITIVE else 0.0 if name in (*_NOT_NEGATIVE, "stable") else -np.inf
    shape = ("k", *(int(axis) if axis.isdigit() else axis for axis in axes))
    whole, most = name in (*_COUNTS, "stable"), 1.0 if name == "stable" else np.inf
    return Numbers(shape, whole=whole, least=least, most=most, gaps=True, needed=False)


_ARRAYS = {
    **_PLACES,
    "obstacle_held": Numbers(("k", "o"), whole=True, least=0, most=1, needed=False),
    **{name: _measure(name, axes) for name, axes in FIELDS.items()},
}
HELD = {**{f"result.{name}": numbers for name, numbers in _ARRAYS.items()}, "": ANYTHING}


class Header(BaseModel):
    """What a result file says beside its arrays."""

    format: int
    geosim: str
    status: str
    message: str
    converged: StrictBool
    trace: str
    robot: Any
    environment: Any
    solver: Any = None
    extra: Any = None
    actuation: Any = None
    provenance: Any = None


def _held(header: Header) -> dict[str, Numbers]:
    if header.format > ARCHIVE_FORMAT:
        raise InputError(f"written by geosim {header.geosim}, newer than this {geosim.__version__}; upgrade")
    return HELD


RESULT = Layout("result", "write one with Result.save", "header", Header, _held)


class _Encoder:
    """Turns values into JSON, with arrays set aside by name."""

    def __init__(self, robot: Any) -> None:
        self.robot = robot
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "biuf":
                raise InputError(f"save: {where} is an array of {value.dtype}, which a result file does not hold")
            self.arrays[where] = value
            return {"array": where}
        if isinstance(value, (tuple, list)):
            return {"list": [self.encode(v, f"{where}.{i}") for i, v in enumerate(value)]}
        if isinstance(value, Mapping):
            return {"map": [[self.encode(k, where), self.encode(v, f"{where}.{k}")] for k, v in value.items()]}
        if isinstance(value, Enum):
            return self.encode(value.value, where)
        if isinstance(value, Select):
            return self._selected(value, where)
        if isinstance(value, Design | RodDesign):
            known = value.name in names()
            return {"design": value.name, "parameters": self.encode(dict(value.parameters), where)} if known else None
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(value, where)
        if callable(value):
            if where.endswith((".where", ".vertices")):
                return self._selected(value, where)
            return {"callable": getattr(value, "__qualname__", type(value).__name__)}
        raise InputError(f"save: {where} is a {type(value).__name__}, which a result file does not hold")

    def _object(self, value: Any, where: str) -> Any:
        name = type(value).__name__
        if getattr(geosim, name, None) is not type(value):
            raise InputError(f"save: {where} is a {name}, which is not a public data type of geosim")
        kept = {
            f.name: self.encode(getattr(value, f.name), f"{where}.{f.name}")
            for f in dataclasses.fields(value)
            if f.init
        }
        return {"type": name, "fields": kept}

    def _selected(self, value: Any, where: str) -> Any:
        ids = selected_ids(value, self.robot.vertices, where, among=self.robot.body_vertices)
        return self.encode(np.array(ids), where)


def _decode(value: Any, arrays: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "list" in value:
        return tuple(_decode(v, arrays) for v in value["list"])
    if "map" in value:
        return {k: _decode(v, arrays) for k, v in value["map"]}
    if "callable" in value:
        return None
    if "design" in value:
        return make(value["design"], **_decode(value["parameters"], arrays))
    name = value["type"]
    kind = getattr(geosim, name, None)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise InputError(f"{name!r} is not a data type of this geosim {geosim.__version__}")
    fields = {k: _decode(v, arrays) for k, v in value["fields"].items()}
    given = {EARLIER_NAMES.get((name, k), k): v for k, v in fields.items()}
    known = {f.name for f in dataclasses.fields(kind) if f.init}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"{name} has no {unknown[0]!r} in this geosim {geosim.__version__}")
    return kind(**given)


def _plain(value: Any) -> Any:
    """What JSON knows instead of a value of numpy."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written to a trace")


def write_archive(result: Result, file: Any) -> None:
    """Write a complete result to an open binary file, see `load_result`.

    Raises
    ------
    InputError
        The result holds something that a file cannot, named in the message.
    """
    encoder = _Encoder(result.robot)
    header = {
        "format": ARCHIVE_FORMAT,
        "geosim": geosim.__version__,
        "status": result.status.name,
        "message": result.message,
        "converged": bool(result.converged),
        "trace": json.dumps([dict(record) for record in result.trace], default=_plain),
    }
    for name in KEPT_OBJECTS:
        header[name] = encoder.encode(getattr(result, name), name)
    # What does not apply is nan everywhere and need not be stored: the constructor fills it in again.
    arrays = {
        f"result.{name}": getattr(result, name)
        for name in _ARRAYS
        if name in _PLACES or np.isfinite(getattr(result, name)).any()
    }
    state = result.state
    kept: Mapping[str, Any] = state.arrays() if isinstance(state, Resumable) else {}
    arrays |= {f"{_STATE}{key}": np.asarray(value) for key, value in kept.items()}
    write_npz(file, RESULT, header, {**arrays, **encoder.arrays}, packed=False)


@guarded
def load_result(path: str | Path) -> Result:
    """Read a result that was saved as .npz.

    Parameters
    ----------
    path
        File written by `Result.save("....npz")`.

    Returns
    -------
    Result
        Equal to the one saved: frames, measures, robot, environment, solver options, trace. A solve of rods, shells or
        snakes goes on from it exactly (`initial=`); it holds no state of other solvers.

    Raises
    ------
    InputError
        The file is missing, damaged, no geosim result, or of a newer geosim.
    """
    path = readable(path)
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; name the result in it, {path / 'result.npz'}")
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: a complete result is an .npz file; {path.suffix or 'this'} holds only a part of it")
    header, arrays, sealed = read_npz(path, RESULT)
    try:
        result = _build(header, arrays)
        check_result(result)
        if not sealed:
            check_unsealed(result)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise InputError(f"{path}: the result file is damaged ({kind}: {' '.join(str(error).split())[:200]})") from None
    return result


def _build(header: Header, arrays: dict[str, Any]) -> Result:
    parts: dict[str, Any] = {name: _decode(getattr(header, name), arrays) for name in KEPT_OBJECTS}
    if not isinstance(parts["environment"], Environment):
        raise InputError(f"environment = {shown(parts['environment'])} is not an Environment")
    parts = {name: value for name, value in parts.items() if value is not None}
    parts |= {name: arrays.get(f"result.{name}") for name in _ARRAYS}
    status = Status[choice(header.status, "status", Status.__members__)]
    result = Result(status, header.message, header.converged, trace=tuple(json.loads(header.trace)), **parts)
    kept = {key.removeprefix(_STATE): value for key, value in arrays.items() if key.startswith(_STATE)}
    if kept and len(result.frames):
        last = Frame(result.frames[-1], float(result.times[-1]))
        result = dataclasses.replace(result, state=SavedState(result.robot, last, kept))
    return result


def check_result(result: Result) -> None:
    """Refuse a result whose parts do not go together.

    Raises
    ------
    InputError
        Which, with the value.
    """
    n, k = len(result.robot.vertices), len(result.times)
    if result.frames.shape != (k, n, 3):
        raise InputError(f"frames have shape {result.frames.shape} for {k} times and {n} vertices")
    middle = result.mid_edge_frames.shape
    if middle not in ((k, 0, 3), (k, len(result.robot.p2_edges), 3)):
        raise InputError(f"mid_edge_frames have shape {middle} for {len(result.robot.p2_edges)} edges")
    if (np.diff(result.times) <= 0).any():
        raise InputError("times do not increase")
    reached_statuses = (
        Status.CONVERGED, Status.ENERGY_GROWTH, Status.UNSTABLE, Status.CROSSED, Status.INVERTED,
    )  # fmt: skip
    if result.converged and (result.status not in reached_statuses or not k):
        raise InputError(f"it is said to have converged, with status {result.status.name} and {k} frames")


def check_unsealed(result: Result) -> None:
    """Refuse a result without a digest whose measures are not those of its frames.

    Raises
    ------
    InputError
        Which, with the value.
    """
    k, nodes = len(result.frames), result.frames[:, result.robot.tip]
    tip = np.einsum("t,ktd->kd", result.robot.tip_weights, nodes)
    size = float(np.ptp(result.robot.vertices, axis=0).max())
    off = np.abs(result.tip - tip)[np.isfinite(result.tip)]
    tip_tolerance_rel = 1e-9  # of the robot's size: the tip was computed from the same numbers
    if off.size and off.max() > tip_tolerance_rel * size:
        raise InputError(f"tip is {off.max():g} m away from where the frames have it")
    if result.status is Status.CONVERGED and np.nanmax(result.crossings, initial=0.0) > 0.0:
        raise InputError(f"crossings = {np.nanmax(result.crossings):g}, and its status is CONVERGED")
    for name, values in result.extra.items():
        if isinstance(values, np.ndarray) and values.shape[:1] != (k,):
            raise InputError(f"extra.{name} has shape {values.shape} for {k} frames")
