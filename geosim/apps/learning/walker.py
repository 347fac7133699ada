"""A walker on two pneumatic legs, one behind the other: go forward."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from geosim.apps.learning.episode import Scene
from geosim.apps.learning.moving import MovingEpisode
from geosim.arrays import Ints, number
from geosim.geometry.cells import EMPTY, cells
from geosim.material.laws import NeoHookean
from geosim.model.environment import EARTH_GRAVITY, Environment, Obstacle
from geosim.model.robot import VolumetricRobot


class WalkerEnv(MovingEpisode):
    """Two broad legs of two chambers under a back along x; a leg under pressure bends back (-x). One action is 50 ms.

    - Action (2,) in [-1, 1]: pressures of the hind and the fore leg, over 18 kPa from -1 (none) to 1.
    - Observation (17,), float32: pressures over 18 kPa (2,), volumes of the chambers over those at rest (2,), feet from the
      middle of the back [m] (6,), height of the back [m] (1,) and its velocity [m/s] (3,), direction of the back (3,).
    - Reward: how far the middle of the back has gone along x [mm].
    - Terminated when the back is lower than 70 % of its height, or the solver stopped (`info["status"]`).
    - `reset` draws the friction of the ground; `options` may give "friction".
    """

    parts, chambers_each, max_pressure = 2, 2, 18e3
    frictions = (0.5, 0.7)
    least_height = 0.7  # of the height at rest: below it the walker has tipped over
    material = NeoHookean(mu=6e4, bulk_modulus=6e5, density=1070.0)

    def build(self) -> None:
        """Make robot and spaces."""
        self._place(float(np.mean(self.frictions)))
        self.make_spaces(self.parts)

    @cached_property
    def _body(self) -> VolumetricRobot:
        """The back, 5 mm thick, on two legs of 30 mm."""
        lengths = np.array([8.0, 4.0, 9.0, 2.0, 40.0, 4.0, 9.0, 2.0]) * 1e-3  # behind; spine, chamber, wall of each leg
        heights = np.array([4.0, 2.0, 6.0, 2.0, 2.0, 2.0, 6.0, 2.0, 3.0, 5.0]) * 1e-3  # a foot first, the back last
        regions = np.full((len(lengths), 4, len(heights)), EMPTY)
        regions[:, :, -1] = 0
        for leg, spine in enumerate((1, 5)):
            regions[spine, :, :] = 0
            regions[spine + 1 : spine + 3, :, 1:] = 0
            regions[spine + 1 : spine + 3, :, 4] = EMPTY
            regions[spine + 1, 1:3, [2, 6]] = 1 + self.chambers_each * leg + np.arange(self.chambers_each)[:, None]
        planes = (np.append(0.0, np.cumsum(lengths)), np.array([-9.0, -7.0, 0.0, 7.0, 9.0]) * 1e-3)
        vertices, tets, of = cells((*planes, np.append(0.0, np.cumsum(heights))), regions)
        return VolumetricRobot.from_tets(vertices, tets, of, material=self.material, fixed=None, name="walker")

    @cached_property
    def _back(self) -> Ints:
        z = self._body.vertices[:, 2]
        return np.flatnonzero(z > z.max() - 1e-9)

    @cached_property
    def _feet(self) -> list[Ints]:
        x, z = self._body.vertices[:, 0], self._body.vertices[:, 2]
        low = z < z.min() + 1e-9
        return [np.flatnonzero(low & side) for side in (x < x.mean(), x > x.mean())]

    def _place(self, friction: float) -> None:
        """Put the walker on the ground, at rest."""
        clearance = 0.2e-3  # m
        ground = Obstacle.plane((0.0, 0.0, -clearance), (0.0, 0.0, 1.0), friction=friction)
        around = Environment(gravity=(0.0, 0.0, -EARTH_GRAVITY), obstacles=[ground], self_contact=False)
        self.scene = Scene.started(self._body, around, self.stepper)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put the walker at its beginning; draw the friction of the ground."""
        super().reset(seed=seed)
        drawn = self.np_random.uniform(*self.frictions)
        self._place(number((options or {}).get("friction", drawn), "options: friction", low=0.0))
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Bring the legs to their pressures over one period."""
        before = self.place(self._back)
        report = self.pressed(0.5 * self.max_pressure * (1.0 + self.checked(action)))
        now = self.place(self._back)
        tipped = bool(now[2] < self.least_height * self._body.vertices[:, 2].max())
        info = {"status": report.status.name, "place": float(now[0]), "tipped": tipped}
        return self.observation(), 1e3 * float(now[0] - before[0]), tipped or not report.reached, False, info

    def observation(self) -> Any:
        """Return what is observed of the present state, as the class says."""
        middle = self.place(self._back)
        feet = [self.place(foot) - middle for foot in self._feet]
        along = self.state.frame.nodes[self._back]
        x = self._body.vertices[self._back, 0]
        ahead = along[x == x.max()].mean(axis=0) - along[x == x.min()].mean(axis=0)
        heading = ahead / np.linalg.norm(ahead)
        moving = (middle[2:], self.velocity(self._back), heading)
        return self.observed(self.pressures / self.max_pressure, self.filling, *feet, *moving)
