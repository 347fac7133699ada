"""Several models on the same tests: the table, the recommendation, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.calibrate.calibration import Calibration, Tests, fit_prepared, prepare_tests, show_constant
from geosim.errors import InputError

__all__ = ["DEFAULT_MODELS", "ModelComparison", "compare_models", "plot_models"]

DEFAULT_MODELS = ("neo-hookean", "mooney-rivlin", "yeoh", "gent", "ogden")
FROM_ONE_MODE = ("neo-hookean", "yeoh", "gent")


@dataclass(frozen=True)
class ModelComparison:
    """The models fitted to the same samples, best AICc first."""

    calibrations: tuple[Calibration, ...]

    @property
    def recommended(self) -> Calibration:
        """The stable model with the lowest AICc.

        Where all tests are of one mode of loading only models of I1 alone are taken: their response in the modes
        not tested follows from the one tested, while that of I2 and of Ogden's exponents is left to chance
        [Yeoh 1993, Rubber Chem. Technol. 66].
        """
        stable = [c for c in self.calibrations if c.stable] or list(self.calibrations)
        if len({t.mode for t in self.calibrations[0].tests}) == 1:
            stable = [c for c in stable if c.model in FROM_ONE_MODE] or stable
        return stable[0]

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        best = self.calibrations[0].aicc
        out = ["model           constants  rms %   dAICc     stable  parameters"]
        for c in self.calibrations:
            values = ", ".join(f"{n} {show_constant(n, v)}" for n, v in c.parameters.items())
            out.append(
                f"{c.model:15s} {len(c.parameters):9d}  {100 * c.rms:5.2f}  {c.aicc - best:7.1f}   "
                f"{'yes' if c.stable else 'no':6s}  {values}"
            )
        c = self.recommended
        why = " (of I1 alone, since one mode was tested)" if c.aicc > best and c.model in FROM_ONE_MODE else ""
        return [*out, f"recommended: {c.model}, rms {100 * c.rms:.2f} % of the largest stress{why}"]

    def plot(self, path: str | Path) -> Path:
        """Write a picture of tests and all models; the path is returned."""
        return plot_models(self.calibrations, path)


def compare_models(
    tests: Tests,
    models: Sequence[str] = DEFAULT_MODELS,
    *,
    max_stretch: float | None = None,
    weights: Any = None,
    stable: bool = True,
    window: tuple[float, float] | None = None,
    toe: str | float | None = None,
    confidence: float = 0.95,
    density: float = 1070.0,
) -> ModelComparison:
    """Fit several models to the same samples; the arguments are those of `fit`."""
    used = prepare_tests(tests, max_stretch, window, toe)
    fits = [fit_prepared(used, model, weights, stable, confidence, density) for model in models]
    return ModelComparison(tuple(sorted(fits, key=lambda c: c.aicc)))


def plot_models(calibrations: Sequence[Calibration], path: str | Path) -> Path:
    """Plot tests and models, one panel per mode; the path is returned.

    Raises
    ------
    InputError
        The folder does not exist.
    """
    from matplotlib.figure import Figure

    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    tests = calibrations[0].tests
    modes = list(dict.fromkeys(t.mode for t in tests))
    figure = Figure(figsize=(5.0 * len(modes), 4.0), layout="constrained")
    for axis, mode in zip(np.ravel(figure.subplots(1, len(modes))), modes):
        here = [t for t in tests if t.mode == mode]
        for test in here:
            axis.plot(test.stretch, test.nominal_stress / 1e3, ".", markersize=4, label=test.name or mode)
        ends = [f(np.concatenate([t.stretch for t in here])) for f in (np.min, np.max)]
        stretch = np.linspace(min(ends[0], 1.0), max(ends[1], 1.0), 200)
        for c in calibrations:
            axis.plot(stretch, c.stress(mode, stretch) / 1e3, label=f"{c.model}, rms {100 * c.rms:.2f} %")
        axis.set(xlabel="stretch", ylabel="nominal stress [kPa]", title=mode)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    return path
