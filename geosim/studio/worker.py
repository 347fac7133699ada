"""Processes that solve for the studio: one that answers changes, one that meshes ahead for it, one that may be ended."""

from __future__ import annotations

import copyreg
import os
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

from geosim.errors import GeosimError, one_line

__all__ = ["ahead", "live", "patient"]

BACKGROUND_NICENESS = 10  # of what refines: a change is answered first
IDLE_SECONDS = (
    0.5  # without a change, after which factors are found ahead: a change waits for one factorisation at most
)


def live(pipe: Connection, scratch: str, meshes: Connection) -> None:
    """Answer (what, number, scene) until the pipe closes; what comes meanwhile takes the place of what is being solved.

    Meshes that were made ahead come through a pipe of their own, with their first shapes; their factors are found while
    nobody asks for anything.
    """
    from geosim.geometry.child import keep_waiting

    keep_waiting()
    from geosim.studio.live import LiveSolver, Standing, SupersededError
    from geosim.studio.warm import factorised

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    warnings.simplefilter("ignore")

    def send(header: Mapping[str, Any], frame: bytes | None = None) -> None:
        pipe.send((dict(header), frame))

    solver = LiveSolver(send, pipe.poll, Path(scratch))

    fresh: deque[Standing] = deque()

    def take() -> None:
        with suppress(EOFError, OSError):
            while True:
                new = meshes.recv()
                fresh.append(new)
                solver.offered.append(new)

    threading.Thread(target=take, daemon=True).start()
    send({"say": "ready"})
    with suppress(EOFError, OSError):
        while True:
            while not pipe.poll(IDLE_SECONDS):
                near = fresh.popleft().near if fresh else None  # none where that mesh was taken up meanwhile
                if near is not None:
                    with suppress(GeosimError):  # for want of memory: whoever turns there is told
                        factorised(near)
            what, number, scene = pipe.recv()
            if pipe.poll() and what == "show":
                continue  # the newest wins
            try:
                if what == "show":
                    solver.show(number, scene)
                else:
                    solver.sensitivities(number, scene)
            except SupersededError:
                continue
            except Exception as error:  # noqa: BLE001 (a fault of one change must not end the studio)
                send({"say": "failed", "number": number, "text": _said(error)})
                continue
            send({"say": "done", "number": number, "what": what})


def ahead(pipe: Connection, meshes: Connection) -> None:
    """Find first shapes of the designs with one more or less of what each scene counts, and pass them on with their meshes.

    The newest scene wins.
    """
    with suppress(OSError, AttributeError):
        os.nice(BACKGROUND_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from geosim.studio.live import LiveSolver, neighbours

    warnings.simplefilter("ignore")
    plain: Any = lambda proxy: (dict, (dict(proxy),))  # noqa: E731
    copyreg.pickle(MappingProxyType, plain)  # what robots and designs hold goes through no pipe as it is
    os.environ["OMP_NUM_THREADS"] = "1"  # the other cores are for what is asked for
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    with suppress(EOFError, OSError):
        while True:
            (scene,) = pipe.recv()
            for turned in neighbours(scene):
                if pipe.poll():
                    break
                with suppress(Exception):  # whoever turns there is told what is wrong
                    new = solver.met(turned)
                    if new is not None:
                        meshes.send(new)


def patient(pipe: Connection) -> None:
    """Do (what, number, scene, ...) one after another; whoever does not want it any more ends this process."""
    with suppress(OSError, AttributeError):
        os.nice(BACKGROUND_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from geosim.studio.refining import reached, refined

    warnings.simplefilter("ignore")

    def send(header: Mapping[str, Any], frame: bytes | None = None) -> None:
        pipe.send((dict(header), frame))

    with suppress(EOFError, OSError):
        while True:
            what, number, scene, given = pipe.recv()
            try:
                if what == "refine":
                    refined(send, number, scene, Path(given))
                elif what == "reach":
                    reached(send, number, scene, given)
                else:
                    _search(send, number, given)
            except Exception as error:  # noqa: BLE001
                send({"say": "failed", "number": number, "text": _said(error), "what": what})
                continue
            send({"say": "done", "number": number, "what": what})


def _search(send: Any, number: int, given: Mapping[str, Any]) -> None:
    """Run `geosim.optimize` and send its best design."""
    from geosim.study.optimizing import optimize

    found = optimize(given["study"], workers=1, out=given["folder"])
    good = found[found["status"] == "CONVERGED"]
    column = given["column"]
    lines = [f"{len(good)} of {len(found)} designs solved"]
    values: dict[str, Any] = {}
    if len(good) and column in good:
        best = good.loc[(good[column] - given["target"]).abs().idxmin()]
        values = {key: float(best[key]) for key in given["keys"]}
        lines.append(f"best {column} {best[column]:.4g}")
    send(
        {
            "say": "answer",
            "number": number,
            "values": values,
            "text": ", ".join(lines),
            "reached": bool(values),
            "report": True,
        }
    )


def _said(error: BaseException) -> str:
    if isinstance(error, GeosimError):
        return one_line(str(error))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return one_line(f"unexpected {type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})")
