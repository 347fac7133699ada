"""Newton's method for one equilibrium: targets met exactly, forces in balance, no element inverted, no surface crossed.

The unknowns are positions, mean stresses and the pressures of chambers of prescribed volume; the merit of the line
search is the squared scaled residual, since the potential is a saddle. A step that meets new contacts may raise it:
their force was not in the tangent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.contract import Progress, Status
from geosim.linear.factorise import FactorisationError
from geosim.shape.energy.configuration import Aim, Controls, Drag, Evaluation, Outcome, Point, Target
from geosim.shape.energy.contact_steps import safe_share, share_apart
from geosim.shape.energy.lookahead import Springs, brace, springs_ahead
from geosim.shape.energy.objects import motion_between
from geosim.shape.energy.problem import ShapeProblem

__all__ = ["Attempt", "Budget", "BudgetError", "Newton", "bearable"]

# Forces below this share of (shear modulus x size^2) are round-off of the rest shape: the floor of the reference force.
FORCE_FLOOR = 1e-8

# Below this scaled residual the tangent has changed so little that the last factors are worth trying first.
REUSE_BELOW = 0.1

# A step of which less than this share is free of contact is solved again, at most so often, with springs where it hits.
BLOCKED, LOOKS = 0.7, 5

# The first step of an increment of which less than this share is free is not worth taking.
BITE = 0.5

# Longest displacement of a node in one step, over the size of the body: beyond it rotations are far from linear.
LONGEST = 0.2

# Largest turn [rad] of a free object in one step.
TURN = 0.5

# Largest change of a chamber's volume that a prediction may ask for, over the volume: walls that close on each other, and
# membranes that thin, are farther from linear than their displacement says.
SWELL = 0.3

# A step shortened to less than this share may turn a quadrature point inside out, where the energy allows it.
FOLD_BELOW = 0.1
# Smallest J at a quadrature point below which the solution may have it inside out before long.
FLAT = 0.2

# Rounds in which friction goes by the pressures of the round before.
ROUNDS = 30

# Where less than this share of the merit goes in an iteration, and the residual is near, what slides gets its exact tangent.
CRAWL, NEAR = 0.25, 0.1

# Where two steps together leave more than this share of the merit, Newton goes round in circles: then the other tangent of
# contact is tried, and every step must gain.
CIRCLE = 0.7

# Residual below which the tangent of contact is exact (see `ShapeProblem.sharpened`). Where contacts change to and fro the exact
# one goes round in circles: so many steps do without it.
SHARP, BLUNT = 0.002, 3

# Rounds in which points of cables begin to slide or to stick; in the last of them one point at a time.
TURNS = 80

# Steps at most with friction by the pressures of the present configuration, after every round.
FINISH = 8

# Residual of an equilibrium that is only passed on the way: the first step from it sees what is left of it.
PASSING = 3e-2


class BudgetError(Exception):
    """A budget of the user is spent."""


@dataclass
class Budget:
    """What a command may still cost, and who is told how it goes.

    Parameters
    ----------
    seconds, factorisations
        How much of either may be spent.
    began, counted
        Moment of `time.perf_counter` [s] and count of the linear solver at the beginning.
    listener
        Called in every iteration with how far it is.
    iterations
        Made so far.
    """

    seconds: float = np.inf
    factorisations: float = np.inf
    began: float = 0.0
    counted: int = 0
    listener: Callable[[Progress], None] | None = None
    iterations: int = 0

    def tell(self, record: dict[str, Any]) -> None:
        """Count an iteration, and tell of it."""
        self.iterations += 1
        if self.listener is not None:
            self.listener(Progress(record["share"], self.iterations, record["residual"], record["contacts"]))

    def check(self, problem: ShapeProblem) -> None:
        """Raise `BudgetError` if nothing is left."""
        if time.perf_counter() - self.began > self.seconds:
            raise BudgetError("max_seconds", self.seconds)
        if problem.linear.factorisations - self.counted >= self.factorisations:
            raise BudgetError("max_factorisations", self.factorisations)


@dataclass(frozen=True)
class Newton:
    """Options of one Newton solve (see `EnergyShapeSolver`)."""

    tolerance: float
    max_iterations: int

    def evaluate(self, problem: ShapeProblem, point: Point, target: Target, *, matrix: bool) -> Evaluation:
        """Return residuals (and the tangent) at a point for a target."""
        evaluation = problem.evaluate(
            point.x,
            point.p,
            point.chamber_pressures,
            target.external,
            matrix=matrix,
            grip=target.grip,
            hold=point.hold,
            loose=target.loose,
        )
        return evaluation if target.drag is None else dragged(problem, evaluation, point, target.drag)

    def equilibrium(
        self,
        problem: ShapeProblem,
        start: Point,
        aim: Aim,
        budget: Budget,
        *,
        along: Floats | None = None,
        passing: bool = False,
    ) -> Outcome:
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
            Whether a residual of `PASSING` will do at a share below 1; not with friction.

        Raises
        ------
        BudgetError
            A budget is spent.
        """
        if passing:
            return Attempt(self, problem, aim, budget, self.tolerance, along, max(PASSING, self.tolerance)).run(start)
        outcome = self._with_contact(problem, start, aim, budget, along)
        records, iterations = list(outcome.records), outcome.iterations
        for turn in range(TURNS):
            if outcome.status is not Status.CONVERGED or problem.cables is None or outcome.point.hold is None:
                break
            point = problem.corrected(outcome.point, outcome.evaluation, one=turn >= TURNS // 4)
            assert point.hold is not None
            if np.array_equal(point.hold.modes, outcome.point.hold.modes):
                break
            aim = replace(aim, share=point.share, bends=False)  # a step along the tangent has aimed nearer
            outcome = self._with_contact(problem, point, aim, budget, None)
            records += outcome.records
            iterations += outcome.iterations
        else:
            outcome = replace(outcome, status=Status.NOT_CONVERGED)
        return replace(outcome, records=tuple(records), iterations=iterations)

    def _with_contact(
        self, problem: ShapeProblem, start: Point, aim: Aim, budget: Budget, along: Floats | None
    ) -> Outcome:
        """Return the equilibrium where cables stick and slide as they do at the start."""
        contact = problem.contact
        if contact is None or not contact.friction or aim.grip is None:
            return Attempt(self, problem, aim, budget, self.tolerance, along).run(start)
        tolerance, iterations = 1e-2, 0
        records: list[dict[str, Any]] = []
        for _ in range(ROUNDS):
            attempt = Attempt(self, problem, aim, budget, max(tolerance, self.tolerance), along)
            outcome = attempt.run(start)
            aim = attempt.aim
            records += outcome.records
            iterations += outcome.iterations
            if outcome.status is not Status.CONVERGED or outcome.evaluation.contact is None:
                return replace(outcome, iterations=iterations, records=tuple(records))
            outcome = self._finish(problem, outcome, aim, budget)
            records += outcome.records
            iterations += outcome.iterations
            assert outcome.evaluation.contact is not None
            assert aim.grip is not None
            start, along = outcome.point, None
            aim = replace(aim, grip=aim.grip.lagged(outcome.evaluation.contact))
            target = aim.at(start)
            evaluation = self.evaluate(problem, start, target, matrix=False)
            measure = self.residuals(problem, start, target, evaluation)
            outcome = replace(
                outcome,
                evaluation=evaluation,
                residual=measure[0],
                target=target,
                iterations=iterations,
                records=tuple(records),
            )
            if self.converged(measure):
                return replace(outcome, status=Status.CONVERGED)
            tolerance = 0.03 * measure[0]
        return replace(outcome, status=Status.NOT_CONVERGED)

    def _finish(self, problem: ShapeProblem, near: Outcome, aim: Aim, budget: Budget) -> Outcome:
        """Go on with pressures, normals and friction all at once, as long as every step helps; return how far it went.

        From afar this overshoots where points begin to slip; near the end it converges quadratically.
        """
        contact, point = problem.contact, near.point
        assert contact is not None
        assert aim.grip is not None
        aim = replace(aim, grip=replace(aim.grip, own=True))
        evaluation = self.evaluate(problem, point, aim.at(point), matrix=True)
        measure = self.residuals(problem, point, aim.at(point), evaluation)
        records: list[dict[str, Any]] = []
        for iteration in range(FINISH):
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
            assert aim.grip is not None
            length = safe_share(contact, point.x, step.x, aim.grip)
            trial = point.stepped(step, length)
            after = self.evaluate(problem, trial, aim.at(trial), matrix=True)
            left = self.residuals(problem, trial, aim.at(trial), after)
            seconds = time.perf_counter() - solved, solved - clock
            records.append(_record(problem, iteration, measure, length, point.share, evaluation, before, seconds))
            budget.tell(records[-1])
            reference = max(evaluation.scale, after.scale, FORCE_FLOOR)
            if not np.isfinite(after.energy) or _merit(left, reference) > 0.3 * _merit(measure, reference):
                break
            point, evaluation, measure = trial, after, left
        return replace(
            near,
            status=Status.NOT_CONVERGED,
            point=point,
            evaluation=evaluation,
            residual=measure[0],
            iterations=len(records),
            records=tuple(records),
        )

    def direction(
        self,
        problem: ShapeProblem,
        point: Point,
        aim: Aim,
        evaluation: Evaluation,
        accuracy: float,
        *,
        reuse: bool,
        springs: Springs | None = None,
    ) -> Point:
        """Return the Newton step from the bordered system, to a relative accuracy.

        On an arc the share is one unknown more: a column with the load that comes with it, and the same row for the arc.
        """
        target, nodes = aim.at(point), len(point.x)
        if springs is not None:
            assert problem.contact is not None
            evaluation = brace(problem.contact, springs, evaluation)
        pattern, data = evaluation.sparsity, evaluation.data
        assert data is not None
        size, held = 3 * nodes, problem.held
        known = np.zeros(pattern.size)
        shift = problem.shift(point.x, target.positions).ravel()
        known[:size] = shift
        right = np.concatenate([-evaluation.force.ravel(), -evaluation.constraint])
        if np.any(shift):
            right -= pattern.product(data, known)
        right[held] = known[held]
        data = pattern.eliminated(data, held)
        free = ~held[:size]
        controls = target.controls(point, evaluation.volumes)
        count = len(controls.gap)
        borders = np.zeros((count + (aim.weights is not None), pattern.size))
        borders[:count, :size] = controls.members @ evaluation.gradients.reshape(-1, size)
        columns = evaluation.gradients if evaluation.columns is None else evaluation.columns
        pressure_step = np.where(controls.fixed, controls.forces - point.chamber_pressures, 0.0)
        for c in np.flatnonzero(pressure_step):
            right[:size] += free * pressure_step[c] * columns[c].ravel()
        gap = controls.gap
        if np.any(shift):  # held nodes move volume too
            gap = gap - borders[:count, :size] @ shift
        corner = np.diag(controls.slope)
        if aim.weights is not None:
            borders[-1, :size] = aim.load(evaluation.gradients).ravel()
            gap, corner = self._arc_row(point, aim, evaluation, gap, controls)
        borders[:, :size] *= free
        extra: dict[str, Any] = {}
        if evaluation.columns is not None:
            extra["columns"] = np.zeros_like(borders)
            extra["columns"][:, :size] = controls.members @ columns.reshape(-1, size) * free
        if aim.grip is not None and aim.grip.own and problem.contact is not None and evaluation.contact is not None:
            extra["extra"] = partial(problem.contact.apply_slides, evaluation.contact, free)
        coupling = problem.coupling(point.x, target, evaluation, own=aim.grip is not None and aim.grip.own)
        if coupling is not None:
            columns = extra.get("columns", borders)
            borders, extra["columns"], gap, corner = coupling.appended(borders, columns, gap, corner, free, shift)
        linear = problem.solver_of(evaluation, problem.motion(point.x, target.positions))
        step, change = linear.solve(data, borders, right, gap, accuracy, reuse=reuse, corner=corner, **extra)
        if not np.isfinite(step).all():
            raise FactorisationError("the solution is not finite")
        objects = np.zeros_like(point.objects)
        if coupling is not None and target.loose is not None:
            change, motion = np.split(change, [len(change) - len(coupling.gap)])
            objects = target.loose.motion(motion)
        share_step = aim.share - point.share
        if aim.weights is not None:
            share_step, change = float(change[-1]), change[:-1]
            pressure_step = pressure_step + share_step * aim.pressure_rates
        pressure_step += controls.members.T @ change
        return Point(step[:size].reshape(nodes, 3), step[size:], pressure_step, share_step, objects=objects)

    def _arc_row(
        self, point: Point, aim: Aim, evaluation: Evaluation, gap: Floats, controls: Controls
    ) -> tuple[Floats, Floats]:
        """Return what the rows of the border still miss, the arc's included, and the corner of the system."""
        assert aim.weights is not None
        a, b = aim.weights[0] / aim.scale, aim.weights[1]
        missing = aim.level - a * aim.conjugate(point, evaluation.volumes) - b * point.share
        corner = np.zeros((len(gap) + 1, len(gap) + 1))
        corner[:-1, :-1] = np.diag(controls.slope)
        corner[-1, :-1] = corner[:-1, -1] = controls.members @ aim.volume_rates
        corner[-1, -1] = -b / a
        return np.append(gap, missing / a), corner

    def residuals(
        self, problem: ShapeProblem, point: Point, target: Target, evaluation: Evaluation
    ) -> tuple[float, float, float, float, float]:
        """Relative residuals: force (largest node), chamber volume, incompressibility, held positions; norm of forces."""
        size = point.x.size
        free = ~problem.held[:size]
        force = np.where(free, evaluation.force.ravel(), 0.0).reshape(-1, 3)
        floor = max(evaluation.scale, FORCE_FLOOR)
        by_node = np.concatenate([np.linalg.norm(force, axis=1), problem.objects.sizes(evaluation.loose)])
        controls = target.controls(point, evaluation.volumes)
        volume = float(np.max(np.abs(controls.gap) / (controls.members @ problem.rest_values), initial=0.0))
        pressure_gap = np.where(controls.fixed, point.chamber_pressures - controls.forces, 0.0)
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

    def is_stable(self, problem: ShapeProblem, point: Point, target: Target) -> bool | None:
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
            point.chamber_pressures,
            target.external,
            matrix=True,
            grip=target.grip,
            table=problem.isochoric_table,
            loose=target.loose,
        )
        evaluation = problem.sharpened(evaluation)
        assert evaluation.data is not None
        size = point.x.size
        data = evaluation.sparsity.eliminated(evaluation.data, problem.held)
        controls = target.controls(point, evaluation.volumes)
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


@dataclass
class Attempt:
    """One Newton solve with what friction goes by held fixed; `run` reads like the algorithm."""

    newton: Newton
    problem: ShapeProblem
    aim: Aim
    budget: Budget
    tolerance: float
    along: Floats | None
    passing: float | None = None  # tolerance at a share below 1, where it is another
    records: list[dict[str, Any]] = field(default_factory=list)
    history: list[tuple[float, ...]] = field(default_factory=list)
    reference: float = FORCE_FLOOR
    length: float = 1.0
    sharp: bool = False  # whether the last tangent was exact for contact
    blunt: int = 0  # steps to do without
    folded: bool = False  # whether the last trial had no finite energy
    predicted: Point | None = None

    def run(self, point: Point) -> Outcome:
        """Return the equilibrium, or how the search for it ended."""
        newton, problem, tiny = self.newton, self.problem, 0
        self.predicted = point
        evaluation = newton.evaluate(problem, point, self.aim.at(point), matrix=True)
        if not np.isfinite(evaluation.energy):
            return self._ended(Status.INVERTED, point, evaluation, np.inf)
        while True:
            clock = time.perf_counter()
            first = self.along is not None and not self.history
            target = self.aim.at(point)
            measure = newton.residuals(problem, point, target, evaluation)
            enough = self.tolerance if self.passing is None or self.aim.share >= 1.0 else self.passing
            if newton.converged(measure, enough) and not first:
                return self._ended(Status.CONVERGED, point, evaluation, measure[0])
            if len(self.history) == newton.max_iterations or self._stalls(measure, evaluation, target):
                return self._ended(Status.NOT_CONVERGED, point, evaluation, measure[0])
            self.budget.check(problem)
            if evaluation.data is None:
                evaluation = newton.evaluate(problem, point, target, matrix=True)
            evaluation = self._choose_tangent(measure, evaluation)
            assembled = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            try:
                direction, apart = self.free_direction(point, evaluation, newton.accuracy(measure))
            except FactorisationError:
                return self._ended(Status.SINGULAR, point, evaluation, measure[0])
            direction = self._tangent_step(point, direction, evaluation) if first else direction
            solved = time.perf_counter()
            blocked = first and apart < BITE
            found = None if blocked else self._line_search(point, direction, apart, evaluation, first=first)
            self.length = found[0] if found is not None else 0.0
            seconds = assembled - clock + time.perf_counter() - solved, solved - assembled
            iteration = len(self.records)
            self.records.append(
                _record(problem, iteration, measure, self.length, point.share, evaluation, before, seconds)
            )
            self.budget.tell(self.records[-1])
            if found is None:
                lost = Status.INVERTED if self.folded and not blocked else Status.NOT_CONVERGED
                return self._ended(lost, point, evaluation, measure[0])
            meets = _contacts(found[2]) > _contacts(evaluation)
            point, evaluation = found[1:]
            tiny = tiny + 1 if self.length < 0.02 else 0
            self.predicted = point if first else self.predicted
            touchy = first and problem.contact is not None and problem.contact.neighbourhood is not None
            if tiny == 4 or (first and self.length < (BITE if touchy else 0.1) and not meets):
                return self._ended(Status.NOT_CONVERGED, point, evaluation, measure[0])

    def _ended(self, status: Status, point: Point, evaluation: Evaluation, residual: float) -> Outcome:
        records = tuple(self.records)
        if self.aim.weights is None:
            point = replace(point, share=self.aim.share)
        return Outcome(status, point, evaluation, residual, len(records), records, self.aim.at(point), self.predicted)

    def _stalls(self, measure: tuple[float, ...], evaluation: Evaluation, target: Target) -> bool:
        """Note the residuals; whether they have stopped falling."""
        self.history.append(measure)
        self.reference = max(self.reference, evaluation.scale)
        merits = [_merit(m, self.reference) for m in self.history]
        if target.grip is not None and target.grip.push.any():
            return _stalled(merits, 8, 0.6)
        return _stalled(merits, 5, 0.5)

    def _choose_tangent(self, measure: tuple[float, ...], evaluation: Evaluation) -> Evaluation:
        """Return the evaluation with the tangent of contact exact where that helps."""
        if evaluation.contact is None:
            return evaluation
        merits = [_merit(m, self.reference) for m in self.history]
        if len(merits) > 1 and CRAWL * merits[-2] < merits[-1] < NEAR**2 and self.length > 0.5:
            evaluation = self.problem.softened(evaluation)  # exact for what slides; from afar it overshoots
        crawls = len(merits) > 1 and merits[-1] >= CRAWL * merits[-2]
        self.blunt = BLUNT if self.sharp and crawls else self.blunt - 1
        self.sharp = (measure[0] < SHARP and self.blunt <= 0) or (self._circles() and not self.sharp)
        return self.problem.sharpened(evaluation) if self.sharp else evaluation

    def _circles(self) -> bool:
        """Whether the last two steps together gained next to nothing, with the end in sight."""
        if len(self.history) < 3:
            return False
        now, before = (_merit(self.history[i], self.reference) for i in (-1, -3))
        return CIRCLE * before < now < NEAR**2

    def free_direction(self, point: Point, evaluation: Evaluation, accuracy: float) -> tuple[Point, float]:
        """Return a Newton step that can go most of its way before parts of the robot meet, and that share of it.

        The tangent knows only of what touches already. Where the step is blocked by what it would meet on its way, it is
        solved again with springs there (see `lookahead`). A step of many body lengths is shortened before it is asked
        what it would meet: on its way it would meet everything.
        """
        contact = self.problem.contact
        reuse = np.sqrt(_merit(self.history[-1], self.reference)) < REUSE_BELOW
        if contact is None or contact.neighbourhood is None:
            return self.newton.direction(self.problem, point, self.aim, evaluation, accuracy, reuse=reuse), 1.0
        springs: Springs | None = None
        best, farthest = None, -1.0
        for look in range(LOOKS + 1):
            step = self.newton.direction(
                self.problem, point, self.aim, evaluation, accuracy, reuse=reuse and springs is None, springs=springs
            )
            within = self.most(step, evaluation)
            share = share_apart(contact, point.x, within * step.x)
            gains = share > 1.2 * farthest
            if share > farthest:
                best, farthest = step, share
            if look == LOOKS or share > BLOCKED or not gains:
                break
            hit = springs_ahead(contact, point.x, within * step.x)
            if hit is None:
                break
            springs = hit if springs is None else springs.pressed(contact.surface.points(step.x)).joined(hit)
        assert best is not None
        return best, farthest

    def most(self, step: Point, evaluation: Evaluation) -> float:
        """Share of a step, at most 1, in which nothing moves too far (`_within`) and no chamber changes too much (`bearable`)."""
        change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
        return min(
            _within(step, self.aim.longest),
            bearable(self.problem, evaluation.volumes, change * ~self.aim.end.by_volume),
        )

    def _tangent_step(self, point: Point, step: Point, evaluation: Evaluation) -> Point:
        """Return the first step from an equilibrium, no longer than `LONGEST`, and aim at what it can reach.

        It is the tangent of the path, and linear in the share: a shorter one leads to a smaller share. The arc, where one
        is asked for, goes through its end.
        """
        assert self.along is not None
        change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
        length = self.most(step, evaluation)
        if self.aim.bends and np.sum(self.along * step.x) < 0.0:
            length = -length
        self.aim = replace(self.aim, share=point.share + length * step.share)
        step = Point(
            length * step.x,
            length * step.p,
            length * step.chamber_pressures,
            length * step.share,
            objects=length * step.objects,
        )
        if self.aim.bends and self.aim.share < 1.0:
            ahead = point.stepped(step, 1.0)
            volumes = evaluation.volumes + length * change
            gain = self.aim.conjugate(ahead, volumes) - self.aim.conjugate(point, evaluation.volumes)
            if gain != 0.0:
                weights = (float(np.sign(gain)), float(np.sign(step.share)))
                self.aim = self.aim.onto(ahead, volumes, weights, abs(gain / step.share))
        return step

    def _line_search(
        self, point: Point, step: Point, apart: float, present: Evaluation, *, first: bool
    ) -> tuple[float, Point, Evaluation] | None:
        """Shorten the step until the energy is finite, nothing is crossed and the residual is below the worst of the last four.

        The first step from an equilibrium carries the load (`first`), so there the residual may rise; a finite energy and
        no crossing always hold. In contact, where forces grow steeply over tiny distances, the residual says little: a
        step is good, too, if the energy still falls at its end or rises not half as steeply as it fell at first.
        """
        problem, newton = self.problem, self.newton
        length = self.most(step, present)
        if problem.contact is not None and self.aim.grip is not None:
            known = None if first else apart  # a tangent step has become another
            here, there = (self.aim.gripped(at) for at in (point, point.stepped(step, length)))
            length *= safe_share(problem.contact, point.x, length * step.x, here, there, apart=known)
        last = self.history[-1][0] < 1e-3 and self.history[-1][1] < 1e-3
        free = ~problem.held[: point.x.size].reshape(-1, 3)
        slope = lambda at: float(np.sum(at.force * step.x, where=free) + np.sum(at.loose * step.objects))  # noqa: E731
        start, circles = slope(present), self._circles()
        for _ in range(12):
            shrink = 0.5
            trial = replace(point.stepped(step, length), x=problem.moved(point.x, step.x, length))
            target = self.aim.at(trial)
            # the tangent comes along unless this step is likely to be the last
            evaluation = newton.evaluate(problem, trial, target, matrix=length == 1.0 and not last)
            self.folded = not np.isfinite(evaluation.energy)
            if not self.folded and self._unfolds(present, evaluation, length):
                common = max(self.reference, evaluation.scale)
                limit = max(_merit(m, common) for m in (self.history[-1:] if circles else self.history[-4:]))
                merit = _merit(newton.residuals(problem, trial, target, evaluation), common)
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

    def _unfolds(self, present: Evaluation, trial: Evaluation, length: float) -> bool:
        """Whether a trial turns no quadrature point inside out that a shorter step would not.

        The full form of an incompressible energy is finite there, too, and at sharp edges the solution itself may be so:
        this is a preference of long steps, not a demand, and none where a point is all but flat already: it may go through.
        """
        flat = present.smallest < FLAT
        return flat or trial.smallest > 0.0 or trial.smallest >= present.smallest or length < FOLD_BELOW


def dragged(problem: ShapeProblem, evaluation: Evaluation, point: Point, drag: Drag) -> Evaluation:
    """Return an evaluation with the forces and the stiffness of springs to the places before."""
    force = evaluation.force + drag.stiffness[:, None] * (point.x - drag.before)
    loose = evaluation.loose + problem.objects.springs(drag.hold, motion_between(drag.objects, point.objects))
    evaluation = replace(evaluation, force=force, loose=loose, loose_hold=drag.hold)
    if evaluation.data is None:
        return evaluation
    data = evaluation.data.copy()
    data[evaluation.sparsity.indptr[: force.size]] += np.repeat(drag.stiffness, 3)  # the first of a row is its diagonal
    return replace(evaluation, data=data)


def bearable(problem: ShapeProblem, volumes: Floats, change: Floats) -> float:
    """Share of a change of the chamber volumes (c,), at most 1, in which none of them changes by more than `SWELL`."""
    volumes, change = volumes[: problem.chambers], change[: problem.chambers]
    most = SWELL * np.where(change < 0.0, volumes, np.maximum(volumes, problem.rest_chamber_volumes))
    with np.errstate(divide="ignore"):
        return float(np.min(most / np.abs(change), initial=1.0))


def _within(step: Point, longest: float) -> float:
    """Share of a step in which no node moves farther than `longest` or `LONGEST`, and no free object than that or `TURN`."""
    size = float(np.sqrt(np.max(np.sum(step.x**2, axis=1), initial=0.0)))
    way, turn = np.linalg.norm(step.objects.reshape(-1, 2, 3), axis=2).max(axis=0, initial=0.0)
    return 1.0 / max(1.0, size / min(longest, LONGEST), way / LONGEST, turn / TURN)


def _record(
    problem: ShapeProblem,
    iteration: int,
    measure: tuple[float, ...],
    length: float,
    share: float,
    evaluation: Evaluation,
    before: tuple[int, int],
    seconds: tuple[float, float],
) -> dict[str, Any]:
    """One line of the trace; `before` is what the linear solver had counted before, `seconds` of assembly and solve."""
    return {
        "iteration": iteration + 1,
        "share": share,
        "residual": measure[0],
        "volume_residual": measure[1],
        "incompressibility": measure[2],
        "step": length,
        "contacts": _contacts(evaluation),
        "factorisations": problem.linear.factorisations - before[0],
        "krylov": problem.linear.krylov - before[1],
        "perturbed_pivots": problem.linear.factoriser.perturbed_pivots,
        "seconds": {"assembly": seconds[0], "factorisation": seconds[1]},
    }


def _contacts(evaluation: Evaluation) -> int:
    return evaluation.contact.count if evaluation.contact is not None else 0


def _merit(measure: tuple[float, ...], reference: float) -> float:
    """Squared scaled residual: the merit of the line search (Pi is a saddle and no merit).

    `reference` is one force for a whole Newton solve: forces that fall to zero must not raise the merit.
    """
    _, volume, constraint, place, norm = measure
    return (norm / reference) ** 2 + volume**2 + constraint**2 + place**2


def _stalled(merits: list[float], window: int, share: float) -> bool:
    """Whether the merit is more than a share of what it was a window of iterations ago."""
    return len(merits) > 1.5 * window and min(merits[-2:]) > share * min(merits[-window - 1 : -window + 1])
