"""Edges that cross edges: what collisions of vertices do not see, where long edges of a wall fold onto each other.

An edge A that pierces a face while no vertex is inside anything has passed over an edge B of it. The pair gets a spring between
its nearest points, along A x B, which is written like that of a vertex and a face,

    x_a - sum_i b_i x_i,   b = (-t, 1 - u, u) / (1 - t)    for A = (a, a'), B and the nearest points at t <= 1/2 and u.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.crossings import count_crossings

__all__ = ["crossing_edges", "edge_spring", "nearest_on_lines"]

OVERHANG = 0.05  # of its length, beyond the ends of an edge: there a pair still counts as one
PARALLEL = 1e-6  # sine of the angle of two edges below which they have no common normal


def nearest_on_lines(x: Floats, first: Ints, second: Ints) -> tuple[Floats, Floats, Floats]:
    """Parameters t and u (k,) of the nearest points of lines through edges (k, 2), and the unit common normal (k, 3).

    The normal is nan where the edges are parallel.
    """
    a, b = x[first[:, 1]] - x[first[:, 0]], x[second[:, 1]] - x[second[:, 0]]
    off, normal = x[second[:, 0]] - x[first[:, 0]], np.cross(a, b)
    square = np.einsum("ij,ij->i", normal, normal)
    flat = square <= PARALLEL**2 * np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b)
    square[flat] = np.nan
    t = np.einsum("ij,ij->i", np.cross(off, b), normal) / square
    u = np.einsum("ij,ij->i", np.cross(off, a), normal) / square
    return t, u, normal / np.sqrt(square)[:, None]


def crossing_edges(x: Floats, faces: Ints, seen: Ints) -> tuple[Ints, Ints, Floats]:
    """Edges that pierce faces, the edges of the faces that they have passed (k, 2), and the faces' unit normals (k, 3).

    Parameters
    ----------
    x
        Positions [m], (n, 3).
    faces
        Triangles of the surface, outward (m, 3).
    seen
        Vertices that are looked after already: their edges and faces are left out.
    """
    found = count_crossings(x, faces)
    edges, pierced = found.edges, faces[found.faces]
    late = ~(np.isin(edges, seen).any(axis=1) | np.isin(pierced, seen).any(axis=1))
    edges, pierced = edges[late], pierced[late]
    corners = x[pierced]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    others, best = np.zeros((len(edges), 2), dtype=np.int64), np.full(len(edges), np.inf)
    for i in range(3):  # the edge of the face that is nearest to where it is pierced
        side = np.stack([pierced[:, i], pierced[:, (i + 1) % 3]], axis=1)
        t, u, across = nearest_on_lines(x, edges, side)
        gap = np.abs(np.einsum("ij,ij->i", x[edges[:, 0]] - x[side[:, 0]], across))
        gap[~((t >= 0.0) & (t <= 1.0) & (u >= 0.0) & (u <= 1.0))] = np.inf
        better = gap < best
        others[better], best[better] = side[better], gap[better]
    kept = np.isfinite(best)
    pairs = np.sort(np.concatenate([np.sort(edges, axis=1), np.sort(others, axis=1)], axis=1), axis=1)
    _, once = np.unique(np.where(kept[:, None], pairs, -1), axis=0, return_index=True)
    once = np.sort(once[kept[once]])
    return edges[once], others[once], normal[once]


def edge_spring(x: Floats, first: Ints, second: Ints, side: Floats) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """Vertices, corners (k, 3), their shares (k, 3), unit normals (k, 3) and gaps [m] of springs between edges (k, 2).

    `side` are vectors on whose side the first edge belongs (k, 3). Pairs that do not pass over each other are left out.
    """
    t, u, normal = nearest_on_lines(x, first, second)
    over = (np.abs(t - 0.5) <= 0.5 + OVERHANG) & (np.abs(u - 0.5) <= 0.5 + OVERHANG)
    first, second, t, u, normal = first[over], second[over], t[over], u[over], normal[over]
    normal *= np.where(np.einsum("ij,ij->i", normal, side[over]) < 0.0, -1.0, 1.0)[:, None]
    far = t > 0.5
    ends, t = np.where(far[:, None], first[:, ::-1], first), np.clip(np.where(far, 1.0 - t, t), 0.0, 1.0)
    u = np.clip(u, 0.0, 1.0)
    corners = np.column_stack([ends[:, 1], second])
    shares = np.column_stack([-t, 1.0 - u, u]) / (1.0 - t)[:, None]
    away = x[ends[:, 0]] - np.einsum("ij,ijk->ik", shares, x[corners])
    return ends[:, 0], corners, shares, normal, np.einsum("ij,ij->i", away, normal)
