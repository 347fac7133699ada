"""An arm of four silicone chambers: its modulus from the hold at 300 mbar, predicted at five other pressures.

The model is that of calibration/arm.py, with 8 frames 30 times as stiff that stand in for an unpublished reinforcement;
12 frames differ by 2 % below 200 mbar. First the holds at 200 and 400 mbar are predicted from that at 300 alone: sigma of
ln displacement is CREEP, half of what a hold creeps by over its middle, and EXTRAPOLATED for every factor of e in
pressure away from it, twice that above, where the wall stiffens or balloons in ways that frames do not know.

The five predictions are conditioned on the three holds: ln of measured over computed, linear in ln of the pressure
between holds and on along the nearest line beyond. BETWEEN is what such a line may be off. Where the wall of the model
runs away before a pressure is reached its last slope is carried on, with BEYOND on top. The displacement is the mean over
a hold.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
from frozen import Row
from geosim.compare import read_markers
from scipy.stats import norm

FITTED = 300  # mbar
ASKED = (100, 150, 250, 350, 450)
SHOWN = (200, 400)
FRAMES = 8
RATIO = 30.0
CREEP = 0.05  # standard deviation of ln displacement: half of what a hold creeps by, over its middle
EXTRAPOLATED = 0.22  # standard deviation of ln displacement per unit of |ln p / 300 mbar|; twice that above it
BETWEEN = 0.06
BEYOND = 0.10  # more where the model has no equilibrium of its own


def model() -> ModuleType:
    """Return calibration/arm.py."""
    place = importlib.util.spec_from_file_location("published_arm", Path(__file__).parent.parent / "arm.py")
    assert place is not None
    assert place.loader is not None
    made = importlib.util.module_from_spec(place)
    place.loader.exec_module(made)
    return made


def held(folder: Path, mbar: int) -> float:
    """Return the mean displacement of the tip over a hold [m]."""
    data = read_markers(folder / f"arm_{mbar}mbar_V3.csv")
    tips = [i for i, name in enumerate(data.names) if name.startswith("tip")]
    tip = np.nanmean(data.positions[:, tips], axis=1)
    moved = np.linalg.norm(tip - tip[:20].mean(axis=0), axis=1)
    return float(moved[moved > 0.9 * moved.max()].mean())


def curve(arm: ModuleType, folder: Path, frames: int) -> dict[int, float]:
    """Return displacements [m] of an arm with frames, fitted at one hold, at all pressures [mbar]; nan without equilibrium."""
    found = arm.calibrate(folder, arm.arm(arm.FIRST, frames, RATIO), FITTED)
    return {mbar: arm.tip_at(found.robot, mbar) for mbar in sorted({*ASKED, *SHOWN, FITTED})}


def computed(one: dict[int, float]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return ln pressure [mbar] and ln displacement [m] of all pressures, and up to which the model has an equilibrium."""
    at = np.log([p for p, d in one.items() if np.isfinite(d)])
    size = np.log([d for d in one.values() if np.isfinite(d)])
    all_ = np.log(list(one))
    last = np.polyfit(at[-2:], size[-2:], 1)
    return all_, np.where(all_ <= at[-1], np.interp(all_, at, size), np.polyval(last, all_)), float(at[-1])


def known_holds(data: Path) -> tuple[dict[int, float], dict[int, float], float]:
    """Return ln displacement [m] as computed at all pressures and as measured at the holds, and up to which ln pressure it is."""
    folder = data / "robots" / "arm"
    at, size, known = computed(curve(model(), folder, FRAMES))
    own = {mbar: float(np.interp(np.log(mbar), at, size)) for mbar in (*ASKED, *SHOWN, FITTED)}
    return own, {mbar: float(np.log(held(folder, mbar))) for mbar in (*SHOWN, FITTED)}, known


def row(mbar: int, value: float, sigma: float) -> Row:
    """Return the row of a displacement [mm] with the standard deviation of its ln."""
    factor = np.exp(norm.ppf(0.975) * sigma)
    return Row("arm", float(mbar), "", "tip_displacement", "mm", value, value / factor, value * factor)


def holds(data: Path) -> tuple[list[Row], list[str]]:
    """Return the holds at 200 and 400 mbar from that at 300 alone, and lines."""
    own, truth, _ = known_holds(data)
    rows = []
    for mbar in SHOWN:
        away = abs(np.log(mbar / FITTED)) * (2.0 if mbar > FITTED else 1.0)
        value = 1e3 * float(np.exp(truth[FITTED] + own[mbar] - own[FITTED]))
        rows.append(row(mbar, value, float(np.hypot(CREEP, EXTRAPOLATED * away))))
    return rows, [
        f"{r.load_1:g} mbar from {FITTED}: measured {1e3 * np.exp(truth[int(r.load_1)]):.2f} mm" for r in rows
    ]


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    own, truth, known = known_holds(data)
    rows = []
    at = np.array(sorted(truth), dtype=float)
    gap = np.array([truth[int(p)] - own[int(p)] for p in at])
    for mbar in ASKED:
        k = int(np.clip(np.searchsorted(at, mbar), 1, len(at) - 1))
        x = np.log(at[k - 1 : k + 1])
        share = (np.log(mbar) - x[0]) / (x[1] - x[0])
        value = 1e3 * float(np.exp(own[mbar] + gap[k - 1] + share * (gap[k] - gap[k - 1])))
        away = float(np.abs(np.log(mbar) - np.log(np.clip(mbar, *SHOWN)))) * (2.0 if mbar > FITTED else 1.0)
        rows.append(row(mbar, value, float(np.linalg.norm(
            [CREEP, BETWEEN, EXTRAPOLATED * away, BEYOND * (np.log(mbar) > known + 1e-9)]
        ))))  # fmt: skip
    return rows, ["arm: conditioned on the holds at 200, 300 and 400 mbar"]
