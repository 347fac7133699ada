"""Controls of a robot: volumes or pressures of its chambers, lengths or tensions of its cables, with units and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, choice, floats, real_array
from geosim.errors import InputError
from geosim.geometry.topology import tet_volumes
from geosim.model.actuation import Actuation, CableLengths, CableTensions, Inflation
from geosim.model.robot import VolumetricRobot


@dataclass(frozen=True)
class Control:
    """A kind of control: its actuation, what sensitivities call it, its default bounds and its unit.

    Parameters
    ----------
    make
        Values (m,) -> an actuation of one command.
    name
        In `geosim.sensitivity`.
    rest, bounds
        Values at rest and default bounds, in units.
    unit
        Robot -> the unit of every control, (m,).
    even
        Whether a unit is as much for every robot; else two fifths of the bounds are, in steps.
    pull
        Which of the bounds is far from rest: 1 the largest, 0 the least.
    """

    make: Callable[[Floats], Actuation]
    name: str
    rest: float
    bounds: tuple[float, float]
    unit: Callable[[VolumetricRobot], Floats]
    even: bool = False
    pull: int = 1

    def count(self, robot: VolumetricRobot) -> int:
        """Return how many of them a robot has: one a chamber or a cable."""
        return len(robot.cables) if self.name == "cable" else robot.chambers


def _by_section(robot: VolumetricRobot) -> Floats:
    """Shear modulus times the body's volume over its size: of the order of the force that squeezes a finger by its length."""
    volume = float(tet_volumes(robot.vertices, robot.body_tets).sum())
    modulus = next(iter(robot.materials.values())).shear_modulus
    return np.full(len(robot.cables), modulus * volume / robot.size)


# Unless bounds say more, volumes go from half to three times those at rest, pressures up to half of the shear modulus, cables
# are shortened by up to a fifth. A cable begins a thousandth shorter than at rest: one that is slack answers to nothing.
CONTROLS = {
    "volume_ratio": Control(
        lambda u: Inflation(volume_ratio=u[None]), "volume_ratio", 1.0, (0.5, 3.0), lambda r: np.ones(r.chambers), True
    ),
    "pressure": Control(
        lambda u: Inflation(pressure=u[None]),
        "pressure",
        0.0,
        (0.0, 0.5),
        lambda r: np.full(r.chambers, next(iter(r.materials.values())).shear_modulus),
    ),
    "cable_length": Control(
        lambda u: CableLengths(u[None]),
        "cable",
        0.999,
        (0.8, 1.0),
        lambda r: np.array([at.length(r.vertices) for at in r.cable_anchors]),
        pull=0,
    ),
    "cable_tension": Control(lambda u: CableTensions(u[None]), "cable", 0.0, (0.0, 0.2), _by_section),
}


def control_of(robot: VolumetricRobot, vary: str, caller: str) -> Control:
    """Return a kind of control that a robot has.

    Raises
    ------
    InputError
        There is no such kind, or the robot has none of it; `caller` begins the message.
    """
    control = CONTROLS[choice(vary, f"{caller}: vary", CONTROLS)]
    if control.count(robot) == 0:
        raise InputError(f"{caller}: vary = {vary!r}, but this robot has none")
    return control


def box_of(robot: VolumetricRobot, vary: str, bounds: Any, caller: str) -> Floats:
    """Return the bounds of every control (m, 2), of one pair for all, of a pair for each, or of None: the default.

    Raises
    ------
    InputError
        As `control_of`, or bounds have another shape or do not rise.
    """
    control = control_of(robot, vary, caller)
    given = control.unit(robot)[:, None] * control.bounds if bounds is None else real_array(bounds, f"{caller}: bounds")
    count = control.count(robot)
    box = floats(np.tile(given, (count, 1)) if given.shape == (2,) else given, f"{caller}: bounds", (count, 2))
    if (box[:, 0] >= box[:, 1]).any():
        raise InputError(f"{caller}: bounds {box.tolist()} must rise from the least value to the largest")
    return box
