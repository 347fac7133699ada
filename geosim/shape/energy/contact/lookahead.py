"""Contact ahead of a Newton step: springs in its linear system where the step would make contact.

The tangent knows only of the contacts at the start of a step. A long step brings together parts that it knows nothing
of; cut short at the first of them, Newton would find the contacts one by one. Here all pairs that a step v would make
meet are linearised where they do, at the share t of it,

    d(dx) = d_t + n . (dx - t v),

and springs with the stiffness of contact hold these distances in the next attempt; those that come to pull are let go.
Obstacles, whose law goes on below the surface, do without: there, and with friction, it took more iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.proximity import Hits
from geosim.linear.patterns import widened
from geosim.shape.energy.contact.laws import barrier_law
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.newton.states import Evaluation


@dataclass(frozen=True)
class LookaheadSprings:
    """Springs between points.

    Parameters
    ----------
    points, normals
        Four points of every spring (k, 4), and the derivative of its length by them (k, 4, 3).
    stiffness, length
        Stiffness (k,), and the change of length at which a spring is at rest (k,).
    """

    points: Ints
    normals: Floats
    stiffness: Floats
    length: Floats

    def __len__(self) -> int:
        return len(self.points)

    def joined(self, more: LookaheadSprings) -> LookaheadSprings:
        """Return these springs and more."""
        return LookaheadSprings(*(np.concatenate(both) for both in zip(vars(self).values(), vars(more).values())))

    def pressed(self, move: Floats) -> LookaheadSprings:
        """Return those that a displacement of the points (p, 3) compresses."""
        keep = np.einsum("kia,kia->k", self.normals, move[self.points]) < self.length
        return LookaheadSprings(*(part[keep] for part in vars(self).values()))


def springs_ahead(contact: ContactPotential, x: Floats, step: Floats) -> LookaheadSprings | None:
    """Return springs where a step of the nodes brings parts of the robot together; None if it is too wild."""
    spring_rest_gap = 0.15  # u of the law of pairs at which springs are at rest: there the pressure is a tenth of kappa
    max_examined_step = 1.0  # a step longer than the robot is too wild to be looked into: all would meet all
    if contact.neighbourhood is None or np.abs(step).max(initial=0.0) > max_examined_step:
        return None
    hits = contact.neighbourhood.hits(x, step)
    if len(hits.points) > len(contact.surface.nodes):
        hits = _earliest(hits, contact.surface.points(step))
    stiffness = contact.pair_areas(hits.points, hits.edges) * contact.pair_stiffness(hits.points) / hits.reach
    return LookaheadSprings(
        hits.points,
        hits.normals,
        float(barrier_law(spring_rest_gap)[1]) * stiffness,
        hits.need + (1.0 - spring_rest_gap) * hits.reach,
    )


def _earliest(hits: Hits, move: Floats) -> Hits:
    """Return the hits that a displacement of the points (p, 3) comes to first at one of their points, whatever their order."""
    when = hits.need / np.einsum("kia,kia->k", hits.normals, move[hits.points])
    earliest = np.full(len(move), np.inf)
    np.minimum.at(earliest, hits.points, when[:, None])
    first = when[:, None] <= earliest[hits.points]
    return Hits(*(part[first.any(axis=1)] for part in vars(hits).values()))


def brace(contact: ContactPotential, springs: LookaheadSprings, evaluation: Evaluation) -> Evaluation:
    """Return an evaluation with springs in the tangent and in the forces on the nodes."""
    assert evaluation.data is not None
    s, points, normals = contact.surface, springs.points, springs.normals
    pattern, data = widened(evaluation.sparsity, evaluation.data, points, s.carriers)
    contact.couplings.pattern = pattern
    blocks = np.einsum("k,kia,kjb->kijab", springs.stiffness, normals, normals)
    pushes = (springs.stiffness * springs.length)[:, None, None] * normals
    push = np.zeros((len(s.nodes), 3))
    np.add.at(push, points.ravel(), pushes.reshape(-1, 3))
    return replace(
        evaluation,
        force=evaluation.force - s.to_nodes(push, contact.nodes),
        sparsity=pattern,
        data=contact.added([(points, blocks)], pattern, data),
    )
