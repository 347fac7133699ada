"""How a tetrahedral mesh follows the surfaces it was made from: vertices on them by the nearest triangle, others harmonically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.queries import closest_points
from geosim.collision.tree import build_tree
from geosim.geometry import topology
from geosim.geometry.harmonic import harmonic
from geosim.kernels import kernel


@dataclass(frozen=True)
class SurfaceMap:
    """Where the outer and inner vertices of a mesh lie on its surfaces.

    Parameters
    ----------
    tets, count
        Of the mesh, (m, 4), and its number of vertices.
    hull
        Vertices on surfaces, (h,).
    surface, corners, weights
        Number of the surface of each, the corners (h, 3) of its triangle, and their weights (h, 3).
    distance
        Largest distance of a vertex from its surface [m].
    """

    tets: Ints
    count: int
    hull: Ints
    surface: Ints
    corners: Ints
    weights: Floats
    distance: float

    def carried(self, motions: Sequence[Floats]) -> Floats:
        """Return how all vertices move (n, 3) where those of the surfaces move by `motions`, (v, 3) each."""
        out = np.zeros((self.count, 3))
        for number, motion in enumerate(motions):
            mine = self.surface == number
            out[self.hull[mine]] = np.einsum("pc,pci->pi", self.weights[mine], motion[self.corners[mine]])
        return harmonic(self.tets, out, self.hull)


def surface_map(vertices: Floats, tets: Ints, body_tets: Ints, surfaces: Sequence[Any]) -> SurfaceMap:
    """Return where the vertices (n, 3) of a mesh lie on surfaces that have `vertices` and `faces`."""
    hull = np.unique(np.concatenate([topology.boundary_faces(t).ravel() for t in (tets, body_tets)]))
    points, nearest = vertices[hull], np.full(len(hull), np.inf)
    number = np.zeros(len(hull), dtype=np.int64)
    corners, weights = np.zeros((len(hull), 3), dtype=np.int64), np.zeros((len(hull), 3))
    for k, surface in enumerate(surfaces):
        places, faces = (np.ascontiguousarray(a) for a in (surface.vertices, surface.faces))
        found, face, shares = closest_points(points, places, build_tree(places, faces))
        distance = np.linalg.norm(found - points, axis=1)
        mine = distance < nearest
        number[mine], corners[mine], weights[mine] = k, faces[face[mine]], shares[mine]
        nearest = np.minimum(nearest, distance)
    return SurfaceMap(tets, len(vertices), hull, number, corners, weights, float(nearest.max()))


def untangled(vertices: Floats, tets: Ints, surfaces: Ints, wanted: Floats, share: float) -> Floats:
    """Return vertices (n, 3) that slid within flat faces and along straight edges until no tet is crushed, as far as they can.

    A vertex of a tet with less than `share` of the volume that is wanted goes along the gradient of that volume, as far as the
    worst of the tets around it gains.

    Parameters
    ----------
    vertices, tets
        Of the mesh, (n, 3) and (m, 4).
    surfaces
        Faces (f, 3) whose shape stays: vertices on them keep to their planes.
    wanted
        Volumes of the tets, (m,), of the same sign as those of `vertices` where they are not crushed.
    share
        Of the wanted volume, below which a tet is crushed.
    """
    untangling_sweeps = 10  # over the tets that a motion has crushed
    x, tets = vertices.copy(), np.ascontiguousarray(tets)
    order = np.argsort(tets.ravel(), kind="stable") // 4
    starts = np.concatenate([[0], np.cumsum(np.bincount(tets.ravel(), minlength=len(x)))])
    free = np.empty((len(x), 3, 3))
    known = np.zeros(len(x), dtype=bool)
    for _ in range(untangling_sweeps):
        shares = topology.tet_volumes(x, tets) / wanted
        crushed = np.flatnonzero(shares < share)
        if not len(crushed):
            break
        met = np.setdiff1d(tets[crushed], np.flatnonzero(known))
        free[met], known[met] = _sliding(x, surfaces, met), True
        _slide(crushed[np.argsort(shares[crushed])], x, tets, free, (starts, order), wanted, share)
    return x


def _sliding(x: Floats, faces: Ints, chosen: Ints) -> Floats:
    """Projectors (k, 3, 3) onto what chosen vertices can do that keeps the planes of the faces (f, 3) around them."""
    # Part of a normal's length below which it lies in the span of others, since facets of one plane differ by rounding.
    plane_tolerance = 1e-3
    near = faces[np.isin(faces, chosen).any(axis=1)]
    normals = topology.face_normals(x, near)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    squares, count = np.zeros((len(x), 9)), np.bincount(near.ravel(), minlength=len(x))[chosen]
    np.add.at(squares, near.ravel(), np.repeat((normals[:, :, None] * normals[:, None]).reshape(-1, 9), 3, axis=0))
    sizes, rows = np.linalg.eigh(squares[chosen].reshape(-1, 3, 3))  # its eigenvalues are squares of singular values
    kept = sizes > plane_tolerance**2 * np.maximum(count, 1)[:, None]
    return np.asarray(np.eye(3) - np.einsum("vik,vk,vjk->vij", rows, kept, rows))


@kernel
def _slide(crushed, x, tets, free, around, wanted, share):
    """Move each corner of tets so that the worst tet around it gains; leave it where none does."""
    step_shares = (1.0, 0.5, 0.2)  # of the step that would give a tet twice the least volume
    min_free_slope_rel = 1e-6  # of the gradient of a volume, that a vertex must be free to follow
    starts, order = around
    normal, along, there = np.empty(3), np.empty(3), np.empty(3)
    for tet in crushed:
        for corner in range(4):
            vertex = tets[tet, corner]
            near = order[starts[vertex] : starts[vertex + 1]]
            now = _volume(x, tets[tet])
            worst = _worst(x, tets, near, wanted)
            there[:] = x[vertex]
            # the gradient of its volume, and that as far as the vertex may follow it
            for i in range(3):
                x[vertex] = 0.0
                low = _volume(x, tets[tet])
                x[vertex, i] = 1.0
                normal[i] = _volume(x, tets[tet]) - low
            x[vertex] = there
            slope, length = 0.0, 0.0
            for i in range(3):
                along[i] = (
                    free[vertex, i, 0] * normal[0] + free[vertex, i, 1] * normal[1] + free[vertex, i, 2] * normal[2]
                )
                slope += along[i] * normal[i]
                length += normal[i] ** 2
            if not slope > min_free_slope_rel * length:
                continue
            step, gains = (2.0 * share * wanted[tet] - now) / slope, False
            for part in step_shares:
                for i in range(3):
                    x[vertex, i] = there[i] + part * step * along[i]
                gains = _worst(x, tets, near, wanted) > worst
                if gains:
                    break
            if not gains:
                x[vertex] = there


@kernel
def _worst(x, tets, near, wanted):
    """Least volume of some tets over what is wanted."""
    least = np.inf
    for k in near:
        least = min(least, _volume(x, tets[k]) / wanted[k])
    return least


@kernel
def _volume(x, tet):
    """Signed volume of a tet."""
    d = tet[0]
    ax, ay, az = x[tet[1], 0] - x[d, 0], x[tet[1], 1] - x[d, 1], x[tet[1], 2] - x[d, 2]
    bx, by, bz = x[tet[2], 0] - x[d, 0], x[tet[2], 1] - x[d, 1], x[tet[2], 2] - x[d, 2]
    cx, cy, cz = x[tet[3], 0] - x[d, 0], x[tet[3], 1] - x[d, 1], x[tet[3], 2] - x[d, 2]
    return ((ay * bz - az * by) * cx + (az * bx - ax * bz) * cy + (ax * by - ay * bx) * cz) / 6.0
