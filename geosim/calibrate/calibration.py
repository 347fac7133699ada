"""From tests to a material that can be trusted: fit, intervals, statement of stability, MATERIAL.toml."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.calibrate.curves import FAR, MODES, first_unstable, nominal_stress, parameter_names, sign_change, terms
from geosim.calibrate.fitting import Estimate, Samples, estimate
from geosim.calibrate.reading import MaterialTest, read_test
from geosim.errors import InputError
from geosim.material import materials

__all__ = ["Calibration", "fit", "fit_prepared", "prepare_tests", "show_constant", "stability_statement", "toe_offset"]

TOE_STRAIN = 0.3
Tests = Iterable[Any] | MaterialTest | str | Path


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
        Corrected Akaike criterion; only differences between models on the same samples mean something.
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
    confidence: float = 0.95
    correlations: Any = None
    density: float = 1070.0

    @property
    def material(self) -> materials.Hyperelastic:
        """The material, incompressible.

        Raises
        ------
        InputError
            The constants describe no material (possible with stable=False).
        """
        values = dict(self.parameters)
        if terms(self.model):
            pairs = np.reshape(list(values.values()), (-1, 2))
            pairs = pairs[pairs[:, 0] != 0]
            return materials.Ogden(tuple(pairs[:, 0]), tuple(pairs[:, 1]), density=self.density)
        built = materials.material_from_dict({"model": self.model, "density": self.density, **values}, self.model)
        assert isinstance(built, materials.Hyperelastic)
        return built

    def stress(self, mode: str, stretch: Any) -> Floats:
        """Nominal stress [Pa] of the fitted material, shape of `stretch`."""
        return nominal_stress(self.model, self.parameters, mode, stretch)

    def lines(self) -> list[str]:
        """Return the calibration as lines of text: constants with intervals, misfit, stability, warnings."""
        out = [
            f"{self.model}, {sum(len(t.stretch) for t in self.tests)} samples of {len(self.tests)} test(s), stretch "
            f"{self.stretch_range[0]:.3g} .. {self.stretch_range[1]:.3g}, weighting {self.weighting}"
        ]
        for name, value in self.parameters.items():
            out.append(f"  {name:6s} {show_constant(name, value)}   {self._interval(name)}")
        out.append(
            f"  rms {100 * self.rms:.2f} % of the largest stress ({self.rms_stress:.4g} Pa), AICc {self.aicc:.1f}"
        )
        out.append(f"  {self.statement}")
        return out + [f"  note: {w}" for w in self.warnings]

    def _interval(self, name: str) -> str:
        low, high = (show_constant(name, v) for v in self.intervals[name])
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
        from geosim.calibrate.models import plot_models

        return plot_models([self], path)

    def save(self, path: str | Path, name: str = "", source: str = "") -> Path:
        """Write MATERIAL.toml: constants, source, range and statement; the path is returned.

        Raises
        ------
        InputError
            The constants describe no material, or the folder does not exist.
        """
        path = Path(path)
        table = {**self.material.to_dict()}
        if not path.parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
        source = source or "fitted to " + ", ".join(t.name or t.mode for t in self.tests)
        text = [
            "# Moduli in Pa, density in kg/m^3. Valid within the stretch range; beyond it is extrapolation.",
            "[material]",
        ]
        text += [f"{key} = {_toml(value)}" for key, value in table.items()]
        text += [
            f"name = {_toml(name or path.stem)}",
            f"source = {_toml(source)}",
            f"stretch_range = {_toml(list(self.stretch_range))}",
            f"rms = {_toml(self.rms)}",
            f"stable = {_toml(self.stable)}",
            f"statement = {_toml(self.statement)}",
            f"warnings = {_toml(list(self.warnings))}",
            "",
            "[calibration]",
            f"confidence = {_toml(self.confidence)}",
            f"weighting = {_toml(self.weighting)}",
            f"aicc = {_toml(self.aicc)}",
        ]
        for key in self.parameters:
            text += [f"interval_{key} = {_toml(list(self.intervals[key]))}  # {self.sides[key]}"]
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        return path


def show_constant(name: str, value: float) -> str:
    """Return a constant as text with its unit."""
    return f"{value:.4g}" if name.startswith(("jm", "alpha")) else f"{value / 1e3:.5g} kPa"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f]", " ", quoted) + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return repr(float(value)) if np.isfinite(value) else "inf" if value > 0 else "-inf" if value < 0 else "nan"


def stability_statement(model: str, parameters: Mapping[str, float] | Sequence[float] | Floats) -> tuple[bool, str]:
    """Tell in which mode and from which stretch a material is unstable.

    Returns
    -------
    stable, statement
        What is unstable from which stretch on, by Drucker's criterion: the worst mode first, such as "C01 < 0:
        unstable in equibiaxial loading from stretch 1.35 (...)."; then, as sentences of their own, where the stress
        of that mode turns negative and from where the other modes are unstable.
    """
    names = parameter_names(model)
    values = np.array([parameters[n] for n in names] if isinstance(parameters, Mapping) else parameters, dtype=float)
    onset = {mode: first_unstable(model, values, mode) for mode in MODES}
    found = {m: s for m, s in onset.items() if (s < FAR if m != "compression" else np.isfinite(s))}
    if not found:
        return True, f"Stable (Drucker) in all modes to a stretch of {FAR:g}."
    labels = {"c1": "C10", "c2": "C01" if model == "mooney-rivlin" else "C20", "c3": "C30"}
    negative = [f"{labels.get(n, n)} < 0" for n, v in zip(names, values) if v < 0 and not n.startswith("alpha")]
    worst = min(found, key=lambda m: (abs(np.log(found[m])), m != "equibiaxial"))
    order = [worst, *(m for m in found if m != worst)]
    text = ", ".join(f"{m} {'below' if m == 'compression' else 'from'} stretch {found[m]:.3g}" for m in order[1:])
    sentence = ", ".join(negative) + ": " if negative else ""
    sentence += (
        f"unstable in {worst} loading from stretch {found[worst]:.3g} (Drucker: a further strain does negative work)."
    )
    turn = sign_change(model, values, worst) if worst != "compression" else np.inf
    if np.isfinite(turn):
        sentence += f" Later, at stretch {turn:.3g}, the {worst} stress itself turns negative."
    return False, sentence + (f" Other modes: {text}." if text else "")


def toe_offset(test: MaterialTest) -> float:
    """Strain at which the initial part of a curve, a quadratic up to 30 % strain, meets zero stress.

    Slack and unaligned grips shift a curve along the strain axis; 0 if there are fewer than five samples.
    """
    strain = test.stretch - 1.0
    use = np.abs(strain) <= TOE_STRAIN
    if use.sum() < 5:
        return 0.0
    c, b, a = np.polynomial.polynomial.polyfit(strain[use], test.nominal_stress[use], 2)
    roots = np.roots([a, b, c])
    roots = roots[np.isreal(roots)].real
    roots = roots[np.abs(roots) < TOE_STRAIN]
    return float(roots[np.argmin(np.abs(roots))]) if len(roots) else 0.0


def prepare_tests(
    tests: Tests, max_stretch: float | None, window: tuple[float, float] | None, toe: str | float | None
) -> tuple[MaterialTest, ...]:
    """Read paths, correct toes, cut to the window."""
    items = [tests] if isinstance(tests, (MaterialTest, str, Path)) else list(tests)
    if not items:
        raise InputError("calibrate: no test given; pass MaterialTest objects or paths of CSV files")
    used = []
    for item in items:
        test = item if isinstance(item, MaterialTest) else read_test(item)
        stretch, stress, notes = test.stretch, test.nominal_stress, test.notes
        if toe is not None:
            if isinstance(toe, str) and toe != "auto":
                raise InputError(f"calibrate: toe = {toe!r}; use None, 'auto' or a strain")
            offset = toe_offset(test) if isinstance(toe, str) else float(toe)
            stretch = stretch / (1.0 + offset)  # the slack belongs to the rest length
            notes = (*notes, f"toe corrected by a strain of {offset:.4g}")
        keep = np.ones(len(stretch), dtype=bool)
        if max_stretch is not None:
            if not max_stretch > 1:
                raise InputError(f"calibrate: max_stretch = {max_stretch!r} must exceed 1 (stretch = 1 + strain)")
            keep &= (stretch <= max_stretch) & (stretch >= 1.0 / max_stretch)
        if window is not None:
            strain = np.abs(stretch - 1.0)
            keep &= (strain >= window[0]) & (strain <= window[1])
        if keep.sum() < 2:
            raise InputError(
                f"calibrate: test {test.name or test.mode!r} has {keep.sum()} samples in the window "
                f"(its stretches "
                f"are {stretch.min():.3g} .. {stretch.max():.3g}); widen max_stretch or window"
            )
        used.append(MaterialTest(test.mode, stretch[keep], stress[keep], test.name, notes))
    return tuple(used)


def _weights(tests: Sequence[MaterialTest], weights: Any) -> tuple[Floats, str]:
    """Weights of all samples and the name of the weighting."""
    counts = [len(t.stretch) for t in tests]
    if weights is None or weights == "stress":
        return np.ones(sum(counts)), "stress"
    if isinstance(weights, str):
        peak = [np.abs(t.nominal_stress).max() for t in tests]
        if weights == "relative":
            floor = [np.maximum(np.abs(t.nominal_stress), 0.02 * p) for t, p in zip(tests, peak)]
            return np.concatenate([p / f for p, f in zip(peak, floor)]) / np.mean(peak), "relative"
        if weights == "per-test":
            return np.concatenate([np.full(n, 1.0 / (p * np.sqrt(n))) for n, p in zip(counts, peak)]), "per-test"
        raise InputError(
            f"calibrate: weights = {weights!r}; use 'stress' (all alike), 'relative', 'per-test', or a number per test"
        )
    values = [weights.get(t.name, 1.0) for t in tests] if isinstance(weights, Mapping) else list(weights)
    array = np.array(values, dtype=float)
    if array.shape != (len(tests),) or not (np.isfinite(array) & (array >= 0)).all() or not array.any():
        raise InputError(f"calibrate: weights = {values}: one non-negative number for each of the {len(tests)} tests")
    return np.repeat(np.sqrt(array), counts), "given"


def fit(
    tests: Tests,
    model: str = "mooney-rivlin",
    *,
    max_stretch: float | None = None,
    weights: Any = None,
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
        "neo-hookean", "mooney-rivlin", "yeoh", "gent", "ogden", "ogden-2" or "ogden-3".
    max_stretch
        Samples beyond it (in compression below its inverse) are left out.
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
    parameter_names(model)
    if not 0 < confidence < 1:
        raise InputError(f"calibrate: confidence = {confidence!r} lies between 0 and 1 (0.95)")
    used = prepare_tests(tests, max_stretch, window, toe)
    found = fit_prepared(used, model, weights, stable, confidence, density)
    if stable and model == "mooney-rivlin" and found.warnings:
        yeoh = fit_prepared(used, "yeoh", weights, True, confidence, density)
        if yeoh.rms < found.rms:
            advice = (
                f"yeoh fits these tests with rms {100 * yeoh.rms:.2f} %, {model} with {100 * found.rms:.2f} %: "
                f'recommended is model="yeoh"'
            )
            found = dataclasses.replace(found, warnings=(*found.warnings, advice))
    return found


def fit_prepared(
    tests: tuple[MaterialTest, ...], model: str, weights: Any, stable: bool, confidence: float, density: float
) -> Calibration:
    """Fit samples that are read, cut and corrected already."""
    factors, weighting = _weights(tests, weights)
    stress = np.concatenate([t.nominal_stress for t in tests])
    samples = Samples(tuple(t.mode for t in tests), tuple(t.stretch for t in tests), stress, factors)
    found = estimate(samples, model, stable=stable, confidence=confidence)
    names = parameter_names(model)
    is_stable, statement = stability_statement(model, found.parameters)
    predicted = np.concatenate([nominal_stress(model, found.parameters, t.mode, t.stretch) for t in tests])
    rms = float(np.sqrt(np.mean((predicted - stress) ** 2)))
    count, k = len(stress), found.free + 1
    aicc = count * np.log(max(float(np.mean(found.residuals**2)), 1e-300)) + 2 * k
    aicc += 2 * k * (k + 1) / (count - k - 1) if count > k + 1 else np.inf
    deviations = np.sqrt(np.diag(found.covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = found.covariance / np.outer(deviations, deviations)
    stretches = np.concatenate([t.stretch for t in tests])
    return Calibration(
        model,
        dict(zip(names, map(float, found.parameters))),
        {n: (float(a), float(b)) for n, (a, b) in zip(names, found.intervals)},
        dict(zip(names, found.sides)),
        rms / float(np.abs(stress).max()),
        rms,
        float(aicc),
        (float(stretches.min()), float(stretches.max())),
        is_stable,
        statement,
        tuple(_warnings(samples, model, found, stable)),
        tests,
        weighting,
        confidence,
        correlations,
        density,
    )


def _warnings(samples: Samples, model: str, found: Estimate, stable: bool) -> list[str]:
    """What the constants alone do not tell."""
    out = []
    names = parameter_names(model)
    if stable and found.active and model in ("mooney-rivlin", "yeoh", "neo-hookean"):
        loose = estimate(samples, model, stable=False).parameters
        _, statement = stability_statement(model, loose)
        held = [n for n, s in zip(names, found.sides) if s == "upper"]
        what = f"{', '.join(held)} held at 0" if held else "held on the limit of stability; intervals hold along it"
        out.append(f"the free fit gives {statement} Constrained: {what}.")
    if not stable and not stability_statement(model, found.parameters)[0]:
        out.append("not constrained: this material is unstable in the modes named and a solver can fail there")
    if model == "gent" and "lower" in found.sides:
        out.append("the tests show no locking: jm has only a lower limit, neo-hookean does as well")
    if model == "gent":
        reach = samples.largest_invariant() / found.parameters[1]
        out += ["the largest test stretch reaches 95 % of the locking limit"] if reach > 0.95 else []
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.diag(found.covariance))
        correlation = np.abs(found.covariance / np.outer(spread, spread) - np.eye(len(names)))
    if np.nanmax(correlation, initial=0.0) > 0.98:
        i, j = np.unravel_index(np.nanargmax(correlation), correlation.shape)
        out.append(
            f"{names[i]} and {names[j]} are hardly told apart (correlation {correlation[i, j]:.3f}): another "
            f"mode "
            f"of loading would"
        )
    if set(samples.modes) <= {"uniaxial"} and model != "neo-hookean":
        out.append(
            "uniaxial tests alone: membranes and inflated walls are loaded biaxially, where this fit extrapolates"
        )
    return out
