"""Tests before a fit: read, corrected, cut to a range, weighted; and what about them may be a mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from geosim.apps.calibrate.curves import nominal_stress
from geosim.apps.calibrate.reading import read_test
from geosim.apps.calibrate.samples import LOAD_CELL_REL, MAX_PLAUSIBLE_STRETCH, MaterialTest, without_spikes
from geosim.apps.calibrate.toe import Toe, automatic, without_toe
from geosim.arrays import MIN_DIVISOR, Floats, choice, number
from geosim.errors import InputError

DEFAULT_MAX_STRETCH = (
    2.0  # stretch up to which soft robots work, and to which tests are used unless another range is asked for
)
Tests = Iterable[MaterialTest | str | Path] | MaterialTest | str | Path
Weights = str | Mapping[str, float] | Sequence[float] | None


def prepare_tests(tests: Tests, toe: str | float | None = "auto") -> tuple[MaterialTest, ...]:
    """Read paths, leave out samples that cannot belong to a curve, correct toes.

    Raises
    ------
    InputError
        There is no test, one cannot be read, or `toe` is neither None, "auto", "none" nor a strain.
    """
    items = _listed(tests)
    if isinstance(toe, str):
        choice(toe, "calibrate: toe (or a strain)", ("auto", "none"))
    read = [without_spikes(i, in_time=False) if isinstance(i, MaterialTest) else read_test(i) for i in items]
    used = tuple(map(_thinned, read))
    if toe is None or toe == "none":
        return used
    if toe == "auto":
        return tuple(map(automatic, used))
    strain = number(toe, "calibrate: toe (strain)", above=-0.5, high=1.0)
    return tuple(without_toe(test, Toe(strain, 0.0, 0.0, 0), "as given") for test in used)


def _listed(tests: Tests) -> list[MaterialTest | str | Path]:
    """Return one test or several as a list."""
    kinds = (MaterialTest, str, Path)
    try:
        items = [tests] if isinstance(tests, kinds) else list(tests)
    except TypeError:
        items = []
    if not items or not all(isinstance(i, kinds) for i in items):
        raise InputError("calibrate: no test given; pass MaterialTest objects or paths of CSV files")
    return items


def _thinned(test: MaterialTest) -> MaterialTest:
    """Return a test of many samples with some of them, evenly picked."""
    max_samples = 20_000  # of a test: a fit of a million takes minutes, and their neighbours tell the same
    step = -(-len(test.stretch) // max_samples)
    if step == 1:
        return test
    return test.part(slice(None, None, step), notes=(f"one sample of {step} is used, of {len(test.stretch):,}",))


def farthest(tests: Sequence[MaterialTest]) -> tuple[float, float]:
    """Return the stretch up to which soft robots work, or farther where tests are sparse, and the largest of the tests."""
    reached = [np.sort(np.maximum(t.stretch, 1.0 / t.stretch)) for t in tests]
    min_samples = 8  # samples of every test that are used at least: twice the constants of most models
    return max(DEFAULT_MAX_STRETCH, *(float(r[min(min_samples, len(r)) - 1]) for r in reached)), max(
        float(r[-1]) for r in reached
    )


def within(
    tests: Sequence[MaterialTest], max_stretch: float = math.inf, window: tuple[float, float] | None = None
) -> tuple[MaterialTest, ...]:
    """Return tests with their samples within limits of stretch (and of its inverse, in compression) and of strain.

    Raises
    ------
    InputError
        The limits are none, or fewer than two samples of a test are within them.
    """
    if not (isinstance(max_stretch, float) and max_stretch == math.inf):
        number(max_stretch, "calibrate: max_stretch (1 + strain)", above=1.0)
    low, high = (0.0, math.inf) if window is None else window
    out = []
    for test in tests:
        stretch, strain = test.stretch, np.abs(test.stretch - 1.0)
        keep = (stretch <= max_stretch) & (stretch >= 1.0 / max_stretch) & (strain >= low) & (strain <= high)
        if keep.sum() < 2:
            raise InputError(
                f"calibrate: test {test.name or test.mode!r} has {keep.sum()} samples in the window "
                f"(its stretches are {stretch.min():.3g} .. {stretch.max():.3g}); widen max_stretch= or window="
            )
        out.append(test.part(keep))
    return tuple(out)


def weigh(tests: Sequence[MaterialTest], weights: Weights) -> tuple[Floats, str]:
    """Return weights of the residuals of all samples and the name of the weighting.

    Raises
    ------
    InputError
        There is no such weighting, or not one number for each test.
    """
    sizes = [np.abs(t.nominal_stress) for t in tests]
    if weights is None or isinstance(weights, str):
        mean_peak = np.mean([size.max() for size in sizes])
        weightings: dict[str, Callable[[Floats], Floats]] = {
            "stress": np.ones_like,
            # smaller stresses would lever the error of the load cell
            "relative": lambda s: s.max() / np.maximum(s, LOAD_CELL_REL * s.max()) / mean_peak,
            "per-test": lambda s: np.full_like(s, 1.0 / (s.max() * np.sqrt(len(s)))),
        }
        name = choice(weights or "stress", "calibrate: weights (or a number per test)", weightings)
        return np.concatenate([weightings[name](size) for size in sizes]), name
    values = [weights.get(t.name, 1.0) for t in tests] if isinstance(weights, Mapping) else list(weights)
    array = np.array(values, dtype=float)
    if array.shape != (len(tests),) or not (np.isfinite(array) & (array >= 0)).all() or not array.any():
        raise InputError(f"calibrate: weights = {values}: one non-negative number for each of the {len(tests)} tests")
    return np.repeat(np.sqrt(array), [len(size) for size in sizes]), "given"


def doubts(tests: Sequence[MaterialTest]) -> list[str]:
    """Return what about whole tests, as measured, is probably a mistake of units, columns or signs."""
    names = [t.name or t.mode for t in tests]
    moduli = [_modulus(t) for t in tests]
    out = [f"{name}: {w}" for name, t in zip(names, tests) for w in t.warnings]
    out += [f"{name}: {w}" for name, t, mu in zip(names, tests, moduli) for w in _implausible(t, mu)]
    # factor between the moduli of two tests from which on they are not of one material
    max_modulus_ratio = 3.0
    if max(moduli) > max_modulus_ratio * min(moduli) > 0:
        soft, stiff = (names[moduli.index(end(moduli))] for end in (min, max))
        out.append(
            f"{stiff} is {max(moduli) / min(moduli):.3g} times as stiff as {soft}: "
            f"are both of one material and in the units that they state?"
        )
    return out


def _implausible(test: MaterialTest, modulus: float) -> list[str]:
    """Return what of a test with a shear modulus [Pa] is of no elastomer."""
    # largest strain below which a test says little of a rubber, and may be a fraction taken as percent
    min_plausible_strain = 0.05
    max_wrong_sign_share = 0.1  # part of the samples whose stress may point against the strain
    # shear moduli [Pa] between those of silicone gels and of printed elastomers of Shore A 85
    softest, stiffest = 1e3, 5e6
    # stress, in parts of the largest, that is next to none; first strain that is then that of rest
    negligible_stress_rel, late_strain = 0.1, 0.5
    strain, stress = test.stretch - 1.0, test.nominal_stress
    largest, work = np.abs(strain).max(), strain * stress
    is_against = (work < -1e-3 * np.abs(work).max()).mean() > max_wrong_sign_share
    first = abs(stress[np.argmin(np.abs(strain))])
    table = [
        (is_against, "stresses point against the strains: is a column strain that is taken as stretch?"),
        (
            not is_against and not softest <= modulus <= stiffest,
            f"a shear modulus of {modulus / 1e3:.3g} kPa is {'softer' if modulus < softest else 'stiffer'} than elastomers "
            f"({softest / 1e3:g} kPa .. {stiffest / 1e6:g} MPa): is a unit wrong? stress_unit=, strain_unit=, "
            f"area= and gauge_length= settle it",
        ),
        (
            test.stretch.max() > MAX_PLAUSIBLE_STRETCH,
            f"no elastomer bears a stretch of {test.stretch.max():.4g}: if strains are percent pass strain_unit=%",
        ),
        (
            largest < min_plausible_strain,
            f"strains reach {largest:.3g} only: is their unit right (strain_unit=, gauge_length=)?",
        ),
        (
            strain.min() > late_strain and first < negligible_stress_rel * np.abs(stress).max(),
            f"no stress at a strain of {strain.min():.3g}: is the column stretch, not strain (strain_kind=)?",
        ),
    ]
    return [text for holds, text in table if holds]


def _modulus(test: MaterialTest) -> float:
    """Shear modulus [Pa] of a neo-Hookean material at moderate strains."""
    strain = np.abs(test.stretch - 1.0)
    modulus_strain = 1.0  # strain up to which a modulus is taken
    use = strain <= max(modulus_strain, float(np.quantile(strain, 0.2)))
    unit = nominal_stress("neo-hookean", [1.0], test.mode, test.stretch[use])
    return float(unit @ test.nominal_stress[use] / max(float(unit @ unit), MIN_DIVISOR))
