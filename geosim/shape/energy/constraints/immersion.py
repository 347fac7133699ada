"""A fluid around the body at rest: its pressure on the outer skin, which follows the deformed skin.

The fluid fills all space. Its pressure is zero at the height of the origin and grows along gravity g: p = rho g . x = rho |g| h
with the depth h. Its potential is rho |g| times the first moment of the volume inside the skin:

    m(x) = integral h dv = 1/2 closed-integral h^2 (g / |g|) . n da.

As a scalar constraint (`scalars`) it stands as -m with the force rho |g|, which no command changes. Chambers are inside the skin
and hold gas without weight; their gauge pressure counts from the same zero. A fully submerged body loses the weight of the fluid
that its skin encloses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from geosim.arrays import Floats, Ints, frozen, marked
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.linear.matrix3 import dot
from geosim.linear.patterns import add_block
from geosim.model.actuation import Command
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.constraints.chambers import add_skew, add_turns, face_frame
from geosim.shape.energy.constraints.scalars import Prescription, ScalarConstraint
from geosim.shape.energy.constraints.supports import RigidGroup
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.elements import TRIANGLE_DEGREE_6, FaceRule, face_rule
from geosim.shape.energy.discretisation.pattern import BodyPattern

if TYPE_CHECKING:
    from geosim.result import Result


@dataclass(frozen=True)
class Immersion(ScalarConstraint):
    """Minus the first moment of the volume inside the skin, with the specific weight of the fluid.

    Parameters
    ----------
    faces, ranks
        Nodes of the skin's faces and their ranks in the pattern.
    down, offset
        Unit vector of gravity, and the depth of the origin of the scaled positions.
    weight
        Scaled specific weight rho |g|.
    volume
        Scaled volume inside the skin at rest.
    rule
        Quadrature of the faces, exact for m.
    """

    faces: Ints
    ranks: Ints
    down: Floats
    offset: float
    weight: float
    volume: float
    rule: FaceRule
    length_power = 4

    @classmethod
    def of(cls, body: ScaledBody, environment: Environment, groups: tuple[RigidGroup, ...]) -> Immersion | None:
        """Return the fluid around a body; None where there is none, or no gravity.

        Raises
        ------
        InputError
            The fluid has a viscosity or a drag coefficient, or a cap that may move is open to it.
        """
        fluid, g = environment.fluid, float(np.linalg.norm(environment.gravity))
        if fluid is None:
            return None
        for key in ("viscosity", "drag_coefficient"):
            if getattr(fluid, key) > 0.0:
                raise InputError(
                    f"fluid: {key} acts on what moves, and volumetric robots feel no drag; leave {key} out"
                )
        if g == 0.0 or fluid.density == 0.0:
            return None
        robot, place = body.robot, body.place
        _refuse_open(robot)
        curved = topology.curved_faces(robot.skin, robot.p2_edges, len(robot.vertices))
        faces = place[curved if body.element.order == 2 else robot.skin]
        corners = body.rest[faces[:, :3]]
        volume = float(np.linalg.det(corners).sum()) / 6.0
        down = environment.gravity / g
        return cls(
            frozen(faces),
            np.zeros(0, dtype=np.int64),
            frozen(down),
            float(down @ body.center) / body.length,
            fluid.density * g * body.length / body.stress,
            abs(volume),
            face_rule(TRIANGLE_DEGREE_6, body.element.order),
        )

    @property
    def rest_values(self) -> Floats:
        """Size of the moment, (1,)."""
        return np.array([self.volume])

    @property
    def steady_forces(self) -> Floats:
        """The specific weight, (1,)."""
        return np.array([self.weight])

    def placed(self, pattern: BodyPattern) -> Immersion:
        """Return the fluid with the places of the skin in the matrix."""
        return replace(self, ranks=pattern.face_ranks(self.faces))

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
        gradient, weight = np.zeros((1, *x.shape)), float(forces[0])
        moment = skin_moment(
            x,
            self.faces,
            self.rule,
            self.down,
            self.offset,
            weight,
            matrix,
            pattern.indptr,
            self.ranks,
            data,
            gradient[0],
            scale,
        )
        force -= weight * gradient[0]
        return np.array([-moment]), gradient, gradient

    def target(self, command: Command, body: ScaledBody, began: tuple[Floats, Floats]) -> Prescription:
        """Return the specific weight: no command changes it."""
        return Prescription(np.full(1, np.nan), self.steady_forces, self.law)

    def recalled(self, result: Result, frame: int, body: ScaledBody) -> Floats:
        """Return the specific weight."""
        return self.steady_forces


def _refuse_open(robot: VolumetricRobot) -> None:
    """Refuse a skin with a hole whose rim may move: what the fluid does to the cap over it is not known."""
    pairs = np.sort(robot.skin[:, topology.TRIANGLE_EDGES].reshape(-1, 2), axis=1)
    edges, counts = np.unique(pairs, axis=0, return_counts=True)
    loose = edges[counts == 1]
    loose = loose[~marked(len(robot.vertices), robot.fixed)[loose].all(axis=1)]
    if len(loose):
        raise InputError(
            f"fluid: the outer skin is open around a chamber (vertex {loose[0][0]}) and its rim is free; close the chamber "
            "with tets or fix the rim"
        )


@kernel
def skin_moment(x, faces, rule, down, offset, weight, matrix, indptr, ranks, data, gradient, scale):
    """Return m, the first moment of the depth inside curved faces; add -dm/dx and (with `matrix`) rho |g| times its Hessian.

    With n = x_r x x_s the derivatives of a closed surface, or of one whose rim is fixed, are

        dm/dx_a = integral h N_a n,    d2m/dx_a dx_b = integral N_a N_b (n (x) d + d (x) n) / 2 + [w_ab] x,

    w_ab as of `wall_volume` with h under the integral, d = `down`; both forms are symmetric face by face.

    Parameters
    ----------
    x, faces, rule
        Positions (n, 3), nodes of the faces (f, a), `FaceRule`.
    down, offset
        Direction (3,) and depth of the origin: h = down . x + offset.
    weight, matrix
        rho |g|, and whether the tangent is wanted.
    indptr, ranks, data
        Rows of the matrix, `BodyPattern.face_ranks`, and its values, added to.
    gradient, scale
        Added to: -dm/dx (n, 3), and the norms of the forces of the faces (n,).
    """
    n, moment = faces.shape[1], 0.0
    f, w, frame, S = np.empty((n, 3)), np.empty((n, n, 3)), np.empty((3, 3)), np.empty((n, n, 3, 3))
    for e in range(len(faces)):
        nodes = faces[e]
        f[:], w[:], S[:] = 0.0, 0.0, 0.0
        for q in range(len(rule.weights)):
            N, area = rule.shape[q], 0.5 * rule.weights[q]
            normal = face_frame(x, nodes, N, rule.slopes[q], frame)
            h = dot(down, frame[0]) + offset
            moment += 0.5 * area * h * h * dot(down, normal)
            for a in range(n):
                for i in range(3):
                    f[a, i] += area * h * N[a] * normal[i]
            if matrix:
                add_turns(N, rule.slopes[q], 0.5 * area * h, frame, w)
                _add_depths(N, weight * 0.5 * area, normal, down, S)
        for a in range(n):
            scale[nodes[a]] += abs(weight) * np.sqrt(dot(f[a], f[a]))
            for i in range(3):
                gradient[nodes[a], i] -= f[a, i]
        if matrix and weight != 0.0:
            add_skew(nodes, ranks[e], -weight, w, indptr, data)
            for a in range(n):
                for b in range(a, n):
                    add_block(nodes[a], nodes[b], ranks[e, a, b], S[a, b], indptr, data)
    return moment


@kernel
def _add_depths(N, factor, normal, down, S):
    """Add factor N_a N_b (n (x) d + d (x) n) to S_ab, a <= b."""
    for a in range(len(N)):
        for b in range(a, len(N)):
            for i in range(3):
                for k in range(3):
                    S[a, b, i, k] += factor * N[a] * N[b] * (normal[i] * down[k] + down[i] * normal[k])
