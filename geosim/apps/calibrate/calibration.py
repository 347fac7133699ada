"""The result of a calibration: constants, confidence intervals, statement of stability, MATERIAL.toml."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.calibrate.curves import (
    MAX_EXAMINED_STRETCH,
    MODES,
    constants_of,
    find_model,
    first_unstable,
    mode_name,
    nominal_stress,
    sensitivities,
    sign_change,
)
from geosim.apps.calibrate.fitting import Estimate, Samples, correlations, estimate
from geosim.apps.calibrate.picture import REACH, plot_fits
from geosim.apps.calibrate.preparing import Weights, weigh
from geosim.apps.calibrate.samples import MaterialTest
from geosim.apps.calibrate.uncertainty import (
    BEYOND_SPREAD,
    GAUGE_ERROR,
    beyond,
    criterion,
    deviation,
    modulus_slopes,
    propagated,
    widened,
)
from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Floats, real_array
from geosim.material.materials import SILICONE_DENSITY, UNSAID_SOFTENING, Hyperelastic
from geosim.model.tolerances import CONFIDENCE_LEVEL, half_width_factor
from geosim.writing import checked_target, figure_and_text, replacing

MIN_LAW_WEIGHT = 0.005  # weight below which a law changes nothing and is not named


@guarded
@dataclass(frozen=True)
class Calibration:
    """A fitted material with the evidence for it.

    Parameters
    ----------
    model
        Name of the model.
    parameters
        Constants by name [Pa; jm and alpha dimensionless].
    intervals
        {name: (low, high)} at `confidence`.
    sides
        {name: "two-sided" | "upper" | "lower"}: "upper" is an interval from an active bound up, "lower" one
        without an upper limit.
    rms
        Root mean square of the stress residuals over the largest stress, dimensionless.
    rms_stress
        The same in Pa.
    aicc
        Corrected Akaike criterion of as many samples as residuals are independent; only differences between models of the same
        samples mean something.
    stretch_range
        Smallest and largest stretch that was used.
    stable
        Whether the material is stable (Drucker) in every mode to a stretch of 30.
    statement
        Where it is unstable, or that it is not.
    warnings
        What a user should know, one sentence each.
    tests
        The tests as used (window and toe correction applied).
    doubts
        What is probably a mistake in the tests; these are among the warnings.
    choice
        How model and range were chosen; empty where both were given.
    covariance
        Of the constants, (p, p), with the errors of toe and gauge length; not finite for constants on a bound.
    correlation_time
        How many residuals in a row tell as much as one independent one.
    mean_square
        Of the weighted residuals, over the largest weighted stress squared.
    free
        Constants that no bound holds.
    laws
        (weight, fit) of the laws that are averaged, the model itself among them.
    weighting
        Name of the weighting.
    confidence
        Level of the intervals.
    correlations
        Between the constants, shape (p, p); nan for constants on a bound.
    density
        [kg/m^3].
    """

    model: str
    parameters: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    sides: Mapping[str, str]
    rms: float
    rms_stress: float
    aicc: float
    stretch_range: tuple[float, float]
    stable: bool
    statement: str
    warnings: tuple[str, ...]
    tests: tuple[MaterialTest, ...]
    weighting: str = "stress"
    confidence: float = CONFIDENCE_LEVEL
    correlations: Any = None
    density: float = SILICONE_DENSITY
    doubts: tuple[str, ...] = ()
    choice: str = ""
    covariance: Any = None
    correlation_time: float = 1.0
    mean_square: float = 0.0
    free: int = 0
    laws: tuple[tuple[float, Calibration], ...] = ()

    @property
    def material(self) -> Hyperelastic:
        """The material, incompressible.

        Raises
        ------
        InputError
            The constants describe no material (possible with stable=False).
        """
        plain = find_model(self.model).law.of_constants(self._constants, density=self.density)
        if not self.laws:
            return plain
        low, high = self.stretch_range
        known = max(high, 1.0 / low)
        return plain.known_as(self._origin, known, self.modulus_error, UNSAID_SOFTENING, self._alternatives())

    @property
    def _constants(self) -> Floats:
        return np.array(list(self.parameters.values()))

    @property
    def _origin(self) -> str:
        return "fitted to " + ", ".join(t.name or t.mode for t in self.tests)

    def stress(self, mode: str, stretch: ArrayLike) -> Floats:
        """Nominal stress [Pa] of the fitted material, shape of `stretch`."""
        return nominal_stress(self.model, self.parameters, mode, stretch)

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest [Pa]."""
        moduli = find_model(self.model).moduli  # the stress is linear in these, the others shape a term
        return float(modulus_slopes(self.model, self._constants) @ np.where(moduli, self._constants, 0.0))

    @property
    def modulus_error(self) -> float:
        """Relative standard deviation of the shear modulus at rest: of the constants, and between the laws that fit."""
        own = self.shear_modulus
        variance = 0.0
        for weight, law in self.laws or ((1.0, self),):
            slopes = modulus_slopes(law.model, law._constants)[None]
            variance += weight * ((law.shear_modulus - own) ** 2 + float(propagated(slopes, law.covariance)[0]))
        return math.sqrt(variance) / own

    @property
    def modulus_interval(self) -> tuple[float, float]:
        """Interval of the shear modulus at rest [Pa] at `confidence`, over the laws that fit."""
        half = half_width_factor(self.confidence) * self.modulus_error * self.shear_modulus
        return self.shear_modulus - half, self.shear_modulus + half

    def half_width(self, mode: str, stretch: ArrayLike) -> Floats:
        """Half-width of the interval of the stress [Pa] at `confidence`, shape of `stretch`.

        It holds the errors of the constants, the other laws that fit, and what rubber does beyond the tested stretch.
        """
        s = np.atleast_1d(real_array(stretch, "half_width: stretch"))
        own = self.stress(mode, s)
        variance = (BEYOND_SPREAD * beyond(s, self.stretch_range) * own) ** 2
        for weight, law in self.laws or ((1.0, self),):
            spread = propagated(sensitivities(law.model, law._constants, mode_name(mode), s), law.covariance)
            off = deviation(own, law.stress(mode, s))
            variance = variance + weight * (off**2 + np.minimum(np.nan_to_num(spread, nan=np.inf), own**2))
        return np.asarray(half_width_factor(self.confidence) * np.sqrt(variance))

    @property
    def _others(self) -> list[tuple[float, Calibration]]:
        return [(w, c) for w, c in self.laws if c.model != self.model and w >= MIN_LAW_WEIGHT]

    def _alternatives(self) -> tuple[tuple[float, Hyperelastic], ...]:
        """Return the other laws with their weights, and one that stiffens beyond the tested stretch as rubber may.

        A law that locks within twice the tested stretch is left out: no body can be solved with it, and the stiffer one is near.
        """
        far = 2.0 * max(self.stretch_range[1], 1.0 / self.stretch_range[0])
        made = [
            (w, find_model(c.model).law.of_constants(c._constants, density=self.density))
            for w, c in self._others
            if np.isfinite(c.stress("equibiaxial", far)).all()
        ]
        edge = stiffer_beyond(self.stress, self.stretch_range, self.tests[0].mode)
        return (*made, (1.0, dataclasses.replace(edge, density=self.density)))

    @property
    def label(self) -> str:
        """Model and misfit, as a picture names them."""
        return f"{self.model}, rms {100 * self.rms:.2f} %"

    def __repr__(self) -> str:
        constants = ", ".join(f"{k} {show_constant(self.model, k, v).strip()}" for k, v in self.parameters.items())
        doubts = f", {len(self.doubts)} to check" if self.doubts else ""
        return f"Calibration({self.label}, {constants}, {len(self.tests)} test(s){doubts})"

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory(prefix="geosim-picture-") as folder:
            return figure_and_text(self.plot(Path(folder) / "p.png"), "tests and model", self.lines())

    def lines(self) -> list[str]:
        """Return the calibration as lines of text: constants with intervals, misfit, stability, warnings."""
        out = [
            f"{self.model}, {sum(len(t.stretch) for t in self.tests)} samples of {len(self.tests)} test(s), stretch "
            f"{self.stretch_range[0]:.3g} .. {self.stretch_range[1]:.3g}, weighting {self.weighting}",
            *([f"  {self.choice}"] if self.choice else []),
        ]
        for name, value in self.parameters.items():
            out.append(f"  {name:6s} {show_constant(self.model, name, value)}   {self._interval(name)}")
        out += self._law_lines()
        out.append(
            f"  rms {100 * self.rms:.2f} % of the largest stress ({self.rms_stress:.4g} Pa), AICc {self.aicc:.1f}"
        )
        out.append(f"  {self.statement}")
        return out + [f"  {'check' if w in self.doubts else 'note'}: {w}" for w in self.warnings]

    def _law_lines(self) -> list[str]:
        """Say the shear modulus over all laws that fit, and how far they differ beyond the tests."""
        if not self.laws:
            return []
        low, high = (f"{v / 1e3:.4g}" for v in self.modulus_interval)
        said = ", ".join(f"{c.model} {100 * w:.0f} %" for w, c in self.laws if w >= MIN_LAW_WEIGHT)
        out = [
            f"  shear modulus at rest {self.shear_modulus / 1e3:.4g} kPa [{100 * self.confidence:g} %: {low} .. {high} kPa]; "
            f"weights of the laws: {said}"
        ]
        mode, top = self.tests[0].mode, self.stretch_range[1]
        if mode == "compression":
            return out
        far = top * np.array([1.0, 1.3, REACH])
        shares = 100.0 * self.half_width(mode, far) / np.abs(self.stress(mode, far))
        told = ", ".join(f"{share:.0f} % at {s:.3g}" for s, share in zip(far, shares))
        untested = [m for m in MODES if m != "compression" and m not in {t.mode for t in self.tests}]
        for other in untested:
            share = 100.0 * float(self.half_width(other, top)[0] / np.abs(self.stress(other, top)[0]))
            told += f"; {other} (not tested) {share:.0f} % at {top:.3g}"
        return [*out, f"  interval of the stress, half-width: {mode} {told}"]

    def _interval(self, name: str) -> str:
        low, high = (show_constant(self.model, name, v) for v in self.intervals[name])
        level = f"{100 * self.confidence:g} %"
        side = self.sides[name]
        if side == "upper" and self.intervals[name][1] == 0.0:
            return f"[on its bound, which the data reject: the free fit is below it even at {level} one-sided]"
        if side == "upper":
            return f"[on its bound; one-sided {level}: below {high}]"
        return f"[one-sided {level}: above {low}]" if side == "lower" else f"[{level}: {low} .. {high}]"

    def plot(self, path: str | Path) -> Path:
        """Write a picture of tests and model (suffix .png, .pdf or .svg); the path is returned.

        Raises
        ------
        InputError
            The folder does not exist.
        """
        others = {f"{c.model}, weight {100 * w:.0f} %": c.stress for w, c in self._others}
        return plot_fits(self.tests, {self.label: self.stress, **others}, path, self.half_width if self.laws else None)

    def save(self, path: str | Path, name: str = "", source: str = "") -> Path:
        """Write MATERIAL.toml: constants, source, range and statement; the path is returned.

        Raises
        ------
        InputError
            The constants describe no material, or the folder does not exist.
        """
        path = checked_target(path, ".toml")
        table = self.material.to_dict() | {
            "name": name or path.stem,
            "source": source or self._origin,
            "unsaid_softening": UNSAID_SOFTENING,
            **{k: getattr(self, k) for k in ("stretch_range", "rms", "stable", "statement", "warnings")},
        }
        fitted = {k: getattr(self, k) for k in ("confidence", "weighting", "aicc", "modulus_error")}
        text = [
            "# Moduli in Pa, density in kg/m^3. Valid within the stretch range; beyond it is extrapolation.",
            "[material]",
            *(f"{key} = {toml_value(value)}" for key, value in table.items()),
            "",
            "[calibration]",
            *(f"{key} = {toml_value(value)}" for key, value in fitted.items()),
            *(f"interval_{key} = {toml_value(ends)}  # {self.sides[key]}" for key, ends in self.intervals.items()),
        ]
        if self.laws:
            text += [
                "",
                "# laws that fit as well, by weight; the last is as this one and stiffens beyond the tested stretch",
            ]
        for weight, law in self._alternatives() if self.laws else ():
            table = {"weight": weight, **law.to_dict()}
            text += ["[[alternatives]]", *(f"{key} = {toml_value(value)}" for key, value in table.items())]
        with replacing(path) as beside:
            beside.write_text("\n".join(text) + "\n", encoding="utf-8")
        return path


def show_constant(model: str, name: str, value: float) -> str:
    """Return a constant of a model as text with its unit."""
    found = find_model(model)
    return f"{value / 1e3:.5g} kPa" if found.moduli[found.names.index(name)] else f"{value:.4g}"


def toml_value(value: Any) -> str:
    """Return a value as TOML, which writes strings, numbers and lists as JSON does, but infinity as inf."""
    return json.dumps(value, ensure_ascii=False).replace("Infinity", "inf").replace("NaN", "nan")


@guarded
def stability_statement(model: str, parameters: Mapping[str, float] | Sequence[float] | Floats) -> tuple[bool, str]:
    """Tell in which mode and from which stretch a material is unstable.

    Returns
    -------
    stable, statement
        What is unstable from which stretch on, by Drucker's criterion: the worst mode first, such as "C01 < 0:
        unstable in equibiaxial loading from stretch 1.35 (...)."; then, as sentences of their own, where the stress
        of that mode turns negative and from where the other modes are unstable.
    """
    known = find_model(model)
    values = constants_of(known, parameters).T.ravel()  # the kernels' order is term by term
    onset = {mode: first_unstable(model, values, mode) for mode in MODES}
    found = {mode: stretch for mode, stretch in onset.items() if np.isfinite(stretch)}
    if not found:
        return True, f"Stable (Drucker) in all modes to a stretch of {MAX_EXAMINED_STRETCH:g}."
    negative = [
        f"{c.symbol or n} < 0" for n, c, v in zip(known.names, known.constants, values) if v < 0 and c.unit == "Pa"
    ]
    worst = min(found, key=lambda m: (abs(np.log(found[m])), m != "equibiaxial"))
    others = [
        f"{m} {'below' if m == 'compression' else 'from'} stretch {s:.3g}" for m, s in found.items() if m != worst
    ]
    sentence = ", ".join(negative) + ": " if negative else ""
    sentence += (
        f"unstable in {worst} loading from stretch {found[worst]:.3g} (Drucker: a further strain does negative work)."
    )
    turn = sign_change(model, values, worst) if worst != "compression" else np.inf
    if np.isfinite(turn):
        sentence += f" Later, at stretch {turn:.3g}, the {worst} stress itself turns negative."
    return False, sentence + (f" Other modes: {', '.join(others)}." if others else "")


def stiffer_beyond(stress: Callable[[str, Floats], Floats], tested: tuple[float, float], mode: str) -> Hyperelastic:
    """Return a law that follows another within the tested stretch and is a standard deviation stiffer beyond it.

    It is the fit of two Ogden terms, or of Yeoh where that is nearer, to stress (1 + 0.42 ln(s / s_tested)) up to twice the
    tested stretch.
    """
    far = 2.0  # times the tested stretch that the law is to be stiffer
    low, high = tested
    end = 1.0 / (far / low) if mode == "compression" else far * high
    at = np.geomspace(1.0, end, 61)[1:]
    own = stress(mode, at)
    sound = np.isfinite(own)
    at, target = at[sound], own[sound] * (1.0 + BEYOND_SPREAD * beyond(at[sound], tested))
    weights = 1.0 / np.abs(target)  # shares of the stress count alike
    samples = Samples((mode,), (at,), target, weights / weights.max())
    fits = [(m, estimate(samples, m)) for m in ("yeoh", "ogden-2")]
    model, best = min(fits, key=lambda fit: float(np.sum(fit[1].residuals ** 2)))
    return find_model(model).law.of_constants(best.parameters)


def fit_prepared(
    tests: tuple[MaterialTest, ...],
    model: str,
    weights: Weights,
    stable: bool,
    confidence: float,
    density: float,
    gauge_error: float = GAUGE_ERROR,
) -> Calibration:
    """Fit samples that are read, cut and corrected already."""
    factors, weighting = weigh(tests, weights)
    stress = np.concatenate([t.nominal_stress for t in tests])
    samples = Samples(tuple(t.mode for t in tests), tuple(t.stretch for t in tests), stress, factors)
    plain = estimate(samples, model, stable=stable, confidence=confidence)
    known = find_model(model)
    names = known.names
    signed = [stable and c.stable_positive for c in known.constants]

    def refit(others: Samples) -> Floats:
        return estimate(others, model, stable=stable, confidence=confidence).parameters

    found, time = widened(plain, samples, tests, refit, signed, confidence, gauge_error)
    is_stable, statement = stability_statement(model, found.parameters)
    predicted = np.concatenate([nominal_stress(model, found.parameters, t.mode, t.stretch) for t in tests])
    rms = float(np.sqrt(np.mean((predicted - stress) ** 2)))
    mean_square = float(np.mean(found.residuals**2)) / float(np.abs(samples.target).max()) ** 2
    stretches = np.concatenate([t.stretch for t in tests])
    return Calibration(
        model,
        dict(zip(names, map(float, found.parameters))),
        {n: (float(a), float(b)) for n, (a, b) in zip(names, found.intervals)},
        dict(zip(names, found.sides)),
        rms / float(np.abs(stress).max()),
        rms,
        criterion(len(stress), time, mean_square, found.free),
        (float(stretches.min()), float(stretches.max())),
        is_stable,
        statement,
        tuple(_warnings(samples, model, plain, stable)),
        tests,
        weighting,
        confidence,
        correlations(found.covariance),
        density,
        covariance=found.covariance,
        correlation_time=time,
        mean_square=mean_square,
        free=found.free,
    )


def _warnings(samples: Samples, model: str, found: Estimate, stable: bool) -> list[str]:
    """What the constants alone do not tell."""
    known = find_model(model)
    names, off = known.names, np.abs(found.residuals)
    reach = samples.largest_invariant() / found.parameters[[c.locks for c in known.constants]]
    locking_share_noticed = 0.95  # part of the locking limit from which on a fit rests on it
    correlation = np.nan_to_num(np.abs(correlations(found.covariance) - np.eye(len(names))))
    i, j = np.unravel_index(np.argmax(correlation), correlation.shape)
    max_correlation = 0.98  # correlation from which on two constants are hardly told apart
    worst = int(np.argmax(off))
    # residual of a doubtful sample over the median one (eight standard deviations of a normal), and over the largest stress
    outlier_medians, outlier_stress_share = 12.0, 0.1
    outlier = max(outlier_medians * float(np.median(off)), outlier_stress_share * float(np.abs(samples.target).max()))
    unlocked = [name for name, side in zip(names, found.sides) if side == "lower"]
    said = [
        (
            bool(unlocked),
            f"the tests show no locking: {''.join(unlocked)} has only a lower limit, neo-hookean does as well",
        ),
        (
            (reach > locking_share_noticed).any(),
            f"the largest test stretch reaches {100 * locking_share_noticed:.0f} % of the locking limit",
        ),
        (
            correlation[i, j] > max_correlation,
            f"{names[i]} and {names[j]} are hardly told apart (correlation {correlation[i, j]:.3f}): another mode "
            "of loading would",
        ),
        (
            off[worst] > outlier,
            f"the sample at stretch {np.concatenate(samples.stretches)[worst]:.4g} with "
            f"{samples.stress[worst] / 1e3:.4g} kPa is far from the fit, compared with all others: an outlier?",
        ),
        (
            set(samples.modes) <= {"uniaxial"} and len(names) > 1,
            "uniaxial tests alone: membranes and inflated walls are loaded biaxially, where this fit extrapolates",
        ),
    ]
    return _on_stability(samples, model, found, stable) + [text for holds, text in said if holds]


def _on_stability(samples: Samples, model: str, found: Estimate, stable: bool) -> list[str]:
    """Say what the demand for stability has changed, or that the material is unstable without it."""
    if not stable:
        text = "not constrained: this material is unstable in the modes named and a solver can fail there"
        return [] if stability_statement(model, found.parameters)[0] else [text]
    known = find_model(model)
    if not (found.active and known.moduli.all()):
        return []
    loose = estimate(samples, model, stable=False).parameters
    held = [n for n, s in zip(known.names, found.sides) if s == "upper"]
    what = f"{', '.join(held)} held at 0" if held else "held on the limit of stability; intervals hold along it"
    return [f"the free fit gives {stability_statement(model, loose)[1]} Constrained: {what}."]
