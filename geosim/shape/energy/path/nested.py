"""Nested start: linear elements on the same mesh lead the way, and quadratic ones go on from what they reach.

Linear elements have an eighth of the unknowns, and the same skin as quadratic ones whose edges are straight: what does not cross
there does not cross here. Mid-edges start between their vertices, mean stresses at zero, chambers with the pressures that linear
elements have. From there the body goes downhill (`minimise`) at the same share of the command.

Linear elements may take another branch, or pass a limit that quadratic ones do not. So a landing counts only where it is near
the start, beside the way from rest, and stable.
"""

from __future__ import annotations

from collections.abc import Iterator
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
# Drag of its first step: the stiffness of waves as long as an element a hundredth of the body long. Without, a bellows factorises
# eleven times before its first step.
LANDING_DRAG = 1e4
# A landing farther from its start than this share of the way from rest is on another branch. Measured: 0.02 to 0.32 on the same
# branch, 2 where only quadratic elements snap.
MAX_LANDING_MISS = 0.5
# So many landings are tried, each at most this share as far as the one before.
MAX_LANDINGS, NEARER_LANDING = 2, 0.6


def landings(problem: ShapeProblem, way: EquilibriumPath, beyond: float) -> Iterator[Configuration]:
    """Yield places of quadratic elements to start from, the farthest first, from the equilibria of linear ones on their way.

    Only those beyond a share of the command count.
    """
    farthest = np.inf
    marks = [mark for mark in way.marks[1:] if beyond < mark.share <= 1.0]
    for _ in range(MAX_LANDINGS):
        marks = [mark for mark in marks if mark.share <= farthest]
        if not marks:
            return
        mark = marks[-1]
        yield lifted(problem, way.problem, mark.point)
        farthest = NEARER_LANDING * mark.share


def lifted(problem: ShapeProblem, linear: ShapeProblem, point: Configuration) -> Configuration:
    """Return the configuration of quadratic elements at one of linear elements on the same mesh."""
    vertices = problem.robot.vertices.copy()
    vertices[linear.nodes] = linear.center + linear.length * point.x
    nodes = topology.with_mid_edges(vertices, problem.robot.p2_edges)
    x = problem.settled((nodes[problem.nodes] - problem.center) / problem.length)
    return replace(point, x=x, p=np.zeros(len(problem.pressure_vertices)))
