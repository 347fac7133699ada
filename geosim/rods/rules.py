"""The rules of one increment of time.

They start from (q0, u0), take the time h [s] and return the new state, or None where its balance was not met; what Newton's
method found; and the terms of the balance, for measures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from geosim.rods.alpha import generalized_alpha
from geosim.rods.balance import Balance
from geosim.rods.drive import Drive
from geosim.rods.increment import Advanced, blocked, solve_balance
from geosim.rods.newton import Solution
from geosim.rods.state import RodState, carry

__all__ = ["INTEGRATION_RULES", "advance"]

MAX_CROSSED_DEPTH_SHARE = (
    0.5  # of a contact's depth that an increment may cross where an impact must be followed: returns c to a hundredth
)
MAX_EXPLICIT_STRETCH = 1.0  # of an edge in an explicit increment: doubled, or gone, it is an instability and no motion


def _euler(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by the backward Euler rule."""
    time = state.time + h
    q, natural = state.q.copy(), drive.natural(time)
    q[drive.dofs] = drive.aim_at(time)
    state, solution, terms = solve_balance(drive, state, q, natural, drive.load, h, time)
    if not solution.converged:
        return None, solution, terms
    u = (solution.q - state.q) / h
    return carry(state, solution.q, solution.trial, natural).changed(time=time, u=u), solution, terms


def _midpoint(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by the implicit midpoint rule: Euler over h/2, then q <- 2 q - q0, u <- 2 u - u0."""
    dofs, time, half = drive.dofs, state.time + h, 0.5 * h
    q, natural = state.q.copy(), drive.natural(state.time + half)
    q[dofs] = 0.5 * (q[dofs] + drive.aim_at(time))
    state, solution, terms = solve_balance(drive, state, q, natural, drive.load, half, state.time + half)
    q1 = 2.0 * solution.q - state.q
    if not solution.converged or blocked(terms, solution.q, q1):
        return None, solution, terms
    u = (2.0 / half) * (solution.q - state.q) - state.u
    u[dofs] = (q1[dofs] - state.q[dofs]) / h
    # the frames of the new step come from those of the old step, not from those of the midpoint
    return carry(state, q1, natural=natural).changed(time=time, u=u), solution, terms


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
    new = carry(state, q, natural=natural).changed(time=time, u=u)
    stretch = np.abs(new.lengths / system.robot.rest_lengths - 1.0).max(initial=0.0)
    fine = bool(np.isfinite(q).all()) and stretch < MAX_EXPLICIT_STRETCH and not blocked(terms, state.q, q)
    return new if fine else None, Solution(half, trial, f, fine, 0.0 if fine else np.inf, 1), terms


INTEGRATION_RULES: dict[str, Callable[[Drive, RodState, float], Advanced]] = {
    "implicit-euler": _euler,
    "implicit-midpoint": _midpoint,
    "generalized-alpha": generalized_alpha,
    "verlet": _verlet,
}


def advance(integrator: str, drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by a rule; an increment in which something is hit must hold the law of restitution.

    Backward Euler stops what hits, in any increment, and so is the rule of impacts that give nothing back. Others are followed
    by the midpoint rule, which gives back what the law says in increments that are short enough; longer ones are refused.
    """
    new, solution, terms = INTEGRATION_RULES[integrator](drive, state, h)
    kept = state.system.law.restitution
    if new is None or kept is None or integrator not in ("implicit-euler", "generalized-alpha"):
        return new, solution, terms
    law, turns = state.system.law, state.system.turns
    speed = max((term.closing(solution.q, state.u) for term in terms), default=0.0)
    if speed <= law.slip:  # what rests and swings a little is followed by the rule itself
        return new, solution, terms
    if kept > 0.0:
        depth = max(1.0 / law.k1, speed * float(np.sqrt(state.system.mass[:turns].min() / (2.0 * law.stiffness))))
        if h * speed <= MAX_CROSSED_DEPTH_SHARE * depth:
            return _midpoint(drive, state, h)
        if h > drive.shortest:
            return None, replace(solution, converged=False), terms
    return (new, solution, terms) if integrator == "implicit-euler" else _euler(drive, state, h)
