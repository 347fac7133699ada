"""Valves: how the pressure of a chamber follows its command, Eqs. (10)-(12) of [Gasoto2019].

    inflation  dP/dt = k_in sqrt(P* - P),            deflation  dP/dt = -min(c, k_out (P - P*)).

The orifice law (10) has the square root of the difference; the paper's sentence after it says "square".
We take the root, which is the physics, and offer the sentence's version as law="square". Both, and the deflation,
have closed solutions, which are used: the pressure does not depend on the length of the step.

With `pwm` the two valves of a chamber pair are driven by pulses. For a part of each period the chamber is open to the
supply, else to the air. The part is the one that balances inflow and outflow at the commanded pressure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Floats, choice, floats, number
from geosim.errors import InputError

PSI = 6894.757293168  # Pa


@guarded
@dataclass(frozen=True)
class Valves:
    """Valve constants (chosen; fit them to a measured step response with `fit_valves`).

    Parameters
    ----------
    k_in
        Inflation constant: Pa^0.5/s for "sqrt", 1/(Pa s) for "square".
    outflow
        Largest rate of deflation c [Pa/s].
    k_out
        Rate of the last, proportional part of the deflation [1/s].
    delay
        Between a command and its effect [s].
    supply
        Pressure P_s of the source [Pa]; a command above it is refused.
    law
        "sqrt" (10), "square" (the paper's sentence), or "ideal": the pressure is the command at once.
    pwm
        Pulse the valves at `pwm_rate`.
    pwm_rate
        [Hz]; 60 in [Gasoto2019].
    """

    k_in: float = 2500.0
    outflow: float = 3.0e5
    k_out: float = 15.0
    delay: float = 0.0
    supply: float = 16 * PSI
    law: str = "sqrt"
    pwm: bool = False
    pwm_rate: float = 60.0

    def __post_init__(self) -> None:
        choice(self.law, "Valves: law", ("sqrt", "square", "ideal"))
        for key in ("k_in", "outflow", "k_out", "supply", "pwm_rate"):
            number(getattr(self, key), f"Valves: {key}", above=0.0)
        number(self.delay, "Valves: delay [s]", low=0.0)

    def inflate(self, pressure: Any, target: Any, time: float) -> Floats:
        """Pressure [Pa] after `time` [s] of inflation towards a target >= pressure."""
        gap = np.maximum(np.asarray(target, dtype=float) - pressure, 0.0)
        if self.law == "sqrt":
            rest = np.maximum(np.sqrt(gap) - 0.5 * self.k_in * time, 0.0) ** 2
        elif self.law == "square":
            rest = gap / (1.0 + self.k_in * gap * time)
        else:
            rest = 0.0 * gap
        return cast(Floats, target - rest)

    def deflate(self, pressure: Any, target: Any, time: float) -> Floats:
        """Pressure [Pa] after `time` [s] of deflation towards a target <= pressure."""
        gap = np.maximum(np.asarray(pressure, dtype=float) - target, 0.0)
        if self.law == "ideal":
            return cast(Floats, target + 0.0 * gap)
        knee = self.outflow / self.k_out
        straight = np.clip((gap - knee) / self.outflow, 0.0, time)
        return cast(Floats, target + (gap - self.outflow * straight) * np.exp(-self.k_out * (time - straight)))

    def advance(self, pressure: Floats, target: Floats, time: float) -> Floats:
        """Pressures [Pa] after `time` [s] under a constant command (all shapes alike)."""
        if self.pwm and self.law != "ideal":
            return self._pulsed(pressure, target, time)
        return np.where(target >= pressure, self.inflate(pressure, target, time), self.deflate(pressure, target, time))

    def _pulsed(self, pressure: Floats, target: Floats, time: float) -> Floats:
        """Follow every pulse; it lies in the middle of its period, so that the end of a period is near its mean."""
        gap = self.supply - target
        inflow = self.k_in * (np.sqrt(gap) if self.law == "sqrt" else gap**2)
        outflow = np.minimum(self.outflow, self.k_out * target)
        duty = outflow / np.maximum(inflow + outflow, MIN_DIVISOR)
        pulses = max(1, round(time * self.pwm_rate))
        period = time / pulses
        for _ in range(pulses):
            # While a valve is open the other chamber's is closed: first the supply, then the air.
            part = duty * period
            low = np.array([self.deflate(p, 0.0, 0.5 * (period - t)) for p, t in zip(pressure, part)])
            high = np.array([self.inflate(p, self.supply, t) if t > 0 else p for p, t in zip(low, part)])
            pressure = np.array([self.deflate(p, 0.0, 0.5 * (period - t)) for p, t in zip(high, part)])
        return pressure


@dataclass(frozen=True)
class ValveFit:
    """Fitted valves with the root mean square of the residual [Pa] for inflation and deflation."""

    valves: Valves
    rms_inflation: float
    rms_deflation: float


def fit_valves(
    inflation: Any, deflation: Any, valves: Valves | None = None, *, target: float | None = None
) -> ValveFit:
    """Fit k_in, outflow and k_out to a measured step response.

    Parameters
    ----------
    inflation, deflation
        Curves (k, 2) of time [s] and gauge pressure [Pa]; the inflation rises to its target, the deflation falls to 0.
    valves
        What is kept (law, delay, supply); default `Valves()`.
    target
        Pressure commanded of the inflation [Pa]; default the last of the curve.

    Raises
    ------
    InputError
        A curve has fewer than four points, or does not rise (fall).
    """
    from scipy.optimize import least_squares

    valves = Valves() if valves is None else valves
    up, down = floats(inflation, "inflation", (None, 2)), floats(deflation, "deflation", (None, 2))
    if len(up) < 4 or len(down) < 4 or up[-1, 1] <= up[0, 1] or down[-1, 1] >= down[0, 1]:
        raise InputError(
            "fit_valves: at least four points each of a rising inflation and a falling deflation are needed"
        )
    goal = float(up[-1, 1]) if target is None else float(target)
    scale_up, scale_down = up[-1, 1] - up[0, 1], down[0, 1] - down[-1, 1]

    def rising(log_k: Floats) -> Floats:
        v = replace(valves, k_in=float(np.exp(log_k[0])))
        return np.array([v.inflate(up[0, 1], goal, t - up[0, 0]) for t in up[:, 0]]) - up[:, 1]

    def falling(logs: Floats) -> Floats:
        v = replace(valves, outflow=float(np.exp(logs[0])), k_out=float(np.exp(logs[1])))
        return np.array([v.deflate(down[0, 1], 0.0, t - down[0, 0]) for t in down[:, 0]]) - down[:, 1]

    half = up[np.argmax(up[:, 1] - up[0, 1] >= 0.5 * scale_up), 0] - up[0, 0]
    guess = (np.sqrt(scale_up) if valves.law == "sqrt" else 1.0 / scale_up) / max(half, 1e-6)
    rise = least_squares(lambda p: rising(p) / scale_up, [np.log(guess)])
    fall_half = max(down[np.argmax(down[0, 1] - down[:, 1] >= 0.5 * scale_down), 0] - down[0, 0], 1e-6)
    starts = [
        [np.log(scale_down / fall_half * a), np.log(b / fall_half)] for a in (0.5, 1.0, 2.0) for b in (0.5, 1.0, 3.0)
    ]
    fits = [least_squares(lambda p: falling(p) / scale_down, s) for s in starts]
    fall = min(fits, key=lambda f: f.cost)
    fitted = replace(
        valves, k_in=float(np.exp(rise.x[0])), outflow=float(np.exp(fall.x[0])), k_out=float(np.exp(fall.x[1]))
    )
    return ValveFit(fitted, float(np.sqrt(np.mean(rising(rise.x) ** 2))), float(np.sqrt(np.mean(falling(fall.x) ** 2))))
