"""Protocols of robots, states and solvers: all that `solve` asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, Ints, brief
from geosim.errors import InputError
from geosim.model.actuation import Actuation, Command
from geosim.model.cable import Cable
from geosim.model.environment import Environment


class Status(Enum):
    """How a solve ended; the value is the sentence a user reads, with the remedy."""

    CONVERGED = "Every command was reached and its forces balance."
    UNSTABLE = (
        "The equilibrium found is not stable: a buckled shape is near. Look at the frame before, or "
        "give a small imperfection or load."
    )
    PRESSURE_LIMIT = (
        "The pressure (or the load) reached its limit before the command. Past this limit the chamber inflates unstably "
        "(under vacuum: collapses). Prescribe volume_ratio instead of pressure to go on."
    )
    NOT_CONVERGED = (
        "The forces of the next command do not balance. Take smaller steps, refine the mesh, or check the loads."
    )
    INVERTED = "Elements are turned inside out. Refine the mesh there, round inner edges, or take smaller steps."
    ENERGY_GROWTH = (
        "The time integration created energy: it is not stable at this step. Use smaller steps, or "
        "integrator='generalized-alpha' or 'implicit-euler'."
    )
    EXPLODED = (
        "The time integration created three times the energy ever given: it is unstable at this step. Use "
        "integrator='generalized-alpha', which damps what the step cannot resolve, or 'implicit-euler'."
    )
    CROSSED = "Surfaces pass through each other in at least one frame."
    SINGULAR = "The equations have no unique solution. Check that every body is held; support every chamber and load."
    INTERRUPTED = "Interrupted by the user; the frames reached so far are kept."
    STOPPED = (
        "The budget of iterations or seconds ended before the next command was reached; the frames reached so far "
        "are kept. Give a larger budget, take smaller steps or use a coarser mesh."
    )


class Robot(Protocol):
    """What files, pictures and results read of every kind of robot; what a kind does not have is empty."""

    @property
    def name(self) -> str:
        """Shown in summaries."""

    @property
    def units(self) -> str:
        """Unit in which surfaces are saved: "m", "cm", "mm" or "in"."""

    @property
    def notices(self) -> Sequence[str]:
        """One line for everything that was repaired on the way in."""

    @property
    def vertices(self) -> Floats:
        """Rest positions [m], shape (n, 3)."""

    @property
    def body_vertices(self) -> Bools:
        """Which vertices enter measures, bool (n,)."""

    @property
    def body_tets(self) -> Ints:
        """Vertex ids of the solid elements that files write, shape (m, 4)."""

    @property
    def skin(self) -> Ints:
        """Outer faces, oriented outward; of shells the triangles, shape (f, 3)."""

    @property
    def edges(self) -> Ints:
        """Ends of the rods, shape (e, 2)."""

    @property
    def radius(self) -> Floats:
        """Radii of the rods [m], shape (e,)."""

    @property
    def p2_edges(self) -> Ints:
        """End vertices of the mid-edge nodes, shape (m, 2); empty where nothing is curved."""

    @property
    def tip(self) -> Ints:
        """Vertices whose weighted mean is `Result.tip`, shape (t,)."""

    @property
    def tip_weights(self) -> Floats:
        """Weights of the tip vertices, which add up to 1, shape (t,)."""

    @property
    def mass(self) -> float:
        """Mass [kg]."""

    @property
    def chambers(self) -> int:
        """Number of chambers."""

    @property
    def cables(self) -> Sequence[Cable]:
        """Cables that pull on the robot."""


@dataclass(frozen=True)
class Frame:
    """What one frame of a result shows, under the names of `Result`; None and nan do not apply.

    Parameters
    ----------
    nodes
        Positions of the vertices [m], and after them those of curved mid-edge nodes, shape (n, 3) or (n + m, 3).
    time
        [s], or the load parameter; None: the number of the frame, counted from 1.
    extra
        Measures of one solver alone, which `Result.extra` stacks.
    note
        What a user must know besides the status.
    """

    nodes: Floats
    time: float | None = None
    volume_ratios: Floats | None = None
    chamber_volumes: Floats | None = None
    chamber_pressures: Floats | None = None
    cable_lengths: Floats | None = None
    cable_tensions: Floats | None = None
    cable_end_tensions: Floats | None = None
    reactions: Floats | None = None
    contact_forces: Floats | None = None
    obstacle_forces: Floats | None = None
    obstacle_moments: Floats | None = None
    obstacle_poses: Floats | None = None
    obstacle_held: Bools | None = None
    max_penetration: float = np.nan
    contact_count: float = np.nan
    crossings: float = np.nan
    body_volume_ratio: float = np.nan
    inverted_elements: float = np.nan
    stable: float = np.nan
    residual: float = np.nan
    energies: float = np.nan
    extra: Mapping[str, Floats | float] = field(default_factory=dict)
    note: str = ""

    __repr__ = brief


class State(Protocol):
    """A robot between two steps; never changed, so that a step can be repeated or abandoned."""

    @property
    def robot(self) -> Robot:
        """The robot as it is solved: its rest shape is that of the frames (an imperfection bends it)."""

    @property
    def frame(self) -> Frame:
        """What a result shows of it."""

    @property
    def is_frame(self) -> bool:
        """Whether a result shows it."""


@runtime_checkable
class Resumable(Protocol):
    """A state that a result file keeps, so that a solve goes on from it exactly."""

    def arrays(self) -> Mapping[str, Any]:
        """Return the arrays that its solver needs."""


@dataclass(frozen=True)
class SavedState:
    """The last state of a result that was read from a file; the solver that goes on from it makes its own of it.

    Parameters
    ----------
    robot
        That of the result.
    frame
        Where it stands.
    kept
        What `Resumable.arrays` gave.
    """

    robot: Robot
    frame: Frame
    kept: Mapping[str, Any]
    is_frame: bool = True

    __repr__ = brief

    def arrays(self) -> Mapping[str, Any]:
        """Return `kept`: what was read can be written again."""
        return self.kept


@dataclass(frozen=True)
class Progress:
    """How far a solve is; given to `solve(progress=...)` after every command, and inside a command where that lasts.

    Parameters
    ----------
    share
        Of the command, 0 .. 1.
    iteration
        Iterations spent on the command so far.
    residual
        Relative force residual.
    contacts
        Points in contact.
    command, commands
        Number of the command, counted from 1, and of all commands.
    seconds
        Since the solve began.
    frame
        What was reached; None inside a command.
    """

    share: float
    iteration: int = 0
    residual: float = np.nan
    contacts: float = np.nan
    command: int = 0
    commands: int = 0
    seconds: float = 0.0
    frame: Frame | None = None


@guarded
@dataclass(frozen=True)
class Report:
    """How one step went.

    Parameters
    ----------
    status, message
        How it ended, and a sentence with the numbers.
    records
        One record per iteration, for `Result.trace`.
    goes_on
        Whether the solve goes on from the state although the command was not reached: the forces of a frame that a budget
        ended do not balance, and the next one may.
    partial
        The last equilibrium on the way to a command that was not reached, or None.
    """

    status: Status
    message: str = ""
    records: tuple[Mapping[str, Any], ...] = ()
    goes_on: bool = False
    partial: State | None = None

    @property
    def reached(self) -> bool:
        """Whether the command was reached."""
        return self.status in (Status.CONVERGED, Status.CROSSED, Status.UNSTABLE, Status.ENERGY_GROWTH)


S = TypeVar("S", bound=State)
K = TypeVar("K")


class Solver(Protocol[S]):
    """A frozen dataclass of options with these methods."""

    def commands(self, robot: Robot, actuation: Actuation) -> Sequence[Command]:
        """Return the commands that an actuation means for this solver; refuses what it does not know."""

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> S:
        """Return the first state; refuses what cannot be solved, computes what can be computed once."""

    def step(self, state: S, command: Command, progress: Callable[[Progress], None] | None = None) -> tuple[S, Report]:
        """Go to one command; when it cannot be reached the state returned is the last good one."""


def taken(robot: object, kind: type[K], solver: str) -> K:
    """Return the robot if it is of the kind that a solver takes.

    Raises
    ------
    InputError
        It is not.
    """
    if not isinstance(robot, kind):
        raise InputError(f"{solver}: {type(robot).__name__} is not a {kind.__name__}")
    return robot
