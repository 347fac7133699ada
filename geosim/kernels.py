"""One decorator for every compiled kernel: numba, cached on disk wherever a disk can be written."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numba
from numba.core import config as numba_config

__all__ = ["cache_folder", "kernel"]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def cache_folder() -> Path | None:
    """Return the folder that holds compiled kernels: beside the package, else the user's cache, else a temporary one.

    An installed package may be read-only, and a container may have no home; the first folder that can be
    written is taken, so that the compilation of a cold start is paid once. None if nothing can be written.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    candidates = [Path(chosen)] if chosen else []
    candidates.append(Path(__file__).parent / "__pycache__")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    candidates += [
        Path(home) / "geosim",
        Path(tempfile.gettempdir()) / f"geosim-cache-{os.environ.get('USER', 'user')}",
    ]
    return next((folder for folder in candidates if _writable(folder)), None)


@cache
def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _key(function: Callable) -> str:
    """Digest of the sources that a kernel is compiled from: its own file and those of the kernels it calls.

    numba looks only at the file of the kernel itself, and would run yesterday's version of a kernel it calls.
    """
    digest = hashlib.sha256(_content(function.__code__.co_filename))
    for name in function.__code__.co_names:
        called = getattr(function.__globals__.get(name), "py_func", None)
        digest.update(getattr(called, "_kernel_key", "").encode())
    return digest.hexdigest()[:20]


def kernel(
    function: Callable | None = None, *, parallel: bool = False, fastmath: bool = False, inline: str = "never"
) -> Any:
    """Compile a function with numba (nopython, no global lock, cached on disk).

    `fastmath=True` only for kernels that never meet nan or inf.
    """

    def wrap(f: Callable) -> Any:
        f._kernel_key = key = _key(f)  # type: ignore[attr-defined]
        folder, config = cache_folder(), cast(Any, numba_config)
        before = config.CACHE_DIR
        if folder is not None:
            config.CACHE_DIR = str(folder / "kernels" / key)
        try:
            compile_ = cast(Any, numba.njit)
            return compile_(
                f,
                cache=folder is not None,
                nogil=True,
                parallel=parallel,
                fastmath=fastmath,
                inline=inline,
                error_model="numpy",
            )
        finally:
            config.CACHE_DIR = before

    return wrap if function is None else wrap(function)
