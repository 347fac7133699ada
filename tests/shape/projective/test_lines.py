"""Cables, edge sets and face sets: what they are, and how the projective solver drives lengths and areas."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cubes import block

import geosim
from geosim.errors import InputError
from geosim.model.cable import Cable
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.lines import make_lines
from geosim.shape.projective.solver import ProjectiveShapeSolver

MESHES = Path(__file__).resolve().parents[3] / "meshes"
NX, NY, NZ, EDGE = 8, 3, 3, 0.005


@cache
def beam(cables=((0.0, 0.0075, 0.015), (0.04, 0.0075, 0.015))) -> VolumetricRobot:
    """A beam of 40 x 15 x 15 mm held at x = 0 with one straight cable along its top, or without."""
    vertices, tets, _ = block((NX, NY, NZ), EDGE, hollow=None)
    strings = [np.linspace(cables[0], cables[1], 9)] if cables else []
    return VolumetricRobot.from_tets(
        vertices, tets, material="ecoflex-00-30-fang2022", cables=strings, fixed=np.flatnonzero(vertices[:, 0] < 1e-9)
    )


def solve(robot, actuation, **options):
    options = {"tolerance": 1e-5, "error_estimate": False, **options}
    return geosim.solve(
        robot, actuation, geosim.Environment(self_contact=False), solver=ProjectiveShapeSolver(**options), throw=False
    )


@cache
def shortened():
    return solve(beam(), geosim.CableLengths([0.038, 0.036]))


def test_a_cable_is_fastened_where_its_points_are():
    (anchors,) = beam().cable_anchors
    assert np.allclose(anchors.points(beam().vertices), beam().cables[0].points)
    assert np.allclose(anchors.weights.sum(axis=1), 1.0)
    assert anchors.length(beam().vertices) == pytest.approx(0.04)


def test_gradient_of_lengths_and_areas_is_the_difference_quotient_of_their_energy():
    robot = beam()
    rng = np.random.default_rng(3)
    edges, faces = rng.integers(0, 20, (5, 1)) + [[0, 1]], robot.skin[:9]
    actuation = geosim.CableLengths([0.03]) & geosim.EdgeLengths(edges, 0.8) & geosim.FaceAreas(faces, 1.3)
    lines = make_lines(robot, actuation.command(0), np.full(len(robot.vertices), 50.0), None)
    lines = dataclasses.replace(lines, multipliers=rng.uniform(0.5, 1.0, lines.count) * 1e-2)
    x = robot.vertices + 1e-3 * rng.normal(size=robot.vertices.shape)
    gradient, _ = lines.evaluate(x)
    move = rng.normal(size=x.shape)
    h = 1e-7
    slope = (lines.evaluate(x + h * move)[1] - lines.evaluate(x - h * move)[1]) / (2 * h)
    assert slope == pytest.approx(float((gradient * move).sum()), rel=1e-6)
    assert np.abs(gradient.sum(axis=0)).max() < 1e-12 * np.abs(gradient).max(), "a string pulls on nothing but the body"


def test_a_shortened_cable_has_the_length_asked_for_and_bends_the_beam():
    result = shortened()
    assert result.converged, result.message
    assert np.allclose(result.cable_lengths[:, 0], [0.038, 0.036], rtol=1e-3)
    assert 0 < result.cable_tensions[0, 0] < result.cable_tensions[1, 0]
    assert result.tip[1, 2] > result.tip[0, 2] > beam().vertices[:, 2].mean(), "towards the cable"
    assert np.abs(result.reactions[1].sum(axis=0)).max() < 1e-3 * result.cable_tensions[1, 0]


def test_the_matrix_holds_a_cable_and_its_tension():
    """A displacement d changes the forces by H d (central differences), and the solve returns d."""
    state = solve(beam(), geosim.CableLengths(0.036)).state
    work, x, elements = state.work, np.array(state.x), state.work.elements
    assert elements.lines.active(x).tolist() == [0]
    elements.lines = dataclasses.replace(elements.lines, multipliers=10.0 * elements.lines.multipliers)  # a tight one
    work.matrix.follow(x, np.zeros(0))
    d, free, h = np.zeros_like(x), work.matrix.free, 1e-8
    d[free] = np.random.default_rng(0).normal(size=(len(free), 3))
    forces = [elements.evaluate(x + way * d, np.zeros(0)).force for way in (h, -h)]
    change = (forces[0] - forces[1]) / (2 * h)
    assert np.abs(work.matrix.solve(change[free]) - d[free]).max() < 1e-3 * np.abs(d).max()


def test_tension_and_length_are_dual():
    """The tension that a length needs gives that length back, and the same shape."""
    result = shortened()
    back = solve(beam(), geosim.CableTensions(result.cable_tensions[:, 0]))
    assert back.converged, back.message
    assert np.allclose(back.cable_lengths, result.cable_lengths, rtol=1e-3)
    assert np.abs(back.frames - result.frames).max() < 2e-3 * beam().size
    assert np.allclose(back.cable_tensions, result.cable_tensions)


def test_the_tension_is_the_work_conjugate_of_the_length():
    """dE/dl = -T."""
    result = solve(beam(), geosim.CableLengths([0.0363, 0.036, 0.0357]), tolerance=1e-6, volume_tolerance=1e-6)
    slope = (result.energies[2] - result.energies[0]) / (result.cable_lengths[2, 0] - result.cable_lengths[0, 0])
    assert -slope == pytest.approx(result.cable_tensions[1, 0], rel=1e-2)


def test_a_cable_does_not_push():
    result = solve(beam(), geosim.CableLengths([0.05]))
    assert result.converged
    assert result.cable_tensions[0, 0] == 0.0
    assert np.abs(result.frames[0] - beam().vertices).max() < 1e-6
    assert result.cable_lengths[0, 0] == pytest.approx(0.04)


def test_edges_are_driven_one_by_one():
    robot = beam(cables=None)
    top = np.flatnonzero(np.isclose(robot.vertices[:, 2], 0.015) & np.isclose(robot.vertices[:, 1], 0.005))
    edges = np.stack([top[:-1], top[1:]], axis=1)
    result = solve(robot, geosim.EdgeLengths(edges, [0.95, 1.05]))
    assert result.converged, result.message
    for frame, ratio in enumerate((0.95, 1.05)):
        x = result.frames[frame]
        length = np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1)
        assert np.allclose(length, ratio * EDGE, rtol=1e-3)
    rest = robot.vertices[:, 2].mean()
    assert result.tip[0, 2] > rest > result.tip[1, 2], "a shorter side bends towards it, a longer one away"


def test_an_area_is_driven():
    robot = beam(cables=None)
    top = robot.skin[np.isclose(robot.vertices[robot.skin][:, :, 2], 0.015).all(axis=1)]
    result = solve(robot, geosim.FaceAreas(top, 0.9))
    assert result.converged, result.message
    x = result.frames[0]
    a, b, c = (x[top[:, i]] for i in range(3))
    area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()
    assert area == pytest.approx(0.9 * 0.04 * 0.015, rel=1e-3)
    assert result.tip[0, 2] > robot.vertices[:, 2].mean()


def test_cables_come_from_the_robot_file(tmp_path):
    for name in ("body.stl", "chamber.stl"):
        (tmp_path / name).write_bytes((MESHES / "finger" / name).read_bytes())
    text = (MESHES / "finger" / "robot.toml").read_text(encoding="utf-8").replace("max_edge = 4.3", "max_edge = 8.0")
    file = tmp_path / "robot.toml"
    file.write_text(text + '\n[[cables]]\nname = "tendon"\npoints = [[0, 10, 5], [50, 10, 5], [100, 10, 5]]\n')
    robot = geosim.load_robot(file)
    assert robot.cables[0].name == "tendon"
    assert robot.cable_anchors[0].length(robot.vertices) == pytest.approx(0.1)
    both = solve(robot, geosim.Inflation(volume_ratio=1.2) & geosim.CableLengths(0.098), tolerance=1e-4)
    assert both.converged, both.message
    assert both.cable_lengths[0, 0] == pytest.approx(0.098, rel=1e-3)
    assert both.volume_ratios[0, 0] == pytest.approx(1.2, rel=1e-3)
    file.write_text(text + "\n[[cables]]\npoints = [[0, 10, 5], [50, 10, 40]]\n")
    with pytest.raises(InputError, match=r"cable 1: point 2 .* outside of the body by up to 2. *"):
        geosim.load_robot(file)


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (lambda: Cable([(0, 0, 0)]), "at least two"),
        (lambda: Cable([(0, 0, 0), (0, 0, 0), (1, 0, 0)]), "points 1 and 2 are the same"),
        (lambda: solve(beam(cables=None), geosim.CableLengths(0.03)), "no cables"),
        (lambda: solve(beam(), geosim.CableLengths([[0.03, 0.03]])), "2 columns"),
        (lambda: solve(beam(), geosim.CableLengths(0.03) & geosim.CableTensions(1.0)), "both a length and a tension"),
        (lambda: solve(beam(), geosim.EdgeLengths([[0, 10_000]], 0.9)), "name vertex 10000"),
        (lambda: solve(beam(), geosim.FaceAreas([[0, 1, 10_000]], 0.9)), "name vertex 10000"),
        (lambda: geosim.EdgeLengths([[0, 1]], -0.9), "impossible"),
        (lambda: geosim.EdgeLengths([[0, 1]], [[0.9, 0.8]]), "2 columns for 1"),
        (lambda: geosim.FaceAreas([[0, 1]], 0.9), r"shape \(m, 3\)"),
        (lambda: geosim.FaceAreas([[0, 1, 2]], [[0.9, 0.8]]), "one area"),
    ],
)
def test_what_makes_no_sense_is_refused(action, match):
    with pytest.raises(InputError, match=match):
        action()
