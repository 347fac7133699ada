"""Factorise and solve again and again where the matrix is no band: shells, networks, contact.

The pattern is analysed once, and again only when contact brings entries that it does not have yet. Friction and drag make the
matrix unsymmetric; it is then factorised as a whole, which takes twice as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.factorise import FactorisationError, Factoriser, make_factoriser

__all__ = ["SparseSolver"]


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
        self._own: Factoriser | None = None
        self._contact: Factoriser | None = None
        self._general: tuple[Factoriser, Ints, Ints] | None = None

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
        for factors in (self._contact, self._general[0] if self._general else None):
            if factors is not None:
                factors.close()
        self._contact, self._general = None, None

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
        data = values[: len(self.keys)]
        try:
            if extra is not None:
                data, skew = self._split(data, extra)
                if np.abs(skew).max(initial=0.0) > 1e-14 * np.abs(data).max():
                    x = self._solve_general(data, skew, rhs)
                    return (x if np.isfinite(x @ x) else None), 0
            factors = self._symmetric(wide=len(data) > len(self.keys))
            factors.factorise(data)
        except FactorisationError:
            return None, 0
        x = factors.solve(rhs)
        return (x if np.isfinite(x @ x) else None), max(factors.negative_pivots, 0)

    def _symmetric(self, *, wide: bool) -> Factoriser:
        if wide:
            self._contact = self._contact or self._make(self.wide)
            return self._contact
        self._own = self._own or self._make(self.keys)
        return self._own

    def _solve_general(self, whole: Floats, skew: Floats, rhs: Floats) -> Floats:
        """Solve with the symmetric part plus skew above, minus skew below the diagonal."""
        if self._general is None:
            n = self.size
            i, j = np.divmod(self.wide, n)
            below = j * n + i
            keys = np.union1d(self.wide, below)
            self.analyses += 1
            factors = make_factoriser(
                np.searchsorted(keys, np.arange(n + 1) * n), keys % n, single=False, symmetric=False
            )
            self._general = factors, np.searchsorted(keys, self.wide), np.searchsorted(keys, below)
        factors, upper, lower = self._general
        data = np.empty(2 * len(self.wide) - self.size)
        data[upper] = whole + skew
        data[lower] = whole - skew
        factors.factorise(data)
        return factors.solve(rhs)
