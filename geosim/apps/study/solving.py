"""Solves one design in the folder where it is; runs in a process of its own, which it may take down."""

from __future__ import annotations

import importlib
import json
import resource
import shutil
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim.apps.study.job import (
    CRASHED,
    ENDING_FILE,
    MESH_FAILED,
    OUT_OF_MEMORY,
    REFUSED,
    ROW_FILE,
    TIMEOUT,
    WALL_TIME_FACTOR,
    Job,
    overrun,
)
from geosim.apps.study.measures import measured
from geosim.apps.study.slopes import mesh_bars, slopes
from geosim.arrays import METRES_PER_UNIT
from geosim.errors import InputError, MeshError
from geosim.files.actuation import load_actuation
from geosim.files.messages import Place
from geosim.files.robot import load_problem
from geosim.files.values import read_material
from geosim.generate import ALL_GENERATORS, GENERATORS, ROD_GENERATORS, make
from geosim.generate.moving import DesignMesh
from geosim.model.contract import Progress, Status, taken
from geosim.model.robot import VolumetricRobot
from geosim.resources import read_toml
from geosim.response.accuracy.adapting import adapt
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.solve import solve


def run(job: Job, folder: Path) -> None:
    """Write robot.toml, solve it, and write result.npz, picture.png and, at last, row.json: how it ended and its measures."""
    start = time.perf_counter()

    def log(text: str) -> None:
        with (folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.perf_counter() - start:8.2f} s  {text}\n")

    def noted(message: Any, category: Any, *where: Any, **more: Any) -> None:
        log(f"note: {message}")

    clock, cases = _Clock(job.budget, folder), _cases(job)
    rows: dict[str, dict[str, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = noted
        for name, one in cases.items():
            log(f"case {name}" if name else "")
            rows[name] = _row(one, folder / name if name else folder, clock, log)
            if clock.over:
                break
    whole = rows.get("", {"measures": {}, "frames": []})
    failed = next((name for name, row in rows.items() if row["status"] != Status.CONVERGED.name), next(iter(rows)))
    message = f"{failed}: {rows[failed]['message']}" if failed else rows[failed]["message"]
    (folder / ENDING_FILE).unlink(missing_ok=True)
    named = {name: row for name, row in rows.items() if name}
    if named and not (folder / "picture.png").exists():
        shown = next(
            (folder / name / "picture.png" for name in named if (folder / name / "picture.png").is_file()), None
        )
        if shown is not None:
            shutil.copy(shown, folder / "picture.png")
    out = {**whole, "status": rows[failed]["status"], "message": message, **({"cases": named} if named else {})}
    (folder / ROW_FILE).write_text(json.dumps(out))


def _cases(job: Job) -> dict[str, Job]:
    """The design in every case, by name; "" is the one without."""
    out = {"": job} if job.alone else {}
    for name, case in job.cases.items():
        table = {**job.table, "environment": case["environment"]}
        out[name] = replace(job, table=table, actuation=case["actuation"], mesh=case["mesh"])
    return out


def _row(job: Job, folder: Path, clock: _Clock, log: Any) -> dict[str, Any]:
    """Solve one case and write its files: how it ended, and its measures."""
    found: dict[str, Any] = {"measures": {}, "frames": []}
    try:
        folder.mkdir(exist_ok=True)
        write_problem(job, folder)
        result = _solved(job, folder, log, clock)
        found = measured(result, job.asked)
        if found["measures"]:
            _add_asked(found, result, job, clock, log)
        status, message = result.status.name, result.message
        if clock.over and result.status is Status.INTERRUPTED:
            status, message = TIMEOUT, clock.sentence(result)
        if result.status is Status.CONVERGED and not result.converged:
            status = Status.NOT_CONVERGED.name
        _save(result, folder)
    except MeshError as error:
        status, message = MESH_FAILED, str(error)
    except InputError as error:
        status, message = REFUSED, str(error)
    except MemoryError as error:
        status, message = OUT_OF_MEMORY, str(error) or "no memory left"
    except Exception as error:  # noqa: BLE001 (a fault of one design must not end the study; the log has it)
        log(traceback.format_exc())
        status, message = CRASHED, f"{type(error).__name__}: {error}"
    message = " ".join(message.replace(f"{folder}/", "").split())
    log(f"{status}: {message}")
    return {"status": status, "message": message, **found}


def _add_asked(found: dict[str, Any], result: Result, job: Job, clock: _Clock, log: Any) -> None:
    """Add to the measures of a result what is asked of them besides: derivatives, bars."""
    if job.sloped:
        found["slopes"] = slopes(result, job.sloped, job.slopes)
    if job.confirmed:
        found["bars"], found["unconfirmed"] = _bars(result, job, clock)
        log(f"note: not confirmed: {found['unconfirmed']}" if found["unconfirmed"] else "")


def write_problem(job: Job, folder: Path) -> None:
    """Write the files of a job: robot.toml with what it names, and actuation.toml.

    Raises
    ------
    InputError
        The dimensions of the design cannot be.
    """
    import tomli_w

    for name, data in job.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    table = dict(job.table) if job.design is None else {**_design_table(job, folder), **job.table}
    several = "bodies" in table
    bodies = [_body(dict(body), job, table["units"]) for body in table.get("bodies", [table.get("body", {})])]
    if several or "body" in table:
        table |= {"bodies": bodies} if several else {"body": bodies[0]}
    if job.mesh["preview"]:
        table["preview"] = True
    (folder / "robot.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    if job.actuation:
        (folder / "actuation.toml").write_text(tomli_w.dumps(job.actuation), encoding="utf-8")


def _design_table(job: Job, folder: Path) -> dict[str, Any]:
    """Write the files of a design, and return the tables of its robot file."""
    design = _generator(str(job.design))(**job.parameters)
    rods = job.design in ROD_GENERATORS
    design.save(folder, **({"material": read_material(job.material, Place(folder / "robot.toml"))} if rods else {}))
    table = read_toml(folder / "robot.toml", "robot file") | {"name": design.name or job.run}
    if job.design not in ALL_GENERATORS:
        del table["design"]  # a robot file names the generators that everybody has
    return table


def _body(body: dict[str, Any], job: Job, units: str) -> dict[str, Any]:
    """Return the table of a body with the material and the mesh of a job."""
    if job.material is not None:
        body["material"] = job.material
    if job.mesh["max_edge_mm"] is not None:
        body["max_edge"] = job.mesh["max_edge_mm"] * METRES_PER_UNIT["mm"] / METRES_PER_UNIT[units]
    return body


def _generator(name: str) -> Any:
    if name in ALL_GENERATORS:
        return lambda **parameters: make(name, **parameters)
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _bars(result: Result, job: Job, clock: _Clock) -> tuple[dict[str, tuple[float, float]], str]:
    """What measures change by on the refined mesh, and their bars then; none where that is not known, and why not.

    Smoothed linear elements may be too stiff or too soft, and pass through the truth as the mesh gets finer: a tip changed by
    0.01 mm where it was 0.10 off. Their changes are those to quadratic elements on the refined mesh.
    """
    solver, accurate = result.solver, result
    try:
        if isinstance(solver, EnergyShapeSolver) and solver.element == "p1" and result.actuation is not None:
            quadratic = replace(solver, element="p2")
            accurate = solve(
                result.robot, result.actuation, result.environment, solver=quadratic, throw=False, progress=clock.look
            )
            if not accurate.converged:
                return {}, f"by quadratic elements {accurate.status.name}: {accurate.message}"
        before, after = (measured(one, job.asked)["measures"] for one in (result, accurate))
        known = [name for name in job.sloped if before.get(name) is not None and after.get(name) is not None]
        bars = mesh_bars(accurate, known)
        return {name: (change + after[name] - before[name], bar) for name, (change, bar) in bars.items()}, ""
    except InputError as error:
        return {}, str(error)


def _spent() -> float:
    """CPU time [s] of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class _Clock:
    """Ends a solve whose time is over at its next iteration, so that what it reached is kept.

    Parameters
    ----------
    seconds
        Of CPU time.
    folder
        Of the run; the file that appears there asks for the time to write.
    """

    def __init__(self, seconds: float, folder: Path) -> None:
        self.seconds, self.folder, self.begin, self.before = seconds, folder, time.monotonic(), _spent()
        self.over, self.last = False, Progress(0.0)

    def look(self, progress: Progress) -> None:
        """Raise `KeyboardInterrupt` when the time is over, as Ctrl-C does."""
        self.last = progress
        if (
            not self.over
            and max(_spent() - self.before, (time.monotonic() - self.begin) / WALL_TIME_FACTOR) > self.seconds
        ):
            self.over = True
            (self.folder / ENDING_FILE).touch()
            raise KeyboardInterrupt

    def sentence(self, result: Result) -> str:
        """Say how far the solve came."""
        last, parts = self.last, []
        there = result.partial or (result if len(result.frames) else None)
        if there is not None:
            for values, unit, factor in (
                (there.chamber_pressures[-1], " kPa", 1e-3),
                (there.volume_ratios[-1], " of the rest volume", 1.0),
            ):
                known = values[np.isfinite(values)]
                parts += [f"{factor * known.max():.4g}{unit}"] if len(known) else []
            parts.append("partial.npz holds it" if result.partial else "result.npz holds it")
        way = f"command {last.command} of {last.commands}, {100.0 * last.share:.3g} % of the way"
        return f"{overrun(self.seconds)}; reached: {', '.join([way, *parts])}"


def meshed(job: Job) -> VolumetricRobot:
    """Return the robot of a job on a mesh of its own.

    Raises
    ------
    InputError
        The dimensions of the design cannot be, or it cannot be meshed.
    """
    with tempfile.TemporaryDirectory(prefix="geosim-study-") as folder:
        write_problem(job, Path(folder))
        return taken(load_problem(Path(folder, "robot.toml"))[0], VolumetricRobot, "designs of one mesh")


def _moved(job: Job, log: Any) -> VolumetricRobot | None:
    """Return the robot of a job on the mesh of another design, moved to it; None where that cannot be."""
    if not job.base or job.mesh["accuracy"] is not None:
        return None
    make = _generator(str(job.design))
    base = meshed(replace(job, parameters=job.base))
    moved = DesignMesh.of(base, make(**job.base)).moved(make(**job.parameters))
    log("note: the mesh of the other designs cannot be moved to this one" if moved is None else "")
    # the design that a function returns has the dimensions of its generator, which need not be those of the function
    return moved if moved is None or job.design in GENERATORS else replace(moved, design=None)


def _solved(job: Job, folder: Path, log: Any, clock: _Clock) -> Result:
    robot, environment, solver = load_problem(folder / "robot.toml", robot=_moved(job, log))
    log(f"geosim {geosim.__version__}: {robot.name}, {len(robot.vertices)} vertices, {len(robot.body_tets)} tets")
    for notice in robot.notices:
        log(f"note: {notice}")
    path = folder / "actuation.toml"
    actuation = load_actuation(path, robot) if path.is_file() else geosim.Passive()

    def show(progress: Progress) -> None:
        clock.look(progress)
        if progress.frame is not None:
            log(f"command {progress.command} of {progress.commands} reached, residual {progress.residual:.1e}")

    if (accuracy := job.mesh["accuracy"]) is not None:
        body = taken(robot, VolumetricRobot, "[mesh] accuracy")
        chosen = None if solver is None else taken(solver, EnergyShapeSolver, "[mesh] accuracy")
        return adapt(body, actuation, environment, accuracy=accuracy, solver=chosen)
    return solve(robot, actuation, environment, solver=solver, throw=False, progress=show)


def _save(result: Result, folder: Path) -> None:
    result.save(folder / "result.npz")
    if result.partial is not None:
        result.partial.save(folder / "partial.npz")
    shown = result if len(result.frames) else result.partial
    # 550 x 350 pixels: a picture of full size takes longer than a coarse solve
    if shown is not None:
        from geosim.show.picture import plot

        plot(shown, folder / "picture.png", dpi=50)
