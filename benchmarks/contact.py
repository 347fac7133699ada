"""Contact of the energy solver against theory, by section: `python benchmarks/contact.py [hertz] [column] [slip] [pneunet]
[gripper] [grasps] [membrane]`; default all. Needs no reference data but for `pneunet`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim import Environment, Inflation, NeoHookean, Obstacle, Passive, Prescribed, VolumetricRobot
from geosim.shape.solver import EnergyShapeSolver

NAN = np.nan
SPLIT = ((0, 1, 3, 7), (0, 3, 2, 7), (0, 2, 6, 7), (0, 6, 4, 7), (0, 4, 5, 7), (0, 5, 1, 7))


def bricks(*axes: Any) -> tuple[Any, Any]:
    """Vertices and tets of a brick whose cells lie between the given coordinates."""
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(len(vertices)).reshape([len(a) for a in axes])
    cells = [index[i:i + 2, j:j + 2, k:k + 2].ravel() for i in range(len(axes[0]) - 1) for j in range(len(axes[1]) - 1)
             for k in range(len(axes[2]) - 1)]
    return vertices, np.array([v[list(t)] for v in cells for t in SPLIT])


def graded(count: int, first: float, length: float) -> Any:
    """Coordinates from 0: `count` equal cells, then growing ones."""
    x = list(first * np.arange(count + 1))
    while x[-1] < length:
        x.append(x[-1] + 1.7 * (x[-1] - x[-2]))
    return np.array(x)


def hertz(elements: tuple[int, ...] = (4, 6, 8)) -> None:
    """A quarter of a soft block on a rigid sphere, a/R = 0.09: force against depth from first touch."""
    radius, a, mu = 0.05, 0.0045, 20e3
    depth, gap = a * a / radius, 3e-4
    theory = 4.0 / 3.0 * (4.0 * mu) * np.sqrt(radius) * depth**1.5  # E / (1 - nu^2) = 4 mu
    for count in elements:
        h = a / count
        x, z = graded(int(1.3 * count), h, 0.15), graded(count // 2 + 1, h, 0.15)
        vertices, tets = bricks(x, x, z)
        robot = VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=mu), fixed=None)
        top = np.flatnonzero(vertices[:, 2] == vertices[:, 2].max())
        sides = [Prescribed(np.flatnonzero(vertices[:, 0] == 0), (0, NAN, NAN)),
                 Prescribed(np.flatnonzero(vertices[:, 1] == 0), (NAN, 0, NAN))]
        sphere = Obstacle.sphere((0, 0, -radius - gap), radius)
        solver = EnergyShapeSolver(invariants="isochoric")
        rest = solver.start(robot, Environment(obstacles=sphere, prescribed=[*sides, Prescribed(top, (NAN, NAN, 0))]))
        contact = rest.problem.contact
        middle = np.argmin(np.linalg.norm(contact.metres(contact.surface.points(rest.point.x)), axis=1))
        touch = gap - contact.thickness[middle] * contact.length  # the first point feels the sphere here
        start = time.perf_counter()
        result = geosim.solve(robot, Passive(), Environment(obstacles=sphere, prescribed=[
            *sides, Prescribed(top, (NAN, NAN, -(touch + depth)))]), solver=solver)
        force = -4.0 * result.obstacle_forces[0, 0, 2]
        print(f"hertz: {count} elements per contact radius, {len(tets)} tets: force {force:.4f} N, theory {theory:.4f} N, "
              f"{100 * (force / theory - 1):+.1f} %; penetration {result.max_penetration[0] / h:.1e} edges, "
              f"{len(result.trace)} iterations, {time.perf_counter() - start:.0f} s")


SECTIONS = {"hertz": hertz}


if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
