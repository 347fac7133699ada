"""The picture of tests and the laws fitted to them, and how far the laws part beyond the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.calibrate.samples import MaterialTest
from geosim.arrays import Floats
from geosim.writing import checked_target

Curve = Callable[[str, Floats], Floats]  # of a mode at stretches, [Pa]
REACH = 1.5  # times the tested stretch to which laws and their interval are shown


def plot_fits(
    tests: Sequence[MaterialTest], models: Mapping[str, Curve], path: str | Path, half_width: Curve | None = None
) -> Path:
    """Plot tests and models by label, the first in front, one panel per mode; the path is returned.

    With `half_width` the interval of the first model is drawn, and all of them to 1.5 times the tested stretch.

    Raises
    ------
    InputError
        The folder does not exist.
    """
    from matplotlib.figure import Figure

    path = checked_target(path, ".png", ".pdf", ".svg")
    modes = list(dict.fromkeys(t.mode for t in tests))
    figure = Figure(figsize=(5.5 * len(modes), 4.4), layout="constrained")
    for axis, mode in zip(np.ravel(figure.subplots(1, len(modes))), modes):
        here = [t for t in tests if t.mode == mode]
        reached = np.concatenate([[1.0], *(t.stretch for t in here)])
        low, high = float(reached.min()), float(reached.max())
        far = 1.0 if half_width is None else REACH
        stretch = np.geomspace(
            low / far if mode == "compression" else low, high if mode == "compression" else far * high, 200
        )
        _draw(axis, mode, stretch, models, half_width)
        for test in here:
            axis.plot(test.stretch, test.nominal_stress / 1e3, "k.", markersize=4, label=test.name or mode, zorder=4)
        if half_width is not None:
            axis.axvline(low if mode == "compression" else high, color="gray", linestyle=":", label="end of the test")
        axis.set(xlabel="stretch", ylabel="nominal stress [kPa]", title=mode)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    return path


def _draw(axis: Any, mode: str, stretch: Floats, models: Mapping[str, Curve], half_width: Curve | None) -> None:
    """Draw the curves, and the interval of the first; other laws may leave the picture."""
    top = 0.0
    for i, (label, stress) in enumerate(models.items()):
        values = stress(mode, stretch) / 1e3
        if i == 0:
            top = float(np.nanmax(np.abs(values)))
            if half_width is not None:
                half = half_width(mode, stretch) / 1e3
                top = float(np.nanmax(np.abs(values) + half))
                axis.fill_between(stretch, values - half, values + half, alpha=0.2, color="C0", label="interval")
            axis.plot(stretch, values, color="C0", linewidth=2.0, label=label, zorder=3)
        else:
            shown = np.where(np.abs(values) <= 1.1 * top, values, np.nan)
            axis.plot(stretch, shown, "--", color=f"C{i}", linewidth=1.0, label=label)
