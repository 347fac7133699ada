"""The two levels of a body in P2 elements (see `geosim.linear.multilevel`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.geometry.topology import TET_EDGES
from geosim.kernels import kernel
from geosim.linear.multilevel import Levels
from geosim.linear.patterns import find_sorted
from geosim.material.tensors import cofactor
from geosim.shape.energy.discretisation.assembly import Mesh, Rule, deform
from geosim.shape.energy.discretisation.body import ScaledBody


def levels_of(body: ScaledBody, table: Floats, held: Bools) -> Levels | None:
    """Return the levels of a body with the rows of `tensors.table` and held unknowns; None where the elements are P1."""
    mesh = body.mesh
    if body.element.linear:
        return None
    parents = np.empty((len(body.rest), 2), dtype=np.int64)
    parents[mesh.tets[:, :4]] = mesh.pressure_tets[:, :, None]
    for k, (a, b) in enumerate(TET_EDGES):
        parents[mesh.tets[:, 4 + k]] = mesh.pressure_tets[:, [a, b]]
    softness = table[mesh.material, 2]  # over the shear modulus
    lumps = np.bincount(mesh.pressure_tets.ravel(), np.repeat(0.25 * mesh.volumes * softness, 4))
    return Levels(
        frozen(parents), frozen(lumps), held, partial(_penalise, mesh, frozen(1.0 / softness), body.element.energy)
    )


def _penalise(mesh: Mesh, moduli: Floats, rule: Rule, x: Floats, ptr: Ints, ind: Ints, blocks: np.ndarray) -> None:
    _add_penalty(x, mesh, moduli, rule, ptr, ind, blocks)


@kernel
def _add_penalty(x, mesh, moduli, rule, ptr, ind, blocks):
    """Add integral mu (cof F : dF)^2 to the blocks between nodes."""
    n = mesh.tets.shape[1]
    positions, g, F, C = np.empty((3, n)), np.empty((3, n)), np.empty((3, 3)), np.empty((3, 3))
    G, K = np.empty((len(rule.weights), n, 3)), np.empty((3, 3))
    for e in range(len(mesh.tets)):
        for a in range(n):
            for i in range(3):
                positions[i, a] = x[mesh.tets[e, a], i]
        for q in range(len(rule.weights)):
            root = np.sqrt(rule.weights[q] * mesh.volumes[e] * moduli[e])
            deform(positions, rule.slopes[q], mesh.barycentric[e], g, F)
            cofactor(F, C)
            for a in range(n):
                for i in range(3):
                    G[q, a, i] = root * (C[i, 0] * g[0, a] + C[i, 1] * g[1, a] + C[i, 2] * g[2, a])
        for a in range(n):
            row = mesh.tets[e, a]
            for b in range(n):
                K[:] = 0.0
                for q in range(len(rule.weights)):
                    for i in range(3):
                        for j in range(3):
                            K[i, j] += G[q, a, i] * G[q, b, j]
                at = find_sorted(ind, ptr[row], ptr[row + 1], mesh.tets[e, b])
                for i in range(3):
                    for j in range(3):
                        blocks[at, i, j] += K[i, j]
