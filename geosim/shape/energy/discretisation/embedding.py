"""Embedded points: positions inside elements as weighted sums of those of the element's nodes.

What hangs on such points (cables, fibres, layers) is written in terms of such sums, d = sum_a w_a x_a, so that force and
stiffness on the nodes follow from those on d by the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints, frozen
from geosim.collision.queries import WEIGHT_ROUNDING
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.linear.patterns import add_block
from geosim.model.cable import Anchors
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.elements import shape_functions
from geosim.shape.energy.discretisation.pattern import BodyPattern


def points_of(body: ScaledBody, anchors: Anchors) -> tuple[Ints, Floats]:
    """Nodes (q, a) and weights (q, a) of points that are fastened to tets."""
    return body.mesh.tets[anchors.tets], shape_functions(anchors.weights, body.element.order, topology.TET_EDGES)


def merged(nodes: Ints, weights: Floats) -> tuple[Ints, Floats]:
    """Sums (s, a) of weights (s, a, ...) in which every node counts once: its other places have no weight."""
    order = np.argsort(nodes, axis=1, kind="stable")
    nodes = np.take_along_axis(nodes, order, axis=1)
    weights = np.take_along_axis(weights, order.reshape(*order.shape, *[1] * (weights.ndim - 2)), axis=1).copy()
    for a in range(nodes.shape[1] - 1, 0, -1):
        again = nodes[:, a] == nodes[:, a - 1]
        weights[again, a - 1] += weights[again, a]
        weights[again, a] = 0.0
    weights[np.abs(weights) < WEIGHT_ROUNDING * np.abs(weights).max(initial=MIN_DIVISOR)] = 0.0
    return nodes, weights


def couplings(nodes: Ints, weights: Floats) -> Ints:
    """Pairs of nodes (p, 2), the smaller number first, that a sum with weights (s, a) or (s, a, ...) couples."""
    used = np.abs(weights.reshape(*nodes.shape, -1)).max(axis=2) > 0.0
    a, b = np.triu_indices(nodes.shape[1])
    both = used[:, a] & used[:, b]
    pairs = np.sort(np.stack([nodes[:, a][both], nodes[:, b][both]], axis=1), axis=1)
    return np.unique(pairs, axis=0)


@dataclass(frozen=True)
class Strands:
    """Straight pieces between points of the body, in scaled units.

    Parameters
    ----------
    nodes, weights
        The way from start to end of a piece is sum_a weights_a x[nodes_a]; (s, a).
    rest
        Lengths at rest, (s,).
    ranks
        Where their blocks stand, `BodyPattern.face_ranks`, (s, a, a); empty before the pattern is known.
    """

    nodes: Ints
    weights: Floats
    rest: Floats
    ranks: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0), dtype=np.int32))

    def placed(self, pattern: BodyPattern) -> Strands:
        """Return the pieces with their places in a pattern."""
        return replace(self, ranks=pattern.face_ranks(self.nodes))

    def ways(self, x: Floats) -> tuple[Floats, Floats]:
        """Directions (s, 3) and lengths (s,) at positions x (nodes, 3)."""
        way = np.einsum("sa,sai->si", self.weights, x[self.nodes])
        length = np.linalg.norm(way, axis=1)
        return way / np.maximum(length, MIN_DIVISOR)[:, None], length

    def gradients(self, along: Floats) -> Floats:
        """Gradients of the lengths by the nodes of every piece, (s, a, 3); `along` their directions."""
        return self.weights[:, :, None] * along[:, None, :]

    def add_forces(self, along: Floats, pulls: Floats, force: Floats, scale: Floats) -> None:
        """Add the forces of pulls (s,) on the nodes, and their norms."""
        of_nodes = self.gradients(along) * pulls[:, None, None]
        np.add.at(force, self.nodes, of_nodes)
        np.add.at(scale, self.nodes, np.linalg.norm(of_nodes, axis=2))

    def add_stiffness(
        self, along: Floats, lengths: Floats, pulls: Floats, slopes: Floats, pattern: BodyPattern, data: Floats
    ) -> None:
        """Add the stiffness of pulls (s,) that change with the lengths by `slopes` (s,)."""
        across = pulls / np.maximum(lengths, MIN_DIVISOR)
        _stiffen(self.nodes, self.weights, self.ranks, along, across, slopes - across, pattern.indptr, data)


@kernel
def _stiffen(nodes, weights, ranks, along, across, beyond, indptr, data):
    """Add w_a w_b (across 1 + beyond t t^T) of every piece to the upper triangle."""
    block = np.empty((3, 3))
    for s in range(len(nodes)):
        for a in range(nodes.shape[1]):
            for b in range(a, nodes.shape[1]):
                w = weights[s, a] * weights[s, b]
                if w == 0.0:
                    continue
                for i in range(3):
                    for j in range(3):
                        block[i, j] = w * beyond[s] * along[s, i] * along[s, j]
                    block[i, i] += w * across[s]
                add_block(nodes[s, a], nodes[s, b], ranks[s, a, b], block, indptr, data)


def make_strands(body: ScaledBody, anchors: Anchors) -> Strands:
    """Return the pieces between the points of one polyline."""
    nodes, weights = points_of(body, anchors)
    nodes, weights = merged(
        np.concatenate([nodes[:-1], nodes[1:]], axis=1), np.concatenate([-weights[:-1], weights[1:]], axis=1)
    )
    way = np.einsum("sa,sai->si", weights, body.rest[nodes])
    return Strands(frozen(nodes), frozen(weights), frozen(np.linalg.norm(way, axis=1)))


def joined(parts: Sequence[Strands]) -> Strands:
    """Return the pieces of several polylines, one after the other."""
    nodes, weights, rest = (np.concatenate([getattr(p, key) for p in parts]) for key in ("nodes", "weights", "rest"))
    return Strands(frozen(nodes), frozen(weights), frozen(rest))
