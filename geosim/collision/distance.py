"""Distances between the corners, edges and faces of two triangles, with exact derivatives.

A pair is four points: a vertex and the three corners of a face, or the two ends of two edges. The vector between the
closest points is a combination of the four, linear in the parameters b of the closest points,

    e = sum_i w_i(b) x_i,    D = e . e,    E_k = de / db_k,    c_ik = dw_i / db_k,

and b makes D least. Where b is free (inside the face or the edges; parameters at their bounds are dropped) the
implicit-function theorem gives, for all kinds of closest features at once and without case distinctions,

    dD/dx_i = 2 w_i e,
    d2D/dx_i dx_j = 2 [ w_i w_j I - sum_kl (w_i E_k + c_ik e) (E^T E)^-1_kl (w_j E_l + c_jl e)^T ].

The distance is continuously differentiable wherever it is positive, but for edges that become parallel.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot, scaled


@kernel
def gather(x, ids, out):
    """Fill `out` (4, 3) with the positions of four vertices of x (n, 3)."""
    for i in range(4):
        for k in range(3):
            out[i, k] = x[ids[i], k]


@kernel
def along_segment(p, a, b):
    """Parameter in [0, 1] of the point of a segment nearest to p, and its squared distance."""
    ab, ap = difference(b, a), difference(p, a)
    length = dot(ab, ab)
    t = min(1.0, max(0.0, dot(ap, ab) / length)) if length > 0.0 else 0.0
    away = difference(ap, scaled(t, ab))
    return t, dot(away, away)


@kernel
def closest_on_triangle(p, a, b, c):
    """Barycentric weights of the point of a triangle nearest to p: its foot if that lies inside, else on an edge.

    Only edges that p lies beyond can be nearest; of a sliver, and of a point, all are asked. The weights of corners that
    the point does not depend on are exactly 0.
    """
    # |u x v|^2 over |u|^2 |v|^2 of two sides: rounding (a few 1e-16) leaves hardly a digit of the height of such a sliver
    sliver_sin2 = 1e-14
    u, v, r = difference(b, a), difference(c, a), difference(p, a)
    uu, uv, vv, ur, vr = dot(u, u), dot(u, v), dot(v, v), dot(u, r), dot(v, r)
    det = uu * vv - uv * uv
    det = det if det > sliver_sin2 * uu * vv else np.nan  # of a sliver nothing below is true but "not"
    s, t = (vv * ur - uv * vr) / det, (uu * vr - uv * ur) / det
    if s > 0.0 and t > 0.0 and s + t < 1.0:
        return 1.0 - s - t, s, t
    least, on = np.inf, (1.0, 0.0, 0.0)
    if not t > 0.0:
        at, least = along_segment(p, a, b)
        on = (1.0 - at, at, 0.0)
    if not s + t < 1.0:
        at, square = along_segment(p, b, c)
        if square < least:
            least, on = square, (0.0, 1.0 - at, at)
    if not s > 0.0:
        at, square = along_segment(p, c, a)
        if square < least:
            on = (at, 0.0, 1.0 - at)
    return on


@kernel
def point_triangle(x, w, c):
    """Write weights w (4,) and their slopes c (4, 2) for vertex x[0] and face x[1:4]; return the number of free b."""
    c[:] = 0.0
    w[0] = 1.0
    first, free = 0, -1  # b are the weights of all corners that have one, but the first
    on = closest_on_triangle(x[0], x[1], x[2], x[3])
    for i in range(3):
        w[i + 1] = -on[i]
        if on[i] > 0.0:
            if free < 0:
                first = i + 1
            else:
                c[first, free], c[i + 1, free] = 1.0, -1.0
            free += 1
    return free


@kernel
def edge_edge(x, w, c):
    """Write weights (4,) and slopes (4, 2) for the edges x[0:2] and x[2:4]; return the number of free parameters."""
    # Below this share of |u|^2 |v|^2, |u x v|^2 of two edges counts as parallel (a millionth of a radian): the closest points
    # are ends.
    parallel_edges_sin2 = 1e-12
    w[:] = 0.0
    c[:] = 0.0
    u, v, r = difference(x[1], x[0]), difference(x[3], x[2]), difference(x[0], x[2])
    uu, uv, vv, ur, vr = dot(u, u), dot(u, v), dot(v, v), dot(u, r), dot(v, r)
    det = uu * vv - uv * uv
    if det > parallel_edges_sin2 * uu * vv:
        s, t = (uv * vr - vv * ur) / det, (uu * vr - uv * ur) / det
        if 0.0 < s < 1.0 and 0.0 < t < 1.0:
            w[0], w[1], w[2], w[3] = 1.0 - s, s, -(1.0 - t), -t
            c[0, 0], c[1, 0] = -1.0, 1.0
            c[2, 1], c[3, 1] = 1.0, -1.0
            return 2
    best, which, at = np.inf, 0, 0.0
    for k in range(4):  # an end of one edge against the other edge
        a = 2 if k < 2 else 0
        t, gap = along_segment(x[k], x[a], x[a + 1])
        if gap < best:
            best, which, at = gap, k, t
    a = 2 if which < 2 else 0
    side = 1.0 if which < 2 else -1.0  # e always points from the second edge to the first
    w[which], w[a], w[a + 1] = side, side * (at - 1.0), -side * at
    if not 0.0 < at < 1.0:
        return 0
    c[a, 0], c[a + 1, 0] = side, -side
    return 1


@kernel
def pair_distance(x, edges, w, c, e):
    """Distance of two edges, or of a vertex and a face; weights, slopes and the vector between are written."""
    if edges:
        edge_edge(x, w, c)
    else:
        point_triangle(x, w, c)
    return separation(x, w, e)


@kernel
def separation(x, w, e):
    """Write e = sum_i w_i x_i and return its length."""
    for i in range(3):
        e[i] = w[0] * x[0, i] + w[1] * x[1, i] + w[2] * x[2, i] + w[3] * x[3, i]
    return np.sqrt(dot(e, e))


@kernel
def squared_distance_derivatives(x, w, c, free, e, gradient, hessian, soft0=0.0, soft1=0.0):
    """Write dD/dx (4, 3) and d2D/dx2 (4, 4, 3, 3) of the squared distance, at its closest points.

    `soft0`, `soft1` [m^2] are added to E^T E: springs that hold the free parameters, where D is least with their energy.
    """
    for i in range(4):
        for k in range(3):
            gradient[i, k] = 2.0 * w[i] * e[k]
    for i in range(4):
        for j in range(4):
            for k in range(3):
                for m in range(3):
                    hessian[i, j, k, m] = 2.0 * w[i] * w[j] if k == m else 0.0
    if free == 0:
        return
    E = np.zeros((2, 3))
    for k in range(free):
        for i in range(4):
            for m in range(3):
                E[k, m] += c[i, k] * x[i, m]
    g00 = dot(E[0], E[0]) + soft0
    if free == 2:
        g01, g11 = dot(E[0], E[1]), dot(E[1], E[1]) + soft1
        det = g00 * g11 - g01 * g01
        i00, i01, i11 = g11 / det, -g01 / det, g00 / det
    else:
        i00, i01, i11 = 1.0 / g00, 0.0, 0.0
    R = np.zeros((2, 4, 3))
    for k in range(free):
        for i in range(4):
            for m in range(3):
                R[k, i, m] = w[i] * E[k, m] + c[i, k] * e[m]
    for i in range(4):
        for k in range(3):
            r0, r1 = 2.0 * (i00 * R[0, i, k] + i01 * R[1, i, k]), 2.0 * (i01 * R[0, i, k] + i11 * R[1, i, k])
            for j in range(4):
                for m in range(3):
                    hessian[i, j, k, m] -= r0 * R[0, j, m] + r1 * R[1, j, m]
