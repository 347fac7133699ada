"""Cross-sections of rods: area and second moments, of a disc by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Floats, frozen, real_array
from geosim.errors import InputError


@guarded
@dataclass(frozen=True)
class Section:
    """Cross-section of every edge; numbers, or arrays with one value an edge.

    Parameters
    ----------
    area
        A [m^2].
    inertia1, inertia2
        Second moments [m^4] that resist kappa1 (bending about m1... turning in the plane of t and m1) and kappa2.
    torsion
        J [m^4].
    """

    area: Any
    inertia1: Any
    inertia2: Any
    torsion: Any

    def __post_init__(self) -> None:
        for key in ("area", "inertia1", "inertia2", "torsion"):
            value = real_array(getattr(self, key), f"Section: {key}")
            if value.ndim > 1 or not np.isfinite(value).all() or (value <= 0).any():
                raise InputError(f"Section: {key} must be positive (m^2 or m^4), a number or one value an edge")
            object.__setattr__(self, key, frozen(value) if value.ndim else np.float64(value))

    @staticmethod
    def circle(radius: ArrayLike) -> Section:
        """Disc of `radius` [m]: A = pi r^2, I = pi r^4 / 4, J = pi r^4 / 2."""
        return Section.tube(radius, 0.0)

    @staticmethod
    def tube(outer: ArrayLike, inner: ArrayLike) -> Section:
        """Tube between the radii `inner` < `outer` [m]."""
        a, b = _pair("Section.tube", outer=outer, inner=inner)
        if (b >= a).any() or (b < 0).any():
            raise InputError(f"Section.tube: inner = {inner!r} m must lie between 0 and outer = {outer!r} m")
        inertia = np.pi * (a**4 - b**4) / 4
        return Section(np.pi * (a**2 - b**2), inertia, inertia, 2 * inertia)

    @staticmethod
    def rectangle(width: ArrayLike, height: ArrayLike, torsion: ArrayLike | None = None) -> Section:
        """Rectangle with `height` [m] along m1 and `width` [m] along m2.

        I1 = width height^3 / 12 resists kappa1 (the thin way of a ribbon), I2 = height width^3 / 12 kappa2. The torsion
        constant is Saint-Venant's a b^3 (1/3 - 0.21 (b/a)(1 - b^4 / (12 a^4))) with a >= b unless it is given.
        """
        w, h = _pair("Section.rectangle", width=width, height=height)
        a, b = np.maximum(w, h), np.minimum(w, h)
        j = a * b**3 * (1 / 3 - 0.21 * (b / a) * (1 - b**4 / (12 * a**4))) if torsion is None else torsion
        return Section(w * h, w * h**3 / 12, h * w**3 / 12, j)


def _pair(owner: str, **given: ArrayLike) -> list[Floats]:
    """Return two arrays, of which one may have a value for each of the other's."""
    arrays = [real_array(value, f"{owner}: {name}") for name, value in given.items()]
    try:
        np.broadcast(*arrays)
    except ValueError:
        counts = " and ".join(f"{array.size} values of {name}" for name, array in zip(given, arrays))
        raise InputError(f"{owner}: {counts} do not go together; give one of each, or as many") from None
    return arrays
