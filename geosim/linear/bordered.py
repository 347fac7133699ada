"""The bordered linear system of a Newton step, solved to the accuracy that the step needs.

    [  K   -C ] [ dx ]   [ r ]        K symmetric indefinite, B the gradients of the chambers of prescribed volume,
    [ -B^T  D ] [ dP ] = [-g ]        g the volumes still missing, D = 0 but where a gas gives way or a load share is unknown;
                                      C = B but where cables rub.

A factorisation is the dearest thing in a solve, so each is used as long as it is good: it preconditions a flexible
GMRES on the present matrix (block elimination of the border included). With the factors of the present matrix, in
single precision, two iterations suffice; with those of the matrix before, four to eight near the end of Newton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.linear.factorise import MULTILEVEL, FactorisationError, Factoriser, make_factoriser
from geosim.linear.krylov import combine, dots, flexible_gmres, ritz_values
from geosim.linear.mirrored import Mirror, Mirrored
from geosim.linear.multilevel import Levels, Multilevel
from geosim.linear.patterns import Sparsity

Extra = Callable[[Floats, Floats], None]


# Flops of a factorisation, over the entries of the upper triangle, beyond which two levels replace factors. Two levels take 1.47
# of the time of factors at 9e3 (PneuNet of thin walls, 138k unknowns), 0.74 to 0.91 at 25e3 (finger, 126k), 0.67 at 31e3
# (bellows, 231k), 0.52 at 56e3 (PneuNet of thick walls, 336k); of P1 0.75 at 34e3 (54k), 0.55 at 79e3 (112k).
MULTILEVEL_FLOPS_PER_ENTRY = 27e3
# Flops below which factors are kept in any case: two levels would save 2 s at most, and `stable` would not be known; and unknowns
# below which no body has so many.
MIN_MULTILEVEL_FLOPS, MIN_MULTILEVEL_UNKNOWNS = 1.5e11, 5e4


@dataclass(frozen=True)
class BorderedMatrix:
    """The matrix [K, -C; -B^T, D].

    Parameters
    ----------
    data
        CSR values of K with held rows already those of the identity.
    borders
        Rows of B^T, zero at held unknowns, (k, size).
    corner
        D (k, k), symmetric; default 0.
    columns
        Rows of C^T, like `borders`; default B^T.
    extra
        Adds the product of a matrix that is not in K, and need not be symmetric, with a vector to another.
    """

    data: Floats
    borders: Floats
    corner: Floats | None = None
    columns: Floats | None = None
    extra: Extra | None = None

    @property
    def forces(self) -> Floats:
        """Rows of C^T, (k, size)."""
        return self.borders if self.columns is None else self.columns

    @property
    def square(self) -> Floats:
        """D (k, k)."""
        return np.zeros((len(self.borders),) * 2) if self.corner is None else self.corner


@dataclass(frozen=True)
class _Border:
    """What block elimination needs beside the factors of K.

    Parameters
    ----------
    rows, columns
        B^T, and Y^T of K Y = C, (k, size).
    schur, corner
        B^T Y and D, (k, k).
    """

    rows: Floats
    columns: Floats
    schur: Floats
    corner: Floats

    @property
    def eigenvalues(self) -> Floats:
        """Eigenvalues of D - B^T K^-1 B, (k,)."""
        return np.asarray(np.linalg.eigvalsh(self.corner - 0.5 * (self.schur + self.schur.T)))

    @property
    def negative(self) -> int:
        """How many of them are negative."""
        return int((self.eigenvalues < 0).sum())


@dataclass
class BorderedSolver:
    """Keeps the factors of the last factorised matrix and what block elimination needs of them.

    Parameters
    ----------
    pattern
        Sparsity of the upper triangle.
    factoriser
        See `geosim.linear.factorise`.
    name, threads
        Which factoriser a new pattern gets, and how many threads (see `make_factoriser`).
    mirrors
        Reflections of the unknowns that matrices may be symmetric in.
    levels
        Levels of the mesh, where they replace factors (see `make_solver`).
    """

    pattern: Sparsity
    factoriser: Factoriser
    name: str = "auto"
    threads: int | None = None
    mirrors: Sequence[Mirror] = ()
    levels: Levels | None = None
    factorisations: int = 0
    krylov: int = 0
    _border: _Border | None = field(default=None, repr=False)  # None: there are no factors to go on with
    _fresh: bool = False  # whether the factors are those of the last equilibrium

    def __reduce__(self) -> tuple[Any, ...]:
        """Factors belong to their process: what is pickled has none yet."""
        return make_solver, (self.pattern, self.name, self.threads, self.levels, self.mirrors)

    @property
    def max_krylov(self) -> int:
        """GMRES iterations that are cheaper than a factorisation.

        The work of factors grows faster with their size n than that of a solution, n^2 and n^(4/3) in space: measured are 20
        solutions for n = 3e4 and 35 for n = 1.2e5, beside which go products and dot products of about the same cost.
        """
        # iterations that are cheaper than factors of a matrix of so many unknowns (see `max_krylov`)
        min_krylov_iterations, small_system_unknowns = 10, 3e4
        return int(
            np.clip(
                min_krylov_iterations * np.sqrt(self.pattern.size / small_system_unknowns),
                min_krylov_iterations,
                3 * min_krylov_iterations,
            )
        )

    def use(self, pattern: Sparsity) -> None:
        """Change to another pattern; factors of the old one are dropped."""
        if pattern is not self.pattern:
            self.factoriser.close()
            self.factoriser = self.made(pattern)
            self.pattern = pattern
            self._border = None

    def _begin_again(self) -> None:
        """Drop a factoriser that was strengthened in vain: the next matrix may be one that single precision serves."""
        self.factoriser.close()
        self.factoriser, self._border = self.made(self.pattern), None

    def made(self, pattern: Sparsity) -> Factoriser:
        """Return a factoriser for a pattern, in halves where a mirror may hold."""
        return _made(pattern, self.name, self.threads, self.mirrors, self.levels)

    def solve(
        self,
        matrix: BorderedMatrix,
        right: Floats,
        gap: Floats,
        tolerance: float,
        *,
        reuse: bool,
        patience: float = 1.0,
        at: Floats | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Return (dx, dP) with a residual below `tolerance` times the right-hand side.

        Parameters
        ----------
        right, gap
            r (size,) and g (k,).
        reuse
            Whether factors of an earlier matrix may be tried first.
        patience
            Share of `max_krylov` within which factors of an earlier matrix have to do.
        at
            Positions (n, 3) of the matrix.
        weights
            Factors of the rows (size + k,) that make residuals comparable, where factors do not make all of them small at once.

        Raises
        ------
        FactorisationError
            The system is singular to working precision.
        """
        reuse, self._fresh = reuse or self._fresh, False
        target = np.concatenate([right, -gap])
        if reuse and self._border is not None and len(self._border.rows) == len(gap):
            self._border = replace(self._border, corner=matrix.square)
            most = max(round(patience * self.max_krylov), 1)
            limit = most if self.factoriser.exact else 3 * most  # others would be little better
            alike = None if self.factoriser.exact else weights
            found = self._gmres(matrix, target, tolerance, limit, weights=alike)
            if found is not None:
                return found[: len(right)], found[len(right) :]
        # iterations on two levels before factors are thought to be needed: twice what hard cases took
        max_multilevel_iterations = 100
        while True:
            self._border = None
            if at is not None:
                self.factoriser.place(at)
            self.factoriser.factorise(matrix.data)
            self.factorisations += 1
            self._border = _eliminated(self.factoriser, matrix.borders, matrix.forces, matrix.square)
            if self.factoriser.exact:
                found = self._gmres(matrix, target, tolerance, 3 * self.max_krylov)
            else:  # factors instead would be dear: no hurry
                found = self._gmres(
                    matrix, target, tolerance, max_multilevel_iterations, weights=weights, impatient=False
                )
            if found is not None:
                return found[: len(right)], found[len(right) :]
            if not self.factoriser.strengthen():
                self._begin_again()
                raise FactorisationError("the equations are singular to working precision")

    def negative_pivots(self) -> int:
        """Return the number of negative eigenvalues of the last factorised bordered matrix; -1 where they are not counted."""
        if not self.factoriser.counts or self._border is None:
            return -1
        return self.factoriser.count_negative() + self._border.negative

    def negative_eigenvalues(self, data: Floats, borders: Floats, corner: Floats) -> int:
        """Return the number of negative eigenvalues of the bordered matrix, -1 where the factoriser cannot say.

        Haynsworth: those of K and of its Schur complement D - B^T K^-1 B together. The factors at hand do it, with the
        analysis that they have, as long as they can be trusted; then they stay for the next step. Near a buckling load single
        precision miscounts: there they are factors of double precision.

        Raises
        ------
        FactorisationError
            The matrix is singular to working precision.
        """
        min_border_eigenvalue_rel = 1e-2  # signs of the border are trusted while none is so small beside the largest
        if not self.factoriser.counts:
            return -1
        if (known := self._as_before(data, borders, corner)) is not None:
            self._fresh = True
            return known
        self._border = None
        with suppress(FactorisationError):  # double precision may do what single cannot
            self.factoriser.factorise(data)
            if self._same_signs(self.factoriser, data):
                border = _eliminated(self.factoriser, borders, borders, corner)
                sizes = np.abs(border.eigenvalues)
                if (sizes > min_border_eigenvalue_rel * sizes.max(initial=0.0)).all():
                    self._border, self._fresh = border, True
                    return self.negative_pivots()
        careful = self.made(self.pattern)
        try:
            careful.strengthen()
            careful.factorise(data)
            if not self._same_signs(careful, data):
                return -1
            return careful.count_negative() + _eliminated(careful, borders, borders, corner).negative
        finally:
            careful.close()

    def _as_before(self, data: Floats, borders: Floats, corner: Floats) -> int | None:
        """Return the negative eigenvalues of the bordered matrix that was factorised, where the present A has as many.

        On the way M + t (A - M), t = 0 .. 1, none changes its sign as long as M^-1 A has no eigenvalue at or below zero; those
        that are farthest from the others Arnoldi's method finds first. None where that is not clear.
        """
        before = self._border
        if before is None or not np.array_equal(corner, before.corner):  # the border may have another meaning
            return None
        start = np.random.default_rng(0).standard_normal(self.pattern.size + len(borders))
        matrix = BorderedMatrix(data, borders, corner)
        product = lambda v: self._precondition(self._product(matrix, v))  # noqa: E731
        # An earlier matrix M has as many negative eigenvalues as the present A where no eigenvalue of M^-1 A is below
        # zero. After so many steps of Arnoldi's method, from a vector that M hardly resists, the smallest must keep
        # this far from zero.
        arnoldi_steps, min_eigenvalue_distance = 10, 0.3
        min_share = 1e-6  # of an eigenvector in a random vector that M hardly resists: a thousandth of what is usual
        found = ritz_values(product, self._precondition(start), arnoldi_steps, least=0.0, hidden=min_share)
        if found.real.min() < min_eigenvalue_distance:
            return None
        return self.negative_pivots()

    def _same_signs(self, factors: Factoriser, data: Floats) -> bool:
        """Whether the factorised matrix M has as many negative eigenvalues as K, by the power method.

        On the way M + t (K - M), t = 0 .. 1, none changes its sign as long as M^-1 (K - M) has no eigenvalue of size 1. Where
        K is nearly singular, one is large, and its vector soon rules the remainder of any other.
        """
        # The signs of factors are trusted while the error in them, after so many rounds of the power method, is below this
        # share of the matrix (1 is where they may differ).
        power_iterations, max_factor_error = 2, 0.3
        vector = np.random.default_rng(0).standard_normal(self.pattern.size)
        vector = factors.solve(vector)  # mostly what K hardly resists
        for _ in range(power_iterations):
            vector /= max(float(np.linalg.norm(vector)), MIN_DIVISOR)
            vector = factors.solve(self.pattern.product(data, vector)) - vector
        return float(np.linalg.norm(vector)) < max_factor_error

    def _precondition(self, vector: Floats) -> Floats:
        """Apply the inverse of the factorised bordered matrix by block elimination."""
        size, border = self.pattern.size, self._border
        solution = self.factoriser.solve(vector[:size])
        assert border is not None
        if len(border.rows) == 0:
            return solution
        try:
            change = np.linalg.solve(border.schur - border.corner, -vector[size:] - dots(border.rows, solution))
        except np.linalg.LinAlgError:
            raise FactorisationError("the chamber volumes do not respond to their pressures") from None
        combine(border.columns, change, solution)
        return np.concatenate([solution, change])

    def _product(self, matrix: BorderedMatrix, vector: Floats) -> Floats:
        size = self.pattern.size
        out = np.zeros(len(vector))
        out[:size] = self.pattern.product(matrix.data, vector[:size])
        if matrix.extra is not None:
            matrix.extra(vector, out)
        if len(matrix.borders):
            combine(matrix.forces, -vector[size:], out[:size])
            out[size:] = matrix.square @ vector[size:] - dots(matrix.borders, vector[:size])
        return out

    def _gmres(
        self,
        matrix: BorderedMatrix,
        target: Floats,
        tolerance: float,
        limit: int,
        *,
        weights: Floats | None = None,
        impatient: bool = True,
    ) -> Floats | None:
        """Solve the bordered system by GMRES with the factors at hand; None if it does not get there in time."""
        product: Callable[[Floats], Floats] = lambda vector: self._product(matrix, vector)  # noqa: E731
        precondition = self._precondition
        if weights is not None:
            plain, target = product, weights * target
            product = lambda vector: np.multiply(weights, plain(vector))  # noqa: E731
            precondition = lambda vector: self._precondition(vector / weights)  # noqa: E731
        found, count, left = flexible_gmres(product, precondition, target, tolerance, limit, impatient=impatient)
        self.krylov += count
        return found if left <= tolerance else None


def _eliminated(factors: Factoriser, borders: Floats, forces: Floats, corner: Floats) -> _Border:
    """Solve K Y = C (rows of `forces`) with the fresh factors, for the Schur complement B^T Y of the border."""
    columns, schur = np.empty((0, factors.size)), np.empty((0, 0))
    if len(borders):
        columns = np.ascontiguousarray(factors.solve(np.ascontiguousarray(forces.T)).T)
        schur = np.array([dots(borders, column) for column in columns]).T
    if not np.isfinite(columns).all():
        raise FactorisationError("the equations are singular: their solution is not finite")
    return _Border(borders, columns, schur, corner)


def make_solver(
    pattern: Sparsity, name: str, threads: int | None, levels: Levels | None = None, mirrors: Sequence[Mirror] = ()
) -> BorderedSolver:
    """Return a solver without factors yet; arguments as of `BorderedSolver`.

    Two levels replace factors where these need more than `MULTILEVEL_FLOPS_PER_ENTRY`, by the analysis of the pattern.

    Raises
    ------
    InputError
        See `make_factoriser`.
    """
    asked = name == MULTILEVEL or (name == "auto" and pattern.size >= MIN_MULTILEVEL_UNKNOWNS)
    if mirrors or not asked or levels is None or levels.size != pattern.size:  # rigid groups have unknowns of their own
        levels = None
    elif name == "auto":
        factors = make_factoriser(pattern.indptr, pattern.indices, name, threads=threads)
        if factors.foretell() <= max(MULTILEVEL_FLOPS_PER_ENTRY * len(pattern.indices), MIN_MULTILEVEL_FLOPS):
            return BorderedSolver(pattern, factors, name, threads, mirrors)
    return BorderedSolver(pattern, _made(pattern, name, threads, mirrors, levels), name, threads, mirrors, levels)


def _made(
    pattern: Sparsity, name: str, threads: int | None, mirrors: Sequence[Mirror], levels: Levels | None
) -> Factoriser:
    make = partial(make_factoriser, name="auto" if name == MULTILEVEL else name, threads=threads)
    if levels is not None and levels.size == pattern.size:
        return Multilevel(pattern, levels, make)
    mirrors = [m for m in mirrors if len(m.partner) == pattern.size]
    return Mirrored(pattern, mirrors, make) if mirrors else make(pattern.indptr, pattern.indices)
