"""Contact and friction of shells with themselves and with rods: vertices against triangles and edges against edges.

Two parts touch at the distance C of their middle surfaces and centre lines: half of the thickness of a shell, the radius of a
rod. Below it a pair stores::

    E = -k C^2 u^2 log(1 - u),   u = 1 - d / C,

smooth at d = C and infinite at d = 0, where d is the least distance of a vertex and a triangle, or of two edges [Lahoti] leaves
this to future work and approximates triangles by their edges. Friction is that of `geosim.rods.contact`, implicit in normal
force, direction and place.

A Newton step is shortened so that no pair comes nearer than half its distance or 0.3 C in between (continuous collision
detection); motion that a step prescribes is refused, and so halved in time, if it would. Nothing passes through a shell.

1. Pairs share no vertex. Parts nearer than C at rest touch at 0.9 of that distance, or at half of it where vertices of both are
   less than 1.6 C apart along the edges of the sheet: at rest nothing pushes, and a fine sheet not in its plane.
2. Edges that become parallel fade out: their energy is multiplied by s (2 - s), s = |u x v|^2 over 1e-3 of |u|^2 |v|^2 at rest
   (the distance of parallel edges has no gradient, and then vertices carry the contact).
3. The Jacobian of friction neglects how the normal turns; forces are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from geosim.arrays import Floats, Ints
from geosim.collision.ccd import time_to_gap
from geosim.collision.crossings import count_crossings
from geosim.collision.distance import edge_edge, point_triangle, separation, squared_distance_derivatives
from geosim.collision.tree import Tree, build_tree
from geosim.kernels import kernel
from geosim.rods.balance import Triplets
from geosim.rods.contact import ContactLaw, add_measures, stick_slip
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import RodState
from geosim.rods.system import System

__all__ = ["Sheet", "SheetContact", "sheet_neighbourhood"]

PARALLEL = 1e-3
ARC = 1.6


@dataclass(frozen=True)
class NearList:
    """Pairs that may touch until vertices have moved by half the margin against each other, and where they touch.

    `points` (P, 4) are a vertex and a triangle, or where `edges` two edges; `touch` is C [m].
    """

    built_at: Floats
    margin: float
    points: Ints
    edges: Any
    touch: Floats

    def holds(self, x: Floats) -> bool:
        """Whether the list is complete at x (n, 3); what moves as a whole stays apart."""
        move = x - self.built_at
        return bool(((move - move.mean(axis=0)) ** 2).sum(axis=1).max() <= (0.5 * self.margin) ** 2)


@dataclass(frozen=True)
class Sheet:
    """The triangles of a robot, ready to be asked which are near each other.

    `along` holds pairs of vertices near along the sheet, `kept` the last list of pairs: a cache, no state.
    """

    faces: Tree
    edges: Tree
    vertices: Ints
    rods: Any  # which edges are rods: with each other they touch as in geosim.rods.contact
    rest: Floats
    radius: tuple[Floats, Floats, Floats]  # half the thickness at vertices, faces and edges [m]
    along: Ints
    kept: list[NearList] = field(default_factory=list)

    @property
    def touch(self) -> float:
        """Largest distance at which parts touch [m]."""
        return 2.0 * max(float(part.max()) for part in self.radius)

    def near(self, x: Floats, margin: float) -> NearList:
        """Return all pairs nearer than they touch plus a margin at positions (n, 3)."""
        kept = self.kept
        if kept and kept[0].margin >= margin and kept[0].holds(x):
            return kept[0]
        reach, room = self.touch + margin, 4 * len(x)
        faces, edges = self.faces.refit(x, reach), self.edges.refit(x, reach)
        while True:
            points, is_edges, touch = (
                np.empty((room, 4), dtype=np.int64),
                np.empty(room, dtype=np.bool_),
                np.empty(room),
            )
            found = int(
                find_near(
                    x,
                    np.zeros_like(x),
                    False,
                    self.vertices,
                    self.rods,
                    faces.primitives,
                    faces.order,
                    faces.boxes,
                    edges.primitives,
                    edges.order,
                    edges.boxes,
                    reach,
                    *self.radius,
                    points,
                    is_edges,
                    touch,
                )
            )
            if found <= room:
                break
            room = int(1.2 * found)
        points, is_edges, touch = points[:found].copy(), is_edges[:found].copy(), touch[:found].copy()
        beside(self.rest, self.along, points, is_edges, touch)
        kept[:] = [NearList(x.copy(), margin, points, is_edges, touch)]
        return kept[0]

    def safe_share(self, x: Floats, dx: Floats) -> float:
        """Return the share of a step dx (n, 3) that brings no pair nearer than half its distance or 0.3 of where it touches."""
        if self.kept and self.kept[0].holds(x) and self.kept[0].holds(x + dx):
            listed = self.kept[0]
            return float(first_touch(x, dx, listed.points, listed.edges, listed.touch))
        dx = dx - dx.mean(axis=0)
        trees = []
        for tree in (self.faces, self.edges):
            before, after = tree.refit(x, self.touch).boxes, tree.refit(x + dx, self.touch).boxes
            trees.append(np.hstack([np.minimum(before[:, :3], after[:, :3]), np.maximum(before[:, 3:], after[:, 3:])]))
        none = np.empty((0, 4), dtype=np.int64)
        return float(
            find_near(
                x,
                dx,
                True,
                self.vertices,
                self.rods,
                self.faces.primitives,
                self.faces.order,
                trees[0],
                self.edges.primitives,
                self.edges.order,
                trees[1],
                self.touch,
                *self.radius,
                none,
                np.empty(0, dtype=np.bool_),
                np.empty(0),
            )
        )


def sheet_neighbourhood(robot: RodShellRobot, radius: Floats) -> Sheet | None:
    """Return the neighbourhood of triangles and rods, None without triangles; `radius` (n,) is that of the vertices [m]."""
    if len(robot.triangles) == 0:
        return None
    mesh, n = robot.mesh, len(robot.vertices)
    known = {tuple(sorted(e)) for e in mesh.edges.tolist()}
    own = np.array(
        [i for i, e in enumerate(robot.edges[: robot.own_edges].tolist()) if tuple(sorted(e)) not in known], dtype=int
    )
    edges = np.concatenate([mesh.edges, robot.edges[own]])
    half = 0.5 * robot.thickness
    shell = np.maximum(half[mesh.faces[:, 0]], np.where(mesh.faces[:, 1] >= 0, half[mesh.faces[:, 1]], 0.0))
    length = np.linalg.norm(robot.vertices[edges[:, 1]] - robot.vertices[edges[:, 0]], axis=1)
    limit = ARC * 2.0 * float(radius.max())
    pairs = [np.zeros(0, dtype=np.int64)]
    if length.min() <= limit:
        graph = csr_matrix((length, (edges[:, 0], edges[:, 1])), shape=(n, n))
        for first in range(0, n, 256):
            reached = dijkstra(graph, directed=False, indices=np.arange(first, min(first + 256, n)), limit=limit)
            i, j = np.nonzero(np.isfinite(reached))
            pairs.append((i + first) * n + j)
    x = np.array(robot.vertices)
    return Sheet(
        build_tree(x, np.array(robot.triangles)),
        build_tree(x, edges),
        np.unique(edges),
        np.arange(len(edges)) >= len(mesh.edges),
        x,
        (radius, half.copy(), np.concatenate([shell, robot.radius[own]])),
        np.unique(np.concatenate(pairs)),
    )


@kernel
def _sweep(x, dx, ids, count, box):
    """Fill the box of some vertices of a step, (6,)."""
    for k in range(3):
        box[k], box[k + 3] = np.inf, -np.inf
    for i in range(count):
        for k in range(3):
            a = x[ids[i], k]
            b = a + dx[ids[i], k]
            box[k], box[k + 3] = min(box[k], a, b), max(box[k + 3], a, b)


@kernel
def find_near(
    x,
    dx,
    moving,
    vertices,
    rods,
    faces,
    face_order,
    face_boxes,
    edges,
    edge_order,
    edge_boxes,
    reach,
    vertex_radius,
    face_radius,
    edge_radius,
    points,
    is_edges,
    touch,
):
    """Go through vertex-triangle and edge-edge pairs whose boxes, with margins in the trees, meet.

    Without `moving` fill those nearer than `reach` and return how many; else return the share of the step dx in which no
    pair comes nearer than half its distance or 0.3 of where it touches.
    """
    stack = np.empty(128, dtype=np.int64)
    four, move, w, c, e = np.empty((4, 3)), np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    ids, asking, other = np.empty(4, dtype=np.int64), np.empty(6), np.empty(6)
    found, last = 0, 1.0
    for kind in range(2):
        primitives, order, boxes = (faces, face_order, face_boxes) if kind == 0 else (edges, edge_order, edge_boxes)
        count, leaves = len(primitives), (len(boxes) + 1) // 2
        for q in range(len(vertices) if kind == 0 else len(edges)):
            ids[0] = vertices[q] if kind == 0 else edges[q, 0]
            if kind == 1:
                ids[1] = edges[q, 1]
            _sweep(x, dx, ids, kind + 1, asking)
            stack[0], top = 0, 1
            while top > 0:
                top -= 1
                node = stack[top]
                if not _meet(asking, boxes[node], 0.0):
                    continue
                if node < leaves - 1:
                    stack[top], stack[top + 1] = 2 * node + 1, 2 * node + 2
                    top += 2
                    continue
                leaf = node - leaves + 1
                for r in range(count * leaf // leaves, count * (leaf + 1) // leaves):
                    f = order[r]
                    if kind == 0:
                        ids[1], ids[2], ids[3] = faces[f, 0], faces[f, 1], faces[f, 2]
                        if ids[0] == ids[1] or ids[0] == ids[2] or ids[0] == ids[3]:
                            continue
                    else:
                        ids[2], ids[3] = edges[f, 0], edges[f, 1]
                        if f <= q or (rods[f] and rods[q]):
                            continue
                        if ids[0] == ids[2] or ids[0] == ids[3] or ids[1] == ids[2] or ids[1] == ids[3]:
                            continue
                    _sweep(x, dx, ids[kind + 1 :], 3 - kind, other)
                    if not _meet(asking, other, reach):
                        continue
                    for i in range(4):
                        for k in range(3):
                            four[i, k] = x[ids[i], k]
                    if kind == 0:
                        point_triangle(four, w, c)
                    else:
                        edge_edge(four, w, c)
                    d = separation(four, w, e)
                    contact = vertex_radius[ids[0]] + face_radius[f] if kind == 0 else edge_radius[q] + edge_radius[f]
                    if moving:
                        for i in range(4):
                            for k in range(3):
                                move[i, k] = dx[ids[i], k]
                        last = min(last, time_to_gap(four, move, kind == 1, min(0.3 * contact, 0.5 * d), last))
                    elif d < reach:
                        if found < len(points):
                            points[found] = ids
                            is_edges[found] = kind == 1
                            touch[found] = contact
                        found += 1
    return last if moving else float(found)


@kernel
def _meet(a, b, margin):
    """Whether two boxes (6,) come within a margin."""
    return (
        a[0] <= b[3] + margin
        and b[0] <= a[3] + margin
        and a[1] <= b[4] + margin
        and b[1] <= a[4] + margin
        and a[2] <= b[5] + margin
        and b[2] <= a[5] + margin
    )


@kernel
def beside(rest, along, points, edges, touch):
    """Let pairs that are near each other at rest touch at 0.9 of that distance, half of it where near along the sheet."""
    n, flat = len(rest), rest.ravel()
    for p in range(len(points)):
        split, near = (2 if edges[p] else 1), False
        for i in range(split):
            for j in range(split, 4):
                key = points[p, i] * n + points[p, j]
                at = np.searchsorted(along, key)
                near = near or (at < len(along) and along[at] == key)
        apart = _distance(flat, points[p], edges[p])
        if near:
            touch[p] = min(touch[p], 0.5 * apart)
        elif apart < (1.0 - 1e-9) * touch[p]:  # sheets that lie on each other touch as they are
            touch[p] = 0.9 * apart


@kernel
def _law(u):
    """Value, slope and curvature of -u^2 log(1 - u)."""
    log = math.log1p(-u)
    rest = 1.0 - u
    return -u * u * log, -2.0 * u * log + u * u / rest, -2.0 * log + 4.0 * u / rest + (u / rest) ** 2


@kernel
def _fade(x, rest, gradient):
    """Return the factor of two edges and its first and second derivative by c = |u x v|^2; fill dc/dx (4, 3)."""
    uu, uv, vv, ru, rv = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(3):
        u, v = x[1, k] - x[0, k], x[3, k] - x[2, k]
        uu += u * u
        uv += u * v
        vv += v * v
        ru += (rest[1, k] - rest[0, k]) ** 2
        rv += (rest[3, k] - rest[2, k]) ** 2
    limit = PARALLEL * ru * rv
    s = (uu * vv - uv * uv) / limit
    if s >= 1.0:
        return 1.0, 0.0, 0.0
    for k in range(3):
        u, v = x[1, k] - x[0, k], x[3, k] - x[2, k]
        along_u, along_v = 2.0 * (vv * u - uv * v), 2.0 * (uu * v - uv * u)
        gradient[0, k], gradient[1, k], gradient[2, k], gradient[3, k] = -along_u, along_u, -along_v, along_v
    return s * (2.0 - s), (2.0 - 2.0 * s) / limit, -2.0 / limit**2


@kernel
def _fade_curvature(x, i, j, k, m):
    """d2c / dx_ik dx_jm of c = |u x v|^2."""
    uu, uv, vv = 0.0, 0.0, 0.0
    for n in range(3):
        u, v = x[1, n] - x[0, n], x[3, n] - x[2, n]
        uu += u * u
        uv += u * v
        vv += v * v
    uk, vk, um, vm = x[1, k] - x[0, k], x[3, k] - x[2, k], x[1, m] - x[0, m], x[3, m] - x[2, m]
    same = 1.0 if k == m else 0.0
    sign = -1.0 if (i + j) % 2 else 1.0
    if i < 2 and j < 2:
        return sign * 2.0 * (vv * same - vk * vm)
    if i >= 2 and j >= 2:
        return sign * 2.0 * (uu * same - uk * um)
    if i < 2:
        return sign * 2.0 * (2.0 * uk * vm - vk * um - uv * same)
    return sign * 2.0 * (2.0 * vk * um - uk * vm - uv * same)


@kernel
def _gather(flat, ids, out):
    for i in range(4):
        for k in range(3):
            out[i, k] = flat[3 * ids[i] + k]


@kernel
def _distance(flat, ids, edges):
    x, w, c, e = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    _gather(flat, ids, x)
    if edges:
        edge_edge(x, w, c)
    else:
        point_triangle(x, w, c)
    return separation(x, w, e)


@kernel
def touching(q, points, edges, touch):
    """Return which pairs touch, bool (P,)."""
    out = np.zeros(len(points), dtype=np.bool_)
    for p in range(len(points)):
        d = _distance(q, points[p], edges[p])
        out[p] = 0.0 < d < touch[p]
    return out


@kernel
def _slip(q, q0, step, ids, w, e, distance):
    """Return the tangential velocity of the closest points against each other, and its size."""
    u = np.zeros(3)
    along = 0.0
    for k in range(3):
        for i in range(4):
            u[k] += w[i] * (q[3 * ids[i] + k] - q0[3 * ids[i] + k]) / step
        along += u[k] * e[k] / distance
    square = 0.0
    for k in range(3):
        u[k] -= along * e[k] / distance
        square += u[k] * u[k]
    return u, math.sqrt(square)


@kernel
def sheet_force(q, q0, step, rest, points, edges, touch, k, mu, k2, residual, force):
    """Add minus contact and friction forces of all pairs; return energy, largest force, deepest overlap, count."""
    x, old, w, c, e, dc = (
        np.empty((4, 3)),
        np.empty((4, 3)),
        np.empty(4),
        np.empty((4, 2)),
        np.empty(3),
        np.zeros((4, 3)),
    )
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    for p in range(len(points)):
        ids, reach = points[p], touch[p]
        _gather(q, ids, x)
        if edges[p]:
            edge_edge(x, w, c)
        else:
            point_triangle(x, w, c)
        d = separation(x, w, e)
        if d >= reach:
            continue
        if d <= 0.0:
            return np.inf, np.inf, reach, count
        value, slope, _ = _law(1.0 - d / reach)
        fade, first = 1.0, 0.0
        if edges[p]:
            _gather(rest, ids, old)
            fade, first, _ = _fade(x, old, dc)
        fn = fade * k * reach * slope
        energy += fade * k * reach * reach * value
        largest = max(largest, fn)
        overlap = max(overlap, reach - d)
        count += 1
        u = np.zeros(3)
        drag = 0.0
        if mu > 0.0 and step > 0.0:
            u, speed = _slip(q, q0, step, ids, w, e, d)
            drag = mu * fn * stick_slip(speed, k2)[0]
        for i in range(4):
            for j in range(3):
                f = w[i] * (drag * u[j] - fn * e[j] / d)
                if first != 0.0:
                    f += k * reach * reach * value * first * dc[i, j]
                residual[3 * ids[i] + j] += f
                force[3 * ids[i] + j] -= f
    return energy, largest, overlap, count


@kernel
def sheet_stiffness(q, q0, step, rest, points, edges, touch, k, mu, k2, blocks):
    """Fill the stiffness of pairs that touch, `blocks` (P, 12, 12)."""
    x, old, w, c, e, dc = (
        np.empty((4, 3)),
        np.empty((4, 3)),
        np.empty(4),
        np.empty((4, 2)),
        np.empty(3),
        np.zeros((4, 3)),
    )
    dD, ddD = np.empty((4, 3)), np.empty((4, 4, 3, 3))
    for p in range(len(points)):
        ids, reach = points[p], touch[p]
        _gather(q, ids, x)
        free = edge_edge(x, w, c) if edges[p] else point_triangle(x, w, c)
        d = separation(x, w, e)
        squared_distance_derivatives(x, w, c, free, e, dD, ddD)
        value, slope, curvature = _law(1.0 - d / reach)
        fade, first, second = 1.0, 0.0, 0.0
        if edges[p]:
            _gather(rest, ids, old)
            fade, first, second = _fade(x, old, dc)
        whole, fn, stiff = k * reach * reach * value, k * reach * slope, k * curvature
        by_square, by_square2 = -fn / (2.0 * d), (stiff + fn / d) / (4.0 * d * d)
        u, speed, ratio, rise, g = np.zeros(3), 0.0, 0.0, 0.0, 0.0
        if mu > 0.0 and step > 0.0:
            u, speed = _slip(q, q0, step, ids, w, e, d)
            ratio, rise = stick_slip(speed, k2)
            g = mu * fade * fn / step
        for a in range(12):
            i, m = a // 3, a % 3
            for b in range(12):
                j, n = b // 3, b % 3
                h = fade * (by_square * ddD[i, j, m, n] + by_square2 * dD[i, m] * dD[j, n])
                if first != 0.0:
                    h += whole * (
                        first * _fade_curvature(x, i, j, m, n) + second * dc[i, m] * dc[j, n]
                    ) + by_square * first * (dc[i, m] * dD[j, n] + dD[i, m] * dc[j, n])
                if g > 0.0:
                    tangent = (1.0 if m == n else 0.0) - e[m] * e[n] / (d * d)
                    uu = u[m] * u[n] / (speed * speed) if speed > 1e-300 else 0.0
                    h += g * w[i] * w[j] * (ratio * (tangent - uu) + rise * uu)
                    h -= mu * ratio * fade * stiff * w[i] * u[m] * w[j] * e[n] / d
                blocks[p, a, b] = h


@kernel
def first_touch(x, dx, points, edges, touch):
    """Return the share of the step dx (n, 3) in which no pair comes nearer than half its distance or 0.3 of its touch."""
    four, v, w, c, e = np.empty((4, 3)), np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    last = 1.0
    for p in range(len(points)):
        for i in range(4):
            for k in range(3):
                four[i, k] = x[points[p, i], k]
                v[i, k] = dx[points[p, i], k]
        if edges[p]:
            edge_edge(four, w, c)
        else:
            point_triangle(four, w, c)
        last = min(last, time_to_gap(four, v, edges[p], min(0.3 * touch[p], 0.5 * separation(four, w, e)), last))
    return last


@dataclass
class SheetContact:
    """Contact of a shell with itself, bound to one increment."""

    system: System
    state: RodState
    step: float
    friction: float
    law: ContactLaw
    sheet: Sheet

    def __post_init__(self) -> None:
        self.margin = 0.25 * float(self.system.shell.rest.mean())
        self.rest = self.sheet.rest.ravel()
        self.k2 = 15.0 / self.law.slip

    def _places(self, q: Floats) -> Floats:
        return np.ascontiguousarray(q[: self.system.turns]).reshape(-1, 3)

    def _list(self, q: Floats) -> NearList:
        return self.sheet.near(self._places(q), self.margin)

    def safe_share(self, q: Floats, dq: Floats) -> float:
        """Return the share of a step that nothing crosses."""
        return self.sheet.safe_share(self._places(q), self._places(dq))

    def _force(self, q: Floats, residual: Floats, force: Floats) -> tuple[float, float, float, int]:
        pairs = self._list(q)
        return sheet_force(
            q,
            self.state.q,
            self.step,
            self.rest,
            pairs.points,
            pairs.edges,
            pairs.touch,
            self.law.stiffness,
            self.friction,
            self.k2,
            residual,
            force,
        )

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the contact forces to the residual."""
        energy, largest, _, _ = self._force(q, residual, np.zeros_like(q))
        if not np.isfinite(energy):
            residual[0] = np.nan
        return energy, largest

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Return the stiffness of the pairs that touch."""
        pairs = self._list(q)
        reached = touching(q, pairs.points, pairs.edges, pairs.touch)
        points = pairs.points[reached]
        blocks = np.empty((len(points), 12, 12))
        if len(points) == 0:
            return None
        sheet_stiffness(
            q,
            self.state.q,
            self.step,
            self.rest,
            points,
            pairs.edges[reached],
            pairs.touch[reached],
            self.law.stiffness,
            self.friction,
            self.k2,
            blocks,
        )
        own = (3 * points[:, :, None] + np.arange(3)).reshape(-1, 12)
        unknown = self.system.pattern.unknown[own]
        row, col = np.broadcast_arrays(unknown[:, :, None], unknown[:, None, :])
        keep = (row >= 0) & (col >= 0)
        return Triplets(row[keep], col[keep], blocks[keep])

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add overlap, number and forces of contacts to the measures of a step."""
        force = np.zeros_like(q)
        energy, _, overlap, count = self._force(q, np.zeros_like(q), force)
        add_measures(measures, energy, overlap, count, force[: self.system.turns].reshape(-1, 3))
        measures["crossings"] = count_crossings(self._places(q), np.array(self.system.robot.triangles)).count
