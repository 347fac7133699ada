"""A silicone arm of four chambers: calibrated at 200 mbar, predicted at 300 and 400 mbar, against its markers.

    python calibration/arm.py FOLDER [solid] [framed]

FOLDER holds arm_200mbar_V3.csv, arm_300mbar_V3.csv and arm_400mbar_V3.csv: 7 markers, rest -> inflate -> hold -> release.
The arm hangs down, about 100 mm long: outer radius 22.22 mm, wall 2.03 mm, square core |x| + |y| = 10.11 mm, end plug
6.93 mm; between the chambers ribs as thick as the wall (assumed). Its base is a fixed plate that closes the chambers
there, too. One chamber is inflated, a neo-Hookean E is fitted to the tip displacement of the 200 mbar hold, and the
others follow. The silicone creeps during the hold, so measured are its first and last tenth.

What keeps the wall from ballooning is not published, and it decides: `solid`, one material without it, is pushed
sideways by about two millimetres before its wall runs away, at any modulus tried (an inflating wall shortens, and pulls the
arm back). `framed` stands in for fibres with frames: slices of the cross-section FRAME_RATIO times as stiff, which
hold the wall round between soft slices. E is that of the soft slices. Several numbers and stiffnesses of frames are
calibrated at 200 mbar each; how far their predictions differ is what that ignorance costs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from geosim.calibrate import Measurement, Parameter, RobotCalibration, fit_robot
from geosim.compare import read_markers

import geosim
from geosim.errors import SolveError
from geosim.solve import solve

OUTER, WALL, CORE, PLUG, LENGTH = 0.02222, 0.00203, 0.01011, 0.00693, 0.100
FRAME_RATIO, FRAME_SHARE = 30.0, 0.4
FRAME = 5  # region of the frames; 0 is the rest of the body, 1 .. 4 the chambers
FIRST = 220e3  # Young's modulus to begin with [Pa]


def section(cells: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (n, 2), triangles and their regions of the cross-section, `cells` around each chamber."""
    rings = []
    for level in range(3):
        ring = []
        for quadrant in range(4):
            # from rib to rib: the edges of a rib are parallel, half a wall from its middle
            reach = (None, OUTER - WALL, OUTER)[level]
            low = np.arctan2(0.5 * WALL, CORE - 0.5 * WALL) if reach is None else np.arcsin(0.5 * WALL / reach)
            angle = np.linspace(low, 0.5 * np.pi - low, cells + 1)
            radius = CORE / (np.cos(angle) + np.sin(angle)) if reach is None else np.full(len(angle), reach)
            angle = angle + 0.5 * np.pi * quadrant
            ring.append(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]))
        rings.append(np.concatenate(ring))
    m = 4 * (cells + 1)
    points = np.vstack([[(0.0, 0.0)], *rings])
    triangles, regions = [], []
    for k in range(m):
        a, b, c = ((1 + level * m + k, 1 + level * m + (k + 1) % m) for level in range(3))
        chamber = 1 + k // (cells + 1) if k % (cells + 1) < cells else 0
        triangles += [(0, *a), (a[0], b[0], b[1]), (a[0], b[1], a[1]), (b[0], c[0], c[1]), (b[0], c[1], b[1])]
        regions += [0, chamber, chamber, 0, 0]
    return points, np.array(triangles), np.array(regions)


def arm(modulus: float = FIRST, frames: int = 12, ratio: float = FRAME_RATIO, cells: int = 2) -> geosim.VolumetricRobot:
    """Return the arm, hanging from z = 0, of Young's modulus [Pa], with frames `ratio` times as stiff along it."""
    flat, triangles, kinds = section(cells)
    n, pitch = len(flat), (LENGTH - PLUG) / frames
    levels = [z for i in range(frames) for z in (i * pitch, (i + 1 - FRAME_SHARE) * pitch)] + [LENGTH - PLUG, LENGTH]
    points = np.vstack([np.column_stack([flat, np.full(n, -z)]) for z in levels])
    slices = frames * [kinds, np.where(kinds == 0, FRAME, kinds)] + [np.zeros_like(kinds)]
    a, b, c = np.sort(triangles, axis=1).T  # one order, so that prisms agree on their common faces
    tets = [
        np.stack(t, axis=1) + n * i
        for i in range(len(slices))
        for t in ((a, b, c, c + n), (a, b, b + n, c + n), (a, a + n, b + n, c + n))
    ]
    parts = {0: geosim.NeoHookean(modulus / 3.0), FRAME: geosim.NeoHookean(ratio * modulus / 3.0)}
    return geosim.VolumetricRobot.from_tets(
        points,
        np.concatenate(tets),
        np.concatenate([np.tile(k, 3) for k in slices]),
        material=parts,
        fixed=geosim.Select.plane("z", above=-1e-6),
        tip=geosim.Select.plane("z", below=-LENGTH + 1e-6),
    )


def holds(folder: str | Path, mbar: int) -> tuple[float, float, float]:
    """Return the displacement of the tip markers' mean at the start and the end of the hold, and its noise at rest [m]."""
    data = read_markers(Path(folder) / f"arm_{mbar}mbar_V3.csv")
    tips = [i for i, name in enumerate(data.names) if name.startswith("tip")]
    tip = np.nanmean(data.positions[:, tips], axis=1)
    moved = np.linalg.norm(tip - tip[:20].mean(axis=0), axis=1)
    held = np.flatnonzero(moved > 0.9 * moved.max())
    tenth = max(1, len(held) // 10)
    return float(moved[held[:tenth]].mean()), float(moved[held[-tenth:]].mean()), float(moved[:20].std())


def moved(result: geosim.Result) -> Any:
    """Return the displacement of the tip from hanging at rest to the last pressure [m], shape (1,)."""
    return np.linalg.norm(result.tip[-1:] - result.tip[0], axis=1)


def inflation(mbar: float) -> geosim.Inflation:
    """Return the first chamber at rest and at a pressure, the others open."""
    return geosim.Inflation(pressure=np.array([[0.0, 0, 0, 0], [100.0 * mbar, 0, 0, 0]]))


SETTINGS = (
    geosim.Environment(gravity=(0, 0, -9.81), self_contact=False),
    geosim.EnergyShapeSolver(check_stability=False, invariants="isochoric"),
)


def calibrate(folder: str | Path, robot: geosim.VolumetricRobot, mbar: int = 200) -> RobotCalibration:
    """Fit E to the middle of a hold; its standard deviation is half of what the hold creeps by."""
    start, end, noise = holds(folder, mbar)
    sigma = max(0.5 * (end - start), noise)
    record = Measurement(inflation(mbar), moved, np.array([0.5 * (start + end)]), SETTINGS[0], sigma, f"{mbar} mbar")
    return fit_robot(robot, [record], [Parameter.youngs_modulus(FIRST)], solver=SETTINGS[1], tolerance=1e-3)


def show(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tip_at(robot: geosim.VolumetricRobot, mbar: int) -> float:
    """Return the displacement of the tip at a pressure [m], nan where the wall runs away."""
    try:
        return float(moved(solve(robot, inflation(mbar), SETTINGS[0], solver=SETTINGS[1]))[0])
    except SolveError:
        return float("nan")


def solid() -> None:
    """Show what an arm of one material does at 200 mbar, whatever its modulus."""
    for modulus in (264e3, 600e3, 700e3, 800e3, 1000e3, 1500e3):
        show(
            f"solid, E {modulus / 1e3:6.0f} kPa, 200 mbar: tip moves {1e3 * tip_at(arm(modulus, 8, 1.0), 200):.2f} mm "
            f"(nan: no equilibrium was reached)"
        )


def framed(folder: str) -> None:
    """Calibrate arms with frames at 200 mbar and predict 300 and 400 mbar."""
    for frames, ratio in ((12, 30.0), (12, 100.0), (8, 30.0), (18, 30.0)):
        robot = arm(FIRST, frames, ratio)
        found = calibrate(folder, robot)
        show(f"{frames} frames {ratio:g} x as stiff, {int(robot.is_body.sum())} body tets, calibrated at 200 mbar:")
        for line in found.lines():
            show(f"  {line}")
        for mbar in (200, 300, 400):
            start, end, _ = holds(folder, mbar)
            tip = tip_at(found.robot, mbar)
            show(
                f"  {mbar} mbar: measured {1e3 * start:.2f} .. {1e3 * end:.2f} mm (creep), computed {1e3 * tip:.2f} mm: "
                f"{100 * (2.0 * tip / (start + end) - 1):+.1f} % of the middle ({100 * (tip / start - 1):+.1f} % of the "
                f"start, {100 * (tip / end - 1):+.1f} % of the end)"
            )


def main(folder: str, *variants: str) -> int:
    """Calibrate and predict; return 0."""
    for name in variants or ("solid", "framed"):
        if name == "solid":
            solid()
        else:
            framed(folder)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
