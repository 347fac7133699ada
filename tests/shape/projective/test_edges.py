"""Edges that pass over edges, unseen by vertices: nearest points, the side they belong to, and springs that part them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cubes import two_fingers

from geosim.collision.crossings import count_crossings
from geosim.model.actuation import Passive
from geosim.model.environment import Environment
from geosim.shape.projective.contact import EDGES, NO_SPRINGS, ContactSprings, SpringContact
from geosim.shape.projective.edges import _over, crossing_edges, edge_spring, nearest_on_lines, pierces
from geosim.shape.projective.solver import ProjectiveShapeSolver

# Two wedges, the ridge of the lower along x at z = 0, that of the upper, upside down, along y at z = -DEPTH: they cross by DEPTH
DEPTH = 0.1
LOWER = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -1.0, -1.0], [0.0, 1.0, -1.0]])
UPPER = LOWER[:, [1, 0, 2]] * [1.0, 1.0, -1.0] - [0.0, 0.0, DEPTH]
WEDGES = np.vstack([LOWER, UPPER])
FACES = np.array([[0, 1, 3], [0, 2, 1], [0, 3, 2], [1, 2, 3]])
FACES = np.vstack([FACES, FACES + 4])


APART = WEDGES + np.where(np.arange(8) >= 4, 2 * DEPTH, 0.0)[:, None] * [0.0, 0.0, 1.0]


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
    edges, others, sides = crossing_edges(WEDGES, APART, count_crossings(WEDGES, FACES), FACES, np.empty(0))
    assert len(edges) == 1
    assert {frozenset(edges[0].tolist()), frozenset(others[0].tolist())} == {frozenset([0, 1]), frozenset([4, 5])}
    _, _, shares, normal, gap = edge_spring(WEDGES, edges, others, sides)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert gap[0] == pytest.approx(-DEPTH, rel=1e-9)
    assert len(crossing_edges(WEDGES, APART, count_crossings(WEDGES, FACES), FACES, np.array([0]))[0]) == 0, (
        "what is looked after already"
    )
    assert len(crossing_edges(APART, APART, count_crossings(APART, FACES), FACES, np.empty(0))[0]) == 0
    assert edge_spring(APART, edges, others, normal)[4][0] > 0, "once apart the gap is positive"


def test_edges_go_back_to_the_side_that_they_came_from():
    """Not the shape now, however folded, but that before says where an edge belongs; one that has passed nothing stays."""
    for mirror, up in ((1.0, 1.0), (-1.0, -1.0)):
        turned = [1.0, 1.0, mirror]
        edges, _, sides = crossing_edges(
            WEDGES * turned, APART * turned, count_crossings(WEDGES * turned, FACES), FACES, np.empty(0)
        )
        assert up * (1.0 if edges[0].min() >= 4 else -1.0) * sides[0, 2] > 0.0
    assert (
        len(crossing_edges(WEDGES, 2.0 * WEDGES - APART, count_crossings(WEDGES, FACES), FACES, np.empty(0))[0]) == 0
    ), "from below"


def test_lines_that_go_on_for_ever_say_nothing_of_edges():
    """The upper ridge comes from beside, steep: prolonged to the lower one it passes below, though it comes from above."""
    far = APART + np.where(np.arange(8) >= 4, 1.0, 0.0)[:, None] * [0.0, 3.0, 1.0]
    far[5] += [0.0, 0.0, 2.0]
    ridges = np.array([[4, 5]]), np.array([[0, 1]])
    (over, below, _), (_, now, _) = _over(far, *ridges), _over(WEDGES, *ridges)
    assert not over[0]
    assert below * now > 0.0
    edges, others, sides = crossing_edges(WEDGES, far, count_crossings(WEDGES, FACES), FACES, np.empty(0))
    k = [frozenset([*e, *o]) for e, o in zip(edges.tolist(), others.tolist())].index(frozenset([0, 1, 4, 5]))
    assert (1.0 if edges[k].min() >= 4 else -1.0) * sides[k, 2] > 0.0


def test_a_pair_that_pierces_nothing_is_let_go():
    """A spring that would push edges through each other, to the other side, ends once nothing crosses."""
    pair = np.array([[0, 1]]), np.array([[4, 5]])
    assert pierces(count_crossings(WEDGES, FACES), *pair).all()
    assert not pierces(count_crossings(APART, FACES), *pair).any()
    robot = two_fingers()
    contact = SpringContact(robot, Environment(), 0, robot.fixed, np.ones(len(robot.vertices)), 1e-3)
    contact.faces, contact._apart = FACES, APART
    wrong = replace(springs_of(WEDGES), offset=1e-3)
    wrong = replace(wrong, normals=-wrong.normals)
    assert len(contact._edge_collisions(APART, wrong, np.empty(0)).ids) == 0
    kept = contact._edge_collisions(WEDGES, springs_of(WEDGES), np.empty(0))
    assert len(kept.ids) == 1


def test_an_edge_that_is_held_pushes_too():
    """A spring of edges is written for one vertex, which may be held and then has no stiffness; the others have."""
    robot = two_fingers()
    stiffness = np.where(np.arange(len(robot.vertices)) < 4, 0.0, 1.0)
    for held in (stiffness, stiffness[::-1]):
        contact = SpringContact(robot, Environment(), 0, robot.fixed, held, 1e-3)
        contact.faces, contact._apart = FACES, APART
        found = contact._edge_collisions(WEDGES, replace(NO_SPRINGS, offset=1e-3), np.empty(0))
        assert found.stiffness == pytest.approx(1.0)
        stiffer, _ = contact._stiffened(found, found, balanced=False)
        assert stiffer.stiffness == pytest.approx(1.0)


def springs_of(x: np.ndarray) -> ContactSprings:
    ids, corners, shares, normal, gap = edge_spring(
        x, *crossing_edges(x, APART, count_crossings(x, FACES), FACES, np.empty(0))
    )
    return ContactSprings(
        ids, np.array([3.0]), x[ids] - gap[:, None] * normal, normal, 0.01, np.array([EDGES]), corners, shares
    )


def test_the_push_of_edges_is_the_derivative_of_its_energy_and_has_no_resultant():
    """Wherever the edges have gone since the spring was made: nearest points and normal go with them."""
    springs, rng, h = springs_of(WEDGES), np.random.default_rng(1), 1e-6
    for x in (WEDGES, WEDGES + 0.02 * rng.normal(size=WEDGES.shape)):
        push, _ = springs.on_vertices(x)
        way = rng.normal(size=x.shape)
        slope = (springs.forces(x + h * way)[1] - springs.forces(x - h * way)[1]) / (2 * h)
        assert slope == pytest.approx(-np.sum(push * way), rel=1e-6)
        assert np.abs(push.sum(axis=0)).max() < 1e-12
        assert np.abs(np.cross(x, push).sum(axis=0)).max() < 1e-12


def test_the_stiffness_of_edges_is_that_of_their_gap():
    """Where the gap is the offset nothing pushes yet, and the second derivative is that of the square alone."""
    springs, h = springs_of(WEDGES), 1e-6
    springs = replace(springs, offset=1e-5 - DEPTH)
    vertices, slopes = springs.slopes(WEDGES)
    way = np.random.default_rng(2).normal(size=WEDGES.shape)
    change = (springs.on_vertices(WEDGES + h * way)[0] - springs.on_vertices(WEDGES - h * way)[0]) / (2 * h)
    found = np.zeros_like(WEDGES)
    np.add.at(found, vertices, slopes * np.einsum("sik,sik->s", slopes, way[vertices])[:, None, None])
    assert np.allclose(found, -change, atol=1e-3 * np.abs(change).max())


def test_vertices_that_are_near_are_not_inside():
    """Springs hold two fingers apart: they stay, and edges beside them are looked at, since no vertex there is inside."""
    robot, heavy = two_fingers(), Environment(gravity=(0, 0, -40.0))
    solver = ProjectiveShapeSolver(error_estimate=False)
    state = solver.step(solver.start(robot, heavy), Passive().command(0))[0]
    contact = SpringContact(robot, heavy, 0, state.work.held, np.ones(len(state.x)), state.springs.offset)
    parts, inside = contact._self_collisions(np.array(state.x), state.springs)
    assert len(inside) == 0
    assert sum(len(springs.ids) for springs in parts) > 0


def test_a_vertex_stays_with_its_face_until_it_is_clearly_beside_it():
    """Over or under the edge of two faces the nearest one changes with every step; the spring keeps the one that it had."""
    robot = two_fingers()
    contact = SpringContact(robot, Environment(), 0, robot.fixed, np.ones(len(robot.vertices)), 1e-3)
    face, x = contact.faces[0], np.array(robot.vertices)
    vertex = np.setdiff1d(contact.ids, face)[0]
    a, b, c = x[face]
    up = np.cross(b - a, c - a)
    up /= np.linalg.norm(up)
    old = contact._on_faces(x, np.array([vertex]), a[None], np.array([0]), up[None])
    outside, inside = np.empty(0, np.int64), np.array([vertex])
    for side, where, other in ((1.0, outside, inside), (-1.0, inside, outside)):
        for beside, stays in ((-0.02, 1), (-0.2, 0)):
            x[vertex] = (1.0 - beside) * 0.5 * (a + b) + beside * c + 2e-3 * side * up
            assert len(contact._still_on(x, where, old).ids) == stays
            assert len(contact._still_on(x, other, old).ids) == 0, "on the other side of the face"
        x[vertex] = (a + b + c) / 3 + 5e-3 * side * up
        assert len(contact._still_on(x, where, old).ids) == 0, "too far from it"
