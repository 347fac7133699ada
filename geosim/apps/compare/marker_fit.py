"""A result against markers: with known places, with unordered markers, or with places that must be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from geosim.apps.compare.comparison import (
    FOREIGN_DISTANCE_REL,
    Comparison,
    compared,
    fixed_vertices,
    load_surface,
    robot_size,
)
from geosim.apps.compare.markers import MAX_COORDINATE_M, Chosen, Markers, read_markers
from geosim.apps.compare.mistakes import (
    EQUAL_VARIANCE_RATIO,
    EXPLAINED_REMAINDER,
    check_scale,
    doubtful_markers,
    loosened,
)
from geosim.apps.compare.registration import apply, find_pose, icp, kabsch, rigid
from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, Ints, floats, ints, real_array, whole
from geosim.errors import InputError
from geosim.result import Result
from geosim.tables import unit_scale

Given = str | Path | Markers | ArrayLike
Vertices = Mapping[str, int] | ArrayLike
Names = NDArray[np.str_]


def _load(markers: Given, units: str | None) -> Markers:
    if isinstance(markers, (str, Path)):
        return read_markers(markers, units)
    if isinstance(markers, Markers):
        return markers
    return Markers(real_array(markers, "markers") * (1.0 if units is None else unit_scale(units, "markers")))


def _at(markers: Markers, index: int, average: int) -> Floats:
    """Mean positions of `average` frames that end (index < 0) or begin at a frame; nan where never seen."""
    count = len(markers.positions)
    if not -count <= index < count:
        raise InputError(f"{markers.source}: marker frame {index} does not exist; there are {count}")
    index %= count
    before = slice(max(index - average + 1, 0), index + 1)
    window = markers.positions[before if index >= count // 2 else slice(index, index + average)]
    seen = np.isfinite(window).all(axis=2)
    total = np.where(seen[..., None], window, 0.0).sum(axis=0)
    return np.where(seen.any(axis=0)[:, None], total / np.maximum(seen.sum(axis=0), 1)[:, None], np.nan)


def _seen(points: Floats, source: str) -> None:
    known = int(np.isfinite(points).all(axis=1).sum())
    if known < 3:
        raise InputError(f"{source}: {known} markers fix no pose; at least three that are not on one line are needed")


@guarded
def match_unordered(measured: ArrayLike, targets: ArrayLike) -> tuple[Ints, Floats]:
    """Match markers without names to places on the robot.

    Every triangle of places with about the sides of the widest measured triangle is tried. The assignment of all
    markers follows from the pose (Hungarian method), and the best is refined.

    Parameters
    ----------
    measured
        [m], shape (m, 3).
    targets
        [m], shape (t, 3), t >= m.

    Returns
    -------
    index, transform
        Place of every marker (m,), and the transform from measured to targets (4, 4).

    Raises
    ------
    InputError
        There are fewer than three markers, fewer places than markers, or no triangle fits.
    """
    found = _assignments(
        floats(measured, "match_unordered: measured", (None, 3), most=MAX_COORDINATE_M),
        floats(targets, "match_unordered: targets", (None, 3), most=MAX_COORDINATE_M),
    )
    return found[0][1], found[0][2]


def _assignments(a: Floats, b: Floats) -> list[tuple[float, Ints, Floats]]:
    """Sum of squares [m^2], places and transform of all assignments that a triangle leads to, the best first."""
    _seen(a, "markers")
    if len(b) < len(a):
        raise InputError(f"compare: {len(a)} markers but {len(b)} places (vertices=); give a place for every marker")
    first = int(np.argmax(np.linalg.norm(a - a.mean(axis=0), axis=1)))
    reach = a - a[first]
    second = int(np.argmax(np.linalg.norm(reach, axis=1)))
    trio = [first, second, int(np.argmax(np.linalg.norm(np.cross(reach, reach[second]), axis=1)))]
    pairs = np.array([(0, 1), (1, 2), (0, 2)]).T
    sides = np.linalg.norm(a[trio][pairs[0]] - a[trio][pairs[1]], axis=1)
    between = cdist(b, b)
    found = []
    # largest difference of two triangles' sides, in parts of the longest: robots bend, models err
    max_side_misfit_rel = 0.25
    for p in permutations(range(len(b)), 3):
        corners = np.array(p)[pairs]
        if (np.abs(between[corners[0], corners[1]] - sides) > max_side_misfit_rel * sides.max()).any():
            continue
        transform = kabsch(a[trio], b[list(p)])
        for _ in range(3):
            rows, index = linear_sum_assignment(cdist(apply(transform, a), b, "sqeuclidean"))
            transform = kabsch(a[rows], b[index])
        found.append((float(((apply(transform, a) - b[index]) ** 2).sum()), index, transform))
    if not found:
        raise InputError(
            "compare: no triangle of places has the sides of the measured one; check units= and vertices=, and whether a "
            "marker is an outlier"
        )
    return sorted(found, key=lambda one: one[0])


@guarded
def to_markers(
    result: Result,
    markers: Given,
    *,
    frame: int = -1,
    base: Chosen | None = None,
    units: str | None = None,
    vertices: Vertices | None = None,
    at: ArrayLike | None = None,
    marker_frame: int = -1,
    rest: int | None = None,
    average: int = 1,
    ordered: bool = True,
) -> Comparison:
    """Compare a frame with measured markers.

    Parameters
    ----------
    result
        The `Result`.
    markers
        A path, `Markers`, or positions (m, 3) or (k, m, 3) in metres (unless `units` is given).
    frame
        Which frame of the result.
    base
        Markers that fix the pose: names, the beginning of names, or indices; default those named base..., else
        those on fixed vertices, else all (or with unknown places, those that stay still).
    units
        Needed where the file has none.
    vertices
        Where the markers sit: robot vertex ids in the order of the markers, or {marker name: vertex id}. None: their
        places are found from a frame in which the robot is at rest.
    at
        Where the markers sit on the robot at rest [m], (m, 3), in their order, in place of `vertices`: the nearest vertices
        of the skin are taken, and how far they are is noted.
    marker_frame
        Which frame of the markers.
    rest
        Marker frame with the robot at rest, for `vertices=None`; default the first.
    average
        Number of marker frames that are averaged (not at rest, where a held robot may be released soon).
    ordered
        False: the order of the markers says nothing; they are matched to `vertices`.

    Raises
    ------
    InputError
        Fewer than three markers were seen, they lie on one line, names or units are wrong, or places cannot be found.
    """
    data = _load(markers, units)
    measured = _at(data, marker_frame, average)
    _seen(measured, data.source)
    if at is not None:
        if vertices is not None:
            raise InputError(f"{data.source}: vertices= and at= say the same, where the markers sit; give one of them")
        vertices, note = _nearest(result, floats(at, "to_markers: at", (None, 3), most=MAX_COORDINATE_M))
        data = replace(data, notes=(*data.notes, note))
    if vertices is None:
        return _found_places(result, data, measured, frame, base, 0 if rest is None else rest)
    return _on_vertices(result, data, measured, frame, base, vertices, ordered)


def _nearest(result: Result, places: Floats) -> tuple[Ints, str]:
    """Return the vertices of the skin nearest to places at rest [m] (m, 3), and how far the farthest is.

    Raises
    ------
    InputError
        A place is far from the robot, or two have the same vertex.
    """
    on_skin = np.unique(result.robot.skin) if len(result.robot.skin) else np.arange(len(result.robot.vertices))
    rest = result.robot.vertices[on_skin]
    apart = cdist(places, rest)
    picks, far = on_skin[apart.argmin(axis=1)], apart.min(axis=1)
    lost_place_rel = 0.1  # share of the robot's size from which a place is in another frame or unit
    if far.max() > lost_place_rel * float(np.linalg.norm(np.ptp(rest, axis=0))):
        low, high = (1e3 * rest.min(axis=0)).round(3).tolist(), (1e3 * rest.max(axis=0)).round(3).tolist()
        raise InputError(
            f"at= place {int(far.argmax()) + 1} is {1e3 * far.max():.3g} mm from the robot, which spans {low} .. {high} mm at "
            "rest; give places in the robot's frame and unit"
        )
    if len(np.unique(picks)) < len(picks):
        raise InputError("at= two places have the same nearest vertex; give places farther apart, or refine the mesh")
    return picks, f"places given by at= lie up to {1e3 * far.max():.2f} mm from the vertices that stand for them"


def _on_vertices(
    result: Result, data: Markers, measured: Floats, frame: int, base: Chosen | None, vertices: Vertices, ordered: bool
) -> Comparison:
    """Compare markers that sit on known vertices."""
    load_surface(result, frame)  # refuses a frame that does not exist
    shape = np.asarray(result.frames[frame])
    chosen, places = _places(data, vertices, ordered, len(shape))
    points, names = measured[chosen], np.array(data.labels)[chosen]
    known = np.isfinite(points).all(axis=1)
    notes = list(data.notes)
    doubts: list[str] = []
    transform = None
    if not ordered:
        points, names = points[known], names[known]
        index, transform, doubts = _matched(points, shape[places], data.source)
        places, known = places[index], np.ones(len(points), dtype=bool)
        notes.append("markers matched to vertices by their distances")
    pick = _base_rows(result, data, names, places, base, points)
    doubts += doubtful_markers(points[known], shape[places[known]], names[known].tolist(), data.source)
    if transform is None or base is not None:
        transform = kabsch(points[pick], shape[places[pick]])
    if pick.all():
        notes.append("registered on all markers: an error common to all is not seen; name base markers to see it")
    return _compare(result, frame, transform, points, shape[places], places, names, pick, notes, doubts)


def _matched(points: Floats, places: Floats, source: str) -> tuple[Ints, Floats, list[str]]:
    """Return the places that unordered markers sit on, their transform, and whether others would do as well.

    Raises
    ------
    InputError
        The mirror image of the markers fits where they do not.
    """
    (own, index, transform), *others = _assignments(points, places)
    # rms in parts of the extent of the places up to which two assignments are not told apart
    assignment_tie_rel = 0.005
    least = len(points) * (assignment_tie_rel * float(np.ptp(places, axis=0).max())) ** 2
    if own > least:
        image = points * np.array([-1.0, 1.0, 1.0])
        if _assignments(image, places)[0][0] < EXPLAINED_REMAINDER * own:
            raise InputError(
                f"{source}: the markers are a mirror image of their places: check the handedness of the axes"
            )
    is_tied = any(
        value < max(EQUAL_VARIANCE_RATIO * own, least) and (other != index).any() for value, other, _ in others
    )
    tie = "another assignment of markers to places fits as well: the places are nearly symmetric"
    return index, transform, [tie] if is_tied else []


def _places(data: Markers, vertices: Vertices, ordered: bool, count: int) -> tuple[Ints, Ints]:
    """Return the markers to compare and the vertices they sit on (or, unordered, could sit on)."""
    chosen, given = np.arange(data.positions.shape[1]), vertices
    if isinstance(vertices, Mapping):
        chosen, given = data.index(list(vertices)), list(vertices.values())
    places = ints(given, "compare: vertices=", (None,), below=count)
    if ordered and len(places) != len(chosen):
        raise InputError(
            f"{data.source}: {len(chosen)} markers and {len(places)} vertices; give one vertex for each marker, in "
            f"their order, or a table name -> vertex, or ordered=False"
        )
    return chosen, places


def _base_rows(result: Result, data: Markers, names: Names, places: Ints, base: Chosen | None, points: Floats) -> Bools:
    """Which of the compared markers fix the pose."""
    if base is not None:
        pick = np.isin(names, np.array(data.labels)[data.index(base)])
    else:
        pick = np.char.startswith(np.char.lower(names), "base")
        pick = pick if pick.any() else np.isin(places, fixed_vertices(result))
        pick = pick if np.isfinite(points[pick]).all(axis=1).sum() >= 3 else np.ones(len(names), dtype=bool)
    _seen(points[pick], f"{data.source}, base markers")
    return pick


def _compare(
    result: Result,
    frame: int,
    transform: Floats,
    points: Floats,
    model: Floats,
    places: Ints | None,
    names: Names,
    pick: Bools,
    notes: list[str],
    doubts: list[str],
) -> Comparison:
    """Distances of markers; where base markers fix the pose, only the others count."""
    placed = apply(transform, points)
    distance = np.linalg.norm(placed - model, axis=1)
    known = np.isfinite(distance)
    if not known.all():
        notes.append(f"not seen: {', '.join(names[~known])}")
    count = known & ~pick if (known & ~pick).any() else known
    mean = np.linalg.norm((placed - model)[count].mean(axis=0))
    notes.append(f"centre of the {int(count.sum())} markers compared is off by {1e3 * mean:.3f} mm")
    if np.sqrt(np.mean(distance[count] ** 2)) > FOREIGN_DISTANCE_REL * robot_size(result):
        foreign = "the markers are half a robot away from their places: are units, frame and places those meant?"
        doubts = [*doubts, foreign]
    per_vertex = np.full(len(result.robot.vertices), np.nan)
    if places is not None:
        per_vertex[places[known]] = distance[known]
    return compared(
        result,
        transform,
        placed,
        distance,
        ~count,
        kind="markers",
        mean_signed=np.nan,
        per_vertex=per_vertex,
        names=tuple(names.tolist()),
        regions=tuple((n, 1, d, d, d) for n, d in zip(names[known].tolist(), distance[known].tolist())),
        notes=(*notes, *doubts),
        doubts=tuple(doubts),
        predicted=model,
        surface=load_surface(result, frame)[0] if len(result.robot.p2_edges) else None,
    )


def _groups(data: Markers, motion: Floats, base: Chosen | None) -> Bools:
    """Which markers belong to the base: named, or still."""
    if base is not None:
        return np.isin(np.arange(len(motion)), data.index(base))
    named = np.char.startswith(np.char.lower(np.array(data.labels)), "base")
    base_motion_share = 0.15  # markers that move less than this part of the largest motion belong to the base
    return named if named.any() else np.asarray(motion < base_motion_share * np.nanmax(motion))


def _found_places(
    result: Result, data: Markers, measured: Floats, frame: int, base: Chosen | None, rest: int
) -> Comparison:
    """Compare markers whose places on the robot are not known.

    The base markers take out the motion of the set-up. The axis from the base to the moving markers is laid on the
    robot's axis from its fixed to its tip vertices, the centres of the moving markers and of the tip on each other.
    The roll about the axis is the one at which the measured motion points the way of the predicted one. Predicted
    marker positions follow the rigid motion of the tip vertices.
    """
    if len(data.positions) == 1:
        return _without_correspondence(result, data, measured, frame)
    start = _at(data, rest, 1)
    both = np.asarray(np.isfinite([start, measured]).all(axis=(0, 2)))
    motion = np.where(both, np.linalg.norm(measured - start, axis=1), np.nan)
    pick = _groups(data, motion, base)
    moving, held = both & ~pick, both & pick
    if not moving.any() or not held.any():
        raise InputError(f"{data.source}: base and moving markers cannot be told apart; pass base= names or indices")
    doubts = []
    for group in (held, moving):
        doubts += loosened(start[group], measured[group], np.array(data.labels)[group].tolist())
    final = _without_drift(start, measured, moving, held)
    tip = result.robot.tip
    if len(fixed_vertices(result)) == 0 or len(tip) < 3:
        raise InputError(
            "compare: places of markers are found from the robot's fixed and tip vertices; it lacks them, pass vertices="
        )
    carried = kabsch(result.robot.vertices[tip], np.asarray(result.frames[frame])[tip])
    transform, motions = _laid(result, start, final, moving, held, carried, data.source)
    rested = apply(transform, start)
    model = np.where(moving[:, None], apply(carried, rested), rested)
    notes = [
        *data.notes,
        "places of the markers found: axis from base to tip, roll from the direction of motion",
        motions,
    ]
    points = np.where(both[:, None], final, np.nan)
    return _compare(result, frame, transform, points, model, None, np.array(data.labels), pick | ~both, notes, doubts)


def _without_drift(start: Floats, measured: Floats, moving: Bools, held: Bools) -> Floats:
    """Measured positions less the motion of the base: its shift, and its turn where it moved enough to tell."""
    reach = np.linalg.norm(start[moving].mean(axis=0) - start[held].mean(axis=0))
    shift = (start - measured)[held]
    # base markers that move less than this part of the reach give no rotation: their noise would be levered
    min_base_motion_rel = 0.02
    if np.linalg.norm(shift, axis=1).max() > min_base_motion_rel * reach and held.sum() >= 3:
        return apply(kabsch(measured[held], start[held]), measured)
    return np.asarray(measured + shift.mean(axis=0))


def _laid(
    result: Result, start: Floats, final: Floats, moving: Bools, held: Bools, carried: Floats, source: str
) -> tuple[Floats, str]:
    """Return the transform (4, 4) that lays the markers at rest on the robot, and what it says of the motions."""
    rest = result.robot.vertices
    tip = rest[result.robot.tip].mean(axis=0)
    length, axis = _direction(tip - rest[fixed_vertices(result)].mean(axis=0))
    reach, own = _direction(start[moving].mean(axis=0) - start[held].mean(axis=0))
    # factor between the measured reach from base to tip and the robot's from which on the unit is wrong
    check_scale(reach / length, source, limit=4.0)
    lay, _ = Rotation.align_vectors(axis[None], own[None])
    seen, predicted = lay.apply((final - start)[moving].mean(axis=0)), apply(carried, tip) - tip
    here, there = (v - (v @ axis) * axis for v in (seen, predicted))
    least = min(float(np.linalg.norm(v)) for v in (here, there))
    # motion of the tip in parts of the robot's length below which its direction is noise
    min_tip_motion_rel = 1e-3
    if least < min_tip_motion_rel * length:
        raise InputError(
            f"{source}: the tip hardly moves sideways ({1e3 * least:.3f} mm), so the roll of the markers about "
            f"the axis is not known; pass vertices="
        )
    angle = np.arctan2(np.cross(here, there) @ axis, here @ there)
    turn = (Rotation.from_rotvec(angle * axis) * lay).as_matrix()
    sizes = [1e3 * np.linalg.norm(v) for v in (seen, predicted)]
    note = f"measured motion of the centre {sizes[0]:.3f} mm, predicted {sizes[1]:.3f} mm"
    return rigid(turn, tip - turn @ start[moving].mean(axis=0)), note


def _direction(vector: Floats) -> tuple[float, Floats]:
    length = float(np.linalg.norm(vector))
    return length, vector / length


def _without_correspondence(result: Result, data: Markers, measured: Floats, frame: int) -> Comparison:
    """Compare one frame of markers without known places: distances to the skin."""
    known = np.asarray(np.isfinite(measured).all(axis=-1))
    min_markers = 6  # markers that fix a pose on a skin: as many as a pose has unknowns
    if known.sum() < min_markers:
        raise InputError(
            f"{data.source}: {int(known.sum())} markers of one frame without known places fix no pose; "
            f"pass vertices=, or a file with a frame at rest"
        )
    surface, _ = load_surface(result, frame)
    start, _, _ = find_pose(measured[known], surface)
    pose = icp(measured[known], surface, start)
    model = measured.copy()
    model[known] = surface.closest(apply(pose.transform, measured[known]))[0]
    notes = [*data.notes, "no places known: distances to the nearest skin, which hide errors along it"]
    none = np.zeros_like(known)
    return _compare(result, frame, pose.transform, measured, model, None, np.array(data.labels), none, notes, [])


@guarded
def over_time(
    result: Result,
    markers: Given,
    *,
    frames: Sequence[int] | None = None,
    marker_frames: Sequence[int] | None = None,
    **options: Any,
) -> list[dict[str, float]]:
    """Compare along a path: one row a frame with time [s or load], rms, mean and max [m].

    Parameters
    ----------
    result, markers
        As for `to_markers`.
    frames, marker_frames
        Which go together; default all frames of the result, and markers at the same part of their duration.
    **options
        Of `to_markers`.

    Raises
    ------
    InputError
        As `to_markers`, or the two lists differ in length.
    """
    data = _load(markers, options.pop("units", None))
    frames = range(len(result.frames)) if frames is None else frames
    picks = [result.checked_frame(i) for i in frames]
    if marker_frames is None:
        last = len(data.positions) - 1
        marker_frames = [round(last * (i + 1) / len(picks)) for i in range(len(picks))]
    asked = [whole(j, "over_time: marker_frames", least=-len(data.positions)) for j in marker_frames]
    if len(picks) != len(asked):
        raise InputError(f"compare: {len(picks)} frames and {len(asked)} marker frames; give equally many")
    found = [to_markers(result, data, frame=i, marker_frame=j, **options) for i, j in zip(picks, asked)]
    return [
        {"frame": i, "time": float(result.times[i]), "rms": c.rms, "mean": c.mean, "max": c.max}
        for i, c in zip(picks, found)
    ]
