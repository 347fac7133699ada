"""One material test, and what of its samples belongs to the first loading of one specimen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.apps.calibrate.curves import mode_name
from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, Ints, floats, real_array
from geosim.errors import InputError

MAX_PLAUSIBLE_STRETCH = 20.0  # that no elastomer bears; the softest silicones tear at 10 to 17
MAX_POSSIBLE_STRETCH = 1e3  # beyond which a number is no stretch of rubber
LOAD_CELL_REL = 0.02  # of the largest stress: what a load cell may show without a load, or drift by
SPIKE_RATIO = 2.0  # times its four neighbours that a sample exceeds them, or falls short of them: rising curves do not


@guarded
@dataclass(frozen=True)
class MaterialTest:
    """One material test: nominal stress over stretch.

    Parameters
    ----------
    mode
        "uniaxial", "equibiaxial", "pure-shear" or "compression" (UT, ET, PS, C for short).
    stretch
        Current over rest length along the load, shape (n,); below 1 in compression.
    nominal_stress
        Force over rest area [Pa], shape (n,); negative in compression.
    name
        Shown in tables.
    notes
        What a reader detected, one line each.
    warnings
        What may be a mistake, one line each.
    zero_error
        Standard deviation of the strain at which loading began.

    Raises
    ------
    InputError
        Shapes differ, a value is not finite, or a stretch is not positive.
    """

    mode: str
    stretch: Floats
    nominal_stress: Floats
    name: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    zero_error: float = 0.0

    def __repr__(self) -> str:
        ends = f"{self.stretch.min():.4g} .. {self.stretch.max():.4g}"
        return f"MaterialTest({self.name!r}, {self.mode}, {len(self.stretch)} samples, stretch {ends})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", mode_name(self.mode))
        name = f"test {self.name or self.mode!r}"
        for key in ("stretch", "nominal_stress"):
            object.__setattr__(
                self, key, floats(real_array(getattr(self, key), f"{name}: {key}").ravel(), f"{name}: {key}", (None,))
            )
        stretch = self.stretch
        if len(stretch) != len(self.nominal_stress) or len(stretch) < 2:
            raise InputError(
                f"{name}: stretch has {len(stretch)} and nominal_stress {len(self.nominal_stress)} values; give "
                f"equally many, at least two"
            )
        if (stretch <= 0).any():
            raise InputError(
                f"{name}: a stretch of {stretch.min():.4g} is impossible; stretch = current / rest length "
                f"(1 at rest), strain = stretch - 1"
            )
        max_possible_stress_pa = 1e12  # that no rubber reaches: it breaks at 100 MPa
        if (
            max(stretch.max(), 1.0 / stretch.min()) > MAX_POSSIBLE_STRETCH
            or np.abs(self.nominal_stress).max() > max_possible_stress_pa
        ):
            raise InputError(
                f"{name}: stretches of {stretch.min():.4g} .. {stretch.max():.4g} and stresses up to "
                f"{np.abs(self.nominal_stress).max():.4g} Pa are "
                f"no measurement of rubber; check the units and the decimal sign"
            )
        if self.mode == "compression" and stretch.mean() > 1:
            raise InputError(f"{name}: a compression test has stretches below 1; the mean here is {stretch.mean():.3g}")

    def part(
        self, keep: Ints | Bools | slice, notes: tuple[str, ...] = (), warnings: tuple[str, ...] = ()
    ) -> MaterialTest:
        """Return the test with some of its samples, and with more to say of them."""
        said = (*self.notes, *notes), (*self.warnings, *warnings)
        return MaterialTest(self.mode, self.stretch[keep], self.nominal_stress[keep], self.name, *said, self.zero_error)


def _spikes(values: Floats) -> Bools:
    """Mark values (n,) that stand out of two neighbours on either side: no curve that rises does that, nor a break."""
    padded = np.pad(values, 2, constant_values=np.nan)
    near = np.stack([padded[:-4], padded[1:-3], padded[3:-1], padded[4:]])
    if len(values) > 2:
        near[3, -1] = 2.0 * values[-2] - values[-3]  # the last one may go on rising
    with np.errstate(invalid="ignore"):
        out = (values > SPIKE_RATIO * np.nanmax(near, axis=0)) | (values < np.nanmin(near, axis=0) / SPIKE_RATIO)
    out[[0, -1]] &= values[[0, -1]] > values[[1, -2]]  # a curve begins near zero and may end with a break
    rest = values[~out]
    spike_min_share = 0.05  # part of the largest value from which on a spike matters
    return np.asarray(
        out & (np.abs(values - np.nanmedian(near, axis=0)) > spike_min_share * (rest.max() if len(rest) else 0.0))
    )


def without_spikes(test: MaterialTest, *, in_time: bool) -> MaterialTest:
    """Leave out samples that cannot belong to the curve, such as a misplaced decimal point, and say which.

    `in_time` tells that the samples are in the order in which they were measured, so that strains are judged, too.
    """
    order = np.arange(len(test.stretch)) if in_time else np.argsort(test.stretch, kind="stable")
    if test.mode == "compression" and not in_time:
        order = order[::-1]
    strain, stress = np.abs(test.stretch[order] - 1.0), np.abs(test.nominal_stress[order])
    bad = _spikes(stress) | (_spikes(strain) if in_time else False)
    found = order[bad]
    if len(found) == 0 or len(test.stretch) < 5:
        return test
    max_spike_share = 0.1  # part of the samples that may be spikes; more are no mistakes of single rows
    if len(found) > max(max_spike_share * len(bad), 1):
        text = f"{len(found)} samples stand out of their neighbours by a factor {SPIKE_RATIO:g}: no curve of one test; look at it"
        return test.part(slice(None), warnings=(text,))
    shown = ", ".join(f"stretch {test.stretch[i]:.4g} with {test.nominal_stress[i] / 1e3:.4g} kPa" for i in found[:3])
    text = (
        f"{len(found)} samples left out, which their neighbours contradict by a factor {SPIKE_RATIO:g} or more: {shown}"
    )
    return test.part(np.setdiff1d(np.arange(len(bad)), found), warnings=(text,))


def loading_of(test: MaterialTest) -> MaterialTest:
    """Keep the first loading: up to the first reversal of more than a tenth of the range, and up to the break."""
    strain, load, notes = np.abs(test.stretch - 1.0), np.abs(test.nominal_stress), []
    drop = np.maximum.accumulate(strain) - strain
    # part of the range of strain that is unloading, of the largest stress that is a break
    unloading_strain_share, break_stress_share = 0.1, 0.8
    reversal = np.flatnonzero(drop > unloading_strain_share * np.ptp(strain))
    end = int(np.argmax(strain[: reversal[0]])) + 1 if len(reversal) else len(strain)
    if end < 2:
        text = f"the strain falls from the first sample on, so there is no first loading: all {len(strain)} samples are used"
        return test.part(slice(None), warnings=(text,))
    if end < len(strain):
        notes.append(f"first loading kept: {end} of {len(strain)} samples, to stretch {test.stretch[end - 1]:.4g}")
    peak = int(np.argmax(load[:end]))
    if 1 <= peak < end - 1 and load[peak + 1 : end].min() < break_stress_share * load[peak]:
        notes.append(f"cut at the largest stress (break): {end - peak - 1} samples dropped")
        end = peak + 1
    return test.part(slice(end), notes=tuple(notes))
