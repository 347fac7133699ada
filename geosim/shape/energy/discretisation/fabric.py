"""Membranes and trusses embedded in a body: layers and fibres whose points the elements carry along.

A layer stores per rest area, with the Green strain E of its plane and the moduli of plane stress,

    t (mu E : E + lambda' (tr E)^2 / 2),    lambda' = E_Y nu / (1 - nu^2),  mu = E_Y / (2 (1 + nu))   [St Venant-Kirchhoff],

a fibre per rest length E_Y A (l / L - 1)^2 / 2, with `tension_only` nothing where l < L. On faces of the mesh a layer has the
shape functions of the elements, inside the body it is made of flat triangles between points that are embedded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.linear.patterns import add_block
from geosim.model.cable import anchors
from geosim.model.fabric import Fibre, Layer, elastic_moduli
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.embedding import Strands, couplings, joined, make_strands, merged, points_of
from geosim.shape.energy.discretisation.pattern import BodyPattern


@dataclass(frozen=True)
class Membrane:
    """Points of quadrature of a layer, in scaled units.

    Parameters
    ----------
    nodes, slopes
        F = sum_a x[nodes_a] slopes_a at a point: (m, a) and (m, a, 2).
    weights
        Thickness times area, (m,).
    moduli
        lambda' and mu.
    ranks
        `BodyPattern.face_ranks` of the nodes, (m, a, a).
    """

    nodes: Ints
    slopes: Floats
    weights: Floats
    moduli: tuple[float, float]
    ranks: np.ndarray

    def add(self, x: Floats, matrix: bool, pattern: BodyPattern, data: Floats, force: Floats, scale: Floats) -> float:
        """Add forces, their norms and (with `matrix`) the tangent; return the energy."""
        table = (self.nodes, self.slopes, self.weights, *self.moduli, self.ranks)
        return float(_membrane(x, *table, matrix, pattern.indptr, data, force, scale))


@kernel
def _membrane(x, nodes, slopes, weights, bulk, shear, ranks, matrix, indptr, data, force, scale):
    """Add forces f_a = w F S g_a and blocks w (g_a S g_b + lambda' F g_a F g_b + mu (g_a g_b F F^T + F g_b F g_a)); energy."""
    total, count = 0.0, nodes.shape[1]
    F, S, block, h = np.empty((3, 2)), np.empty((2, 2)), np.empty((3, 3)), np.empty((count, 3))
    for m in range(len(nodes)):
        g, w = slopes[m], weights[m]
        F[:] = 0.0
        for a in range(count):
            for i in range(3):
                for J in range(2):
                    F[i, J] += x[nodes[m, a], i] * g[a, J]
        e00 = 0.5 * (F[0, 0] ** 2 + F[1, 0] ** 2 + F[2, 0] ** 2 - 1.0)
        e11 = 0.5 * (F[0, 1] ** 2 + F[1, 1] ** 2 + F[2, 1] ** 2 - 1.0)
        e01 = 0.5 * (F[0, 0] * F[0, 1] + F[1, 0] * F[1, 1] + F[2, 0] * F[2, 1])
        S[0, 0] = bulk * (e00 + e11) + 2.0 * shear * e00
        S[1, 1] = bulk * (e00 + e11) + 2.0 * shear * e11
        S[0, 1] = S[1, 0] = 2.0 * shear * e01
        total += w * (shear * (e00**2 + e11**2 + 2.0 * e01**2) + 0.5 * bulk * (e00 + e11) ** 2)
        for a in range(count):
            s0, s1 = S[0, 0] * g[a, 0] + S[0, 1] * g[a, 1], S[1, 0] * g[a, 0] + S[1, 1] * g[a, 1]
            size = 0.0
            for i in range(3):
                f = w * (F[i, 0] * s0 + F[i, 1] * s1)
                h[a, i] = F[i, 0] * g[a, 0] + F[i, 1] * g[a, 1]
                force[nodes[m, a], i] += f
                size += f * f
            scale[nodes[m, a]] += np.sqrt(size)
        if matrix:
            _stiffen(nodes[m], ranks[m], w, bulk, shear, g, F, S, h, block, indptr, data)
    return total


@kernel
def _stiffen(nodes, ranks, w, bulk, shear, g, F, S, h, block, indptr, data):
    """Add the blocks of one point of a membrane, where h_a = F g_a."""
    for a in range(len(nodes)):
        for b in range(a, len(nodes)):
            if not (np.any(g[a] != 0.0) and np.any(g[b] != 0.0)):
                continue  # they couple nothing, and the pattern need not have them
            along = g[a, 0] * g[b, 0] + g[a, 1] * g[b, 1]
            pull = g[a, 0] * (S[0, 0] * g[b, 0] + S[0, 1] * g[b, 1]) + g[a, 1] * (S[1, 0] * g[b, 0] + S[1, 1] * g[b, 1])
            for i in range(3):
                for j in range(3):
                    both = F[i, 0] * F[j, 0] + F[i, 1] * F[j, 1]
                    block[i, j] = w * (bulk * h[a, i] * h[b, j] + shear * (along * both + h[b, i] * h[a, j]))
                block[i, i] += w * pull
            add_block(nodes[a], nodes[b], ranks[a, b], block, indptr, data)


@dataclass(frozen=True)
class Fabric:
    """Layers and fibres of a body in scaled units.

    Parameters
    ----------
    membranes
        One a layer.
    strands
        Pieces of all fibres, or None.
    stiffness, tension_only
        Of every piece: Young's modulus times section, and whether it gives way when shortened; (s,).
    """

    membranes: tuple[Membrane, ...]
    strands: Strands | None
    stiffness: Floats
    tension_only: Bools

    def couplings(self) -> list[Ints]:
        """Pairs of nodes that layers and fibres couple."""
        out = [couplings(m.nodes, m.slopes) for m in self.membranes]
        return out if self.strands is None else [*out, couplings(self.strands.nodes, self.strands.weights)]

    def placed(self, pattern: BodyPattern) -> Fabric:
        """Return the fabric with its places in a pattern."""
        membranes = tuple(replace(m, ranks=pattern.face_ranks(m.nodes)) for m in self.membranes)
        return replace(
            self, membranes=membranes, strands=None if self.strands is None else self.strands.placed(pattern)
        )

    def add(self, x: Floats, matrix: bool, pattern: BodyPattern, data: Floats, force: Floats, scale: Floats) -> float:
        """Add forces, their norms and (with `matrix`) the tangent of layers and fibres; return what they store."""
        # Shortening of a fibre below which it still counts as taut: round-off of a body at rest.
        taut_fibre_rounding = 1e-12
        energy = sum((m.add(x, matrix, pattern, data, force, scale) for m in self.membranes), 0.0)
        if self.strands is None:
            return energy
        along, length = self.strands.ways(x)
        strain = length / self.strands.rest - 1.0
        taut = ~(self.tension_only & (strain < -taut_fibre_rounding))
        pulls = np.where(taut, self.stiffness * strain, 0.0)
        self.strands.add_forces(along, pulls, force, scale)
        if matrix:
            slopes = np.where(taut, self.stiffness / self.strands.rest, 0.0)
            self.strands.add_stiffness(along, length, pulls, slopes, pattern, data)
        return energy + float(0.5 * np.sum(pulls * strain * self.strands.rest))


def make_fabric(body: ScaledBody, layers: Sequence[Layer], fibres: Sequence[Fibre]) -> Fabric | None:
    """Return layers and fibres of a robot; None where there are none.

    Raises
    ------
    InputError
        A point lies outside of the body.
    """
    if not layers and not fibres:
        return None
    robot = body.robot
    membranes = [_membrane_of(body, layer, f"layer {i + 1}") for i, layer in enumerate(layers)]
    parts = [
        make_strands(body, anchors(fibre.points, robot.vertices, robot.body_tets, robot.size, f"fibre {i + 1}"))
        for i, fibre in enumerate(fibres)
    ]
    counts = [len(part.rest) for part in parts]
    stiffness = np.repeat([fibre.stiffness / body.force_unit for fibre in fibres], counts)
    only = np.repeat(np.array([fibre.tension_only for fibre in fibres], dtype=bool), counts)
    return Fabric(tuple(membranes), joined(parts) if parts else None, frozen(stiffness), frozen(only))


def _membrane_of(body: ScaledBody, layer: Layer, name: str) -> Membrane:
    """Return the points of quadrature of a layer."""
    robot, n = body.robot, len(body.robot.vertices)
    if layer.vertices is None:
        faces = topology.curved_faces(layer.faces, robot.p2_edges, n) if body.element.order == 2 else layer.faces
        nodes, rule = body.place[faces], body.element.face
        corners, slopes, weights = body.rest[nodes], rule.slopes, 0.5 * rule.weights
    else:
        found = anchors(layer.vertices, robot.vertices, robot.body_tets, robot.size, name)
        of_points, shares = points_of(body, found)
        corners = np.einsum("qa,qai->qi", shares, body.rest[of_points])[layer.faces]
        slopes, weights = np.array([[[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]]]), np.array([0.5])
    sides = np.einsum("qar,fai->fqir", slopes, corners)  # tangents at rest by the coordinates of the face
    normal = np.cross(sides[..., 0], sides[..., 1])
    area = np.linalg.norm(normal, axis=-1)
    if (area == 0.0).any():
        raise InputError(f"{name}: a face has no area; clean the surface")
    first = sides[..., 0] / np.linalg.norm(sides[..., 0], axis=-1, keepdims=True)
    frame = np.stack([first, np.cross(normal / area[..., None], first)], axis=-1)
    gradients = np.einsum("qar,fqrs->fqas", slopes, np.linalg.inv(np.einsum("fqis,fqir->fqsr", frame, sides)))
    if layer.vertices is None:
        nodes = np.repeat(nodes, len(weights), axis=0)
    else:
        nodes = of_points[layer.faces].reshape(len(layer.faces), -1)
        gradients = np.einsum("fas,fab->fabs", gradients[:, 0], shares[layer.faces])
        nodes, gradients = merged(nodes, gradients.reshape(*nodes.shape, 2))
    young, nu = elastic_moduli(layer.material)
    thickness, scaled = layer.thickness / body.length, young / body.stress
    return Membrane(
        frozen(nodes),
        frozen(gradients.reshape(*nodes.shape, 2)),
        frozen((thickness * area * weights).ravel()),
        (scaled * nu / (1.0 - nu**2), scaled / (2.0 * (1.0 + nu))),
        np.empty((0, 0, 0), dtype=np.int32),
    )
