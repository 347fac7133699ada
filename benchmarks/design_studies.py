"""Studies of many designs: the finger that bends 90 degrees, random calls of all generators, 500 random PneuNets.

    python benchmarks/design_studies.py task calls previews pneunets dask compare search slopes --out DIR
        [--count N] [--workers 2]
    python benchmarks/design_studies.py calls --designs membrane gripper --out DIR

Every part goes on where it was ended: what it solved lies in DIR/PART. Seconds are CPU seconds of the design's process.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas
import tomli_w

import geosim
from geosim import generate
from geosim.apps.study import solving
from geosim.apps.study.children import Children
from geosim.apps.study.measures import measured
from geosim.apps.study.optimizing import DesignSearch, constrained, costs
from geosim.apps.study.proposing import Proposer
from geosim.apps.study.runs import Runs
from geosim.apps.study.sampling import Row
from geosim.apps.study.slopes import slopes
from geosim.apps.study.solving import write_problem
from geosim.apps.study.study import Study, read_study
from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.generate.dimensions import dimensions

P1 = {"element": "p1"}
CALLS = 38  # of every generator
# The finger of the documentation: P2, because P1 with one element through a wall bends two thirds as far.
TASK = """
design = "pneunet"
material = "ecoflex-00-30-fang2022"
[vary]
wall_mm = { from = 1.0, to = 3.0 }
chambers = { from = 4, to = 8, integer = true }
[actuation]
pressure_kpa = [10]
[mesh]
max_edge_mm = 10.0
[measures]
columns = ["bend_angle_deg", "max_stretch", "mass_g"]
[limits]
seconds = 400
[optimize]
goals = ["target bend_angle_deg 90", "minimize mass_g"]
trials = 13
"""
COLUMNS = {"columns": ["bend_angle_deg", "max_stretch", "tets", "mass_g"]}


def task(out: Path, count: int, workers: int) -> None:
    """The best finger, and the same on finer meshes."""
    (out / "bend90.toml").write_text(TASK)
    table = geosim.optimize(out / "bend90.toml", workers=workers, out=out / "search")
    row = json.loads((out / "search" / "best" / "row.json").read_text(encoding="utf-8"))
    print(f"{len(table)} designs, {table['seconds'].sum() / 60:.1f} min of CPU, {said(table)}")
    print(table[table["run"] == row["run"]].to_string(index=False))
    finer = {
        "robot": "search/best/robot.toml",
        "vary": {"body.max_edge": [10.0, 2.0, 1.5][: max(1, count)]},
        "actuation": {"pressure_kpa": [10.0]},
        "measures": COLUMNS,
        "limits": {"seconds": 3000},
    }
    (out / "finer.toml").write_text(tomli_w.dumps(finer))
    print(geosim.sweep(out / "finer.toml", workers=1, out=out / "finer").drop(columns="message").to_string(index=False))


def drawn(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Every dimension at 0.5 to 2 times its default, those that cannot be among them; by the keys of a study."""
    found: dict[str, Any] = {}
    for key, d in dimensions(generate.GENERATORS[name]).items():
        if d.default is None or isinstance(d.default, str):  # what may be left out, and a gripper's finger
            continue
        if isinstance(d.default, int):
            found[key] = max(1, round(d.default * rng.uniform(0.5, 2.0)))
        elif isinstance(d.default, tuple):
            found[key] = [float(v) * rng.uniform(0.5, 2.0) for v in d.shown]  # type: ignore[union-attr]
        else:
            found[key] = float(d.shown) * rng.uniform(0.5, 2.0)  # type: ignore[arg-type]
    return found


def refusal_is_right(name: str, parameters: Mapping[str, Any], message: str) -> bool:
    """Whether a value just inside the limit that is named is not refused for the same reason."""
    found = re.search(r"(\w+(?: \w+)*) = \S+ m must be less than (\S+) m, (.*)", message)
    if found is None:
        return False
    (key, *part), limit = found[1].split(), 0.999 * float(found[2])
    if key not in parameters:  # "finger width": of the gripper's finger
        key, part = "_".join([key, *part]), []
    changed = dict(parameters)
    changed[key] = limit if not part else tuple(
        limit if i == (part[0] in ("height", "depth")) else v for i, v in enumerate(parameters[key])
    )  # fmt: skip
    try:
        generate.make(name, **changed)
    except InputError as error:
        return found[1] not in str(error)
    return True


def calls(out: Path, count: int, workers: int, designs: tuple[str, ...] = ()) -> None:
    """Random calls of all generators: surfaces and refusals; `count` are solved to V/V0 = 1.2 (P1; a tendon: 1 N)."""
    tables = []
    for i, name in enumerate(generate.names()):
        if designs and name not in designs:
            continue
        own = dimensions(generate.GENERATORS[name])
        rng = np.random.default_rng((7, i))
        rows = [drawn(name, rng) for _ in range(CALLS)]
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        tight, right, refused = 0, 0, 0
        for row in rows:
            parameters = {own[key].name: own[key].si(value) for key, value in row.items()}
            try:
                design = generate.make(name, **parameters)
                tight += all(s.is_watertight and s.volume > 0 for s in (design.body, *design.chambers))
            except InputError as error:
                refused += 1
                right += refusal_is_right(name, parameters, str(error))
        lines = [[",".join(map(str, v)) if isinstance(v, list) else v for v in row.values()] for row in rows]
        pandas.DataFrame(lines[: -(-count // 8)], columns=list(rows[0])).to_csv(folder / "designs.csv", index=False)
        study = {
            "design": name,
            "material": "ecoflex-00-30-fang2022",
            "fixed": {"finger_chambers": 2} if name == "gripper" else {},
            "sampling": {"method": "list", "file": "designs.csv"},
            "actuation": {"cable_tensions": {"tension": [1.0]}} if name == "tendon_finger" else {"volume_ratio": [1.2]},
            "mesh": {"max_edge_mm": 30.0},
            "solver": P1,
            "measures": COLUMNS,
            "limits": {"seconds": 1000.0, "memory_gb": 12.0},
        }
        (folder / "study.toml").write_text(tomli_w.dumps(study))
        table = geosim.sweep(folder / "study.toml", workers=workers, out=folder / "runs")
        tables.append(table)
        made = len(rows) - refused
        print(
            f"{name:14} {len(rows)} calls: {refused} refused ({right} rightly), watertight {tight} of {made}; {said(table)}",
            flush=True,
        )
        failures(table)
    print("all:", said(pandas.concat(tables)))


def pneunets(out: Path, count: int, workers: int) -> None:
    """Random PneuNets, every dimension 0.5 to 2 times its default, to V/V0 = 1.2 on coarse P1 meshes."""
    table = geosim.sweep(random_pneunets(out, count), workers=workers, out=out / "runs")
    print(said(table))
    failures(table)
    print("memory of the parent:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000, "MB")


def previews(out: Path, count: int, workers: int) -> None:
    """CPU seconds a design of a sweep over PneuNets, all processes counted: P1 previews at 10 kPa, pictures and all."""
    study = {
        "design": "pneunet",
        "material": "dragon-skin-10-dubied2022",
        "vary": {"wall_mm": {"from": 1.5, "to": 3.0}, "height_mm": {"from": 14.0, "to": 24.0}},
        "sampling": {"method": "random", "count": count},
        "actuation": {"pressure_kpa": [10.0]},
        "mesh": {"preview": True},
        "solver": P1,
    }
    before, began = _cpu_seconds(), time.monotonic()
    table = geosim.sweep(study, workers=workers, out=out / "previews", force=True)
    spent = _cpu_seconds() - before
    print(f"{said(table)}: {spent / count:.2f} CPU s a design, {time.monotonic() - began:.0f} s in all")


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def random_pneunets(out: Path, count: int) -> Path:
    """Write the study."""
    vary: dict[str, Any] = {"channel_mm": [[1.0, 1.0], [2.0, 2.0], [4.0, 2.0]]}
    for key, d in dimensions(generate.pneunet).items():
        if isinstance(d.default, float):
            vary[key] = {"from": 0.5 * float(d.shown), "to": 2.0 * float(d.shown)}  # type: ignore[arg-type]
        elif isinstance(d.default, int):
            vary[key] = {"from": 1, "to": 3, "integer": True}  # chambers: a few, so that 500 are solved in an hour
    study = {
        "design": "pneunet",
        "material": "dragon-skin-10-dubied2022",
        "vary": vary,
        "sampling": {"method": "random", "count": count},
        "actuation": {"volume_ratio": [1.2]},
        "mesh": {"max_edge_mm": 15.0},
        "solver": P1,
        "measures": COLUMNS,
        "limits": {"seconds": 1000.0},
    }
    path = out / "pneunets.toml"
    path.write_text(tomli_w.dumps(study))
    return path


def kept(folder: Path) -> dict[str, int]:
    """Runs that are whole, and when they were written [ns]."""
    return {p.parent.name: p.stat().st_mtime_ns for p in (folder / "runs").glob("[0-9a-f]*/row.json")}


def dask(out: Path, count: int, workers: int) -> None:
    """The same study on a Dask cluster of which one worker is killed."""
    from distributed import LocalCluster

    study = random_pneunets(out, count)

    def kill(cluster: LocalCluster) -> None:
        while len(kept(out / "dask")) < count // 3:
            time.sleep(0.02)
        pid = next(iter(cluster.workers.values())).pid
        os.kill(pid, signal.SIGKILL)
        print(f"killed worker {pid} at {len(kept(out / 'dask'))} runs", flush=True)

    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        thread = threading.Thread(target=kill, args=(cluster,), daemon=True)
        thread.start()
        table = geosim.sweep(study, scheduler=cluster.scheduler_address, out=out / "dask")
    alone = geosim.sweep(study, workers=workers, out=out / "alone")
    same = alone.columns.drop(["seconds", "memory_mb"])
    pandas.testing.assert_frame_equal(table[same], alone[same], check_exact=True)
    print(f"the same table, bit by bit: {len(table)} rows, {table['run'].nunique()} runs, {said(table)}")


WALLS, HEIGHTS = np.linspace(1.0, 3.0, 7), np.linspace(12.0, 24.0, 5)
SEARCHES = {
    "target bend_angle_deg 12": [],  # the range is 1 to 30 degrees
    "maximize bend_angle_deg": ["mass_g <= 9"],
}


def search(out: Path, count: int, workers: int) -> None:
    """Designs until the best of 100 random ones is reached, over `count` seeds; between 105 solved PneuNets run splines."""
    from scipy.interpolate import RectBivariateSpline

    study = {
        "design": "pneunet",
        "material": "ecoflex-00-30-fang2022",
        "vary": {"chambers": [1, 2, 3], "wall_mm": WALLS.tolist(), "height_mm": HEIGHTS.tolist()},
        "actuation": {"pressure_kpa": [6.0]},
        "mesh": {"max_edge_mm": 15.0},
        "solver": P1,
        "measures": COLUMNS,
    }
    (out / "table.toml").write_text(tomli_w.dumps(study))
    table = geosim.sweep(out / "table.toml", workers=workers, out=out / "table")
    print(said(table))
    shaped = {c: table[c].to_numpy().reshape(3, len(WALLS), len(HEIGHTS)) for c in ("bend_angle_deg", "mass_g")}
    splines = {c: [RectBivariateSpline(WALLS, HEIGHTS, one, kx=3, ky=3) for one in shaped[c]] for c in shaped}

    def measured(row: Mapping[str, Any]) -> dict[str, float]:
        return {
            c: float(some[row["chambers"] - 1](row["wall_mm"], row["height_mm"])[0, 0]) for c, some in splines.items()
        }

    study["vary"] = {
        "chambers": [1, 2, 3],
        "wall_mm": {"from": 1.0, "to": 3.0},
        "height_mm": {"from": 12.0, "to": 24.0},
    }
    for goal, constraints in SEARCHES.items():
        needed = []
        for seed in range(count):
            sampled = {**study, "sampling": {"method": "random", "seed": 1000 + seed}}
            read = read_study({**sampled, "optimize": {"goals": [goal], "constraints": constraints}})
            proposer = Proposer(read.axes, read.goals, read.constraints, seed)
            trials = optuna.create_study(sampler=proposer, directions=["minimize"])
            found = DesignSearch(read, Runs(out / "none", True, False), trials)
            answer = lambda row, n=0: {"run": str(n), "status": "CONVERGED", "message": "", "measures": measured(row)}  # noqa: E731
            cost, able = costs(read, [answer(row) for row in read.rows])
            best, reached = cost[able].min(), False
            number = 0
            while not reached and number < 99:
                number, row = found.asked()
                found.tell(number, answer(row, number))
                cost, able = costs(read, [answer(row)])
                reached = able[0] and cost[0, 0] <= best
            needed.append(number + 1)
        print(f"{goal}, {constraints or 'no constraint'}: median {np.median(needed):g} of {sorted(needed)}", flush=True)


PROBLEMS: dict[str, dict[str, Any]] = {
    "finger": {  # 60 degrees at 20 kPa with the least stress
        "design": "pneunet",
        "material": "dragon-skin-20-fang2022",
        "fixed": {"chambers": 4},
        "vary": {
            "wall_mm": {"from": 1.2, "to": 3.0},
            "height_mm": {"from": 14.0, "to": 24.0},
            "base_mm": {"from": 2.0, "to": 5.0},
        },
        "actuation": {"pressure_kpa": [20.0]},
        "mesh": {"max_edge_mm": 15.0},
        "optimize": {"goals": ["minimize max_von_mises_kpa"], "constraints": ["bend_angle_deg >= 60"]},
    },
    "grip": {  # force per kPa over two sizes of an object
        "design": "pneunet",
        "material": "dragon-skin-20-fang2022",
        "fixed": {"chambers": 3},
        "vary": {"wall_mm": {"from": 1.2, "to": 3.0}, "height_mm": {"from": 14.0, "to": 24.0}},
        "cases": {
            name: {
                "actuation": {"pressure_kpa": [15.0]},
                "environment": {"obstacles": [{"shape": "sphere", "center": [44.0, 10.0, -3.0 - r], "radius": r}]},
            }
            for name, r in (("small", 8.0), ("large", 14.0))
        },
        "mesh": {"max_edge_mm": 15.0},
        "optimize": {"goals": ["maximize min(grip_force_n@small, grip_force_n@large) / pressure_kpa@small"]},
    },
    "bellows": {  # stroke inside an envelope at a limit of stretch
        "design": "bellows",
        "material": "dragon-skin-20-fang2022",
        "fixed": {"convolutions": 2},
        "vary": {
            "outer_radius_mm": {"from": 10.0, "to": 14.0},
            "inner_radius_mm": {"from": 5.5, "to": 8.0},
            "wall_mm": {"from": 1.0, "to": 2.0},
        },
        "actuation": {"pressure_kpa": [10.0]},
        "mesh": {"max_edge_mm": 12.0},
        "optimize": {"goals": ["maximize tip_x_mm"], "constraints": ["max_stretch <= 1.25", "size_y_mm <= 27"]},
    },
}
NEAR_BEST = 0.02  # of the best known value: so near a search has reached it
FINE_EDGES_MM = {"finger": 4.0, "grip": 4.0, "bellows": 2.0}  # of other meshes, which are refined to judge answers


def compare(out: Path, count: int, workers: int, names: Sequence[str] = tuple(PROBLEMS), trials: int = 14) -> None:
    """Search three problems as before and as now: CPU seconds until the best known value is nearly reached.

    As before: by values alone, eight designs fill the space, every design has a mesh of its own. As now: by derivatives, on the
    mesh of one design that is moved. Meshes of their own differ by more than 2 %, so all designs are judged alike, on the moved
    mesh: those of all searches and 200 random ones, whose best is the best known. Then two more designs are sought and the best
    ones are held against refined meshes; whether the bars that come of it cover what P2 finds for these answers on a finer mesh.
    """
    for name in names:
        read = read_study(
            {**PROBLEMS[name], "optimize": {**PROBLEMS[name]["optimize"], "trials": trials}, "solver": P1}
        )
        tables = {
            (method, seed): searched(out / name, method, seed, workers, trials)
            for method, seed in itertools.product(("values", "derivatives"), range(count))
        }
        base = json.loads((out / name / "derivatives-0" / "base.json").read_text(encoding="utf-8"))
        random = np.random.default_rng(77).random((200, len(read.axes)))
        chance = [{axis.key: axis.at(share) for axis, share in zip(read.axes, one)} for one in random.tolist()]
        merits = {"random": judged(read, out / name, chance, base, workers)}
        for (method, seed), table in tables.items():
            rows = [{axis.key: float(row[axis.key]) for axis in read.axes} for _, row in table.iterrows()]
            merits[f"{method}-{seed}"] = judged(read, out / name, rows, base, workers)
        best = min(found.min() for found in merits.values())
        print(f"{name} ({read.goals[0]}): best of 200 random designs {abs(merits['random'].min()):.4g}", flush=True)
        for method in ("values", "derivatives"):
            said = []
            for seed in range(count):
                here, clock = merits[f"{method}-{seed}"], tables[method, seed]["seconds"].to_numpy().cumsum()
                near = np.flatnonzero(here <= best + NEAR_BEST * abs(best))
                reached = (
                    f"{near[0] + 1} designs {clock[near[0]]:.0f} s" if len(near) else f"not after {clock[-1]:.0f} s"
                )
                said.append(f"{reached} (best {abs(here.min()):.4g})")
            print(f"{name}: {method}: within 2 % of {abs(best):.4g} after {', '.join(said)}", flush=True)
        for seed in range(count):
            answered(out / name, name, seed, workers, trials)


def judged(read: Study, folder: Path, rows: Sequence[Row], base: Mapping[str, Any], workers: int) -> np.ndarray:
    """Costs of the goal of designs on one mesh that is moved to all; infinite where a constraint is missed by 2 %."""
    kept, children = folder / "judged", Children()
    kept.mkdir(exist_ok=True)

    def found(row: Row) -> dict[str, Any]:
        job = replace(read.job(row), base=base, seconds=120.0, slopes={})
        path = kept / f"{job.run}.json"
        if not path.exists():
            path.write_text(json.dumps(dict(children.run(job).row)), encoding="utf-8")
        return dict(json.loads(path.read_text(encoding="utf-8")))

    with ThreadPoolExecutor(workers) as pool:
        answers = list(pool.map(found, rows))
    children.close()
    cost, _ = costs(read, answers)
    able = [all(excess <= NEAR_BEST for excess in constrained(read, one).values()) for one in answers]
    return np.where(able, cost[:, 0], np.inf)


def searched(folder: Path, method: str, seed: int, workers: int, trials: int, confirm: int = 0) -> pandas.DataFrame:
    """The table of a search, kept as it was before anything was confirmed."""
    kept, name = folder / f"{method}-{seed}{'-confirmed' if confirm else ''}.csv", folder.name
    if not kept.exists():
        sought, base_of, bases = Study.sought, DesignSearch.base, []
        asked = {**PROBLEMS[name]["optimize"], "trials": trials, "seed": seed, "confirm": confirm}

        def noted(self: DesignSearch, row: Row) -> dict[str, Any]:
            bases.append({} if method == "values" else base_of(self, row))
            return bases[-1]

        DesignSearch.base = noted  # type: ignore[method-assign]
        if method == "values":
            Study.sought = property(lambda self: {})  # type: ignore[assignment]
        try:
            study = {**PROBLEMS[name], "solver": P1, "optimize": asked, "limits": {"seconds": 1000 if confirm else 120}}
            table = geosim.optimize(study, workers=workers, out=folder / f"{method}-{seed}")
        finally:
            Study.sought, DesignSearch.base = sought, base_of  # type: ignore[assignment, method-assign]
        (folder / f"{method}-{seed}" / "base.json").write_text(json.dumps(bases[0]), encoding="utf-8")
        table.to_csv(kept, index=False)
    return pandas.read_csv(kept)


def answered(folder: Path, name: str, seed: int, workers: int, trials: int) -> None:
    """Hold the answer of a search by derivatives against P2 on another mesh with every tet split into eight."""
    table = searched(folder, "derivatives", seed, workers, trials + 2, confirm=2)
    best = json.loads((folder / f"derivatives-{seed}" / "best" / "row.json").read_text(encoding="utf-8"))["run"]
    answer, there = table[table["run"] == best].iloc[0], folder / f"fine-{seed}"
    fine = read_study({**PROBLEMS[name], "mesh": {"max_edge_mm": FINE_EDGES_MM[name]}})
    if not (there / "row.json").exists():
        there.mkdir(exist_ok=True)
        solving.run(fine.job({axis: float(answer[axis]) for axis in PROBLEMS[name]["vary"]}, confirmed=True), there)
    row = json.loads((there / "row.json").read_text(encoding="utf-8"))
    if row["status"] != "CONVERGED":
        print(f"  answer of seed {seed}: on a finer mesh {row['status']}: {row['message']}", flush=True)
        return
    known = fine.measured(row)
    for column, (change, _) in fine.beside(row, "bars").items():
        known[column] += change
    for of in [*(goal.of for goal in fine.goals), *(one.of for one in fine.constraints)]:
        if f"{of.text} +-" in answer:  # extents have none
            value, bar, true = answer[f"{of.text} confirmed"], answer[f"{of.text} +-"], float(of(known))
            said = "not confirmed" if np.isnan(bar) else "inside" if abs(value - true) <= bar else "OUTSIDE"
            print(
                f"  answer of seed {seed}: {of.text} {value:.5g} +- {bar:.2g}, on a finer mesh {true:.5g}: {said}",
                flush=True,
            )


def slope_costs(out: Path, count: int, workers: int) -> None:
    """CPU seconds of a solve and of the derivatives of its measures, of the middle designs of `compare`: the least of `count`."""
    for name, element in itertools.product(("finger", "bellows"), ("p1", "p2")):
        read = read_study({**PROBLEMS[name], "solver": {"element": element}})
        job, spent = read.job({axis.key: axis.at(0.5) for axis in read.axes}), []
        folder = out / f"{name}-{element}"
        folder.mkdir(exist_ok=True)
        write_problem(job, folder)
        robot, environment, solver = load_problem(folder / "robot.toml")
        actuation = load_actuation(folder / "actuation.toml", robot)
        for _ in range(count):
            begin = time.process_time()
            result = geosim.solve(robot, actuation, environment, solver=solver)
            solved = time.process_time()
            measured(result, job.asked)
            read_off = time.process_time()
            known = slopes(result, job.sloped, job.slopes)
            spent.append((solved - begin, time.process_time() - read_off))
        solve, slope = np.min(spent, axis=0)
        print(
            f"{name} {element}: {len(robot.tets)} tets, {len(known)} measures by {len(job.slopes)} dimensions: "
            f"{slope:.2f} s beside a solve of {solve:.2f} ({slope / solve:.2f})",
            flush=True,
        )


def bellows(out: Path, count: int, workers: int) -> None:
    """Inflate a PneuNet of 12 chambers (a bellows on a base), coarse P1, until it has curled beyond 250 degrees."""
    robot = generate.pneunet(chambers=12, wall=1.2e-3, height=20e-3).robot("ecoflex-00-30-fang2022", max_edge=15e-3)
    ratios, start = np.linspace(1.0, 2.0, count + 1)[1:], time.process_time()

    def shown(progress: Any) -> None:
        if progress.frame is not None:
            print(f"V/V0 {ratios[progress.command - 1]:.2f} after {time.process_time() - start:.0f} s", flush=True)

    solver = geosim.EnergyShapeSolver(element="p1", max_seconds=500)
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=ratios), solver=solver, throw=False, progress=shown)
    result.save(out / "curled.npz")
    result.plot(out / "curled.png")
    bends = np.degrees(result.bend_angle)
    rising = bool((np.diff(bends, prepend=0.0) > 0.0).all())
    print(f"{len(robot.tets)} tets, {result.message} bends {bends.round(1).tolist()}, monotone {rising}")
    print(
        "kPa",
        (1e-3 * result.chamber_pressures[:, 0]).round(2).tolist(),
        "tip",
        np.degrees(result.tip_rotation[-1]).round(1),
    )


def said(table: pandas.DataFrame) -> str:
    """How designs ended, CPU seconds of one, and memory."""
    solved = table[table["status"] != "REFUSED"]
    ended = ", ".join(f"{n} {status}" for status, n in table["status"].value_counts().items())
    return (
        f"{ended}; {solved['seconds'].mean():.2f} s a design (median {solved['seconds'].median():.2f}, "
        f"most {solved['seconds'].max():.1f}), peak memory {solved['memory_mb'].max():.0f} MB"
    )


def failures(table: pandas.DataFrame) -> None:
    """Print why designs failed."""
    for status, group in table[table["status"] != "CONVERGED"].groupby("status"):
        reasons = group["message"].str.replace(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", regex=True).value_counts()
        for reason, n in reasons.items():
            print(f"    {n} {status}: {reason[:150]}")


PARTS: dict[str, tuple[Callable[..., None], int]] = {
    "task": (task, 2),
    "calls": (calls, 300),
    "previews": (previews, 200),
    "pneunets": (pneunets, 500),
    "dask": (dask, 24),
    "compare": (compare, 3),
    "search": (search, 10),
    "slopes": (slope_costs, 3),
    "bellows": (bellows, 5),
}


def main() -> None:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, help="of `compare`; default all")
    parser.add_argument("--designs", nargs="+", choices=generate.names(), help="of `calls`; default all")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in given.parts:
        part, count = PARTS[name]
        folder = given.out / ("pneunets" if name == "dask" else name)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"== {name}: {(inspect.getdoc(part) or '').splitlines()[0]}", flush=True)
        more: dict[str, Any] = {"designs": tuple(given.designs)} if given.designs and name == "calls" else {}
        if given.problems and name == "compare":
            more = {"names": tuple(given.problems)}
        part(folder, count if given.count is None else given.count, given.workers, **more)


if __name__ == "__main__":
    main()
