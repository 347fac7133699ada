"""Rows of a test: a load, a measure, its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, floats, frozen, real_array, shown
from geosim.errors import InputError
from geosim.tables import read_table_text

COLUMNS = ("robot", "load_1", "load_2", "measure", "unit", "value")  # of a prediction, without its interval
NEEDED = ("load_1", "measure", "value")


@dataclass(frozen=True)
class TestRows:
    """Measured values.

    Parameters
    ----------
    loads
        Of every row, shape (n, 2), in the unit of the test; the second is 0 where there is one load.
    measures
        Name of the measure of every row, (n,).
    values
        Measured, (n,), in the unit of the measure.
    sigma
        Standard deviation of one reading, (n,); nan where it is not said.
    robot
        Name that predictions carry.
    """

    __test__ = False  # pytest collects classes that begin with Test

    loads: Floats
    measures: tuple[str, ...]
    values: Floats
    sigma: Floats
    robot: str = "robot"

    def __post_init__(self) -> None:
        count = len(self.measures)
        if count == 0:
            raise InputError("tests: no row; give at least one (load, measure, value)")
        values = floats(self.values, "tests: value", (count,))
        sigma = frozen(real_array(self.sigma, "tests: sigma").copy())
        if (sigma <= 0.0).any():
            raise InputError(
                f"tests: sigma = {float(sigma[sigma <= 0.0][0]):g} must be positive; leave it empty if unknown"
            )
        object.__setattr__(self, "loads", floats(self.loads, "tests: loads", (count, 2)))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "sigma", sigma)

    @property
    def names(self) -> tuple[str, ...]:
        """The measures, each once, in their order."""
        return tuple(dict.fromkeys(self.measures))

    def of(self, measure: str) -> np.ndarray:
        """Return which rows are of a measure, (n,)."""
        return np.array([m == measure for m in self.measures])


def read_rows(tests: Any) -> TestRows:
    """Return the rows of a CSV file, or of a sequence of rows.

    Parameters
    ----------
    tests
        Path of a CSV with the columns load_1, measure, value, and where they are needed robot, load_2, unit, sigma; or rows
        (load, measure, value) with load a number or a pair of numbers; or mappings with these keys.

    Raises
    ------
    InputError
        A column is missing, or a value is no number.
    """
    if isinstance(tests, TestRows):
        return tests
    if isinstance(tests, str | Path):
        return _read_csv(Path(tests))
    try:
        given = list(tests)
    except TypeError:
        raise InputError(f"tests = {shown(tests)} is neither a CSV file nor rows (load, measure, value)") from None
    return _gathered([(f"tests, row {i}", _as_mapping(row, i)) for i, row in enumerate(given, 1)])


def _as_mapping(row: Any, number: int) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 3:
        raise InputError(f"tests, row {number}: {shown(row)} is not (load, measure, value)")
    load = np.atleast_1d(row[0])
    return {"load_1": load[0], "load_2": load[1] if len(load) > 1 else 0.0, "measure": row[1], "value": row[2]}


def _read_csv(path: Path) -> TestRows:
    table = read_table_text(path)
    rows = table.rows()
    names = table.cells(table.filled(0)[0])
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise InputError(
            f"{path}: column {missing[0]} is missing; a test has robot, load_1, load_2, measure, unit, value"
        )
    robots = {row["robot"] for _, row in rows if row.get("robot")}
    if len(robots) > 1:
        raise InputError(f"{path}: rows of {len(robots)} robots, {', '.join(sorted(robots))}; write a file a robot")
    return _gathered([(f"{path}: line {line + 1}", row) for line, row in rows])


def _gathered(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> TestRows:
    """Return the rows of tables, each with its place for messages."""
    loads, measures, values, sigma, robot = [], [], [], [], "robot"
    for place, row in rows:
        loads.append([_number(row, "load_1", place, None), _number(row, "load_2", place, 0.0)])
        measures.append(str(row["measure"]).strip())
        values.append(_number(row, "value", place, None))
        sigma.append(_number(row, "sigma", place, np.nan))
        robot = str(row.get("robot") or robot)
    return TestRows(np.array(loads).reshape(-1, 2), tuple(measures), np.array(values), np.array(sigma), robot)


def _number(row: Mapping[str, Any], key: str, place: str, default: float | None) -> float:
    given = row.get(key)
    if given is None or given == "":
        if default is None:
            raise InputError(f"{place}: {key} is empty; write a number")
        return default
    try:
        value = float(given)
    except (TypeError, ValueError):
        raise InputError(f"{place}: {key} = {shown(given)} is no number") from None
    if not np.isfinite(value):
        raise InputError(f"{place}: {key} = {value:g} must be finite; leave the row out")
    return value
