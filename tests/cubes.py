"""Robots of cubes for the projective solver."""

from __future__ import annotations

from functools import cache

import numpy as np

import geosim
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.solver import ProjectiveShapeSolver


def block(size=(8, 3, 3), edge=0.005, hollow=((1, 7), (1, 2), (1, 2)), shift=(0, 0, 0), base=0):
    """A beam of cubes of six tets each; the cubes of `hollow` are the chamber (region 1)."""
    nx, ny, nz = size
    number = lambda i, j, k: (i * (ny + 1) + j) * (nz + 1) + k  # noqa: E731
    vertices = np.array([(i, j, k) for i in range(nx + 1) for j in range(ny + 1) for k in range(nz + 1)], float)
    vertices = vertices * edge + shift
    tets, regions = [], []
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                cube = [number(i + a, j + b, k + c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
                tets += [
                    [cube[0], cube[p], cube[q], cube[7]] for p, q in ((4, 6), (6, 2), (2, 3), (3, 1), (1, 5), (5, 4))
                ]
                inside = hollow is not None and all(lo <= v < hi for v, (lo, hi) in zip((i, j, k), hollow))
                regions += [1 if inside else 0] * 6
    return vertices, np.array(tets) + base, np.array(regions)


@cache
def beam(material="ecoflex-00-30-fang2022", **kwargs) -> VolumetricRobot:
    vertices, tets, regions = block(**kwargs)
    return VolumetricRobot.from_tets(
        vertices,
        tets,
        regions,
        material=material,
        fixed=np.flatnonzero(vertices[:, 0] < 1e-9),
        tip=np.flatnonzero(vertices[:, 0] > vertices[:, 0].max() - 1e-9),
    )


def two_fingers():
    a, b = block(hollow=None), block(hollow=None, shift=(0, 0, 0.018), base=9 * 16)
    vertices, tets = np.vstack([a[0], b[0]]), np.vstack([a[1], b[1]])
    regions = np.concatenate([a[2], 1 + b[2]])
    return VolumetricRobot.from_tets(
        vertices,
        tets,
        regions,
        fixed=np.flatnonzero(vertices[:, 0] < 1e-9),
        material={0: geosim.NeoHookean(mu=1e6), 1: geosim.NeoHookean(mu=3e4)},
    )


def solve(robot, ratios, environment=None, **options):
    return geosim.solve(
        robot, geosim.Inflation(volume_ratio=ratios), environment, solver=ProjectiveShapeSolver(**options), throw=False
    )
