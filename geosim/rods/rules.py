"""The rules of one increment of time.

They start from (q0, u0), take the time h [s] and return the new state, or None where its balance was not met; what Newton's
method found; and the terms of the balance, for measures.

The generalised-alpha rule: second order, and stable for stiff rods that turn far because it damps what it cannot follow.

Newmark's displacements and velocities over an increment h, with accelerations a and the forces F of all else (elasticity, loads,
contact, damping) weighted between its ends [Chung and Hulbert 1993, J. Appl. Mech. 60]::

    (1 - am) M a1 + am M a0 + (1 - af) F1 + af F0 = 0
    q1 = q0 + h u0 + h^2 ((1/2 - b) a0 + b a1),    u1 = u0 + h ((1 - g) a0 + g a1)
    am = (2 r - 1) / (r + 1),  af = r / (r + 1),  g = 1/2 - am + af,  b = (1 - am + af)^2 / 4

r is the spectral radius at high frequency: 1 keeps the energy of what is linear (and may explode as the midpoint rule does), 0
removes in one increment what turns faster than h. Forces are averaged and not positions, and F1 is that at q1. Contact C is no
part of F and a: a mean with the force before an impact makes energy. It acts over the increment as it is at its end and only
takes energy [Kane, Marsden, Ortiz, West 2000, Int. J. Numer. Methods Eng. 49]: h^2 / 2 C / M joins q1, h C / M joins u1.
Divided by 1 - af this is the balance A (q1 - q0) - B + F(q1) = 0 that every other rule solves, with contact firmer by a factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.rods.balance import Balance, Inertia
from geosim.rods.drive import Drive
from geosim.rods.increment import Advanced, blocked, passes, solve_balance
from geosim.rods.newton import Solution
from geosim.rods.state import RodState, carry, evaluate
from geosim.rods.terms import CONTACT, DRAG, USER


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
    if solution.converged and blocked(terms, solution.q, q1):
        solution.refused = passes(state)
    if not solution.converged or solution.refused:
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
    # of an edge in an explicit increment: doubled, or gone, it is an instability and no motion
    max_explicit_stretch = 1.0
    fine = bool(np.isfinite(q).all()) and stretch < max_explicit_stretch and not blocked(terms, state.q, q)
    return new if fine else None, Solution(half, trial, f, fine, 0.0 if fine else np.inf, 1), terms


class Weights(NamedTuple):
    """am, af, b and g of the rule."""

    inertia: float
    force: float
    beta: float
    gamma: float

    @classmethod
    def of(cls, radius: float) -> Weights:
        """Return those of a spectral radius at high frequency."""
        m, f = (2.0 * radius - 1.0) / (radius + 1.0), radius / (radius + 1.0)
        return cls(m, f, 0.25 * (1.0 - m + f) ** 2, 0.5 - m + f)


def _past(drive: Drive, state: RodState, h: float) -> Floats:
    """Return what `RodState.past` holds at a state that no increment of this rule has reached."""
    system = state.system
    still = Inertia(np.zeros(system.dofs), drive.load, h, h * state.u)
    terms = drive.terms(state, h, state.time, still)
    trial, f = Balance(system, state, state.natural, drive.load, h, terms=terms, inertia=still).residual(state.q)
    smooth = f + trial.pushes[CONTACT] + (drive.damping * system.mass + system.viscous) * state.u
    moving = system.free & (system.mass > 0)
    acceleration = np.where(moving, -smooth / np.where(moving, system.mass, 1.0), 0.0)
    return np.array([acceleration, smooth, trial.pushes[USER], trial.pushes[DRAG]])


@kernel
def alpha_inertia(mass, damp, u, past, load, h, w):
    """Return A, B and lag of an increment (`Inertia`), the inertia in A, how far it coasts, and what of B is past."""
    share, pace = 1.0 / (1.0 - w.force), w.beta * h / w.gamma
    a, b, lag, heavy, coast, inertial = out = np.empty((6, len(mass)))
    for i in range(len(mass)):
        a0, f0 = past[0, i], past[1, i]
        lag[i] = pace * ((1.0 - w.gamma / w.beta) * u[i] + h * (1.0 - 0.5 * w.gamma / w.beta) * a0)
        heavy[i] = share * (1.0 - w.inertia) / (w.beta * h * h) * mass[i]
        coast[i] = h * u[i] + h * h * (0.5 - w.beta) * a0
        inertial[i] = heavy[i] * coast[i] - share * (w.inertia * mass[i] * a0 + w.force * f0)
        a[i] = heavy[i] + damp[i] / pace
        b[i] = load[i] + inertial[i] - damp[i] * lag[i] / pace
    return out


@kernel
def alpha_end(mass, damp, free, u, past, parts, h, w, dq, bent, pushes, firmer, residual):
    """Return velocities, the rows of `past`, mean pushes of users and drag, and inner forces.

    `parts` are those of `alpha_inertia`, `bent` (2, dofs) elastic gradients before and after, `pushes` those of the balance, in
    which contact was firmer by a factor. Inner forces are those of inertia, elasticity and what damping has beyond that of dq.
    """
    lag, heavy, coast, inertial = parts[2:]
    pace = w.beta * h / w.gamma
    out = np.empty((8, len(mass)))
    for i in range(len(mass)):
        contact = pushes[2, i] / firmer
        smooth = residual[i] - heavy[i] * dq[i] + inertial[i] + pushes[2, i]
        rate = (dq[i] + lag[i]) / pace
        for k in range(2):
            out[3 + k, i] = pushes[k, i]
            out[5 + k, i] = w.force * past[2 + k, i] + (1.0 - w.force) * pushes[k, i] if free[i] else pushes[k, i]
        if free[i]:
            hit = h * contact / mass[i] if mass[i] > 0.0 else 0.0
            way = dq[i] - 0.5 * h * hit
            speed, acceleration = (way + lag[i]) / pace + hit, (way - coast[i]) / (w.beta * h * h)
            forces = mass[i] * ((1.0 - w.inertia) * acceleration + w.inertia * past[0, i]) + contact
            forces += (1.0 - w.force) * bent[1, i] + w.force * bent[0, i]
            forces += damp[i] * ((1.0 - w.force) * rate + w.force * u[i] - dq[i] / h)
            smooth += damp[i] * (speed - rate)  # at the velocity after an impact
        else:
            speed, acceleration = dq[i] / h, 0.0
            forces = mass[i] * (speed - u[i]) / h
            forces += bent[1, i] + damp[i] * (rate - speed)
        out[0, i], out[1, i], out[2, i], out[7, i] = speed, acceleration, smooth, forces
    return out


def _generalized_alpha(drive: Drive, state: RodState, h: float) -> Advanced:
    """Advance by the generalised-alpha rule with the spectral radius of the drive."""
    system, dofs, time = state.system, drive.dofs, state.time + h
    past = state.past if state.past.size else _past(drive, state, h)
    before = evaluate(system, state, state.q).gradient if state.elastic is None else state.elastic[1]
    # of the energy given that may appear from nowhere; beyond it increments damp all they can (radius 0)
    max_energy_gain_rel = 0.02
    w = Weights.of(drive.spectral_radius if state.made <= max_energy_gain_rel else 0.0)
    damp = drive.damping * system.mass + system.viscous
    parts = alpha_inertia(system.mass, damp, state.u, past, drive.load, h, w)
    inertia = Inertia(parts[0], parts[1], w.beta * h / w.gamma, parts[2])
    q, natural = state.q.copy(), drive.natural(time)
    q[dofs] = drive.aim_at(time)
    firmer = 0.5 * (1.0 - w.inertia) / ((1.0 - w.force) * w.beta)
    firm = state.changed(system=system.firmer(firmer))
    firm, solution, terms = solve_balance(drive, firm, q, natural, drive.load, h, time, inertia)
    if not solution.converged:
        return None, solution, terms
    trial, dq, left = solution.trial, solution.q - state.q, solution.residual_vector
    bent = np.array([before, trial.gradient])
    found = alpha_end(system.mass, damp, system.free, state.u, past, parts, h, w, dq, bent, trial.pushes, firmer, left)
    trial.pushes[CONTACT] /= firmer
    trial.energy, trial.stored = trial.energy - (1.0 - 1.0 / firmer) * trial.stored, trial.stored / firmer
    new = carry(firm, solution.q, trial, natural).changed(system=system, time=time, u=found[0], past=found[1:5])
    # the pushes that moved the robot
    solution.pushes, solution.inner = np.array([*found[5:7], *trial.pushes[CONTACT:]]), found[7]
    if any(term.kind == CONTACT and not term.idle for term in terms):  # measured with the contact that is
        terms = drive.terms(firm.changed(system=system), h, time, inertia)
    return new, solution, terms


INTEGRATION_RULES: dict[str, Callable[[Drive, RodState, float], Advanced]] = {
    "implicit-euler": _euler,
    "implicit-midpoint": _midpoint,
    "generalized-alpha": _generalized_alpha,
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
    if kept == 1.0 and integrator == "generalized-alpha":
        return new, solution, terms  # contact keeps the energy by itself
    law, turns = state.system.law, state.system.turns
    speed = max((term.closing(solution.q, state.u) for term in terms), default=0.0)
    if speed <= law.slip:  # what rests and swings a little is followed by the rule itself
        return new, solution, terms
    # of a contact's depth that an increment may cross where an impact must be followed: returns c to a hundredth
    max_crossed_depth_share = 0.5
    if kept > 0.0:
        depth = max(1.0 / law.k1, speed * float(np.sqrt(state.system.mass[:turns].min() / (2.0 * law.stiffness))))
        if h * speed <= max_crossed_depth_share * depth:
            return _midpoint(drive, state, h)
        if h > drive.shortest:
            refused = f"an impact at {speed:.3g} m/s needs shorter increments for its coefficient of restitution"
            return None, replace(solution, converged=False, refused=refused), terms
    return (new, solution, terms) if integrator == "implicit-euler" else _euler(drive, state, h)
