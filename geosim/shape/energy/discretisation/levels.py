"""The two levels of a body (see `geosim.linear.multilevel`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.geometry.topology import TET_EDGES
from geosim.kernels import kernel
from geosim.linear.multilevel import Levels, groups_of_neighbours, rigid_motions
from geosim.linear.patterns import find_sorted
from geosim.material.tensors import cofactor
from geosim.shape.energy.discretisation.assembly import Mesh, Rule, deform
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.pattern import graph


def levels_of(body: ScaledBody, table: Floats, held: Bools) -> Levels:
    """Return the levels of a body with the rows of `tensors.table` and held unknowns."""
    mesh = body.mesh
    softness = table[mesh.material, 2]  # over the shear modulus
    lumps = np.bincount(mesh.pressure_tets.ravel(), np.repeat(0.25 * mesh.volumes * softness, 4))
    penalty = partial(_penalise, mesh, frozen(1.0 / softness), body.element.energy)
    if body.element.linear:
        return Levels(partial(_groups, mesh.tets), rigid_motions, frozen(lumps), held, penalty)
    return Levels(partial(_ends, mesh.tets, mesh.pressure_tets), _middles, frozen(lumps), held, penalty)


def _groups(tets: Ints) -> Ints:
    """Return the translation and the rotation of the group of every node of P1 elements."""
    neighbours = graph(tets, tets)
    return groups_of_neighbours(neighbours.indptr, neighbours.indices)


def _ends(tets: Ints, pressure_tets: Ints) -> Ints:
    """Return the vertices that every node of P2 elements lies half-way between."""
    ends = np.empty((int(tets.max()) + 1, 2), dtype=np.int64)
    ends[tets[:, :4]] = pressure_tets[:, :, None]
    for k, (a, b) in enumerate(TET_EDGES):
        ends[tets[:, 4 + k]] = pressure_tets[:, [a, b]]
    return ends


def _middles(ends: Ints, x: Floats, free: Bools) -> Floats:
    """Return how nodes move half-way between their ends."""
    return np.broadcast_to(0.5 * np.eye(3), (len(ends), 2, 3, 3))


def _penalise(mesh: Mesh, moduli: Floats, rule: Rule, x: Floats, ptr: Ints, ind: Ints, blocks: np.ndarray) -> None:
    _add_penalty(x, mesh, moduli, rule, ptr, ind, blocks)


@kernel
def _slopes_of_volume(x, mesh, e, factor, rule, G):
    """Write at the points q of an element the change of volume with its nodes, root(factor w) cof F g_a, to G (q, a, 3)."""
    n = mesh.tets.shape[1]
    positions, g, F, C = np.empty((3, n)), np.empty((3, n)), np.empty((3, 3)), np.empty((3, 3))
    for a in range(n):
        for i in range(3):
            positions[i, a] = x[mesh.tets[e, a], i]
    for q in range(len(rule.weights)):
        root = np.sqrt(rule.weights[q] * factor)
        deform(positions, rule.slopes[q], mesh.barycentric[e], g, F)
        cofactor(F, C)
        for a in range(n):
            for i in range(3):
                G[q, a, i] = root * (C[i, 0] * g[0, a] + C[i, 1] * g[1, a] + C[i, 2] * g[2, a])


@kernel
def _add_penalty(x, mesh, moduli, rule, ptr, ind, blocks):
    """Add integral mu (cof F : dF)^2 to the blocks between nodes."""
    n = mesh.tets.shape[1]
    G = np.empty((len(rule.weights), n, 3))
    for e in range(len(mesh.tets)):
        _slopes_of_volume(x, mesh, e, mesh.volumes[e] * moduli[e], rule, G)
        for a in range(n):
            row = mesh.tets[e, a]
            for b in range(n):
                at = find_sorted(ind, ptr[row], ptr[row + 1], mesh.tets[e, b])
                for i in range(3):
                    for j in range(3):
                        total = 0.0
                        for q in range(len(rule.weights)):
                            total += G[q, a, i] * G[q, b, j]
                        blocks[at, i, j] += total
