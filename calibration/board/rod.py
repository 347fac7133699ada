"""A tapered rod bent by tendons and its own weight, in equilibrium.

Kirchhoff's rod with stretch, in segments of constant strain: curvatures u = (twist, two bends) [1/m] and a stretch v along
the local x axis, rotations R' = R [u]x, places p' = v R e_x. A cut at s frees the part beyond it, whose balance of forces
and moments is algebra once the shape is known. With tendons at d(s) in the section, of tension T(s), along the unit tangent
t of the tendon,

    n = W - sum T t,       m = M - sum (R d) x T t,       R^T m = K u,       R^T n . e_x = E A (v - 1),

W and M the weight beyond the cut and its moment about it [Rucker and Webster 2011, IEEE Trans. Robotics 27(6), eqs. 9-13,
solved there by shooting]. A tendon that rubs loses tension with the angle that it has turned by, T(s) = T0 exp(-mu angle(s))
(Euler and Eytelwein).

That section is linear. A section of rubber that a tendon presses together by a tenth is thicker and stiffer: with fibres of
an incompressible neo-Hookean solid, w(l) = E / 6 (l^2 + 2 / l - 3), and a section that grows by v^(-1/2) as its axis is
shortened to v, a fibre at Y has the stretch v + k Y v^(-1/2), and a unit of length stores, to the second order in u,

    A w(v) + 1/2 w''(v) I (u_y^2 + u_z^2) / v + E / 3 I u_x^2 / v.

Its derivatives by u and v take the place of K u and E A (v - 1); channels move with the section, d v^(-1/2), so that a tendon
also works when the section grows. With v = 0.87 the axis turns by a third less than K u says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Rod", "Shape", "bend"]

GRAVITY = np.array([0.0, 0.0, -9.81])  # m/s^2
AXIS = np.array([1.0, 0.0, 0.0])  # of the rod, in its own frame
STEP = 1e-6  # of strains times lengths, for differences: their root of float64 is 1.5e-8
SETTLED = 1e-9  # of strains times lengths: equilibrium
LARGEST = 0.05  # change of an angle of a segment in one iteration [rad]: beyond it steps are cut
ITERATIONS = 200


@dataclass(frozen=True)
class Rod:
    """A rod of segments.

    Parameters
    ----------
    lengths
        Of the segments [m], shape (s,).
    radii
        Of the solid round section at their middles [m], shape (s,).
    tendons
        Where tendons run at the middles, in the local y and z directions [m], shape (w, s, 2); nan beyond a tendon's end.
    """

    lengths: np.ndarray
    radii: np.ndarray
    tendons: np.ndarray

    @property
    def stations(self) -> np.ndarray:
        """Arc length of the middles [m], shape (s,)."""
        return np.cumsum(self.lengths) - 0.5 * self.lengths


@dataclass(frozen=True)
class Shape:
    """Places [m] and rotations at the ends of segments, shape (s + 1, 3) and (s + 1, 3, 3), and strains (s, 4)."""

    places: np.ndarray
    rotations: np.ndarray
    strains: np.ndarray

    def at(self, rod: Rod, s: float, offset: Any) -> np.ndarray:
        """Return where a point is [m] that is rigidly held at s [m], off the axis by an offset in the local frame [m]."""
        ends = np.concatenate([[0.0], np.cumsum(rod.lengths)])
        k = int(np.clip(np.searchsorted(ends, s) - 1, 0, len(rod.lengths) - 1))
        h = s - ends[k]
        turn = self.rotations[k] @ _turned(self.strains[k, :3] * h)
        middle = self.rotations[k] @ _turned(0.5 * self.strains[k, :3] * h)
        return self.places[k] + self.strains[k, 3] * h * middle[:, 0] + turn @ np.asarray(offset)


def _turned(w: np.ndarray) -> np.ndarray:
    """Return the rotations of rotation vectors (..., 3) by Rodrigues' formula."""
    angle = np.sqrt((w**2).sum(-1) + 1e-30)[..., None, None]
    k = np.zeros((*w.shape[:-1], 3, 3))
    k[..., 0, 1], k[..., 0, 2], k[..., 1, 2] = -w[..., 2], w[..., 1], -w[..., 0]
    k -= np.swapaxes(k, -1, -2)
    return np.eye(3) + np.sin(angle) / angle * k + (1 - np.cos(angle)) / angle**2 * (k @ k)


def _shape(rod: Rod, q: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places (b, s + 1, 3), rotations (b, s + 1, 3, 3) and those of the middles of strains (b, s, 4)."""
    count, h = len(rod.lengths), rod.lengths
    turn, half = _turned(q[..., :3] * h[:, None]), _turned(0.5 * q[..., :3] * h[:, None])
    rotations = np.empty((len(q), count + 1, 3, 3))
    rotations[:, 0] = base
    for i in range(count):
        rotations[:, i + 1] = rotations[:, i] @ turn[:, i]
    middle = rotations[:, :-1] @ half
    steps = middle[..., 0] * (q[..., 3] * h)[..., None]
    places = np.concatenate([np.zeros((len(q), 1, 3)), np.cumsum(steps, axis=1)], axis=1)
    return places, rotations, middle


@dataclass(frozen=True)
class _Loads:
    modulus: float  # Young's [Pa]
    density: float  # kg/m^3
    tensions: np.ndarray  # at the base [N] (w,)
    friction: float
    base: np.ndarray  # rotation (3, 3)
    poisson: float
    rubber: bool  # a section of neo-Hookean fibres, in place of a linear one


def _missing(rod: Rod, q: np.ndarray, load: _Loads) -> np.ndarray:
    """Return strains that the loads ask for less the strains there are, times lengths (b, s, 4)."""
    places, _, middle = _shape(rod, q, load.base)
    at = 0.5 * (places[:, 1:] + places[:, :-1])
    area = np.pi * rod.radii**2
    mass = load.density * area * rod.lengths
    beyond = np.cumsum(mass[::-1])[::-1] - 0.5 * mass
    weighted = np.cumsum((mass[:, None] * at)[:, ::-1], axis=1)[:, ::-1] - 0.5 * mass[:, None] * at
    arm = weighted - beyond[:, None] * at
    back = np.swapaxes(middle, -1, -2)
    moment = (back @ np.cross(arm, GRAVITY)[..., None])[..., 0]
    force = (back @ (beyond[:, None] * GRAVITY)[..., None])[..., 0]
    v = q[..., 3:]
    wide = v**-0.5 if load.rubber else np.ones_like(v)  # of the section, over what it was
    for line, tension in zip(rod.tendons, load.tensions):
        if tension == 0.0:
            continue
        d = np.column_stack([np.zeros(len(line)), line])
        there = np.isfinite(line[:, 0])
        slope = np.zeros_like(d)
        slope[there] = np.gradient(d[there], rod.stations[there], axis=0)
        turned = np.cumsum(np.sqrt((q[..., 1:3] ** 2).sum(-1) + 1e-20) * rod.lengths, axis=1)
        pull = np.where(there, tension * np.exp(-load.friction * turned), 0.0)[..., None]
        t = v * AXIS + wide * (np.cross(q[..., :3], d) + slope)
        t /= np.linalg.norm(t, axis=-1, keepdims=True)
        t, d = np.where(there[:, None], t, 0.0), np.where(there[:, None], d, 0.0)
        moment -= np.cross(wide * d, pull * t)
        force -= pull * t
        if load.rubber:  # what the tendon's length changes by as the section grows
            grows = np.where(there[:, None], np.cross(q[..., :3], d) + slope, 0.0)
            force[..., :1] += 0.5 * v**-1.5 * pull * (t * grows).sum(-1, keepdims=True)
    second = 0.25 * np.pi * rod.radii**4
    stiff = load.modulus * np.stack([second / (1.0 + load.poisson), second, second], axis=-1)
    h = rod.lengths[:, None]
    if load.rubber:
        return h * _rubber(
            load.modulus, area[:, None], second[:, None], q, np.concatenate([moment, force[..., :1]], -1)
        )
    return np.concatenate(
        [h * (moment / stiff - q[..., :3]), h * (force[..., :1] / (load.modulus * area)[:, None] + 1.0 - q[..., 3:])],
        -1,
    )


def _rubber(modulus: float, area: np.ndarray, second: np.ndarray, q: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Return loads (moments, force) less what a section of neo-Hookean fibres bears, over its stiffness (b, s, 4)."""
    turns, v = q[..., :3], q[..., 3:]
    bent, twisted = (turns[..., 1:] ** 2).sum(-1, keepdims=True), turns[..., :1] ** 2
    tangent = modulus * (1.0 + 2.0 * v**-3) / 3.0  # w''(v)
    bears = np.concatenate(
        [
            2.0 / 3.0 * modulus * second / v * turns[..., :1],
            tangent * second / v * turns[..., 1:],
            modulus / 3.0 * area * (v - v**-2)
            - modulus * second * ((v**-2 + 8.0 * v**-5) * bent / 6.0 + v**-2 * twisted / 3.0),
        ],
        axis=-1,
    )
    scale = np.concatenate([np.repeat(modulus * second, 3, axis=-1), modulus * area], axis=-1)
    return (loads - bears) / scale


def bend(
    rod: Rod,
    modulus: float,
    density: float,
    tensions: Any,
    base: Any = None,
    friction: float = 0.0,
    poisson: float = 0.45,
    start: Shape | None = None,
    rubber: bool = False,
) -> Shape:
    """Return the shape in equilibrium, its start at the origin.

    Parameters
    ----------
    rod, modulus, density
        What it is, of Young's modulus [Pa] and density [kg/m^3].
    tensions
        Of the tendons at the base [N], shape (w,).
    base
        Rotation of its frame at the start, shape (3, 3); default: local x turned onto -z, local z onto x.
    friction
        Of the tendons in their channels.
    poisson
        For the stiffness of twist of a linear section.
    start
        A shape near.
    rubber
        A section of neo-Hookean fibres, which grows as it is pressed together, in place of a linear one.

    Raises
    ------
    RuntimeError
        No equilibrium was found.
    """
    hanging = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    frame = hanging if base is None else np.asarray(base)
    load = _Loads(modulus, density, np.asarray(tensions, dtype=float), friction, frame, poisson, rubber)
    shape, h = (len(rod.lengths), 4), rod.lengths[:, None]
    q = np.tile([0.0, 0.0, 0.0, 1.0], (shape[0], 1)) if start is None else start.strains.copy()
    probe = np.zeros((4 * shape[0] + 1, *shape))
    probe[1:] = (STEP * np.eye(4 * shape[0])).reshape(-1, *shape)
    for _ in range(ITERATIONS):
        all_ = _missing(rod, q + probe / h, load)
        slope = (all_[1:] - all_[0]).reshape(-1, 4 * shape[0]).T / STEP
        change = np.linalg.solve(slope, -all_[0].ravel()).reshape(shape)
        largest = float(np.abs(change).max())
        q = q + min(1.0, LARGEST / largest) * change / h
        if largest < SETTLED:
            places, rotations, _ = _shape(rod, q[None], frame)
            return Shape(places[0], rotations[0], q)
    raise RuntimeError(f"no equilibrium of the rod at tensions {load.tensions} N after {ITERATIONS} iterations")
