"""Every reader of geosim with files as they are written: register one here, and it is fuzzed."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import exporters
import meshio
import numpy as np
import trimesh
from archives import small_posterior, small_reduced_model, small_surrogate
from geosim.materials import load_material
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import geosim
from geosim import calibrate, compare
from geosim.apps.calibrate.tables import STRESS_UNITS
from geosim.apps.condition.rows import read_rows
from geosim.apps.moulds.making import write_3mf
from geosim.apps.studio.messages import read_message
from geosim.apps.study.goals import read_draws
from geosim.apps.study.schema import StudyFile
from geosim.apps.study.study import read_study
from geosim.arrays import METRES_PER_UNIT
from geosim.files.actuation import load_actuation
from geosim.files.archive import write_archive
from geosim.files.messages import Place
from geosim.files.robot import load_problem
from geosim.files.schema import RodShellFile, SnakeFile, VolumetricFile
from geosim.geometry.imprint import as_manifold
from geosim.geometry.step import write_step
from geosim.geometry.surface import check_surface, read_surface
from geosim.material.laws import MODELS
from geosim.rods.files import read_geometry, read_natural_shape, read_tags

from .judging import Input, scratch
from .strategy import (
    Damage,
    any_damage,
    archive_damage,
    bytes_damage,
    dumped,
    recoded,
    table_damage,
    text_damage,
    unpacked,
    zipped_damage,
)

CORNERS = np.array([[x, y, z] for x in (0.0, 20.0) for y in (0.0, 10.0) for z in (0.0, 10.0)])
TETS = np.array([[0, 4, 6, 7], [0, 6, 2, 7], [0, 2, 3, 7], [0, 3, 1, 7], [0, 1, 5, 7], [0, 5, 4, 7]])


@dataclass(frozen=True)
class Sound:
    """A file as it is written: its bytes, what it holds, and what its reader is told beside it."""

    data: bytes
    holds: Any = None
    told: Mapping[str, Any] | None = None
    name: str = ""


@dataclass(frozen=True)
class Reader:
    """A reader.

    Parameters
    ----------
    file
        Name of its files; a `Sound` may have another.
    sound
        Files as they are written.
    read
        (path, sound) -> what it reads.
    wrong
        (what was read, sound, the bytes in the file) -> what of it is not in the file, or nothing.
    damage
        Changes of the bytes.
    """

    file: str
    sound: SearchStrategy[Sound]
    read: Callable[[Path, Sound], Any]
    wrong: Callable[[Any, Sound, bytes], str] = lambda read, sound, data: ""
    damage: SearchStrategy[Damage] = any_damage


READERS: dict[str, Reader] = {}


def register(*readers: Reader) -> None:
    """Let readers be fuzzed."""
    READERS.update({reader.file: reader for reader in readers})


def inputs(reader: Reader) -> SearchStrategy[Input]:
    """Return a strategy of files of a reader, one of six of them sound."""

    @st.composite
    def drawn(draw: Any) -> Input:
        sound, damaged = draw(reader.sound), draw(st.integers(0, 5)) > 0
        data = sound.data
        if damaged:
            damage = draw(reader.damage)
            try:
                data = damage(data)
            except (UnicodeError, KeyError, ValueError):  # this file does not take this damage
                damaged = False
        path = scratch() / (sound.name or reader.file)

        def run() -> Any:
            path.write_bytes(data)
            return reader.read(path, sound)

        return Input(
            f"{path.name} {data[:60]!r}", data == sound.data, run, lambda read: reader.wrong(read, sound, data)
        )

    return drawn()


def differs(what: str, read: Any, wanted: Any, rel: float = 1e-12) -> str:
    """Return what is wrong where numbers are not as they should be."""
    read, wanted = np.asarray(read, dtype=float), np.asarray(wanted, dtype=float)
    if read.shape != wanted.shape:
        return f"{what} has shape {read.shape}, {wanted.shape} was written"
    same = np.isclose(read, wanted, rtol=rel, atol=rel * float(np.nanmax(np.abs(wanted), initial=0.0)), equal_nan=True)
    return "" if same.all() else f"{what} = {read[~same][0]!r}, {wanted[~same][0]!r} was written"


def first_of(found: Sequence[str]) -> str:
    """Return the first problem."""
    return next(filter(None, found), "")


def decoded(data: bytes) -> str:
    """Return the text of a file, in the encodings that are read."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def invented(what: str, read: Any, data: bytes, scales: Sequence[float], rel: float = 1e-9) -> str:
    """Return what is wrong where a number that was read stands nowhere in the text, whatever its unit and decimal sign."""
    text = decoded(data)
    found = re.findall(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", text)
    found += [one.replace(",", ".") for one in re.findall(r"(?:\d+,\d*|,\d+)(?:[eE][-+]?\d+)?", text)]
    values = set(map(float, found))
    known = np.unique(np.abs([value for value in values if np.isfinite(value)] or [np.nan]))
    numbers = np.abs(np.ravel(np.asarray(read, dtype=float)))
    numbers = numbers[np.isfinite(numbers)]
    fits = np.zeros(len(numbers), dtype=bool)
    for scale in scales:
        at = np.minimum(np.searchsorted(known, numbers / scale), len(known) - 1)
        for near in (known[at], known[np.maximum(at - 1, 0)]):
            fits |= np.abs(near * scale - numbers) <= rel * np.maximum(numbers, 1e-300)
    return "" if fits.all() else f"{what} = {numbers[~fits][0]!r} stands nowhere in the file"


# --- robots, actuations, materials and studies: TOML


def bar() -> geosim.VolumetricRobot:
    """A bar of six tets, 20 x 10 x 10 mm."""
    tets = {"material": "ecoflex-00-30-fang2022", "fixed": [0, 1, 2, 3], "tip": [4, 5]}
    return geosim.VolumetricRobot.from_tets(1e-3 * CORNERS, TETS, **tets)


def mesh_bytes(suffix: str, scale: float) -> bytes:
    """Return the bar as a file of tets."""
    tags = {"region": [np.zeros(len(TETS), dtype=int)]}
    if suffix == "msh":
        tags = {key: [np.ones(len(TETS), dtype=int)] for key in ("gmsh:physical", "gmsh:geometrical")}
    mesh = meshio.Mesh(scale * CORNERS, [("tetra", TETS)], cell_data={} if suffix == "inp" else tags)
    path = scratch() / f"made.{suffix}"
    write = {"vtu": meshio.vtu.write, "vtk": meshio.vtk.write, "inp": meshio.abaqus.write}
    write["msh"] = lambda path, mesh: meshio.gmsh.write(path, mesh, fmt_version="2.2", binary=False)
    write[suffix](str(path), mesh)
    return path.read_bytes()


def triple(low: float, high: float) -> SearchStrategy[list[float]]:
    """Return a strategy of three numbers."""
    return st.lists(st.floats(low, high), min_size=3, max_size=3)


@st.composite
def robot_tables(draw: Any) -> Sound:
    """A bar in some unit, with a sphere below it, a load and a solver."""
    unit = draw(st.sampled_from(["mm", "cm", "m", "in"]))
    mm = 1e-3 / METRES_PER_UNIT[unit]
    ball = {"shape": "sphere", "center": [80 * mm, 0.0, -40 * mm], "radius": mm * draw(st.floats(1, 30))}
    table = {
        "kind": "volumetric",
        "units": unit,
        "body": {"mesh": f"bar-{unit}.vtu", "material": "ecoflex-00-30-fang2022"},
        "fixed": {"plane": "x", "below": mm * draw(st.floats(0.1, 5))},
        "tip": {"box": [[19 * mm, -mm, -mm], [21 * mm, 11 * mm, 11 * mm]]},
        "environment": {
            "gravity": draw(triple(-20, 20)),
            "self_contact": draw(st.booleans()),
            "obstacles": [{**ball, "friction": draw(st.floats(0, 1))}],
            "loads": [{"kind": "force", "total_force": draw(triple(-1, 1)), "vertices": {"ids": [7]}}],
        },
        "solver": {"element": draw(st.sampled_from(["p1", "p2"])), "tolerance": draw(st.floats(1e-8, 1e-4))},
    }
    return Sound(dumped(table), unit)


def read_robot(path: Path, sound: Sound) -> Any:
    """Read a robot file beside its mesh."""
    mesh = path.with_name(f"bar-{sound.holds}.vtu")
    if not mesh.exists():
        mesh.write_bytes(mesh_bytes("vtu", 1e-3 / METRES_PER_UNIT[sound.holds]))
    return load_problem(path)


def robot_wrong(problem: Any, sound: Sound, data: bytes) -> str:
    """Compare a robot with its file, read by another parser."""
    robot, around, solver = problem
    table = tomllib.loads(data.decode("utf-8-sig"))
    if table.get("kind", "volumetric") != "volumetric":
        return ""
    unit, given = METRES_PER_UNIT[table.get("units", "m")], table.get("environment", {})
    found = [differs("gravity", around.gravity, given["gravity"])] if "gravity" in given else []
    if "mesh" in table["body"]:
        mm = 1e-3 / METRES_PER_UNIT[sound.holds]  # of the mesh beside it
        found.append(differs("vertices", robot.vertices, mm * unit * CORNERS, 1e-9))
    obstacles, loads = given.get("obstacles", []), given.get("loads", [])
    if (len(around.obstacles), len(around.loads)) != (len(obstacles), len(loads)):
        return f"{len(around.obstacles)} obstacles and {len(around.loads)} loads, {len(obstacles)} and {len(loads)} were written"
    for obstacle, one in zip(around.obstacles, obstacles):
        found += [differs("friction", obstacle.friction, one.get("friction", 0.0))]
        if one["shape"] == "sphere":
            found += [differs("radius", obstacle.parameters["radius"], unit * one["radius"])]
            found += [differs("center", obstacle.parameters["center"], unit * np.array(one["center"]))]
    for load, one in zip(around.loads, loads):
        found += (
            [differs("force", np.ravel(load.value), np.ravel(one["total_force"]))] if one["kind"] == "force" else []
        )
    options = table.get("solver", {})
    found += [differs(key, getattr(solver, key), options[key]) for key in ("tolerance",) if key in options]
    found += [
        f"element = {solver.element}" for key in ("element",) if key in options and solver.element != options[key]
    ]
    return first_of(found)


@st.composite
def rod_tables(draw: Any) -> Sound:
    """A rod along x."""
    unit = draw(st.sampled_from(["mm", "cm", "m"]))
    mm = 1e-3 / METRES_PER_UNIT[unit]
    nodes, length = draw(st.integers(3, 12)), draw(st.floats(50, 200))
    material = {"model": "linear-elastic", "youngs_modulus": draw(st.floats(1e5, 1e7)), "poisson_ratio": 0.5}
    limb = {
        "start": [0.0, 0.0, 0.0],
        "end": [length * mm, 0.0, 0.0],
        "nodes": nodes,
        "radius": mm * draw(st.floats(0.5, 3)),
    }
    table = {"kind": "rod-shell", "units": unit, "limbs": [{**limb, "material": material}], "fixed": {"ids": [0, 1]}}
    return Sound(dumped(table))


def rods_wrong(problem: Any, sound: Sound, data: bytes) -> str:
    """Compare rods with their file, read by another parser."""
    robot, table = problem[0], tomllib.loads(data.decode("utf-8-sig"))
    if table.get("kind") != "rod-shell" or len(table.get("limbs", [])) != 1 or "shell" in table:
        return ""
    limb, unit = table["limbs"][0], METRES_PER_UNIT[table.get("units", "m")]
    line = unit * np.linspace(limb["start"], limb["end"], limb["nodes"])
    return first_of([differs("vertices", robot.vertices, line, 1e-9)])


snakes = st.builds(
    lambda links, friction: Sound(
        dumped({"kind": "snake", "units": "mm", "snake": {"links": links, "count": 1, "friction": friction}})
    ),
    st.integers(1, 3),
    st.floats(0, 1),
)


def _steps(low: float, high: float) -> SearchStrategy[list[list[float]]]:
    return st.lists(st.lists(st.floats(low, high), min_size=1, max_size=1), min_size=1, max_size=5)


@st.composite
def actuation_tables(draw: Any) -> Sound:
    """Inflation, cables, passive and natural shapes."""
    table: dict[str, Any] = draw(
        st.sampled_from(["volume", "pressure", "cable", "tension", "passive", "shape"]).flatmap(
            lambda kind: {
                "volume": st.fixed_dictionaries({"inflation": st.fixed_dictionaries({"volume_ratio": _steps(0.5, 3)})}),
                "pressure": st.fixed_dictionaries(
                    {"inflation": st.fixed_dictionaries({"pressure_kpa": _steps(-50, 99)})}
                ),
                "cable": st.fixed_dictionaries(
                    {
                        "units": st.sampled_from(["m", "mm", "cm"]),
                        "cable_lengths": st.fixed_dictionaries({"length": _steps(0.01, 1)}),
                    }
                ),
                "tension": st.fixed_dictionaries({"cable_tensions": st.fixed_dictionaries({"tension": _steps(0, 9)})}),
                "passive": st.fixed_dictionaries(
                    {"passive": st.fixed_dictionaries({"duration": st.floats(0, 9), "steps": st.integers(1, 9)})}
                ),
                "shape": st.fixed_dictionaries(
                    {
                        "natural_shape": st.fixed_dictionaries(
                            {
                                "times": st.just([0.5, 1.0]),
                                "curvature": st.lists(st.floats(-9, 9), min_size=2, max_size=2),
                            }
                        )
                    }
                ),
            }[kind]
        )
    )
    return Sound(dumped(table))


# Table and key of an actuation file -> field of the actuation, and SI units of one of the key.
FACTORS = {
    ("inflation", "volume_ratio"): 1.0,
    ("inflation", "pressure_kpa"): 1e3,
    ("cable_lengths", "length"): None,
    ("cable_tensions", "tension"): 1.0,
    ("passive", "duration"): 1.0,
    ("passive", "steps"): 1.0,
    ("natural_shape", "times"): 1.0,
}


def actuation_wrong(actuation: Any, sound: Sound, data: bytes) -> str:
    """Compare an actuation with its file, read by another parser."""
    table = tomllib.loads(data.decode("utf-8-sig"))
    unit = METRES_PER_UNIT[table.get("units", "m")]
    parts = {re.sub(r"(?<!^)(?=[A-Z])", "_", type(part).__name__).lower(): part for part in actuation.parts}
    found = []
    for (name, key), factor in FACTORS.items():
        if key in table.get(name, {}):
            wanted = np.asarray(table[name][key], dtype=float) * (unit if factor is None else factor)
            read = np.asarray(getattr(parts[name], key.removesuffix("_kpa")), dtype=float)
            found.append(differs(key, read.reshape(-1)[: wanted.size], wanted.reshape(-1)))
    return first_of(found)


@st.composite
def material_tables(draw: Any) -> Sound:
    """Every law with constants of rubbers."""
    known = {
        "neo-hookean": {"mu": st.floats(1e3, 1e6)},
        "mooney-rivlin": {"c1": st.floats(1e3, 1e6), "c2": st.floats(0, 1e5)},
        "yeoh": {"c1": st.floats(1e3, 1e6), "c2": st.floats(0, 1e4), "c3": st.floats(0, 1e3)},
        "gent": {"mu": st.floats(1e3, 1e6), "jm": st.floats(2, 100)},
        "linear-elastic": {"youngs_modulus": st.floats(1e3, 1e9), "poisson_ratio": st.floats(0, 0.5)},
    }
    model = draw(st.sampled_from(list(known)))
    constants = draw(st.fixed_dictionaries(known[model], optional={"density": st.floats(100, 9000)}))
    return Sound(dumped({"model": model, **constants}))


def material_wrong(material: Any, sound: Sound, data: bytes) -> str:
    """Compare a material with its file, read by another parser."""
    table = tomllib.loads(data.decode("utf-8-sig"))
    table = table.get("material", table)
    if not isinstance(material, MODELS[table["model"]]):
        return f"{material} was read, {table['model']} was written"
    numbers = {k: v for k, v in table.items() if isinstance(v, int | float) and hasattr(material, k)}
    return first_of([differs(key, getattr(material, key), value) for key, value in numbers.items()])


STUDY = {"design": "pneunet", "material": "ecoflex-00-30", "actuation": {"pressure_kpa": [10.0]}}


@st.composite
def studies(draw: Any) -> Sound:
    """Grids and random samples of walls and chambers."""
    low, steps = draw(st.floats(1, 2)), draw(st.integers(2, 9))
    random = draw(st.booleans())
    wall = {"from": low, "to": low + draw(st.floats(0.1, 1))} | ({} if random else {"steps": steps})
    sampling = {"method": "random", "count": steps} if random else {"method": "grid"}
    return Sound(dumped({**STUDY, "vary": {"wall_mm": wall}, "sampling": sampling}), steps)


def study_rows(path: Path, sound: Sound) -> Any:
    """Return the first designs of a study and their number."""
    study = read_study(path)
    return study, study.rows if study.file.optimize is None else []


def study_wrong(read: Any, sound: Sound, data: bytes) -> str:
    """Compare designs with the ranges that a study names."""
    table = tomllib.loads(data.decode("utf-8-sig"))
    for key, given in table.get("vary", {}).items():
        if isinstance(given, dict):
            values = [row[key] for row in read[1]]
            if values and not given["from"] <= min(values) <= max(values) <= given["to"]:
                return f"{key} is drawn from {min(values)} to {max(values)}"
    if data == sound.data and len(read[1]) != sound.holds:
        return f"{len(read[1])} designs, {sound.holds} were written"
    return ""


# --- tables


def encoded(draw: Any, rows: list[list[str]], *, commas: bool = True, comma: bool = False) -> bytes:
    """Return a table as spreadsheets write it: in some encoding, with some delimiter and line ends."""
    delimiter = draw(st.sampled_from([";", "\t", *([","] if commas and not comma else [])]))
    end, code = (
        draw(st.sampled_from(["\n", "\r\n", "\r"])),
        draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])),
    )
    if comma:
        rows = [[re.sub(r"^(-?\d+)\.(\d+)$", r"\1,\2", cell) for cell in row] for row in rows]
    return (end.join(delimiter.join(row) for row in rows) + end).encode(code)


@st.composite
def design_lists(draw: Any) -> Sound:
    """Lists of designs."""
    walls = draw(st.lists(st.floats(1, 3).map(lambda v: round(v, 3)), min_size=1, max_size=6))
    heights = [round(9.0 + wall, 3) for wall in walls]
    rows = [["wall_mm", "height_mm"], *([repr(w), repr(h)] for w, h in zip(walls, heights))]
    return Sound(encoded(draw, rows), [[w, h] for w, h in zip(walls, heights)])


def read_designs(path: Path, sound: Sound) -> Any:
    """Read a list through a study."""
    study = path.with_name("of_list.toml")
    study.write_bytes(dumped({**STUDY, "sampling": {"method": "list", "file": path.name}}))
    return [list(row.values()) for row in read_study(study).rows]


def designs_wrong(read: Any, sound: Sound, data: bytes) -> str:
    """Compare designs with the list."""
    if data == sound.data:
        return differs("designs", read, sound.holds)
    flat = [v for row in read for value in row for v in (value if isinstance(value, list | tuple) else [value])]
    return invented("a design", [v for v in flat if isinstance(v, int | float)], data, [1.0])


@st.composite
def pulls(draw: Any) -> Sound:
    """Uniaxial tests as machines export them: names in two languages, units, decimal signs, lines above the table."""
    mu, end, count = draw(st.floats(10, 300)), draw(st.floats(1.5, 3.5)), draw(st.integers(12, 60))
    stretch = np.round(1 + (end - 1) * np.arange(1, count + 1) / count, 6)
    stress = np.round(mu * (stretch - stretch**-2), 6)  # kPa
    unit = draw(st.sampled_from(["kPa", "MPa", "Pa", "N/mm2", "psi"]))
    title, share = draw(
        st.sampled_from([("stretch", 0.0), ("strain [%]", 100.0), ("Dehnung [%]", 100.0), ("strain", 1.0)])
    )
    first = np.round(stretch if share == 0 else share * (stretch - 1), 6)
    second = np.round(stress * 1e3 / STRESS_UNITS[unit.lower()], 9)
    name = draw(st.sampled_from(["stress", "Spannung", "nominal stress"]))
    rows = [[title, f"{name} [{unit}]"], *([f"{a:.6f}", f"{b:.9f}"] for a, b in zip(first, second))]
    rows = draw(st.sampled_from([[], [["Specimen", "A 1"]], [["Prüfung"], [""]]])) + rows
    comma = draw(st.booleans())
    holds = (first if share == 0 else 1 + first / share, second * STRESS_UNITS[unit.lower()])
    return Sound(encoded(draw, rows, comma=comma), holds, {"mode": "uniaxial"})


def pull_wrong(test: Any, sound: Sound, data: bytes) -> str:
    """Compare a test with its file."""
    if data == sound.data:
        return first_of(
            [differs(k, getattr(test, k), v, 1e-9) for k, v in zip(("stretch", "nominal_stress"), sound.holds)]
        )
    return invented("stress", test.nominal_stress, data, sorted({*STRESS_UNITS.values()}), 1e-7)


TABLES: tuple[tuple[str, Callable[[Any], tuple[list[list[str]], str]], str | None], ...] = (
    *(("motive.csv", lambda t, v=v: (exporters.motive(v, take=t), ","), None) for v in ("1.22", "1.23", "1.25")),
    ("motive.csv", lambda t: (exporters.motive("1.23", quality=True, order="ZYX", take=t), ","), None),
    ("qtm.tsv", lambda t: (exporters.qualisys(take=t), "\t"), None),
    ("qtm.tsv", lambda t: (exporters.qualisys(comma=True, take=t), "\t"), None),
    ("qtm.tsv", lambda t: (exporters.qualisys(lead=False, titles=False, gap="NULL", take=t), "\t"), None),
    ("nexus.csv", lambda t: (exporters.vicon(take=t), ","), None),
    ("nexus.csv", lambda t: (exporters.vicon(velocities=True, order="ZYX", take=t), ","), None),
    ("walk.trc", lambda t: (exporters.trc(gap="nan", take=t), "\t"), None),
    ("walk.trc", lambda t: (exporters.trc(blank=False, tab=False, order="ZYX", take=t), "\t"), None),
    ("dlc.csv", lambda t: (exporters.deeplabcut(take=t), ","), "mm"),
    ("plain.csv", lambda t: (exporters.table(take=t), ","), None),
    ("plain.csv", lambda t: (exporters.table(axes="zyx", comma=True, take=t), ";"), None),
    ("plain.csv", lambda t: (exporters.table("{}_{}", (), gap="NaN", axes="XYZ", take=t), ","), "mm"),
)


@st.composite
def marker_tables(draw: Any) -> Sound:
    """Trajectories as the exporters write them."""
    take = exporters.Take(seed=draw(st.integers(1, 2**31)))
    name, layout, units = draw(st.sampled_from(TABLES))
    lines, delimiter = layout(take)
    text = draw(st.sampled_from(["\n", "\r\n"])).join(delimiter.join(line) for line in lines) + "\n"
    code = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return Sound(text.encode(code), take.positions(), {"units": units}, name)


@st.composite
def c3d_files(draw: Any) -> Sound:
    """C3D files as ezc3d writes them."""
    path = scratch() / "made.c3d"
    take = exporters.Take(seed=draw(st.integers(1, 2**31)))
    positions = exporters.c3d(path, draw(st.sampled_from(["mm", "m"])), take=take)
    return Sound(path.read_bytes(), positions, {"units": None})


def markers_wrong(found: Any, sound: Sound, data: bytes) -> str:
    """Compare trajectories with those written."""
    if data == sound.data:
        return differs("positions", found.positions, sound.holds, 1e-7 if data[1:2] == b"P" else 1e-12)
    return "" if data[1:2] == b"P" else invented("a position", found.positions, data, list(METRES_PER_UNIT.values()))


@st.composite
def clouds(draw: Any) -> Sound:
    """Point clouds as text."""
    points = np.random.default_rng(draw(st.integers(0, 2**31))).uniform(-60, 60, (draw(st.integers(3, 40)), 3)).round(3)
    sign = draw(st.sampled_from([" ", ",", "\t", ";"]))
    head = draw(st.sampled_from([[], ["# scan"], [sign.join("xyz")]]))
    text = "\n".join([*head, *(sign.join(f"{v:.3f}" for v in point) for point in points)]) + "\n"
    return Sound(text.encode(draw(st.sampled_from(["utf-8", "utf-16"]))), 1e-3 * points, {"units": "mm"})


def cloud_wrong(points: Any, sound: Sound, data: bytes) -> str:
    """Compare points with those written."""
    return differs("points", points, sound.holds) if data == sound.data else invented("a point", points, data, [1e-3])


@st.composite
def natural_shapes(draw: Any) -> Sound:
    """Tables of curvature over time."""
    count = draw(st.integers(2, 9))
    values = draw(st.lists(st.floats(-9, 9).map(lambda v: round(v, 6)), min_size=count, max_size=count))
    kind = draw(st.sampled_from(["curvature", "twist", "stretch", "hinge_angle"]))
    values = [1.0 + abs(v) / 9 for v in values] if kind == "stretch" else values
    rows = [["time", kind], *([repr(0.5 * i), repr(round(v, 6))] for i, v in enumerate(values))]
    return Sound(encoded(draw, rows), (kind, [round(v, 6) for v in values]))


def shape_wrong(found: Any, sound: Sound, data: bytes) -> str:
    """Compare natural values with those written."""
    kind, values = sound.holds
    if data == sound.data:
        times = differs("times", found.times, 0.5 * np.arange(len(values)))
        return first_of([differs(kind, np.ravel(getattr(found, kind)), values), times])
    return invented("times", found.times, data, [1.0])


@st.composite
def test_rows(draw: Any) -> Sound:
    """Rows of a test."""
    loads = draw(st.lists(st.floats(0.1, 9).map(lambda v: round(v, 4)), min_size=1, max_size=9))
    rows = [
        ["load_1", "measure", "unit", "value"],
        *([repr(v), "tip_x_mm", "mm", repr(round(3 * v, 4))] for v in loads),
    ]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return Sound(end.join(map(",".join, rows)).encode(), ([round(3 * v, 4) for v in loads], loads))


def rows_wrong(rows: Any, sound: Sound, data: bytes) -> str:
    """Compare rows with those written."""
    if data == sound.data:
        return first_of(
            [differs("value", rows.values, sound.holds[0]), differs("load", rows.loads[:, 0], sound.holds[1])]
        )
    return invented("a value", rows.values, data, [1.0])


@st.composite
def rod_geometries(draw: Any) -> Sound:
    """Nodes and edges of rods as text."""
    points = np.random.default_rng(draw(st.integers(0, 2**31))).uniform(-1, 1, (draw(st.integers(2, 9)), 3)).round(5)
    sign = draw(st.sampled_from([", ", ",", " ", "\t"]))
    edges = [f"{i + 1}{sign}{i + 2}" for i in range(len(points) - 1)]
    text = "\n".join(["*Nodes", *(sign.join(map(repr, map(float, p))) for p in points), "*Edges", *edges]) + "\n"
    return Sound(text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig"]))), points)


def geometry_wrong(found: Any, sound: Sound, data: bytes) -> str:
    """Compare nodes with those written."""
    return differs("nodes", found[0], sound.holds) if data == sound.data else invented("a node", found[0], data, [1.0])


# --- surfaces, tets, archives and messages


def surfaces(suffix: str) -> SearchStrategy[Sound]:
    """Return a strategy of boxes as a file."""

    def made(sides: list[float], text: bool) -> Sound:
        data = trimesh.creation.box(sides).export(file_type="stl_ascii" if suffix == "stl" and text else suffix)
        return Sound(data.encode() if isinstance(data, str) else bytes(data), 1e-9 * float(np.prod(sides)))

    return st.builds(made, st.lists(st.floats(5, 50), min_size=3, max_size=3), st.booleans())


def assembly(suffix: str) -> SearchStrategy[Sound]:
    """Return a strategy of boxes as the only part of a 3MF, GLB or STEP file."""

    def made(sides: list[float]) -> Sound:
        box, path = trimesh.creation.box(sides), scratch() / f"made.{suffix}"
        if suffix == "glb":
            scaled = trimesh.Trimesh(1e-3 * box.vertices, box.faces)
            path.write_bytes(trimesh.Scene({"box": scaled}).export(file_type="glb"))
        elif suffix == "3mf":
            write_3mf({"box": as_manifold(1e-3 * box.vertices, box.faces)}, path)
        else:
            box.export(path.with_suffix(".stl"))
            write_step({"box": path.with_suffix(".stl")}, path)
        return Sound(path.read_bytes(), 1e-9 * float(np.prod(sides)))

    sides = st.lists(st.floats(5, 50), min_size=3, max_size=3)
    kept = lru_cache(16)(lambda seed: made(np.random.default_rng(seed).uniform(5, 50, 3).tolist()))
    return st.integers(0, 7).map(kept) if suffix == "step" else st.builds(made, sides)  # Open CASCADE takes a second


@st.composite
def workbooks(draw: Any) -> Sound:
    """Tables of curvature over time, as XLSX."""
    import openpyxl

    values = draw(st.lists(st.floats(-9, 9), min_size=2, max_size=9))
    book = openpyxl.Workbook(write_only=draw(st.booleans()))
    sheet = book.create_sheet() if book.write_only else book.active
    for row in [["time", "curvature"], *([0.5 * i, value] for i, value in enumerate(values))]:
        sheet.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return Sound(stream.getvalue(), ("curvature", values))


@st.composite
def tag_tables(draw: Any) -> Sound:
    """Places of two tags over time; a tag at (0, 0) was not seen."""
    rows = draw(st.lists(st.lists(st.floats(1, 99).map(lambda v: round(v, 4)), min_size=4, max_size=4), min_size=1))
    head = ["Test time", *(f"tagid_{axis}_{i}" for i in (7, 12) for axis in "xy")]
    text = [head, *([repr(0.1 * k), *map(repr, row)] for k, row in enumerate(rows))]
    return Sound(encoded(draw, text), np.array(rows).reshape(-1, 2, 2)[:, [1, 0]])  # "12" is sorted before "7"


def tags_wrong(tags: Any, sound: Sound, data: bytes) -> str:
    """Compare tags with those written."""
    return differs("tags", tags, sound.holds) if data == sound.data else invented("a tag", tags, data, [1.0])


@st.composite
def robot_draws(draw: Any) -> Sound:
    """What robots do over what their designs do: a measure a column, a draw a row."""
    rows = draw(
        st.lists(
            st.lists(st.floats(0.5, 2).map(lambda v: round(v, 4)), min_size=2, max_size=2), min_size=20, max_size=30
        )
    )
    return Sound(encoded(draw, [["bend_angle_deg", "tip_x_mm"], *([repr(v) for v in row] for row in rows)]), rows)


def draws_wrong(found: Any, sound: Sound, data: bytes) -> str:
    """Compare draws with those written."""
    read = np.array(list(found.ratios.values())).T
    return differs("draws", read, sound.holds) if data == sound.data else invented("a draw", read, data, [1.0])


@st.composite
def abaqus_parts(draw: Any) -> Sound:
    """The bar as an instance of a part, moved by its assembly; numbers of nodes as a CAD program gives them."""
    first, step, shift = draw(st.integers(1, 99)), draw(st.integers(1, 9)), [0.0, *draw(triple(-9, 9))[1:]]
    lines = ["*Heading", "*Part, name=Bar", "*Node"]
    lines += [f"{first + step * i}, " + ", ".join(map(repr, map(float, x))) for i, x in enumerate(CORNERS)]
    lines += [
        "*Element, type=C3D4",
        *(f"{i + 1}, " + ", ".join(str(first + step * n) for n in t) for i, t in enumerate(TETS)),
    ]
    lines += [
        "*Elset, elset=All, generate",
        f"1, {len(TETS)}, 1",
        "*Solid Section, elset=All, material=A",
        ",",
        "*End Part",
    ]
    lines += [
        "*Assembly, name=A",
        "*Instance, name=One, part=Bar",
        ", ".join(map(repr, shift)),
        "*End Instance",
        "*End Assembly",
    ]
    return Sound(("\n".join(lines) + "\n").encode(), 1e-3 * (CORNERS + shift))


def surface_wrong(surface: Any, sound: Sound, data: bytes) -> str:
    """Compare the volume with that written; of any other file it is finite."""
    if data == sound.data:
        return differs("volume", surface.volume, sound.holds, 1e-5)
    return "" if np.isfinite(surface.volume) and np.isfinite(surface.vertices).all() else "the surface is not finite"


def tets(suffix: str) -> SearchStrategy[Sound]:
    """Return a strategy of bars of tets as a file."""
    return st.floats(0.5, 2.0).map(lambda scale: Sound(mesh_bytes(suffix, scale), 1e-3 * scale * CORNERS))


def read_tets(path: Path, sound: Sound) -> Any:
    """Read a robot of a mesh."""
    robot = path.with_name("of_mesh.toml")
    body = {"mesh": path.name, "material": "ecoflex-00-30-fang2022"}
    robot.write_bytes(
        dumped({"kind": "volumetric", "units": "mm", "body": body, "fixed": {"plane": "x", "below": 0.1}})
    )
    return load_problem(robot)[0]


def tets_wrong(robot: Any, sound: Sound, data: bytes) -> str:
    """Compare the vertices with those written."""
    if data != sound.data:
        return "" if np.isfinite(robot.vertices).all() else "a vertex is not finite"
    read, written = (at[np.lexsort(at.T.round(12))] for at in (robot.vertices, sound.holds))
    return differs("vertices", read, written, 1e-9)


@cache
def bent() -> geosim.Result:
    """A result of three frames, made by hand."""
    robot = bar()
    moved = [
        robot.vertices + 1e-3 * k * (robot.vertices[:, :1] / 0.02) ** 2 * np.array([0, 0, -1.0]) for k in range(1, 4)
    ]
    tip = np.einsum("t,ktd->kd", robot.tip_weights, np.array(moved)[:, robot.tip])
    counts = {"crossings": np.zeros(3), "inverted_elements": np.zeros(3), "residual": np.full(3, 1e-9)}
    counts |= {"tip": tip, "extra": {"inverted_points": np.zeros(3)}}
    return geosim.Result(geosim.Status.CONVERGED, "", True, np.arange(1.0, 4.0), np.array(moved), robot, **counts)


def _written(make: Callable[[np.random.Generator, Path], Path], seeds: int = 2**31) -> SearchStrategy[Sound]:
    @lru_cache(16)
    def sound(seed: int) -> Sound:
        data = make(np.random.default_rng(seed), scratch()).read_bytes()
        return Sound(data, unpacked(data))

    return st.integers(0, seeds).map(sound)


def _result(rng: np.random.Generator, folder: Path) -> Path:
    frames = bent().frames + rng.uniform(0, 1e-4) * bent().frames
    stream = io.BytesIO()
    tip = np.einsum("t,ktd->kd", bent().robot.tip_weights, frames[:, bent().robot.tip])
    write_archive(dataclasses.replace(bent(), frames=frames, tip=tip), stream)
    (folder / "made.npz").write_bytes(stream.getvalue())
    return folder / "made.npz"


def _surrogate(rng: np.random.Generator, folder: Path) -> Path:
    small_surrogate(rng).save(folder / "made.npz")
    return folder / "made.npz"


def read_surrogate(path: Path, sound: Sound) -> Any:
    """Read a surrogate and ask it something."""
    found = geosim.surrogate(path.parent)
    return found, [found({"wall": 1.7, "rubber": "a"}, measure) for measure in found.measures]


def read_posterior(path: Path, sound: Sound) -> Any:
    """Read a posterior and ask it something."""
    found = geosim.Posterior.load(path)
    return found, found.predict("angle", [1.0, 1.5]), found.interval("gain"), found.verdict


def archive_wrong(arrays: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any, Sound, bytes], str]:
    """Return what compares what was read with what was written, where the file has a digest; else it is finite."""

    def wrong(read: Any, sound: Sound, data: bytes) -> str:
        found = arrays(read)
        if "digest" not in unpacked(data):
            return ""
        return first_of(
            [differs(name, value, sound.holds[name]) for name, value in found.items() if name in sound.holds]
        )

    return wrong


messages = st.one_of(
    st.builds(lambda v: {"do": "turn", "values": {"wall_mm": v}}, st.floats(0, 9) | st.integers(0, 9)),
    st.builds(lambda v: {"do": "reach", "degrees": v}, st.floats(0, 720)),
    st.builds(lambda n: {"do": "search", "degrees": 90.0, "keys": ["wall_mm"], "trials": n}, st.integers(1, 200)),
    st.sampled_from([{"do": "stop"}, {"do": "sensitivities"}, {"do": "save", "name": "a-1"}]),
).map(lambda said: Sound(json.dumps(said).encode(), said))


def message_wrong(message: Any, sound: Sound, data: bytes) -> str:
    """Compare a message with its JSON."""
    return "" if message.model_dump() == json.loads(data) else f"{message!r} was read"


register(
    Reader("robot.toml", robot_tables(), read_robot, robot_wrong, table_damage(VolumetricFile)),
    Reader("rods.toml", rod_tables(), lambda p, s: load_problem(p), rods_wrong, table_damage(RodShellFile)),
    Reader("snake.toml", snakes, lambda p, s: load_problem(p), damage=table_damage(SnakeFile)),
    Reader("act.toml", actuation_tables(), lambda p, s: load_actuation(p), actuation_wrong),
    Reader("material.toml", material_tables(), lambda p, s: load_material(p), material_wrong),
    Reader("study.toml", studies(), study_rows, study_wrong, table_damage(StudyFile)),
    Reader("designs.csv", design_lists(), read_designs, designs_wrong, any_damage | recoded),
    Reader("pull.csv", pulls(), lambda p, s: calibrate.read_test(p, **s.told), pull_wrong, any_damage | recoded),
    Reader("markers.csv", marker_tables(), lambda p, s: compare.read_markers(p, **s.told), markers_wrong, any_damage | recoded),
    Reader("markers.c3d", c3d_files(), lambda p, s: compare.read_markers(p, **s.told), markers_wrong, bytes_damage),
    Reader("cloud.xyz", clouds(), lambda p, s: compare.read_scan(p, **s.told), cloud_wrong, any_damage | recoded),
    Reader("shape.csv", natural_shapes(), lambda p, s: read_natural_shape(p), shape_wrong, any_damage | recoded),
    Reader("rows.csv", test_rows(), lambda p, s: read_rows(p), rows_wrong),
    Reader("rods.txt", rod_geometries(), lambda p, s: read_geometry(p), geometry_wrong),
    *(
        Reader(f"box.{suffix}", surfaces(suffix), lambda p, s: check_surface(read_surface(p, units="mm")), surface_wrong)
        for suffix in ("stl", "obj", "ply", "off")
    ),
    *(
        Reader(f"part.{suffix}", assembly(suffix), lambda p, s: check_surface(read_surface(p, units="mm")), surface_wrong, damage)
        for suffix, damage in (
            ("3mf", zipped_damage("3D/3dmodel.model") | bytes_damage), ("glb", any_damage), ("step", any_damage),
        )
    ),
    Reader(
        "shape.xlsx", workbooks(), lambda p, s: read_natural_shape(p),
        lambda found, sound, data: shape_wrong(found, sound, data) if data == sound.data else "",
        zipped_damage("xl/worksheets/sheet1.xml") | zipped_damage("xl/workbook.xml") | bytes_damage,
    ),
    Reader(
        "tags.csv", tag_tables(), lambda p, s: read_tags(p)[1],
        tags_wrong,
        any_damage | recoded,
    ),
    Reader("draws.csv", robot_draws(), lambda p, s: read_draws(p.name, 0.9, Place(p)), draws_wrong, any_damage | recoded),
    Reader("parts.inp", abaqus_parts(), read_tets, tets_wrong),
    *(Reader(f"tets.{suffix}", tets(suffix), read_tets, tets_wrong) for suffix in ("vtu", "vtk", "msh", "inp")),
    Reader(
        "result.npz", _written(_result), lambda p, s: geosim.load_result(p),
        archive_wrong(lambda r: {"result.frames": r.frames, "result.tip": r.tip, "robot.vertices": r.robot.vertices}),
        archive_damage,
    ),
    Reader(
        "surrogate.npz", _written(_surrogate, 7), read_surrogate,
        archive_wrong(lambda r: {f"{i}/{k}": v for i, p in enumerate(r[0].processes.values()) for k, v in p.arrays().items()}),
        archive_damage,
    ),
    Reader(
        "model.npz", _written(lambda rng, folder: small_reduced_model(rng).save(folder / "made.npz")),
        lambda p, s: geosim.ReducedModel.load(p),
        archive_wrong(lambda m: {k: getattr(m, k) for k in ("weights", "basis", "box", "rest")}), archive_damage,
    ),
    Reader(
        "posterior.npz", _written(lambda rng, folder: small_posterior(rng).save(folder / "made.npz")), read_posterior,
        archive_wrong(lambda r: {"z": r[0].z, "rows/values": r[0].model.rows.values}), archive_damage,
    ),
    Reader("message.json", messages, lambda p, s: read_message(decoded(p.read_bytes())), message_wrong, text_damage),
)  # fmt: skip
