"""What closes the chambers: walls of the body, and caps where no body is.

A cap is closed by whatever holds its rim: what is fixed (then its part of the volume is constant), a rigid group that
carries it along, or a plane in which the rim may slide (a plane of symmetry, a smooth table): the cap then stays in
the plane x . n = h, does no work, and the volume behind it is h times its area over 3, with the area from its boundary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.robot import VolumetricRobot
from geosim.select import selected_ids
from geosim.shape.energy import assembly
from geosim.shape.energy.rigid import Cap
from geosim.shape.energy.supports import Group

__all__ = ["Chambers", "SlidingCap", "make_chambers"]

FLAT = 1e-6  # largest deviation of the normals of a plane cap


@dataclass(frozen=True)
class SlidingCap:
    """A plane part of a chamber's wall whose boundary slides in the plane.

    Parameters
    ----------
    chamber
        Whose.
    axis
        Coordinate axis of its normal.
    starts, middles, ends
        Nodes of the boundary's edges, in the sense of the normal; -1 where no body is (and at straight middles).
    places
        Positions of starts and ends where no body is, (2, edges, 3), scaled.
    """

    chamber: int
    axis: int
    starts: Ints
    middles: Ints
    ends: Ints
    places: Floats

    def volume(self, x: Floats) -> float:
        """Volume of the cone from the origin to the cap: h A / 3, A = 1/2 closed-integral (x cross dx) . n."""
        a = np.where(self.starts[:, None] >= 0, x[self.starts], self.places[0])
        b = np.where(self.ends[:, None] >= 0, x[self.ends], self.places[1])
        m = np.where(self.middles[:, None] >= 0, x[self.middles], 0.5 * (a + b))
        along = (4.0 * np.cross(a, m) + 4.0 * np.cross(m, b) - np.cross(a, b)) / 3.0  # exact on a quadratic edge
        level = float(np.concatenate([a, b])[:, self.axis].mean())
        return level * 0.5 * float(along[:, self.axis].sum()) / 3.0


@dataclass(frozen=True)
class Chambers:
    """Walls of the chambers in scaled units.

    Parameters
    ----------
    walls
        Of every chamber the nodes of its faces and their ranks in the pattern.
    fixed_volumes
        Volume behind fixed caps, (c,).
    rigid, sliding
        Caps that move with a group, and those whose rim slides in a plane.
    """

    walls: tuple[tuple[Ints, Ints], ...]
    fixed_volumes: Floats
    rigid: tuple[Cap, ...]
    sliding: tuple[SlidingCap, ...]


def _still(robot: VolumetricRobot, environment: Environment) -> Bools:
    """Components of vertices that never move: fixed, or prescribed to stay, bool (n, 3)."""
    out = np.zeros((len(robot.vertices), 3), dtype=bool)
    out[robot.fixed] = True
    for index, item in enumerate(environment.prescribed):
        ids = selected_ids(item.vertices, robot.vertices, f"prescribed {index + 1}", among=robot.body_vertices)
        out[ids] |= (item.displacement.reshape(-1, 3) == 0.0).all(axis=0)
    return out


def make_chambers(
    robot: VolumetricRobot,
    environment: Environment,
    order: int,
    place: Ints,
    pattern: assembly.Pattern,
    center: Floats,
    length: float,
    groups: tuple[Group, ...],
) -> Chambers:
    """Return what closes the chambers of a robot.

    Parameters
    ----------
    order, place, pattern
        Of the elements; the node of every node of the robot; sparsity.
    center, length
        Origin [m] and unit [m] of scaled positions.
    groups
        Rigid groups.

    Raises
    ------
    InputError
        A chamber has no wall, or is open: the rim of a cap is neither fixed, nor of one group, nor kept in a plane.
    """
    n, still = len(robot.vertices), _still(robot, environment)
    at = (robot.vertices - center) / length
    fixed = np.zeros(n, dtype=bool)
    fixed[robot.fixed] = True
    walls, volumes = [], np.zeros(robot.chambers)
    rigid: list[Cap] = []
    sliding: list[SlidingCap] = []
    for c, (faces, cap) in enumerate(zip(robot.chamber_walls, robot.chamber_caps)):
        if len(faces) == 0:
            raise InputError(f"chamber {c + 1}: no body tet touches it; a chamber needs a wall to press on")
        nodes = place[topology.curved_faces(faces, robot.p2_edges, n) if order == 2 else faces]
        walls.append((frozen(nodes), assembly.face_ranks(nodes, pattern)))
        for part in _parts(cap, np.zeros((len(cap), 3))):
            rim = np.unique(part)
            rim = rim[robot.body_vertices[rim]]
            owners = [g for g, group in enumerate(groups) if group.nodes[rim].any()]
            if fixed[rim].all():
                volumes[c] += _cone(at, part)
            elif len(owners) == 1 and groups[owners[0]].nodes[rim].all():
                rigid.append(_rigid_cap(c, owners[0], at, part, (groups[owners[0]].point - center) / length))
            else:
                for plane in _parts(part, _normals(at, part)):
                    mine = np.unique(plane)
                    if fixed[mine[robot.body_vertices[mine]]].all():
                        volumes[c] += _cone(at, plane)
                    else:
                        sliding.append(_sliding_cap(robot, c, at, plane, place, still, order))
    return Chambers(tuple(walls), frozen(volumes), tuple(rigid), tuple(sliding))


def _normals(at: Floats, faces: Ints) -> Floats:
    """Unit normals (f, 3)."""
    a, b, c = (at[faces[:, i]] for i in range(3))
    out = np.cross(b - a, c - a)
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-300)


def _parts(faces: Ints, normals: Floats) -> list[Ints]:
    """Faces parted into what hangs together over edges between equal normals."""
    if len(faces) == 0:
        return []
    pairs = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    twin = (pairs[order[1:]] == pairs[order[:-1]]).all(axis=1)
    one, two = order[:-1][twin] // 3, order[1:][twin] // 3
    flat = np.abs(normals[one] - normals[two]).max(axis=1, initial=0.0) < FLAT
    graph = coo_matrix((np.ones(int(flat.sum())), (one[flat], two[flat])), shape=(len(faces), len(faces)))
    count, labels = connected_components(graph, directed=False)
    return [faces[labels == k] for k in range(count)]


def _cone(at: Floats, faces: Ints) -> float:
    """Volume of the cones from the origin to faces."""
    p, q, r = (at[faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", p, np.cross(q, r))) / 6.0


def _rigid_cap(chamber: int, group: int, at: Floats, faces: Ints, point: Floats) -> Cap:
    """Area, first moment and volume of a cap about the reference point of its group."""
    r = at[faces] - point
    area = 0.5 * np.cross(r[:, 1] - r[:, 0], r[:, 2] - r[:, 0])
    return Cap(
        chamber,
        group,
        frozen(area.sum(axis=0)),
        frozen(np.cross(r.mean(axis=1), area).sum(axis=0)),
        float(np.einsum("ij,ij->", r.mean(axis=1), area)) / 3.0,
    )


def _sliding_cap(
    robot: VolumetricRobot, chamber: int, at: Floats, faces: Ints, place: Ints, still: Bools, order: int
) -> SlidingCap:
    """Return the cap of a plane in which its rim slides.

    Raises
    ------
    InputError
        The rim may leave the plane, or the faces are in no plane of two coordinates.
    """
    n = len(robot.vertices)
    normal = _normals(at, faces)[0]
    axis = int(np.argmax(np.abs(normal)))
    rim = np.unique(faces)
    rim = rim[robot.body_vertices[rim]]
    loose = rim[~still[rim, axis]]
    if abs(normal[axis]) < 1.0 - FLAT or len(loose):
        vertex = loose[0] if len(loose) else rim[0]
        raise InputError(
            f"chamber {chamber + 1} is open: {len(faces)} of its faces touch no body and their rim is not fixed "
            f"(vertex {vertex}); close it with body tets, fix the rim, make it a rigid group, or hold it in the "
            f"plane of the faces"
        )
    pairs = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    span = n + 1
    keys = pairs[:, 0] * span + pairs[:, 1]
    edges = pairs[~np.isin(keys, pairs[:, 1] * span + pairs[:, 0])]
    known = robot.p2_edges[:, 0] * span + robot.p2_edges[:, 1]
    wanted = edges.min(axis=1) * span + edges.max(axis=1)
    row = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    middle = np.where((known[row] == wanted) & (order == 2), place[n + row], -1)
    return SlidingCap(
        chamber, axis, frozen(place[edges[:, 0]]), frozen(middle), frozen(place[edges[:, 1]]), frozen(at[edges.T])
    )
