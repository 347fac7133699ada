"""Minimisation of the potential under constraints: proximal Newton on the augmented Lagrangian, convex by inertia.

A step solves Newton's equations with a drag d [shear modulus over size^2] on the volume M of every node, and with a share t of
N, the negative parts of the pairs in contact,

    (H + t N + d M) dx - C^T dP = -residual,        C dx = -c,

with H the exact tangent and c what incompressibility and prescribed volumes still miss.

    1. descent: the smallest t of a ladder, then the smallest drag, with which the matrix has as many negative eigenvalues as
       there are constraints. Then the step leads downhill on the augmented Lagrangian (`merit`) [Nocedal & Wright 2006, theorem
       16.3; Waechter & Biegler 2006, section 3.1]. The ladder comes first: contact's negative modes are local, and a drag that
       pays for them holds the whole body. Where a factoriser does not count eigenvalues, the curvature along the step decides
       [Chiang & Zavala 2016].
    2. search: shorten the step until nothing is crossed and the merit falls; shorten the multipliers with it. Near the end the
       merit is round-off: there the residual decides. Make a whole step longer while the merit falls at its end.
    3. drag: falls after a whole step that gains as foretold, rises after a poor one.

Every step gains and crosses nothing, so that contacts that come and go cannot send the body round in circles.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, einsum
from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.step_limits import max_safe_step
from geosim.shape.energy.newton.budget import Budget, trace_record
from geosim.shape.energy.newton.equations import FORCE_FLOOR, Equations, with_proximal_term
from geosim.shape.energy.newton.merit import AugmentedLagrangian, touches_rough
from geosim.shape.energy.newton.steps import MAX_TRIALS, residual_merit, step_limit
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import (
    ArcLengthConstraint,
    Configuration,
    Evaluation,
    NewtonOutcome,
    ProximalTerm,
    longest_displacement,
)

# Shares t of contact's negative parts, from the exact tangent to the positive one.
CONTACT_SHARES = (0.0, 0.1, 0.3, 1.0)
# Drag where it begins and where it is given up, and the factor between two trials. Waves as long as half the body have a
# stiffness of about 100.
MIN_DRAG, MAX_DRAG, DRAG_RISE = 1.0, 1e7, 8.0
# Drag after a good step is divided by this, and below the least of it there is none; after a poor one it is at least doubled.
DRAG_FALL, LEAST_DRAG = 4.0, 0.1
# Share of the decrease foretold by the slope that a step must bring (Armijo), and of that foretold by the model for the drag to
# fall.
ARMIJO_DECREASE, GOOD_MODEL_RATIO = 1e-4, 0.3
# Residual below which the residual decides where the merit does not, and the share of its square that may be left.
NEAR_RESIDUAL, RESIDUAL_DECREASE = 1e-3, 0.25
# Share of the slope left at the end of a whole step from which it is made longer: walls that slide on each other are less stiff
# than contact with its negative parts.
EXTENDING_SLOPE = 0.3
# Way of held nodes, over the size, that is more than round-off.
LEAST_CARRIED_MOVE_REL = 1e-12
# V/V0 beyond which a body that grows by itself is not followed.
MAX_VOLUME_RATIO = 10.0


@dataclass(frozen=True)
class Iterate:
    """A point of a minimisation: configuration, evaluation with tangent, residuals, and how the last step went.

    `drag` and `share` (t) are those of the last step, `length` the share of it that was made.
    """

    point: Configuration
    evaluation: Evaluation
    measure: tuple[float, ...]
    drag: float = 0.0
    share: float = 0.0
    length: float = 1.0


@dataclass(frozen=True)
class Direction:
    """A step, what it changes incompressibility by (v,), and the drag and t that it took."""

    step: Configuration
    change: Floats
    drag: float
    share: float


@dataclass(frozen=True)
class Line:
    """The line along a step, which changes incompressibility by `change`: merit at the multipliers after it, value and slope.

    A step that `carries` held nodes, as the first one may, need not lead downhill.
    """

    here: Iterate
    step: Configuration
    change: Floats
    merit: AugmentedLagrangian
    value: float
    slope: float
    carries: bool


@dataclass(frozen=True)
class Minimisation:
    """The minimisation at one share of a command.

    Parameters
    ----------
    equations, problem, aim, budget
        What is solved, how sharp, and what it may cost.
    farthest, max_drag
        Displacement of a node over the size of the body, and drag, beyond which the body is not followed.
    passing
        Residual of a place beside the equilibrium that will do; 0: the equilibrium itself.
    max_iterations
        Steps at most.
    first_drag
        Drag of the first step.
    """

    equations: Equations
    problem: ShapeProblem
    aim: ArcLengthConstraint
    budget: Budget
    farthest: float = np.inf
    max_drag: float = MAX_DRAG
    passing: float = 0.0
    max_iterations: int = 150
    first_drag: float = 0.0

    def run(self, start: Configuration) -> NewtonOutcome:
        """Return the minimum downhill from a start, NOT_CONVERGED where there is none; `far` where the body went too far."""
        here = replace(self._at(replace(start, load_factor=self.aim.load_factor)), drag=self.first_drag)
        count, far = 0, False
        for count in range(self.max_iterations + 1):
            if not np.isfinite(here.evaluation.energy) or touches_rough(self.problem, here.evaluation):
                break
            if self._ends(here, count):
                return self._outcome(Status.CONVERGED, here, count)
            self.budget.check(self.problem)
            clock, before = time.perf_counter(), (self.problem.linear.factorisations, self.problem.linear.krylov)
            direction = self.descent(here)
            if direction is None:
                break
            solved = time.perf_counter()
            new = self.search(here, direction)
            seconds = time.perf_counter() - solved, solved - clock
            share, evaluation = self.aim.load_factor, new.evaluation
            self.budget.tell(
                trace_record(self.problem, count, here.measure, new.length, share, evaluation, before, seconds)
            )
            here = new
            far = self._is_lost(start, here)
            if far:
                break
        return self._outcome(Status.NOT_CONVERGED, here, count, far)

    def _at(self, point: Configuration) -> Iterate:
        target = self.aim.at(point)
        evaluation = self.equations.evaluate(self.problem, point, target, matrix=True)
        return Iterate(point, evaluation, self.equations.residuals(self.problem, point, target, evaluation))

    # ---- termination

    def _ends(self, here: Iterate, count: int) -> bool:
        """Whether the point is the equilibrium; or beside it, where that will do."""
        beside = here.length == 1.0 and here.drag < LEAST_DRAG and self.equations.converged(here.measure, self.passing)
        return count > 0 and (self.equations.converged(here.measure) or beside)

    def _is_lost(self, start: Configuration, here: Iterate) -> bool:
        """Whether the body has gone too far."""
        scalars, chambers = here.evaluation.scalars, self.problem.chambers
        bursts = scalars[:chambers] > MAX_VOLUME_RATIO * self.problem.rest_chamber_volumes
        return bool(bursts.any()) or longest_displacement(here.point.x - start.x) > self.farthest

    def _outcome(self, status: Status, here: Iterate, count: int, far: bool = False) -> NewtonOutcome:
        """Return how it ended; its iterations do not tell how straight a path is."""
        target = self.aim.at(here.point)
        return NewtonOutcome(status, here.point, here.evaluation, here.measure[0], count, target, first=1, far=far)

    # ---- descent

    def descent(self, here: Iterate) -> Direction | None:
        """Return a step downhill; None where no drag makes one."""
        tangent, negative, drag = self.problem.sharpened(here.evaluation), None, here.drag
        while drag <= self.max_drag:
            for share in self._ladder(here):
                if negative is None and share > 0.0:
                    negative = self.problem.negative_contact(here.evaluation)
                found = self._downhill(here, self._with_drag(here, tangent, negative, share, drag))
                if found is not None:
                    return Direction(*found, drag, share)
            drag = max(DRAG_RISE * drag, MIN_DRAG)
        return None

    @staticmethod
    def _ladder(here: Iterate) -> tuple[float, ...]:
        """Shares t to try, from one below that of the last step on."""
        met = here.evaluation.contact
        if met is None or not len(met.pairs):
            return CONTACT_SHARES[:1]
        return CONTACT_SHARES[max(CONTACT_SHARES.index(here.share) - 1, 0) :]

    def _with_drag(
        self, here: Iterate, tangent: Evaluation, negative: Floats | None, share: float, drag: float
    ) -> Evaluation:
        """Return the tangent with a share of contact's negative parts, and with drag."""
        if negative is not None and share > 0.0:
            assert tangent.data is not None
            tangent = replace(tangent, data=tangent.data + share * negative)
        if drag == 0.0:
            return tangent
        point, none = here.point, np.zeros(0)
        springs = ProximalTerm(point.x, drag * self.problem.node_volumes, point.objects, none)
        return with_proximal_term(self.problem, tangent, point, springs)

    def _downhill(self, here: Iterate, matrix: Evaluation) -> tuple[Configuration, Floats] | None:
        """Return a step and what it changes incompressibility by (v,); None where the matrix is not convex."""
        problem, equations = self.problem, self.equations
        try:
            step = equations.direction(
                problem, here.point, self.aim, matrix, equations.accuracy(here.measure), reuse=False
            )
        except FactorisationError:
            return None
        assert matrix.data is not None
        moves = np.concatenate([step.x.ravel(), np.zeros(len(step.p))])
        forces, change = np.split(matrix.sparsity.product(matrix.data, moves), [step.x.size])
        negative = problem.linear.negative_pivots()
        convex = float(forces @ step.x.ravel()) > 0.0 if negative < 0 else negative == self._constraints(here)
        return (step, change) if convex else None

    def _constraints(self, here: Iterate) -> int:
        """Number of constraints: incompressibility at vertices, prescribed scalars."""
        controls = self.aim.at(here.point).controls(here.point, here.evaluation.scalars)
        return int((~self.problem.held[here.point.x.size :]).sum()) + len(controls.gap)

    # ---- search

    def search(self, here: Iterate, direction: Direction) -> Iterate:
        """Shorten a step until it gains, and choose the next drag; `length` is 0 where nothing helps."""
        line = self._line(here, direction)
        length = free = self._free_share(here, direction)
        for _ in range(MAX_TRIALS):
            found = self._trial(line, length)
            if found is not None:
                new, gain = found
                longer = self._extended(line, new, gain) if length == 1.0 else None
                foretold = length * line.slope * (1.0 - 0.5 * length)
                ratio = gain / foretold if foretold < 0.0 else 0.0
                raised = direction.drag > here.drag
                drag = _next_drag(direction.drag, here.measure[0], ratio, length, free, raised=raised)
                return replace(longer or new, drag=drag, share=direction.share, length=length)
            length *= 0.5
        return replace(here, drag=max(DRAG_RISE * direction.drag, MIN_DRAG), share=direction.share, length=0.0)

    def _line(self, here: Iterate, direction: Direction) -> Line:
        """Return the line along a step, at the multipliers after it."""
        problem, target, step, start = self.problem, self.aim.at(here.point), direction.step, here.point
        after = replace(start, p=start.p + step.p, scalar_forces=start.scalar_forces + step.scalar_forces)
        merit, now = AugmentedLagrangian(problem, target, after), with_multipliers(here, step)
        carried = np.abs(problem.shift(start.x, target.positions)).max(initial=0.0) > LEAST_CARRIED_MOVE_REL
        slope = merit.slope(now, step, direction.change)
        return Line(here, step, direction.change, merit, merit.at(start.x, now), slope, bool(carried))

    def _free_share(self, here: Iterate, direction: Direction) -> float:
        """Share of a step that is not too long and crosses nothing."""
        contact, grip = self.problem.contact, self.aim.contact_state
        share = step_limit(self.problem, self.aim, direction.step, here.evaluation)
        if contact is None or grip is None:
            return share
        return share * max_safe_step(contact, here.point.x, share * direction.step.x, grip)

    def _extended(self, line: Line, whole: Iterate, gain: float) -> Iterate | None:
        """Return the iterate beyond a whole step, where the merit goes on falling; None where nothing is gained.

        It goes as far as the secant of the slope foretells.
        """
        problem, contact, grip = self.problem, self.problem.contact, self.aim.contact_state
        left = line.merit.slope(whole.evaluation, line.step, line.change) / line.slope if line.slope < 0.0 else 0.0
        if line.carries or left < EXTENDING_SLOPE or contact is None or grip is None:
            return None
        length = 1.0 / max(1.0 - left, 1e-9)
        far = replace(line.step, x=length * line.step.x)
        length *= step_limit(problem, self.aim, far, line.here.evaluation)
        length *= max_safe_step(contact, line.here.point.x, length * line.step.x, grip)
        found = self._trial(line, length) if length > 1.0 else None
        return found[0] if found is not None and found[1] < gain else None

    def _trial(self, line: Line, length: float) -> tuple[Iterate, float] | None:
        """Return a share of a step and the change of the merit, if the merit falls, or near the end the residual."""
        here, whole = line.here, length == 1.0
        x = self.problem.moved(here.point.x, line.step.x, length)
        tried, target = replace(line.merit.multipliers, x=x), self.aim.at(here.point)
        new = self._at(tried) if whole else None
        seen = new.evaluation if new else self.equations.evaluate(self.problem, tried, target, matrix=False)
        if not np.isfinite(seen.energy):
            return None
        gain = line.merit.at(x, seen) - line.value
        falls = gain <= ARMIJO_DECREASE * length * line.slope
        if not (line.carries or falls or here.measure[0] < NEAR_RESIDUAL):
            return None
        new = new or self._at(replace(here.point.stepped(line.step, min(length, 1.0)), x=x))
        return (new, gain) if line.carries or falls or _nears(here, new) else None


def with_multipliers(here: Iterate, step: Configuration) -> Evaluation:
    """Return the evaluation at the same positions with the multipliers after a step.

    Constraints that give way to their multipliers, c = c_0 - S p, have an energy p . S p / 2.
    """
    found, size = here.evaluation, step.x.size
    assert found.data is not None
    change = found.sparsity.product(found.data, np.concatenate([np.zeros(size), step.p]))
    force = found.force + change[:size].reshape(-1, 3) - einsum("c,cni->ni", step.scalar_forces, found.gradients)
    energy = found.energy - float((here.point.p + 0.5 * step.p) @ change[size:])
    return replace(found, force=force, constraint=found.constraint + change[size:], energy=energy)


def _nears(here: Iterate, new: Iterate) -> bool:
    """Whether the residual falls as Newton's method makes it fall near the end."""
    reference = max(here.evaluation.scale, new.evaluation.scale, FORCE_FLOOR)
    return residual_merit(new.measure, reference) < RESIDUAL_DECREASE * residual_merit(here.measure, reference)


def _next_drag(drag: float, residual: float, ratio: float, length: float, free: float, *, raised: bool) -> float:
    """Drag of the next step, by how much of what the model foretold a step brought, and how much of it was made.

    It falls twice as fast, on a scale of logarithms, where the model foretells well and the matrix was convex at once: a drag
    that had to be `raised` is soon too small again.
    """
    if length == 1.0 and (ratio > GOOD_MODEL_RATIO or residual < NEAR_RESIDUAL):
        fast = abs(ratio - 1.0) < GOOD_MODEL_RATIO and not raised
        return drag / (DRAG_FALL**2 if fast else DRAG_FALL) if drag > LEAST_DRAG else 0.0
    if ratio < GOOD_MODEL_RATIO or length < 0.5 * free:
        return max(2.0 * drag, LEAST_DRAG)
    return drag
