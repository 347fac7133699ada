"""A robot and its environment on the mesh with every tet split into eight, and the equilibrium that they come from on it.

The elements are nested: what P2 or P1 functions of the coarse mesh are, those of the fine one are exactly. What was selected
by the user is refined as a set of faces and edges, not selected anew, so that both meshes have one limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.geometry import topology
from geosim.model.environment import Environment, Load, Prescribed
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.constraints.supports import held_nodes
from geosim.shape.energy.measures import placed
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import Configuration

# Children of a tet in its ten nodes: four at the corners, and four around each of the three diagonals of the octahedron
# between them, all positively oriented.
CORNER_CHILDREN = np.array([[0, 4, 6, 7], [4, 1, 5, 8], [6, 5, 2, 9], [7, 8, 9, 3]])
OCTAHEDRON_DIAGONALS = ((4, 9), (5, 7), (6, 8))
FACE_CHILDREN = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])  # children of a face in its six nodes
NODE_BARYCENTRICS = np.vstack(
    [np.eye(4), np.eye(4)[topology.TET_EDGES].mean(axis=1)]
)  # barycentric coordinates of the ten nodes


def _around(diagonal: int) -> Ints:
    """Return the four tets around a diagonal of the octahedron, positively oriented."""
    octahedron_rings = ((5, 6, 7, 8), (4, 6, 9, 8), (4, 5, 9, 7))
    (a, b), ring = OCTAHEDRON_DIAGONALS[diagonal], octahedron_rings[diagonal]
    tets = np.array([[a, b, ring[k], ring[(k + 1) % 4]] for k in range(4)])
    corners = NODE_BARYCENTRICS[tets][:, :, 1:]
    flipped = np.linalg.det(corners[:, 1:] - corners[:, :1]) < 0.0
    tets[flipped] = tets[flipped][:, [0, 2, 1, 3]]
    return tets


TET_CHILDREN = np.array([np.vstack([CORNER_CHILDREN, _around(d)]) for d in range(3)])


@dataclass(frozen=True)
class Refined:
    """A robot on the mesh with every tet split into eight.

    Parameters
    ----------
    robot
        Its vertices are those of the coarse robot, its mid-edge nodes, then mid-edges of chamber tets alone.
    coarse
        The robot that it comes from.
    parents
        Coarse body tet of every body tet, (8 m,).
    places
        The four corners of every body tet among the ten nodes of its parent, (8 m, 4).
    """

    robot: VolumetricRobot
    coarse: VolumetricRobot
    parents: Ints
    places: Ints

    def ids(self, selector: Any, among: Bools | None = None) -> Ints:
        """Return the vertices of what was selected on the coarse mesh: its vertices and the middles of its faces and edges."""
        return refined_ids(self.coarse, selected_ids(selector, self.coarse.vertices, "refined", among=among))

    def environment(self, given: Environment) -> Environment:
        """Return an environment whose loads, supports and groups are those on the coarse mesh."""
        body = self.coarse.body_vertices
        pairs = tuple(
            tuple(item if isinstance(item, str) else self.ids(item) for item in pair) for pair in given.exclude_pairs
        )
        groups = tuple(replace(g, vertices=self._group(self.ids(g.vertices, body))) for g in given.rigid_groups)
        return replace(
            given,
            loads=tuple(self._load(load) for load in given.loads),
            prescribed=tuple(self._prescribed(p) for p in given.prescribed),
            rigid_groups=groups,
            exclude_pairs=pairs,
        )

    def _load(self, load: Load) -> Load:
        if load.kind not in ("traction", "pressure"):
            return replace(load, where=self.ids(load.where, self.coarse.body_vertices))
        nodes = topology.curved_faces(load.where, self.coarse.p2_edges, len(self.coarse.vertices))
        return replace(load, where=nodes[:, FACE_CHILDREN].reshape(-1, 3))

    def _group(self, ids: Ints) -> Ints:
        """Vertices of a group; caps that it closes are faces of chamber tets, whose edges of the body belong to it, too."""
        chosen = np.zeros(len(self.robot.vertices), dtype=bool)
        chosen[ids] = True
        n = len(self.coarse.vertices)
        caps = np.vstack([np.empty((0, 3), dtype=np.int64), *self.coarse.chamber_caps])
        caps = caps[chosen[caps].all(axis=1)]
        pairs = {tuple(e) for e in np.sort(caps[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1).tolist()}
        rims = [n + i for i, e in enumerate(self.coarse.p2_edges.tolist()) if tuple(e) in pairs] if pairs else []
        return np.union1d(ids, np.array(rims, dtype=np.int64))

    def _prescribed(self, item: Prescribed) -> Prescribed:
        """Return a prescription on the fine mesh: displacements between vertices are their means."""
        coarse, body = self.coarse, self.coarse.body_vertices
        before = selected_ids(item.vertices, coarse.vertices, "prescribed", among=body)
        after = refined_ids(coarse, before)
        if item.displacement.ndim == 2:
            return Prescribed(after, item.displacement)
        n, given = len(coarse.vertices), np.asarray(item.vertices) if not callable(item.vertices) else before
        ids = given.ravel() if given.dtype.kind in "iu" else before
        rows = np.full((len(item.displacement), n + len(coarse.p2_edges), 3), np.nan)
        rows[:, ids] = item.displacement
        rows[:, n:] = rows[:, coarse.p2_edges].mean(axis=2)
        return Prescribed(after, rows[:, after])

    def interpolated(self, values: Floats) -> Floats:
        """Return the functions of the coarse mesh that agree with values (nodes, 3) of the fine one at its nodes."""
        coarse = self.coarse
        return self.on_fine(values[: len(coarse.vertices) + len(coarse.p2_edges)])

    def on_fine(self, values: Floats) -> Floats:
        """Return what values (n + e, 3) at the nodes of the coarse mesh are at those of the fine one, 0 off the body."""
        ten = self.coarse.p2_tets[self.parents]
        out = np.zeros((len(self.robot.vertices) + len(self.robot.p2_edges), 3))
        barycentric = NODE_BARYCENTRICS[self.places]
        middles = barycentric[:, topology.TET_EDGES].mean(axis=2)
        for nodes, places in ((self.robot.p2_tets[:, :4], barycentric), (self.robot.p2_tets[:, 4:], middles)):
            for k in range(nodes.shape[1]):
                shape = topology.p2_shape(places[:, k], topology.TET_EDGES)
                out[nodes[:, k]] = np.einsum("ea,eai->ei", shape, values[ten])
        return out

    def prolonged(self, coarse: ShapeProblem, point: Configuration, fine: ShapeProblem) -> Configuration:
        """Return the configuration of the coarse mesh on the fine one: the same functions."""
        stresses = np.zeros(len(self.coarse.vertices))
        stresses[coarse.pressure_vertices] = point.p
        both = topology.with_mid_edges(stresses, self.coarse.p2_edges)
        unit = coarse.stress / fine.stress
        x = fine.settled(fine.scaled(self.on_fine(placed(coarse, point.x))[fine.nodes]))
        p = both[fine.pressure_vertices] * unit
        return Configuration(x, p, point.scalar_forces * unit, objects=point.objects)  # one box, one unit of length


def refine(robot: VolumetricRobot) -> Refined:
    """Return a robot with every tet split into eight; the octahedron in its middle along its shortest diagonal."""
    n = len(robot.vertices)
    edges, nodes = topology.mid_edges(robot.tets, n)
    order = np.concatenate([np.arange(n), n + _numbers(edges, robot.p2_edges)])
    nodes = order[nodes]
    middles = np.empty((len(edges), 3))
    middles[order[n:] - n] = robot.vertices[edges].mean(axis=1)
    vertices = np.vstack([robot.vertices, middles])
    ends = vertices[nodes[:, np.array(OCTAHEDRON_DIAGONALS)]]
    chosen = np.argmin(np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=2), axis=1)
    places = TET_CHILDREN[chosen]
    tets = np.take_along_axis(nodes, places.reshape(len(nodes), -1), axis=1).reshape(-1, 4)
    fine = replace(
        robot,
        vertices=vertices,
        tets=tets,
        regions=np.repeat(robot.regions, 8),
        fixed=refined_ids(robot, robot.fixed),
        tip=refined_ids(robot, robot.tip),
    )
    parents = np.repeat(np.arange(int(robot.is_body.sum())), 8)
    return Refined(fine, robot, frozen(parents), frozen(places[robot.is_body].reshape(-1, 4)))


def _numbers(edges: Ints, first: Ints) -> Ints:
    """Numbers of edges (e, 2) when those of the body `first` come first, in their order."""
    out = np.full(len(edges), -1)
    out[topology.rows_of(edges, first)] = np.arange(len(first))
    out[out < 0] = len(first) + np.arange(len(edges) - len(first))
    return out


def refined_ids(robot: VolumetricRobot, ids: Ints) -> Ints:
    """Vertices, and middles of their faces and of what lies in tets of theirs; where they span no face, of their edges."""
    n, chosen = len(robot.vertices), np.zeros(len(robot.vertices), dtype=bool)
    chosen[ids] = True
    held = held_nodes(robot, chosen)
    held[ids] = True
    if not held[n:].any():
        surface = np.vstack([robot.skin, *robot.chamber_walls])
        known = topology.curved_faces(surface, robot.p2_edges, n)
        pairs = surface[:, topology.TRIANGLE_EDGES]
        held[known[:, 3:][chosen[pairs].all(axis=2)]] = True
    return frozen(np.flatnonzero(held))
