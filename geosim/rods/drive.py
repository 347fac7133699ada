"""Driving terms of a command at a time: natural shapes, prescribed motion, loads and contact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, ArrayLike, Floats, Ints
from geosim.errors import InputError
from geosim.model.actuation import NATURAL_SHAPE_KINDS, Command, NaturalShape, cable_targets
from geosim.rods.balance import Inertia
from geosim.rods.cables import Cables, Pulled
from geosim.rods.drag import Drag
from geosim.rods.gyroscope import Gyroscope
from geosim.rods.moments import Moments
from geosim.rods.obstacles import ObstacleContact
from geosim.rods.pair_contact import PairContact
from geosim.rods.robot import RodShellRobot
from geosim.rods.sheet_contact import SheetContact
from geosim.rods.slender import SlenderDrag
from geosim.rods.state import RodState
from geosim.rods.system import load_force, natural_hinges, prescribed_values, with_free
from geosim.rods.terms import Term, UserForce
from geosim.rods.untouched import IncrementNewton


@dataclass(frozen=True)
class Drive:
    """One command, bound to the state at which it begins.

    Parameters
    ----------
    command
        Where to.
    start
        State at its beginning, with the pattern of the degrees of freedom that it leaves free.
    dofs, values
        What it prescribes at the end of its row of the actuation [m, rad].
    load
        Dead forces with the weight [N].
    newton
        Options of the iteration.
    damping
        Mass-proportional [1/s].
    functions, moments
        Forces and moments of the user.
    static
        Whether an equilibrium is asked for.
    spectral_radius
        Of the generalised-alpha rule.
    shortest
        Increments [s] that are not refused for an impact that they are too long to follow.
    rod_drag
        Along and across rods [N s/m^2].
    rolling
        Whether friction with obstacles acts at the surfaces of rods.
    share
        Of the command's change that is asked for, where statics goes there in steps.
    """

    command: Command
    start: RodState
    dofs: Ints
    values: Floats
    load: Floats
    newton: IncrementNewton = field(default_factory=IncrementNewton)
    damping: float = 0.0
    functions: Sequence[Callable[..., Any]] = ()
    static: bool = False
    spectral_radius: float = 0.5
    shortest: float = 0.0
    rod_drag: tuple[float, float] | None = None
    rolling: bool = False
    share: float = 1.0
    moments: Sequence[Callable[..., Any]] = ()

    @cached_property
    def _row(self) -> tuple[float, float]:
        """Times before and at the command's row of the actuation [s]."""
        table = self.command.parts[0].times if self.command.parts else (self.command.time,)
        row = min(self.command.index, len(table) - 1)
        return (float(table[row - 1]) if row else 0.0), float(table[row])

    def _passed(self, time: float) -> float:
        """Return the share of the row of the actuation that has passed at a time [s], from 0 to 1."""
        begin, end = self._row
        return min(max((time - begin) / max(end - begin, MIN_DIVISOR), 0.0), 1.0)

    def aim(self, share: float) -> Floats:
        """Return the prescribed degrees of freedom at a share of the way."""
        begin = self.start.q[self.dofs]
        return begin + share * (self.values - begin)

    def aim_at(self, time: float) -> Floats:
        """Return the prescribed degrees of freedom at a time [s]."""
        if not len(self.dofs):
            return self.values
        end, begin = max(self._row[1], self.command.time), self.start.time
        return self.aim((time - begin) / max(end - begin, MIN_DIVISOR))

    def pulled(self, time: float) -> Pulled:
        """Return what pulls the cables at a time [s]: linearly from the row before; in statics at the share of the command."""
        robot, index = self.start.system.robot, self.command.index
        count = len(robot.cables)
        lengths, tensions = cable_targets(self.command, count)
        before, slack = np.array([cable.length for cable in robot.cables]), np.zeros(count)
        if index > 0:
            known, slack = cable_targets(replace(self.command, index=index - 1), count)
            before = np.where(np.isfinite(known), known, before)
        share = self.share if self.static else self._passed(time)
        return Pulled(slack + share * (tensions - slack), before + share * (lengths - before))

    def natural(self, time: float) -> Floats:
        """Return the natural strains at a time [s]: curvature [1/m] times Voronoi length, section 7.1 of [Lahoti]; stretches."""
        system, shape = self.start.system, self.command.find(NaturalShape)
        if shape is None:
            return system.natural
        natural, length = system.natural.copy(), system.robot.bends.length
        bends = natural[: len(length)]
        curvature, twist, hinge, stretch = (shape.at(key, time) for key in NATURAL_SHAPE_KINDS)
        if hinge is not None:
            natural_hinges(system, natural, hinge)
        if curvature is not None and curvature.ndim == 2:
            bends[:, :2] = curvature * length[:, None]
        elif curvature is not None:
            bends[:, 0] = curvature * length
        if twist is not None:
            bends[:, 2] = twist * length
        if stretch is not None:
            natural[system.edges_at :, 0] = stretch
        return natural

    def terms(self, state: RodState, step: float, time: float, inertia: Inertia | None = None) -> list[Term]:
        """Bind contact, obstacles and user forces to an increment from `state` that ends at `time` [s].

        Friction follows what really moves in the increment; users' forces and drag follow the velocities of the rule.
        """
        system, environment = state.system, state.system.environment
        moving, pace = (state, step) if inertia is None else (state.changed(q=state.q - inertia.lag), inertia.pace)
        terms: list[Term] = [UserForce(moving, pace, function, time) for function in self.functions]
        terms += self._moments(state, step, time)
        if system.robot.cables:
            terms.append(Cables(state, step, self.pulled(time)))
        if step > 0:
            terms += self._of_velocities(moving, pace)
        if not environment.obstacles:
            return terms + contact_terms(state, step)
        before = self._poses(time - step)
        # at rest the first step of a command takes the obstacles there
        if self.static and np.array_equal(state.q, self.start.q):
            before = environment.poses(self.command.index, 0.0)
        obstacles = ObstacleContact(state, step, before, self._poses(time), self.rolling)
        return [*terms, *contact_terms(state, step), obstacles]

    def _moments(self, state: RodState, step: float, time: float) -> list[Term]:
        """Bind loads that are moments, in statics at the share of the command, and users' moments."""
        terms: list[Term] = []
        index = self.command.index
        for load in state.system.environment.loads:
            if load.kind == "moment":
                before = load.at(index - 1) if self.static and index > 0 else np.zeros(3)
                moment = before + (self.share if self.static else 1.0) * (load.at(max(index, 0)) - before)
                terms.append(Moments(state, step, load.where, np.broadcast_to(moment, (len(load.where), 3))))
        edges = np.arange(state.system.robot.own_edges or 0)
        return terms + [
            Moments(state, step, edges, np.zeros((len(edges), 3)), function, time) for function in self.moments
        ]

    def _of_velocities(self, moving: RodState, pace: float) -> list[Term]:
        """Bind drag of shells and rods, and the gyroscopic moments of rods that spin."""
        terms: list[Term] = []
        system, fluid = moving.system, moving.system.environment.fluid
        if fluid is not None and fluid.drag_coefficient > 0 and len(system.robot.triangles):
            terms.append(Drag(moving, pace))
        if self.rod_drag is not None:
            terms.append(SlenderDrag(moving, pace, *self.rod_drag))
        if system.spins:
            terms.append(Gyroscope(moving, pace))
        return terms

    def _poses(self, time: float) -> Floats:
        """Return the poses of all obstacles (o, 4, 4) at a time [s]; in statics those of the command."""
        share = 1.0 if self.static else self._passed(time)
        return self.start.system.environment.poses(self.command.index, share)


def contact_terms(state: RodState, step: float) -> list[Term]:
    """Bind contact of rods and shells with each other to an increment from `state`."""
    system, environment = state.system, state.system.environment
    terms: list[Term] = []
    if state.memory is not None:
        terms.append(PairContact(state, step, environment.self_friction))
    if system.sheet is not None:
        terms.append(SheetContact(state, step, environment.self_friction))
    return terms


def make_drive(
    state: RodState, command: Command, rotations: Sequence[tuple[ArrayLike, ArrayLike]] = (), **options: Any
) -> Drive:
    """Return the command bound to a state, whose pattern becomes that of the degrees of freedom left free.

    `rotations` are as in `RodShellStepper.edge_rotations`; `options` are fields of `Drive`.
    """
    system = state.system
    dofs, values = prescribed_values(system, command.index, rotations)
    free = system.held_free.copy()
    free[dofs] = False
    if not np.array_equal(free, system.free):
        state = replace(state, system=with_free(system, free), memory=None)
    return Drive(command, state, dofs, values, system.weight + load_force(system, command.index), **options)


def check_natural(robot: RodShellRobot, shape: NaturalShape) -> None:
    """Refuse natural values that are neither one for all nor one a stencil or hinge.

    Raises
    ------
    InputError
        Naming the kind of value, its shape and what is needed.
    """
    bends, hinges = len(robot.bends), len(robot.mesh.hinges)
    for key, name, count in (
        ("curvature", "stencils", bends),
        ("twist", "stencils", bends),
        ("hinge_angle", "hinges", hinges),
        ("stretch", "edges", len(robot.edges)),
    ):
        value = shape.at(key, float(shape.times[0]))
        known = [(), (1,), (count,)] + ([(1, 2), (count, 2)] if key == "curvature" else [])
        if value is not None and (value.shape not in known or count == 0):
            raise InputError(
                f"NaturalShape: {key} has {value.shape} values a time for {count} {name}; give one, or ({count},)"
            )
