"""Seconds per step of a hanging sheet without contact: both bendings, Pardiso against SuperLU, in one run.

OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python benchmarks/shells_speed.py [--triangles 2000,10000]
"""

from __future__ import annotations

import argparse
import time

from shells_accuracy import mesh

from geosim import Environment, LinearElastic, Passive, RodShellRobot, RodShellStepper, solve
from geosim.linear import stencils
from geosim.linear.factorise import describe


def per_step(count: int, bending: str, steps: int = 6) -> tuple[float, float, int]:
    """Processor seconds per step and per iteration, and unknowns, of a sheet of 1 m held at one side that falls."""
    x, triangles = mesh("crossed", (0, 0), (1, 1), (2 / count) ** 0.5)
    robot = RodShellRobot(
        x,
        triangles=triangles,
        thickness=2e-3,
        shell_material=LinearElastic(1e6, 0.3, 1000.0),
        fixed_vertices=x[:, 0] < 1e-9,
        shell_bending=bending,
    )
    environment, solver = Environment(gravity=(0, 0, -9.81), self_contact=False), RodShellStepper(dt=0.01)
    first = solve(robot, Passive(0.02), environment, solver=solver).state
    begin = time.process_time()
    result = solve(robot, Passive(0.01 * steps), environment, solver=solver, initial=first)
    seconds = time.process_time() - begin
    return seconds / steps, seconds / len(result.trace), len(first.system.pattern.order)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--triangles", default="2000,10000")
    kinds = [describe()["factoriser"]] + (["superlu"] if describe()["factoriser"] != "superlu" else [])
    for count in (int(c) for c in parser.parse_args().triangles.split(",")):
        for bending in ("hinge", "mid-edge"):
            times = []
            for kind in kinds:
                stencils.describe = lambda kind=kind: {"factoriser": kind}  # type: ignore[assignment]
                step, iteration, size = per_step(count, bending)
                times.append(step)
                print(
                    f"{count:6d} triangles {bending:9} {size:6d} unknowns {kind:8} {step:7.3f} s/step "
                    f"{1e3 * iteration:7.1f} ms/iteration",
                    flush=True,
                )
            if len(times) > 1:
                print(f"{'':38} superlu / {kinds[0]} = {times[1] / times[0]:.2f}")
