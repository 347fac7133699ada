"""One Newton solve: search direction, line search, criteria of convergence and failure.

A solve goes from iterate to iterate (`Iterate`), each a new record:

    1. measure: residuals at the point; converged, out of iterations, or stalled: the solve ends;
    2. tangent: of contact exact or not, whichever helps; laws of obstacles linearised where they have the forces foretold;
    3. direction: with factors of an earlier tangent where they are good enough. The first step from an equilibrium goes along
       the tangent of the path, no longer than a limit, and sets the aim;
    4. search: shorten the step until the energy is finite, nothing is crossed and the merit falls;
    5. give up after several short steps, or a first one that hardly moves.

The merit of the line search is the squared scaled residual, since the potential is a saddle. A step that meets new contacts may
raise it: their force was not in the tangent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.laws import linearised_at
from geosim.shape.energy.contact.step_limits import max_safe_step, max_self_contact_step
from geosim.shape.energy.newton.budget import Budget, trace_record
from geosim.shape.energy.newton.equations import FORCE_FLOOR, Equations
from geosim.shape.energy.newton.steps import MAX_TRIALS, residual_merit, step_limit
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, Evaluation, NewtonOutcome

# As `Equations.factor_reuse_residual` where parts meet: robots on a rough ball take 1,127 iterations with it and 1,179 without.
FACTOR_REUSE_RESIDUAL_TOUCHING = 0.1

# Where two levels replace factors every digit costs iterations: a step is solved to this share of the scaled residual, since
# Newton's method leaves its square [Eisenstat, Walker 1996, Choosing the forcing terms in an inexact Newton method]. A finger of
# 24k P2 tets to V/V0 = 2 takes 98 iterations of GMRES, and 177 without.
INEXACT_STEP_SHARE = 0.01

# The first step of an increment of which less than this share is free is not worth taking.
MIN_FIRST_STEP_SHARE = 0.5

# Steps below this length, so many one after the other, end a solve; other numbers where something may touch, which shortens
# steps, too. Measured on bars, arches, notched fingers: no solve without contact that converged had two, those that failed had
# up to five; of a block blown against a rough ball one that converged began with .047, .044, .1, .044.
SHORT_STEP, MAX_SHORT_STEPS = 0.05, 2
SHORT_STEP_TOUCHING, MAX_SHORT_STEPS_TOUCHING = 0.02, 4

# Residual below which the tangent of contact is exact (see `ShapeProblem.sharpened`): a box sucked to V/V0 = 0.3 takes 23
# iterations, and 54 from twice this.
EXACT_CONTACT_RESIDUAL = 0.01

# Residual below which an indefinite tangent is that of the path, not of the search for it. Measured: spheres and bars that are
# stable throughout have indefinite ones at 0.05 and above.
PATH_TANGENT_RESIDUAL = 0.02


@dataclass(frozen=True)
class Memory:
    """What a solve remembers of its steps.

    Parameters
    ----------
    reference
        Largest force so far: the unit of the merit.
    apart
        Smallest share of a step that nothing was met on.
    law_at
        Where the laws of contact are linearised (see `laws.linearised_at`).
    """

    reference: float = FORCE_FLOOR
    apart: float = 1.0
    law_at: Floats | None = None


@dataclass(frozen=True)
class Iterate:
    """A point of a Newton solve.

    Parameters
    ----------
    point, evaluation
        Where it is, and residuals there.
    aim
        What is looked for: the first step along a path sets how far.
    history
        Residuals of all points, this one's the last.
    length, short
        Share of the last step that was made; how many short ones were made in a row.
    predicted
        The point that Newton corrects: the start, or the end of the first step along a path.
    memory
        See `Memory`.
    """

    point: Configuration
    evaluation: Evaluation
    aim: ArcLengthConstraint
    predicted: Configuration
    history: tuple[tuple[float, ...], ...] = ()
    length: float = 1.0
    short: int = 0
    memory: Memory = Memory()

    @property
    def merits(self) -> list[float]:
        """Merits of all points, in the present unit."""
        return [residual_merit(measure, self.memory.reference) for measure in self.history]


@dataclass(frozen=True)
class Trial:
    """Where a line search ended: share of the step, point and evaluation; `folded` where no trial had a finite energy."""

    length: float
    point: Configuration | None = None
    evaluation: Evaluation | None = None
    folded: bool = False


@dataclass(frozen=True)
class NewtonSolve:
    """One Newton solve with what friction goes by held fixed; `run` reads like the algorithm.

    Parameters
    ----------
    equations, problem, aim, budget
        What is solved, and what it may cost.
    tolerance, passing
        Residual of an equilibrium; the same at a share below 1, where it is another.
    along
        Direction of the path at the start (nodes, 3), where that is an equilibrium; else None.
    until_met
        Whether it ends where parts of the robot meet.
    """

    equations: Equations
    problem: ShapeProblem
    aim: ArcLengthConstraint
    budget: Budget
    tolerance: float
    along: Floats | None
    passing: float | None = None
    until_met: bool = False

    def run(self, start: Configuration) -> NewtonOutcome:
        """Return the equilibrium, or how the search for it ended."""
        here = Iterate(start, self._evaluated(start, self.aim), self.aim, start)
        if not np.isfinite(here.evaluation.energy):
            return self._ended(Status.INVERTED, here, np.inf)
        while True:
            clock = time.perf_counter()
            here = self.measured(here)
            if (status := self.ends(here)) is not None:
                return self._ended(status, here)
            self.budget.check(self.problem)
            if here.evaluation.data is None:
                here = replace(here, evaluation=self._evaluated(here.point, here.aim))
            here, tangent = self.tangent(here)
            assembled, counts = time.perf_counter(), (self.problem.linear.factorisations, self.problem.linear.krylov)
            try:
                here, direction, apart = self.direction(here, tangent)
            except FactorisationError:
                return self._ended(Status.SINGULAR, here)
            solved, blocked = time.perf_counter(), self._first(here) and apart < MIN_FIRST_STEP_SHARE
            found = Trial(0.0) if blocked else self.search(here, direction, apart)
            self._tell(here, found, counts, (assembled - clock + time.perf_counter() - solved, solved - assembled))
            if found.point is None or found.evaluation is None:
                return self._ended(Status.INVERTED if found.folded else Status.NOT_CONVERGED, here, steps=1)
            new = self.accepted(here, found.length, found.point, found.evaluation)
            if self._gives_up(here, new):
                return self._ended(Status.NOT_CONVERGED, new, here.history[-1][0], steps=1)
            here = new

    def _evaluated(self, point: Configuration, aim: ArcLengthConstraint) -> Evaluation:
        return self.equations.evaluate(self.problem, point, aim.at(point), matrix=True)

    def _first(self, here: Iterate) -> bool:
        """Whether the next step leads from an equilibrium along the tangent of the path."""
        return self.along is not None and len(here.history) == 1

    # ---- measure, end

    def measured(self, here: Iterate) -> Iterate:
        """Return the iterate with its residuals."""
        measure = self.equations.residuals(self.problem, here.point, here.aim.at(here.point), here.evaluation)
        memory = replace(here.memory, reference=max(here.memory.reference, here.evaluation.scale))
        return replace(here, history=(*here.history, measure), memory=memory)

    def ends(self, here: Iterate) -> Status | None:
        """Return how the solve ends at a point; None where it goes on."""
        lands = here.aim.weights is None and here.aim.load_factor >= 1.0
        enough = self.tolerance if self.passing is None or lands else self.passing
        if self.equations.converged(here.history[-1], enough) and not self._first(here):
            return Status.CONVERGED
        grip = here.aim.at(here.point).contact_state
        window, share = (8, 0.6) if grip is not None and grip.push.any() else (5, 0.5)
        stuck = len(here.history) > self.equations.max_iterations or _stalled(here.merits, window, share)
        return Status.NOT_CONVERGED if stuck or self._meets(here) else None

    def _meets(self, here: Iterate) -> bool:
        """Whether parts of the robot have met, where that ends the solve."""
        met = here.evaluation.contact
        return self.until_met and met is not None and len(met.pairs) > 0

    def _gives_up(self, before: Iterate, here: Iterate) -> bool:
        """Whether a step was too short to go on: several in a row, or the first one."""
        problem, met = self.problem, _contacts(here.evaluation)
        touches = met > 0 or here.memory.apart < 1.0 or len(problem.environment.obstacles) > 0
        if here.short >= (MAX_SHORT_STEPS_TOUCHING if touches else MAX_SHORT_STEPS):
            return True
        return self._first(before) and here.length < MIN_FIRST_STEP_SHARE and met <= _contacts(before.evaluation)

    def _ended(self, status: Status, here: Iterate, residual: float | None = None, steps: int = 0) -> NewtonOutcome:
        """Return how the solve ended; `steps` were made since the last measure."""
        aim, point, made = here.aim, here.point, max(len(here.history) - 1, 0) + steps
        if aim.weights is None:
            point = replace(point, load_factor=aim.load_factor)
        residual = here.history[-1][0] if residual is None else residual
        return NewtonOutcome(status, point, here.evaluation, residual, made, aim.at(point), here.predicted, aim=aim)

    # ---- tangent

    def tangent(self, here: Iterate) -> tuple[Iterate, Evaluation]:
        """Return the evaluation with the tangent of contact that helps."""
        if here.evaluation.contact is None:
            return replace(here, memory=replace(here.memory, law_at=None)), here.evaluation
        evaluation, law_at = self._linearised(here)
        here, evaluation = replace(here, memory=replace(here.memory, law_at=law_at)), self.problem.softened(evaluation)
        near = here.history[-1][0] < EXACT_CONTACT_RESIDUAL
        return here, self.problem.sharpened(evaluation) if near else evaluation

    def _linearised(self, here: Iterate) -> tuple[Evaluation, Floats | None]:
        """Return the evaluation with the law of obstacles linearised at the force foretold, and the depths (k,) of that."""
        evaluation = here.evaluation
        assert evaluation.contact is not None
        depth = evaluation.contact.depth
        if not depth.any():
            return evaluation, None
        law_at = linearised_at(here.memory.law_at if here.length == 1.0 else None, depth)
        if (law_at < depth).any():
            evaluation = self.problem.relinearised(here.point.x, here.aim.at(here.point), evaluation, law_at)
        return evaluation, law_at

    # ---- direction

    def direction(self, here: Iterate, evaluation: Evaluation) -> tuple[Iterate, Configuration, float]:
        """Return a Newton step, with factors of an earlier tangent where they are good enough, and the share free of contact.

        A step of many body lengths is shortened before it is asked what it would meet: on its way it would meet everything.
        """
        far, memory = np.sqrt(here.merits[-1]), here.memory
        leads = self._first(here)  # along the path, far
        alone = not leads and memory.apart == 1.0 and _contacts(evaluation) == 0
        reuse = far < (self.equations.factor_reuse_residual if alone else FACTOR_REUSE_RESIDUAL_TOUCHING)
        accuracy = self.equations.accuracy(here.history[-1])
        if alone and not self.problem.linear.factoriser.exact:
            accuracy = max(accuracy, INEXACT_STEP_SHARE * far)
        step = self.equations.direction(self.problem, here.point, here.aim, evaluation, accuracy, reuse=reuse)
        apart, contact = 1.0, self.problem.contact
        if contact is not None and contact.neighbourhood is not None:
            within = step_limit(self.problem, here.aim, step, evaluation)
            apart = max_self_contact_step(contact, here.point.x, within * step.x)
        here = replace(here, memory=replace(memory, apart=min(memory.apart, apart)))
        if not leads:
            return here, step, apart
        aim, step = self._tangent_step(here, step)
        return replace(here, aim=aim), step, apart

    def _tangent_step(self, here: Iterate, step: Configuration) -> tuple[ArcLengthConstraint, Configuration]:
        """Return the first step from an equilibrium, no longer than a limit, and the aim that it can reach.

        It is the tangent of the path, and linear in the share: a shorter one leads to a smaller share. The arc, where one
        is asked for, goes through its end.
        """
        assert self.along is not None
        aim, point, evaluation = here.aim, here.point, here.evaluation
        change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
        length = step_limit(self.problem, aim, step, evaluation)
        if aim.bends and np.sum(self.along * step.x) < 0.0:
            length = -length
        aim = replace(aim, load_factor=point.load_factor + length * step.load_factor)
        step = Configuration(
            length * step.x,
            length * step.p,
            length * step.scalar_forces,
            length * step.load_factor,
            objects=length * step.objects,
        )
        if aim.bends and aim.load_factor < 1.0:
            ahead = point.stepped(step, 1.0)
            volumes = evaluation.scalars + length * change
            gain = aim.conjugate(ahead, volumes) - aim.conjugate(point, evaluation.scalars)
            if gain != 0.0:
                weights = (float(np.sign(gain)), float(np.sign(step.load_factor)))
                aim = aim.onto(ahead, volumes, weights, abs(gain / step.load_factor))
        return aim, step

    # ---- search

    def search(self, here: Iterate, step: Configuration, apart: float) -> Trial:
        """Shorten the step until the energy is finite, nothing is crossed and the residual is below the worst of the last four.

        The first step from an equilibrium carries the load, so there the residual may rise; a finite energy and no crossing
        always hold. In contact, where forces grow steeply over tiny distances, the residual says little: a step is good, too, if
        the energy still falls at its end or rises not half as steeply as it fell at first.
        """
        problem, present, first = self.problem, here.evaluation, self._first(here)
        length = step_limit(problem, here.aim, step, present)
        if problem.contact is not None and here.aim.contact_state is not None:
            known = None if first else apart  # a tangent step has become another
            grip, ahead = here.aim.gripped(here.point), here.aim.gripped(here.point.stepped(step, length))
            length *= max_safe_step(problem.contact, here.point.x, length * step.x, grip, ahead, apart=known)
        start, folded = self._slope(present, step), False
        for _ in range(MAX_TRIALS):
            point = replace(here.point.stepped(step, length), x=problem.moved(here.point.x, step.x, length))
            evaluation = self.equations.evaluate(problem, point, here.aim.at(point), matrix=length == 1.0)
            folded, shrink = not np.isfinite(evaluation.energy), 0.5
            if not folded:
                end = self._slope(evaluation, step)
                downhill = self._counts_slope(here, evaluation, start)
                if first or self._gains(here, point, evaluation, length) or (downhill and end <= 0.5 * abs(start)):
                    return Trial(length, point, evaluation)
                shrink = float(np.clip(start / (start - end), 0.1, 0.7)) if downhill and end > 0.0 else 0.5
            length *= shrink
        return Trial(0.0, folded=folded)

    def _slope(self, at: Evaluation, step: Configuration) -> float:
        """Derivative of the potential along a step."""
        free = ~self.problem.held[: step.x.size].reshape(-1, 3)
        return float(np.sum(at.force * step.x, where=free) + np.sum(at.free_bodies * step.objects))

    @staticmethod
    def _counts_slope(here: Iterate, there: Evaluation, start: float) -> bool:
        """Whether the derivative of the potential counts: where it falls at first, and something touches."""
        touches = _contacts(there) + _contacts(here.evaluation) + len(here.point.objects) > 0
        return start < 0.0 and touches

    def _gains(self, here: Iterate, point: Configuration, evaluation: Evaluation, length: float) -> bool:
        """Whether a trial lowers the merit enough, or is the first to land on something free."""
        if len(here.point.objects) > 0 and _contacts(here.evaluation) == 0 < _contacts(evaluation):
            return True
        unit = max(here.memory.reference, evaluation.scale)
        limit = max(residual_merit(measure, unit) for measure in here.history[-4:])
        merit = residual_merit(self.equations.residuals(self.problem, point, here.aim.at(point), evaluation), unit)
        return merit <= (1.0 - 1e-4 * length) * limit or merit < 1e-24

    def accepted(self, here: Iterate, length: float, point: Configuration, evaluation: Evaluation) -> Iterate:
        """Return the iterate after a step."""
        problem = self.problem
        touches = _contacts(evaluation) > 0 or here.memory.apart < 1.0 or len(problem.environment.obstacles) > 0
        short = here.short + 1 if length < (SHORT_STEP_TOUCHING if touches else SHORT_STEP) else 0
        return replace(
            here,
            point=point,
            evaluation=evaluation,
            length=length,
            short=short,
            predicted=point if self._first(here) else here.predicted,
        )

    # ---- trace

    def _tell(self, here: Iterate, found: Trial, counts: tuple[int, int], seconds: tuple[float, float]) -> None:
        """Record an iteration, and where the tangent of the path was indefinite."""
        problem, measure, share = self.problem, here.history[-1], here.point.load_factor
        record = trace_record(
            problem, len(here.history) - 1, measure, found.length, share, here.evaluation, counts, seconds
        )
        fresh = problem.linear.factorisations > counts[0]
        if fresh and measure[0] <= PATH_TANGENT_RESIDUAL and self._indefinite(here.point):
            record["indefinite"] = share, here.evaluation.scalars
        self.budget.tell(record)

    def _indefinite(self, point: Configuration) -> bool:
        """Whether the factors of the tangent, all but at an equilibrium, have more negative pivots than there are constraints."""
        problem, contact = self.problem, self.problem.contact
        rubs = (contact is not None and contact.friction) or point.hold is not None or len(point.objects) > 0
        if rubs or problem.rigid is not None or not np.array_equal(problem.table, problem.isochoric_table):
            return False  # there is no potential, or one whose local modes are the mesh's
        constraints = int((~problem.held[point.x.size :]).sum()) + int(self.aim.end.by_value.sum())
        return problem.linear.factoriser.count_negative() > constraints


def _contacts(evaluation: Evaluation) -> int:
    return evaluation.contact.count if evaluation.contact is not None else 0


def _stalled(merits: list[float], window: int, share: float) -> bool:
    """Whether the merit is more than a share of what it was a window of iterations ago."""
    return len(merits) > 1.5 * window and min(merits[-2:]) > share * min(merits[-window - 1 : -window + 1])
