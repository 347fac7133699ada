"""An equilibrium with its exact tangent: how it answers a small change of the problem, and the adjoint of that.

With the unknowns z (positions x, mean stresses p, pressures P of chambers of prescribed volume) and residuals R(z; q) = 0,

    dz = -K^-1 (dR/dq) dq,        dm = g . dz = lambda . (-dR/dq) dq,    K^T lambda = g,

for a measure m with gradient g. K is factorised once. It is the tangent of Newton's method and what that leaves out (see
`contact_slope`), so with friction it is not symmetric. Of friction the anchors are held: the history up to the increment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from geosim.arrays import Floats, Ints
from geosim.derivatives.contact_slope import beyond_newton
from geosim.errors import InputError
from geosim.linear.factorise import FactorisationError
from geosim.shape.energy.configuration import Evaluation
from geosim.shape.energy.grip import Grip
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState

__all__ = ["Change", "Direction", "Tangent"]

ACCURACY = 1e-10  # of the linear solves: a derivative is asked for to 1e-4, through residuals that weigh unlike


@dataclass(frozen=True)
class Change:
    """What a change of the problem does at an equilibrium that stays where it is, scaled.

    Parameters
    ----------
    right
        Forces and constraints that are missing then, minus the change of the residuals, (unknowns,).
    gap
        Volumes that are missing, (c,); read where they are prescribed.
    known
        Displacements of held unknowns, (unknowns,); 0 elsewhere.
    pressures
        Change of the prescribed pressures, (c,).
    motion
        Motion of prescribed rigid groups, (g, 6).
    """

    right: Floats
    gap: Floats
    known: Floats
    pressures: Floats
    motion: Floats

    def combined(self, share: float, other: Change, weight: float) -> Change:
        """Return a linear combination with another change."""
        return Change(*(share * a + weight * b for a, b in zip(vars(self).values(), vars(other).values())))


@dataclass(frozen=True)
class Direction:
    """Rates of positions and mean stresses (unknowns,) and of chamber pressures (c,), scaled; or their adjoints."""

    unknowns: Floats
    pressures: Floats


@dataclass
class Tangent:
    """The exact tangent of an equilibrium.

    Parameters
    ----------
    state
        The equilibrium.
    evaluation
        Its residuals and tangent.
    beyond
        What the symmetric tangent leaves out, between the components of the nodes; None without obstacles in touch.
    grip
        What friction goes by, with the pressures of the configuration itself; None where nothing can touch.
    """

    state: ShapeState
    evaluation: Evaluation
    beyond: sparse.csr_matrix | None
    grip: Grip | None
    _data: Floats = field(repr=False)
    _factorised: bool = False

    @classmethod
    def at(cls, state: ShapeState) -> Tangent:
        """Return the tangent of an equilibrium.

        Raises
        ------
        InputError
            The robot has cables, a chamber is closed, or rigid groups are in contact with friction.
        """
        problem, point, target = state.problem, state.point, state.target
        if problem.cables is not None or target.gas is not None:
            what = "cables" if problem.cables is not None else "gas in closed chambers"
            raise InputError(
                f"sensitivity: {what} have no sensitivities here; solve at two values of what is asked for and take the "
                f"difference"
            )
        if target.loose is not None:
            raise InputError("sensitivity: free objects have no sensitivities here; hold them, or leave them out")
        grip = target.grip
        if problem.contact is not None and problem.contact.friction and grip is not None:
            grip = replace(grip, own=True)
        found = problem.evaluate(point.x, point.p, point.chamber_pressures, target.external, matrix=True, grip=grip)
        found, beyond = problem.sharpened(found), None
        forces = found.contact
        if problem.contact is not None and forces is not None and grip is not None and (forces.push > 0.0).any():
            beyond = beyond_newton(problem.contact, point.x, forces, grip)
            if problem.rigid is not None and beyond.nnz:
                raise InputError(
                    "sensitivity: rigid groups together with contact at obstacles have no exact tangent here"
                )
        assert found.data is not None
        return cls(state, found, beyond, grip, found.sparsity.eliminated(found.data, problem.held))

    @property
    def problem(self) -> ShapeProblem:
        """The discrete problem."""
        return self.state.problem

    @property
    def chosen(self) -> Ints:
        """Chambers of prescribed volume."""
        return np.flatnonzero(self.state.target.by_volume)

    @property
    def still(self) -> Change:
        """No change."""
        unknowns, chambers = len(self.problem.held), self.problem.chambers
        none = np.zeros(unknowns)
        return Change(none, np.zeros(chambers), none, np.zeros(chambers), np.zeros((self.problem.groups, 6)))

    @property
    def gradients(self) -> Floats:
        """Gradients of the chamber volumes by all unknowns, (c, unknowns)."""
        out = np.zeros((self.problem.chambers, len(self.problem.held)))
        out[:, : self.state.point.x.size] = self.evaluation.gradients.reshape(len(out), self.state.point.x.size)
        return out

    def respond(self, change: Change) -> Direction:
        """Return how the equilibrium answers a change.

        Raises
        ------
        FactorisationError
            The tangent is singular: a fold or a fork of the path is here.
        """
        held, gradients = self.problem.held, self.gradients
        right = change.right + change.pressures @ gradients - self._product(change.known, transposed=False)
        right = np.where(held, change.known, right)
        gap = change.gap - gradients @ change.known
        rates, closing = self._solve(right, gap[self.chosen], change.motion, transposed=False)
        pressures = change.pressures.copy()
        pressures[self.chosen] = closing
        return Direction(rates, pressures)

    def adjoint(self, gradient: Direction) -> Direction:
        """Return the adjoint of a measure with a gradient by unknowns and chamber pressures.

        Raises
        ------
        FactorisationError
            The tangent is singular.
        """
        motion = np.zeros((self.problem.groups, 6))
        rates, closing = self._solve(gradient.unknowns, -gradient.pressures[self.chosen], motion, transposed=True)
        pressures = np.zeros(self.problem.chambers)
        pressures[self.chosen] = closing
        return Direction(rates, pressures)

    def duals(self, adjoint: Direction, gradient: Direction) -> Change:
        """Return what a measure changes by per unit of every part of a `Change` (its motion left out)."""
        held, gradients = self.problem.held, self.gradients
        free = np.where(held, 0.0, adjoint.unknowns)
        known = adjoint.unknowns - self._product(free, transposed=True) + adjoint.pressures @ gradients
        pressures = np.where(self.state.target.by_volume, 0.0, gradient.pressures + gradients @ free)
        return replace(
            self.still, right=free, gap=-adjoint.pressures, known=np.where(held, known, 0.0), pressures=pressures
        )

    def _product(self, vector: Floats, *, transposed: bool) -> Floats:
        """Product of the whole tangent, held unknowns too, with a vector of unknowns."""
        assert self.evaluation.data is not None
        if not vector.any():
            return np.zeros_like(vector)
        out = self.evaluation.sparsity.product(self.evaluation.data, vector)
        if self.beyond is not None:
            size = self.beyond.shape[0]
            out[:size] += (self.beyond.T if transposed else self.beyond) @ vector[:size]
        return out

    def _solve(self, right: Floats, gap: Floats, motion: Floats, *, transposed: bool) -> tuple[Floats, Floats]:
        problem = self.problem
        borders = np.where(problem.held, 0.0, self.gradients[self.chosen])
        extra: dict[str, Any] = {}
        if self.beyond is not None and self.beyond.nnz:
            free, size = ~problem.held, self.beyond.shape[0]
            matrix = sparse.csr_matrix(self.beyond.T) if transposed else self.beyond

            def add(vector: Floats, out: Floats) -> None:
                out[:size] += np.where(free[:size], matrix @ np.where(free[:size], vector[:size], 0.0), 0.0)

            extra["extra"] = add
        linear = problem.solver_of(self.evaluation, motion if problem.rigid is not None else None)
        found, closing = linear.solve(self._data, borders, right, gap, ACCURACY, reuse=self._factorised, **extra)
        self._factorised = True
        if not np.isfinite(found).all():
            raise FactorisationError("the solution is not finite")
        return found, closing
