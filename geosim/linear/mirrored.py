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
from geosim.linear.factoriser import Factoriser, Pivots
from geosim.linear.patterns import Sparsity

Make = Callable[[np.ndarray, np.ndarray], Factoriser]

# Share of the other parity, in a right-hand side and in what a matrix makes of an even vector, that is none: factors only
# precondition, and the next iteration sees what was dropped. But one contact on one side must not go unseen.
MIXED_REL = 1e-6


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
        Whether factors are those of halves: of the first of the reflections that are left.
    """

    counts = False

    def __init__(self, pattern: Sparsity, mirrors: Sequence[Mirror], make: Make) -> None:
        super().__init__(pattern.size)
        self._pattern, self._make, self._mirrors = pattern, make, tuple(mirrors)
        self._whole: Factoriser | None = None
        self._sides: tuple[tuple[Factoriser, Fold], ...] = ()
        self._of_odd: Floats | None = None  # a matrix whose odd half is not factorised yet
        self._strong = False
        example = make(np.array([0, 1], dtype=np.int32), np.array([0], dtype=np.int32))
        self.name, self.counts = example.name, example.counts

    @property
    def halved(self) -> bool:
        """Whether a mirror holds."""
        return bool(self._mirrors)

    @property
    def memory(self) -> float:
        """Bytes that factors of the even half or of the whole need at their peak."""
        return super().memory if (factors := self._present) is None else factors.memory

    @property
    def pivots(self) -> Pivots:
        """Pivots of the even half or of the whole."""
        return super().pivots if (factors := self._present) is None else factors.pivots

    @property
    def _present(self) -> Factoriser | None:
        return self._sides[0][0] if self._sides else self._whole

    def factorise(self, data: Floats) -> None:
        """Factorise the even half, or all where no mirror holds (see `Factoriser`)."""
        while self._mirrors and not self._holds(self._mirrors[0], data):
            self._give_up(self._mirrors[1:])
        if self.halved:
            self._factorise_side(0, data)
            self._of_odd = data
            return
        if self._whole is None:
            self._whole = self._ready(self._make(self._pattern.indptr, self._pattern.indices))
        self._whole.factorise(data)

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        if not self.halved:
            assert self._whole is not None
            return self._whole.solve(right)
        columns = right.reshape(self.size, -1)
        even, odd = self._mirrors[0].halves
        out = even.unfolded(self._sides[0][0].solve(np.ascontiguousarray(even.folded(columns))))
        folded = odd.folded(columns)
        if np.linalg.norm(folded) > MIXED_REL * np.linalg.norm(columns):
            self._know_odd()
            out += odd.unfolded(self._sides[1][0].solve(np.ascontiguousarray(folded)))
        return out.reshape(right.shape)

    def count_negative(self) -> int:
        """Negative pivots of both halves."""
        if not self.halved:
            return self.pivots.negative
        self._know_odd()
        return sum(factors.count_negative() for factors, _ in self._sides)

    def strengthen(self) -> bool:
        """Switch to a slower, more robust way of factorising halves; then give the mirrors up; then the same for the whole."""
        if not self.halved:
            return self._whole is not None and self._whole.strengthen()
        before, self._strong = self._strong, True
        if before or not all(factors.strengthen() for factors, _ in self._sides):
            self._give_up(())
        return True

    def close(self) -> None:
        """Release the memory of the factors."""
        for factors in (self._whole, *(side[0] for side in self._sides)):
            if factors is not None:
                factors.close()
        self._of_odd = None

    def _holds(self, mirror: Mirror, data: Floats) -> bool:
        """Whether the matrix makes nothing odd of an even vector."""
        even, odd = mirror.halves
        vector = even.unfolded(np.random.default_rng(0).standard_normal((even.size, 1)))[:, 0]
        image = self._pattern.product(data, vector)[:, None]
        return float(np.abs(odd.folded(image)).max(initial=0.0)) <= MIXED_REL * float(np.abs(image).max())

    def _give_up(self, left: tuple[Mirror, ...]) -> None:
        """Go on with the mirrors that are left, and without the factors of halves."""
        for factors, _ in self._sides:
            factors.close()
        self._sides, self._mirrors = (), left

    def _ready(self, factors: Factoriser) -> Factoriser:
        if self._strong:
            factors.strengthen()
        return factors

    def _factorise_side(self, k: int, data: Floats) -> None:
        if len(self._sides) == k:  # the odd half is hardly ever asked for but by a test of stability
            fold = self._mirrors[0].halves[k].fold(self._pattern)
            factors = self._ready(self._make(fold.pattern.indptr, fold.pattern.indices))
            self._sides = (*self._sides, (factors, fold))
        factors, fold = self._sides[k]
        factors.factorise(fold(data))

    def _know_odd(self) -> None:
        if self._of_odd is not None:
            self._factorise_side(1, self._of_odd)
            self._of_odd = None
