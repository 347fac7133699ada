"""One line for whatever is wrong with a file: its place, the value found, and the value to write instead."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from geosim.arguments import suggestion
from geosim.arrays import METRES_PER_UNIT, shown
from geosim.errors import InputError


@dataclass(frozen=True)
class Place:
    """A key in a file, for messages."""

    path: Path
    keys: tuple[str | int, ...] = ()

    def at(self, *keys: str | int) -> Place:
        """Return the place below this one."""
        return Place(self.path, (*self.keys, *keys))

    @property
    def text(self) -> str:
        """The key as messages write it: [body] max_edge, [[chambers]] 2 surface."""
        words: list[str] = []
        for i, key in enumerate(self.keys):
            following = self.keys[i + 1] if i + 1 < len(self.keys) else None
            if isinstance(key, int):
                words.append(str(key + 1))
            elif i == 0 and isinstance(following, int):
                words.append(f"[[{key}]]")
            elif i == 0 and following is not None:
                words.append(f"[{key}]")
            else:
                words.append(key)
        return " ".join(words)

    def error(self, problem: str) -> InputError:
        """Return the error that says what is wrong here."""
        if not self.keys:
            return InputError(f"{self.path}: {problem}")
        whole = len(self.keys) == 1 and not problem.startswith("=")
        return InputError(f"{self.path}: {f'[{self.text}]' if whole else self.text} {problem}")

    @contextmanager
    def naming(self, *keys: str | int) -> Iterator[None]:
        """Put the file and the key in front of every `InputError` raised inside, unless they are there."""
        try:
            yield
        except InputError as error:
            if str(error).startswith(f"{self.path}:"):
                raise
            place = self.at(*keys)
            where = f"{place.path}: {place.text}" if place.keys else f"{place.path}"
            raise type(error)(f"{where}: {error}") from None


_NUMBER_TEXT = r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_VALUE = rf"(?:{_NUMBER_TEXT}|\[[-+.ena\d, ]*\]|\([-+.e\d, ]*\))"
_QUANTITY = re.compile(rf"({_VALUE}(?:(?:, | \.\. ){_VALUE})*) (m|mm|Pa)\b(?![/^])|\[(m|Pa)\] = ({_VALUE})")


def in_unit(text: str, unit: str) -> str:
    """Return a message with its lengths, or pressures, in the unit of a file: the library says them in m or mm, and in Pa."""
    sizes = METRES_PER_UNIT if unit in METRES_PER_UNIT else {"Pa": 1.0, "kPa": 1e3}

    def converted(found: re.Match[str]) -> str:
        size = sizes.get(found[2] or found[3])
        if size is None:
            return found[0]
        factor = size / sizes[unit]
        values = re.sub(_NUMBER_TEXT, lambda number: f"{float(number[0]) * factor:.6g}", found[1] or found[4])
        return f"{values} {unit}" if found[2] else f"[{unit}] = {values}"

    return _QUANTITY.sub(converted, text)


@contextmanager
def saying(unit: str) -> Iterator[None]:
    """Say what an `InputError` raised inside says in a unit of length, or in kPa."""
    try:
        yield
    except InputError as error:
        raise type(error)(in_unit(str(error), unit)) from None


_WANTED = {
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "string_type": "must be a string in quotes",
    "bool_type": "must be true or false",
    "list_type": "must be a list [...]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "finite_number": "must be finite",
}


def first_error(error: ValidationError, model: type[BaseModel] | None, place: Place | None) -> str:
    """Say the first thing that a validation found, in one line.

    Parameters
    ----------
    error
        What pydantic raised.
    model, place
        The model and where its table stands; None gives the requirement alone.
    """
    first = error.errors(include_url=False)[0]
    kind, value = first["type"], first.get("input")
    keys = tuple(k for k in first["loc"] if not (isinstance(k, str) and k.endswith("]")))
    wanted = _literal(value, first["ctx"]["expected"]) if kind == "literal_error" else _WANTED.get(kind, first["msg"])
    if place is None or model is None:
        return wanted
    spot = place.at(*keys)
    fields = _fields_at(model, keys[:-1])
    if kind in _WANTED:
        wanted += _example(fields, str(keys[-1]) if keys else "")
    if kind == "extra_forbidden":
        hint = suggestion(str(keys[-1]), fields)
        head = "" if len(spot.keys) == 1 else "; a key of the whole file belongs before its first [table]"
        return f"{place.path}: {spot.text} is an unknown key{hint}; known here: {', '.join(fields)}{head}"
    if kind in ("missing", "foreign_key"):
        said = f"is missing{_example(fields, str(keys[-1]))}" if kind == "missing" else first["msg"]
        return f"{place.path}: {spot.text} {said}"
    return f"{place.path}: {spot.text} = {shown(value)} {wanted}"


def _example(fields: Mapping[str, FieldInfo], key: str) -> str:
    """Say what a key may be: the words that are known, or where its table says one an example."""
    if key not in fields:
        return ""
    words = [word for word in typing.get_args(fields[key].annotation) if isinstance(word, str)]
    examples = fields[key].examples
    return f"; use one of {', '.join(words)}" if words else f", for example {key} = {examples[0]}" if examples else ""


def _literal(value: object, expected: str) -> str:
    """Say which words are known, 'a', 'b' or 'c', and the one nearest to a value."""
    words = expected.replace("'", "").replace(" or ", ", ").split(", ")
    return f"must be {expected}{suggestion(value, words) if isinstance(value, str) else ''}"


def _fields_at(model: Any, keys: tuple[str | int, ...]) -> dict[str, FieldInfo]:
    """Fields of the table that `keys` lead to, by their names."""
    for key in keys:
        if isinstance(key, str):
            model = getattr(model.model_fields.get(key), "annotation", None)  # a branch of a union is no field
        while not (isinstance(model, type) and issubclass(model, BaseModel)):
            inner = [a for a in typing.get_args(model) if a is not types.NoneType]
            if not inner:
                return {}
            model = inner[0]
    return dict(model.model_fields)
