"""Contact and friction of rods with each other: the implicit contact model on all pairs of edges that may touch.

The law is that of `geosim.rods.contact`, the distance that of `geosim.rods.pairs`. A Newton step is shortened so that no centre
lines come nearer than half their distance, or 0.3 of that at which they touch, in between (continuous collision detection), as
between sheets; an increment of time that would is refused, and halved. So no rod passes through another however far it goes.

Friction acts where the surfaces touch, and has a moment there.
The point that both touch in divides the way r between the nearest points of the centre lines by their radii, so that both
forces act in one point and pairs keep angular momentum. A point of a rod at the arm d from its centre line, on an edge with unit
tangent t and length l, moves with the edge, turns with it and spins about it with the rate of theta [rad/s]::

    v = (1 - s) v0 + s v1 + ((t . d) (v1 - v0) - ((v1 - v0) . d) t) / l + theta' t x d

The slip is the difference of both in the plane across r, u = sum_a g_a q'_a over 12 components of vertices and two theta; by the
principle of virtual power the force on q_a is g_a . F. [Choi2024] let friction act on the centre lines, where it has a moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.collision.ccd import time_to_gap
from geosim.collision.distance import gather, squared_distance_derivatives
from geosim.collision.proximity import first_touch
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, plus, put, row, scaled, tuple3
from geosim.rods.contact import (
    FADED_EXPONENT,
    add_to_four,
    approach,
    contact_block,
    friction_slope,
    mean_penalty,
    penalty,
    pressed,
    stick_slip,
)
from geosim.rods.frames import point
from geosim.rods.pairs import (
    CLOSEST_POINT_REGULARISATION,
    COMPLETE_MARGIN_SHARE,
    Neighbours,
    find_pairs,
    moved_most,
    pair_geometry,
)
from geosim.rods.terms import ContactTerm

PAIR_UNKNOWNS = 14  # unknowns of a pair: three components of four vertices, two theta


@kernel
def _side(sign, s, e, d, first, g):
    """Fill the rows of g of an edge e, its point at the share s and the arm d: of two vertices from `first` on, and of theta."""
    length = math.sqrt(dot(e, e))
    t = scaled(1.0 / length, e)
    along = dot(t, d)
    for j in range(3):
        for i in range(3):
            turn = ((along if i == j else 0.0) - d[j] * t[i]) / length
            same = 1.0 if i == j else 0.0
            g[3 * first + j, i] = sign * ((1.0 - s) * same - turn)
            g[3 * first + 3 + j, i] = sign * (s * same + turn)
    put(g[12 + first // 2], scaled(sign, cross(t, d)))


@kernel
def rod_slip(q, q0, step, dofs, turns, share, geometry, k2, g):
    """Fill g (14, 3); return the slip velocity u [m/s], its size, gamma / |u| and its slope.

    `dofs` (4,) are first degrees of freedom of the vertices, `turns` (2,) those of theta, `share` that of the first radius in
    their sum, `geometry` what `pair_geometry` returns, k2 [s/m] the sharpness of friction.
    """
    _, s, p, _, _, r, e1, e2 = geometry
    _side(1.0, s, e1, scaled(-share, r), 0, g)
    _side(-1.0, p, e2, scaled(1.0 - share, r), 2, g)
    square = dot(r, r)
    u = (0.0, 0.0, 0.0)
    for a in range(PAIR_UNKNOWNS):
        along = dot(r, g[a]) / square
        for i in range(3):
            g[a, i] -= along * r[i]
        at = dofs[a // 3] + a % 3 if a < 12 else turns[a - 12]
        rate = (q[at] - q0[at]) / step
        u = (u[0] + rate * g[a, 0], u[1] + rate * g[a, 1], u[2] + rate * g[a, 2])
    speed = math.sqrt(dot(u, u))
    ratio, slope = stick_slip(speed, k2)
    return u, speed, ratio, slope


@kernel
def _edge_moves(q, q0, step, i, k, own):
    """Return unit tangent, length and the rates of an edge: v1 - v0 and theta' [m/s], [rad/s], from its vertices' dofs i, k."""
    e = (q[k] - q[i], q[k + 1] - q[i + 1], q[k + 2] - q[i + 2])
    away = ((e[0] - q0[k] + q0[i]) / step, (e[1] - q0[k + 1] + q0[i + 1]) / step, (e[2] - q0[k + 2] + q0[i + 2]) / step)
    length = math.sqrt(dot(e, e))
    return scaled(1.0 / length, e), length, away, (q[own] - q0[own]) / step


@kernel
def slip_slopes(q, q0, step, dofs, turns, share, r, u, w, c, free, soft0, soft1, g, slopes, turned):
    """Fill how the slip velocity u changes, `slopes` (14, 3) [1/s], and how its rows g turn, `turned` (14, 12).

    q to `share` as in `rod_slip`, `w` are the shares of the vertices in r, and `c` (4, 2) how they change with the `free`
    parameters of the nearest points, which `soft0`, `soft1` [m^2] hold. By the chain rule for the law at the head of this file,
    in the plane across r, with the velocity v of the points that touch and u . r = 0 wherever r turns::

        du = sum_a g_a dq'_a + sum_a dg_a q'_a - (v . r) / |r|^2 dr
        d(g_a . u) - g_a . du = dg_a . u - (g_a . r) (u . dr) / |r|^2
    """
    square = max(dot(r, r), MIN_DIVISOR)
    edges, rates = np.zeros((2, 3)), np.zeros((2, 3))
    along = 0.0
    for v in range(4):
        for j in range(3):
            i = dofs[v] + j
            rate = (q[i] - q0[i]) / step
            along += w[v] * rate * r[j] / square
            for k in range(free):
                edges[k, j] += c[v, k] * q[i]
                rates[k, j] += c[v, k] * rate
    a00, a01, a11 = dot(edges[0], edges[0]) + soft0, dot(edges[0], edges[1]), dot(edges[1], edges[1]) + soft1
    if free < 2:
        a01, a11 = 0.0, 1.0
    if free < 1:
        a00 = 1.0
    det = a00 * a11 - a01 * a01
    both = (_edge_moves(q, q0, step, dofs[0], dofs[1], turns[0]), _edge_moves(q, q0, step, dofs[2], dofs[3], turns[1]))
    for a in range(PAIR_UNKNOWNS):
        for i in range(3):
            slopes[a, i] = g[a, i] / step
    for b in range(12):
        v, j = b // 3, b % 3
        unit = (1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0)
        m0 = -(w[v] * edges[0, j] + c[v, 0] * r[j])
        m1 = -(w[v] * edges[1, j] + c[v, 1] * r[j])
        p0, p1 = (a11 * m0 - a01 * m1) / det, (a00 * m1 - a01 * m0) / det
        dr = plus(scaled(w[v], unit), combine(p0, tuple3(edges[0]), p1, tuple3(edges[1])))
        du = plus(combine(p0, tuple3(rates[0]), p1, tuple3(rates[1])), scaled(-along, dr))
        leans = dot(u, dr) / square
        for side in range(2):
            t, length, away, spin = both[side]
            sign, part = (1.0, -share) if side == 0 else (-1.0, 1.0 - share)
            arm, moved = scaled(part, r), scaled(part, dr)
            dt, longer = (0.0, 0.0, 0.0), 0.0
            if v // 2 == side:
                end = 1.0 if v % 2 else -1.0
                longer = end * t[j]
                dt = scaled(end / length, plus(unit, scaled(-t[j], t)))
            lever, tilt = dot(t, arm), dot(away, arm)
            # of the arm's velocity ((t . d) (v1 - v0) - ((v1 - v0) . d) t) / l + theta' t x d
            first, second = dot(dt, arm) + dot(t, moved), dot(away, moved)
            change = plus(combine(first, away, -second, t), scaled(-tilt, dt))
            change = plus(change, scaled(-longer / length, combine(lever, away, -tilt, t)))
            twist = plus(cross(dt, arm), cross(t, moved))
            du = plus(du, scaled(sign, combine(1.0 / length, change, spin, twist)))
            along_t, along_dt = dot(t, u), dot(dt, u)
            for k in range(3):
                turn = first * u[k] - moved[k] * along_t - arm[k] * along_dt
                turn = (turn - (lever * u[k] - arm[k] * along_t) * longer / length) / length
                one, two = 6 * side + k, 6 * side + 3 + k
                turned[one, b] = -sign * turn - w[2 * side] * r[k] * leans
                turned[two, b] = sign * turn - w[2 * side + 1] * r[k] * leans
                for f in range(free):
                    p = p0 if f == 0 else p1
                    turned[one, b] += c[2 * side, f] * p * u[k]
                    turned[two, b] += c[2 * side + 1, f] * p * u[k]
            turned[12 + side, b] = sign * dot(twist, u)
        out = dot(du, r) / square
        for i in range(3):
            slopes[b, i] += du[i] - out * r[i]


@kernel
def rod_friction_block(w, r, distance, g, slopes, turned, slip, mu, fn, stiff, chord, block):
    """Add the stiffness of friction to the block (14, 14); its slope along the slip is at least the share `chord` of gamma / |u|.

    `slip` is what `rod_slip` returns, `slopes` and `turned` what `slip_slopes` fills; fn [N] and `stiff` [N/m] are force and
    stiffness of the pair at its distance [m].
    """
    u, speed, ratio, slope = slip
    slope = max(slope, chord * ratio)
    across, rub = (u, speed, ratio, slope, r, dot(r, r)), mu * fn
    first = (friction_slope(*across, 0, 0), friction_slope(*across, 0, 1), friction_slope(*across, 0, 2))
    second = (first[1], friction_slope(*across, 1, 1), friction_slope(*across, 1, 2))
    third = (first[2], second[2], friction_slope(*across, 2, 2))
    for a in range(PAIR_UNKNOWNS):
        own = row(g, a)
        bent = (rub * dot(first, own), rub * dot(second, own), rub * dot(third, own))
        pushed = mu * ratio * stiff * dot(own, u) / distance
        for b in range(PAIR_UNKNOWNS):
            block[a, b] += dot(bent, row(slopes, b))
            if b < 12:
                block[a, b] += rub * ratio * turned[a, b] - pushed * w[b // 3] * r[b % 3]


@kernel
def pair_distances(q, pairs, rest):
    """Return the distances [m] of pairs with first dofs (P, 4) and rest lengths (P, 2)."""
    distance = np.empty(len(pairs))
    for p in range(len(pairs)):
        distance[p] = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])[0]
    return distance


@kernel
def pair_stiffness(q, q0, step, dofs, turns, rest, share, mu, geometry, slip, w, g, pushed, chord, work, block):
    """Fill the stiffness of a pair, (12, 12); with friction (14, 14): theta of both edges comes last.

    Of the pair first dofs (4,), dofs of theta (2,), rest lengths (2,); `slip` and `g` as in `rod_slip`, `w` shares of the
    vertices in r, `pushed` force [N] and stiffness [N/m] of the law, `chord` as in `rod_friction_block`; `work` is work space.
    """
    x, c, gradient, hessian, soft, slopes, turned = work
    c[:] = 0.0
    soft[:] = 0.0
    free = 0
    distance, _, _, fs, ft, r, _, _ = geometry
    for side in range(2):
        if ft if side else fs:
            c[2 * side, free], c[2 * side + 1, free] = 2.0 * side - 1.0, 1.0 - 2.0 * side
            soft[free] = CLOSEST_POINT_REGULARISATION * rest[side] ** 2
            free += 1
    for v in range(4):
        put(x[v], point(q, dofs[v]))
    squared_distance_derivatives(x, w, c, free, r, gradient, hessian, soft[0], soft[1])
    block[:] = 0.0
    contact_block(w, r, distance, *pushed, gradient, hessian, (0.0, 0.0, 0.0), 0.0, 0.0, 0.0, 0.0, step, block)
    if len(block) == PAIR_UNKNOWNS and step > 0.0:
        slip_slopes(q, q0, step, dofs, turns, share, r, slip[0], w, c, free, soft[0], soft[1], g, slopes, turned)
        rod_friction_block(w, r, distance, g, slopes, turned, slip, mu, *pushed, chord, block)


@kernel
def pair_contact(
    q,
    q0,
    step,
    pairs,
    turns,
    rest,
    touch,
    share,
    before,
    k,
    k1,
    mu,
    k2,
    back,
    conserving,
    want,
    chord,
    residual,
    force,
    active,
    blocks,
):
    """Add minus the contact and friction forces of all pairs, or with `want` fill the stiffness of those that push.

    Arguments: unknowns, those at the start of the step [s]; of the pairs first dofs (P, 4), dofs of theta (P, 2), rest lengths
    (P, 2), C [m], the first radius over C and distances at the start [m]; the constants of contact and friction; what is filled:
    residual and force, or the numbers of pairs that push and their `blocks`, see `pair_stiffness`. Returns energy, largest
    force, overlap, count, and how many push.
    """
    energy, largest, overlap, count, pushing = 0.0, 0.0, 0.0, 0, 0
    g, rubs = np.empty((PAIR_UNKNOWNS, 3)), mu > 0.0 and step > 0.0
    four, hessian, slopes = np.empty((2, 4, 3)), np.empty((4, 4, 3, 3)), np.empty((PAIR_UNKNOWNS, 3))
    work = four[0], np.empty((4, 2)), four[1], hessian, np.empty(2), slopes, np.empty((PAIR_UNKNOWNS, 12))
    for p in range(pairs.shape[0]):
        geometry = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        distance, s, t, _, _, r, _, _ = geometry
        gap, gap0 = touch[p] - distance, touch[p] - before[p]
        if k1 * gap < FADED_EXPONENT and not (conserving and k1 * gap0 > FADED_EXPONENT):
            continue
        w = (1.0 - s, s, t - 1.0, -t)
        e, fn, stiff = mean_penalty(gap, gap0, k, k1) if conserving else penalty(gap, k, k1)
        fn, stiff = pressed(fn, stiff, before[p] - distance, step, k2, back)
        energy, largest, overlap, count = energy + e, max(largest, fn), max(overlap, gap), count + (gap > 0.0)
        slip = (0.0, 0.0, 0.0), 0.0, 0.0, 0.0
        if rubs:
            slip = rod_slip(q, q0, step, pairs[p], turns[p], share[p], geometry, k2, g)
        if want:
            pair = pairs[p], turns[p], rest[p], share[p]
            pair_stiffness(q, q0, step, *pair, mu, geometry, slip, w, g, (fn, stiff), chord, work, blocks[pushing])
            active[pushing] = p
            pushing += 1
            continue
        add_to_four(pairs[p], w, scaled(-fn / distance, r), residual, force)
        for a in range(PAIR_UNKNOWNS if rubs else 0):
            at = pairs[p, a // 3] + a % 3 if a < 12 else turns[p, a - 12]
            rubbed = mu * fn * slip[2] * dot(slip[0], row(g, a))
            residual[at] += rubbed
            force[at] -= rubbed
    return energy, largest, overlap, count, pushing


@kernel
def pairs_closing(q, u, pairs, rest, touch, k, k1, least):
    """Return the largest speed [m/s] with which pairs that push at q by `least` [N] approach or part by the velocities u."""
    fastest = 0.0
    for p in range(pairs.shape[0]):
        distance, s, t, _, _, r, _, _ = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        if penalty(touch[p] - distance, k, k1)[1] > least:
            w = (1.0 - s, s, t - 1.0, -t)
            fastest = max(fastest, abs(approach(u, pairs[p], w, scaled(1.0 / distance, r))))
    return fastest


@kernel
def count_passed(x0, x1, points):
    """Return how many pairs of edges, with vertices (P, 4), pass through each other on the straight way from x0 to x1 (n, 3)."""
    four, end = np.empty((2, 4, 3))
    count = 0
    meeting_edge_share = 1e-6  # of an edge: centre lines that come so near meet
    for p in range(len(points)):
        gather(x0, points[p], four)
        gather(x1, points[p], end)
        e = difference(four[1], four[0])
        near = meeting_edge_share * math.sqrt(dot(e, e))
        count += time_to_gap(four, end - four, True, 0.0, 1.0, near) < 1.0
    return count


@dataclass
class PairContact(ContactTerm):
    """Contact of the pairs of edges in the state's memory, bound to one increment."""

    friction: float
    straight = True

    def __post_init__(self) -> None:
        robot, law, listed = self.state.system.robot, self.state.system.law, self.state.memory
        assert isinstance(listed, Neighbours)
        self.listed, self.pairs, self.holds, self.near = listed, listed.pairs, listed.holds, listed.near
        self.points = robot.edges[self.pairs].reshape(-1, 4)
        self.dofs = 3 * self.points
        self.idle = not len(self.pairs)
        if self.idle:
            return
        # at most to where the list must be made anew
        self.reach, self.turns = COMPLETE_MARGIN_SHARE * listed.margin, self.state.system.turns + self.pairs
        lengths, self.touch = robot.rest_lengths[self.pairs], robot.radius[self.pairs].sum(axis=1)
        self.problem = (
            self.state.q,
            self.pace,
            self.dofs,
            self.turns,
            lengths,
            self.touch,
            robot.radius[self.pairs[:, 0]] / self.touch,
            pair_distances(self.state.q, self.dofs, lengths),
            law.stiffness,
            law.k1,
            self.friction,
            law.k2,
            self.back,
            law.conserving and self.step > 0,
        )

    def _places(self, q: Floats) -> Floats:
        return np.ascontiguousarray(q[: self.state.system.turns]).reshape(-1, 3)

    def escaped(self, q: Floats) -> bool:
        """Whether a vertex has moved so far that pairs may be missing."""
        return not self.holds(q)

    def safe_share(self, q: Floats, dq: Floats) -> float:
        """Return the share of a step in which no centre lines cross; a step beyond the list looks for all on its way."""
        listed, robot = self.holds(q + dq) and self.holds(q), self.state.system.robot
        if listed and self.idle:
            return 1.0
        x, dx = self._places(q), self._places(dq)
        if listed:
            points, touch = self.points, self.touch
        else:
            pairs = find_pairs(robot, x, self.near, 2.0 * moved_most(dx))
            points, touch = robot.edges[pairs].reshape(-1, 4), robot.radius[pairs].sum(axis=1)
        return float(first_touch(x, dx, points, np.ones(len(points), dtype=bool), touch))

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add energy, overlap, number and forces of contacts, and count the rods that passed through each other on the way."""
        super().measure(q, measures)
        passed = count_passed(self._places(self.state.q), self._places(q), self.points)
        measures["crossings"] = measures.get("crossings", 0) + passed

    def closing(self, q: Floats, u: Floats) -> float:
        """Return how fast pairs that push each other at q approach or part."""
        law = self.state.system.law
        if self.idle:
            return 0.0
        return float(pairs_closing(q, u, self.dofs, self.problem[4], self.touch, law.stiffness, law.k1, self.least))

    def contact(
        self, q: Floats, residual: Floats, force: Floats, *, want: bool = False
    ) -> tuple[tuple[float, float, float, int], Ints, Floats]:
        """Add minus the forces of the pairs to the residual, and the forces to `force`; or return their stiffness.

        Few of the pairs listed push.
        """
        room, size = len(self.pairs) if want else 0, PAIR_UNKNOWNS if self.friction > 0 else 12
        active, blocks = np.empty(room, dtype=np.int64), np.empty((room, size, size))
        if self.idle:
            return (0.0, 0.0, 0.0, 0), np.empty((0, size), dtype=np.int64), blocks
        # Far from balance most pairs slip or stick for the first time. The tangent of one that slips knows of no friction to
        # come: Newton's step goes far beyond where it sticks, back and forth. The chord to rest (all of it is 1) stops there.
        chord = 0.3 if self.far else 0.0
        *numbers, pushing = pair_contact(q, *self.problem, want, chord, residual, force, active, blocks)
        dofs = np.empty((0, size), dtype=np.int64)
        if want:
            dofs = (self.dofs[active[:pushing], :, None] + np.arange(3)).reshape(-1, 12)
            dofs = np.concatenate([dofs, self.turns[active[:pushing]]], axis=1)[:, :size]
        return (numbers[0], numbers[1], numbers[2], numbers[3]), dofs, blocks[:pushing]
