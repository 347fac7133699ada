"""Dense contact: milliseconds a step and an iteration of piles of rods with friction, and how they grow with the contacts.

    python benchmarks/rods_piles.py [--rods 50,100,200,400] [--steps 30]

Rods of 0.2 m, radius 5 mm, ten a layer, every other layer across, fall by a fiftieth of their thickness onto each other and onto
a plane, and settle. CPU seconds of this process, after a short run that compiles.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from geosim import Environment, Limb, LinearElastic, NaturalShape, Obstacle, RodShellRobot, RodShellStepper, solve

LENGTH, RADIUS, LAYER = 0.2, 5e-3, 10  # m, m, rods


def pile(rods, nodes=11, seed=0):
    """A robot of many rods in layers."""
    draw = np.random.default_rng(seed)
    material, limbs = LinearElastic(1e6, 0.5, 1000.0), []
    for i in range(rods):
        layer, k = divmod(i, LAYER)
        turn, aside = draw.uniform(-0.02, 0.02), (k + 0.5) / LAYER * LENGTH - LENGTH / 2 + draw.uniform(-2e-3, 2e-3)
        half = LENGTH / 2 * np.array([np.cos(turn), np.sin(turn), 0.0])
        middle = np.array([0.0, aside, 1.02 * (2 * layer + 1) * RADIUS])
        if layer % 2:
            half, middle = half[[1, 0, 2]], middle[[1, 0, 2]]
        limbs.append(Limb(middle - half, middle + half, nodes, RADIUS, material))
    return RodShellRobot.from_limbs(limbs)


def run(rods, steps, dt=5e-3):
    """CPU seconds of a pile's motion, its last state and status."""
    robot = pile(rods)
    ground = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)
    environment = Environment(gravity=(0, 0, -9.81), self_friction=0.3, obstacles=[ground])
    straight = NaturalShape([0.0, steps * dt], curvature=np.zeros((2, len(robot.bends), 2)))
    begin = time.process_time()
    result = solve(robot, straight, environment, solver=RodShellStepper(dt=dt))
    return time.process_time() - begin, result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rods", default="50,100,200,400")
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    run(20, 3)  # compiles
    first = before = None
    for rods in (int(n) for n in given.rods.split(",")):
        seconds, result = run(rods, given.steps)
        listed, made = len(result.state.memory.pairs), len(result.trace)
        now = np.array([seconds, seconds / made, listed])
        text = (
            f"{rods:4d} rods, {listed:6d} pairs near: {1e3 * seconds / given.steps:7.0f} ms a step, {made} iterations, "
            f"{1e3 * now[1]:.0f} ms each, {result.status.name}"
        )
        if before is not None and first is not None:
            last, whole = (np.log(now[:2] / old[:2]) / np.log(listed / old[2]) for old in (before, first))
            text += (
                f"; grows with the pairs to the power {last[0]:.2f} (an iteration {last[1]:.2f}), since the first "
                f"{whole[0]:.2f} ({whole[1]:.2f})"
            )
        print(text, flush=True)
        first, before = now if first is None else first, now


if __name__ == "__main__":
    main()
