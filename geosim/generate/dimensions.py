"""Dimensions of designs as a user writes them: a name with its unit, like wall_mm, and a number in that unit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from geosim.errors import InputError
from geosim.generate.design import UNITLESS_DIMENSIONS, Design


@dataclass(frozen=True)
class Dimension:
    """One parameter of a generator.

    Parameters
    ----------
    name
        Of the parameter.
    key
        As files write it: the name, with its unit where it has one.
    scale
        Of the unit to SI.
    default
        In SI: whole number, number, pair of numbers, or the name of a design; None for a number that may be left out.
    of_each
        Whether it may be a number for each part.
    """

    name: str
    key: str
    scale: float
    default: int | float | tuple[float, ...] | str | None
    of_each: bool = False

    @property
    def shown(self) -> int | float | tuple[float, ...] | str | None:
        """The default in the unit of the key."""
        if isinstance(self.default, tuple):
            return tuple(v / self.scale for v in self.default)
        return self.default / self.scale if isinstance(self.default, float) else self.default

    def si(self, value: object) -> int | float | tuple[float, ...] | str:
        """Return a value in the unit of the key as the generator takes it.

        Raises
        ------
        InputError
            It is not of the kind that the default is.
        """
        if isinstance(self.default, str):
            return cast(str, _of(value, str, self.key, "the name of a design"))
        if isinstance(self.default, tuple):
            pair = _of(value, (list, tuple), self.key, f"{len(self.default)} numbers")
            if len(pair) != len(self.default):
                raise InputError(f"{self.key} = {value!r} must be {len(self.default)} numbers")
            return tuple(self._scaled(v) for v in pair)
        if self.of_each and isinstance(value, (list, tuple)):
            return tuple(self._scaled(v) for v in value)
        if self.default is None or isinstance(self.default, float):
            return self._scaled(value)
        number = self._number(value)
        if number != int(number):
            raise InputError(f"{self.key} = {value!r} must be a whole number")
        return int(number)

    def _scaled(self, value: object) -> float:
        """Return a number in SI without what rounding adds: 1.8 mm are 0.0018 m."""
        return float(f"{self._number(value) * self.scale:.15g}")

    def _number(self, value: object) -> float:
        if isinstance(value, bool):
            raise InputError(f"{self.key} = {value!r} must be a number")
        return float(_of(value, (int, float), self.key, "a number"))


def _of(value: object, kind: type | tuple[type, ...], key: str, wanted: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{key} = {value!r} must be {wanted}")
    return value


def dimensions(generator: Callable[..., Any], finger: Callable[..., Design] | None = None) -> Mapping[str, Dimension]:
    """Return the dimensions of a generator by their keys.

    Parameters
    ----------
    finger
        Generator of the design that a gripper holds; its dimensions are added, as finger_wall_mm.
    """
    dimension_unit_m = 1e-3
    # Annotations: of a length that may be left out, and of one that may be given for each part.
    optional_length, length_of_each = "float | None", "float | tuple[float, ...]"
    gripper_finger = "finger"  # the design that the gripper holds
    found: dict[str, Dimension] = {}
    for name, parameter in inspect.signature(generator).parameters.items():
        value = parameter.default
        if name == gripper_finger:
            found[name] = Dimension(name, name, 1, "pneunet")
        elif name in UNITLESS_DIMENSIONS or (isinstance(value, int) and not isinstance(value, bool)):
            found[name] = Dimension(name, name, 1, value)
        elif isinstance(value, float | tuple) or parameter.annotation == optional_length:
            of_each = parameter.annotation == length_of_each
            found[f"{name}_mm"] = Dimension(name, f"{name}_mm", dimension_unit_m, value, of_each)
    if finger is not None and gripper_finger in found:
        for key, d in dimensions(finger).items():
            found[f"{gripper_finger}_{key}"] = replace(
                d, name=f"{gripper_finger}_{d.name}", key=f"{gripper_finger}_{key}"
            )
    return found
