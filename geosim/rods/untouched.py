"""Newton's method for slender rods that touch nothing, compiled as one loop: the first part of `geosim.rods.newton`.

The equations and the tensions of the step before [Magisano2017] are as in `geosim.rods.balance` and `geosim.rods.newton`. The
matrix of such rods is a band, and an iteration of twenty edges takes as long as three calls from Python. What ends the loop
early is left to the general one, which goes on from there: a step that leaves the list of contact pairs, a singular matrix, a
step that is no number, and iterations that circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.kernels import kernel
from geosim.linear.band import factor_band, solve_band
from geosim.rods.balance import Balance, largest_free, relative_residual, step_size
from geosim.rods.elastic import bend_twist_hessian, linear_tensions, stretch_hessian
from geosim.rods.gyroscope import Gyroscope, gyroscope_force
from geosim.rods.pairs import COMPLETE_MARGIN_SHARE, farthest
from geosim.rods.state import Trial, elastic_forces
from geosim.rods.terms import DRAG

NO_PLACES: Floats = np.zeros(0)
# Of the residual that a step leaves, below which the matrix serves again: that of a band costs three times as much as the step
# (0.02: 2 % slower), that of contacts with its factors more.
REUSED_FACTORS_RESIDUAL_SHARE = 0.05
MAX_MIXED_ITERATIONS = 10  # in time, where a step without search may circle: six are usual
MAX_TURN_RAD = 1.0  # rad, and relative change of an edge, in one iteration: the range of the linearised strains


class Start(NamedTuple):
    """Where an increment starts, its natural strains and its inertia (`Balance`).

    `spinning` (E,) [kg m^2] are moments of inertia of edges about themselves, none where no edge spins, `spun_from` the unknowns
    that they spin from and `pace` [s] in what time; `listed_at` are the places for which pairs were listed, none without pairs,
    and `max_motion` [m] is how far from there vertices may go.
    """

    q: Floats
    tangents: Floats
    directors: Floats
    twist: Floats
    natural: Floats
    rest: Floats
    a: Floats
    b: Floats
    spinning: Floats
    spun_from: Floats
    pace: float
    listed_at: Floats
    max_motion: float


class IncrementNewton(NamedTuple):
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
    """

    tolerance: float = 1e-6
    increment: float = 1e-3
    iterations: int = 50
    line_search: bool = True
    definite: bool = False


@kernel
def residual_there(rods, start, scales, turns, q, there):
    """Fill what is at q; return the relative residual, the energy, and the largest force and moment.

    `there` are frames and gradient in the order of `Trial`, the residual f, and the part of it that gyroscopic forces have.
    """
    t, length, d, m1, m2, twist, gradient, f, spun = there
    gradient[:] = 0.0
    spun[:] = 0.0
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
        t,
        length,
        d,
        m1,
        m2,
        twist,
        gradient,
    )
    if len(start.spinning):
        largest = gyroscope_force(q, start.spun_from, start.pace, rods.springs, start.spinning, turns, spun)
        force = max(force, largest)
    for i in range(len(q)):
        f[i] = gradient[i] + start.a[i] * (q[i] - start.q[i]) - start.b[i] + spun[i]
    left, turning = largest_free(f, rods.free, turns)
    return relative_residual(left, turning, force, moment, scales), energy, force, moment


@kernel
def fill_band(rods, start, tension, q, there, values, band):
    """Fill the matrix at q, at other tensions [N] of the springs where there are any; `values` are those of its pattern."""
    t, length, _, m1, m2, twist, _, _, _ = there
    edges, signs, bending = rods.edges, rods.signs, rods.bending
    values[:] = 0.0
    stretch_hessian(q, rods.springs, rods.stretch, start.rest, tension, rods.spring_slots, values)
    bend_twist_hessian(
        q, rods.bends, edges, signs, bending, start.natural, t, length, m1, m2, twist, rods.bend_slots, values
    )
    for i in range(band.shape[0]):
        values[rods.diagonal[i]] += start.a[rods.order[i]]
        for k in range(band.shape[1]):
            band[i, k] = values[i * band.shape[1] + k]


@kernel
def follow(rods, start, limits, scales, guesses, values, band, small, there, sizes):
    """Go from the best of the guesses (g, dofs) until the free residual and the last step are small, or to what others must do.

    Fills what is there, and of every iteration residual, share, move and turn of its step in `sizes` (iterations, 4); `values`
    and `band` are work space of the matrix. Returns q, iterations, whether it converged, whether the last step was small, the
    residual, energy, largest force and moment.
    """
    turns, best, least, f = 3 * rods.vertices, 0, np.inf, there[7]
    for k in range(len(guesses)):
        residual, _, _, _ = residual_there(rods, start, scales, turns, guesses[k], there)
        if residual < least:
            best, least = k, residual
    q, tension = guesses[best].copy(), np.zeros(0)
    x, dq, moved = np.empty(len(rods.order)), np.zeros(len(q)), q.copy()
    factored, left, before, count = False, np.inf, 0.0, 0
    while True:
        residual, energy, force, moment = residual_there(rods, start, scales, turns, q, there)
        if count:
            left, sizes[count - 1, 0] = residual / before, residual
        converged = residual <= limits.tolerance and (small or residual == 0.0)
        if converged or count == limits.iterations or not np.isfinite(residual):
            break
        if not factored or left >= REUSED_FACTORS_RESIDUAL_SHARE:
            fill_band(rods, start, tension, q, there, values, band)
            if factor_band(band, band.shape[1] - 1) < 0:
                break
            factored = True
        for i in range(len(x)):
            x[i] = -f[rods.order[i]]
        solve_band(band, band.shape[1] - 1, x)
        for i in range(len(x)):
            dq[rods.order[i]] = x[i]
        edge, move, turn = step_size(dq, rods.springs, rods.lengths, turns)
        if not np.isfinite(edge + move + turn):
            break
        alpha = min(1.0, MAX_TURN_RAD / max(edge, turn, MIN_DIVISOR))
        for i in range(len(q)):
            dq[i] *= alpha
            moved[i] = q[i] + dq[i]
        if farthest(moved, start.listed_at) > start.max_motion**2:
            break
        tension = linear_tensions(q, dq, rods.springs, rods.stretch, start.rest)
        q[:] = moved
        before, small = residual, alpha * max(move / rods.mean_length, edge, turn) <= limits.increment
        sizes[count, 1], sizes[count, 2], sizes[count, 3] = alpha, alpha * move, alpha * turn
        count += 1
    return q, count, converged, small, residual, energy, force, moment


def rods_alone(balance: Balance) -> bool:
    """Whether an increment of time is one of rods alone, with a band for a matrix, that touch nothing near the start."""
    stencils = balance.system.stencils
    shells = len(stencils.membranes) + len(stencils.hinges) + len(stencils.faces)
    others = any(not (term.idle or isinstance(term, Gyroscope)) for term in balance.terms)
    return balance.step > 0.0 and balance.system.pattern.banded and not shells and not others and len(balance.order) > 0


Found = tuple[Floats, Trial, Floats, bool, float, int, bool, list[dict[str, Any]]]


def iterate_untouched(balance: Balance, guesses: Sequence[Floats], options: IncrementNewton, small: bool) -> Found:
    """Return what the loop finds where `rods_alone` holds: the fields of `Solution` up to iterations, small, records."""
    system, state, pattern, listed = balance.system, balance.state, balance.system.pattern, balance.state.memory
    count, dofs = len(state.tangents), system.dofs
    spinning, spun_from, pace = NO_PLACES, NO_PLACES, balance.step
    for term in balance.terms:
        if isinstance(term, Gyroscope):
            spinning, spun_from, pace = system.mass[system.turns :][:count], term.state.q, term.step
    start = Start(
        state.q,
        state.tangents,
        state.directors,
        state.twist,
        balance.natural,
        balance.rest,
        balance.a,
        balance.b,
        spinning,
        spun_from,
        pace,
        *((NO_PLACES, np.inf) if listed is None else (listed.built_at, COMPLETE_MARGIN_SHARE * listed.margin)),
    )
    (t, d, m1, m2), pushes = np.empty((4, count, 3)), np.zeros((4, dofs))
    gradient, f = np.empty((2, dofs))
    frames = t, np.empty(count), d, m1, m2, np.empty(len(state.twist)), gradient
    limits = options._replace(iterations=min(options.iterations, MAX_MIXED_ITERATIONS))
    band, sizes = np.empty((len(pattern.order), pattern.half + 1)), np.empty((limits.iterations, 4))
    q, made, converged, small, residual, energy, force, moment = follow(
        system.rods,
        start,
        limits,
        balance.scales,
        np.array(guesses),
        np.empty(pattern.size),
        band,
        small,
        (*frames, f, pushes[DRAG]),
        sizes,
    )
    pushes[DRAG] *= -1.0
    trial = Trial(*frames, energy, force, moment, state.shell_tangents, state.normals, pushes)
    names = ("residual", "step", "move", "turn")
    records = [{"iteration": i + 1, **dict(zip(names, row))} for i, row in enumerate(sizes[:made].tolist())]
    return q, trial, f, converged, residual, made, small, records
