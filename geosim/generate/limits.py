"""Limits of dimensions of a design: violations are refused by name, value and limit."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, number, shown, whole
from geosim.errors import InputError

MAX_PARTS = 200  # parts of one kind; a robot of 200 chambers has been meshed for an hour


def length(**values: float) -> None:
    """Refuse lengths [m] that are not positive numbers up to `MAX_DIMENSION_M`.

    Raises
    ------
    InputError
        One is not.
    """
    max_dimension_m = 100.0  # [m], twenty times the largest robot that is meshed without allow_any_size
    for name, value in values.items():
        number(value, f"{name} [m]", above=0.0)
        number(value, f"{name} [m]", low=1e-9, high=max_dimension_m)


def each(name: str, given: float | tuple[float, ...], parts: int) -> Floats:
    """Return the length [m] of every part, (parts,), from that of all or one for each.

    Raises
    ------
    InputError
        There are more or fewer than parts, or one is no length.
    """
    if not isinstance(given, (list, tuple)):
        length(**{name: given})
        return np.full(parts, float(given))
    if len(given) != parts:
        raise InputError(
            f"{name} = {shown(given)} has {len(given)} numbers; there are {parts} parts, so give one or {parts}"
        )
    length(**{f"{name} {i}": value for i, value in enumerate(given, 1)})
    return np.array(given, dtype=float)


def count(least: int = 1, most: int = MAX_PARTS, **values: int) -> None:
    """Refuse counts that are not whole numbers between two limits.

    Raises
    ------
    InputError
        One is not.
    """
    for name, value in values.items():
        whole(value, f"{name}", least=least)
        if value > most:
            raise InputError(f"{name} = {shown(value)} must be at most {most}")


def less(name: str, value: float, limit: float, why: str) -> None:
    """Refuse a length [m] that is not below its limit.

    Raises
    ------
    InputError
        It is not.
    """
    if not value < limit:
        raise InputError(f"{name} = {value:.6g} m must be less than {limit:.6g} m, {why}")
