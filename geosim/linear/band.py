"""Factorisation of a symmetric band, and the way from there to LAPACK's general band."""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel

SLENDER_HALF_BANDWIDTH = 10  # half-bandwidth along a rod: loops of known length become vector instructions


U1, U2, U3 = np.uint64(1), np.uint64(2), np.uint64(3)  # signed places might be counted from the end: no vectors


@kernel
def _less4(a, at, f, b, of):
    """Take f b[of:of + 4] from a[at:at + 4]: all loads before all stores, so that they become one of each."""
    i, k = np.uint64(at), np.uint64(of)
    a0, a1, a2, a3 = a[i], a[i + U1], a[i + U2], a[i + U3]
    b0, b1, b2, b3 = b[k], b[k + U1], b[k + U2], b[k + U3]
    a[i] = a0 - f * b0
    a[i + U1] = a1 - f * b1
    a[i + U2] = a2 - f * b2
    a[i + U3] = a3 - f * b3


@kernel
def _factor_slender(a):
    """Factorise all columns but the last ten of a band of half-bandwidth 10, as `factor_band` does three times as slowly."""
    n, width = a.shape[0], SLENDER_HALF_BANDWIDTH + 1
    flat, column = a.reshape(n * width), np.zeros(2 * width + 2)  # what is beyond the column stays zero
    negative = 0
    for j in range(n - SLENDER_HALF_BANDWIDTH):
        at = j * width
        d = flat[at]
        if d == 0.0 or not np.isfinite(d):
            return -1
        negative += d < 0.0
        inverse = 1.0 / d
        for k in range(1, width):
            column[k] = flat[at + k]
        for k in range(1, width):
            factor = column[k] * inverse
            to = at + k * width
            _less4(flat, to, factor, column, k)
            if k < 7:
                _less4(flat, to + 4, factor, column, k + 4)
            if k < 3:
                flat[to + 8] -= factor * column[k + 8]
                flat[to + 9] -= factor * column[k + 9]
        for k in range(1, width):
            flat[at + k] = column[k] * inverse
    return negative


@kernel
def factor_band(a, half):
    """Factorise a symmetric band in place as L D L^T without pivoting; return the number of negative pivots or -1.

    `a[j, k]` is entry (j + k, j). A zero or non-finite pivot gives -1.
    """
    n, negative, first = a.shape[0], 0, 0
    if half == SLENDER_HALF_BANDWIDTH and n > SLENDER_HALF_BANDWIDTH:
        negative, first = _factor_slender(a), n - SLENDER_HALF_BANDWIDTH
        if negative < 0:
            return -1
    for j in range(first, n):
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
def _dot4(a, at, b, of):
    """Return the sum of four products, the first of them last: what was found last keeps nothing waiting."""
    i, k = np.uint64(at), np.uint64(of)
    return (a[i + U3] * b[k + U3] + a[i + U2] * b[k + U2]) + a[i + U1] * b[k + U1] + a[i] * b[k]


@kernel
def solve_band(a, half, b):
    """Solve L D L^T x = b in place of b, with the factors of `factor_band`."""
    n, width = a.shape[0], half + 1
    inside = max(n - half, 0) if half == SLENDER_HALF_BANDWIDTH else 0  # columns that are whole
    flat = a.reshape(n * width)
    for j in range(inside):
        value, at = b[j], j * width
        _less4(b, j + 1, value, flat, at + 1)
        _less4(b, j + 5, value, flat, at + 5)
        b[j + 9] -= flat[at + 9] * value
        b[j + 10] -= flat[at + 10] * value
    for j in range(inside, n):
        value = b[j]
        for k in range(1, min(half, n - 1 - j) + 1):
            b[j + k] -= a[j, k] * value
    for j in range(n - 1, inside - 1, -1):
        value = b[j] / a[j, 0]
        for k in range(min(half, n - 1 - j), 0, -1):
            value -= a[j, k] * b[j + k]
        b[j] = value
    for j in range(inside - 1, -1, -1):
        at = j * width
        far = flat[at + 9] * b[j + 9] + flat[at + 10] * b[j + 10] + _dot4(flat, at + 5, b, j + 5)
        b[j] = (b[j] / flat[at] - far) - _dot4(flat, at + 1, b, j + 1)


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
