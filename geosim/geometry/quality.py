"""Quality measures of tetrahedra: radius ratios and dihedral angles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.collision.queries import vertices_in_tets
from geosim.collision.tree import build_tree
from geosim.geometry.polish import radius_ratios
from geosim.geometry.topology import TET_EDGES, TET_FACES, boundary_faces, mid_edges
from geosim.geometry.widths import unit_normals, widths

MIN_VOLUME_DIVISOR = np.finfo(float).tiny


@dataclass(frozen=True)
class MeshQuality:
    """Numbers that say whether a mesh can be trusted.

    `dihedral_min`, `dihedral_median` [degree]: over all tets, of each tet's smallest dihedral angle (70.5 is regular).
    `radius_ratio_min`, `radius_ratio_median`: 3 x inscribed / circumscribed radius (1 is regular, 0 flat).
    `edge_min`, `edge_median`, `edge_max` [m]: lengths of the distinct edges.
    """

    vertices: int
    tets: int
    dihedral_min: float
    dihedral_median: float
    radius_ratio_min: float
    radius_ratio_median: float
    edge_min: float
    edge_median: float
    edge_max: float

    def __str__(self) -> str:
        return (
            f"{self.tets} tets, {self.vertices} vertices; smallest dihedral angle {self.dihedral_min:.1f} deg "
            f"(median {self.dihedral_median:.1f}); radius ratio {self.radius_ratio_min:.3f} "
            f"(median {self.radius_ratio_median:.2f}); edges {self.edge_min * 1e3:.3g} to "
            f"{self.edge_max * 1e3:.3g} mm (median {self.edge_median * 1e3:.3g})"
        )


def mesh_quality(vertices: np.ndarray, tets: np.ndarray) -> MeshQuality:
    """Measure a mesh: vertices [m] (n, 3), tets (m, 4)."""
    corners = vertices[tets]
    # Outward area vectors of the face opposite to each corner; the dihedral angle lies between two of them.
    a, b, c = (corners[:, TET_FACES[:, i]] for i in range(3))
    areas = 0.5 * np.cross(b - a, c - a)
    size = np.linalg.norm(areas, axis=2)
    normals = areas / np.maximum(size, MIN_VOLUME_DIVISOR)[:, :, None]
    cosines = -np.einsum("tek,tek->te", normals[:, TET_EDGES[:, 0]], normals[:, TET_EDGES[:, 1]])
    smallest = np.degrees(np.arccos(np.clip(cosines, -1, 1))).min(axis=1)
    ratio = np.abs(radius_ratios(vertices, np.ascontiguousarray(tets)))
    length = np.linalg.norm(np.diff(vertices[mid_edges(tets, 0)[0]], axis=1)[:, 0], axis=1)
    return MeshQuality(
        vertices=len(vertices),
        tets=len(tets),
        dihedral_min=float(smallest.min()),
        dihedral_median=float(np.median(smallest)),
        radius_ratio_min=float(ratio.min()),
        radius_ratio_median=float(np.median(ratio)),
        edge_min=float(length.min()),
        edge_median=float(np.median(length)),
        edge_max=float(length.max()),
    )


def one_tet_thick(vertices: np.ndarray, tets: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of a surface's area behind which the body is one tet thick, and a place there.

    Parameters
    ----------
    vertices, tets
        The body [m] (n, 3), (m, 4).
    faces
        Its surface, oriented outward, (f, 3).

    A face counts where from each of its corners an edge goes through the body to a surface that looks the other way.
    """
    # cosine between the normals at the ends of an edge that goes through a wall, at most: corners have 0
    max_through_wall_cosine = -0.5
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    outward = 0.5 * np.cross(b - a, c - a)
    normals = np.zeros_like(vertices)
    np.add.at(normals, faces, outward[:, None])
    size = np.linalg.norm(normals, axis=1)
    normals /= np.maximum(size, MIN_VOLUME_DIVISOR)[:, None]
    count = len(vertices)
    edges = mid_edges(tets, 0)[0]
    along = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    inside = ~np.isin(edges.min(axis=1) * count + edges.max(axis=1), along[:, 0] * count + along[:, 1])
    facing = np.einsum("ei,ei->e", normals[edges[:, 0]], normals[edges[:, 1]]) < max_through_wall_cosine
    thin = np.zeros(count, dtype=bool)
    thin[edges[inside & facing]] = True
    areas = np.linalg.norm(outward, axis=1) * thin[faces].all(axis=1)
    return float(areas.sum() / np.linalg.norm(outward, axis=1).sum()), vertices[faces[int(np.argmax(areas))]].mean(
        axis=0
    )


def through_thinnest_wall(vertices: np.ndarray, tets: np.ndarray) -> tuple[int, float, np.ndarray]:
    """Return how many tets of a body lie across its thinnest wall, how thick that is [m], and where (3,).

    Thickness is measured from the middles of triangles of the boundary against their normals, to where the boundary faces them.
    """
    samples, wall_quantile = 200, 0.01  # points across the wall; share of the area that may be thinner: rims of corners
    faces = boundary_faces(tets)
    wide = widths(vertices, faces, (-1.0,))
    normal, area = unit_normals(vertices, faces)
    seen = np.flatnonzero(np.isfinite(wide))
    if len(seen) == 0:
        return 0, np.inf, vertices[0]
    seen = seen[np.argsort(wide[seen])]
    thinnest = seen[np.searchsorted(np.cumsum(area[seen]), wall_quantile * area[seen].sum())]
    start = vertices[faces[thinnest]].mean(axis=0)
    inside = (np.arange(samples) + 0.5)[:, None] / samples * wide[thinnest]
    points = start - inside * normal[thinnest]
    held = vertices_in_tets(
        np.vstack([vertices, points]), len(vertices) + np.arange(samples), build_tree(vertices, tets)
    )
    return len(np.unique(held[held >= 0])), float(wide[thinnest]), start
