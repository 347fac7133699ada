"""Discrete shells: stretching springs on the edges of triangles and hinges between them.

Stretching, Eq. (10) of [Lahoti], on every edge of the mesh; hinge bending, Eq. (17), on every edge of two triangles::

    E = 1/2 k_s (|e| / l - 1)^2 l,        E = 1/2 k_b (phi - phi_n)^2

with phi the angle between the normals, positive where the edge is a ridge seen from the side of the normals.

Constants. "plate" (default): k_s = sqrt(3)/2 E h l inside and sqrt(3)/4 E h l on the boundary; on equilateral triangles
k_b = (2 / sqrt(3)) D with D = E h^3 / (12 (1 - nu^2)), and l^2 / (A1 + A2) scales it on others. "published": those of
[Lahoti], k_s = sqrt(3)/4 E h l on every edge (half of E inside) and k_b = E h^3 / (12 sqrt(3)) (half of E h^3 / 12). "matlab":
twice both, which is what its published reference states hold.

A hinge knows one angle only: on equilateral triangles it bends as a plate with D = (sqrt(3)/2) k_b and Poisson's ratio -1/3
whatever the material's, so a cylinder is right and a saddle is not; a free-edged strip bends with D (1 - 1/9). On other meshes it
depends on their directions. Mid-edge normals (`geosim.rods.midedge`) do neither, for one unknown more an edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints, frozen
from geosim.kernels import kernel
from geosim.rods.frames import cross, dot

__all__ = ["ShellMesh", "hinge_angles", "hinge_force", "hinge_hessian", "shell_mesh", "spring_force", "spring_hessian"]


@dataclass(frozen=True)
class ShellMesh:
    """Edges and hinges of triangles.

    Parameters
    ----------
    edges
        Vertices of every edge in the order of first appearance, shape (Z, 2).
    faces
        Triangles of every edge, -1 for none, shape (Z, 2).
    hinges
        (x0, x1) of the edge, then the opposite vertices x2 of the triangle that runs x0 -> x1 and x3 of the other, (H, 4).
    hinge_edges
        Edge of every hinge, shape (H,).
    areas, normals
        Rest areas [m^2] (T,) and unit normals (T, 3).
    """

    edges: Ints
    faces: Ints
    hinges: Ints
    hinge_edges: Ints
    areas: Floats
    normals: Floats


def shell_mesh(vertices: Floats, triangles: Ints) -> ShellMesh:
    """Return the edges and hinges of triangles; an edge of three or more triangles gets a hinge for every pair."""
    number: dict[tuple[int, int], int] = {}
    around: list[list[tuple[int, int, int, int]]] = []
    for t, (a, b, c) in enumerate(triangles):
        for i, j, k in ((a, b, c), (b, c, a), (c, a, b)):
            key = (int(min(i, j)), int(max(i, j)))
            if key not in number:
                number[key] = len(around)
                around.append([])
            around[number[key]].append((t, int(i), int(j), int(k)))
    edges = np.array([around_edge[0][1:3] for around_edge in around], dtype=np.int64).reshape(-1, 2)
    faces = np.full((len(edges), 2), -1, dtype=np.int64)
    hinges, hinge_edges = [], []
    for e, sides in enumerate(around):
        faces[e, : min(2, len(sides))] = [side[0] for side in sides[:2]]
        for m in range(len(sides)):
            for n in range(m + 1, len(sides)):
                hinges.append((sides[m][1], sides[m][2], sides[m][3], sides[n][3]))
                hinge_edges.append(e)
    x = vertices[triangles]
    normal = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    size = np.linalg.norm(normal, axis=1)
    return ShellMesh(
        frozen(edges),
        frozen(faces),
        frozen(np.array(hinges, dtype=np.int64).reshape(-1, 4)),
        frozen(np.array(hinge_edges, dtype=np.int64)),
        frozen(0.5 * size),
        frozen(normal / np.maximum(size, 1e-300)[:, None]),
    )


@kernel
def _vector(q, a, b):
    return (q[b] - q[a], q[b + 1] - q[a + 1], q[b + 2] - q[a + 2])


@kernel
def spring_force(q, dofs, stiffness, rest, gradient):
    """Add the gradient of springs between pairs of vertices; return (energy, largest force).

    `dofs` (Z, 6), `stiffness` k_s [N], `rest` l [m].
    """
    energy, largest = 0.0, 0.0
    for s in range(dofs.shape[0]):
        e = _vector(q, dofs[s, 0], dofs[s, 3])
        length = math.sqrt(dot(e, e))
        strain = length / rest[s] - 1.0
        force = stiffness[s] * strain
        energy += 0.5 * force * strain * rest[s]
        largest = max(largest, abs(force))
        for j in range(3):
            gradient[dofs[s, j]] -= force * e[j] / length
            gradient[dofs[s, 3 + j]] += force * e[j] / length
    return energy, largest


@kernel
def spring_hessian(q, dofs, stiffness, rest, slots, values):
    """Add the Hessian of springs between pairs of vertices in packed lower form (21 slots)."""
    for s in range(dofs.shape[0]):
        e = _vector(q, dofs[s, 0], dofs[s, 3])
        length = math.sqrt(dot(e, e))
        axial = stiffness[s] / rest[s]
        lateral = stiffness[s] * (length / rest[s] - 1.0) / length
        p = 0
        for a in range(6):
            for b in range(a + 1):
                ja, jb = a % 3, b % 3
                h = (axial - lateral) * e[ja] * e[jb] / length**2
                if ja == jb:
                    h += lateral
                if a >= 3 and b < 3:
                    h = -h
                values[slots[s, p]] += h
                p += 1


@kernel
def _hinge(q, dofs, s):
    """Return edges, normals and the angle of hinge s."""
    e0 = _vector(q, dofs[s, 0], dofs[s, 3])
    e1 = _vector(q, dofs[s, 0], dofs[s, 6])
    e2 = _vector(q, dofs[s, 0], dofs[s, 9])
    n1, n2 = cross(e0, e1), cross(e2, e0)
    length = math.sqrt(dot(e0, e0))
    angle = math.atan2(dot(cross(n1, n2), e0) / length, dot(n1, n2))
    return e0, e1, e2, n1, n2, length, angle


@kernel
def hinge_angles(q, dofs, angles):
    """Fill the angles [rad] of all hinges."""
    for s in range(dofs.shape[0]):
        angles[s] = _hinge(q, dofs, s)[6]


@kernel
def _hinge_gradient(e0, e1, e2, n1, n2, length, s, r, g):
    """Fill g (4, 3), the gradient of the angle, and its factors s, r (4): g_a = s_a n1/|n1|^2 + r_a n2/|n2|^2."""
    c1, c2 = dot(e0, e1) / length, dot(e0, e2) / length
    s[0], s[1], s[2], s[3] = length - c1, c1, -length, 0.0
    r[0], r[1], r[2], r[3] = length - c2, c2, 0.0, -length
    i1, i2 = 1.0 / dot(n1, n1), 1.0 / dot(n2, n2)
    for a in range(4):
        for j in range(3):
            g[a, j] = s[a] * i1 * n1[j] + r[a] * i2 * n2[j]


@kernel
def hinge_force(q, dofs, stiffness, natural, gradient):
    """Add the gradient of all hinges; return (energy, largest force).

    `dofs` (H, 12), `stiffness` k_b [N m], `natural` angles [rad].
    """
    energy, largest = 0.0, 0.0
    s, r, g = np.empty(4), np.empty(4), np.empty((4, 3))
    for h in range(dofs.shape[0]):
        e0, e1, e2, n1, n2, length, angle = _hinge(q, dofs, h)
        _hinge_gradient(e0, e1, e2, n1, n2, length, s, r, g)
        moment = stiffness[h] * (angle - natural[h])
        energy += 0.5 * moment * (angle - natural[h])
        for a in range(4):
            for j in range(3):
                gradient[dofs[h, 3 * a + j]] += moment * g[a, j]
                largest = max(largest, abs(moment * g[a, j]))
    return energy, largest


@kernel
def hinge_hessian(q, dofs, stiffness, natural, slots, values):
    """Add the exact Hessian k_b (g g^T + (phi - phi_n) dg/dx) of all hinges in packed lower form (78 slots).

    With N the normal of a triangle and A = N / |N|^2, dA = (I - 2 n n^T) dN / |N|^2, and dN of its vertices are the cross
    products with the opposite edges.
    """
    s, r, g = np.empty(4), np.empty(4), np.empty((4, 3))
    ds, dr = np.zeros((4, 4, 3)), np.zeros((4, 4, 3))
    da, db = np.zeros((4, 3, 3)), np.zeros((4, 3, 3))
    for h in range(dofs.shape[0]):
        e0, e1, e2, n1, n2, length, angle = _hinge(q, dofs, h)
        _hinge_gradient(e0, e1, e2, n1, n2, length, s, r, g)
        i1, i2 = 1.0 / dot(n1, n1), 1.0 / dot(n2, n2)
        c1, c2 = dot(e0, e1) / length, dot(e0, e2) / length
        e3 = (e1[0] - e0[0], e1[1] - e0[1], e1[2] - e0[2])
        e4 = (e2[0] - e0[0], e2[1] - e0[1], e2[2] - e0[2])
        for j in range(3):
            u = e0[j] / length
            # derivatives of c1 = e0 . e1 / |e0|, c2 and |e0| with respect to x0, x1, x2, x3
            d1, d2 = (e1[j] - c1 * u) / length, (e2[j] - c2 * u) / length
            ds[1, 0, j], ds[1, 1, j], ds[1, 2, j] = -d1 - u, d1, u
            dr[1, 0, j], dr[1, 1, j], dr[1, 3, j] = -d2 - u, d2, u
            ds[2, 0, j], ds[2, 1, j] = u, -u
            dr[3, 0, j], dr[3, 1, j] = u, -u
            for b in range(4):
                ds[0, b, j] = -ds[1, b, j] - ds[2, b, j]
                dr[0, b, j] = -dr[1, b, j] - dr[3, b, j]
            # column j of dN: dN/dx0 = [e3]x, dN/dx1 = -[e1]x, dN/dx2 = [e0]x and their mirror images
            unit = (1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0)
            v0, v1, v2 = cross(e3, unit), cross(unit, e1), cross(e0, unit)
            w0, w1, w3 = cross(unit, e4), cross(e2, unit), cross(unit, e0)
            p0, p1, p2 = 2.0 * dot(n1, v0) * i1, 2.0 * dot(n1, v1) * i1, 2.0 * dot(n1, v2) * i1
            z0, z1, z3 = 2.0 * dot(n2, w0) * i2, 2.0 * dot(n2, w1) * i2, 2.0 * dot(n2, w3) * i2
            for i in range(3):
                da[0, i, j] = (v0[i] - p0 * n1[i]) * i1
                da[1, i, j] = (v1[i] - p1 * n1[i]) * i1
                da[2, i, j] = (v2[i] - p2 * n1[i]) * i1
                db[0, i, j] = (w0[i] - z0 * n2[i]) * i2
                db[1, i, j] = (w1[i] - z1 * n2[i]) * i2
                db[3, i, j] = (w3[i] - z3 * n2[i]) * i2
        moment = stiffness[h] * (angle - natural[h])
        p = 0
        for m in range(12):
            a, i = m // 3, m % 3
            for n in range(m + 1):
                b, j = n // 3, n % 3
                second = n1[i] * i1 * ds[a, b, j] + s[a] * da[b, i, j] + n2[i] * i2 * dr[a, b, j] + r[a] * db[b, i, j]
                values[slots[h, p]] += stiffness[h] * g[a, i] * g[b, j] + moment * second
                p += 1
