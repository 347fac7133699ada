"""95 % error bars held against measurements: a membrane, a beam and an arm. `python benchmarks/error_bars.py reality` runs it.

Each is predicted with what a user may know of its material: a preset whose scatter between batches is known, a tensile test, or a
calibration on a record of the robot itself, which then predicts the others. What is fitted is not judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import arm
import beam
import membrane
import numpy as np
from geosim.calibrate import Measurement, Parameter, fit, fit_robot
from geosim.compare import read_markers
from scipy.interpolate import PchipInterpolator

import geosim
from geosim.response.accuracy.bars import BAR_FACTOR, bars_of
from geosim.response.accuracy.correction import LINEAR_BAR_FACTOR, correct
from geosim.response.accuracy.material import slopes, uncertain
from geosim.response.derivatives.tangent import Tangent

DATA = Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data"))
ROBOTS = DATA / "robots"
HEIGHT = 1e-3  # how well the heights of the record are known [m], by its authors
CALIBRATED = 30.0  # height that a membrane is calibrated at [mm]
MARKER = 0.1e-3  # resolution of the beam's record [m]
SAGGED = 1e-3  # by which the beam, which was held by hand before, may have been sagged already [m]: anything up to it


def _row(at: str, measured: float, own: float, value: float, mesh: float, material: float, unit: str) -> dict[str, Any]:
    total = mesh + (0.0 if np.isnan(material) else material)
    return {"at": at, "measured": measured, "own": own, "value": value, "mesh": mesh, "material": material,
            "total": total, "unit": unit, "hit": bool(abs(value - measured) <= total)}  # fmt: skip


# ---- a membrane that lifts a weight: pressure at a height

RATIOS = (1.6, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 4.4, 4.8)
MESH = 6, 12  # rings and sectors


def _at_heights(material: Any, calibration: Any, heights: Iterable[int]) -> list[dict[str, Any]]:
    """Return a row for every measured height [mm]: bars of the pressure less slope times height, both at one volume."""
    at, median = membrane.measured(ROBOTS / "membrane")
    uncertainty = 1e3 * HEIGHT * np.gradient(median, at)
    robot = membrane.membrane(material, *MESH)
    result = membrane.lift(robot, RATIOS)
    height, pressure = membrane.curve(result)
    curve = PchipInterpolator(1e3 * height, pressure)
    used = [k for k, h in enumerate(at) if h in heights and h < 1e3 * height.max()]
    ratios = PchipInterpolator(1e3 * height, RATIOS[1:])(at[used])
    path = np.concatenate([RATIOS[:2], ratios])
    result = membrane.lift(robot, path)
    known, rows = uncertain(robot, calibration), []
    for frame, k in enumerate(used, 2):
        found, slope = correct(result, frame), float(curve.derivative()(at[k]))  # Pa/mm
        p, z = found.values("chamber_pressures"), found.values("tip")
        off = [float(a[0] - 1e3 * slope * b[2]) for a, b in zip(p, z)]
        tangent = Tangent.at(found.state)
        one, other = (slopes(tangent, of, known, membrane.SOLVER, frame) for of in ("chamber_pressures", "tip"))
        width = float(known.half_width(one[0] - 1e3 * slope * other[2]))
        mesh = (LINEAR_BAR_FACTOR if found.touches else BAR_FACTOR) * abs(off[-1] - off[0])
        rows.append(_row(f"{at[k]:.0f} mm", median[k], uncertainty[k], float(curve(at[k])), mesh, width, "Pa"))
    return rows


def membrane_preset() -> list[dict[str, Any]]:
    """The preset of another laboratory, with its scatter."""
    return _at_heights(geosim.materials.get("ecoflex-00-30-fang2022"), None, range(10, 61, 10))


def membrane_tensile() -> list[dict[str, Any]]:
    """The tensile test of its own batch, of which no scatter is published."""
    return _at_heights(membrane.materials()["gent"], None, range(10, 61, 10))


def membrane_elsewhere() -> list[dict[str, Any]]:
    """A calibration from a pull of another laboratory's batch: its interval knows its own noise alone."""
    found = fit(DATA / "materials" / "tensile" / "Ecoflex 00-30.csv", "yeoh", toe="none")
    return _at_heights(found.material, found, range(10, 61, 10))


def membrane_calibrated() -> list[dict[str, Any]]:
    """The shear modulus from the pressure at one height of the record; what it predicts at the others."""
    at, median = membrane.measured(ROBOTS / "membrane")
    pressure = float(median[at == CALIBRATED][0])
    slope = np.gradient(median, 1e-3 * at)[at == CALIBRATED][0]  # Pa/m

    def observe(result: Any) -> Any:
        h, p = membrane.curve(result)
        return np.atleast_1d(PchipInterpolator(1e3 * h, p)(CALIBRATED))

    robot = membrane.membrane(membrane.materials()["gent"], *MESH)
    ratios = np.array(RATIOS[:6])
    record = Measurement(geosim.Inflation(volume_ratio=ratios), observe, np.array([pressure]),
                         membrane.hanging(robot, len(ratios)), 0.5 * HEIGHT * slope)  # fmt: skip
    found = fit_robot(robot, [record], [Parameter.material("mu", membrane.MU)], solver=membrane.SOLVER, tolerance=1e-3)
    others = [h for h in range(10, 61, 10) if h != CALIBRATED]
    return _at_heights(next(iter(found.robot.materials.values())), found, others)


# ---- a cantilever under gravity, with and without a force at its end: how far its end moves

FORCES = {"gravity": 0.0, "load52": 0.51012}


def _bent(name: str) -> tuple[Any, Measurement]:
    """Return the environment of a record of the beam, and the record."""
    edge = geosim.Select.box((beam.SIZES[0] - 1e-4, -1, beam.SIZES[2] - 1e-4), (1, 1, 1))
    force = (-FORCES[name], 0.0, 0.0)
    loads = [geosim.Load.force(edge, force)] if FORCES[name] else []
    environment = geosim.Environment(gravity=(-9.81, 0, 0), loads=loads, self_contact=False)
    data = read_markers(ROBOTS / "beam" / f"beam_{name}_V2_a.csv")
    markers = data.positions[:, data.index("tip")]
    return environment, Measurement.record(geosim.Passive(), markers, slice(0, 5), slice(-50, None), environment)


def _end(robot: Any, name: str, calibration: Any) -> dict[str, Any]:
    """Return the row of a record of the beam."""
    environment, record = _bent(name)
    result = geosim.solve(robot, geosim.Passive(), environment)
    rest = robot.tip_weights @ robot.vertices[robot.tip]
    value, mesh, material = _distance(result, rest, calibration, -1)
    own = max(1.96 * record.sigma, MARKER)
    return _row(name, 1e3 * float(record.values[0]), 1e3 * own, 1e3 * value, 1e3 * mesh, 1e3 * material, "mm")


def _distance(result: Any, rest: Any, calibration: Any, frame: int) -> tuple[float, float, float]:
    """Return how far the tip is from a place [m], with its bars: those of the components along the way."""
    (bars,) = bars_of(result, ("tip",), calibration, frame)
    away = bars.value - rest
    along = np.abs(away) / np.linalg.norm(away)
    return float(np.linalg.norm(away)), float(along @ bars.mesh), float(along @ bars.material)


def beam_preset() -> list[dict[str, Any]]:
    """The preset, whose modulus the authors fitted to the record with the force, with its scatter."""
    robot = beam.beam().with_materials(geosim.materials.get("dragon-skin-10-dubied2022"))
    return [_end(robot, name, None) for name in FORCES]


def _calibrated_on(name: str, other: str, sigma: float = 0.0) -> list[dict[str, Any]]:
    record = _bent(name)[1]
    record = replace(record, sigma=float(np.hypot(record.sigma, sigma)))
    found = fit_robot(beam.beam(), [record], [Parameter.youngs_modulus(260e3)], tolerance=1e-3)
    return [_end(found.robot, other, found)]


def beam_by_gravity() -> list[dict[str, Any]]:
    """Young's modulus from the record of gravity alone, as well as its frames know it."""
    return _calibrated_on("gravity", "load52")


def beam_by_sag() -> list[dict[str, Any]]:
    """The same with a standard deviation for how straight it was held: uniform between nothing and what may have been missed."""
    return _calibrated_on("gravity", "load52", SAGGED / np.sqrt(12.0))


def beam_by_load() -> list[dict[str, Any]]:
    """Young's modulus from the record with the force."""
    return _calibrated_on("load52", "gravity")


LONGEST = 200.0  # seconds that a command of the arm may take, on its mesh and again on the refined one

# ---- an arm of four chambers, one under pressure: how far its tip moves


def _arm(mbar: int, frames: int = 8, ratio: float = 30.0) -> list[dict[str, Any]]:
    """Young's modulus from the hold at 200 mbar, with frames for its fibres; what it predicts at another pressure."""
    folder = ROBOTS / "arm"
    found = arm.calibrate(folder, arm.arm(arm.FIRST, frames, ratio))
    limited = replace(arm.SETTINGS[1], max_seconds=LONGEST)
    result = geosim.solve(found.robot, arm.inflation(mbar), arm.SETTINGS[0], solver=limited, throw=False)
    start, end, _ = arm.holds(folder, mbar)
    middle, creep = 500.0 * (start + end), 500.0 * (end - start)
    if not result.converged:
        row = _row(f"{mbar} mbar", middle, creep, float("nan"), float("nan"), float("nan"), "mm")
        return [{**row, "total": float("nan"), "why": f"not solved within {LONGEST:.0f} s: {result.message}"}]
    try:
        value, mesh, material = (1e3 * v for v in _distance(result, result.tip[0], found, -1))
    except geosim.InputError as error:
        value = 1e3 * float(arm.moved(result)[0])
        row = _row(f"{mbar} mbar", middle, creep, value, float("nan"), float("nan"), "mm")
        return [{**row, "total": float("nan"), "why": str(error)}]
    return [_row(f"{mbar} mbar", middle, creep, value, mesh, material, "mm")]


REALITY: dict[str, tuple[Callable[[], list[dict[str, Any]]], str]] = {
    "membrane-preset": (membrane_preset, "scatter of a preset between three laboratories"),
    "membrane-tensile": (membrane_tensile, "tensile test of the batch, no interval published: mesh alone"),
    "membrane-elsewhere": (membrane_elsewhere, "calibration of another laboratory's batch"),
    "membrane-calibrated": (membrane_calibrated, f"calibrated at {CALIBRATED:.0f} mm"),
    "beam-preset": (beam_preset, "scatter of a preset between two laboratories"),
    "beam-by-gravity": (beam_by_gravity, "calibrated on gravity alone, sigma of the record's noise"),
    "beam-by-sag": (beam_by_sag, "calibrated on gravity alone, sigma with a start that may be sagged by up to 1 mm"),
    "beam-by-load": (beam_by_load, "calibrated on gravity and 0.51 N, sigma of the record's noise"),
    "arm-300": (lambda: _arm(300), "calibrated at 200 mbar, 8 frames 30 x as stiff"),
    "arm-400": (lambda: _arm(400), "calibrated at 200 mbar, 8 frames 30 x as stiff"),
}  # fmt: skip

LEFT_OUT = """\
Not in the bars: the model (where the membrane is clamped and how its disc is bonded, frames for fibres that are not published,
the law where it is stretched beyond its tests), the rate (holds creep by 6 to 9 % within seconds), the batch unless a scatter
between batches is given, what was made otherwise than drawn, and how the record was taken (how straight the beam was held)."""


def reality(name: str) -> list[dict[str, Any]]:
    """Return the rows of a case."""
    run, basis = REALITY[name]
    return [{"case": name, "basis": basis, **row} for row in run()]


def show_reality(rows: list[dict[str, Any]]) -> None:
    """Show every measurement beside its prediction with its bar."""
    arm.show(
        f"{'case':20s} {'at':>9s} {'measured (its own error)':>26s} {'predicted':>10s} {'mesh':>8s} {'material':>9s} "
        f"{'total':>8s} {'off %':>7s}"
    )
    for name in dict.fromkeys(r["case"] for r in rows):
        mine = [r for r in rows if r["case"] == name]
        for r in mine:
            off = r["value"] - r["measured"]
            near = abs(off) <= r["total"] + r["own"]
            said = "hit" if r["hit"] else "miss by less than the measurement's own error" if near else "miss"
            said = f"no bar: {r['why']}" if "why" in r else said
            arm.show(
                f"{name:20s} {r['at']:>9s} {r['measured']:12.4g} +- {r['own']:7.3g} {r['unit']:3s} {r['value']:10.4g} "
                f"{r['mesh']:8.2g} {r['material']:9.2g} {r['total']:8.2g} {100 * off / r['measured']:+7.1f} {said}"
            )
        arm.show(f"{name}: {sum(r['hit'] for r in mine)} of {len(mine)} hit; {mine[0]['basis']}")
    arm.show(LEFT_OUT)
