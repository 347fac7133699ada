"""Assembly of the mixed displacement-pressure equations in compiled loops over flat arrays.

Unknowns are ordered [u (3 a node), p (1 a pressure vertex)]. Of the symmetric matrix

    [ K   B ]      K = integral dF : (A + p d2J/dF2) : dF - sum_c P_c d2v_c      B = integral q cof F : dF
    [ B^T -M ]     M = integral q q / kappa + stabilisation

only the upper triangle is stored (CSR, every diagonal entry present). The pattern is built once; for every pair
of nodes of an element a small integer says where in the row its 3x3 block starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix

from geosim.arrays import Floats, Ints, frozen
from geosim.kernels import kernel
from geosim.linear.patterns import Sparsity
from geosim.material.tensors import cofactor, stress, tangent

__all__ = ["Pattern", "assemble", "build_pattern", "jacobian_bounds", "mass_loads", "mean_stresses", "wall_volumes"]


@dataclass(frozen=True)
class Pattern(Sparsity):
    """Sparsity of the body's matrix and where the blocks of every element go.

    Parameters
    ----------
    node_rank
        (m, a, a): rank of node b among the later neighbours of node a, for pairs with a <= b by number.
    pressure_rank
        (m, a, 4): rank of pressure v among the pressures that couple with node a.
    node_degree
        (n,): number of later neighbours of every node, itself included.
    pp_rank
        (m, 4, 4): rank of the entry in the pressure row, -1 where the block is not stored.
    """

    node_rank: np.ndarray
    pressure_rank: np.ndarray
    node_degree: np.ndarray
    pp_rank: np.ndarray


def _pairs(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Every number in a row of `a` with every one in the same row of `b`, flat."""
    return np.repeat(a, b.shape[1], axis=1).ravel(), np.tile(b, (1, a.shape[1])).ravel()


def _graph(rows: Ints, cols: Ints, shape: tuple[int, int]) -> Sparsity:
    graph = coo_matrix((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=shape).tocsr()
    graph.sum_duplicates()
    graph.sort_indices()
    return Sparsity(graph.indptr.astype(np.int64), graph.indices.astype(np.int64))


@kernel
def _fill(nptr, nind, pptr, pind, qptr, qind, nodes, indptr, indices):
    for a in range(nodes):
        for i in range(3):
            at = indptr[3 * a + i]
            for k in range(nptr[a], nptr[a + 1]):
                b = nind[k]
                for j in range(3):
                    if b > a or j >= i:
                        indices[at] = 3 * b + j
                        at += 1
            for k in range(pptr[a], pptr[a + 1]):
                indices[at] = 3 * nodes + pind[k]
                at += 1
    for v in range(len(qptr) - 1):
        at = indptr[3 * nodes + v]
        for k in range(qptr[v], qptr[v + 1]):
            indices[at] = 3 * nodes + qind[k]
            at += 1


def build_pattern(tets: Ints, pressure_tets: Ints, nodes: int, pressures: int, *, couple_pressures: bool) -> Pattern:
    """Return the pattern of a mesh.

    Parameters
    ----------
    tets, pressure_tets
        Displacement nodes (m, a) and pressure unknowns (m, 4) of the elements.
    nodes, pressures
        Their numbers.
    couple_pressures
        Whether the pressure block is a mass matrix (finite bulk modulus, stabilisation) or only its diagonal.
    """
    rows, cols = _pairs(tets, tets)
    upper = rows <= cols
    near = _graph(rows[upper], cols[upper], (nodes, nodes))
    prow, pcol = _pairs(tets, pressure_tets)
    mixed = _graph(prow, pcol, (nodes, pressures))
    qrow, qcol = _pairs(pressure_tets, pressure_tets)
    kept = (qrow <= qcol) if couple_pressures else (qrow == qcol)
    masses = _graph(qrow[kept], qcol[kept], (pressures, pressures))
    degree = np.diff(near.indptr)
    lengths = [(3 * degree + np.diff(mixed.indptr))[:, None] - np.arange(3), np.diff(masses.indptr)]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([part.ravel() for part in lengths]))])
    indices = np.empty(indptr[-1], dtype=np.int64)
    _fill(near.indptr, near.indices, mixed.indptr, mixed.indices, masses.indptr, masses.indices, nodes, indptr, indices)
    shape = *tets.shape, -1
    return Pattern(
        frozen(indptr.astype(np.int32)),
        frozen(indices.astype(np.int32)),
        frozen(near.ranks(np.minimum(rows, cols), np.maximum(rows, cols)).reshape(shape)),
        frozen(mixed.ranks(prow, pcol).reshape(shape)),
        frozen(degree),
        frozen(masses.ranks(np.minimum(qrow, qcol), np.maximum(qrow, qcol)).reshape(-1, 4, 4)),
    )


@kernel(fastmath=True)
def _gradients(slopes, barycentric, g):
    for a in range(slopes.shape[0]):
        for J in range(3):
            g[a, J] = (
                slopes[a, 0] * barycentric[0, J]
                + slopes[a, 1] * barycentric[1, J]
                + slopes[a, 2] * barycentric[2, J]
                + slopes[a, 3] * barycentric[3, J]
            )


@kernel(fastmath=True)
def _deformation(x, g, F):
    for i in range(3):
        for J in range(3):
            total = 0.0
            for a in range(g.shape[0]):
                total += x[a, i] * g[a, J]
            F[i, J] = total


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
def _cross_pairs(g, F, scale, S):
    """S[a, b] += scale F (g_a x g_b) for a < b: the skew blocks of p d2J/dF2, whatever the sign of J."""
    n = g.shape[0]
    for a in range(n):
        for b in range(a + 1, n):
            u = g[a, 1] * g[b, 2] - g[a, 2] * g[b, 1]
            v = g[a, 2] * g[b, 0] - g[a, 0] * g[b, 2]
            w = g[a, 0] * g[b, 1] - g[a, 1] * g[b, 0]
            for i in range(3):
                S[a, b, i] += scale * (F[i, 0] * u + F[i, 1] * v + F[i, 2] * w)


@kernel
def assemble(
    x,
    p,
    tets,
    ptets,
    barycentric,
    volumes,
    material,
    table,
    e_slopes,
    e_weights,
    c_slopes,
    c_points,
    c_weights,
    stabilise,
    matrix,
    indptr,
    node_rank,
    pressure_rank,
    node_degree,
    pp_rank,
    data,
    force,
    scale,
    constraint,
):
    """Add internal forces, constraint residuals and (with `matrix`) the tangent of all elements.

    Parameters
    ----------
    x, p
        Node positions (n, 3) and pressures (v,), scaled.
    barycentric, volumes
        Rest gradients of the barycentric coordinates (m, 4, 3) and rest volumes (m,).
    material, table
        Row of every element, and the rows of `constitutive.table`.
    stabilise
        Whether the Dohrmann-Bochev term -(1/mu) (p - Pi p)(q - Pi q) of P1-P1 is added.
    data, force, scale, constraint
        Written: CSR values, forces (n, 3), nodal sums of the norms of element forces (n,), (v,).

    Returns
    -------
    energy, smallest J at the quadrature points, body volume; energy is inf if an element is inverted there.
    """
    m, n = tets.shape
    nodes = x.shape[0]
    g, F, cof, P = np.empty((n, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    A, T, h = np.empty((9, 9)), np.empty((n, 9, 3)), np.empty((n, 3))
    K, S, B = np.empty((n, n, 3, 3)), np.empty((n, n, 3)), np.empty((n, 4, 3))
    xe, f, pe = np.empty((n, 3)), np.empty((n, 3)), np.empty(4)
    total, smallest, volume = 0.0, np.inf, 0.0
    for e in range(m):
        row = table[material[e]]
        for a in range(n):
            for i in range(3):
                xe[a, i] = x[tets[e, a], i]
                f[a, i] = 0.0
        for v in range(4):
            pe[v] = p[ptets[e, v]]
        if matrix:
            K[:] = 0.0
            S[:] = 0.0
            B[:] = 0.0
        for q in range(len(e_weights)):
            w = e_weights[q] * volumes[e]
            _gradients(e_slopes[q], barycentric[e], g)
            _deformation(xe, g, F)
            J = cofactor(F, cof)
            smallest = min(smallest, J)
            if J <= 0.0 and row[4] < 0.0:  # the full form of an incompressible body has no pole at J = 0
                return np.inf, J, 0.0
            if matrix:
                total += w * tangent(row, F, J, cof, P, A)
                _pull(A, g, w, T)
                _push(T, g, K)
            else:
                total += w * stress(row, F, J, cof, P)
            for a in range(n):
                for i in range(3):
                    f[a, i] += w * (P[i, 0] * g[a, 0] + P[i, 1] * g[a, 1] + P[i, 2] * g[a, 2])
        for q in range(len(c_weights)):
            w = c_weights[q] * volumes[e]
            _gradients(c_slopes[q], barycentric[e], g)
            _deformation(xe, g, F)
            J = cofactor(F, cof)
            smallest = min(smallest, J)
            if J <= 0.0 and row[4] < 0.0:  # the full form of an incompressible body has no pole at J = 0
                return np.inf, J, 0.0
            pressure = 0.0
            for v in range(4):
                pressure += c_points[q, v] * pe[v]
            for a in range(n):
                for i in range(3):
                    h[a, i] = cof[i, 0] * g[a, 0] + cof[i, 1] * g[a, 1] + cof[i, 2] * g[a, 2]
                    f[a, i] += w * pressure * h[a, i]
            gap = J - 1.0
            volume += w * J
            for v in range(4):
                constraint[ptets[e, v]] += w * c_points[q, v] * gap
            if matrix:
                _cross_pairs(g, F, w * pressure, S)
                for a in range(n):
                    for v in range(4):
                        s = w * c_points[q, v]
                        for i in range(3):
                            B[a, v, i] += s * h[a, i]
        mean = 0.25 * (pe[0] + pe[1] + pe[2] + pe[3])
        for v in range(4):
            mass = volumes[e] * (pe[v] + 4.0 * mean) / 20.0  # integral q p, exactly
            constraint[ptets[e, v]] -= row[1] * mass
            total += 0.5 * row[1] * pe[v] * mass
            if stabilise:
                constraint[ptets[e, v]] -= row[2] * volumes[e] * (pe[v] - mean) / 20.0
        for a in range(n):
            scale[tets[e, a]] += np.sqrt(f[a, 0] ** 2 + f[a, 1] ** 2 + f[a, 2] ** 2)
            for i in range(3):
                force[tets[e, a], i] += f[a, i]
        if not matrix:
            continue
        for a in range(n):
            for b in range(a + 1, n):
                s0, s1, s2 = S[a, b, 0], S[a, b, 1], S[a, b, 2]
                K[a, b, 0, 1] += s2
                K[a, b, 1, 0] -= s2
                K[a, b, 0, 2] -= s1
                K[a, b, 2, 0] += s1
                K[a, b, 1, 2] += s0
                K[a, b, 2, 1] -= s0
        for a in range(n):
            for b in range(a, n):
                first, later = tets[e, a], tets[e, b]
                swap = first > later
                if swap:
                    first = later
                rank = 3 * node_rank[e, a, b]
                for i in range(3):
                    at = indptr[3 * first + i] + rank - i
                    for j in range(i if a == b else 0, 3):
                        data[at + j] += K[a, b, j, i] if swap else K[a, b, i, j]
            node = tets[e, a]
            for v in range(4):
                for i in range(3):
                    at = indptr[3 * node + i] + 3 * node_degree[node] - i + pressure_rank[e, a, v]
                    data[at] += B[a, v, i]
        for u in range(4):
            for v in range(u, 4):
                rank = pp_rank[e, u, v]
                if rank < 0:
                    continue
                first = min(ptets[e, u], ptets[e, v])
                same = 1.0 if u == v else 0.0
                value = -row[1] * volumes[e] * (1.0 + same) / 20.0
                if stabilise:
                    value -= row[2] * volumes[e] * ((1.0 + same) / 20.0 - 1.0 / 16.0)
                data[indptr[3 * nodes + first] + rank] += value
    return total, smallest, volume


@kernel
def mean_stresses(x, tets, ptets, barycentric, volumes, material, table, slopes, points, weights, out):
    """Write the mean Cauchy stress of the strain energy alone, tr(P F^T) / 3 J, averaged around every pressure vertex."""
    n = tets.shape[1]
    g, F, cof, P = np.empty((n, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    xe = np.empty((n, 3))
    total = np.zeros(len(out))
    out[:] = 0.0
    for e in range(len(tets)):
        for a in range(n):
            for i in range(3):
                xe[a, i] = x[tets[e, a], i]
        for q in range(len(weights)):
            _gradients(slopes[q], barycentric[e], g)
            _deformation(xe, g, F)
            J = cofactor(F, cof)
            stress(table[material[e]], F, J, cof, P)
            work = 0.0
            for i in range(3):
                for k in range(3):
                    work += P[i, k] * F[i, k]
            for v in range(4):
                w = weights[q] * volumes[e] * points[q, v]
                out[ptets[e, v]] += w * work / (3.0 * J)
                total[ptets[e, v]] += w
    for v in range(len(out)):
        if total[v] > 0.0:
            out[v] /= total[v]


@kernel
def wall_volumes(x, faces, shape, slopes, weights, pressure, matrix, indptr, face_rank, data, gradient, scale):
    """Return the volume behind closed curved faces; add its gradient and (with `matrix`) -P times its Hessian.

    v = 1/3 closed-integral x . n da, exactly (the integrand is a polynomial of degree 4 on six-node faces):

        dv/dx_a = integral N_a x_r x x_s,    d2v/dx_a dx_b = [w_ab] x,  w_ab = 1/2 integral
                  (N_a N_b,s - N_b N_a,s) x_r - (N_a N_b,r - N_b N_a,r) x_s,

    where the symmetric form of w holds because the surface is closed or its rim is fixed.
    """
    n = faces.shape[1]
    volume = 0.0
    xr, xs, normal, f = np.empty(3), np.empty(3), np.empty(3), np.empty((n, 3))
    W = np.empty((n, n, 3))
    for e in range(len(faces)):
        f[:] = 0.0
        W[:] = 0.0
        for q in range(len(weights)):
            w = 0.5 * weights[q]
            point0, point1, point2 = 0.0, 0.0, 0.0
            xr[:] = 0.0
            xs[:] = 0.0
            for a in range(n):
                node = faces[e, a]
                point0 += shape[q, a] * x[node, 0]
                point1 += shape[q, a] * x[node, 1]
                point2 += shape[q, a] * x[node, 2]
                for i in range(3):
                    xr[i] += slopes[q, a, 0] * x[node, i]
                    xs[i] += slopes[q, a, 1] * x[node, i]
            normal[0] = xr[1] * xs[2] - xr[2] * xs[1]
            normal[1] = xr[2] * xs[0] - xr[0] * xs[2]
            normal[2] = xr[0] * xs[1] - xr[1] * xs[0]
            volume += w / 3.0 * (point0 * normal[0] + point1 * normal[1] + point2 * normal[2])
            for a in range(n):
                for i in range(3):
                    f[a, i] += w * shape[q, a] * normal[i]
                if matrix:
                    for b in range(a + 1, n):
                        along_r = shape[q, a] * slopes[q, b, 1] - shape[q, b] * slopes[q, a, 1]
                        along_s = shape[q, a] * slopes[q, b, 0] - shape[q, b] * slopes[q, a, 0]
                        for i in range(3):
                            W[a, b, i] += 0.5 * w * (along_r * xr[i] - along_s * xs[i])
        for a in range(n):
            node = faces[e, a]
            scale[node] += abs(pressure) * np.sqrt(f[a, 0] ** 2 + f[a, 1] ** 2 + f[a, 2] ** 2)
            for i in range(3):
                gradient[node, i] += f[a, i]
        if not matrix or pressure == 0.0:
            continue
        for a in range(n):
            for b in range(a + 1, n):
                first, sign = faces[e, a], -pressure
                if faces[e, b] < first:
                    first, sign = faces[e, b], pressure
                rank = 3 * face_rank[e, a, b]
                w0, w1, w2 = sign * W[a, b, 0], sign * W[a, b, 1], sign * W[a, b, 2]
                row0 = indptr[3 * first] + rank
                row1 = indptr[3 * first + 1] + rank - 1
                row2 = indptr[3 * first + 2] + rank - 2
                data[row0 + 1] -= w2
                data[row0 + 2] += w1
                data[row1] += w2
                data[row1 + 2] -= w0
                data[row2] -= w1
                data[row2 + 1] += w0
    return volume


def face_ranks(faces: Ints, pattern: Pattern) -> np.ndarray:
    """Rank of every pair of nodes of the faces (f, a) in the pattern, as `node_rank` for elements, (f, a, a)."""
    rows, cols = _pairs(faces, faces)
    # the rows of a node hold three columns a block
    return frozen(pattern.ranks(3 * np.minimum(rows, cols), 3 * np.maximum(rows, cols)).reshape(*faces.shape, -1) // 3)


@kernel
def jacobian_bounds(x, tets, barycentric, slopes, bounds):
    """Write a lower bound of J for every tet: the least Bernstein coefficient (P2: J is cubic), and return the least.

    J(lambda) = det(sum_k lambda_k F_k) with F_k the deformation gradient at corner k; its Bernstein coefficients
    are the mixed discriminants D(F_k, F_l, F_m), so J >= bound everywhere in the tet, with equality at the corners.
    """
    n = tets.shape[1]
    corners = 4 if n == 10 else 1
    Fk, g, cof, xe = np.empty((4, 3, 3)), np.empty((n, 3)), np.empty((4, 3, 3)), np.empty((n, 3))
    least = np.inf
    for e in range(len(tets)):
        for a in range(n):
            for i in range(3):
                xe[a, i] = x[tets[e, a], i]
        bound = np.inf
        for k in range(corners):
            _gradients(slopes[k], barycentric[e], g)
            _deformation(xe, g, Fk[k])
            bound = min(bound, cofactor(Fk[k], cof[k]))
        for k in range(corners):
            for el in range(corners):
                if k != el:
                    value = 0.0
                    for i in range(3):
                        for j in range(3):
                            value += cof[k, i, j] * Fk[el, i, j]
                    bound = min(bound, value / 3.0)
        if corners == 4:
            for skip in range(4):
                k, el, m = (skip + 1) % 4, (skip + 2) % 4, (skip + 3) % 4
                bound = min(
                    bound,
                    (
                        _mixed(Fk[k], Fk[el], Fk[m])
                        + _mixed(Fk[el], Fk[m], Fk[k])
                        + _mixed(Fk[m], Fk[k], Fk[el])
                        + _mixed(Fk[k], Fk[m], Fk[el])
                        + _mixed(Fk[m], Fk[el], Fk[k])
                        + _mixed(Fk[el], Fk[k], Fk[m])
                    )
                    / 6.0,
                )
        bounds[e] = bound
        least = min(least, bound)
    return least


@kernel
def _mixed(A, B, C):
    """Determinant with the first row of A, the second of B, the third of C."""
    return (
        A[0, 0] * (B[1, 1] * C[2, 2] - B[1, 2] * C[2, 1])
        - A[0, 1] * (B[1, 0] * C[2, 2] - B[1, 2] * C[2, 0])
        + A[0, 2] * (B[1, 0] * C[2, 1] - B[1, 1] * C[2, 0])
    )


def mass_loads(tets: Ints, volumes: Floats, density: Floats, shape: Floats, weights: Floats, nodes: int) -> Floats:
    """Mass that every node carries [kg], shape (nodes,): integral rho N_a over the elements."""
    share = weights @ shape
    out = np.zeros(nodes)
    np.add.at(out, tets.ravel(), ((volumes * density)[:, None] * share[None]).ravel())
    return out
