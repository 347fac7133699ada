"""Connectivity of tetrahedral meshes and their surfaces: faces, edges, components. Arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import Floats, Ints, einsum

# Faces of a positively oriented tet, seen counter-clockwise from outside; edges in the order of the P2 nodes 4..9, of a
# triangle 3..5: the order of VTK's quadratic cells, which files keep.
TET_FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])
TET_EDGES = np.array([[0, 1], [1, 2], [0, 2], [0, 3], [1, 3], [2, 3]])
TRIANGLE_EDGES = np.array([[0, 1], [1, 2], [2, 0]])


def tet_volumes(vertices: Floats, tets: Ints) -> Floats:
    """Signed volumes of tets [m^3], shape (m,)."""
    a, b, c, d = (vertices[tets[:, i]] for i in range(4))
    return einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6.0


def flat_tets(vertices: Floats, tets: Ints) -> Ints:
    """Ids of tets without volume: so flat that rounding of the coordinates decides how they deform."""
    # Height of a tet over the size of its mesh: ten thousand times the rounding of the coordinates, so that its
    # deformation is still known to 1e-4. Small tets are not flat: a cut-off in volume would refuse those of tiny
    # details.
    flat_tet_height_rel = 1e-12
    edges = (vertices[tets[:, i]] - vertices[tets[:, j]] for i, j in TET_EDGES)
    longest2 = np.max([einsum("ij,ij->i", edge, edge) for edge in edges], axis=0)
    used = np.zeros(len(vertices), dtype=bool)
    used[tets] = True
    size = float(np.linalg.norm(np.ptp(vertices[used], axis=0)))
    return np.flatnonzero(np.abs(tet_volumes(vertices, tets)) <= flat_tet_height_rel * size * longest2)


def crowded_faces(tets: Ints) -> Ints:
    """Faces (k, 3) that several positively oriented tets have on the same side, so that they overlap."""
    faces = tets[:, TET_FACES].reshape(-1, 3)
    lowest = np.argmin(faces, axis=1)[:, None]
    sense = np.take_along_axis(faces, (lowest + np.arange(3)) % 3, axis=1)  # the same rows: seen from the same side
    order, start = _alike(sense)
    return sense[order[start[np.diff(start, append=len(order)) > 1]]]


def _alike(rows: Ints) -> tuple[Ints, Ints]:
    """Return an order of rows of ids (m, 3) in which alike ones follow each other as they came, and where each kind starts."""
    order = np.lexsort(rows.T[::-1])
    return order, np.flatnonzero((np.diff(rows[order], axis=0, prepend=rows.min(initial=0) - 1) != 0).any(axis=1))


def tet_gradients(vertices: Floats, tets: Ints) -> Floats:
    """Gradients of the barycentric coordinates of tets [1/m], shape (m, 4, 3)."""
    a, b, c = (vertices[tets[:, i]] - vertices[tets[:, 0]] for i in (1, 2, 3))
    last = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    last /= einsum("ij,ij->i", last[:, 0], a)[:, None, None]  # along the normal of the face opposite, 1 / height long
    return np.concatenate([-last.sum(axis=1, keepdims=True), last], axis=1)


def oriented(vertices: Floats, tets: Ints) -> tuple[Ints, Floats]:
    """Return tets turned to positive orientation, and their volumes [m^3]."""
    volumes = tet_volumes(vertices, tets)
    return np.where((volumes < 0)[:, None], tets[:, [0, 2, 1, 3]], tets), np.abs(volumes)


def face_normals(vertices: Floats, faces: Ints) -> Floats:
    """Normals of triangles (m, 3), outward for outward ones and twice as long as their areas [m^2]."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return np.cross(b - a, c - a)


def face_sides(tets: Ints) -> tuple[Ints, Ints, Ints]:
    """Return every face once with the tet on its inner and outer side.

    Returns
    -------
    faces, inner, outer
        Vertex ids (f, 3), oriented out of the tet `inner` (f,); `outer` (f,) is the tet beyond, or -1.
    """
    count = len(tets)
    faces = tets[:, TET_FACES].reshape(-1, 3)
    owner = np.repeat(np.arange(count), 4)
    a, b, c = faces.T
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    order, start = _alike(np.column_stack([low, a + b + c - low - high, high]))
    outer = np.full(len(start), -1, dtype=np.int64)
    has_twin = np.diff(start, append=len(order)) > 1
    outer[has_twin] = owner[order[start[has_twin] + 1]]
    return faces[order[start]], owner[order[start]], outer


def shared_edges(faces: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the edges (e, 2) that two faces (f, 3) share, and these faces (e,) each."""
    pairs = np.sort(faces[:, TRIANGLE_EDGES].reshape(-1, 2), axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    twin = np.flatnonzero((pairs[order[1:]] == pairs[order[:-1]]).all(axis=1))
    return pairs[order[twin]], order[twin] // 3, order[twin + 1] // 3


def walls(tets: Ints, regions: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return every face between two regions, or between one and the outside, once.

    Returns
    -------
    faces, inner, outer, sides
        As `face_sides`; and the regions of both sides (f, 2), -1 for the outside.
    """
    faces, inner, outer = face_sides(tets)
    sides = np.stack([regions[inner], np.where(outer >= 0, regions[outer], -1)], axis=1)
    is_wall = sides[:, 0] != sides[:, 1]
    return np.ascontiguousarray(faces[is_wall]), inner[is_wall], outer[is_wall], sides[is_wall]


def boundary_faces(tets: Ints) -> Ints:
    """Faces of the boundary of a set of tets, oriented outward, shape (f, 3)."""
    if len(tets) == 0:
        return np.empty((0, 3), dtype=np.int64)
    faces, _, outer = face_sides(tets)
    return faces[outer < 0]


def mid_edges(tets: Ints, first: int) -> tuple[Ints, Ints]:
    """Number the mid-edge nodes of P2 tets.

    Parameters
    ----------
    tets
        Vertex ids, shape (m, 4).
    first
        Number of the first mid-edge node (the number of vertices).

    Returns
    -------
    edges, nodes
        The end vertices of every edge (e, 2), and the ten nodes of every tet (m, 10).
    """
    pairs = np.sort(tets[:, TET_EDGES].reshape(-1, 2), axis=1)
    span = int(pairs.max(initial=0)) + 1
    keys, inverse = np.unique(pairs[:, 0] * span + pairs[:, 1], return_inverse=True)
    edges = np.stack([keys // span, keys % span], axis=1)
    return edges, np.hstack([tets, first + inverse.reshape(-1, 6)])


def with_mid_edges(values: Floats, edges: Ints) -> Floats:
    """Values at the vertices (n,) or (n, 3), then their means over the ends of every edge (m, 2): straight elements."""
    return np.concatenate([values, values[edges].mean(axis=1)])


def p2_shape(points: Floats, edges: Ints) -> Floats:
    """Quadratic shape functions at barycentric points (q, 3) or (q, 4): of corners, then mid-edges, (q, 6) or (q, 10)."""
    return np.hstack([points * (2.0 * points - 1.0), 4.0 * points[:, edges[:, 0]] * points[:, edges[:, 1]]])


def rows_of(edges: Ints, pairs: Ints) -> Ints:
    """Return where pairs of vertices (p, 2), in any order, stand among edges (e, 2), smaller number first and sorted; else -1."""
    if len(edges) == 0:
        return np.full(len(pairs), -1)
    span = int(max(edges.max(), pairs.max(initial=0))) + 1
    keys = edges[:, 0] * span + edges[:, 1]
    wanted = pairs.min(axis=1) * span + pairs.max(axis=1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def curved_faces(faces: Ints, edges: Ints, first: int) -> Ints:
    """Return the six nodes (three corners, mid-edges 01, 12, 20) of faces of a P2 mesh, shape (f, 6).

    `edges` (e, 2) are the sorted end vertices of the mid-edge nodes `first`, `first` + 1, ... .
    """
    where = rows_of(edges, faces[:, TRIANGLE_EDGES].reshape(-1, 2))
    return np.hstack([faces, first + where.reshape(-1, 3)])


def interpolate_p2(nodes: Floats, faces6: Ints, level: int) -> tuple[Floats, Ints, Ints, Floats]:
    """Split curved six-node faces into flat triangles by a regular subdivision.

    Parameters
    ----------
    nodes
        Positions of all nodes [m], shape (n, 3).
    faces6
        Nodes of the faces, shape (f, 6).
    level
        An edge is split into 2^level segments: 0 gives the corners alone, 1 the six nodes.

    Returns
    -------
    points, triangles, face, weights
        Positions (p, 3), vertex ids (t, 3), the face of every triangle (t,), and the interpolation of every
        point as (p, 7): its face and six shape-function values.
    """
    n = 2 ** max(level, 0)
    grid = np.array([(i, j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float) / n
    index = {(round(i * n), round(j * n)): k for k, (i, j) in enumerate(grid)}
    local = []
    for i in range(n):
        for j in range(n - i):
            local.append((index[i, j], index[i + 1, j], index[i, j + 1]))
            if i + j < n - 1:
                local.append((index[i + 1, j], index[i + 1, j + 1], index[i, j + 1]))
    r, s = grid[:, 0], grid[:, 1]
    barycentric = np.stack([1.0 - r - s, r, s], axis=1)
    shape = p2_shape(barycentric, TRIANGLE_EDGES)
    # A point on an edge belongs to two faces: name it by the nodes that carry it, so that it exists once.
    bary = np.rint(barycentric * n).astype(np.int64)
    corner = faces6[:, None, :3]
    named = np.where(bary[None] > 0, corner, -1)
    amount = np.broadcast_to(bary[None], named.shape)
    order = np.argsort(named, axis=2)
    key = np.concatenate([np.take_along_axis(named, order, 2), np.take_along_axis(amount, order, 2)], axis=2)
    flat, span = key.reshape(-1, 6), int(corner.max(initial=0)) + 2
    if span**3 * (n + 1) ** 2 < np.iinfo(np.int64).max:  # one number each: rows take twenty times as long to sort
        flat = ((flat[:, 0] + 1) * span + flat[:, 1] + 1) * span + flat[:, 2] + 1
        flat = (flat * (n + 1) + key[..., 3].ravel()) * (n + 1) + key[..., 4].ravel()
    _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(len(faces6), len(grid))
    face_of, grid_of = first // len(grid), first % len(grid)
    weights = np.hstack([face_of[:, None].astype(float), shape[grid_of]])
    points = np.einsum("pk,pkd->pd", shape[grid_of], nodes[faces6[face_of]])
    triangles = inverse[:, np.array(local)].reshape(-1, 3)
    return points, triangles, np.repeat(np.arange(len(faces6)), len(local)), weights


def linked(left: Ints, right: Ints, count: int) -> Ints:
    """Label (count,) things by the connected components that pairs of them form, in the order of their first things."""
    pairs = coo_matrix((np.ones(len(left), dtype=bool), (left, right)), shape=(count, count))
    return np.asarray(connected_components(pairs, directed=False)[1], dtype=np.int64)


def components(tets: Ints, count: int) -> Ints:
    """Label the connected components of a set of tets: label per vertex (count,), -1 for vertices of none."""
    label = np.full(count, -1, dtype=np.int64)
    if len(tets) == 0:
        return label
    found = linked(tets[:, [0, 0, 0]].ravel(), tets[:, 1:].ravel(), count)
    used = np.unique(tets)
    _, label[used] = np.unique(found[used], return_inverse=True)
    return label
