"""The toe of a test: slack and unaligned grips, found from the first rise of the stress.

    P(e) = b                               e <= e0     (slack: the load cell shows its own zero b)
    P(e) = b + sum_j a_j f_j(1 + e - e0)   e >  e0     (f_1 neo-Hookean, f_2 second term of Mooney-Rivlin, f_3 of Yeoh)

is fitted to the samples up to a strain of 1: the a_j and b by linear least squares, e0 by those that these leave. The three
f_j follow Ogden terms of exponents 0 to 4 and Gent's law down to jm = 10: e0 is off by 0.0015 (root mean square), so it rests
on no one law. b is fitted where samples lie on the flat part. Strains count from e0, the gauge length stays [ASTM D638, annex
on toe compensation]. Sheets that are stretched both ways are in no grips: there no toe is sought.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from geosim.apps.calibrate.curves import sensitivities
from geosim.apps.calibrate.samples import LOAD_CELL_REL, MaterialTest
from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Floats
from geosim.errors import InputError

MIN_FLAT_SAMPLES = 4  # samples on the flat part from which on the zero of the load cell is fitted
MIN_RISE_SAMPLES = 10  # samples of the first rise: twice the unknowns of the hinge
SHAPE_ERROR = 0.0015  # standard deviation of the offset for laws that the three f_j follow nearly [strain]
SIGNIFICANT_SPREADS = 3.0  # standard deviations that a toe is off zero before strains are counted from it


@guarded
@dataclass(frozen=True)
class Toe:
    """Where loading began.

    Parameters
    ----------
    offset
        Strain e0 at which the stress begins to rise; negative where the record begins with a preload.
    error
        Its standard deviation; nan where the test has too few samples to tell.
    zero_stress
        What the load cell shows in the slack [Pa].
    slack
        Samples of the flat part.
    """

    offset: float
    error: float
    zero_stress: float
    slack: int

    @property
    def significant(self) -> bool:
        """Whether the offset is no noise."""
        return bool(abs(self.offset) > SIGNIFICANT_SPREADS * self.error)


UNKNOWN_TOE = Toe(0.0, np.nan, 0.0, 0)


def correlation_time(residuals: Floats) -> float:
    """Return how many residuals in a row tell as much as one independent one: 1 + 2 sum of autocorrelations.

    The sum ends at five times itself [Sokal 1997], where estimates are noise.
    """
    off = residuals - residuals.mean()
    count = len(off)
    total = float(off @ off)
    if count < 4 or total <= 0.0:
        return 1.0
    window = 5.0  # times itself that the sum reaches
    power = np.abs(np.fft.rfft(off, 2 * count)) ** 2  # twice as long: the end does not meet the beginning
    times = 1.0 + 2.0 * np.cumsum(np.fft.irfft(power)[1 : count // 2] / total)
    beyond = np.flatnonzero(np.arange(1, count // 2) > window * times)
    return max(float(times[beyond[0] if len(beyond) else -1]), 1.0)


@guarded
def find_toe(test: MaterialTest) -> Toe:
    """Fit the hinge to the first rise of a test; without enough samples the offset is 0 and its error nan."""
    sign = -1.0 if test.mode == "compression" else 1.0
    strain, stress = sign * (test.stretch - 1.0), sign * test.nominal_stress
    rise_strain = 1.0 if sign > 0 else 0.5  # up to which the hinge is fitted
    near = strain <= rise_strain
    if near.sum() < MIN_RISE_SAMPLES or test.mode == "equibiaxial":
        return UNKNOWN_TOE
    strain, stress = strain[near], stress[near]
    low, high = -0.1, float(np.quantile(strain, 0.7))  # of the offset: a preload's, and enough samples behind it
    hinge = _Hinge(test.mode, sign, strain, stress)
    grid = np.linspace(low, high, 141)
    best = float(min(grid, key=hinge.cost))
    step = grid[1] - grid[0]
    search = least_squares(
        lambda e: hinge.solved(e[0])[1], best, "3-point", bounds=(best - step, best + step), gtol=None
    )
    offset, residuals = float(search.x[0]), search.fun
    weights = hinge.solved(offset)[0]
    variance = float(residuals @ residuals) / max(len(strain) - len(weights) - 1, 1) * correlation_time(residuals)
    error = float(np.hypot(np.sqrt(variance / max(float(np.sum(search.jac**2)), MIN_DIVISOR)), SHAPE_ERROR))
    flat = int((strain <= offset).sum())
    zero = float(weights[-1]) if flat >= MIN_FLAT_SAMPLES else 0.0
    if abs(zero) > LOAD_CELL_REL * float(np.abs(stress).max()):  # a curve with a bend, no slack
        return UNKNOWN_TOE
    return Toe(offset, error, sign * zero, flat)


@dataclass(frozen=True)
class _Hinge:
    """The hinge and the samples of the first rise; strains and stresses of compression are positive here."""

    mode: str
    sign: float
    strain: Floats
    stress: Floats

    def rise(self, offset: float) -> Floats:
        """Return f_j at the samples, (n, 3)."""
        stretch = 1.0 + self.sign * np.maximum(self.strain - offset, 0.0)
        both = (sensitivities(m, np.zeros(k), self.mode, stretch) for m, k in (("mooney-rivlin", 2), ("yeoh", 3)))
        first, second = both
        return np.column_stack([self.sign * first, self.sign * second[:, 1]])

    def solved(self, offset: float) -> tuple[Floats, Floats]:
        """Return the a_j, the zero of the load cell behind them where there is slack to tell it, and the residuals [Pa]."""
        slack = (self.strain <= offset).sum() >= MIN_FLAT_SAMPLES
        columns = np.column_stack([self.rise(offset), *([np.ones(len(self.strain))] if slack else [])])
        unknowns: Floats = np.linalg.lstsq(columns, self.stress, rcond=1e-10)[0].astype(np.float64)
        return unknowns, columns @ unknowns - self.stress

    def cost(self, offset: float) -> float:
        """Return the sum of squared residuals."""
        return float(np.sum(self.solved(offset)[1] ** 2))


@guarded
def toe_offset(test: MaterialTest) -> float:
    """Return the strain at which loading began; 0 where a test has too few samples to tell."""
    return find_toe(test).offset


def without_toe(test: MaterialTest, toe: Toe, how: str) -> MaterialTest:
    """Return the test with strains counted from the toe and stresses from the zero of the load cell; slack is left out.

    Raises
    ------
    InputError
        Less than two samples lie behind the toe.
    """
    sign = -1.0 if test.mode == "compression" else 1.0
    stretch = test.stretch - sign * toe.offset
    keep = sign * (stretch - 1.0) > 0.0
    if keep.sum() < 2:
        raise InputError(f"test {test.name or test.mode!r}: {keep.sum()} samples lie behind a toe of {toe.offset:.4g}")
    what = f"toe {how}: strains count from {toe.offset:.4g}"
    what += f" (standard deviation {toe.error:.2g}), the gauge length stays" if toe.error > 0 else ""
    what += f"; {len(keep) - keep.sum()} samples of slack left out" if not keep.all() else ""
    what += f"; the load cell shows {toe.zero_stress / 1e3:.3g} kPa at rest" if toe.zero_stress else ""
    return dataclasses.replace(
        test, stretch=stretch[keep], nominal_stress=test.nominal_stress[keep] - toe.zero_stress,
        zero_error=toe.error, notes=(*test.notes, what),
    )  # fmt: skip


def automatic(test: MaterialTest) -> MaterialTest:
    """Return the test with its toe found and corrected where it is significant; what was done is a note."""
    toe = find_toe(test)
    if not np.isfinite(toe.error):
        why = (
            "no grips"
            if test.mode == "equibiaxial"
            else f"the first rise has fewer than {MIN_RISE_SAMPLES} samples, or a bend"
        )
        return test.part(slice(None), notes=(f"toe: not sought, {why}",))
    if toe.significant:
        return without_toe(test, toe, "found")
    error = float(np.hypot(toe.offset, toe.error))
    note = f"toe: none found, the first rise meets no stress at a strain of {toe.offset:.2g} +- {toe.error:.2g}"
    return dataclasses.replace(test, zero_error=error, notes=(*test.notes, note))
