"""`fit`, and several models on the same tests: the table, the recommendation, the picture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geosim.apps.calibrate.calibration import Calibration, fit_prepared, show_constant
from geosim.apps.calibrate.picture import plot_fits
from geosim.apps.calibrate.preparing import DEFAULT_MAX_STRETCH, Tests, Weights, doubts, farthest, prepare_tests, within
from geosim.apps.calibrate.samples import MaterialTest
from geosim.apps.calibrate.uncertainty import GAUGE_ERROR, akaike_weights, criterion
from geosim.arguments import guarded
from geosim.arrays import number, shown
from geosim.errors import InputError
from geosim.material.laws import LAWS
from geosim.material.materials import SILICONE_DENSITY
from geosim.model.tolerances import CONFIDENCE_LEVEL

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
        """The stable model with the lowest AICc; without a stable one the lowest of all.

        Modes that were not tested are left to its law; `half_width` of `fit(..., "best")` says how far the laws differ there.
        """
        return next((c for c in self.calibrations if c.stable), self.calibrations[0])

    @property
    def weights(self) -> tuple[tuple[float, Calibration], ...]:
        """Akaike weights of the stable laws (of all, where none is stable), and their fits."""
        stable = tuple(c for c in self.calibrations if c.stable) or self.calibrations
        return tuple(zip(akaike_weights([c.aicc for c in stable]).tolist(), stable))

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
        passed = [other.model for other in self.calibrations[: self.calibrations.index(c)]]
        why = f" ({', '.join(passed)} fits better and is unstable)" if passed else ""
        return [*out, *self.refused, f"recommended: {c.model}, rms {100 * c.rms:.2f} % of the largest stress{why}"]

    def plot(self, path: str | Path) -> Path:
        """Write a picture of tests and all models; the path is returned."""
        return plot_fits(self.calibrations[0].tests, {c.label: c.stress for c in self.calibrations}, path)


@dataclass(frozen=True)
class _Fits:
    """Fits of the same tests in one way, in one range or another.

    `options`: weights, stable, confidence, density [kg/m^3], error of gauge lengths.
    """

    tests: tuple[MaterialTest, ...]
    max_stretch: float | None
    window: tuple[float, float] | None
    options: tuple[Weights, bool, float, float, float]

    def __post_init__(self) -> None:
        *_, confidence, _, gauge_error = self.options
        number(confidence, "calibrate: confidence", above=0.0, high=math.nextafter(1.0, 0.0))
        number(gauge_error, "calibrate: gauge_error (relative)", low=0.0, high=0.5)

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
        return ModelComparison(tuple(sorted(_compared(found), key=lambda c: c.aicc)), tuple(refused))

    def chosen(self, model: str) -> Calibration:
        """Fit the model, or the recommended one, in the longest range in which it holds; and say what is doubtful."""
        first, *shorter = self.limits
        models = DEFAULT_MODELS if model == RECOMMENDED or model in DEFAULT_MODELS else (*DEFAULT_MODELS, model)
        whole = found = self.picked(model, models, first)
        limit = first
        while found.rms > MAX_MISFIT_REL and shorter:
            limit = shorter.pop(0)
            found = self.picked(whole.model, models, limit)
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

    def picked(self, model: str, models: Sequence[str], limit: float) -> Calibration:
        """Return the fit of a model, or of the recommended one, in a range, with the weights of all laws beside it.

        Raises
        ------
        InputError
            The tests do not determine the model.
        """
        table = self.table(models, limit)
        if model == RECOMMENDED:
            return dataclasses.replace(table.recommended, laws=table.weights)
        mine = next((c for c in table.calibrations if c.model == model), None)
        if mine is None:
            (mine,) = self.table([model], limit).calibrations  # refuses, and says why
        return dataclasses.replace(mine, laws=table.weights)

    def _advice(self, found: Calibration, limit: float) -> list[str]:
        """Name Yeoh where Mooney-Rivlin is held by its stability, and Yeoh fits better."""
        if not self.options[1] or found.model != "mooney-rivlin" or not found.warnings:
            return []
        (yeoh,) = self.table(["yeoh"], limit).calibrations
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
    toe: str | float | None = "auto",
    confidence: float = CONFIDENCE_LEVEL,
    density: float = SILICONE_DENSITY,
    gauge_error: float = GAUGE_ERROR,
) -> ModelComparison:
    """Fit several models to the same samples; the arguments are as in `fit`."""
    options = weights, stable, confidence, density, gauge_error
    fits = _Fits(prepare_tests(tests, toe), max_stretch, window, options)
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
    toe: str | float | None = "auto",
    confidence: float = CONFIDENCE_LEVEL,
    density: float = SILICONE_DENSITY,
    gauge_error: float = GAUGE_ERROR,
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
        "auto": where loading began is found from the first rise (see `find_toe`), and its error goes into the intervals; "none"
        or None: strains as they are; or the strain at which loading really began.
    confidence
        Level of the intervals.
    density
        Of the material that is returned [kg/m^3].
    gauge_error
        Relative standard deviation of the gauge length of every test; the cross-section is taken as it is given.

    Raises
    ------
    InputError
        The tests cannot be read or do not determine the model.
    """
    if not isinstance(model, str):
        raise InputError(f"model {shown(model)} is unknown; give its name")
    options = weights, stable, confidence, density, gauge_error
    return _Fits(prepare_tests(tests, toe), max_stretch, window, options).chosen(model)


def _compared(found: Sequence[Calibration]) -> list[Calibration]:
    """Return fits of the same samples with criteria that compare: samples count as the residuals of the best are independent."""
    time = min(found, key=lambda c: c.rms).correlation_time
    samples = sum(len(t.stretch) for t in found[0].tests)
    return [dataclasses.replace(c, aicc=criterion(samples, time, c.mean_square, c.free)) for c in found]


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
