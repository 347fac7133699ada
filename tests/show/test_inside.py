"""Nothing of a picture is cut off or written over: twenty robots, with obstacles, forces, long names and doubts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import trimesh
from bending import bent_result
from PIL import ImageColor

import geosim
from geosim import Obstacle, Result, Status
from geosim.show import picture
from geosim.show.contact import force_arrows, obstacle_surfaces
from geosim.show.sheet import THEMES

DPI = 60
DESIGNS = ("pneunet", "round_finger", "twister", "bellows", "membrane", "gripper", "kresling", "tendon_finger")
OBSTACLES = {
    "sphere beyond the reach": Obstacle.sphere((0.16, 0.0, -0.08), 0.03),
    "cylinder": Obstacle.cylinder((0.05, -0.06, -0.03), (0.05, 0.06, -0.03), 0.02),
    "box": Obstacle.box((-0.05, -0.04, -0.09), (0.13, 0.04, -0.06)),
    "floor": Obstacle.plane((0.0, 0.0, -0.07), (0.0, 0.0, 1.0)),
    "mesh": Obstacle.mesh(trimesh.creation.torus(0.05, 0.01)),
    "two": (Obstacle.sphere((0.0, 0.05, 0.08), 0.02), Obstacle.sphere((0.1, -0.05, -0.1), 0.02)),
}
LONG = "the_finger_with_the_name_of_a_whole_project_and_its_date_2026_11_28_and_its_author " * 3


def moved(robot: geosim.model.contract.Robot, **changes: object) -> Result:
    """A robot that leans over sideways by half its size, as if it were solved."""
    x = np.asarray(robot.vertices)
    away = (x - x.min(axis=0)) / max(float(np.ptp(x, axis=0).max()), 1e-9)
    frames = np.stack([x + s * 0.3 * np.ptp(x, axis=0).max() * away[:, [1, 2, 0]] ** 2 for s in (0.5, 1.0)])
    given = {
        "status": Status.CONVERGED,
        "message": Status.CONVERGED.value,
        "converged": True,
        "times": np.arange(1.0, 3.0),
    }
    return Result(**given | {"frames": frames, "robot": robot} | changes)  # type: ignore[arg-type]


def pressed(obstacles: object, **changes: object) -> Result:
    """A bar that is bent onto obstacles, with forces of contact on its underside."""
    bent = bent_result(frames=2)
    forces = np.zeros_like(bent.frames)
    forces[:, bent.robot.vertices[:, 2] < 1e-9, 2] = np.linspace(0.1, 0.4, 2)[:, None]
    around = dataclasses.replace(bent.environment, obstacles=obstacles)
    count = len(around.obstacles)
    held = {"obstacle_poses": None, "obstacle_held": None, "obstacle_forces": np.ones((2, count, 3))}
    return dataclasses.replace(
        bent, environment=around, contact_forces=forces, obstacle_moments=None, **held, **changes
    )


def rod_of(turns: float) -> geosim.RodShellRobot:
    s = np.linspace(0.0, 1.0, 30)
    line = 0.1 * np.stack([np.cos(6.28 * turns * s), np.sin(6.28 * turns * s), 3.0 * s], axis=1)
    material = geosim.LinearElastic(1e6, 0.5, 1000.0)
    return geosim.RodShellRobot(line, radius=4e-3, rod_material=material)


def results() -> dict[str, Result]:
    out = {name: moved(geosim.generate.make(name).robot("ecoflex-00-30-fang2022", max_edge=0.02)) for name in DESIGNS}
    out |= {name: pressed(obstacles) for name, obstacles in OBSTACLES.items()}
    out |= {"rod": moved(rod_of(0.0)), "helix": moved(rod_of(2.0)), "snake": moved(geosim.make_snake(links=2))}
    robot = dataclasses.replace(bent_result().robot, name=LONG, chamber_names=("the one above the middle",))
    out["long name"] = dataclasses.replace(bent_result(), robot=robot)
    out["doubts"] = dataclasses.replace(bent_result(), inverted_elements=np.full(4, 5.0), message="not so " * 80)
    out["moved with obstacle"] = pressed(Obstacle.sphere((0.08, 0, -0.02), 0.015, motion=[(0, 0, 0), (0.03, 0, -0.06)]))
    return out


@pytest.mark.slow
def test_nothing_is_cut_off_or_written_over():
    shown = results()
    assert len(shown) == 20
    for number, (name, result) in enumerate(shown.items()):
        theme = ("light", "dark")[number % 2]
        paper = np.array(ImageColor.getrgb(THEMES[theme].paper))
        frame = len(result.frames) - 1
        look = picture.look_of(result, [frame], "displacement", DPI, theme)
        sheet = picture.draw_frame(result, frame, look)
        drawn = (sheet.pixels != paper).any(axis=2)
        whole = (np.asarray(sheet.image()) != paper).any(axis=2)
        for edge in (whole[:2], whole[-2:], whole[:, :2], whole[:, -2:]):
            assert not edge.any(), f"{name}: something runs off the picture"
        written = (np.asarray(sheet.image()) != sheet.pixels).any(axis=2)
        assert not (written & drawn).any(), f"{name}: a text lies over the drawing"
        left, low = round(picture.LEFT_INCHES * DPI), len(drawn) - round(picture.BELOW_INCHES * DPI)
        width, height = picture.pixels(DPI)
        part = drawn[low - height : low, left : left + width]
        for edge in (part[0], part[-1], part[:, 0], part[:, -1]):
            assert not edge.any(), f"{name}: the drawing runs off its frame"
        for points in [p for p, _ in obstacle_surfaces(result, frame, result.frames[frame])]:
            flat = np.abs(look.camera.project(points)[:, :2]) / look.camera.extent
            assert flat.max() < 0.5, f"{name}: an obstacle is cut off"
        arrows, _ = force_arrows(result, frame, look.size, look.newtons)
        assert (np.abs(look.camera.project(arrows)[:, :2]) <= 0.5 * np.array(look.camera.extent)).all(), name
        said = [text.said for text in sheet.texts]
        assert any(" mm" in text and text[0].isdigit() for text in said), f"{name}: no scale"
        assert (look.newtons > 0.0) == any(text.startswith("contact ") for text in said), (
            f"{name}: arrows and their scale"
        )
