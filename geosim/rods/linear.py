"""Linear systems of the rod stepper: a band for rods, a sparse factorisation for networks and contact.

The pattern is found once from the stencils and the free unknowns. A stencil keeps `slots`, the positions of
its packed lower triangle in one flat array of values; entries of fixed unknowns go to a last unused position. So
assembly does not know which matrix it fills, and a fixed unknown costs nothing in the factorisation.

Unknowns are numbered along the rod [x0, theta0, x1, theta1, ...], which gives a half-bandwidth of 10
(section III of [Choi2024] lists them in this order); networks are numbered by reverse Cuthill-McKee and use the
band too while it is narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from geosim.kernels import kernel

__all__ = ["WIDEST_BAND", "Pattern", "make_pattern"]

WIDEST_BAND = 60  # beyond this half-bandwidth the sparse factorisation is faster


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
def fill_slots(unknown, dofs, columns, half, lower):
    """Fill slots (S, k(k+1)/2) for a band with rows of half + 1 values; fixed unknowns go to the last position."""
    trash = columns * (half + 1)
    for s in range(dofs.shape[0]):
        p = 0
        for a in range(dofs.shape[1]):
            for b in range(a + 1):
                i, j = unknown[dofs[s, a]], unknown[dofs[s, b]]
                if i < 0 or j < 0:
                    lower[s, p] = trash
                else:
                    lower[s, p] = min(i, j) * (half + 1) + abs(i - j)
                p += 1


@dataclass(frozen=True)
class Pattern:
    """Where the entries of the system matrix live.

    Parameters
    ----------
    order
        Free degrees of freedom in the order of the solver, shape (n,).
    unknown
        Number of each degree of freedom in that order, -1 if it is fixed, shape (dofs,).
    half
        Half-bandwidth; 0 if the matrix is sparse.
    indptr, indices
        Lower triangle by columns (sparse only).
    """

    order: np.ndarray
    unknown: np.ndarray
    half: int
    indptr: np.ndarray | None = None
    indices: np.ndarray | None = None
    keys: np.ndarray | None = field(default=None, repr=False)
    diagonal: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    @property
    def banded(self) -> bool:
        """Whether the matrix is stored as a band."""
        return self.keys is None

    @property
    def size(self) -> int:
        """Length of the flat values, with the unused last position."""
        n = len(self.order)
        return n * (self.half + 1) + 1 if self.keys is None else len(self.keys) + 1

    def slots(self, dofs: np.ndarray) -> np.ndarray:
        """Positions of the packed lower triangles of stencils with the given degrees of freedom (S, k)."""
        count = dofs.shape[1] * (dofs.shape[1] + 1) // 2
        lower = np.empty((len(dofs), count), dtype=np.int64)
        if self.keys is None:
            fill_slots(self.unknown, dofs, len(self.order), self.half, lower)
            return lower
        rows, columns = np.tril_indices(dofs.shape[1])
        i, j = self.unknown[dofs[:, rows]], self.unknown[dofs[:, columns]]
        key = np.minimum(i, j) * len(self.order) + np.maximum(i, j)
        found = np.searchsorted(self.keys, key)
        found[(i < 0) | (j < 0)] = len(self.keys)
        return found

    def solve(self, values: np.ndarray, rhs: np.ndarray, extra: Any = None) -> tuple[np.ndarray | None, int]:
        """Solve K x = rhs in the order of the solver; return (x, negative pivots).

        `extra` is an unsymmetric part to add (sparse, full unknowns numbering); the number of negative pivots is then
        not known and 0 is returned. x is None if the matrix is singular.
        """
        if extra is not None:
            return self._solve_general(values, rhs, extra)
        if self.keys is None:
            band = values[:-1].reshape(len(self.order), self.half + 1)
            # Cholesky is twice as fast; L D L^T without pivoting also tells how many pivots are negative
            _, x, info = lapack.dpbsv(band.T, rhs, lower=1)
            if info == 0:
                return x, 0
            band = band.copy()
            negative = factor_band(band, self.half)
            if negative < 0:
                return None, 0
            x = rhs.copy()
            solve_band(band, self.half, x)
            return (x, negative) if np.isfinite(x @ x) else (None, 0)
        matrix = self.matrix(values)
        try:
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                           options={"SymmetricMode": True})
        except RuntimeError:
            return None, 0
        x = factors.solve(rhs)
        pivots = factors.U.diagonal()
        symmetric = np.array_equal(factors.perm_r, factors.perm_c)
        return (x, int((pivots < 0).sum()) if symmetric else 0) if np.isfinite(x @ x) else (None, 0)

    def matrix(self, values: np.ndarray) -> csc_matrix:
        """Return the full symmetric matrix in CSC form."""
        n = len(self.order)
        if self.keys is None:
            band = values[:-1].reshape(n, self.half + 1)
            j, k = np.nonzero(band)
            rows, data = j + k, band[j, k]
        else:
            j, rows = np.divmod(self.keys, n)
            data = values[:-1]
        off = rows != j
        return csc_matrix((np.concatenate([data, data[off]]),
                           (np.concatenate([rows, j[off]]), np.concatenate([j, rows[off]]))), shape=(n, n))

    def _solve_general(self, values: np.ndarray, rhs: np.ndarray, extra: Any) -> tuple[np.ndarray | None, int]:
        """Solve with an unsymmetric part: LAPACK's band if it stays inside the band, else SuperLU."""
        n, half = len(self.order), self.half
        if self.keys is None and (len(extra.row) == 0 or np.abs(extra.row - extra.col).max() <= half):
            lower = values[:-1].reshape(n, half + 1)
            ab = np.zeros((3 * half + 1, n), order="F")
            for k in range(half + 1):
                ab[2 * half + k, : n - k] = lower[: n - k, k]
                if k:
                    ab[2 * half - k, k:] = lower[: n - k, k]
            np.add.at(ab, (2 * half + extra.row - extra.col, extra.col), extra.data)
            _, _, x, info = lapack.dgbsv(half, half, ab, rhs, overwrite_ab=True)
            return (x, 0) if info == 0 and np.isfinite(x @ x) else (None, 0)
        try:
            x = splu(csc_matrix(self.matrix(values) + extra.tocsc()), permc_spec="MMD_AT_PLUS_A").solve(rhs)
        except RuntimeError:
            return None, 0
        return (x, 0) if np.isfinite(x @ x) else (None, 0)


def make_pattern(dof_count: int, stencils: list[np.ndarray], free: np.ndarray,
                 order: np.ndarray | None = None) -> Pattern:
    """Find the numbering and the pattern of the matrix.

    Parameters
    ----------
    dof_count
        Number of degrees of freedom.
    stencils
        Degrees of freedom of the stencils of each kind, arrays (S, k).
    free
        Free degrees of freedom, bool (dof_count,).
    order
        Numbering to use, e.g. along a rod; None finds one.
    """
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for dofs in stencils:
        k = dofs.shape[1]
        a, b = np.tril_indices(k)
        pairs.append(np.stack([dofs[:, a].ravel(), dofs[:, b].ravel()], axis=1))
    pair = np.concatenate(pairs)
    pair = pair[free[pair].all(axis=1)]
    if order is None:
        graph = csr_matrix((np.ones(len(pair), dtype=np.int8), (pair[:, 0], pair[:, 1])),
                           shape=(dof_count, dof_count))
        order = np.asarray(reverse_cuthill_mckee(graph + graph.T, symmetric_mode=True))
    order = np.ascontiguousarray(order[free[order]], dtype=np.int64)
    unknown = np.full(dof_count, -1, dtype=np.int64)
    unknown[order] = np.arange(len(order))
    i, j = unknown[pair[:, 0]], unknown[pair[:, 1]]
    half = int(np.abs(i - j).max()) if len(pair) else 0
    own = np.arange(len(order))
    if half <= WIDEST_BAND:
        return Pattern(order, unknown, half, diagonal=own * (half + 1))
    n = len(order)
    keys = np.unique(np.concatenate([np.minimum(i, j) * n + np.maximum(i, j), own * (n + 1)]))
    columns, rows = np.divmod(keys, n)
    indptr = np.searchsorted(columns, np.arange(n + 1))
    return Pattern(order, unknown, 0, indptr, rows, keys, diagonal=np.searchsorted(keys, own * (n + 1)))
