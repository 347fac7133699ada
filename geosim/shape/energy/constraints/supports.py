"""Dirichlet conditions: clamps, prescribed displacements, rigid groups, minimal constraints of free bodies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints, frozen, marked
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.discretisation.body import ScaledBody

SINGULAR_ROWS_REL = 1e-9  # of rows of order one: below, it is round-off that sees a rigid motion


@dataclass(frozen=True)
class RigidGroup:
    """A rigid group on a robot.

    Parameters
    ----------
    nodes
        Which nodes (vertices, then mid-edges) belong to it, bool (n + e,).
    held
        Which of its six degrees of freedom are prescribed, bool (6,).
    point
        Its reference point at rest [m], (3,).
    """

    nodes: Bools
    held: Bools
    point: Floats


@dataclass(frozen=True)
class PrescribedNodes:
    """What one entry of `Environment.prescribed` moves.

    Parameters
    ----------
    entry
        Its index.
    nodes
        Vertices, then mid-edge nodes, ascending.
    components
        Which components it holds, bool (nodes, 3).
    rows
        Row of its displacements for each of the vertices, (vertices,).
    """

    entry: int
    nodes: Ints
    components: Bools
    rows: Ints


def _rows(selector: Any, ids: Ints) -> Ints:
    """Row of per-vertex data for the sorted ids: explicit ids keep the order in which they were given."""
    given = np.asarray(selector) if not callable(selector) else np.empty(0)
    if given.dtype.kind in "iu" and given.size == len(ids):
        return np.argsort(given.ravel(), kind="stable")
    return np.arange(len(ids))


@dataclass(frozen=True)
class Supports:
    """Held components and where they are held.

    Parameters
    ----------
    held
        bool (nodes, 3) over vertices and mid-edge nodes.
    free_bodies
        Labels of the connected bodies that only minimal constraints hold.
    prescribed
        What each entry of `Environment.prescribed` moves.
    labels
        Connected body of every vertex, -1 of chamber tets only; bodies that share a rigid group are one, (n,).
    """

    held: Bools
    free_bodies: tuple[int, ...]
    prescribed: tuple[PrescribedNodes, ...]
    labels: Ints


def held_nodes(robot: VolumetricRobot, chosen: Bools) -> Bools:
    """Return which nodes (vertices, then mid-edges) a set of vertices holds, bool (n + e,).

    A mid-edge node is held if its edge lies on a boundary face of the body, or in a body tet, all of whose
    vertices are chosen; never merely because both of its ends are.
    """
    n = len(robot.vertices)
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    faces = faces[chosen[faces].all(axis=1)]
    held = np.zeros(n + len(robot.p2_edges), dtype=bool)
    held[:n] = chosen & robot.body_vertices
    if len(faces):
        held[topology.curved_faces(faces, robot.p2_edges, n)[:, 3:].ravel()] = True
    inside = chosen[robot.body_tets].all(axis=1)
    held[robot.p2_tets[inside][:, 4:].ravel()] = True
    return held


def _rigid_rows(points: Floats, components: list[tuple[int, int]]) -> Floats:
    """Rows of the six rigid motions seen by (point, component) constraints."""
    place, component = np.array(components, dtype=np.int64).reshape(-1, 2).T
    turns = np.cross(np.eye(3)[None], points[place][:, None])  # of every point about every axis
    return np.hstack([np.eye(3)[component], turns[np.arange(len(place)), :, component]])


def _group_rows(group: RigidGroup, middle: Floats, size: float) -> Floats:
    """Rows of the six rigid motions seen by the prescribed degrees of freedom of a group."""
    moves = _rigid_rows((group.point - middle)[None] / size, [(0, i) for i in range(3)])
    return np.vstack([moves, np.eye(6)[3:]])[group.held]


def minimal_constraints(points: Floats) -> list[tuple[int, int]]:
    """Return six (point, component) pairs that remove the rigid motion of a body and cause no reaction.

    Three far-apart points A, B, C hold 3, 2 and 1 components (3-2-1); of all choices of components the one with
    the best-conditioned rigid rows is taken.

    Raises
    ------
    InputError
        All points lie on a line.
    """
    center = points.mean(axis=0)
    a = int(np.argmax(((points - center) ** 2).sum(axis=1)))
    b = int(np.argmax(((points - points[a]) ** 2).sum(axis=1)))
    along = points[b] - points[a]
    c = int(np.argmax((np.cross(points - points[a], along) ** 2).sum(axis=1)))
    size = np.linalg.norm(along)
    local = (points[[a, b, c]] - points[a]) / max(size, MIN_DIVISOR)
    best, chosen = 0.0, None
    for pair, single in product(combinations(range(3), 2), range(3)):
        rows = [(0, 0), (0, 1), (0, 2), (1, pair[0]), (1, pair[1]), (2, single)]
        value = abs(np.linalg.det(_rigid_rows(local, rows)))
        if value > best:
            best, chosen = value, rows
    if chosen is None or best < SINGULAR_ROWS_REL:
        raise InputError("fixed = None: a body whose vertices lie on a line cannot be freed of its rigid motion")
    ids = (a, b, c)
    return [(ids[k], i) for k, i in chosen]


def _joined(labels: Ints, groups: tuple[RigidGroup, ...]) -> Ints:
    """Labels of bodies, those that share a rigid group made one."""
    out = labels.copy()
    for group in groups:
        mine = np.unique(out[np.flatnonzero(group.nodes[: len(labels)])])
        out[np.isin(out, mine)] = mine[0]
    return out


def supports(
    robot: VolumetricRobot, environment: Environment, groups: tuple[RigidGroup, ...] = (), *, moving: bool = False
) -> Supports:
    """Return what is held; what is `moving` with inertia needs no support.

    Raises
    ------
    InputError
        A prescribed displacement contradicts a clamp or a rigid group, or a body is held too little to stay in place.
    """
    labels = _joined(robot.body_labels, groups)
    chosen = marked(len(robot.vertices), robot.fixed)
    held = np.repeat(held_nodes(robot, chosen)[:, None], 3, axis=1)
    prescribed = []
    for index in range(len(environment.prescribed)):
        moved = _prescribed_nodes(robot, environment, index)
        clash = (held[moved.nodes] & moved.components).any(axis=1)
        if clash.any():
            raise InputError(
                f"prescribed {index + 1}: node {moved.nodes[clash][0]} is already held by `fixed` or another "
                f"prescription; prescribe each component once"
            )
        held[moved.nodes] |= moved.components
        prescribed.append(moved)
    _refuse_held_groups(groups, held)
    free: list[int] = []
    for label in () if moving else np.unique(labels[labels >= 0]).tolist():
        ids = np.flatnonzero(labels == label)
        mine = [group for group in groups if labels[np.flatnonzero(group.nodes)[0]] == label]
        if held[ids].any() or any(group.held.any() for group in mine):
            _refuse_loose(robot, ids, held[ids], mine, f"body {label + 1} of {int(labels.max()) + 1}")
            continue
        ids = ids[~np.any([group.nodes[ids] for group in groups], axis=0)] if groups else ids
        if len(ids) < 3:
            raise InputError(
                f"fixed = None: body {label + 1} is free and all rigid; leave a soft part, or hold the group"
            )
        for k, i in minimal_constraints(robot.vertices[ids]):
            held[ids[k], i] = True
        free.append(label)
    return Supports(held, tuple(free), tuple(prescribed), labels)


def _refuse_held_groups(groups: tuple[RigidGroup, ...], held: Bools) -> None:
    """Refuse rigid groups of which a node is held, by components (nodes, 3)."""
    for g, group in enumerate(groups):
        both = np.flatnonzero(group.nodes & held.any(axis=1))
        if len(both):
            raise InputError(
                f"rigid group {g + 1}: node {both[0]} is held by `fixed` or `prescribed`; hold the group by its "
                f"displacement and rotation, or remove this node from it"
            )


def _prescribed_nodes(robot: VolumetricRobot, environment: Environment, index: int) -> PrescribedNodes:
    """Return what one entry of `Environment.prescribed` moves."""
    item, n = environment.prescribed[index], len(robot.vertices)
    ids = selected_ids(item.vertices, robot.vertices, f"prescribed {index + 1}", among=robot.body_vertices)
    given = np.isfinite([item.at(k, len(ids)) for k in range(len(item.displacement))])
    if (given != given[0]).any():
        raise InputError(
            f"prescribed {index + 1}: the same components must be prescribed in every command; use nan "
            f"for the free ones throughout"
        )
    mask, by_vertex, rows = np.zeros(n, dtype=bool), np.zeros((n, 3), dtype=bool), _rows(item.vertices, ids)
    mask[ids], by_vertex[ids] = True, given[0][rows]
    nodes = np.flatnonzero(held_nodes(robot, mask))
    components = np.vstack([by_vertex, by_vertex[robot.p2_edges].all(axis=1)])[nodes]
    return PrescribedNodes(index, nodes, components, rows)


def _refuse_loose(robot: VolumetricRobot, ids: Ints, held: Bools, groups: list[RigidGroup], name: str) -> None:
    """Refuse a body that its held components (vertices, 3) and groups leave free to move rigidly."""
    middle = robot.vertices[ids].mean(axis=0)
    size = max(np.abs(robot.vertices[ids] - middle).max(), MIN_DIVISOR)
    max_examined_components = 3000  # components looked at to see whether a body is held: more only take time
    components = [(int(k), int(i)) for k, i in np.argwhere(held)[:max_examined_components]]
    rows = _rigid_rows((robot.vertices[ids] - middle) / size, components)
    motions = np.vstack([rows, *(_group_rows(group, middle, size) for group in groups)])
    if np.linalg.matrix_rank(motions, tol=SINGULAR_ROWS_REL * np.sqrt(len(motions))) < 6:
        raise InputError(
            f"fixed: {name} can still move as a rigid body; hold at least three vertices off one line, or "
            f"pass fixed=None for a free body"
        )


def held_unknowns(
    body: ScaledBody, held_by: Supports, groups: tuple[RigidGroup, ...], *, incompressible: bool
) -> tuple[Bools, bool]:
    """Return which unknowns are held, and whether a body's whole surface is.

    Held are components of nodes, and pressures that nothing determines: those whose whole patch is clamped or in one
    rigid group, and the constant pressure of a body of which all of the surface is prescribed (one of its pressures is pinned).
    """
    robot, order, mesh, enclosed = body.robot, body.element.order, body.mesh, False
    components, labels = held_by.held[body.nodes], robot.body_labels
    pressures = np.zeros(len(body.pressure_vertices), dtype=bool)
    if incompressible and order == 2:
        still = [np.asarray(components.all(axis=1)), *(group.nodes[body.nodes] for group in groups)]
        moves = ~np.logical_or.reduce([nodes[mesh.tets].all(axis=1) for nodes in still])
        pressures[:] = True
        pressures[mesh.pressure_tets[moves]] = False
    if incompressible:
        faces = np.vstack([robot.skin, *robot.chamber_walls])
        surface = topology.curved_faces(faces, robot.p2_edges, len(robot.vertices)) if order == 2 else faces
        led = np.logical_or.reduce([held_by.held.all(axis=1), *(g.nodes for g in groups if g.held.all())])
        free_bodies = np.unique(labels[faces[~led[surface].all(axis=1), 0]])
        for label in np.setdiff1d(np.arange(int(labels.max()) + 1), free_bodies):
            mine = np.flatnonzero((labels[body.pressure_vertices] == label) & ~pressures)
            pressures[mine[:1]] = enclosed = True
    return frozen(np.concatenate([components.ravel(), pressures])), enclosed
