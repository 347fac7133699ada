"""Posteriors: what a test leaves open, and whether the model holds. Predictions are made in `prediction`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from geosim.apps.condition.keeping import POSTERIOR, kept, read
from geosim.apps.condition.model import SHARE, TestModel
from geosim.apps.condition.next_test import NextTest, next_tests
from geosim.apps.condition.picture import pairs
from geosim.apps.condition.prediction import Prediction, Predictor, as_loads, ends_of
from geosim.arguments import guarded
from geosim.arrays import Floats, frozen, number
from geosim.errors import InputError
from geosim.files.npz import write_npz
from geosim.writing import checked_target, replacing

if TYPE_CHECKING:
    import pandas

LEAST_EFFECTIVE = 50.0  # draws: fewer tell the ends of a 95 % interval no better than within a fifth of its width


@guarded
@dataclass(frozen=True)
class Trend:
    """How far the residuals of a measure are from what its model error allows.

    Parameters
    ----------
    measure
        Its name.
    share
        Root mean square of the error of the model over the test, as a share of the change from rest.
    limit
        Largest share of a robot that is in the class of the model.
    """

    measure: str
    share: float
    limit: float


@guarded
@dataclass(frozen=True)
class Posterior:
    """Draws of what a test leaves open.

    Parameters
    ----------
    model
        Unknowns, response, test, error of the model.
    z
        Draws in units of the priors, (d, dimensions of the model).
    evidence
        ln of the probability density of the test under the model.
    effective
        Effective number of draws.
    seed
        Of the random numbers.
    limit
        Share of the model's error from which on a robot is not in the class of the model.
    """

    model: TestModel
    z: Floats
    evidence: float
    effective: float
    seed: int = 0
    limit: float = 0.12

    @property
    def names(self) -> tuple[str, ...]:
        """The unknowns."""
        return self.model.unknowns.names

    @cached_property
    def draws(self) -> dict[str, Floats]:
        """Values (d,) of every unknown."""
        found = self.model.unknowns.values(self.z[:, : len(self.names)])
        return {name: frozen(values) for name, values in found.items()}

    def interval(self, name: str, share: float = SHARE) -> tuple[float, float, float]:
        """Return the lower end, the median and the upper end of an unknown."""
        if name not in self.names:
            raise InputError(f"unknown {name!r} is none of {', '.join(self.names)}")
        low, middle, high = np.quantile(self.draws[name], ends_of(share)).tolist()
        return low, middle, high

    # What is predicted

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.model, self.z, self.seed)

    def sampled(self, measure: str, at: Any, readings: bool = True) -> Floats:
        """Return draws (d, n) of a measure at loads, with the error of the model and, by default, of a reading.

        Parameters
        ----------
        measure
            Its name.
        at
            A load, loads (n,), or pairs of loads (n, 2), in the unit of the test.
        readings
            Whether the error of a reading is part of it.
        """
        return self._predictor.sampled(measure, as_loads(at), readings=readings)

    def predict(self, measure: str, at: Any, share: float = SHARE) -> Prediction:
        """Return a measure at loads with its interval, split by cause.

        Parameters
        ----------
        measure
            Its name.
        at
            A load, loads (n,), or pairs of loads (n, 2), in the unit of the test.
        share
            Of the interval.

        Raises
        ------
        InputError
            The measure or a load was not solved.
        """
        share = number(share, "predict: share", above=0.0, high=1.0)
        return self._predictor.predict(measure, as_loads(at), share)

    def reached(self, measure: str, at: Any, share: float = SHARE) -> Floats:
        """Return the value that a share of the draws reaches at loads, (n,): a robust goal to maximise.

        Parameters
        ----------
        measure, at
            As in `predict`.
        share
            Of the draws.
        """
        share = number(share, "reached: share", above=0.0, high=1.0)
        return np.asarray(np.quantile(self.sampled(measure, at, readings=False), 1.0 - share, axis=0))

    def load_for(self, measure: str, target: float, at: Any, share: float = SHARE) -> tuple[float, float, float]:
        """Return the load at which a measure reaches a target: the lower end, the median, the upper end of its interval.

        Parameters
        ----------
        measure
            Its name.
        target
            In the unit of the measure.
        at
            Increasing loads (n,) between which it is reached.
        share
            Of the interval.

        Raises
        ------
        InputError
            Most of the draws do not reach the target between these loads.
        """
        loads = as_loads(at)
        found = self.sampled(measure, loads, readings=False)
        x, crossing = loads[:, 0], np.full(len(found), np.nan)
        for i, row in enumerate(found):
            passed = np.flatnonzero((row[:-1] - target) * (row[1:] - target) <= 0.0)
            if len(passed):
                k = passed[0]
                way = (target - row[k]) / (row[k + 1] - row[k]) if row[k + 1] != row[k] else 0.0
                crossing[i] = x[k] + way * (x[k + 1] - x[k])
        missed = float(np.isnan(crossing).mean())
        if missed > 1.0 - share:
            raise InputError(
                f"{measure} = {target:g} is not reached by {100 * missed:.0f} % of the draws between the loads {x[0]:g} and "
                f"{x[-1]:g}; widen at="
            )
        low, middle, high = np.nanquantile(crossing, ends_of(share)).tolist()
        return low, middle, high

    # Whether the model holds

    @cached_property
    def trends(self) -> tuple[Trend, ...]:
        """What is left over of every measure of the test, the largest first."""
        found = [Trend(measure, share, self.limit) for measure, share in self._predictor.left_over.items()]
        return tuple(sorted(found, key=lambda trend: -trend.share))

    @property
    def in_class(self) -> bool:
        """Whether the model with some values of the unknowns explains the test."""
        return self.effective >= LEAST_EFFECTIVE and all(t.share <= t.limit for t in self.trends)

    @property
    def verdict(self) -> str:
        """One sentence: whether this robot is in the model class, and the measure that shows it where it is not."""
        worst = self.trends[0]
        if worst.share > worst.limit:
            return (
                f"this robot is not in the model class: {worst.measure} differs from every draw by {100 * worst.share:.0f} % "
                f"of its change, {100 * worst.limit:.0f} % are allowed"
            )
        if self.effective < LEAST_EFFECTIVE:
            return (
                f"this robot is not in the model class: {self.effective:.0f} effective draws remain, and {worst.measure} differs "
                f"most ({100 * worst.share:.0f} % of its change); widen the unknowns or take more draws"
            )
        return f"this robot is in the model class: {worst.measure} differs most, by {100 * worst.share:.1f} % of its change"

    def next_test(self, candidates: Iterable[tuple[str, Any]], of: tuple[str, Any]) -> list[NextTest]:
        """Return the light tests among candidates with the bars that they are expected to leave, the narrowest first.

        Parameters
        ----------
        candidates
            (measure, load) each.
        of
            (measure, load) that is wanted.
        """
        return next_tests(self._predictor, candidates, of)

    # What others take

    @property
    def parameters(self) -> dict[str, float]:
        """Medians of the unknowns, as `error_bars(material=posterior)` takes them; `material.c1` is c1 there."""
        return {_constant(name): self.interval(name)[1] for name in self.names}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals of the unknowns."""
        return {_constant(name): self.interval(name)[::2] for name in self.names}

    @property
    def correlations(self) -> Floats:
        """Correlations of the unknowns (p, p)."""
        return np.atleast_2d(np.corrcoef(np.array(list(self.draws.values()))))

    @property
    def confidence(self) -> float:
        """Level of the intervals."""
        return SHARE

    def ratios(self, at: Mapping[str, Any]) -> pandas.DataFrame:
        """Return what the robot does over what its model does at the medians of the priors: a measure a column, a draw a row.

        It is the file `draws` of a search: its goals are then what a share of the robots reaches, if new robots differ from their
        designs as this one does.

        Parameters
        ----------
        at
            Measure -> load.
        """
        import pandas as pd

        found, middle = {}, np.zeros((1, self.z.shape[1]))
        for measure, load in at.items():
            loads = as_loads(load)[:1]
            design = float(self.model.values(middle, loads, measure)[0, 0])
            ratio = self.sampled(measure, loads, readings=False)[:, 0] / (design or np.nan)
            if not (ratio > 0.0).all():
                raise InputError(f"ratios: {measure} at {loads[0, 0]:g} is not of one sign; take a larger load")
            found[measure] = ratio
        return pd.DataFrame(found)

    def table(self, count: int = 100) -> pandas.DataFrame:
        """Return evenly picked draws, one a row, one unknown a column: the designs.csv of a study with method = "list"."""
        import pandas as pd

        picked = np.linspace(0, len(self.z) - 1, min(count, len(self.z))).astype(int)
        return pd.DataFrame({name: values[picked] for name, values in self.draws.items()})

    def plot(self, path: str | Path) -> Path:
        """Draw the unknowns against each other, the prior's range as axes; the path is returned."""
        return pairs(self.draws, self.model.unknowns.priors, checked_target(path, ".png", ".pdf", ".svg"))

    def save(self, path: str | Path) -> Path:
        """Write the posterior as .npz; its path is returned.

        Raises
        ------
        InputError
            The response is a function, which no file holds.
        """
        path = checked_target(path, ".npz")
        about = kept(self.model, self.z, (self.evidence, self.effective, self.seed, self.limit))
        with replacing(path) as beside, beside.open("wb") as file:
            write_npz(file, POSTERIOR, *about)
        return path

    @staticmethod
    def load(path: str | Path) -> Posterior:
        """Read a posterior that `save` wrote.

        Raises
        ------
        InputError
            The file is missing or damaged.
        """
        model, z, (evidence, effective, seed, limit) = read(Path(path))
        return Posterior(model, z, evidence, effective, seed, limit)


def _constant(name: str) -> str:
    return name.rpartition(".")[2] if name.startswith("material.") else name


def averaged(posteriors: Mapping[str, Posterior], of: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the weights of models of one test: by their evidence, or by ln of densities of rows that were left out.

    Parameters
    ----------
    posteriors
        Name -> posterior.
    of
        Name -> ln of the predictive density of left-out rows; rows of a kind of load that no model has seen decide between
        models, rows of the kind that all were fitted to do not.
    """
    if not posteriors:
        raise InputError("averaged: no posterior; give {name: posterior}")
    known = [p.evidence if of is None else of[name] for name, p in posteriors.items()]
    return dict(zip(posteriors, softmax(known).tolist()))
