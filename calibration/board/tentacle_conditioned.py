"""The tentacle conditioned on six holds: four with one tendon, two with both.

Two sections (`rod.py`: linear, rubber) are weighted by how well each predicts the holds with both tendons from those with one.
Holds of the kind that both were fitted to do not choose between them. Unknowns and priors are those of `tentacle.py`. What a rod
is off is the discrepancy of `geosim.condition`, of each marker in proportion to its way from rest, correlated between near holds.

Responses are quadratic polynomials about the fit of `tentacle.identify` to all six holds, in coordinates w that its covariance,
WIDER times as wide, has made independent: z = fit + WIDER L w. Draws of w are weighted by the priors of z. Samples are solved
with 14 segments in the cone; the change from 8 is the bound of the mesh.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import tentacle
from frozen import Row
from rod import Shape, bend
from scipy import stats
from scipy.spatial.transform import Rotation
from scipy.stats import qmc

from geosim.apps.condition.model import ModelError, TestModel
from geosim.apps.condition.posterior import Posterior, averaged
from geosim.apps.condition.response import FittedResponse, fitted_curve
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.sampling import sample
from geosim.apps.condition.unknowns import as_unknowns

NAMES = tuple(f"p{i}_{axis}" for i in range(1, 5) for axis in "xyz")
SECTIONS = {"linear": False, "rubber": True}
COARSE, FINE = (8, 3), (14, 4)  # segments of the two cones
SAMPLES, DRAWS, SEED = 128, 400, 20261128
SIGMA = 0.002  # of one coordinate [m]: motion capture of markers on a soft body
REACH = tentacle.CONE + tentacle.TIP + 0.04  # [m]: of a tentacle that tendons shorten, with its markers and its base
FAR = 1.0  # [m]: beyond every place of a tentacle of 0.36 m
WIDER = 2.5  # of the box about the fit, in its standard deviations
COORDINATES = tuple(f"w{i}" for i in range(len(tentacle.PRIORS)))
UNKNOWNS = dict.fromkeys(COORDINATES, stats.norm())
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


class Markers:
    """Where the markers are; begins from the shape found last at the same tensions, for speed.

    Parameters
    ----------
    section
        "linear" or "rubber".
    segments
        Of the two cones.
    """

    def __init__(self, section: str, segments: tuple[int, int]) -> None:
        self.rubber, self.rod = SECTIONS[section], tentacle.rod(*segments)
        self.last: dict[tuple[float, ...], Shape] = {}

    def __call__(self, pull: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return places (12,) [m] at tensions (2,) [N] with unknowns in units of the priors of `tentacle.py`."""
        ln_e, ln_rho, *rest = z * tentacle.PRIORS
        base = Rotation.from_rotvec(rest[3:6]).as_matrix() @ tentacle.HANGING
        shape = self._bent(tuple(pull), (float(ln_e), float(ln_rho), max(tentacle.FRICTION + rest[6], 0.0)), base)
        self.last[tuple(pull)] = shape
        return np.concatenate([shape.at(self.rod, *m) + rest[:3] for m in tentacle.MARKERS])

    def _bent(self, pull: tuple[float, ...], q: tuple[float, float, float], base: np.ndarray) -> Shape:
        known = self.last.get(pull)
        for start in (known, None) if known is not None else (None,):
            try:
                return bend(
                    self.rod, tentacle.MODULUS * np.exp(q[0]), tentacle.DENSITY * np.exp(q[1]), np.array(pull), base, q[2],
                    start=start, rubber=self.rubber,
                )  # fmt: skip
            except (RuntimeError, np.linalg.LinAlgError):
                continue  # from afresh
        raise RuntimeError(f"no equilibrium at tensions {pull} N")

    def or_far(self, pull: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the places, or what no fit stays at where there is no equilibrium."""
        try:
            return self(pull, z)
        except RuntimeError:
            return np.full(len(NAMES), FAR)


@dataclass(frozen=True)
class Local:
    """A section about its fit.

    Parameters
    ----------
    fitted
        Polynomials of w.
    middle, spread
        The fit z (p,), and WIDER L (p, p).
    """

    fitted: FittedResponse
    middle: np.ndarray
    spread: np.ndarray

    def weight(self, w: np.ndarray) -> np.ndarray:
        """Return ln of the prior of z over the density of w (d,), but for a constant."""
        z = self.middle + w @ self.spread.T
        return np.asarray(0.5 * np.sum(w**2, axis=1) - 0.5 * np.sum(z**2, axis=1))


@dataclass(frozen=True)
class Weighted(TestModel):
    """A test whose draws w are weighted by the priors of z."""

    local: Local | None = None

    def likelihood(self, z: np.ndarray) -> np.ndarray:
        """Return ln of the density of the test, with the weights."""
        w = z[:, : len(COORDINATES)]
        assert self.local is not None
        outside = np.abs(w).max(axis=1) > 2.8  # the polynomials' box
        return np.where(outside, -np.inf, TestModel.likelihood(self, z) + self.local.weight(w))


@cache
def model(section: str, data: Path) -> Local:
    """Return a section at all tensions, shown and asked for."""
    holds = np.vstack([tentacle.read_holds(data), both(data)])
    fine, rough = Markers(section, FINE), Markers(section, COARSE)
    found = tentacle.identify(holds, fine.or_far)
    spread = WIDER * np.linalg.cholesky(found.covariance)
    loads = np.vstack([np.zeros((1, 2)), holds[:, :2], asked(data)])
    unknowns = as_unknowns(UNKNOWNS)
    s = 2.0 * qmc.Sobol(len(COORDINATES), rng=np.random.default_rng(SEED)).random_base2(int(np.log2(SAMPLES))) - 1.0
    s[0] = 0.0
    w = np.column_stack(list(unknowns.at_box(s).values()))
    values = np.full((SAMPLES, len(loads), len(NAMES)), np.nan)
    for i, one in enumerate(w):
        with suppress(RuntimeError):  # no equilibrium: a sample less
            values[i] = [fine(pull, found.z + spread @ one) for pull in loads]
    coarse = np.array([rough(pull, found.z) for pull in loads])
    kept = np.isfinite(values).all(axis=(1, 2))
    # of each marker: the change with the segments over its way from rest
    apart, way = (a.reshape(len(loads), 4, 3)[1:] for a in (values[0] - coarse, values[0] - values[0, :1]))
    share = np.linalg.norm(apart, axis=2).mean(axis=0) / np.linalg.norm(way, axis=2).mean(axis=0)
    curves = {m: fitted_curve(s[kept], loads, values[kept][:, :, j], m) for j, m in enumerate(NAMES)}
    response = FittedResponse(
        curves, {m: float(share[j // 3]) for j, m in enumerate(NAMES)}, {}, tuple(range(len(COORDINATES)))
    )
    return Local(response, found.z, spread)


def conditioned(section: str, data: Path, holds: np.ndarray) -> Posterior:
    """Return the posterior of a section from holds (h, 14)."""
    local = model(section, data)
    test = Weighted(as_unknowns(UNKNOWNS), local.fitted, rows_of(holds), ERROR, local)
    found = sample(test.likelihood, test.dimensions, DRAWS, np.random.default_rng(SEED))
    return Posterior(test, found.z, found.evidence, found.effective, SEED)


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
        low, value, high = np.quantile(draws, (0.025, 0.5, 0.975), axis=0)
        for pull, v, lo, hi in zip(pulls, value, low, high):
            least, most = max(float(lo), min(-REACH, float(v))), min(float(hi), max(REACH, float(v)))
            rows.append(Row("tentacle", float(pull[0]), float(pull[1]), name, "m", float(v), least, most))
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
        lines += [f"{s}:", *("  " + line for line in lines(p))]
        lines += [f"  {t.measure}: {100 * t.share:.1f} %" for t in p.trends[:3]]
    return mixed(found, share, asked(data)), lines
