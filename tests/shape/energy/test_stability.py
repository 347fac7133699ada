"""Stability of equilibria: the Euler column, its imperfect cousin, and a balloon that passes its pressure limit."""

from __future__ import annotations

import re

import numpy as np
import pytest
import trimesh
from shapes import block

import geosim
from geosim import Environment, Load, Passive
from geosim.linear.factorise import installed

LENGTH, SIDE = 0.15, 0.01
MU = 20e3  # Pa


def _column(cells=30):
    """A column whose mesh is its own mirror image, so that nothing but rounding makes it bend."""
    vertices, tets = block((SIDE / 2, SIDE / 2, LENGTH), (1, 1, cells))
    for axis in (0, 1):
        mirrored = vertices.copy()
        mirrored[:, axis] = SIDE - mirrored[:, axis]
        both = np.vstack([vertices, mirrored])
        _, first, inverse = np.unique(np.round(both * 1e9).astype(int), axis=0, return_index=True, return_inverse=True)
        tets = inverse.ravel()[np.vstack([tets, tets[:, [0, 2, 1, 3]] + len(vertices)])]
        vertices = both[first]
    robot = geosim.VolumetricRobot.from_tets(
        vertices,
        tets,
        material=geosim.NeoHookean(mu=MU),
        fixed=np.flatnonzero(vertices[:, 2] < 1e-9),
        tip=np.flatnonzero(vertices[:, 2] > LENGTH - 1e-9),
    )
    inertia, area = SIDE**4 / 12.0, SIDE**2
    euler = np.pi**2 * 3.0 * MU * inertia / (4.0 * LENGTH**2)
    return robot, euler / (1.0 + 1.2 * euler / (MU * area))  # Timoshenko: a column yields in shear, too


def told(result, expected) -> bool:
    """Whether stability is known everywhere; what is known is right, and pivots of Pardiso say it of every frame."""
    known = np.isfinite(result.stable)
    assert (result.stable[known] == np.array(expected)[known]).all()
    assert known.all() or installed()[0] != "pardiso"
    return bool(known.all())


@pytest.mark.parametrize("invariants", ["full", "isochoric"])
def test_euler_column(invariants):
    """The tangent turns indefinite at the buckling load: stable at 98 %, unstable at 102 % of it."""
    robot, critical = _column()
    factors = np.array([0.5, 0.9, 0.98, 1.02, 1.1])
    load = np.zeros((len(factors), 3))
    load[:, 2] = -factors * critical
    result = geosim.solve(
        robot,
        Passive(steps=len(factors)),
        Environment(loads=Load.force(robot.tip, load)),
        solver=geosim.EnergyShapeSolver(invariants=invariants),
    )
    assert result.converged  # the straight column is an equilibrium, and the result says that it is not stable
    if not told(result, [1, 1, 1, 0, 0]):
        return
    assert result.status is geosim.Status.UNSTABLE
    assert "Frame 3 is the first of 2" in result.message
    low, high = map(
        float, re.search(r"branches between (\S+) and (\S+) % of command 4 \(a bif", result.message).groups()
    )
    assert 0.0 <= low < high <= 100.0
    assert high - low < 3.0


@pytest.mark.slow
def test_a_limit_of_a_body_that_has_buckled_before_says_so():
    """A thick round tube under vacuum has a limit on its round path far beyond the load at which it goes flat."""
    length, radius, wall, cap = 20e-3, 8e-3, 2e-3, 4e-3
    outer = [[0.0, 0.0], [radius, 0.0], [radius, length], [0.0, length]]
    hollow = [[0.0, cap], [radius - wall, cap], [radius - wall, length - cap], [0.0, length - cap]]
    body, chamber = (trimesh.creation.revolve(np.array(profile), sections=8) for profile in (outer, hollow))
    robot = geosim.VolumetricRobot.from_surfaces(
        body,
        [chamber],
        material=geosim.NeoHookean(mu=5e4),
        max_edge=12e-3,
        remesh=False,
        fixed=geosim.Select.plane("z", below=1e-5),
    )
    solver = geosim.EnergyShapeSolver(element="p1")
    result = geosim.solve(robot, geosim.Inflation(pressure=-20e3), solver=solver, throw=False)
    assert result.status is geosim.Status.PRESSURE_LIMIT
    found = re.search(r"limit is (\S+) kPa.*branches between \((\S+) kPa.* and \((\S+) kPa", result.message)
    limit, low, high = (1e3 * float(kilopascals) for kilopascals in found.groups())
    assert limit < 1.5 * high < 1.5 * low < 0.0
    before, after = (
        geosim.solve(robot, geosim.Inflation(pressure=p), solver=solver, throw=False) for p in (low, 1.1 * high)
    )
    assert before.stable[-1] == 1.0
    assert after.status is geosim.Status.UNSTABLE or "lost its balance" in after.message


@pytest.mark.slow
def test_an_imperfect_column_bends_and_is_stable():
    robot, critical = _column(15)
    load = np.zeros((4, 3))
    load[:, 2] = -np.array([0.5, 0.9, 0.97, 1.06]) * critical
    result = geosim.solve(
        robot,
        Passive(steps=4),
        Environment(loads=Load.force(robot.tip, load), self_contact=False),
        solver=geosim.EnergyShapeSolver(imperfection=1e-2),
    )
    aside = np.linalg.norm(result.tip[:, :2] - SIDE / 2, axis=1)
    assert result.status is geosim.Status.CONVERGED
    told(result, [1] * 4)
    assert (np.diff(aside) > 0).all()
    assert aside[0] < 0.1 * LENGTH < aside[-1]


def test_a_solver_may_leave_stability_alone():
    robot, _ = _column()
    result = geosim.solve(robot, Passive(), solver=geosim.EnergyShapeSolver(check_stability=False))
    assert np.isnan(result.stable).all()
    with pytest.raises(geosim.InputError, match="imperfection"):
        geosim.EnergyShapeSolver(imperfection=0.5)


def test_a_result_of_an_imperfect_robot_refers_to_the_rest_shape_that_was_solved(tmp_path):
    """Nothing acts, so nothing moves: displacements count from the bent rest shape, which is that of result.robot."""
    robot, _ = _column()
    solver = geosim.EnergyShapeSolver(element="p1", imperfection=1e-2, check_stability=False)
    result = geosim.solve(robot, Passive(), solver=solver)
    bent = np.linalg.norm(result.robot.vertices - robot.vertices, axis=1).max()
    assert bent > 1e-3 * robot.size
    assert np.abs(result.frames[0] - result.robot.vertices).max() < 1e-9 * robot.size
    assert result.summary()[0]["max_displacement_mm"] < 1e-6 * bent * 1e3
    kept = geosim.load_result(result.save(tmp_path / "bent.npz"))
    assert np.array_equal(kept.robot.vertices, result.robot.vertices)
    assert np.linalg.norm(result.tip[0] - result.robot.vertices[robot.tip].mean(axis=0)) < 0.01 * robot.size
