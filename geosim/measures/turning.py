"""Bend, twist and rotation of a robot: angles that are continuous beyond pi."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from geosim.arrays import MIN_DIVISOR, Floats, Ints, det
from geosim.measures.spine import Spine

SMOOTH_STEP_REL = 1e-6  # of a unit tangent or gradient: central differences of what is smooth are off by about 1e-10


def rigid_rotation(rest: Floats, positions: Floats, weights: Floats) -> Floats:
    """Rotation (3, 3) that fits points (t, 3), weighted (t,), best [Kabsch 1976]; nan if they lie on a line."""
    weights = weights / weights.sum()
    a, b = rest - weights @ rest, positions - weights @ positions
    u, sizes, vt = np.linalg.svd((b * weights[:, None]).T @ a)
    if len(rest) < 3 or sizes[1] < 1e-9 * sizes[0]:
        return np.full((3, 3), np.nan)
    return np.asarray(u @ np.diag([1.0, 1.0, np.sign(det(u @ vt))]) @ vt)


def rotations(spine: Spine, positions: Floats) -> Floats:
    """Rotations of the stations of a solid, the polar factors of their mean deformation gradients, (m, 3, 3)."""
    return _polar(spine.deformations(positions))


def _polar(gradients: Floats) -> Floats:
    """Rotations nearest to deformation gradients, (m, 3, 3)."""
    u, _, vt = np.linalg.svd(gradients)
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    return np.asarray(u @ vt)


def _turns(tangents: Floats) -> Floats:
    """Rotation vectors [rad] from each tangent to the next, (m - 1, 3)."""
    a, b = tangents[:-1], tangents[1:]
    across = np.cross(a, b)
    sine, cosine = np.linalg.norm(across, axis=1), np.einsum("mi,mi->m", a, b)
    angle = np.arctan2(sine, cosine)
    return np.asarray(across * np.divide(angle, sine, out=np.zeros_like(sine), where=sine > 0.0)[:, None])


def _to_the_ends(turns: Floats, stations: Floats, length: float) -> Floats:
    """Sum of turns (m - 1, ...) over a line of this length [m]: curvature goes on beyond the outer stations (m,)."""
    first = stations[0] / (stations[1] - stations[0])
    last = (length - stations[-1]) / (stations[-1] - stations[-2])
    return np.asarray(turns.sum(axis=0) + first * turns[0] + last * turns[-1])


def _bending(spine: Spine, directions: Floats) -> Floats:
    tangents = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return _to_the_ends(_turns(tangents), spine.stations, spine.length)


def bending(spine: Spine, positions: Floats) -> Floats:
    """Vector [rad] (3,) of the turning of the tangent, integral of t x dt along the line, less that at rest.

    That at rest is turned with the first station, so that a rigid motion bends nothing.
    """
    bent = _bending(spine, spine.slopes @ positions)
    at_rest = _bending(spine, spine.tangents)
    if not at_rest.any():
        return bent
    if spine.gradients is not None:
        return np.asarray(bent - rotations(spine, positions)[0] @ at_rest)
    # the first tangent stays the first one, and the plane of the first two their plane
    now, rest = (spine.slopes @ positions)[:2], spine.tangents[:2]
    turn, _ = scipy.spatial.transform.Rotation.align_vectors(now, rest, weights=[np.inf, 1.0])
    return np.asarray(bent - turn.apply(at_rest))


def bend_gradient(spine: Spine, positions: Floats) -> Floats:
    """Derivative of the bend angle by the positions [rad/m], (n, 3); of a rod, the turning at rest is held in space."""
    directions, vector = spine.slopes @ positions, bending(spine, positions)
    bent = _bending(spine, directions)
    scale = SMOOTH_STEP_REL * np.linalg.norm(directions, axis=1)
    slope = _differences(
        lambda d: float(np.linalg.norm(_bending(spine, d) + vector - bent)), directions, scale[:, None]
    )
    out = np.asarray(spine.slopes.T @ slope)
    at_rest = _bending(spine, spine.tangents)
    if spine.gradients is not None and at_rest.any():
        first = spine.deformations(positions)[:1]
        turned = lambda F: float(np.linalg.norm(bent - _polar(F)[0] @ at_rest))  # noqa: E731
        out += spine.gradients[:3].T @ _differences(turned, first, np.full(3, SMOOTH_STEP_REL))[0].T
    return np.asarray(out)


def _differences(of: Callable[[Floats], float], at: Floats, steps: Floats) -> Floats:
    """Central differences of a function by every component of an array."""
    out, steps = np.empty_like(at), np.broadcast_to(steps, at.shape)
    for place in np.ndindex(at.shape):
        sides = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved[place] += sign * steps[place]
            sides.append(of(moved))
        out[place] = (sides[0] - sides[1]) / (2.0 * steps[place])
    return out


def twisting(spine: Spine, positions: Floats) -> float:
    """Twist [rad] about the centre line: the rotation of sections against their neighbours, about the tangent at rest."""
    turn = rotations(spine, positions)
    relative = scipy.spatial.transform.Rotation.from_matrix(turn[:-1].transpose(0, 2, 1) @ turn[1:]).as_rotvec()
    middle = spine.tangents[:-1] + spine.tangents[1:]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    rates = np.einsum("mi,mi->m", relative, middle)
    return float(_to_the_ends(rates, spine.twist_stations, spine.length))


def center_line(spine: Spine, rest: Floats, positions: Floats, points: int) -> Floats:
    """Points [m] (points, 3) at equal distances along the rest line; straight on beyond the outer stations."""
    at_rest, now = (_with_ends(spine, x) for x in (rest, positions))
    known = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(at_rest, axis=0), axis=1))])
    wanted = np.linspace(0.0, known[-1], points)
    return np.stack([np.interp(wanted, known, now[:, k]) for k in range(3)], axis=1)


def _with_ends(spine: Spine, positions: Floats) -> Floats:
    """Places of the stations and of the ends of the line [m], (m + 2, 3)."""
    places, directions = np.asarray(spine.places @ positions), np.asarray(spine.slopes @ positions)
    before, after = spine.stations[0], spine.length - spine.stations[-1]
    return np.vstack([places[0] - before * directions[0], places, places[-1] + after * directions[-1]])


def tip_rotations(spine: Spine | None, rest: Floats, frames: Floats, tip: Ints, weights: Floats) -> Floats:
    """Rotation vectors [rad] (k, 3) of the rigid fit of tip vertices in frames (k, n, 3), continuous from rest.

    Rotation vectors theta + 2 pi j about the axis are equivalent. The one that continues the previous station along a
    solid's line is taken, down to the fixed end; otherwise the one of the previous frame.
    """
    out, last = np.full((len(frames), 3), np.nan), np.zeros(3)
    for i, positions in enumerate(frames):
        turn = rigid_rotation(rest[tip], positions[tip], weights)
        if np.isnan(turn).any():
            continue
        near = last
        if spine is not None and spine.gradients is not None:
            near = np.zeros(3)
            for station in rotations(spine, positions):
                near = _nearest(station, near)
        out[i] = last = _nearest(turn, near)
    return out


def _nearest(rotation: Floats, near: Floats) -> Floats:
    """Rotation vector of a rotation (3, 3) that is the nearest to another vector."""
    vector = scipy.spatial.transform.Rotation.from_matrix(rotation).as_rotvec()
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        size = float(np.linalg.norm(near))
        axis, angle = (near / size if size > np.pi else np.array([1.0, 0.0, 0.0])), 0.0
    else:
        axis = vector / angle
    turns = np.round((float(near @ axis) - angle) / (2.0 * np.pi))
    return np.asarray((angle + 2.0 * np.pi * turns) * axis)


def arc_curvature(base: Floats, rest: Floats, now: Floats) -> tuple[float, Floats]:
    """Return the curvature [1/m] of the arc from `base` that leaves it towards `rest` and ends `now`, and its gradient by `now`.

    With the chord c of length l and the angle b that it has turned by, the curvature is 2 sin(b) / l.
    """
    way, c = rest - base, now - base
    ahead, length = way / np.linalg.norm(way), float(np.linalg.norm(c))
    aside = c - (c @ ahead) * ahead
    off = float(np.linalg.norm(aside))  # 2 sin(b) / l = 2 off / l^2
    return 2.0 * off / length**2, 2.0 * aside / max(off, MIN_DIVISOR) / length**2 - 4.0 * off * c / length**4
