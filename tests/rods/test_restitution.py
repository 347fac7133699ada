"""What impacts give back: the coefficient of restitution, whatever the step and the stiffness of contact."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geosim import Environment, InputError, LinearElastic, NaturalShape, Obstacle, Passive, solve
from geosim.rods.contact import pressed, returned
from geosim.rods.robot import RodShellRobot
from geosim.rods.stepper import RodShellStepper

RADIUS, SPEED = 5e-3, 0.5  # m, m/s
FLOOR = Environment(obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1))])


def falling_rod() -> RodShellRobot:
    """A rod that comes down flat."""
    x = np.stack([np.linspace(-0.05, 0.05, 3), np.zeros(3), np.full(3, 7.2e-3)], axis=1)
    velocities = np.tile([0, 0, -SPEED], (3, 1))
    return RodShellRobot(x, radius=RADIUS, rod_material=LinearElastic(1e7, 0.5, 1000.0), velocities=velocities)


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_a_rod_leaves_the_floor_with_its_share_of_the_velocity(restitution, integrator):
    """Steps of 5 and 1 ms, contact of stiffness 1 and 100: without the law -0.02 .. 0.7 of the velocity came back."""
    for dt, stiffness in ((5e-3, 2.5e4), (5e-3, 2.5e6), (1e-3, 2.5e4), (1e-3, 2.5e6)):
        solver = RodShellStepper(
            dt=dt, integrator=integrator, restitution=restitution, contact_stiffness=stiffness, frame_interval=0.015
        )
        result = solve(falling_rod(), Passive(0.03), FLOOR, solver=solver)
        mass = result.state.system.mass[:9].reshape(-1, 3)[:, 2]
        left = mass @ result.extra["velocities"][-1, :, 2] / mass.sum() / SPEED
        assert left == pytest.approx(restitution, abs=0.03)
        lost = result.extra["dissipated"][-1] - result.extra["drift"][-1]
        assert lost == pytest.approx((1 - restitution**2) * result.extra["kinetic_energy"][0], rel=0.05)


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_two_rods_part_with_the_share_of_their_relative_velocity(restitution):
    """Crossed at their middles, short and stiff; their momentum is kept."""
    s = np.linspace(-0.015, 0.015, 3)[:, None]
    x = np.vstack([s * [1.0, 0, 0], s * [0, 1.0, 0] + [0, 0, 0.011]])
    velocities = np.repeat([[0, 0, 0], [0, 0, -SPEED]], 3, axis=0)
    material = LinearElastic(1e9, 0.5, 1000.0)
    robot = RodShellRobot(
        x, [[0, 1], [1, 2], [3, 4], [4, 5]], radius=RADIUS, rod_material=material, velocities=velocities
    )
    relative = []
    for dt, stiffness in ((1e-3, 2e4), (2e-4, 2e4), (1e-3, 2e3)):
        solver = RodShellStepper(dt=dt, restitution=restitution, contact_stiffness=stiffness, frame_interval=5e-3)
        result = solve(robot, Passive(0.02), solver=solver)
        momentum = result.state.system.mass[:18].reshape(-1, 3) * result.extra["velocities"][-1]
        lower, upper = momentum[:3, 2].sum(), momentum[3:, 2].sum()
        whole = 0.5 * result.state.system.mass[:18].sum() / 3
        assert lower + upper == pytest.approx(-whole * SPEED, rel=1e-5)
        relative.append((upper - lower) / whole / SPEED)
    assert np.abs(np.array(relative) - restitution).max() < 0.06


@pytest.mark.parametrize("kept", [0.0, 0.3])
def test_the_force_of_contacts_that_part_falls_to_the_share_kept(kept):
    k2 = 15.0 / 1e-3
    for speed in (-3e-3, -5e-4, -1e-5, 1e-4):
        share, slope = returned(speed, 0.2 * k2, kept)
        h = 1e-9
        assert slope == pytest.approx(
            (returned(speed + h, 0.2 * k2, kept)[0] - returned(speed - h, 0.2 * k2, kept)[0]) / (2 * h), abs=1e-3
        )
        assert pressed(2.0, 5.0, 0.1 * speed, 0.1, k2, (kept, 1e3)) == pytest.approx(
            (2.0 * share, 5.0 * share + 20.0 * slope)
        )
    assert returned(0.0, 0.2 * k2, kept) == (1.0, 0.0)
    assert returned(-3e-3, 0.2 * k2, kept)[0] == pytest.approx(kept, abs=1e-6)


def test_a_restitution_above_one_is_refused():
    with pytest.raises(InputError, match="restitution"):
        RodShellStepper(restitution=1.1)


def test_a_rod_that_rests_and_swings_on_a_turning_roller_hits_nothing():
    """What only comes near, or presses while it bends, needs no shorter increments: it took ten times as many iterations."""
    turn = Rotation.from_rotvec([0.0, 0.1, 0.0]).as_matrix()
    poses = np.tile(np.eye(4), (2, 1, 1))
    poses[1, :3, :3] = turn
    roller = Obstacle.cylinder((0, -0.2, 0), (0, 0.2, 0), 0.1, friction=0.8, motion=poses)
    x = np.stack([np.linspace(-0.05, 0.05, 11), np.zeros(11), np.full(11, 0.1101)], axis=1)
    robot = RodShellRobot(x, radius=0.01, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    surroundings = Environment(gravity=(0, 0, -9.8), obstacles=[roller])
    motion = NaturalShape([0.0, 0.06], twist=[0.0, 0.0])
    iterations, ends = [], []
    for restitution in (None, 0.5):
        result = solve(robot, motion, surroundings, solver=RodShellStepper(dt=2e-3, restitution=restitution))
        iterations.append(len(result.trace))
        ends.append(result.frames[-1, 5, 0])
    assert iterations[1] < 2 * iterations[0]
    assert ends[1] == pytest.approx(ends[0], rel=0.05)
