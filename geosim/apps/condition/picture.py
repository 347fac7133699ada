"""The pairs plot of a posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats


def pairs(draws: Mapping[str, Floats], priors: Sequence[Any], path: Path) -> Path:
    """Draw every unknown against every other, histograms on the diagonal; axes span 99.8 % of the priors."""
    from matplotlib.figure import Figure

    names = list(draws)
    count = len(names)
    side = 2.1 * count  # inches
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots(count, count, squeeze=False)
    ends = [(float(prior.ppf(1e-3)), float(prior.ppf(1.0 - 1e-3))) for prior in priors]
    for i, below in enumerate(names):
        for j, left in enumerate(names):
            axis = axes[i][j]
            if j > i:
                axis.set_axis_off()
                continue
            axis.set_xlim(*ends[j])
            if i == j:
                axis.hist(draws[left], bins=np.linspace(ends[j][0], ends[j][1], 31), color="#2a6f97")
                axis.set_yticks([])
            else:
                axis.plot(draws[left], draws[below], ".", ms=2, alpha=0.3, color="#2a6f97")
                axis.set_ylim(*ends[i])
            axis.tick_params(labelsize=7)
            if i == count - 1:
                axis.set_xlabel(left, fontsize=8)
            if j == 0 and i > 0:
                axis.set_ylabel(below, fontsize=8)
    figure.savefig(path, dpi=100)
    return path
