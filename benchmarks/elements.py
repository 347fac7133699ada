"""Tip error against CPU seconds of the elements of the energy solver, four robots on three meshes each.

    OMP_NUM_THREADS=1 python benchmarks/elements.py --out FOLDER [finger pneunet bellows round]

Prints a table and draws elements.png. The error is the distance of the tip from that of isochoric P2 on a finer mesh, over the
way of the tip there; seconds are those of the solve, with warm kernels and without meshing. What is done stands in
FOLDER/runs.json and is not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Select, VolumetricRobot, generate
from geosim.resources import resource

ELEMENTS = {
    "P2 full": {"element": "p2", "invariants": "full"},
    "P2 isochoric": {"element": "p2", "invariants": "isochoric"},
    "P1 smoothed": {"element": "p1", "invariants": "isochoric"},
}
LIMIT = "P2 isochoric"


def _finger(edge: float) -> VolumetricRobot:
    folder = resource("meshes") / "finger"
    return VolumetricRobot.from_surfaces(
        folder / "body.stl", [folder / "chamber.stl"], units="mm", material="ecoflex-00-30-fang2022", max_edge=edge,
        fixed=Select.plane("x", below=1e-4), tip=Select.plane("x", above=99.9e-3))  # fmt: skip


# How a robot is meshed by its longest edge [m], V/V0, and the edges: three to be compared, and that of the limit.
ROBOTS: dict[str, tuple[Callable[[float], VolumetricRobot], float, tuple[float, ...]]] = {
    "finger": (_finger, 2.0, (12e-3, 6e-3, 4.3e-3, 3.4e-3)),
    "pneunet": (
        lambda edge: generate.pneunet(chambers=3).robot("ecoflex-00-30-fang2022", max_edge=edge),
        1.3,
        (8e-3, 4e-3, 3e-3, 2.5e-3),
    ),
    "bellows": (
        lambda edge: generate.bellows(convolutions=2).robot("ecoflex-00-30-fang2022", max_edge=edge),
        1.5,
        (8e-3, 2.2e-3, 1.9e-3, 1.7e-3),
    ),
    "round": (
        lambda edge: generate.round_finger().robot("ecoflex-00-30-fang2022", max_edge=edge),
        1.5,
        (10e-3, 3.4e-3, 3e-3, 2.6e-3),
    ),
}


def measured(robot: VolumetricRobot, ratio: float, options: dict[str, str]) -> dict[str, Any]:
    """Return what one solve finds and costs."""
    began = time.process_time()
    solver = EnergyShapeSolver(**options, check_stability=False)  # type: ignore[arg-type]
    result = geosim.solve(robot, Inflation(volume_ratio=ratio), Environment(self_contact=False), solver=solver)
    way = result.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip]
    return {
        "tets": len(robot.body_tets), "seconds": time.process_time() - began, "newton": len(result.trace),
        "tip": way.tolist(), "pressure": float(result.chamber_pressures[-1, 0]),
    }  # fmt: skip


def run(names: list[str], out: Path) -> dict[str, dict[str, Any]]:
    """Return all runs, those of before included."""
    file = out / "runs.json"
    runs: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    warm = False
    for name in names:
        make, ratio, edges = ROBOTS[name]
        for edge in edges:
            wanted = [LIMIT] if edge == edges[-1] else list(ELEMENTS)
            missing = [e for e in wanted if f"{name}/{edge * 1e3:g}/{e}" not in runs]
            robot = make(edge) if missing else None
            if missing and not warm:  # kernels are compiled, or read, by the first solve
                warm = bool([measured(_finger(20e-3), 1.1, options) for options in ELEMENTS.values()])
            for element in missing:
                assert robot is not None
                runs[f"{name}/{edge * 1e3:g}/{element}"] = measured(robot, ratio, ELEMENTS[element])
                file.write_text(json.dumps(runs, indent=1))
    return runs


def errors(runs: dict[str, dict[str, Any]], name: str) -> list[tuple[str, dict[str, Any], float, float]]:
    """Return element, run, error of the tip and of the pressure [%] of every run of a robot but the limit."""
    limit = runs[f"{name}/{ROBOTS[name][2][-1] * 1e3:g}/{LIMIT}"]
    tip = np.array(limit["tip"])
    found = []
    for edge in ROBOTS[name][2][:-1]:
        for element in ELEMENTS:
            one = runs[f"{name}/{edge * 1e3:g}/{element}"]
            miss = 100.0 * np.linalg.norm(np.array(one["tip"]) - tip) / np.linalg.norm(tip)
            found.append((element, one, float(miss), 100.0 * (one["pressure"] / limit["pressure"] - 1.0)))
    return found


def main() -> None:
    """Run what is missing, print the table and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", help=f"of {list(ROBOTS)}; default: all")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    names = given.robots or list(ROBOTS)
    given.out.mkdir(parents=True, exist_ok=True)
    runs = run(names, given.out)
    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.0), squeeze=False)
    print(f"{'robot':9s} {'element':13s} {'tets':>6s} {'Newton':>6s} {'CPU s':>7s} {'tip %':>6s} {'pressure %':>10s}")
    for ax, name in zip(axes[0], names):
        found = errors(runs, name)
        for element, one, tip, pressure in found:
            print(
                f"{name:9s} {element:13s} {one['tets']:6d} {one['newton']:6d} {one['seconds']:7.2f} {tip:6.2f} {pressure:10.2f}"
            )
        for element in ELEMENTS:
            mine = [(one["seconds"], tip) for e, one, tip, _ in found if e == element]
            ax.loglog(*zip(*mine), "o-", label=element)
        ax.set(title=f"{name}, V/V0 = {ROBOTS[name][1]:g}", xlabel="CPU seconds")
        for axis, ticks in ((ax.xaxis, (0.3, 1, 3, 10, 30)), (ax.yaxis, (0.1, 0.3, 1, 3, 10, 30))):
            axis.set_minor_formatter(NullFormatter())
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0, 0].set_ylabel("tip error, % of its way")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(given.out / "elements.png", dpi=110)


if __name__ == "__main__":
    main()
