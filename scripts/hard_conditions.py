"""What `geosim` says and leaves where the system is hard on it: killed, interrupted, no disk, no memory, no home, no folder.

    python scripts/hard_conditions.py               # 20 kills of either kind, then every condition; some minutes
    python scripts/hard_conditions.py kill kill-sweep --kills 5

`kill`: `geosim solve --force` over an older result is killed (SIGKILL) at random, seeded moments from its start to its end, and
the folder must hold the old or the new result, whole. `kill-sweep`: of `geosim sweep` the study itself, a server or a design is
killed at such moments and the study goes on with `--resume`: no run may be lost or solved twice, no process stay behind, every
design that was killed be solved, and the table be that of a study left alone. The conditions print exit status, last line, and
what the folder holds.
Needs a POSIX system; two conditions want the rights to mount and to be another user, and say so where they are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import psutil

import geosim
from geosim.files.archive import load_result

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fuzzing.commands import ROBOT
from fuzzing.readers import mesh_bytes

FILES = {"result.npz", "summary.csv", "frames.pvd", "picture.png", "view.html", "frames_0000.vtu"}
PICTURES = {"picture.png", "view.html"}  # which may fail, and a note says so: the numbers are written first
ROOT = Path(geosim.__file__).resolve().parents[1]
NOBODY = 65534
ALONE, TWO = "read-only package, no home", "two first runs at once"  # titles
GIB = 1 << 30


def robot(folder: Path, name: str = "robot.toml") -> Path:
    """Write a bar of six tets and its robot file."""
    path = folder / name
    path.write_text(ROBOT)
    (folder / "bar.vtu").write_bytes(mesh_bytes("vtu", 1.0))
    return path


def held(folder: Path) -> str:
    """Say which result a folder holds, if it is whole: the gravity that it was solved with, in all its files."""
    if not folder.exists():
        return "no folder"
    names = {p.name for p in folder.iterdir()}
    try:
        found = load_result(folder / "result.npz")
    except geosim.InputError as error:
        return f"BROKEN: {error}"
    missing = FILES - names - {n for n in FILES if n.startswith("frames_")}
    if missing - PICTURES or not any(n.endswith(".vtu") for n in names):
        return f"BROKEN: without {sorted(missing)}"
    table = (folder / "summary.csv").read_text(encoding="utf-8").splitlines()[1].split(",")
    heads = (folder / "summary.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    if abs(float(table[heads.index("tip_z_mm")]) - 1e3 * found.tip[-1, 2]) > 1e-3:
        return "BROKEN: result.npz and summary.csv differ"
    return f"gravity {found.environment.gravity[2]:g}" + (f", without {sorted(missing)}" if missing else "")


def kills(count: int, seed: int) -> int:
    """Kill solves at random moments; return the number of folders that are neither old nor new."""
    rng, broken, counts = random.Random(seed), 0, {"old": 0, "new": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, out = robot(folder), folder / "out"
        begin = time.monotonic()
        _started(path, out, -1.0).wait()
        whole = time.monotonic() - begin
        before = held(out)
        for i in range(count):
            gravity = -2.0 - i
            child = _started(path, out, gravity)
            moment = rng.uniform(0.0, 1.1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(moment * whole)
            dead = child.poll() is None
            if dead:
                child.kill()
                child.wait()
            now = held(out)
            kind = "new" if now == f"gravity {gravity:g}" else "old" if now == before else "BROKEN"
            sys.stdout.write(f"kill at {100 * moment:5.1f} % ({'killed' if dead else 'had ended'}): {kind}, {now}\n")
            sys.stdout.flush()
            broken += kind == "BROKEN"
            counts[kind] = counts.get(kind, 0) + 1
            before = now
        _started(path, out, -9.0).wait()
        left = [p.name for p in folder.iterdir() if p.name.endswith(".part")]
    sys.stdout.write(
        f"{count} kills: {counts}; after one more solve, folders of dead processes left: {left or 'none'}\n"
    )
    return broken + len(left)


def _started(path: Path, out: Path, gravity: float) -> subprocess.Popen:
    return _silent(["solve", str(path), "--gravity", f"0,0,{gravity}", "--out", str(out), "--force"])


STUDY = """robot = "robot.toml"
[vary]
"environment.gravity.2" = { from = -12.0, to = -5.0, steps = 8 }
[measures]
columns = ["tip_z_mm", "max_stretch"]
"""
VICTIMS = ("study", "server", "design")


def sweep_kills(count: int, seed: int) -> int:
    """Kill sweeps, their servers or designs at random moments, and go on; return what is lost, doubled or left behind."""
    rng, faults, done = random.Random(seed), [], dict.fromkeys(VICTIMS, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        robot(folder)
        (folder / "sag.toml").write_text(STUDY, encoding="utf-8")
        begin = time.monotonic()
        _swept(folder, "alone").wait()
        whole = time.monotonic() - begin
        while sum(done.values()) < count:
            before, victim = _whole(folder / "out"), rng.choice(VICTIMS)
            study = _swept(folder, "out")
            moment = rng.uniform(0.0, 1.0)
            killed = _killed(study, victim, time.monotonic() + moment * whole)
            status = study.wait()
            _, alive = psutil.wait_procs(killed, timeout=30.0)
            done[victim] += bool(killed)
            after = _whole(folder / "out")
            wrong = [f"{len(before.items() - after.items())} runs lost or solved again"] * (
                not before.items() <= after.items()
            )
            wrong += [f"{len(alive)} processes left behind"] * bool(alive)
            if not (killed and victim == "study"):
                wrong += [f"exit status {status}"] * (status != 0) + _differences(folder)
                shutil.rmtree(folder / "out")
            faults += wrong
            said = f"{victim} killed at {100 * moment:4.0f} %" if killed else "ended before anything was killed"
            sys.stdout.write(
                f"{said}, {len(before)} -> {len(after)} runs: {'; '.join(wrong) or 'none lost, none twice'}\n"
            )
            sys.stdout.flush()
        if (folder / "out").exists():
            faults += _differences(folder)
    sys.stdout.write(f"{done}; {len(faults)} faults\n")
    return len(faults)


def _killed(study: subprocess.Popen, victim: str, moment: float) -> list[psutil.Process]:
    """Kill a process of a study at a moment, or as soon after it as there is one; return it and what it had started."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        study.wait(max(moment - time.monotonic(), 0.0))
    while study.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(study.pid)
            servers = leader.children()
            named = {"study": [leader], "server": servers, "design": [p for s in servers for p in s.children()]}
            if named[victim]:
                first = named[victim][0]
                family = [first, *first.children(recursive=True)]
                first.kill()
                return family
        time.sleep(0.01)
    return []


def _whole(out: Path) -> dict[str, int]:
    """Runs that are solved, and when they were written [ns]."""
    rows = [p for p in (out / "runs").glob("[0-9a-f]*/row.json") if json.loads(p.read_bytes())["status"] == "CONVERGED"]
    return {p.parent.name: p.stat().st_mtime_ns for p in rows}


def _differences(folder: Path) -> list[str]:
    """Go on to the end; say what of the table is not as that of the study left alone, and which runs were solved again."""
    before = _whole(folder / "out")
    status = _swept(folder, "out").wait()
    tables = [
        pandas.read_csv(folder / out / "table.csv").drop(columns=["seconds", "memory_mb"]) for out in ("alone", "out")
    ]
    left = [p.name for p in (folder / "out" / "runs").iterdir() if p.name.endswith(".part")]
    out = [f"exit status {status} of --resume"] * (status != 0) + [f"{left} left"] * bool(left)
    out += ["the table differs"] * (not tables[0].equals(tables[1]))
    return out + ["runs solved again"] * (not before.items() <= _whole(folder / "out").items())


def _swept(folder: Path, out: str) -> subprocess.Popen:
    return _silent(["sweep", str(folder / "sag.toml"), "--workers", "2", "--resume", "--out", str(folder / out)])


def _silent(words: list[str]) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "geosim.cli", *words]
    return subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(
    title: str,
    words: list[str],
    *,
    out: Path | None = None,
    before: Callable[[], object] | None = None,
    **given: object,
) -> None:
    """Run a command line in a process of its own, and print what came of it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **given.pop("env", {})}  # type: ignore[dict-item]
    environment = {k: v for k, v in environment.items() if v is not None}
    after = given.pop("after", None)
    program = [sys.executable, "-m", "geosim.cli", *words]
    child = subprocess.Popen(
        program, env=environment, preexec_fn=before, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given
    )  # type: ignore[call-overload]
    if after is not None:
        after(child)
    said, wrong = child.communicate(timeout=500)
    lines = (wrong or said).strip().splitlines() or [""]
    trouble = " TRACEBACK" if "Traceback" in wrong else ""
    holds = f"; folder: {held(out)}" if out is not None else ""
    sys.stdout.write(f"{title}: exit {child.returncode}{trouble}: {lines[-1][:230]}{holds}\n")
    sys.stdout.flush()


def conditions(wanted: list[str]) -> None:
    """Print what is said under each hard condition, or under those whose title holds a wanted word."""

    def asked(title: str) -> bool:
        return not wanted or any(word in title for word in wanted)

    def told(title: str, words: list[str], **given: Any) -> None:
        if asked(title):
            run(title, words, **given)

    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = robot(folder)
        solve = ["solve", str(path), "--element", "p1"]
        steps = folder / "steps.toml"
        steps.write_text("[passive]\nduration = 1.0\nsteps = 100000\n")

        for title, number in (("Ctrl-C", signal.SIGINT), ("SIGTERM", signal.SIGTERM)):
            out = folder / title

            def after(child: subprocess.Popen, number: int = number) -> None:
                time.sleep(25.0)
                child.send_signal(number)

            told(
                f"{title} in a long solve", [*solve, "--actuation", str(steps), "--out", str(out)], out=out, after=after
            )

        disk = folder / "disk"
        disk.mkdir()
        mounted = (
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True
            ).returncode
            == 0
        )
        if mounted:
            try:
                told("full disk (64 kB)", [*solve, "--out", str(disk / "out")], out=disk / "out")
            finally:
                subprocess.run(["umount", str(disk)], check=False)
        else:

            def limit() -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

            told(
                "no room (files of at most 4 kB; no right to mount)",
                [*solve, "--out", str(disk / "out")],
                out=disk / "out",
                before=limit,
            )
        told(
            "standard output is a full disk",
            ["info", str(path)],
            before=lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1),
        )

        memory = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 * GIB, 2 * GIB))  # noqa: E731
        told(
            "2 GB of memory, a small robot",
            [*solve, "--out", str(folder / "small")],
            out=folder / "small",
            before=memory,
        )
        shutil.copytree(ROOT / "meshes" / "sphere", folder / "sphere")
        fine = folder / "sphere" / "robot.toml"
        lines = [line for line in fine.read_text(encoding="utf-8").splitlines() if not line.startswith("max_edge")]
        at = next(i for i, line in enumerate(lines) if line.startswith("[body"))
        fine.write_text("\n".join([*lines[: at + 1], "max_edge = 0.9", *lines[at + 1 :]]))
        told(
            "2 GB of memory, a robot that needs more",
            ["solve", str(fine), "--volume-ratio", "1.1", "--out", str(folder / "large")],
            before=memory,
        )

        latin = robot(folder, "r\xf6bot.toml")
        told("LC_ALL=C", ["info", str(latin)], env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
        gone = folder / "gone"
        gone.mkdir()
        told("working folder deleted", [*solve, "--out", "here"], before=lambda: (os.chdir(gone), gone.rmdir()))
        told("working folder deleted, paths given", ["info", str(path)], before=lambda: (os.chdir(folder), None))
        if asked(ALONE):
            _alone(folder, path)
        if asked(TWO):
            _two(folder, path)


def _alone(folder: Path, path: Path) -> None:
    """Run as another user, who has no home and cannot write the package."""
    caches = {"GEOSIM_CACHE_DIR": None, "NUMBA_CACHE_DIR": None, "XDG_CACHE_HOME": None}
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(0o644)
    mine = Path(sys.executable).resolve()
    if os.getuid() == 0 and all(p.stat().st_mode & 0o001 for p in (mine, *mine.parents)):
        shared = Path(tempfile.gettempdir()) / f"geosim-cache-{NOBODY}"
        shutil.rmtree(shared, ignore_errors=True)
        alone = lambda: (os.setgid(NOBODY), os.setuid(NOBODY))  # noqa: E731
        nowhere = {**caches, "HOME": "/nonexistent"}
        run(ALONE, ["info", str(path)], env=nowhere, before=alone, cwd="/tmp")
        kept = sum(1 for _ in shared.rglob("*.nbc")) if shared.exists() else 0
        mode = oct(shared.stat().st_mode & 0o777) if shared.exists() else "none"
        sys.stdout.write(f"    its cache: {shared}, mode {mode}, {kept} kernels\n")
        shared.chmod(0o777)
        run("the same, its cache writable by all", ["info", "--system"], env=nowhere, before=alone, cwd="/tmp")
        shutil.rmtree(shared, ignore_errors=True)
    else:
        sys.stdout.write(f"{ALONE}: left out, it takes the right to be another user, who can run {mine}\n")


def _two(folder: Path, path: Path) -> None:
    """Run twice at once, with an empty folder of kernels."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GEOSIM_CACHE_DIR": str(folder / "cache")}
    program = [sys.executable, "-m", "geosim.cli", "info", str(path)]
    both = [
        subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    texts = [child.communicate(timeout=500)[0] for child in both]
    same = texts[0].replace("compiling kernels (once)\n", "") == texts[1].replace("compiling kernels (once)\n", "")
    sys.stdout.write(f"{TWO}: exit {[c.returncode for c in both]}, they say {'the same' if same else texts}\n")


def main() -> int:
    """Run what is asked for."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell may begin without it
    parser = argparse.ArgumentParser(description="What geosim says and leaves where the system is hard on it.")
    parser.add_argument("which", nargs="*", help="kill, kill-sweep, or words of titles of conditions; default all")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    both = {"kill": kills, "kill-sweep": sweep_kills}
    broken = sum(of(given.kills, given.seed) for name, of in both.items() if not given.which or name in given.which)
    words = [word for word in given.which if word not in both]
    if words or not given.which:
        conditions(words)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
