"""Equilibria of rods as a function of numbers, with slopes; and the function of a robot of either kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, choice
from geosim.errors import InputError
from geosim.model.actuation import Passive
from geosim.model.contract import taken
from geosim.model.robot import VolumetricRobot
from geosim.response.controls import SteerableRobot, actuation_of, bend_groups, control_of
from geosim.response.derivatives.rods import ROD_MEASURES, rod_measure, rod_rates, rod_slopes
from geosim.response.equilibria import EquilibriumFunction
from geosim.result import Result
from geosim.rods.robot import RodShellRobot
from geosim.rods.slopes import RodEquilibrium, constant, with_constant
from geosim.rods.stepper import RodShellStepper
from geosim.shape.energy.solver import EnergyShapeSolver

Solver = EnergyShapeSolver | RodShellStepper


def default_solver(robot: Any, solver: Solver | None, caller: str, **options: Any) -> Solver:
    """Return the solver of equilibria of a robot: the one given, or its default (`options` of EnergyShapeSolver).

    Raises
    ------
    InputError
        The robot is of no kind that can be steered, or the solver is not for it; `caller` begins the message.
    """
    if not isinstance(robot, RodShellRobot):
        taken(robot, VolumetricRobot, caller)
        return taken(EnergyShapeSolver(**options) if solver is None else solver, EnergyShapeSolver, f"{caller}: solver")
    found = taken(RodShellStepper(static=True) if solver is None else solver, RodShellStepper, f"{caller}: solver")
    if not found.static:
        raise InputError(f"{caller}: solver = RodShellStepper(static=False) finds motions; use static=True")
    return found


def function_of(robot: SteerableRobot, vary: str, **options: Any) -> EquilibriumFunction:
    """Return the equilibria of a robot of either kind as a function of numbers; `options` as of `EquilibriumFunction`."""
    if isinstance(robot, RodShellRobot):
        return RodEquilibriumFunction(robot, vary, **options)
    return EquilibriumFunction(robot, vary, **options)


def function_of_names(
    robot: SteerableRobot,
    vary: str,
    material: Mapping[str, Any] | None,
    dimensions: Mapping[str, Any] | None,
    of: str | Sequence[str],
    **options: Any,
) -> tuple[EquilibriumFunction, list[Any]]:
    """Return the function of named constants, dimensions and measures, and the constants and dimensions themselves."""
    named, sized = dict(material or {}), dict(dimensions or {})
    measures = (of,) if isinstance(of, str) else tuple(of)
    function = function_of(robot, vary, material=tuple(named), dimensions=tuple(sized), of=measures, **options)
    return function, list({**named, **sized}.values())


@guarded
@dataclass(frozen=True)
class RodEquilibriumFunction(EquilibriumFunction):
    """Rows of numbers (b, p) -> measures of equilibria of rods, and their derivatives.

    `vary` is "cable_tension" [N], "cable_length" [m] or "curvature" [1/m], about kappa1 and kappa2 of every limb; constants are
    "youngs_modulus" and "density"; the one dimension is "radius" [m].
    """

    robot: Any
    vary: str = "cable_tension"
    solver: Any = None

    def __post_init__(self) -> None:
        default_solver(self.robot, self.solver, "shape")
        if len(self.material) + len(self.dimensions) == 0:
            control_of(self.robot, self.vary, "shape")
        for name in self.of:
            choice(name, "shape: of", ROD_MEASURES)
        for name in self.dimensions:
            choice(name, "shape: dimensions", ("radius",))
        for name in (*self.material, *self.dimensions):
            constant(self.robot, name)

    def problem(self, row: Floats) -> dict[str, Any]:
        """Return the arguments of `solve` for a row (p,)."""
        m, robot = self.controls, self.robot
        for name, value in zip((*self.material, *self.dimensions), row[m:].tolist()):
            robot = with_constant(robot, name, value)
        actuation = actuation_of(robot, self.vary, row[:m]) if m else Passive()
        solver = default_solver(robot, self.solver, "shape")
        return dict(robot=robot, actuation=actuation, environment=self.environment, solver=solver)

    def slopes(self, result: Result) -> list[Floats]:
        """Return the derivative of every measure at one equilibrium by all numbers of a row, (values, p) each."""
        at, found = RodEquilibrium.of(result), []
        if self.control.name == "curvature":
            found = [at.by_curvature(group, axis) for group in bend_groups(self.robot) for axis in (0, 1)]
        elif self.controls:
            found = rod_slopes(at, self.control.name)[1]
        rates = rod_rates(at, found + [at.by_constant(name) for name in (*self.material, *self.dimensions)])
        return [np.asarray(rod_measure(name, result)[1].reshape(-1, len(rates)) @ rates) for name in self.of]
