"""The tentacle conditioned on six holds: four with one tendon, two with both.

Two sections (`rod.py`: linear, rubber) are weighted by how well each predicts the holds with both tendons from those with one: holds
of the kind that both were fitted to do not choose between them. Unknowns and priors are those of `tentacle.py`. What a rod is off
is the discrepancy of `geosim.condition`, of each marker in proportion to its way from rest, correlated between near holds.

Responses are polynomials of degree 2 to 4 through samples of the priors, solved with 20 segments in the cone; the change from 12 is
the bound of the mesh.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tentacle
from frozen import Row
from rod import bend
from scipy import stats
from scipy.spatial.transform import Rotation
from scipy.stats import qmc

import geosim
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.posterior import Posterior, averaged
from geosim.apps.condition.response import FittedResponse, fitted_curve
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import as_unknowns

NAMES = tuple(f"p{i}_{axis}" for i in range(1, 5) for axis in "xyz")
SECTIONS = {"linear": False, "rubber": True}
COARSE, FINE = (12, 4), (20, 6)  # segments of the two cones
SAMPLES, DRAWS, SEED = 128, 500, 20261128
SIGMA = 0.002  # of one coordinate [m]: motion capture of markers on a soft body
UNKNOWNS = {
    "ln_modulus": stats.norm(0.0, 0.5),
    "ln_density": stats.norm(0.0, 0.2),
    "turn_x": stats.norm(0.0, 0.05),
    "turn_y": stats.norm(0.0, 0.05),
    "turn_z": stats.norm(0.0, 0.05),
    "friction": stats.truncnorm(-1.0, np.inf, 0.1, 0.1),
    "base_x": stats.norm(0.0, 4e-3),
    "base_y": stats.norm(0.0, 4e-3),
    "base_z": stats.norm(0.0, 8e-3),
}
SHIFTED = ("base_x", "base_y", "base_z")
ERROR = ModelError(
    size=0.04, of="value", kinds={name: name[:2] for name in NAMES}
)  # rods with tendons, a left-out hold


def both(data: Path) -> np.ndarray:
    """Return the holds with both tendons that are shown, (2, 14)."""
    return np.loadtxt(data / "robots" / "tentacle" / "holds_both_tendons.csv", delimiter=",", skiprows=1)


def rows_of(holds: np.ndarray) -> TestRows:
    """Return holds (h, 14) as rows of a test."""
    count = len(holds) * len(NAMES)
    return TestRows(
        np.repeat(holds[:, :2], len(NAMES), axis=0),
        NAMES * len(holds),
        holds[:, 2:].ravel(),
        np.full(count, SIGMA),
        "tentacle",
    )


def markers(section: str, segments: tuple[int, int], loads: np.ndarray, q: Mapping[str, float]) -> np.ndarray:
    """Return places of the markers (n, 12) [m] at tensions (n, 2), without the shift of the base; nan without equilibrium."""
    rod = tentacle.rod(*segments)
    base = Rotation.from_rotvec([q["turn_x"], q["turn_y"], q["turn_z"]]).as_matrix() @ tentacle.HANGING
    out = np.full((len(loads), len(NAMES)), np.nan)
    for i, pull in enumerate(loads):
        try:
            shape = bend(
                rod, tentacle.MODULUS * np.exp(q["ln_modulus"]), tentacle.DENSITY * np.exp(q["ln_density"]), pull, base,
                max(q["friction"], 0.0), rubber=SECTIONS[section],
            )  # fmt: skip
        except (RuntimeError, np.linalg.LinAlgError):
            continue
        out[i] = np.concatenate([shape.at(rod, *m) for m in tentacle.MARKERS])
    return out


class Moved:
    """A fitted response whose markers are shifted with the base."""

    def __init__(self, fitted: FittedResponse) -> None:
        self.fitted = fitted

    def __call__(self, unknowns: Any, z: np.ndarray, loads: np.ndarray, measure: str) -> np.ndarray:
        """Return places (d, n) [m]."""
        return self.fitted(unknowns, z, loads, measure) + unknowns.only(f"base_{measure[-1]}", z)[:, None]

    def error(self, measure: str, loads: np.ndarray) -> np.ndarray:
        """Return what left-out samples were off."""
        return self.fitted.error(measure, loads)

    def mesh(self, measure: str) -> float:
        """Return the bound of the segments."""
        return self.fitted.mesh(measure)


@cache
def model(section: str, data: Path) -> Moved:
    """Return the response of a section at all tensions, shown and asked for."""
    loads = np.vstack([np.zeros((1, 2)), tentacle.read_holds(data)[:, :2], tentacle.read_pulls(data)])
    unknowns = as_unknowns(UNKNOWNS)
    free = [i for i, name in enumerate(UNKNOWNS) if name not in SHIFTED]
    s = np.zeros((SAMPLES, len(UNKNOWNS)))
    s[:, free] = 2.0 * qmc.Sobol(len(free), rng=np.random.default_rng(SEED)).random_base2(int(np.log2(SAMPLES))) - 1.0
    s[0] = 0.0
    values = unknowns.at_box(s)
    drawn = [{name: float(v[i]) for name, v in values.items()} for i in range(SAMPLES)]
    found = np.array([markers(section, FINE, loads, q) for q in drawn])
    kept = np.isfinite(found).all(axis=(1, 2))
    coarse = markers(section, COARSE, loads, drawn[0])
    # of each marker: the change with the segments over its way from rest, where the tendons pull most
    apart, way = (a.reshape(len(loads), 4, 3) for a in (found[0] - coarse, found[0] - found[0, :1]))
    share = np.linalg.norm(apart, axis=2)[1:].mean(axis=0) / np.linalg.norm(way, axis=2)[1:].mean(axis=0)
    curves = {m: fitted_curve(s[kept][:, free], loads, found[kept][:, :, j], m) for j, m in enumerate(NAMES)}
    return Moved(FittedResponse(curves, {m: float(share[j // 3]) for j, m in enumerate(NAMES)}, {}, tuple(free)))


def conditioned(section: str, data: Path, holds: np.ndarray) -> Posterior:
    """Return the posterior of a section from holds (h, 14)."""
    return geosim.condition(model(section, data), rows_of(holds), UNKNOWNS, draws=DRAWS, seed=SEED, error=ERROR)


def density(found: Posterior, holds: np.ndarray) -> float:
    """Return ln of the predictive density of holds that the posterior has not seen, coordinate by coordinate of each marker."""
    total = 0.0
    for j, name in enumerate(NAMES):
        draws = found.sampled(name, holds[:, :2])
        total += float(np.sum(stats.norm(draws.mean(axis=0), draws.std(axis=0)).logpdf(holds[:, 2 + j])))
    return total / tentacle.INDEPENDENT  # of twelve coordinates some are one number


def weights(data: Path) -> dict[str, float]:
    """Return the weights of the sections: from holds with one tendon to the holds with both."""
    one, two = tentacle.read_holds(data), both(data)
    found = {section: conditioned(section, data, one) for section in SECTIONS}
    return averaged(found, {section: density(p, two) for section, p in found.items()})


def mixed(found: Mapping[str, Posterior], share: Mapping[str, float], pulls: np.ndarray) -> list[Row]:
    """Return the rows of holds at tensions (n, 2) from sections by their shares."""
    rows = []
    rng = np.random.default_rng(SEED)
    picked = {s: rng.permutation(DRAWS)[: round(share[s] * DRAWS)] for s in found}
    for name in NAMES:
        draws = np.vstack([p.sampled(name, pulls)[picked[s]] for s, p in found.items()])
        fit = np.max(
            [
                p.model.response.error(name, pulls) * np.median(p.model.scale(p.z, pulls, name), axis=0)
                for p in found.values()
            ],
            axis=0,
        )
        low, value, high = np.quantile(draws, (0.025, 0.5, 0.975), axis=0)
        middle, half = value, np.sqrt((0.5 * (high - low)) ** 2 + (1.96 * fit) ** 2) / (0.5 * (high - low))
        for pull, v, lo, hi in zip(pulls, middle, middle - half * (middle - low), middle + half * (high - middle)):
            rows.append(Row("tentacle", float(pull[0]), float(pull[1]), name, "m", float(v), float(lo), float(hi)))
    return rows


def asked(data: Path) -> np.ndarray:
    """Return the tensions of the sixteen holds that are left, (16, 2)."""
    shown = both(data)[:, :2]
    return np.array([p for p in tentacle.read_pulls(data) if not np.isclose(shown, p, atol=1e-3).all(axis=1).any()])


def folds(data: Path) -> tuple[list[Row], list[str]]:
    """Return each of the six holds from the others; the sections' shares from the kinds of load alone."""
    holds, share = np.vstack([tentacle.read_holds(data), both(data)]), weights(data)
    rows = []
    for i, hold in enumerate(holds):
        found = {s: conditioned(s, data, np.delete(holds, i, axis=0)) for s in SECTIONS}
        rows += mixed(found, share, hold[None, :2])
    return rows, [f"shares of the sections: {share}"]


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the sixteen holds, and lines on what they rest on."""
    holds, share = np.vstack([tentacle.read_holds(data), both(data)]), weights(data)
    found = {s: conditioned(s, data, holds) for s in SECTIONS}
    lines = [f"shares of the sections by the holds with both tendons: {share}"]
    for s, p in found.items():
        lines += [f"{s}:", *("  " + line for line in p.lines())]
        lines += [f"  {t.measure}: {100 * t.share:.1f} %" for t in p.trends[:3]]
    return mixed(found, share, asked(data)), lines
