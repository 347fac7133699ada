"""Limit points and bifurcations on a path of equilibria: largest load, loss of stability.

At a limit point the tangent of the path has no share in the load: there the load has its maximum. Where stability is lost and
the load still grows, another branch crosses: a bifurcation, on which an imperfection selects the side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats
from geosim.model.contract import Status
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.equilibrium import EquilibriumSearch
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, LoadState, NewtonOutcome


@dataclass(frozen=True)
class PathPoint:
    """An equilibrium on a path, what is conjugate to its load factor (`ArcLengthConstraint.conjugate`), and scalars (d,).

    `made` is the longest displacement of a node since the one before, over the size of the body.
    """

    point: Configuration
    conjugate: float
    scalars: Floats
    made: float = 0.0

    @property
    def share(self) -> float:
        """Share of the command."""
        return self.point.load_factor


@dataclass(frozen=True)
class EquilibriumPath:
    """The equilibria that were found on the way from one target to another, in order.

    Parameters
    ----------
    newton, problem, origin, end
        What was solved, how, and from where to where.
    contact_state
        What the robot holds on to at the last of them.
    marks
        The equilibria.
    """

    newton: EquilibriumSearch
    problem: ShapeProblem
    origin: LoadState
    end: LoadState
    contact_state: ContactState | None
    marks: tuple[PathPoint, ...]

    def branches_between(self, budget: Budget) -> tuple[PathPoint, PathPoint] | None:
        """Equilibria between which a path that ends unstable lost its stability; None where it was at a limit point."""
        rises = len(self.marks) > 1 and bool(np.all(np.diff([mark.share for mark in self.marks]) > 0.0))
        return self._loss(self.marks, budget) if rises else None

    def branches_before_limit(self, budget: Budget) -> tuple[PathPoint, PathPoint] | None:
        """Equilibria between which stability was lost before the load fell; None where it lasted up to there."""
        falls = np.flatnonzero(np.diff([mark.share for mark in self.marks]) <= 0.0)
        rising = self.marks[: int(falls[0])] if len(falls) else self.marks[:-1]  # the last has a singular tangent
        return self._loss(rising, budget) if len(rising) > 1 and self._is_stable(rising[-1]) is False else None

    def _loss(self, marks: tuple[PathPoint, ...], budget: Budget) -> tuple[PathPoint, PathPoint]:
        """Return a stable equilibrium and an unstable one beyond it, near each other, on a path that ends unstable.

        Between two marks equilibria are sought this many times at most, until the share is known to this accuracy.
        """
        max_searches, tolerance = 6, 0.02
        low, high = 0, len(marks) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_stable(marks[middle]) is False else (middle, high)
        before, after = marks[low], marks[high]
        for _ in range(max_searches):
            if after.share - before.share <= tolerance * after.share:
                break
            between = self._between(before, after, budget)
            if between is None:
                break
            before, after = (before, between) if self._is_stable(between) is False else (between, after)
        return before, after

    def _between(self, before: PathPoint, after: PathPoint, budget: Budget) -> PathPoint | None:
        """Return the equilibrium half-way between two; None where it is not found."""
        aim = ArcLengthConstraint(self.origin, self.end, 0.5 * (before.share + after.share), self.contact_state)
        middle = before.point.stepped(after.point.less(before.point), 0.5)
        for start in (middle, after.point, before.point):
            placed = replace(start, x=self.problem.settled(start.x), load_factor=aim.load_factor)
            outcome = self.newton.equilibrium(self.problem, placed, aim, budget)
            if outcome.status is Status.CONVERGED:
                scalars = outcome.evaluation.scalars
                return PathPoint(outcome.point, aim.conjugate(outcome.point, scalars), scalars)
        return None

    def _is_stable(self, mark: PathPoint) -> bool | None:
        target = self.origin.towards(self.end, mark.share, self.contact_state)
        return self.newton.is_stable(self.problem, mark.point, target)

    def maximum(self, budget: Budget) -> tuple[float, Floats, list[NewtonOutcome]]:
        """Largest share, the chamber volumes there (c,), and the equilibria found, the largest share last.

        They lie at the vertex of the parabola through three.

        They are sought on lines of constant g, this many times at most, until the share there is known to this accuracy. The
        equilibria on both sides are brought to the tolerance first: a residual of a thousandth moves a flat limit by 2 %.
        """
        max_searches, line_weights, tolerance = 5, (1.0, 1e-6), 1e-4
        found: list[NewtonOutcome] = []
        aim, marks = ArcLengthConstraint(self.origin, self.end, 1.0, self.contact_state), _around_best(self.marks)
        width = float(np.ptp([m.conjugate for m in marks]))

        def sought(start: PathPoint) -> PathPoint | None:
            line = aim.onto(start.point, start.scalars, line_weights, width)
            outcome = self.newton.equilibrium(self.problem, start.point, line, budget)
            if outcome.status is not Status.CONVERGED:
                return None
            found.append(outcome)
            scalars = outcome.evaluation.scalars
            return PathPoint(outcome.point, aim.conjugate(outcome.point, scalars), scalars)

        marks = tuple(sought(mark) or mark for mark in marks)
        for _ in range(max_searches):
            weights = parabola(np.array([m.conjugate for m in marks]), np.array([m.share for m in marks]))
            if weights is None:
                break
            start = marks[0].point
            for weight, mark in zip(weights[1:], marks[1:]):
                start = start.stepped(mark.point.less(marks[0].point), float(weight))
            start = replace(start, x=self.problem.settled(start.x))
            volumes = np.einsum("k,kc->c", weights, np.array([m.scalars for m in marks]))
            top = sought(PathPoint(start, aim.conjugate(start, volumes), volumes))
            if top is None:
                break
            marks = _around_best(tuple(sorted([*marks, top], key=lambda m: m.conjugate)))
            if abs(top.share - start.load_factor) < tolerance * abs(top.share):
                break
        best = max(marks, key=lambda m: m.share)
        return best.share, best.scalars, sorted(found, key=lambda outcome: outcome.point.load_factor)


def _around_best(marks: tuple[PathPoint, ...]) -> tuple[PathPoint, ...]:
    """The mark of the largest share, with its neighbours."""
    best = int(np.argmax([m.share for m in marks]))
    return marks[max(best - 1, 0) : best + 2]


def parabola(g: Floats, shares: Floats) -> Floats | None:
    """Weights of three points (3,) for the vertex of the parabola of their shares over g; None where it has no maximum."""
    if len(set(g)) < 3:
        return None
    curve = np.polyfit(g - g[1], shares, 2)
    if curve[0] >= 0.0:
        return None
    at = float(np.clip(g[1] - curve[1] / (2.0 * curve[0]), g.min(), g.max()))
    others = [(1, 2), (0, 2), (0, 1)]
    return np.array([(at - g[j]) * (at - g[k]) / ((g[i] - g[j]) * (g[i] - g[k])) for i, (j, k) in enumerate(others)])
