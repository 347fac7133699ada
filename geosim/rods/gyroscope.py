"""The gyroscopic forces of edges that spin about themselves while they turn.

An edge with the moment of inertia I about itself [kg m^2], unit tangent t and spin w [rad/s] has the angular momentum I w t. The
balance of theta changes w; what turns t is a couple -I w t' on the edge, with the forces on its ends::

    f1 = -f0 = I w t x (v1 - v0) / l^2

which do no work. [Choi2024] and [Lahoti] leave them out: then the momentum of a rod drifts where friction or twist spin it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot
from geosim.rods.frames import point
from geosim.rods.terms import DRAG, Term


@kernel
def gyroscope_force(q, q0, step, dofs, inertia, turns, residual):
    """Add minus the forces of all edges; return the largest.

    `dofs` (E, 6) of the ends of edges, `inertia` (E,) [kg m^2]; theta follows from the unknown `turns` on.
    """
    largest = 0.0
    for i in range(inertia.shape[0]):
        e = difference(point(q, dofs[i, 3]), point(q, dofs[i, 0]))
        old = difference(point(q0, dofs[i, 3]), point(q0, dofs[i, 0]))
        square = dot(e, e)
        rate = inertia[i] * (q[turns + i] - q0[turns + i]) / (step * step * square * math.sqrt(square))
        f = cross(old, e)  # -e x (e - old)
        for j in range(3):
            residual[dofs[i, 3 + j]] -= rate * f[j]
            residual[dofs[i, j]] += rate * f[j]
            largest = max(largest, abs(rate * f[j]))
    return largest


@dataclass
class Gyroscope(Term):
    """Gyroscopic forces of all edges, bound to one increment; Newton's method follows them without their Jacobian.

    They are smaller than inertia by (r / l)^2 times the spin in an increment, and their Jacobian is skew: it would cost the band.
    """

    kind = DRAG

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the forces to the residual; they store nothing."""
        system = self.state.system
        edges = len(system.robot.edges)
        inertia, dofs = system.mass[system.turns : system.turns + edges], system.stencils.springs[:edges]
        return 0.0, gyroscope_force(q, self.state.q, self.step, dofs, inertia, system.turns, residual)
