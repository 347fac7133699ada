"""The sparse direct solver of the shape equations, chosen once and here.

RSLAB (MIT, in Rust) and Pardiso (Intel MKL, through the optional package pypardiso) factorise the upper triangle as L D L^T with
2x2 pivots; SuperLU (SciPy) factorises the whole matrix and is always there. All return the same solutions; the first two are
several times faster. They work in single precision first where their factors only precondition (see `geosim.linear.bordered`):
these take half the memory and two thirds of the time, and double precision is the fallback.
"""

from __future__ import annotations

from importlib import metadata

import numpy as np

from geosim.arrays import choice
from geosim.errors import InputError
from geosim.linear.factoriser import FactorisationError, Factoriser, OutOfMemoryError, usable_threads
from geosim.linear.pardiso import Pardiso, mkl
from geosim.linear.rslab import Rslab, library
from geosim.linear.superlu import Superlu

__all__ = [
    "FACTORISERS",
    "MULTILEVEL",
    "FactorisationError",
    "Factoriser",
    "OutOfMemoryError",
    "describe",
    "installed",
    "make_factoriser",
]

# In the order in which "auto" takes them.
FACTORISERS = ("pardiso", "rslab", "superlu")
MULTILEVEL = "multilevel"  # no factors but on a coarse level (see `geosim.linear.multilevel`)
REMEDIES = {"pardiso": "pip install pypardiso (x86-64 only)", "rslab": "pip install rslab"}


def make_factoriser(
    indptr: np.ndarray, indices: np.ndarray, name: str = "auto", *, single: bool = True, threads: int | None = None
) -> Factoriser:
    """Return a factoriser for the upper triangle with the given CSR pattern.

    Parameters
    ----------
    name
        "auto" (the first that is installed), "rslab", "pardiso" or "superlu".
    single
        Whether Pardiso and RSLAB work in single precision first; without, its solutions need no refinement.
    threads
        How many Pardiso and RSLAB take (see `usable_threads`); SuperLU has one.

    Raises
    ------
    InputError
        The name is unknown, what is asked for is not installed, or the number of threads is none.
    """
    choice(name, "factoriser", ("auto", *FACTORISERS))
    if name != "auto" and not _is_installed(name):
        raise InputError(f"factoriser = {name!r} is not installed: {REMEDIES[name]}; or use 'auto'")
    chosen = next(filter(_is_installed, FACTORISERS)) if name == "auto" else name
    if chosen == "superlu":
        return Superlu(indptr, indices)
    return (Pardiso if chosen == "pardiso" else Rslab)(indptr, indices, single, threads)


def installed() -> tuple[str, ...]:
    """Return the factorisers that are there, the one that "auto" means first."""
    return tuple(filter(_is_installed, FACTORISERS))


def _is_installed(name: str) -> bool:
    return name == "superlu" or (mkl if name == "pardiso" else library)() is not None


def describe() -> dict[str, str]:
    """Return which factoriser "auto" means here, with the version of its library and the threads it takes."""
    name = installed()[0]
    libraries = {"pardiso": ("MKL", "mkl"), "rslab": ("RSLAB", "rslab"), "superlu": ("SciPy", "scipy")}
    title, package = libraries[name]
    out = {"factoriser": name, "library": f"{title} {metadata.version(package)}", "threads": str(usable_threads())}
    if name == "superlu":
        out |= {"threads": "1", "remedy": f"{REMEDIES['rslab']} makes solves several times faster"}
    return out
