"""Which displacement components are held: clamps, prescribed displacements, rigid groups, minimal constraints of free bodies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.robot import VolumetricRobot
from geosim.select import selected_ids

__all__ = ["Group", "Supports", "held_nodes", "minimal_constraints", "supports"]


@dataclass(frozen=True)
class Group:
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


def _group_rows(group: Group, middle: Floats, size: float) -> Floats:
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
    local = (points[[a, b, c]] - points[a]) / max(size, 1e-300)
    best, chosen = 0.0, None
    for pair, single in product(combinations(range(3), 2), range(3)):
        rows = [(0, 0), (0, 1), (0, 2), (1, pair[0]), (1, pair[1]), (2, single)]
        value = abs(np.linalg.det(_rigid_rows(local, rows)))
        if value > best:
            best, chosen = value, rows
    if chosen is None or best < 1e-9:
        raise InputError("fixed = None: a body whose vertices lie on a line cannot be freed of its rigid motion")
    ids = (a, b, c)
    return [(ids[k], i) for k, i in chosen]


def _joined(labels: Ints, groups: tuple[Group, ...]) -> Ints:
    """Labels of bodies, those that share a rigid group made one."""
    out = labels.copy()
    for group in groups:
        mine = np.unique(out[np.flatnonzero(group.nodes[: len(labels)])])
        out[np.isin(out, mine)] = mine[0]
    return out


def supports(robot: VolumetricRobot, environment: Environment, groups: tuple[Group, ...] = ()) -> Supports:
    """Return what is held.

    Raises
    ------
    InputError
        A prescribed displacement contradicts a clamp or a rigid group, or a body is held too little to stay in place.
    """
    n, labels = len(robot.vertices), _joined(robot.body_labels, groups)
    chosen = np.zeros(n, dtype=bool)
    chosen[robot.fixed] = True
    nodes = held_nodes(robot, chosen)
    held = np.repeat(nodes[:, None], 3, axis=1)
    prescribed = []
    for index, item in enumerate(environment.prescribed):
        ids = selected_ids(item.vertices, robot.vertices, f"prescribed {index + 1}", among=robot.body_vertices)
        mask = np.zeros(n, dtype=bool)
        mask[ids] = True
        all_nodes = np.flatnonzero(held_nodes(robot, mask))
        rows = _rows(item.vertices, ids)
        given = np.isfinite(item.at(0, len(ids)))
        for k in range(len(item.displacement)):
            if (np.isfinite(item.at(k, len(ids))) != given).any():
                raise InputError(
                    f"prescribed {index + 1}: the same components must be prescribed in every command; use nan "
                    f"for the free ones throughout"
                )
        by_vertex = np.zeros((n, 3), dtype=bool)
        by_vertex[ids] = given[rows]
        middle = all_nodes[all_nodes >= n] - n
        components = np.vstack([by_vertex[all_nodes[all_nodes < n]], by_vertex[robot.p2_edges[middle]].all(axis=1)])
        clash = held[all_nodes] & components
        if clash.any():
            node = int(all_nodes[np.flatnonzero(clash.any(axis=1))[0]])
            raise InputError(
                f"prescribed {index + 1}: node {node} is already held by `fixed` or another prescription; "
                f"prescribe each component once"
            )
        held[all_nodes] |= components
        prescribed.append(PrescribedNodes(index, all_nodes, components, rows))
    in_group = np.zeros(len(held), dtype=bool)
    for g, group in enumerate(groups):
        both = np.flatnonzero(group.nodes & held.any(axis=1))
        if len(both):
            raise InputError(
                f"rigid group {g + 1}: node {both[0]} is held by `fixed` or `prescribed`; hold the group by its "
                f"displacement and rotation, or take what is held out of it"
            )
        in_group |= group.nodes
    free = []
    for label in np.unique(labels[labels >= 0]).tolist():
        ids = np.flatnonzero(labels == label)
        component_rows = np.argwhere(held[ids])
        mine = [group for group in groups if labels[np.flatnonzero(group.nodes)[0]] == label]
        if len(component_rows) == 0 and not any(group.held.any() for group in mine):
            ids = ids[~in_group[ids]]
            if len(ids) < 3:
                raise InputError(
                    f"fixed = None: body {label + 1} is free and all rigid; leave a soft part, or hold the group"
                )
            for k, i in minimal_constraints(robot.vertices[ids]):
                held[ids[k], i] = True
            free.append(label)
            continue
        middle = robot.vertices[ids].mean(axis=0)
        size = max(np.abs(robot.vertices[ids] - middle).max(), 1e-300)
        motions = np.vstack(
            [
                _rigid_rows(
                    (robot.vertices[ids] - middle) / size, [(int(k), int(i)) for k, i in component_rows[:3000]]
                ),
                *(_group_rows(group, middle, size) for group in mine),
            ]
        )
        if np.linalg.matrix_rank(motions, tol=1e-9 * np.sqrt(len(motions))) < 6:
            raise InputError(
                f"fixed: body {label + 1} of {int(labels.max()) + 1} can still move as a rigid body; hold at least "
                f"three vertices that are not on a line, or pass fixed=None for a free body"
            )
    return Supports(held, tuple(free), tuple(prescribed), labels)
