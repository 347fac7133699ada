"""symmetry="auto": the same states as without, on meshes that are their own images; and what breaks the symmetry is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Load, Obstacle, Passive
from geosim.shape.energy.problem import make_problem, mirrored_problem

RUBBER = geosim.NeoHookean(mu=50e3)
WHOLE = EnergyShapeSolver(tolerance=1e-9)
HALVES = replace(WHOLE, symmetry="auto")
FLAT = "p1"  # elements that are enough where it is the mesh that matters


def mirrored(vertices, tets, axis):
    """A mesh with its image in the plane through the origin, normal to an axis, in which its vertices are not doubled."""
    on = np.abs(vertices[:, axis]) < 1e-12
    other = np.where(on, np.arange(len(on)), len(on) + np.cumsum(~on) - 1)
    image = np.where(np.arange(3) == axis, -vertices[~on], vertices[~on])
    return np.vstack([vertices, image]), np.vstack([tets, other[tets][:, [0, 2, 1, 3]]])


def finger(chambers=1, cells=(6, 2, 4)):
    """A finger that is its own image in y = 0, with a chamber in the plane or one on either side."""
    vertices, tets = mirrored(*block((0.03, 0.006, 0.012), cells, skew=0.2), 1)
    x, y, z = (vertices[tets].mean(axis=1) * 1e3).T
    inside = (x > 10) & (x < 20) & (z > 6) & (z < 9) & (np.abs(y) < 3)
    if chambers == 2:
        vertices, tets = mirrored(*block((0.03, 0.009, 0.012), (6, 3, 4)), 1)
        x, y, z = (vertices[tets].mean(axis=1) * 1e3).T
        inside = (x > 10) & (x < 20) & (z > 6) & (z < 9) & (np.abs(y) > 3) & (np.abs(y) < 6)
    regions = np.where(inside, np.where((y > 0) | (chambers == 1), 1, 2), 0)
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.03 - 1e-9
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=RUBBER, fixed=ends[0], tip=ends[1])


def both(robot, actuation, environment=None, element="p2", unstable=None):
    """Results without and with halves, and whether the last factors are those of halves.

    States beyond a buckling load, from frame `unstable` on, agree less: without halves nothing keeps rounding from growing there.
    """
    solvers = (replace(s, element=element) for s in (WHOLE, HALVES))
    whole, halves = (geosim.solve(robot, actuation, environment, solver=s) for s in solvers)
    np.testing.assert_allclose(halves.frames[:unstable], whole.frames[:unstable], atol=1e-8 * robot.size)
    np.testing.assert_allclose(halves.frames, whole.frames, atol=1e-7 * robot.size)
    np.testing.assert_allclose(halves.chamber_pressures, whole.chamber_pressures, rtol=1e-7)
    np.testing.assert_array_equal(halves.stable, whole.stable)
    assert halves.message == whole.message
    return whole, halves, halves.state.problem.linear.factoriser.halved


def test_the_state_is_that_of_the_whole():
    """Volumes and gravity: a chamber that the plane cuts, and pressures."""
    _, halves, in_halves = both(finger(), Inflation(volume_ratio=[1.2, 1.5]), Environment(gravity=(0, 0, -9.81)))
    assert in_halves
    assert np.abs(halves.tip[:, 1]).max() < 1e-12


@pytest.mark.slow
def test_a_pair_of_chambers_and_an_obstacle():
    """Equal volumes on both sides, pressed onto a ball below the plane, with friction."""
    robot, ball = finger(2), Obstacle.sphere((0.027, 0.0, -0.0102), 0.01, friction=0.3)
    pushed = Environment(obstacles=ball, loads=Load.force(robot.tip, (0.01, 0.0, -0.1)))
    whole, halves, in_halves = both(robot, Inflation(volume_ratio=[[1.2, 1.2]]), pushed, FLAT)
    assert in_halves
    assert whole.contact_count[-1] > 0
    largest = np.abs(whole.obstacle_forces).max()
    np.testing.assert_allclose(halves.obstacle_forces, whole.obstacle_forces, atol=1e-6 * largest)


@pytest.mark.slow
def test_what_is_not_symmetric_is_solved_as_a_whole():
    """Unequal volumes, on a mesh that is symmetric; then the same for a ball on one side.

    The first step may be made with factors of the rest shape, which is symmetric: volumes go far from it.
    """
    *_, in_halves = both(finger(2), Inflation(volume_ratio=[[2.0, 1.1]]))
    assert not in_halves
    robot, ball = finger(2), Obstacle.sphere((0.027, 0.004, -0.0102), 0.01)
    pushed = Environment(obstacles=ball, loads=Load.force(robot.tip, (0.0, 0.0, -0.1)))
    whole, _, in_halves = both(robot, Inflation(volume_ratio=[[1.2, 1.2]]), pushed, FLAT)
    assert not in_halves
    assert whole.contact_count[-1] > 0


def test_derivatives_out_of_the_plane():
    """What is even and what is odd: the sensitivities to either chamber are images of each other, as without halves."""
    robot = finger(2)
    found = [
        geosim.sensitivity(geosim.solve(robot, Inflation(volume_ratio=[[1.2, 1.2]]), solver=s), "tip", "volume_ratio")
        for s in (WHOLE, HALVES)
    ]
    np.testing.assert_allclose(found[1].jacobian, found[0].jacobian, atol=1e-6 * np.abs(found[0].jacobian).max())
    assert abs(found[1].jacobian[1, 0]) > 0.1 * np.abs(found[1].jacobian).max()
    np.testing.assert_allclose(found[1].jacobian[1, 0], -found[1].jacobian[1, 1], rtol=1e-5)


@pytest.mark.parametrize("thin", [0, 1])
def test_buckling_out_of_the_plane_is_seen(thin):
    """A column that buckles in its thin direction alone: straight it is symmetric in both planes, and it is unstable."""
    sides, length = np.where(np.arange(2) == thin, 0.010, 0.016), 0.15
    vertices, tets = block((*(0.5 * sides), length), (1, 1, 30))
    for axis in range(2):
        vertices, tets = mirrored(vertices, tets, axis)
    ends = vertices[:, 2] < 1e-9, vertices[:, 2] > length - 1e-9
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=ends[0], tip=ends[1])
    area, inertia = sides.prod(), sides[1 - thin] * sides[thin] ** 3 / 12.0
    euler = np.pi**2 * 3.0 * RUBBER.mu * inertia / (4.0 * length**2)
    critical = euler / (1.0 + 1.2 * euler / (RUBBER.mu * area))
    load = np.zeros((3, 3))
    load[:, 2] = -critical * np.array([0.5, 0.97, 1.03])
    _, halves, in_halves = both(robot, Passive(steps=3), Environment(loads=Load.force(robot.tip, load)), unstable=2)
    assert in_halves
    assert halves.stable.tolist() == [1, 1, 0]
    assert halves.status is geosim.Status.UNSTABLE


def test_a_problem_keeps_its_own_factors_when_it_is_halved():
    problem = make_problem(finger(), Environment(), 1, "auto", isochoric=True)
    own, pattern = problem.linear.factoriser, problem.pattern
    data = np.zeros(len(pattern.indices))
    data[pattern.indptr[:-1]] = 2.0  # the diagonal is the first of every row
    own.factorise(data)
    assert mirrored_problem(problem).linear.factoriser is not own
    np.testing.assert_allclose(own.solve(np.ones(pattern.size)), 0.5)


def test_why_nothing_is_halved_is_said():
    """A mesh without a plane, supports without an image, loads across the plane."""
    vertices, tets = block((0.03, 0.012, 0.012), (3, 2, 2), skew=0.2)
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.03 - 1e-9
    skewed = geosim.VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=ends[0], tip=ends[1])
    symmetric = finger()
    held = replace(symmetric, fixed=symmetric.fixed[symmetric.vertices[symmetric.fixed, 1] > -1e-9])
    across = Environment(gravity=(0, -9.81, 0))
    for robot, around, words in (
        (skewed, Environment(), "of its nodes have an image"),
        (held, Environment(), "what is held has no image in y = 0 mm"),
        (symmetric, across, "the loads of command 1 have no image in y = 0 mm"),
    ):
        result = geosim.solve(robot, Passive(), around, solver=EnergyShapeSolver(symmetry="auto"))
        assert "symmetry = 'auto' halves nothing" in result.message
        assert words in result.message
    with pytest.raises(geosim.InputError, match="symmetry"):
        EnergyShapeSolver(symmetry="y")
