"""Coarsens surfaces that are cut finer than any mesh needs, by edges that collapse where the surface hardly moves.

An edge becomes the point of least squared distance from the planes of all triangles that were merged into its ends [Garland and
Heckbert 1997, Proc. SIGGRAPH]. It may where the root mean square of these distances stays below what is allowed there, no
triangle turns over, none becomes a sliver that was none, and the surface keeps its topology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.intersections import farthest_from
from geosim.geometry.surface import Surface, check_surface
from geosim.geometry.topology import face_normals
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot

COORDINATE_NOISE_REL = 1e-9  # of the size: ends of an edge nearer to all planes than its middle by less are no better


def simplified(surface: Surface, within: float | np.ndarray, max_edge: float = np.inf) -> Surface:
    """Return a checked surface with fewer triangles, no farther than `within` [m] from the one given, and a notice.

    A surface that cannot be coarsened comes back as it is, with a notice.

    Parameters
    ----------
    surface
        A checked surface.
    within
        How far it may move [m]: everywhere, or at each vertex (n,); the largest is measured afterwards.
    max_edge
        No longer edges are made [m], but where there were some.
    """
    # Of the distance allowed, what is tried: where the whole makes a thin wall cross itself, less may not.
    tolerance_shares = (1.0, 0.5, 0.25)
    most = float(np.max(within))
    for share in tolerance_shares:
        vertices, faces = collapsed(surface.vertices, surface.faces, np.multiply(share, within), max_edge)
        if len(faces) == len(surface.faces):
            break  # within less no more can go
        try:
            found = check_surface(replace(surface, vertices=vertices, faces=faces, notices=()), allow_any_size=True)
        except InputError:
            continue
        apart = deviation(surface, found)[0]
        if apart <= most:
            notice = (
                f"{surface.label}: simplified from {len(surface.faces)} to {len(found.faces)} triangles, within "
                f"{apart * 1e3:.2g} mm; its volume changed by {(found.volume - surface.volume) * 1e9:+.3g} mm^3"
            )
            return replace(found, notices=(*surface.notices, notice))
    notice = f"{surface.label}: no triangle can go within {most * 1e3:.2g} mm; it is kept as it is"
    return replace(surface, notices=(*surface.notices, notice))


def deviation(first: Any, second: Any, both: bool = True) -> tuple[float, np.ndarray]:
    """Largest distance [m] of a surface from another, or both ways, at corners, mid-edges and centres; and where, (3,)."""
    found = []
    for a, b in ((first, second), (second, first))[: 2 if both else 1]:
        corners = a.vertices[a.faces]
        middles = 0.5 * (corners + np.roll(corners, 1, axis=1))
        points = np.concatenate([corners.reshape(-1, 3), middles.reshape(-1, 3), corners.mean(axis=1)])
        found.append(farthest_from(points, b.vertices, b.faces))
    return max(found, key=lambda item: item[0])


def collapsed(
    vertices: np.ndarray, faces: np.ndarray, within: float | np.ndarray, max_edge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Collapse edges of a closed surface, the cheaper ones first, until none may go.

    Parameters
    ----------
    vertices, faces
        Positions [m] (n, 3), ids (m, 3), two triangles an edge.
    within
        Root mean square of the distances from the planes of merged triangles [m] that is allowed, a number or (n,); where it
        is 0, a vertex stays.
    max_edge
        Longest edge that is made [m], but where there was a longer one.
    """
    cost_shares = (0.1, 0.3, 1.0)  # of the distance allowed: cheap edges go first, as in one queue of all edges
    x, n = vertices.copy(), len(vertices)
    allowed = np.broadcast_to(np.asarray(within, dtype=float), n).copy()
    quadrics, weight = _quadrics(x, faces)
    for share in cost_shares:
        found = 1
        while found:
            directed = shells.edges(faces)[0]
            a, b = directed[directed[:, 0] < directed[:, 1]].T  # each edge once
            point, cost = _optimum(x, quadrics, weight, a, b)
            most = share * np.minimum(allowed[a], allowed[b])
            cheap = np.flatnonzero((most > 0.0) & (cost <= most**2))  # in a plane the cost is 0, too
            order = cheap[np.argsort(cost[cheap], kind="stable")]
            member = np.argsort(faces.ravel(), kind="stable") // 3
            starts = np.searchsorted(np.sort(faces.ravel()), np.arange(n + 1))
            chosen = order[_collapsible(x, faces, starts, member, a[order], b[order], point[order], max_edge)]
            found, a, b = len(chosen), a[chosen], b[chosen]
            x[a], allowed[a] = point[chosen], np.minimum(allowed[a], allowed[b])
            quadrics[a] += quadrics[b]
            weight[a] += weight[b]
            target = np.arange(n)
            target[b] = a
            faces = np.ascontiguousarray(shells.drop_degenerate(target[faces])[0])  # folds of no thickness, too
    return shells.compact(x, faces)


def _quadrics(x: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum over the triangles of each vertex of area times the squared distance from their planes, (n, 4, 4), and of area (n,)."""
    normals = face_normals(x, faces)
    size = np.maximum(np.linalg.norm(normals, axis=1), np.finfo(float).tiny)
    unit = normals / size[:, None]
    plane = np.column_stack([unit, -np.einsum("ij,ij->i", unit, x[faces[:, 0]])])
    one = size[:, None, None] * plane[:, :, None] * plane[:, None, :]
    quadrics, weight = np.zeros((len(x), 4, 4)), np.zeros(len(x))
    for corner in faces.T:
        np.add.at(quadrics, corner, one)
        np.add.at(weight, corner, size)
    return quadrics, weight


def _optimum(
    x: np.ndarray, quadrics: np.ndarray, weight: np.ndarray, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points (e, 3) that edges collapse to, and the mean squared distances [m^2] (e,) from the planes there."""
    # Weight of the middle of an edge beside the planes: where they leave its point free, as on flat faces, it stays in
    # the middle.
    middle_weight_rel = 1e-3
    q, w = quadrics[a] + quadrics[b], weight[a] + weight[b]
    middle = 0.5 * (x[a] + x[b])
    shift = np.einsum("eij,ej->ei", q[:, :3, :3], middle) + q[:, :3, 3]
    stiff = q[:, :3, :3] + (middle_weight_rel * w)[:, None, None] * np.eye(3)
    points = np.stack([middle - np.linalg.solve(stiff, shift[..., None])[..., 0], x[a], x[b]], axis=1)
    homogeneous = np.concatenate([points, np.ones((len(a), 3, 1))], axis=2)
    cost = np.einsum("epi,eij,epj->ep", homogeneous, q, homogeneous) / w[:, None]
    cost[:, 1:] += (COORDINATE_NOISE_REL * np.ptp(x)) ** 2
    best = np.argmin(cost, axis=1)[
        :, None
    ]  # of an edge between a ridge and a face the end on the ridge, which is exact
    return np.take_along_axis(points, best[..., None], axis=1)[:, 0], np.take_along_axis(cost, best, axis=1)[:, 0]


@kernel
def _collapsible(x, faces, starts, member, first, second, point, max_edge):
    """Whether each edge collapses to its point, in their order, where none within a triangle of it has before."""
    touched, chosen = np.zeros(len(x), dtype=np.bool_), np.zeros(len(first), dtype=np.bool_)
    for e in range(len(first)):
        a, b = first[e], second[e]
        if touched[a] or touched[b] or _shared_neighbours(faces, starts, member, a, b) != 2:
            continue
        chosen[e] = _keeps_shape(x, faces, starts, member, a, b, point[e], max_edge) and _keeps_shape(
            x, faces, starts, member, b, a, point[e], max_edge
        )
        if chosen[e]:
            for end in (a, b):
                for k in range(starts[end], starts[end + 1]):
                    for i in range(3):
                        touched[faces[member[k], i]] = True
    return chosen


@kernel
def _is_triangle(faces, starts, member, a, b, c):
    """Whether three vertices have a triangle."""
    for k in range(starts[a], starts[a + 1]):
        has_b = has_c = False
        for v in faces[member[k]]:
            has_b, has_c = has_b or v == b, has_c or v == c
        if has_b and has_c:
            return True
    return False


@kernel
def _shared_neighbours(faces, starts, member, a, b):
    """Number of vertices joined to both ends of an edge: two, or the collapse would pinch the surface.

    Not counted is what a fold of no thickness brings: a vertex v with triangles (a, v, m) and (b, m, v), where (a, b, m) is one
    of the two that go. They become one triangle and its opposite, and go as well.
    """
    count = 0
    for k in range(starts[a], starts[a + 1]):
        for i in range(3):
            if faces[member[k], i] != a:
                continue
            v, m = faces[member[k], (i + 1) % 3], faces[member[k], (i + 2) % 3]
            before, is_shared = _beside(faces, starts, member, v, a, b)
            if v == b or not is_shared:
                continue
            folded = False
            for w in (m, before):
                if w >= 0 and w != b and _is_triangle(faces, starts, member, a, b, w):
                    folded = folded or _is_triangle(faces, starts, member, b, v, w)
            count += not folded
    return count


@kernel
def _beside(faces, starts, member, v, a, b):
    """Third vertex of the triangle with the edge from v to a, or -1, and whether v is joined to b."""
    before, is_shared = -1, False
    for n in range(starts[v], starts[v + 1]):
        for j in range(3):
            if faces[member[n], j] == v:
                after, third = faces[member[n], (j + 1) % 3], faces[member[n], (j + 2) % 3]
                is_shared = is_shared or after == b or third == b
                if after == a:
                    before = third
    return before, is_shared


@kernel
def _keeps_shape(x, faces, starts, member, a, b, point, max_edge):
    """Whether the triangles at a that the edge from a to b does not bound stay sound as a moves to the point."""
    min_turn_cosine = 0.8  # between the normals of a triangle before and after: ridges stay, and nothing folds
    # Shape of a triangle, and what a worse one keeps of its own: needles shorten by way of others.
    min_shape, kept_shape = 0.5, 0.7
    for k in range(starts[a], starts[a + 1]):
        f = member[k]
        i = 0
        while faces[f, i] != a:
            i += 1
        v, w = faces[f, (i + 1) % 3], faces[f, (i + 2) % 3]
        if v == b or w == b:
            continue
        longest, area, shape, normal = _measured(x[v], x[w], x[a])
        new_longest, new_area, new_shape, new_normal = _measured(x[v], x[w], point)
        if new_longest > max(max_edge, longest / kept_shape) or new_shape < min(min_shape, kept_shape * shape):
            return False
        if dot(normal, new_normal) < min_turn_cosine * area * new_area:
            return False
    return True


@kernel
def _measured(v, w, apex):
    """Longer edge at the apex of a triangle, twice its area, its shape, and its normal as long as twice the area."""
    # Twice a triangle's area times this over the sum of its squared edges is its shape: 1 is equilateral.
    shape_factor = 2.0 * np.sqrt(3.0)
    side, to_v, to_w = difference(w, v), difference(apex, v), difference(apex, w)
    normal = cross(side, to_v)
    area, squares = np.sqrt(dot(normal, normal)), np.array([dot(side, side), dot(to_v, to_v), dot(to_w, to_w)])
    return np.sqrt(squares[1:].max()), area, shape_factor * area / squares.sum(), normal
