"""Scalar constraints: functionals c(x) of the positions with conjugate forces f, and the laws between the two.

A constraint adds f . (c_0 - c(x)) to the potential of the solver: the volume of a chamber with its pressure, minus the length of
a cable with its tension. Of every scalar the value or the force is prescribed and the other one answers, or a law relates them
(a closed gas, a cable that goes slack, a point of a cable that sticks or slides).

An actuator is one subclass of `ScalarConstraint` in a module of this folder, found by `constraint_kinds`: what it measures with
gradient and Hessian (`add`), what its commands ask for (`target`), its `law`, and its active set (`corrected`). A command of its
own may stand beside it, found by `known_actuations`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.errors import InputError
from geosim.model.actuation import Actuation, Command, Passive
from geosim.model.contract import Robot
from geosim.model.environment import Environment
from geosim.shape.energy.constraints.supports import RigidGroup
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.pattern import BodyPattern

if TYPE_CHECKING:
    from geosim.result import Result


@dataclass(frozen=True)
class StickSlip:
    """The active set of friction in constraints, one entry a scalar.

    Parameters
    ----------
    modes
        0 sticks, 1 slides against its force, -1 along it; 0 where there is no friction, (d,).
    values
        The scalars at the last equilibrium, at which what sticks is kept, (d,).
    """

    modes: Ints
    values: Floats

    def part(self, mine: slice) -> StickSlip:
        """Return the entries of one constraint."""
        return StickSlip(self.modes[mine], self.values[mine])


@dataclass
class Rows:
    """The equations of scalars, one row each, while laws write into them.

    Parameters
    ----------
    members
        What the forces of a row act on: 1 where a scalar belongs to its sum, (d, d).
    gap, slope
        What every sum still misses, and how what it shall be changes with its force, (d,).
    solved
        Rows that are solved for an unknown force, bool (d,).
    fixed
        Scalars whose force is prescribed, bool (d,).
    """

    members: Floats
    gap: Floats
    slope: Floats
    solved: Bools
    fixed: Bools

    def part(self, mine: slice) -> Rows:
        """Return the rows of one constraint, which write through."""
        return Rows(self.members[mine, mine], self.gap[mine], self.slope[mine], self.solved[mine], self.fixed[mine])


@dataclass(frozen=True)
class Law:
    """What the scalars of one constraint obey under a load; this one: whatever is prescribed of each, value or force.

    `closed` says whether value and force depend on each other, so that neither of them is prescribed.
    """

    count: int
    closed: ClassVar[bool] = False

    @property
    def lawful(self) -> Bools:
        """Scalars of which a law says where they stand, bool (d,)."""
        return np.zeros(self.count, dtype=bool)

    def towards(self, end: Law, load_factor: float) -> Law:
        """Return the law on the way to that of another load state."""
        return end

    def still(self, end: Law) -> bool:
        """Whether it stays as it is on the way to another."""
        return True

    def goals(self, values: Floats, forces: Floats) -> Floats:
        """Return what the scalars (d,) shall be at forces (d,), where `values` are prescribed."""
        return values

    def write(self, rows: Rows, values: Floats, forces: Floats, active: StickSlip | None) -> None:
        """Write the law into the rows of the scalars, at their values and forces (d,) and with what sticks and slides."""


@dataclass(frozen=True)
class Prescription:
    """What a command asks of the scalars of one constraint (scaled).

    Parameters
    ----------
    values, forces
        (d,), nan where they are not prescribed.
    law
        What they obey.
    closing
        The law that the state met where this command's law came into force; None: `law`.
    """

    values: Floats
    forces: Floats
    law: Law
    closing: Law | None = None


@dataclass(frozen=True)
class ScalarConstraint:
    """Scalars of one kind. Subclasses say which; what is not theirs they leave as it is here.

    `actuations` are the commands that drive it; `length_power` is the power of length that its values have: forces have the
    unit of stress times length^(3 - power).
    """

    actuations: ClassVar[tuple[type[Actuation], ...]] = ()
    length_power: ClassVar[int] = 1

    @classmethod
    def of(cls, body: ScaledBody, environment: Environment, groups: tuple[RigidGroup, ...]) -> ScalarConstraint | None:
        """Return the constraint of a body; None where the body has none of the kind.

        It is asked once a solve and sees no command: equations are set up before the first one, and a control loop chooses the
        next from the last state. A kind that is returned adds its scalars to every solve of such a body, and without a command
        `target` prescribes a force of 0. Commands of a kind that is not returned are refused.

        Parameters
        ----------
        body
            `body.place` (robot's vertices and mid-edge nodes,) says which row of positions a vertex of the robot is, -1 outside
            the body; `body.nodes` leads back. Vertices are those that robot or environment name, such as `body.robot.tip`;
            `selected_ids` of `geosim.model.select` finds those of a selection.
        environment, groups
            What surrounds the body, and its rigid plates.
        """
        raise NotImplementedError

    @classmethod
    def check(cls, command: Command, robot: Robot) -> None:
        """Refuse commands that do not fit a robot, by `InputError`."""

    @property
    def rest_values(self) -> Floats:
        """Sizes of the scalars at rest, positive, (d,)."""
        raise NotImplementedError

    def add(
        self,
        x: Floats,
        forces: Floats,
        modes: Ints,
        matrix: bool,
        pattern: BodyPattern,
        data: Floats,
        force: Floats,
        scale: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """Add what the forces of the scalars (d,) do to the nodes, their scale and (with `matrix`) the tangent.

        `modes` (d,) are as in `StickSlip`.

        Returns
        -------
        values, gradients, columns
            c(x) (d,); gradients (d, nodes, 3); and minus what the forces on the nodes change by with those of the scalars
            (d, nodes, 3), which are the gradients where there is no friction.
        """
        raise NotImplementedError

    def target(self, command: Command, body: ScaledBody, began: tuple[Floats, Floats]) -> Prescription:
        """Return what a command asks for; `began` are values and forces (d,) at the start of the solve."""
        raise NotImplementedError

    @property
    def law(self) -> Law:
        """The law of the scalars where no command says otherwise."""
        return Law(len(self.rest_values))

    @property
    def rough(self) -> bool:
        """Whether a force acts here that has no potential, such as friction."""
        return False

    @property
    def pulls(self) -> Bools:
        """Scalars whose force is never negative while their value is prescribed, bool (d,)."""
        return np.zeros(len(self.rest_values), dtype=bool)

    @property
    def steady_forces(self) -> Floats:
        """Forces that act in every command as gravity does, (d,); 0 where commands say what acts."""
        return np.zeros(len(self.rest_values))

    @property
    def first_modes(self) -> Ints:
        """Entries of `StickSlip.modes` at rest, (d,)."""
        return np.zeros(len(self.rest_values), dtype=np.int64)

    def couplings(self) -> Sequence[Ints]:
        """Pairs of nodes (p, 2), the smaller number first, that the Hessian couples and no element does."""
        return ()

    def placed(self, pattern: BodyPattern) -> ScalarConstraint:
        """Return the constraint with its places in the matrix."""
        return self

    def corrected(
        self, x: Floats, forces: Floats, values: Floats, active: StickSlip, *, one: bool
    ) -> tuple[Floats, StickSlip]:
        """Return forces and an active set in which nothing slides against friction or sticks beyond it.

        Parameters
        ----------
        x, forces, values
            An equilibrium: positions, and forces and values of the scalars (d,).
        active
            What it was found with.
        one
            Change the first that is wrong alone: where all at once go round in circles.
        """
        return forces, active

    def turn(self, x: Floats, forces: Floats, modes: Ints, move: Floats) -> Floats:
        """Forces on the nodes (nodes, 3) that a move of theirs brings beside the symmetric tangent."""
        return np.zeros_like(move)

    def measures(self, body: ScaledBody, x: Floats, values: Floats, forces: Floats, modes: Ints) -> dict[str, Any]:
        """Return measures in SI units: fields of `Frame`, others for `Result.extra`."""
        return {}

    def recalled(self, result: Result, frame: int, body: ScaledBody) -> Floats:
        """Return the scaled forces (d,) that a frame of a result had."""
        raise InputError(f"frame {frame}: the forces of {type(self).__name__} are not kept in a result")


@dataclass(frozen=True)
class ScalarConstraints:
    """All scalar constraints of a body, one after the other, chambers first; vectors (d,) hold the scalars of all."""

    members: tuple[ScalarConstraint, ...]

    @cached_property
    def parts(self) -> tuple[tuple[ScalarConstraint, slice], ...]:
        """Every member, and where its scalars stand."""
        ends = np.cumsum([len(one.rest_values) for one in self.members]).tolist()
        return tuple((one, slice(a, b)) for one, a, b in zip(self.members, [0, *ends[:-1]], ends))

    @cached_property
    def rest_values(self) -> Floats:
        """Sizes at rest, positive, (d,)."""
        return frozen(np.concatenate([one.rest_values for one in self.members]))

    @cached_property
    def rough(self) -> bool:
        """Whether a force without a potential acts in one of them."""
        return any(one.rough for one in self.members)

    @cached_property
    def pulls(self) -> Bools:
        """See `ScalarConstraint`, (d,)."""
        return frozen(np.concatenate([one.pulls for one in self.members]))

    @cached_property
    def steady_forces(self) -> Floats:
        """See `ScalarConstraint`, (d,)."""
        return frozen(np.concatenate([one.steady_forces for one in self.members]))

    @cached_property
    def first_modes(self) -> Ints:
        """See `ScalarConstraint`, (d,)."""
        return frozen(np.concatenate([one.first_modes for one in self.members]))

    @cached_property
    def length_powers(self) -> Ints:
        """Powers of length in the values, (d,)."""
        return frozen(np.repeat([m.length_power for m in self.members], [len(m.rest_values) for m in self.members]))

    def scalars_of(self, kind: type[ScalarConstraint]) -> Ints:
        """Return which scalars belong to the constraint of a kind."""
        return np.array(
            [i for one, mine in self.parts if isinstance(one, kind) for i in range(mine.start, mine.stop)], dtype=int
        )

    def find(self, kind: type[ScalarConstraint]) -> Any:
        """Return the constraint of a kind, None where the body has none."""
        return next((one for one in self.members if isinstance(one, kind)), None)

    def refuse_unheard(self, command: Command) -> None:
        """Refuse by `InputError` a command that drives nothing here: `ScalarConstraint.of` returned None for the body."""
        heard: tuple[type[Actuation], ...] = (Passive, *(kind for one in self.members for kind in one.actuations))
        for part in command.parts:
            if not isinstance(part, heard):
                kinds = [kind.__name__ for kind in constraint_kinds() if isinstance(part, kind.actuations)]
                raise InputError(
                    f"{type(part).__name__} does not actuate this robot: {' and '.join(kinds)} found nothing on it to drive"
                )

    def placed(self, pattern: BodyPattern) -> ScalarConstraints:
        """Return the constraints with their places in the matrix."""
        return ScalarConstraints(tuple(one.placed(pattern) for one in self.members))

    def add(
        self,
        x: Floats,
        forces: Floats,
        modes: Ints,
        matrix: bool,
        pattern: BodyPattern,
        data: Floats,
        force: Floats,
        scale: Floats,
    ) -> tuple[Floats, Floats, Floats | None]:
        """See `ScalarConstraint.add`; the columns are None where they are the gradients."""
        found = [one.add(x, forces[mine], modes[mine], matrix, pattern, data, force, scale) for one, mine in self.parts]
        values, gradients, columns = zip(*found)
        return np.concatenate(values), np.concatenate(gradients), np.concatenate(columns) if self.rough else None

    def corrected(
        self, x: Floats, forces: Floats, values: Floats, active: StickSlip, *, one: bool
    ) -> tuple[Floats, StickSlip]:
        """See `ScalarConstraint.corrected`."""
        new, modes = forces.copy(), active.modes.copy()
        for member, mine in self.parts:
            new[mine], own = member.corrected(x, forces[mine], values[mine], active.part(mine), one=one)
            modes[mine] = own.modes
        return new, replace(active, modes=modes)

    def turn(self, x: Floats, forces: Floats, modes: Ints, move: Floats) -> Floats:
        """See `ScalarConstraint.turn`."""
        return sum((one.turn(x, forces[mine], modes[mine], move) for one, mine in self.parts), np.zeros_like(move))


def constraint_kinds() -> tuple[type[ScalarConstraint], ...]:
    """Return the kinds of scalar constraints, those of this folder and others that are imported, that of chambers first."""
    folder = import_module(__package__)
    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"{__package__}.{module.name}")
    return tuple(
        sorted(ScalarConstraint.__subclasses__(), key=lambda kind: (kind.__name__ != "Chambers", kind.__module__))
    )


def known_actuations() -> dict[str, type[Actuation]]:
    """Return the actuations that drive constraints, by their names."""
    return {one.__name__: one for kind in constraint_kinds() for one in kind.actuations}


def known_commands(robot: Robot, actuation: Actuation, solver: str) -> list[Command]:
    """Return the commands of an actuation after checking that a solver knows them, and that they fit a robot."""
    commands = actuation.commands(tuple(known_actuations().values()), solver)
    for command in commands:
        for kind in constraint_kinds():
            kind.check(command, robot)
    return commands
