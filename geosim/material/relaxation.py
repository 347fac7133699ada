"""What a hold takes of the stress of a rubber: a Prony series, and quasi-static constants at a time.

stress(t) / stress(0) = 1 - sum_i g_i (1 - exp(-t / tau_i)),        g_i >= 0,  sum g_i <= 1,

alike at all stretches (separable), so that all moduli are multiplied by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, floats, number
from geosim.errors import InputError
from geosim.material.materials import Hyperelastic


@guarded
@dataclass(frozen=True)
class Relaxation:
    """A Prony series of the stress at a constant stretch.

    Parameters
    ----------
    shares, times
        g_i (p,) and tau_i [s] (p,).
    duration
        Of the hold that they were fitted to [s]: nothing is known beyond.
    rms
        Root mean square error of stress(t) / stress(0); nan where it is not known.

    Raises
    ------
    InputError
        A share is negative, they sum to more than 1, or a time is not positive.
    """

    shares: Floats
    times: Floats
    duration: float
    rms: float = math.nan

    def __post_init__(self) -> None:
        shares = floats(self.shares, "Relaxation: shares", (None,))
        times = floats(self.times, "Relaxation: times [s]", (len(shares),))
        if (shares < 0).any() or shares.sum() > 1.0 or (times <= 0).any():
            raise InputError(
                f"Relaxation: shares {shares.tolist()} must be >= 0 and sum to 1 at most, times {times.tolist()} s be positive"
            )
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "times", times)
        number(self.duration, "Relaxation: duration [s]", above=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return shares, times [s], duration [s] and rms, as a material TOML holds them."""
        return {
            "shares": self.shares.tolist(),
            "times": self.times.tolist(),
            "duration": self.duration,
            "rms": self.rms,
        }

    def factor(self, time: Any) -> Any:
        """Return stress(t) / stress(0) after a hold of some time [s], of the shape of `time`.

        Raises
        ------
        InputError
            A time is negative or longer than the test.
        """
        t = np.asarray(time, dtype=float)
        if not ((t >= 0) & (t <= self.duration * (1 + 1e-9))).all():
            raise InputError(f"time = {time!r} s: known are holds of 0 .. {self.duration:g} s")
        out = 1.0 - (self.shares * (1.0 - np.exp(-t[..., None] / self.times))).sum(axis=-1)
        return float(out) if out.ndim == 0 else out

    def held(self, material: Hyperelastic, time: float) -> Hyperelastic:
        """Return a material of instantaneous constants after a hold of some time [s]: all moduli times the factor."""
        return material.stiffened(self.factor(time))
