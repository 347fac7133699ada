"""3x3 matrices as tuples of nine numbers in row order, which the compiler keeps in registers; their closest rotations.

    Q = argmin ||F - Q||,  Q in SO(3)          scaled Newton iteration of Higham (1986), X <- (z X + X^-T / z) / 2

and where F is flat or inverted Q comes from the signed singular values F = U diag(s) V^T with proper rotations U, V, so
that det Q = +1 always.
"""

from __future__ import annotations

import numpy as np

from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, jacobi_eigen, scaled


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
def determinant(f, c):
    """Determinant of a matrix with cofactors c."""
    return f[0] * c[0] + f[1] * c[1] + f[2] * c[2]


@kernel
def times(f, v):
    """Matrix times vector."""
    return (dot(f[0:3], v), dot(f[3:6], v), dot(f[6:9], v))


@kernel
def _across(u):
    """A unit vector perpendicular to a unit vector: the axis that it is farthest from, less its part along u."""
    if abs(u[0]) <= min(abs(u[1]), abs(u[2])):
        axis = (1.0, 0.0, 0.0)
    elif abs(u[1]) <= abs(u[2]):
        axis = (0.0, 1.0, 0.0)
    else:
        axis = (0.0, 0.0, 1.0)
    rest = difference(axis, scaled(dot(axis, u), u))
    return scaled(1.0 / np.sqrt(dot(rest, rest)), rest)


@kernel
def singular(f):
    """Return (U, s, V) with F = U diag(s) V^T: the columns of proper rotations, s[2] negative where F is inverted.

    Jacobi rotations of F^T F, then U from F v and a cross product. Slower than the Newton iteration; it serves the few
    elements that are flat or inverted.
    """
    C, squares, V = np.empty((3, 3)), np.empty(3), np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            C[i, j] = f[i] * f[j] + f[3 + i] * f[3 + j] + f[6 + i] * f[6 + j]
    jacobi_eigen(C, squares, V)
    most, least = 0, 0  # of equal ones the first and the last
    for i in range(1, 3):
        most = i if squares[i] > squares[most] else most
        least = i if squares[i] <= squares[least] else least
    between = 3 - most - least
    v0, v1 = (V[0, most], V[1, most], V[2, most]), (V[0, between], V[1, between], V[2, between])
    v2 = cross(v0, v1)
    w0, w1 = times(f, v0), times(f, v1)
    s0 = np.sqrt(dot(w0, w0))
    u0 = scaled(1.0 / s0, w0) if s0 > 0.0 else (1.0, 0.0, 0.0)
    w1 = difference(w1, scaled(dot(w1, u0), u0))
    s1 = np.sqrt(dot(w1, w1))
    flat_stretch_rel = 1e-14  # of the first stretch: a second one below is rounding, and its direction noise
    u1 = scaled(1.0 / s1, w1) if s1 > flat_stretch_rel * s0 else _across(u0)  # any direction across will do
    u2 = cross(u0, u1)
    return (u0, u1, u2), (s0, s1, dot(u2, times(f, v2))), (v0, v1, v2)


@kernel
def compose(U, s0, s1, s2, V):
    """Return U diag(s) V^T as a tuple."""
    return combine(1.0, combine(s0, outer(U[0], V[0]), s1, outer(U[1], V[1])), s2, outer(U[2], V[2]))


@kernel
def polar(f):
    """Return the proper rotation closest to F."""
    size = inner(f, f)
    c = cofactor(f)
    det = determinant(f, c)
    # of ||F||^3: the Newton iteration for Q loses its accuracy in cofactors of smaller determinants
    nearly_flat_determinant = 1e-9
    if not det > nearly_flat_determinant * size * np.sqrt(size):
        U, _, V = singular(f)
        return compose(U, 1.0, 1.0, 1.0, V)
    x = f
    # scaled Newton takes 6 to 9; the next error is of the order of a step's square
    max_newton_steps, last_newton_step = 20, 1e-14
    for _ in range(max_newton_steps):
        zeta = np.sqrt(np.sqrt(inner(c, c) / size) / det)
        new = combine(0.5 * zeta, x, 0.5 / (zeta * det), c)
        step = combine(1.0, new, -1.0, x)
        x = new
        if inner(step, step) < last_newton_step:
            break
        size = inner(x, x)
        c = cofactor(x)
        det = determinant(x, c)
    return x
