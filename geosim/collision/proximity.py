"""Broad phase of contact between surfaces: near pairs of features, and the largest step in which none meet.

Faces of surfaces that may come within reach of each other, or fold, at some moment of a step are those that `clearance` cannot
keep apart. Nothing finer is looked at, nor made, before there are some. Their small triangles are expanded into vertex-face
and edge-edge pairs, each once. Left out are pairs that

- share a vertex,
- lie on different sides of the material (`spaces`: the outside, and the inside of every chamber) or are excluded,
- face each other through a thin wall at rest.

Every pair has its own activation distance: at most `reach`, and at most a quarter of its distance at rest, so that
a body at rest feels nothing and a body that is squeezed in its plane does not push against itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from geosim.arrays import ROUNDING_REL, Bools, Floats, Ints
from geosim.collision.ccd import ADVANCE_SHARE, MAX_APPROACH_SHARE, STOP_DISTANCE_SHARE, approach, time_to_gap
from geosim.collision.clearance import MIN_NEIGHBOUR_SHRINKAGE, Clearance, make_clearance
from geosim.collision.crossings import count_crossings, unique_edges
from geosim.collision.distance import gather, pair_distance
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, row


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


NO_PAIRS = NearPairs(np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=bool), np.zeros(0))


class SmallTriangles(NamedTuple):
    """The flat triangles that feel each other.

    Parameters
    ----------
    points
        Their corners (p, 3) at positions of the nodes (n, 3).
    triangles
        Corners of every triangle, those of a face in the order of its quarters (see `clearance`), (t, 3).
    reach
        Distance at which every point begins to feel others, (p,); a pair goes by its smallest.
    """

    points: Callable[[Floats], Floats]
    triangles: Ints
    reach: Floats


class SmallFeatures(NamedTuple):
    """What is needed of small triangles once some may touch.

    Parameters
    ----------
    rest, normals
        Points, and normals at them, at rest, (p, 3).
    """

    rest: Floats
    normals: Floats


@dataclass
class Memory:
    """What was found last.

    Parameters
    ----------
    start, way
        Of the step that it is of, (n, 3); a way of no rows: of the start alone.
    pairs
        `ContactNeighbourhood._felt`.
    room
        Whether no faces were near, with room for a further displacement (`Clearance.within_room`).
    """

    start: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    way: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    pairs: tuple[Ints, Bools, Floats] | None = None
    room: bool = False

    def covers(self, x: Floats, step: Floats, clearance: Clearance) -> bool:
        """Whether positions x (n, 3), and where a step (n, 3) leads from them, lie on the way of which the pairs are.

        With room they may also lie beside it.
        """
        if self.pairs is None or self.start.shape != x.shape:
            return False
        way = self.way if len(self.way) else np.zeros_like(self.start)
        largest = np.unravel_index(np.argmax(np.abs(way)), way.shape)
        for end in (x, x + step) if len(step) else (x,):
            share = (end[largest] - self.start[largest]) / way[largest] if way[largest] else 0.0
            off = end - self.start - min(max(share, 0.0), 1.0) * way
            farthest = np.abs(off).max(initial=0.0)
            if farthest <= ROUNDING_REL * np.abs(x).max(initial=0.0):
                continue
            if not (self.room and farthest <= clearance.spare_way and clearance.within_room(off)):
                return False
        return True


@dataclass(frozen=True)
class ContactNeighbourhood:
    """Surfaces at rest, ready to be asked which of their parts are near each other.

    Parameters
    ----------
    rest
        Rest positions of the nodes, shape (n, 3).
    clearance
        What tells which faces may touch.
    make_small
        Makes the small triangles of these faces, when they are first needed.
    memory
        A cache, the only part that changes: what was found last, as a step is looked at before it is taken, and its end
        evaluated after. No answer depends on it.
    """

    rest: Floats
    clearance: Clearance
    make_small: Callable[[], SmallTriangles]
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)

    @cached_property
    def small(self) -> SmallTriangles:
        """The small triangles."""
        return self.make_small()

    @cached_property
    def features(self) -> SmallFeatures:
        """Points and normals of the small triangles."""
        faces, rest = self.small.triangles, self.small.points(self.rest)
        corners = rest[faces]
        across = np.repeat(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), 3, axis=0)
        normals = [np.bincount(faces.ravel(), part, len(rest)) for part in across.T]
        return SmallFeatures(rest, np.stack(normals, axis=1))

    def near(self, x: Floats, factor: float = 1.0) -> NearPairs:
        """Return the pairs within their activation distances times a factor, at positions of the nodes (n, 3)."""
        if factor == 1.0:
            points, edges, limit = self._on_the_way(x, x[:0])
        else:
            points, edges, limit = self._felt(x, x[:0], factor, self.clearance.pairs(x, x[:0], factor))
        near = np.zeros(len(points), dtype=bool)
        if len(points):
            _within(self.small.points(x), points, edges, limit, near)
        return NearPairs(points[near], edges[near], limit[near])

    def safe_share(self, x: Floats, step: Floats) -> float:
        """Return the largest share of a step (n, 3) in which nothing comes nearer than `STOP_DISTANCE_SHARE` allows."""
        if not np.any(step):
            return 1.0
        points, edges, limit = self._on_the_way(x, step)
        if len(points) == 0:
            return 1.0
        return float(first_touch(self.small.points(x), self.small.points(step), points, edges, limit))

    def crossings(self, x: Floats, *, all_spaces: bool = True) -> Ints:
        """Return the points of all edges of small triangles that pierce one, (c, 2), of the same space or of all spaces.

        Where J > 0 in the material, and no surface pierces another of its own space, none pierces one of another space: a
        point beyond both would have a negative number of material points. Flat triangles on both sides of a curved wall
        that is thinner than their sagitta do cross.
        """
        faces = np.unique(self.clearance.pairs(x, x[:0], 0.0, all_spaces=True))
        if len(faces) == 0:
            return np.zeros((0, 2), dtype=np.int64)
        spaces = self.clearance.spaces[faces // 4 ** len(self.clearance.quarters)]
        points, triangles = self.small.points(x), self.small.triangles[faces]
        groups = [triangles] if all_spaces else [triangles[spaces == space] for space in np.unique(spaces)]
        return np.vstack([count_crossings(points, group).edges for group in groups])

    def touching(self, tolerance: float) -> Ints:
        """Return points that are within a distance, less than the reach, of a part that is not their neighbour, at rest."""
        min_closest_weight = 1e-3  # weight in the closest points below which a vertex does not touch itself
        alone = self.rest, self.rest[:0], 1.0
        points, edges, _ = self._candidates(*alone, self.clearance.pairs(*alone))
        if len(points) == 0:
            return points.ravel()
        weights, _, distance = closest(self.features.rest[points], edges)
        return np.unique(points[(np.abs(weights) > min_closest_weight) & (distance < tolerance)[:, None]])

    def _on_the_way(self, x: Floats, step: Floats) -> tuple[Ints, Bools, Floats]:
        """Pairs that may feel each other in a step, maybe more, and their activation distances (see `_felt`)."""
        memory = self.memory
        if memory.pairs is None or not memory.covers(x, step, self.clearance):
            alone = memory.pairs is None or len(memory.pairs[0]) == 0
            faces = self.clearance.pairs(x, step, room=alone)
            memory.room, memory.pairs = alone and len(faces) == 0, self._felt(x, step, 1.0, faces)
            memory.start, memory.way = x.copy(), step.copy()
        return memory.pairs

    def _felt(self, x: Floats, step: Floats, factor: float, faces: Ints) -> tuple[Ints, Bools, Floats]:
        """Candidates that are not through a thin wall at rest, and their activation distances (k,)."""
        points, edges, reaches = self._candidates(x, step, factor, faces)
        limit = np.empty(len(points))
        if len(points):
            _activation_distances(self.features.rest, self.features.normals, points, edges, reaches, limit)
        felt = limit > 0.0
        return points[felt], edges[felt], limit[felt]

    def _candidates(self, x: Floats, step: Floats, factor: float, pairs: Ints) -> tuple[Ints, Bools, Floats]:
        """Pairs (k, 4) whose boxes come within reach in a step, which are edges, and their reaches (k,) times a factor.

        They are features of pairs of faces (f, 2), of `Clearance.pairs`. A step of no rows moves nothing.
        """
        pairs_of_faces = 15  # pairs of features that two faces have: six of vertex and face, nine of edges
        points, edges = np.empty((pairs_of_faces * len(pairs), 4), dtype=np.int64), np.empty(0, dtype=np.bool_)
        if len(pairs) == 0:
            return points, edges, np.zeros(0)
        small, reach = self.small, factor * self.small.reach
        edges, at = np.empty(len(points), dtype=np.bool_), small.points(x)
        move = small.points(step) if len(step) else at[:0]
        ids, places = np.unique(pairs, return_inverse=True)
        triangles = small.triangles[ids]
        # the first of the triangles around a point or an edge tests it on behalf of all
        vertices, first = np.unique(triangles, return_index=True)
        owner = np.full(triangles.size, -1, dtype=np.int64)
        owner[first] = vertices
        ends, owned = unique_edges(triangles)
        places = places.reshape(pairs.shape)
        found = _expand(at, move, triangles, owner.reshape(-1, 3), ends, owned, places, reach, points, edges)
        points, edges = points[:found].copy(), edges[:found].copy()
        return points, edges, reach[points].min(axis=1)


def make_neighbourhood(
    rest: Floats,
    nodes: Ints,
    spaces: Ints,
    reach: Floats,
    excluded: Ints | None = None,
    make_small: Callable[[], SmallTriangles] | None = None,
) -> ContactNeighbourhood:
    """Return the neighbourhood of surfaces.

    Parameters
    ----------
    rest
        Rest positions, shape (n, 3).
    nodes
        Vertices of faces, oriented out of the material, (m, 3); or of quadratic ones all nodes, (m, 6).
    spaces
        Space that every face borders on, shape (m,); faces of different spaces never touch.
    reach
        Distance at which every vertex begins to feel others, shape (n,); with `make_small` at least that of all points of the
        faces around it.
    excluded
        Two bit masks for every face, shape (m, 2): faces f and g never touch if bit b is set in the first mask of one and in
        the second mask of the other; default nothing.
    make_small
        Makes the small triangles of the faces, sixteen of a quadratic one; default: the faces themselves.

    Raises
    ------
    InputError
        The arrays do not fit together.
    """
    if len(spaces) != len(nodes):
        raise InputError(f"spaces: {len(spaces)} given for {len(nodes)} faces")
    masks = np.zeros((len(nodes), 2), dtype=np.int64) if excluded is None else np.ascontiguousarray(excluded)
    rest, reach = np.ascontiguousarray(rest), np.ascontiguousarray(reach, dtype=float)
    clearance = make_clearance(rest, nodes, spaces, masks, reach[nodes[:, :3]].max(axis=1))
    return ContactNeighbourhood(
        rest, clearance, make_small or (lambda: SmallTriangles(lambda x: x, clearance.faces, reach))
    )


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
                one, other = min(i, j), max(i, j)  # whichever of the faces comes first
                ids[0], ids[1], ids[2], ids[3] = edges[one, 0], edges[one, 1], edges[other, 0], edges[other, 1]
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
    thin_wall_reaches = 10.0  # walls thinner at rest than this many reaches may come within reach of their other side
    w, c, e, at = np.empty(4), np.empty((4, 2)), np.empty(3), np.empty((4, 3))
    for p in range(len(points)):
        i, j, k, m = points[p]
        gather(rest, points[p], at)
        distance = pair_distance(at, edges[p], w, c, e)  # e points from the second feature to the first
        out[p] = min(reach[p], MIN_NEIGHBOUR_SHRINKAGE * distance)
        if distance < thin_wall_reaches * reach[p]:
            first, second = row(normals, i), cross(difference(at[2], at[1]), difference(at[3], at[1]))
            if edges[p]:
                first, second = plus(first, row(normals, j)), plus(row(normals, k), row(normals, m))
            if dot(first, e) > 0.0 > dot(second, e):
                out[p] = 0.0


@kernel
def _within(at, points, edges, limit, near):
    """Write which pairs are nearer than their limits, at positions of all points (p, 3)."""
    w, c, e, four = np.empty(4), np.empty((4, 2)), np.empty(3), np.empty((4, 3))
    for p in range(len(points)):
        if _features_meet(at, at[:0], points[p], np.int64(2) if edges[p] else np.int64(1), limit[p]):
            gather(at, points[p], four)
            near[p] = pair_distance(four, edges[p], w, c, e) < limit[p]


@kernel
def first_touch(at, moves, points, edges, limit):
    """Return the share of moves (p, 3), at most 1, after which a pair comes nearer than 0.3 of its limit, or half its distance.

    Only pairs that come within their limits count: what else a search has found makes no difference.
    """
    w, c, e, last = np.empty(4), np.empty((4, 2)), np.empty(3), 1.0
    four, move = np.empty((4, 3)), np.empty((4, 3))
    for p in range(len(points)):
        if not _features_meet(at, moves, points[p], np.int64(2) if edges[p] else np.int64(1), limit[p]):
            continue
        gather(at, points[p], four)
        gather(moves, points[p], move)
        distance = pair_distance(four, edges[p], w, c, e)
        gap = min(STOP_DISTANCE_SHARE * limit[p], MAX_APPROACH_SHARE * distance)
        if not ADVANCE_SHARE * (distance - gap) >= last * approach(move, edges[p]):
            last = min(last, time_to_gap(four, move, edges[p], gap, last, limit[p]))
    return last
