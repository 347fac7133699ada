"""Contact and friction of rod vertices with the obstacles of the environment.

The law is that of `geosim.rods.contact`; the distance is the signed distance of the vertex to the obstacle, and contact
is at the radius of the thickest rod that meets in the vertex, joints included. An obstacle moves on a straight path
(and about a fixed axis) between the poses of two commands, and friction feels the velocity of its surface.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from geosim.arrays import Floats
from geosim.collision.shapes import curvature, distances, signed_distances
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled, turned, turned_back
from geosim.linear.sparse import Triplets
from geosim.rods.contact import FADED, friction_slope, penalty, stick_slip
from geosim.rods.system import System
from geosim.rods.terms import Term, add_contact

__all__ = ["ObstacleContact", "refuse_overlap"]


@kernel
def obstacle_contact(
    q, q0, step, radius, solids, friction, pose0, pose1, k, k1, k2, want, residual, slots, values, skew, force, load
):
    """Add minus the forces of all obstacles to `residual`; with `want`, their stiffness to `values` and `skew`.

    Parameters
    ----------
    q, q0, step
        Degrees of freedom now and at the start of the increment, and its length [s].
    radius
        Of every vertex [m], (n,).
    solids, friction, pose0, pose1
        The obstacles, where they stood at the start and where they stand, (o, 4, 4).
    k, k1, k2
        Stiffness of the law, its steepness over distance [1/m] and over slip velocity [s/m].
    residual, slots, values, skew
        Results: force by degree of freedom; stiffness of vertex i, lower triangle, at slots[i] (6,) of `values`; its
        unsymmetric part (n, 3, 3).
    force, load
        Results: forces on vertices (n, 3), forces and moments on obstacles (o, 6).

    Returns energy, largest force, deepest overlap, count.
    """
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    local, normals, distance = np.empty((len(radius), 3)), np.empty((len(radius), 3)), np.empty(len(radius))
    for o in range(len(friction)):
        now, before, mu = pose1[o], pose0[o], friction[o]
        for i in range(len(radius)):
            put(local[i], turned_back(now, difference(q[3 * i : 3 * i + 3], now[:, 3])))
        distances(solids, o, local, radius - FADED / k1, distance, normals)
        for i in range(len(radius)):
            gap = radius[i] - distance[i]
            if k1 * gap < FADED:
                continue
            x, start, y, n = q[3 * i : 3 * i + 3], q0[3 * i : 3 * i + 3], row(local, i), turned(now, normals[i])
            e, fn, stiff = penalty(gap, k, k1)
            energy, largest, overlap, count = energy + e, max(largest, fn), max(overlap, gap), count + (gap > 0.0)
            u, speed, ratio, slope, g = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0
            if mu > 0.0 and step > 0.0:
                # motion of the vertex less that of the obstacle's material point under it
                u = scaled(1.0 / step, difference(plus(turned(before, y), before[:, 3]), start))
                u = difference(u, scaled(dot(u, n), n))
                speed = math.sqrt(dot(u, u))
                ratio, slope = stick_slip(speed, k2)
                g = mu * fn / step
            f = plus(scaled(-fn, n), scaled(mu * fn * ratio, u))
            moment = cross(x, f)
            for j in range(3):
                residual[3 * i + j] += f[j]
                force[i, j] -= f[j]
                load[o, j] += f[j]
                load[o, 3 + j] += moment[j]
            if want:
                _add_stiffness(solids, o, y, now, n, fn, stiff, g, u, speed, ratio, slope, slots[i], values)
                for a in range(3):
                    for b in range(3):
                        skew[i, a, b] -= mu * ratio * stiff * u[a] * n[b]
    return energy, largest, overlap, count


@kernel
def _add_stiffness(solids, o, y, pose, n, fn, stiff, g, u, speed, ratio, slope, slots, values):
    """Add the symmetric stiffness of one contact, at y in the frame of obstacle o: of the law, its normal and friction.

    n, u and speed are the normal and the slip velocity, g the friction force over the step.
    """
    bend, p = np.empty((3, 3)), 0
    curvature(solids, o, y, bend)
    for a in range(3):
        turns = turned(bend, pose[a])
        for b in range(a + 1):
            rub = g * friction_slope(u, speed, ratio, slope, n, 1.0, a, b)
            values[slots[p]] += stiff * n[a] * n[b] - fn * dot(pose[b], turns) + rub
            p += 1


def refuse_overlap(system: System, x: Floats) -> None:
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
        A vertex is inside.
    """
    loose = system.held_free[: system.turns].reshape(-1, 3).any(axis=1)
    for o, obstacle in enumerate(system.environment.obstacles):
        distance = signed_distances(obstacle.solid, x, obstacle.pose(-1), reach=0.0)[0]
        inside = np.flatnonzero(loose & (distance < 0))
        if len(inside):
            raise InputError(
                f"obstacles[{o}]: {len(inside)} vertices of the robot start inside the {obstacle.shape}, vertex "
                f"{inside[np.argmin(distance[inside])]} by {-1e3 * distance[inside].min():.3g} mm; move it away and let it "
                f"come by `motion`"
            )


@dataclass
class ObstacleContact(Term):
    """Contact of all vertices with all obstacles, bound to one increment from the poses `pose0` to `pose1` (o, 4, 4)."""

    pose0: Floats
    pose1: Floats

    def __post_init__(self) -> None:
        self.system = self.state.system
        self.shapes = self.system.shapes
        # A Newton step goes at most through half of what is thick: the surface that a vertex entered stays the nearest.
        self.reach = self.shapes.thickness + 0.5 * float(self.system.vertex_radius.min())
        self.rubs = self.step > 0 and bool((self.shapes.friction > 0).any())

    def _call(
        self, q: Floats, want: bool, residual: Floats, values: Floats
    ) -> tuple[tuple[float, float, float, int], Floats, Floats, Floats]:
        s, n, law = self.shapes, len(self.system.vertex_radius), self.system.law
        skew, force, load = np.zeros((n, 3, 3)), np.zeros((n, 3)), np.zeros((len(s.friction), 6))
        numbers = obstacle_contact(
            q,
            self.state.q,
            self.step,
            self.system.vertex_radius,
            s.solids,
            s.friction,
            self.pose0,
            self.pose1,
            law.stiffness,
            law.k1,
            law.k2,
            want,
            residual,
            self.system.slots.vertices,
            values,
            skew,
            force,
            load,
        )
        return numbers, skew, force, load

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the contact forces to the residual."""
        (energy, largest, _, _), _, _, _ = self._call(q, False, residual, np.zeros(1))
        return energy, largest

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Add the stiffness; return the unsymmetric part of friction."""
        _, skew, _, _ = self._call(q, True, np.zeros_like(q), values)
        if not self.rubs:
            return None
        vertex, a, b = np.nonzero(skew)
        unknown = self.system.pattern.unknown
        return Triplets(unknown[3 * vertex + a], unknown[3 * vertex + b], skew[vertex, a, b]).free

    def obstacle_work(self, q: Floats) -> float:
        """Return the work of the obstacles that move, by force and moment on each of them [J]."""
        if np.array_equal(self.pose0, self.pose1):
            return 0.0
        _, _, _, load = self._call(q, False, np.zeros_like(q), np.zeros(1))
        turn = self.pose1[:, :3, :3] @ self.pose0[:, :3, :3].transpose(0, 2, 1)
        shift = self.pose1[:, :3, 3] - np.einsum("oij,oj->oi", turn, self.pose0[:, :3, 3])
        angle = Rotation.from_matrix(turn).as_rotvec()
        return -float((load[:, :3] * shift).sum() + (load[:, 3:] * angle).sum())

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add overlap, number and forces of contacts to the measures of a step."""
        (energy, _, overlap, count), _, force, load = self._call(q, False, np.zeros_like(q), np.zeros(1))
        add_contact(measures, energy, overlap, count, force)
        measures["obstacle_forces"], measures["obstacle_moments"] = load[:, :3], load[:, 3:]
