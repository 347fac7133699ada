"""Aerodynamic drag on shells, Eq. (29) and appendix B of [Lahoti].

Every triangle with unit normal n and rest area A pushes each of its vertices, which moves with u, by::

    F = -(rho C_D A / 6) |u . n| (u . n) n

with the fluid at rest. The Jacobian is exact: dn = (I - n n^T) dN / |N| with N the area vector, du = dx / h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot, scaled
from geosim.linear.sparse import Blocks
from geosim.rods.frames import point
from geosim.rods.midedge import normal_slopes, triangle_edges
from geosim.rods.terms import DRAG, Term


@kernel
def drag_force(q, q0, step, dofs, factor, residual):
    """Add minus the drag of all triangles; return the largest force. `factor` rho C_D A / 6 [kg/m] by triangle."""
    largest = 0.0
    for t in range(dofs.shape[0]):
        _, n, _ = triangle_edges(q, dofs, t)
        for v in range(3):
            i = dofs[t, 3 * v]
            s = dot(difference(point(q, i), point(q0, i)), n) / step
            force = factor[t] * abs(s) * s
            largest = max(largest, abs(force))
            for j in range(3):
                residual[i + j] += force * n[j]
    return largest


@kernel
def drag_jacobian(q, q0, step, dofs, factor, blocks):
    """Fill blocks (T, 9, 9) with the Jacobian of minus the drag."""
    dn, dsize = np.empty((9, 3)), np.empty(9)
    for t in range(dofs.shape[0]):
        edges, n, size = triangle_edges(q, dofs, t)
        normal_slopes(edges, n, size, dn, dsize)
        for b in range(9):
            for v in range(3):
                k = dofs[t, 3 * v]
                u = scaled(1.0 / step, difference(point(q, k), point(q0, k)))
                s = dot(u, n)
                ds = dot(u, dn[b]) + (n[b % 3] / step if b // 3 == v else 0.0)
                for i in range(3):
                    blocks[t, 3 * v + i, b] = factor[t] * abs(s) * (2.0 * ds * n[i] + s * dn[b, i])


@dataclass
class Drag(Term):
    """Drag of all triangles, bound to one increment."""

    kind = DRAG

    def __post_init__(self) -> None:
        robot, fluid = self.state.system.robot, self.state.system.environment.fluid
        assert fluid is not None
        self.dofs = (3 * robot.triangles[:, :, None] + np.arange(3)).reshape(-1, 9)
        self.factor = fluid.density * fluid.drag_coefficient / 6.0 * robot.mesh.areas

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the drag to the residual."""
        return 0.0, drag_force(q, self.state.q, self.step, self.dofs, self.factor, residual)

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Return the Jacobian of minus the drag."""
        blocks = np.empty((len(self.dofs), 9, 9))
        drag_jacobian(q, self.state.q, self.step, self.dofs, self.factor, blocks)
        return Blocks.of(self.state.system.pattern.unknown, self.dofs, blocks)
