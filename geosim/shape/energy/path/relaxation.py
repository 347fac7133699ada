"""Overdamped relaxation from a lost equilibrium to the next stable one.

Where a path of equilibria folds back (a crease snaps shut, a wall slips over an edge, an arch snaps through) there is none
a little farther on. The body then moves by itself to the next stable state: downhill, where its forces have a potential
(`minimise`). With friction, gas, rigid groups and free objects it creeps there in implicit steps of

    d M (x - x_k) + residual(x) = 0,        M the volume of every node, d [shear modulus over size^2] falling from step to step,

each of which is an equilibrium with a soft spring to the place before; the volumes, pressures and loads that are
prescribed, and incompressibility, hold in each. The last step does without, and balances like any other [Kelley & Keyes 1998,
pseudo-transient continuation].
"""

from __future__ import annotations

from dataclasses import replace

from geosim.model.contract import Status
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.newton.merit import has_potential
from geosim.shape.energy.newton.minimise import (
    DRAG_FALL,
    DRAG_RISE,
    LEAST_DRAG,
    MAX_DRAG,
    MAX_VOLUME_RATIO,
    Minimisation,
)
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import (
    ArcLengthConstraint,
    Configuration,
    NewtonOutcome,
    ProximalTerm,
    longest_displacement,
)

# Drag at first: waves as long as half the body have a stiffness of about 100. It falls and rises as that of a minimisation.
FIRST_DRAG = 100.0
# Steps at most.
MAX_RELAXATION_STEPS = 60


def relaxed_equilibrium(
    newton: EquilibriumSearch,
    problem: ShapeProblem,
    start: Configuration,
    aim: ArcLengthConstraint,
    farthest: float,
    budget: Budget,
    passing: float = 0.0,
) -> NewtonOutcome:
    """Return the stable equilibrium that a body gets to; `far` where it goes too far.

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
        found = Minimisation(newton, problem, aim, budget, farthest=farthest, passing=passing).run(start)
        rough = problem.contact is not None and problem.contact.rough
        if found.status is Status.CONVERGED or found.far or not rough:
            return found
    drag, here, outcome = FIRST_DRAG, start, None
    for _ in range(MAX_RELAXATION_STEPS):
        free = drag < LEAST_DRAG
        springs = ProximalTerm(here.x, drag * problem.node_volumes, here.objects, drag * problem.objects.volumes)
        damped = aim if free else replace(aim, drag=springs)
        outcome = newton.equilibrium(problem, here, damped, budget)
        if outcome.status is Status.CONVERGED:
            here = outcome.point
            if _goes_far(problem, outcome, start, farthest):
                return replace(outcome, status=Status.NOT_CONVERGED, far=True)
            if free:
                return outcome
            drag /= DRAG_FALL
        else:
            drag *= DRAG_RISE
            if drag > MAX_DRAG:
                break
    assert outcome is not None
    return replace(outcome, status=Status.NOT_CONVERGED)


def _goes_far(problem: ShapeProblem, outcome: NewtonOutcome, start: Configuration, farthest: float) -> bool:
    """Whether a node has moved farther than this, over the size of the body, or a chamber has grown out of all proportion."""
    volumes = outcome.evaluation.scalars[: problem.chambers]
    bursts = bool((volumes > MAX_VOLUME_RATIO * problem.rest_chamber_volumes).any())
    return bursts or longest_displacement(outcome.point.x - start.x) > farthest
