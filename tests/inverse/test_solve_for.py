"""Controls are found for what is asked; what cannot be reached ends at the nearest point."""

from __future__ import annotations

import numpy as np
import pytest
from fingers import four_chambers

import geosim
from geosim import EnergyShapeSolver, Environment, Goal, Obstacle, solve_for

QUICK = EnergyShapeSolver(element="p1", check_stability=False)
ALONE = Environment(self_contact=False)


def _at(ratios, environment=ALONE, robot=None):
    robot = robot or four_chambers(3)
    return geosim.solve(robot, geosim.Inflation(volume_ratio=[ratios]), environment, solver=QUICK)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tip_that_other_controls_reach_is_reached(seed):
    ratios = np.random.default_rng(seed).uniform(0.8, 2.0, 4)
    wanted = _at(ratios)
    found = solve_for(wanted.robot, Goal.tip(wanted.tip[-1]), environment=ALONE, solver=QUICK)
    assert found.reached
    assert found.distance < 1e-4 * wanted.robot.size
    assert found.solves <= 12
    again = geosim.solve(wanted.robot, found.actuation, ALONE, solver=QUICK)
    np.testing.assert_allclose(again.tip, found.result.tip, atol=1e-7)


def test_the_nearest_point_of_a_tip_out_of_reach():
    """No small change of the controls within their bounds comes nearer."""
    robot = four_chambers(3)
    far = robot.vertices[robot.tip].mean(axis=0) + (0.01, 0.0, -0.03)
    found = solve_for(robot, Goal.tip(far), bounds=(0.7, 1.6), environment=ALONE, solver=QUICK)
    assert not found.reached
    assert found.distance == pytest.approx(np.linalg.norm(found.result.tip[-1] - far))
    best = found.actuation.volume_ratio[0]
    assert ((best >= 0.7) & (best <= 1.6)).all()
    for change in 0.02 * np.vstack([np.eye(4), -np.eye(4)]):
        near = np.clip(best + change, 0.7, 1.6)
        assert np.linalg.norm(_at(near, robot=robot).tip[-1] - far) > found.distance - 1e-6


def test_angles_and_pressures_together():
    wanted = _at([2.0, 1.2, 1.8, 0.9])
    goals = [Goal.bend_angle(wanted.bend_angle[-1]), Goal.pressure(1, wanted.chamber_pressures[-1, 1], weight=1e-4)]
    found = solve_for(wanted.robot, goals, vary="pressure", environment=ALONE, solver=QUICK)
    assert found.reached
    assert found.result.bend_angle[-1] == pytest.approx(wanted.bend_angle[-1], abs=1e-4)
    assert found.actuation.pressure[0, 1] == pytest.approx(wanted.chamber_pressures[-1, 1], rel=1e-3)


def test_a_force_on_an_object_that_is_not_touched_yet():
    robot = four_chambers(3)
    table = Obstacle.plane((0.0, 0.0, -0.0015), (0, 0, 1))
    environment = Environment(obstacles=table, self_contact=False)
    found = solve_for(
        robot, Goal.force(0, 0.02), bounds=[[0.9, 1.1]] * 2 + [[1.0, 2.0]] * 2, environment=environment, solver=QUICK
    )
    assert found.reached
    assert np.linalg.norm(found.result.obstacle_forces[-1, 0]) == pytest.approx(0.02, rel=1e-3)


def test_what_cannot_be_asked_is_refused():
    robot = four_chambers(3)
    for arguments, words in (
        ({"goals": []}, "empty"),
        ({"goals": Goal.force(0, 1.0)}, "there are 0"),
        ({"goals": Goal.pressure(7, 1.0)}, "there are 4"),
        ({"goals": Goal.tip((0, 0, 0)), "vary": "volume"}, "vary"),
        ({"goals": Goal.tip((0, 0, 0)), "vary": "cable_length"}, "has none"),
        ({"goals": Goal.tip((0, 0, 0)), "bounds": (2.0, 1.0)}, "rise"),
    ):
        with pytest.raises(geosim.InputError, match=words):
            solve_for(robot, solver=QUICK, environment=ALONE, **arguments)
