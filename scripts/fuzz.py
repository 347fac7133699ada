"""Throw seeded nonsense at everything that geosim reads, and count what comes of it.

    python scripts/fuzz.py --count 500 --seed 0          # robot files, actuations, surfaces, archives, tests of materials

Each input is a valid one with a few changes: bytes, lines, numbers, keys. It is `accepted`, `refused` (an `InputError` of one
line), or else it is counted and shown: a `fault` (another exception), a `long` message (more than one line), a `hang` (beyond
`LIMIT` seconds, where the system can interrupt). Exit status 1 if there is any of those three.
"""

from __future__ import annotations

import argparse
import collections
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import meshio
import numpy as np
import trimesh

import geosim
from geosim import calibrate
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.geometry.surface import check_surface, read_surface

LIMIT = 20  # seconds: reading takes a fraction of one
NUMBERS = [
    "-1",
    "0",
    "1e308",
    "nan",
    "inf",
    "-inf",
    '"x"',
    "true",
    "[]",
    "[[]]",
    "{}",
    "9" * 400,
    "1e-300",
    "[1, [2]]",
    "1",
    "9223372036854775808",
]
TEXTS = ["", '""', "\x00", "\ud7ff", "..", "/dev/zero", "a" * 5000, "[" * 500, "é", "\t", "'", "=", "#"]
ROBOT = """kind = "volumetric"
units = "mm"
[body]
mesh = "bar.vtu"
material = "ecoflex-00-30"
[fixed]
plane = "x"
below = 0.1
[tip]
box = [[19, -1, -1], [21, 11, 11]]
[environment]
gravity = [0, 0, -9.81]
self_contact = true
[[environment.obstacles]]
shape = "sphere"
center = [80, 0, -40]
radius = 15.0
[[environment.loads]]
kind = "force"
total_force = [0, 0, -0.1]
vertices = { ids = [7] }
[solver]
element = "p1"
tolerance = 1e-6
"""
ACTUATION = "[inflation]\nvolume_ratio = [[1.1], [1.2]]\n"
TEST = "stretch,stress [kPa]\n" + "".join(f"{1 + 0.1 * i},{20 * i + 0.3 * i * i}\n" for i in range(12))


class HangError(Exception):
    """An input took too long."""


def stop(*_: object) -> None:
    """Called by the system's alarm."""
    raise HangError


def changed_text(text: str, rng: random.Random) -> bytes:
    """Return a text with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        i = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0 and "=" in lines[i]:
            lines[i] = lines[i].split("=")[0] + "= " + rng.choice(NUMBERS)
        elif kind == 1:
            lines.insert(i, rng.choice(lines))
        elif kind == 2:
            del lines[i]
        elif kind == 3 and lines[i]:
            at = rng.randrange(len(lines[i]))
            lines[i] = lines[i][:at] + rng.choice(TEXTS) + lines[i][at:]
        elif kind == 4 and "=" in lines[i]:
            lines[i] = rng.choice(["x", "units", "fixed", "gravity", "environment"]) + " = " + rng.choice(NUMBERS)
        else:
            words = lines[i].split(",")
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            lines[i] = ",".join(words)
        text = "\n".join(lines) or "\n"
    return text.encode("utf-8", "surrogatepass")


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which some are others, missing or twice there."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(max(len(out), 1))
        kind = rng.randrange(4)
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del out[at : at + rng.randint(1, 50)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randint(1, 50)]
        else:
            out[at : at + 4] = rng.choice([b"nan ", b"\xff\xff\xff\xff", b"\0\0\0\0", b"1e99", b"-1 -"])
    return bytes(out)


def changed(file: str, data: bytes, rng: random.Random) -> bytes:
    """Return what a file of this name holds after a few changes: of its lines, if it has any, or of its bytes."""
    text = file.endswith(("toml", "csv", "obj", "off")) and rng.random() < 0.8
    return changed_text(data.decode(), rng) if text else changed_bytes(data, rng)


def cases(folder: Path) -> dict[str, tuple[bytes, Callable[[Path], object]]]:
    """Write what valid inputs need; return name of a file -> its content and what reads it."""
    vertices = np.array([[x, y, z] for x in (0.0, 20.0) for y in (0.0, 10.0) for z in (0.0, 10.0)])
    tets = np.array([[0, 4, 6, 7], [0, 6, 2, 7], [0, 2, 3, 7], [0, 3, 1, 7], [0, 1, 5, 7], [0, 5, 4, 7]])
    mesh = meshio.Mesh(vertices, [("tetra", tets)], cell_data={"region": [np.zeros(6, dtype=int)]})
    meshio.vtu.write(str(folder / "bar.vtu"), mesh)
    robot = geosim.VolumetricRobot.from_tets(1e-3 * vertices, tets, material="ecoflex-00-30", fixed=[0, 1, 2, 3])
    result = geosim.Result(geosim.Status.CONVERGED, "", True, np.ones(1), robot.vertices[None], robot)
    box = trimesh.creation.box((20, 10, 10))
    surface = lambda path: check_surface(read_surface(path, units="mm", name="body"))  # noqa: E731
    out: dict[str, tuple[bytes, Callable[[Path], object]]] = {
        "robot.toml": (ROBOT.encode(), load_problem),
        "act.toml": (ACTUATION.encode(), load_actuation),
        "test.csv": (TEST.encode(), lambda path: calibrate.fit([path], model="neo-hookean")),
        "result.npz": (result.save(folder / "result.npz").read_bytes(), geosim.load_result),
    }
    for suffix in ("stl", "obj", "ply", "off"):
        data = box.export(file_type=suffix)
        out[f"box.{suffix}"] = (data.encode() if isinstance(data, str) else bytes(data), surface)
    return out


def outcome(read: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """Return what comes of reading a file, and what was said."""
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        read(path)
    except geosim.InputError as error:
        return ("long" if "\n" in str(error) else "refused"), str(error)
    except HangError:
        return "hang", ""
    except Exception as error:  # noqa: BLE001 (whatever else comes out is what is looked for)
        return "fault", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "accepted", ""


def main() -> int:
    """Run the inputs and print the counts."""
    parser = argparse.ArgumentParser(description="Throw seeded nonsense at everything that geosim reads.")
    parser.add_argument("--count", type=int, default=200, help="inputs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", help="names of files, like robot.toml")
    parser.add_argument("--show", action="store_true", help="print what was said of every input")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, (data, read) in cases(folder).items():
            if given.kinds and file not in given.kinds:
                continue
            counts: collections.Counter[str] = collections.Counter()
            told: set[str] = set()
            path = folder / f"changed-{file}"
            path.write_bytes(data)
            assert outcome(read, path)[0] == "accepted", (file, outcome(read, path))
            for i in range(given.count):
                rng = random.Random(f"{given.seed} {file} {i}")
                path.write_bytes(changed(file, data, rng))
                kind, said = outcome(read, path)
                counts[kind] += 1
                told.add(f"  {kind} {i}: {said[:160]}")
                if kind in ("fault", "hang", "long"):
                    bad += 1
                    print(f"  {kind} {file} {i}: {' '.join(said.split())[:200]}")
            if given.show:
                print("\n".join(sorted(told)))
            print(f"{file}: {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
