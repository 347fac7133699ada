"""A two-level preconditioner in the place of factors, where factors cost too much.

    [ K   B ]      with K of displacements on P2 or P1 elements, B of pressures on P1 elements, M a mass matrix or zero,
    [ B^T -M ]

is solved by a Krylov method [Saad 1993] that this preconditions, a block triangle:

    u = V (r + B W s),   p = (B^T u - s) / S,        V ~ (K + P)^-1, one V-cycle; P what a slight compressibility adds

The isochoric K does not resist a change of volume, and Gauss-Seidel does not smooth what nothing resists. P = integral
g (cof F : dF)^2 with g the shear modulus does, without locking, and has the pattern of K; that it stands for B W B^T, W = g over
the lumped mass, makes up for it on the right [Benzi, Golub, Liesen 2005, Numerical solution of saddle point problems, section
3.5]. S = M + (lumped mass) / (2 g) is the Schur complement of what then is a material with Lame constants of one size. A V-cycle
is a sweep of Gauss-Seidel over nodes, a correction on a coarse level by factors of the Galerkin matrix there, and a sweep
backwards [Trottenberg, Oosterlee, Schueller 2001, Multigrid, chapter 2]. The coarse level of P2 elements are the P1 functions of
the same mesh; that of P1 elements are the rigid motions of groups of neighbours [Vanek, Mandel, Brezina 1996, Algebraic multigrid
by smoothed aggregation], which here need no smoothing.

Iterations do not grow with the mesh: measured are 11 to a residual of 1e-2 and 22 to 1e-4, for a finger at V/V0 = 2 of 8k and
of 30k P2 tets, and 10 and 25 of 31k, 143k and 307k smoothed P1 tets at 1.2. Work and memory are those of products with the
matrix, but for the factors on the coarse level, which has an eighth of the unknowns. Signs of eigenvalues are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, triu

from geosim.arrays import Bools, Floats, Ints, cofactors, det
from geosim.kernels import kernel
from geosim.linear.factoriser import FactorisationError, Factoriser, Facts, Pivots
from geosim.linear.patterns import Sparsity, find_sorted, in_threes

Penalty = Callable[[Floats, Ints, Ints, np.ndarray], None]
Points = Callable[[], Ints]
Motions = Callable[[Ints, Floats, Bools], Floats]
Make = Callable[[np.ndarray, np.ndarray], Factoriser]


@dataclass(frozen=True)
class Levels:
    """What the two levels of a mesh are.

    Parameters
    ----------
    points
        Returns the two points of the coarse level, numbered from 0, that every node moves with, (n, 2): of P2 elements the
        vertices that it lies half-way between, of P1 elements the translation and the rotation of its group.
    motions
        Returns how, from those points, positions (n, 3) and which nodes are free (n,): dx = sum_k T_k du_k, T (n, 2, 3, 3).
    lumps
        Lumped mass of every pressure over the shear modulus, (v,).
    held
        Which unknowns are held, (3 n + v,).
    penalty
        Adds P at positions (n, 3) to blocks (k, 3, 3) of a matrix between nodes, given by the start of every row (n + 1,) and
        its columns (k,), ascending.
    """

    points: Points
    motions: Motions
    lumps: Floats
    held: Bools
    penalty: Penalty

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return len(self.held)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return (len(self.held) - len(self.lumps)) // 3


@dataclass(frozen=True)
class Cycle:
    """What a cycle reads of one matrix.

    Parameters
    ----------
    blocks, inverse
        Of the displacements with their penalty, and inverses of the diagonal ones.
    lift
        From the coarse level to the nodes.
    b, bt
        Coupling with the pressures, and its transpose.
    schur, weight
        Diagonal that stands for the Schur complement of the pressures, and inverses of their lumped masses.
    """

    blocks: np.ndarray  # in single precision
    inverse: Floats
    lift: csr_matrix
    b: csr_matrix
    bt: csr_matrix
    schur: Floats
    weight: Floats


class Multilevel(Factoriser):
    """The preconditioner, and factors instead of it where it has failed.

    Parameters
    ----------
    pattern
        Of the upper triangle, three rows a node first (see `geosim.linear.patterns`).
    levels
        Of the mesh.
    make
        Makes the factoriser of a pattern.

    Attributes
    ----------
    graph
        Which nodes couple with which, of the whole matrix.
    points
        Of the coarse level, that every node moves with, (n, 2).
    made
        Of the last matrix; None before the first.
    """

    name = "multilevel"

    def __init__(self, pattern: Sparsity, levels: Levels, make: Make) -> None:
        super().__init__(pattern.size)
        self.pattern, self.levels, self._make = pattern, levels, make
        self._direct: Factoriser | None = None
        self.made: Cycle | None = None
        self._x = np.zeros((levels.nodes, 3))
        nodes = levels.nodes
        self.graph = _graph(pattern, nodes)
        self._coupling = np.flatnonzero(pattern.indices[: pattern.indptr[3 * nodes]] >= 3 * nodes)
        rows = np.searchsorted(self._coupling, pattern.indptr[: 3 * nodes + 1])
        self._couple_ptr, self._couple_ind = rows, pattern.indices[self._coupling] - 3 * nodes
        self.points = levels.points()
        self._coarse = _coarse_pattern(self.graph, self.points)
        self._factors = make(self._coarse.indptr, self._coarse.indices)
        self._free = (~levels.held[: 3 * nodes]).astype(float).reshape(-1, 3)
        # without the factors on the coarse level: they ask for themselves, once they are analysed
        self._facts = Facts(
            36.0 * len(self.graph.indices) + 12.0 * len(self._coupling) + 12.0 * len(self._coarse.indices)
        )

    @property
    def counts(self) -> bool:
        """Whether factors have taken its place that count negative pivots."""
        return self._direct is not None and self._direct.counts

    @property
    def exact(self) -> bool:
        """Whether factors have taken its place."""
        return self._direct is not None

    @property
    def memory(self) -> float:
        """Bytes that are needed at the peak, without those of factors on the coarse level."""
        return self._facts.memory if self._direct is None else self._direct.memory

    @property
    def pivots(self) -> Pivots:
        """Pivots of the factors that have taken its place."""
        return self._facts.pivots if self._direct is None else self._direct.pivots

    def place(self, x: Floats) -> None:
        """Take note of where the next matrix is."""
        self._x = x

    def factorise(self, data: Floats) -> None:
        """Set up both levels, or factorise (see `Factoriser`)."""
        if self._direct is not None:
            self._direct.factorise(data)
            return
        self.refuse_if_too_large()
        try:
            self.made = self._set_up(data)
        except FactorisationError:  # what is singular on one level need not be so on both
            self.strengthen()
            self.factorise(data)

    def _set_up(self, data: Floats) -> Cycle:
        """Make what smooths, the coarse matrix and its factors, and the substitute for the pressures."""
        pattern, levels, points = self.pattern, self.levels, self.points
        size, ptr, ind = 3 * levels.nodes, self.graph.indptr, self.graph.indices
        blocks = np.empty((len(ind), 3, 3), dtype=np.float32)
        _spread(pattern.indptr, data, ptr, ind, blocks)
        penalty = np.zeros_like(blocks)
        levels.penalty(self._x, ptr, ind, penalty)
        free = self._free.astype(np.float32)
        penalty *= np.repeat(free, np.diff(ptr), axis=0)[:, :, None]
        penalty *= free[ind][:, None]
        blocks += penalty
        own = blocks[ind == np.repeat(np.arange(levels.nodes), np.diff(ptr))].astype(float)
        minors, determinant = cofactors(own), det(own)[:, None, None]
        # of the largest diagonal: the cube root of the determinant of a block that cannot be inverted
        min_block_stiffness_rel = 1e-6
        if not (np.abs(determinant) > (min_block_stiffness_rel * np.abs(np.einsum("nii->ni", own)).max()) ** 3).all():
            raise FactorisationError("the equations of a node are singular")
        inverse = np.ascontiguousarray(minors.transpose(0, 2, 1) / determinant)
        motions = levels.motions(points, self._x, np.asarray(self._free.all(axis=1))) * self._free[:, None, :, None]
        lift = _lift(points, motions, self._coarse.size)
        coarse, values = self._coarse, np.zeros(len(self._coarse.indices))
        _galerkin(ptr, ind, blocks, motions, points, coarse.indptr, coarse.indices, values)
        first = coarse.indptr[:-1]
        values[first] = np.where(values[first] > 0.0, values[first], 1.0)  # points that move nothing
        self._factors.factorise(values)
        shape = (size, self.size - size)
        b = csr_matrix((data[self._coupling], self._couple_ind, self._couple_ptr), shape=shape)
        held = levels.held[size:]
        below = -data[pattern.indptr[size:-1]]
        schur, weight = np.where(held, -1.0, 0.5 * levels.lumps + below), np.where(held, 0.0, 1.0 / levels.lumps)
        return Cycle(blocks, inverse, lift, b, b.T.tocsr(), schur, weight)

    def solve(self, right: Floats) -> Floats:
        """Return about the solutions for right-hand sides (size,) or (size, r)."""
        if self._direct is not None:
            return self._direct.solve(right)
        if right.ndim == 2:
            return np.stack([self.solve(np.ascontiguousarray(column)) for column in right.T], axis=1)
        assert self.made is not None
        size, made = 3 * self.levels.nodes, self.made
        given, missing = right[:size], right[size:]
        u = self._cycle(made, given + made.b @ (made.weight * missing))
        p = (made.bt @ u - missing) / made.schur
        return np.concatenate([u, p])

    def _cycle(self, made: Cycle, right: Floats) -> Floats:
        """One V-cycle from zero."""
        u = np.zeros_like(right)
        matrix = self.graph.indptr, self.graph.indices, made.blocks
        _sweep(*matrix, made.inverse, right, u, False)
        left = np.empty_like(right)
        _residual(*matrix, right, u, left)
        u += made.lift @ self._factors.solve(made.lift.T @ left)
        _sweep(*matrix, made.inverse, right, u, True)
        return u

    def strengthen(self) -> bool:
        """Switch to factors; then to what is more robust than these."""
        if self._direct is not None:
            return self._direct.strengthen()
        self._factors.close()
        self._direct = self._make(self.pattern.indptr, self.pattern.indices)
        return True

    def count_negative(self) -> int:
        """Return the number of negative eigenvalues of the factorised matrix, -1 where there are no factors."""
        return -1 if self._direct is None else self._direct.count_negative()

    def close(self) -> None:
        """Release the memory of the factors."""
        (self._direct or self._factors).close()


def _graph(pattern: Sparsity, nodes: int) -> Sparsity:
    """Pattern of the whole matrix between nodes."""
    ones = np.ones(len(pattern.indices), dtype=bool)
    rows = csr_matrix((ones, pattern.indices, pattern.indptr), shape=(pattern.size,) * 2)
    upper = rows[: 3 * nodes : 3, : 3 * nodes : 3]
    return _pattern_of((upper + upper.T).tocsr())


def _pattern_of(graph: csr_matrix) -> Sparsity:
    graph.sort_indices()
    return Sparsity(graph.indptr.astype(np.int64), graph.indices.astype(np.int64))


def _coarse_pattern(graph: Sparsity, points: Ints) -> Sparsity:
    """Pattern of the upper triangle on the coarse level, three unknowns a point."""
    nodes, count = len(points), int(points.max()) + 1
    ones = np.ones(2 * nodes, dtype=bool)
    lift = csr_matrix((ones, (np.repeat(np.arange(nodes), 2), points.ravel())), shape=(nodes, count))
    fine = csr_matrix((np.ones(len(graph.indices), dtype=bool), graph.indices, graph.indptr), shape=(nodes, nodes))
    near = _pattern_of(triu(lift.T.tocsr() @ (fine @ lift), format="csr"))
    none = np.empty(0, dtype=np.int64)
    return in_threes(near, *(Sparsity(np.zeros(rows + 1, dtype=np.int64), none) for rows in (count, 0)))


def _lift(points: Ints, motions: Floats, size: int) -> csr_matrix:
    """Return what takes a vector of the coarse level to the nodes, each by the motions (n, 2, 3, 3) of its points."""
    columns = np.broadcast_to(3 * points[:, None, :, None] + np.arange(3), (len(points), 3, 2, 3)).ravel()
    rows = np.arange(0, 18 * len(points) + 1, 6)
    lift = csr_matrix((motions.transpose(0, 2, 1, 3).ravel(), columns, rows), shape=(3 * len(points), size))
    lift.eliminate_zeros()
    return lift


def groups_of_neighbours(ptr: Ints, ind: Ints) -> Ints:
    """Return the translation and the rotation, numbered from 0, of the group of every node of a graph, (n, 2)."""
    groups = np.full(len(ptr) - 1, -1)
    _gather(ptr, ind, groups)
    return 2 * groups[:, None] + np.arange(2)


def rigid_motions(points: Ints, x: Floats, free: Bools) -> Floats:
    """Return how nodes at positions (n, 3) move with their groups, (n, 2, 3, 3): dx = du + w x (x - c) / h, c a mean.

    h is the mean arm. A group whose free nodes are nearly on a line does not turn, for nothing would resist.
    """
    groups = points[:, 0] // 2
    count, mine = int(groups.max()) + 1, free.astype(float)
    mass = np.maximum(np.bincount(groups, mine, count), 1.0)
    arms = x - np.stack([np.bincount(groups, mine * x[:, i], count) / mass for i in range(3)], axis=1)[groups]
    arms /= max(float(np.sqrt(np.mean(arms**2))), np.finfo(float).tiny)
    squares = mine * np.einsum("ni,nj->ijn", arms, arms)
    spread = np.array([[np.bincount(groups, one, count) for one in row] for row in squares]).transpose(2, 0, 1)
    # least of the second largest moment over the largest: arms that lie within a tenth of a line
    min_width_rel = 0.01
    moments = np.linalg.eigvalsh(spread)
    turns = (moments[:, 1] > min_width_rel * moments[:, 2])[groups]
    out = np.zeros((len(x), 2, 3, 3))
    out[:, 0] = np.eye(3)
    out[:, 1] = turns[:, None, None] * np.cross(np.eye(3), arms[:, None, :]).transpose(0, 2, 1)
    return out


@kernel
def _spread(indptr, data, ptr, ind, blocks):
    """Write the blocks of the whole matrix from the upper triangle, in the order of `_graph`."""
    nodes = len(ptr) - 1
    there = np.zeros(nodes, dtype=np.int64)
    for a in range(nodes):
        first = ptr[a] + there[a]
        for at in range(first, ptr[a + 1]):
            b, k = ind[at], at - first
            other = ptr[b] + there[b]
            for i in range(3):
                for j in range(i if a == b else 0, 3):
                    value = data[indptr[3 * a + i] + 3 * k - i + j]
                    blocks[at, i, j] = value
                    blocks[other if a != b else at, j, i] = value
            if a != b:
                there[b] += 1


@kernel(inline="always")
def _left(ptr, ind, blocks, right, u, a):
    """The remainder of the right-hand side at node a."""
    x, y, z = right[3 * a], right[3 * a + 1], right[3 * a + 2]
    for at in range(ptr[a], ptr[a + 1]):
        b, d = 3 * ind[at], blocks[at]
        p, q, r = u[b], u[b + 1], u[b + 2]
        x -= d[0, 0] * p + d[0, 1] * q + d[0, 2] * r
        y -= d[1, 0] * p + d[1, 1] * q + d[1, 2] * r
        z -= d[2, 0] * p + d[2, 1] * q + d[2, 2] * r
    return x, y, z


@kernel(fastmath=True)
def _sweep(ptr, ind, blocks, inverse, right, u, backwards):
    """One sweep of Gauss-Seidel, node by node."""
    nodes = len(ptr) - 1
    for step in range(nodes):
        a = nodes - 1 - step if backwards else step
        x, y, z = _left(ptr, ind, blocks, right, u, a)
        c = inverse[a]
        u[3 * a] += c[0, 0] * x + c[0, 1] * y + c[0, 2] * z
        u[3 * a + 1] += c[1, 0] * x + c[1, 1] * y + c[1, 2] * z
        u[3 * a + 2] += c[2, 0] * x + c[2, 1] * y + c[2, 2] * z


@kernel(fastmath=True)
def _residual(ptr, ind, blocks, right, u, left):
    """Write the remainder of the right-hand side."""
    for a in range(len(ptr) - 1):
        left[3 * a], left[3 * a + 1], left[3 * a + 2] = _left(ptr, ind, blocks, right, u, a)


@kernel
def _galerkin(ptr, ind, blocks, motions, points, indptr, indices, values):
    """Add R A R^T to the upper triangle on the coarse level, where R^T moves every node with its points."""
    half = np.empty((3, 3))
    for a in range(len(ptr) - 1):
        for at in range(ptr[a], ptr[a + 1]):
            b = ind[at]
            for m in range(2):
                column = points[b, m]
                for i in range(3):
                    for j in range(3):
                        half[i, j] = 0.0
                        for k in range(3):
                            half[i, j] += blocks[at, i, k] * motions[b, m, k, j]
                for n in range(2):
                    row = points[a, n]
                    if column < row:
                        continue
                    start, end = indptr[3 * row], indptr[3 * row + 1]
                    rank = find_sorted(indices, start, end, 3 * column) - start
                    for i in range(3):
                        to = indptr[3 * row + i] + rank - i
                        for j in range(i if row == column else 0, 3):
                            for k in range(3):
                                values[to + j] += motions[a, n, k, i] * half[k, j]


@kernel
def _gather(ptr, ind, groups):
    """Number groups: nodes with all their neighbours where none of them has a group yet, then what is left with its first one."""
    count = 0
    for a in range(len(groups)):
        alone = True
        for at in range(ptr[a], ptr[a + 1]):
            alone = alone and groups[ind[at]] < 0
        if alone:
            for at in range(ptr[a], ptr[a + 1]):
                groups[ind[at]] = count
            count += 1
    for a in range(len(groups)):
        for at in range(ptr[a], ptr[a + 1]):
            if groups[a] < 0 <= groups[ind[at]]:
                groups[a] = groups[ind[at]]
