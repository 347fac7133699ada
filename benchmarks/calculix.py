"""CalculiX against geosim: one mesh, one material, one end state (V/V0 = 2), whole processes.

Usage: python calculix.py [--case FILE.npz] [--repeats 3] [--calculix-repeats 1] [--threads 1 2]
                          [--increments 0.05 0.1 0.25] [--folder DIR] [--deck-only]

Needs the solver `ccx` (apt-get install calculix-ccx). The case is finger_simple_8k of GEOSIM_REFERENCE_DATA; where that
variable is unset, the plain finger that geosim ships, meshed here.

The CalculiX deck has quadratic tetrahedra (C3D10), *HYPERELASTIC, MOONEY-RIVLIN with bulk modulus = 500 x shear modulus,
follower pressure on the chamber's wall and a static NLGEOM step with automatic increments and default tolerances. The
pressure is the one at which CalculiX ends at V/V0 = 2, found by one run that is not timed. Of the initial increments the
one with the fewest CPU seconds counts.

The default tolerance of CalculiX, half a percent of the mean force, leaves the tip of a slender finger uncertain by
several percent, and different from one initial increment to another. `--residual 1e-4` tightens it,
for a comparison of tips; the cost is compared at the default.

Every run is a process of its own, with compiled kernels and a warm disk cache; CPU seconds are those of the process and
its children (getrusage), the least of the repeats. Timed geosim runs, all P2-P1 and from a mesh file to a tip file:

    default      incompressible, V/V0 = 2 prescribed: what a user who asks for this state runs; the ratio that counts
    isochoric    the same with W of the isochoric invariants, as CalculiX evaluates it
    bulk 500     the material of the deck, V/V0 = 2 prescribed
    by pressure  the material of the deck, driven by its own pressure at V/V0 = 2: the problem posed as CalculiX has it
"""

from __future__ import annotations

import argparse
import json
import os
import re
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

C1, C2 = 41.8e3, 10.6e3  # Pa
BULK_OVER_SHEAR = 500.0
RATIO = 2.0
# Faces S1..S4 of a CalculiX tetrahedron as positions of its corners, and of geosim's mid-edges: both number 01 12 02 03 13 23
CALCULIX_FACES = ((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))

# the runs of geosim: options of its child process
RUNS: dict[str, dict[str, Any]] = {
    "default": {"invariants": "full", "bulk": False, "by": "volume"},
    "isochoric": {"invariants": "isochoric", "bulk": False, "by": "volume"},
    "bulk 500": {"invariants": "isochoric", "bulk": True, "by": "volume"},
    "by pressure": {"invariants": "isochoric", "bulk": True, "by": "pressure"},
}


@dataclass(frozen=True)
class Cost:
    """What a process took: CPU and wall seconds."""

    cpu: float
    wall: float


# ---- the child: geosim from a mesh file to a tip file


def solve_case(options: dict[str, Any]) -> None:
    """Load a mesh, solve to V/V0 = 2 (or to a pressure), save the shape: the process that is timed."""
    from geosim import EnergyShapeSolver, Inflation
    from geosim.solve import solve

    robot = load_robot(options["case"], bulk=options["bulk"])
    actuation = (
        Inflation(volume_ratio=options["target"])
        if options["by"] == "volume"
        else Inflation(pressure=options["target"])
    )
    result = solve(robot, actuation, solver=EnergyShapeSolver(invariants=options["invariants"]))
    np.savez(
        options["out"],
        tip=result.tip[-1],
        frame=result.frames[-1],
        pressure=result.chamber_pressures[-1],
        ratio=result.volume_ratios[-1],
        iterations=len(result.trace),
    )


def load_robot(case: str, *, bulk: bool) -> Any:
    """Return the robot of a mesh file (points [mm], tets, region, fixed, tip)."""
    from geosim import MooneyRivlin, VolumetricRobot

    shear = 2.0 * (C1 + C2)
    material = MooneyRivlin(C1, C2, bulk_modulus=BULK_OVER_SHEAR * shear) if bulk else MooneyRivlin(C1, C2)
    with np.load(case) as data:
        return VolumetricRobot.from_tets(
            1e-3 * data["points"], data["tets"], data["region"], material=material, fixed=data["fixed"], tip=data["tip"]
        )


def own_case(folder: Path) -> Path:
    """Mesh the plain finger that geosim ships and write it as a case."""
    import geosim

    robot = geosim.load_robot(Path(__file__).resolve().parent.parent / "meshes" / "finger" / "robot.toml")
    path = folder / "finger.npz"
    np.savez(path, points=1e3 * robot.vertices, tets=robot.tets, region=robot.regions, fixed=robot.fixed, tip=robot.tip)
    return path


# ---- the deck


def wall_sides(robot: Any) -> list[tuple[int, int]]:
    """Return (body tet, side 1..4) for every face of the chambers' walls."""
    owners = {}
    for side, corners in enumerate(CALCULIX_FACES, start=1):
        for tet, face in enumerate(np.sort(robot.body_tets[:, corners], axis=1).tolist()):
            owners[tuple(face)] = tet, side
    return [owners[tuple(face)] for walls in robot.chamber_walls for face in np.sort(walls, axis=1).tolist()]


def _listed(ids: Any) -> str:
    numbers = [str(int(i)) for i in ids]
    return "\n".join(",".join(numbers[k : k + 12]) for k in range(0, len(numbers), 12))


def write_deck(robot: Any, pressure: float, increment: float, path: Path, residual: float | None = None) -> None:
    """Write the CalculiX input file of a robot under a chamber pressure (units mm, N, MPa).

    Parameters
    ----------
    robot
        A `VolumetricRobot` of one Mooney-Rivlin material; node k of `robot.p2_tets` is node k + 1 of the deck.
    pressure
        In every chamber [Pa].
    increment
        Initial increment, as a share of the pressure.
    residual
        Largest force residual over the mean force at which an increment ends; default CalculiX's own, 0.005.
    """
    from geosim.shape.energy.constraints.supports import held_nodes

    nodes = 1e3 * np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    used = np.unique(robot.p2_tets)
    chosen = np.zeros(len(robot.vertices), dtype=bool)
    chosen[robot.fixed] = True
    held = np.flatnonzero(held_nodes(robot, chosen))
    bulk = BULK_OVER_SHEAR * 2.0 * (C1 + C2) * 1e-6
    lines = ["*HEADING", "inflation of a soft robot; mm, N, MPa", "*NODE, NSET=NALL"]
    lines += ["{},{:.12g},{:.12g},{:.12g}".format(k + 1, *nodes[k]) for k in used]
    lines += ["*ELEMENT, TYPE=C3D10, ELSET=BODY"]
    lines += [f"{e + 1},{','.join(str(k + 1) for k in tet)}" for e, tet in enumerate(robot.p2_tets)]
    lines += [
        "*NSET, NSET=HELD",
        _listed(held + 1),
        "*MATERIAL, NAME=RUBBER",
        "*HYPERELASTIC, MOONEY-RIVLIN",
        f"{1e-6 * C1:.9g},{1e-6 * C2:.9g},{2.0 / bulk:.9g}",
        "*SOLID SECTION, ELSET=BODY, MATERIAL=RUBBER",
        "*BOUNDARY",
        "HELD,1,3",
        "*STEP, NLGEOM, INC=1000",
    ]
    lines += ["*CONTROLS, PARAMETERS=FIELD", f"{residual:g}"] if residual else []
    lines += ["*STATIC", f"{increment:g},1.", "*DLOAD"]
    lines += [f"{tet + 1},P{side},{1e-6 * pressure:.12g}" for tet, side in wall_sides(robot)]
    lines += ["*NODE PRINT, NSET=NALL, FREQUENCY=1000", "U", "*END STEP", ""]
    path.write_text("\n".join(lines), encoding="ascii")


def read_displacements(path: Path, count: int) -> np.ndarray:
    """Return the last displacements of a .dat file [m], (count, 3); zero for nodes that the deck does not have."""
    out = np.zeros((count, 3))
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.split()
        if len(words) == 4 and words[0].isdigit():
            out[int(words[0]) - 1] = [float(w) for w in words[1:]]
    return 1e-3 * out


def chamber_ratio(robot: Any, displacement: np.ndarray) -> float:
    """Return V / V0 of the first chamber behind its curved six-node wall faces."""
    from geosim import Environment
    from geosim.shape.energy.problem import make_problem

    problem = make_problem(robot, Environment(), 2, "auto")
    nodes = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)]) + displacement
    x = (nodes[problem.nodes] - problem.center) / problem.length
    p, pressures = np.zeros(len(problem.pressure_vertices)), np.zeros(problem.chambers)
    volume = problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=False).scalars[0]
    return float(volume / problem.rest_chamber_volumes[0])


# ---- timed processes


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a timed process."""
    names = (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "CCX_NPROC_STIFFNESS",
        "CCX_NPROC_EQUATION_SOLVER",
        "CCX_NPROC_RESULTS",
    )
    return {**os.environ, **{name: str(threads) for name in names}}


def timed(command: list[str], threads: int, folder: Path) -> tuple[Cost, str]:
    """Run a process to its end; return what it took and what it printed."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment(threads), cwd=folder, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall), done.stdout


def run_geosim(
    name: str, case: Path, target: float, threads: int, repeats: int, folder: Path
) -> tuple[Cost, dict[str, np.ndarray]]:
    """Return the least cost of some runs of one kind, and what the last one found."""
    out = folder / f"{name.replace(' ', '_')}.npz"
    options = json.dumps({**RUNS[name], "case": str(case), "target": target, "out": str(out)})
    command = [sys.executable, str(Path(__file__).resolve()), "--solve", options]
    costs = [timed(command, threads, folder)[0] for _ in range(repeats)]
    with np.load(out) as data:
        return Cost(min(c.cpu for c in costs), min(c.wall for c in costs)), dict(data)


def run_calculix(
    robot: Any,
    pressure: float,
    increment: float,
    threads: int,
    repeats: int,
    folder: Path,
    residual: float | None = None,
) -> tuple[Cost, np.ndarray, str]:
    """Return the least cost of some runs with one initial increment, the displacements [m] and a note on the path."""
    name = f"deck_{increment:g}".replace(".", "p")
    write_deck(robot, pressure, increment, folder / f"{name}.inp", residual)
    runs = [timed(["ccx", "-i", name], threads, folder) for _ in range(repeats)]
    costs = [cost for cost, _ in runs]
    steps = [line.split() for line in (folder / f"{name}.sta").read_text(encoding="utf-8").splitlines()]
    steps = [s for s in steps if len(s) >= 4 and s[0].isdigit()]
    if not steps or abs(float(steps[-1][-2]) - 1.0) > 1e-6:
        sys.exit(f"CalculiX stopped early with the initial increment {increment:g}:\n{runs[-1][1][-1500:]}")
    solves = len(re.findall(r"^ iteration\s+\d+", runs[-1][1], re.MULTILINE))
    note = f"{len(steps)} increments, {solves} iterations"
    moved = read_displacements(folder / f"{name}.dat", len(robot.vertices) + len(robot.p2_edges))
    return Cost(min(c.cpu for c in costs), min(c.wall for c in costs)), moved, note


def geosim_pressure(case: Path, ratio: float, folder: Path) -> float:
    """Return the chamber pressure of geosim with the material of the deck at a volume ratio [Pa]."""
    return float(run_geosim("bulk 500", case, ratio, 1, 1, folder)[1]["pressure"][0])


def probe(robot: Any, case: Path, own: float, given: argparse.Namespace, folder: Path) -> float:
    """Return the pressure at which CalculiX ends at V/V0 = 2 [Pa].

    Its displacement elements are stiffer than mixed ones: one run at geosim's pressure tells by how much.
    """
    _, moved, note = run_calculix(robot, own, given.increments[0], 1, 1, folder, given.residual)
    ratio = chamber_ratio(robot, moved)
    print(f"CalculiX at that pressure: V/V0 = {ratio:.4f} ({note})", flush=True)
    return own * own / geosim_pressure(case, ratio, folder)


def compare(given: argparse.Namespace, folder: Path) -> None:
    """Run both for every number of threads and print the tables."""
    case = given.case or default_case(folder)
    robot = load_robot(str(case), bulk=True)
    rest = robot.tip_weights @ robot.vertices[robot.tip]
    print(f"case {case.stem}: {len(robot.body_tets)} body tets, {len(np.unique(robot.p2_tets))} nodes")
    run_geosim("default", case, RATIO, 1, 1, folder)  # compiles
    own = geosim_pressure(case, RATIO, folder)
    print(
        f"pressure of geosim with bulk/shear {BULK_OVER_SHEAR:g} at V/V0 = {RATIO:g}: {own / 1e3:.4f} kPa", flush=True
    )
    if given.deck_only:
        write_deck(robot, own, given.increments[0], folder / "deck.inp", given.residual)
        print(f"deck: {folder / 'deck.inp'}")
        return
    pressure = 1e3 * given.pressure if given.pressure else probe(robot, case, own, given, folder)
    print(f"pressure of the deck: {pressure / 1e3:.4f} kPa", flush=True)
    for threads in given.threads:
        print(f"\n{threads} thread{'s' if threads > 1 else ''}")
        print(
            f"{'run':28s} {'CPU s':>8s} {'wall s':>8s} {'CPU ratio':>9s} {'tip mm':>9s} {'differs %':>9s}  notes",
            flush=True,
        )
        tries = []
        for increment in given.increments:
            tries.append(
                (
                    increment,
                    *run_calculix(robot, pressure, increment, threads, given.calculix_repeats, folder, given.residual),
                )
            )
            note = f"V/V0 {chamber_ratio(robot, tries[-1][2]):.4f}, {pressure / 1e3:.4f} kPa, {tries[-1][3]}"
            _print(f"calculix, increment {increment:g}", tries[-1][1], None, _tip(robot, tries[-1][2]), None, note)
        _, peer, moved, _ = min(tries, key=lambda t: t[1].cpu)
        tip = _tip(robot, moved)
        for name, options in RUNS.items():
            target = RATIO if options["by"] == "volume" else own
            cost, found = run_geosim(name, case, target, threads, given.repeats, folder)
            note = (
                f"V/V0 {float(found['ratio'][0]):.4f}, {float(found['pressure'][0]) / 1e3:.4f} kPa, "
                f"{int(found['iterations'])} iterations"
            )
            _print(f"geosim, {name}", cost, peer, found["tip"] - rest, tip, note)


def _tip(robot: Any, displacement: np.ndarray) -> np.ndarray:
    return robot.tip_weights @ displacement[robot.tip]


def _print(name: str, cost: Cost, peer: Cost | None, tip: np.ndarray, other: np.ndarray | None, note: str) -> None:
    ratio = f"{peer.cpu / cost.cpu:9.1f}" if peer else f"{'':9s}"
    differs = f"{100 * np.linalg.norm(tip - other) / np.linalg.norm(other):9.3f}" if other is not None else f"{'':9s}"
    print(
        f"{name:28s} {cost.cpu:8.2f} {cost.wall:8.2f} {ratio} {1e3 * np.linalg.norm(tip):9.4f} {differs}  {note}",
        flush=True,
    )


def default_case(folder: Path) -> Path:
    """Return finger_simple_8k of the reference data, or geosim's own plain finger."""
    data = os.environ.get("GEOSIM_REFERENCE_DATA")
    return Path(data) / "cases" / "finger_simple_8k.npz" if data else own_case(folder)


def main() -> None:
    """Print the tables, or be the child that is timed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=Path, help="a mesh: npz with points [mm], tets, region, fixed, tip")
    parser.add_argument("--repeats", type=int, default=3, help="runs of geosim, of which the cheapest counts")
    parser.add_argument("--calculix-repeats", type=int, default=1, help="runs of every CalculiX deck")
    parser.add_argument("--pressure", type=float, help="pressure of the deck [kPa]; default found by one more run")
    parser.add_argument("--residual", type=float, help="force tolerance of CalculiX; default its own, 0.005")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--increments", type=float, nargs="+", default=[0.05, 0.1, 0.25])
    parser.add_argument("--folder", type=Path, help="keeps decks and results here; default a temporary folder")
    parser.add_argument("--deck-only", action="store_true", help="writes the deck and stops")
    parser.add_argument("--solve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.solve:
        solve_case(json.loads(given.solve))
        return
    if not given.deck_only and shutil.which("ccx") is None:
        sys.exit("calculix.py needs the solver ccx: apt-get install calculix-ccx")
    if given.case:
        given.case = given.case.resolve()
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        compare(given, given.folder.resolve())
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(given, Path(folder))


if __name__ == "__main__":
    main()
