"""Local step of the projective solver: what every element is projected to, and how it pulls.

Matrices are tuples of nine numbers (`linear.polar`, which also finds the closest rotation Q of F).
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import plus, row, scaled
from geosim.linear.polar import cofactor, combine, compose, determinant, inner, outer, polar, singular, times
from geosim.material.laws import OF_STRETCHES, invariant_law, stretch_law
from geosim.material.tensors import cofactor as cofactor_array
from geosim.material.tensors import stress

__all__ = [
    "cell_targets",
    "chamber_compliance",
    "determinants",
    "gather",
    "gradient",
    "material_targets",
    "paper_targets",
    "patch_growth",
    "stresses",
    "volume_law",
    "write_forces",
]

FLATTENED = 0.2  # volume ratio of an element below which its laws are continued
FLAT_BLEND_VOLUME = 1e-6  # volume ratio: blends below have no shape that could be scaled; their target is the rotation
# Principal stretch below which an element counts as flat: negative powers of it would swamp all others.
MIN_PRINCIPAL_STRETCH = 0.05


@kernel
def gradient(x, tets, gradients, e):
    """Deformation gradient of element e: sum of x_i (grad N_i)^T."""
    f = outer(row(x, tets[e, 0]), row(gradients[e], 0))
    for i in range(1, 4):
        f = combine(1.0, f, 1.0, outer(row(x, tets[e, i]), row(gradients[e], i)))
    return f


@kernel
def write_forces(forces, e, gradients, weight, s):
    """Corner forces weight * S grad N_i of a stress S."""
    for i in range(4):
        forces[e, i, 0], forces[e, i, 1], forces[e, i, 2] = scaled(weight, times(s, row(gradients[e], i)))


@kernel
def _look_up(table, spacing, strain):
    """Return R at a strain, piecewise linear in the table (k,), beyond which it is constant."""
    at = min(strain / spacing, len(table) - 1.0)
    i = min(int(at), len(table) - 2)
    return table[i] + (at - i) * (table[i + 1] - table[i])


@kernel
def patch_growth(volumes, jacobians, starts, slots, growth):
    """Volume change of the patch of body elements around every vertex [m^3], a quarter of each belonging to it.

    A projection of every element on its own would lock: linear tets have more elements than free displacements to
    keep their volumes with.
    """
    for v in range(len(growth)):
        total = 0.0
        for k in range(starts[v], starts[v + 1]):
            e = slots[k] // 4
            if e < len(volumes):
                total += 0.25 * volumes[e] * (jacobians[e] - 1.0)
        growth[v] = total


@kernel
def volume_law(J):
    """Return t = J^(-1/3) and U = (J - 1 / J)^2 / 8 of a volume ratio, each with its first two derivatives.

    U has the curvature 1 at rest and 3 / (4 J^4) where an element is squeezed. Below FLATTENED t goes on as a line and U as a
    parabola, so that elements that are flat or inverted on the way have a finite energy and are pushed back.
    """
    at = max(J, FLATTENED)
    t, over, d = at ** (-1.0 / 3.0), 1.0 / at, J - at
    t1, t2 = -t * over / 3.0, 4.0 / 9.0 * t * over * over
    q, r = at**6, over**6
    u = (q + r - 2.0) / 72.0
    u1, u2 = (q - r) * over / 12.0, (5.0 * q + 7.0 * r) * over * over / 12.0
    return t + d * t1, t1, (t2 if d == 0.0 else 0.0), u + d * (u1 + 0.5 * d * u2), u1 + d * u2, u2


@kernel
def _stress(f, c, J, m, bulk):
    """Return the energy density W(t^2 I1, t^4 I2) (1 + U) + bulk U, its derivative by J, and that by F at fixed J.

    The invariants are the isochoric ones, so that the pressure of a patch is not at odds with the stretch of one of its
    elements, and U resists the volume change of the single element as stiffly as its stretch resists
    (see `volume_law`).
    """
    t, t1, _, u, u1, _ = volume_law(J)
    a = f[0] * f[0] + f[3] * f[3] + f[6] * f[6]
    b = f[1] * f[1] + f[4] * f[4] + f[7] * f[7]
    g = f[2] * f[2] + f[5] * f[5] + f[8] * f[8]
    h = f[0] * f[1] + f[3] * f[4] + f[6] * f[7]
    k = f[0] * f[2] + f[3] * f[5] + f[6] * f[8]
    q = f[1] * f[2] + f[4] * f[5] + f[7] * f[8]
    right = (a, h, k, h, b, q, k, q, g)  # F^T F
    i1, i2 = a + b + g, inner(c, c)  # I2 is the sum of squares of the cofactors
    energy, w1, w2, _ = invariant_law(m, t * t * i1, t**4 * i2)
    fc = times(right, f[0:3]) + times(right, f[3:6]) + times(right, f[6:9])
    follow = 1.0 + u
    p = (2.0 * t * w1 * i1 + 4.0 * t**3 * w2 * i2) * t1 * follow + (energy + bulk) * u1
    w1, w2 = 2.0 * t * t * w1 * follow, 2.0 * t**4 * w2 * follow
    return energy * follow + bulk * u, p, combine(w1 + w2 * i1, f, -w2, fc)


@kernel
def _stress_of_stretches(f, J, m, bulk):
    """The same for an energy of the isochoric principal stretches, continued linearly below MIN_PRINCIPAL_STRETCH."""
    t, t1, _, u, u1, _ = volume_law(J)
    follow = 1.0 + u
    U, s, V = singular(f)
    energy, p = 0.0, 0.0
    d = np.empty(3)
    for i in range(3):
        stretch = max(t * s[i], MIN_PRINCIPAL_STRETCH)
        psi, slope, _ = stretch_law(m, stretch)
        d[i] = slope / stretch
        energy += psi + d[i] * (t * s[i] - stretch)
        p += d[i] * s[i] * t1 * follow
        d[i] *= t * follow
    p += (energy + bulk) * u1
    return energy * follow + bulk * u, p, compose(U, d[0], d[1], d[2], V)


@kernel
def determinants(x, tets, gradients, jacobians):
    """Volume ratios of all elements."""
    for e in range(len(tets)):
        f = gradient(x, tets, gradients, e)
        jacobians[e] = determinant(f, cofactor(f))


@kernel
def material_targets(x, tets, gradients, volumes, which, rows, bulk, jacobians, pressures, forces, energies):
    """Corner forces of the targets whose pull is the stress of the material: k (F - T) = dW/dF + p cof F.

    p is the mean of the patch pressures of the corners plus that of the element itself (see `_stress`).
    `rows` are as in `geosim.material.tensors.row` in the full form.
    """
    for e in range(len(tets)):
        f = gradient(x, tets, gradients, e)
        c = cofactor(f)
        m, J = rows[which[e]], jacobians[e]
        density, own, s = (
            _stress_of_stretches(f, J, m, bulk[e]) if m[0] >= OF_STRETCHES else _stress(f, c, J, m, bulk[e])
        )
        p = 0.25 * (pressures[tets[e, 0]] + pressures[tets[e, 1]] + pressures[tets[e, 2]] + pressures[tets[e, 3]])
        energies[e] = volumes[e] * density
        write_forces(forces, e, gradients, volumes[e], combine(1.0, s, p + own, c))


@kernel
def paper_targets(x, tets, gradients, weights, which, tables, spacing, forces, energies, jacobians):
    """The blend of Eqs. (6)-(7) of [Fang2022], with the cube root that a length needs.

    T = Q B / det(B)^(1/3),  B = R I + (1 - R) Q^T F. The "energy" is w / 2 ||F - T||^2, which is no merit.
    """
    for e in range(len(tets)):
        f = gradient(x, tets, gradients, e)
        jacobians[e] = determinant(f, cofactor(f))
        q = polar(f)
        d = combine(1.0, f, -1.0, q)
        ratio = _look_up(tables[which[e]], spacing, np.sqrt(inner(d, d)))
        blend = combine(ratio, q, 1.0 - ratio, f)
        det = determinant(blend, cofactor(blend))
        blend = combine(det ** (-1.0 / 3.0), blend, 0.0, blend) if det > FLAT_BLEND_VOLUME else q
        s = combine(1.0, f, -1.0, blend)
        energies[e] = 0.5 * weights[e] * inner(s, s)
        write_forces(forces, e, gradients, weights[e], s)


@kernel
def chamber_compliance(x, tets, gradients, volumes, weights, ids):
    """Compliance of one chamber, sum V ||cof F||^2 / w."""
    compliance = 0.0
    for e in ids:
        c = cofactor(gradient(x, tets, gradients, e))
        compliance += volumes[e] * inner(c, c) / weights[e]
    return compliance


@kernel
def cell_targets(x, tets, gradients, volumes, weights, ids, ratio, forces, energies):
    """Targets of [Fang2022], III-A1: every element of a chamber grows alike, T = ratio^(1/3) Q."""
    for e in ids:
        f = gradient(x, tets, gradients, e)
        d = combine(1.0, f, -(ratio ** (1.0 / 3.0)), polar(f))
        w = weights[e] * volumes[e]
        energies[e] = 0.5 * w * inner(d, d)
        write_forces(forces, e, gradients, w, d)


@kernel
def gather(starts, slots, forces, out):
    """Add corner forces (m * 4, 3) to their vertices; slots[starts[v]:starts[v + 1]] are the corners of vertex v."""
    for v in range(len(starts) - 1):
        total = (0.0, 0.0, 0.0)
        for k in range(starts[v], starts[v + 1]):
            total = plus(total, row(forces, slots[k]))
        out[v, 0], out[v, 1], out[v, 2] = total


@kernel
def stresses(F, which, rows, P, density):
    """Write dW/dF and W of every strain; return whether none is inside out."""
    cof, work = np.empty((3, 3)), np.empty((4, 3, 3))
    for k in range(len(F)):
        J = cofactor_array(F[k], cof)
        if J <= 0.0:
            return False
        density[k] = stress(rows[which[k]], F[k], J, cof, P[k], work)
    return True
