"""Measures of an equilibrium in SI units, and the initial guess from the shape of another state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.crossings import count_crossings
from geosim.collision.proximity import closest
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.contract import Frame, State
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.contact.contact_state import ContactForces, ContactState
from geosim.shape.energy.contact.penetration import deepest_penetration
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.contact.surface import FACE_SPLIT_LEVEL
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import Configuration, Evaluation, LoadState

FRAME_FIELDS = {field.name for field in fields(Frame)}


def measure(
    problem: ShapeProblem,
    point: Configuration,
    evaluation: Evaluation,
    residual: float,
    target: LoadState,
    stable: bool | None,
    friction_work: float = 0.0,
    note: str = "",
    *,
    searched: bool = True,
) -> Frame:
    """Return the measures of a point that balances a target.

    `friction_work` is the work against friction so far [J], `note` says what happened on the way. Unless `searched`, nothing
    looks for surfaces that cross and elements that are inside out, which are nan then.
    """
    free_body_note = "The body is free: six minimal constraints without reaction removed its rigid motion."
    robot = problem.robot
    driven: dict[str, Any] = {}
    modes = np.zeros(problem.scalars, dtype=np.int64) if point.hold is None else point.hold.modes
    for one, mine in problem.constraints.parts:
        at = point.x, evaluation.scalars[mine], point.scalar_forces[mine], modes[mine]
        driven |= one.measures(problem, *at)
    held = problem.held[: point.x.size].reshape(-1, 3)
    positions = placed(problem, point.x)
    force = np.zeros_like(positions)
    force[problem.nodes] = np.where(held, evaluation.force, 0.0) * problem.force_unit
    if evaluation.rigid is not None:
        force[problem.nodes] += evaluation.rigid.reactions * problem.force_unit
    contact, extra = _contact(problem, point, evaluation, positions, target)
    inverted = problem.inverted(point.x) if searched else np.nan
    return Frame(
        _without_rigid_motion(problem, positions)[0],
        **{name: driven.pop(name) for name in list(driven) if name in FRAME_FIELDS},
        reactions=_on_vertices(robot, force),
        body_volume_ratio=evaluation.body_volume / problem.body_volume,
        inverted_elements=inverted,
        crossings=_crossings(problem, point, positions, folded=inverted > 0) if searched else np.nan,
        residual=residual,
        energies=evaluation.energy * problem.stress * problem.length**3,
        stable=np.nan if stable is None else float(stable),
        extra={
            "mean_stress": _on_pressure_vertices(problem, point.p),
            "friction_work": friction_work,
            "inverted_points": problem.inverted_points(point.x) if searched else np.nan,
            **driven,
            **extra,
            **_rigid(problem, evaluation),
        },
        note=free_body_note if problem.supports.free_bodies else note,
        **contact,
    )


def positions(problem: ShapeProblem, x: Floats) -> Floats:
    """Return the positions [m] that a frame shows of scaled ones: vertices, then mid-edges; free bodies moved back."""
    return _without_rigid_motion(problem, placed(problem, x))[0]


def positions_adjoint(problem: ShapeProblem, x: Floats, slopes: Floats) -> Floats:
    """Return gradients by scaled positions (m, nodes, 3) from those by the `positions` of the vertices, (m, n, 3)."""
    out = np.zeros((len(slopes), len(problem.place), 3))
    out[:, : slopes.shape[1]] = slopes
    for free in _without_rigid_motion(problem, placed(problem, x))[1]:
        out = free.pulled_back(out)
    return np.ascontiguousarray(out[:, problem.nodes]) * problem.length


def placed(problem: ShapeProblem, x: Floats) -> Floats:
    """Return positions [m] of all nodes of the robot; those that are in no element of this order stay between their ends."""
    robot = problem.robot
    out = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    out[problem.nodes] = problem.to_metres(x)
    return topology.with_mid_edges(out[: len(robot.vertices)], robot.p2_edges) if problem.element.order == 1 else out


def _rigid(problem: ShapeProblem, evaluation: Evaluation) -> dict[str, Any]:
    """Return poses of the rigid groups relative to rest, and what their supports exert at the reference points."""
    state = evaluation.rigid
    if state is None or problem.rigid is None:
        return {}
    poses = np.tile(np.eye(4), (problem.groups, 1, 1))
    rest = problem.to_metres(problem.rigid.points)
    poses[:, :3, :3] = state.turns
    poses[:, :3, 3] = problem.to_metres(state.points) - np.einsum("gij,gj->gi", state.turns, rest)
    return {
        "rigid_poses": poses,
        "rigid_forces": state.supports[:, :3] * problem.force_unit,
        "rigid_moments": state.supports[:, 3:] * problem.force_unit * problem.length,
    }


def _contact(
    problem: ShapeProblem, point: Configuration, evaluation: Evaluation, positions: Floats, target: LoadState
) -> tuple[dict[str, Any], dict[str, Floats | float]]:
    """Return the measures of contact, and those that only this solver has; nan where nothing can touch."""
    n, contact_state = len(problem.robot.vertices), target.contact_state
    contact, forces = problem.contact, evaluation.contact
    if contact is None or forces is None:
        none = np.zeros(len(problem.environment.obstacles))
        return {}, {
            "contact_pressures": np.full(n, np.nan),
            "slip_ratio": np.nan,
            "contact_energy": 0.0,
            "contact_of_gap": 0.0,
            "normal_forces": none,
        }
    total = np.zeros((n + len(problem.robot.p2_edges), 3))
    total[problem.nodes] = -forces.force * problem.force_unit
    on_obstacle, on_nodes, moments, slipping = (
        -forces.on_points * problem.force_unit,
        np.zeros(n),
        np.zeros((0, 3)),
        0.0,
    )
    if forces.count or len(on_obstacle):
        points = contact.surface.points(point.x)
        on_nodes, slipping = _pressures(problem, contact, forces, points), _rubbing(points, contact_state)
        moments = np.cross(contact.metres(points)[None], on_obstacle).sum(axis=1)
    for o, obstacle in enumerate(problem.environment.obstacles):
        touches = forces.push[o] > 0
        if obstacle.friction > 0 and touches.any():
            drag = np.linalg.norm(forces.drag[o][touches], axis=1)
            slipping = max(slipping, float(np.max(drag / (obstacle.friction * forces.push[o][touches]))))
    measures = {
        "contact_forces": _on_vertices(problem.robot, total),
        "obstacle_forces": on_obstacle.sum(axis=1),
        "obstacle_moments": moments,
        **_obstacles(problem, point, target),
        "max_penetration": _penetration(problem, positions, contact_state),
        "contact_count": float(forces.count),
    }
    stored = forces.energy * problem.stress * problem.length**3
    return measures, {
        "contact_pressures": on_nodes,
        "slip_ratio": slipping,
        "contact_energy": stored,
        "contact_of_gap": _share_of_gaps(contact, point.x),
        "normal_forces": forces.push.sum(axis=1) * problem.force_unit,
    }


def _pressures(problem: ShapeProblem, contact: ContactPotential, forces: ContactForces, points: Floats) -> Floats:
    """Pressures of contact [Pa] on the area as it is now, at the vertices (n,), by scaled points of the surface (p, 3)."""
    surface, out = contact.surface, np.zeros(len(problem.robot.vertices) + len(problem.robot.p2_edges))
    pressure = (forces.pressure + forces.by_faces / surface.areas).sum(axis=0)
    np.maximum.at(pressure, forces.pairs.ravel(), np.repeat(forces.pair_pressure, 4))
    pressed = np.nonzero(pressure)[0]
    pressure /= surface.stretch(surface.points(problem.rest), points, pressed, forces.on_points.sum(axis=0))
    corner, at_node = np.argmax(surface.weights, axis=1), surface.weights.max(axis=1) > 1.0 - 1e-9
    out[problem.nodes[surface.nodes[at_node, corner[at_node]]]] = pressure[at_node] * problem.stress
    return out[: len(problem.robot.vertices)]


def _obstacles(problem: ShapeProblem, point: Configuration, target: LoadState) -> dict[str, Any]:
    """Return the poses [m] of the obstacles, of lost objects the last in which they were held, and which are held."""
    assert target.contact_state is not None
    poses, held = target.contact_state.poses.copy(), np.ones(len(target.contact_state.poses), dtype=bool)
    if target.free_bodies is not None:
        poses[problem.objects.ids] = problem.objects.poses(point.objects)
        held[problem.objects.ids] = ~target.free_bodies.lost
    return {"obstacle_poses": poses, "obstacle_held": held}


def _on_pressure_vertices(problem: ShapeProblem, p: Floats) -> Floats:
    """What incompressibility adds to the mean stress [Pa], (n,); nan where no pressure is."""
    out = np.full(len(problem.robot.vertices), np.nan)
    out[problem.pressure_vertices] = p * problem.stress
    return out


def _rubbing(points: Floats, contact_state: ContactState | None) -> float:
    """Largest |f_t| / (mu f_n) of the pairs of parts that touch."""
    if contact_state is None or contact_state.parts is None or contact_state.parts.held is None:
        return 0.0
    slip, scale = np.linalg.norm(contact_state.parts.slips(points)[0], axis=1), contact_state.parts.held.scale
    return float(np.max(slip / np.maximum(slip, scale), initial=0.0))


def _share_of_gaps(contact: ContactPotential, x: Floats) -> float:
    """Distance from which parts that touch across a gap feel each other, over that at rest: the median; 0 where none do.

    Across a gap surfaces face each other at rest; those of a fold do not.
    """
    facing = -0.5  # cosine between normals at rest of surfaces that look at each other across a gap, at most
    around = contact.neighbourhood
    if around is None:
        return 0.0
    near = around.near(x)
    if len(near.points) == 0:
        return 0.0
    rest, normals = around.features.rest, around.features.normals
    one, other = normals[near.points[:, 0]], normals[near.points[:, 3]]
    across = np.einsum("ki,ki->k", one, other) < facing * np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    if not across.any():
        return 0.0
    apart = closest(rest[near.points[across]], near.edges[across])[2]
    return float(np.median(near.reach[across] / apart))


def _penetration(problem: ShapeProblem, positions: Floats, contact_state: ContactState | None) -> float:
    """Deepest penetration [m] of obstacles at positions [m] of vertices and mid-edges; of faces that are not clamped."""
    if contact_state is None or problem.contact is None:
        return 0.0
    robot, held = problem.robot, np.zeros(len(positions), dtype=bool)
    held[problem.nodes] = problem.held[: problem.rest.size].reshape(-1, 3).all(axis=1)
    rest = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    faces6 = topology.curved_faces(robot.skin, robot.p2_edges, len(robot.vertices))
    obstacles = problem.environment.obstacles
    feels = np.asarray(~held[faces6[:, :3]].all(axis=1))
    return deepest_penetration(
        obstacles,
        contact_state.poses,
        positions,
        problem.environment.poses(-1),
        rest,
        faces6,
        feels,
        straight=problem.element.order == 1,
    )


def _on_vertices(robot: VolumetricRobot, force: Floats) -> Floats:
    """Nodal forces summed onto the vertices: those of a mid-edge node go half to either end, (n, 3)."""
    n = len(robot.vertices)
    out = force[:n].copy()
    for end in range(2):
        np.add.at(out, robot.p2_edges[:, end], 0.5 * force[n:])
    return out


def _crossings(problem: ShapeProblem, point: Configuration, positions: Floats, *, folded: bool) -> int:
    """Number of (edge, face) pairs of skin and chamber walls that cross; curved faces are split as contact does.

    Faces on both sides of the material count only where elements are inside out, `folded`; see
    `ContactNeighbourhood.crossings`.
    """
    contact = problem.contact
    if contact is not None and contact.neighbourhood is not None:
        return len(contact.neighbourhood.crossings(point.x, all_spaces=folded))
    spaces = [problem.robot.skin, *problem.robot.chamber_walls]
    return sum(_piercing(problem, positions, faces) for faces in ([np.vstack(spaces)] if folded else spaces))


def _piercing(problem: ShapeProblem, positions: Floats, faces: Ints) -> int:
    """Number of pairs of edges and faces of some faces (m, 3) of the robot that cross."""
    robot = problem.robot
    if problem.element.order == 1:
        return int(count_crossings(positions[: len(robot.vertices)], faces).count)
    faces6 = topology.curved_faces(faces, robot.p2_edges, len(robot.vertices))
    points, triangles, _, _ = topology.interpolate_p2(positions, faces6, FACE_SPLIT_LEVEL)
    return int(count_crossings(points, triangles).count)


@dataclass(frozen=True)
class _Returned:
    """The rigid motion that was taken off a free body: y = R (x - sum w x) + a, so that sum w A x y = 0 about a.

    Parameters
    ----------
    mine, weights
        Its nodes, bool (nodes,), and their weights, which add up to 1.
    turn
        R (3, 3).
    rest, now
        A and y - a of its nodes, (k, 3).
    """

    mine: Bools
    weights: Floats
    turn: Floats
    rest: Floats
    now: Floats

    def pulled_back(self, slopes: Floats) -> Floats:
        """Return gradients by x (m, nodes, 3) from those by y: the rotation follows x by S theta = -sum w A x R dx."""
        given, out = slopes[:, self.mine], slopes.copy()
        mixed = np.einsum("k,ki,kj->ij", self.weights, self.now, self.rest)
        turning = np.linalg.solve((np.trace(mixed) * np.eye(3) - mixed).T, np.cross(self.now, given).sum(axis=1).T).T
        given = given - self.weights[:, None] * np.cross(turning[:, None], self.rest)
        given = given @ self.turn
        out[:, self.mine] = given - self.weights[:, None] * given.sum(axis=1, keepdims=True)
        return out


def _without_rigid_motion(problem: ShapeProblem, positions: Floats) -> tuple[Floats, list[_Returned]]:
    """Positions of free bodies turned and moved back: centroid and mean rotation as at rest (best fit by mass)."""
    robot = problem.robot
    if not problem.supports.free_bodies:
        return positions, []
    labels = problem.supports.labels
    labels = np.concatenate([labels, labels[robot.p2_edges[:, 0]]])
    weight = np.zeros(len(positions))
    weight[problem.nodes] = problem.mass if problem.mass.sum() > 0 else 1.0
    rest = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    out, found = positions.copy(), []
    for label in problem.supports.free_bodies:
        mine = labels == label
        w = weight[mine] / weight[mine].sum()
        a, b = w @ rest[mine], w @ positions[mine]
        u, _, vt = np.linalg.svd((positions[mine] - b).T @ (w[:, None] * (rest[mine] - a)))
        turn = vt.T @ np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))]) @ u.T
        now = (positions[mine] - b) @ turn.T
        out[mine] = now + a
        found.append(_Returned(mine, w, turn, rest[mine] - a, now))
    return out, found


def adopt(problem: ShapeProblem, initial: State) -> Configuration:
    """Return the configuration of another state of the same robot, to start from.

    Raises
    ------
    InputError
        The state is of another robot.
    """
    nodes, robot = initial.frame.nodes, problem.robot
    if len(nodes) == len(robot.vertices):
        nodes = topology.with_mid_edges(nodes, robot.p2_edges)
    if len(nodes) != len(robot.vertices) + len(robot.p2_edges):
        raise InputError("initial: the state is not one of this robot; continue only from a result of the same mesh")
    x = problem.settled((nodes[problem.nodes] - problem.center) / problem.length)
    p = np.zeros(len(problem.pressure_vertices))
    forces, hold, objects = np.zeros(problem.scalars), None, np.zeros((len(problem.objects.ids), 6))
    if isinstance(initial, ShapeState):
        scale = initial.problem.stress / problem.stress
        p = initial.problem.isochoric_pressures(initial.point.x, initial.point.p) * scale
        p = problem.isochoric_pressures(x, p, back=True)
        if initial.problem.scalars != problem.scalars:
            raise InputError("initial: the state is one with other chambers, cables or fluid")
        powers = 3 - problem.constraints.length_powers
        forces = initial.point.scalar_forces * scale * (initial.problem.length / problem.length) ** powers
        hold = initial.point.hold
        if initial.point.objects.shape == objects.shape:
            objects = initial.point.objects * np.repeat([initial.problem.length / problem.length, 1.0], 3)
    return Configuration(x, p, forces, hold=hold, objects=objects)
