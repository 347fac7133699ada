"""Krylov methods: flexible GMRES and conjugate gradients, over what an approximate inverse proposes, and conjugate residuals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.kernels import kernel

TRIAL_ITERATIONS = 3  # before the pace says anything
PACE_EXPONENT = 0.7  # power of the pace that is asked for: GMRES speeds up towards its end

# Long dot products are compiled here: a threaded BLAS spends more on waking its threads than on the sums.


@kernel(fastmath=True)
def combine(rows, weights, out):
    """Add the weighted sum of the first rows to out."""
    for i in range(len(weights)):
        for j in range(len(out)):
            out[j] += weights[i] * rows[i, j]


@kernel(fastmath=True)
def dots(rows, vector):
    """Dot products of all rows with a vector."""
    out = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(len(vector)):
            out[i] += rows[i, j] * vector[j]
    return out


@kernel(fastmath=True)
def _orthogonalise(basis, count, w, found):
    """Make w orthogonal to the first rows of the basis (Gram-Schmidt, twice), add the dot products, return its norm."""
    for _ in range(2):
        for i in range(count):
            total = 0.0
            for j in range(len(w)):
                total += basis[i, j] * w[j]
            found[i] += total
            for j in range(len(w)):
                w[j] -= total * basis[i, j]
    total = 0.0
    for j in range(len(w)):
        total += w[j] * w[j]
    return np.sqrt(total)


def _extend(basis: Floats, hessenberg: Floats, k: int, image: Floats) -> float:
    """Take the k-th image, made orthogonal in place, into the next row of a basis; return its norm, as GMRES and Arnoldi do."""
    norm = float(_orthogonalise(basis, k + 1, image, hessenberg[: k + 1, k]))
    hessenberg[k + 1, k] = norm
    if norm > MIN_DIVISOR:
        basis[k + 1] = image / norm
    return norm


def flexible_gmres(
    product: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    right: Floats,
    tolerance: float,
    limit: int,
    *,
    impatient: bool = False,
) -> tuple[Floats, int, float]:
    """Solve A x = right from zero [Saad 1993]; return x, the iterations it took and its relative residual.

    Parameters
    ----------
    product, precondition
        v -> A v, and v -> an approximate solution of A x = v, which may differ from call to call; they get vectors of the
        shape of `right` and return new ones.
    right
        Of any shape.
    tolerance
        Relative residual at which to stop.
    limit
        Iterations at most.
    impatient
        Whether to give up as soon as the pace says that the limit would be reached before the tolerance.
    """
    start = float(np.sqrt(dots(right.reshape(1, -1), right.ravel())[0]))
    if start == 0.0:
        return np.zeros_like(right), 0, 0.0
    basis, images = np.empty((limit + 1, right.size)), np.empty((limit, right.size))
    basis[0] = right.ravel() / start
    hessenberg, left, weights = np.zeros((limit + 1, limit), order="F"), 1.0, np.empty(0)
    for k in range(limit):
        image = precondition(basis[k].reshape(right.shape))
        images[k] = image.ravel()
        norm = _extend(basis, hessenberg, k, product(image).ravel())
        if not np.isfinite(norm):
            return np.zeros_like(right), k + 1, np.inf
        small, goal = hessenberg[: k + 2, : k + 1], start * np.eye(1, k + 2)[0]
        weights = np.linalg.lstsq(small, goal, rcond=None)[0]
        left = float(np.linalg.norm(goal - small @ weights)) / start
        slow = impatient and k + 1 >= TRIAL_ITERATIONS and left > tolerance ** (PACE_EXPONENT * (k + 1) / limit)
        if left <= tolerance or norm <= MIN_DIVISOR or slow:
            break
    solution = np.zeros(right.size)
    combine(images, weights, solution)
    return solution.reshape(right.shape), len(weights), left


def ritz_values(
    product: Callable[[Floats], Floats], start: Floats, steps: int, *, least: float = -np.inf, hidden: float = 0.0
) -> NDArray[np.complex128]:
    """Return what Arnoldi's method finds of the eigenvalues of a matrix in this many steps, complex; the outermost come first.

    Saad, Numerical methods for large eigenvalue problems (2011), section 6.2. Infinite where a product is not finite. Once
    a real part is below `least` nothing more is looked for; nor where all lie around 1, so close that an eigenvalue 1 away from
    there, which each step magnifies beside them, would have come out unless its share of the start is below `hidden`.
    """
    basis, hessenberg = np.empty((steps + 1, start.size)), np.zeros((steps + 1, steps), order="F")
    basis[0], found = start / np.linalg.norm(start), np.zeros(0, dtype=complex)
    for k in range(steps):
        norm = _extend(basis, hessenberg, k, product(basis[k]))
        if not np.isfinite(norm):
            return np.array([-np.inf + 0.0j])
        found = np.linalg.eigvals(hessenberg[: k + 1, : k + 1]).astype(complex)
        around = max(norm, float(np.abs(found - 1.0).max())) ** (k + 1)
        if norm <= MIN_DIVISOR or found.real.min() < least or around < hidden:
            break
    return found


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    right: Floats,
    tolerance: float,
    limit: int,
    *,
    impatient: bool = False,
    guess: Floats | None = None,
) -> tuple[Floats, bool]:
    """Solve A x = right from a guess or zero for a matrix that should be positive definite; return x and whether it got there.

    Flexible [Notay 2000, Flexible conjugate gradients]: single precision makes a preconditioner that is not quite symmetric.
    `tolerance` is relative, in the norm of the preconditioner. Where A curves downwards along a direction x is what was found
    before. Arguments as in `flexible_gmres`; vectors are flat.
    """
    x, residual, image = np.zeros_like(right), right.copy(), precondition(right)
    start = size = float(right @ image)
    if start <= 0.0:
        return (x if guess is None or start == 0.0 else guess), start == 0.0
    if guess is not None:
        x, residual = guess.copy(), right - product(guess)
        image = precondition(residual)
        size = float(residual @ image)
        if size <= tolerance**2 * start:
            return x, size >= 0.0
    way = image
    for k in range(1, limit + 1):
        change = product(way)
        curve = float(way @ change)
        if curve <= 0.0:
            return x, False
        x += (size / curve) * way
        before, residual = residual, residual - (size / curve) * change
        image = precondition(residual)
        old, size = size, float(residual @ image)
        if size <= tolerance**2 * start:
            return x, size >= 0.0
        if impatient and k >= TRIAL_ITERATIONS and size > start * tolerance ** (2.0 * PACE_EXPONENT * k / limit):
            return x, False
        way = image + float(image @ (residual - before)) / old * way
    return x, False


def conjugate_residuals(
    product: Callable[[Floats], Floats],
    right: Floats,
    precondition: Callable[[Floats], Floats],
    limit: int,
    tolerance: float,
) -> tuple[Floats, int]:
    """Solve a symmetric positive semi-definite system from zero; return x and the iterations it took.

    Algorithm 6.20 of Saad, Iterative Methods for Sparse Linear Systems, `precondition` is symmetric, too.
    `tolerance` is relative, in the norm of the preconditioner.
    """
    x = np.zeros_like(right)
    r = precondition(right)
    p, Ar = r.copy(), product(r)
    Ap, rAr = Ar.copy(), float(r @ Ar)
    first = float(right @ r)
    residual = right.copy()
    for k in range(limit):
        MAp = precondition(Ap)
        bottom = float(Ap @ MAp)
        if bottom <= 0.0 or rAr <= 0.0:
            return x, k
        a = rAr / bottom
        x += a * p
        residual -= a * Ap
        r -= a * MAp
        if float(residual @ r) <= tolerance**2 * first:
            return x, k + 1
        Ar = product(r)
        rAr, old = float(r @ Ar), rAr
        b = rAr / old
        p, Ap = r + b * p, Ar + b * Ap
    return x, limit
