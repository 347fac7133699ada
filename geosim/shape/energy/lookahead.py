"""What a Newton step would run into: springs in its linear equations, where contact will be.

The tangent knows only of what touches at the start of a step. A long step brings together parts that it knows nothing
of; cut short at the first of them, Newton would find the contacts one by one. Here all pairs that a step v would make
meet are linearised where they do, at the share t of it,

    d(dx) = d_t + n . (dx - t v),

and springs with the stiffness of contact hold these distances in the next attempt; those that come to pull are let go.
Obstacles, whose law goes on below the surface, do without: there, and with friction, it took more iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from geosim.arrays import Floats, Ints, frozen
from geosim.linear.patterns import Coupled, Sparsity, add_blocks, couple, missing_blocks
from geosim.shape.energy.contact_kernels import pair_slope, spring_blocks

if TYPE_CHECKING:
    from geosim.shape.energy.contact import Contact

__all__ = ["Springs", "brace", "springs_ahead"]

AT = 0.15  # u of the law of pairs at which springs are at rest
LONGEST = 1.0  # a step longer than the robot is too wild to be looked into


@dataclass(frozen=True)
class Springs:
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

    def joined(self, more: Springs) -> Springs:
        """Return these springs and more."""
        return Springs(
            np.vstack([self.points, more.points]),
            np.concatenate([self.normals, more.normals]),
            np.concatenate([self.stiffness, more.stiffness]),
            np.concatenate([self.length, more.length]),
        )

    def pressed(self, move: Floats) -> Springs:
        """Return those that a displacement of the points (p, 3) compresses."""
        keep = np.einsum("kia,kia->k", self.normals, move[self.points]) < self.length
        return Springs(self.points[keep], self.normals[keep], self.stiffness[keep], self.length[keep])


def springs_ahead(contact: Contact, x: Floats, step: Floats) -> Springs | None:
    """Return springs where a step of the nodes brings parts of the robot together; None if it is too wild."""
    if contact.neighbourhood is None or np.abs(step).max(initial=0.0) > LONGEST:
        return None
    hits = contact.neighbourhood.hits(contact.surface.points(x), contact.surface.points(step))
    stiffness = contact.pair_areas(hits.points, hits.edges) * contact.pair_stiffness(hits.points) / hits.reach
    return Springs(hits.points, hits.normals, pair_slope(AT) * stiffness, hits.need + (1.0 - AT) * hits.reach)


def brace(
    contact: Contact, springs: Springs, pattern: Sparsity, data: Floats, force: Floats
) -> tuple[Sparsity, Floats]:
    """Add springs to the tangent and to the forces on the nodes (nodes, 3); return the tangent's pattern and values."""
    s = contact.surface
    missing = missing_blocks(springs.points, s.nodes, pattern.indptr, pattern.indices)
    if missing.any():
        wider = couple(pattern, springs.points[missing], s.nodes)
        data = wider.widen(data)
        if isinstance(pattern, Coupled):
            wider = replace(wider, place=frozen(wider.place[pattern.place]))
        pattern = contact.pattern = wider
    blocks = np.empty((len(springs), 4, 4, 3, 3))
    spring_blocks(springs.normals, springs.stiffness, blocks)
    add_blocks(springs.points, blocks, s.nodes, s.weights, pattern.indptr, pattern.indices, data)
    push = np.zeros((len(s.nodes), 3))
    pushes = (springs.stiffness * springs.length)[:, None, None] * springs.normals
    np.add.at(push, springs.points.ravel(), pushes.reshape(-1, 3))
    force += s.to_nodes(push, contact.nodes)
    return pattern, data
