"""EnergyShapeSolver: the quasi-static shape of an inflated, loaded hyperelastic body, as finite elements have it.

Find positions x, pressure p (mean stress) and chamber pressures P stationary for

    Pi = integral W(F) dV + integral p (J - 1) - p^2 / (2 kappa) dV - sum_c P_c (v_c(x) - V_c) + contact(x)
         - external work,

with Taylor-Hood elements (P2 displacement, continuous P1 pressure) or smoothed P1 (see `smoothing`). Every chamber is a scalar
functional v_c(x) with the conjugate force P_c: either is prescribed, both are returned. Contact with obstacles and of
the robot with itself is in `potential`. One command is reached by

    1. targets: volumes or pressures, dead loads, held positions and poses of obstacles at the end of the command;
    2. the path to them (`continuation`): increments as long as the path is straight, at a prescribed share of the command
    or, where
       pressures or loads are on their way, on an arc that passes their maxima;
    3. Newton (`equilibrium`): factorise the symmetric indefinite tangent once, solve for the residual and for the gradient
       of every chamber of prescribed volume, and close the small bordered system (block elimination);
    4. line search: shorten the step until the energy is finite, no surface passes another, and the squared scaled
       residual falls (non-monotone);
    5. convergence: force residual, chamber volumes and incompressibility, never the size of a step;
    6. anchors: what sticks to an obstacle keeps its place there, what slipped lets go.

Departures from [Fang2022], whose problem this is:

[D1] The hyperelastic energy itself is minimised, not the distance to blended target shapes.
[D2] Chambers carry no elements: their volume is a polynomial of the wall nodes, so nothing needs remeshing.
[D3] Chamber volumes are constraints met exactly; their multipliers are the pressures.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, choice, number, whole
from geosim.linear.factorise import FACTORISERS, MULTILEVEL
from geosim.linear.factoriser import MAX_THREADS
from geosim.material.materials import refuse_viscous
from geosim.model.actuation import AMBIENT_PRESSURE_PA, Actuation, Command, Inflation, timeless
from geosim.model.contract import Progress, Report, Robot, State, Status, taken
from geosim.model.display import later
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy import measures
from geosim.shape.energy.constraints.free_bodies import FreeBodyMotion
from geosim.shape.energy.constraints.immersion import Immersion
from geosim.shape.energy.constraints.scalars import Law, Prescription, StickSlip, known_commands
from geosim.shape.energy.contact.penetration import passed_through
from geosim.shape.energy.contact.setup import DEFAULT_THICKNESS_EDGES
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.path.branches import EquilibriumPath
from geosim.shape.energy.path.continuation import Continuation, StepOutcome
from geosim.shape.energy.path.loading import Loading, load_difference
from geosim.shape.energy.path.nested import MAX_LINEAR_FACTORISATIONS
from geosim.shape.energy.path.options import ContinuationOptions
from geosim.shape.energy.path.wording import BY_VALUE, FINER, FLAT_TETS
from geosim.shape.energy.problem import ShapeProblem, imperfect_robot, make_problem
from geosim.shape.energy.state import Resumed, ShapeState
from geosim.shape.energy.states.configuration import Configuration, LoadState, NewtonOutcome

__all__ = ["EnergyShapeSolver", "ShapeState"]

NAMES = {
    "element": ("p2", "p1"),
    "factoriser": ("auto", *FACTORISERS, MULTILEVEL),
    "invariants": ("full", "isochoric"),
    "follow": ("limit", "dynamic"),
    "symmetry": ("auto",),
}
# Below this tolerance residuals are round-off; shares of the skin's edges; shares of the body's size.
OPTION_LIMITS = {"tolerance": (1e-13, 1e-2), "contact_thickness": (1e-4, 0.5), "imperfection": (0.0, 0.05)}

COUNT_LIMITS = {"max_iterations": (2, sys.maxsize), "max_factorisations": (1, sys.maxsize), "threads": (1, MAX_THREADS)}


@guarded
@dataclass(frozen=True)
class EnergyShapeSolver:
    """Options of the energy solver.

    Parameters
    ----------
    element
        "p2" (Taylor-Hood, the default) or "p1" (flat tets with smoothed strain, several times faster and some percent off on
        the same mesh).
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
        "auto" (the fastest that is installed, two levels where its analysis says that factors cost more), "rslab", "pardiso"
        or "superlu"; "multilevel": two levels at any size, where `stable` is nan (see `geosim.linear.multilevel`).
    invariants
        "isochoric": W of J^(-2/3) I1 and J^(-4/3) I2; "full": W(I1, I2) of an incompressible material is evaluated as it
        stands, as most mixed finite elements do. Both converge to the same shape, the isochoric form from half as far; a
        material with a finite bulk modulus is always split isochorically. None: isochoric.
    contact_thickness
        Distance at which surfaces begin to feel each other, over the local edge length.
    check_stability
        Whether every frame is examined for stability (one factorisation more).
    imperfection
        Amplitude of a smooth, fixed deviation of the rest shape over the body's size, which makes a perfect body
        choose a side when it buckles; the vertices given as fixed keep their places.
    max_seconds, max_factorisations
        What one command may cost [CPU s; count]; a command that is not reached by then ends with Status STOPPED.
        None: no limit.
    follow
        Where a load has a maximum below the command (a limit point): "limit" stops there and names it; "dynamic" goes on
        from the next stable state, however far away, or says PRESSURE_LIMIT where there is none up to V/V0 = 10.
    threads
        How many factorisations and the assembly of elements take; None: the cores (or OMP_NUM_THREADS, and 1 in a sweep). Only
        the time depends on it.
    symmetry
        "auto": equations are solved in halves as long as mesh, supports and loads are their own images in a plane x, y or z =
        middle of the body. Buckling out of that plane is seen: the antisymmetric half is examined for stability, too. Where
        there is no such plane the message says why.
    """

    element: str = "p2"
    tolerance: float = 1e-6
    max_iterations: int = 24
    max_growth: float = 1.0
    min_increment: float = 1e-3
    factoriser: str = "auto"
    invariants: str | None = None
    contact_thickness: float = DEFAULT_THICKNESS_EDGES
    check_stability: bool = True
    imperfection: float = 0.0
    max_seconds: float | None = None
    max_factorisations: int | None = None
    follow: str = "limit"
    threads: int | None = None
    symmetry: str | None = None

    continuation = ContinuationOptions()  # no annotation: it is none of the options that a user gives

    def __post_init__(self) -> None:
        for key, names in NAMES.items():
            if key in ("invariants", "symmetry") and getattr(self, key) is None:
                continue
            choice(getattr(self, key), f"EnergyShapeSolver: {key}", names)
        for key, (low, high) in OPTION_LIMITS.items():
            number(getattr(self, key), f"EnergyShapeSolver: {key}", low=low, high=high)
        for key in ("max_growth", "min_increment"):
            number(getattr(self, key), f"EnergyShapeSolver: {key}", above=0.0)
        if self.max_seconds is not None:
            number(self.max_seconds, "EnergyShapeSolver: max_seconds", above=0.0)
        for key, (least, most) in COUNT_LIMITS.items():
            if getattr(self, key) is not None:
                whole(getattr(self, key), f"EnergyShapeSolver: {key}", least=least, most=most)

    @property
    def isochoric(self) -> bool:
        """Whether an incompressible material is evaluated in the isochoric form."""
        return self.invariants != "full"

    # ---- the contract of `solve`

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands of an actuation after checking that this solver knows them."""
        commands = known_commands(robot, actuation, type(self).__name__)
        timeless(actuation, type(self).__name__)
        return commands

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> ShapeState:
        """Return the state at rest (or at `initial`, a state of the same robot) after computing what is computed once.

        Raises
        ------
        InputError
            The robot or its environment cannot be solved.
        """
        return self.begun(robot, environment, initial)

    def begun(
        self,
        robot: Robot,
        environment: Environment,
        initial: State | None = None,
        *,
        searched: bool = True,
        timed: bool = False,
        moving: bool = False,
    ) -> ShapeState:
        """Return what `start` does; unless `searched`, nothing has looked for surfaces that cross (see `measures.measure`).

        A solver that is `timed` takes viscous materials; a body whose inertia is `moving` need not be held.
        """
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        if not timed:
            refuse_viscous(robot.materials, type(self).__name__)
        problem = make_problem(
            imperfect_robot(robot, self.imperfection),
            environment,
            2 if self.element == "p2" else 1,
            self.factoriser,
            threads=self.threads,
            isochoric=self.isochoric,
            contact_thickness=self.contact_thickness,
            symmetric=self.symmetry is not None,
            moving=moving,
        )
        start = self._resumed(problem, initial)
        point, contact_state, lost, friction_work = start.point, start.contact_state, start.lost, start.friction_work
        evaluation = problem.evaluate(
            point.x,
            point.p,
            point.scalar_forces,
            np.zeros_like(point.x),
            matrix=False,
            contact_state=contact_state,
            hold=point.hold,
        )
        if point.hold is None and problem.constraints.rough:
            point = replace(point, hold=StickSlip(problem.constraints.first_modes, evaluation.scalars))
        loads = problem.loads_of(evaluation.force if initial is not None else np.zeros_like(point.x))
        target = LoadState(
            np.zeros(problem.scalars, dtype=bool),
            evaluation.scalars,
            point.scalar_forces,
            loads,
            problem.goal(point.x),
            contact_state,
            laws=tuple(one.law for one in problem.constraints.members),
            free_bodies=self._loose(problem, point, lost, -1),
        ).at(point)
        return ShapeState(
            problem,
            point,
            target,
            evaluation.scalars,
            (),
            target.contact_state,
            friction_work,
            measures.measure(problem, point, evaluation, np.nan, target, None, friction_work, searched=searched),
            is_frame=False,
            began=(evaluation.scalars, point.scalar_forces),
            lost=lost,
            note=_without_effect(problem),
        )

    @staticmethod
    def _resumed(problem: ShapeProblem, initial: State | None) -> Resumed:
        """Return what a solve begins with: rest, or what an earlier solve of the same robot left behind."""
        if initial is None:
            pressures, scalars = np.zeros(len(problem.pressure_vertices)), np.zeros(problem.scalars)
            point = Configuration(problem.rest, pressures, scalars, objects=np.zeros((len(problem.objects.ids), 6)))
        else:
            point = measures.adopt(problem, initial)
        lost = np.zeros(len(problem.objects.ids), dtype=bool)
        grip = None if problem.contact is None else problem.contact.start(point.x)
        if not isinstance(initial, ShapeState):
            return Resumed(point, grip, lost, 0.0 if initial is None else np.nan)
        lost = initial.lost if initial.lost.shape == lost.shape else lost
        held = initial.contact_state  # its obstacles stand where they stood
        same = grip is not None and held is not None and held.anchors.shape == grip.anchors.shape
        return Resumed(point, held if same else grip, lost, initial.friction_work)

    @property
    def _newton(self) -> EquilibriumSearch:
        return EquilibriumSearch(self.tolerance, self.max_iterations)

    def step(
        self, state: ShapeState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[ShapeState, Report]:
        """Go to one command; if it cannot be reached, return the last equilibrium on the way and why it ended."""
        clock = time.perf_counter()
        problem = state.problem
        end = self.target(problem, state, command)
        problem.check_enclosed(problem.at_goal(state.point.x, end.positions))
        budget = Budget(
            self.max_seconds or np.inf,
            self.max_factorisations or np.inf,
            time.process_time(),
            problem.linear.factorisations,
            progress,
        )
        journey = self._holding(state, end, command, budget)
        current = self._measured(journey.state, journey.outcome)
        status, message = self._judged(state, current, journey, command, budget)
        if status is not Status.CONVERGED:
            message = f"{message}{_beyond_sense(problem, end)}{_flat(problem, current)}"
        report = Report(status, message, _records(budget, command, journey, time.perf_counter() - clock))
        if report.reached or current is state:
            return current, report
        partial = replace(current, measured=replace(current.frame, time=journey.load_factor))
        return current, replace(report, partial=partial)

    def _judged(
        self, state: ShapeState, current: ShapeState, journey: StepOutcome, command: Command, budget: Budget
    ) -> tuple[Status, str]:
        """Return what is to be said of the state that a command has led to: whether it is one, and whether it lasts."""
        if (vacuum := self._above_vacuum(current, command)) is not None:
            return vacuum
        if journey.status is Status.CONVERGED and (crossed := _crossed(current, command)):
            return Status.CROSSED, f"{Status.CROSSED.value} {crossed}"
        loses = journey.status is Status.CONVERGED and current.frame.stable == 0.0 and state.frame.stable != 0.0
        unbounded = replace(budget, seconds=np.inf, factorisations=np.inf, records=[])
        if loses and (between := journey.way.branches_between(unbounded)) is not None:
            low, high = (100.0 * mark.share for mark in between)
            return Status.UNSTABLE, (
                f"{Status.UNSTABLE.value} The path branches between {low:.3g} and {high:.3g} % of command "
                f"{command.index + 1} (a bifurcation, no limit of the load): `imperfection` selects the branch."
            )
        return journey.status, journey.message

    def _journey(
        self, state: ShapeState, end: LoadState, command: Command, budget: Budget, *, skip_relaxation: bool = False
    ) -> StepOutcome:
        """Follow the path to a target; from rest what always acts is put on first, however many commands there are."""
        problem, origin = state.problem, self.origin(state, end, command)
        # Where a free body is lost on the way, the load factor at which it is lost is found to this share of the
        # command.
        loss_load_tolerance = 5e-3
        shortest = max(self.min_increment, loss_load_tolerance) if skip_relaxation else self.min_increment
        options = budget, shortest, self.follow == "dynamic", skip_relaxation, self.continuation
        carried = problem.constraints.steady_forces
        steady = replace(
            origin,
            external=problem.steady_forces(),
            scalar_forces=np.where(carried != 0.0, carried, origin.scalar_forces),
        )
        way = load_difference(problem, end, steady)
        at_rest = not state.is_frame and np.array_equal(state.point.x, problem.rest)
        if not (at_rest and np.any(steady.external != origin.external) and (way is None or np.any(way))):
            foretell = partial(self._foretold, state, command, budget) if at_rest and self.element == "p2" else None
            return self._along(origin, end, state, *options, foretell)
        held = None if origin.free_bodies is None else origin.free_bodies.held()
        start, loads = (replace(t, free_bodies=held) for t in (origin, steady))
        loaded = self._along(start, loads, state, *options)
        if loaded.status is not Status.CONVERGED:
            return replace(
                loaded, load_factor=0.0, message=f"{loaded.message} That was before the command, of constant loads."
            )
        loaded_state = replace(loaded.state, is_frame=False)
        foretell = partial(self._foretold, state, command, budget) if self.element == "p2" else None
        journey = self._along(self.origin(loaded_state, end, command), end, loaded_state, *options, foretell)
        return replace(journey, left=loaded.left + journey.left)

    def _foretold(self, state: ShapeState, command: Command, budget: Budget) -> EquilibriumPath | None:
        """Return the way of linear elements on the same mesh from rest to a command; None where they snap."""
        solver = replace(self, element="p1", check_stability=False, imperfection=0.0)
        rest = solver.begun(state.robot, state.problem.environment, searched=False)
        counted = rest.problem.linear.factorisations
        own = replace(budget, factorisations=MAX_LINEAR_FACTORISATIONS, counted=counted, records=[])
        journey = solver._journey(rest, solver.target(rest.problem, rest, command), command, own)
        for record in own.records:  # where linear elements are indefinite says nothing of quadratic ones
            budget.records.append(
                {key: value for key, value in record.items() if key != "indefinite"} | {"nested": True}
            )
        if journey.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return None if journey.left else journey.way

    def _along(self, origin: LoadState, end: LoadState, state: ShapeState, *options: Any) -> StepOutcome:
        """Follow the path between two targets."""
        loading = Loading(state.problem, origin, end, self.max_growth)
        return Continuation(self._newton, loading, state, *options).follow()

    def _holding(self, state: ShapeState, end: LoadState, command: Command, budget: Budget) -> StepOutcome:
        """Go to a target with the free objects as long as contact holds them, and without those that it loses."""
        problem, free_bodies = state.problem, end.free_bodies
        if free_bodies is None or not free_bodies.moving.any() or problem.contact is None:
            return self._journey(state, end, command, budget)
        if state.contact_state is not None:
            touch = problem.contact.evaluate(state.point.x, state.contact_state, matrix=False)
            if (gone := free_bodies.falls_past(problem.contact, state.point.x, touch)).any():
                note = self._loss(problem, gone, command, "nothing holds it where it is released")
                dropped = replace(self._dropped(state, gone, note), is_frame=state.is_frame)
                return self._holding(dropped, self.target(problem, dropped, command), command, budget)
        skip_relaxation = all(
            problem.environment.obstacles[o].friction > 0.0 for o in problem.objects.ids[free_bodies.moving]
        )
        journey = self._journey(state, end, command, budget, skip_relaxation=skip_relaxation)
        if journey.status in (Status.CONVERGED, Status.STOPPED, Status.INTERRUPTED):
            return journey
        there = journey.state
        assert there.contact_state is not None
        spent = free_bodies.spent(
            problem.contact, problem.contact.evaluate(there.point.x, there.contact_state, matrix=False)
        )
        each = list(np.eye(len(spent), dtype=bool)[spent])
        for gone in each if len(each) < 2 else [*each, spent]:
            share = f"{100.0 * journey.load_factor:.3g} % of the way there contact no longer holds it"
            note = self._loss(problem, gone, command, share)
            dropped = self._dropped(there, gone, note)
            again = self._holding(dropped, self.target(problem, dropped, command), command, budget)
            if again.status is Status.CONVERGED:
                return replace(again, left=journey.left + again.left)
        return self._journey(state, end, command, budget) if skip_relaxation else journey

    @staticmethod
    def _loss(problem: ShapeProblem, gone: Bools, command: Command, reason: str) -> str:
        names = ", ".join(f"{o + 1} ({problem.environment.obstacles[o].shape})" for o in problem.objects.ids[gone])
        return f"Object {names} is lost in command {command.index + 1}: {reason}, and it is left out."

    def _dropped(self, state: ShapeState, gone: Bools, note: str) -> ShapeState:
        """Return a state without some of the free objects, in balance with loads on the nodes instead of their contact."""
        problem, point, lost = state.problem, state.point, state.lost | gone
        target = replace(state.target, free_bodies=self._loose(problem, point, lost, -1)).at(point)
        missing = self._newton.evaluate(problem, point, target, matrix=False).force
        target = replace(target, external=target.external + problem.loads_of(missing))
        note = " ".join(filter(None, [state.note, note]))
        return replace(
            state, target=target, contact_state=target.contact_state, before=(), lost=lost, note=note, is_frame=True
        )

    @staticmethod
    def _loose(problem: ShapeProblem, point: Configuration, lost: Bools, index: int) -> FreeBodyMotion | None:
        """Return what becomes of the free objects in a command; None where there are none."""
        objects = problem.objects
        moving = (index >= objects.released) & ~lost
        return FreeBodyMotion(objects, moving, lost, np.zeros_like(point.objects), point.objects) if len(lost) else None

    def _above_vacuum(self, state: ShapeState, command: Command) -> tuple[Status, str] | None:
        """Say which chamber would need less than vacuum; None where none does."""
        inflation, count = command.find(Inflation), state.problem.chambers
        ambient = AMBIENT_PRESSURE_PA if inflation is None else inflation.ambient
        pressures = state.point.scalar_forces[:count] * state.problem.stress
        if not (pressures < -ambient).any():
            return None
        c = int(np.argmin(pressures))
        return (
            Status.NOT_CONVERGED,
            f"Chamber {c + 1} would need {pressures[c] / 1e3:.4g} kPa, which is below vacuum (-{ambient / 1e3:.4g} kPa "
            f"gauge): no pump does that. Prescribe a larger volume_ratio.",
        )

    def _measured(self, state: ShapeState, outcome: NewtonOutcome | None) -> ShapeState:
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
        measured = measures.measure(
            state.problem, point, evaluation, residual, state.target, stable, state.friction_work, state.note
        )
        return replace(state, measured=measured)

    def live(
        self, robot: Robot, environment: Environment | None = None, vary: str = "pressure", lag: float = 0.0
    ) -> Any:
        """Return a control loop: `step(command, dt)` from equilibrium to equilibrium, see `geosim.response.live`.

        `max_seconds` bounds a step; `vary` names what is commanded, as in `solve_for`, `lag` is that of the supply [s].
        """
        return later("response.live.live_mesh")(self, robot, environment, vary, lag)

    # ---- increments

    def target(self, problem: ShapeProblem, state: ShapeState, command: Command) -> LoadState:
        """Return what a command asks for, in scaled units; a command that drives nothing of the body is refused."""
        problem.constraints.refuse_unheard(command)
        index, asked = command.index, self._prescribed(problem, state, command)
        goals, forces = (np.concatenate([getattr(one, key) for one in asked]) for key in ("values", "forces"))
        laws = tuple(one.law for one in asked)
        lawful = np.concatenate([law.lawful for law in laws])
        by_value = np.isfinite(goals) | lawful
        contact_state = (
            state.contact_state.at(problem.environment.poses(index))
            if problem.contact is not None and state.contact_state is not None
            else None
        )
        return LoadState(
            by_value,
            np.where(lawful, state.scalars, np.nan_to_num(goals)),
            np.where(by_value, 0.0, np.nan_to_num(forces)),
            problem.external_forces(index),
            problem.held_positions(index),
            contact_state,
            laws=laws,
            free_bodies=self._loose(problem, state.point, state.lost, index),
        ).at(state.point)

    @staticmethod
    def _prescribed(problem: ShapeProblem, state: ShapeState, command: Command) -> tuple[Prescription, ...]:
        """Return what a command asks of every constraint."""
        values, forces = (state.scalars, state.point.scalar_forces) if state.began is None else state.began
        parts = problem.constraints.parts
        return tuple(one.target(command, problem, (values[mine], forces[mine])) for one, mine in parts)

    def origin(self, state: ShapeState, end: LoadState, command: Command) -> LoadState:
        """Return the target that the present equilibrium meets, expressed in the controls of the next command."""
        asked, free_bodies = self._prescribed(state.problem, state, command), end.free_bodies
        contact = state.problem.contact
        if free_bodies is not None and contact is not None and state.contact_state is not None:
            x = state.point.x
            lift = free_bodies.wrenches(contact, x, contact.evaluate(x, state.contact_state, matrix=False))
            free_bodies = replace(free_bodies, lift=np.where(free_bodies.moving[:, None], lift, 0.0))
        return LoadState(
            end.by_value,
            state.scalars,
            state.point.scalar_forces,
            state.target.external,
            state.problem.goal(state.point.x, state.target.positions),
            state.contact_state,
            laws=tuple(map(_present_law, state.target.laws, asked)),
            free_bodies=free_bodies,
        )


def _without_effect(problem: ShapeProblem) -> str:
    """Say what was asked for and has no effect: planes of symmetry, a fluid; empty where all has."""
    notes = [f"symmetry = 'auto' halves nothing: {problem.asymmetry}."] if problem.asymmetry else []
    if problem.environment.fluid is not None and problem.constraints.find(Immersion) is None:
        notes.append("The fluid has no effect: without gravity or density it has no pressure.")
    return " ".join(notes)


def _crossed(state: ShapeState, command: Command) -> str:
    """Say what has crossed the skin of an equilibrium; empty where nothing has."""
    frame, obstacles = state.frame, state.problem.environment.obstacles
    if frame.crossings:
        return f"{int(frame.crossings)} pairs of edges and faces cross at command {command.index + 1}."
    if passed_through(obstacles, frame.max_penetration):
        return (
            f"An obstacle is {frame.max_penetration * 1e3:.3g} mm deep in the robot at command {command.index + 1}, more "
            f"than half of its own thickness: it has crossed the skin."
        )
    return ""


def _records(budget: Budget, command: Command, journey: StepOutcome, seconds: float) -> tuple[dict[str, Any], ...]:
    """Return the trace of a command; its last record holds the other seconds [s], and where the body left its path."""
    records = [{"command": command.index, **record} for record in budget.records]
    if records:
        other = seconds - sum(sum(record["seconds"].values()) for record in records)
        records[-1] = {**records[-1], "seconds": {**records[-1]["seconds"], "other": max(0.0, other)}}
        if journey.left:
            first = next((place for place in journey.left if place["far"]), journey.left[0])
            records[-1]["left"] = {**first, "times": len(journey.left)}
    return tuple(records)


def _present_law(law: Law, asked: Prescription) -> Law:
    """Return the law that the scalars of a constraint obey, as one that leads to what is asked for."""
    closing = asked.closing or asked.law
    return law if type(law) is type(closing) else closing


def _flat(problem: ShapeProblem, state: ShapeState) -> str:
    """Say what helps linear tets under vacuum or cables; empty elsewhere."""
    sucked = bool((state.point.scalar_forces[: problem.chambers] < 0.0).any())
    if not problem.element.linear or not (sucked or problem.cables is not None):
        return ""
    count = problem.inverted(state.point.x)
    folded = f"{count} of the flat tets inside out here: " if count else ""
    advice = "Take" if state.target.by_value.all() else BY_VALUE
    return f" {folded}{FLAT_TETS} {advice} {FINER}"


def _beyond_sense(problem: ShapeProblem, end: LoadState) -> str:
    """Say that pressures or loads are of another order than the material; empty where they are not."""
    asked = float(np.abs(end.scalar_forces[: problem.chambers]).max(initial=0.0)) * problem.stress
    pulled = float(np.linalg.norm(end.external[: len(problem.rest)], axis=1).sum()) * problem.stress
    modulus = max(m.shear_modulus for m in problem.robot.materials.values())
    # Pressures and loads so many times the shear modulus are mistaken units: rubber breaks far before.
    max_load_moduli = 20.0
    for what, value in (("pressure", asked), ("loads over the square of the robot's size", pulled)):
        if value > max_load_moduli * modulus:
            return f" The {what}, {value:.3g} Pa, is {value / modulus:.2g} times the shear modulus: check the unit."
    return ""
