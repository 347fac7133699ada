"""Solves a scene as fast as its answer can be trusted as a preview: the coarsest mesh, from where the last design stood.

A change of a dimension moves the mesh of the last design with its surfaces, as long as its elements keep their volume, and
carries the deformed shape along: every tet keeps its deformation as nearly as it can. A change of another kind keeps the
mesh. From there the solver goes to the last command at once, with the factors of the last design as preconditioner, and
then back down the path. Where that is not possible the path is followed from rest, and every frame on it is shown.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from geosim.actuation import Actuation, Passive
from geosim.arrays import METRES_PER_UNIT, Floats
from geosim.contract import Progress, Report, Robot, SavedState, Status
from geosim.derivatives.sensitivity import sensitivity
from geosim.environment import Environment
from geosim.errors import GeosimError, InputError
from geosim.files.actuation import read_actuation
from geosim.files.environment import read_environment
from geosim.files.messages import Place
from geosim.files.robot import fill, load_problem, make_solver
from geosim.files.schema import EnvironmentTable
from geosim.files.values import read_material, validated
from geosim.generate import Design
from geosim.geometry import topology
from geosim.geometry.surface_map import SurfaceMap, surface_map, untangled
from geosim.result import Result, collect
from geosim.robot import VolumetricRobot
from geosim.shape.energy.solver import EnergyShapeSolver, ShapeState
from geosim.solve import default_solver, solve
from geosim.studio import frames
from geosim.studio.scene import Scene
from geosim.study.solving import write_problem

__all__ = ["RESULT_FILE", "LiveSolver", "SupersededError", "carried_over", "problem_files"]

Send = Callable[[Mapping[str, Any], bytes | None], None]

# A force residual of a thousandth moves a tip by less than a tenth of what the coarsest mesh is off; the saved files are solved
# to the tolerance of the solver.
PREVIEW_TOLERANCE = 1e-3
# What a start from the last design may cost before the path from rest is the better way: that costs 5 to 12 factorisations.
MAX_WARM_FACTORISATIONS = 6
# Tets of a mesh that was moved with its surfaces keep this share of their volume; else it is made again.
MIN_VOLUME_SHARE = 0.3
COARSE_EDGE_REL = (
    0.1  # of the size of the body: from there on longer edges make no coarser mesh of the generators' designs
)
MAX_PLAIN_FRAMES = 60  # of a motion that are shown
RESULT_FILE = "result.npz"
TIP_MEASURE, BEND_MEASURE = "tip", "bend_angle"


class SupersededError(Exception):
    """Another change has come, and what is being solved is not wanted any more."""


@dataclass(frozen=True)
class Posed:
    """A scene as it is solved: robot, surroundings, commands, solver."""

    robot: Robot
    environment: Environment
    actuation: Actuation
    solver: Any


@dataclass(frozen=True)
class Mesh:
    """The mesh of a design that others are moved from.

    Parameters
    ----------
    key
        What it was made of besides dimensions.
    robot, design
        The robot, and its design; None for a robot file.
    places
        Where its vertices lie on the surfaces of the design.
    """

    key: str
    robot: Robot
    design: Design | None = None
    places: SurfaceMap | None = None


@dataclass
class LiveSolver:
    """What was solved last, and how the next scene is solved from it.

    Parameters
    ----------
    send
        Takes a header and a frame, or None.
    superseded
        Whether another change has come.
    scratch
        Folder for the results of what has no coarser mesh.
    """

    send: Send
    superseded: Callable[[], bool]
    scratch: Path = Path()
    mesh: Mesh | None = None
    state: ShapeState | None = None
    solved: Result | None = None
    shape: str = ""  # what the path was followed for: everything but the commands

    def show(self, number: int, scene: Scene) -> None:
        """Solve a scene and send its frames.

        Raises
        ------
        SupersededError
            Another change has come.
        GeosimError
            It cannot be meshed or solved.
        """
        posed, new = self.posed(scene)
        if not isinstance(posed.robot, VolumetricRobot) or not isinstance(posed.solver, EnergyShapeSolver):
            self._plain(number, posed)
            return
        shape = json.dumps({k: v for k, v in scene.tables.items() if k not in ("actuation", "mesh")}, sort_keys=True)
        commands = posed.solver.commands(posed.robot, posed.actuation)
        warm = None if new or self.state is None else self._warm(posed, commands[-1])
        if warm is not None:
            self._shown(number, posed, warm, len(commands), len(commands))
            if shape != self.shape:  # where only the command is another, the path is known
                self._back(number, posed, warm, commands)
        else:
            self._from_rest(number, posed, commands)
        self.shape = shape

    def posed(self, scene: Scene) -> tuple[Posed, bool]:
        """Return a scene as it is solved, and whether its mesh is a new one."""
        job = scene.job()
        new = False
        solver: Any
        if scene.design:
            design = scene.drawn()
            edge = coarse_edge(design, job.mesh["max_edge_mm"])
            key = str(edge)
            moved = self._moved(design) if self.mesh is not None and self.mesh.key == key else None
            if moved is None:
                robot: Any = design.robot(material=job.material, preview=edge is None, max_edge=edge)
                surfaces = (design.body, *design.chambers)
                places = surface_map(robot.vertices, robot.tets, robot.body_tets, surfaces)
                self.mesh, moved, new = Mesh(key, robot, design, places), robot, True
            robot, solver = moved, default_solver(moved)
        else:
            table = {k: v for k, v in job.table.items() if k not in ("environment", "solver")}
            key = json.dumps([table, job.mesh], sort_keys=True)
            with tempfile.TemporaryDirectory(prefix="geosim-studio-") as folder:
                write_problem(job, Path(folder))
                if self.mesh is None or self.mesh.key != key:
                    preview = scene.volumetric and "mesh" in scene.knobs
                    robot, environment, solver = load_problem(Path(folder, "robot.toml"), preview=preview)
                    self.mesh, new = Mesh(key, robot), True
                robot = self.mesh.robot
                solver = default_solver(robot) if not job.table.get("solver") else load_solver(job.table, robot)
        place = Place(Path("studio.toml"))
        unit = METRES_PER_UNIT[str(scene.base.get("units", "mm"))]
        if job.material is not None and isinstance(robot, VolumetricRobot) and len(robot.materials) == 1:
            robot = replace(robot, materials=dict.fromkeys(robot.materials, read_material(job.material, place)))
        surroundings = validated(EnvironmentTable, job.table.get("environment", {}), place.at("environment"))
        environment = read_environment(surroundings, robot, unit, place)
        actuation = read_actuation(job.actuation, place, robot) if job.actuation else Passive()
        if isinstance(solver, EnergyShapeSolver):
            solver = replace(solver, tolerance=PREVIEW_TOLERANCE, check_stability=False)
        return Posed(robot, environment, actuation, solver), new

    def _moved(self, design: Design) -> VolumetricRobot | None:
        """Return the last mesh moved to a design; None where that has other parts, or elements would be crushed."""
        mesh = self.mesh
        if mesh is None or mesh.design is None or mesh.places is None or not isinstance(mesh.robot, VolumetricRobot):
            return None
        before, after = ((d.body, *d.chambers) for d in (mesh.design, design))
        if mesh.design.name != design.name or len(before) != len(after):
            return None
        if design.layers or mesh.design.layers:  # their faces are those of the mesh that they were found on
            return None
        if any(a.faces.shape != b.faces.shape or (a.faces != b.faces).any() for a, b in zip(before, after)):
            return None
        robot = mesh.robot
        motion = mesh.places.carried([np.asarray(b.vertices) - np.asarray(a.vertices) for a, b in zip(before, after)])
        vertices = robot.vertices + motion
        before_it, after_it = (topology.tet_volumes(x, robot.tets) for x in (robot.vertices, vertices))
        wanted = before_it * (after_it.sum() / before_it.sum())
        if (after_it / wanted).min() < MIN_VOLUME_SHARE:
            faces = np.vstack([topology.boundary_faces(t) for t in (robot.tets, robot.body_tets)])
            vertices = untangled(vertices, robot.tets, faces, wanted, MIN_VOLUME_SHARE)
            if (topology.tet_volumes(vertices, robot.tets) / wanted).min() < MIN_VOLUME_SHARE:
                return None
        return replace(robot, vertices=vertices, design=design, cables=design.cables, fibres=design.fibres)

    # ---- ways to a frame

    def _warm(self, posed: Posed, command: Any) -> ShapeState | None:
        """Go to a command from the last state, carried over to the robot as it is now; None where that does not lead there."""
        old = self.state
        assert old is not None
        robot, solver = posed.robot, replace(posed.solver, max_factorisations=MAX_WARM_FACTORISATIONS)
        assert isinstance(robot, VolumetricRobot)
        motion = robot.vertices - old.robot.vertices
        rubs = any(o.free or o.friction for o in (*posed.environment.obstacles, *old.problem.environment.obstacles))
        if same_but_commands(posed, old, motion):
            state, report = solver.step(old, command, self._watch)
            return state if report.status is Status.CONVERGED else None
        if rubs or len(old.problem.environment.obstacles) != len(posed.environment.obstacles):
            return None  # where something rubs, or lets go, a shape depends on the way
        nodes = old.frame.nodes if not motion.any() else carried_over(old, robot.vertices)
        initial = replace(old, measured=replace(old.frame, nodes=nodes), contact_state=None, before=())
        try:
            start = solver.start(robot, posed.environment, initial)
        except InputError:
            return None
        if (
            start.problem.pattern.size == old.problem.pattern.size
        ):  # the same mesh: factors of the last design precondition
            kept = {"pattern": old.problem.pattern, "linear": old.problem.linear}
            start = replace(start, problem=replace(start.problem, **kept))
        state, report = solver.step(start, command, self._watch)
        return state if report.status is Status.CONVERGED else None

    def _from_rest(self, number: int, posed: Posed, commands: Any) -> None:
        """Follow the path from rest, frame by frame."""
        self.state = None
        state = posed.solver.start(posed.robot, posed.environment)
        for k, command in enumerate(commands):
            after, report = posed.solver.step(state, command, self._watch)
            if not report.reached:
                if report.partial is not None:
                    self._shown(number, posed, report.partial, k + 1, len(commands), report)
                raise GeosimError(report.message)
            state = after
            self._shown(number, posed, state, k + 1, len(commands))

    def _back(self, number: int, posed: Posed, state: ShapeState, commands: Any) -> None:
        """Follow the path from its last command down, so that its curve is known."""
        end = state
        for k in reversed(range(len(commands) - 1)):
            after, report = posed.solver.step(state, commands[k], self._watch)
            if report.status is not Status.CONVERGED:
                return
            state = after
            self._sent(number, collected(posed, state, report), k + 1, len(commands), last=False)
        self.state = end

    def _plain(self, number: int, posed: Posed) -> None:
        """Solve a robot that has no coarser mesh (rods, shells, a snake) as its files say; frames come as they are reached."""
        shown = -1

        def show(progress: Progress) -> None:
            nonlocal shown
            self._watch(progress)
            share = MAX_PLAIN_FRAMES * progress.command // max(progress.commands, 1)
            if progress.frame is not None and share > shown:
                shown = share
                state: Any = SavedState(posed.robot, progress.frame, {})
                reached = collected(posed, state, Report(Status.CONVERGED))
                self._sent(number, reached, progress.command, progress.commands, level="refining")

        result = solve(posed.robot, posed.actuation, posed.environment, solver=posed.solver, throw=False, progress=show)
        result.save(self.scratch / RESULT_FILE)
        if not result.converged:
            raise GeosimError(result.message)
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
        result = self.solved
        bends = result.spine is not None
        for key, knob in scene.knobs.items():
            if knob.group != "Dimensions" or knob.whole or knob.choices:
                continue
            name, _, part = key.partition(":")
            dimension = name.removesuffix("_mm") + (f":{part}" if part else "")
            if self.superseded():
                raise SupersededError
            try:
                found = sensitivity(result, BEND_MEASURE if bends else TIP_MEASURE, f"design.{dimension}")
            except InputError as error:
                self.send({"say": "sensitivity", "number": number, "key": key, "why": str(error)}, None)
                continue
            scale = 1e-3 if knob.unit == "mm" else 1.0
            slope = float(np.degrees(found.jacobian) if bends else 1e3 * np.linalg.norm(found.jacobian)) * scale
            unit = f"{'deg' if bends else 'mm'}/{knob.unit or '1'}"
            told = {"say": "sensitivity", "number": number, "key": key, "slope": slope, "unit": unit}
            self.send({**told, "share": slope * float(scene.value(key))}, None)

    # ---- what is told

    def _watch(self, progress: Progress) -> None:
        if self.superseded():
            raise SupersededError

    def _shown(
        self, number: int, posed: Posed, state: ShapeState, k: int, count: int, report: Report | None = None
    ) -> None:
        """Send a frame, and go on from it."""
        result = collected(posed, state, report or Report(Status.CONVERGED))
        if report is None:
            self.state, self.solved = state, result
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
    ) -> None:
        header = {
            "say": "frame", "number": number, "level": level, "step": k, "steps": count, "now": last, "failed": failed,
            "tets": len(result.robot.body_tets),
        }  # fmt: skip
        self.send({"say": "frame", "number": number}, frames.frame(result, header))


def coarse_edge(design: Design, max_edge_mm: float | None) -> float | None:
    """Return the edge [m] that is asked for where it is so long that a mesh of it is as coarse as any; else None."""
    size = float(np.linalg.norm(np.ptp(design.body.bounds, axis=0)))
    edge = None if max_edge_mm is None else 1e-3 * max_edge_mm
    return edge if edge is not None and edge > COARSE_EDGE_REL * size else None


def same_but_commands(posed: Posed, state: ShapeState, motion: Floats) -> bool:
    """Whether a scene is that of a state but for its commands: the path goes on from there, friction and all."""
    before, robot = state.problem.environment, state.robot
    assert isinstance(posed.robot, VolumetricRobot)
    alike = posed.robot.materials == robot.materials and posed.robot.cables == robot.cables
    return not motion.any() and alike and str(before) == str(posed.environment)


def collected(posed: Posed, state: Any, report: Report) -> Result:
    """Return a result of one frame."""
    return collect(state.robot, posed.environment, posed.solver, [state], [report], posed.actuation)


def carried_over(state: ShapeState, vertices: Floats) -> Floats:
    """Return positions of all nodes [m] of a moved mesh (n, 3) that is deformed as the state's is.

    The positions whose gradients F' on the moved tets are nearest to those F of the state, held vertices at rest:

        minimum of sum over tets V |F' - F|^2,        [Sumner, Popovic 2004, Deformation transfer for triangle meshes].
    """
    robot, nodes, tets = state.robot, state.frame.nodes, state.robot.body_tets
    n = len(vertices)
    edges_of: Callable[[Floats], Floats] = lambda x: np.stack([x[tets[:, i]] - x[tets[:, 3]] for i in range(3)], axis=2)  # noqa: E731
    slopes, edges = [np.linalg.inv(edges_of(x)) for x in (robot.vertices, vertices)], edges_of(nodes)
    gradients = edges @ slopes[0]
    of_corners = np.concatenate([slopes[1], -slopes[1].sum(axis=1, keepdims=True)], axis=1)
    volumes = np.abs(topology.tet_volumes(vertices, tets))
    local = np.einsum("t,tai,tbi->tab", volumes, of_corners, of_corners)
    rows, columns = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, 4).ravel()
    matrix = sparse.coo_matrix((local.ravel(), (rows, columns)), shape=(n, n)).tocsr()
    right = np.zeros((n, 3))
    np.add.at(right, tets.ravel(), np.einsum("t,tij,taj->tai", volumes, gradients, of_corners).reshape(-1, 3))
    out = vertices + (nodes[:n] - robot.vertices)
    out[robot.fixed] = vertices[robot.fixed] + (nodes[robot.fixed] - robot.vertices[robot.fixed])
    free = np.setdiff1d(np.unique(tets), robot.fixed)
    known = np.setdiff1d(np.arange(n), free)
    mine = matrix[free]
    out[free] = splu(mine[:, free].tocsc()).solve(right[free] - mine[:, known] @ out[known])
    ends = robot.p2_edges
    bulge = nodes[n:] - 0.5 * nodes[:n][ends].sum(axis=1)
    return np.vstack([out, 0.5 * out[ends].sum(axis=1) + bulge])


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
