"""Smoothed strain of linear tets: deformation gradients around edges and vertices, where a tet alone would be too stiff.

An element of P1 knows one strain for four nodes and locks in bending. Of a tet's volume equal parts belong to its edges, and
again to its corners; with V_k = sum_e s V_e over the tets e of one region around an edge or a vertex k (s = 1/6 or 1/4), its
domain has

    F_k = sum_e s V_e F_e / V_k = sum_a x_a (x) g_ka,      energy (1 - b) sum_edges V_k W(F_k) + b sum_vertices V_k W(F_k).

With b = 0 that is ES-FEM-T4, with b = 1 NS-FEM [Liu and Nguyen-Thoi, Smoothed Finite Element Methods, 2010]: the first is
somewhat too stiff, the second too soft. Pressures and their stabilisation stay with the tets (see `assembly`). Domains end where
a region does, so that materials do not mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import Floats, Ints, frozen
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.material.tensors import cofactor, side_by_side, tangent
from geosim.shape.energy.discretisation.assembly import LANES, Mesh, cofactors, materials_of, turned
from geosim.shape.energy.discretisation.pattern import BodyPattern

# Share b of the energy that is smoothed around vertices. Measured at V/V0 = 1.25 to 2 against P2 on the same mesh, with the
# stabilisation of `assembly`: the tip of a finger is off by 6.7 % with 0.1 and by 4.1 % with 0.2, the pressure of a PneuNet by 12
# and by 9 %.
VERTEX_ENERGY_SHARE = 0.2

# Of the volume of a tet, what belongs to the domains of its edges (in the order of `topology.EDGES`) and of its corners.
SMOOTHING_SHARES = np.concatenate(
    [np.full(6, (1.0 - VERTEX_ENERGY_SHARE) / 6.0), np.full(4, VERTEX_ENERGY_SHARE / 4.0)]
)


@dataclass(frozen=True)
class Smoothing:
    """The domains of a mesh; F_k = sum of x[nodes] (x) slopes over starts[k] : starts[k + 1].

    Parameters
    ----------
    of_tets, entries
        Domains of every tet, (m, 10), as in `SMOOTHING_SHARES`, and where in these its corners stand, (m, 10, 4).
    starts, nodes, slopes
        As above, (k + 1,), (s,) and (s, 3); nodes of a domain ascend.
    volumes, material
        Rest volumes, which add up to that of the body, and rows in the table of `tensors.table`, (k,).
    ranks
        Where the blocks of pairs of nodes a <= b stand, domain by domain; empty before the pattern is known.
    """

    of_tets: Ints
    entries: Ints
    starts: Ints
    nodes: Ints
    material: Ints
    slopes: Floats = field(default_factory=lambda: np.empty((0, 3)))
    volumes: Floats = field(default_factory=lambda: np.empty(0))
    ranks: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def couplings(self) -> list[Ints]:
        """Pairs of nodes (p, 2), the smaller number first, that a domain couples, domain by domain; one array."""
        count = np.diff(self.starts)
        pairs = np.empty((int(np.sum(count * (count + 1) // 2)), 2), dtype=np.int64)
        _pairs(self.starts, self.nodes, pairs)
        return [pairs]

    def placed(self, pattern: BodyPattern) -> Smoothing:
        """Return the domains with their places in a pattern."""
        one, other = self.couplings()[0].T
        return replace(self, ranks=frozen(pattern.ranks(3 * one, 3 * other) // 3))  # three columns a block

    def add(
        self, x: Floats, table: Floats, matrix: bool, pattern: BodyPattern, data: Floats, force: Floats, scale: Floats
    ) -> tuple[float, float]:
        """Add forces, their norms and (with `matrix`) the tangent of the strain energy; return it, and the least J."""
        domains = (self.starts, self.nodes, self.slopes, self.volumes, self.material, self.ranks)
        energy, smallest = _add(x, *domains, table, matrix, pattern.indptr, data, force, scale)
        return energy, smallest

    def deformations(self, x: Floats) -> Floats:
        """Deformation gradients (k, 3, 3) at positions x (nodes, 3)."""
        F = np.empty((3, 3, len(self.volumes)))
        _deformations(x, self.starts, self.nodes, self.slopes, F)
        return np.ascontiguousarray(np.moveaxis(F, 2, 0))

    def tangents(self, x: Floats, table: Floats) -> tuple[Floats, Floats]:
        """Stresses dW/dF (k, 3, 3) and tangents d2W/dF2 (k, 9, 9) at positions x (nodes, 3)."""
        P, A = np.empty((len(self.volumes), 3, 3)), np.empty((len(self.volumes), 9, 9))
        _tangents(self.deformations(x), self.material, table, P, A)
        return P, A


def smoothing(mesh: Mesh, like: Smoothing | None = None) -> Smoothing:
    """Return the domains of linear tets, at rest positions other than those of `like`, where it is given."""
    found = _domains(mesh) if like is None else like
    parts = mesh.volumes[:, None] * SMOOTHING_SHARES
    volumes = np.bincount(found.of_tets.ravel(), parts.ravel())
    share = (parts / volumes[found.of_tets])[:, :, None]  # of a tet in every domain of it
    entries = found.entries.ravel()
    slopes = [np.bincount(entries, (share * mesh.barycentric[:, None, :, i]).ravel()) for i in range(3)]
    return replace(found, slopes=frozen(np.stack(slopes, axis=1)), volumes=frozen(volumes))


def _domains(mesh: Mesh) -> Smoothing:
    """Return what belongs to which domain: one an edge and material, then one a vertex and material."""
    kinds, count = int(mesh.material.max()) + 1, int(mesh.tets.max()) + 1
    ends = np.sort(mesh.tets[:, topology.TET_EDGES], axis=2)
    edges = (ends[..., 0] + 1) * count + ends[..., 1]
    keys = np.concatenate([edges, (count + 1) * count + mesh.tets], axis=1) * kinds + mesh.material[:, None]
    found, first, of_tets = np.unique(keys, return_index=True, return_inverse=True)
    of_tets = of_tets.reshape(keys.shape)
    places, entries = np.unique(of_tets[:, :, None] * count + mesh.tets[:, None, :], return_inverse=True)
    owner, nodes = np.divmod(places, count)
    return Smoothing(
        frozen(of_tets),
        frozen(entries.reshape(*keys.shape, 4)),
        frozen(np.searchsorted(owner, np.arange(len(found) + 1))),
        frozen(nodes),
        frozen(np.repeat(mesh.material, len(SMOOTHING_SHARES))[first]),
    )


@kernel
def _pairs(starts, nodes, pairs):
    """Write the pairs of nodes a <= b of every domain."""
    at = 0
    for k in range(len(starts) - 1):
        for a in range(starts[k], starts[k + 1]):
            for b in range(a, starts[k + 1]):
                pairs[at, 0], pairs[at, 1] = nodes[a], nodes[b]
                at += 1


@kernel(fastmath=True)
def deform_domain(x, nodes, slopes, lane, F):
    """Write F = sum_a x_a (x) g_a of one domain to a lane."""
    for i in range(3):
        f0, f1, f2 = 0.0, 0.0, 0.0
        for a in range(len(nodes)):
            value = x[nodes[a], i]
            f0 += value * slopes[a, 0]
            f1 += value * slopes[a, 1]
            f2 += value * slopes[a, 2]
        F[i, 0, lane], F[i, 1, lane], F[i, 2, lane] = f0, f1, f2


@kernel
def _deformations(x, starts, nodes, slopes, F):
    """Write the deformation gradients of all domains, (3, 3, k)."""
    for k in range(F.shape[2]):
        deform_domain(x, nodes[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]], k, F)


@kernel(fastmath=True)
def bear_domain(P, lane, volume, nodes, slopes, force, scale):
    """Add the forces V P g_a and their norms."""
    for a in range(len(nodes)):
        size = 0.0
        for i in range(3):
            f = volume * (P[i, 0, lane] * slopes[a, 0] + P[i, 1, lane] * slopes[a, 1] + P[i, 2, lane] * slopes[a, 2])
            force[nodes[a], i] += f
            size += f * f
        scale[nodes[a]] += np.sqrt(size)


@kernel
def _reordered(A, lane, volume, B):
    """Write V A so that the nine entries of a block between two nodes stand together, (9, 9)."""
    for J in range(3):
        for L in range(3):
            for i in range(3):
                for k in range(3):
                    B[3 * J + L, 3 * i + k] = volume * A[3 * i + J, 3 * k + L, lane]


@kernel(fastmath=True)
def stiffen_domain(A, lane, volume, nodes, slopes, B, U, V, ranks, at, indptr, data):
    """Add the blocks V g_a : A : g_b, a <= b, to the upper triangle; return the place of the next domain's ranks.

    The nine entries of a block stand together in B, which is V A in another order, and in U = g_a : B: vector instructions.
    """
    _reordered(A, lane, volume, B)
    n = len(nodes)
    for a in range(n):
        g0, g1, g2 = slopes[a, 0], slopes[a, 1], slopes[a, 2]
        for L in range(3):
            for c in range(9):
                U[L, c] = g0 * B[L, c] + g1 * B[3 + L, c] + g2 * B[6 + L, c]
        first = 3 * nodes[a]
        rows = np.int64(indptr[first]), np.int64(indptr[first + 1]) - 1, np.int64(indptr[first + 2]) - 2
        for i in range(3):  # of the diagonal block the upper triangle
            row = rows[i] + 3 * ranks[at]
            for k in range(i, 3):
                data[row + k] += g0 * U[0, 3 * i + k] + g1 * U[1, 3 * i + k] + g2 * U[2, 3 * i + k]
        at += 1
        for b in range(a + 1, n):
            h0, h1, h2 = slopes[b, 0], slopes[b, 1], slopes[b, 2]
            for c in range(9):
                V[c] = h0 * U[0, c] + h1 * U[1, c] + h2 * U[2, c]
            for i in range(3):
                row = rows[i] + 3 * ranks[at]
                for k in range(3):
                    data[row + k] += V[3 * i + k]
            at += 1
    return at


@kernel
def _add(x, starts, nodes, slopes, volumes, material, ranks, table, matrix, indptr, data, force, scale):
    """As `Smoothing.add`; the energy is inf where a domain is inside out and its form has a pole there."""
    F, cof, P, J = np.empty((3, 3, LANES)), np.empty((3, 3, LANES)), np.empty((3, 3, LANES)), np.empty(LANES)
    A, work, B, U = np.empty((9, 9, LANES)), np.empty((4, 3, 3, LANES)), np.empty((9, 9)), np.empty((3, 9))
    V, ids = np.empty(9), np.empty(LANES, dtype=np.int64)
    total, smallest, at, count = 0.0, np.inf, 0, len(volumes)
    for start in range(0, count, LANES):
        for lane in range(LANES):
            k = min(start + lane, count - 1)  # the last domain stands again where there are no more
            ids[lane] = k
            deform_domain(x, nodes[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]], lane, F)
        which = materials_of(material, ids)
        smallest = min(smallest, cofactors(F, cof, J))
        if turned(table, which, J):
            return np.inf, smallest
        side_by_side(table, which, F, J, cof, P, A, work, 2 if matrix else 1)
        for lane in range(min(LANES, count - start)):
            k = start + lane
            mine, g, volume = nodes[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]], volumes[k]
            total += volume * work[2, 2, 2, lane]
            if matrix:
                at = stiffen_domain(A, lane, volume, mine, g, B, U, V, ranks, at, indptr, data)
            bear_domain(P, lane, volume, mine, g, force, scale)
    return total, smallest


@kernel
def _tangents(F, material, table, P, A):
    """Write stress and tangent of every domain."""
    cof, work = np.empty((3, 3)), np.empty((4, 3, 3))
    for k in range(len(F)):
        tangent(table[material[k]], F[k], cofactor(F[k], cof), cof, P[k], A[k], work)
