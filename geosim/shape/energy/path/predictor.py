"""Predictor of the continuation: secants and parabolas through the last equilibria."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.newton.steps import volume_step_limit
from geosim.shape.energy.path.branches import PathPoint
from geosim.shape.energy.path.loading import Loading, load_difference
from geosim.shape.energy.path.options import ContinuationOptions
from geosim.shape.energy.path.path import Path
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, LoadState, longest_displacement


def last_secant(
    before: tuple[Configuration, ...], here: tuple[PathPoint, ...], bends: bool
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


def predict(
    path: Path, loading: Loading, earlier: tuple[Configuration, ...], options: ContinuationOptions
) -> tuple[Configuration, ArcLengthConstraint, Floats | None]:
    """Return start and aim of the next increment, and the direction of the path where it goes along the tangent.

    `earlier` are equilibria of the commands before (see `straight_history`).
    """
    here = replace(path.state.point, load_factor=path.share)
    held = len(path.marks) > 1 and not loading.moves
    longest = max(path.length, options.min_step_bound_rel) if held else np.inf
    aim = loading.aim(1.0, path.state.contact_state, longest)
    if path.beyond is not None:
        between = (1.0 - path.share) / (path.beyond.load_factor - path.share)
        back = settled(loading, here.stepped(path.beyond.less(here), between))
        return replace(back, load_factor=1.0), aim, None
    most = min(loading.longest_step(path.state, path.share), 1.0 - path.share)
    if not loading.bends:  # what obstacles or volumes limit is no shorter for a shorter displacement
        most *= options.retry_length_share**path.failures
    secant = last_secant(earlier, path.marks, loading.bends) if path.failures % 2 == 0 else None
    if secant is not None:
        start = along_secant(path, loading, secant, most, options)
        if loading.is_free(path.state, here, start):
            return start, aim if start.load_factor == 1.0 else arc(path, loading, aim, start), None
    first, bodies = path.share == 0.0, loading.origin.free_bodies
    share = path.share + min(most, tangent_share(path, options))
    if first and bodies is not None and bodies.falls:
        return here, replace(aim, load_factor=share), None  # there is no tangent before it has fallen on something
    tangent = secant[0].x if secant is not None else np.zeros_like(here.x)
    return here, replace(aim, load_factor=share, bends=loading.bends), tangent


def along_secant(
    path: Path,
    loading: Loading,
    secant: tuple[Configuration, Configuration | None, float],
    most: float,
    options: ContinuationOptions,
) -> Configuration:
    """Return the point on the secant, as far as length, volumes and share allow; on the command where that is near."""
    way, bend, size = secant
    reach, most_volume = path.length / size, np.inf
    if len(path.marks) > 1:
        ahead = 3.0 * options.max_increment_growth
        swell = ahead * (path.marks[-1].scalars - path.marks[-2].scalars) * ~loading.end.by_value
        most_volume = ahead * volume_step_limit(loading.problem, path.state.scalars, swell)
    reach = min(reach, most_volume if loading.bends else np.inf)
    here, rate = replace(path.state.point, load_factor=path.share), way.load_factor
    if rate > 0.0:
        reach = min(reach, most / rate)
        if path.share + 1.02 * reach * rate >= 1.0:
            landed = settled(loading, extrapolated(here, way, bend, (1.0 - path.share) / rate))
            return replace(landed, load_factor=1.0)
    return settled(loading, extrapolated(here, way, bend, reach))


def arc(path: Path, loading: Loading, aim: ArcLengthConstraint, start: Configuration) -> ArcLengthConstraint:
    """Return the aim at a predicted point: its share, or the arc through it."""
    if not loading.bends or len(path.marks) < 2:
        return replace(aim, load_factor=start.load_factor)
    old, new = path.marks[-2:]
    change, step = new.conjugate - old.conjugate, new.share - old.share
    if change == 0.0:
        return replace(aim, load_factor=start.load_factor)
    zeroth, first = path.marks[:2]
    scale = abs((first.conjugate - zeroth.conjugate) / ((first.share - zeroth.share) or 1.0)) or abs(change)
    ahead = new.scalars + (start.load_factor - new.share) / (step or 1.0) * (new.scalars - old.scalars)
    return aim.onto(start, ahead, (change / scale, step), scale)


def tangent_share(path: Path, options: ContinuationOptions) -> float:
    """Share of the command that a step along the tangent tries: all of it, or what was reached before, in part."""
    if len(path.marks) < 2:
        return path.ahead * options.retry_length_share**path.failures
    made = abs(path.marks[-1].share - path.marks[-2].share)
    longer = path.length / max(path.marks[-1].made, 1e-9)
    return float(max(made * min(longer, options.max_increment_growth), 1e-12))


def settled(loading: Loading, point: Configuration) -> Configuration:
    """Return a predicted point with rigid groups that are rigid."""
    return replace(point, x=loading.problem.settled(point.x))
