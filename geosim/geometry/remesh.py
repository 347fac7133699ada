"""Remeshing of closed surfaces before tetrahedra: edges of one length, needles gone, within a distance of the old surface.

Isotropic explicit remeshing [Botsch and Kobbelt 2004, Proc. SGP]: edges collapse where they are short and split where they are
long, triangles flip where that makes them rounder, and vertices move along the surface. Every step is checked before it is taken:
points of the old surface stay within their distance of the new triangles, new triangles within it of the old surface, and no
triangle turns over. Vertices move along normals to where the old points lie on both sides of the new triangles alike, so that a
fillet which becomes a chamfer keeps its volume. All surfaces of a robot are one set of triangles, so shared walls stay shared.
Of twenty CAD parts all mesh after it, sixteen after MeshLab's remesher and six after mmgs, with several times as many tets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from geosim.collision.distance import along_segment, closest_on_triangle
from geosim.collision.queries import nearest_face
from geosim.collision.tree import build_tree
from geosim.geometry import shells
from geosim.geometry.progress import Progress
from geosim.geometry.topology import linked
from geosim.geometry.widths import unit_normals, wall_samples
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, plus, put, row, scaled

# Edges shorter than the first collapse, over the edge that is wanted, and make none longer than the second [Botsch and Kobbelt
# 2004]. Those longer than the third split: surfaces in triangles between the two stay as they are.
SHORT_EDGE, LONG_EDGE, SPLIT_EDGE = 0.8, 4.0 / 3.0, 2.0
# Angles between triangles [rad]: from the first on an edge is sharp where the surface would move by more than it may without it,
# from the second on it always is; below the third it is flat. A line of sharp edges has a corner where it turns by the fourth.
SHARP_RAD, ALWAYS_SHARP_RAD, FLAT_RAD, CORNER_RAD = np.radians([25.0, 60.0, 1.0, 45.0])
FREE, ON_LINE, CORNER = 0, 1, 2  # kinds of vertices
# Triangles that turn by less are one flat face; one wider than so many distances that the surface may move stays flat, within the
# last share of that distance.
COPLANAR_RAD, FLAT_WIDTHS, FLAT_LIMIT = np.radians(0.1), 4.0, 1e-3
FLAT_WEIGHT = 1e6  # of such a face beside others where a point of least distance is sought
MIN_SHAPE, KEPT_SHAPE = 0.3, 0.9  # shape of a triangle, and what of the worst old one's a worse one keeps
WALL_SHARE = 0.15  # of a wall, gap or slot, by which each of its sides may move
MAX_AROUND = 256  # triangles at the ends of an edge that collapses: more are left alone


class _State(NamedTuple):
    """Triangles that change, the points of the old surface that lie on each, and the old surface."""

    x: Any  # positions [m] (n, 3)
    kind: Any  # (n,)
    faces: Any  # (m, 3); -1 for those that are gone
    sharp: Any  # whether the edge from each corner to the next is sharp (m, 3)
    label: Any  # (m,)
    first: Any  # a corner 3 f + i of each vertex (n,), and the next of the same vertex (3 m,); -1 for none
    following: Any
    points: Any  # of the old surface [m] (p, 3)
    on_line: Any  # which of them lie on sharp edges (p,)
    normals: Any  # of the old surface there (p, 3)
    flat: Any  # which of them lie on faces that stay flat (p,)
    limits: Any  # how far the new surface may be from each [m] (p,)
    weights: Any  # area that each stands for, over the square of their spacing (p,)
    topmost: Any  # a point on each triangle (m,), and the next of the same triangle (p,); -1 for none
    below: Any
    goal: Any  # which of the new triangles a point would go to (p,)
    old_x: Any
    old_faces: Any
    order: Any
    boxes: Any
    old_normals: Any  # (k, 3); 0 for slivers
    old_limits: Any  # how far a new triangle may be from each old one [m] (k,), and the largest of them
    max_limit: Any


@kernel
def _link(s):
    s.first[:] = -1
    for corner in range(3 * len(s.faces)):
        v = s.faces[corner // 3, corner % 3]
        if v >= 0:
            s.following[corner] = s.first[v]
            s.first[v] = corner


@kernel
def _unlink(s, f):
    """Take a triangle out."""
    for i in range(3):
        v, corner = s.faces[f, i], 3 * f + i
        at = s.first[v]
        if at == corner:
            s.first[v] = s.following[corner]
        else:
            while s.following[at] != corner:
                at = s.following[at]
            s.following[at] = s.following[corner]


@kernel
def _relink(s, f):
    """Put a triangle back, with other vertices."""
    for i in range(3):
        v, corner = s.faces[f, i], 3 * f + i
        s.following[corner] = s.first[v]
        s.first[v] = corner


@kernel
def _shape(a, b, c):
    """Twice the area of a triangle times 2 sqrt(3) over the sum of its squared edges: 1 is equilateral."""
    u, v, w = difference(b, a), difference(c, b), difference(a, c)
    normal = cross(u, v)
    return 2.0 * np.sqrt(3.0) * np.sqrt(dot(normal, normal)) / (dot(u, u) + dot(v, v) + dot(w, w) + 1e-300)


@kernel
def _shape_of(s, t):
    return _shape(row(s.x, t[0]), row(s.x, t[1]), row(s.x, t[2]))


@kernel
def _on_old(s, p, share):
    """Old triangle within the distance allowed of a point, or -1."""
    most = share * s.max_limit
    f, on = nearest_face(p, -1, s.old_x, s.old_faces, s.order, s.boxes, most * most)
    if f < 0:
        return -1
    a, b, c = row(s.old_x, s.old_faces[f, 0]), row(s.old_x, s.old_faces[f, 1]), row(s.old_x, s.old_faces[f, 2])
    away = difference(p, plus(combine(on[0], a, on[1], b), scaled(on[2], c)))
    return f if dot(away, away) <= (share * s.old_limits[f]) ** 2 else -1


@kernel
def _lies_on_old(s, t, side, share):
    """Whether a new triangle lies on the old surface and looks the same way; of its edges only this one is new."""
    min_turn_cosine = 0.5  # between the normals of a new triangle and of the old surface behind its middle
    a, b, c = row(s.x, t[0]), row(s.x, t[1]), row(s.x, t[2])
    normal = cross(difference(b, a), difference(c, a))
    size = np.sqrt(dot(normal, normal))
    f = _on_old(s, scaled(1.0 / 3.0, plus(plus(a, b), c)), share)
    if f < 0 or not size > 0.0:
        return False
    old = row(s.old_normals, f)
    if dot(old, old) > 0.0 and dot(old, normal) < min_turn_cosine * size:
        return False
    return _on_old(s, combine(0.5, row(s.x, t[side]), 0.5, row(s.x, t[(side + 1) % 3])), share) >= 0


@kernel
def _nearest(s, p, on_line, t, lines):
    """Squared distance of a point from a triangle, or from its sharp edges."""
    least = np.inf
    if not on_line:
        a, b, c = row(s.x, t[0]), row(s.x, t[1]), row(s.x, t[2])
        on = closest_on_triangle(p, a, b, c)
        away = difference(p, plus(combine(on[0], a, on[1], b), scaled(on[2], c)))
        return dot(away, away)
    for i in range(3):
        if lines[i]:
            least = min(least, along_segment(p, row(s.x, t[i]), row(s.x, t[(i + 1) % 3]))[1])
    return least


@kernel
def _may(s, olds, news, lines, pivot, share):
    """Whether new triangles may stand for old ones; the points of these know then where they go.

    All edges that are new begin or end at a vertex; each is the one after it in a triangle.
    """
    close = 0.02  # of what is allowed: a triangle so near is taken, and no nearer one looked for
    for j in range(len(olds)):
        k = s.topmost[olds[j]]
        while k >= 0:
            least = np.inf
            for n in range(len(news)):
                square = _nearest(s, row(s.points, k), s.on_line[k], news[n], lines[n])
                if square < least:
                    least = square
                    s.goal[k] = n
                if least <= (close * s.limits[k]) ** 2:
                    break
            if not least <= (share * s.limits[k]) ** 2:
                return False
            k = s.below[k]
    for n in range(len(news)):
        t = news[n]
        if not _lies_on_old(s, t, 0 if t[0] == pivot else (1 if t[1] == pivot else 2), share):
            return False
    return True


@kernel
def _hand_over(s, olds, ids):
    """Give the points of old triangles to the new ones that they go to."""
    moving = -1
    for j in range(len(olds)):
        k = s.topmost[olds[j]]
        s.topmost[olds[j]] = -1
        while k >= 0:
            after = s.below[k]
            s.below[k] = moving
            moving = k
            k = after
    while moving >= 0:
        after, f = s.below[moving], ids[s.goal[moving]]
        s.below[moving] = s.topmost[f]
        s.topmost[f] = moving
        moving = after


@kernel
def _around(s, v, out, count):
    """Append the triangles of a vertex that are not in a list yet; return its new length, -1 if it is full."""
    corner = s.first[v]
    while corner >= 0:
        f = corner // 3
        known = False
        for j in range(count):
            known = known or out[j] == f
        if not known:
            if count == len(out):
                return -1
            out[count] = f
            count += 1
        corner = s.following[corner]
    return count


@kernel
def _has(s, f, v):
    return v in (s.faces[f, 0], s.faces[f, 1], s.faces[f, 2])


@kernel
def _place_of(s, f, v):
    """Corner of a triangle that is a vertex."""
    return 0 if s.faces[f, 0] == v else (1 if s.faces[f, 1] == v else 2)


@kernel
def _edge_state(s, a, b):
    """Number of triangles at an edge, and whether it is sharp."""
    count, sharp = 0, False
    corner = s.first[a]
    while corner >= 0:
        f, i = corner // 3, corner % 3
        if s.faces[f, (i + 1) % 3] == b:
            count, sharp = count + 1, sharp or s.sharp[f, i]
        elif s.faces[f, (i + 2) % 3] == b:
            count, sharp = count + 1, sharp or s.sharp[f, (i + 2) % 3]
        corner = s.following[corner]
    return count, sharp


@kernel
def _keeps_topology(s, a, b, mark):
    """Whether an edge may collapse: common neighbours of its ends are the tips of its triangles, and no lines merge."""
    tips = 0
    _mark_around(s, a, mark, 1)
    corner = s.first[b]
    while corner >= 0:
        f, i = corner // 3, corner % 3
        if _has(s, f, a):
            c = s.faces[f, (i + 1) % 3] if s.faces[f, (i + 1) % 3] != a else s.faces[f, (i + 2) % 3]
            mark[c] = 2
            tips += 1
            if _edge_state(s, a, c)[1] and _edge_state(s, b, c)[1]:
                tips = -100
        corner = s.following[corner]
    good = tips > 0
    corner = s.first[b]
    while corner >= 0:
        f = corner // 3
        for v in s.faces[f]:
            good = good and (v in (a, b) or mark[v] != 1)
        # b has three triangles; where the third one's tips have a triangle with a, too, four are a whole surface
        if _tips_of(s, f, mark) == 2:
            good = good and not _closes(s, a, b, mark)
        corner = s.following[corner]
    _mark_around(s, a, mark, 0)
    return good


@kernel
def _mark_around(s, v, mark, value):
    """Mark the corners of the triangles of a vertex."""
    corner = s.first[v]
    while corner >= 0:
        for w in s.faces[corner // 3]:
            mark[w] = value
        corner = s.following[corner]


@kernel
def _tips_of(s, f, mark):
    """Number of the corners of a triangle that are marked as tips."""
    return (mark[s.faces[f, 0]] == 2) + (mark[s.faces[f, 1]] == 2) + (mark[s.faces[f, 2]] == 2)


@kernel
def _closes(s, a, b, mark):
    """Whether a has a triangle with both marked tips that b is no corner of."""
    corner = s.first[a]
    while corner >= 0:
        f = corner // 3
        if not _has(s, f, b) and _tips_of(s, f, mark) == 2:
            return True
        corner = s.following[corner]
    return False


@kernel
def _is_flat(s, f, n):
    """Whether a triangle lies in a flat face of the old surface, with a normal n of any length."""
    same_cosine, k = 1.0 - 1e-6, s.topmost[f]
    while k >= 0:
        if s.flat[k] and dot(n, row(s.normals, k)) > same_cosine * np.sqrt(dot(n, n)):
            return True
        k = s.below[k]
    return False


@kernel
def _best_point(s, olds, a, b):
    """Point of least squared distance from the planes of triangles, near the middle of an edge [Lindstrom and Turk 1998]."""
    middle_weight_rel = 1e-6  # beside the planes: where they leave the point free it stays in the middle
    A, g, middle = np.zeros((3, 3)), np.zeros(3), combine(0.5, row(s.x, a), 0.5, row(s.x, b))
    for f in olds:
        p = row(s.x, s.faces[f, 0])
        n = cross(difference(row(s.x, s.faces[f, 1]), p), difference(row(s.x, s.faces[f, 2]), p))
        n = scaled(1.0 / (dot(n, n) ** 0.25 + 1e-300), n)  # by area
        _stiffen(A, g, FLAT_WEIGHT if _is_flat(s, f, n) else 1.0, n, dot(n, difference(p, middle)))
    extra = middle_weight_rel * (A[0, 0] + A[1, 1] + A[2, 2]) / FLAT_WEIGHT + 1e-300
    for i in range(3):
        A[i, i] += extra
    return plus(middle, _solved(A, g))


@kernel
def _may_go(s, a, b, mark):
    """Whether the second end of an edge may go into the first: corners and lines stay, and the surface has no new holes."""
    count, sharp = _edge_state(s, a, b)
    if count == 0 or s.kind[b] == CORNER or (s.kind[b] == ON_LINE and not sharp):
        return False
    return _keeps_topology(s, a, b, mark)


@kernel
def _without(s, olds, a, b, news, lines, flat):
    """Write the triangles that are left when an edge is one vertex, and which of them lie in flat faces.

    Return how many there are, and the worst shape and the longest side before.
    """
    made, worst, longest = 0, 1.0, 0.0
    for f in olds:
        worst, longest = min(worst, _shape_of(s, s.faces[f])), max(longest, _longest_square(s, s.faces[f]))
        if _has(s, f, a) and _has(s, f, b):
            continue
        p = row(s.x, s.faces[f, 0])
        n = cross(difference(row(s.x, s.faces[f, 1]), p), difference(row(s.x, s.faces[f, 2]), p))
        flat[made] = _is_flat(s, f, n)
        for i in range(3):
            v, w = s.faces[f, i], s.faces[f, (i + 1) % 3]
            news[made, i] = a if v == b else v
            lines[made, i] = s.sharp[f, i]
            # an edge to a tip is sharp where either of the two that become one is
            if v in (a, b) or w in (a, b):
                tip = w if v in (a, b) else v
                lines[made, i] = lines[made, i] or _edge_state(s, a, tip)[1] or _edge_state(s, b, tip)[1]
        made += 1
    return made, worst, longest


@kernel
def _longest_square(s, t):
    """Square of the longest side of a triangle."""
    longest = 0.0
    for i in range(3):
        side = difference(row(s.x, t[i]), row(s.x, t[(i + 1) % 3]))
        longest = max(longest, dot(side, side))
    return longest


@kernel
def _finds_place(s, olds, news, lines, flat, ends, least_shape, longest, share):
    """Whether a collapsed edge finds a place: the best one, or that of either end; its first end is there then."""
    a, b = ends
    before, fixed = row(s.x, a), s.kind[a] > s.kind[b]
    for trial in range(1 if fixed else 3):
        target = before if fixed or trial == 1 else row(s.x, b)
        if trial == 0 and not fixed:
            target = _best_point(s, olds, a, b)
        put(s.x[a], target)
        good = trial > 0 or fixed or _on_old(s, target, share) >= 0
        if good and _are_sound(s, news, flat, least_shape, longest) and _may(s, olds, news, lines, a, share):
            return True
        put(s.x[a], before)
    return False


@kernel
def _are_sound(s, news, flat, least_shape, longest):
    """Whether new triangles have the shape and the sides [m^2] that are allowed; those in flat faces may be long needles."""
    min_flat_shape = 0.02  # of triangles in flat faces, which the mesher cuts as it likes
    for j in range(len(news)):
        shape = _shape_of(s, news[j])
        fits = shape >= least_shape and _longest_square(s, news[j]) <= longest
        if not fits and not (flat[j] and shape >= min_flat_shape):
            return False
    return True


@kernel
def _replace(s, olds, a, b, news, lines):
    """Put the triangles without an edge in the place of those with it."""
    ids, made = np.empty(len(olds), dtype=np.int64), 0
    for f in olds:
        _unlink(s, f)
        if not (_has(s, f, a) and _has(s, f, b)):
            ids[made] = f
            made += 1
    _hand_over(s, olds, ids)
    for f in olds:
        s.faces[f] = -1
    for j in range(made):
        s.faces[ids[j]], s.sharp[ids[j]] = news[j], lines[j]
        _relink(s, ids[j])


@kernel
def _collapse(s, edges, long_edge, share):
    """Collapse edges in their order where that may be; return how many."""
    done, mark = 0, np.zeros(len(s.x), dtype=np.int64)
    room, news = np.empty(MAX_AROUND, dtype=np.int64), np.empty((MAX_AROUND, 3), dtype=np.int64)
    lines, flat = np.zeros((MAX_AROUND, 3), dtype=np.bool_), np.zeros(MAX_AROUND, dtype=np.bool_)
    for e in range(len(edges)):
        a, b = edges[e]
        if s.first[a] < 0 or s.first[b] < 0:
            continue
        if s.kind[a] < s.kind[b]:
            a, b = b, a
        if not _may_go(s, a, b, mark):
            continue
        total = _around(s, a, room, 0)
        total = _around(s, b, room, total) if total >= 0 else -1
        if total < 0:
            continue
        olds = room[:total]
        made, worst, longest = _without(s, olds, a, b, news, lines, flat)
        least, most = min(MIN_SHAPE, KEPT_SHAPE * worst), max(longest, long_edge**2)
        if _finds_place(s, olds, news[:made], lines[:made], flat, (a, b), least, most, share):
            _replace(s, olds, a, b, news, lines)
            done += 1
    return done


@kernel
def _split(s, edges, made_vertices, made_faces):
    """Cut edges in their middles; new vertices and triangles follow the old ones. Return how many there are."""
    ids = np.empty(2, dtype=np.int64)
    for e in range(len(edges)):
        a, b = edges[e]
        v, sharp = made_vertices, False
        put(s.x[v], combine(0.5, row(s.x, a), 0.5, row(s.x, b)))
        corner = s.first[a]
        while corner >= 0:
            f, after = corner // 3, s.following[corner]
            if _has(s, f, b):
                i = _place_of(s, f, a)
                if s.faces[f, (i + 1) % 3] != b:
                    i = (i + 2) % 3
                p, q, r = s.faces[f, i], s.faces[f, (i + 1) % 3], s.faces[f, (i + 2) % 3]
                k1, k2, k3 = s.sharp[f, i], s.sharp[f, (i + 1) % 3], s.sharp[f, (i + 2) % 3]
                sharp = sharp or k1
                g = made_faces
                made_faces += 1
                _unlink(s, f)
                s.faces[f, 0], s.faces[f, 1], s.faces[f, 2] = p, v, r
                s.sharp[f, 0], s.sharp[f, 1], s.sharp[f, 2] = k1, False, k3
                s.faces[g, 0], s.faces[g, 1], s.faces[g, 2] = v, q, r
                s.sharp[g, 0], s.sharp[g, 1], s.sharp[g, 2] = k1, k2, False
                s.label[g] = s.label[f]
                _relink(s, f)
                _relink(s, g)
                ids[0], ids[1] = f, g
                k = s.topmost[f]
                while k >= 0:
                    point, line = row(s.points, k), s.on_line[k]
                    near = (
                        _nearest(s, point, line, s.faces[f], s.sharp[f]),
                        _nearest(s, point, line, s.faces[g], s.sharp[g]),
                    )
                    s.goal[k] = 0 if near[0] <= near[1] else 1
                    k = s.below[k]
                _hand_over(s, ids[:1], ids)
            corner = after
        s.kind[v] = ON_LINE if sharp else FREE
        made_vertices += 1
    return made_vertices, made_faces


@kernel
def _beyond(s, f, a, b):
    """Another triangle at an edge of a triangle, or -1."""
    corner, g = s.first[a], -1
    while corner >= 0:
        if corner // 3 != f and _has(s, corner // 3, b):
            g = corner // 3
        corner = s.following[corner]
    return g


@kernel
def _flip(s, share):
    """Turn edges between two triangles where both become rounder; return how many."""
    better = 1.1  # the worse shape of two triangles after a flip, over before
    done, olds = 0, np.empty(2, dtype=np.int64)
    news, lines = np.empty((2, 3), dtype=np.int64), np.zeros((2, 3), dtype=np.bool_)
    for f in range(len(s.faces)):
        for i in range(3):
            a, b, c = s.faces[f, i], s.faces[f, (i + 1) % 3], s.faces[f, (i + 2) % 3]
            if a < 0 or s.sharp[f, i]:
                continue
            g = _beyond(s, f, a, b)
            j = _place_of(s, g, a)
            d = s.faces[g, (j + 1) % 3]
            if d in (b, c) or s.faces[g, (j + 2) % 3] != b or _edge_state(s, c, d)[0] > 0:
                continue
            worst = min(_shape_of(s, s.faces[f]), _shape_of(s, s.faces[g]))
            olds[0], olds[1] = f, g
            news[0, 0], news[0, 1], news[0, 2] = a, d, c
            news[1, 0], news[1, 1], news[1, 2] = d, b, c
            lines[0, 0], lines[0, 2] = s.sharp[g, j], s.sharp[f, (i + 2) % 3]
            lines[1, 0], lines[1, 1] = s.sharp[g, (j + 1) % 3], s.sharp[f, (i + 1) % 3]
            if min(_shape_of(s, news[0]), _shape_of(s, news[1])) <= better * worst or not _may(
                s, olds, news, lines, d, share
            ):
                continue
            done += 1
            for n in range(2):
                _unlink(s, olds[n])
            for n in range(2):
                s.faces[olds[n]], s.sharp[olds[n]] = news[n], lines[n]
                _relink(s, olds[n])
            _hand_over(s, olds, olds)
    return done


@kernel
def _move(s, v, step, around, least_shape, share):
    """Move a vertex by a step, or by a part of it, where the triangles around keep their shape and lie on the old surface."""
    here, news, lines = row(s.x, v), s.faces[around], s.sharp[around]
    for part in (1.0, 0.3):
        put(s.x[v], combine(1.0, here, part, step))
        good = _on_old(s, row(s.x, v), share) >= 0
        for f in around:
            good = good and _shape_of(s, s.faces[f]) >= least_shape
        if good and _may(s, around, news, lines, v, share):
            _hand_over(s, around, around)
            return
        put(s.x[v], here)


@kernel
def _relax(s, share):
    """Move vertices along the surface to the middle of their neighbours, and across it to the middle of the old points."""
    # weight of the middle of the neighbours beside the old points, which leave it free along the surface
    middle_weight_rel = 0.02
    A, g, room = np.empty((3, 3)), np.empty(3), np.empty(MAX_AROUND, dtype=np.int64)
    for v in range(len(s.x)):
        if s.first[v] < 0 or s.kind[v] == CORNER:
            continue
        count = _around(s, v, room, 0)
        if count < 0:
            continue
        olds, worst, total = room[:count], 1.0, 0.0
        A[:], g[:] = 0.0, 0.0
        middle, weight, here, upward = (0.0, 0.0, 0.0), 0.0, row(s.x, v), (0.0, 0.0, 0.0)
        ends, chord = 0, (0.0, 0.0, 0.0)
        for f in olds:
            i = _place_of(s, f, v)
            a, b, c = here, row(s.x, s.faces[f, (i + 1) % 3]), row(s.x, s.faces[f, (i + 2) % 3])
            n = cross(difference(b, a), difference(c, a))
            upward = plus(upward, n)
            n = scaled(1.0 / max(np.sqrt(dot(n, n)), 1e-300), n)
            worst = min(worst, _shape(a, b, c))
            if s.kind[v] == FREE:
                middle, weight = plus(middle, scaled(0.5, plus(b, c))), weight + 1.0
            for to, is_line in ((b, s.sharp[f, i]), (c, s.sharp[f, (i + 2) % 3])):
                if s.kind[v] == ON_LINE and is_line:  # each line neighbour is seen from both sides alike
                    middle, weight = plus(middle, to), weight + 1.0
                    if ends == 0:
                        chord = to
                        ends = 1
                    elif ends == 1 and to != chord:
                        chord = difference(to, chord)
                        ends = 2
            _stiffen(A, g, 1.0, n, 0.0)
            total = _pulled(s, f, (a, b, c), A, g, total + 1.0)
        t = difference(scaled(1.0 / max(weight, 1.0), middle), here)
        # along the surface alone: the neighbours of a vertex of a convex part lie deeper
        t = difference(t, scaled(dot(t, upward) / max(dot(upward, upward), 1e-300), upward))
        if s.kind[v] == ON_LINE:
            size = dot(chord, chord)
            t = scaled(dot(t, chord) / size, chord) if ends == 2 and size > 0.0 else (0.0, 0.0, 0.0)
        for d in range(3):
            A[d, d] += middle_weight_rel * total
            g[d] += middle_weight_rel * total * t[d]
        step = _solved(A, g)
        _move(s, v, step, olds, min(MIN_SHAPE, KEPT_SHAPE * worst), share)


@kernel
def _pulled(s, f, corners, A, g, total):
    """Add what the old points on a triangle ask of the step of its first corner; return the sum of the weights with theirs."""
    a, b, c = corners
    k = s.topmost[f]
    while k >= 0:
        p, m = row(s.points, k), row(s.normals, k)
        on = closest_on_triangle(p, a, b, c)
        away = dot(m, difference(p, plus(combine(on[0], a, on[1], b), scaled(on[2], c))))
        _stiffen(A, g, FLAT_WEIGHT if s.flat[k] else s.weights[k], scaled(on[0], m), away)
        total += 0.0 if s.flat[k] else s.weights[k] * on[0] * on[0]
        k = s.below[k]
    return total


@kernel
def _stiffen(A, g, weight, n, away):
    """Add weight (n . step - away)^2 to a quadratic of a step."""
    for i in range(3):
        g[i] += weight * n[i] * away
        for j in range(3):
            A[i, j] += weight * n[i] * n[j]


@kernel
def _solved(A, g):
    """Solution of three equations."""
    u, v, w = row(A, 0), row(A, 1), row(A, 2)
    vw, wu, uv = cross(v, w), cross(w, u), cross(u, v)
    det = dot(u, vw)
    return plus(plus(scaled(g[0] / det, vw), scaled(g[1] / det, wu)), scaled(g[2] / det, uv))


def _edges(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends (e, 2) of every edge, its number for every side of a triangle (m, 3), and how many triangles it has (e,)."""
    directed, ids, _ = shells.edges(faces)
    ends = np.empty((int(ids.max()) + 1, 2), dtype=np.int64)
    ends[ids] = np.sort(directed, axis=1)
    return ends, ids.reshape(3, -1).T, np.bincount(ids)


def _turning(
    vertices: np.ndarray, faces: np.ndarray, ids: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angle [rad] of every edge (e,), pi where it has not two triangles; how far it moves where it goes [m]; who moves.

    Of two triangles the smaller one moves: those beside it meet in an edge in its middle.
    """
    normal, area = unit_normals(vertices, faces)
    order = np.argsort(ids.ravel(), kind="stable")
    start = np.searchsorted(ids.ravel()[order], np.arange(len(count)))
    first, last = order[start] // 3, order[start + count - 1] // 3
    cosine = np.einsum("ij,ij->i", normal[first], normal[last])
    angle = np.where(count == 2, np.arccos(np.clip(cosine, -1.0, 1.0)), np.pi)
    side = vertices[faces] - vertices[np.roll(faces, -1, axis=1)]
    length = np.linalg.norm(side, axis=2).ravel()[order[start]]
    narrow = np.where(area[first] <= area[last], first, last)
    wide = 2.0 * area[narrow] / np.maximum(length, np.finfo(float).tiny)
    return angle, 0.5 * wide * np.tan(np.minimum(angle, ALWAYS_SHARP_RAD)), narrow


def _kinds(vertices: np.ndarray, ends: np.ndarray, sharp: np.ndarray) -> np.ndarray:
    """Kind of every vertex, by the sharp edges that it has and the angle between two of them."""
    lines = ends[sharp]
    ways = vertices[lines[:, 1]] - vertices[lines[:, 0]]
    ways /= np.maximum(np.linalg.norm(ways, axis=1), np.finfo(float).tiny)[:, None]
    count, total = np.zeros(len(vertices), dtype=np.int64), np.zeros_like(vertices)
    for end, sign in ((0, 1.0), (1, -1.0)):
        np.add.at(count, lines[:, end], 1)
        np.add.at(total, lines[:, end], sign * ways)
    turns = np.linalg.norm(total, axis=1) > 2.0 * np.sin(0.5 * CORNER_RAD)  # of two unit vectors away from the vertex
    return np.where(count == 0, FREE, np.where((count == 2) & ~turns, ON_LINE, CORNER))


@dataclass(frozen=True)
class _Old:
    """The old surface: its edges, which of them are sharp, and points on it with what is allowed there."""

    vertices: np.ndarray
    faces: np.ndarray
    sharp: np.ndarray  # of each side of a triangle (m, 3)
    kind: np.ndarray  # of each vertex
    points: np.ndarray
    owner: np.ndarray  # triangle of each point
    on_line: np.ndarray
    flat: np.ndarray
    limits: np.ndarray
    weights: np.ndarray
    normals: np.ndarray  # of triangles (m, 3)
    tree: tuple[Any, ...]  # what kernels take for the old surface

    @classmethod
    def of(cls, vertices: np.ndarray, faces: np.ndarray, label: np.ndarray, edge: float, within: float) -> _Old:
        """Take triangles (m, 3) with labels (m,) as the old surface, with points at a third of an edge."""
        least_weight = 0.05  # of a point on an edge, beside those that stand for an area
        sliver_height = 1e-3  # of the edge: flatter triangles have no normal to speak of
        spacing = edge / 3.0
        inner, owner, wide = wall_samples(vertices, faces, spacing)
        normals, area = unit_normals(vertices, faces)
        of_face = np.full(len(faces), within)
        limits = np.minimum(of_face[owner], WALL_SHARE * wide.min(axis=1))
        np.minimum.at(of_face, owner, limits)
        ends, ids, count = _edges(faces)
        angle, moved, narrow = _turning(vertices, faces, ids, count)
        of_edge = np.full(len(ends), within)
        np.minimum.at(of_edge, ids, of_face[:, None])
        low, high = np.full(len(ends), label.max()), np.full(len(ends), label.min())
        np.minimum.at(low, ids, label[:, None])
        np.maximum.at(high, ids, label[:, None])
        sharp = (low != high) | (angle >= ALWAYS_SHARP_RAD) | ((angle >= SHARP_RAD) & (moved > of_face[narrow]))
        length = np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1)
        # points on edges as dense as inside, and the corners; those of a line belong to a triangle beside it. Where triangles
        # are smaller than that their corners are enough.
        flat_face = _flat(faces, ids, (count == 2) & (low == high) & (angle < COPLANAR_RAD), length, area, within)
        kept = flat_face[owner] | (length[ids].max(axis=1) > spacing)[owner]
        inner, owner, limits = inner[kept], owner[kept], limits[kept]
        parts = np.where(length > spacing, np.ceil(length / spacing), 0).astype(int)
        which = np.repeat(np.arange(len(ends)), parts)
        at = (np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts) + 0.5) / parts[which]
        on_edges = vertices[ends[which, 0]] + at[:, None] * (vertices[ends[which, 1]] - vertices[ends[which, 0]])
        face_of_edge, face_of_vertex = np.empty(len(ends), dtype=np.int64), np.empty(len(vertices), dtype=np.int64)
        face_of_edge[ids] = np.arange(len(faces))[:, None]
        face_of_vertex[faces] = np.arange(len(faces))[:, None]
        face_of_vertex[ends[sharp]] = face_of_edge[sharp][:, None]
        lined = np.zeros(len(vertices), dtype=bool)
        lined[ends[sharp]] = True
        used = np.unique(faces)
        # each triangle shares its area among the points inside, or among its corners; lines need little
        inside = np.bincount(owner, minlength=len(faces))
        of_corner = np.bincount(faces.ravel(), np.repeat(np.where(inside, 0.0, area / 3.0), 3), minlength=len(vertices))
        weights = (
            np.concatenate([area[owner] / inside[owner], np.zeros(len(which)), of_corner[used]]) / spacing**2
            + least_weight
        )
        points, owner = (
            np.vstack([inner, on_edges, vertices[used]]),
            np.concatenate([owner, face_of_edge[which], face_of_vertex[used]]),
        )
        on_line = np.concatenate([np.zeros(len(inner), dtype=bool), sharp[which], lined[used]])
        limits = np.concatenate([limits, of_edge[which], of_face[face_of_vertex[used]]])
        flat = flat_face[owner] & ~on_line
        sides = np.linalg.norm(vertices[faces] - np.roll(vertices[faces], 1, axis=1), axis=2)
        thin = 2.0 * area < sliver_height * edge * sides.max(axis=1)
        tree = build_tree(vertices, faces)
        known = (
            vertices,
            tree.primitives,
            tree.order,
            tree.boxes,
            np.where(thin[:, None], 0.0, normals),
            of_face,
            of_face.max(),
        )
        return cls(
            vertices, faces, sharp[ids], _kinds(vertices, ends, sharp), points, owner, on_line, flat,
            np.where(flat, FLAT_LIMIT * limits, limits), weights, normals, known,
        )  # fmt: skip


def _flat(
    faces: np.ndarray, ids: np.ndarray, joined: np.ndarray, length: np.ndarray, area: np.ndarray, within: float
) -> np.ndarray:
    """Which triangles (m,) belong to flat faces, joined over edges (e,), that are wide beside what the surface may move."""
    order = np.argsort(ids.ravel(), kind="stable")
    start = np.searchsorted(ids.ravel()[order], np.arange(len(joined)))
    region = linked(order[start[joined]] // 3, order[start[joined] + 1] // 3, len(faces))
    rim = np.bincount(region, np.where(joined, 0.0, length)[ids].sum(axis=1))
    return np.asarray((2.0 * np.bincount(region, area) > FLAT_WIDTHS * within * rim)[region])


class _Triangles:
    """Triangles between the passes: those that are gone are taken out, points know theirs by number."""

    def __init__(self, old: _Old, label: np.ndarray) -> None:
        self.old, self.x, self.kind = old, old.vertices.copy(), old.kind
        self.faces, self.sharp, self.label, self.owner = old.faces.copy(), old.sharp, label, old.owner

    def state(self, vertices: int = 0, faces: int = 0) -> _State:
        """Return what kernels change, with room for more vertices and triangles."""
        old = self.old
        order = np.argsort(self.owner, kind="stable")
        same = self.owner[order][1:] == self.owner[order][:-1]
        below, topmost = np.full(len(order), -1), np.full(len(self.faces) + faces, -1)
        below[order[:-1][same]] = order[1:][same]
        first = order[np.concatenate([[True], ~same])]
        topmost[self.owner[first]] = first
        made = _State(
            np.vstack([self.x, np.zeros((vertices, 3))]),
            np.concatenate([self.kind, np.zeros(vertices, dtype=np.int64)]),
            np.vstack([self.faces, np.full((faces, 3), -1)]),
            np.vstack([self.sharp, np.zeros((faces, 3), dtype=bool)]),
            np.concatenate([self.label, np.zeros(faces, dtype=np.int64)]),
            np.empty(len(self.x) + vertices, dtype=np.int64),
            np.empty(3 * len(topmost), dtype=np.int64),
            old.points, old.on_line, old.normals[old.owner], old.flat, old.limits, old.weights, topmost, below,
            np.zeros(len(order), dtype=np.int64), *old.tree,
        )  # fmt: skip
        _link(made)
        return made

    def settle(self, made: _State) -> None:
        """Take over what kernels have changed."""
        alive = made.faces[:, 0] >= 0
        self.owner = np.empty(len(made.points), dtype=np.int64)
        _owners(made, np.cumsum(alive) - 1, self.owner)
        used, faces = np.unique(made.faces[alive], return_inverse=True)
        self.x, self.kind = made.x[used], made.kind[used]
        self.faces = np.ascontiguousarray(faces.reshape(-1, 3))
        self.sharp, self.label = made.sharp[alive], made.label[alive]

    def collapse(self, edge: float, share: float) -> int:
        """Collapse edges that are short, the shortest first; return how many."""
        ends, _, _ = _edges(self.faces)
        length = np.linalg.norm(self.x[ends[:, 1]] - self.x[ends[:, 0]], axis=1)
        order, made = np.argsort(length, kind="stable"), self.state()
        done = _collapse(made, ends[order[length[order] < SHORT_EDGE * edge]], LONG_EDGE * edge, share)
        self.settle(made)
        return int(done)

    def split(self, edge: float) -> None:
        """Cut long edges of bent parts; the mesher cuts flat parts as it likes."""
        ends, ids, count = _edges(self.faces)
        angle, _, _ = _turning(self.x, self.faces, ids, count)
        sharp, beside = np.zeros(len(ends), dtype=bool), np.zeros(len(ends), dtype=bool)
        sharp[ids] = self.sharp
        bent = ~sharp & (angle > FLAT_RAD)
        beside[ids[bent[ids].any(axis=1)]] = True
        length = np.linalg.norm(self.x[ends[:, 1]] - self.x[ends[:, 0]], axis=1)
        long = np.flatnonzero((bent | (sharp & beside)) & (length > SPLIT_EDGE * edge))
        long = long[np.argsort(-length[long], kind="stable")]
        made = self.state(len(long), int(count[long].sum()))
        _split(made, ends[long], len(self.x), len(self.faces))
        self.settle(made)

    def flip(self) -> None:
        """Flip edges, which lets others collapse."""
        made = self.state()
        _flip(made, 1.0)
        self.settle(made)

    def smooth(self) -> None:
        """Flip edges and move vertices."""
        made = self.state()
        _flip(made, 1.0)
        _relax(made, 1.0)
        self.settle(made)

    def flatten(self) -> None:
        """Put vertices of flat faces into their planes to the last digit."""
        old, noise = self.old, 1e-14 * float(np.ptp(self.old.vertices))  # rounding is no reason to move a vertex
        flat = np.flatnonzero(old.flat)
        one = flat[np.unique(self.owner[flat], return_index=True)[1]]  # a point of each flat triangle
        planes: dict[int, list[int]] = {}
        for k in one.tolist():
            for v in self.faces[self.owner[k]].tolist():
                planes.setdefault(v, []).append(k)
        for v, ks in planes.items():
            n = old.normals[old.owner[ks]]
            gap = np.einsum("ij,ij->i", n, old.points[ks] - self.x[v])
            step = np.linalg.lstsq(n, gap, rcond=0.05)[0]
            if noise < np.abs(gap).max() < float(old.limits[ks].max()):
                self.x[v] += step


@kernel
def _owners(s, number, out):
    """Write the triangle that each point lies on."""
    for f in range(len(s.topmost)):
        k = s.topmost[f]
        while k >= 0:
            out[k] = number[f]
            k = s.below[k]


def remeshed(
    vertices: np.ndarray, faces: np.ndarray, label: np.ndarray, edge: float, within: float, until: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Remesh triangles; None where hardly any edge is too short, so that they may stay.

    Parameters
    ----------
    vertices, faces
        Positions [m] (n, 3), vertex ids (m, 3); edges may have any number of triangles.
    label
        Of every triangle (m,): edges between different ones stay.
    edge
        Length that is wanted [m].
    within
        How far the surface may move [m]; beside walls, gaps and slots at most by a share of their width.
    until
        Processor time of this process [s] after which no other pass begins: what every pass leaves is a sound surface.

    Returns
    -------
    vertices, faces, label
        The new triangles.
    """
    rounds, shares = 5, (0.1, 0.3, 1.0)  # of all steps; of the distance allowed, so that cheap edges collapse first
    last_share = 0.05  # of the vertices: fewer collapses are worth no other pass
    worthwhile_share = 0.05  # of the vertices, which must go before the others move
    fine_edge, fine_share = (
        0.5,
        0.02,
    )  # of the edge wanted: where fewer edges are shorter, the triangles are as large already
    ends, _, _ = _edges(faces)
    if (np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1) < fine_edge * edge).mean() < fine_share:
        return None
    made = _Triangles(_Old.of(vertices, faces, label, edge, within), label)
    begin, progress = len(np.unique(faces)), Progress(f"remeshing of {len(faces)} triangles")
    for share in shares:
        while time.process_time() < until and made.collapse(edge, share) > last_share * len(made.x):
            made.flip()
            progress.say(f"{len(made.faces)} left")
    if len(made.x) > (1.0 - worthwhile_share) * begin:
        return None
    for _ in range(rounds):
        if time.process_time() > until:
            break
        made.split(edge)
        made.collapse(edge, 1.0)
        made.smooth()
        progress.say(f"{len(made.faces)} triangles")
    while time.process_time() < until and made.collapse(edge, 1.0):
        made.flip()
    made.flatten()
    return made.x, made.faces, made.label
