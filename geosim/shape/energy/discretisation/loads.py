"""Dead loads as consistent nodal forces: gravity, total forces on vertices, tractions on faces.

Pressures on faces are no dead loads: see `constraints.pressed_faces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.environment import Environment, Load
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids

# (node weights (nodes,), one load): a load's nodal forces are weights x its vector
LoadShape = tuple[Floats, Load]


def load_shapes(robot: VolumetricRobot, environment: Environment, order: int) -> list[LoadShape]:
    """Return for every load how it spreads over the nodes: weights (n + e,) that multiply its vector.

    A total force has weights of sum 1; a traction has weights [m^2] whose sum is the area. A pressure has weights 0, since it
    follows the faces.

    Raises
    ------
    InputError
        A load selects nothing, or names faces that are not faces of the body's surface.
    """
    out = []
    environment.refuse_torques()
    for index, load in enumerate(environment.loads):
        name = f"load {index + 1}"
        if load.kind == "pressure":
            weights = np.zeros(len(robot.vertices) + len(robot.p2_edges))
            load = replace(load, value=np.zeros((1, 3)))
        elif load.kind == "traction":
            weights = _over_faces(robot, surface_faces(robot, load.where, name), order)
        else:
            ids = selected_ids(load.where, robot.vertices, name, among=robot.body_vertices)
            if not robot.body_vertices[ids].all():
                bad = ids[~robot.body_vertices[ids]][0]
                raise InputError(f"{name}: vertex {bad} belongs to no body tet; a force needs material to act on")
            weights = spread(robot, ids, order)
            weights = weights / weights.sum()
        out.append((weights, load))
    return out


def refuse_held(shapes: Sequence[LoadShape], held: Bools) -> None:
    """Refuse loads all of whose nodes are held, bool (n + e, 3), in the directions in which they act: they would do nothing.

    Raises
    ------
    InputError
        The load, and the remedy.
    """
    for index, (weights, load) in enumerate(shapes):
        acts = np.any(load.value != 0.0, axis=0)
        if acts.any() and held[weights > 0.0][:, acts].all():
            raise InputError(
                f"load {index + 1}: every vertex that it acts on is held by `fixed` or `prescribed`, so it does nothing; put it "
                "on vertices that can move"
            )


def surface_faces(robot: VolumetricRobot, faces: Ints, name: str) -> Ints:
    """Return faces (m, 3) of the body's surface in the order in which their normals point outwards.

    Raises
    ------
    InputError
        One is no face of the surface.
    """
    surface = np.vstack([robot.skin, *(walls[:, ::-1] for walls in robot.chamber_walls)])
    rows = {face: row for row, face in enumerate(map(tuple, np.sort(surface, axis=1).tolist()))}
    given = np.sort(np.asarray(faces), axis=1).tolist()
    for face in given:
        if tuple(face) not in rows:
            raise InputError(f"{name}: {face} is not a face of the body's surface; take faces from robot.skin")
    return np.asarray(surface[[rows[tuple(face)] for face in given]])


def _over_faces(robot: VolumetricRobot, faces: Ints, order: int) -> Floats:
    """Integrals of the shape functions over flat faces [m^2]: P2 puts a third on every mid-edge, nothing on corners."""
    n = len(robot.vertices)
    weights = np.zeros(n + len(robot.p2_edges))
    third = np.repeat(np.linalg.norm(topology.face_normals(robot.vertices, faces), axis=1) / 6.0, 3)
    nodes = topology.curved_faces(faces, robot.p2_edges, n)
    np.add.at(weights, (nodes[:, 3:] if order == 2 else nodes[:, :3]).ravel(), third)
    return weights


def spread(robot: VolumetricRobot, ids: Ints, order: int) -> Floats:
    """Return weights (n + e,) that spread a force over vertices; their sum is an area [m^2], a length [m] or a number.

    They go by area where the vertices span skin faces, by length where they span edges, else all are equal.
    """
    n = len(robot.vertices)
    chosen = np.zeros(n, dtype=bool)
    chosen[ids] = True
    surface = np.vstack([robot.skin, *robot.chamber_walls])
    faces = surface[chosen[surface].all(axis=1)]
    if len(faces):
        return _over_faces(robot, faces, order)
    weights = np.zeros(n + len(robot.p2_edges))
    pairs = np.unique(np.sort(surface[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1), axis=0)
    pairs = pairs[chosen[pairs].all(axis=1)]
    if len(pairs) == 0:
        weights[ids] = 1.0
        return weights
    length = np.linalg.norm(robot.vertices[pairs[:, 0]] - robot.vertices[pairs[:, 1]], axis=1)
    ends, middle = (1.0 / 6.0, 2.0 / 3.0) if order == 2 else (0.5, 0.0)
    np.add.at(weights, pairs.ravel(), np.repeat(ends * length, 2))
    if order == 2:
        np.add.at(weights, n + topology.rows_of(robot.p2_edges, pairs), middle * length)
    return weights
