"""Second derivatives of the merit of the projective solver, element by element, and steps that turn.

An isotropic energy W(s1, s2, s3) of the signed singular values of F = U diag(s) V^T has nine known eigenvectors among all dF:
three scalings, three twists and three flips, with the eigenvalues

    scalings: those of d2W/ds_i ds_j,   twist: (g_i + g_j) / (s_i + s_j),   flip: (g_i - g_j) / (s_i - s_j),   g = dW/ds,

so that what is not convex can be cut off element by element [Smith, de Goes and Kim 2019].
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import dot, jacobi_eigen, row, scaled
from geosim.linear.patterns import find_sorted
from geosim.linear.polar import cofactor, combine, determinant, outer, product, singular, times, transposed
from geosim.material.laws import OF_STRETCHES, invariant_law, stretch_law
from geosim.shape.projective.kernels import MIN_PRINCIPAL_STRETCH, gradient, volume_law, write_forces

__all__ = ["cut_off", "element_stiffness", "turning_forces", "wall_gradient", "wall_stiffness"]

# of the material's stiffness at rest: an eigenvalue of an element that is cut off ends there, so that all is held
MIN_EIGENVALUE_REL = 1e-3
EQUAL_EIGENVALUES_REL = (
    1e-6  # relative gap of two stretches below which a difference quotient loses more digits than its limit (root eps)
)


@kernel
def _base(s, w1, w2, w11, twist, flip, scaling):
    """Write the eigenvalues of twists and flips (by their axis k) and d2W/ds2 of slopes W1, W2 and W11 by the invariants."""
    q = (s[0] * s[0], s[1] * s[1], s[2] * s[2])
    i1 = q[0] + q[1] + q[2]
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        twist[k] = 2.0 * w1 + 2.0 * w2 * (q[k] + s[i] * s[j])
        flip[k] = 2.0 * w1 + 2.0 * w2 * (q[k] - s[i] * s[j])
        scaling[k, k] = 2.0 * w1 + 2.0 * w2 * (i1 - q[k]) + 4.0 * w11 * q[k]
        scaling[i, j] = scaling[j, i] = 4.0 * (w2 + w11) * s[i] * s[j]


@kernel
def _of_invariants(m, s, J, bulk, twist, flip, scaling, mixed):
    """Write the derivatives of `kernels._stress`; return those by J alone, the first and the second.

    twist, flip and scaling are those at fixed J, `mixed` is d2W/ds dJ.
    """
    t, t1, t2, u, u1, u2 = volume_law(J)
    q = (s[0] * s[0], s[1] * s[1], s[2] * s[2])
    i1, i2 = q[0] + q[1] + q[2], q[0] * q[1] + q[1] * q[2] + q[2] * q[0]
    energy, w1, w2, w11 = invariant_law(m, t * t * i1, t**4 * i2)
    follow, rate = 1.0 + u, u1
    a, a1, a2 = t * t, 2.0 * t * t1, 2.0 * (t1 * t1 + t * t2)
    b, b1, b2 = a * a, 2.0 * a * a1, 2.0 * (a1 * a1 + a * a2)
    _base(s, w1 * a * follow, w2 * b * follow, w11 * a * a * follow, twist, flip, scaling)
    by_one = (w1 * a1 + w11 * a * a1 * i1) * follow + w1 * a * rate
    by_two = w2 * (b1 * follow + b * rate)
    for k in range(3):
        mixed[k] = 2.0 * s[k] * (by_one + by_two * (i1 - q[k]))
    slope = w1 * i1 * a1 + w2 * i2 * b1
    curve = w1 * i1 * a2 + w2 * i2 * b2 + w11 * (i1 * a1) ** 2
    own = energy + bulk
    return slope * follow + own * u1, curve * follow + 2.0 * slope * rate + own * u2


@kernel
def _of_stretches(m, s, J, bulk, twist, flip, scaling, mixed):
    """The same for an energy of the isochoric principal stretches, continued linearly below MIN_PRINCIPAL_STRETCH."""
    t, t1, t2, u, u1, u2 = volume_law(J)
    follow, rate = 1.0 + u, u1
    g, h = np.empty(3), np.empty(3)
    energy, first, second = 0.0, 0.0, 0.0
    for i in range(3):
        stretch = max(t * s[i], MIN_PRINCIPAL_STRETCH)
        psi, slope, curvature = stretch_law(m, stretch)
        g[i] = slope / stretch
        h[i] = (curvature - slope) / (stretch * stretch) if t * s[i] > MIN_PRINCIPAL_STRETCH else 0.0
        energy += psi + g[i] * (t * s[i] - stretch)
        first += g[i] * s[i]
        second += h[i] * s[i] * s[i]
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        gap = t * (s[i] - s[j])
        same = abs(gap) <= EQUAL_EIGENVALUES_REL * abs(t * s[i])
        twist[k] = t * t * follow * (g[i] + g[j]) / max(t * (s[i] + s[j]), MIN_PRINCIPAL_STRETCH)
        flip[k] = t * t * follow * (h[i] if same else (g[i] - g[j]) / gap)
        scaling[k, k] = t * t * follow * h[k]
        scaling[i, j] = scaling[j, i] = 0.0
        mixed[k] = (h[k] * s[k] * t + g[k]) * t1 * follow + t * g[k] * rate
    slope, curve = t1 * first, t2 * first + t1 * t1 * second
    own = energy + bulk
    return slope * follow + own * u1, curve * follow + 2.0 * slope * rate + own * u2


@kernel
def _add_volume(s, p, curve, mixed, twist, flip, scaling):
    """Add the derivatives by way of the volume ratio: slope p = dW/dJ, curvature d2W/dJ2 and `mixed` d2W/ds dJ."""
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        twist[k] += p * s[k]
        flip[k] -= p * s[k]
        at_i, at_j, at_k = s[j] * s[k], s[k] * s[i], s[i] * s[j]  # dJ/ds
        scaling[k, k] += curve * at_k * at_k + 2.0 * mixed[k] * at_k
        both = scaling[i, j] + p * s[k] + curve * at_i * at_j + mixed[i] * at_j + mixed[j] * at_i
        scaling[i, j] = scaling[j, i] = both


@kernel
def cut_off(twist, flip, scaling, least, convex, values, vectors):
    """Raise all eigenvalues below `least` towards it, by the share `convex` of what they lack."""
    for k in range(3):
        twist[k] += convex * max(0.0, 2.0 * least - twist[k])
        flip[k] += convex * max(0.0, 2.0 * least - flip[k])
    a, b, c = scaling[0, 0] - least, scaling[1, 1] - least, scaling[2, 2] - least
    d, e, f = scaling[1, 2], scaling[0, 2], scaling[0, 1]
    minor = a * b - f * f
    if a > 0.0 and minor > 0.0 and c * minor + 2.0 * d * e * f - a * d * d - b * e * e > 0.0:
        return  # no eigenvalue lacks anything
    jacobi_eigen(scaling, values, vectors)
    for k in range(3):
        lack = convex * max(0.0, least - values[k])
        for i in range(3 if lack > 0.0 else 0):
            for j in range(3):
                scaling[i, j] += lack * vectors[i, k] * vectors[j, k]


@kernel
def _block(U, twist, flip, scaling, c, d):
    """Return the second derivative by corners with the shape gradients V c and V d, of one unit of volume.

    In the frames U, V a twist moves u_i c_j - u_j c_i, a flip u_i c_j + u_j c_i, i and j after its axis, a scaling u_k c_k.
    """
    own = (
        scaling[0, 0] * c[0] * d[0]
        + 0.5 * (twist[2] + flip[2]) * c[1] * d[1]
        + 0.5 * (twist[1] + flip[1]) * c[2] * d[2],
        scaling[1, 1] * c[1] * d[1]
        + 0.5 * (twist[0] + flip[0]) * c[2] * d[2]
        + 0.5 * (twist[2] + flip[2]) * c[0] * d[0],
        scaling[2, 2] * c[2] * d[2]
        + 0.5 * (twist[1] + flip[1]) * c[0] * d[0]
        + 0.5 * (twist[0] + flip[0]) * c[1] * d[1],
    )
    x, y, z = 0.5 * (flip[0] - twist[0]), 0.5 * (flip[1] - twist[1]), 0.5 * (flip[2] - twist[2])
    inside = (
        own[0],
        scaling[0, 1] * c[0] * d[1] + z * c[1] * d[0],
        scaling[0, 2] * c[0] * d[2] + y * c[2] * d[0],
        scaling[1, 0] * c[1] * d[0] + z * c[0] * d[1],
        own[1],
        scaling[1, 2] * c[1] * d[2] + x * c[2] * d[1],
        scaling[2, 0] * c[2] * d[0] + y * c[0] * d[2],
        scaling[2, 1] * c[2] * d[1] + x * c[1] * d[2],
        own[2],
    )
    rows = U[0] + U[1] + U[2]
    return product(transposed(rows), product(inside, rows))


@kernel
def _add_rows(data, indptr, a, rank, diagonal, weight, block):
    """Add a weighted 3x3 block (a tuple of nine) at the rows a, a + 1, a + 2, with its rank in the first of them."""
    for k in range(3):
        at = indptr[a + k] + rank - k
        for n in range(k if diagonal else 0, 3):
            data[at + n] += weight * block[3 * k + n]


@kernel
def element_stiffness(
    x,
    tets,
    gradients,
    volumes,
    which,
    rows,
    bulk,
    jacobians,
    pressures,
    roots,
    convex,
    order,
    node,
    blocks,
    couplings,
    indptr,
    data,
):
    """Add the second derivatives of all body elements, and the couplings of the patches, to the upper triangle.

    Parameters
    ----------
    roots
        A quarter of the scale of every patch (see `Patches`).
    convex
        Share of what is not convex that is cut off.
    order
        In which the elements are taken.
    node
        Number of a vertex in the matrix, -1 where it is held.
    blocks, couplings
        Ranks of the blocks of every element (m, 4, 4) in the first of the three rows of a node, -1 below the diagonal and
        where a vertex is held; and of the couplings of its corners with its four patches, -1 where a corner is held.
    """
    twist, flip, values, mixed = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    scaling, vectors, turned = np.empty((3, 3)), np.empty((3, 3)), np.empty((4, 3))
    for e in order:
        f = gradient(x, tets, gradients, e)
        U, s, V = singular(f)
        m = rows[which[e]]
        if m[0] >= OF_STRETCHES:
            own, curve = _of_stretches(m, s, jacobians[e], bulk[e], twist, flip, scaling, mixed)
        else:
            own, curve = _of_invariants(m, s, jacobians[e], bulk[e], twist, flip, scaling, mixed)
        p = 0.25 * (pressures[tets[e, 0]] + pressures[tets[e, 1]] + pressures[tets[e, 2]] + pressures[tets[e, 3]])
        _add_volume(s, p + own, curve, mixed, twist, flip, scaling)
        if convex > 0.0:
            cut_off(twist, flip, scaling, MIN_EIGENVALUE_REL * m[4], convex, values, vectors)
        for i in range(4):
            g = row(gradients[e], i)
            turned[i, 0], turned[i, 1], turned[i, 2] = dot(V[0], g), dot(V[1], g), dot(V[2], g)
        for i in range(4):
            a = 3 * node[tets[e, i]]
            for j in range(4):
                if blocks[e, i, j] >= 0:
                    block = _block(U, twist, flip, scaling, row(turned, i), row(turned, j))
                    _add_rows(data, indptr, a, blocks[e, i, j], i == j, volumes[e], block)
        _add_couplings(cofactor(f), tets[e], gradients[e], volumes[e], roots, node, couplings[e], indptr, data)


@kernel
def _add_couplings(c, tet, gradients, volume, roots, node, ranks, indptr, data):
    """Add the scaled dg_v/dx of one element with the cofactors c to its four patches."""
    for i in range(4):
        a = node[tet[i]]
        if a >= 0:
            g = scaled(volume, times(c, row(gradients, i)))
            for j in range(4):
                for k in range(3):
                    data[indptr[3 * a + k] + ranks[i, j] - k] += roots[tet[j]] * g[k]


@kernel
def wall_gradient(x, faces, pull, out):
    """Add pull dV/dx of the volume V = sum a . (b x c) / 6 in closed triangles to out (n, 3)."""
    for f in range(len(faces)):
        for i in range(3):
            b, c = row(x, faces[f, (i + 1) % 3]), row(x, faces[f, (i + 2) % 3])
            out[faces[f, i], 0] += pull * (b[1] * c[2] - b[2] * c[1]) / 6.0
            out[faces[f, i], 1] += pull * (b[2] * c[0] - b[0] * c[2]) / 6.0
            out[faces[f, i], 2] += pull * (b[0] * c[1] - b[1] * c[0]) / 6.0


@kernel
def wall_stiffness(x, faces, pull, node, indptr, indices, data):
    """Add pull d2V/dx2 of the volume in closed triangles to the upper triangle."""
    for f in range(len(faces)):
        for i in range(3):
            a, b = node[faces[f, i]], node[faces[f, (i + 1) % 3]]
            t = scaled((pull if a < b else -pull) / 6.0, row(x, faces[f, (i + 2) % 3]))
            if a >= 0 and b >= 0:
                first = 3 * min(a, b)
                rank = find_sorted(indices, indptr[first], indptr[first + 1], 3 * max(a, b)) - indptr[first]
                skew = (0.0, t[2], -t[1], -t[2], 0.0, t[0], t[1], -t[0], 0.0)
                _add_rows(data, indptr, first, rank, a == b, 1.0, skew)


@kernel
def _turn(g):
    """Rotation exp(skew G) by the formula of Rodrigues."""
    w = (0.5 * (g[7] - g[5]), 0.5 * (g[2] - g[6]), 0.5 * (g[3] - g[1]))
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    angle = np.sqrt(square)
    sine = np.sin(angle) / angle if angle > EQUAL_EIGENVALUES_REL else 1.0
    cosine = (1.0 - np.cos(angle)) / square if angle > EQUAL_EIGENVALUES_REL else 0.5
    skew = (0.0, -w[2], w[1], w[2], 0.0, -w[0], -w[1], w[0], 0.0)
    r = combine(sine, skew, cosine, outer(w, w))
    rest = 1.0 - cosine * square
    return (r[0] + rest, r[1], r[2], r[3], r[4] + rest, r[5], r[6], r[7], r[8] + rest)


@kernel
def turning_forces(x, step, tets, gradients, weights, forces):
    """Write corner forces w (T - F - dF) grad N of the targets T = exp(skew G) (I + sym G) F,  G = dF F^-1.

    An element that is flat or inverted goes straight.
    """
    for e in range(len(tets)):
        f, d = gradient(x, tets, gradients, e), gradient(step, tets, gradients, e)
        c = cofactor(f)
        det = determinant(f, c)
        forces[e] = 0.0
        if det > 0.0:
            ct = (c[0], c[3], c[6], c[1], c[4], c[7], c[2], c[5], c[8])
            g = combine(1.0 / det, product(d, ct), 0.0, f)
            o, q, r = 0.5 * (g[1] + g[3]), 0.5 * (g[2] + g[6]), 0.5 * (g[5] + g[7])
            strain = (g[0], o, q, o, g[4], r, q, r, g[8])
            target = product(_turn(g), combine(1.0, f, 1.0, product(strain, f)))
            off = combine(1.0, target, -1.0, combine(1.0, f, 1.0, d))
            write_forces(forces, e, gradients, weights[e], off)
