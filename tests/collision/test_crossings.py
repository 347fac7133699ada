"""Crossing counts against hand-made cases, a brute-force test and an independent collision library."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from geosim.collision.crossings import count_crossings
from geosim.collision.tree import build_tree
from geosim.errors import InputError


def smooth_deformation(vertices: np.ndarray, seed: int, amplitude: float) -> np.ndarray:
    """Add a few random sine waves to positions of unit size."""
    rng = np.random.default_rng(seed)
    moved = vertices.copy()
    for _ in range(4):
        wave, phase = rng.normal(size=3) * 3.0, rng.uniform(0, 2 * np.pi)
        moved += amplitude * rng.normal(size=3) * np.sin(vertices @ wave + phase)[:, None]
    return moved


def brute_force(vertices: np.ndarray, faces: np.ndarray) -> set[tuple[int, int, int]]:
    """All strictly crossing (edge, face) pairs from exact integer-free determinants, n^2."""
    edges = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)

    def volume(a, b, c, d):
        return np.einsum(
            "...i,...i", vertices[a] - vertices[d], np.cross(vertices[b] - vertices[d], vertices[c] - vertices[d])
        )

    found = set()
    for p, q in edges:
        far = ~np.any((faces == p) | (faces == q), axis=1)
        f = np.flatnonzero(far)
        a, b, c = faces[f].T
        ends = volume(a, b, c, p) * volume(a, b, c, q) < 0
        signs = np.sign([volume(p, q, a, b), volume(p, q, b, c), volume(p, q, c, a)])
        hit = ends & (np.abs(signs.sum(axis=0)) == 3)
        found |= {(int(p), int(q), int(g)) for g in f[hit]}
    return found


def as_set(crossings) -> set[tuple[int, int, int]]:
    return {(int(p), int(q), int(f)) for (p, q), f in zip(crossings.edges, crossings.faces)}


def test_convex_surface_has_no_crossing():
    sphere = trimesh.creation.icosphere(3)
    assert count_crossings(sphere.vertices, sphere.faces).count == 0


def test_one_edge_through_one_triangle():
    """A needle triangle through a big one: two of its edges pierce, none the other way."""
    vertices = np.array([[-1, -1, 0], [1, -1, 0], [0, 1, 0], [0, 0, -1], [0.1, 0, 1], [-0.1, 0, 1.0]])
    result = count_crossings(vertices, np.array([[0, 1, 2], [3, 4, 5]]))
    assert as_set(result) == {(3, 4, 0), (3, 5, 0)}


@pytest.mark.parametrize("shift", [(1, 0, 0), (1, 0.3, 0.2), (1, 0, 0.5), (1, 1, 0), (0, 0, 1), (0.3, 0.3, 1)])
def test_touching_boxes_do_not_cross(shift):
    """Boxes in contact along faces, edges or corners touch; the same boxes pushed together by 1e-9 cross."""
    box = trimesh.creation.box()
    faces = np.vstack([box.faces, box.faces + 8])
    shift = np.array(shift, dtype=float)
    assert count_crossings(np.vstack([box.vertices, box.vertices + shift]), faces).count == 0
    pushed = np.vstack([box.vertices, box.vertices + shift * (1 - 1e-9) + [0, 1e-4, 1e-4] * (shift == 0)])
    assert count_crossings(pushed, faces).count > 0


def test_mirrored_surfaces_that_meet_edge_on_edge_are_found():
    """A wedge and its mirror image overlap: every crossing is an edge through an edge, exactly."""
    prism = np.array([[-1, 0, -0.5], [1, 0, -0.5], [0, 0, 0.25], [-1, 1, -0.5], [1, 1, -0.5], [0, 1, 0.25]], float)
    faces = np.array([[0, 1, 2], [3, 5, 4], [0, 2, 5], [0, 5, 3], [1, 4, 5], [1, 5, 2], [0, 3, 4], [0, 4, 1]])
    both = np.vstack([prism, prism * [1, 1, -1]])
    mirrored = np.vstack([faces, faces[:, ::-1] + 6])
    assert count_crossings(both, mirrored).count > 0
    apart = np.vstack([prism - [0, 0, 0.25], (prism - [0, 0, 0.25]) * [1, 1, -1]])
    assert count_crossings(apart, mirrored).count == 0, "the two ridges only touch"


def test_faces_that_share_a_corner_may_cross():
    vertices = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0.4, 0.2, -0.3), (0.2, 0.4, 0.5)], float)
    found = count_crossings(vertices, np.array([[0, 1, 2], [0, 3, 4]]))
    assert found.edges.tolist() == [[3, 4]]
    assert found.faces.tolist() == [0]
    vertices[3, 2] = 0.3
    assert count_crossings(vertices, np.array([[0, 1, 2], [0, 3, 4]])).count == 0


@pytest.mark.parametrize("seed", range(5))
def test_same_pairs_as_brute_force(seed):
    torus = trimesh.creation.torus(1.0, 0.3, major_sections=24, minor_sections=12)
    vertices = smooth_deformation(torus.vertices, seed, 0.35)
    faces = np.asarray(torus.faces)
    assert as_set(count_crossings(vertices, faces)) == brute_force(vertices, faces)


def test_agrees_with_an_independent_library():
    """ipctk and we agree on whether a deformed surface crosses itself, over a range of amplitudes."""
    ipctk = pytest.importorskip("ipctk")
    torus = trimesh.creation.torus(1.0, 0.3, major_sections=48, minor_sections=24)
    faces = np.asarray(torus.faces)
    edges = ipctk.edges(faces)
    mesh = ipctk.CollisionMesh(torus.vertices, edges, faces)
    verdicts = []
    for seed in range(40):
        moved = smooth_deformation(torus.vertices, seed, 0.02 + 0.01 * (seed % 20))
        ours = count_crossings(moved, faces).count > 0
        assert ours == ipctk.has_intersections(mesh, moved), f"seed {seed}"
        verdicts.append(ours)
    assert any(verdicts)
    assert not all(verdicts)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_invariant_under_motion_and_renumbering(seed):
    torus = trimesh.creation.torus(1.0, 0.35, major_sections=20, minor_sections=10)
    faces = np.asarray(torus.faces)
    moved = smooth_deformation(torus.vertices, seed, 0.3)
    rng = np.random.default_rng(seed)
    turn = trimesh.transformations.random_rotation_matrix(rng.random(3))[:3, :3]
    numbers = rng.permutation(len(moved))
    renumbered = np.empty_like(moved)
    renumbered[numbers] = moved @ turn.T * 1e-3 + rng.normal(size=3)
    shuffled = rng.permutation(len(faces))
    assert count_crossings(renumbered, numbers[faces[shuffled]]).count == count_crossings(moved, faces).count


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17, 1000])
def test_tree_covers_every_primitive_once(count):
    rng = np.random.default_rng(count)
    vertices = rng.random((count + 3, 3))
    primitives = rng.integers(0, len(vertices), (count, 4))
    tree = build_tree(vertices, primitives, margin=0.01)
    assert np.array_equal(np.sort(tree.order), np.arange(count))
    leaves = len(tree.boxes) - tree.first_leaf
    for k in range(leaves):
        node = tree.first_leaf + k
        for p in tree.order[count * k // leaves : count * (k + 1) // leaves]:
            at = node
            while True:
                assert np.all(tree.boxes[at, :3] <= vertices[primitives[p]].min(axis=0) - 0.01)
                assert np.all(tree.boxes[at, 3:] >= vertices[primitives[p]].max(axis=0) + 0.01)
                if at == 0:
                    break
                at = (at - 1) // 2


def test_bad_input_is_refused():
    box = trimesh.creation.box()
    with pytest.raises(InputError, match="nan"):
        count_crossings(np.where(np.arange(8)[:, None] == 3, np.nan, box.vertices), box.faces)
    with pytest.raises(InputError, match="name vertex"):
        build_tree(box.vertices[:4], box.faces)
    with pytest.raises(InputError, match="triangles"):
        count_crossings(box.vertices, np.zeros((3, 4), int))
    assert count_crossings(box.vertices, np.zeros((0, 3), int)).count == 0
