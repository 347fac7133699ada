"""Edges that cross edges: what collisions of vertices do not see, where long edges of a wall fold onto each other.

An edge A that pierces a face while no vertex is inside anything has passed over an edge B of it. The pair gets a spring between
its nearest points, along n = A x B, which is written like that of a vertex and a face,

    (1 - t) n . (x_a - sum_i b_i x_i),   b = (-t, 1 - u, u) / (1 - t)

for A = (a, a'), B and the nearest points at t <= 1/2 and u. Those and n follow the edges in every evaluation. Where they stood
still until the next check, steps went to and fro between two normals for ever. A belongs on the side where it came from; normals
of a folded wall do not tell.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.crossings import Crossings

__all__ = ["crossing_edges", "edge_gaps", "edge_spring", "nearest_on_lines", "pierces"]

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


def crossing_edges(x: Floats, before: Floats, found: Crossings, faces: Ints, seen: Ints) -> tuple[Ints, Ints, Floats]:
    """Edges that pierce faces, the edges of the faces that they have passed (k, 2), and where the first belong (k, 3).

    Edges have passed each other where the sign of n . (x_a - x_b) is another now than somewhere on the straight way, while their
    nearest points lay on both. Signs of edges that are not over each other say nothing: those are of lines, which go on for ever.

    Parameters
    ----------
    x, before
        Positions now, and where nothing crossed [m], (n, 3).
    found, faces
        What crosses at x, and the triangles of the surface (m, 3).
    seen
        Vertices that are looked after already: their edges and faces are left out.
    """
    looks = 32  # on the way: a robot that has moved by some edges since is looked at several times an edge
    edges, pierced = found.edges, faces[found.faces]
    late = ~(np.isin(edges, seen).any(axis=1) | np.isin(pierced, seen).any(axis=1))
    edges, pierced = edges[late], pierced[late]
    others, best = np.zeros((len(edges), 2), dtype=np.int64), np.full(len(edges), np.inf)
    sides = np.zeros((len(edges), 3))
    for i in range(3):  # the edge of the face that is nearest to where it is pierced
        side = np.stack([pierced[:, i], pierced[:, (i + 1) % 3]], axis=1)
        over, height, across = _over(x, edges, side)
        passed = np.zeros(len(edges), dtype=bool)
        for share in np.arange(looks) / looks:
            was_over, was, _ = _over((1.0 - share) * before + share * x, edges, side)
            passed |= was_over & (was * height < 0.0)
        gap = np.where(over & passed, np.abs(height), np.inf)
        better = gap < best
        others[better], best[better] = side[better], gap[better]
        sides[better] = -(np.sign(height)[:, None] * across)[better]
    kept = np.isfinite(best)
    pairs = np.sort(np.concatenate([np.sort(edges, axis=1), np.sort(others, axis=1)], axis=1), axis=1)
    _, once = np.unique(np.where(kept[:, None], pairs, -1), axis=0, return_index=True)
    once = np.sort(once[kept[once]])
    return edges[once], others[once], sides[once]


def _over(x: Floats, first: Ints, second: Ints) -> tuple[Bools, Floats, Floats]:
    """Whether the nearest points of lines through edges (k, 2) lie on both, heights n . (x_a - x_b) [m], and normals n (k, 3)."""
    t, u, across = nearest_on_lines(x, first, second)
    over = (t >= 0.0) & (t <= 1.0) & (u >= 0.0) & (u <= 1.0)
    return over, np.einsum("ij,ij->i", x[first[:, 0]] - x[second[:, 0]], across), across


def pierces(found: Crossings, first: Ints, second: Ints) -> Bools:
    """Whether one of two edges (k, 2) pierces anything: where neither does they have not passed each other."""
    size = int(max(found.edges.max(initial=0), first.max(initial=0), second.max(initial=0))) + 1
    of_found, *of_pairs = (np.sort(e, axis=1) @ [size, 1] for e in (found.edges, first, second))
    return np.isin(of_pairs[0], of_found) | np.isin(of_pairs[1], of_found)


def edge_gaps(x: Floats, first: Ints, second: Ints, side: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Gaps of the lines through edges (k, 2) [m], how a motion of x_a along the normal changes them (k,), unit normals and b.

    Moving the nearest points along the lines changes no gap, so its derivative is that at fixed shares.

    Parameters
    ----------
    side
        Vectors on whose side the first edge belongs (k, 3); normals of edges that are parallel.
    """
    t, u, normal = nearest_on_lines(x, first, second)
    flat = np.isnan(t)
    t[flat], u[flat], normal[flat] = 0.0, 0.5, side[flat]
    normal *= np.where(np.einsum("ij,ij->i", normal, side) < 0.0, -1.0, 1.0)[:, None]
    gap = np.einsum("ij,ij->i", x[first[:, 0]] - x[second[:, 0]], normal)
    return gap, 1.0 - t, normal, np.column_stack([-t, 1.0 - u, u]) / (1.0 - t)[:, None]


def edge_spring(x: Floats, first: Ints, second: Ints, side: Floats) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """Vertices, corners (k, 3), their shares (k, 3), unit normals (k, 3) and gaps [m] of springs between edges (k, 2).

    `side` are vectors on whose side the first edge belongs (k, 3). Pairs that do not pass over each other are left out.
    """
    t, u, _ = nearest_on_lines(x, first, second)
    over = (np.abs(t - 0.5) <= 0.5 + OVERHANG) & (np.abs(u - 0.5) <= 0.5 + OVERHANG)
    first, second, t, side = first[over], second[over], t[over], side[over]
    first = np.where((t > 0.5)[:, None], first[:, ::-1], first)
    gap, _, normal, shares = edge_gaps(x, first, second, side)
    return first[:, 0], np.column_stack([first[:, 1], second]), shares, normal, gap
