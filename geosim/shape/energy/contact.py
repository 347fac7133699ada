"""Contact of a robot with obstacles and with itself, as one more energy of the shape equations.

    contact energy = sum_q A_q phi(d_q) + sum over near pairs A phi(d)        laws: see `contact_kernels`

The points q of the finely split skin feel the signed distance of every obstacle; vertex-face and edge-edge pairs of
the same split surfaces feel each other. Contact is a thickness of the surfaces, a twentieth of the skin's
local edge length unless the solver says otherwise. Numbered departures from [Fang2022], II-B and II-C:

[D1] A smooth potential replaces the springs to projected points: contact has a pressure, and its force is the
     gradient of an energy whose second derivative is exact.
[D2] Every pair has its own activation distance, at most a quarter of its distance at rest (thickness for obstacles: the
     distance at rest), so nothing touches at rest and no list of geodesic neighbours is needed.
[D3] Friction is Coulomb's law at the end of an increment. Newton is repeated with the pressures and normals of the
     solve before (`Grip.lagged`), whose tangent is symmetric; near the end it goes by those of the configuration
     itself (`Grip.own`), with what is unsymmetric in the products of the Krylov method only. Anchors follow what slips.
[D4] The tangent of contact is never negative until the end is near: where all presses far too hard, the turning of the
     normals makes it indefinite, and Newton wanders. Long steps look ahead (`lookahead`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.proximity import Neighbourhood
from geosim.collision.shapes import curvatures, signed_distances
from geosim.environment import Environment, Obstacle
from geosim.linear.patterns import Coupled, Sparsity, add_blocks, couple, missing_blocks
from geosim.shape.energy.contact_kernels import PointForces, PointHold, PointLaw, obstacle_points, pair_blocks
from geosim.shape.energy.contact_surface import ContactSurface
from geosim.shape.energy.grip import Blocks, ContactForces, Grip

__all__ = ["ContactPotential", "Couplings", "contact_stiffness"]

# kappa over the shear modulus, against obstacles and between parts of the robot. A flat face under a pressure of one shear
# modulus comes closer by a sixth of the thickness; between parts the pole of the law holds, and Newton finds a soft one sooner.
STIFFNESS, BETWEEN = 10.0, 0.3
# Elastic slip before a point slides, over the thickness: small beside what is seen, and not so steep that Newton jumps.
SLIP = 0.1
# Thicknesses by which a Newton step may push a point deeper into an obstacle: the law is nearly linear so far.
DEEPER = 0.6
# Where a step must be cut, the distance is not linear along it; so many cuts come near enough.
CUTS = 3
# Share of its own thickness by which a point inside an obstacle may always move: else it would never come out.
STUCK = 0.1
# Pairs within so many reaches get their couplings when the pattern grows, so that it lasts for many iterations.
AHEAD = 2.5
# Thicknesses of contact up to which distances are asked for: beyond, no law and no cut of a step reads them.
FAR = 5.0


def contact_stiffness(surface: ContactSurface, moduli: Floats) -> Floats:
    """Stiffness kappa of the points (p,) from the largest shear modulus around every node, (nodes,)."""
    return np.asarray(STIFFNESS * moduli[surface.nodes].max(axis=1))


@dataclass
class Couplings:
    """Memory of the pattern that contact needed last: it is kept as long as it couples all that touches."""

    pattern: Sparsity | None = None


@dataclass(frozen=True)
class ContactPotential:
    """Contact of one robot in one environment; arrays are scaled, obstacles in metres.

    Parameters
    ----------
    environment, surface, neighbourhood
        Obstacles; points of the robot; which of them are near each other, None where self-contact is off.
    length, center
        Unit [m] and origin [m] of scaled positions.
    thickness, kappa, feels
        Thickness and stiffness of contact at every point (p,), and whether it feels obstacles, bool (p,).
    delta, rest_distance
        Distance at which contact with every obstacle begins, and that at rest, (o, p).
    nodes
        Number of nodes.
    couplings
        Pattern in use.
    """

    environment: Environment
    surface: ContactSurface
    neighbourhood: Neighbourhood | None
    length: float
    center: Floats
    thickness: Floats
    kappa: Floats
    feels: Bools
    delta: Floats
    rest_distance: Floats
    nodes: int
    couplings: Couplings = field(default_factory=Couplings, repr=False)

    @property
    def friction(self) -> bool:
        """Whether any obstacle is rough."""
        return any(o.friction > 0 for o in self.environment.obstacles)

    def metres(self, points: Floats) -> Floats:
        """Positions [m] of scaled positions."""
        return points * self.length + self.center

    def poses(self, index: int) -> Floats:
        """Poses of the obstacles at the end of command `index`, (o, 4, 4); -1 is the start."""
        return self.environment.poses(index)

    def _distances(self, obstacle: Obstacle, pose: Floats, points: Floats) -> tuple[Floats, Floats]:
        """Scaled distances (p,) to an obstacle, exact up to its `_reach`, and normals (p, 3)."""
        place, reach = self.metres(points), self._reach(obstacle)
        distance, _, normal = signed_distances(obstacle.solid, place, pose, reach)
        return distance / self.length, normal

    def _reach(self, obstacle: Obstacle) -> float:
        """Distance [m] up to which the distance to an obstacle is asked for."""
        return FAR * float(self.thickness.max()) * self.length + min(obstacle.thickness, self.length)

    # ---- what the robot holds on to

    def start(self, x: Floats, index: int = -1) -> Grip:
        """Return the grip of a robot that starts at x: it holds on to nothing yet."""
        poses, points = self.poses(index), self.surface.points(x)
        count = len(points) if self.friction else 0
        anchors, distances = np.zeros((len(poses), count, 3)), np.zeros((len(poses), count))
        for o, pose in enumerate(poses if self.friction else ()):
            anchors[o] = (self.metres(points) - pose[:3, 3]) @ pose[:3, :3]
            distances[o] = self._distances(self.environment.obstacles[o], pose, points)[0]
        still, vectors = np.zeros_like(distances), np.zeros_like(anchors)
        return Grip(poses, frozen(anchors), frozen(distances), still, vectors, np.ones_like(distances))

    def renew(self, x: Floats, grip: Grip, forces: ContactForces) -> Grip:
        """Return the grip after an equilibrium: points in contact keep what friction holds, others start afresh."""
        if not self.friction:
            return grip
        points, most, anchors = self.surface.points(x), SLIP * self.thickness, np.empty_like(grip.anchors)
        touches = forces.pressure > 0
        for o, pose in enumerate(grip.poses):
            way = points - self._anchors(grip, o, slice(None))
            way -= np.einsum("pi,pi->p", way, grip.normal[o])[:, None] * grip.normal[o]
            way *= grip.share[o][:, None]
            size = np.linalg.norm(way, axis=1)
            way *= np.where(touches[o], most / np.maximum(size, most), 0.0)[:, None]
            anchors[o] = (self.metres(points - way) - pose[:3, 3]) @ pose[:3, :3]
        before = np.where(touches, -np.inf, forces.distance)
        return replace(grip, anchors=frozen(anchors), before=frozen(before), share=np.ones_like(grip.share))

    def slide(self, before: Floats, x: Floats, old: Grip, grip: Grip, forces: ContactForces) -> float:
        """How far what touches a rough obstacle slid along it from one equilibrium to another, over the local edge.

        Of a point that came into contact on the way, the part of its way that it made in contact counts.
        """
        was, here = (self.metres(self.surface.points(at)) for at in (before, x))
        largest = 0.0
        for o, obstacle in enumerate(self.environment.obstacles):
            ids = np.flatnonzero((forces.pressure[o] > 0.0) & (obstacle.friction > 0.0))
            start, end = (
                (p[ids] - pose[:3, 3]) @ pose[:3, :3] for p, pose in ((was, old.poses[o]), (here, grip.poses[o]))
            )
            move, normal = (end - start) @ grip.poses[o][:3, :3].T / self.length, forces.normal[o, ids]
            along = move - np.einsum("pi,pi->p", move, normal)[:, None] * normal
            way = np.linalg.norm(along, axis=1) * (grip.share[o, ids] / self.surface.edges[ids])
            largest = max(largest, float(np.max(way, initial=0.0)))
        return largest

    def _anchors(self, grip: Grip, o: int, ids: Ints | slice) -> Floats:
        """Scaled anchors of some points on obstacle o, where it stands now."""
        pose = grip.poses[o]
        return (grip.anchors[o, ids] @ pose[:3, :3].T + pose[:3, 3] - self.center) / self.length

    # ---- forces and stiffness

    def evaluate(self, x: Floats, grip: Grip, *, matrix: bool) -> ContactForces:
        """Return the forces of contact, and with `matrix` what it adds to the tangent."""
        points, obstacles = self.surface.points(x), range(len(self.environment.obstacles))
        distance, normal = np.empty((len(obstacles), len(points))), np.zeros((len(obstacles), len(points), 3))
        force, traction, pressure = np.zeros_like(normal), np.zeros_like(normal), np.zeros_like(distance)
        stiff: list[Blocks] = []
        bends, slides, energy = stiff.copy(), stiff.copy(), 0.0
        for o in obstacles:
            distance[o], ids, normals, work, found = self._obstacle(o, points, grip)
            energy += work
            force[o, ids], pressure[o, ids], traction[o, ids] = found.force, found.pressure, found.traction
            normal[o, ids] = normals
            for parts, blocks in ((stiff, found.block), (bends, found.bend), (slides, found.slide)):
                parts.append((ids[:, None], blocks[:, None, None]))
        residual = force.sum(axis=0)
        pairs, pair_pressure, work, stiffness, turning = self._pairs(points, residual, matrix)
        touching = int((pressure > 0).sum() + (pair_pressure > 0).sum())
        return ContactForces(
            self.surface.to_nodes(residual, self.nodes),
            -force,
            pressure,
            traction,
            normal,
            distance,
            touching,
            energy + work,
            pairs,
            pair_pressure,
            *((*stiff, (pairs, stiffness)), (*bends, (pairs, turning)), tuple(slides if self.friction else ()))
            if matrix
            else (),
        )

    def stiffened(self, x: Floats, forces: ContactForces, base: Sparsity, data: Floats) -> tuple[Sparsity, Floats]:
        """Return the tangent with contact from that of the body."""
        pattern = self._pattern(x, forces.pairs, base)
        values = pattern.widen(data) if isinstance(pattern, Coupled) else data
        return pattern, self.added(forces.stiff, pattern, values)

    def added(self, parts: Iterable[Blocks], pattern: Sparsity, data: Floats) -> Floats:
        """Return the values of a tangent to which blocks between points are added."""
        out, s = data.copy(), self.surface
        for groups, blocks in parts:
            add_blocks(groups, blocks, s.nodes, s.weights, pattern.indptr, pattern.indices, out)
        return out

    def apply_slides(self, forces: ContactForces, free: Bools, vector: Floats, out: Floats) -> None:
        """Add the product of the unsymmetric part of the tangent (`Grip.own`) with a vector, at free unknowns only."""
        size = len(free)
        move = self.surface.points(np.where(free, vector[:size], 0.0).reshape(-1, 3))
        push = np.zeros_like(move)
        for ids, blocks in forces.slides:
            push[ids[:, 0]] += np.einsum("kij,kj->ki", blocks[:, 0, 0], move[ids[:, 0]])
        out[:size] += np.where(free, self.surface.to_nodes(push, self.nodes).ravel(), 0.0)

    def _obstacle(self, o: int, points: Floats, grip: Grip) -> tuple[Floats, Ints, Floats, float, PointForces]:
        """Distances of all points to obstacle o; the points in contact, their normals, their energy, their forces."""
        obstacle, pose = self.environment.obstacles[o], grip.poses[o]
        distance, normal = self._distances(obstacle, pose, points)
        rough = obstacle.friction > 0
        ids = np.flatnonzero(((distance < self.delta[o]) | (rough and grip.pressure[o] > 0)) & self.feels)
        k, d, normal = len(ids), distance[ids], np.ascontiguousarray(normal[ids])
        out = PointForces(
            np.zeros((k, 3)), np.zeros(k), np.zeros((k, 3)), *(np.zeros((k, 3, 3)) for _ in ("block", "bend", "slide"))
        )
        if k == 0:
            return distance, ids, normal, 0.0, out
        bend = curvatures(obstacle.solid, self.metres(points[ids]), pose) * self.length
        area = self.surface.facing(points, ids, -normal)
        thick = self.thickness[ids]
        law = PointLaw(self.delta[o, ids], thick, area, self.kappa[ids], float(obstacle.friction), SLIP * thick)
        hold = PointHold(points[ids], np.zeros(k), np.ones(k), np.zeros(k), np.zeros((k, 3)), grip.own)
        if rough:
            hold = PointHold(
                np.ascontiguousarray(self._anchors(grip, o, ids)),
                grip.before[o, ids],
                grip.share[o, ids],
                grip.pressure[o, ids],
                grip.normal[o, ids],
                grip.own,
            )
        energy = obstacle_points(d, normal, np.ascontiguousarray(bend), points[ids], law, hold, out)
        return distance, ids, normal, energy, out

    def _pairs(self, points: Floats, residual: Floats, matrix: bool) -> tuple[Ints, Floats, float, Floats, Floats]:
        """Add the residual of near pairs; return them, their pressures, energy, and second derivatives in two parts."""
        around = self.neighbourhood
        if around is None:
            return np.zeros((0, 4), dtype=np.int64), np.zeros(0), 0.0, *np.zeros((2, 0, 4, 4, 3, 3))
        near = around.near(points)
        ids, k = near.points, len(near.points)
        gradients, pressure = np.zeros((k, 4, 3)), np.zeros(k)
        hessians, bends = np.zeros((2, k if matrix else 0, 4, 4, 3, 3))
        energy = pair_blocks(
            points,
            around.rest,
            self.surface.around,
            ids,
            near.edges,
            near.reach,
            self.pair_areas(ids, near.edges),
            self.pair_stiffness(ids),
            gradients,
            hessians,
            bends,
            pressure,
            matrix,
        )
        np.add.at(residual, ids.ravel(), gradients.reshape(-1, 3))
        return ids, pressure, energy, hessians, bends

    def pair_areas(self, ids: Ints, edges: Bools) -> Floats:
        """Area that every pair (k, 4) stands for, (k,)."""
        areas = self.surface.areas
        return np.where(edges, 0.125 * areas[ids].sum(axis=1), 0.5 * areas[ids[:, 0]])

    def pair_stiffness(self, ids: Ints) -> Floats:
        """Stiffness kappa of every pair (k, 4), (k,)."""
        return np.asarray(BETWEEN / STIFFNESS * self.kappa[ids].max(axis=1))

    def _pattern(self, x: Floats, pairs: Ints, base: Sparsity) -> Sparsity:
        """Return the pattern for the touching pairs: the last one if it holds them all, else a new one."""
        pattern, nodes = self.couplings.pattern or base, self.surface.nodes
        if self.neighbourhood is not None and missing_blocks(pairs, nodes, pattern.indptr, pattern.indices).any():
            ahead = self.neighbourhood.near(self.surface.points(x), AHEAD).points
            pattern = couple(base, np.vstack([ahead, pairs]), nodes)
        self.couplings.pattern = pattern
        return pattern

    # ---- steps that do not tunnel

    def safe_share(self, x: Floats, step: Floats, grip: Grip, apart: float | None = None) -> float:
        """Return the largest share of a step of the nodes in which no surface can have passed through another.

        `apart` is `share_apart` of the step, where that is known.
        """
        points, move = self.surface.points(x), self.surface.points(step)
        shares = [self._share_to(o, pose, points, move) for o, pose in zip(self.environment.obstacles, grip.poses)]
        return min([*shares, self.share_apart(x, step) if apart is None else apart])

    def share_apart(self, x: Floats, step: Floats) -> float:
        """Return the largest share of a step of the nodes in which no part of the robot meets another."""
        if self.neighbourhood is None:
            return 1.0
        return self.neighbourhood.safe_share(self.surface.points(x), self.surface.points(step))

    def _share_to(self, obstacle: Obstacle, pose: Floats, points: Floats, move: Floats) -> float:
        """Share of a step in which no point goes through an obstacle, nor much deeper than it is."""
        reach, depth = self._reach(obstacle) / self.length, obstacle.thickness / self.length
        start = np.minimum(self._distances(obstacle, pose, points)[0], reach)
        travel = np.maximum(np.linalg.norm(move, axis=1), 1e-300)
        allowed = np.maximum(start + depth, STUCK * depth) / travel
        share = float(np.min(allowed, initial=1.0, where=self.feels))
        bound = np.minimum(start, 0.0) - DEEPER * self.thickness
        for _ in range(CUTS):
            end = np.minimum(self._distances(obstacle, pose, points + share * move)[0], reach)
            deep = (end < bound) & self.feels
            if not deep.any():
                break
            share *= float(np.min((start[deep] - bound[deep]) / (start[deep] - end[deep])))
        return share

    def penetration(self, distance: Floats) -> float:
        """Deepest overlap [m] with obstacles of points that did not overlap at rest."""
        depth = np.minimum(0.0, self.rest_distance) - distance
        return float(np.max(np.where(self.feels[None], depth, 0.0), initial=0.0)) * self.length
