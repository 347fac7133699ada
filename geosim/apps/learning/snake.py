"""The soft snake: go where the goal points."""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.apps.learning.episode import Episode, Scene
from geosim.arrays import number
from geosim.model.environment import EARTH_GRAVITY, Environment, Obstacle
from geosim.snake.rotation import matrices
from geosim.snake.snake import make_snake
from geosim.snake.state import MultibodyState
from geosim.snake.stepper import MultibodyStepper


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
        self.max_pressure = number(max_pressure, "max_pressure [Pa]", above=0.0)
        ground = Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.6)
        robot, around = make_snake(links), Environment(gravity=(0, 0, -EARTH_GRAVITY), obstacles=[ground])
        # Nobody waits for one frame of an episode: those under random actions need more than those of a gait, and cost no more
        # in the mean, since the next one goes on from what balances.
        solver = MultibodyStepper.real_time(frame_iterations=30, frame_factorisations=10)
        self.scene = Scene.started(robot, around, solver)
        self._first: MultibodyState = self.state
        self.goal = np.array([1.0, 0.0])
        self.make_spaces(links)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Lay the snake down at rest along x and draw a goal."""
        # of the goal to either side of the first heading [rad]: beyond it a snake turns before it goes
        max_goal_angle_rad = np.pi / 3
        super().reset(seed=seed)
        drawn = self.np_random.uniform(-max_goal_angle_rad, max_goal_angle_rad)
        angle = number((options or {}).get("goal", drawn), "options: goal [rad]")
        self.goal = np.array([np.cos(angle), np.sin(angle)])
        self.state = self._first
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold the commanded pressures for four frames."""
        frames_per_action = 4  # of 1/60 s in one action: valves follow a command in about this time
        pressures, before, state = self.checked(action) * self.max_pressure, self.state, self.state
        residual, converged = 0.0, True
        for _ in range(frames_per_action):
            state, report = self.solver.step(state, pressures)
            residual, converged = max(residual, state.residual), converged and report.reached
            if not np.isfinite(state.residual):
                return self.observation(), 0.0, True, False, {"residual": np.inf, "converged": False}
        self.state = state
        shift = (state.center_of_mass - before.center_of_mass)[:2]
        reward = float(shift @ self.goal) / (frames_per_action * self.solver.dt)
        return self.observation(), reward, False, False, {"residual": residual, "converged": converged}

    def observation(self) -> Any:
        """Return what is observed of the present state, as the class says."""
        state, chain = self.state, self.robot.carriages[0]
        head = matrices(state.orientations)[chain[-1]]
        velocity = head.T @ (state.momentum / (self.robot.particle_masses.sum() + self.robot.body_masses.sum()))
        c, s = head[:2, 0] / np.linalg.norm(head[:2, 0])
        goal = np.array([[c, s], [-s, c]]) @ self.goal
        rates, filled = np.diff(state.spins[chain, 2]), state.pressures / self.max_pressure
        return self.observed(state.bend_angles[0], rates, filled, velocity[:2], goal)
