"""The likelihood of a test: responses, errors of the model, errors of readings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from geosim.apps.condition.discrepancy import Held, Reach
from geosim.apps.condition.response import Response
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import Unknowns
from geosim.arguments import guarded
from geosim.arrays import Floats, number
from geosim.errors import InputError

REST = np.zeros((1, 2))
LOAD_STEP = 0.01  # of ln of the load, for the slope of a response
LEAST_SCALE = 0.02  # of the largest change of a kind of measures: below it an error is no share of the change any more


@guarded
@dataclass(frozen=True)
class ModelError:
    """What a model may be off, and what readings may be off, before the test is seen.

    Parameters
    ----------
    size
        Median of sigma, the error at the largest load of the test as a share of the change from rest.
    spread
        Standard deviation of ln sigma.
    reading
        Median of the standard deviation of one reading, over the largest change in the test; rows with a sigma of their own
        have that.
    reading_spread
        Standard deviation of its ln.
    of
        "value": the error is a share of the measure. "load": it is a share of the load at which the measure is reached, which
        near a limit point is the smaller one.
    kinds
        Measure -> name of its kind, whose measures share sigma and a length of change. Default: names without a trailing
        _x, _y, _z or number.
    apart
        Whether every load has an error of its own: loads are numbers of poses, not points of a path.
    """

    size: float = 0.02
    spread: float = 0.7
    reading: float = 0.01
    reading_spread: float = 0.7
    of: Literal["value", "load"] = "value"
    kinds: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False

    def __post_init__(self) -> None:
        for key in ("size", "spread", "reading", "reading_spread"):
            number(getattr(self, key), f"ModelError: {key}", above=0.0)
        if self.of not in ("value", "load"):
            raise InputError(f'ModelError: of = {self.of!r}; use "value" or "load"')

    def kind(self, measure: str) -> str:
        """Return the kind of a measure."""
        return self.kinds.get(measure) or re.sub(r"(_[xyz])?(_mm|_n)?(_\d+)?$", "", measure) or measure


@dataclass(frozen=True)
class TestModel:
    """Unknowns, a response and a test.

    Draws z (d, p + 2 k) are standard normal numbers: p unknowns, then of each of k kinds sigma and the error of a reading.
    """

    __test__ = False

    unknowns: Unknowns
    response: Response
    rows: TestRows
    error: ModelError = field(default_factory=ModelError)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the measures of the test."""
        return tuple(dict.fromkeys(self.error.kind(m) for m in self.rows.names))

    @property
    def dimensions(self) -> int:
        """Length of z."""
        return len(self.unknowns.names) + 2 * len(self.kinds)

    def members(self, kind: str) -> tuple[str, ...]:
        """Return the measures of the test of a kind."""
        return tuple(m for m in self.rows.names if self.error.kind(m) == kind)

    def sizes(self, z: Floats, kind: str) -> tuple[Floats, Floats]:
        """Return sigma, and the error of a reading over the largest change, of a kind (d,)."""
        if kind not in self.kinds:  # nothing was read of it: what is known beforehand
            return np.full(len(z), self.error.size), np.full(len(z), self.error.reading)
        k = len(self.unknowns.names) + 2 * self.kinds.index(kind)
        error = self.error
        return error.size * np.exp(error.spread * z[:, k]), error.reading * np.exp(error.reading_spread * z[:, k + 1])

    def values(self, z: Floats, loads: Floats, measure: str) -> Floats:
        """Return the response (d, n) at loads (n, 2)."""
        return self.response(self.unknowns, z[:, : len(self.unknowns.names)], loads, measure)

    def scale(self, z: Floats, loads: Floats, measure: str) -> Floats:
        """Return what a share of 1 of the error means in the unit of a measure, (d, n)."""
        if self.error.of == "load":
            near = [self.values(z, s * loads, measure) for s in (1.0 - LOAD_STEP, 1.0)]  # not beyond what was solved
            return np.asarray(np.abs(near[1] - near[0]) / LOAD_STEP)
        members = self.members(self.error.kind(measure))
        found = {
            m: self.values(z, np.vstack([REST, loads]), m) for m in (members if measure in members else (measure,))
        }
        return self._length(found, measure)

    def _length(self, found: Mapping[str, Floats], measure: str) -> Floats:
        """Return the length of the change (d, n) of the measures of a kind from rest; values at rest, then at loads."""
        whole = np.sqrt(sum((values[:, 1:] - values[:, :1]) ** 2 for values in found.values()))
        return np.asarray(np.maximum(whole, LEAST_SCALE * self.change(self.error.kind(measure))))

    def change(self, kind: str) -> float:
        """Return the largest change of a kind of measures from rest in the test; 0 where nothing was read of it."""
        return self._changes.get(kind, 0.0)

    @cached_property
    def _changes(self) -> dict[str, float]:
        return {kind: self._change(kind) for kind in self.kinds}

    def _change(self, kind: str) -> float:
        found = [0.0]
        for measure in self.members(kind):
            mine = self.rows.of(measure)
            loads, values = self.rows.loads[mine], self.rows.values[mine]
            still = values[~loads.any(axis=1)]
            found.append(float(np.abs(values - (still[0] if len(still) else np.median(self._rest(measure)))).max()))
        return max(found) or 1.0

    @cached_property
    def _rests(self) -> dict[str, Floats]:
        middle = np.zeros((1, len(self.unknowns.names)))
        return {m: self.response(self.unknowns, middle, REST, m)[0] for m in self.rows.names}

    def _rest(self, measure: str) -> Floats:
        return self._rests[measure]

    def held(self, z: Floats, measure: str) -> Held:
        """Return the error of the model of a measure, held by the test."""
        loads = self.rows.loads[self.rows.of(measure)]
        return self._held(z, measure, self.values(z, loads, measure), self.scale(z, loads, measure))

    def _held(self, z: Floats, measure: str, modelled: Floats, scale: Floats) -> Held:
        mine = self.rows.of(measure)
        loads, values, sigma = self.rows.loads[mine], self.rows.values[mine], self.rows.sigma[mine]
        kind = self.error.kind(measure)
        size, reading = self.sizes(z, kind)
        noise = np.where(np.isnan(sigma), reading[:, None] * self.change(kind), np.nan_to_num(sigma)[None])
        left = self.response.error(measure, loads) * scale
        return Held.by(
            Reach.of(loads, self.error.apart),
            loads,
            values - modelled,
            scale,
            size,
            noise**2 + left**2,
            self.mesh(measure),
        )

    def mesh(self, measure: str) -> float:
        """Return the standard deviation of the share of the mesh; 0 where its bound is not known."""
        return float(np.nan_to_num(self.response.mesh(measure))) / half_width_factor()

    def likelihood(self, z: Floats) -> Floats:
        """Return ln of the density of the test (d,); -inf where the response has no value."""
        total = np.zeros(len(z))
        for kind in self.kinds:
            members = self.members(kind)
            for measure in members:
                loads = self.rows.loads[self.rows.of(measure)]
                found = {m: self.values(z, np.vstack([REST, loads]), m) for m in members}
                usable = np.all([np.isfinite(values).all(axis=1) for values in found.values()], axis=0)
                total[~usable] = -np.inf
                if not usable.any():
                    continue
                scale = self._length(found, measure) if self.error.of == "value" else self.scale(z, loads, measure)
                held = self._held(z[usable], measure, found[measure][usable, 1:], scale[usable])
                total[usable] += held.density
        return total

    def reading(self, z: Floats, measure: str) -> Floats:
        """Return the standard deviation of one reading of a measure (d,)."""
        mine = self.rows.of(measure)
        known = self.rows.sigma[mine]
        kind = self.error.kind(measure)
        if mine.any() and np.isfinite(known).any():
            return np.full(len(z), float(np.nanmedian(known)))
        return self.sizes(z, kind)[1] * (self.change(kind) if kind in self.kinds else 0.0)


def half_width_factor(share: float = 0.95) -> float:
    """Return the half-width of an interval of a normal, over its standard deviation."""
    return float(ndtri(0.5 + 0.5 * share))


def as_error(given: Any) -> ModelError:
    """Return the error of a model: itself, or a number as its median size."""
    return given if isinstance(given, ModelError) else ModelError() if given is None else ModelError(size=float(given))
