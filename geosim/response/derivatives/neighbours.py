"""Neighbours of a problem that is solved: what their residuals are where it balances, and their equilibria to first order.

At an equilibrium z of the problem q the residual R(z; q) = 0. A neighbour q' (another constant of the material, another
pressure, a thicker wall on the same mesh) has its equilibrium at

    z' = z - K(z; q)^-1 (R(z; q') - R(z; q)) + O((q' - q)^2),

with K the exact tangent, factorised once a frame for all neighbours. Measures of z' are those of the neighbour itself, so
that whatever is observed of its result has the total derivative. A neighbour has the units of the problem beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factorise import FactorisationError
from geosim.material import tensors
from geosim.model.actuation import Command
from geosim.model.contract import Report, Status
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.tangent import Change, Tangent
from geosim.result import Result, collect
from geosim.shape.energy import measures
from geosim.shape.energy.problem import ShapeProblem, imperfect_robot, make_problem, max_shear_moduli
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import LoadState


def difference(tangent: Tangent, problem: ShapeProblem, target: LoadState) -> Change:
    """Return what a neighbour and its target change at an equilibrium."""
    own, here, state, contact_state = tangent.problem, tangent.evaluation, tangent.state, tangent.contact_state
    point = state.point
    if contact_state is not None and target.contact_state is not None:
        contact_state = contact_state.at(target.contact_state.poses)
    if contact_state is not None and problem.contact is not None:
        contact_state = problem.contact.settled(point.x, contact_state)
    there = problem.evaluate(
        point.x, point.p, point.scalar_forces, target.external, matrix=False, contact_state=contact_state
    )
    count = len(point.x)
    known = np.zeros(len(own.held))
    moves = target.positions[:count] - state.target.positions[:count]
    known[: moves.size] = np.where(own.held[: moves.size], moves.ravel(), 0.0)
    motion = np.zeros((own.groups, 6))
    if own.rigid is not None:
        motion = own.rigid.motion(point.x, target.positions[count:])
    return Change(
        np.concatenate([(here.force - there.force).ravel(), here.constraint - there.constraint]),
        (target.goals(point) - there.scalars) - (state.target.goals(point) - here.scalars),
        known,
        target.scalar_forces - state.target.scalar_forces,
        motion,
    )


@dataclass
class Neighbourhood:
    """Equilibria of one problem, and how its neighbours differ from them.

    Parameters
    ----------
    solver, robot, environment
        The problem that was solved.
    states
        Its equilibria, one a frame.
    """

    solver: EnergyShapeSolver
    robot: VolumetricRobot
    environment: Environment
    states: Sequence[ShapeState]
    _tangent: Tangent | None = None

    @classmethod
    def around(cls, solver: Any, robot: Any, environment: Any, states: Sequence[Any]) -> Neighbourhood | None:
        """Return the neighbourhood of solved states; None where first order is not enough: contact, gas, another solver."""
        good = (
            isinstance(solver, EnergyShapeSolver)
            and bool(states)
            and all(
                isinstance(s, ShapeState) and s.measured is not None and not s.frame.contact_count > 0 for s in states
            )
            and all(not s.target.closed and s.point.hold is None and s.target.free_bodies is None for s in states)
        )
        return cls(solver, robot, environment, tuple(states)) if good else None

    def results(self, neighbours: Sequence[tuple[Any, Any, Any, Environment]]) -> list[Result | None]:
        """Return the results of neighbours (solver, robot, actuation, environment) to first order.

        None where there is no neighbour: another mesh, other supports or another solver.
        """
        problems = [self._problem(solver, robot, environment) for solver, robot, _, environment in neighbours]
        found: list[list[ShapeState] | None] = [None if p is None else [] for p in problems]
        for i in range(len(self.states)):
            for k, (problem, (_, robot, actuation, _)) in enumerate(zip(problems, neighbours)):
                reached = found[k]
                if problem is None or reached is None:
                    continue
                commands = self.solver.commands(robot, actuation)
                near = self._state(i, problem, commands[i]) if len(commands) == len(self.states) else None
                found[k] = None if near is None else [*reached, near]
            self._tangent = None
        out: list[Result | None] = []
        for reached, (_, _, _, environment) in zip(found, neighbours):
            if reached is None:
                out.append(None)
                continue
            reports = [Report(Status.CONVERGED)] * len(reached)
            out.append(collect(reached[0].robot, environment, self.solver, reached, reports))
        return out

    def _state(self, i: int, problem: ShapeProblem, command: Command) -> ShapeState | None:
        """Return the equilibrium of a neighbour at a frame, None where it cannot be had."""
        state = self.states[i]
        there = replace(state, problem=problem, contact_state=None)
        target = self.solver.target(problem, there, command)
        if (target.by_value != state.target.by_value).any():
            return None
        tangent = self._tangent = self._tangent or Tangent.at(state)
        try:
            rates = tangent.respond(difference(tangent, problem, target))
        except FactorisationError:
            return None
        point = rates.from_point(tangent.problem, state.point)
        point = replace(point, scalar_forces=np.where(target.by_value, point.scalar_forces, target.scalar_forces))
        evaluation = problem.evaluate(point.x, point.p, point.scalar_forces, target.external, matrix=False)
        if not np.isfinite(evaluation.energy):
            return None
        frame = measures.measure(problem, point, evaluation, state.frame.residual, target, None)
        return replace(there, point=point, target=target, scalars=evaluation.scalars, measured=frame)

    def _problem(self, solver: Any, robot: Any, environment: Environment) -> ShapeProblem | None:
        """Return the discrete problem of a neighbour, None if its unknowns are others."""
        mine, own = self.robot, self.states[0].problem
        if solver != self.solver or not isinstance(robot, VolumetricRobot):
            return None
        if robot.tets is not mine.tets and not np.array_equal(robot.tets, mine.tets):
            return None
        same = all(np.array_equal(getattr(robot, k), getattr(mine, k)) for k in ("regions", "fixed", "tip"))
        if not same or list(robot.materials) != list(mine.materials):
            return None
        same = environment is self.environment and np.array_equal(robot.vertices, mine.vertices)
        bent = imperfect_robot(robot, solver.imperfection)
        return neighbour(own, bent, environment, solver, same_shape=same, apart=True)


def neighbour(
    own: ShapeProblem,
    robot: VolumetricRobot,
    environment: Environment,
    solver: EnergyShapeSolver,
    *,
    same_shape: bool = False,
    apart: bool = False,
) -> ShapeProblem | None:
    """Return the discrete problem of a robot with the same mesh, None if its unknowns are others.

    Parameters
    ----------
    own
        A problem of that mesh.
    robot, environment, solver
        What is solved.
    same_shape
        Whether nothing but materials differs from `own`.
    apart
        Whether no parts of the robot touch each other.
    """
    quick = _of_other_materials(own, robot) if same_shape else None
    if quick is not None:
        return quick
    of_parts = [(e.self_contact, e.exclude_pairs) for e in (environment, own.environment)]
    made = make_problem(
        robot,
        environment,
        own.element.order,
        solver.factoriser,
        isochoric=solver.isochoric,
        contact_thickness=solver.contact_thickness,
        like=own,
        apart=apart and of_parts[0] == of_parts[1],
    )
    alike = np.array_equal(made.held, own.held) and made.groups == own.groups
    return made if alike else None


def _of_other_materials(problem: ShapeProblem, robot: VolumetricRobot) -> ShapeProblem | None:
    """Return a problem with the materials of another robot, in the same units."""
    new, old = list(robot.materials.values()), list(problem.robot.materials.values())
    finite: Floats = np.array([np.isfinite([a.bulk_modulus, b.bulk_modulus]) for a, b in zip(new, old)])
    if (finite[:, 0] != finite[:, 1]).any() or [m.density for m in new] != [m.density for m in old]:
        return None
    isochoric = bool((problem.table == problem.isochoric_table).all())
    contact = problem.contact
    if contact is not None:
        moduli = max_shear_moduli(problem.mesh, new, problem.stress)
        contact = replace(contact, moduli=moduli)
    return replace(
        problem,
        robot=robot,
        contact=contact,
        table=tensors.table(new, problem.stress, isochoric=isochoric),
        isochoric_table=tensors.table(new, problem.stress, isochoric=True),
    )
