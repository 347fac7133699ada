"""Lower bounds of distances within and between curved surfaces that deform: which faces may meet in a step, and which cannot.

A face has three vertices, or six nodes and is quadratic; at rest it is flat. Two faces that share no vertex are apart where the
boxes around their Bezier points are, or where some plane separates these points at both ends of a step. Faces around one vertex
are held against an affine map M of them all, the one that fits their deformation gradients F best. Along a path of the length l
between two points, on which |F - M| <= e along the surface,

    |x_p - x_q| >= s |X_p - X_q| - e l,     |X_p - X_q| >= cos(T / 2) l,

with s the least stretch of M and T the turns of the path at rest: over edges by the angles of their faces, round vertices by what
two angles exceed 180 degrees [Schmidt's theorem on arcs of small curvature]. F is linear within a face and along a step, so
that e is that at the corners and ends; s falls no faster than M changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints
from geosim.collision.tree import MAX_WAITING_NODES, Tree, boxes_meet, build_tree, leaf_range, next_leaves, refit_tree
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, plus, row, scaled

# Distance over that at rest down to which faces around a vertex are certainly apart: contact begins at this share or later.
MIN_NEIGHBOUR_SHRINKAGE = 0.25
# Where nothing is near, faces are searched with this much room, so that short steps after it need no search: displacements
# over the smallest reach, and changes of deformation gradients. The last Newton steps of a command are shorter.
SPARE_REACHES, SPARE_GRADIENT = 1.0, 0.02
# Weight of the normals in the affine map around a vertex, where tangents of a flat surface do not tell it: more than those of
# a curved one that bends to and fro, less than those of a crease.
NORMAL_WEIGHT = 0.02
# The nodes of a face that are the corners of its quarters, their sides over those of the face, and the corners that the Bezier
# points of a face belong to.
QUARTER_CORNERS = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [4, 5, 3]])
QUARTER_SCALES = np.array([[2.0, 2.0, 2.0, 1.0]] * 3 + [[-2.0, -2.0, -2.0, 1.0]])
# Edges of a face's quarters in the order of their corners: 0..2 lie inside the face, 3..8 are halves of its edges 01, 12, 20.
QUARTER_EDGES = np.array([3, 0, 8, 4, 5, 1, 2, 6, 7, 2, 0, 1])


@dataclass(frozen=True)
class Clearance:
    """Faces of surfaces at rest, ready to be asked which of them may come near each other.

    Parameters
    ----------
    faces, nodes
        Vertices (m, 3) and nodes of the faces: the vertices, of quadratic ones then the middles of edges 01, 12, 20, (m, 3 or 6).
    spaces, excluded
        Space that every face borders on (m,), and two bit masks (m, 2): see `ContactNeighbourhood`.
    reach
        Largest distance at which a face feels others, (m,).
    tree
        Tree over the Bezier points of the faces.
    frames, inverse
        Two tangents and the normal of every face (m, 3, 3); what makes gradients along the tangents of those by its sides,
        and how much farther off M than those of a quadratic face those of its small flat triangles may be, (m, 4).
    fit
        Inverse normal matrix of M at every vertex, (n, 3, 3).
    straightness
        cos(T / 2) at every vertex, (n,); 0 where faces are not closed around it.
    valence
        Number of faces around every vertex, (n,); around the middle of an edge, of quarters.
    """

    faces: Ints
    nodes: Ints
    spaces: Ints
    excluded: Ints
    reach: Floats
    tree: Tree
    frames: Floats
    inverse: Floats
    fit: Floats
    straightness: Floats
    valence: Ints

    @cached_property
    def quarters(self) -> tuple[_Quarters, ...]:
        """Quarters of quadratic faces, and quarters of these: the flat triangles that feel each other."""
        splits, normals = 2 if self.nodes.shape[1] == 6 else 0, self.frames[:, 2]
        out: tuple[_Quarters, ...] = ()
        one: _Quarters | Clearance = self
        for _ in range(splits):
            one = _Quarters.of(one.nodes, normals, one.fit, one.straightness, one.valence)
            normals, out = np.repeat(normals, 4, axis=0), (*out, one)
        return out

    @cached_property
    def spare_way(self) -> float:
        """How far nodes may be moved from where all faces were found apart with room."""
        return SPARE_REACHES * float(self.reach.min(initial=np.inf))

    def within_room(self, moved: Floats) -> bool:
        """Whether faces that were found apart with room are still apart after displacements of the nodes (n, 3)."""
        move = bezier_points(moved, self.nodes)
        if np.square(move).sum(axis=2).max(initial=0.0) > self.spare_way**2:
            return False
        tangents = np.empty((len(move), 3, 2, 3))
        _tangents(move, self.inverse, tangents)
        steepest = np.square(tangents).sum(axis=(2, 3)).max(axis=1, initial=0.0)
        return bool(np.max(self.inverse[:, 3] ** 2 * steepest, initial=0.0) <= SPARE_GRADIENT**2)

    def pairs(
        self, x: Floats, step: Floats, factor: float = 1.0, *, all_spaces: bool = False, room: bool = False
    ) -> Ints:
        """Return the pairs of faces (k, 2) that may come within reach of each other, or fold, in a step; a face with itself too.

        Parameters
        ----------
        x, step
            Positions and displacements of the nodes, (n, 3); a step of no rows moves nothing.
        factor
            Of the reaches.
        all_spaces
            Whether it is asked about crossings: of faces of all spaces, excluded ones too.
        room
            Whether faces are also named that would come within reach after further displacements, see `within_room`.
        """
        # pairs of faces that there is room for at first: a second search costs more than memory
        first_pairs_per_face = 2
        start = bezier_points(x, self.nodes)
        move = bezier_points(step, self.nodes) if len(step) else start[:0]
        reach, of_faces = factor * self.reach, self.tree.primitives
        if room:
            reach = reach + 2.0 * self.spare_way
        level = _Level(
            start,
            move,
            self.nodes,
            self.frames,
            self.inverse,
            reach,
            np.arange(len(start)),
            self.fit,
            self.straightness,
            self.valence,
            SPARE_GRADIENT if room else 0.0,
        )
        of_nodes, moves = np.empty_like(self.tree.boxes), np.empty((len(self.tree.boxes) if len(step) else 0, 6))
        refit_tree(start.reshape(-1, 3), of_faces, self.tree.order, of_nodes, 0.5 * reach)
        if len(step):
            refit_tree(move.reshape(-1, 3), of_faces, self.tree.order, moves, np.zeros(len(start)))
        spaces = np.zeros_like(self.spaces) if all_spaces else self.spaces
        excluded = np.zeros_like(self.excluded) if all_spaces else self.excluded
        search = (of_nodes, moves, self.tree.order, spaces, excluded, *level.asked(np.ones(len(x), dtype=bool)))
        (pairs,) = filled(lambda out: _search(*search, out), first_pairs_per_face * len(start), ((2,), np.int64))
        for quarters in self.quarters if len(pairs) else ():
            level, pairs = level.split(pairs, quarters)
        return np.ascontiguousarray(level.number[pairs])


class _Quarters(NamedTuple):
    """The quarters of all faces, of which nothing moves: nodes (4 m, 6), and what `_Level` has at all nodes."""

    nodes: Ints
    fit: Floats
    straightness: Floats
    valence: Ints

    @classmethod
    def of(cls, nodes: Ints, normals: Floats, fit: Floats, straightness: Floats, valence: Ints) -> _Quarters:
        """Return the quarters of faces with nodes (m, 6) and normals (m, 3)."""
        count, ends = len(nodes), np.stack([nodes[:, :3], np.roll(nodes[:, :3], -1, axis=1)], axis=2)
        inside = np.zeros(len(fit), dtype=bool)
        inside[nodes[:, 3:]] = True
        outer, place = np.flatnonzero(inside), np.cumsum(inside) - 1
        halves = 3 * count + 2 * place[nodes[:, 3:], None] + (ends > ends[..., ::-1])
        middles = np.hstack([np.arange(3 * count).reshape(-1, 3), halves.reshape(-1, 6)])[:, QUARTER_EDGES]
        inner = (np.eye(3) + (1.0 / NORMAL_WEIGHT - 1.0) * normals[:, :, None] * normals[:, None]) / 6.0
        added = 3 * count + 2 * len(outer)
        return cls(
            np.hstack([nodes[:, QUARTER_CORNERS].reshape(-1, 3), len(fit) + middles.reshape(-1, 3)]),
            np.concatenate([fit, np.repeat(inner, 3, axis=0), np.repeat(fit[outer], 2, axis=0)]),
            np.concatenate([straightness, np.ones(3 * count), np.repeat(straightness[outer], 2)]),
            np.concatenate([valence, np.full(added, 6)]),
        )


class _Level(NamedTuple):
    """Faces, or quarters of them, as the tests take them; see `Clearance`.

    Parameters
    ----------
    start, move
        Bezier points (m, k, 3), and their displacements in a step; no rows: nothing moves.
    nodes, frames, inverse, reach
        Of these faces.
    number
        Place of every face in the order in which all are split.
    fit, straightness
        At all nodes that have been numbered, (n, 3, 3) and (n,).
    valence
        Number of faces around them, (n,); of quarters, around the middles of edges.
    spare
        By how much gradients may change before faces around a vertex can meet.
    """

    start: Floats
    move: Floats
    nodes: Ints
    frames: Floats
    inverse: Floats
    reach: Floats
    number: Ints
    fit: Floats
    straightness: Floats
    valence: Ints
    spare: float

    def asked(self, wanted: Bools) -> tuple[Any, ...]:
        """Return what `_apart` goes by, with the vertices (n,) at which it may look."""
        ends = np.stack([self.start, self.start + self.move]) if len(self.move) else self.start[None]
        of_faces, of_vertices = (self.nodes, self.frames, self.inverse), (self.fit, self.straightness, self.valence)
        clear = _clear_vertices(ends, *of_faces, *of_vertices, wanted, self.spare)
        boxes, motions = face_boxes(self.start, 0.5 * self.reach), face_boxes(self.move, np.zeros(len(self.move)))
        return boxes, motions, self.start, self.move, self.reach, self.nodes, clear

    def split(self, pairs: Ints, quarters: _Quarters) -> tuple[_Level, Ints]:
        """Return the quarters of the faces around some pairs (k, 2), in which gradients vary half as much, and the pairs left."""
        one, other = self.nodes[pairs[:, 0], :3], self.nodes[pairs[:, 1], :3]
        shared = np.zeros(len(self.fit), dtype=bool)
        shared[one[(one[:, :, None] == other[:, None]).any(axis=2)]] = True
        around = np.asarray(shared[self.nodes[:, :3]].any(axis=1))
        around[pairs] = True
        ids = np.flatnonzero(around)
        number = (4 * self.number[ids, None] + np.arange(4)).ravel()
        start, move = (
            np.matmul(QUARTERS.reshape(24, 6), of[ids[: len(of)]]).reshape(-1, 6, 3) for of in (self.start, self.move)
        )
        level = _Level(
            start,
            move,
            quarters.nodes[number],
            np.repeat(self.frames[ids], 4, axis=0),
            (self.inverse[ids, None] * QUARTER_SCALES).reshape(-1, 4),
            np.repeat(self.reach[ids], 4),
            number,
            quarters.fit,
            quarters.straightness,
            quarters.valence,
            self.spare,
        )
        place, left = np.full(len(self.nodes), -1), np.empty((16 * len(pairs), 2), dtype=np.int64)
        place[ids] = np.arange(len(ids))
        shared[self.nodes[pairs.ravel(), 3:]] = True
        wanted = np.concatenate([shared, np.zeros(len(quarters.fit) - len(shared), dtype=bool)])
        return level, left[: _ask_quarters(place[pairs], *level.asked(wanted), left)]


def bezier_points(x: Floats, nodes: Ints) -> Floats:
    """Return the Bezier points of faces at positions of the nodes, in the order of the nodes, (m, 3 or 6, 3)."""
    out = np.empty((*nodes.shape, 3))
    _bezier_points(x, nodes, out)
    return out


def _quarters() -> Floats:
    """Bezier points of the four quarters of a face from its own, (4, 6, 6): blossoms at the corners of the quarters."""
    bezier_corners = ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0))
    corners, out = np.vstack([np.eye(3), 0.5 * (np.eye(3) + np.roll(np.eye(3), 1, axis=1))]), np.zeros((4, 6, 6))
    for quarter, ids in enumerate(QUARTER_CORNERS):
        for k, (i, j) in enumerate(bezier_corners):
            both = np.outer(corners[ids[i]], corners[ids[j]])
            for m, (a, b) in enumerate(bezier_corners):
                out[quarter, k, m] = both[a, b] + (both[b, a] if a != b else 0.0)
    return out


QUARTERS = _quarters()


def make_clearance(rest: Floats, nodes: Ints, spaces: Ints, excluded: Ints, reach: Floats) -> Clearance:
    """Return what tells which faces may meet; arguments are as in `Clearance`, with rest positions (n, 3)."""
    nodes, spaces = np.ascontiguousarray(nodes, dtype=np.int64), np.ascontiguousarray(spaces, dtype=np.int64)
    faces, points = np.ascontiguousarray(nodes[:, :3]), bezier_points(rest, nodes)
    tree = build_tree(points.reshape(-1, 3), np.arange(nodes.size).reshape(nodes.shape))
    frames, inverse = np.empty((len(faces), 3, 3)), np.empty((len(faces), 4))
    _rest_frames(rest, faces, frames, inverse)
    normals = frames[:, 2, :, None] * frames[:, 2, None]
    matrices = np.eye(3) - (1.0 - NORMAL_WEIGHT) * normals
    total = np.zeros((len(rest), 3, 3))
    for k in range(
        nodes.shape[1]
    ):  # around the middle of an edge are three quarters of both its faces, around a vertex one
        np.add.at(total, nodes[:, k], matrices if k < 3 else 3.0 * matrices)
    total[np.bincount(nodes.ravel(), minlength=len(rest)) == 0] = np.eye(3)
    order = np.argsort(nodes.ravel(), kind="stable")
    starts = np.searchsorted(nodes.ravel()[order], np.arange(len(rest) + 1))
    straightness = np.zeros(len(rest))
    _straightness(rest, nodes, frames, starts, order // nodes.shape[1], straightness)
    fit: Floats = np.asarray(np.linalg.inv(total), dtype=float)
    valence = np.bincount(faces.ravel(), minlength=len(rest)) + 3 * np.bincount(
        nodes[:, 3:].ravel(), minlength=len(rest)
    )
    return Clearance(faces, nodes, spaces, excluded, reach, tree, frames, inverse, fit, straightness, valence)


@kernel
def _bezier_points(x, nodes, out):
    for f in range(len(nodes)):
        for k in range(nodes.shape[1]):
            for a in range(3):
                out[f, k, a] = x[nodes[f, k], a]
                if k >= 3:
                    out[f, k, a] = 2.0 * out[f, k, a] - 0.5 * (out[f, k - 3, a] + out[f, (k - 2) % 3, a])


@kernel
def face_boxes(points, margins):
    """Return boxes around the points of faces (m, k, 3), enlarged by margins (m,), shape (m, 6)."""
    out = np.empty((len(points), 6))
    for f in range(len(points)):
        for a in range(3):
            low, high = points[f, 0, a], points[f, 0, a]
            for k in range(1, points.shape[1]):
                low, high = min(low, points[f, k, a]), max(high, points[f, k, a])
            out[f, a], out[f, a + 3] = low - margins[f], high + margins[f]
    return out


@kernel
def _rest_frames(rest, faces, frames, inverse):
    """Write an orthonormal frame of every face, and what makes derivatives along it of those along two sides."""
    for f in range(len(faces)):
        a = row(rest, faces[f, 0])
        u, v = difference(row(rest, faces[f, 1]), a), difference(row(rest, faces[f, 2]), a)
        n, length = cross(u, v), max(np.sqrt(dot(u, u)), MIN_DIVISOR)
        n = scaled(1.0 / max(np.sqrt(dot(n, n)), MIN_DIVISOR), n)
        first = scaled(1.0 / length, u)
        second = cross(n, first)
        height = max(dot(v, second), MIN_DIVISOR)
        inverse[f, 0], inverse[f, 1], inverse[f, 2] = 1.0 / length, -dot(v, first) / (length * height), 1.0 / height
        widest = max(_angle(rest, faces[f], 0), _angle(rest, faces[f], 1), _angle(rest, faces[f], 2))
        inverse[f, 3] = max(1.0, 0.5 / np.cos(0.5 * widest))
        for a in range(3):
            frames[f, 0, a], frames[f, 1, a], frames[f, 2, a] = first[a], second[a], n[a]


@kernel
def _tangents(points, inverse, out):
    """Write the derivatives of the position along both tangents of every face at its corners, (m, 3, 2, 3)."""
    order = 1 if points.shape[1] == 3 else 2
    for f in range(len(points)):
        for corner in range(3):
            at = QUARTER_CORNERS[corner if order == 2 else 0]
            here, one, other = (at[0], at[1], at[2]) if order == 2 else (0, 1, 2)
            for a in range(3):
                u, v = points[f, one, a] - points[f, here, a], points[f, other, a] - points[f, here, a]
                out[f, corner, 0, a] = order * inverse[f, 0] * u
                out[f, corner, 1, a] = order * (inverse[f, 1] * u + inverse[f, 2] * v)


@kernel
def _affine(tangents, faces, frames, fit, wanted, maps):
    """Write the affine maps around vertices that are wanted (n, 3, 3)."""
    for f in range(len(faces)):
        u, v = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        for corner in range(3):
            u = plus(u, scaled(1.0 / 3.0, row(tangents[f, corner], 0)))
            v = plus(v, scaled(1.0 / 3.0, row(tangents[f, corner], 1)))
        n = cross(u, v)
        n = scaled(NORMAL_WEIGHT / max(dot(n, n) ** 0.25, MIN_DIVISOR), n)
        for a in range(3):
            for b in range(3):
                both = u[a] * frames[f, 0, b] + v[a] * frames[f, 1, b] + n[a] * frames[f, 2, b]
                for corner in range(3):
                    maps[faces[f, corner], a, b] += both
    for k in range(len(fit)):
        for a in range(3 if wanted[k] else 0):
            p = row(maps[k], a)
            for b in range(3):
                maps[k, a, b] = p[0] * fit[k, 0, b] + p[1] * fit[k, 1, b] + p[2] * fit[k, 2, b]


@kernel
def _spread_about(tangents, faces, frames, inverse, wanted, maps, spread):
    """Add how far the gradients of the faces are off the affine maps around vertices that are wanted, (n,)."""
    for f in range(len(faces)):
        for k in range(3):
            if not wanted[faces[f, k]]:
                continue
            m, largest = maps[faces[f, k]], 0.0
            for corner in range(3):
                uu, uv, vv = 0.0, 0.0, 0.0
                for a in range(3):
                    p, q = tangents[f, corner, 0, a], tangents[f, corner, 1, a]
                    for b in range(3):
                        p, q = p - m[a, b] * frames[f, 0, b], q - m[a, b] * frames[f, 1, b]
                    uu, uv, vv = uu + p * p, uv + p * q, vv + q * q
                largest = max(largest, 0.5 * (uu + vv) + np.sqrt(0.25 * (uu - vv) ** 2 + uv * uv))
            spread[faces[f, k]] = max(spread[faces[f, k]], inverse[f, 3] * np.sqrt(largest))


@kernel
def _least_stretch(start, end, share):
    """Lower bound of the least stretch of the map at a share of the way between two: s (|M|^2 - s^2) / 2 >= det M, repeated."""
    a = combine(1.0 - share, row(start, 0), share, row(end, 0))
    b = combine(1.0 - share, row(start, 1), share, row(end, 1))
    c = combine(1.0 - share, row(start, 2), share, row(end, 2))
    square, volume, least = dot(a, a) + dot(b, b) + dot(c, c), dot(cross(a, b), c), 0.0
    for _ in range(4 if volume > 0.0 else 0):
        least = 2.0 * volume / (square - least * least)
    return least


@kernel
def _clear_vertices(ends, faces, frames, inverse, fit, straightness, valence, wanted, spare):
    """At which of the wanted vertices the faces around them cannot meet between one or two `ends` of a step, bool (n,).

    These are the Bezier points of the faces (1 or 2, m, k, 3). Gradients may change by `spare` more.
    """
    # of deformation gradients: vertices where folded faces lie on each other are never certain
    gradient_rounding = 1e-9
    maps, spread, clear = np.empty((len(ends), len(fit), 3, 3)), np.zeros(len(fit)), np.zeros(len(fit), dtype=np.bool_)
    count, tangents = np.zeros(len(fit), dtype=np.int64), np.empty((len(faces), 3, 2, 3))
    for f in range(len(faces)):
        for k in range(3):
            count[faces[f, k]] += 1
            maps[:, faces[f, k]] = 0.0
    for v in range(len(fit)):
        clear[v] = wanted[v] and straightness[v] > 0.0 and count[v] == valence[v]
    for k in range(len(ends)):
        _tangents(ends[k], inverse, tangents)
        _affine(tangents, faces, frames, fit, clear, maps[k])
        _spread_about(tangents, faces, frames, inverse, clear, maps[k], spread)
    for v in range(len(fit)):
        if clear[v]:
            least = _least_on_the_way(maps[0, v], maps[-1, v], len(ends) > 1)
            clear[v] = (least - MIN_NEIGHBOUR_SHRINKAGE) * straightness[v] > spread[v] + spare + gradient_rounding
    return clear


@kernel
def _least_on_the_way(start, end, moves):
    """Lower bound of the least stretch of all maps between two, or of the first one alone."""
    # parts of a step in which the affine map around a vertex is bounded: where it turns by a right angle two would do
    step_parts = 4
    before, change = _least_stretch(start, end, 0.0), 0.0
    least = before
    for a in range(3):
        for b in range(3):
            change += (end[a, b] - start[a, b]) ** 2
    for part in range(1, step_parts + 1 if moves else 1):
        after = _least_stretch(start, end, part / step_parts)
        least = min(least, 0.5 * (before + after - np.sqrt(change) / step_parts))
        before = after
    return least


@kernel
def _angle(rest, face, k):
    """Angle of a face at its corner k."""
    p = row(rest, face[k])
    u, v = difference(row(rest, face[(k + 1) % 3]), p), difference(row(rest, face[(k + 2) % 3]), p)
    n = cross(u, v)
    return np.arctan2(np.sqrt(dot(n, n)), dot(u, v))


@kernel
def _straightness(rest, faces, frames, starts, around, out):
    """Write cos(T / 2) at every node: the turns T of the straightest path between any two points of the faces around it."""
    most = 0
    for v in range(len(out)):
        most = max(most, starts[v + 1] - starts[v])
    fan, angle, turn = np.empty(most, dtype=np.int64), np.empty(most), np.empty(most)
    for v in range(len(out)):
        count = starts[v + 1] - starts[v]
        if count == 2:
            f, g = around[starts[v]], around[starts[v] + 1]
            k, m = _corner(faces, f, v), _corner(faces, g, v)
            if (
                k >= 3
                and m >= 3
                and faces[f, k - 3] == faces[g, (m - 2) % 3]
                and faces[f, (k - 2) % 3] == faces[g, m - 3]
            ):
                one = _angle(rest, faces[f], k - 3) + _angle(rest, faces[g], (m - 2) % 3)
                other = _angle(rest, faces[f], (k - 2) % 3) + _angle(rest, faces[g], m - 3)
                out[v] = np.cos(0.5 * min(_fold(frames, f, g) + max(0.0, max(one, other) - np.pi), np.pi))
        if count < 3 or not _in_order(faces, v, around[starts[v] : starts[v + 1]], fan):
            continue
        whole, turns, worst = 0.0, 0.0, 0.0
        for i in range(count):  # turn i: over the edge from face i to the next, and round its other end
            f, g = fan[i], fan[(i + 1) % count]
            k, m = _corner(faces, f, v), _corner(faces, g, v)
            angle[i] = _angle(rest, faces[f], k)
            beyond = _angle(rest, faces[f], (k + 2) % 3) + _angle(rest, faces[g], (m + 1) % 3) - np.pi
            turn[i] = _fold(frames, f, g) + max(0.0, beyond)
            whole, turns = whole + angle[i], turns + turn[i]
        for i in range(count):
            one, span = 0.0, angle[i]
            for j in range(i + 1, i + count):
                one, span = one + turn[(j - 1) % count], span + angle[j % count]
                back = whole - span + angle[i] + angle[j % count]
                # one side's way, by its largest angle; or, since the angles add up, the one whose angle is the smaller
                least = min(one + max(0.0, span - np.pi), turns - one + max(0.0, back - np.pi))
                worst = max(worst, min(least, max(one, turns - one) + max(0.0, 0.5 * whole - np.pi)))
        out[v] = np.cos(0.5 * min(worst, np.pi))


@kernel
def _fold(frames, f, g):
    """Angle between the normals of two faces."""
    n, other = row(frames[f], 2), row(frames[g], 2)
    normal = cross(n, other)
    return np.arctan2(np.sqrt(dot(normal, normal)), dot(n, other))


@kernel
def _corner(faces, f, v):
    """Place of a node among those of a face."""
    k = 0
    while faces[f, k] != v:
        k += 1
    return k


@kernel
def _in_order(faces, v, ids, fan):
    """Write the faces `ids` around a vertex in order, each with the next one across an edge; whether they close around it."""
    fan[0] = ids[0]
    for i in range(len(ids)):
        end, found, following = faces[fan[i], (_corner(faces, fan[i], v) + 2) % 3], 0, fan[0]
        for g in ids:
            if faces[g, (_corner(faces, g, v) + 1) % 3] == end:
                found, following = found + 1, g
        if found != 1 or (following == fan[0]) != (i == len(ids) - 1):
            return False
        if i < len(ids) - 1:
            fan[i + 1] = following
    return True


@kernel
def _gap(points, f, g, d):
    """Gap between the points of two faces along a direction, negative where they overlap."""
    low, high = np.inf, -np.inf
    for k in range(points.shape[1]):
        high, low = max(high, dot(points[f, k], d)), min(low, dot(points[g, k], d))
    return low - high


@kernel
def _separated(points, move, f, g, reach):
    """Whether a plane keeps two faces more than a reach apart in a step: along that between their middles, or a normal."""
    mid = (0.0, 0.0, 0.0)
    for k in range(points.shape[1]):
        mid = plus(mid, difference(points[g, k], points[f, k]))
    for k in range(points.shape[1] if len(move) else 0):
        mid = plus(mid, scaled(0.5, difference(move[g, k], move[f, k])))
    for way in range(3):
        d = mid
        if way > 0:
            h = f if way == 1 else g
            d = cross(difference(points[h, 1], points[h, 0]), difference(points[h, 2], points[h, 0]))
            d = scaled(1.0 if dot(d, mid) > 0.0 else -1.0, d)
        d = scaled(1.0 / max(np.sqrt(dot(d, d)), MIN_DIVISOR), d)
        gap = _gap(points, f, g, d)
        if gap > reach and (len(move) == 0 or gap + _gap(move, f, g, d) > reach):
            return True
    return False


@kernel
def _apart(boxes, motions, points, move, reach, faces, clear, f, g):
    """Whether two faces certainly stay more than a reach apart in a step, but for a vertex or an edge that they share."""
    if not boxes_meet(boxes, motions, f, g):
        return True
    shares = False
    for k in range(3):
        v = faces[f, k]
        if v in (faces[g, 0], faces[g, 1], faces[g, 2]):
            shares = True
            if clear[v]:
                return True
    return not shares and _separated(points, move, f, g, min(reach[f], reach[g]))


@kernel
def _search(of_nodes, moves, order, spaces, excluded, boxes, motions, points, move, reach, faces, clear, pairs):
    """Write the pairs of faces that may come within reach in a step; return how many there are."""
    found, top, count = np.int64(0), np.int64(1), len(order)
    stack = np.zeros((MAX_WAITING_NODES, 2), dtype=np.int64)
    top = next_leaves(of_nodes, moves, stack, top)
    while top >= 0:
        i, j = stack[top]
        (first, last), (start, end) = leaf_range(of_nodes, i, count), leaf_range(of_nodes, j, count)
        for a in range(first, last):
            for b in range(a if i == j else start, end):
                f, g = order[a], order[b]
                if spaces[f] != spaces[g] or (excluded[f, 0] & excluded[g, 1]) | (excluded[f, 1] & excluded[g, 0]):
                    continue
                if not _apart(boxes, motions, points, move, reach, faces, clear, f, g):
                    if found < len(pairs):
                        pairs[found, 0], pairs[found, 1] = f, g
                    found += 1
        top = next_leaves(of_nodes, moves, stack, top)
    return found


@kernel
def _ask_quarters(pairs, boxes, motions, points, move, reach, faces, clear, left):
    """Write the pairs of quarters of pairs of faces that may come within reach in a step; return how many there are."""
    found = 0
    for p in range(len(pairs)):
        f, g = pairs[p]
        for i in range(4):
            for j in range(i if f == g else 0, 4):
                if not _apart(boxes, motions, points, move, reach, faces, clear, 4 * f + i, 4 * g + j):
                    left[found, 0], left[found, 1] = 4 * f + i, 4 * g + j
                    found += 1
    return found
