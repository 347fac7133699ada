"""Bayesian optimisation: designs proposed by Gaussian processes of goals, constraints and failures, their gradients included.

The distance from a target has a kink where it is least, the measure itself is smooth there. So measures are learned, what
they say of a new design is drawn from their processes, and the goals are computed of the draws. Of some thousand designs the
one is proposed that promises the largest improvement [Jones1998], times the probability that it is feasible [Gardner2014].
Several goals are made one: every other design is for the order in which `goals.best` decides, the rest for
the Pareto front, with weights that change from design to design [Knowles2006]. Designs that are being solved count as
solved as the processes expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna import Study as Trials
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from geosim.apps.study.goals import Constraint, DesignGoal, spoken_of
from geosim.apps.study.job import CONFIRMED_ATTRIBUTE, MEASURES_ATTRIBUTE, SLOPES_ATTRIBUTE
from geosim.apps.study.processes import fitted
from geosim.apps.study.sampling import Axis, Row
from geosim.arrays import Bools, Floats


def asked(trials: Trials, axes: Sequence[Axis]) -> tuple[FrozenTrial, Row]:
    """Return a new trial, and the values that it proposes."""
    trial: Any = trials.ask({axis.key: _space(axis) for axis in axes})
    return trial, {
        axis.key: axis.ordered[trial.params[axis.key]] if axis.values else trial.params[axis.key] for axis in axes
    }


def _space(axis: Axis) -> BaseDistribution:
    if not axis.values:
        return FloatDistribution(axis.low, axis.high)
    count = len(axis.values)
    return IntDistribution(0, count - 1) if axis.counted else CategoricalDistribution(range(count))


class Proposer(BaseSampler):
    """Proposes designs to Optuna.

    Parameters
    ----------
    axes, goals, constraints
        Of the study.
    seed
        Of all that is drawn.
    """

    def __init__(
        self, axes: Sequence[Axis], goals: Sequence[DesignGoal], constraints: Sequence[Constraint], seed: int
    ) -> None:
        self._axes, self._goals, self._constraints, self._seed = axes, goals, constraints, seed
        self._columns = tuple(spoken_of(goals, constraints))

    def infer_relative_search_space(self, study: Trials, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the space of all that is varied."""
        return {axis.key: _space(axis) for axis in self._axes}

    def sample_independent(self, study: Trials, trial: FrozenTrial, name: str, space: BaseDistribution) -> Any:
        """Refuse: everything is proposed at once."""
        raise ValueError(f"{name!r} is not varied")

    def sample_relative(self, study: Trials, trial: FrozenTrial, space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the values of a new design."""
        trials = study.get_trials(deepcopy=False)
        told = [t for t in trials if t.state is TrialState.COMPLETE and MEASURES_ATTRIBUTE in t.user_attrs]
        sloped = any(set(self._columns) <= json.loads(t.user_attrs.get(SLOPES_ATTRIBUTE, "{}")).keys() for t in told)
        # Designs that fill the space before anything is guessed. Values and slopes of two say as much of a dimension as a
        # parabola needs; a choice has no slope.
        choices = sum(bool(axis.values) for axis in self._axes)
        first_designs, first_sloped_designs = 8, 2
        if len(told) < (min(first_sloped_designs + choices, first_designs) if sloped else first_designs):
            from scipy.stats import qmc

            filling = qmc.Sobol(len(self._axes), rng=np.random.default_rng(self._seed))
            shares = filling.random_base2(trial.number.bit_length())[trial.number]  # whole powers of two fill it evenly
        else:
            rng = np.random.default_rng((self._seed, trial.number))
            running = [t for t in trials if t.state is TrialState.RUNNING and len(t.params) == len(self._axes)]
            confirmed = study.user_attrs.get(CONFIRMED_ATTRIBUTE, "{}")
            shares = self._promising(told, running, trial.number, rng, confirmed)
        return {axis.key: self._value(axis, share) for axis, share in zip(self._axes, shares)}

    def _promising(
        self,
        told: Sequence[FrozenTrial],
        running: Sequence[FrozenTrial],
        number: int,
        rng: np.random.Generator,
        confirmed: str,
    ) -> Floats:
        """Shares (p,) of the design that promises most."""
        shares = np.array([self._shares(t.params) for t in told])
        rows = [json.loads(t.user_attrs[MEASURES_ATTRIBUTE]) for t in told]
        columns = self._columns
        values = np.array([[np.nan if row.get(c) is None else row[c] for c in columns] for row in rows], dtype=float)
        known = np.isfinite(values).all(axis=1)
        if not known.any():
            return rng.random(len(self._axes))
        values = values + _corrections(confirmed, columns)
        slopes = [self._slopes(told, column)[known] for column in columns]
        scalar = self._scalar(dict(zip(columns, values[known].T)), number, rng)
        cost, able = scalar(dict(zip(columns, values[known].T)))
        order = np.lexsort([cost, ~able])
        candidates = self._candidates(shares[known][order[:4]], rng)
        seen = np.array([*shares, *(self._shares(t.params) for t in running)])
        fresh = (np.abs(candidates[:, None] - seen).max(axis=2) > 1e-9).all(axis=1)
        candidates = candidates[fresh] if fresh.any() else candidates
        pending = self._features(seen[len(shares) :])
        at, features = self._features(candidates), self._features(shares)
        drawn = {}
        posterior_draws = 64  # of the measures of a design
        for column, value, slope in zip(columns, values[known].T, slopes):
            mean, deviation = _learned(features[known], value, pending, at, slope)
            drawn[column] = mean + deviation * rng.standard_normal((posterior_draws, 1))
        costs, feasible = scalar(drawn)
        chance = feasible.mean(axis=0)
        if not known.all():
            chance = chance * np.clip(_learned(features, known.astype(float), pending, at)[0], 0.0, 1.0)
        if not able.any():
            return np.asarray(candidates[np.argmax(chance)])
        gain = np.maximum(cost[able].min() - costs, 0.0).mean(axis=0)
        return np.asarray(candidates[np.argmax(gain * chance)])

    def _slopes(self, told: Sequence[FrozenTrial], column: str) -> Floats:
        """Derivatives (d, f) of a measure by the features, nan where they are not known."""
        rows = []
        for trial in told:
            given = json.loads(trial.user_attrs.get(SLOPES_ATTRIBUTE, "{}")).get(column, {})
            row: list[float] = []
            for axis in self._axes:
                slope = given.get(axis.key, np.nan) * (axis.high - axis.low)
                row += [slope] if not axis.values or axis.counted else [np.nan] * len(axis.values)
            rows.append(row)
        return np.array(rows, dtype=float)

    def _scalar(self, measures: Mapping[str, Floats], number: int, rng: np.random.Generator) -> Any:
        """Return the function of measures that gives one cost and feasibility, of the same shape."""
        costs = np.array([goal.cost(measures) for goal in self._goals])
        low, span = costs.min(axis=1), np.maximum(np.ptp(costs, axis=1), 1e-12)
        first = number % 2 == 0
        # what all of the next goal's range counts beside that of the first: enough to decide among equals
        next_goal = 0.02
        weights = (
            np.append(1.0, np.full(len(self._goals) - 1, next_goal)) if first else rng.dirichlet(np.ones(len(low)))
        )

        tchebycheff_share = 0.05  # share of the weighted sum in the augmented Tchebycheff norm [Knowles2006]

        def scalar(measures: Mapping[str, Floats]) -> tuple[Floats, Bools]:
            cost = [np.asarray(goal.cost(measures)) for goal in self._goals]
            if first and len(cost) > 1:
                cost[0] = np.maximum(cost[0], self._goals[0].met)
            scaled = [w * (c - a) / s for w, c, a, s in zip(weights, cost, low, span)]
            total = np.sum(scaled, axis=0)
            able = np.ones(np.shape(total), dtype=bool)
            for constraint in self._constraints:
                able &= constraint.excess(measures) <= 0.0
            return total if first else np.max(scaled, axis=0) + tchebycheff_share * total, able

        return scalar

    def _candidates(self, best: Floats, rng: np.random.Generator) -> Floats:
        """Shares (m, p) of designs to choose from; choices of a list at the middle of theirs."""
        # designs that are compared: over the whole space, and beside the best known ones
        global_candidates, local_candidates = 1024, 256
        spread = rng.random((global_candidates, best.shape[1]))
        local_steps = (0.1, 0.02, 0.004)  # of the space: how far beside
        near = [np.repeat(best, local_candidates // len(best), axis=0) for _ in local_steps]
        near = [some + step * rng.standard_normal(some.shape) for some, step in zip(near, local_steps)]
        out = np.clip(np.vstack([spread, *near]), 0.0, 1.0)
        for i, axis in enumerate(self._axes):
            if axis.values:
                count = len(axis.values)
                out[:, i] = (np.minimum(np.floor(out[:, i] * count), count - 1) + 0.5) / count
        return out

    def _value(self, axis: Axis, share: float) -> Any:
        """Value as Optuna has it: a number, or the place in a list."""
        if axis.values:
            return int(min(share * len(axis.values), len(axis.values) - 1))
        return float(axis.low + share * (axis.high - axis.low))

    def _shares(self, params: Mapping[str, Any]) -> Floats:
        """Shares (p,) of the values of a trial."""
        return np.array(
            [
                (params[a.key] + 0.5) / len(a.values) if a.values else (params[a.key] - a.low) / (a.high - a.low)
                for a in self._axes
            ]
        )

    def _features(self, shares: Floats) -> Floats:
        """What the processes see of designs: numbers between 0 and 1, a column for every choice that is no number."""
        columns = []
        for axis, share in zip(self._axes, shares.T):
            place = (share * len(axis.values)).astype(int)
            if not axis.values:
                columns.append(share)
            elif axis.counted:
                ordered = np.array(axis.ordered, dtype=float)
                columns.append((ordered[place] - ordered[0]) / (np.ptp(ordered) or 1.0))
            else:
                columns += [(place == i).astype(float) for i in range(len(axis.values))]
        return np.stack(columns, axis=1)


def _corrections(confirmed: str, columns: Sequence[str]) -> Floats:
    """What the mesh changes of the measures (c,): the mean of the designs that were held against a refined one."""
    found = list(json.loads(confirmed).values())
    known = [[one[column][0] for one in found if column in one] for column in columns]
    return np.array([np.mean(some) if some else 0.0 for some in known])


def _learned(
    features: Floats, values: Floats, pending: Floats, at: Floats, slopes: Floats | None = None
) -> tuple[Floats, Floats]:
    """Mean and deviation (m,) at other designs of a process through values (d,) and slopes (d, f) of some."""
    process = fitted(features, values, slopes)
    if len(pending):
        believed = np.append(values, process(pending)[0])
        if slopes is not None:
            slopes = np.vstack([slopes, np.full(pending.shape, np.nan)])
        process = fitted(np.vstack([features, pending]), believed, slopes, like=process)
    return process(at)
