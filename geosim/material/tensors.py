"""Energy, stress and tangent of a deformation gradient, compiled, from the laws in `geosim.material.laws`.

Two forms, which agree wherever J = 1:

    isochoric    W(J^(-2/3) I1, J^(-4/3) I2) or W(J^(-1/3) l): distortional alone, needed for a finite bulk modulus;
    full         W(I1, I2) - s (J - 1), with s such that the rest shape is free of stress.

With w = dW/dI, P = dW/dF = w1 dI1/dF + w2 dI2/dF and A = dP/dF = w1 d2I1 + w2 d2I2 + w11 dI1 (x) dI1, both exact.
F and P are 3x3, A is 9x9 over (iJ, kL) in row-major order. Every function needs J > 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import jacobi_eigen
from geosim.material.laws import FIRST, OF_STRETCHES, invariant_law, stretch_law
from geosim.material.materials import Hyperelastic

TABLE_WIDTH = FIRST + 12  # kind, 1/kappa, 1/mu, number of constants, s of the full form (-1: isochoric), constants ...


def row(material: Hyperelastic, stress_unit: float, *, isochoric: bool) -> Floats:
    """Return what the kernels read of a material, moduli divided by `stress_unit` [Pa], shape (TABLE_WIDTH,)."""
    constants = material.constants(stress_unit)
    out = np.zeros(TABLE_WIDTH)
    out[:4] = material.kind, stress_unit / material.bulk_modulus, stress_unit / material.shear_modulus, len(constants)
    out[FIRST : FIRST + len(constants)] = constants
    out[4] = -1.0 if isochoric else _rest_slope(out)
    return out


def table(materials: Sequence[Hyperelastic], stress_unit: float, *, isochoric: bool = True) -> Floats:
    """Return the rows of several materials, shape (materials, TABLE_WIDTH).

    A material with a finite bulk modulus always takes the isochoric form.
    """
    return np.array([row(m, stress_unit, isochoric=isochoric or bool(np.isfinite(m.bulk_modulus))) for m in materials])


@kernel
def _rest_slope(m):
    """Return s, the slope of W by J at rest."""
    if m[0] >= OF_STRETCHES:
        return stretch_law(m, 1.0)[1]
    _, w1, w2, _ = invariant_law(m, 3.0, 3.0)
    return 2.0 * w1 + 4.0 * w2


@kernel(inline="always")
def cofactor(F, C):
    """Write the cofactor matrix dJ/dF into C and return J."""
    C[0, 0] = F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1]
    C[0, 1] = F[1, 2] * F[2, 0] - F[1, 0] * F[2, 2]
    C[0, 2] = F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0]
    C[1, 0] = F[2, 1] * F[0, 2] - F[2, 2] * F[0, 1]
    C[1, 1] = F[2, 2] * F[0, 0] - F[2, 0] * F[0, 2]
    C[1, 2] = F[2, 0] * F[0, 1] - F[2, 1] * F[0, 0]
    C[2, 0] = F[0, 1] * F[1, 2] - F[0, 2] * F[1, 1]
    C[2, 1] = F[0, 2] * F[1, 0] - F[0, 0] * F[1, 2]
    C[2, 2] = F[0, 0] * F[1, 1] - F[0, 1] * F[1, 0]
    return F[0, 0] * C[0, 0] + F[0, 1] * C[0, 1] + F[0, 2] * C[0, 2]


@kernel
def _add_second_of_j(F, scale, A):
    """A += scale d2J/dF2, whose component d2J/dF_ij dF_kl is eps_ikm eps_jln F_mn."""
    for m in range(3):
        i, k = (m + 1) % 3, (m + 2) % 3
        for n in range(3):
            j, el = (n + 1) % 3, (n + 2) % 3
            value = scale * F[m, n]
            A[3 * i + j, 3 * k + el] += value
            A[3 * k + el, 3 * i + j] += value
            A[3 * i + el, 3 * k + j] -= value
            A[3 * k + j, 3 * i + el] -= value


@kernel
def _of_stretches(m, F, J, cof, P, A, level):
    """A law of the principal stretches: energy, with level >= 1 the stress, with level 2 the tangent (spectral form)."""
    C, squares, N = np.empty((3, 3)), np.empty(3), np.empty((3, 3))
    for i in range(3):  # C = F^T F
        for j in range(i, 3):
            C[i, j] = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
            C[j, i] = C[i, j]
    jacobi_eigen(C, squares, N)
    stretch = np.sqrt(squares)
    isochoric = m[4] < 0.0
    scale = J ** (-1.0 / 3.0) if isochoric else 1.0
    shift = 0.0 if isochoric else m[4]
    W = -shift * (J - 1.0)
    b = np.empty(3)  # dW/d ln(stretch_i) before the deviator
    d = np.empty(3)  # its derivative by ln(isochoric stretch)
    for i in range(3):
        psi, b[i], d[i] = stretch_law(m, scale * stretch[i])
        W += psi
    if level == 0:
        return W
    third = 1.0 / 3.0 if isochoric else 0.0
    tau = b - third * (b[0] + b[1] + b[2])  # principal Kirchhoff stresses, without the shift
    n = np.zeros((3, 3))  # principal directions in space
    for i in range(3):
        for r in range(3):
            n[r, i] = (F[r, 0] * N[0, i] + F[r, 1] * N[1, i] + F[r, 2] * N[2, i]) / stretch[i]
    for r in range(3):
        for c in range(3):
            P[r, c] = -shift * cof[r, c]
            for i in range(3):
                P[r, c] += tau[i] / stretch[i] * n[r, i] * N[c, i]
    if level == 2:
        _spectral_tangent(F, stretch, tau, d, third, shift, n, N, A)
    return W


@kernel
def _spectral_tangent(F, stretch, tau, d, third, shift, n, N, A):
    """Write dP/dF of P = sum_i tau_i / l_i n_i (x) N_i - shift cof F."""
    # relative gap of two stretches below which a difference quotient loses more digits than its limit (root eps)
    equal_stretches_rel = 1e-6
    total = third * third * (d[0] + d[1] + d[2])
    dyads = np.empty((3, 3, 9))  # n_i (x) N_j
    for i in range(3):
        for j in range(3):
            for r in range(3):
                for c in range(3):
                    dyads[i, j, 3 * r + c] = n[r, i] * N[c, j]
    A[:, :] = 0.0
    for i in range(3):
        for j in range(3):
            own = 1.0 if i == j else 0.0
            # dP_i/dlambda_j with P_i = tau_i / lambda_i
            value = (own * (d[i] - tau[i]) - third * (d[i] + d[j]) + total) / (stretch[i] * stretch[j])
            for r in range(9):
                for s in range(9):
                    A[r, s] += value * dyads[i, i, r] * dyads[j, j, s]
            if i < j:
                pi, pj = tau[i] / stretch[i], tau[j] / stretch[j]
                sums = (pi + pj) / (stretch[i] + stretch[j])
                gap = stretch[i] - stretch[j]
                if abs(gap) > equal_stretches_rel * stretch[i]:
                    diff = (pi - pj) / gap
                else:  # equal stretches: the limit is dP_i/dlambda_i - dP_i/dlambda_j
                    diff = (d[i] * (1.0 - 2.0 * third) + total - tau[i]) / (stretch[i] * stretch[i]) - value
                plus, minus = 0.5 * (diff + sums), 0.5 * (diff - sums)
                one, two = dyads[i, j], dyads[j, i]
                for r in range(9):
                    for s in range(9):
                        A[r, s] += plus * (one[r] * one[s] + two[r] * two[s]) + minus * (
                            one[r] * two[s] + two[r] * one[s]
                        )
    _add_second_of_j(F, -shift, A)


@kernel(lanes=True)
def _of_invariants(table, which, F, cof, P, A, work, level):
    """Laws of the invariants of materials side by side: energies in work[2, 2, 2], and what `derivatives` writes.

    Of work are C = F^T F, dI2/dF of the plain invariant, nine numbers of each and B = F F^T.
    """
    C, D2, own = work[0], work[1], work[2]
    for i in range(3):
        for j in range(3):
            for lane in range(len(which)):
                C[i, j, lane] = (
                    F[0, i, lane] * F[0, j, lane] + F[1, i, lane] * F[1, j, lane] + F[2, i, lane] * F[2, j, lane]
                )
    for lane in range(len(which)):
        m = table[which[lane]]
        J = F[0, 0, lane] * cof[0, 0, lane] + F[0, 1, lane] * cof[0, 1, lane] + F[0, 2, lane] * cof[0, 2, lane]
        c0, c1, c2 = C[0, 0, lane], C[1, 1, lane], C[2, 2, lane]
        I1 = c0 + c1 + c2
        I2 = c0 * c1 + c1 * c2 + c2 * c0 - C[0, 1, lane] ** 2 - C[0, 2, lane] ** 2 - C[1, 2, lane] ** 2
        shift = m[4]
        if shift >= 0.0:
            a, r = 1.0, 0.0  # the full form: nothing is divided by powers of J
        else:
            a, r, shift = J ** (-2.0 / 3.0), 1.0 / J, 0.0
        W, w1, w2, w11 = invariant_law(m, a * I1, a * a * I2)
        own[0, 0, lane], own[0, 1, lane], own[0, 2, lane] = I1, I2, r
        own[1, 0, lane], own[1, 1, lane], own[1, 2, lane] = w1 * a, w2 * a * a, w11 * a * a
        own[2, 0, lane], own[2, 2, lane] = shift, W - shift * (J - 1.0)
    if level == 0:
        return
    for i in range(3):
        for j in range(3):
            for lane in range(len(which)):
                I1, I2, r = own[0, 0, lane], own[0, 1, lane], own[0, 2, lane]
                FC = F[i, 0, lane] * C[0, j, lane] + F[i, 1, lane] * C[1, j, lane] + F[i, 2, lane] * C[2, j, lane]
                D2[i, j, lane] = 2.0 * (I1 * F[i, j, lane] - FC)
                P[i, j, lane] = (
                    own[1, 0, lane] * (2.0 * F[i, j, lane] - (2.0 / 3.0) * I1 * r * cof[i, j, lane])
                    + own[1, 1, lane] * (D2[i, j, lane] - (4.0 / 3.0) * I2 * r * cof[i, j, lane])
                    - own[2, 0, lane] * cof[i, j, lane]
                )
    if level == 2:
        _invariant_tangent(F, cof, work, A, which)


@kernel(fastmath=True, lanes=True)
def _invariant_tangent(F, cof, work, A, which):
    """Write s1 d2I1 + s2 d2I2 of the isochoric (r = 1/J) or plain (r = 0) invariants + s11 dI1 (x) dI1 - shift d2J.

    dI1 and dI2 are sums of F, cof and the plain dI2/dF, so that all dyads are of these.
    """
    C, D2, own, B = work[0], work[1], work[2], work[3]
    for i in range(3):
        for j in range(3):
            for lane in range(len(which)):
                B[i, j, lane] = (
                    F[i, 0, lane] * F[j, 0, lane] + F[i, 1, lane] * F[j, 1, lane] + F[i, 2, lane] * F[j, 2, lane]
                )
    for lane in range(len(which)):  # what the loops below need takes the place of what it is made of
        I1, I2, r = own[0, 0, lane], own[0, 1, lane], own[0, 2, lane]
        s1, s2, s11, shift = own[1, 0, lane], own[1, 1, lane], own[1, 2, lane], own[2, 0, lane]
        own[0, 0, lane] = ((10.0 / 9.0) * s1 * I1 + (28.0 / 9.0) * s2 * I2 + (4.0 / 9.0) * s11 * I1 * I1) * r * r
        own[0, 1, lane] = -(4.0 / 3.0) * (s1 + s11 * I1) * r
        own[0, 2, lane] = -(4.0 / 3.0) * s2 * r
        own[1, 0, lane] = 4.0 * (s2 + s11)
        own[1, 1, lane] = -2.0 * s2
        own[1, 2, lane] = 2.0 * s1 + 2.0 * s2 * I1
        own[2, 0, lane] = -((2.0 / 3.0) * s1 * I1 + (4.0 / 3.0) * s2 * I2) * r - shift
    for i in range(3):
        for j in range(3):
            for k in range(3):
                for el in range(3):
                    for lane in range(len(which)):
                        mixed1, mixed2 = own[0, 1, lane], own[0, 2, lane]
                        here, there = cof[i, j, lane], cof[k, el, lane]
                        A[3 * i + j, 3 * k + el, lane] = (
                            (own[0, 0, lane] * here + mixed1 * F[i, j, lane] + mixed2 * D2[i, j, lane]) * there
                            + (mixed1 * here + own[1, 0, lane] * F[i, j, lane]) * F[k, el, lane]
                            + mixed2 * here * D2[k, el, lane]
                            + own[1, 1, lane] * F[i, el, lane] * F[k, j, lane]
                        )
    for i in range(3):
        for j in range(3):
            for k in range(3):
                for lane in range(len(which)):
                    A[3 * i + j, 3 * k + j, lane] += own[1, 1, lane] * B[i, k, lane]
                    A[3 * i + j, 3 * i + k, lane] += own[1, 1, lane] * C[k, j, lane]
            for lane in range(len(which)):
                A[3 * i + j, 3 * i + j, lane] += own[1, 2, lane]
    for m in range(3):
        i, k = (m + 1) % 3, (m + 2) % 3
        for n in range(3):
            j, el = (n + 1) % 3, (n + 2) % 3
            for lane in range(len(which)):
                value = own[2, 0, lane] * F[m, n, lane]
                A[3 * i + j, 3 * k + el, lane] += value
                A[3 * k + el, 3 * i + j, lane] += value
                A[3 * i + el, 3 * k + j, lane] -= value
                A[3 * k + j, 3 * i + el, lane] -= value


@kernel
def side_by_side(table, which, F, J, cof, P, A, work, level):
    """What `derivatives` does for elements side by side, of as many materials `which`: a tuple of rows of a table.

    All other arrays have the elements as their last axis: F, cof and P are (3, 3, L), J (L,), A (9, 9, L), `work`
    (4, 3, 3, L). Energies are in work[2, 2, 2] (L,).
    """
    others = 0
    for lane in range(len(which)):
        others += table[which[lane], 0] < OF_STRETCHES
    if others > 0:
        _of_invariants(table, which, F, cof, P, A, work, level)
    for lane in range(len(which)):
        if table[which[lane], 0] >= OF_STRETCHES:
            one = F[:, :, lane], cof[:, :, lane], P[:, :, lane], A[:, :, lane]
            work[2, 2, 2, lane] = _of_stretches(table[which[lane]], one[0], J[lane], one[1], one[2], one[3], level)


@kernel
def derivatives(m, F, J, cof, P, A, work, level):
    """Return W; with level >= 1 write P (3, 3), with level 2 also A (9, 9); `work` (4, 3, 3) is written over."""
    work[3, 2, 2] = J
    side_by_side(
        m.reshape(1, -1),
        (0,),
        F.reshape(3, 3, 1),
        work[3, 2, 2:],
        cof.reshape(3, 3, 1),
        P.reshape(3, 3, 1),
        A.reshape(A.shape[0], A.shape[1], 1),
        work.reshape(4, 3, 3, 1),
        level,
    )
    return work[2, 2, 2]


@kernel
def energy(m, F):
    """W(F) [stress unit] of a material row; inf where J <= 0."""
    cof = np.empty((3, 3))
    J = cofactor(F, cof)
    if J <= 0.0:
        return np.inf
    return derivatives(m, F, J, cof, cof, cof, np.empty((4, 3, 3)), np.int64(0))


@kernel
def stress(m, F, J, cof, P, work):
    """Write the first Piola-Kirchhoff stress dW/dF into P (3, 3) and return W; `work` (4, 3, 3) is written over."""
    return derivatives(m, F, J, cof, P, P, work, np.int64(1))


def stresses(table: Floats, which: Ints, F: Floats) -> Floats:
    """Return the first Piola-Kirchhoff stresses (k, 3, 3) at deformation gradients (k, 3, 3) of rows `which` (k,) of a table."""
    out = np.empty_like(F)
    _stresses(table, which, F, out)
    return out


@kernel
def _stresses(table, which, F, P):
    cof, work = np.empty((3, 3)), np.empty((4, 3, 3))
    for k in range(len(F)):
        stress(table[which[k]], F[k], cofactor(F[k], cof), cof, P[k], work)


@kernel
def tangent(m, F, J, cof, P, A, work):
    """Write dW/dF into P (3, 3) and d2W/dF2 into A (9, 9), and return W; `work` (4, 3, 3) is written over."""
    return derivatives(m, F, J, cof, P, A, work, np.int64(2))
