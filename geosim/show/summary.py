"""The table of frames: what summary.csv, the page, a notebook and the command line show of a result."""

from __future__ import annotations

from collections.abc import Mapping

from geosim.contract import Status
from geosim.result import Result
from geosim.show import fields

__all__ = ["summary_header", "summary_rows"]


def summary_header(chambers: int) -> list[str]:
    """Return the columns of summary.csv for a robot with so many chambers."""
    each = [f"{name}_{c}" for c in range(1, chambers + 1) for name in ("volume_ratio", "volume_mm3", "pressure_kpa")]
    tip = [f"tip_{axis}_mm" for axis in "xyz"]
    tail = ["max_displacement_mm", "body_volume_ratio", "iterations", "seconds"]
    return ["frame", "load", "status", *each, *tip, *tail]


def summary_rows(result: Result) -> list[dict[str, float | int | str]]:
    """Return one row a frame, keyed as in `summary_header`; mm, kPa, seconds.

    `status` is what holds for the frame (CROSSED, UNSTABLE, else CONVERGED); in the last row it is the status of the
    whole solve, so that a solve that stopped early shows why.
    """
    effort = _effort(result)
    rows = []
    for i in range(len(result.frames)):
        row: dict[str, float | int | str] = {"frame": i, "load": float(result.times[i])}
        row["status"] = _frame_status(result, i).name
        for c in range(result.chamber_volumes.shape[1]):
            row[f"volume_ratio_{c + 1}"] = float(result.volume_ratios[i, c])
            row[f"volume_mm3_{c + 1}"] = float(result.chamber_volumes[i, c]) * 1e9
            row[f"pressure_kpa_{c + 1}"] = float(result.chamber_pressures[i, c]) * 1e-3
        row |= {f"tip_{axis}_mm": float(value) * 1e3 for axis, value in zip("xyz", result.tip[i])}
        row["max_displacement_mm"] = fields.max_displacement(result, i) * 1e3
        row["body_volume_ratio"] = float(result.body_volume_ratio[i])
        row["iterations"], row["seconds"] = effort.get(i, (0, 0.0))
        rows.append(row)
    return rows


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
