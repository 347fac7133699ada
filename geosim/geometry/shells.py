"""Topology of triangle surfaces: merging, slivers, shells, orientation, winding numbers and inner points.

Functions of plain arrays: vertices (n, 3) in metres, faces (m, 3) of vertex ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from geosim.arrays import norm
from geosim.geometry.topology import face_normals, linked
from geosim.geometry.widths import next_along, unit_normals
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot

# Of the bounding-box diagonal: nearer vertices are one. Single precision STL rounds to 6e-8 of the largest coordinate.
MERGE_TOLERANCE = 1e-7


def signed_volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    """Volume [m^3] enclosed by closed, outward triangles: sum of det(a, b, c) / 6 about the first vertex."""
    a, b, c = np.moveaxis(vertices[faces] - vertices[faces[0, 0]], 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)


def merge_vertices(vertices: np.ndarray, faces: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Make one vertex of those closer than the tolerance [m]; return vertices, faces and how many went."""
    used = np.unique(faces)
    first, second = _near_pairs(vertices[used], tolerance)
    if len(first) == 0:
        return vertices, faces, 0
    label = linked(first, second, len(used))
    count = int(label.max()) + 1
    # The lowest of each cluster stays, whatever the numbering: equal shells in two files stay equal.
    rank = np.empty(len(used), dtype=np.int64)
    rank[np.lexsort(vertices[used].T)] = np.arange(len(used))
    lowest = np.full(count, len(used), dtype=np.int64)
    np.minimum.at(lowest, label, rank)
    kept = np.argsort(rank)[lowest]
    target = np.arange(len(vertices))
    target[used] = used[kept[label]]
    return vertices, target[faces], len(used) - count


def _near_pairs(points: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Ids of all pairs of points within a distance [m]: neighbours, next neighbours, ... along a line askew to usual faces."""
    along = points @ np.array([0.5773, 0.2113, 0.7886])  # no longer than 1: no pair is farther apart along it
    order = np.argsort(along)
    found: list[np.ndarray] = [np.empty((2, 0), dtype=order.dtype)]
    for step in range(1, len(points)):
        close = np.flatnonzero(
            along[order[step:]] - along[order[:-step]] <= 1.001 * distance
        )  # a unit vector but for 3e-5
        if not len(close):
            break
        ends = np.stack([order[close], order[close + step]])
        found.append(ends[:, norm(points[ends[0]] - points[ends[1]], axis=1) <= distance])
    return tuple(np.concatenate(found, axis=1))


def joined(parts: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) and faces (m, 3) of several surfaces, one after the other."""
    points, triangles = zip(*((np.asarray(part.vertices), np.asarray(part.faces)) for part in parts))
    starts = np.cumsum([0, *map(len, points[:-1])])
    return np.vstack(points), np.vstack([faces + start for faces, start in zip(triangles, starts)])


def compact(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop vertices that no face (or tet) uses."""
    used, ids = np.unique(faces, return_inverse=True)
    return np.ascontiguousarray(vertices[used]), np.ascontiguousarray(ids.reshape(faces.shape), dtype=np.int64)


def drop_degenerate(faces: np.ndarray, cancel: bool = True) -> tuple[np.ndarray, int]:
    """Drop triangles with a repeated vertex, and all but one of equal ones (both of a pair of opposite sense that cancels)."""
    a, b, c = faces.T
    kept = faces[(a != b) & (b != c) & (c != a)]
    if len(kept) == 0:
        return kept, len(faces)
    key = np.sort(kept, axis=1)
    even = (kept[:, 0] < kept[:, 1]).astype(int) + (kept[:, 1] < kept[:, 2]) + (kept[:, 2] < kept[:, 0])
    sense = np.where(even == 2, 1, -1)
    _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(group.ravel(), weights=sense)
    kept = kept[np.sort(first[(total != 0) | (not cancel)])]
    return kept, len(faces) - len(kept)


def edges(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every triangle's three directed edges (3m, 2), the id of each undirected edge, and its face."""
    directed = np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    low, high = directed.min(axis=1), directed.max(axis=1)
    _, ids = np.unique(low * (int(faces.max()) + 1) + high, return_inverse=True)
    return directed, ids.ravel(), np.tile(np.arange(len(faces)), 3)


def edge_counts(faces: np.ndarray) -> np.ndarray:
    """Number of triangles on every edge."""
    return np.bincount(edges(faces)[1])


def neighbours(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Face, face and whether they agree in sense, for every edge that two faces have."""
    directed, ids, face = edges(faces)
    order = np.argsort(ids, kind="stable")
    start = np.flatnonzero(np.diff(ids[order], prepend=-1))
    first = start[np.bincount(ids) == 2]
    one, two = order[first], order[first + 1]
    return face[one], face[two], directed[one, 0] != directed[two, 0]


def patches(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patch of every triangle, joined over edges of two; which ones to turn so that patches are coherent; which cannot be.

    One-sided patches, which cannot be coherent, stay as they are.
    """
    left, right, agree = neighbours(faces)
    m = len(faces)
    # Double cover: (face, kept) and (face, turned). Two copies of one face connected: no consistent sense.
    cover = linked(
        np.concatenate([left, left + m]),
        np.concatenate([np.where(agree, right, right + m), np.where(agree, right + m, right)]),
        2 * m,
    )
    return linked(left, right, m), cover[:m] > cover[m:], cover[:m] == cover[m:]


def shell_ids(faces: np.ndarray) -> np.ndarray:
    """Number of the edge-connected shell of every triangle (two triangles an edge)."""
    left, right, _ = neighbours(faces)
    return linked(left, right, len(faces))


def flip_slivers(vertices: np.ndarray, faces: np.ndarray, tolerance: float) -> tuple[np.ndarray, int, int]:
    """Remove triangles flatter than the tolerance [m] by flipping their longest edge.

    A sliver (a, b, c) with c on the edge ab and its neighbour (b, a, d) become (c, a, d) and (d, b, c): the surface
    moves by at most the tolerance. Returns faces, how many slivers went, how many are left.
    """
    max_flip_rounds = 30  # of edge flips; each mends one of two neighbouring slivers
    faces = faces.copy()
    begin = len(_slivers(vertices, faces, tolerance))
    for _ in range(max_flip_rounds):
        slivers = _slivers(vertices, faces, tolerance)
        if len(slivers) == 0:
            break
        _, ids, face = edges(faces)
        order = np.argsort(ids, kind="stable").reshape(-1, 2)
        partner = np.empty(len(ids), dtype=np.int64)
        partner[order[:, 0]], partner[order[:, 1]] = order[:, 1], order[:, 0]
        touched: set[int] = set()
        for f in slivers:
            corners = vertices[faces[f]]
            lengths = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
            side = int(np.argmax(lengths))
            mate = partner[side * len(faces) + f]
            g = int(face[mate])
            if f in touched or g in touched:
                continue
            a, b, c = np.roll(faces[f], -side)
            apex = np.setdiff1d(faces[g], [a, b])
            if len(apex) != 1 or apex[0] == c:
                continue
            faces[f] = (c, a, apex[0])
            faces[g] = (apex[0], b, c)
            touched.update((int(f), g))
        if not touched:
            break
        counts = edge_counts(faces)
        if np.any(counts != 2):
            return faces, 0, begin
    left = len(_slivers(vertices, faces, tolerance))
    return faces, begin - left, left


def heights(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Smallest heights of triangles [m], shape (m,)."""
    corners = vertices[faces]
    longest = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).max(axis=1)
    return np.asarray(norm(face_normals(vertices, faces), axis=1) / longest)


def _slivers(vertices: np.ndarray, faces: np.ndarray, tolerance: float) -> np.ndarray:
    """Triangles whose smallest height is under the tolerance, flattest first."""
    height = heights(vertices, faces)
    return np.flatnonzero(height < tolerance)[np.argsort(height[height < tolerance])]


def orient(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, int]:
    """Turn the triangles of closed shells so that normals point out of the material.

    Shells nested in an odd number of others bound a cavity and point into it. Returns the faces and how many were
    turned, -1 if a shell is one-sided.
    """
    shell, turn, one_sided = patches(faces)
    if one_sided.any():
        return faces, -1
    oriented = np.where(turn[:, None], faces[:, ::-1], faces)
    depth = nesting(vertices, oriented, shell)
    for k in range(len(depth)):
        inside = shell == k
        outward = signed_volume(vertices, oriented[inside]) > 0
        if outward != (depth[k] % 2 == 0):
            turn[inside] = ~turn[inside]
    return np.ascontiguousarray(np.where(turn[:, None], faces[:, ::-1], faces)), int(turn.sum())


def nesting(vertices: np.ndarray, faces: np.ndarray, shell: np.ndarray) -> np.ndarray:
    """In how many other shells each shell lies."""
    count = int(shell.max()) + 1
    depth = np.zeros(count, dtype=np.int64)
    if count == 1:
        return depth
    corners = vertices[faces]
    area = np.linalg.norm(face_normals(vertices, faces), axis=1)
    order = np.argsort(shell, kind="stable")
    parts = np.split(order, np.searchsorted(shell[order], np.arange(1, count)))
    low, high = (np.array([end(corners[part], axis=(0, 1)) for part in parts]) for end in (np.min, np.max))
    for k, part in enumerate(parts):
        point = corners[part[np.argmax(area[part])]].mean(axis=0)
        for j in np.flatnonzero(((point > low) & (point < high)).all(axis=1)):
            if j != k:
                depth[k] += abs(winding_numbers(point[None], vertices, faces[parts[j]])[0]) > 0.5
    return depth


def winding_numbers(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """How often closed triangles enclose each point (p, 3): the sum of solid angles over 4 pi.

    The solid angle of a triangle after A. van Oosterom and J. Strackee, IEEE Trans. Biomed. Eng. 30 (1983).
    """
    return np.asarray(_solid_angles(np.ascontiguousarray(points, dtype=np.float64), vertices, faces) / (4 * np.pi))


def encloses(vertices: np.ndarray, faces: np.ndarray, point: np.ndarray) -> bool:
    """Whether closed, outward triangles enclose a point [m] (3,)."""
    return bool(winding_numbers(point[None], vertices, faces)[0] > 0.5)


@kernel
def _solid_angles(points, vertices, faces):
    total = np.zeros(points.shape[0])
    for i in range(points.shape[0]):
        for f in range(faces.shape[0]):
            total[i] += solid_angle(points[i], vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]])
    return total


@kernel
def solid_angle(x, p, q, r):
    """Solid angle of a triangle p, q, r seen from x, positive from behind."""
    a, b, c = difference(p, x), difference(q, x), difference(r, x)
    u, v, w = np.sqrt(dot(a, a)), np.sqrt(dot(b, b)), np.sqrt(dot(c, c))
    return 2.0 * np.arctan2(dot(a, cross(b, c)), u * v * w + dot(a, b) * w + dot(b, c) * u + dot(c, a) * v)


def inner_point(vertices: np.ndarray, shell_faces: np.ndarray, all_faces: np.ndarray, tries: int = 48) -> np.ndarray:
    """Return a point well behind the triangles of a shell, between them and whatever comes next.

    From the centres of the largest triangles against their normals to the next triangle of `all_faces`; the middle of
    the longest such way. Shape (3,).
    """
    normal, area = unit_normals(vertices, shell_faces)
    chosen = np.argsort(-area, kind="stable")[:tries]
    centres, ways = vertices[shell_faces[chosen]].mean(axis=1), -normal[chosen]
    lengths, _ = next_along(centres, ways, vertices, all_faces)
    best = int(np.argmax(np.where(np.isfinite(lengths), lengths, 0.0)))
    return np.asarray(centres[best] + 0.5 * lengths[best] * ways[best])
