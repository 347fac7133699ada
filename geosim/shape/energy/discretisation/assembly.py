"""Assembly of the mixed displacement-pressure equations in compiled loops over flat arrays.

Unknowns are ordered [u (3 a node), p (1 a pressure vertex)]. Of the symmetric matrix

    [ K   B ]      K = integral dF : (A + p d2J/dF2) : dF - sum_c P_c d2v_c      B = integral q cof F : dF
    [ B^T -M ]     M = integral q q / kappa + stabilisation

only the upper triangle is stored (see `pattern`). An element is treated in steps: what the strain energy adds, what
incompressibility adds, what compressibility and stabilisation add, and where all that goes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints, einsum
from geosim.kernels import kernel
from geosim.material.tensors import cofactor, derivatives, stress

__all__ = ["Mesh", "Rule", "assemble", "deform", "inadmissible", "jacobian_bounds", "mass_loads", "mean_stresses"]

# s of the stabilisation of P1 pressures: 1 is usual for tets, whose strain is stiffer than the smoothed one. Measured with
# `smoothing` against P2 on the same mesh: it takes tips of coarse PneuNets from 9.9 % with 1 to 4.5 %, others change by 2 %.
STABILISATION = 0.3


# Nodes of the element whose strain energy is assembled here, and numbers in a row of its stiffness: whole vector registers.
P2_NODES, K_WIDTH = 10, 32


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
        return einsum("eai,qak,ekj->eqij", x[self.tets], slopes, self.barycentric)


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
    """

    points: Floats
    weights: Floats
    shares: Floats
    moments: Floats
    crosses: Floats


class _Space(NamedTuple):
    """Work space of one element with a nodes, c energy points and q points of volume.

    Positions x (3, a), rest gradients g (c, 3, a), deformation gradients F (c, 3, 3) with a cofactor, stress P and the work of
    the law (4, 3, 3); the stresses S (c, 3, 3) that the points bear; tangent A (9, 9), its product with gradients T (9, 32),
    the stiffness K (3 a, 32) with rows (a, i) and columns (k, b); at points of
    volume F and cofactors (q, 3, 3); of pressures the moments Y (3 q, 3) of F, C (4, c, 3, 3) of cofactors, skew blocks
    s (3, pairs) and the coupling B (4, 3, a).
    """

    x: Floats
    g: Floats
    F: Floats
    cof: Floats
    P: Floats
    S: Floats
    work: Floats
    A: Floats
    T: Floats
    K: Floats
    Fq: Floats
    cofs: Floats
    Y: Floats
    C: Floats
    s: Floats
    B: Floats


@kernel
def _space(n, points, volumes, pairs):
    return _Space(
        np.empty((3, n)),
        np.empty((points, 3, n)),
        np.empty((points, 3, 3)),
        np.empty((3, 3)),
        np.empty((3, 3)),
        np.empty((points, 3, 3)),
        np.empty((4, 3, 3)),
        np.empty((9, 9)),
        np.zeros((9, K_WIDTH)),
        np.empty((3 * n, K_WIDTH if n == P2_NODES else 3 * n)),
        np.empty((volumes, 3, 3)),
        np.empty((volumes, 3, 3)),
        np.empty((3 * volumes, 3)),
        np.empty((4, points, 3, 3)),
        np.empty((3, pairs)),
        np.empty((4, 3, n)),
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
def _gather(x, mesh, e, rule, space):
    """Copy the positions of an element and write the gradients and deformation gradients at the energy's points."""
    for a in range(mesh.tets.shape[1]):
        for i in range(3):
            space.x[i, a] = x[mesh.tets[e, a], i]
    for c in range(len(rule.weights)):
        deform(space.x, rule.slopes[c], mesh.barycentric[e], space.g[c], space.F[c])


@kernel(fastmath=True)
def _stiffen(A, g, w, T, K):
    """K += w g : A : g, the columns of T = w A : g over the second pair of indices; loops of known length become vectors."""
    for r in range(9):
        for k in range(3):
            a0, a1, a2 = w * A[r, 3 * k], w * A[r, 3 * k + 1], w * A[r, 3 * k + 2]
            for b in range(P2_NODES):
                T[r, k * P2_NODES + b] = a0 * g[0, b] + a1 * g[1, b] + a2 * g[2, b]
    for a in range(P2_NODES):
        g0, g1, g2 = g[0, a], g[1, a], g[2, a]
        for i in range(3):
            for c in range(K_WIDTH):
                K[3 * a + i, c] += g0 * T[3 * i, c] + g1 * T[3 * i + 1, c] + g2 * T[3 * i + 2, c]


@kernel
def inadmissible(row, J):
    """Whether the energy has a pole at J = 0 that is passed: the full form of an incompressible body has none."""
    return J <= 0.0 and row[4] < 0.0


@kernel
def _strain_energy(row, weights, volume, matrix, space):
    """Write the stresses S that the energy's points bear and add the tangent K; return the strain energy and the least J."""
    total, smallest, level = 0.0, np.inf, 2 if matrix else 1
    for c in range(len(weights)):
        w, F = weights[c] * volume, space.F[c]
        J = cofactor(F, space.cof)
        smallest = min(smallest, J)
        if inadmissible(row, J):
            return np.inf, J
        total += w * derivatives(row, F, J, space.cof, space.P, space.A, space.work, level)
        if matrix:
            _stiffen(space.A, space.g[c], w, space.T, space.K)
        for i in range(3):
            for k in range(3):
                space.S[c, i, k] = w * space.P[i, k]
    return total, smallest


@kernel
def _incompressibility(row, p, barycentric, volume, rule, linear, matrix, space, gap):
    """Add integral q (J - 1) to gap (4,), its stresses to S, its tangent to K and B; return the element's volume, least J."""
    total, smallest = 0.0, np.inf
    _sums(rule.shares, space.F, 1.0, space.Fq)
    for q in range(len(rule.weights)):
        w, F = rule.weights[q] * volume, space.Fq[q]
        J = cofactor(F, space.cofs[q])
        smallest = min(smallest, J)
        if not linear and inadmissible(row, J):
            return np.inf, J
        pressure = 0.0
        for v in range(4):
            pressure += rule.points[q, v] * p[v]
            gap[v] += w * rule.points[q, v] * (J - 1.0)
        total += w * J
        if matrix:
            _cross(F, w * pressure, barycentric, space.Y, 3 * q)
    _sums(rule.moments, space.cofs, volume, space.C.reshape(-1, 3, 3))
    for v in range(4):
        for c in range(len(space.S)):
            for i in range(3):
                for k in range(3):
                    space.S[c, i, k] += p[v] * space.C[v, c, i, k]
    if matrix:
        _skew(space.Y, rule.crosses, space.s, space.K)
        for v in range(4):
            _bear(space.C[v], space.g, space.B[v])
    return total, smallest


@kernel(fastmath=True)
def _sums(weights, matrices, scale, out):
    """Write `scale` times the sums of matrices (s, 3, 3) with weights (r, s) to out (r, 3, 3)."""
    for r in range(len(weights)):
        a = b = c = d = e = f = g = h = i = 0.0  # in registers
        for s in range(len(matrices)):
            w, m = weights[r, s], matrices[s]
            a, b, c = a + w * m[0, 0], b + w * m[0, 1], c + w * m[0, 2]
            d, e, f = d + w * m[1, 0], e + w * m[1, 1], f + w * m[1, 2]
            g, h, i = g + w * m[2, 0], h + w * m[2, 1], i + w * m[2, 2]
        o = out[r]
        o[0, 0], o[0, 1], o[0, 2] = scale * a, scale * b, scale * c
        o[1, 0], o[1, 1], o[1, 2] = scale * d, scale * e, scale * f
        o[2, 0], o[2, 1], o[2, 2] = scale * g, scale * h, scale * i


@kernel(fastmath=True)
def _bear(S, g, f):
    """Write the sum of S_c g_c over the points into f (3, a)."""
    f[:] = 0.0
    for c in range(len(S)):
        for i in range(3):
            for a in range(f.shape[1]):
                f[i, a] += S[c, i, 0] * g[c, 0, a] + S[c, i, 1] * g[c, 1, a] + S[c, i, 2] * g[c, 2, a]


@kernel(fastmath=True)
def _cross(F, w, b, Y, at):
    """Write w F (b_k x b_l) for the three pairs k < l of the first three barycentric gradients."""
    m = at
    for k in range(2):
        for n in range(k + 1, 3):
            u = b[k, 1] * b[n, 2] - b[k, 2] * b[n, 1]
            v = b[k, 2] * b[n, 0] - b[k, 0] * b[n, 2]
            o = b[k, 0] * b[n, 1] - b[k, 1] * b[n, 0]
            for i in range(3):
                Y[m, i] = w * (F[i, 0] * u + F[i, 1] * v + F[i, 2] * o)
            m += 1


@kernel(fastmath=True)
def _skew(Y, crosses, s, K):
    """Add the skew blocks of p d2J/dF2 to K[a, b], a < b: those of p F (g_a x g_b), whatever the sign of J."""
    n = len(K) // 3
    s[:] = 0.0
    for m in range(0, len(Y), 3):
        one, other, last = crosses[m], crosses[m + 1], crosses[m + 2]
        for i in range(3):
            y0, y1, y2 = Y[m, i], Y[m + 1, i], Y[m + 2, i]
            for pair in range(s.shape[1]):
                s[i, pair] += y0 * one[pair] + y1 * other[pair] + y2 * last[pair]
    pair = 0
    for a in range(n):
        for b in range(a + 1, n):
            K[3 * a, n + b] += s[2, pair]
            K[3 * a + 1, b] -= s[2, pair]
            K[3 * a, 2 * n + b] -= s[1, pair]
            K[3 * a + 2, b] += s[1, pair]
            K[3 * a + 1, 2 * n + b] += s[0, pair]
            K[3 * a + 2, n + b] -= s[0, pair]
            pair += 1


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
def _scatter(k, nodes, mesh, places, K, B, M, data):
    """Add the blocks of the k-th element to the upper triangle; rows of pressures come after those of the nodes."""
    e, indptr, n = places.order[k], places.indptr, mesh.tets.shape[1]
    for a in range(n):
        node = mesh.tets[e, a]
        for b in range(a, n):
            swap = node > mesh.tets[e, b]
            first = min(node, mesh.tets[e, b])
            for i in range(3):
                at = indptr[3 * first + i] + 3 * places.node_rank[k, a, b] - i
                for j in range(i if a == b else 0, 3):
                    data[at + j] += K[3 * a + j, i * n + b] if swap else K[3 * a + i, j * n + b]
        for v in range(4):
            for i in range(3):
                at = indptr[3 * node + i] + 3 * places.node_degree[node] - i
                data[at + places.pressure_rank[k, a, v]] += B[v, i, a]
    for u in range(4):
        for v in range(u, 4):
            if places.mass_rank[k, u, v] >= 0:
                first = min(mesh.pressure_tets[e, u], mesh.pressure_tets[e, v])
                data[indptr[3 * nodes + first] + places.mass_rank[k, u, v]] += M[u, v]


@kernel
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
    n = mesh.tets.shape[1]
    space = _space(n, len(energy.weights), len(constraint.weights), constraint.crosses.shape[1])
    f, pe, gap, M = np.empty((3, n)), np.empty(4), np.empty(4), np.empty((4, 4))
    total, smallest, body = 0.0, np.inf, 0.0
    for k in range(len(places.order)):
        e = places.order[k]
        nodes, pressures, volume = mesh.tets[e], mesh.pressure_tets[e], mesh.volumes[e]
        row = table[mesh.material[e]]
        _gather(x, mesh, e, energy, space)
        for v in range(4):
            pe[v] = p[pressures[v]]
        gap[:] = 0.0
        if matrix:
            space.K[:] = 0.0
        work, least = 0.0, np.inf
        if linear:
            space.S[:] = 0.0
        else:
            work, least = _strain_energy(row, energy.weights, volume, matrix, space)
        now, other = _incompressibility(row, pe, mesh.barycentric[e], volume, constraint, linear, matrix, space, gap)
        smallest = min(smallest, least, other)
        if work == np.inf or now == np.inf:
            return np.inf, smallest, 0.0
        total += work + _compressibility(row, pe, volume, linear, gap, M)
        body += now
        _bear(space.S, space.g, f)
        for v in range(4):
            gaps[pressures[v]] += gap[v]
        for a in range(n):
            scale[nodes[a]] += np.sqrt(f[0, a] ** 2 + f[1, a] ** 2 + f[2, a] ** 2)
            for i in range(3):
                force[nodes[a], i] += f[i, a]
        if matrix:
            _scatter(k, len(x), mesh, places, space.K, space.B, M, data)
    return total, smallest, body


@kernel
def mean_stresses(x, mesh, table, energy, rule, out):
    """Write the mean Cauchy stress of the strain energy alone, tr(P F^T) / 3 J, averaged around every pressure vertex (v,)."""
    total = np.zeros(len(out))
    space = _space(mesh.tets.shape[1], len(energy.weights), len(rule.weights), 0)
    cof, P = space.cof, space.P
    out[:] = 0.0
    for e in range(len(mesh.tets)):
        _gather(x, mesh, e, energy, space)
        _sums(rule.shares, space.F, 1.0, space.Fq)
        for q in range(len(rule.weights)):
            F = space.Fq[q]
            J = cofactor(F, cof)
            stress(table[mesh.material[e]], F, J, cof, P, space.work)
            work = 0.0
            for i in range(3):
                for k in range(3):
                    work += P[i, k] * F[i, k]
            for v in range(4):
                w = rule.weights[q] * mesh.volumes[e] * rule.points[q, v]
                out[mesh.pressure_tets[e, v]] += w * work / (3.0 * J)
                total[mesh.pressure_tets[e, v]] += w
    for v in range(len(out)):
        if total[v] > 0.0:
            out[v] /= total[v]


@kernel
def jacobian_bounds(x, mesh, slopes, bounds):
    """Write a lower bound of J for every tet: the least Bernstein coefficient (P2: J is cubic).

    J(lambda) = det(sum_k lambda_k F_k) with F_k the deformation gradient at corner k, of which `slopes` (4, a, 4) are the
    slopes; its Bernstein coefficients are the mixed discriminants D(F_k, F_l, F_m), so J >= bound everywhere in the tet,
    with equality at the corners.
    """
    n = mesh.tets.shape[1]
    corners = 4 if n == 10 else 1
    F, g, cof, xe = np.empty((4, 3, 3)), np.empty((3, n)), np.empty((4, 3, 3)), np.empty((3, n))
    for e in range(len(mesh.tets)):
        for a in range(n):
            for i in range(3):
                xe[i, a] = x[mesh.tets[e, a], i]
        bound = np.inf
        for k in range(corners):
            deform(xe, slopes[k], mesh.barycentric[e], g, F[k])
            bound = min(bound, cofactor(F[k], cof[k]))
        for k in range(corners):
            for m in range(corners):
                value = 0.0
                for i in range(3):
                    for j in range(3):
                        value += cof[k, i, j] * F[m, i, j]
                bound = min(bound, value / 3.0) if k != m else bound
        for skip in range(corners if corners == 4 else 0):
            a, b, c = F[(skip + 1) % 4], F[(skip + 2) % 4], F[(skip + 3) % 4]
            even = _mixed(a, b, c) + _mixed(b, c, a) + _mixed(c, a, b)
            odd = _mixed(a, c, b) + _mixed(c, b, a) + _mixed(b, a, c)
            bound = min(bound, (even + odd) / 6.0)
        bounds[e] = bound


@kernel
def _mixed(A, B, C):
    """Determinant with the first row of A, the second of B, the third of C."""
    return (
        A[0, 0] * (B[1, 1] * C[2, 2] - B[1, 2] * C[2, 1])
        - A[0, 1] * (B[1, 0] * C[2, 2] - B[1, 2] * C[2, 0])
        + A[0, 2] * (B[1, 0] * C[2, 1] - B[1, 1] * C[2, 0])
    )


def mass_loads(tets: Ints, masses: Floats, share: Floats) -> Floats:
    """Mass that every node carries [kg], (nodes,): those of the elements (m,) by the share (a,) of their nodes."""
    return np.asarray(np.bincount(tets.ravel(), (masses[:, None] * share[None]).ravel()))
