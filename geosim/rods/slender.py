"""Drag of a viscous fluid on slender rods, along and across them: resistive force theory.

A length dl of a rod with unit tangent t that moves with u through a fluid at rest is pushed by
[Gray and Hancock 1955, J. Exp. Biol. 32]::

    dF = -(c_t (u . t) t + c_n (u - (u . t) t)) dl

with the coefficients c_t < c_n [N s/m^2]; every vertex carries half of its edges at rest. A rod that bends in waves swims because
c_n is larger than c_t. Newton's method neglects how t turns: that would cost the band of the matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geosim.arrays import Floats, number
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, difference, dot, scaled
from geosim.linear.sparse import Blocks
from geosim.rods.frames import point
from geosim.rods.terms import DRAG, Term


def gray_hancock(viscosity: float, wavelength: float, radius: float) -> tuple[float, float]:
    """Return c_t and c_n [N s/m^2] of a rod of some radius [m] that bends in waves of some length [m], viscosity [Pa s].

    Those of [Gray and Hancock 1955]: 2 pi mu / (log(2 l / r) - 1/2) along and 4 pi mu / (log(2 l / r) + 1/2) across.

    Raises
    ------
    InputError
        A number is not positive, or waves are not longer than a diameter.
    """
    number(viscosity, "gray_hancock: viscosity [Pa s]", above=0.0)
    number(radius, "gray_hancock: radius [m]", above=0.0)
    number(wavelength, "gray_hancock: wavelength [m]", above=2.0 * radius)
    slender = math.log(2.0 * wavelength / radius)
    return 2.0 * math.pi * viscosity / (slender - 0.5), 4.0 * math.pi * viscosity / (slender + 0.5)


@kernel
def slender_force(q, q0, step, dofs, rest, along, across, residual):
    """Add minus the drag on all edges; return the largest force. `dofs` (E, 6) of their ends, `rest` lengths [m]."""
    largest = 0.0
    for i in range(dofs.shape[0]):
        e = difference(point(q, dofs[i, 3]), point(q, dofs[i, 0]))
        t = scaled(1.0 / math.sqrt(dot(e, e)), e)
        for end in range(2):
            at = dofs[i, 3 * end]
            u = scaled(0.5 * rest[i] / step, difference(point(q, at), point(q0, at)))
            f = combine(across, u, (along - across) * dot(u, t), t)
            for j in range(3):
                residual[at + j] += f[j]
                largest = max(largest, abs(f[j]))
    return largest


@kernel
def slender_stiffness(q, step, dofs, rest, along, across, slots, values):
    """Add the Jacobian of minus the drag at fixed tangents in packed lower form (21 slots)."""
    for i in range(dofs.shape[0]):
        e = difference(point(q, dofs[i, 3]), point(q, dofs[i, 0]))
        t = scaled(1.0 / math.sqrt(dot(e, e)), e)
        half = 0.5 * rest[i] / step
        for a in range(6):
            for b in range(3 * (a // 3), a + 1):
                h = (along - across) * t[a % 3] * t[b % 3]
                if a == b:
                    h += across
                values[slots[i, a * (a + 1) // 2 + b]] += half * h


@dataclass
class SlenderDrag(Term):
    """Drag along and across all edges of rods [N s/m^2], bound to one increment."""

    along: float
    across: float
    kind = DRAG

    def __post_init__(self) -> None:
        system = self.state.system
        rods = system.robot.own_edges
        self.dofs, self.rest = system.stencils.springs[:rods], system.rest[:rods]

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the drag to the residual."""
        start = self.state.q, self.step
        return 0.0, slender_force(q, *start, self.dofs, self.rest, self.along, self.across, residual)

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Add the Jacobian at fixed tangents."""
        slots = self.state.system.slots.springs
        slender_stiffness(q, self.step, self.dofs, self.rest, self.along, self.across, slots, values)
        return None
