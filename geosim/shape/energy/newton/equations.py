"""The equilibrium equations: residuals, linear system of a Newton step, stability.

The unknowns are positions, mean stresses and the pressures of chambers of prescribed volume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.linear.bordered import BorderedMatrix, Extra
from geosim.linear.factorise import FactorisationError
from geosim.shape.energy.constraints.free_bodies import motion_between
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import (
    ArcLengthConstraint,
    Configuration,
    Controls,
    Evaluation,
    LoadState,
    ProximalTerm,
)

# Forces below this share of (shear modulus x size^2) are round-off of the rest shape: the floor of the reference force.
FORCE_FLOOR = 1e-8


@dataclass(frozen=True)
class Equations:
    """The equations of an equilibrium under a target, and how well they are met in how many steps (see `EnergyShapeSolver`)."""

    tolerance: float
    max_iterations: int
    # Below this scaled residual the tangent has changed so little that the last factors are worth trying first.
    factor_reuse_residual: ClassVar[float] = 1.0
    # Share of the iterations that cost as much as a factorisation, within which old factors have to do.
    factor_patience: ClassVar[float] = 1.0

    def evaluate(self, problem: ShapeProblem, point: Configuration, target: LoadState, *, matrix: bool) -> Evaluation:
        """Return residuals (and the tangent) at a point for a target."""
        evaluation = problem.evaluate(
            point.x,
            point.p,
            point.scalar_forces,
            target.external,
            matrix=matrix,
            contact_state=target.contact_state,
            hold=point.hold,
            free_bodies=target.free_bodies,
            inertia=target.inertia,
        )
        return evaluation if target.drag is None else with_proximal_term(problem, evaluation, point, target.drag)

    def direction(
        self,
        problem: ShapeProblem,
        point: Configuration,
        aim: ArcLengthConstraint,
        evaluation: Evaluation,
        accuracy: float,
        *,
        reuse: bool,
    ) -> Configuration:
        """Return the Newton step from the bordered system, to a relative accuracy.

        On an arc the share is one unknown more: a column with the load that comes with it, and the same row for the arc.
        """
        target, nodes = aim.at(point), len(point.x)
        pattern, data = evaluation.sparsity, evaluation.data
        assert data is not None
        size, held = 3 * nodes, problem.held
        shift = problem.shift(point.x, target.positions).ravel()
        right = self._right(evaluation, shift, held)
        data = pattern.eliminated(data, held)
        free = ~held[:size]
        controls = target.controls(point, evaluation.scalars)
        columns = evaluation.gradients if evaluation.columns is None else evaluation.columns
        pressure_step = np.where(controls.fixed, controls.forces - point.scalar_forces, 0.0)
        for c in np.flatnonzero(pressure_step):
            right[:size] += free * pressure_step[c] * columns[c].ravel()
        borders, forces, gap, corner = self._borders(problem, point, aim, evaluation, shift)
        coupling = problem.coupling(
            point.x, target, evaluation, own=aim.contact_state is not None and aim.contact_state.own
        )
        if coupling is not None:
            forces = borders if forces is None else forces
            borders, forces, gap, corner = coupling.appended(borders, forces, gap, corner, free, shift)
        linear = problem.solver_of(evaluation, problem.motion(point.x, target.positions))
        options: dict[str, Any] = {"patience": self.factor_patience}
        if problem.rigid is None:
            options["at"] = point.x
            if (
                self.residuals(problem, point, target, evaluation)[0] > self.tolerance
            ):  # from an equilibrium loads have their own size
                options["weights"] = self._weights(problem, evaluation, controls, pattern.size + len(gap))
        matrix = BorderedMatrix(data, borders, corner, forces, _beside(problem, point, aim, evaluation, free))
        step, change = linear.solve(matrix, right, gap, accuracy, reuse=reuse, **options)
        if not np.isfinite(step).all():
            raise FactorisationError("the solution is not finite")
        objects = np.zeros_like(point.objects)
        if coupling is not None and target.free_bodies is not None:
            change, motion = np.split(change, [len(change) - len(coupling.gap)])
            objects = target.free_bodies.motion(motion)
        share_step = aim.load_factor - point.load_factor
        if aim.weights is not None:
            share_step, change = float(change[-1]), change[:-1]
            pressure_step = pressure_step + share_step * aim.force_rates
        pressure_step += controls.members.T @ change
        return Configuration(step[:size].reshape(nodes, 3), step[size:], pressure_step, share_step, objects=objects)

    def _borders(
        self,
        problem: ShapeProblem,
        point: Configuration,
        aim: ArcLengthConstraint,
        evaluation: Evaluation,
        shift: Floats,
    ) -> tuple[Floats, Floats | None, Floats, Floats]:
        """Return rows and columns (None: the same) of scalars and of the arc, what they still miss, and the corner."""
        size, free = 3 * len(point.x), ~problem.held[: 3 * len(point.x)]
        controls = aim.at(point).controls(point, evaluation.scalars)
        count = len(controls.gap)
        borders = np.zeros((count + (aim.weights is not None), evaluation.sparsity.size))
        borders[:count, :size] = controls.members @ evaluation.gradients.reshape(-1, size)
        gap = controls.gap
        if np.any(shift):  # held nodes move volume too
            gap = gap - borders[:count, :size] @ shift
        corner = np.diag(controls.slope)
        if aim.weights is not None:
            borders[-1, :size] = aim.load(evaluation.gradients).ravel()
            gap, corner = self._arc_row(point, aim, evaluation, gap, controls)
        borders[:, :size] *= free
        forces = None
        if evaluation.columns is not None:
            forces = np.zeros_like(borders)
            forces[:, :size] = controls.members @ evaluation.columns.reshape(-1, size) * free
        return borders, forces, gap, corner

    @staticmethod
    def _weights(problem: ShapeProblem, evaluation: Evaluation, controls: Controls, rows: int) -> Floats:
        """What makes rows of the system comparable, as `residuals` does: forces, incompressibility, volumes, others; (rows,)."""
        size, nodes, count = len(problem.held), 3 * len(problem.rest), len(controls.gap)
        out = np.full(rows, 1.0 / max(evaluation.scale, FORCE_FLOOR))
        out[nodes:size] = 1.0 / problem.body_volume
        out[size : size + count] = 1.0 / (controls.members @ problem.constraints.rest_values)
        return out

    @staticmethod
    def _right(evaluation: Evaluation, shift: Floats, held: Bools) -> Floats:
        """Return what forces and volumes miss, where held nodes go all their way to their places (3 n,)."""
        right = np.concatenate([-evaluation.force.ravel(), -evaluation.constraint])
        known = np.zeros_like(right)
        known[: len(shift)] = shift
        if np.any(shift):
            assert evaluation.data is not None
            right -= evaluation.sparsity.product(evaluation.data, known)
        right[held] = known[held]
        return right

    def _arc_row(
        self, point: Configuration, aim: ArcLengthConstraint, evaluation: Evaluation, gap: Floats, controls: Controls
    ) -> tuple[Floats, Floats]:
        """Return what the rows of the border still miss, the arc's included, and the corner of the system."""
        assert aim.weights is not None
        a, b = aim.weights[0] / aim.scale, aim.weights[1]
        missing = aim.level - a * aim.conjugate(point, evaluation.scalars) - b * point.load_factor
        corner = np.zeros((len(gap) + 1, len(gap) + 1))
        corner[:-1, :-1] = np.diag(controls.slope)
        corner[-1, :-1] = corner[:-1, -1] = controls.members @ aim.scalar_rates
        corner[-1, -1] = -b / a
        return np.append(gap, missing / a), corner

    def residuals(
        self, problem: ShapeProblem, point: Configuration, target: LoadState, evaluation: Evaluation
    ) -> tuple[float, float, float, float, float]:
        """Relative residuals: force (largest node), chamber volume, incompressibility, held positions; norm of forces."""
        size = point.x.size
        free = ~problem.held[:size]
        force = np.where(free, evaluation.force.ravel(), 0.0).reshape(-1, 3)
        floor = max(evaluation.scale, FORCE_FLOOR)
        by_node = np.concatenate([np.linalg.norm(force, axis=1), problem.objects.sizes(evaluation.free_bodies)])
        controls = target.controls(point, evaluation.scalars)
        volume = float(np.max(np.abs(controls.gap) / (controls.members @ problem.constraints.rest_values), initial=0.0))
        pressure_gap = np.where(controls.fixed, point.scalar_forces - controls.forces, 0.0)
        constraint = float(np.linalg.norm(evaluation.constraint[~problem.held[size:]])) / problem.body_volume
        place = float(np.max(np.abs(problem.shift(point.x, target.positions)), initial=0.0))
        place = max(place, float(np.max(np.abs(pressure_gap), initial=0.0)))
        return float(by_node.max(initial=0.0)) / floor, volume, constraint, place, float(np.linalg.norm(by_node))

    def accuracy(self, measure: tuple[float, ...]) -> float:
        """Return how accurately the next Newton step is worth solving: just enough where it can be the last."""
        tight = max(0.01 * self.tolerance, 1e-14)
        goals = (self.tolerance, tight, tight)
        needed = min(goal / max(value, 1e-300) for goal, value in zip(goals, measure[:3]))
        return 0.3 * needed if 1e-5 < needed < 3e-4 else 1e-4

    def converged(self, measure: tuple[float, ...], tolerance: float | None = None) -> bool:
        """Whether relative residuals are within the tolerances."""
        force, volume, constraint, place, _ = measure
        tolerance = self.tolerance if tolerance is None else tolerance
        tight = max(0.01 * tolerance, 1e-14)
        return force <= tolerance and volume <= tight and constraint <= tight and place <= 1e-12

    def is_stable(self, problem: ShapeProblem, point: Configuration, target: LoadState) -> bool | None:
        """Whether the potential is least at an equilibrium, under its controls; None where the factoriser cannot say.

        Sylvester: the tangent of a minimum under constraints has as many negative pivots as there are constraints. The
        isochoric form of the energy is examined, at the same positions: on coarse meshes the full form W(I1, I2) has
        local modes in compression that are the mesh's and not the body's.
        """
        if point.hold is not None:  # friction has no potential
            return None
        pressures = problem.isochoric_pressures(point.x, point.p)
        evaluation = problem.evaluate(
            point.x,
            pressures,
            point.scalar_forces,
            target.external,
            matrix=True,
            contact_state=target.contact_state,
            table=problem.isochoric_table,
            free_bodies=target.free_bodies,
        )
        evaluation = problem.sharpened(evaluation)
        assert evaluation.data is not None
        size = point.x.size
        data = evaluation.sparsity.eliminated(evaluation.data, problem.held)
        controls = target.controls(point, evaluation.scalars)
        borders = np.zeros((len(controls.gap), evaluation.sparsity.size))
        borders[:, :size] = controls.members @ evaluation.gradients.reshape(-1, size) * ~problem.held[:size]
        corner = np.diag(controls.slope)
        if (coupling := problem.coupling(point.x, target, evaluation, own=False)) is not None:
            free = ~problem.held[:size]
            borders, _, _, corner = coupling.appended(borders, borders, controls.gap, corner, free, np.zeros(size))
        try:
            negative = problem.solver_of(evaluation).negative_eigenvalues(data, borders, corner)
        except FactorisationError:
            return None
        if negative < 0:
            return None
        return negative == int((~problem.held[size:]).sum()) + len(controls.gap)


def _beside(
    problem: ShapeProblem, point: Configuration, aim: ArcLengthConstraint, evaluation: Evaluation, free: Bools
) -> Extra | None:
    """Return what adds the unsymmetric parts of the tangent: what slides under friction, and cables that turn; or None."""
    parts: list[Extra] = []
    if (
        aim.contact_state is not None
        and aim.contact_state.own
        and problem.contact is not None
        and evaluation.contact is not None
    ):
        parts.append(partial(problem.contact.apply_slides, evaluation.contact, free))
    if point.hold is not None and point.hold.modes.any():
        parts.append(partial(_turn, problem, point, free))
    return partial(_apply, parts) if parts else None


def _turn(problem: ShapeProblem, point: Configuration, free: Bools, vector: Floats, out: Floats) -> None:
    """Add what slides in constraints does where a step of the free nodes turns it (see `ScalarConstraint.turn`)."""
    assert point.hold is not None
    size = len(free)
    move = np.where(free, vector[:size], 0.0).reshape(-1, 3)
    force = problem.constraints.turn(point.x, point.scalar_forces, point.hold.modes, move)
    out[:size] += np.where(free, force.ravel(), 0.0)


def _apply(parts: list[Extra], vector: Floats, out: Floats) -> None:
    for part in parts:
        part(vector, out)


def with_proximal_term(
    problem: ShapeProblem, evaluation: Evaluation, point: Configuration, drag: ProximalTerm
) -> Evaluation:
    """Return an evaluation with the forces and the stiffness of springs to the places before."""
    force = evaluation.force + drag.stiffness[:, None] * (point.x - drag.before)
    free_bodies = evaluation.free_bodies + problem.objects.springs(
        drag.hold, motion_between(drag.objects, point.objects)
    )
    evaluation = replace(evaluation, force=force, free_bodies=free_bodies, loose_hold=drag.hold)
    if evaluation.data is None:
        return evaluation
    data = evaluation.data.copy()
    data[evaluation.sparsity.indptr[: force.size]] += np.repeat(drag.stiffness, 3)  # the first of a row is its diagonal
    return replace(evaluation, data=data)
