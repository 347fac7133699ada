"""Questions to a tree: which tet holds a vertex, where a ray leaves a surface, which point of a surface is nearest.

All of them leave out the primitives that a vertex belongs to (the neighbour filter), so that a surface does not
collide with itself at rest.
"""

from __future__ import annotations

import numpy as np

from geosim.collision.tree import Floats, Ints, Tree
from geosim.kernels import kernel

__all__ = ["closest_points", "ray_hits", "vertices_in_tets", "winding_numbers"]


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
) -> tuple[Floats, Ints]:
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
    nearest, face
        Positions [m] (p, 3) and faces (p,), nan and -1 where nothing is within reach.
    """
    own = np.full(len(points), -1, dtype=np.int64) if ids is None else np.ascontiguousarray(ids)
    nearest = np.full((len(points), 3), np.nan)
    face = np.full(len(points), -1, dtype=np.int64)
    surface = np.ascontiguousarray(vertices, dtype=float)
    _closest(
        np.ascontiguousarray(points, dtype=float),
        own,
        surface,
        tree.primitives,
        tree.order,
        tree.boxes,
        reach,
        nearest,
        face,
    )
    return nearest, face


@kernel
def _in_tets(x, ids, tets, order, boxes, out):
    count = len(tets)
    leaves = (len(boxes) + 1) // 2
    stack = np.empty(128, dtype=np.int64)
    for k in range(len(ids)):
        v = ids[k]
        px, py, pz = x[v, 0], x[v, 1], x[v, 2]
        stack[0] = 0
        top = 1
        while top > 0 and out[k] < 0:
            top -= 1
            i = stack[top]
            b = boxes[i]
            if px < b[0] or px > b[3] or py < b[1] or py > b[4] or pz < b[2] or pz > b[5]:
                continue
            if i < leaves - 1:
                stack[top], stack[top + 1] = 2 * i + 1, 2 * i + 2
                top += 2
                continue
            leaf = i - leaves + 1
            for a in range(count * leaf // leaves, count * (leaf + 1) // leaves):
                e = order[a]
                if v in (tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3]):
                    continue
                if _inside(x, tets[e, 0], tets[e, 1], tets[e, 2], tets[e, 3], v):
                    out[k] = e
                    break


@kernel
def _volume(x, a, b, c, d):
    """Six times the signed volume of (a, b, c, d)."""
    ux, uy, uz = x[a, 0] - x[d, 0], x[a, 1] - x[d, 1], x[a, 2] - x[d, 2]
    vx, vy, vz = x[b, 0] - x[d, 0], x[b, 1] - x[d, 1], x[b, 2] - x[d, 2]
    wx, wy, wz = x[c, 0] - x[d, 0], x[c, 1] - x[d, 1], x[c, 2] - x[d, 2]
    return ux * (vy * wz - vz * wy) + uy * (vz * wx - vx * wz) + uz * (vx * wy - vy * wx)


@kernel
def _inside(x, a, b, c, d, v):
    """Whether v is strictly inside the tet (a, b, c, d), of either orientation."""
    whole = _volume(x, a, b, c, d)
    bound = 1e-12 * abs(whole)
    sign = 1.0 if whole > 0 else -1.0
    return (
        sign * _volume(x, v, b, c, d) > bound
        and sign * _volume(x, a, v, c, d) > bound
        and sign * _volume(x, a, b, v, d) > bound
        and sign * _volume(x, a, b, c, v) > bound
    )


@kernel
def _ray_hits(x, ids, directions, faces, order, boxes, distance, face):
    count = len(faces)
    leaves = (len(boxes) + 1) // 2
    stack = np.empty(128, dtype=np.int64)
    for k in range(len(ids)):
        v = ids[k]
        stack[0] = 0
        top = 1
        while top > 0:
            top -= 1
            i = stack[top]
            near, far = 0.0, distance[k]
            for a in range(3):
                d = directions[k, a]
                low, high = boxes[i, a] - x[v, a], boxes[i, a + 3] - x[v, a]
                if abs(d) < 1e-300:
                    if low > 0 or high < 0:
                        far = -1.0
                else:
                    t, u = low / d, high / d
                    near, far = max(near, min(t, u)), min(far, max(t, u))
            if near > far:
                continue
            if i < leaves - 1:
                stack[top], stack[top + 1] = 2 * i + 1, 2 * i + 2
                top += 2
                continue
            leaf = i - leaves + 1
            for a in range(count * leaf // leaves, count * (leaf + 1) // leaves):
                f = order[a]
                if v in (faces[f, 0], faces[f, 1], faces[f, 2]):
                    continue
                t = _ray_triangle(x, v, directions[k], faces[f, 0], faces[f, 1], faces[f, 2])
                if t < distance[k]:
                    distance[k], face[k] = t, f


@kernel
def _ray_triangle(x, v, d, a, b, c):
    """Distance along the ray to the triangle, inf if it is missed (Moeller and Trumbore 1997)."""
    e = (x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2])
    g = (x[c, 0] - x[a, 0], x[c, 1] - x[a, 1], x[c, 2] - x[a, 2])
    p = (d[1] * g[2] - d[2] * g[1], d[2] * g[0] - d[0] * g[2], d[0] * g[1] - d[1] * g[0])
    det = e[0] * p[0] + e[1] * p[1] + e[2] * p[2]
    if det == 0.0:
        return np.inf
    s = (x[v, 0] - x[a, 0], x[v, 1] - x[a, 1], x[v, 2] - x[a, 2])
    u = (s[0] * p[0] + s[1] * p[1] + s[2] * p[2]) / det
    q = (s[1] * e[2] - s[2] * e[1], s[2] * e[0] - s[0] * e[2], s[0] * e[1] - s[1] * e[0])
    w = (d[0] * q[0] + d[1] * q[1] + d[2] * q[2]) / det
    t = (g[0] * q[0] + g[1] * q[1] + g[2] * q[2]) / det
    if u < -1e-12 or w < -1e-12 or u + w > 1.0 + 1e-12 or t <= 0.0:
        return np.inf
    return t


@kernel
def _closest(points, own, vertices, faces, order, boxes, reach, nearest, face):
    count = len(faces)
    leaves = (len(boxes) + 1) // 2
    stack = np.empty(128, dtype=np.int64)
    found = np.empty(3)
    for k in range(len(points)):
        p = points[k]
        best = reach * reach
        stack[0] = 0
        top = 1
        while top > 0:
            top -= 1
            i = stack[top]
            if _box_distance(boxes, i, p) > best:
                continue
            if i < leaves - 1:
                left, right = 2 * i + 1, 2 * i + 2
                if _box_distance(boxes, left, p) < _box_distance(boxes, right, p):
                    left, right = right, left
                stack[top], stack[top + 1] = left, right  # the nearer one is taken first
                top += 2
                continue
            leaf = i - leaves + 1
            for a in range(count * leaf // leaves, count * (leaf + 1) // leaves):
                f = order[a]
                if own[k] >= 0 and own[k] in (faces[f, 0], faces[f, 1], faces[f, 2]):
                    continue
                u, v, w = faces[f, 0], faces[f, 1], faces[f, 2]
                square = _closest_on_triangle(p, vertices[u], vertices[v], vertices[w], found)
                if square <= best:
                    best = square
                    face[k] = f
                    nearest[k] = found


@kernel
def _box_distance(boxes, i, p):
    square = 0.0
    for a in range(3):
        gap = max(boxes[i, a] - p[a], p[a] - boxes[i, a + 3], 0.0)
        square += gap * gap
    return square


@kernel
def _closest_on_triangle(p, a, b, c, out):
    """Write the point of the triangle nearest to p, return the squared distance (regions of Ericson 2005, 5.1.5)."""
    d1, d2, d3, d4, d5, d6 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(3):
        ab, ac = b[k] - a[k], c[k] - a[k]
        d1 += ab * (p[k] - a[k])
        d2 += ac * (p[k] - a[k])
        d3 += ab * (p[k] - b[k])
        d4 += ac * (p[k] - b[k])
        d5 += ab * (p[k] - c[k])
        d6 += ac * (p[k] - c[k])
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0 and d2 <= 0:
        v, w = 0.0, 0.0
    elif d3 >= 0 and d4 <= d3:
        v, w = 1.0, 0.0
    elif vc <= 0 and d1 >= 0 and d3 <= 0:
        v, w = d1 / (d1 - d3), 0.0
    elif d6 >= 0 and d5 <= d6:
        v, w = 0.0, 1.0
    elif vb <= 0 and d2 >= 0 and d6 <= 0:
        v, w = 0.0, d2 / (d2 - d6)
    elif va <= 0 and d4 - d3 >= 0 and d5 - d6 >= 0:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = 1.0 - w
    else:
        v, w = vb / (va + vb + vc), vc / (va + vb + vc)
    square = 0.0
    for k in range(3):
        out[k] = a[k] + v * (b[k] - a[k]) + w * (c[k] - a[k])
        square += (out[k] - p[k]) ** 2
    return square


@kernel
def winding_numbers(points, vertices, faces, out):
    """How often closed, outward faces wind around every point: 1 inside, 0 outside (van Oosterom and Strackee 1983)."""
    for k in range(len(points)):
        total = 0.0
        for f in range(len(faces)):
            a = vertices[faces[f, 0]] - points[k]
            b = vertices[faces[f, 1]] - points[k]
            c = vertices[faces[f, 2]] - points[k]
            la, lb, lc = np.sqrt((a * a).sum()), np.sqrt((b * b).sum()), np.sqrt((c * c).sum())
            det = (
                a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
            )
            total += np.arctan2(det, la * lb * lc + (a * b).sum() * lc + (b * c).sum() * la + (c * a).sum() * lb)
        out[k] = total / (2.0 * np.pi)
