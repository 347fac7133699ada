"""The picture of a robot at rest: whether it is the right way round, held where it should be, its chambers inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry.widths import unit_normals
from geosim.model.contract import Robot
from geosim.model.robot import VolumetricRobot
from geosim.show import fields
from geosim.show.cables import cable_surface
from geosim.show.colors import AS_GIVEN, CABLE, EDGE, HELD, SKIN, TIP, WALL, rgb
from geosim.show.picture import DPI, DRAWING_INCHES, framed, pixels, titled
from geosim.show.raster import Camera, RasterLayer, camera_for, draw
from geosim.show.sheet import THEMES, Sheet
from geosim.writing import checked_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # slow to import

NOTEBOOK_DPI = 80  # dpi in a notebook


def plot_rest(robot: Robot, path: str | Path, given: Sequence[tuple[Floats, Ints]] = ()) -> Path:
    """Write the picture as PNG; see `rest_picture`."""
    return rest_sheet(robot, DPI, given).save(checked_target(path, ".png"))


def rest_picture(robot: Robot, dpi: int = NOTEBOOK_DPI, given: Sequence[tuple[Floats, Ints]] = ()) -> bytes:
    """Return the picture as a PNG; see `rest_sheet`."""
    return rest_sheet(robot, dpi, given).png()


def drawn_sheet(layers: Sequence[RasterLayer], dpi: int) -> tuple[Sheet, Camera]:
    """Return a sheet with a drawing of layers, and how they are seen."""
    points = np.vstack([layer.points for layer in layers])
    camera = camera_for(points, points, aspect=DRAWING_INCHES[0] / DRAWING_INCHES[1])
    return framed(draw(layers, camera, pixels(dpi)), camera, dpi), camera


def rest_figure(robot: Robot) -> Figure:
    """Return the picture as a matplotlib figure; see `rest_sheet`."""
    return rest_sheet(robot).figure()


def rest_sheet(robot: Robot, dpi: int = DPI, given: Sequence[tuple[Floats, Ints]] = ()) -> Sheet:
    """Return a picture of a robot at rest: walls of chambers through the skin, what is held red, the tip green.

    Surfaces `given`, positions [m] (n, 3) and triangles (m, 3), lie over it in violet: what a rescue has started from.
    """
    layers = [
        *_layers(robot),
        *_edges(robot),
        *([RasterLayer(*cable_surface(robot, [c.points for c in robot.cables]), rgb(CABLE))] if robot.cables else []),
        *(RasterLayer(points, triangles, rgb(AS_GIVEN), 0.35) for points, triangles in given),
    ]
    sheet, camera = drawn_sheet(layers, dpi)
    held = ", held where it is red" * (isinstance(robot, VolumetricRobot) and len(robot.fixed) > 0)
    tip = ", tip green" * (len(robot.tip) > 0)
    old = ", as given violet" * (len(given) > 0)
    titled(sheet, f"{robot.name}, at rest{held}{tip}{old}")
    _name_chambers(sheet, robot, camera)
    return sheet


def _name_chambers(sheet: Sheet, robot: Robot, camera: Camera) -> None:
    """Write the names of chambers, or their numbers where there are several, where they are."""
    most_named = 24  # more would cover the robot
    if not isinstance(robot, VolumetricRobot) or not (robot.chamber_names or 2 <= robot.chambers <= most_named):
        return
    names = robot.chamber_names or tuple(str(c + 1) for c in range(robot.chambers))
    for name, wall in zip(names, robot.chamber_walls):
        middle = camera.project(robot.vertices[np.unique(wall)].mean(axis=0)[None])[0, :2]
        sheet.text(sheet.on(*(1e3 * middle)), name, 10, anchor="mm", backing=True)


def _layers(robot: Robot) -> list[RasterLayer]:
    """The surfaces of a robot at rest: a skin through which the walls of the chambers are seen."""
    points, triangles = fields.rest_surface(robot)
    if not isinstance(robot, VolumetricRobot) or not robot.chambers:
        return [RasterLayer(points, triangles, _marked(robot, points, SKIN))]
    inner = RasterLayer(points, np.vstack(robot.chamber_walls), _marked(robot, points, WALL))
    marks = np.isin(triangles, np.concatenate([robot.fixed, robot.tip])).all(axis=1)
    ends = [RasterLayer(points, triangles[marks], _marked(robot, points, SKIN), 0.5)] if marks.any() else []
    return [inner, RasterLayer(points, triangles[~marks], THEMES["light"].rgb("rest"), 0.3), *ends]


def _edges(robot: Robot) -> list[RasterLayer]:
    """Lines along the edges of the skin of a volumetric robot, as narrow strips a little above it: what the mesher has made."""
    if not isinstance(robot, VolumetricRobot):
        return []
    width = 4e-4 * robot.size  # of a strip, which lies half of it over the skin
    x, faces = robot.vertices, robot.skin
    normal, _ = unit_normals(x, faces)
    ends = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    outward = np.repeat(normal, 3, axis=0)
    along = x[ends[:, 1]] - x[ends[:, 0]]
    across = np.cross(outward, along)
    across *= width / np.maximum(np.linalg.norm(across, axis=1), np.finfo(float).tiny)[:, None]
    lift = 0.5 * width * outward
    corners = [x[ends[:, 0]] + lift, x[ends[:, 1]] + lift, x[ends[:, 1]] + lift + across, x[ends[:, 0]] + lift + across]
    number = np.arange(len(ends))[:, None] + len(ends) * np.array([[[0, 1, 2]], [[0, 2, 3]]])
    return [RasterLayer(np.vstack(corners), number.reshape(-1, 3), rgb(EDGE), 0.45)]


def _marked(robot: Robot, points: Floats, color: str) -> Floats:
    """Colours of the points: one, but red where the robot is held and green at its tip."""
    colors = np.tile(rgb(color), (len(points), 1))
    colors[robot.tip] = rgb(TIP)
    if isinstance(robot, VolumetricRobot):
        colors[robot.fixed] = rgb(HELD)
    return colors
