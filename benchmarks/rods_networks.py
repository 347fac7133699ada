"""Random networks of rods and shells, dropped, pulled and twisted: how far the motion hangs on the time step.

python benchmarks/rods_networks.py [--seeds 0 1 ...] [--duration 0.15]

Prints for every network at the steps that the stepper chooses, and at a quarter of each of them: energy that the time integration
made or lost over all energy given, the mean position at the end, and by how much it and the largest vertex differ over the size.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from geosim import Environment, LinearElastic, Load, Obstacle, Passive, Result, RodShellRobot, RodShellStepper, solve
from geosim.cli.rod_cases import crossed_grid
from geosim.rods import pace

WHATS = ("dropped", "pulled", "twisted")
GRAVITY = (0.0, 0.0, -9.81)


def network(seed: int) -> tuple[RodShellRobot, Environment, str]:
    """A random tree of rods, every other one with a sheet on its trunk, and what happens to it."""
    rng = np.random.default_rng(seed)
    what, nodes, length = WHATS[seed % len(WHATS)], 9, 0.1
    trunk = np.linspace((0, 0, 0), (0, 0, length), nodes)
    vertices, edges = [trunk], [np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)]
    count, begin_angle = int(rng.integers(2, 4)), rng.uniform(0, 2 * np.pi)
    for branch, foot in enumerate(rng.permutation([2, 4, 6])[:count]):  # 25 mm apart, and to different sides
        angle = begin_angle + 2 * np.pi * branch / count
        way = rng.uniform(0.05, 0.1) * np.array([np.cos(angle), np.sin(angle), rng.uniform(-0.2, 0.2)])
        begin = nodes + branch * (nodes - 1)
        vertices.append(trunk[foot] + np.linspace(0, 1, nodes)[1:, None] * way)
        chain = np.concatenate([[foot], begin + np.arange(nodes - 1)])
        edges.append(np.stack([chain[:-1], chain[1:]], axis=1))
    x, triangles = np.concatenate(vertices), np.zeros((0, 3), dtype=int)
    if seed % 2:
        grid, triangles = crossed_grid(4, 4, 0.08, 0.08)
        corner = [0.0, 0.0, length]
        joined = np.flatnonzero((grid == 0.0).all(axis=1))[0]
        number = np.where(np.arange(len(grid)) == joined, nodes - 1, len(x) + np.arange(len(grid)))
        number[joined + 1 :] -= 1
        x, triangles = np.concatenate([x, np.delete(grid + corner, joined, axis=0)]), number[triangles]
    rubber = LinearElastic(10 ** rng.uniform(5.5, 6.5), 0.4, 1000.0)
    options = {"triangles": triangles, "thickness": 1.5e-3, "shell_material": rubber} if len(triangles) else {}
    floor = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=rng.uniform(0, 0.6))
    if what == "dropped":
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        x = x @ turn
        x[:, 2] += 0.01 - x[:, 2].min()
        surroundings = Environment(gravity=GRAVITY, obstacles=[floor])
    else:
        options |= {"fixed_vertices": [0, 1], "fixed_edges": [0]}
        loads = (
            [Load.force([nodes - 1], rng.normal(size=3) * 0.02)]
            if what == "pulled"
            else [Load.moment([nodes - 2], (0.0, 0.0, rng.uniform(1e-4, 3e-4)))]
        )
        places = rng.uniform(-0.1, 0.1, (1000, 3)) + [0, 0, 0.05]
        gaps = np.linalg.norm(places[:, None] - x, axis=2).min(axis=1)
        ball = Obstacle.sphere(places[np.flatnonzero(gaps > 0.035)[0]], 0.02, friction=0.3)
        surroundings = Environment(gravity=GRAVITY, loads=loads, obstacles=[ball])
    return RodShellRobot(x, np.concatenate(edges), radius=2e-3, rod_material=rubber, **options), surroundings, what


def followed(robot: RodShellRobot, surroundings: Environment, duration: float) -> tuple[Result, float]:
    """The motion at default settings, and the CPU seconds that it took."""
    begin = time.process_time()
    solver = RodShellStepper(frame_interval=0.01, overlap="resolve")
    result = solve(robot, Passive(duration), surroundings, solver=solver, throw=False)
    return result, time.process_time() - begin


def main() -> None:
    """Print one line a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(10))
    parser.add_argument("--duration", type=float, default=0.15)
    given = parser.parse_args()
    error, drift = pace.MAX_ERROR_RADII, pace.MAX_DRIFT
    for seed in given.seeds:
        robot, surroundings, what = network(seed)
        runs = []
        for cut in (1.0, 4.0):  # both errors grow with the third power of the step
            pace.MAX_ERROR_RADII, pace.MAX_DRIFT = error / cut**3, drift / cut**3
            runs.append(followed(robot, surroundings, given.duration))
        pace.MAX_ERROR_RADII, pace.MAX_DRIFT = error, drift
        (coarse, seconds), (fine, more) = runs
        drifts = [r.extra["drift"][-1] / r.extra["given_energy"][-1] for r, _ in runs]
        count = min(len(coarse.frames), len(fine.frames))
        apart = coarse.frames[count - 1] - fine.frames[count - 1]
        mean, most = np.linalg.norm(apart.mean(axis=0)), np.linalg.norm(apart, axis=1).max()
        print(
            f"{seed} {what:8s} {len(robot.vertices)} vertices, {len(robot.triangles)} triangles: {coarse.status.name}, "
            f"{fine.status.name}, energy {drifts[0]:+.1e}, {drifts[1]:+.1e}, apart by {mean / robot.size:.1e} (mean) "
            f"{most / robot.size:.1e} (most) of the size, {seconds:.1f} s, {more:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
