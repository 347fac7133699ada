"""Measures that can be differentiated: the value at a configuration, and its gradient by the unknowns."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints, shown
from geosim.errors import InputError
from geosim.measures.forces import held_tip
from geosim.measures.gauges import Gauges, Reading
from geosim.measures.spine import Spine, moved_spine, spine
from geosim.measures.strain import equivalent_stress, stretch
from geosim.measures.turning import arc_curvature, bend_gradient, bending
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.contact_slope import grip_slopes, obstacle_slopes
from geosim.response.derivatives.tangent import Direction, Tangent
from geosim.result import Result
from geosim.shape.energy import measures
from geosim.shape.energy.contact.contact_state import ContactForces, ContactState
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Configuration

Measure = Callable[[Floats], tuple[Any, Any]]
GAUGED_MEASURES = ("max_stretch", "max_von_mises")
DIFFERENTIABLE_MEASURES = (
    *("tip", "tip_displacement", "curvature", "bend_angle", "chamber_pressures", "chamber_volumes"),
    *("obstacle_forces", "grip_force", "blocked_force", "support_wrench"),
    *GAUGED_MEASURES,
)


@dataclass(frozen=True)
class ContactConfiguration:
    """A point of a problem, with the grip that friction goes by, and the scaled loads on it where forces of supports are read."""

    problem: ShapeProblem
    point: Configuration
    contact_state: ContactState | None
    external: Floats | None = None

    @classmethod
    def of(cls, tangent: Tangent) -> ContactConfiguration:
        """Return the configuration of a tangent."""
        state = tangent.state
        return cls(tangent.problem, state.point, tangent.contact_state, state.target.external)

    @classmethod
    def at(cls, state: ShapeState) -> ContactConfiguration:
        """Return the configuration of an equilibrium."""
        return cls(state.problem, state.point, state.target.contact_state, state.target.external)

    @property
    def positions(self) -> Floats:
        """Positions of the vertices [m], as frames show them, (n, 3)."""
        return measures.positions(self.problem, self.point.x)[: len(self.problem.robot.vertices)]


@dataclass(frozen=True)
class Quantity(ABC):
    """A measure in SI units.

    Parameters
    ----------
    shape
        Of its values.
    touches
        Vertices whose rest positions it reads.
    """

    shape: tuple[int, ...] = ()
    touches: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), kw_only=True)

    @abstractmethod
    def value(self, at: ContactConfiguration) -> Floats:
        """Return its values, of its shape."""

    @abstractmethod
    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradient of every value by the unknowns and the chamber pressures [SI over scaled]."""

    def reader(self, tangent: Tangent) -> Callable[[Direction], Floats]:
        """Return the function of rates of the unknowns that gives those of its values, flat."""
        gradients = self.gradients(tangent)
        return lambda rates: np.array([g.unknowns @ rates.unknowns + g.pressures @ rates.pressures for g in gradients])

    def difference(self, high: ContactConfiguration, low: ContactConfiguration) -> Floats:
        """Return what its values change by between two neighbours whose unknowns are the same, flat."""
        return np.asarray(self.value(high) - self.value(low)).ravel()

    def of_forces(self, problem: ShapeProblem, forces: Floats) -> Floats:
        """Return what its values change by where scaled forces (unknowns,) come on and nothing moves, flat."""
        return np.zeros(int(np.prod(self.shape)))

    def rest_slopes(self, at: ContactConfiguration) -> Floats | None:
        """Return the gradient by the rest positions that it reads besides `touches`, (values, n, 3); None of most."""
        return None


def quantity(
    of: str | Measure, problem: ShapeProblem, at: ContactConfiguration, known: Result | None = None
) -> Quantity:
    """Return the measure of a name, or that of f(positions (n, 3) [m]) -> (value, gradient).

    A `known` result of the robot has its centre line and its gauges already.

    Raises
    ------
    InputError
        The name is unknown, or the robot has no such measure.
    """
    if callable(of) and not isinstance(of, type):
        return _of_function(of, at)
    robot, count = problem.robot, len(problem.environment.obstacles)
    absent = {
        "curvature": not len(robot.fixed) and "this robot is fixed nowhere, so its arc has no base",
        **dict.fromkeys(("chamber_pressures", "chamber_volumes"), not problem.chambers and "this robot has no chamber"),
        **dict.fromkeys(("obstacle_forces", "grip_force"), not count and "the environment has no obstacle"),
    }
    if why := absent.get(of):  # type: ignore[arg-type]
        raise InputError(f"of = {of!r}: {why}")
    if of == "tip":
        return OfPositions((3,), touches=robot.tip)
    if of in ("tip_displacement", "curvature"):
        return FromRest((), curvature=of == "curvature", touches=np.union1d(robot.tip, robot.fixed))
    if of == "bend_angle":
        line = spine(robot) if known is None else known.spine
        if line is None:
            raise InputError("of = 'bend_angle': this robot has no centre line from what is fixed to its tip")
        return Bending(line=line, robot=robot, touches=np.flatnonzero(robot.body_vertices))
    if of in ("chamber_pressures", "chamber_volumes"):
        return OfChambers((problem.chambers,), volumes=of == "chamber_volumes")
    if of in ("obstacle_forces", "grip_force"):
        return OfObstacles((count, 3)) if of == "obstacle_forces" else OfGrip((count,))
    if of in ("blocked_force", "support_wrench"):
        return OfSupports.of(of, problem)
    if of in GAUGED_MEASURES:
        return Gauged.largest(of == "max_von_mises", at, Gauges(robot) if known is None else known.gauges)
    raise InputError(
        f"of = {of!r} is no measure; use {', '.join(DIFFERENTIABLE_MEASURES)}, or f(positions) -> (value, gradient)"
    )


def _of_function(of: Measure, at: ContactConfiguration) -> OfPositions:
    """Return the measure of a function of the positions, which is called once."""
    try:
        with suppress(ValueError):  # compiled functions may not say what they take
            inspect.signature(of).bind(at.positions)
    except TypeError as error:
        raise InputError(f"of: f(positions) is called with one argument, the positions; {error}") from None
    found = of(at.positions)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise InputError(f"of: f(positions) returns {shown(found)} and not (value, gradient)")
    return OfPositions(np.shape(found[0]), of=of)


def _by_nodes(problem: ShapeProblem, slope: Floats) -> Direction:
    """Return a gradient by all unknowns from that by the nodes, (3 n,) or (n, 3)."""
    unknowns = np.zeros(len(problem.held))
    unknowns[: slope.size] = slope.ravel()
    return Direction(unknowns, np.zeros(problem.scalars))


def _by_vertices(tangent: Tangent, slopes: Floats) -> list[Direction]:
    """Return gradients by the unknowns from those by the positions of the vertices [m], (m, n, 3)."""
    problem = tangent.problem
    by_nodes = measures.positions_adjoint(problem, tangent.state.point.x, slopes)
    return [_by_nodes(problem, slope) for slope in by_nodes]


@dataclass(frozen=True, kw_only=True)
class OfPositions(Quantity):
    """The tip, or what a function returns of the positions of the vertices."""

    of: Measure | None = None

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the values."""
        if self.of is None:
            robot = at.problem.robot
            return np.asarray(robot.tip_weights @ at.positions[robot.tip])
        return np.asarray(self.of(at.positions)[0], dtype=float)

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients."""
        robot, at = tangent.problem.robot, ContactConfiguration(tangent.problem, tangent.state.point, None)
        if self.of is None:
            slopes = np.zeros((3, len(robot.vertices), 3))
            slopes[:, robot.tip] = robot.tip_weights[None, :, None] * np.eye(3)[:, None]
        else:
            given = np.asarray(self.of(at.positions)[1], dtype=float)
            if given.shape != (*self.shape, len(robot.vertices), 3):
                raise InputError(
                    f"of: the gradient has shape {given.shape}; a value of shape {self.shape} needs "
                    f"{(*self.shape, len(robot.vertices), 3)}"
                )
            slopes = given.reshape(-1, len(robot.vertices), 3)
        return _by_vertices(tangent, slopes)


class Positions(Quantity):
    """Positions of all vertices [m], (n, 3); their rates are read off the nodes, without a gradient for each."""

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the positions."""
        return at.positions

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients."""
        count = int(np.prod(self.shape))
        return _by_vertices(tangent, np.eye(count).reshape(count, -1, 3))

    def reader(self, tangent: Tangent) -> Callable[[Direction], Floats]:
        """Return the function of rates that gives those of the positions."""
        problem = tangent.problem

        def read(rates: Direction) -> Floats:
            moved = np.zeros((len(problem.robot.vertices) + len(problem.robot.p2_edges), 3))
            moved[problem.nodes] = rates.unknowns[: tangent.state.point.x.size].reshape(-1, 3) * problem.length
            return moved[: self.shape[0]].ravel()

        return read


@dataclass(frozen=True, kw_only=True)
class Several(Quantity):
    """Some measures one after another, for the price of one."""

    parts: tuple[Quantity, ...]

    @classmethod
    def of(cls, parts: Sequence[Quantity]) -> Several:
        """Return the measures as one of their values, flat."""
        return cls((sum(int(np.prod(part.shape)) for part in parts),), parts=tuple(parts))

    def split(self, rows: Floats) -> list[Floats]:
        """Return the rows (values, ...) of every measure."""
        return np.split(rows, np.cumsum([int(np.prod(part.shape)) for part in self.parts])[:-1])

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the values."""
        return np.concatenate([np.ravel(part.value(at)) for part in self.parts])

    def difference(self, high: ContactConfiguration, low: ContactConfiguration) -> Floats:
        """Return the differences of all measures."""
        return np.concatenate([part.difference(high, low) for part in self.parts])

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients of all measures."""
        return [row for part in self.parts for row in part.gradients(tangent)]

    def reader(self, tangent: Tangent) -> Callable[[Direction], Floats]:
        """Return the function of rates that gives those of all measures."""
        readers = [part.reader(tangent) for part in self.parts]
        return lambda rates: np.concatenate([read(rates) for read in readers])


@dataclass(frozen=True, kw_only=True)
class FromRest(Quantity):
    """How far the tip has moved, or the curvature of the arc through base and tip that leaves the base along the rest shape."""

    curvature: bool

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the displacement [m] or the curvature [1/m]."""
        return np.asarray(self._read(at.problem.robot, at.positions)[0])

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradient."""
        robot = tangent.problem.robot
        slope = self._read(robot, ContactConfiguration.of(tangent).positions)[1]
        slopes = np.zeros((1, len(robot.vertices), 3))
        slopes[0, robot.tip] = robot.tip_weights[:, None] * slope
        return _by_vertices(tangent, slopes)

    def _read(self, robot: VolumetricRobot, positions: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient by the tip (3,)."""
        rest, now = (robot.tip_weights @ x[robot.tip] for x in (robot.vertices, positions))
        if self.curvature:
            return arc_curvature(robot.vertices[robot.fixed].mean(axis=0), rest, now)
        way = now - rest
        length = float(np.linalg.norm(way))
        return length, way / max(length, MIN_DIVISOR)


@dataclass(frozen=True, kw_only=True)
class Bending(Quantity):
    """The bend angle, along a line that keeps its windows where rest positions move."""

    line: Spine
    robot: VolumetricRobot

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the angle [rad]."""
        return np.asarray(np.linalg.norm(bending(self._line(at.problem.robot), at.positions)))

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradient."""
        at = ContactConfiguration(tangent.problem, tangent.state.point, None)
        return _by_vertices(tangent, bend_gradient(self.line, at.positions)[None])

    def _line(self, robot: VolumetricRobot) -> Spine:
        if np.array_equal(robot.vertices, self.robot.vertices):
            return self.line
        found = moved_spine(robot, self.line)
        if found is None:
            raise InputError("of = 'bend_angle': the robot loses its centre line when its rest shape moves")
        return found


@dataclass(frozen=True, kw_only=True)
class OfChambers(Quantity):
    """Pressures or volumes of all chambers."""

    volumes: bool

    def value(self, at: ContactConfiguration) -> Floats:
        """Return pressures [Pa] or volumes [m^3]."""
        problem, point = at.problem, at.point
        if not self.volumes:
            return point.scalar_forces[: problem.chambers] * problem.stress
        found = problem.evaluate(point.x, point.p, point.scalar_forces, np.zeros_like(point.x), matrix=False)
        return found.scalars[: problem.chambers] * problem.length**3

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients."""
        problem, (count,) = tangent.problem, self.shape
        if self.volumes:
            by_unknown = tangent.gradients[:count] * problem.length**3
            return [Direction(row, np.zeros(problem.scalars)) for row in by_unknown]
        by_scalar = problem.stress * np.eye(count, problem.scalars)
        return [Direction(np.zeros(len(problem.held)), row) for row in by_scalar]


class OfObstacles(Quantity):
    """Forces on all obstacles."""

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the forces [N]."""
        return np.asarray(-_contact_forces(at).on_points.sum(axis=1) * at.problem.force_unit)

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients."""
        problem, forces, contact_state = tangent.problem, tangent.evaluation.contact, tangent.contact_state
        assert problem.contact is not None
        assert forces is not None
        assert contact_state is not None
        slopes = obstacle_slopes(problem.contact, tangent.state.point.x, forces, contact_state)
        return [_by_nodes(problem, row * problem.force_unit) for slope in slopes for row in slope.toarray()]


class OfGrip(Quantity):
    """Sums of the normal forces on all obstacles, from all sides."""

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the sums [N]."""
        return np.asarray(_contact_forces(at).push.sum(axis=1) * at.problem.force_unit)

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradients."""
        problem, contact_state = tangent.problem, tangent.contact_state
        assert problem.contact is not None
        assert contact_state is not None
        slopes = grip_slopes(problem.contact, tangent.state.point.x, contact_state)
        return [_by_nodes(problem, slope.toarray()[0] * problem.force_unit) for slope in slopes]


def _contact_forces(at: ContactConfiguration) -> ContactForces:
    """Return the forces of contact at a configuration."""
    contact = at.problem.contact
    assert contact is not None
    assert at.contact_state is not None
    return contact.evaluate(at.point.x, contact.settled(at.point.x, at.contact_state), matrix=False)


class OfSupports(Quantity):
    """Force of the supports on the tip that a `Prescribed` holds, (3,); or force and moment of what is fixed, (6,)."""

    @classmethod
    def of(cls, name: str, problem: ShapeProblem) -> OfSupports:
        """Return the measure "blocked_force" or "support_wrench" where something is held so."""
        forces = cls((3,) if name == "blocked_force" else (6,))
        if not forces.functionals(problem).any():
            what = "no `Prescribed` holds its tip" if name == "blocked_force" else "this robot is fixed nowhere"
            raise InputError(f"of = {name!r}: {what}")
        return forces

    def functionals(self, problem: ShapeProblem) -> Floats:
        """Return what the forces on the nodes of a problem are summed with, (values, nodes, 3): held components alone."""
        robot, n = problem.robot, len(problem.robot.vertices)
        ids, about = robot.fixed, np.zeros(3)
        if self.shape == (3,):
            ids = held_tip(robot, problem.environment)
        elif len(ids):
            about = robot.vertices[ids].mean(axis=0)
        share = np.zeros(n + len(robot.p2_edges))
        share[ids] = 1.0
        share[n:] = share[robot.p2_edges].mean(axis=1)  # those of a mid-edge node go half to either end
        held = problem.held[: problem.rest.size].reshape(-1, 3)
        forces = np.broadcast_to(np.eye(3)[:, None], (3, len(problem.nodes), 3))
        ways = problem.rest * problem.length + problem.center - about  # what is fixed stays there
        moments = np.cross(np.eye(3)[:, None], ways[None])  # e . (r x f) = (e x r) . f
        found = forces if self.shape == (3,) else np.concatenate([forces, moments])
        return np.asarray(found * share[problem.nodes][None, :, None] * held)

    def value(self, at: ContactConfiguration) -> Floats:
        """Return forces [N], and moments [N m] about the middle of the fixed vertices."""
        assert at.external is not None
        problem, grip = at.problem, at.contact_state
        if grip is not None and problem.contact is not None:
            grip = problem.contact.settled(at.point.x, grip)
        point = at.point
        found = problem.evaluate(
            point.x, point.p, point.scalar_forces, at.external, matrix=False, contact_state=grip, hold=point.hold
        )
        return np.asarray(np.einsum("vni,ni->v", self.functionals(problem), found.force) * problem.force_unit)

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return rows of the whole tangent, those of held unknowns too."""
        problem, unit = tangent.problem, tangent.problem.force_unit
        out = []
        for functional in self.functionals(problem):
            row = np.zeros(len(problem.held))
            row[: functional.size] = functional.ravel()
            by_scalars = -np.einsum("cni,ni->c", tangent.evaluation.gradients, functional)
            out.append(Direction(unit * tangent.product(row, transposed=True), unit * by_scalars))
        return out

    def of_forces(self, problem: ShapeProblem, forces: Floats) -> Floats:
        """Return what supports take of forces on the nodes that they hold."""
        on_nodes = forces[: problem.rest.size].reshape(-1, 3)
        return np.asarray(-np.einsum("vni,ni->v", self.functionals(problem), on_nodes) * problem.force_unit)


@dataclass(frozen=True, kw_only=True)
class Gauged(Quantity):
    """The largest stretch or equivalent stress, of the gauge that reads it, which keeps its tets where rest positions move."""

    stress: bool
    gauges: Gauges
    reading: Reading
    nodes: Floats

    @classmethod
    def largest(cls, stress: bool, at: ContactConfiguration, gauges: Gauges) -> Gauged:
        """Return the measure of the gauge that reads most at a configuration."""
        nodes = measures.placed(at.problem, at.point.x)
        found = gauges.stresses(nodes) if stress else gauges.stretches(nodes)
        return cls(stress=stress, gauges=gauges, reading=max(found, key=lambda reading: reading.value), nodes=nodes)

    def value(self, at: ContactConfiguration) -> Floats:
        """Return the stretch [-] or the stress [Pa]."""
        robot = at.problem.robot
        same = np.array_equal(robot.vertices, self.gauges.robot.vertices)
        F = (self.gauges if same else Gauges(robot)).mean(self.reading, measures.placed(at.problem, at.point.x))
        return equivalent_stress(robot.materials[self.reading.region], F) if self.stress else stretch(F)

    def difference(self, high: ContactConfiguration, low: ContactConfiguration) -> Floats:
        """Return what the reading changes by: of moved rest positions to first order, which spares gauges of their own."""
        way = high.problem.robot.vertices - low.problem.robot.vertices
        return np.array([np.sum(self._slopes[1] * way)]) if way.any() else super().difference(high, low)

    def rest_slopes(self, at: ContactConfiguration) -> Floats:
        """Return the gradient by all rest positions."""
        return self._slopes[1][None]

    def gradients(self, tangent: Tangent) -> list[Direction]:
        """Return the gradient."""
        problem, robot = tangent.problem, tangent.problem.robot
        slopes = self._slopes[0].copy()
        n = len(robot.vertices)
        if problem.element.order == 1:  # edges are straight
            np.add.at(slopes, robot.p2_edges, 0.5 * slopes[n:, None])
        return [_by_nodes(problem, slopes[problem.nodes] * problem.length)]

    @cached_property
    def _slopes(self) -> tuple[Floats, Floats]:
        return self.gauges.slopes(self.reading, self.nodes, "stress" if self.stress else "stretch")
