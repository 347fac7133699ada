"""ProjectiveShapeSolver: the local-global pipeline of [Fang2022], corrected. A robust preview of extreme inflation.

Find positions x that minimise

    sum over elements of w_e Vol_e ||F_e(x) - T_e||^2 / 2 + sum over springs of k ||v - v_c||^2 / 2 - external work,

where the target shapes T_e are projections of the present shape. One command is reached like Algorithm 1:

    while the chambers have not the asked volumes:            # progressive actuation
        while forces do not balance or vertices collide:      # collision-aware local-global solver
            local step: targets of body, chambers and springs, element by element
            global step: one factorised matrix, which follows the material; then one of turned elements
            collision check: springs are added, moved and released
        if a chamber element has grown or is distorted too much: remesh the chambers

Departures from [Fang2022] and its public code:

[D1]  The cube root of the volume ratio scales lengths in Eq. (7).
[D2]  R is the closest proper rotation (Newton iteration, det R = +1), never a bare product of singular vectors.
[D3]  A body element keeps its rest shape for good; resetting it in every increment makes the body grow.
[D4]  Weights are stiffness times rest volume. The achieved chamber volume is measured and the target moved until it
      is the asked one. By default the targets of a chamber's elements are the closest shapes whose volumes *add up*
      to the target: they push like one uniform pressure, and not at all inside. `chamber_targets="uniform"` scales every
      element alike (III-A1).
[D5]  Shapes are compared by deformation gradients, not by centred vertices (1), (9): a stiffness then depends
      neither on size nor on shape of an element. R_omega comes from the material (`material`).
[D6]  The iteration stops on the force residual, never on a small step.
[D7]  Eqs. (6)-(7) derive from no energy. The default "material" takes the target whose pull is the stress of the material itself,
      k (F - T) = dW/dF + p cof F, with the volume kept on the patch of elements round a vertex: linear tets that keep
      it one by one lock. Pressures of neighbouring patches are stabilised; W is the isochoric energy, with a smooth
      barrier that grows with the volume change of the single element. It neither locks at rest nor yields at tenfold
      stretch. It has a merit. "paper" is (6)-(7), guarded by the residual alone.
[D8]  Fixed vertices are eliminated from the global matrix.
[D9]  Only the inside of the chambers is remeshed; body elements and surface vertices stay, and volume ratios refer to
      the original chambers. Distortion is judged by ||F|| and ||F^-1||, which tells slivers from stretched elements.
[D10] Inverted elements and the body volume ratio are counted and reported in every iteration.
[D11] `acceleration="anderson"` is the paper's. On slender robots its residual falls to 1e-4 where the tip still has some
      percent of its way to go.
[D12] Springs act along the contact normal alone (frictionless) and are one-sided. One that still pushes stays, and its
      push is the contact force. It ends by Eq. (8) once its vertex is away by more than the offset. Where the robot
      touches itself the face that is touched feels the opposite push. Edges that have passed over edges while no vertex
      is inside anything are found at balance and get springs of their own.
[D13] By default ("newton") the global matrix is the second derivative of the merit: a handful of iterations instead of
      hundreds. Its factors precondition conjugate gradients until others pay. The step is then split element by element
      into a rotation and a strain, and the prefactored scalar matrix joins the elements. A slender robot thus rotates
      by large angles in one step, where straight lines would stretch it. The straight step is taken where it lowers the
      merit more. On the way of a long step collisions are looked for, and it ends at the first new one. The fixed point
      is that of the other accelerations.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, choice, frozen, number, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.material.materials import refuse_viscous
from geosim.model.actuation import (
    Actuation,
    CableLengths,
    CableTensions,
    Command,
    EdgeLengths,
    FaceAreas,
    Inflation,
    open_only,
    timeless,
)
from geosim.model.contract import Frame, Progress, Report, Robot, State, Status, taken
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.approach import Approach
from geosim.shape.projective.contact import NO_SPRINGS, ContactSprings, SpringContact
from geosim.shape.projective.elements import BODY_TARGETS, CHAMBER_TARGETS
from geosim.shape.projective.error import energy_problem, energy_residual
from geosim.shape.projective.frames import measure
from geosim.shape.projective.lines import Lines, make_lines
from geosim.shape.projective.mesh import BULK, Targets, Work, continued, make_work, needs_remeshing
from geosim.shape.projective.relaxation import Iterate, Relaxation
from geosim.shape.projective.smoothed import smoothed

__all__ = ["ProjectiveShapeSolver", "ProjectiveState"]

ACCELERATIONS = ("newton", "anderson")
# Choices of 0.2.0 that took a hundred times as many iterations, or ended farther off, and what takes their place.
RETIRED_CHOICES = {
    "acceleration": ("quasi-newton", "newton"),
    "body_targets": ("variational", "material"),
    "chamber_targets": ("element", "total"),
}
POSITIVE_OPTIONS = (
    "chamber_weight",
    "tolerance",
    "volume_tolerance",
    "max_growth",
    "max_volume_growth",
    "max_distortion",
    "contact_stiffness",
)
# of the body's stiffness that stands in the scalar matrix, which joins turned elements and measures what contact gets
TURNING_STIFFNESS_SHARE = 0.6


@dataclass(frozen=True)
class ProjectiveState:
    """An equilibrium of the projective solver; never changed, so that a step can be repeated.

    Parameters
    ----------
    work
        The mesh with its elements and the prefactored matrix.
    x
        Positions of all vertices, those that remeshing added to the chambers included [m].
    springs, pressures
        Springs of contact, and the pressure of every chamber [Pa] (0 where the targets have none).
    frame
        Measures in SI units.
    lines
        Cables and other strings with their tensions.
    is_frame
        Whether a result shows it: the end of a command.
    """

    work: Work
    x: Floats
    springs: ContactSprings
    pressures: Floats
    frame: Frame
    lines: Lines | None = None
    is_frame: bool = True

    @property
    def robot(self) -> VolumetricRobot:
        """The robot that is solved."""
        return self.work.robot


@guarded
@dataclass(frozen=True)
class ProjectiveShapeSolver:
    """Options of the projective solver.

    Parameters
    ----------
    body_targets
        "material" (default) or "paper": see [D7].
    chamber_targets
        "total" (default) or "uniform": see [D4].
    blend_at_rest
        R_omega at zero strain: bulk modulus over shear modulus is 2 / (3 R), of the patches of "material" twelve times that.
        Smaller keeps the body's volume better and takes more iterations.
    chamber_weight
        Stiffness of the chamber elements over that of the body elements beside them.
    acceleration, window
        "newton" (default, see [D13]) or "anderson" [Fang2022] (5 or 6 is its usual window), over this many iterations;
        window 0 is the plain iteration. Targets other than "material" and "total" have no second derivative here and get
        Anderson's always.
    tolerance
        Largest force residual over free vertices, relative to the largest nodal sum of element forces; "newton" goes on to a
        tenth of it.
    volume_tolerance
        Largest relative error of an achieved chamber volume, cable length, edge length or area.
    max_iterations
        Local-global iterations of one increment.
    max_growth
        Largest change of a chamber's volume in one increment, relative to what it has (alpha_k of Algorithm 1).
    remesh, max_volume_growth, max_distortion
        Whether chambers are remeshed, and the limits alpha_max and d_max of a chamber element since its last meshing.
    contact_interval
        Iterations between two collision checks; None is 1 for "newton" and 10 for the others, whose steps are short.
    contact_distance
        Distance epsilon [m] that a spring keeps between surfaces; None is a twentieth of the mean surface edge.
    contact_stiffness
        Stiffness of a new spring over that of its vertex in the global matrix.
    error_estimate
        Whether the energy solver's force residual at every shape goes into the trace (`energy_residual`).
    """

    body_targets: str = "material"
    chamber_targets: str = "total"
    blend_at_rest: float = 0.02
    chamber_weight: float = 1.0
    acceleration: str = "newton"
    window: int = 15
    tolerance: float = 1e-4
    volume_tolerance: float = 1e-3
    max_iterations: int = 4000
    max_growth: float = 1.0
    remesh: bool = True
    max_volume_growth: float = 4.0
    max_distortion: float = 4.0
    contact_interval: int | None = None
    contact_distance: float | None = None
    contact_stiffness: float = 0.006
    error_estimate: bool = True

    def __post_init__(self) -> None:
        names = {"body_targets": BODY_TARGETS, "chamber_targets": CHAMBER_TARGETS, "acceleration": ACCELERATIONS}
        for key, (old, new) in RETIRED_CHOICES.items():
            if getattr(self, key) == old:
                warnings.warn(f"ProjectiveShapeSolver: {key} {old!r} is gone, {new!r} is taken", DeprecationWarning, 4)
                object.__setattr__(self, key, new)
        for key, known in names.items():
            choice(getattr(self, key), f"ProjectiveShapeSolver: {key}", known)
        for key in POSITIVE_OPTIONS:
            number(getattr(self, key), f"ProjectiveShapeSolver: {key}", above=0.0)
        number(self.blend_at_rest, "ProjectiveShapeSolver: blend_at_rest", above=0.0, high=1.0)
        for key, least in (("window", 0), ("max_iterations", 1), ("contact_interval", 1)):
            if getattr(self, key) is not None:
                whole(getattr(self, key), f"ProjectiveShapeSolver: {key}", least=least)
        if self.contact_distance is not None:
            number(self.contact_distance, "ProjectiveShapeSolver: contact_distance", above=0.0)

    @property
    def targets(self) -> Targets:
        """What elements are projected to.

        Anderson's iteration needs all of the body's stiffness in the global matrix (then a step lowers the merit for
        certain). The stiffness against volume change of single elements, which is most of it, acts on patches only, so
        the whole is far too cautious.
        """
        material = self.body_targets == "material"
        follows = self.acceleration == "newton" and material and self.chamber_targets == "total"
        share = (TURNING_STIFFNESS_SHARE if follows else 1.0) * BULK / 3.0 if material else 1.0
        return Targets(self.body_targets, self.chamber_targets, self.blend_at_rest, self.chamber_weight, share, follows)

    @property
    def relaxation(self) -> Relaxation:
        """The collision-aware local-global iteration."""
        return Relaxation(
            self.tolerance,
            self.volume_tolerance,
            self.max_iterations,
            self.contact_interval or (1 if self.targets.follows else 10),
            self.window,
            self.body_targets != "paper",
        )

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands of an actuation after checking that this solver knows them."""
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        if any(cable.friction > 0.0 for cable in robot.cables):
            raise InputError("Cable: ProjectiveShapeSolver knows no friction of cables; use EnergyShapeSolver")
        if robot.layers or robot.fibres:
            raise InputError("Layer, Fibre: ProjectiveShapeSolver knows no layers and no fibres; use EnergyShapeSolver")
        kinds = (Inflation, CableLengths, CableTensions, EdgeLengths, FaceAreas)
        commands = actuation.commands(kinds, type(self).__name__)
        timeless(actuation, type(self).__name__)
        for command in commands:
            self._asked(robot, command)
            make_lines(robot, command, np.ones(len(robot.vertices)), None)  # refuses what does not fit
        return commands

    def _asked(self, robot: VolumetricRobot, command: Command) -> Floats:
        """Volume ratios that a command asks for, (chambers,); nan = vented."""
        inflation = command.find(Inflation)
        if inflation is None:
            return np.full(robot.chambers, np.nan)
        open_only(command, type(self).__name__)
        ratios, pressures = inflation.targets(command.index, robot.chambers)
        if (np.nan_to_num(pressures) != 0.0).any():
            raise InputError(
                "Inflation: pressure is prescribed, but ProjectiveShapeSolver takes volume_ratio only; "
                "use EnergyShapeSolver for pressures"
            )
        return ratios

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> ProjectiveState:
        """Return the state at rest, or at `initial` (a state of the same robot), with everything computed once.

        Raises
        ------
        InputError
            The robot or its environment cannot be solved.
        """
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        refuse_viscous(robot.materials, type(self).__name__)
        work = make_work(robot, environment, self.targets)
        x = work.rest.copy()
        if isinstance(initial, ProjectiveState) and np.array_equal(initial.work.robot.tets, robot.tets):
            work, x = continued(work, initial.work), initial.x.copy()
        elif initial is not None:
            nodes = initial.frame.nodes
            if len(nodes) < len(robot.vertices):
                raise InputError("initial: not a state of this robot; continue only from a result of the same mesh")
            x[: len(robot.vertices)] = nodes[: len(robot.vertices)]
        targets = work.elements.volumes(x)
        evaluation = work.elements.evaluate(x, targets)
        frame = measure(work, x, evaluation, 0.0)
        return ProjectiveState(work, frozen(x), NO_SPRINGS, np.zeros(robot.chambers), frame, is_frame=False)

    def step(
        self, state: ProjectiveState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[ProjectiveState, Report]:
        """Go to the volumes of one command; when they cannot be reached the state returned is the last good one."""
        asked = self._asked(state.work.robot, command) * state.work.elements.cells.rest_volumes
        start = (state.work, state.x, state.springs, state.pressures, state.lines)
        way = Approach(*start, command, asked, self.max_growth)
        contact = self._contact(way.work, command.index)
        records: list[dict[str, Any]] = []
        while not way.reached.arrived:
            x, targets = way.aim()
            iterate = self.relaxation.run(way.work, contact, x, targets, way.reached.pressures)
            records += iterate.records
            if progress is not None:
                springs = len(way.work.elements.springs.ids)
                progress(Progress(way.aimed, len(records), iterate.residual, springs))
            if iterate.status is Status.NOT_CONVERGED:
                if way.halve():
                    continue
                return state, Report(iterate.status, self._failure(way.work, iterate, targets), tuple(records))
            settled = way.reached.share == 1.0  # again, after remeshing at the end of the way
            way.accept(iterate)
            if (
                self.remesh
                and not settled
                and needs_remeshing(way.work, way.reached.x, self.max_volume_growth, self.max_distortion)
            ):
                clock = time.perf_counter()
                way.remesh()
                contact = self._contact(way.work, command.index)
                seconds = {"mesh": time.perf_counter() - clock}
                records.append({"remeshing": way.work.remeshings, "seconds": seconds})
        return self._reached(way, iterate, contact.penetration, records)

    def _contact(self, work: Work, index: int) -> SpringContact:
        """What finds collisions during a command."""
        stiffness = self.contact_stiffness * work.matrix.diagonal()
        return SpringContact(work.robot, work.environment, index, work.held, stiffness, self.contact_distance)

    def _reached(
        self, way: Approach, iterate: Iterate, penetration: float, records: list[dict[str, Any]]
    ) -> tuple[ProjectiveState, Report]:
        """State and report at the end of the way."""
        work = way.work
        frame = smoothed(
            work, way.reached.x, iterate.evaluation, measure(work, way.reached.x, iterate.evaluation, penetration)
        )
        if self.error_estimate:
            clock = time.perf_counter()
            residual = self._energy_residual(work, way.reached.x, frame, way.index)
            frame = replace(frame, extra={**frame.extra, "energy_residual": residual})
            records.append({"energy_residual": residual, "seconds": {"error_estimate": time.perf_counter() - clock}})
        status, message = Status.CONVERGED, ""
        if iterate.status is Status.CROSSED or frame.crossings:
            status = Status.CROSSED
            deepest = f"the deepest vertex is {frame.max_penetration * 1e3:.3g} mm inside"
            message = f"{status.value} {frame.crossings:.0f} crossing pairs; {deepest}."
        reached = ProjectiveState(
            work, frozen(way.reached.x), way.reached.springs, way.reached.pressures, frame, work.elements.lines
        )
        return reached, Report(status, message, tuple(records))

    def _energy_residual(self, work: Work, x: Floats, frame: Frame, index: int) -> float:
        """The energy solver's residual at a shape; nan where that formulation refuses the robot."""
        if work.energy is None:
            try:
                work.energy = energy_problem(work.robot, work.environment)
            except InputError:
                return float("nan")
        forces = np.array(frame.contact_forces)
        if work.elements.lines is not None:
            forces -= work.elements.lines.evaluate(x)[0][: len(forces)]
        return energy_residual(work.energy, topology.with_mid_edges(frame.nodes, work.robot.p2_edges), forces, index)

    def _failure(self, work: Work, now: Iterate, asked: Floats) -> str:
        got = ", ".join(f"{v:.4g}" for v in work.elements.volumes(now.x) / work.elements.cells.rest_volumes)
        want = ", ".join(f"{v:.4g}" for v in asked / work.elements.cells.rest_volumes)
        return (
            f"{Status.NOT_CONVERGED.value} Residual {now.residual:.1e} after {len(now.records)} iterations towards "
            f"V/V0 = {want} (at {got})."
        )
