"""Young's modulus of a measured cantilever from one record of its markers.

    python calibration/beam.py FOLDER

FOLDER holds beam_load52_V2_a.csv: Dragon Skin 10, 30 x 30 x 100 mm, one end clamped, gravity and 0.51012 N on the top
edge of the free end; the first frames hold the beam nearly straight, the last 50 are at rest. Its authors fitted
E = 263.8 kPa. The interval is that of the record's noise alone (rounding to 0.1 mm and single frames); how straight
the beam was held in the first frames, which no statistics of this record know, is shown by moving their window and by
what a sag of 1 mm that was missed would mean.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
from geosim.calibrate import Measurement, Parameter, fit_robot
from geosim.compare import read_markers

import geosim

AUTHORS = 263.8e3
SIZES = (0.03, 0.03, 0.10)


def bricks(sizes: tuple[float, ...], counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (n, 3), tets (m, 4) and the brick (m, 3) of every tet of a block [m] in bricks of six tets."""
    axes = [np.linspace(0, a, n + 1) for a, n in zip(sizes, counts)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(len(points)).reshape([n + 1 for n in counts])
    i, j, k = (a.ravel() for a in np.meshgrid(*(np.arange(n) for n in counts), indexing="ij"))
    corner = [index[i + a, j + b, k + c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    paths = [(0, 4, 6, 7), (0, 6, 2, 7), (0, 2, 3, 7), (0, 3, 1, 7), (0, 1, 5, 7), (0, 5, 4, 7)]
    tets = np.concatenate([np.stack([corner[a] for a in p], axis=1) for p in paths])
    return points, tets, np.tile(np.stack([i, j, k], axis=1), (6, 1))


def beam(counts: tuple[int, int, int] = (3, 3, 8)) -> geosim.VolumetricRobot:
    """Return the cantilever, clamped at z = 0."""
    points, tets, _ = bricks(SIZES, counts)
    return geosim.VolumetricRobot.from_tets(
        points,
        tets,
        material=geosim.NeoHookean(60e3),
        fixed=geosim.Select.plane("z", below=1e-6),
        tip=geosim.Select.plane("z", above=SIZES[2] - 1e-6),
    )


def main(folder: str) -> int:
    """Fit E; return 0 if it is within 5 % of the authors'."""
    data = read_markers(Path(folder) / "beam_load52_V2_a.csv")
    markers = data.positions[:, data.index("tip")]
    edge = geosim.Select.box((SIZES[0] - 1e-4, -1, SIZES[2] - 1e-4), (1, 1, 1))
    environment = geosim.Environment(gravity=(-9.81, 0, 0), loads=[geosim.Load.force(edge, (-0.51012, 0, 0))])
    moduli = []
    for label, first, sag in (
        ("first 5 frames", 5, 0.0),
        ("first 2 frames", 2, 0.0),
        ("first 20 frames", 20, 0.0),
        ("first 5 frames, 1 mm of sag missed", 5, 1e-3),
    ):
        record = Measurement.record(geosim.Passive(), markers, slice(0, first), slice(-50, None), environment)
        record = dataclasses.replace(record, values=record.values + sag)
        found = fit_robot(beam(), [record], [Parameter.youngs_modulus(200e3)])
        value, (low, high) = found.parameters["E"], found.intervals["E"]
        moduli.append(value)
        sys.stdout.write(
            f"{label}: moved {1e3 * record.values[0]:.3f} mm, sigma {1e3 * record.sigma:.3f} mm: "
            f"E {value / 1e3:.2f} kPa [95 %: {low / 1e3:.2f} .. {high / 1e3:.2f}], "
            f"{100 * (value / AUTHORS - 1):+.2f} % of the authors'\n"
        )
    return 0 if abs(moduli[0] / AUTHORS - 1) < 0.05 else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
