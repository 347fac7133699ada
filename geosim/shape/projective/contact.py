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

from typing import TYPE_CHECKING

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.obstacles import signed_distances
from geosim.collision.queries import closest_points, ray_hits, vertices_in_tets
from geosim.collision.tree import Tree, build_tree
from geosim.errors import InputError
from geosim.shape.projective.elements import Springs
from geosim.shape.projective.mesh import Work

if TYPE_CHECKING:
    from geosim.shape.projective.solver import ProjectiveShapeSolver

__all__ = ["MOVED", "SET_CHANGED", "UNCHANGED", "Contact"]

UNCHANGED, MOVED, SET_CHANGED = 0, 1, 2
STIFFEST = 256.0  # times the stiffness of a new spring
FORGOTTEN = 4.0  # offsets from the surface: there a spring, which pushes nothing beyond one offset, is dropped
SELF = -1


class Contact:
    """Finds collisions and keeps the springs of `work.elements` up to date during one command.

    Parameters
    ----------
    work, solver
        The mesh, and the options.
    index
        Command, which says where moving obstacles stand.
    """

    def __init__(self, work: Work, solver: ProjectiveShapeSolver, index: int) -> None:
        robot, environment = work.robot, work.environment
        if environment.exclude_pairs:
            raise InputError(
                "exclude_pairs: ProjectiveShapeSolver takes none; set self_contact=False to leave out "
                "self-contact, or use EnergyShapeSolver"
            )
        for i, obstacle in enumerate(environment.obstacles):
            if obstacle.friction > 0:
                raise InputError(
                    f"obstacle {i + 1}: friction = {obstacle.friction:g}, but ProjectiveShapeSolver is "
                    f"frictionless; set friction=0 or use EnergyShapeSolver"
                )
        if environment.self_friction > 0:
            raise InputError("self_friction: ProjectiveShapeSolver has none; set it to 0 or use EnergyShapeSolver")
        self.work = work
        self.obstacles = tuple((obstacle, obstacle.pose(index)) for obstacle in environment.obstacles)
        self.faces = np.ascontiguousarray(np.vstack([robot.skin, *robot.chamber_walls]))
        surface = np.unique(self.faces)
        self.ids = np.setdiff1d(surface, work.held)
        edges = np.linalg.norm(robot.vertices[self.faces] - robot.vertices[np.roll(self.faces, 1, axis=1)], axis=2)
        self.edge = float(edges.mean())
        self.offset = 0.05 * self.edge if solver.contact_offset is None else solver.contact_offset
        self.stiffness = solver.contact_stiffness * work.matrix.diagonal()
        self.active = bool(environment.self_contact or environment.obstacles) and len(self.ids) > 0
        self.self_contact = bool(environment.self_contact)
        self.clear, self.penetration = True, 0.0
        self._tets: Tree | None = None
        self._surface: Tree | None = None

    def update(self, x: Floats, balanced: bool) -> int:
        """Check for collisions at x [m] and move, add, release or stiffen springs; return what happened."""
        if not self.active:
            return UNCHANGED
        old = self.work.elements.springs
        found = self._self_collisions(x, old) if self.self_contact else Springs(offset=self.offset)
        depth = self._depth(x, found)
        for i, (obstacle, pose) in enumerate(self.obstacles):
            distance, nearest, normal = signed_distances(obstacle, x[self.ids], pose, 2.0 * self.edge)
            had = np.isin(self.ids, old.ids[old.partner == i])
            take = (distance < 0) | (had & (distance <= FORGOTTEN * self.offset))
            inside = distance < 0
            depth = max(depth, float(-distance[inside].min(initial=0.0)))
            ids = self.ids[take]
            found = _joined(
                found,
                Springs(
                    ids,
                    self.stiffness[ids],
                    nearest[take],
                    normal[take],
                    self.offset,
                    np.full(len(ids), i),
                    np.zeros((len(ids), 3), np.int64),
                    np.zeros((len(ids), 3)),
                ),
            )
        self.penetration, self.clear = depth, depth == 0.0
        return self._install(found, old, balanced)

    def _install(self, found: Springs, old: Springs, balanced: bool) -> int:
        """Give kept springs their stiffness, stiffen all if vertices stay inside at balance, and say what changed."""
        key = lambda s: s.ids * (len(self.obstacles) + 1) + s.partner + 1  # noqa: E731
        before, now = key(old), key(found)
        order = np.argsort(before)
        kept = np.isin(now, before)
        stiffness = found.stiffness.copy()
        if len(before):
            at = order[np.minimum(np.searchsorted(before[order], now), len(before) - 1)]
            stiffness = np.where(kept, old.stiffness[at], stiffness)
        stiffer = balanced and not self.clear
        if stiffer:
            limit = STIFFEST * self.stiffness[found.ids]
            stiffer = bool((stiffness < limit).any())
            stiffness = np.minimum(4.0 * stiffness, limit)
        self.work.elements.springs = Springs(
            found.ids,
            stiffness,
            found.points,
            found.normals,
            self.offset,
            found.partner,
            found.corners,
            found.shares,
            self.obstacles,
        )
        if stiffer or not kept.all():  # a spring that is dropped pushed nothing
            return SET_CHANGED
        return MOVED if len(now) else UNCHANGED

    def _self_collisions(self, x: Floats, old: Springs) -> Springs:
        """Springs of vertices inside foreign body tets, and of those that were and are still within the offset."""
        self._tets = build_tree(x, self.work.elements.body.tets) if self._tets is None else self._tets.refit(x)
        inside = self.ids[vertices_in_tets(x, self.ids, self._tets) >= 0]
        near = np.setdiff1d(old.ids[old.partner == SELF], inside)
        if len(inside) + len(near) == 0:
            return Springs(offset=self.offset)
        self._surface = build_tree(x, self.faces) if self._surface is None else self._surface.refit(x)
        face_normals = _normals(x, self.faces)
        vertex_normals = np.zeros_like(x)
        np.add.at(vertex_normals, self.faces.ravel(), np.repeat(face_normals, 3, axis=0))
        unit = face_normals / np.maximum(np.linalg.norm(face_normals, axis=1), 1e-300)[:, None]
        away = -vertex_normals[inside]
        away /= np.maximum(np.linalg.norm(away, axis=1), 1e-300)[:, None]
        distance, face = ray_hits(x, inside, away, self._surface)
        leaves = (face >= 0) & (np.einsum("ij,ij->i", unit[face], away) > 0.1) & (distance < 4.0 * self.edge)
        points = x[inside] + np.where(leaves, distance, 0.0)[:, None] * away
        other = np.flatnonzero(~leaves)
        if len(other):
            points[other], face[other] = closest_points(x[inside[other]], x, self._surface, inside[other])
        found = self._on_faces(x, inside, points, face, unit)
        if len(near):
            points, face = closest_points(x[near], x, self._surface, near, FORGOTTEN * self.offset)
            ok = (face >= 0) & (np.einsum("ij,ij->i", unit[face], vertex_normals[near]) < 0)  # it faces the vertex
            found = _joined(found, self._on_faces(x, near[ok], points[ok], face[ok], unit))
        return found

    def _on_faces(self, x: Floats, ids: Ints, points: Floats, face: Ints, unit: Floats) -> Springs:
        """Springs between vertices and points of faces."""
        corners = self.faces[face]
        return Springs(
            ids,
            self.stiffness[ids],
            points,
            unit[face],
            self.offset,
            np.full(len(ids), SELF),
            corners,
            _shares(points, x[corners]),
        )

    @staticmethod
    def _depth(x: Floats, springs: Springs) -> float:
        """Deepest vertex below the contact points of springs [m]."""
        if len(springs.ids) == 0:
            return 0.0
        return max(0.0, float(-np.einsum("ij,ij->i", x[springs.ids] - springs.points, springs.normals).min()))


def _joined(a: Springs, b: Springs) -> Springs:
    return Springs(
        np.concatenate([a.ids, b.ids]),
        np.concatenate([a.stiffness, b.stiffness]),
        np.vstack([a.points, b.points]),
        np.vstack([a.normals, b.normals]),
        b.offset,
        np.concatenate([a.partner, b.partner]),
        np.vstack([a.corners, b.corners]),
        np.vstack([a.shares, b.shares]),
    )


def _shares(points: Floats, corners: Floats) -> Floats:
    """Barycentric coordinates (s, 3) of points on triangles (s, 3, 3)."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(a, b)
    square = np.maximum(np.einsum("ij,ij->i", normal, normal), 1e-300)
    off = points - corners[:, 0]
    v = np.einsum("ij,ij->i", np.cross(off, b), normal) / square
    w = np.einsum("ij,ij->i", np.cross(a, off), normal) / square
    shares = np.clip(np.stack([1.0 - v - w, v, w], axis=1), 0.0, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


def _normals(x: Floats, faces: Ints) -> Floats:
    """Area-weighted normals of faces."""
    return np.cross(x[faces[:, 1]] - x[faces[:, 0]], x[faces[:, 2]] - x[faces[:, 0]])
