"""Rotations of rigid bodies in kernels: quaternions (w, x, y, z), rotation vectors, matrices.

Conventions: a quaternion turns body vectors into world vectors; rotation increments are world rotation vectors,
applied from the left, Q <- exp(theta) * Q.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled, turned, turned_back
from geosim.linear.polar import product_transposed


@kernel
def exponential(v):
    """Quaternion exp(v) of a rotation vector v [rad]."""
    angle = math.sqrt(dot(v, v))
    s = math.sin(0.5 * angle) / angle if angle > 0.0 else 0.5
    return (math.cos(0.5 * angle), s * v[0], s * v[1], s * v[2])


@kernel
def matrices(Q):
    """Rotation matrices (b, 3, 3) of unit quaternions (b, 4)."""
    R = np.empty((len(Q), 3, 3))
    for b in range(len(Q)):
        w, x, y, z = Q[b, 0], Q[b, 1], Q[b, 2], Q[b, 3]
        put(R[b, 0], (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)))
        put(R[b, 1], (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)))
        put(R[b, 2], (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)))
    return R


@kernel
def _product(p, q):
    """Product of two quaternions."""
    return (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    )


@kernel
def _quaternion(Q, b):
    """Row b of quaternions (b, 4)."""
    return (Q[b, 0], Q[b, 1], Q[b, 2], Q[b, 3])


@kernel
def _put_unit(out, q):
    """Write a quaternion, normalised, to an array (4,)."""
    size = math.sqrt(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
    out[0], out[1], out[2], out[3] = q[0] / size, q[1] / size, q[2] / size, q[3] / size


@kernel
def advance_quaternions(Q, theta):
    """Return exp(theta) * Q, normalised, for quaternions (b, 4) and rotation vectors (b, 3) [rad]."""
    out = np.empty_like(Q)
    for b in range(len(Q)):
        _put_unit(out[b], _product(exponential(theta[b]), _quaternion(Q, b)))
    return out


@kernel
def _curved(E, theta, arm):
    """How far the end of an arm leaves its tangent when it turns by E = exp(theta): (E - 1 - [theta]x) arm."""
    return difference(difference(turned(E, arm), arm), cross(theta, arm))


@kernel
def carried(x, X, Q, step, carriers):
    """Return exp(step) applied to particles x (n, 3) and bodies X (b, 3), Q (b, 4); `step` (slots, 3).

    What another body c carries, named in `carriers` (slots,) with -1 for none, moves in the frame of that body: with
    E = exp(theta_c) and r = x - X_c

        x <- x + dx + (E - 1 - [theta_c]x) r,        Q <- E exp(theta - theta_c) Q.

    To first order these are x + dx and exp(theta) Q; but an attachment or a hinge whose ends turn together stays closed, where
    the latter open it by the square of the angle, against the stiffest rows there are.
    """
    n = len(x)
    places, centres, quaternions = x + step[:n], X + step[n::2], np.empty_like(Q)
    turns = np.empty_like(Q)
    for b in range(len(Q)):
        _put_unit(turns[b], exponential(row(step, n + 2 * b + 1)))
    R = matrices(turns)
    for b in range(len(Q)):
        c, q = carriers[n + 2 * b], _quaternion(turns, b)
        if c >= 0 and c != b:
            whole, arm = row(step, n + 2 * c + 1), difference(row(X, b), row(X, c))
            put(centres[b], plus(row(centres, b), _curved(R[c], whole, arm)))
            q = _product(_quaternion(turns, c), exponential(difference(row(step, n + 2 * b + 1), whole)))
        _put_unit(quaternions[b], _product(q, _quaternion(Q, b)))
    for p in range(n):
        c = carriers[p]
        if c >= 0:
            whole, arm = row(step, n + 2 * c + 1), difference(row(x, p), row(X, c))
            put(places[p], plus(row(places, p), _curved(R[c], whole, arm)))
    return places, centres, quaternions


@kernel
def rotation_vectors(new, old):
    """Rotation vectors log(new old^-1) [rad] between quaternions (b, 4), shape (b, 3), each at most pi long."""
    out = np.empty((len(new), 3))
    for b in range(len(new)):
        o = old[b]
        w, x, y, z = _product(new[b], (o[0], -o[1], -o[2], -o[3]))
        s = math.sqrt(x * x + y * y + z * z)
        # q and -q are the same rotation: the shorter way has w >= 0
        f = 2.0 / w if s == 0.0 else math.copysign(2.0, w) * math.atan2(s, abs(w)) / s
        put(out[b], scaled(f, (x, y, z)))
    return out


@kernel
def _entries(rows, t):
    """Matrix number t of (9, m)."""
    first, second = (rows[0, t], rows[1, t], rows[2, t]), (rows[3, t], rows[4, t], rows[5, t])
    return (*first, *second, rows[6, t], rows[7, t], rows[8, t])


@kernel
def turns_since(tets, corners, R, R0, Q, Q0, turned_with):
    """Rotations (slots, 3, 3) of all slots from one configuration to another.

    A particle turns as some `tets` (k,) around it, of corners (m, 4) and rotations R and R0 (9, m), in the mean; but where
    `turned_with` (slots,) names a body, of quaternions Q and Q0 (b, 4), the slot turns as that one. The mean is that of the
    unnormalised quaternions (1 + tr D, axial D) of D = R R0^T, longest where D turns least. What belongs to neither stays.
    """
    q = np.zeros((len(turned_with), 4))
    for t in tets:
        d = product_transposed(_entries(R, t), _entries(R0, t))
        w, x, y, z = 1.0 + d[0] + d[4] + d[8], d[7] - d[5], d[2] - d[6], d[3] - d[1]
        for a in range(4):
            p = q[corners[t, a]]
            p[0], p[1], p[2], p[3] = p[0] + w, p[1] + x, p[2] + y, p[3] + z
    for s in range(len(turned_with)):
        b = turned_with[s]
        if b >= 0:
            o = (Q0[b, 0], -Q0[b, 1], -Q0[b, 2], -Q0[b, 3])
            q[s, 0], q[s, 1], q[s, 2], q[s, 3] = _product(_quaternion(Q, b), o)
        size = math.sqrt(q[s, 0] ** 2 + q[s, 1] ** 2 + q[s, 2] ** 2 + q[s, 3] ** 2)
        if size > 0.0:
            q[s] /= size
        else:
            q[s, 0] = 1.0
    return matrices(q)


@kernel
def turned_slots(turns, v, back):
    """Return turns (slots, 3, 3) times v (slots, 3), or with `back` their transposes."""
    out = np.empty_like(v)
    for s in range(len(v)):
        put(out[s], turned_back(turns[s], row(v, s)) if back else turned(turns[s], row(v, s)))
    return out
