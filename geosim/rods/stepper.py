"""Dynamics and statics of discrete elastic rods and their joints, Algorithm 1 of [Lahoti].

The problem of one increment from (q0, u0) over h, Eq. (4) of [Lahoti]::

    f(q) = M (q - q0 - h u0) / h^2 + dE/dq - F_ext - F_contact = 0,      u = (q - q0) / h

An increment: carry the frames to the trial q (time-parallel), collect forces, test the free residual and the last
increment, collect the Hessians, solve, search along the line, repeat.

Departures from the papers:

[D1] The curvature Hessian is exact (the symmetric part of the force's Jacobian), for any section and joint.
[D2] Implicit midpoint is Euler over h/2 followed by q <- 2 q - q0, u <- 2 u - u0 for every unknown, theta alike; the
     frames of the new step are carried from those of the old step, not from those of the midpoint.
[D3] The line search tests the work of the residual along the step, which needs no energy and so holds with
     friction; a step never turns or stretches an edge by more than its own length.
[D4] The residual is measured against the largest internal force (forces) and moment (theta), and the last increment
     against edge lengths and radians. A step that does not meet both is halved in time, and reported when that fails.
[D5] In statics the Hessian is shifted until it is positive definite, so that the solution found is stable.
[D6] Contact: see `geosim.rods.contact` for rods and obstacles, `geosim.rods.sheets` for shells.
[D7] Where a rod meets a shell, the triangles' edges around the shared vertex carry frames and theta as in section 3.4 of
     [Lahoti], but bend and twist against rods only: among themselves the shell's own hinges do. They have no mass and
     no stretching of their own.
[D8] Mid-edge normals: see `geosim.rods.midedge`.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.actuation import Actuation, Command, NaturalShape
from geosim.arrays import Floats
from geosim.contract import Progress, Report, Robot, State, Status, taken
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.rods.balance import Balance, UserForce
from geosim.rods.contact import Neighbours, PairContact, contact_law, neighbours
from geosim.rods.drag import Drag
from geosim.rods.midedge import rest_normals
from geosim.rods.newton import Newton, Solution, solve_increment
from geosim.rods.obstacles import ObstacleContact, compile_obstacles
from geosim.rods.robot import RodShellRobot
from geosim.rods.sheets import SheetContact, sheet_neighbourhood
from geosim.rods.state import RodState, Trial, evaluate
from geosim.rods.system import System, load_force, make_system, natural_hinges, prescribed_values, with_free

__all__ = ["RodShellStepper"]

INTEGRATORS = ("implicit-euler", "implicit-midpoint", "verlet")


@dataclass(frozen=True)
class RodShellStepper:
    """Time stepper for rods and their joints.

    Parameters
    ----------
    dt
        Time step [s]; the step actually taken divides the time between two commands evenly.
    integrator
        "implicit-euler" (first order, damps), "implicit-midpoint" (second order, keeps energy) or "verlet" (explicit).
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
    iterations
        Most Newton iterations of an increment.
    forces
        User functions (time, positions, velocities) -> force [, jacobian]; see `geosim.rods.balance.UserForce`.
    edge_rotations
        Pairs (edges, angles): theta [rad] of edges prescribed, angles (e,) or one row a command (k, e).
    contact_stiffness
        [N/m]; None scales it to the material so that rods overlap by less than a hundredth of their radius.
    contact_distance
        delta [m], the range of the contact's smoothing; None is a tenth of the radius.
    slip_velocity
        nu [m/s], below which friction sticks, Eq. (12) of [Choi2024].
    """

    dt: float = 1e-2
    integrator: str = "implicit-euler"
    static: bool = False
    damping: float = 0.0
    frame_interval: float | None = None
    on_frame: Callable[[RodState], Any] | None = None
    tolerance: float = 1e-6
    increment_tolerance: float = 1e-3
    line_search: bool = True
    adaptive: bool = True
    smallest_dt: float = 1.0 / 1024.0
    iterations: int = 50
    forces: Any = ()
    edge_rotations: Any = ()
    contact_stiffness: float | None = None
    contact_distance: float | None = None
    slip_velocity: float = 1e-3

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise InputError(f"integrator = {self.integrator!r}: use one of {', '.join(INTEGRATORS)}")
        for key in ("dt", "tolerance", "increment_tolerance", "smallest_dt", "slip_velocity"):
            value = getattr(self, key)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise InputError(f"RodShellStepper: {key} = {value!r} must be a positive number")
        if not (np.isfinite(self.damping) and self.damping >= 0):
            raise InputError(f"RodShellStepper: damping = {self.damping!r} 1/s must be a number >= 0")
        if callable(self.forces):
            object.__setattr__(self, "forces", (self.forces,))

    # -- the contract of solve ---------------------------------------------------------------------------------

    def start(self, robot: Robot, environment: Environment | None = None, initial: State | None = None) -> RodState:
        """Return the state at rest (or `initial`), with everything that can be computed once; time counts from 0."""
        robot = taken(robot, RodShellRobot, type(self).__name__)
        system = make_system(robot, environment or Environment())
        system = replace(
            system,
            shapes=compile_obstacles(system.environment.obstacles),
            sheet=sheet_neighbourhood(robot, system.vertex_radius) if system.environment.self_contact else None,
        )
        bends = robot.bends
        if initial is not None:
            if not isinstance(initial, RodState) or initial.q.shape != (system.dofs,):
                raise InputError("initial: not a state of this robot; pass a RodState or a Result of the same robot")
            return replace(initial, system=system, time=0.0, memory=None, is_frame=not self.static)
        normal_count = robot.turning - len(robot.edges)
        if normal_count and self.integrator == "verlet":
            raise InputError(
                "integrator = 'verlet': mid-edge normals have no mass; use 'implicit-euler' or shell_bending='hinge'"
            )
        rest = np.zeros(normal_count)
        q = np.concatenate([robot.vertices.ravel(), robot.twist_angles, rest])
        u = np.concatenate([robot.velocities.ravel(), robot.edge_angular_velocities, rest])
        tangents, normals = (
            rest_normals(robot.vertices, robot.triangles, robot.mesh) if normal_count else np.zeros((2, 0, 3))
        )
        u[~system.free] = 0.0
        state = RodState(
            system,
            0.0,
            q,
            np.zeros_like(u) if self.static else u,
            np.array(robot.tangents),
            np.array(robot.directors),
            np.zeros(len(bends)),
            system.natural,
            np.zeros_like(q),
            tangents,
            normals,
            is_frame=not self.static,
        )
        trial = evaluate(system, replace(state, q=q), q)
        state = replace(state, twist=trial.twist)
        return replace(state, measures=self._measure(state, None))

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands: those of the actuation, and in dynamics one a frame between them.

        Raises
        ------
        InputError
            The actuation is not for rods and shells, or has as many values as none of the robot's parts.
        """
        commands = actuation.commands((NaturalShape,), type(self).__name__)
        shape = commands[0].find(NaturalShape)
        if shape is not None:
            _check_natural(taken(robot, RodShellRobot, type(self).__name__), shape)
        if self.static:
            return commands
        times = np.asarray(actuation.times, dtype=float)
        interval = self.frame_interval or self.dt
        count = int(np.floor(times[-1] / interval * (1 + 1e-12)))
        frames = np.union1d(np.round(np.arange(1, count + 1) * interval, 12), np.round(times, 12))
        near = np.concatenate([[False], np.diff(frames) < 1e-9 * interval])
        frames = frames[(frames > 0) & ~near]
        return [
            Command(min(int(np.searchsorted(times, t * (1 - 1e-12))), len(times) - 1), float(t), actuation.parts)
            for t in frames
        ]

    def step(
        self, state: RodState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[RodState, Report]:
        """Advance to the time of a command (dynamics), or to its equilibrium (statics)."""
        begin, tally = clock.perf_counter(), _Tally(progress)
        target, tally = (self._statics if self.static else self._dynamics)(state, command, tally)
        tally.seconds = clock.perf_counter() - begin
        if not tally.converged:
            return target, Report(tally.status, tally.message, tuple(tally.records))
        if self.on_frame is not None:
            self.on_frame(target)
        return target, Report(tally.status, "", tuple(tally.records))

    # -- statics -----------------------------------------------------------------------------------------------

    def _statics(self, state: RodState, command: Command, tally: _Tally) -> tuple[RodState, _Tally]:
        """Find the equilibrium of a command; when the full change fails, ramp loads, shapes and supports."""
        state = self._freed(state, command)
        system = state.system
        external = system.weight + load_force(system, command.index)
        natural = self._natural(system, command, command.time)
        dofs, values = self._prescribed(system, command)
        start = state
        reached, stride = 0.0, 1.0
        while reached < 1.0:
            share = min(1.0, reached + stride)
            blend = start.natural + share * (natural - start.natural)
            force = start.external + share * (external - start.external)
            q = state.q.copy()
            q[dofs] = start.q[dofs] + share * (values - start.q[dofs])
            state, solution, terms = self._solve(state, q, blend, force, 0.0, command, command.time)
            tally.add(solution, share)
            if solution.converged:
                reached, stride = share, min(2.0 * stride, 1.0)
                state = replace(
                    _carried(state, solution.q, solution.trial), natural=blend, external=force, u=np.zeros_like(q)
                )
            elif not self.adaptive or stride * 0.5 < self.smallest_dt:
                return tally.fail(
                    state,
                    f"at {reached:.3g} of command {command.index + 1} (residual "
                    f"{solution.residual:.2g}, tolerance {self.tolerance:.0g})",
                )
            else:
                stride *= 0.5
        state = replace(state, time=command.time, is_frame=True)
        measures = self._measure(state, solution, terms)
        if solution.negative:
            tally.status = Status.UNSTABLE
        return replace(state, measures=measures), tally

    # -- dynamics ----------------------------------------------------------------------------------------------

    def _dynamics(self, state: RodState, command: Command, tally: _Tally) -> tuple[RodState, _Tally]:
        """Advance to the command's time in equal increments; halve them when one fails, let them grow back."""
        state = self._freed(state, command)
        system = state.system
        force = system.weight + load_force(system, command.index)
        dofs, values = self._prescribed(system, command)
        times = command.parts[0].times if command.parts else (command.time,)
        row_end = max(float(times[min(command.index, len(times) - 1)]), command.time)  # of the prescribed motion
        first = state
        increment = state.increment or self.dt
        good = 0
        solution: Solution | None = None
        terms: list[Any] = []
        while state.time < command.time - 1e-12 * max(command.time, self.dt):
            left = command.time - state.time
            h = left / max(1, int(np.ceil(left / increment - 1e-9)))
            share = (state.time + h - first.time) / max(row_end - first.time, 1e-300)
            aim = first.q[dofs] + share * (values - first.q[dofs])
            new, solution, terms = self._increment(state, h, force, dofs, aim, command)
            tally.add(solution, (state.time + h - first.time) / (command.time - first.time))
            if new is not None:
                state, good = new, good + 1
                if increment < self.dt and good >= 4:
                    increment, good = min(2.0 * increment, self.dt), 0
                continue
            tally.failures += 1
            increment, good = 0.5 * h, 0
            if not self.adaptive or increment < self.dt * self.smallest_dt:
                return tally.fail(
                    state,
                    f"at t = {state.time:.6g} s with dt = {h:.3g} s (residual "
                    f"{solution.residual:.2g}, tolerance {self.tolerance:.0g})",
                )
        state = replace(
            state, time=command.time, increment=increment if increment < self.dt else 0.0, is_frame=True, external=force
        )
        return replace(state, measures=self._measure(state, solution, terms)), tally

    def _increment(
        self, state: RodState, h: float, force: Floats, dofs: Any, aim: Floats, command: Command
    ) -> tuple[RodState | None, Solution, list[Any]]:
        """Advance by one increment h; the state is None if the balance was not met."""
        if self.integrator == "verlet":
            return self._verlet(state, h, force, dofs, aim, command)
        midpoint = self.integrator == "implicit-midpoint"
        step = 0.5 * h if midpoint else h
        natural = self._natural(state.system, command, state.time + step)
        q = state.q.copy()
        q[dofs] = 0.5 * (q[dofs] + aim) if midpoint else aim
        state, solution, terms = self._solve(state, q, natural, force, step, command, state.time + step)
        if not solution.converged:
            return None, solution, terms
        if midpoint and _blocked(terms, solution.q, 2.0 * solution.q - state.q):
            return None, solution, terms
        if not midpoint:
            new = _carried(state, solution.q, solution.trial)
            return replace(new, time=state.time + h, u=(solution.q - state.q) / h, natural=natural), solution, terms
        q1 = 2.0 * solution.q - state.q
        u = (2.0 / step) * (solution.q - state.q) - state.u
        if len(dofs):
            u[dofs] = (q1[dofs] - state.q[dofs]) / h
        # the frames of the new step come from those of the old step, not from those of the midpoint
        new = carry(state, q1)
        return replace(new, time=state.time + h, u=u, natural=natural), solution, terms

    def _verlet(
        self, state: RodState, h: float, force: Floats, dofs: Any, aim: Floats, command: Command
    ) -> tuple[RodState | None, Solution, list[Any]]:
        """Advance by position Verlet: half a drift, a kick, half a drift."""
        system = state.system
        half = state.q + 0.5 * h * state.u
        half[dofs] = 0.5 * (state.q[dofs] + aim)
        natural = self._natural(system, command, state.time + 0.5 * h)
        state = self._paired(state, half)
        terms = self._terms(state, 0.5 * h, command, state.time + 0.5 * h)
        balance = Balance(system, state, natural, force, 0.0, terms=terms)
        trial, f = balance.residual(half)
        drag = 0.5 * h * (self.damping + system.viscous / system.mass)
        u = np.where(system.free, (state.u * (1.0 - drag) - h * f / system.mass) / (1.0 + drag), 0.0)
        q = half + 0.5 * h * u
        q[dofs] = aim
        u[dofs] = (aim - state.q[dofs]) / h
        new = carry(state, q)
        stretch = float(np.abs(new.lengths / system.rest - 1.0).max(initial=0.0))
        fine = bool(np.isfinite(q).all()) and stretch < 1.0 and not _blocked(terms, state.q, q)
        solution = Solution(half, trial, f, fine, 0.0 if fine else np.inf, 1)
        return (replace(new, time=state.time + h, u=u, natural=natural) if fine else None), solution, terms

    # -- one balance -------------------------------------------------------------------------------------------

    def _solve(
        self, state: RodState, q: Floats, natural: Floats, force: Floats, step: float, command: Command, time: float
    ) -> tuple[RodState, Solution, list[Any]]:
        """Solve the balance of one increment from the guess q, with the pairs that may touch on the way."""
        iterations, records, small = 0, [], False
        for _ in range(100):
            state = self._paired(state, q)
            terms = self._terms(state, step, command, time)
            balance = Balance(state.system, state, natural, force, step, self.damping, terms)
            reach = min([term.reach for term in terms if hasattr(term, "reach")], default=np.inf)
            options = Newton(
                self.tolerance,
                self.increment_tolerance,
                self.iterations,
                self.line_search,
                definite=step == 0.0,
                reach=reach,
            )
            if not iterations and _blocked(terms, state.q, q):
                trial, f = balance.residual(state.q)  # prescribed motion would cross the shell: a shorter step may not
                return state, Solution(state.q, trial, f, False, np.inf, 0), terms
            solution = solve_increment(balance, q, options, small)
            iterations += solution.iterations
            records += solution.records
            if not solution.escaped:
                break
            q, small = solution.q, solution.small
        solution.iterations, solution.records = iterations, records
        return state, solution, terms

    def _paired(self, state: RodState, q: Floats) -> RodState:
        """Return the state with a list of contact pairs that is complete around q."""
        robot, environment = state.system.robot, state.system.environment
        if not environment.self_contact or len(robot.edges) < 2:
            return state
        listed: Neighbours | None = state.memory
        if listed is not None and listed.holds(q):
            return state
        law = (
            listed.law
            if listed
            else contact_law(state.system, self.contact_stiffness, self.contact_distance, self.slip_velocity)
        )
        return replace(state, memory=neighbours(state.system, law, listed, q))

    def _terms(self, state: RodState, step: float, command: Command, time: float) -> list[Any]:
        """Bind contact, obstacles and user forces to an increment that ends at `time` [s]."""
        system, environment = state.system, state.system.environment
        terms: list[Any] = [UserForce(function, system, state, time, step) for function in self.forces]
        fluid = environment.fluid
        if fluid is not None and fluid.drag_coefficient > 0 and len(system.robot.triangles) and step > 0:
            terms.append(Drag(system, state, step))
        if isinstance(state.memory, Neighbours):
            terms.append(PairContact(system, state, step, environment.self_friction, state.memory))
        if system.sheet is not None:
            law = contact_law(system, self.contact_stiffness, self.contact_distance, self.slip_velocity)
            terms.append(SheetContact(system, state, step, environment.self_friction, law, system.sheet))
        if environment.obstacles:
            poses = [environment.poses(command.index, share) for share in self._shares(command, (time - step, time))]
            law = contact_law(system, self.contact_stiffness, self.contact_distance, self.slip_velocity)
            terms.append(ObstacleContact(system, state, step, law, system.shapes, poses[0], poses[1]))
        return terms

    def _shares(self, command: Command, times: tuple[float, float]) -> list[float]:
        """Return where times lie between the actuation's times before and at the command's row, 0 to 1."""
        if self.static:
            return [1.0, 1.0]
        table = command.parts[0].times if command.parts else (command.time,)
        row = min(command.index, len(table) - 1)
        begin, end = (float(table[row - 1]) if row else 0.0), float(table[row])
        return [min(max((t - begin) / max(end - begin, 1e-300), 0.0), 1.0) for t in times]

    def _natural(self, system: System, command: Command, time: float) -> Floats:
        """Return the natural strains at a time [s]: curvature [1/m] times Voronoi length, section 7.1 of [Lahoti]."""
        shape = command.find(NaturalShape)
        if shape is None:
            return system.natural
        bends = system.robot.bends
        natural = system.natural.copy()
        curvature, twist = shape.at("curvature", time), shape.at("twist", time)
        hinge = shape.at("hinge_angle", time)
        if hinge is not None:
            natural_hinges(system, natural, hinge)
        if curvature is not None:
            if curvature.ndim == 2:
                natural[: len(bends), :2] = curvature * bends.length[:, None]
            else:
                natural[: len(bends), 0] = curvature * bends.length
        if twist is not None:
            natural[: len(bends), 2] = twist * bends.length
        return natural

    def _prescribed(self, system: System, command: Command) -> tuple[Any, Floats]:
        """Return the moved degrees of freedom and their values at the end of the command's row."""
        return prescribed_values(system, command.index, self.edge_rotations)

    def _freed(self, state: RodState, command: Command) -> RodState:
        """Return the state with the pattern of this command's free degrees of freedom."""
        system = state.system
        if not system.environment.prescribed and not self.edge_rotations:
            return state
        dofs, _ = self._prescribed(system, command)
        free = system.held_free.copy()
        free[dofs] = False
        if np.array_equal(free, system.free):
            return state
        return replace(state, system=with_free(system, free), memory=None)

    def _measure(self, state: RodState, solution: Solution | None, terms: Sequence[Any] = ()) -> dict[str, Any]:
        """Return energies, residual, reactions and contact of a state."""
        system = state.system
        turns = system.turns
        trial = evaluate(system, state, state.q)
        gravity = -float(
            system.weight @ (state.q - np.concatenate([system.robot.vertices.ravel(), np.zeros(system.dofs - turns)]))
        )
        measures: dict[str, Any] = {
            "elastic": trial.energy,
            "kinetic": 0.5 * float(system.mass @ state.u**2),
            "weight": gravity,
            "residual": 0.0,
            "iterations": 0,
            "stable": np.nan,
        }
        if solution is not None:
            reactions = np.where(system.free, 0.0, solution.residual_vector)
            measures.update(
                residual=solution.residual,
                iterations=solution.iterations,
                reactions=reactions[:turns].reshape(-1, 3),
                stable=float(solution.negative == 0) if self.static else np.nan,
            )
            for term in terms:
                if hasattr(term, "measure"):
                    term.measure(solution.q, measures)
        return measures


def _check_natural(robot: RodShellRobot, shape: NaturalShape) -> None:
    """Refuse natural values that are neither one for all nor one a stencil or hinge."""
    bends, hinges = len(robot.bends), len(robot.mesh.hinges)
    for key, name, count in (
        ("curvature", "stencils", bends),
        ("twist", "stencils", bends),
        ("hinge_angle", "hinges", hinges),
    ):
        value = shape.at(key, float(shape.times[0]))
        known = [(), (1,), (count,)] + ([(count, 2)] if key == "curvature" else [])
        if value is not None and (value.shape not in known or count == 0):
            raise InputError(
                f"NaturalShape: {key} has {value.shape} values a time for {count} {name}; give one, or ({count},)"
            )


def _blocked(terms: Sequence[Any], q0: Floats, q1: Floats) -> bool:
    """Whether something is crossed, or nearly so, on the way from q0 to q1."""
    return any(term.safe_share(q0, q1 - q0) < 1.0 for term in terms if hasattr(term, "safe_share"))


def carry(state: RodState, q: Floats) -> RodState:
    """Return the state at q with its frames carried there."""
    return _carried(state, q, evaluate(state.system, state, q))


def _carried(state: RodState, q: Floats, trial: Trial) -> RodState:
    return replace(
        state,
        q=q,
        tangents=trial.t,
        directors=trial.d,
        twist=trial.twist,
        shell_tangents=trial.shell_t,
        normals=trial.normals,
    )


@dataclass
class _Tally:
    """What happened on the way to a command."""

    progress: Callable[[Progress], None] | None = None
    converged: bool = True
    status: Status = Status.CONVERGED
    message: str = ""
    failures: int = 0
    increments: int = 0
    iterations: int = 0
    seconds: float = 0.0
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, solution: Solution, share: float) -> None:
        """Count an increment that ends at a share of the command."""
        self.increments += 1
        self.iterations += solution.iterations
        self.records += solution.records
        if self.progress is not None:
            self.progress(Progress(share, self.iterations, solution.residual))

    def fail(self, state: RodState, where: str) -> tuple[RodState, _Tally]:
        """Mark the command as not reached."""
        self.converged, self.status = False, Status.NOT_CONVERGED
        self.message = f"{Status.NOT_CONVERGED.value} Stopped {where}."
        return state, self
