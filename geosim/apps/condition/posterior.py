"""Posteriors: what a test leaves open, what it predicts, and which test to do next."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.apps.condition.discrepancy import Held, Reach, drawn
from geosim.apps.condition.keeping import kept, read
from geosim.apps.condition.model import REST, TestModel, half_width_factor
from geosim.apps.condition.picture import pairs
from geosim.apps.condition.rows import COLUMNS
from geosim.arguments import guarded
from geosim.arrays import Floats, frozen, number, shown
from geosim.errors import InputError
from geosim.writing import checked_target, replacing

if TYPE_CHECKING:
    import pandas

LEAST_EFFECTIVE = 50.0  # draws: fewer tell the ends of a 95 % interval no better than within a fifth of its width
ENDS = (0.025, 0.5, 0.975)


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
        response. They add by squares; the fit is added to their sum.
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
class NextTest:
    """What a candidate test would do to the bar of a wanted measure.

    Parameters
    ----------
    measure, load
        The candidate.
    half_width
        Of the wanted measure now, and as it is expected after the test.
    """

    measure: str
    load: tuple[float, float]
    half_width: tuple[float, float]

    @property
    def narrowing(self) -> float:
        """Expected half-width over the present one."""
        return self.half_width[1] / self.half_width[0]


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

    def interval(self, name: str, share: float = 0.95) -> tuple[float, float, float]:
        """Return the lower end, the median and the upper end of an unknown."""
        if name not in self.names:
            raise InputError(f"unknown {name!r} is none of {', '.join(self.names)}")
        low, middle, high = np.quantile(self.draws[name], [0.5 - 0.5 * share, 0.5, 0.5 + 0.5 * share])
        return float(low), float(middle), float(high)

    # What is predicted

    def _rng(self, extra: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, 77, extra])

    @cached_property
    def _held_by(self) -> dict[str, Held]:
        return {measure: self.model.held(self.z, measure) for measure in self.model.rows.names}

    def _shares(self, measure: str, loads: Floats) -> tuple[Floats, Floats]:
        """Return mean (d, n) and covariance (d, n, n) of the error of the model as a share."""
        held = self._held_by.get(measure)
        if held is not None:
            return held.beyond(loads)
        size = self.model.sizes(self.z, self.model.error.kind(measure))[0]
        reach = Reach.of(self.model.rows.loads, self.model.error.apart)
        own = (size**2)[:, None, None] * reach.covariance(loads, loads) + self.model.mesh(measure) ** 2
        return np.zeros((len(self.z), len(loads))), own

    def _shifted(self, measure: str, loads: Floats, plain: Floats, share: Floats) -> Floats:
        """Return the measure (d, n) with the error of the model as shares (d, n)."""
        if self.model.error.of == "value":
            return plain + self.model.scale(self.z, loads, measure) * share
        factors = np.linspace(-0.6, 0.0, 25) if self._ends(measure, loads) else np.linspace(-0.6, 0.6, 49)
        out = np.empty(plain.shape)
        for i, load in enumerate(loads):
            near = self.model.values(self.z, np.exp(factors)[:, None] * load, measure)
            steep = (near[:, -1] - near[:, -2]) / (factors[-1] - factors[-2])
            inside = np.clip(share[:, i], factors[0], factors[-1])
            out[:, i] = [np.interp(g, factors, row) for g, row in zip(inside, near)]
            out[:, i] += steep * np.maximum(share[:, i] - factors[-1], 0.0)
        return out

    def _ends(self, measure: str, loads: Floats) -> bool:
        """Whether the response is not known at larger loads."""
        try:
            self.model.values(self.z[:1], np.exp(0.6) * loads, measure)
        except InputError:
            return True
        return False

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
        loads = as_loads(at)
        mean, covariance = self._shares(measure, loads)
        rng = self._rng(sum(map(ord, measure)))
        share = drawn(mean, covariance, rng)
        out = self._shifted(measure, loads, self.model.values(self.z, loads, measure), share)
        if readings:
            out = out + self.model.reading(self.z, measure)[:, None] * rng.standard_normal(out.shape)
        return out

    def predict(self, measure: str, at: Any, share: float = 0.95) -> Prediction:
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
        loads = as_loads(at)
        mean = self._shares(measure, loads)[0]
        plain = self.model.values(self.z, loads, measure)
        certain = self._shifted(measure, loads, plain, mean)
        whole = self.sampled(measure, loads)
        ends = [0.5 - 0.5 * share, 0.5, 0.5 + 0.5 * share]
        low, value, high = np.quantile(whole, ends, axis=0)
        known = np.quantile(certain, ends, axis=0)
        parameter = 0.5 * (known[2] - known[0])
        held, change = self._held_by.get(measure), np.abs(plain - self.model.values(self.z, REST, measure))
        left = self.model.mesh(measure) if held is None else held.mesh_left[:, None]
        mesh = half_width_factor(share) * np.median(left * change, axis=0)
        rest = np.sqrt(np.maximum((0.5 * (high - low)) ** 2 - parameter**2 - mesh**2, 0.0))
        fit = half_width_factor(share) * self.model.response.error(measure, loads) * np.median(change, axis=0)
        return Prediction(measure, frozen(loads), value, low - fit, high + fit, parameter, rest, mesh + fit)

    def reached(self, measure: str, at: Any, share: float = 0.95) -> Floats:
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

    def load_for(self, measure: str, target: float, at: Any, share: float = 0.95) -> tuple[float, float, float]:
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
        low, middle, high = np.nanquantile(crossing, [0.5 - 0.5 * share, 0.5, 0.5 + 0.5 * share])
        return float(low), float(middle), float(high)

    # Whether the model holds

    @cached_property
    def trends(self) -> tuple[Trend, ...]:
        """What is left over of every measure of the test, the largest first."""
        found = []
        for measure, held in self._held_by.items():
            mean = held.beyond(held.loads)[0]
            found.append(Trend(measure, float(np.median(np.sqrt(np.mean(mean**2, axis=1)))), self.limit))
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

    # Which test next

    def next_test(self, candidates: Iterable[tuple[str, Any]], of: tuple[str, Any]) -> list[NextTest]:
        """Return the candidates with the bars that they are expected to leave, the narrowest first.

        The expected variance of the wanted measure after a reading is what a quadratic in that reading leaves of it over the
        draws [Strong, Oakley, Brennan 2014, Med. Decis. Making 34(3)].

        Parameters
        ----------
        candidates
            (measure, load) each.
        of
            (measure, load) that is wanted.
        """
        listed = [(str(m), as_loads(load)[0]) for m, load in candidates]
        if not listed:
            raise InputError("next_test: no candidate; give (measure, load) pairs")
        wanted, target = str(of[0]), as_loads(of[1])[0]
        alone = self.sampled(wanted, target[None], readings=False)[:, 0]
        now, out = half_width_factor() * float(alone.std()), []
        for measure, load in listed:
            if measure == wanted:  # one error of the model for both
                goal, seen = self.sampled(wanted, np.array([target, load]), readings=False).T
            else:
                goal, seen = alone, self.sampled(measure, load[None], readings=False)[:, 0]
            seen = seen + self.model.reading(self.z, measure) * self._rng(7).standard_normal(len(seen))
            x = (seen - seen.mean()) / (seen.std() or 1.0)
            basis = np.column_stack([np.ones_like(x), x, x**2])
            left = goal - basis @ np.linalg.lstsq(basis, goal, rcond=None)[0]
            share = np.sqrt(np.sum(left**2) / (len(left) - basis.shape[1])) / (goal.std() or 1.0)
            out.append(NextTest(measure, (float(load[0]), float(load[1])), (now, now * min(float(share), 1.0))))
        return sorted(out, key=lambda test: test.half_width[1])

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
        return 0.95

    def table(self, count: int = 100) -> pandas.DataFrame:
        """Return evenly picked draws, one a row, one unknown a column: the designs.csv of a study with method = "list"."""
        import pandas as pd

        picked = np.linspace(0, len(self.z) - 1, min(count, len(self.z))).astype(int)
        return pd.DataFrame({name: values[picked] for name, values in self.draws.items()})

    def rows(self, measure: str, at: Any, unit: str = "") -> list[dict[str, Any]]:
        """Return predictions as rows of a table: robot, load_1, load_2, measure, unit, value, low, high."""
        found = self.predict(measure, at)
        plane = bool(found.loads[:, 1].any())
        return [
            dict(
                zip((*COLUMNS, "low", "high"), (self.model.rows.robot, a, b if plane else "", measure, unit, v, lo, hi))
            )
            for (a, b), v, lo, hi in zip(
                found.loads.tolist(), *(x.tolist() for x in (found.value, found.low, found.high))
            )
        ]

    def lines(self, of: str | None = None, at: Any = None) -> list[str]:
        """Return five lines: verdict, draws, the narrowest and the widest unknown, and the prediction that was asked for."""
        worst = sorted(self.names, key=lambda n: -float(np.var(self.z[:, self.names.index(n)])))
        told = [self.verdict, f"{self.effective:.0f} effective draws of {len(self.z)}, ln evidence {self.evidence:.2f}"]
        for word, name in (("least known", worst[0]), ("best known", worst[-1])):
            low, middle, high = self.interval(name)
            told.append(f"{word}: {name} {middle:.4g} [{low:.4g}, {high:.4g}]")
        if of is not None:
            found = self.predict(of, at)
            terms = ", ".join(f"{name} {float(v[-1]):.3g}" for name, v in found.terms.items())
            told.append(
                f"{of} at {found.loads[-1, 0]:g}: {found.value[-1]:.4g} [{found.low[-1]:.4g}, {found.high[-1]:.4g}]; {terms}"
            )
        return told

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
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez_compressed(
                file, **kept(self.model, self.z, (self.evidence, self.effective, self.seed, self.limit))
            )
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
        return Posterior(model, z, evidence, effective, int(seed), limit)


def _constant(name: str) -> str:
    return name.rpartition(".")[2] if name.startswith("material.") else name


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


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of predictions as a CSV."""
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, [*COLUMNS, "low", "high"], lineterminator="\n")
        out.writeheader()
        out.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


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
    known = {name: p.evidence if of is None else of[name] for name, p in posteriors.items()}
    top = max(known.values())
    weights = {name: float(np.exp(v - top)) for name, v in known.items()}
    total = sum(weights.values())
    return {name: w / total for name, w in weights.items()}
