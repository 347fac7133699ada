"""Rods that creep: a Kelvin-Voigt element, a spring beside a damper, in stretch, bending and twist.

With the retardation time T [s] a strain e of stiffness K that is at ease at e0 has the force K (e - e0 + T de/dt). Over a balance
that ends h after the strain e1 this is an elastic force again, of another stiffness and another strain at ease::

    K (e - e0) + K T / h (e - e1) = K (1 + c) (e - (e0 + c e1) / (1 + c)),      c = T / h

which is what is solved. The damper takes K T / h (e - e1)^2. Where a material loses tan(delta) at the angular frequency w,
T = tan(delta) / w; a mode of that frequency is damped by the share w T / 2 of critical.
"""

from __future__ import annotations

from dataclasses import replace

from geosim.arrays import Floats
from geosim.rods.newton import Solution
from geosim.rods.state import RodState, carry, evaluate
from geosim.rods.system import RodSystem

__all__ = ["damped", "taken"]


def damped(state: RodState, natural: Floats, step: float) -> tuple[RodSystem, Floats]:
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


def taken(state: RodState, solution: Solution, natural: Floats, step: float) -> None:
    """Put the elastic energy alone into a solution, and the power [W] that dampers took in a balance over `step` [s]."""
    c = state.robot.retardation_time / step if step > 0.0 else 0.0
    if c == 0.0:
        return
    system, count = state.system, len(state.tangents)
    there = carry(state, solution.q, natural=natural)
    turned = system.bending * (there.strains() - state.strains()) ** 2
    longer = system.stretch[:count] / system.rest_lengths(natural)[:count] * (there.lengths - state.lengths) ** 2
    solution.damped = c / step * (float(turned.sum()) + float(longer.sum()))
    solution.trial.energy = evaluate(system, state, solution.q, natural).energy + solution.trial.stored
