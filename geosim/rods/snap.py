"""Snaps: whether an equilibrium lies on the path of the one before, and where a robot ends that snaps.

Along a path of equilibria q(s) of the potential P(q, s), s the share of a command, dP/ds is the slope of P at q alone. With A and
B, the changes of P by a step in s at the q of its begin and end, and the work of the supports among them::

    P1 - P0 = (A + B) / 2 + D,          D = O(ds^3)    where |A - B| = O(ds^2)

A snap releases energy at one s: -D stays while |A - B| vanishes with the step. So a step with -D > |A - B| / 2 is taken again
in halves, down to `MIN_SNAP_SHARE`, and what is left then is a snap. It ends where the motion ends that begins at the equilibrium
before, by backward Euler in increments that grow until inertia takes no part. Contact, friction and cables are not judged; a weak
snap within one long command may look like a bend (of a shallow arch: where the load grows by half of its limit and more).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Floats
from geosim.rods.drive import Drive
from geosim.rods.increment import growing, solve_balance
from geosim.rods.newton import Solution
from geosim.rods.state import RodState, evaluate

MIN_SNAP_SHARE = 1.0 / 256.0  # of a command: a step in which nothing but a snap releases more than the loads do


def released(before: RodState, after: RodState, f0: Floats, f1: Floats) -> float:
    """Return the energy [J] that a step released beyond what its loads explain; 0 where it is one of a path.

    `f0` and `f1` are the residuals of all degrees of freedom at both equilibria: what supports bear.
    """
    system = before.system
    e00 = evaluate(system, before, before.q, before.natural).energy
    e11 = evaluate(system, after, after.q, after.natural).energy
    e01 = evaluate(system, before, before.q, after.natural).energy
    e10 = evaluate(system, after, after.q, before.natural).energy
    load, dq = after.external - before.external, after.q - before.q
    held = np.where(system.free, 0.0, dq)
    first = e01 - e00 - float(load @ before.q) + float(f0 @ held)
    last = e11 - e10 - float(load @ after.q) + float(f1 @ held)
    change = e11 - e00 - float(after.external @ after.q) + float(before.external @ before.q)
    defect = 0.5 * (first + last) - change
    snap_energy_rounding = 1e-9  # of the elastic energy: less is rounding of its differences
    return defect if defect > 0.5 * abs(first - last) + snap_energy_rounding * max(e00, e11) else 0.0


def settled(drive: Drive, state: RodState, natural: Floats, load: Floats, time: float, dt: float) -> Solution | None:
    """Return the equilibrium in which a motion from rest at `state` ends, or None; supports stand where they stand then."""
    before, still = state.q, state.changed(u=np.zeros_like(state.q))
    still_move_rel = 1e-7  # of the robot's size that an increment may move at the end
    motion = growing(replace(drive, static=False), still, natural, load, time, dt, rests=False)
    for h, state in motion:
        dq, before = state.q - before, state.q
        if abs(dq[: state.system.turns]).max() < still_move_rel * state.robot.size and h > 100.0 * dt:
            return solve_balance(drive, state, state.q, natural, load, 0.0, time)[1]
    return None
