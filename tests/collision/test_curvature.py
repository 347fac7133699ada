"""Second derivatives of the signed distances of obstacles, against finite differences of their normals."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from geosim.collision.shapes import curvatures, signed_distances
from geosim.model.environment import Environment, Obstacle

POSE = trimesh.transformations.euler_matrix(0.3, -0.5, 0.8)
POSE[:3, 3] = [0.01, -0.02, 0.03]
SHAPES = {
    "sphere": Obstacle.sphere([0.0, 0.01, 0], 0.03),
    "plane": Obstacle.plane([0.0, 0.01, 0], [0, 1, 2.0]),
    "box": Obstacle.box([-0.02, -0.01, -0.03], [0.01, 0.02, 0.01]),
    "cylinder": Obstacle.cylinder([-0.02, 0, 0], [0.02, 0.01, 0], 0.015),
    "mesh": Obstacle.mesh(trimesh.creation.box(extents=(0.03, 0.02, 0.04))),
}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_curvature_is_the_slope_of_the_normal(shape):
    obstacle = SHAPES[shape]
    points = np.random.default_rng(0).uniform(-0.06, 0.06, (200, 3)) @ POSE[:3, :3].T + POSE[:3, 3]
    distance, _, _ = signed_distances(obstacle.solid, points, POSE)
    outside = distance > 1e-3
    points = points[outside]
    H = curvatures(obstacle.solid, points, POSE)
    assert np.abs(H - H.transpose(0, 2, 1)).max() < 1e-9
    step = 1e-7
    checked = 0
    for k in range(3):
        move = step * np.eye(3)[k]
        first, second = (signed_distances(obstacle.solid, points + s * move, POSE)[2] for s in (1, -1))
        want = (first - second) / (2 * step)
        smooth = np.abs(want).max(axis=1) < 1e3  # not across the border between two features
        good = np.abs(H[:, :, k] - want).max(axis=1) < 1e-4 * np.maximum(1.0, np.abs(want).max(axis=1))
        assert good[smooth].mean() > 0.97
        checked += int(smooth.sum())
    assert checked > 150
    if shape != "plane":
        assert np.abs(H).max() > 1.0


@pytest.mark.parametrize("shape", ["box", "cylinder"])
def test_a_rounded_edge_has_no_kink_down_to_its_radius(shape):
    """Faces stay, an edge draws back by (sqrt 2 - 1) radius, and slopes are the normals where the sharp one's jump."""
    radius, both = 2e-3, Environment(obstacles=(SHAPES["sphere"], SHAPES[shape])).obstacle_set
    solid = both.rounded(np.array([0.0, radius])).solid(1)
    points = np.random.default_rng(1).uniform(-0.04, 0.04, (4000, 3))
    distance, _, normal = signed_distances(solid, points)
    points, normal = (a[np.abs(distance) < 0.9 * radius] for a in (points, normal))
    assert len(points) > 100
    step = 1e-6
    for k in range(3):
        move = step * np.eye(3)[k]
        ahead, behind = (signed_distances(solid, points + s * move) for s in (1, -1))
        assert np.abs((ahead[0] - behind[0]) / (2 * step) - normal[:, k]).max() < 2e-3
        assert np.abs(ahead[2] - behind[2]).max() < 30 * step / radius
    if shape == "box":
        edge, face = np.array([[0.01, 0.02, 0.0]]), np.array([[0.01, 0.0, 0.0]])
        assert signed_distances(solid, edge)[0] == pytest.approx((np.sqrt(2) - 1) * radius)
        assert signed_distances(solid, face)[0] == pytest.approx(0.0, abs=1e-15)
