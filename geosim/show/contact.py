"""What stands about a robot in pictures: obstacles, contact forces as arrows, cables."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints, axes_along
from geosim.collision.shapes import kind_of
from geosim.result import Result
from geosim.show.cables import cable_points, cable_surface
from geosim.show.colors import CABLE, FORCE, OBSTACLE


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


def surroundings(
    result: Result, frame: int, around: Floats, newtons: float = 0.0
) -> list[tuple[str, float, Floats, Ints]]:
    """Obstacles, arrows of contact forces and cables: colour, opacity, points [mm], triangles; the robot fills `around` [mm]."""
    size = float(np.linalg.norm(np.ptp(around, axis=0))) * 1e-3
    arrows = force_arrows(result, frame, size, newtons)
    shown = [(OBSTACLE, 0.55, *surface) for surface in obstacle_surfaces(result, frame, around * 1e-3)]
    shown += [(FORCE, 1.0, *arrows)] if len(arrows[1]) else []
    ways = cable_points(result, frame)
    shown += [(CABLE, 1.0, *cable_surface(result.robot, ways))] if ways else []
    return [(color, opacity, 1e3 * np.asarray(points), np.asarray(faces)) for color, opacity, points, faces in shown]


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
    points, triangles = [np.empty((0, 3))], [np.empty((0, 3), dtype=np.int64)]
    for place, force, length in zip(places[keep], forces[keep], lengths[keep]):
        arrow, around = _arrow(place, force / length, float(ARROW_REL * size * length / newtons), 0.004 * size)
        triangles.append(around + sum(len(p) for p in points))
        points.append(arrow)
    return np.vstack(points), np.vstack(triangles)


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
    total = np.zeros((group.max() + 1, 3))
    where = np.zeros_like(total)
    np.add.at(total, group, forces)
    np.add.at(where, group, weight[:, None] * places)
    return where / np.bincount(group, weight)[:, None], total


def _arrow(tip: Floats, direction: Floats, length: float, radius: float) -> tuple[Floats, Ints]:
    """A shaft and a head that ends at `tip`."""
    u, v, _ = axes_along(direction).T
    arrow_sides = 8
    angle = 2.0 * np.pi * np.arange(arrow_sides) / arrow_sides
    circle = np.cos(angle)[:, None] * u + np.sin(angle)[:, None] * v
    head = min(0.45 * length, 5.0 * radius)
    rings = [
        tip - length * direction + 0.6 * radius * circle,
        tip - head * direction + 0.6 * radius * circle,
        tip - head * direction + 1.8 * radius * circle,
    ]
    k = np.arange(arrow_sides)
    n = (k + 1) % arrow_sides
    faces = [np.stack([k + arrow_sides * r, n + arrow_sides * r, n + arrow_sides * (r + 1)], axis=1) for r in (0, 1)]
    faces += [
        np.stack([k + arrow_sides * r, n + arrow_sides * (r + 1), k + arrow_sides * (r + 1)], axis=1) for r in (0, 1)
    ]
    faces.append(np.stack([k + 2 * arrow_sides, n + 2 * arrow_sides, np.full(arrow_sides, 3 * arrow_sides)], axis=1))
    return np.vstack([*rings, tip[None]]), np.vstack(faces)
