"""What overlaps at the start is refused, moved apart, or keeps its energy from frame 0 on."""

import numpy as np
import pytest

from geosim import Environment, InputError, LinearElastic, Obstacle, Passive, RodShellRobot, RodShellStepper, solve

RUBBER = LinearElastic(1e6, 0.5, 1000.0)


def two_rods(height):
    """Two parallel rods of radius 5 mm, one so high above the other."""
    x = np.linspace(-0.05, 0.05, 6)
    one = np.stack([x, 0 * x, 0 * x], axis=1)
    edges = np.stack([np.arange(5), np.arange(1, 6)], axis=1)
    vertices = np.concatenate([one, one + [0, 0, height]])
    return RodShellRobot(vertices, np.concatenate([edges, edges + 6]), radius=5e-3, rod_material=RUBBER)


def imbalance(result):
    """Energy that is not accounted for [J]."""
    e, x = result.energies, result.extra
    return abs(e - e[0] - x["work"] + x["dissipated"] - x["drift"]).max()


def test_rods_that_overlap_at_the_start_are_refused_by_name():
    with pytest.raises(InputError, match=r"edges \d and \d of rods overlap by 4 mm at the start; move it away, or let"):
        RodShellStepper().start(two_rods(6e-3))
    RodShellStepper().start(two_rods(9.96e-3))  # less than a hundredth of the radius
    RodShellStepper(static=True).start(two_rods(6e-3))  # statics finds the balance from anywhere
    RodShellStepper().start(two_rods(6e-3), Environment(self_contact=False))


def test_a_rod_that_overlaps_an_obstacle_is_refused_by_name():
    floor = Environment(obstacles=[Obstacle.plane((0, 0, -3e-3), (0, 0, 1))])
    with pytest.raises(InputError, match=r"obstacles\[0\]: vertex \d overlaps the plane by 2 mm at the start"):
        RodShellStepper().start(two_rods(10e-3), floor)


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
def test_the_energy_of_contact_belongs_to_frame_0(integrator):
    """It was that many joules that came from nowhere."""
    solver = RodShellStepper(dt=1e-4, integrator=integrator, overlap="keep")
    result = solve(two_rods(6e-3), Passive(1e-3), solver=solver, throw=False)
    assert result.max_penetration[0] == pytest.approx(4e-3, rel=0.01)
    assert result.extra["contact_energy"][0] > 5
    assert imbalance(result) < 1e-9


def test_overlaps_are_moved_apart_before_time_begins():
    floor = Environment(obstacles=[Obstacle.plane((0, 0, -3e-3), (0, 0, 1))])
    solver = RodShellStepper(dt=2e-3, overlap="resolve")
    result = solve(two_rods(6e-3), Passive(0.01), floor, solver=solver)
    lower, upper = result.frames[0, :6, 2], result.frames[0, 6:, 2]
    assert (lower + 3e-3).min() > 4.95e-3
    assert (upper - lower).min() > 9.95e-3
    assert abs(result.extra["velocities"]).max() < 0.1  # 2 m/s where they overlapped
    assert imbalance(result) < 1e-9
