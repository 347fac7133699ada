"""Incompressible materials in the four standard tests: stretches, stress, and stiffness against further strain.

With the stretch l along the load the other principal stretches follow from incompressibility,

    uniaxial, compression   (l, l^-1/2, l^-1/2)      k = 1/2
    equibiaxial             (l, l, l^-2)             k = 2
    pure shear              (l, 1, l^-1)             k = 1

so that the free direction has stretch l^-k. Its stress vanishes, and the nominal stress along the load is

    P = (b_1 - b_3) / l,    b_i = dW/d ln l_i

with b_i = 2 W1 l_i^2 - 2 W2 l_i^-2 for W(I1, I2) (I2 = sum l_i^-2 where J = 1), and b_i = dpsi/d ln l_i for a law of the
stretches [Ogden 1972; Treloar 1975].
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.material.laws import OF_STRETCHES, invariant_law, stretch_law
from geosim.material.materials import Hyperelastic
from geosim.material.tensors import row

MODES = {"uniaxial": 0.5, "compression": 0.5, "equibiaxial": 2.0, "pure-shear": 1.0}  # k
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


def principal(mode: str, stretch: Floats) -> Floats:
    """Return the three principal stretches of a mode, shape (n, 3)."""
    free = stretch ** -MODES[mode]
    second = {"equibiaxial": stretch, "pure-shear": np.ones_like(stretch)}.get(mode, free)
    return np.stack([stretch, second, free], axis=-1)


def nominal_stress(row: np.ndarray, mode: str, stretch: Floats) -> np.ndarray:
    """Return the nominal stress of a material row in a mode, shape (n,); nan beyond a locking stretch.

    A complex row gives complex stresses, the imaginary part of which is the derivative along that of the row.
    """
    out = np.empty(len(stretch), dtype=row.dtype)
    _nominal(row, principal(mode, stretch), out)
    return out


def disagreement(material: Hyperelastic, mode: str, stretch: float) -> float:
    """Return how far the laws that fit the tests of a material differ there: half-width of a 95 % interval over the stress.

    0 of a material whose alternatives are not known; another law is at most off by the stress itself.
    """
    at = np.array([stretch])
    own = float(nominal_stress(row(material, 1.0, isochoric=True), mode, at)[0])
    variance = 0.0
    for weight, law in material.alternatives:
        off = float(nominal_stress(row(law, 1.0, isochoric=True), mode, at)[0]) / own - 1.0
        variance += weight * float(np.clip(np.nan_to_num(off, nan=1.0), -1.0, 1.0)) ** 2
    normal_quantile = 1.96  # of a 95 % interval
    return normal_quantile * float(np.sqrt(variance))


@kernel
def _nominal(m, stretches, out):
    for n in range(len(stretches)):
        one, free = stretches[n, 0], stretches[n, 2]
        if m[0].real >= OF_STRETCHES:
            out[n] = (stretch_law(m, one)[1] - stretch_law(m, free)[1]) / one
        else:
            squares = stretches[n] ** 2
            _, w1, w2, _ = invariant_law(m, squares.sum(), (1.0 / squares).sum())
            out[n] = 2.0 * (w1 * (squares[0] - squares[2]) + w2 * (1.0 / squares[2] - 1.0 / squares[0])) / one


@kernel
def stiffness(m, stretches, out):
    """Write H (n, 3, 3) with dtau . d(ln l) = d(ln l) . H d(ln l) for isochoric increments at stretches (n, 3)."""
    for n in range(len(stretches)):
        squares = stretches[n] ** 2
        w11 = 0.0
        if m[0] >= OF_STRETCHES:
            diagonal = np.array([stretch_law(m, stretches[n, i])[2] for i in range(3)])
        else:
            _, w1, w2, w11 = invariant_law(m, squares.sum(), (1.0 / squares).sum())
            diagonal = 4.0 * (w1 * squares + w2 / squares)
        for i in range(3):
            for j in range(3):
                out[n, i, j] = 4.0 * w11 * squares[i] * squares[j] + (diagonal[i] if i == j else 0.0)
