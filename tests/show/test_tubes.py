"""Tubes of a bent rod meet without gaps."""

from __future__ import annotations

import numpy as np
import pytest

from geosim.show.tubes import tubes


def _bent(turn):
    angles = np.linspace(0.0, turn, 6)
    return np.column_stack([np.sin(angles), np.zeros(6), np.cos(angles)]), np.column_stack(
        [np.arange(5), np.arange(1, 6)]
    )


@pytest.mark.parametrize("turned", [False, True])
def test_rings_of_a_bend_meet(turned):
    """In the plane of the bend the rings of two edges are one; along the edges the radius stays."""
    x, edges = _bent(3.0)
    if turned:  # the tubes do not ask which way an edge runs
        edges[1::2] = edges[1::2, ::-1]
    points, triangles = tubes(x, edges, np.full(5, 0.1), sides=12)
    rings = points.reshape(5, 2, 12, 3)
    if turned:
        rings[1::2] = rings[1::2, ::-1].copy()
    assert triangles.max() == len(points) - 1
    for i in range(4):  # both rings lie in the plane between their edges
        one, two = x[i + 1] - x[i], x[i + 2] - x[i + 1]
        normal = one / np.linalg.norm(one) + two / np.linalg.norm(two)
        ends = np.concatenate([rings[i, 1], rings[i + 1, 0]]) - x[i + 1]
        np.testing.assert_allclose(ends @ normal, 0.0, atol=1e-12)
        away = one / np.linalg.norm(one)
        radial = np.linalg.norm(ends - (ends @ away)[:, None] * away, axis=1)
        np.testing.assert_allclose(radial, 0.1, rtol=1e-12)
