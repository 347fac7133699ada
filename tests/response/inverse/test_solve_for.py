"""Controls are found for what is asked; what cannot be reached ends at the nearest point."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Goal, Obstacle, solve_for
from geosim.response.inverse.goals import read_goals

QUICK = EnergyShapeSolver(element="p1", check_stability=False)
ALONE = Environment(self_contact=False)


def four_chambers(cells: int = 4) -> geosim.VolumetricRobot:
    """Square bar of 40 x 15 x 15 mm with four cavities along it."""
    vertices, tets = block((0.04, 0.015, 0.015), (cells, 5, 5))
    middle = vertices[tets].mean(axis=1)
    column = np.floor(middle[:, 1:] / 0.003).astype(int)
    inside = (np.isin(column, (1, 3))).all(axis=1) & (np.abs(middle[:, 0] - 0.02) < 0.02 - 0.04 / cells)
    regions = np.where(inside, 1 + (column[:, 0] == 3) + 2 * (column[:, 1] == 3), 0)
    return geosim.VolumetricRobot.from_tets(
        vertices,
        tets,
        regions,
        material="ecoflex-00-30-fang2022",
        fixed=vertices[:, 0] < 1e-9,
        tip=vertices[:, 0] > 0.04 - 1e-9,
    )


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
    again = geosim.solve(wanted.robot, found.actuation, ALONE, solver=QUICK)
    np.testing.assert_allclose(again.tip, found.result.tip, atol=1e-7)


@pytest.mark.slow
def test_the_nearest_point_of_a_tip_out_of_reach():
    """No small change of the controls within their bounds comes nearer."""
    robot = four_chambers(3)
    far = robot.vertices[robot.tip].mean(axis=0) + (0.01, 0.0, -0.03)
    found = solve_for(robot, Goal.tip(far), bounds=(0.8, 1.6), environment=ALONE, solver=QUICK)
    assert not found.reached
    assert found.distance == pytest.approx(np.linalg.norm(found.result.tip[-1] - far))
    best = found.actuation.volume_ratio[0]
    assert ((best >= 0.8) & (best <= 1.6)).all()
    for change in 0.02 * np.vstack([np.eye(4), -np.eye(4)]):
        near = np.clip(best + change, 0.8, 1.6)
        assert np.linalg.norm(_at(near, robot=robot).tip[-1] - far) > found.distance - 1e-6


def test_angles_and_pressures_together():
    wanted = _at([2.0, 1.2, 1.8, 0.9])
    goals = [Goal.bend_angle(wanted.bend_angle[-1]), Goal.pressure(1, wanted.chamber_pressures[-1, 1], weight=1e-6)]
    found = solve_for(wanted.robot, goals, bounds=(0.5, 3.0), environment=ALONE, solver=QUICK)
    assert found.reached
    assert found.result.bend_angle[-1] == pytest.approx(wanted.bend_angle[-1], abs=1e-4)
    assert found.result.chamber_pressures[-1, 1] == pytest.approx(wanted.chamber_pressures[-1, 1], rel=1e-3)


@pytest.mark.slow
def test_a_force_on_an_object_that_is_not_touched_yet():
    robot = four_chambers(3)
    table = Obstacle.plane((0.0, 0.0, -0.0002), (0, 0, 1))
    environment = Environment(obstacles=table, self_contact=False)
    found = solve_for(
        robot, Goal.force(0, 0.02), bounds=[[0.9, 1.1]] * 2 + [[1.0, 3.0]] * 2, environment=environment, solver=QUICK
    )
    assert found.reached
    assert np.linalg.norm(found.result.obstacle_forces[-1, 0]) == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("vary", ["cable_length", "cable_tension"])
def test_cables_are_pulled_to_where_others_pulled_the_tip(vary):
    """Two cables of a bar, above and beside its axis; the default bounds."""
    vertices, tets = block((0.06, 0.01, 0.01), (6, 2, 2))
    ways = [[(x, y, z) for x in np.linspace(0.0, 0.06, 7)] for y, z in ((0.005, 0.009), (0.009, 0.005))]
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.06 - 1e-9
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=50e3), fixed=ends[0], tip=ends[1], cables=ways
    )
    wanted = geosim.solve(robot, geosim.CableTensions([[0.1, 0.04]]), ALONE, solver=QUICK)
    found = solve_for(robot, Goal.tip(wanted.tip[-1]), vary=vary, environment=ALONE, solver=QUICK)
    assert found.reached
    np.testing.assert_allclose(found.result.cable_tensions[-1], [0.1, 0.04], rtol=0.05)


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


def test_goals_in_the_names_of_the_table():
    texts = ["tip_x_mm=1", "bend_angle_deg=90", "tip_z_mm=3", "tip_y_mm=2", "obstacle_force_n_2=0.5"]
    bend, force, tip = read_goals(texts)
    np.testing.assert_allclose(tip.value, [1e-3, 2e-3, 3e-3])
    assert bend.value[0] == pytest.approx(np.pi / 2)
    assert (force.of, force.index, force.value[0]) == ("obstacle_forces", 1, 0.5)
    for wrong, words in ((["bend=3"], "no goal"), (["tip_x_mm=3"], "needs"), (["pressure_kpa_0=3"], "no goal")):
        with pytest.raises(geosim.InputError, match=words):
            read_goals(wrong)


def test_the_command_line_says_how_near_it_comes(capsys):
    from geosim.cli import running

    robot = four_chambers(3)
    running.sought(robot, ["bend_angle_deg=1"], ALONE, QUICK)
    assert "bend_angle_deg=1: reached with V/V0 = " in capsys.readouterr().out


def test_an_angle_in_degrees_is_recognised():
    with pytest.raises(geosim.InputError, match=r"5157 deg; give numpy.radians\(90\)"):
        Goal.bend_angle(90.0)
