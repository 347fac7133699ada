"""The state of a rod robot between two steps, and the trial of a Newton iteration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.contract import Frame
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.rods.elastic import bend_twist_force, stretch_force
from geosim.rods.frames import advance_frames, bend_strains, reference_twists
from geosim.rods.midedge import carry_normals, midedge_force
from geosim.rods.robot import RodShellRobot
from geosim.rods.shells import hinge_force, spring_force
from geosim.rods.system import System

__all__ = ["RodState", "Trial", "evaluate", "load_state", "save_state"]


@dataclass(frozen=True, repr=False, eq=False)
class RodState:
    """Where a robot is and how it moves; `step` takes one and returns the next.

    Parameters
    ----------
    system
        The compiled robot and environment.
    time
        [s] (load parameter in statics).
    q, u
        Degrees of freedom [m, rad] and their rates, shape (3 n + E,), with mid-edge normals (3 n + E + Z,).
    tangents, directors
        Reference frames of the edges, shape (E, 3).
    twist
        Reference twist of every stencil [rad], shape (S,).
    natural
        Natural kappa1, kappa2 [-], tau [rad] of every stencil, then the natural angle [rad] (first column) of every hinge,
        then with mid-edge normals the three natural angles [rad] of every triangle, shape (S + H + T, 3).
    external
        Dead forces with the weight [N], shape of q.
    shell_tangents, normals
        Unit tangents and reference normals of the edges of the triangles, shape (Z, 3), with mid-edge normals.
    increment
        Time step that the adaptive control will try next [s]; 0 = the solver's dt.
    memory
        What contact keeps from step to step.
    measures
        What the last step measured: energies [J], residual, reactions, contact.
    is_frame
        Whether a result shows this state.
    """

    system: System
    time: float
    q: Floats
    u: Floats
    tangents: Floats
    directors: Floats
    twist: Floats
    natural: Floats
    external: Floats
    shell_tangents: Floats
    normals: Floats
    increment: float = 0.0
    memory: Any = None
    measures: dict[str, Any] = field(default_factory=dict)
    is_frame: bool = True

    def __repr__(self) -> str:
        return f"RodState(time={self.time:.6g}, {self.system.robot!r})"

    @property
    def positions(self) -> Floats:
        """Positions of the vertices [m], shape (n, 3)."""
        return self.q[: self.system.turns].reshape(-1, 3)

    @property
    def velocities(self) -> Floats:
        """Velocities of the vertices [m/s], shape (n, 3)."""
        return self.u[: self.system.turns].reshape(-1, 3)

    @property
    def theta(self) -> Floats:
        """Rotation of the material frames [rad], shape (E,)."""
        return self.q[self.system.turns : self.system.turns + len(self.system.robot.edges)]

    @property
    def lengths(self) -> Floats:
        """Current lengths of the edges [m], shape (E,)."""
        x = self.positions
        edges = self.system.robot.edges
        return np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1)

    def strains(self) -> Floats:
        """Kappa1, kappa2 [-] and tau [rad] of every stencil, shape (S, 3)."""
        trial = evaluate(self.system, self, self.q)
        bends = self.system.robot.bends
        strain = np.zeros((len(bends), 3))
        bend_strains(
            self.q,
            self.system.bend_dofs,
            np.array(bends.edges),
            np.array(bends.signs),
            trial.t,
            trial.m1,
            trial.m2,
            trial.twist,
            strain,
        )
        return strain

    def material_directors(self) -> tuple[Floats, Floats]:
        """Material directors m1, m2 of the edges, each (E, 3)."""
        trial = evaluate(self.system, self, self.q)
        return trial.m1, trial.m2

    def with_velocities(self, velocities: Any) -> RodState:
        """Return the same state with other vertex velocities [m/s], shape (n, 3)."""
        u = self.u.copy()
        u[: self.system.turns] = np.asarray(velocities, dtype=float).ravel()
        return replace(self, u=u)

    @property
    def robot(self) -> RodShellRobot:
        """The robot that moves."""
        return self.system.robot

    @property
    def frame(self) -> Frame:
        """What a result shows; `energies` is kinetic + elastic + contact + potential of the weight [J].

        `extra` holds theta (E,) [rad], velocities (n, 3) [m/s] and the parts of the energy [J].
        """
        given, zero = self.measures, np.zeros_like(self.positions)
        on_obstacles = np.zeros((len(self.system.environment.obstacles), 3))
        parts = {key: given.get(key, 0.0) for key in ("elastic", "kinetic", "weight", "contact")}
        return Frame(
            self.positions,
            self.time,
            reactions=given.get("reactions", zero),
            contact_forces=given.get("contact_forces", zero),
            obstacle_forces=given.get("obstacle_forces", on_obstacles),
            obstacle_moments=given.get("obstacle_moments", on_obstacles),
            max_penetration=given.get("penetration", 0.0),
            contact_count=given.get("contacts", 0),
            crossings=given.get("crossings", np.nan),
            stable=given.get("stable", np.nan),
            residual=given.get("residual", 0.0),
            energies=sum(parts.values()),
            extra={
                "theta": self.theta,
                "velocities": self.velocities,
                **{f"{key}_energy": value for key, value in parts.items()},
                "iterations": given.get("iterations", 0),
            },
        )


@dataclass
class Trial:
    """Frames, gradient and energy of the elastic forces at one q."""

    t: Floats
    length: Floats
    d: Floats
    m1: Floats
    m2: Floats
    twist: Floats
    gradient: Floats
    energy: float
    force: float
    moment: float
    shell_t: Floats
    normals: Floats


@kernel
def elastic_forces(
    q,
    edge_dofs,
    t_old,
    d_old,
    twist_old,
    spring_edges,
    axial,
    rest,
    bend_dofs,
    bend_edges,
    signs,
    bending,
    natural,
    t,
    length,
    d,
    m1,
    m2,
    twist,
    gradient,
):
    """Carry the frames to q and add all elastic gradients; return energy, largest force, largest moment."""
    advance_frames(q, edge_dofs, t_old, d_old, t, length, d, m1, m2)
    reference_twists(bend_edges, signs, t, d, twist_old, twist)
    e1, f1 = stretch_force(spring_edges, axial, rest, edge_dofs, t, length, gradient)
    e2, f2, m = bend_twist_force(q, bend_dofs, bend_edges, signs, bending, natural, t, length, m1, m2, twist, gradient)
    return e1 + e2, max(f1, f2), m


def evaluate(system: System, state: RodState, q: Floats, natural: Floats | None = None) -> Trial:
    """Carry the frames of `state` to q and evaluate the elastic energy and its gradient there."""
    count = len(state.tangents)
    t, d, m1, m2 = np.empty((4, count, 3))
    length, twist, gradient = np.empty(count), np.empty(len(state.twist)), np.zeros(len(q))
    bends = system.robot.bends
    energy, force, moment = elastic_forces(
        q,
        system.edge_dofs,
        state.tangents,
        state.directors,
        state.twist,
        system.stretch_edges,
        system.axial,
        system.rest,
        system.bend_dofs,
        bends.edges,
        bends.signs,
        system.bending,
        state.natural if natural is None else natural,
        t,
        length,
        d,
        m1,
        m2,
        twist,
        gradient,
    )
    shell, shell_t, normals = system.shell, state.shell_tangents, state.normals
    if len(shell.rest):
        strains = state.natural if natural is None else natural
        e1, f1 = spring_force(q, shell.spring_dofs, shell.stretch, shell.rest, gradient)
        energy, force = energy + e1, max(force, f1)
        if len(shell.hinge_dofs):
            e2, f2 = hinge_force(q, shell.hinge_dofs, shell.bending, strains[len(twist) :, 0], gradient)
            energy, force = energy + e2, max(force, f2)
        if len(shell.face_dofs):
            shell_t, normals = np.empty((2, *state.normals.shape))
            carry_normals(q, shell.spring_dofs, state.shell_tangents, state.normals, shell_t, normals)
            e3, f3, m3 = midedge_force(
                q,
                shell.face_dofs,
                shell.sides,
                shell.signs,
                normals,
                shell.matrices,
                strains[system.faces_at :],
                gradient,
            )
            energy, force, moment = energy + e3, max(force, f3), max(moment, m3)
    return Trial(t, length, d, m1, m2, twist, gradient, energy, force, moment, shell_t, normals)


_KEPT = (
    "time",
    "q",
    "u",
    "tangents",
    "directors",
    "twist",
    "natural",
    "external",
    "shell_tangents",
    "normals",
    "increment",
)


def save_state(state: RodState, path: str | Path) -> Path:
    """Write a state to a .npz file, from which `load_state` restarts exactly."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"{path.name}: a state is saved as .npz")
    np.savez(path, **{key: getattr(state, key) for key in _KEPT})
    return path


def load_state(state: RodState, path: str | Path) -> RodState:
    """Return the state of a file, for the system of `state` (from `RodShellStepper.start`).

    Raises
    ------
    InputError
        The file is not a state, or belongs to another robot.
    """
    try:
        with np.load(path) as file:
            kept = {key: file[key] for key in _KEPT}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a saved state ({error})") from None
    for key in ("q", "tangents", "twist"):
        if kept[key].shape != getattr(state, key).shape:
            raise InputError(f"{path}: {key} has shape {kept[key].shape}, this robot needs {getattr(state, key).shape}")
    kept["time"], kept["increment"] = float(kept["time"]), float(kept["increment"])
    return replace(state, **kept)
