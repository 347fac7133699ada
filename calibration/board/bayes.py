"""A few unknowns with priors, fitted to a few measurements: what they are, what they predict, and what they leave over.

Unknowns z in units of their prior's standard deviations, 0 where the prior has its middle, residuals r in units of sigma:

    z = argmin |r(z)|^2 + |z|^2,        C = (J^T J + 1)^-1.

What a prediction may be off is J_p C J_p^T for the unknowns, and what the model itself leaves over: sigma, scaled by what
predictions of left-out measurements were off (`spread`), since residuals of the fit flatter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t as student

STEP = 1e-3  # of unknowns in units of their priors, for differences


@dataclass(frozen=True)
class Fit:
    """Unknowns z (p,) in units of the priors, and their covariance (p, p)."""

    z: np.ndarray
    covariance: np.ndarray

    def sigma(self, model: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return standard deviations of the numbers that a model gives of z, for what z is not known."""
        slope = slopes(model, self.z)
        return np.sqrt(np.einsum("ij,jk,ik->i", slope, self.covariance, slope))


def slopes(model: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Return the derivatives of a model, (m, p), by central differences."""
    return np.stack([(model(z + d) - model(z - d)) / (2 * STEP) for d in STEP * np.eye(len(z))], axis=1)


def fit(residual: Callable[[np.ndarray], np.ndarray], count: int) -> Fit:
    """Return the fit of a number of unknowns to residuals (m,) in units of their standard deviations."""
    found = least_squares(
        lambda z: np.concatenate([residual(z), z]), np.zeros(count), max_nfev=15, diff_step=STEP, xtol=1e-3, ftol=1e-3
    )
    return Fit(found.x, np.linalg.inv(found.jac.T @ found.jac))


def spread(off: np.ndarray, folds: int) -> tuple[float, float]:
    """Return by how much sigmas are too small, and how many of them are 95 % of the distribution to be expected.

    Parameters
    ----------
    off
        Errors of predictions of left-out measurements, in units of the sigmas that were predicted.
    folds
        Of how many independent measurements: their number decides how well the scale is known (Student's t).
    """
    return float(np.sqrt(np.mean(off**2))), float(student.ppf(0.975, folds))


def sample(
    log: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws (d, p) of a density: chains side by side, moved by differences of others [ter Braak 2006].

    Either half of the chains moves by differences of two of the other half, so that steps have the density's own size and
    directions; every tenth step is a whole difference, which leads from one peak to another.

    Parameters
    ----------
    log
        ln of the density (d,) of points (d, p).
    start
        Where the chains begin (d, p).
    """
    points, count = start.copy(), start.shape[1]
    height = log(points)
    halves = np.array_split(np.arange(len(points)), 2)
    for k in range(steps):
        size = 1.0 if k % 10 == 9 else 2.38 / np.sqrt(2.0 * count)
        for mine, others in (halves, halves[::-1]):
            one = rng.integers(len(others), size=len(mine))
            two = (one + rng.integers(1, len(others), size=len(mine))) % len(others)  # another one
            step = points[others[one]] - points[others[two]]
            asked = points[mine] + size * step + 1e-3 * rng.standard_normal((len(mine), count))
            there = log(asked)
            moved = np.log(rng.uniform(size=len(mine))) < there - height[mine]
            points[mine[moved]], height[mine[moved]] = asked[moved], there[moved]
    return points
