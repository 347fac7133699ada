"""What draws of a posterior predict: the response, the error of the model held by the test, the error of a reading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geosim.apps.condition.discrepancy import Held, drawn
from geosim.apps.condition.model import Modelled, TestModel
from geosim.arguments import guarded
from geosim.arrays import Floats, frozen, shown
from geosim.errors import InputError
from geosim.model.tolerances import half_width_factor

LOAD_SHARES = np.linspace(-0.6, 0.6, 49)  # ln of loads at which a response is known, around one whose load is off


@guarded
@dataclass(frozen=True)
class Prediction:
    """A measure at some loads, with 95 % intervals.

    Parameters
    ----------
    measure
        Its name.
    loads
        Shape (n, 2), in the unit of the test.
    value, low, high
        Median and ends of the interval, (n,).
    parameter, discrepancy, mesh
        Half-widths by cause, (n,): the unknowns; the error of the model with that of a reading; the mesh, and the fit of the
        response. They add by squares.
    """

    measure: str
    loads: Floats
    value: Floats
    low: Floats
    high: Floats
    parameter: Floats
    discrepancy: Floats
    mesh: Floats

    @property
    def half_width(self) -> Floats:
        """Half of the interval, (n,)."""
        return 0.5 * (self.high - self.low)

    @property
    def terms(self) -> dict[str, Floats]:
        """Half-widths by cause."""
        return {"parameter": self.parameter, "discrepancy": self.discrepancy, "mesh": self.mesh}


@dataclass(frozen=True)
class Predictor:
    """Draws of measures at loads.

    Parameters
    ----------
    model
        Unknowns, response, test, error of the model.
    z
        Draws in units of the priors, (d, dimensions of the model).
    seed
        Of the random numbers.
    """

    model: TestModel
    z: Floats
    seed: int

    @cached_property
    def held(self) -> dict[str, Held]:
        """The error of the model of every measure of the test."""
        return {measure: self.model.held(self.z, measure) for measure in self.model.rows.names}

    def sampled(self, measure: str, loads: Floats, *, readings: bool) -> Floats:
        """Return draws (d, n) of a measure at loads (n, 2), with errors of the model, the mesh, the fit, and of a reading."""
        at = self.model.modelled(self.z, loads, measure)
        rng = np.random.default_rng([self.seed, 77, sum(map(ord, measure))])
        out = self._shifted(measure, loads, at, drawn(*self._shares(measure, loads, at), rng))
        out = out + self.model.response.error(measure, loads) * at.change * rng.standard_normal((len(self.z), 1))
        if readings:
            out = out + self.model.reading(self.z, measure, loads) * rng.standard_normal(out.shape)
        return out

    def predict(self, measure: str, loads: Floats, share: float) -> Prediction:
        """Return a measure at loads (n, 2) with its interval of a share, split by cause."""
        at = self.model.modelled(self.z, loads, measure)
        mean = self._shares(measure, loads, at)[0]
        ends = ends_of(share)
        low, value, high = np.quantile(self.sampled(measure, loads, readings=True), ends, axis=0)
        known = np.quantile(self._shifted(measure, loads, at, mean), ends, axis=0)
        parameter = 0.5 * (known[2] - known[0])
        left = self.model.mesh(measure) * self._of(measure).mesh_open[:, None]
        left = np.hypot(left, self.model.response.error(measure, loads))
        mesh = half_width_factor(share) * np.median(left * at.change, axis=0)
        rest = np.sqrt(np.maximum((0.5 * (high - low)) ** 2 - parameter**2 - mesh**2, 0.0))
        return Prediction(measure, frozen(loads), value, low, high, parameter, rest, mesh)

    def _shares(self, measure: str, loads: Floats, at: Modelled) -> tuple[Floats, Floats]:
        """Return mean (d, n) and covariance (d, n, n) of the error of the model as a share."""
        return self._of(measure).beyond(loads, self.model.mesh(measure) * at.change / at.scale)

    def _of(self, measure: str) -> Held:
        """Return the error of the model of a measure; one without rows is held by nothing."""
        return self.held[measure] if measure in self.held else self.model.held(self.z, measure)

    def _shifted(self, measure: str, loads: Floats, at: Modelled, share: Floats) -> Floats:
        """Return the measure (d, n) with the error of the model as shares (d, n)."""
        if self.model.error.of == "value":
            return at.values + at.scale * share
        beyond = np.exp(LOAD_SHARES[-1]) * float(np.linalg.norm(loads, axis=1).max())
        factors = LOAD_SHARES if beyond <= self.model.response.reach(measure) else LOAD_SHARES[LOAD_SHARES <= 0.0]
        out = np.empty(share.shape)
        for i, load in enumerate(loads):
            near = self.model.values(self.z, np.exp(factors)[:, None] * load, measure)
            steep = (near[:, -1] - near[:, -2]) / (factors[-1] - factors[-2])
            inside = np.clip(share[:, i], factors[0], factors[-1])
            out[:, i] = [np.interp(g, factors, row) for g, row in zip(inside, near)]
            out[:, i] += steep * np.maximum(share[:, i] - factors[-1], 0.0)
        return out

    @cached_property
    def left_over(self) -> dict[str, float]:
        """Root mean square of the error of the model over the test, as a share: the median of the draws, of every measure."""
        means = {measure: held.beyond(held.loads, held.mesh)[0] for measure, held in self.held.items()}
        return {measure: float(np.median(np.sqrt(np.mean(mean**2, axis=1)))) for measure, mean in means.items()}


def ends_of(share: float) -> list[float]:
    """Return the quantiles of the lower end, the middle and the upper end of an interval."""
    return [0.5 - 0.5 * share, 0.5, 0.5 + 0.5 * share]


def as_loads(at: Any) -> Floats:
    """Return loads (n, 2) of a number, numbers (n,) or pairs (n, 2)."""
    try:
        given = np.asarray(at, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"at = {shown(at)} must be a load, loads (n,) or pairs (n, 2)") from None
    given = np.atleast_1d(given)
    if given.ndim == 1:
        given = np.column_stack([given, np.zeros(len(given))])
    if given.ndim != 2 or given.shape[1] != 2 or not np.isfinite(given).all() or not len(given):
        raise InputError(f"at has the shape {np.shape(at)}; give a load, loads (n,) or pairs (n, 2), all finite")
    return given
