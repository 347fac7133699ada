"""The ribbed and the pleated segment from the lower third of their tests: everything above is predicted.

Solved curves are those of `segment_rounds.py`. Unknowns, with priors:

- the floor below the channels, between the solved ones alike; kinds of section are models of their own;
- the shear modulus: Ecoflex 00-30 for the ribbed one, 25 kPa within a factor of 2.7; a harder rubber for the pleated one, 100 kPa
  within a factor of 3.5; the limit of Gent's law, 50 within a factor of two;
- a gap at the blocked edge, up to half a millimetre, and a factor on the force, 0.75 within a factor of 2.2: the
  shown segment had 0.5 to 1;
- the bend at the end of the free test, 1.2 rad within a factor of 2.5: tests end where a segment is well bent.

The error of the model is one of the pressure (`ModelError(of="load")`). Kinds of section are averaged by the evidence of the
shown part, which holds two kinds of load.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import segment_fitted
from frozen import Row
from scipy import stats
from segment_predictions import END, LEAST, LENGTHS, RANGES
from segment_rounds import FILE, MEASURES

import geosim
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.posterior import Posterior, averaged
from geosim.apps.condition.rows import TestRows

DRAWS, SEED = 600, 20261128
UNITS = {"curvature": "1/m", "blocked_force": "N"}
MODULUS = {
    "ribbed": stats.lognorm(0.5, scale=25e3),
    "pleated": stats.lognorm(0.65, scale=100e3),
    "cylindrical": stats.lognorm(0.5, scale=25e3),
}
ERROR = ModelError(size=0.04, reading=0.02, of="load")  # readings were taken off a drawn curve
GRID = {"curvature": np.geomspace(1e-4, 80.0, 240), "blocked_force": np.geomspace(1e-10, 1e-3, 240)}
END_BEND = "end_bend"


@dataclass(frozen=True)
class Segments:
    """One kind of section of a segment.

    Parameters
    ----------
    name
        Of the segment.
    floors, locks
        That were solved.
    tables
        Measure -> ln of the pressure over the modulus at the values of GRID, (floors, locks, g).
    """

    name: str
    floors: np.ndarray
    locks: np.ndarray
    tables: Mapping[str, np.ndarray]

    @property
    def unknowns(self) -> dict[str, Any]:
        """Priors."""
        found: dict[str, Any] = {
            "modulus": MODULUS[self.name],
            "seating": stats.lognorm(0.4, scale=0.75),
            "gap_mm": stats.uniform(0.0, 0.5),
        }
        if len(self.floors) > 1:
            found["floor_mm"] = (float(self.floors[0]), float(self.floors[-1]))
        if len(self.locks) > 1:
            found["ln_lock"] = stats.norm(np.log(50.0), 0.35)
        return found

    def __call__(self, q: Mapping[str, np.ndarray], loads: np.ndarray, measure: str) -> np.ndarray:
        """Return curvatures [1/m], forces [N] or ln of the bend at the end [rad], (d, n), at pressures [kPa]."""
        if measure == END_BEND:
            last = np.array([[float(RANGES[self.name, "curvature"]), 0.0]])
            bent = LENGTHS[self.name] * self(q, last, "curvature")
            return np.where(loads[:, 0] > 0.0, np.log(bent), 0.0)
        with np.errstate(divide="ignore"):
            over = np.log(1e3 * loads[:, 0][None] / q["modulus"][:, None])
        bend = np.exp(self._read(q, over, "curvature"))
        if measure == "curvature":
            return np.where(loads[:, 0] > 0.0, bend, 0.0)
        way = 0.5 * LENGTHS[self.name] ** 2 * bend
        pressed = np.maximum(1.0 - 1e-3 * q["gap_mm"][:, None] / way, 0.0)
        force = np.exp(self._read(q, over, "blocked_force")) * (q["modulus"] * q["seating"])[:, None]
        return np.where(loads[:, 0] > 0.0, force * pressed, 0.0)

    def _read(self, q: Mapping[str, np.ndarray], over: np.ndarray, measure: str) -> np.ndarray:
        table = self.tables[measure]
        lock = (
            np.zeros(len(over))
            if len(self.locks) == 1
            else np.interp(q["ln_lock"], np.log(self.locks), np.arange(len(self.locks)))
        )
        floor = (
            np.zeros(len(over))
            if len(self.floors) == 1
            else np.interp(q["floor_mm"], self.floors, np.arange(len(self.floors)))
        )
        out, up = np.empty(over.shape), np.log(GRID[measure])
        for i, (f, k, row) in enumerate(zip(floor, lock, np.maximum(over, -30.0))):
            pairs = [(int(f), 1.0 - f % 1.0), (min(int(f) + 1, len(self.floors) - 1), f % 1.0)]
            others = [(int(k), 1.0 - k % 1.0), (min(int(k) + 1, len(self.locks) - 1), k % 1.0)]
            mine = sum(a * b * table[m, n] for m, a in pairs if a for n, b in others if b)
            out[i] = np.where(row < mine[0], up[0] + row - mine[0], np.interp(row, mine, up))
        return out


def sections(name: str) -> dict[str, Segments]:
    """Return the kinds of section of a segment that were solved."""
    found: dict[tuple[str, str, float, str], list[tuple[float, float]]] = {}
    with FILE.open(newline="", encoding="utf-8") as file:
        for robot, group, floor, lock, measure, p, value in csv.reader(file):
            if robot == name:
                found.setdefault((group, floor, float(lock), measure), []).append((float(p), float(value)))
    out = {}
    for group in dict.fromkeys(key[0] for key in found):
        floors = sorted({key[1] for key in found if key[0] == group}, key=float)
        locks = sorted({key[2] for key in found if key[0] == group})
        tables = {
            m: np.array(
                [[segment_fitted.rising(*np.array(found[group, f, k, m]).T, GRID[m]) for k in locks] for f in floors]
            )
            for m in MEASURES
        }
        out[group] = Segments(name, np.array([float(f) for f in floors]), np.array(locks), tables)
    return out


def cylindrical() -> dict[str, Segments]:
    """Return the kinds of section of the segment that is shown, from the curves of `segment_fitted.py`."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with segment_fitted.FILE.open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            pair = float(r["pressure_over_modulus"]), float(r["value"])
            found.setdefault((r["geometry"], r["lock"], r["measure"]), []).append(pair)

    def made(names: list[str]) -> dict[str, np.ndarray]:
        return {
            m: np.array(
                [
                    [segment_fitted.rising(*np.array(found[f, str(k), m]).T, GRID[m]) for k in segment_fitted.LOCKS]
                    for f in names
                ]
            )
            for m in MEASURES
        }

    floors = [f"{f:g}" for f in segment_fitted.FLOORS]
    locks = np.array(segment_fitted.LOCKS)
    return {
        "one side": Segments("cylindrical", np.array(segment_fitted.FLOORS), locks, made(floors)),
        "two sides": Segments("cylindrical", np.zeros(1), locks, made(["half"])),
    }


def lower(data: Path, share: float) -> TestRows:
    """Return the lower share of both tests of the segment that is shown; nothing above is read."""
    loads, measures, values = [], [], []
    for measure in MEASURES:
        table = np.loadtxt(data / "robots" / "segments" / f"cylindrical_{measure}.csv", delimiter=",", skiprows=1)
        for pressure, value in table[(table[:, 0] > 0.0) & (table[:, 0] <= share * RANGES["cylindrical", measure])]:
            loads.append((pressure, 0.0))
            measures.append(measure)
            values.append(value)
    rows = TestRows(np.array(loads), tuple(measures), np.array(values), np.full(len(values), np.nan), "cylindrical")
    return with_end("cylindrical", rows)


def shown(data: Path, name: str) -> TestRows:
    """Return the lower third of both tests, and what is assumed of the end of the free one."""
    loads, measures, values, sigma = [], [], [], []
    for measure in MEASURES:
        path = data / "robots" / "segments" / f"{name}_{measure}_lower_third.csv"
        for pressure, value in np.loadtxt(path, delimiter=",", skiprows=1):
            if pressure > 0.0:
                loads.append((pressure, 0.0))
                measures.append(measure)
                values.append(value)
                sigma.append(np.nan)
    return with_end(name, TestRows(np.array(loads), tuple(measures), np.array(values), np.array(sigma), name))


def with_end(name: str, rows: TestRows) -> TestRows:
    """Return rows with the bend that tests end at."""
    last = float(RANGES[name, "curvature"])
    return TestRows(
        np.vstack([rows.loads, [[last, 0.0]]]), (*rows.measures, END_BEND), np.append(rows.values, np.log(END[0])),
        np.append(rows.sigma, END[1]), name,
    )  # fmt: skip


def conditioned(made: Mapping[str, Segments], rows: TestRows) -> dict[str, Posterior]:
    """Return the posterior of every kind of section."""
    return {
        group: geosim.condition(one, rows, one.unknowns, draws=DRAWS, seed=SEED, error=ERROR)
        for group, one in made.items()
    }


def mixed(found: Mapping[str, Posterior], measure: str, pressures: np.ndarray) -> list[Row]:
    """Return the rows of a measure at pressures [kPa], kinds of section by their evidence.

    Curves of curvature are weighted again by the bend that they end at, with the error of the model: the posterior has weighed it
    without.
    """
    share, rng = averaged(found), np.random.default_rng(SEED)
    name = next(iter(found.values())).model.rows.robot
    parts = []
    for group, posterior in found.items():
        draws = posterior.sampled(measure, pressures)
        if measure == "curvature":
            end = np.log(np.maximum(LENGTHS[name] * draws[:, -1], 1e-3))
            weight = np.exp(-0.5 * ((end - np.log(END[0])) / END[1]) ** 2)
            draws = draws[rng.choice(DRAWS, DRAWS, p=weight / weight.sum())]
        parts.append(draws[: round(share[group] * DRAWS)])
    rows = []
    for pressure, values in zip(pressures, np.vstack(parts).T):
        low, value, high = np.quantile(values, (0.025, 0.5, 0.975))
        low, high = min(low, value - LEAST[measure]), max(high, value + LEAST[measure])
        low = max(low, -LEAST[measure])
        rows.append(Row(name, float(pressure), "", measure, UNITS[measure], float(value), float(low), float(high)))
    return rows


def told(found: Mapping[str, Posterior]) -> list[str]:
    """Return lines on what the kinds of section are found to be."""
    lines = []
    for group, share in averaged(found).items():
        lines += [f"{group}, weight {share:.2f}:", *(f"  {line}" for line in lines(found[group]))]
        lines += [f"  {n}: {' '.join(f'{v:.3g}' for v in found[group].interval(n))}" for n in found[group].names]
        lines += [f"  {t.measure}: {100 * t.share:.1f} % in the load" for t in found[group].trends]
    return lines


def predict(data: Path, name: str) -> tuple[list[Row], list[str]]:
    """Return the rest of both tests of a segment, and lines on what they rest on."""
    rows = shown(data, name)
    found = conditioned(sections(name), rows)
    out: list[Row] = []
    for measure in MEASURES:
        end = rows.loads[rows.of(measure), 0].max()
        out += mixed(found, measure, np.arange(np.floor(end) + 1.0, RANGES[name, measure] + 1.0))
    return out, told(found)
