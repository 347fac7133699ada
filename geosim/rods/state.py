"""The state of a rod robot between two steps, and the trial of a Newton iteration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, norm
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.model.contract import Frame
from geosim.rods.elastic import bend_twist_force, stretch_force
from geosim.rods.frames import advance_frames, bend_strains, material_frames, reference_twists
from geosim.rods.membrane import membrane_force
from geosim.rods.midedge import carry_normals, midedge_force, rest_normals
from geosim.rods.pairs import AHEAD_MARGIN_SHARE, Neighbours, farthest, listed_at
from geosim.rods.robot import RodShellRobot
from geosim.rods.shells import hinge_force
from geosim.rods.system import RodSystem

NO_PAST_VALUES, NO_PLACES = np.zeros((0, 0)), np.zeros(0)


@dataclass(frozen=True)
class Ledger:
    """Where energy came from and went to since the start, all in J.

    Parameters
    ----------
    begin, stored
        Kinetic, elastic, weight and contact energy at the start; that of contact.
    work
        Of loads, supports that move, changing natural shapes, users' forces and moving obstacles.
    pushed
        Work of contact, friction and drag on the robot.
    damped
        What damping and a viscous fluid took.
    given
        Kinetic, elastic and contact energy at the start and the sum of the amounts of all work: what drift is compared with.
    lowest, highest
        Energy of the weight.
    made
        Energy created by the time integration, over the energy given.
    numerical
        What the time integration took, by the formula of its rule; see `geosim.rods.energy`.
    said
        Work, dissipation and drift of the solves before this one, from which this one goes on.
    """

    begin: float
    stored: float = 0.0
    work: float = 0.0
    pushed: float = 0.0
    damped: float = 0.0
    given: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    made: float = 0.0
    numerical: float = 0.0
    said: tuple[float, float, float] = (0.0, 0.0, 0.0)


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
        then with mid-edge normals the three natural angles [rad] of every triangle, then of every edge of rods its natural
        length over that at rest (first column), shape (S + H + T + E, 3).
    external
        Dead forces with the weight [N], shape of q.
    shell_tangents, normals
        Unit tangents and reference normals of the edges of the triangles, shape (Z, 3), with mid-edge normals.
    increment
        Time step that the adaptive control will try next [s]; 0 = the solver's dt.
    past
        Accelerations, forces without inertia and contact, and among them those of the user and of drag, at this time, shape
        (4, dofs), which the generalised-alpha rule weighs with those to come; (0, 0) where they are not known.
    ledger
        Where the energy went since the start; None before the first step.
    memory
        The list of pairs of rod edges that may touch, kept from step to step; None where there is none yet.
    measures
        What the last step measured: energies [J], residual, reactions, contact.
    is_frame
        Whether a result shows this state.
    elastic
        Elastic energy [J] and its gradient [N, N m], where they are known.
    spent
        CPU time [s] that the motion has taken, where it is limited.
    """

    system: RodSystem
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
    past: Floats = field(default_factory=lambda: NO_PAST_VALUES)
    ledger: Ledger | None = None
    memory: Neighbours | None = None
    measures: dict[str, Any] = field(default_factory=dict)
    is_frame: bool = True
    elastic: tuple[float, Floats] | None = None
    spent: float = 0.0

    def __repr__(self) -> str:
        return f"RodState(time={self.time:.6g}, {self.system.robot!r})"

    def changed(self, **fields: Any) -> RodState:
        """Return the state with other fields; `dataclasses.replace` takes a dozen times as long, as an increment's factors."""
        new = object.__new__(RodState)
        new.__dict__.update(self.__dict__)
        new.__dict__.update(fields)
        return new

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
        return norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1)

    def strains(self) -> Floats:
        """Kappa1, kappa2 [-] and tau [rad] of every stencil, shape (S, 3)."""
        trial = evaluate(self.system, self, self.q)
        bends = self.system.robot.bends
        strain = np.zeros((len(bends), 3))
        bend_strains(
            self.q,
            self.system.stencils.bends,
            np.array(bends.edges),  # copies: kernels are compiled anew for read-only arrays
            np.array(bends.signs),
            trial.t,
            trial.m1,
            trial.m2,
            trial.twist,
            strain,
        )
        return strain

    def twists(self) -> Floats:
        """Tau [rad] of every stencil, shape (S,)."""
        signs, theta = self.system.robot.bends.signs, self.q[self.system.stencils.bends[:, 3:8:4]]
        return np.asarray(signs[:, 1] * theta[:, 1] - signs[:, 0] * theta[:, 0] + self.twist)

    def paired(self, q: Floats, ahead: float = 0.0) -> RodState:
        """Return the state with a list of contact pairs that is complete around q, and where it goes in `ahead` [s] if it may."""
        robot, listed, turns = self.system.robot, self.memory, self.system.turns
        there = q[:turns] + ahead * self.u[:turns]
        alone = not self.system.environment.self_contact or len(robot.edges) < 2
        if alone or (listed is not None and listed.holds(q) and listed.holds(there)):
            return self
        most = AHEAD_MARGIN_SHARE * float(robot.radius.min()) / max(math.sqrt(farthest(q, there)), MIN_DIVISOR)
        near = None if listed is None else listed.near
        middle = q[:turns] + min(most, 0.5) * (there - q[:turns])
        return self.changed(memory=listed_at(robot, self.system.law.range, middle, near))

    @property
    def made(self) -> float:
        """Energy that the time integration created, over the energy given."""
        return 0.0 if self.ledger is None else self.ledger.made

    @property
    def robot(self) -> RodShellRobot:
        """The robot that moves."""
        return self.system.robot

    @property
    def guides(self) -> Floats:
        """Places of the guides of all cables, one cable after the other [m], shape (g, 3): x0 + s e + a m1 + b m2."""
        robot, x = self.system.robot, self.positions
        led = [np.concatenate(parts) for parts in zip(*robot.guides)]
        edges, share, across = led
        first, second = material_frames(self.directors[edges], self.tangents[edges], self.theta[edges])
        tail, head = x[robot.edges[edges]].transpose(1, 0, 2)
        return np.asarray(tail + share[:, None] * (head - tail) + across[:, :1] * first + across[:, 1:] * second)

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays from which `restored` makes the state again, and a solve goes on exactly."""
        kept = {key: np.asarray(getattr(self, key)) for key in (*_SHAPED, "time", "increment", "past")}
        kept["listed"] = NO_PLACES if self.memory is None else self.memory.built_at
        if self.ledger is not None:
            *numbers, said = (getattr(self.ledger, f.name) for f in fields(Ledger))
            kept["ledger"] = np.array([*numbers, *said])
        return kept | {f"measure.{key}": np.asarray(value) for key, value in self.measures.items() if key != "note"}

    @property
    def frame(self) -> Frame:
        """What a result shows; `energies` is kinetic + elastic + contact + potential of the weight [J].

        `extra` holds theta (E,) [rad], velocities (n, 3) [m/s], guides (g, 3) [m] of all cables in their order, the parts of
        the energy [J], and what became of it since the start [J]: see `geosim.rods.energy`.
        """
        given, zero, environment = self.measures, np.zeros_like(self.positions), self.system.environment
        on_obstacles = np.zeros((len(environment.obstacles), 3))
        parts = {key: given.get(key, 0.0) for key in ("elastic", "kinetic", "weight", "contact")}
        return Frame(
            self.positions,
            self.time,
            reactions=given.get("reactions", zero),
            contact_forces=given.get("contact_forces", zero),
            obstacle_forces=given.get("obstacle_forces", on_obstacles),
            obstacle_moments=given.get("obstacle_moments", on_obstacles),
            obstacle_poses=given["obstacle_poses"] if "obstacle_poses" in given else environment.poses(-1),
            max_penetration=given.get("penetration", 0.0),
            contact_count=given.get("contacts", 0),
            crossings=given.get("crossings", np.nan),
            stable=given.get("stable", np.nan),
            residual=given.get("residual", 0.0),
            energies=sum(parts.values()),
            note=given.get("note", ""),
            cable_lengths=given.get("cable_lengths"),
            cable_tensions=given.get("cable_tensions"),
            cable_end_tensions=given.get("cable_end_tensions"),
            extra={
                "theta": self.theta,
                "twist": self.twists(),
                "velocities": self.velocities,
                **{f"{key}_energy": value for key, value in parts.items()},
                **{key: given.get(key, 0.0) for key in ("work", "dissipated", "drift", "numerical", "given_energy")},
                "iterations": given.get("iterations", 0),
                **({"guides": self.guides} if self.system.robot.guides else {}),
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
    pushes: Floats  # forces of the terms of a balance: of the user, of drag, of contact, of cables, (4, dofs)
    stored: float = 0.0  # by the terms, part of the energy


@kernel
def elastic_forces(
    q,
    edge_dofs,
    t_old,
    d_old,
    twist_old,
    spring_dofs,
    stretch,
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
    """Carry the frames to q and add the gradients of springs and bends; return energy, largest force, largest moment.

    One call for what every rod needs, since a call from Python costs as much as ten stencils. Arguments: unknowns; the edges and
    their old frames (`RodState`); springs and bends (`RodSystem`); then what is filled, as in `Trial`.
    """
    advance_frames(q, edge_dofs, t_old, d_old, t, length, d, m1, m2)
    reference_twists(bend_edges, signs, t, d, twist_old, twist)
    e1, f1 = stretch_force(q, spring_dofs, stretch, rest, gradient)
    e2, f2, m = bend_twist_force(q, bend_dofs, bend_edges, signs, bending, natural, t, length, m1, m2, twist, gradient)
    return e1 + e2, max(f1, f2), m


def evaluate(
    system: RodSystem, state: RodState, q: Floats, natural: Floats | None = None, rest: Floats | None = None
) -> Trial:
    """Carry the frames of `state` to q and evaluate the elastic energy and its gradient there; `rest` as in `rest_lengths`."""
    count, bends, stencils = len(state.tangents), system.robot.bends, system.stencils
    t, d, m1, m2 = np.empty((4, count, 3))
    length, twist, gradient = np.empty(count), np.empty(len(state.twist)), np.zeros(len(q))
    strains = state.natural if natural is None else natural
    energy, force, moment = elastic_forces(
        q,
        system.edge_dofs,
        state.tangents,
        state.directors,
        state.twist,
        stencils.springs,
        system.stretch,
        system.rest_lengths(strains) if rest is None else rest,
        stencils.bends,
        bends.edges,
        bends.signs,
        system.bending,
        strains,
        t,
        length,
        d,
        m1,
        m2,
        twist,
        gradient,
    )
    shell_t, normals = state.shell_tangents, state.normals
    if len(stencils.membranes):
        e0, f0 = membrane_force(q, stencils.membranes, system.membrane, system.squares, gradient)
        energy, force = energy + e0, max(force, f0)
    if len(stencils.hinges):
        e1, f1 = hinge_force(q, stencils.hinges, system.hinge_bending, strains[len(twist) :, 0], gradient)
        energy, force = energy + e1, max(force, f1)
    if len(stencils.faces):
        shell_t, normals = np.empty((2, *state.normals.shape))
        carry_normals(q, stencils.springs[count:], state.shell_tangents, state.normals, shell_t, normals)
        e2, f2, m2_ = midedge_force(
            q, stencils.faces, system.sides, system.signs, normals, system.plates, strains[system.faces_at :], gradient
        )
        energy, force, moment = energy + e2, max(force, f2), max(moment, m2_)
    pushes = np.zeros((4, len(q)))
    return Trial(t, length, d, m1, m2, twist, gradient, energy, force, moment, shell_t, normals, pushes)


def carry(state: RodState, q: Floats, trial: Trial | None = None, natural: Floats | None = None) -> RodState:
    """Return the state at q with its frames carried there, as `trial` has done if it is given, at other natural strains.

    A trial that is given is one with those natural strains.
    """
    natural = state.natural if natural is None else natural
    trial = trial or evaluate(state.system, state, q, natural)
    return state.changed(
        q=q,
        natural=natural,
        elastic=(trial.energy - trial.stored, trial.gradient),
        past=NO_PAST_VALUES,
        tangents=trial.t,
        directors=trial.d,
        twist=trial.twist,
        shell_tangents=trial.shell_t,
        normals=trial.normals,
    )


def at_rest(system: RodSystem, *, moving: bool) -> RodState:
    """Return the robot in its rest shape, turned by its twist angles, with its initial velocities where `moving`."""
    robot = system.robot
    rest = np.zeros(robot.turning - len(robot.edges))
    q = np.concatenate([robot.vertices.ravel(), robot.twist_angles, rest])
    u = np.concatenate([robot.velocities.ravel(), robot.edge_angular_velocities, rest])
    tangents, normals = np.zeros((2, 0, 3))
    if len(rest):
        tangents, normals = rest_normals(robot.vertices, robot.mesh)
    state = RodState(
        system,
        0.0,
        q,
        np.where(system.free & moving, u, 0.0),
        np.array(robot.tangents),
        np.array(robot.directors),
        np.zeros(len(robot.bends)),
        system.natural,
        np.zeros_like(q),
        tangents,
        normals,
        is_frame=moving,
    )
    return replace(state, twist=evaluate(system, state, q).twist)


_SHAPED = ("q", "u", "tangents", "directors", "twist", "natural", "external", "shell_tangents", "normals")


def restored(state: RodState, kept: Mapping[str, Floats]) -> RodState:
    """Return the state that arrays of `RodState.arrays` hold, for the system of `state`.

    Raises
    ------
    InputError
        They are not of a state of this robot.
    """
    if missing := [key for key in (*_SHAPED, "time", "increment") if key not in kept]:
        raise InputError(f"not a saved state of rods ({missing[0]} is missing)")
    for key in _SHAPED:
        given, needed = np.asarray(kept[key]), getattr(state, key).shape
        if given.shape != needed or not np.isfinite(given).all():
            raise InputError(f"{key} has shape {given.shape}, this robot needs {needed}, all of it finite")
    values: dict[str, Any] = {key: np.array(kept[key]) for key in (*_SHAPED, "past") if key in kept}
    if values.get("past", NO_PAST_VALUES).shape not in ((0, 0), (4, state.system.dofs)):
        raise InputError(f"past has shape {values['past'].shape}, this robot needs (4, {state.system.dofs})")
    listed, ledger = np.array(kept.get("listed", NO_PLACES)), kept.get("ledger")
    if len(listed):
        values["memory"] = listed_at(state.robot, state.system.law.range, listed)
    if ledger is not None:
        numbers = np.asarray(ledger, dtype=float).tolist()
        values["ledger"] = Ledger(*(*numbers[:-3], tuple(numbers[-3:])))
    measures = {key.removeprefix("measure."): value for key, value in kept.items() if key.startswith("measure.")}
    values["measures"] = {key: float(value) if np.ndim(value) == 0 else value for key, value in measures.items()}
    return replace(state, elastic=None, time=float(kept["time"]), increment=float(kept["increment"]), **values)
