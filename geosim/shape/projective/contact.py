"""Springs of contact in the projective solver: added, moved and released [Fang2022, II-C, III-A3, Fig. 6].

A vertex of a surface (skin or chamber wall, of any body) collides when it is inside a body tet that is not its own, or
inside an obstacle. It gets a spring towards the nearest point v_c of the free side:

- self-contact: v_c is where the ray along the inward normal of the vertex leaves the collided region (or the nearest
  point of its surface, where that ray meets nothing);
- obstacles: v_c is the closest point of the obstacle's surface.

The plane at v_c, moved out by the offset, is the target. A spring stops pushing once its vertex is outside and farther
from the surface than the offset, Eq. (8); it is forgotten a little farther away, so that a vertex at the boundary does
not change the set for ever. Where the robot touches itself the face that holds v_c feels the opposite push. Where
vertices stay inside although the forces balance, springs get stiffer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen, norm
from geosim.collision.crossings import count_crossings
from geosim.collision.queries import closest_points, ray_hits, vertices_in_tets
from geosim.collision.shapes import signed_distances
from geosim.collision.tree import Tree, build_tree
from geosim.geometry import topology
from geosim.model.environment import Environment, Obstacle
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.edges import OVERHANG, crossing_edges, edge_gaps, edge_spring, pierces

__all__ = ["NO_SPRINGS", "ContactSprings", "SpringContact"]

SELF_PARTNER, EDGES = (
    -1,
    -2,
)  # partner of a spring to the robot itself: of a vertex with a face, of an edge with an edge
DEFAULT_OFFSET_EDGES = 0.05  # mean edges of the surface
STIFFENING_FACTOR, MAX_STIFFENING = (
    4.0,
    256.0,
)  # factor at every balance with vertices inside; limit over a new spring's stiffness
DROPPED_SPRING_OFFSETS = (
    4.0  # offsets from the surface: there a spring, which pushes nothing beyond one offset, is dropped
)
ASKED_REACH_EDGES = (
    2.0  # mean edges: how far from a mesh obstacle a vertex is asked for, more than it moves between two checks
)
MAX_EXIT_EDGES = 4.0  # mean edges: a ray that leaves the collided region later has missed the nearest side of it
MAX_VERTEX_STEP_EDGES = 2.0  # mean edges, of any vertex: no surface passes through another unseen
MIN_EXIT_COSINE = 0.1  # least cosine of ray and face where it leaves; flatter ones leave sideways
SPRING_ARRAYS = ("ids", "stiffness", "points", "normals", "partner", "corners", "shares")


@dataclass(frozen=True)
class ContactSprings:
    """Virtual springs of contact: vertex, stiffness [N/m], contact point [m] and outward normal, Eq. (5).

    A spring's target is the nearest point on the free side of its plane, n . (v - point) >= offset, so it pushes and
    never pulls, and slides without friction. Where the robot touches itself the point moves with the face `corners`
    (s, 3) that it lies on, with barycentric `shares` (s, 3), and the face feels the opposite push; obstacles have
    no shares. `partner` is SELF_PARTNER or the number of the obstacle in `obstacles`, which hold their poses.
    """

    ids: Ints
    stiffness: Floats
    points: Floats
    normals: Floats
    offset: float
    partner: Ints
    corners: Ints
    shares: Floats
    obstacles: tuple[tuple[Obstacle, Floats], ...] = ()

    def at(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Gaps [m] (s,), slopes (s,) by motion of the vertex along the normals, unit normals (s, 3), shares of corners (s, 3).

        Contact points on primitives and those of edges follow in every evaluation; those on meshes and on faces of the robot
        stay until the next collision check.
        """
        own = self.partner < 0
        points = np.where(own[:, None], np.einsum("ij,ijk->ik", self.shares, x[self.corners]), self.points)
        gap = np.einsum("ij,ij->i", x[self.ids] - points, self.normals)
        slope, normals, shares = np.ones(len(gap)), self.normals.copy(), self.shares.copy()
        for i, (obstacle, pose) in enumerate(self.obstacles):
            mine = np.flatnonzero(self.partner == i)
            if len(mine) and obstacle.shape != "mesh":
                gap[mine], _, normals[mine] = signed_distances(obstacle.solid, x[self.ids[mine]], pose)
        mine = np.flatnonzero(self.partner == EDGES)
        if len(mine):
            first, second = np.column_stack([self.ids, self.corners[:, 0]])[mine], self.corners[mine, 1:]
            gap[mine], slope[mine], normals[mine], shares[mine] = edge_gaps(x, first, second, normals[mine])
        return gap, slope, normals, shares

    def pushing(self, x: Floats) -> Bools:
        """Which springs push at x [m], (s,)."""
        return self.at(x)[0] < self.offset

    def forces(self, x: Floats, on: Bools | None = None) -> tuple[Floats, float, Floats]:
        """Push of every spring on its vertex [N] (s, 3), the energy of all [J], and the shares of its corners (s, 3).

        Springs act while they push; those `on` (s,), where it is given, whatever their length, and they alone.
        """
        gap, slope, normals, shares = self.at(x)
        depth = np.where(gap < self.offset if on is None else on, gap - self.offset, 0.0)
        push = -(self.stiffness * depth * slope)[:, None] * normals
        return push, float(0.5 * np.sum(self.stiffness * depth * depth)), shares

    def slopes(self, x: Floats, on: Bools | None = None) -> tuple[Ints, Floats]:
        """Vertices (s, 4) of the springs that act and vectors a (s, 4, 3): the second derivative of each is a (x) a [N/m]."""
        gap, slope, normals, shares = self.at(x)
        acting = np.flatnonzero(gap < self.offset if on is None else on)
        shares = np.concatenate([np.ones((len(acting), 1)), -shares[acting]], axis=1)
        slopes = ((np.sqrt(self.stiffness) * slope)[acting, None] * shares)[:, :, None] * normals[acting, None]
        own = self.ids[acting, None]  # stands in for corners that have no share, so that they couple nothing
        return np.concatenate([own, np.where(shares[:, 1:] != 0.0, self.corners[acting], own)], axis=1), slopes

    def on_vertices(self, x: Floats, on: Bools | None = None) -> tuple[Floats, float]:
        """Forces of the springs on all vertices [N], like x (n, 3), action and reaction, and the energy of all [J]."""
        push, energy, shares = self.forces(x, on)
        out = np.zeros_like(x)
        np.add.at(out, self.ids, push)
        np.subtract.at(out, self.corners, shares[:, :, None] * push[:, None])
        return out, energy

    def diagonal(self, count: int) -> Floats:
        """Diagonal that bounds the stiffness of the springs [N/m] (count,).

        (n . (v - sum b_i x_i))^2 <= 2 v^2 + 2 sum b_i x_i^2 couples no vertices, so the matrix keeps its pattern.
        """
        twice = np.where(self.partner < 0, 4.0 if (self.partner == EDGES).any() else 2.0, 1.0) * self.stiffness
        out = np.bincount(self.ids, twice, minlength=count).astype(float)
        np.add.at(out, self.corners, twice[:, None] * np.abs(self.shares))
        return out


_ROWS, _IDS = frozen(np.empty((0, 3))), frozen(np.empty((0, 3), dtype=np.int64))
NO_SPRINGS = ContactSprings(_IDS[:, 0], _ROWS[:, 0], _ROWS, _ROWS, 0.0, _IDS[:, 0], _IDS, _ROWS)


class SpringContact:
    """Finds collisions and keeps springs up to date during one command.

    Parameters
    ----------
    robot, environment
        What collides; the obstacles stand where they are at the command `index`.
    held
        Held vertices, which get no springs.
    stiffness
        Stiffness of a new spring of every vertex [N/m], (n,).
    offset
        Distance that a spring keeps between surfaces [m]; None is a share of the mean surface edge.
    """

    def __init__(
        self,
        robot: VolumetricRobot,
        environment: Environment,
        index: int,
        held: Ints,
        stiffness: Floats,
        offset: float | None,
    ) -> None:
        self.obstacles = tuple((obstacle, obstacle.pose(index)) for obstacle in environment.obstacles)
        self.faces = np.ascontiguousarray(np.vstack([robot.skin, *robot.chamber_walls]))
        self.ids = np.setdiff1d(self.faces, held)
        edges = robot.vertices[self.faces] - robot.vertices[np.roll(self.faces, 1, axis=1)]
        self.edge = float(np.linalg.norm(edges, axis=2).mean())
        self.offset = DEFAULT_OFFSET_EDGES * self.edge if offset is None else offset
        self.stiffness = stiffness
        self.self_contact = bool(environment.self_contact)
        self.active = (self.self_contact or len(self.obstacles) > 0) and len(self.ids) > 0
        self.longest = (
            MAX_VERTEX_STEP_EDGES * self.edge if self.active else np.inf
        )  # step [m] after which collisions are looked for
        self.clear, self.penetration = True, 0.0
        self._body = robot.body_tets
        self._tets: Tree | None = None
        self._surface: Tree | None = None
        self._apart = np.empty((0, 3))  # the last positions where nothing crossed

    def update(self, x: Floats, old: ContactSprings, balanced: bool) -> tuple[ContactSprings, bool]:
        """Check for collisions at x [m]; return the springs, moved or released, and whether any was added or stiffened."""
        if not self.active:
            return old, False
        self._apart = self._apart if len(self._apart) else x.copy()
        parts, inside = self._self_collisions(x, old) if self.self_contact else ([], old.ids[:0])
        if self.self_contact and (balanced or (old.partner == EDGES).any()):
            parts.append(self._edge_collisions(x, old, inside))
        self.penetration = max([0.0, *(_depth(x, springs) for springs in parts)])
        parts += [self._obstacle_collisions(i, x, old) for i in range(len(self.obstacles))]
        self.clear = self.penetration == 0.0
        self._apart = x.copy() if balanced and self.clear else self._apart
        joined = {
            key: np.concatenate([getattr(springs, key) for springs in [NO_SPRINGS, *parts]]) for key in SPRING_ARRAYS
        }
        return self._stiffened(
            replace(NO_SPRINGS, offset=self.offset, obstacles=self.obstacles, **joined), old, balanced
        )

    def meets(self, x: Floats, springs: ContactSprings) -> bool:
        """Whether at x [m] a vertex without a spring is inside something: from there on it has to be looked after."""
        loose = np.setdiff1d(self.ids, springs.ids)
        if self.self_contact:
            self._tets = build_tree(x, self._body) if self._tets is None else self._tets.refit(x)
            if (vertices_in_tets(x, loose, self._tets) >= 0).any():
                return True
        ways = (
            signed_distances(o.solid, x[loose], pose, ASKED_REACH_EDGES * self.edge)[0] for o, pose in self.obstacles
        )
        return any(bool((distance < 0.0).any()) for distance in ways)

    def _stiffened(self, found: ContactSprings, old: ContactSprings, balanced: bool) -> tuple[ContactSprings, bool]:
        """Give kept springs their stiffness, stiffen all if vertices stay inside at balance, and say what changed."""
        before, now = (s.ids * (len(self.obstacles) + 2) + s.partner + 2 for s in (old, found))
        order = np.argsort(before)
        kept = np.isin(now, before)
        stiffness = found.stiffness.copy()
        stiffness[kept] = old.stiffness[order[np.searchsorted(before[order], now[kept])]]
        limit = MAX_STIFFENING * self._new_stiffness(found.ids, found.corners, found.partner)
        stiffer = balanced and not self.clear and bool((stiffness < limit).any())
        if balanced and not self.clear:
            stiffness = np.minimum(STIFFENING_FACTOR * stiffness, limit)
        return replace(found, stiffness=stiffness), stiffer or not kept.all()  # a spring that is dropped pushed nothing

    def _obstacle_collisions(self, i: int, x: Floats, old: ContactSprings) -> ContactSprings:
        """Springs of vertices inside obstacle i, and of those that were and are still within the offset."""
        obstacle, pose = self.obstacles[i]
        distance, nearest, normal = signed_distances(obstacle.solid, x[self.ids], pose, ASKED_REACH_EDGES * self.edge)
        self.penetration = max(self.penetration, float(-distance.min()))
        had = np.isin(self.ids, old.ids[old.partner == i])
        take = (distance < 0) | (had & (distance <= DROPPED_SPRING_OFFSETS * self.offset))
        count = int(take.sum())
        none = np.zeros((count, 3), np.int64)
        return self._springs(self.ids[take], nearest[take], normal[take], i, none, none.astype(float))

    def _self_collisions(self, x: Floats, old: ContactSprings) -> tuple[list[ContactSprings], Ints]:
        """Springs of vertices inside foreign body tets, and of those that were and are still near; and which are inside."""
        self._tets = build_tree(x, self._body) if self._tets is None else self._tets.refit(x)
        inside = self.ids[vertices_in_tets(x, self.ids, self._tets) >= 0]
        near = np.setdiff1d(old.ids[old.partner == SELF_PARTNER], inside)
        if len(inside) + len(near) == 0:
            return [], inside
        self._surface = build_tree(x, self.faces) if self._surface is None else self._surface.refit(x)
        face_normals = topology.face_normals(x, self.faces)
        vertex_normals = np.zeros_like(x)
        np.add.at(vertex_normals, self.faces.ravel(), np.repeat(face_normals, 3, axis=0))
        unit = _unit(face_normals)
        stays = self._still_on(x, inside, old)
        lost, near = (np.setdiff1d(ids, stays.ids) for ids in (inside, near))
        points, face = self._exits(x, lost, -_unit(vertex_normals[lost]), unit, self._surface)
        found = [stays, self._on_faces(x, lost, points, face, unit)]
        if len(near):
            points, face, _ = closest_points(x[near], x, self._surface, near, DROPPED_SPRING_OFFSETS * self.offset)
            ok = (face >= 0) & (np.einsum("ij,ij->i", unit[face], vertex_normals[near]) < 0)  # it faces the vertex
            found.append(self._on_faces(x, near[ok], points[ok], face[ok], unit))
        return found, inside

    def _still_on(self, x: Floats, inside: Ints, old: ContactSprings) -> ContactSprings:
        """Springs of vertices that lie over the face that they had, or a little beside it, or under it where they are `inside`.

        A vertex over the edge of two faces would go to and fro between them, each of which pushes it to the other.
        """
        mine = np.flatnonzero(old.partner == SELF_PARTNER)
        ids, corners = old.ids[mine], old.corners[mine]
        at = x[corners]
        normal = _unit(np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0]))
        gap = np.einsum("ij,ij->i", x[ids] - at[:, 0], normal)
        points = x[ids] - gap[:, None] * normal
        over = (
            (_barycentric(points, at) >= -OVERHANG).all(axis=1)
            & (np.abs(gap) <= DROPPED_SPRING_OFFSETS * self.offset)
            & ((gap < 0.0) == np.isin(ids, inside))
        )
        shares = _shares(points[over], at[over])
        return self._springs(ids[over], points[over], normal[over], SELF_PARTNER, corners[over], shares)

    def _edge_collisions(self, x: Floats, old: ContactSprings, seen: Ints) -> ContactSprings:
        """Springs of edges that have passed each other unseen by vertices, and of those that had and are still near."""
        mine = old.partner == EDGES
        first = np.column_stack([old.ids[mine], old.corners[mine, 0]])
        second, side = old.corners[mine, 1:], old.normals[mine]
        crossings = count_crossings(x, self.faces)
        edges, others, normals = crossing_edges(x, self._apart, crossings, self.faces, seen)
        known = {frozenset(row) for row in np.column_stack([first, second]).tolist()}
        fresh = [k for k in range(len(edges)) if frozenset([*edges[k].tolist(), *others[k].tolist()]) not in known]
        pairs = np.vstack([first, edges[fresh]]), np.vstack([second, others[fresh]])
        ids, corners, shares, normal, gap = edge_spring(x, *pairs, np.vstack([side, normals[fresh]]))
        near = (gap <= DROPPED_SPRING_OFFSETS * self.offset) & (
            (gap >= 0.0) | pierces(crossings, np.column_stack([ids, corners[:, 0]]), corners[:, 1:])
        )
        points = x[ids] - gap[:, None] * normal
        return self._springs(ids[near], points[near], normal[near], EDGES, corners[near], shares[near])

    def _exits(self, x: Floats, ids: Ints, away: Floats, unit: Floats, surface: Tree) -> tuple[Floats, Ints]:
        """Where rays from vertices leave the collided region (points and faces), the nearest point of it elsewhere."""
        distance, face = ray_hits(x, ids, away, surface)
        leaves = (face >= 0) & (np.einsum("ij,ij->i", unit[face], away) > MIN_EXIT_COSINE)
        leaves &= distance < MAX_EXIT_EDGES * self.edge
        points = x[ids] + np.where(leaves, distance, 0.0)[:, None] * away
        other = np.flatnonzero(~leaves)
        if len(other):
            points[other], face[other], _ = closest_points(x[ids[other]], x, surface, ids[other])
        return points, face

    def _on_faces(self, x: Floats, ids: Ints, points: Floats, face: Ints, unit: Floats) -> ContactSprings:
        """Springs between vertices and points of faces."""
        corners = self.faces[face]
        return self._springs(ids, points, unit[face], SELF_PARTNER, corners, _shares(points, x[corners]))

    def _springs(
        self, ids: Ints, points: Floats, normals: Floats, partner: int, corners: Ints, shares: Floats
    ) -> ContactSprings:
        """New springs of vertices that meet the same partner."""
        whose = np.full(len(ids), partner)
        stiffness = self._new_stiffness(ids, corners, whose)
        return ContactSprings(ids, stiffness, points, normals, self.offset, whose, corners, shares)

    def _new_stiffness(self, ids: Ints, corners: Ints, partner: Ints) -> Floats:
        """Stiffness of new springs [N/m] (s,): of two edges that of the stiffest vertex, as held ones have none."""
        of_edges = np.maximum(self.stiffness[ids], self.stiffness[corners].max(axis=1, initial=0.0))
        return np.where(partner == EDGES, of_edges, self.stiffness[ids])


def _depth(x: Floats, springs: ContactSprings) -> float:
    """Deepest vertex below the contact points of springs [m]."""
    return float(-np.einsum("ij,ij->i", x[springs.ids] - springs.points, springs.normals).min(initial=0.0))


def _unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(norm(vectors, axis=1), np.finfo(float).tiny)[:, None]


def _shares(points: Floats, corners: Floats) -> Floats:
    """Barycentric coordinates (s, 3) of the points of triangles (s, 3, 3) that are nearest in their planes, or about so."""
    shares = np.clip(_barycentric(points, corners), 0.0, 1.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _barycentric(points: Floats, corners: Floats) -> Floats:
    """Barycentric coordinates (s, 3) of points in the planes of triangles (s, 3, 3)."""
    a, b, off = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0], points - corners[:, 0]
    normal = np.cross(a, b)
    square = np.maximum(np.einsum("ij,ij->i", normal, normal), np.finfo(float).tiny)
    v = np.einsum("ij,ij->i", np.cross(off, b), normal) / square
    w = np.einsum("ij,ij->i", np.cross(a, off), normal) / square
    return np.stack([1.0 - v - w, v, w], axis=1)
