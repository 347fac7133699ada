"""Solves a scene as fast as its answer can be trusted as a preview: the coarsest mesh, from where the last design stood.

A change of a dimension moves the mesh of the last design with its surfaces, as long as its elements keep their volume, and
carries the deformed shape along: every tet keeps its deformation as nearly as it can. A change of another kind keeps the
mesh. From there the solver goes to the last command at once, with the factors of the last design as preconditioner, and
then back down the path. Where that is not possible the path is followed from rest, and every frame on it is shown.

Meshes of designs before, and those of the neighbouring counts that another process makes ahead, stay at hand with their last
shapes and factors. A count that is turned, or a dimension that crushes the mesh of one, finds another to move.
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.studio import frames, warm
from geosim.apps.studio.messages import Send
from geosim.apps.studio.scene import Scene
from geosim.apps.study.job import Job
from geosim.apps.study.solving import write_problem
from geosim.arrays import METRES_PER_UNIT
from geosim.errors import GeosimError, InputError
from geosim.files.actuation import read_actuation
from geosim.files.environment import read_environment
from geosim.files.messages import Place
from geosim.files.robot import fill, load_problem, make_solver
from geosim.files.schema import EnvironmentTable
from geosim.files.values import read_material, validated
from geosim.generate import Design
from geosim.generate.moving import DesignMesh
from geosim.measures.spine import Spine, moved_spine, spine
from geosim.model.actuation import Actuation, Passive
from geosim.model.contract import Progress, Report, Robot, SavedState, Status
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.sensitivity import sensitivity
from geosim.result import Result, collect
from geosim.shape.energy.solver import EnergyShapeSolver, ShapeState
from geosim.shape.energy.states.last_evaluation import LastEvaluation
from geosim.show.page import MAX_PAGE_FRAMES
from geosim.solve import default_solver, solve

__all__ = ["RESULT_FILE", "LiveSolver", "Mesh", "SupersededError", "neighbours", "problem_files"]


# Fingers and grippers on their coarsest meshes bend within .1 % of what they do at the tolerance of the solver, by which the
# saved files are solved; at a thousandth up to 1.6 % less, for a fifth less time.
PREVIEW_TOLERANCE = 2e-4
# What a start from the last design may cost before the path from rest is the better way: that costs 5 to 12 factorisations.
MAX_WARM_FACTORISATIONS = 6
COARSE_EDGE_REL = (
    0.1  # of the size of the body: from there on longer edges make no coarser mesh of the generators' designs
)
# A hand that drags turns its knob more often than this; how often a newer change is looked for meanwhile.
REST_SECONDS, LOOK_SECONDS = 0.25, 0.03
KEPT_MESHES = 4  # beside the one that is shown: the neighbours of two counts; each keeps its factors, 50 to 150 MB
RESULT_FILE = "result.npz"


class SupersededError(Exception):
    """Another change has come, and what is being solved is not wanted any more."""


@dataclass(frozen=True)
class Posed:
    """A scene as it is solved: robot, surroundings, commands, solver."""

    robot: Robot
    environment: Environment
    actuation: Actuation
    solver: Any


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh as it was made.

    Parameters
    ----------
    key
        What it was made of besides dimensions.
    robot
        The robot.
    shape
        How it moves with the dimensions of its design; None for a robot file.
    """

    key: str
    robot: Robot
    shape: DesignMesh | None = None


@dataclass(frozen=True)
class Reached:
    """How far the solver came on a mesh.

    Parameters
    ----------
    state
        The last one that was looked through for contact.
    near
        The last one that was shown: first shapes start from it.
    whole
        Whether that was at the last command.
    """

    state: ShapeState | None = None
    near: ShapeState | None = None
    whole: bool = False


@dataclass(eq=False)
class Standing:
    """A mesh and all that is known of it: states, factors and centre lines go where it goes, and never to another.

    Parameters
    ----------
    mesh
        As it was made.
    robot
        As it was moved last.
    last
        The states that were reached on it.
    line
        The last exact centre line, and whose it is.
    factors
        On their way where another thread finds them ahead.
    """

    mesh: Mesh
    robot: Robot
    last: Reached = Reached()
    line: tuple[VolumetricRobot, Spine | None] | None = None
    factors: Future[None] | None = None

    def go_on_as(self, robot: VolumetricRobot) -> None:
        """Move the mesh as a robot, and wait for factors that another thread is finding: nobody else would have them sooner."""
        self.robot = robot
        if self.factors is not None and not self.factors.cancel():
            wait((self.factors,))
        self.factors = None

    def line_of(self, robot: VolumetricRobot, *, exact: bool) -> Spine | None:
        """Return the centre line of a robot; unless it shall be exact through the windows of the last exact one."""
        if self.line is not None:
            before, known = self.line
            if known is None or np.array_equal(before.vertices, robot.vertices):
                return known
            if not exact:
                return moved_spine(robot, known)
        self.line = robot, spine(robot)
        return self.line[1]

    def sent(self) -> Standing:
        """Return what goes to another process: without the way to mesh it again, which no pipe carries, and evaluations."""
        assert isinstance(self.mesh.robot, VolumetricRobot)
        assert isinstance(self.robot, VolumetricRobot)
        mesh, robot = (replace(one, remesh=None) for one in (self.mesh.robot, self.robot))
        near = self.last.near
        if near is not None:
            near = replace(near, problem=replace(near.problem, robot=robot, latest=LastEvaluation()))
        shape = None if self.mesh.shape is None else replace(self.mesh.shape, robot=mesh)
        return Standing(replace(self.mesh, robot=mesh, shape=shape), robot, Reached(near=near))


@dataclass
class LiveSolver:
    """What was solved last, and how the next scene is solved from it.

    Parameters
    ----------
    send
        Takes a header and a frame, or None.
    superseded
        Whether another change has come, or comes within this many seconds.
    scratch
        Folder for the results of what has no coarser mesh.
    meshes
        Those at hand, the one that is shown at the end.
    offered
        Those that another process made ahead, with their first shapes.
    """

    send: Send
    superseded: Callable[[float], bool]
    scratch: Path = Path()
    meshes: list[Standing] = field(default_factory=list)
    offered: deque[Standing] = field(default_factory=deque)
    solved: Result | None = None
    shape: str = ""  # what the path was followed for: everything but the commands

    @property
    def here(self) -> Standing:
        """Knowledge of the mesh that is shown."""
        return self.meshes[-1]

    def show(self, number: int, scene: Scene) -> None:
        """Solve a scene and send its frames.

        Raises
        ------
        SupersededError
            Another change has come.
        GeosimError
            It cannot be meshed or solved.
        """
        posed = self.posed(scene)
        if not isinstance(posed.robot, VolumetricRobot) or not isinstance(posed.solver, EnergyShapeSolver):
            self._plain(number, posed)
            return
        shape = json.dumps({k: v for k, v in scene.tables.items() if k not in ("actuation", "mesh")}, sort_keys=True)
        commands = posed.solver.commands(posed.robot, posed.actuation)
        near = self.here.last.near if self.here.last.whole else None
        state = self._warm(number, posed, near, commands) if near is not None else None
        if state is not None:
            self._shown(number, posed, state, len(commands), len(commands))
            if shape != self.shape:  # where only the command is another, the path is known
                self._back(number, posed, state, commands)
        else:
            self._from_rest(number, posed, commands)
        self.shape = shape

    def met(self, scene: Scene) -> Standing | None:
        """Return a new mesh of a scene with its first shape; None where one at hand can be moved to it.

        Raises
        ------
        GeosimError
            It cannot be meshed or solved.
        """
        design = scene.drawn()
        if self._at_hand(design, str(coarse_edge(design, scene.job().mesh["max_edge_mm"]))) is not None:
            return None
        posed = self.posed(scene)
        near, commands = self._resting(posed), posed.solver.commands(posed.robot, posed.actuation)
        if warm.touches_nothing(near, posed.environment):
            self._first(0, posed, posed.solver, near, commands[0], (1, len(commands)))
        new = self.here.sent()
        self.here.last = replace(
            self.here.last, near=None
        )  # its factors go through no pipe, and nobody asks for them here
        return new

    def _put_aside(self, one: Standing) -> None:
        """Keep a mesh that is not shown at hand."""
        self.meshes.insert(-1, one)
        del self.meshes[: -KEPT_MESHES - 1]

    def posed(self, scene: Scene) -> Posed:
        """Return a scene as it is solved, on a mesh that is at hand where one can be moved to it, else on a new one."""
        job, place = scene.job(), Place(Path("studio.toml"))
        material = None if job.material is None else read_material(job.material, place)
        robot: Any = self._of_design(scene.drawn(), job) if scene.design else self._of_file(scene, job)
        solver = default_solver(robot) if not job.table.get("solver") else load_solver(job.table, robot)
        unit = METRES_PER_UNIT[str(scene.base.get("units", "mm"))]
        known = list(robot.materials.values()) if isinstance(robot, VolumetricRobot) else []
        if material is not None and len(known) == 1 and known != [material]:
            robot = robot.moved(robot.vertices, materials=dict.fromkeys(robot.materials, material))
        surroundings = validated(EnvironmentTable, job.table.get("environment", {}), place.at("environment"))
        environment = read_environment(surroundings, robot, unit, place)
        actuation = read_actuation(job.actuation, place, robot) if job.actuation else Passive()
        if isinstance(solver, EnergyShapeSolver):
            solver = replace(solver, tolerance=PREVIEW_TOLERANCE, check_stability=False)
        return Posed(robot, environment, actuation, solver)

    def _of_design(self, design: Design, job: Job) -> VolumetricRobot:
        """Return the robot of a design: on a mesh at hand, those that were made ahead included, or on a new one."""
        edge = coarse_edge(design, job.mesh["max_edge_mm"])
        while self.offered and self.meshes:
            new = self.offered.popleft()
            if new.mesh.shape is not None and self._at_hand(new.mesh.shape.design, new.mesh.key) is None:
                self._put_aside(new)
        found = self._at_hand(design, str(edge))
        if found is None:
            made = design.robot(material=job.material, preview=edge is None, max_edge=edge)
            found = Standing(Mesh(str(edge), made, DesignMesh.of(made, design)), made), made
        return self._go_to(*found)

    def _of_file(self, scene: Scene, job: Job) -> Robot:
        """Return the robot of a robot file: the one that is shown where nothing but its surroundings is another."""
        table = {k: v for k, v in job.table.items() if k not in ("environment", "solver")}
        key = json.dumps([table, job.mesh], sort_keys=True)
        with tempfile.TemporaryDirectory(prefix="geosim-studio-") as folder:
            write_problem(job, Path(folder))
            if not self.meshes or self.here.mesh.key != key:
                preview = scene.volumetric and "mesh" in scene.knobs
                robot, _, _ = load_problem(Path(folder, "robot.toml"), preview=preview)
                self.meshes[:] = [Standing(Mesh(key, robot), robot)]
        return self.here.robot

    def _at_hand(self, design: Design, key: str) -> tuple[Standing, VolumetricRobot] | None:
        """Return the mesh that is shown, or else another one at hand, and it moved to a design; None where none can be."""
        for one in reversed(self.meshes):
            last, shape = one.robot, one.mesh.shape
            if one.mesh.key != key or shape is None or not isinstance(last, VolumetricRobot):
                continue
            was = last.design if isinstance(last.design, Design) else shape.design
            same = was.name == design.name and was.parameters == design.parameters
            moved = last if same else shape.moved(design)
            if moved is not None:
                return one, moved
        return None

    def _go_to(self, one: Standing, robot: VolumetricRobot) -> VolumetricRobot:
        """Show a mesh from here on, moved as a robot; the last ones stay at hand."""
        self.meshes[:] = [*(other for other in self.meshes if other is not one), one][-KEPT_MESHES - 1 :]
        with self._given_up():
            one.go_on_as(robot)
        return robot

    # ---- ways to a frame

    def _warm(self, number: int, posed: Posed, near: ShapeState, commands: Any) -> ShapeState | None:
        """Go to the last command from the last state; None where that does not lead there.

        Where nothing touches, a frame is sent before contact is looked for. It starts from the last frame of this kind: a hand
        that turns on before contact is looked for is followed from where it is, and not from where it last rested.
        """
        robot, environment, count = posed.robot, posed.environment, len(commands)
        assert isinstance(robot, VolumetricRobot)
        solver, old = replace(posed.solver, max_factorisations=MAX_WARM_FACTORISATIONS), self.here.last.state or near
        alike = warm.same_but_commands(old, robot, environment)
        start = None
        if warm.touches_nothing(old, environment):
            start = self._first(number, posed, solver, near, commands[-1], (count, count))
            if start is None and not alike:
                return None
        with self._given_up():
            start = old if alike else warm.started(solver, start or old, robot, environment)
        if start is None:
            return None
        state, report = solver.step(start, commands[-1], self._watch)
        return state if report.status is Status.CONVERGED else None

    def _first(
        self, number: int, posed: Posed, solver: Any, near: ShapeState, command: Any, step: tuple[int, int]
    ) -> ShapeState | None:
        """Send the shape at a command before contact is looked for, and wait whether the hand rests; None where there is none."""
        robot = posed.robot
        assert isinstance(robot, VolumetricRobot)
        first = warm.first_shape(solver, near, robot, posed.environment, command, self._watch)
        last = self.here.last
        self.here.last = replace(last, near=first or last.state, whole=step[0] == step[1])
        if first is not None:
            self._sent(number, collected(posed, first), *step, checked=False)
            if self.superseded(REST_SECONDS):
                raise SupersededError
        return first

    def _from_rest(self, number: int, posed: Posed, commands: Any) -> None:
        """Follow the path from rest, frame by frame; its first shape starts from that of a last design that got no further."""
        before, count = self.here.last, len(commands)
        last = before.near or before.state
        self.here.last, near = replace(before, state=None), None if before.whole else last
        if near is None:
            near = self._resting(posed)
            if last is not None:
                near = replace(near, problem=warm.with_factors_of(last.problem, near.problem))
        if warm.touches_nothing(near, posed.environment):
            self._first(number, posed, posed.solver, near, commands[0], (1, count))
        with self._given_up():
            state = posed.solver.start(posed.robot, posed.environment)
        state = replace(state, problem=warm.with_factors_of(near.problem, state.problem))
        for k, command in enumerate(commands):
            after, report = posed.solver.step(state, command, self._watch)
            if not report.reached:
                if report.partial is not None:
                    self._shown(number, posed, report.partial, k + 1, count, report)
                raise GeosimError(report.message)
            state = after
            self._shown(number, posed, state, k + 1, count)

    def _resting(self, posed: Posed) -> ShapeState:
        """Return the state at rest before contact is looked for."""
        apart = replace(posed.environment, self_contact=False)
        with self._given_up():
            state: ShapeState = posed.solver.begun(posed.robot, apart, searched=False)
        return state

    def _back(self, number: int, posed: Posed, state: ShapeState, commands: Any) -> None:
        """Follow the path from its last command down, so that its curve is known."""
        for k in reversed(range(len(commands) - 1)):
            after, report = posed.solver.step(state, commands[k], self._watch)
            if report.status is not Status.CONVERGED:
                return
            state = after
            self._sent(number, collected(posed, state, report), k + 1, len(commands), last=False)

    def _plain(self, number: int, posed: Posed) -> None:
        """Solve a robot that has no coarser mesh (rods, shells, a snake) as its files say; frames come as they are reached."""
        shown = -1

        def show(progress: Progress) -> None:
            nonlocal shown
            self._watch(progress)
            share = MAX_PAGE_FRAMES * progress.command // max(progress.commands, 1)
            if progress.frame is not None and share > shown:
                shown = share
                self._sent(
                    number, reached(posed, progress.frame), progress.command, progress.commands, level="refining"
                )

        result = followed(posed, self.scratch, show)
        count = len(result.frames)
        self._sent(number, result, count, count, level="converged")

    def sensitivities(self, number: int, scene: Scene) -> None:
        """Send what the bend angle (of what does not bend, the tip) changes by with every dimension, one by one.

        Raises
        ------
        GeosimError
            Nothing is solved, or it has no sensitivities.
        """
        if self.solved is None or self.solved.robot is None or not scene.design:
            raise InputError("sensitivities are of a design that is solved; wait for its first frame")
        result, bends = self.solved, self.solved.spine is not None
        measure, measured_in = ("bend_angle", "deg") if bends else ("tip", "mm")
        for key, knob in scene.knobs.items():
            if not knob.size:
                continue
            self._watch()
            told = {"say": "sensitivity", "number": number, "key": key}
            name, colon, part = key.partition(":")
            try:
                found = sensitivity(result, measure, f"design.{name.removesuffix('_mm')}{colon}{part}")
            except InputError as error:
                self.send({**told, "why": str(error)}, None)
                continue
            scale = 1e-3 if knob.unit == "mm" else 1.0
            slope = float(np.degrees(found.jacobian) if bends else 1e3 * np.linalg.norm(found.jacobian)) * scale
            unit = f"{measured_in}/{knob.unit or '1'}"
            self.send({**told, "slope": slope, "unit": unit, "share": slope * float(scene.value(key))}, None)

    # ---- what is told

    def _watch(self, progress: Progress | None = None) -> None:
        if self.superseded(0.0):
            raise SupersededError

    @contextmanager
    def _given_up(self) -> Iterator[None]:
        """Let a newer change end at once what takes long and changes nothing that is kept, where the system has timers."""
        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            yield
            return

        def look(*_: Any) -> None:
            if self.superseded(0.0):
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                raise SupersededError

        before = signal.signal(signal.SIGALRM, look)
        timer = signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *timer)  # one may be looking from outside

    def _shown(
        self, number: int, posed: Posed, state: ShapeState, k: int, count: int, report: Report | None = None
    ) -> None:
        """Send a frame, and go on from it."""
        result = collected(posed, state, report or Report(Status.CONVERGED))
        if report is None:
            self.solved, self.here.last = result, Reached(state, state, k == count)
        self._sent(number, result, k, count, failed=report is not None)

    def _sent(
        self,
        number: int,
        result: Result,
        k: int,
        count: int,
        *,
        last: bool = True,
        failed: bool = False,
        level: str = "preview",
        checked: bool = True,
    ) -> None:
        told = {"now": last, "failed": failed, "tets": len(result.robot.body_tets), "checked": checked}
        header = frames.header(number, level, k, count, **told)
        with self._given_up():
            if isinstance(result.robot, VolumetricRobot):
                # which takes a fifth of what a first frame does
                vars(result)["spine"] = self.here.line_of(result.robot, exact=checked)
            message = frames.frame(result, header, gauges=checked)
        self.send({"say": "frame", "number": number}, message)


def neighbours(scene: Scene, shown: Sequence[Scene] = ()) -> list[Scene]:
    """Return the scenes that have one less or one more of what a design counts; last those that count as one shown before.

    Those with less come first: they are solved sooner, so that more of them are there when a hand turns.
    """
    keys = [k for k, knob in scene.knobs.items() if scene.design and knob.group == "Dimensions" and knob.whole]
    known = [[one.value(key) for key in keys] for one in shown]
    out = []
    for change in (-1, 1):
        for key in keys:
            with suppress(InputError):
                out.append(scene.turned(key, int(scene.value(key)) + change))
    return sorted(out, key=lambda one: [one.value(key) for key in keys] in known)


def coarse_edge(design: Design, max_edge_mm: float | None) -> float | None:
    """Return the edge [m] that is asked for where it is so long that a mesh of it is as coarse as any; else None."""
    size = float(np.linalg.norm(np.ptp(design.body.bounds, axis=0)))
    edge = None if max_edge_mm is None else 1e-3 * max_edge_mm
    return edge if edge is not None and edge > COARSE_EDGE_REL * size else None


def collected(posed: Posed, state: Any, report: Report | None = None) -> Result:
    """Return a result of one frame; nobody reads the message of one without a report."""
    robot, environment, judged = state.robot, posed.environment, report is not None
    reports = [report or Report(Status.CONVERGED)]
    return collect(robot, environment, posed.solver, [state], reports, posed.actuation, judged=judged)


def reached(posed: Posed, frame: Any) -> Result:
    """Return a result of a frame that a solve has reached."""
    return collected(posed, SavedState(posed.robot, frame, {}), Report(Status.CONVERGED))


def followed(posed: Posed, folder: Path, progress: Callable[[Progress], None]) -> Result:
    """Solve a scene from rest, and keep result.npz in a folder.

    Raises
    ------
    GeosimError
        A command is not reached.
    """
    result = solve(posed.robot, posed.actuation, posed.environment, solver=posed.solver, throw=False, progress=progress)
    result.save(folder / RESULT_FILE)
    if not result.converged:
        raise GeosimError(result.message)
    return result


def load_solver(table: Mapping[str, Any], robot: Robot) -> Any:
    """Return the solver that a robot file asks for."""
    place = Place(Path("studio.toml")).at("solver")
    options = table["solver"]
    return (
        make_solver(options, place)
        if isinstance(robot, VolumetricRobot)
        else fill(type(default_solver(robot)), options, place)
    )


def problem_files(scene: Scene, folder: Path) -> None:
    """Write the files of a scene, which `geosim solve` reads: robot.toml with its surfaces, actuation.toml.

    Raises
    ------
    InputError
        A value cannot be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_problem(scene.job(), folder)
