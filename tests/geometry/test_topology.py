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


def test_flat_tets_are_flat_whatever_their_size():
    """A regular tet of a micrometre in a mesh of a metre deforms as well as any; one of a millimetre on a plane does not."""
    regular = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    on_plane = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1e-13]])
    vertices = np.vstack([regular, 0.1 + 1e-6 * regular, 0.3 + 1e-3 * on_plane, 0.4 + 1e-3 * on_plane * [1, 1, 1e7]])
    tets = np.arange(16).reshape(4, 4)
    np.testing.assert_array_equal(topology.flat_tets(vertices, tets), [2])


def test_crowded_faces_have_two_tets_on_one_side():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.1, 0.1, 0.5], [0, 0, -1]])
    tets, _ = topology.oriented(vertices, np.array([[0, 1, 2, 3], [0, 1, 2, 5]]))
    assert len(topology.crowded_faces(tets)) == 0
    tets, _ = topology.oriented(vertices, np.vstack([tets, [2, 0, 1, 4]]))
    np.testing.assert_array_equal(np.sort(topology.crowded_faces(tets)), [[0, 1, 2]])
