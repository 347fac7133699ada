"""Derivatives of a design's vertices by its dimensions; the topology depends on counts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.generate.design import Design


def remade(design: Design, parameter: str, value: float, make: Callable[..., Design]) -> Design:
    """Return a design with another value of a dimension [SI]; parameter and `make` as in `velocities`."""
    name, _, place = parameter.partition(":")
    changed: Any = value
    if place:
        numbers = list(design.parameters[name])
        numbers[int(place)] = changed
        changed = tuple(numbers)
    return make(design.name, **{**design.parameters, name: changed})


def velocities(design: Design, parameter: str, make: Callable[..., Design]) -> tuple[Floats, tuple[Floats, ...]]:
    """Return the derivatives of all vertices by a dimension, of the body (n, 3) and of every chamber [1].

    Parameters
    ----------
    parameter
        A name of `design.parameters`; "channel:0" is the first number of a pair.
    make
        What makes a design of a name and parameters.

    Raises
    ------
    InputError
        The design has no such dimension, or it is a whole number.
    """
    # Relative step: a central difference is off by its square, extrapolated by its fourth power; rounding is 1e-16 over it.
    design_step_rel = 1e-3
    known = _dimensions(design)
    if parameter not in known:
        raise InputError(f"{design.name}: {parameter!r} is no dimension that can vary; use one of {', '.join(known)}")
    given = known[parameter]

    def moved(step: float) -> list[Floats]:
        found = remade(design, parameter, given + step, make)
        return [np.asarray(surface.vertices) for surface in (found.body, *found.chambers)]

    def slopes(step: float) -> list[Floats]:
        return [(a - b) / (2.0 * step) for a, b in zip(moved(step), moved(-step))]

    step = design_step_rel * abs(given)
    body, *chambers = [(4.0 * fine - coarse) / 3.0 for fine, coarse in zip(slopes(0.5 * step), slopes(step))]
    return body, tuple(chambers)


def _dimensions(design: Design) -> dict[str, float]:
    """The dimensions that can vary, by name, with their values; of pairs and triples each number."""
    found: dict[str, float] = {}
    for name, value in design.parameters.items():
        if isinstance(value, float):
            found[name] = value
        elif isinstance(value, tuple):
            found |= {f"{name}:{i}": float(part) for i, part in enumerate(value)}
    return found
