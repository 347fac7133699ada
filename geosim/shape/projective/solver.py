"""ProjectiveShapeSolver: the local-global pipeline of [Fang2022], corrected. A robust preview of extreme inflation.

Find positions x that minimise

    sum over elements of w_e Vol_e ||F_e(x) - T_e||^2 / 2 + sum over springs of k ||v - v_c||^2 / 2 - external work,

where the target shapes T_e are projections of the present shape. One command is reached like Algorithm 1:

    while the chambers have not the asked volumes:            # progressive actuation
        while forces do not balance or vertices collide:      # collision-aware local-global solver
            local step: targets of body, chambers and springs, element by element
            global step: one prefactored matrix, three right-hand sides; quasi-Newton or Anderson acceleration
            collision check: springs are added, moved and released
        if a chamber element has grown or is distorted too much: remesh the chambers

Departures from [Fang2022] and its public code:

[D1]  The cube root of the volume ratio scales lengths in Eq. (7).
[D2]  R is the closest proper rotation (Newton iteration, det R = +1), never a bare product of singular vectors.
[D3]  A body element keeps its rest shape for good; resetting it in every increment makes the body grow.
[D4]  Weights are stiffness times rest volume. The achieved chamber volume is measured and the target moved until it
      is the asked one. By default the targets of a chamber's elements are the closest shapes whose volumes *add up*
      to the target: they push like one uniform pressure, and not at all inside. `chamber_targets="element"` asks every
      element for its share (closest shape of that determinant), "uniform" scales every element alike (III-A1).
[D5]  Shapes are compared by deformation gradients, not by centred vertices (1), (9): a stiffness then depends
      neither on size nor on shape of an element. R_omega comes from the material (`projective_material`).
[D6]  The iteration stops on the force residual, never on a small step.
[D7]  Eqs. (6)-(7) derive from no energy. `body_targets="variational"` blends T = R Q + (1 - R) P_1(F), with a merit for
      every law R(strain). The default "material" takes the target whose pull is the stress of the material itself,
      k (F - T) = dW/dF + p cof F, with the volume kept on the patch of elements round a vertex: linear tets
      that keep it one by one lock. It has a merit too. "paper" is (6)-(7), guarded by the residual alone.
[D8]  Fixed vertices are eliminated from the global matrix.
[D9]  Only the inside of the chambers is remeshed; body elements and surface vertices stay, and volume ratios refer to
      the original chambers. Distortion is judged by ||F|| and ||F^-1||, which tells slivers from stretched elements.
[D10] Inverted elements and the body volume ratio are counted and reported in every iteration.
[D11] Where the body stretches far, the weights in the global matrix follow (a few factorisations more): the volume's
      stiffness grows with the fourth power of the stretch, and steps with the weights of the rest shape overshoot.
[D12] The iteration is accelerated by L-BFGS round the global matrix (`acceleration="anderson"` is the paper's). On
      slender robots Anderson's residual falls to 1e-4 where the tip still has some percent of its way to go; L-BFGS
      has arrived there (test: a hundredth of the tolerance), and takes large increments that defeat Anderson's.
[D13] Springs act along the contact normal alone (frictionless) and are one-sided: one that still pushes stays, and its
      push is the contact force; it ends by Eq. (8) once its vertex is away by more than the offset. Where the robot
      touches itself the face that is touched feels the opposite push.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.actuation import Actuation, CableLengths, CableTensions, Command, EdgeLengths, FaceAreas, Inflation
from geosim.arrays import Floats, frozen
from geosim.contract import Frame, Progress, Report, Robot, State, Status, taken
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.robot import VolumetricRobot
from geosim.shape.projective.acceleration import Anderson, QuasiNewton
from geosim.shape.projective.contact import MOVED, SET_CHANGED, UNCHANGED, Contact
from geosim.shape.projective.elements import BODY_TARGETS, CHAMBER_TARGETS, Evaluation, Springs
from geosim.shape.projective.error import energy_problem, energy_residual
from geosim.shape.projective.frames import measure
from geosim.shape.projective.lines import Lines, make_lines
from geosim.shape.projective.mesh import Work, continued, make_work, needs_remeshing, remeshed, strung

__all__ = ["ProjectiveShapeSolver", "ProjectiveState"]

LIGHT = 0.3  # of the body's stiffness that stands in the global matrix of the quasi-Newton iteration, whose pairs add the rest
STRETCH_INTERVAL = 20  # iterations between two looks at how far elements have stretched


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
    springs: Springs
    pressures: Floats
    frame: Frame
    lines: Lines | None = None
    is_frame: bool = True

    @property
    def robot(self) -> VolumetricRobot:
        """The robot that is solved."""
        return self.work.robot


@dataclass
class _Iterate:
    """Where the local-global iteration of one increment stands."""

    x: Floats
    evaluation: Evaluation
    targets: Floats
    residual: float
    status: Status = Status.NOT_CONVERGED
    penetration: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class ProjectiveShapeSolver:
    """Options of the projective solver.

    Parameters
    ----------
    body_targets
        "material" (default), "variational" or "paper": see [D7].
    chamber_targets
        "total" (default), "element" or "uniform": see [D4].
    blend_at_rest
        R_omega at zero strain: bulk modulus over shear modulus is 2 / (3 R). Smaller keeps the body's volume better and
        takes more iterations.
    chamber_weight
        Stiffness of the chamber elements over that of the body elements beside them.
    acceleration, window
        "quasi-newton" (default, L-BFGS) or "anderson" [Fang2022] (5 or 6 is its usual window), over so many iterations;
        window 0 is the plain iteration. Targets without a merit ("paper") are accelerated by Anderson always.
    tolerance
        Largest force residual over free vertices, relative to the largest nodal sum of element forces.
    volume_tolerance
        Largest relative error of an achieved chamber volume, cable length, edge length or area.
    max_iterations
        Local-global iterations of one increment.
    max_growth
        Largest change of a chamber's volume in one increment, relative to what it has (alpha_k of Algorithm 1).
    remesh, max_volume_growth, max_distortion
        Whether chambers are remeshed, and the limits alpha_max and d_max of a chamber element since its last meshing.
    contact_interval
        Iterations between two collision checks.
    contact_offset
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
    acceleration: str = "quasi-newton"
    window: int = 15
    tolerance: float = 1e-4
    volume_tolerance: float = 1e-3
    max_iterations: int = 4000
    max_growth: float = 1.0
    remesh: bool = True
    max_volume_growth: float = 4.0
    max_distortion: float = 4.0
    contact_interval: int = 10
    contact_offset: float | None = None
    contact_stiffness: float = 0.05
    error_estimate: bool = True

    def __post_init__(self) -> None:
        for key, known in (
            ("body_targets", BODY_TARGETS),
            ("chamber_targets", CHAMBER_TARGETS),
            ("acceleration", ("quasi-newton", "anderson")),
        ):
            if getattr(self, key) not in known:
                raise InputError(
                    f"ProjectiveShapeSolver: {key} = {getattr(self, key)!r} is unknown; use one of {', '.join(known)}"
                )
        for key in (
            "blend_at_rest",
            "chamber_weight",
            "tolerance",
            "volume_tolerance",
            "max_growth",
            "max_volume_growth",
            "max_distortion",
            "contact_stiffness",
        ):
            value = getattr(self, key)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise InputError(f"ProjectiveShapeSolver: {key} = {value!r} must be a positive number")
        if self.blend_at_rest > 1.0:
            raise InputError(f"ProjectiveShapeSolver: blend_at_rest = {self.blend_at_rest:g} must be in (0, 1]")
        for key, least in (("window", 0), ("max_iterations", 1), ("contact_interval", 1)):
            value = getattr(self, key)
            if not (isinstance(value, int) and value >= least):
                raise InputError(f"ProjectiveShapeSolver: {key} = {value!r} must be a whole number >= {least}")
        if self.contact_offset is not None and not (np.isfinite(self.contact_offset) and self.contact_offset > 0):
            raise InputError(f"ProjectiveShapeSolver: contact_offset = {self.contact_offset!r} must be > 0 [m]")

    @property
    def share(self) -> float:
        """Share of the body's stiffness in the global matrix.

        Anderson's iteration needs all of it (then a step lowers the merit for certain). The stiffness against volume
        change of single elements, which is most of it, acts on patches only, so the whole is far too cautious.
        """
        return LIGHT if self.acceleration == "quasi-newton" and self.body_targets == "material" else 1.0

    def commands(self, robot: Robot, actuation: Actuation) -> list[Command]:
        """Return the commands of an actuation after checking that this solver knows them."""
        robot = taken(robot, VolumetricRobot, type(self).__name__)
        kinds = (Inflation, CableLengths, CableTensions, EdgeLengths, FaceAreas)
        commands = actuation.commands(kinds, type(self).__name__)
        for command in commands:
            self._asked(robot, command)
            make_lines(robot, command, np.ones(len(robot.vertices)), None)  # refuses what does not fit
        return commands

    def _asked(self, robot: VolumetricRobot, command: Command) -> Floats:
        """Volume ratios that a command asks for, (chambers,); nan = vented."""
        inflation = command.find(Inflation)
        if inflation is None:
            return np.full(robot.chambers, np.nan)
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
        work = make_work(robot, environment, self)
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
        frame = measure(work, x, evaluation, self._residual(work, evaluation), 0.0)
        return ProjectiveState(work, frozen(x), Springs(), np.zeros(robot.chambers), frame, is_frame=False)

    def step(
        self, state: ProjectiveState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[ProjectiveState, Report]:
        """Go to the volumes of one command; when they cannot be reached the state returned is the last good one."""
        work, x, pressures = state.work, np.array(state.x), state.pressures
        ratios = self._asked(work.robot, command)
        rest = work.elements.cells.rest_volumes
        asked = ratios * rest
        begin, records = x.copy(), []
        volumes = work.elements.volumes(x)
        end = make_lines(work.robot, command, work.matrix.diagonal(), state.lines)
        work = strung(work, end)
        strings = None if end is None else end.measures(x)
        pulls = np.zeros(0) if end is None or state.lines is None else state.lines.pulls(state.lines.measures(x))
        shares = self._increments(work, x, volumes, asked, command.index)
        work.elements.load = work.load_at(command.index)
        contact = Contact(work, self, command.index)
        work.elements.springs = state.springs
        work.matrix.factor(state.springs)
        done, width, springs = 0.0, shares[0], state.springs
        while done < 1.0:
            share = 1.0 if done + width > 1.0 - 1e-9 else done + width
            targets = asked if share == 1.0 else volumes * (asked / volumes) ** share
            if end is not None and strings is not None:
                goal = end.towards(strings, pulls if len(pulls) == end.count else 0.0 * end.tensions, share)
                now = work.elements.lines
                assert now is not None
                work.elements.lines = replace(now, goals=goal.goals, tensions=goal.tensions)
            x[work.held] = begin[work.held] + share * (work.held_positions(command.index) - begin[work.held])
            iterate = self._relax(work, contact, x, targets, pressures)
            records += iterate.records
            if progress is not None:
                progress(Progress(share, len(records), iterate.residual, len(work.elements.springs.ids)))
            if iterate.status not in (Status.CONVERGED, Status.CROSSED):
                if width > 0.2 * shares[0]:  # half the increment from the last good shape, twice at most
                    width *= 0.5
                    work.elements.springs = springs
                    work.matrix.factor(springs)
                    continue
                return state, Report(iterate.status, self._failure(work, iterate, targets), tuple(records))
            x, pressures, done = iterate.x, np.nan_to_num(iterate.evaluation.pressures), share
            springs = work.elements.springs
            if self.remesh and needs_remeshing(work, x, self.max_volume_growth, self.max_distortion):
                clock = time.perf_counter()
                work, x = remeshed(work, x, self)
                contact = Contact(work, self, command.index)
                records.append({"remeshing": work.remeshings, "seconds": {"mesh": time.perf_counter() - clock}})
                begin = np.vstack([begin, x[len(begin) :]])
                if done == 1.0:  # the same equilibrium with other chamber elements
                    iterate = self._relax(work, contact, x, targets, pressures)
                    records += iterate.records
                    if iterate.status not in (Status.CONVERGED, Status.CROSSED):
                        return state, Report(iterate.status, self._failure(work, iterate, targets), tuple(records))
                    x, pressures = iterate.x, np.nan_to_num(iterate.evaluation.pressures)
        evaluation = work.elements.evaluate(x, iterate.targets)
        frame = measure(work, x, evaluation, self._residual(work, evaluation), iterate.penetration)
        if self.error_estimate:
            clock = time.perf_counter()
            residual = self._energy_residual(work, x, frame, command.index)
            frame = replace(frame, extra={**frame.extra, "energy_residual": residual})
            records.append({"energy_residual": residual, "seconds": {"error_estimate": time.perf_counter() - clock}})
        message = ""
        if iterate.status is Status.CROSSED or frame.crossings:
            message = (
                f"{Status.CROSSED.value} {frame.crossings:.0f} crossing pairs; the deepest vertex is "
                f"{frame.max_penetration * 1e3:.3g} mm inside."
            )
        status = Status.CROSSED if message else Status.CONVERGED
        reached = ProjectiveState(work, frozen(x.copy()), work.elements.springs, pressures, frame, work.elements.lines)
        return reached, Report(status, message, tuple(records))

    def _increments(self, work: Work, x: Floats, volumes: Floats, asked: Floats, index: int) -> list[float]:
        """Shares of the way to a command, so that no chamber changes by more than `max_growth` at once."""
        change = np.abs(np.log(asked[np.isfinite(asked)] / volumes[np.isfinite(asked)])) / np.log1p(self.max_growth)
        moved = work.held_positions(index) - work.rest[work.held]
        way = float(np.abs(moved).max(initial=0.0)) / (0.05 * work.robot.size)
        lines = work.elements.lines
        if lines is not None:  # a tenth of a length or an area at once
            there = lines.measures(x)
            shorter = np.abs(np.nan_to_num(lines.goals / there, nan=1.0) - 1.0) / 0.1
            way = max(way, float(shorter.max(initial=0.0)))
        count = max(1, int(np.ceil(max(float(change.max(initial=0.0)), way) - 1e-9)))
        return [(i + 1) / count for i in range(count)]

    def _residual(self, work: Work, evaluation: Evaluation) -> float:
        return float(np.abs(evaluation.force[work.matrix.free]).max(initial=0.0) / evaluation.scale)

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

    def _relax(self, work: Work, contact: Contact, x: Floats, asked: Floats, pressures: Floats) -> _Iterate:
        """Collision-aware local-global iteration at fixed chamber volumes (lines 6-12 of Algorithm 1)."""
        elements = work.elements
        elements.compliances[:] = np.nan
        targets = elements.pressed(x, np.where(np.isfinite(asked), asked, np.nan), pressures)
        plain = self.acceleration == "anderson" or self.body_targets == "paper"
        memory: Anderson | QuasiNewton = Anderson(self.window) if plain else QuasiNewton(self.window)
        now = _Iterate(x.copy(), elements.evaluate(x, targets), targets, np.inf)
        for i in range(self.max_iterations):
            now.seconds, clock = {"check": 0.0, "response": 0.0, "solver": 0.0}, time.perf_counter()
            now.residual = self._residual(work, now.evaluation)
            balanced = now.residual <= self.tolerance
            if i % STRETCH_INTERVAL == 0 and elements.restiffen(now.x):
                work.matrix.replace(elements.laplacian(), elements.springs)
                memory.restart()
            due = balanced or i % self.contact_interval == 0
            changed = contact.update(now.x, balanced) if due else UNCHANGED
            now.seconds["check"], clock = time.perf_counter() - clock, time.perf_counter()
            if changed == MOVED:
                now.evaluation = elements.evaluate(now.x, now.targets)
                balanced = self._residual(work, now.evaluation) <= self.tolerance
                memory.jump()
            if changed == SET_CHANGED:  # springs came or went: factorise, forget
                work.matrix.factor(elements.springs)
                now.evaluation = elements.evaluate(now.x, now.targets)
                memory.restart()
            now.seconds["response"], clock = time.perf_counter() - clock, time.perf_counter()
            if changed != SET_CHANGED and balanced:
                missing = np.nan_to_num(asked - elements.volumes(now.x))
                met = bool((np.abs(missing) <= self.volume_tolerance * np.nan_to_num(asked, nan=1.0)).all())
                tighter = None if elements.lines is None else elements.lines.moved(now.x, self.volume_tolerance)
                if met and tighter is None:
                    now.status = Status.CONVERGED if contact.clear else Status.CROSSED
                    break
                elements.lines = tighter or elements.lines
                now.targets = now.targets + missing
                now.evaluation = elements.evaluate(now.x, now.targets)
                memory.restart()
            self._record(now, work, i)
            moved = self._advance(work, memory, now)
            now.seconds["solver"] = time.perf_counter() - clock
            if not moved:
                break
        now.penetration = contact.penetration
        return now

    def _advance(self, work: Work, memory: Anderson | QuasiNewton, now: _Iterate) -> bool:
        """One global step: accelerated if that lowers the merit, else plain, else shortened; False if none does."""
        elements, free = work.elements, work.matrix.free
        force = now.evaluation.force[free]
        if isinstance(memory, Anderson):
            step = -work.matrix.solve(force)
            proposal = memory.propose(now.x[free], step, force) - now.x[free]
        else:
            proposal = memory.direction(now.x[free], force, work.matrix.solve)
        for attempt in range(24):
            x = now.x.copy()
            x[free] += proposal
            evaluation = elements.evaluate(x, now.targets)
            if self.body_targets == "paper":  # no merit: the residual alone, and the plain step always
                better = attempt == 1 or np.linalg.norm(evaluation.force[free]) <= 2.0 * np.linalg.norm(force)
            else:
                gain = now.evaluation.merit - evaluation.merit
                better = gain > elements.rounding  # differences below that say nothing: then the force decides
                better |= abs(gain) <= elements.rounding and (
                    np.linalg.norm(evaluation.force[free]) <= (1.0 + 1e-9) * np.linalg.norm(force)
                )
            if better:
                now.x, now.evaluation = x, evaluation
                return True
            if attempt == 0:
                memory.restart()
                proposal = step if isinstance(memory, Anderson) else -work.matrix.solve(force)
            else:
                proposal = 0.5 * proposal
        return False

    def _record(self, now: _Iterate, work: Work, i: int) -> None:
        e, body = now.evaluation, work.elements.body
        # einsum, not a BLAS product: its threads wait longer for each other than this takes
        ratio = float(np.einsum("i,i->", e.jacobians, body.volumes) / body.volumes.sum())
        now.records.append(
            {
                "iteration": i,
                "residual": now.residual,
                "merit": e.merit,
                "springs": len(work.elements.springs.ids),
                "factorisations": work.matrix.factorisations,
                "inverted": int((e.jacobians <= 0).sum()),
                "body_volume_ratio": ratio,
                "seconds": now.seconds,
            }
        )

    def _failure(self, work: Work, now: _Iterate, asked: Floats) -> str:
        got = ", ".join(f"{v:.4g}" for v in work.elements.volumes(now.x) / work.elements.cells.rest_volumes)
        want = ", ".join(f"{v:.4g}" for v in asked / work.elements.cells.rest_volumes)
        return (
            f"{Status.NOT_CONVERGED.value} Residual {now.residual:.1e} after {len(now.records)} iterations towards "
            f"V/V0 = {want} (at {got})."
        )
