"""An equilibrium with its exact tangent: how it answers a small change of the problem, and the adjoint of that.

With the unknowns z (positions x, mean stresses p, pressures P of chambers whose volume is prescribed or shut in, tensions of
cables of prescribed length) and residuals R(z; q) = 0,

    dz = -K^-1 (dR/dq) dq,        dm = g . dz = lambda . (-dR/dq) dq,    K^T lambda = g,

for a measure m with gradient g. K is factorised once. It is the tangent of Newton's method and what that leaves out (see
`contact_slope`), so with friction it is not symmetric. Of friction the anchors are held: the history up to the increment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.linear.bordered import BorderedMatrix
from geosim.linear.factorise import FactorisationError
from geosim.response.derivatives.contact_slope import beyond_newton
from geosim.shape.energy.constraints.pressed_faces import PressedFaces
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Configuration, Controls, Evaluation


@dataclass(frozen=True)
class Change:
    """What a change of the problem does at an equilibrium that stays where it is, scaled.

    Parameters
    ----------
    right
        Forces and constraints that are missing then, minus the change of the residuals, (unknowns,).
    gap
        Scalars (volumes of chambers, minus lengths of cables) that are missing, (d,); read where they are prescribed.
    known
        Displacements of held unknowns, (unknowns,); 0 elsewhere.
    pressures
        Change of the prescribed forces of scalars, pressures and tensions, (d,).
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

    def paired(self, other: Change) -> float:
        """Return the sum of the products of all parts with those of another change."""
        return float(sum(np.sum(a * b) for a, b in zip(vars(self).values(), vars(other).values())))


@dataclass(frozen=True)
class Direction:
    """Rates of positions and mean stresses (unknowns,) and of the forces of scalars (d,), scaled; or their adjoints."""

    unknowns: Floats
    pressures: Floats

    def from_point(self, problem: ShapeProblem, point: Configuration) -> Configuration:
        """Return the configuration that a point goes to along these rates."""
        size = point.x.size
        x = problem.moved(point.x, self.unknowns[:size].reshape(-1, 3), 1.0)
        return Configuration(x, point.p + self.unknowns[size:], point.scalar_forces + self.pressures)


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
        What the symmetric tangent leaves out, between the components of the nodes: of obstacles in touch and of pressed faces
        with a loose rim; else None.
    contact_state
        What friction goes by, with the pressures of the configuration itself; None where nothing can touch.
    controls
        Which scalars and which of their forces are unknown: a cable that is slack has no tension.
    """

    state: ShapeState
    evaluation: Evaluation
    beyond: sparse.csr_matrix | None
    contact_state: ContactState | None
    controls: Controls
    _data: Floats = field(repr=False)
    _factorised: bool = False

    @classmethod
    def at(cls, state: ShapeState) -> Tangent:
        """Return the tangent of an equilibrium.

        Raises
        ------
        InputError
            A cable has friction, objects are free, or there are rigid groups and friction.
        """
        problem, point, target = state.problem, state.point, state.target
        pressed = problem.constraints.find(PressedFaces)
        if any(one.rough for one in problem.constraints.members if one is not pressed):
            raise InputError(
                "sensitivity: cables with friction have no sensitivities, since every guide sticks or slides; "
                "solve at two values of the parameter and take the difference"
            )
        if target.free_bodies is not None:
            raise InputError("sensitivity: free objects have no sensitivities here; hold them, or leave them out")
        contact_state = target.contact_state
        if problem.contact is not None and problem.contact.friction and contact_state is not None:
            contact_state = problem.contact.settled(point.x, replace(contact_state, own=True))
        found = problem.evaluate(
            point.x, point.p, point.scalar_forces, target.external, matrix=True, contact_state=contact_state
        )
        found, beyond = problem.sharpened(found), None
        forces = found.contact
        if (
            problem.contact is not None
            and forces is not None
            and contact_state is not None
            and (forces.push > 0.0).any()
        ):
            if problem.rigid is not None and problem.contact.friction:
                raise InputError("sensitivity: rigid groups together with friction have no exact tangent here")
            beyond = beyond_newton(problem.contact, point.x, forces, contact_state)
        if pressed is not None and pressed.rough:
            rims = pressed.of_rims(point.x, point.scalar_forces[problem.constraints.scalars_of(PressedFaces)])
            beyond = rims if beyond is None else beyond + rims
        assert found.data is not None
        controls = target.controls(point, found.scalars)
        return cls(state, found, beyond, contact_state, controls, found.sparsity.eliminated(found.data, problem.held))

    @property
    def problem(self) -> ShapeProblem:
        """The discrete problem."""
        return self.state.problem

    @property
    def still(self) -> Change:
        """No change."""
        none, scalars = np.zeros(len(self.problem.held)), np.zeros(self.problem.scalars)
        return Change(none, scalars, none, scalars, np.zeros((self.problem.groups, 6)))

    @property
    def gradients(self) -> Floats:
        """Gradients of the scalars by all unknowns, (d, unknowns)."""
        out = np.zeros((self.problem.scalars, len(self.problem.held)))
        out[:, : self.state.point.x.size] = self.evaluation.gradients.reshape(len(out), self.state.point.x.size)
        return out

    def respond(self, change: Change) -> Direction:
        """Return how the equilibrium answers a change.

        Raises
        ------
        FactorisationError
            The tangent is singular: a fold or a fork of the path is here.
        """
        held, gradients, controls = self.problem.held, self.gradients, self.controls
        given = np.where(controls.fixed, change.pressures, 0.0)
        right = change.right + given @ gradients - self.product(change.known, transposed=False)
        right = np.where(held, change.known, right)
        gap = controls.members @ (change.gap - gradients @ change.known)
        rates, closing = self._solve(right, gap, change.motion, transposed=False)
        return Direction(rates, given + controls.members.T @ closing)

    def adjoint(self, gradient: Direction) -> Direction:
        """Return the adjoint of a measure with a gradient by unknowns and chamber pressures.

        Raises
        ------
        FactorisationError
            The tangent is singular.
        """
        motion = np.zeros((self.problem.groups, 6))
        members = self.controls.members
        rates, closing = self._solve(gradient.unknowns, -members @ gradient.pressures, motion, transposed=True)
        return Direction(rates, members.T @ closing)

    def duals(self, adjoint: Direction, gradient: Direction) -> Change:
        """Return what a measure changes by per unit of every part of a `Change` (its motion left out)."""
        held, gradients = self.problem.held, self.gradients
        free = np.where(held, 0.0, adjoint.unknowns)
        known = adjoint.unknowns - self.product(free, transposed=True) + adjoint.pressures @ gradients
        pressures = np.where(self.controls.fixed, gradient.pressures + gradients @ free, 0.0)
        return replace(
            self.still, right=free, gap=-adjoint.pressures, known=np.where(held, known, 0.0), pressures=pressures
        )

    def product(self, vector: Floats, *, transposed: bool) -> Floats:
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
        # of the linear solves: a derivative is asked for to 1e-4, through residuals that weigh unlike
        linear_solve_accuracy = 1e-10
        problem = self.problem
        borders = np.where(problem.held, 0.0, self.controls.members @ self.gradients)
        extra = None
        if self.beyond is not None and self.beyond.nnz:
            free, size = ~problem.held, self.beyond.shape[0]
            matrix = sparse.csr_matrix(self.beyond.T) if transposed else self.beyond

            def add(vector: Floats, out: Floats) -> None:
                out[:size] += np.where(free[:size], matrix @ np.where(free[:size], vector[:size], 0.0), 0.0)

            extra = add
        linear = problem.solver_of(self.evaluation, motion if problem.rigid is not None else None)
        system = BorderedMatrix(self._data, borders, np.diag(self.controls.slope), extra=extra)
        found, closing = linear.solve(system, right, gap, linear_solve_accuracy, reuse=self._factorised)
        self._factorised = True
        if not np.isfinite(found).all():
            raise FactorisationError("the solution is not finite")
        return found, closing
