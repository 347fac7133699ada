"""Hyperelastic energies W(F) with their first and second derivatives, compiled.

W depends on the invariants I1 = tr C and I2 = (tr(C)^2 - tr(C^2)) / 2, C = F^T F (Mooney-Rivlin, neo-Hookean, Yeoh,
Gent) or on the principal stretches (Ogden), in one of two forms that agree wherever J = 1:

    isochoric    W(J^(-2/3) I1, J^(-4/3) I2): distortional alone, needed for a finite bulk modulus;
    full         W(I1, I2) - s (J - 1), with s such that the rest shape is free of stress.

With w = dW/dI, P = dW/dF = w1 dI1/dF + w2 dI2/dF and A = dP/dF = w1 d2I1 + w2 d2I2 + w11 dI1 (x) dI1, both exact.
F and P are 3x3, A is 9x9 over (iJ, kL) in row-major order. Every function needs J > 0.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import jacobi_eigen
from geosim.material.materials import Hyperelastic

__all__ = ["TABLE_WIDTH", "cofactor", "energy", "stress", "table", "tangent"]

TABLE_WIDTH = 17  # kind, 1/kappa, 1/mu, number of constants, s of the full form (-1: isochoric), constants ...


def table(materials: list[Hyperelastic], stress_unit: float, *, isochoric: bool = True) -> np.ndarray:
    """Return the rows that the kernels read, moduli divided by `stress_unit` [Pa], shape (materials, TABLE_WIDTH).

    A material with a finite bulk modulus always takes the isochoric form.
    """
    rows = np.zeros((len(materials), TABLE_WIDTH))
    for row, material in zip(rows, materials):
        constants = material.kernel_constants(stress_unit)
        row[0] = material.kind
        row[1] = stress_unit / material.bulk_modulus  # type: ignore[attr-defined]
        row[2] = stress_unit / material.shear_modulus
        row[3] = len(constants)
        finite = np.isfinite(material.bulk_modulus)  # type: ignore[attr-defined]
        row[4] = -1.0 if isochoric or finite else material.rest_slope / stress_unit
        row[5 : 5 + len(constants)] = constants
    return rows


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


@kernel(inline="always")
def _second_of_j(F, i, j, k, el):
    """Component of d2J/dF_ij dF_kl = eps_ikm eps_jln F_mn for i != k and j != l."""
    even = ((k - i) % 3 == 1) == ((el - j) % 3 == 1)
    value = F[3 - i - k, 3 - j - el]
    return value if even else -value


@kernel
def _invariant_energy(m, i1, i2):
    """Return W, w1, w2, w11 of a material row (w12 = w22 = 0 for the models here)."""
    kind = int(m[0])
    x = i1 - 3.0
    if kind == 0:  # Mooney-Rivlin and neo-Hookean
        return m[5] * x + m[6] * (i2 - 3.0), m[5], m[6], 0.0
    if kind == 1:  # Yeoh
        return (
            m[5] * x + m[6] * x * x + m[7] * x * x * x,
            m[5] + 2.0 * m[6] * x + 3.0 * m[7] * x * x,
            0.0,
            2.0 * m[6] + 6.0 * m[7] * x,
        )
    # Gent: past the locking stretch the energy is infinite, and the line search turns back
    rest = 1.0 - x / m[6]
    if rest <= 0.0:
        return np.inf, np.inf, 0.0, np.inf
    return -0.5 * m[5] * m[6] * np.log(rest), 0.5 * m[5] / rest, 0.0, 0.5 * m[5] / (m[6] * rest * rest)


@kernel
def _ogden(m, F, J, cof, P, A, level):
    """Ogden: energy, and with level >= 1 the stress, with level 2 the tangent (spectral form)."""
    C = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            for k in range(3):
                C[i, j] += F[k, i] * F[k, j]
    squares, N = np.empty(3), np.empty((3, 3))
    jacobi_eigen(C, squares, N)
    stretch = np.sqrt(squares)
    isochoric = m[4] < 0.0
    scale = J ** (-1.0 / 3.0) if isochoric else 1.0
    shift = 0.0 if isochoric else m[4]
    W = -shift * (J - 1.0)
    b = np.zeros(3)  # lambda_i dW/dlambda_i before the deviator
    d = np.zeros(3)  # its derivative by ln(isochoric stretch)
    for t in range(int(m[3]) // 2):
        mu, alpha = m[5 + 2 * t], m[6 + 2 * t]
        for i in range(3):
            power = (scale * stretch[i]) ** alpha
            W += mu / alpha * (power - 1.0)
            b[i] += mu * power
            d[i] += mu * alpha * power
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
    if level == 1:
        return W
    total = third * third * (d[0] + d[1] + d[2])
    A[:, :] = 0.0
    for i in range(3):
        for j in range(3):
            # dP_i/dlambda_j with P_i = tau_i / lambda_i
            slope = -third * (d[i] + d[j]) + total
            if i == j:
                slope += d[i]
            value = slope / (stretch[i] * stretch[j])
            if i == j:
                value -= tau[i] / squares[i]
            for r in range(3):
                for c in range(3):
                    for s in range(3):
                        for e in range(3):
                            A[3 * r + c, 3 * s + e] += value * n[r, i] * N[c, i] * n[s, j] * N[e, j]
            if i < j:
                pi, pj = tau[i] / stretch[i], tau[j] / stretch[j]
                sums = (pi + pj) / (stretch[i] + stretch[j])
                gap = stretch[i] - stretch[j]
                if abs(gap) > 1e-6 * stretch[i]:
                    diff = (pi - pj) / gap
                else:  # equal stretches: the limit is dP_i/dlambda_i - dP_i/dlambda_j
                    diff = (
                        (d[i] * (1.0 - 2.0 * third) + total) / squares[i]
                        - tau[i] / squares[i]
                        - (total - third * (d[i] + d[j])) / (stretch[i] * stretch[j])
                    )
                plus, minus = 0.5 * (diff + sums), 0.5 * (diff - sums)
                for r in range(3):
                    for c in range(3):
                        ij, ji = n[r, i] * N[c, j], n[r, j] * N[c, i]
                        for s in range(3):
                            for e in range(3):
                                kl, lk = n[s, i] * N[e, j], n[s, j] * N[e, i]
                                A[3 * r + c, 3 * s + e] += plus * (ij * kl + ji * lk) + minus * (ij * lk + ji * kl)
    if shift != 0.0:
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    for el in range(3):
                        if i != k and j != el:
                            A[3 * i + j, 3 * k + el] -= shift * _second_of_j(F, i, j, k, el)
    return W


@kernel
def _derivatives(m, F, J, cof, P, A, level):
    """Return W; with level >= 1 write P (3, 3), with level 2 also A (9, 9)."""
    if int(m[0]) == 3:
        return _ogden(m, F, J, cof, P, A, level)
    C = np.empty((3, 3))
    for i in range(3):
        for j in range(i, 3):
            C[i, j] = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
            C[j, i] = C[i, j]
    I1 = C[0, 0] + C[1, 1] + C[2, 2]
    CC = (
        C[0, 0] * C[0, 0]
        + C[1, 1] * C[1, 1]
        + C[2, 2] * C[2, 2]
        + 2.0 * (C[0, 1] * C[0, 1] + C[0, 2] * C[0, 2] + C[1, 2] * C[1, 2])
    )
    I2 = 0.5 * (I1 * I1 - CC)
    shift = m[4]
    if shift >= 0.0:
        a, b, r = 1.0, 1.0, 0.0  # the full form: nothing is divided by powers of J
    else:
        a, r = J ** (-2.0 / 3.0), 1.0 / J
        b = a * a
        shift = 0.0
    W, w1, w2, w11 = _invariant_energy(m, a * I1, b * I2)
    W -= shift * (J - 1.0)
    if level == 0:
        return W
    FC = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            FC[i, j] = F[i, 0] * C[0, j] + F[i, 1] * C[1, j] + F[i, 2] * C[2, j]
    D2 = np.empty((3, 3))  # dI2/dF of the plain invariant
    first = np.empty(9)
    for i in range(3):
        for j in range(3):
            D2[i, j] = 2.0 * (I1 * F[i, j] - FC[i, j])
            first[3 * i + j] = a * (2.0 * F[i, j] - (2.0 / 3.0) * I1 * r * cof[i, j])
            P[i, j] = w1 * first[3 * i + j] + w2 * b * (D2[i, j] - (4.0 / 3.0) * I2 * r * cof[i, j]) - shift * cof[i, j]
    if level == 1:
        return W
    B = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            B[i, j] = F[i, 0] * F[j, 0] + F[i, 1] * F[j, 1] + F[i, 2] * F[j, 2]
    s1, s2 = w1 * a, w2 * b
    outer = (10.0 / 9.0) * s1 * I1 * r * r + (28.0 / 9.0) * s2 * I2 * r * r
    mixed1, mixed2 = -(4.0 / 3.0) * s1 * r, -(4.0 / 3.0) * s2 * r
    skew = -((2.0 / 3.0) * s1 * I1 + (4.0 / 3.0) * s2 * I2) * r - shift
    for i in range(3):
        for j in range(3):
            row = 3 * i + j
            for k in range(3):
                for el in range(3):
                    col = 3 * k + el
                    if col < row:
                        continue
                    value = (
                        outer * cof[i, j] * cof[k, el]
                        + mixed1 * (F[i, j] * cof[k, el] + cof[i, j] * F[k, el])
                        + mixed2 * (D2[i, j] * cof[k, el] + cof[i, j] * D2[k, el])
                        + 2.0 * s2 * (2.0 * F[i, j] * F[k, el] - F[i, el] * F[k, j])
                    )
                    if j == el:
                        value -= 2.0 * s2 * B[i, k]
                    if i == k:
                        value -= 2.0 * s2 * C[el, j]
                        if j == el:
                            value += 2.0 * s1 + 2.0 * s2 * I1
                    elif j != el:
                        # d2J/dF2 = eps_ikm eps_jln F_mn
                        value += skew * _second_of_j(F, i, j, k, el)
                    if w11 != 0.0:
                        value += w11 * first[row] * first[col]
                    A[row, col] = value
                    A[col, row] = value
    return W


@kernel
def energy(m, F):
    """W(F) [stress unit] of a material row; inf where J <= 0."""
    cof = np.empty((3, 3))
    J = cofactor(F, cof)
    if J <= 0.0:
        return np.inf
    return _derivatives(m, F, J, cof, cof, np.empty((1, 1)), 0)


@kernel
def stress(m, F, J, cof, P):
    """Write the first Piola-Kirchhoff stress dW/dF into P (3, 3) and return W."""
    return _derivatives(m, F, J, cof, P, np.empty((1, 1)), 1)


@kernel
def tangent(m, F, J, cof, P, A):
    """Write dW/dF into P (3, 3) and d2W/dF2 into A (9, 9), and return W."""
    return _derivatives(m, F, J, cof, P, A, 2)
