"""Measures of a design: the last row of its summary, and what is one number for the whole design."""

from __future__ import annotations

import re

import numpy as np

from geosim.contract import Status
from geosim.files.messages import Place, suggestion
from geosim.geometry import topology
from geosim.result import Result
from geosim.robot import VolumetricRobot
from geosim.show.summary import summary_columns

__all__ = ["check", "measured"]

OWN_MEASURES = ("mass_g", "holding_force_n_1", "blocked_force_n", "work_j", "tets")
TAKEN_COLUMNS = ("status", "seconds")  # the table has columns of these names for the design as a whole
EQUILIBRIUM_STATUSES = (Status.CONVERGED, Status.UNSTABLE, Status.CROSSED)


def check(columns: list[str], place: Place) -> None:
    """Refuse columns that no design has.

    Raises
    ------
    InputError
        One is unknown.
    """
    known = [name for name in (*summary_columns(1, 1, 1), *OWN_MEASURES) if name not in TAKEN_COLUMNS]
    families = {_family(name) for name in known}
    for column in columns:
        if _family(column) not in families:
            raise place.error(f"= {column!r} is no measure{suggestion(column, known)}; there are {', '.join(known)}")


def _family(column: str) -> str:
    """Name without the number of the chamber, cable or obstacle."""
    return re.sub(r"_[1-9]\d*$", "_1", column)


def measured(result: Result) -> dict[str, float | None]:
    """Return all measures at the last command; none where there is no equilibrium, None where one is not known."""
    if not (result.status in EQUILIBRIUM_STATUSES or result.converged) or not len(result.frames):
        return {}
    row = {key: value for key, value in result.summary()[-1].items() if key not in TAKEN_COLUMNS}
    robot = result.robot
    row["tets"] = len(robot.body_tets)
    row["mass_g"] = 1e3 * _mass(robot)
    if not hasattr(result, "work"):
        return {key: float(value) if np.isfinite(value) else None for key, value in row.items()}  # TEMP
    row["work_j"] = float(result.work[-1])
    row["blocked_force_n"] = float(np.linalg.norm(result.blocked_force[-1]))
    row |= {f"holding_force_n_{i}": float(force) for i, force in enumerate(result.holding_force, 1)}
    return {key: float(value) if np.isfinite(value) else None for key, value in row.items()}


def _mass(robot: object) -> float:
    """Mass of the bodies at rest [kg]; nan for robots whose bodies are not tetrahedra of one material each."""
    if not isinstance(robot, VolumetricRobot):
        return np.nan
    volumes = topology.tet_volumes(robot.vertices, robot.tets)
    return float(sum(volumes[robot.regions == region].sum() * m.density for region, m in robot.materials.items()))
