"""Newton's method where nothing touches and no step needs care: whole increments of slender rods in one compiled call.

A call from Python costs as much as ten stencils, and an iteration makes thirty: rods of some hundred vertices would spend most of
their time between kernels. `glide` iterates like `geosim.rods.newton.solve_increment` as long as every step is taken whole:
dynamics of rods in a band, with no force but elasticity, inertia, dead loads and spin, and nothing near enough to touch. What
it may not decide (a step that is too long, or after which the work has not fallen; a vertex that leaves the region of its list
of pairs; a singular matrix) it leaves to the general iteration, at the last point that is good. A step that left less than a
twentieth of the residual is followed by one with the same factors, which cost three times as much as the step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.linear.band import factor_band, solve_band
from geosim.rods.balance import NO_TENSION, Balance, add_diagonal, add_inertia, largest_free
from geosim.rods.elastic import bend_twist_hessian, stretch_hessian
from geosim.rods.gyroscope import Gyroscope, gyroscope_force
from geosim.rods.pair_contact import PairContact
from geosim.rods.pairs import farthest
from geosim.rods.state import Trial, elastic_forces
from geosim.rods.terms import DRAG

__all__ = ["Limits", "glided", "glides", "step_size"]

REUSED_FACTORS_RESIDUAL = (
    0.05  # of the residual that a step leaves, below which its factors serve again (0.02: 2 % slower)
)
MIN_LOAD_DIVISOR = 1e-300  # N, N m: keeps a robot without any force or moment from a division by zero
NO_PAIR_PLACES = np.zeros(0)  # of a list of pairs that is none


@kernel
def step_size(dq, springs, rest, turns):
    """Return the largest relative motion of a spring (dofs (S, 6), rest lengths), translation and turn in a step."""
    edge, move, turn = 0.0, 0.0, 0.0
    for i in range(springs.shape[0]):
        s = 0.0
        for j in range(3):
            s += (dq[springs[i, 3 + j]] - dq[springs[i, j]]) ** 2
        edge = max(edge, s / rest[i] ** 2)
    for i in range(turns):
        move = max(move, abs(dq[i]))
    for i in range(turns, dq.shape[0]):
        turn = max(turn, abs(dq[i]))
    return np.sqrt(edge), move, turn


class Start(NamedTuple):
    """What an increment starts from, and its inertia; `spin_q` and `spin_step` [s] are those of the gyroscopic forces, or 0."""

    q: Floats
    tangents: Floats
    directors: Floats
    twist: Floats
    natural: Floats
    rest: Floats
    a: Floats
    b: Floats
    spin_q: Floats
    spin_step: float


class Frames(NamedTuple):
    """What is filled at every trial: as in `Trial`, then the residual and the gyroscopic forces."""

    t: Floats
    length: Floats
    d: Floats
    m1: Floats
    m2: Floats
    twist: Floats
    residual: Floats
    spun: Floats


class Scales(NamedTuple):
    """What makes a residual relative, see `Balance`."""

    turns: int
    load: float
    radius: float
    noise: float
    turn_noise: float
    length: float


class Limits(NamedTuple):
    """Options of Newton's method, how far a step may go and its work may overshoot; place and reach [m] of the list of pairs."""

    tolerance: float
    increment: float
    iterations: int
    turn: float
    overshot: float
    built_at: Floats = NO_PAIR_PLACES
    reach: float = 0.0


@kernel
def _balanced(q, rods, start, frames, scales):
    """Fill the frames and the residual at q; return energy, largest force and moment, and the relative residual."""
    f = frames.residual
    f[:] = 0.0
    energy, force, moment = elastic_forces(
        q,
        rods.edge_dofs,
        start.tangents,
        start.directors,
        start.twist,
        rods.springs,
        rods.stretch,
        start.rest,
        rods.bends,
        rods.edges,
        rods.signs,
        rods.bending,
        start.natural,
        frames.t,
        frames.length,
        frames.d,
        frames.m1,
        frames.m2,
        frames.twist,
        f,
    )
    add_inertia(f, start.a, q, start.q, start.b)
    if start.spin_step > 0.0:
        spun = frames.spun
        spun[:] = f
        largest = gyroscope_force(q, start.spin_q, start.spin_step, rods.springs, rods.spinning, scales.turns, f)
        spun -= f
        force = max(force, largest)
    out, out_moment = largest_free(f, rods.free, scales.turns)
    by_force = max(force, scales.load) + MIN_LOAD_DIVISOR
    by_moment = max(moment, by_force * scales.radius) + MIN_LOAD_DIVISOR
    relative = max(max(out - scales.noise, 0.0) / by_force, max(out_moment - scales.turn_noise, 0.0) / by_moment)
    return energy, force, moment, relative


@kernel
def _factorised(q, rods, start, frames, values, band, half):
    """Fill the factors of the Jacobian at q; return whether it is regular."""
    values[:] = 0.0
    stretch_hessian(q, rods.springs, rods.stretch, start.rest, NO_TENSION, rods.spring_slots, values)
    bend_twist_hessian(
        q,
        rods.bends,
        rods.edges,
        rods.signs,
        rods.bending,
        start.natural,
        frames.t,
        frames.length,
        frames.m1,
        frames.m2,
        frames.twist,
        rods.bend_slots,
        values,
    )
    add_diagonal(values, rods.diagonal, start.a, rods.order)
    return factor_band(band, half) >= 0


@kernel
def _newton_step(rods, residual, band, half, x, dq):
    """Fill the step dq by the factors at hand; return its work on the residual."""
    for i in range(len(x)):
        x[i] = -residual[rods.order[i]]
    solve_band(band, half, x)
    work = 0.0
    for i in range(len(x)):
        dq[rods.order[i]] = x[i]
        work += x[i] * residual[rods.order[i]]
    return work


@kernel
def glide(q, rods, start, frames, scales, limits, values, half, records, small):
    """Iterate in place of q while whole steps do; return (taken, converged, small, energy, force, moment, residual, good).

    `records` (iterations, 3) are filled with residual, translation and turn; `good` says that `frames` are those at q.
    """
    n = len(rods.order)
    dq, new, x, band = np.zeros_like(q), np.empty_like(q), np.empty(n), values[: n * (half + 1)].reshape(n, half + 1)
    energy, force, moment, relative = _balanced(q, rods, start, frames, scales)
    taken, fallen = 0, 1.0
    while True:
        if not relative < np.inf or taken == limits.iterations:
            return taken, False, small, energy, force, moment, relative, True
        if relative <= limits.tolerance and (small or relative == 0.0):
            return taken, True, small, energy, force, moment, relative, True
        if fallen >= REUSED_FACTORS_RESIDUAL and not _factorised(q, rods, start, frames, values, band, half):
            return taken, False, small, energy, force, moment, relative, True
        work = _newton_step(rods, frames.residual, band, half, x, dq)
        edge, move, turn = step_size(dq, rods.springs, rods.lengths, scales.turns)
        if not work < 0.0 or not edge + move + turn < np.inf or max(edge, turn) > limits.turn:
            return taken, False, small, energy, force, moment, relative, True
        new[:] = q + dq
        if limits.reach > 0.0 and farthest(new, limits.built_at) > limits.reach * limits.reach:
            return taken, False, small, energy, force, moment, relative, True
        e, fo, mo, there = _balanced(new, rods, start, frames, scales)
        ahead = 0.0
        for i in rods.order:
            ahead += dq[i] * frames.residual[i]
        if not ahead <= limits.overshot * -work:
            return taken, False, small, energy, force, moment, relative, False
        q[:] = new
        fallen = there / relative
        energy, force, moment, relative = e, fo, mo, there
        small = max(move / scales.length, edge, turn) <= limits.increment
        records[taken, 0], records[taken, 1], records[taken, 2] = relative, move, turn
        taken += 1


def glides(balance: Balance) -> bool:
    """Whether rods alone move, in a band, and nothing is near enough to touch."""
    system = balance.system
    only_rods = not (len(system.membrane) or len(system.stencils.hinges) or len(system.stencils.faces))
    if balance.step == 0 or not system.pattern.banded or not only_rods or not len(system.pattern.order):
        return False
    return all(isinstance(t, Gyroscope) or (isinstance(t, PairContact) and not len(t.pairs)) for t in balance.terms)


def glided(
    balance: Balance, q: Floats, limits: Limits, small: bool
) -> tuple[Floats, Trial | None, bool, bool, float, list[dict[str, Any]]]:
    """Iterate from q as far as `glide` does; return (q, trial there, converged, small, residual, records).

    The trial is None where the general iteration must go on and needs it anew.
    """
    system, state, spin, listed = balance.system, balance.state, (NO_PAIR_PLACES, 0.0), (NO_PAIR_PLACES, 0.0)
    for term in balance.terms:
        if isinstance(term, Gyroscope):
            spin = term.state.q, term.step
        elif isinstance(term, PairContact):
            listed = term.listed.built_at, 0.5 * term.listed.margin
    t, d, m1, m2 = np.empty((4, len(state.tangents), 3))
    pushes, length, twist = np.zeros((4, len(q))), np.empty(len(t)), np.empty(len(state.twist))
    frames = Frames(t, length, d, m1, m2, twist, np.empty(len(q)), pushes[DRAG])
    rest = system.rest_lengths(balance.natural)
    begin = state.q, state.tangents, state.directors, state.twist, balance.natural, rest, balance.a, balance.b
    noise = balance.noise, balance.turn_noise, system.mean_length
    q, values, records = q.copy(), np.empty(system.pattern.size), np.empty((limits.iterations, 3))
    taken, converged, small, energy, force, moment, residual, good = glide(
        q,
        system.rods,
        Start(*begin, *spin),
        frames,
        Scales(system.turns, balance.load_scale, balance.radius, *noise),
        limits._replace(built_at=listed[0], reach=listed[1]),
        values,
        system.pattern.half,
        records,
        small,
    )
    rows = records[:taken].tolist()
    told = [
        {"iteration": i + 1, "residual": there, "step": 1.0, "move": move, "turn": turn}
        for i, (there, move, turn) in enumerate(rows)
    ]
    if not good:
        return q, None, converged, small, residual, told
    shells = state.shell_tangents, state.normals
    trial = Trial(t, length, d, m1, m2, twist, frames.residual, energy, force, moment, *shells, pushes)
    return q, trial, converged, small, residual, told
