"""Energy balance of a motion: kinetic, elastic and potential energy, work, dissipation.

From the start to a frame the energies (kinetic, elastic, of weight, stored in contact) change by::

    change = work - dissipated + drift

The formula of the rule tells what it takes, `numerical` [J]: f . dq less the growth of kinetic and elastic energy, with the
forces f of inertia and elasticity that an increment balances. Backward Euler takes |du|^2 M / 2 and the elastic remainder of
second order. The sum drift + numerical is what Newton's method leaves open.

`work` is that of loads, supports that move, natural shapes that change, users' forces, what pulls at cables and obstacles that
move; `dissipated` what friction, drag, damping and fluids took; `drift` what the rule of time stepping lost (negative) or made
(positive). Backward Euler loses; a rule that makes energy is about to explode. Each increment counts with the forces that it
balanced, cables with their tension and what they became shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from geosim.kernels import kernel
from geosim.rods.cables import cable_work
from geosim.rods.drive import Drive
from geosim.rods.newton import Solution
from geosim.rods.state import Ledger, RodState, evaluate
from geosim.rods.terms import Term

# of the energy given, created by the time integration: an impact by the midpoint rule makes up to 1.8 and is outlived
EXPLODED_ENERGY_REL = 3.0
# of the energy given that may appear from nowhere: coarse increments of rules of order 2 swing by a few hundredths
MAX_STEP_ENERGY_GAIN_REL = 0.1


def _kept(state: RodState, elastic: float) -> dict[str, float]:
    """Return the energies of a state without contact [J]; `elastic` is known where its forces are."""
    system, turns = state.system, state.system.turns
    return {
        "elastic": elastic,
        "kinetic": 0.5 * float(system.mass @ state.u**2),
        "weight": -float(system.weight[:turns] @ (state.q[:turns] - system.robot.vertices.ravel())),
    }


def _elastic(state: RodState) -> float:
    """Return the elastic energy of a state [J]."""
    return evaluate(state.system, state, state.q).energy if state.elastic is None else state.elastic[0]


def measured(
    state: RodState, solution: Solution | None = None, terms: Sequence[Term] = (), *, static: bool = False
) -> RodState:
    """Return the state with its energies, residual, reactions and contact."""
    system, turns, ledger = state.system, state.system.turns, state.ledger
    kept = _kept(state, _elastic(state))
    measures: dict[str, Any] = dict(kept)
    if solution is not None:
        reactions = np.where(system.free, 0.0, solution.residual_vector)
        measures.update(
            residual=solution.residual,
            iterations=solution.iterations,
            reactions=reactions[:turns].reshape(-1, 3),
            stable=float(not solution.unstable) if static else np.nan,
        )
    for term in terms:
        term.measure(state.q if solution is None else solution.q, measures)
    if ledger is None or static:
        return state.changed(measures=measures)
    stored = measures.get("contact", 0.0)
    dissipated, drift = _balance(ledger, sum(kept.values()) + stored, stored)
    said = zip(("work", "dissipated", "drift"), (ledger.work, dissipated, drift), ledger.said)
    measures.update({key: now - before for key, now, before in said}, given_energy=_given(state, ledger))
    measures["numerical"] = ledger.numerical
    return state.changed(measures=measures)


def _balance(ledger: Ledger, energy: float, stored: float) -> tuple[float, float]:
    """Return what was dissipated and the drift since the start [J]; the energy holds that stored in contact."""
    dissipated = ledger.damped - ledger.pushed - (stored - ledger.stored)
    return dissipated, energy - ledger.begin - ledger.work + dissipated


def _given(state: RodState, ledger: Ledger) -> float:
    """Return the energy given and released by the weight [J], at least round-off."""
    min_axial_energy_rel = 1e-12  # of EA L (a strain of 1e-6): energy below it is round-off of a robot at rest
    least = max(min_axial_energy_rel * state.system.axial_energy, np.finfo(float).tiny)
    return max(ledger.given + ledger.highest - ledger.lowest, least)


def drifted(state: RodState, new: RodState) -> float:
    """Return the energy that an increment from `state` to `new`, which is booked, made or lost, over all energy given."""
    assert new.ledger is not None
    given = _given(new, new.ledger)
    before = 0.0 if state.ledger is None else state.ledger.made * _given(state, state.ledger)
    return abs(new.ledger.made * given - before) / given


@kernel
def increment_work(mass, damping, viscous, weight, load, free, h, motion, forces):
    """Return the energies [J] that an increment of h [s] moves: of loads, supports, users, pushes, damping, and kept or inner.

    `motion` are unknowns and velocities before and after, `forces` residual, pushes (4, dofs) and inner forces. The residual of a
    support becomes what it bears. What it leads gets its kinetic energy from it, also where its velocity jumps.
    """
    q0, u0, q1, u1 = motion
    residual, pushes, inner = forces
    loaded, led, user, pushed, damped, inside, kinetic = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(mass)):
        dq, du = q1[i] - q0[i], u1[i] - u0[i]
        if not free[i]:
            jump = mass[i] * du * (0.5 * (u1[i] + u0[i]) - dq / h)
            residual[i] = inner[i] + (damping * mass[i] + viscous[i]) * dq / h - load[i] - pushes[:, i].sum()
            led += residual[i] * dq + jump
            inside += jump
        loaded += (load[i] - weight[i]) * dq
        user += pushes[0, i] * dq
        pushed += (pushes[1, i] + pushes[2, i]) * dq
        damped += (damping * mass[i] + viscous[i]) * dq * dq / h
        inside += inner[i] * dq
        kinetic += 0.5 * mass[i] * (u1[i] * u1[i] - u0[i] * u0[i])
    return loaded, led, user, pushed, damped, inside - kinetic


def booked(
    drive: Drive, state: RodState, new: RodState, solution: Solution, terms: Sequence[Term], h: float
) -> RodState:
    """Return the new state with the work of the increment of h [s] that led to it from `state` in its ledger."""
    system, ledger, after = state.system, state.ledger, _kept(new, _elastic(new))
    before = _elastic(state)
    if ledger is None:
        begin = _kept(state, before)
        weight = begin["weight"]
        stored = sum(term.add_force(state.q, np.zeros_like(state.q))[0] for term in terms)
        given = begin["kinetic"] + begin["elastic"] + stored
        ledger = Ledger(sum(begin.values()) + stored, stored, given=given, lowest=weight, highest=weight)
    pushes = solution.trial.pushes if solution.pushes is None else solution.pushes
    inner = system.mass * (new.u - state.u) / h + solution.trial.gradient if solution.inner is None else solution.inner
    motion, forces = (state.q, state.u, new.q, new.u), (solution.residual_vector, pushes, inner)
    loads = system.weight, drive.load, system.free
    loaded, led, user, pushed, damped, inside = increment_work(
        system.mass, drive.damping, system.viscous, *loads, h, motion, forces
    )
    pulled, rubbed = 0.0, 0.0
    if system.robot.cables:
        pulled, rubbed = cable_work(state, h, drive.pulled(state.time), drive.pulled(new.time), new.q)
    shaped = _actuation(state, new)
    parts = [loaded, led, user, pulled, shaped, sum(h / term.step * term.obstacle_work(solution.q) for term in terms)]
    lost = h * solution.damped  # in dampers
    numbers = {
        "work": ledger.work + sum(parts),
        "pushed": ledger.pushed + pushed - parts[-1],
        "damped": ledger.damped + damped + lost + rubbed,
        "numerical": ledger.numerical + inside - (after["elastic"] - before - shaped) - lost,
        "given": ledger.given + sum(map(abs, parts)),
        "lowest": min(ledger.lowest, after["weight"]),
        "highest": max(ledger.highest, after["weight"]),
    }
    ledger, stored = replace(ledger, **numbers), solution.trial.stored
    dissipated, drift = _balance(ledger, sum(after.values()) + stored, stored)
    # the energy that the time integration created, over that given and released by the weight
    return new.changed(ledger=replace(ledger, made=(drift - min(dissipated, 0.0)) / _given(new, ledger)))


def _actuation(state: RodState, new: RodState) -> float:
    """Return the work of natural shapes that changed [J]."""
    if new.natural is state.natural or np.array_equal(new.natural, state.natural):
        return 0.0
    return evaluate(state.system, state, state.q, new.natural).energy - _elastic(state)


def continued(state: RodState) -> RodState:
    """Return the state as the start of another solve: what was made, done and dissipated so far counts no more there."""
    measures, ledger = dict(state.measures), state.ledger
    if ledger is not None:
        done = [before + measures.get(key, 0.0) for key, before in zip(("work", "dissipated", "drift"), ledger.said)]
        ledger = replace(ledger, said=(done[0], done[1], done[2]), numerical=0.0)
    forgotten = dict.fromkeys(("work", "dissipated", "drift", "numerical"), 0.0)
    return state.changed(ledger=ledger, measures=measures | forgotten)
