"""Validated values: every array, number and choice in a geosim data type passes through here once."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray

from geosim.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
# numpy's own, as arrays of floats: its stubs say Any
einsum: Callable[..., Floats] = np.einsum
norm: Callable[..., Floats] = np.linalg.norm


def det(matrices: Floats) -> Floats:
    """Determinants of matrices (..., 3, 3), (...,): written out, which takes a fifth of what numpy takes to factorise each."""
    a, b, c = (matrices[..., i, :] for i in range(3))
    return np.asarray(
        a[..., 0] * (b[..., 1] * c[..., 2] - b[..., 2] * c[..., 1])
        + a[..., 1] * (b[..., 2] * c[..., 0] - b[..., 0] * c[..., 2])
        + a[..., 2] * (b[..., 0] * c[..., 1] - b[..., 1] * c[..., 0])
    )


def cofactors(matrices: Floats) -> Floats:
    """Cofactors of matrices (..., 3, 3), which are the derivatives of their determinants: products of two rows each."""
    rows = [matrices[..., i, :] for i in range(3)]
    return np.stack([np.cross(rows[i - 2], rows[i - 1]) for i in range(3)], axis=-2)


def axes_along(way: Floats) -> Floats:
    """Right-handed unit axes, columns of (3, 3), the last one along a way (3,)."""
    z = np.asarray(way, float) / np.linalg.norm(way)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def frozen(array: np.ndarray) -> np.ndarray:
    """Return the array, C-contiguous and read-only (a copy unless it owns its memory)."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        if not array.flags.owndata:
            array = array.copy()
        array.flags.writeable = False
    return array


def marked(count: int, ids: Any) -> Bools:
    """Which of this many things are named by ids, bool (count,)."""
    out = np.zeros(count, dtype=bool)
    out[ids] = True
    return out


def between(start: Floats, end: Floats, share: float) -> Floats:
    """Return what lies a share of the way from start to end; all of the way it is the end to the last digit."""
    return (1.0 - share) * start + share * end if share < 1.0 else end


def brief(value: object) -> str:
    """Return the repr of a data type on one line: its fields that are not default nor `repr=False`, large arrays by their shapes.

    To be used as `__repr__ = brief` in the class.
    """
    shown = []
    for f in dataclasses.fields(value):  # type: ignore[arg-type]
        item = getattr(value, f.name)
        plain = item is None or isinstance(item, (bool, int, float, str, tuple, Mapping))
        unset = isinstance(item, np.ndarray) and item.dtype == float and np.isnan(item).all()
        if f.init and f.repr and not unset and not (plain and (item == f.default or item in ((), {}))):
            shown.append(f"{f.name}={_brief(item)}")
    return f"{type(value).__name__}({', '.join(shown)})"


def _brief(item: object) -> str:
    max_shown_numbers = 12  # numbers of an array that `brief` writes out; more are a shape
    if isinstance(item, np.ndarray):
        return _brief(item.tolist()) if item.size <= max_shown_numbers else f"<{item.dtype} {item.shape}>"
    if isinstance(item, float):
        return repr(float(f"{item:.6g}"))
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key!r}: {_brief(part)}" for key, part in item.items()) + "}"
    if isinstance(item, (list, tuple)) and len(item) > max_shown_numbers:
        return f"<{len(item)} x {type(item[0]).__name__}>"
    if isinstance(item, (list, tuple)):
        inside = ", ".join(map(_brief, item))
        return f"[{inside}]" if isinstance(item, list) else f"({inside})"
    return " ".join(repr(item).split())


MIN_DIVISOR = 1e-300  # SI: keeps what may vanish (a length, a speed, all forces of a robot) from dividing by zero
# Of a quantity: values of it that are computed in two ways, by some thousand roundings, differ by less.
ROUNDING_REL = 1e-12
# Units of length that files may be in [m].
METRES_PER_UNIT = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "in": 0.0254}
# Vertex ids of parts that a robot has not.
NO_EDGES, NO_TETS = frozen(np.empty((0, 2), dtype=np.int64)), frozen(np.empty((0, 4), dtype=np.int64))


def floats(
    value: object, name: str, shape: tuple[int | None, ...], *, finite: bool = True, most: float = np.inf
) -> Floats:
    """Return `value` as a read-only float64 array of the given shape (None = any length), no entry of which exceeds `most`.

    Raises
    ------
    InputError
        It is not numbers, has another shape, holds larger ones, or (with `finite`) nan or inf.
    """
    array = real_array(value, name)
    _check_shape(array, name, shape)
    if finite and not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise InputError(f"{name}: entry {where.tolist()} is {array[tuple(where)]}; give finite numbers")
    if most < np.inf and (np.abs(array) > most).any():
        raise InputError(f"{name}: {array[np.abs(array) > most][0]:g} is too large; at most {most:g}")
    return frozen(array)


def real_array(value: object, name: str) -> Floats:
    """Return a copy of `value` as a float64 array of any shape; it may hold nan and inf.

    Raises
    ------
    InputError
        It is not real numbers, rows of different length, or truth values.
    """
    try:
        given = np.array(value)
        if given.dtype.kind in "biufO" and not isinstance(value, (str, bytes)) and not _holds_truth(value):
            return given.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        pass
    raise InputError(f"{name}: {shown(value)} is not an array of numbers")


def _holds_truth(value: object) -> bool:
    """Whether nested lists hold true or false: NumPy would take them for 1 and 0."""
    if isinstance(value, (list, tuple)):
        return any(map(_holds_truth, value))
    return isinstance(value, (bool, np.bool_))


def shown(value: object) -> str:
    """Return a value as messages show it: on one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of thousands of digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else f"{text[:57]}..."


def ints(value: object, name: str, shape: tuple[int | None, ...], *, below: int | None = None) -> Ints:
    """Return `value` as a read-only int64 array of ids in [0, below).

    Raises
    ------
    InputError
        It is not whole numbers, has another shape, or holds an id outside the range.
    """
    try:
        given = np.array(value)
    except ValueError:
        raise InputError(f"{name}: {shown(value)} is not an array of whole numbers") from None
    if given.size == 0 and None in shape:
        given = np.empty([0 if s is None else s for s in shape], dtype=np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(f"{name}: whole numbers needed, {given.dtype} given")
    array = given.astype(np.int64)
    _check_shape(array, name, shape)
    if array.size and (array.min() < 0 or (below is not None and array.max() >= below)):
        bad = array.min() if array.min() < 0 else array.max()
        raise InputError(f"{name}: id {bad} is outside 0 .. {below - 1 if below is not None else 'the last id'}")
    return frozen(array)


def _check_shape(array: np.ndarray, name: str, shape: tuple[int | None, ...]) -> None:
    if array.ndim != len(shape) or any(want is not None and want != got for want, got in zip(shape, array.shape)):
        wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"
        given = f" = {array:g} is one number" if array.ndim == 0 else f": shape {array.shape} given"
        raise InputError(f"{name}{given}, {wanted} needed")


def number(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf, above: float | None = None) -> float:
    """Return `value` as a finite float in [low, high], and greater than `above` where that is given.

    Raises
    ------
    InputError
        It is no number or outside its limits.
    """
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    value = float(value) if isinstance(value, np.number) and real else value  # of any precision
    if real and abs(value) <= sys.float_info.max and low <= value <= high and (above is None or value > above):
        return float(value)
    if above == 0.0 and high == np.inf:
        raise InputError(f"{name} = {shown(value)} must be a positive number")
    raise InputError(f"{name} = {shown(value)} must be a finite number{_limits(low, high, above)}")


def _limits(low: float, high: float, above: float | None) -> str:
    """Say limits, ` >= 0 and <= 1`; nothing where there are none."""
    limits = [f"> {above:g}"] if above is not None else [f">= {low:g}"] if low > -np.inf else []
    limits += [f"<= {high:g}"] if high < np.inf else []
    return f" {' and '.join(limits)}" if limits else ""


def whole(value: object, name: str, *, least: int = 0, most: int = sys.maxsize) -> int:
    """Return `value` as a whole number of at least `least`, and at most `most`.

    Raises
    ------
    InputError
        It is not.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    limit = f" and at most {most}" if most < sys.maxsize else ""
    raise InputError(f"{name} = {shown(value)} must be a whole number of at least {least}{limit}")


def choice(value: object, name: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of the known names.

    Raises
    ------
    InputError
        It is not; they are listed.
    """
    names = tuple(known)
    if isinstance(value, str) and value in names:
        return value
    raise InputError(f"{name} = {shown(value)} is unknown; use one of {', '.join(names)}")
