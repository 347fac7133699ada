"""Speed of the rod stepper as ratios in one run, one thread.

Usage: OMP_NUM_THREADS=1 python rods_speed.py [--quick]

Prints, for the four cases of [Choi2024] Table II, seconds of processor time per simulated second over those of the C++
DisMech (stored, same kind of machine); then microseconds per Newton iteration against the number of nodes, and seconds per
simulated second of the entanglement gripper.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from geosim import Environment, LinearElastic, Passive, solve
from geosim.cli.rod_cases import Case, cantilever, entanglement, helix
from geosim.rods.robot import RodShellRobot
from geosim.rods.stepper import RodShellStepper

# seconds of the C++ DisMech over simulated seconds, one thread of a two-core machine
CASES = {
    "cantilever-soft": (lambda t: cantilever(201, 1e5, t, 0.5), 100.0, 0.69),
    "cantilever-stiff": (lambda t: cantilever(201, 1e7, t, 0.05), 20.0, 1.40),
    "helix-thick": (lambda t: helix(5e-3, 1e7, t, 6e-3), 10.0, 6.95),
    "helix-thin": (lambda t: helix(1e-3, 1e9, t, 3e-3), 2.0, 2.48),
}


def seconds_per_second(case: Case, duration: float, repeats: int = 2) -> tuple[float, int, int]:
    """Return processor seconds per simulated second (the best of some runs), steps and Newton iterations."""
    short = replace(case.actuation, duration=3 * case.solver.dt)
    solve(case.robot, short, case.environment, solver=case.solver)  # compiles
    best, result = np.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        result = solve(**case.arguments())
        best = min(best, time.process_time() - begin)
    assert result is not None
    return best / duration, len(result.times) - 1, int(result.extra["iterations"].sum())


def per_iteration(nodes: int, steps: int = 60) -> float:
    """Return microseconds per Newton iteration of a falling cantilever in space with `nodes` vertices."""
    x = np.stack([np.linspace(0, 1, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    robot = RodShellRobot(
        x, radius=0.4 / nodes, rod_material=LinearElastic(1e7, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0]
    )
    solver = RodShellStepper(dt=1e-3, integrator="implicit-midpoint", frame_interval=steps * 1e-3)
    environment = Environment(gravity=(0, 0, -9.8), self_contact=False)
    solve(robot, Passive(2e-3), environment, solver=replace(solver, frame_interval=1e-3))
    begin = time.process_time()
    result = solve(robot, Passive(steps * 1e-3), environment, solver=solver)
    seconds = time.process_time() - begin
    return 1e6 * seconds / max(len(result.trace), 1)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a tenth of the simulated time")
    given = options.parse_args()
    share = 0.1 if given.quick else 1.0
    print(f"{'case':18s} {'s per s':>9s} {'iter/step':>9s} {'us/iter':>8s} {'C++ / ours':>10s}")
    for name, (make, duration, peer) in CASES.items():
        ours, steps, iterations = seconds_per_second(make(share * duration), share * duration)
        row = (
            f"{name:18s} {ours:9.4f} {iterations / steps:9.2f} {1e6 * ours * share * duration / iterations:8.0f} "
            f"{peer / duration / ours:10.1f}"
        )
        print(row, flush=True)
    for nodes in (201, 501, 2001):
        print(f"N = {nodes:5d}: {per_iteration(nodes):8.0f} us per Newton iteration", flush=True)
    for friction in (0.0, 0.5):
        case = entanglement(friction, duration=0.2 if given.quick else 1.0)
        begin = time.process_time()
        result = solve(**case.arguments(), throw=False)
        seconds = time.process_time() - begin
        print(
            f"entanglement, friction {friction}: {result.status.name}, "
            f"{seconds / result.times[-1]:.1f} s per simulated second, "
            f"deepest overlap {100 * result.max_penetration.max() / 5e-3:.2f} % of the radius",
            flush=True,
        )


if __name__ == "__main__":
    main()
