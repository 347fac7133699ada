"""Dynamics and statics of discrete elastic rods and their joints, Algorithm 1 of [Lahoti].

The problem of one increment from (q0, u0) over h, Eq. (4) of [Lahoti]::

    f(q) = M (q - q0 - h u0) / h^2 + dE/dq - F_ext - F_contact = 0,      u = (q - q0) / h

An increment: carry the frames to the trial q (time-parallel), collect forces, test the free residual and the last
increment, collect the Hessians, solve, search along the line, repeat.

Departures from the papers:

[D1] The curvature Hessian is exact (the symmetric part of the force's Jacobian), for any section and joint.
[D2] Implicit midpoint is Euler over h/2 followed by q <- 2 q - q0, u <- 2 u - u0 for every unknown, including theta.
     The frames of the new step are transported from the old step, not from the midpoint.
[D3] The line search tests the work of the residual along the step, which needs no energy and so holds with
     friction. A step never turns or stretches an edge by more than its own length.
[D4] The residual is measured against the largest internal force (forces) and moment (theta), and the last increment
     against edge lengths and radians. A step that does not meet both is halved in time, and reported when that fails.
[D5] In statics the Hessian is shifted until it is positive definite, and an unstable equilibrium is left along its lowest
     mode; see `geosim.rods.stability`. Without contact the tensions of the edges are
     unknowns of their own, see `geosim.rods.newton`.
[D6] Contact: see `geosim.rods.contact` for rods and obstacles, `geosim.rods.sheet_contact` for shells.
[D7] Where a rod meets a shell, the triangles' edges around the shared vertex carry frames and theta as in section 3.4 of
     [Lahoti]. They bend and twist against rods only; the shell's own hinges act between triangles. They have no mass and
     no stretching of their own.
[D8] Mid-edge normals: see `geosim.rods.midedge`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import ROUNDING_REL, ArrayLike, Floats, choice, floats, number, whole
from geosim.errors import InputError
from geosim.model.actuation import Actuation, CableLengths, CableTensions, Command, NaturalShape, cable_targets
from geosim.model.contract import Progress, Report, Robot, SavedState, State, Status, taken
from geosim.model.environment import Environment
from geosim.rods.drive import Drive, check_natural, make_drive
from geosim.rods.energy import EXPLODED_ENERGY_REL, MAX_STEP_ENERGY_GAIN_REL, booked, continued, measured
from geosim.rods.increment import solve_balance
from geosim.rods.newton import Solution
from geosim.rods.obstacles import refuse_overlap
from geosim.rods.overlap import OVERLAPS, free_of_overlap, terms_at_rest
from geosim.rods.pace import AUTO, ERROR_ESTIMATES, INCREMENT_GROWTH, LARGEST_DT, Pace, chosen_pace, may_touch
from geosim.rods.robot import RodShellRobot
from geosim.rods.rules import INTEGRATION_RULES, advance
from geosim.rods.snap import MIN_SNAP_SHARE, released, settled
from geosim.rods.state import NO_PAST_VALUES, RodState, at_rest, carry, evaluate, restored
from geosim.rods.system import RodSystem, checked_rotations, load_force, make_system, refuse_tight_moments
from geosim.rods.terms import Term
from geosim.rods.untouched import IncrementNewton

FRAME_ROUNDING_REL = 1e-9  # of the frame interval: below it two frames are one
_NEWTON = IncrementNewton()
_POSITIVE = ("dt", "tolerance", "increment_tolerance", "smallest_dt", "slip_velocity", "max_seconds")
_LIMITS: dict[str, dict[str, float]] = {key: {"above": 0.0} for key in _POSITIVE} | {
    "damping": {"low": 0.0},
    "spectral_radius": {"low": 0.0, "high": 1.0},
    "restitution": {"low": 0.0, "high": 1.0},
}


@guarded
@dataclass(frozen=True)
class RodShellStepper:
    """Time stepper for rods and their joints.

    Parameters
    ----------
    dt
        Time step [s]; the step actually taken divides the time between two commands evenly. "auto" follows the local error, see
        `geosim.rods.pace`. None: 10 ms, and "auto" where `integrator` is None and contact is possible.
    integrator
        "implicit-euler" (first order, damps), "generalized-alpha" (second order, damps only what it cannot follow), see
        `geosim.rods.rules`, "implicit-midpoint" (second order, keeps energy; explodes where stiff rods turn far) or "verlet"
        (explicit). None: "implicit-euler"; "generalized-alpha" with "auto" steps, and with impacts that keep their energy where
        `restitution` is None too.
    spectral_radius
        Of the generalised-alpha rule at high frequency, 0 (damps most) to 1 (damps nothing). Above 0.5 coarse steps of stiff
        rods that turn far gain energy, until the rule notices and damps. None: 0.5; 1 with "auto" steps.
    static
        Whether every command asks for an equilibrium (no inertia).
    damping
        Mass-proportional damping [1/s].
    frame_interval
        Time between frames of the result [s]; None = every dt.
    on_frame
        Called as on_frame(state) after every frame.
    tolerance
        Free residual over the largest internal force or moment.
    increment_tolerance
        Last increment over edge lengths, and in radians.
    line_search, adaptive
        Whether steps along the Newton direction are shortened; whether dt is halved on failure and grows back.
    smallest_dt
        Fraction of dt below which a step gives up.
    max_iterations
        Most Newton iterations of an increment.
    forces
        User functions (time, positions, velocities) -> force [, jacobian]; see `geosim.rods.terms.UserForce`.
    moments
        User functions (time, positions, tangents, directors m1) -> moments on the edges of rods [N m] (E, 3), see
        `geosim.rods.moments.Moments`: magnetic fields, followers.
    edge_rotations
        Pairs (edges, angles): theta [rad] of edges prescribed, angles (e,) or one row a command (k, e).
    contact_stiffness
        [N/m]; None scales it to the material so that rods overlap by less than a hundredth of their radius.
    contact_distance
        delta [m], the range of the contact's smoothing; None is a tenth of the radius.
    slip_velocity
        nu [m/s], below which friction sticks, Eq. (12) of [Choi2024].
    restitution
        Share of the velocity with which what hits leaves again, 0 .. 1, see `geosim.rods.contact`: whatever dt and stiffness,
        with "implicit-euler" and "generalized-alpha", which follow impacts in increments that are short enough. With 1
        "generalized-alpha" keeps the energy of impacts in increments of any length. None: an impact takes what the rule of time
        stepping takes, the more the coarser the step; the rule that is chosen where none is given keeps it.
    rod_drag
        Drag coefficients of a viscous fluid at rest along and across rods [N s/m^2], see `geosim.rods.slender`, where
        `gray_hancock` computes them; None: none but that of the environment's fluid.
    rolling
        Whether friction with obstacles acts at the surfaces of rods, which then roll about themselves; otherwise at their centre
        lines as in [Choi2024]: they slide.
    max_seconds
        CPU time [s] after which a motion, or in statics a command, ends with STOPPED; None: no limit.
    overlap
        What becomes of rods that overlap each other, or of parts that overlap an obstacle, by more than a hundredth of their
        radius where a motion starts from the rest shape: "refuse"; "resolve": they are moved apart before time begins;
        "keep": contact throws them apart, by the energy that frame 0 holds.
    """

    dt: float | str | None = None
    integrator: str | None = None
    static: bool = False
    damping: float = 0.0
    frame_interval: float | None = None
    on_frame: Callable[[RodState], object] | None = None
    tolerance: float = _NEWTON.tolerance
    increment_tolerance: float = _NEWTON.increment
    line_search: bool = _NEWTON.line_search
    adaptive: bool = True
    smallest_dt: float = 1.0 / 1024.0
    max_iterations: int = _NEWTON.iterations
    forces: Any = ()
    edge_rotations: Sequence[tuple[ArrayLike, ArrayLike]] = ()
    contact_stiffness: float | None = None
    contact_distance: float | None = None
    slip_velocity: float = 1e-3
    spectral_radius: float | None = None
    restitution: float | None = None
    rod_drag: tuple[float, float] | None = None
    rolling: bool = False
    overlap: str = "refuse"
    moments: Any = ()
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.integrator is not None:
            choice(self.integrator, "integrator", INTEGRATION_RULES)
        if isinstance(self.dt, str):
            choice(self.dt, "RodShellStepper: dt", (AUTO,))
            if self.integrator is not None and self.integrator not in ERROR_ESTIMATES:
                known = " or ".join(map(repr, ERROR_ESTIMATES))
                raise InputError(
                    f"RodShellStepper: dt = 'auto': {self.integrator!r} has no error estimate; use {known}"
                )
        choice(self.overlap, "RodShellStepper: overlap", OVERLAPS)
        for key, limits in _LIMITS.items():
            given = getattr(self, key)
            if given is not None and given != AUTO:
                number(given, f"RodShellStepper: {key}", **limits)
        if self.rod_drag is not None:
            along, across = floats(self.rod_drag, "RodShellStepper: rod_drag [N s/m^2] along and across", (2,)).tolist()
            number(along, "RodShellStepper: rod_drag along", low=0.0)
            number(across, "RodShellStepper: rod_drag across", low=along)
            object.__setattr__(self, "rod_drag", (along, across))
        whole(self.max_iterations, "RodShellStepper: max_iterations", least=1)
        for key in ("forces", "moments"):
            if callable(getattr(self, key)):
                object.__setattr__(self, key, (getattr(self, key),))

    # -- the contract of solve ---------------------------------------------------------------------------------

    def start(self, robot: Robot, environment: Environment | None = None, initial: State | None = None) -> RodState:
        """Return the state at rest (or `initial`), with everything that can be computed once; time counts from 0.

        Raises
        ------
        InputError
            The robot is none of rods and shells, it starts inside an obstacle or overlaps (see `overlap`), or `initial` is not
            a state of it.
        """
        robot = taken(robot, RodShellRobot, type(self).__name__)
        environment = environment or Environment()
        pace = self._pace(robot, environment)
        checked_rotations(robot, self.edge_rotations)
        contact = self.contact_stiffness, self.contact_distance, self.slip_velocity, pace.restitution
        system = make_system(robot, environment, *contact)
        if initial is not None:
            return self._continued(system, initial)
        refuse_overlap(system, robot.vertices)
        if self.integrator == "verlet" and robot.retardation_time > 0.0:
            raise InputError("integrator = 'verlet': rods with a retardation_time creep; use 'implicit-euler'")
        if self.integrator == "verlet" and robot.turning > len(robot.edges):
            raise InputError(
                "integrator = 'verlet': mid-edge normals have no mass; use 'implicit-euler' or shell_bending='hinge'"
            )
        state = at_rest(system, moving=not self.static)
        state, terms = terms_at_rest(state if self.static else free_of_overlap(state, self.overlap))
        return measured(state, terms=terms)

    def _continued(self, system: RodSystem, initial: State) -> RodState:
        """Return a state of the robot as the start of another motion, with all that the rule remembers if the loads stay."""
        if isinstance(initial, SavedState):
            try:
                initial = restored(at_rest(system, moving=True), initial.kept)
            except InputError as error:
                raise InputError(f"initial: not a state of this robot: {error}") from None
        if not isinstance(initial, RodState) or initial.q.shape != (system.dofs,):
            raise InputError("initial: not a state of this robot; pass a RodState or a Result of the same robot")
        refuse_overlap(system, initial.positions)
        state = replace(initial, system=system, time=0.0, is_frame=not self.static, spent=0.0)
        loads = system.weight + load_force(system, 0)
        if not self.static and np.array_equal(state.external, loads):
            return continued(state)
        # what belongs to the motion before is forgotten
        state, terms = terms_at_rest(replace(state, memory=None, past=NO_PAST_VALUES, ledger=None, elastic=None))
        return measured(state, terms=terms)

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands: those of the actuation, and in dynamics one a frame between them.

        Raises
        ------
        InputError
            The actuation is not for rods and shells, or has as many values as none of the robot's parts.
        """
        commands = actuation.commands((NaturalShape, CableTensions, CableLengths), type(self).__name__)
        rods = taken(robot, RodShellRobot, type(self).__name__)
        checked_rotations(rods, self.edge_rotations, commands[-1].index + 1)
        cable_targets(commands[0], len(robot.cables))
        shape = commands[0].find(NaturalShape)
        if shape is not None:
            check_natural(rods, shape)
        if self.static:
            return commands
        return actuation.frames(self.frame_interval or (self.dt if isinstance(self.dt, float) else LARGEST_DT))

    def step(
        self, state: RodState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[RodState, Report]:
        """Advance to the time of a command (dynamics), or to its equilibrium (statics)."""
        newton = IncrementNewton(
            self.tolerance, self.increment_tolerance, self.max_iterations, self.line_search, self.static
        )
        pace = self._pace(state.robot, state.system.environment)
        drive = make_drive(
            state,
            command,
            self.edge_rotations,
            newton=newton,
            damping=self.damping,
            functions=self.forces,
            moments=self.moments,
            static=self.static,
            spectral_radius=pace.spectral_radius,
            rod_drag=self.rod_drag,
            rolling=self.rolling,
            shortest=2.0 * pace.largest * self.smallest_dt if self.adaptive else np.inf,
        )
        if self.static:
            refuse_tight_moments(state.system, command.index)
        begin = time.process_time() - (0.0 if self.static else state.spent)
        tally = _Tally(progress, until=begin + (self.max_seconds or np.inf))
        new = self._to_equilibrium(drive, tally) if self.static else self._to_time(drive, pace, tally)
        if self.max_seconds is not None:
            new = new.changed(spent=time.process_time() - begin)
        report = Report(tally.status, tally.message, tuple(tally.records))
        if report.reached and self.on_frame is not None:
            self.on_frame(new)
        return new, report

    def _to_equilibrium(self, drive: Drive, tally: _Tally) -> RodState:
        """Find the equilibrium of a command; when the full change fails, ramp loads, shapes and supports."""
        state, start, command = drive.start, drive.start, drive.command
        natural = drive.natural(command.time)
        reached, stride, bears = 0.0, 1.0, None
        note = str(start.measures.get("note", ""))
        while reached < 1.0:
            share = min(1.0, reached + stride)
            blend = start.natural + share * (natural - start.natural)
            load = start.external + share * (drive.load - start.external)
            q = state.q.copy()
            q[drive.dofs] = drive.aim(share)
            to = replace(drive, share=share)
            before = state
            state, solution, terms = solve_balance(to, state, q, blend, load, 0.0, command.time)
            tally.add(solution, share)
            if tally.late():
                tally.stop(f"at {reached:.3g} of command {command.index + 1}", self.max_seconds)
                return before
            lost = self._snapped(before, state, solution, bears, blend, load)
            shorter = self.adaptive and stride > MIN_SNAP_SHARE
            if solution.converged and (lost == 0.0 or not shorter):
                if lost > 0.0:
                    solution = settled(to, before, blend, load, command.time, LARGEST_DT) or solution
                    note = (
                        f"Command {command.index + 1}: snapped at {share:.3g} of the way, {lost:.3g} J were released."
                    )
                reached, stride = share, min(INCREMENT_GROWTH * stride, 1.0)
                state, bears = carry(state, solution.q, natural=blend), solution.residual_vector
                state = state.changed(external=load, u=np.zeros_like(q))
                continue
            if solution.converged:
                state, stride = before, max(0.5 * stride, MIN_SNAP_SHARE)
                continue
            stride *= 0.5
            if not self.adaptive or stride < self.smallest_dt:
                tally.fail(f"at {reached:.3g} of command {command.index + 1}", solution, self.tolerance)
                return state
        if solution.unstable:
            tally.status = Status.UNSTABLE
        state = measured(state.changed(time=command.time, is_frame=True), solution, terms, static=True)
        return state.changed(measures={**state.measures, "note": note})

    def _snapped(
        self, before: RodState, state: RodState, solution: Solution, bears: Floats | None, natural: Floats, load: Floats
    ) -> float:
        """Return the energy [J] that a snap released on the way to a stable equilibrium; 0 where it is not to be judged."""
        pushed = solution.converged and solution.trial.pushes.any()
        if not solution.converged or solution.unstable or pushed or before.measures.get("contacts", 0):
            return 0.0
        if bears is None:
            bears = evaluate(before.system, before, before.q).gradient - before.external  # [N, N m]
        after = carry(state, solution.q, natural=natural).changed(external=load)
        return released(before, after, bears, solution.residual_vector)

    def _pace(self, robot: RodShellRobot, environment: Environment) -> Pace:
        """Return the rule and the steps of a motion, chosen where they are not given."""
        given = self.dt, self.integrator, self.restitution, self.spectral_radius
        asks = not self.static and self.dt in (None, AUTO) and self.integrator is None
        return chosen_pace(*given, contact=asks and may_touch(robot, environment))

    def _to_time(self, drive: Drive, pace: Pace, tally: _Tally) -> RodState:
        """Advance to the command's time in equal increments; halve them when one fails, let them grow back."""
        state, begin, end = drive.start, drive.start.time, drive.command.time
        increment, good, shortest = state.increment or pace.largest, 0, pace.largest * self.smallest_dt
        solution: Solution | None = None
        terms: list[Term] = []
        while state.time < end - ROUNDING_REL * max(end, pace.largest):
            left = end - state.time
            h = left / max(1, int(np.ceil(left / increment - FRAME_ROUNDING_REL)))
            new, solution, terms = advance(pace.integrator, drive, state, h)
            tally.add(solution, (state.time + h - begin) / (end - begin))
            if tally.late():
                tally.stop(f"at t = {state.time:.6g} s", self.max_seconds)
                return state
            if new is None:
                increment, good = 0.5 * h, 0
                if not self.adaptive or increment < shortest:
                    tally.fail(f"at t = {state.time:.6g} s with dt = {h:.3g} s", solution, self.tolerance)
                    return state
                continue
            reached = booked(drive, state, new, solution, terms, h)
            due, taken = pace.after(state, reached, h, increment, good + 1, shortest)
            increment, good = due, good + 1 if due == increment else 0
            if not taken:
                continue
            state = reached
            if state.made > EXPLODED_ENERGY_REL:
                where = f"Stopped at t = {state.time:.6g} s, {state.made:.2g} of all energy given so far."
                tally.end(Status.EXPLODED, where)
                return state
        kept = increment if increment < pace.largest else 0.0
        state = measured(state.changed(time=end, increment=kept, is_frame=True, external=drive.load), solution, terms)
        if state.made > MAX_STEP_ENERGY_GAIN_REL:
            lost = f"{state.measures['drift']:.3g} J, {state.made:.2g} of all energy given so far."
            tally.end(Status.ENERGY_GROWTH, f"At t = {state.time:.6g} s {lost}")
        return state.changed(measures={**state.measures, "note": pace.note})


@dataclass
class _Tally:
    """What happened on the way to a command."""

    progress: Callable[[Progress], None] | None = None
    until: float = np.inf
    status: Status = Status.CONVERGED
    message: str = ""
    iterations: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, solution: Solution, share: float) -> None:
        """Count an increment that ends at a share of the command."""
        self.iterations += solution.iterations
        self.records += solution.records
        if self.progress is not None:
            self.progress(Progress(share, self.iterations, solution.residual))

    def late(self) -> bool:
        """Whether the CPU time of the command is spent."""
        return self.until < np.inf and time.process_time() > self.until

    def end(self, status: Status, text: str) -> None:
        """Set the status, and its sentence with the numbers."""
        self.status, self.message = status, f"{status.value} {text}"

    def stop(self, where: str, seconds: float | None) -> None:
        """Mark the command as ended by its budget."""
        self.end(Status.STOPPED, f"max_seconds = {seconds:g} s ended {where}.")

    def fail(self, where: str, solution: Solution, tolerance: float) -> None:
        """Mark the command as not reached."""
        why = f" (residual {solution.residual:.2g}, tolerance {tolerance:.0g})"
        if solution.refused:
            why = f": {solution.refused}"
        self.end(Status.NOT_CONVERGED, f"Stopped {where}{why}.")
