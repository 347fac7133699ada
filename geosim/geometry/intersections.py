"""Which triangles of a surface cross or touch each other: sweep along one axis, then exact distances of the pairs.

A pair without a common vertex counts if its distance is at most the tolerance (a crossing has distance 0); a pair with
one common vertex if the edge opposite to it comes as near to the other triangle; a pair with a common edge if it
is folded flat on itself. Distances after C. Ericson, Real-Time Collision Detection (2005), 5.1.
"""

from __future__ import annotations

import numpy as np

from geosim.collision.queries import closest_points
from geosim.collision.tree import build_tree
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, scaled

__all__ = ["crossing_pairs", "farthest_from"]

FLAT = 1e-7  # [rad]: a fold closer than this lies flat on itself; STL rounds normals of small triangles by as much
ROUNDING = 1e-14  # of the size of all triangles: distances below are noise of the coordinates
PARALLEL = 1e-14  # of |d|^2 |e|^2, |d x e|^2 of two segments: their ends are among the nearest points


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
    low = vertices.min(axis=0)
    scale = float(np.max(vertices.max(axis=0) - low)) or 1.0
    points = np.ascontiguousarray((vertices - low) / scale)
    faces = np.array(faces, dtype=np.int64, order="C")  # writable: one compiled kernel for all callers
    groups = np.zeros(len(faces), dtype=np.int64) if group is None else np.ascontiguousarray(group, dtype=np.int64)
    between = tolerance if group_tolerance is None else group_tolerance
    corners = points[faces]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    # The axis along which the boxes overlap least.
    axis = int(np.argmin((upper - lower).sum(axis=0) / np.maximum(np.ptp(points, axis=0), 1e-300)))
    order = np.argsort(lower[:, axis], kind="stable")
    capacity = 4 * len(faces) + 64
    while True:
        pairs, count = _sweep(
            points, faces, groups, lower, upper, order, axis, tolerance / scale, between / scale, capacity
        )
        if count <= capacity:
            return np.sort(pairs[:count], axis=1)
        capacity = count


def farthest_from(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> float:
    """Largest distance [m] of points (k, 3) to the triangles."""
    nearest = closest_points(points, vertices, build_tree(vertices, faces))[0]
    return float(np.linalg.norm(points - nearest, axis=1).max())


@kernel
def _sweep(points, faces, groups, lower, upper, order, axis, tolerance, between, capacity):
    pairs = np.empty((capacity, 2), dtype=np.int64)
    count = 0
    margin = max(tolerance, between)
    other = (axis + 1) % 3
    third = (axis + 2) % 3
    n = order.shape[0]
    for i in range(n):
        a = order[i]
        end = upper[a, axis] + margin
        for j in range(i + 1, n):
            b = order[j]
            if lower[b, axis] > end:
                break
            if lower[b, other] > upper[a, other] + margin or lower[a, other] > upper[b, other] + margin:
                continue
            if lower[b, third] > upper[a, third] + margin or lower[a, third] > upper[b, third] + margin:
                continue
            eps = tolerance if groups[a] == groups[b] else between
            if eps >= 0.0 and _meet(points, faces, a, b, eps):
                if count < capacity:
                    pairs[count, 0] = a
                    pairs[count, 1] = b
                count += 1
    return pairs, count


@kernel
def _meet(points, faces, a, b, eps):
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
        return _edge_near(points, faces[a], common_a + 1, faces[b], eps) or _edge_near(
            points, faces[b], common_b + 1, faces[a], eps
        )
    met = False
    for i in range(3):
        met = met or _edge_near(points, faces[a], i, faces[b], eps) or _edge_near(points, faces[b], i, faces[a], eps)
    return met


@kernel
def _folded(points, faces, a, b, i, j):
    """Whether two triangles with a common edge lie flat on each other."""
    apex = points[faces[a, i]]
    start, end = points[faces[a, (i + 1) % 3]], points[faces[a, (i + 2) % 3]]
    edge = difference(end, start)
    first = cross(edge, difference(apex, start))
    second = cross(edge, difference(points[faces[b, j]], start))
    along = dot(first, second)
    if along <= 0.0:
        return False
    across = cross(first, second)
    return dot(across, across) <= (FLAT * along) ** 2


@kernel
def _apart(points, t, s, eps):
    """Whether triangle s lies on one side of the plane of triangle t, farther than eps."""
    origin = points[t[0]]
    normal = cross(difference(points[t[1]], origin), difference(points[t[2]], origin))
    length = np.sqrt(dot(normal, normal))
    limit = (eps + ROUNDING) * length
    d0 = dot(normal, difference(points[s[0]], origin))
    d1 = dot(normal, difference(points[s[1]], origin))
    d2 = dot(normal, difference(points[s[2]], origin))
    return length > 0.0 and (min(d0, d1, d2) > limit or max(d0, d1, d2) < -limit)


@kernel
def _edge_near(points, t, i, s, eps):
    """Whether edge i (from corner i) of triangle t comes within eps of triangle s."""
    p, q = points[t[i % 3]], points[t[(i + 1) % 3]]
    a, b, c = points[s[0]], points[s[1]], points[s[2]]
    limit = eps * eps
    return (
        _segment_crosses(p, q, a, b, c)
        or _point_triangle(p, a, b, c) <= limit
        or _point_triangle(q, a, b, c) <= limit
        or _segment_segment(p, q, a, b) <= limit
        or _segment_segment(p, q, b, c) <= limit
        or _segment_segment(p, q, c, a) <= limit
    )


@kernel
def _segment_crosses(p, q, a, b, c):
    """Whether the open segment pq passes through the inside of triangle abc (signs of five volumes).

    Both ends must be off the plane by more than rounding: of flat neighbours the five signs are all noise.
    """
    ab, ac = difference(b, a), difference(c, a)
    normal = cross(ab, ac)
    first, second = dot(normal, difference(p, a)), dot(normal, difference(q, a))
    if first * second >= 0.0 or min(abs(first), abs(second)) <= ROUNDING * np.sqrt(dot(normal, normal)):
        return False
    direction = difference(q, p)
    pa, pb, pc = difference(a, p), difference(b, p), difference(c, p)
    u = dot(direction, cross(pb, pc))
    v = dot(direction, cross(pc, pa))
    w = dot(direction, cross(pa, pb))
    return (u > 0.0 and v > 0.0 and w > 0.0) or (u < 0.0 and v < 0.0 and w < 0.0)


@kernel
def _point_triangle(p, a, b, c):
    """Squared distance of a point to a triangle: its foot if that lies inside, else the nearest edge."""
    ab, ac, ap = difference(b, a), difference(c, a), difference(p, a)
    normal = cross(ab, ac)
    square = dot(normal, normal)
    if square > 0.0:
        v = dot(cross(ap, ac), normal) / square
        w = dot(cross(ab, ap), normal) / square
        if v >= 0.0 and w >= 0.0 and v + w <= 1.0:
            height = dot(ap, normal)
            return height * height / square
    return min(_point_segment(p, a, b), _point_segment(p, b, c), _point_segment(p, c, a))


@kernel
def _point_segment(p, a, b):
    ab, ap = difference(b, a), difference(p, a)
    square = dot(ab, ab)
    t = min(max(dot(ap, ab) / square, 0.0), 1.0) if square > 0.0 else 0.0
    rest = difference(ap, scaled(t, ab))
    return dot(rest, rest)


@kernel
def _segment_segment(p, q, a, b):
    """Squared distance of two segments."""
    d, e, r = difference(q, p), difference(b, a), difference(p, a)
    dd, ee, de = dot(d, d), dot(e, e), dot(d, e)
    ends = min(_point_segment(p, a, b), _point_segment(q, a, b), _point_segment(a, p, q), _point_segment(b, p, q))
    denominator = dd * ee - de * de
    if denominator <= PARALLEL * dd * ee:  # parallel: an end is among the nearest points
        return ends
    dr, er = dot(d, r), dot(e, r)
    s = (de * er - dr * ee) / denominator
    t = (dd * er - de * dr) / denominator
    if s <= 0.0 or s >= 1.0 or t <= 0.0 or t >= 1.0:
        return ends
    gap = difference(difference(r, scaled(-s, d)), scaled(t, e))
    return min(ends, dot(gap, gap))
