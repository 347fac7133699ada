"""Models by name, their stress in the standard tests, and where a material is unstable.

A model is a law of `geosim.material.laws` with its number of terms; its stress and the derivatives by its constants
follow from the law's own W (`geosim.material.curves`).

Stability is Drucker's: dtau : d(log strain) > 0 for every isochoric coaxial increment, tau the Kirchhoff stress.
With principal log strains e_i and W1' = d2W/dI1^2 the quadratic form is

    dtau . de = 4 sum_i (W1 l_i^2 + W2 l_i^-2) de_i^2 + 4 W1' (sum_i l_i^2 de_i)^2,     sum_i de_i = 0

(for Ogden sum_i mu alpha l_i^alpha de_i^2); it must be positive on the plane sum_i de_i = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import bisect

from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Bools, Floats, floats, norm, real_array
from geosim.errors import InputError
from geosim.material import curves
from geosim.material.curves import MODES, mode_name, principal
from geosim.material.laws import FIRST, LAWS
from geosim.material.materials import Constant, Hyperelastic

__all__ = [
    "MODES",
    "Model",
    "drucker_rows",
    "find_model",
    "first_unstable",
    "invariant",
    "mode_name",
    "nominal_stress",
    "principal",
    "sensitivities",
    "sign_change",
    "tangent",
]

MAX_EXAMINED_STRETCH = (
    30.0  # stretch up to which "at all stretches" is examined: three times what the softest silicones bear
)
STABILITY_STRETCHES = 2000  # stretches at which stability is examined, 0.17 % apart
_PLANE = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]) / np.sqrt([2.0, 6.0])


@dataclass(frozen=True)
class Model:
    """A law with its number of terms; vectors of constants are in the order of `names`."""

    law: type[Hyperelastic]
    terms: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the constants; of several terms with the number of the term."""
        numbers = [""] if self.terms == 1 else range(1, self.terms + 1)
        return tuple(f"{name}{i}" for i in numbers for name in self.law.declared())

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Knowledge of every constant."""
        return self.terms * tuple(self.law.declared().values())

    @property
    def moduli(self) -> Bools:
        """Which constants enter W linearly, shape (p,)."""
        return np.array([c.unit == "Pa" for c in self.constants])

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return the material row of a vector of constants, of its type."""
        out = np.zeros(FIRST + len(values), dtype=values.dtype)
        out[0], out[3] = self.law.kind, len(values)
        out[FIRST:] = values
        return out


@cache
def find_model(name: str) -> Model:
    """Return the model of a name such as "yeoh" or "ogden-2" (two terms).

    Raises
    ------
    InputError
        There is no such model.
    """
    if name in LAWS:
        return Model(LAWS[name])
    head, _, tail = name.rpartition("-")
    several = [f"{n}-{i}" for n, law in LAWS.items() for i in range(2, law.most_terms + 1)]
    if name in several or (tail == "1" and head in LAWS):
        return Model(LAWS[head], int(tail))
    raise InputError(f"model {name!r} is unknown; use one of {', '.join([*LAWS, *several])}")


def invariant(mode: str, stretch: Floats) -> Floats:
    """I1 - 3 of a mode at the given stretches, dimensionless."""
    return np.asarray((principal(mode, stretch) ** 2).sum(axis=-1) - 3.0)


def sensitivities(model: str, parameters: Floats, mode: str, stretch: Floats, which: Bools | None = None) -> Floats:
    """Return dP/d(parameters) of all constants, or of some (p,), shape (n, p).

    For models linear in their constants P = sensitivities @ parameters.
    """
    row = find_model(model).row(np.asarray(parameters, dtype=complex))
    columns = []
    complex_step_rel = 1e-30  # step of a derivative, relative: its square is below rounding
    for i in FIRST + np.flatnonzero(np.ones(len(parameters)) if which is None else which):
        # one small step in the imaginary part: P(c + ih) = P(c) + ih P'(c) without a difference that would round
        size = complex_step_rel * max(abs(row[i]), 1.0)
        row[i] += 1j * size
        columns.append(curves.nominal_stress(row, mode, stretch).imag / size)
        row[i] = row[i].real
    return np.stack(columns, axis=1)


@guarded
def nominal_stress(
    model: str, parameters: Mapping[str, float] | Sequence[float] | Floats, mode: str, stretch: ArrayLike
) -> Floats:
    """Nominal (engineering) stress of an incompressible material.

    Parameters
    ----------
    model
        "neo-hookean", "mooney-rivlin", "yeoh", "gent", "ogden", "ogden-2" or "ogden-3".
    parameters
        Constants by name, or in the order of `Model.names` [Pa; jm and alpha dimensionless].
    mode
        "uniaxial", "equibiaxial", "pure-shear" or "compression".
    stretch
        Along the load, shape (n,).

    Returns
    -------
    array
        [Pa], shape (n,); nan beyond the locking stretch of a Gent material.
    """
    found = find_model(model)
    row = found.row(floats(constants_of(found, parameters), "nominal_stress: parameters", (None,)))
    stretches = floats(
        np.atleast_1d(real_array(stretch, "nominal_stress: stretch")), "nominal_stress: stretch", (None,)
    )
    if not (stretches > 0.0).all():
        raise InputError(f"nominal_stress: stretch = {stretches.min():g} must be positive; 1 is the length at rest")
    with np.errstate(over="ignore", invalid="ignore"):  # of stretches beyond any rubber's
        return curves.nominal_stress(row, mode_name(mode), stretches)


def constants_of(model: Model, parameters: Mapping[str, float] | Sequence[float] | Floats) -> Floats:
    """Return constants in the order of the model, (n,), or of a law of terms (n, terms).

    Raises
    ------
    InputError
        One is missing, or they are no numbers.
    """
    if isinstance(parameters, Mapping):
        missing = [name for name in model.names if name not in parameters]
        if missing:
            raise InputError(f"parameters: {missing[0]} is missing; the model has {', '.join(model.names)}")
        parameters = [parameters[name] for name in model.names]
    values = real_array(parameters, "parameters")
    if values.size == 0 or len(np.atleast_1d(values)) % len(model.names):
        raise InputError(f"parameters: {len(np.ravel(values))} given; the model has {', '.join(model.names)}")
    return np.atleast_1d(values)


def _forms(model: Model, values: Floats, mode: str, stretch: Floats) -> Floats:
    """Drucker's quadratic form in principal log strains [Pa], (n, 3, 3)."""
    out = np.empty((len(stretch), 3, 3))
    curves.stiffness(model.row(values), principal(mode, stretch), out)
    out[~np.isfinite(out).all(axis=(1, 2))] = np.nan
    return out


def tangent(model: str, parameters: Floats, mode: str, stretch: Floats) -> Floats:
    """Return Drucker's quadratic form on two orthonormal isochoric directions [Pa], shape (n, 2, 2)."""
    forms = _forms(find_model(model), np.asarray(parameters, dtype=float), mode, np.atleast_1d(stretch).astype(float))
    return np.asarray(_PLANE.T @ forms @ _PLANE)


def _onset(bad: Callable[[Floats], Bools], logs: Floats) -> float:
    """Return exp of the log at which something is bad first, to rounding; 1 at the first of the logs, inf if nowhere."""
    found = np.flatnonzero(bad(logs))
    if len(found) == 0 or found[0] == 0:
        return 1.0 if len(found) else np.inf
    side = lambda log: 1.0 if bad(np.array([log]))[0] else -1.0  # noqa: E731
    return float(np.exp(bisect(side, logs[found[0] - 1], logs[found[0]])))


def first_unstable(model: str, parameters: Floats, mode: str) -> float:
    """Return the first stretch at which a mode of loading is unstable (Drucker), or inf.

    Compression is examined down to the stretch 1 / 30; beyond the locking of a Gent material nothing is.
    """
    sign = -1.0 if mode == "compression" else 1.0
    stiffness_rounding_rel = 1e-9  # part of the stiffness at rest below which a negative one is rounding
    limit = -stiffness_rounding_rel * float(np.abs(tangent(model, parameters, mode, np.ones(1))).max())

    def unstable(logs: Floats) -> Bools:
        forms = tangent(model, parameters, mode, np.exp(sign * logs))
        good: Bools = np.asarray(np.isfinite(forms).all(axis=(1, 2)))
        least = np.linalg.eigvalsh(np.where(good[:, None, None], forms, 0.0))[:, 0]
        return np.asarray(good & (least < limit))

    found = _onset(unstable, np.linspace(0.0, np.log(MAX_EXAMINED_STRETCH), STABILITY_STRETCHES))
    return found**sign if np.isfinite(found) else found


def sign_change(model: str, parameters: Floats, mode: str) -> float:
    """Return the stretch > 1 from which the stress of a stretched sheet is compressive, or inf."""
    return _onset(
        lambda logs: nominal_stress(model, parameters, mode, np.exp(logs)) < 0,
        np.linspace(1e-3, np.log(MAX_EXAMINED_STRETCH), STABILITY_STRETCHES),
    )


@lru_cache(maxsize=8)
def drucker_rows(model: str) -> Floats:
    """Rows G with G @ constants >= 0 exactly where a linear model is stable at all stretches to 30, shape (r, p).

    Constants that no stable material has negative (a limit of large stretch) give a row each, and suffice where all are
    such. Else the form of a state is linear in the constants, too; for Yeoh, divided by 4 sum l_i^2 de_i^2, it is W1 +
    W1' q with q = (sum l_i^2 de_i)^2 / sum l_i^2 de_i^2, so that the increments of the smallest q (zero) and of the
    largest give all that a state demands: c1 + 2 (x + q) c2 + (3 x^2 + 6 x q) c3 >= 0, x = I1 - 3.
    """
    found = find_model(model)
    unit, signed = np.eye(len(found.names)), np.array([c.stable_positive for c in found.constants])
    rows = [unit[signed]]
    stretch = np.exp(np.linspace(0.0, np.log(MAX_EXAMINED_STRETCH), 120))[1:]  # at rest c1 >= 0 says it
    for mode in () if signed.all() else ("uniaxial", "equibiaxial", "pure-shear"):
        squares = principal(mode, stretch) ** 2
        none = np.cross(np.ones(3), squares)  # sum l_i^2 de_i = 0
        most = 1.0 - 3.0 / squares / (1.0 / squares).sum(axis=1, keepdims=True)
        forms = np.stack([_forms(found, constants, mode, stretch) for constants in unit], axis=-1)
        rows += [np.einsum("ni,nijp,nj->np", de, forms, de) for de in (none, most)]
    table = np.vstack(rows)
    return table / norm(table, axis=1, keepdims=True)
