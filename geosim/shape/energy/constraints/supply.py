"""Supply lines: the pressure of a chamber behind a tube with a source at its other end.

With the absolute pressure a = P + ambient, the source's a_s, the dead volume d and the conductance C [m^3/(Pa s)] of laminar flow
of an ideal gas at constant temperature [Poiseuille's law with the density of the mean pressure, (a_s + a) / 2],

    n = a (v + d),        dn/dt = C (a_s^2 - a^2) / 2,

where n [Pa m^3] is the amount of gas times its temperature and gas constant. An increment h of time is implicit,

    a (v + d) = n0 + h C (a_s^2 - a^2) / 2,

and gives the volume as a function of the pressure, as a closed gas has it (see `gas`): the bordered system stays symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, between
from geosim.errors import InputError
from geosim.model.actuation import Command, Inflation, SupplyLine
from geosim.shape.energy.constraints.gas import Gas
from geosim.shape.energy.constraints.scalars import Law


@dataclass(frozen=True)
class Lines(Gas):
    """Gases behind supply lines, one a chamber, in scaled units; `amounts` are n0, and `beyond` dead volumes.

    Parameters
    ----------
    sources, conductances
        a_s and C of every chamber, (c,).
    span
        h [s].
    """

    sources: Floats
    conductances: Floats
    span: float = 0.0

    def volumes(self, pressures: Floats) -> tuple[Floats, Floats]:
        """Volumes of the chambers at gauge pressures (c,), and their slopes V'(P); (c,)."""
        absolute = self.absolute(pressures)
        rate = 0.5 * self.span * self.conductances
        most = self.amounts + rate * self.sources**2
        return most / absolute - rate * absolute - self.beyond, -most / absolute**2 - rate

    def flows(self, pressures: Floats) -> Floats:
        """What enters every chamber in a second at gauge pressures (c,), (c,)."""
        return 0.5 * self.conductances * (self.sources**2 - (pressures + self.ambient) ** 2)

    def towards(self, end: Law, load_factor: float) -> Lines:
        """Return the lines on the way to other pressures of their sources; valves are as at the end."""
        assert isinstance(end, Lines)
        return replace(end, sources=between(self.sources, end.sources, load_factor))

    def still(self, end: Law) -> bool:
        """Whether no source changes on the way to another."""
        assert isinstance(end, Lines)
        return bool(np.array_equal(self.sources, end.sources) and np.array_equal(self.conductances, end.conductances))


def supply_lines(
    command: Command, volumes: Floats, pressures: Floats, length: float, stress: float
) -> tuple[Lines, Lines] | None:
    """Return the lines as a motion begins and in a command, or None without lines; arguments as of `gas.enclosed_gas`.

    Raises
    ------
    InputError
        The source's pressure is not given.
    """
    line, inflation = command.find(SupplyLine), command.find(Inflation)
    if line is None:
        return None
    chambers = len(volumes)
    if inflation is None or np.any(inflation.gas) or not np.isfinite(inflation.pressure[command.index]).all():
        raise InputError(
            "SupplyLine: the pressure of its source is not given; give Inflation(pressure=...) [Pa] in every row, without gas"
        )
    ambient = inflation.ambient / stress
    beyond = line.row("dead_volume", command.index, chambers) / length**3
    begin = Lines(
        chambers,
        np.eye(chambers),
        (pressures + ambient) * (volumes + beyond),
        np.ones(chambers),
        beyond,
        ambient,
        1.0,
        pressures + ambient,
        line.row("conductance", command.index, chambers) * stress / length**3,
    )
    return begin, replace(begin, sources=inflation.targets(command.index, chambers)[1] / stress + ambient)
