"""Chamber volumes: closed surfaces of walls and of caps where no body is, with derivatives.

A cap is closed by whatever holds its rim: what is fixed (then its part of the volume is constant), a rigid group that
carries it along, or a plane in which the rim may slide (a plane of symmetry, a smooth table): the cap then stays in
the plane x . n = h, does no work, and the volume behind it is h times its area over 3, with the area from its boundary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints, frozen, marked, norm
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, dot
from geosim.model.actuation import Command, Inflation, SupplyLine, Syringe
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.constraints.gas import enclosed_gas
from geosim.shape.energy.constraints.rigid_groups import RigidCap
from geosim.shape.energy.constraints.scalars import Prescription, ScalarConstraint
from geosim.shape.energy.constraints.supply import Lines, supply_lines
from geosim.shape.energy.constraints.supports import RigidGroup
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.elements import FaceRule
from geosim.shape.energy.discretisation.pattern import BodyPattern

if TYPE_CHECKING:
    from geosim.result import Result


PLANE_CAP_DEVIATION = (
    1e-6  # largest deviation of the normals of a plane cap: far above round-off of files, far below a curved one
)


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
class Chambers(ScalarConstraint):
    """Volumes of the chambers with their pressures, prescribed or related by a closed gas.

    Parameters
    ----------
    walls
        Of every chamber the nodes of its faces and their ranks in the pattern.
    rest_volumes
        Scaled volumes at rest, (c,).
    fixed_volumes
        Volume behind fixed caps, (c,).
    rigid, sliding
        Caps that move with a group (see `RigidGroups.close`), and those whose rim slides in a plane.
    rule
        Quadrature of the faces.
    """

    walls: tuple[tuple[Ints, Ints], ...]
    rest_volumes: Floats
    fixed_volumes: Floats
    rigid: tuple[RigidCap, ...]
    sliding: tuple[SlidingCap, ...]
    rule: FaceRule
    actuations = (Inflation, Syringe, SupplyLine)
    length_power = 3

    @classmethod
    def of(cls, body: ScaledBody, environment: Environment, groups: tuple[RigidGroup, ...]) -> Chambers:
        """Return what closes the chambers of a robot.

        Raises
        ------
        InputError
            A chamber has no wall, or is open: the rim of a cap is neither fixed, nor of one group, nor kept in a plane.
        """
        robot, order = body.robot, body.element.order
        n, at, still = len(robot.vertices), body.scaled(robot.vertices), never_move(robot, environment)
        fixed = marked(n, robot.fixed)
        walls, volumes = [], np.zeros(robot.chambers)
        rigid: list[RigidCap] = []
        sliding: list[SlidingCap] = []
        for c, (faces, cap) in enumerate(zip(robot.chamber_walls, robot.chamber_caps)):
            if len(faces) == 0:
                raise InputError(f"chamber {c + 1}: no body tet touches it; a chamber needs a wall to press on")
            nodes = body.place[topology.curved_faces(faces, robot.p2_edges, n) if order == 2 else faces]
            walls.append((frozen(nodes), np.zeros(0, dtype=np.int64)))
            for part in _parts(cap, np.zeros((len(cap), 3))):
                rim = np.unique(part)
                rim = rim[robot.body_vertices[rim]]
                owners = [g for g, group in enumerate(groups) if group.nodes[rim].any()]
                if fixed[rim].all():
                    volumes[c] += _cone(at, part)
                elif len(owners) == 1 and groups[owners[0]].nodes[rim].all():
                    rigid.append(_rigid_cap(c, owners[0], at, part, body.scaled(groups[owners[0]].point)))
                else:
                    for plane in _parts(part, _normals(at, part)):
                        mine = np.unique(plane)
                        if fixed[mine[robot.body_vertices[mine]]].all():
                            volumes[c] += _cone(at, plane)
                        else:
                            sliding.append(_sliding_cap(body, c, at, plane, still))
        rest = frozen(robot.chamber_volumes / body.length**3)
        return cls(tuple(walls), rest, frozen(volumes), tuple(rigid), tuple(sliding), body.element.face)

    @property
    def rest_values(self) -> Floats:
        """Volumes at rest, (c,)."""
        return self.rest_volumes

    def placed(self, pattern: BodyPattern) -> Chambers:
        """Return the chambers with the places of their walls in the matrix."""
        return replace(self, walls=tuple((nodes, pattern.face_ranks(nodes)) for nodes, _ in self.walls))

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
        """See `ScalarConstraint.add`; all but the rigid caps."""
        volumes, gradients = self.fixed_volumes.copy(), np.zeros((len(self.walls), *x.shape))
        for c, (faces, ranks) in enumerate(self.walls):
            pressure = float(forces[c])
            volumes[c] += wall_volume(
                x, faces, self.rule, pressure, matrix, pattern.indptr, ranks, data, gradients[c], scale
            )
            force -= pressure * gradients[c]
        for cap in self.sliding:
            volumes[cap.chamber] += cap.volume(x)
        return volumes, gradients, gradients

    def target(self, command: Command, body: ScaledBody, began: tuple[Floats, Floats]) -> Prescription:
        """Return volumes, pressures, or the law of a closed gas."""
        count, inflation = len(self.walls), command.find(Inflation)
        ratio, pressure = (
            (np.full(count, np.nan), np.zeros(count)) if inflation is None else inflation.targets(command.index, count)
        )
        gas = (
            supply_lines(command, *began, body.length, body.stress)
            or enclosed_gas(command, count, *began, body.length, body.stress)
            or (None, self.law)
        )
        pressure = np.full(count, np.nan) if isinstance(gas[1], Lines) else pressure
        return Prescription(ratio * self.rest_volumes, pressure / body.stress, gas[1], gas[0])

    def measures(self, body: ScaledBody, x: Floats, values: Floats, forces: Floats, modes: Ints) -> dict[str, Any]:
        """Return volumes and pressures."""
        return {
            "volume_ratios": values / self.rest_volumes,
            "chamber_volumes": values * body.length**3,
            "chamber_pressures": forces * body.stress,
        }

    def recalled(self, result: Result, frame: int, body: ScaledBody) -> Floats:
        """Return the scaled pressures of a frame (c,)."""
        return np.asarray(result.chamber_pressures[frame] / body.stress)


@kernel
def wall_volume(x, faces, rule, pressure, matrix, indptr, ranks, data, gradient, scale):
    """Return the volume behind closed curved faces; add its gradient and (with `matrix`) -P times its Hessian.

    v = 1/3 closed-integral x . n da, exactly (the integrand is a polynomial of degree 4 on six-node faces):

        dv/dx_a = integral N_a x_r x x_s,    d2v/dx_a dx_b = [w_ab] x,  w_ab = 1/2 integral
                  (N_a N_b,s - N_b N_a,s) x_r - (N_a N_b,r - N_b N_a,r) x_s,

    where the symmetric form of w holds because the surface is closed or its rim is fixed.

    Parameters
    ----------
    x, faces, rule
        Positions (n, 3), nodes of the faces (f, a), `FaceRule`.
    pressure, matrix
        P, and whether the tangent is wanted.
    indptr, ranks, data
        Rows of the matrix, `BodyPattern.face_ranks`, and its values, added to.
    gradient, scale
        Added to: dv/dx (n, 3), and the norms of the forces of the faces (n,).
    """
    n, volume = faces.shape[1], 0.0
    f, w, frame = np.empty((n, 3)), np.empty((n, n, 3)), np.empty((3, 3))
    for e in range(len(faces)):
        volume += _face(x, faces[e], rule, matrix, frame, f, w)
        for a in range(n):
            scale[faces[e, a]] += abs(pressure) * np.sqrt(dot(f[a], f[a]))
            for i in range(3):
                gradient[faces[e, a], i] += f[a, i]
        if matrix and pressure != 0.0:
            add_skew(faces[e], ranks[e], pressure, w, indptr, data)
    return volume


@kernel
def _face(x, nodes, rule, matrix, frame, f, w):
    """Write dv/dx_a (a, 3) and w_ab (a, a, 3) for a < b of one face; return its volume. `frame`: rows x, x_r, x_s."""
    f[:], w[:] = 0.0, 0.0
    volume, n = 0.0, len(nodes)
    for q in range(len(rule.weights)):
        weight, N = 0.5 * rule.weights[q], rule.shape[q]
        normal = face_frame(x, nodes, N, rule.slopes[q], frame)
        volume += weight / 3.0 * dot(frame[0], normal)
        for a in range(n):
            for i in range(3):
                f[a, i] += weight * N[a] * normal[i]
        if matrix:
            add_turns(N, rule.slopes[q], 0.5 * weight, frame, w)
    return volume


@kernel
def face_frame(x, nodes, N, slopes, frame):
    """Write a point of a face and both tangents there, by its shape functions and their slopes; return x_r x x_s."""
    frame[:] = 0.0
    for a in range(len(nodes)):
        for i in range(3):
            frame[0, i] += N[a] * x[nodes[a], i]
            frame[1, i] += slopes[a, 0] * x[nodes[a], i]
            frame[2, i] += slopes[a, 1] * x[nodes[a], i]
    return cross(frame[1], frame[2])


@kernel
def add_turns(N, slopes, factor, frame, w):
    """Add factor ((N_a N_b,s - N_b N_a,s) x_r - (N_a N_b,r - N_b N_a,r) x_s) to w_ab, a < b."""
    for a in range(len(N)):
        for b in range(a + 1, len(N)):
            along_r = factor * (N[a] * slopes[b, 1] - N[b] * slopes[a, 1])
            along_s = factor * (N[a] * slopes[b, 0] - N[b] * slopes[a, 0])
            for i in range(3):
                w[a, b, i] += along_r * frame[1, i] - along_s * frame[2, i]


@kernel
def add_skew(nodes, ranks, pressure, w, indptr, data):
    """Add -P [w_ab] x to the blocks of the upper triangle."""
    for a in range(len(nodes)):
        for b in range(a + 1, len(nodes)):
            first = min(nodes[a], nodes[b])
            s = pressure if nodes[a] < nodes[b] else -pressure
            row0, row1, row2 = indptr[3 * first], indptr[3 * first + 1] - 1, indptr[3 * first + 2] - 2
            at = 3 * ranks[a, b]
            data[row0 + at + 1] += s * w[a, b, 2]
            data[row0 + at + 2] -= s * w[a, b, 1]
            data[row1 + at] -= s * w[a, b, 2]
            data[row1 + at + 2] += s * w[a, b, 0]
            data[row2 + at] += s * w[a, b, 1]
            data[row2 + at + 1] -= s * w[a, b, 0]


def never_move(robot: VolumetricRobot, environment: Environment) -> Bools:
    """Components of vertices that never move: fixed, or prescribed to stay, bool (n, 3)."""
    out = np.zeros((len(robot.vertices), 3), dtype=bool)
    out[robot.fixed] = True
    for index, item in enumerate(environment.prescribed):
        ids = selected_ids(item.vertices, robot.vertices, f"prescribed {index + 1}", among=robot.body_vertices)
        out[ids] |= (item.displacement.reshape(-1, 3) == 0.0).all(axis=0)
    return out


def _normals(at: Floats, faces: Ints) -> Floats:
    """Unit normals (f, 3)."""
    out = topology.face_normals(at, faces)
    return out / np.maximum(norm(out, axis=1, keepdims=True), MIN_DIVISOR)


def _parts(faces: Ints, normals: Floats) -> list[Ints]:
    """Faces parted into what hangs together over edges between equal normals."""
    if len(faces) == 0:
        return []
    pairs = np.sort(faces[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    twin = (pairs[order[1:]] == pairs[order[:-1]]).all(axis=1)
    one, two = order[:-1][twin] // 3, order[1:][twin] // 3
    flat = np.abs(normals[one] - normals[two]).max(axis=1, initial=0.0) < PLANE_CAP_DEVIATION
    labels = topology.linked(one[flat], two[flat], len(faces))
    return [faces[labels == k] for k in range(labels.max() + 1)]


def rim_edges(faces: Ints) -> Ints:
    """Return the edges of oriented faces (f, 3) that no other one has in the other sense, (e, 2)."""
    pairs = faces[:, topology.TRIANGLE_EDGES].reshape(-1, 2)
    span = int(pairs.max()) + 1
    return pairs[~np.isin(pairs @ [span, 1], pairs @ [1, span])]


def _cone(at: Floats, faces: Ints) -> float:
    """Volume of the cones from the origin to faces."""
    p, q, r = (at[faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", p, np.cross(q, r))) / 6.0


def _rigid_cap(chamber: int, group: int, at: Floats, faces: Ints, point: Floats) -> RigidCap:
    """Area, first moment and volume of a cap about the reference point of its group."""
    r, area = at[faces] - point, 0.5 * topology.face_normals(at, faces)
    return RigidCap(
        chamber,
        group,
        frozen(area.sum(axis=0)),
        frozen(np.cross(r.mean(axis=1), area).sum(axis=0)),
        float(np.einsum("ij,ij->", r.mean(axis=1), area)) / 3.0,
    )


def _sliding_cap(body: ScaledBody, chamber: int, at: Floats, faces: Ints, still: Bools) -> SlidingCap:
    """Return the cap of a plane in which its rim slides.

    Raises
    ------
    InputError
        The rim may leave the plane, or the faces are in no plane of two coordinates.
    """
    robot, place = body.robot, body.place
    n = len(robot.vertices)
    normal = _normals(at, faces)[0]
    axis = int(np.argmax(np.abs(normal)))
    rim = np.unique(faces)
    rim = rim[robot.body_vertices[rim]]
    free_bodies = rim[~still[rim, axis]]
    if abs(normal[axis]) < 1.0 - PLANE_CAP_DEVIATION or len(free_bodies):
        vertex = free_bodies[0] if len(free_bodies) else rim[0]
        raise InputError(
            f"chamber {chamber + 1} is open: {len(faces)} of its faces touch no body and their rim is not fixed "
            f"(vertex {vertex}). Close it with body tets, or fix the rim, make it a rigid group or hold it in the "
            f"plane of the faces"
        )
    edges = rim_edges(faces)
    row = topology.rows_of(robot.p2_edges, edges)
    middle = np.where((row >= 0) & (body.element.order == 2), place[n + row], -1)
    return SlidingCap(
        chamber, axis, frozen(place[edges[:, 0]]), frozen(middle), frozen(place[edges[:, 1]]), frozen(at[edges.T])
    )
