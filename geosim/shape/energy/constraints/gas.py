"""Gas constraint: the pressure of a closed gas as a function of its volume.

    (P + ambient) (v + extra - s)^exponent = amount x temperature ratio

with P the gauge pressure, v the volume of the chambers that share the gas, s what a syringe has pushed in. In the equations
the row of such chambers asks for v(x) = V(P) instead of a given volume; the slope V'(P) < 0 is in the corner of the
bordered system, which stays symmetric: the gas is a spring between the walls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Bools, Floats, between, frozen
from geosim.errors import InputError
from geosim.model.actuation import Command, Inflation, Syringe
from geosim.shape.energy.constraints.scalars import Law, Rows, StickSlip


@dataclass(frozen=True)
class Gas(Law):
    """Closed gases in scaled units.

    Parameters
    ----------
    members
        1 where a chamber belongs to a gas, (g, c).
    amounts, warmth, beyond
        Of every gas the constant of its law, the temperature ratio, and its volume beyond that of the chambers; (g,).
    ambient, exponent
        Pressure outside, and the exponent.
    """

    members: Floats
    amounts: Floats
    warmth: Floats
    beyond: Floats
    ambient: float
    exponent: float
    closed = True

    @property
    def lawful(self) -> Bools:
        """Chambers that a gas is closed in, bool (c,)."""
        return np.asarray(self.members.any(axis=0))

    def goals(self, values: Floats, forces: Floats) -> Floats:
        """Return what the volumes (c,) shall be; of a gas the first of its chambers stands for all."""
        goal = np.where(self.lawful, 0.0, values)
        goal[self.members.argmax(axis=1)] = self.volumes(forces)[0]
        return goal

    def write(self, rows: Rows, values: Floats, forces: Floats, active: StickSlip | None) -> None:
        """Ask for the volume of every gas in the row of its first chamber."""
        first = self.members.argmax(axis=1)
        wanted, slope = self.volumes(forces)
        rows.solved[self.lawful] = False
        rows.solved[first] = True
        rows.members[first] = self.members
        rows.gap[first], rows.slope[first] = wanted - self.members @ values, slope

    def absolute(self, pressures: Floats) -> Floats:
        """Absolute pressures of gauge pressures, beyond vacuum positive all the same: a trial there is finite."""
        min_absolute_pressure_rel = 1e-6  # of the ambient
        return np.maximum(pressures + self.ambient, min_absolute_pressure_rel * self.ambient)

    def volumes(self, pressures: Floats) -> tuple[Floats, Floats]:
        """Volumes that the chambers of every gas have at gauge pressures (c,), and their slopes V'(P); (g,)."""
        absolute = self.absolute(pressures[self.members.argmax(axis=1)])
        volume = (self.amounts * self.warmth / absolute) ** (1.0 / self.exponent)
        return volume - self.beyond, -volume / (self.exponent * absolute)

    def towards(self, end: Law, load_factor: float) -> Gas:
        """Return the gas on the way to another temperature and another place of the syringe."""
        assert isinstance(end, Gas)
        warmth = between(self.warmth, end.warmth, load_factor)
        return replace(end, warmth=warmth, beyond=between(self.beyond, end.beyond, load_factor))

    def still(self, end: Law) -> bool:
        """Whether neither temperature nor syringe change on the way to another."""
        assert isinstance(end, Gas)
        return bool(np.array_equal(self.warmth, end.warmth) and np.array_equal(self.beyond, end.beyond))


def enclosed_gas(
    command: Command, chambers: int, volumes: Floats, pressures: Floats, length: float, stress: float
) -> tuple[Gas, Gas] | None:
    """Return the gases at the moment of closing and in a command, or None where all chambers are open.

    Parameters
    ----------
    chambers
        Number of them.
    volumes, pressures
        Scaled, of the chambers at the moment of closing, (c,).
    length, stress
        Units [m], [Pa].

    Raises
    ------
    InputError
        A syringe without a gas, or one that holds more than the gas; connected chambers at different pressures.
    """
    inflation, syringe = command.find(Inflation), command.find(Syringe)
    closed = np.zeros(chambers, dtype=bool) if inflation is None else inflation.closed(chambers)
    if inflation is None or not closed.any():
        if syringe is not None:
            raise InputError("Syringe: no chamber is closed; give Inflation(gas=True) & Syringe(volumes)")
        return None
    groups = inflation.gases(chambers)
    members = np.zeros((len(groups), chambers))
    equal_pressure_rel = 1e-6  # of the ambient: chambers whose pressures differ by less may be connected
    for g, chambers_of in enumerate(groups):
        members[g, list(chambers_of)] = 1.0
        spread = float(np.ptp(pressures[list(chambers_of)])) * stress
        if spread > equal_pressure_rel * inflation.ambient:
            raise InputError(
                f"Inflation: connected chambers {', '.join(str(c + 1) for c in chambers_of)} differ by {spread:.4g} Pa where "
                f"they are closed; bring them to one pressure first"
            )
    pushed = np.zeros(len(groups)) if syringe is None else syringe.at(command.index, groups, chambers)
    space = members @ volumes + inflation.extra_volume / length**3
    pushed = pushed / length**3
    if (pushed >= space).any():
        g = int(np.flatnonzero(pushed >= space)[0])
        raise InputError(
            f"Syringe: {pushed[g] * length**3 * 1e6:.4g} ml are more than the {space[g] * length**3 * 1e6:.4g} ml of the gas "
            f"with its extra_volume; give extra_volume the volume of syringe and tube"
        )
    ambient = inflation.ambient / stress
    absolute = pressures[members.argmax(axis=1)] + ambient
    amounts = absolute * space**inflation.exponent
    extra = np.full(len(groups), inflation.extra_volume / length**3)
    closing = Gas(chambers, frozen(members), amounts, np.ones(len(groups)), extra, ambient, inflation.exponent)
    warmth = np.full(len(groups), inflation.warmth(command.index))
    return closing, replace(closing, warmth=warmth, beyond=extra - pushed)
