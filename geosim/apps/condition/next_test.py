"""Which light test to do next: the bar that each candidate is expected to leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.apps.condition.prediction import Predictor, as_loads
from geosim.arguments import guarded
from geosim.errors import InputError
from geosim.model.tolerances import half_width_factor


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


def next_tests(predictor: Predictor, candidates: Iterable[tuple[str, Any]], of: tuple[str, Any]) -> list[NextTest]:
    """Return the candidates with the bars that they are expected to leave, the narrowest first.

    The expected variance of the wanted measure after a reading is what a quadratic in that reading leaves of it over the
    draws [Strong, Oakley, Brennan 2014, Med. Decis. Making 34(3)].
    """
    listed = [(str(m), as_loads(load)[0]) for m, load in candidates]
    if not listed:
        raise InputError("next_test: no candidate; give (measure, load) pairs")
    wanted, target = str(of[0]), as_loads(of[1])[0]
    alone = predictor.sampled(wanted, target[None], readings=False)[:, 0]
    now, out = half_width_factor() * float(alone.std()), []
    for measure, load in listed:
        if measure == wanted:  # one error of the model for both
            goal, seen = predictor.sampled(wanted, np.array([target, load]), readings=False).T
        else:
            goal, seen = alone, predictor.sampled(measure, load[None], readings=False)[:, 0]
        rng = np.random.default_rng([predictor.seed, 77, 7])
        seen = seen + predictor.model.reading(predictor.z, measure, load[None])[:, 0] * rng.standard_normal(len(seen))
        x = (seen - seen.mean()) / (seen.std() or 1.0)
        basis = np.column_stack([np.ones_like(x), x, x**2])
        left = goal - basis @ np.linalg.lstsq(basis, goal, rcond=None)[0]
        share = np.sqrt(np.sum(left**2) / (len(left) - basis.shape[1])) / (goal.std() or 1.0)
        out.append(NextTest(measure, (float(load[0]), float(load[1])), (now, now * min(float(share), 1.0))))
    return sorted(out, key=lambda test: test.half_width[1])
