"""The last step of a registration: an unbiased pose from all points, also those beside edges.

A scan point x is a point y of the surface S, any as likely as another, plus normal noise of spread s in every coordinate;
or it is stray. Its density, and the chance that it came from y, are

    f(x) = integral over S of N(x - y; s) dA(y),     p(y | x) = N(x - y; s) / f(x),     weight w = f / (f + c),

with c such that a point 4 s from a plane is stray or not with equal odds. Of a pose the estimating function

    sum_i u_i = 0,     u_i = (x_i cross m_i, m_i),     m_i = w_i E[n(y) n(y) . (y - x_i) | x_i] / s^2

has the mean 0 at the truth, since for every y the noise has: patch by patch, so that missing patches do not matter. Far
from edges it is that of point-to-plane ICP. Beside a sharp edge the expectation is taken over samples of the surface.
There noise pushes points outward on average, which a closest point knows nothing of, and leaving those points out would
lose the longest lever arms. (Noise so small that its samples would be too many hardly matters there: then those points are left
out.) The pose is found by Newton's method with the derivative A = sum u_i v_i^T, v the score (with E[y - x] instead of its
normal part), which is what E[u] = 0 for all poses implies, in its expectation where the surface is plane; A^-1 (sum u u^T) A^-T
is its covariance. Without edges it is the bound of Cramer and Rao.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from geosim.apps.compare.registration import (
    EDGE_BAND_SPREADS,
    MIN_SPREAD_M,
    OUTLIER_SPREADS,
    Pose,
    apply,
    check_enough,
    moved,
    spread,
)
from geosim.apps.compare.surface import ComparedSurface
from geosim.arrays import MIN_DIVISOR, Bools, Floats, norm
from geosim.geometry import topology


def refine(points: Floats, surface: ComparedSurface, start: Pose, *, allowed: Bools | None = None) -> Pose:
    """Return the pose of greatest likelihood near a first one.

    Parameters
    ----------
    points
        Measured points [m], shape (n, 3).
    surface
        The model.
    start
        A pose that fits already, with its spread.
    allowed
        Faces whose points count, shape (f,).

    Raises
    ------
    InputError
        Fewer than ten points count.
    """
    transform = start.transform.copy()
    _, face, _, distance = surface.closest(apply(transform, points))
    counted = np.ones(len(points), dtype=bool) if allowed is None else allowed[face]
    check_enough(counted)
    sharp = _beside_edges(surface, max(spread(distance[counted]), MIN_SPREAD_M))
    covariance = np.eye(6)
    last_step_errors, max_steps = 0.02, 12  # standard errors that the last step may have
    for _ in range(max_steps):
        placed = apply(transform, points)
        step, covariance, centre = _newton_step(placed, surface, allowed, sharp)
        transform = moved(transform, step, centre)
        if step @ np.linalg.pinv(covariance) @ step < last_step_errors**2:
            break
    return Pose.estimated(transform, sharp.spread, covariance)


@dataclass(frozen=True)
class _Edges:
    """Samples of the surface beside its sharp edges (s, 3), the normals and areas that they stand for, and the noise [m]."""

    spread: float
    samples: Floats
    normals: Floats
    areas: Floats

    def expected(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return density of points, the mean way to the surface points they came from, and that of its normal part."""
        reach, count = OUTLIER_SPREADS * self.spread, len(points)
        near = cKDTree(points).sparse_distance_matrix(cKDTree(self.samples), reach, output_type="coo_matrix")
        i, j = near.row, near.col
        weight = self.areas[j] * np.exp(-0.5 * (near.data / self.spread) ** 2)
        way, normal = self.samples[j] - points[i], self.normals[j]
        along = np.einsum("pi,pi->p", way, normal)[:, None] * normal
        mass, *sums = (np.bincount(i, weight * part, count) for part in (1.0, *way.T, *along.T))
        mean = np.stack(sums, axis=1) / np.maximum(mass, MIN_DIVISOR)[:, None]
        return mass / (2.0 * np.pi * self.spread**2) ** 1.5, mean[:, :3], mean[:, 3:]


def _newton_step(
    points: Floats, surface: ComparedSurface, allowed: Bools | None, sharp: _Edges
) -> tuple[Floats, Floats, Floats]:
    """Return rotation vector and translation (6,), their covariance (6, 6) and the centre that they refer to."""
    sigma = sharp.spread
    at, face, _, distance = surface.closest(points)
    use = np.abs(distance) < 2.0 * OUTLIER_SPREADS * sigma
    if allowed is not None:
        use &= allowed[face]
    peak = 1.0 / (np.sqrt(2.0 * np.pi) * sigma)
    normal = surface.face_normals[face]
    density = peak * np.exp(-0.5 * (distance / sigma) ** 2)
    towards = -normal * np.einsum("ij,ij->i", points - at, normal)[:, None]
    across = towards.copy()
    edge = np.zeros(len(points), dtype=bool)
    if len(sharp.samples):
        edge = surface.beside_edge(at, OUTLIER_SPREADS * sigma) & use
        density[edge], towards[edge], across[edge] = sharp.expected(points[edge])
    else:
        use &= ~surface.beside_edge(at, EDGE_BAND_SPREADS * sigma)
    weight = np.where(use, density / (density + peak * np.exp(-0.5 * OUTLIER_SPREADS**2)), 0.0)
    centre = (weight @ points) / weight.sum()
    share = (weight / sigma**2)[:, None]
    u, v = (np.hstack([np.cross(points - centre, m), m]) for m in (share * across, share * towards))
    plane = np.hstack([np.cross(points - centre, normal), normal])[~edge] * np.sqrt(weight[~edge])[:, None] / sigma
    inverse = np.linalg.pinv(u[edge].T @ v[edge] + plane.T @ plane)
    covariance = inverse @ (u[edge].T @ u[edge] + plane.T @ plane) @ inverse.T
    return inverse @ u.sum(axis=0), covariance, centre


def _beside_edges(surface: ComparedSurface, spread: float) -> _Edges:
    """Return samples of the surface within two reaches of a sharp edge; none if they would be too many.

    Noise so small hardly matters there.
    """
    from trimesh.remesh import subdivide_to_size  # slow to import

    none = _Edges(spread, np.empty((0, 3)), np.empty((0, 3)), np.empty(0))
    if surface.sharp_edges is None:
        return none
    corners = surface.vertices[surface.faces]
    centres = corners.mean(axis=1)
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    near = np.flatnonzero(surface.sharp_edges.query(centres)[0] < 2.0 * OUTLIER_SPREADS * spread + longest)
    # in spreads, the edges of the triangles whose middles are samples, at most; times that an edge of the surface is halved
    sample_edge_spreads, max_halvings = 2.0, 5
    finest = sample_edge_spreads * spread
    if len(near) == 0 or longest[near].max() > 2**max_halvings * finest:
        return none
    cut: Any = subdivide_to_size
    points, faces, parent = cut(surface.vertices, surface.faces[near], finest, max_iter=20, return_index=True)
    centres, face = points[faces].mean(axis=1), near[parent]
    areas = 0.5 * norm(topology.face_normals(points, faces), axis=1)
    close = surface.beside_edge(centres, 2.0 * OUTLIER_SPREADS * spread)
    return _Edges(spread, centres[close], surface.face_normals[face[close]], areas[close])
