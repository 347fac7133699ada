"""Discrete shells: stretching springs on the edges of triangles and hinges between them.

Springs are an option: by default triangles are membranes (`geosim.rods.membrane`), since springs along right-angled
triangles have 0.866 E and no Poisson's ratio, a union jack 1.146 E, and equilateral triangles 1/3 whatever the material's.

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
from itertools import combinations

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints, frozen
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, scaled
from geosim.rods.frames import axis, point


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
    sides, signs
        Edge opposite to every vertex of every triangle, and +1 where the triangle runs along it, else -1, (T, 3).
    """

    edges: Ints
    faces: Ints
    hinges: Ints
    hinge_edges: Ints
    areas: Floats
    normals: Floats
    sides: Ints
    signs: Floats


def shell_mesh(vertices: Floats, triangles: Ints) -> ShellMesh:
    """Return the edges and hinges of triangles; an edge of three or more triangles gets a hinge for every pair."""
    around: dict[frozenset[int], list[tuple[int, int, int, int]]] = {}  # triangle, ends and opposite vertex, by edge
    for t, (a, b, c) in enumerate(triangles.tolist()):
        for i, j, k in ((a, b, c), (b, c, a), (c, a, b)):
            around.setdefault(frozenset((i, j)), []).append((t, i, j, k))
    edges = np.array([met[0][1:3] for met in around.values()], dtype=np.int64).reshape(-1, 2)
    faces = np.full((len(edges), 2), -1, dtype=np.int64)
    sides, signs = np.zeros(triangles.shape, dtype=np.int64), np.ones(triangles.shape)
    hinges, hinge_edges = [], []
    for e, met in enumerate(around.values()):
        faces[e, : min(2, len(met))] = [side[0] for side in met[:2]]
        for t, i, _, k in met:
            corner = triangles[t].tolist().index(k)
            sides[t, corner], signs[t, corner] = e, 1.0 if i == edges[e, 0] else -1.0
        for one, other in combinations(met, 2):
            hinges.append((*one[1:], other[3]))
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
        # a triangle of no area has some normal, and is refused later by name
        frozen(normal / np.maximum(size, MIN_DIVISOR)[:, None]),
        frozen(sides),
        frozen(signs),
    )


@kernel
def _hinge(q, dofs, s):
    """Return edges, normals and the angle of hinge s."""
    x0 = point(q, dofs[s, 0])
    e0, e1 = difference(point(q, dofs[s, 3]), x0), difference(point(q, dofs[s, 6]), x0)
    e2 = difference(point(q, dofs[s, 9]), x0)
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
def _normal_over_square(n, dn, i, out):
    """Fill column dA [m^-2] of A = N / |N|^2 for dN, with i = 1 / |N|^2: (I - 2 n n^T) dN / |N|^2."""
    change = combine(i, dn, -2.0 * dot(n, dn) * i * i, n)
    for k in range(3):
        out[k] = change[k]


@kernel
def _factor_slopes(unit, length, e, c, j, end, slopes):
    """Fill the derivatives, by component j of x0 .. x3, of the factors of one side of a hinge; `end` 2 or 3 is its vertex.

    They are |e0| - c, c and -|e0| with c = e0 . e / |e0| and e the edge from x0 to that vertex.
    """
    u = unit[j]
    d = (e[j] - c * u) / length
    slopes[1, 0, j], slopes[1, 1, j], slopes[1, end, j] = -d - u, d, u
    slopes[end, 0, j], slopes[end, 1, j] = u, -u
    for b in range(4):
        slopes[0, b, j] = -slopes[1, b, j] - slopes[end, b, j]


@kernel
def hinge_hessian(q, dofs, stiffness, natural, slots, values):
    """Add the exact Hessian k_b (g g^T + (phi - phi_n) dg/dx) of all hinges in packed lower form (78 slots).

    With N the normal of a triangle and A = N / |N|^2 it is g = s A1 + r A2, and dN of the vertices are cross products with the
    opposite edges: dN/dx0 = [e3]x, dN/dx1 = -[e1]x, dN/dx2 = [e0]x and their mirror images.
    """
    s, r, g = np.empty(4), np.empty(4), np.empty((4, 3))
    ds, dr = np.zeros((4, 4, 3)), np.zeros((4, 4, 3))
    da, db = np.zeros((4, 3, 3)), np.zeros((4, 3, 3))  # by vertex and column j: dA / dx_j
    for h in range(dofs.shape[0]):
        e0, e1, e2, n1, n2, length, angle = _hinge(q, dofs, h)
        _hinge_gradient(e0, e1, e2, n1, n2, length, s, r, g)
        i1, i2 = 1.0 / dot(n1, n1), 1.0 / dot(n2, n2)
        unit, e3, e4 = scaled(1.0 / length, e0), difference(e1, e0), difference(e2, e0)
        for j in range(3):
            _factor_slopes(unit, length, e1, dot(unit, e1), j, 2, ds)
            _factor_slopes(unit, length, e2, dot(unit, e2), j, 3, dr)
            x = axis(j)
            _normal_over_square(n1, cross(e3, x), i1, da[0, j])
            _normal_over_square(n1, cross(x, e1), i1, da[1, j])
            _normal_over_square(n1, cross(e0, x), i1, da[2, j])
            _normal_over_square(n2, cross(x, e4), i2, db[0, j])
            _normal_over_square(n2, cross(e2, x), i2, db[1, j])
            _normal_over_square(n2, cross(x, e0), i2, db[3, j])
        moment = stiffness[h] * (angle - natural[h])
        p = 0
        for m in range(12):
            a, i = m // 3, m % 3
            for n in range(m + 1):
                b, j = n // 3, n % 3
                second = n1[i] * i1 * ds[a, b, j] + s[a] * da[b, j, i] + n2[i] * i2 * dr[a, b, j] + r[a] * db[b, j, i]
                values[slots[h, p]] += stiffness[h] * g[a, i] * g[b, j] + moment * second
                p += 1
