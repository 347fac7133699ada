"""Least squares of hyperelastic constants over several tests, with honest intervals.

    minimise  sum_t sum_i  w_ti^2 (P_model(l_ti; c) - P_ti)^2      subject to  G c >= 0

The constants that enter linearly are found exactly (non-negative least squares for the part that the inequalities
take, Lawson and Hanson 1974, chapter 23). Those that shape a term of W are iterated outside (variable projection). One
at which W locks is replaced by its inverse, which is regular where the data show no locking (zero).
The intervals follow from the linearised fit with the noise s |P|^g, whose s and g come from the residuals
(g = 0 uniform, g = 1 proportional to the stress; a variance function, Carroll and Ruppert 1988). A constant
held by a bound gets a one-sided interval: from the bound to the upper limit that the data leave it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.special import stdtrit

from geosim.apps.calibrate.curves import Model, drucker_rows, find_model, invariant, sensitivities
from geosim.apps.calibrate.samples import MAX_POSSIBLE_STRETCH
from geosim.arrays import MIN_DIVISOR, Bools, Floats
from geosim.errors import InputError
from geosim.material.materials import Constant
from geosim.model.tolerances import CONFIDENCE_LEVEL

MAX_LOCKING_INVARIANT = MAX_POSSIBLE_STRETCH**2  # I1 - 3 at which a material whose data show no locking locks
NOISE_EXPONENTS = np.linspace(0.0, 1.5, 31)  # of the stress, tried for the noise: uniform to more than proportional
ROUNDING_REL = 1e-12  # of the largest: what is smaller is zero
COLLINEARITY_FLOOR = 1e-9  # smallest singular value of scaled columns that are not proportional to each other
# inverse locking limits at which a search may begin, dense where locking is far and where it is next to the samples
LOCKING_GRID = np.r_[0.0, np.geomspace(1e-3, 0.2, 12), 1.0 - np.geomspace(0.75, 1e-3, 24)]


@dataclass(frozen=True)
class Samples:
    """All samples of a fit: per test its mode and stretches; stresses [Pa] and weights over all, shape (n,)."""

    modes: tuple[str, ...]
    stretches: tuple[Floats, ...]
    stress: Floats
    weights: Floats

    @property
    def target(self) -> Floats:
        """Weighted stresses [Pa], shape (n,)."""
        return self.stress * self.weights

    def rows(self, model: str, parameters: Floats, which: Bools | None = None) -> Floats:
        """Weighted sensitivities over all tests, to all constants or to some, shape (n, p)."""
        parts = [sensitivities(model, parameters, m, s, which) for m, s in zip(self.modes, self.stretches)]
        return np.vstack(parts) * self.weights[:, None]

    def largest_invariant(self) -> float:
        """Largest I1 - 3 of all samples."""
        return max(float(invariant(m, s).max()) for m, s in zip(self.modes, self.stretches))


@dataclass(frozen=True)
class Estimate:
    """Constants with their intervals; the order is that of `Model.names`.

    `sides` tells of every interval "two-sided", "upper" (the constant rests on its lower bound) or "lower" (no
    upper limit); `free` is the number of constants not held by a bound.
    """

    parameters: Floats
    covariance: Floats
    intervals: Floats
    sides: tuple[str, ...]
    free: int
    residuals: Floats
    active: bool


def correlations(covariance: Floats) -> Floats:
    """Return the correlations of a covariance, nan where a variance is zero."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(covariance / np.outer(deviation, deviation))


def constrained_least_squares(matrix: Floats, target: Floats, rows: Floats) -> tuple[Floats, Bools]:
    """Minimise |matrix x - target| subject to rows x >= 0.

    Returns
    -------
    x, active
        The solution, and which rows hold it, shape (r,).
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    q, r = np.linalg.qr(matrix / scale)
    aim = q.T @ target
    # z = r x in the cone slope^T z >= 0 nearest to the aim is the aim less its part in the polar cone [Moreau 1962]
    slope = np.linalg.solve(r.T, (rows / scale).T)
    slope /= np.linalg.norm(slope, axis=0)
    unit = max(float(np.linalg.norm(aim)), MIN_DIVISOR)
    push, _ = nnls(slope, -aim / unit, maxiter=50 * len(rows))
    return np.linalg.solve(r, aim + unit * (slope @ push)) / scale, push > 0


def estimate(samples: Samples, model: str, *, stable: bool = True, confidence: float = CONFIDENCE_LEVEL) -> Estimate:
    """Fit a model to samples.

    Raises
    ------
    InputError
        There are fewer samples than constants, or they do not determine the model.
    """
    found = find_model(model)
    if len(samples.stress) <= len(found.names):
        raise InputError(
            f"calibrate: {len(samples.stress)} samples cannot determine the {len(found.names)} constants of {model}; "
            f"widen the strain window or use a simpler model"
        )
    if not found.moduli.all():
        parameters = _Shapes(samples, model, stable).best()
        return _shaped_intervals(samples, parameters, samples.rows(model, parameters), found, confidence)
    return _linear(samples, model, found, stable, confidence)


def _linear(samples: Samples, model: str, found: Model, stable: bool, confidence: float) -> Estimate:
    """Fit a model all of whose constants are moduli."""
    matrix = samples.rows(model, np.zeros(len(found.names)))
    if np.linalg.matrix_rank(matrix / np.linalg.norm(matrix, axis=0), tol=COLLINEARITY_FLOOR) < len(found.names):
        raise InputError(
            f"calibrate: these tests do not determine {model}: the effects of its constants are proportional; "
            f"add a test in another mode or use neo-hookean"
        )
    if not stable:
        loose = np.asarray(np.linalg.lstsq(matrix, samples.target, rcond=None)[0], dtype=np.float64)
        return _intervals(samples, matrix, loose, np.empty((0, len(found.names))), confidence)
    constants, active = constrained_least_squares(matrix, samples.target, drucker_rows(model))
    fitted = _intervals(samples, matrix, constants, drucker_rows(model)[active], confidence)
    limits = fitted.intervals.copy()
    signed = [c.stable_positive for c in found.constants]
    limits[signed] = np.maximum(limits[signed], 0.0)  # an interval does not reach beyond a bound that is known to hold
    return dataclasses.replace(fitted, intervals=limits)


def _covariance(matrix: Floats, residuals: Floats, samples: Samples) -> Floats:
    """Covariance of least squares under noise s |P|^g, g found by maximum likelihood from the residuals.

    (J^T J)^-1 J^T diag(v) J (J^T J)^-1 with v_i = (w_i s |P_i|^g)^2. A residual is what the fit left of the
    noise, so its expected square is the diagonal of (1 - H) diag(v) (1 - H), H the hat matrix.
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    q, r = np.linalg.qr(matrix / scale)
    leverage = np.einsum("ij,ij->i", q, q)
    top = np.abs(samples.stress).max()
    noise_floor_stress_rel = 0.01  # stresses below this part of the largest have the noise of this part
    size = np.maximum(np.abs(samples.stress), noise_floor_stress_rel * top) / top
    squares, counted = residuals**2, samples.weights > 0
    best, variance = np.inf, squares
    for g in NOISE_EXPONENTS:
        spread = (samples.weights * size**g) ** 2
        inner = q.T @ (spread[:, None] * q)
        expected = (1.0 - 2.0 * leverage) * spread + np.einsum("ij,jk,ik->i", q, inner, q)
        expected = np.maximum(expected, ROUNDING_REL * spread)
        s2 = float(np.mean(squares[counted] / expected[counted]))
        deviance = np.log(max(s2, MIN_DIVISOR)) + float(np.log(expected[counted]).mean())
        if deviance < best:
            best, variance = deviance, s2 * spread
    inverse = np.linalg.solve(r, q.T) / scale[:, None]
    return np.asarray((inverse * variance) @ inverse.T)


def _intervals(samples: Samples, matrix: Floats, constants: Floats, rows: Floats, confidence: float) -> Estimate:
    """Intervals of a linear fit whose active constraints are `rows`.

    Along the active face the interval is two-sided. A constant that the face holds may only move off it: its
    limit on that side is the one-sided limit of the fit without the constraint, and never inside the face.
    """
    count, p = matrix.shape
    residuals = matrix @ constants - samples.target
    basis = _null_space(rows) if len(rows) else np.eye(p)
    covariance = np.zeros((p, p))
    free = basis.shape[1]
    if free:
        covariance = basis @ _covariance(matrix @ basis, residuals, samples) @ basis.T
    half = stdtrit(max(count - free, 1), 0.5 + 0.5 * confidence) * np.sqrt(np.diag(covariance))
    intervals = np.stack([constants - half, constants + half], axis=1)
    sides = ["two-sided"] * p
    if len(rows):
        loose = np.linalg.lstsq(matrix, samples.target, rcond=None)[0]
        spread = np.sqrt(np.diag(_covariance(matrix, matrix @ loose - samples.target, samples)))
        reach = loose + stdtrit(max(count - p, 1), confidence) * spread
        scale = np.abs(loose).max()
        for i in range(p):
            held = np.abs(basis[i]).max(initial=0.0) < ROUNDING_REL
            if held and abs(constants[i]) <= COLLINEARITY_FLOOR * scale:
                sides[i] = "upper"
                intervals[i] = (0.0, max(reach[i], 0.0))
                constants = constants.copy()
                constants[i] = 0.0
    return Estimate(constants, covariance, intervals, tuple(sides), free, residuals, len(rows) > 0)


def _null_space(rows: Floats) -> Floats:
    """Orthonormal directions along which all rows stay active, shape (p, free)."""
    _, singular, vt = np.linalg.svd(rows)
    rank = int((singular > COLLINEARITY_FLOOR * singular[0]).sum())
    return vt[rank:].T


@dataclass(frozen=True)
class _Shapes:
    """The outer search of a model whose terms have shapes u; a locking limit is sought as its inverse, u in [0, 1].

    u = 1 locks just beyond the samples. Stable means a modulus of the sign of its term's shape, mu alpha >= 0.
    """

    samples: Samples
    model: str
    stable: bool

    @cached_property
    def found(self) -> Model:
        return find_model(self.model)

    @cached_property
    def shapes(self) -> tuple[Constant, ...]:
        return tuple(c for c in self.found.constants if c.unit != "Pa")

    @cached_property
    def locks(self) -> Bools:
        return np.array([c.locks for c in self.shapes])

    @cached_property
    def nearest(self) -> float:
        return self.samples.largest_invariant() * (1.0 + 1e-6)

    def solved(self, u: Floats) -> tuple[Floats, Floats]:
        """Return all constants for given shapes, and the residuals."""
        moduli = self.found.moduli
        values = np.ones(len(moduli))
        # at 0, a law of ln(stretch), a term vanishes; W and stress at 1e-3 are those at 0 to 1e-3
        min_ogden_exponent = 1e-3
        shapes = np.where(np.abs(u) < min_ogden_exponent, np.copysign(min_ogden_exponent, u), u)
        values[~moduli] = np.where(self.locks, 1.0 / np.maximum(u / self.nearest, 1.0 / MAX_LOCKING_INVARIANT), shapes)
        columns = self.samples.rows(self.model, values, moduli)
        if self.stable:
            sign = np.where(values[~moduli].reshape(self.found.terms, -1)[:, 0] < 0, -1.0, 1.0)
            scale = np.repeat(sign, moduli.sum() // self.found.terms) / (np.linalg.norm(columns, axis=0) + MIN_DIVISOR)
            values[moduli] = scale * nnls(columns * scale, self.samples.target)[0]
        else:
            values[moduli] = np.linalg.lstsq(columns, self.samples.target, rcond=None)[0]
        return values, columns @ values[moduli] - self.samples.target

    def misfit(self, u: Floats) -> Floats:
        return self.solved(np.asarray(u))[1]

    def starts(self) -> list[Floats]:
        """Return shapes to begin with: of one term the best of a grid, of several those that the law gives."""
        if self.found.terms > 1:
            choices = zip(*(c.together for c in self.shapes[: len(self.shapes) // self.found.terms]))
            return [np.stack(choice, axis=1)[: self.found.terms].ravel() for choice in choices]
        grid = [np.array(u) for u in product(*(LOCKING_GRID if c.locks else c.starts for c in self.shapes))]
        order = np.argsort([np.sum(self.misfit(u) ** 2) for u in grid])
        return [grid[i] for i in order[: 1 if self.locks.all() else 2]]

    def best(self) -> Floats:
        """Return the constants of the least misfit; a locking limit that improves nothing is MAX_LOCKING_INVARIANT."""
        low, high = (np.where(self.locks, end, [c.bounds[end] for c in self.shapes]) for end in (0, 1))
        # of the bounds, where a search begins: on a bound itself it would see no slope
        bound_margin_rel = 1e-3
        # relative tolerance of the search for shapes, so that exact data return exact constants
        shape_search_tolerance = 1e-14
        run = min(
            (
                least_squares(
                    self.misfit,
                    np.clip(start, low + bound_margin_rel, high - bound_margin_rel),
                    bounds=(low, high),
                    xtol=shape_search_tolerance,
                    ftol=shape_search_tolerance,
                    gtol=shape_search_tolerance,
                )
                for start in self.starts()
            ),
            key=lambda run: run.cost,
        )
        u = run.x
        if self.locks.any():
            free = np.where(self.locks, 0.0, u)
            if np.sum(self.misfit(free) ** 2) <= 2.0 * run.cost:
                u = free
            u = np.where(self.locks & (u * MAX_LOCKING_INVARIANT <= self.nearest), 0.0, u)
        terms = self.solved(u)[0].reshape(self.found.terms, -1)
        shape = int(np.argmin(self.found.moduli))
        return terms[np.argsort(-terms[:, shape])].ravel()


def _shaped_intervals(
    samples: Samples, parameters: Floats, matrix: Floats, found: Model, confidence: float
) -> Estimate:
    """Linearised intervals; a term that its bound switched off (mu = 0) leaves no trace of its shape.

    Of a locking limit the interval is that of its inverse; where the data show no locking it has only a lower limit.
    """
    moduli, locks = found.moduli, np.array([c.locks for c in found.constants])
    residuals = matrix[:, moduli] @ parameters[moduli] - samples.target
    leading = np.abs(parameters.reshape(found.terms, -1)[:, 0])
    off = np.repeat(leading <= ROUNDING_REL * leading.max(), len(moduli) // found.terms)
    held = locks & (parameters >= MAX_LOCKING_INVARIANT)
    slope = np.where(locks, -(parameters**2), 1.0)  # of the constant by what is estimated
    matrix = matrix * slope
    values = np.divide(1.0, parameters, out=parameters.copy(), where=locks)
    use = ~off & ~held
    covariance = np.zeros((len(values), len(values)))
    used = matrix[:, use]
    determined = (
        np.linalg.matrix_rank(used / np.linalg.norm(used, axis=0), tol=0.1 * COLLINEARITY_FLOOR) == used.shape[1]
    )
    covariance[np.ix_(use, use)] = _covariance(used, residuals, samples) if determined else np.inf
    degrees = max(len(residuals) - int((~off).sum()), 1)
    half = stdtrit(degrees, 0.5 + 0.5 * confidence) * np.sqrt(np.diag(covariance))
    intervals = np.stack([values - half, values + half], axis=1)
    sides = ["upper" if o else "two-sided" for o in off]
    intervals[off & moduli] = 0.0
    intervals[off & ~moduli] = -np.inf, np.inf
    for i in np.flatnonzero(locks & ~off):
        low, high = intervals[i]
        if held[i]:
            spread = np.sqrt(_covariance(matrix, residuals, samples)[i, i])
            reach = np.linalg.lstsq(matrix, -residuals, rcond=None)[0][i] + stdtrit(degrees, confidence) * spread
            low, high = 0.0, max(reach, 1.0 / MAX_LOCKING_INVARIANT)
        intervals[i] = 1.0 / high, 1.0 / low if low > 0 else np.inf
        sides[i] = "two-sided" if low > 0 else "lower"
    return Estimate(
        parameters,
        covariance * np.outer(slope, slope),
        intervals,
        tuple(sides),
        int(use.sum()),
        residuals,
        not use.all(),
    )
