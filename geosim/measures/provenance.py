"""Provenance of a result: the version, the options, the mesh and the sources of the materials."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import geosim
from geosim.arrays import Floats, Ints
from geosim.model.contract import Robot
from geosim.model.materials import source_of
from geosim.model.robot import VolumetricRobot


def mesh_hash(robot: Robot) -> str:
    """Hash of the rest positions and of what joins them; equal meshes have equal hashes."""
    digest = hashlib.sha256()
    parts: list[Floats | Ints] = [robot.vertices, robot.body_tets, robot.skin, robot.edges]
    for part in parts:
        digest.update(str(part.shape).encode())
        digest.update(part.tobytes())
    # hexadecimal, of the hash: two meshes of a study of millions are told apart
    return digest.hexdigest()[:16]


def provenance(robot: Robot, solver: object, continued: bool) -> dict[str, Any]:
    """Return what a result must know to be made again.

    `version` of geosim; `options`: the solver's name and fields; `mesh_hash`; `material_source`: by region, where the constants
    come from; `continued`: whether the solve began from another result, without which it cannot be made again.
    """
    fields = dataclasses.fields(solver) if dataclasses.is_dataclass(solver) else ()
    kept = {f.name: getattr(solver, f.name) for f in fields if f.init}
    materials: Mapping[int, Any] = robot.materials if isinstance(robot, VolumetricRobot) else {}
    return {
        "version": geosim.__version__,
        "options": {"solver": type(solver).__name__, **{k: None if callable(v) else v for k, v in kept.items()}},
        "mesh_hash": mesh_hash(robot),
        "material_source": {str(region): source_of(material) for region, material in materials.items()},
        "continued": continued,
    }
