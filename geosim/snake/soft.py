"""Soft parts as kernels: corotational tetrahedra and distance constraints; energy, gradient, stiffness.

A tetrahedron carries six corotational strains, Eq. (5) of [Gasoto2019]: with F = R S the strain is S - 1 and

    Psi = V (mu |S - 1|^2 + lambda / 2 tr(S - 1)^2),   P = dPsi/dF / V = 2 mu (F - R) + lambda tr(S - 1) R.

With A = R^T dF and w = axial(A), the exact second derivative is

    d2Psi / V = 2 mu |sym A|^2 + lambda (tr A)^2 + w^T N w,    N = mu 1 - alpha (tr(S) 1 - S)^-1,
    alpha = 2 mu - lambda tr(S - 1).

Only N can be negative; without it (where it is) the element stiffness is semi-definite. A distance constraint has
c = |x_i - x_j| - r and Psi = k c^2 / 2; the part k (1 - r / |d|) of its stiffness across the line is kept where
it is positive.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel
from geosim.matrix3 import jacobi_eigen

__all__ = [
    "spring_energy_gradient",
    "spring_stiffness",
    "symmetric_positive_part",
    "tet_energy_gradient",
    "tet_stiffness",
]


@kernel
def symmetric_positive_part(A):
    """Replace a symmetric 3x3 matrix in place by its positive semi-definite part (Jacobi rotations)."""
    values, V = np.empty(3), np.empty((3, 3))
    jacobi_eigen(A, values, V)
    d0, d1, d2 = max(values[0], 0.0), max(values[1], 0.0), max(values[2], 0.0)
    for i in range(3):
        for j in range(3):
            A[i, j] = V[i, 0] * V[j, 0] * d0 + V[i, 1] * V[j, 1] * d1 + V[i, 2] * V[j, 2] * d2


@kernel
def _polar(F, R):
    """Rotation R of F = R S; Newton's iteration R <- (R + R^-T) / 2, or from the identity where F is inverted."""
    for i in range(3):
        for j in range(3):
            R[i, j] = F[i, j]
    for _ in range(40):
        a, b, c = R[0, 0], R[0, 1], R[0, 2]
        d, e, f = R[1, 0], R[1, 1], R[1, 2]
        g, h, i = R[2, 0], R[2, 1], R[2, 2]
        A, B, C = e * i - f * h, f * g - d * i, d * h - e * g
        det = a * A + b * B + c * C
        if det <= 1e-9:
            _polar_of_inverted(F, R)
            return
        s = 0.5 / det
        R[0, 0], R[0, 1], R[0, 2] = 0.5 * a + s * A, 0.5 * b + s * B, 0.5 * c + s * C
        R[1, 0] = 0.5 * d + s * (c * h - b * i)
        R[1, 1] = 0.5 * e + s * (a * i - c * g)
        R[1, 2] = 0.5 * f + s * (b * g - a * h)
        R[2, 0] = 0.5 * g + s * (b * f - c * e)
        R[2, 1] = 0.5 * h + s * (c * d - a * f)
        R[2, 2] = 0.5 * i + s * (a * e - b * d)
        change = (
            abs(R[0, 0] - a)
            + abs(R[0, 1] - b)
            + abs(R[0, 2] - c)
            + abs(R[1, 0] - d)
            + abs(R[1, 1] - e)
            + abs(R[1, 2] - f)
            + abs(R[2, 0] - g)
            + abs(R[2, 1] - h)
            + abs(R[2, 2] - i)
        )
        # Newton converges quadratically: a change of 1e-8 leaves an error of 1e-16.
        if change < 1e-8:
            return


@kernel
def _polar_of_inverted(F, R):
    """Closest proper rotation to an inverted or flat F: torque iteration from the identity.

    The rotation that maximises tr(R^T F) is found by turning R about sum_k R_k x F_k until that torque vanishes.
    """
    for i in range(3):
        for j in range(3):
            R[i, j] = 1.0 if i == j else 0.0
    size = 0.0
    for i in range(3):
        for j in range(3):
            size += abs(F[i, j])
    T = np.empty((3, 3))
    for _ in range(500):
        w = np.zeros(3)
        dot = 0.0
        for k in range(3):
            w[0] += R[1, k] * F[2, k] - R[2, k] * F[1, k]
            w[1] += R[2, k] * F[0, k] - R[0, k] * F[2, k]
            w[2] += R[0, k] * F[1, k] - R[1, k] * F[0, k]
            dot += R[0, k] * F[0, k] + R[1, k] * F[1, k] + R[2, k] * F[2, k]
        norm = math.sqrt(w[0] ** 2 + w[1] ** 2 + w[2] ** 2)
        if norm <= 1e-13 * size:
            return
        angle = norm / (abs(dot) + 1e-9 * size)
        ax, ay, az = w[0] / norm, w[1] / norm, w[2] / norm
        s, c1 = math.sin(angle), 1.0 - math.cos(angle)
        T[0, 0], T[0, 1], T[0, 2] = 1 - c1 * (ay * ay + az * az), c1 * ax * ay - s * az, c1 * ax * az + s * ay
        T[1, 0], T[1, 1], T[1, 2] = c1 * ax * ay + s * az, 1 - c1 * (ax * ax + az * az), c1 * ay * az - s * ax
        T[2, 0], T[2, 1], T[2, 2] = c1 * ax * az - s * ay, c1 * ay * az + s * ax, 1 - c1 * (ax * ax + ay * ay)
        for k in range(3):
            a, b, c = R[0, k], R[1, k], R[2, k]
            for i in range(3):
                R[i, k] = T[i, 0] * a + T[i, 1] * b + T[i, 2] * c


@kernel
def tet_energy_gradient(x, tets, B, V, mu, lam, gradient, rotations):
    """Add the forces of all tets to `gradient` (n, 3), keep their rotations (m, 3, 3), return the energy [J]."""
    energy = 0.0
    F = np.empty((3, 3))
    for e in range(len(tets)):
        t0, t1, t2, t3 = tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]
        Be = B[e]
        for i in range(3):
            o = x[t0, i]
            d1, d2, d3 = x[t1, i] - o, x[t2, i] - o, x[t3, i] - o
            for j in range(3):
                F[i, j] = d1 * Be[0, j] + d2 * Be[1, j] + d3 * Be[2, j]
        R = rotations[e]
        _polar(F, R)
        trace, distance = -3.0, 0.0
        for i in range(3):
            for j in range(3):
                trace += R[i, j] * F[i, j]
                distance += (F[i, j] - R[i, j]) ** 2
        m, la, v = mu[e], lam[e], V[e]
        energy += v * (m * distance + 0.5 * la * trace * trace)
        for i in range(3):
            p0 = v * (2 * m * (F[i, 0] - R[i, 0]) + la * trace * R[i, 0])
            p1 = v * (2 * m * (F[i, 1] - R[i, 1]) + la * trace * R[i, 1])
            p2 = v * (2 * m * (F[i, 2] - R[i, 2]) + la * trace * R[i, 2])
            f1 = p0 * Be[0, 0] + p1 * Be[0, 1] + p2 * Be[0, 2]
            f2 = p0 * Be[1, 0] + p1 * Be[1, 1] + p2 * Be[1, 2]
            f3 = p0 * Be[2, 0] + p1 * Be[2, 1] + p2 * Be[2, 2]
            gradient[t1, i] += f1
            gradient[t2, i] += f2
            gradient[t3, i] += f3
            gradient[t0, i] -= f1 + f2 + f3
    return energy


@kernel
def _twist_stiffness(S, mu, alpha, clamp, N):
    """N = mu 1 - alpha (tr(S) 1 - S)^-1; with `clamp` zero where it is not positive semi-definite."""
    trace = S[0, 0] + S[1, 1] + S[2, 2]
    a, b, c = trace - S[0, 0], trace - S[1, 1], trace - S[2, 2]
    d, e, f = -S[1, 2], -S[0, 2], -S[0, 1]
    i00, i11, i22 = b * c - d * d, a * c - e * e, a * b - f * f
    i01, i02, i12 = d * e - f * c, f * d - e * b, e * f - d * a
    det = a * i00 + f * i01 + e * i02
    # tr(S) - S has the eigenvalues s_i + s_j; they vanish only for a flattened element.
    s = alpha / (det if det > 1e-6 else 1e-6)
    N[0, 0], N[1, 1], N[2, 2] = mu - s * i00, mu - s * i11, mu - s * i22
    N[0, 1] = N[1, 0] = -s * i01
    N[0, 2] = N[2, 0] = -s * i02
    N[1, 2] = N[2, 1] = -s * i12
    if clamp:
        m00, m11 = N[0, 0], N[0, 0] * N[1, 1] - N[0, 1] ** 2
        m22 = (
            N[2, 2] * m11
            - N[1, 2] * (N[0, 0] * N[1, 2] - N[0, 1] * N[0, 2])
            + N[0, 2] * (N[0, 1] * N[1, 2] - N[1, 1] * N[0, 2])
        )
        if m00 < 0 or m11 < 0 or m22 < 0:
            N[:] = 0.0


@kernel
def tet_stiffness(x, tets, B, V, mu, lam, rotations, index, clamp, blocks):
    """Add the stiffness of all tets to 3x3 blocks: diagonal of vertex a at index[e, a], then pairs (a, b), a < b."""
    S, N, W = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    g = np.empty((4, 3))
    Ng = np.empty((4, 3, 3))
    for e in range(len(tets)):
        R, Be = rotations[e], B[e]
        m, la, v = mu[e], lam[e], V[e]
        t0, t1, t2, t3 = tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]
        for j in range(3):
            # Shape gradients turned into the current frame: g_a = R B_a; sum over a vanishes.
            for a in range(3):
                g[a + 1, j] = R[j, 0] * Be[a, 0] + R[j, 1] * Be[a, 1] + R[j, 2] * Be[a, 2]
            g[0, j] = -g[1, j] - g[2, j] - g[3, j]
        # The left stretch R S R^T = F R^T = sum_a (x_a - x_0) (R B_a)^T; N is wanted in the world frame too.
        for i in range(3):
            o = x[t0, i]
            d1, d2, d3 = x[t1, i] - o, x[t2, i] - o, x[t3, i] - o
            for j in range(3):
                S[i, j] = d1 * g[1, j] + d2 * g[2, j] + d3 * g[3, j]
        alpha = 2 * m - la * (S[0, 0] + S[1, 1] + S[2, 2] - 3.0)
        _twist_stiffness(S, m, alpha, clamp, N)
        for a in range(4):
            # The twist of vertex b is w = x_b x g_b up to sign, a matrix [g_b]x; store N [g_b]x.
            g0, g1, g2 = g[a, 0], g[a, 1], g[a, 2]
            for i in range(3):
                Ng[a, i, 0] = N[i, 1] * g2 - N[i, 2] * g1
                Ng[a, i, 1] = -N[i, 0] * g2 + N[i, 2] * g0
                Ng[a, i, 2] = N[i, 0] * g1 - N[i, 1] * g0
        k = 4
        for a in range(4):
            a0, a1, a2 = g[a, 0], g[a, 1], g[a, 2]
            for b in range(a, 4):
                # [g_a]x^T (N [g_b]x)
                for j in range(3):
                    n0, n1, n2 = Ng[b, 0, j], Ng[b, 1, j], Ng[b, 2, j]
                    W[0, j] = a2 * n1 - a1 * n2
                    W[1, j] = -a2 * n0 + a0 * n2
                    W[2, j] = a1 * n0 - a0 * n1
                if a == b:
                    H = blocks[index[e, a]]
                else:
                    H = blocks[index[e, k]]
                    k += 1
                dot = m * (a0 * g[b, 0] + a1 * g[b, 1] + a2 * g[b, 2])
                for i in range(3):
                    for j in range(3):
                        H[i, j] += v * (m * g[b, i] * g[a, j] + la * g[a, i] * g[b, j] + W[i, j])
                    H[i, i] += v * dot


@kernel
def spring_energy_gradient(x, ends, rest, stiffness, gradient):
    """Add the forces of all distance constraints to `gradient` (n, 3), return their energy [J]."""
    energy = 0.0
    for s in range(len(ends)):
        k = stiffness[s]
        if k == 0.0:
            continue
        i, j = ends[s, 0], ends[s, 1]
        d0, d1, d2 = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        length = math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        c = length - rest[s]
        energy += 0.5 * k * c * c
        f = k * c / length
        gradient[i, 0] += f * d0
        gradient[i, 1] += f * d1
        gradient[i, 2] += f * d2
        gradient[j, 0] -= f * d0
        gradient[j, 1] -= f * d1
        gradient[j, 2] -= f * d2
    return energy


@kernel
def spring_stiffness(x, ends, rest, stiffness, index, clamp, blocks):
    """Add the stiffness of all distance constraints to 3x3 blocks index[s] = (ii, jj, ij)."""
    d = np.empty(3)
    for s in range(len(ends)):
        k = stiffness[s]
        if k == 0.0:
            continue
        i, j = ends[s, 0], ends[s, 1]
        for a in range(3):
            d[a] = x[i, a] - x[j, a]
        length = math.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2)
        across = k * (1.0 - rest[s] / length)
        if clamp and across < 0.0:
            across = 0.0
        along = (k - across) / (length * length)
        Hii, Hjj, Hij = blocks[index[s, 0]], blocks[index[s, 1]], blocks[index[s, 2]]
        for a in range(3):
            for b in range(3):
                h = along * d[a] * d[b] + (across if a == b else 0.0)
                Hii[a, b] += h
                Hjj[a, b] += h
                Hij[a, b] -= h
