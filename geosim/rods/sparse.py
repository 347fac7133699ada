"""Factorise and solve again and again where the matrix is no band: shells, networks, contact.

The symmetric part is factorised by `geosim.factorise`; its pattern is analysed once, and again only when contact brings entries
that it does not have yet. What friction and drag add beside symmetry is solved for by GMRES with those factors::

    (S + K) x = b,   S = S^T,   K = -K^T      ->      (I + S^-1 K) x = S^-1 b
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, gmres

from geosim.arrays import Floats, Ints
from geosim.factorise import FactorisationError, Factoriser, make_factoriser
from geosim.kernels import kernel

__all__ = ["SparseSolver"]

GMRES_STEPS = 60


@kernel
def add_entries(row, col, value, size, indptr, keys, whole, skew, missing):
    """Add entries to the symmetric part and to the upper half of the skew part; return how many keys are `missing`."""
    count = 0
    for e in range(len(row)):
        i, j = min(row[e], col[e]), max(row[e], col[e])
        key = i * size + j
        low, high = indptr[i], indptr[i + 1]
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low == indptr[i + 1] or keys[low] != key:
            missing[count] = key
            count += 1
        elif i == j:
            whole[low] += value[e]
        else:
            whole[low] += 0.5 * value[e]
            skew[low] += 0.5 * value[e] if row[e] < col[e] else -0.5 * value[e]
    return count


class SparseSolver:
    """Solves with the matrices of one numbering.

    Parameters
    ----------
    size
        Number of unknowns.
    keys
        Sorted row * size + column of the entries of the upper triangle, diagonal included.
    """

    def __init__(self, size: int, keys: Ints) -> None:
        self.size, self.keys = size, keys
        self.wide, self.own = keys, np.arange(len(keys))
        self.analyses = 0
        self._factoriser: Factoriser | None = None
        self._contact: Factoriser | None = None

    def _make(self, keys: Ints) -> Factoriser:
        self.analyses += 1
        indptr = np.searchsorted(keys, np.arange(self.size + 1) * self.size)
        return make_factoriser(indptr, keys % self.size, single=False)

    def _widen(self, keys: Ints, needed: int) -> None:
        """Take entries into the pattern; what has come before is kept as long as it is not too much, so that it settles."""
        if len(self.wide) > 1.3 * (len(self.keys) + needed):
            self.wide = self.keys
        keys = np.sort(keys)
        keys = keys[np.concatenate([[True], keys[1:] > keys[:-1]])]
        place = np.searchsorted(self.wide, keys)
        new = (place == len(self.wide)) | (self.wide[np.minimum(place, len(self.wide) - 1)] != keys)
        self.wide = np.insert(self.wide, place[new], keys[new])
        self.own = np.searchsorted(self.wide, self.keys)
        if self._contact is not None:
            self._contact.close()
            self._contact = None

    def _split(self, data: Floats, extra: Any) -> tuple[Floats, Floats]:
        """Return symmetric part and upper half of the skew part of all entries, in the places of the widened pattern."""
        row, col, value = (np.ascontiguousarray(part) for part in (extra.row, extra.col, extra.data))
        for _ in range(2):
            indptr = np.searchsorted(self.wide, np.arange(self.size + 1) * self.size)
            whole, skew = np.zeros(len(self.wide)), np.zeros(len(self.wide))
            whole[self.own] = data
            missing = np.empty(len(row), dtype=np.int64)
            count = add_entries(row, col, value, self.size, indptr, self.wide, whole, skew, missing)
            if count == 0:
                return whole, skew
            # were the pattern begun anew, all entries would have to come again
            again = len(self.wide) > 1.3 * (len(self.keys) + len(row) // 3)
            keys = np.minimum(row, col) * self.size + np.maximum(row, col) if again else missing[:count]
            self._widen(keys, len(row) // 3)
        raise FactorisationError("contact entries outside the pattern")

    def solve(self, values: Floats, rhs: Floats, extra: Any = None) -> tuple[Floats | None, int]:
        """Return the solution, None if there is none, and the number of negative pivots of the symmetric part.

        `values` are those of `keys`; `extra` (row, col, data) are entries of the whole matrix.
        """
        skew, data = None, values[: len(self.keys)]
        try:
            if extra is not None:
                data, rest = self._split(data, extra)
                at = np.flatnonzero(np.abs(rest) > 1e-14 * np.abs(data).max())
                if len(at):
                    i, j = np.divmod(self.wide[at], self.size)
                    skew = csr_matrix((np.concatenate([rest[at], -rest[at]]),
                                       (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(self.size, self.size))
            factors = self._factors(data, len(data) > len(self.keys))
        except FactorisationError:
            return None, 0
        x: Floats | None = factors.solve(rhs)
        if skew is not None and x is not None:
            x = self._skewed(factors, skew, x)
        return (x if x is not None and np.isfinite(x @ x) else None), max(factors.negative_pivots, 0)

    def _factors(self, data: Floats, contact: bool) -> Factoriser:
        if contact:
            if self._contact is None:
                self._contact = self._make(self.wide)
            factors = self._contact
        else:
            if self._factoriser is None:
                self._factoriser = self._make(self.keys)
            factors = self._factoriser
        factors.factorise(data)
        return factors

    def _skewed(self, factors: Factoriser, skew: csr_matrix, first: Floats) -> Floats | None:
        """Solve (I + S^-1 K) x = first."""
        operator = LinearOperator(skew.shape, matvec=lambda x: x + factors.solve(skew @ x), dtype=float)
        x, left = gmres(operator, first, rtol=1e-5, atol=0.0, restart=GMRES_STEPS, maxiter=1)
        if left and np.linalg.norm(operator @ x - first) > 1e-2 * np.linalg.norm(first):
            return None
        return x
