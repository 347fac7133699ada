"""Counts the places where surfaces cross: edges that pierce faces they share no vertex with.

    crossing(e, f)  <=>  the ends of e lie strictly on opposite sides of f, and the line of e passes f inside

The signs are those of the volumes of tetrahedra, filtered with the rounding bound of Shewchuk (1997), so what
merely touches (a corner resting on a face, two flat faces in contact) is never counted. An edge that meets
exactly an *edge* of another surface is decided by the wedge of the two faces there: it counts if it goes from
one side of the surface to the other. That matters for mirror-symmetric meshes, where every crossing is of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geosim.collision.tree import Floats, Ints, Tree, boxes_overlap, build_tree
from geosim.errors import InputError
from geosim.kernels import kernel

__all__ = ["Crossings", "SurfaceTree", "count_crossings", "surface_tree"]


@dataclass(frozen=True)
class SurfaceTree:
    """A tree over the faces of surfaces together with their unique edges.

    Parameters
    ----------
    tree
        Tree over the faces.
    edges
        Unique edges, sorted vertex ids, shape (e, 2).
    owned
        Edge ids that a face tests on behalf of the surface, -1 where another face does, shape (m, 3).
    edge_faces
        Faces at every edge, -1 where there is none, shape (e, 2).
    """

    tree: Tree
    edges: Ints
    owned: Ints
    edge_faces: Ints

    @property
    def faces(self) -> Ints:
        """Vertex ids of the faces, shape (m, 3)."""
        return self.tree.primitives

    def refit(self, vertices: Floats, margin: float | None = None) -> SurfaceTree:
        """Return the same surface tree with boxes around new positions [m], shape (n, 3)."""
        return SurfaceTree(self.tree.refit(vertices, margin), self.edges, self.owned, self.edge_faces)


@dataclass(frozen=True)
class Crossings:
    """Edges and faces that cross.

    Parameters
    ----------
    edges
        Vertex ids of the piercing edges, shape (c, 2).
    faces
        Index of the pierced face, shape (c,).
    labels
        Labels of the piercing edge's face and of the pierced face, shape (c, 2); zeros if no labels were given.
    """

    edges: Ints
    faces: Ints
    labels: Ints

    @property
    def count(self) -> int:
        """Number of crossing (edge, face) pairs."""
        return len(self.faces)


def surface_tree(vertices: Floats, faces: Ints, margin: float = 0.0) -> SurfaceTree:
    """Build the tree and the unique edges of triangles.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    faces
        Vertex ids, shape (m, 3).
    margin
        Distance [m] by which every box is enlarged.

    Raises
    ------
    InputError
        If the faces are not triangles of existing vertices.
    """
    faces = np.ascontiguousarray(faces, dtype=np.int64)
    if faces.ndim != 2 or faces.shape[1] != 3:
        raise InputError(f"faces must have shape (m, 3), got {faces.shape}; pass triangles")
    tree = build_tree(vertices, faces, margin)
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    keys = ends[:, 0] * (int(faces.max()) + 1) + ends[:, 1]
    _, first, edge_of = np.unique(keys, return_index=True, return_inverse=True)
    edges = np.ascontiguousarray(ends[first])
    owned = np.full(3 * len(faces), -1, dtype=np.int64)
    owned[first] = np.arange(len(edges))
    edge_faces = np.full((len(edges), 2), -1, dtype=np.int64)
    last = np.zeros(len(edges), dtype=np.int64)
    last[edge_of] = np.arange(len(keys))  # later occurrences overwrite earlier ones
    edge_faces[:, 0] = first // 3
    edge_faces[:, 1] = np.where(last != first, last // 3, -1)
    for array in (edges, owned, edge_faces):
        array.flags.writeable = False
    return SurfaceTree(tree, edges, owned.reshape(-1, 3), edge_faces)


def count_crossings(vertices: Floats, faces: Ints, tree: SurfaceTree | None = None, *,
                    labels: NDArray | None = None) -> Crossings:
    """Find every (edge, face) pair of triangles that cross, neighbours left out.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    faces
        Vertex ids of all surfaces together, shape (m, 3).
    tree
        The result of `surface_tree` for the same faces at any earlier positions; it is refitted, which is much
        cheaper than building it.
    labels
        Surface or body of every face, shape (m,), reported with the crossings.

    Returns
    -------
    Crossings
        Every pair once, sorted by edge and face; an edge shared by two faces is one edge.

    Raises
    ------
    InputError
        If a position is not finite, or the tree belongs to other faces.
    """
    vertices = np.ascontiguousarray(vertices, dtype=float)
    faces = np.ascontiguousarray(faces, dtype=np.int64)
    if len(faces) == 0:
        return Crossings(np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
    if tree is None:
        tree = surface_tree(vertices, faces)
    else:
        if tree.faces.shape != faces.shape or not np.array_equal(tree.faces, faces):
            raise InputError("the tree was built for other faces; build one with surface_tree(vertices, faces)")
        tree = tree.refit(vertices)
    if not np.all(np.isfinite(vertices[faces])):
        raise InputError("surface positions hold nan or inf; only finite shapes can be checked for crossings")
    pairs = _crossing_pairs(vertices, tree)
    edge_ids, pierced = pairs[:, 0], pairs[:, 1]
    marks = np.zeros((len(pairs), 2), dtype=np.int64)
    if labels is not None:
        marks[:, 0] = np.asarray(labels)[tree.edge_faces[edge_ids, 0]]
        marks[:, 1] = np.asarray(labels)[pierced]
    return Crossings(tree.edges[edge_ids], pierced, marks)


def _crossing_pairs(vertices: Floats, tree: SurfaceTree) -> Ints:
    """Pairs (edge id, face id), sorted; the buffer grows until all of them fit."""
    capacity = 4096 + len(tree.faces)
    while True:
        pairs = np.empty((capacity, 2), dtype=np.int64)
        found = _traverse(vertices, tree.faces, tree.edges, tree.owned, tree.tree.order, tree.tree.boxes, pairs)
        if found <= capacity:
            pairs = pairs[:found]
            return np.ascontiguousarray(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
        capacity = int(found)


@kernel
def _traverse(vertices, faces, edges, owned, order, boxes, pairs):
    """Descend the tree against itself and test the faces of overlapping leaves; return the number of pairs."""
    count = len(faces)
    leaves = (len(boxes) + 1) // 2
    stack = np.empty((1024, 2), dtype=np.int64)
    stack[0, 0], stack[0, 1] = 0, 0
    top, found = 1, 0
    while top > 0:
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        if i != j and not boxes_overlap(boxes, i, j):
            continue
        if i < leaves - 1:
            stack[top, 0], stack[top, 1] = 2 * i + 1, 2 * j + 1
            stack[top + 1, 0], stack[top + 1, 1] = 2 * i + 1, 2 * j + 2
            stack[top + 2, 0], stack[top + 2, 1] = 2 * i + 2, 2 * j + 2
            top += 3
            if i != j:
                stack[top, 0], stack[top, 1] = 2 * i + 2, 2 * j + 1
                top += 1
            continue
        ki, kj = i - leaves + 1, j - leaves + 1
        for a in range(count * ki // leaves, count * (ki + 1) // leaves):
            start = a + 1 if i == j else count * kj // leaves
            for b in range(start, count * (kj + 1) // leaves):
                f, g = order[a], order[b]
                if _faces_apart(vertices, faces, f, g) or _one_sided(vertices, faces, f, g):
                    continue
                found = _pierce(vertices, faces, edges, owned, f, g, pairs, found)
                found = _pierce(vertices, faces, edges, owned, g, f, pairs, found)
    return found


@kernel(inline="always")
def _faces_apart(vertices, faces, f, g):
    """Whether the boxes of two faces are disjoint, or the faces share two vertices and so cannot cross."""
    for a in range(3):
        u, v, w = vertices[faces[f, 0], a], vertices[faces[f, 1], a], vertices[faces[f, 2], a]
        x, y, z = vertices[faces[g, 0], a], vertices[faces[g, 1], a], vertices[faces[g, 2], a]
        if max(u, v, w) < min(x, y, z) or max(x, y, z) < min(u, v, w):
            return True
    shared = 0
    for k in range(3):
        for m in range(3):
            if faces[f, k] == faces[g, m]:
                shared += 1
    return shared >= 2


@kernel
def _one_sided(vertices, faces, f, g):
    """Whether face f lies strictly on one side of the plane of face g, so that they cannot cross."""
    first = 0
    for k in range(3):
        v = faces[f, k]
        if v in (faces[g, 0], faces[g, 1], faces[g, 2]):
            return False
        side = _side(vertices, faces[g, 0], faces[g, 1], faces[g, 2], v)
        if side == 0 or (k > 0 and side != first):
            return False
        first = side
    return True


@kernel
def _pierce(vertices, faces, edges, owned, f, g, pairs, found):
    """Test the edges that face f owns against face g."""
    a, b, c = faces[g, 0], faces[g, 1], faces[g, 2]
    for k in range(3):
        edge = owned[f, k]
        if edge < 0:
            continue
        p, q = edges[edge, 0], edges[edge, 1]
        if p in (a, b, c) or q in (a, b, c):
            continue
        side = _side(vertices, a, b, c, p)
        if side == 0 or side * _side(vertices, a, b, c, q) >= 0:
            continue
        s = _side(vertices, p, q, a, b)
        t = _side(vertices, p, q, b, c)
        u = _side(vertices, p, q, c, a)
        if min(s, t, u) < 0 and max(s, t, u) > 0:
            continue
        zeros = (s == 0) + (t == 0) + (u == 0)
        if zeros == 1:
            m, n, third = (a, b, c) if s == 0 else ((b, c, a) if t == 0 else (c, a, b))
            if not _through_wedge(vertices, faces, g, m, n, third, p, q):
                continue
        elif zeros > 1:
            continue
        if found < len(pairs):
            pairs[found, 0], pairs[found, 1] = edge, g
        found += 1
    return found


@kernel
def _through_wedge(vertices, faces, g, m, n, third, p, q):
    """Whether an edge (p, q) that meets the edge (m, n) of face g passes from one side of the surface to the other.

    In the plane perpendicular to (m, n) the two faces there are rays; (p, q) passes if its two halves lie
    strictly in different sectors between them. `third` is the vertex of g off the edge.
    """
    other = -1
    for face in range(len(faces)):  # rare: only exact coincidences come here
        if face == g:
            continue
        hits = 0
        rest = -1
        for k in range(3):
            if faces[face, k] == m or faces[face, k] == n:
                hits += 1
            else:
                rest = faces[face, k]
        if hits == 2:
            other = rest
            break
    if other < 0:
        return False  # the rim of an open surface is only touched
    p1, q1 = _side(vertices, m, n, third, p), _side(vertices, m, n, third, q)
    p2, q2 = _side(vertices, m, n, other, p), _side(vertices, m, n, other, q)
    if p1 * q1 >= 0 or p2 * q2 >= 0:
        return False
    fold = _side(vertices, m, n, third, other)
    if fold == 0:
        return True  # a flat edge
    # p is in the sector that turns from `third` to `other` iff it lies beyond the first and before the second
    p_in = p1 == fold and p2 == -fold
    q_in = q1 == fold and q2 == -fold
    return p_in != q_in


@kernel
def _side(vertices, a, b, c, d):
    """Sign of the volume of the tetrahedron (a, b, c, d), 0 within rounding.

    Shewchuk's static bound, and what it changes if every coordinate is off by four roundings, as that of a point
    interpolated in a flat face is: points of one plane must not be taken for points on either side of it.
    """
    ax, ay, az = vertices[a, 0] - vertices[d, 0], vertices[a, 1] - vertices[d, 1], vertices[a, 2] - vertices[d, 2]
    bx, by, bz = vertices[b, 0] - vertices[d, 0], vertices[b, 1] - vertices[d, 1], vertices[b, 2] - vertices[d, 2]
    cx, cy, cz = vertices[c, 0] - vertices[d, 0], vertices[c, 1] - vertices[d, 1], vertices[c, 2] - vertices[d, 2]
    u, v, w = bx * cy, by * cz, bz * cx
    x, y, z = cx * by, cy * bz, cz * bx
    volume = az * (u - x) + ax * (v - y) + ay * (w - z)
    bound = 8e-16 * (abs(az) * (abs(u) + abs(x)) + abs(ax) * (abs(v) + abs(y)) + abs(ay) * (abs(w) + abs(z)))
    largest = max(max(abs(vertices[d, 0]), abs(vertices[d, 1])), abs(vertices[d, 2]))
    p, q, r = abs(ax) + abs(ay) + abs(az), abs(bx) + abs(by) + abs(bz), abs(cx) + abs(cy) + abs(cz)
    bound += 1e-15 * (largest + p + q + r) * (p * q + q * r + r * p)
    return 1 if volume > bound else (-1 if volume < -bound else 0)
