"""Parameters of sensitivities, and the derivative of the residuals by each at a fixed configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.errors import InputError
from geosim.material.materials import Hyperelastic
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.neighbours import difference, neighbour
from geosim.response.derivatives.quantities import ContactConfiguration, Quantity
from geosim.response.derivatives.rest_shape import PLACE_STEP_REL, design_motion
from geosim.response.derivatives.tangent import Change, Tangent
from geosim.shape.energy.constraints.pressed_faces import PressedFaces
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.states.configuration import LoadState
from geosim.shape.energy.states.last_evaluation import LastEvaluation

KNOWN_PARAMETERS = (
    "'volume_ratio', 'pressure', 'cable', 'material.c1', 'load:0', 'obstacle:0', 'friction:0', 'vertices', "
    "'design.wall'"
)

# Relative steps of central differences of residuals at one configuration: off by their square, rounding by 1e-16 over them.
RESIDUAL_STEP_REL = 1e-4


@dataclass(frozen=True)
class Column:
    """What a unit [SI] of a parameter changes: the equations, and what the measures read besides (m,)."""

    change: Change
    explicit: Floats


@dataclass(frozen=True)
class Columns:
    """All of one parameter, in its shape; None where it does not apply."""

    shape: tuple[int, ...]
    found: list[Column | None]


@dataclass(frozen=True)
class Differences:
    """Makes columns by central differences of problems on the same mesh, and the Jacobian of a measure by columns.

    Parameters
    ----------
    tangent, quantity
        Of an equilibrium.
    solver
        Its options.
    frame
        Its command.
    """

    tangent: Tangent
    quantity: Quantity
    solver: EnergyShapeSolver
    frame: int

    def jacobian(self, given: Columns) -> Floats:
        """Return the derivatives by columns, of the measure's shape and then theirs.

        They take a solve for every column, or one for every value of the measure, whichever are fewer.
        """
        count = int(np.prod(self.quantity.shape))
        out = np.full((count, len(given.found)), np.nan)
        present = [(k, c) for k, c in enumerate(given.found) if c is not None]
        prescribed = any(c.change.motion.any() for _, c in present)
        if len(present) <= count or prescribed:
            read = self.quantity.reader(self.tangent)
            for k, column in present:
                out[:, k] = read(self.tangent.respond(column.change)) + column.explicit
        else:
            for i, gradient in enumerate(self.quantity.gradients(self.tangent)):
                duals = self.tangent.duals(self.tangent.adjoint(gradient), gradient)
                for k, column in present:
                    out[i, k] = duals.paired(column.change) + column.explicit[i]
        return out.reshape((*self.quantity.shape, *given.shape))

    def by_all(self, found: Sequence[Column]) -> Floats:
        """Return the derivatives by columns, one after another in the last axis."""
        return self.jacobian(Columns((len(found),), list(found)))

    def column(self, change: Callable[[float], tuple[VolumetricRobot, Environment]], step: float) -> Column:
        """Return the column of a parameter that makes a robot and an environment of a difference from its value."""
        (plus, high), (minus, low) = (self._side(*change(sign * step)) for sign in (1.0, -1.0))
        explicit = self.quantity.difference(high, low) / (2.0 * step)
        return Column(plus.combined(0.5 / step, minus, -0.5 / step), explicit)

    def along(self, motion: Floats, step_rel: float = PLACE_STEP_REL) -> Column:
        """Return the column of rest positions that move by (n, 3) [m] per unit; `step_rel` of the largest, over the size."""
        robot, environment = self.tangent.problem.robot, self.tangent.problem.environment
        step = step_rel * robot.size / max(float(np.abs(motion).max()), MIN_DIVISOR)
        return self.column(lambda h: (robot.moved(robot.vertices + h * motion), environment), step)

    def of_materials(self, change: Callable[[float], Mapping[int, Hyperelastic]], step: float) -> Column:
        """Return the column of a parameter that makes materials by region of a difference from its value."""
        robot, environment = self.tangent.problem.robot, self.tangent.problem.environment
        return self.column(lambda h: (replace(robot, materials=change(h)), environment), step)

    def _side(self, robot: VolumetricRobot, environment: Environment) -> tuple[Change, ContactConfiguration]:
        own, forces = self.tangent.problem, self.tangent.evaluation.contact
        same = environment is own.environment and robot.vertices is own.robot.vertices
        apart = forces is None or not len(forces.pairs)
        made = neighbour(own, robot, environment, self.solver, same_shape=same, apart=apart)
        if made is None:
            raise InputError("sensitivity: the mesh has other unknowns a little way from here")
        target = self._target(made)
        point, contact_state = self.tangent.state.point, self.tangent.contact_state
        if contact_state is not None and target.contact_state is not None:
            contact_state = contact_state.at(target.contact_state.poses)
        return difference(self.tangent, made, target), ContactConfiguration(made, point, contact_state, target.external)

    def _target(self, problem: ShapeProblem) -> LoadState:
        """Return what the frame's command asks of a neighbour."""
        own, target, i = self.tangent.problem, self.tangent.state.target, self.frame
        scalars, c = target.scalars.copy(), own.chambers
        scalars[:c] *= problem.rest_chamber_volumes / own.rest_chamber_volumes
        loads = target.external - own.external_forces(i) + problem.external_forces(i)
        moved = target.positions - own.held_positions(i) + problem.held_positions(i)
        contact_state = target.contact_state
        if contact_state is not None and problem.contact is not None and own.contact is not None:
            contact_state = contact_state.at(
                problem.environment.poses(i) + contact_state.poses - own.environment.poses(i)
            )
        return replace(target, scalars=scalars, external=loads, positions=moved, contact_state=contact_state)


def columns(made: Differences, to: str) -> Columns:
    """Return the columns of a parameter, all but "vertices".

    Raises
    ------
    InputError
        The name is unknown, or the problem has no such parameter.
    """
    tangent, quantity = made.tangent, made.quantity
    head, _, rest = to.partition(".")
    name, _, number = to.partition(":")
    if to in ("volume_ratio", "pressure"):
        return _controls(tangent, to, quantity)
    if to == "cable":
        return _cables(tangent, quantity)
    if head == "material" and rest:
        return _material(made, rest)
    if name == "load" and number.isdigit():
        return _load(tangent, int(number), quantity)
    if name == "obstacle" and number.isdigit():
        return _obstacle(made, int(number))
    if name == "friction" and number.isdigit():
        return _friction(made, int(number))
    if head == "design" and rest:
        refuse_closed(tangent, to)
        return Columns((), [made.along(design_motion(tangent.problem.robot, rest))])
    raise InputError(f"to = {to!r} is no parameter; use one like {KNOWN_PARAMETERS}")


def _without(quantity: Quantity) -> Floats:
    return np.zeros(int(np.prod(quantity.shape)))


def _controls(tangent: Tangent, to: str, quantity: Quantity) -> Columns:
    """Volume ratios or pressures of the chambers that are prescribed so."""
    problem, target = tangent.problem, tangent.state.target
    by_value = target.by_value[: problem.chambers]
    mine = by_value if to == "volume_ratio" else ~by_value
    mine = mine & ~target.lawful[: problem.chambers]
    if not mine.any():
        other = "pressure" if to == "volume_ratio" else "volume_ratio"
        raise InputError(f"to = {to!r}: no chamber has a prescribed {to} at this frame; use {other!r}")
    found: list[Column | None] = []
    for c, one in enumerate(np.eye(problem.chambers, problem.scalars)):
        change = replace(tangent.still, gap=one * problem.rest_chamber_volumes[c])
        change = change if to == "volume_ratio" else replace(tangent.still, pressures=one / problem.stress)
        found.append(Column(change, _without(quantity)) if mine[c] else None)
    return Columns((problem.chambers,), found)


def _cables(tangent: Tangent, quantity: Quantity) -> Columns:
    """Lengths or tensions of the cables, whichever is prescribed; nothing answers the length of one that is slack."""
    problem, by_length = tangent.problem, tangent.state.target.by_value
    if problem.cables is None:
        raise InputError("to = 'cable': this robot has no cables")
    found: list[Column | None] = []
    for d in problem.chambers + problem.cables.main:
        one = np.eye(problem.scalars)[d]
        shorter = replace(tangent.still, gap=-one / problem.length)
        change = shorter if by_length[d] else replace(tangent.still, pressures=one / problem.force_unit)
        found.append(Column(change, _without(quantity)))
    return Columns((len(found),), found)


def refuse_closed(tangent: Tangent, to: str) -> None:
    """Refuse rest shapes of robots in which they decide over more than the mesh.

    Raises
    ------
    InputError
        A gas was closed in at rest, or cables run where the design put them.
    """
    what = "cables" if tangent.problem.cables is not None else "closed gas" if tangent.state.target.closed else ""
    if what:
        raise InputError(f"to = {to!r}: not known for robots with {what}; solve two of them and take the difference")


@dataclass(frozen=True)
class Constant:
    """A constant of the law of bodies of a robot: "c1" of all that have it, "0.c1" of one region, "mu:0" one of several terms.

    Parameters
    ----------
    materials
        Of all bodies by region.
    chosen
        Regions of the bodies that it belongs to.
    name, term
        Of the field, and the number of its term; "" where it has one value.
    """

    materials: Mapping[int, Hyperelastic]
    chosen: tuple[int, ...]
    name: str
    term: str

    @classmethod
    def of(cls, robot: VolumetricRobot, given: str, caller: str) -> Constant:
        """Return the constant that a text names.

        Raises
        ------
        InputError
            No body has it, or it has several terms and none is named; `caller` begins the message.
        """
        region, _, rest = given.rpartition(".")
        name, _, term = rest.partition(":")
        owners = {r: m for r, m in robot.materials.items() if region in ("", str(r)) and name in m.field_names()}
        if not owners:
            known = {str(r): m.field_names() for r, m in robot.materials.items()}
            raise InputError(f"{caller}: no body has this constant; bodies and constants are {known}")
        if any(np.ndim(getattr(m, name)) for m in owners.values()) and not term.isdigit():
            raise InputError(f"{caller} has several terms; add the number of one, 'material.{given}:0'")
        return cls(robot.materials, tuple(owners), name, term)

    def changed(self, new: Callable[[float], float]) -> dict[int, Hyperelastic]:
        """Return the materials by region with new values in place of the old ones."""

        def with_new(material: Hyperelastic) -> Hyperelastic:
            old = getattr(material, self.name)
            several = (new(v) if str(i) == self.term else v for i, v in enumerate(old)) if np.ndim(old) else ()
            value: dict[str, Any] = {self.name: tuple(several) or new(old)}
            return dataclasses.replace(material, **value)

        return {r: with_new(m) if r in self.chosen else m for r, m in self.materials.items()}


def _material(made: Differences, rest: str) -> Columns:
    """A constant of the material of one body, or of all that have it."""
    constant = Constant.of(made.tangent.problem.robot, rest, f"to = 'material.{rest}'")
    owners = [constant.materials[r] for r in constant.chosen]
    given = np.concatenate([np.ravel(getattr(m, constant.name)) for m in owners])
    if not np.isfinite(given).all():
        raise InputError(f"to = 'material.{rest}' is infinite, and nothing is known beside it; give it a finite value")
    step = RESIDUAL_STEP_REL * (float(np.abs(given).max()) or min(m.shear_modulus for m in owners))
    return Columns((), [made.of_materials(lambda h: constant.changed(lambda value: value + h), step)])


def _load(tangent: Tangent, number: int, quantity: Quantity) -> Columns:
    """The vector of a load, or its pressure."""
    problem = tangent.problem
    if number >= len(problem.load_shapes):
        raise InputError(f"to = 'load:{number}': the environment has {len(problem.load_shapes)} loads, counted from 0")
    if problem.supports.free_bodies:
        raise InputError(f"to = 'load:{number}': a free body bears no load with a resultant; fix it somewhere")
    loads = problem.environment.loads
    if loads[number].kind == "pressure":
        mine = problem.constraints.scalars_of(PressedFaces)[sum(load.kind == "pressure" for load in loads[:number])]
        change = replace(tangent.still, pressures=np.eye(problem.scalars)[mine] / problem.stress)
        return Columns((), [Column(change, _without(quantity))])
    weights = problem.load_shapes[number][0][problem.nodes] / problem.force_unit
    found: list[Column | None] = []
    for axis in np.eye(3):
        right = np.zeros(len(problem.held))
        right[: 3 * len(weights)] = (weights[:, None] * axis).ravel()
        found.append(Column(replace(tangent.still, right=right), quantity.of_forces(problem, right)))
    return Columns((3,), found)


def _touched(made: Differences, name: str, number: int) -> ContactPotential:
    """Return the contact of a problem that has an obstacle of a number."""
    problem = made.tangent.problem
    obstacles = problem.environment.obstacles
    if number >= len(obstacles) or problem.contact is None:
        raise InputError(f"to = '{name}:{number}': the environment has {len(obstacles)} obstacles, counted from 0")
    return problem.contact


def _obstacle(made: Differences, number: int) -> Columns:
    """The place of an obstacle."""
    contact, contact_state = _touched(made, "obstacle", number), made.tangent.contact_state
    assert contact_state is not None
    step = PLACE_STEP_REL * float(contact.thickness.min()) * made.tangent.problem.length
    found: list[Column | None] = []
    for axis in np.eye(3):
        sides = []
        for sign in (1.0, -1.0):
            poses = contact_state.poses.copy()
            poses[number, :3, 3] += sign * step * axis
            sides.append((contact, contact_state.at(poses)))
        found.append(column_by_contact(made.tangent, made.quantity, sides, step))
    return Columns((3,), found)


def _friction(made: Differences, number: int) -> Columns:
    """Coulomb's coefficient of an obstacle; what sticks and slides has the same history."""
    contact, contact_state = _touched(made, "friction", number), made.tangent.contact_state
    assert contact_state is not None
    known = contact.obstacles.friction
    if not known[number] > 0.0:
        raise InputError(
            f"to = 'friction:{number}': at the coefficient 0 nothing sticks, and the derivative has a kink; give a small one"
        )
    step, one = RESIDUAL_STEP_REL * float(known[number]), np.eye(len(known))[number]
    sides = [replace(contact, obstacles=contact.obstacles._replace(friction=known + h * one)) for h in (step, -step)]
    return Columns(
        (), [column_by_contact(made.tangent, made.quantity, [(side, contact_state) for side in sides], step)]
    )


def column_by_contact(
    tangent: Tangent, quantity: Quantity, sides: list[tuple[ContactPotential, ContactState]], step: float
) -> Column:
    """Return the column of a parameter of contact from contacts and grips a step to either side."""
    problem, point = tangent.problem, tangent.state.point
    forces, values = [], []
    for contact, grip in sides:
        forces.append(contact.evaluate(point.x, contact.settled(point.x, grip), matrix=False).force.ravel())
        beside = problem if contact is problem.contact else replace(problem, contact=contact, latest=LastEvaluation())
        there = replace(ContactConfiguration.of(tangent), problem=beside, contact_state=grip)
        values.append(quantity.value(there).ravel())
    right = np.zeros(len(problem.held))
    right[: point.x.size] = (forces[1] - forces[0]) / (2.0 * step)
    return Column(replace(tangent.still, right=right), (values[0] - values[1]) / (2.0 * step))


def in_touch(tangent: Tangent) -> Ints:
    """Vertices of the faces that are in contact or loaded: what their rest positions change is more than elements."""
    problem, n = tangent.problem, len(tangent.problem.robot.vertices)
    nodes = [np.zeros(0, dtype=np.int64)]
    nodes += [problem.nodes[np.flatnonzero(w[problem.nodes])] for w, _ in problem.load_shapes]
    pressed = problem.constraints.find(PressedFaces)
    nodes += [problem.nodes[patch.faces.ravel()] for patch in (() if pressed is None else pressed.patches)]
    forces, contact = tangent.evaluation.contact, problem.contact
    if contact is not None and forces is not None:
        points = np.unique(np.concatenate([np.nonzero(forces.push)[1], forces.pairs.ravel()]))
        faces = np.isin(contact.surface.slots, points).any(axis=1)
        nodes.append(problem.nodes[contact.surface.nodes[contact.surface.slots[faces].ravel()].ravel()])
    found = np.unique(np.concatenate(nodes))
    ends = problem.robot.p2_edges[found[found >= n] - n].ravel()
    return np.unique(np.concatenate([found[found < n], ends]))
