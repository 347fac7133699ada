"""What `geosim info` says: rows (name, value) of a robot file, or of this installation."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import numba
import numpy as np

import geosim
from geosim.files.robot import load_problem
from geosim.geometry import topology
from geosim.geometry.quality import mesh_quality
from geosim.kernels import cache_folder
from geosim.linear import factorise
from geosim.robot import VolumetricRobot

__all__ = ["robot", "system"]

Rows = list[tuple[str, str]]

PACKAGES = (
    *("numpy", "scipy", "numba", "trimesh", "tetgen", "meshio"),
    *("rslab", "pypardiso", "matplotlib", "plotly", "pyvista"),
)


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
    ]


def robot(path: Path, rescue: bool = False) -> Rows:
    """Return what a robot file holds, its volumes, the quality of its mesh and what was found wrong."""
    body, environment, solver = load_problem(path, rescue=rescue)
    rows = [("file", str(path)), ("robot", f"{body.name} ({type(body).__name__})")]
    rows += _volumetric(body) if isinstance(body, VolumetricRobot) else [("vertices", str(len(body.vertices)))]
    around = {"obstacles": environment.obstacles, "loads": environment.loads, "prescribed": environment.prescribed}
    outside = [f"{len(items)} {key}" for key, items in around.items() if len(items)]
    rows.append(("environment", ", ".join([f"gravity {environment.gravity.tolist()} m/s^2", *outside])))
    rows.append(("solver", "default" if solver is None else str(solver)))
    return rows + ([("notice", notice) for notice in body.notices] or [("problems", "none found")])


def _volumetric(body: VolumetricRobot) -> Rows:
    used = body.vertices[body.body_vertices]
    span = " x ".join(f"{v * 1e3:.4g}" for v in np.ptp(used, axis=0))
    volumes = topology.tet_volumes(body.vertices, body.tets)
    of = {region: float(volumes[body.regions == region].sum()) for region in body.materials}
    rows = [("size", f"{span} mm"), ("from", f"{np.round(used.min(axis=0) * 1e3, 4).tolist()} mm")]
    rows += [(f"body {region}", f"{of[region] * 1e9:.6g} mm^3, {m}") for region, m in body.materials.items()]
    for c, (volume, wall) in enumerate(zip(body.chamber_volumes, body.chamber_walls)):
        rows.append((f"chamber {c + 1}", f"{volume * 1e9:.6g} mm^3, {len(wall)} wall faces"))
    mass = sum(m.density * of[region] for region, m in body.materials.items())
    held = f"{len(body.fixed)} vertices" if len(body.fixed) else "nothing: a free body"
    return [
        *rows,
        ("mass", f"{1e3 * mass:.4g} g"),
        ("mesh", str(mesh_quality(body.vertices, body.body_tets))),
        ("fixed", held),
        ("tip", f"{len(body.tip)} vertices"),
    ]
