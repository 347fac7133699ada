"""Where the next solve starts: the last state, carried over to a moved mesh; and the first shape that is shown of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.actuation import Command
from geosim.model.contract import Progress, Status
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.neighbours import neighbour
from geosim.shape.energy import measures
from geosim.shape.energy.newton.budget import Budget, BudgetError
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.solver import EnergyShapeSolver, ShapeState
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, Evaluation, LoadState
from geosim.show.motion import DeformationFit

__all__ = [
    "carried_over",
    "factorised",
    "first_shape",
    "same_but_commands",
    "started",
    "touches_nothing",
    "with_factors_of",
]

# Force residual of the first shape, which is solved again at once. From the last design grippers bend within 7 % of what they
# then do; from rest, where the first step is the linear one, up to 17 % less.
FIRST_TOLERANCE = 5e-3


def same_but_commands(old: ShapeState, robot: VolumetricRobot, environment: Environment) -> bool:
    """Whether a scene is that of a state but for its commands: the path goes on from there, friction and all."""
    before = old.robot
    alike = robot.materials == before.materials and robot.cables == before.cables
    alike = alike and np.array_equal(robot.vertices, before.vertices)
    return alike and str(old.problem.environment) == str(environment)


def touches_nothing(old: ShapeState, environment: Environment) -> bool:
    """Whether a first shape can do without contact: there are no obstacles, and in the last state no parts met."""
    around = (*environment.obstacles, *old.problem.environment.obstacles)
    simple = old.problem.rigid is None and old.point.hold is None
    return not around and simple and not old.frame.contact_count > 0.0


def first_shape(
    solver: EnergyShapeSolver,
    old: ShapeState,
    robot: VolumetricRobot,
    environment: Environment,
    command: Command,
    listener: Callable[[Progress], None],
) -> ShapeState | None:
    """Return the balance of a robot at a command, from the shape of the last state and with its factors, without contact.

    None where Newton's method does not lead there at once. Nothing is examined in it: its measures are those of its shape.
    """
    apart = replace(environment, self_contact=False)
    own = replace(old.problem, contact=None, environment=replace(old.problem.environment, self_contact=False))
    moved = not np.array_equal(robot.vertices, old.robot.vertices)
    try:
        problem = neighbour(own, robot, apart, solver, same_shape=not moved and str(apart) == str(own.environment))
    except InputError:
        return None
    if problem is None:
        return None
    problem = with_factors_of(own, problem)
    nodes = carried_over(old, robot.vertices) if moved else old.frame.nodes
    there = replace(old, problem=problem, contact_state=None, before=())
    point = measures.adopt(problem, replace(old, measured=replace(old.frame, nodes=nodes)))
    target = solver.target(problem, replace(there, point=point), command)
    point = replace(point, scalar_forces=np.where(target.by_value, point.scalar_forces, target.scalar_forces))
    search = _FirstSearch(FIRST_TOLERANCE, solver.max_iterations)
    limit, counted = solver.max_factorisations, problem.linear.factorisations
    given = Budget if limit is None else _StraightBudget
    budget = given(np.inf, limit or np.inf, time.perf_counter(), counted, listener)
    try:
        found = search.equilibrium(problem, point, ArcLengthConstraint(target, target, 1.0, None), budget)
    except BudgetError:
        return None
    if found.status is not Status.CONVERGED:
        return None
    point, at, target = found.point, found.evaluation, found.target
    measured = measures.measure(problem, point, at, found.residual, target, None, searched=False)
    return replace(there, point=point, target=target, scalars=at.scalars, measured=measured)


def factorised(state: ShapeState) -> None:
    """Find the factors of a state's tangent ahead, so that another shape starts with them."""
    search, target = EquilibriumSearch(FIRST_TOLERANCE, 1), state.target
    tangent = search.evaluate(state.problem, state.point, target, matrix=True)
    aim = ArcLengthConstraint(target, target, 1.0, None)
    search.direction(state.problem, state.point, aim, tangent, FIRST_TOLERANCE, reuse=False)


@dataclass
class _StraightBudget(Budget):
    """A budget that is spent once a step is shortened after a whole one: without contact there is no balance near.

    A gripper whose walls would meet took six factorisations to be given up, and takes three.
    """

    whole: bool = False

    def tell(self, record: dict[str, Any]) -> None:
        """Count an iteration, and tell of it."""
        super().tell(record)
        if self.whole and record["step"] < 1.0:
            raise BudgetError("max_factorisations", self.factorisations, " of a straight way")
        self.whole = record["step"] == 1.0


@dataclass(frozen=True)
class _FirstSearch(EquilibriumSearch):
    """A search of few steps, roughly: only a trial that is gone on from gets its tangent, a third of what a last step takes."""

    # Of the last design they serve from farther away than where one load follows another, with up to three times the iterations:
    # 30 changes of a bellows take 12 factorisations and 36 CPU s in place of 20 and 42, of a gripper 14 for 22 in the same time.
    # From still farther, up to 3, they did not do in five changes of seven, of which each had tried them for .3 s.
    factor_reuse_residual: ClassVar[float] = 2.3

    # A change is answered in one to three steps, and the factors of the first serve the others and the next change: 30 changes
    # of a gripper take 35 s in place of 43, of a bellows 31 in place of 32.
    factor_patience: ClassVar[float] = 0.45

    trials: list[Configuration] = field(default_factory=list)

    def evaluate(self, problem: ShapeProblem, point: Configuration, target: LoadState, *, matrix: bool) -> Evaluation:
        """Return residuals, and the tangent at the start and where it is asked for again."""
        again = not self.trials or self.trials[-1] is point
        self.trials[:] = [point]
        return super().evaluate(problem, point, target, matrix=matrix and again)

    def accuracy(self, measure: tuple[float, ...]) -> float:
        """Return how accurately the next step is worth solving: just enough where it can be the last.

        Measured over 30 changes of a gripper: 104 iterations and 22 factorisations in place of 164 and 25, in as many steps.
        """
        tight = 0.01 * self.tolerance
        needed = min(goal / max(value, MIN_DIVISOR) for goal, value in zip((self.tolerance, tight, tight), measure))
        return float(np.clip(0.3 * needed, 1e-4, 0.1))


def started(
    solver: EnergyShapeSolver, old: ShapeState, robot: VolumetricRobot, environment: Environment
) -> ShapeState | None:
    """Return the state of a robot that a step begins from, deformed as the last one is; None where there is none."""
    around = old.problem.environment.obstacles
    if any(o.free or o.friction for o in (*environment.obstacles, *around)) or len(around) != len(
        environment.obstacles
    ):
        return None  # where something rubs, or lets go, a shape depends on the way
    moved = not np.array_equal(robot.vertices, old.robot.vertices)
    nodes = carried_over(old, robot.vertices) if moved else old.frame.nodes
    initial = replace(old, measured=replace(old.frame, nodes=nodes), contact_state=None, before=())
    try:
        state = solver.start(robot, environment, initial)
    except InputError:
        return None
    return replace(state, problem=with_factors_of(old.problem, state.problem))


def with_factors_of(old: ShapeProblem, problem: ShapeProblem) -> ShapeProblem:
    """Return a problem that goes on with the factors of another, which precondition its own, where they couple the same unknowns.

    Their number alone does not tell: a finite bulk modulus couples the pressures, a cable moves to other elements.
    """
    own, new = old.pattern, problem.pattern
    alike = np.array_equal(own.indptr, new.indptr) and np.array_equal(own.indices, new.indices)
    return replace(problem, pattern=own, linear=old.linear) if alike else problem


def carried_over(state: ShapeState, vertices: Floats) -> Floats:
    """Return positions of all nodes [m] of a moved mesh (n, 3) that is deformed as the state's is.

    The positions whose gradients on the moved tets are nearest to those of the state, held vertices at rest.
    """
    robot, nodes, tets = state.robot, state.frame.nodes, state.robot.body_tets
    gradients = nodes[tets].transpose(0, 2, 1) @ topology.tet_gradients(robot.vertices, tets)
    start = vertices + (nodes[: len(vertices)] - robot.vertices)
    out = DeformationFit(vertices, tets, robot.fixed).positions(gradients, start)
    ends = robot.p2_edges
    bulge = nodes[len(vertices) :] - 0.5 * nodes[: len(vertices)][ends].sum(axis=1)
    return np.vstack([out, 0.5 * out[ends].sum(axis=1) + bulge])
