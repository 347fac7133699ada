"""Measures that designs are decided by, on three meshes: whether they converge, bars cover, derivatives agree with differences.

    python benchmarks/limits.py table [--robots bellows membrane] [--out table.csv]
    python benchmarks/limits.py derivatives

`table` solves six robots on three meshes and on a finer one, the reference. For each of ten measures it prints the values and
the change from the second mesh to the third, and for the largest stretch and the largest equivalent stress the error bar of
every mesh and whether it covers the reference. `derivatives` holds the sensitivities of these two against central differences
of solves.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pinned import DRAGON_SKIN_30, ECOFLEX_00_30

import geosim
from geosim import generate
from geosim.geometry.topology import tet_volumes

MEASURES: dict[str, Callable[[geosim.Result], float]] = {
    "tip moved [mm]": lambda r: (
        1e3 * float(np.linalg.norm(r.tip[-1] - r.robot.tip_weights @ r.robot.vertices[r.robot.tip]))
    ),
    "bend [deg]": lambda r: float(np.degrees(r.bend_angle[-1])),
    "pressure [kPa]": lambda r: 1e-3 * float(np.max(r.chamber_pressures[-1], initial=-np.inf)),
    "volume [mm3]": lambda r: 1e9 * float(np.sum(r.chamber_volumes[-1])),
    "work [mJ]": lambda r: 1e3 * float(r.work[-1]),
    "mass [g]": lambda r: (
        1e3
        * sum(m.density for m in r.robot.materials.values())
        * float(tet_volumes(r.robot.vertices, r.robot.body_tets).sum())
    ),
    "tip stiffness [N/m]": lambda r: float(np.linalg.eigvalsh(0.5 * (r.tip_stiffness() + r.tip_stiffness().T))[0]),
    "share beyond 1.05 [%]": lambda r: 100.0 * r.share_beyond(1.05),
    "max_stretch": lambda r: float(r.max_stretch[-1]),
    "max_von_mises [kPa]": lambda r: 1e-3 * float(r.max_von_mises[-1]),
}
MESHES = Path(geosim.__file__).resolve().parent / "data" / "meshes"
BARRED = {"max_stretch": ("max_stretch", 1.0), "max_von_mises [kPa]": ("max_von_mises", 1e-3)}


@dataclass(frozen=True)
class Case:
    """A robot by its longest edge [m], what is done to it, and edges of three meshes and of the reference."""

    make: Callable[[float], geosim.VolumetricRobot]
    actuation: geosim.Actuation
    edges: tuple[float, float, float, float]


CASES = {
    "pneunet": Case(
        lambda e: generate.pneunet(chambers=1).robot(DRAGON_SKIN_30, max_edge=e),
        geosim.Inflation(pressure=[16e3]),
        (10e-3, 4e-3, 2.6e-3, 2e-3),
    ),
    "bellows": Case(
        lambda e: generate.bellows(convolutions=1, pitch=6e-3, wall=2e-3).robot(DRAGON_SKIN_30, max_edge=e),
        geosim.Inflation(pressure=[12e3]),
        (6e-3, 1.7e-3, 1.4e-3, 1e-3),
    ),
    "round finger": Case(
        lambda e: generate.round_finger(length=30e-3).robot(ECOFLEX_00_30, max_edge=e),
        geosim.Inflation(volume_ratio=[1.3]),
        (10e-3, 3e-3, 2.4e-3, 1.9e-3),
    ),
    "membrane": Case(
        lambda e: generate.membrane(chambers=1, size=40e-3, thickness=6e-3).robot(ECOFLEX_00_30, max_edge=e),
        geosim.Inflation(volume_ratio=[1.3]),
        (12e-3, 6e-3, 4.5e-3, 3.5e-3),
    ),
    "finger": Case(
        lambda e: geosim.load_robot(MESHES / "finger" / "robot.toml").remesh(max_edge=e),
        geosim.Inflation(volume_ratio=[1.5]),
        (8e-3, 5e-3, 4e-3, 3e-3),
    ),
    "tendon finger": Case(
        lambda e: generate.tendon_finger(joints=1, length=40e-3).robot(DRAGON_SKIN_30, max_edge=e),
        geosim.CableTensions([[0.3]]),
        (6e-3, 4.5e-3, 3.5e-3, 2.2e-3),
    ),
}


def measured(case: Case, edge: float, *, bars: bool) -> tuple[dict[str, float], dict[str, float], int, float]:
    """Values, bars, tets and CPU seconds of one mesh."""
    start = time.process_time()
    result = geosim.solve(case.make(edge), case.actuation)
    values = {name: of(result) for name, of in MEASURES.items()}
    widths = {}
    if bars:
        for name, (of, unit) in BARRED.items():
            widths[name] = unit * float(geosim.error_bars(result, of=of).mesh)
    return values, widths, len(result.robot.body_tets), time.process_time() - start


def table(names: list[str], out: Path | None) -> None:
    """Print the values of every measure of every robot on its meshes, and what they show."""
    lines = ["robot,measure,mesh 1,mesh 2,mesh 3,reference,change 2 to 3 [%],bar 1,bar 2,bar 3,covered"]
    worst, covered, asked = dict.fromkeys(BARRED, 0.0), dict.fromkeys(BARRED, 0), 0
    for name in names:
        case = CASES[name]
        runs = []
        for k, edge in enumerate(case.edges):
            runs.append(measured(case, edge, bars=k < 3))
            print(f"{name}: {runs[-1][2]} tets, {runs[-1][3]:.0f} s", flush=True)
        asked += 3
        for measure in MEASURES:
            values = [values[measure] for values, _, _, _ in runs]
            change = 100.0 * abs(values[2] / values[1] - 1.0) if values[1] else 0.0
            row: list[Any] = [name, measure, *(f"{v:.5g}" for v in values), f"{change:.2f}"]
            if measure in BARRED:
                bars = [runs[k][1][measure] for k in range(3)]
                inside = [abs(values[k] - values[3]) <= bars[k] for k in range(3)]
                row += [*(f"{b:.3g}" for b in bars), sum(inside)]
                worst[measure], covered[measure] = max(worst[measure], change), covered[measure] + sum(inside)
            lines.append(",".join(map(str, row)))
            print("  " + "  ".join(map(str, row[1:])), flush=True)
    for measure in BARRED:
        print(f"{measure}: changes by {worst[measure]:.1f} % at most, bars cover {covered[measure]} of {asked}")
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def derivatives() -> None:
    """Print how far sensitivities are from central differences of solves."""
    solver = geosim.EnergyShapeSolver(tolerance=1e-10)
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot(ECOFLEX_00_30, max_edge=12e-3)
    for element in ("p2", "p1"):
        chosen = geosim.EnergyShapeSolver(element=element, tolerance=solver.tolerance)
        solved = lambda made, p: geosim.solve(made, geosim.Inflation(pressure=[p]), solver=chosen)  # noqa: B023, E731
        soft = lambda c: robot.with_materials(geosim.MooneyRivlin(c1=c, c2=10.6e3, density=1070.0))  # noqa: E731
        for of in ("max_stretch", "max_von_mises"):
            value = lambda made, p: float(getattr(solved(made, p), of)[-1])  # noqa: B023, E731
            here, p, c = solved(soft(41.8e3), 2e3), 2e3, 41.8e3
            for to, low, high, step in (
                ("pressure", (soft(c), p - 4.0), (soft(c), p + 4.0), 8.0),
                ("material.c1", (soft(c - 80.0), p), (soft(c + 80.0), p), 160.0),
            ):
                slope = float(np.ravel(geosim.sensitivity(here, of, to).jacobian)[0])
                difference = (value(*high) - value(*low)) / step
                print(f"{element} d {of} / d {to}: {slope:.6e}, off by {abs(slope / difference - 1.0):.1e}", flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("table", "derivatives"))
    parser.add_argument("--robots", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part == "table":
        table(given.robots, given.out)
    else:
        derivatives()


if __name__ == "__main__":
    main()
