"""Sampling of the design space: grid, random and Latin-hypercube rows of values, in a fixed order."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.apps.study.schema import MAX_DESIGNS, RangeTable, SamplingTable
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.files.values import inside, validated
from geosim.tables import DECIMAL_COMMA, read_table_text

Row = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """What one parameter may be: one of some values, or any number of a range.

    Parameters
    ----------
    key
        Name of the parameter in the study.
    values
        The choices; empty for a range.
    low, high
        Ends of a range.
    """

    key: str
    values: tuple[Any, ...] = ()
    low: float = np.nan
    high: float = np.nan

    @property
    def ordered(self) -> tuple[Any, ...]:
        """The choices as a search counts them: numbers in order, others as they are listed."""
        return tuple(sorted(self.values)) if self.counted else self.values

    @property
    def counted(self) -> bool:
        """Whether its choices are numbers; no range is."""
        return bool(self.values) and all(isinstance(v, int | float) for v in self.values)

    def at(self, share: float) -> Any:
        """Return the value at a share in [0, 1) of the way; every choice has an equal share."""
        if self.values:
            return self.values[int(share * len(self.values))]
        return self.low + share * (self.high - self.low)


def read_axis(key: str, given: Any, place: Place) -> Axis:
    """Return what stands behind a key of [vary]: a list, or a range { from, to, steps, integer }.

    Raises
    ------
    InputError
        It is neither, empty, or runs backwards.
    """
    if isinstance(given, list):
        if not given:
            raise place.error("= [] varies nothing; list at least one value")
        return Axis(key, tuple(given))
    if not isinstance(given, dict):
        raise place.error(
            f"= {given!r} must be a list of choices or {{ from = 1.0, to = 3.0, steps = 5 }}; see [fixed]"
        )
    table: RangeTable = validated(RangeTable, given, place)
    low, high = table.start, table.to
    if not (np.isfinite([low, high]).all() and low < high):
        raise place.error(f"from = {low:g}, to = {high:g}: a range goes from a number to a larger one")
    if not table.integer:
        if table.steps is None:
            return Axis(key, low=low, high=high)
        return Axis(key, tuple(np.linspace(low, high, table.steps).tolist()))
    return Axis(key, _whole_numbers(table, place))


def _whole_numbers(table: RangeTable, place: Place) -> tuple[int, ...]:
    """Return the values of a range of whole numbers: all, or so many steps."""
    low, high = table.start, table.to
    if low != int(low) or high != int(high):
        raise place.error(f"from = {low:g}, to = {high:g} must be whole numbers where integer = true")
    count = int(high - low) + 1 if table.steps is None else table.steps
    if count > MAX_DESIGNS:
        raise place.error(f"has {count:,} whole numbers; at most {MAX_DESIGNS:,}, or give steps")
    return tuple(dict.fromkeys(int(v) for v in np.linspace(low, high, count).round()))


def rows(axes: Sequence[Axis], sampling: SamplingTable, place: Place) -> list[Row]:
    """Return the values of every design of a grid, or of random or stratified samples; the same for the same seed.

    Raises
    ------
    InputError
        A grid has a range without steps, or a count or a seed.
    """
    if sampling.method == "grid":
        return _grid(axes, sampling, place)
    random = np.random.default_rng(sampling.seed)
    if sampling.method == "random":
        shares = random.random((sampling.count, len(axes)))
    else:
        from scipy.stats import qmc

        shares = np.empty((sampling.count, 0))
        if axes:
            shares = qmc.LatinHypercube(len(axes), rng=random).random(sampling.count)
    return [{axis.key: axis.at(share) for axis, share in zip(axes, row)} for row in shares.tolist()]


def _grid(axes: Sequence[Axis], sampling: SamplingTable, place: Place) -> list[Row]:
    """Return all combinations of the values of the axes."""
    for name in ("count", "seed"):
        if name in sampling.model_fields_set:
            raise place.at(name).error(
                f'= {getattr(sampling, name)} does not go with a grid; choose method = "random" or remove it'
            )
    for axis in axes:
        if not axis.values:
            raise InputError(f"{place.path}: [vary] {axis.key} is a range without steps; a grid needs steps = 5, say")
    designs = math.prod(len(axis.values) for axis in axes)
    if designs > MAX_DESIGNS:
        raise place.error(
            f'makes a grid of {designs:,} designs; at most {MAX_DESIGNS:,}: fewer steps, or method = "random"'
        )
    keys, values = [axis.key for axis in axes], [axis.values for axis in axes]
    return [dict(zip(keys, combination)) for combination in itertools.product(*values)]


def read_list(sampling: SamplingTable, place: Place, check: Callable[[str, Any, Place], None]) -> list[Row]:
    """Return the rows of the CSV file of method = "list", which has one column a parameter.

    Parameters
    ----------
    check
        Refuses an unknown parameter or an impossible value.

    Raises
    ------
    InputError
        The file is missing, empty or ragged, or `check` refuses something.
    """
    if sampling.file is None:
        raise place.at("file").error('is missing; method = "list" reads file = "designs.csv", one column a parameter')
    path = inside(sampling.file, place.at("file"))
    table = read_table_text(path)
    given = table.rows()
    if not given:
        raise InputError(f"{path}: a list has a line of names and at least one design")
    out = []
    for line, row in given:
        for key, text in row.items():
            if table.delimiter != "," and DECIMAL_COMMA.match(text):
                form = text.replace(",", ".")
                raise table.error(line, f"{key} = {text} may be {form} or a list; write {form} or [{text}]")
        out.append({key: read_cell(text) for key, text in row.items()})
        for key, value in out[-1].items():
            check(key, value, Place(path, (f"line {line + 1}", key)))
    return out


def read_cell(text: str) -> Any:
    """Return what a cell or an option says: a number, numbers separated by commas as a list, or the text itself."""
    for form in (text, f"[{text}]"):
        try:
            return json.loads(form)
        except (ValueError, RecursionError):  # RecursionError: thousands of brackets
            continue
    return text
