"""glTF binary (GLB): the skin of a result as morph targets and an animation, for Blender, slides and browsers.

    position = rest + sum_i w_i (shape_i - rest),      w_i linear between 1 at the time of shape i and 0 at those beside it,

for the shapes of all frames, and for more between them where there are few (`geosim.show.motion`). It begins at rest and takes
three seconds.

[glTF 2.0, sections 3.7.2.2 and 3.11]. Lengths in metres; the file's y axis is upwards as the format asks, so a node turns z to y.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.result import Result
from geosim.show import fields
from geosim.show.motion import MOTION_SECONDS, resampled

FLOAT_COMPONENT, UINT_COMPONENT = 5126, 5125  # component types of the format


def glb(result: Result, subdivide: int) -> bytes:
    """Return the file of all frames; curved faces are split `subdivide` times."""
    least_shapes = 12  # a finger that curls by a turn is then 30 degrees from one to the next
    times = result.times[result.times > 0.0] if len(result.times) > 1 else result.times
    between = np.linspace(0.0, times[-1], least_shapes + 1)[1:] if len(times) < least_shapes else times
    times = np.union1d(times, between[np.abs(between[:, None] - times).min(axis=1) > 1e-9 * times[-1]])
    moving = resampled(result, times)
    shown = [fields.shown_surface(moving, i, subdivide) for i in range(len(times))]
    used, triangles = np.unique(shown[0].triangles, return_inverse=True)
    rest = shown[0].rest[used]
    buffer = _Buffer()
    point_buffer, index_buffer = 34962, 34963  # targets of buffer views
    corners = buffer.add(triangles.astype("<u4").ravel(), "SCALAR", UINT_COMPONENT, index_buffer)
    base = buffer.add(rest, "VEC3", FLOAT_COMPONENT, point_buffer)
    targets = [{"POSITION": buffer.add(s.points[used] - rest, "VEC3", FLOAT_COMPONENT, point_buffer)} for s in shown]
    seconds_of = MOTION_SECONDS / max(times[-1], MIN_DIVISOR) * np.concatenate([[0.0], times])
    keys = buffer.add(seconds_of, "SCALAR", FLOAT_COMPONENT)
    weights = buffer.add(np.vstack([np.zeros(len(shown)), np.eye(len(shown))]).ravel(), "SCALAR", FLOAT_COMPONENT)
    upright_quaternion = [-(0.5**0.5), 0.0, 0.0, 0.5**0.5]  # quaternion x, y, z, w: a quarter of a turn about x
    rubber_material = {"baseColorFactor": [0.16, 0.45, 0.62, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.7}
    scene: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "geosim"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"name": result.robot.name, "mesh": 0, "rotation": upright_quaternion}],
        "materials": [{"pbrMetallicRoughness": rubber_material, "doubleSided": True}],
        "meshes": [
            {
                "primitives": [
                    {"attributes": {"POSITION": base}, "indices": corners, "material": 0, "targets": targets}
                ],
                "weights": [0.0] * len(shown),
            }
        ],
        "animations": [
            {
                "name": "frames",
                "samplers": [{"input": keys, "output": weights, "interpolation": "LINEAR"}],
                "channels": [{"sampler": 0, "target": {"node": 0, "path": "weights"}}],
            }
        ],
        "accessors": buffer.accessors,
        "bufferViews": buffer.views,
        "buffers": [{"byteLength": len(buffer.data)}],
    }
    return _joined([(b"JSON", json.dumps(scene).encode(), b" "), (b"BIN\0", bytes(buffer.data), b"\0")])


class _Buffer:
    """Arrays one after the other, and what the format says of each."""

    def __init__(self) -> None:
        self.data, self.views, self.accessors = bytearray(), list[dict[str, Any]](), list[dict[str, Any]]()

    def add(self, array: Floats | np.ndarray, kind: str, component: int, target: int | None = None) -> int:
        """Append an array and return its number."""
        values = array.astype("<f4") if component == FLOAT_COMPONENT else array
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": values.nbytes}
        self.views.append(view if target is None else {**view, "target": target})
        self.data += values.tobytes()
        flat = values.reshape(len(values), -1)
        accessor = {"bufferView": len(self.views) - 1, "componentType": component, "count": len(values), "type": kind}
        if component == FLOAT_COMPONENT:
            accessor |= {"min": flat.min(axis=0).tolist(), "max": flat.max(axis=0).tolist()}
        self.accessors.append(accessor)
        return len(self.accessors) - 1


def _joined(chunks: Sequence[tuple[bytes, bytes, bytes]]) -> bytes:
    """Header and chunks (type, content, what fills it up to four bytes)."""
    body = b""
    for kind, content, filler in chunks:
        content += filler * (-len(content) % 4)
        body += struct.pack("<I", len(content)) + kind + content
    return b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body
