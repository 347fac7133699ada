"""Counts the places where surfaces cross: edges that pierce faces they share no vertex with.

    crossing(e, f)  <=>  the ends of e lie strictly on opposite sides of f, and the line of e passes f inside

The signs are those of the volumes of tetrahedra, filtered with the rounding bound of Shewchuk (1997), so what
merely touches (a corner resting on a face, two flat faces in contact) is never counted. An edge that meets
exactly an *edge* of another surface is decided by the wedge of the two faces there. It counts if it goes from
one side of the surface to the other. That matters for mirror-symmetric meshes, where every crossing is of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.tree import MAX_WAITING_NODES, boxes_overlap, build_tree, leaf_range, next_leaves
from geosim.errors import InputError
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import cross, difference, dot, put, row


@dataclass(frozen=True)
class Crossings:
    """Edges and faces that cross.

    Parameters
    ----------
    edges
        Vertex ids of the piercing edges, shape (c, 2).
    faces
        Index of the pierced face, shape (c,).
    """

    edges: Ints
    faces: Ints

    @property
    def count(self) -> int:
        """Number of crossing (edge, face) pairs."""
        return len(self.faces)


def unique_edges(faces: Ints) -> tuple[Ints, Ints]:
    """Return the edges of faces (m, 3), sorted vertex ids (e, 2), and those that a face is the first to have, else -1, (m, 3)."""
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, first = np.unique(ends[:, 0] * (int(faces.max()) + 1) + ends[:, 1], return_index=True)
    owned = np.full(len(ends), -1, dtype=np.int64)
    owned[first] = np.arange(len(first))
    return np.ascontiguousarray(ends[first]), owned.reshape(-1, 3)


def count_crossings(vertices: Floats, faces: Ints) -> Crossings:
    """Find every (edge, face) pair of triangles that cross, neighbours left out.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    faces
        Vertex ids of all surfaces together, shape (m, 3).

    Returns
    -------
    Crossings
        Every pair once, sorted by edge and face; an edge shared by two faces is one edge.

    Raises
    ------
    InputError
        If a position is not finite, or the faces are not triangles of existing vertices.
    """
    vertices = np.ascontiguousarray(vertices, dtype=float)
    faces = np.ascontiguousarray(faces, dtype=np.int64)
    if len(faces) == 0:
        return Crossings(np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
    if faces.ndim != 2 or faces.shape[1] != 3:
        raise InputError(f"faces must have shape (m, 3), got {faces.shape}; pass triangles")
    tree = build_tree(vertices, faces)
    if not np.isfinite(vertices).all() and not np.isfinite(vertices[faces]).all():
        raise InputError("surface positions hold nan or inf; only finite shapes can be checked for crossings")
    edges, owned = unique_edges(faces)
    count = len(faces)
    corners, boxes, planes = np.empty((count, 9)), np.empty((count, 6)), np.empty((count, 5))
    _lay_out(vertices, faces, tree.order, corners, boxes, planes)
    leaves = tree.order, tree.boxes, faces[tree.order], corners, boxes, planes
    room = 65_536 + 8 * count  # untouched memory costs nothing, a second traversal does
    (pairs,) = filled(lambda out: int(_traverse(vertices, faces, edges, owned, *leaves, out)), room, ((2,), np.int64))
    pairs = pairs[np.argsort(pairs[:, 0] * count + pairs[:, 1])]
    return Crossings(edges[pairs[:, 0]], np.ascontiguousarray(pairs[:, 1]))


@kernel
def _lay_out(vertices, faces, order, corners, boxes, planes):
    """Write corners (m, 9), boxes (m, 6) and planes (m, 5) of all faces in leaf order, where the traversal reads them.

    A plane is (n, n . a, bound): |n . v - n . a| above the bound has the exact sign. Each of the products is off by a few
    roundings of |n| and |v|, which are at most |u| |v| of the sides and the largest coordinate.
    """
    # What the height above a plane changes if coordinates are off by some roundings, over its products of three: a wide
    # bound, `_side` decides below it.
    plane_rounding = 2e-14
    largest = 0.0
    for k in range(len(order)):
        f = order[k]
        for a in range(3):
            u, v, w = vertices[faces[f, 0], a], vertices[faces[f, 1], a], vertices[faces[f, 2], a]
            corners[k, a], corners[k, 3 + a], corners[k, 6 + a] = u, v, w
            boxes[k, a], boxes[k, 3 + a] = min(min(u, v), w), max(max(u, v), w)
            largest = max(largest, max(abs(boxes[k, a]), abs(boxes[k, 3 + a])))
    for k in range(len(order)):
        a = corners[k, :3]
        u, v = difference(corners[k, 3:6], a), difference(corners[k, 6:], a)
        n = cross(u, v)
        put(planes[k], n)
        planes[k, 3] = dot(n, a)
        planes[k, 4] = plane_rounding * largest * _sum(u) * _sum(v)


@kernel
def _sum(a):
    """Sum of the absolute coordinates."""
    return abs(a[0]) + abs(a[1]) + abs(a[2])


@kernel
def _traverse(vertices, faces, edges, owned, order, boxes, ids, corners, face_boxes, planes, pairs):
    """Descend the tree against itself and test the faces of overlapping leaves; return the number of pairs."""
    # numbers of the type that they have in the loop: for others the kernels below would be compiled once more
    found, top, count, still = np.int64(0), np.int64(1), len(faces), boxes[:0]
    stack = np.zeros((MAX_WAITING_NODES, 2), dtype=np.int64)
    top = next_leaves(boxes, still, stack, top)
    while top >= 0:
        i, j = stack[top]
        (start, end), (first, last) = leaf_range(boxes, i, count), leaf_range(boxes, j, count)
        for a in range(start, end):
            for b in range(a + 1 if i == j else first, last):
                if not boxes_overlap(face_boxes, a, b):
                    continue
                of_a = _sides(corners, a, planes, b)
                if abs(of_a[0] + of_a[1] + of_a[2]) == 3:
                    continue
                of_b = _sides(corners, b, planes, a)
                if abs(of_b[0] + of_b[1] + of_b[2]) == 3 or _only_touch(ids, a, b, of_a, of_b):
                    continue
                found = _pierce(vertices, faces, edges, owned, order[a], order[b], of_a, pairs, found)
                found = _pierce(vertices, faces, edges, owned, order[b], order[a], of_b, pairs, found)
        top = next_leaves(boxes, still, stack, top)
    return found


@kernel(inline="always")
def _sides(corners, a, planes, b):
    """Side of the plane of face b on which each corner of face a certainly lies, 0 where rounding leaves it open."""
    return (_level(corners, a, 0, planes, b), _level(corners, a, 3, planes, b), _level(corners, a, 6, planes, b))


@kernel(inline="always")
def _level(corners, a, k, planes, b):
    height = (
        planes[b, 0] * corners[a, k]
        + planes[b, 1] * corners[a, k + 1]
        + planes[b, 2] * corners[a, k + 2]
        - planes[b, 3]
    )
    return 1 if height > planes[b, 4] else (-1 if height < -planes[b, 4] else 0)


@kernel(inline="always")
def _only_touch(ids, a, b, of_a, of_b):
    """Whether faces that share a vertex cannot cross: they share two, or their other corners lie on one side."""
    s, t, shared = -1, -1, 0
    for k in range(3):
        for m in range(3):
            if ids[a, k] == ids[b, m]:
                s, t, shared = k, m, shared + 1
    if shared != 1:
        return shared > 1
    return (
        of_a[0 if s != 0 else 1] * of_a[2 if s != 2 else 1] > 0
        or of_b[0 if t != 0 else 1] * of_b[2 if t != 2 else 1] > 0
    )


@kernel
def _pierce(vertices, faces, edges, owned, f, g, sides, pairs, found):
    """Test the edges that face f owns against face g, on whose `sides` the corners of f lie."""
    a, b, c = faces[g, 0], faces[g, 1], faces[g, 2]
    for k in range(3):
        edge = owned[f, k]
        if edge < 0 or sides[k] * sides[(k + 1) % 3] > 0:
            continue
        p, q = edges[edge, 0], edges[edge, 1]
        if p in (a, b, c) or q in (a, b, c):
            continue
        side = _side(vertices, a, b, c, p)
        if side == 0 or side * _side(vertices, a, b, c, q) >= 0:
            continue
        s = _side(vertices, p, q, a, b)
        t = _side(vertices, p, q, b, c)
        if s * t < 0:
            continue
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
        a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
        if face != g and m in (a, b, c) and n in (a, b, c):
            other = a + b + c - m - n
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
    # What a volume changes if every coordinate is off by four roundings, over the products of the sides.
    coordinate_rounding = 1e-15
    # Shewchuk's bound of the error of a volume, (7 + 56 eps) eps with eps = 2^-53, over the products that it adds up.
    volume_rounding = 8e-16
    o = row(vertices, d)
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (
        difference(row(vertices, a), o),
        difference(row(vertices, b), o),
        difference(row(vertices, c), o),
    )
    u, v, w = bx * cy, by * cz, bz * cx
    x, y, z = cx * by, cy * bz, cz * bx
    volume = az * (u - x) + ax * (v - y) + ay * (w - z)
    bound = volume_rounding * (abs(az) * (abs(u) + abs(x)) + abs(ax) * (abs(v) + abs(y)) + abs(ay) * (abs(w) + abs(z)))
    largest = max(max(abs(o[0]), abs(o[1])), abs(o[2]))
    p, q, r = _sum((ax, ay, az)), _sum((bx, by, bz)), _sum((cx, cy, cz))
    bound += coordinate_rounding * (largest + p + q + r) * (p * q + q * r + r * p)
    return 1 if volume > bound else (-1 if volume < -bound else 0)
