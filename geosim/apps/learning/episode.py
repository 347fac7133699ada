"""Common part of the reinforcement-learning environments: state, seeded reset, checked actions, rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from geosim.arrays import Floats, choice, floats
from geosim.errors import InputError
from geosim.model.contract import Report, Robot, Solver, State, Status
from geosim.model.environment import Environment
from geosim.result import collect
from geosim.show.colors import OBSTACLE, rgb
from geosim.show.contact import OBSTACLE_OPACITY, obstacle_surfaces
from geosim.show.fields import shown_surface
from geosim.show.raster import Camera, RasterLayer, camera_for, draw

PICTURE_PIXELS = (480, 320)  # pixels
# of an observation, in its unit (m, m/s, rad, rad/s, N, shares): far beyond what the robots do unless they fail
MAX_OBSERVATION = 1e3
ROBOT_RGB, GOAL_RGB = (np.array([0.20, 0.45, 0.70]), np.array([0.85, 0.25, 0.15]))


@dataclass(frozen=True)
class Scene:
    """A robot, what surrounds it, its solver, and the state that the solver has reached."""

    robot: Robot
    surroundings: Environment
    solver: Solver[Any]
    state: State

    @classmethod
    def started(cls, robot: Robot, surroundings: Environment, solver: Solver[Any]) -> Scene:
        """Return the scene at the start of a solver."""
        return cls(robot, surroundings, solver, solver.start(robot, surroundings))


class Episode(gymnasium.Env[np.ndarray, np.ndarray]):
    """Root of the environments.

    Subclasses set `scene`, `action_space` and `observation_space` in `build`, and write `reset` and `step`, which replace the
    state. Everything random is drawn from `np_random`, which `reset(seed=...)` seeds.

    Parameters
    ----------
    render_mode
        None or "rgb_array".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (the name and kind that Gymnasium reads)
    scene: Scene

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode is not None:
            choice(render_mode, "render_mode", tuple(self.metadata["render_modes"]))
        self.render_mode = render_mode
        self.build()

    def build(self) -> None:
        """Make what stays from episode to episode; environments with parameters of their own do so when they are made."""

    def observation(self) -> Any:
        """Return what is observed of the present state."""
        raise NotImplementedError

    def make_spaces(self, actions: int) -> None:
        """Make the spaces of `actions` numbers between -1 and 1, and of observations, in single precision."""
        self.action_space = Box(-1.0, 1.0, (actions,), np.float32)
        self.observation_space = Box(-MAX_OBSERVATION, MAX_OBSERVATION, self.observation().shape, np.float32)

    @property
    def robot(self) -> Any:
        """The robot."""
        return self.scene.robot

    @property
    def surroundings(self) -> Environment:
        """What surrounds the robot."""
        return self.scene.surroundings

    @property
    def solver(self) -> Any:
        """The solver of every step."""
        return self.scene.solver

    @property
    def state(self) -> Any:
        """The state that the solver has reached."""
        return self.scene.state

    @state.setter
    def state(self, state: Any) -> None:
        self.scene = replace(self.scene, state=state)

    def observed(self, *parts: Any) -> Any:
        """Return an observation of several parts, float32, within the bounds of its space."""
        return np.clip(np.concatenate(parts), -MAX_OBSERVATION, MAX_OBSERVATION).astype(np.float32)

    def drawn(self, options: Mapping[str, Any] | None, ranges: Mapping[str, tuple[float, float]]) -> Floats:
        """Return a number for each name with its unit, "offset [m]": what the options give, else drawn from its range."""
        given = options or {}
        values = [given.get(name.partition(" ")[0], self.np_random.uniform(*ends)) for name, ends in ranges.items()]
        return floats(values, f"options: {', '.join(ranges)}", (len(ranges),))

    def checked(self, action: Any) -> Floats:
        """Return an action in double precision.

        Raises
        ------
        InputError
            It does not belong to the action space.
        """
        given = np.asarray(action, dtype=np.float32)
        if not self.action_space.contains(given):
            raise InputError(f"{type(self).__name__}: an action is of {self.action_space}, given {action!r}")
        return given.astype(float)

    def render(self) -> Any:
        """Return a picture of the present state, uint8 (320, 480, 3), or None without a render_mode."""
        if self.render_mode is None:
            return None
        result = collect(self.robot, self.surroundings, self.solver, [self.state], [Report(Status.CONVERGED)], None)
        shown = shown_surface(result, 0, 0)
        layers = [RasterLayer(shown.points, shown.triangles, ROBOT_RGB)]
        layers += [
            RasterLayer(p, t, rgb(OBSTACLE), OBSTACLE_OPACITY)
            for p, t in obstacle_surfaces(result, 0, np.vstack([shown.points, shown.rest]))
        ]
        layers += [RasterLayer(p, t, GOAL_RGB) for p, t in self.marks()]
        image = draw(layers, self.camera(shown.points), PICTURE_PIXELS)
        return np.round(255.0 * image).astype(np.uint8)

    def marks(self) -> list[tuple[Floats, Any]]:
        """Surfaces (points [m], triangles) that show the goal."""
        return []

    def camera(self, points: Floats) -> Camera:
        """Return what the picture shows, given the points [m] of the robot's surface."""
        return camera_for(points, points, aspect=PICTURE_PIXELS[0] / PICTURE_PIXELS[1])
