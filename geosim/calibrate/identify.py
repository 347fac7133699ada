"""Parameters of a robot from measurements on it.

    minimise over q   sum_m sum_i  ((y_mi(q) - Y_mi) / sigma_m)^2      within the bounds of q

by Gauss-Newton (Levenberg-Marquardt damping, bounds by projection). y(q) are values taken from solved results: the tip,
markers, pressures, volumes, or any function of a result. The sensitivities dy/dq are finite differences of solves;
each parameter is scaled, positive ones by their logarithm, so that a step of one per cent means the same for all.

The intervals follow from the linearised fit with the spread of the residuals (or with the given sigma, if the
measurements are too few to estimate it); correlations and the condition number of the scaled sensitivities tell
whether the parameters can be told apart at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from geosim.arrays import Floats, frozen
from geosim.errors import InputError, SolveError

__all__ = ["Measurement", "Parameter", "Problem", "RobotCalibration", "fit_robot"]

CORRELATED, ILL = 0.95, 1e3  # from here on parameters are hardly told apart


@dataclass(frozen=True)
class Problem:
    """What is solved for one measurement: the arguments of `geosim.solve`."""

    robot: Any
    actuation: Any
    environment: Any = None
    solver: Any = None


@dataclass(frozen=True)
class Measurement:
    """Measured values and how a result predicts them.

    Build it with `tip`, `displacement`, `markers`, `pressures` or `volumes`, or give any function of a result.

    Parameters
    ----------
    actuation
        What was done to the robot.
    observe
        Result -> array.
    values
        Measured, of the shape that `observe` returns; nan where nothing was measured.
    environment
        Gravity, loads, obstacles of the measurement; default none.
    sigma
        Standard deviation of one value, in its unit; only ratios between measurements matter unless there are too
        few values to estimate it.
    name
        Shown in tables.
    """

    actuation: Any
    observe: Callable[[Any], Any]
    values: Any
    environment: Any = None
    sigma: float = 1.0
    name: str = "measurement"

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        if not np.isfinite(values).any():
            raise InputError(f"{self.name}: values hold no finite number")
        if not (np.isfinite(self.sigma) and self.sigma > 0):
            raise InputError(f"{self.name}: sigma = {self.sigma!r} must be positive, in the unit of the values")
        object.__setattr__(self, "values", frozen(values))

    @classmethod
    def tip(cls, actuation: Any, positions: Any, environment: Any = None, sigma: float = 1e-3) -> Measurement:
        """Tip positions in the robot's frame [m], (3,) of the last frame or (k, 3)."""
        last = np.ndim(positions) == 1
        return cls(actuation, lambda r: r.tip[-1] if last else r.tip, positions, environment, sigma, "tip")

    @classmethod
    def displacement(cls, actuation: Any, distance: Any, environment: Any = None, sigma: float = 1e-3) -> Measurement:
        """Distance of the tip from rest [m]: a number for the last frame or (k,). Needs no common frame."""
        last = np.ndim(distance) == 0

        def observe(result: Any) -> Any:
            robot = result.robot
            rest = robot.tip_weights @ robot.vertices[robot.tip] if hasattr(robot, "tip_weights") else robot.rest_tip
            moved = np.linalg.norm(result.tip - rest, axis=1)
            return moved[-1:] if last else moved

        return cls(actuation, observe, np.atleast_1d(distance), environment, sigma, "tip displacement")

    @classmethod
    def record(cls, actuation: Any, positions: Any, rest: Any, hold: Any, environment: Any = None) -> Measurement:
        """Distance that the mean of tip markers moves between two windows of a record; sigma is the record's noise.

        sigma^2 is the sum over both windows of the variance of the mean along the motion, plus the rounding of the
        record, q^2 / 12 per marker for steps of q. The variance is that of single frames, not of their average: marker
        noise, creep and swinging last longer than a frame, so the frames of a window are not independent.

        Parameters
        ----------
        actuation, environment
            What was done to the robot between `rest` and `hold`.
        positions
            Markers on the tip [m], shape (frames, m, 3); nan where a marker is missing.
        rest, hold
            Windows of frames: slices or indices.

        Raises
        ------
        InputError
            A window holds fewer than two frames with all markers, or the markers have not moved.
        """
        series = np.asarray(positions, dtype=float)
        if series.ndim != 3 or series.shape[-1] != 3:
            raise InputError(f"Measurement.record: positions have shape {series.shape}; (frames, markers, 3) [m]")
        windows = []
        for name, window in (("rest", rest), ("hold", hold)):
            seen = series[window]
            seen = seen[np.isfinite(seen).all(axis=(1, 2))] if seen.ndim == 3 else seen[:0]
            if len(seen) < 2:
                raise InputError(f"Measurement.record: the window {name} holds {len(seen)} frames with all markers; 2 at least")
            windows.append(seen)
        means = [w.mean(axis=1) for w in windows]
        motion = means[1].mean(axis=0) - means[0].mean(axis=0)
        distance = float(np.linalg.norm(motion))
        if not distance > 0:
            raise InputError("Measurement.record: the markers have not moved between the windows")
        levels = np.unique(np.concatenate([w.ravel() for w in windows]))
        steps = np.diff(levels)
        # a record that is not rounded has gaps of all sizes; one that is has multiples of its step
        step = float(steps[steps > 1e-9].min(initial=np.inf))
        rounding = step**2 / 12.0 / series.shape[1] if np.isfinite(step) else 0.0
        variance = sum(float((m @ (motion / distance)).var(ddof=1)) + rounding for m in means)
        if not variance > 0:
            raise InputError("Measurement.record: the record has no noise at all; use Measurement.displacement with a sigma")
        made = cls.displacement(actuation, distance, environment, float(np.sqrt(variance)))
        return dataclasses.replace(made, name="record of the tip")

    @classmethod
    def markers(cls, actuation: Any, vertices: Any, positions: Any, environment: Any = None,
                sigma: float = 1e-3) -> Measurement:
        """Marker positions in the robot's frame [m], (m, 3) of the last frame or (k, m, 3), on vertices (m,)."""
        ids = np.asarray(vertices, dtype=int)
        last = np.ndim(positions) == 2
        return cls(actuation, lambda r: r.frames[-1][ids] if last else r.frames[:, ids], positions, environment, sigma,
                   "markers")

    @classmethod
    def pressures(cls, actuation: Any, values: Any, environment: Any = None, sigma: float = 100.0) -> Measurement:
        """Chamber pressures [Pa] of prescribed volumes, (k,) or (k, chambers)."""
        return cls(actuation, lambda r: np.reshape(r.chamber_pressures, np.shape(values)), values, environment, sigma,
                   "pressure")

    @classmethod
    def volumes(cls, actuation: Any, values: Any, environment: Any = None, sigma: float = 1e-8) -> Measurement:
        """Chamber volumes [m^3] at prescribed pressures, (k,) or (k, chambers)."""
        return cls(actuation, lambda r: np.reshape(r.chamber_volumes, np.shape(values)), values, environment, sigma,
                   "volume")


@dataclass(frozen=True)
class Parameter:
    """One unknown: its name, first value, bounds, and what it does to a problem.

    Parameters
    ----------
    name
        Shown in tables.
    initial
        First value.
    change
        (Problem, value) -> Problem.
    lower, upper
        Bounds.
    logarithmic
        Whether steps are relative (for positive quantities); False steps by `step`.
    step
        Finite-difference step: relative if logarithmic, else in the unit of the parameter.
    """

    name: str
    initial: float
    change: Callable[[Problem, float], Problem]
    lower: float = 0.0
    upper: float = np.inf
    logarithmic: bool = True
    step: float = 0.01

    def __post_init__(self) -> None:
        if not (np.isfinite(self.initial) and self.lower <= self.initial <= self.upper and self.lower < self.upper):
            raise InputError(f"parameter {self.name}: initial = {self.initial!r} must lie in [{self.lower}, "
                             f"{self.upper}]")
        if self.logarithmic and not (self.initial > 0 and self.lower >= 0):
            raise InputError(f"parameter {self.name}: initial = {self.initial!r} must be positive; or pass "
                             f"logarithmic=False")
        if not self.step > 0:
            raise InputError(f"parameter {self.name}: step = {self.step!r} must be positive")

    @classmethod
    def material(cls, constant: str, initial: float, **options: Any) -> Parameter:
        """Constant of the material [Pa, or dimensionless], the same in all bodies."""

        def change(problem: Problem, value: float) -> Problem:
            try:
                return _with_material(problem, lambda m: dataclasses.replace(m, **{constant: value}))
            except TypeError:
                raise InputError(f"parameter {constant}: the robot's material has no constant of this name") from None

        return cls(constant, initial, change, **options)

    @classmethod
    def youngs_modulus(cls, initial: float, **options: Any) -> Parameter:
        """Young's modulus at rest [Pa], 3 mu of an incompressible body; all its moduli are scaled together.

        Of several bodies it is that of the first region; the others keep their ratios to it.
        """

        def change(problem: Problem, value: float) -> Problem:
            several = list(getattr(problem.robot, "materials", {}).values())
            return _with_material(problem, lambda m: _stiffened(m, value / (3.0 * (several or [m])[0].shear_modulus)))

        return cls("E", initial, change, **options)

    @classmethod
    def pressure_offset(cls, initial: float = 0.0, step: float = 100.0, **options: Any) -> Parameter:
        """Offset [Pa] added to every prescribed pressure (a gauge that does not read zero)."""

        def change(problem: Problem, value: float) -> Problem:
            act = problem.actuation
            if not hasattr(act, "pressure"):
                raise InputError("parameter pressure offset: the actuation prescribes no pressure")
            return dataclasses.replace(problem, actuation=dataclasses.replace(act, pressure=act.pressure + value))

        options = {"lower": -np.inf, "logarithmic": False, **options}
        return cls("pressure offset", initial, change, step=step, **options)

    @classmethod
    def wall_thickness(cls, initial: float = 1.0, **options: Any) -> Parameter:
        """Factor on the wall between chambers and skin: the chamber walls move, the skin stays."""
        options = {"lower": 0.5, "upper": 1.5, **options}
        return cls("wall factor", initial, lambda p, v: dataclasses.replace(p, robot=thicken(p.robot, v)), **options)

    @classmethod
    def solver_option(cls, option: str, initial: float, **options: Any) -> Parameter:
        """Numeric option of the problem's solver, for example R_omega of the projective one."""

        def change(problem: Problem, value: float) -> Problem:
            if problem.solver is None or option not in {f.name for f in dataclasses.fields(problem.solver)}:
                raise InputError(f"parameter {option}: pass solver= with an option of this name")
            return dataclasses.replace(problem, solver=dataclasses.replace(problem.solver, **{option: value}))

        return cls(option, initial, change, **options)


def _stiffened(material: Any, factor: float) -> Any:
    """Return the material with every modulus multiplied by a factor; exponents and limits stay."""
    keep = ("density", "jm", "alpha", "poisson_ratio")
    old = {f.name: getattr(material, f.name) for f in dataclasses.fields(material)
           if f.name not in keep and isinstance(getattr(material, f.name), (float, int, tuple))}
    new = {k: tuple(factor * x for x in v) if isinstance(v, tuple) else factor * v for k, v in old.items()}
    return dataclasses.replace(material, **new)


def _with_material(problem: Problem, change: Callable[[Any], Any]) -> Problem:
    robot = problem.robot
    if hasattr(robot, "materials"):
        made = {region: change(m) for region, m in robot.materials.items()}
        return dataclasses.replace(problem, robot=dataclasses.replace(robot, materials=made))
    names = [n for n in ("rod_material", "shell_material") if getattr(robot, n, None) is not None]
    if not names:
        raise InputError(f"{type(robot).__name__}: has no material that can be fitted; write Parameter(name, "
                         f"initial, change)")
    return dataclasses.replace(problem, robot=dataclasses.replace(robot, **{n: change(getattr(robot, n))
                                                                            for n in names}))


def thicken(robot: Any, factor: float) -> Any:
    """Return a robot whose walls between chambers and skin are `factor` times as thick.

    Chamber vertices move by (factor - 1) times their distance to the skin, away from it; the vertices between
    follow harmonically (graph Laplacian), the skin stays.

    Raises
    ------
    InputError
        The robot has no chamber, or an element would turn inside out.
    """
    from scipy.sparse import coo_matrix, diags
    from scipy.sparse.linalg import splu
    from scipy.spatial import cKDTree

    from geosim import topology

    vertices = robot.vertices
    body = robot.body_tets
    hull = np.unique(topology.boundary_faces(robot.tets))
    inner = np.setdiff1d(np.unique(topology.boundary_faces(body)), hull)
    if len(inner) == 0:
        raise InputError("wall factor: the robot has no chamber wall")
    distance, near = cKDTree(vertices[hull]).query(vertices[inner])
    away = (vertices[inner] - vertices[hull][near]) / np.maximum(distance, 1e-12)[:, None]
    n = len(vertices)
    move = np.zeros((n, 3))
    move[inner] = (factor - 1.0) * distance[:, None] * away
    pairs = robot.tets[:, topology.EDGES].reshape(-1, 2)
    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    graph = ((graph + graph.T) > 0).astype(float)
    laplacian = (diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsc()
    held = np.zeros(n, dtype=bool)
    held[hull] = held[inner] = True
    free = np.flatnonzero(~held & (np.asarray(graph.sum(axis=1)).ravel() > 0))
    if len(free):
        right = -(laplacian[free][:, np.flatnonzero(held)] @ move[held])
        move[free] = splu(laplacian[free][:, free].tocsc()).solve(right)
    moved = vertices + move
    if topology.tet_volumes(moved, robot.tets).min() <= 0:
        raise InputError(f"wall factor = {factor:.4g} turns elements inside out; narrow the bounds or refine the mesh")
    return dataclasses.replace(robot, vertices=moved)


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

    def lines(self) -> list[str]:
        """Return the calibration as lines of text."""
        out = [f"{len(self.residuals)} values, {self.iterations} iterations, {self.solves} solves, rms "
               f"{self.rms:.4g} sigma"]
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            out.append(f"  {name:16s} {value:.6g}   [{100 * self.confidence:g} %: {low:.6g} .. {high:.6g}]")
        return out + [f"  note: {w}" for w in self.warnings]


def fit_robot(robot: Any, measurements: Sequence[Measurement], parameters: Sequence[Parameter], *, solver: Any = None,
              solve: Callable[..., Any] | None = None, confidence: float = 0.95, tolerance: float = 1e-4,
              max_iterations: int = 15) -> RobotCalibration:
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
    work = _Residuals(robot, tuple(measurements), tuple(parameters), solver, solve)
    count = sum(int(np.isfinite(m.values).sum()) for m in measurements)
    if count < len(parameters):
        raise InputError(f"fit_robot: {count} measured values cannot determine {len(parameters)} parameters; "
                         f"measure more or fix some")
    u = work.scaled(np.array([p.initial for p in parameters], dtype=float))
    low, high = work.scaled(np.array([p.lower for p in parameters])), work.scaled(np.array([p.upper
                                                                                            for p in parameters]))
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

    def __init__(self, robot: Any, measurements: tuple[Measurement, ...], parameters: tuple[Parameter, ...],
                 solver: Any,
                 solve: Callable[..., Any] | None) -> None:
        if solve is None:
            from geosim.solve import solve as default

            solve = default
        self.robot, self.solver, self.solve = robot, solver, solve
        self.measurements, self.parameters = measurements, parameters
        self.logarithmic = np.array([p.logarithmic for p in parameters])
        self.unit = np.where(self.logarithmic, 1.0, [100.0 * p.step for p in parameters])
        self.largest = np.where(self.logarithmic, 0.7, 50.0 * self.unit)
        self.solves = 0

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
        parts = []
        for m in self.measurements:
            p = self.problem(m, u)
            result = self.solve(p.robot, p.actuation, p.environment, solver=p.solver)
            self.solves += 1
            predicted = np.asarray(m.observe(result), dtype=float)
            if predicted.shape != m.values.shape:
                raise InputError(f"{m.name}: measured values have shape {m.values.shape}, the result gives "
                                 f"{predicted.shape}")
            good = np.isfinite(m.values)
            if not np.isfinite(predicted[good]).all():
                raise InputError(f"{m.name}: the result does not know this quantity (nan); measure another or use "
                                 f"another solver")
            parts.append((predicted[good] - m.values[good]) / m.sigma)
        return np.concatenate(parts)

    def jacobian(self, u: Floats, r: Floats, high: Floats) -> Floats:
        out = np.empty((len(r), len(u)))
        for i, p in enumerate(self.parameters):
            step = p.step if u[i] + p.step <= high[i] else -p.step
            moved = u.copy()
            moved[i] += step
            out[:, i] = (self(moved) - r) / step
        return out


def _conclude(work: _Residuals, u: Floats, r: Floats, jacobian: Floats, low: Floats, high: Floats, confidence: float,
              iterations: int, converged: bool) -> RobotCalibration:
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
    ends = np.stack([work.values(np.maximum(u - factor * deviation, low)),
                     work.values(np.minimum(u + factor * deviation, high))], axis=1)
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
                warnings.append(f"{names[j]} and {name} are hardly told apart (correlation "
                                f"{correlations[i, j]:.3f}): fix one or "
                                f"measure something else")
    if condition > ILL:
        warnings.append(f"the sensitivities are nearly dependent (condition number {condition:.2g})")
    values = work.values(u)
    robot = work.problem(work.measurements[0], u).robot
    intervals = {n: (float(a), float(b)) for n, (a, b) in zip(names, ends)}
    rms = float(np.sqrt(np.mean(r**2)))
    return RobotCalibration(dict(zip(names, map(float, values))), intervals, rms, frozen(r), frozen(correlations),
                            condition, tuple(warnings), robot, work.solves, iterations, converged, confidence)
