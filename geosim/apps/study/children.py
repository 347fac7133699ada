"""Runs designs in child processes; whatever happens to a child costs its design alone."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from geosim.apps.study.job import CRASHED, JOB_FILE, OUT_OF_MEMORY, ROW_FILE, TIMEOUT, DesignOutcome, Job, overrun
from geosim.errors import InputError


class Children:
    """Servers that are started as they are needed, one for every design that runs at a time; safe to call from threads."""

    def __init__(self) -> None:
        if not hasattr(os, "fork"):
            raise InputError("studies need a system that can fork (Linux, macOS, or WSL on Windows)")
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def run(self, job: Job) -> DesignOutcome:
        """Solve a design in a child; whatever becomes of it, there is an outcome."""
        max_design_starts = 2  # of a design whose server was ended from outside
        with tempfile.TemporaryDirectory(prefix="geosim-study-") as name:
            folder = Path(name)
            (folder / JOB_FILE).write_bytes(pickle.dumps(job))
            request = {"folder": name, "seconds": job.budget, "memory": job.memory}
            answer = None
            for _ in range(max_design_starts):
                answer = self._asked(request)
                if answer is not None or self._closed:
                    break
            own = answer is not None and not _from_outside(answer)
            row = {"run": job.run, **_ending(answer, job, folder / ROW_FILE), "limits": limits(job, own)}
            files = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file() and path.name not in (JOB_FILE, ROW_FILE)
            }
        return DesignOutcome(row, files)

    def close(self) -> None:
        """End all servers and what they run."""
        self._closed = True
        for server in self._all:
            with suppress(OSError):
                server.stdin.close()  # type: ignore[union-attr]
        for server in self._all:
            server.wait()

    def _asked(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer of a server, or None if it was ended."""
        if self._closed:
            return None
        try:
            server = self._idle.get_nowait()
        except queue.Empty:
            server = self._started()
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
            line = server.stdout.readline()
        except (OSError, ValueError):
            line = b""
        if not line:
            _end_session(server)
            return None
        self._idle.put(server)
        return cast(dict[str, Any], json.loads(line))

    def _started(self) -> subprocess.Popen[bytes]:
        paths = [path for path in sys.path if path]
        root = str(Path(__file__).resolve().parents[3])
        threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(threads, "1"), "PYTHONPATH": os.pathsep.join([*paths, root])}
        server = subprocess.Popen(
            [sys.executable, "-m", "geosim.apps.study.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its servers
        )
        self._all.append(server)
        return server


def _end_session(server: subprocess.Popen[bytes]) -> None:
    """End what a server that is gone was solving: nobody watches its limits, and the next start writes into its folder."""
    import psutil  # of the extra `study`, whose absence is said later than this module is imported

    server.wait()
    for pid in psutil.pids():
        with suppress(OSError):  # it has ended meanwhile, or belongs to another user
            if os.getsid(pid) == server.pid:
                os.kill(pid, signal.SIGKILL)


def limits(job: Job, ended: bool) -> dict[str, float]:
    """Return the limits that a design has had; none if it was not its own end, so that it is solved when the study goes on."""
    return {"seconds": job.seconds, "memory": job.memory} if ended else {"seconds": 0.0, "memory": 0}


def _from_outside(answer: dict[str, Any]) -> bool:
    """Whether somebody else ended a design: a user, or a system that had no memory left."""
    return answer["reason"] is None and -int(answer["ended"]) in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)


def _ending(answer: dict[str, Any] | None, job: Job, row: Path) -> dict[str, Any]:
    """Status, message, seconds, memory and measures of a child that has ended."""
    nothing: dict[str, Any] = {"seconds": 0.0, "memory_mb": 0.0, "measures": {}}
    if answer is None:
        return {"status": CRASHED, "message": "its process was ended from outside", **nothing}
    spent = {"seconds": answer["seconds"], "memory_mb": answer["memory"] / 1e6}
    if answer["ended"] == 0 and row.is_file():
        return {**json.loads(row.read_text()), **spent}
    if answer["reason"] == TIMEOUT:
        message = overrun(job.budget)
    elif answer["reason"] == OUT_OF_MEMORY:
        message = f"used more than {job.memory / 1e6:g} MB"
    else:
        code = answer["ended"]
        message = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        if _from_outside(answer):
            message += (
                " from outside (a user, or a system without memory), so it is solved again when the study goes on"
            )
    return {"status": answer["reason"] or CRASHED, "message": f"{message}; see log.txt", "measures": {}, **spent}
