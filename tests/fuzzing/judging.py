"""What comes of an input: refused in one line, done, or something that no input may bring about."""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import geosim
from geosim.errors import GeosimError, GeosimWarning

CPU_SECONDS, MEMORY_BYTES = 60.0, 2 << 30  # of one input
# An error of geosim's own, another exception, a value that is not in the file, a sound input refused, lines of libraries, ...
BAD = ("fault", "traceback", "wrong", "refused sound", "noise", "slow", "memory", "crash")


@dataclass(frozen=True)
class Input:
    """One input: what to run, and what may be wrong with what it returns."""

    title: str
    sound: bool
    run: Callable[[], Any]
    wrong: Callable[[Any], str] = lambda returned: ""

    def __repr__(self) -> str:
        return self.title


class HangError(BaseException):
    """An input took too long; no `except Exception` may keep it."""


def _stop(*_: object) -> None:
    raise HangError


@cache
def home() -> Path:
    """Return a folder for files, deep enough for `..` to stay in it; it goes with the process."""
    top = Path(tempfile.mkdtemp(prefix="geosim-fuzz-"))
    here = os.getpid()
    atexit.register(lambda: os.getpid() == here and shutil.rmtree(top, ignore_errors=True))
    inner = top / "a" / "b"
    inner.mkdir(parents=True)
    return inner


def scratch() -> Path:
    """Return the folder of this process."""
    place = home() / str(os.getpid())
    place.mkdir(exist_ok=True)
    return place


@contextlib.contextmanager
def heard() -> Iterator[Callable[[], str]]:
    """Give what libraries write to the file of standard error, past Python."""
    with (scratch() / "heard").open("w+b") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:

            def told() -> str:
                file.seek(0)
                return file.read().decode(errors="replace").strip()

            yield told
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _spent() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _peak() -> int:
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def judged(given: Input) -> tuple[str, str]:
    """Run an input; return "done", "refused" or one of `BAD`, and what was said."""
    before, peak = _spent(), _peak()
    with heard() as told:
        came, said = _outcome(given)
        noise = told()
    if came in ("done", "refused") and noise:
        came, said = "noise", noise
    if given.sound and came == "refused":
        came = "refused sound"
    if _spent() - before > CPU_SECONDS:
        came, said = "slow", f"{_spent() - before:.0f} CPU s; {said}"
    if _peak() > max(peak, MEMORY_BYTES):
        came, said = "memory", f"{_peak() / 1e9:.2f} GB; {said}"
    return came, said


def _outcome(given: Input) -> tuple[str, str]:
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    clock = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            returned = given.run()
            wrong = given.wrong(returned)
    except (geosim.InputError, geosim.SolveError) as error:
        return ("noise" if "\n" in str(error) else "refused"), str(error)
    except GeosimError as error:
        return "fault", str(error)
    except HangError:
        return "slow", f"{time.perf_counter() - clock:.0f} s"
    except Exception as error:  # noqa: BLE001 (whatever else comes out is what is looked for)
        return "traceback", f"{type(error).__name__}: {error} {traceback.format_exc().splitlines()[-3:-1]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if wrong:
        return "wrong", wrong
    foreign = [str(w.message) for w in warned if not issubclass(w.category, (GeosimWarning, FutureWarning))]
    return ("noise", foreign[0]) if foreign else ("done", "")
