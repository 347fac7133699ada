"""One equilibrium on the mesh with every tet split into eight: by a Newton step from the shape that the coarse mesh found.

    K_f dz = -R_f(z),      m_f - m = m(z + dz) - m(z),

with residual and tangent of the fine mesh at the coarse equilibrium z. As the meshes are nested R_f is what z leaves
out of balance between its own functions. Some steps more with the same factors take in what is not linear. Without
convergence, or in contact (which has kinks), the solver continues to the end. With friction, whose history the fine
mesh lacks, or free objects, the commands are solved on it from rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.linear.factorise import FactorisationError
from geosim.model.actuation import Actuation, Command
from geosim.model.environment import Environment
from geosim.response.accuracy.refined import Refined, refine
from geosim.response.derivatives.equilibrium import equilibrium
from geosim.response.derivatives.quantities import (
    Bending,
    ContactConfiguration,
    FromRest,
    Gauged,
    Measure,
    OfPositions,
    quantity,
)
from geosim.response.derivatives.tangent import Tangent
from geosim.result import Result
from geosim.shape.energy import measures
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.measures import placed
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Configuration

# Of the body, on the fine mesh. A factorisation of so many takes some minutes and 10 GB; a coarse mesh of more than an eighth
# of it is better made by `adapt` in the first place.
MAX_FINE_TETS = 250_000


# Steps with the factors of the first, which cost little: where walls are coarse one alone overshoots several times. They have
# settled when the last is this share of all of them together, far below the safety factor of a bar.
MAX_CHORD_STEPS, CHORD_TOLERANCE_REL = 8, 0.02


# Beside the factor of the rate: with r = 0.89, as coarse meshes had it where singular and smooth parts of the error are of either
# sign, that of r = 1.09 and this one are the same.
SAFETY_FACTOR = 1.15


def bar_factor(rate: float) -> float:
    """Return the bar over what halved edges change of a measure, whose errors go like a power of the edges."""
    return float(SAFETY_FACTOR / (1.0 - 0.5**rate))


# Errors that go like h: of contact, which is felt from a distance of a share of the edge on, and of rods, whose outer half edges
# bend with no stencil.
LINEAR_BAR_FACTOR = bar_factor(1.0)  # 2.3


def with_least_components(bar: Floats) -> Floats:
    """Return a bar with no component far below the largest: one may change less by chance, not since it is known better.

    The direction of an error is found less well than its size: the smallest change of a tower's tip was two thirds of the
    largest.
    """
    min_component_error_share = 0.3
    return np.maximum(bar, min_component_error_share * float(bar.max(initial=0.0)))


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
        Of the fine mesh, there; None with free objects, which have none.
    point, contact_state
        The equilibrium of the fine mesh, and what it holds on to.
    touches
        Whether anything is in contact.
    solver
        That both are solved by.
    """

    state: ShapeState
    refined: Refined
    start: ShapeState
    tangent: Tangent | None
    point: Configuration
    contact_state: ContactState | None
    touches: bool
    solver: EnergyShapeSolver

    def values(self, of: str | Measure) -> tuple[Floats, Floats, Floats]:
        """Return a measure in SI units: on the coarse mesh, of the fine shape read on the coarse mesh, and on the fine one.

        The tip, the centre line and gauges are means over vertices or windows of a mesh. The mesh therefore also has a
        reading error, which can hide the error of the shape. Others belong to one mesh: then both of the last are the
        same.
        """
        coarse, fine = self.state.problem, self.start.problem
        here = ContactConfiguration.at(self.state)
        there = ContactConfiguration(fine, self.point, self.contact_state, self.start.target.external)
        asked = quantity(of, coarse, here)
        value, finer = asked.value(here), quantity(of, fine, there).value(there)
        if not isinstance(asked, (OfPositions, FromRest, Bending, Gauged)):
            return value, finer, finer
        x = coarse.scaled(placed(fine, self.point.x)[coarse.nodes])
        read = asked.value(ContactConfiguration(coarse, replace(self.state.point, x=x), None))
        return value, read, finer


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
    if state.robot.layers:
        raise InputError("error_bars: a robot with layers is not refined, since their faces belong to the mesh")
    free_bodies = state.target.free_bodies is not None
    gas, continued = state.target.closed, bool(result.provenance.get("continued"))
    if gas and continued:
        raise InputError(
            "error_bars: the solve began from another result, so the enclosed gas is not known on the refined mesh; "
            "give all commands in one solve"
        )
    count = 8 * len(state.robot.body_tets)
    if count > MAX_FINE_TETS:
        raise InputError(
            f"error_bars: the mesh of {count // 8} tets would be refined to {count}; at most {MAX_FINE_TETS} are, so start "
            f"from a larger max_edge"
        )
    refined = refine(state.robot)
    environment = refined.environment(state.problem.environment)
    assert result.actuation is not None
    command = result.actuation.command(frame)
    start = _start(solver, environment, state, refined, command)
    try:
        tangent = None if free_bodies else Tangent.at(start)
        touches = tangent is None or _touches(state, tangent)
        point = None if tangent is None or touches else _stepped(start, tangent)
    except FactorisationError as error:
        raise InputError(f"error_bars: the equilibrium has no unique tangent on the refined mesh ({error})") from None
    contact_state = None if tangent is None else tangent.contact_state
    if point is None:
        rubs = free_bodies or (state.problem.contact is not None and state.problem.contact.friction)
        if rubs and continued:
            raise InputError(
                "error_bars: the solve began from another result, so its friction and motion cannot be repeated on the "
                "refined mesh; give all commands in one solve"
            )
        afresh = rubs or gas  # from the present shape the gas would be shut in there
        found = _again(solver, start, result.actuation, frame) if afresh else _followed(solver, start, command)
        point, contact_state = found.point, found.target.contact_state
        if not np.array_equal(found.lost, state.lost):
            raise InputError(
                "error_bars: a free object is lost on one of the coarse and the refined mesh alone; refine it"
            )
    return Correction(state, refined, start, tangent, point, contact_state, touches, solver)


def _start(
    solver: EnergyShapeSolver, environment: Environment, state: ShapeState, refined: Refined, command: Command
) -> ShapeState:
    """Return the coarse equilibrium on the fine mesh, with what is asked of it there."""
    blank = replace(solver, imperfection=0.0).start(refined.robot, environment)
    problem = blank.problem
    point = refined.prolonged(state.problem, state.point, problem)
    contact_state = None if problem.contact is None else problem.contact.start(point.x)
    target = solver.target(problem, replace(blank, contact_state=contact_state), command)
    target = replace(target, positions=problem.goal(point.x, target.positions))
    here = problem.evaluate(
        point.x, point.p, point.scalar_forces, target.external, matrix=False, contact_state=target.contact_state
    )
    measured = measures.measure(problem, point, here, np.nan, target, None)
    return replace(
        blank, point=point, target=target, scalars=here.scalars, contact_state=target.contact_state, measured=measured
    )


def _touches(state: ShapeState, tangent: Tangent) -> bool:
    """Whether anything is in contact, on either mesh."""
    fine = tangent.evaluation.contact
    return (fine is not None and fine.count > 0) or state.frame.contact_count > 0


def _stepped(start: ShapeState, tangent: Tangent) -> Configuration | None:
    """Return the point that a Newton step and further ones with the same factors lead to; None where they do not settle."""
    problem, point, here = start.problem, start.point, tangent.evaluation
    size, target = point.x.size, start.target
    for _ in range(MAX_CHORD_STEPS):
        right = np.concatenate([-here.force.ravel(), -here.constraint])
        change = replace(
            tangent.still, right=np.where(problem.held, 0.0, right), gap=target.goals(point) - here.scalars
        )
        rates = tangent.respond(change)
        point = rates.from_point(problem, point)
        here = problem.evaluate(
            point.x, point.p, point.scalar_forces, target.external, matrix=False, contact_state=target.contact_state
        )
        if not np.isfinite(here.energy) or (here.contact is not None and here.contact.count):
            return None
        if np.linalg.norm(rates.unknowns[:size]) <= CHORD_TOLERANCE_REL * np.linalg.norm(point.x - start.point.x):
            return point
    return None


def _followed(solver: EnergyShapeSolver, start: ShapeState, command: Command) -> ShapeState:
    """Return the equilibrium that the path from the coarse shape, held by what it lacks, leads to."""
    quick = replace(solver, check_stability=False, imperfection=0.0)
    begun = quick.start(start.robot, start.problem.environment, start)
    found, report = quick.step(begun, command)
    if not report.reached:
        raise InputError(
            f"error_bars: no equilibrium is found on the refined mesh near that of the coarse one: {report.message}"
        )
    return found


def _again(solver: EnergyShapeSolver, start: ShapeState, actuation: Actuation, frame: int) -> ShapeState:
    """Return the equilibrium of a frame after the commands that led to it, solved on the fine mesh from rest."""
    quick = replace(solver, check_stability=False, imperfection=0.0)
    state = quick.start(start.robot, start.problem.environment)
    for i in range(frame + 1):
        state, report = quick.step(state, actuation.command(i))
        if not report.reached:
            raise InputError(f"error_bars: command {i + 1} is not reached on the refined mesh: {report.message}")
    return state
