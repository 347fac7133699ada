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
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.linalg import splu

from geosim.arrays import Floats
from geosim.errors import GeosimError, InputError

__all__ = ["FactorisationError", "Factoriser", "available_bytes", "describe", "make_factoriser"]


class FactorisationError(GeosimError):
    """The matrix is singular to working precision."""


class Factoriser:
    """Factorises symmetric indefinite matrices of one pattern again and again."""

    name = ""
    perturbed_pivots = 0
    negative_pivots = -1

    def factorise(self, data: Floats) -> None:
        """Factorise the matrix with the given values of the upper triangle.

        Raises
        ------
        FactorisationError
            The matrix is singular.
        InputError
            It would need more memory than there is.
        """
        raise TypeError

    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""
        raise TypeError

    def strengthen(self) -> bool:
        """Switch to a slower, more robust way of factorising; False if there is none."""
        return False

    def close(self) -> None:
        """Release the memory of the factors."""


def available_bytes() -> float:
    """Return the memory that can still be used [bytes], inf where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024.0
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _refuse_if_too_large(needed: float, size: int) -> None:
    available = available_bytes()
    if needed > 0.9 * available:
        raise InputError(
            f"a system of {size} unknowns needs about {needed / 1e9:.1f} GB to factorise and "
            f"{available / 1e9:.1f} GB are free; use a larger max_edge or element='p1'"
        )


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


class _Pardiso(Factoriser):
    name = "pardiso"
    _kind = -2  # real, symmetric, indefinite
    _ERRORS: ClassVar[dict[int, str]] = {
        -2: "not enough memory",
        -3: "reordering failed",
        -4: "zero pivot",
        -7: "diagonal matrix is singular",
        -8: "32-bit integer overflow",
    }

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, single: bool = True) -> None:
        self._library = _mkl()
        self._call_c = self._library.pardiso
        self._call_c.restype = None
        self._call_c.argtypes = None
        self.size = len(indptr) - 1
        self._ia = (indptr + 1).astype(np.int32)
        self._ja = (indices + 1).astype(np.int32)
        self._handle = np.zeros(64, dtype=np.int64)
        self._options = np.zeros(64, dtype=np.int32)
        self._data = np.empty(0)
        self._analysed = False
        self.peak_bytes = 0.0
        self.negative_pivots = -1
        self.perturbed_pivots = 0
        self._single = single
        self._set_options(matching=False)

    def _set_options(self, *, matching: bool) -> None:
        # user options; METIS; pivot perturbation 1e-6 (1e-8 in double); scaling; matching; 2x2 pivots; single precision
        options = {1: 1, 2: 2, 10: 6 if self._single else 8, 11: 1, 13: int(matching), 21: 1, 28: int(self._single)}
        self._options[:] = 0
        for key, value in options.items():
            self._options[key - 1] = value

    @property
    def _real(self) -> type:
        return np.float32 if self._single else np.float64

    def strengthen(self) -> bool:
        """Switch from single precision to double with weighted matching."""
        if not self._single:
            return False
        self.close()
        self._single = False
        self._set_options(matching=True)
        return True

    def _call(self, phase: int, right: np.ndarray, out: np.ndarray, count: int = 1) -> None:
        integer = lambda v: ctypes.byref(ctypes.c_int32(v))  # noqa: E731 (a C argument)
        pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
        error = ctypes.c_int32(0)
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
            pointer(right),
            pointer(out),
            ctypes.byref(error),
        )
        if error.value:
            reason = self._ERRORS.get(error.value, f"error {error.value}")
            raise FactorisationError(f"Pardiso could not factorise the matrix: {reason}")

    def factorise(self, data: Floats) -> None:
        self._data = np.ascontiguousarray(data, dtype=self._real)
        dummy: np.ndarray = np.zeros(1, dtype=self._real)
        if not self._analysed:
            self._call(11, dummy, dummy)
            self._analysed = True
            # iparm(15..17): kilobytes of the analysis at its peak, kept from it, and of the factors
            self.peak_bytes = 1024.0 * max(int(self._options[14]), int(self._options[15]) + int(self._options[16]))
            _refuse_if_too_large(self.peak_bytes, self.size)
        self._call(22, dummy, dummy)
        self.negative_pivots = int(self._options[22])
        self.perturbed_pivots = int(self._options[13])

    def solve(self, right: Floats) -> Floats:
        columns = 1 if right.ndim == 1 else right.shape[1]
        given: np.ndarray = np.asfortranarray(right, dtype=self._real)
        out = np.zeros_like(given, order="F")
        self._call(33, given, out, columns)
        return np.ascontiguousarray(out, dtype=float)

    def close(self) -> None:
        if self._analysed:
            dummy: np.ndarray = np.zeros(1, dtype=self._real)
            self._call(-1, dummy, dummy)
            self._analysed = False

    def __del__(self) -> None:
        if getattr(self, "_analysed", False) and not sys.is_finalizing():
            self.close()


class _GeneralPardiso(_Pardiso):
    """Matrices of symmetric pattern and unsymmetric values, the whole pattern given."""

    _kind = 11

    def factorise(self, data: Floats) -> None:
        super().factorise(data)
        self.negative_pivots = -1  # it does not count them


class _GeneralSuperLU(Factoriser):
    name = "superlu"

    def __init__(self, indptr: np.ndarray, indices: np.ndarray) -> None:
        self._pattern, self.size = (indices, indptr), len(indptr) - 1
        self._factors: Any = None

    def factorise(self, data: Floats) -> None:
        matrix = csr_matrix((data, *self._pattern), shape=(self.size, self.size)).tocsc()
        try:
            self._factors = splu(
                matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=1e-3, options={"SymmetricMode": True}
            )
        except RuntimeError as error:
            raise FactorisationError(f"SuperLU could not factorise the matrix: {error}") from None

    def solve(self, right: Floats) -> Floats:
        return np.asarray(self._factors.solve(right))


class _SuperLU(Factoriser):
    name = "superlu"

    def __init__(self, indptr: np.ndarray, indices: np.ndarray) -> None:
        self.size = len(indptr) - 1
        upper = csr_matrix((np.arange(1.0, len(indices) + 1.0), indices, indptr), shape=(self.size, self.size))
        rows = np.repeat(np.arange(self.size), np.diff(indptr))
        off = rows != indices
        lower = csr_matrix((upper.data[off], (indices[off], rows[off])), shape=upper.shape)
        full = (upper + lower).tocsc()
        full.sort_indices()
        self._order = full.data.astype(np.int64) - 1
        self._pattern = (full.indices, full.indptr)
        self._upper = upper
        self._factors: Any = None
        self.negative_pivots = -1
        self.perturbed_pivots = 0
        # measured on Taylor-Hood tetrahedra: fill grows like size^(4/3)
        self.peak_bytes = 12.0 * 6.0 * float(self.size) ** (4.0 / 3.0) * 9.0
        self._scale: Floats = np.ones(self.size)

    def factorise(self, data: Floats) -> None:
        _refuse_if_too_large(self.peak_bytes, self.size)
        values = data[self._order]
        matrix = csc_matrix((values, *self._pattern), shape=(self.size, self.size))
        # symmetric equilibration: rows and columns to unit maximum
        scale = np.ones(self.size)
        for _ in range(3):
            scaled = abs(matrix.multiply(scale[:, None]).multiply(scale[None]))
            largest = scaled.max(axis=0).toarray().ravel()
            if (largest == 0).any():
                raise FactorisationError("SuperLU could not factorise the matrix: it has an empty row")
            scale /= np.sqrt(largest)
        self._scale = scale
        scaled = csc_matrix(
            (values * scale[self._pattern[0]] * np.repeat(scale, np.diff(self._pattern[1])), *self._pattern),
            shape=matrix.shape,
        )
        try:
            self._factors = splu(
                scaled, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True}
            )
        except RuntimeError as error:
            raise FactorisationError(f"SuperLU could not factorise the matrix: {error}") from None
        except MemoryError:
            raise InputError(
                f"a system of {self.size} unknowns does not fit into memory; use a larger max_edge or element='p1'"
            ) from None

    def solve(self, right: Floats) -> Floats:
        scale = self._scale if np.ndim(right) == 1 else self._scale[:, None]
        return scale * self._factors.solve(scale * right)


def make_factoriser(
    indptr: np.ndarray, indices: np.ndarray, name: str = "auto", *, single: bool = True, symmetric: bool = True
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

    Raises
    ------
    InputError
        The name is unknown, or Pardiso is asked for and not installed.
    """
    if name not in ("auto", "pardiso", "superlu"):
        raise InputError(f"factoriser = {name!r} is unknown; use 'auto', 'pardiso' or 'superlu'")
    if name == "pardiso" and _mkl() is None:
        raise InputError("factoriser = 'pardiso' needs MKL: pip install pypardiso (x86-64 only), or use 'auto'")
    if name == "superlu" or _mkl() is None:
        return _SuperLU(indptr, indices) if symmetric else _GeneralSuperLU(indptr, indices)
    return _Pardiso(indptr, indices, single) if symmetric else _GeneralPardiso(indptr, indices, single)


def describe() -> dict[str, str]:
    """Return which factoriser "auto" means here, with the version of its library."""
    if _mkl() is None:
        import scipy

        return {
            "factoriser": "superlu",
            "library": f"SciPy {scipy.__version__}",
            "remedy": "pip install pypardiso makes solves several times faster (x86-64)",
        }
    return {
        "factoriser": "pardiso",
        "library": f"MKL {metadata.version('mkl')}",
        "threads": str(_mkl().MKL_Get_Max_Threads()),
    }
