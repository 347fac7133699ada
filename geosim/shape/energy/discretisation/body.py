"""The body in dimensionless units: its nodes, its elements, and the maps between both and the robot.

Lengths are in units of the body's bounding-box diagonal, stresses in units of the shear modulus: in SI the stiffness
is about 1e2 and the incompressibility rows 1e-6, and a pivot perturbation of 1e-8 would swamp the pressure block.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.sparse import csr_matrix

from geosim.arrays import Floats, Ints, frozen
from geosim.geometry import topology
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.discretisation.assembly import Mesh
from geosim.shape.energy.discretisation.elements import Element, element

# Tets whose nodes stand in the processor's caches, in any order: 31k quadratic ones take as long in any, of 307k linear ones
# products, sweeps and assembly take a third of the time.
CACHED_TETS = 50_000


@dataclass(frozen=True)
class ScaledBody:
    """Nodes and elements of a body.

    Parameters
    ----------
    robot, element
        Whose they are, and of which kind.
    length, stress, center
        Units [m], [Pa] and origin [m].
    nodes, place
        Node k is node `nodes[k]` of the robot (vertices, then mid-edges); node i of the robot is node `place[i]`, or none: -1.
    rest
        Rest positions, (nodes, 3).
    mesh
        Elements.
    pressure_vertices
        Vertices of the robot that carry a pressure, (v,).
    """

    robot: VolumetricRobot
    element: Element
    length: float
    stress: float
    center: Floats
    nodes: Ints
    place: Ints
    rest: Floats
    mesh: Mesh
    pressure_vertices: Ints

    @property
    def force_unit(self) -> float:
        """Newtons in one scaled unit of force."""
        return self.stress * self.length**2

    @property
    def compressible(self) -> bool:
        """Whether any material gives way to pressure."""
        return any(np.isfinite(m.bulk_modulus) for m in self.robot.materials.values())

    @property
    def body_volume(self) -> float:
        """Scaled rest volume of the body."""
        return float(self.mesh.volumes.sum())

    def to_metres(self, x: Floats) -> Floats:
        """Positions [m] of scaled positions."""
        return x * self.length + self.center

    def scaled(self, positions: Floats) -> Floats:
        """Scaled positions of positions [m]."""
        return (positions - self.center) / self.length


def scaled_body(robot: VolumetricRobot, order: int, like: ScaledBody | None = None) -> ScaledBody:
    """Return the body of a robot in elements of an order; of a mesh `like` another one in its units, with its numbers."""
    if like is not None:
        rest = frozen(like.scaled(topology.with_mid_edges(robot.vertices, robot.p2_edges)[like.nodes]))
        slopes, volumes = _metric(rest, like.mesh.tets)
        same = {of.name: getattr(like, of.name) for of in fields(ScaledBody)}
        mesh = like.mesh._replace(barycentric=slopes, volumes=volumes)
        return ScaledBody(**{**same, "robot": robot, "rest": rest, "mesh": mesh})
    of_robot = robot.p2_tets if order == 2 else robot.body_tets
    all_nodes = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    nodes, tets = _numbered(robot, of_robot)
    pressure_vertices, pressure_tets = _numbered(robot, robot.body_tets)
    used = robot.vertices[robot.body_vertices]
    center, length = 0.5 * (used.min(axis=0) + used.max(axis=0)), robot.size
    rest = frozen((all_nodes[nodes] - center) / length)
    of_materials = frozen(np.searchsorted(list(robot.materials), robot.regions[robot.is_body]))
    mesh = Mesh(tets, pressure_tets, *_metric(rest, tets), of_materials)
    place = np.full(len(all_nodes), -1)
    place[nodes] = np.arange(len(nodes))
    return ScaledBody(
        robot,
        element(order),
        length,
        next(iter(robot.materials.values())).shear_modulus,
        frozen(center),
        frozen(nodes),
        frozen(place),
        rest,
        mesh,
        frozen(pressure_vertices),
    )


def _metric(rest: Floats, tets: Ints) -> tuple[Floats, Floats]:
    """Return the slopes of barycentric coordinates (m, 4, 3) and the volumes (m,) of tets at rest."""
    corners = rest[tets[:, :4]]
    inverse = np.linalg.inv((corners[:, :3] - corners[:, 3:]).transpose(0, 2, 1))
    slopes = np.concatenate([inverse, -inverse.sum(axis=1, keepdims=True)], axis=1)
    return frozen(slopes), frozen(topology.tet_volumes(rest, tets[:, :4]))


def _numbered(robot: VolumetricRobot, tets: Ints) -> tuple[Ints, Ints]:
    """Return the nodes of the robot that tets use, of large meshes neighbours near each other, and the tets in these numbers.

    Meshers number without regard to place. Along reverse Cuthill and McKee's order of the vertices, mid-edge nodes half-way
    between, products, sweeps and assembly read and write what is near in memory. A mesh that is moved keeps its numbers.
    """
    used, number = np.unique(tets, return_inverse=True)
    if len(tets) < CACHED_TETS:
        return used, frozen(number.reshape(tets.shape))
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # 40 ms that small meshes do not pay

    ends, count = robot.p2_edges, len(robot.vertices)
    graph = csr_matrix(
        (np.ones(2 * len(ends), dtype=np.int8), np.vstack([ends, ends[:, ::-1]]).T), shape=(count, count)
    )
    place = np.empty(count)
    place[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(count)
    order = np.argsort(np.concatenate([place, place[ends].mean(axis=1)])[used], kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return used[order], frozen(rank[number].reshape(tets.shape))
