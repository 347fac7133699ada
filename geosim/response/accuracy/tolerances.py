"""Error of a measure due to tolerances of the robot as built: its surfaces, gauges, clamps and markers.

Every tolerance is the half-width of a 95 % interval. To first order, with g the derivative of a measure m:

    geometry  t sqrt(sum_s (dm/dn_s)^2)   every surface s, the skin and the walls of each chamber, lies t along its normals away
                                          from where it was drawn, all of it alike, surfaces independently (parts of a mould)
    gauge     |sum_c dm/dp_c| t           one gauge reads all prescribed pressures wrongly; pressures that follow are read by it
    clamp     |dm/dx . (e x (x - x0))| t  the support turns by t about each axis through the middle of what is fixed
    marker    t                           the marker sits t away from where the tip is
    model     t |m - m at rest|           what the model leaves out: rate, softening of first cycles, symmetry

dm/dn_s is the sensitivity to rest positions along one motion. What is fixed does not move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from geosim.arrays import Floats, Ints, number
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.geometry.harmonic import harmonic
from geosim.model.robot import VolumetricRobot
from geosim.model.tolerances import Tolerances
from geosim.response.accuracy.faceting import COPLANAR_ANGLE_RAD, MAX_NORMAL_ANISOTROPY
from geosim.response.derivatives.parameters import Differences, columns
from geosim.response.derivatives.quantities import Measure
from geosim.result import Result


def as_tolerances(given: Any) -> Tolerances:
    """Return tolerances; a number is that of the walls [m].

    Raises
    ------
    InputError
        It is neither, or a negative number.
    """
    if isinstance(given, Tolerances):
        return given
    return Tolerances(wall=number(given, "error_bars: tolerance [m]", low=0.0))


def terms_of(given: Tolerances, slopes: Mapping[str, Callable[[], Floats]]) -> dict[str, Floats]:
    """Return the half-width of every term that was asked for, from what a measure changes by per unit of it."""
    sizes = {
        "geometry": given.wall,
        "gauge": given.gauge,
        "clamp": given.clamp,
        "marker": given.marker,
        "model": given.model,
    }
    return {name: np.asarray(size * slopes[name]()) for name, size in sizes.items() if size}


def tolerance_terms(
    result: Result, made: Differences, of: str | Measure, given: Tolerances
) -> tuple[dict[str, Floats], str]:
    """Return the half-width of every term that was asked for, of the measure's shape, and why one is not known."""
    robot, frame, shape, notes = made.tangent.problem.robot, made.frame, made.quantity.shape, list[str]()

    def by_walls() -> Floats:
        try:
            return _by_walls(made)
        except InputError as error:
            notes.append(f"what the tolerance of the walls costs is not known: {error}")
            return np.full(shape, np.nan)

    slopes = {
        "geometry": by_walls,
        "gauge": lambda: _by_gauge(made, of),
        "clamp": lambda: _by_clamp(robot, result.frames[frame], of, shape),
        "marker": lambda: np.full(shape, float(of == "tip")),
        "model": lambda: _change(robot, result, of, frame),
    }
    return terms_of(given, slopes), "; ".join(notes)


def offsets(robot: VolumetricRobot) -> list[Floats]:
    """Return motions (n, 3) that move one surface each by a unit along its outward normals: the skin, then chamber walls.

    A vertex of an edge moves along both faces' normals; faces whose vertices are all fixed stay, and so do the other surfaces.
    The vertices between follow harmonically.
    """
    surfaces = [robot.skin, *robot.chamber_walls]
    hull = np.unique(np.concatenate([topology.boundary_faces(t).ravel() for t in (robot.tets, robot.body_tets)]))
    fixed = np.zeros(len(robot.vertices), dtype=bool)
    fixed[robot.fixed] = True
    found = []
    for faces in surfaces:
        moved = _offset(robot.vertices, faces[~fixed[faces].all(axis=1)])
        found.append(harmonic(robot.tets, moved, hull))
    return found


def _offset(vertices: Floats, faces: Ints) -> Floats:
    """Return the motion of vertices (n, 3) that moves faces by 1 along their normals, in the sense of least squares."""
    out = np.zeros_like(vertices)
    across = topology.face_normals(vertices, faces)
    size = np.linalg.norm(across, axis=1)
    unit = across / size[:, None]
    order = np.argsort(faces.ravel(), kind="stable")
    used, starts = np.unique(faces.ravel()[order], return_index=True)
    for vertex, rows in zip(used, np.split(order // 3, starts[1:])):
        kinds: list[Floats] = []
        for n in unit[rows]:  # one normal for every direction: many small faces of a plane count once
            if all(np.arccos(np.clip(n @ k, -1.0, 1.0)) > COPLANAR_ANGLE_RAD for k in kinds):
                kinds.append(n)
        out[vertex] = np.linalg.lstsq(np.array(kinds), np.ones(len(kinds)), rcond=MAX_NORMAL_ANISOTROPY)[0]
    return out


def _by_walls(made: Differences) -> Floats:
    """Return what a measure changes by per metre of offset, surfaces independently."""
    tangent = made.tangent
    if tangent.problem.cables is not None or tangent.state.target.closed:
        raise InputError("the robot has cables or closed gas; solve two robots and take the difference")
    slopes = made.by_all([made.along(motion) for motion in offsets(tangent.problem.robot) if motion.any()])
    return np.asarray(np.sqrt((slopes**2).sum(axis=-1)))


def _by_gauge(made: Differences, of: str | Measure) -> Floats:
    """Return what a measure is off per pascal that the gauge reads wrongly."""
    if of == "chamber_pressures":
        return np.ones(made.quantity.shape)
    chambers = made.tangent.problem.chambers
    if chambers == 0 or made.tangent.state.target.by_value[:chambers].all():
        return np.zeros(made.quantity.shape)
    return np.asarray(np.abs(np.nansum(made.jacobian(columns(made, "pressure")), axis=-1)))


def _by_clamp(robot: VolumetricRobot, positions: Floats, of: str | Measure, shape: tuple[int, ...]) -> Floats:
    """Return what a measure of positions changes by per radian that the support turns, about three axes independently."""
    around = positions - robot.vertices[robot.fixed].mean(axis=0) if len(robot.fixed) else positions
    turns = np.cross(np.eye(3)[:, None], around)
    if callable(of):
        slope = np.asarray(of(positions)[1])
        moved = np.einsum("...ni,ani->...a", slope, turns)
    elif of == "tip":
        moved = np.einsum("v,avi->ia", robot.tip_weights, turns[:, robot.tip])
    else:
        return np.zeros(shape)
    return np.asarray(np.sqrt((moved**2).sum(axis=-1)))


def _change(robot: VolumetricRobot, result: Result, of: str | Measure, frame: int) -> Floats:
    """Return by how much a measure has changed since rest."""
    if callable(of):
        return cast(Floats, np.abs(np.asarray(of(result.frames[frame])[0]) - np.asarray(of(robot.vertices)[0])))
    rest: dict[str, Callable[[], Any]] = {
        "tip": lambda: result.tip[frame] - robot.tip_weights @ robot.vertices[robot.tip],
        "bend_angle": lambda: result.bend_angle[frame],
        "chamber_pressures": lambda: result.chamber_pressures[frame],
        "chamber_volumes": lambda: result.chamber_volumes[frame] - robot.chamber_volumes,
        "obstacle_forces": lambda: result.obstacle_forces[frame],
        "blocked_force": lambda: result.blocked_force[frame],
        "max_stretch": lambda: result.max_stretch[frame] - 1.0,
        "max_von_mises": lambda: result.max_von_mises[frame],
    }
    if of not in rest:
        raise InputError(f"error_bars: tolerance: model is not known of {of!r}, whose value at rest is not; leave it 0")
    return cast(Floats, np.abs(np.asarray(rest[of]())))
