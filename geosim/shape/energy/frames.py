"""From a scaled equilibrium to the numbers a user reads, and from frames to a `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import Floats
from geosim.collision.crossings import count_crossings
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.result import Report, Result, Status
from geosim.robot import VolumetricRobot
from geosim.shape.energy.contact import Grip
from geosim.shape.energy.problem import Evaluation, Problem

if TYPE_CHECKING:
    from geosim.shape.energy.solver import Point, ShapeState

__all__ = ["Frame", "adopt", "collect", "measure"]


@dataclass(frozen=True)
class Frame:
    """Measures of one equilibrium in SI units."""

    nodes: Floats
    volume_ratios: Floats
    chamber_volumes: Floats
    chamber_pressures: Floats
    reactions: Floats
    body_volume_ratio: float
    inverted: int
    crossings: int
    residual: float
    energy: float
    stable: float
    contact_forces: Floats
    contact_pressures: Floats
    obstacle_forces: Floats
    obstacle_moments: Floats
    penetration: float
    contacts: float
    slip_ratio: float
    rigid_poses: Floats
    rigid_forces: Floats
    rigid_moments: Floats


def measure(
    problem: Problem, point: Point, evaluation: Evaluation, residual: float, grip: Grip | None, stable: bool | None
) -> Frame:
    """Return the measures of a converged point."""
    robot = problem.robot
    all_nodes = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    held = problem.held[: point.x.size].reshape(-1, 3)
    if problem.element.order == 1:
        positions = all_nodes.copy()
        positions[problem.nodes] = problem.to_metres(point.x)
        n = len(robot.vertices)
        positions[n:] = positions[:n][robot.p2_edges].mean(axis=1)
    else:
        positions = all_nodes.copy()
        positions[problem.nodes] = problem.to_metres(point.x)
    force = np.zeros((len(all_nodes), 3))
    force[problem.nodes] = np.where(held, evaluation.force, 0.0) * problem.force_unit
    if evaluation.rigid is not None:
        force[problem.nodes] += evaluation.rigid.reactions * problem.force_unit
    return Frame(
        _without_rigid_motion(problem, positions),
        evaluation.volumes / problem.rest_chamber_volumes,
        evaluation.volumes * problem.length**3,
        point.chamber_pressures * problem.stress,
        _on_vertices(robot, force),
        evaluation.body_volume / problem.body_volume,
        problem.inverted(point.x),
        _crossings(robot, positions),
        residual,
        evaluation.energy * problem.stress * problem.length**3,
        np.nan if stable is None else float(stable),
        **_contact(problem, point, evaluation),
        **_rigid(problem, evaluation),
    )


def _rigid(problem: Problem, evaluation: Evaluation) -> dict[str, Any]:
    """Return poses of the rigid groups relative to rest, and what their supports exert at the reference points."""
    state, count = evaluation.rigid, problem.groups
    poses = np.tile(np.eye(4), (count, 1, 1))
    if state is None or problem.rigid is None:
        return {"rigid_poses": poses, "rigid_forces": np.zeros((0, 3)), "rigid_moments": np.zeros((0, 3))}
    rest = problem.to_metres(problem.rigid.points)
    poses[:, :3, :3] = state.turns
    poses[:, :3, 3] = problem.to_metres(state.points) - np.einsum("gij,gj->gi", state.turns, rest)
    return {
        "rigid_poses": poses,
        "rigid_forces": state.supports[:, :3] * problem.force_unit,
        "rigid_moments": state.supports[:, 3:] * problem.force_unit * problem.length,
    }


def _contact(problem: Problem, point: Point, evaluation: Evaluation) -> dict[str, Any]:
    """Return the measures of contact; nan where nothing can touch."""
    n, obstacles = len(problem.robot.vertices), len(problem.environment.obstacles)
    contact, forces = problem.contact, evaluation.contact
    if contact is None or forces is None:
        return {
            "contact_forces": np.full((n, 3), np.nan),
            "contact_pressures": np.full(n, np.nan),
            "obstacle_forces": np.full((obstacles, 3), np.nan),
            "obstacle_moments": np.full((obstacles, 3), np.nan),
            "penetration": np.nan,
            "contacts": np.nan,
            "slip_ratio": np.nan,
        }
    total = np.zeros((n + len(problem.robot.p2_edges), 3))
    total[problem.nodes] = -forces.force * problem.force_unit
    points = contact.metres(contact.surface.points(point.x))
    on_obstacle = -forces.on_points * problem.force_unit
    pressure = forces.pressure.sum(axis=0)
    np.maximum.at(pressure, forces.pairs.ravel(), np.repeat(forces.pair_pressure, 4))
    surface = contact.surface
    pressure /= surface.stretch(
        contact.surface.points(problem.rest),
        contact.surface.points(point.x),
        np.nonzero(pressure)[0],
        forces.on_points.sum(axis=0),
    )
    corner = np.argmax(surface.weights, axis=1)
    at_node = surface.weights.max(axis=1) > 1.0 - 1e-9
    on_nodes = np.zeros(len(total))
    on_nodes[problem.nodes[surface.nodes[at_node, corner[at_node]]]] = pressure[at_node] * problem.stress
    slipping = 0.0
    for o, obstacle in enumerate(problem.environment.obstacles):
        touches = forces.pressure[o] > 0
        if obstacle.friction > 0 and touches.any():
            traction = np.linalg.norm(forces.traction[o][touches], axis=1)
            slipping = max(slipping, float(np.max(traction / (obstacle.friction * forces.pressure[o][touches]))))
    return {
        "contact_forces": _on_vertices(problem.robot, total),
        "contact_pressures": on_nodes[:n],
        "obstacle_forces": on_obstacle.sum(axis=1),
        "obstacle_moments": np.cross(points[None], on_obstacle).sum(axis=1),
        "penetration": contact.penetration(forces.distance),
        "contacts": float(forces.count),
        "slip_ratio": slipping,
    }


def _on_vertices(robot: VolumetricRobot, force: Floats) -> Floats:
    """Nodal forces summed onto the vertices: those of a mid-edge node go half to either end, (n, 3)."""
    n = len(robot.vertices)
    out = force[:n].copy()
    for end in range(2):
        np.add.at(out, robot.p2_edges[:, end], 0.5 * force[n:])
    return out


def _crossings(robot: VolumetricRobot, positions: Floats) -> int:
    """Number of (edge, face) pairs of skin and chamber walls that cross; curved faces are split in four."""
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    faces6 = topology.curved_faces(faces, robot.p2_edges, len(robot.vertices))
    points, triangles, _, _ = topology.interpolate_p2(positions, faces6, 1)
    return int(count_crossings(points, triangles).count)


def _without_rigid_motion(problem: Problem, positions: Floats) -> Floats:
    """Positions of free bodies turned and moved back: centroid and mean rotation as at rest (best fit by mass)."""
    robot = problem.robot
    if not problem.supports.free_bodies:
        return positions
    labels = problem.supports.labels
    labels = np.concatenate([labels, labels[robot.p2_edges[:, 0]]])
    weight = np.zeros(len(positions))
    weight[problem.nodes] = problem.mass if problem.mass.sum() > 0 else 1.0
    rest = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    out = positions.copy()
    for label in problem.supports.free_bodies:
        mine = labels == label
        w = weight[mine] / weight[mine].sum()
        a, b = w @ rest[mine], w @ positions[mine]
        u, _, vt = np.linalg.svd((positions[mine] - b).T @ (w[:, None] * (rest[mine] - a)))
        turn = vt.T @ np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))]) @ u.T
        out[mine] = (positions[mine] - b) @ turn.T + a
    return out


def adopt(problem: Problem, initial: Any) -> Point:
    """Return the configuration of another state of the same robot, to start from.

    Raises
    ------
    InputError
        The state is of another robot.
    """
    from geosim.shape.energy.solver import Point

    nodes = getattr(getattr(initial, "frame", None), "nodes", None)
    robot = problem.robot
    if nodes is None or len(nodes) != len(robot.vertices) + len(robot.p2_edges):
        raise InputError("initial: the state is not one of this robot; continue only from a result of the same mesh")
    x = problem.settled((nodes[problem.nodes] - problem.center) / problem.length)
    p = np.zeros(len(problem.pressure_vertices))
    pressures = np.zeros(problem.chambers)
    other = getattr(initial, "problem", None)
    if isinstance(other, Problem):
        scale = other.stress / problem.stress
        p, pressures = initial.point.p * scale, initial.point.chamber_pressures * scale
    return Point(x, p, pressures)


def collect(
    robot: VolumetricRobot,
    environment: Environment,
    solver: Any,
    states: Sequence[ShapeState],
    reports: Sequence[Report],
    status: Status,
    message: str,
) -> Result:
    """Assemble a `Result` from the states and reports of the commands reached."""
    k, n = len(states), len(robot.vertices)
    reached = [r for r in reports if r.reached]
    stack = lambda key, width: np.array([getattr(s.frame, key) for s in states]).reshape(k, *width)  # noqa: E731
    nodes = stack("nodes", (n + len(robot.p2_edges), 3))
    trace = tuple({"frame": f, **record} for f, report in enumerate(reports) for record in report.records)
    if status is Status.CROSSED or (status is Status.CONVERGED and k and stack("crossings", ()).any()):
        worst = int(np.argmax(stack("crossings", ())))
        total = int(stack("crossings", ())[worst])
        status = Status.CROSSED
        message = f"{Status.CROSSED.value} Frame {worst} has {total} crossing pairs of edges and faces."
        if not environment.self_contact:
            message += " The environment has self_contact = False, so parts that meet pass through each other."
    accepted = (
        (Status.CONVERGED, Status.UNSTABLE)
        if environment.self_contact
        else (Status.CONVERGED, Status.UNSTABLE, Status.CROSSED)
    )
    unstable = np.flatnonzero(stack("stable", ()) == 0) if k else np.zeros(0, dtype=int)
    if status is Status.CONVERGED and len(unstable):
        status = Status.UNSTABLE
        message = f"{Status.UNSTABLE.value} Frame {unstable[0]} is the first of {len(unstable)}."
    converged = len(reached) == len(reports) and status in accepted
    frames_ = nodes[:, :n]
    return Result(
        status,
        message + _notes(states),
        converged,
        np.arange(1.0, k + 1.0),
        frames_,
        robot=robot,
        environment=environment,
        solver=solver,
        mid_edge_frames=nodes[:, n:],
        volume_ratios=stack("volume_ratios", (-1,)) if k else None,
        chamber_volumes=stack("chamber_volumes", (-1,)) if k else None,
        chamber_pressures=stack("chamber_pressures", (-1,)) if k else None,
        tip=np.einsum("t,ktd->kd", robot.tip_weights, frames_[:, robot.tip]),
        reactions=stack("reactions", (n, 3)),
        contact_forces=stack("contact_forces", (n, 3)),
        obstacle_forces=stack("obstacle_forces", (len(environment.obstacles), 3)),
        obstacle_moments=stack("obstacle_moments", (len(environment.obstacles), 3)),
        max_penetration=stack("penetration", ()),
        contact_count=stack("contacts", ()),
        stable=stack("stable", ()),
        extra={
            "contact_pressures": stack("contact_pressures", (n,)),
            "slip_ratio": stack("slip_ratio", ()),
            **{
                key: stack(key, shape)
                for key, shape in (("rigid_poses", (-1, 4, 4)), ("rigid_forces", (-1, 3)), ("rigid_moments", (-1, 3)))
                if environment.rigid_groups and k
            },
        },
        crossings=stack("crossings", ()),
        body_volume_ratio=stack("body_volume_ratio", ()),
        inverted_elements=stack("inverted", ()),
        residual=stack("residual", ()),
        energies=stack("energy", ()),
        trace=trace,
        state=states[-1] if states else None,
    )


def _notes(states: Sequence[ShapeState]) -> str:
    """Return what a user must know besides the status."""
    if states and states[-1].problem.supports.free_bodies:
        return " The body is free: six minimal constraints without reaction removed its rigid motion."
    return ""
