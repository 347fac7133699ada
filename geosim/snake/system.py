"""The discrete multibody system, computed once: slots, levels, sparsity pattern, element maps, surfaces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, dijkstra

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.shapes import join_solids, make_solid
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.linear.block_tridiagonal import BlockTridiagonal, SparseFactor, sweep_order
from geosim.model.environment import Environment
from geosim.model.select import selected_ids
from geosim.snake.contact import Probes, Surfaces
from geosim.snake.joints import RigidParts
from geosim.snake.model import MultibodyRobot
from geosim.snake.rows import slots_of, turns_of
from geosim.snake.soft import Tets, driven_springs


@dataclass(frozen=True)
class MultibodyPattern:
    """Which slots are coupled, in the order of the elimination.

    Parameters
    ----------
    particles
        Their number.
    level, rank
        Breadth-first level and place in the elimination of every slot, (slots,).
    keys
        rank * slots + rank of every lower 3x3 block, ascending, (nnz,).
    """

    particles: int
    level: Ints
    rank: Ints
    keys: Ints

    @property
    def slots(self) -> int:
        """Number of unknown 3-vectors: one a particle, two a body."""
        return len(self.level)

    @cached_property
    def rows(self) -> Ints:
        """Slots of the rows of the blocks, (nnz,)."""
        return np.argsort(self.rank)[self.keys // self.slots]

    @cached_property
    def columns(self) -> Ints:
        """Slots of the columns of the blocks, (nnz,)."""
        return np.argsort(self.rank)[self.keys % self.slots]

    def find(self, a: Ints, b: Ints) -> Ints:
        """Block of every pair of slots, -1 where a slot is -1."""
        missing = (a < 0) | (b < 0)
        first, second = self.rank[np.where(missing, 0, a)], self.rank[np.where(missing, 0, b)]
        key = np.maximum(first, second) * self.slots + np.minimum(first, second)
        found = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        if (self.keys[found] != key)[~missing].any():
            raise InputError("a contact couples two bodies that the sparsity pattern does not know")
        return np.where(missing, -1, found)

    def blocks_of(self, slots: Ints) -> tuple[Ints, Bools]:
        """Blocks between the slots (k, s) of every row, and which of them hold the transpose, (k, s (s + 1) / 2)."""
        a, b = (slots[:, corner] for corner in np.triu_indices(slots.shape[1]))
        return np.ascontiguousarray(self.find(a, b)), np.ascontiguousarray(self.rank[a] < self.rank[b])

    def sorted(self, slots: Ints) -> Ints:
        """Slots (k, s) of every row, last in the elimination first, so that no block between them is transposed."""
        return np.ascontiguousarray(np.take_along_axis(slots, np.argsort(-self.rank[slots], axis=1), axis=1))


@dataclass(frozen=True)
class MultibodySystem:
    """Flat arrays of a robot in an environment, ready for the kernels; `slots` are three unknowns each.

    Parameters
    ----------
    robot, environment
        What is solved.
    pattern
        Sparsity pattern of the stiffness.
    soft, springs
        Tets, and ends of the distance constraints, last in the elimination first.
    masses, place_masses
        Of all slots [kg]: of a body twice; of its centre alone, its rotation has none.
    second_moments
        tr(I) / 2 - I of the bodies [kg m^2], (b, 3).
    weights
        Turn torques into newtons by the body's radius of gyration [1/m]; 1 for forces, (slots,).
    free
        Slots that are not held.
    turning
        Tets whose rotations say how particles turn: so many that each has two of them, where it has, (k,).
    turned_with, carriers
        Body with which the material at a slot turns, -1 where it turns as the tets around it, (slots,); the same without the
        slots that are held, which nothing carries.
    diagonal, tet_index, spring_index
        Blocks of slots, of the 6 pairs of corners of a tet, of the ends of a spring.
    rigid, pair_index, axis_index, hinge_index
        Rigid constraints, and the blocks of their rows (`MultibodyPattern.blocks_of`).
    pair_stiffness, axis_stiffness
        Of the rows of point pairs [N/m], (p, 3, 3), and of axes [N m], (a, 1, 1).
    probes, surfaces
        What can touch, and what can be touched.
    loads
        Unit shares of the loads: load l pushes with loads[l] * value, (loads, particles).
    """

    robot: MultibodyRobot
    environment: Environment
    pattern: MultibodyPattern
    soft: Tets
    springs: Ints
    masses: Floats
    place_masses: Floats
    second_moments: Floats
    weights: Floats
    free: Bools
    turning: Ints
    turned_with: Ints
    carriers: Ints
    diagonal: Ints
    tet_index: Ints
    spring_index: Ints
    rigid: RigidParts
    pair_stiffness: Floats
    axis_stiffness: Floats
    pair_index: tuple[Ints, Bools]
    axis_index: tuple[Ints, Bools]
    hinge_index: tuple[Ints, Bools]
    probes: Probes
    surfaces: Surfaces
    loads: Floats

    @property
    def particles(self) -> int:
        """Number of particles."""
        return self.pattern.particles

    @property
    def slots(self) -> int:
        """Number of unknown 3-vectors."""
        return self.pattern.slots

    def workspace(self, kind: str, single: bool = False) -> Workspace:
        """Return a workspace that factors by "block" (perhaps in single precision), "sparse" or the cheaper, "auto"."""
        pattern, count = self.pattern, len(self.pattern.keys)
        block = BlockTridiagonal(pattern.rows, pattern.columns, pattern.level, pattern.rank, single)
        # Multiplications in tiles in the time that SuperLU takes for one stored 3x3 block, and for starting: 0.3 us and
        # 2 ms against 18 multiplications a nanosecond, measured in one run on the links of a snake and on blocks of
        # tets.
        sparse_block, sparse_start = 36e3, 36e6
        cheap = block.cost < sparse_start + sparse_block * count
        sparse = kind == "sparse" or (kind == "auto" and not cheap)
        factor = SparseFactor(pattern.rows, pattern.columns, pattern.slots) if sparse else block
        return Workspace(factor, np.empty((count, 3, 3)))

    @cached_property
    def weight(self) -> Floats:
        """Of particles and bodies [N], zero for rotations, (slots, 3)."""
        weight = self.masses[:, None] * self.environment.gravity
        weight[self.particles + 1 :: 2] = 0.0
        return frozen(weight)

    @cached_property
    def held(self) -> Ints:
        """Slots that are held."""
        return np.flatnonzero(~self.free)

    def springs_at(self, pressures: Floats, onset: float) -> tuple[Floats, Floats]:
        """Return rest lengths [m] and stiffness [N/m] of the distance constraints, see `driven_springs`."""
        r = self.robot
        springs = (r.spring_chamber, r.spring_rest, r.spring_stiffness, r.spring_modulus)
        return cast(tuple[Floats, Floats], driven_springs(*springs, pressures, onset))

    def surface_poses(self, index: int, share: float) -> Floats:
        """Poses (surfaces, 3, 4) at a share of the way to command `index`; those of boxes of bodies are not read."""
        if all(o.motion is None for o in self.environment.obstacles):
            return self._resting_poses
        poses = self._resting_poses.copy()
        poses[: len(self.environment.obstacles)] = self.environment.poses(index, share)[:, :3]
        return poses

    @cached_property
    def _resting_poses(self) -> Floats:
        """Poses (surfaces, 3, 4) of what does not move."""
        return frozen(np.tile(np.eye(4)[:3], (len(self.surfaces.body), 1, 1)))


@dataclass
class Workspace:
    """Memory that the steps write over: the factorisation, and the stiffness (nnz, 3, 3) of one Newton iteration."""

    factor: BlockTridiagonal | SparseFactor
    blocks: Floats
    held: Any = None  # what the factorisation now in memory was made of (`condensed.Factored`), if that is known
    # its half-solutions for the slots that contacts act on (`condensed.CondensedDirection`)
    halves: tuple[Any, Floats, Floats, Ints, Ints, Ints] | None = None


def _levels(count: int, a: Ints, b: Ints) -> Ints:
    """Breadth-first levels of the nodes; the components follow each other."""
    graph = scipy.sparse.coo_matrix((np.ones(len(a)), (a, b)), shape=(count, count)).tocsr()
    graph = graph + graph.T
    parts, label = connected_components(graph, directed=False)
    level, first = np.zeros(count, dtype=np.int64), 0
    for part in range(parts):
        nodes = np.flatnonzero(label == part)
        start = nodes[0]
        for _ in range(3):  # walk to the far end and back: a pseudo-peripheral start has narrow levels
            depth = dijkstra(graph, indices=start, unweighted=True)[nodes].astype(np.int64)
            start = nodes[np.flatnonzero(depth == depth.max())[-1]]
        level[nodes] = depth + first
        first += int(depth.max()) + 1
    return level


def make_pattern(robot: MultibodyRobot) -> MultibodyPattern:
    """Number the unknowns of a robot and find the pattern of its matrix."""
    n, b = len(robot.particles), len(robot.body_masses)
    count = n + 2 * b
    groups = [
        robot.tets,
        robot.springs,
        slots_of(robot.pairs, n).reshape(-1, 4),
        turns_of(robot.axes, n),
        turns_of(robot.hinges, n),
        slots_of(_touching_bodies(robot), n).reshape(-1, 4),
        n + 2 * np.arange(b)[:, None] + np.arange(2),
        np.arange(count)[:, None],
    ]
    ends = [np.stack([group[:, k] for k in np.triu_indices(group.shape[1])]).reshape(2, -1) for group in groups]
    both = np.concatenate(ends, axis=1)
    first, second = both[:, (both >= 0).all(axis=0)]
    node_of = np.concatenate([np.arange(n), n + np.repeat(np.arange(b), 2)])
    level = _levels(n + b, node_of[first], node_of[second])[node_of]
    points = np.vstack([robot.particles, np.repeat(robot.body_positions, 2, axis=0)])
    rank = sweep_order(level, first, second, points)
    keys = np.maximum(rank[first], rank[second]) * count + np.minimum(rank[first], rank[second])
    return MultibodyPattern(n, level, rank, np.unique(keys))


def build_system(robot: MultibodyRobot, environment: Environment) -> MultibodySystem:
    """Find the pattern of a robot's matrix and lay its parts out for the kernels.

    Raises
    ------
    InputError
        The environment holds something that this solver does not simulate.
    """
    n, x = len(robot.particles), robot.particles
    surfaces, pattern = _surfaces(robot, environment), make_pattern(robot)
    tets, springs = pattern.sorted(robot.tets), pattern.sorted(robot.springs)
    shapes = np.linalg.inv((x[tets[:, 1:]] - x[tets[:, :1]]).transpose(0, 2, 1))
    E, nu, inertia = robot.youngs_modulus, robot.poisson_ratio, robot.body_inertias
    mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
    volumes = topology.tet_volumes(x, robot.tets)
    pairs, axes, hinges = slots_of(robot.pairs, n).reshape(-1, 4), turns_of(robot.axes, n), turns_of(robot.hinges, n)
    gyration = np.sqrt(inertia.mean(axis=1) / robot.body_masses)
    corners = (tets[:, k] for k in np.triu_indices(4, 1))
    free = ~np.concatenate([robot.fixed[:n], np.repeat(robot.fixed[n:], 2)])
    turned_with = _turned_with(robot)
    return MultibodySystem(
        robot=robot,
        environment=environment,
        pattern=pattern,
        soft=Tets(tets, np.ascontiguousarray(shapes.reshape(-1, 9).T), volumes, mu, lam),
        springs=springs,
        masses=np.concatenate([robot.particle_masses, np.repeat(robot.body_masses, 2)]),
        place_masses=np.concatenate(
            [robot.particle_masses, np.column_stack([robot.body_masses, 0 * gyration]).ravel()]
        ),
        second_moments=0.5 * inertia.sum(axis=1, keepdims=True) - inertia,
        weights=np.concatenate([np.ones(n), np.column_stack([np.ones(len(gyration)), 1.0 / gyration]).ravel()]),
        free=free,
        turning=_turning(tets, n),
        turned_with=turned_with,
        carriers=np.where(free, turned_with, -1),
        diagonal=pattern.find(np.arange(pattern.slots), np.arange(pattern.slots)),
        tet_index=pattern.find(*corners),
        spring_index=pattern.find(springs[:, 0], springs[:, 1]),
        rigid=RigidParts(
            *(robot.pairs, robot.pair_points, robot.pair_stiffness, pairs),
            *(robot.axes, robot.axis_vectors, robot.axis_stiffness, axes),
            *(robot.hinges, robot.hinge_frames, robot.hinge_gains, hinges),
        ),
        pair_stiffness=robot.pair_stiffness[:, None, None] * np.eye(3),
        axis_stiffness=robot.axis_stiffness[:, None, None],
        pair_index=pattern.blocks_of(pairs),
        axis_index=pattern.blocks_of(axes),
        hinge_index=pattern.blocks_of(hinges),
        probes=Probes(robot.probes, robot.probe_centers, robot.probe_axes, robot.probe_radii, robot.probe_friction),
        surfaces=surfaces,
        loads=_loads(robot, environment),
    )


def _turning(tets: Ints, particles: int) -> Ints:
    """Tets so that every particle is a corner of two of them, or of as many as it has."""
    count, chosen = np.zeros(particles, dtype=np.int64), []
    for t, corners in enumerate(tets):
        if (count[corners] < 2).any():
            count[corners] += 1
            chosen.append(t)
    return np.array(chosen, dtype=np.int64)


def _turned_with(robot: MultibodyRobot) -> Ints:
    """Body with which each slot turns, -1: none. Attached particles turn with their body, and so does what is hinged to it alone.

    A wheel rolls, but the stiff rows of its hinge do not.
    """
    n, b = len(robot.particles), len(robot.body_masses)
    frame = np.concatenate([np.full(n, -1), np.arange(b)])
    both = np.concatenate([robot.pairs, robot.pairs[:, ::-1]])
    for body in range(b):
        others = np.unique(both[both[:, 0] == n + body, 1])
        if len(others) == 1 and others[0] >= n and frame[others[0]] == others[0] - n:
            frame[n + body] = others[0] - n
    attached = both[(both[:, 0] >= 0) & (both[:, 0] < n) & (both[:, 1] >= n)]
    frame[attached[:, 0]] = frame[attached[:, 1]]
    return np.concatenate([frame[:n], np.repeat(frame[n:], 2)])


def _touching_bodies(robot: MultibodyRobot) -> Ints:
    """Pairs (node, body node) of probes and boxes of different nodes, each once, shape (k, 2)."""
    n = len(robot.particles)
    nodes = np.unique(robot.probes)
    pairs = [(int(a), n + int(b)) for b in robot.boxes for a in nodes if a != n + b]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _surfaces(robot: MultibodyRobot, environment: Environment) -> Surfaces:
    """Obstacles, then the boxes of bodies."""
    for key in ("prescribed", "fluid", "rigid_groups"):
        if getattr(environment, key):
            raise InputError(
                f"MultibodyStepper: Environment({key}=...) is not simulated; use fixed nodes and obstacles"
            )
    for key, plain in (("self_contact", True), ("self_friction", 0.0), ("exclude_pairs", ())):
        if getattr(environment, key) != plain:
            raise InputError(
                f"MultibodyStepper: Environment({key}=...) has no effect: parts touch without friction; leave it out"
            )
    environment.refuse_free_objects("MultibodyStepper")
    obstacles = environment.obstacle_set
    boxes = [make_solid("box", {"lower": -half, "upper": half}) for half in robot.box_sizes]
    return Surfaces(
        join_solids([obstacles.solids, *boxes]),
        np.concatenate([np.full(len(obstacles.friction), -1, dtype=np.int64), robot.boxes]),
        np.concatenate([obstacles.friction, robot.box_friction]),
    )


def _loads(robot: MultibodyRobot, environment: Environment) -> Floats:
    """Unit shares of the loads: (loads, particles), so that load l pushes with shares[l] * value."""
    environment.refuse_torques()
    environment.refuse_pressures("MultibodyStepper")
    outside = {tuple(face) for face in np.sort(topology.boundary_faces(robot.tets), axis=1).tolist()}
    shares = np.zeros((len(environment.loads), len(robot.particles)))
    for share, load in zip(shares, environment.loads):
        if load.kind == "traction":
            if strange := set(map(tuple, np.sort(load.where, axis=1).tolist())) - outside:
                raise InputError(
                    f"Load.traction: {list(min(strange))} is no outer face of a soft link; take faces whose vertices are its own"
                )
            _spread(share, robot.particles, load.where)
            continue
        ids = selected_ids(load.where, robot.particles, "Load.force: vertices")
        faces = topology.boundary_faces(robot.tets)
        faces = faces[np.isin(faces, ids).all(axis=1)]
        if len(faces):
            _spread(share, robot.particles, faces)
        else:
            share[ids] = 1.0
        share /= share.sum()
    return shares


def _spread(share: Floats, x: Floats, faces: Ints) -> None:
    """Add the areas of faces [m^2] to their vertices."""
    areas = 0.5 * np.linalg.norm(np.cross(x[faces[:, 1]] - x[faces[:, 0]], x[faces[:, 2]] - x[faces[:, 0]]), axis=1)
    np.add.at(share, faces, areas[:, None] / 3.0)
