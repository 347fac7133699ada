"""Contact potential of a robot with obstacles and with itself: energy, forces and stiffness at the nodes.

    contact energy = sum_q A_q phi(d_q) + sum over near pairs A phi(d)        laws: see `laws`

The points q of the finely split skin feel the signed distance of every obstacle, and its small triangles that of what comes
nearer between the points (`faces`); vertex-face and edge-edge pairs of the same split surfaces feel each other.
Contact is a thickness of the surfaces, a twentieth of the skin's local edge length unless the solver says otherwise.
Numbered departures from [Fang2022], II-B and II-C:

[D1] A smooth potential replaces the springs to projected points: contact has a pressure, and its force is the
     gradient of an energy whose second derivative is exact.
[D2] Every pair has its own activation distance, at most a quarter of its distance at rest (thickness for obstacles: the
     distance at rest), so nothing touches at rest and no list of geodesic neighbours is needed.
[D3] Friction is Coulomb's law at the end of an increment, at every point by all that presses on it. Newton is repeated with
     the forces and normals of the solve before (`ContactState.lagged`), whose tangent is symmetric; near the end it goes
     by those of
     the configuration itself (`ContactState.own`), with what is unsymmetric in the products of the Krylov method only. Anchors
     follow what slips.
[D4] The tangent of contact is never negative until the end is near: where all presses far too hard, the turning of the
     normals makes it indefinite, and Newton wanders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints, frozen
from geosim.collision.proximity import NO_PAIRS, ContactNeighbourhood, NearPairs, closest
from geosim.collision.shapes import ObstacleSet, curvatures, signed_distances
from geosim.linear.patterns import Carriers, Coupled, Sparsity, add_blocks, couple, couples
from geosim.model.environment import Environment
from geosim.shape.energy.contact.contact_state import Blocks, ContactForces, ContactState, no_contact
from geosim.shape.energy.contact.faces import FACE_STIFFNESS_RATIO, ContactFaces, contact_faces
from geosim.shape.energy.contact.laws import PointForces, PointLaw, PointStickSlip, obstacle_points, pair_blocks
from geosim.shape.energy.contact.self_friction import PairStickSlip, TouchingPairs, add_pair_friction
from geosim.shape.energy.contact.surface import ContactSurface, RestSurface

# kappa over the shear modulus, against obstacles and between parts of the robot. A flat face under a pressure of one shear
# modulus comes closer by a sixth of the thickness; between parts the pole of the law holds, and Newton finds a soft one sooner.
OBSTACLE_STIFFNESS_RATIO, SELF_CONTACT_STIFFNESS_RATIO = 10.0, 0.3
# Elastic slip before a point slides, over the thickness: small beside what is seen, and not so steep that Newton jumps.
ELASTIC_SLIP_THICKNESSES = 0.1


# Points (k, 4), pressures (k,), energy, second derivatives in two parts (k, 4, 4, 3, 3), and what friction goes by.
Pairs = tuple[Ints, Floats, float, Floats, Floats, TouchingPairs | None]


@dataclass
class CouplingPattern:
    """Memory of the pattern that contact needed last: it is kept as long as it couples all that touches.

    Parameters
    ----------
    pattern
        That pattern.
    known, of
        Ascending pairs of carriers that a pattern is known to couple (`Carriers.keys`), and that pattern.
    """

    pattern: Sparsity | None = None
    known: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    of: Sparsity | None = None

    def hold(self, pattern: Sparsity, keys: Ints, carry: Carriers) -> bool:
        """Whether a pattern couples pairs of carriers; what it does is noted."""
        known = self.known if pattern is self.of else self.known[:0]
        place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        new = keys[known[place] != keys] if len(known) else keys
        if len(new) and not couples(pattern, new, carry):
            return False
        if len(new):
            self.known, self.of = np.sort(np.concatenate([known, new])), pattern
        return True


@dataclass(frozen=True)
class ContactPotential:
    """Contact of one robot in one environment; arrays are scaled, obstacles in metres.

    Parameters
    ----------
    environment, at_rest, neighbourhood
        Obstacles; the surface of the robot; which parts of it are near each other, None where self-contact is off.
    obstacles
        The obstacles, their edges rounded: at a sharp one the direction of contact would jump.
    moduli
        Scaled shear modulus at every node, (nodes,).
    delta, face_delta
        Distance at which contact of points (o, p) and triangles (o, t) with every obstacle begins; -inf: never.
    couplings
        A cache, the only part that changes: the pattern in use. In another one that holds what touches the same tangent has
        more or fewer zeros.
    """

    environment: Environment
    at_rest: RestSurface
    neighbourhood: ContactNeighbourhood | None
    moduli: Floats
    delta: Floats
    face_delta: Floats
    obstacles: ObstacleSet
    couplings: CouplingPattern = field(default_factory=CouplingPattern, repr=False)

    @property
    def surface(self) -> ContactSurface:
        """Points and triangles of the robot."""
        return self.at_rest.surface

    @property
    def thickness(self) -> Floats:
        """Thickness of contact at every point, (p,)."""
        return self.at_rest.thickness

    @property
    def feels(self) -> Bools:
        """Which points feel obstacles, bool (p,)."""
        return self.at_rest.feels

    @property
    def length(self) -> float:
        """Unit [m] of scaled positions."""
        return self.at_rest.body.length

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.moduli)

    @cached_property
    def kappa(self) -> Floats:
        """Stiffness of contact at every point, from the largest shear modulus around every node, (p,)."""
        return frozen(OBSTACLE_STIFFNESS_RATIO * self.moduli[self.surface.nodes].max(axis=1))

    @cached_property
    def faces(self) -> ContactFaces:
        """The small triangles, as obstacles feel them."""
        return contact_faces(self.at_rest, FACE_STIFFNESS_RATIO * self.kappa)

    @property
    def friction(self) -> bool:
        """Whether anything is rough."""
        return self.rough or self.rubs

    @property
    def rough(self) -> bool:
        """Whether any obstacle is rough."""
        return bool((self.obstacles.friction > 0).any())

    @property
    def rubs(self) -> bool:
        """Whether parts of the robot rub against each other."""
        return self.environment.self_friction > 0 and self.neighbourhood is not None

    def metres(self, points: Floats) -> Floats:
        """Positions [m] of scaled positions."""
        return self.at_rest.body.to_metres(points)

    def distances(self, o: int, pose: Floats, points: Floats) -> tuple[Floats, Floats]:
        """Scaled distances (p,) to obstacle o, exact up to its `reach`, and normals (p, 3)."""
        place, reach = self.metres(points), self.reach(o)
        distance, _, normal = signed_distances(self.obstacles.solid(o), place, pose, reach)
        return distance / self.length, normal

    def reach(self, o: int) -> float:
        """Distance [m] up to which the distance to obstacle o is asked for: beyond, an edge has no share in contact."""
        # Thicknesses of contact up to which distances are asked for: beyond, no law and no cut of a step reads them.
        max_distance_thicknesses = 5.0
        near = max_distance_thicknesses * float(self.thickness.max()) + float(self.surface.edges.max())
        return near * self.length + min(float(self.obstacles.thickness[o]), self.length)

    # ---- what the robot holds on to

    def start(self, x: Floats, index: int = -1) -> ContactState:
        """Return the grip of a robot that starts at x: it holds on to nothing yet."""
        poses, points = self.environment.poses(index), self.surface.points(x) if self.friction else np.zeros((0, 3))
        shape = (len(poses), len(points) if self.rough else 0)
        anchors, still, vectors = np.zeros((*shape, 3)), np.zeros(shape), np.zeros((*shape, 3))
        for o, pose in enumerate(poses if self.rough else ()):
            anchors[o] = (self.metres(points) - pose[:3, 3]) @ pose[:3, :3]
        contact_state = ContactState(poses, frozen(anchors), still, still, vectors, np.ones(shape), still)
        if self.rough:
            contact_state = replace(contact_state, before=self.evaluate(x, contact_state, matrix=False).gap)
        return (
            replace(contact_state, parts=PairStickSlip(points, np.zeros_like(points))) if self.rubs else contact_state
        )

    def renew(self, x: Floats, contact_state: ContactState, forces: ContactForces) -> ContactState:
        """Return the grip after an equilibrium: points in contact keep what friction holds, others start afresh."""
        if contact_state.parts is not None:
            contact_state = replace(contact_state, parts=contact_state.parts.renewed(self.surface.points(x)))
        if not self.rough:
            return contact_state
        points, most, anchors = (
            self.surface.points(x),
            ELASTIC_SLIP_THICKNESSES * self.thickness,
            np.empty_like(contact_state.anchors),
        )
        touches = forces.push > 0
        for o, pose in enumerate(contact_state.poses):
            way = self._way(points, contact_state, o)
            size = np.linalg.norm(way, axis=1)
            way *= np.where(touches[o], most / np.maximum(size, most), 0.0)[:, None]
            anchors[o] = (self.metres(points - way) - pose[:3, 3]) @ pose[:3, :3]
        before = np.where(touches, -np.inf, forces.gap)
        return replace(
            contact_state, anchors=frozen(anchors), before=frozen(before), share=np.ones_like(contact_state.share)
        )

    def friction_work(
        self, before: Floats, x: Floats, old: ContactState, contact_state: ContactState, forces: ContactForces
    ) -> float:
        """Work against the friction of obstacles from one equilibrium to another: all that moved points along them.

        Coulomb's force by the mean of what presses at both ends, over what slid and the change of what sticks (a spring).
        """
        was, here, most = self.surface.points(before), self.surface.points(x), ELASTIC_SLIP_THICKNESSES * self.thickness
        total = 0.0
        for o, friction in enumerate(self.obstacles.friction if self.rough else ()):
            held, way = (np.linalg.norm(self._way(p, g, o), axis=1) for p, g in ((was, old), (here, contact_state)))
            spring = (np.minimum(way, most) ** 2 - held**2) / (2.0 * most)
            push = 0.5 * (old.push[o] + forces.push[o])
            push[forces.push[o] == 0.0] *= 0.5  # what has left did so about half-way
            total += friction * float(push @ (np.maximum(way - most, 0.0) + spring))
        return total

    def self_friction_work(self, x: Floats, way: Floats, contact_state: ContactState) -> float:
        """Work against the friction between parts, with its forces at x, over a way of the nodes."""
        if contact_state.parts is None or contact_state.parts.held is None:
            return 0.0
        points = self.surface.points(x)
        drag = np.zeros_like(points)
        add_pair_friction(contact_state.parts, points, self.environment.self_friction, drag, own=contact_state.own)
        return float(np.sum(drag * (self.surface.points(x + way) - points)))

    def slide(
        self, before: Floats, x: Floats, old: ContactState, contact_state: ContactState, forces: ContactForces
    ) -> float:
        """How far what touches a rough obstacle slid along it from one equilibrium to another, over the local edge.

        Of a point that came into contact on the way, the part of its way that it made in contact counts.
        """
        was, here = (self.metres(self.surface.points(at)) for at in (before, x))
        largest = 0.0
        if contact_state.parts is not None and contact_state.parts.held is not None:
            held, points = contact_state.parts.held, self.surface.points(x)
            way = (
                held.flat(held.between(points - contact_state.parts.start))
                * contact_state.parts.slips(points)[1][:, None]
            )
            edges = self.surface.edges[held.pairs].max(axis=1)
            largest = float(np.max(np.linalg.norm(way, axis=1) / edges, initial=0.0))
        for o, friction in enumerate(self.obstacles.friction if self.rough else ()):
            ids = np.flatnonzero((forces.push[o] > 0.0) & (friction > 0.0))
            start, end = (
                (p[ids] - pose[:3, 3]) @ pose[:3, :3]
                for p, pose in ((was, old.poses[o]), (here, contact_state.poses[o]))
            )
            move, normal = (end - start) @ contact_state.poses[o][:3, :3].T / self.length, forces.normal[o, ids]
            along = move - np.einsum("pi,pi->p", move, normal)[:, None] * normal
            way = np.linalg.norm(along, axis=1) * (contact_state.share[o, ids] / self.surface.edges[ids])
            largest = max(largest, float(np.max(way, initial=0.0)))
        return largest

    def _way(self, points: Floats, contact_state: ContactState, o: int) -> Floats:
        """How far points (p, 3) are from their anchors along obstacle o, where they were in contact, (p, 3)."""
        way = points - self.anchors(contact_state, o, slice(None))
        way -= np.einsum("pi,pi->p", way, contact_state.normal[o])[:, None] * contact_state.normal[o]
        return np.asarray(way * contact_state.share[o][:, None])

    def anchors(self, contact_state: ContactState, o: int, ids: Ints | slice) -> Floats:
        """Scaled anchors of some points on obstacle o, where it is now."""
        pose = contact_state.poses[o]
        return np.asarray(
            (contact_state.anchors[o, ids] @ pose[:3, :3].T + pose[:3, 3] - self.at_rest.body.center) / self.length
        )

    def settled(self, x: Floats, contact_state: ContactState) -> ContactState:
        """Return the grip by which friction goes by the forces of the configuration itself, those of faces included.

        Newton holds what faces press (`ContactState.by_faces`) and repeats; since what presses does not depend on friction, one
        evaluation tells where that ends.
        """
        if not (self.rough and contact_state.own):
            return contact_state
        forces = self.evaluate(x, contact_state, matrix=False)
        if not (forces.by_faces.any() or contact_state.by_faces.any()):
            return contact_state
        return replace(contact_state.lagged(forces), own=True, parts=contact_state.parts)

    # ---- forces and stiffness

    def evaluate(
        self, x: Floats, contact_state: ContactState, *, matrix: bool, at: Floats | None = None
    ) -> ContactForces:
        """Return the forces of contact, and with `matrix` what it adds to the tangent.

        With `at` the laws of points and faces are linearised at other penetrations (o, p + t), nan where they are not
        (see `laws.linearised_at`).
        """
        # push, in mu L^2, that counts: rounding of places, 1e-16 L, gives its square in the contact law
        min_push = 1e-20
        near = NO_PAIRS if self.neighbourhood is None else self.neighbourhood.near(x)
        if not (len(self.obstacles.friction) or self.rubs or len(near.points)):
            return no_contact(self.nodes)
        points = self.surface.points(x)
        shape = (len(self.obstacles.friction), len(points))
        pressure, push, gap = np.zeros((3, *shape))
        force, drag, normal = np.zeros((3, *shape, 3))
        by_faces, energy = np.zeros(shape), 0.0
        depth = np.zeros((shape[0], shape[1] + len(self.surface.triangles)))
        at = np.full(depth.shape, np.nan) if at is None else at
        stiff: list[Blocks] = []
        bends, slides, stiff_faces, bend_faces = (stiff.copy() for _ in range(4))
        for o in range(len(force)):
            distance, ids, directions, work, found = self._obstacle(o, points, contact_state, at[o], depth[o])
            energy += work
            force[o, ids], pressure[o, ids], drag[o, ids] = found.force, found.pressure, found.drag
            push[o, ids] = np.linalg.norm(found.force - found.drag, axis=1)
            normal[o, ids], gap[o] = directions, distance - self.delta[o]
            for parts, blocks in ((stiff, found.block), (bends, found.bend), (slides, found.slide)):
                parts.append((ids[:, None], blocks[:, None, None]))
            felt = force[o], by_faces[o], gap[o], depth[o, shape[1] :]
            work, on_faces, turning_faces = self._faces(
                o, points, distance, contact_state, *felt, at[o, shape[1] :], matrix
            )
            energy += work
            stiff_faces.append(on_faces)
            bend_faces.append(turning_faces)
            mine = by_faces[o] > 0.0
            pressed = drag[o, mine] - force[o, mine]
            push[o, mine] = np.linalg.norm(pressed, axis=1)
            normal[o, mine] = pressed / np.maximum(push[o, mine], MIN_DIVISOR)[:, None]
        residual = force.sum(axis=0)
        pairs, pair_pressure, work, stiffness, turning, touching = self._pairs(points, near, residual, matrix)
        stiff += [*stiff_faces, (pairs, stiffness)]
        bends += [*bend_faces, (pairs, turning)]
        if contact_state.parts is not None and contact_state.parts.held is not None:
            held, sticks = (
                contact_state.parts.held,
                add_pair_friction(
                    contact_state.parts, points, self.environment.self_friction, residual, own=contact_state.own
                ),
            )
            stiff.append((held.pairs, sticks[0]))
            slides.append((held.pairs, sticks[1]))
        tangent = tuple(stiff), tuple(bends), tuple(slides if self.friction else ())
        return ContactForces(
            self.surface.to_nodes(residual, self.nodes),
            -force,
            pressure,
            push,
            normal,
            drag,
            gap,
            by_faces,
            depth,
            int((push > min_push).sum() + (pair_pressure > 0).sum()),
            energy + work,
            pairs,
            pair_pressure,
            *(tangent if matrix else ((), (), ())),
            touching,
        )

    def _faces(
        self,
        o: int,
        points: Floats,
        distance: Floats,
        contact_state: ContactState,
        force: Floats,
        by_faces: Floats,
        gap: Floats,
        depth: Floats,
        at: Floats,
        matrix: bool,
    ) -> tuple[float, Blocks, Blocks]:
        """Add what the triangles feel of obstacle o to what is known of the points; return energy and stiffness."""
        faces, solid, pose = self.faces, self.obstacles.solid(o), contact_state.poses[o]
        places, delta = self.metres(points), self.face_delta[o]
        ids = faces.within(self.obstacles.thickness[o], places, distance, delta, self.length)
        near = faces.lowest(ids, solid, places[faces.triangles[ids]], self.length, pose)
        np.minimum.at(gap, faces.triangles[near.ids], (near.distance - delta[near.ids])[:, None])
        touch, deep, pressed, energy, stiffness, turning = faces.press(
            near, delta, solid, pose, places, self.length, at, matrix
        )
        depth[touch.ids] = deep
        corners, by_point = faces.triangles[touch.ids], pressed[:, None] * touch.weights
        np.add.at(force, corners, -by_point[:, :, None] * touch.normal[:, None])
        np.add.at(by_faces, corners, by_point)
        return energy, (corners, stiffness), (corners, turning)

    def stiffened(self, x: Floats, forces: ContactForces, base: Sparsity, data: Floats) -> tuple[Sparsity, Floats]:
        """Return the tangent with contact from that of the body."""
        pairs = np.vstack([forces.pairs, *(groups for groups, _ in forces.stiff if groups.shape[1] == 4)])
        pattern = self._pattern(x, pairs, base)
        values = pattern.widen(data) if isinstance(pattern, Coupled) else data
        return pattern, self.added(forces.stiff, pattern, values)

    def added(self, parts: Iterable[Blocks], pattern: Sparsity, data: Floats) -> Floats:
        """Return the values of a tangent to which blocks between points are added: the given ones where there are none."""
        some = [(groups, blocks) for groups, blocks in parts if len(groups)]
        out = data.copy() if some else data
        for groups, blocks in some:
            s = self.surface
            add_blocks(groups, blocks, s.nodes, s.weights, pattern.indptr, pattern.indices, out)
        return out

    @staticmethod
    def negative_parts(forces: ContactForces) -> list[Blocks]:
        """Return the negative part of the exact tangent of every pair that presses, turned positive.

        Nothing resists a translation of all four points: the eigenvalues are those between three contrasts of the points.
        """
        contrasts = 0.5 * np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
        out, on, shape = [], forces.pair_pressure > 0.0, forces.pairs.shape
        pairs = [[blocks for groups, blocks in part if groups.shape == shape] for part in (forces.stiff, forces.bends)]
        for block, bend in zip(*pairs):
            full = np.tensordot(contrasts, block[on] + bend[on], (0, 1))  # contrast, pair, point, component, component
            full = np.tensordot(contrasts, full, (0, 2)).transpose(2, 1, 3, 0, 4).reshape(-1, 9, 9)
            w, v = np.linalg.eigh(0.5 * (full + full.transpose(0, 2, 1)))
            some = np.flatnonzero(w[:, 0] < 0.0)
            w, v = w[some], v[some]
            negative = np.matmul(v * np.maximum(-w, 0.0)[:, None, :], v.transpose(0, 2, 1)).reshape(-1, 3, 3, 3, 3)
            negative = np.tensordot(contrasts, negative, (1, 1))  # point, pair, component, contrast, component
            negative = np.tensordot(contrasts, negative, (1, 3)).transpose(2, 1, 0, 3, 4)
            out.append((forces.pairs[on][some], np.ascontiguousarray(negative)))
        return out

    def apply_slides(self, forces: ContactForces, free: Bools, vector: Floats, out: Floats) -> None:
        """Add the product of the unsymmetric part of the tangent (`ContactState.own`) with a vector, at free unknowns only."""
        size = len(free)
        move = self.surface.points(np.where(free, vector[:size], 0.0).reshape(-1, 3))
        push = np.zeros_like(move)
        for ids, blocks in forces.slides:
            np.add.at(push, ids, np.einsum("kabij,kbj->kai", blocks, move[ids]))
        out[:size] += np.where(free, self.surface.to_nodes(push, self.nodes).ravel(), 0.0)

    def _obstacle(
        self, o: int, points: Floats, contact_state: ContactState, at: Floats, depth: Floats
    ) -> tuple[Floats, Ints, Floats, float, PointForces]:
        """Distances of all points to obstacle o; the points in contact, their normals, their energy, their forces.

        Their penetrations are written to `depth` (p,).
        """
        friction, pose = float(self.obstacles.friction[o]), contact_state.poses[o]
        distance, normal = self.distances(o, pose, points)
        rough = friction > 0
        ids = np.flatnonzero((distance < self.delta[o]) | (rough & (contact_state.push[o] > 0) if rough else False))
        k, d, normal = len(ids), distance[ids], np.ascontiguousarray(normal[ids])
        out = PointForces(
            np.zeros((k, 3)), np.zeros(k), np.zeros((k, 3)), *(np.zeros((k, 3, 3)) for _ in ("block", "bend", "slide"))
        )
        if k == 0:
            return distance, ids, normal, 0.0, out
        bend = curvatures(self.obstacles.solid(o), self.metres(points[ids]), pose) * self.length
        area = self.surface.facing(points, ids, -normal)
        thick = self.thickness[ids]
        depth[ids] = np.maximum((self.delta[o, ids] - d) / thick, 0.0)
        law = PointLaw(
            self.delta[o, ids], thick, area, self.kappa[ids], at[ids], friction, ELASTIC_SLIP_THICKNESSES * thick
        )
        hold = PointStickSlip(
            points[ids],
            np.zeros(k),
            np.ones(k),
            np.zeros(k),
            np.zeros((k, 3)),
            np.full(k, contact_state.own, dtype=bool),
        )
        if rough:
            hold = PointStickSlip(
                np.ascontiguousarray(self.anchors(contact_state, o, ids)),
                contact_state.before[o, ids],
                contact_state.share[o, ids],
                contact_state.push[o, ids],
                contact_state.normal[o, ids],
                contact_state.own & (contact_state.by_faces[o, ids] == 0.0),
            )
        energy = obstacle_points(d, normal, np.ascontiguousarray(bend), points[ids], law, hold, out)
        return distance, ids, normal, energy, out

    def _pairs(self, points: Floats, near: NearPairs, residual: Floats, matrix: bool) -> Pairs:
        """Add the residual of near pairs; return them, pressures, energy, second derivatives in two parts, `TouchingPairs`."""
        ids, k = near.points, len(near.points)
        if self.neighbourhood is None or (k == 0 and not self.rubs):  # the kernel is not compiled before some are near
            return ids, np.zeros(0), 0.0, *np.zeros((2, 0, 4, 4, 3, 3)), None
        gradients, pressure = np.zeros((k, 4, 3)), np.zeros(k)
        # what every pair stands for: of edges a part of the areas around all four points, of a vertex half of its own
        areas = np.where(near.edges, 0.125 * self.surface.areas[ids].sum(axis=1), 0.5 * self.surface.areas[ids[:, 0]])
        hessians, bends = np.zeros((2, k if matrix else 0, 4, 4, 3, 3))
        energy = pair_blocks(
            points,
            self.neighbourhood.features.rest,
            self.surface.around,
            ids,
            near.edges,
            near.reach,
            areas,
            self.pair_stiffness(ids),
            gradients,
            hessians,
            bends,
            pressure,
            matrix,
        )
        np.add.at(residual, ids.ravel(), gradients.reshape(-1, 3))
        touching = self._touching(points, near, gradients) if self.rubs else None
        return ids, pressure, energy, hessians, bends, touching

    def _touching(self, points: Floats, near: NearPairs, gradients: Floats) -> TouchingPairs:
        """What friction goes by where the energy of pairs has gradients (k, 4, 3)."""
        weights, apart, distance = closest(points[near.points], near.edges)
        pressed = np.zeros_like(points)
        np.add.at(pressed, near.points, -gradients)
        normal = np.einsum("ki,kia->ka", weights, pressed[near.points])
        normal /= np.maximum(np.linalg.norm(normal, axis=1), MIN_DIVISOR)[:, None]
        first = gradients[:, 0] + np.where(near.edges[:, None], gradients[:, 1], 0.0)
        push = -np.einsum("ka,ka->k", first, normal)
        on = push != 0.0
        scale = ELASTIC_SLIP_THICKNESSES * self.thickness[near.points].min(axis=1)
        columns = (near.points, weights, normal, apart / distance[:, None], distance, near.reach, push, scale)
        return TouchingPairs(points, *(column[on] for column in columns))

    def pair_stiffness(self, ids: Ints) -> Floats:
        """Stiffness kappa of every pair (k, 4), (k,)."""
        return np.asarray(SELF_CONTACT_STIFFNESS_RATIO / OBSTACLE_STIFFNESS_RATIO * self.kappa[ids].max(axis=1))

    def _pattern(self, x: Floats, pairs: Ints, base: Sparsity) -> Sparsity:
        """Return the pattern for the touching pairs: the last one if it holds them all, else a new one."""
        # Pairs within so many reaches get their couplings when the pattern grows, so that it lasts for many iterations.
        coupling_reaches = 2.5
        pattern = self.couplings.pattern or base
        if self.neighbourhood is not None and len(pairs):
            carry = self.surface.carriers
            if not self.couplings.hold(pattern, carry.keys(pairs), carry):
                ahead = self.neighbourhood.near(x, coupling_reaches).points
                pattern = couple(base, carry.keys(np.vstack([ahead, pairs])), carry)
        self.couplings.pattern = pattern
        return pattern
