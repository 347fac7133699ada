"""Rotations in kernels: quaternions (w, x, y, z), rotation vectors, 3x3 products written out.

Conventions: a quaternion turns body vectors into world vectors; rotation increments are world rotation vectors,
applied from the left, Q <- exp(theta) * Q.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel

__all__ = ["advance_quaternions", "matrices", "quaternion_to_matrix", "rotation_vectors", "vector_to_quaternion"]


@kernel
def vector_to_quaternion(v, q):
    """Write exp(v) for a rotation vector v [rad] into the quaternion q."""
    angle2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    angle = math.sqrt(angle2)
    # sin(a/2)/a by its series near zero, where the quotient loses digits.
    s = 0.5 - angle2 / 48.0 if angle < 1e-4 else math.sin(0.5 * angle) / angle
    q[0] = math.cos(0.5 * angle)
    q[1], q[2], q[3] = s * v[0], s * v[1], s * v[2]


@kernel
def quaternion_to_matrix(q, R):
    """Write the rotation matrix of a unit quaternion into R (3, 3)."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    R[0, 0], R[0, 1], R[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    R[1, 0], R[1, 1], R[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    R[2, 0], R[2, 1], R[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


@kernel
def matrices(Q):
    """Rotation matrices (b, 3, 3) of unit quaternions (b, 4)."""
    R = np.empty((len(Q), 3, 3))
    for b in range(len(Q)):
        quaternion_to_matrix(Q[b], R[b])
    return R


@kernel
def advance_quaternions(Q, theta):
    """Return exp(theta) * Q, normalised, for quaternions (b, 4) and rotation vectors (b, 3) [rad]."""
    out = np.empty_like(Q)
    d = np.empty(4)
    for b in range(len(Q)):
        vector_to_quaternion(theta[b], d)
        w, x, y, z = Q[b, 0], Q[b, 1], Q[b, 2], Q[b, 3]
        out[b, 0] = d[0] * w - d[1] * x - d[2] * y - d[3] * z
        out[b, 1] = d[0] * x + d[1] * w + d[2] * z - d[3] * y
        out[b, 2] = d[0] * y - d[1] * z + d[2] * w + d[3] * x
        out[b, 3] = d[0] * z + d[1] * y - d[2] * x + d[3] * w
        n = math.sqrt(out[b, 0] ** 2 + out[b, 1] ** 2 + out[b, 2] ** 2 + out[b, 3] ** 2)
        for k in range(4):
            out[b, k] /= n
    return out


@kernel
def rotation_vectors(new, old):
    """Rotation vectors log(new old^-1) [rad] between quaternions (b, 4), shape (b, 3), each at most pi long."""
    out = np.empty((len(new), 3))
    for b in range(len(new)):
        a, o = new[b], old[b]
        w = a[0] * o[0] + a[1] * o[1] + a[2] * o[2] + a[3] * o[3]
        x = -a[0] * o[1] + a[1] * o[0] - a[2] * o[3] + a[3] * o[2]
        y = -a[0] * o[2] + a[1] * o[3] + a[2] * o[0] - a[3] * o[1]
        z = -a[0] * o[3] - a[1] * o[2] + a[2] * o[1] + a[3] * o[0]
        if w < 0:
            w, x, y, z = -w, -x, -y, -z
        s = math.sqrt(x * x + y * y + z * z)
        f = 2.0 / w if s < 1e-9 else 2.0 * math.atan2(s, w) / s
        out[b, 0], out[b, 1], out[b, 2] = f * x, f * y, f * z
    return out
