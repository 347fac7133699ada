"""Shells in contact with themselves and obstacles: crossings, friction, processor seconds per step and where they go.

python benchmarks/shells_contact.py [sphere] [fold] [friction] [growth] [--triangles 2000,10000]

Crossings are counted by ipctk where it is installed (pip install ipctk), else by geosim itself.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from itertools import pairwise

import numpy as np
from shells_accuracy import mesh

from geosim import Environment, LinearElastic, Obstacle, Passive, RodShellRobot, RodShellStepper, solve
from geosim.collision.crossings import count_crossings
from geosim.rods.sheets import sheet_neighbourhood

RUBBER = LinearElastic(1e6, 0.3, 1000.0)


def crossed(frame: np.ndarray, triangles: np.ndarray) -> bool:
    """Whether triangles of a frame cross."""
    try:
        import ipctk
    except ImportError:
        return count_crossings(frame, triangles).count > 0
    surface = ipctk.CollisionMesh(frame, ipctk.edges(triangles), triangles)
    return bool(ipctk.has_intersections(surface, frame))


def least_gap(frame: np.ndarray, triangles: np.ndarray, reach: float) -> float:
    """Least distance of parts that share no vertex, `reach` if none is nearer [m]."""
    from geosim.collision.distance import edge_edge, point_triangle, separation

    flat = RodShellRobot(frame, triangles=triangles, thickness=1e-9, shell_material=RUBBER)
    near = sheet_neighbourhood(flat, np.full(len(frame), 0.5e-9)).near(frame, reach)
    best = reach
    w, c, e = np.empty(4), np.empty((4, 2)), np.empty(3)
    for ids, edges in zip(near.points, near.edges):
        x = frame[ids]
        (edge_edge if edges else point_triangle)(x, w, c)
        best = min(best, separation(x, w, e))
    return float(best)


def square(count: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """A flat square of about `count` triangles, centred."""
    cells = round(np.sqrt(count / 2))
    return mesh("crossed", (-size / 2, -size / 2), (size / 2, size / 2), size / cells)


def sphere_case(count: int, friction: float = 0.4, height: float = 0.105, offset: float = 0.0):
    """A sheet of 0.4 m and 2 mm dropped on a sphere of 0.1 m: it drapes, and its skirt folds on itself."""
    x, triangles = square(count, 0.4)
    x = x + [offset, 0, height]
    robot = RodShellRobot(x, triangles=triangles, thickness=2e-3, shell_material=LinearElastic(2e5, 0.3, 1000.0))
    ball = Obstacle.sphere((0, 0, 0), 0.1, friction=friction)
    environment = Environment(gravity=(0, 0, -9.81), obstacles=[ball], self_friction=friction)
    return robot, Passive(0.6), environment, RodShellStepper(dt=5e-3, frame_interval=0.02, damping=1.0)


def fold_case(count: int, friction: float = 0.3):
    """A sheet folded over (two halves of 0.1 m, 10 mm apart), pressed to 4.4 mm, a little more than twice its 2 mm."""
    radius, half, width, thick = 5e-3, 0.1, 0.1, 2e-3
    length = 2 * half + np.pi * radius
    cells = np.sqrt(count / 2 / (length * width))
    flat, triangles = mesh("crossed", (0, 0), (length, width), 1 / cells)
    s, y = flat[:, 0], flat[:, 1]
    angle = np.clip((s - half) / radius, 0, np.pi)
    x = np.where(s < half, half - s, np.where(s > length - half, s - (length - half), -radius * np.sin(angle)))
    z = radius * (1 - np.cos(angle)) + 1.01e-3
    vertices = np.column_stack([x, y, z])
    robot = RodShellRobot(vertices, triangles=triangles, thickness=thick, shell_material=RUBBER)
    steps = 12
    press = np.zeros((steps, 3))
    top = 2 * radius + 2.02e-3
    press[:, 2] = -np.minimum(np.arange(1, steps + 1) / (steps - 4), 1.0) * (top - 4.4e-3)
    floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=friction)
    plate = Obstacle.plane((0, 0, top), (0, 0, -1), friction=friction, motion=press)
    environment = Environment(gravity=(0, 0, -9.81), obstacles=[floor, plate], self_friction=friction)
    return robot, Passive(0.24, steps), environment, RodShellStepper(dt=5e-3, frame_interval=0.02, damping=20.0)


def run(name: str, case, limit: float | None = None) -> None:
    """Solve a case, check every frame and print what it took."""
    robot, actuation, environment, solver = case
    if limit is not None:
        actuation = Passive(limit)
    begin = time.process_time()
    result = solve(robot, actuation, environment, solver=solver, throw=False)
    seconds = time.process_time() - begin
    bad = sum(crossed(frame, robot.triangles) for frame in result.frames)
    touch = float(robot.thickness.max())
    gap = least_gap(result.frames[-1], robot.triangles, touch)
    increments = sum(1 for record in result.trace if record["iteration"] == 1)
    iterations = len(result.trace)
    print(
        f"{name:8} {len(robot.triangles):6d} triangles  t = {result.times[-1]:.3f} s  {result.status.name:13} "
        f"{increments:4d} increments {iterations / max(increments, 1):5.1f} iterations each "
        f"{seconds / max(increments, 1):7.3f} s/increment  "
        f"contacts {int(result.contact_count.max()):6d}  frames with crossings {bad} of {len(result.frames)}  "
        f"least gap {gap / touch:.2f} h  overlap {result.max_penetration.max() / touch:.2f} h",
        flush=True,
    )


def growth(counts: list[int]) -> None:
    """Seconds per increment of the draped sheet against the number of triangles, and where the time goes."""
    rows = []
    for count in counts:
        robot, _, environment, solver = sphere_case(count)
        first = solve(robot, Passive(0.16), environment, solver=solver)
        profile = cProfile.Profile(timer=time.process_time)
        begin = time.process_time()
        profile.enable()
        result = solve(robot, Passive(0.03), environment, solver=solver, initial=first.state)
        profile.disable()
        seconds = time.process_time() - begin
        increments = sum(1 for record in result.trace if record["iteration"] == 1)
        stats = pstats.Stats(profile).stats
        parts = {
            "factorise, solve": ("linear/stencils.py", "solve"),
            "pairs": ("rods/sheets.py", "near"),
            "step bound": ("rods/sheets.py", "first_touch"),
            "contact force": ("rods/sheet_contact.py", "forces"),
            "contact stiffness": ("rods/sheet_contact.py", "blocks"),
            "obstacles": ("rods/obstacles.py", "_call"),
            "elastic": ("rods/state.py", "evaluate"),
        }
        times = {
            part: sum(v[3] for k, v in stats.items() if k[0].endswith(file) and k[2] == name) / seconds
            for part, (file, name) in parts.items()
        }
        rows.append((len(robot.triangles), seconds / increments, len(result.trace) / increments))
        print(
            f"{len(robot.triangles):6d} triangles {seconds / increments:7.3f} s/increment "
            f"{len(result.trace) / increments:5.1f} iterations  "
            + "  ".join(f"{part} {100 * share:.0f} %" for part, share in times.items()),
            flush=True,
        )
    for (n0, s0, i0), (n1, s1, i1) in pairwise(rows):
        print(
            f"from {n0} to {n1} triangles: seconds per increment grow like n^{np.log(s1 / s0) / np.log(n1 / n0):.2f}, "
            f"per iteration like n^{np.log(s1 / i1 / (s0 / i0)) / np.log(n1 / n0):.2f}"
        )


def friction() -> None:
    """A sheet on another, tilted by 20 degrees: it slides without friction, holds with mu = 0.5 > tan 20."""
    x, triangles = square(450, 0.1)
    y, upper = square(200, 0.06)
    y = y + [0.0013, 0.0007, 2.0e-3]
    held = np.arange(len(x) + len(y)) < len(x)
    tilt = np.deg2rad(20)
    for mu in (0.0, 0.2, 0.5):
        robot = RodShellRobot(
            np.concatenate([x, y]),
            triangles=np.concatenate([triangles, upper + len(x)]),
            thickness=2e-3,
            shell_material=RUBBER,
            fixed_vertices=held,
        )
        environment = Environment(gravity=(9.81 * np.sin(tilt), 0, -9.81 * np.cos(tilt)), self_friction=mu)
        result = solve(robot, Passive(0.1), environment, solver=RodShellStepper(dt=2e-3, frame_interval=0.02))
        moved = (result.frames[:, len(x) :, 0] - result.frames[0, len(x) :, 0]).mean(axis=1)
        free = 0.5 * 9.81 * max(np.sin(tilt) - mu * np.cos(tilt), 0.0) * 0.1**2
        print(
            f"mu {mu:.1f}: slid {1e3 * moved[-1]:7.3f} mm in 0.1 s, Coulomb {1e3 * free:7.3f} mm, speed at the end "
            f"{1e3 * (moved[-1] - moved[-2]) / 0.02:7.2f} mm/s",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", default=[])
    parser.add_argument("--triangles", default="2000,10000")
    parser.add_argument("--until", type=float, default=None)
    options = parser.parse_args()
    counts = [int(c) for c in options.triangles.split(",")]
    chosen = options.sections or ["sphere", "fold", "friction", "growth"]
    for count in counts:
        if "sphere" in chosen:
            run("sphere", sphere_case(count), options.until)
        if "fold" in chosen:
            run("fold", fold_case(count))
    if "friction" in chosen:
        friction()
    if "growth" in chosen:
        growth(counts)
