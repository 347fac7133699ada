"""Matrices with entries that come and go, and factors that are kept from one to the next."""

import numpy as np
import pytest

from geosim.linear import sparse
from geosim.linear.krylov import conjugate_gradients
from geosim.linear.sparse import Blocks, SparseSolver

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
    numbers, values = draw.integers(-1, SIZE, (count // 4, 2)), size * draw.uniform(-1, 1, (count // 4, 2, 2))
    matrix = np.zeros((SIZE + 1, SIZE + 1))  # what is of no unknown, -1, comes last
    np.add.at(matrix, (numbers[:, :, None], numbers[:, None, :]), values)
    return Blocks(((numbers[:5], values[:5]), (numbers[5:], values[5:]))), matrix[:SIZE, :SIZE]


@pytest.fixture
def factorised(monkeypatch):
    """Counts factorisations."""
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


def test_entries_that_are_used_no_more_leave_the_pattern_before_they_are_too_many():
    """Contacts that slide on: a few at a time, and each time others."""
    keys, values, matrix = chain()
    solver, right = SparseSolver(SIZE, keys), np.ones(SIZE)
    for seed in range(30):
        extra, more = contacts(40, seed)
        none = Blocks.of(
            np.arange(SIZE), np.array([[seed, SIZE - 1 - seed]]), np.zeros((1, 2, 2))
        )  # what has no value stays, too
        x, _ = solver.solve(values, right, Blocks.joined([extra, none]))
        assert np.allclose((matrix + more) @ x, right, rtol=0, atol=1e-10)
        used = np.count_nonzero(np.triu(np.abs(matrix + more) + np.abs(matrix + more).T))
        assert len(solver.wide) <= sparse.CROWDED_PATTERN_RATIO * used + 30  # what has no value is not counted


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


def test_the_matrix_of_the_call_before_serves_to_another_accuracy(factorised):
    keys, values, matrix = chain()
    solver, right = SparseSolver(SIZE, keys), np.linspace(-1, 1, SIZE)
    extra, more = contacts(400, size=0.1)
    left = []
    for accuracy, again in ((0.1, False), (1e-9, True)):
        x, _ = solver.solve(values, right, extra, signs=False, accuracy=accuracy, again=again)
        left.append(np.linalg.norm((matrix + more) @ x - right) / np.linalg.norm(right))
    assert left[1] < 1e-9 < 1e-6 < left[0] < 0.1


@pytest.mark.parametrize("signs", [True, False])
def test_the_matrix_of_the_call_before_serves_again(factorised, signs):
    """Symmetric, as a whole, and by kept factors; of another matrix nothing is left."""
    keys, values, matrix = chain()
    solver, right = SparseSolver(SIZE, keys), np.linspace(-1, 1, SIZE)
    for given, more in ((None, 0.0), contacts(80, size=0.1), contacts(80, size=0.2)):
        for again in (False, True):
            before = len(factorised)
            x, _ = solver.solve(values, right, given, signs=signs, again=again)
            assert np.abs((matrix + more) @ x - right).max() < 1e-9
            assert not again or len(factorised) == before
            right = right[::-1] ** 3


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
