"""Products with matrices of which the upper triangle is stored."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, triu

from geosim.linear.patterns import Sparsity, carriers, couple, couples, gathered


def _stored(dense):
    upper = csr_matrix(triu(dense))
    upper.sort_indices()
    return Sparsity(upper.indptr, upper.indices), upper.data


def _nodes(rng, nodes, more):
    """A symmetric matrix of 3x3 blocks, some of them empty, and `more` unknowns that have no blocks."""
    there = np.triu(rng.random((nodes, nodes)) < 0.3)
    there = np.kron(there | there.T | np.eye(nodes, dtype=bool), np.ones((3, 3), dtype=bool))
    size = 3 * nodes + more
    full = rng.random((size, size)) < 0.3
    full[: 3 * nodes, : 3 * nodes] = there
    values = np.where(np.triu(full), rng.standard_normal((size, size)), 0.0)
    values[np.diag_indices(size)] = 1.0 + rng.random(size)
    return np.triu(values) + np.triu(values, 1).T


@pytest.mark.parametrize(("nodes", "more"), [(6, 0), (5, 1), (4, 5), (0, 7)])
def test_products_are_those_of_the_whole_matrix(nodes, more):
    """Rows of nodes share their columns but for the unknowns without blocks, which some rows have and others not."""
    rng = np.random.default_rng(nodes)
    dense = _nodes(rng, nodes, more)
    pattern, data = _stored(dense)
    vector = rng.standard_normal(len(dense))
    np.testing.assert_allclose(pattern.product(data, vector), dense @ vector, rtol=1e-13, atol=1e-13)
    assert (pattern.blocks == 3 * nodes) if more == 0 else (pattern.blocks <= 3 * nodes + more)


@pytest.mark.parametrize("row", [1, 2])
def test_rows_that_only_look_alike_are_not_taken_together(row):
    """Three rows of the right lengths, of which one has another column in the middle."""
    dense = np.diag(np.arange(1.0, 8.0))
    dense[0, [1, 2, 4, 6]] = dense[1, [2, 4, 6]] = dense[2, [4, 6]] = 0.5
    dense[row, 4], dense[row, 5] = 0.0, 0.25
    dense = np.triu(dense) + np.triu(dense, 1).T
    pattern, data = _stored(dense)
    assert pattern.blocks == 0
    vector = np.arange(7.0) ** 2
    np.testing.assert_allclose(pattern.product(data, vector), dense @ vector, rtol=1e-14)


def test_what_couples_with_the_same_nodes_is_gathered():
    """A chain of nodes: the pressure of the second couples as it does, the other pressure as no node does."""
    nodes = np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    dense = np.eye(14)
    dense[:12, :12] = np.kron(nodes, np.ones((3, 3)))
    dense[:12, 12] = np.repeat(nodes[1], 3)
    dense[:12, 13] = np.repeat([1.0, 0.0, 0.0, 1.0], 3)
    pattern, _ = _stored(np.triu(dense) + np.triu(dense, 1).T)
    graph, group = gathered(pattern)
    np.testing.assert_array_equal(group, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 4])
    found = csr_matrix((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(5, 5)).toarray() != 0
    whole = np.eye(5, dtype=bool)
    whole[:4, :4] = nodes
    whole[[0, 3], 4] = True
    np.testing.assert_array_equal(found, np.triu(whole))


def test_where_nothing_comes_in_threes_all_is_as_it_was():
    pattern, _ = _stored(np.eye(5) + np.eye(5, k=1))
    graph, group = gathered(pattern)
    np.testing.assert_array_equal(group, np.arange(5))
    np.testing.assert_array_equal(graph.indices, pattern.indices)


def test_a_pattern_grows_by_the_blocks_of_all_pairs_and_by_nothing_else():
    """Carriers of one, two and four nodes, some of them shared: the blocks of every two are there, the old values in place."""
    rng = np.random.default_rng(3)
    dense = _nodes(rng, 9, 3)
    dense[np.abs(dense) < 0.5] = 0.0
    dense[np.diag_indices(30)] = 1.0
    blocks = np.kron(np.abs(dense[:27, :27]).reshape(9, 3, 9, 3).max(axis=(1, 3)) > 0.0, np.ones((3, 3)))
    dense[:27, :27] = np.where((blocks > 0.0) & (dense[:27, :27] == 0.0), 0.7, dense[:27, :27])
    base, data = _stored(dense)
    nodes = np.array([[0, 0, 0, 0], [1, 2, 1, 2], [2, 3, 4, 5], [5, 6, 7, 8], [8, 8, 8, 8], [0, 0, 0, 0]])
    carry = carriers(nodes)
    keys = carry.keys(np.array([[0, 1, 1, 5], [2, 4, 2, 4], [1, 3, 3, 3]]))
    assert (np.diff(keys) > 0).all()
    wanted = dense != 0.0
    for one, other in ((0, 1), (2, 4), (1, 3)):
        both = np.union1d(nodes[one], nodes[other])
        rows = (3 * both[:, None] + np.arange(3)).ravel()
        wanted[np.ix_(rows, rows)] = True
    wide = couple(base, keys, carry)
    found = csr_matrix((np.ones(len(wide.indices)), wide.indices, wide.indptr), shape=(30, 30))
    np.testing.assert_array_equal(found.toarray() > 0.0, np.triu(wanted))
    kept = csr_matrix((wide.widen(data), wide.indices, wide.indptr), shape=(30, 30)).toarray()
    np.testing.assert_array_equal(kept, np.triu(dense))
    assert couples(wide, keys, carry)
    assert not couples(base, keys, carry)
