"""What an increment of time adds to the potential: quadratic potentials between nodes, its inertia, and viscous stress.

    w / 2 sum_ab A_ab (x_a - y_a) . (x_b - y_b)

With A the mass matrix, y where the nodes would go without forces and w [1/s^2] one over the square of a time, its minimum with
the potential of the body is an implicit step in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from geosim.arrays import Floats, Ints, frozen
from geosim.shape.energy.discretisation.pattern import BodyPattern


@dataclass(frozen=True)
class NodeForm:
    """A symmetric matrix between nodes.

    Parameters
    ----------
    nodes
        How many.
    rows, columns, values
        Its upper triangle (k,), each pair once.
    places
        Where the pairs are in the values of the tangent, one a direction, (3, k).
    """

    nodes: int
    rows: Ints
    columns: Ints
    values: Floats
    places: Ints

    @cached_property
    def matrix(self) -> csr_array:
        """The whole matrix."""
        upper = csr_array((self.values, (self.rows, self.columns)), shape=(self.nodes, self.nodes))
        return csr_array(upper + upper.T - csr_array((upper.diagonal(), (range(self.nodes),) * 2), shape=upper.shape))

    @cached_property
    def amounts(self) -> Floats:
        """Sums of the amounts in every row, (nodes,)."""
        return np.asarray(abs(self.matrix).sum(axis=1)).ravel()


def node_form(nodes: int, groups: Ints, blocks: Floats, pattern: BodyPattern) -> NodeForm:
    """Return the sum of blocks (m, a, a) between groups of nodes (m, a), which the pattern couples."""
    one, other = (np.broadcast_to(ids, blocks.shape).ravel() for ids in (groups[:, :, None], groups[:, None, :]))
    upper = one <= other
    keys, owner = np.unique(one[upper] * nodes + other[upper], return_inverse=True)
    rows, columns = np.divmod(keys, nodes)
    values = np.bincount(owner, blocks.ravel()[upper], len(keys))
    places = pattern.ranks(3 * rows, 3 * columns) + pattern.indptr[3 * rows + np.arange(3)[:, None]]
    return NodeForm(nodes, frozen(rows), frozen(columns), frozen(values), frozen(places))


@dataclass(frozen=True)
class Spring:
    """One of the sums of a potential: its form, its weight w, and y (nodes, 3)."""

    form: NodeForm
    weight: float
    center: Floats


class Part(Protocol):
    """A potential beside the quadratic ones: of viscous materials."""

    @property
    def table(self) -> Floats:
        """Table of materials that holds with it."""

    def add(self, x: Floats, matrix: bool, data: Floats, force: Floats, scale: Floats) -> float:
        """As of `NodePotential`."""


@dataclass(frozen=True)
class NodePotential:
    """What an increment of time adds to the potential of the body.

    Parameters
    ----------
    springs
        Its sums.
    rounding
        Round-off of a position over the tolerance of forces: in short increments it moves the heavy nodes' forces by more.
    viscous
        Of viscous materials; or None.
    table
        Of materials, where not that of the problem.
    """

    springs: tuple[Spring, ...]
    rounding: float = 0.0
    viscous: Part | None = None
    table: Floats | None = None

    def add(self, x: Floats, matrix: bool, data: Floats, force: Floats, scale: Floats) -> float:
        """Add forces, their norms and (with `matrix`) the tangent; return the energy."""
        energy = 0.0 if self.viscous is None else self.viscous.add(x, matrix, data, force, scale)
        for spring in self.springs:
            way = x - spring.center
            push = spring.weight * (spring.form.matrix @ way)
            force += push
            scale += np.linalg.norm(push, axis=1) + self.rounding * spring.weight * spring.form.amounts
            energy += 0.5 * float(np.sum(push * way))
            if matrix:
                data[spring.form.places] += spring.weight * spring.form.values
        return energy
