"""Newton's method for one equilibrium: targets met exactly, forces in balance, no element inverted, no surface crossed.

Each solve is an `NewtonSolve` at the `Equations`; with friction and rough cables several follow each other, until what rubs
balances with the forces that it allows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.step_limits import max_safe_step
from geosim.shape.energy.newton.budget import Budget, trace_record
from geosim.shape.energy.newton.equations import FORCE_FLOOR, Equations
from geosim.shape.energy.newton.newton_solve import NewtonSolve
from geosim.shape.energy.newton.steps import residual_merit
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, NewtonOutcome

# Rounds in which friction goes by the pressures of the round before.
MAX_FRICTION_ROUNDS = 30

# Rounds in which points of cables begin to slide or to stick; in the last of them one point at a time.
MAX_CABLE_ROUNDS = 80

# Residual at which cables are asked where they slide and stick, until they do as they did before: measured on a beam that is
# pulled and let go, 41 Newton instead of 67.
CABLE_UPDATE_RESIDUAL = 1e-2

# Steps at most with friction by the pressures of the present configuration, after every round.
MAX_FINISHING_STEPS = 8

# Residual of an equilibrium that is only passed on the way: the first step from it sees what is left of it. Measured on a PneuNet
# and a finger to V/V0 = 4: 12 and 13 Newton in all with 0.03, 12 and 14 with 0.01, 17 and 22 where every one is sharp.
PASSED_EQUILIBRIUM_RESIDUAL = 3e-2


@dataclass(frozen=True)
class EquilibriumSearch(Equations):
    """The search for one equilibrium."""

    def equilibrium(
        self,
        problem: ShapeProblem,
        start: Configuration,
        aim: ArcLengthConstraint,
        budget: Budget,
        *,
        along: Floats | None = None,
        passing: float = 0.0,
        until_met: bool = False,
    ) -> NewtonOutcome:
        """Return the equilibrium that is aimed at, from a start near it.

        With friction, rounds of Newton follow each other until pressures and normals balance with the friction they
        allow, and until cables stick and slide where it lets them.

        Parameters
        ----------
        problem, aim, budget
            What is solved for, and what it may cost.
        start
            A prediction; or the last equilibrium, where `along` is given: then the first step goes along the tangent.
        along
            Direction of the path at the last equilibrium (nodes, 3), 0 where it is not known.
        passing
            Residual that will do at a share below 1; 0: the tolerance. Not with friction.
        until_met
            Whether to end where parts of the robot meet, if `passing` is not 0.

        Raises
        ------
        BudgetError
            A budget is spent.
        """
        if passing > 0.0:
            enough = max(passing, self.tolerance)
            return NewtonSolve(self, problem, aim, budget, self.tolerance, along, enough, until_met).run(start)
        rough = start.hold is not None
        solver = replace(self, tolerance=max(self.tolerance, CABLE_UPDATE_RESIDUAL)) if rough else self
        outcome = solver._with_contact(problem, start, aim, budget, along)
        iterations = outcome.iterations
        for turn in range(MAX_CABLE_ROUNDS):
            if outcome.status is not Status.CONVERGED or not rough:
                break
            point = problem.corrected(outcome.point, outcome.evaluation, one=turn >= MAX_CABLE_ROUNDS // 4)
            assert point.hold is not None
            assert outcome.point.hold is not None
            if np.array_equal(point.hold.modes, outcome.point.hold.modes):
                if solver is self:
                    break
                solver = self
            aim = replace(aim, load_factor=point.load_factor, bends=False)  # a step along the tangent has aimed nearer
            outcome = solver._with_contact(problem, point, aim, budget, None)
            iterations += outcome.iterations
        else:
            outcome = replace(outcome, status=Status.NOT_CONVERGED)
        return replace(outcome, iterations=iterations, first=None if rough else outcome.first)

    def _with_contact(
        self,
        problem: ShapeProblem,
        start: Configuration,
        aim: ArcLengthConstraint,
        budget: Budget,
        along: Floats | None,
    ) -> NewtonOutcome:
        """Return the equilibrium where cables stick and slide as they do at the start."""
        contact = problem.contact
        if contact is None or not contact.friction or aim.contact_state is None:
            return NewtonSolve(self, problem, aim, budget, self.tolerance, along).run(start)
        tolerance, iterations, first = 1e-2, 0, 0
        outcome: NewtonOutcome | None = None
        predicted, settled = None, False
        for count in range(MAX_FRICTION_ROUNDS):
            if outcome is None or not settled:
                outcome = NewtonSolve(self, problem, aim, budget, max(tolerance, self.tolerance), along).run(start)
                aim, predicted = outcome.aim or aim, predicted or outcome.start
                iterations += outcome.iterations
                outcome = replace(outcome, start=predicted)
                if outcome.status is not Status.CONVERGED or outcome.evaluation.contact is None:
                    return replace(outcome, iterations=iterations, first=iterations)
            outcome = self._finish(problem, outcome, aim, budget)
            settled = outcome.status is Status.CONVERGED
            iterations += outcome.iterations
            first = iterations if count == 0 else first
            assert outcome.evaluation.contact is not None
            assert aim.contact_state is not None
            start, along = outcome.point, None
            aim = replace(aim, contact_state=aim.contact_state.lagged(outcome.evaluation.contact))
            target = aim.at(start)
            evaluation = self.evaluate(problem, start, target, matrix=False)
            measure = self.residuals(problem, start, target, evaluation)
            outcome = replace(
                outcome,
                status=Status.NOT_CONVERGED,
                evaluation=evaluation,
                residual=measure[0],
                target=target,
                iterations=iterations,
                first=first,
            )
            if self.converged(measure):
                return replace(outcome, status=Status.CONVERGED)
            tolerance = 0.03 * measure[0]
        assert outcome is not None
        return outcome

    def _finish(
        self, problem: ShapeProblem, near: NewtonOutcome, aim: ArcLengthConstraint, budget: Budget
    ) -> NewtonOutcome:
        """Go on with pressures, normals and friction all at once, as long as every step helps; return how far it went.

        From afar this overshoots where points begin to slip; near the end it converges quadratically.
        """
        contact, point = problem.contact, near.point
        assert contact is not None
        assert aim.contact_state is not None
        aim = replace(aim, contact_state=replace(aim.contact_state, own=True))
        evaluation = self.evaluate(problem, point, aim.at(point), matrix=True)
        measure = self.residuals(problem, point, aim.at(point), evaluation)
        made = 0
        while made < MAX_FINISHING_STEPS:
            if self.converged(measure):
                break
            budget.check(problem)
            clock = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            evaluation = problem.sharpened(evaluation)
            try:
                step = self.direction(problem, point, aim, evaluation, self.accuracy(measure), reuse=True)
            except FactorisationError:
                break
            solved = time.perf_counter()
            assert aim.contact_state is not None
            length = max_safe_step(contact, point.x, step.x, aim.contact_state)
            trial = point.stepped(step, length)
            after = self.evaluate(problem, trial, aim.at(trial), matrix=True)
            left = self.residuals(problem, trial, aim.at(trial), after)
            seconds = time.perf_counter() - solved, solved - clock
            budget.tell(trace_record(problem, made, measure, length, point.load_factor, evaluation, before, seconds))
            made += 1
            reference = max(evaluation.scale, after.scale, FORCE_FLOOR)
            if not np.isfinite(after.energy) or residual_merit(left, reference) > 0.3 * residual_merit(
                measure, reference
            ):
                break
            point, evaluation, measure = trial, after, left
        return replace(
            near,
            status=Status.CONVERGED if self.converged(measure) else Status.NOT_CONVERGED,
            point=point,
            evaluation=evaluation,
            residual=measure[0],
            iterations=made,
        )
