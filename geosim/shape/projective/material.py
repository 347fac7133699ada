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
from geosim.material.curves import nominal_stress
from geosim.material.laws import LAWS
from geosim.material.materials import Hyperelastic
from geosim.material.tensors import row

__all__ = ["STRAIN_SPACING", "blend_table", "uniaxial_stress"]

STRAIN_SPACING = 0.02  # strain between two entries of a table
MAX_TABLE_STRAIN = 9.0  # largest strain tabulated, a stretch of ten
MIN_SECANT_RATIO = 1e-3  # secant over that at rest which no material falls below: the local step needs a positive pull
MAX_SECANT_RATIO = 1e3  # secant of a chain that is locked, over k: any number above 1, since R ends there


def uniaxial_stress(material: Hyperelastic, stretch: Floats) -> Floats:
    """Return the nominal stress [Pa] of an incompressible bar at uniaxial stretches; nan where it locks.

    Raises
    ------
    InputError
        The material is not hyperelastic.
    """
    if not isinstance(material, Hyperelastic):
        raise InputError(
            f"the projective solver has no blending law for {type(material).__name__}; use one of {', '.join(LAWS)}"
        )
    return nominal_stress(row(material, 1.0, isochoric=False), "uniaxial", np.asarray(stretch, dtype=float))


def blend_table(material: Hyperelastic, ratio: float) -> tuple[float, Floats]:
    """Return the stiffness k [Pa] and the table of R over strain.

    Parameters
    ----------
    material
        Any hyperelastic material; its bulk modulus is replaced by that of the blend.
    ratio
        R at rest, 0 < ratio <= 1.

    Returns
    -------
    k, table
        Stiffness [Pa] and (entries,): R at the strain i * STRAIN_SPACING.
    """
    stretch = np.concatenate([1.0 + np.geomspace(1e-5, 1.0, 400), np.linspace(2.0, 2.0 + MAX_TABLE_STRAIN, 800)[1:]])
    blend = stretch - 1.0 - stretch**-2 + stretch**-1.5
    strain = np.sqrt((stretch - 1.0) ** 2 + 2.0 * (stretch**-0.5 - 1.0) ** 2)
    at = np.arange(0.0, MAX_TABLE_STRAIN, STRAIN_SPACING)
    rest = 2.0 * material.shear_modulus
    k = rest / ratio
    secant = np.nan_to_num(uniaxial_stress(material, stretch) / blend, nan=MAX_SECANT_RATIO * k)
    R = np.clip(np.interp(at, strain, secant), MIN_SECANT_RATIO * rest, k) / k
    R[0] = ratio
    return float(k), R
