"""Validated, read-only arrays: every array in a geosim data type passes through here once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from geosim.errors import InputError

__all__ = ["Bools", "Floats", "Ints", "floats", "frozen", "ints"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def frozen(array: np.ndarray) -> np.ndarray:
    """Return the array, C-contiguous and read-only (a copy unless it owns its memory)."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        if not array.flags.owndata:
            array = array.copy()
        array.flags.writeable = False
    return array


def floats(value: Any, name: str, shape: tuple[int | None, ...], *, finite: bool = True) -> Floats:
    """Return `value` as a read-only float64 array of the given shape (None = any length).

    Raises
    ------
    InputError
        It is not numbers, has another shape, or (with `finite`) holds nan or inf.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {str(value)[:60]!r} is not an array of numbers") from None
    if array.ndim != len(shape) or any(want is not None and want != got for want, got in zip(shape, array.shape)):
        wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"
        raise InputError(f"{name}: shape {array.shape} given, {wanted} needed")
    if finite and not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise InputError(f"{name}: entry {where.tolist()} is {array[tuple(where)]}; give finite numbers")
    return frozen(array)


def ints(value: Any, name: str, shape: tuple[int | None, ...], *, below: int | None = None) -> Ints:
    """Return `value` as a read-only int64 array of ids in [0, below).

    Raises
    ------
    InputError
        It is not whole numbers, has another shape, or holds an id outside the range.
    """
    try:
        given = np.array(value)
    except ValueError:
        raise InputError(f"{name}: {str(value)[:60]!r} is not an array of whole numbers") from None
    if given.size == 0:
        given = given.reshape([0 if s is None else s for s in shape]).astype(np.int64)
    if given.dtype.kind not in "iu":
        raise InputError(f"{name}: whole numbers needed, {given.dtype} given")
    array = given.astype(np.int64)
    if array.ndim != len(shape) or any(want is not None and want != got for want, got in zip(shape, array.shape)):
        wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"
        raise InputError(f"{name}: shape {array.shape} given, {wanted} needed")
    if array.size and (array.min() < 0 or (below is not None and array.max() >= below)):
        bad = array.min() if array.min() < 0 else array.max()
        raise InputError(f"{name}: id {bad} is outside 0 .. {below - 1 if below is not None else 'the last id'}")
    return frozen(array)
