"""The multibody stepper of section IV of [Gasoto2019]: implicit Euler on particles and rigid bodies in contact.

One substep of length h solves, for increments dq and multipliers,

    [ M/h^2  -J^T ] [dq     ]     [ M (q - q~)/h^2 - J^T lambda - f ]
    [ J       E   ] [dlambda] = - [ c + E lambda                    ]          Eq. (8)

by Newton's method. Steps: 1 the valves set the pressures, the pressures the rest lengths (4); 2 contacts are found
and frozen as tangent planes; 3 until the residual is below the tolerance (or the budget is spent): evaluate,
assemble, a direction by one of the two routes, a line search on the merit; 4 v = dq / h. A step that has not
converged says so, with its residual in newtons.

- route "primal" eliminates the multipliers, (M/h^2 + J^T E^-1 J + geometric stiffness) dq = -gradient, and factors
  this directly, level by level; a few contacts are left out of the matrix and solved in their own unknowns (see
  `condensed`), many are part of it;
- route "dual" is the paper's: the Schur complement J (M/h^2)^-1 J^T + E, preconditioned with a factor of the primal
  matrix, or as in the paper by conjugate residuals with a fixed budget, warm started (see `dual`).

Departures from the paper:
[D1] The rotational inertia balances a discrete angular momentum (see `joints`): the gyroscopic term is implicit, and a
     free body keeps its angular momentum exactly.
[D2] The geometric stiffness, which (8) leaves out, is kept: without it Newton converges linearly or not at all. Its
     indefinite part is dropped when a factorisation fails or a direction does not descend. On the dual route that
     of tets and distances enters as rows of its own.
[D3] Contact carries a compliance 1/k, which makes the root of the Fischer-Burmeister function explicit; friction sticks
     below a creep speed. Both are parameters.
[D4] Every step is line-searched on the merit; stiff distance constraints diverge without it. Where the contacts are
     part of the matrix, the first direction of a substep uses the clamped stiffness: friction resists in every
     direction with 1/W. With the exact stiffness, a wheel that begins to slip overshoots by a radian. Later
     directions hold the unsymmetric derivative of friction by the normal force, without which the fixed point of the
     two need not converge.
[D5] An actuation line sets in over the first `line_onset` pascals, so that its force is continuous where the sign of
     the command selects the other chamber.
[D6] Contact planes are those of the start of the step, moved with their obstacle to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, choice, number, whole
from geosim.errors import InputError
from geosim.model.actuation import Actuation, Command, Passive, UndulatoryGait, ValveCommands
from geosim.model.contract import Progress, Report, Robot, SavedState, State, Status, taken
from geosim.model.environment import Environment
from geosim.snake.condensed import NewtonDirection, primal_direction
from geosim.snake.dual import DualDirection, PaperDirection
from geosim.snake.model import MultibodyRobot, SnakeRobot
from geosim.snake.newton import solve_substep
from geosim.snake.problem import Substep
from geosim.snake.state import MultibodyState, rest_state, restored
from geosim.snake.system import build_system
from geosim.snake.valves import Valves


@guarded
@dataclass(frozen=True)
class MultibodyStepper:
    """Dynamics of multibody robots; one `step` is one frame.

    Parameters
    ----------
    route
        "primal" (direct factorisation) or "dual" (the paper's, by the multipliers of the constraints).
    dt
        Length of a frame [s].
    substeps
        Time steps in a frame; 2 in [Gasoto2019].
    max_iterations
        Newton iterations of a substep at most; fewer if the tolerance is met. 4 in [Gasoto2019].
    frame_iterations
        Newton iterations of a frame at most, at least one a substep, so that a frame takes a bounded time; every further trial
        of a line search counts as one, because it evaluates all forces again; None: no limit. A frame that they end before the
        tolerance is met is NOT_CONVERGED and says its residual.
    frame_factorisations
        Factorisations of a frame at most, at least one a substep, where they are kept: on the primal route by blocks, with few
        contacts; None: no limit. Without one a substep goes on with an older factor, which contracts less.
    tolerance
        Residual at which a substep has converged [N].
    linear_iterations
        Iterations of the linear solver of the dual route at most; 20 in [Gasoto2019].
    linear_tolerance
        Relative residual at which it stops early.
    preconditioner
        Of the dual route: "primal", a factor of the primal matrix, with which GMRES takes some four iterations, or "jacobi",
        the paper's, with which conjugate residuals do not converge; see `geosim.snake.dual`.
    throw
        Whether a frame that does not converge ends the solve; else it goes on. The status is NOT_CONVERGED either way.
    contact_stiffness
        Inverse compliance of a contact [N/m].
    slip_velocity
        Slip speed below which friction sticks [m/s].
    contact_distance
        Distance at which contacts are looked for [m].
    line_onset
        Pressure over which an actuation line sets in [Pa].
    valves
        How pressures follow commands; `Valves(law="ideal")` for at once.
    factoriser
        "block", "sparse" or "auto" (the cheaper).
    single
        Factor in single precision ("block"): the residual is in double, so this changes how fast, not whereto.
    forcing
        Relative residual to which a direction is solved where a factor is only a preconditioner: with many contacts.
    frame_interval
        Time between the frames of a `Result` [s]; default every step.
    max_seconds
        CPU time [s] after which a motion ends with STOPPED: its last frame takes one iteration more a substep; None: no limit.
    """

    route: str = "primal"
    dt: float = 1.0 / 60.0
    substeps: int = 2
    max_iterations: int = 30
    frame_iterations: int | None = None
    frame_factorisations: int | None = None
    tolerance: float = 1e-4
    linear_iterations: int = 5000
    linear_tolerance: float = 1e-10
    preconditioner: str = "primal"
    throw: bool = False
    contact_stiffness: float = 2e4
    slip_velocity: float = 1e-4
    contact_distance: float = 4e-3
    line_onset: float = 500.0
    valves: Valves = field(default_factory=Valves)
    factoriser: str = "auto"
    single: bool = False
    forcing: float = 1e-4
    frame_interval: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        choice(self.route, "MultibodyStepper: route", ("primal", "dual"))
        choice(self.preconditioner, "MultibodyStepper: preconditioner", ("primal", "jacobi"))
        choice(self.factoriser, "MultibodyStepper: factoriser", ("auto", "block", "sparse"))
        for key in (
            "dt",
            "tolerance",
            "linear_tolerance",
            "max_seconds",
            "contact_stiffness",
            "slip_velocity",
            "contact_distance",
            "line_onset",
        ):
            if getattr(self, key) is not None:
                number(getattr(self, key), f"MultibodyStepper: {key}", above=0.0)
        for key in ("substeps", "max_iterations", "linear_iterations"):
            whole(getattr(self, key), f"MultibodyStepper: {key}", least=1)
        for key in ("frame_iterations", "frame_factorisations"):
            if getattr(self, key) is not None:
                whole(getattr(self, key), f"MultibodyStepper: {key}", least=self.substeps)

    @staticmethod
    def real_time(**options: Any) -> MultibodyStepper:
        """Return a stepper for real-time loops: to 0.1 N, which one iteration a substep mostly reaches, in single precision.

        The iterations and factorisations of a frame are bounded, whatever the gait or the machine;
        where they
        do not reach 0.1 N the frame says its residual, and the next one goes on from there.
        """
        # evaluations of all forces and factorisations of a frame: mostly two or three, and none
        real_time_budget = (8, 3)
        limits = {"frame_iterations": real_time_budget[0], "frame_factorisations": real_time_budget[1]}
        return MultibodyStepper(**{"tolerance": 0.1, "single": True, **limits, **options})

    def start(
        self, robot: Robot, environment: Environment | None = None, initial: State | None = None
    ) -> MultibodyState:
        """Return the state at rest (or `initial`, made ready for this robot); computes all that stays.

        Raises
        ------
        InputError
            The robot is not a `MultibodyRobot`, or the environment holds what is not simulated.
        """
        robot = taken(robot, MultibodyRobot, type(self).__name__)
        system = build_system(robot, Environment() if environment is None else environment)
        rest = rest_state(system, system.workspace(self.factoriser, self.single), self.line_onset)
        if initial is None:
            return rest
        if not isinstance(initial, (MultibodyState, SavedState)):
            raise InputError("MultibodyStepper: initial= is not a state of this robot")
        try:
            return restored(
                rest, initial.arrays()
            )  # factors are made again: those of another workspace may be overwritten
        except InputError as error:
            raise InputError(f"MultibodyStepper: initial= is not a state of this robot: {error}") from None

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return one command for every frame of length dt up to the end of the actuation."""
        actuation.refuse_all_but((ValveCommands, UndulatoryGait), type(self).__name__)
        for part in actuation.parts:
            if isinstance(part, ValveCommands):
                self._signed(taken(robot, MultibodyRobot, type(self).__name__), part.pressures[0])
        if isinstance(actuation, Passive) and actuation.duration == 0:
            count = actuation.steps
        else:
            ends = [p.duration if isinstance(p, (UndulatoryGait, Passive)) else p.times[-1] for p in actuation.parts]
            count = max(1, round(max(ends) / self.dt))
            if isinstance(actuation, Passive) and actuation.steps not in (1, count):
                raise InputError(
                    f"Passive: steps = {actuation.steps}, but MultibodyStepper makes {count} commands of {self.dt:g} s; "
                    "leave steps out"
                )
        return [Command(i, (i + 1) * self.dt, actuation.parts) for i in range(count)]

    def step(
        self,
        state: MultibodyState,
        command: Command | Floats | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> tuple[MultibodyState, Report]:
        """Advance by one frame.

        Parameters
        ----------
        state
            From `start` or the step before.
        command
            A `Command`, or pressures [Pa]: one a chamber (not negative), or one for every antagonistic pair of
            chambers, whose sign selects the chamber; None keeps the last command.
        progress
            Called after every substep.

        Returns
        -------
        state, report
            The report has one record for every Newton iteration and says when a substep has not converged.
        """
        h, index, worst = self.dt / self.substeps, state.steps, 0.0
        begin = time.process_time() - state.spent
        until = begin + (self.max_seconds or np.inf)
        records: list[Mapping[str, float]] = []
        state = replace(state, pending=(*state.pending, (state.time, self._targets(state, command))))
        for s in range(self.substeps):
            state = self._inflate(state, h)
            # One of each is left for every later substep.
            trials, most = (
                None if limit is None else limit - sum(int(r[key]) for r in records) - (self.substeps - 1 - s)
                for limit, key in ((self.frame_iterations, "trials"), (self.frame_factorisations, "factored"))
            )
            state, more = self._substep(self._problem(state, h, s), state, trials, most, until)
            worst = float(np.maximum(worst, state.residual))  # a number that is none stays
            records += more
            if progress is not None:
                progress(Progress((s + 1) / self.substeps, len(records), state.residual, len(state.contacts["gap"])))
        number = command.index if isinstance(command, Command) else index
        every = 1 if self.frame_interval is None else max(1, round(self.frame_interval / self.dt))
        spent = 0.0 if self.max_seconds is None else time.process_time() - begin
        state = replace(state, steps=index + 1, residual=worst, is_frame=(number + 1) % every == 0, spent=spent)
        return state, self._report(state, tuple(records), late=spent > (self.max_seconds or np.inf))

    # -- the parts of a step ------------------------------------------------------------------------------------------

    def _report(self, state: MultibodyState, records: tuple[Mapping[str, float], ...], *, late: bool) -> Report:
        if late:
            spent = f"max_seconds = {self.max_seconds:g} s ended at t = {state.time:.6g} s, residual {state.residual:.2e} N."
            return Report(Status.STOPPED, f"{Status.STOPPED.value} {spent}", records)
        if state.residual <= self.tolerance:
            return Report(Status.CONVERGED, "", records)
        if not np.isfinite(state.residual):
            return Report(Status.NOT_CONVERGED, f"frame {state.steps}: the forces are not finite", records)
        message = (
            f"frame {state.steps} at {state.time:.3f} s did not converge: residual {state.residual:.2e} N after "
            f"{len(records)} iterations, tolerance {self.tolerance:.1e} N; take smaller steps or more iterations"
        )
        return Report(Status.NOT_CONVERGED, message, records, goes_on=not self.throw)

    def _signed(self, robot: MultibodyRobot, pressures: Any) -> Floats:
        """Return one pressure a chamber from pressures a chamber, a pair, or a pair of one snake [Pa]."""
        p = np.atleast_1d(np.asarray(pressures, dtype=float))
        pairs = robot.chambers // 2
        if not np.isfinite(p).all() or abs(p).max(initial=0.0) > self.valves.supply:
            raise InputError(
                f"MultibodyStepper: commanded pressures must be finite and at most the supply, "
                f"{self.valves.supply:.4g} Pa"
            )
        if p.shape == (robot.chambers,) and p.min(initial=0.0) >= 0:
            return p
        if len(p) and pairs % len(p) == 0 and 2 * pairs == robot.chambers:
            p = np.tile(p, pairs // len(p))
            return np.column_stack([np.maximum(p, 0.0), np.maximum(-p, 0.0)]).ravel()
        raise InputError(
            f"MultibodyStepper: {len(p)} pressures for {robot.chambers} chambers; give one a chamber (not "
            f"negative) or one for every pair of chambers"
        )

    def _targets(self, state: MultibodyState, command: Command | Floats | None) -> Floats:
        robot = state.system.robot
        if command is None:
            return state.pending[-1][1]
        if not isinstance(command, Command):
            return self._signed(robot, command)
        valves, gait = command.find(ValveCommands), command.find(UndulatoryGait)
        if valves is not None:
            begin = command.time - self.dt
            row = int(np.searchsorted(valves.times, begin + 1e-9 * self.dt, side="right")) - 1
            return self._signed(robot, valves.pressures[row]) if row >= 0 else np.zeros(robot.chambers)
        if gait is not None:
            links = robot.links if isinstance(robot, SnakeRobot) else robot.chambers // 2
            return self._signed(robot, gait.pressures(command.time, links))
        return state.pending[-1][1]

    def _inflate(self, state: MultibodyState, h: float) -> MultibodyState:
        """Advance the chamber pressures over h under the commands that have passed the delay."""
        pressures, now, targets, end = state.pressures, state.time, state.targets, state.time + h
        same_time_s = 1e-9  # s below which two times are the same: rounding of times of a day is below it
        due = [(t + self.valves.delay, p) for t, p in state.pending if t + self.valves.delay < end - same_time_s]
        for t, p in due:
            if t > now + same_time_s:
                pressures = self.valves.advance(pressures, targets, t - now)
                now = t
            targets = p
        pressures = self.valves.advance(pressures, targets, end - now)
        # The command in force is kept in front, so that the next substep starts from it.
        return replace(state, pressures=pressures, pending=((-np.inf, targets), *state.pending[len(due) :]))

    def _problem(self, state: MultibodyState, h: float, s: int) -> Substep:
        """Set up the substep number s of a frame."""
        system, n = state.system, state.system.particles
        force = system.weight.copy()
        for load, share in zip(system.environment.loads, system.loads):
            force[:n] += share[:, None] * load.at(state.steps)
        velocities = state.slot_velocities
        velocities[system.held] = 0.0
        return Substep(
            system,
            state.place,
            velocities,
            h,
            *system.springs_at(state.pressures, self.line_onset),
            force,
            system.surface_poses(state.steps, (s + 1) / self.substeps),
            system.surface_poses(state.steps, s / self.substeps),
            self.contact_stiffness,
            self.slip_velocity * h,
            self.contact_distance,
            state.workspace.blocks,
        )

    def _substep(
        self,
        problem: Substep,
        state: MultibodyState,
        trials: int | None = None,
        factorisations: int | None = None,
        until: float = np.inf,
    ) -> tuple[MultibodyState, list[Mapping[str, float]]]:
        """Solve one substep by Newton's method, section IV-D, from nearly constant acceleration."""
        guess = problem.evaluate(problem.moved(problem.start, problem.h * (problem.velocities + state.trend)))
        budget = self.linear_iterations, self.linear_tolerance
        route: NewtonDirection
        if self.route == "primal":
            route = primal_direction(problem, state.workspace, self.forcing, state.kept, factorisations)
        elif self.preconditioner == "jacobi":
            route = PaperDirection(problem, state.multipliers, *budget)
        else:
            route = DualDirection(problem, state.workspace, *budget)
        now, records = solve_substep(problem, guess, route, self.tolerance, self.max_iterations, trials, until)
        facts = {"frame": state.steps, "time": state.time}
        multipliers = route.multipliers if isinstance(route, PaperDirection) else None
        ended, share = not problem.residual(now.gradient) <= self.tolerance, None
        if ended:
            now, share = problem.bounded(now)
        after = state.after(problem, now, route.keep(len(records), ended), multipliers, share)
        return after, [{**facts, **record} for record in records]
