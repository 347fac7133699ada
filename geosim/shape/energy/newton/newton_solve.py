"""One Newton solve: search direction, line search, criteria of convergence and failure.

The merit of the line search is the squared scaled residual, since the potential is a saddle. A step that meets new
contacts may raise it: their force was not in the tangent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.laws import linearised_at
from geosim.shape.energy.contact.step_limits import max_safe_step, max_self_contact_step
from geosim.shape.energy.newton.budget import Budget, trace_record
from geosim.shape.energy.newton.equations import FORCE_FLOOR, Equations
from geosim.shape.energy.newton.states import ArcLengthConstraint, Configuration, Evaluation, LoadState, NewtonOutcome
from geosim.shape.energy.problem import ShapeProblem

# As `Equations.factor_reuse_residual` once the last factors were not good enough so many times in the same solve, and where parts
# meet, which steps that are solved roughly miss.
FACTOR_REUSE_RESIDUAL_AFTER_FAILURES, MAX_REUSE_FAILURES = 0.1, 2
# The step that they make is solved to this share of the scaled residual, between these bounds: Newton's method squares it and
# no more [Eisenstat, Walker 1996, Choosing the forcing terms in an inexact Newton method].
FORCING_TERM, MIN_LINEAR_TOLERANCE, MAX_LINEAR_TOLERANCE = 0.1, 1e-4, 1e-2
# Where Newton's method leaves so many times what would be accurate enough for a last step, there will be another.
NOT_LAST_STEP_RATIO = 10.0

# The first step of an increment of which less than this share is free is not worth taking.
MIN_FIRST_STEP_SHARE = 0.5

# Steps below this length, so many one after the other, end a solve; other numbers where something may touch, which shortens
# steps, too. Measured on bars, arches, notched fingers: no solve without contact that converged had two, those that failed had
# up to five; of a block blown against a rough ball one that converged began with .047, .044, .1, .044.
SHORT_STEP, MAX_SHORT_STEPS = 0.05, 2
SHORT_STEP_TOUCHING, MAX_SHORT_STEPS_TOUCHING = 0.02, 4

# Longest displacement of a node in one step, over the size of the body: beyond it rotations are far from linear.
MAX_NODE_STEP = 0.2

# Largest turn [rad] of a free object in one step.
MAX_FREE_BODY_TURN_RAD = 0.5

# Largest change of a chamber's volume that a prediction may ask for, over the volume: walls that close on each other, and
# membranes that thin, are farther from linear than their displacement says.
MAX_VOLUME_CHANGE_REL = 0.3

# A step shortened to less than this share may turn a quadrature point inside out, where the energy allows it.
INVERSION_STEP_SHARE = 0.1

# Smallest J at a quadrature point below which the solution may have it inside out before long.
FLAT_ELEMENT_JACOBIAN = 0.2

# Where less than this share of the merit goes in an iteration, and the residual is near, what slides gets its exact tangent.
SLOW_MERIT_DECREASE, EXACT_SLIDING_RESIDUAL = 0.25, 0.1

# Residual below which an indefinite tangent is that of the path and not of the search for it. Measured: spheres and bars that are
# stable throughout have indefinite ones at .05 and above.
PATH_TANGENT_RESIDUAL = 0.01

# Where two steps together leave more than this share of the merit, Newton goes round in circles: then the other tangent of
# contact is tried, and every step must gain.
CYCLE_MERIT_RATIO = 0.7

# Residual below which the tangent of contact is exact (see `ShapeProblem.sharpened`), and below which it is tried where the other
# leaves half of the residual: a bellows in contact with itself crept from .004 to .002 in eight steps. Where contacts change to
# and fro the exact one goes round in circles: so many steps do without it.
EXACT_CONTACT_RESIDUAL, CRAWLING_CONTACT_RESIDUAL, INEXACT_CONTACT_STEPS = 0.002, 0.02, 3


@dataclass
class NewtonSolve:
    """One Newton solve with what friction goes by held fixed; `run` reads like the algorithm."""

    equations: Equations
    problem: ShapeProblem
    aim: ArcLengthConstraint
    budget: Budget
    tolerance: float
    along: Floats | None
    passing: float | None = None  # tolerance at a share below 1, where it is another
    iterations: int = 0
    history: list[tuple[float, ...]] = field(default_factory=list)
    reference: float = FORCE_FLOOR
    length: float = 1.0
    sharp: bool = False  # whether the last tangent was exact for contact
    blunt: int = 0  # steps to do without
    folded: bool = False  # whether the last trial had no finite energy
    predicted: Configuration | None = None
    apart: float = 1.0  # smallest share of a step that nothing was met on
    worn: int = 0  # how often old factors were not good enough
    law_at: Floats | None = None  # where the laws of contact are linearised (see `laws.linearised_at`)
    kinks: bool = False  # whether obstacles began or ceased to press on points

    def run(self, point: Configuration) -> NewtonOutcome:
        """Return the equilibrium, or how the search for it ended."""
        equations, problem, short = self.equations, self.problem, 0
        self.predicted = point
        evaluation = equations.evaluate(problem, point, self.aim.at(point), matrix=True)
        if not np.isfinite(evaluation.energy):
            return self._ended(Status.INVERTED, point, evaluation, np.inf)
        while True:
            clock = time.perf_counter()
            first = self.along is not None and not self.history
            target = self.aim.at(point)
            measure = equations.residuals(problem, point, target, evaluation)
            lands = self.aim.weights is None and self.aim.load_factor >= 1.0
            enough = self.tolerance if self.passing is None or lands else self.passing
            if equations.converged(measure, enough) and not first:
                return self._ended(Status.CONVERGED, point, evaluation, measure[0])
            if len(self.history) == equations.max_iterations or self._stalls(measure, evaluation, target):
                return self._ended(Status.NOT_CONVERGED, point, evaluation, measure[0])
            self.budget.check(problem)
            if evaluation.data is None:
                evaluation = equations.evaluate(problem, point, target, matrix=True)
            tangent = self._choose_tangent(measure, self._by_foretold_forces(point, target, evaluation))
            assembled = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            try:
                direction, apart = self._direction(point, tangent, equations.accuracy(measure))
            except FactorisationError:
                return self._ended(Status.SINGULAR, point, evaluation, measure[0])
            direction = self._tangent_step(point, direction, evaluation) if first else direction
            solved = time.perf_counter()
            blocked = first and apart < MIN_FIRST_STEP_SHARE
            found = None if blocked else self._line_search(point, direction, apart, evaluation, first=first)
            self.length = found[0] if found is not None else 0.0
            seconds = assembled - clock + time.perf_counter() - solved, solved - assembled
            record = trace_record(
                problem, self.iterations, measure, self.length, point.load_factor, evaluation, before, seconds
            )
            fresh = problem.linear.factorisations > before[0]
            if fresh and measure[0] <= PATH_TANGENT_RESIDUAL and self._indefinite(point):
                record["indefinite"] = point.load_factor, evaluation.scalars
            self.budget.tell(record)
            self.iterations += 1
            if found is None:
                lost = Status.INVERTED if self.folded and not blocked else Status.NOT_CONVERGED
                return self._ended(lost, point, evaluation, measure[0])
            meets = _contacts(found[2]) > _contacts(evaluation)
            self.kinks = self.kinks or _presses_elsewhere(evaluation, found[2])
            point, evaluation = found[1:]
            touches = _contacts(evaluation) > 0 or self.apart < 1.0 or len(problem.environment.obstacles) > 0
            short = short + 1 if self.length < (SHORT_STEP_TOUCHING if touches else SHORT_STEP) else 0
            self.predicted = point if first else self.predicted
            touchy = first and problem.contact is not None and problem.contact.neighbourhood is not None
            failing = short >= (MAX_SHORT_STEPS_TOUCHING if touches else MAX_SHORT_STEPS)
            if failing or (first and self.length < (MIN_FIRST_STEP_SHARE if touchy else 0.1) and not meets):
                return self._ended(Status.NOT_CONVERGED, point, evaluation, measure[0])

    def _by_foretold_forces(self, point: Configuration, target: LoadState, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation with the laws of contact with obstacles linearised where they have the forces foretold."""
        forces = evaluation.contact
        if forces is None or not forces.depth.any():
            self.law_at = None
            return evaluation
        self.law_at = linearised_at(self.law_at if self.length == 1.0 else None, forces.depth)
        if not (self.law_at < forces.depth).any():
            return evaluation
        return self.problem.relinearised(point.x, target, evaluation, self.law_at)

    def _indefinite(self, point: Configuration) -> bool:
        """Whether the factors of the tangent, all but at an equilibrium, have more negative pivots than there are constraints."""
        problem, contact = self.problem, self.problem.contact
        rubs = (contact is not None and contact.friction) or point.hold is not None or len(point.objects) > 0
        if rubs or problem.rigid is not None or not np.array_equal(problem.table, problem.isochoric_table):
            return False  # there is no potential, or one whose local modes are the mesh's
        constraints = int((~problem.held[point.x.size :]).sum()) + int(self.aim.end.by_value.sum())
        return problem.linear.factoriser.count_negative() > constraints

    def _ended(self, status: Status, point: Configuration, evaluation: Evaluation, residual: float) -> NewtonOutcome:
        if self.aim.weights is None:
            point = replace(point, load_factor=self.aim.load_factor)
        return NewtonOutcome(
            status, point, evaluation, residual, self.iterations, self.aim.at(point), self.predicted, kinks=self.kinks
        )

    def _stalls(self, measure: tuple[float, ...], evaluation: Evaluation, target: LoadState) -> bool:
        """Note the residuals; whether they have stopped falling."""
        self.history.append(measure)
        self.reference = max(self.reference, evaluation.scale)
        merits = [residual_merit(m, self.reference) for m in self.history]
        if target.contact_state is not None and target.contact_state.push.any():
            return _stalled(merits, 8, 0.6)
        return _stalled(merits, 5, 0.5)

    def _choose_tangent(self, measure: tuple[float, ...], evaluation: Evaluation) -> Evaluation:
        """Return the evaluation with the tangent of contact exact where that helps."""
        if evaluation.contact is None:
            return evaluation
        merits = [residual_merit(m, self.reference) for m in self.history]
        if (
            len(merits) > 1
            and SLOW_MERIT_DECREASE * merits[-2] < merits[-1] < EXACT_SLIDING_RESIDUAL**2
            and self.length > 0.5
        ):
            evaluation = self.problem.softened(evaluation)  # exact for what slides; from afar it overshoots
        crawls = len(merits) > 1 and merits[-1] >= SLOW_MERIT_DECREASE * merits[-2]
        self.blunt = INEXACT_CONTACT_STEPS if self.sharp and crawls else self.blunt - 1
        late = crawls and measure[0] < CRAWLING_CONTACT_RESIDUAL
        near = measure[0] < EXACT_CONTACT_RESIDUAL and self.blunt <= 0
        self.sharp = near or ((late or self._circles()) and not self.sharp)
        return self.problem.sharpened(evaluation) if self.sharp else evaluation

    def _circles(self) -> bool:
        """Whether the last two steps together gained next to nothing, with the end in sight."""
        if len(self.history) < 3:
            return False
        now, before = (residual_merit(self.history[i], self.reference) for i in (-1, -3))
        return CYCLE_MERIT_RATIO * before < now < EXACT_SLIDING_RESIDUAL**2

    def _direction(self, point: Configuration, evaluation: Evaluation, accuracy: float) -> tuple[Configuration, float]:
        """Return a Newton step, with factors of an earlier tangent where they are good enough, and the share free of contact.

        A step of many body lengths is shortened before it is asked what it would meet: on its way it would meet everything.
        """
        far, linear = np.sqrt(residual_merit(self.history[-1], self.reference)), self.problem.linear
        leads = self.along is not None and len(self.history) == 1  # along the path, far
        alone = not leads and self.apart == 1.0 and _contacts(evaluation) == 0
        trusted = alone and self.worn < MAX_REUSE_FAILURES
        reuse = far < (self.equations.factor_reuse_residual if trusted else FACTOR_REUSE_RESIDUAL_AFTER_FAILURES)
        rough = self._forcing(far, accuracy) if alone else 0.0
        before = linear.factorisations
        step = self.equations.direction(self.problem, point, self.aim, evaluation, accuracy, reuse=reuse, rough=rough)
        self.worn += reuse and linear.factorisations > before
        contact = self.problem.contact
        if contact is None or contact.neighbourhood is None:
            return step, 1.0
        within = step_limit(self.problem, self.aim, step, evaluation)
        share = max_self_contact_step(contact, point.x, within * step.x)
        self.apart = min(self.apart, share)
        return step, share

    def _forcing(self, far: float, accuracy: float) -> float:
        """Share of the residual that a step may leave: a tenth of what Newton's method itself will, by what it left before.

        Less accurate than asked for is only a step that cannot be the last.
        """
        if len(self.history) > 1 and self.length == 1.0:
            before = residual_merit(self.history[-2], self.reference)
            far = min(far, far**2 / before) if before > 0.0 else far  # a rest shape may balance to the last digit
        lasts = accuracy < MIN_LINEAR_TOLERANCE and far < NOT_LAST_STEP_RATIO * accuracy
        return 0.0 if lasts else float(np.clip(FORCING_TERM * far, MIN_LINEAR_TOLERANCE, MAX_LINEAR_TOLERANCE))

    def _tangent_step(self, point: Configuration, step: Configuration, evaluation: Evaluation) -> Configuration:
        """Return the first step from an equilibrium, no longer than `MAX_NODE_STEP`, and aim at what it can reach.

        It is the tangent of the path, and linear in the share: a shorter one leads to a smaller share. The arc, where one
        is asked for, goes through its end.
        """
        assert self.along is not None
        change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
        length = step_limit(self.problem, self.aim, step, evaluation)
        if self.aim.bends and np.sum(self.along * step.x) < 0.0:
            length = -length
        self.aim = replace(self.aim, load_factor=point.load_factor + length * step.load_factor)
        step = Configuration(
            length * step.x,
            length * step.p,
            length * step.scalar_forces,
            length * step.load_factor,
            objects=length * step.objects,
        )
        if self.aim.bends and self.aim.load_factor < 1.0:
            ahead = point.stepped(step, 1.0)
            volumes = evaluation.scalars + length * change
            gain = self.aim.conjugate(ahead, volumes) - self.aim.conjugate(point, evaluation.scalars)
            if gain != 0.0:
                weights = (float(np.sign(gain)), float(np.sign(step.load_factor)))
                self.aim = self.aim.onto(ahead, volumes, weights, abs(gain / step.load_factor))
        return step

    def _line_search(
        self, point: Configuration, step: Configuration, apart: float, present: Evaluation, *, first: bool
    ) -> tuple[float, Configuration, Evaluation] | None:
        """Shorten the step until the energy is finite, nothing is crossed and the residual is below the worst of the last four.

        The first step from an equilibrium carries the load (`first`), so there the residual may rise; a finite energy and
        no crossing always hold. In contact, where forces grow steeply over tiny distances, the residual says little: a
        step is good, too, if the energy still falls at its end or rises not half as steeply as it fell at first.
        """
        problem, equations = self.problem, self.equations
        length = step_limit(problem, self.aim, step, present)
        if problem.contact is not None and self.aim.contact_state is not None:
            known = None if first else apart  # a tangent step has become another
            here, there = (self.aim.gripped(at) for at in (point, point.stepped(step, length)))
            length *= max_safe_step(problem.contact, point.x, length * step.x, here, there, apart=known)
        free = ~problem.held[: point.x.size].reshape(-1, 3)

        def slope(at: Evaluation) -> float:
            return float(np.sum(at.force * step.x, where=free) + np.sum(at.free_bodies * step.objects))

        start, circles = slope(present), self._circles()
        for _ in range(12):
            shrink = 0.5
            trial = replace(point.stepped(step, length), x=problem.moved(point.x, step.x, length))
            target = self.aim.at(trial)
            evaluation = equations.evaluate(problem, trial, target, matrix=length == 1.0)
            self.folded = not np.isfinite(evaluation.energy)
            if not self.folded and avoids_inversion(present, evaluation, length):
                common = max(self.reference, evaluation.scale)
                limit = max(residual_merit(m, common) for m in (self.history[-1:] if circles else self.history[-4:]))
                merit = residual_merit(equations.residuals(problem, trial, target, evaluation), common)
                downhill = False
                if start < 0.0 and not circles and _contacts(evaluation) + _contacts(present) + len(point.objects) > 0:
                    end = slope(evaluation)
                    downhill = end <= 0.5 * abs(start)
                    shrink = float(np.clip(start / (start - end), 0.1, 0.7)) if end > 0.0 else 0.5
                lands = len(point.objects) > 0 and _contacts(present) == 0 < _contacts(evaluation)
                if first or lands or downhill or merit <= (1.0 - 1e-4 * length) * limit or merit < 1e-24:
                    return length, trial, evaluation
            length *= shrink
        return None


def avoids_inversion(present: Evaluation, trial: Evaluation, length: float) -> bool:
    """Whether a trial turns no quadrature point inside out that a shorter step would not.

    The full form of an incompressible energy is finite there, too, and at sharp edges the solution itself may be so:
    this is a preference of long steps, not a demand, and none where a point is all but flat already: it may go through.
    """
    flat = present.smallest < FLAT_ELEMENT_JACOBIAN
    return flat or trial.smallest > 0.0 or trial.smallest >= present.smallest or length < INVERSION_STEP_SHARE


def volume_step_limit(problem: ShapeProblem, volumes: Floats, change: Floats) -> float:
    """Share of a change of the chamber volumes (c,), at most 1, that `MAX_VOLUME_CHANGE_REL` allows."""
    volumes, change = volumes[: problem.chambers], change[: problem.chambers]
    most = MAX_VOLUME_CHANGE_REL * np.where(change < 0.0, volumes, np.maximum(volumes, problem.rest_chamber_volumes))
    with np.errstate(divide="ignore"):
        return float(np.min(most / np.abs(change), initial=1.0))


def step_limit(problem: ShapeProblem, aim: ArcLengthConstraint, step: Configuration, evaluation: Evaluation) -> float:
    """Share of a step, at most 1, that the limits of displacements and of chamber volumes allow."""
    change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
    return min(
        _displacement_limit(step, aim.longest),
        volume_step_limit(problem, evaluation.scalars, change * ~aim.end.by_value),
    )


def _displacement_limit(step: Configuration, longest: float) -> float:
    """Share of a step that the limits of displacements, and of turns of free objects, allow."""
    size = float(np.sqrt(np.max(np.sum(step.x**2, axis=1), initial=0.0)))
    way, turn = np.linalg.norm(step.objects.reshape(-1, 2, 3), axis=2).max(axis=0, initial=0.0)
    return float(1.0 / max(1.0, size / min(longest, MAX_NODE_STEP), way / MAX_NODE_STEP, turn / MAX_FREE_BODY_TURN_RAD))


def _contacts(evaluation: Evaluation) -> int:
    return evaluation.contact.count if evaluation.contact is not None else 0


def _presses_elsewhere(before: Evaluation, after: Evaluation) -> bool:
    """Whether obstacles press on other points than before."""
    old, new = before.contact, after.contact
    return old is not None and new is not None and not np.array_equal(old.push > 0.0, new.push > 0.0)


def residual_merit(measure: tuple[float, ...], reference: float) -> float:
    """Squared scaled residual: the merit of the line search (Pi is a saddle and no merit).

    `reference` is one force for a whole Newton solve: forces that fall to zero must not raise the merit.
    """
    _, volume, constraint, place, norm = measure
    return (norm / reference) ** 2 + volume**2 + constraint**2 + place**2


def _stalled(merits: list[float], window: int, share: float) -> bool:
    """Whether the merit is more than a share of what it was a window of iterations ago."""
    return len(merits) > 1.5 * window and min(merits[-2:]) > share * min(merits[-window - 1 : -window + 1])
