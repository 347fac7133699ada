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
from geosim.linear.matrix3 import jacobi_eigen

__all__ = [
    "close_rows",
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


_FIRST, _SECOND = (0, 1, 2, 1, 0, 0), (0, 1, 2, 2, 2, 1)  # entries xx yy zz yz xz xy
_LANES = 64  # tets that are treated at once: the loops over them become vector instructions


@kernel
def _deformation(x, tets, B, first, count, F):
    """Write F = sum_a (x_a - x_0) B_a of `count` tets from `first` to rows (i, j) of F (9 _LANES,); the rest is 1."""
    W = _LANES
    for t in range(count):
        e = first + t
        t0, t1, t2, t3 = tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]
        for i in range(3):
            o = x[t0, i]
            F[3 * i * W + t], F[(3 * i + 1) * W + t], F[(3 * i + 2) * W + t] = x[t1, i] - o, x[t2, i] - o, x[t3, i] - o
    for i in range(3):
        for t in range(W):
            d1, d2, d3 = F[3 * i * W + t], F[(3 * i + 1) * W + t], F[(3 * i + 2) * W + t]
            for j in range(3):
                F[(3 * i + j) * W + t] = d1 * B[j * W + t] + d2 * B[(3 + j) * W + t] + d3 * B[(6 + j) * W + t]
    for t in range(count, W):
        for k in range(9):
            F[k * W + t] = 1.0 if k % 4 == 0 else 0.0


@kernel
def _polar(F, R, change):
    """Rotations R of F = R S in all lanes; Newton's iteration R <- (R + R^-T) / 2, or apart where F is inverted."""
    W = _LANES
    inverted = False
    for t in range(W):
        det = (
            F[t] * (F[4 * W + t] * F[8 * W + t] - F[5 * W + t] * F[7 * W + t])
            + F[W + t] * (F[5 * W + t] * F[6 * W + t] - F[3 * W + t] * F[8 * W + t])
            + F[2 * W + t] * (F[3 * W + t] * F[7 * W + t] - F[4 * W + t] * F[6 * W + t])
        )
        # Positive determinants stay positive; the others wait at the identity.
        change[t] = 1.0 if det > 1e-9 else 0.0
    for t in range(W):
        inverted = inverted or change[t] == 0.0
        for k in range(9):
            R[k * W + t] = F[k * W + t] if change[t] > 0.0 else (1.0 if k % 4 == 0 else 0.0)
    for _ in range(40):
        for t in range(W):
            a, b, c = R[t], R[W + t], R[2 * W + t]
            d, e, f = R[3 * W + t], R[4 * W + t], R[5 * W + t]
            g, h, i = R[6 * W + t], R[7 * W + t], R[8 * W + t]
            A, B, C = e * i - f * h, f * g - d * i, d * h - e * g
            s = 0.5 / (a * A + b * B + c * C)
            a1, b1, c1 = 0.5 * a + s * A, 0.5 * b + s * B, 0.5 * c + s * C
            d1, e1, f1 = 0.5 * d + s * (c * h - b * i), 0.5 * e + s * (a * i - c * g), 0.5 * f + s * (b * g - a * h)
            g1, h1, i1 = 0.5 * g + s * (b * f - c * e), 0.5 * h + s * (c * d - a * f), 0.5 * i + s * (a * e - b * d)
            R[t], R[W + t], R[2 * W + t] = a1, b1, c1
            R[3 * W + t], R[4 * W + t], R[5 * W + t] = d1, e1, f1
            R[6 * W + t], R[7 * W + t], R[8 * W + t] = g1, h1, i1
            change[t] = abs(a1 - a) + abs(b1 - b) + abs(c1 - c) + abs(d1 - d) + abs(e1 - e) + abs(f1 - f)
            change[t] += abs(g1 - g) + abs(h1 - h) + abs(i1 - i)
        worst = 0.0
        for t in range(W):
            worst = max(worst, change[t])
        # Newton converges quadratically: a change of 1e-8 leaves an error of 1e-16.
        if worst < 1e-8:
            break
    return inverted


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
def _correct_inverted(F, R, count):
    """Rotations of the lanes whose F is inverted or flat."""
    one, turn = np.empty((3, 3)), np.empty((3, 3))
    for t in range(count):
        for k in range(9):
            one[k // 3, k % 3] = F[k * _LANES + t]
        det = (
            one[0, 0] * (one[1, 1] * one[2, 2] - one[1, 2] * one[2, 1])
            + one[0, 1] * (one[1, 2] * one[2, 0] - one[1, 0] * one[2, 2])
            + one[0, 2] * (one[1, 0] * one[2, 1] - one[1, 1] * one[2, 0])
        )
        if det > 1e-9:
            continue
        _polar_of_inverted(one, turn)
        for k in range(9):
            R[k * _LANES + t] = turn[k // 3, k % 3]


@kernel
def tet_energy_gradient(x, tets, shape, volumes, mu, lam, gradient, rotations):
    """Add the forces of all tets to `gradient` (n, 3), keep their rotations (9, m), return the energy [J].

    `shape` (9, m) holds the derivatives of the barycentric coordinates 1, 2, 3 by place, row 3 (a - 1) + j.
    """
    W = _LANES
    F, R, change, energy = np.empty(9 * W), np.empty(9 * W), np.empty(W), np.zeros(W)
    v, m, la, B = np.zeros(W), np.zeros(W), np.zeros(W), np.zeros(9 * W)
    for first in range(0, len(tets), W):
        count = min(W, len(tets) - first)
        v[:] = 0.0
        v[:count] = volumes[first : first + count]
        m[:count] = mu[first : first + count]
        la[:count] = lam[first : first + count]
        for k in range(9):
            B[k * W : k * W + count] = shape[k, first : first + count]
        _deformation(x, tets, B, first, count, F)
        if _polar(F, R, change):
            _correct_inverted(F, R, count)
        for k in range(9):
            rotations[k, first : first + count] = R[k * W : k * W + count]
        for t in range(W):
            trace, distance = -3.0, 0.0
            for k in range(9):
                trace += R[k * W + t] * F[k * W + t]
                distance += (F[k * W + t] - R[k * W + t]) ** 2
            energy[t] += v[t] * (m[t] * distance + 0.5 * la[t] * trace * trace)
            stretch, shear = v[t] * la[t] * trace, 2 * v[t] * m[t]
            for i in range(3):
                p0 = shear * (F[(3 * i) * W + t] - R[(3 * i) * W + t]) + stretch * R[(3 * i) * W + t]
                p1 = shear * (F[(3 * i + 1) * W + t] - R[(3 * i + 1) * W + t]) + stretch * R[(3 * i + 1) * W + t]
                p2 = shear * (F[(3 * i + 2) * W + t] - R[(3 * i + 2) * W + t]) + stretch * R[(3 * i + 2) * W + t]
                for a in range(3):  # the force on vertex a + 1 takes the place of F
                    F[(3 * i + a) * W + t] = (
                        p0 * B[(3 * a) * W + t] + p1 * B[(3 * a + 1) * W + t] + p2 * B[(3 * a + 2) * W + t]
                    )
        for t in range(count):
            e = first + t
            t0, t1, t2, t3 = tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]
            for i in range(3):
                f1, f2, f3 = F[(3 * i) * W + t], F[(3 * i + 1) * W + t], F[(3 * i + 2) * W + t]
                gradient[t1, i] += f1
                gradient[t2, i] += f2
                gradient[t3, i] += f3
                gradient[t0, i] -= f1 + f2 + f3
    return energy.sum()


@kernel
def _twist_stiffness(S, m, la, clamp, N):
    """N = mu 1 - alpha (tr(S) 1 - S)^-1 in all lanes, rows xx yy zz yz xz xy; with `clamp` zero unless semi-definite."""
    W = _LANES
    for t in range(W):
        s0, s1, s2 = S[t], S[W + t], S[2 * W + t]
        d, e, f = -S[3 * W + t], -S[4 * W + t], -S[5 * W + t]
        trace = s0 + s1 + s2
        a, b, c = trace - s0, trace - s1, trace - s2
        i00, i11, i22 = b * c - d * d, a * c - e * e, a * b - f * f
        i01, i02, i12 = d * e - f * c, f * d - e * b, e * f - d * a
        # tr(S) - S has the eigenvalues s_i + s_j; they vanish only for a flattened element.
        s = (2 * m[t] - la[t] * (trace - 3.0)) / max(a * i00 + f * i01 + e * i02, 1e-6)
        n00, n11, n22 = m[t] - s * i00, m[t] - s * i11, m[t] - s * i22
        n01, n02, n12 = -s * i01, -s * i02, -s * i12
        minor = n00 * n11 - n01 * n01
        whole = n22 * minor - n12 * (n00 * n12 - n01 * n02) + n02 * (n01 * n12 - n11 * n02)
        keep = 1.0 if (not clamp) or (n00 >= 0 and minor >= 0 and whole >= 0) else 0.0
        N[t], N[W + t], N[2 * W + t] = keep * n00, keep * n11, keep * n22
        N[3 * W + t], N[4 * W + t], N[5 * W + t] = keep * n12, keep * n02, keep * n01


@kernel
def _pair_stiffness(g, N, v, m, la, a, b, H):
    """Stiffness (3, 3) between the vertices a and b in all lanes, times the volume; g are the shape gradients."""
    W = _LANES
    for t in range(W):
        a0, a1, a2 = g[(3 * a) * W + t], g[(3 * a + 1) * W + t], g[(3 * a + 2) * W + t]
        b0, b1, b2 = g[(3 * b) * W + t], g[(3 * b + 1) * W + t], g[(3 * b + 2) * W + t]
        n00, n11, n22 = N[t], N[W + t], N[2 * W + t]
        n12, n02, n01 = N[3 * W + t], N[4 * W + t], N[5 * W + t]
        # The twist of vertex b is w = x_b x g_b up to sign, a matrix [g_b]x: columns of M = N [g_b]x.
        m00, m10, m20 = n01 * b2 - n02 * b1, n11 * b2 - n12 * b1, n12 * b2 - n22 * b1
        m01, m11, m21 = n02 * b0 - n00 * b2, n12 * b0 - n01 * b2, n22 * b0 - n02 * b2
        m02, m12, m22 = n00 * b1 - n01 * b0, n01 * b1 - n11 * b0, n02 * b1 - n12 * b0
        vol, M, L = v[t], v[t] * m[t], v[t] * la[t]
        dot = M * (a0 * b0 + a1 * b1 + a2 * b2)
        # mu (g_b g_a^T + g_a . g_b 1) + lambda g_a g_b^T + [g_a]x^T M
        H[t] = (M + L) * a0 * b0 + dot + vol * (a2 * m10 - a1 * m20)
        H[W + t] = M * b0 * a1 + L * a0 * b1 + vol * (a2 * m11 - a1 * m21)
        H[2 * W + t] = M * b0 * a2 + L * a0 * b2 + vol * (a2 * m12 - a1 * m22)
        H[3 * W + t] = M * b1 * a0 + L * a1 * b0 + vol * (a0 * m20 - a2 * m00)
        H[4 * W + t] = (M + L) * a1 * b1 + dot + vol * (a0 * m21 - a2 * m01)
        H[5 * W + t] = M * b1 * a2 + L * a1 * b2 + vol * (a0 * m22 - a2 * m02)
        H[6 * W + t] = M * b2 * a0 + L * a2 * b0 + vol * (a1 * m00 - a0 * m10)
        H[7 * W + t] = M * b2 * a1 + L * a2 * b1 + vol * (a1 * m01 - a0 * m11)
        H[8 * W + t] = (M + L) * a2 * b2 + dot + vol * (a1 * m02 - a0 * m12)


@kernel
def tet_stiffness(x, tets, shape, volumes, mu, lam, rotations, index, clamp, blocks):
    """Add the stiffness between different vertices of all tets: pair (a, b), a < b, to the 3x3 block index[e, pair].

    The diagonal follows, because no element resists a translation: see `close_rows`.
    """
    W = _LANES
    F, g, S, N, H = np.empty(9 * W), np.zeros(12 * W), np.zeros(6 * W), np.empty(6 * W), np.empty(9 * W)
    R, B, v, m, la = np.zeros(9 * W), np.zeros(9 * W), np.zeros(W), np.zeros(W), np.zeros(W)
    for first in range(0, len(tets), W):
        count = min(W, len(tets) - first)
        v[:count] = volumes[first : first + count]
        m[:count] = mu[first : first + count]
        la[:count] = lam[first : first + count]
        for k in range(9):
            R[k * W : k * W + count] = rotations[k, first : first + count]
            B[k * W : k * W + count] = shape[k, first : first + count]
        _deformation(x, tets, B, first, count, F)
        for j in range(3):
            for t in range(W):
                # Shape gradients turned into the current frame: g_a = R B_a; their sum over a vanishes.
                total = 0.0
                for a in range(3):
                    value = 0.0
                    for k in range(3):
                        value += R[(3 * j + k) * W + t] * B[(3 * a + k) * W + t]
                    g[(3 * a + 3 + j) * W + t] = value
                    total += value
                g[j * W + t] = -total
        for t in range(W):
            # The left stretch R S R^T = F R^T; N is wanted in the world frame too.
            for k in range(6):
                i, j = _FIRST[k], _SECOND[k]
                value = 0.0
                for c in range(3):
                    value += F[(3 * i + c) * W + t] * R[(3 * j + c) * W + t]
                S[k * W + t] = value
        _twist_stiffness(S, m, la, clamp, N)
        pair = 0
        for a in range(4):
            for b in range(a + 1, 4):
                _pair_stiffness(g, N, v, m, la, a, b, H)
                for t in range(count):
                    block = blocks[index[first + t, pair]]
                    for k in range(9):
                        block[k // 3, k % 3] += H[k * W + t]
                pair += 1


@kernel
def close_rows(rows, columns, diagonal, particles, blocks):
    """Set the diagonal blocks of particles so that no translation of all of them is resisted: minus the sum of the row."""
    for k in range(len(blocks)):
        r, c = rows[k], columns[k]
        if r == c or r >= particles or c >= particles:
            continue
        P, Q, H = blocks[diagonal[r]], blocks[diagonal[c]], blocks[k]
        for i in range(3):
            for j in range(3):
                P[i, j] -= H[i, j]
                Q[i, j] -= H[j, i]


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
    """Add the stiffness between the ends of all distance constraints to 3x3 blocks index[s]; see `close_rows`."""
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
        H = blocks[index[s]]
        for a in range(3):
            for b in range(3):
                H[a, b] -= along * d[a] * d[b] + (across if a == b else 0.0)
