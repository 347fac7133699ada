"""Signed distance of points to a closed triangle surface.

The closest point comes from a bounding-box tree; the sign from the angle-weighted pseudo-normal of the closest
feature (face, edge or vertex), which is right everywhere [Baerentzen and Aanaes 2005].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.tree import Tree, build_tree
from geosim.kernels import kernel

__all__ = ["Surface", "closest_points"]


@dataclass(frozen=True)
class Surface:
    """A closed, outward oriented triangle surface: vertices [m] (n, 3), faces (f, 3)."""

    vertices: Any
    faces: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", frozen(np.array(self.vertices, dtype=float)))
        object.__setattr__(self, "faces", frozen(np.array(self.faces, dtype=np.int64)))

    @cached_property
    def tree(self) -> Tree:
        """The tree over the faces."""
        return build_tree(self.vertices, self.faces)

    @cached_property
    def face_normals(self) -> Floats:
        """Unit normals, shape (f, 3)."""
        a, b, c = (self.vertices[self.faces[:, i]] for i in range(3))
        normal = np.cross(b - a, c - a)
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        return normal / np.where(length > 0, length, 1.0)

    @cached_property
    def areas(self) -> Floats:
        """Face areas [m^2], shape (f,)."""
        a, b, c = (self.vertices[self.faces[:, i]] for i in range(3))
        return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)

    @cached_property
    def feature_normals(self) -> Floats:
        """Pseudo-normals of the features of every face: interior, edges 01, 12, 20, vertices 0, 1, 2; (f, 7, 3)."""
        normals, faces = self.face_normals, self.faces
        vertex = np.zeros_like(self.vertices)
        for i in range(3):
            a, b, c = (self.vertices[faces[:, (i + j) % 3]] for j in range(3))
            u, v = b - a, c - a
            length = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
            cosine = np.einsum("ij,ij->i", u, v) / np.where(length > 0, length, 1.0)
            np.add.at(vertex, faces[:, i], normals * np.arccos(np.clip(cosine, -1.0, 1.0))[:, None])
        pairs = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        _, inverse = np.unique(pairs[:, 0] * (len(self.vertices) + 1) + pairs[:, 1], return_inverse=True)
        edge = np.zeros((inverse.max() + 1, 3))
        np.add.at(edge, inverse, np.repeat(normals, 3, axis=0))
        return np.concatenate([normals[:, None], edge[inverse].reshape(-1, 3, 3), vertex[faces]], axis=1)

    @cached_property
    def sharp_edges(self) -> Any:
        """Tree over points along the edges where the normals turn by more than 30 degrees; None if there is none."""
        pairs = np.sort(self.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        twin = (pairs[order[1:]] == pairs[order[:-1]]).all(axis=1)
        one, two = order[:-1][twin], order[1:][twin]
        cosine = np.einsum("ij,ij->i", self.face_normals[one // 3], self.face_normals[two // 3])
        ends = self.vertices[pairs[one[cosine < np.cos(np.radians(30.0))]]]
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
        return np.isfinite(self.sharp_edges.query(points, distance_upper_bound=distance)[0])

    @property
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
        points = np.ascontiguousarray(points, dtype=float)
        face = np.empty(len(points), dtype=np.int64)
        weights = np.empty((len(points), 3))
        tree = self.tree
        closest_points(points, self.vertices, self.faces, tree.order, tree.boxes, face, weights)
        at = np.einsum("pi,pij->pj", weights, self.vertices[self.faces[face]])
        inner = weights > 1e-9
        count = inner.sum(axis=1)
        edge = np.where(~inner[:, 2], 1, np.where(~inner[:, 0], 2, 3))
        feature = np.where(count == 3, 0, np.where(count == 2, edge, 4 + np.argmax(weights, axis=1)))
        away = points - at
        sign = np.where(np.einsum("pj,pj->p", away, self.feature_normals[face, feature]) < 0, -1.0, 1.0)
        return at, face, weights, sign * np.linalg.norm(away, axis=1)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
        """Draw points uniformly over the area: points [m] (count, 3) and their faces (count,)."""
        face = rng.choice(len(self.faces), size=count, p=self.areas / self.areas.sum())
        u, v = rng.random((2, count))
        turned = u + v > 1
        u, v = np.where(turned, 1 - u, u), np.where(turned, 1 - v, v)
        a, b, c = (self.vertices[self.faces[face, i]] for i in range(3))
        return a + u[:, None] * (b - a) + v[:, None] * (c - a), face


@kernel
def _box_distance(boxes, node, x, y, z):
    dx = max(boxes[node, 0] - x, 0.0, x - boxes[node, 3])
    dy = max(boxes[node, 1] - y, 0.0, y - boxes[node, 4])
    dz = max(boxes[node, 2] - z, 0.0, z - boxes[node, 5])
    return dx * dx + dy * dy + dz * dz


@kernel
def _on_triangle(p, a, b, c):
    """Barycentric weights of b and c of the point of a triangle that is closest to p [Ericson 2005, 5.1.5]."""
    abx, aby, abz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    acx, acy, acz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    apx, apy, apz = p[0] - a[0], p[1] - a[1], p[2] - a[2]
    d1 = abx * apx + aby * apy + abz * apz
    d2 = acx * apx + acy * apy + acz * apz
    if d1 <= 0.0 and d2 <= 0.0:
        return 0.0, 0.0
    bpx, bpy, bpz = p[0] - b[0], p[1] - b[1], p[2] - b[2]
    d3 = abx * bpx + aby * bpy + abz * bpz
    d4 = acx * bpx + acy * bpy + acz * bpz
    if d3 >= 0.0 and d4 <= d3:
        return 1.0, 0.0
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return d1 / (d1 - d3), 0.0
    cpx, cpy, cpz = p[0] - c[0], p[1] - c[1], p[2] - c[2]
    d5 = abx * cpx + aby * cpy + abz * cpz
    d6 = acx * cpx + acy * cpy + acz * cpz
    if d6 >= 0.0 and d5 <= d6:
        return 0.0, 1.0
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return 0.0, d2 / (d2 - d6)
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return 1.0 - w, w
    total = va + vb + vc
    return vb / total, vc / total


@kernel
def closest_points(points, vertices, faces, order, boxes, face, weights):
    """Write the closest face and the barycentric weights of every point; nearer boxes are visited first."""
    count = len(faces)
    leaves = (len(boxes) + 1) // 2
    first = leaves - 1
    nodes = np.empty(128, dtype=np.int64)
    bounds = np.empty(128)
    for i in range(len(points)):
        p = points[i]
        x, y, z = p[0], p[1], p[2]
        best = np.inf
        nodes[0], bounds[0] = 0, 0.0
        top = 1
        while top > 0:
            top -= 1
            node = nodes[top]
            if bounds[top] >= best:
                continue
            if node >= first:
                k = node - first
                for j in range(count * k // leaves, count * (k + 1) // leaves):
                    f = order[j]
                    a, b, c = vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]]
                    v, w = _on_triangle(p, a, b, c)
                    u = 1.0 - v - w
                    dx = x - u * a[0] - v * b[0] - w * c[0]
                    dy = y - u * a[1] - v * b[1] - w * c[1]
                    dz = z - u * a[2] - v * b[2] - w * c[2]
                    d = dx * dx + dy * dy + dz * dz
                    if d < best:
                        best = d
                        face[i] = f
                        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
                continue
            left, right = 2 * node + 1, 2 * node + 2
            near, far = _box_distance(boxes, left, x, y, z), _box_distance(boxes, right, x, y, z)
            if near > far:
                left, right = right, left
                near, far = far, near
            nodes[top], bounds[top] = right, far
            nodes[top + 1], bounds[top + 1] = left, near
            top += 2
