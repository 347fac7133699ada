"""A result against markers: with known places, with unordered markers, or with places that must be found."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation

from geosim.arrays import Floats, Ints
from geosim.compare.comparison import Comparison, load_surface
from geosim.compare.markers import Markers, read_markers, unit_scale
from geosim.compare.registration import apply, find_pose, icp, kabsch
from geosim.errors import InputError

__all__ = ["match_unordered", "over_time", "to_markers"]

STEADY = 0.02  # base markers that move less than this part of the reach give no rotation: their noise would be levered
STILL = 0.15  # markers that move less than this part of the largest motion belong to the base


def _load(markers: Any, units: str | None) -> Markers:
    if isinstance(markers, (str, Path)):
        return read_markers(markers, units)
    if isinstance(markers, Markers):
        return markers
    return Markers(np.asarray(markers, dtype=float) * (1.0 if units is None else unit_scale(units, "markers")))


def _at(markers: Markers, index: int, average: int) -> Floats:
    """Mean positions of `average` frames that end (index < 0) or begin at a frame; nan where never seen."""
    count = len(markers.positions)
    if not -count <= index < count:
        raise InputError(f"{markers.source}: marker frame {index} does not exist; there are {count}")
    index %= count
    window = (
        markers.positions[max(index - average + 1, 0) : index + 1]
        if index >= count // 2
        else markers.positions[index : index + average]
    )
    seen = np.isfinite(window).all(axis=2)
    total = np.where(seen[..., None], window, 0.0).sum(axis=0)
    return np.where(seen.any(axis=0)[:, None], total / np.maximum(seen.sum(axis=0), 1)[:, None], np.nan)


def _seen(points: Floats, source: str, least: int = 3) -> None:
    known = int(np.isfinite(points).all(axis=1).sum())
    if known < least:
        raise InputError(f"{source}: {known} markers fix no pose; at least three that are not on one line are needed")


def match_unordered(measured: Any, targets: Any) -> tuple[Ints, Floats]:
    """Match markers without names to places on the robot.

    Every triangle of places with about the sides of the widest measured triangle is tried; the assignment of all
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
    a, b = np.asarray(measured, dtype=float), np.asarray(targets, dtype=float)
    _seen(a, "markers")
    if len(b) < len(a):
        raise InputError(f"compare: {len(a)} markers but {len(b)} places (vertices=); give a place for every marker")
    order = np.argsort(-np.linalg.norm(a - a.mean(axis=0), axis=1))
    first = order[0]
    second = int(np.argmax(np.linalg.norm(a - a[first], axis=1)))
    axis = (a[second] - a[first]) / np.linalg.norm(a[second] - a[first])
    aside = np.linalg.norm(np.cross(a - a[first], axis), axis=1)
    trio = [first, second, int(np.argmax(aside))]
    sides = np.array([np.linalg.norm(a[trio[i]] - a[trio[j]]) for i, j in ((0, 1), (1, 2), (0, 2))])
    between = np.linalg.norm(b[:, None] - b[None], axis=2)
    best: tuple[float, Any, Any] = (np.inf, None, None)
    for p in permutations(range(len(b)), 3):
        found = np.array([between[p[0], p[1]], between[p[1], p[2]], between[p[0], p[2]]])
        if (np.abs(found - sides) > 0.25 * sides.max()).any():
            continue
        transform = kabsch(a[trio], b[list(p)])
        for _ in range(3):
            cost = np.linalg.norm(apply(transform, a)[:, None] - b[None], axis=2) ** 2
            rows, index = linear_sum_assignment(cost)
            transform = kabsch(a[rows], b[index])
        value = float(np.sum(np.linalg.norm(apply(transform, a) - b[index], axis=1) ** 2))
        if value < best[0]:
            best = (value, index, transform)
    if best[1] is None:
        raise InputError("compare: no triangle of places has the sides of the measured one; check units= and vertices=")
    return best[1], best[2]


def to_markers(
    result: Any,
    markers: Any,
    *,
    frame: int = -1,
    base: Any = None,
    units: str | None = None,
    vertices: Any = None,
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
    if vertices is None:
        return _found_places(result, data, measured, frame, base, 0 if rest is None else rest)
    if isinstance(vertices, Mapping):
        chosen = data.index(list(vertices))
        places = np.array([int(v) for v in vertices.values()])
    else:
        places = np.asarray(vertices, dtype=int)
        chosen = np.arange(measured.shape[0])
        if ordered and len(places) != len(chosen):
            raise InputError(
                f"{data.source}: {len(chosen)} markers and {len(places)} vertices; give one vertex for "
                f"each marker, in "
                f"their order, or a table name -> vertex, or ordered=False"
            )
    load_surface(result, frame)
    shape = np.asarray(result.frames[frame])
    if len(places) and not 0 <= places.min() <= places.max() < len(shape):
        raise InputError(f"compare: vertices= names vertex {places.max()}; the robot has {len(shape)}")
    names = [data.names[i] if data.names else f"marker {i + 1}" for i in chosen]
    notes = list(data.notes)
    points = measured[chosen]
    if not ordered:
        known = np.isfinite(points).all(axis=1)
        index, transform = match_unordered(points[known], shape[places])
        points, names = points[known], [n for n, k in zip(names, known) if k]
        places = places[index]
        notes.append("markers matched to vertices by their distances")
    pick = _base_rows(result, data, names, places, base, points)
    if ordered or base is not None:
        transform = kabsch(points[pick], shape[places[pick]])
    if pick.all():
        notes.append("registered on all markers: an error common to all is not seen; name base markers to see it")
    return _compare(result, frame, transform, points, shape[places], places, names, pick, notes)


def _base_rows(result: Any, data: Markers, names: list[str], places: Ints, base: Any, points: Floats) -> Any:
    """Which of the compared markers fix the pose."""
    if base is not None:
        wanted = {data.names[i] if data.names else f"marker {i + 1}" for i in data.index(base)}
        pick = np.array([n in wanted for n in names])
    else:
        pick = np.array([n.lower().startswith("base") for n in names])
        pick = pick if pick.any() else np.isin(places, np.asarray(result.robot.fixed, dtype=int))
        pick = pick if (np.isfinite(points[pick]).all(axis=1)).sum() >= 3 else np.ones(len(names), dtype=bool)
    _seen(points[pick], f"{data.source}, base markers")
    return pick


def _compare(
    result: Any,
    frame: int,
    transform: Floats,
    points: Floats,
    model: Floats,
    places: Any,
    names: list[str],
    pick: Any,
    notes: list[str],
) -> Comparison:
    """Distances of markers; where base markers fix the pose, only the others count."""
    placed = apply(transform, points)
    distance = np.linalg.norm(placed - model, axis=1)
    known = np.isfinite(distance)
    if not known.all():
        notes.append(f"not seen: {', '.join(n for n, k in zip(names, known) if not k)}")
    count = known & ~pick if not pick.all() and (known & ~pick).any() else known
    rows = tuple((n, 1, float(d), float(d), float(d)) for n, d, k in zip(names, distance, known) if k)
    mean = np.linalg.norm((placed - model)[count].mean(axis=0))
    notes.append(f"centre of the {int(count.sum())} markers compared is off by {1e3 * mean:.3f} mm")
    per_vertex = np.full(len(result.robot.vertices), np.nan)
    if places is not None:
        per_vertex[places[known]] = distance[known]
    d = distance[count]
    rest = np.asarray(result.robot.vertices)
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    return Comparison(
        "markers",
        float(np.sqrt(np.mean(d**2))),
        float(d.mean()),
        float(d.max()),
        float(np.quantile(d, 0.95)),
        np.nan,
        size,
        transform,
        placed,
        np.where(known, distance, np.nan),
        ~count,
        per_vertex,
        tuple(names),
        rows,
        notes=tuple(notes),
        predicted=model,
        surface=load_surface(result, frame)[0] if len(result.robot.p2_edges) else None,
    )


def _groups(data: Markers, rest: Floats, motion: Floats, base: Any) -> Any:
    """Which markers belong to the base: named, or still."""
    pick = np.zeros(len(rest), dtype=bool)
    if base is not None:
        pick[data.index(base)] = True
        return pick
    named = np.array([n.lower().startswith("base") for n in data.names]) if data.names else pick
    return named if named.any() else motion < STILL * np.nanmax(motion)


def _found_places(result: Any, data: Markers, measured: Floats, frame: int, base: Any, rest: int) -> Comparison:
    """Compare markers whose places on the robot are not known.

    The base markers take out the motion of the set-up. The axis from the base to the moving markers is laid on the
    robot's axis from its fixed to its tip vertices, the centres of the moving markers and of the tip on each other;
    the roll about the axis is the one at which the measured motion points the way of the predicted one. Predicted
    marker positions follow the rigid motion of the tip vertices.
    """
    if len(data.positions) == 1:
        return _without_correspondence(result, data, measured, frame)
    start = _at(data, rest, 1)
    both: Any = np.isfinite(start).all(axis=1) & np.isfinite(measured).all(axis=1)
    motion: Any = np.where(both, np.linalg.norm(measured - start, axis=1), np.nan)
    pick = _groups(data, start, motion, base)
    moving = both & ~pick
    if not moving.any() or not (both & pick).any():
        raise InputError(f"{data.source}: base and moving markers cannot be told apart; pass base= names or indices")
    held = pick & both
    reach = float(np.linalg.norm(start[moving].mean(axis=0) - start[held].mean(axis=0)))
    drift = np.eye(4)
    drift[:3, 3] = (start - measured)[held].mean(axis=0)
    if motion[held].max() > STEADY * reach and held.sum() >= 3:
        drift = kabsch(measured[held], start[held])
    final = apply(drift, measured)
    robot = result.robot
    rest_shape, shape = np.asarray(robot.vertices), np.asarray(result.frames[frame])
    fixed, tip = np.asarray(robot.fixed, dtype=int), np.asarray(robot.tip, dtype=int)
    if len(fixed) == 0 or len(tip) < 3:
        raise InputError(
            "compare: places of markers are found from the robot's fixed and tip vertices; it lacks "
            "them, pass vertices="
        )
    tip_centre, base_centre = rest_shape[tip].mean(axis=0), rest_shape[fixed].mean(axis=0)
    axis = tip_centre - base_centre
    axis /= np.linalg.norm(axis)
    measured_axis = start[moving].mean(axis=0) - start[pick & both].mean(axis=0)
    lay, _ = Rotation.align_vectors(axis[None], (measured_axis / np.linalg.norm(measured_axis))[None])
    carried = kabsch(rest_shape[tip], shape[tip])
    predicted = apply(carried, tip_centre[None])[0] - tip_centre
    seen = lay.apply((final - start)[moving].mean(axis=0))
    flat = [v - (v @ axis) * axis for v in (seen, predicted)]
    lengths = [float(np.linalg.norm(v)) for v in flat]
    notes = [*data.notes, "places of the markers found: axis from base to tip, roll from the direction of motion"]
    if min(lengths) < 1e-3 * np.linalg.norm(tip_centre - base_centre):
        raise InputError(
            f"{data.source}: the tip hardly moves sideways ({1e3 * min(lengths):.3f} mm), so the roll "
            f"of the markers about "
            f"the axis is not known; pass vertices="
        )
    angle = np.arctan2(np.cross(flat[0], flat[1]) @ axis, flat[0] @ flat[1])
    turn = (Rotation.from_rotvec(angle * axis) * lay).as_matrix()
    transform = np.eye(4)
    transform[:3, :3] = turn
    transform[:3, 3] = tip_centre - turn @ start[moving].mean(axis=0)
    model = np.where(moving[:, None], apply(carried, apply(transform, start)), apply(transform, start))
    names = [data.names[i] if data.names else f"marker {i + 1}" for i in range(len(start))]
    notes.append(
        f"measured motion of the centre {1e3 * np.linalg.norm(seen):.3f} mm, predicted "
        f"{1e3 * np.linalg.norm(predicted):.3f} mm"
    )
    return _compare(
        result, frame, transform, np.where(both[:, None], final, np.nan), model, None, names, pick | ~both, notes
    )


def _without_correspondence(result: Any, data: Markers, measured: Floats, frame: int) -> Comparison:
    """Compare one frame of markers without known places: distances to the skin."""
    known = np.isfinite(measured).all(axis=1)
    if known.sum() < 6:
        raise InputError(
            f"{data.source}: {int(known.sum())} markers of one frame without known places fix no pose; "
            f"pass vertices=, or a "
            f"file with a frame at rest"
        )
    surface, _ = load_surface(result, frame)
    start, _, _ = find_pose(measured[known], surface)
    pose = icp(measured[known], surface, start)
    model = measured.copy()
    model[known] = surface.closest(apply(pose.transform, measured[known]))[0]
    names = [data.names[i] if data.names else f"marker {i + 1}" for i in range(len(measured))]
    notes = [*data.notes, "no places known: distances to the nearest skin, which hide errors along it"]
    return _compare(
        result, frame, pose.transform, measured, model, None, names, np.zeros(len(names), dtype=bool), notes
    )


def over_time(
    result: Any, markers: Any, *, frames: Any = None, marker_frames: Any = None, **options: Any
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
    picks = list(range(len(result.frames))) if frames is None else list(frames)
    if marker_frames is None:
        last = len(data.positions) - 1
        marker_frames = [round(last * (i + 1) / len(picks)) for i in range(len(picks))]
    if len(picks) != len(list(marker_frames)):
        raise InputError(
            f"compare: {len(picks)} frames and {len(list(marker_frames))} marker frames; give equally many"
        )
    rows = []
    for i, j in zip(picks, marker_frames):
        found = to_markers(result, data, frame=i, marker_frame=int(j), **options)
        rows.append(
            {"frame": i, "time": float(result.times[i]), "rms": found.rms, "mean": found.mean, "max": found.max}
        )
    return rows
