"""Numbers of edges and faces."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import det
from geosim.geometry import topology


def test_rows_of_pairs_among_edges():
    """Either order of the ends is found; what is no edge, or beyond the largest vertex, is -1."""
    edges = np.array([[0, 1], [0, 3], [1, 2], [2, 3]])
    pairs = np.array([[1, 0], [3, 2], [0, 2], [0, 3], [9, 1], [2, 1]])
    np.testing.assert_array_equal(topology.rows_of(edges, pairs), [0, 3, -1, 1, -1, 2])
    np.testing.assert_array_equal(topology.rows_of(np.empty((0, 2), dtype=int), pairs), np.full(6, -1))


def test_gradients_of_barycentric_coordinates_are_one_at_their_corner_and_none_at_the_others():
    rng = np.random.default_rng(1)
    vertices, tets = rng.standard_normal((12, 3)), np.arange(12).reshape(3, 4)
    sides = vertices[tets] - vertices[tets[:, :1]]
    expected = np.broadcast_to(np.eye(4) - np.eye(4)[0][:, None], (3, 4, 4))  # less what they are at the first corner
    np.testing.assert_allclose(
        np.einsum("mki,mli->mkl", topology.tet_gradients(vertices, tets), sides), expected, atol=1e-12
    )
    np.testing.assert_allclose(det(sides[:, 1:]) / 6.0, topology.tet_volumes(vertices, tets), rtol=1e-12)


def test_flat_tets_are_flat_whatever_their_size():
    """A regular tet of a micrometre in a mesh of a metre deforms as well as any; one of a millimetre on a plane does not."""
    regular = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    on_plane = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1e-13]])
    vertices = np.vstack([regular, 0.1 + 1e-6 * regular, 0.3 + 1e-3 * on_plane, 0.4 + 1e-3 * on_plane * [1, 1, 1e7]])
    tets = np.arange(16).reshape(4, 4)
    np.testing.assert_array_equal(topology.flat_tets(vertices, tets), [2])


def test_points_of_curved_faces_exist_once():
    """On a closed surface V + E (n - 1) + F (n - 1)(n - 2) / 2 of them, and every edge between them has two sides."""
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((4, 3))
    faces, edges = (
        np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]),
        np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]),
    )
    nodes = topology.with_mid_edges(corners, edges) + 0.1 * rng.standard_normal((10, 3))
    faces6 = topology.curved_faces(faces, edges, 4)
    for level, n in ((0, 1), (1, 2), (2, 4)):
        points, triangles, _, weights = topology.interpolate_p2(nodes, faces6, level)
        assert len(points) == 4 + 6 * (n - 1) + 4 * (n - 1) * (n - 2) // 2
        assert len(triangles) == 4 * n**2
        at = np.einsum("pk,pki->pi", weights[:, 1:], nodes[faces6[weights[:, 0].astype(int)]])
        np.testing.assert_allclose(points, at, atol=1e-14)
        ends = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        assert (np.unique(ends, axis=0, return_counts=True)[1] == 2).all()  # closed: no point stands twice


def test_crowded_faces_have_two_tets_on_one_side():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.1, 0.1, 0.5], [0, 0, -1]])
    tets, _ = topology.oriented(vertices, np.array([[0, 1, 2, 3], [0, 1, 2, 5]]))
    assert len(topology.crowded_faces(tets)) == 0
    tets, _ = topology.oriented(vertices, np.vstack([tets, [2, 0, 1, 4]]))
    np.testing.assert_array_equal(np.sort(topology.crowded_faces(tets)), [[0, 1, 2]])


def test_things_that_pairs_link_have_one_label():
    """Labels as SciPy gives them, of random graphs, a path with shuffled numbers and a star; without pairs each its own."""
    rng = np.random.default_rng(3)
    path = rng.permutation(400)
    graphs = [rng.integers(0, 300, (2, links)) for links in (0, 60, 150, 400)]
    graphs += [np.stack([path[:-1], path[1:]]), np.stack([np.full(99, 99), np.arange(99)])]
    for left, right in graphs:
        links = coo_matrix((np.ones(len(left)), (left, right)), shape=(400, 400))
        np.testing.assert_array_equal(topology.linked(left, right, 400), connected_components(links, directed=False)[1])


def test_faces_that_share_two_corners_are_two():
    """In order they follow each other: (0, 4, 5) and (3, 4, 5)."""
    faces, inner, outer = topology.face_sides(np.array([[0, 3, 4, 5]], dtype=np.int32))
    np.testing.assert_array_equal(np.sort(faces, axis=1), [[0, 3, 4], [0, 3, 5], [0, 4, 5], [3, 4, 5]])
    assert set(inner) == {0}
    assert set(outer) == {-1}
