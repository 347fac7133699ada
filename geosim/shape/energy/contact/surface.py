"""Discretisation of the contact surface: points and small triangles of curved faces, with quadrature weights.

A point is a combination of the nodes of a face, x_q = sum_a w_qa x_a. On six-node faces, which sag up to an eighth of an
edge, every edge is split in four; the fifteen points of a face are weighted so that quadratic functions are
integrated exactly, with positive weights: a uniform pressure gives the consistent nodal forces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints, frozen
from geosim.collision.clearance import QUARTER_CORNERS
from geosim.collision.proximity import SmallTriangles
from geosim.geometry import topology
from geosim.linear.patterns import Carriers, carriers
from geosim.shape.energy.discretisation.body import ScaledBody

FACE_SPLIT_LEVEL = 2  # an edge of a curved face is split into 2^FACE_SPLIT_LEVEL

# Cosines between the normal of a face and the direction it is pressed along (or against) at which it begins to count, and
# counts in full: 78 and 53 degrees, between which the faces of an edge of 90 degrees change places; 73 degrees for forces.
FACING_COSINE_FROM, FACING_COSINE_FULL, PUSHED_COSINE_FROM = 0.2, 0.6, 0.3

FACE_CORNER_SLOTS = {3: [0, 1, 2], 15: [0, 14, 4]}  # the corners of a face among its slots
# Shares of the area of a face, by the barycentric coordinates of a point in quarters, in descending order.
SLOT_SHARES = {(4, 0, 0): 0.5 / 48.0, (3, 1, 0): 3.0 / 48.0, (2, 2, 0): 1.5 / 48.0, (2, 1, 1): 8.0 / 48.0}


@dataclass(frozen=True)
class ContactSurface:
    """Points, triangles and weights of all surfaces that can touch something.

    Parameters
    ----------
    nodes, weights
        Nodes of every point and how much of each it is, (p, 6) or (p, 1).
    triangles, triangle_weights
        Points of the small triangles, oriented out of the material (t, 3), and the rest area that each stands for (t,).
    face
        The face that a triangle is part of, an index into skin and chamber walls one after the other, (t,).
    spaces
        0 for the skin, c + 1 for the wall of chamber c, (t,).
    slots, shares
        Points of every whole face (f, 15) or (f, 3), and the rest area that each stands for in it.
    areas
        Rest area of every point [units of the positions, squared], (p,).
    edges
        Mean length of the edges of the whole faces around every point at rest, (p,).
    """

    nodes: Ints
    weights: Floats
    triangles: Ints
    triangle_weights: Floats
    face: Ints
    spaces: Ints
    slots: Ints
    shares: Floats
    areas: Floats
    edges: Floats

    @cached_property
    def around(self) -> Floats:
        """Number of small triangles around every point, (p,)."""
        return np.bincount(self.triangles.ravel(), minlength=len(self.nodes)).astype(float)

    @cached_property
    def carriers(self) -> Carriers:
        """Which points have the same nodes."""
        return carriers(self.nodes)

    def points(self, x: Floats) -> Floats:
        """Positions of the points (p, 3) at node positions x."""
        if self.nodes.shape[1] == 1:
            return np.ascontiguousarray(x[self.nodes[:, 0]])
        return np.asarray(self._of_nodes @ x[: self._of_nodes.shape[1]])

    @cached_property
    def _of_nodes(self) -> Any:
        """The weights as a matrix (p, n): a sixth of the time of their sums over gathered nodes."""
        count, each = self.nodes.shape
        starts, last = np.arange(0, count * each + 1, each, dtype=np.int32), int(self.nodes.max(initial=-1))
        parts = self.weights.ravel(), self.nodes.ravel().astype(np.int32), starts
        return csr_array(parts, shape=(count, last + 1))

    @cached_property
    def by_quarters(self) -> Ints:
        """The small triangles of every face in the order of its quarters, and of the quarters of these, (t, 3)."""
        if self.slots.shape[1] == 3:
            return self.slots
        corners = np.eye(3)[None]
        for _ in range(FACE_SPLIT_LEVEL):
            nodes = np.concatenate([corners, 0.5 * (corners + np.roll(corners, -1, axis=1))], axis=1)
            corners = nodes[:, QUARTER_CORNERS].reshape(-1, 3, 3)
        i, j = np.rint(2**FACE_SPLIT_LEVEL * corners[..., 1:]).astype(np.int64).transpose(2, 0, 1)
        before = np.cumsum([0, *range(2**FACE_SPLIT_LEVEL + 1, 1, -1)])  # slots of the rows before row i
        return np.ascontiguousarray(self.slots[:, before[i] + j].reshape(-1, 3))

    def facing(self, points: Floats, ids: Ints, direction: Floats) -> Floats:
        """Rest area that looks along a direction (k, 3) at some of the points `ids` (k,), shape (k,).

        At a sharp edge only the face that looks at an obstacle is pressed by it. The share of a face rises smoothly from
        none at 78 degrees between its normal and the direction to all of it at 53, and stays all from there.
        """
        width = self.slots.shape[1]
        normal = topology.face_normals(points, self.slots[:, FACE_CORNER_SLOTS[width]])
        normal /= np.maximum(np.linalg.norm(normal, axis=1), MIN_DIVISOR)[:, None]
        toward = np.full((len(points), 3), np.nan)
        toward[ids] = direction
        near = np.flatnonzero(np.isfinite(toward[self.slots, 0]).any(axis=1))
        cosine = np.einsum("fqi,fi->fq", toward[self.slots[near]], normal[near])
        s = np.clip((np.nan_to_num(cosine) - FACING_COSINE_FROM) / (FACING_COSINE_FULL - FACING_COSINE_FROM), 0.0, 1.0)
        area = np.bincount(self.slots[near].ravel(), (self.shares[near] * s * s * (3.0 - 2.0 * s)).ravel(), len(points))
        return np.asarray(area[ids], dtype=float)

    def stretch(self, rest: Floats, points: Floats, ids: Ints, force: Floats) -> Floats:
        """Area now over area at rest around the points `ids`, 1 elsewhere, (p,).

        Only triangles that face the force (p, 3) on a point count, all where there is none.
        """
        wanted = np.zeros(len(points), dtype=bool)
        wanted[ids] = True
        near = self.triangles[wanted[self.triangles].any(axis=1)]
        now, then = topology.face_normals(points, near), topology.face_normals(rest, near)
        size, before = np.linalg.norm(now, axis=1), np.linalg.norm(then, axis=1)
        pushed = np.einsum("tki,ti->tk", force[near], now)
        counts = -pushed >= PUSHED_COSINE_FROM * np.linalg.norm(force[near], axis=2) * size[:, None]
        areas = [np.bincount(near.ravel(), (counts * a[:, None]).ravel(), len(points)) for a in (size, before)]
        out = np.ones(len(points))
        out[ids] = np.where(areas[1][ids] > 0, areas[0][ids] / np.maximum(areas[1][ids], MIN_DIVISOR), 1.0)
        return out

    def to_nodes(self, values: Floats, count: int) -> Floats:
        """Transpose of `points`: values on points (p, 3) summed onto the nodes (count, 3)."""
        out = np.zeros((count, 3))
        flat = self.nodes.ravel()
        for k in range(3):
            out[:, k] = np.bincount(flat, (self.weights * values[:, k : k + 1]).ravel(), minlength=count)
        return out


@dataclass(frozen=True)
class RestSurface:
    """The contact surface of a robot, with what is known of it at rest; made when it is first needed.

    Parameters
    ----------
    body, held
        The robot, and which nodes are held in all components, bool (nodes,).
    thickness_edges
        Contact thickness over the local edge length.
    """

    body: ScaledBody
    held: Bools
    thickness_edges: float

    @cached_property
    def surface(self) -> ContactSurface:
        """Points and triangles."""
        return contact_surface(self.body)

    @cached_property
    def thickness(self) -> Floats:
        """Thickness of contact at every point, (p,)."""
        return frozen(self.thickness_edges * self.surface.edges)

    @cached_property
    def feels(self) -> Bools:
        """Which points feel obstacles: those of the skin that are not held, bool (p,)."""
        outside = np.zeros(len(self.surface.nodes), dtype=bool)
        outside[self.surface.triangles[self.surface.spaces == 0]] = True
        return frozen(outside & ~self.held[self.surface.nodes].all(axis=1))

    def small(self) -> SmallTriangles:
        """Return the triangles as parts of the robot feel each other."""
        return SmallTriangles(self.surface.points, self.surface.by_quarters, self.thickness)


def whole_faces(body: ScaledBody) -> tuple[Ints, Ints]:
    """Return the nodes (m, 3 or 6) and spaces (m,) of a robot's skin, and of its chamber walls out of the material."""
    robot = body.robot
    parts = [robot.skin, *(wall[:, ::-1] for wall in robot.chamber_walls)]
    faces, spaces = np.vstack(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if body.element.order == 2:
        faces = topology.curved_faces(faces, robot.p2_edges, len(robot.vertices))
    return body.place[faces], spaces


def mean_edges(body: ScaledBody, nodes: Ints) -> Floats:
    """Mean length of the edges of faces with nodes (m, 3 or 6) at rest, (m,)."""
    corners = body.rest[nodes[:, :3]]
    return np.asarray(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean(axis=1))


def contact_surface(body: ScaledBody) -> ContactSurface:
    """Return the contact surface of a robot: its skin, and its chamber walls out of the material, into the chamber."""
    # Weights of the triangles of a face over its area, in the order of `interpolate_p2`: dealt out to their corners they are
    # eight times the shares above, so that a uniform pressure on all of them is one on the face. Those beside the corner
    # triangles weigh four times, the middle one eight times as much as the others.
    subtriangle_weights = np.full(4**FACE_SPLIT_LEVEL, 0.25)
    subtriangle_weights[[1, 5, 13]], subtriangle_weights[9] = 1.0, 2.0
    order, (faces, spaces) = body.element.order, whole_faces(body)
    flat = 0.5 * np.linalg.norm(topology.face_normals(body.rest, faces[:, :3]), axis=1)
    mean = mean_edges(body, faces)
    if order == 1:
        nodes, triangles = np.unique(faces, return_inverse=True)
        slots = triangles = triangles.reshape(-1, 3)
        nodes, shape, face, kinds = (
            nodes[:, None],
            np.ones((len(nodes), 1)),
            np.arange(len(faces)),
            np.full(3, 1.0 / 3.0),
        )
    else:
        _, triangles, face, weights = topology.interpolate_p2(body.rest, faces, FACE_SPLIT_LEVEL)
        nodes, shape = faces[weights[:, 0].astype(np.int64)], weights[:, 1:]
        # a point on an edge or a corner couples the nodes there only: the others would fill the matrix with zeros
        nodes = np.where(shape != 0.0, nodes, np.take_along_axis(nodes, shape.argmax(axis=1)[:, None], axis=1))
        slots, kinds = _slots(triangles.reshape(len(faces), -1, 3))
    shares = flat[:, None] * kinds[None]
    around = np.bincount(slots.ravel(), minlength=len(nodes))  # faces around every point
    edges = np.bincount(slots.ravel(), np.repeat(mean, slots.shape[1])) / around
    areas = np.bincount(slots.ravel(), shares.ravel())
    dealt = (flat[:, None] * (np.ones(1) if order == 1 else subtriangle_weights)).ravel()
    columns = (nodes, shape, triangles, dealt, face, spaces[face], slots, shares, areas, edges)
    return ContactSurface(*(frozen(np.ascontiguousarray(column)) for column in columns))


def _slots(triangles: Ints) -> tuple[Ints, Floats]:
    """Return the points of every face in the order of its grid (f, 15), and their shares of its area (15,)."""
    n = 2**FACE_SPLIT_LEVEL
    grid = [(i, j) for i in range(n + 1) for j in range(n + 1 - i)]
    shares = np.array([SLOT_SHARES[tuple(sorted((i, j, n - i - j), reverse=True))] for i, j in grid])
    order = []  # the grid points of the corners of all triangles, as `interpolate_p2` lists them
    for i in range(n):
        for j in range(n - i):
            order += [(i, j), (i + 1, j), (i, j + 1)]
            order += [(i + 1, j), (i + 1, j + 1), (i, j + 1)] if i + j < n - 1 else []
    where = [order.index(point) for point in grid]
    return triangles.reshape(len(triangles), -1)[:, where], shares
