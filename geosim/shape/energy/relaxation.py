"""Overdamped relaxation from a lost equilibrium to the next stable one.

Where a path of equilibria folds back (a crease snaps shut, a wall slips over an edge, an arch snaps through) there is none
a little farther on. The body then moves by itself to the next stable state: downhill, where its forces have a potential
(`descent`). With friction, gas, rigid groups and free objects it creeps there in implicit steps of

    d M (x - x_k) + residual(x) = 0,        M the volume of every node, d [shear modulus over size^2] falling from step to step,

each of which is an equilibrium with a soft spring to the place before; the volumes, pressures and loads that are
prescribed, and incompressibility, hold in each. The last step does without, and balances like any other [Kelley & Keyes 1998,
pseudo-transient continuation].
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.contract import Status
from geosim.shape.energy.configuration import Aim, Drag, Outcome, Point
from geosim.shape.energy.descent import BURST, Descent, has_potential

if TYPE_CHECKING:
    from geosim.shape.energy.attempt import Budget
    from geosim.shape.energy.newton import Newton
    from geosim.shape.energy.problem import ShapeProblem

__all__ = ["relaxed"]

# Drag at first, at most, and where it is let go: waves as long as half the body have a stiffness of about 100.
FIRST, MOST, LEAST = 100.0, 1e5, 0.02
# The drag falls by this power of the iterations that a step has taken less than it may, and rises after one that failed.
FASTER, EASY, SLOWER = 1.6, 6, 5.0
# Residual of the steps on the way, and so many of them at most.
ROUGH, STEPS = 2e-6, 60


def relaxed(
    newton: Newton, problem: ShapeProblem, start: Point, aim: Aim, farthest: float, budget: Budget, passing: float = 0.0
) -> tuple[Outcome | None, bool, list[dict[str, Any]]]:
    """Return the stable equilibrium that a body gets to, whether it goes too far, and the records of the way.

    Parameters
    ----------
    newton, problem, budget
        What is solved, how, and what it may cost.
    start, aim
        Where it begins, and what is prescribed.
    farthest
        Displacement of a node over the size of the body beyond which it has no sense to go on: then there is no outcome.
    passing
        Residual of a place beside the equilibrium that will do, where it goes downhill; 0: the equilibrium itself.
    """
    if has_potential(problem, aim):
        descent = Descent(newton, problem, aim, budget)
        return *descent.run(start, farthest, passing), descent.records
    rough, drag, here = replace(newton, tolerance=max(ROUGH, newton.tolerance)), FIRST, start
    records: list[dict[str, Any]] = []
    for _ in range(STEPS):
        free = drag < LEAST
        damped = (
            aim
            if free
            else replace(
                aim, drag=Drag(here.x, drag * problem.node_volumes, here.objects, drag * problem.objects.volumes)
            )
        )
        outcome = (newton if free else rough).equilibrium(problem, here, damped, budget)
        records += outcome.records
        if outcome.status is Status.CONVERGED:
            here = outcome.point
            bursts = (outcome.evaluation.volumes[: problem.chambers] > BURST * problem.rest_chamber_volumes).any()
            if bursts or float(np.linalg.norm(here.x - start.x, axis=1).max()) > farthest:
                return None, True, records
            if free:
                return outcome, False, records
            drag /= FASTER ** (EASY - outcome.iterations)
        else:
            drag *= SLOWER
            if drag > MOST:
                break
    return None, False, records
