"""Reduction of a Newton step to the unknowns without nodes of rigid groups (see `rigid_groups`): T^T K T + G, and back.

T has at most six entries a row: a component of a node moves with the free degrees of freedom of its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix, identity, triu

from geosim.arrays import Floats, frozen
from geosim.kernels import kernel
from geosim.linear.bordered import BorderedMatrix, BorderedSolver, Extra
from geosim.linear.patterns import Sparsity, find_sorted
from geosim.shape.energy.constraints.rigid_groups import RigidGroups, RigidState


class Reduction:
    """The equations without the nodes of rigid groups: unknowns of other nodes, of free motions, pressures.

    Keeps the reduced patterns of the last two sparsities, since contact changes them.
    """

    def __init__(self, rigids: RigidGroups, nodes: int, size: int) -> None:
        self.rigids, self.nodes = rigids, nodes
        other = np.ones(size, dtype=bool)
        for ids in rigids.nodes:
            other[3 * ids[:, None] + np.arange(3)] = False
        kept, count = np.flatnonzero(other), int((~rigids.held).sum())
        self.size = len(kept) + count
        self.free = np.full(rigids.held.shape, -1)
        self.free[~rigids.held] = int(other[: 3 * nodes].sum()) + np.arange(count)
        rows, columns = [kept], [np.arange(len(kept)) + count * (kept >= 3 * nodes)]
        for ids, place in zip(rigids.nodes, self.free):
            both = np.broadcast_arrays(3 * ids[:, None, None] + np.arange(3)[:, None], place[place >= 0])
            rows.append(both[0].ravel())
            columns.append(both[1].ravel())
        self._others, self._shape = np.ones(len(kept)), (size, self.size)
        self._entries = np.concatenate(rows), np.concatenate(columns)
        self._patterns: list[tuple[Sparsity, Sparsity]] = []

    def pattern(self, sparsity: Sparsity) -> Sparsity:
        """Return the reduced pattern of a sparsity."""
        for known, reduced in self._patterns:
            if known is sparsity:
                return reduced
        ones = np.ones(len(sparsity.indices), dtype=np.int32)
        full = csr_matrix((ones, sparsity.indices, sparsity.indptr), shape=(sparsity.size, sparsity.size))
        touch = csr_matrix((np.ones(len(self._entries[0])), self._entries), shape=self._shape)
        product = (touch.T @ full @ touch).astype(bool)
        graph = triu(product + product.T + identity(self.size, dtype=bool, format="csr"), format="csr")
        graph.sort_indices()
        reduced = Sparsity(frozen(graph.indptr.astype(np.int32)), frozen(graph.indices.astype(np.int32)))
        self._patterns = [*self._patterns[-1:], (sparsity, reduced)]
        return reduced

    def map(self, state: RigidState) -> csr_matrix:
        """Return T at a state, (unknowns, reduced unknowns)."""
        parts = (maps[:, :, place >= 0].ravel() for maps, place in zip(state.maps, self.free))
        return csr_matrix((np.concatenate([self._others, *parts]), self._entries), shape=self._shape)

    def matrix(self, sparsity: Sparsity, data: Floats, state: RigidState, T: csr_matrix) -> Floats:
        """Values of T^T K T + G in the reduced pattern."""
        reduced = self.pattern(sparsity)
        out = np.zeros(len(reduced.indices))
        _reduce(
            sparsity.indptr, sparsity.indices, data, T.indptr, T.indices, T.data, reduced.indptr, reduced.indices, out
        )
        for place, curvature in zip(self.free, state.curvature):
            a, b = np.nonzero((place[:, None] >= 0) & (place[None] >= place[:, None]))
            out[reduced.indptr[place[a]] + reduced.ranks(place[a], place[b])] += curvature[a, b]
        return out


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
        matrix: BorderedMatrix,
        right: Floats,
        gap: Floats,
        tolerance: float,
        *,
        reuse: bool,
        patience: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Return (dx, dP) as `BorderedSolver.solve` does."""
        reduction, T = self.reduction, self.reduction.map(self.state)
        self.inner.use(reduction.pattern(self.sparsity))
        goal, free = T.T @ right, reduction.free
        goal[free[free >= 0]] -= np.einsum("gab,gb->ga", self.state.curvature, self.motion)[free >= 0]
        columns, extra = matrix.columns, matrix.extra
        reduced = BorderedMatrix(
            reduction.matrix(self.sparsity, matrix.data, self.state, T),
            np.ascontiguousarray((T.T @ matrix.borders.T).T),
            matrix.corner,
            None if columns is None else np.ascontiguousarray((T.T @ columns.T).T),
            None if extra is None else partial(_reduced, extra, T),
        )
        step, change = self.inner.solve(reduced, goal, gap, tolerance, reuse=reuse, patience=patience)
        out = T @ step
        nodes = out[: 3 * self.reduction.nodes].reshape(-1, 3)
        for ids, maps, motion in zip(self.reduction.rigids.nodes, self.state.maps, self.motion):
            nodes[ids] += maps @ motion
        return out, change

    def negative_eigenvalues(self, data: Floats, borders: Floats, corner: Floats) -> int:
        """Return the number of negative eigenvalues as `BorderedSolver.negative_eigenvalues` does."""
        T = self.reduction.map(self.state)
        self.inner.use(self.reduction.pattern(self.sparsity))
        matrix = self.reduction.matrix(self.sparsity, data, self.state, T)
        return self.inner.negative_eigenvalues(matrix, np.ascontiguousarray((T.T @ borders.T).T), corner)


def _reduced(extra: Extra, T: csr_matrix, vector: Floats, out: Floats) -> None:
    """Add T^T A T v for the matrix A whose product `extra` adds."""
    product = np.zeros(T.shape[0])
    extra(T @ vector[: T.shape[1]], product)
    out[: T.shape[1]] += T.T @ product


@kernel
def _reduce(indptr, indices, data, tptr, tind, tval, rptr, rind, out):
    """Add T^T K T to the values of the reduced pattern; of both matrices the upper triangle is stored."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            for s in range(tptr[i], tptr[i + 1] if data[k] != 0.0 else tptr[i]):
                a = tind[s]
                for t in range(tptr[j], tptr[j + 1]):
                    b, value = tind[t], data[k] * tval[s] * tval[t]
                    if value == 0.0 or (i == j and b < a):
                        continue
                    row, col = min(a, b), max(a, b)
                    at = find_sorted(rind, rptr[row], rptr[row + 1], col)
                    out[at] += 2.0 * value if i != j and a == b else value
