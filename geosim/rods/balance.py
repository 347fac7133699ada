"""The balance of forces of one increment: residual and Jacobian, Eqs. (4) and (7) of [Lahoti]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.rods.elastic import bend_twist_hessian, stretch_hessian
from geosim.rods.midedge import midedge_hessian
from geosim.rods.shells import hinge_hessian, spring_hessian
from geosim.rods.state import RodState, Trial, evaluate
from geosim.rods.system import System

__all__ = ["Balance", "Term", "Triplets", "UserForce"]


@dataclass
class Triplets:
    """Entries of a Jacobian outside the symmetric pattern; rows and columns are unknowns of the solver."""

    row: Any
    col: Any
    data: Any


class Term(Protocol):
    """A force beyond elasticity, inertia and dead loads, bound to one increment."""

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the force to the residual; return (energy [J], largest force [N])."""

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Add the symmetric stiffness to the flat values; return the unsymmetric part, or None."""


@kernel
def add_inertia(f, a, q, q0, b):
    """Add a (q - q0) - b to f."""
    for i in range(f.shape[0]):
        f[i] += a[i] * (q[i] - q0[i]) - b[i]


@kernel
def add_diagonal(values, diagonal, a, order):
    """Add a of the free unknowns to the diagonal."""
    for i in range(order.shape[0]):
        values[diagonal[i]] += a[order[i]]


@kernel
def largest_free(f, free, turns):
    """Return the largest free residual of the translations and of the turns; nan becomes inf."""
    force, moment = 0.0, 0.0
    for i in range(f.shape[0]):
        if free[i]:
            value = abs(f[i])
            if not value < np.inf:
                return np.inf, np.inf
            if i < turns:
                force = max(force, value)
            else:
                moment = max(moment, value)
    return force, moment


@dataclass
class Balance:
    """f(q) = a (q - q0) - b + dE/dq + terms, with a and b of one increment.

    Parameters
    ----------
    state
        Start of the increment; its frames are carried to every trial.
    natural
        Natural strains of the increment, shape (S + H, 3) or (S + H + T, 3).
    external
        Dead forces with the weight [N], shape (dofs,).
    step
        h [s]; 0 = static.
    damping
        Mass-proportional damping [1/s].
    terms
        Contact, obstacles, user forces.
    """

    system: System
    state: RodState
    natural: Floats
    external: Floats
    step: float
    damping: float = 0.0
    terms: Sequence[Term] = ()

    def __post_init__(self) -> None:
        system, h = self.system, self.step
        if h > 0:
            self.a = system.mass * (1.0 / h**2 + self.damping / h) + system.viscous / h
            self.b = system.mass * (self.state.u / h) + self.external
        else:
            self.a = np.zeros(system.dofs)
            self.b = self.external
        self.order = system.pattern.order
        turns = system.turns
        self.load_scale = float(np.abs(self.b[:turns]).max())
        # below this the residual is round-off of strains and of positions
        size = float(np.abs(self.state.q[:turns]).max()) + 1e-300
        eps = 8 * np.finfo(float).eps
        shell = system.shell
        stiffest = max(
            float((system.axial / system.rest).max(initial=0.0)), float((shell.stretch / shell.rest).max(initial=0.0))
        )
        self.noise = eps * (stiffest * size + float(self.a[:turns].max(initial=0.0)) * size)
        stiff = max(float(system.bending.max(initial=0.0)), float(shell.matrices.max(initial=0.0)))
        self.radius = float(system.vertex_radius.max(initial=0.0))
        self.turn_noise = 80 * eps * stiff + 1e-3 * self.noise * self.radius

    def residual(self, q: Floats) -> tuple[Trial, Floats]:
        """Return the elastic trial and f of all degrees of freedom at q."""
        trial = evaluate(self.system, self.state, q, self.natural)
        f = trial.gradient
        add_inertia(f, self.a, q, self.state.q, self.b)
        for term in self.terms:
            energy, force = term.add_force(q, f)
            trial.energy += energy
            trial.force = max(trial.force, force)
        return trial, f

    def jacobian(self, q: Floats, trial: Trial) -> tuple[Floats, Triplets | None]:
        """Return the flat values of the symmetric part and the unsymmetric rest."""
        system, bends = self.system, self.system.robot.bends
        values = np.zeros(system.pattern.size)
        stretch_hessian(
            system.stretch_edges, system.axial, system.rest, trial.t, trial.length, system.stretch_slots, values
        )
        bend_twist_hessian(
            q,
            system.bend_dofs,
            bends.edges,
            bends.signs,
            system.bending,
            self.natural,
            trial.t,
            trial.length,
            trial.m1,
            trial.m2,
            trial.twist,
            system.bend_slots,
            values,
        )
        shell = system.shell
        if len(shell.rest):
            spring_hessian(q, shell.spring_dofs, shell.stretch, shell.rest, shell.spring_slots, values)
        if len(shell.hinge_dofs):
            hinge_hessian(
                q, shell.hinge_dofs, shell.bending, self.natural[len(trial.twist) :, 0], shell.hinge_slots, values
            )
        if len(shell.face_dofs):
            midedge_hessian(
                q,
                shell.face_dofs,
                shell.sides,
                shell.signs,
                trial.normals,
                shell.matrices,
                self.natural[system.faces_at :],
                shell.face_slots,
                values,
            )
        if self.step > 0:
            add_diagonal(values, system.pattern.diagonal, self.a, self.order)
        extras = [extra for term in self.terms if (extra := term.add_stiffness(q, values)) is not None]
        if not extras:
            return values, None
        return values, Triplets(*(np.concatenate([getattr(e, key) for e in extras]) for key in ("row", "col", "data")))

    def relative(self, trial: Trial, f: Floats) -> float:
        """Return the largest free residual over the largest internal force or moment, above round-off."""
        force, moment = largest_free(f, self.system.free, self.system.turns)
        force_scale = max(trial.force, self.load_scale) + 1e-300
        moment_scale = max(trial.moment, force_scale * self.radius) + 1e-300
        return max(max(force - self.noise, 0.0) / force_scale, max(moment - self.turn_noise, 0.0) / moment_scale)


@dataclass
class UserForce:
    """A user's function (time, positions (n, 3), velocities (n, 3)) -> force (n, 3) [, jacobian (3 n, 3 n)].

    The Jacobian is of the force to the positions, with the velocity (x - x0) / h; dense or sparse. Without it the
    force is followed by the Newton iteration alone.
    """

    function: Callable[..., Any]
    system: System
    state: RodState
    time: float
    step: float

    def _call(self, q: Floats) -> tuple[Floats, Any]:
        turns = self.system.turns
        x = q[:turns].reshape(-1, 3)
        velocity = (q - self.state.q)[:turns].reshape(-1, 3) / self.step if self.step > 0 else np.zeros_like(x)
        answer = self.function(self.time, x.copy(), velocity)
        force, jacobian = answer if isinstance(answer, tuple) else (answer, None)
        force = np.asarray(force, dtype=float)
        if force.shape != x.shape or not np.isfinite(force).all():
            raise InputError(
                f"forces: {getattr(self.function, '__name__', 'the function')} returned shape "
                f"{force.shape}; finite forces of shape {x.shape} [N] needed"
            )
        return force, jacobian

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the user's force."""
        force, _ = self._call(q)
        residual[: self.system.turns] -= force.ravel()
        return 0.0, float(np.abs(force).max(initial=0.0))

    def add_stiffness(self, q: Floats, values: Floats) -> Triplets | None:
        """Return minus the user's Jacobian, if there is one."""
        _, jacobian = self._call(q)
        if jacobian is None:
            return None
        from scipy.sparse import coo_matrix

        entries = coo_matrix(jacobian)
        row, col = self.system.pattern.unknown[entries.row], self.system.pattern.unknown[entries.col]
        keep = (row >= 0) & (col >= 0)
        return Triplets(row[keep], col[keep], -entries.data[keep])
