"""Robots whose measurements are in the reference data: their predictions are frozen in the same way, but nobody was blind.

membrane  pressure at the heights shown, Ecoflex 00-30 by its preset, 95 % of the scatter between laboratories
beam      displacement of its end by gravity and by 0.51 N, Dragon Skin 10 by its preset; its modulus was fitted to the second
tensile   nominal stress of pulls of Dragon Skin 20 and Ecoflex 00-30, by what other sources say of each
          (geosim.materials.knowledge without those of the record)
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
from frozen import Row

import geosim

HERE = Path(__file__).parent
RECORD = "Marechal"  # source of the pulls: left out of what predicts them
PULLS = {
    "dragon-skin-20": 20.0,
    "ecoflex-00-30": 30.0,
}  # preset of another laboratory than the record's -> number in load_2
STRETCHES = np.array([1.2, 1.4, 1.6, 1.8, 2.0])


def reality() -> ModuleType:
    """Return calibration/reality.py."""
    sys.path.insert(0, str(HERE.parent))
    place = importlib.util.spec_from_file_location("reality", HERE.parent / "reality.py")
    assert place is not None
    assert place.loader is not None
    made = importlib.util.module_from_spec(place)
    place.loader.exec_module(made)
    return made


def membrane(_data: Path) -> tuple[list[Row], list[str]]:
    """Return pressures at heights; bars below zero are cut there, since a lifted weight needs a pressure."""
    rows = []
    for found in reality().membrane_preset():
        value, total = found["value"], found["total"]
        rows.append(
            Row(
                "membrane",
                float(found["at"].split()[0]),
                "",
                "pressure",
                "Pa",
                value,
                max(value - total, 0.0),
                value + total,
            )
        )
    return rows, ["membrane: preset ecoflex-00-30 with its scatter"]


def beam(_data: Path) -> tuple[list[Row], list[str]]:
    """Return displacements of the end under gravity and with the force, and the bars of mesh and material."""
    rows = []
    for found, force in zip(reality().beam_preset(), (0.0, 0.51012)):
        value, total = found["value"], found["total"] + found["own"]
        rows.append(Row("beam", force, "", "tip_displacement", "mm", value, max(value - total, 0.0), value + total))
    return rows, ["beam: preset dragon-skin-10 with its scatter; the resolution of the record added"]


def tensile(_data: Path) -> tuple[list[Row], list[str]]:
    """Return nominal stresses at stretches by the constants of another laboratory."""
    rows = []
    for name, number in PULLS.items():
        law = geosim.materials.get(name)
        assert isinstance(law, geosim.MooneyRivlin)
        known = geosim.materials.knowledge(name, without=RECORD)
        c1, c2 = known.median / law.shear_modulus * np.array(law.constants())
        factor = known.interval()[1] / known.median
        for s in STRETCHES:
            value = 1e-3 * float(2.0 * (c1 + c2 / s) * (s - s**-2))
            rows.append(
                Row("tensile", float(s), number, "nominal_stress", "kPa", value, value / factor, value * factor)
            )
    return rows, ["tensile: load_1 is the stretch, load_2 the product (20: Dragon Skin 20, 30: Ecoflex 00-30)"]
