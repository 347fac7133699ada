"""Reference elements: shape functions and quadrature on the tetrahedron and the triangle.

Barycentric coordinates everywhere; quadrature weights sum to 1 and multiply the element's volume (or area).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.geometry import topology
from geosim.shape.energy.discretisation.assembly import Rule, Volumes


def _orbit(a: float, count: int) -> list[list[float]]:
    """Points (a, a, a, 1 - 3a) and permutations (4), or (a, a, 1/2 - a, 1/2 - a) and permutations (6)."""
    if count == 4:
        return [[1 - 3 * a if i == k else a for i in range(4)] for k in range(4)]
    return [[a if i in pair else 0.5 - a for i in range(4)] for pair in topology.TET_EDGES]


# Degree 2, four points.
TETRAHEDRON_DEGREE_2 = (np.array(_orbit((5.0 - np.sqrt(5.0)) / 20.0, 4)), np.full(4, 0.25))

# Degree 5, fourteen points with positive weights (Walkington, 2000). The incompressibility rows integrate q (J - 1),
# of degree 4 on a straight-sided P2 tet, exactly.
TETRAHEDRON_DEGREE_5 = (
    np.array(
        _orbit(0.31088591926330060980, 4) + _orbit(0.092735250310891226402, 4) + _orbit(0.045503704125649649492, 6)
    ),
    np.array([0.11268792571801585080] * 4 + [0.073493043116361949544] * 4 + [0.042546020777081466438] * 6),
)

_A, _B = 0.44594849091596488632, 0.09157621350977074346
# Degree 4, six points (Dunavant, 1985).
TRIANGLE_DEGREE_4 = (
    np.array([[1 - 2 * a if i == k else a for i in range(3)] for a in (_A, _B) for k in range(3)]),
    np.array([0.22338158967801146570] * 3 + [0.10995174365532186764] * 3),
)


def _conical(count: int) -> tuple[Floats, Floats]:
    """Return a rule on the triangle of degree 2 count - 2: Gauss points along two sides of a square that collapses."""
    points, weights = np.polynomial.legendre.leggauss(count)
    r, s = np.meshgrid((points + 1.0) / 2.0, (points + 1.0) / 2.0, indexing="ij")
    weights = (np.outer(weights, weights) * (1.0 - r)).ravel()
    return np.stack([(1.0 - r) * (1.0 - s), r, (1.0 - r) * s], axis=-1).reshape(-1, 3), weights / weights.sum()


# Degree 6, sixteen points: what a fluid does to a P2 face.
TRIANGLE_DEGREE_6 = _conical(4)


def shape_functions(points: Floats, order: int, edges: Ints) -> Floats:
    """Values at barycentric points (q, corners), (q, nodes): corners, then the middles of `edges`."""
    return points.copy() if order == 1 else topology.p2_shape(points, edges)


def slopes_at(points: Floats, order: int, edges: Ints) -> Floats:
    """Derivatives by the barycentric coordinates, (q, nodes, corners)."""
    corners = np.eye(points.shape[1])
    if order == 1:
        return np.repeat(corners[None], len(points), axis=0)
    one, other = edges.T
    of_edges = points[:, other, None] * corners[one] + points[:, one, None] * corners[other]
    return np.concatenate([(4.0 * points - 1.0)[:, :, None] * corners, 4.0 * of_edges], axis=1)


class FaceRule(NamedTuple):
    """A quadrature rule on the faces.

    Parameters
    ----------
    shape
        Values of the shape functions, (s, face nodes).
    slopes
        Their derivatives by the coordinates (r, s) of a face, (s, face nodes, 2).
    weights
        Their sum is 1, (s,).
    """

    shape: Floats
    slopes: Floats
    weights: Floats


def face_rule(rule: tuple[Floats, Floats], order: int) -> FaceRule:
    """Return a rule (points, weights) on the faces of P1 or P2."""
    points, weights = rule
    by_corner = slopes_at(points, order, topology.TRIANGLE_EDGES)
    return FaceRule(
        shape_functions(points, order, topology.TRIANGLE_EDGES),
        np.ascontiguousarray(by_corner[:, :, 1:] - by_corner[:, :, :1]),
        weights,
    )


@dataclass(frozen=True)
class Element:
    """Tables of one element type.

    Parameters
    ----------
    order
        1 or 2, of the displacement; the pressure is linear.
    energy, constraint
        Rules of the strain energy and of the constraint.
    share
        Mean of every shape function, for body forces, (nodes,).
    face
        Rule of degree 4 on the faces, exact for the volume of P2 walls.
    """

    order: int
    energy: Rule
    constraint: Volumes
    share: Floats
    face: FaceRule

    @property
    def linear(self) -> bool:
        """Whether the displacement is P1: its pressure is stabilised, its strain smoothed (see `smoothing`)."""
        return self.order == 1

    def values(self, points: Floats) -> Floats:
        """Values of the shape functions at barycentric points (q, 4), (q, nodes)."""
        return shape_functions(points, self.order, topology.TET_EDGES)

    def slopes(self, points: Floats) -> Floats:
        """Derivatives of the shape functions at barycentric points (q, 4), (q, nodes, 4)."""
        return slopes_at(points, self.order, topology.TET_EDGES)


def _volumes(rule: tuple[Floats, Floats], known: Floats, order: int) -> Volumes:
    """Return a rule (points, weights) of volumes, given the deformation gradients at the points `known`."""
    points, weights = rule
    slopes = slopes_at(points, order, topology.TET_EDGES)
    free = slopes[:, :, :3] - slopes[:, :, 3:]  # the fourth coordinate is what the others leave
    one, other = np.triu_indices(slopes.shape[1], 1)
    first, later = np.array([0, 0, 1]), np.array([1, 2, 2])
    a, b = free[:, one], free[:, other]
    crosses = a[..., first] * b[..., later] - a[..., later] * b[..., first]
    # affine functions of the element, or on a P1 tet the only point's value, from their values at the known points
    affine, corners = (np.linalg.pinv(known) if len(known) > 1 else np.ones((4, 1))), np.eye(4)
    shares = points @ affine
    guards = np.vstack([corners, corners[topology.TET_EDGES].mean(axis=1)]) if order == 2 else corners[:0]
    return Volumes(
        points,
        weights,
        np.ascontiguousarray(shares),
        np.ascontiguousarray((weights * points.T[:, None] * shares.T).reshape(-1, len(points))),
        np.ascontiguousarray(crosses.transpose(0, 2, 1).reshape(-1, len(one))),
        np.ascontiguousarray(guards @ affine),
    )


def element(order: int) -> Element:
    """Return the tables of P1 (order 1) or P2 (order 2) displacement with continuous P1 pressure."""
    center = (np.full((1, 4), 0.25), np.ones(1))
    # J is constant on a P1 tet: one point integrates q (J - 1) exactly.
    energy, constraint = (TETRAHEDRON_DEGREE_2, TETRAHEDRON_DEGREE_5) if order == 2 else (center, center)
    return Element(
        order,
        Rule(slopes_at(energy[0], order, topology.TET_EDGES), *energy),
        _volumes(constraint, energy[0], order),
        share=constraint[1] @ shape_functions(constraint[0], order, topology.TET_EDGES),
        face=face_rule(TRIANGLE_DEGREE_4, order),
    )
