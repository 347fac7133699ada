"""A snake as an environment for controllers: reset, step with an action, observe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats
from geosim.environment import Environment, Obstacle
from geosim.errors import InputError
from geosim.result import Report
from geosim.snake.model import SnakeRobot
from geosim.snake.rotation import matrices
from geosim.snake.snake import make_snake
from geosim.snake.state import MultibodyState
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.valves import PSI

__all__ = ["SnakeEnvironment"]


@guarded
class SnakeEnvironment:
    """Reset-and-step interface around `MultibodyStepper` for one snake.

    Parameters
    ----------
    robot
        Default `make_snake()`.
    environment
        Default gravity and a ground plane z = 0 with friction 0.6.
    stepper
        Default a `MultibodyStepper()` at 60 Hz.
    max_pressure
        What an action of 1 commands [Pa].
    reward
        reward(before, after, action) of two states; default the forward speed of the centre of mass [m/s] along x.
    limit
        Steps of an episode.

    An observation is the vector (carriages - 1 bend angles [rad], their rates [rad/s], chamber pressures over
    max_pressure, velocity of the centre of mass in the head's frame [m/s] (2,), heading (cos, sin)).
    """

    def __init__(
        self,
        robot: SnakeRobot | None = None,
        environment: Environment | None = None,
        stepper: MultibodyStepper | None = None,
        *,
        max_pressure: float = 8 * PSI,
        reward: Callable[[MultibodyState, MultibodyState, Floats], float] | None = None,
        limit: int = 3600,
    ) -> None:
        self.robot = make_snake() if robot is None else robot
        if self.robot.count != 1:
            raise InputError(f"SnakeEnvironment: the robot is {self.robot.count} snakes; give one")
        ground = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.6)
        self.environment = (
            Environment(gravity=(0, 0, -9.81), obstacles=[ground]) if environment is None else environment
        )
        self.stepper = MultibodyStepper() if stepper is None else stepper
        self.max_pressure = max_pressure
        self.reward = reward
        self.limit = limit
        self._first = self.stepper.start(self.robot, self.environment)
        self.state = self._first

    @property
    def action_size(self) -> int:
        """Numbers of an action, one a link."""
        return self.robot.links

    @property
    def observation_size(self) -> int:
        """Numbers of an observation."""
        return len(self.observation())

    def reset(self) -> Floats:
        """Go back to the start; returns the observation."""
        self.state = self._first
        return self.observation()

    def step(self, action: Any) -> tuple[Floats, float, bool, dict[str, Any]]:
        """Advance by one frame with an action (links,) in [-1, 1].

        Returns
        -------
        observation, reward, done, info
            `info` holds the residual [N] and whether the frame converged.

        Raises
        ------
        InputError
            The action has another shape or leaves [-1, 1].
        """
        action = np.asarray(action, dtype=float)
        if action.shape != (self.action_size,) or not (abs(action) <= 1.0).all():
            raise InputError(f"SnakeEnvironment: an action is {self.action_size} numbers in [-1, 1], given {action!r}")
        before = self.state
        report: Report
        self.state, report = self.stepper.step(before, action * self.max_pressure)
        shift = self.state.center_of_mass - before.center_of_mass
        reward = (
            float(shift[0] / self.stepper.dt) if self.reward is None else float(self.reward(before, self.state, action))
        )
        info = {"residual": self.state.residual, "converged": report.reached}
        return self.observation(), reward, self.state.steps >= self.limit, info

    def observation(self) -> Floats:
        """Observation of the present state."""
        state = self.state
        R = matrices(state.orientations)
        chain = self.robot.carriages[0]
        head = R[chain[-1]]
        masses, bodies = self.robot.particle_masses, self.robot.body_masses
        velocity = head.T @ (state.momentum / (masses.sum() + bodies.sum()))
        rates = np.diff(state.spins[chain, 2])
        heading = head[:2, 0] / np.linalg.norm(head[:2, 0])
        return np.concatenate([state.bend_angles[0], rates, state.pressures / self.max_pressure, velocity[:2], heading])
