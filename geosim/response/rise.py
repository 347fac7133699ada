"""Time that chambers need to a pressure."""

from __future__ import annotations

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, number
from geosim.errors import InputError
from geosim.result import Result

__all__ = ["time_to_pressure"]


@guarded
def time_to_pressure(result: Result, pressure: float) -> Floats:
    """Return when every chamber first reaches a gauge pressure [Pa] in time [s], (chambers,); nan where it does not.

    Between frames the pressure is taken as linear: `frame_interval` decides how fine.

    Raises
    ------
    InputError
        The result has no chambers.
    """
    wanted = number(pressure, "time_to_pressure: pressure [Pa]")
    found = result.chamber_pressures
    if found is None or found.shape[1] == 0:
        raise InputError("time_to_pressure: the result has no chambers")
    beyond = found >= wanted if wanted >= 0.0 else found <= wanted
    out = np.full(found.shape[1], np.nan)
    for c in np.flatnonzero(beyond.any(axis=0)):
        k = int(beyond[:, c].argmax())
        out[c] = result.times[k]
        if k > 0:
            before, after = found[k - 1 : k + 1, c]
            step = result.times[k] - result.times[k - 1]
            out[c] -= step * (after - wanted) / (after - before)
    return out
