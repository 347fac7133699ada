"""Meshes that are refined where the error comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment, InputError, Load, Passive, Select, Status
from geosim.geometry import topology
from geosim.geometry.bisect import bisected
from geosim.response.accuracy import adapting
from geosim.response.accuracy.adapting import halved, shares
from geosim.response.accuracy.correction import correct

QUICK = EnergyShapeSolver(check_stability=False)
RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)
LOADED = Environment(loads=Load.force(Select.plane("x", above=0.03 - 1e-6), (0.0, 0.0, -0.05)))


def beam(**changes):
    """A bar from its surface."""
    box = trimesh.creation.box(bounds=[[0.0, 0.0, 0.0], [0.03, 0.01, 0.01]])
    ends = {"fixed": Select.plane("x", below=1e-6), "tip": Select.plane("x", above=0.03 - 1e-6)}
    return geosim.VolumetricRobot.from_surfaces(box, material=RUBBER, max_edge=9e-3, **{**ends, **changes})


def test_halved_edges_leave_a_conforming_mesh_of_the_same_body():
    """Volume and boundary stay to rounding: a hanging node would open the boundary. Chosen tets are in eight, shapes keep."""
    vertices, tets = block((2.0, 1.0, 1.0), (4, 2, 2))
    for k in range(3):
        near = np.linalg.norm(vertices[tets].mean(axis=1) - (1.0, 0.5, 0.5), axis=1) < 0.6 / 2**k
        middles, edges, finer, parents = bisected(vertices, tets, np.flatnonzero(near))
        np.testing.assert_array_equal(middles, vertices[edges].mean(axis=1))
        counts = np.bincount(parents, minlength=len(tets))
        assert (counts[near] == 8).all()
        assert counts.max() == 8
        vertices = np.vstack([vertices, middles])
        volumes = topology.tet_volumes(vertices, finer)
        assert volumes.min() > 0.0
        np.testing.assert_allclose(np.bincount(parents, volumes), topology.tet_volumes(vertices, tets), rtol=1e-12)
        outside = topology.face_normals(vertices, topology.boundary_faces(finer))
        np.testing.assert_allclose(np.linalg.norm(outside, axis=1).sum() / 2.0, 10.0, rtol=1e-12)
        tets = finer


@pytest.mark.slow
def test_a_robot_keeps_what_is_held_where_edges_are_halved():
    robot = beam()
    finer = halved(robot, np.arange(0, len(robot.body_tets), 3))
    assert len(finer.vertices) > len(robot.vertices)
    for name, where in (("fixed", 0.0), ("tip", 0.03)):
        np.testing.assert_array_equal(
            np.sort(getattr(finer, name)), np.flatnonzero(np.abs(finer.vertices[:, 0] - where) < 1e-9)
        )


def test_the_shares_of_the_tets_bound_the_change_of_the_measure():
    """They are at least what the refined mesh changes (triangle inequality), and largest at the clamped edges."""
    robot = beam()
    result = geosim.solve(robot, Passive(), LOADED, solver=QUICK)
    found = correct(result, -1)
    by_tet = shares(found, "tip")
    value, _, fine = found.values("tip")
    assert by_tet.sum() >= 0.9 * np.linalg.norm(fine - value)
    largest = robot.vertices[robot.body_tets[np.argsort(by_tet)[-5:]]].mean(axis=1)
    assert (largest[:, 0] < 0.01).all()


@pytest.mark.slow
def test_adapt_meets_its_accuracy_with_a_graded_mesh():
    """The bar is met, the mesh is finer at the clamp, and a coarse accuracy needs fewer tets."""
    result, rough = (geosim.adapt(beam(), Passive(), LOADED, accuracy=a, solver=QUICK) for a in (0.03, 0.5))
    bars = geosim.error_bars(result, "tip")
    robot = result.robot
    change = np.linalg.norm(bars.value - robot.tip_weights @ robot.vertices[robot.tip])
    assert result.converged
    assert np.linalg.norm(bars.mesh) <= 0.03 * change
    assert len(rough.robot.body_tets) < len(robot.body_tets)


def test_an_accuracy_out_of_reach_stops_with_the_best():
    result = geosim.adapt(beam(), Passive(), LOADED, accuracy=1e-5, solver=QUICK, max_tets=300)
    assert result.status is Status.STOPPED
    assert len(result.frames) == 1
    assert 0 < len(result.robot.body_tets) <= 300
    assert "300 tets" in result.message


@pytest.mark.parametrize("ends", ["rounds", "bar", "solve"])
def test_what_ends_the_refinement_is_said_beside_the_best(monkeypatch, ends):
    """The second mesh is the last, has no bar, or is not solved: the first is kept, and the message names the cause."""
    if ends == "rounds":
        monkeypatch.setattr(adapting, "MAX_REFINEMENTS", 1)
        said = "1 refinements did not suffice"
    elif ends == "bar":
        monkeypatch.setattr(adapting, "_missed", _once(adapting._missed, raising=InputError("too large")))
        said = "has no bar (too large)"
    else:
        monkeypatch.setattr(adapting, "solve", _once(adapting.solve, stopped=True))
        said = "ends with no way"
    result = geosim.adapt(beam(), Passive(), LOADED, accuracy=1e-5, solver=QUICK)
    assert result.status is Status.STOPPED
    assert not result.converged
    assert said in result.message


def _once(function, raising=None, stopped=False):
    """Return a function that works once; then it raises, or what it returns did not converge."""
    calls = []

    def wrapped(*args, **kwargs):
        calls.append(1)
        if len(calls) > 1 and raising is not None:
            raise raising
        out = function(*args, **kwargs)
        return replace(out, converged=False, message="no way") if len(calls) > 1 and stopped else out

    return wrapped


@pytest.mark.slow
def test_what_cannot_be_adapted_is_named():
    plain = beam()
    vertices, tets = block((0.03, 0.01, 0.01), (2, 1, 1))
    from_tets = geosim.VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=vertices[:, 0] < 1e-9)
    numbers = Environment(loads=Load.force([0], (0.0, 0.0, -0.1)))
    for robot, environment, changes, words in (
        (from_tets, LOADED, {}, "came from a mesh"),
        (plain, numbers, {}, "loads are given by numbers"),
        (beam(tip=[1]), LOADED, {}, "tip is given by numbers"),
        (plain, None, {}, "does not change from rest"),
        (plain, LOADED, {"accuracy": 0.0}, "accuracy"),
        (plain, LOADED, {"solver": geosim.ProjectiveShapeSolver()}, "no error bars"),
    ):
        with pytest.raises(geosim.InputError, match=words):
            geosim.adapt(robot, Passive(), environment, **{"solver": QUICK, **changes})
