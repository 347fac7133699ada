"""How an equilibrium of rods moves with the numbers of its problem: the implicit gradient.

With the free residual R(q; p) = 0 of a static command, its tangent K, and p a cable, a natural curvature, a constant of the
material or the radius,

    dq/dp = -K^-1 dR/dp.

R is linear in the curvature and a polynomial in the others, of degree four at most, so that differences over five points are
exact to round-off, and their steps may be large. Frames stay where the equilibrium has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, hstack
from scipy.sparse.linalg import splu

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.model.actuation import CableLengths, CableTensions, Command, NaturalShape
from geosim.rods.balance import Balance
from geosim.rods.cables import Cables, Pulled
from geosim.rods.drive import make_drive
from geosim.rods.robot import RodShellRobot
from geosim.rods.section import Section
from geosim.rods.state import RodState
from geosim.rods.stepper import RodShellStepper
from geosim.rods.system import make_system
from geosim.rods.terms import DIFFERENCE_STEP_REL

STEP_REL = 0.02  # of a constant or a tension
FIVE_POINTS = (-2, -1, 1, 2)  # steps from the middle of a central difference


def five_point_slope(values: Sequence[Floats], step: float) -> Floats:
    """Return the slope of values at `FIVE_POINTS` times a step: exact of polynomials of degree four at most."""
    below_2, below, above, above_2 = values
    return np.asarray((below_2 - above_2 + 8.0 * (above - below)) / (12.0 * step))


@dataclass(frozen=True)
class RodEquilibrium:
    """An equilibrium of rods with its problem.

    Parameters
    ----------
    state
        The equilibrium.
    command
        What leads there.
    solver
        That has found it.
    """

    state: RodState
    command: Command
    solver: RodShellStepper

    @classmethod
    def of(cls, result: Any) -> RodEquilibrium:
        """Return the last equilibrium of a result.

        Raises
        ------
        InputError
            It is of a motion, was read from a file, or depends on its history.
        """
        solver, state, environment = result.solver, result.state, result.environment
        if not isinstance(solver, RodShellStepper) or not solver.static:
            raise InputError("derivatives of rods: this is no equilibrium; solve with RodShellStepper(static=True)")
        if not isinstance(state, RodState) or result.actuation is None:
            raise InputError("derivatives of rods: a result from a file has no tangent; solve it again")
        rough = [environment.self_friction, *(o.friction for o in environment.obstacles)]
        if max([*rough, *(c.friction for c in state.robot.cables)]) > 0.0:
            raise InputError("derivatives of rods: friction remembers its history; set it to 0")
        known = (NaturalShape, CableTensions, CableLengths)
        command = result.actuation.commands(known, "derivatives of rods")[len(result.frames) - 1]
        return cls(state, command, solver)

    @property
    def robot(self) -> RodShellRobot:
        """The robot."""
        return self.state.system.robot

    def balance(
        self, robot: RodShellRobot | None = None, pulled: Pulled | None = None, strain: Floats | None = None
    ) -> Balance:
        """Return the balance of forces, perhaps of another robot, with other pulls, or with natural strains beside its own."""
        solver, state = self.solver, self.state
        if robot is not None:
            contact = solver.contact_stiffness, solver.contact_distance, solver.slip_velocity
            state = state.changed(system=make_system(robot, state.system.environment, *contact))
        options: dict[str, Any] = {"functions": solver.forces, "moments": solver.moments, "rolling": solver.rolling}
        drive = make_drive(state, self.command, solver.edge_rotations, static=True, **options)
        state, natural = drive.start, drive.natural(self.command.time)
        terms = [
            Cables(state, 0.0, pulled) if isinstance(term, Cables) and pulled is not None else term
            for term in drive.terms(state, 0.0, self.command.time)
        ]
        return Balance(
            state.system, state, natural if strain is None else natural + strain, drive.load, 0.0, 0.0, terms
        )

    @cached_property
    def _tangent(self) -> tuple[Balance, Floats, Callable[[Floats], Floats]]:
        """The balance, its residual (dofs,), and what solves its tangent for right-hand sides (p, free).

        Of cables, contact and moments it is of central differences. Newton's tangent leaves out the skew part of the elastic
        stiffness, which balances that of the cables; without them there is none.
        """
        balance, q = self.balance(), self.state.q
        trial, residual = balance.residual(q)
        free, turns, pattern = balance.order, balance.system.turns, balance.system.pattern
        if not balance.terms:
            values, _ = balance.jacobian(q, trial)

            def banded(right: Floats) -> Floats:
                found = [pattern.solve(values, row.copy())[0] for row in right]
                if any(row is None for row in found):
                    raise RuntimeError("the tangent is singular")
                return np.array(found)

            return balance, residual, banded
        steps = np.where(
            np.arange(len(q)) < turns, DIFFERENCE_STEP_REL * balance.system.mean_length, DIFFERENCE_STEP_REL
        )
        columns = []
        for dof in free:
            step = steps * (np.arange(len(q)) == dof)
            high, low = (balance.residual(x)[1][free] for x in (q + step, q - step))
            columns.append(csc_matrix(((high - low) / (2.0 * steps[dof]))[:, None]))
        factors = splu(hstack(columns, format="csc"))
        return balance, residual, lambda right: factors.solve(right.T).T

    def moved(self, slopes: Sequence[Floats]) -> Floats:
        """Return dx/dp (p, 3 n) of the positions for dR/dp (p, dofs).

        Raises
        ------
        RuntimeError
            The tangent is singular.
        """
        balance, _, solved = self._tangent
        out = np.zeros((len(slopes), len(self.state.q)))
        out[:, balance.order] = -solved(np.array(slopes)[:, balance.order])
        return out[:, : balance.system.turns]

    def by(self, changed: Callable[[float], Balance], step: float) -> Floats:
        """Return dR/dp (dofs,) for a number that is moved by the argument of `changed`."""
        return five_point_slope([changed(k * step).residual(self.state.q)[1] for k in FIVE_POINTS], step)

    def by_curvature(self, stencils: Ints, axis: int) -> Floats:
        """Return dR/dc for the natural curvature [1/m] of stencils together, about kappa1 (axis 0) or kappa2."""
        strain = np.zeros_like(self.state.natural)
        strain[stencils, axis] = self.robot.bends.length[stencils]
        return np.asarray(self.balance(strain=strain).residual(self.state.q)[1] - self._tangent[1])  # linear in it

    def by_cable(self, cable: int) -> Floats:
        """Return dR/dc for the tension [N] or the length [m] of a cable, whichever is commanded; 0 of one that is slack."""
        balance = self._tangent[0]
        term = next(term for term in balance.terms if isinstance(term, Cables))
        given, own = term.pulled, np.arange(len(self.robot.cables)) == cable
        if np.isnan(given.lengths[cable]):
            step = max(STEP_REL * float(given.tensions[cable]), 1e-6 * self.state.system.axial)
            return self.by(lambda s: self.balance(pulled=replace(given, tensions=given.tensions + s * own)), step)
        stretch = float(term.pulls(self.state.q)[cable][2][:, 1].sum() - given.lengths[cable])
        if stretch <= 0.0:
            return np.zeros_like(self.state.q)
        # a slack cable does not push: steps stay on the side where it is taut
        return self.by(lambda s: self.balance(pulled=replace(given, lengths=given.lengths + s * own)), 0.4 * stretch)

    def by_constant(self, name: str) -> Floats:
        """Return dR/dc for the radius [m] of all rods, or a constant of all their materials.

        Raises
        ------
        InputError
            There is none of this name.
        """
        step = STEP_REL * float(np.abs(constant(self.robot, name)))
        return self.by(lambda s: self.balance(robot=with_constant(self.robot, name, s, add=True)), step)


def constant(robot: RodShellRobot, name: str) -> float:
    """Return the radius [m] of the rods ("radius"), or a constant of their material, of the first of them.

    Raises
    ------
    InputError
        There is none of this name, or the section is given and not made of the radius.
    """
    if name == "radius":
        round_ = Section.circle(robot.radius)
        own = robot.section
        if not all(np.allclose(getattr(own, key), getattr(round_, key)) for key in ("area", "inertia1", "torsion")):
            raise InputError("radius: this robot has a section of its own; leave section out to have round rods")
        return float(robot.radius[0])
    known = ("youngs_modulus", "density")
    if name not in known:
        raise InputError(f"material has no {name!r}; rods have {', '.join(known)}, and radius")
    return float(getattr(robot.materials[0], name))


def with_constant(robot: RodShellRobot, name: str, value: float, *, add: bool = False) -> RodShellRobot:
    """Return the robot with another radius [m] or another constant of all materials; `add`: with so much more."""
    constant(robot, name)
    if name == "radius":
        return replace(robot, radius=robot.radius + value if add else value, section=None)
    made = [replace(m, **{name: value + add * getattr(m, name)}) for m in robot.materials]
    return replace(robot, rod_material=made[0] if len(made) == 1 else tuple(made))
