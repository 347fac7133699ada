"""Sparsity patterns: where the entries of a matrix stand, how a pattern grows, and products with what is there.

Symmetric matrices are stored as their upper triangle in CSR form, columns ascending, every diagonal entry present. Where three
unknowns belong to a node, rows 3 a, 3 a + 1, 3 a + 2 hold the same 3x3 blocks, the first of them cut off below the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.kernels import kernel


@dataclass(frozen=True)
class Sparsity:
    """CSR pattern of an upper triangle.

    Parameters
    ----------
    indptr, indices
        Start of every row (size + 1,), and the columns (entries,), ascending in every row.
    """

    indptr: np.ndarray
    indices: np.ndarray

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return len(self.indptr) - 1

    @cached_property
    def blocks(self) -> int:
        """Number of leading rows that come in threes with the same columns."""
        return int(_rows_in_threes(self.indptr, self.indices))

    def ranks(self, rows: Ints, columns: Ints) -> np.ndarray:
        """Rank of every entry (row, column) within its row, -1 where the pattern has none, int32 (k,)."""
        out = np.empty(len(rows), dtype=np.int32)
        _ranks(rows, columns, self.indptr, self.indices, out)
        return out

    def product(self, data: Floats, vector: Floats) -> Floats:
        """Return S v for the symmetric matrix S of which `data` is the upper triangle."""
        out = np.zeros(self.size)
        _symmetric_product(self.indptr, self.indices, self.blocks, data, vector, out)
        return out

    def eliminated(self, data: Floats, held: Bools) -> Floats:
        """Return the values with the rows and columns of held unknowns turned into those of the identity."""
        out = np.empty(len(data))
        _eliminate(self.indptr, self.indices, held, data, out)
        return out


@dataclass(frozen=True)
class Coupled(Sparsity):
    """A base pattern with more couplings; `place` is where the entries of the base are in it."""

    place: Ints

    def widen(self, data: Floats) -> Floats:
        """Return the values of the base pattern as values of this one."""
        out = np.zeros(len(self.indices))
        out[self.place] = data
        return out


@dataclass(frozen=True)
class Carriers:
    """The nodes that carry points: many points of a face have the same.

    Parameters
    ----------
    of
        Carrier of every point, (p,).
    nodes
        Nodes of every carrier, (c, a).
    """

    of: Ints
    nodes: Ints

    def keys(self, groups: Ints) -> Ints:
        """Return the pairs of carriers of every two points of a group (k, g), once, each as one ascending number (d,)."""
        carriers, (first, second) = self.of[groups], np.triu_indices(groups.shape[1], 1)
        one, other = carriers[:, first], carriers[:, second]
        return ascending((np.minimum(one, other) * len(self.nodes) + np.maximum(one, other)).ravel())

    def members(self, keys: Ints) -> Ints:
        """Return the nodes of both carriers of every pair, (d, 2 a)."""
        return np.hstack([self.nodes[end] for end in np.divmod(keys, len(self.nodes))])


def ascending(numbers: Ints) -> Ints:
    """Return numbers (n,) in ascending order, each once: a tenth of the time of `numpy.unique`, which hashes them."""
    out = np.sort(numbers)
    return out[np.append(True, out[1:] != out[:-1])] if len(out) else out


def carriers(nodes: Ints) -> Carriers:
    """Return the carriers of points with nodes (p, a)."""
    different, carrier = np.unique(nodes, axis=0, return_inverse=True)
    return Carriers(frozen(carrier.ravel()), frozen(different))


def couple(base: Sparsity, keys: Ints, carry: Carriers) -> Coupled:
    """Return the base pattern with blocks between all nodes of pairs of carriers (`Carriers.keys`)."""
    at, (one, other) = np.arange(3), _pairs_of_nodes(keys, carry)
    one, other = np.divmod(ascending((one * base.size + other)[one < other]), base.size)
    rows, columns = np.broadcast_arrays(3 * one[:, None, None] + at[:, None], 3 * other[:, None, None] + at)
    shape, more = (base.size, base.size), np.ones(rows.size, dtype=np.int8)
    # what is in both is 3, and 2 is in the base alone
    own = csr_matrix((np.full(len(base.indices), 2, dtype=np.int8), base.indices, base.indptr), shape=shape)
    both = own + csr_matrix((more, (rows.ravel(), columns.ravel())), shape=shape)
    indptr, indices = (frozen(array.astype(np.int32)) for array in (both.indptr, both.indices))
    return Coupled(indptr, indices, frozen(np.flatnonzero(both.data >= 2)))


def couples(pattern: Sparsity, keys: Ints, carry: Carriers) -> bool:
    """Whether a pattern has blocks between all nodes of pairs of carriers (see `couple`)."""
    one, other = _pairs_of_nodes(keys, carry)
    return bool((pattern.ranks(3 * one, 3 * other) >= 0).all())


def _pairs_of_nodes(keys: Ints, carry: Carriers) -> tuple[Ints, Ints]:
    """Return every two nodes of pairs of carriers, the smaller number first, flat."""
    members = carry.members(keys)
    pairs = np.sort(members[:, np.transpose(np.triu_indices(members.shape[1], 1))], axis=2)
    return pairs[..., 0].ravel(), pairs[..., 1].ravel()


def widened(pattern: Sparsity, data: Floats, groups: Ints, carry: Carriers) -> tuple[Sparsity, Floats]:
    """Return a pattern that couples the nodes of all points of every group (k, g), too, and the values in it."""
    keys = carry.keys(groups)
    if couples(pattern, keys, carry):
        return pattern, data
    wider = couple(pattern, keys, carry)
    data = wider.widen(data)
    if isinstance(pattern, Coupled):
        wider = replace(wider, place=frozen(wider.place[pattern.place]))
    return wider, data


def gathered(pattern: Sparsity) -> tuple[Sparsity, Ints]:
    """Return which groups of unknowns couple, as an upper triangle, too, and the group of every unknown, (size,).

    The three rows of a node are a group, and what comes after the nodes joins the node that couples with the same nodes as it
    does: the pressure of a vertex, say. Sums of random numbers, one a node, tell who has the same neighbours.
    """
    nodes, size = pattern.blocks // 3, pattern.size
    rows = np.concatenate([np.arange(0, 3 * nodes, 3), np.arange(3 * nodes, size)])
    group = np.concatenate([np.repeat(np.arange(nodes), 3), np.arange(nodes, len(rows))])
    entries = np.ones(len(pattern.indices), dtype=np.int64)
    chosen = csr_matrix((entries, pattern.indices, pattern.indptr), shape=(size, size))[rows]
    graph = csr_matrix((chosen.data, group[chosen.indices], chosen.indptr), shape=(len(rows), len(rows)))
    graph.sum_duplicates()
    graph.data[:] = 1
    number = np.zeros(len(rows), dtype=np.int64)
    number[:nodes] = np.random.default_rng(0).integers(2**62, size=nodes)
    sums = graph @ number + graph.T @ number - number  # the diagonal is in both
    order = np.argsort(sums[:nodes])
    near = np.searchsorted(sums[:nodes], sums[nodes:], sorter=order)
    host = np.arange(len(rows))
    if nodes:
        found = order[np.minimum(near, nodes - 1)]
        host[nodes:] = np.where(sums[found] == sums[nodes:], found, host[nodes:])
    kept = host == np.arange(len(rows))
    graph = graph[kept][:, kept]
    graph.sort_indices()
    return Sparsity(graph.indptr, graph.indices), (np.cumsum(kept) - 1)[host[group]]


def in_threes(near: Sparsity, mixed: Sparsity, others: Sparsity) -> Sparsity:
    """Return the upper triangle of a matrix with three rows a node, and then one for every other unknown.

    Parameters
    ----------
    near, mixed, others
        What couples, in int64: with every node itself and the later ones; the other unknowns; with each of these itself and the
        later ones.
    """
    of_nodes = (3 * np.diff(near.indptr) + np.diff(mixed.indptr))[:, None] - np.arange(3)
    indptr = np.cumsum(np.concatenate([[0], of_nodes.ravel(), np.diff(others.indptr)]))
    indices = np.empty(indptr[-1], dtype=np.int32)
    _fill(near.indptr, near.indices, mixed.indptr, mixed.indices, others.indices, indptr, indices)
    return Sparsity(frozen(indptr.astype(np.int32)), frozen(indices))


@kernel
def _fill(nptr, nind, pptr, pind, qind, indptr, indices):
    """Write the columns of the matrix from those of nodes by nodes (n), nodes by others (p), others by others (q)."""
    nodes = len(nptr) - 1
    for a in range(nodes):
        for i in range(3):
            at = indptr[3 * a + i]
            for k in range(nptr[a], nptr[a + 1]):
                for j in range(i if nind[k] == a else 0, 3):
                    indices[at] = 3 * nind[k] + j
                    at += 1
            for k in range(pptr[a], pptr[a + 1]):
                indices[at + k - pptr[a]] = 3 * nodes + pind[k]
    for k in range(len(qind)):
        indices[indptr[3 * nodes] + k] = 3 * nodes + qind[k]


@kernel
def find_sorted(values, low, high, wanted):
    """Position of a number among the ascending values[low:high], -1 where it is not."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and values[low] == wanted else -1


@kernel
def _eliminate(indptr, indices, held, data, out):
    """Write `Sparsity.eliminated`; the diagonal comes first in every row."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            out[k] = 0.0 if held[i] or held[indices[k]] else data[k]
        if held[i]:
            out[indptr[i]] = 1.0


@kernel
def _ranks(rows, columns, indptr, indices, out):
    for i in range(len(rows)):
        start = indptr[rows[i]]
        out[i] = max(find_sorted(indices, start, indptr[rows[i] + 1], columns[i]) - start, -1)


@kernel
def _rows_in_threes(indptr, indices):
    """Count the rows, from the first on, that come in threes with the same columns but for those below the diagonal."""
    i, n = 0, len(indptr) - 1
    while i + 2 < n:
        a, b, c, width = indptr[i], indptr[i + 1], indptr[i + 2], indptr[i + 1] - indptr[i]
        if width < 3 or c - b != width - 1 or indptr[i + 3] - c != width - 2:
            return i
        if indices[a] != i or indices[b] != i + 1 or indices[c] != i + 2 or indices[a + 1] != i + 1:
            return i
        for k in range(2, width):
            if indices[b + k - 1] != indices[a + k] or indices[c + k - 2] != indices[a + k]:
                return i
        i += 3
    return i


@kernel
def _symmetric_product(indptr, indices, blocks, data, x, y):
    """Add S x to y for a symmetric matrix of which the upper triangle is stored.

    Its first rows (so many as `blocks` says) come in threes: one index then serves three entries, which takes half the time.
    """
    for i in range(0, blocks, 3):
        a, b, c = indptr[i], indptr[i + 1], indptr[i + 2]
        u, v, w = x[i], x[i + 1], x[i + 2]
        p = data[a] * u + data[a + 1] * v + data[a + 2] * w
        q = data[a + 1] * u + data[b] * v + data[b + 1] * w
        r = data[a + 2] * u + data[b + 1] * v + data[c] * w
        for k in range(3, b - a):
            j = indices[a + k]
            d, e, f, z = data[a + k], data[b + k - 1], data[c + k - 2], x[j]
            p += d * z
            q += e * z
            r += f * z
            y[j] += d * u + e * v + f * w
        y[i] += p
        y[i + 1] += q
        y[i + 2] += r
    for i in range(blocks, len(indptr) - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            total += data[k] * x[j]
            if j != i:
                y[j] += data[k] * x[i]
        y[i] += total


@kernel
def add_block(one, other, rank, block, indptr, data):
    """Add a block (3, 3) of two nodes to the upper triangle; `rank` is that of the other among the blocks of the first."""
    first = min(one, other)
    for i in range(3):
        at = indptr[3 * first + i] + 3 * rank - i
        if one > other:
            for j in range(3):
                data[at + j] += block[j, i]
        else:
            for j in range(i if one == other else 0, 3):
                data[at + j] += block[i, j]


@kernel
def add_blocks(groups, blocks, nodes, weights, indptr, indices, data):
    """Add blocks (k, g, g, 3, 3) between groups of points (k, g) to the upper triangle, spread over their nodes.

    Parameters
    ----------
    nodes, weights
        Nodes of every point and how much of each it is, (p, a).
    indptr, indices, data
        The matrix; it has a block between any two nodes of a group.
    """
    points = groups.shape[1]
    used, shares = np.empty(points * nodes.shape[1], dtype=np.int64), np.empty((points * nodes.shape[1], points))
    half = np.empty((points, 3, 3))  # of one node with every point
    for q in range(len(groups)):
        count = _nodes_of(groups[q], nodes, weights, used, shares)
        for a in range(count):
            first = used[a]
            _of_node(shares[a], blocks[q], half)
            start, end = indptr[3 * first], indptr[3 * first + 1]
            for b in range(count):
                if first > used[b]:
                    continue
                rank = find_sorted(indices, start, end, 3 * used[b]) - start
                for j in range(points):
                    if shares[b, j] == 0.0:
                        continue
                    for k in range(3):
                        row = indptr[3 * first + k] + rank - k
                        for m in range(k if a == b else 0, 3):
                            data[row + m] += shares[b, j] * half[j, k, m]


@kernel
def _of_node(shares, blocks, half):
    """Write the blocks (g, 3, 3) of a node, by its shares of the points, with every point."""
    half[:] = 0.0
    for i in range(len(shares)):
        for j in range(len(shares) if shares[i] != 0.0 else 0):
            for k in range(3):
                for m in range(3):
                    half[j, k, m] += shares[i] * blocks[i, j, k, m]


@kernel
def _nodes_of(group, nodes, weights, used, shares):
    """Write the nodes of the points of a group, each once, and how much of every point they are; return their number."""
    count = 0
    for i in range(len(group)):
        for a in range(nodes.shape[1]):
            node, weight = nodes[group[i], a], weights[group[i], a]
            if weight == 0.0:
                continue
            at = 0
            while at < count and used[at] != node:
                at += 1
            if at == count:
                used[at], shares[at], count = node, 0.0, count + 1
            shares[at, i] += weight
    return count
