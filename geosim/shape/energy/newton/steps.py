"""How far one step may go, and what it is measured by: limits of displacements and volumes, the squared residual."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, Evaluation

# Longest displacement of a node in one step, over the size of the body: beyond it rotations are far from linear.
MAX_NODE_STEP = 0.2

# Largest turn [rad] of a free object in one step.
MAX_FREE_BODY_TURN_RAD = 0.5

# Largest change of a chamber's volume that a prediction may ask for, over the volume: walls that close on each other, and
# membranes that thin, are farther from linear than their displacement says.
MAX_VOLUME_CHANGE_REL = 0.3

# Trials of a line search: 12 halvings leave 2e-4 of a step.
MAX_TRIALS = 12


def volume_step_limit(problem: ShapeProblem, volumes: Floats, change: Floats) -> float:
    """Share of a change of the chamber volumes (c,), at most 1, that `MAX_VOLUME_CHANGE_REL` allows."""
    volumes, change = volumes[: problem.chambers], change[: problem.chambers]
    most = MAX_VOLUME_CHANGE_REL * np.where(change < 0.0, volumes, np.maximum(volumes, problem.rest_chamber_volumes))
    with np.errstate(divide="ignore"):
        return float(np.min(most / np.abs(change), initial=1.0))


def step_limit(problem: ShapeProblem, aim: ArcLengthConstraint, step: Configuration, evaluation: Evaluation) -> float:
    """Share of a step, at most 1, that the limits of displacements and of chamber volumes allow."""
    change = np.einsum("cni,ni->c", evaluation.gradients, step.x)
    return min(
        _displacement_limit(step, aim.longest),
        volume_step_limit(problem, evaluation.scalars, change * ~aim.end.by_value),
    )


def _displacement_limit(step: Configuration, longest: float) -> float:
    """Share of a step that the limits of displacements, and of turns of free objects, allow."""
    size = float(np.sqrt(np.max(np.sum(step.x**2, axis=1), initial=0.0)))
    way, turn = np.linalg.norm(step.objects.reshape(-1, 2, 3), axis=2).max(axis=0, initial=0.0)
    return float(1.0 / max(1.0, size / min(longest, MAX_NODE_STEP), way / MAX_NODE_STEP, turn / MAX_FREE_BODY_TURN_RAD))


def residual_merit(measure: tuple[float, ...], reference: float) -> float:
    """Squared scaled residual: the merit of the line search (Pi is a saddle and no merit).

    `reference` is one force for a whole Newton solve: forces that fall to zero must not raise the merit.
    """
    _, volume, constraint, place, norm = measure
    return (norm / reference) ** 2 + volume**2 + constraint**2 + place**2
