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

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.material.tensors import cofactor, stress, tangent

__all__ = ["Mesh", "Rule", "assemble", "jacobian_bounds", "mass_loads", "mean_stresses"]


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
        return np.einsum("eai,qak,ekj->eqij", x[self.tets], slopes, self.barycentric)


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


class _Space(NamedTuple):
    """Work space of one element: gradients g (a, 3), F and its cofactors (3, 3), P (3, 3), A (9, 9), T (a, 9, 3), h (a, 3)."""

    g: Floats
    F: Floats
    cof: Floats
    P: Floats
    A: Floats
    T: Floats
    h: Floats


@kernel
def _space(n):
    return _Space(
        np.empty((n, 3)),
        np.empty((3, 3)),
        np.empty((3, 3)),
        np.empty((3, 3)),
        np.empty((9, 9)),
        np.empty((n, 9, 3)),
        np.empty((n, 3)),
    )


@kernel
def _gather(x, ids, out):
    """Copy the rows `ids` of x."""
    for a in range(len(ids)):
        for i in range(3):
            out[a, i] = x[ids[a], i]


@kernel(fastmath=True)
def _deform(x, slopes, barycentric, g, F):
    """Write the rest gradients of the shape functions g (a, 3) and F = sum_a x_a (x) g_a at one point."""
    for a in range(slopes.shape[0]):
        for J in range(3):
            g[a, J] = (
                slopes[a, 0] * barycentric[0, J]
                + slopes[a, 1] * barycentric[1, J]
                + slopes[a, 2] * barycentric[2, J]
                + slopes[a, 3] * barycentric[3, J]
            )
    for i in range(3):
        for J in range(3):
            total = 0.0
            for a in range(g.shape[0]):
                total += x[a, i] * g[a, J]
            F[i, J] = total


@kernel
def _images(M, g, h):
    """h_a = M g_a."""
    for a in range(g.shape[0]):
        for i in range(3):
            h[a, i] = M[i, 0] * g[a, 0] + M[i, 1] * g[a, 1] + M[i, 2] * g[a, 2]


@kernel
def _add(w, h, f):
    """F += w h, both (a, 3)."""
    for a in range(h.shape[0]):
        for i in range(3):
            f[a, i] += w * h[a, i]


@kernel(fastmath=True)
def _pull(A, g, w, T):
    """T[a] = w A : (. (x) g_a), shape (nodes, 9, 3)."""
    for a in range(g.shape[0]):
        g0, g1, g2 = w * g[a, 0], w * g[a, 1], w * g[a, 2]
        for r in range(9):
            for k in range(3):
                T[a, r, k] = A[r, 3 * k] * g0 + A[r, 3 * k + 1] * g1 + A[r, 3 * k + 2] * g2


@kernel(fastmath=True)
def _push(T, g, K):
    """K[a, b] += g_a : T_b for a <= b."""
    n = g.shape[0]
    for a in range(n):
        g0, g1, g2 = g[a, 0], g[a, 1], g[a, 2]
        for b in range(a, n):
            for i in range(3):
                for k in range(3):
                    K[a, b, i, k] += g0 * T[b, 3 * i, k] + g1 * T[b, 3 * i + 1, k] + g2 * T[b, 3 * i + 2, k]


@kernel(fastmath=True)
def _cross_pairs(g, F, scale, K):
    """Add the skew blocks of p d2J/dF2 to K[a, b] for a < b: those of scale F (g_a x g_b), whatever the sign of J."""
    n = g.shape[0]
    for a in range(n):
        for b in range(a + 1, n):
            u = g[a, 1] * g[b, 2] - g[a, 2] * g[b, 1]
            v = g[a, 2] * g[b, 0] - g[a, 0] * g[b, 2]
            w = g[a, 0] * g[b, 1] - g[a, 1] * g[b, 0]
            s0 = scale * (F[0, 0] * u + F[0, 1] * v + F[0, 2] * w)
            s1 = scale * (F[1, 0] * u + F[1, 1] * v + F[1, 2] * w)
            s2 = scale * (F[2, 0] * u + F[2, 1] * v + F[2, 2] * w)
            K[a, b, 0, 1] += s2
            K[a, b, 1, 0] -= s2
            K[a, b, 0, 2] -= s1
            K[a, b, 2, 0] += s1
            K[a, b, 1, 2] += s0
            K[a, b, 2, 1] -= s0


@kernel
def _inadmissible(row, J):
    """Whether the energy has a pole at J = 0 that is passed: the full form of an incompressible body has none."""
    return J <= 0.0 and row[4] < 0.0


@kernel
def _strain_energy(row, x, barycentric, volume, rule, matrix, space, f, K):
    """Add forces f (a, 3) and tangent K (a, a, 3, 3) of the strain energy of an element at x (a, 3); return it, least J."""
    g, F, cof, P, A, T, h = space
    total, smallest = 0.0, np.inf
    for q in range(len(rule.weights)):
        w = rule.weights[q] * volume
        _deform(x, rule.slopes[q], barycentric, g, F)
        J = cofactor(F, cof)
        smallest = min(smallest, J)
        if _inadmissible(row, J):
            return np.inf, J
        if matrix:
            total += w * tangent(row, F, J, cof, P, A)
            _pull(A, g, w, T)
            _push(T, g, K)
        else:
            total += w * stress(row, F, J, cof, P)
        _images(P, g, h)
        _add(w, h, f)
    return total, smallest


@kernel
def _incompressibility(row, p, x, barycentric, volume, rule, matrix, space, gap, f, K, B):
    """Add integral q (J - 1) to gap (4,), its forces and tangent (B: (a, 4, 3)); return the element's volume, least J."""
    g, F, cof, h = space.g, space.F, space.cof, space.h
    total, smallest = 0.0, np.inf
    for q in range(len(rule.weights)):
        w, shape = rule.weights[q] * volume, rule.points[q]
        _deform(x, rule.slopes[q], barycentric, g, F)
        J = cofactor(F, cof)
        smallest = min(smallest, J)
        if _inadmissible(row, J):
            return np.inf, J
        pressure = 0.0
        for v in range(4):
            pressure += shape[v] * p[v]
            gap[v] += w * shape[v] * (J - 1.0)
        _images(cof, g, h)
        _add(w * pressure, h, f)
        total += w * J
        if matrix:
            _cross_pairs(g, F, w * pressure, K)
            for v in range(4):
                _add(w * shape[v], h, B[v])
    return total, smallest


@kernel
def _compressibility(row, p, volume, stabilise, gap, M):
    """Write the block -M (4, 4) of compressibility and stabilisation, add -M p to gap (4,); return p M p / 2.

    That is what they store: p^2 / 2 kappa, and what the stabilisation takes of the work of pressures as J leaves 1.

    integral N_u N_v = V (1 + delta_uv) / 20; stabilisation takes off the means, V / 16 [Dohrmann-Bochev].
    """
    soft = row[2] if stabilise else 0.0
    stored = 0.0
    for u in range(4):
        for v in range(4):
            mass = (2.0 if u == v else 1.0) / 20.0
            M[u, v] = -volume * (row[1] * mass + soft * (mass - 1.0 / 16.0))
            gap[u] += M[u, v] * p[v]
            stored -= 0.5 * p[u] * M[u, v] * p[v]
    return stored


@kernel
def _scatter(e, nodes, mesh, places, K, B, M, data):
    """Add the blocks of element e to the upper triangle; rows of pressures come after those of the nodes."""
    indptr, n = places.indptr, mesh.tets.shape[1]
    for a in range(n):
        node = mesh.tets[e, a]
        for b in range(a, n):
            swap = node > mesh.tets[e, b]
            first = min(node, mesh.tets[e, b])
            for i in range(3):
                at = indptr[3 * first + i] + 3 * places.node_rank[e, a, b] - i
                for j in range(i if a == b else 0, 3):
                    data[at + j] += K[a, b, j, i] if swap else K[a, b, i, j]
        for v in range(4):
            for i in range(3):
                at = indptr[3 * node + i] + 3 * places.node_degree[node] - i
                data[at + places.pressure_rank[e, a, v]] += B[v, a, i]
    for u in range(4):
        for v in range(u, 4):
            if places.mass_rank[e, u, v] >= 0:
                first = min(mesh.pressure_tets[e, u], mesh.pressure_tets[e, v])
                data[indptr[3 * nodes + first] + places.mass_rank[e, u, v]] += M[u, v]


@kernel
def assemble(x, p, mesh, table, energy, constraint, stabilise, matrix, places, data, force, scale, gaps):
    """Add internal forces, constraint residuals and (with `matrix`) the tangent of all elements.

    Parameters
    ----------
    x, p
        Node positions (n, 3) and pressures (v,), scaled.
    mesh, table
        `Mesh`, and the rows of `tensors.table`.
    energy, constraint
        `Rule` of the strain energy and of the incompressibility rows.
    stabilise
        Whether the Dohrmann-Bochev term -(1/mu) (p - Pi p)(q - Pi q) of P1-P1 is added.
    places, data
        `Places`, and the CSR values, added to.
    force, scale, gaps
        Added to: forces (n, 3), nodal sums of the norms of element forces (n,), constraint residuals (v,).

    Returns
    -------
    energy, smallest J at the quadrature points, body volume; energy is inf if an element is inverted there.
    """
    n = mesh.tets.shape[1]
    space, xe, f, pe, gap = _space(n), np.empty((n, 3)), np.empty((n, 3)), np.empty(4), np.empty(4)
    K, B, M = np.empty((n, n, 3, 3)), np.empty((4, n, 3)), np.empty((4, 4))
    total, smallest, body = 0.0, np.inf, 0.0
    for e in range(len(mesh.tets)):
        nodes, pressures, volume = mesh.tets[e], mesh.pressure_tets[e], mesh.volumes[e]
        row, barycentric = table[mesh.material[e]], mesh.barycentric[e]
        _gather(x, nodes, xe)
        for v in range(4):
            pe[v] = p[pressures[v]]
        f[:] = 0.0
        gap[:] = 0.0
        if matrix:
            K[:] = 0.0
            B[:] = 0.0
        work, least = _strain_energy(row, xe, barycentric, volume, energy, matrix, space, f, K)
        now, other = _incompressibility(row, pe, xe, barycentric, volume, constraint, matrix, space, gap, f, K, B)
        smallest = min(smallest, least, other)
        if work == np.inf or now == np.inf:
            return np.inf, smallest, 0.0
        total += work + _compressibility(row, pe, volume, stabilise, gap, M)
        body += now
        for v in range(4):
            gaps[pressures[v]] += gap[v]
        for a in range(n):
            scale[nodes[a]] += np.sqrt(f[a, 0] ** 2 + f[a, 1] ** 2 + f[a, 2] ** 2)
            for i in range(3):
                force[nodes[a], i] += f[a, i]
        if matrix:
            _scatter(e, len(x), mesh, places, K, B, M, data)
    return total, smallest, body


@kernel
def mean_stresses(x, mesh, table, rule, out):
    """Write the mean Cauchy stress of the strain energy alone, tr(P F^T) / 3 J, averaged around every pressure vertex (v,)."""
    n = mesh.tets.shape[1]
    space, xe, total = _space(n), np.empty((n, 3)), np.zeros(len(out))
    g, F, cof, P = space.g, space.F, space.cof, space.P
    out[:] = 0.0
    for e in range(len(mesh.tets)):
        _gather(x, mesh.tets[e], xe)
        for q in range(len(rule.weights)):
            _deform(xe, rule.slopes[q], mesh.barycentric[e], g, F)
            J = cofactor(F, cof)
            stress(table[mesh.material[e]], F, J, cof, P)
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
    F, g, cof, xe = np.empty((4, 3, 3)), np.empty((n, 3)), np.empty((4, 3, 3)), np.empty((n, 3))
    for e in range(len(mesh.tets)):
        _gather(x, mesh.tets[e], xe)
        bound = np.inf
        for k in range(corners):
            _deform(xe, slopes[k], mesh.barycentric[e], g, F[k])
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
