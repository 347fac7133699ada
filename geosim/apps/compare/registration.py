"""Rigid registration: Kabsch on corresponding points, robust ICP on a surface, from an unknown pose.

    minimise over poses T   sum_i rho( n_i . (T x_i - y_i) ),    y_i the closest point of the surface, n_i its normal

rho is Tukey's biweight, whose scale follows the median of the residuals, so that stray points and parts that the
model does not reproduce lose their pull. Points far from all others are recognised before, in the scan itself.
Beside a sharp edge noise pushes points outward on average, which turns a partly scanned body: `likelihood.refine` takes that
bias away, from wherever the iterations end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from geosim.apps.compare.surface import ComparedSurface
from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Bools, Floats, Ints, floats
from geosim.errors import InputError

MIN_SPREAD_M = 1e-9  # spread [m] of exact points: rounding of positions of the order of a metre is far below
JUDGED_POINT_SHARE = 0.85  # part of the points that a rough pose is judged by: scans miss parts and hold strays
PARTIAL_SCAN_RATIO = (
    0.75  # length of a scan over the body's below which it may lie anywhere along the body, in any direction
)
PARTIAL_SCAN_PLACES = 5  # along the body at which a partial scan is tried
OUTLIER_SPREADS = 4.0  # beyond which a normal distribution has no points
EDGE_BAND_SPREADS = 2.0  # in spreads of the scan
MIN_EDGE_FREE_SHARE = 0.3  # part of the points beside no edge that is enough: a body that is all edges keeps them
MAX_KEPT_POSES = 12  # of those tried, the best so many are refined and told apart


def apply(transform: Floats, points: ArrayLike) -> Floats:
    """Move points (n, 3) by a rigid transform (4, 4)."""
    return np.asarray(points) @ transform[:3, :3].T + transform[:3, 3]


def rigid(rotation: ArrayLike, translation: ArrayLike) -> Floats:
    """Return the transform (4, 4) of a rotation (3, 3) and a translation (3,)."""
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = rotation, translation
    return transform


def moved(transform: Floats, step: Floats, centre: Floats) -> Floats:
    """Return a transform followed by a small motion: rotation vector and translation (6,) about a centre."""
    turn = Rotation.from_rotvec(step[:3]).as_matrix()
    return rigid(turn, centre + step[3:] - turn @ centre) @ transform


def check_enough(counted: Bools) -> None:
    """Refuse a registration of too few points.

    Raises
    ------
    InputError
        Fewer than ten count.
    """
    min_points = 10  # points that a registration needs: six unknowns and a spread
    if counted.sum() < min_points:
        raise InputError(
            "compare: fewer than ten scan points lie near the registered region; pass register='all' or a "
            "closer transform, or for markers vertices= (--vertices)"
        )


def spread(distances: Floats) -> float:
    """Return the robust standard deviation of distances about zero."""
    # standard deviation of a normal distribution over its median absolute deviation
    scan_spread_per_mad = 1.4826
    return scan_spread_per_mad * float(np.median(np.abs(distances)))


@guarded
def kabsch(source: ArrayLike, target: ArrayLike) -> Floats:
    """Return the rigid transform (4, 4) that brings `source` (n, 3) onto `target` (n, 3) [Kabsch 1976].

    Rows with nan in either are left out.

    Raises
    ------
    InputError
        Fewer than three points are known in both, or they lie on one line: they fix no rotation.
    """
    a, b = (
        floats(given, f"kabsch: {name}", (None, 3), finite=False)
        for name, given in (("source", source), ("target", target))
    )
    if len(a) != len(b):
        raise InputError(f"kabsch: {len(a)} points and {len(b)}; give equally many")
    good = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    a, b = a[good], b[good]
    if len(a) < 3:
        raise InputError(f"compare: {len(a)} markers fix no pose; at least three that are not on one line are needed")
    ca, cb = a.mean(axis=0), b.mean(axis=0)
    extent = np.linalg.svd(a - ca, compute_uv=False)
    # second over first extent of markers below which they lie on a line: their noise would be levered
    collinear_extent_ratio = 1e-3
    if extent[1] <= collinear_extent_ratio * extent[0]:
        raise InputError(
            f"compare: the {len(a)} markers of the registration lie on one line and fix no pose; add one beside it"
        )
    u, _, vt = np.linalg.svd((a - ca).T @ (b - cb))
    turn = np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))])
    rotation = vt.T @ turn @ u.T
    return rigid(rotation, cb - rotation @ ca)


@dataclass(frozen=True)
class Pose:
    """A registration.

    Parameters
    ----------
    transform
        From measured to model, (4, 4).
    scale
        Robust spread of the normal distances at the end [m].
    position_error, rotation_error
        Standard errors of the pose [m], [rad], from the points and their spread; the position at the centre of the
        points.
    """

    transform: Floats
    scale: float
    position_error: float
    rotation_error: float

    @classmethod
    def estimated(cls, transform: Floats, scale: float, covariance: Floats) -> Pose:
        """Return the pose with the errors of a covariance of (rotation, translation), shape (6, 6)."""
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return cls(transform, scale, float(np.linalg.norm(errors[3:])), float(np.linalg.norm(errors[:3])))


def isolated(points: Floats) -> Bools:
    """Mark points whose neighbours are far, compared with the rest of the cloud, shape (n,)."""
    far_spreads = 6.0  # spreads of the distances between neighbours, which are no normal
    stray_neighbours = 10  # to which the distance of a point tells whether it is stray
    if len(points) <= 2 * stray_neighbours:
        return np.zeros(len(points), dtype=bool)
    distance = cKDTree(points).query(points, k=stray_neighbours + 1)[0][:, 1:].mean(axis=1)
    middle = float(np.median(distance))
    return np.asarray(distance > middle + far_spreads * max(spread(distance - middle), 0.05 * middle))


def icp(
    points: Floats,
    surface: ComparedSurface,
    start: Floats,
    *,
    allowed: Bools | None = None,
    iterations: int = 40,
    trim: float = 1.0,
) -> Pose:
    """Refine a pose by robust point-to-plane ICP.

    Parameters
    ----------
    points
        Measured points [m], shape (n, 3).
    surface
        The model.
    start
        First transform from measured to model, (4, 4).
    allowed
        Faces that may attract, shape (f,); points whose closest face is another one are ignored.
    iterations
        At most this many.
    trim
        Part of the points, the closest ones, that is used (1 = all).
    """
    transform = start.copy()
    normal_matrix, scale, count = np.eye(6), np.inf, 1
    # spreads at which a point loses its pull: 95 % of the efficiency of least squares [Tukey 1977]
    tukey_spreads = 4.685
    # last step of a registration in parts of the robot's size: far below the noise of any scanner
    last_step_rel = 3e-5
    for _ in range(iterations):
        placed = apply(transform, points)
        at, face, _, distance = surface.closest(placed)
        use = np.ones(len(points), dtype=bool) if allowed is None else allowed[face]
        check_enough(use)
        use &= np.abs(distance) <= np.quantile(np.abs(distance[use]), trim)
        scale = max(spread(distance[use]), MIN_SPREAD_M)
        weight = np.where(use, np.clip(1.0 - (distance / (tukey_spreads * scale)) ** 2, 0.0, None) ** 2, 0.0)
        centre = (weight @ placed) / weight.sum()
        normal = _normals(surface, placed - at, face, distance)
        jacobian = np.hstack([np.cross(placed - centre, normal), normal])
        normal_matrix = (jacobian * weight[:, None]).T @ jacobian
        ridge = 1e-9 * np.trace(normal_matrix) * np.eye(6)  # a plane leaves three motions free
        step = -np.linalg.solve(normal_matrix + ridge, (jacobian * weight[:, None]).T @ distance)
        count = int((weight > 0).sum())
        transform = moved(transform, step, centre)
        if np.linalg.norm(step[3:]) + np.linalg.norm(step[:3]) * surface.size < last_step_rel * surface.size:
            break
    covariance = np.asarray(np.linalg.pinv(normal_matrix) * scale**2, dtype=np.float64)
    pose = Pose.estimated(transform, scale, covariance)
    return pose if count > 6 else replace(pose, position_error=np.inf, rotation_error=np.inf)


def _normals(surface: ComparedSurface, away: Floats, face: Ints, distance: Floats) -> Floats:
    """Normals at closest points (n, 3); beyond an edge the direction to the point, normal of the rounded edge."""
    normal, gap = surface.face_normals[face], np.linalg.norm(away, axis=1)
    steep = np.abs(distance) - np.abs(np.einsum("ij,ij->i", away, normal)) > 1e-9 + 1e-6 * gap
    return np.where(steep[:, None], away / np.where(gap > 0, distance, 1.0)[:, None], normal)


def _starts(points: Floats, surface: ComparedSurface) -> list[Floats]:
    """Poses that lay the principal axes of both on each other, at many rolls; slid along a long axis."""
    sample = surface.sample(2000, np.random.default_rng(0))[0]
    (here, own, _), (there, axes, lengths) = (_principal(cloud) for cloud in (points, sample))
    extent, seen = float(np.ptp((sample - there) @ axes[:, 0])), _length(points)
    long_body_ratio = 1.7  # ratio of the first two principal lengths from which on a body has one axis
    if seen < PARTIAL_SCAN_RATIO * extent:
        choices, slides = [0, 1, 2], np.linspace(-0.5, 0.5, PARTIAL_SCAN_PLACES) * (extent - seen)
    elif lengths[0] > long_body_ratio * lengths[1]:
        # what a scan of all of a long body may miss shifts its centre along the axis
        choices, slides = [0], np.linspace(-0.5, 0.5, 3) * (1.0 - PARTIAL_SCAN_RATIO) * extent
    else:
        choices, slides = [0, 1, 2], np.zeros(1)
    out = []
    for axis, flip, roll in product(choices, (0.0, np.pi), np.arange(12) * np.pi / 6):
        cycle = np.roll(np.eye(3), axis, axis=0)  # principal axis 0 of the scan onto axis `axis` of the model
        rotation = axes @ cycle.T @ Rotation.from_euler("zx", [flip, roll]).as_matrix() @ own.T
        out += [rigid(rotation, there + slide * axes[:, 0] - rotation @ here) for slide in slides]
    return out


def _length(points: Floats) -> float:
    """Length of a cloud along its first principal axis, without its ends [m]."""
    centre, axes, _ = _principal(points)
    return float(np.ptp(without_ends((points - centre) @ axes[:, 0])))


def without_ends(values: Floats) -> Floats:
    """Return between what all but a hundredth at either end lie, (2, ...): strays do not stretch it."""
    end_share = 0.01
    return np.asarray(np.quantile(values, [end_share, 1.0 - end_share], axis=0))


def _symmetric(points: Floats, surface: ComparedSurface, pose: Floats) -> list[Floats]:
    """Poses that a scan is mistaken for: end for end, upside down, turned about the long axis, slid along it."""
    centre, axes, _ = _principal(surface.sample(2000, np.random.default_rng(0))[0])
    turns = [
        Rotation.from_rotvec(np.pi * part * axes[:, i])
        for i, part in ((0, 1.0), (1, 1.0), (2, 1.0), (0, 0.5), (0, -0.5))
    ]
    out = [rigid(r.as_matrix(), centre - r.as_matrix() @ centre) for r in turns]
    body, scan = ((cloud - centre) @ axes[:, 0] for cloud in (surface.vertices, apply(pose, points)))
    first, last = without_ends(scan)
    low, high = float(body.min() - first), float(body.max() - last)
    if high - low > (1.0 - PARTIAL_SCAN_RATIO) * np.ptp(body):
        out += [rigid(np.eye(3), slide * axes[:, 0]) for slide in np.linspace(low, high, PARTIAL_SCAN_PLACES)]
    return [move @ pose for move in out]


def _principal(cloud: Floats) -> tuple[Floats, Floats, Floats]:
    """Centre (3,), principal axes (columns, right-handed) and standard deviations along them (3,)."""
    centre = cloud.mean(axis=0)
    _, s, vt = np.linalg.svd(cloud - centre, full_matrices=False)
    return centre, vt.T * [1.0, 1.0, np.sign(np.linalg.det(vt))], s / np.sqrt(len(cloud))


def _score(points: Floats, surface: ComparedSurface, transform: Floats) -> float:
    """Root mean square distance of the closest 85 % of the points [m]."""
    distance = np.sort(np.abs(surface.closest(apply(transform, points))[3]))
    return float(np.sqrt(np.mean(distance[: int(JUDGED_POINT_SHARE * len(distance)) + 1] ** 2)))


def find_pose(points: Floats, surface: ComparedSurface) -> tuple[Floats, float, list[Floats]]:
    """Find the pose of a scan without a first guess.

    Returns
    -------
    transform, score, rivals
        From measured to model (4, 4); the rms distance of the closest 85 % of a sample of the points [m]; and other poses
        (4, 4) that fit as well (a symmetric body, a part of a prismatic one).
    """
    rng = np.random.default_rng(0)
    coarse_points, middle_points, fine_points = 300, 1500, 10000  # points used while the pose is searched
    few, more, many = (
        points[rng.choice(len(points), min(count, len(points)), replace=False)]
        for count in (coarse_points, middle_points, fine_points)
    )
    good = _candidates(few, more, surface)
    if len(good) > 1:  # nearly symmetric bodies: only all points together tell the poses apart
        good = _different([icp(many, surface, t, iterations=8).transform for t in good], few, surface)
    cap = OUTLIER_SPREADS * min(spread(surface.closest(apply(t, many))[3]) for t in good)

    gaps = np.array([np.minimum(np.abs(surface.closest(apply(t, many))[3]), cap) ** 2 for t in good])
    best = int(np.argmin(gaps.mean(axis=1)))
    gaps -= gaps[best]
    as_good = gaps.mean(axis=1) < OUTLIER_SPREADS * gaps.std(axis=1) / np.sqrt(len(many))
    return good[best], _score(many, surface, good[best]), [t for i, t in enumerate(good) if as_good[i] and i != best]


def _candidates(few: Floats, more: Floats, surface: ComparedSurface) -> list[Floats]:
    """Different poses that fit about as well as the best."""
    rough = [
        icp(few, surface, start, iterations=6, trim=JUDGED_POINT_SHARE).transform for start in _starts(more, surface)
    ]
    order = np.argsort([_score(few, surface, t) for t in rough])
    kept = _refined([rough[i] for i in order[:MAX_KEPT_POSES]], few, more, surface)
    return _refined([*kept, *_symmetric(more, surface, kept[0])], few, more, surface)


def _refined(poses: list[Floats], few: Floats, more: Floats, surface: ComparedSurface) -> list[Floats]:
    """Refine poses and return those that differ and fit about as well as the best, which comes first."""
    found = [
        icp(more, surface, t, iterations=15, trim=JUDGED_POINT_SHARE).transform for t in _different(poses, few, surface)
    ]
    found = _different(found, few, surface)
    scores = [_score(more, surface, t) for t in found]
    kept_score_ratio = 1.3  # score over the best up to which a refined pose is kept
    return [found[i] for i in np.argsort(scores)[:MAX_KEPT_POSES] if scores[i] <= kept_score_ratio * min(scores)]


def _different(poses: list[Floats], points: Floats, surface: ComparedSurface) -> list[Floats]:
    """Return the poses that place points apart from all before them."""
    kept: list[Floats] = []
    # parts of the model's size by which two poses place the points apart (rms), below which they are one
    same_pose_rms_rel = 0.03
    for pose in poses:
        gaps = [apply(pose, points) - apply(k, points) for k in kept]
        if all(np.sqrt((gap**2).sum(axis=1).mean()) > same_pose_rms_rel * surface.size for gap in gaps):
            kept.append(pose)
    return kept


def mirrored(points: Floats, surface: ComparedSurface, score: float) -> bool:
    """Tell whether the mirror image of a scan fits clearly better than the scan."""
    image = points * np.array([-1.0, 1.0, 1.0])
    # score of the mirror image over that of the scan below which the scan is mirrored
    mirrored_score_ratio = 0.6
    return find_pose(image, surface)[1] < mirrored_score_ratio * score
