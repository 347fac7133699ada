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
- route "dual" is the paper's: the Schur complement J (M/h^2)^-1 J^T + E by preconditioned conjugate residuals with a
  fixed budget, warm started.

Departures from the paper:
[D1] The rotational inertia balances a discrete angular momentum (see `joints`): the gyroscopic term is implicit, and a
     free body keeps its angular momentum exactly.
[D2] The geometric stiffness, which (8) leaves out, is kept: without it Newton converges linearly or not at all. Its
     indefinite part is dropped when a factorisation fails or a direction does not descend. On the dual route it enters
     as a bound on the diagonal mass blocks.
[D3] Contact carries a compliance 1/k, which makes the root of the Fischer-Burmeister function explicit; friction sticks
     below a creep speed. Both are parameters.
[D4] Every step is line-searched on the merit; stiff distance constraints diverge without it. Where the contacts are
     part of the matrix, the first direction of a substep has the clamped stiffness, in which friction resists in every
     direction with 1/W: with the exact one the spin of a wheel that begins to slip overshoots by a radian. Later
     directions hold the unsymmetric derivative of friction by the normal force, without which the fixed point of the
     two need not converge.
[D5] An actuation line sets in over the first `line_onset` pascals, so that its force is continuous where the sign of
     the command selects the other chamber.
[D6] Contact planes are those of the start of the step, moved with their obstacle to its end.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.actuation import Actuation, Command, Passive, UndulatoryGait, ValveCommands
from geosim.arrays import Floats, frozen
from geosim.contract import Progress, Report, Robot, State, Status, taken
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.snake.condensed import CondensedDirection
from geosim.snake.contact import add_coupling
from geosim.snake.dual import DualDirection
from geosim.snake.factor import multiply, residual_minimum
from geosim.snake.model import MultibodyRobot, SnakeRobot
from geosim.snake.problem import Configuration, Evaluation, Substep
from geosim.snake.rotation import rotation_vectors
from geosim.snake.state import MultibodyState, rest_state
from geosim.snake.system import build_system, driven_springs
from geosim.snake.valves import Valves

__all__ = ["MultibodyStepper"]


@dataclass(frozen=True)
class MultibodyStepper:
    """Dynamics of multibody robots; one `step` is one frame.

    Parameters
    ----------
    route
        "primal" (direct factorisation) or "dual" (the paper's preconditioned conjugate residuals).
    dt
        Length of a frame [s].
    substeps
        Time steps in a frame; 2 in [Gasoto2019].
    iterations
        Newton iterations of a substep at most; fewer if the tolerance is met. 4 in [Gasoto2019].
    tolerance
        Residual at which a substep has converged [N].
    linear_iterations
        Budget of conjugate residual iterations (dual route); 20 in [Gasoto2019].
    linear_tolerance
        Relative residual at which the conjugate residuals stop early.
    throw_out
        Whether a frame that does not converge ends the solve (NOT_CONVERGED) or is only reported.
    contact_stiffness
        Inverse compliance of a contact [N/m].
    creep_speed
        Slip speed below which friction sticks [m/s].
    contact_margin
        Distance at which contacts are looked for [m].
    line_onset
        Pressure over which an actuation line sets in [Pa].
    valves
        How pressures follow commands; `Valves(law="ideal")` for at once.
    factorisation
        "block", "sparse" or "auto" (the cheaper).
    single
        Factor in single precision ("block"): the residual is in double, so this changes how fast, not whereto.
    forcing
        Relative residual to which a direction is solved where a factor is only a preconditioner: with many contacts.
    frame_interval
        Time between the frames of a `Result` [s]; default every step.
    """

    route: str = "primal"
    dt: float = 1.0 / 60.0
    substeps: int = 2
    iterations: int = 30
    tolerance: float = 1e-4
    linear_iterations: int = 5000
    linear_tolerance: float = 1e-10
    throw_out: bool = False
    contact_stiffness: float = 2e4
    creep_speed: float = 1e-4
    contact_margin: float = 4e-3
    line_onset: float = 500.0
    valves: Valves = field(default_factory=Valves)
    factorisation: str = "auto"
    single: bool = False
    forcing: float = 1e-4
    frame_interval: float | None = None

    def __post_init__(self) -> None:
        for key, allowed in (("route", ("primal", "dual")), ("factorisation", ("auto", "block", "sparse"))):
            if getattr(self, key) not in allowed:
                raise InputError(f"MultibodyStepper: {key} = {getattr(self, key)!r} is unknown; use one of {allowed}")
        for key in (
            "dt",
            "tolerance",
            "contact_stiffness",
            "creep_speed",
            "contact_margin",
            "line_onset",
            "linear_tolerance",
        ):
            if not (np.isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise InputError(f"MultibodyStepper: {key} = {getattr(self, key)!r} must be positive")
        for key in ("substeps", "iterations", "linear_iterations"):
            if not (isinstance(getattr(self, key), int) and getattr(self, key) >= 1):
                raise InputError(
                    f"MultibodyStepper: {key} = {getattr(self, key)!r} must be a whole number of at least 1"
                )

    @staticmethod
    def real_time(**options: Any) -> MultibodyStepper:
        """Return a stepper for real-time loops: to 0.1 N, which one iteration a substep mostly reaches, in single precision."""
        return MultibodyStepper(**{"tolerance": 0.1, "single": True, **options})

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
        workspace = system.factoriser(self.factorisation, self.single)
        if initial is None:
            return rest_state(system, workspace, self.line_onset)
        if (
            not isinstance(initial, MultibodyState)
            or initial.positions.shape != robot.particles.shape
            or initial.body_positions.shape != robot.body_positions.shape
        ):
            raise InputError("MultibodyStepper: initial= is not a state of this robot")
        return replace(initial, system=system, workspace=workspace, is_frame=True)

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
        system = state.system
        targets = self._targets(state, command)
        h = self.dt / self.substeps
        records: list[dict[str, Any]] = []
        residuals = []
        index = state.steps
        poses = [system.surface_poses(index, s / self.substeps) for s in range(self.substeps + 1)]
        for s in range(self.substeps):
            pending = (*state.pending, (state.time, targets)) if s == 0 else state.pending
            pressures, pending = self._pressures(state, pending, h)
            state = replace(state, pressures=pressures, pending=pending)
            problem = self._problem(state, h, poses[s + 1], poses[s])
            state, residual = self._substep(problem, state, records)
            residuals.append(residual)
            if progress is not None:
                progress(Progress((s + 1) / self.substeps, len(records), residual, len(state.contacts["gap"])))
        number = command.index if isinstance(command, Command) else index
        every = 1 if self.frame_interval is None else max(1, round(self.frame_interval / self.dt))
        shown = (number + 1) % every == 0
        state = replace(state, steps=index + 1, residual=max(residuals), is_frame=shown)
        if not np.isfinite(state.residual):
            return state, Report(Status.NOT_CONVERGED, f"frame {index + 1}: the forces are not finite", tuple(records))
        if state.residual <= self.tolerance:
            return state, Report(Status.CONVERGED, "", tuple(records))
        message = (
            f"frame {index + 1} at {state.time:.3f} s did not converge: residual {state.residual:.2e} N after "
            f"{self.iterations} iterations, tolerance {self.tolerance:.1e} N; take smaller steps or more iterations"
        )
        status = Status.NOT_CONVERGED if self.throw_out else Status.CONVERGED
        return state, Report(status, message, tuple(records), balanced=False)

    # -- the parts of a step ------------------------------------------------------------------------------------------

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
            return state.pending[-1][1] if state.pending else state.targets
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
        return state.pending[-1][1] if state.pending else state.targets

    def _pressures(self, state: MultibodyState, pending: tuple, h: float) -> tuple[Floats, tuple]:
        """Advance the chamber pressures over h under the commands that have passed the delay."""
        pressures, now, end = state.pressures, state.time, state.time + h
        targets = state.targets
        while pending and pending[0][0] + self.valves.delay <= now + 1e-9:
            targets = pending[0][1]
            pending = pending[1:]
        late = [(t + self.valves.delay, p) for t, p in pending if t + self.valves.delay < end - 1e-9]
        for t, p in late:
            pressures = self.valves.advance(pressures, targets, t - now)
            now, targets = t, p
        pending = pending[len(late) :]
        pressures = self.valves.advance(pressures, targets, end - now)
        # The command in force is kept in front, so that the next substep starts from it.
        return pressures, ((-np.inf, targets), *pending)

    def _problem(self, state: MultibodyState, h: float, poses: Floats, poses_before: Floats) -> Substep:
        system, robot, n = state.system, state.system.robot, state.system.particles
        rest, stiffness = driven_springs(robot, state.pressures, self.line_onset)
        force = system.masses[:, None] * system.environment.gravity
        force[n + 1 :: 2] = 0.0
        for load, share in zip(system.environment.loads, system.loads):
            force[:n] += share[:, None] * load.at(state.steps)
        velocities = np.empty((system.slots, 3))
        velocities[:n], velocities[n::2], velocities[n + 1 :: 2] = (
            state.velocities,
            state.body_velocities,
            state.spins,
        )
        velocities[~system.free] = 0.0
        start = Configuration.at(state.positions, state.body_positions, state.orientations)
        return Substep(
            system,
            start,
            velocities,
            h,
            rest,
            stiffness,
            force,
            poses,
            poses_before,
            self.contact_stiffness,
            self.creep_speed * h,
            self.contact_margin,
        )

    def _substep(self, problem: Substep, state: MultibodyState, records: list) -> tuple[MultibodyState, float]:
        """Solve one substep by Newton's method, section IV-D."""
        h = problem.h
        # Start from constant acceleration.
        here = problem.start.moved(h * (problem.velocities + state.trend))
        now = problem.evaluate(here)
        residual = problem.residual(now.gradient)
        dual = (
            DualDirection(problem, state.multipliers, self.linear_iterations, self.linear_tolerance)
            if self.route == "dual"
            else None
        )
        few = (
            CondensedDirection(problem, state.workspace)
            if dual is None and CondensedDirection.suits(problem, state.workspace)
            else None
        )
        # The first direction is damped too: where a wheel begins to slip, its spin would overshoot by far otherwise.
        rough = True
        for iteration in range(self.iterations):
            # A first guess is extrapolated, and would run away if it were taken for a solution time and again.
            if residual <= (self.tolerance if iteration > 0 else 1e-3 * self.tolerance):
                break
            begin = clock.perf_counter()
            direction, linear = self._direction(problem, here, now, state.workspace, dual, few, rough)
            alpha, here, now = self._line_search(problem, here, now, direction)
            if dual is not None:
                dual.accept(alpha)
            before, residual = residual, problem.residual(now.gradient)
            # After a poor step with the exact stiffness one with the clamped stiffness, which damps friction's kinks.
            rough = iteration > 0 and not rough and (alpha < 0.9 or residual > 0.5 * before)
            records.append(
                {
                    "frame": state.steps,
                    "time": state.time,
                    "iteration": iteration,
                    "residual": residual,
                    "step": alpha,
                    "contacts": int((now.normal_forces > 0).sum()),
                    "linear": linear,
                    "seconds": clock.perf_counter() - begin,
                }
            )
        spins = rotation_vectors(here.Q, problem.start.Q) / h
        n = problem.system.particles
        trend = -problem.velocities
        trend[:n] += (here.x - problem.start.x) / h
        trend[n::2] += (here.X - problem.start.X) / h
        trend[n + 1 :: 2] += spins
        return replace(
            state,
            time=state.time + h,
            positions=frozen(here.x),
            body_positions=frozen(here.X),
            orientations=frozen(here.Q),
            velocities=frozen((here.x - problem.start.x) / h),
            body_velocities=frozen((here.X - problem.start.X) / h),
            spins=frozen(spins),
            trend=frozen(trend),
            multipliers=None if dual is None else dual.multipliers,
            contacts=problem.contact_table(here),
        ), residual

    def _direction(
        self,
        problem: Substep,
        here: Configuration,
        now: Evaluation,
        workspace: Any,
        dual: DualDirection | None,
        few: CondensedDirection | None,
        clamp: bool,
    ) -> tuple[Floats, int]:
        """Newton's direction by the chosen route, and how many linear iterations it took."""
        if dual is not None:
            return dual.solve(here, now)
        if few is not None:
            found = few.solve(here, now)
            if found is not None:
                return found
        gradient = now.gradient
        for clamped in (True,) if clamp else (False, True):
            blocks = problem.assemble(here, now.rotations, clamped)
            if not workspace.factor(blocks):
                continue
            # The clamped system leaves out how friction follows the normal force: it is symmetric and always descends.
            slots, rows = problem.coupling(here)
            if clamped:
                slots, rows = slots[:0], rows[:0]
            if not len(slots):
                return workspace.solve(-gradient), 1

            def apply(v: Floats, out: Floats, blocks: Floats = blocks, slots: Any = slots, rows: Any = rows) -> None:
                multiply(blocks, problem.system.rows, problem.system.columns, v, out)
                add_coupling(slots, rows, v, out)

            return residual_minimum(apply, workspace.solve, -gradient, self.forcing, 20)
        # Even the semi-definite stiffness failed in floating point: the mass alone always descends.
        return -now.gradient * (problem.h**2 / problem.system.masses)[:, None], 0

    def _line_search(
        self, problem: Substep, here: Configuration, now: Evaluation, direction: Floats
    ) -> tuple[float, Configuration, Evaluation]:
        """Take the full step, or the length at which the merit is least along it, or a length at which the residual falls.

        The merit, friction at the current normal forces, is what falls far from the solution. A contact between sliding
        and sticking has a kink that a full step jumps over: there the slope of the merit changes sign, and its root is
        the step (regula falsi). Coulomb's law has no potential, so near the solution, where a Newton step need not
        lower the merit, the residual decides.
        """
        slope = float(np.vdot(now.gradient, direction))
        size = float(np.linalg.norm(now.gradient))
        noise = 1e-13 * (abs(now.merit) + problem.h**2)
        turn = float(abs(direction[problem.system.particles + 1 :: 2]).max(initial=0.0))
        alpha, trials = min(1.0, 1.0 / max(turn, 1e-300)), []  # a body turns by at most a radian an iteration
        low, slope_low, high, slope_high = 0.0, slope, None, 0.0
        for _ in range(14):
            there = here.moved(alpha * direction)
            trial = problem.evaluate(there, now.normal_forces)
            after = float(np.linalg.norm(trial.gradient))
            trials.append((after if np.isfinite(after) else np.inf, alpha, there, trial))
            if after <= 0.5 * size:
                break
            slope_here = float(np.vdot(trial.gradient, direction))
            falls = slope < 0 and trial.merit <= now.merit + 1e-4 * alpha * slope + noise
            if falls and abs(slope_here) <= 0.3 * abs(slope):
                break
            if slope < 0 and slope_here > 0:
                slope_low *= 0.5 if high is not None else 1.0  # Illinois: neither end may stay for ever
                high, slope_high = alpha, slope_here
            elif falls and high is not None:
                slope_high *= 0.5
                low, slope_low = alpha, slope_here
            elif falls or after <= (1.0 - 1e-4 * alpha) * size:
                break
            if high is None:
                alpha *= 0.5
            else:
                alpha = low + (high - low) * min(max(slope_low / (slope_low - slope_high), 0.01), 0.9)
        else:
            _, alpha, there, trial = min(trials, key=lambda t: t[0])
        trial.merit = trial.smooth + problem.contact_merit(there, trial.normal_forces)
        return alpha, there, trial
