"""Matrices that are assembled from stencils: a band where the numbering makes one, else a sparse factorisation.

The pattern is found once from the stencils and the free unknowns. A stencil keeps `slots`, the positions of
its packed lower triangle in one flat array of values; entries of fixed unknowns go to unused positions at its end. So
assembly does not know which matrix it fills, and a fixed unknown costs nothing in the factorisation.

The numbering is that of reverse Cuthill-McKee. While it makes a narrow band the values are that band: along a rod it has a
half-bandwidth of 10, section III of [Choi2024].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csc_matrix, csr_matrix, tril
from scipy.sparse.csgraph import reverse_cuthill_mckee

from geosim.arrays import Bools, Floats, Ints
from geosim.linear.band import factor_band, solve_band, spread_band
from geosim.linear.sparse import KEPT_RESIDUAL_REL, Blocks, SparseSolver, finite

SPARE_VALUES = 64  # unused positions at the end of the values: as many as additions that would wait for each other


@dataclass(frozen=True)
class StencilPattern:
    """Where the entries of the system matrix live.

    Parameters
    ----------
    order
        Free degrees of freedom in the order of the solver, shape (n,).
    unknown
        Number of each degree of freedom in that order, -1 if it is fixed, shape (dofs,).
    half
        Half-bandwidth.
    banded
        Whether the values are a band (n, half + 1); else they follow `keys`.
    keys
        Sorted column * n + row of every entry of the lower triangle.
    """

    order: Ints
    unknown: Ints
    half: int
    banded: bool
    keys: Ints = field(repr=False)

    @property
    def size(self) -> int:
        """Length of the flat values, with the unused positions at the end."""
        return (len(self.order) * (self.half + 1) if self.banded else len(self.keys)) + SPARE_VALUES

    @cached_property
    def diagonal(self) -> Ints:
        """Positions of the diagonal in the flat values, shape (n,)."""
        own = np.arange(len(self.order))
        return own * (self.half + 1) if self.banded else np.searchsorted(self.keys, own * (len(own) + 1))

    @cached_property
    def sparse(self) -> SparseSolver:
        """The sparse solver."""
        return SparseSolver(len(self.order), self.keys)

    @cached_property
    def places(self) -> Ints:
        """Positions of the entries of `keys` in the flat values."""
        column, row = np.divmod(self.keys, len(self.order))
        return column * (self.half + 1) + row - column if self.banded else np.arange(len(self.keys))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "sparse"}  # factors are of this process

    @cached_property
    def full(self) -> tuple[Ints, Ints, Ints]:
        """CSC structure of the whole matrix: indptr, indices, and the position of each entry in the flat values."""
        columns, rows = np.divmod(self.keys, len(self.order))
        lower = csc_matrix((self.places + 1, (rows, columns)), shape=(len(self.order),) * 2)  # from 1: no entry is zero
        whole = (lower + tril(lower, -1).T).tocsc()
        whole.sort_indices()
        return whole.indptr, whole.indices, whole.data - 1

    def slots(self, dofs: Ints) -> Ints:
        """Positions of the packed lower triangles of stencils with the given degrees of freedom (S, k)."""
        rows, columns = np.tril_indices(dofs.shape[1])
        i, j = self.unknown[dofs[:, rows]], self.unknown[dofs[:, columns]]
        column, row = np.minimum(i, j), np.maximum(i, j)
        if self.banded:
            found = column * self.half + row
        else:
            found = np.searchsorted(self.keys, column * len(self.order) + row)
        # entries of fixed unknowns are spread, or every addition would wait for the one before
        found = np.where(column < 0, self.size - SPARE_VALUES + np.arange(len(rows)) % SPARE_VALUES, found)
        return np.ascontiguousarray(found)

    def matrix(self, values: Floats) -> csc_matrix:
        """Return the full symmetric matrix in CSC form."""
        indptr, indices, place = self.full
        n = len(self.order)
        return csc_matrix((values[place], indices, indptr), shape=(n, n))

    def solve(
        self,
        values: Floats,
        rhs: Floats,
        extra: Blocks | None = None,
        *,
        signs: bool = True,
        accuracy: float = KEPT_RESIDUAL_REL,
        again: bool = False,
    ) -> tuple[Floats | None, int]:
        """Solve K x = rhs in the order of the solver; return (x, negative pivots).

        `extra` holds blocks outside the symmetric pattern: contact, friction, drag. The number of
        negative pivots is then that of the symmetric part, or with SuperLU 0 where it left the symmetric order; without `signs`
        it may be 0, and x is of some `accuracy`; `again` says that K is that of the call before (see `SparseSolver.solve`). x is
        None if the matrix is singular.
        """
        if self.banded and extra is None:
            band, negative = self.factored_band(values)
            x = None if band is None else self.solved_band(band, rhs)
            return x, 0 if x is None else negative
        if extra is not None and self.banded and extra.width <= self.half:
            return self._solve_general_band(values, rhs, extra), 0
        own = values[self.places] if self.banded else values
        return self.sparse.solve(own, rhs, extra, signs=signs, accuracy=accuracy, again=again)

    def _solve_general_band(self, values: Floats, rhs: Floats, extra: Blocks) -> Floats | None:
        half = self.half
        ab = spread_band(values, len(self.order), half, *extra.entries)
        _, _, x, info = lapack.dgbsv(half, half, ab.T, rhs, overwrite_ab=True)
        return finite(x) if info == 0 else None

    def factored_band(self, values: Floats) -> tuple[Floats | None, int]:
        """Return the factors of a band, and how many pivots are negative; None where it is singular."""
        # faster than LAPACK's Cholesky for these narrow bands, and the pivots tell a stable equilibrium
        band = values[:-SPARE_VALUES].reshape(len(self.order), self.half + 1).copy()
        negative = factor_band(band, self.half)
        return (None, 0) if negative < 0 else (band, negative)

    def solved_band(self, band: Floats, rhs: Floats) -> Floats | None:
        """Return the solution by factors of `factored_band`; None where it is not finite."""
        x = rhs.copy()
        solve_band(band, self.half, x)
        return finite(x)


def make_pattern(dof_count: int, stencils: list[Ints], free: Bools) -> StencilPattern:
    """Find the numbering and the pattern of the matrix.

    Parameters
    ----------
    dof_count
        Number of degrees of freedom.
    stencils
        Degrees of freedom of the stencils of each kind, arrays (S, k).
    free
        Free degrees of freedom, bool (dof_count,).
    """
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for dofs in stencils:
        a, b = np.tril_indices(dofs.shape[1])
        pairs.append(np.stack([dofs[:, a].ravel(), dofs[:, b].ravel()], axis=1))
    pair = np.concatenate(pairs)
    pair = pair[free[pair].all(axis=1)]
    graph = csr_matrix((np.ones(len(pair), dtype=np.int8), (pair[:, 0], pair[:, 1])), shape=(dof_count, dof_count))
    order = np.asarray(reverse_cuthill_mckee(graph + graph.T, symmetric_mode=True))
    order = np.ascontiguousarray(order[free[order]], dtype=np.int64)
    n = len(order)
    unknown = np.full(dof_count, -1, dtype=np.int64)
    unknown[order] = np.arange(n)
    i, j = unknown[pair[:, 0]], unknown[pair[:, 1]]
    half = int(np.abs(i - j).max()) if len(pair) else 0
    keys = np.unique(np.concatenate([np.minimum(i, j) * n + np.maximum(i, j), np.arange(n) * (n + 1)]))
    # half-bandwidth beyond which the sparse factorisation is faster (measured on sheets of 2000 triangles)
    max_half_bandwidth = 128
    return StencilPattern(order, unknown, half, half <= max_half_bandwidth, keys)
