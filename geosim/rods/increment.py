"""One increment of time, and the one balance of forces that each of them solves.

The rules start from (q0, u0), take the time h [s] and return the new state, or None where its balance was not met; what
Newton's method found; and the terms of the balance, for measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.rods.balance import Balance
from geosim.rods.drive import Drive
from geosim.rods.newton import Solution, solve_increment
from geosim.rods.state import RodState, carry, evaluate
from geosim.rods.terms import Term

__all__ = ["RULES", "measured", "solve_balance"]

Advanced = tuple[RodState | None, Solution, list[Term]]

REBINDS = 100  # lists of contact pairs that one balance may need before its motion counts as a failure; two or three are usual
WORST_STRETCH = 1.0  # of an edge in an explicit increment: doubled, or gone, it is an instability and no motion


def solve_balance(
    drive: Drive, state: RodState, q: Floats, natural: Floats, load: Floats, step: float, time: float
) -> tuple[RodState, Solution, list[Term]]:
    """Solve the balance of one increment from the guess q, with the pairs that may touch on the way.

    `step` is h [s] (0 in statics), `time` [s] that at the end; the state returned is the one given, with its list of pairs.
    """
    iterations, records, small = 0, [], False
    for _ in range(REBINDS):
        state = state.paired(q)
        terms = drive.terms(state, step, time)
        balance = Balance(state.system, state, natural, load, step, drive.damping, terms)
        if not iterations and _blocked(terms, state.q, q):
            trial, f = balance.residual(state.q)  # prescribed motion would cross the shell: a shorter step may not
            return state, Solution(state.q, trial, f, False, np.inf, 0), terms
        solution = solve_increment(balance, q, drive.newton, small)
        iterations += solution.iterations
        records += solution.records
        if not solution.escaped:
            break
        q, small = solution.q, solution.small
    solution.iterations, solution.records = iterations, records
    return state, solution, terms


def _euler(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by the backward Euler rule."""
    time = state.time + h
    q, natural = state.q.copy(), drive.natural(time)
    q[drive.dofs] = drive.aim_at(time)
    state, solution, terms = solve_balance(drive, state, q, natural, drive.load, h, time)
    if not solution.converged:
        return None, solution, terms
    u = (solution.q - state.q) / h
    return replace(carry(state, solution.q, solution.trial), time=time, u=u, natural=natural), solution, terms


def _midpoint(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by the implicit midpoint rule: Euler over h/2, then q <- 2 q - q0, u <- 2 u - u0."""
    dofs, time, half = drive.dofs, state.time + h, 0.5 * h
    q, natural = state.q.copy(), drive.natural(state.time + half)
    q[dofs] = 0.5 * (q[dofs] + drive.aim_at(time))
    state, solution, terms = solve_balance(drive, state, q, natural, drive.load, half, state.time + half)
    q1 = 2.0 * solution.q - state.q
    if not solution.converged or _blocked(terms, solution.q, q1):
        return None, solution, terms
    u = (2.0 / half) * (solution.q - state.q) - state.u
    u[dofs] = (q1[dofs] - state.q[dofs]) / h
    # the frames of the new step come from those of the old step, not from those of the midpoint
    return replace(carry(state, q1), time=time, u=u, natural=natural), solution, terms


def _verlet(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by position Verlet: half a drift, a kick, half a drift."""
    system, dofs, time = state.system, drive.dofs, state.time + h
    aim, natural = drive.aim_at(time), drive.natural(state.time + 0.5 * h)
    half = state.q + 0.5 * h * state.u
    half[dofs] = 0.5 * (state.q[dofs] + aim)
    state = state.paired(half)
    terms = drive.terms(state, 0.5 * h, state.time + 0.5 * h)
    trial, f = Balance(system, state, natural, drive.load, 0.0, terms=terms).residual(half)
    drag = 0.5 * h * (drive.damping + system.viscous / system.mass)
    u = np.where(system.free, (state.u * (1.0 - drag) - h * f / system.mass) / (1.0 + drag), 0.0)
    q = half + 0.5 * h * u
    q[dofs], u[dofs] = aim, (aim - state.q[dofs]) / h
    new = replace(carry(state, q), time=time, u=u, natural=natural)
    stretch = np.abs(new.lengths / system.robot.rest_lengths - 1.0).max(initial=0.0)
    fine = bool(np.isfinite(q).all()) and stretch < WORST_STRETCH and not _blocked(terms, state.q, q)
    return new if fine else None, Solution(half, trial, f, fine, 0.0 if fine else np.inf, 1), terms


RULES: dict[str, Callable[[Drive, RodState, float], Advanced]] = {
    "implicit-euler": _euler,
    "implicit-midpoint": _midpoint,
    "verlet": _verlet,
}


def _blocked(terms: Sequence[Term], q0: Floats, q1: Floats) -> bool:
    """Whether something is crossed, or nearly so, on the way from q0 to q1."""
    return any(term.safe_share(q0, q1 - q0) < 1.0 for term in terms)


def measured(
    state: RodState, solution: Solution | None = None, terms: Sequence[Term] = (), *, static: bool = False
) -> RodState:
    """Return the state with its energies, residual, reactions and contact."""
    system = state.system
    turns, robot = system.turns, system.robot
    measures: dict[str, Any] = {
        "elastic": evaluate(system, state, state.q).energy,
        "kinetic": 0.5 * float(system.mass @ state.u**2),
        "weight": -float(system.weight[:turns] @ (state.q[:turns] - robot.vertices.ravel())),
    }
    if solution is not None:
        reactions = np.where(system.free, 0.0, solution.residual_vector)
        measures.update(
            residual=solution.residual,
            iterations=solution.iterations,
            reactions=reactions[:turns].reshape(-1, 3),
            stable=float(solution.negative == 0) if static else np.nan,
        )
        for term in terms:
            term.measure(solution.q, measures)
    return replace(state, measures=measures)
