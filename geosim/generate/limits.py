"""Limits of dimensions of a design: violations are refused by name, value and limit."""

from __future__ import annotations

from geosim.arrays import number, whole
from geosim.errors import InputError

__all__ = ["count", "length", "less"]


def length(**values: float) -> None:
    """Refuse lengths [m] that are not positive numbers.

    Raises
    ------
    InputError
        One is not.
    """
    for name, value in values.items():
        number(value, f"{name} [m]", above=0.0)


def count(least: int = 1, most: int | None = None, **values: int) -> None:
    """Refuse counts that are not whole numbers between two limits.

    Raises
    ------
    InputError
        One is not.
    """
    for name, value in values.items():
        whole(value, f"{name}", least=least)
        if most is not None and value > most:
            raise InputError(f"{name} = {value} must be at most {most}")


def less(name: str, value: float, limit: float, why: str) -> None:
    """Refuse a length [m] that is not below its limit.

    Raises
    ------
    InputError
        It is not.
    """
    if not value < limit:
        raise InputError(f"{name} = {value:.6g} m must be less than {limit:.6g} m, {why}")
