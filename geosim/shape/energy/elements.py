"""Reference elements: shape functions and quadrature on the tetrahedron and the triangle.

Barycentric coordinates everywhere; quadrature weights sum to 1 and multiply the element's volume (or area).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats
from geosim.geometry.topology import EDGES

__all__ = [
    "TETRAHEDRON_DEGREE_2",
    "TETRAHEDRON_DEGREE_5",
    "TRIANGLE_DEGREE_4",
    "Element",
    "element",
    "tetrahedron_shape",
    "tetrahedron_slopes",
    "triangle_shape",
    "triangle_slopes",
]


def _orbit(a: float, count: int) -> list[list[float]]:
    """Points (a, a, a, 1 - 3a) and permutations (4), or (a, a, 1/2 - a, 1/2 - a) and permutations (6)."""
    if count == 4:
        return [[1 - 3 * a if i == k else a for i in range(4)] for k in range(4)]
    return [
        [a if i in pair else 0.5 - a for i in range(4)] for pair in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    ]


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


def tetrahedron_shape(points: Floats, order: int) -> Floats:
    """Values of the shape functions at barycentric points (q, 4): shape (q, 4) or (q, 10)."""
    if order == 1:
        return points.copy()
    corners = points * (2.0 * points - 1.0)
    return np.hstack([corners, 4.0 * points[:, EDGES[:, 0]] * points[:, EDGES[:, 1]]])


def tetrahedron_slopes(points: Floats, order: int) -> Floats:
    """Derivatives of the shape functions by the barycentric coordinates, shape (q, nodes, 4)."""
    q = len(points)
    slopes = np.zeros((q, 4 if order == 1 else 10, 4))
    for k in range(4):
        slopes[:, k, k] = 1.0 if order == 1 else 4.0 * points[:, k] - 1.0
    if order == 2:
        for e, (i, j) in enumerate(EDGES):
            slopes[:, 4 + e, i] = 4.0 * points[:, j]
            slopes[:, 4 + e, j] = 4.0 * points[:, i]
    return slopes


def triangle_shape(points: Floats, order: int) -> Floats:
    """Values of the shape functions at barycentric points (q, 3): shape (q, 3) or (q, 6), mid-edges 01, 12, 20."""
    if order == 1:
        return points.copy()
    t, r, s = points.T
    return np.stack([t * (2 * t - 1), r * (2 * r - 1), s * (2 * s - 1), 4 * t * r, 4 * r * s, 4 * s * t], axis=1)


def triangle_slopes(points: Floats, order: int) -> Floats:
    """Derivatives by (r, s), the barycentric coordinates of corners 1 and 2, shape (q, nodes, 2)."""
    t, r, s = points.T
    one, zero = np.ones_like(t), np.zeros_like(t)
    if order == 1:
        return np.stack([np.stack([-one, one, zero], axis=1), np.stack([-one, zero, one], axis=1)], axis=2)
    by_r = np.stack([1 - 4 * t, 4 * r - 1, zero, 4 * (t - r), 4 * s, -4 * s], axis=1)
    by_s = np.stack([1 - 4 * t, zero, 4 * s - 1, -4 * r, 4 * r, 4 * (t - s)], axis=1)
    return np.stack([by_r, by_s], axis=2)


@dataclass(frozen=True)
class Element:
    """Tables of one element type: displacement slopes at the points of the energy and of the constraint.

    Parameters
    ----------
    order
        1 or 2, of the displacement; the pressure is linear.
    energy_slopes, energy_weights
        (q, nodes, 4) and (q,).
    constraint_slopes, constraint_points, constraint_weights
        (r, nodes, 4), (r, 4) and (r,); the points are also the values of the pressure's shape functions.
    constraint_shape
        (r, nodes), for body forces.
    face_shape, face_slopes, face_weights
        (s, face nodes), (s, face nodes, 2), (s,): rule of degree 4 on the faces, exact for the volume of P2 walls.
    """

    order: int
    energy_slopes: Floats
    energy_weights: Floats
    constraint_slopes: Floats
    constraint_points: Floats
    constraint_weights: Floats
    constraint_shape: Floats
    face_shape: Floats
    face_slopes: Floats
    face_weights: Floats

    @property
    def nodes(self) -> int:
        """Number of displacement nodes of a tet."""
        return self.energy_slopes.shape[1]


def element(order: int) -> Element:
    """Return the tables of P1 (order 1) or P2 (order 2) displacement with continuous P1 pressure."""
    center = (np.full((1, 4), 0.25), np.ones(1))
    energy = TETRAHEDRON_DEGREE_2 if order == 2 else center
    # J is constant on a P1 tet: one point integrates q (J - 1) exactly.
    constraint = TETRAHEDRON_DEGREE_5 if order == 2 else center
    face = TRIANGLE_DEGREE_4
    return Element(
        order,
        tetrahedron_slopes(energy[0], order),
        energy[1],
        tetrahedron_slopes(constraint[0], order),
        constraint[0],
        constraint[1],
        tetrahedron_shape(constraint[0], order),
        triangle_shape(face[0], order),
        triangle_slopes(face[0], order),
        face[1],
    )
