"""3x3 matrices as tuples of nine numbers in row order, which the compiler keeps in registers; their closest rotations.

    Q = argmin ||F - Q||,  Q in SO(3)          scaled Newton iteration of Higham (1986), X <- (z X + X^-T / z) / 2

and where F is flat or inverted Q comes from the signed singular values F = U diag(s) V^T with proper rotations U, V, so
that det Q = +1 always.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import dot, jacobi_eigen, scaled

__all__ = [
    "cofactor",
    "combine",
    "compose",
    "inner",
    "outer",
    "polar",
    "product",
    "product_transposed",
    "shifted",
    "singular",
    "transposed",
]


@kernel
def shifted(x, a, s):
    """Return x A + s 1."""
    return (x * a[0] + s, x * a[1], x * a[2], x * a[3], x * a[4] + s, x * a[5], x * a[6], x * a[7], x * a[8] + s)


@kernel
def transposed(a):
    """Return A^T."""
    return (a[0], a[3], a[6], a[1], a[4], a[7], a[2], a[5], a[8])


@kernel
def product_transposed(a, b):
    """Return A B^T."""
    a0, a1, a2, b0, b1, b2 = a[:3], a[3:6], a[6:], b[:3], b[3:6], b[6:]
    upper = (dot(a0, b0), dot(a0, b1), dot(a0, b2), dot(a1, b0), dot(a1, b1), dot(a1, b2))
    return (*upper, dot(a2, b0), dot(a2, b1), dot(a2, b2))


@kernel
def product(a, b):
    """Return A B."""
    return product_transposed(a, transposed(b))


@kernel
def outer(a, b):
    """Return a b^T of two vectors."""
    return scaled(a[0], b) + scaled(a[1], b) + scaled(a[2], b)


@kernel
def cofactor(f):
    """Cofactor matrix of a 3x3 tuple: the gradient of the determinant."""
    a, b, c, d, e, g, h, i, j = f
    return (
        e * j - g * i,
        g * h - d * j,
        d * i - e * h,
        c * i - b * j,
        a * j - c * h,
        b * h - a * i,
        b * g - c * e,
        c * d - a * g,
        a * e - b * d,
    )


@kernel
def inner(a, b):
    """Sum of products of the entries."""
    return (
        a[0] * b[0]
        + a[1] * b[1]
        + a[2] * b[2]
        + a[3] * b[3]
        + a[4] * b[4]
        + a[5] * b[5]
        + a[6] * b[6]
        + a[7] * b[7]
        + a[8] * b[8]
    )


@kernel
def combine(x, a, y, b):
    """Return x a + y b."""
    return (
        x * a[0] + y * b[0],
        x * a[1] + y * b[1],
        x * a[2] + y * b[2],
        x * a[3] + y * b[3],
        x * a[4] + y * b[4],
        x * a[5] + y * b[5],
        x * a[6] + y * b[6],
        x * a[7] + y * b[7],
        x * a[8] + y * b[8],
    )


@kernel
def singular(f):
    """Return (U, s, V) with F = U diag(s) V^T, U and V proper rotations, s[2] negative where F is inverted.

    Jacobi rotations of F^T F, then U from F v and a cross product. Slower than the Newton iteration; it serves the few
    elements that are flat or inverted.
    """
    F = np.array([[f[0], f[1], f[2]], [f[3], f[4], f[5]], [f[6], f[7], f[8]]])
    C = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            C[i, j] = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
    squares, V = np.empty(3), np.empty((3, 3))
    jacobi_eigen(C, squares, V)
    for i in range(2):  # largest first
        for j in range(2 - i):
            if squares[j] < squares[j + 1]:
                squares[j], squares[j + 1] = squares[j + 1], squares[j]
                for k in range(3):
                    V[k, j], V[k, j + 1] = V[k, j + 1], V[k, j]
    for k in range(3):
        V[k, 2] = V[(k + 1) % 3, 0] * V[(k + 2) % 3, 1] - V[(k + 2) % 3, 0] * V[(k + 1) % 3, 1]
    U = np.zeros((3, 3))
    s = np.zeros(3)
    for j in range(2):
        for k in range(3):
            U[k, j] = F[k, 0] * V[0, j] + F[k, 1] * V[1, j] + F[k, 2] * V[2, j]
        if j == 1:
            along = U[0, 0] * U[0, 1] + U[1, 0] * U[1, 1] + U[2, 0] * U[2, 1]
            for k in range(3):
                U[k, 1] -= along * U[k, 0]
        s[j] = np.sqrt(U[0, j] ** 2 + U[1, j] ** 2 + U[2, j] ** 2)
        if s[j] > 1e-14 * max(s[0], 1e-300):
            for k in range(3):
                U[k, j] /= s[j]
        else:  # any direction perpendicular to the others will do
            axis = 0
            for k in range(1, 3):
                if j == 1 and abs(U[k, 0]) < abs(U[axis, 0]):
                    axis = k
            along = U[axis, 0] if j == 1 else 0.0
            for k in range(3):
                U[k, j] = (1.0 if k == axis else 0.0) - (along * U[k, 0] if j == 1 else 0.0)
            norm = np.sqrt(U[0, j] ** 2 + U[1, j] ** 2 + U[2, j] ** 2)
            for k in range(3):
                U[k, j] /= norm
    for k in range(3):
        U[k, 2] = U[(k + 1) % 3, 0] * U[(k + 2) % 3, 1] - U[(k + 2) % 3, 0] * U[(k + 1) % 3, 1]
    for k in range(3):
        s[2] += U[k, 2] * (F[k, 0] * V[0, 2] + F[k, 1] * V[1, 2] + F[k, 2] * V[2, 2])
    return U, s, V


@kernel
def compose(U, s0, s1, s2, V):
    """Return U diag(s) V^T as a tuple."""
    return (
        U[0, 0] * s0 * V[0, 0] + U[0, 1] * s1 * V[0, 1] + U[0, 2] * s2 * V[0, 2],
        U[0, 0] * s0 * V[1, 0] + U[0, 1] * s1 * V[1, 1] + U[0, 2] * s2 * V[1, 2],
        U[0, 0] * s0 * V[2, 0] + U[0, 1] * s1 * V[2, 1] + U[0, 2] * s2 * V[2, 2],
        U[1, 0] * s0 * V[0, 0] + U[1, 1] * s1 * V[0, 1] + U[1, 2] * s2 * V[0, 2],
        U[1, 0] * s0 * V[1, 0] + U[1, 1] * s1 * V[1, 1] + U[1, 2] * s2 * V[1, 2],
        U[1, 0] * s0 * V[2, 0] + U[1, 1] * s1 * V[2, 1] + U[1, 2] * s2 * V[2, 2],
        U[2, 0] * s0 * V[0, 0] + U[2, 1] * s1 * V[0, 1] + U[2, 2] * s2 * V[0, 2],
        U[2, 0] * s0 * V[1, 0] + U[2, 1] * s1 * V[1, 1] + U[2, 2] * s2 * V[1, 2],
        U[2, 0] * s0 * V[2, 0] + U[2, 1] * s1 * V[2, 1] + U[2, 2] * s2 * V[2, 2],
    )


@kernel
def polar(f):
    """Return the proper rotation closest to F."""
    size = inner(f, f)
    c = cofactor(f)
    det = f[0] * c[0] + f[1] * c[1] + f[2] * c[2]
    if not det > 1e-9 * size * np.sqrt(size):
        U, _, V = singular(f)
        return compose(U, 1.0, 1.0, 1.0, V)
    x = f
    for _ in range(20):
        zeta = np.sqrt(np.sqrt(inner(c, c) / size) / det)
        new = combine(0.5 * zeta, x, 0.5 / (zeta * det), c)
        step = combine(1.0, new, -1.0, x)
        x = new
        if inner(step, step) < 1e-14:  # the next error is of the order of the square of this step
            break
        size = inner(x, x)
        c = cofactor(x)
        det = x[0] * c[0] + x[1] * c[1] + x[2] * c[2]
    return x
