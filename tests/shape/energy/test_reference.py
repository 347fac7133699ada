"""The energy solver against reference finite elements and measurements."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import sphere_pressure

import geosim
from geosim.linear.factorise import describe
from geosim.resources import resource

MOONEY = geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3)
PLAIN = geosim.EnergyShapeSolver(check_stability=False)
AS_PUBLISHED = geosim.EnergyShapeSolver(check_stability=False, invariants="full")
ALONE = geosim.Environment(self_contact=False)


def _case(folder, name):
    d = np.load(folder / "cases" / f"{name}.npz")
    fixed = d["fixed"] if len(d["fixed"]) else None
    return geosim.VolumetricRobot.from_tets(
        d["points"] * 1e-3,
        d["tets"],
        d["region"],
        material=MOONEY,
        fixed=fixed,
        tip=d["tip"] if len(d["tip"]) else None,
    )


@pytest.mark.slow
def test_finger_is_the_reference_finite_element_solution(reference_data):
    """Taylor-Hood on the same mesh: displacement and pressure within 0.2 %, the body's volume within 1e-6."""
    robot = _case(reference_data, "finger_simple_8k")
    reference = np.load(reference_data / "fem" / "finger_simple_8k_p2p1.npz", allow_pickle=True)
    ratios = [1.1, 2.0]
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=ratios), ALONE, solver=AS_PUBLISHED)
    body = robot.body_vertices
    for i, ratio in enumerate(ratios):
        row = int(np.argmin(np.abs(reference["rows"][:, 0] - ratio)))
        u = (result.frames[i] - robot.vertices)[body]
        exact = reference["positions"][row][body] * 1e-3 - robot.vertices[body]
        assert np.linalg.norm(u - exact) < 2e-3 * np.linalg.norm(exact)
        assert result.chamber_pressures[i, 0] == pytest.approx(reference["rows"][row, 1] * 1e6, rel=2e-3)
    assert np.abs(result.body_volume_ratio - 1).max() < 1e-6
    assert len(result.trace) <= 12 + 6
    assert (result.crossings == 0).all()


@pytest.mark.slow
def test_sphere_case_has_the_exact_pressure(reference_data):
    """The only fixed vertex lies in the chamber: the body is free, and does not drift."""
    if describe()["factoriser"] == "superlu":
        pytest.skip("SuperLU takes several minutes for this mesh; smaller spheres are held against the same formula")
    robot = _case(reference_data, "sphere")
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.2), ALONE, solver=PLAIN)
    wall = 1 + robot.body_volume / robot.chamber_volumes[0]
    assert sphere_pressure(*MOONEY.constants(), 1.5, wall) == pytest.approx(41.656e3, rel=1e-4)
    exact = sphere_pressure(*MOONEY.constants(), 1.2, wall)
    assert result.chamber_pressures[0, 0] == pytest.approx(exact, rel=5e-4)


@pytest.mark.slow
def test_shipped_finger_agrees_with_the_finite_element_table():
    """Same finger, own mesh. Taylor-Hood elsewhere: 33.13 / 32.36 / 31.98 kPa at V/V0 = 2 on 5.7k / 24k / 66k tets."""
    robot = geosim.load_robot(resource("meshes") / "finger" / "robot.toml")
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=2.0), ALONE, solver=PLAIN)
    # between the finest mesh and the mesh of the same size
    assert 31.98e3 < result.chamber_pressures[0, 0] < 33.13e3
    bend = result.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip]
    assert bend[2] == pytest.approx(-4.85e-3, rel=0.01)  # the limit of fine meshes
    assert abs(bend[1]) < 0.02e-3
    assert result.residual[-1] < 1e-6


@pytest.mark.slow
def test_measured_beam(reference_data):
    """Dragon Skin 10 cantilever, gravity and 0.51 N on the top edge: 17.0 mm measured (the authors fitted mu on it)."""
    robot = geosim.VolumetricRobot.from_surfaces(
        reference_data / "robots" / "beam" / "beam.stl",
        units="mm",
        max_edge=12e-3,
        fixed=geosim.Select.plane("z", below=1e-6),
        material=geosim.NeoHookean(mu=88.0e3, bulk_modulus=44e6),
        tip=geosim.Select.plane("z", above=0.1 - 1e-6),
    )
    edge = geosim.Select.plane("z", above=0.1 - 1e-6) & geosim.Select.plane("x", above=0.03 - 1e-6)
    result = geosim.solve(
        robot,
        geosim.Passive(),
        geosim.Environment(gravity=(-9.81, 0, 0), loads=geosim.Load.force(edge, (-0.51012, 0, 0)), self_contact=False),
        solver=PLAIN,
    )
    moved = np.linalg.norm(result.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip])
    assert moved == pytest.approx(17.0e-3, rel=0.03)
