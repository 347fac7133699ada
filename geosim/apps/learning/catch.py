"""Two pneumatic fingers and a ball on a pedestal that falls away: hold the ball."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import trimesh

from geosim.apps.learning.episode import Scene
from geosim.apps.learning.moving import MovingEpisode
from geosim.arrays import Floats, Ints
from geosim.geometry.cells import EMPTY, cells
from geosim.material.laws import NeoHookean
from geosim.model.environment import EARTH_GRAVITY, Environment, Obstacle
from geosim.model.robot import VolumetricRobot

BALL = 7  # its region, after those of six chambers


class CatchEnv(MovingEpisode):
    """Two hanging fingers of three chambers, and a ball that they hold when its support falls away: one action is 50 ms.

    - Action (2,) in [-1, 1]: what each finger's pressure changes by, over 6 kPa; pressures stay between 0 and 40 kPa.
    - Observation (17,), float32: pressures over 40 kPa (2,), volumes of the chambers over those at rest (2,), ends of the
      fingers [m] (6,), centre [m] (3,) and velocity [m/s] (3,) of the ball, and 1 once the support has gone (1,).
    - Reward: 0 before the support falls, after it 1 less the distance of the ball from its place over 20 mm, at least 0.
    - Terminated when the ball is 20 mm from its place, or the solver stopped (`info["status"]`).
    - `reset` draws the place of the ball along x and its density; `options` may give "offset" [m], "density" [kg/m^3].
    """

    parts, chambers_each, max_pressure = 2, 3, 40e3
    max_pressure_step = 6e3  # Pa: five actions bring a finger to what holds the ball
    ball_radius, ball_depth = 10e-3, 32e-3  # m
    ball_offsets, ball_densities = (-1e-3, 1e-3), (300.0, 500.0)  # m, kg/m^3
    lost_distance = 20e-3  # m: the ball has left the fingers
    actions, supported = 20, 8  # of an episode, and as long as the support stands
    friction = 0.8  # of fingers and ball
    soft = NeoHookean(mu=1.5e5, bulk_modulus=1.5e6, density=1070.0)
    hard = NeoHookean(mu=5e5, bulk_modulus=1e6, density=400.0)

    def build(self) -> None:
        """Make robot and spaces."""
        self._place(0.0, float(np.mean(self.ball_densities)))
        self.make_spaces(self.parts)

    @cached_property
    def _hand(self) -> VolumetricRobot:
        """The fingers, and the ball in their middle."""
        vertices, tets, regions = _finger()
        mirrored = vertices * np.array([-1.0, 1.0, 1.0])
        ball = trimesh.creation.icosphere(1, self.ball_radius)
        middle = np.array([0.0, 0.0, -self.ball_depth])
        core = np.column_stack([ball.faces[:, [0, 2, 1]], np.full(len(ball.faces), len(ball.vertices))])
        points = np.vstack([vertices, mirrored, ball.vertices + middle, middle])
        count = len(vertices)
        return VolumetricRobot.from_tets(
            points,
            np.vstack([tets, count + tets[:, [0, 2, 1, 3]], 2 * count + core]),
            np.concatenate([regions, regions + self.chambers_each * (regions > 0), np.full(len(core), BALL)]),
            material={0: self.soft, BALL: self.hard},
            fixed=points[:, 2] > -1e-9,
            name="catch",
        )

    @cached_property
    def _of_ball(self) -> Ints:
        return np.unique(self._hand.tets[self._hand.regions == BALL])

    @cached_property
    def _ends(self) -> list[Ints]:
        rest, x = self._hand.vertices, self._hand.vertices[:, 0]
        lowest = np.setdiff1d(np.flatnonzero(rest[:, 2] < rest[:, 2].min() + 1e-6), self._of_ball)
        return [lowest[x[lowest] > 0.0], lowest[x[lowest] < 0.0]]

    def _place(self, offset: float, density: float) -> None:
        """Put a ball on a support between the fingers at rest."""
        shift = np.array([offset, 0.0, 0.0])
        points = self._hand.vertices.copy()
        points[self._of_ball] += shift
        materials = {**self._hand.materials, BALL: replace(self.hard, density=density)}
        robot = replace(self._hand, vertices=points, materials=materials)
        top = np.array([0.0, 0.0, -self.ball_depth - self.ball_radius]) + shift
        fall = 50e-3  # m in one action: faster than a ball falls
        drops = np.maximum(np.arange(self.actions) + 1 - self.supported, 0)
        support = Obstacle.cylinder(
            top - [0.0, 0.0, 40e-3], top, 6e-3, friction=0.5, motion=np.outer(drops, [0.0, 0.0, -fall])
        )
        around = Environment(gravity=(0.0, 0.0, -EARTH_GRAVITY), obstacles=[support], self_friction=self.friction)
        self.scene = Scene.started(robot, around, self.stepper)

    @property
    def _drop(self) -> float:
        """Distance of the ball from its place [m]."""
        return float(np.linalg.norm(self.place(self._of_ball) - self.robot.vertices[self._of_ball].mean(axis=0)))

    @property
    def _released(self) -> bool:
        return bool(self.state.time > self.supported * self.period + 1e-9)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Vent the fingers; draw a ball."""
        super().reset(seed=seed)
        ranges = {"offset [m]": self.ball_offsets, "density [kg/m^3]": self.ball_densities}
        self._place(*self.drawn(options, ranges))
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Change the pressures over one period."""
        report = self.pressed(self.pressures + self.max_pressure_step * self.checked(action))
        drop = self._drop
        lost = drop > self.lost_distance
        reward = max(0.0, 1.0 - drop / self.lost_distance) if self._released else 0.0
        info = {"status": report.status.name, "drop": drop, "released": self._released}
        return self.observation(), reward, lost or not report.reached, False, info

    def observation(self) -> Any:
        """Return what is observed of the present state, as the class says."""
        ends = [self.place(end) for end in self._ends]
        ball = self.place(self._of_ball), self.velocity(self._of_ball)
        return self.observed(self.pressures / self.max_pressure, self.filling, *ends, *ball, [float(self._released)])


def _finger() -> tuple[Floats, Ints, Ints]:
    """Tets of the finger at +x: its base towards the ball, three chambers outside, its root at z = 0."""
    chambers = CatchEnv.chambers_each
    lengths = np.array([4.0, *(2.0, 6.0, 2.0, 2.0) * (chambers - 1), 2.0, 6.0, 2.0, 4.0]) * 1e-3
    planes = (
        np.array([12.0, 16.0, 26.0, 28.0]) * 1e-3,
        np.array([-7.0, -5.0, 0.0, 5.0, 7.0]) * 1e-3,
        np.append(0.0, np.cumsum(lengths)) - lengths.sum(),
    )
    regions = np.zeros((3, 4, len(lengths)), dtype=np.int64)
    for k in range(chambers):
        regions[1, 1:3, 2 + 4 * k] = 1 + k
        regions[1:, :, 4 + 4 * k : 5 + 4 * k] = EMPTY if k < chambers - 1 else 0
    return cells(planes, regions)
