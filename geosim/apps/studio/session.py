"""One design session: the scene, what is known of it, who looks at it, and the processes that solve it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from geosim.apps.studio import frames, worker
from geosim.apps.studio.live import RESULT_FILE, problem_files
from geosim.apps.studio.messages import Message, Reach, Save, Search, Sensitivities, Stop, Turn
from geosim.apps.studio.scene import Scene
from geosim.errors import GeosimError, InputError, one_line

__all__ = ["Session", "refusal"]

SAVED_NAME = "NAME"  # of the folder in commands that are shown before anything is saved
LEVELS = ("rest", "preview", "converged")  # of what is shown, the last the best
MAX_KEPT_FRAMES = 64  # of a run, for pages that connect later
Listener = Callable[[str | bytes | dict[str, Any]], None]


class _Process:
    """A process that solves, and the thread that listens to it."""

    def __init__(
        self, run: Callable[..., None], arrived: Callable[[dict[str, Any], bytes | None], None], *given: Any
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=run, args=(theirs, *given), daemon=True)
        self.process.start()
        theirs.close()
        self.ended = self.ready = self.resting = False
        threading.Thread(target=self._listen, args=(arrived,), daemon=True).start()

    def _listen(self, arrived: Callable[[dict[str, Any], bytes | None], None]) -> None:
        with suppress(EOFError, OSError):
            while True:
                header, frame = self.pipe.recv()
                if self.ended:
                    return
                arrived(header, frame)
        if not self.ended:
            arrived({"say": "died"}, None)

    def send(self, *message: Any) -> None:
        self.pipe.send(message)

    def rests(self, resting: bool) -> None:
        """Stop it for the time of another one's work, or let it go on where it was: on Linux, and once it is ready.

        Then it ends with the server, whatever ends that; elsewhere one that is stopped might stay for ever.
        """
        self.resting = resting
        if self.ready and self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGSTOP if resting else signal.SIGCONT)

    def begun(self) -> None:
        """Let it rest from now on where the system can stop it."""
        self.ready = sys.platform == "linux"
        self.rests(self.resting)

    def end(self) -> None:
        self.ended = True
        self.process.kill()


@dataclass(frozen=True)
class Begun:
    """The loop of the pages, and the folder for files that nobody has saved yet."""

    loop: asyncio.AbstractEventLoop
    held: Any


@dataclass(frozen=True)
class Shown:
    """What is known of the scene that is shown.

    Parameters
    ----------
    number
        Of the scene: changes are counted.
    level
        One of `LEVELS`.
    kept
        Its frames, for pages that connect later.
    told
        Its messages besides, by what they are of.
    rest
        The task that shows the rest shape.
    """

    number: int = 0
    level: str = "rest"
    kept: tuple[bytes, ...] = ()
    told: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    rest: asyncio.Task[None] | None = None


@dataclass
class Session:
    """What the pages of one studio share.

    Parameters
    ----------
    scene
        What is chosen.
    folder
        Where files are saved.
    report
        Page of a study that was opened, or of the last search.
    processes
        By name: "live" answers, "ahead" meshes for it, "patient" solves the saved files, "asked" looks for what was asked.
    begun
        Where it works; None before `begin`.
    """

    scene: Scene
    folder: Path
    report: Path | None = None
    shown: Shown = Shown()
    listeners: set[Listener] = field(default_factory=set)
    processes: dict[str, _Process] = field(default_factory=dict)
    begun: Begun | None = None

    # ---- beginning and end

    def begin(self) -> None:
        """Start the process that answers, and show what is chosen."""
        held = tempfile.TemporaryDirectory(prefix="geosim-studio-", ignore_cleanup_errors=True)
        self.begun = Begun(asyncio.get_running_loop(), held)
        self.changed()

    def end(self) -> None:
        """End all processes."""
        for name in tuple(self.processes):
            self._ended(name)
        if self.begun is not None:
            self.begun.held.cleanup()

    @property
    def scratch(self) -> Path:
        """Where files are solved before anybody saves them."""
        assert self.begun is not None
        return Path(self.begun.held.name)

    @property
    def number(self) -> int:
        """Number of the scene that is shown."""
        return self.shown.number

    # ---- pages

    def join(self, listener: Listener) -> None:
        """Let a page listen, and tell it what is known."""
        listener(self.hello())
        for frame in self.shown.kept:
            listener(frame)
        for message in self.shown.told.values():
            listener(message)
        self.listeners.add(listener)

    def leave(self, listener: Listener) -> None:
        """Let a page go."""
        self.listeners.discard(listener)

    def hello(self) -> dict[str, Any]:
        """Return the scene as a page shows it."""
        scene = self.scene
        knobs = [asdict(knob) | {"now": scene.value(knob.key)} for knob in scene.knobs.values()]
        words = {"command": scene.command(SAVED_NAME), "python": scene.python(SAVED_NAME)}
        name = scene.design or (scene.path.parent.name if scene.path else "")
        told = {"say": "scene", "number": self.number, "name": name, "knobs": knobs, **words}
        return {
            **told,
            "chambers": scene.chamber_names,
            "design": bool(scene.design),
            "scatter": self._scatter(),
            "report": self.report is not None and self.report.is_file(),
        }

    def _scatter(self) -> float | None:
        """Relative standard deviation of the material's shear modulus between batches; None where it is not known."""
        from geosim import materials

        with suppress(InputError, KeyError):
            scatter = float(materials.get(str(self.scene.value("material"))).scatter)
            return scatter if scatter == scatter else None
        return None

    def tell(self, message: dict[str, Any] | bytes) -> None:
        """Tell all pages."""
        for listener in tuple(self.listeners):
            listener(message)

    # ---- what pages say

    async def hear(self, message: Message) -> None:
        """Do what a page says.

        Raises
        ------
        InputError
            It cannot be done.
        """
        match message:
            case Turn(values=values):
                scene = self.scene
                for key, value in values.items():
                    scene = scene.turned(key, value)
                if scene != self.scene:
                    self.scene = scene
                    self.changed()
            case Sensitivities():
                if "live" in self.processes:
                    self.processes["live"].send("sensitivities", self.number, self.scene)
            case Reach(degrees=degrees):
                self._ask("reach", degrees)
            case Search():
                self._ask("search", self._study(message))
            case Stop():
                self._stop()
            case Save(name=name):
                await self._save(name)

    def changed(self) -> None:
        """Show a new scene: its rest shape at once, then frames; what was solved for the last one stops."""
        self.shown = Shown(self.number + 1)
        self._works("show")
        self._ended("patient")
        self.tell(self.hello())
        if self.begun is None:
            return
        if "live" not in self.processes:
            self._begin_live()
        if "ahead" in self.processes:
            self.processes["ahead"].rests(True)  # both would be slower by more than what the one of them does
        self.processes["live"].send("show", self.number, self.scene)
        if self.scene.design:
            rest = self.begun.loop.create_task(self._show_rest(self.number, self.scene))
            self.shown = replace(self.shown, rest=rest)

    def _begin_live(self) -> None:
        """Begin the process that answers, and the one that meshes ahead for it."""
        self._ended("ahead")
        theirs, ours = multiprocessing.get_context("spawn").Pipe(duplex=False)
        self.processes["live"] = _Process(worker.live, self._messages_of("live"), str(self.scratch), theirs)
        if self.scene.design:
            self.processes["ahead"] = _Process(worker.ahead, self._messages_of("ahead"), ours)
        theirs.close()
        ours.close()

    def _works(self, what: str) -> None:
        """Tell the pages what is being solved: "show", the preview; "refine", the saved files; "" nothing."""
        self._told("work", {"say": "work", "number": self.number, "what": what})

    def _told(self, of: str, message: dict[str, Any]) -> None:
        """Tell the pages something of the scene, those that connect later included."""
        self.shown = replace(self.shown, told={**self.shown.told, of: message})
        self.tell(message)

    async def _show_rest(self, number: int, scene: Scene) -> None:
        with suppress(GeosimError):
            shape = await asyncio.to_thread(lambda: frames.rest(scene.drawn(), frames.header(number, "rest", 0, 1)))
            if number == self.number and self.shown.level == "rest":
                self.shown = replace(self.shown, kept=(shape,))
                self.tell(shape)

    def _stop(self) -> None:
        if self._ended("asked"):
            self.tell({"say": "answer", "text": "stopped", "values": {}, "reached": False})

    def _ask(self, what: str, given: Any) -> None:
        self._stop()
        self.processes["asked"] = _Process(worker.patient, self._messages_of("asked"))
        self.processes["asked"].send(what, self.number, self.scene, given)
        self.tell({"say": "asked", "text": "looking for it ..."})

    def _study(self, asked: Search) -> dict[str, Any]:
        """Return the study of a search: the dimensions that may change, within the ranges of their knobs."""
        scene, vary = self.scene, {}
        for key in asked.keys:
            knob = scene.knobs.get(key)
            if knob is None or knob.group != "Dimensions" or knob.choices or ":" in key:
                raise InputError(f"{key!r} is no dimension that can be searched")
            now = float(scene.value(key))
            low, high = max(knob.low or 0.0, 0.6 * now), min(knob.high or 2 * now, 1.6 * now)
            whole = {"from": round(low), "to": max(round(high), round(low) + 1), "integer": True}
            vary[key] = whole if knob.whole else {"from": low, "to": high}
        tables = scene.tables
        fixed = {k: v for k, v in tables["fixed"].items() if k not in asked.keys}
        study = {**tables, "fixed": fixed, "vary": vary, "mesh": {"preview": True}}
        goal = {"goals": [f"target bend_angle_deg {asked.degrees:g}"], "trials": asked.trials, "confirm": 0}
        study = {k: v for k, v in study.items() if v} | {"optimize": goal}
        folder = self.scratch / f"search-{self.number}"
        self.report = folder / "report.html"
        return {
            "study": study,
            "folder": str(folder),
            "column": "bend_angle_deg",
            "target": asked.degrees,
            "keys": asked.keys,
        }

    async def _save(self, name: str) -> None:
        """Write robot.toml with its surfaces, actuation.toml and, where it is solved, result/ as `geosim solve` does."""
        target, scene, solved = self.folder / name, self.scene, self.shown.level == "converged"
        await asyncio.to_thread(_written, scene, target, self.scratch / RESULT_FILE if solved else None)
        words = {"command": scene.command(name), "python": scene.python(name)}
        self.tell({"say": "saved", "folder": str(target), "result": solved, **words})

    # ---- what processes say

    def _messages_of(self, who: str) -> Callable[[dict[str, Any], bytes | None], None]:
        """Return what takes the messages of a process to the loop."""
        assert self.begun is not None
        loop = self.begun.loop

        def arrived(header: dict[str, Any], frame: bytes | None) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self.arrived, who, header, frame)

        return arrived

    def arrived(self, who: str, header: dict[str, Any], frame: bytes | None) -> None:
        """Take a message of a process, with a frame or none."""
        say = header["say"]
        if say == "died":
            self._died(who)
        elif say == "ready":
            if who == "ahead" and (ahead := self.processes.get(who)) is not None:
                ahead.begun()
        elif who == "asked":
            if say in ("answer", "failed"):
                said = {k: v for k, v in header.items() if k != "say"}
                self.tell({"say": "answer", "values": {}, "reached": False, **said})
        elif header.get("number") == self.number:
            if "ahead" in self.processes and (frame is not None or say in ("done", "failed")):
                self.processes["ahead"].rests(False)
            if frame is not None:
                self._show(frame)
            else:
                self._note(say, header)

    def _show(self, frame: bytes) -> None:
        """Keep a frame of the scene, and tell it; the first preview lets the meshes ahead begin."""
        before = self.shown
        kept = (frame,) if before.level == "rest" else (*before.kept, frame)
        level = "converged" if frames.unpacked(frame)[0]["level"] == "converged" else "preview"
        self.shown = replace(before, level=max(level, before.level, key=LEVELS.index), kept=kept[-MAX_KEPT_FRAMES:])
        if before.level == "rest" and "ahead" in self.processes:
            self.processes["ahead"].send(self.scene)
        self.tell(frame)

    def _note(self, say: str, header: dict[str, Any]) -> None:
        """Tell what was said of the scene besides frames; after its preview the saved files are solved."""
        if say == "done":
            refines = header["what"] == "show" and self.scene.volumetric
            if refines:
                self._refine()
            if header["what"] in ("show", "refine"):
                self._works("refine" if refines else "")
            return
        self._told(f"{say}:{header.get('key', header.get('step', ''))}", header)
        if say == "failed" and header.get("what") in ("show", "refine"):
            self._works("")

    def _ended(self, name: str) -> bool:
        """End a process; return whether there was one."""
        process = self.processes.pop(name, None)
        if process is not None:
            process.end()
        return process is not None

    def _refine(self) -> None:
        """Solve the saved files of the scene in the background."""
        if "patient" not in self.processes:
            self.processes["patient"] = _Process(worker.patient, self._messages_of("patient"))
        for path in self.scratch.glob("*"):
            if path.is_file():
                path.unlink()
        self.processes["patient"].send("refine", self.number, self.scene, str(self.scratch))

    def _died(self, who: str) -> None:
        """Say that a process has died, of memory for example; the next change begins a new one."""
        text = "the process that solved this has ended, perhaps for want of memory; turn a knob back"
        self.processes.pop(who, None)
        if who == "ahead":  # nobody waits for it
            return
        self.tell({"say": "failed", "number": self.number, "text": text})
        self._works("")


def _written(scene: Scene, target: Path, solved: Path | None) -> None:
    """Write a scene and its result into a new folder, whole or not at all."""
    from geosim.files.archive import load_result
    from geosim.files.folder import complete_folder, write_folder

    with complete_folder(target) as beside:
        problem_files(scene, beside)
        if solved is not None and solved.is_file():
            write_folder(load_result(solved), beside / "result")


def refusal(error: Exception) -> Mapping[str, Any]:
    """Return what a page is told where something cannot be done."""
    return {"say": "refused", "text": one_line(str(error))}
