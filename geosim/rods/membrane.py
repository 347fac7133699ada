"""Membranes of shells: constant-strain triangles of a Saint Venant-Kirchhoff material in plane stress.

The Green strain of a triangle is linear in s_k = (|e_k|^2 - l_k^2) / 2 of its three edges, since s_k = e_k^T E e_k with the edges
at rest. So the energy A h / 2 E : D : E of a triangle is::

    W = 1/2 s^T C s,      C = A h G^-T D G^-1,      s = G [E11, E22, 2 E12]

with D of plane stress, E / (1 - nu^2) [[1, nu, 0], [nu, 1, 0], [0, 0, (1 - nu) / 2]]: the material's Young's modulus and
Poisson's ratio on every mesh, where springs along the edges (`geosim.rods.shells`) have those of the mesh.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot
from geosim.rods.frames import point


def membrane_matrices(vertices: Floats, triangles: Ints, thickness: Floats, modulus: float, poisson: float) -> Floats:
    """Return C [N/m^3] of every triangle, shape (T, 3, 3).

    Parameters
    ----------
    vertices, triangles
        Rest positions [m] (n, 3) and vertex ids (T, 3); edge k is opposite to vertex k.
    thickness
        h [m], shape (T,).
    modulus, poisson
        E [Pa] and nu.
    """
    x = vertices[triangles]
    e = np.roll(x, -2, axis=1) - np.roll(x, -1, axis=1)
    normal = np.cross(e[:, 0], e[:, 1])
    twice = np.linalg.norm(normal, axis=1)
    first = e[:, 0] / np.linalg.norm(e[:, 0], axis=1)[:, None]
    second = np.cross(normal / twice[:, None], first)
    a, b = np.einsum("tkj,tj->tk", e, first), np.einsum("tkj,tj->tk", e, second)
    inverse = np.linalg.inv(np.stack([a * a, b * b, a * b], axis=2))
    plane = np.array([[1.0, poisson, 0.0], [poisson, 1.0, 0.0], [0.0, 0.0, 0.5 * (1.0 - poisson)]])
    scale = 0.5 * twice * thickness * modulus / (1.0 - poisson**2)
    return np.ascontiguousarray(scale[:, None, None] * np.einsum("tki,kl,tlj->tij", inverse, plane, inverse))


@kernel
def _tension(q, dofs, stiffness, rest, s):
    """Return the edges of triangle s, their strains s_k [m^2] and C s [N/m], the tension of every edge over its length."""
    a, b, c = point(q, dofs[s, 0]), point(q, dofs[s, 3]), point(q, dofs[s, 6])
    e = (difference(c, b), difference(a, c), difference(b, a))
    g = (
        0.5 * (dot(e[0], e[0]) - rest[s, 0]),
        0.5 * (dot(e[1], e[1]) - rest[s, 1]),
        0.5 * (dot(e[2], e[2]) - rest[s, 2]),
    )
    k = stiffness[s]
    return e, g, (dot(k[0], g), dot(k[1], g), dot(k[2], g))


@kernel
def membrane_force(q, dofs, stiffness, rest, gradient):
    """Add the gradient of all triangles; return (energy, largest tension of an edge).

    `dofs` (T, 9) of the vertices, `stiffness` C [N/m^3] (T, 3, 3), `rest` squared lengths [m^2] of the opposite edges (T, 3).
    """
    energy, largest = 0.0, 0.0
    for s in range(dofs.shape[0]):
        e, g, n = _tension(q, dofs, stiffness, rest, s)
        energy += 0.5 * dot(n, g)
        for k in range(3):
            start, end = dofs[s, 3 * ((k + 1) % 3)], dofs[s, 3 * ((k + 2) % 3)]
            for j in range(3):
                f = n[k] * e[k][j]
                gradient[end + j] += f
                gradient[start + j] -= f
                largest = max(largest, abs(f))
    return energy, largest


@kernel
def membrane_hessian(q, dofs, stiffness, rest, slots, values):
    """Add the Hessian, the sum of C_kl d_k e_k (d_l e_l)^T and n_k d_k d_k^T I, in packed lower form (45 slots).

    d_k is +1 at the end of edge k, -1 at its start, 0 at the vertex opposite to it. Arguments as for the force.
    """
    for s in range(dofs.shape[0]):
        e, _, n = _tension(q, dofs, stiffness, rest, s)
        p = 0
        for a in range(9):
            v, i = a // 3, a % 3
            for b in range(a + 1):
                w, j = b // 3, b % 3
                h = 0.0
                for k in range(3):
                    if k == v:
                        continue
                    dk = 1.0 if k == (v + 1) % 3 else -1.0
                    for m in range(3):
                        if m != w:
                            dm = 1.0 if m == (w + 1) % 3 else -1.0
                            h += dk * dm * stiffness[s, k, m] * e[k][i] * e[m][j]
                    if i == j and k != w:
                        h += dk * (1.0 if k == (w + 1) % 3 else -1.0) * n[k]
                values[slots[s, p]] += h
                p += 1
