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
from geosim.snake.condensed import NewtonDirection
from geosim.snake.problem import MultibodyEvaluation, Substep, along

GOOD_RESIDUAL_SHARE = 0.5  # of the residual, that a good step leaves at most: it is taken whatever the merit says
MAX_LINE_SEARCH_TRIALS = 14  # of a line search: halved so often, a step is 1e-4 of itself


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
        if quick and not residual <= max(tolerance, GOOD_RESIDUAL_SHARE * before):
            renew = direction.stale(now, found)
            if not (renew and residual < before):  # what fell is kept, and the next direction begins with a new factor
                if renew:
                    step, linear = direction.solve(now, rough, True)
                alpha, found, more = line_search(problem, now, step, int(min(left - tried, MAX_LINE_SEARCH_TRIALS)))
                residual, tried, renew = problem.residual(found.gradient), tried + more, False
        now, left = found, left - tried
        direction.accept(alpha)
        # After a poor step with the exact stiffness one with the clamped stiffness, which damps friction's kinks.
        rough = iteration > 0 and not rough and residual > GOOD_RESIDUAL_SHARE * before
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
    slope, size = along(now.gradient, direction)
    alpha, low, slope_low, high, slope_high, trials = 1.0, 0.0, slope, np.inf, 0.0, []
    wolfe_slope = 0.3  # share of the slope that may be left: a search that is not tight
    bracket_margins = (0.01, 0.9)  # part of a bracket in which regula falsi may land
    for _ in range(most):
        trial = problem.evaluate(problem.moved(now.place, alpha * direction), now.normal_forces)
        slope_here, after = along(trial.gradient, direction)
        trials.append((after if np.isfinite(after) else np.inf, alpha, trial))
        falls = slope < 0 and trial.lagged_merit < now.merit
        if after <= GOOD_RESIDUAL_SHARE * size or (falls and abs(slope_here) <= wolfe_slope * abs(slope)):
            break
        if slope < 0 and slope_here > 0:
            high, slope_high = alpha, slope_here
        elif falls and np.isfinite(high):
            slope_high *= 0.5  # Illinois: an end that stays for long counts less
            low, slope_low = alpha, slope_here
        elif falls or after < size:
            break
        share = min(max(slope_low / (slope_low - slope_high), bracket_margins[0]), bracket_margins[1])
        alpha = low + (high - low) * share if np.isfinite(high) else 0.5 * alpha
    else:
        _, alpha, trial = min(trials, key=lambda t: t[0])
    return alpha, trial, len(trials)
