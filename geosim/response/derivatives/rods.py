"""Derivatives of measures of an equilibrium of rods."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.measures.spine import spine
from geosim.measures.turning import bend_gradient
from geosim.response.derivatives.equilibrium import NoUniqueTangentError
from geosim.result import Result
from geosim.rods.robot import RodShellRobot
from geosim.rods.slopes import RodEquilibrium

ROD_MEASURES = ("positions", "tip", "bend_angle")


def rod_rates(at: RodEquilibrium, slopes: list[Floats]) -> Floats:
    """Return how the positions move with numbers, (3 n, p), for dR/dp (dofs,) of each.

    Raises
    ------
    NoUniqueTangentError
        The equilibrium has no unique tangent.
    """
    try:
        return at.moved(slopes).T
    except RuntimeError as error:
        raise NoUniqueTangentError(f"derivatives of rods: this equilibrium has no unique tangent ({error})") from None


def rod_slopes(at: RodEquilibrium, to: str) -> tuple[tuple[int, ...], list[Floats]]:
    """Return the shape of a parameter, and dR/dp (dofs,) of its components.

    Raises
    ------
    InputError
        The robot has no such parameter.
    """
    robot, cables = at.robot, len(at.robot.cables)
    if to == "curvature" and len(robot.bends):
        places = np.arange(len(robot.bends))[:, None]
        return (len(places), 2), [at.by_curvature(place, axis) for place in places for axis in (0, 1)]
    if to == "cable" and cables:
        return (cables,), [at.by_cable(k) for k in range(cables)]
    if to == "radius" or to.startswith("material."):
        return (), [at.by_constant(to.removeprefix("material."))]
    raise InputError(
        f"sensitivity: to = {to!r}: rods have curvature, cable, radius, material.youngs_modulus, material.density, "
        f"and this robot {len(robot.bends)} stencils and {cables} cables"
    )


def rod_measure(of: Any, result: Result) -> tuple[Floats, Floats]:
    """Return a measure of the last frame and its derivative by the positions, of the measure's shape and then (3 n,).

    Raises
    ------
    InputError
        Rods have none of this name.
    """
    robot, x = result.robot, result.frames[-1]
    assert isinstance(robot, RodShellRobot)
    eye = np.eye(x.size)
    if callable(of):
        value, gradient = (np.asarray(part, dtype=float) for part in of(x))
        return value, gradient.reshape(*value.shape, x.size)
    if of == "positions":
        return x, eye.reshape(*x.shape, x.size)
    if of == "tip":
        return result.tip[-1], eye[-3:]
    line = spine(robot) if of == "bend_angle" else None
    if line is None:
        raise InputError(
            f"sensitivity: of = {of!r}: rods have {', '.join(ROD_MEASURES)}, or give a function of positions"
        )
    return np.asarray(result.bend_angle[-1]), bend_gradient(line, x).ravel()


def rod_sensitivity(result: Result, of: Any, to: str, frame: int) -> tuple[Floats, Floats]:
    """Return a measure and its derivative, as `sensitivity`."""
    if frame != len(result.frames) - 1:
        raise InputError("sensitivity: of rods the last frame alone has a tangent; solve for that command alone")
    at = RodEquilibrium.of(result)
    shape, slopes = rod_slopes(at, to)
    value, gradient = rod_measure(of, result)
    return np.array(value), (gradient @ rod_rates(at, slopes)).reshape(*value.shape, *shape)
