"""Mesh obstacles beside the primitives they approximate: what a triangle surface costs every solver.

    python benchmarks/obstacles.py [energy projective rods queries]

Each solve is run against a ball and against its triangle mesh, after a short run that compiles the kernels; printed are
CPU seconds of both, their ratio, and how far the final frames differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh

import geosim
from geosim import Environment, Limb, LinearElastic, NeoHookean, Obstacle, Passive, VolumetricRobot

RADIUS = 0.012  # of the ball [m]
RUBBER = LinearElastic(youngs_modulus=1e6, poisson_ratio=0.5, density=1000.0)


def balls(center: Any, fineness: int, **given: Any) -> tuple[Obstacle, Obstacle]:
    """Return a ball and its triangle mesh of 20 * 4**fineness faces."""
    mesh = trimesh.creation.icosphere(fineness, RADIUS)
    mesh.apply_translation(center)
    return Obstacle.sphere(center, RADIUS, **given), Obstacle.mesh(mesh, **given)


def slab(cells: int) -> VolumetricRobot:
    """Return a soft slab of 40 x 40 x 10 mm that is held at its top."""
    axes = [np.linspace(0.0, size, n + 1) for size, n in ((0.04, 4 * cells), (0.04, 4 * cells), (0.01, cells))]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(len(vertices)).reshape([len(a) for a in axes])
    split = ((0, 1, 3, 7), (0, 3, 2, 7), (0, 2, 6, 7), (0, 6, 4, 7), (0, 4, 5, 7), (0, 5, 1, 7))
    cubes = [
        index[i : i + 2, j : j + 2, k : k + 2].ravel() for i, j, k in np.ndindex(*(len(axis) - 1 for axis in axes))
    ]
    tets = np.array([cube[list(tet)] for cube in cubes for tet in split])
    return VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=20e3), fixed=vertices[:, 2] > 0.0099)


def pressed(solver: Any, fineness: int) -> list[Callable[[], geosim.Result]]:
    """Return the solves of a slab that a ball is pressed into, by 1 mm in two steps."""
    robot = slab(2)
    motion = [[0, 0, 0.0005], [0, 0, 0.001]]
    return [
        lambda ball=ball: geosim.solve(robot, Passive(steps=2), Environment(obstacles=ball), solver=solver)
        for ball in balls((0.02, 0.02, -RADIUS - 1e-5), fineness, motion=motion)
    ]


def falling(fineness: int) -> list[Callable[[], geosim.Result]]:
    """Return the solves of a rod that falls over a ball, 20 steps."""
    robot = geosim.RodShellRobot.from_limbs([Limb((-0.04, 0.001, 0.0145), (0.04, 0.001, 0.0145), 40, 0.002, RUBBER)])
    return [
        lambda ball=ball: geosim.solve(
            robot,
            Passive(0.04, steps=20),
            Environment(gravity=(0, 0, -9.81), obstacles=ball),
            solver=geosim.RodShellStepper(dt=2e-3),
        )
        for ball in balls((0.0, 0.0, 0.0), fineness, friction=0.3)
    ]


def report(name: str, make: Callable[[int], list[Callable[[], geosim.Result]]], fineness: int) -> None:
    """Solve against the ball and its mesh and print a row."""
    for solve in make(3):
        solve()
    seconds, frames = [], []
    for solve in make(fineness):
        start = time.process_time()
        frames.append(solve().frames[-1])
        seconds.append(time.process_time() - start)
    print(
        f"{name:12s} {20 * 4**fineness:6d} faces   ball {seconds[0]:8.3f} s   mesh {seconds[1]:8.3f} s   "
        f"ratio {seconds[1] / seconds[0]:7.2f}   frames differ by {np.abs(frames[0] - frames[1]).max() * 1e6:.1f} um"
    )


def queries(fineness: int = 5, count: int = 400) -> None:
    """Ask for the distances of points around a mesh, all at once."""
    try:
        from geosim.collision.shapes import signed_distances
    except ModuleNotFoundError:
        raise SystemExit("queries: this geosim has no geosim.collision.shapes") from None
    ball, mesh = (o.solid for o in balls((0.0, 0.0, 0.0), fineness))
    points = np.random.default_rng(0).normal(size=(count, 3)) * RADIUS
    signed_distances(mesh, points)
    start, repeats = time.process_time(), 20
    for _ in range(repeats):
        distance = signed_distances(mesh, points)[0]
    each = (time.process_time() - start) / repeats
    error = np.abs(distance - signed_distances(ball, points)[0]).max()
    print(
        f"queries      {20 * 4**fineness:6d} faces   {count} points {each * 1e3:8.3f} ms   off the ball {error * 1e6:.1f} um"
    )


SECTIONS: dict[str, Callable[[], None]] = {
    "energy": lambda: report("energy", lambda n: pressed(geosim.EnergyShapeSolver(), n), 4),
    "projective": lambda: report("projective", lambda n: pressed(geosim.ProjectiveShapeSolver(), n), 4),
    "rods": lambda: report("rods", falling, 5),
    "queries": queries,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
