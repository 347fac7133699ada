"""`fit`, and several models on the same tests: the table, the recommendation, the picture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geosim.apps.calibrate.calibration import Calibration, fit_prepared, show_constant
from geosim.apps.calibrate.curves import find_model
from geosim.apps.calibrate.picture import plot_fits
from geosim.apps.calibrate.preparing import DEFAULT_MAX_STRETCH, Tests, Weights, doubts, farthest, prepare_tests, within
from geosim.apps.calibrate.samples import MaterialTest
from geosim.arguments import guarded
from geosim.arrays import number, shown
from geosim.errors import InputError
from geosim.material.laws import LAWS

DEFAULT_MODELS = tuple(LAWS)
RECOMMENDED = "best"  # the model that is recommended
MAX_MISFIT_REL = 0.05  # rms over the largest stress up to which a model describes its tests


@guarded
@dataclass(frozen=True)
class ModelComparison:
    """The models fitted to the same samples, best AICc first, and why others were not fitted."""

    calibrations: tuple[Calibration, ...]
    refused: tuple[str, ...] = ()

    @property
    def recommended(self) -> Calibration:
        """The stable model with the lowest AICc.

        Where all tests are of one mode of loading only models of I1 alone are taken: their response in the modes
        not tested follows from the one tested, while that of I2 and of Ogden's exponents is left to chance
        [Yeoh 1993, Rubber Chem. Technol. 66]. Of vulcanised rubber [Treloar 1944] pulled to stretch 3, Yeoh with a
        negative c2 says equibiaxial stresses to 12 %, Mooney-Rivlin, whose AICc is as good, to 57 %.
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
        return [*out, *self.refused, f"recommended: {c.model}, rms {100 * c.rms:.2f} % of the largest stress{why}"]

    def plot(self, path: str | Path) -> Path:
        """Write a picture of tests and all models; the path is returned."""
        return plot_fits(self.calibrations[0].tests, {c.label: c.stress for c in self.calibrations}, path)


@dataclass(frozen=True)
class _Fits:
    """Fits of the same tests in one way, in one range or another."""

    tests: tuple[MaterialTest, ...]
    max_stretch: float | None
    window: tuple[float, float] | None
    options: tuple[Weights, bool, float, float]

    @property
    def is_default(self) -> bool:
        return self.max_stretch is None and self.window is None

    @property
    def limits(self) -> list[float]:
        """Largest stretches to try: the one given, else the default range and shorter ones, while samples are enough."""
        if not self.is_default:
            return [math.inf if self.max_stretch is None else self.max_stretch]
        sparse, _ = farthest(self.tests)
        # stretch to which the default range shrinks where a model does not, and its steps
        min_default_stretch, stretch_range_step = 1.2, 0.1
        return (
            np.arange(DEFAULT_MAX_STRETCH, min_default_stretch, -stretch_range_step).tolist()
            if sparse == DEFAULT_MAX_STRETCH
            else [sparse]
        )

    def table(self, models: Sequence[str], limit: float) -> ModelComparison:
        used, found, refused = within(self.tests, limit, self.window), [], []
        for model in models:
            try:
                found.append(fit_prepared(used, model, *self.options))
            except InputError as error:  # pure shear alone does not tell I1 from I2
                refused.append(f"{model} is left out: {error}")
                if len(refused) == len(models):
                    raise
        return ModelComparison(tuple(sorted(found, key=lambda c: c.aicc)), tuple(refused))

    def chosen(self, model: str) -> Calibration:
        """Fit the model, or the recommended one, in the longest range in which it holds; and say what is doubtful."""
        first, *shorter = self.limits
        whole = found = self.table(DEFAULT_MODELS if model == RECOMMENDED else [model], first).recommended
        limit = first
        while found.rms > MAX_MISFIT_REL and shorter:
            limit = shorter.pop(0)
            found = self.table([whole.model], limit).recommended
        wrong = doubts(self.tests)
        if found.rms > MAX_MISFIT_REL:
            found, limit = whole, first
            wrong.append(
                f"{found.model} is off by {100 * found.rms:.3g} % rms of the largest stress (a model that fits: "
                f"{100 * MAX_MISFIT_REL:g} %): another model, another max_stretch=, or a mistake in the tests?"
            )
        how = [f"{found.model}: recommended of {len(DEFAULT_MODELS)} models"] if model == RECOMMENDED else []
        how += [_range(self.tests, found, limit, limit < first)] if self.is_default else []
        said = (*wrong, *found.warnings, *self._advice(found, limit))
        return dataclasses.replace(found, warnings=said, doubts=tuple(wrong), choice="; ".join(how))

    def _advice(self, found: Calibration, limit: float) -> list[str]:
        """Name Yeoh where Mooney-Rivlin is held by its stability, and Yeoh fits better."""
        if not self.options[1] or found.model != "mooney-rivlin" or not found.warnings:
            return []
        yeoh = self.table(["yeoh"], limit).recommended
        if yeoh.rms >= found.rms:
            return []
        rms = f"with rms {100 * yeoh.rms:.2f} %, {found.model} with {100 * found.rms:.2f} %"
        return [f'yeoh fits these tests {rms}: recommended is model="yeoh"']


@guarded
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
    fits = _Fits(prepare_tests(tests, toe), max_stretch, window, (weights, stable, confidence, density))
    return fits.table(models, fits.limits[0])


@guarded
def fit(
    tests: Tests,
    model: str = "mooney-rivlin",
    *,
    max_stretch: float | None = None,
    weights: Weights = None,
    stable: bool = True,
    window: tuple[float, float] | None = None,
    toe: str | float | None = None,
    confidence: float = 0.95,
    density: float = 1070.0,
) -> Calibration:
    """Fit the constants of a model to one or several tests together.

    Parameters
    ----------
    tests
        `MaterialTest` objects or paths of CSV files.
    model
        "neo-hookean", "mooney-rivlin", "yeoh", "gent", "ogden", "ogden-2", "ogden-3", or "best": what `compare_models`
        recommends.
    max_stretch
        Samples beyond it (in compression below its inverse) are left out; inf uses all. Default: 2, where soft robots
        work (farther where a test has fewer than 8 samples there), or less where the model is off by more than 5 % rms.
    weights
        None or "stress": all nominal stresses alike; "relative": by the stress; "per-test": every test alike;
        a number per test; or {name: number}. Numbers weigh squared residuals.
    stable
        Whether the material must be stable (Drucker) at all stretches: non-negative constants for neo-Hookean,
        Mooney-Rivlin, Gent; mu alpha >= 0 in every Ogden term; the stability cone for Yeoh.
    window
        Smallest and largest strain used.
    toe
        None, "auto" (see `toe_offset`), or the strain at which loading really began.
    confidence
        Level of the intervals.
    density
        Of the material that is returned [kg/m^3].

    Raises
    ------
    InputError
        The tests cannot be read or do not determine the model.
    """
    if not isinstance(model, str):
        raise InputError(f"model {shown(model)} is unknown; give its name")
    number(confidence, "calibrate: confidence", above=0.0, high=math.nextafter(1.0, 0.0))
    fits = _Fits(prepare_tests(tests, toe), max_stretch, window, (weights, stable, confidence, density))
    return fits.chosen(model)


def _range(tests: Sequence[MaterialTest], found: Calibration, limit: float, shrunk: bool) -> str:
    """Say which samples the default range takes, and why."""
    _, reached = farthest(tests)
    if reached <= limit:
        return f"all samples, to stretch {reached:.3g}"
    why = (
        "where soft robots work"
        if limit == DEFAULT_MAX_STRETCH
        else f"beyond {DEFAULT_MAX_STRETCH:g}, where a test has too few samples"
    )
    if shrunk:
        why = f"the longest range in which {found.model} is off by at most {100 * MAX_MISFIT_REL:g} % rms"
    return f"samples to stretch {limit:.3g} of {reached:.3g}, {why} (max_stretch= takes another range, inf all)"
