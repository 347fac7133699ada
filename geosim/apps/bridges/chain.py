"""A robot as a chain of rigid links with springs: kinematics, statics, and their fit to equilibria of a robot.

Link i has two hinges and a slide along itself, q_i = (a, b, s), at X_i on the rest shape's centre line. Chamber (or cable) c
pulls on all joints as a tendon of length L_c = v_c . q with the force (1 + beta_c L_c) p_c. Gravity g acts at the centres of
mass c_i of the links, and a force F on the tip x, so that

    K (q - q0) = sum_c p_c (1 + beta_c v_c . q) v_c + sum_i m_i g . dc_i/dq + F . dx/dq.

The pulls alone are linear in q, conservative, and softer or stiffer the further it goes. K, v, beta and q0 come from a sweep of
controls and from equilibria under gravity in several directions and with a blocked tip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from geosim.arrays import MIN_DIVISOR, Floats, einsum
from geosim.errors import InputError

KINDS = 3  # of joints of a link: two hinges and a slide


@dataclass(frozen=True)
class Chain:
    """Links, springs and tendons.

    Parameters
    ----------
    places
        X_i at rest, the last one the tip [m] (l + 1, 3).
    masses, centers
        Of the links [kg] (l,), and where their centres of mass are at rest, from X_i [m] (l, 3).
    stiffness
        Of hinges [N m] and slides [N/m], (3 l,).
    rest
        q0 [rad, m] (3 l,).
    pulls
        v_c, forces of the joints for a unit of control c, (c, 3 l) [N m/Pa, N/Pa; for cables m, 1].
    softening
        beta_c, (c,).
    """

    places: Floats
    masses: Floats
    centers: Floats
    stiffness: Floats
    rest: Floats
    pulls: Floats
    softening: Floats

    @property
    def links(self) -> int:
        """Number of links."""
        return len(self.places) - 1

    @property
    def axes(self) -> Floats:
        """Axes of both hinges and of the slide of every link at rest, (l, 3, 3)."""
        t = np.diff(self.places, axis=0)
        t /= np.linalg.norm(t, axis=1, keepdims=True)
        across = np.eye(3)[np.argmin(np.abs(t), axis=1)]
        first = across - np.einsum("li,li->l", across, t)[:, None] * t
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        return np.stack([first, np.cross(t, first), t], axis=1)

    def moved(self, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ends of links [m] (k, l + 1, 3), centres of mass [m] (k, l, 3), and axes of joints (k, l, 3, 3) in space."""
        axes, lengths = self.axes, np.linalg.norm(np.diff(self.places, axis=0), axis=1)
        ends, centers, now = np.empty((len(q), self.links + 1, 3)), np.empty((len(q), self.links, 3)), []
        ends[:, 0] = self.places[0]
        turned = Rotation.identity(len(q))
        for i, (a, b, s) in enumerate(q.reshape(len(q), -1, KINDS).transpose(1, 2, 0)):
            first = turned.apply(axes[i, 0])
            turned = turned * Rotation.from_rotvec(a[:, None] * axes[i, 0])
            second = turned.apply(axes[i, 1])
            turned = turned * Rotation.from_rotvec(b[:, None] * axes[i, 1])
            along = turned.apply(axes[i, 2])
            now.append(np.stack([first, second, along], axis=1))
            ends[:, i + 1] = ends[:, i] + (lengths[i] + s)[:, None] * along
            centers[:, i] = ends[:, i] + s[:, None] * along + turned.apply(self.centers[i])
        return ends, centers, np.stack(now, axis=1)

    def points(self, q: Floats) -> Floats:
        """Return where the ends of the links are [m] (k, l + 1, 3) for joints (k, 3 l)."""
        return self.moved(q)[0]

    def joints(self, points: Floats) -> Floats:
        """Return the joints (k, 3 l) whose links end at points (k, l + 1, 3): the inverse of `points`."""
        axes, lengths = self.axes, np.linalg.norm(np.diff(self.places, axis=0), axis=1)
        out = np.empty((len(points), self.links, KINDS))
        turned = Rotation.identity(len(points))
        for i in range(self.links):
            way = turned.inv().apply(points[:, i + 1] - points[:, i])
            long = np.linalg.norm(way, axis=1)
            one, two, along = (way @ axis / long for axis in axes[i])
            a, b = np.arctan2(-two, along), np.arcsin(np.clip(one, -1.0, 1.0))
            out[:, i] = np.stack([a, b, long - lengths[i]], axis=1)
            turned = (
                turned * Rotation.from_rotvec(a[:, None] * axes[i, 0]) * Rotation.from_rotvec(b[:, None] * axes[i, 1])
            )
        return out.reshape(len(points), -1)

    def velocities(self, moved: tuple[Floats, Floats, Floats], points: Floats) -> Floats:
        """Return how points of the links (k, p, 3), of the last link if there are more, move with the joints, (k, 3 l, p, 3)."""
        ends, _, axes = moved
        n = KINDS * self.links
        w, hinge = axes.reshape(len(ends), n, 3), np.arange(n) % KINDS < KINDS - 1
        arms = points[:, None] - np.repeat(ends[:, :-1], KINDS, axis=1)[:, :, None]
        v = np.where(hinge[:, None, None], np.cross(w[:, :, None], arms), w[:, :, None])
        return np.asarray(v * (np.arange(points.shape[1]) >= np.arange(n)[:, None] // KINDS)[:, :, None])

    def torques(self, q: Floats, gravity: Floats, force: Floats) -> tuple[Floats, Floats]:
        """Return the forces of weights and of forces [N] on the tip (k, 3) on the joints (k, 3 l), and their derivatives.

        With the velocities v_ij of points by joints they are f_i . v_ij, and the derivatives f_i . (w_j x v_ik) for hinges j
        with the axes w_j, before k.
        """
        ends, centers, axes = moved = self.moved(q)
        v = self.velocities(moved, np.concatenate([centers, ends[:, -1:]], axis=1))
        forces = np.concatenate([self.masses[:, None] * gravity[:, None], force[:, None]], axis=1)
        axes[:, :, -1] = 0.0  # slides turn nothing
        turning = np.cross(forces[:, None], axes.reshape(len(q), -1, 3)[:, :, None])  # f . (w x v) = (f x w) . v
        upper = np.triu(np.einsum("kjpi,kmpi->kjm", turning, v))
        return np.einsum("kpi,kjpi->kj", forces, v), upper + np.swapaxes(np.triu(upper, 1), 1, 2)

    def equilibria(self, controls: Floats, gravity: Floats | None = None) -> Floats:
        """Return the joints in balance (k, 3 l) under controls (k, c) and gravity [m/s^2] (k, 3).

        Raises
        ------
        InputError
            Newton's method finds none: the robot is too soft for the gravity.
        """
        q = self.balanced(controls, np.zeros((len(controls), len(self.rest))))
        return q if gravity is None else self._held(controls, gravity, q, np.zeros(len(q)), None)[0]

    def blocked_force(self, control: Floats, axis: int, gravity: Floats | None = None) -> float:
        """Return the force [N] on a tip that is kept from moving along an axis x, y, z, where controls (c,) rise from 0.

        Raises
        ------
        InputError
            Newton's method finds no balance on the way.
        """
        gravity = np.zeros((1, 3)) if gravity is None else gravity[None]
        q, force = self.equilibria(np.zeros((1, len(control))), gravity), np.zeros(1)
        stages = 10  # of the control: from one to the next Newton's method converges
        for stage in range(1, stages + 1):
            q, force = self._held(control[None] * stage / stages, gravity, q, force, axis)
        return float(force[0])

    def _held(
        self, controls: Floats, gravity: Floats, q: Floats, force: Floats, axis: int | None
    ) -> tuple[Floats, Floats]:
        """Return joints in balance (k, 3 l) near others, and forces (k,) on tips that stay along an axis; None: they are free."""
        newton_steps, small = 30, 1e-12  # rad, m
        along, soft, border = np.zeros((len(q), 3)), self._softness(controls), np.zeros((len(q), 0, q.shape[1]))
        missing = np.zeros((len(q), 0))
        if axis is not None:
            along[:, axis] = 1.0
        for _ in range(newton_steps):
            torque, by = self.torques(q, gravity, force[:, None] * along)
            if axis is not None:
                border = self.torques(q, 0.0 * gravity, along)[0][:, None]
                missing = self.places[-1, axis] - self.points(q)[:, -1, axis][:, None]
            pull = (controls * (1.0 + self.softening * (q @ self.pulls.T))) @ self.pulls
            left = np.hstack([pull + torque - self.stiffness * (q - self.rest), missing])
            tangent = np.diag(self.stiffness) - soft - by
            corner = np.zeros((len(q), border.shape[1], border.shape[1]))
            step = np.linalg.solve(np.block([[tangent, -np.swapaxes(border, 1, 2)], [border, corner]]), left[..., None])
            q, force = q + step[:, : q.shape[1], 0], force + step[:, q.shape[1] :, 0].sum(axis=1)
            if np.abs(step[:, : q.shape[1]]).max() < small:
                return q, force
        if axis is None:
            raise InputError("write_mjcf: the chain finds no balance under gravity; give a smaller max_gravity")
        raise InputError("write_mjcf: the chain with a blocked tip finds no balance; give narrower bounds")

    def _softness(self, controls: Floats) -> Floats:
        """Return what controls (k, c) take from the stiffness of the joints, (k, 3 l, 3 l)."""
        return einsum("kc,c,ci,cj->kij", controls, self.softening, self.pulls, self.pulls)

    def balanced(self, controls: Floats, torques: Floats) -> Floats:
        """Return the joints in balance (k, 3 l) under controls (k, c) and torques that do not follow the joints (k, 3 l)."""
        pull = controls * (1.0 + self.softening * (self.pulls @ self.rest)) @ self.pulls + torques
        tangent = np.diag(self.stiffness) - self._softness(controls)
        return np.asarray(self.rest + np.linalg.solve(tangent, pull[..., None])[..., 0])


@dataclass(frozen=True)
class Loaded:
    """Equilibria that a chain is to follow.

    Parameters
    ----------
    controls
        (k, c).
    gravity
        [m/s^2] (k, 3).
    force
        On the tip [N] (k, 3).
    points
        Where the ends of links are [m] (k, l + 1, 3); the last one is the tip.
    """

    controls: Floats
    gravity: Floats
    force: Floats
    points: Floats

    @classmethod
    def joined(cls, *several: Loaded) -> Loaded:
        """Return all equilibria as one."""
        parts = zip(*((x.controls, x.gravity, x.force, x.points) for x in several))
        return cls(*map(np.concatenate, parts))


def fit_chain(places: Floats, masses: Floats, centers: Floats, free: Loaded, beside: Loaded, loaded: Loaded) -> Chain:
    """Return the chain through places (l + 1, 3) that follows equilibria.

    Parameters
    ----------
    places, masses, centers
        As of `Chain`.
    free, loaded
        Equilibria of a sweep of the controls, and under gravity and forces.
    beside
        Those of the controls of `loaded` with the loads of `free`.
    """
    links = len(places) - 1
    pulls = np.zeros((free.controls.shape[1], KINDS * links))
    chain = Chain(places, masses, centers, np.ones(KINDS * links), np.zeros(KINDS * links), pulls, np.zeros(len(pulls)))
    every = Loaded.joined(free, loaded)
    controls, wanted, q = every.controls, every.points, chain.joints(every.points)
    torques, _ = chain.torques(
        q, every.gravity, every.force
    )  # at joints it is to have: as it follows, they are its own
    before = chain.joints(beside.points)
    mine = slice(len(free.points), None)
    weights_before = chain.torques(before, beside.gravity, beside.force)[0]
    stiffness = _springs(chain, q[mine] - before, torques[mine] - weights_before)
    unit = np.abs(controls).max(axis=0)
    rows = np.hstack([np.ones((len(q), 1)), controls / unit])
    start = np.linalg.lstsq(rows, q - torques / stiffness, rcond=None)[0]
    motion = float(np.linalg.norm(wanted[:, -1] - wanted[0, -1], axis=1).max())
    # of the joints' places, of logarithms of springs, of centres of mass aside by a link's length, beside the tip's
    inner_weight, spread_weight, aside_weight = 0.1, 0.003, 0.03
    weights = np.append(np.full(links - 1, inner_weight), 1.0)[:, None] / motion
    spread_weights = np.repeat([spread_weight, aside_weight], KINDS * links)
    pulls = start[1:] * stiffness / unit[:, None]
    strength = np.maximum(np.einsum("ci,i,ci->c", pulls, 1.0 / stiffness, pulls) * unit, MIN_DIVISOR)
    n, c, length = KINDS * links, len(unit), float(np.linalg.norm(np.diff(places, axis=0), axis=1).mean())
    ends = np.cumsum([n, c * n, c, n])
    levers = _levers(chain, q, every.gravity) * length

    def made(z: Floats) -> Chain:
        rest, shape, soft, spread, aside = np.split(z, ends)
        pulls = shape.reshape(c, n) * stiffness / unit[:, None]
        springs, centers = stiffness * np.exp(spread), chain.centers + length * aside.reshape(links, 3)
        return replace(chain, stiffness=springs, rest=rest, pulls=pulls, softening=soft / strength, centers=centers)

    def balanced(tried: Chain, z: Floats) -> Floats:
        return tried.balanced(controls, torques + levers @ z[ends[3] :])

    def misses(z: Floats) -> Floats:
        tried = made(z)
        off = (tried.points(balanced(tried, z)) - wanted)[:, 1:] * weights
        return np.append(off.ravel(), spread_weights * z[ends[2] :])

    def slopes(z: Floats) -> Floats:
        tried = made(z)
        q = balanced(tried, z)
        moved = tried.moved(q)
        v = tried.velocities(moved, moved[0][:, 1:]) * weights
        # of the balance K (q - q0) = sum p (1 + beta v . q) v + torques by q0, v, beta, ln K
        long, k = q @ tried.pulls.T, tried.stiffness
        by_rest = np.broadcast_to(-np.diag(k), (len(q), n, n))
        gain, own = controls * (1.0 + tried.softening * long), controls * tried.softening
        by_pulls = -np.einsum("kc,ij->kicj", gain, np.eye(n)) - np.einsum("kc,ci,kj->kicj", own, tried.pulls, q)
        by_pulls = (by_pulls * (stiffness / unit[:, None])).reshape(len(q), n, c * n)
        by_soft = -np.einsum("kc,ci->kic", controls * long / strength, tried.pulls)
        by_springs = np.einsum("ki,ij->kij", k * (q - tried.rest), np.eye(n))
        by = -np.linalg.solve(
            np.diag(k) - tried._softness(controls),
            np.concatenate([by_rest, by_pulls, by_soft, by_springs, -levers], axis=2),
        )
        spread = np.hstack([np.zeros((2 * n, ends[2])), np.diag(spread_weights)])
        return np.vstack([np.einsum("kjpi,kjz->kpiz", v, by).reshape(-1, len(z)), spread])

    max_softening, max_spread = 0.9, 12.0  # of the stiffness, by all controls of the box; of logarithms of springs
    most = np.concatenate([np.full(n + c * n, np.inf), np.full(c, max_softening / c), np.full(2 * n, max_spread)])
    least = np.where(np.arange(len(most)) < ends[2], -np.inf, -max_spread)
    first = np.concatenate([start.ravel(), np.zeros(c + 2 * n)])
    found = least_squares(misses, first, slopes, bounds=(least, most), x_scale="jac", max_nfev=60)
    return made(found.x)


def _levers(chain: Chain, q: Floats, gravity: Floats) -> Floats:
    """Return how the forces of the weights on joints (k, 3 l) change with the centres of mass of links, (k, 3 l, 3 l)."""
    none, out = np.zeros((len(q), 3)), np.empty((*q.shape, q.shape[1]))
    at_starts = replace(chain, centers=np.zeros_like(chain.centers))
    begin = at_starts.torques(q, gravity, none)[0]
    for place in range(q.shape[1]):
        moved = np.eye(q.shape[1])[place].reshape(-1, 3)  # linear in the centres, so a step of 1 m is exact
        out[:, :, place] = replace(at_starts, centers=moved).torques(q, gravity, none)[0] - begin
    return out


def _springs(chain: Chain, moved: Floats, torques: Floats) -> Floats:
    """Return springs of even stiffness along the chain, one value for each kind of joint, by how far torques (k, 3 l) move it."""
    lengths = np.linalg.norm(np.diff(chain.places, axis=0), axis=1)
    compliance = np.zeros((chain.links, KINDS))
    for kind in range(KINDS):
        t, d = torques[:, kind::KINDS] * lengths, moved[:, kind::KINDS]
        found = float(np.sum(t * d)) / max(float(np.sum(t * t)), MIN_DIVISOR)
        min_compliance_rel = 1e-3  # of the torque's size over the motion's: a joint that answers to nothing stays stiff
        compliance[:, kind] = (
            max(found, min_compliance_rel * np.abs(d).max() / max(np.abs(t).max(), MIN_DIVISOR)) * lengths
        )
    return 1.0 / compliance.ravel()
