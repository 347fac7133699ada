"""Nominal stress of incompressible materials in the four standard tests, and where a material is unstable.

With the stretch l along the load the other principal stretches follow from incompressibility,

    uniaxial, compression   (l, l^-1/2, l^-1/2)      k = 1/2
    equibiaxial             (l, l, l^-2)             k = 2
    pure shear              (l, 1, l^-1)             k = 1

so that the free direction has stretch l^-k, its stress vanishes, and the nominal stress along the load is

    P = 2 (W1 + m W2) (l - l^(-2k-1)),    m = (the third stretch)^2 = l^-1, l^2, 1

for W(I1, I2) with W1 = dW/dI1, W2 = dW/dI2, and P = sum_i mu_i (l^(alpha_i - 1) - l^(-k alpha_i - 1)) for Ogden
[Ogden 1972; Treloar 1975].

Stability is Drucker's: dtau : d(log strain) > 0 for every isochoric coaxial increment, tau the Kirchhoff stress.
With principal log strains e_i and W1' = d2W/dI1^2 the quadratic form is

    dtau . de = 4 sum_i (W1 l_i^2 + W2 l_i^-2) de_i^2 + 4 W1' (sum_i l_i^2 de_i)^2,     sum_i de_i = 0

(for Ogden sum_i mu alpha l_i^alpha de_i^2); it must be positive on the plane sum_i de_i = 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError

__all__ = [
    "CONSTANTS",
    "MODES",
    "drucker_rows",
    "first_unstable",
    "invariant",
    "mode_name",
    "nominal_stress",
    "parameter_names",
    "sensitivities",
    "sign_change",
    "terms",
]


MODES = {"uniaxial": 0.5, "compression": 0.5, "equibiaxial": 2.0, "pure-shear": 1.0}
_ALIASES = {
    "ut": "uniaxial",
    "tension": "uniaxial",
    "tensile": "uniaxial",
    "et": "equibiaxial",
    "biaxial": "equibiaxial",
    "ps": "pure-shear",
    "planar": "pure-shear",
    "shear": "pure-shear",
    "c": "compression",
    "uc": "compression",
}

# Names of the constants, as in geosim.material.materials; "ogden-n" has n pairs.
CONSTANTS = {
    "neo-hookean": ("mu",),
    "mooney-rivlin": ("c1", "c2"),
    "yeoh": ("c1", "c2", "c3"),
    "gent": ("mu", "jm"),
    "ogden": ("mu", "alpha"),
}
FAR = 30.0  # stretch up to which "at all stretches" is examined


def mode_name(text: str) -> str:
    """Return the full name of a mode of loading; short names such as UT are accepted.

    Raises
    ------
    InputError
        There is no such mode.
    """
    key = str(text).strip().lower().replace("_", "-").replace(" ", "-")
    key = _ALIASES.get(key, key)
    if key not in MODES:
        raise InputError(f"mode {text!r} is unknown; use one of {', '.join(MODES)} (or UT, ET, PS, C)")
    return key


def terms(model: str) -> int:
    """Return the number of Ogden terms of a model name, 0 for the other models.

    Raises
    ------
    InputError
        There is no such model.
    """
    if model in CONSTANTS:
        return 1 if model == "ogden" else 0
    head, _, tail = model.partition("-")
    if head == "ogden" and tail in ("1", "2", "3"):
        return int(tail)
    raise InputError(f"model {model!r} is unknown; use one of {', '.join(CONSTANTS)}, ogden-2, ogden-3")


def parameter_names(model: str) -> tuple[str, ...]:
    """Return the names of the constants of a model, in the order of every parameter vector here."""
    n = terms(model)
    if n <= 1:
        return CONSTANTS["ogden" if n else model]
    return tuple(f"{name}{i + 1}" for i in range(n) for name in ("mu", "alpha"))


def invariant(mode: str, stretch: Floats) -> Floats:
    """I1 - 3 of a mode at the given stretches, dimensionless."""
    squares = np.asarray(principal(mode, stretch)) ** 2
    return squares.sum(axis=0) - 3.0


def principal(mode: str, stretch: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the three principal stretches of a mode."""
    k = MODES[mode]
    free = stretch**-k
    if mode == "equibiaxial":
        return stretch, stretch, free
    return (stretch, np.ones_like(stretch), free) if mode == "pure-shear" else (stretch, free, free)


def _factors(mode: str, stretch: Floats) -> tuple[Floats, Floats, Floats]:
    """Return 2 (l - l^(-2k-1)), m and I1 - 3."""
    k = MODES[mode]
    m = principal(mode, stretch)[1] ** 2 if mode != "uniaxial" and mode != "compression" else 1.0 / stretch
    return 2.0 * (stretch - stretch ** (-2.0 * k - 1.0)), m, invariant(mode, stretch)


def sensitivities(model: str, parameters: Floats, mode: str, stretch: Floats) -> Floats:
    """Return dP/d(parameters), shape (n, p); for models linear in their constants, P = sensitivities @ parameters."""
    stretch = np.asarray(stretch, dtype=float)
    base, m, x = _factors(mode, stretch)
    if model == "neo-hookean":
        return (0.5 * base)[:, None]
    if model == "mooney-rivlin":
        return np.stack([base, base * m], axis=1)
    if model == "yeoh":
        return base[:, None] * np.stack([np.ones_like(x), 2.0 * x, 3.0 * x * x], axis=1)
    if model == "gent":
        mu, jm = parameters
        inside = x < jm
        gap = np.where(inside, jm - x, np.nan)
        return np.stack([0.5 * base * jm / gap, -0.5 * base * mu * x / gap**2], axis=1)
    columns = []
    k, log = MODES[mode], np.log(stretch)
    for mu, alpha in np.reshape(parameters, (terms(model), 2)):
        along, free = stretch ** (alpha - 1.0), stretch ** (-k * alpha - 1.0)
        columns += [along - free, mu * log * (along + k * free)]
    return np.stack(columns, axis=1)


def nominal_stress(model: str, parameters: Mapping[str, float] | Floats, mode: str, stretch: Floats) -> Floats:
    """Nominal (engineering) stress of an incompressible material.

    Parameters
    ----------
    model
        "neo-hookean", "mooney-rivlin", "yeoh", "gent", "ogden", "ogden-2" or "ogden-3".
    parameters
        Constants by name, or in the order of `parameter_names` [Pa; jm and alpha dimensionless].
    mode
        "uniaxial", "equibiaxial", "pure-shear" or "compression".
    stretch
        Along the load, shape (n,).

    Returns
    -------
    array
        [Pa], shape (n,); nan beyond the locking stretch of a Gent material.
    """
    names = parameter_names(model)
    mode = mode_name(mode)
    values = np.array([parameters[n] for n in names] if isinstance(parameters, Mapping) else parameters, dtype=float)
    stretch = np.atleast_1d(np.asarray(stretch, dtype=float))
    rows = sensitivities(model, values, mode, stretch)
    if terms(model) or model == "gent":
        return rows[:, ::2] @ values[::2]
    return rows @ values


def tangent(model: str, parameters: Floats, mode: str, stretch: Floats) -> Floats:
    """Return Drucker's quadratic form on two orthonormal isochoric directions [Pa], shape (n, 2, 2)."""
    stretch = np.atleast_1d(np.asarray(stretch, dtype=float))
    squares = np.stack(principal(mode, stretch), axis=1) ** 2
    if terms(model):
        diagonal = sum(mu * alpha * squares ** (0.5 * alpha) for mu, alpha in np.reshape(parameters, (terms(model), 2)))
        outer = np.zeros(len(stretch))
    else:
        w1, w2, outer = _derivatives(model, parameters, squares.sum(axis=1) - 3.0)
        diagonal = 4.0 * (w1[:, None] * squares + w2 / squares)
    form = np.einsum("ni,ij->nij", diagonal, np.eye(3)) + 4.0 * np.einsum("n,ni,nj->nij", outer, squares, squares)
    return np.einsum("ia,nij,jb->nab", _PLANE, form, _PLANE)


_PLANE = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]) / np.sqrt([2.0, 6.0])


def _derivatives(model: str, parameters: Floats, x: Floats) -> tuple[Floats, float, Floats]:
    """Return W1, W2 and dW1/dI1."""
    zero = np.zeros_like(x)
    if model == "neo-hookean":
        return zero + 0.5 * parameters[0], 0.0, zero
    if model == "mooney-rivlin":
        return zero + parameters[0], float(parameters[1]), zero
    if model == "yeoh":
        c1, c2, c3 = parameters
        return c1 + 2 * c2 * x + 3 * c3 * x * x, 0.0, 2 * c2 + 6 * c3 * x
    mu, jm = parameters
    gap = np.where(x < jm, jm - x, np.nan)
    return 0.5 * mu * jm / gap, 0.0, 0.5 * mu * jm / gap**2


def first_unstable(model: str, parameters: Floats, mode: str, farthest: float = FAR) -> float:
    """Return the first stretch at which a mode of loading is unstable (Drucker), or inf.

    Compression is examined down to the stretch 1 / `farthest`; beyond the locking of a Gent material nothing is.
    """
    values = np.asarray(parameters, dtype=float)
    sign = -1.0 if mode == "compression" else 1.0
    logs = np.linspace(0.0, np.log(farthest), 2000)

    def smallest(log: Floats) -> Floats:
        forms = tangent(model, values, mode, np.exp(sign * log))
        good = np.isfinite(forms).all(axis=(1, 2))
        lowest = np.full(len(log), np.inf)
        lowest[good] = np.linalg.eigvalsh(forms[good])[:, 0]
        return lowest

    scale = max(float(np.abs(tangent(model, values, mode, np.ones(1))).max()), 1e-300)
    bad = np.flatnonzero(smallest(logs) < -1e-9 * scale)
    if len(bad) == 0:
        return np.inf
    if bad[0] == 0:
        return 1.0
    low, high = logs[bad[0] - 1], logs[bad[0]]
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if smallest(np.array([middle]))[0] < 0 else (middle, high)
    return float(np.exp(sign * high))


def sign_change(model: str, parameters: Floats, mode: str) -> float:
    """Return the stretch > 1 from which the stress of a stretched sheet is compressive, or inf."""
    logs = np.linspace(1e-3, np.log(FAR), 2000)
    stress = nominal_stress(model, np.asarray(parameters, dtype=float), mode, np.exp(logs))
    bad = np.flatnonzero(stress < 0)
    if len(bad) == 0:
        return np.inf
    if bad[0] == 0:
        return 1.0
    low, high = logs[bad[0] - 1], logs[bad[0]]
    for _ in range(50):
        middle = 0.5 * (low + high)
        negative = nominal_stress(model, np.asarray(parameters, dtype=float), mode, np.exp([middle]))[0] < 0
        low, high = (low, middle) if negative else (middle, high)
    return float(np.exp(high))


@lru_cache(maxsize=8)
def drucker_rows(model: str) -> Floats:
    """Rows G with G @ constants >= 0 exactly where a linear model is stable at all stretches to 30, shape (r, p).

    Neo-Hookean and Mooney-Rivlin need non-negative constants (both limits of large stretch are reached). For
    Yeoh the form divided by 4 sum l_i^2 de_i^2 is W1 + W1' q with q = (sum l_i^2 de_i)^2 / sum l_i^2 de_i^2, so a
    state demands c1 + 2 (x + q) c2 + (3 x^2 + 6 x q) c3 >= 0, x = I1 - 3, for q = 0 and for the largest q.
    """
    if model != "yeoh":
        return np.eye(len(parameter_names(model)))
    rows = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    for mode in ("uniaxial", "equibiaxial", "pure-shear"):
        squares = np.stack(principal(mode, np.exp(np.linspace(0.0, np.log(FAR), 120))), axis=1) ** 2
        # Largest q on the plane sum de = 0: with D = diag(l^2) it is a.D.a minus what the plane's multiplier removes.
        largest = squares.sum(axis=1) - 9.0 / (1.0 / squares).sum(axis=1)
        x = squares.sum(axis=1) - 3.0
        for q in (np.zeros_like(x), np.maximum(largest, 0.0)):
            rows += [[1.0, 2 * (a + b), 3 * a * a + 6 * a * b] for a, b in zip(x, q)]
    table = np.array(rows)
    return table / np.linalg.norm(table, axis=1, keepdims=True)
