"""adapt(robot, actuation): a mesh that is fine where the error of a measure comes from, until its bar is met.

Start from a coarse mesh of the robot's surfaces, solve, and compute the error bar at the last command. Halve the edges
of the tets with most of the error (bulk criterion of [Doerfler, 1996]), and repeat. The meshes are graded at sharp
inner edges because the error is.

What every tet adds is the dual-weighted residual of the measure.

To first order the refined mesh changes a measure by lambda . (-R), with the residual R of the coarse shape and the
adjoint lambda, K^T lambda = g, both on the fine mesh. On the coarse functions R vanishes but for quadrature, so its
interpolation may be subtracted from lambda. lambda - I lambda is small where the adjoint is smooth, and R where the
shape is [Becker and Rannacher, 2001; node by node: Richter and Wick, 2015].
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, number, whole
from geosim.errors import InputError
from geosim.generate import Design
from geosim.geometry import topology
from geosim.geometry.bisect import bisected
from geosim.model.actuation import Actuation
from geosim.model.contract import Status
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.accuracy.bars import CONVERGENCE_RATE, mesh_bar
from geosim.response.accuracy.correction import MAX_FINE_TETS, Correction, correct
from geosim.response.accuracy.refined import refined_ids
from geosim.response.derivatives.quantities import ContactConfiguration, Gauged, Measure, Quantity, quantity
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.solve import solve

log = logging.getLogger("geosim.adapt")
MAX_REFINEMENTS = 12  # each halves edges: more would be edges of a 4000th


@guarded
def adapt(
    robot: VolumetricRobot,
    actuation: Actuation,
    environment: Environment | None = None,
    of: str | Measure = "tip",
    accuracy: float = 0.02,
    solver: EnergyShapeSolver | None = None,
    max_tets: int = 200_000,
) -> Result:
    """Solve on meshes that are refined where the error of a measure comes from, until its bar is met.

    Parameters
    ----------
    robot
        Made from surfaces or from a design. What is selected on it is selected by rules, not by the numbers of vertices.
    actuation, environment, solver
        As in `solve`.
    of
        As in `sensitivity`; its bar is that of the last command.
    accuracy
        Bar of the mesh over the measure's change from rest, dimensionless.
    max_tets
        Of the body.

    Returns
    -------
    Result
        `robot` is the mesh solved. Where the accuracy is not reached the best one, with Status STOPPED.

    Raises
    ------
    InputError
        The robot comes from neither, something is selected by numbers, or the robot cannot be solved.
    """
    solver = EnergyShapeSolver() if solver is None else solver
    if not isinstance(solver, EnergyShapeSolver):
        raise InputError(f"adapt: {type(solver).__name__} has no error bars; use EnergyShapeSolver")
    number(accuracy, "adapt: accuracy", above=0.0)
    whole(max_tets, "adapt: max_tets", least=1)
    environment = Environment() if environment is None else environment
    _refuse_numbers(environment)
    mesh = _coarse(robot)
    most = min(max_tets, MAX_FINE_TETS // 8)
    best: tuple[Result, float] | None = None
    why = f"{MAX_REFINEMENTS} refinements did not suffice"
    # Of the error, what the chosen tets make: as much as halving their edges must take away (at the rate of the bars)
    # for the bar to be met with a margin, since a round more costs more than some tets too many; all but smooth regions
    # where that is far.
    marking_margin, min_marked_error_share, max_marked_error_share = 0.85, 0.2, 0.85
    for _ in range(MAX_REFINEMENTS):
        result = solve(mesh, actuation, environment, solver=solver, throw=False)
        if not result.converged:
            if best is None:
                return result
            why = f"the next mesh, of {len(mesh.body_tets)} tets, ends with {result.message}"
            break
        try:
            missed, by_tet, coarse = _missed(result, of)
        except InputError as error:
            if best is None:
                raise
            why = f"the next mesh, of {len(mesh.body_tets)} tets, has no bar ({error})"
            break
        log.info("adapt: %d tets, bar %.3g of the change", len(mesh.body_tets), missed)
        if best is None or missed < best[1]:
            best = result, missed
        if missed <= accuracy and not len(coarse):
            return result
        part = (1.0 - marking_margin * accuracy / missed) / (1.0 - 0.5**CONVERGENCE_RATE)
        chosen = _chosen(by_tet, float(np.clip(part, min_marked_error_share, max_marked_error_share)))
        mesh = halved(mesh, np.union1d(chosen if missed > accuracy else chosen[:0], coarse))
        if len(mesh.body_tets) > most:
            why = f"the next mesh would exceed {most} tets"
            break
    assert best is not None
    message = (
        f"{Status.STOPPED.value} The bar of the mesh is {100 * best[1]:.2g} % of the change, {100 * accuracy:.2g} % "
        f"asked; {why}."
    )
    return replace(best[0], status=Status.STOPPED, message=message, converged=False)


def _refuse_numbers(environment: Environment) -> None:
    """Refuse what names vertices of a mesh that will be another."""
    sets = [("loads", load.where) for load in environment.loads]
    sets += [("prescribed", item.vertices) for item in environment.prescribed]
    sets += [("rigid_groups", item.vertices) for item in environment.rigid_groups]
    sets += [
        ("exclude_pairs", item) for pair in environment.exclude_pairs for item in pair if not isinstance(item, str)
    ]
    for name, where in sets:
        if not callable(where):
            raise InputError(
                f"adapt: {name} are given by numbers of vertices, which change with the mesh; give a Select"
            )


def _coarse(robot: VolumetricRobot) -> VolumetricRobot:
    """Return the robot on a coarse mesh of its surfaces."""
    remesh = robot.remesh
    first = next(iter(robot.materials.values()))
    # in the robot's bounding-box diagonal: walls that are thinner ask for shorter ones themselves
    first_edges_per_diagonal = 6.0
    edge = robot.size / first_edges_per_diagonal
    if remesh is None:
        if not isinstance(robot.design, Design):
            raise InputError(
                "adapt: this robot came from a mesh, and its surfaces are needed: use VolumetricRobot.from_surfaces or "
                "geosim.generate"
            )
        mesh = robot.design.robot(first, max_edge=edge)
    else:
        for name in ("fixed", "tip"):
            given = remesh.keywords[name]
            if given is not None and not callable(given):
                raise InputError(
                    f"adapt: {name} is given by numbers of vertices, which change with the mesh; give a Select"
                )
        mesh = remesh(max_edge=edge)
    return replace(mesh, materials=robot.materials, cables=robot.cables, name=robot.name, design=robot.design)


def _missed(result: Result, of: str | Measure) -> tuple[float, Floats, Ints]:
    """Return the bar of a measure over its change from rest, what every tet adds to it (m,), and tets too coarse for a gauge."""
    found = correct(result, -1)
    value, bar = mesh_bar(found, of)
    problem, here = found.state.problem, ContactConfiguration.at(found.state)
    rest = replace(found.state.point, x=problem.rest, scalar_forces=np.zeros(problem.scalars))
    at_rest = replace(here, point=rest, external=np.zeros_like(found.state.target.external))
    change = float(np.linalg.norm(value - quantity(of, problem, at_rest).value(at_rest)))
    measure_change_floor_rel = 1e-9  # of the robot's size: a measure that changes by less has no relative error
    if change <= measure_change_floor_rel * problem.length:
        raise InputError(
            f"adapt: {of!r} does not change from rest, so it has no relative accuracy; choose another measure"
        )
    return float(np.linalg.norm(bar)) / change, shares(found, of), _coarse_tets(quantity(of, problem, here))


def _coarse_tets(asked: Quantity) -> Ints:
    """Return the body tets that a gauge reads where it is narrower than they are; none of other measures."""
    if not isinstance(asked, Gauged) or asked.gauges.coarseness(asked.reading) <= 1.0:
        return np.zeros(0, dtype=np.int64)
    return np.unique(asked.reading.tets)


def _chosen(by_tet: Floats, part: float) -> Ints:
    """Return the fewest body tets that make a part of the error."""
    order = np.argsort(by_tet)[::-1]
    count = int(np.searchsorted(np.cumsum(by_tet[order]), part * by_tet.sum())) + 1
    return order[:count]


def halved(robot: VolumetricRobot, chosen: Iterable[int]) -> VolumetricRobot:
    """Return a robot with the edges of chosen body tets halved."""
    n = len(robot.vertices)
    body = np.flatnonzero(robot.is_body)
    middles, edges, tets, parents = bisected(robot.vertices, robot.tets, body[np.asarray(chosen)])

    def ids(before: Ints) -> Ints:
        after = refined_ids(robot, before)
        pairs = robot.p2_edges[after[after >= n] - n]
        new = np.flatnonzero(topology.rows_of(pairs, edges) >= 0)
        return np.concatenate([before, n + new])

    vertices = np.vstack([robot.vertices, middles])
    return replace(
        robot, vertices=vertices, tets=tets, regions=robot.regions[parents], fixed=ids(robot.fixed), tip=ids(robot.tip)
    )


def shares(found: Correction, of: str | Measure) -> Floats:
    """Return what every coarse body tet adds to the error of a measure, never negative, (m,); of vectors the norm."""
    tangent, refined = found.tangent, found.refined
    if tangent is None:
        raise InputError(
            "adapt: free objects have no adjoint, so it is not known where to refine; hold them, or leave them out"
        )
    problem, here = tangent.problem, tangent.evaluation
    asked = quantity(of, problem, ContactConfiguration.of(tangent))
    size, robot, n = 3 * len(problem.rest), refined.robot, len(refined.coarse.vertices)
    at_tets = np.zeros((len(asked.gradients(tangent)), len(refined.coarse.body_tets)))
    force = np.where(problem.held[:size].reshape(-1, 3), 0.0, here.force)
    for row, gradient in zip(at_tets, asked.gradients(tangent)):
        adjoint = tangent.adjoint(gradient).unknowns
        moves = np.zeros((len(robot.vertices) + len(robot.p2_edges), 3))
        moves[problem.nodes] = adjoint[:size].reshape(-1, 3)
        left = moves[problem.nodes] - refined.interpolated(moves)[problem.nodes]
        by_node = np.zeros(len(moves))
        by_node[problem.nodes] = np.abs(np.einsum("ki,ki->k", left, force))
        stresses = np.zeros(len(robot.vertices))
        stresses[problem.pressure_vertices] = adjoint[size:]
        coarse = topology.with_mid_edges(stresses[:n], refined.coarse.p2_edges)
        kept = (stresses[: len(coarse)] - coarse)[problem.pressure_vertices]
        by_node[problem.pressure_vertices] += np.abs(kept * here.constraint)
        nodes = robot.p2_tets
        count = np.bincount(nodes.ravel(), minlength=len(by_node))
        np.add.at(row, refined.parents, (by_node / np.maximum(count, 1))[nodes].sum(axis=1))
    return np.asarray(np.linalg.norm(at_tets, axis=0))
