"""Sparsity pattern of the body's matrix, and the positions of all element blocks in it.

Rows are ordered [3 a node, 1 a pressure]; the upper triangle is stored (see `geosim.linear.patterns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import csr_matrix

from geosim.arrays import Ints, frozen
from geosim.linear.patterns import Sparsity, in_threes


class Places(NamedTuple):
    """What the kernels know of the pattern.

    Parameters
    ----------
    indptr
        Start of every row (size + 1,).
    order
        The elements by their first node, (m,), which is how they are assembled and how the ranks below are sorted: those that
        follow each other write to the same rows while they are near in memory. Measured: 0.7 and 0.8 of the time.
    node_rank
        Rank of node b among the later neighbours of node a, for pairs with a <= b by number, (m, a, a).
    pressure_rank
        Rank of pressure v among the pressures that couple with node a, (m, a, 4).
    node_degree
        Number of later neighbours of every node, itself included, (n,).
    mass_rank
        Rank of the entry in the pressure row, -1 where the block is not stored, (m, 4, 4).
    """

    indptr: np.ndarray
    order: np.ndarray
    node_rank: np.ndarray
    pressure_rank: np.ndarray
    node_degree: np.ndarray
    mass_rank: np.ndarray


@dataclass(frozen=True)
class BodyPattern(Sparsity):
    """Sparsity of the body's matrix and where the blocks of every element go."""

    places: Places

    def face_ranks(self, faces: Ints) -> np.ndarray:
        """Rank of every pair of nodes of the faces (f, a), as `Places.node_rank` for elements, (f, a, a)."""
        rows, cols = _pairs(faces, faces)
        ranks = self.ranks(3 * np.minimum(rows, cols), 3 * np.maximum(rows, cols)) // 3  # three columns a block
        return frozen(ranks.reshape(*faces.shape, -1))


def _pairs(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Every number in a row of `a` with every one in the same row of `b`, flat."""
    return np.repeat(a, b.shape[1], axis=1).ravel(), np.tile(b, (1, a.shape[1])).ravel()


def graph(rows: Ints, columns: Ints, *, upper: bool = False, more: Sequence[Ints] = ()) -> Sparsity:
    """Which numbers in the rows (m, a) of an array are in the same row of another (m, b), and `more` pairs (p, 2).

    The product of incidences finds every pair once, where a list of all of them would have to be sorted.
    """
    one, other = (
        csr_matrix((np.ones(ids.size, dtype=np.int32), ids.ravel(), ids.shape[1] * np.arange(len(ids) + 1)))
        for ids in (rows, columns)
    )
    found = one.T.tocsr() @ other
    for pairs in more:
        found = found + csr_matrix((np.ones(len(pairs), dtype=np.int32), tuple(pairs.T)), shape=found.shape)
    found.sort_indices()
    starts, indices = found.indptr.astype(np.int64), found.indices.astype(np.int64)
    if upper:
        kept = indices >= np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        starts, indices = np.concatenate([[0], np.cumsum(kept)])[starts], indices[kept]
    return Sparsity(starts, indices)


def build_pattern(
    tets: Ints, pressure_tets: Ints, *, couple_pressures: bool, couplings: Sequence[Ints] = ()
) -> BodyPattern:
    """Return the pattern of a mesh; that of an earlier problem with the same couplings, as long as somebody has it.

    Parameters
    ----------
    tets, pressure_tets
        Displacement nodes (m, a) and pressure unknowns (m, 4) of the elements, every number in use.
    couple_pressures
        Whether the pressure block is a mass matrix (finite bulk modulus, stabilisation) or only its diagonal.
    couplings
        Pairs of nodes (p, 2), the smaller number first, that other things than elements couple.
    """
    digest = blake2b(bytes([couple_pressures]))
    for given in (tets, pressure_tets, *couplings):
        digest.update(repr((given.shape, given.dtype)).encode())
        digest.update(np.ascontiguousarray(given).tobytes())
    key = digest.digest()
    known = _PATTERNS.get(key)
    if known is None:
        known = _PATTERNS[key] = _built(tets, pressure_tets, couplings, couple_pressures=couple_pressures)
    return known


# A moved mesh, other surroundings and other materials ask for the pattern again: a sixth of what their problem takes.
_PATTERNS: WeakValueDictionary[bytes, BodyPattern] = WeakValueDictionary()


def _built(tets: Ints, pressure_tets: Ints, couplings: Sequence[Ints], *, couple_pressures: bool) -> BodyPattern:
    """Return the pattern of a mesh; arguments as of `build_pattern`."""
    order = np.argsort(tets.min(axis=1), kind="stable")
    tets, pressure_tets = tets[order], pressure_tets[order]
    pressures = int(pressure_tets.max()) + 1
    (rows, cols), (prow, pcol), (qrow, qcol) = (
        _pairs(*ids) for ids in ((tets, tets), (tets, pressure_tets), (pressure_tets, pressure_tets))
    )
    near, mixed = graph(tets, tets, upper=True, more=couplings), graph(tets, pressure_tets)
    alone = np.arange(pressures)
    masses = (
        graph(pressure_tets, pressure_tets, upper=True)
        if couple_pressures
        else Sparsity(np.arange(pressures + 1), alone)
    )
    whole = in_threes(near, mixed, masses)
    places = Places(
        whole.indptr,
        frozen(order),
        frozen(near.ranks(np.minimum(rows, cols), np.maximum(rows, cols)).reshape(*tets.shape, -1)),
        frozen(mixed.ranks(prow, pcol).reshape(*tets.shape, 4)),
        frozen(np.diff(near.indptr)),
        frozen(masses.ranks(np.minimum(qrow, qcol), np.maximum(qrow, qcol)).reshape(-1, 4, 4)),
    )
    return BodyPattern(whole.indptr, whole.indices, places)
