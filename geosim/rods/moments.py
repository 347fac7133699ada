"""Moments about fixed axes on edges of rods: unlike torques they do not turn with what they act on.

A moment M on an edge e = l t works on its turns. Those across t move its ends, those about t are theta::

    f1 = -f0 = M x e / l^2,        torque on theta = M . t

so that e x f1 + (M . t) t = M wherever the edge points. It has no potential in space, and its Jacobian is unsymmetric::

    df1/de = [M]x / l^2 - 2 (M x e) e^T / l^4,        d(M . t)/de = (M - (M . t) t) / l

Moments that depend on the state are asked for at every iterate. How they turn with the directions t of the edges is found by
differences, one for each axis, as if the moment on an edge depended on its own direction alone; the rest Newton's method follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.linear.sparse import Blocks
from geosim.rods.state import evaluate
from geosim.rods.terms import DIFFERENCE_STEP_REL, USER, Term


@dataclass
class Moments(Term):
    """Moments [N m] (m, 3) on edges of rods (m,), bound to one increment that ends at `time` [s].

    With a `function` (time [s], positions (n, 3), tangents (E, 3), directors m1 (E, 3)) -> [N m] (E, 3) they follow the state.
    """

    edges: Ints
    moments: Floats
    function: Callable[..., Any] | None = None
    time: float = 0.0
    kind = USER

    @property
    def _dofs(self) -> Ints:
        """Degrees of freedom of both ends and of theta of the edges, (m, 7)."""
        system = self.state.system
        return np.column_stack([system.stencils.springs[self.edges], system.turns + self.edges])

    def _asked(self, q: Floats, tangents: Floats, directors: Floats) -> Floats:
        """Return what the function answers (m, 3)."""
        assert self.function is not None
        x = q[: self.state.system.turns].reshape(-1, 3).copy()
        moments = np.asarray(self.function(self.time, x, tangents, directors), dtype=float)
        if moments.shape != (len(self.edges), 3) or not np.isfinite(moments).all():
            name = getattr(self.function, "__name__", "the function")
            raise InputError(
                f"moments: {name} returned shape {moments.shape}; finite ({len(self.edges)}, 3) [N m] needed"
            )
        return moments

    def _turning(self, q: Floats, tangents: Floats, directors: Floats) -> Floats:
        """Derivative of the moments by the directions of the edges (m, 3, 3)."""
        by = np.empty((len(tangents), 3, 3))
        for j in range(3):
            turned = tangents + DIFFERENCE_STEP_REL * (np.eye(3)[j] - tangents[:, j : j + 1] * tangents)
            normal = np.cross(tangents, turned)  # the rotation, which directors follow
            by[:, :, j] = (
                self._asked(q, turned, directors + np.cross(normal, directors)) - self.moments
            ) / DIFFERENCE_STEP_REL
        return by

    def _shape(self, q: Floats) -> tuple[Floats, Floats, Floats, Floats | None]:
        """Edges (m, 3), squares of their lengths (m, 1), M x e (m, 3), and how moments that follow turn with the edges."""
        dofs, turning = self._dofs, None
        if self.function is not None:
            trial = evaluate(self.state.system, self.state, q)
            frames = trial.t[self.edges], trial.m1[self.edges]
            self.moments = self._asked(q, *frames)
            turning = self._turning(q, *frames) / trial.length[self.edges, None, None]
        e = q[dofs[:, 3:6]] - q[dofs[:, :3]]
        return e, np.einsum("mi,mi->m", e, e)[:, None], np.cross(self.moments, e), turning

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the forces and torques to the residual."""
        e, square, across, _ = self._shape(q)
        force = across / square
        torque = np.einsum("mi,mi->m", self.moments, e) / np.sqrt(square[:, 0])
        np.subtract.at(residual, self._dofs, np.hstack([-force, force, torque[:, None]]))
        return 0.0, float(np.abs(force).max(initial=0.0))

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Return minus the Jacobian."""
        e, square, across, turning = self._shape(q)
        length = np.sqrt(square)
        turned = np.cross(self.moments[:, None], np.eye(3)).transpose(0, 2, 1)  # [M]x
        bent = turned / square[:, :, None] - 2.0 * across[:, :, None] * e[:, None] / square[:, :, None] ** 2
        spun = self.moments / length - np.einsum("mi,mi->m", self.moments, e)[:, None] * e / length**3
        if turning is not None:
            bent += np.cross(turning, e[:, :, None], axis=1) / square[:, :, None]
            spun += np.einsum("mj,mji->mi", e / length, turning)
        blocks = np.zeros((len(e), 7, 7))
        blocks[:, :3, :3] = blocks[:, 3:6, 3:6] = -bent
        blocks[:, :3, 3:6] = blocks[:, 3:6, :3] = bent
        blocks[:, 6, :3], blocks[:, 6, 3:6] = spun, -spun
        return Blocks.of(self.state.system.pattern.unknown, self._dofs, blocks)
