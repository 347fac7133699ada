"""Nothing passes through: rods that fly at rods and at obstacles smaller than their edges, diameters a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from geosim import Environment, InputError, LinearElastic, Obstacle, Passive, solve
from geosim.collision.shapes import KINDS
from geosim.model.actuation import Command
from geosim.rods.drive import make_drive
from geosim.rods.pair_contact import count_passed
from geosim.rods.points import contact_points
from geosim.rods.robot import RodShellRobot
from geosim.rods.stepper import RodShellStepper

RADIUS, DT = 1e-3, 5e-3
BAR = Obstacle.cylinder((0, -0.05, 0), (0, 0.05, 0), 1.5e-3, friction=0.2)


def crossed_rods(travel: float, tilt: float) -> RodShellRobot:
    """A rod along x at rest and one across it, 4 radii above, that falls by `travel` diameters a step."""
    s = np.linspace(-0.02, 0.02, 6)[:, None]
    x = np.vstack([s * [1.0, 0, 0], s * [np.sin(tilt), np.cos(tilt), 0] + [1e-3, 2e-3, 4e-3]])
    velocities = np.repeat([[0, 0, 0], [0, 0, -travel * 2 * RADIUS / DT]], 6, axis=0)
    chain = np.stack([np.arange(5), np.arange(1, 6)], axis=1)
    material = LinearElastic(1e6, 0.5, 1000.0)
    return RodShellRobot(x, np.vstack([chain, chain + 6]), radius=RADIUS, rod_material=material, velocities=velocities)


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
@pytest.mark.parametrize("travel", [2.5, 6.0, 10.0])
def test_crossing_rods_do_not_pass_through_each_other(travel, integrator):
    """The upper rod stays above where both centre lines are nearest; that was not so from 2.5 diameters a step on."""
    robot = crossed_rods(travel, 0.3)
    result = solve(robot, Passive(4 * DT), solver=RodShellStepper(dt=DT, integrator=integrator))
    assert np.nanmax(result.crossings) == 0
    x = result.frames[-1]
    s = np.linspace(0, 5, 501)
    lines = [np.column_stack([np.interp(s, np.arange(6), v) for v in part.T]) for part in (x[:6], x[6:])]
    flat = np.linalg.norm(lines[0][:, None, :2] - lines[1][None, :, :2], axis=2)
    i, j = np.unravel_index(flat.argmin(), flat.shape)
    assert lines[1][j, 2] > lines[0][i, 2]


def test_passing_is_counted_where_two_lines_meet_on_the_way():
    q0 = np.array([-1, 0, 0, 1, 0, 0, 0, -1, 0.5, 0, 1, (0.5).real])
    through, beside = q0.copy(), q0.copy()
    through[[8, 11]] = -0.5
    beside[[8, 11]], beside[[6, 9]] = -0.5, 4.0
    points = np.array([[0, 1, 2, 3]])
    q0, through, beside = (q.reshape(4, 3) for q in (q0, through, beside))
    assert count_passed(q0, through, points) == 1
    assert count_passed(q0, beside, points) == 0
    assert count_passed(q0, q0, points) == 0


def falling(speed: float, height: float = 6e-3) -> RodShellRobot:
    """A rod with edges of 20 mm that falls with the middle of an edge over the origin."""
    x = np.column_stack([np.linspace(-0.03, 0.05, 5), np.zeros(5), np.full(5, height)])
    velocities = np.tile([0, 0, -speed], (5, 1))
    return RodShellRobot(x, radius=RADIUS, rod_material=LinearElastic(1e7, 0.5, 1000.0), velocities=velocities)


@pytest.mark.parametrize(
    "obstacle",
    [
        BAR,
        Obstacle.sphere((0, 0, 0), 2e-3),
        Obstacle.box((-1e-3, -0.05, -1e-3), (1e-3, 0.05, 1e-3)),
        Obstacle.mesh(trimesh.creation.box((3e-3, 0.1, 3e-3)), units="m"),
    ],
    ids=lambda o: o.shape,
)
@pytest.mark.parametrize("speed", [0.2, 4.0])
def test_an_edge_feels_an_obstacle_between_its_vertices(obstacle, speed):
    """The middle of a 20 mm edge stays above a bar of 3 mm, at 1 and at 10 diameters a step."""
    result = solve(falling(speed), Passive(4 * DT), Environment(obstacles=[obstacle]), solver=RodShellStepper(dt=DT))
    middle = np.array([np.interp(0.0, frame[:, 0], frame[:, 2]) for frame in result.frames])
    assert middle.min() > 1e-3
    assert (np.abs(result.obstacle_forces) > 0).any()


@pytest.mark.parametrize(("least_radius", "sets"), [(np.inf, 1), (0.0, 2)])
def test_the_record_of_a_kind_says_whether_edges_have_points_inside(monkeypatch, least_radius, sets):
    """Points stand at vertices alone where an obstacle is flat, whatever its kind is called."""
    for name, kind in KINDS.items():
        monkeypatch.setitem(KINDS, name, replace(kind, least_radius=lambda given: least_radius))
    for obstacle in (BAR, Obstacle.plane((0, 0, 0), (0, 0, 1)), Obstacle.sphere((0, 0, 0), 2e-3)):
        assert len(contact_points(falling(0.0), [obstacle], np.full(5, RADIUS))) == sets


@pytest.mark.parametrize("friction", [0.0, 0.3])
def test_stiffness_of_points_inside_an_edge_is_the_derivative_of_their_force(friction):
    robot = falling(0.0, 2.5e-3)
    bar = Obstacle.box((-1e-3, -0.05, -1e-3), (1e-3, 0.05, 1.6e-3), friction=friction)
    solver = RodShellStepper(overlap="keep", contact_stiffness=30.0, slip_velocity=0.5)
    state = solver.start(robot, Environment(obstacles=[bar], self_contact=False))
    term = make_drive(state, Command(0, 0.01, ())).terms(state, 0.01, 0.01)[-1]
    q = state.q + np.concatenate([1e-4 * np.random.default_rng(1).normal(size=15), np.zeros(4)])
    pattern = state.system.pattern
    values = np.zeros(pattern.size)
    extra = term.add_stiffness(q, values)
    matrix = pattern.matrix(values).toarray()
    if extra is not None:
        row, col, data = extra.entries
        np.add.at(matrix, (row, col), data)

    def force(p):
        f = np.zeros_like(p)
        term.add_force(p, f)
        return f[pattern.order]

    h = 1e-9
    numeric = np.stack([(force(q + h * e) - force(q - h * e)) / (2 * h) for e in np.eye(len(q))[pattern.order]], axis=1)
    assert np.abs(numeric).max() > 1
    # the turning of the normal around the edges of the box is left out under friction, as documented
    assert np.abs(matrix - numeric).max() < (0.03 if friction else 1e-4) * np.abs(numeric).max()


def test_a_rod_that_starts_with_an_edge_through_a_bar_is_refused():
    with pytest.raises(InputError, match=r"obstacles\[0\].*edge 1"):
        RodShellStepper().start(falling(0.0, 0.0), Environment(obstacles=[BAR]))
