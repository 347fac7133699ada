"""The segment that is shown, conditioned on the lower half of its own tests: what is above is predicted.

Fitted are free curvature and blocked force together, each up to half of the pressure that its test ends at (27 and 25 kPa). That
is where a first, careful inflation goes; it is below the limit point of every geometry at the preset's median; and the
force, which a third of the pressure hardly lifts above what is resolved, 0.005 N, can be read there. Nothing above is read.

Both tests are of one specimen, so both narrow the same unknowns. Blocked forces below the limit point are known to be smaller
than solved, by a factor of 1.5 to 1.9 with 20 kPa: an edge that is put against a gauge by hand is not at once pressed onto it,
and a mount yields. So there are two unknowns for it: a gap, which is used up as the segment goes on, and a factor, which is
not. Which of both it is decides what the force does above.

Drawn by a fixed seed are

- the floor below the channel, 3 mm .. 8.25 mm (its middle) alike, or, with the weight that it had before, two sides of which one
  is passive: half of the curvature, the same force;
- the shear modulus as its preset has it, walls as before, and the limit of the chains of Gent's law, 50 within a factor of two:
  one laboratory's test of this rubber has 39.6, the pull of another 40 if it is fitted up to a stretch of 3, 66 up to 5;
- the gap [m] and the factor on the force;
- how far, in ln of the pressure, the model may be off at the end of what is fitted: 1 to 30 % alike in its ln. What the best
  draws leave over decides: draws weigh by their likelihood with it and with the noise of a reading, where a curve of points
  counts as three independent numbers: how high, how steep, how curved.

The model's error at the last reading is known: it is the shift of the pressure with which a draw goes through it. Beyond, it
walks on at random, since a law that is off has nothing to be held by there: by as much again, in the root of squares, for
every stretch of pressure that is as long as the one that is fitted. It is an error of the pressure, not of the curvature: on
the plateau behind the limit point a hundredth of the one is a factor of the other. Curves are solved through the limit point,
by volume (FILE); under a rising pressure a segment passes over what lies below a pressure that it had already.

    python calibration/board/segment_fitted.py CURVES.csv          solves every curve again (four minutes)
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from bayes import sample
from frozen import Row
from scipy.interpolate import PchipInterpolator, interp1d
from scipy.stats import norm
from segment_predictions import FORCE, LEAST, LENGTHS, MODULUS, RANGES, WALLS, WEIGHTS
from segments import CYLINDER, Segment, solved

import geosim

FILE = Path(__file__).parent / "segment_fitted_curves.csv"
FLOORS = (3.0, 5.0, 7.0, 8.25)  # [mm]
HALF = replace(CYLINDER, thickness=9.8, floor=3.0)
LOCKS = (15.0, 40.0, 105.0)  # I1 - 3 at which chains lock
KINDS = np.linspace(3.0, 8.25, 15), np.geomspace(15.0, 105.0, 9)  # floors and locks that are drawn; two sides come last
LOCK = 50.0, 0.35  # median and standard deviation of its ln: a factor of two is 95 %
MU = 20e3  # of the solves [Pa]; pressures and forces are in proportion to it
RATIOS = np.array(
    [1.1, 1.2, 1.5, 2, 2.7, 3.6, 5, 7, 10, 14, 20, 28, 40, 56, 65, 75, 85, 95, 110, 130, 150, 180, 220, 270]
)
TAIL = 2.0  # power of the pressure beyond the last solved point: curves that are solved farthest end with 1.5 to 2.2
MEASURES = ("curvature", "blocked_force")
UNITS = {"curvature": "1/m", "blocked_force": "N"}
FITTED = 0.5  # share of the pressure at which a test ends
GAP = 0.2e-3  # standard deviation of the half-normal gap [m]: an edge is put against a gauge by hand
OFF = 0.01, 0.3  # range of the standard deviation of ln pressure at the end of what is fitted
INDEPENDENT = 3  # numbers of a curve
# Standard deviation of one reading: five of the last digits that are written [1/m, N].
NOISE = {"curvature": 5e-3, "blocked_force": 5e-4}
DRAWS, STEPS, SEED = 4000, 300, 20261126


def solve_all(path: Path) -> None:
    """Write pressures over the modulus, curvatures [1/m] and forces over the modulus [m^2] of every geometry and law."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["geometry", "lock", "measure", "pressure_over_modulus", "value"])
        for (name, segment), lock, measure in product(geometries().items(), LOCKS, MEASURES):
            pressures, values = solved(segment, RATIOS, MU, measure == "blocked_force", rubber=geosim.Gent(MU, lock))
            scale = 1.0 / MU if measure == "blocked_force" else (0.5 if name == "half" else 1.0)
            table.writerows(
                [name, lock, measure, f"{p / MU:.5g}", f"{scale * v:.5g}"] for p, v in zip(pressures, values)
            )


def geometries() -> dict[str, Segment]:
    """Return what is solved by name."""
    return {**{f"{floor:g}": replace(CYLINDER, floor=floor) for floor in FLOORS}, "half": HALF}


def rising(pressure: np.ndarray, value: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return ln of the pressure at which a curve that is solved by volume reaches values, where the pressure only rises.

    Parameters
    ----------
    pressure, value
        Of the solved points, in their order; those from where values fall, a segment that curls up, are left out.
    grid
        Values that are asked for. Below the first point the curve is a line through 0, beyond the last one
        the power is TAIL.
    """
    forward = np.minimum.accumulate(np.concatenate([[True], np.diff(value) > 0]))
    new = forward & np.concatenate([[True], pressure[1:] > (1.0 + 1e-6) * np.maximum.accumulate(pressure)[:-1]])
    at, up = np.log(pressure[new]), np.log(value[new])
    asked = np.log(grid)
    within = PchipInterpolator(up, at)(np.clip(asked, up[0], up[-1]))
    return within + np.minimum(asked - up[0], 0.0) + np.maximum(asked - up[-1], 0.0) / TAIL


@dataclass(frozen=True)
class Curves:
    """Curves of every kind: between those solved ln of the pressure is interpolated, in the floor and in ln of the lock.

    Parameters
    ----------
    grid
        Per measure, increasing values (g,): curvatures [1/m], forces over the modulus [m^2].
    table
        Per measure, ln of the pressure over the modulus (k, g).
    """

    grid: dict[str, np.ndarray]
    table: dict[str, np.ndarray]

    def at(self, measure: str, kind: np.ndarray, pressures: np.ndarray) -> np.ndarray:
        """Return values (d, p) at pressures over the modulus (d, p) of draws of kinds (d,)."""
        out = np.empty(pressures.shape)
        for k in np.unique(kind):
            mine = kind == k
            out[mine] = np.interp(np.log(pressures[mine]), self.table[measure][k], np.log(self.grid[measure]))
        return np.exp(out)


def read_curves() -> Curves:
    """Return the curves that are kept, at KINDS."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with FILE.open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            pair = float(r["pressure_over_modulus"]), float(r["value"])
            found.setdefault((r["measure"], r["geometry"], r["lock"]), []).append(pair)
    grid = {"curvature": np.geomspace(1e-4, 80.0, 300), "blocked_force": np.geomspace(1e-10, 1e-3, 300)}
    table = {}
    for measure in MEASURES:
        kept = np.array(
            [[rising(*np.array(found[measure, name, str(k)]).T, grid[measure]) for k in LOCKS] for name in geometries()]
        )
        kept = interp1d(np.log(LOCKS), kept, axis=1)(np.log(KINDS[1]))
        table[measure] = np.concatenate([interp1d(FLOORS, kept[:-1], axis=0)(KINDS[0]), kept[-1:]]).reshape(
            -1, len(grid[measure])
        )
    return Curves(grid, table)


Test = tuple[str, np.ndarray]  # a measure, and its pressures [Pa] and values (2, n)


@dataclass(frozen=True)
class Draws:
    """Unknowns, (d,) each.

    Parameters
    ----------
    kind
        Of geometry and law: a row of the curves' tables.
    modulus, wall
        Shear modulus [Pa], and a factor on pressures beside it.
    gap, factor
        Of the blocked edge [m]; on forces.
    off
        Standard deviation of what the model is off by in ln of the pressure, at the end of what is fitted.
    """

    kind: np.ndarray
    modulus: np.ndarray
    wall: np.ndarray
    gap: np.ndarray
    factor: np.ndarray
    off: np.ndarray

    def values(self, curves: Curves, measure: str, pressures: np.ndarray) -> np.ndarray:
        """Return curvatures [1/m] or blocked forces [N], (d, p), at pressures [Pa], (d, p) or (p,).

        Forces are those solved times a factor times 1 - gap / d, d = kappa l^2 / 2 being how far the free edge would have
        gone: an edge that moves freely through the gap has that share of its force less, for a segment that is as stiff
        against its edge as it is in bending.
        """
        over = pressures / (self.modulus * self.wall)[:, None]
        found = curves.at(measure, self.kind, over)
        if measure == "curvature":
            return found
        way = 0.5 * LENGTHS["cylindrical"] ** 2 * curves.at("curvature", self.kind, over)
        pressed = np.maximum(1.0 - self.gap[:, None] / way, 0.0)
        return found * (self.modulus * self.factor)[:, None] * pressed


def drawn(z: np.ndarray) -> Draws:
    """Return unknowns of standard normal numbers (d, 7), by their priors."""
    place = norm.cdf(z[:, 4:6])  # 0 .. 1: of the floor, of the model's error
    half = WEIGHTS["cylindrical"]["half"]
    floor = np.minimum(((place[:, 0] - half) / (1.0 - half) * len(KINDS[0])).astype(int), len(KINDS[0]) - 1)
    lock = np.abs(np.log(KINDS[1]) - (np.log(LOCK[0]) + LOCK[1] * z[:, [6]])).argmin(axis=1)
    middle, spread = MODULUS["cylindrical"]
    return Draws(
        np.where(place[:, 0] < half, len(KINDS[0]), floor) * len(KINDS[1]) + lock,
        middle * np.exp(spread * z[:, 0]),
        np.exp(WALLS["cylindrical"] * z[:, 1]),
        GAP * np.abs(z[:, 2]),
        np.exp(FORCE[1] * z[:, 3]),
        OFF[0] * (OFF[1] / OFF[0]) ** place[:, 1],
    )


def likelihood(draws: Draws, curves: Curves, tests: list[Test]) -> np.ndarray:
    """Return ln of the likelihood (d,) of all that is fitted."""
    total = np.zeros(len(draws.off))
    for measure, (pressures, truth) in tests:
        value, more = (draws.values(curves, measure, s * pressures) for s in (1.0, 1.01))
        slope = (more - value) / 0.01
        sigma = np.hypot(NOISE[measure], draws.off[:, None] * slope)
        each = -0.5 * ((value - truth) / sigma) ** 2 - np.log(sigma)
        total += INDEPENDENT * each.mean(axis=1)
    return total


def conditioned(curves: Curves, tests: list[Test], count: int = DRAWS, steps: int = STEPS) -> Draws:
    """Return draws of the posterior: chains that begin where the likelihood, flattened, has draws of the priors."""
    rng = np.random.default_rng(SEED)
    z = rng.standard_normal((10 * count, 7))
    weight = np.exp(0.2 * (log := likelihood(drawn(z), curves, tests)) - 0.2 * log.max())
    start = z[rng.choice(len(z), count, p=weight / weight.sum())]
    return drawn(sample(lambda x: likelihood(drawn(x), curves, tests) - 0.5 * np.sum(x**2, axis=1), start, steps, rng))


def beyond(draws: Draws, curves: Curves, measure: str, pressures: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return values (d, p) at pressures [Pa] beyond the end of a test (2, n), with what the model may be off by."""
    normal = np.random.default_rng(SEED + MEASURES.index(measure)).standard_normal((2, len(draws.off)))
    end, last = test[:, -1]
    shifts = np.linspace(-0.5, 0.5, 101)
    near = draws.values(curves, measure, end * np.exp(shifts))
    known = [np.interp(v, rise, shifts) for v, rise in zip(last + NOISE[measure] * normal[0], near)]
    walk = (draws.off * normal[1])[:, None] * np.sqrt(pressures / end - 1.0)
    return draws.values(curves, measure, pressures * np.exp(np.array(known)[:, None] + walk))


def lower_half(data: Path, measure: str) -> Test:
    """Return what is fitted of a measure; nothing above is read."""
    pairs = []
    with (data / "robots" / "segments" / f"cylindrical_{measure}.csv").open(encoding="utf-8") as file:
        next(file)
        for line in file:
            pressure, value = (float(v) for v in line.split(","))
            if pressure > FITTED * RANGES["cylindrical", measure]:
                break
            if pressure > 0.0:
                pairs.append((1e3 * pressure, value))
    return measure, np.array(pairs).T


def told(draws: Draws) -> list[str]:
    """Return lines on what the unknowns are found to be."""
    floor, chain = np.divmod(draws.kind, len(KINDS[1]))
    one = floor < len(KINDS[0])
    values = {**vars(draws), "floor [mm]": KINDS[0][floor[one]], "lock": KINDS[1][chain]}
    del values["kind"]
    lines = [
        f"  {name}: {' '.join(f'{v:.3g}' for v in np.percentile(x, (2.5, 50, 97.5)))}"
        for name, x in values.items()
        if len(x)
    ]
    return [*lines, f"  two sides: {1.0 - one.mean():.3f}"]


def rows_of(draws: Draws, curves: Curves, test: Test) -> list[Row]:
    """Return the rows above the end of a test."""
    measure, readings = test
    last = RANGES["cylindrical", measure]
    asked = np.arange(np.floor(FITTED * last) + 1.0, last + 1.0)
    found, rows = beyond(draws, curves, measure, 1e3 * asked, readings), []
    for p, values in zip(asked, found.T):
        low, value, high = np.quantile(values, (0.025, 0.5, 0.975))
        low, high = min(low, value - LEAST[measure]), max(high, value + LEAST[measure])
        rows.append(Row("cylindrical", float(p), "", measure, UNITS[measure], float(value), float(low), float(high)))
    return rows


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions above what is fitted, and lines on what they rest on."""
    curves, tests = read_curves(), [lower_half(data, measure) for measure in MEASURES]
    draws = conditioned(curves, tests)
    rows, lines = [], [f"{DRAWS} draws, 2.5, 50 and 97.5 %:", *told(draws)]
    for measure, readings in tests:
        fitted = np.median(draws.values(curves, measure, readings[0]), axis=0)
        lines += [f"  {measure} {1e-3 * p:.1f} kPa: {v:.4f}, measured {t:.4f}" for (p, t), v in zip(readings.T, fitted)]
        rows += rows_of(draws, curves, (measure, readings))
    return rows, lines


if __name__ == "__main__":
    solve_all(Path(sys.argv[1]))
