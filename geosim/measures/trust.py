"""Checks of a result: one sentence for each doubt about it, the worst first.

Everything that shows a result (its message, the command line, picture, page, summary) quotes `sentences`; nothing else decides
them. They come from what the result holds, so that one read from a file says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from geosim.arrays import Floats
from geosim.collision.shapes import signed_distances
from geosim.geometry import topology
from geosim.geometry.quality import one_tet_thick
from geosim.material.curves import disagreement
from geosim.material.materials import Hyperelastic
from geosim.measures import strain
from geosim.measures.forces import prescribed_vertices
from geosim.measures.gauges import Gauges, Reading
from geosim.model.actuation import Actuation, CableLengths, CableTensions, Inflation
from geosim.model.contract import Robot, Status
from geosim.model.environment import Environment
from geosim.model.materials import known_preset
from geosim.model.robot import VolumetricRobot

BEYOND_KNOWN = "to which the material is known"  # of the sentence about stretch, by which pictures ring its place
# Of what is compared (the change since rest, the gap at rest, the energy given): an error from which on it is said.
DOUBTFUL_REL = 0.1
# Error bars in `Result.extra`: name -> what it is called, unit, and its size in that unit.
ERROR_BAR_UNITS = {
    "tip": ("tip", "mm", 1e3),
    "bend_angle": ("bend angle", "degrees", np.degrees(1.0)),
    "pressure": ("pressure", "kPa", 1e-3),
}


class CheckedResult(Protocol):
    """What the checks read of a `geosim.Result`, under its names."""

    @property
    def status(self) -> Status:
        """How the solve ended."""

    @property
    def converged(self) -> bool:
        """Whether every command was reached with its forces in balance."""

    @property
    def frames(self) -> Floats:
        """Positions [m], shape (k, n, 3)."""

    @property
    def robot(self) -> Robot:
        """The robot as it was given."""

    @property
    def environment(self) -> Environment:
        """What surrounded it."""

    @property
    def solver(self) -> object:
        """What solved it, with its options."""

    @property
    def actuation(self) -> Actuation | None:
        """What was commanded, if it is known."""

    @property
    def partial(self) -> CheckedResult | None:
        """The frame on the way to the command that was not reached, or None."""

    @property
    def trace(self) -> Sequence[Mapping[str, Any]]:
        """One record an iteration."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Measures of one solver alone."""

    @property
    def stable(self) -> Floats:
        """1 stable, 0 not, nan not examined, (k,)."""

    @property
    def crossings(self) -> Floats:
        """Edges that pass through faces, (k,)."""

    @property
    def inverted_elements(self) -> Floats:
        """Elements that are turned inside out, (k,)."""

    @property
    def chamber_pressures(self) -> Floats:
        """Gauge pressures [Pa], (k, c)."""

    @property
    def tip(self) -> Floats:
        """Mean of the tip vertices [m], (k, 3)."""

    @property
    def bend_angle(self) -> Floats:
        """[rad], (k,)."""

    @property
    def obstacle_forces(self) -> Floats:
        """On every obstacle [N], (k, obstacles, 3)."""

    @property
    def obstacle_poses(self) -> Floats:
        """Where every obstacle is, (k, obstacles, 4, 4)."""

    @property
    def gauges(self) -> Gauges:
        """The gauges that read stretch and stress of a solid."""

    def nodes(self, i: int = -1) -> Floats:
        """Return the positions of vertices and mid-edge nodes in a frame [m]."""

    def stretch_readings(self, i: int) -> list[Reading]:
        """Return the largest stretch of every material in a frame."""

    def share_beyond(self, limit: float | None = None, frame: int = -1) -> float:
        """Return which share of the body is stretched beyond a limit."""


def ending(result: CheckedResult) -> str:
    """Return what the status means for the frames; empty where every command was reached and nothing is wrong with the status."""
    status, count = result.status, len(result.frames)
    if status is Status.CROSSED:
        most = int(np.nanmax(result.crossings, initial=0.0)) if count else 0
        return (
            f"{status.name}: surfaces pass through each other ({most} pairs): the shape is none that a robot can take."
        )
    if status is Status.UNSTABLE:
        first = np.flatnonzero(result.stable == 0)
        where = f"frame {first[0]}" if len(first) else "a frame"
        return f"{status.name}: {where} is an equilibrium that a robot would leave: a buckled shape is near."
    if status is Status.ENERGY_GROWTH:
        return f"{status.name}: the time integration created energy: the motion depends on the time step."
    if not result.converged and status is not Status.INVERTED:
        return f"{status.name}: not every command was reached; {count} frames are kept, the shapes before it."
    return ""


def notes(result: CheckedResult) -> tuple[str, ...]:
    """Return all that is to be said besides the status, the worst first."""
    checks = (
        _inverted, _held, _stretched, _mesh_errors, _thin_walls, _preview, _gaps, _stability, _snapped, _in_held, _energy,
        _empty, _commands, _faint,
    )  # fmt: skip
    return tuple(chain.from_iterable(check(result) for check in checks))


def headline(status: Status, doubts: Sequence[str]) -> str:
    """Return the name of a status and, of one that converged, the number of doubts: CONVERGED, 2 doubts."""
    if status is not Status.CONVERGED or not doubts:
        return status.name
    return f"{status.name}, {len(doubts)} {'doubt' if len(doubts) == 1 else 'doubts'}"


def without(message: str, said: Sequence[str]) -> str:
    """Return a message without sentences that are shown beside it."""
    for sentence in said:
        message = message.replace(sentence, "")
    return " ".join(message.split())


def _solid(result: CheckedResult) -> VolumetricRobot | None:
    return result.robot if isinstance(result.robot, VolumetricRobot) else None


def _place(point: Floats) -> str:
    """A point [m] in mm."""
    return "({:.3g}, {:.3g}, {:.3g}) mm".format(*(1e3 * point))


def _inverted(result: CheckedResult) -> Iterator[str]:
    """Elements that are inside out: how many, where, and whether the solver's own equations are."""
    robot = _solid(result)
    if robot is None or not len(result.frames):
        return
    own = np.nan_to_num(np.asarray(result.extra.get("inverted_points", np.zeros(len(result.frames)))))
    for count, integrated in ((own, True), (np.where(own > 0, 0.0, np.nan_to_num(result.inverted_elements)), False)):
        if not count.max() > 0:
            continue
        frame = int(np.argmax(count))
        worst = int(np.argmin(strain.jacobians(robot, result.nodes(frame))))
        where = _place(robot.vertices[robot.body_tets[worst]].mean(axis=0))
        many = f"{count[frame]:.0f} of {len(robot.body_tets)} elements"
        if integrated:
            yield (
                f"In frame {frame} {many} are inside out at integration points, the worst at {where} at rest. The shape there "
                "is impossible, and every measure is affected: round inner edges or take a smaller max_edge."
            )
        else:
            yield (
                f"In frame {frame} {many} are inside out at a corner or an edge, but not at integration points, the worst "
                f"at {where} at rest. Stretch and stress around them are meaningless; tip, volumes and pressures may be right. "
                "Round inner edges or take a smaller max_edge."
            )
        return


def _held(result: CheckedResult) -> Iterator[str]:
    """A body that no command can move."""
    robot = _solid(result)
    if robot is not None and np.isin(np.flatnonzero(robot.body_vertices), robot.fixed).all():
        yield "Every vertex of the body is held, so every frame is the rest shape: check `fixed` and its unit."


def _stretched(result: CheckedResult) -> Iterator[str]:
    """Materials that are stretched beyond what their constants were fitted to, in any frame."""
    robot = _solid(result)
    if robot is None or not len(result.frames):
        return
    limits = known_stretches(robot)
    if not np.isfinite(limits).any():
        return
    rest = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    far = [i for i in range(len(result.frames)) if result.gauges.may_exceed(result.nodes(i), limits)]
    readings = {i: result.stretch_readings(i) for i in far}
    for k, limit in enumerate(limits):
        worst = max(far, key=lambda i: readings[i][k].value, default=None)
        if worst is None or not readings[worst][k].value > limit:
            continue
        found = readings[worst][k]
        yield (
            f"The largest stretch, {found.value:.3g}, is beyond {limit:.3g}, {BEYOND_KNOWN}: frame {worst}, at "
            f"{_place(rest[found.node])} at rest; {100.0 * result.share_beyond(frame=worst):.2g} % of the body is"
            f"{_parting(list(robot.materials.values())[k], found.value)}."
        )


def _parting(material: Any, stretch: float) -> str:
    """Say how far the laws that fit the tests of a material differ at a stretch; "" where others are not known."""
    known = material if material.alternatives else known_preset(material)
    if not (isinstance(known, Hyperelastic) and known.alternatives):
        return ""
    pull, both = (100.0 * disagreement(known, mode, stretch) for mode in ("uniaxial", "equibiaxial"))
    return f", where laws that fit the tests differ by {pull:.0f} % of the stress in a pull, {both:.0f} % both ways"


def known_stretches(robot: VolumetricRobot) -> Floats:
    """Return up to which stretch the material of every body region is known, (regions,); nan where that is not said."""
    return np.array([_max_stretch(material) for material in robot.materials.values()], dtype=float)


def _max_stretch(material: Any) -> float:
    """Return up to which stretch a material is known, or a preset with the same constants; nan where none is."""
    return float(material.max_stretch if np.isfinite(material.max_stretch) else known_preset(material).max_stretch)


def _mesh_errors(result: CheckedResult) -> Iterator[str]:
    """Error bars of the mesh, where they were asked for, that are large against the change since rest."""
    robot = result.robot
    for name, (called, unit, size) in ERROR_BAR_UNITS.items():
        bars = result.extra.get(f"{name}_error_mesh")
        if bars is None or not np.isfinite(bars).any():
            continue
        if name == "tip":
            change = np.linalg.norm(result.tip - robot.tip_weights @ robot.vertices[robot.tip], axis=1)
        else:
            change = np.abs(result.bend_angle) if name == "bend_angle" else np.abs(result.chamber_pressures).max(axis=1)
        shares = np.divide(bars, change, out=np.zeros(len(change)), where=change > 0.0)
        frame = int(np.nanargmax(np.where(np.isfinite(shares), shares, -1.0)))
        if shares[frame] > DOUBTFUL_REL:
            yield (
                f"The mesh may be off by {size * bars[frame]:.3g} {unit} in the {called} of frame {frame}, "
                f"{100.0 * shares[frame]:.0f} % of its change since rest. Take a smaller max_edge, or ask for an accuracy."
            )


def _thin_walls(result: CheckedResult) -> Iterator[str]:
    """Where linear elements have one tet for a wall."""
    robot = _solid(result)
    if robot is None or getattr(result.solver, "element", "p2") != "p1":
        return
    surfaces = [robot.skin, *(wall[:, ::-1] for wall in robot.chamber_walls)]  # turned: they look out of the body
    share, place = one_tet_thick(robot.vertices, robot.body_tets, np.vstack(surfaces))
    # Share of the walls' area that is one tet thick from which a P1 robot is said to be too stiff in bending: in less,
    # it is corners.
    max_thin_wall_share = 0.05
    if share > max_thin_wall_share:
        yield (
            f"Walls are one tet thick in {100.0 * share:.0f} % of their area, for example at {_place(place)}. P1 elements "
            "there bend only a third to two thirds as far as P2: take element='p2' or a smaller max_edge."
        )


def _preview(result: CheckedResult) -> Iterator[str]:
    """What was made to be fast."""
    if getattr(result.robot, "preview", False):
        yield "The mesh is a preview, the coarsest that keeps the geometry: a first look, some percent off."
    if hasattr(result.solver, "body_targets"):
        own = np.any(result.extra.get("own_pressures", 0.0))
        off = "of its own stiff elements, 25 to 90 % too high," if own else "25 % and more"
        yield f"The projective solver is a preview: shapes are some percent off, pressures {off} where one tet fills a wall."


def _gaps(result: CheckedResult) -> Iterator[str]:
    """Contact that begins at a good part of the gap at rest."""
    shares = np.asarray(result.extra.get("contact_of_gap", np.nan), dtype=float)
    if np.nanmax(shares, initial=0.0) > DOUBTFUL_REL:
        frame = int(np.nanargmax(shares))
        yield (
            f"In frame {frame} self-contact begins at {100.0 * shares[frame]:.0f} % of the gap at rest, too early, since its "
            "thickness scales with the edges. Take a smaller max_edge or contact_thickness."
        )


def _stability(result: CheckedResult) -> Iterator[str]:
    """Frames whose stability was asked for and is not known."""
    if not getattr(result.solver, "check_stability", False):
        return
    stable = result.stable
    if not len(result.frames) and result.partial is not None:
        stable = result.partial.stable
    missing = np.flatnonzero(np.isnan(stable))
    if len(missing):
        which = f"frame {missing[0]}" if len(missing) == 1 else f"{len(missing)} frames, the first is {missing[0]}"
        yield (
            f"Stability is not known in {which} (too many unknowns for factors, a factoriser without inertia, or forces "
            "without a potential: cables with friction, pressed faces with a loose rim). Buckling is not detected, and limits "
            "are judged without it."
        )


def _inflations(result: CheckedResult) -> list[Inflation]:
    return [part for part in getattr(result.actuation, "parts", ()) if isinstance(part, Inflation)]


def _empty(result: CheckedResult) -> Iterator[str]:
    """Commands of nan alone, which drive nothing."""
    for part in getattr(result.actuation, "parts", ()):
        if isinstance(part, CableLengths | CableTensions) and np.isnan(getattr(part, part.rows)).all():
            yield f"{type(part).__name__} holds nan alone, so every cable hangs slack, as with Passive()."
    for part in _inflations(result):
        if np.isnan([part.volume_ratio, part.pressure]).all() and not np.any(part.gas):
            yield "Inflation holds nan alone, so every chamber is vented: its gauge pressure is 0, as with Passive()."


def _commands(result: CheckedResult) -> Iterator[str]:
    """Commands that may mean something else: percent, and a list of one value for each of several chambers."""
    chambers = getattr(result.robot, "chambers", 0)
    percent_ratio = 50.0  # V/V0 from which on percent are meant: a ball of that volume is stretched 3.7 times
    for part in _inflations(result):
        most = float(np.nanmax(part.volume_ratio, initial=0.0))
        if most > percent_ratio:
            yield f"volume_ratio = {most:g} is V/V0: {most:g} % of the volume at rest is volume_ratio = {most / 100:g}."
        for name, neutral in (("pressure", 0.0), ("volume_ratio", 1.0)):
            table = getattr(part, name)
            if chambers < 2 or table.shape != (chambers, 1) or not np.isfinite(table).all():
                continue
            if (table > neutral).any() and (table < neutral).any():  # a path of one chamber goes one way
                listed = ", ".join(f"{v:g}" for v in table[:, 0])
                yield (
                    f"Inflation({name}=[{listed}]) is {chambers} commands for all {chambers} chambers alike; one command with a "
                    f"value for each chamber is {name}=[[{listed}]]."
                )


def _faint(result: CheckedResult) -> Iterator[str]:
    """Pressures beside which the material is stiff, and under which nothing moves: they may be in bar or kPa."""
    faint_rel = 1e-3  # of the shear modulus, and of the robot's size: robots in use move by a hundred times as much
    robot = _solid(result)
    given = [part.pressure for part in _inflations(result)]
    if robot is None or not len(result.frames) or not given:
        return
    most = max(float(np.nanmax(np.abs(table), initial=0.0)) for table in given)
    stiff = max(material.shear_modulus for material in robot.materials.values())
    if not 0.0 < most < faint_rel * stiff:
        return
    moved = float(np.linalg.norm(result.frames - robot.vertices, axis=2).max())
    if moved < faint_rel * robot.size:
        yield (
            f"Pressures of at most {most:.3g} Pa move nothing by more than {1e3 * moved:.2g} mm. Pressures are in Pa: 20 kPa "
            "or 0.2 bar is 20e3."
        )


def _snapped(result: CheckedResult) -> Iterator[str]:
    """Where the path was left for another state, for the first time; from the trace."""
    left = [record for record in result.trace if "left" in record]
    if not left:
        yield from _indefinite(result)
        return
    far = next((record for record in left if record["left"]["far"]), None)
    first, count = far or left[0], sum(record["left"]["times"] for record in left)
    at = f"in command {int(first['command']) + 1}, {100.0 * first['left']['share']:.3g} % of the way there{first['left']['load']}"
    often = f" (and {count - 1} times more)" if count > 1 else ""
    if first["left"]["far"]:
        yield (
            f"The body snapped to another state {at}{often}. The branch from rest ends before it. Another shape may exist "
            "beyond."
        )
    else:
        yield (
            f"The path lost its balance {at}{often} and snapped to the next stable state. Another shape may exist beyond: "
            "try smaller commands or an `imperfection`."
        )


def _indefinite(result: CheckedResult) -> Iterator[str]:
    """Where the path met an indefinite tangent, for the first time."""
    met = next((record for record in result.trace if "indefinite" in record), None)
    if met is not None:
        yield (
            f"The path met an indefinite tangent in command {int(met['command']) + 1}, {100.0 * met['share']:.3g} % of the way "
            f"there{met['indefinite']}: it may have passed a branch, and another shape may exist."
        )


def _in_held(result: CheckedResult) -> Iterator[str]:
    """Obstacles that touch nothing but what is held."""
    robot, around = _solid(result), result.environment
    if robot is None or not len(result.frames) or not around.obstacles:
        return
    held = prescribed_vertices(robot, around)
    held[robot.fixed] = True
    faces = topology.curved_faces(robot.skin[held[robot.skin].all(axis=1)], robot.p2_edges, len(robot.vertices))
    forces = np.linalg.norm(result.obstacle_forces, axis=2)
    held_face_splits = 2  # times that held faces are split where an obstacle may touch them
    for o, obstacle in enumerate(around.obstacles):
        if obstacle.free or not len(faces) or not np.isfinite(forces[:, o]).all() or forces[:, o].any():
            continue
        for frame, pose in enumerate(result.obstacle_poses[:, o]):
            points = topology.interpolate_p2(result.nodes(frame), faces, held_face_splits)[0]
            depth = -signed_distances(obstacle.solid, points, pose, 0.1 * robot.size)[0].min()
            if depth > 0.0:
                yield (
                    f"Obstacle {o + 1} ({obstacle.shape}) goes {1e3 * depth:.3g} mm into faces that are held, which feel "
                    f"nothing (frame {frame}), and touches nothing else: it does nothing."
                )
                break


def _energy(result: CheckedResult) -> Iterator[str]:
    """What the rule of time stepping lost of the energy given, and what contact held at the start."""
    given = result.extra.get("given_energy")
    if given is None or not len(given) or not given[-1] > 0.0 or result.status is Status.ENERGY_GROWTH:
        return
    drift = result.extra["drift"]
    if abs(drift[-1]) > DOUBTFUL_REL * given[-1]:
        yield (
            f"The time integration {'lost' if drift[-1] < 0.0 else 'created'} {abs(drift[-1]):.3g} J, "
            f"{100.0 * abs(drift[-1]) / given[-1]:.0f} % of the energy given. The motion depends on the time step: compare "
            "it with the motion at dt / 4, or with dt='auto'."
        )
    doubtful_contact_energy_rel = 0.01  # of the energy given, stored in contact where nothing has moved yet
    stored = float(result.extra["contact_energy"][0])
    released_share = 0.5  # of it, that motion takes: what rests at its equilibrium gap keeps it
    released = stored - float(result.extra["contact_energy"].min())
    if stored > doubtful_contact_energy_rel * given[-1] and released > released_share * stored:
        yield (
            f"Contact at the start stores {stored:.3g} J, {100.0 * stored / given[-1]:.2g} % of the energy given, and pushes "
            "the parts apart. Start them a tenth of the thinnest radius apart, or from a static equilibrium."
        )
