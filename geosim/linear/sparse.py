"""Factorise and solve again and again a symmetric matrix of one pattern, with a few more entries that come and go.

The pattern is analysed once, and again only when entries come that it does not have yet. Where they make the matrix unsymmetric
(friction, drag) it is factorised as a whole, which takes twice as long. Where the signs of the pivots are not asked for, the
factors of an earlier symmetric part, in single precision, precondition the present matrix as long as few iterations suffice:
contacts of a pile change little from one iteration to the next, and factors of a pile grow with the square of its size. Those of
the whole matrix cost twice as much, and the skew part of friction costs few iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.kernels import kernel
from geosim.linear.factorise import FactorisationError, Factoriser, make_factoriser
from geosim.linear.krylov import flexible_gmres
from geosim.linear.patterns import find_sorted

# Entries of the widened pattern over those used, from which the others are left out: of the entanglement gripper 1.15 takes as
# long, with more analyses, and 2 takes a fifth longer.
CROWDED_PATTERN_RATIO = 1.3
KEPT_RESIDUAL_REL = 1e-10  # of solutions by kept factors where nothing else is asked for
MIN_KEPT_UNKNOWNS = 2000  # below it new factors of rods in contact cost no more than iterations on kept ones


@dataclass(frozen=True)
class Blocks:
    """Dense blocks of a whole matrix: entries of one place add up, and those of fixed unknowns, whose number is -1, are none.

    `parts` are the numbers of the unknowns (P, k) and the values (P, k, k) of blocks of one size each.
    """

    parts: tuple[tuple[Ints, Floats], ...]

    @classmethod
    def of(cls, unknown: Ints, dofs: Ints, values: Floats) -> Blocks:
        """Return blocks (P, k, k) between the degrees of freedom (P, k), in the numbers of the unknowns."""
        return cls(((unknown[dofs], values),))

    @classmethod
    def joined(cls, given: Sequence[Blocks]) -> Blocks:
        """Return all blocks as one."""
        return cls(tuple(part for blocks in given for part in blocks.parts))

    @property
    def width(self) -> int:
        """How far from the diagonal an entry stands at most."""
        free = (
            np.where(numbers < 0, numbers.max(axis=1, keepdims=True), numbers)
            for numbers, _ in self.parts
            if numbers.size
        )
        return max((int(np.ptp(numbers, axis=1).max()) for numbers in free), default=0)

    @property
    def entries(self) -> tuple[Ints, Ints, Floats]:
        """Rows, columns and values (e,) of all entries, in no order."""
        found = []
        for numbers, values in self.parts:
            row, col = np.broadcast_arrays(numbers[:, :, None], numbers[:, None, :])
            keep = (row >= 0) & (col >= 0)
            found.append((row[keep], col[keep], values[keep]))
        row, col, data = (np.concatenate(part) for part in zip(*found))
        return row, col, data


@kernel
def add_dense(numbers, values, size, indptr, keys, whole, skew, used, missing):
    """Add blocks to the symmetric part and to the upper half of the skew part, where they are `used`; count `missing` keys."""
    width = numbers.shape[1]
    count, at, order = 0, -1, np.empty(width, np.int64)
    for p in range(len(numbers)):
        for a in range(width):  # by insertion: entries of a row then follow each other here and mostly in the pattern
            place = a
            while place > 0 and numbers[p, order[place - 1]] > numbers[p, a]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = a
        for first in range(width):
            a = order[first]
            i = numbers[p, a]
            if i < 0:
                continue
            for second in range(first, width):
                b = order[second]
                key = i * size + numbers[p, b]
                at += 1
                if at == len(keys) or keys[at] != key:
                    at = find_sorted(keys, indptr[i], indptr[i + 1], key)
                if at < 0:
                    missing[count] = key
                    count += 1
                    continue
                used[at] = True
                if a == b:
                    whole[at] += values[p, a, a]
                elif numbers[p, b] == i:
                    whole[at] += values[p, a, b] + values[p, b, a]
                else:
                    whole[at] += 0.5 * (values[p, a, b] + values[p, b, a])
                    skew[at] += 0.5 * (values[p, a, b] - values[p, b, a])
    return count


@kernel
def both_halves(indptr, indices):
    """Return the pattern of a whole matrix (starts of rows, columns), and where entries of its upper half and their mirrors are.

    `indptr` and `indices` are those of the upper half; columns ascend in every row of both.
    """
    n, entries = len(indptr) - 1, len(indices)
    starts, place = np.zeros(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        starts[i + 1] += indptr[i + 1] - indptr[i]
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                starts[indices[e] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
        place[i] = starts[i]
    columns, upper, lower = np.empty(starts[n], np.int64), np.empty(entries, np.int64), np.empty(entries, np.int64)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):  # all of row i that is left of its diagonal stands there already
            j = indices[e]
            upper[e] = place[i]
            columns[upper[e]] = j
            place[i] += 1
            lower[e] = upper[e]
            if j != i:
                lower[e] = place[j]
                columns[lower[e]] = i
                place[j] += 1
    return starts, columns, upper, lower


@kernel
def add_product(indptr, indices, whole, skew, x, y):
    """Add to y the product of x with the symmetric part plus `skew` above, minus `skew` below the diagonal."""
    for i in range(len(x)):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total += (whole[e] + skew[e]) * x[j]
            if j != i:
                y[j] += (whole[e] - skew[e]) * x[i]
        y[i] += total


class SparseSolver:
    """Solves with the matrices of one numbering.

    Parameters
    ----------
    size
        Number of unknowns.
    keys
        Sorted row * size + column of the entries of the upper triangle, diagonal included.
    """

    def __init__(self, size: int, keys: Ints) -> None:
        self.size, self.keys = size, keys
        self._spread(keys)
        self._own: Factoriser | None = None
        self._contact: Factoriser | None = None
        self._general: _Whole | None = None
        self._kept: Factoriser | None = None
        self._kept_wide = keys
        self._last: Callable[[Floats, float], Floats | None] | None = None  # solves with the matrix of the last call

    def _spread(self, wide: Ints) -> None:
        """Take a pattern that holds the own one."""
        self.wide, self.own = wide, np.searchsorted(wide, self.keys)
        self.indptr, self.indices = np.searchsorted(wide, np.arange(self.size + 1) * self.size), wide % self.size

    def _make(self, keys: Ints, *, single: bool = False) -> Factoriser:
        indptr = np.searchsorted(keys, np.arange(self.size + 1) * self.size)
        return make_factoriser(indptr, keys % self.size, single=single)

    def _widen(self, keys: Ints, used: Bools) -> None:
        """Take entries into the pattern; those `used` no more are kept as long as they are not too many, so that it settles."""
        if len(self.wide) > CROWDED_PATTERN_RATIO * np.count_nonzero(used):
            self.wide = self.wide[used]
        # two sorted runs, which a stable sort merges; np.unique would hash
        merged = np.sort(np.concatenate([self.wide, np.sort(keys)]), kind="stable")
        self._spread(merged[np.concatenate([[True], merged[1:] > merged[:-1]])])
        for factors in (self._contact, self._general.factors if self._general else None):
            if factors is not None:
                factors.close()
        self._contact, self._general = None, None

    def _split(self, data: Floats, extra: Blocks) -> tuple[Floats, Floats]:
        """Return symmetric part and upper half of the skew part of all entries, in the places of the widened pattern."""
        for _ in range(2):
            (whole, skew), used = np.zeros((2, len(self.wide))), np.zeros(len(self.wide), dtype=bool)
            whole[self.own], used[self.own] = data, True
            found = []
            for part in extra.parts:
                numbers, values = (np.ascontiguousarray(array) for array in part)
                missing = np.empty(values.size, dtype=np.int64)
                count = add_dense(numbers, values, self.size, self.indptr, self.wide, whole, skew, used, missing)
                found.append(missing[:count])
            if not any(map(len, found)):
                return whole, skew
            self._widen(np.concatenate(found), used)
        raise FactorisationError("entries outside the pattern")

    def solve(
        self,
        values: Floats,
        rhs: Floats,
        extra: Blocks | None = None,
        *,
        signs: bool = True,
        accuracy: float = KEPT_RESIDUAL_REL,
        again: bool = False,
    ) -> tuple[Floats | None, int]:
        """Return the solution, None if there is none, and the number of negative pivots of the symmetric part.

        `values` are as in `keys`; `extra` are blocks of the whole matrix. Without `signs` the number may be 0 whatever the
        pivots are, and the solution comes from kept factors where they serve, to a relative residual of `accuracy`. `again`
        says that the matrix is that of the call before.
        """
        if again and self._last is not None:
            x = self._last(rhs, accuracy)
            return (x if x is not None and np.isfinite(x @ x) else None), 0
        self._last = None
        data = values[: len(self.keys)]
        skew_rounding_rel = 1e-14  # of the largest entry: a skew part below it is none
        try:
            if extra is not None:
                data, skew = self._split(data, extra)
                x = None if signs or self.size < MIN_KEPT_UNKNOWNS else self._solve_kept(data, skew, rhs, accuracy)
                if x is not None:
                    self._last = lambda right, accuracy: self._solve_kept(data, skew, right, accuracy)
                    return x, 0
                if np.abs(skew).max(initial=0.0) > skew_rounding_rel * np.abs(data).max():
                    if self._general is None:
                        self._general = self._make_whole()
                    factors = self._general.factorised(data, skew)
                    self._last = lambda right, _: factors.solve(right)
                    x = factors.solve(rhs)
                    return (x if np.isfinite(x @ x) else None), 0
            factors = self._symmetric(wide=len(data) > len(self.keys))
            factors.factorise(data)
        except FactorisationError:
            return None, 0
        self._last = lambda right, _: factors.solve(right)
        x = factors.solve(rhs)
        return (x if np.isfinite(x @ x) else None), max(factors.pivots.negative, 0)

    def _symmetric(self, *, wide: bool) -> Factoriser:
        if wide:
            self._contact = self._contact or self._make(self.wide)
            return self._contact
        self._own = self._own or self._make(self.keys)
        return self._own

    def _solve_kept(self, whole: Floats, skew: Floats, rhs: Floats, accuracy: float) -> Floats | None:
        """Solve with kept factors of the symmetric part of an earlier matrix, or of this one; None where none serves."""

        def product(x: Floats) -> Floats:
            out = np.zeros(self.size)
            add_product(self.indptr, self.indices, whole, skew, x, out)
            return out

        # on kept factors: as dear as new ones in single precision (piles of 4,000 to 17,000 unknowns)
        max_kept_iterations = 8
        for fresh in (False, True):
            if fresh:
                if self._kept is None or self._kept_wide is not self.wide:
                    if self._kept is not None:
                        self._kept.close()
                    self._kept = None  # a pattern that cannot be factorised leaves none
                    self._kept, self._kept_wide = self._make(self.wide, single=True), self.wide
                self._kept.factorise(whole)
            if self._kept is not None:
                x, _, left = flexible_gmres(
                    product, self._kept.solve, rhs, accuracy, max_kept_iterations, impatient=not fresh
                )
                if left <= accuracy:
                    return x
        return None

    def _make_whole(self) -> _Whole:
        """Return a factoriser of the whole matrix in the widened pattern, its upper half as places of all entries."""
        starts, columns, upper, lower = both_halves(self.indptr, self.indices)
        return _Whole(make_factoriser(starts, columns, single=False, symmetric=False), upper, lower)


@dataclass(frozen=True)
class _Whole:
    """Factors of a whole matrix; of the entries of its upper half the places there and below the diagonal."""

    factors: Factoriser
    upper: Ints
    lower: Ints

    def factorised(self, whole: Floats, skew: Floats) -> Factoriser:
        """Factorise the symmetric part plus `skew` above, minus `skew` below the diagonal."""
        data = np.empty(2 * len(self.upper) - self.factors.size)
        data[self.upper] = whole + skew
        data[self.lower] = whole - skew
        self.factors.factorise(data)
        return self.factors
