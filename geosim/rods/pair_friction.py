"""Friction between two rods where their surfaces touch, and its moment.

The point that both touch in divides the way r between the nearest points of the centre lines by their radii, so that both
forces act in one point and pairs keep angular momentum. A point of a rod at the arm d from its centre line, on an edge with unit
tangent t and length l, moves with the edge, turns with it and spins about it with the rate of theta [rad/s]::

    v = (1 - s) v0 + s v1 + ((t . d) (v1 - v0) - ((v1 - v0) . d) t) / l + theta' t x d

The slip is the difference of both in the plane across r, u = sum_a g_a q'_a over 12 components of vertices and two theta; by the
principle of virtual power the force on q_a is g_a . F. [Choi2024] let friction act on the centre lines, where it has a moment.
"""

from __future__ import annotations

import math

from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, dot, put, row, scaled
from geosim.rods.contact import friction_slope, stick_slip

__all__ = ["PAIR_UNKNOWNS", "add_rod_friction", "rod_friction_block", "rod_slip"]

PAIR_UNKNOWNS = 14  # unknowns of a pair: three components of four vertices, two theta


@kernel
def _side(sign, s, e, d, first, g):
    """Fill the rows of g of an edge e, its point at the share s and the arm d: of two vertices from `first` on, and of theta."""
    length = math.sqrt(dot(e, e))
    t = scaled(1.0 / length, e)
    along = dot(t, d)
    for j in range(3):
        for i in range(3):
            turn = ((along if i == j else 0.0) - d[j] * t[i]) / length
            same = 1.0 if i == j else 0.0
            g[3 * first + j, i] = sign * ((1.0 - s) * same - turn)
            g[3 * first + 3 + j, i] = sign * (s * same + turn)
    put(g[12 + first // 2], scaled(sign, cross(t, d)))


@kernel
def rod_slip(q, q0, step, dofs, turns, share, geometry, k2, g):
    """Fill g (14, 3); return the slip velocity u [m/s], its size, gamma / |u| and its slope.

    `dofs` (4,) are first degrees of freedom of the vertices, `turns` (2,) those of theta, `share` that of the first radius in
    their sum, `geometry` what `pair_geometry` returns, k2 [s/m] the sharpness of friction.
    """
    _, s, p, _, _, r, e1, e2 = geometry
    _side(1.0, s, e1, scaled(-share, r), 0, g)
    _side(-1.0, p, e2, scaled(1.0 - share, r), 2, g)
    square = dot(r, r)
    u = (0.0, 0.0, 0.0)
    for a in range(PAIR_UNKNOWNS):
        along = dot(r, g[a]) / square
        for i in range(3):
            g[a, i] -= along * r[i]
        at = dofs[a // 3] + a % 3 if a < 12 else turns[a - 12]
        rate = (q[at] - q0[at]) / step
        u = (u[0] + rate * g[a, 0], u[1] + rate * g[a, 1], u[2] + rate * g[a, 2])
    speed = math.sqrt(dot(u, u))
    ratio, slope = stick_slip(speed, k2)
    return u, speed, ratio, slope


@kernel
def add_rod_friction(dofs, turns, g, u, size, residual, force):
    """Add `size` [N s/m] times u, mapped by g, to the residual, and take it from the force."""
    for a in range(PAIR_UNKNOWNS):
        at = dofs[a // 3] + a % 3 if a < 12 else turns[a - 12]
        f = size * dot(u, row(g, a))
        residual[at] += f
        force[at] -= f


@kernel
def _slope(slip, r, square, i, j):
    """Return an entry of the derivative of gamma u / |u| by u."""
    u, speed, ratio, slope = slip
    return friction_slope(u, speed, ratio, slope, r, square, i, j)


@kernel
def rod_friction_block(w, r, distance, g, slip, mu, fn, stiff, step, block):
    """Add the stiffness of friction to the block (14, 14); how r and g turn is neglected.

    `slip` is what `rod_slip` returns; fn [N] and `stiff` [N/m] are force and stiffness of the pair at its distance [m].
    """
    u, _, ratio, _ = slip
    square, rub = dot(r, r), mu * fn / step
    first = (_slope(slip, r, square, 0, 0), _slope(slip, r, square, 0, 1), _slope(slip, r, square, 0, 2))
    second = (first[1], _slope(slip, r, square, 1, 1), _slope(slip, r, square, 1, 2))
    third = (first[2], second[2], _slope(slip, r, square, 2, 2))
    for a in range(PAIR_UNKNOWNS):
        own = row(g, a)
        bent = (rub * dot(first, own), rub * dot(second, own), rub * dot(third, own))
        pushed = mu * ratio * stiff * dot(own, u) / distance
        for b in range(PAIR_UNKNOWNS):
            block[a, b] += dot(bent, row(g, b))
            if b < 12:
                block[a, b] -= pushed * w[b // 3] * r[b % 3]
