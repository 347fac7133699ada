"""Factorisers: what they solve, what they count, how many threads they take."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from geosim.errors import InputError
from geosim.linear import pardiso
from geosim.linear.bordered import BorderedMatrix, BorderedSolver
from geosim.linear.factorise import FactorisationError, installed, make_factoriser
from geosim.linear.factoriser import Pivots, usable_threads
from geosim.linear.pardiso import Pardiso, mkl
from geosim.linear.patterns import Sparsity, gathered
from geosim.linear.quasidefinite import COMPRESSIBILITY, quasi_definite

PARDISO = pytest.mark.skipif("pardiso" not in installed(), reason="pypardiso is not installed")


AFTER_EACH_OTHER = """
import threading
import numpy as np
from geosim.linear.factorise import make_factoriser

def factorised():
    factors = make_factoriser(np.arange(201), np.arange(200), "rslab", threads=1)
    factors.factorise(np.full(200, 2.0))
    assert abs(factors.solve(np.ones(200)) - 0.5).max() < 1e-6

for _ in range(3):
    thread = threading.Thread(target=factorised)
    thread.start()
    thread.join()
print("done")
"""


@pytest.mark.skipif("rslab" not in installed(), reason="rslab is not installed")
def test_threads_that_follow_each_other_may_factorise():
    """The library outlives the thread that asked for it first: that of a pool that is closed, say."""
    done = subprocess.run([sys.executable, "-c", AFTER_EACH_OTHER], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def laplacian(n):
    """Upper triangle (CSR) of a grid's Laplacian, and the whole matrix."""
    line = 2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    full = np.kron(line, np.eye(n)) + np.kron(np.eye(n), line)
    rows, cols = np.nonzero(np.triu(full))
    return np.searchsorted(rows, np.arange(n * n + 1)), cols, full[rows, cols], full


@PARDISO
def test_threads_are_set_for_the_call_and_restored_after(monkeypatch):
    """MKL itself says how many threads it may take while it factorises, and before and after."""
    indptr, indices, data, full = laplacian(12)
    factors, before, seen = make_factoriser(indptr, indices, "pardiso", threads=2), mkl().MKL_Get_Max_Threads(), []
    call = factors._call_c

    def watched(*given):
        seen.append(mkl().MKL_Set_Num_Threads_Local(2))
        call(*given)

    monkeypatch.setattr(factors, "_call_c", watched)
    factors.factorise(data)
    right = np.arange(len(full), dtype=float)
    assert np.abs(full @ factors.solve(right) - right).max() < 1e-3 * right.max()
    assert set(seen) == {2}
    assert mkl().MKL_Get_Max_Threads() == before


@PARDISO
def test_the_order_of_nodes_fills_no_more_than_that_of_all_unknowns(monkeypatch):
    """A block of nodes with a pressure at each: METIS sees a quarter of the unknowns, and the factors are as small."""
    line = np.eye(7, dtype=bool) | np.eye(7, k=1, dtype=bool) | np.eye(7, k=-1, dtype=bool)
    near = np.kron(np.kron(line, line), line)
    full = np.block(
        [[np.kron(near, np.ones((3, 3))), np.kron(near, np.ones((3, 1)))], [np.kron(near, np.ones((1, 3))), near]]
    )
    full = np.where(full, -0.01, 0.0) + 3.0 * np.eye(len(full))
    rows, cols = np.nonzero(np.triu(full))
    indptr, seen = np.searchsorted(rows, np.arange(len(full) + 1)), []
    call = Pardiso._call

    def counted(factors, phase, *given):
        factors._options[17] = -1  # report the entries of the factors
        call(factors, phase, *given)
        if phase == 11:
            seen.append((factors.size, int(factors._options[17])))

    monkeypatch.setattr(Pardiso, "_call", counted)
    for groups in (gathered, lambda pattern: (pattern, np.arange(pattern.size))):
        monkeypatch.setattr(pardiso, "gathered", groups)
        factors = make_factoriser(indptr, cols, "pardiso")
        factors.factorise(full[rows, cols])
        right = np.arange(len(full), dtype=float)
        assert np.abs(full @ factors.solve(right) - right).max() < 1e-4 * right.max()
    assert [size for size, _ in seen] == [len(near), len(full), len(full)]
    assert seen[1][1] < 1.05 * seen[2][1]


@PARDISO
def test_threads_are_restored_where_a_factorisation_fails():
    before = mkl().MKL_Get_Max_Threads()
    factors = make_factoriser(np.array([0, 1]), np.array([0]), "pardiso", threads=2)
    factors._call_c = lambda *given: setattr(given[-1]._obj, "value", -4)
    with pytest.raises(FactorisationError, match="zero pivot"):
        factors.factorise(np.ones(1))
    assert mkl().MKL_Get_Max_Threads() == before


def test_default_threads_are_those_of_the_environment_or_the_cores(monkeypatch):
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert usable_threads() == cores
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert usable_threads() == 3
    monkeypatch.setenv("MKL_NUM_THREADS", "1")  # a sweep gives its workers both
    assert usable_threads() == 1
    monkeypatch.setenv("MKL_NUM_THREADS", "many")
    assert usable_threads() == 3
    assert usable_threads(2) == 2


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "x", 10**9])
def test_silly_threads_are_refused(threads):
    with pytest.raises(InputError, match=r"threads = .* must be a whole number of at least 1 and at most 1024"):
        usable_threads(threads)


@pytest.mark.parametrize("name", ["pardiso", "rslab"])
def test_negative_eigenvalues_are_those_of_the_matrix_however_small(name):
    """An eigenvalue of 1e-9 is rounding in single precision, whose count is not taken there."""
    if name not in installed():
        pytest.skip(f"{name} is not installed")
    rng, n = np.random.default_rng(5), 40
    rows, cols = np.triu_indices(n)
    pattern = Sparsity(np.searchsorted(rows, np.arange(n + 1)), cols)
    for least in np.repeat([1e-2, 1e-9, -1e-9], 6):
        turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
        full = (turn * np.concatenate([np.linspace(0.5, 2.0, n - 11), -np.linspace(0.5, 2.0, 10), [least]])) @ turn.T
        solver = BorderedSolver(pattern, make_factoriser(pattern.indptr, pattern.indices, name), name)
        found = solver.negative_eigenvalues(full[rows, cols], np.zeros((0, n)), np.zeros((0, 0)))
        assert found == 10 + (least < 0.0)


@pytest.mark.parametrize("name", ["pardiso", "rslab"])
def test_results_do_not_depend_on_threads(name):
    if name not in installed():
        pytest.skip(f"{name} is not installed")
    indptr, indices, data, full = laplacian(15)
    found = []
    for threads in (1, 2):
        factors = make_factoriser(indptr, indices, name, single=False, threads=threads)
        factors.factorise(data)
        found.append(factors.solve(np.arange(len(full), dtype=float)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def saddle(seed, n=60, m=20):
    """Upper triangle (CSR) of a saddle-point matrix whose multipliers come first, badly scaled, and the whole matrix."""
    rng = np.random.default_rng(seed)
    root, rows = rng.standard_normal((n, n)), rng.standard_normal((m, n))
    full = np.block([[np.zeros((m, m)), rows], [rows.T, root @ root.T / n + np.eye(n)]])
    size = np.concatenate([np.full(m, 1e-4), np.full(n, 10.0)])
    full = full * size * size[:, None]
    i, j = np.triu_indices(n + m)
    return np.searchsorted(i, np.arange(n + m + 1)), j, full[i, j], full


@pytest.mark.parametrize("name", ["pardiso", "rslab"])
def test_multipliers_that_come_first_need_no_pivots_replaced_and_two_iterations(name):
    if name not in installed():
        pytest.skip(f"{name} is not installed")
    indptr, indices, data, full = saddle(0)
    solver = BorderedSolver(Sparsity(indptr, indices), make_factoriser(indptr, indices, name), name)
    right = np.random.default_rng(1).standard_normal(len(full))
    x, _ = solver.solve(BorderedMatrix(data, np.zeros((0, len(full)))), right, np.zeros(0), 1e-4, reuse=False)
    assert np.linalg.norm(full @ x - right) <= 1e-4 * np.linalg.norm(right)
    assert solver.krylov <= 2
    assert solver.factoriser.pivots == Pivots(negative=20, perturbed=0)


def test_a_quasi_definite_matrix_is_the_matrix_but_for_its_multipliers_and_scale():
    indptr, indices, data, full = saddle(3)
    values, scale = quasi_definite(indptr, indices, data)
    rows = np.repeat(np.arange(len(full)), np.diff(indptr))
    regular = np.zeros_like(full)
    regular[rows, indices] = regular[indices, rows] = values
    left = regular / scale / scale[:, None] - full
    assert np.abs(left - np.diag(np.diag(left))).max() < 1e-12 * np.abs(full).max()
    schur = np.diag(full[:20, 20:] / np.diag(full)[20:] @ full[20:, :20])
    np.testing.assert_allclose(np.diag(left)[:20], -COMPRESSIBILITY * schur, rtol=1e-10)
    np.testing.assert_allclose(np.diag(left)[20:], 0.0, atol=1e-10 * np.abs(full).max())
    np.testing.assert_allclose(np.diag(regular)[20:], 1.0, rtol=1e-12)
    # what is compressible already, or has no multiplier, keeps its values
    soft = data.copy()
    soft[indptr[:20]] = -schur
    values, scale = quasi_definite(indptr, indices, soft)
    np.testing.assert_allclose(values[indptr[:20]] / scale[:20] ** 2, -schur, rtol=1e-12)


@PARDISO
def test_factors_that_were_released_are_missed_by_name():
    indptr, indices, data, _ = laplacian(4)
    factors = make_factoriser(indptr, indices, "pardiso")
    for _ in range(2):
        with pytest.raises(FactorisationError, match="no factors"):
            factors.solve(np.ones(16))
        factors.factorise(data)
        factors.close()
