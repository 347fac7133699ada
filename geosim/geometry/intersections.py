"""Self-intersections of triangle surfaces: a tree against itself, then distances of the candidate pairs.

A pair without a common vertex counts if its distance is at most the tolerance (a crossing has distance 0); a pair with
one common vertex if the edge opposite to it comes as near to the other triangle; a pair with a common edge if it
is folded flat on itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.collision.distance import pair_distance
from geosim.collision.queries import closest_points
from geosim.collision.tree import MAX_WAITING_NODES, boxes_overlap, build_tree, leaf_range, next_leaves
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import cross, difference, dot

COORDINATE_NOISE_REL = 1e-14  # of the size of all triangles: distances below are noise of the coordinates


def crossing_pairs(
    vertices: np.ndarray,
    faces: np.ndarray,
    *,
    tolerance: float,
    group: np.ndarray | None = None,
    group_tolerance: float | None = None,
) -> np.ndarray:
    """Pairs of triangles that cross or touch.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    faces
        Vertex ids, shape (m, 3); shared vertices make triangles neighbours.
    tolerance
        Largest distance [m] that counts as touching; negative: pairs within a group are not looked at.
    group
        Surface id of every face, shape (m,); None is one surface.
    group_tolerance
        The same [m] for triangles of different groups; None is `tolerance`.

    Returns
    -------
    ndarray
        Face ids, shape (k, 2), first smaller than second.
    """
    first_pair_room = 64  # pairs that there is room for at first, beside four a face
    low = vertices.min(axis=0)
    scale = float(np.max(vertices.max(axis=0) - low)) or 1.0
    points = np.ascontiguousarray((vertices - low) / scale)
    faces = np.ascontiguousarray(faces, dtype=np.int64)
    groups = np.zeros(len(faces), dtype=np.int64) if group is None else np.ascontiguousarray(group, dtype=np.int64)
    between = tolerance if group_tolerance is None else group_tolerance
    margin = 0.5 * max(tolerance, between) / scale
    tree, corners = build_tree(points, faces, margin), points[faces]
    boxes = np.hstack([corners.min(axis=1) - margin, corners.max(axis=1) + margin])
    given = (points, faces, groups, tree.order, tree.boxes, boxes, tolerance / scale, between / scale)
    (pairs,) = filled(lambda out: _search(*given, out), 4 * len(faces) + first_pair_room, ((2,), np.int64))
    pairs = np.sort(pairs, axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]


def farthest_from(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray]:
    """Largest distance [m] of points (k, 3) to the triangles, and the point (3,) where it is."""
    apart = np.linalg.norm(points - closest_points(points, vertices, build_tree(vertices, faces))[0], axis=1)
    return float(apart.max()), points[np.argmax(apart)]


def deviation(first: Any, second: Any, both: bool = True) -> tuple[float, np.ndarray]:
    """Largest distance [m] of a surface from another, or both ways, at corners, mid-edges and centres; and where, (3,)."""
    found = []
    for a, b in ((first, second), (second, first))[: 2 if both else 1]:
        corners = a.vertices[a.faces]
        middles = 0.5 * (corners + np.roll(corners, 1, axis=1))
        points = np.concatenate([corners.reshape(-1, 3), middles.reshape(-1, 3), corners.mean(axis=1)])
        found.append(farthest_from(points, b.vertices, b.faces))
    return max(found, key=lambda item: item[0])


@kernel
def _search(points, faces, groups, order, nodes, boxes, tolerance, between, pairs):
    """Write the pairs that meet as far as they fit; return their number."""
    count, still, scratch = 0, nodes[:0], (np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3))
    stack = np.zeros((MAX_WAITING_NODES, 2), dtype=np.int64)
    top = next_leaves(nodes, still, stack, 1)
    while top >= 0:
        i, j = stack[top]
        (start, end), (first, last) = leaf_range(nodes, i, len(faces)), leaf_range(nodes, j, len(faces))
        for k in range(start, end):
            for m in range(k + 1 if i == j else first, last):
                a, b = order[k], order[m]
                eps = tolerance if groups[a] == groups[b] else between
                if eps >= 0.0 and boxes_overlap(boxes, a, b) and _meet(points, faces, a, b, eps, scratch):
                    if count < len(pairs):
                        pairs[count, 0], pairs[count, 1] = a, b
                    count += 1
        top = next_leaves(nodes, still, stack, top)
    return count


@kernel
def _meet(points, faces, a, b, eps, scratch):
    """Whether two triangles cross or touch other than in their common vertices."""
    shared = 0
    common_a = -1
    common_b = -1
    for i in range(3):
        for j in range(3):
            if faces[a, i] == faces[b, j]:
                shared += 1
                common_a += i + 1
                common_b += j + 1
    if shared == 3:
        return False
    if shared == 2:  # the positions 0, 1, 2 add up to 3: the two common ones name the third
        return _folded(points, faces, a, b, 4 - common_a, 4 - common_b)
    if _apart(points, faces[a], faces[b], eps) or _apart(points, faces[b], faces[a], eps):
        return False
    if shared == 1:  # only the edges opposite to the common vertex
        return _edge_near(points, faces[a], common_a + 1, faces[b], eps, scratch) or _edge_near(
            points, faces[b], common_b + 1, faces[a], eps, scratch
        )
    for i in range(3):
        if _edge_near(points, faces[a], i, faces[b], eps, scratch):
            return True
        if _edge_near(points, faces[b], i, faces[a], eps, scratch):
            return True
    return False


@kernel
def _folded(points, faces, a, b, i, j):
    """Whether two triangles with a common edge lie flat on each other."""
    # [rad]: a fold closer than this lies flat on itself; STL rounds normals of small triangles by as much.
    folded_flat_rad = 1e-7
    apex = points[faces[a, i]]
    start, end = points[faces[a, (i + 1) % 3]], points[faces[a, (i + 2) % 3]]
    edge = difference(end, start)
    first = cross(edge, difference(apex, start))
    second = cross(edge, difference(points[faces[b, j]], start))
    along = dot(first, second)
    if along <= 0.0:
        return False
    across = cross(first, second)
    return dot(across, across) <= (folded_flat_rad * along) ** 2


@kernel
def _apart(points, t, s, eps):
    """Whether triangle s lies on one side of the plane of triangle t, farther than eps."""
    origin = points[t[0]]
    normal = cross(difference(points[t[1]], origin), difference(points[t[2]], origin))
    length = np.sqrt(dot(normal, normal))
    limit = (eps + COORDINATE_NOISE_REL) * length
    d0 = dot(normal, difference(points[s[0]], origin))
    d1 = dot(normal, difference(points[s[1]], origin))
    d2 = dot(normal, difference(points[s[2]], origin))
    return length > 0.0 and (min(d0, d1, d2) > limit or max(d0, d1, d2) < -limit)


@kernel
def _edge_near(points, t, i, s, eps, scratch):
    """Whether edge i (from corner i) of triangle t comes within eps of triangle s."""
    x, weights, slopes, between = scratch
    p, q = points[t[i % 3]], points[t[(i + 1) % 3]]
    if _segment_crosses(p, q, points[s[0]], points[s[1]], points[s[2]]):
        return True
    for k in range(3):
        _put_four(x, p, q, points[s[k]], points[s[(k + 1) % 3]])
        if pair_distance(x, True, weights, slopes, between) <= eps:
            return True
    for end in (p, q):
        _put_four(x, end, points[s[0]], points[s[1]], points[s[2]])
        if pair_distance(x, False, weights, slopes, between) <= eps:
            return True
    return False


@kernel
def _put_four(x, a, b, c, d):
    """Write four points to an array (4, 3): number by number, since numba compiles seconds for rows that may not fit."""
    for i in range(3):
        x[0, i], x[1, i], x[2, i], x[3, i] = a[i], b[i], c[i], d[i]


@kernel
def _segment_crosses(p, q, a, b, c):
    """Whether the open segment pq passes through the inside of triangle abc (signs of five volumes).

    Both ends must be off the plane by more than rounding: of flat neighbours the five signs are all noise.
    """
    ab, ac = difference(b, a), difference(c, a)
    normal = cross(ab, ac)
    first, second = dot(normal, difference(p, a)), dot(normal, difference(q, a))
    if first * second >= 0.0 or min(abs(first), abs(second)) <= COORDINATE_NOISE_REL * np.sqrt(dot(normal, normal)):
        return False
    direction = difference(q, p)
    pa, pb, pc = difference(a, p), difference(b, p), difference(c, p)
    u = dot(direction, cross(pb, pc))
    v = dot(direction, cross(pc, pa))
    w = dot(direction, cross(pa, pb))
    return (u > 0.0 and v > 0.0 and w > 0.0) or (u < 0.0 and v < 0.0 and w < 0.0)
