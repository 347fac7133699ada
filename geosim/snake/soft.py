"""Soft parts as kernels: corotational tetrahedra and distance constraints; energy, gradient, stiffness.

A tetrahedron carries six corotational strains, Eq. (5) of [Gasoto2019]: with F = R S the strain is S - 1 and

    Psi = V (mu |S - 1|^2 + lambda / 2 tr(S - 1)^2),   P = dPsi/dF / V = 2 mu (F - R) + lambda tr(S - 1) R.

With A = R^T dF and w = axial(A), the exact second derivative is

    d2Psi / V = 2 mu |sym A|^2 + lambda (tr A)^2 + w^T N w,    N = mu 1 - alpha (tr(S) 1 - S)^-1,
    alpha = 2 mu - lambda tr(S - 1).

Only N can be negative; without it (where it is) the element stiffness is semi-definite. A distance constraint has
c = |x_i - x_j| - r and Psi = k c^2 / 2. The part k (1 - r / |d|) of its stiffness across the line is kept where
it is positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot, plus, put, row, scaled
from geosim.linear.polar import cofactor, combine, inner, outer, polar, product, product_transposed, shifted


class Tets(NamedTuple):
    """Tetrahedra ready for the kernels.

    Parameters
    ----------
    corners
        Particles, last in the elimination order first, (m, 4).
    shapes
        Derivatives of the barycentric coordinates 1, 2, 3 by place [1/m], row 3 (a - 1) + j, (9, m).
    volumes, mu, lam
        [m^3], Lame's constants [Pa], (m,).
    """

    corners: Ints
    shapes: Floats
    volumes: Floats
    mu: Floats
    lam: Floats


def positive_part(A: Floats) -> Floats:
    """Return the positive semi-definite parts of symmetric matrices (b, 3, 3)."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1))


_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)

# Tets are treated 32 at once: the loops over these lanes become vector instructions. All their numbers stand in one array, entry
# after entry for all lanes, because the compiler does not vectorise over arrays that might overlap. It fills half of a
# first-level cache of 32 kB; with 64 lanes, which fill all of it, the stiffness takes twice as long.
_LANES = 32
# Entries of a tet: five 3x3 matrices; four shape gradients; volume, Lame's constants; change of R, energy, whether it is upright.
_ENTRIES = (9, 9, 9, 9, 9, 12, 1, 1, 1, 1, 1, 1)
_F, _R, _B, _N, _H, _G, _V, _MU, _LAM, _CHANGE, _ENERGY, _UPRIGHT, _ALL = (
    _LANES * sum(_ENTRIES[:k]) for k in range(len(_ENTRIES) + 1)
)


@kernel
def _nine(lanes, t):
    """Matrix whose first entry is at t."""
    a = lanes[t], lanes[_LANES + t], lanes[2 * _LANES + t]
    b = lanes[3 * _LANES + t], lanes[4 * _LANES + t], lanes[5 * _LANES + t]
    return (*a, *b, lanes[6 * _LANES + t], lanes[7 * _LANES + t], lanes[8 * _LANES + t])


@kernel
def _three(lanes, t):
    """Vector whose first entry is at t."""
    return (lanes[t], lanes[_LANES + t], lanes[2 * _LANES + t])


@kernel
def _put_three(lanes, t, v):
    """Write a vector whose first entry is at t."""
    lanes[t], lanes[_LANES + t], lanes[2 * _LANES + t] = v


@kernel
def _put_nine(lanes, t, f):
    """Write a matrix whose first entry is at t."""
    _put_three(lanes, t, f[:3])
    _put_three(lanes, 3 * _LANES + t, f[3:6])
    _put_three(lanes, 6 * _LANES + t, f[6:])


@kernel
def _take(rows, first, count, lanes):
    """Copy columns of (9, m) to the first lanes; slices of every row would take three times as long."""
    for k in range(9):
        for t in range(count):
            lanes[k * _LANES + t] = rows[k, first + t]


@kernel
def _load(x, soft, first, count, lanes):
    """Fill the lanes with shape derivatives, volumes, Lame's constants and deformation gradients of `count` tets.

    F = sum_a (x_a - x_0) B_a. The other lanes weigh nothing, and their F is 1.
    """
    lanes[_V : _V + _LANES] = 0.0
    _take(soft.shapes, first, count, lanes[_B:])
    for t in range(count):
        numbers = soft.volumes[first + t], soft.mu[first + t], soft.lam[first + t]
        _put_three(lanes, _V + t, numbers)
        corners = soft.corners[first + t]
        o = row(x, corners[0])
        for a in range(3):
            edge = difference(row(x, corners[a + 1]), o)
            lanes[a * _LANES + t], lanes[(3 + a) * _LANES + t], lanes[(6 + a) * _LANES + t] = edge
    for t in range(_LANES):
        _put_nine(lanes, _F + t, product(_nine(lanes, _F + t), _nine(lanes, _B + t)))
    for t in range(count, _LANES):
        _put_nine(lanes, _F + t, _IDENTITY)


@kernel
def _polar(lanes):
    """Rotations R of F = R S in all lanes by Newton's iteration R <- (R + R^-T) / 2; 1 where F is inverted.

    Apart from `geosim.linear.polar`, which takes one matrix at a time: here the lanes wait for each other. Returns whether
    any was inverted.
    """
    upright = 0.0
    # det F below which an element counts as flat or inverted: Newton's iteration has lost its digits there
    flat_determinant = 1e-9
    for t in range(_LANES):
        f = _nine(lanes, _F + t)
        lanes[_UPRIGHT + t] = 1.0 if dot(f[:3], cofactor(f)[:3]) > flat_determinant else 0.0
        _put_nine(lanes, _R + t, f if lanes[_UPRIGHT + t] > 0.0 else _IDENTITY)
        upright += lanes[_UPRIGHT + t]
    # squared change of a rotation: Newton converges quadratically, so the next error is of this size
    settled_rotation = 1e-16
    for _ in range(40):
        worst = 0.0
        for t in range(_LANES):
            r = _nine(lanes, _R + t)
            c = cofactor(r)
            new = combine(0.5, r, 0.5 / dot(r[:3], c[:3]), c)
            step = combine(1.0, new, -1.0, r)
            lanes[_CHANGE + t] = inner(step, step)
            _put_nine(lanes, _R + t, new)
        for t in range(_LANES):
            worst = max(worst, lanes[_CHANGE + t])
        if worst < settled_rotation:
            break
    return upright < _LANES


@kernel
def tet_energy_gradient(x, soft, gradient, rotations):
    """Add the forces of all tets to `gradient` (n, 3), keep their rotations (9, m), return the energy [J]."""
    lanes = np.zeros(_ALL)
    for first in range(0, len(soft.corners), _LANES):
        count = min(_LANES, len(soft.corners) - first)
        _load(x, soft, first, count, lanes)
        if _polar(lanes):
            for t in range(count):
                if lanes[_UPRIGHT + t] == 0.0:
                    _put_nine(lanes, _R + t, polar(_nine(lanes, _F + t)))
        for k in range(9):
            for t in range(count):
                rotations[k, first + t] = lanes[_R + k * _LANES + t]
        for t in range(_LANES):
            f, r = _nine(lanes, _F + t), _nine(lanes, _R + t)
            volume, mu, lam = _three(lanes, _V + t)
            away, trace = combine(1.0, f, -1.0, r), inner(r, f) - 3.0
            lanes[_ENERGY + t] += volume * (mu * inner(away, away) + 0.5 * lam * trace * trace)
            stress = combine(2 * volume * mu, away, volume * lam * trace, r)
            _put_nine(lanes, _H + t, product_transposed(stress, _nine(lanes, _B + t)))
        for t in range(count):
            total = (0.0, 0.0, 0.0)
            for a in range(3):  # column a is the force on vertex a + 1
                force = lanes[_H + a * _LANES + t], lanes[_H + (3 + a) * _LANES + t], lanes[_H + (6 + a) * _LANES + t]
                p = gradient[soft.corners[first + t, a + 1]]
                put(p, plus(p, force))
                total = plus(total, force)
            o = gradient[soft.corners[first + t, 0]]
            put(o, difference(o, total))
    return lanes[_ENERGY : _ENERGY + _LANES].sum()


@kernel
def _twist_stiffness(lanes, clamp):
    """N = mu 1 - alpha (tr(S) 1 - S)^-1 times the volume in all lanes; with `clamp` zero unless semi-definite."""
    least = 0.0 if clamp else -np.inf
    # bound on the product of the sums of two principal stretches, which vanishes for a flattened element
    flattest_stretch_product = 1e-6
    for t in range(_LANES):  # no branch in here: the compiler would not make vector instructions of it
        S = product_transposed(_nine(lanes, _F + t), _nine(lanes, _R + t))  # R S R^T: N is wanted in the current frame
        mu, lam, trace = lanes[_MU + t], lanes[_LAM + t], S[0] + S[4] + S[8]
        sums = shifted(-1.0, S, trace)
        c = cofactor(sums)
        det = max(dot(sums[:3], c[:3]), flattest_stretch_product)
        n = shifted((lam * (trace - 3.0) - 2 * mu) / det, c, mu)
        minors = cofactor(n)
        good = (n[0] >= least) & (minors[8] >= least) & (dot(n[:3], minors[:3]) >= least)
        _put_nine(lanes, _N + t, shifted(lanes[_V + t] * good, n, 0.0))


@kernel
def tet_twist_stiffness(x, soft, rotations, clamp, out):
    """Write N of all tets in the current frame, times the volume, to `out` (m, 3, 3); with `clamp` see `_twist_stiffness`."""
    lanes = np.zeros(_ALL)
    for first in range(0, len(soft.corners), _LANES):
        count = min(_LANES, len(soft.corners) - first)
        _load(x, soft, first, count, lanes)
        _take(rotations, first, count, lanes[_R:])
        _twist_stiffness(lanes, clamp)
        for t in range(count):
            for k in range(9):
                out[first + t, k // 3, k % 3] = lanes[_N + k * _LANES + t]


@kernel
def _pair_stiffness(lanes, p, q):
    """Stiffness (3, 3) between the vertices p and q in all lanes, times the volume.

    With the shape gradients a, b in the current frame mu (b a^T + a . b 1) + lambda a b^T + [a]x^T N [b]x: the twist of
    vertex q is w = x_q x b up to sign.
    """
    p, q = p & 3, q & 3  # as they are; but now the compiler knows that no index below is negative, and uses vectors
    for t in range(_LANES):
        (a0, a1, a2), (b0, b1, b2) = _three(lanes, _G + 3 * p * _LANES + t), _three(lanes, _G + 3 * q * _LANES + t)
        n00, n01, n02, _, n11, n12, _, _, n22 = _nine(lanes, _N + t)
        m00, m10, m20 = n01 * b2 - n02 * b1, n11 * b2 - n12 * b1, n12 * b2 - n22 * b1  # columns of N [b]x
        m01, m11, m21 = n02 * b0 - n00 * b2, n12 * b0 - n01 * b2, n22 * b0 - n02 * b2
        m02, m12, m22 = n00 * b1 - n01 * b0, n01 * b1 - n11 * b0, n02 * b1 - n12 * b0
        M, L = lanes[_V + t] * lanes[_MU + t], lanes[_V + t] * lanes[_LAM + t]
        stretch = (
            (M + L) * a0 * b0 + a2 * m10 - a1 * m20,
            M * b0 * a1 + L * a0 * b1 + a2 * m11 - a1 * m21,
            M * b0 * a2 + L * a0 * b2 + a2 * m12 - a1 * m22,
            M * b1 * a0 + L * a1 * b0 + a0 * m20 - a2 * m00,
            (M + L) * a1 * b1 + a0 * m21 - a2 * m01,
            M * b1 * a2 + L * a1 * b2 + a0 * m22 - a2 * m02,
            M * b2 * a0 + L * a2 * b0 + a1 * m00 - a0 * m10,
            M * b2 * a1 + L * a2 * b1 + a1 * m01 - a0 * m11,
            (M + L) * a2 * b2 + a1 * m02 - a0 * m12,
        )
        _put_nine(lanes, _H + t, shifted(1.0, stretch, M * (a0 * b0 + a1 * b1 + a2 * b2)))


@kernel
def tet_stiffness(x, soft, rotations, index, clamp, blocks):
    """Add the stiffness between different vertices of all tets: pair (a, b), a < b, to the 3x3 block index[e, pair].

    The diagonal follows, because no element resists a translation: see `close_rows`.
    """
    lanes = np.zeros(_ALL)
    for first in range(0, len(soft.corners), _LANES):
        count = min(_LANES, len(soft.corners) - first)
        _load(x, soft, first, count, lanes)
        _take(rotations, first, count, lanes[_R:])
        for t in range(_LANES):  # shape gradients R B_a in the current frame; their sum vanishes
            g = product_transposed(_nine(lanes, _B + t), _nine(lanes, _R + t))
            _put_three(lanes, _G + t, scaled(-1.0, plus(plus(g[:3], g[3:6]), g[6:])))
            _put_nine(lanes, _G + 3 * _LANES + t, g)
        _twist_stiffness(lanes, clamp)
        pair = 0
        for a in range(4):
            for b in range(a + 1, 4):
                _pair_stiffness(lanes, a, b)
                for t in range(count):
                    block = blocks[index[first + t, pair]]
                    for k in range(9):
                        block[k // 3, k % 3] += lanes[_H + k * _LANES + t]
                pair += 1


@kernel
def close_rows(rows, columns, diagonal, particles, blocks):
    """Set the diagonal blocks of particles so that no translation of all of them is resisted: minus the sum of the row."""
    for k in range(len(blocks)):
        r, c = rows[k], columns[k]
        if r == c or r >= particles or c >= particles:
            continue
        P, Q, H = blocks[diagonal[r]], blocks[diagonal[c]], blocks[k]
        for i in range(3):
            for j in range(3):
                P[i, j] -= H[i, j]
                Q[i, j] -= H[j, i]


@kernel
def driven_springs(chamber, length, stiffness, modulus, pressures, onset):
    """Rest lengths [m] by Eq. (4) and stiffness [N/m] of all distance constraints at chamber pressures [Pa].

    Only the lines of a chamber under pressure are active; they set in over the first `onset` pascals. `chamber`, `length` at rest
    [m], `stiffness` [N/m] and `modulus` [Pa] are those of the springs, (s,).
    """
    rest, active = length.copy(), stiffness.copy()
    for s in range(len(chamber)):
        if chamber[s] >= 0:
            pressure = pressures[chamber[s]]
            rest[s] *= 1.0 + pressure / modulus[s]
            active[s] *= min(max(pressure / onset, 0.0), 1.0)
    return rest, active


@kernel
def spring_energy_gradient(x, ends, rest, stiffness, gradient):
    """Add the forces of all distance constraints to `gradient` (n, 3), return their energy [J]."""
    energy = 0.0
    for s in range(len(ends)):
        if stiffness[s] == 0.0:
            continue
        a, b = gradient[ends[s, 0]], gradient[ends[s, 1]]
        d = difference(row(x, ends[s, 0]), row(x, ends[s, 1]))
        length = math.sqrt(dot(d, d))
        c = length - rest[s]
        energy += 0.5 * stiffness[s] * c * c
        f = scaled(stiffness[s] * c / length, d)
        put(a, plus(a, f))
        put(b, difference(b, f))
    return energy


@kernel
def spring_stiffness(x, ends, rest, stiffness, index, clamp, blocks):
    """Add the stiffness between the ends of all distance constraints to 3x3 blocks index[s]; see `close_rows`."""
    for s in range(len(ends)):
        if stiffness[s] == 0.0:
            continue
        d = difference(row(x, ends[s, 0]), row(x, ends[s, 1]))
        length = math.sqrt(dot(d, d))
        across = stiffness[s] * (1.0 - rest[s] / length)
        across = max(across, 0.0) if clamp else across
        change = combine((stiffness[s] - across) / (length * length), outer(d, d), across, _IDENTITY)
        for k in range(9):
            blocks[index[s], k // 3, k % 3] -= change[k]
