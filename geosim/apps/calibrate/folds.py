"""Cross-validation of parameters fitted to measurements of a robot.

Every measurement is left out in turn (or several folds of them), the parameters are fitted to the rest, and the ones left out are
predicted. What these predictions are off is what the model does to loads that it has not seen; residuals of a single fit flatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from geosim.apps.calibrate.identify import RobotCalibration, fit_robot
from geosim.apps.calibrate.measurements import Measurement
from geosim.apps.calibrate.parameters import Parameter, Problem, changed
from geosim.arguments import guarded
from geosim.arrays import Floats, frozen, whole
from geosim.errors import InputError
from geosim.model.contract import Robot
from geosim.model.tolerances import CONFIDENCE_LEVEL
from geosim.solve import solve as solve_problem


@guarded
@dataclass(frozen=True)
class KFold:
    """Measurements predicted from the others.

    Parameters
    ----------
    whole
        The fit to all.
    names
        Of the measurements, in their order.
    values, predicted
        What was measured and what the others predict, one array a measurement, in their units.
    scaled
        Errors in units of sigma, one array a measurement.
    parameters
        Of every fold, (folds, p).
    """

    whole: RobotCalibration
    names: tuple[str, ...]
    values: tuple[Floats, ...]
    predicted: tuple[Floats, ...]
    scaled: tuple[Floats, ...]
    parameters: Floats

    @property
    def rms(self) -> float:
        """Root mean square error of the predictions, in units of sigma."""
        return float(np.sqrt(np.mean(np.concatenate([s.ravel() for s in self.scaled]) ** 2)))

    @property
    def factor(self) -> float:
        """Half-width of a 95 % interval of a new measurement, in units of sigma, with as many freedoms as measurements.

        Values of one measurement are off together; they count as one.
        """
        return self.rms * float(stdtrit(len(self.names), 0.5 + 0.5 * CONFIDENCE_LEVEL))

    def lines(self) -> list[str]:
        """Return what was found as lines of text."""
        out = [f"fitted to all: rms {self.whole.rms:.3g} sigma; left out and predicted: rms {self.rms:.3g} sigma"]
        spread = np.ptp(self.parameters, axis=0)
        for (name, value), wide in zip(self.whole.parameters.items(), spread):
            out.append(f"  {name:16s} {value:.6g}, over the folds {wide:.2g} apart")
        out += [f"  {n}: {float(np.sqrt(np.mean(s**2))):.3g} sigma" for n, s in zip(self.names, self.scaled)]
        return out + [f"  note: {w}" for w in self.whole.warnings]


@guarded
def k_fold(
    robot: Robot,
    measurements: Sequence[Measurement],
    parameters: Sequence[Parameter],
    folds: int | None = None,
    **options: Any,
) -> KFold:
    """Fit parameters to all measurements, and predict each from the folds that it is not in.

    Parameters
    ----------
    robot, measurements, parameters
        As of `fit_robot`; at least two measurements.
    folds
        How many; default one a measurement. Measurements are dealt to them in turn.
    options
        As of `fit_robot`.

    Raises
    ------
    InputError
        There are fewer than two measurements or folds, or more folds than measurements.
    SolveError
        A first solve fails, or one of what was left out.
    """
    count = len(measurements)
    parts = whole(count if folds is None else folds, "k_fold: folds", least=2)
    if parts > count:
        raise InputError(f"k_fold: {parts} folds of {count} measurements; measure more, or take at most {count}")
    everything = fit_robot(robot, measurements, parameters, **options)
    run = options.get("solve") or solve_problem
    predicted: dict[int, Floats] = {}
    found = []
    for part in range(parts):
        rest = [m for i, m in enumerate(measurements) if i % parts != part]
        fitted = fit_robot(robot, rest, parameters, **options)
        found.append(list(fitted.parameters.values()))
        for i in range(part, count, parts):
            m = measurements[i]
            made = changed(Problem(robot, m.actuation, m.environment, options.get("solver")), parameters, found[-1])
            result = run(made.robot, made.actuation, made.environment, solver=made.solver)
            predicted[i] = frozen(m.predicted(result))
    guessed = tuple(predicted[i] for i in range(count))
    return KFold(
        everything,
        tuple(m.name for m in measurements),
        tuple(m.values for m in measurements),
        guessed,
        tuple(frozen(m.residuals(guess)) for m, guess in zip(measurements, guessed)),
        frozen(np.array(found)),
    )
