"""Derivatives by rest positions: mesh velocities of design dimensions, derivative of the residuals.

The elements are differenced one by one, each with its own nodes. Twenty-four assemblies give the derivatives of all
element forces by all corners, to be contracted with any number of adjoints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geosim.arrays import Floats, einsum
from geosim.errors import InputError
from geosim.generate import Design, derivative
from geosim.geometry import topology
from geosim.geometry.surface_map import surface_map
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.tangent import Change
from geosim.shape.energy.discretisation import assembly
from geosim.shape.energy.discretisation.smoothing import SMOOTHING_SHARES
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import Configuration

# Of central differences by places: of an element's corners over its size, of a dimension over the robot's size, of an obstacle
# over the thickness of contact. They are off by its square, rounding by 1e-16 over it.
PLACE_STEP_REL = 1e-5


def design_motion(robot: VolumetricRobot, parameter: str) -> Floats:
    """Return how the vertices move with a dimension of the robot's design, see `design_motions`, (n, 3) [1]."""
    return design_motions(robot, (parameter,))[0]


def design_motions(robot: VolumetricRobot, parameters: Sequence[str]) -> list[Floats]:
    """Return how the vertices move with dimensions of the robot's design, at fixed connectivity, (n, 3) each [1].

    Vertices on the surfaces move with them, those between harmonically.

    Raises
    ------
    InputError
        The robot has no design, the design no such dimension, or it is a whole number.
    """
    # of the robot's size: vertices of a mesh lie on the surface it was made from to the rounding of files
    on_surface_rel = 1e-4
    if not isinstance(robot.design, Design):
        raise InputError(f"to = 'design.{parameters[0]}': this robot was not made from a design; use geosim.generate")
    design = robot.design
    ways = [(body, *chambers) for body, chambers in (derivative(design, parameter) for parameter in parameters)]
    places = surface_map(robot.vertices, robot.tets, robot.body_tets, (design.body, *design.chambers))
    if places.distance > on_surface_rel * robot.size:
        raise InputError(
            f"to = 'design.{parameters[0]}': the mesh lies up to {1e3 * places.distance:.3g} mm off the surfaces of its "
            f"design, so it cannot move with them; mesh the design again"
        )
    moved = places.carried([np.hstack(of_surface) for of_surface in zip(*ways)])
    return np.split(moved, len(parameters), axis=1)


def by_elements(problem: ShapeProblem, point: Configuration, duals: list[Change]) -> Floats:
    """Return the derivatives [1/m] of forces and constraints of the elements, paired with duals, (m, n, 3).

    Gravity goes along; supports, chambers, loads and contact do not.
    """
    mesh, el, robot = problem.mesh, problem.element, problem.robot
    count, width = mesh.tets.shape
    x, size = point.x[mesh.tets].reshape(-1, 3), 3 * len(point.x)
    push = np.array([d.right[:size].reshape(-1, 3)[mesh.tets] for d in duals])
    close = np.array([d.right[size:][mesh.pressure_tets] for d in duals])
    densities = np.array([m.density for m in robot.materials.values()])[mesh.material]
    gravity = problem.environment.gravity * (problem.length**3 / problem.force_unit)
    fallen = np.einsum("e,a,dea->de", densities, el.share, push @ gravity)
    alone = (np.arange(count * width).reshape(count, width), np.arange(4 * count).reshape(count, 4))
    corners = problem.rest[mesh.tets[:, :4]]
    step = PLACE_STEP_REL * np.cbrt(mesh.volumes)

    by_volume, by_slopes = _by_domains(problem, point, push)

    def works(moved: Floats) -> Floats:
        inverse = np.linalg.inv((moved[:, :3] - moved[:, 3:]).transpose(0, 2, 1))
        slopes = np.concatenate([inverse, -inverse.sum(axis=1, keepdims=True)], axis=1)
        volumes = topology.tet_volumes(moved.reshape(-1, 3), alone[1])
        own = mesh._replace(tets=alone[0], pressure_tets=alone[1], barycentric=slopes, volumes=volumes)
        force, scale, gaps = np.zeros_like(x), np.zeros(len(x)), np.zeros(4 * count)
        p = point.p[mesh.pressure_tets].ravel()
        nothing = np.zeros(0)
        assembly.assemble(
            x, p, own, problem.table, el.energy, el.constraint, el.linear, False,
            problem.pattern.places, nothing, force, scale, gaps,
        )  # fmt: skip
        out = np.einsum("deai,eai->de", push, force.reshape(count, width, 3))
        out += np.einsum("deaj,eaj->de", by_slopes, volumes[:, None, None] * slopes)
        return np.asarray(out + np.einsum("dev,ev->de", close, gaps.reshape(count, 4)) + (by_volume - fallen) * volumes)

    out = np.zeros((len(duals), len(robot.vertices), 3))
    for corner in range(4):
        ids = problem.nodes[mesh.tets[:, corner]]
        for axis in range(3):
            sides = []
            for sign in (1.0, -1.0):
                moved = corners.copy()
                moved[:, corner, axis] += sign * step
                sides.append(works(moved))
            slope = (sides[1] - sides[0]) / (2.0 * step)
            for d, row in enumerate(slope):
                np.add.at(out[d, :, axis], ids, row)
    return out / problem.length


def _by_domains(problem: ShapeProblem, point: Configuration, push: Floats) -> tuple[Floats, Floats]:
    """Return what the work of the smoothed strain changes by volumes V_e (d, m) and by V_e times slopes of tets (d, m, 4, 3).

    With G_k as F_k, of the duals `push` (d, m, 4, 3), the work is sum_k V_k P_k : G_k; as V_k F_k = sum_e s V_e F_e, it changes
    by -dV_k H_k : F_k + H_k : d(V_k F_k) + P_k : d(V_k G_k), H_k = A_k : G_k.
    """
    domains, mesh = problem.smoothing, problem.mesh
    if domains is None:
        return np.zeros(push.shape[:2]), np.zeros((*push.shape[:2], 4, 3))
    F, (P, A) = domains.deformations(point.x), domains.tangents(point.x, problem.table)
    parts = np.einsum("deai,eaj,e,s->desij", push, mesh.barycentric, mesh.volumes, SMOOTHING_SHARES)
    G = np.zeros((len(push), *F.shape))
    for d, part in enumerate(parts):
        np.add.at(G[d], domains.of_tets, part)
    H = np.einsum("krs,dks->dkr", A, (G / domains.volumes[:, None, None]).reshape(*G.shape[:2], 9)).reshape(G.shape)

    def of_tets(values: Floats) -> Floats:
        return einsum("...sij,s->...ij", values[..., domains.of_tets, :, :], SMOOTHING_SHARES)

    by_slopes = einsum("deij,eai->deaj", of_tets(H), point.x[mesh.tets])
    by_slopes += einsum("eij,deai->deaj", of_tets(P), push)
    return -np.einsum("dkij,kij->dk", H, F)[:, domains.of_tets] @ SMOOTHING_SHARES, by_slopes


def places_adjoint(problem: ShapeProblem, slopes: Floats) -> Floats:
    """Return derivatives by the rest positions of the vertices [1/m] (m, n, 3) of held places, given those by them, scaled."""
    robot = problem.robot
    n = len(robot.vertices)
    all_nodes = np.zeros((len(slopes), n + len(robot.p2_edges), 3))
    all_nodes[:, problem.nodes] = slopes
    out = all_nodes[:, :n].copy()
    for end in range(2):
        for d, row in enumerate(all_nodes[:, n:]):
            np.add.at(out[d], robot.p2_edges[:, end], 0.5 * row)
    return out / problem.length


def by_volumes(problem: ShapeProblem) -> tuple[Floats, Floats]:
    """Return the derivatives of the chambers' rest volumes, and of the part behind caps, by the vertices [m^2], (c, n, 3).

    Raises
    ------
    InputError
        A chamber is closed by a rigid group or in a plane of symmetry.
    """
    robot = problem.robot
    if problem.closed.rigid or problem.closed.sliding:
        raise InputError("to = 'vertices': not known where chambers are closed by a rigid group or a plane of symmetry")
    at = robot.vertices - problem.center
    out = np.zeros((2, robot.chambers, len(at), 3))
    for c, (walls, caps) in enumerate(zip(robot.chamber_walls, robot.chamber_caps)):
        for faces, kinds in ((walls, (0,)), (caps, (0, 1))):
            for i in range(3):
                across = np.cross(at[faces[:, (i + 1) % 3]], at[faces[:, (i + 2) % 3]]) / 6.0
                for kind in kinds:
                    np.add.at(out[kind, c], faces[:, i], across)
    return out[0], out[1]
