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
from typing import NamedTuple, cast

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import dot, row
from geosim.snake import joints, soft
from geosim.snake.contact import Contacts, contact_slots, contact_terms, find_contacts
from geosim.snake.rotation import advance_quaternions, carried, matrices, rotation_vectors
from geosim.snake.rows import Rows, add_geometric, add_stiffness
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


class MultibodyEvaluation(NamedTuple):
    """What was found at a configuration.

    Parameters
    ----------
    place
        The configuration.
    smooth, inertial, merit, lagged_merit
        [J]: without the contacts; of it that of inertia; with the contacts; the same with the friction of the normal forces
        that were given, if any were.
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
    inertial: float
    merit: float
    lagged_merit: float
    gradient: Floats
    rotations: Floats
    rigid: tuple[Rows, Rows, Rows]
    contact: Rows
    touched: Floats

    @property
    def normal_forces(self) -> Floats:
        """Of the contacts [N], (c,)."""
        return -self.contact.forces[:, 0]


class Momentum(NamedTuple):
    """What inertia does in one substep, of length `h` [s].

    Parameters
    ----------
    h
        [s].
    predicted
        Places of all slots by their velocities [m], zero for rotations, (slots, 3).
    inertia
        Mass of places over h^2 [N/m], zero for rotations, (slots,).
    force
        External force [N], (slots, 3).
    second_moments
        tr(I) / 2 - I of the bodies [kg m^2], (b, 3).
    momenta
        Their angular momenta at the start [kg m^2/s], (b, 3).
    Q, R
        Their quaternions (b, 4) and rotations (b, 3, 3) at the start.
    """

    h: float
    predicted: Floats
    inertia: Floats
    force: Floats
    second_moments: Floats
    momenta: Floats
    Q: Floats
    R: Floats


@kernel
def inertia_terms(m, x, X, Q, R, gradient):
    """Write inertia and external force of all slots, (slots, 3); returns their merit, and of it that of inertia alone [J]."""
    n, inert, pushed = len(x), 0.0, 0.0
    for s in range(len(gradient)):
        body, turn = divmod(s - n, 2)
        for i in range(3):
            place = x[s, i] if s < n else X[body, i] if turn == 0 else 0.0
            away = place - m.predicted[s, i]
            push = m.inertia[s] * away
            gradient[s, i] = push - m.force[s, i]
            inert += 0.5 * push * away
            pushed += m.force[s, i] * away
    now, turned = joints.angular_momenta(R, m.second_moments, m.R, m.h), rotation_vectors(Q, m.Q)
    for b in range(len(X)):
        for i in range(3):
            gradient[n + 2 * b + 1, i] += (now[b, i] - m.momenta[b, i]) / m.h
            inert -= m.momenta[b, i] * turned[b, i] / m.h
    inert += joints.turning_energy(R, m.second_moments, m.R, m.h)
    return inert - pushed, inert


@kernel
def along(gradient, direction):
    """Slope of the merit in a direction (slots, 3), and length of its gradient."""
    slope = square = 0.0
    for s in range(len(gradient)):
        g = row(gradient, s)
        slope += dot(g, row(direction, s))
        square += dot(g, g)
    return slope, math.sqrt(square)


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
        predicted = start.places + self.h * self.velocities
        predicted[n + 1 :: 2] = 0.0  # rotations have a momentum instead
        spins, moments = np.ascontiguousarray(self.velocities[n + 1 :: 2]), system.second_moments
        before = matrices(advance_quaternions(start.Q, -self.h * spins))
        momenta = joints.angular_momenta(start.R, moments, before, self.h)
        inertia = system.place_masses / (self.h * self.h)
        self.momentum = Momentum(self.h, predicted, inertia, self.force, moments, momenta, start.Q, start.R)
        self.hinge_start = joints.hinge_angles(robot.hinges, robot.hinge_frames, start.R)
        self.contacts = self._find_contacts()
        self.no_forces = np.zeros(len(self.contacts.pair))
        self.contact_slots, self.contact_ends = contact_slots(self.contacts.pair, system.probes.node, system.free, n)

    def _find_contacts(self) -> Contacts:
        system, c = self.system, self.start
        poses, before, own = self.poses, self.poses_before, system.surfaces.body >= 0
        if own.any():
            body = system.surfaces.body[own]
            poses, before = poses.copy(), before.copy()
            poses[own] = before[own] = np.concatenate([c.R[body], c.X[body][:, :, None]], axis=2)
        around = (system.probes, system.surfaces, poses, before, c.x, c.X, c.R, self.margin)
        room = len(system.probes.node) + 64  # mostly enough
        columns = [((3,), np.int64), *[((3,), np.float64)] * 4, ((), np.float64)]
        return Contacts(*filled(lambda *out: find_contacts(*around, Contacts(*out)), room, *columns))

    def moved(self, c: MultibodyConfiguration, step: Floats) -> MultibodyConfiguration:
        """Return exp(step) applied to a configuration, `step` (slots, 3); see `carried`."""
        return MultibodyConfiguration(*carried(c.x, c.X, c.Q, step, self.system.carriers))

    def evaluate(self, c: MultibodyConfiguration, lagged: Floats | None = None) -> MultibodyEvaluation:
        """Return merit and gradient at c; friction in the merit at the `lagged` normal forces, default those at c."""
        system = self.system
        gradient, rotations = np.empty_like(self.force), np.empty((9, len(system.soft.corners)))
        merit, inertial = inertia_terms(self.momentum, c.x, c.X, c.Q, c.R, gradient)
        merit += soft.tet_energy_gradient(c.x, system.soft, gradient, rotations)
        merit += soft.spring_energy_gradient(c.x, system.springs, self.rest, self.stiffness, gradient)
        parts = system.rigid
        pair, (leaning, lean, torques), (turning, angle, moments, slope), energies = joints.rigid_rows(
            parts, self.hinge_start, self.h, c.x, c.X, c.R, gradient
        )
        jacobian, between, arms, pushes = pair
        rigid = (
            Rows(parts.pair_slots, jacobian, between, pushes, system.pair_stiffness, energies[0], arms, pushes),
            Rows(parts.axis_slots, leaning, lean, torques, system.axis_stiffness, energies[1]),
            Rows(parts.hinge_slots, turning, angle, moments, slope, energies[2]),
        )
        law, start = (self.contact_stiffness, self.creep), self.start
        places = (c.x, c.X, c.R, start.x, start.X, start.R)
        before = self.no_forces if lagged is None else lagged
        (*found, touched), (pressed, own, other) = contact_terms(
            self.contacts, self.contact_slots, system.probes, *law, before, *places, gradient
        )
        jacobian, values, forces, slope, arms, pushes = found
        contact = Rows(self.contact_slots, jacobian, values, forces, slope, pressed, arms, pushes)
        gradient[system.held] = 0.0
        smooth = merit + sum(energies)
        merits = smooth + pressed + own, smooth + pressed + (own if lagged is None else other)
        return MultibodyEvaluation(c, smooth, inertial, *merits, gradient, rotations, rigid, contact, touched)

    def bounded(self, now: MultibodyEvaluation) -> tuple[MultibodyEvaluation, float]:
        """Return what may be kept of an evaluation that is no solution, and the share of its velocities.

        With the forces and rest lengths of its end a substep never ends with more energy than it began with. Where forces do not
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
        return now.smooth + now.contact.energy - now.inertial

    def residual(self, gradient: Floats) -> float:
        """Largest unbalanced force [N] of a slot; torques over the radius of gyration."""
        return float(largest(gradient, self.system.weights))

    def assemble(
        self, now: MultibodyEvaluation, clamp: bool, contacts: bool = True, damped: bool | None = None
    ) -> Floats:
        """Return the lower 3x3 blocks of the stiffness; `clamp` keeps the semi-definite part of the geometric one.

        Friction is `damped` (see `friction_stiffness`) as `clamp` says, unless this does.
        """
        system, blocks, c, n = self.system, self.blocks, now.place, self.system.particles
        pattern = system.pattern
        blocks[:] = 0.0
        soft.tet_stiffness(c.x, system.soft, now.rotations, system.tet_index, clamp, blocks)
        soft.spring_stiffness(c.x, system.springs, self.rest, self.stiffness, system.spring_index, clamp, blocks)
        soft.close_rows(pattern.rows, pattern.columns, system.diagonal, n, blocks)
        for rows, index in zip(now.rigid, (system.pair_index, system.axis_index, system.hinge_index)):
            add_stiffness(rows.jacobian, rows.stiffness, *index, blocks)
        if contacts:
            stiffness = self.friction_stiffness(now.contact, clamp if damped is None else damped)
            add_stiffness(now.contact.jacobian, stiffness, *pattern.blocks_of(now.contact.slots), blocks)
        blocks[system.diagonal] += self.inertia_blocks(now, clamp, contacts)
        if not system.free.all():
            blocks[~(system.free[pattern.rows] & system.free[pattern.columns])] = 0.0
            blocks[system.diagonal[~system.free]] = np.eye(3)
        return blocks

    def friction_stiffness(self, contact: Rows, damped: bool) -> Floats:
        """Symmetric part of the stiffness of contacts in their rows, (c, 3, 3).

        If `damped` the friction has the stiffness 1/W in every tangential direction: more than the second derivative of its
        potential, which vanishes along the slip, but enough that a step never overshoots from sliding into sticking.
        """
        stiffness = contact.stiffness.copy()
        stiffness[:, 1:, 0] = 0.0
        if damped:
            slip = np.maximum(np.hypot(contact.values[:, 1], contact.values[:, 2]), self.creep)
            sticking = -self.contacts.friction * contact.forces[:, 0] / slip
            stiffness[:, 1:, 1:] = sticking[:, None, None] * np.eye(2)
        return stiffness

    def inertia_blocks(self, now: MultibodyEvaluation, clamp: bool, contacts: bool = True) -> Floats:
        """Part of the stiffness that no row couples: M / h^2, of rotations with their geometric stiffness, (slots, 3, 3)."""
        system, c, n = self.system, now.place, self.system.particles
        geometric, out = np.zeros((len(c.X), 3, 3)), self.momentum.inertia[:, None, None] * np.eye(3)
        for rows in (now.rigid[0], now.contact) if contacts else now.rigid[:1]:
            add_geometric(rows.slots, rows.arms, rows.pushes, n, geometric)
        turning = joints.turning_stiffness(c.R, system.second_moments, self.start.R, self.h)
        out[n + 1 :: 2] = turning + (soft.positive_part(geometric) if clamp else geometric)
        return out

    def steepest(self, now: MultibodyEvaluation) -> Floats:
        """Direction (slots, 3) by the mass alone, which always descends."""
        return -now.gradient * (self.h**2 / self.system.masses)[:, None]

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
