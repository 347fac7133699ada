"""One decorator for every compiled kernel: numba, cached on disk by content wherever a disk can be written.

A compiled kernel is kept under the digest of the sources that it comes from, not under the path of a file: two
environments, two checkouts and the workers of a test run share one cache, and an edit recompiles what it touches alone.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite.binding import parse_assembly
from numba.core import config
from numba.core import types as numba_types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.datamodel import default_manager
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.ir import SetItem, StaticSetItem
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing import make_concrete_template

# How often is looked whether another process has compiled a kernel, and when it is taken for ended [s]: the longest takes 30.
LOCK_POLL_S, LOCK_TIMEOUT_S = 0.02, 120.0

# What numba calls it where a kernel takes or sets elements of an array.
INDEXING, INDEXING_STATEMENTS = ("getitem", "static_getitem"), (SetItem, StaticSetItem)


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


def _takes(taken: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    """Whether code for arguments of these types serves for those that are given: where it only reads an array, any will do."""
    for one, other in zip(taken, given, strict=True):
        if one == other:
            continue
        parts, others = (getattr(each, "types", ()) for each in (one, other))  # of tuples
        if parts:
            kinds = [getattr(each, "instance_class", tuple) for each in (one, other)]
            if kinds[0] is not kinds[1] or len(parts) != len(others) or not _takes(parts, others):
                return False
        elif not (isinstance(other, numba_types.Array) and other.copy(readonly=True) == one):
            return False
    return True


def _lent(kind: Any, place: str, only_read: set[str]) -> Any:
    """Return the type of an argument in which an array is read-only where compiled code only reads what it holds."""
    if isinstance(kind, numba_types.BaseTuple):
        inner: Any = kind
        parts = [_lent(part, f"{place}.{k}", only_read) for k, part in enumerate(inner.types)]
        return numba_types.BaseTuple.from_types(parts, getattr(kind, "instance_class", None))
    data = 4  # numba hands an array over as its owner, parent, size, item size, data, shape and strides
    return kind.copy(readonly=True) if isinstance(kind, numba_types.Array) and f"{place}.{data}" in only_read else kind


class _ContentLocator(_CacheLocator):
    """Tells numba to keep a kernel in the folder of its digest."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        cache_folder = "kernels-2"  # folder in the cache; the number is that of the format of its files
        self._key = _digest(function)
        self._folder = folder / cache_folder / self._key

    def get_cache_path(self) -> str:
        """Return the folder of the kernel."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return what must be equal for a kept kernel to be used."""
        return self._key

    def get_disambiguator(self) -> str | None:
        """Return nothing: the folder is the kernel's own."""
        return None

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _ContentLocator | None:
        """Return a locator, or None where no cache can be written."""
        folder = cache_folder()
        if folder is None or not os.path.exists(py_file):
            return None
        locator = cls(py_func, folder)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator


class _DamagedError(Exception):
    """A kept kernel is not what was written."""


class _ContentImpl(CompileResultCacheImpl):
    _locator_classes = [_ContentLocator]  # noqa: RUF012 (numba declares it so)

    def reduce(self, cres: Any) -> tuple[bytes, bytes]:
        """Return a compiled kernel as bytes, and their digest: damaged machine code would end the process.

        Left out is what a load would pay for and no call needs: the module that others could link (they link parts; of it
        numba asks the name of the function that Python calls), and environments that hold no constants, for whose globals
        numba would import its compiler of array expressions.
        """
        (name, kind, (machine_code, _)), function, *others, environments = super().reduce(cres)
        entry = parse_assembly(f'define void @"{function.llvm_cpython_wrapper_name}"() {{ ret void }}').as_bitcode()
        environments = tuple(environment for environment in environments if environment.consts)
        kept = dumps(((name, kind, (machine_code, entry)), function, *others, environments))
        return hashlib.sha256(kept).digest(), kept

    def rebuild(self, target_context: Any, payload: tuple[bytes, bytes]) -> Any:
        """Return the kernel of bytes that `reduce` wrote."""
        digest, kept = payload
        if hashlib.sha256(kept).digest() != digest:
            raise _DamagedError
        return super().rebuild(target_context, pickle.loads(kept))


class _ContentCache(FunctionCache):
    """numba's cache without the import of all that it compiles with, which what is only loaded does without."""

    _impl_class = _ContentImpl

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kept kernel that takes arguments of these types."""
        _, *surroundings = self._index_key(sig, target_context.codegen())
        for (taken, *others), name in self._cache_file._load_index().items():
            if others == surroundings and _takes(taken, sig):
                return self._impl.rebuild(target_context, self._cache_file._load_data(name))
        return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kept kernel, None where there is none; numba's compiler imports what it needs when it is asked."""
        rtsys.initialize(target_context)  # all of `target_context.refresh()` that runs a kernel: its memory
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave cyclic garbage for later: numba's compiler makes millions of objects that last until it is done.

    Python's collector goes through them again and again meanwhile, a tenth of a first solve, and finds nothing.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _given_up(mark: Path) -> bool:
    """Whether the process that has a kernel in hand has ended, or takes so long that it must have."""
    try:
        if time.time() - mark.stat().st_mtime > LOCK_TIMEOUT_S:
            return True
        if os.name == "posix" and (owner := mark.read_text(encoding="ascii")):
            os.kill(int(owner), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:  # it is done, or somebody else's
        return False
    return False


class _KernelCache:
    """numba's cache of one kernel, made when it is first asked: only then are the kernels it calls all defined.

    Who finds a kernel missing has it in hand until it is kept, and others wait for it: processes that start together
    (workers, or one that compiles ahead) share the compilation instead of each doing all of it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._cache: Any = None
        self._mark: Path | None = None

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a kept kernel; None where there is none, or a damaged one, which is compiled again."""
        kept = self._kept(signature, target_context)
        if kept is None and self._taken():
            kept = self._kept(signature, target_context)
            if kept is not None:
                self.let_go()
        return kept

    def _taken(self) -> bool:
        """Take a kernel in hand, after whoever has it; false where this process has it or there is no folder."""
        if self._mark is not None:
            return False
        with suppress(OSError):
            mark = Path(self.__getattr__("cache_path")) / "in-hand"
            while True:
                with suppress(FileExistsError):
                    mark.touch(exist_ok=False)
                    mark.write_text(str(os.getpid()), encoding="ascii")
                    self._mark = mark
                    return True
                if _given_up(mark):
                    mark.unlink(missing_ok=True)
                else:
                    time.sleep(LOCK_POLL_S)
        return False

    def _kept(self, signature: Any, target_context: Any) -> Any:
        try:
            return self.__getattr__("load_overload")(signature, target_context)
        except Exception:  # noqa: BLE001 (damaged files fail in every way)
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep a kernel under the types that it takes, if the disk takes it."""
        with suppress(OSError):
            self.__getattr__("save_overload")(data.signature.args, data)
        self.let_go()

    def let_go(self) -> None:
        """Have others wait no longer for what this process had in hand, if it had."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.unlink()
            self._mark = None

    def __getattr__(self, name: str) -> Any:
        """Pass everything else on to numba's own cache."""
        if self._cache is None:
            self._cache = _ContentCache(self._function)
        return getattr(self._cache, name)


class _Part(JITCodeLibrary):
    """Code of a kernel as a part of others: they link it and optimise it with their own, it gets no machine code itself."""

    def _optimize_final_module(self) -> None:
        """Leave that to those who link it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Lanes(JITCodeLibrary):
    """Code in which equal statements on neighbours in memory become vector instructions: numba leaves that pass out."""

    def _optimize_final_module(self) -> None:
        kept = config.SLP_VECTORIZE  # type: ignore[attr-defined]
        config.SLP_VECTORIZE = 1  # type: ignore[attr-defined]
        try:
            super()._optimize_final_module()
        finally:
            config.SLP_VECTORIZE = kept  # type: ignore[attr-defined]


class _LanesPipeline(Compiler):
    def compile_extra(self, func: Any) -> Any:
        """Compile with these instructions."""
        self.state.library = _Lanes(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


@register_pass(mutates_CFG=False, analysis_only=True)
class _Borrow(AnalysisPass):
    """Counts no references in a part that makes no array: what it is lent outlives it.

    numba counts references whenever an array or a tuple of arrays gets a name, and its optimiser then removes what it can, which
    is much to compile. Views by plain indices make nothing; whatever else returns an array may have made it,
    and what is assigned to a slice may be copied first.
    """

    _name = "borrow"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Look at the types of all that is called, indexed and returned."""
        types = [state.return_type]
        for expression, call in state.calltypes.items():
            indexing = isinstance(expression, INDEXING_STATEMENTS) or getattr(expression, "op", "") in INDEXING
            if call is not None:
                types += call.args[1:] if indexing else [call.return_type]
        if not any(default_manager[of].contains_nrt_meminfo() for of in types):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return False


class _PartPipeline(Compiler):
    def compile_extra(self, func: Any) -> Any:
        """Compile as far as a caller needs it."""
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """Decide what is counted as soon as types are known."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(_Borrow, NopythonTypeInference)
            pipeline.finalize()
        return list(pipelines)


class _PartCompiler(_FunctionCompiler):  # type: ignore[misc]
    def _customize_flags(self, flags: Any) -> Any:
        flags.no_compile = flags.no_cpython_wrapper = True
        flags.noalias = self.py_func.compiled_with[-1]
        return flags


class _WholeCompiler(_FunctionCompiler):  # type: ignore[misc]
    """Compiles what Python calls, and finds which arrays it only reads: LLVM has proved it when it is done.

    For these it takes read-only and writable arrays alike. numba by itself compiles the same code once more for each mixture.
    """

    def compile(self, args: Any, return_type: Any) -> Any:
        """Return what was compiled, under the types that it takes."""
        made = super().compile(args, return_type)
        only_read = set()
        for argument in made.library._final_module.get_function(made.fndesc.llvm_func_name).arguments:
            attributes = b" ".join(argument.attributes)
            kept = b"captures(none)" not in attributes and b"nocapture" not in attributes  # it may be returned
            if not kept and (b"readonly" in attributes or b"readnone" in attributes):
                only_read.add(argument.name)
        named = zip(made.fndesc.args, made.signature.args, strict=True)
        types = [_lent(kind, f"arg.{name}", only_read) for name, kind in named]
        return made._replace(signature=made.signature.replace(args=tuple(types)))


class _Kernel(CPUDispatcher):
    """A compiled function.

    Python calls machine code, which is kept. Kernels that call it link a part of its own, which never becomes machine code:
    numba would optimise every callee by itself, with a wrapper for Python, and once more in each that calls it. That took
    60 % of the time of a first solve.
    """

    _cache: Any
    _compiler: Any
    _insert: Callable[..., None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        pipeline = self._compiler.pipeline_class
        self._compiler = _WholeCompiler(self.py_func, self.targetdescr, self.targetoptions, self.locals, pipeline)
        self._parts: dict[tuple[Any, ...], Any] = {}

    def compile(self, sig: Any) -> Any:
        """Return the machine code for arguments of these types."""
        given = tuple(normalize_signature(sig)[0])
        overloads: dict[tuple[Any, ...], Any] = self.overloads
        for taken, made in overloads.items():
            if _takes(taken, given):
                self._insert([kind._code for kind in given], made.entry_point, made.objectmode)
                return made.entry_point
        try:
            with _uncollected():
                return super().compile(given)
        finally:
            if isinstance(self._cache, _KernelCache):
                self._cache.let_go()  # also where it does not compile, which keeps nothing

    @cached_property
    def _part_compiler(self) -> _PartCompiler:
        return _PartCompiler(self.py_func, self.targetdescr, self.targetoptions, self.locals, _PartPipeline)

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, ...]:
        """Return the types of a call in another kernel (see numba), with a part that can be linked."""
        pysig, args = self._part_compiler.fold_argument_types(args, kws)
        if args not in self._parts:
            part = self._part_compiler.compile(args, None)
            place = part.library  # a name for it that nobody else has
            self.targetctx.insert_user_function(place, part.fndesc, [part.library])
            self._parts[args] = part._replace(entry_point=place)
        name = f"CallTemplate({self.py_func.__name__})"
        signatures = [part.signature for part in self._parts.values()]
        return make_concrete_template(name, self.py_func.__name__, signatures), pysig, args, {}

    def get_overload(self, sig: Any) -> Any:
        """Return the substitute for the part of a signature where it is called."""
        return self._parts[tuple(normalize_signature(sig)[0])].entry_point


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
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return f
        f.compiled_with = parallel, fastmath, inline, lanes
        options = {
            "nopython": True,
            "boundscheck": None,
            "nogil": True,
            "error_model": "numpy",
            "no_cfunc_wrapper": True,
        }
        options |= {"parallel": parallel, "fastmath": fastmath, "inline": inline}
        made = _Kernel(f, targetoptions=options, pipeline_class=_LanesPipeline if lanes else Compiler)
        if cache_folder() is not None:
            made._cache = _KernelCache(f)
        return made

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
