"""Materials: what the body of a robot is made of.

`Material` is the root of all, `Hyperelastic` that of the laws in `geosim.material.laws`, `LinearElastic` that of rods,
shells and snake links. Every constant is in SI units: moduli in Pa, density in kg/m^3.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, floats, number, real_array, shown
from geosim.errors import InputError

# Share of its moduli that a rubber may lose to first cycles and holds of which nothing was said: the tip of an arm of cast
# silicone under constant pressure moved on by 8, 11 and 18 % within 2 to 4 s [Dubied et al., IEEE RA-L 2022, record of the arm],
# as if its modulus fell by 8 to 15 %.
UNSAID_SOFTENING = 0.15

SILICONE_DENSITY = 1070.0  # kg/m^3, of the silicone rubbers that robots are cast from

OF_TIME = "relaxation_shares", "relaxation_times", "viscosity"  # fields that say what a material does in time


def _check(owner: str, key: str, value: float, *, above: float | None = None, low: float = -math.inf) -> None:
    max_density = 3e4  # kg/m^3: osmium has 22,600
    try:
        number(value, f"{owner}: {key}", above=above, low=low, high=max_density if key == "density" else math.inf)
    except InputError as error:
        raise InputError(f"{error}; moduli are in Pa, densities in kg/m^3") from None


@guarded
@dataclass(frozen=True)
class Material:
    """Root of all materials; use one of its subclasses.

    Knowledge of a material beside its constants belongs to one with these constants: a changed copy has forgotten it.
    """

    model: ClassVar[str] = ""
    source: ClassVar[str] = ""  # where the constants come from
    max_stretch: ClassVar[float] = math.nan  # up to which they were fitted
    scatter: ClassVar[float] = math.nan  # relative standard deviation of the shear modulus between batches
    unsaid_softening: ClassVar[float] = (
        0.0  # share of its moduli that cycles and holds of which nothing was said may take
    )
    alternatives: ClassVar[tuple[tuple[float, Any], ...]] = ()  # (weight, law) of laws that fit the same tests

    def known_as(
        self,
        source: str,
        max_stretch: float,
        scatter: float,
        unsaid_softening: float = 0.0,
        alternatives: tuple[tuple[float, Any], ...] = (),
    ) -> Self:
        """Return the material with its source, range of stretch, scatter between batches, and what cycles and holds may take.

        `alternatives` are other laws that fit the same tests, with the weights of their deviations.
        """
        made = dataclasses.replace(self)
        made.__dict__.update(
            source=source, max_stretch=max_stretch, scatter=scatter, unsaid_softening=unsaid_softening,
            alternatives=alternatives,
        )  # no constants: equality ignores them  # fmt: skip
        return made

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of all fields, those of the law first."""
        return [f.name for f in sorted(dataclasses.fields(cls), key=lambda f: bool(f.kw_only))]

    @property
    def shear_modulus(self) -> float:
        """Shear modulus at rest [Pa]."""
        raise TypeError(f"{type(self).__name__} has no shear modulus")

    def stiffened(self, factor: float) -> Material:
        """Return the material with every modulus multiplied by a factor."""
        raise TypeError(f"{type(self).__name__} has no modulus")

    def to_dict(self) -> dict[str, Any]:
        """Return the model's name and constants, as a material TOML holds them."""
        found = {name: getattr(self, name) for name in self.field_names()}
        elastic = {name: value for name, value in found.items() if name not in OF_TIME or value}
        return {"model": self.model, **elastic}


@dataclass(frozen=True)
class Constant:
    """Knowledge of one constant of a law.

    Parameters
    ----------
    unit
        "Pa": W is linear in it; "": a dimensionless one that shapes W.
    symbol
        Its name in the literature; default the field's own.
    above, low
        It exceeds `above`, and is at least `low`.
    stable_positive
        Whether no material with a negative one is stable (Drucker) at all stretches.
    locks
        Whether W is infinite where I1 - 3 reaches it.
    starts
        Values from which a fit of one term begins (of a constant that locks, its inverse is gridded instead).
    together
        Values from which fits of several terms begin, each a tuple of as many values as there can be terms.
    bounds
        Within which a fit stays.
    """

    unit: str = "Pa"
    symbol: str = ""
    above: float | None = None
    low: float = -math.inf
    stable_positive: bool = False
    locks: bool = False
    starts: tuple[float, ...] = (1.0,)
    together: tuple[tuple[float, ...], ...] = ()
    bounds: tuple[float, float] = (-math.inf, math.inf)


def constant(unit: str = "Pa", *, default: Any = dataclasses.MISSING, **known: Any) -> Any:
    """Declare a field of a law as a constant of W; `known` are the fields of `Constant`."""
    return dataclasses.field(default=default, metadata={"constant": Constant(unit, **known)})


@guarded
@dataclass(frozen=True)
class Hyperelastic(Material):
    """Root of the hyperelastic materials; see `geosim.material.laws`.

    Parameters
    ----------
    bulk_modulus
        [Pa]; inf is exact incompressibility.
    density
        [kg/m^3].
    relaxation_shares, relaxation_times
        Prony series of a material in time: shares g_i of the moduli, which are then the instantaneous ones, that relax in
        times tau_i [s], which increase.
    viscosity
        Shear viscosity of Kelvin and Voigt [Pa s].
    """

    bulk_modulus: float = dataclasses.field(default=math.inf, kw_only=True)
    density: float = dataclasses.field(default=SILICONE_DENSITY, kw_only=True)
    relaxation_shares: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)
    relaxation_times: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)
    viscosity: float = dataclasses.field(default=0.0, kw_only=True)
    kind: ClassVar[int] = -1
    most_terms: ClassVar[int] = 1

    @classmethod
    def declared(cls) -> dict[str, Constant]:
        """Return the constants of one term of W by name, in the order that the kernels read them."""
        found = {f.name: f.metadata.get("constant") for f in dataclasses.fields(cls)}
        return {name: c for name, c in found.items() if c is not None}

    @classmethod
    def of_constants(cls, values: Floats, **others: Any) -> Hyperelastic:
        """Return the material of constants in the kernels' order; terms without a modulus are left out."""
        terms = np.reshape(values, (-1, len(cls.declared())))
        if cls.most_terms == 1:
            return cls(*terms[0].tolist(), **others)
        return cls(*map(tuple, terms[terms[:, 0] != 0].T.tolist()), **others)

    def constants(self, stress_unit: float = 1.0) -> Floats:
        """Return the constants of W in the kernels' order, those in Pa divided by `stress_unit` [Pa], shape (n,)."""
        number(stress_unit, "constants: stress_unit [Pa]", low=1e-9)
        columns = [
            np.atleast_1d(getattr(self, name)) / (stress_unit if c.unit == "Pa" else 1.0)
            for name, c in self.declared().items()
        ]
        return np.stack(columns, axis=1).ravel()

    def stiffened(self, factor: float) -> Hyperelastic:
        """Return the material with every modulus multiplied by a factor."""
        scale = np.array([factor if c.unit == "Pa" else 1.0 for c in self.declared().values()])
        terms = np.reshape(self.constants(), (-1, len(scale))) * scale
        others: dict[str, Any] = {"density": self.density, **{name: getattr(self, name) for name in OF_TIME}}
        return type(self).of_constants(terms, bulk_modulus=factor * self.bulk_modulus, **others)

    @property
    def viscous(self) -> bool:
        """Whether stress depends on time."""
        return bool(self.relaxation_shares) or self.viscosity > 0.0

    def relaxed(self, hold: float | None = None) -> Hyperelastic:
        """Return the material without viscosity after a hold of some time [s], by default when all is relaxed."""
        held = math.inf if hold is None else number(hold, f"{type(self).__name__}: hold [s]", low=0.0)
        gone = sum(g * -math.expm1(-held / tau) for g, tau in zip(self.relaxation_shares, self.relaxation_times))
        elastic = dataclasses.replace(self, relaxation_shares=(), relaxation_times=(), viscosity=0.0)
        # the series relaxes the distortion alone: the volume keeps its stiffness
        return dataclasses.replace(elastic.stiffened(1.0 - gone), bulk_modulus=self.bulk_modulus)

    def __post_init__(self) -> None:
        # Pa; anything softer is a modulus typed in MPa or kPa: the softest gels measured have some 100 Pa
        min_modulus_pa = 10.0
        name = type(self).__name__
        for key, known in self.declared().items():
            if self.most_terms == 1 and np.ndim(getattr(self, key)) > 0:
                raise InputError(f"{name}: {key} = {shown(getattr(self, key))} must be a number")
            real_array(getattr(self, key), f"{name}: {key}")
            for value in np.ravel(getattr(self, key)).tolist():
                _check(name, key, value, above=known.above, low=known.low)
        if self.bulk_modulus != math.inf:
            _check(name, "bulk_modulus", self.bulk_modulus, above=0.0)
        _check(name, "density", self.density, low=0.0)
        self._check_times()
        mu, kappa = self.shear_modulus, self.bulk_modulus
        if not (math.isfinite(mu) and mu > 0):
            raise InputError(f"{name}: the shear modulus at rest is {mu:.6g} Pa; it must be positive")
        if mu < min_modulus_pa:
            raise InputError(
                f"{name}: a shear modulus of {mu:.4g} Pa is softer than any gel; moduli are in Pa (0.0418 MPa = 41.8e3)"
            )
        if kappa < mu:
            raise InputError(
                f"{name}: bulk_modulus = {kappa:.6g} Pa is below the shear modulus {mu:.6g} Pa; "
                f"rubber-like materials have bulk_modulus >> shear modulus (inf = incompressible)"
            )

    def _check_times(self) -> None:
        """Refuse a Prony series or a viscosity that is none."""
        name = type(self).__name__
        for key in ("relaxation_shares", "relaxation_times"):
            found = floats(getattr(self, key), f"{name}: {key}", (None,))
            object.__setattr__(self, key, tuple(found.tolist()))
        shares, times = self.relaxation_shares, self.relaxation_times
        if len(shares) != len(times):
            raise InputError(f"{name}: {len(shares)} relaxation_shares for {len(times)} relaxation_times; give as many")
        if any(share <= 0.0 for share in shares) or sum(shares) >= 1.0:
            raise InputError(
                f"{name}: relaxation_shares = {list(shares)} must be positive and sum to less than 1; a share of 1 leaves a fluid"
            )
        if any(a >= b for a, b in zip((0.0, *times), times)):
            raise InputError(f"{name}: relaxation_times = {list(times)} s must be positive and increase")
        number(self.viscosity, f"{name}: viscosity [Pa s]", low=0.0)


def refuse_viscous(materials: Mapping[int, Hyperelastic], solver: str) -> None:
    """Refuse materials whose stress depends on time, for a solver that knows no time.

    Raises
    ------
    InputError
        A material is viscous.
    """
    for region, material in materials.items():
        if material.viscous:
            raise InputError(
                f"{solver}: the material of region {region} is viscous, and {solver} knows no time: use EnergyShapeStepper, or "
                "give material.relaxed(hold) of a hold [s]"
            )


@guarded
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
    density: float = SILICONE_DENSITY
    model: ClassVar[str] = "linear-elastic"

    def __post_init__(self) -> None:
        _check("LinearElastic", "youngs_modulus", self.youngs_modulus, above=0.0)
        _check("LinearElastic", "density", self.density, low=0.0)
        if not -1.0 < number(self.poisson_ratio, "LinearElastic: poisson_ratio") <= 0.5:
            raise InputError(f"LinearElastic: poisson_ratio = {self.poisson_ratio!r} is outside (-1, 0.5]")

    @property
    def shear_modulus(self) -> float:
        """Shear modulus E / (2 (1 + nu)) [Pa]."""
        return self.youngs_modulus / (2.0 * (1.0 + self.poisson_ratio))

    def stiffened(self, factor: float) -> LinearElastic:
        """Return the material with its modulus multiplied by a factor."""
        return dataclasses.replace(self, youngs_modulus=factor * self.youngs_modulus)
