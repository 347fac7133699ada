"""Equilibria as a function of numbers, with slopes: what searches, reduced models, PyTorch and JAX differentiate through.

A row of numbers holds the controls, then constants of the material, then dimensions of the design. With residuals R(z; q) = 0
of a row q and outputs m(z; q) the derivative is

    dm/dq = dm/dq|_z - dm/dz K^-1 dR/dq,

so one factorisation of the tangent K serves all outputs and all numbers of a row, with a solve for each number or for each value
of the outputs, whichever are fewer (see `derivatives.parameters`). A transposed derivative c^T dm/dq is its contraction.
Dimensions move the vertices of the robot's own mesh, X(d) = X + sum_j (d_j - d_j0) V_j, with the motions V_j of
`derivatives.rest_shape.design_motion`: exact for plane walls, to first order for round ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, choice, shown
from geosim.errors import InputError, SolveError
from geosim.generate import Design
from geosim.geometry import topology
from geosim.linear.factorise import FactorisationError
from geosim.measures.spine import moved_spine, spine
from geosim.measures.turning import bending
from geosim.model.actuation import Passive
from geosim.model.contract import taken
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.controls import CONTROLS, Control, actuation_of
from geosim.response.derivatives.equilibrium import NoUniqueTangentError, equilibrium
from geosim.response.derivatives.parameters import Columns, Constant, Differences, columns, refuse_closed
from geosim.response.derivatives.quantities import (
    DIFFERENTIABLE_MEASURES,
    Bending,
    ContactConfiguration,
    Positions,
    Quantity,
    Several,
    quantity,
)
from geosim.response.derivatives.rest_shape import design_motion
from geosim.response.derivatives.tangent import Tangent
from geosim.result import Result, Status
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.solve import solve, solve_many

OUTPUTS = ("positions", *DIFFERENTIABLE_MEASURES)


def common_rows(lengths: Iterable[int]) -> int:
    """Return the number of rows of columns that have this many, or one for all.

    Raises
    ------
    InputError
        They differ.
    """
    several = sorted(set(lengths) - {1})
    if len(several) > 1:
        raise InputError(f"shape: batches of {several} rows do not go together; give one number of rows")
    return several[0] if several else 1


@guarded
@dataclass(frozen=True)
class EquilibriumFunction:
    """Rows of numbers (b, p) -> measures of the equilibria under them, and the transposed derivative.

    Parameters
    ----------
    robot
        What is actuated.
    vary
        What the first numbers of a row command: "volume_ratio", "pressure" [Pa], "cable_length" [m] or "cable_tension" [N].
    material
        Names of constants as in `sensitivity`, without "material.": "c1", "0.c1" of one region.
    dimensions
        Names of dimensions of the robot's design: "wall", "channel:0".
    of
        "positions" (n, 3) [m] or measures of `sensitivity`.
    environment, solver
        As in `solve`.
    workers
        As in `solve_many`.
    """

    robot: VolumetricRobot
    vary: str = "volume_ratio"
    material: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    of: tuple[str, ...] = ("positions",)
    environment: Environment | None = None
    solver: EnergyShapeSolver | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        taken(self.robot, VolumetricRobot, "shape")
        taken(self._solver, EnergyShapeSolver, "shape: solver")
        choice(self.vary, "shape: vary", CONTROLS)
        for name in self.of:
            choice(name, "shape: of", OUTPUTS)
        for name in self.material:
            self._constant(self.robot, name)
        _ = self.motions

    @property
    def control(self) -> Control:
        """What the first numbers of a row command."""
        return CONTROLS[self.vary]

    @property
    def controls(self) -> int:
        """How many numbers of a row are controls."""
        return self.control.count(self.robot)

    @cached_property
    def motions(self) -> tuple[tuple[float, Floats], ...]:
        """Value [SI] of every dimension in the design, and how the vertices move with it (n, 3)."""
        found = []
        for name in self.dimensions:
            motion = design_motion(self.robot, name)
            assert isinstance(self.robot.design, Design)
            key, _, place = name.partition(":")
            given = self.robot.design.parameters[key]
            found.append((float(given[int(place)] if place else given), motion))
        return tuple(found)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of every measure of one row."""
        c, o = self.robot.chambers, len(self.environment.obstacles) if self.environment is not None else 0
        known: dict[str, tuple[int, ...]] = {
            "positions": self.robot.vertices.shape,
            "tip": (3,),
            "bend_angle": (),
            "chamber_pressures": (c,),
            "chamber_volumes": (c,),
            "obstacle_forces": (o, 3),
        }
        return tuple(known[name] for name in self.of)

    def results(self, rows: Floats) -> list[Result]:
        """Return the equilibria under rows (b, p).

        Raises
        ------
        InputError
            A row cannot be solved: a wrong number of values, constants of no material, walls inside out.
        SolveError
            A command was not reached: nothing is returned that could be taken for a shape.
        """
        width = self.controls + len(self.material) + len(self.dimensions)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InputError(
                f"shape: {rows.shape[-1] - width + self.controls} controls are given; {self.robot.name} has "
                f"{self.controls} for vary = {self.vary!r}"
            )
        if not np.isfinite(rows).all():
            raise InputError(f"shape: {shown(rows)} is not finite; give numbers")
        problems = [self.problem(row) for row in rows]
        alone = len(problems) == 1
        found = [solve(**problems[0], throw=False)] if alone else solve_many(problems, self.workers)
        for i, result in enumerate(found):
            if not result.converged or result.status is Status.INVERTED:
                raise SolveError(f"shape: row {i} = {shown(rows[i].tolist())}: {result.message}", result)
        return found

    def outputs(self, results: Sequence[Result]) -> tuple[Floats, ...]:
        """Return every measure of equilibria, (b, ...) each."""
        return tuple(np.array([self._read(name, r) for r in results]) for name in self.of)

    def slopes(self, result: Result) -> list[Floats]:
        """Return the derivative of every measure at one equilibrium by all numbers of a row, (values, p) each.

        Raises
        ------
        InputError
            The robot has no sensitivities (see `sensitivity`), or the path folds or branches there.
        """
        tangent = Tangent.at(equilibrium(result, len(result.frames) - 1))
        at = ContactConfiguration.of(tangent)
        several = Several.of([self._quantity(name, at, result) for name in self.of])
        made = Differences(tangent, several, self._solver, 0)
        names = [self.control.name] * bool(self.controls) + [f"material.{name}" for name in self.material]
        given = [column for name in names for column in columns(made, name).found]
        if self.dimensions:
            refuse_closed(tangent, "dimensions")
        # Of the robot's size: central differences by dimensions. A bend angle of plane walls is the small difference of
        # two large terms.
        dimension_step_rel = 1e-6
        given += [made.along(motion, dimension_step_rel) for _, motion in self.motions]
        try:
            return several.split(made.jacobian(Columns((len(given),), given)))
        except FactorisationError as error:
            raise NoUniqueTangentError(f"shape: this equilibrium has no unique tangent ({error})") from None

    def tangent(self, result: Result) -> Callable[[], list[Floats]]:
        """Return what gives the `slopes` of an equilibrium: computed when they are first asked for, and kept."""
        return cache(partial(self.slopes, result))

    def pulled_back(self, tangent: Callable[[], list[Floats]], cotangents: Sequence[Floats]) -> Floats:
        """Return the derivative (p,) of sum(cotangent * output) at one equilibrium.

        Raises
        ------
        InputError
            As `slopes`.
        """
        if not any(c.any() for c in cotangents):
            return np.zeros(self.controls + len(self.material) + len(self.dimensions))
        return np.asarray(sum(np.ravel(c) @ slope for c, slope in zip(cotangents, tangent())))

    def _read(self, name: str, result: Result) -> Floats:
        if name == "bend_angle" and self.dimensions and isinstance(result.robot, VolumetricRobot):
            asked = self._bending(result.robot)
            return np.asarray(np.linalg.norm(bending(asked.line, result.frames[-1])))
        return np.asarray(getattr(result, "frames" if name == "positions" else name)[-1])

    def _bending(self, robot: VolumetricRobot) -> Bending:
        """Return the bend angle along the windows of the rest shape as given: found anew they would jump from tet to tet."""
        line = spine(self.robot)
        moved = None if line is None else moved_spine(robot, line)
        if moved is None:
            raise InputError("shape: of = 'bend_angle': this robot has no centre line from what is fixed to its tip")
        return Bending(line=moved, robot=robot, touches=np.flatnonzero(robot.body_vertices))

    def _made_of(self, robot: VolumetricRobot, name: str, value: float) -> VolumetricRobot:
        """Return a robot with another constant of its materials."""
        return replace(robot, materials=self._constant(robot, name).changed(lambda _: value))

    @staticmethod
    def _constant(robot: VolumetricRobot, name: str) -> Constant:
        return Constant.of(robot, name, f"shape: material {name!r}")

    @property
    def _solver(self) -> EnergyShapeSolver:
        return EnergyShapeSolver() if self.solver is None else self.solver

    def problem(self, row: Floats) -> dict[str, Any]:
        """Return the arguments of `solve` for a row (p,).

        Raises
        ------
        InputError
            Its dimensions turn tets inside out.
        """
        m, q = self.controls, self.controls + len(self.material)
        robot = self.robot
        for name, value in zip(self.material, row[m:q].tolist()):
            robot = self._made_of(robot, name, value)
        if self.dimensions:
            moved = robot.vertices + sum((d - d0) * motion for d, (d0, motion) in zip(row[q:], self.motions))
            flat = int((topology.tet_volumes(moved, robot.tets) <= 0.0).sum())
            if flat:
                dimensions = dict(zip(self.dimensions, row[q:].tolist()))
                raise InputError(
                    f"shape: dimensions {dimensions} turn {flat} tets inside out; mesh the design again nearer to them"
                )
            robot = replace(robot, vertices=moved)
        actuation = actuation_of(self.robot, self.vary, row[:m]) if m else Passive()
        return dict(robot=robot, actuation=actuation, environment=self.environment, solver=self._solver)

    def _quantity(self, name: str, at: ContactConfiguration, known: Result) -> Quantity:
        """Return a measure; `known` as of `quantity`."""
        if name == "positions":
            return Positions(self.robot.vertices.shape)
        if name == "bend_angle" and self.dimensions:
            return self._bending(at.problem.robot)
        return quantity(name, at.problem, at, known)
