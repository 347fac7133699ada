"""Constraints in rows: how a few slots change the values of a constraint, and the forces and stiffness that follow.

Unknowns are slots of three numbers: particle p has slot p, body b has slot n + 2 b for its centre and n + 2 b + 1 for its
rotation increment. A constraint k has the values c_r, r = 1, 2, ..., with dc_r = sum_s jacobian[k, r, s] . dq[slots[k, s]]; its
energy has the derivative `forces` and the second derivative `stiffness` by c, so that

    gradient += J^T forces,        K += J^T stiffness J + geometric stiffness.

The primal route adds these up, the dual route takes the rows as they are: the same rows serve point-to-point
constraints, axes, hinges and contacts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, dot, plus, put, row, scaled, tuple3, turned


class Rows(NamedTuple):
    """Constraints of one kind at a configuration.

    Parameters
    ----------
    slots
        (k, s), -1 where a slot is missing or held.
    jacobian
        (k, r, s, 3).
    values
        (k, r).
    forces
        Derivative of the energy by the values, (k, r).
    stiffness
        Its second derivative, (k, r, r).
    energy
        [J].
    arms
        Places of the two points relative to the centres of their bodies, (k, 2, 3), where the energy of points has
        geometric stiffness.
    pushes
        Force on these points [N], (k, 3).
    """

    slots: Ints
    jacobian: Floats
    values: Floats
    forces: Floats
    stiffness: Floats
    energy: float
    arms: Floats | None = None
    pushes: Floats | None = None


def slots_of(nodes: Ints, particles: int) -> Ints:
    """Return place and rotation slot of nodes (...,): (..., 2), -1 where there is none."""
    body = particles + 2 * (nodes - particles)
    place = np.where(nodes < 0, -1, np.where(nodes < particles, nodes, body))
    return np.stack([place, np.where(nodes < particles, -1, body + 1)], axis=-1)


def turns_of(bodies: Ints, particles: int) -> Ints:
    """Return the rotation slots of bodies, -1 for the world (-1)."""
    return np.where(bodies < 0, -1, particles + 2 * bodies + 1)


@kernel
def point(node, local, x, X, R):
    """Place of a point of a node, and its arm R local (zero for particles and the world, node -1)."""
    zero = (0.0, 0.0, 0.0)
    if node < 0:
        return tuple3(local), zero
    if node < len(x):
        return row(x, node), zero
    arm = turned(R[node - len(x)], local)
    return plus(row(X, node - len(x)), arm), arm


@kernel
def write_row(t, arm_a, arm_b, out):
    """Write the derivative of t . (a - b), a and b points with these arms, by place and rotation of both: (4, 3)."""
    put(out[0], t)
    put(out[1], cross(arm_a, t))
    put(out[2], scaled(-1.0, t))
    put(out[3], cross(t, arm_b))


@kernel
def add_forces(slots, jacobian, forces, gradient):
    """Gradient (slots, 3) += J^T forces."""
    for k in range(len(slots)):
        for s in range(slots.shape[1]):
            if slots[k, s] >= 0:
                for r in range(forces.shape[1]):
                    for i in range(3):
                        gradient[slots[k, s], i] += forces[k, r] * jacobian[k, r, s, i]


@kernel
def row_changes(slots, jacobian, moved, out):
    """Write J moved, the changes of the values by a motion (slots, 3), to `out` (k, r)."""
    for k in range(len(slots)):
        for r in range(jacobian.shape[1]):
            out[k, r] = 0.0
            for s in range(slots.shape[1]):
                if slots[k, s] >= 0:
                    out[k, r] += dot(row(jacobian[k, r], s), row(moved, slots[k, s]))


@kernel
def row_products(blocks, v, out):
    """Write the products of blocks (k, r, r), of stiffness or compliance, and v (k, r) to `out` (k, r)."""
    for k in range(len(v)):
        for p in range(v.shape[1]):
            out[k, p] = 0.0
            for q in range(v.shape[1]):
                out[k, p] += blocks[k, p, q] * v[k, q]


@kernel
def add_stiffness(jacobian, stiffness, index, swapped, blocks):
    """Add J^T K J to the 3x3 blocks; index and swapped (k, s (s + 1) / 2) are as in `Pattern.blocks_of`."""
    for k in range(len(jacobian)):
        m = -1
        for a in range(jacobian.shape[2]):
            for b in range(a, jacobian.shape[2]):
                m += 1
                if index[k, m] < 0:
                    continue
                H = blocks[index[k, m]]
                c, d = (b, a) if swapped[k, m] else (a, b)
                for p in range(stiffness.shape[1]):
                    for q in range(stiffness.shape[1]):
                        if stiffness[k, p, q] != 0.0:
                            for i in range(3):
                                for j in range(3):
                                    H[i, j] += stiffness[k, p, q] * jacobian[k, p, c, i] * jacobian[k, q, d, j]


@kernel
def add_geometric(slots, arms, pushes, particles, geometric):
    """Collect the second derivatives of both points of every row: sum of sym(f y^T) - (f . y) 1 for each body (b, 3, 3)."""
    for k in range(len(slots)):
        for side in range(2):
            if slots[k, 2 * side + 1] < 0:
                continue
            G, y = geometric[(slots[k, 2 * side] - particles) // 2], arms[k, side]
            for i in range(3):
                f = (0.5 - side) * pushes[k, i]
                for j in range(3):
                    G[i, j] += f * y[j]
                    G[j, i] += f * y[j]
                    G[j, j] -= 2 * f * y[i]
