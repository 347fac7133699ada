"""Predictor of the continuation: secants and parabolas through the last equilibria."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.continuation.branches import PathPoint
from geosim.shape.energy.newton.states import Configuration, LoadState, longest_displacement
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState


def last_secant(
    before: tuple[Configuration, ...], here: list[PathPoint], bends: bool
) -> tuple[Configuration, Configuration | None, float] | None:
    """Return the last increment, how much the path bent in it, and its longest displacement; None where there is none.

    Parameters
    ----------
    before, here
        Equilibria of the commands before, as far as the way went straight on (`straight_history`), and of this one.
    bends
        Whether the share is an unknown: then the path is not predicted as a parabola.
    """
    past = [*before, *(mark.point for mark in here)][-3:]
    if len(past) < 2:
        return None
    way = past[-1].less(past[-2])
    size = longest_displacement(way.x)
    if size == 0.0:
        return None
    if len(past) < 3 or bends or len(way.objects):
        # the tangent of a new command is better than the old one's secant
        return (way, None, size) if len(here) > 1 else None
    older = past[-2].less(past[-3])
    if min(way.load_factor, older.load_factor) <= 0.0:
        return way, None, size
    zero, ratio = way.stepped(way, -1.0), way.load_factor / older.load_factor
    return way, zero.stepped(way.stepped(older, -ratio), ratio / (1.0 + ratio)), size


def straight_history(state: ShapeState, origin: LoadState, end: LoadState) -> tuple[Configuration, ...]:
    """Return the equilibria before this command as far as its way goes straight on, with their shares of it (below 0)."""
    ahead, out = load_difference(state.problem, end, origin), []
    target, share = replace(state.target, by_value=origin.by_value), 0.0
    for point, old in reversed(state.before):
        last = load_difference(state.problem, target, old)
        if ahead is None or last is None:
            break
        size, along = float(np.linalg.norm(ahead)), float(last @ ahead)
        if size == 0.0 or along <= 0.99 * np.linalg.norm(last) * size:
            break
        share -= along / size**2
        out.append(replace(point, load_factor=share))
        target = old
    return tuple(out[::-1])


def extrapolated(here: Configuration, way: Configuration, bend: Configuration | None, reach: float) -> Configuration:
    """Return the point this many increments ahead, on the parabola where that is near the secant."""
    # of the increment: a path that bends more has a kink, where contacts come
    max_parabola_departure = 0.5
    ahead = here.stepped(way, reach)
    if bend is None or (1.0 + reach) * longest_displacement(bend.x) > max_parabola_departure * longest_displacement(
        way.x
    ):
        return ahead
    return ahead.stepped(bend, reach * (1.0 + reach))


def obstacle_travel(start: ContactState | None, end: ContactState | None) -> float:
    """Largest distance [m] that an obstacle travels between two grips (turns about its own origin left out)."""
    if start is None or end is None or len(start.poses) == 0:
        return 0.0
    turn = np.linalg.norm(end.poses[:, :3, :3] - start.poses[:, :3, :3], axis=(1, 2))
    return float(np.max(np.linalg.norm(end.poses[:, :3, 3] - start.poses[:, :3, 3], axis=1) + 0.01 * turn))


def load_difference(problem: ShapeProblem, new: LoadState, old: LoadState) -> Floats | None:
    """The way between two targets as one vector of comparable numbers; None where their controls differ."""
    if (new.by_value != old.by_value).any():
        return None
    moves = new.positions - old.positions
    moves[: len(problem.rest)] *= problem.held[: problem.rest.size].reshape(-1, 3)
    return np.concatenate(
        [
            np.where(new.by_value, new.scalars - old.scalars, 0.0),
            np.where(new.by_value, 0.0, new.scalar_forces - old.scalar_forces),
            [
                np.linalg.norm(new.external - old.external),
                np.linalg.norm(moves),
                obstacle_travel(old.contact_state, new.contact_state),
            ],
        ]
    )
