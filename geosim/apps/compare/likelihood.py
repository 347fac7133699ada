"""The last step of a registration: an unbiased pose from all points, also those beside edges.

A scan point x is a point y of the surface S, any as likely as another, plus normal noise of spread s in every coordinate;
or it is stray. Its density, and the chance that it came from y, are

    f(x) = integral over S of N(x - y; s) dA(y),     p(y | x) = N(x - y; s) / f(x),     weight w = f / (f + c),

with c such that a point 3.5 s from a plane is stray or not with equal odds. Of a pose the estimating function

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

import numpy as np

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
from geosim.arrays import Bools, Floats
from geosim.kernels import kernel


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
    sharp = _Edges.of(surface, max(spread(distance[counted]), MIN_SPREAD_M))
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
    """Samples of the surface beside its sharp edges (s, 3), their normals and areas, and a grid over them."""

    spread: float
    samples: Floats
    normals: Floats
    areas: Floats
    grid: tuple[Floats, float, np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, surface: ComparedSurface, spread: float) -> _Edges:
        samples, normals, areas = _beside_edges(surface, spread)
        return cls(spread, samples, normals, areas, _grid(samples, OUTLIER_SPREADS * spread))

    def expected(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return density of points, the mean way to the surface points they came from, and that of its normal part."""
        mass, mean, normal_mean = np.empty(len(points)), np.empty((len(points), 3)), np.empty((len(points), 3))
        surface = self.samples, self.normals, self.areas
        _gather(points, *surface, *self.grid, self.spread, OUTLIER_SPREADS * self.spread, mass, mean, normal_mean)
        return mass / (2.0 * np.pi * self.spread**2) ** 1.5, mean, normal_mean


def _newton_step(
    points: Floats, surface: ComparedSurface, allowed: Bools | None, sharp: _Edges
) -> tuple[Floats, Floats, Floats]:
    """Return rotation vector and translation (6,), their covariance (6, 6) and the centre that they refer to."""
    sigma = sharp.spread
    at, face, _, distance = surface.closest(points)
    stray_spreads = 3.5  # spreads from a plane at which a point is stray with even odds
    use = np.abs(distance) < 2.0 * stray_spreads * sigma
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
    weight = np.where(use, density / (density + peak * np.exp(-0.5 * stray_spreads**2)), 0.0)
    centre = (weight @ points) / weight.sum()
    share = (weight / sigma**2)[:, None]
    u, v = (np.hstack([np.cross(points - centre, m), m]) for m in (share * across, share * towards))
    plane = np.hstack([np.cross(points - centre, normal), normal])[~edge] * np.sqrt(weight[~edge])[:, None] / sigma
    inverse = np.linalg.pinv(u[edge].T @ v[edge] + plane.T @ plane)
    covariance = inverse @ (u[edge].T @ u[edge] + plane.T @ plane) @ inverse.T
    return inverse @ u.sum(axis=0), covariance, centre


def _beside_edges(surface: ComparedSurface, spread: float) -> tuple[Floats, Floats, Floats]:
    """Samples of the surface within two reaches of a sharp edge (s, 3), their normals, and the areas they stand for (s,).

    None if they would be too many: noise so small hardly matters there.
    """
    corners = surface.vertices[surface.faces]
    centres = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
    none = np.empty((0, 3)), np.empty((0, 3)), np.empty(0)
    if surface.sharp_edges is None:
        return none
    near = np.flatnonzero(surface.sharp_edges.query(centres)[0] < 2.0 * OUTLIER_SPREADS * spread + radius)
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    sample_spacing_spreads = 0.6  # spreads between samples
    parts = np.maximum(np.ceil(longest[near] / (sample_spacing_spreads * spread)), 1).astype(int)
    max_edge_samples = 64  # samples along a face's edge, at most
    if len(near) == 0 or parts.max() > max_edge_samples:
        return none
    made = []
    for count in np.unique(parts):
        mine, weights = near[parts == count], _split(int(count))
        points = np.einsum("ks,fsd->fkd", weights, corners[mine]).reshape(-1, 3)
        face = np.repeat(mine, len(weights))
        close = surface.beside_edge(points, 2.0 * OUTLIER_SPREADS * spread)
        made.append((points[close], surface.face_normals[face[close]], surface.areas[face[close]] / len(weights)))
    points, normals, areas = (np.concatenate(parts) for parts in zip(*made))
    return points, normals, areas


def _split(count: int) -> Floats:
    """Barycentric centres of the count^2 equal parts of a triangle, (count^2, 3)."""
    i, j = np.meshgrid(np.arange(count), np.arange(count), indexing="ij")
    up, down = i + j < count, i + j < count - 1
    u = np.concatenate([(i[up] + 1 / 3), (i[down] + 2 / 3)]) / count
    v = np.concatenate([(j[up] + 1 / 3), (j[down] + 2 / 3)]) / count
    return np.stack([1.0 - u - v, u, v], axis=1)


def _grid(samples: Floats, width: float) -> tuple[Floats, float, np.ndarray, np.ndarray, np.ndarray]:
    """Corner, width and shape of a grid over samples, its samples in order of cells, and where every cell starts."""
    if len(samples) == 0:
        return np.zeros(3), 1.0, np.ones(3, dtype=np.int64), np.empty(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    corner, span = samples.min(axis=0), np.ptp(samples, axis=0)
    max_grid_cells = 160  # of the grid along the longest side, at most
    width = max(width, float(span.max()) / max_grid_cells)
    shape = (np.floor(span / width) + 1).astype(np.int64)
    cell = np.minimum(((samples - corner) / width).astype(np.int64), shape - 1)
    key = (cell[:, 0] * shape[1] + cell[:, 1]) * shape[2] + cell[:, 2]
    order = np.argsort(key, kind="stable")
    starts = np.searchsorted(key[order], np.arange(int(np.prod(shape)) + 1))
    return corner, width, shape, order, starts


@kernel
def _gather(
    points, samples, normals, areas, corner, width, shape, order, starts, spread, reach, mass, mean, normal_mean
):
    """Write the integral of the kernel over the samples near every point, the mean way to them and that of its normal part."""
    for i in range(len(points)):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        low, high = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
        for a in range(3):
            low[a] = max(0, int(np.floor((points[i, a] - reach - corner[a]) / width)))
            high[a] = min(shape[a] - 1, int(np.floor((points[i, a] + reach - corner[a]) / width)))
        total = 0.0
        mean[i], normal_mean[i] = 0.0, 0.0
        for a in range(low[0], high[0] + 1):
            for b in range(low[1], high[1] + 1):
                for c in range(low[2], high[2] + 1):
                    cell = (a * shape[1] + b) * shape[2] + c
                    for k in range(starts[cell], starts[cell + 1]):
                        s = order[k]
                        dx, dy, dz = samples[s, 0] - x, samples[s, 1] - y, samples[s, 2] - z
                        square = dx * dx + dy * dy + dz * dz
                        if square < reach * reach:
                            w = areas[s] * np.exp(-0.5 * square / (spread * spread))
                            total += w
                            along = w * (normals[s, 0] * dx + normals[s, 1] * dy + normals[s, 2] * dz)
                            mean[i, 0] += w * dx
                            mean[i, 1] += w * dy
                            mean[i, 2] += w * dz
                            for k3 in range(3):
                                normal_mean[i, k3] += along * normals[s, k3]
        mass[i] = total
        if total > 0.0:
            mean[i] /= total
            normal_mean[i] /= total
