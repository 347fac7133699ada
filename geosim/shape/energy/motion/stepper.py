"""EnergyShapeStepper: volumetric robots in time, with mass and damping.

An increment of time is a minimisation of the load path's own potential with a quadratic one more (`rules`); the same Newton's
method finds it, with the same elements, chambers, cables, contact and friction (see `geosim.shape.energy.solver`):

    1. targets: pressures, volumes, cables, held places and obstacles go linearly from row to row of the actuation; dead loads
       and gravity act as the row says, from its beginning;
    2. predict: where the body goes without forces, as far as it crosses nothing;
    3. solve: Newton's method; where that fails and all forces have a potential, proximal Newton downhill;
    4. end: positions and velocities by the rule; an increment in contact that makes energy is halved, and a short one follows
       backward Euler;
    5. halve an increment that fails, down to a share of dt; double it again after some good ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Floats, choice, floats, number, real_array, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.linear.factorise import FACTORISERS, MULTILEVEL
from geosim.linear.factoriser import MAX_THREADS
from geosim.model.actuation import Actuation, Command
from geosim.model.contract import Progress, Report, Robot, State, Status, taken
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy import measures
from geosim.shape.energy.constraints.scalars import Law, known_commands
from geosim.shape.energy.constraints.supply import Lines
from geosim.shape.energy.contact.step_limits import max_safe_step
from geosim.shape.energy.discretisation.node_potential import NodePotential, Spring
from geosim.shape.energy.motion.rules import RULES, Increment, Motion, carried, led
from geosim.shape.energy.motion.state import Ledger, MovingState, Row, mass_form
from geosim.shape.energy.motion.viscosity import History, make_viscosity
from geosim.shape.energy.newton.budget import Budget, BudgetError
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.newton.merit import has_potential
from geosim.shape.energy.newton.minimise import Minimisation
from geosim.shape.energy.path.path import next_state
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, Evaluation, NewtonOutcome

AUTO = "auto"
LARGEST_DT = 1e-2  # s, of increments that follow the error
FIRST_DT_SHARE = 1.0 / 16.0  # of the largest, of the first increment that follows the error
SMALLEST_DT_SHARE = 1.0 / 1024.0  # of dt, of the shortest increment that is tried
GOOD_INCREMENTS = 4  # after which a halved one is doubled again
# Of the local error, the mean displacement by mass in one increment that follows it, over the size of the body.
MAX_ERROR_REL = 1e-5
# Of the energy in motion, what rules of second order may have made since the start when something touches: an increment that
# brings more is halved down to a share of dt, and then follows backward Euler, which makes none.
MAX_IMPACT_GAIN_REL, SHORT_IMPACT_SHARE = 1e-2, 1.0 / 16.0
POSITION_ROUNDING = 4e-16  # of scaled positions, which are 1 at most
TIME_ROUNDING_REL = 1e-12  # of a time: below it two times differ by round-off


@guarded
@dataclass(frozen=True)
class EnergyShapeStepper:
    """Time stepper for volumetric robots.

    Parameters
    ----------
    dt
        Time step [s]; the step actually taken divides the time between two frames evenly. "auto" follows the local error.
    integrator
        "implicit-euler" (first order, damps), "implicit-midpoint" (second order, damps nothing) or "generalized-alpha" (second
        order, damps only what the step cannot follow); see `geosim.shape.energy.motion.rules`.
    damping
        Mass-proportional damping [1/s], beside the viscosity of materials.
    frame_interval
        Time between frames of the result [s]; None: every dt, of "auto" 10 ms.
    spectral_radius
        Of the generalised-alpha rule at high frequency, 0 (damps most) to 1 (damps nothing).
    velocity, spin
        At the start: velocity [m/s], (3,) or one a vertex (n, 3), and angular velocity [rad/s] about the centre of mass.
    element, tolerance, max_iterations, factoriser, contact_thickness, threads
        As of `EnergyShapeSolver`.
    max_seconds
        CPU time [s] after which the motion ends with STOPPED; None: no limit.
    inertia
        False leaves mass out: every increment ends in equilibrium, and viscous materials creep and relax between them. It goes
        with "implicit-euler", a dt in seconds and no damping; gravity still acts by the density, which may be 0.
    """

    dt: float | str = AUTO
    integrator: str = "generalized-alpha"
    damping: float = 0.0
    frame_interval: float | None = None
    spectral_radius: float = 0.5
    velocity: Any = (0.0, 0.0, 0.0)
    spin: Any = (0.0, 0.0, 0.0)
    element: str = "p2"
    tolerance: float = EnergyShapeSolver.tolerance
    max_iterations: int = EnergyShapeSolver.max_iterations
    factoriser: str = "auto"
    contact_thickness: float = EnergyShapeSolver.contact_thickness
    threads: int | None = None
    max_seconds: float | None = None
    inertia: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.dt, str):
            choice(self.dt, f"{name}: dt", (AUTO,))
        for key in ("dt", "frame_interval", "max_seconds"):
            if not isinstance(value := getattr(self, key), str) and value is not None:
                number(value, f"{name}: {key} [s]", above=0.0)
        choice(self.integrator, f"{name}: integrator", tuple(RULES))
        if self.dt == AUTO and self.integrator == "implicit-midpoint":
            raise InputError(f"{name}: dt = 'auto': 'implicit-midpoint' has no error estimate; use 'generalized-alpha'")
        number(self.damping, f"{name}: damping [1/s]", low=0.0)
        number(self.spectral_radius, f"{name}: spectral_radius", low=0.0, high=1.0)
        object.__setattr__(self, "spin", floats(self.spin, f"{name}: spin [rad/s]", (3,)))
        velocity = real_array(self.velocity, f"{name}: velocity [m/s]")
        shape = (3,) if velocity.ndim == 1 else (None, 3)
        object.__setattr__(self, "velocity", floats(velocity, f"{name}: velocity [m/s]", shape))
        choice(self.factoriser, f"{name}: factoriser", ("auto", *FACTORISERS, MULTILEVEL))
        if self.threads is not None:
            whole(self.threads, f"{name}: threads", least=1, most=MAX_THREADS)
        if not self.inertia:
            self._check_without_inertia()
        assert self._shapes is not None  # refuses what it refuses

    def _check_without_inertia(self) -> None:
        """Refuse options that mean nothing without mass."""
        wrong = {
            "dt = 'auto'; give a time [s]": isinstance(self.dt, str),
            f"integrator = '{self.integrator}'; give 'implicit-euler'": self.integrator != "implicit-euler",
            f"damping = {self.damping} of mass; give 0": self.damping != 0.0,
            "a velocity or a spin at the start; leave them out": bool(np.any(self.velocity) or np.any(self.spin)),
        }
        for given, is_wrong in wrong.items():
            if is_wrong:
                raise InputError(f"{type(self).__name__}: inertia = False does not go with {given}")

    @cached_property
    def _shapes(self) -> EnergyShapeSolver:
        keys = ("element", "tolerance", "max_iterations", "factoriser", "contact_thickness", "threads")
        return EnergyShapeSolver(**{key: getattr(self, key) for key in keys})

    @property
    def _newton(self) -> EquilibriumSearch:
        return EquilibriumSearch(self.tolerance, self.max_iterations)

    @property
    def _largest(self) -> float:
        return LARGEST_DT if isinstance(self.dt, str) else self.dt

    @property
    def _first(self) -> float:
        return FIRST_DT_SHARE * LARGEST_DT if isinstance(self.dt, str) else self.dt

    # ---- the contract of `solve`

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return one command a frame, after checking that this solver knows them."""
        known_commands(robot, actuation, type(self).__name__)
        return actuation.frames(self.frame_interval or self._largest)

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> MovingState:
        """Return the state at rest (or at `initial`, with its velocities) after computing what is computed once.

        Raises
        ------
        InputError
            The robot or its environment cannot be solved, or a material has no density.
        """
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        self._check(robot, environment)
        before = replace(initial.shape, measured=initial.measured) if isinstance(initial, MovingState) else initial
        shape = self._shapes.begun(robot, environment, before, timed=True, moving=self.inertia)
        still = np.zeros_like(shape.point.x)
        viscosity = make_viscosity(shape.problem)
        history = None if viscosity is None else viscosity.relaxed(shape.point.x)
        mass = mass_form(shape.problem)
        if not self.inertia:
            mass = replace(mass, values=np.zeros_like(mass.values))
        state = MovingState(shape, mass, Motion(still, still, still), history=history)
        if isinstance(initial, MovingState) and initial.motion.velocity.shape == still.shape:
            state = replace(state, motion=initial.motion, history=_continued(history, initial.history))
        elif self.inertia:
            state = replace(state, motion=Motion(self._first_velocity(state), still, still))
        found = self._alone(state)
        energies = state.energies(found)
        given = sum(abs(value) for name, value in energies.items() if name != "weight")
        state = replace(state, ledger=Ledger(sum(energies.values()), given=given))
        return state.shown(replace(shape.frame, note=shape.note), found)

    def _check(self, robot: VolumetricRobot, environment: Environment) -> None:
        """Refuse a robot without mass, and obstacles that this stepper or its integrator does not follow."""
        for region, material in robot.materials.items():
            if self.inertia and material.density == 0.0:
                raise InputError(
                    f"{type(self).__name__}: the material of region {region} has density = 0: without mass nothing moves in "
                    "time; give its density [kg/m^3], or inertia=False"
                )
        for i, obstacle in enumerate(environment.obstacles):
            if obstacle.free:
                raise InputError(
                    f"obstacles[{i}]: free = True moves without inertia; {type(self).__name__} takes obstacles with a motion: "
                    "use EnergyShapeSolver, or make the object a body of the robot"
                )
        rough = environment.self_friction > 0.0 or any(obstacle.friction > 0.0 for obstacle in environment.obstacles)
        if rough and self.integrator == "implicit-midpoint":
            raise InputError(
                f"{type(self).__name__}: 'implicit-midpoint' lets rough bodies slide 13 % too far, because friction chatters in "
                "the middle of its steps; use 'generalized-alpha' or 'implicit-euler'"
            )

    def _first_velocity(self, state: MovingState) -> Floats:
        """Return the velocities of the nodes at the start, in units of length (nodes, 3)."""
        problem, robot = state.shape.problem, state.robot
        given = self.velocity
        if given.ndim == 2 and len(given) != len(robot.vertices):
            raise InputError(
                f"{type(self).__name__}: velocity has {len(given)} rows for {len(robot.vertices)} vertices; give (3,) or one a "
                "vertex"
            )
        vertices = np.broadcast_to(given, robot.vertices.shape)
        v = topology.with_mid_edges(vertices, robot.p2_edges)[problem.nodes] / problem.length
        x = state.shape.point.x
        middle = (state.mass.matrix @ x).sum(axis=0) / state.mass.matrix.sum()
        v = v + np.cross(self.spin, x - middle)
        return np.where(problem.held[: x.size].reshape(-1, 3), 0.0, v)

    def step(
        self, state: MovingState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[MovingState, Report]:
        """Advance to the time of a command."""
        begin, problem = time.process_time() - state.spent, state.shape.problem
        if command.time <= state.time:
            raise InputError(
                f"{type(self).__name__}: a command at t = {command.time:g} s after t = {state.time:g} s; times must increase"
            )
        budget = Budget(self.max_seconds or np.inf, np.inf, begin, problem.linear.factorisations, progress, increment=1)
        status, message = Status.CONVERGED, ""
        new = self._with_row(state, command)
        try:
            new, why = self._to_time(new, command.time, budget)
            if why:
                status, message = Status.STOPPED, why
        except BudgetError as error:
            status = Status.STOPPED
            message = (
                f"{Status.STOPPED.value} It was {error.args[0]} = {error.args[1]:g} CPU s, at t = {new.time:.6g} s."
            )
        new = replace(new, spent=time.process_time() - begin)
        records = tuple({"command": command.index, **record} for record in budget.records)
        return new, Report(status, message, records)

    def _with_row(self, state: MovingState, command: Command) -> MovingState:
        """Return the state with the row of the actuation that a command belongs to."""
        if state.row is not None and state.row.serves(command):
            return state
        shape, problem = state.shape, state.shape.problem
        table = command.parts[0].times if command.parts else ()
        until = float(table[command.index]) if command.index < len(table) else command.time
        end = self._shapes.target(problem, shape, command)
        problem.check_enclosed(problem.at_goal(shape.point.x, end.positions))
        origin = self._shapes.origin(shape, end, command)
        steady = problem.constraints.steady_forces != 0.0
        forces = np.where(steady, end.scalar_forces, origin.scalar_forces)
        origin = replace(origin, external=end.external, scalar_forces=forces)
        lines, amounts = next((law for law in end.laws if isinstance(law, Lines)), None), state.supplied
        if lines is None:
            amounts = None
        elif self.integrator == "implicit-midpoint":
            raise InputError(
                f"{type(self).__name__}: 'implicit-midpoint' knows no SupplyLine: pressures hold in the middle of its steps; use "
                "'generalized-alpha' or 'implicit-euler'"
            )
        elif amounts is None:
            chambers = slice(problem.chambers)
            amounts = (shape.point.scalar_forces[chambers] + lines.ambient) * (shape.scalars[chambers] + lines.beyond)
        state = replace(state, supplied=amounts)
        return replace(state, row=Row(command, state.time, max(until, command.time), origin, end))

    # ---- increments

    def _to_time(self, state: MovingState, end: float, budget: Budget) -> tuple[MovingState, str]:
        """Advance to a time in equal increments; halve one that fails, let them grow back. Say why where that ends early."""
        largest, good, follows = self._largest, 0, isinstance(self.dt, str)
        increment = state.increment or self._first
        outcome: NewtonOutcome | None = None
        while state.time < end - TIME_ROUNDING_REL * max(end, largest):
            left = end - state.time
            h = left / max(1, int(np.ceil(left / increment - 1e-9)))
            new, outcome = self._advance(state, h, budget)
            if new is not None and follows:
                short, growth = self._judged(state, new, h, increment)
            else:
                short, growth = new is not None, 2.0 if good >= GOOD_INCREMENTS else 1.0
            if new is not None and short:
                state, good = new, good + 1
                if growth != 1.0:
                    increment, good = min(growth * (h if follows else increment), largest), 0
                budget.increment += 1
                continue
            increment, good = 0.5 * h, 0
            if increment < largest * SMALLEST_DT_SHARE:
                return state, self._failure(state, h, outcome)
        state = replace(state, time=end, increment=increment if increment < largest or follows else 0.0)
        return self._shown(state, outcome), ""

    def _failure(self, state: MovingState, h: float, outcome: NewtonOutcome | None) -> str:
        found = "" if outcome is None else f" (residual {outcome.residual:.2g}, tolerance {self.tolerance:.0g})"
        return (
            f"The motion stopped at t = {state.time:.6g} s: no increment down to {h:.3g} s balances{found}. Take a smaller dt, "
            "refine the mesh, or let the load rise more slowly; the frames reached so far are kept."
        )

    def _advance(self, state: MovingState, h: float, budget: Budget) -> tuple[MovingState | None, NewtonOutcome | None]:
        """Return the state after an increment, None where there is none, and how it was found."""
        rule = self.integrator
        if rule == "generalized-alpha" and state.time == 0.0 and not state.motion.acceleration.any():
            # the midpoint rule needs no accelerations to begin with, and is of second order, too; lines need pressures at the end
            rule = "implicit-midpoint" if state.supplied is None else "implicit-euler"
        new, outcome = self._increment(state, rule, h, budget)
        if new is None or rule == "implicit-euler" or not (state.touches or new.touches):
            return new, outcome
        if not self._gains(new):
            return new, outcome
        if h > self._largest * SHORT_IMPACT_SHARE:
            return None, outcome
        return self._increment(state, "implicit-euler", h, budget)

    def _increment(
        self, state: MovingState, rule: str, h: float, budget: Budget
    ) -> tuple[MovingState | None, NewtonOutcome]:
        """Return the state after an increment by a rule, None where there is none, and how it was found."""
        shape, row, problem = state.shape, state.row, state.shape.problem
        assert row is not None
        step = RULES[rule](shape.point.x, state.motion, h, self.spectral_radius).damped(self.damping)
        end = replace(row.end, inertia=self._potential(state, step), laws=_supplied(row.end.laws, state.supplied, step))
        aim = ArcLengthConstraint(row.origin, end, row.share(state.time + step.share * h), shape.contact_state)
        start = self._guess(shape, aim, step.guess if self.inertia else shape.point.x)
        outcome = self._newton.equilibrium(problem, start, aim, budget)
        if outcome.status is not Status.CONVERGED and has_potential(problem, aim):
            outcome = Minimisation(self._newton, problem, aim, budget).run(start)
        if outcome.status is not Status.CONVERGED:
            return None, outcome
        ended = self._ended(state, step, outcome, row.share(state.time + h))
        if ended is None:
            return None, replace(outcome, status=Status.NOT_CONVERGED)
        past, shape = state.history, ended[0].shape
        history = None if past is None else past.ended(shape.point.x, h)
        supplied = state.supplied
        for law in outcome.target.laws:
            if isinstance(law, Lines) and supplied is not None:
                supplied = supplied + h * law.flows(outcome.point.scalar_forces[: problem.chambers])
        new = replace(ended[0], time=state.time + h, history=history, supplied=supplied)
        new = self._booked(state, new, step, outcome)
        return new, ended[1]

    def _potential(self, state: MovingState, step: Increment) -> NodePotential:
        springs = (Spring(state.mass, step.weight, step.center),) if step.weight > 0.0 else ()
        viscous = None if state.history is None else state.history.potential(step.share * step.length)
        table = None if viscous is None else viscous.table
        return NodePotential(springs, POSITION_ROUNDING / self.tolerance, viscous, table)

    @staticmethod
    def _guess(shape: ShapeState, aim: ArcLengthConstraint, guess: Floats) -> Configuration:
        """Return the point from which an increment is solved: where the body goes, as far as it crosses nothing."""
        problem, point = shape.problem, shape.point
        contact, grip, way = problem.contact, shape.contact_state, problem.settled(guess) - point.x
        share = 1.0
        if contact is not None and grip is not None:
            share = max_safe_step(contact, point.x, way, grip, aim.at(point).contact_state)
        x = point.x + share * way if problem.rigid is None or share == 1.0 else point.x
        return replace(point, x=x, load_factor=aim.load_factor)

    def _ended(
        self, state: MovingState, step: Increment, outcome: NewtonOutcome, share: float
    ) -> tuple[MovingState, NewtonOutcome] | None:
        """Return the state at the end of an increment that balances, and its outcome there; None where surfaces would cross."""
        problem, old = state.shape.problem, state.shape
        x, motion = step.end(outcome.point.x)
        if step.share < 1.0:
            assert state.row is not None
            rigid = problem.rigid
            loose = () if rigid is None else [ids for ids, held in zip(rigid.nodes, rigid.held) if not held.any()]
            motion = replace(motion, velocity=carried(state.mass.matrix, x, problem.settled(x), motion.velocity, loose))
            x, contact, grip = problem.settled(x), problem.contact, outcome.target.contact_state
            aim = ArcLengthConstraint(state.row.origin, state.row.end, share, grip)
            target = aim.at(outcome.point)
            x = problem.at_goal(x, target.positions)
            if contact is not None and grip is not None:
                way = x - outcome.point.x
                if max_safe_step(contact, outcome.point.x, way, grip, target.contact_state) < 1.0:
                    return None
            # pressures follow the law of compressible bodies at both ends: those of the middle make energy of order h
            p = 2.0 * outcome.point.p - old.point.p if problem.compressible else outcome.point.p
            point = replace(outcome.point, x=x, p=p)
            found = self._newton.evaluate(problem, point, target, matrix=False)
            if not np.isfinite(found.energy):
                return None
            found = replace(found, force=outcome.evaluation.force)
            outcome = replace(outcome, point=point, target=target, evaluation=found)
        motion = led(motion, x - old.point.x, step.length, problem.held[: x.size].reshape(-1, 3))
        shape = next_state(old, outcome)
        shape = replace(shape, point=replace(shape.point, load_factor=0.0), before=())
        met = outcome.evaluation.contact
        return replace(state, shape=shape, motion=motion, touches=met is not None and met.count > 0), outcome

    # ---- energy, error, frames

    def _alone(self, state: MovingState) -> Evaluation:
        """Return the evaluation of the body without inertia where it is; viscous materials are relaxed."""
        shape, history = state.shape, state.history
        relaxed = None if history is None else NodePotential((), table=history.viscosity.relaxed_table)
        target = replace(shape.target, inertia=relaxed, contact_state=shape.contact_state)
        return self._newton.evaluate(shape.problem, shape.point, target, matrix=False)

    def _booked(self, state: MovingState, new: MovingState, step: Increment, balance: NewtonOutcome) -> MovingState:
        """Return the new state with the work of the increment that led to it in its ledger, by the forces that balanced."""
        problem, old, found = state.shape.problem, state.shape, balance.evaluation
        way = new.shape.point.x - old.point.x
        held = problem.held[: way.size].reshape(-1, 3)
        weight = problem.mass[:, None] * problem.environment.gravity / problem.force_unit
        pushed, rubbed = self._contact_work(state, new, balance)
        # pressures and tensions that change in the increment work with their mean; what a prescribed volume needs may jump
        pulls = balance.point.scalar_forces
        if step.share == 1.0:
            jumps = balance.target.by_value & ~balance.target.lawful
            pulls = np.where(jumps, pulls, 0.5 * (old.point.scalar_forces + pulls))
        if found.columns is not None:  # a cable pulls the body by less than its work where its points rub
            rubbed += float(balance.point.scalar_forces @ np.einsum("cni,ni->c", found.gradients - found.columns, way))
        # A support that starts at once gives its nodes their kinetic energy; forces of the rule would do up to four times that.
        mass, before, after = state.mass.matrix, state.motion.velocity, new.motion.velocity
        inertia = step.weight * (mass @ (balance.point.x - step.center))
        drag = self.damping / step.length * (mass @ way)
        lifted = 0.5 * (mass @ (after - before)) * (after + before)
        parts = [
            float(np.sum((balance.target.external[: len(way)] - weight) * way)),
            float(pulls @ (new.shape.scalars - old.scalars)),
            float(np.sum((found.force - inertia) * way, where=held)) + float(np.sum(drag * way + lifted, where=held)),
            pushed,
        ]
        damped = float(np.sum(drag * way))
        if state.history is not None and new.history is not None:
            viscous = state.history.potential(step.share * step.length)
            damped += viscous.work(balance.point.x, new.history)
        ledger, unit = state.ledger, state.energy_unit
        ledger = replace(
            ledger,
            work=ledger.work + unit * sum(parts),
            dissipated=ledger.dissipated + unit * (damped + rubbed),
            given=ledger.given + unit * sum(map(abs, parts)),
        )
        return replace(new, ledger=ledger)

    @staticmethod
    def _contact_work(state: MovingState, new: MovingState, balance: NewtonOutcome) -> tuple[float, float]:
        """Return the scaled work of obstacles that move, and what friction takes: with obstacles, and between parts."""
        contact, forces = state.shape.problem.contact, balance.evaluation.contact
        grips = state.shape.contact_state, new.shape.contact_state
        if contact is None or forces is None or grips[0] is None or grips[1] is None:
            return 0.0, 0.0
        start, end = (contact.metres(contact.surface.points(s.shape.point.x)) for s in (state, new))
        pushed, rubbed = 0.0, 0.0
        for push, drag, before, after in zip(forces.on_points, forces.drag, grips[0].poses, grips[1].poses):
            turn = after[:3, :3] @ before[:3, :3].T
            carried = (start - before[:3, 3]) @ turn.T + after[:3, 3] - start
            pushed += float(np.sum(push * carried)) / contact.length
            rubbed += float(np.sum(drag * (end - start - carried))) / contact.length
        held = balance.target.contact_state
        if held is not None:
            rubbed += contact.self_friction_work(balance.point.x, new.shape.point.x - state.shape.point.x, held)
        return pushed, rubbed

    def _gains(self, state: MovingState) -> bool:
        """Whether the rule has made more than a share of the energy that was given or is in motion."""
        energies, ledger = state.energies(self._alone(state)), state.ledger
        made = sum(energies.values()) - ledger.begin - ledger.work + ledger.dissipated
        moves = sum(value for name, value in energies.items() if name != "weight")
        return made > MAX_IMPACT_GAIN_REL * max(moves, ledger.given)

    def _judged(self, state: MovingState, new: MovingState, h: float, increment: float) -> tuple[bool, float]:
        """Return whether an increment of h was short enough or is the shortest, and the factor to the next."""
        old, now, order = state.motion, new.motion, 2
        error = 0.5 * h * (now.velocity - old.velocity)
        if self.integrator == "generalized-alpha":
            error, order = h**2 / 12.0 * (now.acceleration - old.acceleration), 3
        mass = state.mass.matrix
        mean = float(np.sqrt(np.sum(error * (mass @ error)) / mass.sum()))
        ratio = max(mean / MAX_ERROR_REL, MIN_DIVISOR)
        least_change, most_change, safety, most_ratio = 0.25, 1.5, 0.9, 4.0
        change = min(max(safety * ratio ** (-1.0 / order), least_change), most_change)
        short = ratio <= most_ratio or change * h < self._largest * SMALLEST_DT_SHARE
        return short, change if h > 0.5 * increment or change < 1.0 else 1.0

    def _shown(self, state: MovingState, outcome: NewtonOutcome | None) -> MovingState:
        """Return the state with its frame."""
        if outcome is None:
            return state
        shape, found = state.shape, self._alone(state)
        at = replace(found, force=outcome.evaluation.force, rigid=outcome.evaluation.rigid)
        target = replace(shape.target, contact_state=shape.contact_state)
        frame = measures.measure(
            shape.problem, shape.point, at, outcome.residual, target, None, shape.friction_work, shape.note
        )
        return state.shown(frame, found)


def _supplied(laws: tuple[Law, ...], amounts: Floats | None, step: Increment) -> tuple[Law, ...]:
    """Return the laws of an increment: supply lines with what they have supplied before, and its length."""
    if amounts is None:
        return laws
    span = step.share * step.length
    return tuple(replace(law, amounts=amounts, span=span) if isinstance(law, Lines) else law for law in laws)


def _continued(history: History | None, before: History | None) -> History | None:
    """Return the history of the motion before, where it fits; else the one at rest."""
    if history is None or before is None or history.branches.shape != before.branches.shape:
        return history
    return replace(before, viscosity=history.viscosity)
