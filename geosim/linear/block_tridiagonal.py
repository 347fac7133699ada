"""Direct solution of symmetric positive definite systems of 3x3 blocks: block-tridiagonal, in tiles; and by SuperLU.

The slots (3 unknowns each) are ordered in the levels of a breadth-first walk through the robot: an element couples
only neighbouring levels, so the matrix is block-tridiagonal whatever the robot is; for a snake the levels are its
cross-sections. With D_i on the diagonal and C_i between the levels i and i + 1 the factorisation is

    T_i^T T_i = D_i,    U_i = T_i^-T C_i,    D_(i+1) <- D_(i+1) - U_i^T U_i.

Inside a level the slots follow a sweep across it (`sweep_order`). A row of C_i then reaches only so far, U_i fills no
further than the furthest reach of the rows above, and what lies beyond is skipped: that leaves half of the work.
All is done in tiles of 8 by 8, whose products are held in vector registers over the whole sum; levels are padded to whole
tiles with unit pivots. D_i and C_i are stored in panels of eight columns, row after row of eight numbers, so that a sum over rows
reads what lies in a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel

_TILE = 8  # rows and columns of a tile; 8 numbers fill a vector register, or two


def _tile_code(typingctx, out, out_at, out_row, left, left_at, left_row, right, right_at, right_row, terms, subtract):
    """Multiply into an 8x8 tile of flat arrays; each has the index of its first number and the length of its rows.

    out[i, j] -= sum_(k < terms) left[k, i] right[k, j], or without `subtract` out[i, j] = + that sum. Every term is
    read before the tile is written, so `right` may be `out`. Written in the compiler's own terms because loops over arrays,
    vector instructions of them or scalars for a row of sums, take three times as long: a frame of a snake a third more.
    """
    place = (types.int64, types.int64)
    signature = types.void(out, *place, left, *place, right, *place, types.int64, types.boolean)

    def codegen(context, builder, sig, args):
        bits = out.dtype.bitwidth
        align = bits // 8
        vector, small = ir.VectorType(context.get_value_type(out.dtype), _TILE), ir.IntType(32)
        data_o, data_a, data_x = (context.make_array(sig.args[k])(context, builder, args[k]).data for k in (0, 3, 6))
        o, so, a, sa, x, sx, count, minus = (args[k] for k in (1, 2, 4, 5, 7, 8, 9, 10))
        at = lambda data, index: builder.gep(data, [index], inbounds=True)  # noqa: E731
        wide = lambda data, index: builder.bitcast(at(data, index), vector.as_pointer())  # noqa: E731
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_TILE}f{bits}"
        )
        places = [builder.add(o, builder.mul(so, ir.Constant(o.type, i))) for i in range(_TILE)]
        zero, empty = ir.Constant(vector, None), ir.Constant(vector, ir.Undefined)
        first_lane = ir.Constant(ir.VectorType(small, _TILE), [0] * _TILE)
        sums = []
        for place in places:
            slot = cgutils.alloca_once(builder, vector)
            builder.store(builder.select(minus, builder.load(wide(data_o, place), align=align), zero), slot)
            sums.append(slot)
        with cgutils.for_range(builder, count) as loop:
            row = builder.load(wide(data_x, builder.add(x, builder.mul(loop.index, sx))), align=align)
            row = builder.select(minus, builder.fneg(row), row)
            first = builder.add(a, builder.mul(loop.index, sa))
            for i, slot in enumerate(sums):
                number = builder.load(at(data_a, builder.add(first, ir.Constant(first.type, i))))
                spread = builder.insert_element(empty, number, ir.Constant(small, 0))
                spread = builder.shuffle_vector(spread, empty, first_lane)
                builder.store(builder.call(fma, [spread, row, builder.load(slot)]), slot)
        for place, slot in zip(places, sums):
            builder.store(builder.load(slot), wide(data_o, place), align=align)
        return context.get_dummy_value()

    return signature, codegen


_tile: Any = intrinsic(_tile_code)


@kernel
def _invert(buffer, at, stride, out):
    """Factor the 8x8 upper triangle at `at` of a flat array, T^T T, and write T^-1 (row by row) to `out`.

    Returns whether all pivots are positive; the tile is written over. Rows are taken whole, with what is below the diagonal:
    loops of known length become vector instructions.
    """
    one = buffer.dtype.type(1)
    for i in range(8):
        row = at + i * stride
        pivot = buffer[row + i]
        if not pivot > 0.0:
            return False
        buffer[out + 9 * i] = share = one / np.sqrt(pivot)
        for j in range(8):
            buffer[row + j] *= share
        for k in range(i + 1, 8):
            factor, below = buffer[row + k], at + k * stride
            for j in range(8):
                buffer[below + j] -= factor * buffer[row + j]
    for i in range(7, -1, -1):
        row, to = at + i * stride, out + 8 * i
        share = buffer[to + i]
        buffer[to : to + 8] = 0.0
        buffer[to + i] = one
        for k in range(i + 1, 8):
            factor, later = buffer[row + k], out + 8 * k
            for j in range(8):
                buffer[to + j] -= factor * buffer[later + j]
        for j in range(8):
            buffer[to + j] *= share
    return True


@kernel
def _factor(buffer, sizes, diagonal, coupling, inverse, starts, reach):
    """Factor all levels in place; returns -1, or the level whose pivot failed.

    Sizes and reaches are multiples of 8: row r of the coupling of level i is zero from column
    reach[(starts[i] + r) // 8] on. Column c + j of row k of a block of n rows stands at c * n + 8 * k + j.
    """
    for i in range(len(sizes)):
        n, D, I = sizes[i], diagonal[i], inverse[i]  # noqa: E741
        for r in range(0, n, 8):
            left = D + r * n
            for c in range(r, n, 8):
                _tile(buffer, D + c * n + 8 * r, 8, buffer, left, 8, buffer, D + c * n, 8, r, True)
            if not _invert(buffer, left + 8 * r, 8, I + 8 * r):
                return i
            for c in range(r + 8, n, 8):
                at = D + c * n + 8 * r
                _tile(buffer, at, 8, buffer, I + 8 * r, 8, buffer, at, 8, 8, False)
        if coupling[i] < 0:
            continue
        m, U, E = sizes[i + 1], coupling[i], diagonal[i + 1]
        own = reach[starts[i] // 8 : (starts[i] + n) // 8]
        for r in range(0, n, 8):
            first = 0
            for c in range(0, own[r // 8], 8):
                while own[first // 8] <= c:  # the rows above `first` do not reach this column
                    first += 8
                at, left, top = U + c * n + 8 * r, D + r * n + 8 * first, U + c * n + 8 * first
                _tile(buffer, at, 8, buffer, left, 8, buffer, top, 8, r - first, True)
                _tile(buffer, at, 8, buffer, I + 8 * r, 8, buffer, at, 8, 8, False)
        for r in range(0, m, 8):
            first = 0
            for c in range(r, m, 8):
                while first < n and own[first // 8] <= c:
                    first += 8
                if first < n:
                    left, top = U + r * n + 8 * first, U + c * n + 8 * first
                    _tile(buffer, E + c * m + 8 * r, 8, buffer, left, 8, buffer, top, 8, n - first, True)
    return -1


def _panel_code(typingctx, panel, at, rows, x, start, v, onto):
    """Multiply a panel, rows of eight numbers from `at` on in a flat array, with a vector x from `start` on, or with v (8,).

    v[j] -= sum_k panel[k, j] x[start + k], or with `onto` x[start + k] -= sum_j panel[k, j] v[j]; rows are a multiple of 8.
    What is read lies in a row, each number once: larger than the caches, it is what a solution waits for.
    """
    index = types.int64
    signature = types.void(panel, index, index, x, index, v, onto)

    def codegen(context, builder, sig, args):
        bits = panel.dtype.bitwidth
        align = bits // 8
        vector, small = ir.VectorType(context.get_value_type(panel.dtype), _TILE), ir.IntType(32)
        data_m, data_x, data_v = (context.make_array(sig.args[k])(context, builder, args[k]).data for k in (0, 3, 5))
        first, count, begin = (args[k] for k in (1, 2, 4))
        word = first.type
        wide = lambda data, index: builder.bitcast(builder.gep(data, [index]), vector.as_pointer())  # noqa: E731
        load = lambda data, index: builder.load(wide(data, index), align=align)  # noqa: E731
        lanes = lambda numbers: ir.Constant(ir.VectorType(small, _TILE), list(numbers))  # noqa: E731
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_TILE}f{bits}"
        )
        empty, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, None)
        own = wide(data_v, ir.Constant(word, 0))
        shares = builder.load(own, align=align)
        # four sums, because one would wait for itself
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]
        with cgutils.for_range(builder, builder.udiv(count, ir.Constant(word, _TILE))) as loop:
            k = builder.mul(loop.index, ir.Constant(word, _TILE))
            place = builder.add(first, builder.mul(k, ir.Constant(word, _TILE)))
            row = [load(data_m, builder.add(place, ir.Constant(word, _TILE * i))) for i in range(_TILE)]
            met = load(data_x, builder.add(begin, k))
            if onto.literal_value:
                row = [builder.fmul(entries, shares) for entries in row]
                while len(row) > 1:  # sums of neighbours, three times
                    row = [
                        builder.fadd(*(builder.shuffle_vector(a, b, lanes(range(i, 2 * _TILE, 2))) for i in (0, 1)))
                        for a, b in zip(row[::2], row[1::2])
                    ]
                builder.store(builder.fsub(met, row[0]), wide(data_x, builder.add(begin, k)), align=align)
            else:
                for i, entries in enumerate(row):
                    spread, slot = builder.shuffle_vector(met, empty, lanes([i] * _TILE)), sums[i % 4]
                    builder.store(builder.call(fma, [spread, entries, builder.load(slot)]), slot)
        if not onto.literal_value:
            a, b, c, d = (builder.load(slot) for slot in sums)
            total = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
            builder.store(builder.fsub(shares, total), own, align=align)
        return context.get_dummy_value()

    return signature, codegen


_panel: Any = intrinsic(prefer_literal=True)(_panel_code)


@kernel
def _forward(buffer, sizes, diagonal, coupling, inverse, starts, reach, places, right, y):
    """Y = T^-T right in elimination order, eight rows at a time; `right` (slots, 3) belongs to the `places`, (slots, 3)."""
    v = np.empty(8, dtype=buffer.dtype)
    y[:] = 0.0
    for s in range(len(right)):
        for i in range(3):
            y[places[s, i]] = right[s, i]
    for i in range(len(sizes)):
        n, s, first = sizes[i], starts[i], 0
        for r in range(0, n, 8):
            v[:] = y[s + r : s + r + 8]
            _panel(buffer, diagonal[i] + r * n, r, y, s, v, False)
            if i > 0 and coupling[i - 1] >= 0:
                m, begin = sizes[i - 1], starts[i - 1]
                while first < m and reach[(begin + first) // 8] <= r:
                    first += 8
                _panel(buffer, coupling[i - 1] + r * m + 8 * first, m - first, y, begin + first, v, False)
            T = inverse[i] + 8 * r
            for a in range(8):
                total = buffer.dtype.type(0)
                for k in range(a + 1):
                    total += buffer[T + 8 * k + a] * v[k]
                y[s + r + a] = total


@kernel
def _backward(buffer, sizes, diagonal, coupling, inverse, starts, reach, places, y, out):
    """Y <- T^-1 y in elimination order, eight rows at a time; `out` (slots, 3) is the entry at the `places`, (slots, 3)."""
    v = np.empty(8, dtype=buffer.dtype)
    for i in range(len(sizes) - 1, -1, -1):
        n, s = sizes[i], starts[i]
        first = sizes[i - 1] if i > 0 else 0
        for r in range(n - 8, -1, -8):
            T = inverse[i] + 8 * r
            for a in range(8):
                total = buffer.dtype.type(0)
                for k in range(a, 8):
                    total += buffer[T + 8 * a + k] * y[s + r + k]
                v[a] = total
            y[s + r : s + r + 8] = v
            _panel(buffer, diagonal[i] + r * n, r, y, s, v, True)
            if i > 0 and coupling[i - 1] >= 0:
                m, begin = sizes[i - 1], starts[i - 1]
                while first > 0 and reach[(begin + first - 8) // 8] > r:
                    first -= 8
                _panel(buffer, coupling[i - 1] + r * m + 8 * first, m - first, y, begin + first, v, True)
    for s in range(len(out)):
        for i in range(3):
            out[s, i] = y[places[s, i]]


@kernel
def _forward_rows(buffer, sizes, diagonal, coupling, inverse, starts, reach, group, active, Z, G):
    """Z <- T^-T Z for many right-hand sides at once, and G[g] = Z^T Z over the levels of every group g of columns.

    Z is flat with `width` columns, of which the first active[i] (a multiple of 8) are not zero in level i.
    """
    width = G.shape[1]
    products = G.reshape(-1)
    for i in range(len(sizes)):
        n, s, D, I = sizes[i], starts[i], diagonal[i], inverse[i]  # noqa: E741
        base = group[i] * width * width
        for r in range(0, n, 8):
            for c in range(0, active[i], 8):
                at = (s + r) * width + c
                _tile(Z, at, width, buffer, D + r * n, 8, Z, s * width + c, width, r, True)
                _tile(Z, at, width, buffer, I + 8 * r, 8, Z, at, width, 8, False)
        for r in range(0, active[i], 8):
            for c in range(r, active[i], 8):
                top = s * width
                _tile(products, base + r * width + c, width, Z, top + r, width, Z, top + c, width, n, True)
        if coupling[i] < 0:
            continue
        m, U, first = sizes[i + 1], coupling[i], 0
        for r in range(0, m, 8):
            while first < n and reach[(s + first) // 8] <= r:
                first += 8
            for c in range(0, active[i], 8):
                at, top = (starts[i + 1] + r) * width + c, (s + first) * width + c
                _tile(Z, at, width, buffer, U + r * n + 8 * first, 8, Z, top, width, n - first, True)
    for g in range(len(G)):
        for r in range(width):
            for c in range(r, width):
                G[g, r, c] = -G[g, r, c]
                G[g, c, r] = G[g, r, c]


@kernel
def _scatter(blocks, base, rows, columns, heights, pads, sizes, diagonal, coupling, starts, reach, buffer):
    """Write the lower 3x3 blocks transposed to their place in the upper levels, and the unit pivots of the padding.

    Block k begins at rows[k], columns[k] of the panels at base[k], each of heights[k] rows.
    """
    for i in range(len(sizes)):
        n, first = sizes[i], 0
        for c in range(0, n, 8):
            begin = diagonal[i] + c * n
            buffer[begin : begin + 8 * (c + 8)] = 0.0
        if coupling[i] >= 0:
            for c in range(0, sizes[i + 1], 8):
                while first < n and reach[(starts[i] + first) // 8] <= c:
                    first += 8
                buffer[coupling[i] + c * n + 8 * first : coupling[i] + (c + 8) * n] = 0.0
    for k in range(len(blocks)):
        for i in range(3):
            column = columns[k] + i
            p = base[k] + column // 8 * 8 * heights[k] + 8 * rows[k] + column % 8
            for j in range(3):
                buffer[p + 8 * j] = blocks[k, i, j]
    for p in pads:
        buffer[p] = 1.0


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
        Factor in single precision, which takes two thirds of the time.
    """

    rows: Ints
    columns: Ints
    level: Ints
    rank: Ints
    single: bool = False

    def __post_init__(self) -> None:
        count = int(self.level.max()) + 1
        real = 3 * np.bincount(self.level, minlength=count)
        self._sizes = -(-real // _TILE) * _TILE
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])[:-1]
        before = np.concatenate([[0], np.cumsum(real)])[:-1]
        lower, upper = self.level[self.columns], self.level[self.rows]
        off = upper != lower
        coupled = np.zeros(count, dtype=bool)
        coupled[lower[off]] = True
        parts = (self._sizes**2, coupled * self._sizes * np.append(self._sizes[1:], 0), _TILE * self._sizes)
        ends = np.cumsum(np.column_stack(parts).ravel())
        begins = np.concatenate([[0], ends])[:-1].reshape(-1, 3)
        self._diagonal, self._inverse = (np.ascontiguousarray(begins[:, k]) for k in (0, 2))
        self._coupling = np.where(coupled, begins[:, 1], -1)
        self._room = int(ends[-1])
        self._buffers: dict[bool, Any] = {}
        self._use(self.single)
        local = 3 * self.rank - before[self.level]
        base = np.where(off, self._coupling[lower], self._diagonal[lower])
        self._targets = (base, local[self.columns], local[self.rows], self._sizes[lower])
        self._places = (self._starts[self.level] + local)[:, None] + np.arange(3)
        padded = zip(self._diagonal, real, self._sizes)
        self._pads = np.concatenate(
            [d + a // 8 * 8 * n + 8 * a + a % 8 for d, m, n in padded for a in (np.arange(m, n),)]
        )
        self._reach = self._reaches(off, local)
        last = self._coupling < 0
        self._chain: Ints = np.cumsum(last) - last  # of every level

    def _use(self, single: bool) -> None:
        """Work in this precision; its memory is made when it is first used."""
        if single not in self._buffers:
            dtype = np.dtype(np.float32 if single else np.float64)
            # Rows of tiles on whole cache lines: loads that straddle two take twice as long.
            raw = np.zeros(self._room + 64 // dtype.itemsize, dtype=dtype)
            skip = (-raw.ctypes.data % 64) // dtype.itemsize
            self._buffers[single] = raw[skip : skip + self._room]
        self._buffer = self._buffers[single]

    def _reaches(self, off: Any, local: Ints) -> Ints:
        """Columns of the coupling that the rows of a tile fill, for all tiles."""
        reach = np.zeros(int(self._sizes.sum()) // _TILE, dtype=np.int64)
        for end in (0, 2):  # of the three rows of a slot, which may lie in two tiles
            tile = self._places[self.columns[off], end] // _TILE
            np.maximum.at(reach, tile, local[self.rows[off]] + 3)
        for first, size in zip(self._starts // _TILE, self._sizes // _TILE):
            reach[first : first + size] = np.maximum.accumulate(reach[first : first + size])
        return -(-reach // _TILE) * _TILE

    @property
    def cost(self) -> float:
        """Multiplications of one factorisation."""
        total = float((self._sizes.astype(float) ** 3).sum() / 6)
        for i in np.flatnonzero(self._coupling >= 0):
            first, size = self._starts[i] // _TILE, self._sizes[i] // _TILE
            reach = self._reach[first : first + size].astype(float)
            total += _TILE * float((_TILE * np.cumsum(reach) + 0.5 * reach**2).sum())
        return total

    def factor(self, blocks: Floats, definite: bool = False) -> bool:
        """Factor the matrix of these lower blocks (nnz, 3, 3); False if it is not positive definite.

        In single precision a pivot fails nearly always because the matrix is indefinite: only one that is known to be
        `definite` is then factored in double, this once, so that what is found does not depend on what was factored before.
        """
        self._use(self.single)
        if self._succeeds(blocks):
            return True
        if not (self.single and definite):
            return False
        self._use(False)
        return self._succeeds(blocks)

    def _succeeds(self, blocks: Floats) -> bool:
        """Whether the matrix can be factored in the buffer in use."""
        buffer, sizes, diagonal, coupling, _, starts, reach = self._pattern
        _scatter(blocks, *self._targets, self._pads, sizes, diagonal, coupling, starts, reach, buffer)
        return int(_factor(*self._pattern)) < 0

    @property
    def _pattern(self) -> tuple[Any, ...]:
        return (self._buffer, self._sizes, self._diagonal, self._coupling, self._inverse, self._starts, self._reach)

    def solve(self, right: Floats) -> Floats:
        """Return the solution for a right-hand side (slots, 3)."""
        return self.backward(self.forward(right))

    def forward(self, right: Floats) -> Floats:
        """Half of a solution: T^-T of a right-hand side (slots, 3), in elimination order."""
        y = np.empty(int(self._sizes.sum()), dtype=self._buffer.dtype)
        _forward(*self._pattern, self._places, right, y)
        return y

    def backward(self, y: Floats) -> Floats:
        """Return the other half: the solution (slots, 3) of what `forward` returned (changed in place)."""
        out = np.empty(self._places.shape)
        _backward(*self._pattern, self._places, y, out)
        return out

    @cached_property
    def chains(self) -> Ints:
        """Number of the chain of coupled levels that a slot is in, shape (slots,)."""
        return self._chain[self.level]

    @property
    def chain_count(self) -> int:
        """How many chains there are."""
        return int(self._chain[-1]) + 1

    def row_groups(self, group: Ints) -> Ints:
        """Group of every row of the elimination order, for the groups of all chains."""
        return np.repeat(group[self._chain], self._sizes)

    def forward_units(self, slots: Ints, group: Ints) -> tuple[Floats, Floats, Ints, Ints]:
        """Half-solve for the three unit vectors of a few slots, those of every group of chains apart.

        Parameters
        ----------
        slots
            Shape (k,).
        group
            Group of every chain, shape (chains,).

        Returns
        -------
        half, product, column, filled
            half (n, w): T^-T of the unit vectors as columns, of which row r is zero from column filled[r] on; product
            (groups, w, w): E^T A^-1 E of those of each group; the unit vectors of slot k begin at column[k] of its group.
        """
        # columns in the order in which a walk through the levels meets the slots
        level_group, first, groups = group[self._chain], self.level[slots], int(group.max()) + 1
        owner = level_group[first]
        order = np.lexsort((slots, first, owner))
        begin = np.searchsorted(owner[order], np.arange(groups))
        column, active = np.empty(len(slots), dtype=np.int64), np.zeros(len(self._sizes), dtype=np.int64)
        column[order] = 3 * (np.arange(len(slots)) - begin[owner[order]])
        width = -(-int(column.max() + 3) // _TILE) * _TILE
        for g in range(groups):
            levels = np.flatnonzero(level_group == g)
            begun = 3 * np.searchsorted(np.sort(first[owner == g]), levels, side="right")
            active[levels] = -(-begun // _TILE) * _TILE
        half = np.zeros((int(self._sizes.sum()), width), dtype=self._buffer.dtype)
        half[self._places[slots], column[:, None] + np.arange(3)] = 1.0
        product = np.zeros((groups, width, width), dtype=self._buffer.dtype)
        _forward_rows(*self._pattern, level_group, active, half.ravel(), product)
        return half, product.astype(np.float64), column, np.repeat(active, self._sizes)


def sweep_order(level: Ints, first: Ints, second: Ints, points: Floats) -> Ints:
    """Rank of every slot in the elimination: by level, inside a level along the axis that leaves the least work.

    Parameters
    ----------
    level
        Of every slot, shape (slots,).
    first, second
        Slots that are coupled, shape (k,).
    points
        Where the slots are at rest, shape (slots, 3).
    """
    best, least = np.arange(len(level)), np.inf
    for axis in range(3):
        keys = [np.round(points[:, (axis + k) % 3], 9) for k in (2, 1, 0)]
        rank = np.empty(len(level), dtype=np.int64)
        rank[np.lexsort((np.arange(len(level)), *keys, level))] = np.arange(len(level))
        ahead = rank[first] < rank[second]
        low, high = np.where(ahead, first, second), np.where(ahead, second, first)
        cost = BlockTridiagonal(high, low, level, rank).cost
        if cost < least:
            best, least = rank, cost
    return best


@dataclass
class SparseFactor:
    """General sparse factorisation (SuperLU) for robots whose levels are too wide for the blocks."""

    rows: Ints
    columns: Ints
    count: int
    _lu: Any = field(default=None, init=False, repr=False)

    def factor(self, blocks: Floats, definite: bool = False) -> bool:
        """Factor the matrix of these lower blocks (nnz, 3, 3), `definite` or not; False if it is singular."""
        off = self.rows != self.columns
        rows, columns = (np.concatenate([self.rows, self.columns[off]]), np.concatenate([self.columns, self.rows[off]]))
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
        return np.asarray(self._lu.solve(right.ravel()).reshape(-1, 3))
