"""A robot as a chain of rigid links with springs: kinematics, statics, and their fit to a reduced model.

Link i has two hinges and a slide along itself, q_i = (a, b, s), at X_i on the rest shape's centre line. Chamber (or cable) c
pulls on all joints as a tendon of length L_c = v_c . q with the force (1 + beta_c L_c) p_c, so that

    (K - sum_c p_c beta_c v_c v_c^T) (q - q0) = sum_c p_c (1 + beta_c v_c . q0) v_c,

linear in q, conservative, and softer or stiffer the further it goes. K comes from the compliance of the tip at rest, v, beta
and q0 from a sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares, minimize, nnls
from scipy.spatial.transform import Rotation

from geosim.apps.bridges.reduced import ReducedModel
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.measures.spine import Spine
from geosim.measures.turning import center_line
from geosim.model.robot import VolumetricRobot


@dataclass(frozen=True)
class Chain:
    """Links, springs and tendons.

    Parameters
    ----------
    places
        X_i at rest, the last one the tip [m] (l + 1, 3).
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

    def points(self, q: Floats) -> Floats:
        """Return where the ends of the links are [m] (k, l + 1, 3) for joints (k, 3 l)."""
        axes, lengths = self.axes, np.linalg.norm(np.diff(self.places, axis=0), axis=1)
        out = np.empty((len(q), self.links + 1, 3))
        out[:, 0] = self.places[0]
        turned = Rotation.identity(len(q))
        for i, (a, b, s) in enumerate(q.reshape(len(q), -1, 3).transpose(1, 2, 0)):
            turned = (
                turned * Rotation.from_rotvec(a[:, None] * axes[i, 0]) * Rotation.from_rotvec(b[:, None] * axes[i, 1])
            )
            out[:, i + 1] = out[:, i] + turned.apply((lengths[i] + s)[:, None] * axes[i, 2])
        return out

    def joints(self, points: Floats) -> Floats:
        """Return the joints (k, 3 l) whose links end at points (k, l + 1, 3): the inverse of `points`."""
        axes, lengths = self.axes, np.linalg.norm(np.diff(self.places, axis=0), axis=1)
        out = np.empty((len(points), self.links, 3))
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

    def equilibria(self, controls: Floats) -> Floats:
        """Return the joints in balance (k, 3 l) under controls (k, c)."""
        soft = np.einsum("kc,c,ci,cj->kij", controls, self.softening, self.pulls, self.pulls)
        pull = controls * (1.0 + self.softening * (self.pulls @ self.rest)) @ self.pulls
        moved = np.linalg.solve(np.diag(self.stiffness) - soft, pull[..., None])[..., 0]
        return np.asarray(self.rest + moved)

    def blocked_force(self, control: Floats, axis: int) -> float:
        """Return the force [N] along an axis x, y, z on what keeps the tip from moving along it: minimum of the energy."""
        unit = 1.0 / np.sqrt(self.stiffness)  # joints in which all springs are alike
        scale = max(float(np.abs(control) @ np.abs(self.pulls * self.equilibria(control[None])[0]).sum(axis=1)), 1e-300)
        size = float(np.linalg.norm(self.places[-1] - self.places[0]))

        def energy(y: Floats) -> float:
            q = y * unit
            long = self.pulls @ q
            spring = 0.5 * np.sum(self.stiffness * (q - self.rest) ** 2)
            return float(spring - np.sum(control * (long + 0.5 * self.softening * long**2))) / scale

        def slope(y: Floats) -> Floats:
            q = y * unit
            pull = (control * (1.0 + self.softening * (self.pulls @ q))) @ self.pulls
            return np.asarray(unit * (self.stiffness * (q - self.rest) - pull)) / scale

        def moved(y: Floats) -> Floats:
            return np.asarray((self.points(y * unit)[:, -1, axis] - self.places[-1, axis]) / size)

        motion_step_rel = 1e-4  # of the size: differences of the tip's way by joints

        def by_joints(y: Floats) -> Floats:
            steps = motion_step_rel * size * np.eye(len(y)) / np.linalg.norm(unit)
            return np.asarray((moved(y + steps) - moved(y - steps)) / (2.0 * np.diag(steps)))

        held = {"type": "eq", "fun": lambda y: moved(y[None])[0], "jac": by_joints}
        options = {"maxiter": 300, "ftol": 1e-12}
        found = minimize(energy, np.zeros(len(unit)), jac=slope, constraints=[held], method="SLSQP", options=options)
        direction = by_joints(found.x)
        return float(-(slope(found.x) @ direction) / (direction @ direction) * scale / size)

    def scaled(self, factor: float) -> Chain:
        """Return the chain with all forces this many times as large: it goes the same ways."""
        return replace(
            self, stiffness=factor * self.stiffness, pulls=factor * self.pulls, softening=self.softening / factor
        )


def points_along(model: ReducedModel, line: Spine, places: Floats, controls: Floats) -> Floats:
    """Return where the ends of links are in a reduced model under controls (k, c), (k, l + 1, 3): the last one is the tip."""
    count = len(places)
    out = np.empty((len(controls), count, 3))
    for k, coefficients in enumerate(model.outputs(controls)[:, : model.rank]):
        out[k] = center_line(line, model.rest, model.positions(coefficients), count)
    out[:, 0], out[:, -1] = places[0], model.tips(controls)
    return out


def fit_chain(
    robot: VolumetricRobot, model: ReducedModel, line: Spine, links: int, compliance: Floats, seed: int
) -> Chain:
    """Return the chain of this many links that follows a reduced model.

    Parameters
    ----------
    robot, line
        With its centre line.
    model
        Of its pressures or tensions.
    links
        Number of links.
    compliance
        Of the tip at rest [m/N] (3, 3).
    seed
        Of the sweep.

    Raises
    ------
    InputError
        The tip has no compliance along some axis.
    """
    places = center_line(line, robot.vertices, robot.vertices, links + 1)
    places[-1] = robot.tip_weights @ robot.vertices[robot.tip]
    none = np.zeros(3 * links)
    pulls = np.zeros((len(model.box), 3 * links))
    chain = Chain(places, np.ones(3 * links), none, pulls, np.zeros(len(pulls)))
    chain = replace(chain, stiffness=_stiffness(chain, compliance))
    low, high = model.box.T
    sweep = 60  # states that the chain is fitted to
    controls = np.random.default_rng(seed).uniform(low, high, (sweep, len(low)))
    controls[: len(low)] = np.where(np.eye(len(low), dtype=bool), high, low)
    wanted = points_along(model, line, places, controls)
    unit = np.abs(model.box).max(axis=1)
    q = chain.joints(wanted)
    start = np.linalg.lstsq(np.hstack([np.ones((len(q), 1)), controls / unit]), q, rcond=None)[0]
    inner_weight = 0.3  # of the joints' places beside the tip's
    weights = np.append(np.full(links - 1, inner_weight), 1.0)[:, None] / model.motion
    scale = np.maximum(np.abs(q).max(axis=0), 1e-9)

    def made(z: Floats) -> Chain:
        rows = z[: start.size].reshape(start.shape) * scale
        forces = rows[1:] * chain.stiffness / unit[:, None]
        strength = np.einsum("ci,i,ci->c", forces, 1.0 / chain.stiffness, forces) * unit
        return replace(chain, rest=rows[0], pulls=forces, softening=z[start.size :] / np.maximum(strength, 1e-300))

    def misses(z: Floats) -> Floats:
        tried = made(z)
        return np.asarray(((tried.points(tried.equilibria(controls)) - wanted)[:, 1:] * weights).ravel())

    most = np.full(start.size + len(unit), np.inf)
    max_softening = 0.9  # of the stiffness: what pressure may take away within the box
    most[start.size :] = max_softening / len(unit)
    first = np.append((start / scale).ravel(), np.zeros(len(unit)))
    found = least_squares(misses, first, bounds=(np.full(len(most), -np.inf), most), max_nfev=60)
    return made(found.x)


def _stiffness(chain: Chain, compliance: Floats) -> Floats:
    """Return springs of even bending and stretching stiffness that give the tip its compliance along three axes.

    C = sum_j J_j J_j^T / k_j with k = EI_1 / l, EI_2 / l, EA / l of the links.
    """
    lengths, axes = np.linalg.norm(np.diff(chain.places, axis=0), axis=1), chain.axes
    arms = chain.places[-1] - chain.places[:-1]
    J = np.stack([np.cross(axes[:, 0], arms), np.cross(axes[:, 1], arms), axes[:, 2]], axis=1)
    frame = axes[0]
    shares = np.einsum("l,nlm->nm", lengths, np.einsum("lmi,ni->nlm", J, frame) ** 2)
    wanted = np.einsum("ni,ij,nj->n", frame, compliance, frame)
    # Relative misses; a stiffness that the others explain already stays finite.
    found = nnls(shares / wanted[:, None], np.ones(3))[0]
    if not np.isfinite(found).all() or found.max() <= 0.0:
        raise InputError("chain: the tip does not move under forces, so there is no stiffness to fit")
    min_compliance_share = 1e-3  # of the tip's least compliance: what each kind of joint has at least
    found = np.maximum(found, min_compliance_share * wanted.min() / shares.max(axis=0))
    return np.asarray((1.0 / (lengths[:, None] * found)).ravel())
