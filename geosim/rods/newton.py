"""Newton's method with a line search for the balance of one increment (Algorithm 1 of [Lahoti], lines 7-21)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.rods.balance import Balance, Triplets
from geosim.rods.state import Trial

__all__ = ["Newton", "Solution", "solve_increment"]

LARGEST_TURN = 1.0  # rad, and relative change of an edge, in one iteration
SHRINK = 0.5


@dataclass(frozen=True)
class Newton:
    """Options of the iteration.

    Parameters
    ----------
    tolerance
        On the residual, relative to the largest internal force.
    increment
        On the last increment: translations over edge lengths, angles in radians.
    iterations
        Most iterations.
    line_search
        Whether steps are shortened until the work along them falls.
    definite
        Whether the matrix is shifted until it is positive definite (statics).
    reach
        Most translation of a vertex in one iteration [m]; inf unless contact is near.
    """

    tolerance: float = 1e-6
    increment: float = 1e-3
    iterations: int = 50
    line_search: bool = True
    definite: bool = False
    reach: float = np.inf


@dataclass
class Solution:
    """What an iteration found; `escaped` says that a vertex left the region of its list of contact pairs."""

    q: Floats
    trial: Trial
    residual_vector: Floats
    converged: bool
    residual: float
    iterations: int
    negative: int = 0
    escaped: bool = False
    small: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)


@kernel
def step_size(dq, edge_dofs, length, turns):
    """Return the largest relative motion of an edge and the largest translation and turn in a step."""
    edge, move, turn = 0.0, 0.0, 0.0
    for i in range(edge_dofs.shape[0]):
        a, b = edge_dofs[i, 0], edge_dofs[i, 1]
        s = 0.0
        for j in range(3):
            s += (dq[b + j] - dq[a + j]) ** 2
        edge = max(edge, s / length[i] ** 2)
    for i in range(turns):
        move = max(move, abs(dq[i]))
    for i in range(turns, dq.shape[0]):
        turn = max(turn, abs(dq[i]))
    return np.sqrt(edge), move, turn


def solve_increment(balance: Balance, q: Floats, options: Newton, small: bool = False) -> Solution:
    """Iterate from q until the free residual and the last increment are small; fixed unknowns keep their values.

    `small` says that the increment before q was small already.
    """
    system = balance.system
    order = balance.order
    trial, f = balance.residual(q)
    residual = balance.relative(trial, f)
    records: list[dict[str, Any]] = []
    length = float(np.concatenate([system.rest, system.shell.rest]).mean())
    negative = 0
    small = small or len(order) == 0
    for iteration in range(options.iterations + 1):
        # nothing moves a body whose forces balance to round-off
        if residual <= options.tolerance and (small or residual == 0.0):
            return Solution(q, trial, f, True, residual, iteration, negative, False, small, records)
        if iteration == options.iterations or not np.isfinite(residual):
            break
        values, extra = balance.jacobian(q, trial)
        direction, negative = _direction(balance, values, extra, -f[order], options)
        if direction is None:
            break
        dq = np.zeros_like(q)
        dq[order] = direction
        edge, move, turn = step_size(dq, system.edge_dofs, trial.length, system.turns)
        if len(system.shell.rest):
            edge = max(edge, step_size(dq, system.shell.spring_dofs[:, ::3], system.shell.rest, system.turns)[0])
        if not np.isfinite(edge + move + turn):
            break
        alpha = min(
            1.0, LARGEST_TURN / max(edge, 1e-300), LARGEST_TURN / max(turn, 1e-300), options.reach / max(move, 1e-300)
        )
        for term in balance.terms:
            if hasattr(term, "safe_share"):
                alpha *= term.safe_share(q, alpha * dq)
        q, trial, f, alpha = _search(balance, q, dq, f, alpha, order, direction, options)
        residual = balance.relative(trial, f)
        small = alpha * max(move / length, edge, turn) <= options.increment
        records.append(
            {
                "iteration": iteration + 1,
                "residual": residual,
                "step": alpha,
                "move": alpha * move,
                "turn": alpha * turn,
                "negative": negative,
            }
        )
        if any(term.escaped(q) for term in balance.terms if hasattr(term, "escaped")):
            return Solution(q, trial, f, False, residual, iteration + 1, negative, True, small, records)
    return Solution(q, trial, f, False, residual, len(records), negative, False, small, records)


def _direction(
    balance: Balance, values: Floats, extra: Triplets | None, rhs: Floats, options: Newton
) -> tuple[Floats | None, int]:
    """Solve for the Newton direction; with `definite`, shift the diagonal until no pivot is negative."""
    pattern = balance.system.pattern
    direction, negative = pattern.solve(values, rhs, extra)
    if direction is not None and (negative == 0 or not options.definite):
        return direction, negative
    first = negative
    # the shift weighs translations and turns alike, each by its own stiffest entry
    own = values[pattern.diagonal]
    turning = pattern.order >= balance.system.turns
    weight = np.empty(len(own))
    for part in (turning, ~turning):
        weight[part] = np.abs(own[part]).max(initial=0.0)
    shift = 1e-8
    while shift < 1e3:
        shifted = values.copy()
        shifted[pattern.diagonal] += shift * weight
        direction, negative = pattern.solve(shifted, rhs, extra)
        if direction is not None and negative == 0:
            return direction, max(first, 1)
        shift *= 10.0
    return direction, max(first, 1)


def _search(
    balance: Balance, q: Floats, dq: Floats, f: Floats, alpha: float, order: Any, direction: Floats, options: Newton
) -> tuple[Floats, Trial, Floats, float]:
    """Shorten the step until the work of the residual along it falls (a decrease of the energy where one exists)."""
    work = float(direction @ f[order])
    limit = 0.9 * abs(work)
    over = 0.0  # a step that went too far
    for _ in range(12):
        trial_q = q + alpha * dq
        trial, f_new = balance.residual(trial_q)
        now = float(direction @ f_new[order])
        if not options.line_search and np.isfinite(now):
            break
        # a descent direction has work < 0; overshooting shows as a large positive work at the new point
        if np.isfinite(now) and (now <= limit if work < 0 else abs(now) <= limit or alpha < 0.05):
            if work < 0 and over > 0.0 and now < 0.5 * work:
                alpha, trial_q, trial, f_new = _lengthen(
                    balance, q, dq, order, direction, work, (alpha, over), (trial_q, trial, f_new)
                )
            break
        # regula falsi between the ends, kept inside the interval
        share = work / (work - now) if np.isfinite(now) and work < 0 else SHRINK
        over = alpha
        alpha *= min(max(share, 0.1), 0.7)
    return trial_q, trial, f_new, alpha


def _lengthen(
    balance: Balance,
    q: Floats,
    dq: Floats,
    order: Any,
    direction: Floats,
    work: float,
    between: tuple[float, float],
    best: tuple[Floats, Trial, Floats],
) -> tuple[float, Floats, Trial, Floats]:
    """Return a step between one that falls short and one that goes too far (contact stiffens between them) that does neither."""
    short, over = between
    for _ in range(5):
        alpha = float(np.sqrt(short * over))
        trial_q = q + alpha * dq
        trial, f = balance.residual(trial_q)
        now = float(direction @ f[order])
        if np.isfinite(now) and now <= -0.1 * work:
            short, best = alpha, (trial_q, trial, f)
            if now >= 0.5 * work:
                break
        else:
            over = alpha
    return short, *best
