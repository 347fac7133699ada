"""Random robots and commands, each in one command and in many small ones, and how many end in the same state.

    python benchmarks/path_study.py --count 60 --out study.csv      goes on where the file ends
    python benchmarks/path_study.py --out study.csv --table         what the file says

Robots are coarse (300 to 1500 tets): blocks, round fingers, PneuNets, bellows; P1 and P2; pressures between vacuum and beyond
the limit, volumes from a tenth to ten times; with and without gravity, a ball and friction. Every solve runs in its own process
under a time limit; a solve that takes longer is a failure. A case is decided where the small steps reach its end, or name a
limit.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Obstacle, Select, Status, generate

SMALL = 50  # steps of the slow way
SAME = 1e-4  # largest distance of two states over the size of the robot
FORCES = 0.02  # the same of the force on a rough ball
LIMITS = 0.01  # the same of two limits
KINDS = ("block", "finger", "pneunet", "bellows")
COLUMNS = (
    "seed", "kind", "element", "command", "around", "tets", "one", "newton", "seconds", "many", "distance", "verdict", "message",
)  # fmt: skip


def robot_of(kind: str, rng: np.random.Generator) -> geosim.VolumetricRobot:
    """Return a random coarse robot."""
    material = str(rng.choice(["ecoflex-00-30", "dragon-skin-10"]))
    wall = 1e-3 * rng.uniform(1.5, 2.5)
    if kind == "block":
        half = 1e-3 * rng.uniform([10.0, 7.0, 7.0], [16.0, 10.0, 10.0])
        inner = half - 1e-3 * rng.uniform(2.5, 4.5, 3)
        body, chamber = (trimesh.creation.box(extents=2.0 * size) for size in (half, inner))
        return geosim.VolumetricRobot.from_surfaces(
            body, [chamber], material=material, max_edge=6e-3,
            fixed=Select.plane("x", below=1e-5 - half[0]), tip=Select.plane("x", above=half[0] - 1e-5))  # fmt: skip
    if kind == "finger":
        return generate.round_finger(length=1e-3 * rng.uniform(30, 50), wall=wall).robot(material, max_edge=7e-3)
    if kind == "pneunet":
        return generate.pneunet(chambers=int(rng.integers(1, 4)), wall=wall).robot(material, max_edge=7e-3)
    return generate.bellows(convolutions=int(rng.integers(1, 4)), wall=wall).robot(material, max_edge=7e-3)


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


def run(seed: int, steps: int, queue: Any) -> None:
    """Solve a case in so many steps and put what is compared into the queue."""
    row, robot, name, end, environment = case(seed)
    start = 0.0 if name == "pressure" else 1.0
    ramp = start + (end - start) * np.arange(1, steps + 1) / steps
    clock = time.process_time()
    try:
        result = geosim.solve(
            robot, Inflation(**{name: ramp}), environment, solver=EnergyShapeSolver(element=row["element"]), throw=False
        )
    except geosim.InputError as error:
        queue.put({"status": "REFUSED", "message": str(error)})
        return
    reached = (
        len(result.frames) / steps if result.partial is None else (len(result.frames) + result.partial.times[0]) / steps
    )
    queue.put(
        {
            "row": {**row, "tets": str(len(robot.body_tets))},
            "status": result.status.name,
            "message": result.message,
            "newton": sum("iteration" in record for record in result.trace),
            "seconds": time.process_time() - clock,
            "reached": reached,
            "frame": result.frames[-1] if result.converged else None,
            "force": result.obstacle_forces[-1] if result.converged else np.zeros((0, 3)),
            "size": robot.size,
        }
    )


def limited(seed: int, steps: int, seconds: float) -> dict[str, Any]:
    """Return what `run` found in a process of its own, or that it did not end in time."""
    queue: Any = multiprocessing.Queue()
    child = multiprocessing.Process(target=run, args=(seed, steps, queue))
    child.start()
    began = time.monotonic()
    while queue.empty() and child.is_alive() and time.monotonic() - began < seconds:
        time.sleep(0.2)
    found = queue.get(timeout=5.0) if not queue.empty() else None
    lost = "NO ANSWER" if child.is_alive() else "DIED"
    child.kill()
    child.join()
    return found if found is not None else {"status": lost, "message": f"in {seconds:g} s"}


def verdict(one: dict[str, Any], many: dict[str, Any]) -> tuple[str, float]:
    """Return how one command compares with many, and the distance of their states (nan where there are not two)."""
    limit = Status.PRESSURE_LIMIT.name
    if many.get("frame") is None:
        if many["status"] != limit:
            return "open", np.nan
        same = one["status"] == limit and abs(one["reached"] - many["reached"]) < LIMITS * many["reached"]
        return ("limit" if same else "failed"), np.nan
    if one.get("frame") is None:
        return "failed", np.nan
    unstable = Status.UNSTABLE.name in (one["status"], many["status"])
    distance = float(np.linalg.norm(one["frame"] - many["frame"], axis=1).max()) / one["size"]
    if "mu 0.4" in one["row"]["around"]:
        apart, size = np.linalg.norm(one["force"] - many["force"]), np.linalg.norm(many["force"])
        return ("agrees" if apart <= FORCES * size else "differs"), distance
    if distance >= SAME and unstable:
        return "branch", distance  # one way has buckled and the other stands where it could
    return ("agrees" if distance < SAME else "differs"), distance


def table(path: Path) -> None:
    """Print the cases, and their shares."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        print(*(row[key] for key in COLUMNS[:-1]), sep="  ")
    counts = Counter(row["verdict"] for row in rows)
    decided = len(rows) - counts["open"] - counts["refused"]
    good = counts["agrees"] + counts["limit"]
    print(
        f"{len(rows)} cases, {decided} decided, {good} as in small steps ({100.0 * good / max(decided, 1):.0f} %): {dict(counts)}"
    )


def main() -> None:
    """Run the cases that the file does not hold yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("path_study.csv"))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one solve")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.out)
        return
    done = set()
    if options.out.exists():
        with options.out.open() as file:
            done = {int(row["seed"]) for row in csv.DictReader(file)}
    for seed in sorted(set(range(options.count)) - done):
        one = limited(seed, 1, options.limit)
        many = limited(seed, SMALL, options.limit) if one["status"] != "REFUSED" else one
        word, distance = verdict(one, many) if one["status"] != "REFUSED" else ("refused", np.nan)
        row = one.get("row") or many.get("row") or {**case(seed)[0], "tets": ""}
        row = {
            **row,
            "one": one["status"],
            "newton": one.get("newton", ""),
            "seconds": f"{one.get('seconds', np.nan):.1f}",
        }
        row |= {"many": many["status"], "distance": f"{distance:.1e}", "verdict": word, "message": one["message"][:200]}
        fresh = not options.out.exists()
        with options.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if fresh:
                writer.writeheader()
            writer.writerow(row)
        print(*(row[key] for key in COLUMNS[:-1]), sep="  ", flush=True)


if __name__ == "__main__":
    main()
