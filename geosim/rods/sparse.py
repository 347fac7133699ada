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

__all__ = ["SparseSolver"]

GMRES_STEPS = 60


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

    def _widened(self, keys: Ints) -> Ints:
        """Return the places of entries in the pattern, which is widened by those that are new."""
        place = np.minimum(np.searchsorted(self.wide, keys), len(self.wide) - 1)
        missing = self.wide[place] != keys
        if not missing.any():
            return place
        self.wide = np.union1d(self.wide, keys[missing])
        self.own = np.searchsorted(self.wide, self.keys)
        if self._contact is not None:
            self._contact.close()
            self._contact = None
        return np.searchsorted(self.wide, keys)

    def narrow(self) -> None:
        """Forget the entries that contact has brought."""
        if self._contact is not None:
            self._contact.close()
        self.wide, self.own, self._contact = self.keys, np.arange(len(self.keys)), None

    def solve(self, values: Floats, rhs: Floats, extra: Any = None) -> tuple[Floats | None, int]:
        """Return the solution, None if there is none, and the number of negative pivots of the symmetric part.

        `values` are those of `keys`; `extra` (row, col, data) are entries of the whole matrix.
        """
        skew, data = None, values[: len(self.keys)]
        if extra is not None:
            n = self.size
            place = self._widened(np.minimum(extra.row, extra.col) * n + np.maximum(extra.row, extra.col))
            half = np.where(extra.row == extra.col, extra.data, 0.5 * extra.data)
            wide: Floats = np.bincount(place, half, minlength=len(self.wide)).astype(float)
            wide[self.own] += data
            data = wide
            lower = np.bincount(place, np.where(extra.row > extra.col, half, 0.0), minlength=len(self.wide))
            rest = np.bincount(place, np.where(extra.row < extra.col, half, 0.0), minlength=len(self.wide)) - lower
            at = np.flatnonzero(np.abs(rest) > 1e-14 * np.abs(data).max())
            if len(at):
                i, j = np.divmod(self.wide[at], n)
                skew = csr_matrix((np.concatenate([rest[at], -rest[at]]), (np.concatenate([i, j]), np.concatenate([j, i]))),
                                  shape=(n, n))
        try:
            factors = self._factors(data, extra is not None)
        except FactorisationError:
            return None, 0
        x: Floats | None = factors.solve(rhs)
        if skew is not None and x is not None:
            x = self._skewed(factors, skew, x)
        return (x if x is not None and np.isfinite(x @ x) else None), max(factors.negative_pivots, 0)

    def _factors(self, data: Floats, contact: bool) -> Factoriser:
        if contact and len(self.wide) > len(self.keys):
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
        x, left = gmres(operator, first, rtol=1e-9, atol=0.0, restart=GMRES_STEPS, maxiter=1)
        if left and np.linalg.norm(operator @ x - first) > 1e-2 * np.linalg.norm(first):
            return None
        return x
