"""Goals and constraints of a study: sentences about expressions of measures, and what they say of a design."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from geosim.apps.study.expressions import Expression, MeasuredColumn, read_expression
from geosim.arrays import Bools, Floats, frozen
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.files.values import inside
from geosim.tables import read_table_text

LEAST_DRAWS = 20  # of a share: fewer tell 95 % no better than the worst of them


@dataclass(frozen=True)
class RobotDraws:
    """What robots do over what their designs do, and the share of robots that a goal counts for.

    Parameters
    ----------
    ratios
        Measure -> its value over that of the design, a draw each, (d,).
    share
        Of the draws.
    """

    ratios: Mapping[str, Floats]
    share: float

    def __str__(self) -> str:
        """As goals say it; the number tells other draws."""
        told = zlib.crc32(b"".join(name.encode() + values.tobytes() for name, values in self.ratios.items()))
        return f" by {100 * self.share:g} % of the draws {told:08x}"

    def reached(self, cost: Callable[[Mapping[str, Any]], Any], of: Sequence[MeasuredColumn], measures: Any) -> Any:
        """Return the cost that the share of the robots does not exceed; nan where a measure is missing."""
        drawn = {str(c): np.asarray(measures.get(str(c), np.nan))[..., None] * self.ratios.get(c.name, 1.0) for c in of}
        found = np.asarray(cost({**{k: np.asarray(v)[..., None] for k, v in measures.items()}, **drawn}))
        count = len(next(iter(self.ratios.values())))
        return np.quantile(np.broadcast_to(found, (*found.shape[:-1], count)), self.share, axis=-1)


@dataclass(frozen=True)
class DesignGoal:
    """maximize EXPRESSION, minimize EXPRESSION, or target EXPRESSION VALUE; with draws, what a share of them reaches."""

    kind: Literal["maximize", "minimize", "target"]
    of: Expression
    value: float = np.nan
    draws: RobotDraws | None = None

    def __str__(self) -> str:
        """As studies say it."""
        return f"{self.kind} {self.of.text}{f' {self.value:g}' if self.kind == 'target' else ''}{self.draws or ''}"

    def cost(self, measures: Mapping[str, Any]) -> Any:
        """Return what is to be small: the measure, its negative, or its distance from the target; nan where it is missing."""
        return self._cost(measures) if self.draws is None else self.draws.reached(self._cost, self.of.columns, measures)

    def _cost(self, measures: Mapping[str, Any]) -> Any:
        measure = self.of(measures)
        return {"maximize": -measure, "minimize": measure, "target": abs(measure - self.value)}[self.kind]

    @property
    def met(self) -> float:
        """Cost below which the goal is as good as reached."""
        # A target counts as met within this share of it: silicone differs more between batches, so the next goal
        # decides there.
        target_met = 0.01
        return target_met * abs(self.value) if self.kind == "target" else -np.inf


@dataclass(frozen=True)
class Constraint:
    """EXPRESSION <= EXPRESSION, or >=; with draws, a share of them keeps to it."""

    of: Expression
    relation: Literal["<=", ">="]
    limit: Expression
    draws: RobotDraws | None = None

    def __str__(self) -> str:
        """As studies say it."""
        return f"{self.of.text} {self.relation} {self.limit.text}{self.draws or ''}"

    @property
    def columns(self) -> tuple[MeasuredColumn, ...]:
        """The measures that it speaks of."""
        return (*self.of.columns, *self.limit.columns)

    def excess(self, measures: Mapping[str, Any]) -> Any:
        """Return by how much a design violates it, <= 0 where it does not; nan where a measure is missing."""
        return (
            self._excess(measures) if self.draws is None else self.draws.reached(self._excess, self.columns, measures)
        )

    def _excess(self, measures: Mapping[str, Any]) -> Any:
        over = self.of(measures) - self.limit(measures)
        return over if self.relation == "<=" else -over


def read_draws(given: str, share: float, place: Place) -> RobotDraws:
    """Return the draws of a CSV file: a measure a column, a draw a row.

    Raises
    ------
    InputError
        The file is missing or ragged, or a value is no positive number.
    """
    path = inside(given, place)
    table = read_table_text(path)
    rows = table.rows()
    if len(rows) < LEAST_DRAWS:
        raise InputError(
            f"{path}: {len(rows)} draws do not tell a share; give {LEAST_DRAWS} and more (Posterior.ratios)"
        )
    for line, row in rows:
        if not all(_is_number(text) and float(text) > 0.0 for text in row.values()):
            raise table.error(line, f"it must have a positive number under each of {', '.join(row)}")
    draws = {name: frozen(np.array([float(row[name]) for _, row in rows])) for name in rows[0][1]}
    return RobotDraws(draws, share)


def read_goal(text: str, place: Place) -> DesignGoal:
    """Return the goal that a sentence says.

    Raises
    ------
    InputError
        It is none.
    """
    kind, _, rest = text.strip().partition(" ")
    if kind in ("maximize", "minimize") and rest.strip():
        return DesignGoal("maximize" if kind == "maximize" else "minimize", read_about(rest, text, place))
    expression, _, value = rest.strip().rpartition(" ")
    if kind == "target" and _is_number(value) and expression.strip():
        return DesignGoal("target", read_about(expression, text, place), float(value))
    raise place.error(f'= {text!r} is not a goal; write "maximize C", "minimize C" or "target C VALUE"')


def read_constraint(text: str, place: Place) -> Constraint:
    """Return the constraint that a sentence says.

    Raises
    ------
    InputError
        It is none.
    """
    parts = re.split(r"(<=|>=)", text)
    if len(parts) != 3 or not all(part.strip() for part in parts):
        raise place.error(f'= {text!r} is not a constraint; write "max_stretch <= 2.0" or "bend_angle_deg >= 80"')
    left, right = (read_about(part, text, place, constant=True) for part in parts[::2])
    if left.constant and right.constant:
        raise place.error(f"= {text!r} speaks of no measure")
    return Constraint(left, "<=" if parts[1] == "<=" else ">=", right)


def read_about(part: str, text: str, place: Place, *, constant: bool = False) -> Expression:
    """Return an expression that is part of a text; it must speak of a measure unless it may be a constant.

    Raises
    ------
    InputError
        It is none; the message shows the text.
    """
    try:
        found = read_expression(part)
    except InputError as error:
        raise place.error(f"= {text!r}: {error}") from None
    if found.constant and not constant:
        raise place.error(f"= {text!r} speaks of no measure")
    return found


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def spoken_of(goals: Sequence[DesignGoal], constraints: Sequence[Constraint]) -> dict[str, MeasuredColumn]:
    """Return the measures that goals and constraints speak of, by their text."""
    columns = [*(goal.of.columns for goal in goals), *(one.columns for one in constraints)]
    return {str(column): column for some in columns for column in some}


def pareto(costs: Floats, feasible: Bools) -> Bools:
    """Return which designs no feasible one beats: none is as good in all goals and better in one.

    Parameters
    ----------
    costs
        Of every design in every goal, shape (d, g).
    feasible
        Which designs count, (d,).
    """
    out = np.zeros(len(costs), dtype=bool)
    able = costs[feasible]
    out[feasible] = [not ((able <= row).all(axis=1) & (able < row).any(axis=1)).any() for row in able]
    return out


def best(costs: Floats, feasible: Bools, goals: Sequence[DesignGoal]) -> int | None:
    """Return the design that is best in the first goal, among equals in the next; None if none is feasible.

    Targets that are met (`DesignGoal.met`) are equal; where all is equal the nearest to the targets is taken.
    """
    if not feasible.any():
        return None
    able = np.flatnonzero(feasible)
    rank = np.maximum(costs, [goal.met for goal in goals])[able]
    keys = [*costs[able].T[::-1], *rank.T[::-1]]  # lexsort takes the most important last
    return int(able[np.lexsort(keys)[0]])
