"""The table of frames: what summary.csv, the page, a notebook and the command line show of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from geosim.model.contract import Status
from geosim.result import Result
from geosim.show import fields

# Error bars, where they were asked for: column, which is their name in `Result.extra`, and its unit over that of SI.
ERRORS = {
    f"{name}_error_{part}": unit
    for name, unit in (("tip", 1e3), ("bend_angle", np.degrees(1.0)), ("pressure", 1e-3))
    for part in ("mesh", "material", "total")
}

LEAST_TURN_DEG = 1.0  # a robot that turns by less is not called bent; meshes are not that symmetric
OF_CHAMBER = ("volume_ratio", "volume_mm3", "pressure_kpa")  # columns that each chamber has


def summary_header(result: Result) -> list[str]:
    """Return the columns of summary.csv."""
    counts = (getattr(result, key).shape[1] for key in ("chamber_volumes", "cable_lengths", "obstacle_forces"))
    return [*summary_columns(*counts), *(name for name in ERRORS if name in result.extra)]


def summary_columns(chambers: int, cables: int, obstacles: int) -> list[str]:
    """Return the columns of summary.csv for this many chambers, cables and obstacles."""
    each: Callable[[int], range] = lambda count: range(1, count + 1)  # noqa: E731
    return [
        *("frame", "load", "status"),
        *(f"{name}_{c}" for c in each(chambers) for name in OF_CHAMBER),
        *(f"tip_{axis}_mm" for axis in "xyz"),
        *("max_displacement_mm", "body_volume_ratio", "iterations", "seconds"),
        *("bend_angle_deg", "twist_angle_deg", "max_stretch", "max_von_mises_kpa"),
        *(f"{name}_{w}" for w in each(cables) for name in ("cable_length_mm", "cable_tension_n")),
        *(f"obstacle_force_{axis}_n_{o}" for o in each(obstacles) for axis in "xyz"),
    ]


def summary_rows(result: Result, *, gauges: bool = True) -> list[dict[str, float | int | str]]:
    """Return one row a frame, keyed as in `summary_header`; mm, kPa, degrees, N, seconds.

    `status` is what holds for the frame (CROSSED, UNSTABLE, else CONVERGED). In the last row it is the status of the
    whole solve, so that a solve that stopped early shows why. Largest stretch and stress are nan unless `gauges` are read.
    """
    effort, header, count = _effort(result), summary_header(result), len(result.frames)
    volumes, pressures = 1e9 * result.chamber_volumes, 1e-3 * result.chamber_pressures
    lengths, tensions, forces = 1e3 * result.cable_lengths, result.cable_tensions, result.obstacle_forces
    before = [v for c in zip(result.volume_ratios.T, volumes.T, pressures.T) for v in c] + [*(1e3 * result.tip.T)]
    after = [np.degrees(result.bend_angle), np.degrees(result.twist_angle)]
    unread = np.full(count, np.nan)
    after += [result.max_stretch, 1e-3 * result.max_von_mises] if gauges else [unread, unread]
    after += [*(v for w in zip(lengths.T, tensions.T) for v in w)]
    after += [v for o in forces.transpose(1, 2, 0) for v in o]
    after += [unit * result.extra[name] for name, unit in ERRORS.items() if name in result.extra]
    rows = []
    for i in range(count):
        shape = [fields.max_displacement(result, i) * 1e3, float(result.body_volume_ratio[i]), *effort.get(i, (0, 0.0))]
        values: list[Any] = [i, float(result.times[i]), _frame_status(result, i).name]
        values += [*(float(v[i]) for v in before), *shape, *(float(v[i]) for v in after)]
        rows.append(dict(zip(header, values, strict=True)))
    return rows


def telling_columns(result: Result) -> tuple[str, list[str]]:
    """Return what says most of a result: the column of its command, and columns of what it did, the first one first.

    The command is a pressure, a volume, a tension or the time. What it did is the force on an obstacle, where it touches one,
    an angle of a degree or more, and the largest displacement.
    """
    by_volume = np.isfinite(getattr(result.actuation, "volume_ratio", np.nan)).any()
    pulled = np.nan_to_num(np.abs(result.cable_tensions)).max(axis=0, initial=0.0)
    pushed = np.nan_to_num(np.abs(result.chamber_pressures)).max(axis=0, initial=0.0)
    command = f"cable_tension_n_{pulled.argmax() + 1}" if pulled.any() else "load"
    if pushed.any():
        command = f"{'volume_ratio' if by_volume else 'pressure_kpa'}_{pushed.argmax() + 1}"
    angles = (("bend_angle_deg", result.bend_angle), ("twist_angle_deg", result.twist_angle))
    did = [f"grip_force_n_{o + 1}" for o in np.flatnonzero((result.grip_force > 0.0).any(axis=0))]
    did += [
        name for name, angle in angles if np.nan_to_num(np.abs(angle)).max(initial=0.0) >= np.radians(LEAST_TURN_DEG)
    ]
    return command, [*did, "max_displacement_mm"]


def known_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of rows that hold more than nan: those that apply to this result."""
    return [column for column in rows[0] if any(row[column] == row[column] for row in rows)]


def headings(result: Result, columns: Sequence[str]) -> list[str]:
    """Return what stands over columns: their own names, with those of the chambers behind them."""
    names = getattr(result.robot, "chamber_names", ())
    of = {f"{key}_{c + 1}": f" {name}" for c, name in enumerate(names) if name for key in OF_CHAMBER}
    return [column + of.get(column, "") for column in columns]


def _frame_status(result: Result, i: int) -> Status:
    if i == len(result.frames) - 1:
        return result.status
    if result.crossings[i] > 0:
        return Status.CROSSED
    return Status.UNSTABLE if result.stable[i] == 0 else Status.CONVERGED


def _effort(result: Result) -> dict[int, tuple[int, float]]:
    """Iterations and seconds of every frame, from the trace."""
    total: dict[int, tuple[int, float]] = {}
    for record in result.trace:
        if "frame" in record:
            count, seconds = total.get(int(record["frame"]), (0, 0.0))
            spent = record.get("seconds", 0.0)
            spent = sum(spent.values()) if isinstance(spent, Mapping) else spent
            total[int(record["frame"])] = (count + ("iteration" in record), seconds + float(spent))
    return total


def cell(value: Any) -> str:
    """A number as a table shows it; what rounding left of zero is zero."""
    return str(value) if not isinstance(value, float) else "0" if abs(value) < 1e-9 else f"{value:.5g}"
