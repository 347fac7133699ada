"""Descent of the potential with a proximal term, from a lost equilibrium to the next minimum.

A step solves Newton's equations with a drag d [shear modulus over size^2] on the volume M of every node,

    (K + d M) dx + B^T dp = -residual,        B dx = -c,

with c what incompressibility and prescribed chamber volumes still miss. Where dx . (K + d M) dx > 0 it leads downhill on the
augmented Lagrangian

    L(x) = potential(x) + p' . c(x) + rho / 2 sum_i c_i(x)^2 / m_i,

p' the multipliers after the step [Nocedal & Wright 2006, section 18.3; the test of the curvature in place of the inertia:
Chiang & Zavala 2016]. Drag is what a trust region is: it rises until the curvature is positive, and where the step had to be
shortened or gained less than foretold; it falls where all was as foretold. Every step gains and passes through nothing, so that
contacts that come and go cannot send the body round in circles.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.lookahead import springs_ahead
from geosim.shape.energy.contact.step_limits import max_safe_step, max_self_contact_step
from geosim.shape.energy.newton.equations import with_proximal_term
from geosim.shape.energy.newton.newton_solve import (
    BLOCKED_STEP_SHARE,
    EXACT_CONTACT_RESIDUAL,
    MAX_LOOKAHEADS,
    Budget,
    avoids_inversion,
    step_limit,
    trace_record,
)
from geosim.shape.energy.newton.states import (
    ArcLengthConstraint,
    Configuration,
    Evaluation,
    LoadState,
    NewtonOutcome,
    ProximalTerm,
    longest_displacement,
)

if TYPE_CHECKING:
    from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
    from geosim.shape.energy.problem import ShapeProblem


# Stiffness rho of what is missed, in shear moduli: of the order of the body's own, so that neither outweighs the other.
PENALTY_STIFFNESS = 10.0
# Drag at first, at least and at most: waves as long as half the body have a stiffness of about 100.
FIRST_PROXIMAL_STIFFNESS, MIN_PROXIMAL_STIFFNESS, MAX_PROXIMAL_STIFFNESS = 10.0, 1e-3, 1e6
# The drag rises and falls by these factors; least of a drag that rises.
FAILED_STEP_RISE, POOR_STEP_RISE, GOOD_STEP_FALL, MIN_RAISED_STIFFNESS = 5.0, 2.0, 3.0, 0.1
# Share of the decrease that the slope foretells which a step must bring (Armijo), and of what the model foretells for the drag
# to fall, or not to rise.
ARMIJO_DECREASE, GOOD_MODEL_RATIO, POOR_MODEL_RATIO = 1e-4, 0.5, 0.2
# Residual from which Newton alone is tried, of so many iterations at most, and so many steps after it was tried in vain.
NEWTON_TRIAL_RESIDUAL, NEWTON_RETRY_STEPS = 1e-4, 8
# Steps at most, and halvings of one.
MAX_DESCENT_STEPS, MAX_STEP_HALVINGS = 150, 10
# Longest displacement of a node in a whole step, all but without drag, after which the equilibrium is beside, over the size.
SETTLED_MOVE_REL = 1e-3
# V/V0 beyond which a body that grows by itself is not followed.
MAX_VOLUME_RATIO = 10.0
# How accurately a step is solved for: the next one mends what is left.
DESCENT_SOLVE_ACCURACY = 1e-3


def has_potential(problem: ShapeProblem, aim: ArcLengthConstraint) -> bool:
    """Whether all forces have the potential looked at here: no friction, gas, rigid group or free object."""
    contact = problem.contact
    rubs = (contact is not None and contact.friction) or problem.constraints.rough
    return not (rubs or problem.groups or len(problem.objects.ids) or aim.end.closed)


@dataclass
class Descent:
    """The way downhill at one share of a command; `run` reads like the algorithm."""

    newton: EquilibriumSearch
    problem: ShapeProblem
    aim: ArcLengthConstraint
    budget: Budget
    drag: float = FIRST_PROXIMAL_STIFFNESS
    records: list[dict[str, Any]] = field(default_factory=list)

    def run(self, start: Configuration, farthest: float, passing: float = 0.0) -> tuple[NewtonOutcome | None, bool]:
        """Return the equilibrium, None where none was found; and whether a node went farther than `farthest`.

        With `passing` a place beside it will do, of that residual.
        """
        newton, problem, target = self.newton, self.problem, self.aim.at(start)
        alone = replace(newton, max_iterations=min(newton.max_iterations, NEWTON_RETRY_STEPS))
        here, tried, made = start, 0, np.inf
        evaluation = newton.evaluate(problem, here, target, matrix=True)
        for count in range(MAX_DESCENT_STEPS):
            self.budget.check(problem)
            clock, before = time.perf_counter(), (problem.linear.factorisations, problem.linear.krylov)
            measure = newton.residuals(problem, here, target, evaluation)
            if made < SETTLED_MOVE_REL and newton.converged(measure, passing):
                outcome = NewtonOutcome(
                    Status.CONVERGED, here, evaluation, measure[0], count, tuple(self.records), target
                )
                return outcome, False
            if count >= tried and max(measure[:4]) < NEWTON_TRIAL_RESIDUAL:
                outcome, tried = alone.equilibrium(problem, here, self.aim, self.budget), count + NEWTON_RETRY_STEPS
                self.records += outcome.records
                if outcome.status is Status.CONVERGED:
                    far = longest_displacement(outcome.point.x - start.x) > farthest
                    return None if far else outcome, far
            if evaluation.data is None:
                evaluation = newton.evaluate(problem, here, target, matrix=True)
            tangent = problem.sharpened(evaluation) if measure[0] < EXACT_CONTACT_RESIDUAL else evaluation
            found = self._direction(here, tangent)
            solved = time.perf_counter()
            if found is None:
                return None, False
            length, there, evaluation = self._search(here, evaluation, target, *found)
            made = (
                longest_displacement(there.x - here.x) if length == 1.0 and self.drag < MIN_RAISED_STIFFNESS else np.inf
            )
            here = there
            seconds = time.perf_counter() - solved, solved - clock
            self.records.append(
                trace_record(problem, count, measure, length, self.aim.load_factor, evaluation, before, seconds)
            )
            self.budget.tell(self.records[-1])
            bursts = evaluation.scalars[: problem.chambers] > MAX_VOLUME_RATIO * problem.rest_chamber_volumes
            if self.drag > MAX_PROXIMAL_STIFFNESS or bursts.any() or longest_displacement(here.x - start.x) > farthest:
                return None, self.drag <= MAX_PROXIMAL_STIFFNESS
        return None, False

    def _direction(self, here: Configuration, tangent: Evaluation) -> tuple[Configuration, Floats, float] | None:
        """Return a step of positive curvature, what it changes the constraints by (v,), and how much of it is free of contact."""
        problem, contact = self.problem, self.problem.contact
        assert tangent.data is not None
        while self.drag <= MAX_PROXIMAL_STIFFNESS:
            held = with_proximal_term(
                problem,
                tangent,
                here,
                ProximalTerm(here.x, self.drag * problem.node_volumes, here.objects, np.zeros(0)),
            )
            springs = None
            for look in range(MAX_LOOKAHEADS + 1):
                try:
                    step = self.newton.direction(
                        problem, here, self.aim, held, DESCENT_SOLVE_ACCURACY, reuse=False, springs=springs
                    )
                except FactorisationError:
                    break
                moves = np.concatenate([step.x.ravel(), np.zeros(len(step.p))])
                forces, change = np.split(tangent.sparsity.product(tangent.data, moves), [step.x.size])
                own = self.drag * float(np.sum(problem.node_volumes[:, None] * step.x**2))
                if float(forces @ step.x.ravel()) + own <= 0.0:
                    break
                within = step_limit(problem, self.aim, step, tangent)
                if contact is None:
                    return step, change, 1.0
                apart = max_self_contact_step(contact, here.x, within * step.x)
                hit = (
                    springs_ahead(contact, here.x, within * step.x)
                    if apart < BLOCKED_STEP_SHARE and look < MAX_LOOKAHEADS
                    else None
                )
                if hit is None:
                    return step, change, apart
                springs = hit if springs is None else springs.pressed(contact.surface.points(step.x)).joined(hit)
            self.drag = max(FAILED_STEP_RISE * self.drag, MIN_RAISED_STIFFNESS)
        return None

    def _search(
        self,
        here: Configuration,
        evaluation: Evaluation,
        target: LoadState,
        step: Configuration,
        change: Floats,
        apart: float,
    ) -> tuple[float, Configuration, Evaluation]:
        """Shorten a step until it gains enough, and choose the next drag; return the length, 0 where nothing helps."""
        problem, newton, aim = self.problem, self.newton, self.aim
        goal = replace(here, p=here.p + step.p, scalar_forces=here.scalar_forces + step.scalar_forces)
        merit = _Merit(problem, target, goal)
        now = newton.evaluate(problem, replace(goal, x=here.x), target, matrix=False)
        old, slope = merit.at(here.x, now), merit.slope(now, step, change)
        carries = bool(np.any(problem.shift(here.x, target.positions)))  # the first step moves what is held: no descent
        length = step_limit(problem, aim, step, evaluation)
        if problem.contact is not None and aim.contact_state is not None:
            length *= max_safe_step(problem.contact, here.x, length * step.x, aim.contact_state, apart=apart)
        free = length
        for _ in range(MAX_STEP_HALVINGS):
            trial = replace(goal, x=problem.moved(here.x, step.x, length), load_factor=aim.load_factor)
            found = newton.evaluate(problem, trial, target, matrix=length == 1.0)
            gain = merit.at(trial.x, found) - old if np.isfinite(found.energy) else np.inf
            if carries or (avoids_inversion(evaluation, found, length) and gain <= ARMIJO_DECREASE * length * slope):
                ratio = gain / (length * slope * (1.0 - 0.5 * length)) if slope < 0.0 else 0.0
                if length == 1.0 and ratio > GOOD_MODEL_RATIO:
                    self.drag = max(self.drag / GOOD_STEP_FALL, MIN_PROXIMAL_STIFFNESS)
                elif length < free or ratio < POOR_MODEL_RATIO:
                    self.drag = max(self.drag, MIN_RAISED_STIFFNESS) * POOR_STEP_RISE ** (
                        1 if length > 0.4 * free else 2
                    )
                return length, trial, found
            length *= 0.5
        self.drag = max(POOR_STEP_RISE * FAILED_STEP_RISE * self.drag, MIN_RAISED_STIFFNESS)
        return 0.0, here, evaluation


@dataclass(frozen=True)
class _Merit:
    """The augmented Lagrangian at fixed multipliers: those of a point."""

    problem: ShapeProblem
    target: LoadState
    goal: Configuration

    @property
    def _stiffness(self) -> float:
        """Stiffness of what is missed at one vertex: its mean share of the volume stands for m."""
        return PENALTY_STIFFNESS * len(self.goal.p) / self.problem.body_volume

    def _free(self, values: Floats) -> Floats:
        return np.where(self.problem.held[self.goal.x.size :], 0.0, values)

    def at(self, x: Floats, found: Evaluation) -> float:
        """Return its value at positions (nodes, 3)."""
        contact = 0.0 if found.contact is None else found.contact.energy
        value = found.energy + contact - float(np.sum(self.target.external[: len(x)] * x))
        value += float(self.goal.p @ found.constraint - self.goal.scalar_forces @ found.scalars)
        value += 0.5 * self._stiffness * float(np.sum(self._free(found.constraint) ** 2))
        full, pull = self._pulls(found)
        held = 0.5 * pull**2 + self.goal.scalar_forces * (pull - full)
        return value + float(np.sum(held * self.problem.constraints.rest_values)) / PENALTY_STIFFNESS

    def slope(self, found: Evaluation, step: Configuration, change: Floats) -> float:
        """Return its derivative along a step that changes the constraints by `change` (v,)."""
        volumes = np.einsum("cni,ni->c", found.gradients, step.x)
        value = float(np.sum(found.force * step.x)) + self._stiffness * float(self._free(found.constraint) @ change)
        return value - float(self._pulls(found)[1] @ volumes)

    def _pulls(self, found: Evaluation) -> tuple[Floats, Floats]:
        """Forces (d,) on what prescribed volumes and lengths still miss, and the same where a cable can only pull.

        With a multiplier p a cable that is too long by c pulls with max(0, p + rho c / m) [Nocedal & Wright 2006, eq. 17.57].
        """
        full = PENALTY_STIFFNESS * (self.target.scalars - found.scalars) / self.problem.constraints.rest_values
        full = np.where(self.target.by_value, full, 0.0)
        cable = self.target.by_value & self.problem.constraints.pulls
        return full, np.where(cable, np.maximum(full, -self.goal.scalar_forces), full)
