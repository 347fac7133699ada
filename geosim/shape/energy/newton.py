"""Newton's method for one equilibrium: targets met exactly, forces in balance, no element inverted, no surface crossed.

The unknowns are positions, mean stresses and the pressures of chambers of prescribed volume; the merit of the line
search is the squared scaled residual, since the potential is a saddle. A step that meets new contacts may raise it:
their force was not in the tangent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.linear.factorise import FactorisationError
from geosim.result import Status
from geosim.shape.energy.contact import Grip, between
from geosim.shape.energy.lookahead import Springs, brace, springs_ahead
from geosim.shape.energy.problem import Evaluation, Problem

__all__ = ["Newton", "Outcome", "Point", "Target"]

# Forces below this share of (shear modulus x size^2) are round-off of the rest shape: the floor of the reference force.
FORCE_FLOOR = 1e-8

# Below this scaled residual the tangent has changed so little that the last factors are worth trying first.
REUSE_BELOW = 0.1

# A step of which less than this share is free of contact is solved again, at most so often, with springs where it hits.
BLOCKED, LOOKS = 0.7, 5

# The first step of an increment of which less than this share is free is not worth taking.
BITE = 0.5

# Rounds in which friction goes by the pressures of the round before.
ROUNDS = 30

# Where less than this share of the merit goes in an iteration, and the residual is near, what slides gets its exact tangent.
CRAWL, NEAR = 0.25, 0.1

# Residual below which the tangent of contact is exact (see `Contact.sharpen`). Where contacts change to and fro the exact
# one goes round in circles: so many steps do without it.
SHARP, BLUNT = 0.002, 3

# Steps at most with friction by the pressures of the present configuration, after every round.
FINISH = 8


@dataclass(frozen=True)
class Target:
    """Where a load path stands: chamber volumes or pressures, dead loads, held positions, obstacles (all scaled).

    Parameters
    ----------
    by_volume
        Chambers whose volume is prescribed, bool (c,).
    volumes, pressures
        (c,); only the prescribed one of the two is read.
    external
        Dead loads on the nodes, then forces and moments on rigid groups (nodes + 2 g, 3).
    positions
        Goal of which the held components are read: positions of the nodes, then displacements and rotations of rigid
        groups (nodes + 2 g, 3).
    grip
        Where the obstacles stand and what the robot holds on to; None where nothing can touch.
    """

    by_volume: Bools
    volumes: Floats
    pressures: Floats
    external: Floats
    positions: Floats
    grip: Grip | None = None

    def towards(self, end: Target, share: float, grip: Grip | None) -> Target:
        """Return the target a share of the way to another, for a robot with a grip."""
        mix = lambda a, b: (1.0 - share) * a + share * b if share < 1.0 else b  # noqa: E731
        if grip is not None and self.grip is not None and end.grip is not None:
            grip = grip.at(between(self.grip.poses, end.grip.poses, share))
        return Target(
            end.by_volume,
            mix(self.volumes, end.volumes),
            mix(self.pressures, end.pressures),
            mix(self.external, end.external),
            mix(self.positions, end.positions),
            grip,
        )


@dataclass(frozen=True)
class Point:
    """A configuration: positions (nodes, 3), pressures (v,), chamber pressures (c,), scaled."""

    x: Floats
    p: Floats
    chamber_pressures: Floats

    def beyond(self, before: Point, share: float) -> Point:
        """Return this point moved on along the secant from `before`."""
        return Point(
            self.x + share * (self.x - before.x),
            self.p + share * (self.p - before.p),
            self.chamber_pressures + share * (self.chamber_pressures - before.chamber_pressures),
        )

    def stepped(self, step: Point, length: float) -> Point:
        """Return this point moved by a step times a length."""
        return Point(
            self.x + length * step.x, self.p + length * step.p, self.chamber_pressures + length * step.chamber_pressures
        )


@dataclass(frozen=True)
class Outcome:
    """How a Newton solve ended."""

    status: Status
    point: Point
    evaluation: Evaluation
    residual: float
    iterations: int
    records: tuple[dict[str, Any], ...]
    target: Target | None = None


@dataclass(frozen=True)
class Newton:
    """Options of one Newton solve (see `EnergyShapeSolver`)."""

    tolerance: float
    max_iterations: int

    def evaluate(self, problem: Problem, point: Point, target: Target, *, matrix: bool) -> Evaluation:
        """Return residuals (and the tangent) at a point for a target."""
        return problem.evaluate(
            point.x, point.p, point.chamber_pressures, target.external, matrix=matrix, grip=target.grip
        )

    def equilibrium(self, problem: Problem, start: Point, target: Target, *, free_start: bool) -> Outcome:
        """Return the equilibrium for a target, from a start near it.

        `free_start` says that the start is the last equilibrium: its first step carries the load. With friction,
        rounds of Newton follow each other until pressures and normals balance with the friction they allow.
        """
        contact = problem.contact
        if contact is None or not contact.friction or target.grip is None:
            return self._solve(problem, start, target, self.tolerance, free_start=free_start)
        tolerance, iterations = 1e-2, 0
        records: list[dict[str, Any]] = []
        for _ in range(ROUNDS):
            outcome = self._solve(problem, start, target, max(tolerance, self.tolerance), free_start=free_start)
            records += outcome.records
            iterations += outcome.iterations
            if outcome.status is not Status.CONVERGED or outcome.evaluation.contact is None:
                return replace(outcome, iterations=iterations, records=tuple(records))
            if not problem.groups:
                outcome = self._finish(problem, outcome.point, target)
                records += outcome.records
                iterations += outcome.iterations
            assert outcome.evaluation.contact is not None
            start, free_start = outcome.point, False
            target = replace(target, grip=target.grip.lagged(outcome.evaluation.contact, contact.delta))
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

    def _finish(self, problem: Problem, point: Point, target: Target) -> Outcome:
        """Go on with pressures, normals and friction all at once, as long as every step helps; return how far it went.

        From afar this overshoots where points begin to slip; near the end it converges quadratically.
        """
        contact = problem.contact
        assert contact is not None
        assert target.grip is not None
        grip = replace(target.grip, own=True)
        target = replace(target, grip=grip)
        evaluation = self.evaluate(problem, point, target, matrix=True)
        measure = self.residuals(problem, point, target, evaluation)
        records: list[dict[str, Any]] = []
        for iteration in range(FINISH):
            if self.converged(measure):
                break
            clock = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            if evaluation.contact is not None:
                contact.sharpen(evaluation.contact)
            try:
                step = self._direction(problem, point, target, evaluation, self._accuracy(measure), reuse=True)
            except FactorisationError:
                break
            solved = time.perf_counter()
            length = contact.safe_share(point.x, step.x, grip)
            trial = point.stepped(step, length)
            if problem.jacobian_bounds(trial.x).min() <= 0.0 and problem.inverted(trial.x) > 0:
                break
            after = self.evaluate(problem, trial, target, matrix=True)
            left = self.residuals(problem, trial, target, after)
            records.append(
                _record(
                    problem,
                    iteration,
                    measure,
                    length,
                    evaluation,
                    before,
                    time.perf_counter() - solved,
                    solved - clock,
                )
            )
            reference = max(evaluation.scale, after.scale, FORCE_FLOOR)
            if not np.isfinite(after.energy) or _merit(left, reference) > 0.3 * _merit(measure, reference):
                break
            point, evaluation, measure = trial, after, left
        return Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], len(records), tuple(records), target)

    def _solve(self, problem: Problem, start: Point, target: Target, tolerance: float, *, free_start: bool) -> Outcome:
        """Return the equilibrium with what friction goes by held fixed."""
        point = start
        records: list[dict[str, Any]] = []
        history: list[tuple[float, ...]] = []
        reference, tiny, length = FORCE_FLOOR, 0, 1.0
        sharp, blunt = False, 0  # whether the last tangent was exact for contact; steps to do without
        evaluation = self.evaluate(problem, point, target, matrix=True)
        if not np.isfinite(evaluation.energy):
            return Outcome(Status.INVERTED, point, evaluation, np.inf, 0, ())
        for iteration in range(self.max_iterations + 1):
            clock = time.perf_counter()
            measure = self.residuals(problem, point, target, evaluation)
            if self.converged(measure, tolerance):
                return Outcome(Status.CONVERGED, point, evaluation, measure[0], iteration, tuple(records), target)
            if iteration == self.max_iterations:
                break
            history.append(measure)
            reference = max(reference, evaluation.scale)
            merits = [_merit(m, reference) for m in history]
            if _stalled(merits, 0.6 if target.grip is not None and target.grip.pressure.any() else 0.25):
                break
            if evaluation.data is None:
                evaluation = self.evaluate(problem, point, target, matrix=True)
            if (
                len(merits) > 1
                and CRAWL * merits[-2] < merits[-1] < NEAR**2
                and length > 0.5
                and evaluation.contact is not None
            ):
                assert problem.contact is not None
                problem.contact.soften(evaluation.contact)  # exact for what slides; from afar it overshoots
            blunt = blunt - 1 if not sharp or merits[-1] < CRAWL * merits[-2] else BLUNT
            sharp = measure[0] < SHARP and evaluation.contact is not None and blunt <= 0
            if sharp and evaluation.contact is not None:
                assert problem.contact is not None
                problem.contact.sharpen(evaluation.contact)
            assembled = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            size = np.sqrt(merits[-1])
            try:
                direction, apart = self._free_direction(
                    problem, point, target, evaluation, self._accuracy(measure), reuse=size < REUSE_BELOW
                )
            except FactorisationError:
                return Outcome(Status.SINGULAR, point, evaluation, measure[0], iteration, tuple(records))
            solved = time.perf_counter()
            if apart < BITE and free_start and iteration == 0:
                records.append(
                    _record(problem, iteration, measure, 0.0, evaluation, before, assembled - clock, solved - assembled)
                )
                return Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], 1, tuple(records))
            found = self._line_search(
                problem, point, direction, target, evaluation, history, reference, first=free_start and iteration == 0
            )
            searched = time.perf_counter()
            length = found[0] if found is not None else 0.0
            records.append(
                _record(
                    problem,
                    iteration,
                    measure,
                    length,
                    evaluation,
                    before,
                    assembled - clock + (searched - solved),
                    solved - assembled,
                )
            )
            if found is None:
                return Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], iteration + 1, tuple(records))
            meets = _contacts(found[2]) > _contacts(evaluation)
            length, point, evaluation = found
            tiny = tiny + 1 if length < 0.02 else 0
            if tiny == 4:
                break
            touchy = free_start and problem.contact is not None and problem.contact.neighbourhood is not None
            bite = BITE if touchy else 0.1
            if len(history) == 1 and length < bite and not meets:  # too large a bite: take a smaller one at once
                return Outcome(Status.INVERTED, point, evaluation, measure[0], iteration + 1, tuple(records))
        return Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], len(records), tuple(records))

    def _free_direction(
        self, problem: Problem, point: Point, target: Target, evaluation: Evaluation, accuracy: float, *, reuse: bool
    ) -> tuple[Point, float]:
        """Return a Newton step that can go most of its way before parts of the robot meet, and that share of it.

        The tangent knows only of what touches already. Where the step is blocked by what it would meet on its way, it is
        solved again with springs there (see `lookahead`).
        """
        contact = problem.contact
        if contact is None or contact.neighbourhood is None:
            return self._direction(problem, point, target, evaluation, accuracy, reuse=reuse), 1.0
        assert evaluation.data is not None
        springs: Springs | None = None
        best, farthest = None, -1.0
        for look in range(LOOKS + 1):
            braced = replace(evaluation, data=evaluation.data.copy())
            step = self._direction(
                problem, point, target, braced, accuracy, reuse=reuse and springs is None, springs=springs
            )
            share = contact.share_apart(point.x, step.x)
            gains = share > 1.2 * farthest
            if share > farthest:
                best, farthest = step, share
            if look == LOOKS or share > BLOCKED or not gains:
                break
            hit = springs_ahead(contact, point.x, step.x)
            if hit is None:
                break
            springs = hit if springs is None else springs.pressed(contact.surface.points(step.x)).joined(hit)
        assert best is not None
        return best, farthest

    def _direction(
        self,
        problem: Problem,
        point: Point,
        target: Target,
        evaluation: Evaluation,
        accuracy: float,
        *,
        reuse: bool,
        springs: Springs | None = None,
    ) -> Point:
        """Return the Newton step from the bordered system, to a relative accuracy."""
        nodes = len(point.x)
        data = evaluation.data
        assert data is not None
        push = np.zeros((nodes, 3))
        if springs is not None:
            assert problem.contact is not None
            pattern, data = brace(problem.contact, springs, evaluation.sparsity, data, push)
            evaluation = replace(evaluation, sparsity=pattern, data=data)
        pattern = evaluation.sparsity
        size = 3 * nodes
        held = problem.held
        known = np.zeros(pattern.size)
        shift = problem.shift(point.x, target.positions).ravel()
        known[:size] = shift
        right = np.concatenate([(push - evaluation.force).ravel(), -evaluation.constraint])
        if np.any(shift):
            right -= pattern.product(data, known)
        right[held] = known[held]
        data = pattern.eliminated(data, held)
        free = ~held[:size]
        chosen = np.flatnonzero(target.by_volume)
        borders = np.zeros((len(chosen), pattern.size))
        borders[:, :size] = evaluation.gradients.reshape(problem.chambers, size)[chosen] * free
        pressure_step = np.where(target.by_volume, 0.0, target.pressures - point.chamber_pressures)
        for c in np.flatnonzero(pressure_step):
            right[:size] += free * pressure_step[c] * evaluation.gradients[c].ravel()
        gap = target.volumes[chosen] - evaluation.volumes[chosen]
        if np.any(shift):  # held nodes move volume too
            gap = gap - evaluation.gradients.reshape(problem.chambers, size)[chosen] @ shift
        extra: dict[str, Any] = {}
        if (
            target.grip is not None
            and target.grip.own
            and problem.contact is not None
            and evaluation.contact is not None
        ):
            extra["extra"] = partial(problem.contact.apply_slides, evaluation.contact, free)
        linear = problem.solver_of(evaluation, problem.motion(point.x, target.positions))
        step, change = linear.solve(data, borders, right, gap, accuracy, reuse=reuse, **extra)
        pressure_step[chosen] = change
        if not np.isfinite(step).all():
            raise FactorisationError("the solution is not finite")
        return Point(step[:size].reshape(nodes, 3), step[size:], pressure_step)

    def _line_search(
        self,
        problem: Problem,
        point: Point,
        step: Point,
        target: Target,
        present: Evaluation,
        history: list[tuple[float, ...]],
        reference: float,
        *,
        first: bool,
    ) -> tuple[float, Point, Evaluation] | None:
        """Shorten the step until no element is inverted, nothing is crossed and the residual is below the worst of the last four.

        The first step from an equilibrium carries the load (`first`), so there the residual may rise; J > 0 and no
        crossing always hold. In contact, where forces grow steeply over tiny distances, the residual says little: a
        step is good, too, if the energy still falls at its end or rises not half as steeply as it fell at first.
        """
        length = 1.0
        if problem.contact is not None and target.grip is not None:
            length = problem.contact.safe_share(point.x, step.x, target.grip)
        last = history[-1][0] < 1e-3 and history[-1][1] < 1e-3
        free = ~problem.held[: point.x.size].reshape(-1, 3)
        slope = lambda at: float(np.sum(at.force * step.x, where=free))  # noqa: E731
        start = slope(present)
        for _ in range(12):
            shrink = 0.5
            trial = replace(point.stepped(step, length), x=problem.moved(point.x, step.x, length))
            if problem.jacobian_bounds(trial.x).min() > 0.0 or problem.inverted(trial.x) == 0:
                # the tangent comes along unless this step is likely to be the last
                evaluation = self.evaluate(problem, trial, target, matrix=length == 1.0 and not last)
                if np.isfinite(evaluation.energy):
                    common = max(reference, evaluation.scale)
                    limit = max(_merit(m, common) for m in history[-4:])
                    merit = _merit(self.residuals(problem, trial, target, evaluation), common)
                    downhill = False
                    if start < 0.0 and _contacts(evaluation) + _contacts(present) > 0:
                        end = slope(evaluation)
                        downhill = end <= 0.5 * abs(start)
                        shrink = float(np.clip(start / (start - end), 0.1, 0.7)) if end > 0.0 else 0.5
                    if first or downhill or merit <= (1.0 - 1e-4 * length) * limit or merit < 1e-24:
                        return length, trial, evaluation
            length *= shrink
        return None

    def residuals(
        self, problem: Problem, point: Point, target: Target, evaluation: Evaluation
    ) -> tuple[float, float, float, float, float]:
        """Relative residuals: force (largest node), chamber volume, incompressibility, held positions; norm of forces."""
        size = point.x.size
        free = ~problem.held[:size]
        force = np.where(free, evaluation.force.ravel(), 0.0).reshape(-1, 3)
        floor = max(evaluation.scale, FORCE_FLOOR)
        by_node = np.linalg.norm(force, axis=1)
        gap = np.where(target.by_volume, evaluation.volumes - target.volumes, 0.0)
        volume = float(np.max(np.abs(gap) / problem.rest_chamber_volumes, initial=0.0))
        pressure_gap = np.where(target.by_volume, 0.0, point.chamber_pressures - target.pressures)
        constraint = float(np.linalg.norm(evaluation.constraint[~problem.held[size:]])) / problem.body_volume
        place = float(np.max(np.abs(problem.shift(point.x, target.positions)), initial=0.0))
        place = max(place, float(np.max(np.abs(pressure_gap), initial=0.0)))
        return float(by_node.max(initial=0.0)) / floor, volume, constraint, place, float(np.linalg.norm(by_node))

    def _accuracy(self, measure: tuple[float, ...]) -> float:
        """Return how accurately the next Newton step is worth solving: just enough where it can be the last."""
        tight = max(0.01 * self.tolerance, 1e-14)
        goals = (self.tolerance, tight, tight)
        needed = min(goal / max(value, 1e-300) for goal, value in zip(goals, measure[:3]))
        return 0.3 * needed if 1e-5 < needed < 3e-3 else 1e-3

    def converged(self, measure: tuple[float, ...], tolerance: float | None = None) -> bool:
        """Whether relative residuals are within the tolerances."""
        force, volume, constraint, place, _ = measure
        tolerance = self.tolerance if tolerance is None else tolerance
        tight = max(0.01 * tolerance, 1e-14)
        return force <= tolerance and volume <= tight and constraint <= tight and place <= 1e-12

    def is_stable(self, problem: Problem, point: Point, target: Target) -> bool | None:
        """Whether the potential is least at an equilibrium, under its controls; None where the factoriser cannot say.

        Sylvester: the tangent of a minimum under constraints has as many negative pivots as there are constraints. The
        isochoric form of the energy is examined, at the same positions: on coarse meshes the full form W(I1, I2) has
        local modes in compression that are the mesh's and not the body's.
        """
        pressures = problem.isochoric_pressures(point.x, point.p)
        evaluation = problem.evaluate(
            point.x,
            pressures,
            point.chamber_pressures,
            target.external,
            matrix=True,
            grip=target.grip,
            table=problem.isochoric_table,
        )
        assert evaluation.data is not None
        if evaluation.contact is not None:
            assert problem.contact is not None
            problem.contact.sharpen(evaluation.contact)
        size = point.x.size
        data = evaluation.sparsity.eliminated(evaluation.data, problem.held)
        chosen = np.flatnonzero(target.by_volume)
        borders = np.zeros((len(chosen), evaluation.sparsity.size))
        borders[:, :size] = evaluation.gradients.reshape(problem.chambers, size)[chosen] * ~problem.held[:size]
        try:
            negative = problem.solver_of(evaluation).negative_eigenvalues(data, borders)
        except FactorisationError:
            return None
        if negative < 0:
            return None
        return negative == int((~problem.held[size:]).sum()) + len(chosen)


def _record(
    problem: Problem,
    iteration: int,
    measure: tuple[float, ...],
    length: float,
    evaluation: Evaluation,
    before: tuple[int, int],
    assembly_seconds: float,
    solve_seconds: float,
) -> dict[str, Any]:
    """One line of the trace; `before` is what the linear solver had counted before the iteration."""
    return {
        "iteration": iteration + 1,
        "residual": measure[0],
        "volume_residual": measure[1],
        "incompressibility": measure[2],
        "step": length,
        "contacts": _contacts(evaluation),
        "factorisations": problem.linear.factorisations - before[0],
        "krylov": problem.linear.krylov - before[1],
        "perturbed_pivots": problem.linear.factoriser.perturbed_pivots,
        "seconds": {"assembly": assembly_seconds, "factorisation": solve_seconds},
    }


def _contacts(evaluation: Evaluation) -> int:
    return evaluation.contact.count if evaluation.contact is not None else 0


def _merit(measure: tuple[float, ...], reference: float) -> float:
    """Squared scaled residual: the merit of the line search (Pi is a saddle and no merit).

    `reference` is one force for a whole Newton solve: forces that fall to zero must not raise the merit.
    """
    _, volume, constraint, place, norm = measure
    return (norm / reference) ** 2 + volume**2 + constraint**2 + place**2


def _stalled(merits: list[float], share: float) -> bool:
    """Whether the best merit of the last eight iterations is more than a share of the best before."""
    return len(merits) > 12 and min(merits[-8:]) > share * min(merits[:-8])
