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

__all__ = ["edge_edge", "point_triangle", "separation", "squared_distance_derivatives"]

# Below this share of |u|^2 |v|^2, |u x v|^2 of two edges counts as parallel: the closest points are ends.
PARALLEL = 1e-12


@kernel
def _segment(p, a, b):
    """Parameter in [0, 1] of the point of a segment nearest to p."""
    along, length = 0.0, 0.0
    for i in range(3):
        along += (p[i] - a[i]) * (b[i] - a[i])
        length += (b[i] - a[i]) ** 2
    if length <= 0.0:
        return 0.0
    return min(1.0, max(0.0, along / length))


@kernel
def _put_on_edge(w, c, t, i, j):
    """Write the weights of a point at parameter t of the edge from x_i to x_j (minus sign: it is subtracted)."""
    w[i], w[j] = -(1.0 - t), -t
    if 0.0 < t < 1.0:
        c[i, 0], c[j, 0] = 1.0, -1.0
        return 1
    return 0


@kernel
def point_triangle(x, w, c):
    """Write weights w (4,) and their slopes c (4, 2) for vertex x[0] and face x[1:4]; return the number of free b."""
    w[:] = 0.0
    c[:] = 0.0
    w[0] = 1.0
    d00, d01, d11, q0, q1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        u, v, r = x[2, i] - x[1, i], x[3, i] - x[1, i], x[0, i] - x[1, i]
        d00 += u * u
        d01 += u * v
        d11 += v * v
        q0 += u * r
        q1 += v * r
    det = d00 * d11 - d01 * d01
    if det > 1e-24 * d00 * d11:
        s, t = (d11 * q0 - d01 * q1) / det, (d00 * q1 - d01 * q0) / det
        if s > 0.0 and t > 0.0 and s + t < 1.0:
            w[1], w[2], w[3] = -(1.0 - s - t), -s, -t
            c[1, 0], c[2, 0] = 1.0, -1.0
            c[1, 1], c[3, 1] = 1.0, -1.0
            return 2
    best, side, at = np.inf, 0, 0.0
    for k in range(3):
        i, j = 1 + k, 1 + (k + 1) % 3
        t = _segment(x[0], x[i], x[j])
        gap = 0.0
        for m in range(3):
            gap += (x[0, m] - (1.0 - t) * x[i, m] - t * x[j, m]) ** 2
        if gap < best:
            best, side, at = gap, k, t
    return _put_on_edge(w, c, at, 1 + side, 1 + (side + 1) % 3)


@kernel
def edge_edge(x, w, c):
    """Write weights (4,) and slopes (4, 2) for the edges x[0:2] and x[2:4]; return the number of free parameters."""
    w[:] = 0.0
    c[:] = 0.0
    uu, uv, vv, ur, vr = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        u, v, r = x[1, i] - x[0, i], x[3, i] - x[2, i], x[0, i] - x[2, i]
        uu += u * u
        uv += u * v
        vv += v * v
        ur += u * r
        vr += v * r
    det = uu * vv - uv * uv
    if det > PARALLEL * uu * vv:
        s, t = (uv * vr - vv * ur) / det, (uu * vr - uv * ur) / det
        if 0.0 < s < 1.0 and 0.0 < t < 1.0:
            w[0], w[1], w[2], w[3] = 1.0 - s, s, -(1.0 - t), -t
            c[0, 0], c[1, 0] = -1.0, 1.0
            c[2, 1], c[3, 1] = 1.0, -1.0
            return 2
    best, which, at = np.inf, 0, 0.0
    for k in range(4):  # an end of one edge against the other edge
        p, a = k, (2 if k < 2 else 0)
        t = _segment(x[p], x[a], x[a + 1])
        gap = 0.0
        for m in range(3):
            gap += (x[p, m] - (1.0 - t) * x[a, m] - t * x[a + 1, m]) ** 2
        if gap < best:
            best, which, at = gap, k, t
    a = 2 if which < 2 else 0
    free = _put_on_edge(w, c, at, a, a + 1)
    w[which] = 1.0
    if which >= 2:  # e always points from the second edge to the first
        for i in range(4):
            w[i] = -w[i]
            c[i, 0] = -c[i, 0]
    return free


@kernel
def separation(x, w, e):
    """Write e = sum_i w_i x_i and return its length."""
    total = 0.0
    for i in range(3):
        e[i] = w[0] * x[0, i] + w[1] * x[1, i] + w[2] * x[2, i] + w[3] * x[3, i]
        total += e[i] * e[i]
    return np.sqrt(total)


@kernel
def squared_distance_derivatives(x, w, c, free, e, gradient, hessian):
    """Write dD/dx (4, 3) and d2D/dx2 (4, 4, 3, 3) of the squared distance, at its closest points."""
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
    g00 = E[0, 0] ** 2 + E[0, 1] ** 2 + E[0, 2] ** 2
    if free == 2:
        g01 = E[0, 0] * E[1, 0] + E[0, 1] * E[1, 1] + E[0, 2] * E[1, 2]
        g11 = E[1, 0] ** 2 + E[1, 1] ** 2 + E[1, 2] ** 2
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
        for j in range(4):
            for k in range(3):
                for m in range(3):
                    hessian[i, j, k, m] -= 2.0 * (
                        i00 * R[0, i, k] * R[0, j, m]
                        + i11 * R[1, i, k] * R[1, j, m]
                        + i01 * (R[0, i, k] * R[1, j, m] + R[1, i, k] * R[0, j, m])
                    )
