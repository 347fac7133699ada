"""A hanging soft arm: bring the tip to a point and hold it there."""

from __future__ import annotations

from typing import Any

import numpy as np
import trimesh

from geosim.apps.learning.episode import PICTURE_PIXELS, Episode, Scene
from geosim.arrays import Floats, floats
from geosim.material.materials import LinearElastic
from geosim.model.actuation import Command, NaturalShape
from geosim.model.environment import EARTH_GRAVITY, Environment
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.state import RodState
from geosim.rods.stepper import RodShellStepper
from geosim.show.raster import Camera, camera_for


class RodReachEnv(Episode):
    """An arm of three sections that bend, hanging from the origin: one action is 0.1 s.

    - Action (6,) in [-1, 1]: natural curvatures of the sections from the root to the tip, in both directions, over 8 1/m;
      they change linearly over the action.
    - Observation (24,), float32: natural curvatures over 8 1/m (6,), ends of the sections [m] (9,), velocity of the tip [m/s]
      (3,), the goal [m] (3,), from the tip to the goal [m] (3,).
    - Reward: minus the distance of the tip from the goal [m].
    - Terminated when it is within 10 mm, or the solver stopped (`info["status"]`).
    - `reset(options={"goal": (x, y, z)})` sets the goal [m]; else it is drawn.

    A subclass may give the arm other numbers.
    """

    length, radius, nodes, sections = (
        0.3,
        0.01,
        16,
        3,
    )  # m, m; an arm as long as thirty of its radii bends, and hardly shears
    material = LinearElastic(youngs_modulus=1e7, poisson_ratio=0.49, density=1070.0)  # stiff enough to lift itself
    max_curvature = 8.0  # 1/m that an action of 1 commands: the whole arm turns by 2.4 rad
    goal_curvatures = (1.0, 5.0)  # 1/m: goals are tips of arcs of these curvatures, which weight leaves within reach
    action_period, dt, damping = 0.1, 0.02, 2.0  # s, s, 1/s
    reached_distance = 0.01  # m: a radius of the arm

    def build(self) -> None:
        """Make robot, solver and spaces."""
        limb = Limb((0, 0, 0), (0, 0, -self.length), self.nodes, self.radius, self.material)
        robot = RodShellRobot.from_limbs([limb], fixed_vertices=(0, 1), fixed_edges=(0,))
        solver = RodShellStepper(dt=self.dt, integrator="generalized-alpha", damping=self.damping)
        self.scene = Scene.started(robot, Environment(gravity=(0, 0, -EARTH_GRAVITY), self_contact=False), solver)
        self._first: RodState = self.state
        self._bent = np.zeros(2 * self.sections)
        self.goal = np.zeros(3)
        self.make_spaces(2 * self.sections)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Let the arm hang at rest and draw a goal."""
        super().reset(seed=seed)
        curvature, angle = self.np_random.uniform(*self.goal_curvatures), self.np_random.uniform(-np.pi, np.pi)
        turn = curvature * self.length
        out = (1.0 - np.cos(turn)) / curvature
        drawn = out * np.cos(angle), out * np.sin(angle), -np.sin(turn) / curvature
        self.goal = floats((options or {}).get("goal", drawn), "options: goal [m]", (3,))
        self.state, self._bent = self._first, np.zeros(2 * self.sections)
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Bend the sections towards the commanded curvatures over one action."""
        wanted, begin = self.checked(action), self.state.time
        rows = self.max_curvature * np.array([self._bent, wanted]).reshape(2, self.sections, 2)
        bends = np.arange(self.nodes - 2)  # of the nodes between two edges; equally many a section
        shape = NaturalShape(
            (begin, begin + self.action_period), curvature=rows[:, bends * self.sections // len(bends)]
        )
        self.state, report = self.solver.step(self.state, Command(0, begin + self.action_period, (shape,)))
        self._bent = wanted
        distance = float(np.linalg.norm(self.goal - self.state.positions[-1]))
        info = {"status": report.status.name, "distance": distance, "is_success": distance <= self.reached_distance}
        return self.observation(), -distance, distance <= self.reached_distance or not report.reached, False, info

    def observation(self) -> Any:
        """Return what is observed of the present state, as the class says."""
        x, tip = self.state.positions, self.state.positions[-1]
        ends = np.linspace(0, self.nodes - 1, self.sections + 1).round().astype(int)[1:]
        parts = (self._bent, x[ends].ravel(), self.state.velocities[-1], self.goal, self.goal - tip)
        return self.observed(*parts)

    def marks(self) -> list[tuple[Floats, Any]]:
        """A ball at the goal."""
        ball = trimesh.creation.icosphere(2, self.reached_distance)
        return [(ball.vertices + self.goal, ball.faces)]

    def camera(self, points: Floats) -> Camera:
        """Show all that the arm can reach."""
        span = self.length * np.array([[-1, -1, -1.1], [1, 1, 0.3]])
        return camera_for(span, span, aspect=PICTURE_PIXELS[0] / PICTURE_PIXELS[1])
