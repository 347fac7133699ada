"""Broad phase of contact between surfaces: near pairs of features, and the largest step in which none meet.

A descent of the tree against itself yields faces whose boxes come within a reach of each other at some moment of a
step. The boxes are those of the positions and, separately, of the displacements: what moves together stays apart, so
a limb that swings as a whole does not meet its neighbours. Pairs of faces are expanded into vertex-face and edge-edge
pairs, each once. Left out are pairs that

- share a vertex,
- lie on different sides of the material (`spaces`: the outside, and the inside of every chamber) or are excluded,
- face each other through a thin wall at rest,
- belong to faces that lie side by side at rest, have not folded (their normals are less than 87 degrees apart) and are not
  squeezed, nor are the faces around them: points that are not nearer than 0.6 sin(45 degrees) times their distance at rest
  cannot be within the quarter of it at which they begin to feel each other, so that no pair appears with a force.

Every pair has its own activation distance: at most `reach`, and at most a quarter of its distance at rest, so that
a body at rest feels nothing and a body that is squeezed in its plane does not push against itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.ccd import STOP_DISTANCE_SHARE, time_to_gap
from geosim.collision.crossings import SurfaceTree, surface_tree
from geosim.collision.distance import pair_distance
from geosim.collision.tree import MAX_WAITING_NODES, boxes_meet, leaf_range, next_leaves, refit_tree
from geosim.errors import InputError
from geosim.kernels import filled, kernel, writable
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled

__all__ = ["ContactNeighbourhood", "Hits", "NearPairs", "closest", "make_neighbourhood"]

MAX_ACTIVATION_REST_SHARE = 0.25  # activation distance over distance at rest, at most
FOLDED_COSINE = 0.05  # cosine between the normals of neighbouring faces below which they may touch
# Cosine between a face and the mean around one of its vertices, over that at rest: half the angle of FOLDED_COSINE.
HALF_FOLDED_COSINE = 0.72
SQUEEZED_STRETCH = 0.6  # stretch of a face in its plane below which its neighbours may touch it
NEIGHBOUR_EDGES = 2.5  # faces of one surface closer at rest than this many of their edges are neighbours
THIN_WALL_REACHES = 10.0  # walls thinner at rest than this many reaches may come within reach of their other side
MIN_CLOSEST_WEIGHT = 1e-3  # weight in the closest points below which a vertex does not touch itself
VERTEX_FACE, EDGE_EDGE = 6, 9  # pairs of each sort that two faces have
# pairs of faces that there is room for at first, for every face: untouched memory costs nothing, a second search does
FIRST_PAIRS_PER_FACE = 8
STEP_ROUNDING_REL = 1e-12  # share of a step, and of the largest coordinate, that is rounding
MIN_AREA_DIVISOR = 1e-300  # what an area is divided by where it may vanish


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
    edges: Bools
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
    edges: Bools
    reach: Floats
    normals: Floats
    need: Floats


class Sides(NamedTuple):
    """Which faces may touch at all, for kernels: in the order of the tree, so that what is near in space is near in memory.

    Parameters
    ----------
    faces
        Vertex ids, shape (m, 3).
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
    """

    faces: Ints
    middle: Floats
    beside: Floats
    parts: Ints
    spaces: Ints
    excluded: Ints


@dataclass
class Memory:
    """The pairs that were found last: start and way (n, 3) of the step that they are of, and `ContactNeighbourhood._felt`."""

    start: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    way: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    pairs: tuple[Ints, Bools, Floats] | None = None

    def covers(self, x: Floats, step: Floats) -> bool:
        """Whether positions x (n, 3), and where a step (n, 3) leads from them, lie on the way of which the pairs are."""
        if self.pairs is None or self.start.shape != x.shape:
            return False
        ends = (x, x + step) if len(step) else (x,)
        if len(self.way) == 0:
            return all(np.array_equal(end, self.start) for end in ends)
        largest = np.unravel_index(np.argmax(np.abs(self.way)), self.way.shape)
        for end in ends:
            share = (end[largest] - self.start[largest]) / (self.way[largest] or 1.0)
            off = np.abs(end - self.start - share * self.way).max(initial=0.0)
            if not (
                -STEP_ROUNDING_REL <= share <= 1.0 + STEP_ROUNDING_REL
                and off <= STEP_ROUNDING_REL * np.abs(x).max(initial=0.0)
            ):
                return False
        return True


@dataclass(frozen=True)
class ContactNeighbourhood:
    """Surfaces at rest, ready to be asked which of their parts are near each other.

    Parameters
    ----------
    tree
        Tree over the faces, with their edges.
    rest
        Rest positions, shape (n, 3).
    sides
        What tells which faces may touch.
    normals
        Normals of the vertices at rest, shape (n, 3).
    folded
        Cosine between a face and those around its corners at which it counts as folded, shape (m, 3), in the order of the
        tree.
    owner
        Vertices that a face tests on behalf of all faces around them, -1 where another face does, shape (m, 3).
    reach
        Distance at which every vertex begins to feel others, shape (n,); a pair goes by its smallest.
    memory
        A cache, the only part that changes: what was found last, as a step is looked at before it is taken, and its end
        evaluated after. No answer depends on it.
    """

    tree: SurfaceTree
    rest: Floats
    sides: Sides
    normals: Floats
    folded: Floats
    owner: Ints
    reach: Floats
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)

    def near(self, x: Floats, factor: float = 1.0) -> NearPairs:
        """Return the pairs within their activation distances times a factor, at positions (n, 3)."""
        reach = factor * self.reach
        if factor == 1.0 and np.array_equal(x, self.rest):  # no pair feels another before it is far nearer than at rest
            return NearPairs(np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=bool), np.zeros(0))
        points, edges, limit = self._on_the_way(x, x[:0]) if factor == 1.0 else self._felt(x, x[:0], reach)
        near = closest(x[points], edges)[2] < limit
        return NearPairs(points[near], edges[near], limit[near])

    def safe_share(self, x: Floats, step: Floats) -> float:
        """Return the largest share of a step (n, 3) in which nothing comes nearer than `STOP_DISTANCE_SHARE` allows."""
        return float(self._meetings(x, step, first=True)[3].min(initial=1.0)) if np.any(step) else 1.0

    def hits(self, x: Floats, step: Floats) -> Hits:
        """Return the pairs that a step (n, 3) would bring nearer than `STOP_DISTANCE_SHARE` allows."""
        points, edges, limit, time = self._meetings(x, step, first=False)
        met = time < 1.0
        points, edges, limit, time = points[met], edges[met], limit[met], time[met]
        weights, apart, distance = closest(x[points] + time[:, None, None] * step[points], edges)
        normals = weights[:, :, None] * (apart / distance[:, None])[:, None]
        need = time * np.einsum("pia,pia->p", normals, step[points]) - distance
        return Hits(points, edges, limit, normals, need)

    def touching(self, tolerance: float) -> Ints:
        """Return vertices that are within a distance of a part that is not their neighbour, at rest."""
        points, edges, _ = self._candidates(self.rest, self.rest[:0], np.full(len(self.rest), tolerance))
        weights, _, distance = closest(self.rest[points], edges)
        return np.unique(points[(np.abs(weights) > MIN_CLOSEST_WEIGHT) & (distance < tolerance)[:, None]])

    def _meetings(self, x: Floats, step: Floats, first: bool) -> tuple[Ints, Bools, Floats, Floats]:
        """Pairs, their activation distances, and when in a step they are as near as `STOP_DISTANCE_SHARE` allows (1: not at all).

        With `first` what comes later than what was found before is not looked at.
        """
        points, edges, limit = self._on_the_way(x, step)
        time = np.ones(len(points))
        _meeting_times(x[points], step[points], edges, limit, first, time)
        return points, edges, limit, time

    def _on_the_way(self, x: Floats, step: Floats) -> tuple[Ints, Bools, Floats]:
        """Pairs that may feel each other in a step, maybe more, and their activation distances (see `_felt`)."""
        memory = self.memory
        if memory.pairs is None or not memory.covers(x, step):
            memory.pairs = self._felt(x, step, self.reach)
            memory.start, memory.way = x.copy(), step.copy()
        return memory.pairs

    def _felt(self, x: Floats, step: Floats, reach: Floats) -> tuple[Ints, Bools, Floats]:
        """Candidates that are not through a thin wall at rest, and their activation distances (k,)."""
        points, edges, reaches = self._candidates(x, step, reach)
        limit = np.empty(len(points))
        _activation_distances(self.rest, self.normals, points, edges, reaches, limit)
        felt = limit > 0.0
        return points[felt], edges[felt], limit[felt]

    def _candidates(self, x: Floats, step: Floats, reach: Floats) -> tuple[Ints, Bools, Floats]:
        """Pairs (k, 4) whose boxes come within reach in a step, which are edges, and their reaches (k,).

        `reach` is that of the vertices (n,), of which a pair has the smallest; a step of no rows moves nothing.
        """
        tree, faces = self.tree.tree, self.sides.faces
        x, step, reach = writable(x), writable(step), writable(reach)
        reaches, order = reach[faces].max(axis=1), np.arange(len(faces))
        place, moves = np.empty_like(tree.boxes), np.empty((len(tree.boxes) if len(step) else 0, 6))
        refit_tree(x, faces, order, place, 0.5 * reaches)
        boxes, motions = _boxes(x, faces, 0.5 * reaches), np.empty((0, 6))
        turned = later = _leaning(x, self.rest, faces, self.folded)
        if len(step):
            refit_tree(step, faces, order, moves, np.zeros_like(reaches))
            motions = _boxes(step, faces, np.zeros_like(reaches))
            later = _leaning(x + step, self.rest, faces, self.folded)
        (pairs,) = filled(
            lambda out: _descend(boxes, motions, self.sides, place, moves, turned, later, out),
            FIRST_PAIRS_PER_FACE * len(faces),
            ((2,), np.int64),
        )
        pairs = tree.order[pairs]
        most = (VERTEX_FACE + EDGE_EDGE) * len(pairs)
        points, edges = np.empty((most, 4), dtype=np.int64), np.empty(most, dtype=np.bool_)
        found = _expand(
            x, step, self.tree.faces, self.owner, self.tree.edges, self.tree.owned, pairs, reach, points, edges
        )
        points, edges = points[:found].copy(), edges[:found].copy()
        return points, edges, reach[points].min(axis=1)


def make_neighbourhood(
    rest: Floats, faces: Ints, spaces: Ints, reach: Floats, excluded: Ints | None = None
) -> ContactNeighbourhood:
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
        See `Sides`; default nothing.

    Raises
    ------
    InputError
        The arrays do not fit together.
    """
    if len(spaces) != len(faces):
        raise InputError(f"spaces: {len(spaces)} given for {len(faces)} faces")
    tree = surface_tree(rest, faces)
    faces, corners = tree.faces, rest[tree.faces]
    normals = np.zeros_like(rest)
    np.add.at(normals, faces, np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, None])
    owner = np.full(3 * len(faces), -1, dtype=np.int64)
    vertices, first = np.unique(faces.ravel(), return_index=True)
    owner[first] = vertices
    edge = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).mean(axis=1)
    masks = np.zeros((len(faces), 2), dtype=np.int64) if excluded is None else np.ascontiguousarray(excluded)
    spaces = np.ascontiguousarray(spaces, dtype=np.int64)
    of_faces = faces, corners.mean(axis=1), NEIGHBOUR_EDGES * edge, _parts(faces, len(rest)), spaces, masks
    sides = Sides(*(np.ascontiguousarray(values[tree.tree.order]) for values in of_faces))
    rest, reach = np.ascontiguousarray(rest), np.ascontiguousarray(reach, dtype=float)
    folded = HALF_FOLDED_COSINE * _leanings(_flat_normals(rest, rest, sides.faces), sides.faces, len(rest))
    return ContactNeighbourhood(tree, rest, sides, normals, folded, owner.reshape(-1, 3), reach)


def _parts(faces: Ints, count: int) -> Ints:
    """Connected surface of every face."""
    graph = coo_matrix(
        (np.ones(2 * len(faces), dtype=np.int8), (faces[:, [0, 0]].ravel(), faces[:, 1:].ravel())), shape=(count, count)
    )
    return np.ascontiguousarray(connected_components(graph, directed=False)[1][faces[:, 0]].astype(np.int64))


@kernel
def _boxes(x, faces, margins):
    """Boxes of faces, enlarged by margins (m,), shape (m, 6)."""
    out = np.empty((len(faces), 6))
    for f in range(len(faces)):
        for a in range(3):
            u, v, w = x[faces[f, 0], a], x[faces[f, 1], a], x[faces[f, 2], a]
            out[f, a], out[f, a + 3] = min(u, v, w) - margins[f], max(u, v, w) + margins[f]
    return out


@kernel(inline="always")
def _reaches_over(x, ids, first, a):
    """Least and largest difference of coordinate a between the first vertices of a pair (one or two) and the others."""
    p, q, r, s = x[ids[0], a], x[ids[1], a], x[ids[2], a], x[ids[3], a]
    if first == 1:
        return p - max(q, max(r, s)), p - min(q, min(r, s))
    return min(p, q) - max(r, s), max(p, q) - min(r, s)


@kernel
def _features_meet(x, step, ids, first, reach):
    """Whether the features of a pair may come within reach of each other in a step, by the boxes of places and moves."""
    for a in range(3):
        lower, upper = _reaches_over(x, ids, first, a)
        if len(step):
            least, most = _reaches_over(step, ids, first, a)
            lower, upper = lower + min(0.0, least), upper + max(0.0, most)
        if lower > reach or upper < -reach:
            return False
    return True


@kernel
def _sides_of(x, face):
    """Two sides of a face from one corner."""
    a = row(x, face[0])
    return difference(row(x, face[1]), a), difference(row(x, face[2]), a)


@kernel
def _leaning(x, rest, faces, folded):
    """Unit normals of the faces (m, 3); zero where a face, or one around it, is squeezed or folded.

    What lies between two neighbours decides, too, whether they may have come near each other. An edge that is sharp at
    rest is not folded by that: it has to close further, as `folded` says.
    """
    out, troubled = _flat_normals(x, rest, faces), np.zeros(len(x), dtype=np.bool_)
    now = _leanings(out, faces, len(x))
    for f in range(len(faces)):
        for k in range(3):
            troubled[faces[f, k]] |= now[f, k] <= folded[f, k]
    for f in range(len(faces)):
        if troubled[faces[f, 0]] or troubled[faces[f, 1]] or troubled[faces[f, 2]]:
            out[f] = 0.0
    return out


@kernel
def _leanings(normals, faces, count):
    """Cosines between the normal of a face and the mean one around each of its corners, (m, 3)."""
    mean, out = _around(normals, faces, count), np.empty((len(faces), 3))
    for f in range(len(faces)):
        for k in range(3):
            out[f, k] = dot(row(normals, f), row(mean, faces[f, k]))
    return out


@kernel
def _around(normals, faces, count):
    """Mean direction of the normals of the faces around every vertex, unit vectors (n, 3); zero where there is none."""
    out = np.zeros((count, 3))
    for f in range(len(faces)):
        for v in faces[f]:
            put(out[v], plus(row(out, v), row(normals, f)))
    for v in range(count):
        mean = row(out, v)
        put(out[v], scaled(1.0 / max(np.sqrt(dot(mean, mean)), MIN_AREA_DIVISOR), mean))
    return out


@kernel
def _flat_normals(x, rest, faces):
    """Unit normals of the faces; zero where a face is squeezed, which is as good as folded."""
    out = np.empty((len(faces), 3))
    for f in range(len(faces)):
        (u, v), (a, b) = _sides_of(x, faces[f]), _sides_of(rest, faces[f])
        n = cross(u, v)
        square = max(dot(n, n), MIN_AREA_DIVISOR)
        # stretches l of the face: l^4 - t l^2 + d = 0 with the trace t and the determinant d of C = G^-1 (metric now)
        aa, ab, bb = dot(a, a), dot(a, b), dot(b, b)
        area = max(aa * bb - ab * ab, MIN_AREA_DIVISOR)
        trace = (bb * dot(u, u) - 2.0 * ab * dot(u, v) + aa * dot(v, v)) / area
        least = 0.5 * (trace - np.sqrt(max(trace * trace - 4.0 * square / area, 0.0)))
        put(out[f], scaled(0.0 if least < SQUEEZED_STRETCH**2 else 1.0 / np.sqrt(square), n))
    return out


@kernel(inline="always")
def _side_by_side(middle, beside, turned, later, f, g):
    """Whether two faces are neighbours at rest and not folded, neither before nor after a step."""
    away = difference(middle[f], middle[g])
    near = dot(away, away) < min(beside[f], beside[g]) ** 2
    return near and dot(turned[f], turned[g]) > FOLDED_COSINE and dot(later[f], later[g]) > FOLDED_COSINE


@kernel
def _descend(boxes, motions, sides, place, moves, turned, later, pairs):
    """Write the pairs of faces that may touch and whose boxes meet at some moment; return how many there are.

    `boxes` and `motions` are those of positions and displacements of the faces, `place` and `moves` those of the nodes of the
    tree, `turned` and `later` the normals before and after the step. Most faces of two leaves do not meet: that comes first.
    """
    faces, middle, beside, parts, spaces, excluded = sides  # once: taken in the loop they cost more than the loop
    found, top = np.int64(0), np.int64(1)
    stack = np.zeros((MAX_WAITING_NODES, 2), dtype=np.int64)
    top = next_leaves(place, moves, stack, top)
    while top >= 0:
        i, j = stack[top]
        (first, last), (start, end) = leaf_range(place, i, len(faces)), leaf_range(place, j, len(faces))
        for f in range(first, last):
            for g in range(f + 1 if i == j else start, end):
                if not boxes_meet(boxes, motions, f, g):
                    continue
                if spaces[f] != spaces[g] or (excluded[f, 0] & excluded[g, 1]) | (excluded[f, 1] & excluded[g, 0]):
                    continue
                if parts[f] == parts[g] and _side_by_side(middle, beside, turned, later, f, g):
                    continue
                if found < len(pairs):
                    pairs[found, 0], pairs[found, 1] = f, g
                found += 1
        top = next_leaves(place, moves, stack, top)
    return found


@kernel
def _expand(x, step, faces, owner, edges, owned, pairs, reaches, points, is_edges):
    """Write what may come within reach of the pairs of features of pairs of faces; return how many there are."""
    ids = np.empty(4, dtype=np.int64)
    found = 0
    for p in range(len(pairs)):
        for side in range(2):
            a, b = pairs[p, side], pairs[p, 1 - side]
            for k in range(3):
                v = owner[a, k]
                if v < 0 or v == faces[b, 0] or v == faces[b, 1] or v == faces[b, 2]:
                    continue
                ids[0], ids[1], ids[2], ids[3] = v, faces[b, 0], faces[b, 1], faces[b, 2]
                found += _taken(x, step, ids, 1, reaches, points, is_edges, found)
        for k in range(3):
            i = owned[pairs[p, 0], k]
            if i < 0:
                continue
            for m in range(3):
                j = owned[pairs[p, 1], m]
                if j < 0 or edges[i, 0] in (edges[j, 0], edges[j, 1]) or edges[i, 1] in (edges[j, 0], edges[j, 1]):
                    continue
                ids[0], ids[1], ids[2], ids[3] = edges[i, 0], edges[i, 1], edges[j, 0], edges[j, 1]
                found += _taken(x, step, ids, 2, reaches, points, is_edges, found)
    return found


@kernel(inline="always")
def _taken(x, step, ids, first, reaches, points, is_edges, found):
    """Write a pair of features to a row if they may come within reach in a step; return 1 if so, else 0."""
    reach = min(min(reaches[ids[0]], reaches[ids[1]]), min(reaches[ids[2]], reaches[ids[3]]))
    if not _features_meet(x, step, ids, np.int64(first), reach):
        return 0
    points[found, 0], points[found, 1], points[found, 2], points[found, 3] = ids[0], ids[1], ids[2], ids[3]
    is_edges[found] = first == 2
    return 1


def closest(at: Floats, edges: Bools) -> tuple[Floats, Floats, Floats]:
    """Weights (k, 4) of the closest points of pairs at (k, 4, 3), the vectors between them (k, 3) and distances (k,)."""
    weights, apart, distance = np.empty((len(at), 4)), np.empty((len(at), 3)), np.empty(len(at))
    _closest_pairs(at, edges, weights, apart, distance)
    return weights, apart, distance


@kernel
def _closest_pairs(at, edges, weights, apart, distance):
    slopes = np.empty((4, 2))
    for p in range(len(at)):
        distance[p] = pair_distance(at[p], edges[p], weights[p], slopes, apart[p])


@kernel
def _activation_distances(rest, normals, points, edges, reach, out):
    """Write the activation distances of pairs: 0 if their features face each other through a thin wall at rest."""
    w, c, e, at = np.empty(4), np.empty((4, 2)), np.empty(3), np.empty((4, 3))
    for p in range(len(points)):
        i, j, k, m = points[p]
        for a in range(4):
            put(at[a], row(rest, points[p, a]))
        distance = pair_distance(at, edges[p], w, c, e)  # e points from the second feature to the first
        out[p] = min(reach[p], MAX_ACTIVATION_REST_SHARE * distance)
        if distance < THIN_WALL_REACHES * reach[p]:
            first, second = row(normals, i), cross(difference(at[2], at[1]), difference(at[3], at[1]))
            if edges[p]:
                first, second = plus(first, row(normals, j)), plus(row(normals, k), row(normals, m))
            if dot(first, e) > 0.0 > dot(second, e):
                out[p] = 0.0


@kernel
def _meeting_times(at, moves, edges, limit, first, time):
    """Write the share of the moves (k, 4, 3) after which pairs are as near as `STOP_DISTANCE_SHARE` of their limits allows."""
    w, c, e = np.empty(4), np.empty((4, 2)), np.empty(3)
    last = 1.0
    for p in range(len(at)):
        gap = min(STOP_DISTANCE_SHARE * limit[p], 0.5 * pair_distance(at[p], edges[p], w, c, e))
        time[p] = time_to_gap(at[p], moves[p], edges[p], gap, last)
        last = min(last, time[p]) if first else 1.0
