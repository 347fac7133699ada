"""Distances of vertex-face and edge-edge pairs: against brute force, and derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pair

from geosim.collision.ccd import time_to_gap
from geosim.collision.distance import squared_distance_derivatives


def _brute(x, edges):
    s = np.linspace(0, 1, 401)
    if edges:
        first = x[0] + s[:, None] * (x[1] - x[0])
        second = x[2] + s[:, None] * (x[3] - x[2])
        return np.linalg.norm(first[:, None] - second[None], axis=2).min()
    u, v = (g.ravel() for g in np.meshgrid(s, s))
    inside = u + v <= 1
    points = x[1] + u[inside, None] * (x[2] - x[1]) + v[inside, None] * (x[3] - x[1])
    return np.linalg.norm(points - x[0], axis=1).min()


@pytest.mark.parametrize("edges", [False, True])
def test_distance_is_the_least_over_all_points(edges):
    rng = np.random.default_rng(1)
    kinds = set()
    for _ in range(60):
        x = rng.normal(size=(4, 3))
        d, free, w, *_ = pair(x, edges)
        kinds.add(free)
        assert d == pytest.approx(_brute(x, edges), abs=2e-2)
        assert d <= _brute(x, edges) + 1e-12
        assert w[:1].sum() + w[1:].sum() == pytest.approx(0.0, abs=1e-12)
    assert kinds == {0, 1, 2}


@pytest.mark.parametrize("edges", [False, True])
def test_derivatives_of_the_squared_distance(edges):
    rng = np.random.default_rng(2)
    step = 1e-5
    for _ in range(40):
        x = rng.normal(size=(4, 3))
        _, free, w, c, e = pair(x, edges)
        gradient, hessian = np.empty((4, 3)), np.empty((4, 4, 3, 3))
        squared_distance_derivatives(x, w, c, free, e, gradient, hessian)
        for i in range(4):
            for k in range(3):
                values, slopes = [], []
                for sign in (1, -1):
                    y = x.copy()
                    y[i, k] += sign * step
                    d, other, w2, c2, e2 = pair(y, edges)
                    if other != free:
                        break
                    g2, h2 = np.empty((4, 3)), np.empty((4, 4, 3, 3))
                    squared_distance_derivatives(y, w2, c2, other, e2, g2, h2)
                    values.append(d**2)
                    slopes.append(g2)
                if len(values) < 2:
                    continue
                assert gradient[i, k] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)
                want = (slopes[0] - slopes[1]) / (2 * step)
                assert hessian[:, i, :, k] == pytest.approx(want, abs=1e-4 * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("edges", [False, True])
def test_parallel_and_degenerate_pairs_are_finite(edges):
    x = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]])
    d, *_ = pair(x, edges)
    assert np.isfinite(d)
    assert d == pytest.approx(1.0 if edges else np.sqrt(0.5))
    flat = np.array([[0.0, 1, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0]])
    assert np.isfinite(pair(flat, edges)[0])


@pytest.mark.parametrize("edges", [False, True])
def test_steps_stop_at_the_gap_and_never_beyond(edges):
    rng = np.random.default_rng(3)
    stopped = 0
    for _ in range(200):
        x, v = rng.normal(size=(4, 3)), 3 * rng.normal(size=(4, 3))
        start = pair(x, edges)[0]
        gap = 0.3 * start
        t = time_to_gap(x, v.copy(), edges, gap, 1.0)
        path = [pair(x + s * t * v, edges)[0] for s in np.linspace(0, 1, 50)]
        assert min(path) >= gap * (1 - 1e-12)
        if t < 1.0:
            stopped += 1
            assert pair(x + t * v, edges)[0] <= gap + 0.1 * start
    assert stopped > 15


def test_common_motion_does_not_stop_a_step():
    x = np.array([[0.2, 0.2, 0.01], [0, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    v = np.tile([5.0, -3.0, 2.0], (4, 1))
    assert time_to_gap(x, v, False, 0.001, 1.0) == 1.0
