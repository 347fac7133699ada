"""Reads robot.toml: the robot, what surrounds it and how it is solved.

A file is data: it runs nothing and reads only inside its own folder. Whatever is wrong with it is said in one line
that names the file, the key, the value and the remedy. Lengths are in the file's `units`; moduli [Pa], densities
[kg/m^3], gravity [m/s^2] and forces [N] always.
"""

from __future__ import annotations

import dataclasses
import typing
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from geosim.arguments import guarded, suggestion
from geosim.arrays import METRES_PER_UNIT, shown
from geosim.entries import entries
from geosim.errors import GeosimWarning
from geosim.files.actuation import read_actuation
from geosim.files.environment import read_environment
from geosim.files.messages import Place, first_error, saying
from geosim.files.schema import EnvironmentTable
from geosim.files.values import inside, validated
from geosim.model.actuation import Actuation
from geosim.model.contract import Robot, Solver
from geosim.model.display import later
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.resources import read_toml, readable
from geosim.solve import SOLVER_ENTRIES, default_solver

# `kind` of a file -> the function (table, place) -> robot that reads it, imported where it is needed.
KINDS: Mapping[str, str] = {
    "volumetric": "files.volumetric.read_robot",
    "rod-shell": "files.rods.read_robot",
    "snake": "files.snake.read_robot",
}
# `kind` under [solver] of a volumetric robot -> the type of solver.
SOLVER_NAMES: Mapping[str, str] = {
    "energy": "shape.energy.solver.EnergyShapeSolver",
    "projective": "shape.projective.solver.ProjectiveShapeSolver",
    "motion": "shape.energy.motion.stepper.EnergyShapeStepper",
}


@guarded
def load_robot(path: str | Path) -> Robot:
    """Read a robot from its robot.toml, without what else the file says: `load_case` reads that, too.

    Parameters
    ----------
    path
        The file; `kind` in it says "volumetric", "rod-shell", "snake" or the name of an entry point.

    Returns
    -------
    VolumetricRobot, RodShellRobot or SnakeRobot

    Raises
    ------
    InputError
        The file is missing, not TOML, holds an unknown key, a wrong type or an impossible value, reaches outside its
        folder, or the robot cannot be meshed.
    """
    robot = load_problem(path)[0]
    table = read_toml(Path(path), "robot file")
    left_out = [f"[{key}]" for key in ("actuation", "environment", "solver") if table.get(key)]
    if left_out:
        warnings.warn(
            f"{path}: load_robot leaves out {' and '.join(left_out)}; geosim.load_case returns them with the robot",
            GeosimWarning,
            stacklevel=3,
        )
    return robot


@guarded
def load_case(path: str | Path) -> tuple[Robot, Actuation | None, Environment, Solver[Any] | None]:
    """Read everything that a robot.toml says: `geosim.solve(robot, actuation, environment, solver=solver)`.

    Parameters
    ----------
    path
        The file; its `actuation` is the name of an actuation file in its folder, or holds that file's tables.

    Returns
    -------
    robot, actuation, environment, solver
        `actuation` is None where the file commands nothing, `solver` where it names none: then the robot's default.

    Raises
    ------
    InputError
        As `load_robot`, or the actuation is impossible.
    """
    robot, environment, solver = load_problem(path)
    return robot, read_command(path, robot), environment, solver


def read_command(path: str | Path, robot: Robot | None = None) -> Actuation | None:
    """Return what a robot.toml commands, checked against the robot if it is given; None where it commands nothing.

    Raises
    ------
    InputError
        The actuation file is missing or outside the folder, or the actuation is impossible.
    """
    path = readable(path)
    table = read_toml(path, "robot file")
    given, place = table.get("actuation"), Place(path).at("actuation")
    if given is None:
        return None
    if isinstance(given, str):
        file = inside(given, place)
        return read_actuation(read_toml(file, "actuation file"), Place(file), robot)
    if not isinstance(given, dict):
        raise place.error(f"= {given!r} must be the name of an actuation file, or a table like [actuation.inflation]")
    return read_actuation({"units": table.get("units"), **given}, place, robot)


def load_problem(
    path: str | Path, *, rescue: bool = False, preview: bool = False, robot: Robot | None = None
) -> tuple[Robot, Environment, Solver[Any] | None]:
    """Read the robot, its environment and its solver from a robot.toml.

    Parameters
    ----------
    path
        The file.
    rescue, preview
        Read it as if it said rescue = true, preview = true.
    robot
        Replaces the one that the file describes.

    Returns
    -------
    robot, environment, solver
        `solver` is None where the file says nothing about it: then the robot's default.

    Raises
    ------
    InputError
        As in `load_robot`.
    """
    path = readable(path)
    table = read_toml(path, "robot file")
    place, kind = Place(path), table.get("kind")
    for key in [key for key, asked in (("rescue", rescue), ("preview", preview)) if asked]:
        table[key] = True
    reader, names = _registered(kind, KINDS, "geosim.robots")
    if reader is None:
        problem = "kind is missing" if kind is None else f"kind = {kind!r} is unknown{suggestion(str(kind), names)}"
        raise place.error(f"{problem}; write kind = " + " or ".join(f'"{name}"' for name in names))
    if preview and kind != "volumetric":
        raise place.error(f'kind = "{kind}" has no preview; that is for volumetric robots whose bodies are surfaces')
    if "units" not in table:
        raise place.error(
            'units is missing; write units = "mm" (or "m", "cm", "in"), the unit of its files and lengths'
        )
    options, spot, solver = table.get("solver"), place.at("solver"), None
    if options and not isinstance(options, dict):
        raise spot.error(f"= {shown(options)} must be a table of options")
    # what needs no robot is checked before the mesher is asked
    surroundings = validated(EnvironmentTable, table.get("environment", {}), place.at("environment"))
    if options and kind == "volumetric":
        solver = make_solver(options, spot)
    unit = table["units"]
    with saying(unit) if unit in tuple(METRES_PER_UNIT) else nullcontext():
        with place.naming():
            robot = reader(table, place) if robot is None else robot
        with place.naming("environment"):
            environment = read_environment(surroundings, robot, METRES_PER_UNIT[unit], place.at("environment"))
    if options and solver is None:
        volumetric = isinstance(robot, VolumetricRobot)
        solver = make_solver(options, spot) if volumetric else fill(type(default_solver(robot)), options, spot)
    return robot, environment, solver


def _registered(name: Any, own: Mapping[str, str], group: str) -> tuple[Any, list[str]]:
    """Return what a name stands for, None where for nothing; and the names that there are."""
    if isinstance(name, str) and name in own:
        return later(own[name]), list(own)
    others = entries(group, own)
    entry = others.get(name) if isinstance(name, str) else None
    return None if entry is None else entry.load(), [*own, *(other for other in others if other != name)]


def make_solver(options: Mapping[str, Any], place: Place | None = None) -> Solver[Any]:
    """Return the solver of a volumetric robot that a table of options describes.

    Parameters
    ----------
    options
        Fields of the solver's dataclass; `kind` = "energy" (default), "projective" or "motion" (in time) says which.
    place
        Where the options stand, for messages.

    Raises
    ------
    InputError
        The solver or an option is unknown, or has an impossible value.
    """
    place = place or Place(Path("solver"))
    options = dict(options)
    kind = options.pop("kind", "energy")
    found, names = _registered(kind, SOLVER_NAMES, SOLVER_ENTRIES)
    if found is None:
        raise place.at("kind").error(
            f"= {kind!r} is unknown{suggestion(str(kind), names)}; use one of {', '.join(names)}"
        )
    return fill(cast(type[Any], found), options, place)


def solver_kind(solver: object) -> str | None:
    """Return the `kind` under [solver] that means this solver; None where none does."""
    name = f"{type(solver).__module__}.{type(solver).__qualname__}"
    return next((kind for kind, where in SOLVER_NAMES.items() if name == f"geosim.{where}"), None)


def fill(solver: type[Any], options: Mapping[str, Any], place: Place) -> Solver[Any]:
    """Construct a dataclass of options from a table, checking names and types first."""
    hints = typing.get_type_hints(solver)
    known = [f.name for f in dataclasses.fields(solver) if f.init]
    for key, value in options.items():
        if key not in known:
            raise place.error(
                f"{key!r} is not an option of {solver.__name__}{suggestion(key, known)}; it has {', '.join(known)}"
            )
        try:
            TypeAdapter(hints[key], config=ConfigDict(strict=True, arbitrary_types_allowed=True)).validate_python(value)
        except ValidationError as error:
            raise place.at(key).error(f"= {value!r}: {first_error(error, None, None)}") from None
    with place.naming():
        try:
            return cast(Solver[Any], solver(**options))
        except (TypeError, ValueError) as error:
            raise place.error(str(error)) from None
