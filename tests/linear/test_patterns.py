"""Products with matrices of which the upper triangle is stored."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, triu

from geosim.linear.patterns import Sparsity


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
