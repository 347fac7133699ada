"""Solves in halves beside solves of the whole, in turn on the same mirrored meshes: CPU seconds, and how far apart they are.

OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python benchmarks/symmetry.py [CASE ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, generate

RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)
FINGER = generate.pneunet(chambers=3)
# name -> design, max_edge [m], V/V0
CASES: dict[str, tuple[Any, float, list[float]]] = {
    "pneunet-5k": (FINGER, 4e-3, [1.2, 1.4]),
    "pneunet": (FINGER, 2.2e-3, [1.2, 1.4]),
    "finger": (generate.round_finger(length=60e-3), 4e-3, [1.2, 1.4]),
    "bellows": (generate.bellows(convolutions=4), 4e-3, [1.1, 1.2]),
}


def main() -> None:
    """Solve the cases that are asked for, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []])
    write = sys.stdout.write
    write(
        f"{'case':12s} {'tets':>7s} {'whole s':>8s} {'halves s':>8s} {'ratio':>6s} {'no stability test':>18s} {'apart':>8s}\n"
    )
    for name in parser.parse_args().names or CASES:
        design, edge, ratios = CASES[name]
        robot = design.robot(RUBBER, max_edge=edge, symmetry="auto")
        found = {}
        for checked in (True, False):
            for symmetry in (None, "auto"):
                solver = EnergyShapeSolver(symmetry=symmetry, check_stability=checked)
                clock = time.process_time()
                result = geosim.solve(robot, Inflation(volume_ratio=ratios), Environment((0, 0, -9.81)), solver=solver)
                found[checked, symmetry] = result, time.process_time() - clock
        (whole, slow), (halves, fast) = found[True, None], found[True, "auto"]
        apart = np.abs(whole.frames - halves.frames).max() / robot.size
        same = "" if (whole.stable == halves.stable).all() else " STABILITY DIFFERS"
        alone = found[False, "auto"][1] / found[False, None][1]
        write(
            f"{name:12s} {len(robot.body_tets):7d} {slow:8.1f} {fast:8.1f} {fast / slow:6.2f} {alone:18.2f} {apart:8.0e}{same}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
