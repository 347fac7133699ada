"""The result of a solve: the sequence of states with everything needed to trust them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, Ints, frozen, ints, number, real_array, shown, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.measures import forces, strain, trust, turning
from geosim.measures.gauges import Gauges, Reading
from geosim.measures.provenance import provenance
from geosim.measures.spine import Spine, spine
from geosim.model.actuation import Actuation, CableLengths
from geosim.model.contract import Frame, Report, Robot, State, Status, taken
from geosim.model.display import later
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot

if TYPE_CHECKING:
    import trimesh
    from matplotlib.figure import Figure

__all__ = ["FIELDS", "Report", "Result", "Status", "collect", "told"]


ABSENT_MEASURE = cast(Floats, None)  # a measure that was not given: nan everywhere
HELD_EVERYWHERE = cast(Bools, None)  # the same: held everywhere


# Arrays of a result: name -> (shape after k, meaning); "n" vertices, "c" chambers, "w" cables, "o" obstacles, digits as they are.
FIELDS: dict[str, tuple[str, ...]] = {
    "volume_ratios": ("c",),
    "chamber_volumes": ("c",),
    "chamber_pressures": ("c",),
    "cable_lengths": ("w",),
    "cable_tensions": ("w",),
    "cable_end_tensions": ("w", "2"),
    "tip": ("3",),
    "reactions": ("n", "3"),
    "contact_forces": ("n", "3"),
    "obstacle_forces": ("o", "3"),
    "obstacle_moments": ("o", "3"),
    "obstacle_poses": ("o", "4", "4"),
    "max_penetration": (),
    "contact_count": (),
    "crossings": (),
    "body_volume_ratio": (),
    "inverted_elements": (),
    "stable": (),
    "residual": (),
    "energies": (),
}


@guarded
@dataclass(frozen=True)
class Result:
    """Frames of a solved robot with the evidence to trust them; what does not apply is nan, never absent.

    Parameters
    ----------
    status
        How the solve ended.
    message
        The sentence with its numbers.
    converged
        Whether every command was reached with its forces in balance.
    times
        Load parameter or time [s] of the frames, shape (k,).
    frames
        Positions [m] in the robot's vertex numbering, shape (k, n, 3).
    robot
        The robot as it was given.
    environment
        What surrounded it.
    solver
        What solved it, with its options.
    mid_edge_frames
        Positions of the P2 mid-edge nodes [m], shape (k, e, 3); (k, 0, 3) where elements are straight.
    volume_ratios
        Chamber volumes over the meshed rest volumes, (k, c), whichever was prescribed.
    chamber_volumes
        [m^3], (k, c).
    chamber_pressures
        Gauge pressures [Pa], (k, c).
    cable_lengths
        [m], (k, cables).
    cable_tensions
        At the pulled end [N], (k, cables).
    cable_end_tensions
        At the first and the last point [N], (k, cables, 2); they differ by friction.
    tip
        Area-weighted mean of the tip vertices [m], shape (k, 3).
    reactions
        Forces of the supports on the vertices [N], shape (k, n, 3).
    contact_forces
        Forces of contact on the vertices [N], shape (k, n, 3).
    obstacle_forces
        On every obstacle [N], (k, obstacles, 3).
    obstacle_moments
        On every obstacle about the origin [N m], (k, obstacles, 3).
    obstacle_poses
        Where every obstacle is relative to where it was defined: rotation and translation [m], (k, obstacles, 4, 4).
    obstacle_held
        Whether it is where something holds it, bool (k, obstacles): false of a free object from the frame on in which
        contact lost it. It is left out there, and its pose is the last in which it was held.
    max_penetration
        Deepest penetration [m], (k,).
    contact_count
        Points in contact, (k,).
    crossings
        Edges that pass through faces, (k,).
    inverted_elements
        Elements that are turned inside out, (k,).
    body_volume_ratio
        Body volume over its rest volume, (k,).
    stable
        1 stable, 0 not, nan not examined, (k,).
    residual
        Largest relative force residual over free vertices, (k,).
    energies
        Elastic energy [J], (k,).
    trace
        One record per iteration: frame, residuals, step, seconds per phase.
    extra
        Measures of one solver alone.
    state
        The last state, from which another solve may go on; files keep those of rods, shells and snakes.
    partial
        One frame on the way to the command that was not reached, or None.
    actuation
        What was commanded; None in a result that was put together otherwise.
    provenance
        `version` of geosim, `options` of the solver, `mesh_hash`, `material_source` by region, `continued` (from another
        result), `demo` (the demonstration of the command line that it is).
    """

    status: Status
    message: str
    converged: bool
    times: Floats
    frames: Floats
    robot: Robot
    environment: Environment = field(default_factory=Environment)
    solver: object = None
    mid_edge_frames: Floats = ABSENT_MEASURE
    volume_ratios: Floats = ABSENT_MEASURE
    chamber_volumes: Floats = ABSENT_MEASURE
    chamber_pressures: Floats = ABSENT_MEASURE
    cable_lengths: Floats = ABSENT_MEASURE
    cable_tensions: Floats = ABSENT_MEASURE
    cable_end_tensions: Floats = ABSENT_MEASURE
    tip: Floats = ABSENT_MEASURE
    reactions: Floats = ABSENT_MEASURE
    contact_forces: Floats = ABSENT_MEASURE
    obstacle_forces: Floats = ABSENT_MEASURE
    obstacle_moments: Floats = ABSENT_MEASURE
    obstacle_poses: Floats = ABSENT_MEASURE
    obstacle_held: Bools = HELD_EVERYWHERE
    max_penetration: Floats = ABSENT_MEASURE
    contact_count: Floats = ABSENT_MEASURE
    crossings: Floats = ABSENT_MEASURE
    body_volume_ratio: Floats = ABSENT_MEASURE
    inverted_elements: Floats = ABSENT_MEASURE
    stable: Floats = ABSENT_MEASURE
    residual: Floats = ABSENT_MEASURE
    energies: Floats = ABSENT_MEASURE
    trace: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: State | None = field(default=None, repr=False)
    partial: Result | None = field(default=None, repr=False)
    actuation: Actuation | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("times", frozen(real_array(self.times, "Result: times")))
        put("frames", frozen(real_array(self.frames, "Result: frames")))
        if self.frames.ndim != 3:
            raise InputError(f"Result: frames: shape {self.frames.shape} given, (frames, vertices, 3) [m] needed")
        k, n = self.frames.shape[0], self.frames.shape[1]
        counts = self.robot.chambers, len(self.robot.cables), len(self.environment.obstacles)
        sizes = {"n": n, "2": 2, "3": 3, "4": 4, **dict(zip("cwo", counts))}
        if self.mid_edge_frames is None:
            put("mid_edge_frames", np.empty((k, 0, 3)))
        put("mid_edge_frames", frozen(np.asarray(self.mid_edge_frames, dtype=float)))
        if self.obstacle_poses is None:
            put("obstacle_poses", [self.environment.poses(i) for i in range(k)])
        held = np.ones((k, counts[2])) if self.obstacle_held is None else self.obstacle_held
        held = real_array(held, "Result: obstacle_held").astype(bool)
        if held.size != k * counts[2]:
            raise InputError(f"Result: obstacle_held: shape {held.shape} given, {(k, counts[2])} needed")
        put("obstacle_held", frozen(held.reshape(k, counts[2])))
        for name, axes in FIELDS.items():
            shape = (k, *(sizes[a] for a in axes))
            value = getattr(self, name)
            value = np.full(shape, np.nan) if value is None else real_array(value, f"Result: {name}")
            if value.size != np.prod(shape):
                raise InputError(f"Result: {name}: shape {value.shape} given, {shape} needed")
            put(name, frozen(value.reshape(shape)))

    def nodes(self, i: int = -1) -> Floats:
        """P2 positions of frame i [m]: vertices, then the mid-edge nodes of `robot.p2_edges`, shape (n + e, 3)."""
        i = self.checked_frame(i)
        if self.mid_edge_frames.shape[1]:
            return np.vstack([self.frames[i], self.mid_edge_frames[i]])
        return topology.with_mid_edges(self.frames[i], self.robot.p2_edges)

    def surface(self, i: int = -1, subdivide: int = 2) -> trimesh.Trimesh:
        """Outer skin of frame i in metres; every curved face is split `subdivide` times, 0 = robot vertices only.

        `metadata["face"]` holds the skin face of every triangle, `metadata["vertex"]` the robot vertex of every
        point (-1 for points between).
        """
        import trimesh

        points, triangles, face, vertex = self.curved_surface(self.robot.skin, i, subdivide)
        return trimesh.Trimesh(points, triangles, process=False, metadata={"face": face, "vertex": vertex})

    def curved_surface(self, faces: Ints, i: int = -1, subdivide: int = 2) -> tuple[Floats, Ints, Ints, Ints]:
        """Split faces (f, 3) of frame i: points [m] (p, 3), triangles (t, 3), face (t,), robot vertex or -1 (p,)."""
        faces = ints(faces, "curved_surface: faces", (None, 3), below=len(self.robot.vertices))
        most_splits = 6  # of a face into four: 4096 triangles are finer than any picture
        whole(subdivide, "surface: subdivide", least=0, most=most_splits)
        faces6 = topology.curved_faces(faces, self.robot.p2_edges, len(self.robot.vertices))
        points, triangles, face, weights = topology.interpolate_p2(self.nodes(i), faces6, subdivide)
        shape = weights[:, 1:4]
        corner = np.argmax(shape, axis=1)
        at_corner = np.isclose(shape.max(axis=1), 1.0)
        vertex = np.where(at_corner, faces6[weights[:, 0].astype(int), corner], -1)
        return points, triangles, face, vertex

    # ---- measures; what a robot does not have is nan

    @cached_property
    def spine(self) -> Spine | None:
        """The centre line of the robot at rest, from what is held to the tip; None where it has none."""
        return spine(self.robot)

    @cached_property
    def bend_angle(self) -> Floats:
        """How far the centre line bends [rad], (k,): the norm of integral t x dt along it, less that at rest.

        It goes on beyond pi, leaves twist out, and an S cancels.
        """
        line = self.spine
        found = [np.nan if line is None else np.linalg.norm(turning.bending(line, x)) for x in self.frames]
        return frozen(np.array(found, dtype=float))

    @cached_property
    def twist_angle(self) -> Floats:
        """How far the sections of a solid twist about the centre line [rad], (k,); right-handed from the base to the tip."""
        line = self.spine
        if line is None or line.gradients is None:
            return frozen(np.full(len(self.frames), np.nan))
        return frozen(np.array([turning.twisting(line, x) for x in self.frames], dtype=float))

    @cached_property
    def tip_rotation(self) -> Floats:
        """Rotation vectors [rad] (k, 3) of the rigid motion that fits the tip vertices best, continuous from rest."""
        robot = self.robot
        return frozen(turning.tip_rotations(self.spine, robot.vertices, self.frames, robot.tip, robot.tip_weights))

    @cached_property
    def max_stretch(self) -> Floats:
        """Largest principal stretch of the body, the mean over half the local wall (`measures.gauges`); of rods theirs, (k,)."""
        robot, count = self.robot, len(self.frames)
        if isinstance(robot, VolumetricRobot):
            return frozen(self._largest_readings[:, 0])
        if not len(robot.edges):
            return frozen(np.full(count, np.nan))
        a, b = robot.edges.T
        lengths = np.linalg.norm(self.frames[:, b] - self.frames[:, a], axis=2)
        return frozen((lengths / np.linalg.norm(robot.vertices[b] - robot.vertices[a], axis=1)).max(axis=1))

    @cached_property
    def max_von_mises(self) -> Floats:
        """Largest equivalent stress of the body [Pa], of the mean deformation over half the local wall, (k,)."""
        if not isinstance(self.robot, VolumetricRobot):
            return frozen(np.full(len(self.frames), np.nan))
        return frozen(self._largest_readings[:, 1])

    @cached_property
    def _largest_readings(self) -> Floats:
        """Largest stretch [-] and stress [Pa] of a solid, (k, 2): one after the other in a frame, they share what they read."""
        read = (self.gauges.stretches, self.gauges.stresses)
        largest = [[max(r.value for r in of(self.nodes(i))) for of in read] for i in range(len(self.frames))]
        return np.array(largest, dtype=float).reshape(-1, 2)

    @cached_property
    def gauges(self) -> Gauges:
        """The gauges that read the largest stretch and stress of a solid."""
        return Gauges(taken(self.robot, VolumetricRobot, "gauges"))

    def stretch_readings(self, i: int) -> list[Reading]:
        """Where every material of a solid is stretched most in frame i, counted from 0, and how far."""
        return self.gauges.stretches(self.nodes(i))

    @cached_property
    def stretch_margin(self) -> Floats:
        """The stretch up to which a material is known over that which it has, the least of all materials, (k,); below 1: beyond.

        nan where nothing is known (`material.max_stretch`).
        """
        margins = [min(self._margins(i), default=(np.nan, 0))[0] for i in range(len(self.frames))]
        return frozen(np.array(margins, dtype=float))

    def _margins(self, i: int) -> list[tuple[float, int]]:
        """Margins of the materials that have one in a frame, and their places among the readings."""
        known = trust.known_stretches(self.robot) if isinstance(self.robot, VolumetricRobot) else np.zeros(0)
        if not np.isfinite(known).any():
            return []
        return [(known[k] / r.value, k) for k, r in enumerate(self.stretch_readings(i)) if np.isfinite(known[k])]

    def stretch_place(self, frame: int = -1) -> tuple[Floats, float, float]:
        """Where the margin is least: the place in a frame [m] (3,), the stretch there, and up to which the material is known.

        Where no limit is known the place of the largest stretch, and nan.

        Raises
        ------
        InputError
            The robot is no solid, or there is no such frame.
        """
        robot, frame = taken(self.robot, VolumetricRobot, "stretch_place"), self.checked_frame(frame)
        readings, margins = self.stretch_readings(frame), self._margins(frame)
        k = min(margins)[1] if margins else int(np.argmax([r.value for r in readings]))
        return self.nodes(frame)[readings[k].node], readings[k].value, float(trust.known_stretches(robot)[k])

    def share_beyond(self, limit: float | None = None, frame: int = -1) -> float:
        """Share of the body's volume that is stretched beyond a limit, default up to which each material is known.

        Raises
        ------
        InputError
            The robot is no solid, a limit is below 1, none is known, or there is no such frame.
        """
        robot, frame = taken(self.robot, VolumetricRobot, "share_beyond"), self.checked_frame(frame)
        limits = trust.known_stretches(robot)
        if limit is not None:
            limits = np.full(len(limits), number(limit, "share_beyond: limit", low=1.0))
        elif not np.isfinite(limits).any():
            raise InputError("share_beyond: no material says up to which stretch it is known; give limit=1.5, say")
        return self.gauges.share_beyond(self.nodes(frame), limits)

    @cached_property
    def holding_force(self) -> Floats:
        """Largest force against the prescribed motion of every obstacle over the frames [N], (o,)."""
        return frozen(forces.holding_forces(self.environment, self.obstacle_forces))

    @cached_property
    def grip_force(self) -> Floats:
        """Sum of the normal forces on every obstacle from all sides [N], (k, o): in `obstacle_forces` opposite fingers cancel."""
        pressed = self.extra.get("normal_forces")
        return frozen(np.full(self.obstacle_forces.shape[:2], np.nan) if pressed is None else pressed)

    @cached_property
    def blocked_force(self) -> Floats:
        """Reaction at a tip that is held by `Prescribed` [N], (k, 3)."""
        return frozen(forces.blocked_forces(self.robot, self.environment, self.reactions))

    @cached_property
    def work(self) -> Floats:
        """Work of all actuators and loads since rest [J], (k,): stored in the body and in its contacts, and lost to friction.

        Without friction that is the integral of pressure over volume, of loads over displacement and so on along any
        path. nan where `friction_work` is.
        """
        stored = self.extra.get("contact_energy", np.nan)
        return frozen(self.energies + stored + self.friction_work)

    @cached_property
    def friction_work(self) -> Floats:
        """Work against the friction of obstacles since rest [J], (k,), summed over the increments of the solve.

        The little that sticks elastically is in it. It is nan with friction of cables, of self-contact or of free
        objects, whose slip is not followed, and for solvers other than `EnergyShapeSolver`.
        """
        around = self.environment
        other = around.self_friction > 0.0 or any(o.friction > 0.0 and o.free for o in around.obstacles)
        if other or any(cable.friction > 0.0 for cable in self.robot.cables) or "friction_work" not in self.extra:
            return frozen(np.full(len(self.frames), np.nan))
        return frozen(self.extra["friction_work"])

    def stress(self, frame: int = -1, kind: str = "von-mises") -> Floats:
        """Stress at the vertices of the body [Pa]: "von-mises" (n,) or "cauchy" (n, 3, 3); nan elsewhere.

        Raises
        ------
        InputError
            The kind is unknown, the robot is no solid, or "cauchy" is asked of a solver that has no pressure.
        """
        robot = taken(self.robot, VolumetricRobot, "stress")
        frame = self.checked_frame(frame)
        pressures = self.extra.get("mean_stress")
        isochoric = getattr(self.solver, "isochoric", False)
        given = None if pressures is None else pressures[frame]
        return strain.stresses(robot, self.nodes(frame), kind, given, isochoric)

    def center_line(self, frame: int = -1, points: int = 50) -> Floats:
        """Points [m] (points, 3) of the centre line, at equal distances along it at rest.

        Raises
        ------
        InputError
            The robot has no centre line, or there is no such frame.
        """
        whole(points, "center_line: points", least=2)
        if self.spine is None:
            raise InputError("center_line: there is no way of one direction from what is held to the tip of this robot")
        positions = self.frames[self.checked_frame(frame)]
        return turning.center_line(self.spine, self.robot.vertices, positions, points)

    def tip_stiffness(self, frame: int = -1) -> Floats:
        """Stiffness [N/m] (3, 3) of the tip: the inverse compliance under a force spread over it, commands held.

        Raises
        ------
        InputError
            The frame is no equilibrium of the energy solver, or does not exist.
        """
        stiffness: Floats = later("response.derivatives.equilibrium.tip_stiffness")(self, self.checked_frame(frame))
        return stiffness

    def plot_measure(self, y: str, x: str, path: str | Path) -> Path:
        """Write a plot (PNG, PDF, SVG) of a column of summary.csv against another, a point a frame; the path is returned."""
        return Path(later("show.measures.plot_measure")(self, y, x, path))

    def checked_frame(self, frame: int) -> int:
        """Return a frame's number counted from 0.

        Raises
        ------
        InputError
            There is no such frame.
        """
        count = len(self.frames)
        if not count:
            raise InputError(f"the result has no frame to show: {self.message}")
        if not isinstance(frame, (int, np.integer)) or isinstance(frame, bool) or not -count <= frame < count:
            raise InputError(f"frame {shown(frame)} does not exist; frames run from 0 to {count - 1}")
        return frame % count

    @cached_property
    def _trust(self) -> tuple[str, ...]:
        return (*filter(None, [trust.ending(self)]), *trust.notes(self))

    def trust(self) -> tuple[str, ...]:
        """Return what must be known before the result is believed, a sentence each, the worst first; empty where nothing is.

        The caveats cover the status, inverted elements, stretch beyond the tested range, and error bars of the mesh
        above a tenth. They also name walls one linear tet thick, previews, early contact, unknown stability, snaps, and
        obstacles that touch only fixed vertices.
        """
        return self._trust

    # ---- files and pictures

    def save(self, path: str | Path, units: str | None = None) -> Path:
        """Write the result; the suffix chooses the format and the path is returned.

        .vtu .pvd .xdmf .vtp .npz .glb .usda .usdc always in metres; .stl .obj .ply in `units`, default the robot file's unit;
        .csv the summary table.

        Raises
        ------
        InputError
            The suffix is unknown, or the folder does not exist.
        """
        return Path(later("files.results.save_result")(self, path, units))

    @overload
    def plot(self, path: None = None, frame: int = -1, *, color: str = ..., theme: str = ...) -> Figure: ...

    @overload
    def plot(self, path: str | Path, frame: int = -1, *, color: str = ..., theme: str = ...) -> Path: ...

    def plot(
        self, path: str | Path | None = None, frame: int = -1, *, color: str = "displacement", theme: str = "light"
    ) -> Figure | Path:
        """Write a PNG of a frame over the rest shape and return its path; without a path, return a matplotlib figure.

        `color` is "displacement", "stretch", "stress" or "contact", `theme` "light" or "dark".
        """
        if path is None:
            figure: Figure = later("show.picture.figure")(self, frame, color=color, theme=theme)
            return figure
        return Path(later("show.picture.plot")(self, path, frame, color=color, theme=theme))

    def film(self, path: str | Path, fps: float = 12.0, **options: Any) -> Path:
        """Write a film (.mp4, .gif) from rest through all frames, `fps` pictures a second; options: `geosim.show.film.film`."""
        return Path(later("show.film.film")(self, path, fps, **options))

    def html(self, path: str | Path) -> Path:
        """Write a self-contained interactive page with a frame slider; the path is returned."""
        return Path(later("show.page.html")(self, path))

    def summary(self) -> list[dict[str, float | int | str]]:
        """Return the rows of summary.csv, one a frame."""
        rows: list[dict[str, float | int | str]] = later("show.summary.summary_rows")(self)
        return rows

    def _repr_html_(self) -> str:
        return str(later("show.notebook.result_html")(self))

    def __repr__(self) -> str:
        return (
            f"Result({self.status.name}, {len(self.frames)} frames, {self.frames.shape[1]} vertices, "
            f"residual {np.nanmax(self.residual, initial=-np.inf):.1e})"
            if len(self.frames)
            else f"Result({self.status.name}, no frame)"
        )


def _said_of_crossings(crossings: Floats, inverted: Floats | None, environment: Environment) -> str:
    """Return what is said of the frame with the most crossings, and of their likely cause."""
    most = int(np.nanargmax(crossings))
    message = f"{Status.CROSSED.value} Frame {most} has {crossings[most]:.0f} crossing pairs of edges and faces."
    if not environment.self_contact:
        return f"{message} The environment has self_contact = False, so parts that meet pass through each other."
    if inverted is not None and inverted[most] > 0:
        return (
            f"{message} {inverted[most]:.0f} elements are turned inside out in it, which folds the surface: "
            "round the inner edges or take a smaller max_edge."
        )
    return message


def collect(
    robot: Robot,
    environment: Environment,
    solver: object,
    states: Sequence[State],
    reports: Sequence[Report],
    actuation: Actuation | None = None,
    *,
    continued: bool = False,
    judged: bool = True,
) -> Result:
    """Make a `Result` of the states to show and the reports of all commands, the last of which may not be reached.

    `continued` says that the first state was that of another result; `judged` whether the message ends with what must be known
    before it is believed (see `told`).

    The status is the last one other than CONVERGED. Without one, a frame with crossings, inverted integration points or
    an unstable shape makes it CROSSED, INVERTED or UNSTABLE. A result has converged if every command was reached, and
    nothing crosses that was asked not to.
    """
    frames = [state.frame for state in states]
    k, n = len(frames), len(robot.vertices)
    nodes = np.array([f.nodes for f in frames]) if k else np.empty((0, n, 3))
    measures = {name: _stacked(name, frames) for name in (FIELDS.keys() | {"obstacle_held"}) - {"tip"}}
    status, message, converged = _verdict(frames, reports, measures, environment)
    worst = _worst(reports)
    remarks = [frames[-1].note, _slack(actuation, [f.time for f in frames], measures["cable_lengths"])] if k else []
    partial = None
    if worst.partial is not None:
        last = [worst.partial], [Report(worst.status, worst.message)]
        partial = collect(robot, environment, solver, *last, actuation, continued=continued)
    result = Result(
        status,
        " ".join([message, *filter(None, remarks)]),
        converged,
        np.array([i + 1.0 if f.time is None else f.time for i, f in enumerate(frames)]),
        nodes[:, :n],
        robot=robot,
        environment=environment,
        solver=solver,
        mid_edge_frames=nodes[:, n:],
        tip=np.einsum("t,ktd->kd", robot.tip_weights, nodes[:, robot.tip]),
        trace=tuple({"frame": i, **record} for i, report in enumerate(reports) for record in report.records),
        extra={key: np.array([f.extra[key] for f in frames], dtype=float) for key in (frames[0].extra if k else ())},
        state=states[-1] if k else None,
        partial=partial,
        actuation=actuation,
        provenance=provenance(robot, solver, continued),
        **measures,
    )
    return told(result) if judged else result


def _stacked(name: str, frames: Sequence[Frame]) -> Any:
    """Return a measure of all frames, None where a frame does not have it."""
    values = [getattr(f, name) for f in frames]
    kind = bool if name == "obstacle_held" else float
    return None if any(v is None for v in values) else np.array(values, dtype=kind)


def _worst(reports: Sequence[Report]) -> Report:
    """Return the last report of another status than CONVERGED, or one that converged."""
    return next((r for r in reversed(reports) if r.status is not Status.CONVERGED), Report(Status.CONVERGED))


def _verdict(
    frames: Sequence[Frame], reports: Sequence[Report], measures: Mapping[str, Any], environment: Environment
) -> tuple[Status, str, bool]:
    """Return the status of a result, its sentence, and whether the result has converged (see `collect`)."""
    worst, missed = _worst(reports), [r for r in reports if not r.reached]
    status, message = worst.status, worst.message or worst.status.value
    crossings = measures["crossings"]
    crossed = bool(frames) and np.nanmax(crossings, initial=0.0) > 0
    inverted = np.nan_to_num([f.extra.get("inverted_points", np.nan) for f in frames]).max(initial=0.0) > 0
    unstable = np.flatnonzero([f.stable == 0 for f in frames])
    if crossed and status in (Status.CONVERGED, Status.CROSSED):
        status, message = Status.CROSSED, _said_of_crossings(crossings, measures["inverted_elements"], environment)
    elif inverted and status in (Status.CONVERGED, Status.UNSTABLE):
        status, message = Status.INVERTED, f"Every command was reached, but: {Status.INVERTED.value}"
    elif len(unstable) and status in (Status.CONVERGED, Status.UNSTABLE):
        message = message if status is Status.UNSTABLE else Status.UNSTABLE.value
        status, message = Status.UNSTABLE, f"{message} Frame {unstable[0]} is the first of {len(unstable)}."
    elif missed and missed[-1].goes_on:
        message = f"{len(missed)} of {len(reports)} frames did not reach the tolerance. The last: {missed[-1].message}"
    return status, message, not missed and status in _accepted(environment, crossed)


def _accepted(environment: Environment, crossed: bool) -> set[Status]:
    """Return the statuses of results that have converged where every command was reached."""
    accepted = {Status.CONVERGED, Status.UNSTABLE, Status.INVERTED, Status.ENERGY_GROWTH}
    # an obstacle that went through is never accepted
    if not environment.self_contact and (crossed or not environment.obstacles):
        accepted.add(Status.CROSSED)
    return accepted


def told(result: Result) -> Result:
    """Return a result whose message ends with what must be known before it is believed (`measures.trust`)."""
    missing = [sentence for sentence in trust.notes(result) if sentence not in result.message]
    return replace(result, message=" ".join([result.message, *missing])) if missing else result


def _slack(actuation: Actuation | None, times: Sequence[float | None], lengths: Floats | None) -> str:
    """Say which cables are longer by command than the robot lets them be (k, w); empty where none is.

    Frames of a motion count at the times of a command alone; frames without a time are one a command.
    """
    commanded = next((p for p in actuation.parts if isinstance(p, CableLengths)), None) if actuation else None
    if commanded is None or lengths is None or not lengths.size:
        return ""
    assert actuation is not None
    rows = {float(f"{time:.9g}"): row for row, time in enumerate(actuation.times)}
    # Share of its length by which a cable must be longer than its way to be slack: above rounding and tolerance.
    cable_slack_rel = 1e-6
    for frame, time in enumerate(times):
        row = frame if time is None else rows.get(float(f"{time:.9g}"))
        if row is None:
            continue
        asked = commanded.at(row, lengths.shape[1])
        slack = np.flatnonzero(asked > lengths[frame] * (1.0 + cable_slack_rel))
        if len(slack):
            cable = slack[0]
            return (
                f"Cable {cable + 1} hangs slack at command {row + 1}: {1e3 * asked[cable]:.4g} mm are given, "
                f"its way through the robot is {1e3 * lengths[frame, cable]:.4g} mm."
            )
    return ""
