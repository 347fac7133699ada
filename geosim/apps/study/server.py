"""Forks a child for every design that it is asked for, and watches its time and its memory.

`python -m geosim.apps.study.server` has imported what a design needs before it forks, so that a design costs no start of an
interpreter. It runs one design at a time, one thread each. A line of JSON on stdin asks (folder, seconds, memory), a
line on stdout answers (ended, reason, seconds, memory). When stdin ends the parent has gone, and so does the design.

Memory is that in use by the design and its mesher (a fork of it: what it has beyond the server is its own), asked for every
twentieth of a second. RLIMIT_AS would be the
system's own limit, but it counts addresses: compiled kernels and numerical libraries reserve gigabytes that they never touch.
CPU time is watched alike, because RLIMIT_CPU counts the mesher, a process of its own, separately.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from geosim.apps.study import solving
from geosim.apps.study.job import ENDING_FILE, JOB_FILE, OUT_OF_MEMORY, TIMEOUT, WALL_TIME_FACTOR
from geosim.geometry.child import meshers_forked

POLL_SECONDS = 0.05  # [s] between two looks at a design; memory grows by less than 0.5 GB in it


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Nothing is read ahead: `select` sees what comes. A start of Python takes longer than the mesh of a preview.
    with os.fdopen(0, "rb", buffering=0, closefd=False) as questions, meshers_forked():
        for line in questions:
            request = json.loads(line)
            answers.write(json.dumps(_watched(Path(request["folder"]), request["seconds"], request["memory"])) + "\n")
            answers.flush()


def _watched(folder: Path, seconds: float, memory: int) -> dict[str, Any]:
    """Run the design of a folder in a child; say how it ended."""
    pid = os.fork()
    if pid == 0:
        _design(folder)
    with suppress(OSError):
        os.setpgid(pid, pid)  # here and in the child: whoever comes first, the group is there before it is needed
    family, peak, reason = [psutil.Process(pid)], 0, None
    shared = psutil.Process().memory_info().rss
    begin = time.monotonic()
    polls_per_search = 10  # looks between two searches for its children, a walk over all processes (5 ms)
    ending_seconds = 20.0  # [s] in which a design whose time is over may write what it reached
    for look in itertools.count():
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if look % polls_per_search == 0:
            with suppress(psutil.NoSuchProcess):
                family[1:] = family[0].children(recursive=True)
        used, spent = in_use(family, shared)
        peak = max(peak, used)
        over = max(spent, (time.monotonic() - begin) / WALL_TIME_FACTOR) - seconds
        grace = ending_seconds if over > 0.0 and (folder / ENDING_FILE).exists() else 0.0
        reason = OUT_OF_MEMORY if used > memory else TIMEOUT if over > grace else None
        if reason is not None:
            _kill(pid)
            _, status, usage = os.wait4(pid, 0)
            break
        if select.select([0], [], [], POLL_SECONDS)[0]:
            _kill(pid)
            raise SystemExit(0)
    _kill(pid)  # a mesher that outlived its design
    cpu = usage.ru_utime + usage.ru_stime
    return {"ended": os.waitstatus_to_exitcode(status), "reason": reason, "seconds": cpu, "memory": peak}


def in_use(family: Sequence[psutil.Process], shared: int) -> tuple[int, float]:
    """Memory in use [bytes] and CPU time [s] of a process and its children, forks which have so much [bytes] in common."""
    used, spent = 0, 0.0
    for one in family:
        with suppress(psutil.NoSuchProcess):
            own = one.memory_info().rss
            used += own if one is family[0] else max(own - shared, 0)
            times = one.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
    return used, spent


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _design(folder: Path) -> None:
    """Be the child."""
    try:
        os.setpgid(0, 0)  # a group of its own, to be ended as a whole
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, target)
        os.closerange(3, 64)
        os.chdir(folder)  # what a library drops goes with it
        solving.run(pickle.loads((folder / JOB_FILE).read_bytes()), folder)
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
