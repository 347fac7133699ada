"""Parameters of a robot from measurements on it.

    minimise over q   sum_m sum_i  ((y_mi(q) - Y_mi) / sigma_m)^2      within the bounds of q

by Gauss-Newton steps in a trust region that bounds cut (SciPy's dogleg). y(q) are values taken from solved results: the
tip, markers, pressures, volumes, or any function of a result. The sensitivities dy/dq come from the solver's own tangent if
available (the energy solver without contact: z' = z - K^-1 dR, one factorisation a frame for all parameters, see
`geosim.response.derivatives.neighbours`), else from finite differences of solves. With few parameters and many values
this direct form costs what an adjoint does. Each parameter is scaled, positive ones by their logarithm, so that a step
of one per cent means the same for all.

Knowledge of a parameter beforehand is a residual of its own, (q - initial) / prior (of logarithms where q is positive); then
the sigmas of measurements count as they are given.

The intervals follow from the linearised fit with the spread of the residuals (or with the given sigma, if the
measurements are too few to estimate it). Correlations and the condition number of the scaled sensitivities show whether
the parameters can be distinguished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.special import stdtrit

from geosim.apps.calibrate.fitting import correlations
from geosim.apps.calibrate.measurements import Measurement
from geosim.apps.calibrate.parameters import Parameter, Problem, changed
from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, frozen
from geosim.errors import InputError, SolveError
from geosim.model.actuation import Actuation, Command
from geosim.model.contract import Progress, Report, Robot, Solver, State
from geosim.model.environment import Environment
from geosim.model.tolerances import CONFIDENCE_LEVEL
from geosim.response.derivatives.neighbours import Neighbourhood
from geosim.response.derivatives.parameters import RESIDUAL_STEP_REL
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.state import ShapeState
from geosim.solve import default_solver
from geosim.solve import solve as solve_problem

MIN_DEGREES_OF_FREEDOM = 3  # spare values from which on the residuals tell their own spread


@guarded
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
    robot: Robot
    solves: int
    iterations: int
    converged: bool
    confidence: float = CONFIDENCE_LEVEL
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


@guarded
def fit_robot(
    robot: Robot,
    measurements: Sequence[Measurement],
    parameters: Sequence[Parameter],
    *,
    solver: Solver[Any] | None = None,
    solve: Callable[..., Result] | None = None,
    confidence: float = CONFIDENCE_LEVEL,
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
        At most this many.
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
    if count + len(work.pull) < len(parameters):
        raise InputError(
            f"fit_robot: {count} measured values cannot determine {len(parameters)} parameters; "
            f"measure more or fix some"
        )
    return _conclude(work, _fitted(work, tolerance, max_iterations), confidence)


class _Residuals:
    """Scaled residuals as a function of scaled parameters; counts its solves."""

    def __init__(
        self,
        robot: Robot,
        measurements: tuple[Measurement, ...],
        parameters: tuple[Parameter, ...],
        solver: Solver[Any] | None,
        solve: Callable[..., Result] | None,
        tangent: bool,
    ) -> None:
        self.tangent = tangent and solve is None
        self.robot, self.solver, self.solve = robot, solver, solve or solve_problem
        self.measurements, self.parameters = measurements, parameters
        self.logarithmic = np.array([p.logarithmic for p in parameters])
        self.unit = np.where(self.logarithmic, 1.0, [100.0 * p.step for p in parameters])
        prior = np.array([p.prior for p in parameters])
        self.middle = self.scaled([p.initial for p in parameters])
        self.pull = np.diag(1.0 / prior)[np.isfinite(prior)]  # rows of the residuals (u - middle) / prior
        self.low, self.high = (self.scaled([getattr(p, end) for p in parameters]) for end in ("lower", "upper"))
        self.solves = self.spared = 0
        self.kept: tuple[Floats, Floats, list[tuple[Problem, list[ShapeState]]]] = (np.empty(0), np.empty(0), [])

    def scaled(self, values: Sequence[float] | Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(self.logarithmic, np.log(np.where(self.logarithmic, np.maximum(values, 0.0), 1.0)), values)

    def values(self, u: Floats) -> Floats:
        with np.errstate(over="ignore"):  # the end of an interval may be infinite
            return np.where(self.logarithmic, np.exp(np.where(self.logarithmic, u, 0.0)), u)

    def problem(self, measurement: Measurement, u: Floats) -> Problem:
        made = Problem(self.robot, measurement.actuation, measurement.environment, self.solver)
        return changed(made, self.parameters, self.values(u).tolist())

    def __call__(self, u: Floats) -> Floats:
        if np.array_equal(self.kept[0], u):
            return self.kept[1]
        parts, kept = [], []
        for m in self.measurements:
            p = self.problem(m, u)
            states: list[ShapeState] = []
            used = p.solver
            if self.tangent:  # the states of other solvers would only be kept
                chosen = p.solver or default_solver(p.robot)
                used = _Recording(chosen, states) if isinstance(chosen, EnergyShapeSolver) else chosen
            result = self.solve(p.robot, p.actuation, p.environment, solver=used)
            self.solves += 1
            kept.append((p, states))
            parts.append(m.residuals(m.predicted(result)))
        residuals = np.concatenate([*parts, self.pull @ (u - self.middle)])
        self.kept = (u.copy(), residuals, kept)
        return residuals

    def jacobian(self, u: Floats, r: Floats) -> Floats:
        out = np.full((len(r), len(u)), np.nan)
        out[len(r) - len(self.pull) :] = self.pull
        if self.tangent and np.array_equal(self.kept[0], u):
            self._from_tangents(u, out)
        for i in np.flatnonzero(np.isnan(out).any(axis=0)).tolist():
            p = self.parameters[i]
            step = p.step if u[i] + p.step <= self.high[i] else -p.step
            out[:, i] = (self(_moved(u, i, step)) - r) / step
        return out

    def _from_tangents(self, u: Floats, out: Floats) -> None:
        """Write the columns that the solver's tangents give: central differences of neighbours to first order."""
        steps = RESIDUAL_STEP_REL * self.unit
        row = 0
        for m, (base, states) in zip(self.measurements, self.kept[2]):
            rows = slice(row, row + int(np.isfinite(m.values).sum()))
            row = rows.stop
            solver, robot, _, environment = _arguments(base, whole := Environment())
            near = Neighbourhood.around(solver, robot, environment, states)
            if near is None:
                continue
            sides = [_moved(u, i, s) for i, step in enumerate(steps) for s in (step, -step)]
            found = near.results([_arguments(self.problem(m, side), whole) for side in sides])
            for i, (plus, minus) in enumerate(zip(found[::2], found[1::2])):
                if plus is not None and minus is not None:
                    out[rows, i] = (m.residuals(m.predicted(plus)) - m.residuals(m.predicted(minus))) / (2.0 * steps[i])
        self.spared += len(self.measurements) * int(np.isfinite(out).all(axis=0).sum())


@dataclass(frozen=True)
class _Recording:
    """The energy solver, which notes the equilibria that it reaches."""

    solver: EnergyShapeSolver
    states: list[ShapeState]

    def commands(self, robot: Robot, actuation: Actuation) -> Sequence[Command]:
        return self.solver.commands(robot, actuation)

    def start(self, robot: Robot, environment: Environment, initial: State | None = None) -> ShapeState:
        return self.solver.start(robot, environment, initial)

    def step(
        self, state: ShapeState, command: Command, progress: Callable[[Progress], None] | None = None
    ) -> tuple[ShapeState, Report]:
        reached, report = self.solver.step(state, command, progress)
        if report.reached:
            self.states.append(reached)
        return reached, report


def _moved(u: Floats, i: int, step: float) -> Floats:
    return np.asarray(u + step * np.eye(len(u))[i])


def _arguments(problem: Problem, whole: Environment) -> tuple[Solver[Any], Robot, Actuation, Environment]:
    """Return solver, robot, actuation and environment of a problem; `whole` stands for no environment."""
    environment = whole if problem.environment is None else problem.environment
    return problem.solver or default_solver(problem.robot), problem.robot, problem.actuation, environment


@dataclass(frozen=True)
class _Minimum:
    """Scaled parameters, which of them a bound holds, their residuals, and the sensitivities by `_Residuals.unit`."""

    u: Floats
    bound: Bools
    residuals: Floats
    jacobian: Floats
    iterations: int
    converged: bool


def _fitted(work: _Residuals, tolerance: float, max_iterations: int) -> _Minimum:
    """Return the least squares; a solve that fails on the way shortens the step, the first one raises."""
    count = len(work(work.middle))
    first_step = 0.7  # at most, in units: a logarithmic parameter goes to half or twice its value

    def at(x: Floats) -> Floats:
        return np.asarray(np.clip(work.middle + work.unit * (x - first_step), work.low, work.high))

    def misses(x: Floats) -> Floats:
        try:
            return work(at(x))
        except SolveError:
            return np.full(count, np.inf)

    def slopes(x: Floats) -> Floats:
        u = at(x)
        return work.jacobian(u, work(u)) * work.unit

    # the trust region begins as wide as the start is far from 0
    start = np.full(len(work.unit), first_step)
    ends = tuple(first_step + (end - work.middle) / work.unit for end in (work.low, work.high))
    found = least_squares(
        misses, start, slopes, bounds=ends, method="dogbox", xtol=tolerance, max_nfev=max_iterations + 1
    )
    return _Minimum(at(found.x), found.active_mask != 0, found.fun, found.jac, found.njev, found.status > 0)


def _conclude(work: _Residuals, found: _Minimum, confidence: float) -> RobotCalibration:
    """Intervals, correlations and warnings of the solution."""
    u, r = found.u, found.residuals
    values = len(r) - len(work.pull)
    spare = 0 if len(work.pull) else len(r) - len(u)  # priors are absolute, and sigmas beside them, too
    variance = float(r @ r) / spare if spare >= MIN_DEGREES_OF_FREEDOM else 1.0
    scaled = found.jacobian
    singular = np.linalg.svd(scaled, compute_uv=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    covariance = np.linalg.pinv(scaled.T @ scaled, rcond=1e-14) * variance * np.outer(work.unit, work.unit)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    half = stdtrit(spare if spare >= MIN_DEGREES_OF_FREEDOM else np.inf, 0.5 + 0.5 * confidence) * deviation
    low, high = work.values(np.maximum(u - half, work.low)), work.values(np.minimum(u + half, work.high))
    names = [p.name for p in work.parameters]
    related = correlations(covariance)
    return RobotCalibration(
        dict(zip(names, work.values(u).tolist())),
        dict(zip(names, zip(low.tolist(), high.tolist()))),
        float(np.sqrt(np.mean(r[:values] ** 2))),
        frozen(r[:values]),
        frozen(related),
        condition,
        tuple(_warnings(work, found, np.linalg.norm(scaled[:values], axis=0), related, condition)),
        work.problem(work.measurements[0], u).robot,
        work.solves,
        found.iterations,
        found.converged,
        confidence,
        work.spared,
    )


def _warnings(work: _Residuals, found: _Minimum, effects: Floats, related: Floats, condition: float) -> list[str]:
    """What the numbers alone do not tell."""
    out = [] if found.converged else [f"not converged after {found.iterations} iterations"]
    if len(found.residuals) - len(found.u) < MIN_DEGREES_OF_FREEDOM and not len(work.pull):
        out.append("too few values to estimate their noise: the intervals rest on sigma as given")
    names, values = [p.name for p in work.parameters], work.values(found.u)
    # scaled sensitivity, relative to the largest, of a parameter that changes nothing
    min_sensitivity_rel = 1e-6
    # correlation and condition number from which on parameters are hardly told apart
    max_parameter_correlation, max_condition_number = 0.95, 1e3
    for i, name in enumerate(names):
        if effects[i] < min_sensitivity_rel * max(effects.max(), 1.0):
            out.append(f"{name} has no effect on what was measured: it is not identified")
        if found.bound[i]:
            out.append(f"{name} rests on its bound {values[i]:.6g}: its interval is one-sided")
        for j in np.flatnonzero(np.abs(related[i, :i]) > max_parameter_correlation):
            out.append(
                f"{names[j]} and {name} are hardly told apart (correlation {related[i, j]:.3f}): fix one or "
                f"measure something else"
            )
    if condition > max_condition_number:
        out.append(f"the sensitivities are nearly dependent (condition number {condition:.2g})")
    return out
