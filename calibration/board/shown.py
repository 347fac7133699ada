"""Robots whose measurements are in the reference data: their predictions are frozen in the same way, but nobody was blind.

membrane  pressure at the heights shown, Ecoflex 00-30 by its preset, 95 % of the scatter between laboratories
beam      displacement of its end by gravity and by 0.51 N, Dragon Skin 10 by its preset; its modulus was fitted to the second
tensile   nominal stress of pulls of Dragon Skin 20 and Ecoflex 00-30, by what other sources say of each
          (what was known without those of the record when it was frozen)
membrane_batch, tensile_batch
          the same robots from a test of their own batch: the tensile test published with the membrane; the pull up to a
          stretch of 1.4, from which larger stretches of the same pull are predicted
tentacle_folds, metacylinder_folds
          each hold of the tentacle (rod.py) and each pose of the cylinder that is shown, from the others
arm_holds the holds at 200 and 400 mbar from that at 300 alone
cylindrical
          the segment that is shown, by the same draws as the ribbed one
cylindrical_fitted
          the upper half of its two tests from the lower half of both
metacylinder_lattice
          as metacylinder_folds, with a stiffness of the lattice along the axis by itself
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import arm
import metacylinder
import numpy as np
import segment_fitted
import segment_predictions
import tentacle
from frozen import Row
from geosim.calibrate import read_test

import geosim

HERE = Path(__file__).parent
RECORD = "Marechal"  # source of the pulls: left out of what predicts them
PULLS = {
    "dragon-skin-20-fang2022": 20.0,
    "ecoflex-00-30-fang2022": 30.0,
}  # preset of another laboratory than the record's -> number in load_2
STRETCHES = np.array([1.2, 1.4, 1.6, 1.8, 2.0])
FILES = {"dragon-skin-20-fang2022": "Dragon Skin 20.csv", "ecoflex-00-30-fang2022": "Ecoflex 00-30.csv"}
# Pa: medians of the other sources when this was frozen; laboratories differed by 0.3565 of ln
MEDIANS = {"dragon-skin-20-fang2022": 284e3, "ecoflex-00-30-fang2022": 31.7e3}
SPREAD = 0.35652332136979786
TESTED = 1.4  # stretch up to which one's own pull is known
WALL_SHARE = 0.05  # a cast sheet of 2 mm is so within 0.1 mm: of the membrane, and again of the specimen of its test
MODEL_SHARE = 0.10  # first cycles and rate, of a test that says neither
BATCH_SHARES = (WALL_SHARE, WALL_SHARE, MODEL_SHARE)


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
    """Return pressures at heights by the preset."""
    rows = [_pressure(found, found["total"]) for found in reality().membrane_preset()]
    return rows, ["membrane: preset ecoflex-00-30 with its scatter"]


def membrane_batch(_data: Path) -> tuple[list[Row], list[str]]:
    """Return pressures at heights by the tensile test of its own batch: mesh, height as read, two cast thicknesses, rate."""
    rows = []
    for found in reality().membrane_tensile():
        apart = [found["own"], *(found["value"] * np.array(BATCH_SHARES))]
        rows.append(_pressure(found, found["mesh"] + float(np.linalg.norm(apart))))
    return rows, ["membrane_batch: the Gent law of its own tensile test; walls 5 % twice, rate and first cycles 10 %"]


def _pressure(found: dict[str, Any], half: float) -> Row:
    """Return the pressure at a height; a bar below zero is cut there, since a lifted weight needs a pressure."""
    value, height = found["value"], float(found["at"].split()[0])
    return Row("membrane", height, "", "pressure", "Pa", value, max(value - half, 0.0), value + half)


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
        known = geosim.materials.Knowledge(name, MEDIANS[name], SPREAD, (), f"sources without {RECORD}")
        c1, c2 = known.median / law.shear_modulus * np.array(law.constants())
        factor = known.interval()[1] / known.median
        for s in STRETCHES:
            value = 1e-3 * float(2.0 * (c1 + c2 / s) * (s - s**-2))
            rows.append(
                Row("tensile", float(s), number, "nominal_stress", "kPa", value, value / factor, value * factor)
            )
    return rows, ["tensile: load_1 is the stretch, load_2 the product (20: Dragon Skin 20, 30: Ecoflex 00-30)"]


def tensile_batch(data: Path) -> tuple[list[Row], list[str]]:
    """Return nominal stresses beyond a light pull of the same specimen.

    Beyond its test a law is not known: softest is Mooney-Rivlin with c1 = c2, stiffest without strain stiffening neo-Hookean,
    both through the stress at the end of the test. Their middle is predicted, and half of what they differ by is in the bars.
    """
    rows = []
    for name, number in PULLS.items():
        test = read_test(data / "materials" / "tensile" / FILES[name])
        order = np.argsort(test.stretch)
        order = order[test.stretch[order] <= 1.02 * TESTED]  # nothing beyond is read
        known = 1e-3 * float(np.interp(TESTED, test.stretch[order], test.nominal_stress[order]))
        for s in STRETCHES[STRETCHES > TESTED + 1e-9]:
            growth = (s - s**-2) / (TESTED - TESTED**-2)
            ends = known * growth * np.array([1.0, (1.0 + 1.0 / s) / (1.0 + 1.0 / TESTED)])
            value = float(ends.mean())
            half = float(np.hypot(0.5 * np.ptp(ends), MODEL_SHARE * value))
            rows.append(Row("tensile", float(s), number, "nominal_stress", "kPa", value, value - half, value + half))
    return rows, [f"tensile_batch: the pull up to stretch {TESTED}; beyond it between two laws"]


def tentacle_folds(data: Path) -> tuple[list[Row], list[str]]:
    """Return the tentacle's holds by rod.py, each from the others, with bars as its eighteen were frozen with."""
    return tentacle.left_out(data, tentacle.markers, lambda _, __: np.zeros(12), asked=False, twice=True)


def metacylinder_folds(data: Path) -> tuple[list[Row], list[str]]:
    """Return the cylinder's wrenches, each from the others."""
    return metacylinder.folds(data)


def metacylinder_lattice(data: Path) -> tuple[list[Row], list[str]]:
    """Return the same with a stiffness of the lattice along the axis by itself."""
    return metacylinder.folds(data, lattice=True)


def arm_holds(data: Path) -> tuple[list[Row], list[str]]:
    """Return the arm's displacements at 200 and 400 mbar."""
    return arm.holds(data)


def cylindrical(_data: Path) -> tuple[list[Row], list[str]]:
    """Return curvatures and blocked forces of the segment that is shown."""
    return segment_predictions.predict("cylindrical")


def cylindrical_fitted(data: Path) -> tuple[list[Row], list[str]]:
    """Return curvatures and blocked forces of the segment that is shown above the pressures that are fitted."""
    return segment_fitted.predict(data)
