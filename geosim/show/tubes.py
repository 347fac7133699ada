"""Closed tubes around rods and cables: neighbouring edges share a ring, all other ends are round.

The rings of a chain are carried along it without twist, so that a tube keeps its width. A shared ring lies in the plane between
two edges. There a tube of radius r has the section of a mitre, an ellipse of the half axes r and r / cos(turn / 2).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, dot, row, scaled
from geosim.rods.frames import carried

DOME_ANGLES = np.pi / 8 * np.arange(4)  # of the rings of a round end, from its edge to its pole


def tubes(positions: Floats, edges: Ints, radius: Floats, sides: int = 12) -> tuple[Floats, Ints]:
    """Return points [m] (p, 3) and outward triangles (t, 3); the same edges and radii have the same triangles.

    Parameters
    ----------
    positions
        Of the vertices [m], shape (n, 3).
    edges, radius
        Vertices of the edges, shape (E, 2), and their radius [m], shape (E,).
    sides
        Of the polygon that a section is.
    """
    axis = positions[edges[:, 1]] - positions[edges[:, 0]]
    length = np.linalg.norm(axis, axis=1)
    axis /= np.maximum(length, MIN_DIVISOR)[:, None]
    # ends of edges: 2 e is at the first vertex of the edge e, 2 e + 1 at the second
    vertex, away = edges.ravel(), np.stack([axis, -axis], axis=1).reshape(-1, 3)
    one, two = _shared_ends(vertex, radius, len(positions))
    other = np.full(len(vertex), -1)
    other[one], other[two] = two, one
    across, sense = np.empty((len(edges), 2, 3)), np.empty(len(edges))
    _carry_frames(axis, other, across, sense)
    angle = 2.0 * np.pi * np.arange(sides) / sides
    circle = np.einsum("sc,eci->esi", np.stack([np.cos(angle), np.sin(angle)], axis=1), across) * radius[:, None, None]
    mitres = _mitred(circle[one // 2], away[two] - away[one], away[one] + away[two])
    mitres *= (0.5 + 0.5 * radius[two // 2] / radius[one // 2])[:, None, None]
    mitres += positions[vertex[one]][:, None]
    free = np.flatnonzero(other < 0)
    outward = -away[free][:, None] * radius[free // 2][:, None, None]
    rings = [np.cos(a) * circle[free // 2] + np.sin(a) * outward for a in DOME_ANGLES]
    domes = np.concatenate([*rings, outward], axis=1) + positions[vertex[free]][:, None]
    start = np.empty(len(vertex), dtype=np.int64)  # of the ring at every end
    start[one] = start[two] = sides * np.arange(len(one))
    start[free] = mitres.size // 3 + domes.shape[1] * np.arange(len(free))
    points = np.concatenate([mitres.reshape(-1, 3), domes.reshape(-1, 3)])
    back = sense < 0
    bands = [band(start[0::2], start[1::2], sides, back)]
    inward = back[free // 2] ^ (free % 2 == 0)
    levels = [start[free] + sides * level for level in range(len(DOME_ANGLES))]
    bands += [band(low, high, sides, inward) for low, high in itertools.pairwise(levels)]
    k = levels[-1][:, None] + np.arange(sides)
    poles = np.repeat((start[free] + domes.shape[1] - 1)[:, None], sides, axis=1)
    bands.append(_turned(np.stack([k, np.roll(k, -1, axis=1), poles], axis=2), inward))
    return points, np.concatenate(bands)


def _shared_ends(vertex: Ints, radius: Floats, count: int) -> tuple[Ints, Ints]:
    """Ends of edges that meet with no third at one of `count` vertices, and are about as thick: the one, and the other."""
    most_radius_step = 0.3  # of the thicker edge; edges that differ by more end for themselves
    order = np.argsort(vertex, kind="stable")
    paired = order[np.bincount(vertex, minlength=count)[vertex[order]] == 2].reshape(-1, 2)
    thin, thick = np.sort(radius[paired // 2], axis=1).T
    one, two = paired[thick - thin <= most_radius_step * thick].T
    return one, two


def _mitred(section: Floats, flow: Floats, inside: Floats) -> Floats:
    """Sections (p, sides, 3) of first edges, turned into the planes across `flow` (p, 3) and stretched towards `inside`.

    `flow` is the sum of the directions along both edges of a pair, and `inside` their difference.
    """
    most_stretch = 2.0  # of a mitre: sharper bends are narrower there, not pointed
    along, bend = np.linalg.norm(flow, axis=1), np.linalg.norm(inside, axis=1)  # 2 cos, 2 sin of turn / 2
    flow = flow / np.maximum(along, MIN_DIVISOR)[:, None]
    inside = inside / np.maximum(bend, MIN_DIVISOR)[:, None]
    radius = np.linalg.norm(section, axis=2, keepdims=True)
    flat = section - np.einsum("psi,pi->ps", section, flow)[:, :, None] * flow[:, None]
    flat *= radius / np.maximum(np.linalg.norm(flat, axis=2, keepdims=True), MIN_DIVISOR)
    stretch = np.minimum(2.0 / np.maximum(along, MIN_DIVISOR), most_stretch)
    more = np.einsum("psi,pi->ps", flat, inside) * (stretch - 1.0)[:, None]
    return np.asarray(flat + more[:, :, None] * inside[:, None])


def band(low: Ints, high: Ints, sides: int, back: Bools) -> Ints:
    """Return triangles between rings of `sides` points that begin at `low` and `high`, turned where `back`."""
    k = np.arange(sides)
    n = (k + 1) % sides
    a, b, c, d = low[:, None] + k, low[:, None] + n, high[:, None] + k, high[:, None] + n
    return _turned(np.concatenate([np.stack([a, b, c], axis=2), np.stack([b, d, c], axis=2)], axis=1), back)


def _turned(triangles: Ints, back: Bools) -> Ints:
    """Triangles (g, t, 3) of groups as (g t, 3), in the other sense where `back` (g,)."""
    return np.where(back[:, None, None], triangles[:, :, ::-1], triangles).reshape(-1, 3)


@kernel
def _carry_frames(axis, other, across, sense):
    """Fill two directions across the edges (E, 2, 3), and whether a chain runs along each edge (+1) or against it (-1).

    `other` names for every end of an edge the end that it meets, or -1: 2 e is at the first vertex of the edge e.
    """
    most_along = 0.9
    done = np.zeros(len(axis), dtype=np.bool_)
    for seed in range(len(axis)):
        if done[seed]:
            continue
        end = 2 * seed  # from which a chain leaves along an edge; first back to where it begins, or once round
        while other[end] >= 0 and other[end] // 2 != seed:
            end = other[end] ^ 1
        t = scaled(1.0 - 2.0 * (end % 2), row(axis, end // 2))
        d = cross(t, (0.0, 1.0, 0.0) if abs(t[1]) < most_along else (1.0, 0.0, 0.0))
        d = scaled(1.0 / math.sqrt(dot(d, d)), d)
        while not done[end // 2]:
            edge = end // 2
            done[edge], sense[edge] = True, 1.0 - 2.0 * (end % 2)
            ahead = scaled(sense[edge], row(axis, edge))
            if 1.0 + dot(t, ahead) > 1e-9:  # else it runs back, and d stands across it
                d = carried(d, t, ahead)
            t, second = ahead, cross(ahead, d)
            for c in range(3):
                across[edge, 0, c], across[edge, 1, c] = d[c], second[c]
            if other[end ^ 1] < 0:
                break
            end = other[end ^ 1]
