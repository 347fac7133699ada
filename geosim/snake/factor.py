"""Direct solution of the symmetric positive definite systems of a step.

The slots (3 unknowns each) are ordered in the levels of a breadth-first walk through the robot: an element couples
only neighbouring levels, so the matrix is block-tridiagonal whatever the robot is; for a snake the levels are its
cross-sections. With D_i on the diagonal and C_i between the levels i and i + 1 the factorisation is

    T_i^T T_i = D_i,    U_i = T_i^-T C_i,    D_(i+1) <- D_(i+1) - U_i^T U_i.

Rows are padded to whole vector registers, every inner loop runs along a row, and four rows take four terms at a
time. Single precision is enough for a factor that only preconditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel

__all__ = ["BlockTridiagonal", "SparseFactor", "multiply", "residual_minimum"]

_PAD = 16  # numbers a row is padded to: one 512-bit register in single precision


@kernel(fastmath=True)
def _subtract(A, X, out, r0, r1, depth, upper):
    """out[r] -= sum_(k < depth) A[k, r] X[k] for r0 <= r < r1; with `upper` only columns from r on."""
    width = out.shape[1]
    for r in range(r0, r1, 4):
        left = (r // 8) * 8 if upper else 0
        if r + 4 > r1:
            for s in range(r, r1):
                o = out[s, left:width]
                for k in range(depth):
                    a, x = A[k, s], X[k, left:width]
                    for j in range(width - left):
                        o[j] -= a * x[j]
            continue
        o0, o1, o2, o3 = out[r, left:width], out[r + 1, left:width], out[r + 2, left:width], out[r + 3, left:width]
        k = 0
        while k + 4 <= depth:
            x0, x1, x2, x3 = X[k, left:width], X[k + 1, left:width], X[k + 2, left:width], X[k + 3, left:width]
            a00, a01, a02, a03 = A[k, r], A[k, r + 1], A[k, r + 2], A[k, r + 3]
            a10, a11, a12, a13 = A[k + 1, r], A[k + 1, r + 1], A[k + 1, r + 2], A[k + 1, r + 3]
            a20, a21, a22, a23 = A[k + 2, r], A[k + 2, r + 1], A[k + 2, r + 2], A[k + 2, r + 3]
            a30, a31, a32, a33 = A[k + 3, r], A[k + 3, r + 1], A[k + 3, r + 2], A[k + 3, r + 3]
            for j in range(width - left):
                v0, v1, v2, v3 = x0[j], x1[j], x2[j], x3[j]
                o0[j] -= a00 * v0 + a10 * v1 + a20 * v2 + a30 * v3
                o1[j] -= a01 * v0 + a11 * v1 + a21 * v2 + a31 * v3
                o2[j] -= a02 * v0 + a12 * v1 + a22 * v2 + a32 * v3
                o3[j] -= a03 * v0 + a13 * v1 + a23 * v2 + a33 * v3
            k += 4
        while k < depth:
            x0 = X[k, left:width]
            a00, a01, a02, a03 = A[k, r], A[k, r + 1], A[k, r + 2], A[k, r + 3]
            for j in range(width - left):
                v0 = x0[j]
                o0[j] -= a00 * v0
                o1[j] -= a01 * v0
                o2[j] -= a02 * v0
                o3[j] -= a03 * v0
            k += 1


@kernel(fastmath=True)
def _upper_factor(D, n, tolerance):
    """Replace the upper triangle of D by T with T^T T = D; False if a pivot is not above `tolerance`."""
    width = D.shape[1]
    for r0 in range(0, n, 4):
        r1 = min(r0 + 4, n)
        _subtract(D, D, D, r0, r1, r0, True)
        for r in range(r0, r1):
            row = D[r]
            for k in range(r0, r):
                a, t = D[k, r], D[k]
                for j in range(r, width):
                    row[j] -= a * t[j]
            if not row[r] > tolerance:
                return False
            s = row[r] ** -0.5
            for j in range(r, width):
                row[j] *= s
    return True


@kernel(fastmath=True)
def _solve_rows(T, U, n):
    """U <- T^-T U, rows of U in place."""
    width = U.shape[1]
    for r0 in range(0, n, 4):
        r1 = min(r0 + 4, n)
        _subtract(T, U, U, r0, r1, r0, False)
        for r in range(r0, r1):
            row = U[r]
            for k in range(r0, r):
                a, u = T[k, r], U[k]
                for j in range(width):
                    row[j] -= a * u[j]
            s = 1.0 / T[r, r]
            for j in range(width):
                row[j] *= s


@kernel
def _factor(buffer, sizes, widths, diagonal, coupling, tolerance):
    """Factor all levels in place; returns -1, or the level whose pivot failed."""
    for i in range(len(sizes)):
        n, w = sizes[i], widths[i]
        D = buffer[diagonal[i] : diagonal[i] + n * w].reshape(n, w)
        if not _upper_factor(D, n, tolerance):
            return i
        if coupling[i] >= 0:
            m, v = sizes[i + 1], widths[i + 1]
            U = buffer[coupling[i] : coupling[i] + n * v].reshape(n, v)
            _solve_rows(D, U, n)
            E = buffer[diagonal[i + 1] : diagonal[i + 1] + m * v].reshape(m, v)
            _subtract(U, U, E, 0, m, n, True)
    return -1


@kernel(fastmath=True)
def _push_four(M, r, left, right, v0, v1, v2, v3, y):
    """y[j] -= sum of four rows r .. r + 3 of M times v, for columns [left, right); y starts at column 0."""
    m0, m1, m2, m3 = M[r, left:right], M[r + 1, left:right], M[r + 2, left:right], M[r + 3, left:right]
    out = y[left:right]
    for j in range(right - left):
        out[j] -= v0 * m0[j] + v1 * m1[j] + v2 * m2[j] + v3 * m3[j]


@kernel(fastmath=True)
def _pull_four(M, r, left, right, y, sums):
    """sums[k] -= row r + k of M times y, four rows, columns [left, right)."""
    m0, m1, m2, m3 = M[r, left:right], M[r + 1, left:right], M[r + 2, left:right], M[r + 3, left:right]
    x = y[left:right]
    s0 = s1 = s2 = s3 = M[r, r] * 0
    for j in range(right - left):
        v = x[j]
        s0 += m0[j] * v
        s1 += m1[j] * v
        s2 += m2[j] * v
        s3 += m3[j] * v
    sums[0] -= s0
    sums[1] -= s1
    sums[2] -= s2
    sums[3] -= s3


@kernel(fastmath=True)
def _solve(buffer, sizes, widths, diagonal, coupling, starts, y):
    """Solve in place for one right-hand side in elimination order, four rows at a time."""
    count = len(sizes)
    v = np.zeros(4, dtype=buffer.dtype)
    for i in range(count):
        n, w, s = sizes[i], widths[i], starts[i]
        T = buffer[diagonal[i] : diagonal[i] + n * w].reshape(n, w)
        m, wide, t = (sizes[i + 1], widths[i + 1], starts[i + 1]) if coupling[i] >= 0 else (0, 0, 0)
        U = buffer[coupling[i] : coupling[i] + n * wide].reshape(n, wide) if m > 0 else T
        own, next_own = y[s : s + n], y[t : t + m]
        for r0 in range(0, n, 4):
            r1 = min(r0 + 4, n)
            for r in range(r0, r1):
                for k in range(r0, r):
                    own[r] -= T[k, r] * own[k]
                own[r] /= T[r, r]
                v[r - r0] = own[r]
            if r1 - r0 == 4:
                _push_four(T, r0, r1, n, v[0], v[1], v[2], v[3], own)
                if m > 0:
                    _push_four(U, r0, 0, m, v[0], v[1], v[2], v[3], next_own)
                continue
            for r in range(r0, r1):
                for j in range(m):
                    next_own[j] -= own[r] * U[r, j]
    for i in range(count - 1, -1, -1):
        n, w, s = sizes[i], widths[i], starts[i]
        T = buffer[diagonal[i] : diagonal[i] + n * w].reshape(n, w)
        m, wide, t = (sizes[i + 1], widths[i + 1], starts[i + 1]) if coupling[i] >= 0 else (0, 0, 0)
        U = buffer[coupling[i] : coupling[i] + n * wide].reshape(n, wide) if m > 0 else T
        own, next_own = y[s : s + n], y[t : t + m]
        for r0 in range((n - 1) // 4 * 4, -1, -4):
            r1 = min(r0 + 4, n)
            for r in range(r0, r1):
                v[r - r0] = own[r]
            if r1 - r0 == 4:
                _pull_four(T, r0, r1, n, own, v)
                if m > 0:
                    _pull_four(U, r0, 0, m, next_own, v)
            else:
                for r in range(r0, r1):
                    for j in range(m):
                        v[r - r0] -= U[r, j] * next_own[j]
            for r in range(r1 - 1, r0 - 1, -1):
                for k in range(r + 1, r1):
                    v[r - r0] -= T[r, k] * own[k]
                own[r] = v[r - r0] / T[r, r]


@kernel
def _scatter(blocks, place, stride, buffer):
    """Write the lower 3x3 blocks transposed to their place in the upper levels (place < 0: left out)."""
    for k in range(len(blocks)):
        p, s = place[k], stride[k]
        if p < 0:
            continue
        for i in range(3):
            for j in range(3):
                buffer[p + j * s + i] = blocks[k, i, j]


@kernel(fastmath=True)
def multiply(blocks, rows, columns, v, out):
    """Out = A v for the symmetric matrix whose lower 3x3 blocks are given; v and out (slots, 3)."""
    out[:] = 0.0
    for k in range(len(blocks)):
        r, c = rows[k], columns[k]
        H = blocks[k]
        v0, v1, v2 = v[c, 0], v[c, 1], v[c, 2]
        for i in range(3):
            out[r, i] += H[i, 0] * v0 + H[i, 1] * v1 + H[i, 2] * v2
        if r != c:
            w0, w1, w2 = v[r, 0], v[r, 1], v[r, 2]
            for i in range(3):
                out[c, i] += H[0, i] * w0 + H[1, i] * w1 + H[2, i] * w2


def residual_minimum(
    apply: Callable[[Floats, Floats], None],
    solve: Callable[[Floats], Floats],
    right: Floats,
    forcing: float,
    iterations: int,
) -> tuple[Floats, int]:
    """Solve A x = right, A near the matrix that `solve` inverts, by generalised minimal residuals.

    Parameters
    ----------
    apply
        apply(v, out) writes A v.
    solve
        Preconditioner, applied from the right, so that the residual is that of the system itself.
    forcing
        Relative residual at which to stop.
    iterations
        At most so many.
    """
    size = float(np.linalg.norm(right))
    if size == 0.0:
        return np.zeros_like(right), 0
    basis, searched = [right / size], []
    H = np.zeros((iterations + 1, iterations))
    out = np.empty_like(right)
    for k in range(iterations):
        searched.append(solve(basis[k]))
        apply(searched[k], out)
        w = out.copy()
        for j in range(k + 1):
            H[j, k] = np.vdot(basis[j], w)
            w -= H[j, k] * basis[j]
        H[k + 1, k] = np.linalg.norm(w)
        goal = np.zeros(k + 2)
        goal[0] = size
        y, *_ = np.linalg.lstsq(H[: k + 2, : k + 1], goal, rcond=None)
        left = float(np.linalg.norm(H[: k + 2, : k + 1] @ y - goal))
        if left <= forcing * size or H[k + 1, k] <= 1e-14 * size:
            break
        basis.append(w / H[k + 1, k])
    x = np.zeros_like(right)
    for a, z in zip(y, searched):
        x += a * z
    return x, len(searched)


@dataclass
class BlockTridiagonal:
    """Workspace of the block-tridiagonal factorisation of one sparsity pattern.

    Parameters
    ----------
    rows, columns
        Slots of the lower 3x3 blocks, shape (nnz,).
    level, rank
        Level and place in the elimination order of every slot, shape (slots,).
    single
        Factor in single precision.
    """

    rows: Ints
    columns: Ints
    level: Ints
    rank: Ints
    single: bool = False
    sizes: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count = int(self.level.max()) + 1
        self.sizes = 3 * np.bincount(self.level, minlength=count).astype(np.int64)
        self._widths = (self.sizes + _PAD - 1) // _PAD * _PAD
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])[:-1]
        coupled = np.zeros(count, dtype=bool)
        lower, upper = self.level[self.columns], self.level[self.rows]
        coupled[lower[upper != lower]] = True
        diagonal_size = self.sizes * self._widths
        coupling_size = np.where(coupled, self.sizes * np.append(self._widths[1:], 0), 0)
        ends = np.cumsum(np.column_stack([diagonal_size, coupling_size]).ravel())
        begins = np.concatenate([[0], ends])[:-1].reshape(-1, 2)
        self._diagonal = np.ascontiguousarray(begins[:, 0])
        self._coupling = np.where(coupled, begins[:, 1], -1)
        self._buffer = np.zeros(int(ends[-1]), dtype=np.float32 if self.single else np.float64)
        local = 3 * self.rank - self._starts[self.level]
        same = lower == upper
        base = np.where(same, self._diagonal[lower], self._coupling[lower])
        self._stride = np.where(same, self._widths[lower], self._widths[upper])
        self._place = base + local[self.columns] * self._stride + local[self.rows]
        self._order = np.argsort(self.rank)

    @property
    def cost(self) -> float:
        """Multiplications of one factorisation."""
        n = self.sizes.astype(float)
        m = np.where(self._coupling >= 0, np.append(n[1:], 0.0), 0.0)
        return float((n**3 / 6 + n**2 * m / 2 + n * m**2 / 2).sum())

    def factor(self, blocks: Floats) -> bool:
        """Factor the matrix of these lower blocks (nnz, 3, 3); False if it is not positive definite."""
        self._buffer[:] = 0
        _scatter(blocks, self._place, self._stride, self._buffer)
        failed = _factor(self._buffer, self.sizes, self._widths, self._diagonal, self._coupling, 0.0)
        return bool(failed < 0)

    def solve(self, right: Floats) -> Floats:
        """Return the solution for a right-hand side (slots, 3)."""
        y = right[self._order].astype(self._buffer.dtype).ravel()
        _solve(self._buffer, self.sizes, self._widths, self._diagonal, self._coupling, self._starts, y)
        out = np.empty_like(right)
        out[self._order] = y.reshape(-1, 3)
        return out


@dataclass
class SparseFactor:
    """General sparse factorisation (SuperLU) for robots whose levels are too wide for the blocks."""

    rows: Ints
    columns: Ints
    count: int
    _lu: Any = field(default=None, init=False, repr=False)

    def factor(self, blocks: Floats) -> bool:
        """Factor the matrix of these lower blocks (nnz, 3, 3); False if it is singular."""
        off = self.rows != self.columns
        rows, columns = (
            np.concatenate([self.rows, self.columns[off]]),
            np.concatenate([self.columns, self.rows[off]]),
        )
        values = np.concatenate([blocks, blocks[off].transpose(0, 2, 1)])
        i = np.broadcast_to(3 * rows[:, None, None] + np.arange(3)[:, None], values.shape).ravel()
        j = np.broadcast_to(3 * columns[:, None, None] + np.arange(3), values.shape).ravel()
        matrix = scipy.sparse.coo_matrix((values.ravel(), (i, j)), shape=(3 * self.count, 3 * self.count)).tocsc()
        try:
            self._lu = scipy.sparse.linalg.splu(
                matrix, diag_pivot_thresh=0.0, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
            )
        except RuntimeError:
            return False
        # With symmetric pivoting the signs of U's diagonal are those of the pivots.
        symmetric = bool((self._lu.perm_r == self._lu.perm_c).all())
        return not symmetric or bool((self._lu.U.diagonal() > 0).all())

    def solve(self, right: Floats) -> Floats:
        """Return the solution for a right-hand side (slots, 3)."""
        return self._lu.solve(right.ravel()).reshape(-1, 3)
