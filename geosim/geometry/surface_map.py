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

__all__ = ["SurfaceMap", "surface_map"]


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
