"""Error bars of equilibria of rods: from rods with every edge split in two, and from implicit slopes.

Half an edge at the ends of a rod bends with no stencil of its own. Errors therefore fall like h where a rod is held or driven.
They fall like h^2 elsewhere. The bar takes the first rate with the safety factor of bodies: 2.3 times what the finer rods change.
In contact, whose points are the vertices, the direction of an error is not known: every component has the largest bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError, SolveError
from geosim.model.tolerances import Tolerances
from geosim.response.accuracy.correction import LINEAR_BAR_FACTOR, with_least_components
from geosim.response.accuracy.material import ConstantsFit, of_rods
from geosim.response.accuracy.tolerances import terms_of
from geosim.response.derivatives.rods import rod_measure, rod_rates
from geosim.result import Result
from geosim.rods.refined import RefinedRods
from geosim.rods.robot import RodShellRobot
from geosim.rods.slopes import RodEquilibrium
from geosim.solve import solve


class RodBars:
    """An equilibrium of rods, the same on rods with split edges, and its slopes."""

    def __init__(self, result: Result, frame: int, material: ConstantsFit | None, given: Tolerances | None) -> None:
        if result.checked_frame(frame) != len(result.frames) - 1:
            raise InputError(
                "error_bars: of rods the last frame alone has a tangent; solve for that command alone, or cut the actuation"
            )
        robot, actuation = result.robot, result.actuation
        assert isinstance(robot, RodShellRobot)
        self.result, self.at, self.given = result, RodEquilibrium.of(result), given
        assert actuation is not None
        if result.provenance.get("continued"):
            raise InputError("error_bars: the solve began from another result; give all commands in one solve")
        self.refined = RefinedRods(robot)
        try:
            self.fine = solve(
                self.refined.fine,
                self.refined.actuation(actuation),
                self.refined.environment(result.environment),
                solver=self.refined.solver(self.at.solver),
            )
        except SolveError as error:
            raise InputError(f"error_bars: the rods with split edges have no equilibrium: {error}") from None
        self.names, self.known = of_rods(robot, material)
        wanted = [*self.names, *(["radius"] if given is not None and given.wall else [])]
        found = rod_rates(self.at, [self.at.by_constant(name) for name in wanted]) if wanted else np.zeros((0, 0))
        self.rates: Mapping[str, Floats] = dict(zip(wanted, found.T))

    def terms(self, of: Any) -> tuple[Floats, dict[str, Floats], str]:
        """Return a measure, the half-widths of all its terms, and what is not known."""
        value, gradient = rod_measure(of, self.result)
        bar = with_least_components(LINEAR_BAR_FACTOR * np.abs(self._finer(of) - value))
        if self.result.contact_forces[-1].any() or self.fine.contact_forces[-1].any():
            bar = np.full_like(bar, bar.max(initial=0.0))
        slopes = [gradient @ self.rates[name] for name in self.names]
        scatter = self.known.half_width(np.stack(slopes, axis=-1) if slopes else np.zeros((*value.shape, 0)))
        terms = {"mesh": bar, "material": scatter, "faceting": np.zeros_like(bar)}
        if self.given is not None:
            terms |= self._tolerances(self.given, of, np.asarray(value), gradient)
        return np.array(value), terms, self.known.missing

    def _finer(self, of: Any) -> Floats:
        """Return a measure of the finer rods: those of positions at the vertices of the coarse ones."""
        if of in ("tip", "bend_angle"):
            return np.asarray(rod_measure(of, self.fine)[0])
        x = self.fine.frames[-1][self.refined.kept]
        return np.asarray(of(x)[0] if callable(of) else x)

    def _tolerances(self, given: Tolerances, of: Any, value: Floats, gradient: Floats) -> dict[str, Floats]:
        """Return the half-widths of tolerances: of the radius, the clamp, the marker and the model; there are no gauges."""
        slopes = {
            "geometry": lambda: np.abs(gradient @ self.rates["radius"]),
            "gauge": lambda: np.zeros(value.shape),
            "clamp": lambda: self._by_clamp(of, gradient),
            "marker": lambda: np.full(value.shape, float(of == "tip")),
            "model": lambda: np.abs(value - self._at_rest(of)),
        }
        return terms_of(given, slopes)

    def _by_clamp(self, of: Any, gradient: Floats) -> Floats:
        """Return what a measure changes by per radian that the support turns, about three axes independently."""
        if of == "bend_angle":
            return np.zeros(gradient.shape[:-1])
        robot = self.at.robot
        held = robot.vertices[robot.fixed_vertices].mean(axis=0) if len(robot.fixed_vertices) else np.zeros(3)
        turns = np.cross(np.eye(3)[:, None], self.result.frames[-1] - held).reshape(3, -1)
        return np.asarray(np.sqrt(((gradient @ turns.T) ** 2).sum(axis=-1)))

    def _at_rest(self, of: Any) -> Floats:
        robot = self.at.robot
        if of == "bend_angle":
            return np.zeros(())
        if of == "tip":
            return np.asarray(robot.vertices[-1])
        return np.asarray(of(robot.vertices)[0] if callable(of) else robot.vertices)
