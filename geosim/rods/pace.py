"""The rule and the steps of a motion: as given, or chosen where contact is possible and neither is given.

Steps that are chosen follow the local error of an increment h, the mass-weighted mean e [m] over all vertices::

    generalised-alpha  e = h^2 / 12 |a1 - a0|    (smooth accelerations a [Zienkiewicz and Xie 1991])
    backward Euler     e = h / 2 |u1 - u0|

An increment with e above four times the tolerance is taken again; the next one is h (tolerance / e)^(1 / order of e). So is one
of the generalised-alpha rule that makes or loses too much energy, which grows with h^3: impacts shake edges faster than e shows.
The impact itself keeps its energy in increments of any length, see `geosim.rods.contact.mean_penalty`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.model.environment import Environment
from geosim.rods.energy import drifted
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import RodState

AUTO = "auto"
LARGEST_DT = 1e-2  # s, where none is given
INCREMENT_GROWTH = 2.0  # of an increment that was halved, after some good ones: one that fails costs as much as four
# Of [Lahoti]'s falling rods the height after 0.2 s is 4 % off a motion with an eighth of the steps, at ten times the error 50 %.
MAX_ERROR_RADII = 1e-4  # local error, over the smallest radius
MAX_DRIFT = 5e-6  # of the energy given, made or lost in an increment: a motion of some hundred impacts drifts by 0.1 %


def _alpha_error(old: RodState, new: RodState, h: float) -> Floats:
    before = old.past[0] if old.past.size else new.past[0]
    return np.asarray(h * h / 12.0 * (new.past[0] - before))


def _euler_error(old: RodState, new: RodState, h: float) -> Floats:
    return np.asarray(0.5 * h * (new.u - old.u))


# rule -> its local error [m] of all degrees of freedom, and the power of h with which that grows
ERROR_ESTIMATES: dict[str, tuple[Callable[[RodState, RodState, float], Floats], int]] = {
    "generalized-alpha": (_alpha_error, 3),
    "implicit-euler": (_euler_error, 2),
}


class Pace(NamedTuple):
    """How a motion is followed: rule, largest step [s], whether steps follow the error, restitution and spectral radius."""

    integrator: str
    largest: float
    follows: bool
    restitution: float | None
    spectral_radius: float
    note: str = ""

    def after(
        self, old: RodState, new: RodState, h: float, due: float, good: int, shortest: float
    ) -> tuple[float, bool]:
        """Return the increment that is due [s] after one of h, and whether that one is taken.

        It is the last of so many `good` ones in a row; one that fails at the `shortest` [s] is taken as it is.
        """
        if self.follows:
            next_h, fine = self._by_error(old, new, h)
            return next_h, fine or next_h < shortest
        good_increments = 4  # after which an increment that was halved grows again
        return min(INCREMENT_GROWTH * due, self.largest) if good >= good_increments else due, True

    def _by_error(self, old: RodState, new: RodState, h: float) -> tuple[float, bool]:
        """Return the next increment [s] after one of h, whose energy is booked, and whether that was short enough."""
        system, (estimate, order) = new.system, ERROR_ESTIMATES[self.integrator]
        mass, free = system.mass[: system.turns], system.free[: system.turns]
        error = np.where(free, estimate(old, new, h)[: system.turns], 0.0)
        mean = float(np.sqrt(mass @ error**2 / max(float(mass @ free), MIN_DIVISOR)))
        ratio = mean / (MAX_ERROR_RADII * float(system.vertex_radius.min()))
        if self.integrator == "generalized-alpha" and self.restitution in (None, 1.0):
            ratio = max(ratio, drifted(old, new) / MAX_DRIFT)
        least_change, most_change, safety = 0.25, 1.5, 0.9  # of an increment from one to the next
        change = safety * max(ratio, MIN_DIVISOR) ** (-1.0 / order)
        max_error_ratio = 4.0  # over the tolerance: an increment above it is taken again
        return min(h * min(max(change, least_change), most_change), self.largest), ratio <= max_error_ratio


def chosen_pace(
    dt: float | str | None,
    integrator: str | None,
    restitution: float | None,
    spectral_radius: float | None,
    *,
    contact: bool,
) -> Pace:
    """Return how a motion is followed, from what is given of it and whether `contact` is possible and no rule is given."""
    free = dt is None and contact
    follows = dt == AUTO or free
    rule = integrator or ("generalized-alpha" if follows else "implicit-euler")
    largest = float(dt) if isinstance(dt, (int, float)) else LARGEST_DT
    # damping takes what impacts shake, a third of the energy of the authors' spider at 0.8; steps that follow need none
    default_radius, followed_radius = 0.5, 1.0
    radius = (followed_radius if follows else default_radius) if spectral_radius is None else spectral_radius
    note = ""
    if contact and restitution is None:
        restitution = 1.0
        if free:
            note = (
                "Contact is possible and neither dt nor integrator is given: generalized-alpha with dt='auto' and impacts "
                "that keep their energy (restitution=1) was used. Impacts amplify small differences: after several of them "
                "compare positions with a start that is moved by a micrometre."
            )
    return Pace(rule, largest, follows, restitution, radius, note)


def may_touch(robot: RodShellRobot, environment: Environment) -> bool:
    """Whether contact is possible: with obstacles, or between parts that nothing joins.

    One network of rods and shells that folds onto itself keeps the step that is given, or that of motions without contact.
    """
    if environment.obstacles:
        return True
    if not environment.self_contact:
        return False
    return bool(parts(robot).max() > 0)


def parts(robot: RodShellRobot) -> Ints:
    """Return which of the parts that nothing joins every vertex belongs to, (n,)."""
    n, triangles = len(robot.vertices), robot.triangles
    pairs = np.concatenate([robot.edges, triangles[:, :2], triangles[:, 1:]])
    graph = scipy.sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1])
