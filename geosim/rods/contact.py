"""Contact and friction of rods: the implicit contact model on all pairs of edges, and obstacles.

Two capsules, or a vertex and an obstacle, at distance D with contact at D = C (sum of radii, radius) store::

    E = k s^2,   s = log(1 + exp(K1 (C - D))) / K1,   K1 = 15 / delta                     (10) of [Choi2024]

and the tangential relative velocity u of the points that touch is resisted by::

    F = -mu tanh(K2 |u| / 2) u/|u| F_n,   K2 = 15 / nu                                     (12)-(13) of [Choi2024]

Departures:

[D1] One smooth formula for every D, evaluated as a softplus that cannot overflow, instead of three cases; [Lahoti]'s
     ground Jacobian (26) is replaced by the exact derivative (its numerator has the square of the sigmoid).
[D2] The distance of two edges is the minimum over both parameters of |r|^2 + eps (l1^2 (s - 1/2)^2 + l2^2 (t - 1/2)^2)
with
     rest lengths l and eps = 1e-3: parallel edges then have one nearest pair and forces stay continuous. The Hessian is
     exact in the three cases (edge-edge, point-edge, point-point) by elimination of the free parameters.
[D3] The stiffness k scales with the material (Young's modulus times radius) and the weight; the overlap reached is
     reported.
[D4] Edges closer than 1.6 C along the rod are no pair: a rod bent to its own radius touches itself beyond pi/2 C.
[D5] The Jacobian of friction neglects the turning of the contact normal; forces are exact.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.rods.balance import Triplets
from geosim.rods.frames import dot
from geosim.rods.state import RodState
from geosim.rods.system import System

__all__ = [
    "ContactLaw",
    "Neighbours",
    "PairContact",
    "contact_law",
    "find_pairs",
    "near_along_rod",
    "neighbours",
    "segment_distance",
]

REGULARISATION = 1e-3
ARC = 1.6


@dataclass(frozen=True)
class ContactLaw:
    """Constants of contact: k [N/m], delta [m], nu [m/s]."""

    stiffness: float
    range: float
    slip: float


def contact_law(system: System, stiffness: float | None, distance: float | None, slip: float) -> ContactLaw:
    """Return the constants, scaled to the robot where they are not given."""
    robot = system.robot
    radius = float(system.vertex_radius.min())
    if stiffness is None:
        weight = float(np.linalg.norm(system.weight[: system.turns].reshape(-1, 3).sum(axis=0)))
        firm = [float((robot.edge_property("youngs_modulus") * robot.radius).max())] if len(robot.edges) else []
        firm += [robot.shell_material.youngs_modulus * float(robot.thickness.max())] if len(robot.triangles) else []
        stiffness = max(5.0 * max(firm), weight / (0.01 * radius))
    return ContactLaw(float(stiffness), radius / 10.0 if distance is None else float(distance), slip)


@kernel
def penalty(gap, k, k1):
    """Return energy, force dE/dgap and stiffness of k softplus(gap)^2; gap = C - D, positive when overlapping."""
    z = k1 * gap
    s = (max(z, 0.0) + math.log1p(math.exp(-abs(z)))) / k1
    e = math.exp(-abs(z))
    sigmoid = 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)
    return k * s * s, 2.0 * k * s * sigmoid, 2.0 * k * (sigmoid * sigmoid + s * k1 * sigmoid * (1.0 - sigmoid))


@kernel
def stick_slip(speed, k2):
    """Return gamma(|u|) / |u| and d gamma / d|u| of Eq. (12); finite at rest."""
    z = 0.5 * k2 * speed
    gamma = math.tanh(z)
    ratio = 0.5 * k2 * (1.0 - z * z / 3.0) if z < 1e-4 else gamma / speed
    return ratio, 0.5 * k2 * (1.0 - gamma * gamma)


@kernel
def _clamp(value):
    return min(max(value, 0.0), 1.0)


@kernel
def nearest_parameters(a, b, c, d, l1, l2):
    """Return (s, t, free s, free t) of the nearest points x0 + s e1 and y0 + t e2 in the sense of [D2].

    The problem is a strictly convex quadratic over the unit square: the free minimum if it is inside, else the best
    of the four sides.
    """
    e1 = (b[0] - a[0], b[1] - a[1], b[2] - a[2])
    e2 = (d[0] - c[0], d[1] - c[1], d[2] - c[2])
    r = (a[0] - c[0], a[1] - c[1], a[2] - c[2])
    w1, w2 = REGULARISATION * l1 * l1, REGULARISATION * l2 * l2
    h11, h22, h12 = dot(e1, e1) + w1, dot(e2, e2) + w2, -dot(e1, e2)
    g1, g2 = dot(e1, r) - 0.5 * w1, -dot(e2, r) - 0.5 * w2
    det = h11 * h22 - h12 * h12
    s = (-g1 * h22 + g2 * h12) / det
    t = (-g2 * h11 + g1 * h12) / det
    if 0.0 < s < 1.0 and 0.0 < t < 1.0:
        return s, t, True, True
    best, bs, bt = np.inf, 0.0, 0.0
    for side in range(4):
        if side < 2:
            s = float(side)
            t = _clamp(-(g2 + h12 * s) / h22)
        else:
            t = float(side - 2)
            s = _clamp(-(g1 + h12 * t) / h11)
        value = 0.5 * (h11 * s * s + h22 * t * t) + h12 * s * t + g1 * s + g2 * t
        if value < best:
            best, bs, bt = value, s, t
    return bs, bt, 0.0 < bs < 1.0, 0.0 < bt < 1.0


@kernel
def _point(q, dof):
    return (q[dof], q[dof + 1], q[dof + 2])


@kernel
def pair_geometry(q, dofs, l1, l2):
    """Return (D, s, t, free s, free t, r, e1, e2) of a pair with first dofs (a, b, c, d)."""
    a, b, c, d = _point(q, dofs[0]), _point(q, dofs[1]), _point(q, dofs[2]), _point(q, dofs[3])
    s, t, fs, ft = nearest_parameters(a, b, c, d, l1, l2)
    e1 = (b[0] - a[0], b[1] - a[1], b[2] - a[2])
    e2 = (d[0] - c[0], d[1] - c[1], d[2] - c[2])
    r = (a[0] + s * e1[0] - c[0] - t * e2[0], a[1] + s * e1[1] - c[1] - t * e2[1], a[2] + s * e1[2] - c[2] - t * e2[2])
    square = dot(r, r) + REGULARISATION * (l1 * l1 * (s - 0.5) ** 2 + l2 * l2 * (t - 0.5) ** 2)
    return math.sqrt(square), s, t, fs, ft, r, e1, e2


@kernel
def pair_force(q, q0, step, pairs, rest, reach, k, k1, mu, k2, residual, force):
    """Add minus the contact and friction forces of all pairs; return energy, largest force, overlap, count."""
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    w = np.empty(4)
    for p in range(pairs.shape[0]):
        distance, s, t, _, _, r, _, _ = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        gap = reach[p] - distance
        if k1 * gap < -36.0:
            continue
        e, fn, _ = penalty(gap, k, k1)
        energy += e
        largest = max(largest, fn)
        overlap = max(overlap, gap)
        count += gap > 0.0
        w[0], w[1], w[2], w[3] = 1.0 - s, s, t - 1.0, -t
        f = (-fn * r[0] / distance, -fn * r[1] / distance, -fn * r[2] / distance)
        if mu > 0.0 and step > 0.0:
            u, speed = _slip(q, q0, step, pairs[p], w, r)
            ratio, _ = stick_slip(speed, k2)
            g = mu * fn * ratio
            f = (f[0] + g * u[0], f[1] + g * u[1], f[2] + g * u[2])
        for v in range(4):
            for j in range(3):
                residual[pairs[p, v] + j] += w[v] * f[j]
                force[pairs[p, v] + j] -= w[v] * f[j]
    return energy, largest, overlap, count


@kernel
def _slip(q, q0, step, pair, w, r):
    """Return the tangential relative velocity of the nearest points and its size."""
    n2 = dot(r, r)
    u = (0.0, 0.0, 0.0)
    for v in range(4):
        i = pair[v]
        c = w[v] / step
        u = (u[0] + c * (q[i] - q0[i]), u[1] + c * (q[i + 1] - q0[i + 1]), u[2] + c * (q[i + 2] - q0[i + 2]))
    along = dot(u, r) / max(n2, 1e-300)
    u = (u[0] - along * r[0], u[1] - along * r[1], u[2] - along * r[2])
    return u, math.sqrt(dot(u, u))


@kernel
def pair_stiffness(q, q0, step, pairs, rest, reach, k, k1, mu, k2, active, blocks):
    """Fill the stiffness of pairs in contact, `blocks` (P, 12, 12), and their numbers `active`; return how many."""
    count = 0
    w = np.empty(4)
    grad = np.empty(12)
    ms, mt = np.empty(12), np.empty(12)
    for p in range(pairs.shape[0]):
        distance, s, t, fs, ft, r, e1, e2 = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        gap = reach[p] - distance
        if k1 * gap < -36.0:
            continue
        _, fn, stiff = penalty(gap, k, k1)
        w[0], w[1], w[2], w[3] = 1.0 - s, s, t - 1.0, -t
        # F = D^2 / 2 has gradient W^T r and mixed derivatives with s: W^T e1 + (-1, 1, 0, 0) r; with t alike
        h11 = dot(e1, e1) + REGULARISATION * rest[p, 0] ** 2
        h22 = dot(e2, e2) + REGULARISATION * rest[p, 1] ** 2
        h12 = -dot(e1, e2)
        for v in range(4):
            cs = -1.0 if v == 0 else (1.0 if v == 1 else 0.0)
            ct = 1.0 if v == 2 else (-1.0 if v == 3 else 0.0)
            for j in range(3):
                grad[3 * v + j] = w[v] * r[j]
                ms[3 * v + j] = w[v] * e1[j] + cs * r[j]
                mt[3 * v + j] = -w[v] * e2[j] + ct * r[j]
        c11, c12, c22 = 0.0, 0.0, 0.0
        if fs and ft:
            det = h11 * h22 - h12 * h12
            c11, c12, c22 = h22 / det, -h12 / det, h11 / det
        elif fs:
            c11 = 1.0 / h11
        elif ft:
            c22 = 1.0 / h22
        # E(D): E'' D' D'^T + E' D'', with D D' = F' and D D'' = F'' - D' D'^T; E' = -fn
        first = (stiff + fn / distance) / distance**2
        second = -fn / distance
        ratio, slope, g = 0.0, 0.0, 0.0
        u = (0.0, 0.0, 0.0)
        speed = 0.0
        if mu > 0.0 and step > 0.0:
            u, speed = _slip(q, q0, step, pairs[p], w, r)
            ratio, slope = stick_slip(speed, k2)
            g = mu * fn / step
        n2 = dot(r, r)
        for a in range(12):
            for b in range(a + 1):
                va, vb, ja, jb = a // 3, b // 3, a % 3, b % 3
                h = -(c11 * ms[a] * ms[b] + c12 * (ms[a] * mt[b] + mt[a] * ms[b]) + c22 * mt[a] * mt[b])
                if ja == jb:
                    h += w[va] * w[vb]
                value = first * grad[a] * grad[b] + second * h
                if g > 0.0:
                    tangent = -r[ja] * r[jb] / n2
                    if ja == jb:
                        tangent += 1.0
                    uu = u[ja] * u[jb] / (speed * speed) if speed > 1e-300 else 0.0
                    value += g * w[va] * w[vb] * (ratio * (tangent - uu) + slope * uu)
                blocks[count, a, b] = value
                blocks[count, b, a] = value
        if g > 0.0:
            for a in range(12):
                for b in range(12):
                    blocks[count, a, b] -= mu * ratio * stiff * w[a // 3] * u[a % 3] * grad[b] / distance
        active[count] = p
        count += 1
    return count


@kernel
def find_candidates(x, edges, radius, rest, margin, near_start, near_edges, pairs):
    """Fill `pairs` with edges whose capsules come closer than `margin`; return how many.

    A sweep along x over boxes sorted by their lower side; `near_start`, `near_edges` list the neighbours to leave out.
    The count may exceed the length of `pairs`; then it must be called again with more room.
    """
    m = edges.shape[0]
    low, high = np.empty((m, 3)), np.empty((m, 3))
    for i in range(m):
        for j in range(3):
            a, b = x[edges[i, 0], j], x[edges[i, 1], j]
            low[i, j] = min(a, b) - radius[i] - 0.5 * margin
            high[i, j] = max(a, b) + radius[i] + 0.5 * margin
    order = np.argsort(low[:, 0])
    q = x.ravel()
    dofs = np.empty(4, dtype=np.int64)
    found = 0
    for p in range(m):
        i = order[p]
        for r in range(p + 1, m):
            k = order[r]
            if low[k, 0] > high[i, 0]:
                break
            if low[k, 1] > high[i, 1] or low[i, 1] > high[k, 1] or low[k, 2] > high[i, 2] or low[i, 2] > high[k, 2]:
                continue
            skip = False
            for n in range(near_start[i], near_start[i + 1]):
                if near_edges[n] == k:
                    skip = True
                    break
            if skip:
                continue
            dofs[0], dofs[1], dofs[2], dofs[3] = 3 * edges[i, 0], 3 * edges[i, 1], 3 * edges[k, 0], 3 * edges[k, 1]
            if pair_geometry(q, dofs, rest[i], rest[k])[0] > radius[i] + radius[k] + margin:
                continue
            if found < pairs.shape[0]:
                pairs[found, 0] = min(i, k)
                pairs[found, 1] = max(i, k)
            found += 1
    return found


@kernel
def farthest(q, x):
    """Return the largest squared distance of a vertex of q from its place in the flat positions x."""
    worst = 0.0
    for i in range(x.shape[0] // 3):
        s = 0.0
        for j in range(3):
            s += (q[3 * i + j] - x[3 * i + j]) ** 2
        worst = max(worst, s)
    return worst


def near_along_rod(system: System, law: ContactLaw) -> tuple[Ints, Ints]:
    """Return for every edge the edges closer than 1.6 C along the rods, as (start (E + 1,), edges)."""
    robot = system.robot
    incident: list[list[int]] = [[] for _ in range(len(robot.vertices))]
    for i, (a, b) in enumerate(robot.edges):
        incident[a].append(i)
        incident[b].append(i)
    start, near = [0], []
    for i, (a, b) in enumerate(robot.edges):
        limit = ARC * (2.0 * float(robot.radius[i]) + law.range)
        best = {int(a): 0.0, int(b): 0.0}
        heap = [(0.0, int(a)), (0.0, int(b))]
        touched = {i}
        while heap:
            length, vertex = heapq.heappop(heap)
            if length > best[vertex]:
                continue
            for k in incident[vertex]:
                touched.add(k)
                other = int(robot.edges[k, 0] + robot.edges[k, 1]) - vertex
                further = length + float(robot.rest_lengths[k])
                if further <= limit and further < best.get(other, np.inf):
                    best[other] = further
                    heapq.heappush(heap, (further, other))
        near += sorted(touched)
        start.append(len(near))
    return np.array(start, dtype=np.int64), np.array(near, dtype=np.int64)


def find_pairs(system: System, x: Floats, near: tuple[Ints, Ints], margin: float) -> Ints:
    """Return the pairs of edges (P, 2) that may touch before a vertex has moved by half the margin."""
    robot = system.robot
    room = 64 + 8 * len(robot.edges)
    while True:
        pairs = np.empty((room, 2), dtype=np.int64)
        found = find_candidates(x, robot.edges, robot.radius, robot.rest_lengths, margin, near[0], near[1], pairs)
        if found <= room:
            return pairs[np.lexsort((pairs[:found, 1], pairs[:found, 0]))]
        room = 2 * found


def segment_distance(x: Floats, edges: Ints, pairs: Ints) -> Floats:
    """Return the distances [m] between the segments of pairs of edges, shape (P,)."""
    dofs = 3 * edges[pairs].reshape(-1, 4)
    q = np.ascontiguousarray(x, dtype=float).ravel()
    return np.array([math.sqrt(dot(g[5], g[5])) for d in dofs if (g := pair_geometry(q, d, 1e-9, 1e-9))])


@dataclass(frozen=True)
class Neighbours:
    """Pairs that may touch, valid until a vertex has moved by half the margin; `near` are no pairs."""

    near: tuple[Ints, Ints]
    margin: float
    law: ContactLaw
    built_at: Floats
    pairs: Ints

    def holds(self, q: Floats) -> bool:
        """Whether the list is still complete at q."""
        return bool(farthest(q, self.built_at) <= (0.5 * self.margin) ** 2)


def neighbours(system: System, law: ContactLaw, old: Neighbours | None, q: Floats) -> Neighbours:
    """Return the list of all pairs near q."""
    near = near_along_rod(system, law) if old is None else old.near
    margin = float(system.robot.radius.min())
    x = q[: system.turns].copy()
    return Neighbours(near, margin, law, x, find_pairs(system, x.reshape(-1, 3), near, margin))


@dataclass
class PairContact:
    """Contact of pairs of edges, bound to one increment."""

    system: System
    state: RodState
    step: float
    friction: float
    listed: Neighbours

    def __post_init__(self) -> None:
        robot = self.system.robot
        self.law, self.pairs = self.listed.law, self.listed.pairs
        self.dofs = 3 * robot.edges[self.pairs].reshape(-1, 4)
        self.rest = robot.rest_lengths[self.pairs]
        self.touch = robot.radius[self.pairs].sum(axis=1)
        self.k1, self.k2 = 15.0 / self.law.range, 15.0 / self.law.slip
        self.reach = 0.4 * self.listed.margin if len(self.pairs) else np.inf

    def escaped(self, q: Floats) -> bool:
        """Whether a vertex has moved so far that pairs may be missing."""
        return not self.listed.holds(q)

    def _force(self, q: Floats, residual: Floats, force: Floats) -> tuple[float, float, float, int]:
        return pair_force(
            q,
            self.state.q,
            self.step,
            self.dofs,
            self.rest,
            self.touch,
            self.law.stiffness,
            self.k1,
            self.friction,
            self.k2,
            residual,
            force,
        )

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the contact forces to the residual."""
        if len(self.pairs) == 0:
            return 0.0, 0.0
        energy, largest, _, _ = self._force(q, residual, np.zeros_like(q))
        return energy, largest

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Return the stiffness of the pairs in contact; few of those listed are."""
        if len(self.pairs) == 0:
            return None
        active, blocks = np.empty(len(self.pairs), dtype=np.int64), np.empty((len(self.pairs), 12, 12))
        count = pair_stiffness(
            q,
            self.state.q,
            self.step,
            self.dofs,
            self.rest,
            self.touch,
            self.law.stiffness,
            self.k1,
            self.friction,
            self.k2,
            active,
            blocks,
        )
        if count == 0:
            return None
        own = (self.dofs[active[:count], :, None] + np.arange(3)).reshape(-1, 12)
        unknown = self.system.pattern.unknown[own]
        row, col = np.broadcast_arrays(unknown[:, :, None], unknown[:, None, :])
        keep = (row >= 0) & (col >= 0)
        return Triplets(row[keep], col[keep], blocks[:count][keep])

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add overlap, number and forces of contacts to the measures of a step."""
        force = np.zeros_like(q)
        energy, _, overlap, count = self._force(q, np.zeros_like(q), force) if len(self.pairs) else (0.0, 0.0, 0.0, 0)
        add_measures(measures, energy, overlap, count, force[: self.system.turns].reshape(-1, 3))


def add_measures(measures: dict[str, Any], energy: float, overlap: float, count: int, force: Floats) -> None:
    """Add a kind of contact to the measures of a step."""
    measures["contact"] = measures.get("contact", 0.0) + energy
    measures["penetration"] = max(measures.get("penetration", 0.0), overlap)
    measures["contacts"] = measures.get("contacts", 0) + count
    measures["contact_forces"] = measures.get("contact_forces", 0.0) + force
