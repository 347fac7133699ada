"""What tolerances leave open of a measure, against robots that were made so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Load, Passive
from geosim.errors import InputError
from geosim.model.tolerances import Tolerances
from geosim.response.accuracy.bars import error_bars
from geosim.response.accuracy.tolerances import offsets

QUICK = EnergyShapeSolver(check_stability=False)
RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)
SIZES = (0.03, 0.012, 0.012)


def bar(material=RUBBER, cells=(3, 1, 1), hollow=False):
    """A bar, or one with a box of a chamber in its middle cell."""
    vertices, tets = block(SIZES, cells)
    inside = np.zeros(len(tets), dtype=int)
    if hollow:
        inside[(np.abs(vertices[tets].mean(axis=1) - np.array(SIZES) / 2) < np.array(SIZES) / 6 + 1e-4).all(axis=1)] = 1
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > SIZES[0] - 1e-9
    return geosim.VolumetricRobot.from_tets(vertices, tets, inside, material=material, fixed=ends[0], tip=ends[1])


def finger():
    return bar(cells=(3, 3, 3), hollow=True)


def test_offsets_move_each_wall_along_its_normal():
    robot = finger()
    skin, chamber = offsets(robot)
    top = robot.vertices[:, 2] > robot.vertices[:, 2].max() - 1e-9
    free = top & (robot.vertices[:, 0] > 1e-9)
    np.testing.assert_allclose(skin[free, 2], 1.0, atol=1e-9)
    np.testing.assert_allclose(skin[np.asarray(robot.fixed), 0], 0.0, atol=1e-9)
    walls = np.unique(np.concatenate(list(robot.chamber_walls)))
    np.testing.assert_allclose(skin[walls], 0.0, atol=1e-12)
    moved = replace(robot, vertices=robot.vertices + 1e-5 * chamber)
    area = sum(
        0.5 * np.linalg.norm(np.cross(t[1] - t[0], t[2] - t[0])) for t in robot.vertices[np.vstack(robot.chamber_walls)]
    )
    change = abs(moved.chamber_volumes.sum() - robot.chamber_volumes.sum())
    assert change == pytest.approx(area * 1e-5, rel=0.01)


def test_geometry_is_what_a_bar_that_was_cast_thicker_bends_less():
    """The skin is the only surface: the term is t |dm/dn|, held against solves of thicker and thinner bars."""
    robot = bar(cells=(4, 1, 1))
    environment = Environment(loads=Load.force(robot.tip, (0, 0, -2e-3)), self_contact=False)
    result = geosim.solve(robot, Passive(), environment, solver=QUICK)
    thick = 0.1e-3
    found = error_bars(result, "tip", tolerance=thick)
    (skin,) = offsets(robot)
    ends = []
    for sign in (1, -1):
        other = replace(robot, vertices=robot.vertices + sign * 0.3 * thick * skin)
        ends.append(geosim.solve(other, Passive(), environment, solver=QUICK).tip[-1])
    np.testing.assert_allclose(found.terms["geometry"], np.abs(ends[0] - ends[1]) / 0.6, rtol=0.02, atol=1e-7)
    deflection = abs(result.tip[-1, 2] - robot.vertices[robot.tip, 2].mean())
    # 4 F L^3 / (E h^4): h grows by 2 t of 12 mm, L by t of 30 mm, since the clamped face stays
    assert found.terms["geometry"][2] == pytest.approx(
        (4 * 2 * thick / 0.012 - 3 * thick / 0.03) * deflection, rel=0.15
    )
    np.testing.assert_allclose(
        error_bars(result, "tip", tolerance=2 * thick).terms["geometry"], 2 * found.terms["geometry"]
    )


def test_gauge_clamp_marker_and_model():
    robot = finger()
    result = geosim.solve(robot, Inflation(pressure=[3e3]), Environment(self_contact=False), solver=QUICK)
    given = Tolerances(gauge=50.0, clamp=0.01, marker=0.5e-3, model=0.1)
    found = error_bars(result, "tip", tolerance=given)
    ends = [
        geosim.solve(robot, Inflation(pressure=[3e3 + h]), Environment(self_contact=False), solver=QUICK).tip[-1]
        for h in (50.0, -50.0)
    ]
    np.testing.assert_allclose(found.terms["gauge"], np.abs(ends[0] - ends[1]) / 2, rtol=0.01, atol=1e-9)
    around = result.tip[-1] - robot.vertices[robot.fixed].mean(axis=0)
    across = [np.hypot(around[1], around[2]), np.hypot(around[0], around[2]), np.hypot(around[0], around[1])]
    np.testing.assert_allclose(found.terms["clamp"], 0.01 * np.array(across), rtol=1e-9)
    np.testing.assert_allclose(found.terms["marker"], 0.5e-3)
    rest = robot.tip_weights @ robot.vertices[robot.tip]
    np.testing.assert_allclose(found.terms["model"], 0.1 * np.abs(result.tip[-1] - rest), rtol=1e-9)
    known = {k: v for k, v in found.terms.items() if k != "material"}
    drawn = np.sqrt(sum(v**2 for k, v in known.items() if k not in ("mesh", "faceting")))
    np.testing.assert_allclose(found.expected, known["mesh"] + known["faceting"] + drawn, rtol=1e-12)
    assert found.dominant in found.terms
    assert "%" in found.sentence()
    assert "material" in found.sentence()  # no scatter is known of it
    pressures = error_bars(result, "chamber_pressures", tolerance=given)
    np.testing.assert_allclose(pressures.terms["gauge"], 50.0)
    assert pressures.terms["clamp"] == 0.0


def test_the_total_is_the_sum_of_the_terms():
    robot = bar("ecoflex-00-30-fang2022")
    environment = Environment(loads=Load.force(robot.tip, (0, 0, -2e-3)), self_contact=False)
    result = geosim.solve(robot, Passive(), environment, solver=QUICK)
    found = error_bars(result, tolerance=0.2e-3)
    np.testing.assert_allclose(found.total, sum(found.terms.values()), rtol=1e-12)
    assert (found.expected <= found.total).all()
    assert set(error_bars(result).terms) == {"mesh", "material", "faceting"}


@pytest.mark.parametrize("tolerance", [-1e-3, "0.2", float("nan")])
def test_impossible_tolerances_are_refused(tolerance):
    result = geosim.solve(bar(), Passive(), Environment(self_contact=False), solver=QUICK)
    with pytest.raises(InputError, match="tolerance"):
        error_bars(result, tolerance=tolerance)


BLOCK = """*Part, name=B
*Node
1, 0, 0, 0
2, 20, 0, 0
3, 0, 20, 0
4, 0, 0, 20
*Element, type=C3D4
1, 1, 2, 3, 4
*End Part
*Assembly
*Instance, name=B-1, part=B
*End Instance
*End Assembly
"""
ROBOT = """kind = "volumetric"
units = "mm"
[body]
mesh = "block.inp"
material = "ecoflex-00-30-fang2022"
[fixed]
plane = "z"
below = 0.1
[tolerances]
wall = 0.2
gauge_kpa = 0.1
clamp_deg = 1.0
"""


def test_a_robot_file_says_its_tolerances(tmp_path):
    """They are what error_bars takes where nothing else is given, and stay with a saved result."""
    (tmp_path / "block.inp").write_text(BLOCK, encoding="utf-8")
    (tmp_path / "robot.toml").write_text(ROBOT, encoding="utf-8")
    robot = geosim.load_robot(tmp_path / "robot.toml")
    assert robot.tolerances == Tolerances(wall=0.2e-3, gauge=100.0, clamp=np.pi / 180)
    result = geosim.solve(robot, Passive(), Environment(gravity=(0, 0, -9.81), self_contact=False), solver=QUICK)
    found = error_bars(result)
    np.testing.assert_allclose(found.terms["geometry"], error_bars(result, tolerance=0.2e-3).terms["geometry"])
    assert "clamp" in found.terms
    result.save(tmp_path / "result.npz")
    assert geosim.load_result(tmp_path / "result.npz").robot.tolerances == robot.tolerances
    (tmp_path / "robot.toml").write_text(ROBOT.replace("0.2", "-0.2"), encoding="utf-8")
    with pytest.raises(InputError, match=r"tolerances.*wall"):
        geosim.load_robot(tmp_path / "robot.toml")


def test_what_was_not_said_of_cycles_and_holds_is_in_the_bar():
    """The term is the share that they may take times dm/d ln mu, held against solves of stiffer and softer bars."""
    softening = 0.25
    known = RUBBER.known_as("cycles and a hold", 2.0, 0.1, softening)
    robot = bar(known, cells=(4, 1, 1))
    environment = Environment(loads=Load.force(robot.tip, (0, 0, -2e-3)), self_contact=False)
    result = geosim.solve(robot, Passive(), environment, solver=QUICK)
    found = error_bars(result, "tip")
    step = 0.02
    ends = [
        geosim.solve(bar(RUBBER.stiffened(1 + h), (4, 1, 1)), Passive(), environment, solver=QUICK).tip[-1]
        for h in (step, -step)
    ]
    np.testing.assert_allclose(
        found.terms["history"], softening * np.abs(ends[0] - ends[1]) / (2 * step), rtol=0.01, atol=1e-8
    )
    np.testing.assert_allclose(found.total, sum(np.nan_to_num(t) for t in found.terms.values()), rtol=1e-12)
    said = replace(robot, materials={0: RUBBER.known_as("both were said", 2.0, 0.1)})
    assert "history" not in error_bars(geosim.solve(said, Passive(), environment, solver=QUICK), "tip").terms
