"""A gripper: fingers that hang from a disc and close towards its axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.generate import limits
from geosim.generate.boxes import pneunet
from geosim.generate.design import Design, face_box, generator, plain
from geosim.generate.surfaces import circle, closed
from geosim.geometry import shells


@generator
def gripper(finger: Design | None = None, count: int = 3, radius: float = 35e-3, palm: float = 6e-3) -> Design:
    """Make a gripper: equal fingers hang (-z) from a disc, z = 0 .. palm, their bases towards its axis z.

    The disc stands out beyond the fingers by its thickness. The first finger stands at +x; its end is the tip.

    Parameters
    ----------
    finger
        Design of a finger along +x with its base at z = 0; default `pneunet()`.
    count
        Number of fingers, evenly round the axis.
    radius
        Distance of the bases from the axis [m].
    palm
        Thickness of the disc [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    finger = pneunet() if finger is None else finger
    if finger.layers:
        raise InputError("finger: fingers with layers cannot be put together yet; give layer = None")
    if np.ptp(finger.fixed_box[:, 0]) > 1e-3 * np.ptp(finger.body.bounds[:, 0]):  # a face is as thin as its box
        raise InputError(f"finger = {finger.name!r} is not held at its face x = 0, as what hangs from a palm is")
    limits.count(count=count)
    limits.length(radius=radius, palm=palm)
    lower, upper = finger.body.bounds
    if count > 2:
        limits.less(
            "finger width",
            upper[1] - lower[1],
            2 * radius * np.tan(np.pi / count),
            f"the room of {count} at the radius",
        )
    poses = [_pose(2 * np.pi * k / count, radius - lower[2], 0.5 * (lower[1] + upper[1])) for k in range(count)]
    bodies = [_posed(finger.body, pose) for pose in poses]
    reach = np.hypot(radius + upper[2] - lower[2], 0.5 * (upper[1] - lower[1])) + palm
    body = _united(bodies, reach, palm)
    corners = _moved(np.array([lower, upper]), poses[0])
    held = face_box(body, 2, -1)
    tip = face_box(body, 2, 0, [corners.min(axis=0), corners.max(axis=0)])
    cables = [
        replace(c, points=_moved(c.points, pose), name=f"{c.name} {k + 1}")
        for k, pose in enumerate(poses)
        for c in finger.cables
    ]
    return Design(
        body,
        tuple(_posed(surface, pose) for pose in poses for surface in finger.chambers),
        held,
        tip,
        fibres=tuple(replace(f, points=_moved(f.points, pose)) for pose in poses for f in finger.fibres),
        cables=tuple(cables),
        parameters=plain({"finger": finger}),
    )


def _pose(angle: float, radius: float, middle: float) -> Floats:
    """Matrix (3, 4) that hangs a finger: along it down, from its base to its chambers outward."""
    outward = np.array([np.cos(angle), np.sin(angle), 0.0])
    down = np.array([0.0, 0.0, -1.0])
    across = np.cross(outward, down)
    return np.column_stack([down, across, outward, radius * outward - middle * across])


def _moved(points: Floats, pose: Floats) -> Floats:
    return np.asarray(points) @ pose[:, :3].T + pose[:, 3]


def _posed(surface: Any, pose: Floats) -> Any:
    moved = surface.copy()
    moved.vertices = _moved(surface.vertices, pose)
    return moved


def _united(fingers: list[Any], radius: float, palm: float) -> Any:
    """One closed surface of a disc and the fingers below it: their roots are holes in its bottom."""
    from manifold3d import triangulate  # slow to import

    rim = circle(radius)
    vertices, faces = shells.joined(fingers)
    root = vertices[:, 2] == 0.0
    faces = faces[~root[faces].all(axis=1)]
    n, m = len(vertices), len(rim)
    bottom, top = n + np.arange(m), n + m + np.arange(m)
    points = np.vstack([vertices, np.insert(rim, 2, 0.0, axis=1), np.insert(rim, 2, palm, axis=1)])
    loops = [bottom, *_open_loops(faces)]
    order = np.concatenate(loops)
    # the plane is seen from above: the rim runs counter-clockwise, holes clockwise
    flat = order[np.asarray(triangulate([points[loop, :2] for loop in loops]), dtype=np.int64)][:, ::-1]
    after = np.roll(np.arange(m), -1)
    side = [np.stack([bottom, bottom[after], top[after]], axis=1), np.stack([bottom, top[after], top], axis=1)]
    lid = np.stack([np.full(m - 2, top[0]), top[1:-1], top[2:]], axis=1)
    return closed(*shells.compact(points, np.vstack([faces, flat, *side, lid])))


def _open_loops(faces: Ints) -> list[Ints]:
    """Vertices round the holes of a surface, in the sense in which its triangles run."""
    edges = {(int(a), int(b)) for f in faces for a, b in zip(f, np.roll(f, -1))}
    follow = {a: b for a, b in edges if (b, a) not in edges}
    loops = []
    while follow:
        start, at = next(iter(follow.items()))
        loop = [start]
        del follow[start]
        while at != start:
            loop.append(at)
            at = follow.pop(at)
        loops.append(np.array(loop))
    return loops
