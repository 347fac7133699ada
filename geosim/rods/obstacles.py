"""Contact and friction of rod vertices with the obstacles of the environment.

The law is that of `geosim.rods.contact`; the distance is the signed distance of the vertex to the obstacle, and contact
is at the radius of the thickest rod that meets in the vertex, joints included. An obstacle moves on a straight path
(and about a fixed axis) between the poses of two commands, and friction feels the velocity of its surface.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from geosim.arrays import Floats, Ints
from geosim.environment import Obstacle
from geosim.kernels import kernel
from geosim.rods.balance import Triplets
from geosim.rods.contact import ContactLaw, add_measures, penalty, stick_slip
from geosim.rods.frames import dot
from geosim.rods.state import RodState
from geosim.rods.system import System

__all__ = ["ObstacleContact", "Shapes", "compile_obstacles", "pose_between", "signed_distance"]

KINDS = {"plane": 0, "sphere": 1, "cylinder": 2, "box": 3, "mesh": 4}


@dataclass(frozen=True)
class Shapes:
    """Obstacles as flat arrays: kind (o,), parameters (o, 7), friction (o,), first and last mesh triangle (o, 2)."""

    kind: Ints
    parameters: Floats
    friction: Floats
    span: Ints
    corners: Floats
    smallest: float


def compile_obstacles(obstacles: Sequence[Obstacle]) -> Shapes:
    """Return the obstacles as flat arrays."""
    kind = np.array([KINDS[o.shape] for o in obstacles], dtype=np.int64)
    parameters = np.zeros((len(obstacles), 7))
    span = np.zeros((len(obstacles), 2), dtype=np.int64)
    corners: list[Floats] = [np.zeros((0, 3, 3))]
    smallest = np.inf
    count = 0
    for i, obstacle in enumerate(obstacles):
        p = obstacle.parameters
        if obstacle.shape == "plane":
            parameters[i, :6] = [*p["point"], *p["normal"]]
        elif obstacle.shape == "sphere":
            parameters[i, :4] = [*p["center"], p["radius"]]
            smallest = min(smallest, p["radius"])
        elif obstacle.shape == "cylinder":
            parameters[i] = [*p["start"], *p["end"], p["radius"]]
            smallest = min(smallest, p["radius"])
        elif obstacle.shape == "box":
            parameters[i, :6] = [*p["lower"], *p["upper"]]
            smallest = min(smallest, 0.5 * float((p["upper"] - p["lower"]).min()))
        else:
            triangles = np.asarray(p["vertices"])[np.asarray(p["faces"])]
            corners.append(triangles)
            span[i] = [count, count + len(triangles)]
            count += len(triangles)
            smallest = min(smallest, 0.25 * float(np.ptp(p["vertices"], axis=0).min()))
    return Shapes(
        kind,
        parameters,
        np.array([float(o.friction) for o in obstacles]),
        span,
        np.ascontiguousarray(np.concatenate(corners)),
        smallest,
    )


def pose_between(obstacle: Obstacle, index: int, share: float) -> Floats:
    """Return the pose (4, 4) at `share` of the way from command index - 1 to `index`."""
    last = obstacle.pose(index)
    if obstacle.motion is None or share >= 1.0:
        return last
    first = obstacle.pose(index - 1)
    pose = first + share * (last - first)
    turn = Rotation.from_matrix(first[:3, :3].T @ last[:3, :3]).as_rotvec()
    pose[:3, :3] = first[:3, :3] @ Rotation.from_rotvec(share * turn).as_matrix()
    return pose


@kernel
def _sub(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@kernel
def closest_on_triangle(p, a, b, c):
    """Return the point of a triangle nearest to p, by its Voronoi regions."""
    ab, ac, ap = _sub(b, a), _sub(c, a), _sub(p, a)
    d1, d2 = dot(ab, ap), dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return a
    bp = _sub(p, b)
    d3, d4 = dot(ab, bp), dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return b
    cp = _sub(p, c)
    d5, d6 = dot(ab, cp), dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return c
    v, w = 0.0, 0.0
    vc, vb, va = d1 * d4 - d3 * d2, d5 * d2 - d1 * d6, d3 * d6 - d5 * d4
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
    elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        w = d2 / (d2 - d6)
    elif va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = 1.0 - w
    else:
        total = va + vb + vc
        v, w = vb / total, vc / total
    return (a[0] + v * ab[0] + w * ac[0], a[1] + v * ab[1] + w * ac[1], a[2] + v * ab[2] + w * ac[2])


@kernel
def _mesh_distance(p, corners, first, last):
    """Return distance and normal; outside or inside is told by the triangle that faces p most squarely."""
    best, normal, facing = np.inf, (0.0, 0.0, 1.0), 0.0
    offset = (0.0, 0.0, 0.0)
    for i in range(first, last):
        a = (corners[i, 0, 0], corners[i, 0, 1], corners[i, 0, 2])
        b = (corners[i, 1, 0], corners[i, 1, 1], corners[i, 1, 2])
        c = (corners[i, 2, 0], corners[i, 2, 1], corners[i, 2, 2])
        d = _sub(p, closest_on_triangle(p, a, b, c))
        u, v = _sub(b, a), _sub(c, a)
        n = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
        size = math.sqrt(dot(n, n))
        square = dot(d, d)
        turn = dot(d, n) / size
        if square < best * (1.0 - 1e-12) or (square <= best * (1.0 + 1e-12) and abs(turn) > abs(facing)):
            best = min(best, square)
            facing, offset = turn, d
            normal = (n[0] / size, n[1] / size, n[2] / size)
    distance = math.sqrt(best)
    sign = 1.0 if facing >= 0.0 else -1.0
    if distance > 1e-12:
        normal = (sign * offset[0] / distance, sign * offset[1] / distance, sign * offset[2] / distance)
    return sign * distance, normal


@kernel
def _cylinder_distance(p, w):
    a, axis = (w[0], w[1], w[2]), (w[3] - w[0], w[4] - w[1], w[5] - w[2])
    length = math.sqrt(dot(axis, axis))
    axis = (axis[0] / length, axis[1] / length, axis[2] / length)
    d = _sub(p, a)
    z = dot(d, axis)
    radial = (d[0] - z * axis[0], d[1] - z * axis[1], d[2] - z * axis[2])
    rho = math.sqrt(dot(radial, radial))
    if rho > 1e-14:
        out = (radial[0] / rho, radial[1] / rho, radial[2] / rho)
    else:
        out = (0.0, -axis[2], axis[1]) if abs(axis[0]) < 0.9 else (-axis[2], 0.0, axis[0])
        size = math.sqrt(dot(out, out))
        out = (out[0] / size, out[1] / size, out[2] / size)
    side = rho - w[6]
    end = max(-z, z - length)
    sign = -1.0 if z < 0.5 * length else 1.0
    if side <= 0.0 or end <= 0.0:
        if side >= end:
            return side, out, 1.0 / max(rho, 1e-14), axis
        return end, (sign * axis[0], sign * axis[1], sign * axis[2]), 0.0, axis
    distance = math.sqrt(side * side + end * end)
    c1, c2 = side / distance, sign * end / distance
    return distance, (c1 * out[0] + c2 * axis[0], c1 * out[1] + c2 * axis[1], c1 * out[2] + c2 * axis[2]), 0.0, axis


@kernel
def _box_distance(p, w):
    outside, worst, which, sign = 0.0, -np.inf, 0, 1.0
    d = np.zeros(3)
    for j in range(3):
        below, above = w[j] - p[j], p[j] - w[3 + j]
        if below > 0.0:
            d[j] = -below
        elif above > 0.0:
            d[j] = above
        outside += d[j] * d[j]
        if max(below, above) > worst:
            worst, which, sign = max(below, above), j, -1.0 if below > above else 1.0
    if outside > 0.0:
        distance = math.sqrt(outside)
        return distance, (d[0] / distance, d[1] / distance, d[2] / distance)
    return worst, (sign if which == 0 else 0.0, sign if which == 1 else 0.0, sign if which == 2 else 0.0)


@kernel
def signed_distance(p, kind, w, corners, first, last):
    """Return (distance, outward normal, curvature, axis): the Hessian of the distance is curvature (I - n n - a a)."""
    none = (0.0, 0.0, 0.0)
    if kind == 0:
        n = (w[3], w[4], w[5])
        return dot(_sub(p, (w[0], w[1], w[2])), n), n, 0.0, none
    if kind == 1:
        d = _sub(p, (w[0], w[1], w[2]))
        size = max(math.sqrt(dot(d, d)), 1e-300)
        return size - w[3], (d[0] / size, d[1] / size, d[2] / size), 1.0 / size, none
    if kind == 2:
        return _cylinder_distance(p, w)
    if kind == 3:
        distance, n = _box_distance(p, w)
        return distance, n, 0.0, none
    distance, n = _mesh_distance(p, corners, first, last)
    return distance, n, 0.0, none


@kernel
def _rotate(r, p):
    return (
        r[0, 0] * p[0] + r[0, 1] * p[1] + r[0, 2] * p[2],
        r[1, 0] * p[0] + r[1, 1] * p[1] + r[1, 2] * p[2],
        r[2, 0] * p[0] + r[2, 1] * p[1] + r[2, 2] * p[2],
    )


@kernel
def _rotate_back(r, p):
    return (
        r[0, 0] * p[0] + r[1, 0] * p[1] + r[2, 0] * p[2],
        r[0, 1] * p[0] + r[1, 1] * p[1] + r[2, 1] * p[2],
        r[0, 2] * p[0] + r[1, 2] * p[1] + r[2, 2] * p[2],
    )


@kernel
def obstacle_contact(
    q,
    q0,
    step,
    radius,
    kind,
    parameters,
    friction,
    span,
    corners,
    pose0,
    pose1,
    k,
    k1,
    k2,
    want,
    residual,
    slots,
    values,
    skew,
    force,
    load,
):
    """Add minus the forces of all obstacles to `residual`; with `want`, their stiffness to `values` and `skew`.

    `force` (n, 3) and `load` (o, 6) receive the forces on vertices, and forces and moments on obstacles. Returns
    energy, largest force, deepest overlap, count.
    """
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    for o in range(kind.shape[0]):
        r1, r0 = pose1[o, :3, :3], pose0[o, :3, :3]
        t1 = (pose1[o, 0, 3], pose1[o, 1, 3], pose1[o, 2, 3])
        for i in range(radius.shape[0]):
            x = (q[3 * i], q[3 * i + 1], q[3 * i + 2])
            y = _rotate_back(r1, _sub(x, t1))
            distance, n, curvature, axis = signed_distance(y, kind[o], parameters[o], corners, span[o, 0], span[o, 1])
            gap = radius[i] - distance
            if k1 * gap < -36.0:
                continue
            n, axis = _rotate(r1, n), _rotate(r1, axis)
            e, fn, stiff = penalty(gap, k, k1)
            energy += e
            largest = max(largest, fn)
            overlap = max(overlap, gap)
            count += gap > 0.0
            u, speed, ratio, slope, g = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0
            mu = friction[o]
            if mu > 0.0 and step > 0.0:
                z = _rotate(r0, y)
                before = (z[0] + pose0[o, 0, 3], z[1] + pose0[o, 1, 3], z[2] + pose0[o, 2, 3])
                # motion of the vertex less that of the obstacle's material point under it
                u = (
                    (before[0] - q0[3 * i]) / step,
                    (before[1] - q0[3 * i + 1]) / step,
                    (before[2] - q0[3 * i + 2]) / step,
                )
                un = dot(u, n)
                u = (u[0] - un * n[0], u[1] - un * n[1], u[2] - un * n[2])
                speed = math.sqrt(dot(u, u))
                ratio, slope = stick_slip(speed, k2)
                g = mu * fn / step
            drag = mu * fn * ratio
            f = (-fn * n[0] + drag * u[0], -fn * n[1] + drag * u[1], -fn * n[2] + drag * u[2])
            for j in range(3):
                residual[3 * i + j] += f[j]
                force[i, j] -= f[j]
                load[o, j] += f[j]
            load[o, 3] += x[1] * f[2] - x[2] * f[1]
            load[o, 4] += x[2] * f[0] - x[0] * f[2]
            load[o, 5] += x[0] * f[1] - x[1] * f[0]
            if not want:
                continue
            p = 0
            for a in range(3):
                for b in range(3):
                    tangent = -n[a] * n[b]
                    if a == b:
                        tangent += 1.0
                    uu = u[a] * u[b] / (speed * speed) if speed > 1e-300 else 0.0
                    if b <= a:
                        value = stiff * n[a] * n[b] - fn * curvature * (tangent - axis[a] * axis[b])
                        value += g * (ratio * (tangent - uu) + slope * uu)
                        values[slots[i, p]] += value
                        p += 1
                    skew[i, a, b] += -mu * ratio * stiff * u[a] * n[b]
    return energy, largest, overlap, count


@dataclass
class ObstacleContact:
    """Contact of all vertices with all obstacles, bound to one increment that ends at `pose1`."""

    system: System
    state: RodState
    step: float
    law: ContactLaw
    shapes: Shapes
    pose0: Floats
    pose1: Floats

    def __post_init__(self) -> None:
        radius = float(self.system.vertex_radius.min())
        self.reach = 0.5 * (self.shapes.smallest + radius) if np.isfinite(self.shapes.smallest) else np.inf
        self.rubs = self.step > 0 and bool((self.shapes.friction > 0).any())

    def _call(self, q: Floats, want: bool, residual: Floats, values: Floats) -> Any:
        s, n = self.shapes, len(self.system.vertex_radius)
        skew, force, load = np.zeros((n, 3, 3)), np.zeros((n, 3)), np.zeros((len(s.kind), 6))
        numbers = obstacle_contact(
            q,
            self.state.q,
            self.step,
            self.system.vertex_radius,
            s.kind,
            s.parameters,
            s.friction,
            s.span,
            s.corners,
            self.pose0,
            self.pose1,
            self.law.stiffness,
            15.0 / self.law.range,
            15.0 / self.law.slip,
            want,
            residual,
            self.system.vertex_slots,
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
        row, col = unknown[3 * vertex + a], unknown[3 * vertex + b]
        keep = (row >= 0) & (col >= 0)
        return Triplets(row[keep], col[keep], skew[vertex, a, b][keep])

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add overlap, number and forces of contacts to the measures of a step."""
        (energy, _, overlap, count), _, force, load = self._call(q, False, np.zeros_like(q), np.zeros(1))
        add_measures(measures, energy, overlap, count, force)
        measures["obstacle_forces"], measures["obstacle_moments"] = load[:, :3], load[:, 3:]
