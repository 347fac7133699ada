"""The projective solver against finite elements on the same mesh: error of the tip, volume, iterations, seconds.

    GEOSIM_REFERENCE_DATA=... python benchmarks/projective_accuracy.py finger_simple_8k [--ratios 1.5,2,3] [--all | --default]
    python benchmarks/projective_accuracy.py twister --ratios 2

A case is one of the reference data's (finger_simple_8k, finger_simple_30k, pneunet) or a robot that geosim ships. The
reference is a published solution where there is one (finger_simple_8k), else the energy solver on the same mesh. The error is
that of the mean tip displacement, in % of the length of the robot. One row for the default, for Anderson's
acceleration and for the plain iteration (same weights and tolerance as Anderson's); `--all` adds the other targets, and
`--default` leaves out all but the default.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import geosim
from geosim.shape.projective.solver import ProjectiveShapeSolver

MESHES = Path(__file__).resolve().parents[1] / "meshes"
CHOICES = ({}, {"acceleration": "anderson", "window": 6}, {"acceleration": "anderson", "window": 0})
PLAIN = {"max_iterations": 40_000}  # of the plain iteration on small meshes; on large ones it is left at the default
OTHERS = ({"blend_at_rest": 0.1}, {"body_targets": "paper"}, {"body_targets": "paper", "chamber_targets": "uniform"})


def load(name: str, ratios: list[float]) -> tuple[geosim.VolumetricRobot, np.ndarray, str]:
    """Return a robot, the tip displacements [m] (k, 3) of its reference, and where they come from."""
    robot = None
    if (MESHES / name / "robot.toml").is_file() and name != "pneunet":
        robot = geosim.load_robot(MESHES / name / "robot.toml")
    else:
        data = Path(os.environ["GEOSIM_REFERENCE_DATA"])
        case = np.load(data / "cases" / f"{name}.npz")
        robot = geosim.VolumetricRobot.from_tets(
            case["points"] * 1e-3,
            case["tets"],
            case["region"],
            fixed=case["fixed"],
            material=geosim.MooneyRivlin(),
            tip=case["tip"],
        )
        if (data / "fem" / f"{name}_p2p1.npz").is_file():
            fem = np.load(data / "fem" / f"{name}_p2p1.npz")
            rows = [int(np.argmin(np.abs(fem["rows"][:, 0] - ratio))) for ratio in ratios]
            moved = fem["positions"][rows] * 1e-3 - robot.vertices
            return robot, moved[:, robot.tip].mean(axis=1), "P2-P1 reference"
    clock = time.process_time()
    energy = geosim.solve(
        robot, geosim.Inflation(volume_ratio=ratios), geosim.Environment(self_contact=False), throw=False
    )
    moved = energy.frames - robot.vertices
    return (
        robot,
        moved[:, robot.tip].mean(axis=1),
        f"energy solver, {energy.status.name}, {time.process_time() - clock:.1f} CPU s",
    )


def main(name: str, ratios: list[float], everything: bool, alone: bool) -> None:
    """Print one line for every choice of options."""
    robot, reference, source = load(name, ratios)
    length = float(np.ptp(robot.vertices[robot.body_vertices], axis=0).max())
    print(
        f"{name}: {len(robot.tets)} tets, {len(robot.body_tets)} of them body; reference: {source}; tip moves "
        f"{np.round(np.linalg.norm(reference, axis=1) / length * 100, 2)} % of {length * 1e3:g} mm",
        flush=True,
    )
    for options in CHOICES[:1] if alone else (*CHOICES, *(OTHERS if everything else ())):
        more = PLAIN if options.get("window") == 0 and len(robot.tets) < 10_000 else {}
        clock = time.process_time()
        result = geosim.solve(
            robot,
            geosim.Inflation(volume_ratio=ratios),
            geosim.Environment(self_contact=False),
            solver=ProjectiveShapeSolver(error_estimate=False, **options, **more),
            throw=False,
        )
        seconds = time.process_time() - clock
        moved = (result.frames - robot.vertices)[:, robot.tip].mean(axis=1)
        errors = np.linalg.norm(moved - reference[: len(moved)], axis=1) / length * 100
        iterations = [
            sum(r["frame"] == i and "iteration" in r for r in result.trace) for i in range(len(result.frames))
        ]
        print(
            f"  {options or 'default'}: {result.status.name} V/V0 {np.round(result.volume_ratios.ravel(), 4)} tip error "
            f"{np.round(errors, 2)} % iterations {iterations} {seconds:.1f} CPU s {result.message}, pressures "
            f"{np.round(result.chamber_pressures.ravel() / 1e3, 1)} kPa, inverted {result.inverted_elements}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="?", default="finger_simple_8k")
    parser.add_argument("--ratios", default="1.5,2,3")
    parser.add_argument("--all", action="store_true", help="all targets of the local step")
    parser.add_argument("--default", action="store_true", help="the default alone")
    arguments = parser.parse_args()
    main(arguments.case, [float(r) for r in arguments.ratios.split(",")], arguments.all, arguments.default)
