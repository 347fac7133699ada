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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from geosim.errors import InputError

__all__ = ["Expression", "MeasuredColumn", "read_expression"]

MAX_LETTERS, MAX_DEPTH = 500, 30  # of an expression: more is no question that somebody asks
_NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NAME = r"[A-Za-z_]\w*"
_TOKEN = re.compile(
    rf"\s*(?:(?P<measure>{_NAME}(?:\s*\[[^\[\]]*\])?(?:\s*@\s*[\w-]*)?)|(?P<number>{_NUMBER})|(?P<sign>[-+*/(),]))"
)
_MEASURE = re.compile(rf"(?P<name>{_NAME})(?:\s*\[(?P<command>[^\[\]]*)\])?(?:\s*@\s*(?P<case>[\w-]*))?")
_COMMAND = re.compile(rf"\s*(?P<value>{_NUMBER}|-{_NUMBER})\s*(?P<unit>kPa|V/V0)?\s*")
FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = {  # function, and how many arguments it needs at least
    "max": (lambda *values: _folded(np.maximum, values), 2),
    "min": (lambda *values: _folded(np.minimum, values), 2),
    "abs": (np.abs, 1),
}


def _folded(fold: Callable[[Any, Any], Any], values: tuple[Any, ...]) -> Any:
    out = values[0]
    for value in values[1:]:
        out = fold(out, value)
    return out


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
    steps
        In the order of a stack machine: a number, a measure's text, or an operation with its number of arguments.
    """

    text: str
    columns: tuple[MeasuredColumn, ...]
    steps: tuple[float | str | tuple[str, int], ...]

    @property
    def plain(self) -> bool:
        """Whether it is one measure."""
        return len(self.steps) == 1 and len(self.columns) == 1

    @property
    def constant(self) -> bool:
        """Whether it speaks of no measure."""
        return not self.columns

    def __call__(self, measures: Mapping[str, Any]) -> Any:
        """Return its value of measures by their text, numbers or arrays; nan where one is missing or nothing comes of it."""
        stack: list[Any] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                if isinstance(step, str):
                    value = measures.get(step)
                    stack.append(np.nan if value is None else value)
                elif isinstance(step, tuple):
                    name, count = step
                    given = stack[-count:]
                    del stack[-count:]
                    stack.append(_operation(name, given))
                else:
                    stack.append(step)
        (value,) = stack
        return np.where(np.isfinite(value), value, np.nan)[()]


def _operation(name: str, given: list[Any]) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name][0](*given)
    if name == "neg":
        return np.negative(given[0])
    a, b = given
    return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[name](a, b)


def read_expression(text: str) -> Expression:
    """Return the expression that a text is.

    Raises
    ------
    InputError
        It is none; the message says where.
    """
    if len(text) > MAX_LETTERS:
        raise InputError(f"an expression of {len(text)} letters is too long; at most {MAX_LETTERS} are read")
    return _Reader(text).read()


class _Reader:
    """Reads one expression by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.depth = text, self._tokens(text), 0, 0
        self.steps: list[float | str | tuple[str, int]] = []
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
        self._sum()
        if self.at < len(self.tokens):
            raise InputError(f"{self._next[1]!r} does not follow there")
        text = re.sub(r"\s+", " ", self.text.strip())
        if len(self.steps) == 1 and self.columns:
            text = next(iter(self.columns))
        return Expression(text, tuple(self.columns.values()), tuple(self.steps))

    @property
    def _next(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def _taken(self, *signs: str) -> str:
        kind, text = self._next
        if kind == "sign" and text in signs:
            self.at += 1
            return text
        return ""

    def _sum(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise InputError(f"an expression has more than {MAX_DEPTH} brackets in each other")
        self._product()
        while sign := self._taken("+", "-"):
            self._product()
            self.steps.append((sign, 2))
        self.depth -= 1

    def _product(self) -> None:
        self._factor()
        while sign := self._taken("*", "/"):
            self._factor()
            self.steps.append((sign, 2))

    def _factor(self) -> None:
        minus = 0
        while self._taken("-"):
            minus += 1
        kind, text = self._next
        self.at += 1
        if kind == "number":
            self.steps.append(float(text))
        elif kind == "sign" and text == "(":
            self._sum()
            self._close()
        elif kind == "measure" and text in FUNCTIONS:
            self._function(text)
        elif kind == "measure":
            self._measure(text)
        else:
            where = f"before {text!r}" if text else "at the end"
            raise InputError(f"a number or a measure is missing {where}")
        if minus % 2:
            self.steps.append(("neg", 1))

    def _close(self) -> None:
        if not self._taken(")"):
            raise InputError("a bracket is not closed")

    def _function(self, name: str) -> None:
        if not self._taken("("):
            raise InputError(f"{name} is a function: write {name}(...)")
        count = 1
        self._sum()
        while self._taken(","):
            self._sum()
            count += 1
        self._close()
        least = FUNCTIONS[name][1]
        if count < least or (name == "abs" and count > 1):
            raise InputError(f"{name} takes {'one argument' if least == 1 else 'two arguments or more'}, {count} given")
        self.steps.append((name, count))

    def _measure(self, text: str) -> None:
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
        self.columns[str(column)] = column
        self.steps.append(str(column))


def _is_count(text: str) -> bool:
    return float(text) == int(float(text)) and float(text) >= 1
