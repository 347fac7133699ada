"""Meshes that are their own images: one half is meshed and mirrored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh

import geosim
from geosim import generate
from geosim.geometry.halves import mesh_halves
from geosim.geometry.mesh import mesh_surfaces
from geosim.geometry.surface import check_surface
from geosim.shape.energy.discretisation.mirror import find_mirrors

RUBBER = geosim.NeoHookean(mu=50e3)


def _planes(robot):
    problem = geosim.EnergyShapeSolver().start(robot, geosim.Environment()).problem
    return [mirror.name for mirror in find_mirrors(problem, problem.held)[0]]


@pytest.mark.slow
def test_a_mirrored_mesh_is_the_same_robot():
    """A chamber that the plane cuts and one on either side: volumes, their order, and what is held."""
    design = generate.membrane(chambers=4, size=100e-3)
    plain, robot = (design.robot(RUBBER, max_edge=20e-3, symmetry=s) for s in (None, "auto"))
    np.testing.assert_allclose(robot.chamber_volumes, plain.chamber_volumes, rtol=1e-9)
    np.testing.assert_allclose(robot.body_volume, plain.body_volume, rtol=1e-9)
    for c in range(robot.chambers):
        places = [r.vertices[r.chamber_walls[c]].reshape(-1, 3) for r in (robot, plain)]
        np.testing.assert_allclose(places[0].min(axis=0), places[1].min(axis=0), atol=1e-9)
    assert any(name.startswith("y") for name in _planes(robot))
    assert robot.remesh(max_edge=25e-3).remesh.keywords["symmetry"] == "auto"


def test_a_finger_with_one_chamber():
    design = generate.pneunet(chambers=1, chamber_length=12e-3)
    robot = design.robot(RUBBER, max_edge=12e-3, symmetry="y")
    assert robot.chambers == 1
    assert robot.notices == ()
    np.testing.assert_allclose(robot.chamber_volumes[0], design.chambers[0].volume, rtol=1e-9)
    assert _planes(robot) == ["y = 10 mm"]


def test_bodies_on_each_other_and_in_each_other():
    """A plate on a block, and a core in the block: three bodies, each half with its own region."""
    box = lambda low, high: trimesh.creation.box(bounds=[low, high])  # noqa: E731
    parts = [box((0, -5, 0), (30, 5, 10)), box((0, -5, 10), (30, 5, 12)), box((10, -2, 3), (20, 2, 7))]
    for part in parts:
        part.apply_scale(1e-3)
    stiff, hard = geosim.NeoHookean(mu=1e6), geosim.NeoHookean(mu=2e6)
    robot = geosim.VolumetricRobot.from_surfaces(
        parts,
        material=[RUBBER, stiff, hard],
        fixed=geosim.Select.plane("x", below=1e-6),
        max_edge=5e-3,
        symmetry="auto",
    )
    volumes = {m.mu: robot.vertices[robot.tets[robot.regions == r]] for r, m in robot.materials.items()}
    volumes = {mu: np.abs(np.linalg.det(x[:, 1:] - x[:, :1])).sum() / 6e-9 for mu, x in volumes.items()}
    np.testing.assert_allclose([volumes[50e3], volumes[1e6], volumes[2e6]], [2840.0, 600.0, 160.0], rtol=1e-6)
    assert _planes(robot) == ["y = 0 mm"]


def test_what_has_no_plane_is_named():
    """A chamber off the middle: a notice, or for a plane that was asked for an error, with how far it is off."""
    body = trimesh.creation.box(bounds=[(0, 0, 0), (0.03, 0.011, 0.013)])
    chamber = trimesh.creation.box(bounds=[(0.01, 0.003, 0.004), (0.019, 0.007, 0.008)])
    make = lambda s: geosim.VolumetricRobot.from_surfaces(  # noqa: E731
        body, [chamber], material=RUBBER, fixed=geosim.Select.plane("x", below=1e-6), max_edge=5e-3, symmetry=s
    )
    robot = make("auto")
    assert any("have no such plane" in line and "meshed as they are" in line for line in robot.notices)
    with pytest.raises(geosim.InputError, match="1 mm off their image in y"):
        make("y")
    with pytest.raises(geosim.InputError, match="symmetry"):
        make("left")


@pytest.mark.parametrize("bad", [1, 3])
def test_a_half_that_leaves_the_plane_is_meshed_again(bad):
    drawn = []

    def mesher(bodies, edge):
        mesh = mesh_surfaces(bodies, max_edge=edge)
        vertices = mesh.vertices.copy()
        inner = (np.abs(vertices[:, 1]) < 1e-9) & (np.abs(vertices[:, 0]) < 0.019) & (np.abs(vertices[:, 2]) < 0.004)
        vertices[np.argmax(inner), 1] += 1e-5 * (len(drawn) < bad)
        drawn.append(edge)
        return replace(mesh, vertices=vertices)

    body = [check_surface(trimesh.creation.box((0.04, 0.02, 0.01)))]
    if bad == 3:
        with pytest.raises(geosim.InputError, match="do not meet in the plane of symmetry"):
            mesh_halves(body, [], 1, 3e-3, mesher, lambda *given: (*given, ()))
    else:
        mesh = mesh_halves(body, [], 1, 3e-3, mesher, lambda *given: (*given, ()))
        assert mesh.region_volume(0) == pytest.approx(8e-6, rel=1e-12)
    assert len(drawn) == min(bad + 1, 3)
