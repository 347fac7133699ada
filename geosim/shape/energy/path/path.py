"""The path so far: one record, which every increment replaces."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.shape.energy.newton.steps import MAX_NODE_STEP
from geosim.shape.energy.path.branches import PathPoint
from geosim.shape.energy.path.options import ContinuationOptions
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Configuration, NewtonOutcome


class Verdict(enum.Enum):
    """What an attempt at an increment has found."""

    ACCEPT = "the next equilibrium"
    FAIL = "none, or one on another branch: again from nearer"
    SLIDE = "points slid too far along a rough obstacle: a shorter increment"
    SHARPEN = "a share that fell between equilibria with a rough residual: again from a sharp one"
    OVERSHOOT = "an equilibrium beyond the command: on it, from between"
    LIMIT = "a share that fell: the load has a maximum"
    LOSE = "none, however near"


@dataclass(frozen=True)
class Path:
    """What is known of a path.

    Parameters
    ----------
    state, outcome
        The last equilibrium, and how it was found; None at the beginning.
    marks
        The equilibria since the last relaxation, in order.
    length
        Longest displacement of a node in the next increment, over the size of the body.
    ahead
        Share of the command that a step from rest tries.
    failures
        Attempts in vain since the last equilibrium.
    beyond
        An equilibrium beyond the command, to land from; or None.
    sharp
        Whether equilibria on the way are solved to the tolerance.
    leapt
        Share at which leaps, or a nested start, were tried last; -1 before.
    left
        Where the body went to another state.
    """

    state: ShapeState
    outcome: NewtonOutcome | None
    marks: tuple[PathPoint, ...]
    length: float = np.inf
    ahead: float = 1.0
    failures: int = 0
    beyond: Configuration | None = None
    sharp: bool = False
    leapt: float = -1.0
    left: tuple[dict[str, Any], ...] = ()

    @property
    def share(self) -> float:
        """Share of the command that is reached."""
        return self.marks[-1].share

    @property
    def touches(self) -> bool:
        """Whether parts of the robot touch each other."""
        forces = None if self.outcome is None else self.outcome.evaluation.contact
        return forces is not None and len(forces.pairs) > 0

    @property
    def rests(self) -> bool:
        """Whether the body has just come to rest after a relaxation."""
        return len(self.marks) == 1 and self.share > 0.0

    def creeps(self, options: ContinuationOptions) -> bool:
        """Whether increments are short: on a path with kinks an equilibrium with a rough residual may lead past a limit."""
        longest = max(mark.made for mark in self.marks)
        return options.retry_length_share * self.length < options.collapsed_increment_share * longest

    def shortened(self, options: ContinuationOptions) -> Path:
        """Return the path with a shorter increment ahead."""
        length = options.retry_length_share * self.length if np.isfinite(self.length) else MAX_NODE_STEP
        return replace(self, length=length, failures=self.failures + 1, beyond=None)


def next_state(state: ShapeState, outcome: NewtonOutcome) -> ShapeState:
    """Return the state after an increment, with its grip renewed."""
    problem, target, friction_work = state.problem, outcome.target, state.friction_work
    contact_state, forces = target.contact_state, outcome.evaluation.contact
    if problem.contact is not None and contact_state is not None and forces is not None:
        if state.contact_state is not None:
            places = state.point.x, outcome.point.x
            lost = problem.contact.friction_work(*places, state.contact_state, contact_state, forces)
            friction_work += lost * problem.stress * problem.length**3
        contact_state = problem.contact.renew(outcome.point.x, contact_state, forces)
    point, values = outcome.point, outcome.evaluation.scalars
    if point.hold is not None:
        point = replace(point, hold=replace(point.hold, values=values))
    return replace(
        state,
        point=point,
        target=target,
        scalars=values,
        before=(*state.before, (state.point, state.target))[-2:],
        contact_state=contact_state,
        friction_work=friction_work,
        measured=None,
        is_frame=True,
    )
