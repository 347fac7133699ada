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

__all__ = ["curvatures", "signed_distances", "thickness"]


def signed_distances(
    obstacle: Obstacle, points: Floats, pose: Floats | None = None, reach: float = np.inf
) -> tuple[Floats, Floats, Floats]:
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
        "sphere": _sphere,
        "cylinder": _cylinder,
        "box": _box,
        "plane": _plane,
    }
    if obstacle.shape in kinds:
        distance, normal = kinds[obstacle.shape](local, **obstacle.parameters)
        nearest = local - distance[:, None] * normal
    elif obstacle.shape == "mesh":
        distance, nearest, normal = _mesh(local, reach, **obstacle.parameters)
    else:
        raise InputError(f"obstacle: shape {obstacle.shape!r} has no signed distance")
    return distance, nearest @ turn.T + move, normal @ turn.T


def curvatures(
    obstacle: Obstacle, points: Floats, distance: Floats, normal: Floats, nearest: Floats, pose: Floats | None = None
) -> Floats:
    """Second derivatives of the signed distance [1/m] at points, shape (p, 3, 3).

    Parameters
    ----------
    obstacle, points, pose
        As for `signed_distances`.
    distance, normal, nearest
        What it returned for them.
    """
    turn, move = (np.eye(3), np.zeros(3)) if pose is None else (pose[:3, :3], pose[:3, 3])
    p, n = (points - move) @ turn, normal @ turn
    across = np.eye(3) - n[:, :, None] * n[:, None, :]
    given = obstacle.parameters
    local = np.zeros((len(p), 3, 3))
    far = np.where(np.abs(distance) > 1e-300, distance, np.inf)[:, None, None]
    if obstacle.shape == "sphere":
        local = across / np.maximum(distance + given["radius"], 1e-300)[:, None, None]
    elif obstacle.shape == "box":
        beyond = np.maximum(np.maximum(given["lower"] - p, p - given["upper"]), 0.0) > 0
        active = beyond[:, :, None] * np.eye(3)
        local = np.where((beyond.sum(axis=1) > 1)[:, None, None], active - n[:, :, None] * n[:, None, :], 0.0) / far
    elif obstacle.shape == "cylinder":
        local = _cylinder_curvature(p, distance, n, **given)
    elif obstacle.shape == "mesh":
        tangent, kinks = _sharp_features((nearest - move) @ turn, **given)
        local = np.where((kinks > 0)[:, None, None], across - tangent[:, :, None] * tangent[:, None, :], 0.0) / far
    return turn @ local @ turn.T


def thickness(obstacle: Obstacle) -> float:
    """Depth [m] to which the nearest surface is certainly the one that was entered; inf for a half-space."""
    given = obstacle.parameters
    if obstacle.shape == "plane":
        return float("inf")
    if obstacle.shape == "sphere":
        return 0.5 * float(given["radius"])
    if obstacle.shape == "cylinder":
        return 0.5 * min(float(given["radius"]), 0.5 * float(np.linalg.norm(given["end"] - given["start"])))
    lower, upper = (
        (given["lower"], given["upper"])
        if obstacle.shape == "box"
        else (given["vertices"].min(axis=0), given["vertices"].max(axis=0))
    )
    return 0.2 * float((upper - lower).min())


def _cylinder_curvature(p: Floats, distance: Floats, n: Floats, start: Floats, end: Floats, radius: float) -> Floats:
    """The distance of two perpendicular slabs, of which the radial one is curved itself."""
    axis = (end - start) / np.linalg.norm(end - start)
    half = 0.5 * np.linalg.norm(end - start)
    q = p - 0.5 * (start + end)
    along = q @ axis
    across = q - along[:, None] * axis
    rho = np.maximum(np.linalg.norm(across, axis=1), 1e-300)
    outward = across / rho[:, None]
    hoop = (np.eye(3) - axis[:, None] * axis - outward[:, :, None] * outward[:, None, :]) / rho[:, None, None]
    radial, axial = rho - radius > 0, np.abs(along) - half > 0
    share = np.einsum("pi,pi->p", n, outward)
    both = (radial & axial)[:, None, None]
    corner = outward[:, :, None] * outward[:, None, :] + axis[:, None] * axis - n[:, :, None] * n[:, None, :]
    safe = np.where(both, np.where(distance > 1e-300, distance, np.inf)[:, None, None], 1.0)
    return share[:, None, None] * hoop + np.where(both, corner / safe, 0.0)


def _sharp_features(nearest: Floats, vertices: Floats, faces: np.ndarray) -> tuple[Floats, np.ndarray]:
    """Direction of the edge that a nearest point lies on (zero at corners and in faces); 0 in a face, 1 edge, 2 corner."""
    _, face = closest_points(nearest, vertices, build_tree(vertices, faces))
    corners = vertices[faces[np.maximum(face, 0)]]
    tangent, kinks = np.zeros_like(nearest), np.zeros(len(nearest), dtype=int)
    for i in range(3):
        a, b = corners[:, i], corners[:, (i + 1) % 3]
        side = b - a
        length = np.linalg.norm(side, axis=1)
        along = np.einsum("pi,pi->p", nearest - a, side) / length**2
        off = np.linalg.norm(nearest - a - along[:, None] * side, axis=1) < 1e-9 * length
        inner = off & (along > 1e-9) & (along < 1 - 1e-9)
        tangent[inner], kinks[inner] = side[inner] / length[inner, None], 1
        kinks[off & ~inner] = 2
    return tangent, kinks


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
