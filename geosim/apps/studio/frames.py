"""Frames on the wire: a JSON header with the names, types and sizes of the arrays that follow it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from trimesh.util import append_faces

from geosim.generate import Design
from geosim.result import Result
from geosim.show.colors import CABLE
from geosim.show.contact import surroundings
from geosim.show.page import STILL_VIEW, drawn_surfaces, view_directions
from geosim.show.summary import summary_rows

__all__ = ["frame", "header", "packed", "rest", "unpacked"]

METRES_TO_MM = 1e3


def packed(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a header and arrays as one message; positions and fields in single precision, corners as 32 bit numbers."""
    parts, places = [], []
    for name, array in arrays.items():
        kind = "u4" if array.dtype.kind in "iu" else "f4"
        data = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
        places.append([name, kind, array.size])
        parts.append(data)
    text = json.dumps({**header, "arrays": places}, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join([struct.pack("<I", len(text)), text, *parts])


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of a message."""
    (length,) = struct.unpack_from("<I", message)
    header = json.loads(message[4 : 4 + length])
    at, arrays = 4 + length, {}
    for name, kind, count in header["arrays"]:
        arrays[name] = np.frombuffer(message, f"<{kind}", count, at)
        at += 4 * count
    return header, arrays


def header(number: int, level: str, step: int, steps: int, **more: Any) -> dict[str, Any]:
    """Return what is said of a frame: the number of its scene, how good it is, which of how many it is; and more."""
    place = {"say": "frame", "number": number, "level": level, "step": step, "steps": steps}
    return {**place, "now": True, "failed": False, **more}


def frame(result: Result, header: Mapping[str, Any], *, gauges: bool = True) -> bytes:
    """Return the last frame of a result with its fields, its obstacles and its row of the summary.

    Lengths in mm, stresses in kPa; without `gauges` the largest of them are left out, which take as long as all else.
    """
    i = result.checked_frame(-1)
    arrays: dict[str, np.ndarray] = {}
    surfaces = drawn_surfaces(result)
    for name, surface in surfaces.items():
        shown = surface.frame(i)
        arrays |= {f"{name}.triangles": surface.triangles, f"{name}.rest": surface.rest}
        arrays |= {f"{name}.{key}": values for key, values in shown.items()}
    body = arrays["body.rest"]
    every = np.vstack([body, arrays["body.points"]]) / METRES_TO_MM
    size = float(np.linalg.norm(np.ptp(every, axis=0)))
    if not surfaces["body"].solid:
        arrays = {name: values for name, values in arrays.items() if not name.endswith(("stretch", "stress"))}
    around = surroundings(result, i, every, size) if result.environment.obstacles or result.robot.cables else []
    if not result.environment.obstacles:  # not the forces where walls meet
        around = [surface for surface in around if surface[0] == CABLE]
    for k, (_, _, points, triangles) in enumerate(around):
        arrays |= {f"around{k}.points": METRES_TO_MM * points, f"around{k}.triangles": triangles}
    row = {
        k: v for k, v in summary_rows(result, gauges=gauges)[i].items() if not isinstance(v, float) or np.isfinite(v)
    }
    told = {
        **header,
        "row": row,
        "solid": surfaces["body"].solid,
        "around": [[color, opacity] for color, opacity, _, _ in around],
        "view": view_directions(result, body),
    }
    return packed(told, arrays)


def rest(design: Design, header: Mapping[str, Any]) -> bytes:
    """Return the rest shape of a design, before it is meshed."""
    arrays: dict[str, np.ndarray] = {}
    for name, surfaces in (("body", (design.body,)), ("walls", design.chambers)):
        if surfaces:
            points, triangles = append_faces([s.vertices for s in surfaces], [s.faces for s in surfaces])
            arrays |= {
                f"{name}.triangles": triangles[:, :: 1 if name == "body" else -1],
                f"{name}.rest": METRES_TO_MM * points,
            }
            arrays[f"{name}.points"] = arrays[f"{name}.rest"]
    told = {**header, "row": {}, "solid": False, "around": [], "view": STILL_VIEW}
    return packed(told, arrays)
