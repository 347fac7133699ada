"""Controls of a robot: volumes or pressures of its chambers, lengths or tensions of its cables, with units and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints, choice, floats, real_array
from geosim.errors import InputError
from geosim.geometry.topology import tet_volumes
from geosim.model.actuation import Actuation, CableLengths, CableTensions, Inflation, NaturalShape
from geosim.model.robot import VolumetricRobot
from geosim.rods.robot import RodShellRobot

SteerableRobot = VolumetricRobot | RodShellRobot


@dataclass(frozen=True)
class Control:
    """A kind of control: its actuation, what sensitivities call it, its default bounds and its unit.

    Parameters
    ----------
    make
        Values (m,) -> an actuation of one command; of natural curvatures see `actuation_of`.
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
    unit: Callable[[Any], Floats]
    even: bool = False
    pull: int = 1

    def count(self, robot: SteerableRobot) -> int:
        """Return how many of them a robot has: one a chamber or a cable, two a limb of rods."""
        if self.name == "curvature":
            return 2 * len(bend_groups(robot))
        return len(robot.cables) if self.name == "cable" else robot.chambers


def bend_groups(robot: SteerableRobot) -> list[Ints]:
    """Return the stencils that a natural curvature drives together: of every limb, or of all rods where there are no limbs."""
    if not isinstance(robot, RodShellRobot) or not len(robot.bends):
        return []
    limbs = [robot.limb_bends(i) for i in range(len(robot.limbs))]
    return limbs or [np.arange(len(robot.bends))]


def actuation_of(robot: SteerableRobot, vary: str, values: Floats) -> Actuation:
    """Return the command of values (m,); of curvatures about kappa1 and kappa2 of every limb [1/m]."""
    if vary != "curvature":
        return CONTROLS[vary].make(values)
    assert isinstance(robot, RodShellRobot)
    curvature = np.zeros((1, len(robot.bends), 2))
    for group, both in zip(bend_groups(robot), values.reshape(-1, 2)):
        curvature[0, group] = both
    return NaturalShape([1.0], curvature=curvature)


def _lengths(robot: SteerableRobot) -> Floats:
    """Lengths of the cables at rest [m]."""
    if isinstance(robot, RodShellRobot):
        return np.array([cable.length for cable in robot.cables])
    return np.array([at.length(robot.vertices) for at in robot.cable_anchors])


def _by_section(robot: SteerableRobot) -> Floats:
    """Shear modulus times the body's volume over its size: of the order of the force that squeezes a finger by its length.

    Of rods ten times the tension at the surface that bends the whole of them by a radian.
    """
    if isinstance(robot, RodShellRobot):
        assert robot.section is not None
        bending = robot.edge_property("youngs_modulus") * np.broadcast_to(robot.section.inertia1, len(robot.edges))
        return np.full(len(robot.cables), 10.0 * float((bending / robot.radius).max() / robot.rest_lengths.sum()))
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
    "cable_length": Control(lambda u: CableLengths(u[None]), "cable", 0.999, (0.8, 1.0), _lengths, pull=0),
    "cable_tension": Control(lambda u: CableTensions(u[None]), "cable", 0.0, (0.0, 0.2), _by_section),
    # a limb that turns by so many radians; the unit is one over the length of all rods
    "curvature": Control(
        lambda u: NaturalShape([1.0], curvature=u[None]),
        "curvature",
        0.0,
        (-3.0, 3.0),
        lambda r: np.full(2 * len(bend_groups(r)), len(bend_groups(r)) / float(r.rest_lengths.sum())),
    ),
}


def control_of(robot: SteerableRobot, vary: str, caller: str) -> Control:
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


def box_of(robot: SteerableRobot, vary: str, bounds: Any, caller: str) -> Floats:
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
