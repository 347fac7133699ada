"""Contact points of rods: all vertices, and fixed points inside edges that are long for obstacles they may meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.shapes import kind_of
from geosim.model.environment import Obstacle
from geosim.rods.robot import RodShellRobot


class Points(NamedTuple):
    """Points of rods that feel obstacles: (1 - share) of vertex `first`, share of vertex `second`.

    `edge` is that on which they lie, -1 for vertices; `radius` [m]; `only` says which obstacles (o,) they feel.
    """

    first: Ints
    second: Ints
    share: Floats
    edge: Ints
    radius: Floats
    only: Bools

    def at(self, x: Floats) -> Floats:
        """Return their places for places of the vertices (n, 3), or any other vectors of theirs."""
        if self.edge[0] < 0:  # all vertices
            return np.ascontiguousarray(x)
        t = self.share[:, None]
        return np.ascontiguousarray((1.0 - t) * x[self.first] + t * x[self.second])


def contact_points(robot: RodShellRobot, obstacles: Sequence[Obstacle], radius: Floats) -> list[Points]:
    """Return the vertices, in contact at `radius` (n,) [m], and points inside edges of rods too long for what is sharp."""
    count = len(radius)
    own, all_of = np.arange(count), np.ones(len(obstacles), dtype=bool)
    points = [Points(own, own, np.zeros(count), np.full(count, -1), radius, all_of)]
    max_sagitta_radii = 0.05  # of the radius that an edge between two points may sink into a round obstacle
    least_radii = np.array([kind_of(o.shape).least_radius(o.parameters) for o in obstacles])
    for spacing in np.unique(least_radii[least_radii < np.inf]):
        only = least_radii == spacing
        rods = np.arange(robot.own_edges or 0)
        apart = np.maximum(
            robot.radius[rods], np.sqrt(8 * max_sagitta_radii * robot.radius[rods] * (robot.radius[rods] + spacing))
        )
        inside = np.ceil(robot.rest_lengths[rods] / apart).astype(int) - 1
        edge = np.repeat(rods, inside)
        place = np.arange(len(edge)) - np.repeat(np.cumsum(inside) - inside, inside)
        first, second = robot.edges[edge].T
        points.append(Points(first, second, (place + 1.0) / (inside[edge] + 1.0), edge, robot.radius[edge], only))
    return [p for p in points if len(p.first)]


class Spins(NamedTuple):
    """How thetas turn points: those of `edge` (s,) turn `point` (s,) about `axis` (s, 3); `lever` (p,) [m] to their surfaces."""

    point: Ints
    edge: Ints
    axis: Floats
    lever: Floats


def spins_of(points: Points, robot: RodShellRobot, tangents: Floats, *, rolling: bool) -> Spins:
    """Return how thetas turn points of rods, vertices with the mean of the edges that meet there; none unless they roll."""
    own, inside = robot.edges[: robot.own_edges].ravel(), points.edge >= 0
    if inside.any():
        point, edge, share = np.arange(len(inside)), points.edge, np.ones(len(inside))
    else:
        point, edge, share = own, np.arange(len(own)) // 2, 1.0 / np.bincount(own)[own]
    if not rolling:
        point, edge, share = point[:0], edge[:0], share[:0]
    lever = np.zeros(len(inside))
    lever[point] = points.radius[point]
    return Spins(point, edge, share[:, None] * tangents[edge], lever)
