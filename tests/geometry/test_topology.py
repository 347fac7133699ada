"""Numbers of edges and faces."""

from __future__ import annotations

import numpy as np

from geosim.geometry import topology


def test_rows_of_pairs_among_edges():
    """Either order of the ends is found; what is no edge, or beyond the largest vertex, is -1."""
    edges = np.array([[0, 1], [0, 3], [1, 2], [2, 3]])
    pairs = np.array([[1, 0], [3, 2], [0, 2], [0, 3], [9, 1], [2, 1]])
    np.testing.assert_array_equal(topology.rows_of(edges, pairs), [0, 3, -1, 1, -1, 2])
    np.testing.assert_array_equal(topology.rows_of(np.empty((0, 2), dtype=int), pairs), np.full(6, -1))
