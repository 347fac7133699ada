"""Random robots and commands, each in one command and in many small ones, and how many end in the same state.

    python benchmarks/path_study.py --one --count 60 --out study    the one command alone
    python benchmarks/path_study.py --count 60 --out study          both; goes on where the folder ends
    python benchmarks/path_study.py --out study --table             what the folder says

Robots are coarse (300 to 3500 tets): blocks, eight-sided cylinders that bend, PneuNets, bellows; P1 and P2; pressures between
vacuum and beyond the limit, volumes from a tenth to ten times; with and without gravity, a ball and friction. Every solve runs in
its own process under a limit of CPU seconds.

A case is decided where one command ends CONVERGED or UNSTABLE, or with a PRESSURE_LIMIT within 1 % of the limit that prescribed
volumes find, and no frame crosses itself or holds an inverted element. The line of a case tells Newton's iterations, those of
attempts that were thrown away, the volume ratio at the end, crossings, inverted elements and both limits. The table ends with a
hash of the meshes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from pinned import DRAGON_SKIN_10, ECOFLEX_00_30

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Obstacle, Select, Status, generate
from geosim.measures.provenance import mesh_hash

SMALL = 50  # steps of the slow way
BEYOND = 1.3  # how far the volumes go on behind a limit
VOLUMES = 16  # that look for a limit
MATERIALS = {"ecoflex-00-30": ECOFLEX_00_30, "dragon-skin-10": DRAGON_SKIN_10}
SAME = 1e-4  # largest distance of two states over the size of the robot
FORCES = 0.02  # the same of the force on a rough ball
LIMITS = 0.01  # the same of two limits
SIDES = 8  # of a cylinder
KINDS = ("block", "finger", "pneunet", "bellows")
LATE = 4.0  # wall seconds over CPU seconds after which a process is ended from outside


def robot_of(kind: str, rng: np.random.Generator) -> geosim.VolumetricRobot:
    """Return a random coarse robot."""
    material = MATERIALS[str(rng.choice(list(MATERIALS)))]
    wall = 1e-3 * rng.uniform(1.5, 2.5)
    if kind == "block":
        half = 1e-3 * rng.uniform([10.0, 7.0, 7.0], [16.0, 10.0, 10.0])
        inner = half - 1e-3 * rng.uniform(2.5, 4.5, 3)
        body, chamber = (trimesh.creation.box(extents=2.0 * size) for size in (half, inner))
        return geosim.VolumetricRobot.from_surfaces(
            body, [chamber], material=material, max_edge=6e-3, remesh=False,
            fixed=Select.plane("x", below=1e-5 - half[0]), tip=Select.plane("x", above=half[0] - 1e-5))  # fmt: skip
    if kind == "pneunet":
        return generate.pneunet(chambers=int(rng.integers(1, 4)), wall=wall).robot(material, max_edge=7e-3)
    if kind == "finger":
        length, radius, cap = 1e-3 * rng.uniform(30.0, 50.0), 8e-3, 4e-3
        outer = np.array([[0.0, 0.0], [radius, 0.0], [radius, length], [0.0, length]])
        hollow = np.array([[0.0, cap], [radius - wall, cap], [radius - wall, length - cap], [0.0, length - cap]])
        aside = 0.3 * wall  # the chamber lies off the axis: the finger bends
    else:
        folds, pitch, cap = int(rng.integers(1, 4)), 8e-3, 3e-3
        z = cap + 0.5 * pitch * np.arange(2 * folds + 1)
        r = np.where(np.arange(2 * folds + 1) % 2, 12e-3, 8e-3)
        length, aside = 2.0 * cap + folds * pitch, 0.0
        outer = np.column_stack([[0.0, r[0], *r, r[-1], 0.0], [0.0, 0.0, *z, length, length]])
        hollow = np.column_stack([[0.0, *(r - wall), 0.0], [z[0], *z, z[-1]]])
    body, chamber = (trimesh.creation.revolve(profile, sections=SIDES) for profile in (outer, hollow))
    chamber.apply_translation([aside, 0.0, 0.0])
    for surface in (body, chamber):
        surface.apply_transform(trimesh.transformations.rotation_matrix(0.5 * np.pi, [0.0, 1.0, 0.0]))
    return geosim.VolumetricRobot.from_surfaces(
        body, [chamber], material=material, max_edge=7e-3, remesh=False,
        fixed=Select.plane("x", below=1e-5), tip=Select.plane("x", above=length - 1e-5))  # fmt: skip


def case(seed: int) -> tuple[dict[str, str], geosim.VolumetricRobot, str, float, Environment]:
    """Return what a case is called, its robot, the name and the end of its command, and what is around it."""
    rng = np.random.default_rng(seed)
    kind, element = KINDS[seed % 4], ("p1", "p2")[seed // 4 % 2]
    robot = robot_of(kind, rng)
    if rng.random() < 0.5:
        name, end = "pressure", float(rng.uniform(-30e3, 30e3))
    else:
        name, end = "volume_ratio", float(np.exp(rng.uniform(np.log(0.1), np.log(10.0))))
    gravity = (0.0, 0.0, -9.81) if rng.random() < 0.5 else (0.0, 0.0, 0.0)
    obstacles: tuple[Obstacle, ...] = ()
    friction = float(rng.choice([0.0, 0.4]))
    if rng.random() < 0.3:
        low = robot.vertices[robot.body_vertices]
        center = (float(0.8 * low[:, 0].max()), 0.0, float(low[:, 2].min() - 9e-3))
        obstacles = (Obstacle.sphere(center, 8e-3, friction=friction),)
    around = f"{'gravity ' if any(gravity) else ''}{f'ball mu {friction:g}' if obstacles else ''}".strip()
    row = {"seed": str(seed), "kind": kind, "element": element, "command": f"{name} {end:.4g}", "around": around}
    return row, robot, name, end, Environment(gravity=gravity, obstacles=obstacles)


def limit_by_volume(robot: geosim.VolumetricRobot, at: float, environment: Environment, solver: Any) -> float:
    """Return the extreme pressure [Pa] on a path of prescribed volumes that leads past a limit at the ratio `at`."""
    ratios = np.geomspace(1.0, at**BEYOND, VOLUMES + 1)[1:]
    result = geosim.solve(robot, Inflation(volume_ratio=ratios), environment, solver=solver, throw=False)
    sign = 1.0 if at > 1.0 else -1.0
    pressures = sign * result.chamber_pressures[:, 0]
    best = int(np.argmax(pressures)) if len(pressures) else 0
    if not 0 < best < len(pressures) - 1:
        return float("nan")
    a, b, c = np.polyfit(np.log(ratios[best - 1 : best + 2]), pressures[best - 1 : best + 2], 2)
    return sign * float(c - 0.25 * b * b / a)


def iterations(trace: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Return Newton's iterations, and those of attempts that were thrown away."""
    steps = [record for record in trace if "iteration" in record]
    return len(steps), sum("discarded" in record for record in steps)


def run(seed: int, steps: int, seconds: float, follow: str, path: Path) -> None:
    """Solve a case in so many steps and CPU seconds at most, and keep what is compared."""
    row, robot, name, end, environment = case(seed)
    start = 0.0 if name == "pressure" else 1.0
    ramp = start + (end - start) * np.arange(1, steps + 1) / steps
    solver = EnergyShapeSolver(element=row["element"], follow=follow)
    signal.signal(signal.SIGPROF, signal.default_int_handler)  # the solver ends as with Ctrl-C, and says where it is
    signal.setitimer(signal.ITIMER_PROF, seconds)
    clock = time.process_time()
    found: dict[str, Any] = {**row, "tets": len(robot.body_tets), "size": robot.size, "mesh": mesh_hash(robot)}
    try:
        result = geosim.solve(robot, Inflation(**{name: ramp}), environment, solver=solver, throw=False)
    except geosim.InputError as error:
        keep(path, {**found, "status": "REFUSED", "message": str(error)})
        return
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    found |= {"status": result.status.name, "message": result.message, "seconds": time.process_time() - clock}
    found["newton"], found["lost"] = iterations(result.trace)
    last = result.partial
    found["reached"] = (len(result.frames) + (0.0 if last is None else float(last.times[0]))) / steps
    shown = [r for r in (result, last) if r is not None and len(r.frames)]
    found["crossings"] = int(max((r.crossings.max() for r in shown), default=0))
    found["inverted"] = int(max((r.inverted_elements.max() for r in shown), default=0))
    found["ratio"] = float(shown[-1].volume_ratios[-1, 0]) if shown else np.nan
    found["tip"] = shown[-1].tip[-1].tolist() if shown else []
    if result.status is Status.PRESSURE_LIMIT and last is not None:
        found["limit"] = float(last.chamber_pressures[-1, 0])
        if name == "pressure" and steps == 1:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            found["by_volume"] = limit_by_volume(robot, float(last.volume_ratios[-1, 0]), environment, solver)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    keep(path, found, result if result.converged else None)


def keep(path: Path, found: dict[str, Any], result: geosim.Result | None = None) -> None:
    """Write what was found, and the last frame where the end was reached."""
    frames = {} if result is None else {"frame": result.frames[-1], "force": result.obstacle_forces[-1]}
    np.savez(path, found=json.dumps(found), **frames)


def kept(path: Path) -> dict[str, Any] | None:
    """Return what was kept, None where nothing was."""
    if not path.exists():
        return None
    with np.load(path) as file:
        return {**json.loads(str(file["found"])), **{key: file[key] for key in file.files if key != "found"}}


def limited(seed: int, steps: int, seconds: float, follow: str, folder: Path) -> dict[str, Any]:
    """Return what `run` found in a process of its own, now or before, or that it did not end in time."""
    path = folder / f"{seed}-{steps}.npz"
    if (before := kept(path)) is not None:
        return before
    child = multiprocessing.Process(target=run, args=(seed, steps, seconds, follow, path))
    child.start()
    child.join(LATE * seconds)
    lost = "NO ANSWER" if child.is_alive() else "DIED"
    child.kill()
    child.join()
    if (found := kept(path)) is None:
        keep(path, found := {**case(seed)[0], "status": lost, "message": f"in {seconds:g} s"})
    return found


def decided(one: dict[str, Any]) -> bool:
    """Whether one command ended in a state or at its limit, without crossings and inverted elements."""
    if one.get("crossings", 0) or one.get("inverted", 0):
        return False
    if one["status"] == Status.PRESSURE_LIMIT.name:
        return abs(one.get("limit", np.nan) - one.get("by_volume", np.nan)) <= LIMITS * abs(one.get("limit", np.nan))
    return one["status"] in (Status.CONVERGED.name, Status.UNSTABLE.name)


def verdict(one: dict[str, Any], many: dict[str, Any] | None) -> tuple[str, float]:
    """Return how one command compares with many, and the distance of their states (nan where there are not two)."""
    limit = Status.PRESSURE_LIMIT.name
    if one["status"] == "REFUSED":
        return "refused", np.nan
    if many is None:
        return ("decided" if decided(one) else "open"), np.nan
    if "frame" not in many:
        if many["status"] != limit:
            return "open", np.nan
        same = one["status"] == limit and abs(one["reached"] - many["reached"]) < LIMITS * many["reached"]
        return ("limit" if same else "failed"), np.nan
    if "frame" not in one:
        return "failed", np.nan
    distance = float(np.linalg.norm(one["frame"] - many["frame"], axis=1).max()) / one["size"]
    if "mu 0.4" in one["around"]:
        apart, size = np.linalg.norm(one["force"] - many["force"]), np.linalg.norm(many["force"])
        return ("agrees" if apart <= FORCES * size else "differs"), distance
    # without friction two equilibria that are apart lie on two branches, whether both last or one is said not to
    return ("agrees" if distance < SAME else "branch"), distance


def line(one: dict[str, Any], many: dict[str, Any] | None) -> str:
    """Return what is said of a case."""
    word, distance = verdict(one, many)
    parts = [one[key] for key in ("seed", "kind", "element", "command", "around")]
    parts += [one.get("tets", ""), one["status"], f"{one.get('newton', '')} iterations, {one.get('lost', '')} lost"]
    parts += [f"{one.get('seconds', np.nan):.1f} s", f"V/V0 {one.get('ratio', np.nan):.3g}"]
    parts += [] if many is None else [many["status"], many.get("newton", ""), f"{distance:.1e}"]
    about = f"crossings {one.get('crossings', 0)}  inverted {one.get('inverted', 0)}"
    if "limit" in one:
        about += f"  limit {1e-3 * one['limit']:.4g} kPa, by volume {1e-3 * one.get('by_volume', np.nan):.4g}"
    why = one["message"] if word in ("failed", "open") else ""
    return "  ".join(str(part) for part in [*parts, word, about, why])


def table(folder: Path) -> None:
    """Print the cases, and their shares."""
    words: Counter[str] = Counter()
    meshes = hashlib.sha256()
    for seed in sorted(int(path.stem[:-2]) for path in folder.glob("*-1.npz")):
        one, many = kept(folder / f"{seed}-1.npz"), kept(folder / f"{seed}-{SMALL}.npz")
        assert one is not None
        words[verdict(one, many)[0]] += 1
        meshes.update(one.get("mesh", "").encode())
        print(line(one, many))
    ends = sum((found := kept(path)) is not None and decided(found) for path in folder.glob("*-1.npz"))
    print(f"{words.total()} cases, one command decides {ends}: {dict(words)}; meshes {meshes.hexdigest()[:16]}")


def main() -> None:
    """Run the cases that the folder does not hold yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seeds", type=int, nargs="*", help="these cases, in place of the first so many")
    parser.add_argument("--out", type=Path, default=Path("path_study"), help="folder")
    parser.add_argument("--limit", type=float, default=600.0, help="CPU seconds of one solve")
    parser.add_argument("--one", action="store_true", help="leave the small steps out")
    parser.add_argument("--follow", choices=("limit", "dynamic"), default="limit", help="as of the solver")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds or range(options.count):
        one = limited(seed, 1, options.limit, options.follow, options.out)
        alone = options.one or one["status"] == "REFUSED"
        print(
            line(one, None if alone else limited(seed, SMALL, options.limit, options.follow, options.out)), flush=True
        )


if __name__ == "__main__":
    main()
