"""Cables (tendons) through guides along rods: the tension falls by the capstan equation where they slide.

A guide is a point of a section, fixed to its edge e = x1 - x0 = l t by the material directors: p = x0 + s e + a m1 + b m2. A
cable with the tensions T_j in its pieces, of directions u_j, pulls the guide i between two pieces by::

    F_i = T_i u_i - T_(i-1) u_(i-1),        T_i = T_(i-1) exp(-mu theta_i g(v_i))                        capstan equation

theta_i is the angle between the pieces, T_0 that at the pulled end, v_i the speed with which the cable slides through the guide
towards the pulled end, that of the shortening of all beyond it, and g the law of friction of [Choi2024], tanh(K2 v / 2), as in
`geosim.rods.contact`: at rest by what slid since the equilibrium before. F works on the ends of the edge and on its theta by::

    dp = (1 - s) dx0 + s dx1 + w x r,        w = t x (dx1 - dx0) / l + t dtheta,        r = a m1 + b m2

A cable pulled to a length L0 is a spring of ten times the axial stiffness of the rods over its length:
T_0 = k max(L - L0, 0).
It is longer than commanded by T_0 / k, and the length that is reported is the one that it has.

The Jacobian is made of differences of what the cable does to the unknowns of the edges of its guides, in kernels: exact to 1e-6,
unsymmetric with friction and levers. Frames carried from the start of the increment turn about their edge, too: without work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, put, tuple3
from geosim.linear.sparse import Blocks
from geosim.rods.contact import stick_slip
from geosim.rods.frames import transport
from geosim.rods.state import RodState
from geosim.rods.terms import PULL, Term


@dataclass(frozen=True)
class Pulled:
    """What pulls the cables: tensions [N], and lengths [m] where not nan, (w,)."""

    tensions: Floats
    lengths: Floats


# Step of central differences of forces, over an edge and in rad. A cable is ten times as stiff as its rods: at 1e-6 a tendon arm
# takes a fifth more iterations.
CABLE_DIFFERENCE_REL = 1e-7


@kernel
def _guide(q, told, dold, share, across, jacobian):
    """Return the place of a guide, and fill its derivative (3, 7) by the ends and theta of its edge."""
    x0, x1 = (q[0], q[1], q[2]), (q[3], q[4], q[5])
    e = difference(x1, x0)
    length = math.sqrt(dot(e, e))
    t = (e[0] / length, e[1] / length, e[2] / length)
    d = transport(dold, told, t)
    n = cross(t, d)
    c, s = math.cos(q[6]), math.sin(q[6])
    a, b = across[0] * c - across[1] * s, across[0] * s + across[1] * c
    r = (a * d[0] + b * n[0], a * d[1] + b * n[1], a * d[2] + b * n[2])
    spun = cross(t, r)
    for i in range(3):
        for j in range(3):
            # w x r with w = t x de / l is (de (t . r) - t (de . r)) / l, and r lies across t
            turn = -t[i] * r[j] / length
            one = 1.0 if i == j else 0.0
            jacobian[i, j] = (1.0 - share) * one - turn
            jacobian[i, 3 + j] = share * one + turn
        jacobian[i, 6] = spun[i]
    return x0[0] + share * e[0] + r[0], x0[1] + share * e[1] + r[1], x0[2] + share * e[2] + r[2]


@kernel
def _pull(p, before, order, tension, stiffness, wanted, mu, pace, sharp, force, taut):
    """Fill the forces of a cable on its guides (g, 3), and tension and length of its pieces from the pulled end on (g - 1, 2).

    `before` are the lengths beyond every guide at the start, `order` (g,) the guides from the pulled end on.
    """
    count = len(order)
    pieces, length = np.empty((count - 1, 4)), 0.0
    for k in range(count - 1):
        i, j = order[k], order[k + 1]
        square = 0.0
        for c in range(3):
            pieces[k, c] = p[j, c] - p[i, c]
            square += pieces[k, c] ** 2
        pieces[k, 3] = math.sqrt(square)
        length += pieces[k, 3]
        for c in range(3):
            pieces[k, c] /= max(pieces[k, 3], MIN_DIVISOR)
    if stiffness > 0.0:
        tension = stiffness * max(length - wanted, 0.0)
    force[:] = 0.0
    now, beyond = tension, length
    for k in range(count - 1):
        if k > 0 and mu > 0.0:
            beyond -= pieces[k - 1, 3]
            along = 0.0
            for c in range(3):
                along += pieces[k, c] * pieces[k - 1, c]
            angle = math.acos(min(max(along, -1.0), 1.0))
            slides = (before[k] - beyond) / pace
            now *= math.exp(-mu * angle * slides * stick_slip(abs(slides), sharp)[0])
        taut[k, 0], taut[k, 1] = now, pieces[k, 3]
        i, j = order[k], order[k + 1]
        for c in range(3):
            force[i, c] += now * pieces[k, c]
            force[j, c] -= now * pieces[k, c]


@kernel
def _work(jacobians, force, k):
    """Return what the forces on the guides (g, 3) do to unknown k of the edges of the guides."""
    i, a = k // 7, k % 7
    return jacobians[i, 0, a] * force[i, 0] + jacobians[i, 1, a] * force[i, 1] + jacobians[i, 2, a] * force[i, 2]


@kernel
def cable_pull(own, told, dold, shares, across, problem, pulls, taut):
    """Fill what a cable does to the unknowns (g, 7) of the edges of its guides [N, N m], and its pieces; see `_pull`."""
    count = len(own)
    p, force = np.empty((2, count, 3))
    jacobians = np.empty((count, 3, 7))
    for i in range(count):
        put(p[i], _guide(own[i], told[i], dold[i], shares[i], across[i], jacobians[i]))
    _pull(p, *problem, force, taut)
    for k in range(7 * count):
        pulls[k // 7, k % 7] = _work(jacobians, force, k)


@kernel
def cable_stiffness(own, told, dold, shares, across, problem, out):
    """Fill minus the Jacobian of what a cable does to the unknowns of its guides, (7 g, 7 g); arguments as `cable_pull`."""
    count = len(own)
    p, force = np.empty((2, count, 3))
    jacobians, taut = np.empty((count, 3, 7)), np.empty((count - 1, 2))
    for i in range(count):
        put(p[i], _guide(own[i], told[i], dold[i], shares[i], across[i], jacobians[i]))
    out[:] = 0.0
    for m in range(7 * count):
        i, b = m // 7, m % 7
        e = difference(tuple3(own[i, 3:]), tuple3(own[i]))
        was, h = own[i, b], CABLE_DIFFERENCE_REL * (math.sqrt(dot(e, e)) if b < 6 else 1.0)
        for sign in (-1.0, 1.0):
            own[i, b] = was + sign * h
            put(p[i], _guide(own[i], told[i], dold[i], shares[i], across[i], jacobians[i]))
            _pull(p, *problem, force, taut)
            for k in range(7 * count):
                out[k, m] -= sign * _work(jacobians, force, k) / (2.0 * h)
        own[i, b] = was
        put(p[i], _guide(own[i], told[i], dold[i], shares[i], across[i], jacobians[i]))


def _pulls(own: Floats, frame: tuple[Any, ...], problem: tuple[Any, ...]) -> tuple[Floats, Floats]:
    """Return what a cable does to the unknowns of its guides (g, 7), and its pieces, (g - 1, 2); see `cable_pull`."""
    pulls, taut = np.empty((len(own), 7)), np.empty((len(own) - 1, 2))
    cable_pull(own, *frame, problem, pulls, taut)
    return pulls, taut


@dataclass
class Cables(Term):
    """The pull of all cables, bound to one increment."""

    pulled: Pulled
    kind = PULL

    def __post_init__(self) -> None:
        state, system = self.state, self.state.system
        robot = system.robot
        self._cables = []
        # of E A of the thickest rod: a steel cable in a soft arm is thousands of times as stiff, and would cost digits
        cable_stiffness_ratio = 10.0
        for k, (cable, guides) in enumerate(zip(robot.cables, robot.guides)):
            dofs = np.column_stack([system.stencils.springs[guides.edges], system.turns + guides.edges])
            count = len(dofs)
            order = np.arange(count) if cable.pulled == "first" else np.arange(count)[::-1].copy()
            frame = (
                np.ascontiguousarray(state.tangents[guides.edges]),
                np.ascontiguousarray(state.directors[guides.edges]),
                np.array(guides.share),
                np.array(guides.across),
            )
            pieces = _pulls(state.q[dofs], frame, (np.zeros(count), order, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0))[1][:, 1]
            beyond = np.append(np.cumsum(pieces[::-1])[::-1], 0.0)
            held = np.isfinite(self.pulled.lengths[k])
            stiffness = cable_stiffness_ratio * system.axial / cable.length if held else 0.0
            wanted = float(self.pulled.lengths[k]) if held else 0.0
            problem = (
                beyond,
                order,
                float(self.pulled.tensions[k]),
                stiffness,
                wanted,
                cable.friction,
                self.pace,
                system.law.k2,
            )
            self._cables.append((dofs, frame, problem))

    def pulls(self, q: Floats) -> list[tuple[Ints, Floats, Floats]]:
        """Return of every cable the degrees of freedom of its guides (g, 7), forces on them, and its pieces.

        Pieces are tensions [N] and lengths [m] from the pulled end on, (g - 1, 2).
        """
        return [(dofs, *_pulls(q[dofs], frame, problem)) for dofs, frame, problem in self._cables]

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the forces of the cables."""
        largest = 0.0
        for dofs, force, taut in self.pulls(q):
            np.subtract.at(residual, dofs, force)
            largest = max(largest, taut[0, 0])
        return 0.0, largest

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Return minus the Jacobian."""
        parts = []
        for dofs, frame, problem in self._cables:
            block = np.empty((dofs.size, dofs.size))
            cable_stiffness(q[dofs], *frame, problem, block)
            parts.append(Blocks.of(self.state.system.pattern.unknown, dofs.reshape(1, -1), block[None]))
        return Blocks.joined(parts) if parts else None

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add lengths [m] and tensions [N] of the cables, at the pulled end and at both ends."""
        pieces = [taut for _, _, taut in self.pulls(q)]
        measures["cable_lengths"] = np.array([taut[:, 1].sum() for taut in pieces])
        measures["cable_tensions"] = np.array([taut[0, 0] for taut in pieces])
        ways = [1 if cable.pulled == "first" else -1 for cable in self.state.system.robot.cables]
        ends = [taut[[0, -1], 0][::way] for taut, way in zip(pieces, ways)]
        measures["cable_end_tensions"] = np.array(ends).reshape(-1, 2)


def cable_work(state: RodState, step: float, before: Pulled, after: Pulled, q: Floats) -> tuple[float, float]:
    """Return the work of what pulls at the cables, and what friction in the guides took of it, on the way to q [J].

    The pulled end moves by what the cable becomes shorter, at the mean of its tensions before and after: exact for tensions that
    stay, where force times way errs by the turn of the levers in an increment.
    """
    starts, ends = (Cables(state, step, pulled).pulls(x) for pulled, x in ((before, state.q), (after, q)))
    work = lost = 0.0
    for (*_, begun), (*_, ended) in zip(starts, ends):
        tension, shorter = ended[:, 0], begun[:, 1] - ended[:, 1]
        mean = 0.5 * (begun[0, 0] + tension[0])
        work += mean * float(shorter.sum())
        if tension[0] > 0.0:
            lost += mean * float((1.0 - tension / tension[0]) @ shorter)
    return work, lost
