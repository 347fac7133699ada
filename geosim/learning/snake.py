"""The soft snake: go where the goal points."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, number
from geosim.learning.episode import Episode, numbers, observations
from geosim.snake.control import SnakeEnvironment
from geosim.snake.snake import make_snake
from geosim.snake.stepper import MultibodyStepper

__all__ = ["SnakeEnv"]

FRAMES_PER_ACTION = 4  # of 1/60 s in one action: valves follow a command in about this time
# Evaluations and factorisations of a frame at most: nobody waits for one frame of an episode. Frames under random
# actions need more than those of a gait, and cost no more in the mean: the next one goes on from what balances.
BUDGET = {"frame_iterations": 30, "frame_factorisations": 10}
MAX_GOAL_ANGLE_RAD = (
    np.pi / 3
)  # of the goal to either side of the first heading [rad]: beyond it a snake turns before it goes


class SnakeEnv(Episode):
    """The snake of [Gasoto2019] on wheels on a plane: one action is 1/15 s.

    - Action (links,) in [-1, 1]: commanded pressure over `max_pressure`; the sign selects the chamber.
    - Observation, float32: bend angles [rad] (links,), their rates [rad/s] (links,), chamber pressures over `max_pressure`
      (2 links,), velocity of the centre of mass in the head's frame [m/s] (2,), cosine and sine of the goal's direction
      seen from the head (2,).
    - Reward: speed of the centre of mass along the goal [m/s], mean over the action.
    - `reset(options={"goal": angle})` sets the goal's direction [rad]; else it is drawn within 60 degrees of x.
    - An episode ends (terminated) only when forces are not finite; `info` has the largest residual [N] and whether all
      frames converged.

    Parameters
    ----------
    links
        Soft links.
    max_pressure
        [Pa]; default 8 psi.
    render_mode
        None or "rgb_array".
    """

    def __init__(self, links: int = 4, max_pressure: float = 55.2e3, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        number(max_pressure, "max_pressure [Pa]", above=0.0)
        self._body = SnakeEnvironment(
            make_snake(links), None, MultibodyStepper.real_time(**BUDGET), max_pressure=max_pressure
        )
        self.robot, self.surroundings, self.solver = self._body.robot, self._body.environment, self._body.stepper
        self.state = self._body.state
        self.goal = np.array([1.0, 0.0])
        self.action_space = numbers(-1.0, 1.0, links)
        self.observation_space = observations(self._body.observation_size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Lay the snake down at rest along x and draw a goal."""
        super().reset(seed=seed)
        drawn = self.np_random.uniform(-MAX_GOAL_ANGLE_RAD, MAX_GOAL_ANGLE_RAD)
        angle = number((options or {}).get("goal", drawn), "options: goal [rad]")
        self.goal = np.array([np.cos(angle), np.sin(angle)])
        observation = self._body.reset()
        self.state = self._body.state
        return self._seen(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold the commanded pressures for four frames."""
        pressures, before = self.checked(action), self._body.state
        residual, converged = 0.0, True
        for _ in range(FRAMES_PER_ACTION):
            observation, _, _, info = self._body.step(pressures)
            residual, converged = max(residual, info["residual"]), converged and info["converged"]
            if not np.isfinite(observation).all():
                self._body.state = before
                return self._seen(self._body.observation()), 0.0, True, False, {"residual": np.inf, "converged": False}
        self.state = self._body.state
        shift = (self._body.state.center_of_mass - before.center_of_mass)[:2]
        reward = float(shift @ self.goal) / (FRAMES_PER_ACTION * self._body.stepper.dt)
        return self._seen(observation), reward, False, False, {"residual": residual, "converged": converged}

    def _seen(self, observation: Floats) -> Any:
        """The observation with the goal seen from the head in the place of the heading."""
        c, s = observation[-2:]
        return self.observed(observation[:-2], np.array([[c, s], [-s, c]]) @ self.goal)
