"""Which triangles cross: what rounding must not decide."""

from __future__ import annotations

import numpy as np

from geosim.geometry.intersections import crossing_pairs


def test_flat_neighbours_in_a_turned_plane_do_not_cross():
    """Signs of volumes of coplanar points are rounding; two triangles 2 mm apart in one wall were taken for crossing."""
    rng = np.random.default_rng(3)
    flat = np.array([[0, -60, 0], [7.5, -35.2, 0], [7.5, -24.8, 0], [7.5, -37.2, 0], [7.5, -47.6, 0], [16, -47.6, 0]])
    faces = np.array([[0, 1, 2], [3, 4, 5]])
    for _ in range(300):
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        assert len(crossing_pairs(flat @ turn.T + rng.normal(size=3), faces, tolerance=1e-9)) == 0
