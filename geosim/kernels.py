"""One decorator for every compiled kernel: numba, cached on disk wherever a disk can be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["cache_folder", "kernel"]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder() -> Path | None:
    """Return the folder that holds compiled kernels: beside the package, else the user's cache, else a temporary one.

    An installed package may be read-only, and a container may have no home; the first folder that can be
    written is taken, so that the compilation of a cold start is paid once. None if nothing can be written.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    candidates = [Path(chosen)] if chosen else []
    candidates.append(Path(__file__).parent / "__pycache__")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    candidates += [Path(home) / "geosim", Path(tempfile.gettempdir()) / f"geosim-cache-{os.environ.get('USER', 'user')}"]
    return next((folder for folder in candidates if _writable(folder)), None)


def _numba() -> Any:
    """Import numba with a cache folder that exists."""
    folder = cache_folder()
    if folder is not None and folder.name != "__pycache__":
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))
    import numba

    return numba


_NUMBA = _numba()
_CACHE = cache_folder() is not None


def kernel(function: Callable | None = None, *, parallel: bool = False, fastmath: bool = False,
           inline: str = "never") -> Any:
    """Compile a function with numba (nopython, no global lock, cached on disk).

    `fastmath=True` only for kernels that never meet nan or inf.
    """

    def wrap(f: Callable) -> Any:
        return _NUMBA.njit(f, cache=_CACHE, nogil=True, parallel=parallel, fastmath=fastmath, inline=inline,
                           error_model="numpy")

    return wrap if function is None else wrap(function)
