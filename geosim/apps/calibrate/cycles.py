"""First cycles and holds: what a pull to failure does not say of a rubber that is used again and held.

A test that is pulled up and let go several times gives, at each stretch s,

    softening(s) = 1 - conditioned stress(s) / stress of the first pull(s)          (the Mullins effect; from two cycles on)
    loss         = area between the way up and the way down / area under the way up (hysteresis, one per cycle)

The conditioned stress is the mean of both ways of the last cycle, where hysteresis cancels; to it a law is fitted as to any test.
A hold at one stretch gives a Prony series of the stress,

    stress(t) / stress(0) = 1 - sum_i g_i (1 - exp(-t / tau_i)),        g_i >= 0,  sum g_i <= 1,

with three times tau_i per decade of the test (non-negative least squares [Lawson and Hanson 1974]). Quasi-static constants after
a hold of time t are the instantaneous ones times that factor: stress relaxes alike at all stretches (separable).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from geosim.apps.calibrate.calibration import Calibration, toml_value
from geosim.apps.calibrate.models import fit
from geosim.apps.calibrate.samples import LOAD_CELL_REL, MaterialTest
from geosim.arguments import guarded
from geosim.arrays import Floats, choice, floats, frozen, number
from geosim.errors import InputError
from geosim.material.materials import Hyperelastic
from geosim.material.relaxation import Relaxation
from geosim.model.materials import RUBBER_STATES
from geosim.writing import replacing

__all__ = ["Conditioning", "Cycle", "Relaxation", "fit_cycles", "fit_relaxation"]

MIN_WAY_SAMPLES = 8  # samples of one way of a cycle


@dataclass(frozen=True)
class Cycle:
    """One way up and the way down after it.

    Parameters
    ----------
    peak
        Largest stretch.
    up, down
        Stretch and nominal stress [Pa] of each way, (2, n), stretch increasing.
    loss
        Share of the work of the way up that does not come back.
    """

    peak: float
    up: Floats
    down: Floats
    loss: float


@guarded
@dataclass(frozen=True)
class Conditioning:
    """What repeated pulls say.

    Parameters
    ----------
    cycles
        In their order.
    stretch, softening
        Stretches (s,) and the share of the first pull's stress that is lost there after the last cycle (s,); 0 after one cycle,
        whose way down shows hysteresis and no softening.
    first, conditioned
        Laws of the first pull and of the conditioned rubber.
    """

    cycles: tuple[Cycle, ...]
    stretch: Floats
    softening: Floats
    first: Calibration
    conditioned: Calibration

    @property
    def losses(self) -> Floats:
        """Share of the work that is lost in each cycle, (cycles,)."""
        return np.array([c.loss for c in self.cycles])

    @property
    def set_stretch(self) -> float:
        """Stretch below which the last way down has no stress (2 % of its peak): what the specimen is longer by."""
        down = self.cycles[-1].down
        return float(down[0, down[1] > LOAD_CELL_REL * down[1].max()].min())

    @property
    def settled(self) -> float:
        """By how much of itself the peak stress still fell in the last cycle; nan with one cycle."""
        peaks = [float(c.up[1, -1]) for c in self.cycles]
        return 1.0 - peaks[-1] / peaks[-2] if len(peaks) > 1 else float("nan")

    def material(self, state: str) -> Hyperelastic:
        """Return the law of "first pull" or "conditioned".

        Raises
        ------
        InputError
            It is neither.
        """
        choice(state, "state", RUBBER_STATES)
        return (self.first if state == "first pull" else self.conditioned).material

    def save(self, path: str | Path, relaxation: Relaxation | None = None, source: str = "") -> Path:
        """Write MATERIAL.toml of both laws and a hold, from which `load_material` and robot files choose; the path is returned.

        Raises
        ------
        InputError
            The constants describe no material, or the folder does not exist.
        """
        path = self.first.save(path, source=source)
        tables: dict[str, dict[str, Any]] = {"conditioned": self.conditioned.material.to_dict()}
        if relaxation is not None:
            tables["relaxation"] = relaxation.to_dict()
        text = [path.read_text(encoding="utf-8")]
        for name, table in tables.items():
            text += [f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in table.items()), ""]
        with replacing(path) as beside:
            beside.write_text("\n".join(text), encoding="utf-8")
        return path

    def lines(self) -> list[str]:
        """Return what was found as lines of text."""
        several = len(self.cycles) > 1
        out = [
            f"{len(self.cycles)} cycle{'s' * several} to stretch {max(c.peak for c in self.cycles):.3g}; hysteresis, the work "
            "lost in each: " + ", ".join(f"{100 * v:.1f} %" for v in self.losses)
        ]
        if several:
            out.append(
                f"softening (Mullins) {100 * self.softening.min():.1f} .. {100 * self.softening.max():.1f} % of the first pull, "
                f"largest at stretch {self.stretch[np.argmax(self.softening)]:.3g}; the last cycle still took "
                f"{100 * self.settled:.1f} % of the peak"
            )
        else:
            out.append("softening (Mullins) is not known: one loop shows hysteresis alone, a second pull would tell")
        return [*out, f"set: no stress up to stretch {self.set_stretch:.3g} while the last cycle is unloaded"]


@guarded
def fit_cycles(stretch: Any, stress: Any, model: str = "yeoh", **options: Any) -> Conditioning:
    """Find the cycles of a uniaxial test, and the laws of the first pull and of the conditioned rubber.

    Parameters
    ----------
    stretch, stress
        As they were recorded, one after the other: stretch and nominal stress [Pa], (n,).
    model, options
        As of `geosim.calibrate.fit`.

    Raises
    ------
    InputError
        There is no full cycle, or a way of one has fewer than eight samples.
    """
    s = floats(stretch, "fit_cycles: stretch", (None,))
    f = floats(stress, "fit_cycles: stress", (len(s),))
    if len(s) < 2 * MIN_WAY_SAMPLES:
        raise InputError(f"fit_cycles: {len(s)} samples; each way of a cycle needs {MIN_WAY_SAMPLES}")
    cycles = _cycles(s, f)
    first, last = cycles[0], cycles[-1]
    lowest = max(c[0, 0] for c in (first.up, last.up, last.down))
    highest = min(first.peak, last.peak)
    peak_stretch_share = (
        0.03  # of that range below the peak, where the ways turn: noise gives samples of one to the other
    )
    highest -= peak_stretch_share * (highest - lowest)
    softening_stretches = 25  # stretches of a softening curve
    min_stretch_share = 0.15  # of the range of stretch above rest: below, shares of small stresses are noise
    at = np.linspace(lowest + min_stretch_share * (highest - lowest), highest, softening_stretches)
    up, down, virgin = (_smoothed(at, way[:, way[0] <= highest]) for way in (last.up, last.down, first.up))
    mean = 0.5 * (up + down)
    softening = 1.0 - mean / virgin if len(cycles) > 1 else np.zeros_like(mean)
    laws = [
        fit(MaterialTest("uniaxial", grid, value, name), model, **{"toe": "none", **options})
        for name, grid, value in (("first pull", *first.up), ("conditioned", at, mean if len(cycles) > 1 else virgin))
    ]
    return Conditioning(cycles, frozen(at), frozen(softening), laws[0], laws[1])


def _smoothed(at: Floats, way: Floats) -> Floats:
    """Return the stress of a way (2, n) at evenly spaced stretches (k,): a line fitted to the samples of one step either side.

    One sample has the noise of the record, which a share of two stresses doubles; where a step has few samples, the nearest
    eight to a stretch are taken.
    """
    out = np.empty(len(at))
    for i, s in enumerate(at):
        off = np.abs(way[0] - s)
        reach = max(float(at[1] - at[0]), float(np.sort(off)[:MIN_WAY_SAMPLES][-1]))
        near = off <= reach
        out[i] = np.polyval(np.polyfit(way[0, near] - s, way[1, near], 1), 0.0)
    return out


def cycle_count(stretch: Floats) -> int:
    """Return how many times a record is pulled and let go."""
    return (len(_turns(stretch)) - 1) // 2


def _turns(s: Floats) -> list[int]:
    """Return where the stretch turns, its first and last sample among them."""
    min_reversal_share = 0.05  # of the range of stretch: a reversal that is smaller is noise
    band, turns, direction, extreme = min_reversal_share * float(np.ptp(s)), [0], 1, 0
    for i in range(len(s)):
        if direction * (s[i] - s[extreme]) > 0:
            extreme = i
        elif direction * (s[extreme] - s[i]) > band:
            turns.append(extreme)
            direction, extreme = -direction, i
    return [*turns, extreme]


def _cycles(s: Floats, f: Floats) -> tuple[Cycle, ...]:
    """Return the full cycles: from a valley to a peak to the next valley, or to the end."""
    turns = _turns(s)
    out = []
    for a, b, c in zip(turns[0::2], turns[1::2], turns[2::2]):
        ways = [_way(s[i : j + 1], f[i : j + 1]) for i, j in ((a, b), (b, c))]
        low, high = max(w[0, 0] for w in ways), min(w[0, -1] for w in ways)
        grid = np.linspace(low, high, 200)
        up, down = (float(np.trapezoid(np.interp(grid, *w), grid)) for w in ways)
        out.append(Cycle(float(s[b]), ways[0], ways[1], 1.0 - down / up))
    if not out:
        raise InputError("fit_cycles: the stretch never goes up and down again; give a cyclic test, or use fit")
    return tuple(out)


def _way(s: Floats, f: Floats) -> Floats:
    """Return one way with increasing stretch (2, n)."""
    if len(s) < MIN_WAY_SAMPLES:
        raise InputError(f"fit_cycles: one way of a cycle has {len(s)} samples; {MIN_WAY_SAMPLES} are needed")
    order = np.argsort(s, kind="stable")
    return frozen(np.stack([s[order], f[order]]))


@guarded
def fit_relaxation(time: Any, stress: Any) -> Relaxation:
    """Fit a Prony series to the stress of a hold.

    Parameters
    ----------
    time
        Since the stretch was reached [s], (n,), increasing from 0 or later.
    stress
        Stress (or force), (n,), in any unit.

    Raises
    ------
    InputError
        Times do not increase, there are fewer than eight, or the stress is not positive, or it rises.
    """
    t = floats(time, "fit_relaxation: time [s]", (None,))
    f = floats(stress, "fit_relaxation: stress", (len(t),))
    if len(t) < MIN_WAY_SAMPLES or (np.diff(t) <= 0).any() or t[0] < 0:
        raise InputError(
            f"fit_relaxation: {len(t)} times; at least {MIN_WAY_SAMPLES} are needed, increasing from 0 [s]"
        )
    if not (f > 0).all():
        raise InputError("fit_relaxation: the stress must be positive throughout the hold")
    duration = number(t[-1], "fit_relaxation: duration [s]", above=0.0)
    early = max(float(np.min(t[t > 0])), 1e-4 * duration)
    per_decade = 3.0  # times of a Prony series: exponentials between two are met within 0.3 %
    count = max(1, int(np.ceil(per_decade * np.log10(duration / early))) + 1)
    times = np.geomspace(early, duration, count)
    # f = a + sum b_i exp(-t / tau_i), all >= 0; samples weigh alike per decade, as holds are recorded in even time
    decades = np.log(t + early)
    rise = float(np.polyfit(decades, f, 1)[0] * np.ptp(decades) / f.mean())
    if rise > LOAD_CELL_REL:
        raise InputError(
            f"fit_relaxation: the stress rises by {100 * rise:.3g} % during the hold; a hold at a constant stretch relaxes: "
            f"leave out the ramp, and give the samples in their order"
        )
    weight = np.sqrt(np.gradient(decades))
    columns = np.column_stack([np.ones_like(t), np.exp(-t[:, None] / times)])
    found, _ = nnls(columns * weight[:, None], f * weight)
    whole = float(found.sum())
    off = columns @ found - f
    return Relaxation(frozen(found[1:] / whole), frozen(times), duration, float(np.sqrt(np.mean(off**2)) / whole))
