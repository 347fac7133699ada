"""The present version beside an earlier one: the same meshes and commands, whole processes in pairs, as ratios of CPU seconds.

    python benchmarks/versions.py --earlier CHECKOUT [--present FOLDER] [--out DIR] [--pairs 2] [--states] [CASE ...]

CHECKOUT is a folder with another version of geosim, by default what GEOSIM_EARLIER says. The present one is this checkout, or the
FOLDER into which a wheel was installed (`pip install --target FOLDER`). The meshes are made once, by this version, and given to
both as tetrahedra. Every run is a process of its own on one thread, from its start to its exit, with imports, kernels and what it
starts itself; the versions take turns. Kernels are compiled before, but for the case "cold", which begins with an empty folder of
kernels. The case "files" reads a result of four frames and writes all files of a solve. A row is the median of the pairs. With
--states both take the isochoric form of the energy, which the earlier one has by another default: then tips must agree. DIR
(default ./versions) keeps the meshes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
DATA, EARLIER = "GEOSIM_REFERENCE_DATA", "GEOSIM_EARLIER"
ONE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Case:
    """What is solved in both versions.

    Parameters
    ----------
    mesh, edge
        A reference case, or surfaces of meshes/ and the longest edge [mm] they are meshed with; "rods", "snake": those.
    ratios
        V/V0 of the commands.
    element
        Of the solver.
    contact
        Whether parts of the robot can touch, in the earlier version and in this one.
    cold
        Whether kernels are compiled in the run.
    """

    mesh: str
    edge: float | None = None
    ratios: tuple[float, ...] = ()
    element: str = "p2"
    contact: tuple[bool, bool] = (True, True)
    cold: bool = False


CASES = {
    "finger-8k": Case("finger_simple_8k", None, (2.0,)),
    "finger-30k": Case("finger_simple_30k", None, (2.0,)),
    "finger-8k-p1": Case("finger_simple_8k", None, (2.0,), "p1"),
    "finger-30k-p1": Case("finger_simple_30k", None, (2.0,), "p1"),
    "bellows-1.2": Case("bellows", 3.5, (1.2,)),
    "bellows-1.5-free": Case("bellows", 3.5, (1.5,), contact=(False, False)),
    "bellows-1.5": Case("bellows", 3.5, (1.5,)),
    "bellows-1.5-beside-free": Case("bellows", 3.5, (1.5,), contact=(False, True)),
    "demo": Case("pneunet", 5.0, (1.05, 1.1, 1.15, 1.2)),
    "cold": Case("finger_simple_8k", None, (2.0,), cold=True),
    "rods": Case("rods"),
    "snake": Case("snake"),
    "files": Case("files"),
}
OWN = ("rods", "snake", "files")  # cases without a mesh to share

# What both versions understand; run with their folder on PYTHONPATH.
SOLVE = """
import json, sys
import numpy as np, geosim
mesh, ratios, element, contact, form = json.loads(sys.argv[1])
def limb():
    material = geosim.LinearElastic(1e6, 0.5, 1100.0)
    limbs = [geosim.Limb((0, 0, 0), (0.2, 0, 0), nodes=41, radius=4e-3, material=material)]
    robot = geosim.RodShellRobot.from_limbs(limbs, fixed_vertices=[0, 1], fixed_edges=[0])
    curl = geosim.NaturalShape(times=[0.0, 0.5], curvature=[0.0, 10.0])
    return robot, curl, geosim.Environment(gravity=(0, 0, -9.81)), geosim.RodShellStepper(dt=5e-3)
def snake():
    gait = geosim.UndulatoryGait(amplitude=20e3, frequency=1.0, phase_lag=1.6, offset=0.0, duration=1.0)
    floor = geosim.Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)
    return geosim.make_snake(), gait, geosim.Environment(gravity=(0, 0, -9.81), obstacles=floor), None
def body():
    d = np.load(mesh)
    robot = geosim.VolumetricRobot.from_tets(
        d["points"], d["tets"], d["region"], material=geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3), fixed=d["fixed"], tip=d["tip"])
    options = {} if form is None else {"invariants": form}
    solver = geosim.EnergyShapeSolver(element=element, **options)
    return robot, geosim.Inflation(volume_ratio=ratios), geosim.Environment(self_contact=contact), solver
if mesh == "files":
    import tempfile
    result = geosim.load_result("files.npz")
    robot = result.robot
    with tempfile.TemporaryDirectory() as out:
        for name in ("result.npz", "summary.csv", "frames.pvd"):
            result.save(f"{out}/{name}")
        result.plot(f"{out}/picture.png"), result.html(f"{out}/view.html")
else:
    robot, actuation, environment, solver = {"rods": limb, "snake": snake}.get(mesh, body)()
    result = geosim.solve(robot, actuation, environment, solver=solver, throw=False)
tip = [] if not len(result.frames) else (result.frames[-1, -1] if mesh in ("rods", "snake") else result.tip[-1]).tolist()
print(json.dumps({"newton": len(result.trace), "status": result.status.name, "tip": tip,
                  "size": float(np.linalg.norm(np.ptp(robot.vertices, axis=0)))}))
"""


def mesh_of(case: Case, folder: Path) -> str:
    """Write the mesh of a case once, in metres; return its file, or the name of what needs none."""
    if case.mesh == "files" and not (folder / "files.npz").exists():
        demo = [sys.executable, "-m", "geosim", "demo", "--out", "demo", "--force"]
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        subprocess.run(demo, cwd=folder, env=environment, check=True, capture_output=True)
        shutil.copy(folder / "demo" / "result.npz", folder / "files.npz")
    if case.mesh in OWN:
        return case.mesh
    name, edge = case.mesh, case.edge
    path = folder / f"{name}{'' if edge is None else f'-{edge:g}'}.npz"
    if path.exists():
        return str(path)
    sys.path.insert(0, str(HERE))
    import geosim

    if edge is None:
        d = np.load(Path(os.environ[DATA]) / "cases" / f"{name}.npz")
        arrays = {"points": 1e-3 * d["points"], **{k: d[k] for k in ("tets", "region", "fixed", "tip")}}
    else:
        robot = geosim.VolumetricRobot.from_surfaces(
            HERE / "meshes" / name / "body.stl", [HERE / "meshes" / name / "chamber.stl"], units="mm",
            material=geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3), max_edge=1e-3 * edge, remesh=False,
            fixed=geosim.Select.plane("x", below=1e-4),
            tip=geosim.Select.plane("x", above=0.0999 if name == "bellows" else 0.1099))  # fmt: skip
        arrays = {"points": robot.vertices, "tets": robot.tets, "region": robot.regions}
        arrays |= {"fixed": robot.fixed, "tip": robot.tip}
    np.savez(path, **arrays)
    return str(path)


def measured(version: Path, cache: Path, folder: Path, asked: list[Any]) -> dict[str, Any]:
    """Solve in a process of its own; return what it printed, and its CPU and wall seconds from start to exit."""
    environment = {
        **os.environ,
        **ONE,
        "PYTHONPATH": str(version),
        "GEOSIM_CACHE_DIR": str(cache),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "",  # modules are kept compiled, as those of an installed package are
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", SOLVE, json.dumps(asked)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=3600, check=False)  # fmt: skip
    wall, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise SystemExit(f"{version}: {run.stderr[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(run.stdout.splitlines()[-1]), "cpu": cpu, "wall": wall}


def row(name: str, versions: tuple[tuple[Path, Path], ...], folder: Path, pairs: int, *, states: bool) -> str:
    """Return the row of a case."""
    case = CASES[name]
    if case.mesh.startswith("finger") and DATA not in os.environ:
        return f"| {name} | left out: {DATA} is not set |"
    mesh, form = mesh_of(case, folder), "isochoric" if states else None
    tets = "" if mesh == case.mesh else int((np.load(mesh)["region"] == 0).sum())
    rows = []
    for pair in range(pairs if case.cold else pairs + 1):
        found = []
        for (version, kept), contact in zip(versions, case.contact):
            ratios = [1.01] if pair == 0 and not case.cold else list(case.ratios)  # the first compiles
            if mesh == case.mesh and pair == 0:
                ratios = []
            cache = Path(tempfile.mkdtemp(dir=folder)) if case.cold else kept
            found.append(measured(version, cache, folder, [mesh, ratios, case.element, contact, form]))
            if case.cold:
                shutil.rmtree(cache, ignore_errors=True)
        if pair > 0 or case.cold:
            rows.append(found)
    seconds, walls = (np.median([[r[key] for r in found] for found in rows], axis=0) for key in ("cpu", "wall"))
    (old, new), apart = rows[0], np.nan
    if old["tip"] and new["tip"]:
        apart = float(np.linalg.norm(np.subtract(old["tip"], new["tip"]))) / new["size"]
    return (
        f"| {name} | {tets} | {old['newton']} -> {new['newton']} | {old['status']}, {new['status']} "
        f"| {seconds[0]:.2f} -> {seconds[1]:.2f} | {walls[0]:.2f} -> {walls[1]:.2f} "
        f"| {seconds[1] / seconds[0]:.2f} | {apart:.1e} |"
    )


def main() -> None:
    """Read the arguments and print a row for every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--earlier", type=Path, default=os.environ.get(EARLIER), required=EARLIER not in os.environ)
    parser.add_argument("--present", type=Path, default=HERE)
    parser.add_argument("--out", type=Path, default=Path("versions"))
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--states", action="store_true", help="the isochoric form in both")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    versions = (
        (arguments.earlier.resolve(), folder / "kernels-earlier"),
        (arguments.present.resolve(), folder / "kernels"),
    )
    print(
        "| case | body tets | iterations | Status | CPU s | wall s | ratio of CPU s | tips apart, over the size |\n"
        "|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in arguments.cases:
        print(row(name, versions, folder, arguments.pairs, states=arguments.states), flush=True)


if __name__ == "__main__":
    main()
