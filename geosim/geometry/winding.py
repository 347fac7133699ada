"""Generalized winding numbers: what a set of triangles encloses even where they cross, are turned, doubled or torn.

The winding number of a closed, outward surface is 1 inside and 0 outside; of a torn one it passes 1/2 where a lid would be
[Jacobson, Kavan and Sorkine-Hornung 2013, ACM Trans. Graphics 32]. Far triangles are summed as dipoles of the nodes of a tree
[Barill, Dickson, Schmidt, Levin and Jacobson 2018, ACM Trans. Graphics 37].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.collision.tree import MAX_WAITING_NODES, build_tree, leaf_range
from geosim.geometry import shells
from geosim.geometry.intersections import crossing_pairs
from geosim.geometry.shells import solid_angle
from geosim.geometry.topology import face_normals, linked
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot


@dataclass(frozen=True)
class Soup:
    """Triangles whose insides are known.

    Parameters
    ----------
    vertices, faces
        Positions [m] (n, 3), vertex ids (m, 3), turned as one can make sense of them.
    depth
        Of every triangle, (m,): 0 bounds solids, 1 cavities in them, 2 solids in these, and so on.
    """

    vertices: np.ndarray
    faces: np.ndarray
    depth: np.ndarray

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Whether points [m] (p, 3) are inside the solid."""
        inside = np.zeros(len(points), dtype=bool)
        for level in range(int(self.depth.max()) + 1):
            faces = np.ascontiguousarray(self.faces[self.depth == level])
            if len(faces) == 0:
                continue
            corners = self.vertices[faces]
            near = ((points >= corners.min(axis=(0, 1))) & (points <= corners.max(axis=(0, 1)))).all(axis=1)
            wound = winding(points[near], self.vertices, faces)
            inside[np.flatnonzero(near)[np.abs(wound) > 0.5 if level % 2 else wound > 0.5]] = level % 2 == 0
        return inside


def soup(vertices: np.ndarray, faces: np.ndarray) -> Soup:
    """Turn triangles coherently, patch by patch, and find out which patches bound solids and which cavities.

    Patches are joined over edges of two triangles. One that encloses something is turned outward; one that lies inside others
    bounds a cavity; one that crosses others is turned as the file has it where the file has a sense.
    """
    own_sense = 0.95  # of the area of a patch turned the same way in the file: the file knows what is outside
    flat_patch = 1e-3  # volume over the area to the power 3/2, below which a patch does not say what it encloses
    patch, turn, _ = shells.patches(faces)
    count = int(patch.max()) + 1
    faces = np.where(turn[:, None], faces[:, ::-1], faces)
    normals = face_normals(vertices, faces)
    area = 0.5 * np.linalg.norm(normals, axis=1)
    of_patch = np.bincount(patch, area, count)
    turned = np.bincount(patch, area * turn, count) / np.maximum(of_patch, np.finfo(float).tiny)
    moment = np.stack([np.bincount(patch, area * vertices[faces].mean(axis=1)[:, i], count) for i in range(3)], axis=1)
    middle = moment / np.maximum(of_patch, np.finfo(float).tiny)[:, None]
    volume = np.bincount(patch, np.einsum("ij,ij->i", vertices[faces[:, 0]] - middle[patch], normals) / 6.0, count)
    says = np.abs(volume) > flat_patch * of_patch**1.5
    has_sense = (turned < 1 - own_sense) | (turned > own_sense)
    in_file = np.where(turned > 0.5, -1.0, 1.0)  # sense of the patch in the file, relative to that in `faces`
    outward = np.where(says, np.sign(volume), in_file)
    faces = np.where((outward < 0)[patch][:, None], faces[:, ::-1], faces)
    in_file *= outward
    pairs = patch[crossing_pairs(vertices, faces, tolerance=0.0)]
    cluster = linked(pairs[:, 0], pairs[:, 1], count)
    depth = _depths(vertices, faces, patch, cluster, area)
    # A cavity that breaks through the skin crosses it, and the file alone says that it is one.
    for k in np.unique(cluster):
        members = np.flatnonzero(cluster == k)
        if has_sense[members].all():
            first = members[np.argmax(np.abs(volume[members]))]
            depth[members] += (in_file[members] != in_file[first]) & says[members]
    level = depth[patch]
    faces = np.ascontiguousarray(np.where((level % 2 == 1)[:, None], faces[:, ::-1], faces))
    return Soup(vertices, faces, level)


def _depths(
    vertices: np.ndarray, faces: np.ndarray, patch: np.ndarray, cluster: np.ndarray, area: np.ndarray
) -> np.ndarray:
    """In how many clusters of crossing patches each patch lies."""
    patch_samples = 24  # triangles of a patch that say whether it lies inside another
    nested_share = 0.9  # of them inside: the wall of a cavity, however it is turned
    count, of_face = len(cluster), cluster[patch]
    depth = np.zeros(count, dtype=np.int64)
    corners = vertices[faces]
    low = np.array([corners[of_face == k].min(axis=(0, 1)) for k in range(int(cluster.max()) + 1)])
    high = np.array([corners[of_face == k].max(axis=(0, 1)) for k in range(int(cluster.max()) + 1)])
    for k in range(count):
        members = np.flatnonzero(patch == k)
        chosen = members[np.argsort(-area[members], kind="stable")[:patch_samples]]
        points = corners[chosen].mean(axis=1)
        for j in range(len(low)):
            if j != cluster[k] and (points.min(axis=0) > low[j]).all() and (points.max(axis=0) < high[j]).all():
                wound = winding(points, vertices, np.ascontiguousarray(faces[of_face == j]))
                depth[k] += float(np.mean(np.abs(wound) > 0.5)) > nested_share
    return depth


def winding(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Winding numbers (p,) of triangles round points [m] (p, 3)."""
    # Radii of a node of the tree, beyond which it is one dipole: sums are asked for to 1/2.
    far_field_radii = 2.5
    tree = build_tree(vertices, faces)
    faces = np.ascontiguousarray(faces[tree.order])
    corners, normals = vertices[faces], 0.5 * face_normals(vertices, faces)
    area = np.linalg.norm(normals, axis=1)[:, None] + np.finfo(float).tiny
    moments, count = np.hstack([normals, area * corners.mean(axis=1), area]), len(faces)
    levels = []
    for nodes in (*(2 ** np.arange(tree.first_leaf.bit_length() + 1)), count):  # the last level: single triangles
        starts = count * np.arange(nodes) // nodes
        dipole, moment, weight = np.split(np.add.reduceat(moments, starts), [3, 6], axis=1)
        centre = moment / weight
        owner = np.repeat(np.arange(nodes), np.diff(starts, append=count))
        radius = np.maximum.reduceat(np.linalg.norm(corners - centre[owner][:, None], axis=2).max(axis=1), starts)
        levels.append(np.column_stack([centre, dipole, (far_field_radii * radius) ** 2]))
    points = np.ascontiguousarray(points, dtype=np.float64)
    return np.asarray(_wound(points, vertices, faces, tree.boxes, np.vstack(levels)) / (4.0 * np.pi))


@kernel
def _wound(points, vertices, faces, boxes, nodes):
    """Solid angles: of a node (centre, dipole, square of the distance where it is far) as a dipole, or of what is in it."""
    total, waiting = np.zeros(points.shape[0]), np.zeros(MAX_WAITING_NODES, dtype=np.int64)
    for i in range(points.shape[0]):
        waiting[0], count = 0, 1
        while count > 0:
            count -= 1
            node = waiting[count]
            r = difference(nodes[node], points[i])
            square = dot(r, r)
            if square > nodes[node, 6]:
                total[i] += dot(r, nodes[node, 3:]) / (square * np.sqrt(square))
            elif node >= len(boxes):
                a, b, c = faces[node - len(boxes)]
                total[i] += solid_angle(points[i], vertices[a], vertices[b], vertices[c])
            elif node >= len(boxes) // 2:
                start, end = leaf_range(boxes, node, len(faces))
                for f in range(start, end):
                    waiting[count] = len(boxes) + f
                    count += 1
            else:
                waiting[count], waiting[count + 1] = 2 * node + 1, 2 * node + 2
                count += 2
    return total
