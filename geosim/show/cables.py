"""Cables in pictures: thin dark tubes through their points, wherever these have moved.

A point of a cable in a body moves with its tet, and a guide of a rod with a section, of which results keep the places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.model.contract import Robot
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.tubes import tubes


def cable_points(result: Result, frame: int) -> list[Floats]:
    """Return the points of every cable in a frame [m], (q, 3) each; none where a result does not hold them."""
    robot = result.robot
    if isinstance(robot, VolumetricRobot):
        return [anchors.points(result.frames[frame]) for anchors in robot.cable_anchors]
    guides = result.extra.get("guides")
    if guides is None or not robot.cables:
        return []
    return np.split(np.asarray(guides[frame]), np.cumsum([len(c.points) for c in robot.cables])[:-1])


def cable_surface(robot: Robot, ways: Sequence[Floats]) -> tuple[Floats, Ints]:
    """Return cables along ways [m] (q, 3) as one surface, for the eye: points (p, 3) and triangles (t, 3)."""
    if not len(ways):
        return np.empty((0, 3)), np.empty((0, 3), dtype=np.int64)
    width_rel, most_of_rod = 3e-3, 0.3  # half of a cable over the robot's size, and over the radius of its thinnest rod
    width = width_rel * float(np.linalg.norm(np.ptp(robot.vertices, axis=0)))
    width = min([width, *(most_of_rod * robot.radius)])
    return threads(ways, [width] * len(ways), sides=8)


def threads(ways: Sequence[Floats], radii: Sequence[float], sides: int) -> tuple[Floats, Ints]:
    """Return tubes along ways (q, 3) [m] of a radius [m] each: points (p, 3) and triangles (t, 3)."""
    counts = [len(way) for way in ways]
    first = np.delete(np.arange(sum(counts)), np.cumsum(counts) - 1)  # of every edge: all points but the ends of ways
    radius = np.repeat(np.asarray(radii, dtype=float), np.subtract(counts, 1))
    return tubes(np.concatenate(ways), np.stack([first, first + 1], axis=1), radius, sides)
