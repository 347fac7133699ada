"""Several models on the same tests: the table, the recommendation, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from geosim.calibrate.calibration import Calibration, Tests, Weights, fit_prepared, prepare_tests, show_constant
from geosim.calibrate.curves import find_model
from geosim.calibrate.picture import plot_fits
from geosim.material.laws import LAWS

__all__ = ["DEFAULT_MODELS", "ModelComparison", "compare_models"]

DEFAULT_MODELS = tuple(LAWS)


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
            stable = [c for c in stable if find_model(c.model).of_first_invariant] or stable
        return stable[0]

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        best = self.calibrations[0].aicc
        out = ["model           constants  rms %   dAICc     stable  parameters"]
        for c in self.calibrations:
            values = ", ".join(f"{n} {show_constant(c.model, n, v)}" for n, v in c.parameters.items())
            out.append(
                f"{c.model:15s} {len(c.parameters):9d}  {100 * c.rms:5.2f}  {c.aicc - best:7.1f}   "
                f"{'yes' if c.stable else 'no':6s}  {values}"
            )
        c = self.recommended
        simpler = c.aicc > best and find_model(c.model).of_first_invariant
        why = " (of I1 alone, since one mode was tested)" if simpler else ""
        return [*out, f"recommended: {c.model}, rms {100 * c.rms:.2f} % of the largest stress{why}"]

    def plot(self, path: str | Path) -> Path:
        """Write a picture of tests and all models; the path is returned."""
        return plot_fits(self.calibrations[0].tests, {c.label: c.stress for c in self.calibrations}, path)


def compare_models(
    tests: Tests,
    models: Sequence[str] = DEFAULT_MODELS,
    *,
    max_stretch: float | None = None,
    weights: Weights = None,
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
