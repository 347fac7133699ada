"""solve_for(robot, goals): bounded Gauss-Newton on the sensitivities, along solved paths.

    minimise |w (m(u) - g)|^2     over controls u within bounds,

with m(u) the measures at the equilibrium that the path from the last one leads to. Every iteration solves the linear
problem within the bounds and a trust radius. It then solves the robot there from its last state, and computes the
sensitivities. A goal that no controls reach ends where the linear problem has nothing more to gain: the nearest point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Bools, Floats, whole
from geosim.errors import InputError
from geosim.model.actuation import AMBIENT_PRESSURE_PA, Actuation
from geosim.model.environment import Environment
from geosim.response.controls import SteerableRobot, actuation_of, box_of
from geosim.response.derivatives.equilibrium import NoUniqueTangentError
from geosim.response.equilibria import EquilibriumFunction
from geosim.response.inverse.goals import Goal, as_goals
from geosim.response.rod_equilibria import Solver, default_solver, function_of
from geosim.result import Result
from geosim.solve import solve

CONTROL_SHARE = 0.4  # of the bounds: the unit of controls that have none of their own


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
        scale = np.ones(len(self.limits)) if self.function.control.even else np.ptp(self.limits, axis=1) * CONTROL_SHARE
        result = self._solved(u, None)
        if result is None:
            return None
        for goal in self.goals:
            goal.check(result)
        # trust radii over the unit of the controls: first, most, least
        first_trust_radius, max_trust_radius, min_trust_radius = 0.5, 2.0, 1e-4
        misses, radius, least = self._misses(result), first_trust_radius, self.limits[:, 0].copy()
        slopes = self._slopes(result)
        # shares of the predicted gain below and above which the radius shrinks and grows
        poor_gain, good_gain = 0.25, 0.75
        min_promised_gain = 1e-5  # of the distance: what a step has to promise to be worth a solve
        while (
            self.solves < self.max_solves and not self._met(result) and radius > min_trust_radius and slopes is not None
        ):
            low = np.maximum(least - u, -radius * scale)
            high = np.minimum(self.limits[:, 1] - u, radius * scale)
            step, promised = _boxed(slopes, misses, low, high, scale)
            before = float(misses @ misses)
            if promised < min_promised_gain * before:
                pulled = high if self.function.control.pull else low
                if self._blind(misses, slopes * scale, pulled):  # a finger that does not touch its object yet
                    step = pulled
                else:
                    break
            there = self._solved(u + step, result)
            after = np.inf if there is None else float(np.sum(self._misses(there) ** 2))
            share = (before - after) / max(promised, MIN_DIVISOR)
            drained = self._drained(result, step) & (least < u)
            if there is None and drained.any():  # no pump goes on there: the other controls have to do it
                least[drained] = u[drained]
                continue
            if there is None or (after >= before and promised >= min_promised_gain * before):
                radius = 0.25 * min(radius, float(np.abs(step / scale).max()))
                continue
            radius = (
                0.5 * radius
                if share < poor_gain
                else min(2.0 * radius, max_trust_radius)
                if share > good_gain
                else radius
            )
            u, result, misses = u + step, there, self._misses(there)
            slopes = self._slopes(result)
        distance = float(np.linalg.norm(misses))
        return Inverse(
            actuation_of(self.function.robot, self.function.vary, u), result, self._met(result), distance, self.solves
        )

    def _solved(self, u: Floats, before: Result | None) -> Result | None:
        """Return the result at controls, from that before; None where the path does not lead there."""
        self.solves += 1
        found = solve(**self.function.problem(u), initial=before, throw=False)
        return found if len(found.frames) and all(np.isfinite(self._misses(found))) else None

    def _drained(self, result: Result, step: Floats) -> Bools:
        """Which chambers a step would empty further that are near vacuum already."""
        if self.function.control.name != "volume_ratio":
            return np.zeros(len(step), dtype=bool)
        vacuum_goal_share = 0.5  # of the ambient: what a chamber that is to be emptied further has at most to give
        return np.asarray((step < 0.0) & (result.chamber_pressures[-1] < -vacuum_goal_share * AMBIENT_PRESSURE_PA))

    def _misses(self, result: Result) -> Floats:
        return np.concatenate([g.weight * g.miss(result) for g in self.goals])

    def _met(self, result: Result) -> bool:
        return all(np.linalg.norm(g.miss(result)) <= g.tolerance(self.function.robot.size) for g in self.goals)

    def _slopes(self, result: Result) -> Floats | None:
        """Return the Jacobian of the weighted misses; None where the equilibrium has no tangent."""
        try:
            slopes = dict(zip(self.function.of, self.function.slopes(result)))
        except NoUniqueTangentError:
            return None
        return np.vstack([g.weight * g.slopes(result, slopes[g.of]) for g in self.goals])

    @staticmethod
    def _blind(misses: Floats, slopes: Floats, pulled: Floats) -> bool:
        """Whether some goal answers to no control, which can still be raised."""
        min_control_effect = 1e-3  # of a miss: what a unit of a control changes of a goal that answers to it
        deaf = np.abs(slopes).max(axis=1) < min_control_effect * np.abs(misses)
        return bool(deaf.any() and pulled.any())


def _boxed(slopes: Floats, misses: Floats, low: Floats, high: Floats, scale: Floats) -> tuple[Floats, float]:
    """Return the step in a box that leaves least of the misses, to first order, and how much of their squares goes.

    Where there are more controls than goals the damping takes the shortest of the steps that gain as much.
    """
    small = 1e-12  # of the unit of a control: rounding
    thin = np.maximum(high - low, small * scale)  # a control at both of its bounds
    damping_rel = 1e-3  # of the size of the slopes: what answers to a thousandth of it is not worth a long step
    size, count = float(np.linalg.norm(slopes * scale)), len(scale)
    rows = np.vstack([slopes * scale, damping_rel * size * np.eye(count)])
    right = np.concatenate([-misses, np.zeros(count)])
    best = lsq_linear(rows, right, bounds=(low / scale, (low + thin) / scale), tol=small).x
    step = np.clip(best * scale, low, high)
    return step, float(misses @ misses - np.sum((misses + slopes @ step) ** 2))
