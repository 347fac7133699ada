"""Contact and friction of rods with each other: the implicit contact model on all pairs of edges that may touch.

The law is that of `geosim.rods.contact`, the distance that of `geosim.rods.pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.distance import squared_distance_derivatives
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine
from geosim.rods.contact import FADED, add_to_four, contact_block, four_slip, penalty
from geosim.rods.pairs import REGULARISATION, Neighbours, pair_geometry
from geosim.rods.terms import ContactTerm

__all__ = ["PairContact"]

REACH = 0.4  # of the margin that a vertex may go in one iteration: at half of it the list must be made anew


@kernel
def pair_force(q, q0, step, pairs, rest, touch, k, k1, mu, k2, residual, force):
    """Add minus the contact and friction forces of all pairs; return energy, largest force, overlap, count.

    Arguments: unknowns, those at the start of the step [s]; first dofs (P, 4), rest lengths (P, 2) and C [m] of the pairs; the
    constants of contact and friction; what is filled.
    """
    energy, largest, overlap, count = 0.0, 0.0, 0.0, 0
    for p in range(pairs.shape[0]):
        distance, s, t, _, _, r, _, _ = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        gap = touch[p] - distance
        if k1 * gap < FADED:
            continue
        e, fn, _ = penalty(gap, k, k1)
        energy += e
        largest = max(largest, fn)
        overlap = max(overlap, gap)
        count += gap > 0.0
        w = (1.0 - s, s, t - 1.0, -t)
        u, _, ratio, _ = four_slip(q, q0, step, pairs[p], w, r, mu, k2)
        add_to_four(pairs[p], w, combine(-fn / distance, r, mu * fn * ratio, u), residual, force)
    return energy, largest, overlap, count


@kernel
def pair_stiffness(q, q0, step, pairs, rest, touch, k, k1, mu, k2, active, blocks):
    """Fill the stiffness of pairs in contact, `blocks` (P, 12, 12), and their numbers `active`; return how many."""
    count = 0
    x, c, gradient, hessian = np.empty((4, 3)), np.empty((4, 2)), np.empty((4, 3)), np.empty((4, 4, 3, 3))
    soft = np.empty(2)
    for p in range(pairs.shape[0]):
        distance, s, t, fs, ft, r, _, _ = pair_geometry(q, pairs[p], rest[p, 0], rest[p, 1])
        gap = touch[p] - distance
        if k1 * gap < FADED:
            continue
        _, fn, stiff = penalty(gap, k, k1)
        w = (1.0 - s, s, t - 1.0, -t)
        c[:] = 0.0
        soft[:] = 0.0
        free = 0
        for side in range(2):
            if ft if side else fs:
                c[2 * side, free], c[2 * side + 1, free] = 2.0 * side - 1.0, 1.0 - 2.0 * side
                soft[free] = REGULARISATION * rest[p, side] ** 2
                free += 1
        for v in range(4):
            for j in range(3):
                x[v, j] = q[pairs[p, v] + j]
        squared_distance_derivatives(x, w, c, free, r, gradient, hessian, soft[0], soft[1])
        u, speed, ratio, slope = four_slip(q, q0, step, pairs[p], w, r, mu, k2)
        contact_block(w, r, distance, fn, stiff, gradient, hessian, u, speed, ratio, slope, mu, step, blocks[count])
        active[count] = p
        count += 1
    return count


@dataclass
class PairContact(ContactTerm):
    """Contact of the pairs of edges in the state's memory, bound to one increment."""

    friction: float

    def __post_init__(self) -> None:
        robot, law, listed = self.state.system.robot, self.state.system.law, self.state.memory
        assert isinstance(listed, Neighbours)
        self.pairs, self.holds = listed.pairs, listed.holds
        self.dofs = 3 * robot.edges[self.pairs].reshape(-1, 4)
        self.reach = REACH * listed.margin if len(self.pairs) else np.inf
        lengths, touch = robot.rest_lengths[self.pairs], robot.radius[self.pairs].sum(axis=1)
        self.problem = (
            self.state.q,
            self.step,
            self.dofs,
            lengths,
            touch,
            law.stiffness,
            law.k1,
            self.friction,
            law.k2,
        )

    def escaped(self, q: Floats) -> bool:
        """Whether a vertex has moved so far that pairs may be missing."""
        return not self.holds(q)

    def forces(self, q: Floats, residual: Floats, force: Floats) -> tuple[float, float, float, int]:
        """Add minus the forces of the pairs to the residual, and the forces to `force`."""
        return pair_force(q, *self.problem, residual, force)

    def blocks(self, q: Floats) -> tuple[Ints, Floats]:
        """Return the stiffness of the pairs in contact; few of those listed are."""
        active, blocks = np.empty(len(self.pairs), dtype=np.int64), np.empty((len(self.pairs), 12, 12))
        count = pair_stiffness(q, *self.problem, active, blocks)
        return self.dofs[active[:count]], blocks[:count]
