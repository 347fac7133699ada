"""CONTRIBUTING.md and docs: their Python runs, and what they name is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "house.md"]
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block, tmp_path):
    """Each in a process of its own: the kinds that they add stay unknown to the other tests."""
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _in_a_copy_of_the_package(
    folder: Path, edits: dict[str, list[tuple[str, str]]], script: str, made: dict[str, str] | None = None
) -> None:
    """Insert texts before others in a copy of geosim/, where each stands once, make files, and run a script with it."""
    shutil.copytree(ROOT / "geosim", folder / "geosim", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "calibration", folder / "calibration", ignore=shutil.ignore_patterns("__pycache__"))
    for name, inserts in edits.items():
        text = (folder / "geosim" / name).read_text(encoding="utf-8")
        for before, added in inserts:
            assert text.count(before) == 1, f"{name} holds {before!r} {text.count(before)} times"
            text = text.replace(before, added + before)
        (folder / "geosim" / name).write_text(text)
    for name, text in (made or {}).items():
        (folder / "geosim" / name).write_text(text)
    (folder / "example.py").write_text(script)
    surroundings = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


CAPSULE = """
import numpy as np
import geosim
from geosim.collision.shapes import curvatures, signed_distances
capsule = geosim.Obstacle.capsule((0, 0, 0), (0.1, 0, 0), 0.02, friction=0.3)
points = np.random.default_rng(0).uniform(-0.1, 0.2, (200, 3))
axis = np.stack([np.clip(points[:, 0], 0, 0.1), 0 * points[:, 0], 0 * points[:, 0]], axis=1)
distance, nearest, normal = signed_distances(capsule.solid, points)
np.testing.assert_allclose(distance, np.linalg.norm(points - axis, axis=1) - 0.02, atol=1e-14)
smooth = (np.abs(points[:, 0]) > 1e-4) & (np.abs(points[:, 0] - 0.1) > 1e-4)  # the curvature jumps where caps begin
turn = curvatures(capsule.solid, points)
for k, e in enumerate(1e-7 * np.eye(3)):
    slope = (signed_distances(capsule.solid, points + e)[2] - signed_distances(capsule.solid, points - e)[2]) / 2e-7
    np.testing.assert_allclose(turn[smooth, :, k], slope[smooth], atol=1e-5)
"""


def _obstacle_edits(
    number: int, name: str, entry: str, kernel: str, parameters: str
) -> dict[str, list[tuple[str, str]]]:
    """What a kind of obstacle adds to the two files."""
    given = ", ".join(f'"{key}": {key}' for key in parameters.split(", "))
    return {
        "collision/shapes.py": [
            (
                "KINDS: dict[str, Kind] = {",
                f"{name.upper()} = {number}\n\n\ndef _drawn_{name}(given, around):\n    raise NotImplementedError\n\n\n",
            ),
            ("}\n\n\ndef check_parameters", entry),
            ("    if kind == BOX:", f"    if kind == {name.upper()}:\n        return _{name}(w, p)\n"),
            ("@kernel\ndef _box", kernel + "\n\n"),
        ],
        "model/environment.py": [
            (
                "    @staticmethod\n    def plane(",
                f"    @staticmethod\n    def {name}({parameters}, **options):\n"
                f'        return Obstacle("{name}", {{{given}}}, **options)\n\n',
            )
        ],
    }


def test_the_obstacle_kind_of_the_page_touches_two_files(tmp_path):
    """The capsule, with the texts of the page, in a copy: distance by hand, curvature against differences."""
    page = PAGES[0].read_text(encoding="utf-8")
    entry = re.search(r'^ +"capsule": Kind\((?:.*\n)+?(?=\n)', page, re.M)[0]
    kernel = re.sub(
        "^       ", "", re.search(r"^( +)@kernel\n +def _capsule(?:.*\n)+?(?=\n)", page, re.M)[0], flags=re.M
    )
    edits = _obstacle_edits(5, "capsule", entry, kernel, "start, end, radius")
    _in_a_copy_of_the_package(tmp_path, edits, CAPSULE)


TORUS_ENTRY = """
    "torus": Kind(
        {"center": POINT, "axis": DIRECTION, "radius": LENGTH, "tube": LENGTH}, lambda given: given["tube"], _drawn_torus
    ),
"""
TORUS_KERNEL = """
@kernel
def _torus(w, p):
    away, axis = difference(p, w), (w[3], w[4], w[5])
    along = dot(away, axis)
    across = difference(away, scaled(along, axis))
    rho = math.sqrt(dot(across, across))
    out = scaled(1.0 / rho, across)
    way = plus(scaled(rho - w[6], out), scaled(along, axis))
    deep = math.sqrt(dot(way, way))
    u = scaled(1.0 / deep, way)
    return (deep - w[7], -np.inf, -np.inf), (u, cross(axis, out), (0.0, 0.0, 0.0)), (1.0 / deep, dot(u, out) / rho)
"""
TORUS = """
import numpy as np
import geosim
from geosim.collision.shapes import curvatures, signed_distances
from geosim.shape.energy.contact.faces import lowest
torus = geosim.Obstacle.torus((0, 0, 0), (0, 0, 1), 0.05, 0.01)
rng = np.random.default_rng(0)
points = rng.uniform(-0.1, 0.1, (200, 3))
distance = signed_distances(torus.solid, points)[0]
ring = np.hypot(points[:, 0], points[:, 1]) - 0.05
np.testing.assert_allclose(distance, np.hypot(ring, points[:, 2]) - 0.01, atol=1e-14)
turn = curvatures(torus.solid, points)
for k, e in enumerate(1e-7 * np.eye(3)):
    slope = (signed_distances(torus.solid, points + e)[2] - signed_distances(torus.solid, points - e)[2]) / 2e-7
    np.testing.assert_allclose(turn[:, :, k], slope, atol=1e-4 * np.abs(slope).max())
shares = np.array([(1 - s - t, s, t) for s in np.linspace(0, 1, 41) for t in np.linspace(0, 1 - s, 41)])
corners = rng.uniform(-0.06, 0.06, (2000, 1, 3)) * [1, 1, 0.3] + rng.uniform(-0.03, 0.03, (2000, 3, 3))
every = signed_distances(torus.solid, np.einsum("bi,kij->kbj", shares, corners).reshape(-1, 3))[0]
least = every.reshape(len(corners), -1).min(axis=1)
touches = least < 0.0
found = lowest(torus.solid, corners, np.eye(4), np.full(len(corners), 1e-8))[0]
assert 500 < touches.sum() < 1500
assert (found[touches] < 0.0).all(), f"{(found[touches] >= 0.0).sum()} of {touches.sum()} contacts are lost"
assert (found - least)[touches].max() < 0.2 * 0.01, "to a fifth of the tube"
"""


def test_contact_finds_an_obstacle_kind_that_is_not_convex(tmp_path):
    """A torus, added as the page says: distance by hand, curvature against differences, and all triangles that it cuts."""
    edits = _obstacle_edits(5, "torus", TORUS_ENTRY[1:], TORUS_KERNEL, "center, axis, radius, tube")
    _in_a_copy_of_the_package(tmp_path, edits, TORUS)


DEMIRAY = """
import numpy as np
import geosim
from geosim.calibrate import nominal_stress
from geosim.material.laws import material_from_dict
tissue = geosim.Demiray(mu=2e4, b=1.5)
s = np.array([0.8, 1.2, 1.5])
by_hand = 2e4 * np.exp(1.5 * (s**2 + 2 / s - 3)) * (s - s**-2)  # nominal stress of an incompressible bar
np.testing.assert_allclose(nominal_stress("demiray", [2e4, 1.5], "uniaxial", s), by_hand, rtol=1e-10)
assert material_from_dict({"model": "demiray", "mu": 2e4, "b": 1.5}) == tissue
points, tets = np.vstack([np.zeros(3), 0.01 * np.eye(3)]), np.array([[0, 1, 2, 3]])
robot = geosim.VolumetricRobot.from_tets(points, tets, np.zeros(1, dtype=int), material=tissue, fixed=[0, 1, 2], tip=[3])
geosim.solve(robot, geosim.Passive()).save("out.npz")
assert geosim.load_result("out.npz").robot.materials[0] == tissue
"""


@pytest.mark.slow
def test_the_material_law_of_the_page_touches_one_file(tmp_path):
    """Demiray's law, with the texts of the page, in a copy: its stress by hand, its table in files."""
    (example,) = re.findall(r"```py\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.S)
    number, law = example.split("\n\n\n", 1)
    edits = {
        "material/laws.py": [
            ("OGDEN = 100", number + "\n"),
            ("@kernel\ndef invariant_law", law.strip() + "\n\n\n"),
            ("    return _gent(c, x, y)", "    if kind == DEMIRAY:\n        return _demiray(c, x, y)\n"),
            ("Ogden)}\nMODELS", "Demiray, "),
            ('    "FIRST",', '    "Demiray",\n'),
        ]
    }
    _in_a_copy_of_the_package(tmp_path, edits, DEMIRAY)


PISTON = """
import numpy as np
import geosim
open("act.toml", "w").write("units = 'mm'\\n[tip_travel]\\ntravel = [2.0, -1.5]")
from geosim.files.actuation import load_actuation
actuation = load_actuation("act.toml")
assert isinstance(actuation, geosim.TipTravel)
assert not hasattr(geosim, "TipTravels")
from geosim.shape.energy.constraints.scalars import constraint_kinds
assert [kind.__name__ for kind in constraint_kinds()] == ["Chambers", "Cables", "Immersion", "Piston", "PressedFaces"]
points = np.array(np.meshgrid([0, 0.02, 0.04], [0, 0.01], [0, 0.01], indexing="ij")).reshape(3, -1).T
cube = lambda i: [[i, i + p, i + q, i + 7] for p, q in ((4, 6), (6, 2), (2, 3), (3, 1), (1, 5), (5, 4))]
robot = geosim.VolumetricRobot.from_tets(
    points, np.array(cube(0) + cube(4)), material=geosim.NeoHookean(mu=5e4), fixed=range(4), tip=range(8, 12),
    cables=[geosim.Cable([(0.001, 0.004, 0.004), (0.039, 0.004, 0.004)])],
)
flat = geosim.EnergyShapeSolver(element="p1")  # whose consistent loads have the weights of `tip`
pushed = geosim.solve(robot, actuation & geosim.CableTensions([0.1, 0.2]), solver=flat)
np.testing.assert_allclose(pushed.tip[:, 0] - 0.04, [2e-3, -1.5e-3], rtol=1e-6)
assert pushed.stable.all()
loads = [geosim.Load.force(range(8, 12), np.outer(pushed.extra["piston_force"], [1, 0, 0]))]
loaded = geosim.solve(robot, geosim.CableTensions([0.1, 0.2]), geosim.Environment(loads=loads), solver=flat)
np.testing.assert_allclose(loaded.frames, pushed.frames, atol=2e-9)
"""


@pytest.mark.slow
def test_the_actuator_of_the_page_is_one_file(tmp_path):
    """A piston, with the text of the page, in a copy: its travel is met, and its force is that of a load that does the same."""
    (example,) = (block for block in BLOCKS if "class Piston(" in block)
    _in_a_copy_of_the_package(tmp_path, {}, PISTON, {"shape/energy/constraints/piston.py": example})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w.]+\.(?:py|sh|md))`", page.read_text(encoding="utf-8"))
    assert len(named) > 10
    for name in named:
        places = [ROOT / name, ROOT / "geosim" / name, ROOT / "tests" / name]
        assert any(place.exists() for place in places), f"{page.name} names {name}, which is not there"


def test_every_folder_of_the_package_is_described():
    """Each room by its path; a folder inside one by its path or its name."""
    folders = {p.parent.relative_to(ROOT).as_posix() for p in (ROOT / "geosim").rglob("__init__.py")}
    text = PAGES[0].read_text(encoding="utf-8")
    inner = {f for f in folders if f.count("/") > 1 and f"`{f.rpartition('/')[2]}`" in text}
    assert {f for f in folders - inner if f"`{f}/`" not in text} <= {"geosim/shape"}
