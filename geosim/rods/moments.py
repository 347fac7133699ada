"""Moments about fixed axes on edges of rods: unlike torques they do not turn with what they act on.

A moment M on an edge e = l t works on its turns. Those across t move its ends, those about t are theta::

    f1 = -f0 = M x e / l^2,        torque on theta = M . t

so that e x f1 + (M . t) t = M wherever the edge points. It has no potential in space, and its Jacobian is unsymmetric::

    df1/de = [M]x / l^2 - 2 (M x e) e^T / l^4,        d(M . t)/de = (M - (M . t) t) / l
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.linear.sparse import Triplets
from geosim.rods.terms import USER, Term

__all__ = ["FixedMoments"]


@dataclass
class FixedMoments(Term):
    """Moments [N m] (m, 3) on edges of rods (m,), bound to one increment."""

    edges: Ints
    moments: Floats
    kind = USER

    @property
    def _dofs(self) -> Ints:
        """Degrees of freedom of both ends and of theta of the edges, (m, 7)."""
        system = self.state.system
        return np.column_stack([system.stencils.springs[self.edges], system.turns + self.edges])

    def _shape(self, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Edges (m, 3), squares of their lengths (m, 1), and M x e (m, 3)."""
        dofs = self._dofs
        e = q[dofs[:, 3:6]] - q[dofs[:, :3]]
        return e, np.einsum("mi,mi->m", e, e)[:, None], np.cross(self.moments, e)

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the forces and torques to the residual."""
        e, square, across = self._shape(q)
        force = across / square
        torque = np.einsum("mi,mi->m", self.moments, e) / np.sqrt(square[:, 0])
        np.subtract.at(residual, self._dofs, np.hstack([-force, force, torque[:, None]]))
        return 0.0, float(np.abs(force).max(initial=0.0))

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Return minus the Jacobian."""
        e, square, across = self._shape(q)
        length = np.sqrt(square)
        turned = np.cross(self.moments[:, None], np.eye(3)).transpose(0, 2, 1)  # [M]x
        bent = turned / square[:, :, None] - 2.0 * across[:, :, None] * e[:, None] / square[:, :, None] ** 2
        spun = self.moments / length - np.einsum("mi,mi->m", self.moments, e)[:, None] * e / length**3
        blocks = np.zeros((len(e), 7, 7))
        blocks[:, :3, :3] = blocks[:, 3:6, 3:6] = -bent
        blocks[:, :3, 3:6] = blocks[:, 3:6, :3] = bent
        blocks[:, 6, :3], blocks[:, 6, 3:6] = spun, -spun
        return Triplets.of_blocks(self.state.system.pattern.unknown, self._dofs, blocks)
