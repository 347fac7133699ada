"""Error estimate of a projective shape: its residual in the energy formulation.

The energy solver's force residual needs pressures that the projective solver does not have, so those that balance best
are taken,

    min over p, P of || f_int(x) + B p - sum_c P_c grad v_c - f_ext ||   over the free nodes,

with B the gradients of the incompressibility rows, by LSMR; contact forces (and cable forces) of the projective shape
count as loads. The measure is that of the energy solver: the largest force left at a free node over the largest nodal sum
of element forces. At an equilibrium of the energy solver it is of the order of that solver's tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr

from geosim.arrays import Floats
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.problem import ShapeProblem, make_problem
from geosim.shape.energy.solver import EnergyShapeSolver

__all__ = ["energy_problem", "energy_residual"]

MIN_FORCE_SCALE_REL = 1e-10  # of shear modulus times size squared: forces below are round-off of the rest shape


def energy_problem(robot: VolumetricRobot, environment: Environment) -> ShapeProblem:
    """Return the energy formulation of a robot as that solver has it by default, without contact, for `energy_residual`."""
    alone = replace(environment, obstacles=(), self_contact=False, self_friction=0.0, exclude_pairs=())
    return make_problem(robot, alone, 2, "auto", isochoric=EnergyShapeSolver().isochoric)


def energy_residual(problem: ShapeProblem, nodes: Floats, forces: Floats, index: int) -> float:
    """Return the energy solver's relative force residual at a shape.

    Parameters
    ----------
    problem
        Result of `energy_problem`.
    nodes
        Positions of vertices and mid-edge nodes [m], (n + e, 3).
    forces
        Forces on the vertices besides dead loads [N], (n, 3): contact and cables.
    index
        Command, for the dead loads.

    Returns
    -------
    float
        nan where an element is inverted: no stress is defined there.
    """
    x = (nodes[problem.nodes] - problem.center) / problem.length
    external = problem.external_forces(index)
    vertex = problem.nodes < len(forces)
    external[vertex] += forces[problem.nodes[vertex]] / problem.force_unit
    p, P = np.zeros(len(problem.pressure_vertices)), np.zeros(problem.scalars)  # cables stand in the forces
    at_rest = problem.evaluate(x, p, P, external, matrix=True)
    if at_rest.data is None or not (np.isfinite(at_rest.energy) and at_rest.smallest > 0.0):
        return float("nan")
    free = np.flatnonzero(~problem.held[: x.size])
    columns = _pressure_columns(at_rest, x.size, free, problem)
    best: Any = lsmr(columns, -at_rest.force.ravel()[free], atol=1e-9, btol=1e-9, maxiter=2000)[0]
    P[: problem.chambers] = best[len(p) :]
    now = problem.evaluate(x, best[: len(p)], P, external, matrix=False)
    left = np.zeros(x.size)
    left[free] = now.force.ravel()[free]
    return float(np.linalg.norm(left.reshape(-1, 3), axis=1).max(initial=0.0) / max(now.scale, MIN_FORCE_SCALE_REL))


def _pressure_columns(evaluation: Any, size: int, free: Any, problem: ShapeProblem) -> Any:
    """Derivatives of the free forces by pressures and chamber pressures, sparse."""
    pattern = problem.pattern
    count = len(pattern.indptr) - 1
    upper = sp.csr_matrix((evaluation.data, pattern.indices, pattern.indptr), shape=(count, count))
    by_pressure = upper[free][:, size:]
    if problem.chambers == 0:
        return by_pressure
    return sp.hstack(
        [by_pressure, -sp.csr_matrix(evaluation.gradients[: problem.chambers].reshape(problem.chambers, -1)[:, free].T)]
    ).tocsr()
