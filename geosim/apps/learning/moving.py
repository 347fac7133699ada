"""Common part of the environments whose volumetric robot moves in time: one action is a period of pressures."""

from __future__ import annotations

import numpy as np

from geosim.apps.learning.episode import Episode
from geosim.arrays import Floats, Ints
from geosim.model.actuation import Inflation, Passive
from geosim.model.contract import Report
from geosim.shape.energy.motion.stepper import EnergyShapeStepper


class MovingEpisode(Episode):
    """Root of the environments of volumetric robots in time, whose parts (fingers, legs) have several chambers each.

    Subclasses give `parts`, `chambers_each` and `max_pressure` [Pa].
    """

    parts, chambers_each, max_pressure = 2, 1, 0.0
    period = 50e-3  # s of an action: a part follows its pressure in about this time
    # Coarse, linear, and of first order in time, so that an action takes a fraction of a second: trends are right.
    stepper = EnergyShapeStepper(
        dt=12.5e-3, integrator="implicit-euler", element="p1", tolerance=1e-3, contact_thickness=0.2
    )

    @property
    def pressures(self) -> Floats:
        """Present pressure of every part [Pa], (parts,)."""
        return np.asarray(self.state.frame.chamber_pressures, dtype=float).reshape(self.parts, -1)[:, 0]

    @property
    def filling(self) -> Floats:
        """Present volume of the chambers of every part, over that at rest, (parts,)."""
        return np.asarray(self.state.frame.volume_ratios.reshape(self.parts, -1).mean(axis=1), dtype=float)

    def pressed(self, pressures: Floats) -> Report:
        """Bring the parts to pressures [Pa] (parts,), linearly over one period; an action that fails leaves the state."""
        index = round(self.state.time / self.period)
        every = np.repeat(np.clip(pressures, 0.0, self.max_pressure), self.chambers_each)
        rows = Passive((index + 1) * self.period, steps=index + 1) & Inflation(pressure=np.tile(every, (index + 1, 1)))
        state, report = self.stepper.step(self.state, rows.command(index))
        if report.reached:
            self.state = state
        return report

    def place(self, vertices: Ints) -> Floats:
        """Return the mean of the positions of some vertices [m] (3,)."""
        return np.asarray(self.state.frame.nodes[vertices].mean(axis=0))

    def velocity(self, vertices: Ints) -> Floats:
        """Return the mean of the velocities of some vertices [m/s] (3,)."""
        return np.asarray(self.state.frame.extra["velocities"][vertices].mean(axis=0))
