"""The picture of tests and the models fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from geosim.apps.calibrate.samples import MaterialTest
from geosim.arrays import Floats
from geosim.writing import checked_target


def plot_fits(
    tests: Sequence[MaterialTest], models: Mapping[str, Callable[[str, Floats], Floats]], path: str | Path
) -> Path:
    """Plot tests and models {label: (mode, stretch) -> stress [Pa]}, one panel per mode; the path is returned.

    Raises
    ------
    InputError
        The folder does not exist.
    """
    from matplotlib.figure import Figure

    path = checked_target(path, ".png", ".pdf", ".svg")
    modes = list(dict.fromkeys(t.mode for t in tests))
    figure = Figure(figsize=(5.0 * len(modes), 4.0), layout="constrained")
    for axis, mode in zip(np.ravel(figure.subplots(1, len(modes))), modes):
        here = [t for t in tests if t.mode == mode]
        for test in here:
            axis.plot(test.stretch, test.nominal_stress / 1e3, ".", markersize=4, label=test.name or mode)
        reached = np.concatenate([[1.0], *(t.stretch for t in here)])
        stretch = np.linspace(reached.min(), reached.max(), 200)
        for label, stress in models.items():
            axis.plot(stretch, stress(mode, stretch) / 1e3, label=label)
        axis.set(xlabel="stretch", ylabel="nominal stress [kPa]", title=mode)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    return path
