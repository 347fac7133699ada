"""From a scaled equilibrium to the numbers a user reads, and from frames to a `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim import topology
from geosim.arrays import Floats
from geosim.collision.crossings import count_crossings
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.result import Report, Result, Status
from geosim.robot import VolumetricRobot
from geosim.shape.problem import Evaluation, Problem

if TYPE_CHECKING:
    from geosim.shape.solver import Point, ShapeState

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


def measure(problem: Problem, point: Point, evaluation: Evaluation, residual: float) -> Frame:
    """Return the measures of a converged point."""
    robot = problem.robot
    all_nodes = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    held = problem.held[:point.x.size].reshape(-1, 3)
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
    return Frame(_without_rigid_motion(problem, positions), evaluation.volumes / problem.rest_chamber_volumes,
                 evaluation.volumes * problem.length**3,
                 point.chamber_pressures * problem.stress, _on_vertices(robot, force),
                 evaluation.body_volume / problem.body_volume,
                 problem.inverted(point.x), _crossings(robot, positions), residual,
                 evaluation.energy * problem.stress * problem.length**3)


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
    labels = np.concatenate([robot.body_labels, robot.body_labels[robot.p2_edges[:, 0]]])
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
    from geosim.shape.solver import Point

    nodes = getattr(getattr(initial, "frame", None), "nodes", None)
    robot = problem.robot
    if nodes is None or len(nodes) != len(robot.vertices) + len(robot.p2_edges):
        raise InputError("initial: the state is not one of this robot; continue only from a result of the same mesh")
    x = (nodes[problem.nodes] - problem.center) / problem.length
    p = np.zeros(len(problem.pressure_vertices))
    pressures = np.zeros(problem.chambers)
    other = getattr(initial, "problem", None)
    if isinstance(other, Problem):
        scale = other.stress / problem.stress
        p, pressures = initial.point.p * scale, initial.point.chamber_pressures * scale
    return Point(x, p, pressures)


def collect(robot: VolumetricRobot, environment: Environment, solver: Any, states: Sequence[ShapeState],
            reports: Sequence[Report], status: Status, message: str) -> Result:
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
        message = (f"{Status.CROSSED.value} Frame {worst} has {total} crossing pairs of edges and faces; contact is not in "
                   f"this model, so parts that touch pass through each other.")
    converged = len(reached) == len(reports) and status in (Status.CONVERGED, Status.CROSSED)
    frames_ = nodes[:, :n]
    return Result(
        status, message + _notes(states), converged, np.arange(1.0, k + 1.0), frames_, robot=robot,
        environment=environment, solver=solver, mid_edge_frames=nodes[:, n:],
        volume_ratios=stack("volume_ratios", (-1,)) if k else None,
        chamber_volumes=stack("chamber_volumes", (-1,)) if k else None,
        chamber_pressures=stack("chamber_pressures", (-1,)) if k else None,
        tip=np.einsum("t,ktd->kd", robot.tip_weights, frames_[:, robot.tip]),
        reactions=stack("reactions", (n, 3)),
        crossings=stack("crossings", ()), body_volume_ratio=stack("body_volume_ratio", ()),
        inverted_elements=stack("inverted", ()), residual=stack("residual", ()), energies=stack("energy", ()),
        trace=trace, state=states[-1] if states else None)


def _notes(states: Sequence[ShapeState]) -> str:
    """Return what a user must know besides the status."""
    if states and states[-1].problem.supports.free_bodies:
        return " The body is free: six minimal constraints without reaction removed its rigid motion."
    return ""
