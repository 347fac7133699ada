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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.proximity import Neighbourhood, make_neighbourhood
from geosim.collision.shapes import curvatures, signed_distances
from geosim.environment import Environment, Obstacle
from geosim.errors import InputError
from geosim.linear.patterns import Coupled, Sparsity, add_blocks, couple, missing_blocks
from geosim.robot import VolumetricRobot
from geosim.select import selected_ids
from geosim.shape.energy.contact_kernels import obstacle_points, pair_blocks
from geosim.shape.energy.contact_surface import ContactSurface, contact_surface

__all__ = ["Contact", "ContactForces", "Grip", "make_contact"]

STIFFNESS, BETWEEN = 10.0, 0.3  # kappa over the shear modulus: against obstacles, and between parts of the robot
SLIP = 0.1  # elastic slip before a point slides, over the thickness
THICKNESS = 0.05  # over the local edge length
DEEPER = 0.6  # thicknesses by which a Newton step may push a point deeper into an obstacle
AHEAD = 2.5  # pairs within so many reaches get their couplings when the pattern grows


@dataclass(frozen=True)
class Grip:
    """Where the obstacles stand, and what the robot's points hold on to.

    Parameters
    ----------
    poses
        (o, 4, 4), metres.
    anchors
        Where every point sticks on every obstacle, in the obstacle's own frame [m], (o, p, 3).
    before
        Scaled distance of the points at their anchors, (o, p); -inf where they touched already.
    pressure, normal, share
        What friction goes by: pressures (o, p), normals (o, p, 3), and the share of the way from the anchor that was
        made in contact (o, p).
    own
        Whether friction goes by the pressures and normals of every configuration itself instead.
    """

    poses: Floats
    anchors: Floats
    before: Floats
    pressure: Floats
    normal: Floats
    share: Floats
    own: bool = False

    def at(self, poses: Floats) -> Grip:
        """Return the same anchors with the obstacles elsewhere."""
        return replace(self, poses=poses)

    def lagged(self, forces: ContactForces, delta: Floats) -> Grip:
        """Return the grip with the pressures and normals of a configuration."""
        if self.anchors.shape[1] == 0:
            return self
        gone = np.where(np.isfinite(self.before), self.before - forces.distance, 1.0)
        share = np.where(self.before > delta, (delta - forces.distance) / np.where(gone > 0, gone, 1.0), 1.0)
        return replace(self, pressure=forces.pressure, normal=forces.normal, share=np.clip(share, 0.0, 1.0), own=False)


@dataclass(frozen=True)
class ContactForces:
    """Forces of contact at one configuration, scaled.

    Parameters
    ----------
    force
        Residual on the nodes (the gradient of the energy, with friction), (nodes, 3).
    on_points
        Force on every point from obstacles, (o, p, 3), with their pressures (o, p), tractions and normals (o, p, 3).
    distance
        Distance of every point to every obstacle, (o, p).
    count
        Points and pairs in contact.
    energy
        Inf where two surfaces meet.
    pairs
        Points of the touching pairs (k, 4), their pressures and distances over their reach (k,).
    pattern, data
        Sparsity and values of the tangent with contact, or None: symmetric, and with friction an upper bound.
    bends
        What the turning of the normals adds to the tangent: groups of points (k, g) and blocks (k, g, g, 3, 3) of every
        obstacle and of the pairs; `Contact.sharpen` adds it.
    slides
        What makes it exact, unsymmetric if `Grip.own`: points (k,) and blocks (k, 3, 3) of every obstacle.
    """

    force: Floats
    on_points: Floats
    pressure: Floats
    traction: Floats
    normal: Floats
    distance: Floats
    count: int
    energy: float
    pairs: Ints
    pair_pressure: Floats
    pair_gap: Floats
    pattern: Sparsity | None = None
    data: Floats | None = None
    bends: tuple[tuple[Ints, Floats], ...] = ()
    slides: tuple[tuple[Ints, Floats], ...] = ()


@dataclass
class Contact:
    """Contact of one robot in one environment; arrays are scaled, obstacles in metres.

    `pattern` is a workspace: the couplings that contact needed last.
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
    pattern: Sparsity | None = field(default=None, repr=False)

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

    def start(self, x: Floats, index: int = -1) -> Grip:
        """Return the grip of a robot that starts at x: it holds on to nothing yet."""
        poses, points = self.poses(index), self.metres(self.surface.points(x))
        if not self.friction:
            empty, vectors = np.zeros((len(poses), 0)), np.zeros((len(poses), 0, 3))
            return Grip(poses, vectors, empty, empty, vectors, empty)
        anchors = [(points - pose[:3, 3]) @ pose[:3, :3] for pose in poses]
        distances = [
            signed_distances(obstacle.solid, points, pose, self._reach(obstacle))[0] / self.length
            for obstacle, pose in zip(self.environment.obstacles, poses)
        ]
        anchors_, distances_ = frozen(np.array(anchors)), frozen(np.array(distances))
        return Grip(
            poses, anchors_, distances_, np.zeros_like(distances_), np.zeros_like(anchors_), np.ones_like(distances_)
        )

    def renew(self, x: Floats, grip: Grip, forces: ContactForces) -> Grip:
        """Return the grip after an equilibrium: points in contact keep what friction holds, others start afresh."""
        if not self.friction:
            return grip
        points = self.surface.points(x)
        anchors, before = [], []
        for o, pose in enumerate(grip.poses):
            touches = forces.pressure[o] > 0
            anchor = (grip.anchors[o] @ pose[:3, :3].T + pose[:3, 3] - self.center) / self.length
            way = points - anchor
            way -= np.einsum("pi,pi->p", way, grip.normal[o])[:, None] * grip.normal[o]
            way *= grip.share[o][:, None]
            size = np.linalg.norm(way, axis=1)
            most = SLIP * self.thickness
            way *= np.where(touches, most / np.maximum(size, most), 0.0)[:, None]
            anchors.append((self.metres(points - way) - pose[:3, 3]) @ pose[:3, :3])
            before.append(np.where(touches, -np.inf, forces.distance[o]))
        return replace(
            grip, anchors=frozen(np.array(anchors)), before=frozen(np.array(before)), share=np.ones_like(grip.share)
        )

    def _reach(self, obstacle: Obstacle) -> float:
        """Distance [m] up to which the distance to an obstacle is asked for."""
        return 5.0 * float(self.thickness.max()) * self.length + min(obstacle.thickness, self.length)

    # ---- forces and stiffness

    def evaluate(self, x: Floats, grip: Grip, base: Sparsity, data: Floats | None) -> ContactForces:
        """Return the forces of contact, and with the `data` of the body's matrix the tangent of both."""
        points = self.surface.points(x)
        count, obstacles = len(points), len(self.environment.obstacles)
        on_points, pressure = np.zeros((obstacles, count, 3)), np.zeros((obstacles, count))
        traction, distance = np.zeros((obstacles, count, 3)), np.full((obstacles, count), np.inf)
        normals = np.zeros((obstacles, count, 3))
        energy, touching = 0.0, 0
        ids, blocks, slides, bends = [], [], [], []
        for o in range(obstacles):
            d, active, out = self._obstacle(o, points, grip)
            distance[o] = d
            energy += out["energy"]
            on_points[o, active], pressure[o, active], traction[o, active] = (
                -out["force"],
                out["pressure"],
                out["traction"],
            )
            normals[o, active] = out["normal"]
            touching += int((out["pressure"] > 0).sum())
            ids.append(active)
            blocks.append(out["block"])
            slides.append(out["slide"])
            bends.append((active[:, None], out["bend"][:, None, None]))
        residual = -on_points.sum(axis=0)
        pairs, pair_pressure, gaps, pair_energy, hessians, turning = self._pairs(points, residual, data is not None)
        energy += pair_energy
        force = self.surface.to_nodes(residual, self.nodes)
        result = ContactForces(
            force,
            on_points,
            pressure,
            traction,
            normals,
            distance,
            touching + int((pair_pressure > 0).sum()),
            energy,
            pairs,
            pair_pressure,
            gaps,
        )
        if data is None:
            return result
        pattern = self._pattern(base, pairs, points)
        values = pattern.widen(data) if isinstance(pattern, Coupled) else data
        s = self.surface
        for active, block in zip(ids, blocks):
            add_blocks(
                active[:, None], block[:, None, None], s.nodes, s.weights, pattern.indptr, pattern.indices, values
            )
        if len(pairs):
            add_blocks(pairs, hessians, s.nodes, s.weights, pattern.indptr, pattern.indices, values)
            bends.append((pairs, turning))
        return replace(
            result,
            pattern=pattern,
            data=values,
            bends=tuple(bends),
            slides=tuple(zip(ids, slides)) if self.friction else (),
        )

    def sharpen(self, forces: ContactForces) -> None:
        """Add to the tangent what makes it exact without friction: from afar, where all presses too hard, it misleads."""
        self._add(forces, forces.bends)

    def soften(self, forces: ContactForces) -> None:
        """Add to the tangent what makes it exact for points that slide by lagged pressures: it stays symmetric."""
        self._add(forces, tuple((ids[:, None], blocks[:, None, None]) for ids, blocks in forces.slides))

    def _add(self, forces: ContactForces, parts: tuple[tuple[Ints, Floats], ...]) -> None:
        """Add blocks (k, g, g, 3, 3) between groups of points (k, g) to the tangent."""
        pattern, s = forces.pattern, self.surface
        assert pattern is not None
        for groups, blocks in parts:
            add_blocks(groups, blocks, s.nodes, s.weights, pattern.indptr, pattern.indices, forces.data)

    def apply_slides(self, forces: ContactForces, free: Bools, vector: Floats, out: Floats) -> None:
        """Add the product of the unsymmetric part of the tangent (`Grip.own`) with a vector, at free unknowns only."""
        size = len(free)
        move = self.surface.points(np.where(free, vector[:size], 0.0).reshape(-1, 3))
        push = np.zeros_like(move)
        for ids, blocks in forces.slides:
            push[ids] += np.einsum("kij,kj->ki", blocks, move[ids])
        out[:size] += np.where(free, self.surface.to_nodes(push, self.nodes).ravel(), 0.0)

    def _obstacle(self, o: int, points: Floats, grip: Grip) -> tuple[Floats, Ints, dict[str, Any]]:
        """Distances of all points to obstacle o; the points in contact and their forces, scaled."""
        obstacle, pose = self.environment.obstacles[o], grip.poses[o]
        place = self.metres(points)
        d, _, normal = signed_distances(obstacle.solid, place, pose, self._reach(obstacle))
        d = d / self.length
        rough = obstacle.friction > 0
        active = np.flatnonzero(((d < self.delta[o]) | (rough and grip.pressure[o] > 0)) & self.feels)
        k = len(active)
        out: dict[str, Any] = {name: np.zeros((k, 3, 3)) for name in ("block", "bend", "slide")}
        out |= {
            "force": np.zeros((k, 3)),
            "traction": np.zeros((k, 3)),
            "pressure": np.zeros(k),
            "normal": np.ascontiguousarray(normal[active]),
        }
        if k == 0:
            return d, active, {**out, "energy": 0.0}
        bend = curvatures(obstacle.solid, place[active], pose) * self.length
        anchor, before, share, lag, basis = points[active], np.zeros(k), np.ones(k), np.zeros(k), np.zeros((k, 3))
        if rough:
            anchor = (grip.anchors[o, active] @ pose[:3, :3].T + pose[:3, 3] - self.center) / self.length
            before = grip.before[o, active]
            share, lag, basis = grip.share[o, active], grip.pressure[o, active], grip.normal[o, active]
        area = self.surface.facing(points, active, -normal[active])
        energy = obstacle_points(
            d[active],
            out["normal"],
            np.ascontiguousarray(bend),
            self.delta[o, active],
            self.thickness[active],
            area,
            self.kappa[active],
            float(obstacle.friction),
            SLIP * self.thickness[active],
            points[active],
            np.ascontiguousarray(anchor),
            before,
            share,
            lag,
            basis,
            grip.own,
            out["force"],
            out["block"],
            out["bend"],
            out["slide"],
            out["pressure"],
            out["traction"],
        )
        return d, active, {**out, "energy": energy}

    def _pairs(
        self, points: Floats, residual: Floats, matrix: bool
    ) -> tuple[Ints, Floats, Floats, float, Floats, Floats]:
        """Add the residual of touching pairs; return them, their pressures and relative gaps, energy, second derivatives."""
        empty = np.zeros((0, 4, 4, 3, 3))
        none = np.zeros((0, 4), dtype=np.int64), np.zeros(0), np.zeros(0), 0.0, empty, empty
        if self.neighbourhood is None:
            return none
        near = self.neighbourhood.near(points)
        k = len(near.points)
        if k == 0:
            return none
        ids = near.points
        gradients, pressure, gaps = np.zeros((k, 4, 3)), np.zeros(k), np.zeros(k)
        hessians, bends = (np.zeros((k if matrix else 0, 4, 4, 3, 3)) for _ in range(2))
        energy = pair_blocks(
            points,
            self.neighbourhood.rest,
            ids,
            near.edges,
            near.reach,
            self.pair_areas(ids, near.edges),
            self.pair_stiffness(ids),
            gradients,
            hessians,
            bends,
            pressure,
            gaps,
            matrix,
        )
        np.add.at(residual, ids.ravel(), gradients.reshape(-1, 3))
        return ids, pressure, gaps / near.reach, energy, hessians, bends

    def pair_areas(self, ids: Ints, edges: Bools) -> Floats:
        """Area that every pair (k, 4) stands for, (k,)."""
        areas = self.surface.areas
        return np.where(edges, 0.125 * areas[ids].sum(axis=1), 0.5 * areas[ids[:, 0]])

    def pair_stiffness(self, ids: Ints) -> Floats:
        """Stiffness kappa of every pair (k, 4), (k,)."""
        return np.asarray(BETWEEN / STIFFNESS * self.kappa[ids].max(axis=1))

    def _pattern(self, base: Sparsity, pairs: Ints, points: Floats) -> Sparsity:
        """Return the pattern for the touching pairs: the last one if it holds them all, else a new one."""
        pattern = base if self.pattern is None else self.pattern
        if len(pairs) and missing_blocks(pairs, self.surface.nodes, pattern.indptr, pattern.indices).any():
            assert self.neighbourhood is not None
            ahead = self.neighbourhood.near(points, AHEAD).points
            pattern = couple(base, np.vstack([ahead, pairs]), self.surface.nodes)
        self.pattern = pattern
        return pattern

    def slide(self, before: Floats, x: Floats, old: Grip, grip: Grip, forces: ContactForces) -> float:
        """How far what touches a rough obstacle slid along it from one equilibrium to another, over the local edge.

        Of a point that came into contact on the way, the part of its way that it made in contact counts.
        """
        move, largest = self.surface.points(x) - self.surface.points(before), 0.0
        here, was = self.metres(self.surface.points(x)), self.metres(self.surface.points(before))
        for o, obstacle in enumerate(self.environment.obstacles):
            touches = np.flatnonzero(forces.pressure[o] > 0.0)
            if obstacle.friction == 0.0 or not len(touches):
                continue
            local = [
                (p[touches] - pose[:3, 3]) @ pose[:3, :3] for p, pose in ((was, old.poses[o]), (here, grip.poses[o]))
            ]
            move = (local[1] - local[0]) @ grip.poses[o][:3, :3].T / self.length
            normal = forces.normal[o, touches]
            along = move - np.einsum("pi,pi->p", move, normal)[:, None] * normal
            way = np.linalg.norm(along, axis=1) * grip.share[o, touches]
            largest = max(largest, float(np.max(way / self.surface.edges[touches])))
        return largest

    # ---- steps that do not tunnel

    def safe_share(self, x: Floats, step: Floats, grip: Grip) -> float:
        """Return the largest share of a step of the nodes in which no surface can have passed through another."""
        points, move = self.surface.points(x), self.surface.points(step)
        share = 1.0
        for obstacle, pose in zip(self.environment.obstacles, grip.poses):
            share = min(share, self._share_to(obstacle, pose, points, move))
        if self.neighbourhood is not None:
            share = min(share, self.neighbourhood.safe_share(points, move))
        return share

    def share_apart(self, x: Floats, step: Floats) -> float:
        """Return the largest share of a step of the nodes in which no part of the robot meets another."""
        if self.neighbourhood is None:
            return 1.0
        return self.neighbourhood.safe_share(self.surface.points(x), self.surface.points(step))

    def _share_to(self, obstacle: Obstacle, pose: Floats, points: Floats, move: Floats) -> float:
        """Share of a step in which no point goes through an obstacle, nor much deeper than it is."""
        reach, depth = self._reach(obstacle), obstacle.thickness / self.length

        def gap(x: Floats) -> Floats:
            return np.minimum(signed_distances(obstacle.solid, self.metres(x), pose, reach)[0], reach) / self.length

        start, share = gap(points), 1.0
        travel = np.maximum(np.linalg.norm(move, axis=1), 1e-300)
        allowed = np.maximum(start + depth, 0.1 * depth) / travel
        share = min(share, float(np.min(allowed, initial=1.0, where=self.feels)))
        bound = np.minimum(start, 0.0) - DEEPER * self.thickness
        for _ in range(3):
            end = gap(points + share * move)
            deep = (end < bound) & self.feels
            if not deep.any():
                break
            share *= float(np.min((start[deep] - bound[deep]) / (start[deep] - end[deep])))
        return share

    def penetration(self, distance: Floats) -> float:
        """Deepest overlap [m] with obstacles of points that did not overlap at rest."""
        depth = np.minimum(0.0, self.rest_distance) - distance
        return float(np.max(np.where(self.feels[None], depth, 0.0), initial=0.0)) * self.length


def make_contact(
    robot: VolumetricRobot,
    environment: Environment,
    place: Ints,
    rest: Floats,
    order: int,
    *,
    length: float,
    center: Floats,
    stiffness: Floats,
    held: Bools,
    thickness_share: float | None,
) -> Contact | None:
    """Return the contact of a robot, or None where nothing can touch.

    Parameters
    ----------
    place, rest, order
        See `contact_surface`.
    length, center
        Scale and origin of the scaled positions [m].
    stiffness
        Scaled shear modulus at every node, (nodes,).
    held
        Which nodes are held in all components, (nodes,).
    thickness_share
        Contact thickness over the local edge length; default `THICKNESS`.

    Raises
    ------
    InputError
        The robot overlaps an obstacle or itself at the start.
    """
    if not environment.obstacles and not environment.self_contact:
        return None
    surface = contact_surface(robot, place, rest, order)
    points = surface.points(rest)
    reach = (THICKNESS if thickness_share is None else thickness_share) * surface.edges
    kappa = STIFFNESS * stiffness[surface.nodes].max(axis=1)
    outside = np.zeros(len(points), dtype=bool)
    outside[np.unique(surface.triangles[surface.spaces == 0])] = True
    feels = outside & ~held[surface.nodes].all(axis=1)
    distances = []
    for number, obstacle in enumerate(environment.obstacles):
        span = 100.0 * float(reach.max()) * length
        d = signed_distances(obstacle.solid, points * length + center, obstacle.pose(-1), span)[0] / length
        _refuse_overlap(robot, surface, number, obstacle.shape, np.where(feels, d, np.inf), reach, place, length)
        distances.append(d)
    rest_distance = np.array(distances).reshape(-1, len(points))
    neighbourhood = None
    if environment.self_contact:
        if environment.self_friction > 0:
            raise InputError(
                "Environment: self_friction is not modelled by EnergyShapeSolver; friction acts on obstacles only. "
                "Set self_friction = 0"
            )
        neighbourhood = make_neighbourhood(
            points, surface.triangles, surface.spaces, reach, _excluded(robot, environment, surface)
        )
        _refuse_self_overlap(robot, neighbourhood, surface, place)
    return Contact(
        environment,
        surface,
        neighbourhood,
        length,
        frozen(center),
        frozen(reach),
        frozen(kappa),
        frozen(feels),
        frozen(np.clip(rest_distance, -0.2 * reach, reach)),
        frozen(rest_distance),
        len(rest),
    )


def _vertices_of(robot: VolumetricRobot, surface: ContactSurface, points: Ints, place: Ints) -> list[int]:
    """Robot vertices nearest to points, the first five."""
    back = np.full(int(place.max()) + 1, -1)
    n = len(robot.vertices)
    ends = np.vstack([np.tile(np.arange(n)[:, None], (1, 2)), robot.p2_edges])[:, 0]
    back[place[place >= 0]] = ends[np.flatnonzero(place >= 0)]
    nodes = surface.nodes[points, np.argmax(surface.weights[points], axis=1)]
    return np.unique(back[nodes])[:5].tolist()


def _refuse_overlap(
    robot: VolumetricRobot,
    surface: ContactSurface,
    number: int,
    shape: str,
    distance: Floats,
    reach: Floats,
    place: Ints,
    length: float,
) -> None:
    inside = np.flatnonzero(distance < -0.2 * reach)
    if len(inside):
        raise InputError(
            f"obstacles[{number}]: the {shape} overlaps the robot at rest by {-distance.min() * length * 1e3:.3g} "
            f"mm, at vertices {_vertices_of(robot, surface, inside, place)}; move it away and let it "
            f"come by `motion`"
        )


def _refuse_self_overlap(robot: VolumetricRobot, around: Neighbourhood, surface: ContactSurface, place: Ints) -> None:
    from geosim.collision.crossings import count_crossings

    found = count_crossings(around.rest, surface.triangles, around.tree)
    touching = np.unique(found.edges) if found.count else around.touching(1e-9)
    if len(touching):
        what = "cross" if found.count else "touch"
        raise InputError(
            f"self_contact: surfaces {what} at rest, at vertices {_vertices_of(robot, surface, touching, place)}; "
            f"part them a little, bond them in one mesh, or set self_contact = False"
        )


def _excluded(robot: VolumetricRobot, environment: Environment, surface: ContactSurface) -> Ints:
    """Bit masks of the triangles for the excluded pairs (see `Neighbourhood`)."""
    pairs = environment.exclude_pairs
    if len(pairs) > 62:
        raise InputError(f"exclude_pairs: {len(pairs)} given; at most 62, join sets instead")
    masks = np.zeros((len(surface.triangles), 2), dtype=np.int64)
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    for bit, pair in enumerate(pairs):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise InputError(f"exclude_pairs[{bit}]: {str(pair)[:60]!r} is not a pair; give two names or vertex sets")
        for side, item in enumerate(pair):
            if isinstance(item, str):
                chosen = _named(robot, faces, item, bit)
            else:
                ids = selected_ids(item, robot.vertices, f"exclude_pairs[{bit}]")
                chosen = np.asarray(np.isin(faces, ids).any(axis=1))
            masks[:, side] |= np.where(chosen[surface.face], 1 << bit, 0)
    return masks


def _named(robot: VolumetricRobot, faces: Ints, name: str, bit: int) -> Bools:
    """Faces of "skin", "chamber c" (from 1) or "body b" (from 0)."""
    kind, _, number = name.partition(" ")
    starts = np.cumsum([len(robot.skin), *[len(w) for w in robot.chamber_walls]])
    bodies = int(robot.body_labels.max()) + 1
    if name == "skin":
        return np.arange(len(faces)) < starts[0]
    if kind == "chamber" and number.isdigit() and 1 <= int(number) <= robot.chambers:
        at = np.arange(len(faces))
        return (at >= starts[int(number) - 1]) & (at < starts[int(number)])
    if kind == "body" and number.isdigit() and int(number) < bodies:
        return np.asarray(robot.body_labels[faces[:, 0]] == int(number))
    raise InputError(
        f"exclude_pairs[{bit}]: {name!r} is unknown; use 'skin', 'chamber 1' .. 'chamber {robot.chambers}', "
        f"'body 0' .. 'body {bodies - 1}', or a set of vertices"
    )
