"""Edges that pass over edges, unseen by vertices: nearest points, the side they belong to, and springs that part them."""

from __future__ import annotations

import numpy as np
import pytest

from geosim.shape.projective.contact import EDGES, ContactSprings
from geosim.shape.projective.edges import crossing_edges, edge_spring, nearest_on_lines

# Two wedges, the ridge of the lower along x at z = 0, that of the upper, upside down, along y at z = -DEPTH: they cross by DEPTH
DEPTH = 0.1
LOWER = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -1.0, -1.0], [0.0, 1.0, -1.0]])
UPPER = LOWER[:, [1, 0, 2]] * [1.0, 1.0, -1.0] - [0.0, 0.0, DEPTH]
WEDGES = np.vstack([LOWER, UPPER])
FACES = np.array([[0, 1, 3], [0, 2, 1], [0, 3, 2], [1, 2, 3]])
FACES = np.vstack([FACES, FACES + 4])


def outward(x: np.ndarray, faces: np.ndarray) -> np.ndarray:
    out = faces.copy()
    for k, face in enumerate(faces):
        middle = x[:4].mean(axis=0) if face.max() < 4 else x[4:].mean(axis=0)
        a, b, c = x[face]
        if np.cross(b - a, c - a) @ (a - middle) < 0:
            out[k] = face[::-1]
    return out


def test_nearest_points_of_lines():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    first, second = np.arange(20).reshape(10, 2), np.arange(20, 40).reshape(10, 2)
    t, u, normal = nearest_on_lines(x, first, second)
    p = x[first[:, 0]] + t[:, None] * (x[first[:, 1]] - x[first[:, 0]])
    q = x[second[:, 0]] + u[:, None] * (x[second[:, 1]] - x[second[:, 0]])
    for edges in (first, second):
        along = x[edges[:, 1]] - x[edges[:, 0]]
        assert np.abs(np.einsum("ij,ij->i", p - q, along)).max() < 1e-9, "the shortest way is across both"
    assert np.allclose(np.abs(np.einsum("ij,ij->i", p - q, normal)), np.linalg.norm(p - q, axis=1))
    parallel = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    assert np.isnan(nearest_on_lines(parallel, np.array([[0, 1]]), np.array([[2, 3]]))[0]).all()


def test_crossing_wedges_are_found_once_and_pushed_apart():
    """Two ridges have passed each other by 0.1, no vertex is inside anything: one pair, which belongs 0.1 back."""
    x, faces = WEDGES, outward(WEDGES, FACES)
    edges, others, normals = crossing_edges(x, faces, np.empty(0))
    assert len(edges) == 1
    assert {frozenset(edges[0].tolist()), frozenset(others[0].tolist())} == {frozenset([0, 1]), frozenset([4, 5])}
    _, _, shares, normal, gap = edge_spring(x, edges, others, normals)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    weight = 1.0 / (1.0 - shares[0, 0])  # of the first end: the gap is that of the ends, not of the points
    assert gap[0] * weight == pytest.approx(-DEPTH, rel=1e-9)
    assert len(crossing_edges(x, faces, np.array([0]))[0]) == 0, "what is looked after already"
    apart = x + np.where(np.arange(8) >= 4, 2 * DEPTH, 0.0)[:, None] * [0.0, 0.0, 1.0]
    assert len(crossing_edges(apart, faces, np.empty(0))[0]) == 0
    assert edge_spring(apart, edges, others, normal)[4][0] > 0, "once apart the gap is positive"


def test_the_push_of_edges_is_the_derivative_of_its_energy_and_has_no_resultant():
    x, faces = WEDGES, outward(WEDGES, FACES)
    ids, corners, shares, normal, gap = edge_spring(x, *crossing_edges(x, faces, np.empty(0)))
    springs = ContactSprings(
        ids, np.array([3.0]), x[ids] - gap[:, None] * normal, normal, 0.01, np.array([EDGES]), corners, shares
    )
    push = springs.on_vertices(springs.forces(x)[0], len(x))
    way, h = np.random.default_rng(1).normal(size=x.shape), 1e-6
    slope = (springs.forces(x + h * way)[1] - springs.forces(x - h * way)[1]) / (2 * h)
    assert slope == pytest.approx(-np.sum(push * way), rel=1e-6)
    assert np.abs(push.sum(axis=0)).max() < 1e-12
    vertices, slopes = springs.slopes(x)
    change = springs.on_vertices(springs.forces(x + h * way)[0] - springs.forces(x - h * way)[0], len(x)) / (2 * h)
    found = np.zeros_like(x)
    np.add.at(found, vertices, slopes * np.einsum("sik,sik->s", slopes, way[vertices])[:, None, None])
    assert np.allclose(found, -change, atol=1e-6 * np.abs(change).max())
