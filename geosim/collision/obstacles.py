"""Signed distances of points to obstacles: closed forms for the primitives, a tree for meshes.

One call serves thousands of vertices at once; asking a collision library point by point costs more than an iteration
of the solver that needs the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from geosim.collision.queries import closest_points, winding_numbers
from geosim.collision.tree import Floats, build_tree
from geosim.environment import Obstacle
from geosim.errors import InputError

__all__ = ["signed_distances"]


def signed_distances(obstacle: Obstacle, points: Floats, pose: Floats | None = None,
                     reach: float = np.inf) -> tuple[Floats, Floats, Floats]:
    """Distance of points to an obstacle, with the nearest point of its surface and the outward normal there.

    Parameters
    ----------
    obstacle
        Any of `Obstacle.sphere`, `.cylinder`, `.box`, `.plane`, `.mesh`.
    points
        Positions [m], shape (p, 3).
    pose
        (4, 4) where the obstacle stands now relative to its definition; default there.
    reach
        Distance [m] beyond which a mesh need not be asked (inf is returned); primitives ignore it.

    Returns
    -------
    distance, nearest, normal
        [m] (p,), negative inside; [m] (p, 3); unit vectors (p, 3) pointing out of the obstacle.
    """
    turn, move = (np.eye(3), np.zeros(3)) if pose is None else (pose[:3, :3], pose[:3, 3])
    local = (np.asarray(points, dtype=float) - move) @ turn
    kinds: dict[str, Callable[..., tuple[Floats, Floats]]] = {
        "sphere": _sphere, "cylinder": _cylinder, "box": _box, "plane": _plane}
    if obstacle.shape in kinds:
        distance, normal = kinds[obstacle.shape](local, **obstacle.parameters)
        nearest = local - distance[:, None] * normal
    elif obstacle.shape == "mesh":
        distance, nearest, normal = _mesh(local, reach, **obstacle.parameters)
    else:
        raise InputError(f"obstacle: shape {obstacle.shape!r} has no signed distance")
    return distance, nearest @ turn.T + move, normal @ turn.T


def _unit(vectors: Floats, length: Floats, otherwise: Floats) -> Floats:
    """Vectors over their lengths; `otherwise` where the length vanishes."""
    safe = np.where(length > 1e-300, length, 1.0)
    return np.where((length > 1e-300)[:, None], vectors / safe[:, None], otherwise)


def _sphere(p: Floats, center: Floats, radius: float) -> tuple[Floats, Floats]:
    away = p - center
    length = np.linalg.norm(away, axis=1)
    return length - radius, _unit(away, length, np.array([0.0, 0.0, 1.0]))


def _plane(p: Floats, point: Floats, normal: Floats) -> tuple[Floats, Floats]:
    n = normal / np.linalg.norm(normal)
    return (p - point) @ n, np.broadcast_to(n, p.shape)


def _box(p: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    half, center = 0.5 * (upper - lower), 0.5 * (upper + lower)
    q = p - center
    sign = np.where(q >= 0, 1.0, -1.0)
    return _from_slabs(np.abs(q) - half, [sign[:, [i]] * np.eye(3)[i] for i in range(3)])


def _cylinder(p: Floats, start: Floats, end: Floats, radius: float) -> tuple[Floats, Floats]:
    axis = end - start
    half = 0.5 * np.linalg.norm(axis)
    axis = axis / np.linalg.norm(axis)
    q = p - 0.5 * (start + end)
    along = q @ axis
    across = q - along[:, None] * axis
    length = np.linalg.norm(across, axis=1)
    side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    outward = _unit(across, length, side / np.linalg.norm(side))
    ends = np.where(along >= 0, 1.0, -1.0)[:, None] * axis
    return _from_slabs(np.stack([length - radius, np.abs(along) - half], axis=1), [outward, ends])


def _from_slabs(depth: Floats, directions: list[Floats]) -> tuple[Floats, Floats]:
    """Distance and normal of a convex body of perpendicular slabs: `depth` (p, k) beyond each, outward directions."""
    outside = np.maximum(depth, 0.0)
    away = np.sum([outside[:, [i]] * d for i, d in enumerate(directions)], axis=0)
    beyond = np.linalg.norm(away, axis=1)
    nearest = np.argmax(depth, axis=1)
    inward = np.stack(directions, axis=1)[np.arange(len(depth)), nearest]
    out = beyond > 0
    normal = np.where(out[:, None], _unit(away, beyond, inward), inward)
    return np.where(out, beyond, depth.max(axis=1)), normal


def _mesh(p: Floats, reach: float, vertices: Floats, faces: np.ndarray) -> tuple[Floats, Floats, Floats]:
    tree = build_tree(vertices, faces)
    lower, upper = tree.boxes[0, :3], tree.boxes[0, 3:]
    near = np.flatnonzero(np.all((p >= lower - reach) & (p <= upper + reach), axis=1))
    distance, nearest, normal = np.full(len(p), np.inf), p.copy(), np.tile([0.0, 0.0, 1.0], (len(p), 1))
    if len(near) == 0:
        return distance, nearest, normal
    point, face = closest_points(p[near], vertices, tree)
    turns = np.empty(len(near))
    winding_numbers(p[near], np.array(vertices), np.array(faces), turns)
    inside = turns > 0.5
    away = p[near] - point
    length = np.linalg.norm(away, axis=1)
    a, b, c = (vertices[faces[face, i]] for i in range(3))
    flat = np.cross(b - a, c - a)
    flat = flat / np.linalg.norm(flat, axis=1)[:, None]
    sign = np.where(inside, -1.0, 1.0)
    distance[near] = sign * length
    nearest[near] = point
    normal[near] = _unit(sign[:, None] * away, length, flat)
    touching = length < 1e-12 * float(np.linalg.norm(upper - lower))
    normal[near[touching]] = flat[touching]
    return distance, nearest, normal
