"""The designs that ship with the package solve, and each shows its number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import geosim
from geosim import Result, Status, cli, load_result, solve
from geosim.cli.rod_cases import (
    CASES,
    falling_rod,
    flapping_plate,
    gravity_cantilever,
    manta,
    parachute,
    pneunet,
    pneunet_load_path,
)
from geosim.files.actuation import load_actuation


def test_pneunet_without_load_is_nearly_an_arc_of_its_natural_curvature():
    """At 20 GPa the weight bends it little: the chord of an arc of 0.1 m with the natural curvature."""
    for curvature in (15.7, 31.45, 47.15):
        result = solve(**pneunet(curvature).arguments())
        free = 0.1 - 0.5 * 0.002  # clamped from the middle of the first bend
        chord = 2 / curvature * np.sin(0.5 * curvature * free)
        start = np.array([0.001, 0, 0])
        assert np.linalg.norm(result.tip[-1] - start) == pytest.approx(abs(chord), rel=0.02)
        pulled = solve(**pneunet(curvature, force=1.0).arguments())
        assert pulled.tip[-1, 0] > 0.099  # 175 N pull it straight
        assert pulled.converged


@pytest.mark.parametrize("modulus", [pytest.param(2e6, marks=pytest.mark.slow), 2e9])
def test_a_falling_rod_comes_to_rest_on_the_ground(modulus):
    case = falling_rod(modulus)
    result = solve(**case.arguments())
    # before it lands it falls freely (backward Euler: g t (t + dt) / 2)
    early = result.times < 0.08
    lowest = result.frames[:, :, 2].min(axis=1)
    fall = 0.5 * 9.8 * result.times[early] * (result.times[early] + case.solver.dt)
    assert np.allclose(lowest[early], 0.05 - fall, atol=1e-6)
    assert np.abs(result.extra["velocities"][-1]).max() < 1e-3
    weight = result.state.system.weight.sum()
    assert result.obstacle_forces[-1, 0, 2] == pytest.approx(weight, rel=0.01)
    # contact bears the weight w of a vertex at the gap of 2 k s^2 K1 = w, s = exp(-K1 gap) / K1
    share, sharp = 1500.0 * np.pi * 1e-3**2 * 0.075 / 40 * 9.8, 15.0 / 1e-3
    assert lowest[-1] - 1e-3 == pytest.approx(-np.log(0.5 * share * sharp / 20.0) / (2 * sharp), rel=0.12)


@pytest.mark.slow
def test_parachute_falls_at_the_speed_of_the_drag_balance_and_stays_symmetric():
    case = parachute()
    result = solve(**case.arguments())
    system, robot = result.state.system, case.robot
    x, v = result.frames[-1], result.extra["velocities"][-1]
    corner = x[robot.triangles]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    drag = 0.0
    for k in range(3):
        s = (v[robot.triangles[:, k]] * normal).sum(axis=1)
        drag -= (1.0 * 10.0 * robot.mesh.areas / 6 * np.abs(s) * s * normal[:, 2]).sum()
    assert drag == pytest.approx(-system.weight.sum(), rel=0.01)
    mass = system.mass[: system.turns : 3]
    speeds = (result.extra["velocities"][:, :, 2] @ mass) / mass.sum()
    assert speeds[-1] == pytest.approx(speeds[-10], rel=0.01)  # terminal
    area = robot.mesh.areas.sum()
    assert -speeds[-1] > np.sqrt(2 * -system.weight.sum() / (10.0 * area))  # a bowl catches less than a flat sheet
    centre = (x[:, :2].T @ mass) / mass.sum()
    assert np.abs(centre).max() < 2e-3
    rim = np.flatnonzero(np.isclose(np.linalg.norm(robot.vertices, axis=1), 1.0))
    assert len(rim) == 6
    assert np.ptp(x[rim, 2]) < 0.02
    assert x[robot.triangles].reshape(-1, 3)[:, 2].max() > x[rim, 2].max() + 0.05  # an inverted bowl


@pytest.mark.slow
def test_the_manta_ray_swims_forward_and_straight():
    """It moves to +y by a third of its length in 0.6 s; x stays 0 to round-off, as everything is symmetric."""
    case = manta(duration=0.6, rows=6, dt=4e-3)
    result = solve(**case.arguments())
    assert result.converged
    mass = result.state.system.mass[: result.frames[0].size].reshape(-1, 3)[:, 0]
    centre = (result.frames * mass[:, None]).sum(axis=1) / mass.sum()
    leading = int(np.argmax(case.robot.vertices[:, 1]))
    assert np.abs(centre[:, 0]).max() < 1e-9
    assert np.abs(result.frames[:, leading, 0]).max() < 1e-9
    assert centre[-1, 1] - centre[0, 1] > 0.2
    assert result.frames[-1, leading, 1] - 0.5 > 0.2
    assert np.abs(centre[:, 2]).max() < 0.6  # nearly keeps its height
    backwards = manta(duration=0.6, rows=6, dt=4e-3, frequency=-3.4)
    other = solve(**backwards.arguments())
    assert (other.frames[-1, :, 1] - other.frames[0, :, 1]).mean() < centre[-1, 1] - centre[0, 1] - 0.2


def test_the_pneunet_rod_and_the_cantilevers_reach_their_shapes():
    rod = solve(**pneunet_load_path().arguments())
    assert rod.converged
    assert (rod.tip[4:, 0] > 0.095).all()  # pulled nearly straight
    assert rod.tip[2, 0] < 0.02
    # 60.42 mm: the exact elastica of w L^3 / E I = 7.063
    drops = [-solve(**gravity_cantilever(kind).arguments()).tip[-1, 2] for kind in ("rod", "hinge", "mid-edge")]
    np.testing.assert_allclose(drops, 60.42e-3, rtol=0.03)
    np.testing.assert_allclose([drops[0], drops[2]], 60.42e-3, rtol=0.005)


def test_the_flapping_plate_follows_its_root_and_lags():
    case = flapping_plate(duration=0.3)
    result = solve(**case.arguments())
    assert result.converged
    root, tip = result.frames[:, 0, 2], result.tip[:, 2]
    np.testing.assert_allclose(root, 0.05 * np.sin(2 * np.pi * result.times), atol=1e-9)
    assert tip[np.argmax(root)] < root.max()  # water holds it back


def test_every_design_is_a_case_that_can_start():
    for name, make in CASES.items():
        case = make()
        state = case.solver.start(case.robot, case.environment)
        assert np.isfinite(state.q).all(), name
        assert len(case.solver.commands(case.robot, case.actuation)) >= 1


@pytest.mark.parametrize("name", list(CASES))
def test_a_saved_robot_is_the_same_robot(name, tmp_path):
    """Building it again from its own arguments, as a result file does, adds no joints to joints."""
    robot = CASES[name]().robot
    kept = Result(Status.CONVERGED, "", True, np.zeros(1), robot.vertices[None], robot=robot)
    for again in (replace(robot), load_result(kept.save(tmp_path / "r.npz")).robot):
        assert again.edges.tolist() == robot.edges.tolist()
        assert again.own_edges == robot.own_edges
        assert again.bends.edges.tolist() == robot.bends.edges.tolist()
        assert again.radius.tolist() == robot.radius.tolist()
        assert again.fixed_vertices.tolist() == robot.fixed_vertices.tolist()


def test_a_table_of_curvatures_becomes_a_film(tmp_path, monkeypatch):
    """One command; the same table from [natural_shape] file =, whose other keys are refused."""
    monkeypatch.chdir(tmp_path)
    lines = [
        'kind = "rod-shell"\nunits = "mm"\n[[limbs]]\nstart = [0, 0, 0]\nend = [100, 0, 0]\nnodes = 6\n[rod]\nradius = 4.0',
        'material = { model = "linear-elastic", youngs_modulus = 1e6, density = 1000.0 }',
        "[fixed]\nids = [0, 1]\nedges = [0]\n[solver]\nstatic = true\n",
    ]
    Path("arm.toml").write_text("\n".join(lines))
    Path("bend.csv").write_text("time,curvature_1,curvature_2\n0,0,0\n1,0,10\n")
    done = CliRunner().invoke(
        cli.main, ["solve", "arm.toml", "--actuation", "bend.csv", "--film", "bend.gif", "--out", "out"]
    )
    assert done.exit_code == 0, done.output
    assert Path("bend.gif").stat().st_size > 1000
    bent = geosim.load_result("out/result.npz")
    assert bent.bend_angle[-1] == pytest.approx(10.0 * 0.1, rel=0.05)
    Path("act.toml").write_text('[natural_shape]\nfile = "bend.csv"\n')
    assert load_actuation("act.toml").curvature.shape == (2, 1, 2)
    Path("act.toml").write_text('[natural_shape]\nfile = "bend.csv"\ntimes = [0, 1]\n')
    with pytest.raises(geosim.InputError, match="so give it alone"):
        load_actuation("act.toml")
