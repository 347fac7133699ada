"""Edge-smoothed strain of linear tets: one deformation gradient around every edge, where a tet alone would be too stiff.

A sixth of the volume of every tet belongs to each of its edges. With V_k = sum_e V_e / 6 over the tets e of one region around
edge k, its domain has

    F_k = sum_e V_e F_e / (6 V_k) = sum_a x_a (x) g_ka,        strain energy sum_k V_k W(F_k)      [He et al. 2013: ES-FEM-T4]

while pressures and their stabilisation stay with the tets. An element of P1 knows one strain for four nodes and locks in
bending; a domain averages over all tets that share an edge and bends almost as softly as P2 does. Domains end where a region
does, so that materials do not mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import Floats, Ints, frozen
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.material.tensors import cofactor, stress, tangent
from geosim.shape.energy.assembly import Mesh, inadmissible
from geosim.shape.energy.pattern import BodyPattern

__all__ = ["EdgeDomains", "edge_domains"]


@dataclass(frozen=True)
class EdgeDomains:
    """The domains of a mesh; F_k = sum of x[nodes] (x) slopes over starts[k] : starts[k + 1].

    Parameters
    ----------
    of_tets
        Domain of every edge of every tet, (m, 6), in the order of `topology.EDGES`.
    ends
        Nodes at the ends of the edge, (k, 2).
    starts, nodes, slopes
        As above, (k + 1,), (s,) and (s, 3); nodes of a domain ascend.
    volumes, material
        Rest volumes, and rows in the table of `tensors.table`, (k,).
    ranks
        Where the blocks of pairs of nodes a <= b stand, domain by domain; empty before the pattern is known.
    """

    of_tets: Ints
    ends: Ints
    starts: Ints
    nodes: Ints
    slopes: Floats
    volumes: Floats
    material: Ints
    ranks: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def couplings(self) -> Ints:
        """Pairs of nodes (p, 2), the smaller number first, that a domain couples, domain by domain."""
        count = np.diff(self.starts)
        pairs = np.empty((int(np.sum(count * (count + 1) // 2)), 2), dtype=np.int64)
        _pairs(self.starts, self.nodes, pairs)
        return pairs

    def placed(self, pattern: BodyPattern) -> EdgeDomains:
        """Return the domains with their places in a pattern."""
        one, other = self.couplings().T
        return replace(self, ranks=frozen(pattern.ranks(3 * one, 3 * other) // 3))  # three columns a block

    def add(
        self, x: Floats, table: Floats, matrix: bool, pattern: BodyPattern, data: Floats, force: Floats, scale: Floats
    ) -> tuple[float, float]:
        """Add forces, their norms and (with `matrix`) the tangent of the strain energy; return it, and the least J."""
        return _add(  # type: ignore[no-any-return]
            x, self.starts, self.nodes, self.slopes, self.volumes, self.material, table, self.ranks, matrix,
            pattern.indptr, data, force, scale,
        )  # fmt: skip

    def deformations(self, x: Floats) -> Floats:
        """Deformation gradients (k, 3, 3) at positions x (nodes, 3)."""
        return np.add.reduceat(x[self.nodes][:, :, None] * self.slopes[:, None, :], self.starts[:-1])

    def mean_stresses(self, x: Floats, table: Floats) -> Floats:
        """Mean Cauchy stress of the strain energy alone, tr(P F^T) / 3 J, averaged around every node, (nodes,)."""
        mean, count = np.empty(len(self.volumes)), len(x)
        _mean(self.deformations(x), self.material, table, mean)
        share = np.repeat(self.volumes, 2)
        return np.bincount(self.ends.ravel(), share * np.repeat(mean, 2), count) / np.bincount(
            self.ends.ravel(), share, count
        )


def edge_domains(mesh: Mesh) -> EdgeDomains:
    """Return the domains around the edges of linear tets, one an edge and material."""
    ends, count = np.sort(mesh.tets[:, topology.EDGES], axis=2), int(mesh.tets.max()) + 1
    keys = (ends[..., 0] * count + ends[..., 1]) * (int(mesh.material.max()) + 1) + mesh.material[:, None]
    found, first, of_tets = np.unique(keys, return_index=True, return_inverse=True)
    of_tets = of_tets.reshape(-1, 6)
    sixths = np.repeat(mesh.volumes / 6.0, 6)
    volumes = np.bincount(of_tets.ravel(), sixths)
    places, inverse = np.unique(of_tets[:, :, None] * count + mesh.tets[:, None, :], return_inverse=True)
    owner, nodes = np.divmod(places, count)
    share = (mesh.volumes / 6.0)[:, None, None] / volumes[of_tets][:, :, None]  # of a tet in the domain of its edge, (m, 6, 1)
    slopes = [np.bincount(inverse.ravel(), (share * mesh.barycentric[:, None, :, i]).ravel()) for i in range(3)]
    return EdgeDomains(
        frozen(of_tets),
        frozen(ends.reshape(-1, 2)[first]),
        frozen(np.searchsorted(owner, np.arange(len(found) + 1))),
        frozen(nodes),
        frozen(np.stack(slopes, axis=1)),
        frozen(volumes),
        frozen(np.repeat(mesh.material, 6)[first]),
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
def _deform(x, nodes, slopes, F):
    """Write F = sum_a x_a (x) g_a of one domain."""
    F[:] = 0.0
    for a in range(len(nodes)):
        for i in range(3):
            for J in range(3):
                F[i, J] += x[nodes[a], i] * slopes[a, J]


@kernel(fastmath=True)
def _bear(P, volume, nodes, slopes, force, scale):
    """Add the forces V P g_a and their norms."""
    for a in range(len(nodes)):
        size = 0.0
        for i in range(3):
            f = volume * (P[i, 0] * slopes[a, 0] + P[i, 1] * slopes[a, 1] + P[i, 2] * slopes[a, 2])
            force[nodes[a], i] += f
            size += f * f
        scale[nodes[a]] += np.sqrt(size)


@kernel(fastmath=True)
def _stiffen(A, volume, nodes, slopes, T, ranks, at, indptr, data):
    """Add the blocks V g_a : A : g_b, a <= b, to the upper triangle; return the place of the next domain's ranks."""
    n = len(nodes)
    for b in range(n):
        g0, g1, g2 = volume * slopes[b, 0], volume * slopes[b, 1], volume * slopes[b, 2]
        for r in range(9):
            for k in range(3):
                T[b, r, k] = A[r, 3 * k] * g0 + A[r, 3 * k + 1] * g1 + A[r, 3 * k + 2] * g2
    for a in range(n):
        g0, g1, g2 = slopes[a, 0], slopes[a, 1], slopes[a, 2]
        for b in range(a, n):
            for i in range(3):
                row = indptr[3 * nodes[a] + i] + 3 * ranks[at] - i
                for k in range(i if a == b else 0, 3):
                    data[row + k] += g0 * T[b, 3 * i, k] + g1 * T[b, 3 * i + 1, k] + g2 * T[b, 3 * i + 2, k]
            at += 1
    return at


@kernel
def _add(x, starts, nodes, slopes, volumes, material, table, ranks, matrix, indptr, data, force, scale):
    """As `EdgeDomains.add`; the energy is inf where a domain is inside out and its form has a pole there."""
    widest = 0
    for k in range(len(volumes)):
        widest = max(widest, starts[k + 1] - starts[k])
    F, cof, P, A = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    work, T = np.empty((4, 3, 3)), np.empty((widest, 9, 3))
    total, smallest, at = 0.0, np.inf, 0
    for k in range(len(volumes)):
        row, volume = table[material[k]], volumes[k]
        mine, g = nodes[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]]
        _deform(x, mine, g, F)
        J = cofactor(F, cof)
        smallest = min(smallest, J)
        if inadmissible(row, J):
            return np.inf, J
        if matrix:
            total += volume * tangent(row, F, J, cof, P, A, work)
            at = _stiffen(A, volume, mine, g, T, ranks, at, indptr, data)
        else:
            total += volume * stress(row, F, J, cof, P, work)
        _bear(P, volume, mine, g, force, scale)
    return total, smallest


@kernel
def _mean(F, material, table, out):
    """Write tr(P F^T) / 3 J of every domain."""
    P, cof, work = np.empty((3, 3)), np.empty((3, 3)), np.empty((4, 3, 3))
    for k in range(len(F)):
        J = cofactor(F[k], cof)
        stress(table[material[k]], F[k], J, cof, P, work)
        out[k] = np.sum(P * F[k]) / (3.0 * J)
