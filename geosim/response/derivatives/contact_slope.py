"""The exact derivative of contact with obstacles by the places of the surface points, as sparse matrices.

Newton's tangent leaves three things out that a derivative needs: with friction what is unsymmetric; at edges of the skin
how the area of a point that looks at an obstacle (`ContactSurface.facing`) changes as faces and obstacle turn; and how
friction changes with what faces press (`ContactFaces`), which Newton holds. Of the force P that presses on such a point,
N = |P|, n = P / N, its slip s = share (1 - n n^T) (x - anchor) and the residual of friction f = mu N s / max(|s|, e),

    df/dP = mu (s n^T + N (1 - s s^T / |s|^2) ds/dn (1 - n n^T) / N) / max(|s|, e),    ds/dn v = -share (n (x - anchor).v
            + (x - anchor).n v),

without s s^T / |s|^2 where the point sticks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.collision.shapes import curvatures
from geosim.geometry import topology
from geosim.shape.energy.contact.contact_state import Blocks, ContactForces, ContactState
from geosim.shape.energy.contact.potential import ELASTIC_SLIP_THICKNESSES, ContactPotential
from geosim.shape.energy.contact.surface import FACE_CORNER_SLOTS, FACING_COSINE_FROM, FACING_COSINE_FULL


def beyond_newton(
    contact: ContactPotential, x: Floats, forces: ContactForces, contact_state: ContactState
) -> sparse.csr_matrix:
    """Return what the sharpened tangent lacks, as a matrix between the components of the nodes (3 n, 3 n).

    Parameters
    ----------
    contact, x
        The contact of a robot at scaled positions (n, 3).
    forces, contact_state
        What `contact.evaluate` returned with `matrix`, and the grip that it was given.
    """
    points = contact.surface.points(x)
    total, smooth = _matrix(forces.slides, len(points)), _Smooth(contact, x, contact_state)
    for o in range(len(contact_state.poses)):
        total = (
            total
            + _by_area(contact, points, forces, contact_state, o)
            + _by_faces(smooth, points, forces, contact_state, o)
        )
    spread = _spread(contact)
    return sparse.csr_matrix(spread.T @ total @ spread)


def obstacle_slopes(
    contact: ContactPotential, x: Floats, forces: ContactForces, contact_state: ContactState
) -> list[sparse.csr_matrix]:
    """Return for every obstacle the derivative of the force on it by the positions of the nodes, each (3, 3 n), scaled."""
    points = contact.surface.points(x)
    total, spread = sparse.kron(np.ones((1, len(points))), sparse.eye(3)), _spread(contact)
    smooth = _Smooth(contact, x, contact_state)
    out = []
    for o in range(len(contact_state.poses)):
        parts = [
            p for level in ("stiff", "bends", "slides") for p in forces.of_obstacle(level, o, len(contact_state.poses))
        ]
        slope = _matrix(parts, len(points)) + _by_area(contact, points, forces, contact_state, o)
        slope = slope + _by_faces(smooth, points, forces, contact_state, o)
        out.append(sparse.csr_matrix(total @ slope @ spread))
    return out


def grip_slopes(contact: ContactPotential, x: Floats, contact_state: ContactState) -> list[sparse.csr_matrix]:
    """Return per obstacle the derivative of the sum of the normal forces on it, sum |P|, by the nodes, each (1, 3 n), scaled."""
    points, spread, smooth = contact.surface.points(x), _spread(contact), _Smooth(contact, x, contact_state)
    out = []
    for o in range(len(contact_state.poses)):
        slope = smooth.slope(points, o)
        push = smooth.forces.on_points[o]
        ways = push / np.maximum(np.linalg.norm(push, axis=1, keepdims=True), MIN_DIVISOR)
        out.append(sparse.csr_matrix(ways.reshape(1, -1)) @ slope @ spread)
    return out


def _spread(contact: ContactPotential) -> sparse.csr_matrix:
    """Positions of the nodes -> positions of the points, (3 p, 3 n)."""
    s = contact.surface
    rows = np.repeat(np.arange(len(s.nodes)), s.nodes.shape[1])
    weights = sparse.csr_matrix((s.weights.ravel(), (rows, s.nodes.ravel())), (len(s.nodes), contact.nodes))
    return sparse.csr_matrix(sparse.kron(weights, sparse.eye(3)))


def _matrix(parts: tuple[Blocks, ...] | list[Blocks], points: int) -> sparse.csr_matrix:
    """Return blocks between points as a matrix (3 p, 3 p)."""
    total = sparse.csr_matrix((3 * points, 3 * points))
    for groups, blocks in parts:
        width = groups.shape[1]
        shape = (len(groups), width, width, 3, 3)
        rows = 3 * groups[:, :, None, None, None] + np.arange(3)[:, None]
        columns = 3 * groups[:, None, :, None, None] + np.arange(3)[None]
        at = (np.broadcast_to(rows, shape).ravel(), np.broadcast_to(columns, shape).ravel())
        total = total + sparse.csr_matrix((blocks.reshape(shape).ravel(), at), total.shape)
    return total


def _at_points(values: Floats, ids: Ints, size: int) -> sparse.csr_matrix:
    """Return vectors (k, 3) as columns of a matrix (size, k), each at the components of its point."""
    rows = 3 * ids[:, None] + np.arange(3)
    return sparse.csr_matrix((values.ravel(), (rows.ravel(), np.repeat(np.arange(len(ids)), 3))), (size, len(ids)))


def _by_area(
    contact: ContactPotential, points: Floats, forces: ContactForces, contact_state: ContactState, o: int
) -> sparse.csr_matrix:
    """Return how the forces of obstacle o on the points change with the area that looks at it, (3 p, 3 p)."""
    ids = np.flatnonzero(forces.pressure[o] > 0.0)
    size = 3 * len(points)
    if len(ids) == 0:
        return sparse.csr_matrix((size, size))
    pose = contact_state.poses[o]
    bend = curvatures(contact.obstacles.solid(o), contact.metres(points[ids]), pose) * contact.length
    toward = -contact.distances(o, pose, points)[1][ids]
    slope = _facing_slope(contact, points, ids, toward, -bend)
    # where faces press, too, friction goes by the sum of what presses (`_by_faces`)
    drag = np.where(forces.by_faces[o, ids] > 0.0, 0.0, forces.pressure[o, ids] / forces.push[o, ids])
    per_area = forces.pressure[o, ids, None] * toward + drag[:, None] * forces.drag[o, ids]
    return sparse.csr_matrix(_at_points(per_area, ids, size) @ slope)


class _Smooth:
    """The same contact without friction, evaluated where it is first asked for: what presses, and how that changes."""

    def __init__(self, contact: ContactPotential, x: Floats, contact_state: ContactState) -> None:
        smooth = contact.obstacles._replace(friction=np.zeros_like(contact.obstacles.friction))
        environment = replace(contact.environment, self_friction=0.0)
        self.rough, self._x, self._grip = contact, x, contact_state
        self.contact = replace(contact, environment=environment, obstacles=smooth)

    @cached_property
    def forces(self) -> ContactForces:
        """What presses, with its tangent."""
        return self.contact.evaluate(self._x, self._grip, matrix=True)

    def slope(self, points: Floats, o: int) -> sparse.csr_matrix:
        """Return the derivative of what obstacle o presses on the points, P, by their places, (3 p, 3 p)."""
        forces, count = self.forces, len(self._grip.poses)
        parts = [p for level in ("stiff", "bends") for p in forces.of_obstacle(level, o, count)]
        return -(_matrix(parts, len(points)) + _by_area(self.contact, points, forces, self._grip, o))


def _by_faces(
    smooth: _Smooth, points: Floats, forces: ContactForces, contact_state: ContactState, o: int
) -> sparse.csr_matrix:
    """Return how friction at the points on which faces press changes with what presses there, (3 p, 3 p)."""
    contact, size = smooth.rough, 3 * len(points)
    friction = contact.obstacles.friction[o]
    ids = np.flatnonzero((forces.by_faces[o] > 0.0) & (forces.push[o] > 0.0) & (friction > 0.0))
    if len(ids) == 0:
        return sparse.csr_matrix((size, size))
    push, normal, share = contact_state.push[o, ids], contact_state.normal[o, ids], contact_state.share[o, ids]
    way = points[ids] - contact.anchors(contact_state, o, ids)
    along = np.einsum("qi,qi->q", way, normal)
    flat = way - along[:, None] * normal
    slip = share[:, None] * flat
    length, most = np.linalg.norm(slip, axis=1), ELASTIC_SLIP_THICKNESSES * contact.thickness[ids]
    longest, slides = np.maximum(length, most), length > most
    across = np.eye(3) - normal[:, :, None] * normal[:, None]
    turn = -share[:, None, None] * (normal[:, :, None] * way[:, None] + along[:, None, None] * np.eye(3)) @ across
    shaft = (
        np.where(slides, 1.0 / np.maximum(length, MIN_DIVISOR) ** 2, 0.0)[:, None, None]
        * slip[:, :, None]
        * slip[:, None]
    )
    by_push = slip[:, :, None] * normal[:, None] + (np.eye(3) - shaft) @ turn
    blocks = by_push * (friction / longest)[:, None, None]
    out = _matrix([(ids[:, None], blocks[:, None, None])], len(points)) @ smooth.slope(points, o)
    # of a point that came into contact on the way and sticks, the share of its way that counts
    before, gap = contact_state.before[o, ids], forces.gap[o, ids]
    came = np.flatnonzero(~slides & (before > 0.0) & (gap < 0.0))
    if len(came):
        rate = -before[came] / (before[came] - gap[came]) ** 2 * friction * push[came] / longest[came]
        spread = _at_points(rate[:, None] * flat[came], ids[came], size)
        out = out + spread @ _gap_slope(contact, points, contact_state, o, ids[came])
    return sparse.csr_matrix(out)


def _gap_slope(
    contact: ContactPotential, points: Floats, contact_state: ContactState, o: int, ids: Ints
) -> sparse.csr_matrix:
    """Return the derivative of what points, or the nearest of their faces, lack to contact by the places, (k, 3 p)."""
    faces, pose, delta = contact.faces, contact_state.poses[o], contact.face_delta[o]
    distance, normal = contact.distances(o, pose, points)
    places = contact.metres(points)
    near = faces.within(contact.obstacles.thickness[o], places, distance, delta, contact.length)
    low = faces.lowest(near, contact.obstacles.solid(o), places[faces.triangles[near]], contact.length, pose)
    lack = low.distance - delta[low.ids]
    order = np.argsort(-lack)  # the lowest comes last and stays
    owner = np.full(len(points), -1)
    owner[faces.triangles[low.ids[order]]] = order[:, None]
    f = owner[ids]
    by_face = (f >= 0) & (np.append(lack, np.inf)[f] < distance[ids] - contact.delta[o, ids])
    corners = np.where(by_face[:, None], faces.triangles[low.ids[f]], ids[:, None])
    weights = np.where(by_face[:, None], low.weights[f], [1.0, 0.0, 0.0])
    toward = np.where(by_face[:, None], low.normal[f], normal[ids])
    values = weights[:, :, None] * toward[:, None]
    rows = np.broadcast_to(np.arange(len(ids))[:, None, None], values.shape)
    columns = 3 * corners[:, :, None] + np.arange(3)
    return sparse.csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), (len(ids), 3 * len(points)))


def _facing_slope(
    contact: ContactPotential, points: Floats, ids: Ints, toward: Floats, turn: Floats
) -> sparse.csr_matrix:
    """Return the derivative of `ContactSurface.facing` by the positions of the points, (k, 3 p).

    `turn` (k, 3, 3) is the derivative of `toward` (k, 3) by the place of its point.
    """
    surface, width = contact.surface, contact.surface.slots.shape[1]
    row = np.full(len(points), -1)
    row[ids] = np.arange(len(ids))
    face, slot = np.nonzero(row[surface.slots] >= 0)
    k, corners = row[surface.slots[face, slot]], surface.slots[face][:, FACE_CORNER_SLOTS[width]]
    a, b, c = (points[corners[:, i]] for i in range(3))
    normal = topology.face_normals(points, corners)
    size = np.linalg.norm(normal, axis=1)
    n = normal / size[:, None]
    span = FACING_COSINE_FULL - FACING_COSINE_FROM
    s = np.clip((np.einsum("qi,qi->q", toward[k], n) - FACING_COSINE_FROM) / span, 0.0, 1.0)
    rate = surface.shares[face, slot] * 6.0 * s * (1.0 - s) / span
    # the cosine changes with the direction, at the point itself, and with the normal, at the corners of the face
    along = (toward[k] - np.einsum("qi,qi->q", toward[k], n)[:, None] * n) * (rate / size)[:, None]
    by_corner = [np.cross(b - c, along), np.cross(c - a, along), np.cross(a - b, along)]
    by_point = rate[:, None] * np.einsum("qi,qij->qj", n, turn[k])
    values, columns = [by_point, *by_corner], [surface.slots[face, slot], *corners.T]
    rows = np.repeat(np.tile(k, 4), 3)
    at = np.concatenate([(3 * c[:, None] + np.arange(3)).ravel() for c in columns])
    return sparse.csr_matrix((np.concatenate(values).ravel(), (rows, at)), (len(ids), 3 * len(points)))
