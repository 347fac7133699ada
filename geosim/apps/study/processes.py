"""Gaussian processes through values and, where they are known, gradients of a measure [Rasmussen and Williams, 2006, 9.4].

The kernel is Matern's of smoothness 5/2 with a length for every feature,

    k = s^2 (1 + a + a^2 / 3) exp(-a),      a^2 = 5 sum_i (x_i - x'_i)^2 / l_i^2,

twice differentiable, so that gradients are observed as values are: cov(df/dx_i, f') = dk/dx_i and
cov(df/dx_i, df'/dx'_j) = d2k/dx_i dx'_j.
Amplitude, lengths and noise maximise the likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg, optimize

from geosim.arrays import Floats, Ints

BAND_DEVIATIONS = 1.96  # standard deviations on either side of a 95 % band
JITTER = 1e-9  # of the squared amplitude on the diagonal, for rounding


def _kernel(x: Floats, y: Floats, lengths: Floats, *, gradients: tuple[bool, bool]) -> Floats:
    """Covariances, of amplitude 1, of values and then gradients (point by point) at x (n, d) with those at y (m, d)."""
    n, m, d = len(x), len(y), x.shape[1]
    apart = (x[:, None] - y[None]) / lengths
    twice = 5.0  # the smoothness of 5/2
    a = np.sqrt(twice * (apart**2).sum(axis=2))
    fall = np.exp(-a)
    values = (1.0 + a + a**2 / 3.0) * fall
    if not any(gradients):
        return np.asarray(values)
    first = (-twice / 3.0) * ((1.0 + a) * fall)[:, :, None] * apart / lengths  # by x; by y it is the negative
    rows = [[values]]
    if gradients[1]:
        rows[0].append(-first.reshape(n, m * d))
    if gradients[0]:
        rows.append([first.transpose(0, 2, 1).reshape(n * d, m)])
        if gradients[1]:
            scaled = apart / lengths
            second = (
                (twice / 3.0)
                * fall[:, :, None, None]
                * (
                    (1.0 + a)[:, :, None, None] * np.diag(lengths**-2.0)
                    - twice * scaled[:, :, :, None] * scaled[:, :, None, :]
                )
            )
            rows[1].append(second.transpose(0, 2, 1, 3).reshape(n * d, m * d))
    return np.block(rows)


@dataclass(frozen=True)
class Process:
    """A Gaussian process through observations.

    Parameters
    ----------
    at
        Features of the observed designs, (n, d).
    gradients
        Which components of their gradients were observed, too: numbers of (design, feature) pairs, (g,); none of most.
    lengths, amplitude, noise
        Of the kernel, (d,), and of the observations over the deviation of the values.
    center, scale
        Mean and deviation of the values.
    weights
        K^-1 times the observations, (n,) or (n + n d,).
    factor
        Inverse of the Cholesky factor of K.
    """

    at: Floats
    gradients: Ints
    lengths: Floats
    amplitude: float
    noise: float
    center: float
    scale: float
    weights: Floats
    factor: Floats

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the measure at features (m, d), each (m,); of the measure itself, without noise."""
        k = self.amplitude**2 * _kernel(x, self.at, self.lengths, gradients=(False, len(self.gradients) > 0))
        k = k[:, self._observed]
        spread = self.amplitude**2 - ((k @ self.factor.T) ** 2).sum(axis=1)
        mean = self.center + self.scale * (k @ self.weights)
        return mean, self.scale * np.sqrt(np.maximum(spread, 0.0))

    def slope(self, x: Floats) -> Floats:
        """Gradient of the mean by the features, (m, d)."""
        both = self.amplitude**2 * _kernel(x, self.at, self.lengths, gradients=(True, len(self.gradients) > 0))
        return np.asarray(self.scale * (both[len(x) :, self._observed] @ self.weights).reshape(x.shape))

    @cached_property
    def _observed(self) -> Ints:
        """Which values and gradients of the kernel are those of observations."""
        n = len(self.at)
        return np.concatenate([np.arange(n), n + self.gradients])

    def problem(self) -> str:
        """Return what is wrong with a process that a file keeps, or nothing: whether it fits its own designs.

        Its values there lie within sqrt(n) deviations of their mean, as any n numbers do, and its factor makes the
        identity of the kernel at most: K holds the noise, too.
        """
        n = len(self.at)
        if len(self.weights) != n + len(self.gradients) or (self.gradients >= n * self.at.shape[1]).any():
            return f"{len(self.weights)} weights for {n} designs and {len(self.gradients)} derivatives"
        with np.errstate(all="ignore"):
            deviations = (self(self.at)[0] - self.center) / self.scale
            kernel = self.amplitude**2 * _kernel(
                self.at, self.at, self.lengths, gradients=(len(self.gradients) > 0,) * 2
            )
            unit = self.factor @ kernel[np.ix_(self._observed, self._observed)] @ self.factor.T
        rounding = 1e-3  # of numbers that inverses of a nearly singular kernel give
        if not np.abs(deviations).max() <= np.sqrt(n) + rounding or not np.abs(unit).max() <= 1.0 + rounding:
            return "its weights or its factor are not those of its designs"
        return ""

    def arrays(self) -> dict[str, Any]:
        """What a file keeps."""
        return {name: np.asarray(value) for name, value in vars(self).items() if name in self.__dataclass_fields__}

    @classmethod
    def of_arrays(cls, given: Mapping[str, Any]) -> Process:
        """Return the process of what a file keeps."""
        plain: dict[str, Any] = {"amplitude": float, "noise": float, "center": float, "scale": float}
        return cls(**{name: plain.get(name, np.asarray)(given[name]) for name in cls.__dataclass_fields__})


def fitted(at: Floats, values: Floats, gradients: Floats | None = None, like: Process | None = None) -> Process:
    """Return the likeliest process through values (n,) at features (n, d) and, where they are known, gradients (n, d).

    Parameters
    ----------
    gradients
        nan where a component is not known.
    like
        A process whose kernel and scale are taken.
    """
    center, scale = (float(values.mean()), float(values.std()) or 1.0) if like is None else (like.center, like.scale)
    n, d = at.shape
    given = np.zeros(0) if gradients is None else np.ravel(gradients) / scale
    slopes = np.flatnonzero(np.isfinite(given))
    kept = np.concatenate([np.arange(n), n + slopes])
    observed = np.concatenate([(values - center) / scale, given[slopes]])
    # Gradients are exact for their mesh, and another mesh moves values: as much noise, over the deviation of values.
    gradient_noise_rel = 2.0

    def factored(logs: Floats) -> tuple[Floats, Floats]:
        lengths, amplitude, noise = np.exp(logs[:d]), float(np.exp(logs[d])), float(np.exp(logs[d + 1]))
        K = amplitude**2 * _kernel(at, at, lengths, gradients=(len(slopes) > 0,) * 2)[np.ix_(kept, kept)]
        jitter = np.full(len(K), JITTER * amplitude**2)
        jitter[:n] += noise**2
        jitter[n:] += (gradient_noise_rel * noise) ** 2
        L = linalg.cholesky(K + np.diag(jitter), lower=True)
        return L, linalg.cho_solve((L, True), observed)

    def loss(logs: Floats) -> float:
        try:
            L, weights = factored(logs)
        except linalg.LinAlgError:
            return 1e10
        # a weak prior on the lengths, which few designs leave open
        return float(0.5 * observed @ weights + np.log(np.diag(L)).sum() + 0.05 * np.sum(logs[:d] ** 2))

    # correlation lengths over the space; amplitude and noise over the deviation of the values
    length_bounds, amplitude_bounds, noise_bounds = (0.05, 20.0), (0.1, 30.0), (1e-5, 0.3)
    first_lengths = (0.5, 2.0)  # from where the likelihood is climbed
    if like is None:
        bounds = np.log([length_bounds] * d + [amplitude_bounds, noise_bounds])
        starts = [np.log([*([length] * d), 1.0, 1e-2]) for length in first_lengths]
        # Differences of our own: those of minimize end in an error where an iterate is beyond a bound by rounding.
        slope = partial(optimize.approx_fprime, f=loss)
        fits = (optimize.minimize(loss, s, method="L-BFGS-B", jac=slope, bounds=bounds) for s in starts)
        found = min(fits, key=lambda f: f.fun)
        logs = found.x
    else:
        logs = np.log([*like.lengths, like.amplitude, like.noise])
    L, weights = factored(logs)
    inverse = linalg.solve_triangular(L, np.eye(len(L)), lower=True)
    lengths, (amplitude, noise) = np.exp(logs[:d]), np.exp(logs[d:])
    return Process(at, slopes, lengths, float(amplitude), float(noise), center, scale, weights, inverse)
