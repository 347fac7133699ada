"""Factorise and solve again and again a symmetric matrix of one pattern, with a few more entries that come and go.

The pattern is analysed once, and again only when entries come that it does not have yet. Where they make the matrix unsymmetric
(friction, drag), and where the signs of the pivots are not asked for, factors of an earlier symmetric part, in single precision,
precondition the present matrix as long as few iterations suffice: contacts of a pile change little from one iteration to the
next, and factors of a pile grow with the square of its size. Factors of the whole matrix cost twice as much, and the skew part of
friction costs few iterations. Where it costs more, SuperLU factorises the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, triu
from scipy.sparse.linalg import splu

from geosim.arrays import Bools, Floats, Ints
from geosim.kernels import kernel
from geosim.linear.factorise import FactorisationError, Factoriser, make_factoriser
from geosim.linear.krylov import flexible_gmres
from geosim.linear.patterns import find_sorted
from geosim.linear.superlu import DEFINITE_PIVOT_SHARE

# Entries of the widened pattern over those used, from which the others are left out: of the entanglement gripper 1.15 takes as
# long, with more analyses, and 2 takes a fifth longer.
CROWDED_PATTERN_RATIO = 1.3
KEPT_RESIDUAL_REL = 1e-10  # of solutions by kept factors where nothing else is asked for


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


@dataclass(frozen=True)
class _Pattern:
    """The pattern of an upper half, wider than that of the matrices without extra entries, and the factorisers of it.

    Parameters
    ----------
    size, keys
        As of `SparseSolver`.
    own
        Where the entries of the matrices without extra entries are, (e,).
    """

    size: int
    keys: Ints
    own: Ints

    @cached_property
    def indptr(self) -> Ints:
        """Start of every row, (size + 1,)."""
        return np.searchsorted(self.keys, np.arange(self.size + 1) * self.size)

    @cached_property
    def indices(self) -> Ints:
        """Columns."""
        return self.keys % self.size

    def factoriser(self, *, single: bool = False) -> Factoriser:
        """Return a new factoriser."""
        return make_factoriser(self.indptr, self.indices, single=single)

    @cached_property
    def symmetric(self) -> Factoriser:
        """The factoriser in double precision."""
        return self.factoriser()

    def close(self) -> None:
        """Release the memory of the factors."""
        if "symmetric" in self.__dict__:
            self.symmetric.close()


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
        self._own = _Pattern(size, keys, np.arange(len(keys)))
        self._pattern = _Pattern(size, keys, np.arange(len(keys)))  # with extra entries
        self._kept: tuple[Factoriser, _Pattern] | None = None
        self._last: Callable[[Floats, float], Floats | None] | None = None  # solves with the matrix of the last call

    @property
    def wide(self) -> Ints:
        """The pattern in use, as `keys`."""
        return self._pattern.keys

    def _widen(self, keys: Ints, used: Bools) -> None:
        """Take entries into the pattern; those `used` no more are kept as long as they are not too many, so that it settles."""
        wide = self.wide
        if len(wide) > CROWDED_PATTERN_RATIO * np.count_nonzero(used):
            wide = wide[used]
        # two sorted runs, which a stable sort merges; np.unique would hash
        merged = np.sort(np.concatenate([wide, np.sort(keys)]), kind="stable")
        merged = merged[np.concatenate([[True], merged[1:] > merged[:-1]])]
        self._pattern.close()
        self._pattern = _Pattern(self.size, merged, np.searchsorted(merged, self.keys))

    def _split(self, data: Floats, extra: Blocks) -> tuple[Floats, Floats]:
        """Return symmetric part and upper half of the skew part of all entries, in the places of the widened pattern."""
        for _ in range(2):
            pattern = self._pattern
            (whole, skew), used = np.zeros((2, len(pattern.keys))), np.zeros(len(pattern.keys), dtype=bool)
            whole[pattern.own], used[pattern.own] = data, True
            found = []
            for part in extra.parts:
                numbers, values = (np.ascontiguousarray(array) for array in part)
                missing = np.empty(values.size, dtype=np.int64)
                count = add_dense(numbers, values, self.size, pattern.indptr, pattern.keys, whole, skew, used, missing)
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

        `values` are as in `keys`; `extra` are blocks of the whole matrix. Without `signs`, and of an unsymmetric matrix, the
        number may be 0 whatever the pivots are, and the solution comes from kept factors where they serve, to a relative
        residual of `accuracy`. `again` says that the matrix is that of the call before.
        """
        found = finite(self._last(rhs, accuracy)) if again and self._last is not None else None
        if found is not None:
            return found, 0
        self._last = None
        data = values[: len(self.keys)]
        data, skew = (data, np.zeros_like(data)) if extra is None else self._split(data, extra)
        skew_rounding_rel = 1e-14  # of the largest entry: a skew part below it is none
        symmetric = np.abs(skew).max(initial=0.0) <= skew_rounding_rel * np.abs(data).max(initial=0.0)
        pattern = self._pattern if len(data) > len(self.keys) else self._own
        with suppress(FactorisationError):  # SuperLU may do what others cannot
            if extra is not None and not (signs and symmetric):
                found = self._solve_kept(data, skew, rhs, accuracy)
            if found is not None:
                self._last = lambda right, accuracy: self._solve_kept(data, skew, right, accuracy)
                return found, 0
            if symmetric and pattern.symmetric.counts:
                pattern.symmetric.factorise(data)
                found = finite(pattern.symmetric.solve(rhs))
        if found is not None:
            self._last = lambda right, _: pattern.symmetric.solve(right)
            return found, pattern.symmetric.pivots.negative
        return self._solve_whole(pattern, data, skew, rhs)

    def _solve_whole(self, pattern: _Pattern, whole: Floats, skew: Floats, rhs: Floats) -> tuple[Floats | None, int]:
        """Solve by SuperLU; pivots are counted where it left the symmetric order."""
        above, below = (
            csr_matrix((data, pattern.indices, pattern.indptr), shape=(self.size,) * 2)
            for data in (whole + skew, whole - skew)
        )
        matrix, options = (above + triu(below, 1).T).tocsc(), {"SymmetricMode": True}
        try:
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=DEFINITE_PIVOT_SHARE, options=options)
        except RuntimeError:
            return None, 0
        self._last = lambda right, _: factors.solve(right)
        x = finite(factors.solve(rhs))
        ordered = x is not None and np.array_equal(factors.perm_r, factors.perm_c)
        return x, int((factors.U.diagonal() < 0).sum()) if ordered else 0

    def _solve_kept(self, whole: Floats, skew: Floats, rhs: Floats, accuracy: float) -> Floats | None:
        """Solve with kept factors of the symmetric part of an earlier matrix, or of this one; None where none serves."""

        def product(x: Floats) -> Floats:
            out = np.zeros(self.size)
            add_product(self._pattern.indptr, self._pattern.indices, whole, skew, x, out)
            return out

        # on kept factors: as dear as new ones in single precision (piles of 300 to 17,000 unknowns)
        max_kept_iterations = 8
        for fresh in (False, True):
            if fresh:
                self._keep(whole)
            if self._kept is not None:
                x, _, left = flexible_gmres(
                    product, self._kept[0].solve, rhs, accuracy, max_kept_iterations, impatient=not fresh
                )
                if left <= accuracy:
                    return x
        return None

    def _keep(self, whole: Floats) -> None:
        """Factorise the symmetric part of the present matrix in single precision."""
        if self._kept is not None and self._kept[1] is not self._pattern:
            self._kept[0].close()
            self._kept = None
        if self._kept is None:
            self._kept = self._pattern.factoriser(single=True), self._pattern
        self._kept[0].factorise(whole)


def finite(x: Floats | None) -> Floats | None:
    """Return a solution; None where it is not finite, or there is none."""
    return x if x is not None and np.isfinite(x @ x) else None
