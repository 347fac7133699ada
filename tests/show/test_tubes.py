"""Tubes of rods and cables are closed surfaces that bends, joints and folds do not open."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

import geosim
from geosim import generate
from geosim.show.cables import cable_points, cable_surface
from geosim.show.contact import surroundings
from geosim.show.motion import resampled
from geosim.show.tubes import tubes


def chain(count):
    return np.column_stack([np.arange(count), np.arange(1, count + 1)])


def bent(turn):
    angles = np.linspace(0.0, turn, 6)
    return np.column_stack([np.sin(angles), np.zeros(6), np.cos(angles)])


def closed(x, edges, radius):
    """The surface of tubes, which is closed and outward."""
    surface = trimesh.Trimesh(*tubes(np.asarray(x, dtype=float), np.asarray(edges), np.asarray(radius)), process=False)
    assert surface.is_watertight
    assert surface.is_winding_consistent
    assert surface.volume > 0
    return surface


@pytest.mark.parametrize("turned", [False, True])
def test_a_bend_has_the_rings_of_a_mitre(turned):
    """All four rings between two edges lie in the plane between them and on both cylinders."""
    x, edges = bent(3.0), chain(5)
    if turned:  # the tubes do not ask which way an edge runs
        edges[1::3] = edges[1::3, ::-1]
    surface = closed(x, edges, np.full(5, 0.1))
    assert surface.body_count == 1
    rings = surface.vertices[: 4 * 12].reshape(4, 12, 3)
    for i, ring in enumerate(rings):
        ends = ring - x[i + 1]
        one, two = x[i + 1] - x[i], x[i + 2] - x[i + 1]
        for way in (one / np.linalg.norm(one), two / np.linalg.norm(two)):
            radial = np.linalg.norm(ends - (ends @ way)[:, None] * way, axis=1)
            np.testing.assert_allclose(radial, 0.1, rtol=0.03 if i else 0.05)
        np.testing.assert_allclose(ends @ (one / np.linalg.norm(one) + two / np.linalg.norm(two)), 0.0, atol=1e-12)


def test_straight_tubes_have_round_ends():
    """The volume of a capsule, less what polygons of 12 sides leave out."""
    surface = closed(np.linspace([0, 0, 0], [1, 0, 0], 6), chain(5), np.full(5, 0.1))
    assert surface.bounds == pytest.approx(np.array([[-0.1, -0.1, -0.1], [1.1, 0.1, 0.1]]), abs=4e-3)
    assert surface.volume == pytest.approx((np.pi * 0.01 + 4 / 3 * np.pi * 1e-3) * 3 / np.pi, rel=0.01)


def test_rings_joints_steps_and_folds_are_closed():
    angle = 2 * np.pi * np.arange(20) / 20
    ring = np.column_stack([np.cos(angle), np.sin(angle), 0 * angle])
    assert closed(ring, np.column_stack([np.arange(20), (np.arange(20) + 1) % 20]), np.full(20, 0.1)).euler_number == 0
    assert closed([[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0]], [[0, 1], [2, 0], [0, 3]], [0.1] * 3).body_count == 3
    assert closed([[0, 0, 0], [1, 0, 0], [2, 0, 0]], chain(2), [0.1, 0.3]).body_count == 2
    assert closed([[0, 0, 0], [1, 0, 0], [2, 0, 0]], chain(2), [0.1, 0.11]).body_count == 1
    closed([[0, 0, 0], [1, 0, 0], [0, 1e-9, 0]], chain(2), [0.1, 0.1])


def test_a_winding_tube_keeps_its_width():
    """Rings are carried without twist: a screw of many turns has the volume of its length."""
    s = np.linspace(0, 20 * np.pi, 1200)
    x = np.column_stack([np.cos(s), np.sin(s), 0.2 * s])
    length = np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
    surface = closed(x, chain(1199), np.full(1199, 0.1))
    assert surface.volume == pytest.approx(3 * 0.01 * length, rel=0.01)


def pulled(**given):
    """An arm whose first tendon is pulled in two steps, wound once about it."""
    design = generate.tendon_arm(edges=20, turns=1.0, guides=17, **given)
    pull = design.actuation().tension[-1]
    return geosim.solve(
        design.robot(), geosim.CableTensions([0.5 * pull, pull]), solver=geosim.RodShellStepper(static=True)
    )


def test_cables_are_drawn_where_the_solver_has_them(tmp_path):
    """Their ways have the lengths that the solve gives, in a result, in its file and at rest; distances from the rod stay."""
    result = pulled()
    for frame in range(2):
        lengths = [np.linalg.norm(np.diff(p, axis=0), axis=1).sum() for p in cable_points(result, frame)]
        assert lengths == pytest.approx(result.cable_lengths[frame], rel=1e-12)
    last = result.frames[-1]
    ends, middle = cable_points(result, -1)[0][[0, -1]], last[[0, -1]]
    assert np.linalg.norm(ends - middle, axis=1) == pytest.approx([8e-3, 8e-3], rel=1e-9)
    result.save(tmp_path / "arm.npz")
    again = geosim.load_result(tmp_path / "arm.npz")
    assert (again.extra["guides"] == result.extra["guides"]).all()
    first = resampled(result, [0.0, 0.5])
    for drawn, cable in zip(cable_points(first, 0), result.robot.cables):
        assert drawn == pytest.approx(cable.points, abs=1e-12)


def test_pictures_and_pages_show_cables_beside_the_robot():
    result = pulled()
    shown = surroundings(result, -1, result.frames[-1], result.robot.size)
    (_, opacity, points, triangles) = shown[-1]
    surface = trimesh.Trimesh(points, triangles, process=False)
    assert opacity == 1.0
    assert surface.is_watertight
    assert surface.body_count == 3
    ways = np.concatenate(cable_points(result, -1))
    away = np.linalg.norm(points[:, None] - ways, axis=2).min(axis=0)
    assert away.max() < 2e-3  # m: a cable passes through all of its guides
    body = generate.tendon_finger(joints=1, length=40e-3).robot("dragon-skin-30", max_edge=20e-3)
    points, _ = cable_surface(body, [c.points for c in body.cables])
    assert len(points)


def test_a_result_without_guides_is_drawn_without_cables(tmp_path):
    """Results of earlier versions do not hold them."""
    from dataclasses import replace

    result = pulled()
    old = replace(result, extra={k: v for k, v in result.extra.items() if k != "guides"})
    old.save(tmp_path / "old.npz")
    loaded = geosim.load_result(tmp_path / "old.npz")
    assert cable_points(loaded, -1) == []
    assert loaded.plot(tmp_path / "old.png").stat().st_size > 10_000
    assert loaded.film(tmp_path / "old.gif", fps=1.0, seconds=2.0).stat().st_size > 10_000
