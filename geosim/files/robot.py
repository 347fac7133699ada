"""Reads robot.toml: the robot, what surrounds it and how it is solved.

A file is data: it runs nothing and reads only inside its own folder. Whatever is wrong with it is said in one line
that names the file, the key, the value and the remedy. Lengths are in the file's `units`; moduli [Pa], densities
[kg/m^3], gravity [m/s^2] and forces [N] always.
"""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

import geosim
from geosim.cable import Cable
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.files.environment import read_environment
from geosim.files.messages import Place, first_error, suggestion
from geosim.files.schema import BodyTable, EnvironmentTable, RobotFile
from geosim.files.tetmesh import read_mesh
from geosim.files.values import inside, positive, read_material, read_selection, read_toml, validated, vector
from geosim.material.materials import Material
from geosim.robot import UNITS, VolumetricRobot
from geosim.solve import default_solver

__all__ = ["SOLVERS", "load_problem", "load_robot", "make_solver"]

SOLVERS = {"energy": "EnergyShapeSolver", "projective": "ProjectiveShapeSolver"}
KINDS = {"rod-shell": "geosim.rods", "snake": "geosim.snake"}
EXAMPLE_FIXED = 'write [fixed] with plane = "x", below = 0.1, or fixed = "none" for a free body'


def load_robot(path: str | Path) -> Any:
    """Read a robot from its robot.toml.

    Parameters
    ----------
    path
        The file; `kind` in it says "volumetric", "rod-shell" or "snake".

    Returns
    -------
    VolumetricRobot, RodShellRobot or SnakeRobot

    Raises
    ------
    InputError
        The file is missing, not TOML, holds an unknown key, a wrong type or an impossible value, reaches outside its
        folder, or the robot cannot be meshed.
    """
    return load_problem(path)[0]


def load_problem(path: str | Path) -> tuple[Any, Environment, Any]:
    """Read the robot, its environment and its solver from a robot.toml.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    robot, environment, solver
        `solver` is None where the file says nothing about it: then the robot's default.

    Raises
    ------
    InputError
        As in `load_robot`.
    """
    path = Path(path)
    table = read_toml(path, "robot file")
    place = Place(path)
    kind = table.get("kind")
    known = ("volumetric", *KINDS)
    if kind not in known:
        problem = "kind is missing" if kind is None else f"kind = {kind!r} is unknown{suggestion(str(kind), known)}"
        raise InputError(f'{path}: {problem}; write kind = "volumetric", "rod-shell" or "snake"')
    if kind != "volumetric":
        return _other_kind(kind, table, path)
    _refuse_missing(table, path)
    file = validated(RobotFile, table, place)
    with place.naming():
        robot = _robot(file, place)
    with place.naming("environment"):
        environment = read_environment(file.environment, robot, UNITS[file.units], place.at("environment"))
    return robot, environment, make_solver(file.solver, place.at("solver")) if file.solver else None


def _refuse_missing(table: dict[str, Any], path: Path) -> None:
    """The three things whose absence deserves advice."""
    if "units" not in table:
        raise InputError(
            f'{path}: units is missing; write units = "mm" (or "m", "cm", "in"), the unit of its files and lengths'
        )
    if ("body" in table) == ("bodies" in table):
        problem = "[body] is missing" if "body" not in table else "[body] and [[bodies]] are both given"
        raise InputError(f'{path}: {problem}; write one [body] with surface = "body.stl", or several [[bodies]]')
    if "fixed" not in table:
        raise InputError(f"{path}: [fixed] is missing, so nothing says what holds the robot; {EXAMPLE_FIXED}")


def _other_kind(kind: str, table: dict[str, Any], path: Path) -> tuple[Any, Environment, Any]:
    """Leave rods, shells and snakes to the package that knows them; the environment is read here."""
    try:
        build = importlib.import_module(KINDS[kind]).robot_from_table
    except (ImportError, AttributeError):
        raise InputError(f'{path}: kind = "{kind}" cannot be read by this geosim; "volumetric" can') from None
    place, unit = Place(path), UNITS.get(str(table.get("units", "m")))
    if unit is None:
        raise InputError(f"{path}: units = {table['units']!r} is unknown; use one of {', '.join(UNITS)}")
    rest = {k: v for k, v in table.items() if k not in ("environment", "solver")}
    with place.naming():
        robot = build(rest, path)
    surroundings = validated(EnvironmentTable, table.get("environment", {}), place.at("environment"))
    with place.naming("environment"):
        environment = read_environment(surroundings, robot, unit, place.at("environment"))
    options = table.get("solver")
    with place.naming("solver"):
        solver = None if not options else fill(type(default_solver(robot)), options, place.at("solver"))
    return robot, environment, solver


def _robot(file: RobotFile, place: Place) -> VolumetricRobot:
    unit = UNITS[file.units]
    bodies = [file.body] if file.body is not None else list(file.bodies or [])
    spots = [place.at("body")] if file.body is not None else [place.at("bodies", i) for i in range(len(bodies))]
    if not bodies:
        raise place.error("[[bodies]] is empty; give at least one with a surface")
    materials = [read_material(body.material, spot) for body, spot in zip(bodies, spots)]
    fixed = None if file.fixed == "none" else read_selection(file.fixed, place.at("fixed"), unit, EXAMPLE_FIXED)
    tip = None if file.tip is None else read_selection(file.tip, place.at("tip"), unit)
    name = file.name or (place.path.resolve().parent.name if place.path.stem == "robot" else place.path.stem)
    for body, spot in zip(bodies, spots):
        if (body.surface is None) == (body.mesh is None):
            raise spot.error('needs either surface = "body.stl" or mesh = "robot.vtu"')
    cables = _cables(file, place, unit)
    if bodies[0].mesh is not None:
        return _meshed_robot(file, bodies, spots, materials, fixed, tip, name, cables, place)
    surfaces = [inside(body.surface, spot.at("surface")) for body, spot in zip(bodies, spots)]
    for body, spot in zip(bodies, spots):
        if body.region is not None:
            raise spot.error(f"region = {body.region} goes with mesh = ...; a surface has no regions")
    chambers = [inside(chamber.surface, place.at("chambers", i, "surface")) for i, chamber in enumerate(file.chambers)]
    edges = [
        positive(body.max_edge, spot.at("max_edge")) for body, spot in zip(bodies, spots) if body.max_edge is not None
    ]
    return VolumetricRobot.from_surfaces(
        surfaces if len(surfaces) > 1 else surfaces[0],
        chambers,
        material=materials if len(materials) > 1 else materials[0],
        fixed=fixed,
        tip=tip,
        max_edge=min(edges) * unit if edges else None,
        units=file.units,
        name=name,
        allow_any_size=file.allow_any_size,
        cables=cables,
    )


def _cables(file: RobotFile, place: Place, unit: float) -> tuple[Cable, ...]:
    """The cables of a robot file; points in its units."""
    out = []
    for i, table in enumerate(file.cables):
        spot = place.at("cables", i)
        with spot.naming():
            out.append(Cable([vector(point, spot.at("points"), unit) for point in table.points], table.name or ""))
    return tuple(out)


def _meshed_robot(
    file: RobotFile,
    bodies: list[BodyTable],
    spots: list[Place],
    materials: list[Material],
    fixed: Any,
    tip: Any,
    name: str,
    cables: tuple[Cable, ...],
    place: Place,
) -> VolumetricRobot:
    """The robot of a tetrahedral mesh whose tets carry a region."""
    if len({body.mesh for body in bodies}) > 1:
        raise place.error("[[bodies]] name several meshes; they share one mesh and differ in region")
    if file.chambers:
        raise place.error(
            f"[[chambers]] do not go with mesh = {bodies[0].mesh!r}; its chambers are the regions that no body names"
        )
    if bodies[0].max_edge is not None:
        raise (
            spots[0]
            .at("max_edge")
            .error(
                f"= {bodies[0].max_edge} does not go with mesh = {bodies[0].mesh!r}, which is meshed already; remove it"
            )
        )
    regions_of = [i if body.region is None else body.region for i, body in enumerate(bodies)]
    source = inside(bodies[0].mesh, spots[0].at("mesh"))
    vertices, tets, regions, notices = read_mesh(source)
    present = np.unique(regions).tolist()
    for region, spot in zip(regions_of, spots):
        if region not in present:
            raise spot.error(f"region = {region} has no tet in {source.name}; its regions are {present}")
    return VolumetricRobot.from_tets(
        vertices * UNITS[file.units],
        tets,
        regions,
        material=dict(zip(regions_of, materials)),
        fixed=fixed,
        tip=tip,
        name=name,
        units=file.units,
        allow_any_size=file.allow_any_size,
        notices=notices,
        cables=cables,
    )


def make_solver(options: Mapping[str, Any], place: Place | None = None) -> Any:
    """Return the solver that a table of options describes.

    Parameters
    ----------
    options
        Fields of the solver's dataclass; `kind` = "energy" (default) or "projective" says which solver.
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
    if kind not in SOLVERS:
        raise place.at("kind").error(
            f"= {kind!r} is unknown{suggestion(str(kind), SOLVERS)}; use one of {', '.join(SOLVERS)}"
        )
    try:
        solver = getattr(geosim, SOLVERS[kind])
    except (AttributeError, ImportError):
        raise place.at("kind").error(f'= "{kind}" is not in this version of geosim') from None
    return fill(solver, options, place)


def fill(solver: type, options: Mapping[str, Any], place: Place) -> Any:
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
            return solver(**options)
        except (TypeError, ValueError) as error:
            raise place.error(str(error)) from None
