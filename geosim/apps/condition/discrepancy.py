"""What a model is off: a Gaussian process over the load, in proportion to the change of the measure from rest.

    y(x) = f(q, x) + s(q, x) g(x) + e,        g ~ GP(0, sigma^2 k),        e ~ N(0, tau^2)

y is measured at the load x, f is the model with the unknowns q, s the change of its value from rest (of a vector, its length), e
the error of a reading. With t = x over the largest load of the test

    k(t, t') = K0 + min(t, t') + b t^2 (3 t' - t) / 6        for 0 < t < t',

a constant share, a random walk and b times an integrated random walk [Wahba 1978, J. R. Stat. Soc. B 40(3)]. A walk is held by
what is shown, and grows beyond the test, where a process of constant variance would stay. Errors of one curve are correlated
through k, so forty points do not count as forty. Loads of two actuators have

    k(t, t') = (K0 + |t| |t'|) exp(-|t - t'|^2 / (2 L^2)).

The error of a mesh is a further constant share, of the measure's own change c, normal with its bound as 95 %: it adds
m^2 (c / s) (c' / s') to sigma^2 k. It is held by the test as well, since a model whose mesh is too stiff is too stiff at every
load. sigma and tau are unknowns; what remains between the model and the test decides them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats

CONSTANT_SHARE = 0.25  # K0: variance of the constant share, over sigma^2; a modulus takes most of a constant
PLANE_LENGTH = 0.5  # L: of loads of two actuators, over the largest; half-way to it errors are related by 0.6
DIAGONAL_REL = 1e-9  # of a covariance, for rounding


@dataclass(frozen=True)
class Reach:
    """How loads of a test become the variable of the process.

    Parameters
    ----------
    largest
        Norm of the largest load of the test.
    plane
        Whether there are two loads.
    apart
        Whether every load has an error of its own, as numbers of poses have that lie on no path.
    bend
        b: variance of the integrated walk over that of the walk.
    """

    largest: float
    plane: bool
    apart: bool
    bend: float

    @classmethod
    def of(cls, loads: Floats, apart: bool, bend: float) -> Reach:
        """Return that of the loads (n, 2) of a test."""
        return cls(float(np.linalg.norm(loads, axis=1).max()) or 1.0, bool(loads[:, 1].any()), apart, bend)

    def covariance(self, first: Floats, second: Floats) -> Floats:
        """Return k (n, m) of loads (n, 2) and (m, 2)."""
        a, b = first / self.largest, second / self.largest
        if self.apart:
            return np.where(np.isclose(a[:, None], b[None], atol=1e-9).all(axis=2), 1.0, 0.0)
        if self.plane or a[:, 1].any() or b[:, 1].any():
            size = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)[None]
            apart = np.sum((a[:, None] - b[None]) ** 2, axis=2)
            return np.asarray((CONSTANT_SHARE + size) * np.exp(-0.5 * apart / PLANE_LENGTH**2))
        x, y = a[:, 0][:, None], b[:, 0][None]
        low, high = np.minimum(np.abs(x), np.abs(y)), np.maximum(np.abs(x), np.abs(y))
        walks = low + self.bend * low**2 * (3.0 * high - low) / 6.0
        return np.asarray(CONSTANT_SHARE + np.where(x * y > 0.0, walks, 0.0))


@dataclass(frozen=True)
class Held:
    """The process of one measure, held by its residuals, for every draw.

    Parameters
    ----------
    reach
        Of the loads of the test.
    loads
        Of the rows, (n, 2).
    scale
        Changes of the measure from rest at the rows, (d, n).
    size
        sigma of every draw, (d,).
    root
        Cholesky factors of the covariances of the rows, (d, n, n).
    residuals
        Measured less modelled, (d, n).
    mesh
        Standard deviations of the share of the mesh at the rows, (d, n): of one normal, so that they are correlated in full.
    """

    reach: Reach
    loads: Floats
    scale: Floats
    size: Floats
    root: Floats
    residuals: Floats
    mesh: Floats

    @classmethod
    def by(
        cls, reach: Reach, loads: Floats, residuals: Floats, scale: Floats, size: Floats, readings: Floats, mesh: Floats
    ) -> Held:
        """Return the process held by residuals (d, n) with readings of variances (d, n)."""
        k = (size**2)[:, None, None] * reach.covariance(loads, loads) + mesh[:, :, None] * mesh[:, None, :]
        whole = k * scale[:, :, None] * scale[:, None, :]
        diagonal = np.arange(len(loads))
        whole[:, diagonal, diagonal] += readings
        whole[:, diagonal, diagonal] *= 1.0 + DIAGONAL_REL
        return cls(reach, loads, scale, size, np.asarray(np.linalg.cholesky(whole), dtype=float), residuals, mesh)

    @property
    def density(self) -> Floats:
        """Ln of the density of the residuals (d,)."""
        white = self._whitened(self.residuals[:, :, None])[:, :, 0]
        heights = np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(-0.5 * np.sum(white**2, axis=1) - heights - 0.5 * white.shape[1] * np.log(2.0 * np.pi))

    @property
    def mesh_open(self) -> Floats:
        """Part (d,) of the standard deviation of the mesh that the test leaves open."""
        held = self._whitened((self.mesh * self.scale)[:, :, None])[:, :, 0]
        return np.asarray(np.sqrt(np.maximum(1.0 - np.sum(held**2, axis=1), 0.0)), dtype=float)

    def _whitened(self, right: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self.root, right), dtype=float)

    def beyond(self, loads: Floats, mesh: Floats) -> tuple[Floats, Floats]:
        """Return the mean (d, m) and the covariance (d, m, m) of the share g at other loads (m, 2); `mesh` (d, m) there."""
        variance = (self.size**2)[:, None, None]
        cross = variance * self.reach.covariance(self.loads, loads) + self.mesh[:, :, None] * mesh[:, None, :]
        across = cross * self.scale[:, :, None]  # (d, n, m)
        white, held = self._whitened(self.residuals[:, :, None]), self._whitened(across)
        mean = np.einsum("dnm,dn->dm", held, white[:, :, 0])
        own = variance * self.reach.covariance(loads, loads) + mesh[:, :, None] * mesh[:, None, :]
        return mean, own - np.einsum("dnm,dnk->dmk", held, held)


def drawn(mean: Floats, covariance: Floats, rng: np.random.Generator) -> Floats:
    """Return one draw (d, m) of every normal of mean (d, m) and covariance (d, m, m)."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(
        mean + np.einsum("dij,dj->di", vectors, np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(mean.shape))
    )
