"""SuperLU and Pardiso, P1 and P2: the energy solver's work to V/V0 = 2 in one run.

Usage: OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python factorisers.py [--case FILE.npz] [--max-edge MM] [--repeats 1] [--skip-large]

Prints, on a coarse finger of geosim's own and on finger_simple_8k of GEOSIM_REFERENCE_DATA (left out where that is unset),
for every element and factoriser: unknowns, Newton iterations, factorisations, Krylov iterations, CPU seconds in the linear
algebra and in all, the pressure at V/V0 = 2 and the ratio of the CPU seconds SuperLU / Pardiso.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim import Environment, Inflation
from geosim.linear.bordered import BorderedSolver
from geosim.linear.factorise import describe
from geosim.shape.energy.solver import EnergyShapeSolver


class Clock:
    """CPU seconds spent in the bordered linear systems while it is entered."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._solve = BorderedSolver.solve

    def __enter__(self) -> Clock:
        def timed(solver: BorderedSolver, *args: Any, **options: Any) -> Any:
            begin = time.process_time()
            try:
                return self._solve(solver, *args, **options)
            finally:
                self.seconds += time.process_time() - begin

        BorderedSolver.solve = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        BorderedSolver.solve = self._solve  # type: ignore[method-assign]


def coarse_finger(max_edge: float) -> Any:
    """Return the plain finger that geosim ships, meshed with edges up to `max_edge` [mm]."""
    folder = Path(__file__).resolve().parent.parent / "meshes" / "finger"
    at = geosim.Select.plane
    return geosim.VolumetricRobot.from_surfaces(
        folder / "body.stl",
        [folder / "chamber.stl"],
        material="ecoflex-00-30-fang2022",
        units="mm",
        max_edge=1e-3 * max_edge,
        fixed=at("x", below=1e-4),
        tip=at("x", above=0.0999),
    )


def reference_case(path: Path) -> Any:
    """Return the robot of a mesh file (points [mm], tets, region, fixed, tip)."""
    with np.load(path) as data:
        return geosim.VolumetricRobot.from_tets(
            1e-3 * data["points"],
            data["tets"],
            data["region"],
            material="ecoflex-00-30-fang2022",
            fixed=data["fixed"],
            tip=data["tip"],
        )


def measure(robot: Any, element: str, factoriser: str, repeats: int) -> dict[str, float]:
    """Return the work of one solve to V/V0 = 2, the cheapest of some."""
    best: dict[str, float] = {}
    solver = EnergyShapeSolver(element=element, factoriser=factoriser)
    for _ in range(repeats):
        with Clock() as clock:
            begin = time.process_time()
            state = solver.start(robot, Environment())
            command = solver.commands(robot, Inflation(volume_ratio=2.0))[0]
            state, report = solver.step(state, command)
            total = time.process_time() - begin
        if not report.reached:
            raise SystemExit(f"{element} with {factoriser}: {report.message}")
        linear = state.problem.linear
        if not best or total < best["total"]:
            best = {
                "unknowns": state.problem.pattern.size,
                "newton": len(report.records),
                "factorisations": linear.factorisations,
                "krylov": linear.krylov,
                "linear": clock.seconds,
                "total": total,
                "kpa": float(state.frame.chamber_pressures[0]) / 1e3,
            }
    return best


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--case", type=Path, help="a larger mesh than the coarse finger: npz")
    options.add_argument("--max-edge", type=float, default=8.0, help="of the coarse finger [mm]")
    options.add_argument("--repeats", type=int, default=1, help="solves of each kind, of which the cheapest counts")
    options.add_argument("--skip-large", action="store_true", help="the coarse finger alone")
    given = options.parse_args()
    robots = {"finger, coarse": coarse_finger(given.max_edge)}
    data = os.environ.get("GEOSIM_REFERENCE_DATA")
    path = given.case or (Path(data) / "cases" / "finger_simple_8k.npz" if data else None)
    if path is not None and not given.skip_large:
        robots[path.stem] = reference_case(path)
    names = ["pardiso", "superlu"] if describe()["factoriser"] == "pardiso" else ["superlu"]
    for element in ("p1", "p2"):  # compiles
        measure(robots["finger, coarse"], element, names[0], 1)
    print(
        f"{'mesh':20s} {'tets':>6s} {'element':>7s} {'factoriser':>10s} {'unknowns':>8s} {'Newton':>6s} {'factor.':>7s} "
        f"{'Krylov':>6s} {'linear s':>8s} {'all s':>7s} {'kPa':>8s} {'SuperLU/Pardiso':>15s}"
    )
    for label, robot in robots.items():
        for element in ("p1", "p2"):
            found = {}
            for name in names:
                m = found[name] = measure(robot, element, name, given.repeats)
                ratio = (
                    f"{m['linear'] / found['pardiso']['linear']:15.1f}" if name == "superlu" and len(found) == 2 else ""
                )
                print(
                    f"{label:20s} {len(robot.body_tets):6d} {element:>7s} {name:>10s} {m['unknowns']:8.0f} "
                    f"{m['newton']:6.0f} {m['factorisations']:7.0f} {m['krylov']:6.0f} {m['linear']:8.2f} "
                    f"{m['total']:7.2f} {m['kpa']:8.3f} {ratio}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
