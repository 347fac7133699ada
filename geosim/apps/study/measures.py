"""Measures of a design in a case: rows of its summary, and what is one number for the whole design."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from geosim.apps.study.expressions import MeasuredColumn
from geosim.arguments import suggestion
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.model.actuation import Actuation, Inflation
from geosim.model.contract import Status
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.summary import summary_columns

# What is the same in every case and at every command; at every command, besides the summary; of a case as a whole.
DESIGN_MEASURES = ("mass_g", "tets")
FRAME_MEASURES = (
    *("pressure_kpa", "volume_ratio", "grip_force_n", "grip_force_n_1", "blocked_force_n", "length_mm"),
    *("size_x_mm", "size_y_mm", "size_z_mm", "stretch_margin", "share_beyond", "work_j"),
)
CASE_MEASURES = ("holding_force_n_1", "tip_stiffness_n_m", "workspace_mm3")
TAKEN_COLUMNS = ("status", "seconds")  # the table has columns of these names for the design as a whole


def check(
    columns: Sequence[MeasuredColumn], place: Place, cases: Mapping[str, Actuation | None], *, unnamed: bool
) -> None:
    """Refuse columns that no design has.

    Parameters
    ----------
    cases
        Actuation of every case, None where it commands nothing; "" is the study's own.
    unnamed
        Whether there is a case without a name.

    Raises
    ------
    InputError
        A measure, a case or a command is unknown.
    """
    own = (*DESIGN_MEASURES, *FRAME_MEASURES, *CASE_MEASURES)
    known = [name for name in (*summary_columns(1, 1, 1), *own) if name not in TAKEN_COLUMNS]
    families = {_family(name) for name in known}
    for column in columns:
        said = f"= {str(column)!r}"
        if _family(column.name) not in families:
            near = suggestion(column.name, known)
            raise place.error(f"{said} is no measure{near}; there are {', '.join(dict.fromkeys(known))}")
        if column.case and column.case not in cases:
            given = [name for name in cases if name]
            there = f"there are {', '.join(given)}" if given else "the study has no [cases.NAME]"
            raise place.error(f"{said}: no case is called {column.case!r}{suggestion(column.case, given)}; {there}")
        if not (column.case or unnamed or column.name in DESIGN_MEASURES):
            first = next(iter(cases))
            raise place.error(
                f"{said} names no case, and the study has no [actuation] of its own; write {column}@{first}"
            )
        if column.command is not None:
            _check_command(column, place, cases[column.case])


def _check_command(column: MeasuredColumn, place: Place, actuation: Actuation | None) -> None:
    """Refuse the command of a column that is one number for all of them, or that no command is."""
    if _family(column.name) in (*DESIGN_MEASURES, *CASE_MEASURES):
        raise place.error(f"= {str(column)!r}: {column.name} is one number for all commands; leave [...] out")
    try:
        command_number(column, actuation)
    except InputError as error:
        raise place.error(f"= {str(column)!r}: {error}") from None


def command_number(column: MeasuredColumn, actuation: Actuation | None) -> int:
    """Return the number of the command that a column speaks of, from 0.

    Raises
    ------
    InputError
        There is none.
    """
    assert column.command is not None
    count = 1 if actuation is None else len(actuation)
    if not column.unit:
        if column.command > count:
            raise InputError(f"command {column.command:g} is not there; there are {count}")
        return int(column.command) - 1
    key, factor = ("pressure", 1e-3) if column.unit == "kPa" else ("volume_ratio", 1.0)
    given = [getattr(part, key) for part in getattr(actuation, "parts", ()) if isinstance(part, Inflation)]
    rows = next((np.asarray(g, dtype=float) for g in given if g is not None and np.isfinite(g).any()), None)
    if rows is None:
        raise InputError(f"no command prescribes a {key.replace('_', ' ')}; name it by its number, [1]")
    # of several chambers the largest names the command
    values = factor * np.where(np.isnan(rows), -np.inf, rows).reshape(count, -1).max(axis=1)
    command_tolerance_rel = 1e-6  # of a pressure or a volume ratio by which a command is named
    near = np.flatnonzero(np.abs(values - column.command) <= command_tolerance_rel * max(abs(column.command), 1e-12))
    if not len(near):
        listed = ", ".join(f"{v:g}" for v in values)
        raise InputError(f"no command has {column.command:g} {column.unit}; there are {listed}")
    return int(near[0])


def _family(column: str) -> str:
    """Name without the number of the chamber, cable or obstacle."""
    return re.sub(r"_[1-9]\d*$", "_1", column)


def measured(result: Result, asked: Sequence[str] = ()) -> dict[str, Any]:
    """Return all measures: "measures" at the last command, "frames" one table a command; empty where there is no equilibrium.

    Parameters
    ----------
    asked
        What costs a factorisation is measured where it is asked for: "tip_stiffness_n_m".
    """
    equilibrium_statuses = (Status.CONVERGED, Status.UNSTABLE, Status.CROSSED)
    if not (result.status in equilibrium_statuses or result.converged) or not len(result.frames):
        return {"measures": {}, "frames": []}
    robot = result.robot
    rows = [{key: value for key, value in row.items() if key not in TAKEN_COLUMNS} for row in result.summary()]
    for row, more in zip(rows, _of_frames(result)):
        row.update(more)
    last: dict[str, Any] = {**rows[-1], "tets": len(robot.body_tets), "mass_g": 1e3 * robot.mass}
    holding = result.holding_force
    last |= {f"holding_force_n_{i}": float(force) for i, force in enumerate(holding, 1)}
    last["workspace_mm3"] = 1e9 * _workspace(result)
    if "tip_stiffness_n_m" in asked:
        last["tip_stiffness_n_m"] = _tip_stiffness(result)
    return {"measures": _numbers(last), "frames": [_numbers(row) for row in rows]}


def _numbers(row: Mapping[str, Any]) -> dict[str, float | None]:
    """A row as JSON holds it: None where a measure is not known."""
    return {key: float(value) if np.isfinite(value) else None for key, value in row.items()}


def _of_frames(result: Result) -> list[dict[str, float]]:
    """What the summary does not have of every frame."""
    robot, out = result.robot, []
    solid = isinstance(robot, VolumetricRobot)
    blocked = np.linalg.norm(result.blocked_force, axis=1)
    for i, positions in enumerate(result.frames):
        size = 1e3 * np.ptp(positions[robot.body_vertices], axis=0)
        grip = result.grip_force[i]
        row = {
            "pressure_kpa": 1e-3 * _largest(result.chamber_pressures[i]),
            "volume_ratio": _largest(result.volume_ratios[i]),
            "grip_force_n": float(np.nansum(grip)) if np.isfinite(grip).any() else np.nan,
            **{f"grip_force_n_{o}": float(force) for o, force in enumerate(grip, 1)},
            "blocked_force_n": float(blocked[i]),
            "length_mm": 1e3 * _length(result, i),
            **{f"size_{axis}_mm": float(size[k]) for k, axis in enumerate("xyz")},
            "stretch_margin": float(result.stretch_margin[i]) if solid else np.nan,
            "work_j": float(result.work[i]),
        }
        if solid and np.isfinite(row["stretch_margin"]):
            row["share_beyond"] = result.share_beyond(frame=i)
        out.append(row)
    return out


def _largest(values: Any) -> float:
    known = np.asarray(values)[np.isfinite(values)]
    return float(known.max()) if len(known) else np.nan


def _length(result: Result, i: int) -> float:
    """Length of the centre line [m]; nan where there is none."""
    if result.spine is None:
        return np.nan
    return float(np.linalg.norm(np.diff(result.center_line(i), axis=0), axis=1).sum())


def _workspace(result: Result) -> float:
    """Volume [m^3] of the hull of all places of the tip, at rest and at every command; 0 in a plane."""
    robot = result.robot
    places = np.vstack([robot.tip_weights @ robot.vertices[robot.tip], result.tip])
    try:
        return float(ConvexHull(places).volume)
    except (QhullError, ValueError):
        return 0.0


def _tip_stiffness(result: Result) -> float:
    """Least stiffness [N/m] of the tip in any direction, at the last command; nan where it is not known."""
    try:
        matrix = result.tip_stiffness()
    except InputError:
        return np.nan
    return float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0])


def value_of(column: MeasuredColumn, row: Mapping[str, Any], number: int | None) -> float | None:
    """Return a measure out of the row of a run; None where it is not there.

    Parameters
    ----------
    number
        Of the command, from 0; None for the last.
    """
    cases = row.get("cases", {})
    of_case = cases.get(column.case, {}) if column.case else row
    if not column.case and not row["measures"] and cases:  # what every case has
        of_case = next(iter(cases.values()))
    if number is None:
        return cast("float | None", of_case.get("measures", {}).get(column.name))
    frames = of_case.get("frames", [])
    return frames[number].get(column.name) if number < len(frames) else None
