"""How long a knob takes to show its rest shape and its first solved frame, as a page sees it.

    python benchmarks/studio_latency.py [--designs pneunet,bellows] [--changes 30] [--seed 0]

Starts `geosim studio` for each design, waits for its first frames, and turns knobs at random: a dimension to between .8 and
1.25 of its default (counts by one), the pressure, the material. A change comes .3 s after the frame of the one before, so
that it also meets a solve on its way (the rest of the path, the refinement). Prints median and 95 % of the seconds to the
rest shape and to the first frame of P2 elements, by kind of change, the CPU seconds that its processes spent until then, and the
load of the machine beside them.

    python benchmarks/studio_latency.py --page [--designs bellows]

turns the same knobs in a Chromium without a window, and measures there from the event of the knob to the picture after the one
in which the frame was drawn: what a user waits, with the page's own queue of 90 ms and a picture drawn without a GPU.

    python benchmarks/studio_latency.py --converged [--designs round_finger,bellows,gripper]

turns one knob instead, saves the scene when its label says converged, solves the saved files by the command that the page
shows, and prints how far the two shapes are apart, over the size of the robot.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil
from websockets.sync.client import connect

from geosim.apps.studio.frames import unpacked
from geosim.apps.studio.scene import Scene, of_design
from geosim.files.archive import load_result

DESIGNS = ("pneunet", "round_finger", "bellows", "gripper")
SETTLE_SECONDS, LIMIT_SECONDS = 0.3, 120.0
DIMENSION_SHARES, PRESSURE_KPA = (0.8, 1.25), (1.0, 5.0)
MATERIALS = ("ecoflex-00-30-fang2022", "ecoflex-00-50", "dragon-skin-10-dubied2022")


def change(scene: Scene, rng: np.random.Generator) -> tuple[str, dict[str, float | str]]:
    """Return a random change and its kind."""
    while True:
        knob = rng.choice([k for k in scene.knobs.values() if k.group in ("Actuation", "Dimensions", "Material")])
        if knob.key in ("drive", "steps", "finger") or (knob.low == 0.0 and knob.group == "Dimensions"):
            continue
        if knob.key == "material":
            kind, value = "material", str(rng.choice([m for m in MATERIALS if m != scene.value("material")]))
        elif knob.group == "Actuation":
            kind, value = "pressure", round(float(rng.uniform(*PRESSURE_KPA)), 2)
        elif knob.whole:
            kind, value = "count", max(1, int(scene.value(knob.key)) + int(rng.choice([-1, 1])))
        else:
            kind, value = "dimension", round(float(knob.value) * float(rng.uniform(*DIMENSION_SHARES)), 3)
        if value == scene.value(knob.key):
            continue
        try:
            scene.turned(knob.key, value).drawn()
        except ValueError:
            continue
        return kind, {knob.key: value}


@contextmanager
def studio_address(name: str) -> Iterator[tuple[str, int, Path]]:
    """Start a studio of a design: its address, the number of its process, and the folder where it saves."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "geosim", "studio", name, "--no-browser"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid, Path(folder)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def studio(name: str) -> Iterator[tuple[Any, int, Path]]:
    """Start a studio of a design and be its page: the connection, the number of its process, and the folder where it saves."""
    with studio_address(name) as (given, pid, folder):
        address = urlsplit(given)
        url = f"ws://{address.netloc}/ws?{address.query}"
        with connect(url, origin=f"http://{address.netloc}", max_size=None, compression=None) as page:
            yield page, pid, folder


def measure(name: str, changes: int, seed: int) -> list[tuple[str, float, float, float]]:
    """Return (kind, seconds to the rest shape, to the first solved frame, CPU seconds until then) of random changes."""
    rng, scene = np.random.default_rng(seed), of_design(name)
    with studio(name) as (page, pid, _):
        _until(page, lambda m: m.get("say") == "done", 600.0)
        out = []
        while len(out) < changes:
            time.sleep(SETTLE_SECONDS)
            kind, values = change(scene, rng)
            for key, value in values.items():
                scene = scene.turned(key, value)
            family = psutil.Process(pid).children(recursive=True)
            before, began = _cpu(family), time.perf_counter()
            page.send(json.dumps({"do": "turn", "values": values}))
            number = _until(page, lambda m: m.get("say") == "scene")[0]["number"]
            _, rest = _until(page, partial(_is, number, ("rest", "preview")))
            found, first = _until(page, partial(_is, number, ("preview",)))
            after = _cpu(family)
            spent = sum(after[one] - before[one] for one in after)
            if found["say"] == "failed":
                print(f"  {name} {values}: {found['text'][:110]}")
                continue
            out.append((kind, rest - began, first - began, spent))
        return out


# A knob is turned, and the clock of the page says when its rest shape is there and when its first solved frame is drawn.
TURN_IN_PAGE = """(async () => {
  const began = performance.now(), before = scene.number, knob = $('knob-KEY-number') || $('knob-KEY');
  const picture = () => new Promise(requestAnimationFrame), seconds = () => (performance.now() - began) / 1000;
  const failed = () => scene.number > before && $('label').className.includes('failed');
  const solved = () => failed() || (shown.number === scene.number && scene.number > before && shown.level !== 'rest');
  knob.value = VALUE; knob.onchange();
  while (!(solved() || (scene.number > before && run.rest && run.rest.number === scene.number))) await picture();
  const rest = seconds();
  while (!solved()) await picture();
  await picture(); await picture();
  return [rest, seconds(), failed() ? $('sentence').textContent : ''];
})()"""


def measure_page(name: str, changes: int, seed: int) -> list[tuple[str, float, float, float]]:
    """Return what `measure` does, as a page in a browser sees it; no CPU seconds, which the browser's own would be among."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from apps.studio.chromium import Browser

    rng, scene, out = np.random.default_rng(seed), of_design(name), []
    with studio_address(name) as (address, _, _):
        page = Browser()
        try:
            page.open(address)
            page.until("best().length >= 4 && best().every((f) => f.checked !== false)", 600.0)
            while len(out) < changes:
                time.sleep(SETTLE_SECONDS)
                kind, values = change(scene, rng)
                ((key, value),) = values.items()
                scene = scene.turned(key, value)
                rest, first, text = page.run(TURN_IN_PAGE.replace("KEY", key).replace("VALUE", json.dumps(value)))
                if text:
                    print(f"  {name} {values}: {text[:110]}")
                else:
                    out.append((kind, rest, first, float("nan")))
            if page.console:
                raise SystemExit(f"{name}: the console says {page.console[0]}")
        finally:
            page.close()
    return out


def saved_apart(name: str) -> float:
    """Distance of what a page calls converged from what `geosim solve` makes of its saved files, over the size of the robot."""
    with studio(name) as (page, _, folder):
        values = {"mesh": "preview", "steps": 1, "pressure_kpa:0": 3.0}
        page.send(json.dumps({"do": "turn", "values": values}))
        number = _until(page, lambda m: m.get("say") == "scene" and m["number"] > 1)[0]["number"]
        said, _ = _until(page, partial(_is, number, ("converged",)), 600.0)
        if said["say"] == "failed":
            raise SystemExit(f"{name}: {said['text']}")
        page.send(json.dumps({"do": "save", "name": "kept"}))
        saved, _ = _until(page, lambda m: m.get("say") in ("saved", "refused"))
        kept = load_result(folder / "kept" / "result" / "result.npz")
        again = saved["command"].replace("kept/result", "again").split()
        subprocess.run([sys.executable, "-m", *again], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        apart = np.abs(load_result(folder / "again" / "result.npz").nodes() - kept.nodes()).max()
        return float(apart / kept.robot.size)


def _is(number, levels, message):
    """Whether a message is a frame of a run at one of some levels, or says that there is none."""
    return message.get("number") == number and (message.get("level") in levels or message["say"] == "failed")


def _until(page, wanted, seconds=LIMIT_SECONDS):
    """The first message that is wanted, and when it came; a frame that was the rest's and the solved one counts for both."""
    deadline = time.perf_counter() + seconds
    while True:
        kept = getattr(page, "kept", None)
        page.kept = None
        message = kept or page.recv(timeout=max(0.1, deadline - time.perf_counter()))
        now = time.perf_counter()
        header = unpacked(message)[0] if isinstance(message, bytes) else json.loads(message)
        if wanted(header):
            page.kept = message if header.get("level") == "preview" and kept is None else None
            return header, now


def _cpu(family):
    """CPU seconds of the processes that are still there, by their number."""
    out = {}
    for one in family:
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        out[one.pid] = times.user + times.system
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", default=",".join(DESIGNS))
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--converged", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.converged:
        for name in given.designs.split(","):
            print(f"{name:12s} converged, and its saved files solved again: {saved_apart(name):.1e} of the size apart")
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning; seconds, median / 95 %")
    for name in given.designs.split(","):
        rows = (measure_page if given.page else measure)(name, given.changes, given.seed)
        for kind in ("all", "pressure", "material", "dimension", "count"):
            chosen = np.array([row[1:] for row in rows if kind in ("all", row[0])])
            if len(chosen):
                middle, high = np.percentile(chosen, [50, 95], axis=0)
                words = ("rest shape", "first solved frame", "CPU until then")
                text = ", ".join(f"{w} {m:.2f} / {h:.2f}" for w, m, h in zip(words, middle, high) if m == m)
                print(f"{name:12s} {kind:10s} {len(chosen):3d} changes: {text}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
