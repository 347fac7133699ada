"""The ribbed and the pleated segment, conditioned on the lower third of their own tests.

Both tests of a segment narrow the same unknowns: the floor below the channels, the shear modulus, the walls, the limit of the
chains of Gent's law, a gap and a factor at the blocked edge. What is off in the load is the discrepancy of `geosim.condition`.
Models that differ in kind (two sides of which one is passive; a narrow pleat) are averaged by the evidence of the shown part, in
which curvature and force are two kinds of load. Curves are solved by volume through limit points; under a rising pressure a
segment passes over what lies below a pressure that it had already.

    python calibration/board/segment_rounds.py CURVES.csv [NAME]         solves the curves again
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from segments import PLEATED, RIBBED, Segment, solved

import geosim

FILE = Path(__file__).parent / "segment_rounds_curves.csv"
GEOMETRIES: dict[str, dict[str, dict[str, Segment]]] = {
    "ribbed": {
        "one side": {"3": RIBBED, "7.55": replace(RIBBED, floor=7.55)},
        "two sides": {"3": replace(RIBBED, thickness=9.25)},
    },
    "pleated": {
        "broad": {"3": PLEATED, "6": replace(PLEATED, floor=6.0)},
        "narrow": {"3": replace(PLEATED, width=25.4, thickness=22.2)},
    },
}
LOCKS = {"ribbed": (25.0, 80.0), "pleated": (30.0,)}  # I1 - 3 at which chains lock
MU = {"ribbed": 20e3, "pleated": 100e3}  # of the solves [Pa]; pressures and forces are in proportion to it
RATIOS = {
    "ribbed": np.array([1.1, 1.3, 1.6, 2.0, 2.6, 3.4, 4.5, 6.0, 8.0]),
    "pleated": np.array([1.03, 1.1, 1.2, 1.4, 1.8, 2.3, 3.0, 4.0, 5.5]),
}
MEASURES = ("curvature", "blocked_force")
SECONDS = 40.0  # of CPU, a curve: those that balloon are kept as far as they come


def solve_all(path: Path, names: tuple[str, ...]) -> None:
    """Write pressures over the modulus, curvatures [1/m] and forces over the modulus [m^2] of every geometry and law."""
    known = [line.split(",")[:5] for line in path.read_text().splitlines()] if path.is_file() else []
    for name in names:
        for (group, made), lock, measure in product(GEOMETRIES[name].items(), LOCKS[name], MEASURES):
            for floor, segment in made.items():
                if (group, lock) == ("two sides", LOCKS[name][-1]) or [name, group, floor, str(lock), measure] in known:
                    continue
                mu = MU[name]
                found = solved(
                    segment, RATIOS[name], mu, measure == "blocked_force", rubber=geosim.Gent(mu, lock), seconds=SECONDS
                )
                scale = 1.0 / mu if measure == "blocked_force" else (0.5 if group == "two sides" else 1.0)
                with path.open("a", newline="", encoding="utf-8") as file:
                    csv.writer(file, lineterminator="\n").writerows(
                        [name, group, floor, lock, measure, f"{p / mu:.5g}", f"{scale * v:.5g}"] for p, v in zip(*found)
                    )


if __name__ == "__main__":
    solve_all(Path(sys.argv[1]), tuple(sys.argv[2:]) or tuple(GEOMETRIES))
