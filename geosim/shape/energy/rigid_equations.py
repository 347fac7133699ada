"""The equations of a Newton step without the nodes of rigid groups (see `rigid`): T^T K T + G, and back.

T has at most three entries a row: a component of a node moves with that of the reference point and with two rotations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, identity, triu

from geosim.arrays import Floats, Ints, frozen
from geosim.kernels import kernel
from geosim.linear.bordered import BorderedSolver
from geosim.linear.patterns import Sparsity, find_sorted
from geosim.shape.energy.rigid import Rigids, RigidState

__all__ = ["ReducedSolver", "Reduction"]


class Reduction:
    """The equations without the nodes of rigid groups: unknowns of other nodes, of free motions, pressures.

    Keeps the reduced patterns of the last two sparsities, since contact changes them.
    """

    def __init__(self, rigids: Rigids, nodes: int, size: int) -> None:
        self.rigids = rigids
        place = np.full(size, -1)
        other = np.ones(size, dtype=bool)
        for ids in rigids.nodes:
            other[(3 * ids[:, None] + np.arange(3)).ravel()] = False
        front = np.flatnonzero(other[: 3 * nodes])
        place[front] = np.arange(len(front))
        self.free = np.full(rigids.held.shape, -1)
        self.free[~rigids.held] = len(front) + np.arange(int((~rigids.held).sum()))
        start = len(front) + int((~rigids.held).sum())
        place[3 * nodes :] = start + np.arange(size - 3 * nodes)
        self.size = start + size - 3 * nodes
        self._full, self.nodes = size, nodes
        self._columns, self._values = np.full((size, 3), -1, dtype=np.int64), np.zeros((size, 3))
        self._columns[:, 0] = place
        self._values[place >= 0, 0] = 1.0
        self._patterns: list[tuple[Sparsity, Sparsity]] = []

    def pattern(self, sparsity: Sparsity) -> Sparsity:
        """Return the reduced pattern of a sparsity."""
        for known, reduced in self._patterns:
            if known is sparsity:
                return reduced
        full = csr_matrix(
            (np.ones(len(sparsity.indices), dtype=np.int32), sparsity.indices, sparsity.indptr),
            shape=(self._full, self._full),
        )
        touch = self._matrix(np.ones_like(self._values))
        product = (touch.T @ full @ touch).astype(bool)
        graph = triu(product + product.T + identity(self.size, dtype=bool, format="csr"), format="csr")
        graph.sort_indices()
        reduced = Sparsity(frozen(graph.indptr.astype(np.int32)), frozen(graph.indices.astype(np.int32)))
        self._patterns = [*self._patterns[-1:], (sparsity, reduced)]
        return reduced

    def _matrix(self, values: Floats) -> csr_matrix:
        columns = self._fixed_columns()
        rows, at = np.nonzero(columns >= 0)
        return csr_matrix((values[rows, at], (rows, columns[rows, at])), shape=(self._full, self.size))

    def _fixed_columns(self) -> Ints:
        columns = self._columns.copy()
        for g, ids in enumerate(self.rigids.nodes):
            for i in range(3):
                columns[3 * ids + i] = self.free[g][[i, 3 + (i + 1) % 3, 3 + (i + 2) % 3]]
        return columns

    def placed(self, state: RigidState) -> tuple[Ints, Floats]:
        """Columns and values of T at a state, (size, 3) each; column -1 where nothing is."""
        values = self._values.copy()
        for ids, maps in zip(self.rigids.nodes, state.maps):
            for i in range(3):
                values[3 * ids + i] = maps[:, i][:, [i, 3 + (i + 1) % 3, 3 + (i + 2) % 3]]
        return self._fixed_columns(), values

    def matrix(self, sparsity: Sparsity, data: Floats, state: RigidState, columns: Ints, values: Floats) -> Floats:
        """Values of T^T K T + G in the reduced pattern."""
        reduced = self.pattern(sparsity)
        out = np.zeros(len(reduced.indices))
        _reduce(sparsity.indptr, sparsity.indices, data, columns, values, reduced.indptr, reduced.indices, out)
        for g, place in enumerate(self.free):
            for a in np.flatnonzero(place >= 0):
                for b in np.flatnonzero(place >= place[a]):
                    row = slice(reduced.indptr[place[a]], reduced.indptr[place[a] + 1])
                    out[row.start + int(np.searchsorted(reduced.indices[row], place[b]))] += state.curvature[g, a, b]
        return out

    def restrict(self, vectors: Floats, columns: Ints, values: Floats) -> Floats:
        """T^T v for rows v, (k, size)."""
        rows, at = np.nonzero(columns >= 0)
        T = csr_matrix((values[rows, at], (rows, columns[rows, at])), shape=(self._full, self.size))
        return np.ascontiguousarray(vectors @ T)

    def extend(self, vector: Floats, columns: Ints, values: Floats) -> Floats:
        """T q, (size,)."""
        return np.where(columns >= 0, values * vector[np.maximum(columns, 0)], 0.0).sum(axis=1)


@dataclass(frozen=True)
class ReducedSolver:
    """The bordered system of a Newton step (see `linear`) at one state of the groups, in the unknowns of all nodes.

    Parameters
    ----------
    reduction, inner
        Which unknowns remain, and what solves for them.
    sparsity, state
        Of the matrix.
    motion
        What the groups move in any case, (g, 6): 0 where they are free.
    """

    reduction: Reduction
    inner: BorderedSolver
    sparsity: Sparsity
    state: RigidState
    motion: Floats

    def solve(
        self,
        data: Floats,
        borders: Floats,
        right: Floats,
        gap: Floats,
        tolerance: float,
        *,
        reuse: bool,
        corner: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Return (dx, dP) as `BorderedSolver.solve` does."""
        columns, values = self.reduction.placed(self.state)
        self.inner.use(self.reduction.pattern(self.sparsity))
        goal = self.reduction.restrict(right[None], columns, values)[0]
        free = self.reduction.free
        goal[free[free >= 0]] -= np.einsum("gab,gb->ga", self.state.curvature, self.motion)[free >= 0]
        step, change = self.inner.solve(
            self.reduction.matrix(self.sparsity, data, self.state, columns, values),
            self.reduction.restrict(borders, columns, values),
            goal,
            gap,
            tolerance,
            reuse=reuse,
            corner=corner,
        )
        out = self.reduction.extend(step, columns, values)
        nodes = out[: 3 * self.reduction.nodes].reshape(-1, 3)
        for ids, maps, motion in zip(self.reduction.rigids.nodes, self.state.maps, self.motion):
            nodes[ids] += maps @ motion
        return out, change

    def negative_eigenvalues(self, data: Floats, borders: Floats) -> int:
        """Return the number of negative eigenvalues as `BorderedSolver.negative_eigenvalues` does."""
        columns, values = self.reduction.placed(self.state)
        self.inner.use(self.reduction.pattern(self.sparsity))
        return self.inner.negative_eigenvalues(
            self.reduction.matrix(self.sparsity, data, self.state, columns, values),
            self.reduction.restrict(borders, columns, values),
        )


@kernel
def _reduce(indptr, indices, data, columns, values, rptr, rind, out):
    """Add T^T K T to the values of the reduced pattern; of both matrices the upper triangle is stored."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            v = data[k]
            if v == 0.0:
                continue
            for s in range(3):
                a = columns[i, s]
                if a < 0:
                    continue
                for t in range(3):
                    b = columns[j, t]
                    if b < 0 or (i == j and b < a):
                        continue
                    value = v * values[i, s] * values[j, t]
                    if i != j and a == b:
                        value *= 2.0
                    row, col = min(a, b), max(a, b)
                    out[find_sorted(rind, rptr[row], rptr[row + 1], col)] += value
