"""Improves the worst tets of a mesh: flat ones on walls become a part of what is beyond, vertices of others move.

A Delaunay mesher bounds the edges of tets by their circumspheres, which leaves slivers: four vertices nearly in a plane. Beside a
wall a sliver is two triangles turned the other way. Elsewhere it ends with a vertex that moves, inside the body or along a wall.
The worst radius ratios of nine CAD parts are 0.06 to 0.11 after it and 0.00 to 0.10 before.
"""

from __future__ import annotations

import itertools

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, put, row, turned

POOR_RADIUS_RATIO = 0.1  # a tet below is made better


def polished(
    vertices: Floats, tets: Ints, regions: Ints, bodies: tuple[int, ...], off: float = np.inf
) -> tuple[Floats, Ints, Ints]:
    """Return a mesh with better tets of bodies.

    Parameters
    ----------
    vertices, tets, regions
        Positions [m] (n, 3), positively oriented tets (m, 4), regions (m,).
    bodies
        Regions whose tets count.
    off
        How far walls may move [m], about.
    """
    peeling_rounds, moving_rounds = 3, 8
    # Poor tets, at least, and their share: more are no slivers, but what the mesher leaves where surfaces run into each other.
    many_poor, max_poor_share = 100, 0.1
    for _ in range(peeling_rounds):
        changed, regions = _peeled(vertices, tets, regions, bodies, off)
        kept = regions >= 0
        tets, regions = np.ascontiguousarray(tets[kept]), np.ascontiguousarray(regions[kept])
        if not changed:
            break
    free, reach = _freedom(vertices, tets, regions, off)
    order = np.argsort(tets.ravel(), kind="stable")
    starts = np.searchsorted(tets.ravel()[order], np.arange(len(vertices) + 1))
    x, counts = vertices.copy(), np.isin(regions, bodies)
    ways = np.array([way for way in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(way)])
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    for _ in range(moving_rounds):
        ratio = np.where(counts, radius_ratios(x, tets), 1.0)
        poor = np.argsort(ratio, kind="stable")[: int((ratio < POOR_RADIUS_RATIO).sum())]
        if len(poor) > max(many_poor, max_poor_share * len(tets)):
            break
        if not _move(x, tets, poor, counts, starts, order // 4, free, ways, vertices, reach):
            break
    return x, tets, regions


def radius_ratios(vertices: Floats, tets: Ints) -> Floats:
    """3 x inscribed / circumscribed radius of tets (m,), negative for those that are turned over."""
    out = np.empty(len(tets))
    _ratios(vertices, tets, out)
    return out


def _peeled(vertices: Floats, tets: Ints, regions: Ints, bodies: tuple[int, ...], off: float) -> tuple[int, Ints]:
    """Give poor tets of bodies with two faces on one wall to what is beyond it, -1 for the outside; and how many there were."""
    faces, inner, outer, sides = topology.walls(tets, regions)
    owner, beyond = np.concatenate([inner, outer]), np.concatenate([sides[:, 1], sides[:, 0]])
    face = np.tile(np.arange(len(faces)), 2)
    is_body = np.isin(regions, bodies)
    poor = is_body & (np.bincount(owner[owner >= 0], minlength=len(tets)) == 2)
    poor[poor] = radius_ratios(vertices, np.ascontiguousarray(tets[poor])) < POOR_RADIUS_RATIO
    used = {tuple(e) for e in np.sort(faces[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1).tolist()}
    order = np.argsort(owner, kind="stable")
    at = np.searchsorted(owner[order], np.flatnonzero(poor))
    max_turn_cosine = 0.9  # between the two faces: an edge of the wall stays
    unit = topology.face_normals(vertices, faces)
    unit /= np.maximum(np.linalg.norm(unit, axis=1), np.finfo(float).tiny)[:, None]
    # of one tet both are turned outward, or both inward
    turn = np.repeat([1.0, -1.0], len(faces))
    out, changed = regions.copy(), 0
    for tet, one, two in zip(np.flatnonzero(poor), order[at], order[at + 1]):
        tips = tuple(np.setxor1d(faces[face[one]], faces[face[two]]).tolist())
        flat = turn[one] * turn[two] * (unit[face[one]] @ unit[face[two]]) > max_turn_cosine
        a, b = vertices[np.intersect1d(faces[face[one]], faces[face[two]])]
        across = np.cross(b - a, vertices[tips[1]] - vertices[tips[0]])
        high = abs(across @ (vertices[tips[0]] - a)) / max(np.linalg.norm(across), np.finfo(float).tiny)
        if (
            flat
            and high < off
            and beyond[one] == beyond[two]
            and not (beyond[one] >= 0 and is_body[regions == beyond[one]].any())
            and tips not in used
        ):
            used.add(tips)
            out[tet] = beyond[one]
            changed += 1
    return changed, out


def _freedom(vertices: Floats, tets: Ints, regions: Ints, off: float) -> tuple[Floats, Floats]:
    """Projections (n, 3, 3) on the directions in which vertices may move, along walls that they are on; how far [m] (n,)."""
    # Of the squared normals of the triangles at a vertex: below, they say nothing of a direction. Two that turn by up to 20
    # degrees slide along their middle.
    sliding_share = 0.03
    wall = topology.walls(tets, regions)[0]
    normals = topology.face_normals(vertices, wall)
    size = np.maximum(np.linalg.norm(normals, axis=1), np.finfo(float).tiny)
    squares = normals[:, :, None] * normals[:, None, :] / size[:, None, None]
    total = np.zeros((len(vertices), 3, 3))
    for corner in wall.T:
        np.add.at(total, corner, squares)
    values, ways = np.linalg.eigh(total)
    whole = values.sum(axis=1, keepdims=True)
    share = values / np.maximum(whole, np.finfo(float).tiny)
    free = (whole == 0.0) | (share <= sliding_share)
    slope = np.sqrt(np.where(free, np.maximum(share, 0.0), 0.0).max(axis=1))  # off the wall, over the way along it
    reach = np.where(slope > 0.0, off / np.maximum(slope, np.finfo(float).tiny), np.inf)
    return np.ascontiguousarray(np.einsum("nij,nj,nkj->nik", ways, free.astype(float), ways)), reach


@kernel
def _ratios(x, tets, out):
    for t in range(len(tets)):
        out[t] = _ratio(row(x, tets[t, 0]), row(x, tets[t, 1]), row(x, tets[t, 2]), row(x, tets[t, 3]))


@kernel
def _ratio(p, q, r, s):
    """3 x inscribed / circumscribed radius: 18 V times six volumes over the areas and the circumradius (after Crelle)."""
    a, b, c = difference(q, p), difference(r, p), difference(s, p)
    six = dot(cross(a, b), c)
    bc, ca, ab = cross(b, c), cross(c, a), cross(a, b)
    d = cross(difference(b, a), difference(c, a))
    areas = np.sqrt(dot(bc, bc)) + np.sqrt(dot(ca, ca)) + np.sqrt(dot(ab, ab)) + np.sqrt(dot(d, d))
    # the centre of the circumsphere from p is this over twice six volumes
    to = combine(dot(a, a), bc, dot(b, b), ca)
    to = combine(1.0, to, dot(c, c), ab)
    across = np.sqrt(dot(to, to))
    ratio = 6.0 * six * abs(six) / max(areas * across, 1e-300)
    return ratio if ratio < 1.01 else 0.0  # of four points of a square, whose sums are rounding


@kernel
def _move(x, tets, poor, counts, starts, star, free, ways, start, reach):
    """Move vertices of poor tets to where the worst tet round them is best; return how many moved."""
    halvings, gain, moved = 6, 1.01, 0
    for t in poor:
        for i in range(4):
            v = tets[t, i]
            if free[v, 0, 0] + free[v, 1, 1] + free[v, 2, 2] < 0.5:  # a corner
                continue
            step, best = np.inf, _worst(x, tets, counts, star[starts[v] : starts[v + 1]])
            for k in range(starts[v], starts[v + 1]):
                for j in range(4):
                    side = difference(row(x, tets[star[k], j]), row(x, v))
                    step = min(step, 0.5 * np.sqrt(dot(side, side))) if tets[star[k], j] != v else step
            for _ in range(halvings):
                here, chosen, better = row(x, v), row(x, v), False
                for w in range(len(ways)):
                    put(x[v], combine(1.0, here, step, turned(free[v], row(ways, w))))
                    way = difference(row(x, v), row(start, v))
                    if dot(way, way) > reach[v] * reach[v]:
                        continue
                    worst = _worst(x, tets, counts, star[starts[v] : starts[v + 1]])
                    if worst > gain * best and worst > 0.0:
                        best, chosen, better = worst, row(x, v), True
                put(x[v], chosen)
                moved += better
                step = step if better else 0.5 * step
    return moved


@kernel
def _worst(x, tets, counts, star):
    """Least radius ratio of tets; of those that do not count 1, unless they are turned over."""
    worst = 1.0
    for t in star:
        ratio = _ratio(row(x, tets[t, 0]), row(x, tets[t, 1]), row(x, tets[t, 2]), row(x, tets[t, 3]))
        if counts[t] or ratio <= 1e-4:
            worst = min(worst, ratio)
    return worst
