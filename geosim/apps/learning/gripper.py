"""A gripper of two pneumatic fingers: squeeze a ball with a given force, one equilibrium after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.apps.learning.episode import Episode, Scene
from geosim.arrays import Bools, Floats
from geosim.generate.boxes import pneunet
from geosim.generate.gripper import gripper
from geosim.model.actuation import Command, Inflation
from geosim.model.environment import Environment, Obstacle
from geosim.shape.energy.solver import EnergyShapeSolver


@dataclass(frozen=True)
class Grip:
    """Centre and radius of the ball [m] (4,), the goal [N], pressures [Pa] and forces [N] of the fingers, (fingers,) each."""

    ball: Floats
    goal: float
    pressures: Floats
    forces: Floats

    @property
    def misses(self) -> Floats:
        """Relative distances of the forces from the goal, (fingers,)."""
        return np.asarray(abs(self.forces / self.goal - 1.0))


class GripperEnv(Episode):
    """Two fingers of three chambers over a ball that does not give way: one action is one pressure step to equilibrium.

    - Action (2,) in [-1, 1]: what each finger's pressure changes by, over 3 kPa; pressures stay between 0 and 30 kPa.
    - Observation (15,), float32: pressures over 30 kPa (2,), ends of the fingers [m] (6,), force of each finger on the ball
      over the goal (2,), centre [m] (3,) and radius [m] of the ball, goal [N].
    - Reward: minus the mean of |force - goal| / goal over the fingers.
    - Terminated when both forces are within a tenth of the goal (`info["is_success"]`), or the equilibrium was not found
      (`info["status"]`); then the state stays at the last equilibrium.
    - `reset` draws radius and place of the ball and the goal; `options` may give "radius" [m], "offset" [m], "force" [N].
    """

    fingers = 2
    # Pa: the most that an action adds; at the highest a finger that bends freely has turned far.
    max_pressure_step, max_pressure = 3e3, 30e3
    # m: balls that the ends of the fingers come to in some steps.
    ball_radii, ball_offsets, ball_depth = (11e-3, 12.5e-3), (-1e-3, 1e-3), 32e-3
    grip_forces = (0.02, 0.05)  # N: what both fingers reach below the highest pressure
    goal_tolerance = 0.1  # of the goal
    # Coarse and linear, so that an equilibrium takes about a second: trends are right, numbers a few per cent off.
    max_edge = 16e-3  # m
    material = "ecoflex-00-30-fang2022"  # for which the pressures were chosen

    def build(self) -> None:
        """Make robot, solver and spaces."""
        finger = pneunet(
            chambers=3, chamber_length=6e-3, wall=2e-3, gap=2e-3, width=14e-3, height=16e-3, base=4e-3, cap=3e-3
        )
        robot = gripper(finger, self.fingers, radius=14e-3, palm=4e-3).robot(
            self.material, max_edge=self.max_edge, preview=True
        )
        solver = EnergyShapeSolver(element="p1", tolerance=1e-3, contact_thickness=0.2, check_stability=False)
        self.scene = Scene.started(robot, Environment(self_contact=False), solver)
        self._place(float(np.mean(self.ball_radii)), 0.0, float(np.mean(self.grip_forces)))
        self.make_spaces(self.fingers)

    def _place(self, radius: float, offset: float, force: float) -> None:
        """Put a ball between the fingers at rest."""
        still = np.zeros(self.fingers)
        self.grip = Grip(np.array([offset, 0.0, -self.ball_depth, radius]), force, still, still)
        around = Environment(obstacles=[Obstacle.sphere(self.grip.ball[:3], radius)], self_contact=False)
        self.scene = Scene.started(self.robot, around, self.solver)

    @property
    def sides(self) -> list[Bools]:
        """Which vertices belong to each finger."""
        x = self.robot.vertices[:, 0]
        return [x > 0.0, x < 0.0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Vent the fingers; draw a ball and a goal."""
        super().reset(seed=seed)
        ranges = {"radius [m]": self.ball_radii, "offset [m]": self.ball_offsets, "force [N]": self.grip_forces}
        self._place(*self.drawn(options, ranges))
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Change the pressures and find the next equilibrium."""
        pressures = self.grip.pressures + self.max_pressure_step * self.checked(action)
        pressures = np.clip(pressures, 0.0, self.max_pressure)
        state, report = self.solver.step(self.state, Command(0, 1.0, (Inflation(pressure=[pressures]),)))
        if report.reached:
            self.state = state
            self.grip = replace(self.grip, pressures=pressures, forces=self._squeeze(state.frame.contact_forces))
        miss = self.grip.misses
        success = bool((miss <= self.goal_tolerance).all())
        info = {"status": report.status.name, "forces": self.grip.forces.copy(), "is_success": success}
        return self.observation(), -float(miss.mean()), success or not report.reached, False, info

    def _squeeze(self, forces: Floats | None) -> Floats:
        """Force with which each finger presses on the ball [N], (2,)."""
        if forces is None:
            return np.zeros(self.fingers)
        return np.array([np.linalg.norm(forces[side].sum(axis=0)) for side in self.sides])

    def observation(self) -> Any:
        """Return what is observed of the present state, as the class says."""
        nodes, rest, grip = self.state.frame.nodes, self.robot.vertices, self.grip
        ends = [np.flatnonzero(side & (rest[:, 2] < rest[side, 2].min() + 1e-6)) for side in self.sides]
        tips = [nodes[end].mean(axis=0) for end in ends]
        parts = (grip.pressures / self.max_pressure, *tips, grip.forces / grip.goal, grip.ball, [grip.goal])
        return self.observed(*parts)
