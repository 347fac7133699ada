"""Error of a measure due to the confidence intervals of the material constants, and to the choice of the law.

To first order a measure m of the constants q has the variance g^T C g, with g = dm/dq the sensitivities and C the
covariance of the constants. A calibration, of specimens or on a robot, gives C of a fit. A preset has the scatter s of
its shear modulus between batches. All moduli then scale together, and the standard deviation is s |dm/d ln mu|.
Materials that differ scatter independently. Another law that fits the same tests with the weight w adds w d^2, where d
is the change of the measure under that law. This covers stretches and modes that were not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.material.materials import Hyperelastic
from geosim.model.materials import known_preset
from geosim.model.robot import VolumetricRobot
from geosim.model.tolerances import half_width_factor
from geosim.response.derivatives.parameters import RESIDUAL_STEP_REL, Differences
from geosim.rods.robot import RodShellRobot
from geosim.rods.slopes import constant

CONSTANT_EQUALITY_REL = 1e-6  # relative difference of constants up to which a body is made of what was calibrated

LAW_STEP = 0.5  # half of the way from one law to another, which is 1

Change = Callable[[float], Mapping[int, Hyperelastic]]


@runtime_checkable
class ConstantsFit(Protocol):
    """Constants with confidence intervals: what `geosim.calibrate.fit_robot` returns."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Constants by name."""

    @property
    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """Least and largest of each by name."""

    @property
    def correlations(self) -> Floats | None:
        """Correlations of the n parameters (n, n), None where they are not known."""

    @property
    def confidence(self) -> float:
        """Level of the intervals."""


@runtime_checkable
class MaterialFit(ConstantsFit, Protocol):
    """Constants of one law with confidence intervals: what `geosim.calibrate.fit` returns."""

    @property
    def material(self) -> Hyperelastic:
        """The law with its constants."""

    @property
    def sides(self) -> Mapping[str, str]:
        """Intervals bounded on one side alone: "upper" or "lower" by name."""


@dataclass(frozen=True)
class Uncertain:
    """What is not known of the materials of a robot.

    Parameters
    ----------
    changes
        Materials by region a share of the way along every uncertain direction, and the step of their differences.
    covariance
        Of the shares.
    missing
        Why it is not known, or "".
    """

    changes: tuple[tuple[Change, float], ...]
    covariance: Floats
    missing: str = ""

    def drift(self, slopes: Floats) -> Floats:
        """Return what measures with derivatives (..., changes) change by where all shares fall together, with its sign."""
        fallen = half_width_factor() * np.sqrt(np.diag(self.covariance))
        return np.asarray(-(slopes @ fallen))

    def half_width(self, slopes: Floats) -> Floats:
        """Return the half-widths of the intervals of measures with derivatives (..., changes); nan where nothing is known."""
        if self.missing:
            return np.full(slopes.shape[:-1], np.nan)
        variance = np.einsum("...i,ij,...j->...", slopes, self.covariance, slopes)
        return np.asarray(half_width_factor() * np.sqrt(variance))


def uncertain(robot: VolumetricRobot, given: ConstantsFit | None) -> Uncertain:
    """Return what is not known of a robot's materials: the constants of a calibration, or the scatter of presets.

    Raises
    ------
    InputError
        It is no calibration, or no body is made of the calibrated material.
    """
    if given is None:
        return _with_laws(robot, _of_presets(robot), None)
    if isinstance(given, MaterialFit):
        return _with_laws(robot, _of_calibration(robot, given), given.material)
    if not isinstance(given, ConstantsFit):
        raise InputError(_no_calibration(given))
    return _of_robot(robot, given)


def _with_laws(robot: VolumetricRobot, known: Uncertain, calibrated: Hyperelastic | None) -> Uncertain:
    """Return what is not known with the laws that fit the tests of each material as well."""
    kinds = dict.fromkeys(robot.materials.values())
    weights, changes = [], []
    for kind in kinds:
        given = kind if kind.alternatives or calibrated is None or kind != calibrated else calibrated
        for weight, law in (given if given.alternatives else known_preset(given)).alternatives:
            weights.append(weight)
            changes.append((_other_law(robot, kind, law), LAW_STEP))
    if known.missing or not changes:
        return known
    count = len(known.changes)
    covariance = np.zeros((count + len(weights),) * 2)
    covariance[:count, :count] = known.covariance
    covariance[count:, count:] = np.diag(weights)
    return Uncertain((*known.changes, *changes), covariance)


def _other_law(robot: VolumetricRobot, kind: Hyperelastic, law: Hyperelastic) -> Change:
    """Return the change of a material to another law: all of it ahead, none behind, so that their difference is the change."""
    other = replace(law, bulk_modulus=kind.bulk_modulus * law.shear_modulus / kind.shear_modulus, density=kind.density)
    return lambda h: {r: other if m == kind and h > 0.0 else m for r, m in robot.materials.items()}


def _of_calibration(robot: VolumetricRobot, given: MaterialFit) -> Uncertain:
    law, values = type(given.material), np.array(list(given.parameters.values()))
    mine = [
        r
        for r, m in robot.materials.items()
        if type(m) is law and np.allclose(m.constants(), values, rtol=CONSTANT_EQUALITY_REL)
    ]
    if not mine:
        raise InputError(_made_of_others(robot, str(given.material)))

    def along(i: int) -> Change:
        unit = np.eye(len(values))[i]
        return lambda h: {
            r: law.of_constants(values + h * unit, density=m.density, bulk_modulus=m.bulk_modulus) if r in mine else m
            for r, m in robot.materials.items()
        }

    steps = RESIDUAL_STEP_REL * np.where(values != 0.0, np.abs(values), np.abs(values).max())
    return _of_some(given, tuple((along(i), float(h)) for i, h in enumerate(steps)), list(given.parameters))


def _of_robot(robot: VolumetricRobot, given: ConstantsFit) -> Uncertain:
    """Return what a calibration on a robot leaves open of its moduli and constants; what else it found is no material."""
    changes, names = [], []
    # Young's modulus of the first body, with which all moduli go, and a factor on all moduli, which this robot has already
    first = 3.0 * next(iter(robot.materials.values())).shear_modulus
    for name, value in given.parameters.items():
        together = name == "modulus" or (name == "E" and np.isclose(first, value, rtol=CONSTANT_EQUALITY_REL))
        change = _scaled(robot, value) if together else _one_constant(robot, name, value)
        if change is not None:
            names.append(name)
            changes.append((change, RESIDUAL_STEP_REL * abs(value)))
    if not names:
        found = ", ".join(f"{name} = {value:.4g}" for name, value in given.parameters.items())
        raise InputError(_made_of_others(robot, found))
    return _of_some(given, tuple(changes), names)


def _of_some(given: ConstantsFit, changes: tuple[tuple[Change, float], ...], names: Sequence[str]) -> Uncertain:
    """Return what a calibration leaves open of some of its parameters."""
    deviations = np.array([_width(given, name) for name in names]) / half_width_factor(given.confidence)
    rows = [list(given.parameters).index(name) for name in names]
    related = np.zeros((len(names),) * 2) if given.correlations is None else given.correlations[np.ix_(rows, rows)]
    mixed = np.nan_to_num(related)
    np.fill_diagonal(mixed, 1.0)
    covariance = mixed * np.outer(deviations, deviations)
    if not np.isfinite(covariance).all():
        loose = [name for name, deviation in zip(names, deviations) if not np.isfinite(deviation)]
        return Uncertain((), covariance, f"the calibration does not bound {', '.join(loose)}")
    return Uncertain(changes, covariance)


def of_rods(robot: RodShellRobot, given: ConstantsFit | None) -> tuple[tuple[str, ...], Uncertain]:
    """Return which constants of rods a calibration leaves open ("youngs_modulus", "density", "radius"), and by how much.

    Raises
    ------
    InputError
        It is no calibration, or of none of these, or of another value than the rods have.
    """
    if given is None:
        return (), Uncertain((), np.zeros((0, 0)), "no scatter is known of a LinearElastic; give a Calibration")
    if not isinstance(given, ConstantsFit):
        raise InputError(_no_calibration(given))
    known = {"E": "youngs_modulus", "youngs_modulus": "youngs_modulus", "density": "density", "radius": "radius"}
    names = [
        name
        for name, value in given.parameters.items()
        if name in known and np.isclose(constant(robot, known[name]), value, rtol=CONSTANT_EQUALITY_REL)
    ]
    if not names:
        found = ", ".join(f"{name} = {value:.4g}" for name, value in given.parameters.items())
        raise InputError(f"error_bars: no rod has the calibrated {found}; the robot has {robot.materials[0]}")
    return tuple(known[name] for name in names), _of_some(given, (), names)


def _no_calibration(given: Any) -> str:
    return f"error_bars: material={str(given)[:60]!r} is no Calibration; geosim.calibrate.fit and fit_robot return one"


def _scaled(robot: VolumetricRobot, value: float) -> Change:
    """Return the change of all moduli in proportion to a number that stands for them."""
    return lambda h: {r: m.stiffened(1.0 + h / value) for r, m in robot.materials.items()}


def _one_constant(robot: VolumetricRobot, name: str, value: float) -> Change | None:
    """Return the change of a constant in the bodies that have it at a value; None where there is none."""
    mine = [
        r for r, m in robot.materials.items() if np.isclose(getattr(m, name, np.nan), value, rtol=CONSTANT_EQUALITY_REL)
    ]
    if not mine:
        return None

    def changed(h: float) -> dict[int, Hyperelastic]:
        given: dict[str, Any] = {name: value + h}
        return {r: replace(m, **given) if r in mine else m for r, m in robot.materials.items()}

    return changed


def _made_of_others(robot: VolumetricRobot, calibrated: str) -> str:
    known = ", ".join(str(m) for m in robot.materials.values())
    return f"error_bars: no body is made of the calibrated {calibrated}; the robot has {known}"


def _width(given: ConstantsFit, name: str) -> float:
    """Half of an interval; of a one-sided one its whole length."""
    low, high = given.intervals[name]
    side, value = getattr(given, "sides", {}).get(name, ""), given.parameters[name]
    return {"upper": high - value, "lower": value - low}.get(side, 0.5 * (high - low))


def _of_presets(robot: VolumetricRobot) -> Uncertain:
    kinds = list(dict.fromkeys(robot.materials.values()))
    scatter = [m.scatter if np.isfinite(m.scatter) else known_preset(m).scatter for m in kinds]
    loose = [str(m) for m, s in zip(kinds, scatter) if not np.isfinite(s)]
    if loose:
        return Uncertain((), np.zeros((0, 0)), f"no scatter is known of {', '.join(loose)}; give a Calibration")

    return Uncertain(tuple((_stiffer(robot, kind), RESIDUAL_STEP_REL) for kind in kinds), np.diag(np.square(scatter)))


def unsaid(robot: VolumetricRobot) -> Uncertain | None:
    """Return what first cycles and holds may take of the moduli where nobody said which, of all bodies at once; None: nothing."""
    shares = {
        m: m.unsaid_softening or known_preset(m).unsaid_softening for m in dict.fromkeys(robot.materials.values())
    }
    kinds = [m for m, share in shares.items() if share > 0.0]
    if not kinds:
        return None
    taken = np.array([shares[m] for m in kinds]) / half_width_factor()
    return Uncertain(tuple((_stiffer(robot, kind), RESIDUAL_STEP_REL) for kind in kinds), np.outer(taken, taken))


def _stiffer(robot: VolumetricRobot, kind: Hyperelastic) -> Change:
    """Return the change of all moduli of one material together."""
    return lambda h: {r: m.stiffened(1.0 + h) if m == kind else m for r, m in robot.materials.items()}


def slopes(made: Differences, known: Uncertain) -> Floats:
    """Return the derivatives of a measure by the shares of what is not known, (its shape, changes)."""
    return made.by_all([made.of_materials(change, step) for change, step in known.changes])
