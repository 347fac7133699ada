"""Coulomb friction between parts of a robot.

Two features of a pair touch where e = sum_i w_i x_i joins them, w the weights of their closest points. With those weights, the
normal n and the force N that presses held (`PairStickSlip`), the slip since the last equilibrium X and its traction are

    s = s_0 + c (I - n n^T) sum_i w_i (x_i - X_i),        f_i = w_i mu N s / max(|s|, e),

c the share of the way that was made in contact: sum_i w_i = 0, so that action is reaction. In rounds of Newton N and n are those
of the solve before; near the end (`own`) N goes by the law of the pair at the distance of the closest points.

Pairs come and go as parts slide, so what is held elastically is kept by the points: a point of the first feature keeps s, one of
the second -s, the mean over its pairs by their forces; a pair takes over s_0 = 1/2 sum_i w_i m_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints, einsum
from geosim.shape.energy.contact.laws import barrier_law


class TouchingPairs(NamedTuple):
    """Pairs that touch at one configuration.

    Parameters
    ----------
    points
        Positions of all points (p, 3).
    pairs, weights
        The points of every pair and w, (k, 4).
    normal
        n (k, 3), from the second feature to the first: the direction in which all that touches there presses on their points, so
        that pairs that lean on each other rub in one plane.
    apart, distance, reach
        Direction between the closest points (k, 3), distance and activation distance (k,).
    push, scale
        N (k,), which is negative where a pair takes back what its neighbours count twice (see `contact_kernels.pair_blocks`),
        and the slip e up to which a pair sticks (k,).
    """

    points: Floats
    pairs: Ints
    weights: Floats
    normal: Floats
    apart: Floats
    distance: Floats
    reach: Floats
    push: Floats
    scale: Floats

    def between(self, points: Floats) -> Floats:
        """What joins the features of every pair at positions of all points, (k, 3)."""
        return einsum("ki,kia->ka", self.weights, points[self.pairs])

    def flat(self, vectors: Floats) -> Floats:
        """Parts of vectors (k, 3) along the surfaces."""
        return vectors - einsum("ka,ka->k", vectors, self.normal)[:, None] * self.normal


@dataclass(frozen=True)
class PairStickSlip:
    """What parts of a robot hold on to: positions of all points at the last equilibrium, m (p, 3), and the pairs held."""

    start: Floats
    memory: Floats
    held: TouchingPairs | None = None

    def lagged(self, touching: TouchingPairs) -> PairStickSlip:
        """Return what friction goes by after a solve."""
        return replace(self, held=touching)

    def slips(self, points: Floats) -> tuple[Floats, Floats]:
        """Slips s of the pairs (k, 3), and the shares c of the way (k,)."""
        held = self.held
        assert held is not None
        before = np.einsum("ka,ka->k", held.between(self.start), held.apart)
        gone = np.maximum(before - held.distance, MIN_DIVISOR)
        share = np.where(before > held.reach, np.clip((held.reach - held.distance) / gone, 0.0, 1.0), 1.0)
        kept = 0.5 * held.flat(held.between(self.memory))
        return kept + share[:, None] * held.flat(held.between(points - self.start)), share

    def renewed(self, points: Floats) -> PairStickSlip:
        """Return what is held after an equilibrium: pairs that slide keep what is elastic."""
        memory = np.zeros_like(points)
        held = self.held
        if held is not None and len(held.pairs):
            slip = self.slips(points)[0]
            size = np.linalg.norm(slip, axis=1)
            slip *= (held.scale / np.maximum(size, held.scale))[:, None]
            amount = held.weights * np.abs(held.push)[:, None]
            total = np.zeros(len(points))
            np.add.at(memory, held.pairs, amount[:, :, None] * slip[:, None])
            np.add.at(total, held.pairs, np.abs(amount))
            memory /= np.maximum(total, MIN_DIVISOR)[:, None]
        return PairStickSlip(points, memory, held)


def add_pair_friction(
    hold: PairStickSlip, points: Floats, mu: float, residual: Floats, *, own: bool
) -> tuple[Floats, Floats]:
    """Add friction to the residual of the points; return the two parts of its derivative (k, 4, 4, 3, 3).

    The first is stiffness along the surfaces; with `own` the second is unsymmetric.
    """
    held = hold.held
    assert held is not None
    slip, share = hold.slips(points)
    size = np.linalg.norm(slip, axis=1)
    longest = np.maximum(size, held.scale)
    push, steeper = held.push, np.zeros(len(size))
    if own:
        distance = np.einsum("ka,ka->k", held.between(points), held.apart)
        u = np.clip(1.0 - distance / held.reach, 0.0, 1.0 - 1e-6)
        value, slope, _ = barrier_law(u)
        was = barrier_law(1.0 - held.distance / held.reach)[0]
        push, steeper = held.push * value / was, -held.push * slope / (was * held.reach)
    along = slip / longest[:, None]
    np.add.at(residual, held.pairs, mu * (held.weights * push[:, None])[:, :, None] * along[:, None])
    plane = np.eye(3) - held.normal[:, :, None] * held.normal[:, None]
    stiff = (mu * push * share / longest)[:, None, None] * plane
    slides = size > held.scale
    away = (slides * mu * push * share / longest)[:, None, None] * along[:, :, None] * along[:, None]
    turn = (mu * steeper)[:, None, None] * along[:, :, None] * held.apart[:, None]
    both = np.einsum("ki,kj->kij", held.weights, held.weights)[:, :, :, None, None]
    return both * stiff[:, None, None], both * (turn - away)[:, None, None]
