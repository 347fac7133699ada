r"""Strain-dependent blending weights R_omega from a hyperelastic material.

[Fang2022] blends the current and the rest shape of an element by R_omega(strain) and leaves its law to a calibration.
Here it is derived. For an incompressible element the blended target pulls back with the nominal stress

    P = k [R (F - Q) + s cof F],    s from the sides that are free of stress.

In uniaxial tension F = diag(l, l^-1/2, l^-1/2) the sides give s = -R (l^-1/2 - 1) l^-1/2, hence

    P_blend = k R (l - 1 - l^-2 + l^-3/2),   and   R(e) = P_material(l) / (k (l - 1 - l^-2 + l^-3/2)),

with the strain e = ||F - Q|| = sqrt((l - 1)^2 + 2 (l^-1/2 - 1)^2). So k R / 2 is a secant shear modulus: at rest
k R = 2 G, and one stiffness k per material serves all strains. k is chosen by R at rest, which sets the
small-strain Poisson's ratio (1 - R) / (2 + R), that is bulk modulus over shear modulus = 2 / (3 R).
R is kept in [0, 1]: beyond 1 no convex blend exists, and a material that stiffens so far gets a larger k.
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.material.materials import Gent, Hyperelastic, MooneyRivlin, NeoHookean, Ogden, Yeoh

__all__ = ["SPACING", "blend_table", "material_row", "uniaxial_stress"]

SPACING = 0.02  # strain between two entries of a table
LARGEST = 9.0  # largest strain tabulated, a stretch of ten


def uniaxial_stress(material: Hyperelastic, stretch: Floats) -> Floats:
    """Return the nominal stress [Pa] of an incompressible bar at uniaxial stretches.

    Raises
    ------
    InputError
        The material has no such law here, or it locks below the stretch.
    """
    l = np.asarray(stretch, dtype=float)  # noqa: E741 (the field's letter)
    drive, excess = l - l**-2, l**2 + 2.0 / l - 3.0
    if isinstance(material, MooneyRivlin):
        return 2.0 * drive * (material.c1 + material.c2 / l)
    if isinstance(material, NeoHookean):
        return material.mu * drive
    if isinstance(material, Yeoh):
        return 2.0 * drive * sum((i + 1) * c * excess**i for i, c in enumerate(material.constants()))
    if isinstance(material, Gent):
        return material.mu * drive * material.jm / np.maximum(material.jm - excess, 1e-3 * material.jm)
    if isinstance(material, Ogden):
        pairs = np.reshape(material.constants(), (-1, 2))
        return sum(m * (l ** (a - 1) - l ** (-0.5 * a - 1)) for m, a in pairs)
    raise InputError(
        f"the projective solver has no blending law for {type(material).__name__}; use MooneyRivlin, "
        f"NeoHookean, Yeoh, Gent or Ogden"
    )


def blend_table(material: Hyperelastic, ratio: float) -> tuple[float, Floats]:
    """Return the stiffness k [Pa] and the table of R and of the integral of R e over strain.

    Parameters
    ----------
    material
        Any hyperelastic material; its bulk modulus is replaced by that of the blend.
    ratio
        R at rest, 0 < ratio <= 1.

    Returns
    -------
    k, table
        Stiffness [Pa] and (entries, 2): R and the integral of R t dt up to the strain i * SPACING.
    """
    stretch = np.concatenate([1.0 + np.geomspace(1e-5, 1.0, 400), np.linspace(2.0, 11.0, 800)[1:]])
    blend = stretch - 1.0 - stretch**-2 + stretch**-1.5
    strain = np.sqrt((stretch - 1.0) ** 2 + 2.0 * (stretch**-0.5 - 1.0) ** 2)
    at = np.arange(0.0, LARGEST, SPACING)
    secant = np.interp(at, strain, uniaxial_stress(material, stretch) / blend)
    secant[0] = 2.0 * material.shear_modulus
    secant = np.clip(secant, 1e-3 * secant[0], secant[0] / ratio)
    k = secant[0] / ratio
    R = secant / k
    square, cube = np.diff(at**2) / 2, np.diff(at**3) / 3
    steps = R[:-1] * square + np.diff(R) / SPACING * (cube - at[:-1] * square)
    return float(k), np.ascontiguousarray(np.stack([R, np.concatenate([[0.0], np.cumsum(steps)])], axis=1))


def material_row(material: Hyperelastic) -> Floats:
    """Return what the kernels read of a material: kind, 0, 0, number of constants, constants [Pa or 1], shape (16,)."""
    constants = material.kernel_constants(1.0)
    row = np.zeros(16)
    row[0], row[3] = material.kind, len(constants)
    row[4 : 4 + len(constants)] = constants
    return row
