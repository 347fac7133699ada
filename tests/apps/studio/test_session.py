"""Who works when in a studio: what is asked for goes before what may be asked for next."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import psutil
import pytest

from geosim.apps.studio import frames
from geosim.apps.studio.scene import of_design
from geosim.apps.studio.session import Begun, Session, _Process


class Kept(_Process):
    """A process that is not there: what it was told is kept."""

    def __init__(self, said: list[str], name: str) -> None:
        self.said, self.name = said, name

    def send(self, *message: object) -> None:
        self.said.append(f"{self.name} {message[0] if isinstance(message[0], str) else 'scene'}")

    def rests(self, resting: bool) -> None:
        self.said.append(f"{self.name} {'rests' if resting else 'goes on'}")


def test_what_is_made_ahead_waits_for_a_change_until_its_first_frame(monkeypatch, tmp_path):
    said: list[str] = []

    async def turned() -> None:
        session = Session(of_design("pneunet"), tmp_path)
        session.begun = Begun(asyncio.get_running_loop(), object())
        session.processes = {name: Kept(said, name) for name in ("live", "ahead")}
        monkeypatch.setattr(Session, "_show_rest", lambda self, number, scene: asyncio.sleep(0))
        monkeypatch.setattr(frames, "unpacked", lambda frame: ({"level": "preview"}, {}))
        session.changed()
        session.arrived("live", {"say": "frame", "number": session.number - 1}, b"of the scene before")
        session.arrived("live", {"say": "frame", "number": session.number}, b"first")

    asyncio.run(turned())
    assert said == ["ahead rests", "live show", "ahead goes on", "ahead scene"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process rests")
def test_a_process_rests_where_it_is_once_it_has_begun_and_goes_on(monkeypatch, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            process = object.__new__(_Process)
            process.process, process.ready = child, False  # type: ignore[assignment]
            with monkeypatch.context() as patched:
                patched.setattr(os, "kill", lambda pid, number: pytest.fail("it might stay for ever"))
                process.rests(True)
            session = Session(of_design("pneunet"), tmp_path)
            session.processes["ahead"] = process
            session.arrived("ahead", {"say": "ready"}, None)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
            process.rests(False)
            child.communicate(b"\n", timeout=10)
        finally:
            child.kill()
    assert child.returncode == 0


SERVER = """
import multiprocessing, os, signal, time
from geosim.apps.studio import worker
context = multiprocessing.get_context("spawn")
ours, theirs = context.Pipe()
ahead = context.Process(target=worker.ahead, args=(theirs, theirs))
ahead.start()
ours.recv()
os.kill(ahead.pid, signal.SIGSTOP)
print(ahead.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process rests")
def test_a_process_that_rests_ends_with_a_server_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        resting = psutil.Process(int(server.stdout.readline()))
        server.kill()
    try:
        resting.wait(10)
    except psutil.TimeoutExpired:
        resting.kill()
        raise
