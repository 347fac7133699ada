"""EnergyShapeSolver: the quasi-static shape of an inflated, loaded hyperelastic body, as finite elements have it.

Find positions x, pressure p (mean stress) and chamber pressures P stationary for

    Pi = integral W(F) dV + integral p (J - 1) - p^2 / (2 kappa) dV - sum_c P_c (v_c(x) - V_c) + contact(x)
         - external work,

with Taylor-Hood elements (P2 displacement, continuous P1 pressure) or stabilised P1-P1. Every chamber is a scalar
functional v_c(x) with the conjugate force P_c: either is prescribed, both are returned. Contact with obstacles and of
the robot with itself is in `contact`. One command is reached by

    1. targets: volumes or pressures, dead loads, held positions and poses of obstacles at the end of the command;
    2. increments: a share of the way, as large as the last one allowed, starting from a secant predictor;
    3. Newton (`newton`): factorise the symmetric indefinite tangent once, solve for the residual and for the gradient
       of every chamber of prescribed volume, and close the small bordered system (block elimination);
    4. line search: shorten the step until J > 0 everywhere, no surface passes another, and the squared scaled
       residual falls (non-monotone);
    5. convergence: force residual, chamber volumes and incompressibility, never the size of a step;
    6. anchors: what sticks to an obstacle keeps its place there, what slipped lets go.

Departures from [Fang2022], whose problem this is:

[D1] The hyperelastic energy itself is minimised, not the distance to blended target shapes.
[D2] Chambers carry no elements: their volume is a polynomial of the wall nodes, so nothing needs remeshing.
[D3] Chamber volumes are constraints met exactly; their multipliers are the pressures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.actuation import Actuation, Command, Inflation
from geosim.arrays import Bools, Floats
from geosim.contract import Progress, Report, Robot, State, Status, taken
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.robot import VolumetricRobot
from geosim.shape.energy import frames
from geosim.shape.energy.contact import Grip
from geosim.shape.energy.newton import Newton, Outcome, Point, Target
from geosim.shape.energy.problem import Problem, make_problem
from geosim.shape.energy.state import ShapeState

__all__ = ["EnergyShapeSolver", "ShapeState"]

# An obstacle travels at most so many edges of the skin in one increment: farther, it would push points out sideways.
MAX_TRAVEL = 0.25


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
    contact_thickness
        Distance at which surfaces begin to feel each other, over the local edge length.
    check_stability
        Whether every frame is examined for stability (one factorisation more).
    imperfection
        Amplitude of a smooth, fixed deviation of the rest shape over the body's size, which makes a perfect body
        choose a side when it buckles; the vertices given as fixed keep their places.
    """

    element: str = "p2"
    tolerance: float = 1e-6
    max_iterations: int = 24
    max_growth: float = 1.0
    min_increment: float = 1e-3
    factoriser: str = "auto"
    invariants: str = "full"
    contact_thickness: float = 0.05
    check_stability: bool = True
    imperfection: float = 0.0

    def __post_init__(self) -> None:
        if self.element not in ("p1", "p2"):
            raise InputError(f"EnergyShapeSolver: element = {self.element!r} is unknown; use 'p2' or 'p1'")
        for key in ("tolerance", "max_growth", "min_increment"):
            value = getattr(self, key)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise InputError(f"EnergyShapeSolver: {key} = {value!r} must be a positive number")
        if not (isinstance(self.contact_thickness, (int, float)) and 1e-4 <= self.contact_thickness <= 0.5):
            raise InputError(
                f"EnergyShapeSolver: contact_thickness = {self.contact_thickness!r} is a share of the skin's edges, "
                f"1e-4 .. 0.5"
            )
        if not (isinstance(self.imperfection, (int, float)) and 0 <= self.imperfection <= 0.05):
            raise InputError(
                f"EnergyShapeSolver: imperfection = {self.imperfection!r} is a share of the body's size, 0 .. 0.05"
            )
        if self.tolerance < 1e-13 or self.tolerance > 1e-2:
            raise InputError(f"EnergyShapeSolver: tolerance = {self.tolerance:g} is outside 1e-13 .. 1e-2")
        if not (isinstance(self.max_iterations, int) and self.max_iterations >= 2):
            raise InputError(f"EnergyShapeSolver: max_iterations = {self.max_iterations!r} must be a whole number >= 2")
        if self.factoriser not in ("auto", "pardiso", "superlu"):
            raise InputError(
                f"EnergyShapeSolver: factoriser = {self.factoriser!r} is unknown; use 'auto', 'pardiso' or 'superlu'"
            )

        if self.invariants not in ("full", "isochoric"):
            raise InputError(
                f"EnergyShapeSolver: invariants = {self.invariants!r} is unknown; use 'full' or 'isochoric'"
            )

    # ---- the contract of `solve`

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands of an actuation after checking that this solver knows them."""
        return actuation.commands((Inflation,), type(self).__name__)

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> ShapeState:
        """Return the state at rest (or at `initial`, a state of the same robot) after computing what is computed once.

        Raises
        ------
        InputError
            The robot or its environment cannot be solved.
        """
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        problem = make_problem(
            robot,
            environment,
            2 if self.element == "p2" else 1,
            self.factoriser,
            isochoric=self.invariants == "isochoric",
            contact_thickness=self.contact_thickness,
            imperfection=self.imperfection,
        )
        chambers = problem.chambers
        point = Point(problem.rest, np.zeros(len(problem.pressure_vertices)), np.zeros(chambers))
        if initial is not None:
            point = frames.adopt(problem, initial)
        grip = problem.contact.start(point.x) if problem.contact is not None else None
        before = initial.grip if isinstance(initial, ShapeState) else None
        if grip is not None and before is not None and before.anchors.shape == grip.anchors.shape:
            grip = before  # go on where the last solve ended: its obstacles stand where they stood
        evaluation = problem.evaluate(
            point.x, point.p, point.chamber_pressures, np.zeros_like(point.x), matrix=False, grip=grip
        )
        loads = problem.loads_of(evaluation.force if initial is not None else np.zeros_like(point.x))
        target = Target(
            np.zeros(chambers, dtype=bool),
            evaluation.volumes,
            point.chamber_pressures,
            loads,
            problem.goal(point.x),
            grip,
        )
        return ShapeState(
            problem,
            point,
            target,
            evaluation.volumes,
            None,
            grip,
            frames.measure(problem, point, evaluation, np.nan, grip, None),
            is_frame=False,
        )

    @property
    def _newton(self) -> Newton:
        return Newton(self.tolerance, self.max_iterations)

    def step(
        self, state: ShapeState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[ShapeState, Report]:
        """Go to one command; if it cannot be reached, return the last equilibrium on the way and why it ended."""
        clock = time.perf_counter()
        problem = state.problem
        end = self._target(problem, state, command)
        problem.check_enclosed(problem.at_goal(state.point.x, end.positions))
        current, done, share = state, 0.0, self._first_share(problem, state, end)
        origin = self._origin(state, end)
        records: list[dict[str, Any]] = []
        status, message, followed = Status.CONVERGED, "", 0
        reached: Outcome | None = None
        while done < 1.0:
            share = min(share, 1.0 - done)
            if 1.0 - done - share < 0.05 * share:
                share = 1.0 - done
            target = origin.towards(end, done + share, current.grip)
            start = self._predict(current, target)
            outcome = self._newton.equilibrium(problem, start, target, free_start=start is current.point)
            records += [{"command": command.index, "share": done + share, **r} for r in outcome.records]
            if progress is not None:
                progress(Progress(done + share, len(records), outcome.residual))
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
            current = _advanced(current, outcome, target)
            reached = outcome
            easy = 8 if problem.contact is not None and problem.contact.friction else 4
            share *= 2.0 if outcome.iterations <= easy else 1.5 if outcome.iterations <= 1.5 * easy else 1.0
            share = min(share, self._first_share(problem, current, end, origin, done))
        current = self._measured(current, reached)
        if status is Status.CONVERGED and current.frame.crossings:
            status = Status.CROSSED
            message = (
                f"{Status.CROSSED.value} {int(current.frame.crossings)} pairs of edges and faces cross at command "
                f"{command.index + 1}."
            )
        seconds = time.perf_counter() - clock
        if records:
            records[-1] = {
                **records[-1],
                "seconds": {
                    **records[-1]["seconds"],
                    "other": max(0.0, seconds - sum(sum(r["seconds"].values()) for r in records)),
                },
            }
        report = Report(status, message, tuple(records))
        return current, report if report.reached or current is state else replace(report, partial=current)

    def _measured(self, state: ShapeState, outcome: Outcome | None) -> ShapeState:
        """Return the state with its measures, which the increments between commands do without."""
        if state.measured is not None:
            return state
        point = state.point
        if outcome is not None and outcome.point is point:
            evaluation, residual = outcome.evaluation, outcome.residual
        else:
            evaluation = self._newton.evaluate(state.problem, point, state.target, matrix=False)
            residual = self._newton.residuals(state.problem, point, state.target, evaluation)[0]
        stable = self._newton.is_stable(state.problem, point, state.target) if self.check_stability else None
        return replace(
            state, measured=frames.measure(state.problem, point, evaluation, residual, state.target.grip, stable)
        )

    # ---- increments

    def _target(self, problem: Problem, state: ShapeState, command: Command) -> Target:
        """Return what a command asks for, in scaled units."""
        chambers, index = problem.chambers, command.index
        inflation = command.find(Inflation)
        ratio, pressure = (
            inflation.targets(index, chambers)
            if inflation is not None
            else (np.full(chambers, np.nan), np.zeros(chambers))
        )
        by_volume = np.isfinite(ratio)
        volumes = np.where(by_volume, ratio * problem.rest_chamber_volumes, 0.0)
        pressures = np.where(by_volume, 0.0, np.nan_to_num(pressure) / problem.stress)
        grip = (
            state.grip.at(problem.contact.poses(index))
            if problem.contact is not None and state.grip is not None
            else None
        )
        return Target(
            by_volume, volumes, pressures, problem.external_forces(index), problem.held_positions(index), grip
        )

    def _origin(self, state: ShapeState, end: Target) -> Target:
        """Return the target that the present equilibrium meets, expressed in the controls of the next command."""
        return Target(
            end.by_volume,
            state.volumes,
            state.point.chamber_pressures,
            state.target.external,
            state.problem.goal(state.point.x, state.target.positions),
            state.grip,
        )

    def _first_share(
        self, problem: Problem, state: ShapeState, end: Target, origin: Target | None = None, done: float = 0.0
    ) -> float:
        """Return the largest share of the command in which no chamber changes by more than `max_growth`."""
        left = 1.0 - done
        moved = _travel(origin.grip if origin is not None else state.grip, end.grip)
        if moved > 0.0 and problem.contact is not None:
            left = min(left, MAX_TRAVEL * float(np.median(problem.contact.surface.edges)) * problem.length / moved)
        if not end.by_volume.any():
            return left if moved > 0.0 else 1.0
        now = state.volumes[end.by_volume]
        start = now if origin is None else origin.volumes[end.by_volume]
        way = np.abs(end.volumes[end.by_volume] - start)
        allowed = self.max_growth * np.maximum(now, problem.rest_chamber_volumes[end.by_volume])
        allowed = np.where(end.volumes[end.by_volume] < start, np.minimum(allowed, 0.5 * now), allowed)
        with np.errstate(divide="ignore"):
            share = float(np.min(np.where(way > 0, allowed / way, np.inf), initial=np.inf))
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
        guess = replace(guess, x=state.problem.settled(guess.x))
        contact = state.problem.contact
        if (
            contact is not None
            and target.grip is not None
            and contact.safe_share(state.point.x, guess.x - state.point.x, target.grip) < 1.0
        ):
            return state.point
        return guess if state.problem.jacobian_bounds(guess.x).min() > 0.0 else state.point

    # ---- the end of a path

    def _pressure_driven(self, state: ShapeState, end: Target) -> bool:
        """Whether a chamber's pressure is still on its way."""
        return bool((~end.by_volume & (end.pressures != state.point.chamber_pressures)).any())

    def _is_fold(self, problem: Problem, state: ShapeState, outcome: Outcome, end: Target) -> bool:
        """Whether Newton under pressure control jumped to a far branch, as it may beyond a limit point."""
        chosen = ~end.by_volume
        if not chosen.any() or state.before is None:
            return False
        before = state.volumes[chosen]
        after = outcome.evaluation.volumes[chosen]
        return bool((np.abs(after - before) > 1.0 * np.maximum(before, problem.rest_chamber_volumes[chosen])).any())

    def _diagnose(self, problem: Problem, state: ShapeState, outcome: Outcome) -> tuple[Status, str]:
        """Say why a command could not be reached."""
        where = (
            f"at V/V0 = {_listed(state.volumes / problem.rest_chamber_volumes)}" if problem.chambers else "on the way"
        )
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
            target = Target(
                driven | end.by_volume,
                np.where(driven, volumes * (1.0 + sign * growth), volumes),
                current.point.chamber_pressures,
                current.target.external,
                current.target.positions,
                current.grip,
            )
            start = self._predict(current, target)
            outcome = self._newton.equilibrium(problem, start, target, free_start=start is current.point)
            now = outcome.point.chamber_pressures
            if outcome.status is not Status.CONVERGED:
                growth *= 0.5
                if growth < 1e-3:
                    break
                continue
            if (sign * (end.pressures - now) <= 0)[driven].all():
                break  # passed: pressure control will find its way from here
            trail.append(_advanced(current, outcome, target))
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
        return (
            f"{Status.PRESSURE_LIMIT.value} The limit is {_listed(np.array(limits) / 1e3)} kPa at V/V0 = "
            f"{_listed(np.array(ratios))}; {_listed(asked / 1e3)} kPa was asked for."
        )


def _advanced(state: ShapeState, outcome: Outcome, target: Target) -> ShapeState:
    """Return the state after an increment, with its grip renewed."""
    target = target if outcome.target is None else outcome.target
    problem, grip = state.problem, target.grip
    if problem.contact is not None and grip is not None and outcome.evaluation.contact is not None:
        grip = problem.contact.renew(outcome.point.x, grip, outcome.evaluation.contact)
    return ShapeState(problem, outcome.point, target, outcome.evaluation.volumes, (state.point, state.target), grip)


def _travel(start: Grip | None, end: Grip | None) -> float:
    """Largest distance [m] that an obstacle travels between two grips (turns about its own origin left out)."""
    if start is None or end is None or len(start.poses) == 0:
        return 0.0
    turn = np.linalg.norm(end.poses[:, :3, :3] - start.poses[:, :3, :3], axis=(1, 2))
    return float(np.max(np.linalg.norm(end.poses[:, :3, 3] - start.poses[:, :3, 3], axis=1) + 0.01 * turn))


def _difference(new: Target, old: Target) -> Floats | None:
    """The way between two targets as one vector of comparable numbers; None where their controls differ."""
    if (new.by_volume != old.by_volume).any():
        return None
    return np.concatenate(
        [
            np.where(new.by_volume, new.volumes - old.volumes, 0.0),
            np.where(new.by_volume, 0.0, new.pressures - old.pressures),
            [
                np.linalg.norm(new.external - old.external),
                np.linalg.norm(new.positions - old.positions),
                _travel(old.grip, new.grip),
            ],
        ]
    )


def _listed(values: Floats) -> str:
    return ", ".join(f"{v:.4g}" for v in np.atleast_1d(values))
