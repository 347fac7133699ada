"""Tree queries against brute force, and obstacle distances against an independent library."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from scipy.spatial import Delaunay
from scipy.spatial.transform import Rotation

from geosim.collision.queries import closest_points, ray_hits, vertices_in_tets
from geosim.collision.shapes import signed_distances
from geosim.collision.tree import build_tree
from geosim.model.environment import Environment, Obstacle


def cloud(seed: int = 0):
    """Random tets and points, none of the points a corner of a tet."""
    rng = np.random.default_rng(seed)
    corners = rng.random((60, 3))
    tets = Delaunay(corners).simplices.astype(np.int64)
    points = rng.random((200, 3)) * 1.2 - 0.1
    return np.vstack([corners, points]), tets, np.arange(60, 260)


def test_vertices_in_tets_as_by_barycentric_coordinates():
    x, tets, ids = cloud()
    found = vertices_in_tets(x, ids, build_tree(x, tets))
    inverse = np.linalg.inv((x[tets[:, 1:]] - x[tets[:, :1]]).transpose(0, 2, 1))
    local = np.einsum("tij,vtj->vti", inverse, x[ids][:, None] - x[tets[:, 0]][None])
    inside = (local > 0).all(axis=2) & (local.sum(axis=2) < 1)
    assert np.array_equal(found >= 0, inside.any(axis=1))
    hit = found >= 0
    assert inside[np.flatnonzero(hit), found[hit]].all()
    assert 20 < hit.sum() < len(ids)


def test_a_vertex_is_not_inside_its_own_tets():
    x, tets, _ = cloud()
    x = x.copy()
    x[:60] += 0.2 * np.random.default_rng(1).normal(size=(60, 3))  # tangled: many vertices inside foreign tets
    ids = np.arange(60)
    found = vertices_in_tets(x, ids, build_tree(x, tets))
    hit = found >= 0
    assert hit.any()
    assert not np.any(tets[found[hit]] == ids[hit][:, None])
    alone = vertices_in_tets(x[:60], np.array([tets[0, 0]]), build_tree(x, tets[:1]))
    assert alone[0] == -1


def test_closest_points_of_a_surface():
    sphere = trimesh.creation.icosphere(2)
    points = np.random.default_rng(0).normal(size=(100, 3)) * 1.5
    found, face, _ = closest_points(points, sphere.vertices, build_tree(sphere.vertices, sphere.faces))
    for p, q in zip(points[:20], found[:20]):
        every = trimesh.triangles.closest_point(sphere.triangles, np.repeat(p[None], len(sphere.faces), axis=0))
        assert np.linalg.norm(p - q) == pytest.approx(np.linalg.norm(every - p, axis=1).min(), rel=1e-12)
    assert (face >= 0).all()
    near, face, _ = closest_points(points, sphere.vertices, build_tree(sphere.vertices, sphere.faces), reach=0.1)
    within = np.linalg.norm(points - found, axis=1) <= 0.1
    assert np.array_equal(face >= 0, within)
    assert np.isnan(near[~within]).all()


def test_rays_leave_where_the_surface_is():
    """From the vertices of an inner sphere outwards: the distance to the outer one; their own faces are skipped."""
    inner, outer = trimesh.creation.icosphere(1, radius=0.5), trimesh.creation.icosphere(4, radius=1.0)
    x = np.vstack([inner.vertices, outer.vertices])
    faces = np.vstack([inner.faces, outer.faces + len(inner.vertices)])
    ids = np.arange(len(inner.vertices))
    distance, face = ray_hits(x, ids, inner.vertices / 0.5, build_tree(x, faces))
    assert np.allclose(distance, 0.5, atol=5e-3)
    assert (face >= len(inner.faces)).all()
    inward, face = ray_hits(x, ids, -inner.vertices / 0.5, build_tree(x, faces))
    assert np.allclose(inward, 1.0, atol=0.1), "to the other side of the inner sphere"
    missed, face = ray_hits(
        outer.vertices, np.arange(5), np.asarray(outer.vertices[:5]), build_tree(outer.vertices, outer.faces)
    )
    assert np.isinf(missed).all()
    assert (face == -1).all()


OBSTACLES = {
    "sphere": Obstacle.sphere((0.1, 0.2, 0.3), 0.5),
    "box": Obstacle.box((-0.3, -0.4, -0.5), (0.3, 0.5, 0.7)),
    "cylinder": Obstacle.cylinder((0, 0, -0.5), (0.3, 0.2, 0.6), 0.4),
    "plane": Obstacle.plane((0, 0, 0.1), (0.0, 0.6, 0.8)),
}


def fcl_object(obstacle):
    import fcl

    p = obstacle.parameters
    if obstacle.shape == "sphere":
        return fcl.CollisionObject(fcl.Sphere(p["radius"]), fcl.Transform(np.array(p["center"])))
    if obstacle.shape == "box":
        return fcl.CollisionObject(fcl.Box(*(p["upper"] - p["lower"])), fcl.Transform((p["upper"] + p["lower"]) / 2))
    axis = p["end"] - p["start"]
    turn = trimesh.geometry.align_vectors([0, 0, 1], axis)[:3, :3]
    return fcl.CollisionObject(
        fcl.Cylinder(p["radius"], np.linalg.norm(axis)), fcl.Transform(turn, (p["start"] + p["end"]) / 2)
    )


@pytest.mark.parametrize("shape", ["sphere", "box", "cylinder"])
def test_distances_outside_agree_with_fcl(shape):
    """A tiny sphere's distance by FCL is ours less its radius."""
    fcl = pytest.importorskip("fcl")
    points = np.random.default_rng(0).normal(size=(60, 3)) * 1.5
    ours, _, _ = signed_distances(OBSTACLES[shape].solid, points)
    other = fcl_object(OBSTACLES[shape])
    for p, d in zip(points[ours > 0.05], ours[ours > 0.05]):
        tiny = fcl.CollisionObject(fcl.Sphere(1e-3), fcl.Transform(p))
        theirs = fcl.distance(tiny, other, fcl.DistanceRequest(), fcl.DistanceResult())
        assert theirs == pytest.approx(d - 1e-3, abs=2e-4)


@pytest.mark.parametrize("shape", list(OBSTACLES))
def test_distance_is_consistent_with_point_and_normal(shape):
    """p = nearest + d n with |n| = 1; nearest has distance 0; the gradient of d is n."""
    points = np.random.default_rng(1).normal(size=(200, 3))
    turn = trimesh.transformations.random_rotation_matrix(np.array([0.3, 0.7, 0.2]))
    turn[:3, 3] = (0.1, -0.2, 0.3)
    d, nearest, normal = signed_distances(OBSTACLES[shape].solid, points, turn)
    assert np.allclose(points, nearest + d[:, None] * normal, atol=1e-12)
    assert np.allclose(np.linalg.norm(normal, axis=1), 1.0)
    assert np.allclose(signed_distances(OBSTACLES[shape].solid, nearest, turn)[0], 0.0, atol=1e-9)
    assert (d < 0).any()
    assert (d > 0).any()
    h = 1e-6
    slope = np.stack(
        [
            (
                signed_distances(OBSTACLES[shape].solid, points + h * e, turn)[0]
                - signed_distances(OBSTACLES[shape].solid, points - h * e, turn)[0]
            )
            / (2 * h)
            for e in np.eye(3)
        ],
        axis=1,
    )
    assert np.median(np.abs(slope - normal).max(axis=1)) < 1e-5


def test_mesh_obstacle_is_the_sphere_it_approximates():
    sphere = trimesh.creation.icosphere(4, radius=0.05)
    mesh = Obstacle.mesh(sphere)
    points = np.random.default_rng(2).normal(size=(100, 3)) * 0.05
    d, nearest, normal = signed_distances(mesh.solid, points)
    exact, _, direction = signed_distances(Obstacle.sphere((0, 0, 0), 0.05).solid, points)
    assert np.allclose(d, exact, atol=2e-4)
    assert np.allclose(points, nearest + d[:, None] * normal, atol=1e-12)
    far = np.abs(exact) > 0.005
    assert np.abs((normal * direction).sum(axis=1)[far] - 1).max() < 0.02
    assert np.isinf(signed_distances(mesh.solid, np.array([[1.0, 0, 0]]), reach=0.01)[0][0])


def test_the_nearest_point_of_a_vertex_is_not_on_its_own_faces():
    """Two triangles, one above the other: a corner of one finds the other, 0.3 away, though its own face is nearer."""
    corners = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0)], float)
    vertices, faces = np.vstack([corners, corners + (0, 0, 0.3)]), np.array([[0, 1, 2], [3, 4, 5]])
    tree = build_tree(vertices, faces)
    ids = np.arange(3)
    nearest, face, _ = closest_points(vertices[ids], vertices, tree, ids)
    assert (face == 1).all()
    assert np.allclose(nearest, vertices[3:])
    assert (closest_points(vertices[ids], vertices, tree)[1] == 0).all(), "without ids its own face is as good as any"


def test_a_pose_between_two_turns_at_a_constant_rate():
    """A quarter of a turn of 120 degrees is 30 degrees about the same axis, wherever the turn began; the way is straight."""
    axis = np.array([1.0, 2.0, 2.0]) / 3.0
    begin, end = np.eye(4), np.eye(4)
    begin[:3, :3] = Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix()
    end[:3, :3] = begin[:3, :3] @ Rotation.from_rotvec(np.radians(120.0) * axis).as_matrix()
    end[:3, 3] = (0.1, 0.0, -0.2)
    moved = Obstacle.sphere((0, 0, 0), 1.0, motion=np.array([begin, end]))
    (quarter,) = Environment(obstacles=[moved]).poses(1, 0.25)
    turn = Rotation.from_matrix(begin[:3, :3].T @ quarter[:3, :3]).as_rotvec()
    np.testing.assert_allclose(turn, np.radians(30.0) * axis, atol=1e-12)
    np.testing.assert_allclose(quarter[:3, 3], (0.025, 0.0, -0.05), atol=1e-15)
