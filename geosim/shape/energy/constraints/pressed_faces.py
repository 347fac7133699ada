"""Follower pressure on faces of the surface: it stays normal to the deformed faces and acts on their deformed area.

With the faces turned so that their normals n point into the body, a pressure p has the forces and the tangent of a chamber:

    f_a = p integral N_a n da,    dv/dx_a = integral N_a n da,    v = 1/3 integral (x - o) . n da.

v is a scalar constraint (`scalars`) with the force p. Where the faces are closed, or their rim is fixed, v is a potential. The
same holds where the rim slides in coordinate planes through the point o. Where it slides in others, caps in these planes
complete v (`SlidingCap`). A rim that moves otherwise brings the unsymmetric part

    df_a/dx_b u = - p / 2 integral N_a N_b dx x u        over the rim, anticlockwise about n,

which has no potential; it is applied beside the matrix, as friction of cables is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.actuation import Command
from geosim.model.environment import Environment, Load
from geosim.shape.energy.constraints.chambers import PLANE_CAP_DEVIATION, SlidingCap, never_move, rim_edges, wall_volume
from geosim.shape.energy.constraints.scalars import Prescription, ScalarConstraint
from geosim.shape.energy.constraints.supports import RigidGroup, held_nodes
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.elements import FaceRule
from geosim.shape.energy.discretisation.loads import surface_faces
from geosim.shape.energy.discretisation.pattern import BodyPattern

if TYPE_CHECKING:
    from geosim.result import Result

GAUSS_POINTS, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(3)  # exact to degree 5: a quadratic rim has so much


@dataclass(frozen=True)
class PressedPatch:
    """Faces under one pressure.

    Parameters
    ----------
    load
        The pressure.
    faces, ranks
        Nodes of the faces, whose normals point into the body, and their ranks in the pattern.
    rim
        Nodes of loose edges of the rim, start, end and middle (e, 3) or start and end (e, 2), anticlockwise.
    caps
        What closes v in planes that do not go through o.
    origin
        o, scaled.
    size
        Scaled area to the power 3/2: the unit of v.
    """

    load: Load
    faces: Ints
    ranks: Ints
    rim: Ints
    caps: tuple[SlidingCap, ...]
    origin: Floats
    size: float


@dataclass(frozen=True)
class PressedFaces(ScalarConstraint):
    """What `Load.pressure` does, a scalar each.

    Parameters
    ----------
    patches
        Faces under one pressure each.
    unit
        Of the pressures [Pa].
    rule
        Quadrature of the faces.
    """

    patches: tuple[PressedPatch, ...]
    unit: float
    rule: FaceRule
    length_power = 3

    @classmethod
    def of(cls, body: ScaledBody, environment: Environment, groups: tuple[RigidGroup, ...]) -> PressedFaces | None:
        """Return the pressed faces of a body; None where there are none.

        Raises
        ------
        InputError
            A load names faces that are none of the surface, names one twice, or presses on held vertices alone.
        """
        named = [(f"load {i + 1}", load) for i, load in enumerate(environment.loads) if load.kind == "pressure"]
        if not named:
            return None
        still = never_move(body.robot, environment)
        held = np.stack([held_nodes(body.robot, still[:, axis]) for axis in range(3)], axis=1)
        patches = tuple(_patch(body, load, held, name) for name, load in named)
        return cls(patches, body.stress, body.element.face)

    @property
    def rest_values(self) -> Floats:
        """Units of v, (d,)."""
        return np.array([patch.size for patch in self.patches])

    @property
    def steady_forces(self) -> Floats:
        """Pressures that are given once for all commands, (d,)."""
        values = [patch.load.value for patch in self.patches]
        return np.array([value[0] if len(value) == 1 else 0.0 for value in values]) / self.unit

    @property
    def rough(self) -> bool:
        """Whether a rim is loose, so that a pressure has no potential."""
        return any(len(patch.rim) > 0 for patch in self.patches)

    @property
    def first_modes(self) -> Ints:
        """1: the part beside the matrix always acts."""
        return np.ones(len(self.patches), dtype=np.int64)

    def placed(self, pattern: BodyPattern) -> PressedFaces:
        """Return the faces with their places in the matrix."""
        patches = tuple(replace(patch, ranks=pattern.face_ranks(patch.faces)) for patch in self.patches)
        return replace(self, patches=patches)

    def add(
        self,
        x: Floats,
        forces: Floats,
        modes: Ints,
        matrix: bool,
        pattern: BodyPattern,
        data: Floats,
        force: Floats,
        scale: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """See `ScalarConstraint.add`."""
        values, gradients = np.zeros(len(self.patches)), np.zeros((len(self.patches), *x.shape))
        for i, patch in enumerate(self.patches):
            pressure, at = float(forces[i]), x - patch.origin
            values[i] = wall_volume(
                at, patch.faces, self.rule, pressure, matrix, pattern.indptr, patch.ranks, data, gradients[i], scale
            )
            values[i] += sum(cap.volume(at) for cap in patch.caps)
            force -= pressure * gradients[i]
        return values, gradients, gradients

    def turn(self, x: Floats, forces: Floats, modes: Ints, move: Floats) -> Floats:
        """Return what loose rims bring beside the symmetric tangent, (nodes, 3)."""
        return np.asarray((self.of_rims(x, forces) @ move.ravel()).reshape(x.shape))

    def of_rims(self, x: Floats, forces: Floats) -> csr_matrix:
        """Return the unsymmetric part of the tangent at pressures (d,), between the components of the nodes."""
        blocks, rows, columns = [np.zeros((0, 3, 3))], [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
        for pressure, patch in zip(forces, self.patches):
            count = patch.rim.shape[1]
            pairs = np.zeros((len(patch.rim), count, count, 3))  # integrals of N_a N_b dx
            for s, weight in zip(GAUSS_POINTS, GAUSS_WEIGHTS):
                shape, slope = np.array([0.5 * (1 - s), 0.5 * (1 + s)]), np.array([-0.5, 0.5])
                if count == 3:
                    shape = np.array([0.5 * s * (s - 1.0), 0.5 * s * (s + 1.0), 1.0 - s * s])
                    slope = np.array([s - 0.5, s + 0.5, -2.0 * s])
                way = np.einsum("a,eai->ei", slope, x[patch.rim])
                pairs += weight * shape[None, :, None, None] * shape[None, None, :, None] * way[:, None, None]
            crossed = np.cross(pairs.reshape(-1, 1, 3), np.eye(3)[None]).transpose(0, 2, 1)  # v -> dx x v
            blocks.append(0.5 * pressure * crossed)
            rows.append(np.repeat(patch.rim, count, axis=1).ravel())
            columns.append(np.tile(patch.rim, count).ravel())
        at = np.arange(3)
        i, j = (3 * np.concatenate(ids)[:, None] + at for ids in (rows, columns))
        places = np.repeat(i, 3, axis=1).ravel(), np.tile(j, 3).ravel()
        return csr_matrix((np.concatenate(blocks).ravel(), places), shape=(x.size, x.size))

    def target(self, command: Command, body: ScaledBody, began: tuple[Floats, Floats]) -> Prescription:
        """Return the pressures of a command."""
        pressures = np.array([patch.load.at(command.index) for patch in self.patches], dtype=float)
        return Prescription(np.full(len(self.patches), np.nan), pressures / self.unit, self.law)

    def recalled(self, result: Result, frame: int, body: ScaledBody) -> Floats:
        """Return the pressures of a frame."""
        return np.array([patch.load.at(frame) for patch in self.patches], dtype=float) / self.unit


def _patch(body: ScaledBody, load: Load, held: Bools, name: str) -> PressedPatch:
    robot, n = body.robot, len(body.robot.vertices)
    outward = surface_faces(robot, load.where, name)
    if len(np.unique(np.sort(outward, axis=1), axis=0)) < len(outward):
        raise InputError(f"{name}: a face is named twice; name every face once")
    curved = topology.curved_faces(outward[:, ::-1], robot.p2_edges, n)
    nodes = curved if body.element.order == 2 else curved[:, :3]
    if np.any(load.value != 0.0) and held[nodes].all():
        raise InputError(
            f"{name}: every vertex that it acts on is held, so it does nothing; press on faces that can move"
        )
    area = 0.5 * float(np.linalg.norm(topology.face_normals(body.scaled(robot.vertices), outward), axis=1).sum())
    rim, caps, origin = _rim(body, outward[:, ::-1], held)
    return PressedPatch(load, frozen(body.place[nodes]), np.zeros(0, dtype=np.int64), rim, caps, origin, area**1.5)


def _rim(body: ScaledBody, faces: Ints, held: Bools) -> tuple[Ints, tuple[SlidingCap, ...], Floats]:
    """Return the edges of the rim that are neither held nor slide in planes, the caps in planes beside a point, and the point."""
    robot, at = body.robot, body.scaled(body.robot.vertices)
    pairs = rim_edges(faces)
    edges = np.column_stack([pairs, len(robot.vertices) + topology.rows_of(robot.p2_edges, pairs)])
    origin = np.zeros(3)
    loose = np.asarray(~held[edges].reshape(len(edges), 9).all(axis=1))
    beside: list[tuple[int, Ints]] = []  # axis, edges
    for axis in range(3):
        levels = at[pairs[:, 0], axis]
        flat = loose & held[edges, axis].all(axis=1) & (np.abs(at[pairs[:, 1], axis] - levels) <= PLANE_CAP_DEVIATION)
        planes: list[Bools] = []
        while flat.any():
            planes.append(flat & (np.abs(levels - levels[flat][0]) <= PLANE_CAP_DEVIATION))
            flat = flat & ~planes[-1]
        if planes:
            origin[axis] = levels[planes[0]][0]
            loose = loose & ~planes[0]
        beside += [(axis, np.flatnonzero(mine)) for mine in planes[1:]]
    straight = body.element.order != 2
    nodes, caps = body.place[edges], []
    for axis, mine in beside:
        others = [pairs[ids] for a, ids in beside if a != axis]
        if others and np.isin(pairs[mine], np.vstack(others)).any():
            continue  # a corner of two such planes: the caps there are not known
        loose = loose & ~np.isin(np.arange(len(loose)), mine)
        start, end, middle = nodes[mine].T
        middle = np.full(len(mine), -1) if straight else middle
        caps.append(SlidingCap(0, axis, end, middle, start, np.zeros((2, len(mine), 3))))
    return frozen(nodes[loose][:, :2] if straight else nodes[loose]), tuple(caps), frozen(origin)
