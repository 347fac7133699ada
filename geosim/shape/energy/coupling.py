"""The sparsity of a matrix that grows by what contact couples: parts of a robot far apart in the mesh.

Obstacles couple nothing new, since a point depends on the nodes of one face. Touching parts do; the couplings of all
pairs a little farther apart than contact are added at once, so that the pattern lasts for many iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from geosim.arrays import Floats, Ints, frozen
from geosim.kernels import kernel
from geosim.shape.energy.assembly import Sparsity

__all__ = ["Coupled", "couple"]


@dataclass(frozen=True)
class Coupled(Sparsity):
    """A base pattern with more couplings; `place` is where the entries of the base stand in it."""

    place: Ints

    def widen(self, data: Floats) -> Floats:
        """Return the values of the base pattern as values of this one."""
        out = np.zeros(len(self.indices))
        out[self.place] = data
        return out


def couple(base: Sparsity, groups: Ints, nodes: Ints) -> Coupled:
    """Return the base pattern with blocks between all nodes of the points of every group.

    Parameters
    ----------
    groups
        Points, (k, g).
    nodes
        Nodes of every point, (p, a).
    """
    members = nodes[groups].reshape(len(groups), -1)
    width = members.shape[1]
    count = int(members.max(initial=0)) + 1
    first, later = np.repeat(members, width, axis=1).ravel(), np.tile(members, (1, width)).ravel()
    keys = np.unique(first[first < later] * count + later[first < later])
    a, b = keys // count, keys % count
    rows = np.repeat(3 * a[:, None] + np.arange(3)[None], 3, axis=1).ravel()
    cols = np.tile(3 * b[:, None] + np.arange(3)[None], (1, 3)).ravel()
    more = csr_matrix((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(base.size, base.size))
    more.sort_indices()
    size = len(base.indices) + more.nnz
    indptr, indices = np.zeros(base.size + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    place = np.empty(len(base.indices), dtype=np.int64)
    total = _merge(base.indptr, base.indices, more.indptr, more.indices, indptr, indices, place)
    return Coupled(frozen(indptr.astype(np.int32)), frozen(indices[:total].astype(np.int32)), frozen(place))


@kernel
def _merge(pa, ia, pb, ib, indptr, indices, place):
    """Merge the sorted rows of two patterns."""
    at = 0
    for row in range(len(pa) - 1):
        i, j = pa[row], pb[row]
        while i < pa[row + 1] or j < pb[row + 1]:
            take = i < pa[row + 1] and (j >= pb[row + 1] or ia[i] <= ib[j])
            if take:
                if j < pb[row + 1] and ib[j] == ia[i]:
                    j += 1
                indices[at] = ia[i]
                place[i] = at
                i += 1
            else:
                indices[at] = ib[j]
                j += 1
            at += 1
        indptr[row + 1] = at
    return at
