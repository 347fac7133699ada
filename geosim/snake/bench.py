"""A link on the test bench: bend angle against pressure, and the fit of the actuation stiffness to a measured line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import root_scalar

from geosim.arrays import Floats, floats
from geosim.errors import InputError
from geosim.snake.model import SnakeRobot
from geosim.snake.snake import make_snake
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.valves import Valves


@dataclass(frozen=True)
class BendCurve:
    """Bend angles of one link at rest.

    Parameters
    ----------
    pressures
        Signed [Pa], (k,); positive inflates the left chamber.
    angles
        Yaw of the second plate against the first [rad], (k,); positive to the left.
    residuals
        Largest unbalanced force of each equilibrium [N], (k,).
    """

    pressures: Floats
    angles: Floats
    residuals: Floats

    def line(self, limit: float = np.inf) -> tuple[float, float]:
        """Slope [rad/Pa] of the line through zero up to |pressure| <= limit [Pa], and its R^2 (nan for one angle)."""
        use = abs(self.pressures) <= limit * (1 + 1e-9)
        p, a = self.pressures[use], self.angles[use]
        slope = float(p @ a / (p @ p))
        spread = float(((a - a.mean()) ** 2).sum())
        return slope, 1.0 - float(((a - slope * p) ** 2).sum()) / spread if spread > 0 else np.nan


def bend_curve(
    pressures: Any, robot: SnakeRobot | None = None, *, settle: int = 12, tolerance: float = 1e-6, **options: Any
) -> BendCurve:
    """Measure the bend angle of one link at signed pressures [Pa], from small to large on either side.

    Parameters
    ----------
    pressures
        [Pa], (k,).
    robot
        Default `make_snake(links=1, hold_tail=True, **options)`.
    settle
        Implicit Euler steps of 0.2 s at every pressure; they damp the motion out.
    tolerance
        Of every step [N].

    Raises
    ------
    InputError
        The robot has more than one link.
    """
    pressures = floats(pressures, "bend_curve: pressures", (None,))
    robot = make_snake(links=1, hold_tail=True, **options) if robot is None else robot
    if robot.links != 1:
        raise InputError(f"bend_curve: the robot has {robot.links} links; give one link on the bench")
    stepper = MultibodyStepper(dt=0.2, substeps=1, valves=Valves(law="ideal"), max_iterations=60, tolerance=tolerance)
    rest = stepper.start(robot)
    angles, residuals = np.zeros(len(pressures)), np.zeros(len(pressures))
    for sign in (1.0, -1.0):
        state = rest
        for k in np.argsort(abs(pressures)):
            if sign * pressures[k] < 0 or (pressures[k] == 0 and sign < 0):
                continue
            for _ in range(settle):
                before = state.bend_angles[0, 0]
                state, _report = stepper.step(state, pressures[k : k + 1])
                if abs(state.bend_angles[0, 0] - before) < 1e-6:
                    break
            angles[k], residuals[k] = state.bend_angles[0, 0], state.residual
    return BendCurve(pressures, angles, residuals)


@dataclass(frozen=True)
class LineFit:
    """Fitted rigidity of the actuation lines [N], its slope [rad/Pa], and the remainder of the measurement [rad]."""

    line_rigidity: float
    slope: float
    rms: float


def fit_line_rigidity(pressures: Any, angles: Any, *, start: float = 1.0, **options: Any) -> LineFit:
    """Fit the actuation stiffness to measured bend angles of one link.

    Parameters
    ----------
    pressures, angles
        Measured, signed [Pa] and [rad], (k,); an inflated left chamber (positive) bends to the right (negative).
    start
        First guess of the rigidity [N].
    options
        Other arguments of `make_snake`.

    Raises
    ------
    InputError
        The lengths differ, or the angles have the wrong sign.
    """
    p, a = floats(pressures, "pressures", (None,)), floats(angles, "angles", (None,))
    if len(p) != len(a) or len(p) == 0 or not (p @ p > 0):
        raise InputError(
            f"fit_line_rigidity: {len(p)} pressures and {len(a)} angles; give as many of each, not all zero"
        )
    target = float(p @ a / (p @ p))
    if target >= 0:
        raise InputError(
            "fit_line_rigidity: a positive pressure inflates the left chamber and must bend to the right, with "
            "a negative angle; change the sign of the angles"
        )
    # The slope grows with the rigidity and saturates: k / (k + k0) is nearly exact, so 1/slope is sought by 1/k.
    probe = np.array([0.5 * abs(p).max()])

    def miss(inverse: float) -> float:
        if inverse <= 0:
            raise InputError(
                f"fit_line_rigidity: a slope of {target:.3g} rad/Pa is more than these lines can give at any "
                f"rigidity; raise the strain law (a smaller line_modulus)"
            )
        return target / bend_curve(probe, line_rigidity=1.0 / inverse, **options).line()[0] - 1.0

    rigidity = 1.0 / root_scalar(miss, x0=1.0 / start, x1=1.0 / (1.5 * start), rtol=1e-4, maxiter=8).root
    fitted = bend_curve(p, line_rigidity=rigidity, **options)
    return LineFit(rigidity, fitted.line()[0], float(np.sqrt(np.mean((fitted.angles - a) ** 2))))
