"""One vertex-face or edge-edge pair through the kernels of `geosim.collision.distance`."""

from __future__ import annotations

import numpy as np

from geosim.collision.distance import edge_edge, point_triangle, separation


def pair(x: np.ndarray, edges: bool) -> tuple[float, int, np.ndarray, np.ndarray, np.ndarray]:
    """Distance of the four points x (4, 3), the free parameters of the closest points, and what derivatives need."""
    w, c, e = np.empty(4), np.empty((4, 2)), np.empty(3)
    free = (edge_edge if edges else point_triangle)(x, w, c)
    return separation(x, w, e), free, w, c, e
