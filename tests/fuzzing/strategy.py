"""Strategies of nonsense: values, damage of texts and bytes, of archives by their arrays, of TOML files by their schemas."""

from __future__ import annotations

import datetime
import io
import json
import tomllib
import types
import typing
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import trimesh
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import BaseModel

import geosim

Damage = Callable[[bytes], bytes]

# Values that no argument expects, or not here.
NONSENSE: tuple[Any, ...] = (
    *(None, "", "x", "\0", "é" * 1000, b"x", 1j, True, {}, object(), int, "/dev/zero", "/dev/null", ".."),
    *(float("nan"), float("inf"), -float("inf"), -1, 0, 1e308, 5e-324, 10**400, 2**63, -(2**63) - 1, 10**8),
    *(
        [],
        [[]],
        [1, [2]],
        [None],
        ["a"],
        [[1, 2], [3]],
        [float("nan")] * 3,
        [10**400],
        [2**63],
        [[[]]],
        [2**63 - 1, -1],
    ),
    *(np.array([]), np.zeros((0, 3)), np.zeros((2, 2)), np.zeros((3, 3, 3)), np.array(["2020-01-01"], dtype="M8[D]")),
    *(np.array([1j]), np.array(None), np.array([object()]), np.full(3, 2**63, dtype=np.uint64), np.arange(8.0)),
    *(b"\xff", bytearray(b"x"), range(3), (1, 2), {1, 2}, {"a": 1}, [{}], [[object()]], slice(None), Path("/")),
    *(Path("x.npz"), len, lambda: None, ValueError("x"), ..., Fraction(1, 3), Decimal("1"), datetime.date(2020, 1, 1)),
    *(np.float32(1.0), np.str_("x"), np.datetime64("2020-01-01"), np.ma.masked, np.array("x"), np.zeros((1, 1, 1, 3))),
    *(
        geosim.Passive(),
        geosim.Environment(),
        geosim.NeoHookean(2e4),
        geosim.EnergyShapeSolver(),
        geosim.EnergyShapeSolver,
    ),
    *(geosim.Status.CONVERGED, trimesh.Trimesh(), iter([1.0]), float("1e-320"), -0.0, 1e-300, [1e308] * 3),
    *([-1e308, 1e308, 1e308], True, [True, False, True], "1", [["1"]], "[" * 5000, "9" * 6000, "\ud7ff"),
)
WORDS = (
    "-1",
    "0",
    "1e308",
    "nan",
    "inf",
    "-inf",
    '"x"',
    "true",
    "[]",
    "[[]]",
    "{}",
    "9" * 6000,
    "1e-300",
    "[1, [2]]",
    "1",
)
WORDS += (
    "9223372036854775808",
    "1,5",
    "1.000,5",
    "0x10",
    "1_0",
    "1e",
    "NULL",
    "[" * 5000,
    "=SUM(A1)",
    "2020-01-01",
    "-",
)
PIECES = (
    "",
    '""',
    "\0",
    "\ud7ff",
    "..",
    "/dev/zero",
    "a" * 5000,
    "[" * 500,
    "é",
    "\t",
    "'",
    "=",
    "#",
    ";",
    ",",
    "\r",
    "\n",
    '"',
)

places = st.floats(0.0, 1.0, exclude_max=True)  # a share of the way through something


def _one_text(text: str, kind: str, share: float, word: str) -> str:
    """Return a text with one change, at a share of its lines."""
    lines = text.split("\n")
    i = int(share * len(lines))
    if kind == "value" and "=" in lines[i]:
        lines[i] = lines[i].split("=")[0] + "= " + word
    elif kind == "twice":
        lines.insert(i, lines[i])
    elif kind == "gone":
        del lines[i]
    elif kind == "cut":
        lines[i:] = [lines[i][: len(lines[i]) // 2]]
    elif kind == "into":
        at = int(share * 7919) % (len(lines[i]) + 1)
        lines[i] = lines[i][:at] + word + lines[i][at:]
    else:
        sign = next((d for d in ("\t", ";", ",") if d in lines[i]), " ")
        words = lines[i].split(sign)
        words[int(share * 7919) % len(words)] = word
        lines[i] = sign.join(words)
    return "\n".join(lines)


def _text_damage(changes: list[tuple[str, float, str]]) -> Damage:
    def damage(data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        for change in changes:
            text = _one_text(text, *change)
        return text.encode("utf-8", "surrogatepass") if "\ud7ff" in text else text.encode("utf-8", "surrogateescape")

    return damage


def _bytes_damage(changes: list[tuple[str, float, bytes]]) -> Damage:
    def damage(data: bytes) -> bytes:
        out = bytearray(data)
        for kind, share, piece in changes:
            at = int(share * max(len(out), 1))
            if kind == "other":
                out[at : at + len(piece)] = piece
            elif kind == "more":
                out[at:at] = piece
            elif kind == "gone":
                del out[at : at + 1 + 3 * len(piece)]
            elif kind == "twice":
                out[at:at] = out[at : at + 50]
            else:
                del out[at:]
        return bytes(out)

    return damage


_pieces = st.binary(min_size=1, max_size=9) | st.sampled_from(
    [b"nan ", b"\xff\xff\xff\xff", b"\0\0\0\0", b"1e99", b"-1 -"]
)
bytes_damage = st.lists(
    st.tuples(st.sampled_from(["other", "other", "more", "gone", "twice", "cut"]), places, _pieces),
    min_size=1,
    max_size=6,
).map(_bytes_damage)
words = st.sampled_from(WORDS + PIECES) | st.floats().map(str) | st.integers().map(str)
text_damage = st.lists(
    st.tuples(st.sampled_from(["value", "twice", "gone", "cut", "into", "cell", "cell"]), places, words),
    min_size=1,
    max_size=3,
).map(_text_damage)
any_damage = text_damage | bytes_damage
recoded = st.sampled_from(["utf-16", "utf-16-le", "utf-32", "latin-1", "cp437", "utf-8-sig"]).map(
    lambda code: lambda data: data.decode("utf-8", "replace").encode(code, "replace")
)


# --- values and tables by the schemas of files


plain = st.sampled_from(
    [
        -1,
        0,
        1,
        2**63,
        10**30,
        1e308,
        5e-324,
        float("nan"),
        float("inf"),
        "",
        "x",
        "a" * 3000,
        True,
        [],
        [[]],
        {},
        {"a": 1},
    ]
    + [
        [1.0, 2.0],
        [0, 0, 1],
        [[0, 0, 0], [1, 1, 1]],
        ["x"],
        [True, False, True],
        datetime.date(2020, 1, 1),
        "../x",
        "/dev/zero",
    ]
)


def values_of(kind: Any) -> SearchStrategy[Any]:
    """Return a strategy of values of the type of a field; now and then of another."""
    return st.one_of(_values(kind), _values(kind), plain)


def _values(kind: Any) -> SearchStrategy[Any]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    simple = {
        bool: st.booleans(), int: st.integers(-2, 20) | st.integers(), str: st.text(max_size=8),
        float: st.floats(-100, 100) | st.floats() | st.integers(-9, 99),
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return tables_of(kind)
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_values(one) for one in inner if one is not types.NoneType])
    if origin is typing.Annotated:
        return _values(inner[0])
    if origin in (list, tuple) and inner:
        return st.lists(_values(inner[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(st.text(min_size=1, max_size=5), _values(inner[1]), max_size=3)
    return plain


@st.composite
def tables_of(draw: Any, model: type[BaseModel]) -> dict[str, Any]:
    """Return a strategy of tables with some of the keys of a schema."""
    fields = list(model.model_fields.items())
    chosen = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique_by=lambda field: field[0]))
    return {field.alias or name: draw(values_of(field.annotation)) for name, field in chosen}


def merged(table: Any, change: Any) -> Any:
    """Return a table with the keys of another put in, level by level."""
    if not (isinstance(table, dict) and isinstance(change, dict)):
        return change
    return {**table, **{key: merged(table.get(key), value) for key, value in change.items()}}


def table_damage(*models: type[BaseModel]) -> SearchStrategy[Damage]:
    """Return a strategy of changes of a TOML file by its schemas."""

    def changed(change: dict[str, Any]) -> Damage:
        return lambda data: dumped(merged(tomllib.loads(data.decode()), change))

    return st.one_of([tables_of(model) for model in models]).map(changed) | any_damage


def dumped(table: dict[str, Any]) -> bytes:
    """Return a table as TOML; what TOML has no word for stands as a text."""
    try:
        return tomli_w.dumps(table).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return tomli_w.dumps(json.loads(json.dumps(table, default=str))).encode("utf-8", "surrogatepass")


# --- archives


def unpacked(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive."""
    with np.load(io.BytesIO(data)) as archive:
        return {name: archive[name] for name in archive.files}


def _one_array(array: np.ndarray, kind: str, share: float, value: float) -> np.ndarray | None:
    out = np.array(array)
    if kind == "gone":
        return None
    if kind == "kind":
        return out.astype([np.complex128, np.float16, "U9", "M8[s]"][int(4 * share)])
    if kind == "shape":
        return [out[..., None], out[:0], out.reshape(-1), np.concatenate([out.reshape(-1)] * 2)][int(4 * share)]
    if kind == "scale" or not out.size:
        return out * value
    out = out.astype(float) if not np.isfinite(value) else out
    out.reshape(-1)[int(share * out.size)] = np.clip(value, -(2.0**60), 2.0**60) if out.dtype.kind in "iu" else value
    return out


def _archive_damage(changes: list[tuple[float, str, float, float]], sealed: bool) -> Damage:
    def damage(data: bytes) -> bytes:
        arrays = unpacked(data)
        names = [
            name for name in arrays if name not in ("header", "about", "digest") and arrays[name].dtype.kind in "biuf"
        ]
        for which, kind, share, value in changes:
            name = names[int(which * len(names))]
            if name in arrays:
                with np.errstate(all="ignore"):
                    array = _one_array(np.atleast_1d(arrays[name]), kind, share, value)
                if array is None:
                    del arrays[name]
                else:
                    arrays[name] = array
        if not sealed:
            del arrays["digest"]
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()

    return damage


def _header_damage(change: tuple[str, float, str], sealed: bool) -> Damage:
    def damage(data: bytes) -> bytes:
        arrays = unpacked(data)
        name = "header" if "header" in arrays else "about"
        text = str(arrays[name]).replace(", ", ",\n")
        arrays[name] = np.array(_one_text(text, *change).replace("\0", ""))
        if not sealed:
            del arrays["digest"]
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()

    return damage


wild = st.sampled_from([0.0, -1.0, 1e6, 1e300, float("nan"), float("inf"), 0.5, 7.0, 100.0]) | st.floats(-1e3, 1e3)
archive_damage = st.one_of(
    st.builds(
        _archive_damage,
        st.lists(
            st.tuples(places, st.sampled_from(["value", "value", "scale", "gone", "kind", "shape"]), places, wild),
            min_size=1, max_size=2,
        ),
        st.booleans(),
    ),
    st.builds(_header_damage, st.tuples(st.sampled_from(["cell", "into", "gone", "twice"]), places, words), st.booleans()),
    bytes_damage,
)  # fmt: skip


def zipped_damage(member: str) -> SearchStrategy[Damage]:
    """Return a strategy of changes of a file in a zip archive, whose check sums then fit."""

    def inside(damage: Damage) -> Damage:
        def changed(data: bytes) -> bytes:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for name, part in parts.items():
                    tagged = part.replace(b"><", b">\n<")  # a line a tag, as damage of texts needs it
                    archive.writestr(name, damage(tagged) if name == member else part)
            return stream.getvalue()

        return changed

    return any_damage.map(inside)
