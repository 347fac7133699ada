"""Factorisation of a symmetric band, and the way from there to LAPACK's general band."""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel

__all__ = ["factor_band", "solve_band", "spread_band"]


@kernel
def factor_band(a, half):
    """Factorise a symmetric band in place as L D L^T without pivoting; return the number of negative pivots or -1.

    `a[j, k]` is entry (j + k, j). A zero or non-finite pivot gives -1.
    """
    n = a.shape[0]
    negative = 0
    for j in range(n):
        d = a[j, 0]
        if d == 0.0 or not np.isfinite(d):
            return -1
        if d < 0.0:
            negative += 1
        last = min(half, n - 1 - j)
        inverse = 1.0 / d
        for k in range(1, last + 1):
            factor = a[j, k] * inverse
            if factor != 0.0:
                for m in range(k, last + 1):
                    a[j + k, m - k] -= factor * a[j, m]
        for k in range(1, last + 1):
            a[j, k] *= inverse
    return negative


@kernel
def solve_band(a, half, b):
    """Solve L D L^T x = b in place of b, with the factors of `factor_band`."""
    n = a.shape[0]
    for j in range(n):
        value = b[j]
        for k in range(1, min(half, n - 1 - j) + 1):
            b[j + k] -= a[j, k] * value
    for j in range(n - 1, -1, -1):
        value = b[j] / a[j, 0]
        for k in range(1, min(half, n - 1 - j) + 1):
            value -= a[j, k] * b[j + k]
        b[j] = value


@kernel
def spread_band(values, n, half, row, col, data):
    """Return LAPACK's general band (n, 3 half + 1), transposed, of a symmetric band plus extra entries."""
    ab = np.zeros((n, 3 * half + 1))
    for j in range(n):
        for k in range(min(half, n - 1 - j) + 1):
            value = values[j * (half + 1) + k]
            ab[j, 2 * half + k] = value
            ab[j + k, 2 * half - k] = value
    for i in range(row.shape[0]):
        ab[col[i], 2 * half + row[i] - col[i]] += data[i]
    return ab
