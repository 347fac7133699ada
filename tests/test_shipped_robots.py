"""Robots in geosim/data/meshes/: their measures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import geosim
from geosim.collision.shapes import signed_distances
from geosim.geometry.surface import check_surface

ROOT = Path(__file__).resolve().parents[1]
MESHES, GALLERY = ROOT / "geosim" / "data" / "meshes", ROOT / "docs" / "gallery"


@cache
def robot(name):
    return geosim.load_case(MESHES / name / "robot.toml")[0]


@pytest.mark.slow
def test_the_membrane_lies_over_four_pads():
    r = robot("membrane")
    labels = r.body_labels
    assert labels.max() + 1 == 5, "five bodies, none of which touches another"
    sheet = r.vertices[labels == labels[np.argmax(r.vertices[:, 2])]]
    assert np.allclose(np.ptp(sheet, axis=0), (0.25, 0.25, 0.004))
    pads = r.vertices[(labels >= 0) & (labels != labels[np.argmax(r.vertices[:, 2])])]
    assert pads[:, 2].max() < sheet[:, 2].min() - 0.9e-3
    assert np.allclose(r.chamber_volumes, 90 * 90 * 5e-9)
    centres = [r.vertices[np.unique(wall)][:, :2].mean(axis=0) for wall in r.chamber_walls]
    assert np.array_equal(np.sign(centres), [(-1, -1), (-1, 1), (1, -1), (1, 1)])
    held = r.vertices[r.fixed]
    rim = np.isclose(np.abs(held[:, :2]).max(axis=1), 0.125)
    assert np.array_equal(rim, held[:, 2] > 0.010), "the membrane's rim, and the ground of the pads"
    assert np.allclose(held[~rim, 2], 0.0, atol=1e-9)
    assert 24_000 < len(r.tets) < 53_000


@pytest.mark.slow
def test_the_slot_of_the_twister_winds_twice():
    r = robot("twister")
    assert np.allclose(np.ptp(r.vertices, axis=0), (0.100, 0.020, 0.020), rtol=1e-3)
    share = r.chamber_volumes[0] / (r.body_volume + r.chamber_volumes[0])
    assert share == pytest.approx(0.010, abs=1e-5)
    wall = r.vertices[np.unique(r.chamber_walls[0])]
    radius, angle = np.hypot(wall[:, 1], wall[:, 2]), np.arctan2(wall[:, 2], wall[:, 1])
    assert 0.5 * (radius.min() + radius.max()) == pytest.approx(0.006, rel=5e-3)
    wound = (wall[:, 0] - 0.005) / 0.090 * 4 * np.pi
    off = np.abs((angle - wound + np.pi) % (2 * np.pi) - np.pi) * radius
    assert off.max() < 0.6e-3, "every vertex of the wall lies beside a helix of two turns"
    assert 19_000 < len(r.tets) < 44_000


@pytest.mark.slow
def test_the_bellows_stand_close():
    r = robot("bellows")
    assert np.allclose(np.ptp(r.vertices, axis=0), (0.100, 0.020, 0.020))
    assert r.chambers == 1
    assert 52_000 < len(r.tets) < 120_000
    skin = r.vertices[np.unique(r.skin)]
    high = skin[skin[:, 2] > 0.019, 0]
    thick = (0.100 - 10 * 0.001) / 11
    gaps = np.array([[i * (thick + 0.001) - 0.001, i * (thick + 0.001)] for i in range(1, 11)])
    for low, up in gaps:
        assert not ((high > low + 1e-6) & (high < up - 1e-6)).any()
        assert np.isclose(high, low).any()
        assert np.isclose(high, up).any()


@pytest.mark.parametrize("surface", sorted(MESHES.rglob("*.stl")), ids=lambda path: str(path.relative_to(MESHES)))
def test_surfaces_need_no_repair(surface):
    if surface.name != "held.stl":  # where the membrane and its pads are held: open
        assert check_surface(surface, units="mm").notices == ()


@pytest.mark.parametrize("name", ["bellows", "gripper", "membrane"])
def test_a_demo_of_a_large_robot_is_a_smaller_one(name):
    """It has the same parts, names its actuation, and solves quadratic elements: no wall of one linear tet."""
    small, actuation, environment, solver = geosim.load_case(MESHES / name / "demo" / "robot.toml")
    assert small.name == name
    assert small.chambers == {"bellows": 1, "gripper": 3, "membrane": 4}[name]
    assert len(environment.obstacles) == (name == "gripper")
    assert len(actuation) == 2
    assert getattr(solver, "element", "p2") == "p2"
    assert 3_000 < len(small.body_tets) < 16_000


@pytest.mark.slow
def test_the_twiner_holds_its_rod_by_a_full_turn(tmp_path, monkeypatch):
    """Slices of 4 mm touch from first to last, forces balance with the clamp's, and more air presses harder.

    The script of the gallery solves the robot that ships.
    """
    monkeypatch.chdir(tmp_path)
    solved: dict = {"__name__": "twiner"}
    exec(compile((GALLERY / "twiner.py").read_text(encoding="utf-8"), "twiner.py", "exec"), solved)
    result, twiner, rod = solved["result"], solved["robot"], solved["rod"]
    shipped, asked, environment, solver = geosim.load_case(MESHES / "twiner" / "robot.toml")
    assert len(shipped.vertices) == pytest.approx(len(twiner.vertices), rel=0.02)  # to the rounding of its files
    assert shipped.chamber_volumes == pytest.approx(twiner.chamber_volumes, rel=1e-4)
    assert np.array_equal(asked.volume_ratio, [[6.0], [8.0]])
    kept = environment.obstacles[0].parameters
    assert all(kept[key] == pytest.approx(value) for key, value in rod.parameters.items())
    assert isinstance(solver, geosim.ProjectiveShapeSolver)
    x, ids = result.frames[-1], np.unique(twiner.skin)
    distance, slices = signed_distances(rod.solid, x)[0], np.floor(twiner.vertices[ids, 0] / 4e-3)
    nearest = [part[distance[part].argmin()] for part in (ids[slices == s] for s in np.unique(slices))]
    first, last = np.flatnonzero(distance[nearest] < 0.3e-3)[[0, -1]]
    assert distance[nearest][first : last + 1].max() < 0.3e-3  # measured 0.20
    axis = np.subtract(rod.parameters["end"], rod.parameters["start"])
    across = np.linalg.svd(axis[None])[2][1:]
    angle = np.unwrap(np.arctan2(*(across @ (x[nearest] - rod.parameters["start"]).T)))
    assert abs(angle[last] - angle[first]) > 2 * np.pi  # measured 384 degrees
    force, held = result.obstacle_forces[-1, 0], result.reactions[-1].sum(axis=0)
    assert np.linalg.norm(force - held) < 1e-3 * np.linalg.norm(force)
    pressing = np.linalg.norm(result.contact_forces, axis=2).sum(axis=1)
    assert pressing[1] > 1.5 * pressing[0]  # measured 2.3 times
    assert not result.inverted_elements.any()
    assert not result.crossings.any()
