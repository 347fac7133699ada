"""Command lines, and inputs that are made to hang, to fill the memory or to end the process."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from hypothesis import strategies as st

import geosim
from geosim import calibrate, compare
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.geometry.surface import check_surface, read_surface

from .judging import Input, scratch
from .readers import CORNERS, TETS, bent, mesh_bytes, read_tets

Read = Callable[[Path], object]

ROBOT = """kind = "volumetric"
units = "mm"
[body]
mesh = "bar.vtu"
material = "ecoflex-00-30-fang2022"
[fixed]
plane = "x"
below = 0.1
[tip]
box = [[19, -1, -1], [21, 11, 11]]
[environment]
gravity = [0, 0, -9.81]
[[environment.loads]]
kind = "force"
total_force = [0, 0, -0.1]
vertices = { ids = [7] }
[solver]
element = "p1"
"""
RODS = """kind = "rod-shell"
units = "mm"
[[limbs]]
start = [0, 0, 0]
end = [100, 0, 0]
nodes = 8
radius = 2.0
material = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5 }
[fixed]
ids = [0, 1]
"""
SNAKE = 'kind = "snake"\nunits = "mm"\n[snake]\nlinks = 2\ncount = 1\nfriction = 0.5\n'
PULL = "stretch,stress [kPa]\n" + "".join(f"{1 + 0.1 * i},{20 * i + 0.3 * i * i}\n" for i in range(1, 12))

WORDS = (
    "",
    "x",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "9" * 400,
    "\ud7ff",
    "é",
    "a" * 5000,
    "1,,2",
    "1:2,3",
    ",",
    ":",
    "--",
    "-h=3",
)
WORDS += (
    "/dev/zero",
    "/dev/full",
    "/dev/null",
    "..",
    "/",
    "no/such/file.toml",
    "NUL\t",
    "%s%n",
    "$(id)",
    "*",
    "0x10",
    "1_0",
    "=",
)


@cache
def folder() -> Path:
    """Return a folder with the files that commands name."""
    place = scratch() / "commands"
    place.mkdir(exist_ok=True)
    (place / "bar.vtu").write_bytes(mesh_bytes("vtu", 1.0))
    (place / "robot.toml").write_text(ROBOT)
    (place / "test.csv").write_text(PULL)
    bent().save(place / "result.npz")
    return place


def _lines(folder: Path, rng: random.Random) -> list[list[str]]:
    robot, result, pull = (str(folder / n) for n in ("robot.toml", "result.npz", "test.csv"))
    out = str(folder / f"out{rng.randrange(10**9)}")
    return [
        ["info", robot],
        ["info", "--system"],
        ["materials"],
        ["materials", rng.choice(geosim.materials.names())],
        ["explain", rng.choice(list(geosim.Status.__members__))],
        ["generate"],
        ["generate", "pneunet", "--chambers", "1", "--wall-mm", f"{rng.uniform(1, 3):.3f}", "--out", out],
        ["new", out],
        ["calibrate", pull, "--model", rng.choice(["neo-hookean", "yeoh"])],
        ["compare", result, result, "--out", out],
        ["solve", robot, "--gravity", f"0,0,{-rng.uniform(1, 9):.3f}", "--element", "p1", "--out", out, "--force"],
        ["solve", "--help"],
        ["--version"],
    ]


SOLVING = 10  # place of the command that solves


@st.composite
def commands(draw: Any) -> Input:
    """Draw a command line, with words replaced, left out, doubled or put in."""
    rng = random.Random(draw(st.integers(0, 2**31)))
    known = _lines(folder(), rng)
    line = rng.choice(known if rng.random() < 0.3 else [w for i, w in enumerate(known) if i != SOLVING])
    changes = 0 if not draw(st.integers(0, 5)) else draw(st.integers(1, 3))
    flags = (
        "--volume-ratio",
        "--pressure-kpa",
        "--gravity",
        "--solver",
        "--max-seconds",
        "--units",
        "--frame",
        "--actuation",
    )
    for _ in range(changes):
        i, kind = draw(st.integers(0, len(line) - 1)), draw(st.integers(0, 4))
        word = draw(st.sampled_from(WORDS) | st.text(max_size=6) | st.floats().map(str))
        if kind == 1 and len(line) > 1:
            del line[i]
        elif kind == 3:
            line += [draw(st.sampled_from(flags)), word]
        else:
            line[i : i + (kind == 0 or kind == 4)] = [line[i] + word if kind == 4 else word]
    return Input(" ".join(word[:40] for word in line), not changes, lambda: obeyed(line))


def obeyed(line: list[str]) -> None:
    """Obey a command line; a refusal is raised as one, and a fault as a fault."""
    from geosim.cli import main

    said, status = io.StringIO(), 0
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            main.main(args=line, prog_name="geosim")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    lines = said.getvalue().splitlines()
    if "this is a fault of geosim" in said.getvalue():
        raise AssertionError(lines[-1])
    strange = [one for one in lines if not one.startswith(("geosim: ", "note: ", "compiling kernels"))]
    if strange:
        raise AssertionError(f"strange line: {strange[0]}")
    if status:
        raise geosim.InputError(lines[-1] if lines else f"status {status}")


# --- specials ------------------------------------------------------------------------------------------------------


@cache
def specials() -> dict[str, Callable[[], object]]:
    """Name -> a call that is to be refused (or done) at once."""
    home = scratch() / "special"
    home.mkdir(exist_ok=True)
    (home / "bar.vtu").write_bytes(mesh_bytes("vtu", 1.0))
    found: dict[str, Callable[[], object]] = {}

    def file(name: str, content: bytes | str, read: Read, title: str = "") -> None:
        path = home / name
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        found[title or name] = lambda: read(path)

    def surface(path: Path) -> object:
        return check_surface(read_surface(path, units="mm"))

    def pull(path: Path) -> object:
        return calibrate.fit([path], model="neo-hookean")

    def mesh(path: Path) -> object:
        return read_tets(path, None)

    def markers(path: Path) -> object:
        return compare.read_markers(path, units="m")

    readers: dict[str, Read] = dict.fromkeys(("stl", "obj", "ply", "off", "step"), surface)
    readers |= {"toml": load_problem, "npz": geosim.load_result, "csv": pull, "c3d": markers, "trc": markers}
    for suffix, reader in (readers | {"vtu": mesh, "msh": mesh}).items():
        pipe, zero, loop, place = (home / f"{n}.{suffix}" for n in ("pipe", "zero", "loop", "folder"))
        if not pipe.exists():
            os.mkfifo(pipe)
            zero.symlink_to("/dev/zero")
            loop.symlink_to(loop)
            place.mkdir()
        for path in (pipe, zero, loop, place, home / f"missing.{suffix}", home / f"{'long' * 80}.{suffix}"):
            found[f"{path.stem[:8]}.{suffix}"] = lambda p=path, r=reader: r(p)
        found[f"nul.{suffix}"] = lambda r=reader, s=suffix: r(Path(f"a\0b.{s}"))
        found[f"surrogate.{suffix}"] = lambda r=reader, s=suffix: r(home / f"\udcff.{s}")
        file(f"empty.{suffix}", b"", reader)
        file(f"noise.{suffix}", random.Random(suffix).randbytes(3000), reader)
        file(f"nuls.{suffix}", b"\0" * 3000, reader)
    robot = {n: ROBOT.replace(*pair) for n, pair in _ROBOTS.items()}
    for name, text in robot.items():
        file(f"{name}.toml", text, load_problem)
    file("links.toml", SNAKE.replace("links = 2", "links = 100000000"), load_problem)
    file("count.toml", SNAKE.replace("count = 1", "count = 100000000"), load_problem)
    file("nodes.toml", RODS.replace("nodes = 8", "nodes = 1000000000"), load_problem)
    file("deep_act.toml", "[inflation]\nvolume_ratio = " + "[" * 5000 + "1" + "]" * 5000, load_actuation)
    file("steps.toml", "[passive]\nduration = 1.0\nsteps = 1000000000000", load_actuation)
    file(
        "million.csv", "stretch,stress [kPa]\n" + "".join(f"{1 + 1e-6 * i},{0.1 * i}\n" for i in range(1_000_000)), pull
    )
    file("latin.obj", b"# caf\xe9\n" + trimesh.creation.box((20, 10, 10)).export(file_type="obj").encode(), surface)
    ply = trimesh.creation.box((20, 10, 10)).export(file_type="ply", encoding="ascii")
    file(
        "texture.ply", ply.replace(b"format ascii 1.0\n", b"format ascii 1.0\ncomment TextureFile none.png\n"), surface
    )
    wanted = b"ply\nformat ascii 1.0\nelement vertex 99999999999\nproperty float x\nelement face 1\nend_header\n"
    file("huge.ply", wanted, surface)
    file("huge.stl", b"\0" * 80 + (2**32 - 1).to_bytes(4, "little"), surface)
    file("huge.off", "OFF\n99999999999 99999999999 0\n", surface)
    for name, values in {"none": None, "ragged": [[1, 2], [3]], "empty": [], "big": [[2**63]]}.items():
        tets = dict(vertices=1e-3 * CORNERS, tets=TETS, material="rtv615", fixed=[0])
        for key in ("vertices", "tets", "fixed", "regions"):
            found[f"from_tets {key} {name}"] = lambda k=key, v=values, t=tets: geosim.VolumetricRobot.from_tets(
                **{**t, k: v}
            )
    found["links = 1e8"] = lambda: geosim.make_snake(links=10**8)
    found["Inflation of 1e8"] = lambda: geosim.Inflation(volume_ratio=np.broadcast_to(1.1, (10**8, 1))).targets(0, 1)
    return found


_ROBOTS = {
    "deep": ("gravity = [0, 0, -9.81]", "gravity = " + "[" * 20000),
    "deep_table": ("[solver]", "[" + "a." * 20000 + "b]"),
    "digits": ("below = 0.1", "below = " + "9" * 400),
    "digits_of_id": ("ids = [7]", "ids = [" + "9" * 400 + "]"),
    "big_id": ("ids = [7]", "ids = [9223372036854775808]"),
    "negative_id": ("ids = [7]", "ids = [-9223372036854775809]"),
    "nul": ("bar.vtu", "bar\\u0000.vtu"),
    "outside": ("bar.vtu", "../../../../../../etc/passwd"),
    "device": ("bar.vtu", "/dev/zero"),
    "many_chambers": ("[fixed]", "[[chambers]]\nsurface = 'bar.vtu'\n" * 20000 + "[fixed]"),
    "many_obstacles": ("[solver]", "[[environment.obstacles]]\nshape = 'plane'\n" * 20000 + "[solver]"),
    "many_surfaces": ('[body]\nmesh = "bar.vtu"', '[body]\nsurface = "zero.stl"'),
    "pipe_of_a_robot": ('[body]\nmesh = "bar.vtu"', '[body]\nsurface = "pipe.stl"'),
    "ragged": ("box = [[19, -1, -1], [21, 11, 11]]", "box = [[19, -1], [21, 11, 11]]"),
    "empty_box": ("box = [[19, -1, -1], [21, 11, 11]]", "box = []"),
    "none_box": ("box = [[19, -1, -1], [21, 11, 11]]", "box = [[[]]]"),
}
