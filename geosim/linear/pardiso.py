"""Pardiso of Intel MKL, through the optional package pypardiso: x86-64 Linux and Windows."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factoriser import FactorisationError, Factoriser, OutOfMemoryError, Pivots, usable_threads
from geosim.linear.patterns import Sparsity, gathered
from geosim.linear.quasidefinite import quasi_definite

REAL_INDEFINITE = -2  # kind of the matrices: real and symmetric
FLOPS = 18  # which option tells the millions of flops of a factorisation, where it is -1 before the analysis


@cache
def mkl() -> Any:
    """Return MKL's pardiso function, or None where pypardiso is not installed or MKL does not load."""
    if "PYPARDISO_MKL_RT" not in os.environ:
        # pypardiso searches the whole environment for the library; naming it saves a second
        for folder in (Path(sys.prefix) / "lib", Path(sys.prefix) / "Library" / "bin"):
            found = sorted([*folder.glob("libmkl_rt.so*"), *folder.glob("mkl_rt*.dll")])
            if found:
                os.environ["PYPARDISO_MKL_RT"] = str(found[-1])
                break
    try:
        import pypardiso
    except (ImportError, OSError):
        return None
    return pypardiso.PyPardisoSolver().libmkl


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let MKL take this many threads in what this thread calls; afterwards it is as before."""
    before = mkl().MKL_Set_Num_Threads_Local(count)
    try:
        yield
    finally:
        mkl().MKL_Set_Num_Threads_Local(before)


@dataclass(frozen=True)
class _Analysis:
    """What is known of the factors of a pattern before its values are: None and False where it is not.

    Parameters
    ----------
    order
        Of elimination, from 1, (size,).
    flops
        Of a factorisation.
    done, fits
        Whether the library holds the analysis, and whether the memory for the factors is there.
    """

    order: np.ndarray | None = None
    flops: float | None = None
    done: bool = False
    fits: bool = False


class Pardiso(Factoriser):
    """L D L^T with 2x2 pivots, in single precision first."""

    name, counts = "pardiso", True
    _TOO_LARGE = (-2, -8)  # not enough memory, 32-bit integer overflow
    _ERRORS = {-3: "reordering failed", -4: "zero pivot", -7: "diagonal matrix is singular"}  # noqa: RUF012

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, single: bool, threads: int | None) -> None:
        super().__init__(len(indptr) - 1)
        self._threads = usable_threads(threads)
        self._call_c = mkl().pardiso
        self._call_c.restype = None
        self._call_c.argtypes = None
        self._pattern = indptr, indices
        self._ia = (indptr + 1).astype(np.int32)
        self._ja = (indices + 1).astype(np.int32)
        self._handle = np.zeros(64, dtype=np.int64)
        self._data = np.empty(0)
        self._analysis = _Analysis()
        self._set_options(single=single, matching=False)

    def _set_options(self, *, single: bool, matching: bool) -> None:
        self._single, self._real = single, np.float32 if single else np.float64
        # user options; METIS; pivot perturbation 1e-6 (1e-8 in double); scaling; matching; 2x2 pivots; single precision.
        # Quasi-definite matrices have 1x1 pivots in every order: without a search for others a factorisation takes .72
        # (32k unknowns) and .77 (126k) of its time, with the same residuals.
        options = {1: 1, 2: 2, 10: 6 if single else 8, 11: 1, 13: int(matching), 21: int(not single), 28: int(single)}
        self._options = np.array([options.get(key, 0) for key in range(1, 65)], dtype=np.int32)

    def strengthen(self) -> bool:
        """Switch from single precision to double with weighted matching."""
        if not self._single:
            return False
        self.close()
        self._set_options(single=False, matching=True)
        return True

    def _call(self, phase: int, right: np.ndarray | None = None, out: np.ndarray | None = None, count: int = 1) -> None:
        integer: Callable[[int], Any] = lambda v: ctypes.byref(ctypes.c_int32(v))  # noqa: E731 (a C argument)
        pointer: Callable[[np.ndarray], Any] = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
        error, dummy = ctypes.c_int32(0), np.zeros(1, dtype=self._real)
        with _threads(self._threads):
            self._call_c(
                pointer(self._handle),
                integer(1),
                integer(1),
                integer(REAL_INDEFINITE),
                integer(phase),
                integer(self.size),
                pointer(self._data),
                pointer(self._ia),
                pointer(self._ja),
                None if self._analysis.order is None else pointer(self._analysis.order),
                integer(count),
                pointer(self._options),
                integer(0),
                pointer(dummy if right is None else right),
                pointer(dummy if out is None else out),
                ctypes.byref(error),
            )
        if error.value in self._TOO_LARGE:
            raise OutOfMemoryError(self.size, self.memory)
        if error.value:
            reason = self._ERRORS.get(error.value, f"error {error.value}")
            raise FactorisationError(f"Pardiso could not factorise the matrix: {reason}")

    def foretell(self) -> float:
        """Return the flops of a factorisation (see `Factoriser`); the analysis that tells them is kept.

        METIS sees a node, with the pressure of its vertex, as one: measured on Taylor-Hood bodies of 30k to 80k unknowns the
        analysis takes 0.54 to 0.71 of the time that it takes with all unknowns, and the factors have as many entries within 3 %.
        """
        # flops of factors over those where a node is one unknown, and the cube of the unknowns of a node: 1.02 to 1.08 on eight
        # bodies of 32k to 336k unknowns
        flops_of_blocks = 1.05
        if self._analysis.flops is not None:
            return self._analysis.flops
        if not self._options[12]:  # weighted matching has an order of its own
            graph, group = gathered(Sparsity(*self._pattern))
            if 2 * graph.size < self.size:
                nodes = Pardiso(graph.indptr, graph.indices, True, self._threads)
                nodes._analysis = _Analysis(order := np.zeros(graph.size, np.int32))
                nodes._options[1], nodes._options[4] = 3, 2  # METIS by all threads, the same order; return it
                per_node = nodes._analyse()
                place = np.argsort(order)
                self._options[4] = 1  # take an order
                flops = flops_of_blocks * (self.size / graph.size) ** 3 * per_node
                self._analysis = _Analysis((np.argsort(place[group], kind="stable") + 1).astype(np.int32), flops)
                return flops
        return self._analyse()

    def _analyse(self) -> float:
        """Find where the factors have entries, in the order of `foretell` where it has found one; return the flops."""
        if not len(self._data):
            self._data = np.ones(len(self._ja), dtype=self._real)
        self._options[FLOPS] = -1
        self._call(11)
        flops = 1e6 * int(self._options[FLOPS])
        self._analysis = replace(self._analysis, flops=flops, done=True, fits=False)
        # iparm(15..17): kilobytes of the analysis at its peak, kept from it, and of the factors
        memory = 1024.0 * max(int(self._options[14]), int(self._options[15]) + int(self._options[16]))
        self._facts = replace(self._facts, memory=memory)
        return flops

    def factorise(self, data: Floats) -> None:
        """Factorise (see `Factoriser`): analyse once, then numerically."""
        scale = None
        if self._single:
            data, scale = quasi_definite(*self._pattern, data)
        self._data = np.ascontiguousarray(data, dtype=self._real)
        if not self._analysis.done:
            self.foretell()
        if not self._analysis.done:
            self._analyse()
        if not self._analysis.fits:
            self.refuse_if_too_large()
            self._analysis = replace(self._analysis, fits=True)
        self._call(22)
        pivots = Pivots(int(self._options[22]), int(self._options[13]))
        self._facts = replace(self._facts, pivots=pivots, scale=scale)

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        if not self._analysis.done:  # the library would crash
            raise FactorisationError("Pardiso has no factors to solve with")
        given: np.ndarray = np.asfortranarray(self.scaled(right), dtype=self._real)
        out = np.zeros_like(given, order="F")
        self._call(33, given, out, 1 if right.ndim == 1 else right.shape[1])
        return self.scaled(np.ascontiguousarray(out, dtype=float))

    def close(self) -> None:
        """Release the memory of the factors and of the analysis."""
        if self._analysis.done:
            self._call(-1)
            self._analysis = replace(self._analysis, done=False)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # bound as a default: at the end of the interpreter the names of modules go before their last objects
        if not finalizing() and hasattr(self, "_analysis"):
            self.close()
