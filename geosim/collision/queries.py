"""Questions to a tree: which tet holds a vertex, where a ray leaves a surface, which point of a surface is nearest.

All of them leave out the primitives that a vertex belongs to (the neighbour filter), so that a surface does not
collide with itself at rest.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import ROUNDING_REL, Floats, Ints
from geosim.collision.distance import closest_on_triangle
from geosim.collision.tree import MAX_WAITING_NODES, Tree, leaf_range, next_leaf
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, put, row, scaled

# Barycentric weight that is round-off: of a point on a face, an edge or a corner. A vertex on a face of a tet is outside, and no
# ray slips through between two faces.
WEIGHT_ROUNDING = ROUNDING_REL


def vertices_in_tets(x: Floats, ids: Ints, tree: Tree) -> Ints:
    """Return for every vertex of `ids` a tet that holds it, or -1; its own tets are left out.

    Parameters
    ----------
    x
        Positions [m], shape (n, 3); `tree` must be refitted to them.
    ids
        Vertices to ask for, shape (v,).
    tree
        A tree over tets.
    """
    out = np.full(len(ids), -1, dtype=np.int64)
    _in_tets(x, np.ascontiguousarray(ids), tree.primitives, tree.order, tree.boxes, out)
    return out


def ray_hits(x: Floats, ids: Ints, directions: Floats, tree: Tree) -> tuple[Floats, Ints]:
    """Return where rays from vertices first meet a face that is not their own.

    Parameters
    ----------
    x, ids, tree
        As in `vertices_in_tets`, with a tree over faces.
    directions
        Unit vectors, shape (v, 3).

    Returns
    -------
    distance, face
        [m] (v,), inf where nothing is met, and the face (v,), -1 there.
    """
    distance = np.full(len(ids), np.inf)
    face = np.full(len(ids), -1, dtype=np.int64)
    _ray_hits(
        x,
        np.ascontiguousarray(ids),
        np.ascontiguousarray(directions),
        tree.primitives,
        tree.order,
        tree.boxes,
        distance,
        face,
    )
    return distance, face


def closest_points(
    points: Floats, vertices: Floats, tree: Tree, ids: Ints | None = None, reach: float = np.inf
) -> tuple[Floats, Ints, Floats]:
    """Return the nearest points of a surface.

    Parameters
    ----------
    points
        Positions to ask for [m], shape (p, 3).
    vertices
        Positions of the surface [m]; `tree` (over faces) must be refitted to them.
    ids
        Vertex that every point is, shape (p,): faces with this vertex are left out; default none.
    reach
        Points farther away than this [m] are not looked for.

    Returns
    -------
    nearest, face, weights
        Positions [m] (p, 3), faces (p,) and barycentric weights of their corners (p, 3); nan and -1 where nothing is
        within reach.
    """
    points, vertices = (np.ascontiguousarray(array, dtype=float) for array in (points, vertices))
    own = np.full(len(points), -1, dtype=np.int64) if ids is None else np.ascontiguousarray(ids)
    face, weights = np.empty(len(points), dtype=np.int64), np.empty((len(points), 3))
    _closest(points, own, vertices, tree.primitives, tree.order, tree.boxes, reach * reach, face, weights)
    return np.einsum("pi,pij->pj", weights, vertices[tree.primitives[face]]), face, weights


@kernel
def _in_tets(x, ids, tets, order, boxes, out):
    stack, one = np.empty(MAX_WAITING_NODES, dtype=np.int64), np.int64(1)  # of the type that later tops have
    for k in range(len(ids)):
        v = ids[k]
        stack[0] = 0
        top = next_leaf(boxes, x[v], x[v], 0.0, stack, one)
        while top >= 0 and out[k] < 0:
            first, last = leaf_range(boxes, stack[top], len(tets))
            for a in range(first, last):
                e = order[a]
                if v not in (tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]) and _inside(x, tets[e], row(x, v)):
                    out[k] = e
            top = next_leaf(boxes, x[v], x[v], 0.0, stack, top)


@kernel
def six_volumes(a, b, c, d):
    """Six times the signed volume of (a, b, c, d)."""
    return dot(difference(a, d), cross(difference(b, d), difference(c, d)))


@kernel
def _inside(x, tet, p):
    """Whether a point is strictly inside a tet of either orientation."""
    a, b, c, d = row(x, tet[0]), row(x, tet[1]), row(x, tet[2]), row(x, tet[3])
    whole = six_volumes(a, b, c, d)
    bound = WEIGHT_ROUNDING * abs(whole)
    sign = 1.0 if whole > 0 else -1.0
    return (
        sign * six_volumes(p, b, c, d) > bound
        and sign * six_volumes(a, p, c, d) > bound
        and sign * six_volumes(a, b, p, d) > bound
        and sign * six_volumes(a, b, c, p) > bound
    )


@kernel
def _ray_hits(x, ids, directions, faces, order, boxes, distance, face):
    # A descent of its own: what a ray passes is no distance to a box.
    leaves = (len(boxes) + 1) // 2
    stack = np.empty(MAX_WAITING_NODES, dtype=np.int64)
    for k in range(len(ids)):
        v = ids[k]
        stack[0] = 0
        top = 1
        while top > 0:
            top -= 1
            i = stack[top]
            if not _passes(boxes[i], x[v], directions[k], distance[k]):
                continue
            if i < leaves - 1:
                stack[top], stack[top + 1] = 2 * i + 1, 2 * i + 2
                top += 2
                continue
            first, last = leaf_range(boxes, i, len(faces))
            for a in range(first, last):
                f = order[a]
                if v in (faces[f, 0], faces[f, 1], faces[f, 2]):
                    continue
                t = _ray_triangle(x[v], directions[k], x[faces[f, 0]], x[faces[f, 1]], x[faces[f, 2]])
                if t < distance[k]:
                    distance[k], face[k] = t, f


@kernel
def _passes(box, p, direction, far):
    """Whether a ray from p passes a box before a distance."""
    near = 0.0
    for a in range(3):
        low, high = box[a] - p[a], box[a + 3] - p[a]
        if direction[a] == 0.0:
            if low > 0 or high < 0:
                return False
        else:
            t, u = low / direction[a], high / direction[a]
            near, far = max(near, min(t, u)), min(far, max(t, u))
    return near <= far


@kernel
def _ray_triangle(p, d, a, b, c):
    """Distance along the ray to the triangle, inf if it is missed (Moeller and Trumbore 1997)."""
    e, g, s = difference(b, a), difference(c, a), difference(p, a)
    h, q = cross(d, g), cross(s, e)
    det = dot(e, h)
    if det == 0.0:
        return np.inf
    u, w, t = dot(s, h) / det, dot(d, q) / det, dot(g, q) / det
    return np.inf if u < -WEIGHT_ROUNDING or w < -WEIGHT_ROUNDING or u + w > 1.0 + WEIGHT_ROUNDING or t <= 0.0 else t


@kernel
def _closest(points, own, vertices, faces, order, boxes, limit, face, weights):
    for k in range(len(points)):
        face[k], on = nearest_face(row(points, k), own[k], vertices, faces, order, boxes, limit)
        put(weights[k], on)


@kernel
def nearest_face(p, own, vertices, faces, order, boxes, limit):
    """Nearest face within a squared distance that has no vertex `own`, and the weights of its corners; -1 and nan if none."""
    stack = np.empty(MAX_WAITING_NODES, dtype=np.int64)
    face, weights = -1, (np.nan, np.nan, np.nan)
    stack[0] = 0
    top = next_leaf(boxes, p, p, limit, stack, 1)
    while top >= 0:
        first, last = leaf_range(boxes, stack[top], len(faces))
        for k in range(first, last):
            f = order[k]
            if own >= 0 and own in (faces[f, 0], faces[f, 1], faces[f, 2]):
                continue
            a, b, c = row(vertices, faces[f, 0]), row(vertices, faces[f, 1]), row(vertices, faces[f, 2])
            on = closest_on_triangle(p, a, b, c)
            away = difference(difference(p, a), scaled(on[1], difference(b, a)))
            away = difference(away, scaled(on[2], difference(c, a)))
            square = dot(away, away)
            if square < limit or (face < 0 and square == limit):  # of equally near faces the first
                limit, face, weights = square, f, on
        top = next_leaf(boxes, p, p, limit, stack, top)
    return face, weights
