"""Factors in halves: solutions and signs are those of the whole matrix, and a mirror that does not hold is not used."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix, triu

from geosim.linear.bordered import BorderedSolver
from geosim.linear.factorise import installed, make_factoriser
from geosim.linear.mirrored import Mirror, Mirrored
from geosim.linear.patterns import Sparsity

SIZE = 40
LDLT = "pardiso" if "pardiso" in installed() else "rslab"


def _mirror(rng):
    """Pairs of images with either sign, and unknowns that are their own, even and odd."""
    partner = np.arange(SIZE)
    partner[:32] = np.roll(np.arange(32), 16)
    sign = rng.choice([1.0, -1.0], SIZE)
    sign[:32] = np.tile(sign[:16], 2)
    assert set(sign[32:]) == {1.0, -1.0}
    return Mirror(partner, sign, "plane")


def _matrix(mirror, rng, even, odd):
    """A symmetric matrix with given numbers of negative eigenvalues among its even and odd vectors."""
    out = np.zeros((SIZE, SIZE))
    for half, negative in zip(mirror.halves, (even, odd)):
        values = rng.uniform(1.0, 3.0, half.size)
        values[:negative] *= -1.0
        basis = half.unfolded(np.linalg.qr(rng.standard_normal((half.size, half.size)))[0])
        out += basis @ np.diag(values) @ basis.T
    return out


def _upper(matrix):
    upper = csr_matrix(triu(csr_matrix(matrix + 0.0), format="csr"))
    upper.sort_indices()
    return Sparsity(upper.indptr.astype(np.int32), upper.indices.astype(np.int32)), upper.data


@pytest.mark.parametrize("parity", ["even", "odd", "both"])
def test_halves_solve_what_the_whole_does(parity):
    rng = np.random.default_rng(0)
    mirror = _mirror(rng)
    matrix = _matrix(mirror, rng, 2, 3)
    pattern, data = _upper(matrix)
    factors = Mirrored(pattern, [mirror], partial(make_factoriser, name=LDLT, single=False))
    factors.factorise(data)
    assert factors.halved
    right = rng.standard_normal((SIZE, 2))
    for half in mirror.halves if parity == "both" else [mirror.halves[parity == "even"]]:
        right -= half.unfolded(half.folded(right)) if parity != "both" else 0.0
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(matrix, right), atol=1e-10)
    np.testing.assert_allclose(factors.solve(right[:, 0]), np.linalg.solve(matrix, right[:, 0]), atol=1e-10)
    assert factors.count_negative() == 5


def test_bases_are_orthonormal_and_complete():
    rng = np.random.default_rng(1)
    mirror = _mirror(rng)
    even, odd = (half.unfolded(np.eye(half.size)) for half in mirror.halves)
    both = np.hstack([even, odd])
    np.testing.assert_allclose(both.T @ both, np.eye(SIZE), atol=1e-14)
    np.testing.assert_allclose(mirror.sign[:, None] * even[mirror.partner], even, atol=1e-14)
    np.testing.assert_allclose(mirror.sign[:, None] * odd[mirror.partner], -odd, atol=1e-14)


def test_a_mirror_that_does_not_hold_is_given_up():
    """One entry that has no image, far smaller than the others, and the whole matrix is factorised, then and later."""
    rng = np.random.default_rng(2)
    mirror = _mirror(rng)
    matrix = _matrix(mirror, rng, 0, 1)
    pattern, whole = _upper(matrix)
    factors = Mirrored(pattern, [mirror], partial(make_factoriser, name=LDLT, single=False))
    matrix[3, 3] += 1e-3
    factors.factorise(_upper(matrix)[1])
    right = rng.standard_normal(SIZE)
    assert not factors.halved
    np.testing.assert_allclose(factors.solve(right), np.linalg.solve(matrix, right), atol=1e-10)
    factors.factorise(whole)
    assert not factors.halved
    assert factors.count_negative() == 1


def test_the_signs_of_a_bordered_matrix():
    """One odd negative eigenvalue is counted beside that of the border."""
    rng = np.random.default_rng(3)
    mirror = _mirror(rng)
    for odd in (0, 1):
        pattern, data = _upper(_matrix(mirror, rng, 0, odd))
        solver = BorderedSolver(pattern, make_factoriser(pattern.indptr, pattern.indices, LDLT), LDLT, mirrors=[mirror])
        solver.factoriser = solver.made(pattern)
        border = mirror.halves[0].unfolded(rng.standard_normal((mirror.halves[0].size, 1))).T
        assert solver.negative_eigenvalues(data, np.ascontiguousarray(border), np.zeros((1, 1))) == 1 + odd


def test_factors_that_do_not_suffice_become_those_of_the_whole():
    rng = np.random.default_rng(4)
    mirror = _mirror(rng)
    pattern, data = _upper(_matrix(mirror, rng, 0, 0))
    factors = Mirrored(pattern, [mirror], partial(make_factoriser, name=LDLT))
    factors.factorise(data)
    assert factors.strengthen()  # double precision
    factors.factorise(data)
    assert factors.halved
    assert factors.strengthen()
    factors.factorise(data)
    assert not factors.halved
    assert not factors.strengthen()
