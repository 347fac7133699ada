"""Measures of an equilibrium of the projective solver in SI units."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.collision.crossings import count_crossings
from geosim.model.contract import Frame
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.elements import ElementEvaluation
from geosim.shape.projective.mesh import Work

__all__ = ["measure"]


def measure(work: Work, x: Floats, evaluation: ElementEvaluation, penetration: float) -> Frame:
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
    push, _, _ = springs.forces(x)
    contact = springs.on_vertices(x)[0][:n]
    count = len(work.environment.obstacles)
    forces, moments = np.zeros((count, 3)), np.zeros((count, 3))
    for i in range(count):
        mine = springs.partner == i
        forces[i] = -push[mine].sum(axis=0)
        moments[i] = -np.cross(x[springs.ids[mine]], push[mine]).sum(axis=0)
    lines, cables = work.elements.lines, len(robot.cables)
    tensions = np.zeros(cables) if lines is None else lines.pulls(lines.measures(x))[:cables]
    volumes = work.elements.volumes(x)
    body = work.elements.body
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    rest = work.elements.cells.rest_volumes
    return Frame(
        positions,
        volume_ratios=volumes / rest,
        chamber_volumes=volumes,
        chamber_pressures=evaluation.pressures,
        cable_tensions=tensions,
        cable_end_tensions=np.stack([tensions, tensions], axis=1),
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
        residual=work.residual(evaluation),
        energies=evaluation.elastic,
        extra={
            "remeshings": work.remeshings,
            "inverted_points": int((evaluation.jacobians <= 0).sum()),  # where this solver integrates: once a tet
            "jacobian_spread": float(np.quantile(np.abs(evaluation.jacobians - 1.0), 0.95)),
            "energy_residual": np.nan,
        },
    )


def _carried(robot: VolumetricRobot, positions: Floats) -> Floats:
    """Positions of vertices of chamber tets only, moved along with the nearest body vertex."""
    from scipy.spatial import cKDTree

    body = np.flatnonzero(robot.body_vertices)
    loose = np.flatnonzero(~robot.body_vertices)
    _, near = cKDTree(robot.vertices[body]).query(robot.vertices[loose])
    return np.asarray(robot.vertices[loose] + (positions - robot.vertices)[body[near]])
