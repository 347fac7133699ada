"""Bordered systems: factors of an earlier matrix are used as long as they are good, and say the signs of the present one."""

from __future__ import annotations

import numpy as np
import pytest

from geosim.linear.bordered import BorderedMatrix, BorderedSolver
from geosim.linear.factorise import FactorisationError, Factoriser, make_factoriser
from geosim.linear.krylov import ritz_values
from geosim.linear.patterns import Sparsity

SIZE = 120


@pytest.fixture
def family():
    """A(t), indefinite, whose eigenvalue along one vector falls through zero at t = 1, its border, and the upper triangle."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0]
    values = np.concatenate([-rng.uniform(1.0, 2.0, 20), rng.uniform(1.0, 4.0, SIZE - 20)])
    border = rng.standard_normal((1, SIZE))
    soft = basis[:, -1]
    border -= np.outer(border @ soft, soft)
    start, other = (basis * values) @ basis.T, rng.standard_normal((SIZE, SIZE))
    full = lambda t, shaken=0.0: (  # noqa: E731
        start - t * values[-1] * np.outer(soft, soft) + shaken * (other + other.T)
    )
    rows, cols = np.triu_indices(SIZE)
    indptr = np.concatenate([[0], np.cumsum(SIZE - np.arange(SIZE))])
    return full, border, rows, cols, Sparsity(indptr, cols)


def negative(full, border):
    return int((np.linalg.eigvalsh(np.block([[full, border.T], [border, np.zeros((1, 1))]])) < 0).sum())


def solver_of(pattern):
    factoriser = make_factoriser(pattern.indptr, pattern.indices)
    if not factoriser.counts:
        pytest.skip("this factoriser counts no signs")
    return BorderedSolver(pattern, factoriser)


@pytest.mark.parametrize("t", [0.02, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 30.0])
def test_signs_are_those_of_the_present_matrix_whatever_was_factorised(family, t):
    full, border, rows, cols, pattern = family
    solver, corner = solver_of(pattern), np.zeros((1, 1))
    right, gap = np.ones(SIZE), np.ones(1)
    solver.solve(BorderedMatrix(full(0.0)[rows, cols], border), right, gap, 1e-6, reuse=False)
    matrix = full(t, 1e-4)
    assert negative(matrix, border) == negative(full(0.0), border) + (t > 1.0)  # what is examined does happen
    assert solver.negative_eigenvalues(matrix[rows, cols], border, corner) == negative(matrix, border)


def test_signs_of_a_matrix_that_hardly_changed_cost_no_factors(family, monkeypatch):
    full, border, rows, cols, pattern = family
    solver, right, gap = solver_of(pattern), np.ones(SIZE), np.ones(1)
    solver.solve(BorderedMatrix(full(0.0)[rows, cols], border), right, gap, 1e-6, reuse=False)
    monkeypatch.setattr(solver.factoriser, "factorise", None)  # fails where it is called
    found = solver.negative_eigenvalues(full(0.05)[rows, cols], border, np.zeros((1, 1)))
    assert found == negative(full(0.05), border)
    solver.solve(
        BorderedMatrix(full(0.05)[rows, cols], border), right, gap, 1e-6, reuse=False
    )  # and the next step is made with them


def test_a_step_is_as_good_as_it_says_and_no_better(family):
    full, border, rows, cols, pattern = family
    solver, right, gap = solver_of(pattern), np.ones(SIZE), np.ones(1)
    solver.solve(BorderedMatrix(full(0.0)[rows, cols], border), right, gap, 1e-6, reuse=False)
    matrix = full(0.3, 3e-3)
    before, target = solver.factorisations, np.append(right, -gap)
    whole = np.block([[matrix, -border.T], [-border, np.zeros((1, 1))]])
    left = []
    for tolerance in (1e-2, 1e-9):
        found = np.concatenate(
            solver.solve(BorderedMatrix(matrix[rows, cols], border), right, gap, tolerance, reuse=True)
        )
        left.append(np.linalg.norm(whole @ found - target) / np.linalg.norm(target))
    assert solver.factorisations == before
    assert 1e-8 < left[0] < 1e-2
    assert left[1] < 1e-9


def test_ritz_values_find_what_lies_apart():
    values = np.concatenate([[-0.4, 6.0], np.linspace(0.9, 1.1, 200)])
    found = ritz_values(lambda v: values * v, np.ones(len(values)), 8)
    assert found.real.min() == pytest.approx(-0.4, abs=1e-6)
    assert found.real.max() == pytest.approx(6.0, abs=1e-6)
    assert not np.isfinite(ritz_values(lambda v: v * np.nan, np.ones(5), 3)).all()


def test_no_more_is_looked_for_once_an_eigenvalue_is_below_what_may_be():
    values, asked = np.concatenate([[-0.4, 6.0], np.linspace(0.9, 1.1, 200)]), []
    ritz_values(lambda v: asked.append(1) or values * v, np.ones(len(values)), 8, least=0.0)
    assert 1 < len(asked) < 8


@pytest.mark.parametrize("other", [1.0, -0.4])
def test_ritz_values_around_one_end_the_search_but_hide_none(other):
    values, start, asked = np.linspace(0.99, 1.01, 200), np.ones(200), []
    values[7], start[7] = other, 0.01
    found = ritz_values(lambda v: asked.append(1) or values * v, start, 10, least=0.0, hidden=1e-6)
    assert len(asked) <= 5
    assert found.real.min() == pytest.approx(other, abs=0.02)


def test_patience_decides_how_long_old_factors_have_to_do(family):
    """The same matrix takes new factors where less is thought worth trying, and the same step comes out."""
    full, border, rows, cols, pattern = family
    right, gap, system = np.ones(SIZE), np.ones(1), BorderedMatrix(full(0.3, 3e-3)[rows, cols], border)
    steps, factors = [], []
    for patience in (1.0, 0.4):
        solver = solver_of(pattern)
        solver.solve(BorderedMatrix(full(0.0)[rows, cols], border), right, gap, 1e-6, reuse=False)
        steps.append(np.concatenate(solver.solve(system, right, gap, 1e-9, reuse=True, patience=patience)))
        factors.append(solver.factorisations)
    assert factors == [1, 2]
    np.testing.assert_allclose(steps[1], steps[0], atol=1e-7 * np.abs(steps[0]).max())


class Useless(Factoriser):
    """Factors that solve nothing, as those of double precision are after a matrix that no factors solve."""

    exact = True

    def factorise(self, data):
        """Do nothing."""

    def solve(self, right):
        return np.zeros_like(right)


def test_a_matrix_that_no_factors_solve_does_not_spoil_the_next(family):
    full, _, rows, cols, pattern = family
    solver, right, none = BorderedSolver(pattern, Useless(SIZE)), np.ones(SIZE), np.zeros((0, SIZE))
    with pytest.raises(FactorisationError, match="singular to working precision"):
        solver.solve(BorderedMatrix(full(0.0)[rows, cols], none), right, np.zeros(0), 1e-6, reuse=False)
    found, _ = solver.solve(BorderedMatrix(full(0.0)[rows, cols], none), right, np.zeros(0), 1e-6, reuse=False)
    assert np.abs(full(0.0) @ found - right).max() < 1e-4
