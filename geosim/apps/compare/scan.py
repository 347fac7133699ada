"""A result against a scan: registration, signed distance map, noise and systematic error told apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from geosim.apps.compare.cloud import read_scan
from geosim.apps.compare.comparison import FOREIGN_DISTANCE_REL, Comparison, compared, fixed_vertices, load_surface
from geosim.apps.compare.likelihood import refine
from geosim.apps.compare.registration import (
    EDGE_BAND_SPREADS,
    MIN_EDGE_FREE_SHARE,
    OUTLIER_SPREADS,
    Pose,
    apply,
    find_pose,
    icp,
    isolated,
    mirrored,
    spread,
    without_ends,
)
from geosim.apps.compare.surface import ComparedSurface
from geosim.arguments import guarded
from geosim.arrays import METRES_PER_UNIT, ArrayLike, Bools, Floats, Ints, choice, ints, real_array
from geosim.errors import InputError
from geosim.result import Result
from geosim.tables import unit_scale


@guarded
def to_scan(
    result: Result,
    points: str | Path | ArrayLike,
    *,
    frame: int = -1,
    units: str | None = None,
    register: str | ArrayLike = "base",
    base: ArrayLike | None = None,
    base_extent: float = 0.25,
) -> Comparison:
    """Compare a frame with a scan of the outside: a partial, noisy point cloud in any pose.

    Parameters
    ----------
    result
        The `Result`.
    points
        A path, or points (p, 3) in metres (unless `units` is given).
    frame
        Which frame.
    units
        Needed for paths.
    register
        "base": the pose of a global search is refined on the region near the fixed vertices alone, so that errors of
        the model show elsewhere; "all": on all points; "none": the scan is in the robot's frame already; or a
        transform (4, 4) from measured to robot.
    base
        Vertex ids that define the base; default the robot's fixed vertices.
    base_extent
        Reach of the base region, in parts of the robot's size.

    Raises
    ------
    InputError
        The scan is empty, far too large or small (a wrong unit), or mirrored; or the base region is not in it.
    """
    source, cloud = _cloud(points, units)
    surface, ids = load_surface(result, frame)
    stray = isolated(cloud)
    _check_unit(cloud[~stray], surface, source, units)
    allowed = _base_faces(result, surface, base, base_extent)
    pose, notes, doubts = _register(cloud[~stray], surface, register, allowed, source)
    if not isinstance(register, str) or register != "base":
        allowed = np.ones(len(surface.faces), dtype=bool)
    return _mapped(result, surface, ids, cloud, stray, pose, allowed, notes, doubts)


def _mapped(
    result: Result,
    surface: ComparedSurface,
    ids: Ints,
    cloud: Floats,
    stray: Bools,
    pose: Pose,
    registered: Bools,
    notes: list[str],
    doubts: list[str],
) -> Comparison:
    """Distances of a scan, its map and its parts; the faces `registered` (f,) fixed its pose."""
    placed = apply(pose.transform, cloud)
    at, face, _, distance = surface.closest(placed)
    outliers = stray & (np.abs(distance) > OUTLIER_SPREADS * min(spread(distance[~stray]), pose.scale))
    outliers |= np.abs(distance) > FOREIGN_DISTANCE_REL * surface.size
    good = ~outliers
    values, noise, systematic = _patches(surface, at[good], distance[good])
    per_vertex = np.full(len(result.robot.vertices), np.nan)
    per_vertex[ids[ids >= 0]] = values[ids >= 0]
    return compared(
        result,
        pose.transform,
        placed,
        distance,
        outliers,
        kind="scan",
        mean_signed=float(distance[good].mean()),
        per_vertex=per_vertex,
        regions=_regions(result, placed[good], distance[good]),
        noise=noise,
        systematic=systematic,
        pose_error=(pose.position_error, pose.rotation_error),
        pose_systematic=_by_pose(pose, at[good], surface.face_normals[face[good]], registered[face[good]]),
        notes=(*notes, *doubts),
        doubts=tuple(doubts),
        surface=surface,
        surface_values=values,
    )


def _cloud(points: str | Path | ArrayLike, units: str | None) -> tuple[str, Floats]:
    """Return the name of a scan and its points [m]."""
    if isinstance(points, (str, Path)):
        source, cloud = str(points), read_scan(points, units)
    else:
        source, cloud = "scan", real_array(points, "points") * (1.0 if units is None else unit_scale(units, "scan"))
    if cloud.ndim != 2 or cloud.shape[1:] != (3,) or len(cloud) < 30:
        raise InputError(f"{source}: {cloud.shape} is no point cloud; at least 30 points (p, 3) are needed")
    if np.isinf(cloud).any():
        raise InputError(f"{source}: point {int(np.argwhere(np.isinf(cloud))[0][0]) + 1} is infinitely far away")
    return source, cloud[np.isfinite(cloud).all(axis=1)]


def _check_unit(cloud: Floats, surface: ComparedSurface, source: str, units: str | None) -> None:
    span = float(np.linalg.norm(np.ptp(without_ends(cloud), axis=0)))
    ratio = span / surface.size
    # of a scan over those of the robot that are no wrong unit: a part of it, or it with its table
    plausible_size_ratios = 0.1, 4.0
    if plausible_size_ratios[0] <= ratio <= plausible_size_ratios[1]:
        return
    others = [unit for unit, metres in METRES_PER_UNIT.items() if metres < 1.0]
    best = min(others, key=lambda unit: abs(np.log(ratio * METRES_PER_UNIT[unit])))
    hint = f" (points taken as metres look like {best})" if units is None and ratio > plausible_size_ratios[1] else ""
    raise InputError(
        f"{source}: the scan measures {span:.4g} m across and the robot "
        f"{surface.size:.4g} m; the unit is probably wrong, pass units= one of mm, cm, m, in{hint}"
    )


def _base_faces(result: Result, surface: ComparedSurface, base: ArrayLike | None, extent: float) -> Bools:
    """Faces of the frame's skin whose centres lie near the base vertices."""
    fixed = fixed_vertices(result) if base is None else ints(base, "compare: base= vertex ids", (None,))
    if len(fixed) == 0:
        return np.ones(len(surface.faces), dtype=bool)
    anchors = cKDTree(np.asarray(result.robot.vertices)[fixed])
    centres = surface.vertices[surface.faces].mean(axis=1)
    return np.asarray(anchors.query(centres)[0] <= extent * surface.size)


def _register(
    cloud: Floats, surface: ComparedSurface, register: str | ArrayLike, allowed: Bools, source: str
) -> tuple[Pose, list[str], list[str]]:
    """Return the pose, how it was found, and what is doubtful about it."""
    if not isinstance(register, str) or register == "none":
        given = np.eye(4) if isinstance(register, str) else np.asarray(register, dtype=float)
        if given.shape != (4, 4) or not np.allclose(given[:3, :3] @ given[:3, :3].T, np.eye(3), atol=1e-6):
            raise InputError("compare: register= a rigid transform (4, 4), 'base', 'all' or 'none'")
        why = ": the scan is in the robot's frame" if isinstance(register, str) else ""
        return Pose(given, np.inf, np.nan, np.nan), [f"pose as given{why}"], []
    choice(register, "compare: register", ("base", "all", "none"))
    start, score, rivals = find_pose(cloud, surface)
    # parts of the size: a score above may be that of a mirrored scan, a pose less certain is told
    doubtful_misfit_rel = 0.01
    if score > doubtful_misfit_rel * surface.size and mirrored(cloud, surface, score):
        raise InputError(
            f"{source}: the mirror image of the scan fits much better than the scan: it is mirrored; "
            f"check the handedness of its axes"
        )
    pose = icp(cloud, surface, start, iterations=15)
    notes = [f"registered on {'all points' if register == 'all' else 'the base region'}"]
    doubts = _ambiguous(cloud, surface, start, rivals)
    if register == "all" or allowed.all():
        return refine(cloud, surface, pose), notes, doubts
    pose = icp(cloud, surface, pose.transform, allowed=allowed)
    pose = refine(cloud, surface, pose, allowed=allowed)
    reach = np.hypot(pose.position_error, 0.5 * surface.size * pose.rotation_error)
    if reach > doubtful_misfit_rel * surface.size:
        notes.append(
            f"the base region leaves the pose uncertain by {1e3 * reach:.2f} mm at the tip; register='all' or a "
            f"larger base_extent would be sharper"
        )
    return pose, notes, doubts


def _ambiguous(cloud: Floats, surface: ComparedSurface, pose: Floats, rivals: list[Floats]) -> list[str]:
    """Say how other poses that fit as well differ: turned, end for end, slid along the body."""
    centred = surface.vertices - surface.vertices.mean(axis=0)
    long = np.linalg.svd(centred, full_matrices=False)[2][0]
    found = []
    turned_pose_rad = 0.3  # from which on a pose is a turned one; one so near to half a turn is end for end
    for rival in rivals:
        turn = Rotation.from_matrix(rival[:3, :3] @ pose[:3, :3].T).as_rotvec()
        angle = float(np.linalg.norm(turn))
        slide = float(np.linalg.norm((apply(rival, cloud) - apply(pose, cloud)).mean(axis=0)))
        if angle > turned_pose_rad:
            ends = " (end for end)" if angle > np.pi - turned_pose_rad and abs(turn @ long) < 0.5 * angle else ""
            found.append(f"turned by {np.degrees(angle):.0f} deg fits as well{ends}")
        else:
            found.append(f"moved by {1e3 * slide:.1f} mm along the body fits as well")
    remedy = "the body, or the part of it that was scanned, is nearly symmetric; scan more of it, or pass register= a transform"
    return [f"a pose {', another '.join(dict.fromkeys(found))}: {remedy}"] if found else []


def _by_pose(pose: Pose, at: Floats, normals: Floats, registered: Bools) -> float:
    """Rms distance [m] that a pose one standard error off gives to points `at` (p, 3) of a right model.

    A turn by w about the centre c of the points that fixed the pose moves a point along its normal by w . ((x - c) x n).
    """
    errors = np.array([pose.position_error, pose.rotation_error])
    if not np.isfinite(errors).all() or not registered.any():
        return float("nan")
    arms = np.cross(at - at[registered].mean(axis=0), normals)
    return float(np.sqrt((errors[0] ** 2 + errors[1] ** 2 * (arms**2).sum(axis=1).mean()) / 3.0))


def _patches(surface: ComparedSurface, at: Floats, distance: Floats) -> tuple[Floats, float, float]:
    """Mean distance near every skin vertex, and the split of the rms into noise within patches and what is between.

    Patches are taken on the model's skin. The mean square of the patch means exceeds the truth by noise^2 / count,
    which is taken off; points beside sharp edges, which noise moves outward on average, do not enter.
    """
    flat = ~surface.beside_edge(at, EDGE_BAND_SPREADS * spread(distance))
    if flat.sum() > MIN_EDGE_FREE_SHARE * len(at):
        at, distance = at[flat], distance[flat]
    # points in a patch, patches at most, points that make a mean
    patch_points, max_patches, min_mean_points = 60, 2000, 5
    count = max(min(len(at) // patch_points, max_patches), 4)
    picks = np.random.default_rng(0).choice(len(at), min(count, len(at)), replace=False)
    count = len(picks)
    patch = cKDTree(at[picks]).query(at)[1]
    n = np.bincount(patch, minlength=count)
    full = n >= min(min_mean_points, n.max())
    total, square = (np.bincount(patch, v, minlength=count)[full] for v in (distance, distance**2))
    n, centres = n[full], at[picks][full]
    mean = total / n
    inside = float((square - n * mean**2).sum()) / max(int((n - 1).sum()), 1)
    between = float((n / n.sum()) @ (mean**2 - inside / n))
    near, index = cKDTree(centres).query(surface.vertices, k=min(3, len(centres)))
    near, index = near.reshape(len(surface.vertices), -1), index.reshape(len(surface.vertices), -1)
    share = 1.0 / np.maximum(near, 1e-9)
    values = (share * mean[index]).sum(axis=1) / share.sum(axis=1)
    no_patch_distance_rel = 0.1  # parts of the size from which on no patch is near
    values[near[:, 0] > no_patch_distance_rel * surface.size] = np.nan
    return values, float(np.sqrt(max(inside, 0.0))), float(np.sqrt(max(between, 0.0)))


def _regions(result: Result, points: Floats, distance: Floats) -> tuple[tuple[str, int, float, float, float], ...]:
    """Table from the base (fixed vertices) to the far end, along the line between them."""
    rest = np.asarray(result.robot.vertices)
    fixed = fixed_vertices(result)
    start = rest[fixed].mean(axis=0) if len(fixed) else rest.mean(axis=0)
    far = np.linalg.norm(points - start, axis=1)
    distance_regions = 8
    edges = np.linspace(0.0, float(far.max()) * (1 + 1e-9), distance_regions + 1)
    parts = ((a, b, distance[(far >= a) & (far < b)]) for a, b in pairwise(edges))
    return tuple(
        (
            f"{1e3 * a:.1f} .. {1e3 * b:.1f} mm",
            len(d),
            float(d.mean()),
            float(np.sqrt(np.mean(d**2))),
            float(np.abs(d).max()),
        )
        for a, b, d in parts
        if len(d)
    )
