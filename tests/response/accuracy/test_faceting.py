"""What flat facets cost, against volumes of spheres and tubes and the closed form of a thick sphere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from shapes import shell, sphere_pressure

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Prescribed, generate
from geosim.generate.surfaces import tube
from geosim.response.accuracy.faceting import facet_motion
from geosim.shape.energy.constraints.supports import minimal_constraints

RUBBER = geosim.NeoHookean(mu=50e3)
QUICK = EnergyShapeSolver(check_stability=False)


def sphere(subdivisions):
    """A thick sphere of radii 10 and 13 mm, drawn with facets whose vertices lie on it."""
    vertices, tets, regions = shell(0.01, 0.013, subdivisions, 1)
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=RUBBER, fixed=None)


def solid(surface, max_edge):
    held = geosim.Select.plane("x", below=1e-6)
    return geosim.VolumetricRobot.from_surfaces(surface, material=RUBBER, fixed=held, max_edge=max_edge, remesh=False)


@pytest.mark.parametrize("subdivisions", [1, 2])
def test_facets_of_a_sphere_have_its_volume_where_they_are_moved_to(subdivisions):
    """Nine tenths of what they lack is found, and no more than a tenth too much."""
    robot, volume = sphere(subdivisions), 4.0 / 3.0 * np.pi * 0.01**3
    moved = replace(robot, vertices=robot.vertices + facet_motion(robot))
    lacking = volume - robot.chamber_volumes[0]
    assert abs(moved.chamber_volumes[0] - volume) < 0.1 * lacking


@pytest.mark.parametrize("max_edge", [10e-3, 3e-3])
def test_facets_of_a_tube_have_its_section(max_edge):
    """However fine their mesh is: the facets are those that were drawn; flat ends stay where they are."""
    rod = trimesh.creation.cylinder(radius=5e-3, height=30e-3, sections=16)
    rod.apply_transform([[0, 0, 1, 0.015], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]])
    robot = solid(rod, max_edge)
    motion = facet_motion(robot)
    moved = replace(robot, vertices=robot.vertices + motion)
    round_ = np.pi * 0.005**2 * 0.03
    assert abs(moved.body_volume - round_) < 0.1 * (round_ - robot.body_volume)
    assert np.abs(motion[:, 0]).max() < 1e-9


def test_what_is_drawn_flat_has_no_facets():
    """A block, a design whose polygons have the areas of circles, and a plane that a round edge runs into."""
    block = trimesh.creation.box(bounds=[(0, 0, 0), (0.03, 0.01, 0.01)])
    assert not facet_motion(solid(block, 5e-3)).any()
    assert not facet_motion(generate.round_finger(length=40e-3).robot(RUBBER, max_edge=20e-3)).any()
    angles = np.linspace(0.0, 0.5 * np.pi, 5)
    corner = np.column_stack([0.008 + 0.002 * np.sin(angles), 0.008 + 0.002 * np.cos(angles)])
    outline = np.vstack([[[0.0, 0.0], [0.0, 0.01]], corner, [[0.01, 0.0]]])
    ring = np.insert(outline[::-1], 0, 0.0, axis=1)
    robot = solid(tube(np.stack([ring, ring + [0.03, 0.0, 0.0]])), 10e-3)
    motion = facet_motion(robot)
    lost = 0.03 * (0.25 * np.pi * 0.002**2 - 4 * 0.5 * 0.002**2 * np.sin(np.pi / 8))
    moved = replace(robot, vertices=robot.vertices + motion)
    assert 0.5 * lost < moved.body_volume - robot.body_volume < 1.5 * lost


def pressed(subdivisions, ratio):
    """A sphere at the pressure that inflates a round one to a volume ratio, and that pressure [Pa]."""
    robot = sphere(subdivisions)
    pressure = sphere_pressure(0.5 * RUBBER.mu, 0.0, ratio, 1.3**3)
    held = []  # nothing but rigid motion
    for vertex, axis in minimal_constraints(robot.vertices[robot.body_vertices]):
        held.append(Prescribed([vertex], np.where(np.arange(3) == axis, 0.0, np.nan)))
    around = Environment(self_contact=False, prescribed=held)
    return geosim.solve(robot, Inflation(pressure=pressure), around, solver=QUICK), pressure


@pytest.mark.slow
def test_the_bar_of_a_sphere_covers_its_closed_form():
    """Inflated by pressure: the chamber's volume is off by its facets, ten times as much as by its mesh."""
    ratio = 1.5
    bars = geosim.error_bars(pressed(2, ratio)[0], "chamber_volumes")
    error = abs(bars.value[0] - ratio * 4.0 / 3.0 * np.pi * 0.01**3)
    assert bars.mesh[0] < 0.5 * error
    assert 0.8 * error < bars.faceting[0] < 1.3 * error
    assert error < bars.mesh[0] + bars.faceting[0]


def test_facets_do_not_change_what_is_commanded():
    result, pressure = pressed(1, 1.5)
    np.testing.assert_allclose(geosim.error_bars(result, "chamber_pressures").faceting, 0.0, atol=1e-6 * pressure)


def test_where_it_is_not_known_that_is_said():
    """With closed gas; the total is then that of the others."""
    result = geosim.solve(sphere(1), Inflation(gas=True, temperature_ratio=[1.05]), solver=QUICK)
    bars = geosim.error_bars(result, "chamber_volumes")
    assert np.isnan(bars.faceting).all()
    assert "facets" in bars.note
    assert np.isnan(bars.total).all() == np.isnan(bars.material).all()
