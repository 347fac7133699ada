"""Bending of shells by mid-edge normals: one rotation xi an edge, Eqs. (18)-(20) and appendix A of [Lahoti].

Every edge of the mesh carries a normal m that turns about the edge by xi; between the normals of its three edges a triangle
interpolates linearly, so that its shape operator (19) and energy (20) are::

    L = sum_k a_k l_k / A  t_k (x) t_k,      E = 1/2 D A [(1 - nu) Tr (L - L0)^2 + nu (Tr L - Tr L0)^2]

with l_k the length of edge k, t_k the unit vector that leaves the triangle across it in its plane, a_k the angle from the
triangle's normal to m, and D = E h^3 / (12 (1 - nu^2)). A plate is then right for cylinder and saddle, on any mesh.

Departures from the paper:

[D1] a_k is the angle itself, where (19) has (xi - n . tau) / (t . tau), the same to first order with xi = m . tau. The energy
     then depends on the shape and the normals alone, not on the frames tau of the last step, and holds for any angle.
[D2] l_k, A and t_k are those of the rest shape: the appendix neglects their derivatives in the force and calls triangles
     nearly rigid; taking that into the energy makes force and Hessian exact derivatives of it. An energy is then
     1/2 e^T K e of the three angles e = a - a0 of a triangle, with K_ij = D l_i l_j / A [(1 - nu) (t_i . t_j)^2 + nu].
[D3] The prefactor is that of (20), k_b = D / 2; the one printed in the appendix is not an energy of a plate.
[D4] Frames are carried by parallel transport along the edge as in a rod, so that m does not spin. The Hessian is the symmetric
     part of the force's Jacobian; the rest is a multiple of the moments that are left on xi and vanishes in equilibrium.
[D5] Normals have no mass. They are held at edges of triangles whose three vertices are held: a clamp holds a row of triangles.
     A natural hinge angle is shared by both triangles, so that at the edge of a clamp half of it shows.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, row, scaled
from geosim.rods.frames import axis, carried, point
from geosim.rods.shells import ShellMesh


def rest_normals(vertices: Floats, mesh: ShellMesh) -> tuple[Floats, Floats]:
    """Return the unit tangents of all edges and their normals m at rest, the mean of their triangles', each (Z, 3)."""
    e = vertices[mesh.edges[:, 1]] - vertices[mesh.edges[:, 0]]
    e = e / np.linalg.norm(e, axis=1)[:, None]
    first = mesh.normals[mesh.faces[:, 0]]
    normal = first.copy()
    at, side = np.nonzero(mesh.faces[mesh.sides, 1] == np.arange(len(mesh.areas))[:, None])
    # the second triangle of an oriented surface runs the other way
    normal[mesh.sides[at, side]] -= mesh.signs[at, side][:, None] * mesh.normals[at]
    # length of the sum of two unit normals below which their triangles lie on top of each other: far over round-off
    folded_normals_sum = 1e-6
    folded = np.linalg.norm(normal, axis=1) < folded_normals_sum
    normal[folded] = np.cross(e[folded], first[folded])
    return e, normal / np.linalg.norm(normal, axis=1)[:, None]


def midedge_matrices(vertices: Floats, triangles: Ints, mesh: ShellMesh, plate: Floats, poisson: float) -> Floats:
    """Return K [N m] of every triangle, shape (T, 3, 3); `plate` is D [N m] of every triangle."""
    x = vertices[triangles]
    e = np.roll(x, -2, axis=1) - np.roll(x, -1, axis=1)  # edge k is opposite to vertex k
    length = np.linalg.norm(e, axis=2)
    unit = e / length[:, :, None]
    cosine = np.einsum("tik,tjk->tij", unit, unit)
    scale = plate / mesh.areas
    return np.ascontiguousarray(
        scale[:, None, None] * length[:, :, None] * length[:, None, :] * ((1.0 - poisson) * cosine**2 + poisson)
    )


@kernel
def carry_normals(q, edge_dofs, t_old, d_old, t, d):
    """Carry the reference normals of all edges to q; `edge_dofs` (Z, 6)."""
    for z in range(edge_dofs.shape[0]):
        e = difference(point(q, edge_dofs[z, 3]), point(q, edge_dofs[z, 0]))
        new = scaled(1.0 / math.sqrt(dot(e, e)), e)
        moved = carried(row(d_old, z), row(t_old, z), new)
        for j in range(3):
            t[z, j], d[z, j] = new[j], moved[j]


@kernel
def triangle_edges(q, dofs, s):
    """Return the edge vectors opposite to the vertices, the unit normal and twice the area of triangle s."""
    a, b, c = point(q, dofs[s, 0]), point(q, dofs[s, 3]), point(q, dofs[s, 6])
    edges = (difference(c, b), difference(a, c), difference(b, a))
    area = cross(edges[2], difference(c, a))
    twice = math.sqrt(dot(area, area))
    return edges, scaled(1.0 / twice, area), twice


@kernel
def _strains(q, dofs, sides, signs, d, natural, s, edges, n, strain):
    """Fill the angles a_k - a0_k of triangle s, between -pi and pi."""
    for k in range(3):
        m = row(d, sides[s, k])
        turned = math.atan2(dot(cross(m, n), edges[k]) / math.sqrt(dot(edges[k], edges[k])), dot(m, n))
        angle = signs[s, k] * q[dofs[s, 9 + k]] - turned - natural[s, k]
        strain[k] = angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@kernel
def _height(edges, k):
    """Return |e|, and how far vertex k lies from the begin of its opposite edge e along it."""
    e, f = edges[k], edges[(k + 2) % 3]  # f ends where e begins: minus f points to vertex k
    length = math.sqrt(dot(e, e))
    return length, -dot(e, f) / length


@kernel
def midedge_angles(q, dofs, sides, signs, d, angles):
    """Fill the angles a [rad] from the triangles' normals to those of their edges, (T, 3)."""
    zero = np.zeros_like(angles)
    for s in range(dofs.shape[0]):
        edges, n, _ = triangle_edges(q, dofs, s)
        _strains(q, dofs, sides, signs, d, zero, s, edges, n, angles[s])


@kernel
def _gradients(edges, n, twice, signs, s, w, g):
    """Fill g (3, 12), the gradients of the three angles, and w (3, 3), their components along n."""
    for k in range(3):
        length, c = _height(edges, k)
        p, r = (k + 1) % 3, (k + 2) % 3
        w[k, k], w[k, p], w[k, r] = -length / twice, (length - c) / twice, c / twice
        for v in range(3):
            for j in range(3):
                g[k, 3 * v + j] = w[k, v] * n[j]
        for i in range(3):
            g[k, 9 + i] = signs[s, k] if i == k else 0.0


@kernel
def midedge_force(q, dofs, sides, signs, d, stiffness, natural, gradient):
    """Add the gradient of all triangles; return (energy, largest force, largest moment).

    `dofs` (T, 12) of the vertices and the xi opposite to them, `sides`, `signs` of `ShellMesh`, `d` reference normals of the
    edges, `stiffness` K [N m] (T, 3, 3), `natural` angles a0 [rad] (T, 3).
    """
    energy, force, moment = 0.0, 0.0, 0.0
    strain, w, g = np.empty(3), np.empty((3, 3)), np.empty((3, 12))
    for s in range(dofs.shape[0]):
        edges, n, twice = triangle_edges(q, dofs, s)
        _strains(q, dofs, sides, signs, d, natural, s, edges, n, strain)
        _gradients(edges, n, twice, signs, s, w, g)
        for k in range(3):
            m = dot(stiffness[s, k], strain)
            energy += 0.5 * m * strain[k]
            moment = max(moment, abs(m))
            for i in range(12):
                gradient[dofs[s, i]] += m * g[k, i]
                if i < 9:
                    force = max(force, abs(m * g[k, i]))
    return energy, force, moment


@kernel
def normal_slopes(edges, n, twice, dn, dtwice):
    """Fill the derivatives of the unit normal (9, 3) and of twice the area (9,) by the vertices' components."""
    for v in range(3):
        for j in range(3):
            # the area vector changes by e x dx with the edge opposite to the vertex that moves
            change = cross(edges[v], axis(j))
            along = dot(n, change)
            dtwice[3 * v + j] = along
            slope = combine(1.0 / twice, change, -along / twice, n)
            for i in range(3):
                dn[3 * v + j, i] = slope[i]


@kernel
def _component_slopes(edges, k, twice, dtwice, w, dw):
    """Fill the derivatives dw (3, 9) of the components w[k] of the gradient of angle k."""
    e, f = edges[k], edges[(k + 2) % 3]
    length, c = _height(edges, k)
    p, r = (k + 1) % 3, (k + 2) % 3
    for b in range(9):
        v, j = b // 3, b % 3
        # e runs from vertex p to r, f from k to p
        de = -1.0 if v == p else (1.0 if v == r else 0.0)
        df = -1.0 if v == k else (1.0 if v == p else 0.0)
        dl = de * e[j] / length
        dc = -(de * f[j] + df * e[j]) / length - c * dl / length
        dw[k, b] = -dl / twice - w[k, k] * dtwice[b] / twice
        dw[p, b] = (dl - dc) / twice - w[k, p] * dtwice[b] / twice
        dw[r, b] = dc / twice - w[k, r] * dtwice[b] / twice


@kernel
def midedge_hessian(q, dofs, sides, signs, d, stiffness, natural, slots, values):
    """Add the Hessian of all triangles, K g g^T + m dg/dx with its symmetric part, in packed lower form (78 slots).

    The gradients of an angle are w_v n, so dg = dw n + w dn with dn = (I - n n^T) dN / |N|. Arguments as for the force.
    """
    strain, w, g, second = np.empty(3), np.empty((3, 3)), np.empty((3, 12)), np.empty((9, 9))
    dn, dtwice, dw = np.empty((9, 3)), np.empty(9), np.empty((3, 9))
    for s in range(dofs.shape[0]):
        edges, n, twice = triangle_edges(q, dofs, s)
        _strains(q, dofs, sides, signs, d, natural, s, edges, n, strain)
        _gradients(edges, n, twice, signs, s, w, g)
        normal_slopes(edges, n, twice, dn, dtwice)
        second[:] = 0.0
        for k in range(3):
            _component_slopes(edges, k, twice, dtwice, w, dw)
            moment = dot(stiffness[s, k], strain)
            for a in range(9):
                for b in range(9):
                    second[a, b] += moment * (dw[a // 3, b] * n[a % 3] + w[k, a // 3] * dn[b, a % 3])
        p = 0
        for a in range(12):
            for b in range(a + 1):
                h = 0.0
                for k in range(3):
                    for i in range(3):
                        h += g[k, a] * stiffness[s, k, i] * g[i, b]
                if a < 9 and b < 9:
                    h += 0.5 * (second[a, b] + second[b, a])
                values[slots[s, p]] += h
                p += 1
