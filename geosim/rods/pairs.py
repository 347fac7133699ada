"""Broad phase of contact between rods: distances of pairs of edges, and the list of those that may touch.

[D1] The distance of two edges is the minimum over both parameters of |r|^2 + eps (l1^2 (s - 1/2)^2 + l2^2 (t - 1/2)^2)
     with rest lengths l and eps = 1e-3: parallel edges then have one nearest pair and forces stay continuous. The Hessian is
     exact in the three cases (edge-edge, point-edge, point-point) by elimination of the free parameters.
[D2] Edges closer than 1.6 C along the rod are no pair: a rod bent to its own radius touches itself beyond pi/2 C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from geosim.arrays import Floats, Ints
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import difference, dot
from geosim.linear.patterns import find_sorted
from geosim.rods.frames import point
from geosim.rods.robot import RodShellRobot

CLOSEST_POINT_REGULARISATION = (
    1e-3  # eps of [D1]: moves nearest points by a thousandth where edges cross, to the middle where parallel
)
ARC_FACTOR = 1.6  # C: a little more than pi / 2, see [D2]
# Of the margin: to where a list is complete, since both of a pair may go so far, and how far ahead it is made.
COMPLETE_MARGIN_SHARE, AHEAD_MARGIN_SHARE = 0.5, 0.4


@kernel
def nearest_parameters(a, b, c, d, l1, l2):
    """Return (s, t, free s, free t) of the nearest points a + s (b - a) and c + t (d - c) in the sense of [D1].

    The problem is a strictly convex quadratic over the unit square: the free minimum if it is inside, else the best
    of the four sides.
    """
    e1, e2, r = difference(b, a), difference(d, c), difference(a, c)
    w1, w2 = CLOSEST_POINT_REGULARISATION * l1 * l1, CLOSEST_POINT_REGULARISATION * l2 * l2
    h11, h22, h12 = dot(e1, e1) + w1, dot(e2, e2) + w2, -dot(e1, e2)
    g1, g2 = dot(e1, r) - 0.5 * w1, -dot(e2, r) - 0.5 * w2
    det = h11 * h22 - h12 * h12
    s = (-g1 * h22 + g2 * h12) / det
    t = (-g2 * h11 + g1 * h12) / det
    if 0.0 < s < 1.0 and 0.0 < t < 1.0:
        return s, t, True, True
    best, bs, bt = np.inf, 0.0, 0.0
    for side in range(4):
        if side < 2:
            s = float(side)
            t = min(max(-(g2 + h12 * s) / h22, 0.0), 1.0)
        else:
            t = float(side - 2)
            s = min(max(-(g1 + h12 * t) / h11, 0.0), 1.0)
        value = 0.5 * (h11 * s * s + h22 * t * t) + h12 * s * t + g1 * s + g2 * t
        if value < best:
            best, bs, bt = value, s, t
    return bs, bt, 0.0 < bs < 1.0, 0.0 < bt < 1.0


@kernel
def pair_geometry(q, dofs, l1, l2):
    """Return (D, s, t, free s, free t, r, e1, e2) of a pair with first dofs (a, b, c, d)."""
    a, b, c, d = point(q, dofs[0]), point(q, dofs[1]), point(q, dofs[2]), point(q, dofs[3])
    s, t, fs, ft = nearest_parameters(a, b, c, d, l1, l2)
    e1, e2 = difference(b, a), difference(d, c)
    r = (a[0] + s * e1[0] - c[0] - t * e2[0], a[1] + s * e1[1] - c[1] - t * e2[1], a[2] + s * e1[2] - c[2] - t * e2[2])
    square = dot(r, r) + CLOSEST_POINT_REGULARISATION * (l1 * l1 * (s - 0.5) ** 2 + l2 * l2 * (t - 0.5) ** 2)
    return math.sqrt(square), s, t, fs, ft, r, e1, e2


@kernel
def find_candidates(x, edges, radius, rest, margin, near_start, near_edges, pairs):
    """Fill `pairs` with edges whose capsules come closer than `margin`; return how many.

    A sweep along the longest side of the whole over boxes sorted by their lower side; `near_start`, `near_edges` list the
    neighbours to leave out, ascending.
    The count may exceed the length of `pairs`; then it must be called again with more room.
    """
    boxes = np.empty((edges.shape[0], 6))  # of capsules with half a margin around them
    for i in range(edges.shape[0]):
        for j in range(3):
            low, high = x[edges[i, 0], j], x[edges[i, 1], j]
            boxes[i, j] = min(low, high) - radius[i] - 0.5 * margin
            boxes[i, 3 + j] = max(low, high) + radius[i] + 0.5 * margin
    along, longest = 0, -1.0
    for j in range(3):
        side = boxes[:, 3 + j].max() - boxes[:, j].min()
        if side > longest:
            along, longest = j, side
    order = np.argsort(boxes[:, along])
    q, dofs = x.ravel(), np.empty(4, dtype=np.int64)
    found = 0
    for p in range(len(order)):
        i = order[p]
        a = boxes[i]
        for r in range(p + 1, len(order)):
            k = order[r]
            b = boxes[k]
            if b[along] > a[3 + along]:
                break
            if b[0] > a[3] or a[0] > b[3] or b[1] > a[4] or a[1] > b[4] or b[2] > a[5] or a[2] > b[5]:
                continue
            if find_sorted(near_edges, near_start[i], near_start[i + 1], k) >= 0:
                continue
            dofs[0], dofs[1], dofs[2], dofs[3] = 3 * edges[i, 0], 3 * edges[i, 1], 3 * edges[k, 0], 3 * edges[k, 1]
            if pair_geometry(q, dofs, rest[i], rest[k])[0] > radius[i] + radius[k] + margin:
                continue
            if found < pairs.shape[0]:
                pairs[found, 0], pairs[found, 1] = min(i, k), max(i, k)
            found += 1
    return found


@kernel
def farthest(q, x):
    """Return the largest squared distance of a vertex of q from its place in the flat positions x."""
    worst = 0.0
    for i in range(x.shape[0] // 3):
        s = 0.0
        for j in range(3):
            s += (q[3 * i + j] - x[3 * i + j]) ** 2
        worst = max(worst, s)
    return worst


def moved_most(dx: Floats) -> float:
    """Return the largest motion [m] of a vertex, (n, 3), against the mean of all."""
    return float(np.sqrt(((dx - dx.mean(axis=0)) ** 2).sum(axis=1).max()))


def reached_along(vertices: Floats, edges: Ints, limit: float) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield pairs of vertices (i, j) no farther from each other than `limit` along the edges, and that distance [m]."""
    n = len(vertices)
    length = np.linalg.norm(vertices[edges[:, 1]] - vertices[edges[:, 0]], axis=1)
    graph = csr_matrix((length, (edges[:, 0], edges[:, 1])), shape=(n, n))
    vertex_chunk = 256  # vertices whose distances along the edges are held at once: a block of 256 n numbers
    for first in range(0, n, vertex_chunk):
        reached = dijkstra(graph, directed=False, indices=np.arange(first, min(first + vertex_chunk, n)), limit=limit)
        i, j = np.nonzero(np.isfinite(reached))
        yield i + first, j, reached[i, j]


def near_along_rod(robot: RodShellRobot, delta: float) -> tuple[Ints, Ints]:
    """Return for every edge the edges closer than 1.6 C along the rods, as (start (E + 1,), edges)."""
    limit, n, count = ARC_FACTOR * (2.0 * robot.radius + delta), len(robot.vertices), len(robot.edges)
    ends = csr_matrix((np.ones(2 * count), (np.repeat(np.arange(count), 2), robot.edges.ravel())), shape=(count, n))
    found = []
    for i, j, distance in reached_along(robot.vertices, robot.edges, float(limit.max())):
        # the vertices that are reached from each end of an edge
        first = np.searchsorted(i, robot.edges.ravel())
        many = np.searchsorted(i, robot.edges.ravel(), side="right") - first
        edge = np.repeat(np.repeat(np.arange(count), 2), many)
        at = np.arange(len(edge)) + np.repeat(first - np.cumsum(many) + many, many)
        near = distance[at] <= limit[edge]
        found.append((edge[near], j[at[near]]))
    edge, vertex = (np.concatenate(part) for part in zip(*found))
    reached = csr_matrix((np.ones(len(edge)), (edge, vertex)), shape=(count, n)) @ ends.T
    reached.sort_indices()
    return reached.indptr.astype(np.int64), reached.indices.astype(np.int64)


def find_pairs(robot: RodShellRobot, x: Floats, near: tuple[Ints, Ints], margin: float) -> Ints:
    """Return the pairs of edges (P, 2) that may touch before a vertex has moved by half the margin."""
    rods = robot.edges, robot.radius, robot.rest_lengths
    (pairs,) = filled(lambda out: find_candidates(x, *rods, margin, *near, out), 8 * len(robot.edges), ((2,), np.int64))
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


@dataclass(frozen=True)
class Neighbours:
    """Pairs that may touch, valid until a vertex has moved by half the margin; `near` are no pairs."""

    near: tuple[Ints, Ints]
    margin: float
    built_at: Floats
    pairs: Ints

    def holds(self, q: Floats) -> bool:
        """Whether the list is still complete at q."""
        return bool(farthest(q, self.built_at) <= (COMPLETE_MARGIN_SHARE * self.margin) ** 2)


def listed_at(robot: RodShellRobot, delta: float, x: Floats, near: tuple[Ints, Ints] | None = None) -> Neighbours:
    """Return the list of all pairs near places x (3 n,); its margin, the least radius, outlasts a dozen steps of sliding."""
    near, margin = near or near_along_rod(robot, delta), float(robot.radius.min())
    return Neighbours(near, margin, x, find_pairs(robot, x.reshape(-1, 3), near, margin))
