"""solve_for(robot, goals): bounded Gauss-Newton on the sensitivities, along solved paths.

    minimise |w (m(u) - g)|^2     over controls u within bounds,

with m(u) the measures at the equilibrium that the path from the last one leads to. Every iteration solves the linear
problem within the bounds and a trust radius. It then solves the robot there from its last state, and computes the
sensitivities. A goal that no controls reach ends where the linear problem has nothing more to gain: the nearest point.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, whole
from geosim.errors import InputError
from geosim.model.actuation import AMBIENT_PRESSURE_PA, Actuation
from geosim.model.environment import Environment
from geosim.response.controls import SteerableRobot, actuation_of, box_of
from geosim.response.derivatives.equilibrium import NoUniqueTangentError
from geosim.response.equilibria import EquilibriumFunction
from geosim.response.inverse.goals import Goal, as_goals
from geosim.response.least_squares import bounded_least_squares
from geosim.response.rod_equilibria import Solver, default_solver, function_of
from geosim.result import Result
from geosim.solve import solve

CONTROL_SHARE = 0.4  # of the bounds: the unit of controls that have none of their own
FIRST_STEP = 0.5  # of a unit: how far the first step goes at most


@guarded
@dataclass(frozen=True)
class Inverse:
    """What was found.

    Parameters
    ----------
    actuation
        One command that leads there.
    result
        The shape under it.
    reached
        Whether every goal is met; else this is the nearest point that was found.
    distance
        Norm of the weighted misses [SI].
    solves
        How many solves it took.
    """

    actuation: Actuation
    result: Result
    reached: bool
    distance: float
    solves: int


@guarded
def solve_for(
    robot: SteerableRobot,
    goals: Goal | Sequence[Goal],
    vary: str = "volume_ratio",
    bounds: Any = None,
    environment: Environment | None = None,
    solver: Solver | None = None,
    max_solves: int = 15,
) -> Inverse:
    """Return the controls that bring a robot to its goals, or nearest to them.

    Parameters
    ----------
    robot, environment, solver
        As in `solve`.
    goals
        One `Goal` or several.
    vary
        "volume_ratio", "pressure", "cable_length" or "cable_tension", of all chambers or cables; of rods one of the last two, or
        "curvature", natural, about kappa1 and kappa2 of every limb.
    bounds
        Least and largest value (2,), or of every control (m, 2); default half to three times the rest volume, 0 to half of
        the shear modulus [Pa], four fifths of the rest length to all of it [m], 0 to a fifth of the shear modulus times
        the body's volume over its size [N].
    max_solves
        How many equilibria are solved at most; the nearest of them is returned.

    Raises
    ------
    InputError
        There is nothing to vary, a goal names what is not there, or the robot cannot be solved.
    """
    goals = as_goals(goals, "solve_for")
    whole(max_solves, "solve_for: max_solves", least=1)
    solver = default_solver(robot, solver, "solve_for")
    limits = box_of(robot, vary, bounds, "solve_for")
    named = tuple(dict.fromkeys(g.of for g in goals))
    around = Environment() if environment is None else environment
    function = function_of(robot, vary, of=named, environment=around, solver=solver)
    return InverseSearch(function, goals, limits, max_solves).run()


class _DrainedError(Exception):
    """A step would empty chambers further that are near vacuum already."""


@dataclass(frozen=True)
class Point:
    """Controls (m,), the equilibrium under them, and its weighted misses of all goals."""

    u: Floats
    result: Result
    misses: Floats


@dataclass
class InverseSearch:
    """One search; `run` reads like the algorithm."""

    function: EquilibriumFunction
    goals: tuple[Goal, ...]
    limits: Floats
    max_solves: int
    solves: int = 0

    def run(self) -> Inverse:
        """Return the nearest point found: from rest, and where that does not reach the goals with one control raised."""
        control = self.function.control
        rest = np.clip(control.rest * control.unit(self.function.robot), *self.limits.T)
        # further starts at most, with one control raised by its unit on the way to its upper bound
        max_restarts = 3
        raised = rest + CONTROL_SHARE * (self.limits[:, control.pull] - rest) * np.eye(len(rest))[:max_restarts]
        best: Inverse | None = None
        for start in [rest, *raised]:
            found = self._descend(start)
            if found is not None and (best is None or found.distance < best.distance):
                best = found
            if (best is not None and best.reached) or self.solves >= self.max_solves:
                break
        if best is None:
            raise InputError("solve_for: no equilibrium at the bounds nearest to rest; widen them or remove loads")
        return replace(best, solves=self.solves)

    def _descend(self, u: Floats) -> Inverse | None:
        """Return the nearest point that Gauss-Newton finds from a start; None where that is no equilibrium."""
        there = self._solved(u, None)
        if there is None:
            return None
        for goal in self.goals:
            goal.check(there.result)
        low, high = self.limits.T
        while there is not None:
            at, drained = self._nearest(there, (low, high))
            # no pump goes on there: the other controls have to do it
            low = np.where(drained, np.minimum(at.u, high - 1e-9 * self.unit), low)
            there = at if drained.any() else self._pulled(at)
        distance = float(np.linalg.norm(at.misses))
        actuation = actuation_of(self.function.robot, self.function.vary, at.u)
        return Inverse(actuation, at.result, self._met(at.result), distance, self.solves)

    @property
    def unit(self) -> Floats:
        """Unit of every control."""
        even = self.function.control.even
        return np.ones(len(self.limits)) if even else np.ptp(self.limits, axis=1) * CONTROL_SHARE

    def _nearest(self, at: Point, bounds: tuple[Floats, Floats]) -> tuple[Point, Bools]:
        """Return where least squares lead from a point, and which chambers a step from there would have emptied too far.

        Slopes of 0 end them, at the goal and where there is no tangent.
        """
        tried, drained = at, np.zeros(len(at.u), dtype=bool)

        def misses(u: Floats) -> Floats:
            nonlocal tried, drained
            found = at if np.array_equal(u, at.u) else self._solved(u, at.result)
            if found is not None:
                tried = found
                return found.misses
            drained = self._drained(at.result, u - at.u)
            if drained.any():
                raise _DrainedError
            return np.full(len(at.misses), np.inf)

        def slopes(u: Floats) -> Floats:
            nonlocal at
            at = tried
            found = None if self._met(at.result) else self._slopes(at.result)
            return np.zeros((len(at.misses), len(u))) if found is None else found

        # of the squares of the misses: what a step has to gain to be worth another; of the unit of a control: the least step
        min_gain, min_step = 1e-5, 1e-4
        most = max(self.max_solves - self.solves, 0) + 1
        options = {"ftol": min_gain, "xtol": min_step, "gtol": None, "max_nfev": most}
        with suppress(_DrainedError):
            bounded_least_squares(misses, slopes, at.u, self.unit, bounds, FIRST_STEP, **options)
        return at, drained

    def _pulled(self, at: Point) -> Point | None:
        """Return the point of controls a step further where some goal answers to none of them: a finger does not touch yet."""
        min_control_effect = 1e-3  # of a miss: what a unit of a control changes of a goal that answers to it
        slopes = None if self.solves >= self.max_solves or self._met(at.result) else self._slopes(at.result)
        if slopes is None:
            return None
        deaf = np.abs(slopes * self.unit).max(axis=1) < min_control_effect * np.abs(at.misses)
        sign = 1.0 if self.function.control.pull else -1.0
        u = np.clip(at.u + sign * FIRST_STEP * self.unit, *self.limits.T)
        return self._solved(u, at.result) if deaf.any() and (u != at.u).any() else None

    def _solved(self, u: Floats, before: Result | None) -> Point | None:
        """Return the point at controls, from the result before; None where the path does not lead there."""
        self.solves += 1
        found = solve(**self.function.problem(u), initial=before, throw=False)
        if not len(found.frames):
            return None
        misses = np.concatenate([g.weight * g.miss(found) for g in self.goals])
        return Point(u, found, misses) if np.isfinite(misses).all() else None

    def _drained(self, result: Result, step: Floats) -> Bools:
        """Which chambers a step would empty further that are near vacuum already."""
        if self.function.control.name != "volume_ratio":
            return np.zeros(len(step), dtype=bool)
        vacuum_goal_share = 0.5  # of the ambient: what a chamber that is to be emptied further has at most to give
        return np.asarray((step < 0.0) & (result.chamber_pressures[-1] < -vacuum_goal_share * AMBIENT_PRESSURE_PA))

    def _met(self, result: Result) -> bool:
        return all(np.linalg.norm(g.miss(result)) <= g.tolerance(self.function.robot.size) for g in self.goals)

    def _slopes(self, result: Result) -> Floats | None:
        """Return the Jacobian of the weighted misses; None where the equilibrium has no tangent."""
        try:
            slopes = dict(zip(self.function.of, self.function.slopes(result)))
        except NoUniqueTangentError:
            return None
        return np.vstack([g.weight * g.slopes(result, slopes[g.of]) for g in self.goals])
