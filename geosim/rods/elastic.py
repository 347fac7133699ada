"""Elastic stencils of rods: energies, gradients and Hessians, one compiled loop per kind.

Stretching, Eqs. (9)-(10) of [Lahoti], on the two vertices of an edge::

    E = 1/2 EA (|e| / l - 1)^2 l

Bending and twisting, Eqs. (11)-(16) of [Lahoti], on three vertices and the theta of two edges::

    E = 1/(2 V) [ EI1 (kappa1 - kappa1n)^2 + EI2 (kappa2 - kappa2n)^2 + GJ (tau - taun)^2 ]

with the local order of unknowns [x0, theta_e, x1, theta_f, x2] and V the Voronoi length at rest. The derivatives are
those of the discrete viscous threads of Bergou et al. (2010). The Hessian of the energy equals the symmetric part of
the Jacobian of the force: the reference frames are transported, hence the force alone has a small skew part.

A matrix is assembled through `slots`: for every stencil the positions of its packed lower triangle in the
flat values of whatever matrix the solver uses; entries of fixed unknowns go to a last, unused position.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.rods.frames import cross, dot, row, scaled

__all__ = ["bend_twist_force", "bend_twist_hessian", "stretch_force", "stretch_hessian"]


@kernel
def stretch_force(edges, stiffness, rest, edge_dofs, t, length, gradient):
    """Add the gradient of the stretching energy; return (energy, largest axial force).

    `edges` (S,): the edge of each spring; `stiffness` EA [N]; `rest` [m] by spring.
    """
    energy, largest = 0.0, 0.0
    for s in range(edges.shape[0]):
        i = edges[s]
        strain = length[i] / rest[s] - 1.0
        force = stiffness[s] * strain
        energy += 0.5 * force * strain * rest[s]
        largest = max(largest, abs(force))
        a, b = edge_dofs[i, 0], edge_dofs[i, 1]
        for j in range(3):
            gradient[a + j] -= force * t[i, j]
            gradient[b + j] += force * t[i, j]
    return energy, largest


@kernel
def stretch_hessian(edges, stiffness, rest, t, length, slots, values):
    """Add the Hessian EA/l t t^T + (N/|e|) (I - t t^T) of every spring in packed lower form (21 slots)."""
    for s in range(edges.shape[0]):
        i = edges[s]
        axial = stiffness[s] / rest[s]
        lateral = stiffness[s] * (length[i] / rest[s] - 1.0) / length[i]
        p = 0
        for a in range(6):
            for b in range(a + 1):
                ja, jb = a % 3, b % 3
                h = (axial - lateral) * t[i, ja] * t[i, jb]
                if ja == jb:
                    h += lateral
                if a >= 3 and b < 3:
                    h = -h
                values[slots[s, p]] += h
                p += 1


@kernel
def _curvature(t, m1, m2, edges, signs, length, s):
    """Return the signed vectors of a stencil that forces and Hessian share."""
    a, b = edges[s, 0], edges[s, 1]
    se, sf = signs[s, 0], signs[s, 1]
    te = scaled(se, row(t, a))
    tf = scaled(sf, row(t, b))
    chi = 1.0 + dot(te, tf)
    kb = scaled(2.0 / chi, cross(te, tf))
    return (
        te,
        tf,
        chi,
        kb,
        scaled(se, row(m1, a)),
        scaled(sf, row(m1, b)),
        row(m2, a),
        row(m2, b),
        1.0 / length[a],
        1.0 / length[b],
    )


@kernel
def _combine(a, u, b, v):
    """Return a u + b v for 3-tuples."""
    return (a * u[0] + b * v[0], a * u[1] + b * v[1], a * u[2] + b * v[2])


@kernel
def bend_twist_force(q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, gradient):
    """Add the gradient of bending and twisting; return (energy, largest force, largest moment).

    `stiffness` (S, 3): EI1/V, EI2/V, GJ/V [N m]; `natural` (S, 3): natural kappa1, kappa2 [-] and tau [rad].
    """
    energy, largest_force, largest_moment = 0.0, 0.0, 0.0
    for s in range(dofs.shape[0]):
        te, tf, chi, kb, m1e, m1f, m2e, m2f, ie, jf = _curvature(t, m1, m2, edges, signs, length, s)
        se, sf = signs[s, 0], signs[s, 1]
        k1 = 0.5 * (dot(kb, m2e) + dot(kb, m2f))
        k2 = -0.5 * (dot(kb, m1e) + dot(kb, m1f))
        tau = sf * q[dofs[s, 7]] - se * q[dofs[s, 3]] + twist[s]
        c1 = stiffness[s, 0] * (k1 - natural[s, 0])
        c2 = stiffness[s, 1] * (k2 - natural[s, 1])
        c3 = stiffness[s, 2] * (tau - natural[s, 2])
        energy += 0.5 * (c1 * (k1 - natural[s, 0]) + c2 * (k2 - natural[s, 1]) + c3 * (tau - natural[s, 2]))
        # c1 kappa1 + c2 kappa2 is one curvature along the director c1 m2 - c2 m1
        k = c1 * k1 + c2 * k2
        me = _combine(c1, m2e, -c2, m1e)
        mf = _combine(c1, m2f, -c2, m1f)
        mt = _combine(1.0 / chi, me, 1.0 / chi, mf)
        tt = _combine(1.0 / chi, te, 1.0 / chi, tf)
        u, v = cross(tf, mt), cross(te, mt)
        for j in range(3):
            ge = ie * (-k * tt[j] + u[j] + 0.5 * c3 * kb[j])
            gf = jf * (-k * tt[j] - v[j] + 0.5 * c3 * kb[j])
            gradient[dofs[s, j]] -= ge
            gradient[dofs[s, 4 + j]] += ge - gf
            gradient[dofs[s, 8 + j]] += gf
            largest_force = max(largest_force, abs(ge), abs(gf))
        gradient[dofs[s, 3]] -= se * (0.5 * (c1 * dot(kb, m1e) + c2 * dot(kb, m2e)) + c3)
        gradient[dofs[s, 7]] -= sf * (0.5 * (c1 * dot(kb, m1f) + c2 * dot(kb, m2f)) - c3)
        largest_moment = max(largest_moment, abs(c1), abs(c2), abs(c3))
    return energy, largest_force, largest_moment


@kernel
def bend_twist_hessian(q, dofs, edges, signs, stiffness, natural, t, length, m1, m2, twist, slots, values):
    """Add the Hessian of bending and twisting of every stencil in packed lower form (66 slots).

    The second derivatives are formed for the two edge vectors and two angles (8 unknowns) and then spread to
    the vertices by e = x1 - x0, f = x2 - x1.
    """
    hee, hff, hef = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for s in range(dofs.shape[0]):
        te, tf, chi, kb, m1e, m1f, m2e, m2f, ie, jf = _curvature(t, m1, m2, edges, signs, length, s)
        se, sf = signs[s, 0], signs[s, 1]
        k1 = 0.5 * (dot(kb, m2e) + dot(kb, m2f))
        k2 = -0.5 * (dot(kb, m1e) + dot(kb, m1f))
        tau = sf * q[dofs[s, 7]] - se * q[dofs[s, 3]] + twist[s]
        b1, b2, b3 = stiffness[s, 0], stiffness[s, 1], stiffness[s, 2]
        c1, c2, c3 = b1 * (k1 - natural[s, 0]), b2 * (k2 - natural[s, 1]), b3 * (tau - natural[s, 2])
        ic = 1.0 / chi
        tt = _combine(ic, te, ic, tf)
        # first derivatives of kappa1, kappa2
        a1 = cross(tf, _combine(ic, m2e, ic, m2f))
        a2 = cross(tf, _combine(ic, m1e, ic, m1f))
        w1 = cross(te, _combine(ic, m2e, ic, m2f))
        w2 = cross(te, _combine(ic, m1e, ic, m1f))
        p1e = scaled(ie, _combine(-k1, tt, 1.0, a1))
        p1f = scaled(jf, _combine(-k1, tt, -1.0, w1))
        p2e = scaled(ie, _combine(-k2, tt, -1.0, a2))
        p2f = scaled(jf, _combine(-k2, tt, 1.0, w2))
        te1, tf1 = -0.5 * dot(kb, m1e), -0.5 * dot(kb, m1f)
        te2, tf2 = -0.5 * dot(kb, m2e), -0.5 * dot(kb, m2f)
        he, hf = scaled(0.5 * ie, kb), scaled(0.5 * jf, kb)
        # second derivatives of c1 kappa1 + c2 kappa2, by the combined directors
        k = c1 * k1 + c2 * k2
        me, mf = _combine(c1, m2e, -c2, m1e), _combine(c1, m2f, -c2, m1f)
        ne, nf = _combine(c1, m1e, c2, m2e), _combine(c1, m1f, c2, m2f)
        mt = _combine(ic, me, ic, mf)
        u, v = cross(tf, mt), cross(te, mt)
        kne, knf = 0.5 * dot(kb, ne), 0.5 * dot(kb, nf)
        xe, xf = cross(tf, ne), cross(tf, nf)
        ye, yf = cross(te, ne), cross(te, nf)
        rt = (te[0] + tt[0], te[1] + tt[1], te[2] + tt[2])
        st = (tf[0] + tt[0], tf[1] + tt[1], tf[2] + tt[2])
        # skew parts of the mixed block: -[mt]x from bending and (c3/chi) [te]x from twisting
        z = (c3 * ic * te[0] - mt[0], c3 * ic * te[1] - mt[1], c3 * ic * te[2] - mt[2])
        skew = ((0.0, -z[2], z[1]), (z[2], 0.0, -z[0]), (-z[1], z[0], 0.0))
        tte = b1 * te1 * te1 + b2 * te2 * te2 + b3 - 0.5 * dot(kb, me)
        ttf = b1 * tf1 * tf1 + b2 * tf2 * tf2 + b3 - 0.5 * dot(kb, mf)
        tef = b1 * te1 * tf1 + b2 * te2 * tf2 - b3
        slot = slots[s]
        values[slot[9]] += tte
        values[slot[35]] += ttf
        values[slot[31]] += se * sf * tef
        for a in range(3):
            # coupling of the edge vectors with the angles
            ee = b1 * p1e[a] * te1 + b2 * p2e[a] * te2 - b3 * he[a] + ie * (kne * tt[a] - ic * xe[a])
            ef = b1 * p1e[a] * tf1 + b2 * p2e[a] * tf2 + b3 * he[a] + ie * (knf * tt[a] - ic * xf[a])
            fe = b1 * p1f[a] * te1 + b2 * p2f[a] * te2 - b3 * hf[a] + jf * (kne * tt[a] + ic * ye[a])
            ff = b1 * p1f[a] * tf1 + b2 * p2f[a] * tf2 + b3 * hf[a] + jf * (knf * tt[a] + ic * yf[a])
            values[slot[6 + a]] += -se * ee
            values[slot[28 + a]] += -sf * ef
            values[slot[(4 + a) * (5 + a) // 2 + 3]] += se * (ee - fe)
            values[slot[28 + 4 + a]] += sf * (ef - ff)
            values[slot[(8 + a) * (9 + a) // 2 + 3]] += se * fe
            values[slot[(8 + a) * (9 + a) // 2 + 7]] += sf * ff
            for b in range(3):
                fold = 2.0 * k * tt[a] * tt[b]
                delta = 1.0 if a == b else 0.0
                hef[a, b] = (
                    b1 * p1e[a] * p1f[b]
                    + b2 * p2e[a] * p2f[b]
                    + b3 * he[a] * hf[b]
                    + ie
                    * jf
                    * (
                        fold
                        - u[a] * tt[b]
                        + tt[a] * v[b]
                        - k * ic * (delta + te[a] * tf[b])
                        - 0.5 * c3 * kb[a] * tt[b]
                        + skew[a][b]
                    )
                )
                if b <= a:
                    hee[a, b] = (
                        b1 * p1e[a] * p1e[b]
                        + b2 * p2e[a] * p2e[b]
                        + b3 * he[a] * he[b]
                        + ie
                        * ie
                        * (
                            fold
                            - u[a] * tt[b]
                            - tt[a] * u[b]
                            - k * ic * (delta - te[a] * te[b])
                            + 0.25 * (kb[a] * me[b] + me[a] * kb[b])
                            - 0.25 * c3 * (kb[a] * rt[b] + rt[a] * kb[b])
                        )
                    )
                    hff[a, b] = (
                        b1 * p1f[a] * p1f[b]
                        + b2 * p2f[a] * p2f[b]
                        + b3 * hf[a] * hf[b]
                        + jf
                        * jf
                        * (
                            fold
                            + v[a] * tt[b]
                            + tt[a] * v[b]
                            - k * ic * (delta - tf[a] * tf[b])
                            + 0.25 * (kb[a] * mf[b] + mf[a] * kb[b])
                            - 0.25 * c3 * (kb[a] * st[b] + st[a] * kb[b])
                        )
                    )
                    hee[b, a] = hee[a, b]
                    hff[b, a] = hff[a, b]
        for a in range(3):
            r1 = (4 + a) * (5 + a) // 2
            r2 = (8 + a) * (9 + a) // 2
            for b in range(3):
                values[slot[r1 + b]] += hef[b, a] - hee[a, b]  # rows x1, columns x0
                values[slot[r2 + b]] += -hef[b, a]  # rows x2, columns x0
                values[slot[r2 + 4 + b]] += hef[b, a] - hff[a, b]  # rows x2, columns x1
                if b <= a:
                    values[slot[a * (a + 1) // 2 + b]] += hee[a, b]
                    values[slot[r1 + 4 + b]] += hee[a, b] - hef[a, b] - hef[b, a] + hff[a, b]
                    values[slot[r2 + 8 + b]] += hff[a, b]
