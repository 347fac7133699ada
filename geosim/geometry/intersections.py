"""Which triangles of a surface cross or touch each other: sweep along one axis, then exact distances of the pairs.

A pair without a common vertex counts if its distance is at most the tolerance (a crossing has distance 0); a pair with
one common vertex if the edge opposite to it comes as near to the other triangle; a pair with a common edge if it
is folded flat on itself. Distances after C. Ericson, Real-Time Collision Detection (2005), 5.1.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel

__all__ = ["crossing_pairs", "farthest_from"]

# A fold closer than this angle [rad] lies flat on itself.
FLAT = 1e-7


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
    return float(np.sqrt(_farthest(np.ascontiguousarray(points), vertices, faces)))


@kernel
def _farthest(points, vertices, faces):
    worst = 0.0
    for i in range(points.shape[0]):
        nearest = np.inf
        for f in range(faces.shape[0]):
            nearest = min(
                nearest, _point_triangle(points[i], vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]])
            )
            if nearest <= worst:
                break
        worst = max(worst, nearest)
    return worst


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
    t0, t1, t2 = points[faces[a, 0]], points[faces[a, 1]], points[faces[a, 2]]
    s0, s1, s2 = points[faces[b, 0]], points[faces[b, 1]], points[faces[b, 2]]
    if _apart(t0, t1, t2, s0, s1, s2, eps) or _apart(s0, s1, s2, t0, t1, t2, eps):
        return False
    if shared == 1:
        i, j = common_a, common_b
        p, q = points[faces[a, (i + 1) % 3]], points[faces[a, (i + 2) % 3]]
        u, v = points[faces[b, (j + 1) % 3]], points[faces[b, (j + 2) % 3]]
        return _segment_near(p, q, s0, s1, s2, eps) or _segment_near(u, v, t0, t1, t2, eps)
    return (
        _segment_near(t0, t1, s0, s1, s2, eps)
        or _segment_near(t1, t2, s0, s1, s2, eps)
        or _segment_near(t2, t0, s0, s1, s2, eps)
        or _segment_near(s0, s1, t0, t1, t2, eps)
        or _segment_near(s1, s2, t0, t1, t2, eps)
        or _segment_near(s2, s0, t0, t1, t2, eps)
    )


@kernel
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@kernel
def _sub(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@kernel
def _folded(points, faces, a, b, i, j):
    """Whether two triangles with a common edge lie flat on each other."""
    apex = points[faces[a, i]]
    start, end = points[faces[a, (i + 1) % 3]], points[faces[a, (i + 2) % 3]]
    edge = _sub(end, start)
    first = _cross(edge, _sub(apex, start))
    second = _cross(edge, _sub(points[faces[b, j]], start))
    along = _dot(first, second)
    if along <= 0.0:
        return False
    across = _cross(first, second)
    return _dot(across, across) <= (FLAT * along) ** 2


@kernel
def _apart(t0, t1, t2, s0, s1, s2, eps):
    """Whether triangle s lies on one side of the plane of triangle t, farther than eps."""
    normal = _cross(_sub(t1, t0), _sub(t2, t0))
    length = np.sqrt(_dot(normal, normal))
    if length == 0.0:
        return False
    limit = (eps + 1e-14) * length
    d0, d1, d2 = _dot(normal, _sub(s0, t0)), _dot(normal, _sub(s1, t0)), _dot(normal, _sub(s2, t0))
    return (d0 > limit and d1 > limit and d2 > limit) or (d0 < -limit and d1 < -limit and d2 < -limit)


@kernel
def _segment_near(p, q, a, b, c, eps):
    """Whether segment pq comes within eps of triangle abc."""
    if _segment_crosses(p, q, a, b, c):
        return True
    limit = eps * eps
    return (
        _point_triangle(p, a, b, c) <= limit
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
    ab, ac = _sub(b, a), _sub(c, a)
    normal = _cross(ab, ac)
    first, second = _dot(normal, _sub(p, a)), _dot(normal, _sub(q, a))
    if first * second >= 0.0 or min(abs(first), abs(second)) <= 1e-14 * np.sqrt(_dot(normal, normal)):
        return False
    direction = _sub(q, p)
    pa, pb, pc = _sub(a, p), _sub(b, p), _sub(c, p)
    u = _dot(direction, _cross(pb, pc))
    v = _dot(direction, _cross(pc, pa))
    w = _dot(direction, _cross(pa, pb))
    return (u > 0.0 and v > 0.0 and w > 0.0) or (u < 0.0 and v < 0.0 and w < 0.0)


@kernel
def _point_triangle(p, a, b, c):
    """Squared distance of a point to a triangle: its foot if that lies inside, else the nearest edge."""
    ab, ac, ap = _sub(b, a), _sub(c, a), _sub(p, a)
    normal = _cross(ab, ac)
    square = _dot(normal, normal)
    if square > 0.0:
        v = _dot(_cross(ap, ac), normal) / square
        w = _dot(_cross(ab, ap), normal) / square
        if v >= 0.0 and w >= 0.0 and v + w <= 1.0:
            height = _dot(ap, normal)
            return height * height / square
    return min(_point_segment(p, a, b), _point_segment(p, b, c), _point_segment(p, c, a))


@kernel
def _point_segment(p, a, b):
    ab, ap = _sub(b, a), _sub(p, a)
    square = _dot(ab, ab)
    t = min(max(_dot(ap, ab) / square, 0.0), 1.0) if square > 0.0 else 0.0
    rest = (ap[0] - t * ab[0], ap[1] - t * ab[1], ap[2] - t * ab[2])
    return _dot(rest, rest)


@kernel
def _segment_segment(p, q, a, b):
    """Squared distance of two segments."""
    d, e, r = _sub(q, p), _sub(b, a), _sub(p, a)
    dd, ee, de = _dot(d, d), _dot(e, e), _dot(d, e)
    ends = min(_point_segment(p, a, b), _point_segment(q, a, b), _point_segment(a, p, q), _point_segment(b, p, q))
    denominator = dd * ee - de * de
    if denominator <= 1e-14 * dd * ee:  # parallel: an end is among the nearest points
        return ends
    dr, er = _dot(d, r), _dot(e, r)
    s = (de * er - dr * ee) / denominator
    t = (dd * er - de * dr) / denominator
    if s <= 0.0 or s >= 1.0 or t <= 0.0 or t >= 1.0:
        return ends
    gap = (r[0] + s * d[0] - t * e[0], r[1] + s * d[1] - t * e[1], r[2] + s * d[2] - t * e[2])
    return min(ends, _dot(gap, gap))
