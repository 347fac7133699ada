"""Interface of sparse factorisers, with their limits of threads and memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from geosim.arrays import Floats, whole
from geosim.errors import GeosimError, InputError
from geosim.resources import cores

MAX_THREADS = 1024  # more than the cores of any machine: a mistake


class FactorisationError(GeosimError):
    """The matrix is singular to working precision."""


class OutOfMemoryError(FactorisationError):
    """The factors of the matrix do not fit into memory."""

    def __init__(self, size: int, needed: float) -> None:
        super().__init__(
            f"a system of {size} unknowns does not fit into memory: about {needed / 1e9:.1f} GB to factorise, "
            f"{available_bytes() / 1e9:.1f} GB free; use a larger max_edge or element='p1'"
        )


@dataclass(frozen=True)
class Pivots:
    """How many pivots of a factorisation are negative (-1: not counted) and were changed to be large enough."""

    negative: int = -1
    perturbed: int = 0


@dataclass(frozen=True)
class Facts:
    """What is known of the factors at hand: bytes at their peak, pivots, and the diagonal of D where they are those of D A D."""

    memory: float
    pivots: Pivots = Pivots()
    scale: Floats | None = None


class Factoriser(ABC):
    """Factorises matrices of one pattern again and again.

    Parameters
    ----------
    size
        Number of unknowns.

    Attributes
    ----------
    name
        "pardiso", "rslab", "superlu" or "multilevel".
    memory
        Bytes that a factorisation needs at its peak: an estimate from the size, and with Pardiso and RSLAB after their first
        analysis what the pattern needs.
    pivots
        Of the last factorisation.
    """

    name = ""

    def __init__(self, size: int) -> None:
        self.size = size
        superlu_bytes = 648.0  # at the peak of a factorisation, over size^(4/3): measured on Taylor-Hood tetrahedra
        self._facts = Facts(superlu_bytes * float(size) ** (4.0 / 3.0))

    @property
    def counts(self) -> bool:
        """Whether it counts negative pivots."""
        return False

    @property
    def exact(self) -> bool:
        """Whether solutions are those of the matrix but for rounding."""
        return True

    @property
    def memory(self) -> float:
        """Bytes that a factorisation needs at its peak."""
        return self._facts.memory

    @property
    def pivots(self) -> Pivots:
        """Pivots of the last factorisation."""
        return self._facts.pivots

    def scaled(self, values: Floats) -> Floats:
        """Return D times right-hand sides or solutions (size,) or (size, r)."""
        scale = self._facts.scale
        if scale is None:
            return values
        return values * (scale if values.ndim == 1 else scale[:, None])

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

    def foretell(self) -> float:
        """Return the floating-point operations of a factorisation: those of an analysis, where the factoriser tells them.

        Else they are estimated from the size.
        """
        finger_flops = 7.2  # over the square of the unknowns: a plain finger, measured with Pardiso for 32k to 300k
        return finger_flops * float(self.size) ** 2

    def place(self, x: Floats) -> None:  # noqa: B027 (only what makes equations of its own asks)
        """Tell at which positions (n, 3) the next matrix is."""

    @abstractmethod
    def solve(self, right: Floats) -> Floats:
        """Return the solutions for right-hand sides (size,) or (size, r)."""

    def count_negative(self) -> int:
        """Return the number of negative eigenvalues of the factorised matrix, -1 where they are not counted."""
        return self.pivots.negative

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
        # share of the free memory that a factorisation may ask for: the rest of the solve needs some, too
        usable_memory_share = 0.9
        if self.memory > usable_memory_share * available:
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
        return whole(threads, "threads", least=1, most=MAX_THREADS)
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()  # OpenMP takes a list, one number a level
        if given.isdecimal() and int(given) > 0:
            return min(int(given), MAX_THREADS)
    return cores()
