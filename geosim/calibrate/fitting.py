"""Least squares of hyperelastic constants over several tests, with honest intervals.

    minimise  sum_t sum_i  w_ti^2 (P_model(l_ti; c) - P_ti)^2      subject to  G c >= 0

The constants that enter linearly are found exactly (least squares with linear inequalities, Lawson and Hanson
1974, chapter 23); the one shape parameter of each Gent or Ogden term is iterated outside (variable projection).
The intervals follow from the linearised fit with the noise s |P|^g, whose s and g come from the residuals
(g = 0 uniform, g = 1 proportional to the stress; a variance function, Carroll and Ruppert 1988). A constant
held by a bound gets a one-sided interval: from the bound to the upper limit that the data leave it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.stats import t as student

from geosim.arrays import Bools, Floats
from geosim.calibrate.curves import drucker_rows, invariant, parameter_names, sensitivities, terms
from geosim.errors import InputError

__all__ = ["Estimate", "Samples", "constrained_least_squares", "estimate"]

STIFFEST_LOCKING = 1e6  # jm of a Gent material whose data show no locking
NEVER_NEGATIVE = {"neo-hookean": ("mu",), "mooney-rivlin": ("c1", "c2"), "yeoh": ("c1", "c3")}  # if stable
ALPHAS = (-25.0, 25.0)
FAINTEST = 0.01  # stresses below this part of the largest have the noise of this part


@dataclass(frozen=True)
class Samples:
    """All samples of a fit: per test its mode and stretches; stresses [Pa] and weights over all, shape (n,)."""

    modes: tuple[str, ...]
    stretches: tuple[Floats, ...]
    stress: Floats
    weights: Floats

    def rows(self, model: str, parameters: Floats) -> Floats:
        """Weighted sensitivities over all tests, shape (n, p)."""
        parts = [sensitivities(model, parameters, m, s) for m, s in zip(self.modes, self.stretches)]
        return np.vstack(parts) * self.weights[:, None]

    def largest_invariant(self) -> float:
        """Largest I1 - 3 of all samples."""
        return max(float(invariant(m, s).max()) for m, s in zip(self.modes, self.stretches))


@dataclass(frozen=True)
class Estimate:
    """Constants with their intervals; the order is that of `parameter_names`.

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
    free = np.linalg.solve(r, q.T @ target)
    bounds = rows / scale
    length = np.linalg.norm(bounds, axis=1)
    bounds = bounds / np.where(length > 0, length, 1.0)[:, None]
    unit = max(float(np.abs(free).max()), 1e-300)
    if (bounds @ free >= 0).all():
        return free / scale, np.zeros(len(rows), dtype=bool)
    # z = r (x - free) is the shortest vector with bounds r^-1 z >= -bounds free: the dual is an NNLS problem.
    slope = np.linalg.solve(r.T, bounds.T).T
    need = -(bounds @ free) / unit
    stacked = np.vstack([slope.T, need])
    dual, _ = nnls(stacked, np.r_[np.zeros(len(free)), 1.0], maxiter=50 * stacked.shape[1])
    rest = stacked @ dual - np.r_[np.zeros(len(free)), 1.0]
    z = -rest[:-1] / rest[-1] * unit
    x = free + np.linalg.solve(r, z)
    active = dual > 0
    return x / scale, active


def estimate(samples: Samples, model: str, *, stable: bool = True, confidence: float = 0.95) -> Estimate:
    """Fit a model to samples.

    Raises
    ------
    InputError
        There are fewer samples than constants, or they do not determine the model.
    """
    names = parameter_names(model)
    if len(samples.stress) <= len(names):
        raise InputError(
            f"calibrate: {len(samples.stress)} samples cannot determine the {len(names)} constants of "
            f"{model}; "
            f"widen the strain window or use a simpler model"
        )
    if model == "gent":
        return _gent(samples, confidence)
    if terms(model):
        return _ogden(samples, model, stable, confidence)
    matrix, target = samples.rows(model, np.zeros(len(names))), samples.stress * samples.weights
    if np.linalg.matrix_rank(matrix / np.linalg.norm(matrix, axis=0), tol=1e-9) < len(names):
        raise InputError(
            f"calibrate: these tests do not determine {model}: the effects of its constants are "
            f"proportional; "
            f"add a test in another mode or use neo-hookean"
        )
    if stable:
        constants, active = constrained_least_squares(matrix, target, drucker_rows(model))
        rows = drucker_rows(model)[active]
    else:
        constants = np.asarray(np.linalg.lstsq(matrix, target, rcond=None)[0], dtype=np.float64)
        rows = np.empty((0, len(names)))
    found = _intervals(samples, matrix, constants, rows, confidence)
    if stable:  # an interval does not reach beyond a bound that is known to hold
        limits = found.intervals.copy()
        signed = [n in NEVER_NEGATIVE[model] for n in names]
        limits[signed] = np.maximum(limits[signed], 0.0)
        found = dataclasses.replace(found, intervals=limits)
    return found


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
    size = np.maximum(np.abs(samples.stress), FAINTEST * top) / top
    squares, counted = residuals**2, samples.weights > 0
    best, variance = np.inf, squares
    for g in np.linspace(0.0, 1.5, 31):
        spread = (samples.weights * size**g) ** 2
        inner = q.T @ (spread[:, None] * q)
        expected = (1.0 - 2.0 * leverage) * spread + np.einsum("ij,jk,ik->i", q, inner, q)
        expected = np.maximum(expected, 1e-12 * spread)
        s2 = float(np.mean(squares[counted] / expected[counted]))
        deviance = np.log(max(s2, 1e-300)) + float(np.log(expected[counted]).mean())
        if deviance < best:
            best, variance = deviance, s2 * spread
    inverse = np.linalg.solve(r, q.T) / scale[:, None]
    return (inverse * variance) @ inverse.T


def _intervals(samples: Samples, matrix: Floats, constants: Floats, rows: Floats, confidence: float) -> Estimate:
    """Intervals of a linear fit whose active constraints are `rows`.

    Along the active face the interval is two-sided. A constant that the face holds may only move off it: its
    limit on that side is the one-sided limit of the fit without the constraint, and never inside the face.
    """
    count, p = matrix.shape
    target = samples.stress * samples.weights
    residuals = matrix @ constants - target
    basis = np.eye(p)
    if len(rows):
        basis = _null_space(rows)
    covariance = np.zeros((p, p))
    free = basis.shape[1]
    if free:
        covariance = basis @ _covariance(matrix @ basis, residuals, samples) @ basis.T
    half = student.ppf(0.5 + 0.5 * confidence, max(count - free, 1)) * np.sqrt(np.diag(covariance))
    intervals = np.stack([constants - half, constants + half], axis=1)
    sides = ["two-sided"] * p
    if len(rows):
        loose = np.linalg.lstsq(matrix, target, rcond=None)[0]
        spread = np.sqrt(np.diag(_covariance(matrix, matrix @ loose - target, samples)))
        reach = loose + student.ppf(confidence, max(count - p, 1)) * spread
        scale = np.abs(loose).max()
        for i in range(p):
            held = np.abs(basis[i]).max(initial=0.0) < 1e-12
            if held and abs(constants[i]) <= 1e-9 * scale:
                sides[i] = "upper"
                intervals[i] = (0.0, max(reach[i], 0.0))
                constants = constants.copy()
                constants[i] = 0.0
    return Estimate(constants, covariance, intervals, tuple(sides), free, residuals, len(rows) > 0)


def _null_space(rows: Floats) -> Floats:
    """Orthonormal directions along which all rows stay active, shape (p, free)."""
    _, singular, vt = np.linalg.svd(rows)
    rank = int((singular > 1e-9 * singular[0]).sum())
    return vt[rank:].T


def _gent(samples: Samples, confidence: float) -> Estimate:
    """Fit Gent in s = 1 / jm, which is regular where the data show no locking (s = 0)."""
    target = samples.stress * samples.weights
    top = 1.0 / (samples.largest_invariant() * (1.0 + 1e-6))

    def columns(s: float) -> Floats:
        jm = 1.0 / max(s, 1.0 / STIFFEST_LOCKING)
        return samples.rows("gent", np.array([1.0, jm]))

    def misfit(s: Floats) -> Floats:
        column = columns(float(s[0]) * top)[:, 0]
        return column * (column @ target) / (column @ column) - target

    grid = np.r_[0.0, 1.0 - np.geomspace(1.0, 1e-3, 25)[1:]]
    cost = [float((misfit(np.array([g])) ** 2).sum()) for g in grid]
    best = int(np.argmin(cost))
    start = np.clip(grid[best], 1e-9, 1 - 1e-9)
    found = least_squares(misfit, [start], bounds=(0.0, 1.0), xtol=1e-13, ftol=1e-14, gtol=1e-14, x_scale=0.1)
    s = float(found.x[0]) * top
    held = s * STIFFEST_LOCKING <= 1.5 or cost[0] <= 2 * found.cost
    s = 1.0 / STIFFEST_LOCKING if held else s
    jm = 1.0 / s
    column = columns(s)
    mu = float(column[:, 0] @ target / (column[:, 0] @ column[:, 0]))
    full = np.stack([column[:, 0], -mu * column[:, 1] * jm**2], axis=1)  # derivative by s, since dP/ds = -jm^2 dP/djm
    residuals = mu * column[:, 0] - target
    degrees = max(len(target) - 2, 1)
    use = full[:, :1] if held else full
    covariance = np.zeros((2, 2))
    covariance[: use.shape[1], : use.shape[1]] = _covariance(use, residuals, samples)
    half = student.ppf(0.5 + 0.5 * confidence, degrees) * np.sqrt(np.diag(covariance))
    if held:
        step = np.linalg.lstsq(full, -residuals, rcond=None)[0][1]
        reach = step + student.ppf(confidence, degrees) * np.sqrt(_covariance(full, residuals, samples)[1, 1])
        limits, side = (1.0 / max(reach, 1.0 / STIFFEST_LOCKING), np.inf), "lower"
    else:
        low, high = s - half[1], s + half[1]
        limits, side = (1.0 / high, 1.0 / low if low > 0 else np.inf), "two-sided" if low > 0 else "lower"
    jacobian = np.diag([1.0, -(jm**2)])
    intervals = np.array([[mu - half[0], mu + half[0]], limits])
    return Estimate(
        np.array([mu, jm]),
        jacobian @ covariance @ jacobian,
        intervals,
        ("two-sided", side),
        1 if held else 2,
        residuals,
        held,
    )


def _ogden(samples: Samples, model: str, stable: bool, confidence: float) -> Estimate:
    """Fit Ogden with the exponents outside and mu_i inside; stable means mu_i alpha_i >= 0 for every term."""
    target = samples.stress * samples.weights
    count = terms(model)

    def inner(alphas: Floats) -> tuple[Floats, Floats]:
        vector = np.stack([np.ones(count), alphas], axis=1).ravel()
        columns = samples.rows(model, vector)[:, ::2]
        if not stable:
            return np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], dtype=np.float64), columns
        signs = np.where(alphas < 0, -1.0, 1.0)
        scale = np.linalg.norm(columns, axis=0) + 1e-300
        return signs * nnls(columns * signs / scale, target)[0] / scale, columns

    def misfit(alphas: Floats) -> Floats:
        mu, columns = inner(alphas)
        return columns @ mu - target

    if count == 1:
        values = [*np.arange(-8.0, 0.0, 1.0), *np.arange(0.5, 12.5, 0.5)]
        scores = [float((misfit(np.array([v])) ** 2).sum()) for v in values]
        starts: list[Any] = [[values[i]] for i in np.argsort(scores)[:2]]
    else:
        starts = [[1.5, 5.0, -2.0][:count], [2.0, -2.0, 6.0][:count], [1.3, 8.0, 3.0][:count]]
    runs = [least_squares(misfit, s, bounds=ALPHAS, xtol=1e-12, ftol=1e-13, gtol=1e-13) for s in starts]
    best = min(runs, key=lambda run: run.cost)
    alphas = best.x
    mu, _ = inner(alphas)
    if count > 1:
        order = np.argsort(-alphas)
        alphas, mu = alphas[order], mu[order]
    parameters = np.stack([mu, alphas], axis=1).ravel()
    return _ogden_intervals(samples, model, parameters, confidence)


def _ogden_intervals(samples: Samples, model: str, parameters: Floats, confidence: float) -> Estimate:
    """Linearised intervals; a term that its bound switched off (mu = 0) leaves no trace of its exponent."""
    target = samples.stress * samples.weights
    matrix = samples.rows(model, parameters)
    residuals = matrix[:, ::2] @ parameters[::2] - target
    on = np.repeat(np.abs(parameters[::2]) > 1e-12 * np.abs(parameters[::2]).max(), 2)
    covariance = np.zeros((len(parameters), len(parameters)))
    use = matrix[:, on]
    if np.linalg.matrix_rank(use / np.linalg.norm(use, axis=0), tol=1e-10) == use.shape[1]:
        covariance[np.ix_(on, on)] = _covariance(use, residuals, samples)
    else:
        covariance[np.ix_(on, on)] = np.inf
    half = student.ppf(0.5 + 0.5 * confidence, max(len(target) - on.sum(), 1)) * np.sqrt(np.diag(covariance))
    intervals = np.stack([parameters - half, parameters + half], axis=1)
    sides = ["two-sided"] * len(parameters)
    for i in np.flatnonzero(~on):
        sides[i] = "upper"
        intervals[i] = (0.0, 0.0) if i % 2 == 0 else (-np.inf, np.inf)
    return Estimate(parameters, covariance, intervals, tuple(sides), int(on.sum()), residuals, bool((~on).any()))
