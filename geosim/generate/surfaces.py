"""Closed surfaces of fixed connectivity: which vertices make a triangle depends on counts alone, never on dimensions.

Two constructions serve all designs: the boundary of some cells of a rectilinear grid, and a tube of rings whose ends
are closed by fans. A vertex is a smooth function of the dimensions then, and neighbouring designs differ in it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.geometry import shells

SEGMENTS = 32  # of a circle: 2 % of a radius deep, and edges of the size that a mesh of a finger has


def closed(vertices: Floats, faces: Ints) -> Any:
    """Trimesh of a closed surface, outward."""
    import trimesh

    outward = shells.signed_volume(vertices, faces) > 0.0
    return trimesh.Trimesh(vertices, faces if outward else faces[:, ::-1], process=False)


def cells(planes: Sequence[Floats | Sequence[float]], filled: Bools) -> Any:
    """Boundary of the filled cells of a grid.

    Parameters
    ----------
    planes
        Increasing coordinates of the grid's planes along x, y and z [m], each (planes,), or of its nodes (x, y, z planes; 1 where
        they are the same along an axis) where a plane has steps.
    filled
        Which cells are solid, shape (x planes - 1, y planes - 1, z planes - 1); no two of them meet in an edge alone.
    """
    shape = tuple(n + 1 for n in filled.shape)
    number = np.arange(np.prod(shape)).reshape(shape)
    solid = np.pad(filled, 1)
    quads = []
    for axis in range(3):
        inner = np.moveaxis(solid, axis, 0)[:, 1:-1, 1:-1].astype(int)
        step = np.diff(inner, axis=0)  # -1: the solid ends, its outside is ahead
        corner = np.moveaxis(number, axis, 0)
        ring = np.stack([corner[:, :-1, :-1], corner[:, 1:, :-1], corner[:, 1:, 1:], corner[:, :-1, 1:]], axis=-1)
        ahead = ring if axis != 1 else ring[..., ::-1]  # moving y to the front mirrors the other two
        quads += [ahead[step == -1], ahead[step == 1][:, ::-1]]
    corners = np.vstack(quads)
    faces = np.vstack([corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]])
    alone = np.eye(3, dtype=int) * (np.array(shape) - 1) + 1
    nodes = [np.reshape(p, alone[axis]) if np.ndim(p) == 1 else np.asarray(p) for axis, p in enumerate(planes)]
    grid = np.stack(np.broadcast_arrays(*nodes), axis=-1).reshape(-1, 3)
    return closed(*shells.compact(grid, faces))


def box(lower: tuple[float, ...], upper: tuple[float, ...]) -> Any:
    """Box between two corners [m]."""
    return cells(list(zip(lower, upper)), np.ones((1, 1, 1), dtype=bool))


def circle(radius: float, segments: int = SEGMENTS) -> Floats:
    """Corners (m, 2) of a regular polygon that has the area of a circle [m]."""
    turn = 2.0 * np.pi / segments
    angle = turn * np.arange(segments)
    return np.asarray(radius * np.sqrt(turn / np.sin(turn)) * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def sector(radius: float, count: int, inset: float, middle: float = 0.0, segments: int = SEGMENTS) -> Floats:
    """Corners (m, 2) of one of `count` >= 2 equal sectors of a disc, its straight sides moved in.

    The arc's corners lie where the polygon has the area of the rounded sector. The middle of the sector is at the angle
    `middle` [rad]; the inset [m] is half of a wall between two sectors. A whole circle would have `segments` corners.
    """
    half = np.pi / count - np.arcsin(inset / radius)
    steps = segments // count
    sine = np.sin(2.0 * half / steps)
    # steps - 2 triangles between inner corners at rho, two that end at the radius: their areas add up to that of the arc
    a, b, c = 0.5 * (steps - 2) * sine, radius * sine, radius**2 * half
    rho = np.full(steps + 1, (np.sqrt(b * b + 4.0 * a * c) - b) / (2.0 * a))
    rho[[0, -1]] = radius
    angle = np.concatenate([[0.0], np.linspace(-half, half, steps + 1)]) + middle
    distance = np.concatenate([[inset / np.sin(np.pi / count)], rho])
    return np.asarray(distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def tube(rings: Floats, turned: int = 0) -> Any:
    """Surface of rings (s, m, 3) [m], one after the other, closed by a fan about the centre of the first and of the last.

    Quads are split along one diagonal and the other in turn from ring to ring; where every ring is turned against the one
    before, in the order of its corners (`turned` = 1) or against it (-1), along the diagonal that is the shorter then.
    """
    s, m, _ = rings.shape
    i, j = (k.ravel() for k in np.meshgrid(np.arange(s - 1), np.arange(m), indexing="ij"))
    a, b = i * m + j, i * m + (j + 1) % m
    c, d = b + m, a + m
    even = (i % 2 == 0 if turned == 0 else np.full(len(i), turned < 0))[:, None]
    first = np.where(even, np.stack([a, b, c], axis=1), np.stack([a, b, d], axis=1))
    second = np.where(even, np.stack([a, c, d], axis=1), np.stack([b, c, d], axis=1))
    k, after = np.arange(m), (np.arange(m) + 1) % m
    start = np.stack([np.full(m, s * m), after, k], axis=1)
    end = np.stack([np.full(m, s * m + 1), (s - 1) * m + k, (s - 1) * m + after], axis=1)
    vertices = np.vstack([rings.reshape(-1, 3), rings[0].mean(axis=0), rings[-1].mean(axis=0)])
    return closed(vertices, np.vstack([first, second, start, end]))
