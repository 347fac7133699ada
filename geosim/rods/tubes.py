"""Surfaces of rods and shells for pictures and files: tubes around the edges, triangles as they are."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.rods.frames import first_frames
from geosim.rods.robot import RodShellRobot

__all__ = ["tube_surface"]


def tube_surface(robot: RodShellRobot, positions: Floats, sides: int = 12) -> tuple[Floats, Ints, Ints]:
    """Return points [m] (p, 3), triangles (t, 3) and the robot vertex nearest to every point (p,).

    Every rod edge is a closed prism with `sides` faces and the radius of the rod, mitred where two edges meet in a
    vertex; shell triangles follow with their vertices.

    Parameters
    ----------
    robot
        A robot of rods and shells.
    positions
        Current positions [m], shape (n, 3), for example a frame of a result.
    sides
        Faces around a tube.
    """
    x = np.asarray(positions, dtype=float)
    edges = np.array(robot.edges[: robot.own_edges])
    e = x[edges[:, 1]] - x[edges[:, 0]]
    tangents = e / np.linalg.norm(e, axis=1)[:, None]
    first = first_frames(tangents, edges)
    second = np.cross(tangents, first)
    angle = 2 * np.pi * np.arange(sides) / sides
    ring = np.cos(angle)[:, None, None] * first + np.sin(angle)[:, None, None] * second  # (sides, E, 3)
    ring = np.swapaxes(ring, 0, 1) * np.asarray(robot.radius)[: len(edges), None, None]
    degree = np.bincount(edges.ravel(), minlength=len(x))
    points, triangles, owner = [], [], []
    for i, (a, b) in enumerate(edges):
        base = i * (2 * sides + 2)
        for vertex in (a, b):
            circle = x[vertex] + _mitred(ring[i], tangents, edges, degree, i, int(vertex))
            points += [circle, x[vertex][None]]
            owner += [vertex] * (sides + 1)
        near, far = base + np.arange(sides), base + sides + 1 + np.arange(sides)
        near_next, far_next = np.roll(near, -1), np.roll(far, -1)
        triangles += [
            np.stack([near, near_next, far_next], axis=1),
            np.stack([near, far_next, far], axis=1),
            np.stack([near_next, near, np.full(sides, base + sides)], axis=1),
            np.stack([far, far_next, np.full(sides, base + 2 * sides + 1)], axis=1),
        ]
    if len(robot.triangles):
        used, corner = np.unique(robot.triangles, return_inverse=True)
        triangles.append(corner.reshape(-1, 3) + len(owner))
        points.append(x[used])
        owner += used.tolist()
    return np.concatenate(points), np.concatenate(triangles).astype(np.int64), np.array(owner, dtype=np.int64)


def _mitred(ring: Floats, tangents: Floats, edges: Ints, degree: Ints, edge: int, vertex: int) -> Floats:
    """Move the points of a ring along its edge into the plane that halves the angle to the next edge."""
    if degree[vertex] != 2:
        return ring
    other = next(int(k) for k in np.flatnonzero((edges == vertex).any(axis=1)) if k != edge)
    along = tangents[edge] * (1.0 if edges[edge, 1] == vertex else -1.0)
    away = tangents[other] * (1.0 if edges[other, 0] == vertex else -1.0)
    normal = along + away
    sharp_turn_cosine = 0.5  # 1 + cosine of a turn, 120 degrees, from which on a mitre would be thrown far out
    if normal @ along < sharp_turn_cosine:
        return ring
    return ring - np.outer(ring @ normal / (normal @ along), along)
