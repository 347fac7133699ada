"""sensitivity(result, of, to): the total derivative of a measure of an equilibrium."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.linear.factorise import FactorisationError
from geosim.response.derivatives.equilibrium import NoUniqueTangentError, equilibrium
from geosim.response.derivatives.parameters import Differences, columns, in_touch, refuse_closed
from geosim.response.derivatives.quantities import ContactConfiguration, Measure, OfChambers, OfSupports, quantity
from geosim.response.derivatives.rest_shape import PLACE_STEP_REL, by_elements, by_volumes, places_adjoint
from geosim.response.derivatives.rods import rod_sensitivity
from geosim.response.derivatives.tangent import Tangent
from geosim.result import Result
from geosim.rods.robot import RodShellRobot
from geosim.shape.energy.solver import EnergyShapeSolver


@guarded
@dataclass(frozen=True)
class Sensitivity:
    """The total derivative of a measure at an equilibrium, in SI units.

    Parameters
    ----------
    value
        The measure there.
    jacobian
        Its derivative, of the measure's shape and then the parameter's; nan where a parameter does not apply.
    of, to
        What was asked.
    history_frozen
        Whether friction is at work: then what sticks keeps the anchors that it had before the last increment.
    note
        "", or which change of touch or slip is so near that the derivative holds for tiny changes alone.
    """

    value: Floats
    jacobian: Floats
    of: str | Measure
    to: str
    history_frozen: bool
    note: str = ""

    def __post_init__(self) -> None:
        for array in (self.value, self.jacobian):
            array.setflags(write=False)


@guarded
def sensitivity(result: Result, of: str | Measure, to: str, frame: int = -1) -> Sensitivity:
    """Return the total derivative of a measure of an equilibrium by a parameter of its problem.

    With residuals R(z; q) = 0, tangent K and gradient g of the measure, dm/dq = -g^T K^-1 dR/dq + dm/dq at fixed z.
    This takes one factorisation, and one solve per value of the measure or per component of the parameter, whichever is
    fewer.

    Parameters
    ----------
    result
        Of `EnergyShapeSolver`, or of rods and `RodShellStepper(static=True)`.
    of
        "tip" [m] (3,), "tip_displacement" [m] (), "curvature" [1/m] (), "bend_angle" [rad] (), "chamber_pressures" [Pa] (c,),
        "chamber_volumes" [m^3] (c,), "obstacle_forces" [N] (o, 3), "grip_force" [N] (o,), "blocked_force" [N] (3,),
        "support_wrench" [N, N m] (6,), "max_stretch" (), "max_von_mises" [Pa] (), or f(positions (n, 3) [m]) -> (value,
        gradient (value.shape + (n, 3))).
    to
        "volume_ratio" or "pressure" (c,), whichever is prescribed; "material.c1" (), or that of a region, "material.0.c1";
        "load:0" (3,), a pressure (); "obstacle:0" (3,), a translation; "friction:0" (), its coefficient; "vertices" (n, 3), rest
        positions; "design.wall" (). Of rods "cable" (w,), "curvature" (S, 2) [1/m], natural, of every stencil about kappa1 and
        kappa2, "radius" (), "material.youngs_modulus" (), "material.density" ().
    frame
        Which equilibrium.

    Raises
    ------
    InputError
        The frame is no equilibrium, or there is no such measure or parameter.
    """
    if isinstance(result.robot, RodShellRobot):
        return Sensitivity(*rod_sensitivity(result, of, to, result.checked_frame(frame)), of, to, False)
    state = equilibrium(result, result.checked_frame(frame))
    solver = result.solver
    assert isinstance(solver, EnergyShapeSolver)
    tangent = Tangent.at(state)
    at = ContactConfiguration.of(tangent)
    asked = quantity(of, tangent.problem, at, result)
    made = Differences(tangent, asked, solver, result.checked_frame(frame))
    try:
        if to == "vertices":
            jacobian = _by_vertices(made)
        else:
            jacobian = made.jacobian(columns(made, to))
    except FactorisationError as error:
        raise NoUniqueTangentError(
            f"sensitivity: the equilibrium of this frame has no unique tangent ({error})"
        ) from None
    forces = tangent.evaluation.contact
    rubs = forces is not None and bool(np.abs(forces.drag).max(initial=0.0) > 0.0)
    note = "; ".join(filter(None, [_near_change(tangent), _known_error(of, to, rubs)]))
    return Sensitivity(np.array(asked.value(at)), jacobian, of, to, rubs, note)


def _known_error(of: str | Measure, to: str, rubs: bool) -> str:
    """Say how far off a kind of derivative was found, where it is more than differences of solves show."""
    if rubs and to.startswith("obstacle:"):
        return "derivatives by the place of a rough obstacle were found up to 0.4 % off"
    if of == "max_von_mises" and to.startswith(("design.", "vertices")):
        return "derivatives of the largest von Mises stress by a wall were found up to 3 % off"
    return ""


def _by_vertices(made: Differences) -> Floats:
    """Return the Jacobian by all rest positions: element by element, and one by one where loads or contact act."""
    tangent, asked = made.tangent, made.quantity
    problem, robot = tangent.problem, tangent.problem.robot
    if problem.rigid is not None:
        raise InputError("to = 'vertices': not known for robots with rigid groups; use 'design.NAME'")
    if problem.fabric is not None:
        raise InputError("to = 'vertices': not known for robots with layers or fibres; use 'design.NAME'")
    refuse_closed(tangent, "vertices")
    if isinstance(asked, OfSupports):
        raise InputError("to = 'vertices': not known for forces of supports; use 'design.NAME'")
    duals = [tangent.duals(tangent.adjoint(g), g) for g in asked.gradients(tangent)]
    out = by_elements(problem, tangent.state.point, duals)
    size = tangent.state.point.x.size
    out += places_adjoint(problem, np.array([d.known[:size].reshape(-1, 3) for d in duals]))
    if problem.chambers:
        rest, caps = by_volumes(problem)
        target = tangent.state.target
        ratios = np.where(target.by_value, target.scalars / problem.rest_chamber_volumes, 0.0)
        gaps = np.array([d.gap for d in duals]) / problem.length**3
        out += np.einsum("mc,cni->mni", gaps * ratios, rest) - np.einsum("mc,cni->mni", gaps, caps)
        if isinstance(asked, OfChambers) and asked.volumes:
            out += caps
    read = asked.rest_slopes(ContactConfiguration.of(tangent))
    out += 0.0 if read is None else read
    singly = in_touch(tangent)
    for vertex in np.union1d(singly, asked.touches).tolist():
        for axis in range(3):
            motion = np.zeros_like(robot.vertices)
            motion[vertex, axis] = 1.0
            if vertex in singly:
                column = made.along(motion)
                out[:, vertex, axis] = [d.paired(column.change) for d in duals] + column.explicit
            else:
                out[:, vertex, axis] += _read_directly(made, motion)
    return out.reshape((*asked.shape, *robot.vertices.shape))


def _read_directly(made: Differences, motion: Floats) -> Floats:
    """Return how a measure changes with rest positions while the shape stays."""
    problem, sides = made.tangent.problem, []
    step = PLACE_STEP_REL * problem.robot.size
    for h in (step, -step):
        moved = replace(problem, robot=problem.robot.moved(problem.robot.vertices + h * motion))
        sides.append(replace(ContactConfiguration.of(made.tangent), problem=moved))
    return made.quantity.difference(*sides) / (2.0 * step)


def _near_change(tangent: Tangent) -> str:
    """Say which points are about to let go or to slip."""
    # of Coulomb's limit and of the pressure's rise: what slips or touches so nearly does so within a small change
    near_change_rel = 0.02
    forces, contact, notes = tangent.evaluation.contact, tangent.problem.contact, []
    if forces is None or contact is None or not (forces.push > 0.0).any():
        return ""
    light = (forces.push > 0.0) & (forces.gap > -near_change_rel * contact.thickness)
    soon = (forces.push == 0.0) & (forces.gap < near_change_rel * contact.thickness) & contact.feels
    if (light | soon).any():
        notes.append(f"{int((light | soon).sum())} points are about to touch or to let go")
    for o, obstacle in enumerate(tangent.problem.environment.obstacles):
        limit = obstacle.friction * forces.push[o]
        held = np.linalg.norm(forces.drag[o], axis=1)
        near = int(((held < limit) & (held > (1.0 - near_change_rel) * limit)).sum())
        if near:
            notes.append(f"{near} points are about to slip on obstacle {o}")
    return "; ".join(notes)
