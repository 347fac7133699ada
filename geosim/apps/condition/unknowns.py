"""Unknowns and what is known of them beforehand: ranges or distributions, all as functions of standard normal numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from geosim.arrays import Floats, shown
from geosim.errors import InputError

PRIOR_TAIL = 2e-3  # share of a prior beyond either end of the box in which a response is fitted


@dataclass(frozen=True)
class Unknowns:
    """Names with independent priors.

    Parameters
    ----------
    names
        Of the unknowns, (p,).
    priors
        Frozen distributions of scipy, (p,).
    """

    names: tuple[str, ...]
    priors: tuple[Any, ...]

    def values(self, z: Floats) -> dict[str, Floats]:
        """Return the values (d,) of every unknown at standard normal numbers z (d, p)."""
        return {name: self.only(name, z) for name in self.names}

    def only(self, name: str, z: Floats) -> Floats:
        """Return the values (d,) of one unknown at z (d, p)."""
        i = self.names.index(name)
        return np.asarray(self.priors[i].ppf(stats.norm.cdf(z[:, i])))

    def box(self, z: Floats) -> Floats:
        """Return the places of z (d, p) in the box [-1, 1]^p, in which responses are polynomials.

        A bounded unknown is linear in the place; an unbounded one is so between its quantiles PRIOR_TAIL and 1 - PRIOR_TAIL.
        """
        low, high = self._ends.T
        values = np.column_stack(list(self.values(z).values()))
        return np.asarray(np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0))

    @cached_property
    def _ends(self) -> Floats:
        """Ends of the box, (p, 2)."""
        return np.array([prior.ppf([PRIOR_TAIL, 1.0 - PRIOR_TAIL]) for prior in self.priors])

    def at_box(self, s: Floats) -> dict[str, Floats]:
        """Return the values (k,) of every unknown at places s (k, p) of the box."""
        low, high = self._ends.T
        return dict(zip(self.names, (low + 0.5 * (s + 1.0) * (high - low)).T))


def as_unknowns(given: Mapping[str, Any]) -> Unknowns:
    """Return the unknowns of {name: (low, high) or a frozen distribution of scipy}.

    Raises
    ------
    InputError
        There is none, or one is neither.
    """
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"unknowns = {shown(given)} must name at least one, like {{'modulus': (0.7, 1.4)}}")
    return Unknowns(tuple(str(name) for name in given), tuple(_prior(name, value) for name, value in given.items()))


def _prior(name: str, given: Any) -> Any:
    if callable(getattr(given, "ppf", None)) and callable(getattr(given, "cdf", None)):
        ends = given.ppf([PRIOR_TAIL, 0.5, 1.0 - PRIOR_TAIL])
        if not (np.isfinite(ends).all() and ends[0] < ends[2]):
            raise InputError(f"unknown {name}: its distribution has the quantiles {ends}; give one of some width")
        return given
    try:
        low, high = (float(v) for v in given)
    except (TypeError, ValueError):
        raise InputError(
            f"unknown {name} = {shown(given)} is neither (low, high) nor a frozen distribution of scipy"
        ) from None
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"unknown {name} = ({low:g}, {high:g}) must go from a number to a larger one")
    return stats.uniform(low, high - low)


def read_unknowns(text: str) -> dict[str, tuple[float, float]]:
    """Return the ranges of a text like "wall_mm=1.5:2.2,modulus=0.7:1.4".

    Raises
    ------
    InputError
        A part has another form.
    """
    out: dict[str, tuple[float, float]] = {}
    for part in filter(None, text.split(",")):
        name, sign, ends = part.partition("=")
        try:
            low, high = (float(v) for v in ends.split(":"))
        except ValueError:
            low, high = np.nan, np.nan
        if not sign or not low < high:
            raise InputError(f"--unknowns {part!r}: write NAME=LOW:HIGH, like wall_mm=1.5:2.2")
        out[name.strip()] = (low, high)
    return out
