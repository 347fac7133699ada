"""Local error indicators: the dual-weighted residual of a measure, tet by tet.

To first order the refined mesh changes a measure by lambda . (-R), with the residual R of the coarse shape and the adjoint
lambda, K^T lambda = g, both on the fine mesh. On the coarse functions R vanishes but for quadrature, so lambda may be
lessened by its interpolation there: lambda - I lambda is small where the adjoint is smooth, R where the shape is
[Becker and Rannacher, 2001; node by node: Richter and Wick, 2015].
"""

from __future__ import annotations

import numpy as np

from geosim.accuracy.correction import Correction
from geosim.arrays import Floats
from geosim.derivatives.quantities import ContactConfiguration, Measure, quantity
from geosim.errors import InputError
from geosim.geometry import topology


def shares(found: Correction, of: str | Measure) -> Floats:
    """Return what every coarse body tet adds to the error of a measure, never negative, (m,); of vectors the norm."""
    tangent, refined = found.tangent, found.refined
    if tangent is None:
        raise InputError(
            "adapt: free objects have no adjoint, so it is not known where to refine; hold them, or leave them out"
        )
    problem, here = tangent.problem, tangent.evaluation
    asked = quantity(of, problem, ContactConfiguration(problem, found.start.point, tangent.contact_state))
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
