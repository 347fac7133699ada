"""How a tetrahedral mesh follows the surfaces it was made from: vertices on them by the nearest triangle, others harmonically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.queries import closest_points, six_volumes
from geosim.collision.tree import build_tree
from geosim.geometry import topology
from geosim.geometry.harmonic import harmonic
from geosim.kernels import kernel
from geosim.linear.matrix3 import put, row, tuple3


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
        """Return how all vertices move (n, c) where those of the surfaces move by `motions`, (v, c) each."""
        out = np.zeros((self.count, motions[0].shape[1]))
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

    Vertices of tets with less than `share` of the volume that is wanted lessen the sum of squares of what the tets around them
    lack (see `_slide`).

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
    untangling_sweeps = 50  # over what a motion has crushed
    margin = 1.5  # of the share, which is then reached in few sweeps
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
        corners = np.unique(tets[crushed])
        new = corners[~known[corners]]
        free[new], known[new] = _sliding(x, surfaces, new), True
        _slide(corners, x, tets, free, (starts, order), wanted, margin * share)
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
def _slide(vertices, x, tets, free, around, wanted, share):
    """Move vertices one by one, as far as each is free, so that the tets around it lack less of `share` of their volume.

    A step goes along the gradient of half the sum of squares of what they lack, as long as makes the least of it where all
    volumes that lack something are linear, which they are in one vertex.
    """
    step_shares = (1.0, 0.5, 0.2)
    starts, order = around
    along, there = np.empty(3), np.empty(3)
    for vertex in vertices:
        near = order[starts[vertex] : starts[vertex + 1]]
        put(there, tuple3(x[vertex]))
        slopes, lacks = np.zeros((len(near), 3)), np.zeros(len(near))
        for k in range(len(near)):
            lacks[k] = max(share - _volume(x, tets[near[k]]) / wanted[near[k]], 0.0)
            if lacks[k] > 0.0:
                _volume_slope(x, tets[near[k]], vertex, wanted[near[k]], slopes[k])
                x[vertex] = there
        before, length, bend = 0.0, 0.0, 0.0
        for i in range(3):
            along[i] = 0.0
            for j in range(3):
                for k in range(len(near)):
                    along[i] += free[vertex, i, j] * lacks[k] * slopes[k, j]
            length += along[i] ** 2
        for k in range(len(near)):
            before += lacks[k] ** 2
            bend += (slopes[k, 0] * along[0] + slopes[k, 1] * along[1] + slopes[k, 2] * along[2]) ** 2
        if not bend > 0.0:
            continue
        for part in step_shares:
            for i in range(3):
                x[vertex, i] = there[i] + part * length / bend * along[i]
            left = 0.0
            for k in range(len(near)):
                left += max(share - _volume(x, tets[near[k]]) / wanted[near[k]], 0.0) ** 2
            if left < before:
                break
            x[vertex] = there


@kernel
def _volume_slope(x, tet, vertex, wanted, slope):
    """Write the derivative of a tet's share of its volume by one of its vertices, which is moved to do so."""
    x[vertex] = 0.0
    low = _volume(x, tet)
    for i in range(3):
        x[vertex, i] = 1.0
        slope[i] = (_volume(x, tet) - low) / wanted
        x[vertex, i] = 0.0


@kernel
def _volume(x, tet):
    """Signed volume of a tet."""
    return six_volumes(row(x, tet[1]), row(x, tet[2]), row(x, tet[3]), row(x, tet[0])) / 6.0
