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
    x = vertices.copy()
    around: dict[int, Ints] = {}
    free: dict[int, Floats] = {}

    def volumes(of: Ints) -> Floats:
        return topology.tet_volumes(x, tets[of]) / wanted[of]

    for _ in range(untangling_sweeps):
        shares = topology.tet_volumes(x, tets) / wanted
        crushed = np.flatnonzero(shares < share)
        if not len(crushed):
            break
        for tet in crushed[np.argsort(shares[crushed])].tolist():
            for corner in range(4):
                vertex = int(tets[tet, corner])
                if vertex not in free:
                    around[vertex] = np.flatnonzero((tets == vertex).any(axis=1))
                    free[vertex] = _sliding(x, surfaces[(surfaces == vertex).any(axis=1)])
                _slide(x, tet, corner, tets, free[vertex], volumes, around[vertex], wanted, share)
    return x


def _slide(
    x: Floats, tet: int, corner: int, tets: Ints, free: Floats, volumes: Any, around: Ints, wanted: Floats, share: float
) -> None:
    """Move a corner of a tet so that the worst tet around it gains; leave it where none does."""
    step_shares = (1.0, 0.5, 0.2)  # of the step that would give a tet twice the least volume
    min_free_slope_rel = 1e-6  # of the gradient of a volume, that a vertex must be free to follow
    vertex, others = tets[tet, corner], tets[tet, [k for k in range(4) if k != corner]]
    worst = float(volumes(around).min())
    a, b, c = x[others]
    normal = np.cross(b - a, c - a)
    along = free @ normal  # the gradient of its volume, as far as the vertex may follow it
    slope = float(normal @ along) / 6.0
    if not slope > min_free_slope_rel * float(normal @ normal):
        return
    now = float(topology.tet_volumes(x, tets[[tet]])[0])
    there = x[vertex].copy()
    for part in step_shares:
        for sign in (1.0, -1.0):  # the sense of a tet's corners is not known here
            x[vertex] = there + sign * part * (2.0 * share * wanted[tet] - now) / slope * along
            if float(volumes(around).min()) > worst:
                return
    x[vertex] = there


def _sliding(x: Floats, faces: Ints) -> Floats:
    """Projector (3, 3) onto what a vertex can do that keeps the planes of the faces around it."""
    # Part of a normal's length below which it lies in the span of others, since facets of one plane differ by rounding.
    plane_tolerance = 1e-3
    if not len(faces):
        return np.eye(3)
    a, b, c = (x[faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    _, sizes, rows = np.linalg.svd(normals)
    kept = rows[: int((sizes > plane_tolerance * np.sqrt(len(faces))).sum())]
    return np.asarray(np.eye(3) - kept.T @ kept)
