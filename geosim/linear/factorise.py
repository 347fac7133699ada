"""The sparse direct solver of the shape equations, chosen once and here.

Pardiso (Intel MKL, through the optional package pypardiso) factorises the upper triangle as L D L^T with 2x2
pivots; SuperLU (SciPy) factorises the whole matrix and is always there. Both return the same solutions; Pardiso is
several times faster. Pardiso can work in single precision first: where its factors only precondition (see
`geosim.linear.bordered`), they take half the memory and two thirds of the time, and double precision with weighted matching
is the fallback.
"""

from __future__ import annotations

import ctypes
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.linalg import SuperLU, splu

from geosim.arrays import Floats, choice, whole
from geosim.errors import GeosimError, InputError

__all__ = [
    "MOST_THREADS",
    "FactorisationError",
    "Factoriser",
    "OutOfMemoryError",
    "available_bytes",
    "describe",
    "make_factoriser",
    "usable_threads",
]

MOST_THREADS = 1024  # more than the cores of any machine: a mistake

SAFE = 0.9  # share of the free memory that a factorisation may ask for: the rest of the solve needs some, too
# Factors of SuperLU, measured on Taylor-Hood tetrahedra: entries over size^(4/3), bytes of an entry with its index, and what
# it allocates besides.
FILL, ENTRY, SLACK = 6.0, 12.0, 9.0
# SuperLU leaves the diagonal where its entry is below this share of the largest in its column: a symmetric indefinite
# matrix has to, an unsymmetric one of friction and drag is nearly definite.
DIAGONAL, NEARLY_DEFINITE = 0.01, 1e-3
EQUILIBRATIONS = 3  # rounds of square roots after which rows have a maximum near one


class FactorisationError(GeosimError):
    """The matrix is singular to working precision."""


class OutOfMemoryError(FactorisationError):
    """The factors of the matrix do not fit into memory."""

    def __init__(self, size: int, needed: float) -> None:
        super().__init__(
            f"a system of {size} unknowns does not fit into memory: about {needed / 1e9:.1f} GB to factorise, "
            f"{available_bytes() / 1e9:.1f} GB free; use a larger max_edge or element='p1'"
        )


class Factoriser(ABC):
    """Factorises matrices of one pattern again and again.

    Parameters
    ----------
    size
        Number of unknowns.

    Attributes
    ----------
    name
        "pardiso" or "superlu".
    memory
        Bytes that a factorisation needs at its peak: an estimate from the size, and with Pardiso after its first analysis
        what the pattern needs.
    negative_pivots, perturbed_pivots
        Of the last factorisation; -1 where they are not counted.
    """

    name = ""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = FILL * ENTRY * SLACK * float(size) ** (4.0 / 3.0)
        self.negative_pivots = -1
        self.perturbed_pivots = 0

    @abstractmethod
    def factorise(self, data: Floats) -> None:
        """Factorise the matrix with the given values of the pattern.

        Raises
        ------
        OutOfMemoryError
            The factors do not fit.
        FactorisationError
            The matrix is singular.
        InputError
            It would need more memory than there is.
        """

    @abstractmethod
    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""

    def strengthen(self) -> bool:
        """Switch to a slower, more robust way of factorising; False if there is none."""
        return False

    def close(self) -> None:  # noqa: B027 (nothing to do for most)
        """Release the memory of the factors."""

    def refuse_if_too_large(self) -> None:
        """Refuse a factorisation that needs more memory than there is.

        Raises
        ------
        InputError
            How much it needs, and how much there is.
        """
        available = available_bytes()
        if self.memory > SAFE * available:
            raise InputError(
                f"a system of {self.size} unknowns needs about {self.memory / 1e9:.1f} GB to factorise and "
                f"{available / 1e9:.1f} GB are free; use a larger max_edge or element='p1'"
            )


def available_bytes() -> float:
    """Return the memory that can still be used [bytes], inf where the system does not say."""
    try:
        return 1024.0 * float(Path("/proc/meminfo").read_text("ascii").split("MemAvailable:")[1].split()[0])
    except (OSError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def usable_threads(threads: int | None = None) -> int:
    """Return how many threads a factorisation takes: as many as are asked for, else as this process is given.

    Those are MKL_NUM_THREADS or OMP_NUM_THREADS where they say so (the workers of a sweep have 1), else the cores that the
    process may run on.

    Raises
    ------
    InputError
        `threads` is not a whole number from 1.
    """
    if threads is not None:
        return whole(threads, "threads", least=1, most=MOST_THREADS)
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()  # OpenMP takes a list, one number a level
        if given.isdecimal() and int(given) > 0:
            return min(int(given), MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _mkl() -> Any:
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
def _mkl_threads(count: int) -> Iterator[None]:
    """Let MKL take so many threads in what this thread calls; afterwards it is as before."""
    before = _mkl().MKL_Set_Num_Threads_Local(count)
    try:
        yield
    finally:
        _mkl().MKL_Set_Num_Threads_Local(before)


class _Pardiso(Factoriser):
    name = "pardiso"
    _TOO_LARGE = (-2, -8)  # not enough memory, 32-bit integer overflow
    _ERRORS = {-3: "reordering failed", -4: "zero pivot", -7: "diagonal matrix is singular"}  # noqa: RUF012

    def __init__(
        self, indptr: np.ndarray, indices: np.ndarray, single: bool, symmetric: bool, threads: int | None
    ) -> None:
        super().__init__(len(indptr) - 1)
        self._threads = usable_threads(threads)
        self._call_c = _mkl().pardiso
        self._call_c.restype = None
        self._call_c.argtypes = None
        self._kind = -2 if symmetric else 11  # real and symmetric indefinite; of symmetric pattern only
        self._ia = (indptr + 1).astype(np.int32)
        self._ja = (indices + 1).astype(np.int32)
        self._handle = np.zeros(64, dtype=np.int64)
        self._data = np.empty(0)
        self._analysed = False
        self._set_options(single=single, matching=False)

    def _set_options(self, *, single: bool, matching: bool) -> None:
        self._single, self._real = single, np.float32 if single else np.float64
        # user options; METIS; pivot perturbation 1e-6 (1e-8 in double); scaling; matching; 2x2 pivots; single precision
        options = {1: 1, 2: 2, 10: 6 if single else 8, 11: 1, 13: int(matching), 21: 1, 28: int(single)}
        self._options = np.array([options.get(key, 0) for key in range(1, 65)], dtype=np.int32)

    def strengthen(self) -> bool:
        """Switch from single precision to double with weighted matching."""
        if not self._single:
            return False
        self.close()
        self._set_options(single=False, matching=True)
        return True

    def _call(self, phase: int, right: np.ndarray | None = None, out: np.ndarray | None = None, count: int = 1) -> None:
        integer = lambda v: ctypes.byref(ctypes.c_int32(v))  # noqa: E731 (a C argument)
        pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
        error, dummy = ctypes.c_int32(0), np.zeros(1, dtype=self._real)
        with _mkl_threads(self._threads):
            self._call_c(
                pointer(self._handle),
                integer(1),
                integer(1),
                integer(self._kind),
                integer(phase),
                integer(self.size),
                pointer(self._data),
                pointer(self._ia),
                pointer(self._ja),
                None,
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

    def factorise(self, data: Floats) -> None:
        self._data = np.ascontiguousarray(data, dtype=self._real)
        if not self._analysed:
            self._call(11)
            self._analysed = True
            # iparm(15..17): kilobytes of the analysis at its peak, kept from it, and of the factors
            self.memory = 1024.0 * max(int(self._options[14]), int(self._options[15]) + int(self._options[16]))
            self.refuse_if_too_large()
        self._call(22)
        self.negative_pivots = int(self._options[22]) if self._kind == -2 else -1
        self.perturbed_pivots = int(self._options[13])

    def solve(self, right: Floats) -> Floats:
        given: np.ndarray = np.asfortranarray(right, dtype=self._real)
        out = np.zeros_like(given, order="F")
        self._call(33, given, out, 1 if right.ndim == 1 else right.shape[1])
        return np.ascontiguousarray(out, dtype=float)

    def close(self) -> None:
        if self._analysed:
            self._call(-1)
            self._analysed = False

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # bound as a default: at the end of the interpreter the names of modules go before their last objects
        if not finalizing() and getattr(self, "_analysed", False):
            self.close()


class _SuperLU(Factoriser):
    name = "superlu"

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool) -> None:
        super().__init__(len(indptr) - 1)
        places = csr_matrix((np.arange(1.0, len(indices) + 1.0), indices, indptr), shape=(self.size, self.size))
        if symmetric:  # the lower triangle is that of the upper
            places = places + scipy.sparse.triu(places, 1).T
        full = places.tocsc()
        full.sort_indices()
        self._order = full.data.astype(np.int64) - 1
        self._pattern, self._symmetric = (full.indices, full.indptr), symmetric
        self._factors: SuperLU | None = None
        self._scale: Floats = np.ones(self.size)

    def factorise(self, data: Floats) -> None:
        self.refuse_if_too_large()
        matrix = csc_matrix((data[self._order], *self._pattern), shape=(self.size, self.size))
        # symmetric equilibration: rows and columns to unit maximum
        scale, columns = np.ones(self.size), np.repeat(np.arange(self.size), np.diff(matrix.indptr))
        for _ in range(EQUILIBRATIONS if self._symmetric else 0):
            largest = abs(matrix.multiply(scale[:, None]).multiply(scale[None])).max(axis=0).toarray().ravel()
            if (largest == 0).any():
                raise FactorisationError("SuperLU could not factorise the matrix: it has an empty row")
            scale /= np.sqrt(largest)
        matrix.data = matrix.data * scale[matrix.indices] * scale[columns]
        self._scale = scale
        threshold = DIAGONAL if self._symmetric else NEARLY_DEFINITE
        try:
            self._factors = splu(
                matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=threshold, options={"SymmetricMode": True}
            )
        except RuntimeError as error:
            raise FactorisationError(f"SuperLU could not factorise the matrix: {error}") from None
        except MemoryError:
            raise OutOfMemoryError(self.size, self.memory) from None

    def solve(self, right: Floats) -> Floats:
        assert self._factors is not None
        scale = self._scale if np.ndim(right) == 1 else self._scale[:, None]
        return np.asarray(scale * self._factors.solve(scale * right))


def make_factoriser(
    indptr: np.ndarray,
    indices: np.ndarray,
    name: str = "auto",
    *,
    single: bool = True,
    symmetric: bool = True,
    threads: int | None = None,
) -> Factoriser:
    """Return a factoriser for the upper triangle with the given CSR pattern.

    Parameters
    ----------
    name
        "auto" (Pardiso where it loads, else SuperLU), "pardiso" or "superlu".
    single
        Whether Pardiso works in single precision first; without, its solutions need no refinement.
    symmetric
        False: the pattern is that of the whole matrix, whose values are not symmetric.
    threads
        How many Pardiso takes (see `usable_threads`); SuperLU has one.

    Raises
    ------
    InputError
        The name is unknown, Pardiso is asked for and not installed, or the number of threads is none.
    """
    choice(name, "factoriser", ("auto", "pardiso", "superlu"))
    if name == "pardiso" and _mkl() is None:
        raise InputError("factoriser = 'pardiso' needs MKL: pip install pypardiso (x86-64 only), or use 'auto'")
    if name == "superlu" or _mkl() is None:
        return _SuperLU(indptr, indices, symmetric)
    return _Pardiso(indptr, indices, single, symmetric, threads)


def describe() -> dict[str, str]:
    """Return which factoriser "auto" means here, with the version of its library."""
    if _mkl() is None:
        return {
            "factoriser": "superlu",
            "library": f"SciPy {scipy.__version__}",
            "threads": "1",
            "remedy": "pip install pypardiso makes solves several times faster (x86-64)",
        }
    return {"factoriser": "pardiso", "library": f"MKL {metadata.version('mkl')}", "threads": str(usable_threads())}
