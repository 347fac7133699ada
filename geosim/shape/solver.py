"""EnergyShapeSolver: the quasi-static shape of an inflated, loaded hyperelastic body, as finite elements have it.

Find positions x, pressure p (mean stress) and chamber pressures P stationary for

    Pi = integral W(F) dV + integral p (J - 1) - p^2 / (2 kappa) dV - sum_c P_c (v_c(x) - V_c) - external work,

with Taylor-Hood elements (P2 displacement, continuous P1 pressure) or stabilised P1-P1. Every chamber is a scalar
functional v_c(x) with the conjugate force P_c: either is prescribed, both are returned. One command is reached by

    1. targets: volumes or pressures, dead loads and held positions at the end of the command;
    2. increments: a share of the way, as large as the last one allowed, starting from a secant predictor;
    3. Newton: factorise the symmetric indefinite tangent once, solve for the residual and for the gradient of every
       chamber of prescribed volume, and close the small bordered system (block elimination);
    4. line search: shorten the step until J > 0 everywhere and the squared scaled residual falls (non-monotone);
    5. convergence: force residual, chamber volumes and incompressibility, never the size of a step.

Departures from [Fang2022], whose problem this is:

[D1] The hyperelastic energy itself is minimised, not the distance to blended target shapes.
[D2] Chambers carry no elements: their volume is a polynomial of the wall nodes, so nothing needs remeshing.
[D3] Chamber volumes are constraints met exactly; their multipliers are the pressures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.actuation import Actuation, Command, Inflation
from geosim.arrays import Bools, Floats
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.factorise import FactorisationError
from geosim.result import Report, Result, Status
from geosim.robot import VolumetricRobot
from geosim.shape import assembly, frames
from geosim.shape.problem import Evaluation, Problem, make_problem

__all__ = ["EnergyShapeSolver", "ShapeState"]

# Forces below this share of (shear modulus x size^2) are round-off of the rest shape: the floor of the reference force.
FORCE_FLOOR = 1e-10

# Below this scaled residual the tangent has changed so little that the last factors are worth trying first.
REUSE_BELOW = 0.1


@dataclass(frozen=True)
class Target:
    """Where a load path stands: chamber volumes or pressures, dead loads, held positions (all scaled).

    Parameters
    ----------
    by_volume
        Chambers whose volume is prescribed, bool (c,).
    volumes, pressures
        (c,); only the prescribed one of the two is read.
    external
        Dead loads (nodes, 3).
    positions
        Positions (nodes, 3) of which the held components are read.
    """

    by_volume: Bools
    volumes: Floats
    pressures: Floats
    external: Floats
    positions: Floats

    def towards(self, end: Target, share: float) -> Target:
        """Return the target a share of the way to another."""
        mix = lambda a, b: (1.0 - share) * a + share * b if share < 1.0 else b  # noqa: E731
        return Target(end.by_volume, mix(self.volumes, end.volumes), mix(self.pressures, end.pressures),
                      mix(self.external, end.external), mix(self.positions, end.positions))


@dataclass(frozen=True)
class Point:
    """A configuration: positions (nodes, 3), pressures (v,), chamber pressures (c,), scaled."""

    x: Floats
    p: Floats
    chamber_pressures: Floats

    def beyond(self, before: Point, share: float) -> Point:
        """Return this point moved on along the secant from `before`."""
        return Point(self.x + share * (self.x - before.x), self.p + share * (self.p - before.p),
                     self.chamber_pressures + share * (self.chamber_pressures - before.chamber_pressures))


@dataclass(frozen=True)
class ShapeState:
    """An equilibrium of the shape solver; never changed, so that a step can be repeated or abandoned.

    Parameters
    ----------
    problem
        Everything that was computed once.
    point
        The configuration.
    target
        What it balances.
    volumes
        Scaled chamber volumes (c,).
    before
        The equilibrium before it on the path and its target, for the predictor; or None.
    frame
        Measures in SI units (see `frames.Frame`); None between commands.
    """

    problem: Problem
    point: Point
    target: Target
    volumes: Floats
    before: tuple[Point, Target] | None
    frame: Any = None

    def facts(self) -> dict[str, float]:
        """Numbers for a progress line."""
        out = {f"V/V0_{c + 1}" if len(self.frame.volume_ratios) > 1 else "V/V0": float(v)
               for c, v in enumerate(self.frame.volume_ratios)}
        return {**out, "residual": float(self.frame.residual)}


@dataclass(frozen=True)
class _Outcome:
    """How a Newton solve ended."""

    status: Status
    point: Point
    evaluation: Evaluation
    residual: float
    iterations: int
    records: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class EnergyShapeSolver:
    """Options of the energy solver.

    Parameters
    ----------
    element
        "p2" (Taylor-Hood, the default) or "p1" (stabilised, a fast preview).
    tolerance
        Largest force residual over free nodes, relative to the largest nodal sum of element forces (at least
        `FORCE_FLOOR`). Volumes and incompressibility are met to a hundredth of it.
    max_iterations
        Newton iterations of one increment before it is halved; one that stalls is halved earlier.
    max_growth
        Largest change of a chamber's volume in one increment, relative to its rest volume or what it has
        reached, whichever is larger.
    min_increment
        Smallest share of a command that is tried.
    factoriser
        "auto", "pardiso" or "superlu".
    invariants
        "full": W(I1, I2) of an incompressible material is evaluated as it stands, as most mixed finite elements do;
        "isochoric": of J^(-2/3) I1 and J^(-4/3) I2. Both converge to the same shape; a material with a finite bulk
        modulus is always split isochorically.
    """

    element: str = "p2"
    tolerance: float = 1e-6
    max_iterations: int = 24
    max_growth: float = 1.0
    min_increment: float = 1e-3
    factoriser: str = "auto"
    invariants: str = "full"

    def __post_init__(self) -> None:
        if self.element not in ("p1", "p2"):
            raise InputError(f"EnergyShapeSolver: element = {self.element!r} is unknown; use 'p2' or 'p1'")
        for key in ("tolerance", "max_growth", "min_increment"):
            value = getattr(self, key)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise InputError(f"EnergyShapeSolver: {key} = {value!r} must be a positive number")
        if self.tolerance < 1e-13 or self.tolerance > 1e-2:
            raise InputError(f"EnergyShapeSolver: tolerance = {self.tolerance:g} is outside 1e-13 .. 1e-2")
        if not (isinstance(self.max_iterations, int) and self.max_iterations >= 2):
            raise InputError(f"EnergyShapeSolver: max_iterations = {self.max_iterations!r} must be a whole number >= 2")
        if self.factoriser not in ("auto", "pardiso", "superlu"):
            raise InputError(f"EnergyShapeSolver: factoriser = {self.factoriser!r} is unknown; use 'auto', 'pardiso' or "
                             f"'superlu'")

        if self.invariants not in ("full", "isochoric"):
            raise InputError(f"EnergyShapeSolver: invariants = {self.invariants!r} is unknown; use 'full' or 'isochoric'")

    # ---- the contract of `solve`

    def commands(self, robot: VolumetricRobot, actuation: Actuation) -> list[Command]:
        """Return the commands of an actuation after checking that this solver knows them."""
        commands = [actuation.command(i) for i in range(len(actuation))]
        for command in commands:
            command.refuse_all_but((Inflation,), "EnergyShapeSolver")
        return commands

    def start(self, robot: VolumetricRobot, environment: Environment, initial: Any = None) -> ShapeState:
        """Return the state at rest (or at `initial`, a state of the same robot) after computing what is computed once.

        Raises
        ------
        InputError
            The robot or its environment cannot be solved.
        """
        if not isinstance(robot, VolumetricRobot):
            raise InputError(f"EnergyShapeSolver: {type(robot).__name__} is not a VolumetricRobot")
        if environment.obstacles:
            raise InputError("EnergyShapeSolver: obstacles need contact, which this solver does not model; remove them from "
                             "the environment")
        problem = make_problem(robot, environment, 2 if self.element == "p2" else 1, self.factoriser,
                               isochoric=self.invariants == "isochoric")
        chambers = problem.chambers
        point = Point(problem.rest, np.zeros(len(problem.pressure_vertices)), np.zeros(chambers))
        if initial is not None:
            point = frames.adopt(problem, initial)
        evaluation = problem.evaluate(point.x, point.p, point.chamber_pressures, np.zeros_like(point.x), matrix=False)
        target = Target(np.zeros(chambers, dtype=bool), evaluation.volumes, point.chamber_pressures,
                        evaluation.force if initial is not None else np.zeros_like(point.x), point.x)
        return ShapeState(problem, point, target, evaluation.volumes, None, frames.measure(problem, point, evaluation, np.nan))

    def step(self, state: ShapeState, command: Command) -> tuple[ShapeState, Report]:
        """Go to one command; if it cannot be reached, return the last equilibrium on the way and why it ended."""
        clock = time.perf_counter()
        problem = state.problem
        end = self._target(problem, state, command)
        problem.check_enclosed(np.where(problem.held[:end.positions.size].reshape(-1, 3), end.positions, state.point.x))
        current, done, share = state, 0.0, self._first_share(problem, state, end)
        origin = self._origin(state, end)
        records: list[dict[str, Any]] = []
        status, message, followed = Status.CONVERGED, "", 0
        reached: _Outcome | None = None
        while done < 1.0:
            share = min(share, 1.0 - done)
            if 1.0 - done - share < 0.05 * share:
                share = 1.0 - done
            target = origin.towards(end, done + share)
            start = self._predict(current, target)
            outcome = self._equilibrium(problem, start, target, free_start=start is current.point)
            records += [{"command": command.index, "share": done + share, **r} for r in outcome.records]
            if outcome.status is Status.CONVERGED and not followed and self._is_fold(problem, current, outcome, end):
                outcome = replace(outcome, status=Status.PRESSURE_LIMIT)
            if outcome.status is not Status.CONVERGED:
                share *= 0.5
                if share < 0.3 * (1.0 - done) and self._pressure_driven(current, end):
                    current, message = self._follow_by_volume(problem, current, end)
                    if message:
                        status = Status.PRESSURE_LIMIT
                        break
                    origin, done, share = self._origin(current, end), 0.0, 1.0
                    followed += 1
                if share < self.min_increment or followed > 3:
                    status, message = self._diagnose(problem, current, outcome)
                    break
                continue
            done += share
            current = ShapeState(problem, outcome.point, target, outcome.evaluation.volumes, (current.point, current.target))
            reached = outcome
            share *= 2.0 if outcome.iterations <= 4 else 1.5 if outcome.iterations <= 6 else 1.0
            share = min(share, self._first_share(problem, current, end, origin, done))
        current = self._measured(current, reached)
        if status is Status.CONVERGED and current.frame.crossings:
            status = Status.CROSSED
            message = (f"{Status.CROSSED.value} {int(current.frame.crossings)} pairs of edges and faces cross at command "
                       f"{command.index + 1}; contact is not in this model, so parts that touch pass through each other.")
        seconds = time.perf_counter() - clock
        if records:
            records[-1] = {**records[-1], "seconds": {**records[-1]["seconds"], "other": max(
                0.0, seconds - sum(sum(r["seconds"].values()) for r in records))}}
        return current, Report(status, message, tuple(records))

    def _measured(self, state: ShapeState, outcome: _Outcome | None) -> ShapeState:
        """Return the state with its measures, which the increments between commands do without."""
        if state.frame is not None:
            return state
        point = state.point
        if outcome is not None and outcome.point is point:
            evaluation, residual = outcome.evaluation, outcome.residual
        else:
            evaluation = state.problem.evaluate(point.x, point.p, point.chamber_pressures, state.target.external, matrix=False)
            residual = self._residuals(state.problem, point, state.target, evaluation)[0]
        return replace(state, frame=frames.measure(state.problem, point, evaluation, residual))

    def collect(self, robot: VolumetricRobot, environment: Environment, states: Sequence[ShapeState],
                reports: Sequence[Report], status: Status, message: str) -> Result:
        """Assemble the result of the commands reached."""
        return frames.collect(robot, environment, self, states, reports, status, message)

    # ---- increments

    def _target(self, problem: Problem, state: ShapeState, command: Command) -> Target:
        """Return what a command asks for, in scaled units."""
        chambers, index = problem.chambers, command.index
        inflation = command.find(Inflation)
        ratio, pressure = (inflation.targets(index, chambers) if inflation is not None
                           else (np.full(chambers, np.nan), np.zeros(chambers)))
        by_volume = np.isfinite(ratio)
        volumes = np.where(by_volume, ratio * problem.rest_chamber_volumes, 0.0)
        pressures = np.where(by_volume, 0.0, np.nan_to_num(pressure) / problem.stress)
        return Target(by_volume, volumes, pressures, problem.external_forces(index), problem.held_positions(index))

    def _origin(self, state: ShapeState, end: Target) -> Target:
        """Return the target that the present equilibrium meets, expressed in the controls of the next command."""
        return Target(end.by_volume, state.volumes, state.point.chamber_pressures, state.target.external,
                      state.point.x)

    def _first_share(self, problem: Problem, state: ShapeState, end: Target, origin: Target | None = None,
                     done: float = 0.0) -> float:
        """Return the largest share of the command in which no chamber changes by more than `max_growth`."""
        if not end.by_volume.any():
            return 1.0
        now = state.volumes[end.by_volume]
        start = now if origin is None else origin.volumes[end.by_volume]
        way = np.abs(end.volumes[end.by_volume] - start)
        allowed = self.max_growth * np.maximum(now, problem.rest_chamber_volumes[end.by_volume])
        allowed = np.where(end.volumes[end.by_volume] < start, np.minimum(allowed, 0.5 * now), allowed)
        with np.errstate(divide="ignore"):
            share = float(np.min(np.where(way > 0, allowed / way, np.inf), initial=np.inf))
        left = 1.0 - done
        return min(left, left / np.ceil(left / share - 1e-9)) if share < left else max(left, 1e-12)

    def _predict(self, state: ShapeState, target: Target) -> Point:
        """Return the start of Newton: the secant through the last two equilibria where the path goes straight on."""
        if state.before is None:
            return state.point
        before, old = state.before
        last, ahead = _difference(state.target, old), _difference(target, state.target)
        if last is None or ahead is None:
            return state.point
        size, along = float(last @ last), float(last @ ahead)
        if size == 0.0 or along <= 0.99 * np.sqrt(size * float(ahead @ ahead)):
            return state.point
        share = along / size
        if share > 1.05:  # a bend turns: further ahead than behind, the equilibrium itself is the better start
            return state.point
        guess = state.point.beyond(before, share)
        return guess if state.problem.jacobian_bounds(guess.x).min() > 0.0 else state.point

    # ---- Newton on the bordered system

    def _equilibrium(self, problem: Problem, start: Point, target: Target, *, free_start: bool) -> _Outcome:
        """Return the equilibrium for a target, from a start near it."""
        point = start
        records: list[dict[str, Any]] = []
        history: list[tuple[float, ...]] = []
        reference = FORCE_FLOOR
        evaluation = problem.evaluate(point.x, point.p, point.chamber_pressures, target.external, matrix=True)
        if not np.isfinite(evaluation.energy):
            return _Outcome(Status.INVERTED, point, evaluation, np.inf, 0, ())
        for iteration in range(self.max_iterations + 1):
            clock = time.perf_counter()
            measure = self._residuals(problem, point, target, evaluation)
            if self._converged(measure):
                return _Outcome(Status.CONVERGED, point, evaluation, measure[0], iteration, tuple(records))
            if iteration == self.max_iterations:
                break
            history.append(measure)
            reference = max(reference, evaluation.scale)
            merits = [_merit(m, reference) for m in history]
            if _stalled(merits):
                break
            if evaluation.data is None:
                evaluation = problem.evaluate(point.x, point.p, point.chamber_pressures, target.external, matrix=True)
            assembled = time.perf_counter()
            before = problem.linear.factorisations, problem.linear.krylov
            size = np.sqrt(merits[-1])
            try:
                direction = self._direction(problem, point, target, evaluation, self._accuracy(measure),
                                            reuse=size < REUSE_BELOW)
            except FactorisationError:
                return _Outcome(Status.SINGULAR, point, evaluation, measure[0], iteration, tuple(records))
            solved = time.perf_counter()
            found = self._line_search(problem, point, direction, target, history, reference, free=free_start)
            searched = time.perf_counter()
            length = found[0] if found is not None else 0.0
            records.append({
                "iteration": iteration + 1, "residual": measure[0], "volume_residual": measure[1],
                "incompressibility": measure[2], "step": length,
                "factorisations": problem.linear.factorisations - before[0],
                "krylov": problem.linear.krylov - before[1],
                "perturbed_pivots": problem.linear.factoriser.perturbed_pivots,
                "seconds": {"assembly": assembled - clock + (searched - solved), "factorisation": solved - assembled}})
            if found is None:
                return _Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], iteration + 1, tuple(records))
            length, point, evaluation = found
            if len(history) == 1 and length < 0.1:  # the load is too large a bite: take a smaller one at once
                return _Outcome(Status.INVERTED, point, evaluation, measure[0], iteration + 1, tuple(records))
        return _Outcome(Status.NOT_CONVERGED, point, evaluation, measure[0], len(records), tuple(records))

    def _direction(self, problem: Problem, point: Point, target: Target, evaluation: Evaluation, accuracy: float, *,
                   reuse: bool) -> Point:
        """Return the Newton step from the bordered system, to a relative accuracy."""
        pattern, nodes = problem.pattern, len(point.x)
        size = 3 * nodes
        held = problem.held
        data = evaluation.data
        assert data is not None
        known = np.zeros(pattern.size)
        shift = np.where(held[:size], (target.positions - point.x).ravel(), 0.0)
        known[:size] = shift
        right = -np.concatenate([evaluation.force.ravel(), evaluation.constraint])
        if np.any(shift):
            moved = np.zeros(pattern.size)
            assembly.symmetric_product(pattern.indptr, pattern.indices, data, known, moved)
            right -= moved
        right[held] = known[held]
        assembly.eliminate(pattern.indptr, pattern.indices, held, data)
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
        step, change = problem.linear.solve(data, borders, right, gap, accuracy, reuse=reuse)
        pressure_step[chosen] = change
        if not np.isfinite(step).all():
            raise FactorisationError("the solution is not finite")
        return Point(step[:size].reshape(nodes, 3), step[size:], pressure_step)

    def _line_search(self, problem: Problem, point: Point, step: Point, target: Target,
                     history: list[tuple[float, ...]], reference: float, *, free: bool
                     ) -> tuple[float, Point, Evaluation] | None:
        """Shorten the step until no element is inverted and the residual falls below the worst of the last four.

        The first step from an equilibrium carries the load (`free`), so its residual may rise; J > 0 always holds.
        """
        first = free and len(history) == 1
        length = 1.0
        last = history[-1][0] < 1e-3 and history[-1][1] < 1e-3
        for _ in range(12):
            trial = Point(point.x + length * step.x, point.p + length * step.p,
                          point.chamber_pressures + length * step.chamber_pressures)
            if problem.jacobian_bounds(trial.x).min() > 0.0 or problem.inverted(trial.x) == 0:
                # the tangent comes along unless this step is likely to be the last
                evaluation = problem.evaluate(trial.x, trial.p, trial.chamber_pressures, target.external,
                                              matrix=length == 1.0 and not last)
                if np.isfinite(evaluation.energy):
                    common = max(reference, evaluation.scale)
                    limit = max(_merit(m, common) for m in history[-4:])
                    merit = _merit(self._residuals(problem, trial, target, evaluation), common)
                    if first or merit <= (1.0 - 1e-4 * length) * limit or merit < 1e-24:
                        return length, trial, evaluation
            length *= 0.5
        return None

    # ---- residuals

    def _residuals(self, problem: Problem, point: Point, target: Target, evaluation: Evaluation
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
        place = float(np.max(np.abs(np.where(free, 0.0, (point.x - target.positions).ravel())), initial=0.0))
        place = max(place, float(np.max(np.abs(pressure_gap), initial=0.0)))
        return float(by_node.max(initial=0.0)) / floor, volume, constraint, place, float(np.linalg.norm(by_node))

    def _accuracy(self, measure: tuple[float, ...]) -> float:
        """Return how accurately the next Newton step is worth solving: just enough where it can be the last."""
        tight = max(0.01 * self.tolerance, 1e-14)
        goals = (self.tolerance, tight, tight)
        needed = min(goal / max(value, 1e-300) for goal, value in zip(goals, measure[:3]))
        return 0.3 * needed if 1e-5 < needed < 3e-3 else 1e-3

    def _converged(self, measure: tuple[float, ...]) -> bool:
        force, volume, constraint, place, _ = measure
        tight = max(0.01 * self.tolerance, 1e-14)
        return force <= self.tolerance and volume <= tight and constraint <= tight and place <= 1e-12

    # ---- the end of a path

    def _pressure_driven(self, state: ShapeState, end: Target) -> bool:
        """Whether a chamber's pressure is still on its way."""
        return bool((~end.by_volume & (end.pressures != state.point.chamber_pressures)).any())

    def _is_fold(self, problem: Problem, state: ShapeState, outcome: _Outcome, end: Target) -> bool:
        """Whether Newton under pressure control jumped to a far branch, as it may beyond a limit point."""
        chosen = ~end.by_volume
        if not chosen.any() or state.before is None:
            return False
        before = state.volumes[chosen]
        after = outcome.evaluation.volumes[chosen]
        return bool((np.abs(after - before) > 1.0 * np.maximum(before, problem.rest_chamber_volumes[chosen])).any())

    def _diagnose(self, problem: Problem, state: ShapeState, outcome: _Outcome) -> tuple[Status, str]:
        """Say why a command could not be reached."""
        where = f"at V/V0 = {_listed(state.volumes / problem.rest_chamber_volumes)}" if problem.chambers else "on the way"
        status = outcome.status if outcome.status in (Status.SINGULAR, Status.INVERTED) else Status.NOT_CONVERGED
        return status, f"{status.value} The last equilibrium is {where}, residual {outcome.residual:.2g} beyond it."

    def _follow_by_volume(self, problem: Problem, state: ShapeState, end: Target) -> tuple[ShapeState, str]:
        """Go on by volume where pressure control fails, until the pressures asked for are passed or have a maximum.

        Returns the state nearest to the pressures asked for, and a sentence if they are beyond a limit point.
        """
        driven = ~end.by_volume & (end.pressures != state.point.chamber_pressures)
        sign = np.sign(end.pressures - state.point.chamber_pressures)
        trail = [state]
        growth = 0.2
        for _ in range(60):
            current = trail[-1]
            volumes = current.volumes
            target = Target(driven | end.by_volume, np.where(driven, volumes * (1.0 + sign * growth), volumes),
                            current.point.chamber_pressures, current.target.external, current.target.positions)
            start = self._predict(current, target)
            outcome = self._equilibrium(problem, start, target, free_start=start is current.point)
            now = outcome.point.chamber_pressures
            if outcome.status is not Status.CONVERGED:
                growth *= 0.5
                if growth < 1e-3:
                    break
                continue
            if (sign * (end.pressures - now) <= 0)[driven].all():
                break  # passed: pressure control will find its way from here
            trail.append(ShapeState(problem, outcome.point, target, outcome.evaluation.volumes,
                                    (current.point, current.target)))
            if (sign * (now - current.point.chamber_pressures) < 0)[driven].any():
                if growth < 0.05:
                    return state, self._limit_sentence(problem, trail, end, driven)
                del trail[-2:]  # back over the maximum, in smaller steps
                trail = trail or [state]
                growth *= 0.3
        return trail[-1], ""

    def _limit_sentence(self, problem: Problem, trail: list[ShapeState], end: Target, driven: Bools) -> str:
        """The limit point from the parabola through the last three equilibria."""
        limits, ratios = [], []
        for c in np.flatnonzero(driven):
            v = np.array([t.volumes[c] for t in trail[-3:]]) / problem.rest_chamber_volumes[c]
            q = np.array([t.point.chamber_pressures[c] for t in trail[-3:]]) * problem.stress
            curve = np.polyfit(v, q, len(v) - 1) if len(v) == 3 else None
            best = -curve[1] / (2 * curve[0]) if curve is not None and curve[0] != 0 else v[np.argmax(np.abs(q))]
            best = float(np.clip(best, v.min(), v.max()))
            ratios.append(best)
            limits.append(float(np.polyval(curve, best)) if curve is not None else q[np.argmax(np.abs(q))])
        asked = end.pressures[driven] * problem.stress
        return (f"{Status.PRESSURE_LIMIT.value} The limit is {_listed(np.array(limits) / 1e3)} kPa at V/V0 = "
                f"{_listed(np.array(ratios))}; {_listed(asked / 1e3)} kPa was asked for.")


def _difference(new: Target, old: Target) -> Floats | None:
    """The way between two targets as one vector of comparable numbers; None where their controls differ."""
    if (new.by_volume != old.by_volume).any():
        return None
    return np.concatenate([np.where(new.by_volume, new.volumes - old.volumes, 0.0),
                           np.where(new.by_volume, 0.0, new.pressures - old.pressures),
                           [np.linalg.norm(new.external - old.external)]])


def _merit(measure: tuple[float, ...], reference: float) -> float:
    """Squared scaled residual: the merit of the line search (Pi is a saddle and no merit).

    `reference` is one force for a whole Newton solve: forces that fall to zero must not raise the merit.
    """
    _, volume, constraint, place, norm = measure
    return (norm / reference) ** 2 + volume**2 + constraint**2 + place**2


def _stalled(merits: list[float]) -> bool:
    """Whether the best merit of the last eight iterations is hardly better than the best before."""
    return len(merits) > 12 and min(merits[-8:]) > 0.25 * min(merits[:-8])


def _listed(values: Floats) -> str:
    return ", ".join(f"{v:.4g}" for v in np.atleast_1d(values))
