"""Parameters of a robot from measurements on it.

    minimise over q   sum_m sum_i  ((y_mi(q) - Y_mi) / sigma_m)^2      within the bounds of q

by Gauss-Newton (Levenberg-Marquardt damping, bounds by projection). y(q) are values taken from solved results: the tip,
markers, pressures, volumes, or any function of a result. The sensitivities dy/dq come from the solver's own tangent
where it gives them (the energy solver without contact: z' = z - K^-1 dR, one factorisation a frame for all parameters,
see `geosim.shape.energy.sensitivity`), else from finite differences of solves. With few parameters and many values this direct
form costs what an adjoint does. Each parameter is scaled, positive ones by their logarithm, so that a step of one per
cent means the same for all.

The intervals follow from the linearised fit with the spread of the residuals (or with the given sigma, if the
measurements are too few to estimate it); correlations and the condition number of the scaled sensitivities tell
whether the parameters can be told apart at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from geosim.arrays import Floats, frozen
from geosim.calibrate.measurements import Measurement
from geosim.calibrate.parameters import Parameter, Problem
from geosim.errors import InputError, SolveError

__all__ = ["RobotCalibration", "fit_robot"]

CORRELATED, ILL = 0.95, 1e3  # from here on parameters are hardly told apart
NEAR = 1e-4  # step of the tangent's sensitivities, in steps of the parameter x 100


@dataclass(frozen=True)
class RobotCalibration:
    """Parameters found on a robot, and how well they are known.

    Parameters
    ----------
    parameters, intervals
        By name; intervals at `confidence`.
    rms
        Root mean square residual in units of sigma.
    residuals
        Scaled residuals of all values.
    correlations
        Between parameters, (p, p).
    condition
        Condition number of the scaled sensitivities.
    warnings
        Identifiability, bounds, convergence.
    robot
        The robot with the parameters found.
    solves, iterations
        Counts.
    spared
        Solves that sensitivities from the tangent did without.
    """

    parameters: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    rms: float
    residuals: Floats
    correlations: Floats
    condition: float
    warnings: tuple[str, ...]
    robot: Any
    solves: int
    iterations: int
    converged: bool
    confidence: float = 0.95
    spared: int = 0

    def lines(self) -> list[str]:
        """Return the calibration as lines of text."""
        out = [
            f"{len(self.residuals)} values, {self.iterations} iterations, {self.solves} solves"
            + (f" ({self.spared} spared by the tangent)" if self.spared else "")
            + f", rms {self.rms:.4g} sigma"
        ]
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            out.append(f"  {name:16s} {value:.6g}   [{100 * self.confidence:g} %: {low:.6g} .. {high:.6g}]")
        return out + [f"  note: {w}" for w in self.warnings]


def fit_robot(
    robot: Any,
    measurements: Sequence[Measurement],
    parameters: Sequence[Parameter],
    *,
    solver: Any = None,
    solve: Callable[..., Any] | None = None,
    confidence: float = 0.95,
    tolerance: float = 1e-4,
    max_iterations: int = 15,
    tangent: bool = True,
) -> RobotCalibration:
    """Find parameters of a robot from measurements on it.

    Parameters
    ----------
    robot
        The robot as designed.
    measurements
        One or several `Measurement`.
    parameters
        One or several `Parameter`; at most as many as measured values.
    solver
        Passed to every solve.
    solve
        (robot, actuation, environment, solver=...) -> Result; default `geosim.solve`.
    confidence
        Level of the intervals.
    tolerance
        Scaled step (relative for logarithmic parameters) at which the iteration ends.
    max_iterations
        At most so many.
    tangent
        Whether sensitivities are taken from the solver's tangent where it gives them; False: always from solves.

    Raises
    ------
    InputError
        There are fewer values than parameters, or a measurement does not fit its result.
    SolveError
        The first solve fails.
    """
    if not measurements or not parameters:
        raise InputError("fit_robot: give at least one measurement and one parameter")
    names = [p.name for p in parameters]
    if len(set(names)) < len(names):
        raise InputError(f"fit_robot: parameters share a name: {names}")
    work = _Residuals(robot, tuple(measurements), tuple(parameters), solver, solve, tangent)
    count = sum(int(np.isfinite(m.values).sum()) for m in measurements)
    if count < len(parameters):
        raise InputError(
            f"fit_robot: {count} measured values cannot determine {len(parameters)} parameters; "
            f"measure more or fix some"
        )
    u = work.scaled(np.array([p.initial for p in parameters], dtype=float))
    low, high = (
        work.scaled(np.array([p.lower for p in parameters])),
        work.scaled(np.array([p.upper for p in parameters])),
    )
    r = work(u)
    damping, converged, done = 1e-3, False, 0
    jacobian = np.empty((len(r), len(u)))
    for _iteration in range(max_iterations):
        done += 1
        jacobian = work.jacobian(u, r, high)
        gradient, normal = jacobian.T @ r, jacobian.T @ jacobian
        pinned = ((u <= low) & (gradient > 0)) | ((u >= high) & (gradient < 0))
        free = np.flatnonzero(~pinned)
        step = np.zeros(len(u))
        for _ in range(8):
            inner = normal[np.ix_(free, free)]
            step[free] = -np.linalg.solve(inner + damping * np.diag(np.maximum(np.diag(inner), 1e-12)), gradient[free])
            trial = np.clip(u + np.clip(step, -work.largest, work.largest), low, high)
            try:
                found = work(trial)
            except SolveError:
                damping = max(10.0 * damping, 1e-3)
                continue
            if found @ found <= r @ r * (1 + 1e-12):
                damping *= 0.1
                break
            damping = max(10.0 * damping, 1e-3)
        else:
            converged = bool(np.abs(step / work.unit).max() < 0.1)
            break
        change = np.abs((trial - u) / work.unit).max()
        u, r = trial, found
        if change < tolerance:
            converged = True
            break
    return _conclude(work, u, r, jacobian, low, high, confidence, done, converged)


class _Residuals:
    """Scaled residuals as a function of scaled parameters; counts its solves."""

    def __init__(
        self,
        robot: Any,
        measurements: tuple[Measurement, ...],
        parameters: tuple[Parameter, ...],
        solver: Any,
        solve: Callable[..., Any] | None,
        tangent: bool,
    ) -> None:
        self.tangent = tangent and solve is None
        if solve is None:
            from geosim.solve import solve as default

            solve = default
        self.robot, self.solver, self.solve = robot, solver, solve
        self.measurements, self.parameters = measurements, parameters
        self.logarithmic = np.array([p.logarithmic for p in parameters])
        self.unit = np.where(self.logarithmic, 1.0, [100.0 * p.step for p in parameters])
        self.largest = np.where(self.logarithmic, 0.7, 50.0 * self.unit)
        self.solves = self.spared = 0
        self.kept: tuple[Floats, list[tuple[Problem, list[Any]]]] = (np.empty(0), [])

    def scaled(self, values: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(self.logarithmic, np.log(np.where(self.logarithmic, np.maximum(values, 0.0), 1.0)), values)

    def values(self, u: Floats) -> Floats:
        return np.where(self.logarithmic, np.exp(np.where(self.logarithmic, u, 0.0)), u)

    def problem(self, measurement: Measurement, u: Floats) -> Problem:
        made = Problem(self.robot, measurement.actuation, measurement.environment, self.solver)
        for parameter, value in zip(self.parameters, self.values(u)):
            made = parameter.change(made, float(value))
        return made

    def __call__(self, u: Floats) -> Floats:
        parts, kept = [], []
        for m in self.measurements:
            p = self.problem(m, u)
            states: list[Any] = []
            more: dict[str, Any] = {}
            if self.tangent and _has_tangent(p):  # the states of other solvers would only be kept
                more["progress"] = lambda state, *_, s=states: s.append(state)
            result = self.solve(p.robot, p.actuation, p.environment, solver=p.solver, **more)
            self.solves += 1
            kept.append((p, states))
            parts.append(self.residual(m, result))
        self.kept = (u.copy(), kept)
        return np.concatenate(parts)

    @staticmethod
    def residual(m: Measurement, result: Any) -> Floats:
        """Scaled residuals of a measurement."""
        predicted = np.asarray(m.observe(result), dtype=float)
        if predicted.shape != m.values.shape:
            raise InputError(
                f"{m.name}: measured values have shape {m.values.shape}, the result gives {predicted.shape}"
            )
        good = np.isfinite(m.values)
        if not np.isfinite(predicted[good]).all():
            raise InputError(
                f"{m.name}: the result does not know this quantity (nan); measure another or use another solver"
            )
        return np.asarray((predicted[good] - m.values[good]) / m.sigma)

    def jacobian(self, u: Floats, r: Floats, high: Floats) -> Floats:
        out = np.full((len(r), len(u)), np.nan)
        if self.tangent and np.array_equal(self.kept[0], u):
            self._from_tangents(u, out)
        for i in np.flatnonzero(np.isnan(out).any(axis=0)):
            p = self.parameters[i]
            step = p.step if u[i] + p.step <= high[i] else -p.step
            moved = u.copy()
            moved[i] += step
            out[:, i] = (self(moved) - r) / step
        return out

    def _from_tangents(self, u: Floats, out: Floats) -> None:
        """Write the columns that the solver's tangents give: central differences of neighbours to first order."""
        from geosim.environment import Environment
        from geosim.shape.energy.sensitivity import Neighbourhood
        from geosim.solve import default_solver

        steps = 100.0 * NEAR * np.array([p.step for p in self.parameters])
        row = 0
        for m, (base, states) in zip(self.measurements, self.kept[1]):
            count = int(np.isfinite(m.values).sum())
            whole = Environment()

            def known(p: Any, e: Environment = whole) -> tuple[Any, ...]:
                return (
                    p.solver or default_solver(p.robot),
                    p.robot,
                    p.actuation,
                    e if p.environment is None else p.environment,
                )

            solver, robot, _, environment = known(base)
            near = Neighbourhood.around(solver, robot, environment, states)
            if near is not None:
                asked = []
                for i, step in enumerate(steps):
                    for sign in (1.0, -1.0):
                        moved = u.copy()
                        moved[i] += sign * step
                        asked.append(known(self.problem(m, moved)))
                found = near.results(asked)
                for i, step in enumerate(steps):
                    plus, minus = found[2 * i : 2 * i + 2]
                    if plus is not None and minus is not None:
                        out[row : row + count, i] = (self.residual(m, plus) - self.residual(m, minus)) / (2.0 * step)
            row += count
        self.spared += len(self.measurements) * int(np.isfinite(out).all(axis=0).sum())


def _has_tangent(problem: Problem) -> bool:
    """Whether the solver of a problem is the one whose tangent gives sensitivities."""
    from geosim.shape.energy.solver import EnergyShapeSolver
    from geosim.solve import default_solver

    return isinstance(problem.solver or default_solver(problem.robot), EnergyShapeSolver)


def _conclude(
    work: _Residuals,
    u: Floats,
    r: Floats,
    jacobian: Floats,
    low: Floats,
    high: Floats,
    confidence: float,
    iterations: int,
    converged: bool,
) -> RobotCalibration:
    """Intervals, correlations and warnings of the solution."""
    names = [p.name for p in work.parameters]
    spare = len(r) - len(u)
    variance = float(r @ r) / spare if spare >= 3 else 1.0
    scaled = jacobian * work.unit
    singular = np.linalg.svd(scaled, compute_uv=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    covariance = np.linalg.pinv(scaled.T @ scaled, rcond=1e-14) * variance * np.outer(work.unit, work.unit)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = covariance / np.outer(deviation, deviation)
    factor = student.ppf(0.5 + 0.5 * confidence, spare if spare >= 3 else 1e6)
    ends = np.stack(
        [work.values(np.maximum(u - factor * deviation, low)), work.values(np.minimum(u + factor * deviation, high))],
        axis=1,
    )
    warnings = [] if converged else [f"not converged after {iterations} iterations"]
    if spare < 3:
        warnings.append("too few values to estimate their noise: the intervals rest on sigma as given")
    size = np.linalg.norm(scaled, axis=0)
    for i, name in enumerate(names):
        if size[i] < 1e-6 * max(size.max(), 1.0):
            warnings.append(f"{name} has no effect on what was measured: it is not identified")
        if u[i] <= low[i] or u[i] >= high[i]:
            warnings.append(f"{name} rests on its bound {work.values(u)[i]:.6g}: its interval is one-sided")
        for j in range(i):
            if abs(correlations[i, j]) > CORRELATED:
                warnings.append(
                    f"{names[j]} and {name} are hardly told apart (correlation "
                    f"{correlations[i, j]:.3f}): fix one or "
                    f"measure something else"
                )
    if condition > ILL:
        warnings.append(f"the sensitivities are nearly dependent (condition number {condition:.2g})")
    values = work.values(u)
    robot = work.problem(work.measurements[0], u).robot
    intervals = {n: (float(a), float(b)) for n, (a, b) in zip(names, ends)}
    rms = float(np.sqrt(np.mean(r**2)))
    return RobotCalibration(
        dict(zip(names, map(float, values))),
        intervals,
        rms,
        frozen(r),
        frozen(correlations),
        condition,
        tuple(warnings),
        robot,
        work.solves,
        iterations,
        converged,
        confidence,
        work.spared,
    )
