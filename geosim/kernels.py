"""One decorator for every compiled kernel: numba, loaded when Python first calls one, cached by content.

A compiled kernel is kept under the digest of the sources that it comes from, not under the path of a file: two
environments, two checkouts and the workers of a test run share one cache, and an edit recompiles what it touches alone.
A wheel brings the machine code of the kernels of usual solves (see `geosim.compiling`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np


def _private(folder: Path) -> bool:
    """Whether a folder in a shared place is the user's, and nobody else can write it: it holds machine code."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()  # a link of somebody else's making is none
    return (
        stat.S_ISDIR(state.st_mode)
        and state.st_uid == os.getuid()
        and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _user_cache() -> Path:
    """Return the folder in which programs of this user keep what can be made again."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


@cache
def cache_folder() -> Path | None:
    """Return the folder that holds compiled kernels; None if nothing can be written.

    GEOSIM_CACHE_DIR (or NUMBA_CACHE_DIR) where it is set, else the user's cache, else beside the package, else a temporary
    one: a container may have no home, and an installed package may be read-only. The first that can be written is taken.
    The user's comes first because it is one place for every copy of geosim, an installed one and a checkout alike: what
    one has compiled no other compiles again.
    """
    candidates = [Path(os.environ[name]) for name in ("GEOSIM_CACHE_DIR", "NUMBA_CACHE_DIR") if os.environ.get(name)]
    candidates += [_user_cache() / "geosim", Path(__file__).parent / "__pycache__"]
    found = next((folder for folder in candidates if _writable(folder)), None)
    if found is None and hasattr(os, "getuid"):
        shared = Path(tempfile.gettempdir()) / f"geosim-cache-{os.getuid()}"
        with suppress(OSError):
            found = shared if _private(shared) and _writable(shared) else None
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _digest(function: Callable[..., Any], seen: dict[Callable[..., Any], None] | None = None) -> str:
    """Digest of what a kernel is compiled from: its code, the constants it names and the kernels it calls.

    numba itself looks only at the file of the kernel, and would run yesterday's version of a kernel it calls. The code is that
    in memory: a file may have changed since it was read.
    """
    seen = {} if seen is None else seen
    seen[function] = None
    digest = hashlib.sha256(repr((function.__defaults__, getattr(function, "compiled_with", None))).encode())
    names: list[str] = []
    for code in _codes(function.__code__):
        plain = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
        constants = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in plain]  # sets have no order
        digest.update(repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars)).encode())
        names += code.co_names
    for name in names:
        value = function.__globals__.get(name)
        members = [getattr(value, n, None) for n in names] if isinstance(value, types.ModuleType) else [value]
        for member in members:
            called = getattr(member, "py_func", None) or getattr(member, "_defn", None)  # a kernel, or an intrinsic
            if called is not None and called not in seen:
                digest.update(_digest(called, seen).encode())
            elif isinstance(member, np.ndarray):
                digest.update(member.tobytes())
            elif isinstance(member, (bool, int, float, str, tuple)):
                digest.update(f"{name}={member!r}".encode())
    return digest.hexdigest()[:20]


class Kernel:
    """A function that numba compiles or loads when Python first calls it; until then it costs nothing."""

    def __init__(self, function: Callable[..., Any], compiled_with: tuple[bool, bool, str, bool]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.compiled_with = function, compiled_with
        self.targetoptions = {"inline": compiled_with[2]}  # numba asks for it where another kernel calls this one

    @cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function; the function itself under NUMBA_DISABLE_JIT."""
        from geosim.compiling import dispatcher  # imports numba

        return dispatcher(self.py_func, self.compiled_with, lambda: _digest(self.py_func), cache_folder())

    @property
    def is_kept(self) -> bool:
        """Whether its machine code is kept somewhere, so that it need not be compiled."""
        from geosim.compiling import is_kept

        return is_kept(self.dispatcher)

    @property
    def _numba_type_(self) -> Any:
        """Its type in a kernel that calls it."""
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the machine code."""
        return self.dispatcher(*args, **kwargs)


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    parallel: bool = False,
    fastmath: bool = False,
    inline: str = "never",
    lanes: bool = False,
) -> Any:
    """Compile a function with numba (nopython, no global lock, cached on disk).

    `fastmath=True` only for kernels that never meet nan or inf. `lanes=True` makes vector instructions of short inner loops over
    what lies side by side. It promises that no array that a kernel hands to such a kernel, and that is written, shares memory.
    """

    def wrap(f: Any) -> Any:
        f.compiled_with = parallel, fastmath, inline, lanes
        return Kernel(f, f.compiled_with)

    return wrap if function is None else wrap(function)


def filled(search: Callable[..., int], capacity: int, *columns: tuple[tuple[int, ...], Any]) -> list[np.ndarray]:
    """Return what a kernel finds, however much that is.

    Parameters
    ----------
    search
        Writes to arrays as far as they reach and returns how many rows there are; it is asked again if they were too few.
    capacity
        Rows to begin with.
    columns
        Shape of a row and type of every array.
    """
    while True:
        out = [np.empty((capacity, *shape), dtype=dtype) for shape, dtype in columns]
        found = int(search(*out))
        if found <= capacity:
            return [array[:found].copy() for array in out]
        capacity = found
