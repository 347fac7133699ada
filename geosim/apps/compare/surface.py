"""A closed triangle surface that measured points are compared with: distances, sharp edges, random points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from geosim.arrays import Bools, Floats, Ints, frozen, norm
from geosim.collision.shapes import Solids, closest_on_mesh, make_solid
from geosim.geometry import topology


@dataclass(frozen=True)
class ComparedSurface:
    """A closed, outward oriented triangle surface: vertices [m] (n, 3), faces (f, 3)."""

    vertices: Any
    faces: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozen(np.array(self.vertices, dtype=float)))
        object.__setattr__(self, "faces", frozen(np.array(self.faces, dtype=np.int64)))

    @cached_property
    def solid(self) -> Solids:
        """The surface for the kernels of signed distances, with its tree."""
        return make_solid("mesh", {"vertices": self.vertices, "faces": self.faces})

    @property
    def face_normals(self) -> Floats:
        """Unit normals, shape (f, 3)."""
        return self.solid.normals[:, 0]

    @cached_property
    def areas(self) -> Floats:
        """Face areas [m^2], shape (f,)."""
        return 0.5 * norm(topology.face_normals(self.vertices, self.faces), axis=1)

    @cached_property
    def sharp_edges(self) -> Any:
        """Tree over points along the edges where the normals turn by more than 30 degrees; None if there is none."""
        edges, one, two = topology.shared_edges(self.faces)
        cosine = np.einsum("ij,ij->i", self.face_normals[one], self.face_normals[two])
        ends = self.vertices[edges[cosine < np.cos(np.radians(30.0))]]
        if len(ends) == 0:
            return None
        length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
        count = np.maximum(np.ceil(500.0 * length / self.size), 1).astype(int)
        which = np.repeat(np.arange(len(ends)), count)
        along = (np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + 0.5) / count[which]
        return cKDTree(ends[which, 0] + along[:, None] * (ends[which, 1] - ends[which, 0]))

    def beside_edge(self, points: Any, distance: float) -> Bools:
        """Tell which points are nearer to a sharp edge than `distance` [m], to a 500th of the size; shape (p,)."""
        if self.sharp_edges is None:
            return np.zeros(len(points), dtype=bool)
        return np.asarray(np.isfinite(self.sharp_edges.query(points, distance_upper_bound=distance)[0]))

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box [m]."""
        used = self.vertices[np.unique(self.faces)]
        return float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))

    def closest(self, points: Any) -> tuple[Floats, Ints, Floats, Floats]:
        """Find the closest surface points.

        Parameters
        ----------
        points
            [m], shape (p, 3).

        Returns
        -------
        closest, face, weights, distance
            Closest points [m] (p, 3), their faces (p,), barycentric weights (p, 3), and signed distances [m] (p,),
            positive outside.
        """
        face, weights, distance = closest_on_mesh(self.solid, points)
        return np.einsum("pi,pij->pj", weights, self.vertices[self.faces[face]]), face, weights, distance

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
        """Draw points uniformly over the area: points [m] (count, 3) and their faces (count,)."""
        face = rng.choice(len(self.faces), size=count, p=self.areas / self.areas.sum())
        u, v = rng.random((2, count))
        turned = u + v > 1
        u, v = np.where(turned, 1 - u, u), np.where(turned, 1 - v, v)
        a, b, c = (self.vertices[self.faces[face, i]] for i in range(3))
        return a + u[:, None] * (b - a) + v[:, None] * (c - a), face
