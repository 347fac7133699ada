"""Rigid-body constraints: vertices that move as one body, eliminated exactly from the equations.

Every node i of a group is x_i = c + R (X_i - P), with the reference point c (P at rest) and a rotation R: six degrees of
freedom, each free or prescribed. Node i sees a motion (t, w) of the group as dx_i = T_i (t, w) = t + w x r_i, r_i = x_i - c,
to second order as + w x (w x r_i) / 2. The equations of the nodes K dx = -f become

    (T^T K T + G) (t, w) = -T^T f,        G_ww = sum_i sym(f_i r_i^T) - (f_i . r_i) 1,

where T^T f are the resultant and the moment about c. A step turns the group by exp(w), so nodes never leave their
places in the group. Of forces that hold the group together only the part T (T^T T)^-1 T^T f remains as a residual: it
is zero in equilibrium. A dead moment about fixed axes has no potential; its tangent is taken symmetric. Contact looks along the
straight way of a step, from which a turning plate departs in second order.

A cap is the part of a chamber's wall that the group closes. Gas of pressure P pushes it with P a and P m, where
a = integral n dA and m = integral r x n dA turn with the group, and behind it is the volume (c . a + integral r . n dA) / 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from geosim.arrays import Bools, Floats, Ints, frozen, marked
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.constraints.supports import RigidGroup, held_nodes
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.loads import spread


def make_groups(robot: VolumetricRobot, environment: Environment) -> tuple[RigidGroup, ...]:
    """Return the rigid groups of an environment on a robot.

    Raises
    ------
    InputError
        A group has fewer than three vertices, they lie on one line, two groups share one, or it holds on to nothing.
    """
    out: list[RigidGroup] = []
    n = len(robot.vertices)
    owner = np.full(n, -1)
    # second singular value over the first, below which vertices lie on a line: far above round-off of files
    collinear_singular_ratio = 1e-6
    for g, item in enumerate(environment.rigid_groups):
        name = f"rigid group {g + 1}"
        ids = selected_ids(item.vertices, robot.vertices, name, among=robot.body_vertices)
        ids = ids[robot.body_vertices[ids]]
        if len(ids) < 3:
            raise InputError(
                f"{name}: {len(ids)} vertices of the body are no plate; select three at least, not on one line"
            )
        x = robot.vertices[ids]
        singular = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
        if singular[1] < collinear_singular_ratio * singular[0]:
            raise InputError(
                f"{name}: its {len(ids)} vertices lie on one line and fix no rotation; select one beside it"
            )
        taken = ids[owner[ids] >= 0]
        if len(taken):
            raise InputError(
                f"{name}: vertex {taken[0]} belongs to rigid group {owner[taken[0]] + 1} already; a vertex "
                f"belongs to one group, so make one of both"
            )
        owner[ids] = g
        chosen = marked(n, ids)
        weights = spread(robot, ids, 1)[:n]
        point = weights @ robot.vertices / weights.sum() if item.point is None else item.point
        nodes = held_nodes(robot, chosen)
        nodes[n + _edges_of_caps(robot, chosen)] = True
        out.append(RigidGroup(nodes, np.asarray(item.held), frozen(np.array(point))))
    return tuple(out)


def _edges_of_caps(robot: VolumetricRobot, chosen: Bools) -> Ints:
    """Rows of `robot.p2_edges` that lie in a cap and have both ends among the chosen vertices."""
    caps = np.vstack([np.empty((0, 3), dtype=np.int64), *robot.chamber_caps])
    pairs = np.unique(np.sort(caps[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1), axis=0)
    rows = topology.rows_of(robot.p2_edges, pairs[chosen[pairs].all(axis=1)])
    return rows[rows >= 0]


@dataclass(frozen=True)
class RigidCap:
    """A part of a chamber's wall that a group closes, at rest, about its reference point (scaled).

    Parameters
    ----------
    chamber, group
        Whose.
    area
        integral n dA, (3,).
    moment
        integral r x n dA, (3,).
    volume
        integral r . n dA / 3.
    """

    chamber: int
    group: int
    area: Floats
    moment: Floats
    volume: float


@dataclass(frozen=True)
class RigidState:
    """Where the groups are, and what acts on them.

    Parameters
    ----------
    points, turns
        Reference points (g, 3), scaled, and rotations (g, 3, 3).
    maps
        T of the nodes of every group, each (m, 3, 6).
    curvature
        G with that of the caps, (g, 6, 6).
    reactions
        What the groups exert on their nodes, (nodes, 3): supports, and what holds them together.
    supports
        Resultant force and moment about the reference point of the supports, (g, 6).
    """

    points: Floats
    turns: Floats
    maps: tuple[Floats, ...]
    curvature: Floats
    reactions: Floats
    supports: Floats


@dataclass(frozen=True)
class RigidGroups:
    """The rigid groups of a problem.

    Parameters
    ----------
    nodes
        Of every group.
    points, arms
        Reference points at rest (g, 3), and the nodes about them, each (m, 3); scaled.
    held
        Prescribed degrees of freedom, displacement and rotation, bool (g, 6).
    caps
        Parts of chambers that they close.
    """

    nodes: tuple[Ints, ...]
    points: Floats
    arms: tuple[Floats, ...]
    held: Bools
    caps: tuple[RigidCap, ...]

    def poses(self, x: Floats) -> tuple[Floats, Floats]:
        """Reference points (g, 3) and rotations (g, 3, 3) that fit the nodes best [Kabsch 1976]."""
        points, turns = np.empty((len(self.nodes), 3)), np.empty((len(self.nodes), 3, 3))
        for g, (ids, arms) in enumerate(zip(self.nodes, self.arms)):
            middle, now = arms.mean(axis=0), x[ids].mean(axis=0)
            u, _, vt = np.linalg.svd((arms - middle).T @ (x[ids] - now))
            turns[g] = vt.T @ np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))]) @ u.T
            points[g] = now - turns[g] @ middle
        return points, turns

    def settled(self, x: Floats) -> Floats:
        """Positions in which every group is rigid again, as near to `x` as can be."""
        return self._placed(x, *self.poses(x))

    def _placed(self, x: Floats, points: Floats, turns: Floats) -> Floats:
        out = x.copy()
        for g, (ids, arms) in enumerate(zip(self.nodes, self.arms)):
            out[ids] = points[g] + arms @ turns[g].T
        return out

    def moved(self, x: Floats, step: Floats, length: float) -> Floats:
        """Positions after a share of a step, whose rigid part turns the groups by a rotation."""
        points, turns = self.poses(x)
        out = x + length * step
        for g, (ids, arms) in enumerate(zip(self.nodes, self.arms)):
            T = _maps(arms @ turns[g].T)
            motion = np.linalg.lstsq(T.reshape(-1, 6), step[ids].ravel(), rcond=None)[0]
            points[g] += length * motion[:3]
            turns[g] = scipy.spatial.transform.Rotation.from_rotvec(length * motion[3:]).as_matrix() @ turns[g]
        return self._placed(out, points, turns)

    def rows(self, x: Floats) -> Floats:
        """Displacements of the reference points and rotation vectors, (2 g, 3)."""
        points, turns = self.poses(x)
        return (
            np.concatenate([points - self.points, scipy.spatial.transform.Rotation.from_matrix(turns).as_rotvec()])
            if len(points)
            else points
        )

    def motion(self, x: Floats, goal: Floats) -> Floats:
        """What the prescribed degrees of freedom still have to move to a goal (2 g, 3): (g, 6), 0 where free."""
        count = len(self.nodes)
        points, turns = self.poses(x)
        ahead = (
            scipy.spatial.transform.Rotation.from_rotvec(goal[count:])
            * scipy.spatial.transform.Rotation.from_matrix(turns).inv()
        )
        return np.where(self.held, np.hstack([self.points + goal[:count] - points, ahead.as_rotvec()]), 0.0)

    def at_goal(self, x: Floats, goal: Floats) -> Floats:
        """Positions with the prescribed degrees of freedom where they shall be."""
        points, turns = self.poses(x)
        motion = self.motion(x, goal)
        return self._placed(
            x,
            points + motion[:, :3],
            np.einsum("gij,gjk->gik", scipy.spatial.transform.Rotation.from_rotvec(motion[:, 3:]).as_matrix(), turns),
        )

    def lifted(self, x: Floats, motion: Floats) -> Floats:
        """Displacements of the nodes by motions (g, 6), to first order, (nodes, 3)."""
        out = np.zeros_like(x)
        for g, turn in enumerate(self.poses(x)[1]):
            out[self.nodes[g]] = _maps(self.arms[g] @ turn.T) @ motion[g]
        return out

    def close(
        self,
        x: Floats,
        pressures: Floats,
        wrenches: Floats,
        force: Floats,
        scale: Floats,
        scalars: Floats,
        gradients: Floats,
        columns: Floats | None,
    ) -> RigidState:
        """Add the caps to volumes and gradients; leave of the forces on the groups what is out of balance.

        Parameters
        ----------
        x, pressures
            Positions and chamber pressures.
        wrenches
            Forces, then moments, on the groups from outside, (2 g, 3).
        force, scale, scalars, gradients, columns
            As in `Evaluation`, changed in place.
        """
        count = len(self.nodes)
        points, turns = self.poses(x)
        maps = tuple(_maps(arms @ turn.T) for arms, turn in zip(self.arms, turns))
        curvature, gas = np.zeros((count, 6, 6)), np.zeros((count, 6))
        for g, ids in enumerate(self.nodes):
            f, r = force[ids], self.arms[g] @ turns[g].T
            mixed = f.T @ r
            curvature[g, 3:, 3:] = 0.5 * (mixed + mixed.T) - np.trace(mixed) * np.eye(3)
        for cap in self.caps:
            g, turn, pressure = cap.group, turns[cap.group], pressures[cap.chamber]
            area, moment = turn @ cap.area, turn @ cap.moment
            scalars[cap.chamber] += points[g] @ area / 3.0 + cap.volume
            wrench = np.concatenate([area, moment])
            for rows in (gradients, columns):
                if rows is not None:
                    rows[cap.chamber, self.nodes[g]] += _nearest(maps[g], wrench)
            gas[g] += pressure * wrench
            curvature[g, :3, 3:] += 0.5 * pressure * _skew(area)
            curvature[g, 3:, :3] -= 0.5 * pressure * _skew(area)
        reactions, supports = np.zeros_like(force), np.zeros((count, 6))
        for g, ids in enumerate(self.nodes):
            given = np.concatenate([wrenches[g], wrenches[count + g]]) + gas[g]
            pushed = _nearest(maps[g], given)
            scale[ids] += np.linalg.norm(pushed, axis=1)
            reactions[ids] = force[ids] - pushed
            total = np.einsum("mik,mi->k", maps[g], reactions[ids])
            supports[g] = np.where(self.held[g], total, 0.0)
            free = ~self.held[g]
            force[ids] = _nearest(maps[g][:, :, free], total[free])
        return RigidState(points, turns, maps, curvature, reactions, supports)


def _skew(v: Floats) -> Floats:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _maps(arms: Floats) -> Floats:
    """T of nodes at arms (m, 3): (m, 3, 6)."""
    out = np.zeros((len(arms), 3, 6))
    out[:, 0, 0] = out[:, 1, 1] = out[:, 2, 2] = 1.0
    out[:, 0, 4], out[:, 0, 5] = arms[:, 2], -arms[:, 1]
    out[:, 1, 5], out[:, 1, 3] = arms[:, 0], -arms[:, 2]
    out[:, 2, 3], out[:, 2, 4] = arms[:, 1], -arms[:, 0]
    return out


def _nearest(maps: Floats, wrench: Floats) -> Floats:
    """The smallest nodal forces (m, 3) of a resultant: T (T^T T)^-1 W."""
    if maps.shape[2] == 0:
        return np.zeros(maps.shape[:2])
    gram = np.einsum("mik,mil->kl", maps, maps)
    return maps @ np.linalg.solve(gram, wrench)


def make_rigids(groups: tuple[RigidGroup, ...], caps: tuple[RigidCap, ...], body: ScaledBody) -> RigidGroups | None:
    """Return the groups of a problem in scaled units, None if there are none."""
    if not groups:
        return None
    nodes = tuple(frozen(np.flatnonzero(group.nodes[body.nodes])) for group in groups)
    points = body.scaled(np.array([group.point for group in groups]))
    arms = tuple(frozen(body.rest[ids] - point) for ids, point in zip(nodes, points))
    return RigidGroups(nodes, frozen(points), arms, frozen(np.array([group.held for group in groups])), caps)
