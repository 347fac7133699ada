"""Where a body in time is and how it moves, and what became of its energy.

From the start to a frame the energies (kinetic, elastic, of weight, stored in contact) change by::

    change = work - dissipated + drift

`work` is that of loads, pressures, cables, supports and obstacles that move; `dissipated` what damping and friction
with obstacles took; `drift` what the rule of time stepping made (positive) or lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import is_

import numpy as np

from geosim.arrays import Floats
from geosim.model.actuation import Command
from geosim.model.contract import Frame
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.discretisation.node_potential import NodeForm, node_form
from geosim.shape.energy.measures import placed
from geosim.shape.energy.motion.rules import Motion
from geosim.shape.energy.motion.viscosity import History
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Evaluation, LoadState


def mass_form(problem: ShapeProblem) -> NodeForm:
    """Return the mass matrix over (stress x length) of the units [s^2]: consistent of quadratic tets, lumped of linear ones."""
    mesh, element, unit = problem.mesh, problem.element, problem.length**2 / problem.stress
    density = np.array([m.density for m in problem.robot.materials.values()])[mesh.material] * unit
    if element.linear:
        blocks = np.broadcast_to(0.25 * (density * mesh.volumes)[:, None, None], (*mesh.tets.shape, 1))
        return node_form(len(problem.rest), mesh.tets.reshape(-1, 1), blocks.reshape(-1, 1, 1), problem.pattern)
    rule = element.constraint
    values = element.values(rule.points)
    shares = (values * rule.weights[:, None]).T @ values
    return node_form(len(problem.rest), mesh.tets, (density * mesh.volumes)[:, None, None] * shares, problem.pattern)


@dataclass(frozen=True)
class Row:
    """A row of an actuation on its way: the row, when it began and ends [s], and what is prescribed at both ends."""

    of: Command
    begin: float
    until: float
    origin: LoadState
    end: LoadState

    def serves(self, command: Command) -> bool:
        """Whether a command belongs to this row of this actuation."""
        same = len(self.of.parts) == len(command.parts) and all(map(is_, self.of.parts, command.parts))
        return same and self.of.index == command.index

    def share(self, time: float) -> float:
        """Share of the way at a time [s]."""
        span = self.until - self.begin
        return min(max((time - self.begin) / span, 0.0), 1.0) if span > 0.0 else 1.0


@dataclass(frozen=True)
class Ledger:
    """Energies [J] since the start: at the start, work done, dissipated, and the sum of the amounts given."""

    begin: float = 0.0
    work: float = 0.0
    dissipated: float = 0.0
    given: float = 0.0


@dataclass(frozen=True)
class MovingState:
    """A body between two increments of time; never changed.

    Parameters
    ----------
    shape
        Where it is, and what it holds on to.
    mass
        See `mass_form`.
    motion
        How it moves.
    time
        [s].
    row
        Where its actuation stands; None before the first command.
    increment
        Next increment [s]; 0: as long as may be.
    spent
        CPU time so far [s].
    ledger
        What became of its energy.
    measured
        What a result shows.
    is_frame
        Whether a result shows it.
    touches
        Whether the body touches something.
    history
        What viscous materials remember; None where there are none.
    supplied
        Scaled amounts of gas behind supply lines, (c,); None where there are none.
    """

    shape: ShapeState
    mass: NodeForm
    motion: Motion
    time: float = 0.0
    row: Row | None = None
    increment: float = 0.0
    spent: float = 0.0
    ledger: Ledger = Ledger()
    measured: Frame | None = None
    is_frame: bool = True
    touches: bool = False
    history: History | None = None
    supplied: Floats | None = None

    @property
    def robot(self) -> VolumetricRobot:
        """The robot."""
        return self.shape.robot

    @property
    def frame(self) -> Frame:
        """Measures in SI units."""
        assert self.measured is not None
        return self.measured

    @property
    def energy_unit(self) -> float:
        """Joules in one scaled unit."""
        return self.shape.problem.stress * self.shape.problem.length**3

    def energies(self, found: Evaluation) -> dict[str, float]:
        """Return the energies [J] by name, with the evaluation of the body alone where it is."""
        problem, x, v = self.shape.problem, self.shape.point.x, self.motion.velocity
        weight = problem.mass[:, None] * problem.environment.gravity
        parts = {
            "kinetic": 0.5 * float(np.sum(v * (self.mass.matrix @ v))),
            "elastic": found.energy,
            "contact": 0.0 if found.contact is None else found.contact.energy,
            "weight": -float(np.sum(weight * (x - problem.rest))) / problem.force_unit,
        }
        return {name: value * self.energy_unit for name, value in parts.items()}

    def momenta(self) -> dict[str, Floats]:
        """Return linear momentum [kg m/s] and angular momentum about the origin [kg m^2/s], (3,) each."""
        problem = self.shape.problem
        pushes = self.mass.matrix @ self.motion.velocity * (problem.stress * problem.length**2)
        at = problem.to_metres(self.shape.point.x)
        return {"momentum": pushes.sum(axis=0), "angular_momentum": np.cross(at, pushes).sum(axis=0)}

    def velocities(self) -> Floats:
        """Return the velocities of the vertices [m/s], (n, 3)."""
        problem = self.shape.problem
        moved = placed(problem, self.shape.point.x + self.motion.velocity) - placed(problem, self.shape.point.x)
        return moved[: len(self.robot.vertices)]

    def shown(self, frame: Frame, found: Evaluation) -> MovingState:
        """Return the state with a frame, its time, its motion and what became of its energy."""
        energies, ledger = self.energies(found), self.ledger
        total = sum(energies.values())
        extra = {
            **frame.extra,
            "velocities": self.velocities(),
            **{f"{name}_energy": value for name, value in energies.items()},
            "work": ledger.work,
            "dissipated": ledger.dissipated,
            "drift": total - ledger.begin - ledger.work + ledger.dissipated,
            **self.momenta(),
        }
        if self.shape.problem.chambers:
            extra["gas_amounts"] = np.full(self.shape.problem.chambers, np.nan)
            if self.supplied is not None:
                extra["gas_amounts"] = self.supplied * self.energy_unit
        return replace(
            self, measured=replace(frame, time=self.time, energies=total, extra=extra, stable=np.nan), is_frame=True
        )
