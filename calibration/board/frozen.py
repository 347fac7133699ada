"""Predictions as files: written once, their hash in a log, compared only when the log knows them.

A row is one number with its 95 % interval. `freeze` writes a file and its line in log.csv (UTC time, sha256, the commit that the
working tree was at); `entry` finds that line again, and a file that was changed afterwards is refused.
"""

from __future__ import annotations

import csv
import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
LOG = HERE / "log.csv"


@dataclass(frozen=True)
class Row:
    """A prediction.

    Parameters
    ----------
    robot
        Its name on the board.
    load_1, load_2
        In the unit of the robot's page; "" where there is no second.
    measure, unit
        What, and its unit.
    value, low, high
        The prediction and its 95 % interval.
    """

    robot: str
    load_1: float
    load_2: float | str
    measure: str
    unit: str
    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.robot}, {self.measure} at {self.load_1}: {self.value} is outside of its interval")

    @property
    def key(self) -> tuple[str, float, float, str]:
        """What it is a prediction of."""
        return self.robot, round(self.load_1, 4), round(float(self.load_2 or 0.0), 4), self.measure


COLUMNS = tuple(f.name for f in fields(Row))


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows of predictions."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        out.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in astuple(row)] for row in rows)


def read(path: Path) -> list[Row]:
    """Read rows of predictions.

    Raises
    ------
    ValueError
        A column is missing or a value is no number.
    """
    with path.open(newline="", encoding="utf-8") as file:
        table = csv.DictReader(file)
        if tuple(table.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: the columns are {table.fieldnames}, expected {', '.join(COLUMNS)}")
        return [
            Row(
                r["robot"], float(r["load_1"]), float(r["load_2"]) if r["load_2"] else "", r["measure"], r["unit"],
                float(r["value"]), float(r["low"]), float(r["high"]),
            )
            for r in table
        ]  # fmt: skip


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def freeze(name: str, rows: Sequence[Row], log: Path = LOG) -> Path:
    """Write predictions/NAME.csv beside the log, and its line in the log.

    Raises
    ------
    FileExistsError
        There is a frozen prediction of that name already: a new one gets a new name.
    """
    path = log.parent / "predictions" / f"{name}.csv"
    if path.exists():
        raise FileExistsError(f"{path} is frozen: predict under another name, or compare")
    path.parent.mkdir(exist_ok=True)
    write(path, rows)
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    fresh = not log.exists()
    with log.open("a", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        if fresh:
            out.writerow(["utc", "name", "rows", "sha256", "after_commit"])
        out.writerow([datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), name, len(rows), digest(path), commit])
    return path


def entry(name: str, log: Path = LOG) -> dict[str, str]:
    """Return the line of the log of a prediction, whose file is as it was frozen.

    Raises
    ------
    ValueError
        The log does not know it, or the file was changed.
    """
    path = log.parent / "predictions" / f"{name}.csv"
    with log.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["name"] == name]
    if not lines:
        raise ValueError(f"{name}: not in {log}; predict before you compare")
    if digest(path) != lines[-1]["sha256"]:
        raise ValueError(f"{path} is not what was frozen at {lines[-1]['utc']}")
    return lines[-1]
