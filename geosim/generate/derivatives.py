"""Derivatives of a design's vertices by its dimensions; the topology depends on counts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.generate.design import Design


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
    name, _, place = parameter.partition(":")
    value = design.parameters.get(name)
    at = int(place) if place.isdigit() else None
    if isinstance(value, tuple) and at is not None and at < len(value):
        given = float(value[at])
    elif isinstance(value, float) and at is None:
        given = value
    else:
        known = [n for k, v in design.parameters.items() for n in ([k] if isinstance(v, float) else _places(k, v))]
        raise InputError(f"{design.name}: {parameter!r} is no dimension that can vary; use one of {', '.join(known)}")

    def moved(step: float) -> list[Floats]:
        new = given + step
        changed = new if at is None or not isinstance(value, tuple) else (*value[:at], new, *value[at + 1 :])
        found = make(design.name, **{**design.parameters, name: changed})
        return [np.asarray(surface.vertices) for surface in (found.body, *found.chambers)]

    def slopes(step: float) -> list[Floats]:
        return [(a - b) / (2.0 * step) for a, b in zip(moved(step), moved(-step))]

    step = design_step_rel * abs(given)
    body, *chambers = [(4.0 * fine - coarse) / 3.0 for fine, coarse in zip(slopes(0.5 * step), slopes(step))]
    return body, tuple(chambers)


def _places(name: str, value: Any) -> list[str]:
    return [f"{name}:{i}" for i in range(len(value))] if isinstance(value, tuple) else []
