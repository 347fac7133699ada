"""Matrices with entries that come and go, and factors that are kept from one to the next."""

import numpy as np
import pytest

from geosim.linear import sparse
from geosim.linear.krylov import conjugate_gradients
from geosim.linear.sparse import SparseSolver, Triplets

SIZE = 60


def chain():
    """Keys and values of a definite tridiagonal matrix, and the matrix."""
    i = np.arange(SIZE)
    matrix = np.diag(np.full(SIZE, 4.0)) - np.eye(SIZE, k=1) - np.eye(SIZE, k=-1)
    keys = np.sort(np.concatenate([i * SIZE + i, (i * SIZE + i + 1)[:-1]]))
    return keys, matrix.ravel()[keys], matrix


def contacts(count, seed=0, size=1.0):
    """Unsymmetric entries between unknowns far from each other, and the matrix of them."""
    draw = np.random.default_rng(seed)
    row, col, data = draw.integers(0, SIZE, count), draw.integers(0, SIZE, count), size * draw.uniform(-1, 1, count)
    matrix = np.zeros((SIZE, SIZE))
    np.add.at(matrix, (row, col), data)
    return Triplets(row, col, data), matrix


@pytest.fixture
def factorised(monkeypatch):
    """Counts factorisations, which are kept however small the matrix is."""
    monkeypatch.setattr(sparse, "MIN_KEPT_UNKNOWNS", 0)
    calls, make = [], sparse.make_factoriser

    def made(*args, **options):
        factors = make(*args, **options)
        real = factors.factorise

        def counted(data):
            calls.append(len(data))
            real(data)

        factors.factorise = counted
        return factors

    monkeypatch.setattr(sparse, "make_factoriser", made)
    return calls


def test_skew_entries_are_solved_with_as_they_stand():
    keys, values, matrix = chain()
    extra, more = contacts(80)
    x, _ = SparseSolver(SIZE, keys).solve(values, np.ones(SIZE), extra)
    assert np.allclose(x, np.linalg.solve(matrix + more, np.ones(SIZE)), rtol=0, atol=1e-12)


def test_factors_are_kept_while_the_matrix_changes_little_and_the_solution_is_exact_even_so(factorised):
    keys, values, matrix = chain()
    solver, right = SparseSolver(SIZE, keys), np.linspace(-1, 1, SIZE)
    for step, count in enumerate((80, 80, 81, 82)):  # the last two bring places that the pattern does not have
        extra, more = contacts(count, size=0.1 + 1e-4 * step)  # friction is the smaller part of a contact
        x, _ = solver.solve(values, right, extra, signs=False)
        assert np.abs((matrix + more) @ x - right).max() < 1e-9
    assert len(factorised) == 1


def test_factors_are_made_anew_where_the_matrix_is_another(factorised):
    keys, values, matrix = chain()
    solver, right = SparseSolver(SIZE, keys), np.linspace(-1, 1, SIZE)
    for seed in range(3):
        extra, more = contacts(400, seed, 3.0)
        x, _ = solver.solve(values, right, extra, signs=False)
        assert np.abs((matrix + more) @ x - right).max() < 1e-8
    assert len(factorised) >= 3


def test_conjugate_gradients_from_a_guess_end_where_they_do_from_zero():
    """A guess that is nearly right takes fewer products; the error is told from the whole right-hand side all the same."""
    rng, calls = np.random.default_rng(0), []
    root = rng.normal(size=(30, 30))
    matrix = root @ root.T + 30.0 * np.eye(30)
    right = rng.normal(size=30)

    def product(vector):
        calls.append(1)
        return matrix @ vector

    exact, counts = np.linalg.solve(matrix, right), []
    for guess in (None, exact + 1e-3 * rng.normal(size=30) * np.abs(exact).max()):
        found, good = conjugate_gradients(product, np.copy, right, 1e-6, 60, guess=guess)
        assert good
        assert np.abs(found - exact).max() < 1e-4 * np.abs(exact).max()
        counts.append(len(calls))
        calls.clear()
    assert counts[1] < counts[0]
