"""Honest intervals: what a least-squares fit does not know of its own error, and what other laws say.

The constants c of one law have the covariance

    C = t C_noise + sum_k d_k d_k^T,        d_k = c(stretches moved by one standard deviation) - c,

where t is the correlation time of the residuals (a law that is a little wrong leaves residuals in a row, which tell less than
independent ones), and k runs over the zero of the strains of every test, its gauge length, and the specimens of one mode (those
by the jackknife, Efron 1982). Laws that fit alike are averaged [Burnham and Anderson 2002]: with Akaike weights w_m

    Var P(s) = sum_m w_m ((P_m(s) - P(s))^2 + g_m^T C_m g_m) + (0.42 ln(s / s_tested) P(s))^2,      g_m = dP_m/dc.

The last term is what rubber does that none of the laws says: see `BEYOND_SPREAD`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from geosim.apps.calibrate.curves import sensitivities
from geosim.apps.calibrate.fitting import Estimate, Samples
from geosim.apps.calibrate.samples import MaterialTest
from geosim.apps.calibrate.toe import correlation_time
from geosim.arrays import Floats
from geosim.model.tolerances import half_width_factor

# Standard deviation of ln(stress / predicted stress) over ln(stretch / tested stretch): the root mean square over the recommended
# laws of three cast silicones and vulcanised rubber in three modes, shown to stretch 2 or to half of the record, is 0.34 at 1.3
# times the tested stretch, 0.37 at 1.5 and at 2 times with toes corrected, up to 0.43 without (`benchmarks/materials.py curves`).
BEYOND_SPREAD = 0.42
GAUGE_ERROR = 0.01  # relative standard deviation of a gauge length: 0.25 mm of 25 mm, read with a ruler
NEGLIGIBLE_MISFIT_REL = (
    1e-4  # rms over the largest stress below which a misfit is rounding, and the simpler law is taken
)


def widened(
    found: Estimate,
    samples: Samples,
    tests: Sequence[MaterialTest],
    refit: Callable[[Samples], Floats],
    signed: Sequence[bool],
    confidence: float,
    gauge_error: float,
) -> tuple[Estimate, float]:
    """Return an estimate whose covariance and intervals hold the errors of the tests beside their noise.

    Also returned is how many residuals in a row tell as much as one independent one.

    Parameters
    ----------
    found, samples
        A fit, and what was fitted.
    tests
        Of the samples, in their order.
    refit
        Returns the constants of other samples.
    signed
        Which constants are known to be positive.
    confidence
        Level of the intervals.
    gauge_error
        Relative standard deviation of every gauge length.
    """
    counts = [len(t.stretch) for t in tests]
    parts = np.split(found.residuals, np.cumsum(counts)[:-1])
    times = [correlation_time(part[np.argsort(t.stretch)]) for part, t in zip(parts, tests)]
    time = float(np.average(times, weights=counts))
    moved = [refit(s) - found.parameters for s in _moved(samples, tests, gauge_error)]
    moved += _jackknife(samples, tests, found.parameters, refit)
    spread = np.array(moved).reshape(-1, len(found.parameters))
    known = np.isfinite(found.covariance)
    covariance = np.where(known, time * found.covariance + spread.T @ spread, np.inf)
    reach = half_width_factor(confidence) * np.sqrt((spread**2).sum(axis=0))
    intervals = found.intervals.copy()
    below = math.sqrt(time) * (found.parameters - intervals[:, 0])
    above = math.sqrt(time) * (intervals[:, 1] - found.parameters)
    on_bound = np.array([side == "upper" for side in found.sides])
    intervals[:, 0] = np.where(on_bound, intervals[:, 0], found.parameters - np.hypot(below, reach))
    intervals[:, 1] = found.parameters + np.hypot(above, np.where(on_bound & (above == 0.0), 0.0, reach))
    intervals[list(signed), 0] = np.maximum(intervals[list(signed), 0], 0.0)
    return dataclasses.replace(found, covariance=covariance, intervals=intervals), time


def _moved(samples: Samples, tests: Sequence[MaterialTest], gauge_error: float) -> list[Samples]:
    """Return the samples with the zero of the strains, and the gauge length, of one test a standard deviation off."""
    out = []
    for i, test in enumerate(tests):
        stretch = samples.stretches[i]
        others = [stretch - test.zero_error] if test.zero_error > 0.0 else []
        others += [1.0 + (stretch - 1.0) * (1.0 + gauge_error)] if gauge_error > 0.0 else []
        for other in others:
            moved = (*samples.stretches[:i], other, *samples.stretches[i + 1 :])
            out.append(dataclasses.replace(samples, stretches=moved))
    return out


def _jackknife(
    samples: Samples, tests: Sequence[MaterialTest], whole: Floats, refit: Callable[[Samples], Floats]
) -> list[Floats]:
    """Return the deviations of the constants with one specimen of several of a mode left out, by sqrt((n - 1) / n)."""
    modes, counts = [t.mode for t in tests], [len(t.stretch) for t in tests]
    owner = np.repeat(np.arange(len(tests)), counts)
    out = []
    for mode in dict.fromkeys(modes):
        mine = [i for i, m in enumerate(modes) if m == mode and samples.weights[owner == i].any()]
        if len(mine) < 2:
            continue
        for left in mine:
            rest, keep = [i for i in range(len(tests)) if i != left], owner != left
            part = Samples(
                tuple(samples.modes[i] for i in rest), tuple(samples.stretches[i] for i in rest),
                samples.stress[keep], samples.weights[keep],
            )  # fmt: skip
            out.append(math.sqrt((len(mine) - 1) / len(mine)) * (refit(part) - whole))
    return out


def criterion(count: int, time: float, mean_square: float, free: int) -> float:
    """Return Akaike's criterion, corrected for few samples, of which `time` in a row tell as much as one.

    `mean_square` is that of the residuals over the largest stress squared.
    """
    k = free + 1  # the noise is one, too
    corrected = 2.0 * k * (k + 1) / (count - k - 1) if count > k + 1 else math.inf
    return count / time * math.log(mean_square + NEGLIGIBLE_MISFIT_REL**2) + 2.0 * k + corrected


def akaike_weights(criteria: Sequence[float]) -> Floats:
    """Return the weights of laws from their criteria, sum 1."""
    off = np.asarray(criteria) - np.min(criteria)
    weights = np.exp(-0.5 * np.where(np.isnan(off), np.inf, off))
    return np.asarray(weights / weights.sum())


def modulus_slopes(model: str, parameters: Floats) -> Floats:
    """Return the derivatives of the shear modulus at rest by the constants: a third of the slope of a pull."""
    small = 1e-6  # strain at which a pull is linear to rounding
    return np.asarray(sensitivities(model, parameters, "uniaxial", np.array([1.0 + small]))[0] / (3.0 * small))


def propagated(slopes: Floats, covariance: Floats) -> Floats:
    """Return variances (n,) of what has slopes (n, p) by constants with a covariance (p, p), those on a bound left out."""
    slopes = np.where(np.isfinite(np.diag(covariance)), slopes, 0.0)
    inner = np.where(np.isfinite(covariance), covariance, 0.0)
    return np.asarray(np.einsum("ni,ij,nj->n", slopes, inner, slopes))


def deviation(own: Floats, other: Floats) -> Floats:
    """Return how far the stress of another law is off, at most by the stress itself: beyond its locking it is infinite."""
    off = np.where(np.isfinite(other), other, np.inf) - own
    return np.asarray(np.clip(off, -np.abs(own), np.abs(own)))


def beyond(stretch: Floats, tested: tuple[float, float]) -> Floats:
    """Return ln(stretch / tested stretch) of stretches beyond a range, 0 within, (n,)."""
    low, high = tested
    log = np.log(stretch)
    return np.asarray(np.maximum(0.0, np.maximum(log - math.log(max(high, 1.0)), math.log(min(low, 1.0)) - log)))
