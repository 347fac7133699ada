"""3x3 linear algebra for compiled kernels, where numpy.linalg would cost half a minute of compilation."""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel

__all__ = ["jacobi_eigen"]


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
                    for k in range(3):
                        u, v = a[k, p], a[k, q]
                        a[k, p], a[k, q] = c * u - s * v, s * u + c * v
                    for k in range(3):
                        u, v = a[p, k], a[q, k]
                        a[p, k], a[q, k] = c * u - s * v, s * u + c * v
                    for k in range(3):
                        u, v = vectors[k, p], vectors[k, q]
                        vectors[k, p], vectors[k, q] = c * u - s * v, s * u + c * v
    for i in range(3):
        values[i] = a[i, i]
