"""Factors of a matrix that a mirror maps onto itself: those of two matrices of half the size.

With the reflection M, a permutation with signs, K M = M K. Vectors are the sum of an even part, M u = u, and an odd one,
M u = -u, that K does not mix: with orthonormal bases E and O of both

    K^-1 = E (E^T K E)^-1 E^T + O (O^T K O)^-1 O^T.

Where loads are mirror images of themselves the odd half is never factorised. By Sylvester the negative eigenvalues of K are
those of both halves: a body that buckles out of its plane of symmetry has one in the odd half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix

from geosim.arrays import Floats, Ints, frozen
from geosim.linear.factoriser import Factoriser
from geosim.linear.patterns import Sparsity

Make = Callable[[np.ndarray, np.ndarray], Factoriser]


@dataclass(frozen=True)
class Mirror:
    """A reflection of the unknowns: u[partner] = sign u of what is even.

    Parameters
    ----------
    partner, sign
        Image of every unknown, and 1 or -1, both (size,); images have equal signs.
    name
        Of the plane, such as "y = 5 mm".
    """

    partner: Ints
    sign: Floats
    name: str

    @cached_property
    def halves(self) -> tuple[Half, Half]:
        """The even and the odd vectors."""
        here = np.arange(len(self.partner))
        return tuple(self._half(here, parity) for parity in (1.0, -1.0))  # type: ignore[return-value]

    def _half(self, here: Ints, parity: float) -> Half:
        first, alone = here < self.partner, here == self.partner
        kept = first | (alone & (self.sign == parity))
        place = np.full(len(here), -1)
        place[kept] = np.arange(int(kept.sum()))
        weight = np.where(kept, np.where(alone, 1.0, np.sqrt(0.5)), 0.0)
        place[self.partner[first]] = place[first]
        weight[self.partner[first]] = parity * self.sign[first] * np.sqrt(0.5)
        return Half(frozen(place), frozen(weight))


@dataclass(frozen=True)
class Fold:
    """How the matrix of a half is made: its `pattern`, and of the `entries` of the whole (e,) the slots and shares in it."""

    pattern: Sparsity
    entries: Ints
    slots: Ints
    share: Floats

    def __call__(self, data: Floats) -> Floats:
        """Return the values of the half's pattern."""
        values = np.bincount(self.slots, self.share * data[self.entries], len(self.pattern.indices))
        return np.asarray(values, dtype=float)


@dataclass(frozen=True)
class Half:
    """An orthonormal basis of the even or of the odd vectors: every unknown is in one of its vectors, or in none.

    Parameters
    ----------
    place, weight
        Which vector, -1 for none, and how much of it, (size,).
    """

    place: Ints
    weight: Floats

    @cached_property
    def size(self) -> int:
        """Number of vectors."""
        return int(self.place.max(initial=-1)) + 1

    def folded(self, vectors: Floats) -> Floats:
        """Return the coordinates (half, r) of vectors (size, r)."""
        used = self.place >= 0
        given = vectors[used] * self.weight[used, None]
        return np.stack([np.bincount(self.place[used], column, self.size) for column in given.T], axis=1)

    def unfolded(self, found: Floats) -> Floats:
        """Return the vectors (size, r) with coordinates (half, r)."""
        return found[self.place] * self.weight[:, None]  # the weight of what is in none is 0

    def fold(self, whole: Sparsity) -> Fold:
        """Return how E^T K E is made of a matrix K with a pattern; of both the upper triangle is stored."""
        first = np.repeat(np.arange(whole.size), np.diff(whole.indptr))
        used = np.flatnonzero((self.place[first] >= 0) & (self.place[whole.indices] >= 0))
        first, second = first[used], whole.indices[used]
        rows, columns = self.place[first], self.place[second]
        low, high = np.minimum(rows, columns), np.maximum(rows, columns)
        diagonal = np.arange(self.size)
        low_, high_ = np.append(low, diagonal), np.append(high, diagonal)
        graph = coo_matrix((np.ones(len(low_), dtype=np.int8), (low_, high_)), shape=(self.size, self.size)).tocsr()
        graph.sort_indices()
        made = Sparsity(frozen(graph.indptr.astype(np.int32)), frozen(graph.indices.astype(np.int32)))
        twice = np.where((first != second) & (rows == columns), 2.0, 1.0)  # both triangles of the whole meet there
        share = twice * self.weight[first] * self.weight[second]
        return Fold(made, frozen(used), frozen(made.indptr[low] + made.ranks(low, high)), frozen(share))


class Mirrored(Factoriser):
    """Factors of matrices that a mirror maps onto themselves, of others as they are.

    Parameters
    ----------
    pattern
        Of the upper triangle.
    mirrors
        Reflections that may hold; one that does not is not tried again.
    make
        Makes the factoriser of a pattern.

    Attributes
    ----------
    halved
        Whether the factors at hand are those of halves.
    """

    def __init__(self, pattern: Sparsity, mirrors: Sequence[Mirror], make: Make) -> None:
        super().__init__(pattern.size)
        self._pattern, self._make, self._mirrors = pattern, make, list(mirrors)
        self._whole: Factoriser | None = None
        self._sides: list[tuple[Factoriser, Fold]] = []
        self._data: Floats | None = None
        self._odd_is_known = self._strong = False
        self.halved = False
        example = make(np.array([0, 1], dtype=np.int32), np.array([0], dtype=np.int32))
        self.name, self.counts = example.name, example.counts

    def factorise(self, data: Floats) -> None:
        """Factorise the even half, or all where no mirror holds (see `Factoriser`)."""
        while self._mirrors and not self._holds(self._mirrors[0], data):
            self._drop()
        self.halved = bool(self._mirrors)
        if not self.halved:
            if self._whole is None:
                self._whole = self._ready(self._make(self._pattern.indptr, self._pattern.indices))
            self._whole.factorise(data)
            self._take(self._whole)
            return
        self._data, self._odd_is_known = data, False
        self._factorise_side(0)
        self._take(self._sides[0][0])

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        if not self.halved:
            assert self._whole is not None
            return self._whole.solve(right)
        columns = right.reshape(self.size, -1)
        out = np.zeros_like(columns)
        # Odd part of a right-hand side, over all of it, that is rounding: what else was dropped the next iteration
        # sees.
        odd_part_rounding_rel = 1e-6
        for k, half in enumerate(self._mirrors[0].halves):
            folded = half.folded(columns)
            if k and np.linalg.norm(folded) <= odd_part_rounding_rel * np.linalg.norm(columns):
                break
            if k:
                self._know_odd()
            out += half.unfolded(self._sides[k][0].solve(np.ascontiguousarray(folded)))
        return out.reshape(right.shape)

    def count_negative(self) -> int:
        """Negative pivots of both halves."""
        if not self.halved:
            return self.pivots.negative
        self._know_odd()
        return sum(factors.count_negative() for factors, _ in self._sides)

    def strengthen(self) -> bool:
        """Switch to a slower, more robust way of factorising halves; then give the mirrors up; then the same for the whole."""
        if self._mirrors and not self._strong:
            self._strong = True
            stronger = [factors.strengthen() for factors, _ in self._sides]
            if all(stronger):
                return True
        if self._mirrors:
            while self._mirrors:
                self._drop()
            return True
        return self._whole is not None and self._whole.strengthen()

    def close(self) -> None:
        """Release the memory of the factors."""
        for factors in (self._whole, *(side[0] for side in self._sides)):
            if factors is not None:
                factors.close()
        self._data = None

    def _holds(self, mirror: Mirror, data: Floats) -> bool:
        """Whether the matrix makes nothing odd of an even vector."""
        even, odd = mirror.halves
        vector = even.unfolded(np.random.default_rng(0).standard_normal((even.size, 1)))[:, 0]
        image = self._pattern.product(data, vector)[:, None]
        # Largest entry that the matrix may make of the other parity, over the largest of the same: factors only
        # precondition, but one contact on one side must not go unseen.
        max_mixed_entry_rel = 1e-6
        return float(np.abs(odd.folded(image)).max(initial=0.0)) <= max_mixed_entry_rel * float(np.abs(image).max())

    def _drop(self) -> None:
        for factors, _ in self._sides:
            factors.close()
        self._sides = []
        del self._mirrors[0]

    def _ready(self, factors: Factoriser) -> Factoriser:
        if self._strong:
            factors.strengthen()
        return factors

    def _factorise_side(self, k: int) -> None:
        half = self._mirrors[0].halves[k]
        if len(self._sides) == k:  # the odd half is hardly ever asked for but by a test of stability
            fold = half.fold(self._pattern)
            self._sides.append((self._ready(self._make(fold.pattern.indptr, fold.pattern.indices)), fold))
        factors, fold = self._sides[k]
        assert self._data is not None
        factors.factorise(fold(self._data))

    def _know_odd(self) -> None:
        if not self._odd_is_known:
            self._factorise_side(1)
            self._odd_is_known = True

    def _take(self, factors: Factoriser) -> None:
        self.memory, self.pivots = factors.memory, factors.pivots
