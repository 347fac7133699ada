"""Numbers of nodes: a permutation of the robot's, near where nodes are near, and none that depends on where they are."""

import numpy as np
import pytest
from shapes import block

import geosim
from geosim.shape.energy.discretisation.body import scaled_body


def _shuffled(seed=0, scale=1.0):
    """A bar whose vertices are numbered at random."""
    vertices, tets = block((0.08, 0.01, 0.01), (32, 4, 4))
    order = np.random.default_rng(seed).permutation(len(vertices))
    place = np.argsort(order)
    vertices = vertices[order] * (scale, 1.0, 1.0)
    return geosim.VolumetricRobot.from_tets(
        vertices, place[tets], material=geosim.NeoHookean(mu=5e4), fixed=vertices[:, 0] < 1e-9
    )


@pytest.mark.parametrize("order", [1, 2])
def test_nodes_of_an_element_have_near_numbers(order, monkeypatch):
    """Within some layers of the bar, of 32, however the robot numbers its vertices."""
    monkeypatch.setattr("geosim.shape.energy.discretisation.body.CACHED_TETS", 1000)
    robot = _shuffled()
    body = scaled_body(robot, order)
    assert sorted(body.nodes) == sorted(np.unique(robot.p2_tets if order == 2 else robot.body_tets))
    np.testing.assert_array_equal(body.place[body.nodes], np.arange(len(body.nodes)))
    of_robot = robot.p2_tets if order == 2 else robot.body_tets
    np.testing.assert_array_equal(body.nodes[body.mesh.tets], of_robot)
    np.testing.assert_array_equal(body.pressure_vertices[body.mesh.pressure_tets], robot.body_tets)
    assert np.ptp(body.mesh.tets, axis=1).max() < 0.15 * len(body.nodes)
    assert np.ptp(of_robot, axis=1).mean() > 0.5 * len(body.nodes)


def test_a_moved_mesh_keeps_its_numbers(monkeypatch):
    monkeypatch.setattr("geosim.shape.energy.discretisation.body.CACHED_TETS", 1000)
    np.testing.assert_array_equal(scaled_body(_shuffled(), 2).nodes, scaled_body(_shuffled(scale=1.7), 2).nodes)


def test_a_small_mesh_has_the_numbers_of_the_robot():
    assert (np.diff(scaled_body(_shuffled(), 2).nodes) > 0).all()


def test_the_state_does_not_depend_on_the_numbers(monkeypatch):
    robot, down = _shuffled(), geosim.Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)
    frames = []
    for cached in (1000, 50_000):
        monkeypatch.setattr("geosim.shape.energy.discretisation.body.CACHED_TETS", cached)
        solver = geosim.EnergyShapeSolver(tolerance=1e-9)
        frames.append(geosim.solve(robot, geosim.Passive(), down, solver=solver).frames[0])
    np.testing.assert_allclose(frames[0], frames[1], atol=1e-9 * robot.size)
