"""Compiled kernels are kept, found again, and compiled anew where their files are damaged; nobody else's are used."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features
from numba.core.errors import TypingError
from numba.core.runtime import rtsys
from numba.core.runtime._nrt_python import memsys_disable_stats, memsys_enable_stats

from geosim import compiling, kernels

MARK = "in-hand"


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch):
    """The package may have been installed with kernels, which a folder of the test is asked after."""
    monkeypatch.setattr(compiling, "COMPILED", Path("nowhere"))
    compiling.shipped.cache_clear()
    yield
    compiling.shipped.cache_clear()


def doubled(x):
    return 2.0 * x


def failing(x):
    return x.unheard_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    return tmp_path


def called() -> int:
    """Compile or load, call, and return how often the kept kernel was used."""
    made = kernels.kernel(doubled)
    assert made(3.0) == 6.0
    return sum(made.dispatcher.stats.cache_hits.values())


def test_a_kernel_is_kept_and_a_damaged_one_is_compiled_again(folder):
    assert called() == 0
    assert called() == 1
    for damage in (lambda data: b"", lambda data: data[: len(data) // 2], lambda data: bytes(b ^ 1 for b in data)):
        (path,) = folder.rglob("*.kernel")
        path.write_bytes(damage(path.read_bytes()))
        assert called() == 0
        assert called() == 1


def test_one_changed_bit_of_machine_code_is_seen(folder):
    called()
    (path,) = folder.rglob("*.kernel")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    assert called() == 0


class Pair(NamedTuple):
    """Arrays that a kernel takes together."""

    x: np.ndarray
    out: np.ndarray


def scaled(factor, pair):
    for i in range(len(pair.x)):
        pair.out[i] = factor[i] * pair.x[i]


def tail(x):
    return x[1:]


def test_garbage_waits_for_the_compiler_alone(folder, monkeypatch):
    """The collector rests while a kernel is compiled, also where that fails; who turned it off keeps it off."""
    compiles, seen = compiling._WholeCompiler.compile, []

    def watched(self, *types):
        seen.append(gc.isenabled())
        return compiles(self, *types)

    monkeypatch.setattr(compiling._WholeCompiler, "compile", watched)
    assert gc.isenabled()
    assert called() == 0
    with pytest.raises(TypingError):
        kernels.kernel(failing)(3.0)
    assert gc.isenabled()
    gc.disable()
    try:
        assert kernels.kernel(doubled)(3) == 6.0
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False, False, False]


def test_code_that_only_reads_an_array_serves_read_only_ones(folder):
    """One compilation for each mixture, kept as such; what is written or handed on stays what it was."""
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    mixtures = [(factor, Pair(x, np.empty(3))) for factor in (fixed, fixed + 1.0) for x in (fixed + 1.0, fixed)]
    for order in (mixtures, mixtures[::-1]):  # compiled for one end of them, and found on the disk by the other
        made = kernels.kernel(scaled)
        for factor, pair in order:
            made(factor, pair)
            np.testing.assert_array_equal(pair.out, factor * pair.x)
        assert len(made.dispatcher.overloads) == 1
        assert len(list(folder.rglob("*.kernel"))) == 1
        with pytest.raises(TypingError, match="Cannot modify readonly array"):
            made(fixed, Pair(fixed, fixed))
    cut = kernels.kernel(tail)
    assert cut(fixed + 1.0).flags.writeable
    assert not cut(fixed).flags.writeable


COMPILES = """
import sys
from pathlib import Path
from geosim import kernels

kernels.cache_folder = lambda: Path(sys.argv[1])

def halved(x):
    return 0.5 * x

made = kernels.kernel(halved)
assert made(3.0) == 1.5
print(sum(made.dispatcher.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_processes_that_start_together_compile_a_kernel_once(tmp_path):
    """All but one of four find the kernel kept, whichever comes first; nothing that says "in hand" stays behind."""
    script = tmp_path / "compiles.py"
    script.write_text(COMPILES)
    command = [sys.executable, str(script), str(tmp_path)]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    hits = sorted(int(process.communicate(timeout=300)[0]) for process in together)
    assert hits == [0, 1, 1, 1]
    assert not list(tmp_path.rglob(MARK))


def test_a_kernel_in_the_hands_of_another_is_waited_for_as_long_as_that_lives(folder, monkeypatch):
    """A mark of a living process holds one up until it is gone, that of a dead or silent one does not."""
    called()
    (kept,) = folder.rglob("*.kernel")
    mark, index = kept.parent / MARK, kept.read_bytes()

    kept.unlink()
    mark.write_text(str(os.getppid()))
    threading.Timer(0.5, lambda: (kept.write_bytes(index), mark.unlink())).start()
    assert called() == 1

    with pytest.raises(TypingError):
        kernels.kernel(doubled)("text")
    assert not mark.exists(), "what does not compile is in nobody's hands"

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for owner, patience in ((str(ended.pid), 1e3), ("", 0.0)):
        monkeypatch.setattr(compiling, "LOCK_TIMEOUT_S", patience)
        kept.unlink()
        mark.write_text(owner)
        assert called() == 0
        assert not mark.exists()


def test_every_copy_of_the_package_asks_the_same_folder(tmp_path, monkeypatch):
    """The user's cache comes before a folder of the package's own, unless a variable names another or it cannot be written."""
    for name in ("GEOSIM_CACHE_DIR", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kernels, "_user_cache", lambda: tmp_path)
    beside = Path(kernels.__file__).parent / "__pycache__"
    try:
        kernels.cache_folder.cache_clear()
        assert kernels.cache_folder() == tmp_path / "geosim"
        kernels.cache_folder.cache_clear()
        monkeypatch.setattr(kernels, "_writable", lambda folder: folder == beside)
        assert kernels.cache_folder() == beside
        monkeypatch.setattr(kernels, "_writable", lambda folder: True)
        kernels.cache_folder.cache_clear()
        monkeypatch.setenv("GEOSIM_CACHE_DIR", str(tmp_path / "named"))
        assert kernels.cache_folder() == tmp_path / "named"
    finally:
        kernels.cache_folder.cache_clear()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are those of POSIX")
def test_a_shared_folder_is_used_only_if_it_is_ones_own(tmp_path, monkeypatch):
    """Where nothing else can be written: one's own and private, yes; writable by others, or a link, no."""
    monkeypatch.setattr(kernels, "_writable", lambda folder: folder.parent == Path(tempfile.gettempdir()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernels.cache_folder.cache_clear()
    shared = tmp_path / f"geosim-cache-{os.getuid()}"
    try:
        assert kernels.cache_folder() == shared
        shared.chmod(0o777)
        kernels.cache_folder.cache_clear()
        assert kernels.cache_folder() is None
        shared.rmdir()
        shared.symlink_to(tmp_path)
        kernels.cache_folder.cache_clear()
        assert kernels.cache_folder() is None
    finally:
        kernels.cache_folder.cache_clear()


def test_what_a_kernel_calls_becomes_code_of_its_own_only_where_python_calls_it(folder):
    """One kept file for every kernel that Python called, and none for what these call; numbers are the same either way."""
    inner = kernels.kernel(doubled)
    outer = kernels.kernel(lambda x: inner(x) + 1.0)
    kept = lambda: len(list(folder.rglob("*.kernel")))  # noqa: E731
    assert outer(3.0) == 7.0
    assert kept() == 1
    assert inner(3.0) == 6.0
    assert kept() == 2


LOADS = """
import sys
from pathlib import Path
import numpy as np
from geosim import kernels

kernels.cache_folder = lambda: Path(sys.argv[1])

@kernels.kernel
def unit(x):
    if x.sum() == 0.0:
        raise ValueError("no direction")
    return x / np.sqrt((x * x).sum())

assert np.abs(unit(np.array([3.0, 4.0])) - [0.6, 0.8]).max() < 1e-15
try:
    unit(np.zeros(2))
except ValueError as error:
    assert str(error) == "no direction"
else:
    raise AssertionError
print(sum(unit.dispatcher.stats.cache_hits.values()), "numba.np.npyfuncs" in sys.modules, "numba.np.arrayobj" in sys.modules)
"""


@pytest.mark.slow
def test_a_kept_kernel_returns_and_raises_as_before_without_what_it_was_compiled_with(tmp_path):
    """Array expressions, an array that is returned, an error: a process that loads them imports nothing of the compiler."""
    script = tmp_path / "loads.py"
    script.write_text(LOADS)
    said = [subprocess.check_output([sys.executable, script, tmp_path], text=True).split() for _ in range(2)]
    assert said == [["0", "True", "True"], ["1", "False", "False"]]


def _filled_by(x):
    y, x = x, x[1:]
    for row in range(len(x)):
        x[row] += y[row]
    return x[0]


def _shifted(x):
    x[1:] = x[:-1]  # the memory of both is one: numba copies
    return x.sum()


def _chosen(x):
    return x[x > 0.0].sum()


def _passed(x):
    return x


def _made(x):
    return x + 1.0


made = kernels.kernel(_made)


def _used(x):
    return made(x)[0]


PARTS = [kernels.kernel(f) for f in (_filled_by, _shifted, _chosen, _passed, _used)]


@pytest.mark.slow
def test_what_a_part_is_lent_or_makes_is_freed_once(folder):
    """A part that makes no array counts no references, one that may make some does, and no memory is lost or freed early."""
    filled, shifted, chosen, passed, used = PARTS

    def caller(x):
        y = np.arange(5.0) + x
        total = filled(y) + shifted(y) + chosen(passed(y))
        return total + used(passed(y)[1:]) + y[4]

    of_parts, y = kernels.kernel(caller), np.arange(5.0) + 2.0
    plain = _filled_by(y) + _shifted(y) + _chosen(y)
    plain += _made(y[1:])[0] + y[4]
    memsys_enable_stats()
    try:
        assert of_parts(2.0) == plain
        before = rtsys.get_allocation_stats()
        for _ in range(50):
            assert of_parts(2.0) == plain
        after = rtsys.get_allocation_stats()
    finally:
        memsys_disable_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free >= 50
    counted = [
        "NRT_incref" in str(part.library.get_llvm_str())
        for of in (*PARTS, made)
        for part in of.dispatcher._parts.values()
    ]
    assert counted == [False, True, True, True, True, True]


SHIPPED = """
import sys
from pathlib import Path
import numpy as np
from geosim import compiling, kernels

kernels.cache_folder = lambda: Path(sys.argv[1])
compiling.COMPILED = Path(sys.argv[2])

@kernels.kernel
def unit(x):
    return x / np.sqrt((x * x).sum())

answer = unit(np.array([3.0, 4.0]))
print(sum(unit.dispatcher.stats.cache_hits.values()), unit.is_kept, *answer.tolist())
"""


def has_level() -> bool:
    features = get_host_cpu_features()
    return all(features.get(name, False) for name in compiling.LEVEL_FEATURES)


@pytest.mark.slow
@pytest.mark.skipif(not has_level(), reason="this processor is no x86-64-v3")
def test_kernels_of_a_wheel_are_used_where_they_run_and_compiled_where_they_do_not(tmp_path):
    """The same answer, whether they are loaded, damaged, of another processor or filed under the name of another."""
    script = tmp_path / "ships.py"
    script.write_text(SHIPPED)
    number = iter(range(99))

    def run(shipped: Path, processor: str = "") -> tuple[str, Path]:
        """Loads out of 1 from an empty cache, and the folder of the kernels in that cache."""
        cache = tmp_path / f"cache-{next(number)}"
        env = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_CPU")}
        env |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""} if processor else {}
        said = subprocess.check_output([sys.executable, script, cache, shipped], text=True, env=env).split()
        assert said[1:] == ["True", *map(str, [3.0 / 5.0, 4.0 / 5.0])]
        return said[0], cache / compiling.FORMAT

    loads, of_level = run(tmp_path / "none", compiling.LEVEL)
    assert loads == "0"
    (folder,) = of_level.iterdir()
    loads, own = run(of_level)
    assert loads == "1"
    assert not list(own.rglob("*.kernel")), "what came with the package is not written again"

    (kept,) = folder.rglob("*.kernel")
    good = kept.read_bytes()
    for bad in (b"", good[:-100], good[:-100] + bytes(b ^ 8 for b in good[-100:])):
        kept.write_bytes(bad)
        assert run(of_level)[0] == "0"
    kept.write_bytes(good)
    folder.rename(of_level / folder.name.replace("numba", "numba0"))
    assert run(of_level)[0] == "0"

    _, of_any = run(tmp_path / "none", "x86-64")
    (other,) = of_any.iterdir()
    other.rename(of_any / folder.name)
    assert run(of_any)[0] == "0"


def test_kernels_of_a_wheel_are_left_alone_by_a_processor_that_lacks_an_instruction(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "COMPILED", tmp_path)
    (tmp_path / compiling.surroundings((compiling.LEVEL, ""))).mkdir()
    all_of_them = dict.fromkeys(compiling.LEVEL_FEATURES, True)
    for features, found in ((all_of_them, True), ({**all_of_them, "avx2": False}, False), ({}, False)):
        monkeypatch.setattr(compiling, "get_host_cpu_features", lambda features=features: features)
        compiling.shipped.cache_clear()
        assert (compiling.shipped() is not None) == found


def test_a_kernel_can_be_kept_nowhere(monkeypatch):
    monkeypatch.setattr(kernels, "cache_folder", lambda: None)
    assert called() == called() == 0
