"""Leaps: minimisations under dead loads far ahead, certified by the energy of the path between.

Along a path of equilibria the potential falls by what is conjugate to the share, dPi/ds = -g. The cubic through g and its slope
at both ends of a leap of length h foretells

    Pi_1 - Pi_0 = -h (g_0 + g_1) / 2 - h^2 (g_0' - g_1') / 12,        g_1 - g_0 = h (g_0' + g_1') / 2.

A body that snaps in between has lost energy and jumped in g: then neither holds, and a leap to the middle is tried. What is
missed is measured by the complementary work of the command so far, so that a crease that snaps shut does not end a leap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from geosim.linear.factorise import FactorisationError
from geosim.model.contract import Status
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.newton.merit import potential
from geosim.shape.energy.newton.minimise import MAX_DRAG, Minimisation
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import (
    ArcLengthConstraint,
    Configuration,
    Evaluation,
    LoadState,
    NewtonOutcome,
)

# Energy that may be missing, over the complementary work of the command, and jump of g over its change. Measured: smooth paths
# miss less than 0.004 and 0.2, walls that close without a snap up to 0.13 and 0.25, a finger that snaps at least 0.14 and 0.6.
MAX_ENERGY_MISSED, MAX_JUMP = 0.15, 0.3
# Leaps at most, leaps that may fail, and the shortest one over the first.
MAX_LEAPS, MAX_FAILED_LEAPS, MIN_LEAP_SHARE = 8, 2, 0.05
# The first leap, the whole way or a half, a quarter, ... of it, is at most so many times as long as the way to where parts met;
# the next one than the last.
LEAP_GROWTH = 2.2
# Drag that the first leap may need: ten times the stiffness of waves as long as half the body. Beyond a limit it needs more:
# with twice as much a finger beyond its limit throws 178 iterations away, not 34. Where leaps have led to closing walls, drag
# pays for these: bellows sucked to V/V0 = 0.08 take 83 iterations with any drag and 184 with this much.
MAX_FIRST_LEAP_DRAG = 1e3
# Accuracy of the slope of a path.
SLOPE_ACCURACY = 1e-4


@dataclass(frozen=True)
class PathEnd:
    """An equilibrium at an end of a leap: potential, what is conjugate to the share, and its derivative by the share.

    `records` are the first and the last of the iterations that found it.
    """

    outcome: NewtonOutcome
    potential: float
    conjugate: float
    slope: float
    records: tuple[int, int] = (0, 0)

    @property
    def share(self) -> float:
        """Share of the command."""
        return self.outcome.point.load_factor


@dataclass(frozen=True)
class Leaps:
    """Leaps on the way from one target to another, in the grip of a state."""

    newton: EquilibriumSearch
    problem: ShapeProblem
    origin: LoadState
    end: LoadState
    contact_state: ContactState | None
    budget: Budget

    def run(self, here: NewtonOutcome, start: Configuration | None = None) -> Iterator[NewtonOutcome]:
        """Yield the certified equilibria on the way from an equilibrium, in order; `start` is where the first leap begins."""
        last, ahead = self.at_end(here), list[PathEnd]()
        first, failed = last, 0
        left = 1.0 - last.share
        reach = left
        while start is not None and reach > max(
            LEAP_GROWTH * (start.load_factor - last.share), 2.0 * MIN_LEAP_SHARE * left
        ):
            reach *= 0.5
        for _ in range(MAX_LEAPS):
            while ahead and is_path(first, last, ahead[-1]):
                reach = max(reach, LEAP_GROWTH * (ahead[-1].share - last.share))
                last = ahead.pop()
                yield last.outcome
            if last.share >= 1.0:
                break
            target = 0.5 * (last.share + ahead[-1].share) if ahead else min(last.share + reach, 1.0)
            if failed == MAX_FAILED_LEAPS or target - last.share < MIN_LEAP_SHARE * left:
                break
            new, start = self.leap(last, target, start, MAX_FIRST_LEAP_DRAG if last is first else MAX_DRAG), None
            if new is None:
                failed, reach = failed + 1, 0.5 * (target - last.share)
            else:
                ahead.append(new)
        for end in ahead:
            self.budget.discard(*end.records)

    def leap(self, last: PathEnd, share: float, start: Configuration | None, max_drag: float) -> PathEnd | None:
        """Return the minimum at a share of the command; None where the body goes too far, or there is none."""
        aim = ArcLengthConstraint(self.origin, self.end, share, self.contact_state)
        search = Minimisation(self.newton, self.problem, aim, self.budget, max_drag=max_drag)
        began = len(self.budget.records)
        found = search.run(last.outcome.point if start is None else start)
        if found.status is Status.CONVERGED:
            return replace(self.at_end(found), records=(began, len(self.budget.records)))
        self.budget.discard(began)
        return None

    def at_end(self, outcome: NewtonOutcome) -> PathEnd:
        """Return an equilibrium as an end of a leap."""
        point, found = outcome.point, outcome.evaluation
        aim = ArcLengthConstraint(self.origin, self.end, point.load_factor, self.contact_state)
        conjugate = aim.conjugate(point, found.scalars)
        return PathEnd(outcome, potential(aim.at(point), point, found), conjugate, self._slope(aim, point, found))

    def _slope(self, aim: ArcLengthConstraint, point: Configuration, found: Evaluation) -> float:
        """Return the derivative of g by the share, nan where the tangent is singular: one linear solution."""
        other = 0.0 if point.load_factor > 0.5 else 1.0
        if found.data is None:
            found = self.newton.evaluate(self.problem, point, aim.at(point), matrix=True)
        tangent = self.problem.sharpened(found)
        try:
            step = self.newton.direction(
                self.problem, point, replace(aim, load_factor=other), tangent, SLOPE_ACCURACY, reuse=True
            )
        except FactorisationError:
            return np.nan
        work = float(np.sum(aim.load(found.gradients) * step.x) - aim.scalar_rates @ step.scalar_forces)
        return work / (other - point.load_factor)


def is_path(first: PathEnd, a: PathEnd, b: PathEnd) -> bool:
    """Whether a path without a snap leads from one equilibrium to another, by its energy."""
    h, mean = b.share - a.share, 0.5 * (a.conjugate + b.conjugate)
    work = h * mean + h**2 / 12.0 * (a.slope - b.slope)
    so_far = first.potential - a.potential + work - (b.share - first.share) * first.conjugate
    jump = b.conjugate - a.conjugate - 0.5 * h * (a.slope + b.slope)
    missed = abs(b.potential - a.potential + work)
    return missed <= MAX_ENERGY_MISSED * abs(so_far) and abs(jump) <= MAX_JUMP * abs(b.conjugate - first.conjugate)
