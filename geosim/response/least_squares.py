"""Least squares within bounds, of what an equilibrium is solved for: SciPy's dogleg in a box, in units of the unknowns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from geosim.arrays import Floats


def bounded_least_squares(
    misses: Callable[[Floats], Floats],
    slopes: Callable[[Floats], Floats],
    start: Floats,
    unit: Floats,
    bounds: tuple[Floats, Floats],
    first: float,
    **options: Any,
) -> OptimizeResult:
    """Return the least squares of misses, as SciPy; its `x` are the unknowns (p,), its `jac` the slopes by units.

    Parameters
    ----------
    misses, slopes
        Unknowns (p,) -> (m,) and (m, p). A miss that is infinite shortens the step. Slopes are asked for at the start and where a
        step has lessened the misses, after the misses there.
    start, unit, bounds
        First unknowns, a unit of each, least and largest ones, (p,).
    first
        How far the first step goes at most, in units: the trust region begins as wide as the start is far from 0.
    **options
        Of `scipy.optimize.least_squares`.
    """

    def at(x: Floats) -> Floats:
        return np.asarray(np.clip(start + unit * (x - first), *bounds))

    found = least_squares(
        lambda x: misses(at(x)),
        np.full(len(start), first),
        lambda x: slopes(at(x)) * unit,
        bounds=tuple(first + (end - start) / unit for end in bounds),
        method="dogbox",
        **options,
    )
    found.x = at(found.x)
    return found
