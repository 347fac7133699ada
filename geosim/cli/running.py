"""The commands `geosim solve` and `geosim demo`: read a problem, solve it, write the folder and print the table."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from geosim.cli.ahead import compile_ahead, is_cold
from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.archive import load_result
from geosim.files.folder import check_folder, write_folder
from geosim.files.messages import Place, saying
from geosim.files.robot import load_problem, make_solver, read_command, solver_kind
from geosim.geometry.child import meshing_within
from geosim.material.materials import Hyperelastic
from geosim.measures.trust import headline, without
from geosim.model.actuation import Actuation, Inflation, Passive
from geosim.model.contract import Robot, Solver, Status, taken
from geosim.model.environment import Environment
from geosim.model.materials import as_material
from geosim.model.robot import VolumetricRobot
from geosim.resources import read_toml, resource
from geosim.result import Result
from geosim.show.film import checked_film
from geosim.solve import default_solver

__all__ = [
    "Inflation",
    "begin",
    "check_folder",
    "checked_film",
    "chosen_solver",
    "default_solver",
    "load_actuation",
    "load_result",
    "made_of",
    "other_actuation",
    "problem",
    "read_command",
    "resource",
    "saying",
    "shows_demo",
    "solved",
]


def begin(*, meshes: bool = False) -> None:
    """Say so where kernels are still to be compiled; for a robot that is meshed first, compile them meanwhile."""
    if is_cold():
        click.echo("compiling kernels (once)", err=True)
        if meshes:
            click.get_current_context().call_on_close(compile_ahead())


class _Lines(logging.Handler):
    """Writes what is said as lines to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


@contextmanager
def meshing_said() -> Iterator[None]:
    """Write meanwhile what is foretold of meshes to stderr, before they are made."""
    log, lines = logging.getLogger("geosim.mesh"), _Lines()
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before)


def problem(
    path: Path, *, preview: bool = False, rescue: bool = False, max_seconds: float | None = None, foretold: bool = True
) -> tuple[Robot, Environment, Solver[Any] | None]:
    """Read a robot file (as if it said preview = true, rescue = true), mesh it within some seconds, and say what was repaired.

    A demo is known to mesh, so what is `foretold` of it is left out.
    """
    begin(meshes=read_toml(path, "robot file").get("kind") == "volumetric")
    with meshing_said() if foretold else nullcontext(), meshing_within(max_seconds):
        robot, environment, solver = load_problem(path, preview=preview, rescue=rescue)
    for notice in robot.notices:
        click.echo(f"note: {notice}", err=True)
    return robot, environment, solver


def shows_demo(folder: Path, name: str) -> bool:
    """Whether a folder holds the results of this demonstration, which are replaced then, and said to be."""
    try:
        found = load_result(folder / "result.npz").provenance.get("demo") == name
    except InputError:
        return False
    if found:
        click.echo(f"note: the results of an earlier demo {name} in {folder} are replaced", err=True)
    return found


def check_given(robot: Path, actuation: Path | None, material: str | None, goals: Sequence[str]) -> None:
    """Refuse files that are not there or say what cannot be, materials and goals that are none, before the mesher is asked.

    Raises
    ------
    InputError
        What is wrong with which.
    """
    from geosim.response.inverse.goals import read_goals

    read_command(robot)
    if actuation is not None:
        load_actuation(actuation)
    if material is not None:
        as_material(material)
    if goals:
        read_goals(goals)


def made_of(robot: Robot, material: str) -> Robot:
    """Return a volumetric robot of another material: a preset, or a material file wherever it lies.

    Raises
    ------
    InputError
        The robot has no bodies of tetrahedra, or several; or there is no such material.
    """
    body = taken(robot, VolumetricRobot, "--material")
    if len(body.materials) > 1:
        raise InputError(
            f"{material} goes with one body, {len(body.materials)} given; name their materials in [[bodies]]"
        )
    chosen = as_material(material)
    return dataclasses.replace(body, materials=dict.fromkeys(body.materials, taken(chosen, Hyperelastic, "--material")))


def check_options(file: Path, method: str | None, options: Mapping[str, Any], bars: Mapping[str, Any]) -> None:
    """Refuse options that do not go with the solver of a volumetric robot, before the mesher is asked."""
    table = read_toml(file, "robot file")
    given = table.get("solver", {})
    if table.get("kind") == "volumetric" and isinstance(given, dict):
        chosen_solver(make_solver(given, Place(file).at("solver")), method, options, bars)


def chosen_solver(solver: Any, method: str | None, options: Mapping[str, Any], bars: Mapping[str, Any]) -> Solver[Any]:
    """Return the solver of the file, changed by the options that are given (not None); some of them need error bars."""
    if method is not None and solver_kind(solver) != method:
        if solver_kind(solver) is None:
            raise click.UsageError(
                f"--solver {method} is for volumetric robots; this one is solved by {type(solver).__name__}"
            )
        solver = make_solver({"kind": method})
    for key, value in options.items():
        if value is None:
            continue
        flag = f"--{key.replace('_', '-')}"
        if not any(f.name == key for f in dataclasses.fields(solver)):
            raise _for_energy(flag, solver)
        try:
            solver = dataclasses.replace(solver, **{key: value})
        except InputError as error:
            raise click.UsageError(f"{flag}: {error}") from None
    for flag, value in bars.items():
        if value and solver_kind(solver) != "energy":
            raise _for_energy(flag, solver)
    return cast(Solver[Any], solver)


def _for_energy(flag: str, solver: Any) -> click.UsageError:
    return click.UsageError(f"{flag} does not go with {type(solver).__name__}; it is for --solver energy")


def other_actuation(robot: Robot, path: Path | None, robot_file: Path) -> Actuation:
    """Return the actuation of a file, else that of the robot file, else one that commands nothing."""
    found = read_command(robot_file, robot) if path is None else load_actuation(path, robot)
    if found is not None:
        return found
    if robot.chambers:
        text = "nothing inflates the chambers: the loads act alone (give --volume-ratio or --pressure-kpa)"
        click.echo(f"note: {text}", err=True)
    return Passive()


def sought(robot: Any, goals: Sequence[str], environment: Environment, solver: Any) -> Actuation:
    """Return the volumes that lead to goals, and say how near they come."""
    from geosim.response.inverse.goals import read_goals
    from geosim.response.inverse.search import solve_for

    found = solve_for(robot, read_goals(goals), environment=environment, solver=solver)
    ratios = ", ".join(f"{v:.4g}" for v in found.result.volume_ratios[-1])
    met = "reached" if found.reached else f"out of reach: nearest, {found.distance:.3g} (SI) off,"
    click.echo(f"{' '.join(goals)}: {met} with V/V0 = {ratios} after {found.solves} solves")
    return found.actuation


def solved(
    problem: Mapping[str, Any],
    target: Path,
    force: bool,
    before: Result | None = None,
    film: Path | None = None,
    error_bars: bool = False,
    accuracy: float | None = None,
    demo: str | None = None,
    initial: Result | None = None,
    file: Path | None = None,
) -> int:
    """Solve, write the folder, print the table; the exit status says whether every command was reached.

    `problem` holds robot, actuation, environment and solver, the arguments of `geosim.solve`;
    `before` is a result of the same problem, from which the new one's distance is said; `film` a file for a film of it;
    `error_bars` asks for those of every frame; with an `accuracy` the mesh is refined until the tip has it;
    `demo` is the demonstration that this is, which the result keeps; `initial` a result to go on from;
    `file` the robot file, which what is refused names.
    """
    from geosim.cli.results import difference

    start = time.perf_counter()
    with Place(file).naming() if file is not None else nullcontext():
        result = _result_of(problem, accuracy, initial)
    if error_bars:
        from geosim.response.accuracy.table import with_error_bars

        result, notes = with_error_bars(result)
        click.echo("".join(f"note: {note}\n" for note in notes), err=True, nl=False)
    if demo is not None:
        result = dataclasses.replace(result, provenance={**result.provenance, "demo": demo})
    seconds = time.perf_counter() - start
    names = write_folder(result, target, force)
    _print_summary(result)
    doubts = result.trust()
    for sentence in doubts:
        click.echo(sentence)
    if before is not None and min(len(before.frames), len(result.frames)):
        click.echo("\n".join(difference(before, result)))
    color = "red" if not result.converged else "yellow" if doubts else "green"
    said = click.style(headline(result.status, doubts), fg=color)
    click.echo(f"{said}: {without(result.message, doubts)}")
    click.echo(f"{seconds:.1f} s; wrote {', '.join(names)} to {target}")
    if film is not None and len(result.frames):
        click.echo(f"film of {len(result.frames)} frames: {result.film(film)}")
    if result.partial is not None:
        share = f"{100 * result.partial.times[0] % 100:.0f} %"
        click.echo(
            f"the last equilibrium, {share} of the way to the next command: {target / 'partial.npz'}, partial.png"
        )
    return _ended(result, len(problem["actuation"]), doubts)


def _ended(result: Result, commands: int, doubts: Sequence[str]) -> int:
    """Say where a solve stopped early; return the exit status."""
    if result.converged:
        return 0
    steps = f"{len(result.frames)} of {commands if result.actuation is None else len(result.actuation)} steps"
    click.echo(f"geosim: stopped early after {steps}: {without(result.message, doubts)}", err=True)
    return 130 if result.status is Status.INTERRUPTED else 1


def _result_of(problem: Mapping[str, Any], accuracy: float | None, initial: Result | None) -> Result:
    """Solve, on a mesh that is refined until the tip has an accuracy, where one is given."""
    from geosim.solve import solve

    if accuracy is None:
        return solve(**problem, initial=initial, throw=False, progress=sys.stderr.isatty())
    if initial is not None:
        raise click.UsageError("--from and --accuracy exclude each other: a refined mesh has no state to go on from")
    from geosim.response.accuracy.adapting import adapt

    return adapt(**problem, accuracy=accuracy)


def _print_summary(result: Result) -> None:
    """One line a frame, of the measures that this robot has."""
    # Columns of the table that the command line prints, for those that are known: name in summary.csv, heading, format.
    summary_columns = (
        ("volume_ratio", "V/V0", ".4f"),
        ("pressure_kpa", "kPa", ".4f"),
        ("cable_length_mm", "cable [mm]", ".2f"),
        ("cable_tension_n", "cable [N]", ".3f"),
        ("tip_x_mm", "tip x [mm]", ".3f"),
        ("tip_y_mm", "y", ".3f"),
        ("tip_z_mm", "z", ".3f"),
        ("max_displacement_mm", "moved [mm]", ".3f"),
        ("bend_angle_deg", "bend [deg]", ".2f"),
        ("twist_angle_deg", "twist [deg]", ".2f"),
        ("max_stretch", "stretch", ".3f"),
        ("max_von_mises_kpa", "stress [kPa]", ".1f"),
        ("obstacle_force_x_n", "force x [N]", ".3f"),
        ("obstacle_force_y_n", "y", ".3f"),
        ("obstacle_force_z_n", "z", ".3f"),
        ("tip_error_mesh", "tip +- mesh [mm]", ".3f"),
        ("tip_error_total", "total", ".3f"),
        ("bend_angle_error_mesh", "bend +- mesh [deg]", ".2f"),
        ("bend_angle_error_total", "total", ".2f"),
        ("pressure_error_mesh", "p +- mesh [kPa]", ".4f"),
        ("pressure_error_total", "total", ".4f"),
        ("iterations", "iterations", "d"),
        ("seconds", "seconds", ".2f"),
    )
    rows = result.summary()
    if not rows:
        return
    columns = [["frame", *(str(row["frame"]) for row in rows)]]
    for key, head, form in summary_columns:
        found = [name for name in rows[0] if re.fullmatch(rf"{key}(_\d+)?", name)]
        for i, name in enumerate(found):
            values: list[Any] = [row[name] for row in rows]
            if any(np.isfinite(values)):
                columns.append([head if len(found) == 1 else f"{head} {i + 1}", *(f"{v:{form}}" for v in values)])
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns):
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
