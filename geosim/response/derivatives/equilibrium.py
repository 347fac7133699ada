"""Linearised response at an equilibrium: the equilibrium of any frame, and the stiffness of its tip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.model.contract import taken
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.shape.energy.discretisation.loads import spread
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import ArcLengthConstraint


class NoUniqueTangentError(InputError):
    """A path folds or branches at an equilibrium."""


def equilibrium(result: Result, frame: int) -> ShapeState:
    """Return the equilibrium of a frame, counted from 0, with what is computed once: of a loaded result, too.

    Raises
    ------
    InputError
        The result is not one of the energy solver, does not know its actuation, or its frame does not balance.
    """
    # tolerances: a frame comes back from a file to the last digits, a wrong actuation misses by far more
    balanced_tolerances = 100.0
    state = result.state
    if isinstance(state, ShapeState) and state.is_frame and frame == len(result.frames) - 1:
        return state
    solver, pressures = result.solver, result.extra.get("mean_stress")
    if not isinstance(solver, EnergyShapeSolver) or result.actuation is None or pressures is None:
        raise InputError(
            "this frame has no known tangent: the result must come from EnergyShapeSolver, with its actuation"
        )
    robot = taken(result.robot, VolumetricRobot, "equilibrium")
    start = replace(solver, imperfection=0.0).start(robot, result.environment)  # the robot of a result has it already
    problem = start.problem
    if problem.constraints.rough or (problem.contact is not None and problem.contact.friction):
        raise InputError("sticking contacts are known only for the last frame of a result solved in this process")
    point = replace(
        start.point,
        x=problem.settled(problem.scaled(result.nodes(frame)[problem.nodes])),
        p=pressures[frame][problem.pressure_vertices] / problem.stress,
        scalar_forces=np.concatenate([c.recalled(result, frame, problem) for c in problem.constraints.members]),
    )
    point = replace(point, objects=problem.objects.places(result.obstacle_poses[frame]))
    start = replace(start, lost=~result.obstacle_held[frame, problem.objects.ids])
    contact_state = None if problem.contact is None else problem.contact.start(point.x)
    scalars = problem.evaluate(point.x, point.p, point.scalar_forces, np.zeros_like(point.x), matrix=False).scalars
    start = replace(start, point=point, contact_state=contact_state, scalars=scalars)
    target = solver.target(problem, start, result.actuation.command(frame))
    newton = EquilibriumSearch(solver.tolerance, solver.max_iterations)
    evaluation = newton.evaluate(problem, point, target, matrix=False)
    residual = newton.residuals(problem, point, target, evaluation)[0]
    if residual > balanced_tolerances * solver.tolerance:
        raise InputError(f"frame {frame} does not balance: its relative residual is {residual:.1e}")
    return replace(start, target=target, scalars=evaluation.scalars, contact_state=target.contact_state)


def tip_compliance(state: ShapeState) -> Floats:
    """Displacement of the tip [m/N] (3, 3), a column a force: spread over the tip as `Load.force` does, commands held."""
    compliance_accuracy = 1e-9  # of the linear solves
    problem, point, robot = state.problem, state.point, state.robot
    newton = EquilibriumSearch(compliance_accuracy, 1)
    here = newton.evaluate(problem, point, state.target, matrix=True)
    if problem.contact is not None:
        here = problem.sharpened(here)
    weights = spread(robot, robot.tip, problem.element.order)
    shares = (weights / weights.sum())[problem.nodes] / problem.force_unit
    still = replace(
        state.target,
        scalars=here.scalars,
        scalar_forces=point.scalar_forces,
        positions=problem.goal(point.x, state.target.positions),
    )
    aim = ArcLengthConstraint(still, still, 1.0, state.contact_state)
    out = np.empty((3, 3))
    for axis in range(3):
        force = -shares[:, None] * np.eye(3)[axis]
        loaded = replace(here, force=force, constraint=np.zeros_like(here.constraint))
        step = newton.direction(problem, point, aim, loaded, compliance_accuracy, reuse=axis > 0)
        out[:, axis] = robot.tip_weights @ step.x[problem.place[robot.tip]] * problem.length
    return out


def tip_stiffness(result: Result, frame: int) -> Floats:
    """Return the inverse of the tip's compliance [N/m], (3, 3), at a frame counted from 0.

    Raises
    ------
    InputError
        As `equilibrium`, or the tip is held.
    """
    compliance = tip_compliance(equilibrium(result, frame))
    if np.linalg.matrix_rank(compliance) < 3:
        raise InputError("tip_stiffness: the tip is held, so no force moves it")
    return np.asarray(np.linalg.inv(compliance), dtype=float)
