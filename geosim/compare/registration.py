"""Rigid registration: Kabsch on corresponding points, robust ICP on a surface, from an unknown pose.

    minimise over poses T   sum_i rho( n_i . (T x_i - y_i) ),    y_i the closest point of the surface, n_i its normal

rho is Tukey's biweight, whose scale follows the median of the residuals, so that stray points and parts that the
model does not reproduce lose their pull. Points far from all others are recognised before, in the scan itself.
Beside a sharp edge noise pushes points outward on average, which turns a partly scanned body; points nearer to a
sharp edge than twice the spread are therefore left out of the last iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from geosim.arrays import Bools, Floats
from geosim.compare.surface import Surface
from geosim.errors import InputError

__all__ = ["Pose", "apply", "find_pose", "icp", "isolated", "kabsch", "mirrored"]

TUKEY = 4.685
COARSE, MIDDLE, FINE = 300, 1500, 10000  # points used while the pose is searched
TIED = 1.05  # poses whose mean square misfits differ by less are told apart by all points
TRIED = 12  # of the rough poses, the best so many are refined
EDGE_BAND = 2.0  # in spreads of the scan
NEIGHBOURS = 10


def apply(transform: Floats, points: Any) -> Floats:
    """Move points (n, 3) by a rigid transform (4, 4)."""
    return np.asarray(points) @ transform[:3, :3].T + transform[:3, 3]


def kabsch(source: Any, target: Any) -> Floats:
    """Return the rigid transform (4, 4) that brings `source` (n, 3) onto `target` (n, 3) [Kabsch 1976].

    Rows with nan in either are left out.

    Raises
    ------
    InputError
        Fewer than three points are known in both, or they lie on one line: they fix no rotation.
    """
    a, b = np.asarray(source, dtype=float), np.asarray(target, dtype=float)
    good = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    a, b = a[good], b[good]
    if len(a) < 3:
        raise InputError(f"compare: {len(a)} markers fix no pose; at least three that are not on one line are needed")
    ca, cb = a.mean(axis=0), b.mean(axis=0)
    spread = np.linalg.svd(a - ca, compute_uv=False)
    if spread[1] < 1e-3 * spread[0] or spread[0] == 0:
        raise InputError(
            f"compare: the {len(a)} markers of the registration lie on one line and fix no pose; add one beside it"
        )
    u, _, vt = np.linalg.svd((a - ca).T @ (b - cb))
    turn = np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))])
    transform = np.eye(4)
    transform[:3, :3] = vt.T @ turn @ u.T
    transform[:3, 3] = cb - transform[:3, :3] @ ca
    return transform


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


def isolated(points: Floats, factor: float = 6.0) -> Bools:
    """Mark points whose neighbours are far, compared with the rest of the cloud, shape (n,)."""
    if len(points) <= 2 * NEIGHBOURS:
        return np.zeros(len(points), dtype=bool)
    distance = cKDTree(points).query(points, k=NEIGHBOURS + 1)[0][:, 1:].mean(axis=1)
    middle = np.median(distance)
    spread = 1.4826 * np.median(np.abs(distance - middle))
    return distance > middle + factor * max(spread, 0.05 * middle)


def icp(
    points: Floats,
    surface: Surface,
    start: Floats,
    *,
    allowed: Bools | None = None,
    iterations: int = 40,
    trim: float = 1.0,
    avoid_edges: bool = False,
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
        At most so many.
    trim
        Part of the points, the closest ones, that is used (1 = all).
    avoid_edges
        Whether points beside sharp edges are left out (see the module).
    """
    transform = start.copy()
    normal_matrix, scale, count = np.eye(6), np.inf, 1
    centre = np.zeros(3)
    for _ in range(iterations):
        moved = apply(transform, points)
        at, face, _, distance = surface.closest(moved)
        normal = surface.face_normals[face]
        away = moved - at
        gap = np.linalg.norm(away, axis=1)
        # Beyond an edge the direction to the closest point is the normal of the rounded edge.
        steep = np.abs(distance) - np.abs(np.einsum("ij,ij->i", away, normal)) > 1e-9 + 1e-6 * gap
        normal = np.where(steep[:, None], away / np.where(gap > 0, distance, 1.0)[:, None], normal)
        use = np.ones(len(points), dtype=bool) if allowed is None else allowed[face]
        if avoid_edges and np.isfinite(scale):
            flat = ~surface.beside_edge(at, EDGE_BAND * scale)
            use = use & flat if (use & flat).sum() > 0.3 * use.sum() else use
        if use.sum() < 10:
            raise InputError(
                "compare: fewer than ten scan points lie near the region of registration; pass "
                "register='all', "
                "or a transform that is nearer"
            )
        if trim < 1.0:
            use &= np.abs(distance) <= np.quantile(np.abs(distance[use]), trim)
        scale = max(1.4826 * float(np.median(np.abs(distance[use]))), 1e-9)
        weight = np.where(use, np.clip(1.0 - (distance / (TUKEY * scale)) ** 2, 0.0, None) ** 2, 0.0)
        centre = (weight @ moved) / weight.sum()
        arm = np.cross(moved - centre, normal)
        jacobian = np.hstack([arm, normal])
        normal_matrix = (jacobian * weight[:, None]).T @ jacobian
        ridge = 1e-9 * np.trace(normal_matrix) * np.eye(6)
        step = -np.linalg.solve(normal_matrix + ridge, (jacobian * weight[:, None]).T @ distance)
        count = int((weight > 0).sum())
        move = np.eye(4)
        move[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix()
        move[:3, 3] = centre + step[3:] - move[:3, :3] @ centre
        transform = move @ transform
        if np.linalg.norm(step[3:]) + np.linalg.norm(step[:3]) * surface.size < 3e-5 * surface.size:
            break
    covariance = np.linalg.pinv(normal_matrix) * scale**2
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return Pose(
        transform,
        scale,
        float(np.linalg.norm(errors[3:])) if count > 6 else np.inf,
        float(np.linalg.norm(errors[:3])) if count > 6 else np.inf,
    )


def _starts(points: Floats, surface: Surface) -> list[Floats]:
    """Poses that lay the principal axes of both on each other, at many rolls; slid along a long axis."""
    rng = np.random.default_rng(0)
    sample = surface.sample(2000, rng)[0]
    frames, centres, lengths = [], [], []
    for cloud in (points, sample):
        centre = cloud.mean(axis=0)
        _, s, vt = np.linalg.svd(cloud - centre, full_matrices=False)
        vt = vt if np.linalg.det(vt) > 0 else vt * np.array([[1.0], [1.0], [-1.0]])
        frames.append(vt.T)
        centres.append(centre)
        lengths.append(s / np.sqrt(len(cloud)))
    long = lengths[1][0] > 1.7 * lengths[1][1]
    axes = [0] if long else [0, 1, 2]
    slides = [-0.12, 0.0, 0.12] if long else [0.0]
    extent = lengths[1][0] * np.sqrt(12.0)
    out = []
    for axis in axes:
        cycle = np.roll(np.eye(3), axis, axis=0)  # principal axis 0 of the scan onto axis `axis` of the model
        for flip in (0.0, np.pi):
            for roll in np.arange(12) * np.pi / 6:
                turn = Rotation.from_euler("zx", [flip, roll]).as_matrix()
                rotation = frames[1] @ cycle.T @ turn @ frames[0].T
                for slide in slides:
                    transform = np.eye(4)
                    transform[:3, :3] = rotation
                    transform[:3, 3] = centres[1] + slide * extent * frames[1][:, axis] - rotation @ centres[0]
                    out.append(transform)
    return out


def _score(points: Floats, surface: Surface, transform: Floats) -> float:
    """Root mean square distance of the closest 85 % of the points [m]."""
    distance = np.sort(np.abs(surface.closest(apply(transform, points))[3]))
    return float(np.sqrt(np.mean(distance[: int(0.85 * len(distance)) + 1] ** 2)))


def find_pose(points: Floats, surface: Surface, seed: int = 0) -> tuple[Floats, float, float]:
    """Find the pose of a scan without a first guess.

    Returns
    -------
    transform, score, rival
        From measured to model (4, 4); the rms distance of the closest 85 % of a sample of the points [m]; and the
        angle [rad] to another pose that fits as well (a symmetric body), nan if there is none.
    """
    rng = np.random.default_rng(seed)
    few = points[rng.choice(len(points), min(COARSE, len(points)), replace=False)]
    more = points[rng.choice(len(points), min(MIDDLE, len(points)), replace=False)]
    rough = [icp(few, surface, start, iterations=6, trim=0.85).transform for start in _starts(more, surface)]
    order = np.argsort([_score(few, surface, t) for t in rough])
    kept: list[Floats] = []
    for i in order[:TRIED]:
        refined = icp(more, surface, rough[i], iterations=15, trim=0.95).transform
        if not any(np.abs(refined[:3, :3] - k[:3, :3]).max() < 0.1 for k in kept):
            kept.append(refined)
    many = points[rng.choice(len(points), min(FINE, len(points)), replace=False)]
    scores = [_score(more, surface, t) for t in kept]
    good = [kept[i] for i in np.argsort(scores)[:4] if scores[i] < 1.3 * min(scores)]
    if len(good) > 1:  # nearly symmetric bodies: only all points together tell the poses apart
        good = [icp(many, surface, t, iterations=8, avoid_edges=True).transform for t in good]
    distances = [np.abs(surface.closest(apply(t, many))[3]) for t in good]
    cap = 4.0 * 1.4826 * min(float(np.median(d)) for d in distances)
    misfit = np.array([np.mean(np.minimum(d, cap) ** 2) for d in distances])
    tied = np.flatnonzero(misfit < TIED * misfit.min())
    if len(tied) > 1 and len(points) > FINE:
        good = [icp(points, surface, good[i], iterations=8, avoid_edges=True).transform for i in tied]
        misfit = np.array([np.mean(np.minimum(np.abs(surface.closest(apply(t, points))[3]), cap) ** 2) for t in good])
    best = int(np.argmin(misfit))
    rival = np.nan
    squares = [np.minimum(np.abs(surface.closest(apply(t, many))[3]), cap) ** 2 for t in good]
    for i, t in enumerate(good):
        gap = squares[i] - squares[best]
        turn = float(Rotation.from_matrix(t[:3, :3] @ good[best][:3, :3].T).magnitude())
        if turn > 0.1 and gap.mean() < 4.0 * gap.std() / np.sqrt(len(gap)):
            rival = turn
    return good[best], _score(many, surface, good[best]), rival


def mirrored(points: Floats, surface: Surface, score: float) -> bool:
    """Tell whether the mirror image of a scan fits clearly better than the scan."""
    image = points * np.array([-1.0, 1.0, 1.0])
    return find_pose(image, surface)[1] < 0.6 * score
