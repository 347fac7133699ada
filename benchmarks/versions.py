"""The present version beside an earlier one: the same meshes and commands, whole solves in pairs, as ratios of CPU seconds.

    python benchmarks/versions.py --earlier CHECKOUT [--out DIR] [--pairs 2] [CASE ...]

CHECKOUT is a folder with another version of geosim, by default what GEOSIM_EARLIER says. The meshes are made once, by this
version, and given to both as tetrahedra. Every solve is a process of its own on one thread, the versions in turn, their kernels
compiled before; a row is the median of the pairs. DIR (default ./versions) keeps the meshes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
DATA, EARLIER = "GEOSIM_REFERENCE_DATA", "GEOSIM_EARLIER"
ONE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

# mesh (a reference case, or surfaces of meshes/ with the longest edge [mm]), V/V0 of the commands, element
CASES = {
    "finger-8k": ("finger_simple_8k", None, [2.0], "p2"),
    "finger-30k": ("finger_simple_30k", None, [2.0], "p2"),
    "finger-8k-p1": ("finger_simple_8k", None, [2.0], "p1"),
    "finger-30k-p1": ("finger_simple_30k", None, [2.0], "p1"),
    "pneunet": ("pneunet", 5.0, [1.2], "p2"),
    "demo": ("pneunet", 5.0, [1.05, 1.1, 1.15, 1.2], "p2"),
    "bellows": ("bellows", 3.5, [1.5], "p2"),
    "bellows-2": ("bellows", 3.5, [1.5, 2.0], "p2"),
}

# What both versions understand; run with their folder on PYTHONPATH.
SOLVE = """
import json, sys, time
import numpy as np, geosim
mesh, ratios, element = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
d = np.load(mesh)
def robot(points, tets, region, fixed, tip):
    return geosim.VolumetricRobot.from_tets(points, tets, region, material="ecoflex-00-30", fixed=fixed, tip=tip)
begun = time.process_time()
result = geosim.solve(robot(d["points"], d["tets"], d["region"], d["fixed"], d["tip"]),
                      geosim.Inflation(volume_ratio=ratios), solver=geosim.EnergyShapeSolver(element=element), throw=False)
print(json.dumps({"seconds": time.process_time() - begun, "newton": len(result.trace), "status": result.status.name,
                  "tip": (1e3 * result.tip[-1]).tolist() if len(result.frames) else []}))
"""


def mesh_of(name: str, edge: float | None, folder: Path) -> Path:
    """Write the mesh of a case once, in metres; return its file."""
    path = folder / f"{name}{'' if edge is None else f'-{edge:g}'}.npz"
    if path.exists():
        return path
    sys.path.insert(0, str(HERE))
    import geosim

    if edge is None:
        d = np.load(Path(os.environ[DATA]) / "cases" / f"{name}.npz")
        arrays = {"points": 1e-3 * d["points"], **{k: d[k] for k in ("tets", "region", "fixed", "tip")}}
    else:
        robot = geosim.VolumetricRobot.from_surfaces(
            HERE / "meshes" / name / "body.stl", [HERE / "meshes" / name / "chamber.stl"], units="mm",
            material="ecoflex-00-30", max_edge=1e-3 * edge, fixed=geosim.Select.plane("x", below=1e-4),
            tip=geosim.Select.plane("x", above=0.0999 if name == "bellows" else 0.1099))  # fmt: skip
        arrays = {"points": robot.vertices, "tets": robot.tets, "region": robot.regions}
        arrays |= {"fixed": robot.fixed, "tip": robot.tip}
    np.savez(path, **arrays)
    return path


def solved(version: Path, cache: Path, mesh: Path, ratios: list[float], element: str) -> dict[str, object]:
    """Solve in a process of its own; return what it printed."""
    environment = {**os.environ, **ONE, "PYTHONPATH": str(version), "GEOSIM_CACHE_DIR": str(cache)}
    arguments = [sys.executable, "-c", SOLVE, str(mesh), json.dumps(ratios), element]
    run = subprocess.run(
        arguments, cwd=version, env=environment, capture_output=True, text=True, timeout=3600, check=False
    )
    if run.returncode:
        raise SystemExit(f"{version}: {run.stderr[-500:]}")
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    """Read the arguments and print a row for every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--earlier", type=Path, default=os.environ.get(EARLIER), required=EARLIER not in os.environ)
    parser.add_argument("--out", type=Path, default=Path("versions"))
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    versions = (arguments.earlier.resolve(), folder / "kernels-earlier"), (HERE, folder / "kernels")
    print("| case | body tets | Newton | CPU s | ratio | tips apart [mm] |\n|---|---|---|---|---|---|", flush=True)
    for name in arguments.cases:
        source, edge, ratios, element = CASES[name]
        if edge is None and DATA not in os.environ:
            print(f"| {name} | left out: {DATA} is not set |", flush=True)
            continue
        mesh = mesh_of(source, edge, folder)
        tets = int((np.load(mesh)["region"] == 0).sum())
        for version, cache in versions:  # kernels
            solved(version, cache, mesh, [1.01], element)
        rows = [[solved(*version, mesh, ratios, element) for version in versions] for _ in range(arguments.pairs)]
        seconds = np.median([[float(str(r["seconds"])) for r in row] for row in rows], axis=0)
        (old, new), apart = rows[0], np.nan
        if old["tip"] and new["tip"]:
            apart = float(np.linalg.norm(np.subtract(old["tip"], new["tip"])))
        states = "" if old["status"] == new["status"] == "CONVERGED" else f" {old['status']}, {new['status']}"
        print(
            f"| {name} | {tets} | {old['newton']} -> {new['newton']}{states} | {seconds[0]:.1f} -> {seconds[1]:.1f} "
            f"| {seconds[1] / seconds[0]:.2f} | {apart:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
