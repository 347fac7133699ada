"""Guides of cables along rods: points that are fixed to the sections of edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints, frozen
from geosim.errors import InputError


class Guides(NamedTuple):
    """Guides of a cable: edges (g,), their share s, and a, b along their material directors at rest [m], (g, 2)."""

    edges: Ints
    share: Floats
    across: Floats


def guided(points: Floats, ends: Floats, radius: Floats, directors: Floats, label: str) -> Guides:
    """Fix points [m] (g, 3) to the nearest of the edges of rods, with `ends` (E, 2, 3) [m].

    Raises
    ------
    InputError
        There are no rods, or a point is far from all.
    """
    if not len(ends):
        raise InputError(f"{label}: this robot has no rods; its cables are led along rods")
    x0, e = ends[:, 0], ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(e, axis=1)
    edges, shares, across = [], [], []
    max_guide_radii = 10.0  # radii of its rod that a guide may lie away from it
    for i, point in enumerate(points):
        share = np.clip(((point - x0) * e).sum(axis=1) / length**2, 0.0, 1.0)
        away = np.linalg.norm(point - x0 - share[:, None] * e, axis=1)
        best = int(np.argmin(away))
        if away[best] > max_guide_radii * radius[best]:
            raise InputError(
                f"{label}: point {i + 1} lies {1e3 * away[best]:.3g} mm from the nearest rod, of radius "
                f"{1e3 * radius[best]:.3g} mm; put guides within {max_guide_radii:g} radii of a rod"
            )
        t, d, lever = e[best] / length[best], directors[best], point - x0[best]
        edges.append(best)
        shares.append(float(lever @ t) / length[best])
        across.append((float(lever @ d), float(lever @ np.cross(t, d))))
    return Guides(frozen(np.array(edges, dtype=np.int64)), frozen(np.array(shares)), frozen(np.array(across)))
