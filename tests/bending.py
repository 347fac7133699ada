"""A bar with one chamber, bent by a known map: a result whose every number can be checked by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import meshio
import numpy as np

from geosim import Environment, Load, MooneyRivlin, Obstacle, Prescribed, Result, Select, Status, VolumetricRobot
from geosim.geometry import topology

LENGTH, WIDTH = 0.1, 0.02
BAR_FILE = """kind = "volumetric"
units = "mm"
[body]
mesh = "bar.vtu"
material = "ecoflex-00-30-fang2022"
[fixed]
plane = "x"
below = 0.1
"""


def bar_mesh(cells: tuple[int, int, int] = (10, 4, 4)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices [m], tets and regions of a bar 100 x 20 x 20 mm whose inner cells are region 1."""
    nx, ny, nz = cells
    shape = (nx + 1, ny + 1, nz + 1)
    grid = np.stack(np.meshgrid(*(np.arange(s) for s in shape), indexing="ij"), axis=-1).reshape(-1, 3)
    vertices = grid * np.array([LENGTH / nx, WIDTH / ny, WIDTH / nz]) - np.array([0, WIDTH / 2, 0])
    number = lambda p: np.ravel_multi_index(tuple(p.T), shape)  # noqa: E731
    tets, regions = [], []
    for i, j, k in itertools.product(range(nx), range(ny), range(nz)):
        inner = 0 < i < nx - 1 and 0 < j < ny - 1 and 0 < k < nz - 1
        for order in itertools.permutations(range(3)):
            corner = np.array([i, j, k])
            path = [corner.copy()]
            for axis in order:
                corner = corner.copy()
                corner[axis] += 1
                path.append(corner)
            tets.append(number(np.array(path)))
            regions.append(int(inner))
    tets = np.array(tets)
    flipped = topology.tet_volumes(vertices, tets) < 0
    tets[flipped] = tets[flipped][:, [0, 2, 1, 3]]
    return vertices, tets, np.array(regions)


def save_bar(folder: Path) -> None:
    """Write a coarse bar and its robot file, bar.vtu and bar.toml."""
    vertices, tets, regions = bar_mesh((5, 3, 3))
    mesh = meshio.Mesh(vertices * 1e3, [("tetra", tets)], cell_data={"region": [regions]})
    meshio.vtu.write(str(folder / "bar.vtu"), mesh)
    (folder / "bar.toml").write_text(BAR_FILE)


def bend(points: np.ndarray, angle: float) -> np.ndarray:
    """Bend the bar into an arc of this angle [rad] in the x-z plane; the bottom z = 0 keeps its length."""
    if angle == 0:
        return points.copy()
    radius = LENGTH / angle
    theta = points[:, 0] / radius
    r = radius + points[:, 2]
    return np.stack([r * np.sin(theta), points[:, 1], r * np.cos(theta) - radius], axis=1)


def bar_robot(**options: object) -> VolumetricRobot:
    vertices, tets, regions = bar_mesh()
    given = {
        "material": MooneyRivlin(),
        "fixed": Select.plane("x", below=1e-6),
        "tip": Select.plane("x", above=LENGTH - 1e-6),
        "name": "bar",
        **options,
    }
    return VolumetricRobot.from_tets(vertices, tets, regions, **given)  # type: ignore[arg-type]


def bent_result(frames: int = 4, curved: bool = True, solver: object = None, **changes: object) -> Result:
    """Frames bent by 20, 40, ... degrees, with every measure filled in."""
    robot = bar_robot()
    angles = np.radians(20.0) * np.arange(1, frames + 1)
    nodes = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    moved = np.array([bend(nodes, a) for a in angles])
    n = len(robot.vertices)
    ratios = 1.0 + 0.1 * np.arange(1, frames + 1)[:, None]
    environment = Environment(
        gravity=(0, 0, -9.81),
        loads=[Load.force(robot.tip, (0, 0, -0.1))],
        obstacles=[Obstacle.sphere((0.08, 0, -0.04), 0.015, friction=0.2)],
        prescribed=[Prescribed([3], (np.nan, 0.0, 1e-3))],
    )
    trace = tuple(
        {
            "frame": f,
            "iteration": i,
            "residual": 10.0 ** -(2 * i),
            "step": 1.0,
            "contacts": 0,
            "seconds": {"assemble": 0.25, "factorise": 0.5},
        }
        for f in range(frames)
        for i in range(3)
    )
    given = dict(
        status=Status.CONVERGED,
        message=Status.CONVERGED.value,
        converged=True,
        times=np.arange(1.0, frames + 1.0),
        frames=moved[:, :n],
        mid_edge_frames=moved[:, n:] if curved else None,
        robot=robot,
        environment=environment,
        solver=solver,
        volume_ratios=ratios,
        chamber_volumes=ratios * robot.chamber_volumes,
        chamber_pressures=1e3 * np.arange(1, frames + 1)[:, None],
        tip=moved[:, robot.tip].mean(axis=1),
        reactions=np.full((frames, n, 3), 1e-3),
        max_penetration=np.zeros(frames),
        contact_count=np.zeros(frames),
        crossings=np.zeros(frames),
        body_volume_ratio=np.ones(frames),
        inverted_elements=np.zeros(frames),
        residual=np.full(frames, 1e-9),
        energies=np.linspace(0.0, 1.0, frames),
        trace=trace,
        extra={"note": "bent", "curve": np.array([1.0, 2.0])},
    )
    given.update(changes)
    return Result(**given)  # type: ignore[arg-type]
