"""Hyperelastic laws: each stands here once, as its class and its energy W with derivatives, and nowhere else.

Isotropic materials split into a distortional energy W and a volumetric part with bulk modulus kappa; kappa = inf (the
default) is exact incompressibility, J = det F = 1. W is a function of the invariants

    I1 = tr C,   I2 = (tr(C)^2 - tr(C^2)) / 2,   C = F^T F,

or a sum over the principal stretches l, W = psi(l1) + psi(l2) + psi(l3). The energy solver, the projective solver,
calibration and files all read a law from here: its fields are the constants (unit, limits, what a fit starts from), its
`kind` is the number by which `invariant_law` or `stretch_law` finds its W, its `model` the name in files and in fits.
Kernels get the constants as the tail of a material row (`geosim.material.tensors.row`), moduli in any unit of stress.
They also run on complex constants, whose imaginary part then carries a derivative: no comparison but of real parts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import real_array
from geosim.entries import entries
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.material.materials import Hyperelastic, LinearElastic, Material, constant

__all__ = [
    "FIRST",
    "LAWS",
    "OF_STRETCHES",
    "Gent",
    "MooneyRivlin",
    "NeoHookean",
    "Ogden",
    "Yeoh",
    "invariant_law",
    "material_from_dict",
    "stretch_law",
]

FIRST = 5  # column of a row at which the constants begin
NEO_HOOKEAN, MOONEY_RIVLIN, YEOH, GENT = 0, 1, 2, 3  # laws of the invariants
OF_STRETCHES = 100  # from here on laws of the principal stretches
OGDEN = 100


@guarded
@dataclass(frozen=True)
class NeoHookean(Hyperelastic):
    """Neo-Hookean: W = mu / 2 (I1 - 3), with the shear modulus mu [Pa]."""

    mu: float = constant(above=0.0, stable_positive=True)
    model: ClassVar[str] = "neo-hookean"
    kind: ClassVar[int] = NEO_HOOKEAN

    @property
    def shear_modulus(self) -> float:
        """Shear modulus mu [Pa]."""
        return self.mu


@kernel
def _neo_hookean(c, x, y):
    w1 = 0.5 * c[0]
    return w1 * x, w1, 0.0 * w1, 0.0 * w1


@guarded
@dataclass(frozen=True)
class MooneyRivlin(Hyperelastic):
    """Mooney-Rivlin: W = c1 (I1 - 3) + c2 (I2 - 3).

    Parameters
    ----------
    c1, c2
        Constants [Pa]; the shear modulus at rest is 2 (c1 + c2).
    bulk_modulus, density
        As of every hyperelastic material: [Pa], by default inf; [kg/m^3].
    """

    c1: float = constant(default=41.8e3, low=0.0, stable_positive=True, symbol="C10")
    c2: float = constant(default=10.6e3, stable_positive=True, symbol="C01")
    model: ClassVar[str] = "mooney-rivlin"
    kind: ClassVar[int] = MOONEY_RIVLIN

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 2 (c1 + c2) [Pa]."""
        return 2.0 * (self.c1 + self.c2)


@kernel
def _mooney_rivlin(c, x, y):
    return c[0] * x + c[1] * y, c[0], c[1], 0.0 * c[0]


@guarded
@dataclass(frozen=True)
class Yeoh(Hyperelastic):
    """Yeoh: W = c1 (I1 - 3) + c2 (I1 - 3)^2 + c3 (I1 - 3)^3, constants in Pa."""

    c1: float = constant(above=0.0, stable_positive=True, symbol="C10")
    c2: float = constant(default=0.0, symbol="C20")
    c3: float = constant(default=0.0, stable_positive=True, symbol="C30")
    model: ClassVar[str] = "yeoh"
    kind: ClassVar[int] = YEOH

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 2 c1 [Pa]."""
        return 2.0 * self.c1


@kernel
def _yeoh(c, x, y):
    w1 = c[0] + 2.0 * c[1] * x + 3.0 * c[2] * x * x
    return c[0] * x + c[1] * x * x + c[2] * x * x * x, w1, 0.0 * w1, 2.0 * c[1] + 6.0 * c[2] * x


@guarded
@dataclass(frozen=True)
class Gent(Hyperelastic):
    """Gent: W = -mu jm / 2 ln(1 - (I1 - 3) / jm); the chains lock at I1 - 3 = jm."""

    mu: float = constant(above=0.0, stable_positive=True)
    jm: float = constant("", above=0.0, locks=True)
    model: ClassVar[str] = "gent"
    kind: ClassVar[int] = GENT

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest mu [Pa]."""
        return self.mu


@kernel
def _gent(c, x, y):
    rest = 1.0 - x / c[1]
    if rest.real <= 0.0:  # past the locking stretch the energy is infinite, and the line search turns back
        infinite = np.inf + 0.0 * rest
        return infinite, infinite, 0.0 * rest, infinite
    return -0.5 * c[0] * c[1] * np.log(rest), 0.5 * c[0] / rest, 0.0 * rest, 0.5 * c[0] / (c[1] * rest * rest)


@guarded
@dataclass(frozen=True)
class Ogden(Hyperelastic):
    """Ogden: W = sum_i mu_i / alpha_i (l1^alpha_i + l2^alpha_i + l3^alpha_i - 3), l the isochoric stretches.

    The shear modulus at rest is 1/2 sum mu_i alpha_i. `mu` [Pa] and `alpha` [-] are numbers or tuples.
    """

    mu: float | tuple[float, ...] = constant()
    alpha: float | tuple[float, ...] = constant(
        "",
        starts=(*np.arange(-8.0, 0.0, 1.0), *np.arange(0.5, 12.5, 0.5)),
        together=((1.5, 5.0, -2.0), (2.0, -2.0, 6.0), (1.3, 8.0, 3.0)),
        bounds=(-25.0, 25.0),
    )
    model: ClassVar[str] = "ogden"
    kind: ClassVar[int] = OGDEN
    most_terms: ClassVar[int] = 3

    def __post_init__(self) -> None:
        for key in ("mu", "alpha"):
            object.__setattr__(
                self, key, tuple(real_array(getattr(self, key), f"{type(self).__name__}: {key}").ravel().tolist())
            )
        if 0.0 in np.ravel(self.alpha) or not self.mu:
            raise InputError(f"Ogden: mu = {self.mu!r}, alpha = {self.alpha!r} must be numbers, alpha other than zero")
        if np.size(self.mu) != np.size(self.alpha):
            raise InputError(
                f"Ogden: mu has {np.size(self.mu)} terms and alpha {np.size(self.alpha)}; give as many of each"
            )
        super().__post_init__()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 1/2 sum mu_i alpha_i [Pa]."""
        return 0.5 * float(np.dot(self.mu, self.alpha))


@kernel
def _ogden(c, count, stretch):
    psi, slope, curvature = 0.0 * c[0], 0.0 * c[0], 0.0 * c[0]
    for t in range(0, count, 2):
        mu, alpha = c[t], c[t + 1]
        power = stretch**alpha
        psi += mu / alpha * (power - 1.0)
        slope += mu * power
        curvature += mu * alpha * power
    return psi, slope, curvature


@kernel
def invariant_law(m, i1, i2):
    """Return W, dW/dI1, dW/dI2, d2W/dI1^2 of a material row (its other second derivatives are zero in all laws)."""
    kind, c, x, y = int(m[0].real), m[FIRST:], i1 - 3.0, i2 - 3.0
    if kind == NEO_HOOKEAN:
        return _neo_hookean(c, x, y)
    if kind == MOONEY_RIVLIN:
        return _mooney_rivlin(c, x, y)
    if kind == YEOH:
        return _yeoh(c, x, y)
    return _gent(c, x, y)


@kernel
def stretch_law(m, stretch):
    """Return psi, d psi/d ln(stretch), d2 psi/d ln(stretch)^2 of a material row."""
    return _ogden(m[FIRST:], int(m[3].real), stretch)


LAWS: dict[str, type[Hyperelastic]] = {law.model: law for law in (NeoHookean, MooneyRivlin, Yeoh, Gent, Ogden)}
MODELS: dict[str, type[Material]] = {**LAWS, LinearElastic.model: LinearElastic}


@guarded
def material_from_dict(table: dict[str, Any], source: str = "material") -> Material:
    """Return the material that a table {model = ..., constants} describes.

    Raises
    ------
    InputError
        The model is unknown, or a constant is unknown, missing or impossible; `source` is named.
    """
    table = dict(table)
    name = table.pop("model", None)
    if name is None and "kind" in table:
        raise InputError(f"{source}: kind names no law; the key is model: write model = {table['kind']!r}")
    make, known, origin = _maker(name, source)
    for key in table:
        if key not in known:
            raise InputError(f"{source}: {key!r} is not a constant of {name}; it has {', '.join(known)}")
    try:
        made = make(**table)
        if type(made) not in MODELS.values():  # kernels would take it for another law
            raise InputError(f"{name} of {origin} makes {type(made).__name__}, which is no law of geosim")
        return cast(Material, made)
    except TypeError as error:
        raise InputError(f"{source}: {name} needs {', '.join(known[:1])}: {error}") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _maker(name: Any, source: str) -> tuple[Callable[..., Any], list[str], str]:
    """Return what makes the material of a model, the names of its constants, and where it comes from."""
    if isinstance(name, str) and name in MODELS:
        return MODELS[name], MODELS[name].field_names(), "geosim"
    others = entries("geosim.materials", MODELS)
    if not isinstance(name, str) or name not in others:
        raise InputError(f"{source}: model = {name!r} is unknown; use one of {', '.join(sorted([*MODELS, *others]))}")
    make = others[name].load()
    return make, list(inspect.signature(make).parameters), str(others[name].source)
