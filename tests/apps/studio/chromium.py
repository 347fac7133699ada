"""A Chromium without a window that a test drives through the DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geosim.files.actuation import load_actuation
from geosim.files.archive import load_result
from geosim.files.robot import load_problem
from geosim.solve import solve

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *(
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ),
    *("--mute-audio", "--remote-debugging-port=0", "--remote-allow-origins=*", "--disable-dev-shm-usage"),
)


class Browser:
    """One page of a browser: what its console said, which requests it made, and what a user does there."""

    def __init__(self, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        from websockets.sync.client import connect

        self.profile = tempfile.TemporaryDirectory(prefix="studio-chromium-", ignore_cleanup_errors=True)
        size = f"--window-size={width},{height}"
        command = [CHROMIUM, *OPTIONS, size, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = Path(self.profile.name) / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (port.is_file() and len(port.read_text(encoding="utf-8").splitlines()) == 2):
            assert time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)
        number, path = port.read_text(encoding="utf-8").splitlines()
        self.open_socket = ExitStack()
        opening = connect(f"ws://127.0.0.1:{number}{path}", max_size=None, compression=None)
        self.socket = self.open_socket.enter_context(opening)
        self.count, self.session = 0, None
        self.console: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def call(self, method: str, **parameters: Any) -> Any:
        """Ask the browser for something."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        number = self.count
        while True:
            answer = json.loads(self.socket.recv(timeout=120))
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.note(answer)

    def note(self, event: dict[str, Any]) -> None:
        """Keep what the page says and asks for."""
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in given["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(given["exceptionDetails"].get("exception", {}).get("description", str(given)))
        elif (
            method == "Log.entryAdded" and "GL Driver Message" not in given["entry"]["text"]
        ):  # of drawing without a GPU
            self.console.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(given["url"])

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 300.0) -> Any:
        """Wait until an expression in the page is true, and return it."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            text = "document.body.innerText.slice(0, 1500)"
            assert time.monotonic() < deadline, f"never: {script}\n{self.run(text)}\n{self.console}"
            time.sleep(0.05)
        return value

    def open(self, address: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def press(self, key: str, code: str | None = None, text: str = "") -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **given)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 6) -> None:
        """Press the mouse at a place, move it, and let go at another."""
        event = {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **event)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **event)

    def picture(self, path: Path) -> None:
        """Write what is seen as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End the browser."""
        self.open_socket.close()
        self.process.terminate()
        self.process.wait(10)
        self.profile.cleanup()


def saves_what_it_shows(page: Browser, folder: Path) -> None:
    """Save a converged scene into `kept` below the folder of the studio; its files, solved again, are what the page shows."""
    page.run("$('folder').value = 'kept'; $('save').click()")
    page.until("$('saved').textContent.includes('with its result')")
    kept = load_result(folder / "kept" / "result" / "result.npz")
    robot, environment, solver = load_problem(folder / "kept" / "robot.toml")
    again = solve(robot, load_actuation(folder / "kept" / "actuation.toml", robot), environment, solver=solver)
    assert np.abs(again.nodes() - kept.nodes()).max() <= 1e-6 * robot.size
    assert page.run("shown.row.bend_angle_deg") == pytest.approx(float(np.degrees(again.bend_angle[-1])), rel=1e-6)
