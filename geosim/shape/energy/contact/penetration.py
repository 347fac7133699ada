"""Penetration of obstacles into a robot, measured on the curved surface and not at contact points.

Every face of the skin near an obstacle is split finely where it curves, and searched for its deepest point. What lies inside
the skin as a whole touches no face; it is told by the winding number of the skin about points of the obstacle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.shapes import signed_distances
from geosim.geometry import topology
from geosim.geometry.shells import winding_numbers
from geosim.model.environment import Obstacle
from geosim.shape.energy.contact.faces import lowest


def deepest_penetration(
    obstacles: Sequence[Obstacle],
    poses: Floats,
    nodes: Floats,
    first: Floats,
    rest: Floats,
    faces6: Ints,
    feels: Bools,
    *,
    straight: bool = False,
) -> float:
    """Return the deepest penetration [m] of any obstacle, beyond what it overlapped at the start.

    Of one that lies inside the robot as a whole it is at least `Obstacle.thickness`, and no more is said.

    Parameters
    ----------
    obstacles, poses, first
        What penetrates, where it is now and where it stood at the start, (o, 4, 4).
    nodes, rest
        Positions of the robot's nodes [m] now and at rest, (n, 3).
    faces6
        Nodes of the faces of the skin, (f, 6).
    feels
        Which faces feel obstacles, bool (f,): what is clamped may be in its mount.
    straight
        Whether all mid-edges lie between their ends: then a face is flat.
    """
    # a curved face is split into 4^flat_split_level triangles: a face sags by an eighth of an edge at most, they by a 128th;
    # a flat one is where the obstacle is not convex, whose deepest point is searched from a grid on every triangle
    flat_split_level = 2
    tie_spring_rel = 1e-6  # springs that choose among equally deep points of a triangle, over its size
    worst = 0.0
    corners = nodes[faces6]
    size = np.linalg.norm(corners - corners[:, :1], axis=2).max(axis=1)
    for obstacle, pose, before in zip(obstacles, poses, first):
        reach = float(size.max(initial=0.0))
        distance = signed_distances(obstacle.solid, nodes, pose, reach)[0]
        near = faces6[feels & (distance[faces6].min(axis=1) < size)]
        if len(near):
            level = 0 if straight and obstacle.solid.convex[0] else flat_split_level
            samples, triangles, _, _ = topology.interpolate_p2(nodes, near, level)
            small = size.min() * 2.0**-level
            depth, weights, _ = lowest(
                obstacle.solid, samples[triangles], pose, np.full(len(triangles), tie_spring_rel * small)
            )
            inside = depth < 0.0
            corners = topology.interpolate_p2(rest, near, level)[0][triangles[inside]]
            was = signed_distances(obstacle.solid, np.einsum("ki,kij->kj", weights[inside], corners), before)[0]
            worst = max(worst, float(np.max(np.minimum(was, 0.0) - depth[inside], initial=0.0)))
        if obstacle_inside(obstacle, pose, nodes, faces6):
            worst = max(worst, obstacle.thickness)
    return worst


def obstacle_inside(obstacle: Obstacle, pose: Floats, nodes: Floats, faces6: Ints) -> bool:
    """Whether an obstacle lies wholly within the skin, (f, 6) nodes of curved faces."""
    inside_test_points = 64  # points of an obstacle that are asked whether they lie inside the skin
    if not np.isfinite(obstacle.thickness):
        return False
    used = nodes[np.unique(faces6)]
    distance, nearest, _ = signed_distances(obstacle.solid, used, pose)
    closest = np.argsort(distance, kind="stable")[: inside_test_points // 2]
    points = nearest[np.union1d(closest, np.linspace(0, len(used) - 1, inside_test_points // 2).astype(np.int64))]
    if (points < used.min(axis=0)).any() or (points > used.max(axis=0)).any():
        return False
    corners = faces6[:, [0, 3, 5, 3, 1, 4, 5, 4, 2, 3, 4, 5]].reshape(-1, 3)
    # one after the other: nearly always the first is outside already
    return all(winding_numbers(point[None], nodes, corners)[0] > 0.5 for point in points)


def passed_through(obstacles: Sequence[Obstacle], depth: float) -> bool:
    """Whether a penetration [m] is so deep that an obstacle has gone through the surface, or lies inside."""
    # of its own thickness: contact stops at a hundredth of an edge, so what is so deep was not stopped
    passed_through_share = 0.5
    return depth > passed_through_share * min((o.thickness for o in obstacles), default=np.inf)
