"""What stands about a robot in pictures: obstacles, contact forces as arrows, cables."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints, axes_along
from geosim.collision.shapes import kind_of
from geosim.result import Result
from geosim.show.cables import cable_points, cable_surface
from geosim.show.colors import CABLE, FORCE, OBSTACLE
from geosim.show.tubes import band


def contact_pressures(result: Result, frame: int) -> Floats | None:
    """Contact pressure on the vertices of a frame [Pa], shape (n,); None where nothing touches."""
    given = result.extra.get("contact_pressures")
    if given is None or not np.isfinite(given[frame]).all() or not np.any(given[frame]):
        return None
    return np.asarray(given[frame], dtype=float)


def obstacle_surfaces(result: Result, frame: int, around: Any) -> list[tuple[Any, Any]]:
    """Surfaces of the obstacles that are there in a frame, at their poses: points [m] (p, 3) and triangles (t, 3) of each.

    A plane is a square under the positions `around` (n, 3).
    """
    out = []
    there = zip(result.environment.obstacles, result.obstacle_poses[frame], result.obstacle_held[frame])
    for obstacle, pose in ((obstacle, pose) for obstacle, pose, held in there if held):
        points, faces = kind_of(obstacle.shape).surface(obstacle.parameters, around)
        out.append((points @ pose[:3, :3].T + pose[:3, 3], faces))
    return out


ARROW_REL = 0.2  # length of the arrow of the largest force over the size of the robot
OBSTACLE_OPACITY = 0.45  # what they hide is seen through them


def surroundings(
    result: Result, frame: int, around: Floats, size: float, newtons: float = 0.0
) -> list[tuple[str, float, Floats, Ints]]:
    """Obstacles, arrows of contact forces and cables of a frame: colour, opacity, points [m], triangles of each.

    Parameters
    ----------
    around
        Positions [m] (n, 3) that the robot fills, under which planes are drawn.
    size, newtons
        As of `force_arrows`.
    """
    arrows, ways = force_arrows(result, frame, size, newtons), cable_points(result, frame)
    shown = [(OBSTACLE, OBSTACLE_OPACITY, *surface) for surface in obstacle_surfaces(result, frame, around)]
    shown += [(FORCE, 1.0, *arrows)] if len(arrows[1]) else []
    shown += [(CABLE, 1.0, *cable_surface(result.robot, ways))] if ways else []
    return [(color, opacity, np.asarray(points), np.asarray(faces)) for color, opacity, points, faces in shown]


def largest_force(result: Result, frame: int) -> float:
    """Largest contact force that an arrow of a frame shows [N]; 0 where nothing touches."""
    return float(np.linalg.norm(_gathered(result, frame)[1], axis=1).max(initial=0.0))


def force_arrows(result: Result, frame: int, size: float, newtons: float) -> tuple[Floats, Ints]:
    """Arrows of the contact forces on the vertices of a frame, as one surface: points (p, 3) and triangles (t, 3).

    Forces of neighbouring vertices are summed until at most 60 are left. An arrow of `newtons` (0: of the largest) is
    a fifth of `size` [m] long. Arrows end where they press.
    """
    places, forces = _gathered(result, frame)
    lengths = np.linalg.norm(forces, axis=1)
    newtons = newtons or float(lengths.max(initial=0.0))
    keep = lengths > 0.03 * newtons
    places, ways, lengths = places[keep], forces[keep] / lengths[keep, None], ARROW_REL * size * lengths[keep] / newtons
    radius, arrow_sides = 0.004 * size, 8
    heads = np.minimum(0.45 * lengths, 5.0 * radius)
    angle = 2.0 * np.pi * np.arange(arrow_sides) / arrow_sides
    across = np.array([axes_along(way)[:, :2] for way in ways]).reshape(-1, 3, 2)
    circle = np.einsum("mdk,ks->msd", across, [np.cos(angle), np.sin(angle)])
    rings = [
        (places - behind[:, None] * ways)[:, None] + share * radius * circle
        for behind, share in ((lengths, 0.6), (heads, 0.6), (heads, 1.8))
    ]
    points = np.concatenate([*rings, places[:, None]], axis=1)
    ids = np.arange(points.size // 3).reshape(points.shape[:2])
    starts, ahead = ids[:, 0 : 2 * arrow_sides : arrow_sides].ravel(), np.zeros(2 * len(ids), dtype=bool)
    last, tips = ids[:, 2 * arrow_sides : -1], np.broadcast_to(ids[:, -1:], (len(ids), arrow_sides))
    cones = np.stack([last, np.roll(last, -1, axis=1), tips], axis=2).reshape(-1, 3)
    return points.reshape(-1, 3), np.concatenate([band(starts, starts + arrow_sides, arrow_sides, ahead), cones])


def _gathered(result: Result, frame: int) -> tuple[Floats, Floats]:
    """Places and sums of the contact forces in cells of a grid, as coarse as it takes to leave few."""
    forces = np.nan_to_num(result.contact_forces[frame])
    used = np.flatnonzero(np.linalg.norm(forces, axis=1) > 0)
    places, forces = result.frames[frame][used], forces[used]
    if not len(used):
        return places, forces
    span = float(np.ptp(places, axis=0).max()) or 1.0
    max_arrows = 60
    for cells in (64, 32, 16, 8, 4, 2, 1):
        keys = np.floor((places - places.min(axis=0)) / (span / cells * 1.0001)).astype(np.int64)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.ravel()
        if group.max() < max_arrows:
            break
    weight = np.linalg.norm(forces, axis=1)
    where, total = (
        np.stack([np.bincount(group, column).astype(float) for column in values.T], axis=1)
        for values in (weight[:, None] * places, forces)
    )
    return where / np.bincount(group, weight)[:, None], total
