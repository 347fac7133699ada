"""The likelihood of a test: responses, errors of the model, errors of readings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from geosim.apps.condition.discrepancy import Held, Reach
from geosim.apps.condition.response import Response
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import Unknowns
from geosim.arguments import guarded
from geosim.arrays import Floats, number
from geosim.errors import InputError
from geosim.model.tolerances import CONFIDENCE_LEVEL, half_width_factor

SHARE = CONFIDENCE_LEVEL  # of an interval, where none is asked for
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
    bend
        How fast the error grows beyond the test: 0 as a walk, 1 as a walk and its integral (see `discrepancy`).
    """

    size: float = 0.02
    spread: float = 0.7
    reading: float = 0.01
    reading_spread: float = 0.7
    of: Literal["value", "load"] = "value"
    kinds: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    bend: float = 0.3

    def __post_init__(self) -> None:
        for key in ("size", "spread", "reading", "reading_spread"):
            number(getattr(self, key), f"ModelError: {key}", above=0.0)
        number(self.bend, "ModelError: bend", low=0.0)
        if self.of not in ("value", "load"):
            raise InputError(f'ModelError: of = {self.of!r}; use "value" or "load"')

    def kind(self, measure: str) -> str:
        """Return the kind of a measure."""
        return self.kinds.get(measure) or re.sub(r"(_[xyz])?(_mm|_n)?(_\d+)?$", "", measure) or measure


@dataclass(frozen=True)
class Modelled:
    """The response of a measure at loads.

    Parameters
    ----------
    values, change
        Of the measure, and its size less that at rest, (d, n).
    scale
        What a share of 1 of the error of the model means in the unit of the measure, (d, n).
    """

    values: Floats
    change: Floats
    scale: Floats


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

    def modelled(self, z: Floats, loads: Floats, measure: str) -> Modelled:
        """Return the response at loads (n, 2), with its change from rest and what a share of the error means."""
        members = self.members(self.error.kind(measure))
        asked = (measure,) if measure not in members or self.error.of == "load" else members
        found = {m: self.values(z, np.vstack([REST, loads]), m) for m in asked}
        return self._modelled(z, loads, measure, found)

    def _modelled(self, z: Floats, loads: Floats, measure: str, found: Mapping[str, Floats]) -> Modelled:
        """Return the same from values of the kind's measures at rest and at loads, (d, 1 + n) each."""
        values = found[measure]
        if self.error.of == "load":  # not beyond what was solved
            before = self.values(z, (1.0 - LOAD_STEP) * np.vstack([REST, loads]), measure)
            scale = np.abs(values - before)[:, 1:] / LOAD_STEP
        else:
            length = np.sqrt(sum((v[:, 1:] - v[:, :1]) ** 2 for v in found.values()))
            scale = np.maximum(length, LEAST_SCALE * self.change(self.error.kind(measure)))
        return Modelled(values[:, 1:], np.abs(values[:, 1:] - values[:, :1]), scale)

    def change(self, kind: str) -> float:
        """Return the largest change of a kind of measures from rest in the test; 0 where nothing was read of it."""
        return self._changes.get(kind, 0.0)

    @cached_property
    def _changes(self) -> dict[str, float]:
        return {kind: self._change(kind) for kind in self.kinds}

    def _change(self, kind: str) -> float:
        found, middle = [0.0], np.zeros((1, len(self.unknowns.names)))
        for measure in self.members(kind):
            mine = self.rows.of(measure)
            loads, values = self.rows.loads[mine], self.rows.values[mine]
            still = values[~loads.any(axis=1)]
            rest = still[0] if len(still) else self.values(middle, REST, measure)[0, 0]
            found.append(float(np.abs(values - rest).max()))
        return max(found) or 1.0

    def reach(self, measure: str) -> Reach:
        """Return how loads become the variable of the error of a measure."""
        mine = self.rows.of(measure)
        loads = self.rows.loads[mine] if mine.any() else self.rows.loads
        return Reach.of(loads, self.error.apart, self.error.bend)

    def held(self, z: Floats, measure: str) -> Held:
        """Return the error of the model of a measure, held by the test."""
        return self._held(z, measure, self.modelled(z, self.rows.loads[self.rows.of(measure)], measure))

    def _held(self, z: Floats, measure: str, at: Modelled) -> Held:
        mine = self.rows.of(measure)
        loads, values, sigma = self.rows.loads[mine], self.rows.values[mine], self.rows.sigma[mine]
        kind = self.error.kind(measure)
        size, reading = self.sizes(z, kind)
        noise = np.where(np.isnan(sigma), reading[:, None] * self.change(kind), np.nan_to_num(sigma)[None])
        left = self.response.error(measure, loads) * at.change
        mesh = self.mesh(measure) * at.change / at.scale
        return Held.by(self.reach(measure), loads, values - at.values, at.scale, size, noise**2 + left**2, mesh)

    def mesh(self, measure: str) -> float:
        """Return the standard deviation of the share of the mesh; 0 where its bound is not known."""
        return float(np.nan_to_num(self.response.mesh(measure))) / half_width_factor()

    def likelihood(self, z: Floats) -> Floats:
        """Return ln of the density of the test (d,); -inf where the response has no value."""
        total = np.zeros(len(z))
        for kind in self.kinds:
            members = self.members(kind)
            loads = np.unique(np.vstack([self.rows.loads[self.rows.of(m)] for m in members]), axis=0)
            found = {m: self.values(z, np.vstack([REST, loads]), m) for m in members}
            usable = np.all([np.isfinite(values).all(axis=1) for values in found.values()], axis=0)
            total[~usable] = -np.inf
            if not usable.any():
                continue
            for measure in members:
                own = self.rows.loads[self.rows.of(measure)]
                rows = np.r_[0, 1 + np.argmax((own[:, None] == loads[None]).all(axis=2), axis=1)]
                there = {m: values[usable][:, rows] for m, values in found.items()}
                total[usable] += self._held(z[usable], measure, self._modelled(z[usable], own, measure, there)).density
        return total

    def reading(self, z: Floats, measure: str, loads: Floats) -> Floats:
        """Return the standard deviation of readings of a measure at loads (n, 2), (d, n).

        Readings of one series are off by a share of the largest change in it: of the test, or of these loads where it is larger.
        """
        mine, count = self.rows.of(measure), (len(z), len(loads))
        known = self.rows.sigma[mine]
        kind = self.error.kind(measure)
        if mine.any() and np.isfinite(known).any():
            return np.full(count, float(np.nanmedian(known)))
        largest = np.maximum(self.modelled(z, loads, measure).change.max(axis=1), self.change(kind))
        share = self.sizes(z, kind)[1] if kind in self.kinds else np.zeros(len(z))
        return np.broadcast_to((share * largest)[:, None], count)


def as_error(given: Any) -> ModelError:
    """Return the error of a model: itself, or a number as its median size."""
    return given if isinstance(given, ModelError) else ModelError() if given is None else ModelError(size=float(given))
