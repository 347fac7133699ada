"""From an equilibrium of the projective solver to the numbers a user reads, and to a `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import Floats
from geosim.collision.crossings import count_crossings
from geosim.environment import Environment
from geosim.result import Report, Result, Status
from geosim.robot import VolumetricRobot
from geosim.shape.projective.elements import Evaluation
from geosim.shape.projective.mesh import Work

if TYPE_CHECKING:
    from geosim.shape.projective.solver import ProjectiveState

__all__ = ["ProjectiveFrame", "collect", "measure"]


@dataclass(frozen=True)
class ProjectiveFrame:
    """Measures of one equilibrium in SI units; `nodes` are vertices and straight mid-edges."""

    nodes: Floats
    volume_ratios: Floats
    chamber_volumes: Floats
    chamber_pressures: Floats
    cable_lengths: Floats
    cable_tensions: Floats
    line_forces: Floats
    reactions: Floats
    contact_forces: Floats
    obstacle_forces: Floats
    obstacle_moments: Floats
    max_penetration: float
    contact_count: int
    crossings: int
    body_volume_ratio: float
    inverted_elements: int
    residual: float
    energies: float
    remeshings: int
    jacobian_spread: float
    energy_residual: float = float("nan")


def measure(work: Work, x: Floats, evaluation: Evaluation, residual: float, penetration: float) -> ProjectiveFrame:
    """Return the measures of a point."""
    robot, springs = work.robot, work.elements.springs
    n = len(robot.vertices)
    positions = np.array(x[:n])
    loose = ~robot.body_vertices
    if work.remeshings and loose.any():  # no element carries them any more; they follow the nearest wall vertex
        positions[loose] = _carried(robot, positions)
    held = np.zeros((n, 3))
    inside = work.held[work.held < n]
    held[inside] = evaluation.force[inside]
    push, _ = springs.forces(x)
    contact = springs.on_vertices(push, work.elements.count)[:n]
    count = len(work.environment.obstacles)
    forces, moments = np.zeros((count, 3)), np.zeros((count, 3))
    for i in range(count):
        mine = springs.partner == i
        forces[i] = -push[mine].sum(axis=0)
        moments[i] = -np.cross(x[springs.ids[mine]], push[mine]).sum(axis=0)
    lines, cables = work.elements.lines, len(robot.cables)
    drag = np.zeros((n, 3)) if lines is None else -lines.evaluate(x)[0][:n]
    tensions = np.zeros(cables) if lines is None else lines.pulls(lines.measures(x))[:cables]
    volumes = work.elements.volumes(x)
    body = work.elements.body
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    rest = work.elements.cells.rest_volumes
    return ProjectiveFrame(
        nodes=np.vstack([positions, positions[robot.p2_edges].mean(axis=1)]),
        volume_ratios=volumes / rest,
        chamber_volumes=volumes,
        chamber_pressures=evaluation.pressures,
        line_forces=drag,
        cable_tensions=tensions,
        cable_lengths=np.array([a.length(x) for a in robot.cable_anchors]),
        reactions=held,
        contact_forces=contact,
        obstacle_forces=forces,
        obstacle_moments=moments,
        max_penetration=penetration,
        contact_count=int(np.any(push != 0.0, axis=1).sum()),
        crossings=count_crossings(positions, faces).count,
        body_volume_ratio=float(evaluation.jacobians @ body.volumes / body.volumes.sum()),
        inverted_elements=int((evaluation.jacobians <= 0).sum()),
        residual=residual,
        energies=evaluation.elastic,
        remeshings=work.remeshings,
        jacobian_spread=float(np.quantile(np.abs(evaluation.jacobians - 1.0), 0.95)),
    )


def _carried(robot: VolumetricRobot, positions: Floats) -> Floats:
    """Positions of vertices of chamber tets only, moved along with the nearest body vertex."""
    from scipy.spatial import cKDTree

    body = np.flatnonzero(robot.body_vertices)
    loose = np.flatnonzero(~robot.body_vertices)
    _, near = cKDTree(robot.vertices[body]).query(robot.vertices[loose])
    return robot.vertices[loose] + (positions - robot.vertices)[body[near]]


def collect(
    robot: VolumetricRobot,
    environment: Environment,
    solver: Any,
    states: Sequence[ProjectiveState],
    reports: Sequence[Report],
    status: Status,
    message: str,
) -> Result:
    """Assemble a `Result` from the states and reports of the commands reached."""
    k, n = len(states), len(robot.vertices)
    stack = lambda key, *width: np.array([getattr(s.frame, key) for s in states], dtype=float).reshape(k, *width)  # noqa: E731
    trace = tuple({"frame": f, **record} for f, report in enumerate(reports) for record in report.records)
    frames = stack("nodes", n + len(robot.p2_edges), 3)[:, :n]
    converged = all(r.reached for r in reports) and status in (Status.CONVERGED, Status.CROSSED)
    chambers, obstacles = robot.chambers, len(environment.obstacles)
    return Result(
        status,
        message,
        converged,
        np.arange(1.0, k + 1.0),
        frames,
        robot=robot,
        environment=environment,
        solver=solver,
        tip=np.einsum("t,ktd->kd", robot.tip_weights, frames[:, robot.tip]),
        trace=trace,
        **{key: stack(key, chambers) for key in ("volume_ratios", "chamber_volumes", "chamber_pressures")},
        **{key: stack(key, len(robot.cables)) for key in ("cable_lengths", "cable_tensions")},
        **{key: stack(key, n, 3) for key in ("reactions", "contact_forces")},
        **{key: stack(key, obstacles, 3) for key in ("obstacle_forces", "obstacle_moments")},
        **{
            key: stack(key)
            for key in (
                "max_penetration",
                "contact_count",
                "crossings",
                "body_volume_ratio",
                "inverted_elements",
                "residual",
                "energies",
            )
        },
        extra={
            "remeshings": stack("remeshings"),
            "jacobian_spread": stack("jacobian_spread"),
            "energy_residual": stack("energy_residual"),
        },
        state=states[-1] if states else None,
    )
