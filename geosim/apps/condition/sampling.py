"""Sequential Monte Carlo with tempering [Del Moral, Doucet, Jasra 2006, J. R. Stat. Soc. B 68(3)].

Draws of a standard normal prior become draws of the posterior through the densities

    N(z; 0, 1) L(z)^b,        0 = b_0 < b_1 < ... = 1.

The next b leaves the weights L^(b_k+1 - b_k) an effective number of half of the draws. Draws are resampled by these weights and
moved by Metropolis steps of the size of their own covariance. The mean weights multiply to the evidence.

It is written here, since it is 60 lines of numpy. emcee and blackjax sample one posterior from one start; pocomc adds a
normalising flow and its dependency torch. None gives the evidence, many modes and whole batches of a vectorised likelihood
with fewer dependencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from geosim.arrays import Floats

KEPT = 0.5  # effective share of the draws after a step of the temperature
MOVES = 8  # Metropolis steps at every temperature: as many as leave few copies at an acceptance of a quarter
LAST_MOVES = 2 * MOVES  # at the posterior itself, whose copies nothing moves afterwards
LEAST_STEP = 1e-6  # of the temperature: a likelihood so narrow is left to the count of effective draws


@dataclass(frozen=True)
class Sampled:
    """Draws of a posterior.

    Parameters
    ----------
    z
        In units of the prior, (d, p).
    evidence
        ln of the mean likelihood over the prior.
    effective
        Number of independent draws: (sum n)^2 / sum n^2 over groups of n equal ones.
    """

    z: Floats
    evidence: float
    effective: float


def sample(likelihood: Callable[[Floats], Floats], dimensions: int, draws: int, rng: np.random.Generator) -> Sampled:
    """Return draws of a standard normal prior (p = dimensions) that are weighted by a likelihood.

    Parameters
    ----------
    likelihood
        ln L (d,) at z (d, p); -inf where a draw is impossible.
    draws
        Number of draws d.
    rng
        Random numbers.
    """
    z = rng.standard_normal((draws, dimensions))
    height, power, evidence = likelihood(z), 0.0, 0.0
    while power < 1.0 and np.isfinite(height).any():
        step = _step(height, 1.0 - power)
        top = float(height.max())
        weights = np.exp(step * (height - top))
        evidence += step * top + float(np.log(weights.mean()))
        power += step
        picked = _resampled(weights / weights.sum(), rng)
        z, height = z[picked], height[picked]
        z, height = _moved(likelihood, z, height, power, rng)
    if not np.isfinite(height).any():
        return Sampled(z, -np.inf, 0.0)
    counts = np.unique(z, axis=0, return_counts=True)[1]
    return Sampled(z, evidence, float(counts.sum() ** 2 / np.sum(counts**2)))


def _step(height: Floats, most: float) -> float:
    """Return the largest step of the power up to `most` that keeps the effective share of the draws."""

    def share(step: float) -> float:
        w = np.exp(step * (height - height.max()))
        return float(w.sum() ** 2 / np.sum(w**2) / len(w)) - KEPT

    if share(most) >= 0.0:
        return most
    least = min(LEAST_STEP, most)
    return least if share(least) <= 0.0 else float(brentq(share, least, most, rtol=1e-3))


def _resampled(shares: Floats, rng: np.random.Generator) -> np.ndarray:
    """Return systematic picks (d,) by shares (d,)."""
    places = (rng.random() + np.arange(len(shares))) / len(shares)
    return np.minimum(np.searchsorted(np.cumsum(shares), places), len(shares) - 1)


def _moved(
    likelihood: Callable[[Floats], Floats], z: Floats, height: Floats, power: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return draws and their ln L after Metropolis steps at a power of the likelihood."""
    count = z.shape[1]
    spread = np.atleast_2d(np.cov(z.T)) + 1e-10 * np.eye(count)
    root, size = np.linalg.cholesky(spread), 2.38 / np.sqrt(count)
    z, height = z.copy(), height.copy()
    for _ in range(LAST_MOVES if power >= 1.0 else MOVES):
        asked = z + size * rng.standard_normal(z.shape) @ root.T
        there = likelihood(asked)
        gain = power * (there - height) - 0.5 * (np.sum(asked**2, axis=1) - np.sum(z**2, axis=1))
        moved = np.log(rng.random(len(z))) < gain
        z[moved], height[moved] = asked[moved], there[moved]
        size *= float(np.exp(moved.mean() - 0.3))  # towards an acceptance of 0.3
    return z, height
