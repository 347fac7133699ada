"""The command `geosim info`: rows (name, value) of a robot file, or of this installation."""

from __future__ import annotations

import os
import platform
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import numba

import geosim
from geosim.cli.running import meshing_said
from geosim.compiling import shipped
from geosim.files.robot import load_problem
from geosim.geometry.quality import through_thinnest_wall
from geosim.geometry.surface import read_surface
from geosim.kernels import cache_folder
from geosim.linear import factorise
from geosim.model.contract import Robot
from geosim.model.environment import unlikely_obstacles
from geosim.model.robot import VolumetricRobot
from geosim.show.notebook import robot_facts
from geosim.show.rest import plot_rest

Rows = list[tuple[str, str]]

PACKAGES = (*("numpy", "scipy", "numba", "trimesh", "tetgen", "meshio"), *("rslab", "pypardiso", "matplotlib"))


def system() -> Rows:
    """Return versions, factoriser, threads, cache."""
    rows = [
        ("geosim", geosim.__version__),
        ("python", platform.python_version()),
        ("platform", f"{platform.system()} {platform.machine()}"),
    ]
    for package in PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return [
        *rows,
        *factorise.describe().items(),
        ("cpu cores", str(os.cpu_count())),
        ("kernel threads", str(numba.get_num_threads())),
        ("kernel cache", str(cache_folder() or "none: kernels are compiled in every run")),
        (
            "kernels with the package",
            str(_shipped_kernels() or "none: kernels are compiled when they are first called"),
        ),
    ]


def _shipped_kernels() -> int:
    """Return how many compiled kernels came with the package and run here."""
    folder = shipped()
    return 0 if folder is None else len(list(folder.rglob("*.kernel")))


def robot(path: Path, rescue: bool = False, picture: Path | None = None) -> Rows:
    """Return what a robot file holds, its volumes, the quality of its mesh and what was found wrong; draw it where asked."""
    with meshing_said():
        body, environment, solver = load_problem(path, rescue=rescue)
    given = _given(path) if rescue and picture is not None else []
    drawn = [("picture", str(plot_rest(body, picture, given)))] if picture is not None else []
    rows = [("file", str(path)), ("robot", f"{body.name} ({type(body).__name__})")]
    rows += robot_facts(body) + _wall(body)
    around = {"obstacles": environment.obstacles, "loads": environment.loads, "prescribed": environment.prescribed}
    outside = [f"{key}: {len(items)}" for key, items in around.items() if len(items)]
    rows.append(("environment", ", ".join([f"gravity {environment.gravity.tolist()} m/s^2", *outside])))
    rows.append(("solver", "default" if solver is None else str(solver)))
    doubts = unlikely_obstacles(environment.obstacles, body.vertices)
    notices = [("notice", notice) for notice in (*body.notices, *doubts)]
    return rows + drawn + (notices or [("problems", "none found")])


def _wall(body: Robot) -> Rows:
    """Return how many elements lie through the thinnest wall of a volumetric robot."""
    if not isinstance(body, VolumetricRobot):
        return []
    count, wide, at = through_thinnest_wall(body.vertices, body.body_tets)
    near = "({:.4g}, {:.4g}, {:.4g})".format(*(1e3 * at))
    return [("thinnest wall", f"{1e3 * wide:.3g} mm near {near} mm, {count} elements through it")] if count else []


def _given(path: Path) -> list[tuple[Any, Any]]:
    """Vertices [m] and triangles of the surfaces that a robot file names, as they are found."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    chambers = table.get("chambers", [])
    tables = [table.get("body", {}), *table.get("bodies", []), *(chambers if isinstance(chambers, list) else [])]
    found = [read_surface(path.parent / t["surface"], table["units"]) for t in tables if "surface" in t]
    return [(surface.vertices, surface.faces) for surface in found]
