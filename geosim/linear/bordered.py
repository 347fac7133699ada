"""The bordered linear system of a Newton step, solved to the accuracy that the step needs.

    [  K   -B ] [ dx ]   [ r ]        K symmetric indefinite, B the gradients of the chambers of prescribed volume,
    [ -B^T  0 ] [ dP ] = [-g ]        g the volumes still missing.

A factorisation is the dearest thing in a solve, so each is used as long as it is good: it preconditions a flexible
GMRES on the present matrix (block elimination of the border included). With the factors of the present matrix, in
single precision, two iterations suffice; with those of the matrix before, four to eight near the end of Newton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from geosim.arrays import Floats
from geosim.kernels import kernel
from geosim.linear.factorise import FactorisationError, Factoriser, make_factoriser
from geosim.shape.energy.assembly import Sparsity, symmetric_product

__all__ = ["BorderedSolver"]

Extra = Callable[[Floats, Floats], None]

# Long dot products are compiled here: a threaded BLAS spends more on waking its threads than on the sums.


@kernel(fastmath=True)
def _orthogonalise(basis, count, w, dots):
    """Make w orthogonal to the first rows of the basis (Gram-Schmidt, twice), add the dots, return its norm."""
    for _ in range(2):
        for i in range(count):
            total = 0.0
            for j in range(len(w)):
                total += basis[i, j] * w[j]
            dots[i] += total
            for j in range(len(w)):
                w[j] -= total * basis[i, j]
    total = 0.0
    for j in range(len(w)):
        total += w[j] * w[j]
    return np.sqrt(total)


@kernel(fastmath=True)
def _combine(rows, weights, out):
    """Add the weighted sum of the first rows to out."""
    for i in range(len(weights)):
        for j in range(len(out)):
            out[j] += weights[i] * rows[i, j]


@kernel(fastmath=True)
def _dots(rows, vector):
    """Dot products of all rows with a vector."""
    out = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(len(vector)):
            out[i] += rows[i, j] * vector[j]
    return out


@dataclass
class BorderedSolver:
    """Keeps the factors of the last factorised matrix and what block elimination needs of them.

    Parameters
    ----------
    pattern
        Sparsity of the upper triangle.
    factoriser
        See `geosim.linear.factorise`.
    name
        Which factoriser a new pattern gets.
    max_krylov
        GMRES iterations that are cheaper than a factorisation.
    """

    pattern: Sparsity
    factoriser: Factoriser
    name: str = "auto"
    max_krylov: int = 10
    factorisations: int = 0
    krylov: int = 0
    _borders: Floats | None = field(default=None, repr=False)
    _columns: Floats | None = field(default=None, repr=False)
    _schur: Floats | None = field(default=None, repr=False)

    def use(self, pattern: Sparsity) -> None:
        """Change to another pattern; factors of the old one are dropped."""
        if pattern is not self.pattern:
            self.factoriser.close()
            self.factoriser = make_factoriser(pattern.indptr, pattern.indices, self.name)
            self.pattern = pattern
            self._columns = None

    def solve(
        self,
        data: Floats,
        borders: Floats,
        right: Floats,
        gap: Floats,
        tolerance: float,
        *,
        reuse: bool,
        extra: Extra | None = None,
    ) -> tuple[Floats, Floats]:
        """Return (dx, dP) with a residual below `tolerance` times the right-hand side.

        Parameters
        ----------
        data
            CSR values of K with held rows already those of the identity.
        borders
            Rows of B^T, zero at held unknowns, (k, size).
        right, gap
            r (size,) and g (k,).
        reuse
            Whether factors of an earlier matrix may be tried first.
        extra
            Adds the product of a matrix that is not in K, and need not be symmetric, with a vector to another.

        Raises
        ------
        FactorisationError
            The system is singular to working precision.
        """
        target = np.concatenate([right, -gap])
        if reuse and self._ready(len(gap)):
            found = self._gmres(data, borders, target, tolerance, self.max_krylov, extra)
            if found is not None:
                return found[: -len(gap)] if len(gap) else found, found[len(right) :]
        while True:
            self._columns = None
            self.factoriser.factorise(data)
            self.factorisations += 1
            self._eliminate(borders)
            found = self._gmres(data, borders, target, tolerance, 3 * self.max_krylov, extra)
            if found is not None:
                return found[: -len(gap)] if len(gap) else found, found[len(right) :]
            if not self.factoriser.strengthen():
                raise FactorisationError("the equations are singular to working precision")

    def negative_eigenvalues(self, data: Floats, borders: Floats) -> int:
        """Return the number of negative eigenvalues of the bordered matrix, -1 where the factoriser does not count them.

        Haynsworth: those of K and of its Schur complement -B^T K^-1 B together. Always in double precision: near a
        buckling load single precision miscounts.

        Raises
        ------
        FactorisationError
            The matrix is singular to working precision.
        """
        if self.factoriser.name != "pardiso":
            return -1
        careful = make_factoriser(self.pattern.indptr, self.pattern.indices, self.name)
        try:
            careful.strengthen()
            careful.factorise(data)
            count = careful.negative_pivots
            if len(borders):
                schur = borders @ careful.solve(np.ascontiguousarray(borders.T))
                if not np.isfinite(schur).all():
                    raise FactorisationError("the equations are singular: their solution is not finite")
                count += int((np.linalg.eigvalsh(-0.5 * (schur + schur.T)) < 0).sum())
            return count
        finally:
            careful.close()

    def _ready(self, chambers: int) -> bool:
        return self._columns is not None and len(self._columns) == chambers

    def _eliminate(self, borders: Floats) -> None:
        """Solve K Y = B with the fresh factors, for the Schur complement B^T Y of the border."""
        if len(borders):
            self._columns = np.ascontiguousarray(self.factoriser.solve(np.ascontiguousarray(borders.T)).T)
            self._schur = np.array([_dots(borders, column) for column in self._columns]).T
        else:
            self._columns = np.empty((0, self.pattern.size))
            self._schur = np.empty((0, 0))
        self._borders = borders
        if not np.isfinite(self._columns).all():
            raise FactorisationError("the equations are singular: their solution is not finite")

    def _precondition(self, vector: Floats) -> Floats:
        """Apply the inverse of the factorised bordered matrix by block elimination."""
        size = self.pattern.size
        solution = self.factoriser.solve(vector[:size])
        assert self._columns is not None
        assert self._schur is not None
        assert self._borders is not None
        if len(self._schur) == 0:
            return solution
        try:
            change = np.linalg.solve(self._schur, -vector[size:] - _dots(self._borders, solution))
        except np.linalg.LinAlgError:
            raise FactorisationError("the chamber volumes do not respond to their pressures") from None
        _combine(self._columns, change, solution)
        return np.concatenate([solution, change])

    def _product(self, data: Floats, borders: Floats, vector: Floats, extra: Extra | None) -> Floats:
        size = self.pattern.size
        out = np.zeros(len(vector))
        symmetric_product(self.pattern.indptr, self.pattern.indices, data, vector[:size], out[:size])
        if extra is not None:
            extra(vector, out)
        if len(borders):
            _combine(borders, -vector[size:], out[:size])
            out[size:] = -_dots(borders, vector[:size])
        return out

    def _gmres(
        self, data: Floats, borders: Floats, target: Floats, tolerance: float, limit: int, extra: Extra | None = None
    ) -> Floats | None:
        """Flexible GMRES from zero; None if the limit is reached or the pace says that it would be."""
        start = float(np.sqrt(_dots(target[None], target)[0]))
        if start == 0.0:
            return np.zeros_like(target)
        basis, images = np.empty((limit + 1, len(target))), np.empty((limit, len(target)))
        basis[0] = target / start
        hessenberg = np.zeros((limit + 1, limit))
        goal = tolerance * start
        for k in range(limit):
            images[k] = self._precondition(basis[k])
            w = self._product(data, borders, images[k], extra)
            self.krylov += 1
            dots = np.zeros(k + 1)
            norm = float(_orthogonalise(basis, k + 1, w, dots))
            hessenberg[: k + 1, k] = dots
            hessenberg[k + 1, k] = norm
            if not np.isfinite(norm):
                return None
            small = hessenberg[: k + 2, : k + 1]
            unit = np.zeros(k + 2)
            unit[0] = start
            weights = np.linalg.lstsq(small, unit, rcond=None)[0]
            left = float(np.linalg.norm(unit - small @ weights))
            if left <= goal or norm <= 1e-300:
                solution = np.zeros_like(target)
                _combine(images, weights, solution)
                return solution
            # give up early when the pace so far would not reach the goal in time
            if k >= 2 and left > start * (tolerance ** ((k + 1) / limit)) ** 0.7:
                return None
            basis[k + 1] = w / norm
        return None
