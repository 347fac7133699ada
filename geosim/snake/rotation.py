"""Rotations of rigid bodies in kernels: quaternions (w, x, y, z), rotation vectors, matrices.

Conventions: a quaternion turns body vectors into world vectors; rotation increments are world rotation vectors,
applied from the left, Q <- exp(theta) * Q.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import dot, put, scaled

__all__ = ["advance_quaternions", "matrices", "rotation_vectors"]


_SMALL = 1e-9  # sine below which a quotient of it and its angle is its limit to rounding
_SERIES = 1e-4  # angle [rad] below which sin(a/2)/a is its series: the next term is 1e-20


@kernel
def exponential(v):
    """Quaternion exp(v) of a rotation vector v [rad]."""
    angle = math.sqrt(dot(v, v))
    s = 0.5 - angle * angle / 48.0 if angle < _SERIES else math.sin(0.5 * angle) / angle
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
def advance_quaternions(Q, theta):
    """Return exp(theta) * Q, normalised, for quaternions (b, 4) and rotation vectors (b, 3) [rad]."""
    out = np.empty_like(Q)
    for b in range(len(Q)):
        q = _product(exponential(theta[b]), Q[b])
        size = math.sqrt(q[0] ** 2 + q[1] ** 2 + q[2] ** 2 + q[3] ** 2)
        out[b, 0], out[b, 1], out[b, 2], out[b, 3] = q[0] / size, q[1] / size, q[2] / size, q[3] / size
    return out


@kernel
def rotation_vectors(new, old):
    """Rotation vectors log(new old^-1) [rad] between quaternions (b, 4), shape (b, 3), each at most pi long."""
    out = np.empty((len(new), 3))
    for b in range(len(new)):
        o = old[b]
        w, x, y, z = _product(new[b], (o[0], -o[1], -o[2], -o[3]))
        s = math.sqrt(x * x + y * y + z * z)
        # q and -q are the same rotation: the shorter way has w >= 0
        f = 2.0 / w if s < _SMALL else math.copysign(2.0, w) * math.atan2(s, abs(w)) / s
        put(out[b], scaled(f, (x, y, z)))
    return out
