"""What scripts/fuzz.py throws: files of every kind that is read, calls of the Python API, command lines, and hostile specials.

A file is a sound one (drawn anew from a random generator) to which changes are made; so is a call. A special is made to hang, to
exhaust the memory or to end the process: it has to be refused at once.
"""

from __future__ import annotations

import datetime
import io
import os
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import trimesh
from geosim.materials import load_material

import geosim
from geosim import calibrate, compare, generate
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.geometry.surface import check_surface, read_surface

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from bending import BAR_FILE
from fuzz_calls import public_calls

__all__ = ["arguments", "calls", "commands", "files", "readers", "specials"]

Read = Callable[[Path], object]

ROBOT = f"""{BAR_FILE}[tip]
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
vertices = {{ ids = [7] }}
[solver]
element = "p1"
tolerance = 1e-6
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
ACTUATION = "[inflation]\nvolume_ratio = [[1.1], [1.2]]\n"
MATERIAL = 'model = "yeoh"\nc1 = 20e3\nc2 = 1e3\ndensity = 1070.0\n'
TEST = "stretch,stress [kPa]\n" + "".join(f"{1 + 0.1 * i},{20 * i + 0.3 * i * i}\n" for i in range(12))
CORNERS = np.array([[x, y, z] for x in (0.0, 20.0) for y in (0.0, 10.0) for z in (0.0, 10.0)])
TETS = np.array([[0, 4, 6, 7], [0, 6, 2, 7], [0, 2, 3, 7], [0, 3, 1, 7], [0, 1, 5, 7], [0, 5, 4, 7]])
MESHES = {
    "vtu": lambda path, mesh: meshio.vtu.write(path, mesh),
    "vtk": lambda path, mesh: meshio.vtk.write(path, mesh),
    "msh": lambda path, mesh: meshio.gmsh.write(path, mesh, fmt_version="2.2", binary=False),
    "inp": lambda path, mesh: meshio.abaqus.write(path, mesh),
}


def bar(scale: float = 1.0) -> geosim.VolumetricRobot:
    """A bar of six tets, 20 x 10 x 10 mm."""
    vertices = 1e-3 * scale * CORNERS
    return geosim.VolumetricRobot.from_tets(
        vertices, TETS, material="ecoflex-00-30-fang2022", fixed=[0, 1, 2, 3], tip=[4, 5]
    )


def _result(rng: random.Random) -> geosim.Result:
    robot = bar()
    moved = robot.vertices + rng.uniform(0, 1e-3) * (robot.vertices[:, :1] / 0.02) ** 2 * np.array([0, 0, -1.0])
    return geosim.Result(geosim.Status.CONVERGED, "", True, np.ones(1), moved[None], robot)


def _mesh(suffix: str, scale: float, folder: Path) -> bytes:
    tags = {"region": [np.zeros(len(TETS), dtype=int)]}
    if suffix == "msh":
        tags = {key: [np.ones(len(TETS), dtype=int)] for key in ("gmsh:physical", "gmsh:geometrical")}
    mesh = meshio.Mesh(scale * CORNERS, [("tetra", TETS)], cell_data={} if suffix == "inp" else tags)
    MESHES[suffix](str(folder / f"made.{suffix}"), mesh)
    return (folder / f"made.{suffix}").read_bytes()


def _surface(suffix: str, rng: random.Random) -> bytes:
    box = trimesh.creation.box([rng.uniform(5, 50) for _ in range(3)])
    data = box.export(file_type=rng.choice(["stl", "stl_ascii"]) if suffix == "stl" else suffix)
    return data.encode() if isinstance(data, str) else bytes(data)


def _numbers(text: str, rng: random.Random, values: dict[str, tuple[float, float]]) -> bytes:
    """A TOML text with some of its numbers drawn, `key = (from, to)`, blank lines and comments."""
    lines = []
    for line in text.splitlines():
        key = line.split(" = ")[0]
        drawn = values.get(key)
        lines.append(f"{key} = {rng.uniform(*drawn):.6g}" if drawn and rng.random() < 0.7 else line)
        lines += rng.choice([[], [], [""], ["# é, a comment"]])
    return "\n".join(lines).encode()


def _pull(rng: random.Random) -> bytes:
    mu, end, n = rng.uniform(10, 300), rng.uniform(1.5, 4.0), rng.randint(12, 60)
    stretch = [1 + (end - 1) * (i + 1) / n for i in range(n)]
    return ("stretch,stress [kPa]\n" + "".join(f"{s:.6g},{mu * (s - s**-2):.6g}\n" for s in stretch)).encode()


def _marker_rows(rng: random.Random) -> list[list[float]]:
    points = 1e-3 * CORNERS[[0, 1, 2, 4, 7]]
    return [(points + rng.uniform(0, 1e-3)).ravel().tolist() for _ in range(5)]


def _trc(rng: random.Random) -> bytes:
    names = list("abcde")
    lines = [
        "PathFileType\t4\t(X/Y/Z)\ta.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits",
        "100\t100\t5\t5\tm",
    ]
    lines += [
        "Frame#\tTime\t" + "\t\t\t".join(names),
        "\t\t" + "\t".join(f"{c}{i + 1}" for i in range(5) for c in "XYZ"),
    ]
    lines += ["\t".join(map(str, [i + 1, 0.01 * i, *row])) for i, row in enumerate(_marker_rows(rng))]
    return "\n".join(lines).encode()


def _marker_table(rng: random.Random) -> bytes:
    head = ",".join(["time", *(f"{m}_{c}" for m in "abcde" for c in "xyz")])
    rows = [",".join(f"{v:.6g}" for v in (0.01 * i, *row)) for i, row in enumerate(_marker_rows(rng))]
    return "\n".join([head, *rows]).encode()


def _c3d(rng: random.Random, folder: Path) -> bytes:
    import ezc3d

    made = ezc3d.c3d()
    made["parameters"]["POINT"]["RATE"]["value"] = [100]
    made["parameters"]["POINT"]["UNITS"]["value"] = ["m"]
    made["parameters"]["POINT"]["LABELS"]["value"] = list("abcde")
    rows = np.array(_marker_rows(rng)).reshape(5, 5, 3).transpose(2, 1, 0)
    made["data"]["points"] = np.concatenate([rows, np.ones((1, 5, 5))])
    made.write(str(folder / "made.c3d"))
    return (folder / "made.c3d").read_bytes()


@cache
def files(folder: Path) -> dict[str, Callable[[random.Random], bytes]]:
    """Name of a file -> what a sound one holds, drawn from a generator. Writes into the folder what the files need."""
    (folder / "bar.vtu").write_bytes(_mesh("vtu", 1.0, folder))

    def saved(rng: random.Random) -> bytes:
        stream = io.BytesIO()
        from geosim.files.archive import write_archive

        write_archive(_result(rng), stream)
        return stream.getvalue()

    return {
        "robot.toml": lambda rng: _numbers(
            ROBOT, rng, {"below": (0.1, 5), "radius": (1, 30), "tolerance": (1e-8, 1e-4)}
        ),
        "rods.toml": lambda rng: _numbers(RODS, rng, {"radius": (0.5, 5)}),
        "snake.toml": lambda rng: _numbers(SNAKE, rng, {"friction": (0, 1)}),
        "act.toml": lambda rng: _numbers(ACTUATION, rng, {"volume_ratio": (0.5, 3)}),
        "material.toml": lambda rng: _numbers(
            MATERIAL, rng, {"c1": (1e3, 1e5), "c2": (0, 1e4), "density": (900, 1300)}
        ),
        "test.csv": _pull,
        "markers.trc": _trc,
        "markers.csv": _marker_table,
        "markers.c3d": lambda rng: _c3d(rng, folder),
        "result.npz": saved,
        **{f"box.{suffix}": lambda rng, s=suffix: _surface(s, rng) for suffix in ("stl", "obj", "ply", "off")},
        **{f"tets.{suffix}": lambda rng, s=suffix: _mesh(s, rng.uniform(0.5, 2.0), folder) for suffix in MESHES},
    }


def readers() -> dict[str, Read]:
    """Name of a file -> what reads it."""

    def mesh(path: Path) -> object:
        text = ROBOT.replace("bar.vtu", path.name).replace("below = 0.1", "below = 1e3").split("[tip]")[0]
        robot = path.with_name("of_mesh.toml")
        robot.write_bytes(text.encode("utf-8", "surrogatepass"))
        return load_problem(robot)

    def pull(path: Path) -> object:
        return calibrate.fit([path], model="neo-hookean")

    def surface(path: Path) -> object:
        return check_surface(read_surface(path, units="mm", name="body"))

    def markers(path: Path) -> object:
        return compare.to_markers(_result(random.Random(0)), path, units="m", base=[0, 1, 2], vertices=[0, 1, 2, 4, 7])

    return {
        "robot.toml": load_problem,
        "rods.toml": load_problem,
        "snake.toml": load_problem,
        "act.toml": load_actuation,
        "material.toml": load_material,
        "test.csv": pull,
        **dict.fromkeys(("markers.trc", "markers.csv", "markers.c3d"), markers),
        "result.npz": geosim.load_result,
        **dict.fromkeys(("box.stl", "box.obj", "box.ply", "box.off"), surface),
        **{f"tets.{suffix}": mesh for suffix in MESHES},
    }


# --- calls ---------------------------------------------------------------------------------------------------------

BAD: tuple[Any, ...] = (
    *(None, "", "x", "\0", "é" * 1000, b"x", 1j, True, {}, object(), int, "/dev/zero", "/dev/null", ".."),
    *(float("nan"), float("inf"), -float("inf"), -1, 0, 1e308, 5e-324, 10**400, 2**63, -(2**63) - 1, 10**8),
    *(
        [],
        [[]],
        [1, [2]],
        [None],
        ["a"],
        [[1, 2], [3]],
        [float("nan")] * 3,
        [10**400],
        [2**63],
        [[[]]],
        [2**63 - 1, -1],
    ),
    *(np.array([]), np.zeros((0, 3)), np.zeros((2, 2)), np.zeros((3, 3, 3)), np.array(["2020-01-01"], dtype="M8[D]")),
    *(np.array([1j]), np.array(None), np.array([object()]), np.full(3, 2**63, dtype=np.uint64), np.arange(8.0)),
)
# Objects of geosim and of Python where something else is wanted.
KINDS: tuple[Any, ...] = (
    *(
        b"\xff",
        bytearray(b"x"),
        range(3),
        (1, 2),
        {1, 2},
        {"a": 1},
        [{}],
        [[object()]],
        slice(None),
        Path("/"),
        Path("x.npz"),
    ),
    *(len, lambda: None, ValueError("x"), ..., Fraction(1, 3), Decimal("1"), datetime.date(2020, 1, 1)),
    *(np.float32(1.0), np.str_("x"), np.datetime64("2020-01-01"), np.ma.masked, np.array("x"), np.zeros((1, 1, 1, 3))),
    *(
        geosim.Passive(),
        geosim.Environment(),
        geosim.NeoHookean(2e4),
        geosim.EnergyShapeSolver(),
        geosim.EnergyShapeSolver,
    ),
    *(
        geosim.Status.CONVERGED,
        trimesh.Trimesh(),
        iter([1.0]),
        float("1e-320"),
        -0.0,
        1e-300,
        [1e308] * 3,
        [-1e308, 1e308, 1e308],
    ),
)


def _sensible(rng: random.Random) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """Name -> function and arguments that it accepts."""
    u, vector = rng.uniform, lambda: [rng.uniform(-1, 1) for _ in range(3)]
    line = [[0.01 * i, 0.0, 0.0] for i in range(6)]
    rubber = geosim.LinearElastic(youngs_modulus=1e6, poisson_ratio=0.4)
    there = _result(rng)
    tests = [calibrate.MaterialTest("uniaxial", [1.1, 1.3, 1.6, 2.0], [2e4, 5e4, 9e4, 1.3e5])]
    return {
        "Inflation": (geosim.Inflation, {"volume_ratio": [u(0.5, 3), u(0.5, 3)]}),
        "Inflation of pressures": (geosim.Inflation, {"pressure": [[u(-5e4, 5e4)]]}),
        "Passive": (geosim.Passive, {"duration": u(0, 1), "steps": rng.randint(1, 9)}),
        "CableLengths": (geosim.CableLengths, {"length": [u(0.01, 1)]}),
        "CableTensions": (geosim.CableTensions, {"tension": [u(0, 9)]}),
        "NaturalShape": (geosim.NaturalShape, {"times": [0.0, 1.0], "curvature": [0.0, u(0, 9)]}),
        "UndulatoryGait": (
            geosim.UndulatoryGait,
            {"amplitude": u(0, 5e4), "frequency": u(0.1, 3), "phase_lag": u(0, 3)},
        ),
        "Environment": (geosim.Environment, {"gravity": vector(), "self_friction": u(0, 1), "exclude_pairs": [(0, 1)]}),
        "Obstacle.sphere": (geosim.Obstacle.sphere, {"center": vector(), "radius": u(0.01, 1), "friction": u(0, 1)}),
        "Obstacle.box": (geosim.Obstacle.box, {"lower": [0, 0, 0], "upper": [1, u(1, 2), 1], "motion": [vector()]}),
        "Obstacle.plane": (geosim.Obstacle.plane, {"point": vector(), "normal": [0, u(0.1, 1), 1]}),
        "Obstacle.cylinder": (geosim.Obstacle.cylinder, {"start": [0, 0, 0], "end": [0, 0, u(0.1, 1)], "radius": 0.1}),
        "Load.force": (geosim.Load.force, {"vertices": [0, 1], "total_force": vector()}),
        "Load.traction": (geosim.Load.traction, {"faces": [[0, 1, 2]], "t": vector()}),
        "Prescribed": (geosim.Prescribed, {"vertices": [3], "displacement": vector()}),
        "Fluid": (geosim.Fluid, {"density": u(0, 1000), "viscosity": u(0, 1)}),
        "Cable": (geosim.Cable, {"points": [vector(), vector()], "name": "c"}),
        "MooneyRivlin": (geosim.MooneyRivlin, {"c1": u(1e3, 1e5), "c2": u(0, 1e4), "density": u(900, 1200)}),
        "Ogden": (geosim.Ogden, {"mu": (u(1e3, 1e5),), "alpha": (u(2, 4),)}),
        "Gent": (geosim.Gent, {"mu": u(1e3, 1e5), "jm": u(5, 99)}),
        "LinearElastic": (geosim.LinearElastic, {"youngs_modulus": u(1e3, 1e6), "poisson_ratio": u(0, 0.5)}),
        "Select.plane": (lambda **k: geosim.Select.plane(**k)(CORNERS), {"axis": "x", "below": u(0, 9)}),
        "Select.box": (lambda **k: geosim.Select.box(**k)(CORNERS), {"lower": [0, 0, 0], "upper": [1, 1, u(1, 9)]}),
        "Select.nearest": (lambda **k: geosim.Select.nearest(**k)(CORNERS), {"point": vector(), "count": 2}),
        "EnergyShapeSolver": (geosim.EnergyShapeSolver, {"tolerance": u(1e-8, 1e-4), "max_seconds": u(1, 9)}),
        "ProjectiveShapeSolver": (
            geosim.ProjectiveShapeSolver,
            {"window": rng.randint(1, 20), "max_growth": u(0.1, 2)},
        ),
        "RodShellStepper": (geosim.RodShellStepper, {"dt": u(1e-3, 1e-1), "damping": u(0, 1), "integrator": "verlet"}),
        "MultibodyStepper": (geosim.MultibodyStepper, {"dt": u(1e-3, 1e-1), "substeps": 2, "route": "dual"}),
        "from_tets": (
            geosim.VolumetricRobot.from_tets,
            {"vertices": u(1, 5) * 1e-3 * CORNERS, "tets": TETS, "regions": np.zeros(6, int), "material": "rtv615"}
            | {"fixed": [0, 1, 2], "tip": [4]},
        ),
        "RodShellRobot": (
            geosim.RodShellRobot,
            {"vertices": line, "edges": [[i, i + 1] for i in range(5)], "radius": u(1e-3, 5e-3), "rod_material": rubber}
            | {"fixed_vertices": [0], "planar": False},
        ),
        "Limb": (
            geosim.Limb,
            {"start": [0, 0, 0], "end": [u(0.1, 1), 0, 0], "nodes": 5, "radius": 1e-3, "material": rubber},
        ),
        "make_snake": (geosim.make_snake, {"links": rng.randint(1, 2), "friction": u(0, 1), "spacing": u(0.3, 0.5)}),
        "MaterialTest": (
            calibrate.MaterialTest,
            {"mode": "uniaxial", "stretch": [1.1, u(1.2, 2), 2.5], "nominal_stress": [1e3, 2e3, 3e3]},
        ),
        "fit": (calibrate.fit, {"tests": tests, "model": "neo-hookean", "max_stretch": u(1.8, 3)}),
        "to_markers": (
            compare.to_markers,
            {"result": there, "markers": there.frames[-1][[0, 1, 4, 7]], "vertices": [0, 1, 4, 7], "frame": -1},
        ),
        "to_scan": (
            compare.to_scan,
            {"result": there, "points": there.surface(-1, subdivide=4).vertices, "register": "none", "frame": 0},
        ),
        "pneunet": (generate.pneunet, {"chambers": 1, "wall": u(1e-3, 3e-3), "width": u(15e-3, 30e-3)}),
        "tendon_finger": (generate.tendon_finger, {"joints": rng.randint(1, 3), "length": u(0.1, 0.2)}),
        "solve": (
            lambda **k: geosim.solve(throw=False, **k),
            {
                "robot": there.robot,
                "actuation": geosim.Passive(),
                "environment": geosim.Environment(gravity=(0, 0, -u(1, 9))),
            }
            | {"solver": geosim.EnergyShapeSolver(element="p1")},
        ),
        "load_robot": (geosim.load_robot, {"path": Path(geosim.__file__).parent.parent / "meshes/nothing.toml"}),
    }


REFUSED = ("load_robot",)  # of the sensible calls: there is no such file


def calls(rng: random.Random, changes: int) -> tuple[str, Callable[[], object]]:
    """Return the name and one call of the Python API, with so many of its arguments replaced by nonsense."""
    known = _sensible(rng)
    name = rng.choice([n for n in known if changes or n not in REFUSED])
    function, given = known[name]
    told = name
    for _ in range(changes):
        key = rng.choice(list(given))
        i = rng.randrange(len(BAD))
        given[key] = BAD[i]
        told += f" {key}={repr(BAD[i])[:40]}"
    return told, lambda: function(**given)


def arguments(rng: random.Random, changes: int) -> tuple[str, Callable[[], object]]:
    """Return the name and one call of any public function or method, with so many of its arguments replaced by nonsense."""
    known = public_calls()
    name = rng.choice(list(known))
    function, given = known[name]
    given, told, values = dict(given), name, (*BAD, *KINDS)
    for _ in range(changes):
        key = rng.choice(list(given))
        i = rng.randrange(len(values))
        given[key] = values[i]
        told += f" {key}={repr(values[i])[:40]}"
    return told, lambda: function(**given)


# --- command lines -------------------------------------------------------------------------------------------------

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


def commands(folder: Path, rng: random.Random, changes: int) -> list[str]:
    """Return the words of one command line, with so many of them replaced, left out, doubled or put in."""
    known = _lines(folder, rng)
    line = rng.choice(known if rng.random() < 0.3 else [w for i, w in enumerate(known) if i != SOLVING])
    for _ in range(changes):
        i, kind = rng.randrange(len(line)), rng.randrange(5)
        if kind == 0:
            line[i] = rng.choice(WORDS)
        elif kind == 1 and len(line) > 1:
            del line[i]
        elif kind == 2:
            line.insert(i + 1, rng.choice(WORDS))
        elif kind == 3:
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
            line += [rng.choice(flags), rng.choice(WORDS)]
        else:
            line[i] = line[i] + rng.choice(WORDS)
    return line


# --- specials ------------------------------------------------------------------------------------------------------


@cache
def specials(folder: Path) -> dict[str, Callable[[], object]]:
    """Name -> a call that is to be refused (or done) at once."""
    home = folder / "special"
    home.mkdir(exist_ok=True)
    (home / "bar.vtu").write_bytes((folder / "bar.vtu").read_bytes())
    found: dict[str, Callable[[], object]] = {}

    def file(name: str, content: bytes | str, read: Read, title: str = "") -> None:
        path = home / name
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        found[title or name] = lambda: read(path)

    surface = lambda path: check_surface(read_surface(path, units="mm"))  # noqa: E731
    read = readers()
    for suffix, reader in {
        "stl": surface,
        "obj": surface,
        "ply": surface,
        "off": surface,
        "step": surface,
        "toml": load_problem,
        "npz": geosim.load_result,
        "csv": read["test.csv"],
        "c3d": read["markers.c3d"],
        "trc": read["markers.trc"],
        "vtu": read["tets.vtu"],
        "msh": read["tets.msh"],
    }.items():
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
        "million.csv",
        "stretch,stress [kPa]\n" + "".join(f"{1 + 1e-6 * i},{0.1 * i}\n" for i in range(1_000_000)),
        read["test.csv"],
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
