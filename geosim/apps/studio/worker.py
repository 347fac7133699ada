"""Processes that solve for the studio: one that answers changes, one that meshes ahead for it, one that may be ended."""

from __future__ import annotations

import copyreg
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from geosim.apps.studio.messages import Send
from geosim.errors import GeosimError, one_line

if TYPE_CHECKING:
    from geosim.apps.studio.scene import Scene

__all__ = ["ahead", "live", "patient"]

BACKGROUND_NICENESS = 10  # of what refines: a change is answered first
KEPT_SCENES = 50  # as many changes ago a mesh may still be at hand


def _begun(niceness: int) -> None:
    """Begin a process of a server: Ctrl-C is for that alone, and it takes this process with it, also where that is stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    _give_way(niceness)
    server = multiprocessing.parent_process()
    if sys.platform == "linux" and server is not None:
        parent_death_signal = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
        if os.getppid() != server.pid:  # it was killed before
            os.kill(os.getpid(), signal.SIGKILL)


def _give_way(niceness: int) -> None:
    """Let others go before this process; before this thread and those that it starts, where the system knows threads."""
    with suppress(OSError, AttributeError):
        os.nice(niceness)


def live(pipe: Connection, scratch: str, meshes: Connection) -> None:
    """Answer (what, number, scene) until the pipe closes; what comes meanwhile takes the place of what is being solved.

    Meshes that were made ahead come through a pipe of their own, with their first shapes; a thread that others go before finds
    their factors.
    """
    from geosim.geometry.child import mesher_waiting

    _begun(0)
    with mesher_waiting():
        _answering(pipe, scratch, meshes)


def _sender(pipe: Connection) -> Send:
    return lambda header, frame: pipe.send((dict(header), frame))


def _answer(send: Send, what: str, number: int, work: Callable[[], None]) -> None:
    """Do what is asked, and say that it is done or why it failed; what is superseded says nothing.

    A fault of one request must not end the process.
    """
    from geosim.apps.studio.live import SupersededError

    told: dict[str, Any] = {"say": "done", "number": number, "what": what}
    try:
        work()
    except SupersededError:
        return
    except Exception as error:  # noqa: BLE001
        told |= {"say": "failed", "text": _said(error)}
    send(told, None)


def _answering(pipe: Connection, scratch: str, meshes: Connection) -> None:
    from geosim.apps.studio.live import LiveSolver, Standing
    from geosim.apps.studio.warm import factorised

    send = _sender(pipe)
    solver = LiveSolver(send, pipe.poll, Path(scratch))

    # Elsewhere a niceness is of all threads.
    background = ThreadPoolExecutor(
        1, initializer=_give_way, initargs=(BACKGROUND_NICENESS * (sys.platform == "linux"),)
    )

    def take() -> None:
        with suppress(EOFError, OSError):
            while True:
                new: Standing = meshes.recv()
                if new.last.near is not None:  # want of memory is told to whoever turns there
                    new.factors = background.submit(factorised, new.last.near)
                solver.offered.append(new)

    threading.Thread(target=take, daemon=True).start()
    send({"say": "ready"}, None)
    with suppress(EOFError, OSError):
        while True:
            what, number, scene = pipe.recv()
            if pipe.poll() and what == "show":
                continue  # the newest wins
            ask = solver.show if what == "show" else solver.sensitivities
            _answer(send, what, number, partial(ask, number, scene))


def ahead(pipe: Connection, meshes: Connection) -> None:
    """Find first shapes of the designs with one more or less of what each scene counts, and pass them on with their meshes.

    The newest scene wins. Designs with counts that were shown before come last: their meshes may be at hand still.
    """
    _begun(BACKGROUND_NICENESS)
    pipe.send(({"say": "ready"}, None))
    from geosim.apps.studio.live import LiveSolver, neighbours
    from geosim.geometry.child import mesher_waiting

    plain: Any = lambda proxy: (dict, (dict(proxy),))  # noqa: E731
    copyreg.pickle(MappingProxyType, plain)  # what robots and designs hold goes through no pipe as it is
    os.environ["OMP_NUM_THREADS"] = "1"  # the other cores are for what is asked for
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    shown: deque[Scene] = deque(maxlen=KEPT_SCENES)
    with mesher_waiting(), suppress(EOFError, OSError):
        while True:
            (scene,) = pipe.recv()
            shown.append(scene)
            for turned in neighbours(scene, shown):
                if pipe.poll():
                    break
                with suppress(Exception):  # whoever turns there is told what is wrong
                    new = solver.met(turned)
                    if new is not None:
                        meshes.send(new)


def patient(pipe: Connection) -> None:
    """Do (what, number, scene, ...) one after another; whoever does not want it any more ends this process."""
    _begun(BACKGROUND_NICENESS)
    from geosim.apps.studio.refining import reached, refined

    send = _sender(pipe)
    with suppress(EOFError, OSError):
        while True:
            what, number, scene, given = pipe.recv()
            work: dict[str, Callable[[], None]] = {
                "refine": partial(refined, send, number, scene, Path(str(given))),
                "reach": partial(reached, send, number, scene, given),
                "search": partial(_search, send, number, given),
            }
            _answer(send, what, number, work[what])


def _search(send: Send, number: int, given: Mapping[str, Any]) -> None:
    """Run `geosim.optimize` and send its best design."""
    from geosim.apps.study.optimizing import optimize

    found = optimize(given["study"], workers=1, out=given["folder"])
    good = found[found["status"] == "CONVERGED"]
    column = given["column"]
    text, values = f"{len(good)} of {len(found)} designs solved", {}
    if len(good) and column in good:
        best = good.loc[(good[column] - given["target"]).abs().idxmin()]
        values = {key: float(best[key]) for key in given["keys"]}
        text += f", best {column} {best[column]:.4g}"
    told = {"say": "answer", "number": number, "values": values, "text": text, "reached": bool(values), "report": True}
    send(told, None)


def _said(error: BaseException) -> str:
    if isinstance(error, GeosimError):
        return one_line(str(error))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return one_line(f"unexpected {type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})")
