"""The complete result as one .npz: arrays as they are, everything else as JSON, nothing executable.

Objects are written as the name of a public geosim data type and its fields, and built again through its
constructor, so that what is read has been validated. A callable (an `on_frame` hook) cannot be kept: it comes back as
None. Rules that select vertices are kept as the ids that they select. The design of a robot is kept as its generator's name
and parameters, and made again.

What is read is checked first: shapes, finite numbers, signs, and a status that fits them.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim.arguments import current_names, guarded
from geosim.arrays import choice
from geosim.errors import InputError
from geosim.generate import GENERATORS, Design, make
from geosim.model.contract import Frame, Resumable, SavedState, Status
from geosim.model.environment import Environment
from geosim.model.select import Select, selected_ids
from geosim.resources import check_sizes, readable
from geosim.result import FIELDS, Result

ARCHIVE_FORMAT = 1
KEPT_OBJECTS = ("robot", "environment", "solver", "extra", "actuation", "provenance")
_STATE = "state."
_ARRAYS = ("times", "frames", "mid_edge_frames", "obstacle_held", *FIELDS)


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
        if isinstance(value, Design):
            known = value.name in GENERATORS
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
    given = current_names(kind, fields, said=False)  # nobody can rename what an earlier version kept
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
        if name in ("times", "frames", "mid_edge_frames") or np.isfinite(getattr(result, name)).any()
    }
    state = result.state
    kept: Mapping[str, Any] = state.arrays() if isinstance(state, Resumable) else {}
    arrays |= {f"{_STATE}{key}": np.asarray(value) for key, value in kept.items()}
    np.savez(file, header=np.array(json.dumps(header)), **arrays, **encoder.arrays)


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
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: a complete result is an .npz file; {path.suffix or 'this'} holds only a part of it")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: not a file")
    # Times its length on the disk that a result file may hold: arrays of positions are packed to a half, of zeros to a
    # thousandth.
    most_zeros = 100.0
    try:
        check_sizes(path, most_zeros)
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such result file") from None
    except (KeyError, AttributeError, TypeError):
        raise InputError(f"{path}: this .npz is not a geosim result; write one with Result.save") from None
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path}: not a readable result file: {(str(error).splitlines() or [type(error).__name__])[0]}"
        ) from None
    written = header.get("format") if isinstance(header, dict) else None
    if isinstance(written, int) and written > ARCHIVE_FORMAT:
        raise InputError(
            f"{path}: written by geosim {header.get('geosim')}, newer than this {geosim.__version__}; upgrade"
        )
    return _build(path, header, arrays)


def _build(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> Result:
    try:
        check_header(header)
        check_arrays(arrays)
        problem: dict[str, Any] = {name: _decode(header[name], arrays) for name in KEPT_OBJECTS if name in header}
        if not isinstance(problem["environment"], Environment):
            raise InputError(f"environment = {str(problem['environment'])[:60]} is not an Environment")
        measures: dict[str, Any] = {name: arrays.get(f"result.{name}") for name in _ARRAYS}
        result = Result(
            status=Status[choice(header["status"], "status", Status.__members__)],
            message=header["message"],
            converged=header["converged"],
            trace=tuple(json.loads(header["trace"])),
            **problem,
            **measures,
        )
        check_result(result)
        kept = {key.removeprefix(_STATE): value for key, value in arrays.items() if key.startswith(_STATE)}
        if kept and len(result.frames):
            last = Frame(result.frames[-1], float(result.times[-1]))
            result = dataclasses.replace(result, state=SavedState(result.robot, last, kept))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise InputError(f"{path}: the result file is damaged ({kind}: {' '.join(str(error).split())[:200]})") from None
    return result


def check_header(header: Any) -> None:
    """Refuse a header that is no table, or whose words are none.

    Raises
    ------
    InputError
        What is wrong.
    """
    if not isinstance(header, dict):
        raise InputError("its header is no table")
    if not isinstance(header.get("message"), str) or not isinstance(header.get("converged"), bool):
        raise InputError("its message or its `converged` is missing, or of another type")


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays that are no numbers: dates, texts, complex ones.

    Raises
    ------
    InputError
        Which.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name} holds {array.dtype}, not numbers")
        if name in ("result.times", "result.frames", "result.mid_edge_frames") and not np.isfinite(array).all():
            raise InputError(f"{name} holds nan or inf")
        if name.startswith("result.") and np.isinf(array).any():
            raise InputError(f"{name} holds inf")


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
    positive_measures = ("volume_ratios", "chamber_volumes", "cable_lengths", "body_volume_ratio")
    non_negative_measures = (
        "cable_tensions",
        "max_penetration",
        "contact_count",
        "crossings",
        "inverted_elements",
        "residual",
    )
    for name in FIELDS:
        values = getattr(result, name)
        wrong = (
            values <= 0
            if name in positive_measures
            else values < 0
            if name in non_negative_measures
            else np.zeros(values.shape, bool)
        )
        if name == "stable":
            wrong = (values != 0) & (values != 1) & ~np.isnan(values)
        if wrong.any():
            raise InputError(f"{name} = {values[wrong][0]:g} is impossible")
    reached_statuses = (Status.CONVERGED, Status.ENERGY_GROWTH, Status.UNSTABLE, Status.CROSSED)
    if result.converged and (result.status not in reached_statuses or not k):
        raise InputError(f"it is said to have converged, with status {result.status.name} and {k} frames")
