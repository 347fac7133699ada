"""How far a measure may be off because the material is not known better.

To first order a measure m of the constants q has the variance g^T C g, with g = dm/dq the sensitivities and C the covariance
of the constants. A calibration gives C of a fit; of a preset the scatter s of its shear modulus between batches is known,
then all moduli scale together and the standard deviation is s |dm/d ln mu|. Materials that differ scatter independently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from geosim.arrays import Floats
from geosim.calibrate.calibration import Calibration
from geosim.calibrate.curves import find_model
from geosim.derivatives.parameters import STEP, Columns, Differences
from geosim.derivatives.quantities import Configuration, Measure, quantity
from geosim.derivatives.sensitivity import by_columns
from geosim.derivatives.tangent import Tangent
from geosim.errors import InputError
from geosim.material.materials import Hyperelastic
from geosim.materials import known_preset
from geosim.robot import VolumetricRobot
from geosim.shape.energy.solver import EnergyShapeSolver

__all__ = ["LEVEL", "Uncertain", "half_widths", "uncertain"]

LEVEL = 0.95  # of the intervals

Change = Callable[[float], Mapping[int, Hyperelastic]]


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


def uncertain(robot: VolumetricRobot, given: Calibration | None) -> Uncertain:
    """Return what is not known of a robot's materials: the constants of a calibration, or the scatter of presets.

    Raises
    ------
    InputError
        No body is made of the calibrated material.
    """
    return _of_presets(robot) if given is None else _of_calibration(robot, given)


def _of_calibration(robot: VolumetricRobot, given: Calibration) -> Uncertain:
    if not isinstance(given, Calibration):
        raise InputError(
            f"error_bars: material={str(given)[:60]!r} is no Calibration; geosim.calibrate.fit returns one"
        )
    law, values = find_model(given.model).law, np.array(list(given.parameters.values()))
    mine = [r for r, m in robot.materials.items() if type(m) is law and np.allclose(m.constants(), values, rtol=1e-6)]
    if not mine:
        known = ", ".join(str(m) for m in robot.materials.values())
        raise InputError(f"error_bars: no body is made of the calibrated {given.material}; the robot has {known}")
    widths = np.array([_width(given, name) for name in given.parameters])
    deviations = widths / norm.ppf(0.5 + 0.5 * given.confidence)
    mixed = np.zeros((len(values),) * 2) if given.correlations is None else np.nan_to_num(given.correlations)
    np.fill_diagonal(mixed, 1.0)
    covariance = mixed * np.outer(deviations, deviations)
    if not np.isfinite(covariance).all():
        loose = [n for n, w in zip(given.parameters, widths) if not np.isfinite(w)]
        return Uncertain((), covariance, f"the calibration does not bound {', '.join(loose)}")

    def along(i: int) -> Change:
        unit = np.eye(len(values))[i]
        return lambda h: {
            r: law.of_constants(values + h * unit, density=m.density, bulk_modulus=m.bulk_modulus) if r in mine else m
            for r, m in robot.materials.items()
        }

    steps = STEP * np.where(values != 0.0, np.abs(values), np.abs(values).max())
    return Uncertain(tuple((along(i), float(h)) for i, h in enumerate(steps)), covariance)


def _width(given: Calibration, name: str) -> float:
    """Half of an interval; of a one-sided one its whole length."""
    low, high = given.intervals[name]
    side, value = given.sides[name], given.parameters[name]
    return {"upper": high - value, "lower": value - low}.get(side, 0.5 * (high - low))


def _of_presets(robot: VolumetricRobot) -> Uncertain:
    kinds = list(dict.fromkeys(robot.materials.values()))
    scatter = [m.scatter if np.isfinite(m.scatter) else known_preset(m).scatter for m in kinds]
    loose = [str(m) for m, s in zip(kinds, scatter) if not np.isfinite(s)]
    if loose:
        return Uncertain((), np.zeros((0, 0)), f"no scatter is known of {', '.join(loose)}; give a Calibration")

    def along(kind: Hyperelastic) -> Change:
        return lambda h: {r: m.stiffened(1.0 + h) if m == kind else m for r, m in robot.materials.items()}

    return Uncertain(tuple((along(kind), STEP) for kind in kinds), np.diag(np.square(scatter)))


def half_widths(tangent: Tangent, of: str | Measure, known: Uncertain, solver: EnergyShapeSolver, frame: int) -> Floats:
    """Return the half-widths of the intervals of a measure at an equilibrium, of its shape; nan where nothing is known."""
    robot, environment = tangent.problem.robot, tangent.problem.environment
    asked = quantity(of, tangent.problem, Configuration(tangent.problem, tangent.state.point, tangent.grip))
    if known.missing:
        return np.full(asked.shape, np.nan)
    made = Differences(tangent, asked, solver, frame)
    found = [
        made.column(lambda h, change=change: (replace(robot, materials=change(h)), environment), step)  # type: ignore[misc]
        for change, step in known.changes
    ]
    slopes = by_columns(tangent, asked, Columns((len(found),), list(found)))
    variance = np.einsum("...i,ij,...j->...", slopes, known.covariance, slopes)
    return np.asarray(norm.ppf(0.5 + 0.5 * LEVEL) * np.sqrt(variance))
