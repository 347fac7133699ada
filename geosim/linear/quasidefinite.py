"""A saddle-point matrix made quasi-definite and scaled, so that single-precision factors without large pivots serve it.

    [ K   B ]      ->   D [ K    B   ] D,        S = diag(B^T diag(K)^-1 B)
    [ B^T 0 ]             [ B^T -d S ]

A multiplier that is eliminated before what it constrains meets a pivot of zero. A factoriser replaces it by some tiny number,
refines every solution because of that, and is off by more than the matrix in soft modes. With -d S, a compressibility of
a thousandth, every order of elimination has pivots [Vanderbei 1995], and D gives them one size: what the Krylov method then
has to make up for is d itself, in one iteration.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel

# d: smaller costs digits of single precision (pivots 1 / d apart), larger costs iterations; from 1e-3 to 1e-2 they are the same.
COMPRESSIBILITY = 2e-3


def quasi_definite(indptr: np.ndarray, indices: np.ndarray, data: Floats) -> tuple[Floats, Floats]:
    """Return the values of D (A - d S) D and D for the upper triangle of a symmetric matrix A, diagonal first in every row.

    Rows with a diagonal that is not positive count as those of multipliers; one that is far enough below zero stays.
    """
    scale, out = np.empty(len(indptr) - 1), np.empty(len(data))
    _regularise(indptr, indices, data, COMPRESSIBILITY, scale, out)
    return out, scale


@kernel
def _regularise(indptr, indices, data, share, scale, out):
    """Write the scaled values and the scale (n,)."""
    n = len(scale)
    softness, diagonal = np.zeros(n), np.empty(n)
    for i in range(n):
        diagonal[i] = data[indptr[i]]
    for i in range(n):
        d = diagonal[i]
        for k in range(indptr[i] + 1, indptr[i + 1]):
            j = indices[k]
            e = diagonal[j]
            if d > 0.0 and e <= 0.0:
                softness[j] += data[k] * data[k] / d
            elif d <= 0.0 and e > 0.0:
                softness[i] += data[k] * data[k] / e
    for i in range(n):
        size = max(abs(diagonal[i]), softness[i])
        scale[i] = 1.0 / np.sqrt(size) if size > 0.0 else 1.0
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            out[k] = data[k] * scale[i] * scale[indices[k]]
        first = indptr[i]
        if data[first] <= 0.0:
            out[first] = min(out[first], -share * softness[i] * scale[i] * scale[i])
