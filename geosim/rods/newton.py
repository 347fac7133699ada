"""Newton's method with a line search for the balance of one increment (Algorithm 1 of [Lahoti], lines 7-21).

Its own beside those of the energy solver and the snake: nothing here is a saddle or a complementarity problem. Inertia makes
the matrix definite, what moves is bounded by edges that turn, and the work of the residual along a step, which needs no energy
and so holds with friction, says how far to go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.linear.sparse import Blocks
from geosim.rods.balance import NO_TENSION, Balance, step_size
from geosim.rods.elastic import linear_tensions
from geosim.rods.state import Trial
from geosim.rods.terms import CONTACT
from geosim.rods.untouched import (
    MAX_MIXED_ITERATIONS,
    MAX_TURN_RAD,
    REUSED_FACTORS_RESIDUAL_SHARE,
    IncrementNewton,
    iterate_untouched,
    rods_alone,
)

# Of the work of the residual at the start of a step, of the other sign, with which it may end: friction turns within the slip
# velocity from one side to the other, so that a step that ends with nearly all of it has gone up as far as down. Woven rods of
# four seeds, which once circled there, take 78 iterations, and 87 at 0.9.
MAX_OVERSHOOT = 0.2
SHORT_STEP_WORK_SHARE = 0.5  # from which a step that had to be shortened falls short, and is lengthened again

# Shifts that make the matrix definite, of the stiffest entry of the diagonal.
DIAGONAL_SHIFTS_REL = 10.0 ** np.arange(-15, 3)  # from round-off of an entry to a matrix that is all diagonal


@dataclass
class Solution:
    """What an iteration found.

    `unstable` says that an equilibrium is none that stays, see `geosim.rods.stability`; `escaped` that a vertex left the region
    of its list of contact pairs; `damped` is the power [W] that dampers of rods took; `pushes` are those that moved the robot
    where they are not those at q, see `geosim.rods.state.Trial`; `inner` are forces of inertia and elasticity where they are not
    those of a plain increment, see `geosim.rods.energy`; `refused` says why a balance that was met is no step.
    """

    q: Floats
    trial: Trial
    residual_vector: Floats
    converged: bool
    residual: float
    iterations: int
    unstable: bool = False
    escaped: bool = False
    small: bool = False
    pushes: Floats | None = None
    inner: Floats | None = None
    damped: float = 0.0
    refused: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)


def solve_increment(
    balance: Balance, guesses: Sequence[Floats], options: IncrementNewton, small: bool = False
) -> Solution:
    """Iterate from the best of the guesses until the free residual and the last increment are small; fixed unknowns stay.

    `small` says that the increment before was small already.

    What touches nothing takes the tensions of the edges as unknowns of their own [Magisano2017]: eliminated, they leave the
    same equations, but with the geometric stiffness of tensions that follow from the step before, linearly. Positions alone say
    that an edge which turns by a in a step is stretched by a^2 / 2, a force a thousand times those that bend a slender rod:
    steps had to be as short as it is slender (30 iterations at length over radius 100, 2833 at 3333; now 4 to 8).
    """
    system, order = balance.system, balance.order
    now, left = _begun(balance, guesses, options, small), np.inf
    mixed, tension, band = not len(system.membrane), NO_TENSION, None
    while np.isfinite(now.residual):
        # nothing moves a body whose forces balance to round-off
        now.converged = now.residual <= options.tolerance and (now.small or now.residual == 0.0)
        if now.converged or now.iterations == options.iterations:
            break
        rhs, again = -now.residual_vector[order], _serves_again(left, band, now, options)
        if not again:
            values, extra, band = _matrix(balance, now, tension, options)
        if band is None:
            direction = _direction(balance, values, extra, rhs, options, now.residual, again=again)
        else:
            direction = system.pattern.solved_band(band, rhs)
        if direction is None:
            break
        dq = np.zeros_like(now.q)
        dq[order] = direction
        edge, move, turn = step_size(dq, system.stencils.springs, system.rest, system.turns)
        if not np.isfinite(edge + move + turn):
            break
        alpha = balance.longest(now.q, dq, min(1.0, MAX_TURN_RAD / max(edge, turn, MIN_DIVISOR)), move)
        mixed = mixed and _untouched(now, options)
        if mixed:
            tension = linear_tensions(now.q, alpha * dq, system.stencils.springs, system.stretch, balance.rest)
            now.q = now.q + alpha * dq
            now.trial, now.residual_vector = balance.residual(now.q)
        else:
            tension = NO_TENSION
            now.q, now.trial, now.residual_vector, alpha = _search(balance, now, dq, alpha, options)
        before, now.residual = now.residual, balance.relative(now.trial, now.residual_vector)
        left = now.residual / before
        now.small = alpha * max(move / system.mean_length, edge, turn) <= options.increment
        now.iterations += 1
        sizes = {"step": alpha, "move": alpha * move, "turn": alpha * turn}
        now.records.append({"iteration": now.iterations, "residual": now.residual, **sizes})
        now.escaped = balance.escaped(now.q)
        if now.escaped:
            break
    return now


def _serves_again(left: float, band: Floats | None, now: Solution, options: IncrementNewton) -> bool:
    """Whether the matrix of a step that left a share of the residual serves again, as factors of its `band` or of all of it."""
    # that of contacts where this step will be the last: it turns them over
    last = np.inf if band is not None else options.tolerance / max(now.residual, MIN_DIVISOR)
    return left < min(last, REUSED_FACTORS_RESIDUAL_SHARE) and not options.definite


def _matrix(
    balance: Balance, now: Solution, tension: Floats, options: IncrementNewton
) -> tuple[Floats, Blocks | None, Floats | None]:
    """Return the values of the matrix, the rest that is in none of its slots, and the factors of its band where it is one."""
    # Relative, from which pairs of rods change between slip and stick in a step (0, that is always: as many iterations).
    far_residual = 1e-2
    pattern = balance.system.pattern
    values, extra = balance.jacobian(now.q, now.trial, tension, far=now.residual > far_residual)
    banded = pattern.banded and extra is None and not options.definite
    return values, extra, pattern.factored_band(values)[0] if banded else None


def _untouched(now: Solution, options: IncrementNewton) -> bool:
    """Whether nothing pushes, and a step without search does not circle."""
    return not now.trial.pushes[CONTACT].any() and (options.definite or now.iterations < MAX_MIXED_ITERATIONS)


def _begun(balance: Balance, guesses: Sequence[Floats], options: IncrementNewton, small: bool) -> Solution:
    """Return the best of the guesses; for rods that touch nothing, where the compiled loop came to from it."""
    if rods_alone(balance):
        q, trial, f, converged, residual, made, small, records = iterate_untouched(balance, guesses, options, small)
        return Solution(q, trial, f, converged, residual, made, small=small, records=records)
    tried = [(q, *balance.residual(q)) for q in guesses]
    residuals = [balance.relative(trial, f) for _, trial, f in tried]
    best = int(np.argmin(residuals))
    return Solution(*tried[best], False, residuals[best], 0, small=small or len(balance.order) == 0)


def definite(
    balance: Balance, values: Floats, rhs: Floats, extra: Blocks | None
) -> tuple[Floats, Floats, Floats] | None:
    """Return the solution of the matrix with the least shift that makes it definite, that matrix and its shift; None of none.

    Translations and turns are shifted by their own stiffest entry.
    """
    pattern = balance.system.pattern
    own = np.abs(values[pattern.diagonal])
    turning = pattern.order >= balance.system.turns
    weight = np.where(turning, own[turning].max(initial=0.0), own[~turning].max(initial=0.0))
    for shift in DIAGONAL_SHIFTS_REL:
        shifted = values.copy()
        shifted[pattern.diagonal] += shift * weight
        found, negative = pattern.solve(shifted, rhs, extra)
        if found is not None and negative == 0:
            return found, shifted, shift * weight
    return None


def _direction(
    balance: Balance,
    values: Floats,
    extra: Blocks | None,
    rhs: Floats,
    options: IncrementNewton,
    residual: float,
    *,
    again: bool,
) -> Floats | None:
    """Solve for the Newton direction; with `definite`, shift the diagonal until no pivot is negative; `again`: by that before."""
    solve = balance.system.pattern.solve
    # Relative residual of a direction by factors of before [Eisenstat and Walker 1996]: no finer than far from balance its
    # linearisation is, nor than a tenth of what the last step may leave. Piles take as many iterations as with 1e-10.
    ample, final = min(0.03, 0.3 * residual), min(0.1, 0.1 * options.tolerance / max(residual, MIN_DIVISOR))
    accuracy = max(1e-3, ample, final)
    direction, negative = solve(values, rhs, extra, signs=options.definite, accuracy=accuracy, again=again)
    if direction is not None and (negative == 0 or not options.definite):
        return direction
    found = definite(balance, values, rhs, extra)
    return None if found is None else found[0]


def _search(
    balance: Balance, start: Solution, dq: Floats, alpha: float, options: IncrementNewton
) -> tuple[Floats, Trial, Floats, float]:
    """Shorten the step until the work of the residual along it falls (a decrease of the energy where one exists)."""
    max_shortenings = 12  # at 0.5 each they reach 2e-4 of a step

    def look(alpha: float) -> tuple[float, tuple[Floats, Trial, Floats]]:
        """Return the work of the residual along the step at a share of it, and what is there."""
        q = start.q + alpha * dq
        trial, f = balance.residual(q)
        return float(dq[balance.order] @ f[balance.order]), (q, trial, f)

    work = float(dq[balance.order] @ start.residual_vector[balance.order])
    over = 0.0  # a step that went too far
    # of a step, between which regula falsi shortens it: always by something, never to nothing
    min_shortening, max_shortening = 0.1, 0.7
    halved_step = 0.5  # where the work is not a number, or was none
    forced_step_share = 0.05  # of a step, taken whatever the work says where the direction does not descend (friction)
    for _ in range(max_shortenings):
        now, there = look(alpha)
        finite = np.isfinite(now)
        # a descent direction has work < 0; overshooting shows as a large positive work at the new point. The amount of that
        # of another direction must not grow.
        fallen = now <= MAX_OVERSHOOT * -work if work < 0 else abs(now) <= work
        if finite and (fallen or not options.line_search):
            break
        if finite and work >= 0 and alpha < forced_step_share:
            break
        # regula falsi between the ends, kept inside the interval
        share = work / (work - now) if finite and work < 0 else halved_step
        over, alpha = alpha, alpha * min(max(share, min_shortening), max_shortening)
    else:
        return *there, alpha
    if options.line_search and work < 0 and over > 0.0 and now < SHORT_STEP_WORK_SHARE * work:
        return _lengthened(look, work, alpha, over, there)
    return *there, alpha


def _lengthened(
    look: Callable[[float], tuple[float, tuple[Floats, Trial, Floats]]],
    work: float,
    short: float,
    over: float,
    best: tuple[Floats, Trial, Floats],
) -> tuple[Floats, Trial, Floats, float]:
    """Return a step between one that falls short and one that goes too far (contact stiffens between them) that does neither."""
    max_lengthenings = 5
    for _ in range(max_lengthenings):
        alpha = float(np.sqrt(short * over))
        now, there = look(alpha)
        if np.isfinite(now) and now <= MAX_OVERSHOOT * -work:
            short, best = alpha, there
            if now >= SHORT_STEP_WORK_SHARE * work:
                break
        else:
            over = alpha
    return *best, short
