"""Broad phase of contact of shells: near pairs of vertices, triangles and edges, and the largest step without contact.

Two parts touch at the distance C of their middle surfaces and centre lines: half of the thickness of a shell, the radius of a
rod, each. A Newton step is shortened so that no pair comes nearer than half its distance or 0.3 C in between (continuous
collision detection); motion that a step prescribes is refused, and so halved in time, if it would. Nothing passes through a
shell.

Pairs share no vertex. Parts nearer than C at rest touch at 0.9 of that distance, or at half of it where vertices of both are
less than 1.6 C apart along the edges of the sheet: at rest nothing pushes, and a fine sheet not in its plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.ccd import MAX_APPROACH_SHARE
from geosim.collision.proximity import closest, first_touch
from geosim.collision.tree import MAX_WAITING_NODES, Tree, build_tree, gap_to_box, leaf_range, next_leaf
from geosim.kernels import filled, kernel
from geosim.rods.pairs import ARC_FACTOR, reached_along
from geosim.rods.robot import RodShellRobot


@kernel
def _may_meet(points, edges, apart, touch, moved):
    """Which pairs may be nearer than `touch` [m] where they were `apart` [m] before vertices `moved` (n,) [m], bool (P,)."""
    may = np.empty(len(points), dtype=np.bool_)
    for p in range(len(points)):
        one, other = moved[points[p, 0]], max(moved[points[p, 2]], moved[points[p, 3]])
        if edges[p]:
            one = max(one, moved[points[p, 1]])
        else:
            other = max(other, moved[points[p, 1]])
        may[p] = apart[p] - one - other < touch[p]
    return may


def _moved(dx: Floats) -> Floats:
    """Return how far vertices move [m], (n,), against the mean of all: what moves as a whole stays apart."""
    return np.asarray(np.sqrt(((dx - dx.mean(axis=0)) ** 2).sum(axis=1)))


@dataclass(frozen=True)
class NearList:
    """Pairs that may touch until vertices have moved by half the margin against each other, and where they touch.

    `points` (P, 4) are a vertex and a triangle, or where `edges` two edges; `touch` is C [m], `apart` their distance where the
    list was built [m]. With it, how far vertices have moved since says of most pairs that they cannot touch.
    """

    built_at: Floats
    margin: float
    points: Ints
    edges: Bools
    touch: Floats
    apart: Floats

    def touching(self, *places: Floats) -> tuple[Ints, Bools, Floats]:
        """Return points, edges and C of the pairs that may touch at one of these places (n, 3)."""
        moved = np.max([_moved(x - self.built_at) for x in places], axis=0)
        may = _may_meet(self.points, self.edges, self.apart, self.touch, moved)
        return self.points[may], self.edges[may], self.touch[may]

    def meeting(self, x: Floats, dx: Floats) -> tuple[Ints, Bools, Floats]:
        """Return points, edges and C of the pairs that may come nearer than half their distance in the step dx from x."""
        moved, step = _moved(x - self.built_at), _moved(dx)
        may = _may_meet(
            self.points, self.edges, self.apart, np.zeros(len(self.apart)), moved + step / MAX_APPROACH_SHARE
        )
        return self.points[may], self.edges[may], self.touch[may]

    def holds(self, x: Floats) -> bool:
        """Whether the list is complete at x (n, 3); what moves as a whole stays apart."""
        return bool(_moved(x - self.built_at).max() <= 0.5 * self.margin)


@dataclass(frozen=True)
class Sheet:
    """The triangles of a robot, ready to be asked which are near each other.

    Parameters
    ----------
    faces, edges
        Trees over the triangles, and over their edges and those of rods.
    vertices
        Ids of all their vertices.
    rods
        Which edges are rods: with each other they touch as in `geosim.rods.pair_contact`.
    rest
        Positions at rest [m], (n, 3).
    radius
        Half the thickness at vertices, faces and edges [m].
    along
        Pairs of vertices near along the sheet, as i n + j, ascending.
    kept
        The last list of pairs: a cache, no state.
    """

    faces: Tree
    edges: Tree
    vertices: Ints
    rods: Bools
    rest: Floats
    radius: tuple[Floats, Floats, Floats]
    along: Ints
    kept: list[NearList] = field(default_factory=list)

    @property
    def touch(self) -> float:
        """Largest distance at which parts touch [m]."""
        return 2.0 * max(float(part.max()) for part in self.radius)

    def near(self, x: Floats, margin: float) -> NearList:
        """Return all pairs nearer than they touch plus a margin at positions (n, 3)."""
        kept = self.kept
        if not (kept and kept[0].margin >= margin and kept[0].holds(x)):
            reach = self.touch + margin
            points, edges, touch = self._meeting(x, x, reach)
            apart = distances(x, points, edges)
            near = apart < reach
            points, edges, touch = points[near], edges[near], touch[near]
            beside(self.rest, self.along, points, edges, touch)
            kept[:] = [NearList(x.copy(), margin, points, edges, touch, apart[near])]
        return kept[0]

    def safe_share(self, x: Floats, dx: Floats) -> float:
        """Return the share of a step dx (n, 3) that brings no pair nearer than half its distance or 0.3 of where it touches."""
        if self.kept and self.kept[0].holds(x) and self.kept[0].holds(x + dx):
            listed = self.kept[0]
            return float(first_touch(x, dx, *listed.meeting(x, dx)))
        dx = dx - dx.mean(axis=0)
        return float(first_touch(x, dx, *self._meeting(x, x + dx, self.touch)))

    def _meeting(self, x: Floats, y: Floats, reach: float) -> tuple[Ints, Bools, Floats]:
        """Return the pairs whose boxes, over the way from x to y, come within reach: points, whether edges, and C [m]."""
        faces, edges = self.faces.primitives, self.edges.primitives
        vertex_radius, face_radius, edge_radius = self.radius
        vertex, face = _pairs(self.faces, x, y, self.vertices[:, None], reach)
        one, other = _pairs(self.edges, x, y, edges, reach)
        apart = _apart(self.vertices[:, None], vertex, faces, face)
        vertex, face = self.vertices[vertex[apart]], face[apart]
        # every pair of edges once; rods have their own contact
        chosen = (one < other) & ~(self.rods[one] & self.rods[other])
        chosen &= _apart(edges, one, edges, other)
        one, other = one[chosen], other[chosen]
        return (
            np.concatenate([np.column_stack([vertex, faces[face]]), np.hstack([edges[one], edges[other]])]),
            np.repeat([False, True], [len(face), len(one)]),
            np.concatenate([vertex_radius[vertex] + face_radius[face], edge_radius[one] + edge_radius[other]]),
        )


def sheet_neighbourhood(robot: RodShellRobot, radius: Floats) -> Sheet | None:
    """Return the neighbourhood of triangles and rods, None without triangles; `radius` (n,) is that of the vertices [m]."""
    if len(robot.triangles) == 0:
        return None
    mesh, n, x = robot.mesh, len(robot.vertices), np.array(robot.vertices)
    own = np.flatnonzero(~_among(robot.edges[: robot.own_edges], mesh.edges, n))
    edges = np.concatenate([mesh.edges, robot.edges[own]])
    half = 0.5 * robot.thickness
    shell = np.where(mesh.faces >= 0, half[mesh.faces], 0.0).max(axis=1)
    along = [i * n + j for i, j, _ in reached_along(x, edges, ARC_FACTOR * 2.0 * float(radius.max()))]
    return Sheet(
        build_tree(x, np.array(robot.triangles)),
        build_tree(x, edges),
        np.unique(edges),
        np.arange(len(edges)) >= len(mesh.edges),
        x,
        (radius, half, np.concatenate([shell, robot.radius[own]])),
        np.unique(np.concatenate(along)),
    )


def _among(edges: Ints, known: Ints, count: int) -> Bools:
    """Which edges are among the known ones, either way round."""
    keys, among = (np.sort(e, axis=1) @ np.array([count, 1]) for e in (edges, known))
    return np.isin(keys, among)


def _pairs(tree: Tree, x: Floats, y: Floats, asking: Ints, reach: float) -> tuple[Ints, Ints]:
    """Return which of the simplices (m, k) that ask come within `reach` of which primitives, by boxes from x to y."""
    moved = [tree.refit(at).boxes for at in (x, y)]
    boxes = np.hstack([np.minimum(*(b[:, :3] for b in moved)), np.maximum(*(b[:, 3:] for b in moved))])
    swept = _swept(x, y, asking, reach), _swept(x, y, tree.primitives, 0.0)
    (met,) = filled(lambda out: meeting(*swept, tree.order, boxes, out), 8 * len(asking), ((2,), np.int64))
    return met[:, 0], met[:, 1]


def _swept(x: Floats, y: Floats, simplices: Ints, margin: float) -> Floats:
    """Boxes (m, 6) of simplices (m, k) over the way from x to y, with a margin."""
    both = np.concatenate([x[simplices], y[simplices]], axis=1)
    return np.hstack([both.min(axis=1) - margin, both.max(axis=1) + margin])


@kernel
def meeting(asking, own, order, boxes, out):
    """Fill `out` with (which asks, which primitive) of boxes that meet; return how many there are, perhaps more than fit.

    `own` (m, 6) are the boxes of the primitives, `order` and `boxes` those of their tree.
    """
    stack, found = np.empty(MAX_WAITING_NODES, dtype=np.int64), 0
    for q in range(len(asking)):
        lower, upper = asking[q, :3], asking[q, 3:]
        stack[0] = 0
        top = next_leaf(boxes, lower, upper, 0.0, stack, 1)
        while top >= 0:
            first, last = leaf_range(boxes, stack[top], len(order))
            for f in order[first:last]:
                if gap_to_box(own, f, lower, upper) == 0.0:
                    if found < len(out):
                        out[found, 0], out[found, 1] = q, f
                    found += 1
            top = next_leaf(boxes, lower, upper, 0.0, stack, top)
    return found


def _apart(simplices: Ints, one: Ints, others: Ints, other: Ints) -> Bools:
    """Which pairs of a simplex `one` (P,) and another have no vertex in common, bool (P,)."""
    return np.asarray((simplices[one][:, :, None] != others[other][:, None]).all(axis=(1, 2)))


def distances(x: Floats, points: Ints, edges: Bools) -> Floats:
    """Distances of pairs [m], (P,)."""
    return closest(x[points], edges)[2]


def _near_along(points: Ints, edges: Bools, along: Ints, n: int) -> Bools:
    """Which pairs have vertices of both parts that are near along the sheet, bool (P,); `along` as in `Sheet`."""
    a, b, c, d = points.T
    one = np.stack([a, a, np.where(edges, b, a), np.where(edges, b, a)])
    other = np.stack([c, d, np.where(edges, c, b), np.where(edges, d, b)])
    return np.asarray(np.isin(one * n + other, along).any(axis=0))


def beside(rest: Floats, along: Ints, points: Ints, edges: Bools, touch: Floats) -> None:
    """Let pairs that are near each other at rest touch at 0.9 of that distance, half of it where near along the sheet."""
    near = _near_along(points, edges, along, len(rest))
    apart = distances(rest, points, edges)
    # of C, by which a distance at rest must fall short of it: sheets that just lie on each other touch as they are
    rest_touch_margin = 1e-9
    lying = ~near & (apart < (1.0 - rest_touch_margin) * touch)
    in_sheet_distance_share = 0.5  # of it where they are near along the sheet, whose own elasticity holds them apart
    touch[near] = np.minimum(touch[near], in_sheet_distance_share * apart[near])
    lying_distance_share = 0.9  # of the distance at rest, where sheets that lie on each other touch
    touch[lying] = lying_distance_share * apart[lying]
