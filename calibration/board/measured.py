"""Writes what was measured of the robots that are shown, as `run.py compare` reads it: from the reference data to a folder.

python calibration/board/measured.py FOLDER [--data REFERENCE]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import arm
import metacylinder
import numpy as np
import tentacle
from geosim.calibrate import read_test
from shown import FILES, PULLS, STRETCHES, reality

Line = tuple[str, float, float | str, str, float]


def tensile(data: Path) -> Iterator[Line]:
    """Nominal stresses of the pulls [kPa]."""
    for name, number in PULLS.items():
        test = read_test(data / "materials" / "tensile" / FILES[name])
        order = np.argsort(test.stretch)
        for s in STRETCHES:
            stress = float(np.interp(s, test.stretch[order], test.nominal_stress[order]))
            yield "tensile", float(s), number, "nominal_stress", 1e-3 * stress


def membrane(data: Path) -> Iterator[Line]:
    """Median pressures at heights [Pa]."""
    with (data / "robots" / "membrane" / "design0_14.7N_summary.csv").open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            yield "membrane", float(r["contact_height_mm(+-1)"]), "", "pressure", float(r["pressure_Pa_median"])


def beam(_data: Path) -> Iterator[Line]:
    """How far the middle of the end has moved from the first frames to the last [mm], as calibration/reality.py reads it."""
    for name, force in (("gravity", 0.0), ("load52", 0.51012)):
        record = reality()._bent(name)[1]
        yield "beam", force, "", "tip_displacement", 1e3 * float(record.values[0])


def holds(data: Path) -> Iterator[Line]:
    """Places of the tentacle's markers in the four holds that are shown [m]."""
    for hold in tentacle.read_holds(data):
        for row, value in zip(tentacle.rows_of(hold[:2], hold[2:], np.zeros(12)), hold[2:]):
            yield row.robot, row.load_1, row.load_2, row.measure, float(value)


def wrenches(data: Path) -> Iterator[Line]:
    """Wrenches of the cylinder's poses that are shown [N, N mm]."""
    text = (data / "robots" / "metacylinder" / "wrench_fit.json").read_text(encoding="utf-8")
    for name, entry in json.loads(text).items():
        for measure, value in zip(metacylinder.NAMES, entry["output"].values()):
            yield "metacylinder", float(name), "", measure, float(value)


def arm_holds(data: Path) -> Iterator[Line]:
    """Mean displacements over the arm's holds [mm]."""
    for mbar in arm.SHOWN:
        yield "arm", float(mbar), "", "tip_displacement", 1e3 * arm.held(data / "robots" / "arm", mbar)


def cylindrical(data: Path) -> Iterator[Line]:
    """Curvatures [1/m] and blocked forces [N] of the segment that is shown, at every kPa, between the measured points."""
    for measure in ("curvature", "blocked_force"):
        path = data / "robots" / "segments" / f"cylindrical_{measure}.csv"
        pressure, value = np.loadtxt(path, delimiter=",", skiprows=1).T
        for p in range(1, int(pressure[-1]) + 1):
            yield "cylindrical", float(p), "", measure, float(np.interp(p, pressure, value))


# Name of a frozen prediction -> what was measured of its robot.
SHOWN = {
    "membrane": membrane, "membrane_batch": membrane, "beam": beam, "tensile": tensile, "tensile_batch": tensile,
    "tentacle_rods": holds, "tentacle_folds": holds, "tentacle_rubber": holds, "metacylinder_folds": wrenches,
    "arm_holds": arm_holds, "cylindrical": cylindrical, "cylindrical_fitted": cylindrical,
    "metacylinder_lattice": wrenches,
}  # fmt: skip


def main() -> int:
    """Write a file a robot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data")))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, rows in SHOWN.items():
        with (asked.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["robot", "load_1", "load_2", "measure", "value"])
            out.writerows(rows(asked.data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
