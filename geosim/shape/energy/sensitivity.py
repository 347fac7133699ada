"""Solutions of neighbouring problems to first order, from equilibria that are known: no solve, one factorisation a frame.

At an equilibrium z of the problem q the residual R(z; q) = 0. A neighbour q' (another constant of the material, another
pressure, a thicker wall on the same mesh) has its equilibrium at

    z' = z - K(z; q)^-1 (R(z; q') - R(z; q)) + O((q' - q)^2),

with K the tangent of Newton's method, factorised once a frame for all neighbours. Measures of z' are those of the
neighbour itself, so that whatever is observed of its result has the total derivative. R is taken in physical units:
the problems may be scaled differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.actuation import Command
from geosim.arrays import Floats
from geosim.contract import Report, Status
from geosim.environment import Environment
from geosim.linear.factorise import FactorisationError
from geosim.material import tensors as constitutive
from geosim.result import Result, collect
from geosim.robot import VolumetricRobot
from geosim.shape.energy import frames
from geosim.shape.energy.configuration import Aim, Evaluation, Point, Target
from geosim.shape.energy.newton import Newton
from geosim.shape.energy.problem import ShapeProblem, make_problem
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState

__all__ = ["Neighbourhood"]

ACCURACY = 1e-9  # of the linear solves


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
    _tangent: Evaluation | None = None

    @classmethod
    def around(cls, solver: Any, robot: Any, environment: Any, states: Sequence[Any]) -> Neighbourhood | None:
        """Return the neighbourhood of solved states; None where first order is not enough: contact, another solver."""
        good = (
            isinstance(solver, EnergyShapeSolver)
            and bool(states)
            and all(
                isinstance(s, ShapeState) and s.measured is not None and not s.frame.contact_count > 0 for s in states
            )
        )
        return cls(solver, robot, environment, tuple(states)) if good else None

    def results(self, neighbours: Sequence[tuple[Any, Any, Any, Environment]]) -> list[Result | None]:
        """Return the results of neighbours (solver, robot, actuation, environment) to first order.

        None stands where a neighbour is none: another mesh, other supports or another solver.
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
        there = replace(state, problem=problem, grip=None)
        target = self.solver._target(problem, there, command)
        if (target.by_volume != state.target.by_volume).any():
            return None
        try:
            point = self._point(i, problem, target)
        except FactorisationError:
            return None
        evaluation = problem.evaluate(point.x, point.p, point.chamber_pressures, target.external, matrix=False)
        if not np.isfinite(evaluation.energy):
            return None
        frame = frames.measure(problem, point, evaluation, state.frame.residual, None, None)
        return replace(there, point=point, target=target, volumes=evaluation.volumes, measured=frame)

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
        if environment is self.environment and np.array_equal(robot.vertices, mine.vertices):
            quick = _of_other_materials(own, robot)
            if quick is not None:
                return quick
        made = make_problem(
            robot,
            environment,
            own.element.order,
            solver.factoriser,
            isochoric=solver.invariants == "isochoric",
            contact_thickness=solver.contact_thickness,
            imperfection=solver.imperfection,
        )
        alike = (
            made.pattern.size == own.pattern.size and np.array_equal(made.held, own.held) and made.groups == own.groups
        )
        return made if alike else None

    def _point(self, i: int, problem: ShapeProblem, target: Target) -> Point:
        """Return the configuration of a neighbour at a frame, in its own units."""
        state = self.states[i]
        own, point = state.problem, state.point
        if self._tangent is None:
            self._tangent = own.evaluate(point.x, point.p, point.chamber_pressures, state.target.external, matrix=True)
        here = self._tangent
        length, stress = problem.length / own.length, problem.stress / own.stress
        offset = (problem.center - own.center) / own.length
        x = (point.x - offset) / length
        pressures = point.chamber_pressures / stress
        there = problem.evaluate(
            x, point.p / stress, np.where(target.by_volume, pressures, target.pressures), target.external, matrix=False
        )
        # the residual of the neighbour in the units of this problem, of which that of the frame itself is taken off
        changed = replace(
            here,
            force=there.force * (stress * length**2) - here.force,
            constraint=there.constraint * length**3 - here.constraint,
            volumes=there.volumes * length**3,
        )
        count = len(point.x)
        displacements, rotations = np.split(target.positions[count:], 2)
        moved = np.vstack([point.x + length * (target.positions[:count] - x), length * displacements, rotations])
        gap = Target(
            target.by_volume,
            target.volumes * length**3 + here.volumes - state.target.volumes,
            point.chamber_pressures,
            state.target.external,
            moved,
        )
        aim = Aim(gap, gap, 1.0, None)
        newton = Newton(self.solver.tolerance, self.solver.max_iterations)
        step = newton.direction(own, point, aim, changed, ACCURACY, reuse=True)
        nearby = np.where(
            target.by_volume, (point.chamber_pressures + step.chamber_pressures) / stress, target.pressures
        )
        return Point((own.moved(point.x, step.x, 1.0) - offset) / length, (point.p + step.p) / stress, nearby)


def _of_other_materials(problem: ShapeProblem, robot: VolumetricRobot) -> ShapeProblem | None:
    """Return a problem with the materials of another robot, in the same units."""
    new, old = list(robot.materials.values()), list(problem.robot.materials.values())
    finite: Floats = np.array([np.isfinite([a.bulk_modulus, b.bulk_modulus]) for a, b in zip(new, old)])
    if (finite[:, 0] != finite[:, 1]).any() or [m.density for m in new] != [m.density for m in old]:
        return None
    isochoric = bool((problem.table == problem.isochoric_table).all())
    return replace(
        problem,
        robot=robot,
        table=constitutive.table(new, problem.stress, isochoric=isochoric),
        isochoric_table=constitutive.table(new, problem.stress, isochoric=True),
    )
