"""The nonlinear problem of one substep: merit, residual and stiffness at a configuration.

With the prediction q~ = q + h v the implicit Euler step minimises, friction at its lagged normal forces (and the
rotational inertia as in `joints`),

    Psi(q) = |q - q~|^2_M / (2 h^2) + sum_constraints c^T E^-1 c / 2 - f . q + contact + friction,

whose stationarity with lambda = -E^-1 c is the first row of Eq. (8) of [Gasoto2019], M (q - q~) / h^2 = J^T lambda + f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import dot
from geosim.snake import joints, soft
from geosim.snake.contact import Contacts, contact_law, contact_rows, find_contacts
from geosim.snake.rotation import advance_quaternions, carried, matrices, rotation_vectors
from geosim.snake.rows import Rows, add_forces, add_geometric, add_stiffness, slots_of
from geosim.snake.system import MultibodySystem


@dataclass(frozen=True)
class MultibodyConfiguration:
    """Places of the particles (n, 3) and poses of the bodies: centres (b, 3), quaternions (b, 4)."""

    x: Floats
    X: Floats
    Q: Floats

    @cached_property
    def R(self) -> Floats:
        """Rotation matrices of the bodies, (b, 3, 3)."""
        return cast(Floats, matrices(self.Q))

    @cached_property
    def places(self) -> Floats:
        """Places of all slots, zero for rotations, (slots, 3)."""
        out = np.zeros((len(self.x) + 2 * len(self.X), 3))
        out[: len(self.x)], out[len(self.x) :: 2] = self.x, self.X
        return out

    def change(self, start: MultibodyConfiguration) -> Floats:
        """Return the increments from another configuration to this one: shifts [m] and rotation vectors, (slots, 3)."""
        out = self.places - start.places
        out[len(self.x) + 1 :: 2] = rotation_vectors(self.Q, start.Q)
        return out


@dataclass(frozen=True)
class MultibodyEvaluation:
    """What was found at a configuration.

    Parameters
    ----------
    place
        The configuration.
    smooth, merit
        [J], without and with the contacts.
    gradient
        [N], [N m] for rotations, (slots, 3).
    rotations
        Of the tets, (9, m).
    rigid
        Rows of point pairs, axes and hinges.
    contact
        Rows of the contacts: gap and slip along two tangents.
    touched
        Where the contacts touch [m], (c, 3).
    """

    place: MultibodyConfiguration
    smooth: float
    merit: float
    gradient: Floats
    rotations: Floats
    rigid: tuple[Rows, Rows, Rows]
    contact: Rows
    touched: Floats

    @property
    def normal_forces(self) -> Floats:
        """Of the contacts [N], (c,)."""
        return -self.contact.forces[:, 0]


@kernel
def inertia_terms(away, inertia, force, gradient):
    """Write inertia and external force of all slots `away` (slots, 3) from their prediction; returns their merit [J]."""
    merit = 0.0
    for s in range(len(away)):
        for i in range(3):
            push = inertia[s] * away[s, i]
            gradient[s, i] = push - force[s, i]
            merit += (0.5 * push - force[s, i]) * away[s, i]
    return merit


@kernel
def largest(gradient, weights):
    """Length of the longest row times its weight; nan where a row is none."""
    worst = 0.0
    for s in range(len(gradient)):
        square = weights[s] ** 2 * dot(gradient[s], gradient[s])
        worst = square if square > worst or math.isnan(square) else worst
    return math.sqrt(worst)


@dataclass
class Substep:
    """One substep of length h from a configuration with velocities; everything of it that does not change.

    Parameters
    ----------
    system
        The robot in its environment.
    start
        Configuration at the beginning.
    velocities
        [m/s] of places and [rad/s] of rotations (world), shape (slots, 3).
    h
        Length [s].
    rest, stiffness
        Of the distance constraints at the pressures of this substep, [m], [N/m].
    force
        External force on particles and body centres [N], shape (slots, 3).
    poses, poses_before
        Of the surfaces at the end and at the beginning, (surfaces, 3, 4).
    contact_stiffness, creep, margin
        [N/m], [m] (slip below which a contact sticks), [m] (search distance).
    blocks
        Scratch for the stiffness, (nnz, 3, 3); its content does not outlive a Newton iteration.
    """

    system: MultibodySystem
    start: MultibodyConfiguration
    velocities: Floats
    h: float
    rest: Floats
    stiffness: Floats
    force: Floats
    poses: Floats
    poses_before: Floats
    contact_stiffness: float
    creep: float
    margin: float
    blocks: Floats = field(repr=False)
    contacts: Contacts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        system, robot, start, n = self.system, self.system.robot, self.start, self.system.particles
        self.predicted = start.places + self.h * self.velocities
        self.predicted[n + 1 :: 2] = 0.0  # rotations have a momentum instead
        spins = np.ascontiguousarray(self.velocities[n + 1 :: 2])
        before = matrices(advance_quaternions(start.Q, -self.h * spins))
        self.momenta = joints.angular_momenta(start.R, system.second_moments, before, self.h)
        self.hinge_start = joints.hinge_angles(robot.hinges, robot.hinge_frames, start.R)
        self.inertia = system.place_masses / (self.h * self.h)
        self.held = np.flatnonzero(~system.free)
        self.contacts = self._find_contacts()
        ends = np.column_stack([robot.probes[self.contacts.pair[:, 0]], self.contacts.pair[:, 1]])
        slots = slots_of(ends, n).reshape(-1, 4)
        self.contact_slots = np.where((slots >= 0) & system.free[slots], slots, -1)
        self.contact_ends = np.where(
            slots[:, [0, 2]] < 0, slots[:, :1], slots[:, [0, 2]]
        )  # the world counts as the probe

    def _find_contacts(self) -> Contacts:
        system, c = self.system, self.start
        own = system.surfaces.body >= 0
        body = system.surfaces.body[own]
        poses, before = self.poses.copy(), self.poses_before.copy()
        poses[own] = before[own] = np.concatenate([c.R[body], c.X[body][:, :, None]], axis=2)
        room = len(system.probes.node) + 64 if len(own) else 0  # mostly enough; the search says how much it needs
        while True:
            found = Contacts.room(room)
            count = find_contacts(system.probes, system.surfaces, poses, before, c.x, c.X, c.R, self.margin, found)
            if count <= room:
                return found.first(count)
            room = count

    def moved(self, c: MultibodyConfiguration, step: Floats) -> MultibodyConfiguration:
        """Return exp(step) applied to a configuration, `step` (slots, 3); see `carried`."""
        return MultibodyConfiguration(*carried(c.x, c.X, c.Q, step, self.system.carriers))

    def evaluate(self, c: MultibodyConfiguration, lagged: Floats | None = None) -> MultibodyEvaluation:
        """Return merit and gradient at c; friction in the merit at the `lagged` normal forces, default those at c."""
        system, h, turns = self.system, self.h, slice(self.system.particles + 1, None, 2)
        gradient, rotations = np.empty_like(self.force), np.empty((9, len(system.soft.corners)))
        merit = float(inertia_terms(c.places - self.predicted, self.inertia, self.force, gradient))
        now = joints.angular_momenta(c.R, system.second_moments, self.start.R, h)
        gradient[turns] += (now - self.momenta) / h
        merit += joints.turning_energy(c.R, system.second_moments, self.start.R, h)
        merit -= float(np.vdot(self.momenta, rotation_vectors(c.Q, self.start.Q))) / h
        merit += soft.tet_energy_gradient(c.x, system.soft, gradient, rotations)
        merit += soft.spring_energy_gradient(c.x, system.springs, self.rest, self.stiffness, gradient)
        rigid = self._rigid_rows(c)
        contact, touched = self._contact_rows(c)
        for rows in (*rigid, contact):
            add_forces(rows.slots, rows.jacobian, rows.forces, gradient)
        merit += sum(rows.energy for rows in rigid)
        gradient[self.held] = 0.0
        total = merit + self._contact_merit(contact, -contact.forces[:, 0] if lagged is None else lagged)
        return MultibodyEvaluation(c, merit, total, gradient, rotations, rigid, contact, touched)

    def bounded(self, now: MultibodyEvaluation) -> tuple[MultibodyEvaluation, float]:
        """Return what may be kept of an evaluation that is no solution, and the share of its velocities.

        With the forces and rest lengths of its end a substep never ends with more energy than it began with; where forces do not
        balance that has to be enforced, or one such substep feeds the next. Velocities are scaled down, and where the potential
        alone is too large nothing moves.
        """
        # moved by nothing: a copy, because for read-only arrays kernels are compiled once more
        still = self.moved(self.start, np.zeros_like(self.velocities))
        first, rates = self.evaluate(still), now.place.change(self.start) / self.h
        left = self._kinetic(self.velocities, self.start) + self._potential(first) - self._potential(now)
        if not left >= 0.0:
            return first, 0.0
        return now, math.sqrt(min(left / max(self._kinetic(rates, now.place), math.ulp(0.0)), 1.0))

    def _kinetic(self, rates: Floats, c: MultibodyConfiguration) -> float:
        """Kinetic energy [J] of velocities (slots, 3)."""
        spins, moments = np.einsum("bji,bj->bi", c.R, rates[self.system.particles + 1 :: 2]), self.system.second_moments
        inertias = moments.sum(axis=1, keepdims=True) - moments
        return 0.5 * float(self.system.place_masses @ (rates**2).sum(axis=1) + (inertias * spins**2).sum())

    def _potential(self, now: MultibodyEvaluation) -> float:
        """Potential energy [J], contacts and external forces included, up to a constant of the substep."""
        c, moments = now.place, self.system.second_moments
        inertia = 0.5 * float(self.inertia @ ((c.places - self.predicted) ** 2).sum(axis=1))
        inertia += joints.turning_energy(c.R, moments, self.start.R, self.h)
        inertia -= float(np.vdot(self.momenta, rotation_vectors(c.Q, self.start.Q))) / self.h
        return now.smooth + now.contact.energy - inertia

    def with_own_friction(self, now: MultibodyEvaluation) -> float:
        """Merit [J] of an evaluation with its own normal forces in the friction."""
        return now.smooth + self._contact_merit(now.contact, now.normal_forces)

    def _rigid_rows(self, c: MultibodyConfiguration) -> tuple[Rows, Rows, Rows]:
        """Rows of point pairs, axes and hinges."""
        system, robot = self.system, self.system.robot
        p, a, j = len(robot.pairs), len(robot.axes), len(robot.hinges)
        between, arms, jacobian = np.empty((p, 3)), np.empty((p, 2, 3)), np.empty((p, 3, 4, 3))
        joints.pair_rows(robot.pairs, robot.pair_points, c.x, c.X, c.R, jacobian, between, arms)
        pushes = robot.pair_stiffness[:, None] * between
        energy = 0.5 * float(np.vdot(pushes, between))
        pairs = Rows(system.pair_slots, jacobian, between, pushes, system.pair_stiffness, energy, arms, pushes)
        lean, jacobian = np.empty((a, 1)), np.empty((a, 1, 2, 3))
        joints.axis_rows(robot.axes, robot.axis_vectors, c.R, jacobian, lean)
        torques = robot.axis_stiffness[:, None] * lean
        energy = 0.5 * float(np.vdot(torques, lean))
        axes = Rows(system.axis_slots, jacobian, lean, torques, robot.axis_stiffness[:, None, None], energy)
        springs = np.empty((j, 1, 2, 3)), np.empty((j, 1)), np.empty((j, 1)), np.empty((j, 1, 1))
        law = (robot.hinge_gains, self.hinge_start, self.h)
        energy = joints.hinge_rows(robot.hinges, robot.hinge_frames, *law, c.R, *springs)
        return pairs, axes, Rows(system.hinge_slots, *springs, energy)

    def _contact_rows(self, c: MultibodyConfiguration) -> tuple[Rows, Floats]:
        """Rows of the contacts, and where they touch [m]; their energy is that of the normal forces."""
        k, start = len(self.contacts.pair), self.start
        values, arms, touched, jacobian = (
            np.empty((k, 3)),
            np.empty((k, 2, 3)),
            np.empty((k, 3)),
            np.empty((k, 3, 4, 3)),
        )
        poses = (c.x, c.X, c.R, start.x, start.X, start.R)
        contact_rows(self.contacts, self.system.probes, *poses, jacobian, values, arms, touched)
        forces, slope = np.empty((k, 3)), np.empty((k, 3, 3))
        contact_law(values, self.contacts.friction, self.contact_stiffness, self.creep, forces, slope)
        energy = float(np.vdot(forces[:, 0], forces[:, 0])) / (2 * self.contact_stiffness)
        pushes = forces[:, :1] * self.contacts.normal
        return Rows(self.contact_slots, jacobian, values, forces, slope, energy, arms, pushes), touched

    def _contact_merit(self, contact: Rows, lagged: Floats) -> float:
        """Contact part of the merit [J], with Huber's potential of the slip at these normal forces."""
        slip = np.hypot(contact.values[:, 1], contact.values[:, 2])
        huber = np.where(slip > self.creep, slip - 0.5 * self.creep, 0.5 * slip**2 / self.creep)
        return contact.energy + float((self.contacts.friction * lagged) @ huber)

    def residual(self, gradient: Floats) -> float:
        """Largest unbalanced force [N] of a slot; torques over the radius of gyration."""
        return float(largest(gradient, self.system.weights))

    def assemble(self, now: MultibodyEvaluation, clamp: bool, contacts: bool = True) -> Floats:
        """Return the lower 3x3 blocks of the stiffness; `clamp` keeps the semi-definite part of the geometric one."""
        system, blocks, c, n = self.system, self.blocks, now.place, self.system.particles
        pattern = system.pattern
        blocks[:] = 0.0
        soft.tet_stiffness(c.x, system.soft, now.rotations, system.tet_index, clamp, blocks)
        soft.spring_stiffness(c.x, system.springs, self.rest, self.stiffness, system.spring_index, clamp, blocks)
        soft.close_rows(pattern.rows, pattern.columns, system.diagonal, n, blocks)
        geometric = np.zeros((len(c.X), 3, 3))
        for rows, index in zip(now.rigid, (system.pair_index, system.axis_index, system.hinge_index)):
            add_stiffness(rows.jacobian, rows.stiffness, *index, blocks)
        add_geometric(now.rigid[0].slots, now.rigid[0].arms, now.rigid[0].pushes, n, geometric)
        if contacts:
            stiffness = self.friction_stiffness(now.contact, clamp)
            add_stiffness(now.contact.jacobian, stiffness, *pattern.blocks_of(now.contact.slots), blocks)
            add_geometric(now.contact.slots, now.contact.arms, now.contact.pushes, n, geometric)
        self._add_inertia(c, soft.positive_part(geometric) if clamp else geometric, blocks)
        if not system.free.all():
            blocks[~(system.free[pattern.rows] & system.free[pattern.columns])] = 0.0
            blocks[system.diagonal[~system.free]] = np.eye(3)
        return blocks

    def friction_stiffness(self, contact: Rows, clamp: bool) -> Floats:
        """Symmetric part of the stiffness of contacts in their rows, (c, 3, 3).

        With `clamp` the friction has the stiffness 1/W in every tangential direction: more than the second derivative of its
        potential, which vanishes along the slip, but enough that a step never overshoots from sliding into sticking.
        """
        stiffness = contact.stiffness.copy()
        stiffness[:, 1:, 0] = 0.0
        if clamp:
            slip = np.maximum(np.hypot(contact.values[:, 1], contact.values[:, 2]), self.creep)
            sticking = -self.contacts.friction * contact.forces[:, 0] / slip
            stiffness[:, 1:, 1:] = sticking[:, None, None] * np.eye(2)
        return stiffness

    def _add_inertia(self, c: MultibodyConfiguration, geometric: Floats, blocks: Floats) -> None:
        """Add M / h^2 of places, and rotational inertia with the geometric stiffness of the bodies."""
        system = self.system
        axes = np.arange(3)
        blocks[system.diagonal[:, None], axes, axes] += self.inertia[:, None]
        inertia = joints.turning_stiffness(c.R, system.second_moments, self.start.R, self.h)
        blocks[system.diagonal[system.particles + 1 :: 2]] += inertia + geometric

    def coupling(self, contact: Rows) -> tuple[Ints, Floats]:
        """Unsymmetric part of the contact stiffness: slots (k, 4) and rows (k, 2, 4, 3), see `add_coupling`."""
        sliding = np.einsum("ct,ctsi->csi", contact.stiffness[:, 1:, 0], contact.jacobian[:, 1:])
        both = np.stack([contact.jacobian[:, 0], sliding], axis=1)
        closed = (contact.values[:, 0] < 0) & (self.contacts.friction > 0)
        return contact.slots[closed], both[closed]

    def contact_table(self, now: MultibodyEvaluation) -> dict[str, np.ndarray]:
        """Closed contacts: node, surface (k,), force on the node [N] and place [m] (k, 3), gap [m] (k,)."""
        contact, pair = now.contact, self.contacts.pair
        closed = contact.values[:, 0] < 0
        return {
            "node": self.system.probes.node[pair[closed, 0]],
            "surface": pair[closed, 2],
            "force": -np.einsum("cr,cri->ci", contact.forces, contact.jacobian[:, :, 0])[closed],
            "place": now.touched[closed],
            "gap": contact.values[closed, 0],
        }
