"""Obstacles smaller than a face, thin, inside the material, or moved through the body."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from shapes import block

import geosim
from geosim import Environment, Obstacle, Passive
from geosim.collision.shapes import signed_distances
from geosim.geometry import topology
from geosim.shape.energy.contact.penetration import deepest_penetration, passed_through
from geosim.shape.energy.contact.step_limits import max_obstacle_step, max_safe_step
from geosim.shape.energy.problem import make_problem

MU = 20e3  # Pa
SIZE, EDGE = 0.02, 0.02 / 3


def _robot(cells=(3, 3, 3)):
    vertices, tets = block((SIZE, SIZE, SIZE), cells)
    held = np.flatnonzero(vertices[:, 2] > SIZE - 1e-9)
    return geosim.VolumetricRobot.from_tets(vertices, tets, material=geosim.NeoHookean(mu=MU), fixed=held)


def _depth(result, obstacle, index):
    """Deepest penetration of a frame, by brute force: the skin split in 1024."""
    points, _, _, _ = result.curved_surface(result.robot.skin, index, 5)
    return -signed_distances(obstacle.solid, points, obstacle.pose(index))[0].min()


BALL = Obstacle.sphere((0.0083, 0.0116, -0.0023), 0.002)
# Not along the edges of the mesh: beside them rounding decides whether it takes 110 or more than 1000 Newton iterations.
ROD = Obstacle.cylinder((0.009, -0.01, -0.0013), (0.0117, 0.03, -0.0013), 0.001)
NEEDLE = Obstacle.cylinder((0.0089, 0.0113, -0.02), (0.0089, 0.0113, -0.0001), 0.0004)
CORNER = Obstacle.mesh(trimesh.creation.cone(0.004, 0.005).apply_translation((0.0089, 0.0112, -0.0052)))


@pytest.mark.parametrize(
    ("obstacle", "element"),
    [(BALL, "p1"), (BALL, "p2"), (ROD, "p1"), pytest.param(NEEDLE, "p1", marks=pytest.mark.slow), (CORNER, "p1")],
    ids=["ball-p1", "ball-p2", "rod-p1", "needle-p1", "cone-p1"],
)
def test_what_is_smaller_than_a_face_does_not_go_in(obstacle, element):
    obstacle = replace(obstacle, motion=[[0, 0, 0.001], [0, 0, 0.002]])
    solver = geosim.EnergyShapeSolver(element=element, check_stability=False)
    result = geosim.solve(_robot(), Passive(steps=2), Environment(obstacles=obstacle), solver=solver)
    force = -result.obstacle_forces[:, 0, 2]
    assert (np.diff(force, prepend=0.0) > 0.0).all()
    depth = max(_depth(result, obstacle, i) for i in range(2))
    assert depth < 0.01 * EDGE
    assert result.max_penetration.max() == pytest.approx(max(depth, 0.0), abs=1e-3 * EDGE)


@pytest.mark.parametrize("element", ["p1", "p2"])
@pytest.mark.parametrize(
    "obstacle",
    [BALL, ROD, NEEDLE, CORNER, Obstacle.box((0.008, 0.0093, -0.004), (0.011, 0.0113, -0.0001))],
    ids=["ball", "rod", "needle", "cone", "box"],
)
def test_tangent_of_faces_is_the_derivative_of_their_forces(element, obstacle):
    if obstacle.shape != "mesh":  # a little askew: nothing is parallel
        turn = trimesh.transformations.rotation_matrix(0.03, (0.3, 1.0, 0.2), (0.009, 0.011, 0.0))
        obstacle = replace(obstacle, motion=turn[None])
    solver = geosim.EnergyShapeSolver(element=element)
    state = solver.start(_robot(), Environment(obstacles=obstacle, self_contact=False))
    contact, pattern = state.problem.contact, state.problem.pattern
    rng = np.random.default_rng(0)
    ranks = np.argsort(np.argsort(state.problem.nodes))
    x = state.point.x + 0.1 * contact.thickness.min() * rng.normal(size=state.point.x.shape)[ranks]
    lift = np.array([0.0, 0.0, 0.05 * contact.thickness.min()])
    contact_state = replace(state.target.contact_state, poses=contact.environment.poses(0))
    for _ in range(400):  # down until the faces are pressed
        forces = contact.evaluate(x, contact_state, matrix=True)
        if forces.by_faces.any() and forces.gap.min() < -0.1 * contact.thickness.min():
            break
        x = x - lift
    assert forces.by_faces.any()
    _, data = contact.stiffened(x, forces, pattern, np.zeros(len(pattern.indices)))
    data = contact.added(forces.bends, pattern, data)
    for _ in range(3):
        d = rng.normal(size=x.shape)
        want = (contact.evaluate(x + 1e-8 * d, contact_state, matrix=False).force
                - contact.evaluate(x - 1e-8 * d, contact_state, matrix=False).force) / 2e-8  # fmt: skip
        got = pattern.product(data, np.concatenate([d.ravel(), np.zeros(pattern.size - d.size)]))[: d.size]
        assert got.reshape(d.shape) == pytest.approx(want, abs=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_an_obstacle_inside_at_rest_is_refused(element):
    """In the material, far from every vertex; and between the vertices of the surface."""
    solver = geosim.EnergyShapeSolver(element=element)
    for center, said in (((0.0083, 0.0116, 0.0103), "lies inside"), ((0.0083, 0.0116, 0.0), "overlaps the robot")):
        with pytest.raises(geosim.InputError, match=rf"obstacles\[0\]: the sphere.* {said}.* at rest"):
            solver.start(_robot(), Environment(obstacles=Obstacle.sphere(center, 0.0005)))


def test_a_thin_obstacle_does_not_jump_through():
    """A rod far thinner than its way in one command, and a step of Newton across it, are stopped at the surface."""
    rod = replace(ROD, parameters={**ROD.parameters, "radius": 0.0002}, motion=[[0, 0, 0.03]])
    solver = geosim.EnergyShapeSolver(element="p1")
    state = solver.start(_robot(), Environment(obstacles=rod, self_contact=False))
    contact, x, contact_state = state.problem.contact, state.point.x, state.contact_state
    gap = 0.0011 / 0.03  # the way to the surface
    assert gap < max_obstacle_step(contact, x, contact_state.poses, contact.environment.poses(0)) < gap + 0.01
    down = np.zeros_like(x)
    down[:, 2] = -0.03 / contact.length
    assert gap < max_safe_step(contact, x, down, contact_state) < gap + 0.01
    both = max_safe_step(
        contact, x, down, contact_state, contact_state.at(contact.environment.poses(0))
    )  # they come towards each other
    assert 0.5 * gap < both < 0.5 * gap + 0.01
    assert (
        max_safe_step(contact, x, -down, contact_state, contact_state.at(contact.environment.poses(0))) == 1.0
    )  # the robot flees as fast as the rod comes


def test_penetration_is_measured_between_the_points_of_contact():
    """A ball in the middle of a flat face, and one inside of the body, which touches no face."""
    robot = _robot()
    skin = topology.curved_faces(robot.skin, robot.p2_edges, len(robot.vertices))
    nodes, feels = topology.with_mid_edges(robot.vertices, robot.p2_edges), np.ones(len(skin), dtype=bool)
    for z, want in ((-0.0003, 0.0007), (-0.001, 0.0), (0.01, 0.0005)):
        poses = np.tile(np.eye(4), (1, 1, 1))
        poses[0, 2, 3] = z
        ball = Obstacle.sphere((0.0083, 0.0116, 0.0), 0.001)
        away = np.tile(np.eye(4), (1, 1, 1)) - 0.1 * np.eye(4, k=1)
        found = deepest_penetration([ball], poses, nodes, away, nodes, skin, feels)
        assert found == pytest.approx(want, abs=1e-9)
        assert passed_through([ball], found) == (want > 0.0)
    assert not passed_through([ball, Obstacle.plane((0, 0, 0), (0, 0, 1))], 2e-4)
    assert not passed_through([], 0.0)


def test_an_obstacle_that_went_through_is_a_failure(monkeypatch):
    """Where nothing stops a ball (its contact is taken away) the solve says so, with self-contact and without."""
    vertices, tets = block((SIZE, SIZE, SIZE), (1, 1, 1))
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=MU), fixed=vertices[:, 2] > 0.019
    )
    ball = Obstacle.sphere((0.01, 0.01, -0.01), 0.002, motion=[(0.0, 0.0, 0.02)])
    monkeypatch.setattr("geosim.shape.energy.solver.make_problem", _blind)
    for around in (Environment(obstacles=ball), Environment(obstacles=ball, self_contact=False)):
        result = geosim.solve(robot, Passive(), around, solver=geosim.EnergyShapeSolver(element="p1"), throw=False)
        assert result.status is geosim.Status.CROSSED
        assert "crossed the skin" in result.message
        assert not result.converged


def _blind(*arguments, **options):
    """The problem of a robot that feels no obstacle."""
    problem = make_problem(*arguments, **options)
    contact = problem.contact
    nowhere = replace(
        contact,
        at_rest=replace(contact.at_rest, held=np.ones_like(contact.at_rest.held)),
        delta=np.full_like(contact.delta, -np.inf),
        face_delta=np.full_like(contact.face_delta, -np.inf),
    )
    return replace(problem, contact=nowhere)
