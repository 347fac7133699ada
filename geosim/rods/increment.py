"""The one balance of forces that every increment solves, with the parts that may touch on the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geosim.arrays import Floats
from geosim.rods.balance import Balance, Inertia
from geosim.rods.drive import Drive
from geosim.rods.newton import Solution, solve_increment
from geosim.rods.stability import judge
from geosim.rods.state import RodState
from geosim.rods.terms import Term
from geosim.rods.viscous import damped, taken

__all__ = ["Advanced", "blocked", "solve_balance"]

Advanced = tuple[RodState | None, Solution, list[Term]]

MIDPOINT_STEPS = 2.0  # steps: the midpoint rule goes another one as far
# lists of contact pairs that one balance may need before its motion counts as a failure; two or three are usual
MAX_REBINDS = 100


def solve_balance(
    drive: Drive,
    state: RodState,
    q: Floats,
    natural: Floats,
    load: Floats,
    step: float,
    time: float,
    inertia: Inertia | None = None,
) -> tuple[RodState, Solution, list[Term]]:
    """Solve the balance of one increment from the guess q, with the pairs that may touch on the way.

    `step` is h [s] (0 in statics), `time` [s] that at the end, `inertia` that of a rule other than backward Euler; the state
    returned is the one given, with its list of pairs.
    """
    iterations, records, small = 0, [], False
    for _ in range(MAX_REBINDS):
        state = state.paired(q, 0.0 if iterations else MIDPOINT_STEPS * step)
        terms = drive.terms(state, step, time, inertia)
        system, eased = damped(state, natural, step)
        balance = Balance(system, state, eased, load, step, drive.damping, terms, inertia)
        if not iterations and len(drive.dofs) and blocked(terms, state.q, q):
            trial, f = balance.residual(state.q)  # prescribed motion would cross the shell: a shorter step may not
            return state, Solution(state.q, trial, f, False, np.inf, 0), terms
        solution = solve_increment(balance, q, drive.newton, small)
        iterations += solution.iterations
        records += solution.records
        if solution.escaped:
            q, small = solution.q, solution.small
            continue
        away = judge(balance, solution) if drive.static and solution.converged else None
        if away is None:
            break
        q, small = away, False
    straight = [term for term in terms if term.straight and step > 0]
    if solution.converged and blocked(straight, state.q, solution.q):
        solution.converged = False  # Newton's method went around what is in the way
    taken(state, solution, natural, step)
    solution.iterations, solution.records = iterations, records
    return state, solution, terms


def blocked(terms: Sequence[Term], q0: Floats, q1: Floats) -> bool:
    """Whether something is crossed, or nearly so, on the way from q0 to q1."""
    return any(term.safe_share(q0, q1 - q0) < 1.0 for term in terms)
