"""How kernels are compiled, kept and found again: the one module that knows numba's compiler.

The machine code of a kernel for arguments of some types is one file, under the digest of its sources and the name of
what it runs on: release of Python and of numba, platform, processor. A wheel holds such files for any processor of the
level x86-64-v3 (scripts/build_wheel.py), in `geosim/compiled`. They are looked at first, then those that were compiled here.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite.binding import get_host_cpu_features, parse_assembly
from numba.core import config
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
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

# The processor that the kernels of a wheel are compiled for (Intel from 2013 on, AMD from 2015), and what sets it apart.
LEVEL = "x86-64-v3"
LEVEL_FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
FORMAT = "kernels-3"  # folder in the cache; the number is that of the format of its files
COMPILED = Path(__file__).parent / "compiled"  # in a wheel


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


def surroundings(processor: tuple[str, str]) -> str:
    """Return the name of what machine code for a processor (name, features) runs on and with."""
    features = hashlib.sha256(processor[1].encode()).hexdigest()[:8] if processor[1] else "plain"
    releases = f"{sys.implementation.cache_tag}-numba{numba.__version__}-llvmlite{llvmlite.__version__}"
    return f"{releases}-{sys.platform}-{platform.machine().lower()}-{processor[0]}-{features}"


@cache
def shipped() -> Path | None:
    """Return the folder of the kernels that came with the package; None where it has none that run here."""
    folder = COMPILED / surroundings((LEVEL, ""))
    if not folder.is_dir():
        return None
    features = get_host_cpu_features()
    return folder if all(features.get(name, False) for name in LEVEL_FEATURES) else None


def _call_name(args: tuple[Any, ...]) -> str:
    """Name of a call with arguments of some types, equal for arrays that may be written and read-only ones."""
    return hashlib.sha256(str([_read_only(kind) for kind in args]).encode()).hexdigest()[:16]


def _read_only(kind: Any) -> Any:
    if isinstance(kind, numba_types.BaseTuple):
        return type(kind).__name__, getattr(kind, "fields", ()), [_read_only(part) for part in kind.types]  # type: ignore[attr-defined]
    return kind.copy(readonly=True) if isinstance(kind, numba_types.Array) else kind


class _DamagedError(Exception):
    """A kept kernel is not what was written."""


def _packed(made: Any, place: str) -> bytes:
    """Return a compiled kernel as bytes behind their digest: damaged machine code would end the process.

    Left out is what a load would pay for and no call needs: the module that others could link (they link parts; of it
    numba asks the name of the function that Python calls), and environments that hold no constants, for whose globals
    numba would import its compiler of array expressions.
    """
    (name, kind, (machine_code, _)), function, *others, environments = made._reduce()
    entry = parse_assembly(f'define void @"{function.llvm_cpython_wrapper_name}"() {{ ret void }}').as_bitcode()
    environments = tuple(environment for environment in environments if environment.consts)
    kept: bytes = dumps(((name, kind, (machine_code, entry)), function, *others, environments))
    return hashlib.sha256(place.encode() + kept).digest() + kept


def _unpacked(raw: bytes, place: str) -> Any:
    """Return the parts of a kernel of bytes that `_packed` wrote for the same place."""
    digest, kept = raw[:32], raw[32:]
    if hashlib.sha256(place.encode() + kept).digest() != digest:
        raise _DamagedError
    return pickle.loads(kept)


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
    """The kept kernels of one function.

    Who finds a kernel missing has it in hand until it is kept, and others wait for it: processes that start together
    (workers, or one that compiles ahead) share the compilation instead of each doing all of it.
    """

    def __init__(self, digest: Callable[[], str], folder: Path | None) -> None:
        self._digest, self._folder = digest, None if folder is None else folder / FORMAT
        self._mark: Path | None = None

    @cached_property
    def _key(self) -> str:
        """Digest of the sources, made when it is first asked: only then are the kernels that it calls all defined."""
        return self._digest()

    def _place(self, target_context: Any) -> str:
        return f"{surroundings(target_context.codegen().magic_tuple()[1:])}/{self._key}"

    @property
    def cache_path(self) -> str:
        """The folder that numba says in statistics."""
        return str(self._folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a kept kernel; None where there is none, or a damaged one, which is compiled again."""
        kept = self._kept(signature, target_context)
        if kept is None and self._taken(target_context):
            kept = self._kept(signature, target_context)
            if kept is not None:
                self.let_go()
        return kept

    def _kept(self, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # all of `target_context.refresh()` that runs a kernel: its memory
        place, found = self._place(target_context), None
        if (folder := shipped()) is not None:
            found = self._found(folder.parent, f"{folder.name}/{self._key}", signature, target_context)
        if found is None and self._folder is not None:
            found = self._found(self._folder, place, signature, target_context)
        return found

    def holds_any(self, target_context: Any) -> bool:
        """Whether a kernel for arguments of any types is kept."""
        places = [] if self._folder is None else [self._folder / self._place(target_context)]
        places += [] if (folder := shipped()) is None else [folder / self._key]
        return any(path.suffix == ".kernel" for place in places if place.is_dir() for path in place.iterdir())

    def _found(self, folder: Path, place: str, signature: Any, target_context: Any) -> Any:
        """Return the kernel of a folder that takes arguments of these types; None where there is none or it is damaged."""
        for path in (folder / place).glob(f"{_call_name(signature)}-*.kernel"):
            try:
                parts = _unpacked(path.read_bytes(), place)
                if _takes(parts[3].args, signature):
                    return CompileResult._rebuild(target_context, *parts)
            except Exception:  # noqa: BLE001 (damaged files fail in every way)
                continue
        return None

    def _taken(self, target_context: Any) -> bool:
        """Take a kernel in hand, after whoever has it; false where this process has it or there is no folder."""
        if self._mark is not None or self._folder is None:
            return False
        with suppress(OSError):
            folder = self._folder / self._place(target_context)
            folder.mkdir(parents=True, exist_ok=True)
            mark = folder / "in-hand"
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

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep a kernel under the types that it takes, if the disk takes it; one that names an address is of this process."""
        if self._folder is not None and not made.library.has_dynamic_globals:
            with suppress(OSError):
                place, args = self._place(made.target_context), made.signature.args
                folder = self._folder / place
                folder.mkdir(parents=True, exist_ok=True)
                exact = hashlib.sha256(str(args).encode()).hexdigest()[:8]
                with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                    file.write(_packed(made, place))
                os.replace(file.name, folder / f"{_call_name(args)}-{exact}.kernel")
        self.let_go()

    def let_go(self) -> None:
        """Have others wait no longer for what this process had in hand, if it had."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.unlink()
            self._mark = None


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


def dispatcher(
    function: Callable[..., Any],
    compiled_with: tuple[bool, bool, str, bool],
    digest: Callable[[], str],
    folder: Path | None,
) -> Any:
    """Return what compiles or loads a function when it is called, and keeps it in a folder (None: nowhere).

    `compiled_with` are the options of `geosim.kernels.kernel`. Under NUMBA_DISABLE_JIT the function is returned.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    parallel, fastmath, inline, lanes = compiled_with
    options = {"nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options |= {"parallel": parallel, "fastmath": fastmath, "inline": inline}
    made = _Kernel(function, targetoptions=options, pipeline_class=_LanesPipeline if lanes else Compiler)
    made._cache = _KernelCache(digest, folder)
    return made


def is_kept(made: Any) -> bool:
    """Whether what `dispatcher` made need not be compiled for one set of types at least."""
    return not isinstance(made, _Kernel) or made._cache.holds_any(made.targetctx)
