"""How good the tetrahedra of a mesh are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["MeshQuality", "mesh_quality", "tet_edges", "tet_volumes"]

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


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


def tet_volumes(vertices: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """Signed volumes [m^3] of tets (m, 4): det(b - a, c - a, d - a) / 6."""
    a, b, c, d = np.moveaxis(vertices[tets], 1, 0)
    return np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) / 6.0


def tet_edges(tets: np.ndarray) -> np.ndarray:
    """Distinct edges of tets as sorted vertex ids, shape (e, 2)."""
    edges = np.sort(tets[:, EDGES].reshape(-1, 2), axis=1)
    codes = np.unique(edges[:, 0] * (int(tets.max()) + 1) + edges[:, 1])
    return np.stack(np.divmod(codes, int(tets.max()) + 1), axis=1)


def mesh_quality(vertices: np.ndarray, tets: np.ndarray) -> MeshQuality:
    """Measure a mesh: vertices [m] (n, 3), tets (m, 4)."""
    corners = vertices[tets]
    # Outward area vectors of the face opposite to each corner; the dihedral angle lies between two of them.
    opposite = [(1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)]
    areas = np.stack(
        [0.5 * np.cross(corners[:, j] - corners[:, i], corners[:, k] - corners[:, i]) for i, j, k in opposite], axis=1
    )
    size = np.linalg.norm(areas, axis=2)
    normals = areas / np.maximum(size, 1e-300)[:, :, None]
    cosines = -np.stack([np.einsum("ij,ij->i", normals[:, i], normals[:, j]) for i, j in EDGES], axis=1)
    smallest = np.degrees(np.arccos(np.clip(cosines, -1, 1))).min(axis=1)
    volume = np.abs(tet_volumes(vertices, tets))
    inscribed = 3.0 * volume / size.sum(axis=1)
    # Circumradius from the products of opposite edges (Crelle): 24 V R = sqrt(s (s - 2a)(s - 2b)(s - 2c)).
    lengths = np.linalg.norm(corners[:, EDGES[:, 0]] - corners[:, EDGES[:, 1]], axis=2)
    a, b, c = (lengths[:, i] * lengths[:, 5 - i] for i in range(3))
    product = (a + b + c) * (b + c - a) * (a + c - b) * (a + b - c)
    circumscribed = np.sqrt(np.maximum(product, 0.0)) / np.maximum(24.0 * volume, 1e-300)
    ratio = 3.0 * inscribed / np.maximum(circumscribed, 1e-300)
    edges = tet_edges(tets)
    length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
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
