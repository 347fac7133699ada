"""How many tets a mesh will have, from the wanted edge, volumes and walls alone, and what a solve of it will take.

Small triangles are left out on purpose: where a mesher makes many more tets than walls ask for, details of the surface do.
"""

from __future__ import annotations

import numpy as np

from geosim.geometry import topology
from geosim.geometry.domain import Domain
from geosim.geometry.widths import wall_samples

# Fitted to 46 meshes of remeshed surfaces, of 250 to 113,000 tets (standard deviation of the ratio: 1.4). A wall of width w has
# tets of the first times w, as far as that is less than the wanted edge. A mean tet has these shares of the volume of the regular
# tet with its edge: in such walls, in a layer of half an edge below other surfaces, whose triangles are smaller, and inside.
# Below surfaces that stay as coarse as given the layer is as the inside: six shipped robots have 0.5 to 1.3 times so many.
EDGES_PER_WALL, THIN_SHARE, LAYER_SHARE, INNER_SHARE = 1.23, 0.9, 0.125, 0.5


def regular_volume(edge: float) -> float:
    """Volume of the regular tet with an edge."""
    return float(edge**3 / (6.0 * np.sqrt(2.0)))


def foretold_tets(domain: Domain, edge: float, *, stays: bool = False) -> float:
    """Number of tets of a mesh whose surfaces have triangles of about half an edge [m], or stay as coarse as they are."""
    layer = INNER_SHARE if stays else LAYER_SHARE
    cusp_area = 1e-3  # of the area of a solid: walls may be thinner there, where two surfaces run into each other
    total, used = 0.0, 0.0
    for region, faces in domain.solids:
        area = 0.5 * np.linalg.norm(topology.face_normals(domain.vertices, faces), axis=1)
        _, owner, wide = wall_samples(domain.vertices, faces, 0.5 * edge, domain.faces)
        share = (area / np.maximum(np.bincount(owner, minlength=len(area)), 1))[owner]
        # behind its surface a solid is meshed; before it, too, where it is a chamber
        for width in wide.T if region in domain.chamber_regions else wide.T[1:]:
            order = np.argsort(width)
            least = width[order[np.searchsorted(np.cumsum(share[order]), cusp_area * share.sum())]]
            width = np.maximum(width, least)
            local = np.minimum(EDGES_PER_WALL * width, edge)
            volume = share * 0.5 * np.minimum(width, edge)
            filled = np.where(local < edge, THIN_SHARE, layer) * regular_volume(1.0) * local**3
            total, used = total + float((volume / filled).sum()), used + float(volume.sum())
    return total + max(sum(domain.volumes.values()) - used, 0.0) / (INNER_SHARE * regular_volume(edge))


def solve_seconds(tets: float) -> float:
    """Processor time [s] of an inflation to twice the volume with quadratic elements on one core.

    Fitted to a finger of 5,000 to 41,000 tets, whose solves took 2.3 to 22 s (`benchmarks/cad.py seconds`; 20 % off at most).
    Contact, buckling and several chambers take a few times as long.
    """
    return 4e-4 * tets * (1.0 + tets / 1.2e5)
