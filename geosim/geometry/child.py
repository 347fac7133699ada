"""Runs the meshers in a child process: they end the interpreter on surfaces that they cannot handle."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from geosim.errors import MeshError
from geosim.geometry import mesher
from geosim.geometry.progress import QUIET_SECONDS, Progress

RESCUE_ADVICE = "try rescue=True (rescue = true in a robot file), after pip install 'geosim[rescue]'"


# Meshes one file into another in a folder, within so many seconds.
_Run = Callable[[str, tuple[str, str], float], "subprocess.CompletedProcess[str]"]
# How this thread has it done, if it has chosen: by `mesher_waiting` or by `meshers_forked`.
_RUN: ContextVar[_Run] = ContextVar("run of the mesher")


@contextmanager
def _chosen(run: _Run) -> Iterator[None]:
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)


@dataclass
class MesherServer:
    """A child that has imported the mesher and forks for every mesh: a start of Python takes ten times as long as a fork."""

    process: subprocess.Popen[str]

    def run(self, folder: str, files: tuple[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Mesh by a fork of that child, or of another one if it has ended. Raises as `_forked`."""
        if self.process.poll() is not None:
            self.process = _started(_root(), "geosim.geometry.child")
        asked, answers = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write(json.dumps([folder, files, seconds]) + "\n")
            asked.flush()
            answer = answers.readline()
        except BrokenPipeError:  # it has just ended
            answer = ""
        except BaseException:  # what it says later would be taken for the next mesh
            self.end()
            raise
        if not answer:
            return subprocess.CompletedProcess("fork", self.process.wait(), "", "")
        code, said = json.loads(answer)
        if code is None:
            raise subprocess.TimeoutExpired("fork", seconds)
        return subprocess.CompletedProcess("fork", code, "", said)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


def serve() -> None:
    """Answer the questions of a `MesherServer` until they end."""
    with meshers_forked():
        for line in sys.stdin:
            answer: tuple[int | None, str] = None, ""
            with suppress(subprocess.TimeoutExpired):
                done = _RUN.get()(*json.loads(line))
                answer = done.returncode, done.stderr
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


@contextmanager
def mesher_waiting() -> Iterator[MesherServer | None]:
    """Have a child wait meanwhile for what this thread meshes: each start of one takes 0.25 s; none where nothing can fork."""
    if not hasattr(os, "fork"):
        yield None
        return
    server = MesherServer(_started(_root(), "geosim.geometry.child"))
    try:
        with _chosen(server.run):
            yield server
    finally:
        server.end()


@contextmanager
def meshers_forked() -> Iterator[None]:
    """Have children be forks of this process, of one thread, whose many meshes take less than as many starts of Python."""
    with suppress(ImportError):  # which the forks have then, and say otherwise
        importlib.import_module("tetgen")
    with _chosen(_forked):
        yield


def _forked(folder: str, files: tuple[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Mesh one file into another in a fork that works in a folder.

    Raises
    ------
    subprocess.TimeoutExpired
        It takes longer; it has ended then.
    """
    said = Path(folder, "said.txt")

    def mesh() -> None:
        sys.stderr = said.open("w")
        for stream in (1, 2):  # of engines, which write there without Python
            os.dup2(sys.stderr.fileno(), stream)
        os.chdir(folder)
        sys.exit(mesher.main(list(files)))

    child = multiprocessing.get_context("fork").Process(target=mesh)
    child.start()
    child.join(seconds)
    code = child.exitcode
    if code is None:
        child.kill()
        child.join()
        raise subprocess.TimeoutExpired("fork", seconds)
    return subprocess.CompletedProcess("fork", code, "", said.read_text(errors="replace") if said.exists() else "")


def _root() -> str:
    """Folder of the package, from which children import it."""
    return str(Path(__file__).resolve().parents[2])


def _started(folder: str, module: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module of the package in a folder."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([inherited, _root()] if inherited else [_root()])
    # numpy starts threads otherwise, which no mesher needs
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace"
    )


def _executed(
    folder: str, files: tuple[str, str], seconds: float, step: str = "the mesher"
) -> subprocess.CompletedProcess[str]:
    """As `_forked`, by a child of its own; where it takes long, say so."""
    progress, until = Progress(step), time.monotonic() + seconds
    with _started(folder, "geosim.geometry.mesher", *files) as child:
        try:
            while True:
                try:
                    out, wrong = child.communicate(timeout=min(QUIET_SECONDS, max(until - time.monotonic(), 0.0)))
                    break
                except subprocess.TimeoutExpired:
                    progress.say()
                    if time.monotonic() >= until:
                        raise
        finally:
            child.kill()  # where it has not ended
    return subprocess.CompletedProcess(child.args, child.returncode, out, wrong)


def cpu_seconds() -> float:
    """Processor time [s] of this process and of its children that have ended."""
    return sum(os.times()[:4])


# Of a thread, where somebody has set one: seconds of processor time that meshing may take, whatever it was given.
_MOST: ContextVar[float] = ContextVar("most seconds of meshing")


@contextmanager
def meshing_within(seconds: float | None) -> Iterator[None]:
    """Let what this thread meshes meanwhile take at most this many seconds of processor time; None for no other limit."""
    before = _MOST.set(np.inf if seconds is None else seconds)
    try:
        yield
    finally:
        _MOST.reset(before)


@dataclass(frozen=True)
class Allowance:
    """What runs of the meshers may take together: `given` seconds of processor time in all, until readings of two clocks [s].

    `until` is one of `time.monotonic`: beyond it a mesher hangs, however little processor time it was given. Where the system
    counts no processor time of children, on Windows, it is the limit. `cpu_until` and `rescue_until` are of `cpu_seconds`.
    """

    given: float
    until: float
    cpu_until: float
    rescue_until: float = np.inf

    @classmethod
    def of(cls, seconds: float, cpu: float = np.inf) -> Allowance:
        """From now on this many seconds of processor time, or those of a rescue, if they are fewer."""
        hangs = 1.0 if sys.platform == "win32" else 10.0  # of a machine with so many times as much to do
        seconds = min(seconds, _MOST.get(np.inf))
        return cls(seconds, time.monotonic() + hangs * seconds, cpu_seconds() + seconds, cpu_seconds() + cpu)

    @property
    def seconds(self) -> float:
        """What is left until a mesher hangs [s]."""
        return max(self.until - time.monotonic(), 0.0)

    @property
    def cpu_left(self) -> float:
        """The remainder of the processor time [s]."""
        return max(min(self.cpu_until, self.rescue_until) - cpu_seconds(), 0.0)

    @property
    def is_rescue(self) -> bool:
        """Whether this is the time of a rescue."""
        return bool(np.isfinite(self.rescue_until))

    def part(self, share: float) -> Allowance:
        """A share of the remainder of the processor time: the rest is for another attempt."""
        return replace(self, rescue_until=cpu_seconds() + share * self.cpu_left)


def system_seconds() -> float:
    """Processor time that the system lets a process take [s] (`ulimit -t`); inf where it sets no limit."""
    if sys.platform == "win32":
        return np.inf
    import resource

    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_CPU) if limit != resource.RLIM_INFINITY]
    return float(min(limits, default=np.inf))


def run_mesher(inputs: dict[str, Any], allowed: Allowance, label: str) -> dict[str, np.ndarray] | str:
    """Run the mesher in a child process; return its arrays, or what went wrong.

    Raises
    ------
    MeshError
        It takes longer than it may. The kernel counts its processor time and ends it (RLIMIT_CPU; not on Windows).
    """
    cpu, system = allowed.cpu_left, system_seconds()
    what = "were left for a rescue" if allowed.is_rescue else "it was given (time_limit)"
    cause = f"the {cpu:.3g} s of processor time that {what}"
    if system < cpu:
        cause = f"the {system:.3g} s of processor time that the system lets a process take (ulimit -t)"
    spent = MeshError(
        f"{label}: {inputs['engine']} needs more than {cause}; choose a larger max_edge, give a larger limit, simplify the "
        f"surface in the CAD program, or {RESCUE_ADVICE}"
    )
    if allowed.is_rescue and cpu < 1.0:  # s: the kernel counts whole ones
        raise spent
    inputs = {**inputs, "cpu_seconds": max(int(min(cpu, system)), 1)}
    with tempfile.TemporaryDirectory(prefix="geosim-mesh-") as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **{key: np.asarray(value) for key, value in inputs.items()})  # type: ignore[arg-type]
        files = str(source), str(target)
        try:
            # What forks of another process take is not in `cpu_seconds`.
            started = partial(_executed, step=f"{label}: {inputs['engine']}")
            run = started if allowed.is_rescue else _RUN.get(started)
            done = run(folder, files, allowed.seconds)
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"{label}: the mesher took more than {allowed.given:.3g} s; choose a larger max_edge, give a larger time_limit, "
                f"or {RESCUE_ADVICE}"
            ) from error
        if done.returncode < 0 and signal.Signals(-done.returncode).name == "SIGXCPU":
            raise spent
        if done.returncode == 0 and target.is_file():
            with np.load(target) as file:
                return {key: file[key] for key in file.files}
        return _failure(inputs["engine"], done)


def _failure(engine: str, done: subprocess.CompletedProcess[str]) -> str:
    """One sentence for a child process that ended badly."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return f"{engine} crashed ({name}{', out of memory?' if name == 'SIGKILL' else ''})"
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    reason = said[-1] if said else f"exit status {done.returncode}"
    return f"{engine} failed ({reason[:200].rstrip('.')})"


if __name__ == "__main__":
    serve()
