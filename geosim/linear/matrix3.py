"""Vectors of three and 3x3 matrices for compiled kernels, where numpy.linalg would cost half a minute of compilation.

Vectors are tuples, which the compiler keeps in registers; what reads them takes rows of arrays, too.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel


@kernel
def row(array, i):
    """Row i of an (n, 3) array."""
    return (array[i, 0], array[i, 1], array[i, 2])


@kernel
def dot(a, b):
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def cross(a, b):
    """Vector product."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@kernel
def difference(a, b):
    """Return a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@kernel
def scaled(s, a):
    """Return s a."""
    return (s * a[0], s * a[1], s * a[2])


@kernel
def combine(s, a, t, b):
    """Return s a + t b."""
    return (s * a[0] + t * b[0], s * a[1] + t * b[1], s * a[2] + t * b[2])


@kernel
def plus(a, b):
    """Return a + b."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@kernel
def tuple3(a):
    """Return the first three numbers of an array."""
    return (a[0], a[1], a[2])


@kernel
def put(out, a):
    """Write a vector to an array (3,)."""
    out[0], out[1], out[2] = a


@kernel
def turned(A, v):
    """Return A v; of a pose (3, 4) only the matrix counts."""
    return (dot(A[0], v), dot(A[1], v), dot(A[2], v))


@kernel
def turned_back(A, v):
    """Return A^T v; of a pose (3, 4) only the matrix counts."""
    return plus(plus(scaled(v[0], A[0]), scaled(v[1], A[1])), scaled(v[2], A[2]))


@kernel
def _turn_columns(a, p, q, c, s):
    """Rotate two columns of a matrix (3, 3) in their plane."""
    for k in range(3):
        u, v = a[k, p], a[k, q]
        a[k, p], a[k, q] = c * u - s * v, s * u + c * v


@kernel
def jacobi_eigen(S, values, vectors):
    """Eigenvalues and orthonormal eigenvectors (columns) of a symmetric 3x3 matrix by cyclic Jacobi rotations."""
    a = S.copy()
    for i in range(3):
        for j in range(3):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(12):
        off = a[0, 1] ** 2 + a[0, 2] ** 2 + a[1, 2] ** 2
        if off <= 1e-32 * (a[0, 0] ** 2 + a[1, 1] ** 2 + a[2, 2] ** 2):
            break
        for p in range(2):
            for q in range(p + 1, 3):
                if a[p, q] != 0.0:
                    theta = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                    if theta < 0.0:
                        t = -t
                    c = 1.0 / np.sqrt(t * t + 1.0)
                    s = t * c
                    _turn_columns(a, p, q, c, s)
                    _turn_columns(a.T, p, q, c, s)
                    _turn_columns(vectors, p, q, c, s)
    for i in range(3):
        values[i] = a[i, i]
