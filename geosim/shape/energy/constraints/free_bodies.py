"""Free bodies: rigid obstacles moved by contact, friction and their weight, without inertia.

An object has six unknowns more, the motion (t, w) of its centre of mass c: where it is turns by exp(w) and goes by t. What
presses on the robot at the points q, the residual g_q, presses back; out of balance is

    F = -sum g_q - weight - lift,        M = -sum r_q x g_q - lift,        r_q = x_q - c,

with the lift of the hand that held it, which is let go along a command. Contact knows only where points are in the frame of
the object, so with its derivative H = dg/dx and J_q (t, w) = -t - w x r_q

    dg_q = sum_p H_qp (dx_p + J_p) + w x g_q,      d(F, M) = sum J_q^T (dg_q - w x g_q) + turning,

where the turning couples w with t and dx by g, and with itself by sym(g r^T) - (g . r) 1: exact without friction, and with
it where the friction goes by the configuration itself. These rows, columns and the corner are in the border of Newton's
equations (`geosim.linear.bordered`), with lengths w times the radius of the object.

Modes without stiffness (a smooth ball that spins about itself, anything that nothing touches) would leave the corner
singular: every step, but no force, is held back by springs of `STEP_HOLDING_STIFFNESS_REL` of the stiffness of the
contacts. What nothing
pushes stays where it is, and equilibria are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.model.environment import Environment
from geosim.shape.energy.contact.contact_state import Blocks, ContactForces, ContactState
from geosim.shape.energy.contact.potential import ContactPotential


@dataclass(frozen=True)
class FreeBodies:
    """The free objects of an environment, scaled.

    Parameters
    ----------
    ids
        Which obstacles they are, (f,).
    middles, radii
        Centres of mass where they were defined (f, 3), and how far they reach from there (f,).
    weights
        (f, 3).
    released
        For how many commands they are held, (f,).
    length, center
        Unit [m] and origin [m] of scaled positions.
    """

    ids: Ints
    middles: Floats
    radii: Floats
    weights: Floats
    released: Ints
    length: float
    center: Floats

    @property
    def volumes(self) -> Floats:
        """Volumes of balls of their radii, (f,)."""
        return np.asarray(4.0 / 3.0 * np.pi * self.radii**3)

    def poses(self, places: Floats) -> Floats:
        """Poses [m] (f, 4, 4) of objects at places (f, 6): the way of their centre, and a rotation vector."""
        out = np.tile(np.eye(4), (len(places), 1, 1))
        out[:, :3, :3] = (
            scipy.spatial.transform.Rotation.from_rotvec(places[:, 3:]).as_matrix() if len(places) else out[:, :3, :3]
        )
        middles = self.middles * self.length + self.center
        out[:, :3, 3] = middles + places[:, :3] * self.length - np.einsum("fij,fj->fi", out[:, :3, :3], middles)
        return out

    def places(self, poses: Floats) -> Floats:
        """Places (f, 6) of objects at poses [m] of all obstacles (o, 4, 4)."""
        out, middles = np.zeros((len(self.ids), 6)), self.middles * self.length + self.center
        for f, pose in enumerate(poses[self.ids]):
            out[f, :3] = (pose[:3, :3] @ middles[f] + pose[:3, 3] - middles[f]) / self.length
            out[f, 3:] = scipy.spatial.transform.Rotation.from_matrix(pose[:3, :3]).as_rotvec()
        return out

    def sizes(self, wrenches: Floats) -> Floats:
        """Sizes of forces and of moments over the radius (f, 6), the latter after the former, (2 f,)."""
        forces, moments = np.linalg.norm(wrenches.reshape(-1, 2, 3), axis=2).T
        return np.concatenate([forces, moments / self.radii])

    def springs(self, stiffness: Floats, motion: Floats) -> Floats:
        """Forces and moments (f, 6) of springs (f,) after motions (f, 6), which turn as they go at the radius."""
        return stiffness[:, None] * np.hstack([motion[:, :3], motion[:, 3:] * self.radii[:, None] ** 2])


def make_free_bodies(environment: Environment, length: float, center: Floats, force: float) -> FreeBodies:
    """Return the free objects of an environment in units of length [m] and force [N]."""
    ids = np.array([o for o, obstacle in enumerate(environment.obstacles) if obstacle.free], dtype=np.int64)
    chosen = [environment.obstacles[o] for o in ids]
    return FreeBodies(
        frozen(ids),
        frozen((np.array([o.middle for o in chosen]).reshape(-1, 3) - center) / length),
        frozen(np.array([o.radius for o in chosen]) / length),
        frozen(np.array([o.mass for o in chosen]).reshape(-1, 1) * environment.gravity / force),
        frozen(np.array([o.released for o in chosen], dtype=np.int64)),
        length,
        center,
    )


def moved(places: Floats, motion: Floats) -> Floats:
    """Places (f, 6) after motions (f, 6)."""
    if not len(places):
        return places
    out = places + motion
    out[:, 3:] = (
        scipy.spatial.transform.Rotation.from_rotvec(motion[:, 3:])
        * scipy.spatial.transform.Rotation.from_rotvec(places[:, 3:])
    ).as_rotvec()
    return out


def motion_between(before: Floats, after: Floats) -> Floats:
    """Motions (f, 6) from places to others."""
    if not len(before):
        return before
    out = after - before
    out[:, 3:] = (
        scipy.spatial.transform.Rotation.from_rotvec(after[:, 3:])
        * scipy.spatial.transform.Rotation.from_rotvec(before[:, 3:]).inv()
    ).as_rotvec()
    return out


@dataclass(frozen=True)
class FreeBodyBorder:
    """Rows, columns (m, nodes, 3) and corner (m, m) of the objects in the border of Newton's equations; what is missing (m,)."""

    rows: Floats
    columns: Floats
    corner: Floats
    gap: Floats

    def appended(
        self, borders: Floats, columns: Floats, gap: Floats, corner: Floats, free: Bools, shift: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return rows, columns, gap and corner of a border with these.

        `free` says which of the components of the nodes are, `shift` what the others move in any case.
        """
        count, more = len(gap), len(self.gap)
        rows, own = (part.reshape(more, -1) for part in (self.rows, self.columns))
        wide = np.zeros((2, more, borders.shape[1]))
        wide[0, :, : len(free)], wide[1, :, : len(free)] = rows * free, own * free
        whole = np.zeros((count + more, count + more))
        whole[:count, :count], whole[count:, count:] = corner, self.corner
        return (
            np.vstack([borders, wide[0]]),
            np.vstack([columns, wide[1]]),
            np.concatenate([gap, self.gap - rows @ shift]),
            whole,
        )


@dataclass(frozen=True)
class FreeBodyMotion:
    """What becomes of the free objects on the way to a target.

    Parameters
    ----------
    objects
        The objects.
    moving
        Which of them move, bool (f,); others are held, or lost.
    lost
        Which of them are gone, bool (f,).
    lift
        Force and moment about the centre of the hand that lets go, (f, 6).
    places
        Where they are: way of the centre and rotation vector, (f, 6).
    """

    objects: FreeBodies
    moving: Bools
    lost: Bools
    lift: Floats
    places: Floats

    def towards(self, end: FreeBodyMotion, share: float) -> FreeBodyMotion:
        """Return what it is a share of the way to another target."""
        return replace(end, lift=(1.0 - share) * self.lift + share * end.lift)

    def at(self, places: Floats) -> FreeBodyMotion:
        """Return the same with the objects at places."""
        return replace(self, places=places)

    def held(self) -> FreeBodyMotion:
        """Return the same with nothing moving."""
        return replace(self, moving=np.zeros_like(self.moving))

    @property
    def falls(self) -> bool:
        """Whether something moves that nothing but the hand has touched yet."""
        weightless = self.lift[:, :3] + self.objects.weights
        return bool((self.moving & ~weightless.any(axis=1)).any())

    def contact_state(self, contact_state: ContactState) -> ContactState:
        """Return a grip with these objects where they are; the lost ones out of reach."""
        poses, ids = contact_state.poses.copy(), self.objects.ids
        poses[ids] = self.objects.poses(self.places)
        # Lost bodies are put so far away, over the size of the robot and their own: nothing reaches them.
        lost_distance_rel = 1e3
        reach = lost_distance_rel * self.objects.length * (1.0 + self.objects.radii[self.lost])
        poses[ids[self.lost], :3, 3] = reach[:, None]
        return contact_state.at(poses)

    def wrenches(self, contact: ContactPotential, x: Floats, forces: ContactForces) -> Floats:
        """What is out of balance on every object, without the lift: force and moment about its centre, (f, 6)."""
        points = contact.surface.points(x)
        out = np.zeros((len(self.moving), 6))
        for f, o in enumerate(self.objects.ids):
            push = forces.on_points[o]
            mine = np.flatnonzero(push.any(axis=1))
            out[f, :3] = push[mine].sum(axis=0) - self.objects.weights[f]
            out[f, 3:] = np.cross(points[mine] - self._center(f), push[mine]).sum(axis=0)
        return out

    def balance(self, contact: ContactPotential, x: Floats, forces: ContactForces) -> Floats:
        """What is out of balance on every object that moves, (f, 6)."""
        return np.where(self.moving[:, None], self.wrenches(contact, x, forces) - self.lift, 0.0)

    def _center(self, f: int) -> Floats:
        return np.asarray(self.objects.middles[f] + self.places[f, :3])

    def spent(self, contact: ContactPotential, forces: ContactForces) -> Bools:
        """Which of those that move have spent the friction that their contacts allow, or have none, bool (f,)."""
        out = self.moving.copy()
        # A free body counts as about to be lost where less than this share of the friction that its contacts can
        # bear is unused.
        lost_friction_reserve = 0.1
        for f in np.flatnonzero(self.moving):
            o = self.objects.ids[f]
            most = contact.obstacles.friction[o] * forces.push[o].sum()
            out[f] = np.linalg.norm(forces.drag[o], axis=1).sum() >= (1.0 - lost_friction_reserve) * most
        return out

    def falls_past(self, contact: ContactPotential, x: Floats, forces: ContactForces) -> Bools:
        """Which of those that move touch nothing and have nothing of the robot below them, bool (f,)."""
        out, points = self.moving.copy(), contact.surface.points(x)
        margin = 0.1  # beside the fall, over the size of the robot: it moves while the hand lets go
        for f in np.flatnonzero(self.moving).tolist():
            weight = float(np.linalg.norm(self.objects.weights[f]))
            arm, reach = points - self._center(f), float(self.objects.radii[f]) + margin
            down = arm @ self.objects.weights[f] / (weight or 1.0)
            beside = np.linalg.norm(arm, axis=1) ** 2 - down**2
            below = (down > -reach) & (beside < reach**2)
            out[f] = weight > 0.0 and not below.any() and not forces.push[self.objects.ids[f]].any()
        return out

    def motion(self, change: Floats) -> Floats:
        """Motions (f, 6) of a change of the unknowns of those that move, (m,)."""
        out = np.zeros_like(self.places)
        out[self.moving] = change.reshape(-1, 6)
        out[:, 3:] /= self.objects.radii[:, None]
        return out

    def coupling(
        self,
        contact: ContactPotential,
        x: Floats,
        forces: ContactForces,
        missing: Floats,
        stiffness: Floats,
        levels: Sequence[str],
        *,
        own: bool,
    ) -> FreeBodyBorder:
        """Return what couples the objects that move with the nodes.

        Parameters
        ----------
        contact, x, forces
            Contact at scaled positions x (nodes, 3), evaluated with its tangent.
        missing, stiffness
            What is out of balance (f, 6), and springs that hold every object [scaled], (f,).
        levels
            Parts of the tangent of contact that are in use: "stiff", "bends", "slides".
        own
            See `ContactState`.
        """
        # Stiffness that holds steps back, over that of the contacts: robots are a thousandth to a hundred-thousandth as
        # stiff as those.
        step_holding_stiffness_rel = 1e-8
        points, obstacles = contact.surface.points(x), len(contact.environment.obstacles)
        rows: list[Floats] = []
        columns: list[Floats] = []
        corners, gaps = [], []
        # How far an object falls in one step, over the size of the robot, where it touches nothing.
        free_fall_step_rel = 0.1
        for f in np.flatnonzero(self.moving).tolist():
            o, arm, radius = int(self.objects.ids[f]), points - self._center(f), self.objects.radii[f]
            maps = np.zeros((len(points), 3, 6))
            maps[:, :, :3], maps[:, :, 3:] = -np.eye(3), _skew(arm) / radius
            parts = [group for level in levels for group in forces.of_obstacle(level, o, obstacles)]
            row, column, corner = _condensed(parts, maps)
            turning = np.zeros((len(points), 3))
            if "bends" in levels:
                turning -= forces.on_points[o] + forces.drag[o]
            if "slides" in levels and own:
                turning += forces.drag[o]
            turn = _skew(turning) / radius
            row[:, :, 3:] += turn.transpose(0, 2, 1)
            column[:, :, 3:] -= turn
            corner[:3, 3:] += turn.sum(axis=0)
            corner[3:, :3] -= turn.sum(axis=0)
            mixed = turning.T @ arm / radius**2
            corner[3:, 3:] += 0.5 * (mixed + mixed.T) - np.trace(mixed) * np.eye(3)
            gap = missing[f].copy()
            gap[3:] /= radius
            gaps.append(gap)
            stiffest = np.abs(np.diag(corner)).max()
            held_back = (
                step_holding_stiffness_rel * stiffest
                if stiffest > 0.0
                else np.linalg.norm(gap) / free_fall_step_rel + step_holding_stiffness_rel * radius
            )
            corners.append(corner + (held_back + stiffness[f]) * np.eye(6))
            for parts_of, out in ((row, rows), (column, columns)):
                out += [contact.surface.to_nodes(parts_of[:, :, k], contact.nodes) for k in range(6)]
        m = 6 * len(corners)
        corner = np.zeros((m, m))
        for k, block in enumerate(corners):
            corner[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = block
        return FreeBodyBorder(-np.array(rows), -np.array(columns), corner, np.concatenate(gaps))


def _skew(v: Floats) -> Floats:
    """Matrices (k, 3, 3) of v x."""
    out = np.zeros((len(v), 3, 3))
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -v[:, 2], v[:, 1], -v[:, 0]
    return out - out.transpose(0, 2, 1)


def _condensed(parts: Sequence[Blocks], maps: Floats) -> tuple[Floats, Floats, Floats]:
    """Rows and columns by point (p, 3, 6), and the corner J^T H J (6, 6), of blocks H with the maps J (p, 3, 6)."""
    row, column, corner = np.zeros_like(maps), np.zeros_like(maps), np.zeros((6, 6))
    for groups, blocks in parts:
        there = maps[groups]
        forward = np.einsum("kabij,kbjm->kaim", blocks, there)
        np.add.at(column, groups, forward)
        np.add.at(row, groups, np.einsum("kabij,kaim->kbjm", blocks, there))
        corner += np.einsum("kaim,kain->mn", there, forward)
    return row, column, corner
