"""The projective solver against finite elements on the reference cases: error of the tip, volume, iterations, seconds.

    GEOSIM_REFERENCE_DATA=... python benchmarks/projective_accuracy.py [--ratios 1.5,2,3]

One row for every choice of targets, with and without acceleration (same weights, same tolerance). The error is that of
the mean tip displacement in % of the length of the finger (100 mm).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import geosim
from geosim.shape.projective import ProjectiveShapeSolver

CHOICES = (
    {}, {"window": 0, "max_iterations": 20_000}, {"blend_at_rest": 0.1}, {"body_targets": "variational"},
    {"body_targets": "paper"}, {"chamber_targets": "element"}, {"body_targets": "paper", "chamber_targets": "uniform"},
)


def main(ratios: list[float]) -> None:
    """Print one line for every choice of options."""
    data = Path(os.environ["GEOSIM_REFERENCE_DATA"])
    case = np.load(data / "cases" / "finger_simple_8k.npz")
    fem = np.load(data / "fem" / "finger_simple_8k_p2p1.npz")
    robot = geosim.VolumetricRobot.from_tets(case["points"] * 1e-3, case["tets"], case["region"],
                                             material=geosim.MooneyRivlin(), fixed=case["fixed"], tip=case["tip"])
    for options in CHOICES:
        clock = time.perf_counter()
        result = geosim.solve(robot, geosim.Inflation(volume_ratio=ratios), solver=ProjectiveShapeSolver(**options),
                              throw=False)
        seconds = time.perf_counter() - clock
        errors, iterations = [], []
        for i, ratio in enumerate(ratios[:len(result.frames)]):
            row = int(np.argmin(np.abs(fem["rows"][:, 0] - ratio)))
            gap = result.frames[i] * 1e3 - fem["positions"][row]
            errors.append(float(np.linalg.norm(gap[case["tip"]].mean(axis=0))))
            iterations.append(sum(r["frame"] == i and "iteration" in r for r in result.trace))
        print(f"{options or 'default'}: {result.status.name} V/V0 {np.round(result.volume_ratios.ravel(), 3)} tip error "
              f"{np.round(errors, 2)} % iterations {iterations} {seconds:.1f} s, pressures "
              f"{np.round(result.chamber_pressures.ravel() / 1e3, 1)} kPa, inverted {result.inverted_elements}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratios", default="1.5,2,3")
    main([float(r) for r in parser.parse_args().ratios.split(",")])
