"""Planes of symmetry of a mesh: reflections of the unknowns that map nodes, elements and supports onto themselves.

Loads, chambers, cables, obstacles need not be looked at: what they do is in the matrix and in the right-hand side, which
`geosim.linear.mirrored` sees.
"""

from __future__ import annotations

import numpy as np
import scipy

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.linear.mirrored import Mirror
from geosim.shape.energy.discretisation.body import ScaledBody


def find_mirrors(body: ScaledBody, held: Bools) -> tuple[list[Mirror], str]:
    """Return the planes x, y or z = middle of the body in which a mesh is symmetric, and why if there is none.

    `held` (size,) says which unknowns are.
    """
    mirror_distance_rel = 1e-8  # of the body's size: how far a node may be from the image of its partner
    found, tree = [], scipy.spatial.cKDTree(body.rest)
    best = 0.0, ""
    for axis, name in enumerate("xyz"):
        sign = np.where(np.arange(3) == axis, -1.0, 1.0)
        distance, partner = tree.query(body.rest * sign)
        met = distance <= mirror_distance_rel
        plane = f"{name} = {1e3 * body.center[axis]:.4g} mm"
        if not met.all():
            best = max(best, (float(met.mean()), f"{100 * met.mean():.3g} % of its nodes have an image in {plane}"))
        elif not _same_elements(body, partner):
            best = max(best, (1.0, f"its elements have no images in {plane}"))
        else:
            mirror = Mirror(*_of_unknowns(body, partner, sign), plane)
            if np.array_equal(held, held[mirror.partner]):
                found.append(mirror)
            else:
                best = max(best, (2.0, f"what is held has no image in {plane}"))
    return found, "" if found else best[1] or "no node has an image in a plane through its middle"


def _same_elements(body: ScaledBody, partner: Ints) -> bool:
    """Whether the image of every element is one of the same material."""
    mesh = body.mesh
    rows = [
        np.column_stack([np.sort(tets, axis=1), mesh.material])
        for tets in (mesh.tets[:, :4], partner[mesh.tets[:, :4]])
    ]
    here, there = (found[np.lexsort(found.T)] for found in rows)
    return bool(np.array_equal(here, there))


def _of_unknowns(body: ScaledBody, partner: Ints, sign: Floats) -> tuple[Ints, Floats]:
    """Images and signs of positions and pressures."""
    node_of = body.place[body.pressure_vertices]
    number = np.full(len(partner), -1)
    number[node_of] = np.arange(len(node_of))
    size = 3 * len(partner)
    images = [(3 * partner[:, None] + np.arange(3)).ravel(), size + number[partner[node_of]]]
    signs = [np.tile(sign, len(partner)), np.ones(len(node_of))]
    return frozen(np.concatenate(images)), frozen(np.concatenate(signs))
