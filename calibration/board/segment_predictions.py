"""What is predicted of the ribbed and the pleated segment from solved curves (segments.py), and from the one that was shown.

Where the channels lie is not published, nor the wall above them, nor the rubber of the pleated one. Drawn are
therefore, by a fixed seed:

- which of the solved geometries it is, by the weights below ("half": 9.25 mm a side, and a passive side that halves the
  curvature; a cylinder built so bends three times as much as measured, so that it weighs little);
- the shear modulus: 20 kPa within 12 % for Ecoflex 00-30 (with it the solved cylinder, a channel 7 mm above its film, has the
  measured 0.24 1/m at 21 kPa and goes flat at 34 kPa, measured 32 to 33); 100 kPa within a factor of 1.6 for the harder rubber; a
  factor on pressures for the walls, 10 % for the ribbed and 20 % for the pleated one;
- the limit pressure of the ribbed one, 12 .. 13 kPa in all three geometries at 20 kPa: 1.3 times that within 22 %, since tests
  end at 1.7 times the limit in the cylinder, and at 33 kPa here;
- the force over the curvature: 0.75 of what is solved, within 40 %. The cylinder's was 0.52 at 20 kPa, 0.96 at 50 kPa.
- Beyond its limit point the ribbed segment has no solved curve that anyone would trust: channels balloon one after the other. The
  cylinder, beyond its own, rose by the 0.6th power of the pressure over the limit to 1.4 rad at the end of what was measured.
  The bend at the end is drawn from 1.2 rad within a factor of 1.6: experiments end where a segment is well bent. The same weighs
  the draws of the pleated one.
- The cylinder itself, whose measured curves are shown, is drawn in the same way, but with the modulus as its preset has it and
  with its limit pressure as solved: not with the 20 kPa and the 7 mm that it has shown. What lies beyond the limit and the
  force over the curvature were set on it all the same.

Rows are medians and the quantiles 2.5 and 97.5 % of what was drawn.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from frozen import Row
from segments import CYLINDER, PLEATED, RIBBED

DRAWS, SEED = 4000, 20261123
WEIGHTS = {
    "ribbed": {"floor 3": 0.4, "middle": 0.45, "half": 0.15},
    "pleated": {"broad": 0.45, "high": 0.3, "narrow": 0.25},
    "cylindrical": {"floor 3": 0.4, "middle": 0.45, "half": 0.15},
}
ECOFLEX = 36799.1059959249, 0.785612891805263  # of three sources, when this was frozen
# Pa, standard deviation of its ln
MODULUS = {"ribbed": (20e3, 0.12), "pleated": (100e3, 0.5), "cylindrical": ECOFLEX}
WALLS = {"ribbed": 0.1, "pleated": 0.2, "cylindrical": 0.1}  # standard deviation of ln of the pressure
# Factor on the solved limit pressure, and sd of its ln: the walls at the ends and the seams.
LIMIT = {"ribbed": (1.3, 0.3), "cylindrical": (1.0, 0.3)}
FORCE = 0.75, 0.4  # over the solved ratio of force and curvature
END = 1.2, 0.47  # bend at the last pressure [rad], sd of its ln
RISE = 0.6  # power of the pressure beyond the limit
RANGES = {
    ("ribbed", "curvature"): 33,
    ("ribbed", "blocked_force"): 36,
    ("pleated", "curvature"): 62,
    ("pleated", "blocked_force"): 88,
    ("cylindrical", "curvature"): 55,
    ("cylindrical", "blocked_force"): 51,
}
LENGTHS = {
    name: 1e-3 * made.length for name, made in (("ribbed", RIBBED), ("pleated", PLEATED), ("cylindrical", CYLINDER))
}
LEAST = {"curvature": 0.02, "blocked_force": 0.005}  # resolution of what is measured [1/m, N]: no bar is narrower


def curves() -> dict[tuple[str, str], np.ndarray]:
    """Return solved curves by robot and geometry: pressure over modulus, curvature [1/m], force over modulus and curvature."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    with (Path(__file__).parent / "segment_curves.csv").open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            mu = float(r["modulus_pa"])
            found.setdefault((r["robot"], r["geometry"]), []).append(
                [1e3 * float(r["pressure_kpa"]) / mu, float(r["curvature"]), float(r["force_over_curvature"]) / mu]
            )
    return {k: np.array(v) for k, v in found.items()}


def drawn(name: str, pressures: np.ndarray, last: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return curvatures (d, p) [1/m], forces (d, p) [N] and weights (d,) at pressures [kPa]; `last` ends the free test."""
    rng, solved = np.random.default_rng(SEED), curves()
    kinds = list(WEIGHTS[name])
    chosen = rng.choice(len(kinds), DRAWS, p=list(WEIGHTS[name].values()))
    normal = rng.standard_normal((5, DRAWS))
    middle, spread = MODULUS[name]
    mu = middle * np.exp(spread * normal[0])
    scale = 1e-3 * mu * np.exp(WALLS[name] * normal[1])
    ratio = FORCE[0] * np.exp(FORCE[1] * normal[2]) * mu
    end = END[0] * np.exp(END[1] * normal[3]) / LENGTHS[name]
    bend, force, weight = np.empty((DRAWS, len(pressures))), np.empty((DRAWS, len(pressures))), np.ones(DRAWS)
    for i in range(DRAWS):
        table = solved[name, kinds[chosen[i]]]
        if name in LIMIT:
            peak = int(np.argmax(table[:, 0]))
            table = table[: peak + 1]
            factor = LIMIT[name][0] * np.exp(LIMIT[name][1] * normal[4, i])
        else:
            factor = 1.0
        at, up = np.append(0.0, table[:, 0] * scale[i] * factor), np.append(0.0, table[:, 1])
        slope = (up[-1] - up[-2]) / (at[-1] - at[-2])
        here = np.interp(pressures, at, up) + np.maximum(pressures - at[-1], 0.0) * slope * (name not in LIMIT)
        if name in LIMIT and at[-1] < last:
            over = np.maximum(pressures - at[-1], 0.0) / (last - at[-1])
            here = np.where(pressures > at[-1], up[-1] + max(end[i] - up[-1], 0.0) * over**RISE, here)
        if name not in LIMIT:
            there = np.interp(last, at, up) + max(last - at[-1], 0.0) * slope
            weight[i] = np.exp(-0.5 * (np.log(there / (END[0] / LENGTHS[name])) / END[1]) ** 2)
        bend[i], force[i] = here, here * ratio[i] * float(np.median(table[:, 2]))
    return bend, force, weight


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the quantile of weighted values."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(np.interp(share * total[-1], total, values[order]))


def predict(name: str) -> tuple[list[Row], list[str]]:
    """Return the predictions of "ribbed", "pleated" or "cylindrical", and lines on what they rest on."""
    rows = []
    last = float(RANGES[name, "curvature"])
    for measure, unit in (("curvature", "1/m"), ("blocked_force", "N")):
        pressures = np.arange(1.0, RANGES[name, measure] + 1.0)
        bend, force, weight = drawn(name, pressures, last)
        for k, p in enumerate(pressures):
            all_ = (bend if measure == "curvature" else force)[:, k]
            low, value, high = (quantile(all_, weight, s) for s in (0.025, 0.5, 0.975))
            low, high = min(low, value - LEAST[measure]), max(high, value + LEAST[measure])
            rows.append(Row(name, float(p), "", measure, unit, value, max(low, -LEAST[measure]), high))
        rows.insert(len(rows) - len(pressures), Row(name, 0.0, "", measure, unit, 0.0, -LEAST[measure], LEAST[measure]))
    used = ", ".join(sorted(g for n, g in curves() if n == name))
    return rows, [f"{name}: {DRAWS} draws over the geometries {used}"]
