"""Make the surfaces of the robots that geosim ships: `python scripts/make_meshes.py [FOLDER]`, default meshes/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from geosim.geometry.parametric import plain_finger, pneunet_finger, thick_sphere

HEADER = """\
# {title}
# Made by scripts/make_meshes.py.
kind = "volumetric"
units = "mm"
{free}
[body]
surface = "body.stl"
material = "ecoflex-00-30"
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


def _write(folder: Path, body: Any, chambers: list[Any], text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "robot.toml").write_text(text, encoding="utf-8")
    for name, surface in (("body", body), ("chamber", chambers[0])):
        in_mm = trimesh.Trimesh(np.asarray(surface.vertices) * 1e3, surface.faces, process=False)
        in_mm.export(str(folder / f"{name}.stl"), file_type="stl")  # binary


def make(folder: Path) -> None:
    """Write all robots into a folder."""
    _write(folder / "pneunet", *pneunet_finger(),
           HEADER.format(title="PneuNet finger, 110 x 20 x 20 mm: ten bellows on a thicker base, one cavity.",
                         free="", max_edge=3.3) + CLAMPED.format(above=109.9))
    _write(folder / "finger", *plain_finger(),
           HEADER.format(title="Plain finger, 100 x 20 x 20 mm: one straight chamber above the middle; bends down.",
                         free="", max_edge=4.3) + CLAMPED.format(above=99.9))
    _write(folder / "sphere", *thick_sphere(),
           HEADER.format(title="Thick sphere, radii 10 and 20 mm: its pressure is known in closed form.",
                         free=FREE, max_edge=3.7))


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "meshes")
