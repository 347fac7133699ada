"""Make the surfaces of the robots that geosim ships: `python scripts/make_meshes.py [FOLDER]`, default geosim/data/meshes/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from shipped_shapes import (
    membrane_over_chambers,
    plain_finger,
    pneunet_finger,
    thick_sphere,
    three_finger_gripper,
    twister,
)

from geosim import generate

HEADER = """\
# {title}
# Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"
{free}
[body]
surface = "body.stl"
material = {{ model = "mooney-rivlin", c1 = 41.8e3, c2 = 10.6e3, density = 1070.0 }}  # Ecoflex 00-30 of [Fang2022]
max_edge = {max_edge}

[[chambers]]
surface = "chamber.stl"
"""
CLAMPED = """
[fixed]
plane = "x"
below = 0.1

[tip]
plane = "x"
above = {above}
"""
FREE = """# Held by nothing: the pressure of a closed chamber has no resultant.
fixed = "none"
"""


MEMBRANE = """\
# Membrane, 250 x 250 x 4 mm, over four inflatable pads (100 x 100 x 12 mm, 1 mm below it); inflated pads lift it.
# Chambers 1..4 are the pads at (-x, -y), (-x, +y), (+x, -y), (+x, +y). Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"

[[bodies]]
name = "membrane"
surface = "membrane.stl"
material = {{ model = "mooney-rivlin", c1 = 119.0e3, c2 = 23.0e3, density = 1080.0 }}  # Dragon Skin 20 of [Fang2022]
max_edge = 7.3
{pads}
# The rim of the membrane and the ground of the pads.
[fixed]
surface = "held.stl"
within = 0.001

# The middle of the membrane.
[tip]
sphere = [0.0, 0.0, 15.0]
radius = 15.0
"""
PAD = """
[[bodies]]
name = "pad {i}"
surface = "pad_{i}.stl"
material = {{ model = "mooney-rivlin", c1 = 119.0e3, c2 = 23.0e3, density = 1080.0 }}  # Dragon Skin 20 of [Fang2022]

[[chambers]]
surface = "chamber_{i}.stl"
"""


GRIPPER = """\
# Three PneuNet fingers (60 x 16 x 16 mm) hang from a palm, close on a ball of 40 mm and let it be pulled down.
# Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"
actuation = "actuation.toml"

[[bodies]]
name = "palm"
surface = "palm.stl"
material = {{ model = "mooney-rivlin", c1 = 119.0e3, c2 = 23.0e3, density = 1080.0 }}  # Dragon Skin 20 of [Fang2022]
max_edge = 5.0
{fingers}
[fixed]
plane = "z"
above = 7.9

# The ends of the fingers.
[tip]
plane = "z"
below = -59.9

[[environment.obstacles]]
shape = "sphere"
center = [0.0, 0.0, -40.0]
radius = 20.0
friction = 0.5
motion = [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, -2], [0, 0, -4]]

[solver]
element = "p1"              # a preview in a minute or two; remove this line for accurate forces
"""
FINGER = """
[[bodies]]
name = "finger {i}"
surface = "finger_{i}.stl"
material = {{ model = "mooney-rivlin", c1 = 41.8e3, c2 = 10.6e3, density = 1070.0 }}  # Ecoflex 00-30 of [Fang2022]

[[chambers]]
surface = "chamber_{i}.stl"
"""
CLOSE_AND_PULL = """\
# Close in three steps, then hold while the ball moves down.
[inflation]
volume_ratio = [[1.2, 1.2, 1.2], [1.4, 1.4, 1.4], [1.5, 1.5, 1.5], [1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]
"""


DEMO_GRIPPER = """\
# Three PneuNet fingers (50 x 16 x 16 mm) hang from a palm, close on a ball of 49 mm and hold it while it is pulled down.
# Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"
name = "gripper"
actuation = "actuation.toml"

[[bodies]]
name = "palm"
surface = "palm.stl"
material = {{ model = "mooney-rivlin", c1 = 119.0e3, c2 = 23.0e3, density = 1080.0 }}  # Dragon Skin 20 of [Fang2022]
max_edge = 20.0
{fingers}
[fixed]
plane = "z"
above = 7.9

# The ends of the fingers.
[tip]
plane = "z"
below = -49.9

[[environment.obstacles]]
shape = "sphere"
center = [0.0, 0.0, -38.0]
radius = 24.5
friction = 0.5
motion = [[0, 0, 0], [0, 0, -1]]
"""
DEMO_CLOSE_AND_PULL = """\
# Close, then hold while the ball moves down by 1 mm.
[inflation]
volume_ratio = [[1.45, 1.45, 1.45], [1.45, 1.45, 1.45]]
"""


DEMO_MEMBRANE = """\
# Membrane, 100 x 100 x 4 mm, over four inflatable pads (40 x 40 x 12 mm, 1.5 mm below it); inflated pads lift it.
# Chambers 1..4 are the pads at (-x, -y), (-x, +y), (+x, -y), (+x, +y). Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"
name = "membrane"
actuation = "actuation.toml"

[[bodies]]
name = "membrane"
surface = "membrane.stl"
material = {{ model = "mooney-rivlin", c1 = 119.0e3, c2 = 23.0e3, density = 1080.0 }}  # Dragon Skin 20 of [Fang2022]
max_edge = 20.0
{pads}
# The rim of the membrane and the ground of the pads.
[fixed]
surface = "held.stl"
within = 0.001

# The middle of the membrane.
[tip]
sphere = [0.0, 0.0, 15.0]
radius = 15.0

[solver]
contact_thickness = 0.02    # of an edge: less than a tenth of the gap
"""
DEMO_LIFT = """\
[inflation]
volume_ratio = [[1.4, 1.4, 1.4, 1.4], [1.8, 1.8, 1.8, 1.8]]
"""
DEMO_BELLOWS = """
[actuation.inflation]
volume_ratio = [1.1, 1.2]

[solver]
contact_thickness = 0.02    # of an edge: less than a tenth of the gap
"""


def _write_gripper(folder: Path, robot: str = GRIPPER, commands: str = CLOSE_AND_PULL, **sizes: Any) -> None:
    bodies, chambers = three_finger_gripper(**sizes)
    folder.mkdir(parents=True, exist_ok=True)
    fingers = "".join(FINGER.format(i=i) for i in range(1, len(chambers) + 1))
    (folder / "robot.toml").write_text(robot.format(fingers=fingers), encoding="utf-8")
    (folder / "actuation.toml").write_text(commands, encoding="utf-8")
    names = [
        "palm",
        *(f"finger_{i + 1}" for i in range(len(chambers))),
        *(f"chamber_{i + 1}" for i in range(len(chambers))),
    ]
    for name, surface in zip(names, [*bodies, *chambers]):
        _export(surface, folder / f"{name}.stl")


def _export(surface: Any, path: Path) -> None:
    in_mm = trimesh.Trimesh(np.asarray(surface.vertices) * 1e3, surface.faces, process=False)
    in_mm.export(str(path), file_type="stl")  # binary


def _write_membrane(folder: Path, robot: str = MEMBRANE, **sizes: float) -> None:
    bodies, chambers, held = membrane_over_chambers(**sizes)
    folder.mkdir(parents=True, exist_ok=True)
    pads = "".join(PAD.format(i=i) for i in range(1, len(chambers) + 1))
    (folder / "robot.toml").write_text(robot.format(pads=pads), encoding="utf-8")
    names = ["membrane", *(f"pad_{i + 1}" for i in range(len(chambers)))]
    for name, surface in zip(
        [*names, *(f"chamber_{i + 1}" for i in range(len(chambers))), "held"], [*bodies, *chambers, held]
    ):
        _export(surface, folder / f"{name}.stl")


TWINED_ROD = """
# A rod beside it, 32 mm thick: across the body but for 9 degrees, the slope of the turn.
[[environment.obstacles]]
shape = "cylinder"
start = [0.7, -39.5, -20.4]
end = [13.3, 39.5, -20.4]
radius = 16.0

[actuation.inflation]
volume_ratio = [6, 8]

[solver]
kind = "projective"    # a preview, in seconds; "energy" takes minutes
"""


def _write_twiner(folder: Path) -> None:
    generate.twiner().save(folder, material="dragon-skin-10-medium")
    file = folder / "robot.toml"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("# max_edge")]
    lines[0] = "# A slender cylinder twines round a rod. Made by scripts/make_meshes.py; dimensions in [design] are SI."
    lines.insert(1 + lines.index("[body]"), "max_edge = 7.0")
    file.write_text("\n".join(lines) + "\n" + TWINED_ROD, encoding="utf-8")


def _write(folder: Path, body: Any, chambers: list[Any], text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "robot.toml").write_text(text, encoding="utf-8")
    for name, surface in (("body", body), ("chamber", chambers[0])):
        _export(surface, folder / f"{name}.stl")


def make(folder: Path) -> None:
    """Write all robots into a folder."""
    _write(
        folder / "pneunet",
        *pneunet_finger(),
        HEADER.format(
            title="PneuNet finger, 110 x 20 x 20 mm: ten bellows on a thicker base, one cavity.", free="", max_edge=5.0
        )
        + CLAMPED.format(above=109.9),
    )
    _write(
        folder / "finger",
        *plain_finger(),
        HEADER.format(
            title="Plain finger, 100 x 20 x 20 mm: one straight chamber above the middle; bends down.",
            free="",
            max_edge=4.3,
        )
        + CLAMPED.format(above=99.9),
    )
    _write(
        folder / "sphere",
        *thick_sphere(),
        HEADER.format(
            title="Thick sphere, radii 10 and 20 mm: its pressure is known in closed form.", free=FREE, max_edge=3.7
        ),
    )
    _write(
        folder / "twister",
        *twister(),
        HEADER.format(
            title="Twister, a cylinder of 20 x 100 mm: a slot of 1 % of its volume winds about its axis twice.",
            free="",
            max_edge=2.7,
        )
        + CLAMPED.format(above=99.9),
    )
    _write(
        folder / "bellows",
        *pneunet_finger(length=0.1, bellows=11, gap=0.001, wall=0.0012, side=0.0015, roof=0.0015, base=0.003),
        HEADER.format(
            title="Soft finger, 100 x 20 x 20 mm: eleven thin bellows, 1 mm apart, touch when inflated.",
            free="",
            max_edge=1.98,
        )
        + CLAMPED.format(above=99.9),
    )
    _write_twiner(folder / "twiner")
    _write_membrane(folder / "membrane")
    _write_gripper(folder / "gripper")
    _make_demos(folder)


def _make_demos(folder: Path) -> None:
    """Write smaller versions of the robots that take minutes; `geosim demo` solves these."""
    _write(
        folder / "bellows" / "demo",
        *pneunet_finger(length=0.0445, bellows=5, gap=0.001, wall=0.0012, side=0.0015, roof=0.0015, base=0.003),
        HEADER.format(
            title="Soft finger, 44.5 x 20 x 20 mm: five thin bellows, 1 mm apart, touch when inflated.",
            free='name = "bellows"',
            max_edge=8.0,
        )
        + CLAMPED.format(above=44.4)
        + DEMO_BELLOWS,
    )
    sizes = {"size": 0.1, "pad": 0.04, "spacing": 0.045, "chamber": 0.034, "gap": 0.0015}
    _write_membrane(folder / "membrane" / "demo", DEMO_MEMBRANE, **sizes)
    (folder / "membrane" / "demo" / "actuation.toml").write_text(DEMO_LIFT, encoding="utf-8")
    sizes = {"length": 0.05, "inner_radius": 0.028, "bellows": 3, "wall": 0.0015, "base": 0.0025}
    _write_gripper(folder / "gripper" / "demo", DEMO_GRIPPER, DEMO_CLOSE_AND_PULL, **sizes)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "geosim" / "data" / "meshes")
