"""Which vertices, edges and faces of surfaces are near each other, and how far a step may go before some meet.

A descent of the tree against itself yields faces whose boxes come within a reach of each other at some moment of a
step. The boxes are those of the positions and, separately, of the displacements: what moves together stays apart, so
a limb that swings as a whole does not meet its neighbours. Pairs of faces are expanded into vertex-face and edge-edge
pairs, each once. Left out are pairs that

- share a vertex,
- lie on different sides of the material (`spaces`: the outside, and the inside of every chamber) or are excluded,
- face each other through a thin wall at rest,
- belong to faces that lie side by side at rest, have not folded (their normals are less than 87 degrees apart) and are not
  squeezed: points that are not nearer than 0.6 sin(45 degrees) times their distance at rest cannot be within the quarter
  of it at which they begin to feel each other, so that no pair appears with a force.

Every pair has its own activation distance: at most `reach`, and at most a quarter of its distance at rest, so that
a body at rest feels nothing and a body that is squeezed in its plane does not push against itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.collision.ccd import time_to_gap
from geosim.collision.crossings import SurfaceTree, surface_tree
from geosim.collision.distance import edge_edge, point_triangle, separation
from geosim.collision.tree import Floats, Ints, refit_tree
from geosim.errors import InputError
from geosim.kernels import kernel

__all__ = ["Hits", "NearPairs", "Neighbourhood", "make_neighbourhood"]

REST_SHARE = 0.25  # activation distance over distance at rest, at most
FOLDED = 0.05  # cosine between the normals of neighbouring faces below which they may touch
SQUEEZED = 0.6  # stretch of a face in its plane below which its neighbours may touch it
BESIDE = 2.5  # faces of one surface closer at rest than this many of their edges are neighbours
THIN = 10.0  # walls thinner at rest than this many reaches may come within reach of their other side
STOP_AT = 0.3  # a step stops where a pair is this share of its activation distance apart


@dataclass(frozen=True)
class NearPairs:
    """Vertex-face and edge-edge pairs within their activation distances.

    Parameters
    ----------
    points
        The four points of every pair, shape (k, 4): vertex and face, or two edges.
    edges
        Which pairs are two edges, bool (k,).
    reach
        Activation distance of every pair, shape (k,).
    """

    points: Ints
    edges: NDArray[np.bool_]
    reach: Floats


@dataclass(frozen=True)
class Hits:
    """Pairs that a step would bring too near, each linearised where it comes there.

    Parameters
    ----------
    points, edges, reach
        See `NearPairs`.
    normals
        Derivative of the distance with respect to the four points there, shape (k, 4, 3).
    need
        Distance by which a step must change every pair along its normals to leave it at distance zero, shape (k,).
    """

    points: Ints
    edges: NDArray[np.bool_]
    reach: Floats
    normals: Floats
    need: Floats


@dataclass(frozen=True)
class Neighbourhood:
    """Surfaces at rest, ready to be asked which of their parts are near each other.

    Parameters
    ----------
    tree
        Tree over the faces, with their edges.
    rest
        Rest positions, shape (n, 3).
    middle, beside
        Centroids of the faces at rest (m, 3), and the distances (m,) between them below which faces are neighbours, the
        smaller of two.
    parts
        Connected surface that every face belongs to, shape (m,).
    spaces
        Space that every face borders on, shape (m,).
    excluded
        Two bit masks for every face, shape (m, 2): faces f and g never touch if bit b is set in the first mask of
        one and in the second mask of the other.
    normals
        Normals of the vertices at rest, shape (n, 3).
    owner
        Vertices that a face tests on behalf of all faces around them, -1 where another face does, shape (m, 3).
    reach
        Distance at which every vertex begins to feel others, shape (n,); a pair goes by its smallest.
    """

    tree: SurfaceTree
    rest: Floats
    middle: Floats
    beside: Floats
    parts: Ints
    spaces: Ints
    excluded: Ints
    normals: Floats
    owner: Ints
    reach: Floats

    def near(self, x: Floats, factor: float = 1.0) -> NearPairs:
        """Return the pairs within their activation distances times a factor, at positions (n, 3)."""
        reach = factor * self.reach
        faces = self._face_pairs(x, np.zeros_like(x), reach)
        capacity = 1024
        while True:
            points = np.empty((capacity, 4), dtype=np.int64)
            edges, reaches = np.zeros(capacity, dtype=np.bool_), np.empty(capacity)
            found = _near(
                x,
                self.rest,
                self.normals,
                self.tree.faces,
                self.owner,
                self.tree.edges,
                self.tree.owned,
                faces,
                reach,
                points,
                edges,
                reaches,
            )
            if found <= capacity:
                return NearPairs(points[:found].copy(), edges[:found].copy(), reaches[:found].copy())
            capacity = int(found)

    def safe_share(self, x: Floats, step: Floats) -> float:
        """Return the largest share of a step (n, 3) in which nothing comes nearer than `STOP_AT` allows."""
        if not np.any(step):
            return 1.0
        faces = self._face_pairs(x, step, self.reach)
        return float(
            _first_time(
                x,
                step,
                self.rest,
                self.normals,
                self.tree.faces,
                self.owner,
                self.tree.edges,
                self.tree.owned,
                faces,
                self.reach,
            )
        )

    def hits(self, x: Floats, step: Floats) -> Hits:
        """Return the pairs that a step (n, 3) would bring nearer than `STOP_AT` allows."""
        faces = self._face_pairs(x, step, self.reach)
        capacity = 1024
        while True:
            points, edges = np.empty((capacity, 4), dtype=np.int64), np.zeros(capacity, dtype=np.bool_)
            reach, normals, need = np.empty(capacity), np.empty((capacity, 4, 3)), np.empty(capacity)
            found = int(
                _hits(
                    x,
                    step,
                    self.rest,
                    self.normals,
                    self.tree.faces,
                    self.owner,
                    self.tree.edges,
                    self.tree.owned,
                    faces,
                    self.reach,
                    points,
                    edges,
                    reach,
                    normals,
                    need,
                )
            )
            if found <= capacity:
                return Hits(points[:found], edges[:found], reach[:found], normals[:found], need[:found])
            capacity = found

    def touching(self, tolerance: float) -> Ints:
        """Return vertices that are within a distance of a part that is not their neighbour, at rest."""
        faces = self._face_pairs(self.rest, np.zeros_like(self.rest), np.full(len(self.rest), tolerance))
        out = np.zeros(len(self.rest), dtype=np.bool_)
        _touching(
            self.rest,
            self.normals,
            self.tree.faces,
            self.owner,
            self.tree.edges,
            self.tree.owned,
            faces,
            tolerance,
            out,
        )
        return np.flatnonzero(out)

    def _face_pairs(self, x: Floats, step: Floats, reach: Floats) -> Ints:
        """Pairs of faces (k, 2) that may come within the smaller of their reaches in a step; `reach` of vertices (n,)."""
        tree = self.tree.tree
        reaches = reach[self.tree.faces].max(axis=1)
        place, move = np.empty_like(tree.boxes), np.empty_like(tree.boxes)
        refit_tree(x, tree.primitives, tree.order, place, 0.5 * reaches)
        refit_tree(step, tree.primitives, tree.order, move, np.zeros_like(reaches))
        turned = _leaning(x, self.rest, tree.primitives)
        later = _leaning(x + step, self.rest, tree.primitives) if step.any() else turned
        capacity = len(tree.primitives) + 1024
        while True:
            pairs = np.empty((capacity, 2), dtype=np.int64)
            found = _descend(
                x,
                step,
                tree.primitives,
                tree.order,
                place,
                move,
                reaches,
                self.spaces,
                self.excluded,
                self.middle,
                self.beside,
                self.parts,
                turned,
                later,
                pairs,
            )
            if found <= capacity:
                return pairs[:found]
            capacity = int(found)


def make_neighbourhood(
    rest: Floats, faces: Ints, spaces: Ints, reach: Floats, excluded: Ints | None = None
) -> Neighbourhood:
    """Return the neighbourhood of surfaces.

    Parameters
    ----------
    rest
        Rest positions, shape (n, 3).
    faces
        Vertex ids (m, 3), oriented out of the material.
    spaces
        Space that every face borders on, shape (m,); faces of different spaces never touch.
    reach
        Distance at which every vertex begins to feel others, shape (n,).
    excluded
        See `Neighbourhood`; default nothing.

    Raises
    ------
    InputError
        The arrays do not fit together.
    """
    faces = np.ascontiguousarray(faces, dtype=np.int64)
    if len(spaces) != len(faces):
        raise InputError(f"spaces: {len(spaces)} given for {len(faces)} faces")
    tree = surface_tree(rest, faces)
    a, b, c = (rest[faces[:, i]] for i in range(3))
    flat = np.cross(b - a, c - a)
    normals = np.zeros_like(rest)
    for i in range(3):
        np.add.at(normals, faces[:, i], flat)
    owner = np.full(3 * len(faces), -1, dtype=np.int64)
    vertices, first = np.unique(faces.ravel(), return_index=True)
    owner[first] = vertices
    masks = np.zeros((len(faces), 2), dtype=np.int64) if excluded is None else np.ascontiguousarray(excluded)
    edge = (np.linalg.norm(b - a, axis=1) + np.linalg.norm(c - b, axis=1) + np.linalg.norm(a - c, axis=1)) / 3.0
    return Neighbourhood(
        tree,
        np.ascontiguousarray(rest),
        (a + b + c) / 3.0,
        BESIDE * edge,
        _parts(faces, len(rest)),
        np.ascontiguousarray(spaces, dtype=np.int64),
        masks,
        normals,
        owner.reshape(-1, 3),
        np.ascontiguousarray(reach, dtype=float),
    )


def _parts(faces: Ints, count: int) -> Ints:
    """Connected surface of every face."""
    graph = coo_matrix(
        (np.ones(2 * len(faces), dtype=np.int8), (faces[:, [0, 0]].ravel(), faces[:, 1:].ravel())), shape=(count, count)
    )
    return np.ascontiguousarray(connected_components(graph, directed=False)[1][faces[:, 0]].astype(np.int64))


@kernel(inline="always")
def _meet(place, move, i, j):
    """Whether two nodes overlap at some moment: their relative motion is within the difference of their boxes."""
    for a in range(3):
        lower = place[i, a] - place[j, a + 3] + min(0.0, move[i, a] - move[j, a + 3])
        upper = place[i, a + 3] - place[j, a] + max(0.0, move[i, a + 3] - move[j, a])
        if lower > 0.0 or upper < 0.0:
            return False
    return True


@kernel
def _features_meet(x, step, first, second, reach):
    """Whether two sets of vertices may come within reach of each other in a step, by the same argument."""
    for a in range(3):
        lo0, hi0, lo1, hi1 = np.inf, -np.inf, np.inf, -np.inf
        mlo0, mhi0, mlo1, mhi1 = np.inf, -np.inf, np.inf, -np.inf
        for v in first:
            lo0, hi0 = min(lo0, x[v, a]), max(hi0, x[v, a])
            mlo0, mhi0 = min(mlo0, step[v, a]), max(mhi0, step[v, a])
        for v in second:
            lo1, hi1 = min(lo1, x[v, a]), max(hi1, x[v, a])
            mlo1, mhi1 = min(mlo1, step[v, a]), max(mhi1, step[v, a])
        if lo0 - hi1 + min(0.0, mlo0 - mhi1) > reach or hi0 - lo1 + max(0.0, mhi0 - mlo1) < -reach:
            return False
    return True


@kernel
def _boxes_near(x, first, second, reach):
    """Whether the boxes of two sets of vertices come within reach."""
    for a in range(3):
        lo0, hi0, lo1, hi1 = np.inf, -np.inf, np.inf, -np.inf
        for v in first:
            lo0, hi0 = min(lo0, x[v, a]), max(hi0, x[v, a])
        for v in second:
            lo1, hi1 = min(lo1, x[v, a]), max(hi1, x[v, a])
        if lo0 - hi1 > reach or hi0 - lo1 < -reach:
            return False
    return True


@kernel
def _leaning(x, rest, faces):
    """Unit normals of the faces; zero where a face is squeezed, which is as good as folded."""
    out = np.empty((len(faces), 3))
    u, v, a, b = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for f in range(len(faces)):
        for k in range(3):
            u[k] = x[faces[f, 1], k] - x[faces[f, 0], k]
            v[k] = x[faces[f, 2], k] - x[faces[f, 0], k]
            a[k] = rest[faces[f, 1], k] - rest[faces[f, 0], k]
            b[k] = rest[faces[f, 2], k] - rest[faces[f, 0], k]
        n0, n1, n2 = u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]
        size = max(np.sqrt(n0 * n0 + n1 * n1 + n2 * n2), 1e-300)
        # stretches l of the face: l^4 - t l^2 + d = 0 with the trace t and the determinant d of C = G^-1 (metric now)
        aa, ab, bb = (
            a[0] ** 2 + a[1] ** 2 + a[2] ** 2,
            a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
            b[0] ** 2 + b[1] ** 2 + b[2] ** 2,
        )
        uu, uv, vv = (
            u[0] ** 2 + u[1] ** 2 + u[2] ** 2,
            u[0] * v[0] + u[1] * v[1] + u[2] * v[2],
            v[0] ** 2 + v[1] ** 2 + v[2] ** 2,
        )
        area = max(aa * bb - ab * ab, 1e-300)
        trace = (bb * uu - 2.0 * ab * uv + aa * vv) / area
        least = 0.5 * (trace - np.sqrt(max(trace * trace - 4.0 * size * size / area, 0.0)))
        turn = 0.0 if least < SQUEEZED**2 else 1.0 / size
        out[f, 0], out[f, 1], out[f, 2] = turn * n0, turn * n1, turn * n2
    return out


@kernel(inline="always")
def _side_by_side(middle, beside, turned, later, f, g):
    """Whether two faces are neighbours at rest and not folded, neither before nor after a step."""
    apart, now, then = 0.0, 0.0, 0.0
    for k in range(3):
        apart += (middle[f, k] - middle[g, k]) ** 2
        now += turned[f, k] * turned[g, k]
        then += later[f, k] * later[g, k]
    return apart < min(beside[f], beside[g]) ** 2 and now > FOLDED and then > FOLDED


@kernel
def _descend(
    x, step, faces, order, place, move, reaches, spaces, excluded, middle, beside, parts, turned, later, pairs
):
    count = len(faces)
    leaves = (len(place) + 1) // 2
    stack = np.empty((1024, 2), dtype=np.int64)
    stack[0, 0], stack[0, 1] = 0, 0
    top, found = 1, 0
    while top > 0:
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        if i != j and not _meet(place, move, i, j):
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
                if spaces[f] != spaces[g] or (excluded[f, 0] & excluded[g, 1]) | (excluded[f, 1] & excluded[g, 0]):
                    continue
                if parts[f] == parts[g] and _side_by_side(middle, beside, turned, later, f, g):
                    continue
                if not _features_meet(x, step, faces[f], faces[g], min(reaches[f], reaches[g])):
                    continue
                if found < len(pairs):
                    pairs[found, 0], pairs[found, 1] = f, g
                found += 1
    return found


@kernel
def _closest(four, edges, w, c, e):
    """Distance of two features; weights, slopes and the vector between their closest points are written."""
    if edges:
        edge_edge(four, w, c)
    else:
        point_triangle(four, w, c)
    return separation(four, w, e)


@kernel
def _four(x, ids, edges, out, w, c, e):
    """Gather four points and return their distance."""
    for i in range(4):
        for k in range(3):
            out[i, k] = x[ids[i], k]
    return _closest(out, edges, w, c, e)


@kernel
def _activation(ids, edges, rest, normals, reach, four, w, c, e):
    """Activation distance of a pair, 0 if its features face each other through a thin wall at rest."""
    distance = _four(rest, ids, edges, four, w, c, e)
    if distance < THIN * reach:
        # e points from the second feature to the first
        first, second = 0.0, 0.0
        split = 2 if edges else 1
        for i in range(4):
            for k in range(3):
                if i < split:
                    first += normals[ids[i], k] * e[k]
        if edges:
            for i in range(2, 4):
                for k in range(3):
                    second += normals[ids[i], k] * e[k]
        else:
            for k in range(3):
                i, j = (k + 1) % 3, (k + 2) % 3
                second += e[k] * (
                    (four[2, i] - four[1, i]) * (four[3, j] - four[1, j])
                    - (four[2, j] - four[1, j]) * (four[3, i] - four[1, i])
                )
        if first > 0.0 and second < 0.0:
            return 0.0
    return min(reach, REST_SHARE * distance)


@kernel
def _next_pair(faces, owner, edges, owned, f, g, k, ids):
    """Write pair k of two faces: 0..5 vertex-face, 6..14 edge-edge; return whether it exists."""
    if k < 6:
        a, b = (f, g) if k < 3 else (g, f)
        v = owner[a, k % 3]
        if v < 0 or v == faces[b, 0] or v == faces[b, 1] or v == faces[b, 2]:
            return False
        ids[0], ids[1], ids[2], ids[3] = v, faces[b, 0], faces[b, 1], faces[b, 2]
        return True
    i, j = owned[f, (k - 6) // 3], owned[g, (k - 6) % 3]
    if i < 0 or j < 0:
        return False
    a, b, c, d = edges[i, 0], edges[i, 1], edges[j, 0], edges[j, 1]
    if a in (c, d) or b in (c, d):
        return False
    ids[0], ids[1], ids[2], ids[3] = a, b, c, d
    return True


@kernel
def _least(reaches, ids):
    return min(min(reaches[ids[0]], reaches[ids[1]]), min(reaches[ids[2]], reaches[ids[3]]))


@kernel
def _near(x, rest, normals, faces, owner, edges, owned, pairs, local, points, is_edges, reaches):
    ids = np.empty(4, dtype=np.int64)
    four, w, c, e = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    found = 0
    for p in range(len(pairs)):
        for k in range(15):
            if not _next_pair(faces, owner, edges, owned, pairs[p, 0], pairs[p, 1], k, ids):
                continue
            split = 1 if k < 6 else 2
            reach = _least(local, ids)
            if not _boxes_near(x, ids[:split], ids[split:], reach):
                continue
            distance = _four(x, ids, k >= 6, four, w, c, e)
            if distance >= reach:
                continue
            limit = _activation(ids, k >= 6, rest, normals, reach, four, w, c, e)
            if distance >= limit:
                continue
            if found < len(points):
                points[found] = ids
                is_edges[found] = k >= 6
                reaches[found] = limit
            found += 1
    return found


@kernel
def _meeting(x, step, rest, normals, ids, edges, reach, last, four, w, c, e, v):
    """Share of a step at which a pair is as near as `STOP_AT` allows, at most `last`, and its activation distance."""
    split = 2 if edges else 1
    if not _features_meet(x, step, ids[:split], ids[split:], reach):
        return last, 0.0
    limit = _activation(ids, edges, rest, normals, reach, four, w, c, e)
    if limit == 0.0:
        return last, 0.0
    distance = _four(x, ids, edges, four, w, c, e)
    for i in range(4):
        for a in range(3):
            v[i, a] = step[ids[i], a]
    return time_to_gap(four, v, edges, min(STOP_AT * limit, 0.5 * distance), last), limit


@kernel
def _first_time(x, step, rest, normals, faces, owner, edges, owned, pairs, local):
    ids = np.empty(4, dtype=np.int64)
    four, w, c, e, v = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3), np.empty((4, 3))
    last = 1.0
    for p in range(len(pairs)):
        for k in range(15):
            if _next_pair(faces, owner, edges, owned, pairs[p, 0], pairs[p, 1], k, ids):
                last = min(
                    last, _meeting(x, step, rest, normals, ids, k >= 6, _least(local, ids), last, four, w, c, e, v)[0]
                )
    return last


@kernel
def _hits(x, step, rest, normals, faces, owner, edges, owned, pairs, local, points, is_edges, reaches, along, need):
    ids = np.empty(4, dtype=np.int64)
    four, w, c, e, v = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3), np.empty((4, 3))
    found = 0
    for p in range(len(pairs)):
        for k in range(15):
            if not _next_pair(faces, owner, edges, owned, pairs[p, 0], pairs[p, 1], k, ids):
                continue
            time, limit = _meeting(x, step, rest, normals, ids, k >= 6, _least(local, ids), 1.0, four, w, c, e, v)
            if time >= 1.0:
                continue
            if found < len(points):
                for i in range(4):
                    for a in range(3):
                        v[i, a] = x[ids[i], a] + time * step[ids[i], a]
                d = _closest(v, k >= 6, w, c, e)
                need[found] = -d
                for i in range(4):
                    for a in range(3):
                        along[found, i, a] = w[i] * e[a] / d
                        need[found] += time * along[found, i, a] * step[ids[i], a]
                points[found], is_edges[found], reaches[found] = ids, k >= 6, limit
            found += 1
    return found


@kernel
def _touching(rest, normals, faces, owner, edges, owned, pairs, tolerance, out):
    ids = np.empty(4, dtype=np.int64)
    four, w, c, e = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    for p in range(len(pairs)):
        for k in range(15):
            if not _next_pair(faces, owner, edges, owned, pairs[p, 0], pairs[p, 1], k, ids):
                continue
            if _four(rest, ids, k >= 6, four, w, c, e) < tolerance:
                for i in range(4):
                    if abs(w[i]) > 1e-3:
                        out[ids[i]] = True
