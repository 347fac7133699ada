"""Speed of rods, shells, snakes and environments for learning beside an earlier version, as ratios of CPU seconds in one run.

    python benchmarks/rods_versions.py --earlier CHECKOUT [--pairs 2] [CASE ...]

Cases: helix, entanglement, hinge, mid-edge, snake, reach, gripper. Every run is a process of its own on one thread; the
versions take turns. A first short run compiles, and the second one counts. A row is the best of each version: seconds of a
motion, or of the steps of an environment, and steps a CPU second of environments.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
ONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ENVIRONMENTS = {
    "snake": ("geosim/Snake-v0", 60),
    "reach": ("geosim/RodReach-v0", 300),
    "gripper": ("geosim/Gripper-v0", 40),
}


def motion(name: str, duration: float) -> Any:
    """Solve a motion for so long."""
    from geosim import (
        Environment,
        Fluid,
        Limb,
        LinearElastic,
        NaturalShape,
        Passive,
        RodShellRobot,
        RodShellStepper,
        solve,
    )
    from geosim.cli import rod_cases

    if name in ("hinge", "mid-edge"):
        x, triangles = rod_cases.crossed_grid(32, 32, 1.0, 1.0)
        skin = LinearElastic(1e6, 0.3, 1000.0)
        held = {"fixed_vertices": x[:, 0] < 1e-9, "shell_bending": name}
        robot = RodShellRobot(x, triangles=triangles, thickness=2e-3, shell_material=skin, **held)
        weight = Environment(gravity=(0, 0, -9.81), self_contact=False)
        return solve(robot, Passive(duration), weight, solver=RodShellStepper(dt=0.01))
    if name == "entanglement":  # as in `rod_cases`, which was another case in version 0.3.0
        rubber, fingers, nodes = LinearElastic(0.3e6, 0.5, 1200.0), 5, 60
        around = 2 * np.pi * np.arange(fingers) / fingers
        places = 0.0128 * np.stack([np.cos(around), np.sin(around)], axis=1)
        limbs = [Limb((x, y, 0), (x, y, -0.3), nodes, 5e-3, rubber) for x, y in places]
        tops = nodes * np.arange(fingers)
        held = {"fixed_vertices": np.concatenate([tops, tops + 1]), "fixed_edges": (nodes - 1) * np.arange(fingers)}
        robot = RodShellRobot.from_limbs(limbs, **held)
        turn = np.deg2rad(np.random.default_rng(0).uniform(0, 40.0, (len(robot.bends), 2)))
        curled = np.zeros((3, len(robot.bends), 2))
        curled[1:] = 2 * np.tan(turn / 2) / robot.bends.length[:, None]
        shape = NaturalShape([0.0, 2 * duration / 3, duration], curvature=curled)
        syrup = Environment(gravity=(0, 0, -9.8), self_friction=0.5, fluid=Fluid(density=0.0, viscosity=5.0))
        return solve(robot, shape, syrup, solver=RodShellStepper(dt=5e-3), throw=False)
    # the step at which the frequency is as exact as PyElastica's
    case = replace(
        rod_cases.helix(), solver=RodShellStepper(dt=2e-3, integrator="generalized-alpha", frame_interval=0.01)
    )
    actuation = replace(case.actuation, duration=duration)
    return solve(case.robot, actuation, case.environment, solver=case.solver, throw=False)


def timed(name: str) -> float:
    """CPU seconds of a case, compiled before."""
    if name in ENVIRONMENTS:
        import geosim.learning  # noqa: F401
        import gymnasium

        number, count = ENVIRONMENTS[name]
        made = gymnasium.make(number)
        made.reset(seed=0)
        made.action_space.seed(0)
        begin = 0.0
        for k in range(count + 3):
            if k == 3:
                begin = time.process_time()
            *_, ended, cut, _ = made.step(made.action_space.sample())
            if ended or cut:
                made.reset()
        return time.process_time() - begin
    first, duration = {"helix": (0.02, 3.0), "entanglement": (0.1, 1.0), "hinge": (0.02, 0.2), "mid-edge": (0.02, 0.2)}[
        name
    ]
    motion(name, first)
    begin = time.process_time()
    motion(name, duration)
    return time.process_time() - begin


def main() -> None:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = ["helix", "entanglement", "hinge", "mid-edge", *ENVIRONMENTS]
    parser.add_argument("cases", nargs="*", default=cases)
    parser.add_argument("--earlier", default=os.environ.get("GEOSIM_EARLIER"))
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(timed(given.cases[0]))
        return
    for name in given.cases:
        seconds: dict[str, list[float]] = {str(given.earlier): [], str(HERE): []}
        for _ in range(given.pairs):
            for folder, found in seconds.items():
                done = subprocess.run(
                    [sys.executable, __file__, name, "--run"],
                    env=os.environ | ONE | {"PYTHONPATH": folder},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                found.append(float(done.stdout.split()[-1]))
        before, now = (min(found) for found in seconds.values())
        steps = f", {ENVIRONMENTS[name][1] / now:.1f} steps a CPU second" if name in ENVIRONMENTS else ""
        print(
            f"{name:13s} earlier {before:7.2f} s, now {now:7.2f} s: {before / now:.2f} times as fast{steps}", flush=True
        )


if __name__ == "__main__":
    main()
