"""State of a multibody simulation and its measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, frozen
from geosim.contract import Frame
from geosim.errors import InputError
from geosim.snake import joints, soft
from geosim.snake.model import MultibodyRobot, SnakeRobot
from geosim.snake.rotation import matrices
from geosim.snake.system import System, driven_springs

__all__ = ["MultibodyState", "load_state", "rest_state"]


@dataclass(frozen=True)
class MultibodyState:
    """Everything that the next step depends on.

    Parameters
    ----------
    system, workspace
        What `start` computed: flat arrays, and the workspace of the factorisation (its content is not state).
    time, steps
        [s]; number of steps done.
    positions, velocities
        Of the particles [m], [m/s], (n, 3).
    body_positions, orientations, body_velocities, spins
        Of the bodies [m] (b, 3), quaternions (w, x, y, z) (b, 4), [m/s] and [rad/s] in the world (b, 3).
    pressures
        Of the chambers [Pa].
    trend
        Change of the velocities of all slots in the last substep, for the next first guess, (slots, 3).
    pending
        Commands that wait for the valves' delay: (time [s], pressures [Pa]); the first is in force.
    multipliers
        Warm start of the dual route, or None.
    residual
        Largest unbalanced force of the last frame [N].
    contacts
        Closed contacts of the last substep (empty at the start): node and surface (k,), force on the node [N] and place
        [m] (k, 3), gap [m] (k,).
    line_onset
        As in the stepper [Pa].
    """

    system: System = field(repr=False)
    workspace: Any = field(repr=False)
    time: float
    steps: int
    positions: Floats = field(repr=False)
    velocities: Floats = field(repr=False)
    body_positions: Floats
    orientations: Floats
    body_velocities: Floats
    spins: Floats
    pressures: Floats
    trend: Floats = field(repr=False)
    pending: tuple = ()
    multipliers: Any = field(default=None, repr=False)
    residual: float = 0.0
    contacts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    line_onset: float = field(default=500.0, repr=False)
    is_frame: bool = True

    @property
    def robot(self) -> MultibodyRobot:
        """The robot that moves."""
        return self.system.robot

    @property
    def frame(self) -> Frame:
        """What a result shows; a contact force on a rigid body is booked on the first vertex of its solid."""
        robot, touch, n = self.robot, self.contacts, self.system.particles
        obstacles = len(self.system.environment.obstacles)
        forces, loads = np.zeros((len(robot.vertices), 3)), np.zeros((2, obstacles, 3))
        if touch:
            place = np.cumsum([n, *[len(points) for _, points, _ in robot.looks]])
            first = np.concatenate([np.arange(n), np.full(len(robot.body_masses), -1)])
            for i, (body, _, _) in reversed(list(enumerate(robot.looks))):
                first[n + body] = place[i]
            vertex, on = first[touch["node"]], touch["surface"] < obstacles
            np.add.at(forces, vertex[vertex >= 0], touch["force"][vertex >= 0])
            push, surface = touch["force"][on], touch["surface"][on]
            np.subtract.at(loads[0], surface, push)
            np.subtract.at(loads[1], surface, np.cross(touch["place"][on], push))
        extra: dict[str, Floats | float] = {
            "body_positions": self.body_positions,
            "body_orientations": self.orientations,
            "center_of_mass": self.center_of_mass,
        }
        if isinstance(robot, SnakeRobot):
            extra["bend_angles"] = self.bend_angles
        return Frame(
            self.vertices,
            self.time,
            chamber_pressures=self.pressures,
            contact_forces=forces,
            obstacle_forces=loads[0],
            obstacle_moments=loads[1],
            max_penetration=-touch["gap"].min(initial=0.0) if touch else 0.0,
            contact_count=len(touch["gap"]) if touch else 0,
            residual=self.residual,
            energies=self.energy()["elastic"],
            extra=extra,
        )

    @property
    def targets(self) -> Floats:
        """Pressures commanded of the valves now [Pa], (chambers,)."""
        return self.pending[0][1] if self.pending else np.zeros(self.system.robot.chambers)

    @property
    def vertices(self) -> Floats:
        """Places of `robot.vertices` [m], (v, 3)."""
        return self.system.robot.place_vertices(self.positions, self.body_positions, matrices(self.orientations))

    @property
    def center_of_mass(self) -> Floats:
        """[m], (3,)."""
        m, b = self.system.robot.particle_masses, self.system.robot.body_masses
        return (m @ self.positions + b @ self.body_positions) / (m.sum() + b.sum())

    @property
    def momentum(self) -> Floats:
        """Linear momentum [kg m/s], (3,)."""
        return (
            self.system.robot.particle_masses @ self.velocities + self.system.robot.body_masses @ self.body_velocities
        )

    @property
    def bend_angles(self) -> Floats:
        """Yaw of every carriage against the one before [rad], (count, links); positive bends to the left."""
        if not isinstance(self.robot, SnakeRobot):
            raise InputError(f"{self.robot.name} is not a snake: it has no carriages to measure bend angles between")
        carriages = self.robot.carriages
        R = matrices(self.orientations)[carriages.ravel()].reshape(*carriages.shape, 3, 3)
        forward = R[..., :, 0]
        yaw = np.unwrap(np.arctan2(forward[..., 1], forward[..., 0]), axis=-1)
        return np.diff(yaw, axis=-1)

    @property
    def curvatures(self) -> Floats:
        """Mean curvature of every link [1/m], (count, links): bend angle over the link's rest length."""
        robot = self.system.robot
        angles = self.bend_angles
        gaps = np.linalg.norm(np.diff(robot.body_positions[robot.carriages], axis=1), axis=2)  # type: ignore[attr-defined]
        plate = np.ptp(robot.looks[0][1][:, 0])
        return angles / (gaps - plate)

    def energy(self, gravity: Any = None) -> dict[str, float]:
        """Kinetic, elastic and gravitational energy [J]; elastic at the rest lengths of the last substep."""
        s, r = self.system, self.system.robot
        R = matrices(self.orientations)
        spin = np.einsum("bji,bj->bi", R, self.spins)
        kinetic = 0.5 * (
            r.particle_masses @ (self.velocities**2).sum(1)
            + r.body_masses @ (self.body_velocities**2).sum(1)
            + (r.body_inertias * spin**2).sum()
        )
        scrap, scratch = np.zeros((s.slots, 3)), np.empty((8, 3))
        rest, stiffness = driven_springs(r, self.pressures, self.line_onset)
        elastic = soft.tet_energy_gradient(
            self.positions, s.tets, s.tet_shapes, s.tet_volumes, s.mu, s.lam, scrap, np.empty((9, len(s.tets)))
        )
        elastic += soft.spring_energy_gradient(self.positions, s.springs, rest, stiffness, scrap)
        elastic += joints.pair_energy_gradient(
            r.pairs, r.pair_points, r.pair_stiffness, self.positions, self.body_positions, R, scrap, scratch
        )
        elastic += joints.axis_energy_gradient(r.axes, r.axis_vectors, r.axis_stiffness, R, s.particles, scrap, scratch)
        g = s.environment.gravity if gravity is None else np.asarray(gravity, dtype=float)
        height = -float((r.particle_masses @ self.positions + r.body_masses @ self.body_positions) @ g)
        return {"kinetic": float(kinetic), "elastic": float(elastic), "gravity": height}

    def constraint_drift(self) -> float:
        """Largest distance [m] between the two points of an attachment or joint."""
        r, n = self.system.robot, self.system.particles
        R = matrices(self.orientations)
        place = np.empty((len(r.pairs), 2, 3))
        for side in (0, 1):
            node, local = r.pairs[:, side], r.pair_points[:, side]
            body = np.maximum(node - n, 0)
            if len(R):
                moved = self.body_positions[body] + np.einsum("kij,kj->ki", R[body], local)
            else:
                moved = local
            particle = self.positions[np.clip(node, 0, max(n - 1, 0))] if n else local
            place[:, side] = np.where((node < 0)[:, None], local, np.where((node < n)[:, None], particle, moved))
        return float(np.linalg.norm(place[:, 0] - place[:, 1], axis=1).max(initial=0.0))

    def save(self, path: str | Path) -> Path:
        """Write the state to a .npz file; read it with `load_state`."""
        path = Path(path)
        waiting: dict[str, Any] = {
            "pending_times": np.array([t for t, _ in self.pending]),
            "pending_pressures": np.array([p for _, p in self.pending]).reshape(-1, self.system.robot.chambers),
        }
        arrays: dict[str, Any] = {key: getattr(self, key) for key in _SAVED}
        if self.multipliers is not None:
            arrays["multipliers"] = self.multipliers
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays, **waiting)
        return path


_SAVED = (
    "time",
    "steps",
    "positions",
    "velocities",
    "body_positions",
    "orientations",
    "body_velocities",
    "spins",
    "pressures",
    "trend",
    "residual",
)


def load_state(path: str | Path, start: MultibodyState) -> MultibodyState:
    """Read a state that `MultibodyState.save` wrote.

    Parameters
    ----------
    path
        The .npz file.
    start
        A state of the same robot, from `MultibodyStepper.start`.

    Raises
    ------
    InputError
        The file is missing, holds something else, or is of another robot.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            data = {key: file[key] for key in file.files}
    except (OSError, ValueError):
        raise InputError(f"{path}: cannot be read as a saved state (.npz)") from None
    missing = [key for key in (*_SAVED, "pending_times") if key not in data]
    if missing:
        raise InputError(f"{path}: {missing[0]!r} is missing; this is not a saved state of a multibody robot")
    values: dict[str, Any] = {}
    for key in _SAVED:
        old = getattr(start, key)
        if np.shape(data[key]) != np.shape(old):
            raise InputError(f"{path}: {key} has shape {np.shape(data[key])}, this robot needs {np.shape(old)}")
        values[key] = type(old)(data[key]) if np.ndim(old) == 0 else frozen(data[key])
    values["pending"] = tuple(zip((float(t) for t in data["pending_times"]), data["pending_pressures"]))
    values["multipliers"] = data.get("multipliers")
    kept = {f.name: getattr(start, f.name) for f in fields(start) if f.name in ("system", "workspace", "line_onset")}
    return MultibodyState(**kept, **values)


def rest_state(system: System, workspace: Any, line_onset: float) -> MultibodyState:
    """State of a robot as it was built."""
    r = system.robot
    return MultibodyState(
        system,
        workspace,
        0.0,
        0,
        r.particles,
        r.particle_velocities,
        r.body_positions,
        r.body_orientations,
        r.body_velocities,
        r.body_spins,
        frozen(np.zeros(r.chambers)),
        frozen(np.zeros((system.slots, 3))),
        line_onset=line_onset,
    )
