"""Aerodynamic drag on shells, Eq. (29) and appendix B of [Lahoti].

Every triangle with unit normal n and rest area A pushes each of its vertices, which moves with u, by::

    F = -(rho C_D A / 6) |u . n| (u . n) n

with the fluid at rest. The Jacobian is exact: dn = (I - n n^T) dN / |N| with N the area vector, du = dx / h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.rods.balance import Triplets
from geosim.rods.frames import cross, dot
from geosim.rods.state import RodState
from geosim.rods.system import System

__all__ = ["Drag"]


@kernel
def _triangle(q, dofs, t):
    """Return two edges, the unit normal and twice the area of a triangle."""
    a, b, c = dofs[t, 0], dofs[t, 3], dofs[t, 6]
    e = (q[b] - q[a], q[b + 1] - q[a + 1], q[b + 2] - q[a + 2])
    f = (q[c] - q[a], q[c + 1] - q[a + 1], q[c + 2] - q[a + 2])
    n = cross(e, f)
    size = math.sqrt(dot(n, n))
    return e, f, (n[0] / size, n[1] / size, n[2] / size), size


@kernel
def drag_force(q, q0, step, dofs, factor, residual):
    """Add minus the drag of all triangles; return the largest force. `factor` rho C_D A / 6 [kg/m] by triangle."""
    largest = 0.0
    for t in range(dofs.shape[0]):
        _, _, n, _ = _triangle(q, dofs, t)
        for v in range(3):
            i = dofs[t, 3 * v]
            s = ((q[i] - q0[i]) * n[0] + (q[i + 1] - q0[i + 1]) * n[1] + (q[i + 2] - q0[i + 2]) * n[2]) / step
            force = factor[t] * abs(s) * s
            largest = max(largest, abs(force))
            for j in range(3):
                residual[i + j] += force * n[j]
    return largest


@kernel
def drag_jacobian(q, q0, step, dofs, factor, blocks):
    """Fill blocks (T, 9, 9) with the Jacobian of minus the drag."""
    dn = np.empty((3, 3, 3))
    for t in range(dofs.shape[0]):
        e, f, n, size = _triangle(q, dofs, t)
        g = (f[0] - e[0], f[1] - e[1], f[2] - e[2])
        for j in range(3):
            unit = (1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0)
            for b in range(3):
                d = cross(g, unit) if b == 0 else (cross(unit, f) if b == 1 else cross(e, unit))
                along = dot(n, d)
                for i in range(3):
                    dn[b, i, j] = (d[i] - along * n[i]) / size
        for v in range(3):
            k = dofs[t, 3 * v]
            u = ((q[k] - q0[k]) / step, (q[k + 1] - q0[k + 1]) / step, (q[k + 2] - q0[k + 2]) / step)
            s = dot(u, n)
            for b in range(3):
                for j in range(3):
                    ds = u[0] * dn[b, 0, j] + u[1] * dn[b, 1, j] + u[2] * dn[b, 2, j]
                    if b == v:
                        ds += n[j] / step
                    for i in range(3):
                        blocks[t, 3 * v + i, 3 * b + j] = factor[t] * abs(s) * (2.0 * ds * n[i] + s * dn[b, i, j])


@dataclass
class Drag:
    """Drag of all triangles, bound to one increment."""

    system: System
    state: RodState
    step: float

    def __post_init__(self) -> None:
        robot, fluid = self.system.robot, self.system.environment.fluid
        assert fluid is not None
        self.dofs = (3 * robot.triangles[:, :, None] + np.arange(3)).reshape(-1, 9)
        self.factor = fluid.density * fluid.drag_coefficient / 6.0 * robot.mesh.areas

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the drag to the residual."""
        return 0.0, drag_force(q, self.state.q, self.step, self.dofs, self.factor, residual)

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Return the Jacobian of minus the drag."""
        blocks = np.empty((len(self.dofs), 9, 9))
        drag_jacobian(q, self.state.q, self.step, self.dofs, self.factor, blocks)
        unknown = self.system.pattern.unknown[self.dofs]
        row, col = np.broadcast_arrays(unknown[:, :, None], unknown[:, None, :])
        keep = (row >= 0) & (col >= 0)
        return Triplets(row[keep], col[keep], blocks[keep])
