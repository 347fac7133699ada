"""Contact and friction of rods and shells with the obstacles of the environment.

The law is that of `geosim.rods.contact`; the distance is the signed distance of a point to the obstacle. Points are the vertices,
in contact at the radius of the thickest rod that meets there, joints included, and fixed points inside long edges of rods: a
radius apart where an obstacle has edges or is a thin bar, wider where it is round, so that an edge between two of them sinks
in by less than a seventh of the radius; planes feel vertices alone. The centre line stays out in every iteration and increment
(continuous collision detection by the distance, which falls no faster than a point moves). An obstacle moves on a straight path
(and about a fixed axis) between the poses of two commands, and friction feels the velocity of its surface.

Friction acts at the centre line, as in [Choi2024]; where rods roll, at their surfaces: their edges spin with theta, at tangents
of the start of the increment, and friction has a moment about them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from geosim.arrays import Floats
from geosim.collision.ccd import ADVANCE_SHARE, GAP_TOLERANCE_SHARE, MAX_APPROACH_SHARE, STOP_DISTANCE_SHARE
from geosim.collision.shapes import MESH, PLANE, curvature, distances, signed_distance, signed_distances
from geosim.collision.tree import gap_to_box
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled, turned, turned_back
from geosim.linear.sparse import Blocks
from geosim.rods.contact import FADED_EXPONENT, friction_slope, mean_penalty, penalty, pressed, stick_slip
from geosim.rods.points import Points, spins_of
from geosim.rods.system import RodSystem
from geosim.rods.terms import Term, add_contact

LOWER3, LOWER6 = np.tril_indices(3), np.tril_indices(6)


@kernel
def _add_turns(slides, u, press, n, lever, skew):
    """Add what turning about a point by w does, whose slip is lever x w, and the moment of friction about it, to skew (6, 6).

    `slides` (3, 3) is minus the derivative of friction by the place, but for `press` u n, by which the normal force changes it.
    """
    for a in range(3):
        by_turn = cross(row(slides, a), lever)
        turned_by = cross((slides[0, a], slides[1, a], slides[2, a]), lever)
        pressed_by = cross(scaled(-press * n[a], u), lever)
        for b in range(3):
            skew[a, 3 + b] += by_turn[b]
            skew[3 + b, a] += turned_by[b] + pressed_by[b]
    for b in range(3):
        both = cross((skew[0, 3 + b], skew[1, 3 + b], skew[2, 3 + b]), lever)
        for a in range(3):
            skew[3 + a, 3 + b] = both[a]


@kernel
def _stiffen(now, bend, n, u, law, slides, block, skew):
    """Add the stiffness of one point: of pressure and of the turning normal, symmetric, and of friction that pressure changes.

    `law` holds the normal force [N] and its slope [N/m], the coefficient of friction, the share of it that acts, friction
    over the step [N/s], the slope of the share [s/m] and the speed of slip [m/s]; `slides` (3, 3) is written with what
    friction alone adds.
    """
    fn, stiff, mu, ratio, g, slope, speed = law
    for a in range(3):
        turns = turned(bend, now[a])
        for b in range(3):
            slides[a, b] = g * friction_slope(u, speed, ratio, slope, n, 1.0, a, b)
            block[a, b] += stiff * n[a] * n[b] - fn * dot(now[b], turns) + slides[a, b]
            skew[a, b] -= mu * ratio * stiff * u[a] * n[b]


@kernel
def obstacle_contact(
    x,
    x0,
    step,
    radius,
    lever,
    spin,
    solids,
    only,
    friction,
    pose0,
    pose1,
    k,
    k1,
    k2,
    back,
    start,
    conserving,
    want,
    force,
    moment,
    block,
    skew,
    load,
):
    """Fill the forces of all obstacles on points; with `want`, their stiffness.

    Parameters
    ----------
    x, x0, step
        Points now and at the start of the increment (p, 3) [m], and its length [s].
    radius
        Of every point [m], (p,).
    lever, spin
        How far below its point friction acts [m], (p,), and how fast that turns about the point [rad/s], (p, 3).
    solids, only, friction, pose0, pose1
        The obstacles, those that these points feel (o,), and where they stood at the start and where they stand, (o, 4, 4).
    k, k1, k2, back, start, conserving
        Stiffness of the law, its steepness over distance [1/m] and slip [s/m], `ContactLaw.back`; distances at the start (o, p);
        `ContactLaw.conserving`.
    force, moment, block, skew, load
        Results: forces and moments about the points (p, 3), symmetric stiffness (p, 3, 3), the rest of that by places and turns
        (p, 6, 6), forces and moments on obstacles (o, 6).

    Returns energy, largest force, deepest overlap, count.
    """
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    local, normals, distance = np.empty((len(radius), 3)), np.empty((len(radius), 3)), np.empty(len(radius))
    bend, slides = np.empty((2, 3, 3))
    reach = np.empty(len(radius))
    for o in np.flatnonzero(only):
        now, before, mu = pose1[o], pose0[o], friction[o]
        for i in range(len(radius)):
            put(local[i], turned_back(now, difference(x[i], now[:, 3])))
            # what parts is felt wherever it goes
            parts = conserving and k1 * (radius[i] - start[o, i]) > FADED_EXPONENT
            reach[i] = np.inf if parts else radius[i] - FADED_EXPONENT / k1
        distances(solids, o, local, reach, distance, normals)
        for i in range(len(radius)):
            gap, gap0 = radius[i] - distance[i], radius[i] - start[o, i]
            if k1 * gap < FADED_EXPONENT and not (conserving and k1 * gap0 > FADED_EXPONENT):
                continue
            y, n = row(local, i), turned(now, normals[i])
            e, fn, stiff = mean_penalty(gap, gap0, k, k1) if conserving else penalty(gap, k, k1)
            u, speed, ratio, slope, g = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0
            arm = scaled(-lever[i], n)
            fn, stiff = pressed(fn, stiff, start[o, i] - distance[i], step, k2, back)
            energy, largest, overlap, count = energy + e, max(largest, fn), max(overlap, gap), count + (gap > 0.0)
            if mu > 0.0 and step > 0.0:
                # motion of the point less that of the obstacle's material point under it
                u = scaled(1.0 / step, difference(plus(turned(before, y), before[:, 3]), x0[i]))
                u = plus(u, cross(row(spin, i), arm))
                u = difference(u, scaled(dot(u, n), n))
                speed = math.sqrt(dot(u, u))
                ratio, slope = stick_slip(speed, k2)
                g = mu * fn / step
            f = plus(scaled(fn, n), scaled(-mu * fn * ratio, u))
            turn, about = cross(arm, f), cross(plus(row(x, i), arm), f)
            for j in range(3):
                force[i, j] += f[j]
                moment[i, j] += turn[j]
                load[o, j] -= f[j]
                load[o, 3 + j] -= about[j]
            if want:
                curvature(solids, o, y, bend)
                _stiffen(now, bend, n, u, (fn, stiff, mu, ratio, g, slope, speed), slides, block[i], skew[i])
                if lever[i] > 0.0 and g > 0.0:
                    _add_turns(slides, u, mu * ratio * stiff, n, scaled(-1.0, arm), skew[i])
    return energy, largest, overlap, count


@kernel
def obstacles_safe(x, dx, touch, solids, only, pose, yields):
    """Return the share of the step dx (p, 3) of points in which none comes nearer than half its distance or 0.3 of its touch.

    The distance to an obstacle falls no faster than a point moves; points that are inside already do not count, nor do planes
    that let centre lines in (`ContactLaw.yields`).
    """
    last = 1.0
    for o in range(len(only)):
        if not only[o] or (yields and solids.kind[o] == PLANE):
            continue
        for i in range(len(touch)):
            p, v = turned_back(pose[o], difference(x[i], pose[o][:, 3])), turned_back(pose[o], dx[i])
            way = math.sqrt(dot(v, v))
            if way == 0.0:
                continue
            if solids.kind[o] == MESH and gap_to_box(solids.boxes, solids.span[o, 2], p, p) > (way + touch[i]) ** 2:
                continue
            apart = signed_distance(solids, o, p)[0]
            gap = min(STOP_DISTANCE_SHARE * touch[i], MAX_APPROACH_SHARE * apart)
            if apart <= 0.0 or apart - last * way >= gap:
                continue
            time, left = 0.0, apart - gap
            while left > GAP_TOLERANCE_SHARE * (apart - gap) and time < last:
                time += ADVANCE_SHARE * left / way
                left = signed_distance(solids, o, plus(p, scaled(time, v)))[0] - gap
            last = min(last, time)
    return last


def refuse_overlap(system: RodSystem, x: Floats) -> None:
    """Refuse to start with centre lines inside an obstacle: contact would push them out at the nearest side, if at all.

    Parameters
    ----------
    system
        The robot in its environment.
    x
        Positions of the vertices [m], shape (n, 3); those that are held do not feel obstacles.

    Raises
    ------
    InputError
        A vertex is inside, or an edge goes through.
    """
    loose = np.asarray(system.held_free[: system.turns].reshape(-1, 3).any(axis=1))
    for points, (o, obstacle) in product(system.contact_points, enumerate(system.environment.obstacles)):
        if system.law.yields and obstacle.shape == "plane":
            continue
        distance = signed_distances(obstacle.solid, points.at(x), obstacle.pose(-1), reach=0.0)[0]
        inside = np.flatnonzero((loose[points.first] | loose[points.second]) & (distance < 0) & points.only[o])
        if len(inside):
            deepest = inside[np.argmin(distance[inside])]
            kind, name = ("vertices", "vertex") if points.edge[deepest] < 0 else ("points on edges", "edge")
            number = points.first[deepest] if points.edge[deepest] < 0 else points.edge[deepest]
            raise InputError(
                f"obstacles[{o}]: {len(inside)} {kind} of the robot start inside the {obstacle.shape}, {name} {number} "
                f"by {-1e3 * distance[deepest]:.3g} mm; move it away and bring it there by `motion`"
            )


@dataclass
class ObstacleContact(Term):
    """Contact of rods and shells with all obstacles, bound to one increment from the poses `pose0` to `pose1` (o, 4, 4)."""

    pose0: Floats
    pose1: Floats
    rolling: bool = False
    straight = True

    def __post_init__(self) -> None:
        self.system = self.state.system
        self.obstacles = self.system.environment.obstacle_set
        # A Newton step goes at most through half of what is thick: the surface that a vertex entered stays the nearest.
        self.reach = float(self.obstacles.thickness.min(initial=np.inf)) + 0.5 * float(self.system.vertex_radius.min())
        sets, tangents = self.system.contact_points, self.state.tangents
        self._from = [points.at(self._places(self.state.q)) for points in sets]
        self._conserving = self.system.law.conserving and self.step > 0
        self._start = [self._distances(points, x) for points, x in zip(sets, self._from)]
        self.spins = [spins_of(points, self.system.robot, tangents, rolling=self.rolling) for points in sets]
        self.rubs = bool((self.obstacles.friction > 0).any())

    def _distances(self, points: Points, x: Floats) -> Floats:
        """Return the distances (o, p) [m] of points at x from the obstacles at the start; inf where far or where not needed."""
        reach = points.radius - FADED_EXPONENT / self.system.law.k1
        distance, normals = np.full((len(self.pose0), len(x)), np.inf), np.empty_like(x)
        if not self._conserving and self.back[0] >= 1.0:
            return distance
        for o in np.flatnonzero(points.only):
            local = np.ascontiguousarray((x - self.pose0[o, :3, 3]) @ self.pose0[o, :3, :3])
            distances(self.obstacles.solids, o, local, reach, distance[o], normals)
        return distance

    def _places(self, q: Floats) -> Floats:
        return q[: self.system.turns].reshape(-1, 3)

    def _call(
        self, q: Floats, which: int, load: Floats, want: bool = False
    ) -> tuple[tuple[float, float, float, int], Floats, Floats, Floats, Floats]:
        """Return energy, largest force, overlap and count; force, moment, stiffness and the rest of it, of a set of points."""
        obstacles, law, points = self.obstacles, self.system.law, self.system.contact_points[which]
        n = len(points.first)
        (force, moment, spin), spins = np.zeros((3, n, 3)), self.spins[which]
        block, skew = np.zeros((n if want else 0, 3, 3)), np.zeros((n if want else 0, 6, 6))
        if len(spins.edge):
            rate = (q - self.state.q)[self.system.turns + spins.edge] / self.pace
            np.add.at(spin, spins.point, rate[:, None] * spins.axis)
        numbers = obstacle_contact(
            points.at(self._places(q)),
            self._from[which],
            self.pace,
            points.radius,
            spins.lever,
            spin,
            obstacles.solids,
            points.only,
            obstacles.friction,
            self.pose0,
            self.pose1,
            law.stiffness,
            law.k1,
            law.k2,
            self.back,
            self._start[which],
            self._conserving,
            want,
            force,
            moment,
            block,
            skew,
            load,
        )
        return numbers, force, moment, block, skew

    def _forces(self, q: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (energy, largest force, overlap, count), forces on vertices (n, 3), on thetas and on obstacles (o, 6)."""
        total, force, load = np.zeros(4), np.zeros_like(self._places(q)), np.zeros((len(self.obstacles.friction), 6))
        turning = np.zeros(self.system.robot.turning)
        for which, points in enumerate(self.system.contact_points):
            numbers, own, moment, _, _ = self._call(q, which, load)
            spins = self.spins[which]
            total[[0, 3]] += numbers[0], numbers[3]
            total[1:3] = np.maximum(total[1:3], numbers[1:3])
            if len(spins.edge):
                np.add.at(turning, spins.edge, (spins.axis * moment[spins.point]).sum(axis=1))
            if points.edge[0] < 0:
                force += own
                continue
            touched = np.flatnonzero(own.any(axis=1))
            for vertex, weight in ((points.first, 1.0 - points.share), (points.second, points.share)):
                np.add.at(force, vertex[touched], weight[touched, None] * own[touched])
        return total, force, turning, load

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the contact forces to the residual."""
        total, force, turning, _ = self._forces(q)
        residual -= np.concatenate([force.ravel(), turning])
        return float(total[0]), float(total[1])

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Add the stiffness; return the unsymmetric part of friction."""
        slots, rubbed = self.system.slots, []
        for which, points in enumerate(self.system.contact_points):
            *_, block, skew = self._call(q, which, np.zeros((len(self.obstacles.friction), 6)), want=True)
            touched = np.flatnonzero(block.any(axis=(1, 2)))
            # vertices of shells neither lie inside edges nor are turned by them: all at once
            spun = self.spins[which].point
            alone = touched[:0] if points.edge[0] >= 0 else touched[~np.isin(touched, spun)] if len(spun) else touched
            np.add.at(values, slots.vertices[alone], block[alone][:, LOWER3[0], LOWER3[1]])
            if len(rubs := alone[skew[alone].any(axis=(1, 2))]):
                dofs = 3 * points.first[rubs, None] + np.arange(3)
                rubbed.append(Blocks.of(self.system.pattern.unknown, dofs, skew[rubs, :3, :3]))
            for i in np.setdiff1d(touched, alone, assume_unique=True):
                rubbed += self._add_point(which, i, block[i], skew[i], values)
        return Blocks.joined(rubbed) if rubbed else None

    def _add_point(self, which: int, i: int, block: Floats, skew: Floats, values: Floats) -> list[Blocks]:
        """Add the stiffness (3, 3) of one point; return the unsymmetric part (6, 6), by its places and turns."""
        points, slots, spins = self.system.contact_points[which], self.system.slots, self.spins[which]
        t, e = points.share[i], points.edge[i]
        if e < 0:
            values[slots.vertices[i]] += block[LOWER3]
            ends, weights = points.first[i : i + 1], np.ones(1)
        else:
            ends, weights = self.system.robot.edges[e], np.array([1.0 - t, t])
            values[slots.springs[e]] += np.kron(np.outer(weights, weights), block)[LOWER6]
        if not self.rubs:
            return []
        own = spins.point == i
        dofs = np.append((3 * ends[:, None] + np.arange(3)).ravel(), self.system.turns + spins.edge[own])
        moves = np.zeros((6, len(dofs)))
        moves[:3, : 3 * len(ends)] = np.kron(weights, np.eye(3))
        moves[3:, 3 * len(ends) :] = spins.axis[own].T
        return [Blocks.of(self.system.pattern.unknown, dofs[None], (moves.T @ skew @ moves)[None])]

    def safe_share(self, q: Floats, dq: Floats) -> float:
        """Return the share of a step in which no rod crosses an obstacle; in statics obstacles may be where rods are."""
        share, held = 1.0, np.asarray(~self.system.free[: self.system.turns].reshape(-1, 3).any(axis=1))
        if self.step == 0:
            return share
        x, dx, yields = self._places(q), np.where(held[:, None], 0.0, self._places(dq)), self.system.law.yields
        for points in self.system.contact_points:
            own = points.at(x), points.at(dx), points.radius
            share = min(share, obstacles_safe(*own, self.obstacles.solids, points.only, self.pose1, yields))
        return share

    def closing(self, q: Floats, u: Floats) -> float:
        """Return how fast points that obstacles push at q approach or leave them."""
        fastest, place, felt = 0.0, self._places(q), -FADED_EXPONENT / self.system.law.k1
        turn, still = self.pose0[:, :3, :3] @ self.pose1[:, :3, :3].transpose(0, 2, 1), self.pose0[:, :3, 3]
        for which, points in enumerate(self.system.contact_points):
            force = self._call(q, which, np.zeros((len(turn), 6)))[1]
            pushed = np.flatnonzero(np.linalg.norm(force, axis=1) > self.least)
            x, v = points.at(place)[pushed], points.at(self._places(u))[pushed]
            for o in range(len(turn)):
                reach = points.radius[pushed] + felt
                distance, _, normal = signed_distances(
                    self.obstacles.solid(o), x, self.pose1[o], reach.max(initial=0.0)
                )
                touch = points.only[o] & (distance < reach)
                before = (x - self.pose1[o, :3, 3]) @ turn[o].T + still[o]
                own = (x - before) / self.step
                fastest = max(fastest, float(np.abs(((v - own) * normal)[touch].sum(axis=1)).max(initial=0.0)))
        return fastest

    def obstacle_work(self, q: Floats) -> float:
        """Return the work of the obstacles that move, by force and moment on each of them [J]."""
        if np.array_equal(self.pose0, self.pose1):
            return 0.0
        *_, load = self._forces(q)
        turn = self.pose1[:, :3, :3] @ self.pose0[:, :3, :3].transpose(0, 2, 1)
        shift = self.pose1[:, :3, 3] - np.einsum("oij,oj->oi", turn, self.pose0[:, :3, 3])
        angle = Rotation.from_matrix(turn).as_rotvec()
        return -float((load[:, :3] * shift).sum() + (load[:, 3:] * angle).sum())

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add overlap, number and forces of contacts to the measures of a step."""
        total, force, _, load = self._forces(q)
        add_contact(measures, float(total[0]), float(total[2]), int(total[3]), force)
        measures["obstacle_forces"], measures["obstacle_moments"] = load[:, :3], load[:, 3:]
        measures["obstacle_poses"] = self.pose1
