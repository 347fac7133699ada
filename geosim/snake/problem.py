"""The nonlinear problem of one substep: merit, residual and stiffness at a configuration.

With the prediction q~ = q + h v the implicit Euler step minimises, friction at its lagged normal forces (and the
rotational inertia as in `joints`),

    Psi(q) = |q - q~|^2_M / (2 h^2) + sum_constraints c^T E^-1 c / 2 - f . q + contact + friction,

whose stationarity with lambda = -E^-1 c is the first row of Eq. (8) of [Gasoto2019], M (q - q~) / h^2 = J^T lambda + f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.snake import contact, joints, soft
from geosim.snake.rotation import advance_quaternions, matrices, rotation_vectors
from geosim.snake.system import System

__all__ = ["Configuration", "Substep"]


@dataclass
class Configuration:
    """Places of the particles (n, 3) and poses of the bodies (b, 3), (b, 4), with their matrices (b, 3, 3)."""

    x: Floats
    X: Floats
    Q: Floats
    R: Floats

    @staticmethod
    def at(x: Floats, X: Floats, Q: Floats) -> Configuration:
        """Return the configuration of these places and quaternions."""
        return Configuration(x, X, Q, matrices(Q))

    def moved(self, step: Floats) -> Configuration:
        """Return exp(step) applied to this configuration, `step` (slots, 3)."""
        n = len(self.x)
        Q = advance_quaternions(self.Q, np.ascontiguousarray(step[n + 1 :: 2]))
        return Configuration(self.x + step[:n], self.X + step[n::2], Q, matrices(Q))


@kernel
def _translation_stiffness(masses, h, particles, diagonal, blocks):
    """Add M / h^2 to the blocks of particles and body centres."""
    for s in range(len(masses)):
        if s >= particles and (s - particles) % 2 == 1:
            continue
        H = blocks[diagonal[s]]
        for i in range(3):
            H[i, i] += masses[s] / (h * h)


@kernel
def _translation_energy_gradient(x, X, predicted, masses, h, force, gradient):
    """Write inertia and external force of particles and body centres (zero for rotations), return their merit [J]."""
    energy, n = 0.0, len(x)
    for s in range(len(masses)):
        for i in range(3):
            if s >= n and (s - n) % 2 == 1:
                gradient[s, i] = -force[s, i]
                continue
            away = (x[s, i] if s < n else X[(s - n) // 2, i]) - predicted[s, i]
            push = masses[s] / (h * h) * away
            gradient[s, i] = push - force[s, i]
            energy += (0.5 * push - force[s, i]) * away
    return energy


@kernel
def _largest(gradient, weights):
    """Largest weighted length of a row."""
    worst = 0.0
    for s in range(len(gradient)):
        size = gradient[s, 0] ** 2 + gradient[s, 1] ** 2 + gradient[s, 2] ** 2
        if not math.sqrt(size) * weights[s] <= worst:  # also where it is not a number
            worst = math.sqrt(size) * weights[s]
    return worst


@dataclass
class Evaluation:
    """Merit [J] (`smooth`: without the contacts), gradient (slots, 3), normal forces, rotations of the tets (9, m)."""

    smooth: float
    merit: float
    gradient: Floats
    normal_forces: Floats
    rotations: Floats


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
    """

    system: System
    start: Configuration
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
    predicted_slots: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        system, n = self.system, self.system.particles
        start = self.start
        places = np.empty((system.slots, 3))
        places[:n], places[n::2], places[n + 1 :: 2] = start.x, start.X, 0.0
        self.predicted_slots = places + self.h * self.velocities
        before = matrices(advance_quaternions(start.Q, -self.h * np.ascontiguousarray(self.velocities[n + 1 :: 2])))
        self.momenta = joints.angular_momenta(start.R, system.second_moments, before, self.h)
        self._scratch = np.empty((8, 3))
        self.blocks = system.blocks
        self.contacts = self._find_contacts()
        robot = system.robot
        self.hinge_start = np.array(
            [
                joints.hinge_angle(robot.hinges[k], robot.hinge_frames[k], start.R, np.empty(3))
                for k in range(len(robot.hinges))
            ]
        )

    def _find_contacts(self) -> contact.Contacts:
        system, robot, c = self.system, self.system.robot, self.start
        capacity = len(robot.probes) + 64 if len(system.surface_body) else 0
        while True:
            whole, reals = np.empty((capacity, 3), dtype=np.int64), np.empty((capacity, 13))
            count = contact.find_contacts(
                robot.probes,
                robot.probe_centers,
                robot.probe_axes,
                robot.probe_radii,
                robot.probe_friction,
                c.x,
                c.X,
                c.R,
                system.solids,
                self.poses,
                self.poses_before,
                system.surface_friction,
                system.surface_body,
                self.margin,
                whole,
                reals,
            )
            if count <= capacity:
                break
            capacity = count
        return contact.Contacts(
            whole[:count].copy(),
            reals[:count].copy(),
            robot.probes,
            robot.probe_centers,
            robot.probe_axes,
            robot.probe_radii,
            c.x,
            c.X,
            c.R,
            self.contact_stiffness,
            self.creep,
        )

    def evaluate(self, c: Configuration, lagged: Floats | None = None) -> Evaluation:
        """Return merit and gradient at c; friction in the merit at the `lagged` normal forces, default those at c."""
        system, robot, h = self.system, self.system.robot, self.h
        n = system.particles
        gradient = np.empty((system.slots, 3))
        rotations = np.empty((9, len(system.tets)))
        merit = _translation_energy_gradient(c.x, c.X, self.predicted_slots, system.masses, h, self.force, gradient)
        merit += joints.body_energy_gradient(
            c.R, system.second_moments, self.start.R, rotation_vectors(c.Q, self.start.Q), self.momenta, h, n, gradient
        )
        merit += soft.tet_energy_gradient(
            c.x, system.tets, system.tet_shapes, system.tet_volumes, system.mu, system.lam, gradient, rotations
        )
        merit += soft.spring_energy_gradient(c.x, system.springs, self.rest, self.stiffness, gradient)
        merit += joints.pair_energy_gradient(
            robot.pairs, robot.pair_points, robot.pair_stiffness, c.x, c.X, c.R, gradient, self._scratch
        )
        merit += joints.axis_energy_gradient(
            robot.axes, robot.axis_vectors, robot.axis_stiffness, c.R, n, gradient, self._scratch
        )
        merit += joints.angle_terms(
            robot.hinges,
            robot.hinge_frames,
            robot.hinge_gains,
            self.hinge_start,
            c.R,
            h,
            n,
            gradient,
            system.hinge_index,
            self.blocks,
            False,
            self._scratch,
        )
        normal_forces = np.empty(len(self.contacts.ints))
        total = merit + self._contact(c, normal_forces, lagged, gradient)
        if lagged is None:
            total = merit + self.contact_merit(c, normal_forces)
        gradient[~system.free] = 0.0
        return Evaluation(merit, total, gradient, normal_forces, rotations)

    def _contact(self, c: Configuration, forces: Floats, lagged: Floats | None, gradient: Floats) -> float:
        held = np.zeros_like(forces) if lagged is None else lagged
        return contact.contact_energy_gradient(self.contacts, c.x, c.X, c.R, held, forces, gradient)

    def contact_merit(self, c: Configuration, lagged: Floats) -> float:
        """Contact part of the merit [J] at these normal forces in the friction."""
        if not len(lagged):
            return 0.0
        return self._contact(c, np.empty_like(lagged), lagged, np.empty((self.system.slots, 3)))

    def residual(self, gradient: Floats) -> float:
        """Largest unbalanced force [N] of a slot; torques over the radius of gyration."""
        return float(_largest(gradient, self.system.weights))

    def assemble(self, c: Configuration, rotations: Floats, clamp: bool, contacts: bool = True) -> Floats:
        """Return the lower 3x3 blocks of the stiffness; `clamp` keeps the semi-definite part of the geometric one."""
        system, robot, blocks, h = self.system, self.system.robot, self.blocks, self.h
        n = system.particles
        blocks[:] = 0.0
        geometric = np.zeros((len(c.X), 3, 3))
        soft.tet_stiffness(
            c.x,
            system.tets,
            system.tet_shapes,
            system.tet_volumes,
            system.mu,
            system.lam,
            rotations,
            system.tet_index,
            clamp,
            blocks,
        )
        soft.spring_stiffness(c.x, system.springs, self.rest, self.stiffness, system.spring_index, clamp, blocks)
        soft.close_rows(system.rows, system.columns, system.diagonal, n, blocks)
        _translation_stiffness(system.masses, h, n, system.diagonal, blocks)
        joints.pair_stiffness(
            robot.pairs,
            robot.pair_points,
            robot.pair_stiffness,
            c.x,
            c.X,
            c.R,
            system.pair_index,
            system.pair_flipped,
            geometric,
            blocks,
            self._scratch,
        )
        joints.axis_stiffness(
            robot.axes, robot.axis_vectors, robot.axis_stiffness, c.R, system.axis_index, blocks, self._scratch
        )
        joints.angle_terms(
            robot.hinges,
            robot.hinge_frames,
            robot.hinge_gains,
            self.hinge_start,
            c.R,
            h,
            n,
            np.empty((system.slots, 3)),
            system.hinge_index,
            blocks,
            True,
            self._scratch,
        )
        if contacts:
            nodes = np.column_stack([robot.probes[self.contacts.ints[:, 0]], self.contacts.ints[:, 1]])
            index, flipped = system.point_index(nodes)
            contact.contact_stiffness(self.contacts, c.x, c.X, c.R, index, flipped, clamp, geometric, blocks)
        joints.body_stiffness(c.R, system.second_moments, self.start.R, h, n, geometric, clamp, system.diagonal, blocks)
        if not system.free.all():
            held = ~(system.free[system.rows] & system.free[system.columns])
            blocks[held] = 0.0
            blocks[system.diagonal[~system.free]] = np.eye(3)
        return blocks

    @property
    def contact_ends(self) -> tuple[Ints, Ints]:
        """Slots of the places of both sides of the contacts, (k,) each, the second -1 for the world."""
        n, ints = self.system.particles, self.contacts.ints
        first, second = self.contacts.node[ints[:, 0]], ints[:, 1]
        return np.where(first < n, first, 2 * first - n), np.where(second < n, second, 2 * second - n)

    def contact_rows(self, c: Configuration) -> tuple[Ints, Floats, Floats]:
        """Gap and slip of all contacts at c (k, 3) with their derivatives: slots (k, 4), rows (k, 3, 4, 3), values."""
        count = len(self.contacts.ints)
        slots, rows, values = np.empty((count, 4), dtype=np.int64), np.zeros((count, 3, 4, 3)), np.empty((count, 3))
        contact.contact_rows(self.contacts, c.x, c.X, c.R, slots, rows, values)
        slots[(slots >= 0) & ~self.system.free[np.maximum(slots, 0)]] = -1
        return slots, rows, values

    def coupling(self, c: Configuration) -> tuple[Ints, Floats]:
        """Unsymmetric part of the contact stiffness at c: slots (k, 4) and rows (k, 2, 4, 3), see `add_coupling`."""
        slots, rows, values = self.contact_rows(c)
        slip = values[:, 1:] / np.maximum(np.linalg.norm(values[:, 1:], axis=1), self.creep)[:, None]
        scale = -self.contact_stiffness * self.contacts.reals[:, 9, None] * slip
        both = np.stack([rows[:, 0], np.einsum("ct,ctsi->csi", scale, rows[:, 1:])], axis=1)
        closed = (values[:, 0] < 0) & (self.contacts.reals[:, 9] > 0)
        return slots[closed], both[closed]

    def contact_table(self, c: Configuration) -> dict[str, np.ndarray]:
        """Closed contacts at c: node, surface (k,), force on the node [N] and place [m] (k, 3), gap [m] (k,)."""
        values, gaps = contact.contact_summary(self.contacts, c.x, c.X, c.R)
        touching, ints = gaps < 0, self.contacts.ints
        return {
            "node": self.contacts.node[ints[touching, 0]],
            "surface": ints[touching, 2],
            "force": values[touching, :3],
            "place": values[touching, 3:],
            "gap": gaps[touching],
        }
