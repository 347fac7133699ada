"""Control loops: a robot that obeys one command a period, from where it is, in bounded time.

The supply follows a command with a lag T, u <- u + (1 - exp(-dt / T)) (command - u); the body is in equilibrium with u.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from geosim.arrays import Floats, floats, number
from geosim.errors import InputError
from geosim.model.contract import Status, taken
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.controls import CONTROLS, control_of
from geosim.result import Result, collect
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState

A = TypeVar("A")


@dataclass
class LiveLoop(Generic[A]):
    """A robot in a control loop; `step` once a period.

    Parameters
    ----------
    advance
        Controls (m,) -> what the robot does under them, from where it is.
    controls
        What acts now (m,): volume ratios, pressures [Pa], cable lengths [m] or tensions [N].
    box
        Least and largest value that is obeyed (m, 2).
    lag
        Time constant of the supply [s]; 0: commands act at once.
    time
        Since the loop began [s].
    saturated
        Whether the last command was outside of the box and was cut to it.
    """

    advance: Callable[[Floats], A]
    controls: Floats
    box: Floats
    lag: float = 0.0
    time: float = 0.0
    saturated: bool = False

    def step(self, command: Any, dt: float) -> A:
        """Obey a command (m,) for a period [s]; return the shape at its end.

        Raises
        ------
        InputError
            It is not finite, or there are more or fewer numbers than controls.
        """
        dt = number(dt, "live.step: dt", above=0.0)
        given = floats(np.atleast_1d(command), "live.step: command", (len(self.controls),))
        wanted = np.clip(given, *self.box.T)
        share = 1.0 if self.lag == 0.0 else -np.expm1(-dt / self.lag)
        self.saturated = bool((wanted != given).any())
        self.controls = self.controls + share * (wanted - self.controls)
        self.time += dt
        return self.advance(self.controls)


def live_mesh(
    solver: EnergyShapeSolver,
    robot: VolumetricRobot,
    environment: Environment | None = None,
    vary: str = "pressure",
    lag: float = 0.0,
) -> LiveLoop[Result]:
    """Return the loop over a mesh: every step goes on from the equilibrium before, with the factors that are kept.

    A step that `solver.max_seconds` ends has Status STOPPED and the equilibrium that it came to; the next one goes on from there.

    Raises
    ------
    InputError
        The robot has no such controls, or cannot be solved.
    """
    robot = taken(robot, VolumetricRobot, "live")
    control = control_of(robot, vary, "live")
    surroundings = Environment() if environment is None else environment
    if surroundings.rows and max(surroundings.rows.values()) > 1:
        raise InputError("live: loads and motions in rows belong to commands that are known beforehand; give one row")
    rest = np.asarray(control.rest * control.unit(robot), dtype=float)
    advance = MeshAdvance(solver, vary, surroundings, solver.start(robot, surroundings), rest)
    box = np.tile([-np.inf, np.inf], (control.count(robot), 1))
    return LiveLoop(advance, rest, box, number(lag, "live: lag", low=0.0))


@dataclass
class MeshAdvance:
    """The solver with the state that it goes on from.

    Parameters
    ----------
    at
        Controls (m,) that the state obeys.
    share
        How much of the way to a command is tried: less after a step that the budget ended, since the same way would end again.
    """

    solver: EnergyShapeSolver
    vary: str
    environment: Environment
    state: ShapeState
    at: Floats
    share: float = 1.0

    def __call__(self, controls: Floats) -> Result:
        """Go to controls (m,), or as far as the budget allows; return the shape there, one frame."""
        make = CONTROLS[self.vary].make
        there = self.at + self.share * (controls - self.at) if self.share < 1.0 else controls
        command = self.solver.commands(self.state.robot, make(there))[0]
        self.state, report = self.solver.step(self.state, command)
        report = replace(report, partial=None)
        shorter_share = 0.25  # of the way that the budget did not suffice for: what is tried next
        if report.reached:
            self.at = there
            if self.share < 1.0:
                report = replace(
                    report, status=Status.STOPPED, message=f"{Status.STOPPED.value} The next step goes on."
                )
            self.share = min(1.0, 2.0 * self.share)
        elif report.status is Status.STOPPED:
            self.share *= shorter_share
        return collect(
            self.state.robot, self.environment, self.solver, [self.state], [report], make(controls), continued=True
        )
