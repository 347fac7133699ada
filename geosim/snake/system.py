"""What a step needs of a robot, computed once: slots, levels, sparsity pattern, element maps, surfaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.shapes import Solids, join_solids, make_solid
from geosim.environment import Environment, Load
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.select import selected_ids
from geosim.snake.factor import BlockTridiagonal, SparseFactor, sweep_order
from geosim.snake.model import MultibodyRobot

__all__ = ["System", "build_system", "driven_springs"]


@dataclass(frozen=True)
class System:
    """Flat arrays of a robot in an environment, ready for the kernels; `slots` are three unknowns each.

    `blocks` (nnz, 3, 3) is scratch for the stiffness; its content does not outlive a Newton iteration.
    """

    robot: MultibodyRobot
    environment: Environment
    tets: Ints
    tet_shapes: Floats
    tet_volumes: Floats
    mu: Floats
    lam: Floats
    springs: Ints
    masses: Floats
    second_moments: Floats
    weights: Floats
    free: Bools
    rows: Ints
    columns: Ints
    level: Ints
    rank: Ints
    diagonal: Ints
    tet_index: Ints
    spring_index: Ints
    pair_index: Ints
    pair_flipped: Bools
    axis_index: Ints
    hinge_index: Ints
    keys: Ints
    solids: Solids
    surface_body: Ints
    surface_friction: Floats
    loads: Floats
    blocks: Floats

    @property
    def particles(self) -> int:
        """Number of particles."""
        return len(self.robot.particles)

    @property
    def slots(self) -> int:
        """Number of unknown 3-vectors: one a particle, two a body."""
        return len(self.level)

    def point_index(self, nodes: Ints) -> tuple[Ints, Bools]:
        """Blocks of point pairs (k, 2): 4 diagonal and 6 pair blocks, and which pair blocks are transposed."""
        return _point_index(nodes, self.particles, self.rank, self.keys, self.slots)

    def factoriser(self, kind: str, single: bool = False) -> BlockTridiagonal | SparseFactor:
        """Return the workspace "block" (perhaps in single precision), "sparse" or the cheaper one, "auto"."""
        block = BlockTridiagonal(self.rows, self.columns, self.level, self.rank, single)
        # SuperLU needs about 0.3 ms per 1000 stored blocks and 2 ms; the blocks 18 multiplications a nanosecond.
        if kind == "block" or (kind == "auto" and block.cost / 18e9 < 2e-3 + 2e-6 * len(self.rows)):
            return block
        return SparseFactor(self.rows, self.columns, self.slots)

    def surface_poses(self, index: int, share: float) -> Floats:
        """Poses (surfaces, 3, 4) at a share of the way to command `index`; those of boxes of bodies are not read."""
        poses = np.tile(np.eye(4)[:3], (len(self.surface_body), 1, 1))
        poses[: len(self.environment.obstacles)] = self.environment.poses(index, share)[:, :3]
        return poses


def _slots_of(node: Ints, n: int) -> Ints:
    """Place and rotation slot of nodes (...,): (..., 2), -1 where there is none."""
    body = n + 2 * (node - n)
    place = np.where(node < 0, -1, np.where(node < n, node, body))
    return np.stack([place, np.where(node < n, -1, body + 1)], axis=-1)


def _pairs_of(slots: Ints) -> Iterable[tuple[Ints, Ints]]:
    for i in range(slots.shape[1]):
        for j in range(i, slots.shape[1]):
            yield slots[:, i], slots[:, j]


def _point_index(nodes: Ints, n: int, rank: Ints, keys: Ints, count: int) -> tuple[Ints, Bools]:
    slots = _slots_of(nodes.reshape(-1, 2), n).reshape(-1, 4)
    index = np.full((len(slots), 10), -1, dtype=np.int64)
    flipped = np.zeros((len(slots), 6), dtype=np.bool_)
    m = 4
    for i in range(4):
        index[:, i] = _find(slots[:, i], slots[:, i], rank, keys, count)
        for j in range(i + 1, 4):
            index[:, m] = _find(slots[:, i], slots[:, j], rank, keys, count)
            flipped[:, m - 4] = rank[slots[:, i]] < rank[slots[:, j]]
            m += 1
    return index, flipped


def _key(a: Ints, b: Ints, rank: Ints, count: int) -> Ints:
    high, low = np.maximum(rank[a], rank[b]), np.minimum(rank[a], rank[b])
    return high * count + low


def _find(a: Ints, b: Ints, rank: Ints, keys: Ints, count: int) -> Ints:
    """Block number of slot pairs, -1 where a slot is -1."""
    missing = (a < 0) | (b < 0)
    key = _key(np.where(missing, 0, a), np.where(missing, 0, b), rank, count)
    found = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    if (keys[found] != key)[~missing].any():
        raise InputError("a contact couples two bodies that the sparsity pattern does not know")
    return np.where(missing, -1, found)


def _levels(count: int, a: Ints, b: Ints) -> Ints:
    """Breadth-first levels of the nodes; the components follow each other."""
    graph = scipy.sparse.coo_matrix((np.ones(len(a)), (a, b)), shape=(count, count)).tocsr()
    graph = graph + graph.T
    parts, label = connected_components(graph, directed=False)
    level = np.zeros(count, dtype=np.int64)
    first = 0
    members = (
        np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])
        if parts > 1
        else [np.arange(count)]
    )
    for nodes in members:
        start = nodes[0]
        for _ in range(3):  # walk to the far end and back: a pseudo-peripheral start has narrow levels
            order, parent = breadth_first_order(graph, start, directed=False)
            depth = np.zeros(count, dtype=np.int64)
            for k in order[1:]:
                depth[k] = depth[parent[k]] + 1
            start = order[-1]
        level[order] = depth[order] + first
        first = int(level[order].max()) + 1
    return level


def build_system(robot: MultibodyRobot, environment: Environment) -> System:
    """Number the unknowns of a robot and find the pattern of its matrix.

    Raises
    ------
    InputError
        The environment holds something that this solver does not simulate.
    """
    n, b = len(robot.particles), len(robot.body_masses)
    count = n + 2 * b
    solids, bodies, frictions = _surfaces(robot, environment)
    touching = _touching_bodies(robot)
    groups = [
        robot.tets,
        robot.springs,
        _slots_of(robot.pairs, n).reshape(-1, 4),
        np.where(robot.axes < 0, -1, n + 2 * robot.axes + 1),
        np.where(robot.hinges < 0, -1, n + 2 * robot.hinges + 1),
        _slots_of(touching, n).reshape(-1, 4),
        n + 2 * np.arange(b)[:, None] + np.arange(2),
        np.arange(count)[:, None],
    ]
    ends = [
        np.concatenate(k) for k in zip(*[pair for g in groups for pair in _pairs_of(np.asarray(g, dtype=np.int64))])
    ]
    good = (ends[0] >= 0) & (ends[1] >= 0)
    first, second = ends[0][good], ends[1][good]
    node_of = np.concatenate([np.arange(n), n + np.repeat(np.arange(b), 2)])
    level = _levels(n + b, node_of[first], node_of[second])[node_of]
    points = np.vstack([robot.particles, np.repeat(robot.body_positions, 2, axis=0)])
    rank = sweep_order(level, first, second, points)
    keys = np.unique(_key(first, second, rank, count))
    slot_at = np.argsort(rank)
    free = np.ones(count, dtype=bool)
    free[np.flatnonzero(robot.fixed[node_of])] = False
    tets = (
        np.take_along_axis(robot.tets, np.argsort(-rank[robot.tets], axis=1), axis=1) if len(robot.tets) else robot.tets
    )
    springs = (
        np.take_along_axis(robot.springs, np.argsort(-rank[robot.springs], axis=1), axis=1)
        if len(robot.springs)
        else robot.springs
    )
    find = lambda i, j: _find(i, j, rank, keys, count)  # noqa: E731
    corner = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    rotation = lambda pairs: np.where(pairs < 0, -1, n + 2 * pairs + 1)  # noqa: E731
    rows_of = lambda p: np.column_stack([find(p[:, i], p[:, j]) for i, j in ((0, 0), (1, 1), (0, 1))])  # noqa: E731
    x = robot.particles
    if len(tets):
        edges = np.stack([x[tets[:, a]] - x[tets[:, 0]] for a in (1, 2, 3)], axis=2)
        gradients = np.linalg.inv(edges)
    else:
        gradients = np.empty((0, 3, 3))
    E, nu = robot.youngs_modulus, robot.poisson_ratio
    inertia = robot.body_inertias
    index, flipped = _point_index(robot.pairs, n, rank, keys, count)
    return System(
        robot=robot,
        environment=environment,
        tets=np.ascontiguousarray(tets),
        tet_shapes=np.ascontiguousarray(gradients.reshape(-1, 9).T),
        tet_volumes=topology.tet_volumes(x, robot.tets) if len(tets) else np.empty(0),
        mu=E / (2 * (1 + nu)),
        lam=E * nu / ((1 + nu) * (1 - 2 * nu)),
        springs=np.ascontiguousarray(springs),
        masses=np.concatenate([robot.particle_masses, np.repeat(robot.body_masses, 2)]),
        second_moments=0.5 * inertia.sum(axis=1, keepdims=True) - inertia,
        weights=_residual_weights(robot),
        free=free,
        rows=slot_at[keys // count],
        columns=slot_at[keys % count],
        level=level,
        rank=rank,
        diagonal=find(np.arange(count), np.arange(count)),
        tet_index=np.column_stack([find(tets[:, i], tets[:, j]) for i, j in corner])
        if len(tets)
        else np.empty((0, 6), np.int64),
        spring_index=find(springs[:, 0], springs[:, 1]),
        pair_index=index,
        pair_flipped=flipped,
        axis_index=rows_of(rotation(robot.axes)),
        hinge_index=rows_of(rotation(robot.hinges)),
        keys=keys,
        solids=solids,
        surface_body=bodies,
        surface_friction=frictions,
        loads=_loads(robot, environment),
        blocks=np.empty((len(keys), 3, 3)),
    )


def _residual_weights(robot: MultibodyRobot) -> Floats:
    """Turn torques into newtons by the body's radius of gyration [1/m]; 1 for forces, shape (slots,)."""
    gyration = np.sqrt(robot.body_inertias.mean(axis=1) / robot.body_masses)
    bodies = np.column_stack([np.ones(len(gyration)), 1.0 / gyration]).ravel()
    return np.concatenate([np.ones(len(robot.particles)), bodies])


def _touching_bodies(robot: MultibodyRobot) -> Ints:
    """Pairs (node, body node) of probes and boxes of different nodes, each once, shape (k, 2)."""
    n = len(robot.particles)
    nodes = np.unique(robot.probes)
    pairs = [(int(a), n + int(b)) for b in robot.boxes for a in nodes if a != n + b]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _surfaces(robot: MultibodyRobot, environment: Environment) -> tuple[Solids, Ints, Floats]:
    """Obstacles and boxes of bodies as (solids, bodies, frictions)."""
    for key in ("prescribed", "fluid", "rigid_groups"):
        if getattr(environment, key):
            raise InputError(
                f"MultibodyStepper: Environment({key}=...) is not simulated; use fixed nodes and obstacles"
            )
    obstacles = environment.obstacles
    return (
        join_solids(
            [o.solid for o in obstacles] + [make_solid("box", {"lower": -h, "upper": h}) for h in robot.box_sizes]
        ),
        np.concatenate([np.full(len(obstacles), -1, dtype=np.int64), robot.boxes]),
        np.concatenate([[o.friction for o in obstacles], robot.box_friction]),
    )


def _loads(robot: MultibodyRobot, environment: Environment) -> Floats:
    """Unit shares of the loads: (loads, particles), so that load l pushes with shares[l] * value."""
    shares = np.zeros((len(environment.loads), len(robot.particles)))
    for k, load in enumerate(environment.loads):
        shares[k] = _share(robot, load)
    return shares


def _share(robot: MultibodyRobot, load: Load) -> Floats:
    n = len(robot.particles)
    share = np.zeros(n)
    if load.kind == "traction":
        a, b, c = (robot.particles[load.where[:, i]] for i in range(3))
        np.add.at(share, load.where, (np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6.0)[:, None])
        return share
    ids: Any = selected_ids(load.where, robot.particles, "Load.force: vertices")
    faces = topology.boundary_faces(robot.tets)
    faces = faces[np.isin(faces, ids).all(axis=1)]
    if len(faces):
        a, b, c = (robot.particles[faces[:, i]] for i in range(3))
        np.add.at(share, faces, (np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6.0)[:, None])
    else:
        share[ids] = 1.0
    return share / share.sum()


def driven_springs(robot: MultibodyRobot, pressures: Floats, onset: float) -> tuple[Floats, Floats]:
    """Rest lengths [m] by Eq. (4) and stiffness [N/m] of all distance constraints at chamber pressures [Pa].

    Only the lines of a chamber under pressure are active; they set in over the first `onset` pascals.
    """
    driven = robot.spring_chamber >= 0
    pressure = np.where(driven, pressures[robot.spring_chamber] if robot.chambers else 0.0, 0.0)
    active = np.where(driven, np.clip(pressure / onset, 0.0, 1.0), 1.0)
    return robot.spring_rest * (1.0 + pressure / robot.spring_modulus), robot.spring_stiffness * active
