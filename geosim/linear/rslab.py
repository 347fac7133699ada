"""RSLAB, a sparse L D L^T in Rust under the MIT licence: Linux, macOS and Windows, x86-64 and ARM."""

from __future__ import annotations

import importlib.util
import queue
import threading
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix

from geosim.arrays import Floats
from geosim.linear.factoriser import FactorisationError, Factoriser, Facts, Pivots, usable_threads
from geosim.linear.quasidefinite import quasi_definite

# Pivots are kept above these shares of the largest entry, in single and in double precision, and are counted where they were
# not: near a singular matrix the factors are then those of one near by, and only precondition.
LEAST_PIVOT = {np.float32: 1e-6, np.float64: 1e-13}


@cache
def library() -> Any:
    """Return the module rslab, or None where it is not installed.

    Its allocator belongs to the thread that loads it: where that thread has ended, the next one crashes. So it is loaded by the
    main thread or by one that stays.
    """
    if importlib.util.find_spec("rslab") is None:
        return None
    if threading.current_thread() is threading.main_thread():
        return _loaded()
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def load() -> None:
        found.put(_loaded())
        threading.Event().wait()

    threading.Thread(target=load, name="geosim-rslab", daemon=True).start()
    return found.get()


def _loaded() -> Any:
    try:
        return importlib.import_module("rslab")
    except (ImportError, OSError):
        return None


class Rslab(Factoriser):
    """L D L^T with Bunch-Kaufman pivots, in single precision first."""

    name, counts = "rslab", True

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, single: bool, threads: int | None) -> None:
        super().__init__(len(indptr) - 1)
        self._threads, self._real = usable_threads(threads), np.float32 if single else np.float64
        self._pattern = (
            indices,
            indptr,
        )  # the rows of an upper triangle are the columns of the lower one, which it reads
        self._analysis: Any = None
        self._factors: Any = None

    def strengthen(self) -> bool:
        """Switch from single to double precision."""
        if self._real is np.float64:
            return False
        self._real = np.float64
        return True

    def foretell(self) -> float:
        """Return the flops of a factorisation (see `Factoriser`), those of dense fronts; the analysis is kept."""
        self._analyse(np.ones(len(self._pattern[0]), dtype=self._real))
        columns, rows = np.array(self._analysis.front_dims, dtype=float).T
        return float((rows**3 - (rows - columns) ** 3).sum() / 3.0)

    def _analyse(self, values: np.ndarray) -> None:
        if self._analysis is None:
            matrix = csc_matrix((values, *self._pattern), shape=(self.size, self.size))
            self._analysis = library().analyze(matrix, "ldlt", threads=self._threads)

    def factorise(self, data: Floats) -> None:
        """Factorise (see `Factoriser`): analyse once, then numerically."""
        scale = None
        if self._real is np.float32:
            indices, indptr = self._pattern
            data, scale = quasi_definite(indptr, indices, data)
        values = np.ascontiguousarray(data, dtype=self._real)
        self._factors = None  # their memory goes first
        self._analyse(values)
        name = np.dtype(self._real).name
        memory = float(self._analysis.memory_plan(name, threads=self._threads)["peak_bytes"])
        self._facts = Facts(memory, scale=scale)
        self.refuse_if_too_large()
        try:
            self._factors = self._analysis.factor(values, preconditioner=LEAST_PIVOT[self._real], threads=self._threads)
        except (RuntimeError, ValueError) as error:
            raise FactorisationError(f"RSLAB could not factorise the matrix: {error}") from None
        pivots = Pivots(int(self._factors.inertia[1]), int(self._factors.n_perturbed))
        self._facts = replace(self._facts, pivots=pivots)

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        given = np.ascontiguousarray(self.scaled(right), dtype=self._real)
        solve = self._factors.solve if right.ndim == 1 else self._factors.solve_many
        return self.scaled(np.asarray(solve(given), dtype=float))

    def close(self) -> None:
        """Release the memory of the factors and of the analysis."""
        self._factors, self._analysis = None, None
