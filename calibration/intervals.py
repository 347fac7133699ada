"""How often the 95 % intervals of a material fit hold the truth: synthetic tests, 3 % noise, 1000 draws of a fixed seed.

    python calibration/intervals.py [DRAWS]

Three tests (uniaxial, equibiaxial, pure shear) of 20 points up to stretch 3; noise in proportion to every stress, or of 3 %
of the largest. Beside the coverage stands the width of the interval over that of a parametric bootstrap. With a constant
whose truth is on its bound the interval is one-sided, and its limit is to hold the truth as often.
"""

from __future__ import annotations

import sys

import numpy as np

from geosim.apps.calibrate.curves import nominal_stress
from geosim.apps.calibrate.fitting import Samples, estimate

TRUTH = {
    "neo-hookean": [80e3],
    "mooney-rivlin": [40e3, 10e3],
    "yeoh": [40e3, 1.5e3, 60.0],
    "gent": [80e3, 40.0],
    "ogden": [60e3, 2.6],
}
MODES = ("uniaxial", "equibiaxial", "pure-shear")
STRETCH = np.linspace(1.05, 3, 20)


def study(model: str, kind: str, draws: int, truth: list[float]) -> tuple[np.ndarray, np.ndarray, int]:
    """Return coverage [%] and width over the bootstrap's of every constant, and how many draws have a bound active."""
    rng = np.random.default_rng(1)
    exact = np.concatenate([nominal_stress(model, truth, m, STRETCH) for m in MODES])
    scale = np.abs(exact) if kind == "proportional" else np.abs(exact).max()
    hits, widths, values, active = np.zeros(len(truth)), [], [], 0
    for _ in range(draws):
        noisy = exact + 0.03 * scale * rng.standard_normal(len(exact))
        found = estimate(Samples(MODES, (STRETCH,) * 3, noisy, np.ones(60)), model)
        hits += (found.intervals[:, 0] <= truth) & (found.intervals[:, 1] >= truth)
        widths.append(found.intervals[:, 1] - found.intervals[:, 0])
        values.append(found.parameters)
        active += bool((np.array(found.parameters) == 0.0).any())
    spread = np.quantile(values, 0.975, axis=0) - np.quantile(values, 0.025, axis=0)
    return 100.0 * hits / draws, np.median(widths, axis=0) / spread, active


def main(draws: int = 1000) -> int:
    """Show coverage and widths of all models; return how many lie outside of 93 .. 97 % or 20 %."""
    wrong = 0
    for model, truth in TRUTH.items():
        for kind in ("proportional", "uniform"):
            cover, width, _ = study(model, kind, draws, truth)
            wrong += int(((cover < 93.0) | (cover > 97.0) | (np.abs(width - 1.0) > 0.2)).sum())
            sys.stdout.write(
                f"{model:14s} {kind:13s} coverage " + ", ".join(f"{c:.1f}" for c in cover) + " %; width over the "
                "bootstrap's " + ", ".join(f"{w:.2f}" for w in width) + "\n"
            )
    cover, _, active = study("mooney-rivlin", "uniform", draws, [50e3, 0.0])
    sys.stdout.write(
        f"mooney-rivlin with c2 = 0 in truth: its bound is active in {active} of {draws} draws; coverage "
        + ", ".join(f"{c:.1f}" for c in cover)
        + " %\n"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*(int(a) for a in sys.argv[1:2])) else 0)
