"""Contact and friction of shells with themselves and with rods: vertices against triangles and edges against edges.

A pair at the distance d below C (see `geosim.rods.sheets`) stores::

    E = -k C^2 u^2 log(1 - u),   u = 1 - d / C,

smooth at d = C and infinite at d = 0, where d is the least distance of a vertex and a triangle, or of two edges. [Lahoti] leaves
this to future work and approximates triangles by their edges. A shell is thin: where rods, thick and smooth, may overlap a
little by the law of `geosim.rods.contact`, a shell that overlapped would be on the wrong side. Friction is the same.

1. Edges that become parallel fade out: their energy is multiplied by s (2 - s), s = |u x v|^2 over 1e-3 of |u|^2 |v|^2 at rest
   (the distance of parallel edges has no gradient, and then vertices carry the contact).
2. The Jacobian of friction neglects how the normal turns; forces are exact.
3. Where impacts keep their energy (`geosim.rods.contact.ContactLaw.conserving`) the force is the mean over the increment, as
   that of rods is; the factor of edges that fade is that at its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.crossings import count_crossings
from geosim.collision.distance import (
    edge_edge,
    gather,
    pair_distance,
    point_triangle,
    separation,
    squared_distance_derivatives,
)
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, difference, dot, scaled
from geosim.rods.contact import MIN_MEAN_CHANGE, add_to_four, approach, contact_block, four_slip, pressed
from geosim.rods.sheets import Sheet
from geosim.rods.terms import ContactTerm


@kernel
def _law(u):
    """Value, slope and curvature of -u^2 log(1 - u)."""
    log, rest = math.log1p(-u), 1.0 - u
    return -u * u * log, -2.0 * u * log + u * u / rest, -2.0 * log + 4.0 * u / rest + (u / rest) ** 2


@kernel
def _mean_law(u, before):
    """Value at u, mean slope since `before` and its slope by u; both of pairs that touch, or 0 and less."""
    value, slope, _ = _law(max(u, 0.0))
    if abs(u - before) < MIN_MEAN_CHANGE:
        _, mean, curvature = _law(max(0.5 * (u + before), 0.0))
        return value, mean, 0.5 * curvature
    mean = (value - _law(max(before, 0.0))[0]) / (u - before)
    return value, mean, (slope - mean) / (u - before)


@kernel
def _pair(x):
    """Vectors of two edges and their products (uu, uv, vv)."""
    u, v = difference(x[1], x[0]), difference(x[3], x[2])
    return u, v, dot(u, u), dot(u, v), dot(v, v)


@kernel
def _fade(x, rest, gradient):
    """Return the factor of two edges and its first and second derivative by c = |u x v|^2; fill dc/dx (4, 3)."""
    u, v, uu, uv, vv = _pair(x)
    _, _, ru, _, rv = _pair(rest)
    # sine squared of the angle, 1.8 degrees, below which edges fade: vertices have taken over by then
    fading_edges_sin2 = 1e-3
    limit = fading_edges_sin2 * ru * rv
    s = (uu * vv - uv * uv) / limit
    if s >= 1.0:
        return 1.0, 0.0, 0.0
    along_u, along_v = combine(2.0 * vv, u, -2.0 * uv, v), combine(2.0 * uu, v, -2.0 * uv, u)
    for k in range(3):
        gradient[0, k], gradient[1, k] = -along_u[k], along_u[k]
        gradient[2, k], gradient[3, k] = -along_v[k], along_v[k]
    return s * (2.0 - s), (2.0 - 2.0 * s) / limit, -2.0 / limit**2


@kernel
def _fade_curvature(x, i, j, k, m):
    """d2c / dx_ik dx_jm of c = |u x v|^2."""
    u, v, uu, uv, vv = _pair(x)
    same = 1.0 if k == m else 0.0
    sign = -2.0 if (i + j) % 2 else 2.0
    if i < 2 and j < 2:
        return sign * (vv * same - v[k] * v[m])
    if i >= 2 and j >= 2:
        return sign * (uu * same - u[k] * u[m])
    if i < 2:
        return sign * (2.0 * u[k] * v[m] - v[k] * u[m] - uv * same)
    return sign * (2.0 * v[k] * u[m] - u[k] * v[m] - uv * same)


@kernel
def _stiffen_fading(x, whole, by_square, first, second, dc, dD, block):
    """Add to the stiffness (12, 12) of two edges x (4, 3) how the factor with which they fade bends their energy `whole` [J]."""
    for a in range(12):
        i, m = a // 3, a % 3
        for b in range(12):
            j, n = b // 3, b % 3
            bent = first * _fade_curvature(x, i, j, m, n) + second * dc[i, m] * dc[j, n]
            block[a, b] += whole * bent + by_square * first * (dc[i, m] * dD[j, n] + dD[i, m] * dc[j, n])


@kernel
def sheet_contact(
    x, x0, q, q0, step, rest, points, edges, touch, k, mu, k2, back, conserving, want, residual, force, active, blocks
):
    """Add minus contact and friction forces of all pairs, or with `want` fill the stiffness of those that push.

    Arguments: positions (n, 3), those at the start; unknowns, those at the start of the step [s]; rest positions; of the pairs
    vertices (P, 4), whether two edges, and C [m]; the constants of contact and friction; what is filled: residual and force, or
    the numbers of pairs that push and their `blocks` (P, 12, 12). Returns energy, largest force, deepest overlap, count, and how
    many push.
    """
    four, old, w, c, e = np.empty((4, 3)), np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    dc, w0, c0, e0 = np.zeros((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    dD, ddD = np.empty((4, 3)), np.empty((4, 4, 3, 3))
    energy, largest, overlap, count, pushing = 0.0, 0.0, 0.0, 0, 0
    for p in range(len(points)):
        reach, dofs = touch[p], 3 * points[p]
        gather(x, points[p], four)
        free = edge_edge(four, w, c) if edges[p] else point_triangle(four, w, c)
        d = separation(four, w, e)
        gather(x0, points[p], old)
        before = pair_distance(old, edges[p], w0, c0, e0)
        if d >= reach and not (conserving and before < reach):
            continue
        if d <= 0.0:
            return np.inf, np.inf, reach, count, pushing
        u1, u0 = 1.0 - d / reach, 1.0 - before / reach
        value, slope, curvature = _mean_law(u1, u0) if conserving else _law(u1)
        fade, first, second = 1.0, 0.0, 0.0
        if edges[p]:
            gather(rest, points[p], old)
            fade, first, second = _fade(four, old, dc)
        whole, push = k * reach * reach * value, k * reach * slope
        fn, stiff = pressed(fade * push, fade * k * curvature, before - d, step, k2, back)
        energy, largest, overlap, count = (
            energy + fade * whole,
            max(largest, fn),
            max(overlap, reach - d),
            count + (d < reach),
        )
        slip = four_slip(q, q0, step, dofs, w, e, mu, k2)
        if want:
            squared_distance_derivatives(four, w, c, free, e, dD, ddD)
            contact_block(w, e, d, fn, stiff, dD, ddD, *slip, mu, step, blocks[pushing])
            if first != 0.0:
                _stiffen_fading(four, whole, -push / (2.0 * d), first, second, dc, dD, blocks[pushing])
            active[pushing] = p
            pushing += 1
            continue
        add_to_four(dofs, w, combine(mu * fn * slip[2], slip[0], -fn / d, e), residual, force)
        for i in range(12 if first != 0.0 else 0):
            f = whole * first * dc[i // 3, i % 3]
            residual[dofs[i // 3] + i % 3] += f
            force[dofs[i // 3] + i % 3] -= f
    return energy, largest, overlap, count, pushing


@kernel
def sheet_closing(x, u, points, edges, touch, k, least):
    """Return the largest speed [m/s] with which pairs that push by `least` [N] approach or part by the velocities u."""
    four, w, c, e = np.empty((4, 3)), np.empty(4), np.empty((4, 2)), np.empty(3)
    fastest = 0.0
    for p in range(len(points)):
        gather(x, points[p], four)
        d = pair_distance(four, edges[p], w, c, e)
        if 0.0 < d < touch[p] and k * touch[p] * _law(1.0 - d / touch[p])[1] > least:
            fastest = max(fastest, abs(approach(u, 3 * points[p], w, scaled(1.0 / d, e))))
    return fastest


@dataclass
class SheetContact(ContactTerm):
    """Contact of a shell with itself, bound to one increment."""

    friction: float

    def __post_init__(self) -> None:
        system = self.state.system
        assert system.sheet is not None
        self.sheet: Sheet = system.sheet
        # mean edges beyond contact in a list of pairs: lasts some steps, and holds a few pairs a vertex
        list_margin_edges = 0.25
        # the mean of all edges of triangles, which stand after those of rods
        self.margin = list_margin_edges * float(system.rest[len(system.robot.edges) :].mean())
        self.start = (self.state.q, self.pace, self.sheet.rest)
        self.places0 = self._places(self.state.q)
        self.conserving = system.law.conserving and self.step > 0
        self.law = (system.law.stiffness, self.friction, system.law.k2, self.back, self.conserving)

    def _places(self, q: Floats) -> Floats:
        return np.ascontiguousarray(q[: self.state.system.turns]).reshape(-1, 3)

    def safe_share(self, q: Floats, dq: Floats) -> float:
        """Return the share of a step that nothing crosses."""
        return self.sheet.safe_share(self._places(q), self._places(dq))

    def closing(self, q: Floats, u: Floats) -> float:
        """Return how fast pairs that push each other at q approach or part."""
        x, stiffness = self._places(q), self.state.system.law.stiffness
        pairs = self.sheet.near(x, self.margin)
        return float(sheet_closing(x, u, pairs.points, pairs.edges, pairs.touch, stiffness, self.least))

    def contact(
        self, q: Floats, residual: Floats, force: Floats, *, want: bool = False
    ) -> tuple[tuple[float, float, float, int], Ints, Floats]:
        """Add minus the forces of all pairs to the residual, and the forces to `force`; or return their stiffness."""
        x = self._places(q)
        # those too that part where impacts keep their energy
        places = (x, self.places0) if self.conserving else (x,)
        points, edges, touch = self.sheet.near(x, self.margin).touching(*places)
        room = len(points) if want else 0
        active, blocks = np.empty(room, dtype=np.int64), np.empty((room, 12, 12))
        pairs, filled = (points, edges, touch), (residual, force, active, blocks)
        *numbers, pushing = sheet_contact(x, self.places0, q, *self.start, *pairs, *self.law, want, *filled)
        if not np.isfinite(numbers[0]) and not want:
            residual[0] = np.nan
        dofs = (3 * points[active[:pushing], :, None] + np.arange(3)).reshape(-1, 12)
        return (numbers[0], numbers[1], numbers[2], numbers[3]), dofs, blocks[:pushing]

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add energy, overlap, number and forces of contacts, and count the crossings of the shell."""
        super().measure(q, measures)
        found = count_crossings(self._places(q), np.array(self.state.system.robot.triangles)).count
        measures["crossings"] = measures.get("crossings", 0) + found
