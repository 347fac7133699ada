"""Expressions of measures, in goals, constraints and columns of a study: a grammar that is read before anything is solved.

expression  = term { ("+" | "-") term }
term        = factor { ("*" | "/") factor }
factor      = "-" factor | number | "(" expression ")" | function "(" expression { "," expression } ")" | measure
function    = "max" | "min" | "abs"
measure     = NAME [ "[" command "]" ] [ "@" CASE ]
command     = NUMBER "kPa" | NUMBER "V/V0" | WHOLE    (a pressure, a volume ratio, the number of the command from 1)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
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
KNOWN = "expressions have + - * / max min abs ( )"
Value = Callable[[Mapping[str, Any]], Any]  # of an expression, by its measures
# What is applied to values: of two and of one, by Python's operators; functions, by name.
BINARY: Mapping[type[ast.operator], Callable[..., Any]] = {
    **{ast.Add: np.add, ast.Sub: np.subtract},
    **{ast.Mult: np.multiply, ast.Div: np.divide},
}
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

    Numbers and measures are read here. How they are joined is Python's grammar of + - * / and calls, which its parser reads.

    Raises
    ------
    InputError
        It is none; the message says where.
    """
    max_letters = 500  # of an expression: more is no question that somebody asks
    if len(text) > max_letters:
        raise InputError(f"an expression of {len(text)} letters is too long; at most {max_letters} are read")
    tokens = _tokens(text)
    if not tokens:
        raise InputError("an expression is empty; write a measure like bend_angle_deg")
    columns = {word: _column(word) for kind, word in tokens if kind == "measure" and word not in FUNCTIONS}
    operands = {f"_{i}": _operand(word, columns) for i, (kind, word) in enumerate(tokens) if kind != "sign"}
    tree = _tree([word for _, word in tokens], operands)
    spoken = tuple(dict.fromkeys(columns.values()))
    # a measure alone is called as tables call it
    said = str(spoken[0]) if len(tokens) == 1 and spoken else text
    return Expression(re.sub(r"\s+", " ", said.strip()), spoken, _value(tree, operands))


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return kind and text of every token."""
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise InputError(f"{text[at:].strip()[:20]!r} is not understood; {KNOWN}")
        kind = str(match.lastgroup)
        found.append((kind, match[kind].strip()))
        at = match.end()
    return found


def _tree(words: Sequence[str], operands: Mapping[str, Value]) -> ast.expr:
    """Return how tokens are joined, operands as names."""
    names = [f"_{i}" if f"_{i}" in operands and word not in FUNCTIONS else word for i, word in enumerate(words)]
    try:
        return ast.parse(" ".join(names), mode="eval").body
    except SyntaxError as error:
        stopped = max(error.offset or 0, (error.end_offset or 0) - 1)  # column from 1; 0 at the end
        at = " ".join(names)[: stopped - 1].count(" ") if stopped else len(names)
        raise InputError(_misplaced(words, at, "never closed" in error.msg)) from None


def _misplaced(words: Sequence[str], at: int, is_open: bool) -> str:
    """Say why the parser stopped at a token, or that a bracket `is_open`."""
    if is_open:
        return "a bracket is not closed"
    if at == len(words):
        return "a number or a measure is missing at the end"
    if at and words[at - 1] not in "+-*/(,":
        return f"{words[at]!r} does not follow there"
    return f"a number or a measure is missing before {words[at]!r}"


def _value(node: ast.expr, operands: Mapping[str, Value]) -> Value:
    """Return the value of a tree; operands by their names in it."""
    match node:
        case ast.Name(name) if name in FUNCTIONS:
            raise InputError(f"{name} is a function: write {name}(...)")
        case ast.Name(name):
            return operands[name]
        case ast.UnaryOp(ast.USub(), ast.UnaryOp(ast.USub(), twice)):
            return _value(twice, operands)
        case ast.UnaryOp(ast.USub(), negated):
            return _applied(np.negative, _value(negated, operands))
        case ast.BinOp(left, sign, right) if type(sign) in BINARY:
            return _applied(BINARY[type(sign)], _value(left, operands), _value(right, operands))
        case ast.Call(ast.Name(name), given, []) if name in FUNCTIONS:
            return _called(name, [_value(one, operands) for one in given])
    raise InputError(f"it is not understood; {KNOWN}")


def _called(name: str, given: Sequence[Value]) -> Value:
    """Return the value of a function; refuse too many or too few arguments."""
    if (len(given) == 1) != (name == "abs"):
        wanted = "one argument" if name == "abs" else "two arguments or more"
        raise InputError(f"{name} takes {wanted}, {len(given)} given")
    return _applied(FUNCTIONS[name], *given)


def _operand(word: str, columns: Mapping[str, MeasuredColumn]) -> Value:
    """Return the value of a number or a measure."""
    if word not in columns:
        return lambda measures: float(word)
    name = str(columns[word])
    return lambda measures: np.nan if measures.get(name) is None else measures[name]


def _column(text: str) -> MeasuredColumn:
    """Return the measure that a token names."""
    found = _MEASURE.fullmatch(text)
    assert found is not None
    if found["case"] == "":
        raise InputError(f"{text!r}: the name of a case is missing after @")
    if found["command"] is None:
        return MeasuredColumn(found["name"], found["case"] or "")
    command = _COMMAND.fullmatch(found["command"])
    if command is None or (not command["unit"] and not _is_count(command["value"])):
        raise InputError(
            f"{text!r}: [{found['command'].strip()}] is no command; write [10kPa], [1.2V/V0] or its number, [2]"
        )
    unit: Any = command["unit"] or ""
    return MeasuredColumn(found["name"], found["case"] or "", float(command["value"]), unit)


def _is_count(text: str) -> bool:
    return float(text) == int(float(text)) and float(text) >= 1
