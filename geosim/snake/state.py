"""State of a multibody simulation and its measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from geosim.arrays import Floats, frozen
from geosim.errors import InputError
from geosim.model.contract import Frame
from geosim.snake import joints, soft
from geosim.snake.condensed import Factored, Kept
from geosim.snake.model import MultibodyRobot, SnakeRobot
from geosim.snake.problem import MultibodyConfiguration, MultibodyEvaluation, Substep
from geosim.snake.rotation import matrices
from geosim.snake.system import MultibodySystem, Workspace


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
    kept
        Where the stiffness was factored last, for the next steps.
    spent
        CPU time [s] that the motion has taken, where it is limited.
    """

    system: MultibodySystem = field(repr=False)
    workspace: Workspace = field(repr=False)
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
    pending: tuple[tuple[float, Floats], ...]
    line_onset: float = field(repr=False)
    multipliers: Any = field(default=None, repr=False)
    residual: float = 0.0
    contacts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    kept: Kept = field(default_factory=Kept, repr=False)
    is_frame: bool = True
    spent: float = 0.0

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
            obstacle_poses=self.system.environment.poses(self.steps - 1),
            max_penetration=-touch["gap"].min(initial=0.0) if touch else 0.0,
            contact_count=len(touch["gap"]) if touch else 0,
            residual=self.residual,
            energies=self.energy()["elastic"],
            extra=extra,
        )

    @property
    def place(self) -> MultibodyConfiguration:
        """Where particles and bodies are."""
        return MultibodyConfiguration(self.positions, self.body_positions, self.orientations)

    @property
    def slot_velocities(self) -> Floats:
        """Velocities of all slots [m/s], [rad/s], (slots, 3)."""
        n, out = self.system.particles, np.empty((self.system.slots, 3))
        out[:n], out[n::2], out[n + 1 :: 2] = self.velocities, self.body_velocities, self.spins
        return out

    def after(
        self, problem: Substep, now: MultibodyEvaluation, kept: Kept, multipliers: Floats | None, share: float | None
    ) -> MultibodyState:
        """Return the state at the end of a substep: v = dq / h, or where forces do not balance a `share` of that."""
        n, rates = self.system.particles, now.place.change(problem.start) / problem.h
        if share is not None:
            rates *= share
        trend = rates - problem.velocities
        # A guess that is extrapolated from what does not balance runs away.
        trend *= likeness(trend, self.trend) if share is None else 0.0
        return replace(
            self,
            time=self.time + problem.h,
            positions=frozen(now.place.x),
            body_positions=frozen(now.place.X),
            orientations=frozen(now.place.Q),
            velocities=frozen(rates[:n]),
            body_velocities=frozen(rates[n::2]),
            spins=frozen(rates[n + 1 :: 2]),
            trend=frozen(trend),
            kept=kept,
            multipliers=multipliers,
            contacts=problem.contact_table(now),
            residual=problem.residual(now.gradient),
        )

    @property
    def targets(self) -> Floats:
        """Pressures commanded of the valves now [Pa], (chambers,)."""
        return self.pending[0][1]

    @property
    def vertices(self) -> Floats:
        """Places of `robot.vertices` [m], (v, 3)."""
        return self.system.robot.place_vertices(self.positions, self.body_positions, matrices(self.orientations))

    @property
    def center_of_mass(self) -> Floats:
        """[m], (3,)."""
        m, b = self.system.robot.particle_masses, self.system.robot.body_masses
        return np.asarray((m @ self.positions + b @ self.body_positions) / (m.sum() + b.sum()))

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
        return np.asarray(angles / (gaps - plate))

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
        rest, stiffness = s.springs_at(self.pressures, self.line_onset)
        scrap = np.zeros((s.slots, 3))
        elastic = soft.tet_energy_gradient(self.positions, s.soft, scrap, np.empty((9, len(s.soft.corners))))
        elastic += soft.spring_energy_gradient(self.positions, s.springs, rest, stiffness, scrap)
        *_, (between, lean, _) = self._rigid_rows()
        elastic += between + lean
        g = s.environment.gravity if gravity is None else np.asarray(gravity, dtype=float)
        height = -float((r.particle_masses @ self.positions + r.body_masses @ self.body_positions) @ g)
        return {"kinetic": float(kinetic), "elastic": float(elastic), "gravity": height}

    def _rigid_rows(self) -> tuple[Any, Any, Any, tuple[float, float, float]]:
        """Rows of point pairs, axes and hinges where the parts are, and their energies [J]; see `geosim.snake.joints`."""
        parts, place, scrap = self.system.rigid, self.place, np.zeros((self.system.slots, 3))
        angles = joints.hinge_angles(parts.hinges, parts.hinge_frames, place.R)
        found: tuple[Any, Any, Any, tuple[float, float, float]] = joints.rigid_rows(
            parts, angles, 1.0, place.x, place.X, place.R, scrap
        )
        return found

    def constraint_drift(self) -> float:
        """Largest distance [m] between the two points of an attachment or joint."""
        return float(np.linalg.norm(self._rigid_rows()[0][1], axis=1).max(initial=0.0))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays from which `restored` makes the state again."""
        waiting: dict[str, Any] = {
            "pending_times": np.array([t for t, _ in self.pending]),
            "pending_pressures": np.array([p for _, p in self.pending]).reshape(
                len(self.pending), self.system.robot.chambers
            ),
        }
        arrays: dict[str, Any] = {key: getattr(self, key) for key in _SAVED}
        arrays |= {f"{_TOUCH}{key}": value for key, value in self.contacts.items()}
        if self.multipliers is not None:
            arrays["multipliers"] = self.multipliers
        if self.kept.factored is not None:
            arrays |= _kept_arrays(self.kept.factored, self.kept.worn)
        return arrays | waiting


_TOUCH = "contact_"
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


def likeness(new: Floats, old: Floats) -> float:
    """Cosine between two changes of velocities, not below 0; 1 where there was none: how much of one to expect again."""
    sizes = float(np.linalg.norm(new) * np.linalg.norm(old))
    return max(float(np.vdot(new, old)) / sizes, 0.0) if sizes > 0.0 else 1.0


def restored(start: MultibodyState, data: Mapping[str, Any]) -> MultibodyState:
    """Return the state that the arrays of another one hold, for the system of `start`.

    Raises
    ------
    InputError
        They are not of a state of this robot.
    """
    missing = [key for key in (*_SAVED, "pending_times") if key not in data]
    if missing:
        raise InputError(f"{missing[0]!r} is missing; this is not a saved state of a multibody robot")
    values: dict[str, Any] = {}
    for key in _SAVED:
        old = getattr(start, key)
        if np.shape(data[key]) != np.shape(old):
            raise InputError(f"{key} has shape {np.shape(data[key])}, this robot needs {np.shape(old)}")
        values[key] = type(old)(data[key]) if np.ndim(old) == 0 else frozen(data[key])
    values["pending"] = tuple(zip((float(t) for t in data["pending_times"]), data["pending_pressures"]))
    values["multipliers"] = data.get("multipliers")
    values["contacts"] = {key.removeprefix(_TOUCH): data[key] for key in data if key.startswith(_TOUCH)}
    values["kept"] = _kept_of(data, start.system, start.workspace) if "kept_h" in data else Kept()
    same = {f.name: getattr(start, f.name) for f in fields(start) if f.name in ("system", "workspace", "line_onset")}
    return MultibodyState(**same, **values)


def _kept_arrays(factored: Factored, worn: bool) -> dict[str, Any]:
    """What a kept factor can be made again of."""
    problem, place = factored.problem, factored.now.place
    poses = zip("xXQ", zip(*((c.x, c.X, c.Q) for c in (problem.start, place))))
    numbers = {
        "rest": problem.rest,
        "stiffness": problem.stiffness,
        "h": problem.h,
        "clamp": factored.clamp,
        "worn": worn,
    }
    return {f"kept_{key}": np.array(value) for key, value in (*poses, *numbers.items())}


def _kept_of(data: Mapping[str, Any], system: MultibodySystem, workspace: Workspace) -> Kept:
    """Return the kept factor of arrays; contacts and motion, which are no part of it, are left out."""
    start, place = (MultibodyConfiguration(*(data[f"kept_{key}"][k] for key in "xXQ")) for k in (0, 1))
    still, poses = np.zeros((system.slots, 3)), system.surface_poses(0, 0.0)
    springs = (float(data["kept_h"]), data["kept_rest"], data["kept_stiffness"])
    problem = Substep(system, start, still, *springs, still, poses, poses, 1.0, 1.0, 0.0, workspace.blocks)
    return Kept(Factored(problem, problem.evaluate(place), bool(data["kept_clamp"])), bool(data["kept_worn"]))


def rest_state(system: MultibodySystem, workspace: Workspace, line_onset: float) -> MultibodyState:
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
        pending=((-np.inf, frozen(np.zeros(r.chambers))),),
        line_onset=line_onset,
    )
