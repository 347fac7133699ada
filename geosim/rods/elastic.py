"""Elastic stencils of rods: energies, gradients and Hessians, one compiled loop per kind.

Stretching, Eqs. (9)-(10) of [Lahoti], on the two vertices of an edge of a rod or of a triangle::

    E = 1/2 k (|e| / l - 1)^2 l,      k = EA of rods, k_s of shells (`geosim.rods.shells`)

Bending and twisting, Eqs. (11)-(16) of [Lahoti], on three vertices and the theta of two edges::

    E = 1/(2 V) [ EI1 (kappa1 - kappa1n)^2 + EI2 (kappa2 - kappa2n)^2 + GJ (tau - taun)^2 ]

with the local order of unknowns [x0, theta_e, x1, theta_f, x2] and V the Voronoi length at rest. The derivatives are
those of the discrete viscous threads of Bergou et al. (2010). The Hessian of the energy equals the symmetric part of
the Jacobian of the force: the reference frames are transported, hence the force alone has a small skew part.

A matrix is assembled through `slots`: for every stencil the positions of its packed lower triangle in the
flat values of whatever matrix the solver uses; entries of fixed unknowns go to a last, unused position.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, row, scaled
from geosim.rods.frames import bent, point


@kernel
def _packed(row, column):
    """Position of an entry, column <= row, in a packed lower triangle."""
    return row * (row + 1) // 2 + column


@kernel
def _spring(q, dofs, stiffness, rest, s):
    """Return direction, length, strain and force of spring s."""
    e = difference(point(q, dofs[s, 3]), point(q, dofs[s, 0]))
    length = math.sqrt(dot(e, e))
    strain = length / rest[s] - 1.0
    return scaled(1.0 / length, e), length, strain, stiffness[s] * strain


@kernel
def stretch_force(q, dofs, stiffness, rest, gradient):
    """Add the gradient of the stretching energy; return (energy, largest axial force).

    `dofs` (S, 6) of both ends and `rest` length [m] of edges, of which as many are springs as have a `stiffness` [N].
    """
    energy, largest = 0.0, 0.0
    for s in range(stiffness.shape[0]):
        t, _, strain, force = _spring(q, dofs, stiffness, rest, s)
        energy += 0.5 * force * strain * rest[s]
        largest = max(largest, abs(force))
        for j in range(3):
            gradient[dofs[s, j]] -= force * t[j]
            gradient[dofs[s, 3 + j]] += force * t[j]
    return energy, largest


@kernel
def stretch_hessian(q, dofs, stiffness, rest, tension, slots, values):
    """Add the Hessian k/l t t^T + (N/|e|) (I - t t^T) of every spring in packed lower form (21 slots).

    N is the force of the spring, or its `tension` (S,) [N] where that is not empty.
    """
    for s in range(stiffness.shape[0]):
        t, length, _, force = _spring(q, dofs, stiffness, rest, s)
        if len(tension):
            force = tension[s]
        axial, lateral = stiffness[s] / rest[s], force / length
        p = 0
        for a in range(6):
            for b in range(a + 1):
                h = (axial - lateral) * t[a % 3] * t[b % 3]
                if a % 3 == b % 3:
                    h += lateral
                values[slots[s, p]] += -h if a >= 3 and b < 3 else h
                p += 1


@kernel
def linear_tensions(q, dq, dofs, stiffness, rest):
    """Return the forces [N] (S,) of the springs after a step dq if their strains changed linearly along it."""
    tensions = np.empty(stiffness.shape[0])
    for s in range(stiffness.shape[0]):
        t, _, _, force = _spring(q, dofs, stiffness, rest, s)
        stretch = 0.0
        for j in range(3):
            stretch += t[j] * (dq[dofs[s, 3 + j]] - dq[dofs[s, j]])
        tensions[s] = force + stiffness[s] / rest[s] * stretch
    return tensions


@kernel
def _stencil(q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, s):
    """Return what forces and Hessian of a stencil share: its signed vectors, its strains and its moments.

    (te, tf, chi, kb), (m1 and m2 of e and f), 1 / lengths, (kappa1, kappa2), strain - natural and its moments c.
    """
    vectors, directors, (k1, k2) = bent(t, m1, m2, edges, signs, s)
    tau = signs[s, 1] * q[dofs[s, 7]] - signs[s, 0] * q[dofs[s, 3]] + twist[s]
    excess = (k1 - natural[s, 0], k2 - natural[s, 1], tau - natural[s, 2])
    c = (stiffness[s, 0] * excess[0], stiffness[s, 1] * excess[1], stiffness[s, 2] * excess[2])
    return vectors, directors, (1.0 / length[edges[s, 0]], 1.0 / length[edges[s, 1]]), (k1, k2), excess, c


@kernel
def bend_twist_force(q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, gradient):
    """Add the gradient of bending and twisting; return (energy, largest force, largest moment).

    `dofs` (S, 11), `edges` and `signs` (S, 2) of the stencils; `stiffness` (S, 3): EI1/V, EI2/V, GJ/V [N m]; `natural` (S, 3):
    natural kappa1, kappa2 [-] and tau [rad]; frames `t`, `m1`, `m2` (E, 3), `length` (E,) [m], reference `twist` (S,) [rad].
    """
    energy, largest_force, largest_moment = 0.0, 0.0, 0.0
    for s in range(dofs.shape[0]):
        (te, tf, chi, kb), (m1e, m1f, m2e, m2f), (ie, jf), (k1, k2), excess, c = _stencil(
            q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, s
        )
        se, sf = signs[s, 0], signs[s, 1]
        energy += 0.5 * dot(c, excess)
        # c1 kappa1 + c2 kappa2 is one curvature along the director c1 m2 - c2 m1
        k = c[0] * k1 + c[1] * k2
        mt = combine(1.0 / chi, combine(c[0], m2e, -c[1], m1e), 1.0 / chi, combine(c[0], m2f, -c[1], m1f))
        tt = combine(1.0 / chi, te, 1.0 / chi, tf)
        u, v = cross(tf, mt), cross(te, mt)
        for j in range(3):
            ge = ie * (-k * tt[j] + u[j] + 0.5 * c[2] * kb[j])
            gf = jf * (-k * tt[j] - v[j] + 0.5 * c[2] * kb[j])
            gradient[dofs[s, j]] -= ge
            gradient[dofs[s, 4 + j]] += ge - gf
            gradient[dofs[s, 8 + j]] += gf
            largest_force = max(largest_force, abs(ge), abs(gf))
        gradient[dofs[s, 3]] -= se * (0.5 * (c[0] * dot(kb, m1e) + c[1] * dot(kb, m2e)) + c[2])
        gradient[dofs[s, 7]] -= sf * (0.5 * (c[0] * dot(kb, m1f) + c[1] * dot(kb, m2f)) - c[2])
        largest_moment = max(largest_moment, abs(c[0]), abs(c[1]), abs(c[2]))
    return energy, largest_force, largest_moment


@kernel
def strain_rates(rate, dofs, edges, signs, t, length, m1, m2, out):
    """Fill the rates (S, 3) of kappa1, kappa2 and tau of every stencil where the unknowns change at `rate` (dofs,)."""
    for s in range(dofs.shape[0]):
        (te, tf, chi, kb), (m1e, m1f, m2e, m2f), (k1, k2) = bent(t, m1, m2, edges, signs, s)
        de = scaled(1.0 / length[edges[s, 0]], difference(point(rate, dofs[s, 4]), point(rate, dofs[s, 0])))
        df = scaled(1.0 / length[edges[s, 1]], difference(point(rate, dofs[s, 8]), point(rate, dofs[s, 4])))
        we, wf = signs[s, 0] * rate[dofs[s, 3]], signs[s, 1] * rate[dofs[s, 7]]
        along = (dot(te, de) + dot(tf, de) + dot(te, df) + dot(tf, df)) / chi
        turned = difference(
            cross(de, tf), cross(df, te)
        )  # the rate of te x tf with edges that change their lengths, too
        out[s, 0] = (
            (dot(turned, m2e) + dot(turned, m2f)) / chi - k1 * along - 0.5 * (we * dot(kb, m1e) + wf * dot(kb, m1f))
        )
        out[s, 1] = (
            -(dot(turned, m1e) + dot(turned, m1f)) / chi - k2 * along - 0.5 * (we * dot(kb, m2e) + wf * dot(kb, m2f))
        )
        out[s, 2] = wf - we + 0.5 * (dot(kb, de) + dot(kb, df))


@kernel
def bend_twist_hessian(q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, slots, values):
    """Add the Hessian of bending and twisting of every stencil in packed lower form (66 slots); arguments as for the force.

    The second derivatives are formed for the two edge vectors and two angles (8 unknowns) and then spread to
    the vertices by e = x1 - x0, f = x2 - x1. Below p, g are first derivatives of kappa1 and kappa2 by an edge vector and by its
    angle, h those of tau; bending by c1 kappa1 + c2 kappa2 is one curvature k along the combined directors m.
    """
    hee, hff, hef = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for s in range(dofs.shape[0]):
        (te, tf, chi, kb), (m1e, m1f, m2e, m2f), (ie, jf), (k1, k2), _, c = _stencil(
            q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, s
        )
        b, ic = row(stiffness, s), 1.0 / chi
        tt = combine(ic, te, ic, tf)
        mean1, mean2 = combine(ic, m1e, ic, m1f), combine(ic, m2e, ic, m2f)
        pe = (
            scaled(ie, combine(-k1, tt, 1.0, cross(tf, mean2))),
            scaled(ie, combine(-k2, tt, -1.0, cross(tf, mean1))),
            scaled(0.5 * ie, kb),
        )
        pf = (
            scaled(jf, combine(-k1, tt, -1.0, cross(te, mean2))),
            scaled(jf, combine(-k2, tt, 1.0, cross(te, mean1))),
            scaled(0.5 * jf, kb),
        )
        ge = (-0.5 * dot(kb, m1e), -0.5 * dot(kb, m2e), -1.0)
        gf = (-0.5 * dot(kb, m1f), -0.5 * dot(kb, m2f), 1.0)
        k = c[0] * k1 + c[1] * k2
        me, mf = combine(c[0], m2e, -c[1], m1e), combine(c[0], m2f, -c[1], m1f)
        ne, nf = combine(c[0], m1e, c[1], m2e), combine(c[0], m1f, c[1], m2f)
        mt = combine(ic, me, ic, mf)
        u, v = cross(tf, mt), cross(te, mt)
        _own_block(b, pe, ie, k, ic, tt, scaled(-1.0, u), te, me, kb, c[2], hee)
        _own_block(b, pf, jf, k, ic, tt, v, tf, mf, kb, c[2], hff)
        # skew parts of the mixed block: -[mt]x from bending and (c3/chi) [te]x from twisting
        z = combine(c[2] * ic, te, -1.0, mt)
        skew = ((0.0, -z[2], z[1]), (z[2], 0.0, -z[0]), (-z[1], z[0], 0.0))
        for i in range(3):
            for j in range(3):
                fold = 2.0 * k * tt[i] * tt[j] - k * ic * ((1.0 if i == j else 0.0) + te[i] * tf[j])
                turn = tt[i] * v[j] - u[i] * tt[j] - 0.5 * c[2] * kb[i] * tt[j] + skew[i][j]
                hef[i, j] = _outer(b, pe, pf, i, j) + ie * jf * (fold + turn)
        slot = slots[s]
        values[slot[_packed(3, 3)]] += _product(b, ge, ge) - 0.5 * dot(kb, me)
        values[slot[_packed(7, 7)]] += _product(b, gf, gf) - 0.5 * dot(kb, mf)
        values[slot[_packed(7, 3)]] += signs[s, 0] * signs[s, 1] * _product(b, ge, gf)
        ke, kf = combine(0.5 * dot(kb, ne), tt, -ic, cross(tf, ne)), combine(0.5 * dot(kb, nf), tt, -ic, cross(tf, nf))
        le, lf = combine(0.5 * dot(kb, ne), tt, ic, cross(te, ne)), combine(0.5 * dot(kb, nf), tt, ic, cross(te, nf))
        _spread_angle(b, pe, pf, ge, scaled(ie, ke), scaled(jf, le), signs[s, 0], slot, 3, values)
        _spread_angle(b, pe, pf, gf, scaled(ie, kf), scaled(jf, lf), signs[s, 1], slot, 7, values)
        _spread_edges(hee, hef, hff, slot, values)


@kernel
def _product(b, g, h):
    """Return the sum of b_i g_i h_i over the three strains."""
    return b[0] * g[0] * h[0] + b[1] * g[1] * h[1] + b[2] * g[2] * h[2]


@kernel
def _outer(b, p, r, i, j):
    """Return entry (i, j) of the sum of b p r^T over the three strains."""
    return b[0] * p[0][i] * r[0][j] + b[1] * p[1][i] * r[1][j] + b[2] * p[2][i] * r[2][j]


@kernel
def _own_block(b, p, inverse, k, ic, tt, w, t, m, kb, c3, out):
    """Fill the second derivatives by one edge vector with tangent t, (3, 3); w is -u or v, m its combined director."""
    r = combine(1.0, t, 1.0, tt)
    for i in range(3):
        for j in range(i + 1):
            fold = 2.0 * k * tt[i] * tt[j] - k * ic * ((1.0 if i == j else 0.0) - t[i] * t[j])
            turn = w[i] * tt[j] + tt[i] * w[j] + 0.25 * (kb[i] * m[j] + m[i] * kb[j])
            turn -= 0.25 * c3 * (kb[i] * r[j] + r[i] * kb[j])
            out[i, j] = _outer(b, p, p, i, j) + inverse * inverse * (fold + turn)
            out[j, i] = out[i, j]


@kernel
def _spread_angle(b, pe, pf, g, he, hf, sign, slot, angle, values):
    """Add the coupling of one angle (its row among the 11) with the three vertices; `he`, `hf` are those that stress makes."""
    for i in range(3):
        e = b[0] * pe[0][i] * g[0] + b[1] * pe[1][i] * g[1] + b[2] * pe[2][i] * g[2] + he[i]
        f = b[0] * pf[0][i] * g[0] + b[1] * pf[1][i] * g[1] + b[2] * pf[2][i] * g[2] + hf[i]
        first, middle, last = -sign * e, sign * (e - f), sign * f
        values[slot[_packed(angle, i)]] += first
        values[slot[_packed(max(4 + i, angle), min(4 + i, angle))]] += middle
        values[slot[_packed(8 + i, angle)]] += last


@kernel
def _spread_edges(hee, hef, hff, slot, values):
    """Add the second derivatives by the edge vectors to the entries of the three vertices."""
    for i in range(3):
        for j in range(3):
            values[slot[_packed(4 + i, j)]] += hef[j, i] - hee[i, j]  # rows x1, columns x0
            values[slot[_packed(8 + i, j)]] += -hef[j, i]  # rows x2, columns x0
            values[slot[_packed(8 + i, 4 + j)]] += hef[j, i] - hff[i, j]  # rows x2, columns x1
            if j <= i:
                values[slot[_packed(i, j)]] += hee[i, j]
                values[slot[_packed(4 + i, 4 + j)]] += hee[i, j] - hef[i, j] - hef[j, i] + hff[i, j]
                values[slot[_packed(8 + i, 8 + j)]] += hff[i, j]
