"""One equilibrium on the mesh with every tet split into eight: by a Newton step from the shape that the coarse mesh found.

    K_f dz = -R_f(z),      m_f - m = m(z + dz) - m(z),

with residual and tangent of the fine mesh at the coarse equilibrium z. As the meshes are nested R_f is what z leaves out of
balance between its own functions. Where the robot touches something one step is not enough, since contact has kinks: the
solver goes on to the end; and with friction, whose history the fine mesh has not seen, the commands are solved on it from rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.accuracy.refined import Refined, refine
from geosim.actuation import Actuation, Command
from geosim.arrays import Floats
from geosim.derivatives.quantities import Configuration, Measure, quantity
from geosim.derivatives.tangent import Tangent
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.linear.factorise import FactorisationError
from geosim.result import Result
from geosim.shape.energy import frames
from geosim.shape.energy.configuration import Point
from geosim.shape.energy.grip import Grip
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.tangent import equilibrium
from geosim.solve import solve

__all__ = ["MOST_TETS", "Correction", "correct"]

# Of the body, on the fine mesh. A factorisation of so many takes some minutes and 10 GB; a coarse mesh of more than an eighth
# of it is better made by `adapt` in the first place.
MOST_TETS = 250_000


@dataclass(frozen=True)
class Correction:
    """An equilibrium and where it moves on the fine mesh.

    Parameters
    ----------
    state
        The equilibrium.
    refined
        The fine mesh.
    start
        The same shape on the fine mesh.
    tangent
        Of the fine mesh, there.
    point, grip
        The equilibrium of the fine mesh, and what it holds on to.
    """

    state: ShapeState
    refined: Refined
    start: ShapeState
    tangent: Tangent
    point: Point
    grip: Grip | None

    def values(self, of: str | Measure) -> tuple[Floats, Floats]:
        """Return a measure on the coarse mesh and on the fine one, in SI units."""
        coarse = Configuration(self.state.problem, self.state.point, self.state.target.grip)
        fine = Configuration(self.start.problem, self.point, self.grip)
        out = []
        for at in (coarse, fine):
            out.append(np.asarray(quantity(of, at.problem, at).value(at), dtype=float))
        return out[0], out[1]


def correct(result: Result, frame: int) -> Correction:
    """Return where an equilibrium moves on the mesh with every tet split into eight.

    Raises
    ------
    InputError
        The frame is no equilibrium, the mesh is too large, or the fine mesh has no equilibrium near.
    """
    frame = result.checked_frame(frame)
    state = equilibrium(result, frame)
    solver = result.solver
    assert isinstance(solver, EnergyShapeSolver)
    count = 8 * len(state.robot.body_tets)
    if count > MOST_TETS:
        raise InputError(
            f"error_bars: the mesh of {count // 8} tets would be refined to {count}; at most {MOST_TETS} are, so start "
            f"from a larger max_edge"
        )
    refined = refine(state.robot)
    environment = refined.environment(state.problem.environment)
    assert result.actuation is not None
    command = result.actuation.command(frame)
    start = _start(solver, environment, state, refined, command)
    try:
        tangent = Tangent.at(start)
        point = None if _touches(state, tangent) else _stepped(start, tangent)
    except FactorisationError as error:
        raise InputError(f"error_bars: the equilibrium has no unique tangent on the refined mesh ({error})") from None
    grip = tangent.grip
    if point is None:
        rubs = state.problem.contact is not None and state.problem.contact.friction
        found = _again(solver, start, result.actuation) if rubs else _followed(solver, start, command)
        point, grip = found.point, found.target.grip
    return Correction(state, refined, start, tangent, point, grip)


def _start(
    solver: EnergyShapeSolver, environment: Environment, state: ShapeState, refined: Refined, command: Command
) -> ShapeState:
    """Return the coarse equilibrium on the fine mesh, with what is asked of it there."""
    blank = replace(solver, imperfection=0.0).start(refined.robot, environment)
    problem = blank.problem
    point = refined.prolonged(state.problem, state.point, problem)
    grip = None if problem.contact is None else problem.contact.start(point.x)
    target = solver.target(problem, replace(blank, grip=grip), command)
    target = replace(target, positions=problem.goal(point.x, target.positions))
    here = problem.evaluate(point.x, point.p, point.chamber_pressures, target.external, matrix=False, grip=target.grip)
    measured = frames.measure(problem, point, here, np.nan, target.grip, None)
    return replace(blank, point=point, target=target, volumes=here.volumes, grip=target.grip, measured=measured)


def _touches(state: ShapeState, tangent: Tangent) -> bool:
    """Whether anything is in contact, on either mesh."""
    fine = tangent.evaluation.contact
    return (fine is not None and fine.count > 0) or state.frame.contact_count > 0


def _stepped(start: ShapeState, tangent: Tangent) -> Point:
    """Return the point one Newton step away."""
    problem, point, here = start.problem, start.point, tangent.evaluation
    right = np.concatenate([-here.force.ravel(), -here.constraint])
    change = replace(tangent.still, right=np.where(problem.held, 0.0, right), gap=start.target.volumes - here.volumes)
    rates = tangent.respond(change)
    size = point.x.size
    x = problem.moved(point.x, rates.unknowns[:size].reshape(-1, 3), 1.0)
    return Point(x, point.p + rates.unknowns[size:], point.chamber_pressures + rates.pressures)


def _followed(solver: EnergyShapeSolver, start: ShapeState, command: Command) -> ShapeState:
    """Return the equilibrium that the path from the coarse shape, held by what it lacks, leads to."""
    quick = replace(solver, check_stability=False, imperfection=0.0)
    begun = quick.start(start.robot, start.problem.environment, start)
    found, report = quick.step(begun, command)
    if not report.reached:
        raise InputError(f"error_bars: no equilibrium in contact is found on the refined mesh: {report.message}")
    return found


def _again(solver: EnergyShapeSolver, start: ShapeState, actuation: Actuation) -> ShapeState:
    """Return the equilibrium at the end of all commands, solved on the fine mesh."""
    quick = replace(solver, check_stability=False, imperfection=0.0)
    found = solve(start.robot, actuation, start.problem.environment, solver=quick, throw=False)
    if not found.converged or not isinstance(found.state, ShapeState):
        raise InputError(f"error_bars: the commands are not reached on the refined mesh: {found.message}")
    return found.state
