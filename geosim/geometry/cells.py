"""Bodies of boxes in tetrahedra: coarse, alike on every machine, and made without a mesher."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry import topology

EMPTY = -1  # region of boxes that are not there


def cells(planes: Sequence[Floats], regions: Ints) -> tuple[Floats, Ints, Ints]:
    """Return vertices [m] (n, 3), tets (m, 4) and their regions (m,) of boxes, six tets each [Kuhn 1960].

    Neighbouring boxes are mirror images, so that an even number of boxes is a symmetric mesh.

    Parameters
    ----------
    planes
        Where the boxes begin and end along x, y and z [m], increasing.
    regions
        Of every box, (x, y, z); `EMPTY` leaves it out.
    """
    vertices = np.stack(np.meshgrid(*planes, indexing="ij"), axis=-1).reshape(-1, 3)
    counts = np.array([len(p) for p in planes])
    boxes = np.argwhere(regions != EMPTY)
    mirrored = boxes[:, None] % 2 == 1
    found = []
    for order in permutations(range(3)):
        corners = np.cumsum([np.zeros(3, dtype=np.int64), *np.eye(3, dtype=np.int64)[list(order)]], axis=0)
        corners = boxes[:, None] + np.where(mirrored, 1 - corners, corners)
        found.append(np.ravel_multi_index(np.moveaxis(corners, -1, 0), counts))
    tets = np.concatenate(found)
    turned = topology.tet_volumes(vertices, tets) < 0.0
    tets[turned] = tets[turned][:, [0, 2, 1, 3]]
    kept, tets = np.unique(tets, return_inverse=True)
    return vertices[kept], tets.reshape(-1, 4), np.tile(regions[tuple(boxes.T)], 6)
