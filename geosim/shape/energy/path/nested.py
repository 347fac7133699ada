"""Nested start: linear elements on the same mesh follow the path first, and quadratic ones go on from where it ends.

Linear elements have an eighth of the unknowns, and the same skin as quadratic ones with straight edges: a skin without crossings
stays without. Mid-edge nodes start between their vertices, mean stresses at zero, chambers with the pressures of the linear
elements. From there the potential is minimised (`minimise`) at the same share of the command.

Linear elements may take another branch, or pass a limit of the quadratic ones. So a landing counts only where it is near its
start, over the way from rest, and stable.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.geometry import topology
from geosim.shape.energy.path.branches import EquilibriumPath
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import Configuration

# Unknowns from which a nested start pays. Measured on inflated walls that meet: 13k unknowns 1.0 to 1.3 of the time without, 130k
# 0.6 and 0.5.
MIN_NESTED_UNKNOWNS = 3e4
# Factorisations that linear elements may take: full collapses take 70 to 120, each a fifth as dear as one of quadratic elements.
MAX_LINEAR_FACTORISATIONS = 150
# Iterations of a landing: those on bellows and fingers take 9 to 18.
MAX_LANDING_ITERATIONS = 24
# Drag of its first step: the stiffness of waves a hundredth of the body long. Without it a bellows takes 35 factorisations
# instead of 10.
LANDING_DRAG = 1e4
# A landing farther from its start than this share of the way from rest is on another branch. Measured: 0.02 to 0.32 on the same
# branch, 2 where only quadratic elements snap.
MAX_LANDING_MISS = 0.5


def landing(problem: ShapeProblem, way: EquilibriumPath, beyond: float) -> Configuration | None:
    """Return the start of quadratic elements at the last equilibrium of linear ones beyond a share; None where none is."""
    marks = [mark for mark in way.marks[1:] if beyond < mark.share <= 1.0]
    return lifted(problem, way.problem, marks[-1].point) if marks else None


def lifted(problem: ShapeProblem, linear: ShapeProblem, point: Configuration) -> Configuration:
    """Return the configuration of quadratic elements at one of linear elements on the same mesh."""
    vertices = problem.robot.vertices.copy()
    vertices[linear.nodes] = linear.center + linear.length * point.x
    nodes = topology.with_mid_edges(vertices, problem.robot.p2_edges)
    x = problem.settled((nodes[problem.nodes] - problem.center) / problem.length)
    return replace(point, x=x, p=np.zeros(len(problem.pressure_vertices)))
