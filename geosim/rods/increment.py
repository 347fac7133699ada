"""The one balance of forces that every increment solves, with the parts that may touch on the way.

Rods that creep: a Kelvin-Voigt element, a spring beside a damper, in stretch, bending and twist.

With the retardation time T [s] a strain e of stiffness K that is at ease at e0 has the force K (e - e0 + T de/dt). Over a balance
that ends h after the strain e1 this is an elastic force again, of another stiffness and another strain at ease::

    K (e - e0) + K T / h (e - e1) = K (1 + c) (e - (e0 + c e1) / (1 + c)),      c = T / h

which is what is solved. The damper takes K T / h (e - e1)^2. Where a material loses tan(delta) at the angular frequency w,
T = tan(delta) / w; a mode of that frequency is damped by the share w T / 2 of critical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from geosim.arrays import Floats
from geosim.rods.balance import Balance, Inertia
from geosim.rods.drive import Drive
from geosim.rods.newton import Solution, solve_increment
from geosim.rods.stability import judge
from geosim.rods.state import RodState, carry, evaluate
from geosim.rods.system import RodSystem
from geosim.rods.terms import Term

Advanced = tuple[RodState | None, Solution, list[Term]]


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
    midpoint_steps = 2.0  # steps: the midpoint rule goes another one as far
    # lists of contact pairs that one balance may need before its motion counts as a failure; two or three are usual
    max_rebinds = 100
    for _ in range(max_rebinds):
        state = state.paired(q, 0.0 if iterations else midpoint_steps * step)
        terms = drive.terms(state, step, time, inertia)
        system, eased = _damped(state, natural, step)
        balance = Balance(system, state, eased, load, step, drive.damping, terms, inertia)
        guesses = [q]
        if not iterations:
            if len(drive.dofs) and blocked(terms, state.q, q):
                trial, f = balance.residual(state.q)  # prescribed motion would cross the shell: a shorter step may not
                refused = "what is prescribed crosses what is in its way: move it around, or in smaller steps"
                return state, Solution(state.q, trial, f, False, np.inf, 0, refused=refused), terms
            guesses += _coasted(balance, q, inertia)
        solution = solve_increment(balance, guesses, drive.newton, small)
        iterations += solution.iterations
        records += solution.records
        if solution.escaped:
            q, small = solution.q, solution.small
            continue
        away = judge(balance, solution) if drive.static and solution.converged else None
        if away is None:
            break
        q, small = away, False
    solution.iterations, solution.records = iterations, records
    _taken(state, solution, natural, terms, step)
    return state, solution, terms


def growing(
    drive: Drive, state: RodState, natural: Floats, load: Floats, time: float, h: float, *, rests: bool
) -> Iterator[tuple[float, RodState]]:
    """Yield increments [s] and states of a motion by backward Euler; each is half as long again as the one before.

    `rests` says that every increment begins at rest. Supports stay at the share of the drive.
    """
    max_increments = 200  # 10 to 100 are usual
    growth = 1.5  # of an increment over the last, on the way to rest
    for _ in range(max_increments):
        q = state.q.copy()
        q[drive.dofs] = drive.aim(drive.share)
        state, solution, _ = solve_balance(drive, state, q, natural, load, h, time)
        if not solution.converged:
            h /= growth**2
            continue
        u = np.where(state.system.free & (not rests), (solution.q - state.q) / h, 0.0)
        state = carry(state, solution.q, natural=natural).changed(u=u)
        yield h, state
        h *= growth


def _coasted(balance: Balance, q: Floats, inertia: Inertia | None) -> list[Floats]:
    """Return q with the free unknowns where their motion takes them, a better guess if forces balance better there.

    What moves goes on, what rests and what hits stays: contact pushes back hard. Nothing is returned where it goes too far, nor
    in statics.
    """
    state, system = balance.state, balance.system
    if balance.step == 0.0:
        return []
    way = balance.step * state.u if inertia is None else inertia.pace * state.u - inertia.lag
    moved = np.where(system.free, state.q + way, q)
    return [] if balance.escaped(moved) or blocked(balance.terms, state.q, moved) else [moved]


def blocked(terms: Sequence[Term], q0: Floats, q1: Floats) -> bool:
    """Whether something is crossed, or nearly so, on the way from q0 to q1."""
    return any(term.safe_share(q0, q1 - q0) < 1.0 for term in terms)


def passes(state: RodState) -> str:
    """Return why an increment is refused whose forces balance: contact is too soft; and what would stop what moves."""
    law, radius = state.system.law, float(state.system.vertex_radius.min())
    kinetic = 0.5 * float(state.system.mass @ state.u**2)
    stopping_depth_radii = 0.5  # at which the centre line is still as far from what it hits
    needed = kinetic / (stopping_depth_radii * radius) ** 2
    text = (
        f"the forces balance, but centre lines would pass through each other: contact with contact_stiffness = "
        f"{law.stiffness:.3g} N/m sinks in by more than the radius, {1e3 * radius:.3g} mm"
    )
    if needed > law.stiffness:
        return f"{text}; {needed:.2g} N/m stores all the kinetic energy in half of it, None chooses one"
    return f"{text}; take a smaller dt or smallest_dt, or move what lies in one plane apart"


def _damped(state: RodState, natural: Floats, step: float) -> tuple[RodSystem, Floats]:
    """Return the system and the natural strains of a balance from `state` over `step` [s]; in statics as they are."""
    system, c = state.system, state.robot.retardation_time / step if step > 0.0 else 0.0
    if c == 0.0:
        return system, natural
    bends, count = len(state.twist), len(state.tangents)
    eased = natural.copy()
    eased[:bends] = (natural[:bends] + c * state.strains()) / (1.0 + c)
    rest = system.rest_lengths(natural)[:count]
    ease = (rest + c * state.lengths) / (1.0 + c)
    eased[system.edges_at :, 0] = ease / system.rest[:count]
    stretch = system.stretch.copy()
    stretch[:count] *= (1.0 + c) * ease / rest
    return replace(system, bending=(1.0 + c) * system.bending, stretch=stretch), eased


def _taken(state: RodState, solution: Solution, natural: Floats, terms: Sequence[Term], step: float) -> None:
    """Refuse a solution to which something was crossed, and put into it the elastic energy alone and the power [W] of dampers."""
    straight = [term for term in terms if term.straight and step > 0.0]
    if solution.converged and blocked(straight, state.q, solution.q):
        solution.converged, solution.refused = False, passes(state)  # Newton's method went around it
    c = state.robot.retardation_time / step if step > 0.0 else 0.0
    if c == 0.0:
        return
    system, count = state.system, len(state.tangents)
    there = carry(state, solution.q, natural=natural)
    turned = system.bending * (there.strains() - state.strains()) ** 2
    longer = system.stretch[:count] / system.rest_lengths(natural)[:count] * (there.lengths - state.lengths) ** 2
    solution.damped = c / step * (float(turned.sum()) + float(longer.sum()))
    solution.trial.energy = evaluate(system, state, solution.q, natural).energy + solution.trial.stored
