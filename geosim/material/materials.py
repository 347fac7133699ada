"""Materials: what the body of a robot is made of.

Hyperelastic materials are isotropic and split into a distortional energy W of the isochoric invariants

    I1 = J^(-2/3) tr(F^T F),   I2 = J^(-4/3) (tr(F^T F)^2 - tr((F^T F)^2)) / 2,   J = det F,

and a volumetric part with bulk modulus kappa; kappa = inf (the default) is exact incompressibility, J = 1.
Every constant is in SI units: moduli in Pa, density in kg/m^3.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from geosim.errors import InputError

__all__ = [
    "Gent",
    "Hyperelastic",
    "LinearElastic",
    "Material",
    "MooneyRivlin",
    "NeoHookean",
    "Ogden",
    "Yeoh",
    "material_from_dict",
]

SOFTEST = 10.0  # Pa; anything softer is a modulus typed in MPa or kPa


def _positive(owner: str, key: str, value: float, *, zero: bool = False, infinite: bool = False) -> None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    good = good and (value > 0 or (zero and value == 0)) and (infinite or math.isfinite(value))
    if not good:
        raise InputError(
            f"{owner}: {key} = {value!r} is not a {'non-negative' if zero else 'positive'} number; "
            f"moduli are in Pa, densities in kg/m^3"
        )


@dataclass(frozen=True)
class Material:
    """Root of all materials; use one of its subclasses."""

    model: ClassVar[str] = ""

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest [Pa]."""
        raise TypeError(f"{type(self).__name__} has no shear modulus")

    def to_dict(self) -> dict[str, Any]:
        """Return the model's name and constants, as a material TOML holds them."""
        return {"model": self.model, **dataclasses.asdict(self)}


@dataclass(frozen=True)
class Hyperelastic(Material):
    """Root of the hyperelastic materials."""

    kind: ClassVar[int] = -1

    def constants(self) -> tuple[float, ...]:
        """Return the constants of W in the order that the kernels read them [Pa, or dimensionless]."""
        raise TypeError(f"{type(self).__name__} has no constants")

    @property
    def rest_slope(self) -> float:
        """Slope s at rest [Pa] with which W(I1, I2) - s (J - 1) is free of stress there."""
        return self.shear_modulus

    def kernel_constants(self, stress_unit: float) -> tuple[float, ...]:
        """Return `constants()` with every modulus divided by `stress_unit` [Pa]."""
        return tuple(value / stress_unit for value in self.constants())

    def _check(self) -> None:
        name = type(self).__name__
        _positive(name, "bulk_modulus", self.bulk_modulus, infinite=True)  # type: ignore[attr-defined]
        _positive(name, "density", self.density, zero=True)  # type: ignore[attr-defined]
        mu = self.shear_modulus
        if not (math.isfinite(mu) and mu > 0):
            raise InputError(f"{name}: the shear modulus at rest is {mu:.6g} Pa; it must be positive")
        if mu < SOFTEST:
            raise InputError(
                f"{name}: a shear modulus of {mu:.4g} Pa is softer than any gel; moduli are in Pa (0.0418 MPa = 41.8e3)"
            )
        kappa = self.bulk_modulus  # type: ignore[attr-defined]
        if kappa < mu:
            raise InputError(
                f"{name}: bulk_modulus = {kappa:.6g} Pa is below the shear modulus {mu:.6g} Pa; "
                f"rubber-like materials have bulk_modulus >> shear modulus (inf = incompressible)"
            )


@dataclass(frozen=True)
class MooneyRivlin(Hyperelastic):
    """Mooney-Rivlin: W = c1 (I1 - 3) + c2 (I2 - 3).

    Parameters
    ----------
    c1, c2
        Constants [Pa]; the shear modulus at rest is 2 (c1 + c2).
    bulk_modulus
        [Pa]; inf is exact incompressibility.
    density
        [kg/m^3].
    """

    c1: float = 41.8e3
    c2: float = 10.6e3
    bulk_modulus: float = math.inf
    density: float = 1070.0
    model: ClassVar[str] = "mooney-rivlin"
    kind: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _positive("MooneyRivlin", "c1", self.c1, zero=True)
        if not math.isfinite(self.c2):
            raise InputError(f"MooneyRivlin: c2 = {self.c2!r} is not a number")
        self._check()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 2 (c1 + c2) [Pa]."""
        return 2.0 * (self.c1 + self.c2)

    @property
    def rest_slope(self) -> float:
        """Slope s = 2 (c1 + 2 c2) [Pa]."""
        return 2.0 * (self.c1 + 2.0 * self.c2)

    def constants(self) -> tuple[float, ...]:
        """Return (c1, c2)."""
        return (self.c1, self.c2)


@dataclass(frozen=True)
class NeoHookean(Hyperelastic):
    """Neo-Hookean: W = mu / 2 (I1 - 3), with the shear modulus mu [Pa]."""

    mu: float
    bulk_modulus: float = math.inf
    density: float = 1070.0
    model: ClassVar[str] = "neo-hookean"
    kind: ClassVar[int] = 0  # Mooney-Rivlin with c2 = 0

    def __post_init__(self) -> None:
        _positive("NeoHookean", "mu", self.mu)
        self._check()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus mu [Pa]."""
        return self.mu

    def constants(self) -> tuple[float, ...]:
        """Return (c1, c2) = (mu / 2, 0) of the Mooney-Rivlin form."""
        return (0.5 * self.mu, 0.0)


@dataclass(frozen=True)
class Yeoh(Hyperelastic):
    """Yeoh: W = c1 (I1 - 3) + c2 (I1 - 3)^2 + c3 (I1 - 3)^3, constants in Pa."""

    c1: float
    c2: float = 0.0
    c3: float = 0.0
    bulk_modulus: float = math.inf
    density: float = 1070.0
    model: ClassVar[str] = "yeoh"
    kind: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _positive("Yeoh", "c1", self.c1)
        for key in ("c2", "c3"):
            if not math.isfinite(getattr(self, key)):
                raise InputError(f"Yeoh: {key} = {getattr(self, key)!r} is not a number")
        self._check()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 2 c1 [Pa]."""
        return 2.0 * self.c1

    def constants(self) -> tuple[float, ...]:
        """Return (c1, c2, c3)."""
        return (self.c1, self.c2, self.c3)


@dataclass(frozen=True)
class Gent(Hyperelastic):
    """Gent: W = -mu jm / 2 ln(1 - (I1 - 3) / jm); the chains lock at I1 - 3 = jm."""

    mu: float
    jm: float
    bulk_modulus: float = math.inf
    density: float = 1070.0
    model: ClassVar[str] = "gent"
    kind: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _positive("Gent", "mu", self.mu)
        _positive("Gent", "jm", self.jm)
        self._check()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest mu [Pa]."""
        return self.mu

    def constants(self) -> tuple[float, ...]:
        """Return (mu, jm)."""
        return (self.mu, self.jm)

    def kernel_constants(self, stress_unit: float) -> tuple[float, ...]:
        """Return (mu / stress_unit, jm)."""
        return (self.mu / stress_unit, self.jm)


@dataclass(frozen=True)
class Ogden(Hyperelastic):
    """Ogden: W = sum_i mu_i / alpha_i (l1^alpha_i + l2^alpha_i + l3^alpha_i - 3), l the isochoric stretches.

    The shear modulus at rest is 1/2 sum mu_i alpha_i. `mu` [Pa] and `alpha` [-] are numbers or tuples.
    """

    mu: float | tuple[float, ...]
    alpha: float | tuple[float, ...]
    bulk_modulus: float = math.inf
    density: float = 1070.0
    model: ClassVar[str] = "ogden"
    kind: ClassVar[int] = 3

    def __post_init__(self) -> None:
        for key in ("mu", "alpha"):
            value = getattr(self, key)
            terms = tuple(float(v) for v in value) if isinstance(value, (tuple, list)) else (float(value),)
            object.__setattr__(self, key, terms)
            bad = [v for v in terms if not math.isfinite(v) or (v == 0 and key == "alpha")]
            if bad or not terms:
                raise InputError(
                    f"Ogden: {key} = {terms!r} must be finite numbers" + (" other than zero" if key == "alpha" else "")
                )
        if len(self.mu) != len(self.alpha):  # type: ignore[arg-type]
            raise InputError(
                f"Ogden: mu has {len(self.mu)} terms and alpha {len(self.alpha)}; "  # type: ignore[arg-type]
                f"give as many of each"
            )
        self._check()

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest, 1/2 sum mu_i alpha_i [Pa]."""
        return 0.5 * sum(m * a for m, a in zip(self.mu, self.alpha, strict=True))  # type: ignore[arg-type,misc]

    @property
    def rest_slope(self) -> float:
        """Slope s = sum mu_i [Pa]."""
        return sum(self.mu)  # type: ignore[arg-type]

    def constants(self) -> tuple[float, ...]:
        """Return (mu_1, alpha_1, mu_2, alpha_2, ...)."""
        return tuple(v for pair in zip(self.mu, self.alpha, strict=True) for v in pair)  # type: ignore[arg-type]

    def kernel_constants(self, stress_unit: float) -> tuple[float, ...]:
        """Return `constants()` with the mu_i divided by `stress_unit` [Pa]."""
        return tuple(v / stress_unit if i % 2 == 0 else v for i, v in enumerate(self.constants()))


@dataclass(frozen=True)
class LinearElastic(Material):
    """Linear isotropic elasticity of rods, shells and snake links.

    Parameters
    ----------
    youngs_modulus
        [Pa].
    poisson_ratio
        Dimensionless, -1 < nu <= 0.5.
    density
        [kg/m^3].
    """

    youngs_modulus: float
    poisson_ratio: float = 0.5
    density: float = 1070.0
    model: ClassVar[str] = "linear-elastic"

    def __post_init__(self) -> None:
        _positive("LinearElastic", "youngs_modulus", self.youngs_modulus)
        _positive("LinearElastic", "density", self.density, zero=True)
        if not -1.0 < self.poisson_ratio <= 0.5:
            raise InputError(f"LinearElastic: poisson_ratio = {self.poisson_ratio!r} is outside (-1, 0.5]")

    @property
    def shear_modulus(self) -> float:
        """Shear modulus E / (2 (1 + nu)) [Pa]."""
        return self.youngs_modulus / (2.0 * (1.0 + self.poisson_ratio))


MODELS: dict[str, type[Material]] = {m.model: m for m in (MooneyRivlin, NeoHookean, Yeoh, Gent, Ogden, LinearElastic)}


def material_from_dict(table: dict[str, Any], source: str = "material") -> Material:
    """Return the material that a table {model = ..., constants} describes.

    Raises
    ------
    InputError
        The model is unknown, or a constant is unknown, missing or impossible; `source` is named.
    """
    table = dict(table)
    name = table.pop("model", None)
    if name not in MODELS:
        raise InputError(f"{source}: model = {name!r} is unknown; use one of {', '.join(sorted(MODELS))}")
    known = [f.name for f in dataclasses.fields(MODELS[name])]
    for key in table:
        if key not in known:
            raise InputError(f"{source}: {key!r} is not a constant of {name}; it has {', '.join(known)}")
    try:
        return MODELS[name](**table)
    except TypeError as error:
        raise InputError(f"{source}: {name} needs {', '.join(known[:1])}: {error}") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
