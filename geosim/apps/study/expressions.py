"""Expressions of measures, in goals, constraints and columns of a study: a grammar that is read before anything is solved.

expression  = term { ("+" | "-") term }
term        = factor { ("*" | "/") factor }
factor      = "-" factor | number | "(" expression ")" | function "(" expression { "," expression } ")" | measure
function    = "max" | "min" | "abs"
measure     = NAME [ "[" command "]" ] [ "@" CASE ]
command     = NUMBER "kPa" | NUMBER "V/V0" | WHOLE    (a pressure, a volume ratio, the number of the command from 1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal

import numpy as np

from geosim.errors import InputError

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NAME = r"[A-Za-z_]\w*"
_TOKEN = re.compile(
    rf"\s*(?:(?P<measure>{_NAME}(?:\s*\[[^\[\]]*\])?(?:\s*@\s*[\w-]*)?)|(?P<number>{_NUMBER})|(?P<sign>[-+*/(),]))"
)
_MEASURE = re.compile(rf"(?P<name>{_NAME})(?:\s*\[(?P<command>[^\[\]]*)\])?(?:\s*@\s*(?P<case>[\w-]*))?")
_COMMAND = re.compile(rf"\s*(?P<value>{_NUMBER}|-{_NUMBER})\s*(?P<unit>kPa|V/V0)?\s*")
Value = Callable[[Mapping[str, Any]], Any]  # of an expression, by its measures
# What is applied to values: of two and of one, in the order of their signs; functions, by name.
BINARY: Mapping[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "max": lambda *values: reduce(np.maximum, values),
    "min": lambda *values: reduce(np.minimum, values),
    "abs": np.abs,
}


def _applied(of: Callable[..., Any], *parts: Value) -> Value:
    return lambda measures: of(*(part(measures) for part in parts))


@dataclass(frozen=True)
class MeasuredColumn:
    """A measure of a case at a command.

    Parameters
    ----------
    name
        Of the measure.
    case
        Name of the case; "" for the study's own.
    command
        Number of the command from 1, its pressure [kPa] or its volume ratio; None for the last.
    unit
        Which of them: "", "kPa" or "V/V0".
    """

    name: str
    case: str = ""
    command: float | None = None
    unit: Literal["", "kPa", "V/V0"] = ""

    def __str__(self) -> str:
        """As it is written, and called in tables."""
        return f"{self.name}{'' if self.command is None else f'[{self.command:g}{self.unit}]'}" + (
            f"@{self.case}" if self.case else ""
        )


@dataclass(frozen=True)
class Expression:
    """What is computed of measures.

    Parameters
    ----------
    text
        As it was written, spaces apart.
    columns
        The measures that it speaks of.
    value
        Their values by their text -> its own.
    """

    text: str
    columns: tuple[MeasuredColumn, ...]
    value: Value = field(compare=False, repr=False)

    @property
    def constant(self) -> bool:
        """Whether it speaks of no measure."""
        return not self.columns

    def __call__(self, measures: Mapping[str, Any]) -> Any:
        """Return its value of measures by their text, numbers or arrays; nan where one is missing or nothing comes of it."""
        with np.errstate(all="ignore"):
            value = self.value(measures)
        return np.where(np.isfinite(value), value, np.nan)[()]


def read_expression(text: str) -> Expression:
    """Return the expression that a text is.

    Raises
    ------
    InputError
        It is none; the message says where.
    """
    max_letters = 500  # of an expression: more is no question that somebody asks
    if len(text) > max_letters:
        raise InputError(f"an expression of {len(text)} letters is too long; at most {max_letters} are read")
    return _Reader(text).read()


class _Reader:
    """Reads one expression by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.depth = text, self._tokens(text), 0, 0
        self.columns: dict[str, MeasuredColumn] = {}

    @staticmethod
    def _tokens(text: str) -> list[tuple[str, str]]:
        found, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise InputError(
                    f"{text[at:].strip()[:20]!r} is not understood; expressions have + - * / max min abs ( )"
                )
            kind = str(match.lastgroup)
            found.append((kind, match[kind].strip()))
            at = match.end()
        return found

    def read(self) -> Expression:
        """Read all of it."""
        if not self.tokens:
            raise InputError("an expression is empty; write a measure like bend_angle_deg")
        value = self._sum()
        if self.at < len(self.tokens):
            raise InputError(f"{self._next[1]!r} does not follow there")
        # a measure alone is called as tables call it
        text = next(iter(self.columns)) if len(self.tokens) == 1 and self.columns else self.text
        return Expression(re.sub(r"\s+", " ", text.strip()), tuple(self.columns.values()), value)

    @property
    def _next(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def _taken(self, *signs: str) -> str:
        kind, text = self._next
        if kind == "sign" and text in signs:
            self.at += 1
            return text
        return ""

    def _sum(self) -> Value:
        max_depth = 30  # of an expression: more is no question that somebody asks
        self.depth += 1
        if self.depth > max_depth:
            raise InputError(f"an expression has more than {max_depth} brackets in each other")
        value = self._chain("+-", lambda: self._chain("*/", self._factor))
        self.depth -= 1
        return value

    def _chain(self, signs: str, part: Callable[[], Value]) -> Value:
        value = part()
        while sign := self._taken(*signs):
            value = _applied(BINARY[sign], value, part())
        return value

    def _factor(self) -> Value:
        minus = 0
        while self._taken("-"):
            minus += 1
        if minus % 2:
            return _applied(np.negative, self._factor())
        kind, text = self._next
        self.at += 1
        if kind == "number":
            return lambda measures: float(text)
        if kind == "sign" and text == "(":
            value = self._sum()
            self._close()
            return value
        if kind == "measure":
            return self._function(text) if text in FUNCTIONS else self._measure(text)
        where = f"before {text!r}" if text else "at the end"
        raise InputError(f"a number or a measure is missing {where}")

    def _close(self) -> None:
        if not self._taken(")"):
            raise InputError("a bracket is not closed")

    def _function(self, name: str) -> Value:
        if not self._taken("("):
            raise InputError(f"{name} is a function: write {name}(...)")
        given = [self._sum()]
        while self._taken(","):
            given.append(self._sum())
        self._close()
        if (len(given) == 1) != (name == "abs"):
            wanted = "one argument" if name == "abs" else "two arguments or more"
            raise InputError(f"{name} takes {wanted}, {len(given)} given")
        return _applied(FUNCTIONS[name], *given)

    def _measure(self, text: str) -> Value:
        found = _MEASURE.fullmatch(text)
        assert found is not None
        if found["case"] == "":
            raise InputError(f"{text!r}: the name of a case is missing after @")
        value, unit = None, ""
        if found["command"] is not None:
            command = _COMMAND.fullmatch(found["command"])
            if command is None or (not command["unit"] and not _is_count(command["value"])):
                raise InputError(
                    f"{text!r}: [{found['command'].strip()}] is no command; write [10kPa], [1.2V/V0] or its number, [2]"
                )
            value, unit = float(command["value"]), command["unit"] or ""
        column = MeasuredColumn(found["name"], found["case"] or "", value, unit)  # type: ignore[arg-type]
        self.columns[name := str(column)] = column
        return lambda measures: np.nan if measures.get(name) is None else measures[name]


def _is_count(text: str) -> bool:
    return float(text) == int(float(text)) and float(text) >= 1
