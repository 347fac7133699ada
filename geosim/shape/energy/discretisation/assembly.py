"""Assembly of the mixed displacement-pressure equations in compiled loops over flat arrays.

Unknowns are ordered [u (3 a node), p (1 a pressure vertex)]. Of the symmetric matrix

    [ K   B ]      K = integral dF : (A + p d2J/dF2) : dF - sum_c P_c d2v_c      B = integral q cof F : dF
    [ B^T -M ]     M = integral q q / kappa + stabilisation

only the upper triangle is stored (see `pattern`). An element is treated in steps: what the strain energy adds, what
incompressibility adds, what compressibility and stabilisation add, and where all that goes.

Volume ratios J near zero meet a barrier at the points of the incompressibility rows, which are the only points of P1, and of P2
at corners and mid-edges, too, the mean of whose values stands for the element:

    integral mu b(J),       b(J) = -(J - J0)^2 ln(J / J0) for J < J0, and 0 above.

The strain energy of P1 lives on domains of many tets, and that of P2 at four points: neither feels all that turns inside out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.material.tensors import side_by_side

# s of the stabilisation of P1 pressures: 1 is usual for tets, whose strain is stiffer than the smoothed one. Measured with
# `smoothing` against P2 on the same mesh: it takes tips of coarse PneuNets from 9.9 % with 1 to 4.5 %, others change by 2 %.
STABILISATION = 0.3

# J0: the volume ratio below which the barrier acts. Rubber is incompressible: a point at a fifth of its volume is an artefact
# of the mesh, and shapes without such points do not change at all.
BARRIER_VOLUME_RATIO = 0.2

# Elements side by side in the inner loops: two vector registers of doubles on most machines. Assembly with eight takes
# 0.86 of its time with four (0.80 without the matrix): loops and addresses serve twice as many elements.
LANES = 8


class Mesh(NamedTuple):
    """What the kernels know of the elements.

    Parameters
    ----------
    tets, pressure_tets
        Displacement nodes (m, a) and pressure unknowns (m, 4).
    barycentric
        Rest gradients of the barycentric coordinates, (m, 4, 3).
    volumes
        Rest volumes, (m,).
    material
        Row of every element in the table of `tensors.table`, (m,).
    """

    tets: Ints
    pressure_tets: Ints
    barycentric: Floats
    volumes: Floats
    material: Ints

    def deformations(self, x: Floats, slopes: Floats) -> Floats:
        """Deformation gradients at points given by their slopes (q, a, 4), (m, q, 3, 3)."""
        by_corner = np.matmul(slopes.transpose(0, 2, 1), x[self.tets][:, None])  # dx by the barycentric coordinates
        return np.asarray(np.matmul(by_corner.transpose(0, 1, 3, 2), self.barycentric[:, None]))


class Rule(NamedTuple):
    """A quadrature rule on the tetrahedron.

    Parameters
    ----------
    slopes
        Derivatives of the shape functions by the barycentric coordinates, (q, a, 4).
    points
        Barycentric coordinates, which are the values of the pressure's shape functions, (q, 4).
    weights
        Their sum is 1, (q,).
    """

    slopes: Floats
    points: Floats
    weights: Floats


class Volumes(NamedTuple):
    """The rule of the incompressibility rows, by what is known at the points of the strain energy.

    Deformation gradients of P1 and P2 are affine in the element: F at any point is a sum of those at the energy's points.

    Parameters
    ----------
    points, weights
        As of `Rule`.
    shares
        F(q) = sum_c shares[q, c] F(c), (q, c).
    moments
        weights[q] points[q, v] shares[q, c], (4 c, q): what the energy's points bear of the pressures' cofactors.
    crosses
        Of every point and every two m of the first three barycentric coordinates k < l, the factors of their gradients'
        cross product in g_a x g_b, for pairs of nodes a < b in the order of `np.triu_indices`, (3 q, pairs).
    guards
        As `shares`, at the points where the barrier acts alone: corners and mid-edges of P2, none of P1; (w, c).
    """

    points: Floats
    weights: Floats
    shares: Floats
    moments: Floats
    crosses: Floats
    guards: Floats


class _Space(NamedTuple):
    """Work space of `LANES` elements L side by side, with a nodes, c energy points and q points of volume.

    Positions x (3, a, L), rest gradients g (c, 3, a, L), deformation gradients F (c, 3, 3, L); at one point cofactors, J, stress
    P and the work of the law (4, 3, 3, L); the stresses S (c, 3, 3, L) that the points bear; tangents
    A (9, 9, L), their products with gradients T (9, a, 3, L), the stiffness K (pairs of nodes a <= b, 3, 3, L); at points of
    volume F and cofactors (q, 3, 3, L); of pressures the moments Y (3 q, 3, L) of F, C (4, c, 3, 3, L) of cofactors, skew
    blocks s (3, pairs a < b, L) and the coupling B (4, 3, a, L); forces f (3, a, L); slopes of the barrier at points of volume
    by J, first and second (q, L).
    """

    x: Floats
    g: Floats
    F: Floats
    cof: Floats
    J: Floats
    P: Floats
    work: Floats
    S: Floats
    A: Floats
    T: Floats
    K: Floats
    Fq: Floats
    cofs: Floats
    Y: Floats
    C: Floats
    s: Floats
    B: Floats
    f: Floats
    first: Floats
    second: Floats


@kernel
def _space(n, points, volumes):
    return _Space(
        np.empty((3, n, LANES)),
        np.empty((points, 3, n, LANES)),
        np.empty((points, 3, 3, LANES)),
        np.empty((3, 3, LANES)),
        np.empty(LANES),
        np.empty((3, 3, LANES)),
        np.empty((4, 3, 3, LANES)),
        np.empty((points, 3, 3, LANES)),
        np.empty((9, 9, LANES)),
        np.empty((9, n, 3, LANES)),
        np.empty((n * (n + 1) // 2, 3, 3, LANES)),
        np.empty((volumes, 3, 3, LANES)),
        np.empty((volumes, 3, 3, LANES)),
        np.empty((3 * volumes, 3, LANES)),
        np.empty((4, points, 3, 3, LANES)),
        np.empty((3, n * (n - 1) // 2, LANES)),
        np.empty((4, 3, n, LANES)),
        np.empty((3, n, LANES)),
        np.empty((volumes, LANES)),
        np.empty((volumes, LANES)),
    )


@kernel(fastmath=True)
def deform(x, slopes, barycentric, g, F):
    """Write the rest gradients of the shape functions g (3, a) and F = sum_a x_a (x) g_a at one point, x (3, a)."""
    for J in range(3):
        b0, b1, b2, b3 = barycentric[0, J], barycentric[1, J], barycentric[2, J], barycentric[3, J]
        for a in range(g.shape[1]):
            g[J, a] = slopes[a, 0] * b0 + slopes[a, 1] * b1 + slopes[a, 2] * b2 + slopes[a, 3] * b3
    for i in range(3):
        for J in range(3):
            total = 0.0
            for a in range(g.shape[1]):
                total += x[i, a] * g[J, a]
            F[i, J] = total


@kernel(fastmath=True)
def _gather(x, mesh, ids, b, rule, space):
    """Copy the positions of elements, their barycentric gradients b (4, 3, L), and write g and F at the energy's points."""
    for lane in range(LANES):
        e = ids[lane]
        for a in range(mesh.tets.shape[1]):
            node = mesh.tets[e, a]
            for i in range(3):
                space.x[i, a, lane] = x[node, i]
        for k in range(4):
            for i in range(3):
                b[k, i, lane] = mesh.barycentric[e, k, i]
    for c in range(len(rule.weights)):
        _deform(space.x, rule.slopes[c], b, space.g[c], space.F[c])


@kernel(fastmath=True, lanes=True)
def _deform(x, slopes, b, g, F):
    """What `deform` does, of elements side by side."""
    for J in range(3):
        for a in range(g.shape[1]):
            s0, s1, s2, s3 = slopes[a, 0], slopes[a, 1], slopes[a, 2], slopes[a, 3]
            for lane in range(LANES):
                g[J, a, lane] = s0 * b[0, J, lane] + s1 * b[1, J, lane] + s2 * b[2, J, lane] + s3 * b[3, J, lane]
    F[:] = 0.0
    for i in range(3):
        for J in range(3):
            for a in range(g.shape[1]):
                for lane in range(LANES):
                    F[i, J, lane] += x[i, a, lane] * g[J, a, lane]


@kernel(fastmath=True, lanes=True)
def _stiffen(A, g, T, K):
    """K += g : A : g, by T = A : g over the second pair of indices."""
    n = g.shape[1]
    for r in range(9):
        for b in range(n):
            for k in range(3):
                for lane in range(LANES):
                    T[r, b, k, lane] = (
                        A[r, 3 * k, lane] * g[0, b, lane]
                        + A[r, 3 * k + 1, lane] * g[1, b, lane]
                        + A[r, 3 * k + 2, lane] * g[2, b, lane]
                    )
    pair = 0
    for a in range(n):
        for b in range(a, n):
            for i in range(3):
                for k in range(3):
                    for lane in range(LANES):
                        K[pair, i, k, lane] += (
                            g[0, a, lane] * T[3 * i, b, k, lane]
                            + g[1, a, lane] * T[3 * i + 1, b, k, lane]
                            + g[2, a, lane] * T[3 * i + 2, b, k, lane]
                        )
            pair += 1


@kernel(inline="always")
def materials_of(material, ids):
    """Rows of the table of materials of elements side by side: a tuple, whose length the compiler knows."""
    m = material
    return m[ids[0]], m[ids[1]], m[ids[2]], m[ids[3]], m[ids[4]], m[ids[5]], m[ids[6]], m[ids[7]]


@kernel
def inadmissible(row, J):
    """Whether the energy has a pole at J = 0 that is passed: the full form of an incompressible body has none."""
    return J <= 0.0 and row[4] < 0.0


@kernel(lanes=True)
def cofactors(F, cof, J):
    """Write the cofactors (3, 3, L) of deformation gradients and J (L,); return the least J."""
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for k in range(3):
            k1, k2 = (k + 1) % 3, (k + 2) % 3
            for lane in range(LANES):
                cof[i, k, lane] = F[i1, k1, lane] * F[i2, k2, lane] - F[i1, k2, lane] * F[i2, k1, lane]
    for lane in range(LANES):
        J[lane] = F[0, 0, lane] * cof[0, 0, lane] + F[0, 1, lane] * cof[0, 1, lane] + F[0, 2, lane] * cof[0, 2, lane]
    smallest = J[0]
    for lane in range(1, LANES):
        smallest = min(smallest, J[lane])
    return smallest


@kernel
def volume_barrier(J):
    """Value and derivatives of the barrier b(J), 0 < J < J0."""
    u, log = J - BARRIER_VOLUME_RATIO, np.log(J / BARRIER_VOLUME_RATIO)
    return -u * u * log, -2.0 * u * log - u * u / J, -2.0 * log - 4.0 * u / J + (u / J) ** 2


@kernel
def turned(table, which, J):
    """Whether one of elements side by side has passed a pole of its energy."""
    turned = False
    for lane in range(LANES):
        turned |= inadmissible(table[which[lane]], J[lane])
    return turned


@kernel
def _strain_energy(table, which, weights, volume, matrix, space, total):
    """Add strain energies to total (L,) and the tangent to K, write the stresses S that the points bear; return the least J."""
    smallest, work = np.inf, space.work
    for c in range(len(weights)):
        F, P, A = space.F[c], space.P, space.A
        smallest = min(smallest, cofactors(F, space.cof, space.J))
        if turned(table, which, space.J):
            total[:] = np.inf
            return smallest
        side_by_side(table, which, F, space.J, space.cof, P, A, work, 2 if matrix else 1)
        _weigh(weights[c], volume, work[2, 2, 2], P, A, space.S[c], total, matrix)
        if matrix:
            _stiffen(A, space.g[c], space.T, space.K)
    return smallest


@kernel(lanes=True)
def _weigh(weight, volume, W, P, A, S, total, matrix):
    """Multiply by the volumes that a point stands for: the tangents A, the stresses P to S, the energies W, added to total."""
    for lane in range(LANES):
        total[lane] += weight * volume[lane] * W[lane]
    for i in range(3):
        for k in range(3):
            for lane in range(LANES):
                S[i, k, lane] = weight * volume[lane] * P[i, k, lane]
    for r in range(9 if matrix else 0):
        for k in range(9):
            for lane in range(LANES):
                A[r, k, lane] *= weight * volume[lane]


@kernel
def _incompressibility(table, which, p, b, volume, rule, matrix, space, total, gap, body):
    """Add integral q (J - 1) to gap (4, L), its stresses to S, its tangent to K and B, volumes to body (L,); return least J.

    What the barrier adds goes with it, its energy to total (L,); body is -inf where a point is inside out.
    """
    _sums(rule.shares, space.F.reshape(-1, 9 * LANES), space.Fq.reshape(-1, 9 * LANES))
    smallest = np.inf
    for q in range(len(rule.weights)):
        least = cofactors(space.Fq[q], space.cofs[q], space.J)
        smallest = min(smallest, least)
        if least <= 0.0:
            body[:] = -np.inf
            return smallest
        space.first[q] = 0.0
        if least < BARRIER_VOLUME_RATIO:
            _resist(table, which, rule.weights[q], volume, space.J, space.first[q], space.second[q], total)
        _moments(
            space.Fq[q],
            space.J,
            rule.weights[q],
            rule.points[q],
            p,
            space.first[q],
            b,
            volume,
            space.Y[3 * q : 3 * q + 3],
            gap,
            body,
        )
    _sums(rule.moments, space.cofs.reshape(-1, 9 * LANES), space.C.reshape(-1, 9 * LANES))
    _press(p, space.C, volume, space.S)
    if matrix:
        _skew(space.Y, rule.crosses, space.s, space.K, space.x.shape[1])
        for v in range(4):
            _bear(space.C[v], space.g, space.B[v])
    for q in range(len(rule.weights) if smallest < BARRIER_VOLUME_RATIO else 0):
        _repel(rule.shares[q], rule.weights[q], q, False, volume, matrix, space)
    count = len(rule.guards)
    _sums(rule.guards, space.F.reshape(-1, 9 * LANES), space.Fq[:count].reshape(-1, 9 * LANES))
    least = _least_volume_ratio(space.Fq[:count], space.J)
    if least <= 0.0:
        body[:] = -np.inf
    for w in range(count if 0.0 < least < BARRIER_VOLUME_RATIO else 0):
        cofactors(space.Fq[w], space.cofs[w], space.J)
        _resist(table, which, 1.0 / count, volume, space.J, space.first[w], space.second[w], total)
        _repel(rule.guards[w], 1.0 / count, w, True, volume, matrix, space)
    return smallest


@kernel(fastmath=True, lanes=True)
def _least_volume_ratio(F, least):
    """Return the least J of deformation gradients (q, 3, 3, L), by the least of every element, `least` (L,)."""
    least[:] = np.inf
    for q in range(len(F)):
        for lane in range(LANES):
            J = F[q, 0, 0, lane] * (F[q, 1, 1, lane] * F[q, 2, 2, lane] - F[q, 1, 2, lane] * F[q, 2, 1, lane])
            J += F[q, 0, 1, lane] * (F[q, 1, 2, lane] * F[q, 2, 0, lane] - F[q, 1, 0, lane] * F[q, 2, 2, lane])
            J += F[q, 0, 2, lane] * (F[q, 1, 0, lane] * F[q, 2, 1, lane] - F[q, 1, 1, lane] * F[q, 2, 0, lane])
            least[lane] = min(least[lane], J)
    return least.min()


@kernel
def _resist(table, which, weight, volume, J, first, second, total):
    """Write the derivatives of the barrier at one point (L,), add its energy to total (L,)."""
    for lane in range(LANES):
        first[lane], second[lane] = 0.0, 0.0
        if J[lane] < BARRIER_VOLUME_RATIO:
            modulus = 1.0 / table[which[lane], 2]
            value, slope, bend = volume_barrier(J[lane])
            first[lane], second[lane] = modulus * slope, modulus * bend
            total[lane] += weight * volume[lane] * modulus * value


@kernel
def _repel(shares, weight, q, alone, volume, matrix, space):
    """Add the stress of the barrier at a point to S, and with `matrix` b'' dJ (x) dJ to K, and b' d2J where it acts `alone`.

    Elsewhere b' d2J is among the moments. F at the point is the sum of those at the energy's points with `shares`, its cofactors
    and the slopes of the barrier are the q-th.
    """
    n = space.x.shape[1]
    g = np.empty((3, n))
    for lane in range(LANES):
        if space.first[q, lane] == 0.0:
            continue
        own = weight * volume[lane]
        g[:] = 0.0
        for c in range(len(space.S)):
            for i in range(3):
                for a in range(n):
                    g[i, a] += shares[c] * space.g[c, i, a, lane]
                for k in range(3):
                    space.S[c, i, k, lane] += shares[c] * own * space.first[q, lane] * space.cofs[q, i, k, lane]
        if matrix:
            _stiffen_barrier(q, lane, own, alone, g, space)


@kernel
def _stiffen_barrier(q, lane, own, alone, g, space):
    """Add the tangent of the barrier at the q-th point of one element, whose shape functions have gradients g (3, a), to K."""
    n = g.shape[1]
    slope = np.empty((n, 3))
    for a in range(n):
        for i in range(3):
            cof = space.cofs[q, i, :, lane]
            slope[a, i] = cof[0] * g[0, a] + cof[1] * g[1, a] + cof[2] * g[2, a]
    pair = 0
    for a in range(n):
        for d in range(a, n):
            for i in range(3):
                for k in range(3):
                    space.K[pair, i, k, lane] += own * space.second[q, lane] * slope[a, i] * slope[d, k]
            if alone:
                _turn(space.Fq[q, :, :, lane], g, a, d, own * space.first[q, lane], space.K[pair, :, :, lane])
            pair += 1


@kernel
def _turn(F, g, a, d, factor, K):
    """Add the second derivative of J by two nodes, the skew block of F (g_a x g_d), times a factor to K (3, 3)."""
    for i in range(3):
        one, other = (i + 1) % 3, (i + 2) % 3
        total = 0.0
        for k in range(3):
            m, n = (k + 1) % 3, (k + 2) % 3
            total += F[i, k] * (g[m, a] * g[n, d] - g[n, a] * g[m, d])
        K[one, other] += factor * total
        K[other, one] -= factor * total


@kernel(fastmath=True, lanes=True)
def _moments(F, J, weight, point, p, more, b, volume, Y, gap, body):
    """Add a point's w q (J - 1) to gap and its volumes to body, write w p F (b_k x b_l) of the three pairs k < l < 3 to Y.

    The pressures there are as in `p` and more (L,).
    """
    for lane in range(LANES):
        body[lane] += weight * volume[lane] * J[lane]
        for v in range(4):
            gap[v, lane] += weight * volume[lane] * point[v] * (J[lane] - 1.0)
    for m in range(3):
        k, n = (0, 1) if m == 0 else (m - 1, 2)
        for i in range(3):
            for lane in range(LANES):
                Y[m, i, lane] = 0.0
        for j in range(3):
            one, other = (j + 1) % 3, (j + 2) % 3
            for i in range(3):
                for lane in range(LANES):
                    push = point[0] * p[0, lane] + point[1] * p[1, lane] + point[2] * p[2, lane] + point[3] * p[3, lane]
                    push += more[lane]
                    crossed = b[k, one, lane] * b[n, other, lane] - b[k, other, lane] * b[n, one, lane]
                    Y[m, i, lane] += weight * volume[lane] * push * F[i, j, lane] * crossed


@kernel(fastmath=True, lanes=True)
def _sums(weights, rows, out):
    """Write the sums of rows (s, 9 L) with weights (r, s) to out (r, 9 L)."""
    out[:] = 0.0
    for r in range(len(weights)):
        for s in range(len(rows)):
            w = weights[r, s]
            for k in range(9 * LANES):
                out[r, k] += w * rows[s, k]


@kernel(fastmath=True, lanes=True)
def _press(p, C, volume, S):
    """Multiply moments of cofactors by the volumes of the elements, and add what the pressures make of them to the stresses."""
    for v in range(4):
        for c in range(len(S)):
            for i in range(3):
                for k in range(3):
                    for lane in range(LANES):
                        C[v, c, i, k, lane] *= volume[lane]
                        S[c, i, k, lane] += p[v, lane] * C[v, c, i, k, lane]


@kernel(fastmath=True, lanes=True)
def _bear(S, g, f):
    """Write the sum of S_c g_c over the points into f (3, a, L)."""
    f[:] = 0.0
    for c in range(len(S)):
        for i in range(3):
            for a in range(f.shape[1]):
                for lane in range(LANES):
                    f[i, a, lane] += (
                        S[c, i, 0, lane] * g[c, 0, a, lane]
                        + S[c, i, 1, lane] * g[c, 1, a, lane]
                        + S[c, i, 2, lane] * g[c, 2, a, lane]
                    )


@kernel(fastmath=True, lanes=True)
def _skew(Y, crosses, s, K, n):
    """Add the skew blocks of p d2J/dF2 to K[a, b], a < b: those of p F (g_a x g_b), whatever the sign of J."""
    s[:] = 0.0
    for m in range(0, len(Y), 3):
        for i in range(3):
            for pair in range(s.shape[1]):
                one, other, last = crosses[m, pair], crosses[m + 1, pair], crosses[m + 2, pair]
                for lane in range(LANES):
                    s[i, pair, lane] += one * Y[m, i, lane] + other * Y[m + 1, i, lane] + last * Y[m + 2, i, lane]
    pair, at = 0, 0
    for a in range(n):
        at += 1  # the block of a with itself has none
        for _ in range(a + 1, n):
            for lane in range(LANES):
                K[at, 0, 1, lane] += s[2, pair, lane]
                K[at, 1, 0, lane] -= s[2, pair, lane]
                K[at, 0, 2, lane] -= s[1, pair, lane]
                K[at, 2, 0, lane] += s[1, pair, lane]
                K[at, 1, 2, lane] += s[0, pair, lane]
                K[at, 2, 1, lane] -= s[0, pair, lane]
            pair, at = pair + 1, at + 1


@kernel
def _compressibility(row, p, volume, linear, gap, M):
    """Write the block -M (4, 4) of compressibility and stabilisation, add -M p to gap (4,); return p M p / 2.

    That is what they store: p^2 / 2 kappa, and what the stabilisation takes of the work of pressures as J leaves 1.

    integral N_u N_v = V (1 + delta_uv) / 20; stabilisation takes off the means, V / 16 [Dohrmann-Bochev].
    """
    soft = STABILISATION * row[2] if linear else 0.0
    stored = 0.0
    for u in range(4):
        for v in range(4):
            mass = (2.0 if u == v else 1.0) / 20.0
            M[u, v] = -volume * (row[1] * mass + soft * (mass - 1.0 / 16.0))
            gap[u] += M[u, v] * p[v]
            stored -= 0.5 * p[u] * M[u, v] * p[v]
    return stored


@kernel
def _scatter(k, nodes, mesh, places, lane, K, B, M, data):
    """Add the blocks of the k-th element to the upper triangle; rows of pressures come after those of the nodes."""
    e, indptr, n = places.order[k], places.indptr, mesh.tets.shape[1]
    pair = 0
    for a in range(n):
        node = mesh.tets[e, a]
        for i in range(3):
            row = indptr[3 * node + i]
            at = row + 3 * places.node_rank[k, a, a] - i
            for j in range(i, 3):
                data[at + j] += K[pair, i, j, lane]
            at = row + 3 * places.node_degree[node] - i
            for v in range(4):
                data[at + places.pressure_rank[k, a, v]] += B[v, i, a, lane]
        for b in range(a + 1, n):
            pair += 1
            other = mesh.tets[e, b]
            _scatter_pair(node, other, 3 * places.node_rank[k, a, b], K[pair], lane, indptr, data)
        pair += 1
    for u in range(4):
        for v in range(u, 4):
            if places.mass_rank[k, u, v] >= 0:
                first = min(mesh.pressure_tets[e, u], mesh.pressure_tets[e, v])
                data[indptr[3 * nodes + first] + places.mass_rank[k, u, v]] += M[u, v]


@kernel
def _scatter_pair(node, other, rank, block, lane, indptr, data):
    """Add the block of two nodes, of elements side by side: `patterns.add_block` takes a tenth of an assembly more."""
    if node < other:
        for i in range(3):
            at = indptr[3 * node + i] + rank - i
            for j in range(3):
                data[at + j] += block[i, j, lane]
    else:
        for i in range(3):
            at = indptr[3 * other + i] + rank - i
            for j in range(3):
                data[at + j] += block[j, i, lane]


@kernel
def _add_residuals(e, mesh, lane, f, own, force, scale, gaps):
    """Add the forces f (3, a, L), their norms and the constraint residuals (4,) of an element."""
    for v in range(4):
        gaps[mesh.pressure_tets[e, v]] += own[v]
    for a in range(mesh.tets.shape[1]):
        node, own_force = mesh.tets[e, a], (f[0, a, lane], f[1, a, lane], f[2, a, lane])
        scale[node] += np.sqrt(own_force[0] ** 2 + own_force[1] ** 2 + own_force[2] ** 2)
        for i in range(3):
            force[node, i] += own_force[i]


@kernel(lanes=True)
def assemble(x, p, mesh, table, energy, constraint, linear, matrix, places, data, force, scale, gaps):
    """Add internal forces, constraint residuals and (with `matrix`) the tangent of all elements.

    Parameters
    ----------
    x, p
        Node positions (n, 3) and pressures (v,), scaled.
    mesh, table
        `Mesh`, and the rows of `tensors.table`.
    energy, constraint
        `Rule` of the strain energy and `Volumes` of the incompressibility rows.
    linear
        Whether the elements are P1: then the Dohrmann-Bochev term -(s/mu) (p - Pi p)(q - Pi q) is added, and the strain energy
        is left to `smoothing`.
    places, data
        `Places`, and the CSR values, added to.
    force, scale, gaps
        Added to: forces (n, 3), nodal sums of the norms of element forces (n,), constraint residuals (v,).

    Returns
    -------
    energy, smallest J at the quadrature points, body volume; energy is inf if an element is inverted there.
    """
    n, count = mesh.tets.shape[1], len(places.order)
    space = _space(n, len(energy.weights), len(constraint.weights))
    ids, volume, b = np.empty(LANES, np.int64), np.empty(LANES), np.empty((4, 3, LANES))
    pe, gap, own, M = np.empty((4, LANES)), np.empty((4, LANES)), np.empty(4), np.empty((4, 4))
    work, body = np.empty(LANES), np.empty(LANES)
    total, smallest, filled = 0.0, np.inf, 0.0
    for start in range(0, count, LANES):
        for lane in range(LANES):
            e = places.order[
                min(start + lane, count - 1)
            ]  # beyond the last element it stands again, and is left out below
            ids[lane], volume[lane] = e, mesh.volumes[e]
            for v in range(4):
                pe[v, lane] = p[mesh.pressure_tets[e, v]]
        which = materials_of(mesh.material, ids)
        _gather(x, mesh, ids, b, energy, space)
        gap[:], work[:], body[:] = 0.0, 0.0, 0.0
        if matrix:
            space.K[:] = 0.0
        if linear:
            space.S[:] = 0.0
        else:
            smallest = min(smallest, _strain_energy(table, which, energy.weights, volume, matrix, space, work))
            if work[0] == np.inf:
                return np.inf, smallest, 0.0
        least = _incompressibility(table, which, pe, b, volume, constraint, matrix, space, work, gap, body)
        smallest = min(smallest, least)
        if body[0] == -np.inf:
            return np.inf, smallest, 0.0
        _bear(space.S, space.g, space.f)
        for lane in range(min(LANES, count - start)):
            e = ids[lane]
            for v in range(4):
                own[v] = gap[v, lane]
            total += work[lane] + _compressibility(table[which[lane]], pe[:, lane], volume[lane], linear, own, M)
            filled += body[lane]
            _add_residuals(e, mesh, lane, space.f, own, force, scale, gaps)
            if matrix:
                _scatter(start + lane, len(x), mesh, places, lane, space.K, space.B, M, data)
    return total, smallest, filled
