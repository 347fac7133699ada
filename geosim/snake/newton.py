"""Newton's method of one substep: directions, and a line search on the merit.

A Newton of its own: its unknowns are turns besides places, so that a step is exp(dq) applied to a configuration. Coulomb's law
makes the stiffness unsymmetric; and the merit, whose contacts have kinks, holds the friction at lagged normal forces.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Mapping

import numpy as np

from geosim.arrays import Floats
from geosim.linear.block_tridiagonal import multiply
from geosim.linear.krylov import flexible_gmres
from geosim.snake.condensed import CondensedDirection, Kept, NewtonDirection
from geosim.snake.contact import add_coupling
from geosim.snake.problem import MultibodyEvaluation, Substep, along
from geosim.snake.system import Workspace

MAX_COUPLING_ITERATIONS = (
    20  # of GMRES with the coupling of friction and normal force, of rank one a contact; mostly 3 to 6
)
MAX_LINE_SEARCH_TRIALS = 14  # of a line search: halved so often, a step is 1e-4 of itself


class PrimalDirection(NewtonDirection):
    """The multipliers eliminated: few contacts in their own unknowns, many as part of the matrix."""

    def __init__(
        self, problem: Substep, workspace: Workspace, forcing: float, kept: Kept, most: int | None = None
    ) -> None:
        self.problem, self.workspace, self.forcing = problem, workspace, forcing
        suits = CondensedDirection.suits(problem, workspace)
        self.few = CondensedDirection(problem, workspace, kept, most) if suits else None

    @property
    def renewable(self) -> bool:
        """Whether the last direction was that of an older factor, and a new one is allowed."""
        return self.few is not None and self.few.renewable

    def stale(self, before: MultibodyEvaluation, after: MultibodyEvaluation) -> bool:
        """Whether the kept factor has contracted poorly what no contact acts on."""
        assert self.few is not None
        return self.few.stale(before, after)

    def keep(self, iterations: int, ended: bool) -> Kept:
        """Return what the next substep may go on with, after one of this many iterations or one that had to be `ended`."""
        worn_factor_iterations = 3  # iterations of a substep above which the next one begins with a new factor
        return Kept() if self.few is None else Kept(self.few.kept, ended or iterations > worn_factor_iterations)

    @property
    def count(self) -> int:
        """Factorisations so far, of those that are kept."""
        return 0 if self.few is None else self.few.count

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction and the iterations that it took."""
        found = self.few.solve(now, fresh) if self.few is not None else None
        for clamp in (True,) if rough else (False, True):
            found = self._in_matrix(now, clamp) if found is None else found
        # Where even the semi-definite stiffness failed in floating point the mass alone always descends.
        return (self.problem.steepest(now), 0) if found is None else found

    def _in_matrix(self, now: MultibodyEvaluation, clamp: bool) -> tuple[Floats, int] | None:
        """Solve with the contacts in the matrix; None if it cannot be factored."""
        factor, pattern = self.workspace.factor, self.problem.system.pattern
        blocks = self.problem.assemble(now, clamp)
        self.workspace.held = None
        if not factor.factor(blocks, clamp):
            return None
        slots, rows = self.problem.coupling(now.contact)
        # The clamped system leaves out how friction follows the normal force: it is symmetric and always descends.
        if clamp or not len(slots):
            return factor.solve(-now.gradient), 1

        def product(v: Floats) -> Floats:
            out = np.empty_like(v)
            multiply(blocks, pattern.rows, pattern.columns, v, out)
            add_coupling(slots, rows, v, out)
            return out

        direction, count, _ = flexible_gmres(
            product, factor.solve, -now.gradient, self.forcing, MAX_COUPLING_ITERATIONS
        )
        return direction, count


def solve_substep(
    problem: Substep,
    guess: MultibodyEvaluation,
    direction: NewtonDirection,
    tolerance: float,
    iterations: int,
    trials: int | None = None,
    until: float = math.inf,
) -> tuple[MultibodyEvaluation, list[Mapping[str, float]]]:
    """Go from a guess to the balance of forces; return what was reached, and one record for every iteration.

    It takes at most this many `iterations`, and `trials` of line searches in all of them; none but the first begins after the
    time `until` [s] of `time.process_time`.
    """
    now, residual = guess, problem.residual(guess.gradient)
    records: list[Mapping[str, float]] = []
    # The first direction is damped too: where a wheel begins to slip, its spin would overshoot by far otherwise.
    rough, renew, left = True, False, math.inf if trials is None else trials
    # of the tolerance, at which a first guess is taken for a solution: it is extrapolated, and would run away
    accepted_guess_share = 1e-3
    # Step length below which, or share of the residual above which, an exact direction was poor.
    poor_step_length, poor_residual_share = 0.9, 0.5
    for iteration in range(iterations):
        if left <= 0 or residual <= (tolerance if iteration > 0 else accepted_guess_share * tolerance):
            break
        if iteration > 0 and clock.process_time() > until:
            break
        begin, factored = clock.perf_counter(), direction.count
        step, linear = direction.solve(now, rough, renew)
        quick = direction.renewable and left > 1
        alpha, found, tried = line_search(problem, now, step, 1 if quick else int(min(left, MAX_LINE_SEARCH_TRIALS)))
        before, residual, renew = residual, problem.residual(found.gradient), False
        if quick and not residual <= max(tolerance, poor_residual_share * before):
            renew = direction.stale(now, found)
            if not (renew and residual < before):  # what fell is kept, and the next direction begins with a new factor
                if renew:
                    step, linear = direction.solve(now, rough, True)
                alpha, found, more = line_search(problem, now, step, int(min(left - tried, MAX_LINE_SEARCH_TRIALS)))
                residual, tried, renew = problem.residual(found.gradient), tried + more, False
        now, left = found, left - tried
        direction.accept(alpha)
        # After a poor step with the exact stiffness one with the clamped stiffness, which damps friction's kinks.
        rough = iteration > 0 and not rough and (alpha < poor_step_length or residual > poor_residual_share * before)
        records.append(
            {
                "iteration": iteration,
                "residual": residual,
                "step": alpha,
                "contacts": int((now.normal_forces > 0).sum()),
                "linear": linear,
                "factored": direction.count - factored,
                "trials": tried,
                "seconds": clock.perf_counter() - begin,
            }
        )
    return now, records


def line_search(
    problem: Substep, now: MultibodyEvaluation, direction: Floats, most: int = MAX_LINE_SEARCH_TRIALS
) -> tuple[float, MultibodyEvaluation, int]:
    """Take the full step, or the length at which the merit is least along it, or a length at which the residual falls.

    The merit, friction at the current normal forces, is what falls far from the solution. A contact between sliding
    and sticking has a kink that a full step jumps over: there the slope of the merit changes sign, and its root is
    the step (regula falsi; slopes are along the direction, from which what a body carries departs at second order, see
    `geosim.snake.rotation.carried`). Coulomb's law has no potential, so near the solution, where a Newton step need not
    lower the merit, the residual decides. Returns the length, what is there, and the number of trials.
    """
    particles = problem.system.particles
    slope, size, turn = along(now.gradient, direction, particles)
    merit_rounding_rel = 1e-13  # of the merit: differences below are noise
    noise = merit_rounding_rel * (abs(now.merit) + problem.h**2)
    max_body_turn_rad = 1.0  # rad that a body turns at most in an iteration
    alpha, trials = min(1.0, max_body_turn_rad / max(turn, 1e-300)), []
    low, slope_low, high, slope_high = 0.0, slope, np.inf, 0.0
    accepted_residual_share = 0.5  # share of the residual's norm at which a trial is taken whatever the merit
    # sufficient fall and slope of the merit, the usual 1e-4 and a search that is not tight
    armijo_slope, wolfe_slope = 1e-4, 0.3
    bracket_margins = (0.01, 0.9)  # part of a bracket in which regula falsi may land
    for _ in range(most):
        trial = problem.evaluate(problem.moved(now.place, alpha * direction), now.normal_forces)
        slope_here, after, _ = along(trial.gradient, direction, particles)
        trials.append((after if np.isfinite(after) else np.inf, alpha, trial))
        falls = slope < 0 and trial.lagged_merit <= now.merit + armijo_slope * alpha * slope + noise
        if after <= accepted_residual_share * size or (falls and abs(slope_here) <= wolfe_slope * abs(slope)):
            break
        if slope < 0 and slope_here > 0:
            slope_low *= 0.5 if np.isfinite(high) else 1.0  # Illinois: neither end may stay for ever
            high, slope_high = alpha, slope_here
        elif falls and np.isfinite(high):
            slope_high *= 0.5
            low, slope_low = alpha, slope_here
        elif falls or after <= (1.0 - armijo_slope * alpha) * size:
            break
        share = min(max(slope_low / (slope_low - slope_high), bracket_margins[0]), bracket_margins[1])
        alpha = low + (high - low) * share if np.isfinite(high) else 0.5 * alpha
    else:
        _, alpha, trial = min(trials, key=lambda t: t[0])
    return alpha, trial, len(trials)
