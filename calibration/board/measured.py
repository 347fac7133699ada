"""Writes what was measured of the robots that are shown, as `run.py compare` reads it: from the reference data to a folder.

python calibration/board/measured.py FOLDER [--data REFERENCE]
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tentacle
from shown import FILES, PULLS, STRETCHES, reality

from geosim.calibrate import read_test

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


# Name of a frozen prediction -> what was measured of its robot.
SHOWN = {
    "membrane": membrane, "membrane_batch": membrane, "beam": beam, "tensile": tensile, "tensile_batch": tensile,
    "tentacle_rods": holds,
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
