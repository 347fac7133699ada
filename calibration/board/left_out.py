"""Robots that are shown, conditioned on a part of what is shown, judged on the rest, beside a straight line.

    python calibration/board/left_out.py solve CURVES.json [--data REFERENCE]     solves the models again (ten minutes)
    python calibration/board/left_out.py table [--data REFERENCE]                 the table of the board

Left out are each hold of the arm, each wrench of the cylinder, each load of the beam, the upper half of the membrane's heights, the
upper half of the segment's two curves, each hold of the tentacle. The naive column is a straight line through what is left in,
least squares, for wrenches and markers linear in poses and tensions; its bar is the relative error that holds 95 % of what such a
line predicts of the other robots. The interval score [Gneiting, Raftery 2007, J. Am. Stat. Assoc. 102(477)] of a bar (l, u) is

    (u - l) + 40 (l - y)_+ + 40 (y - u)_+,

here over the size of what was measured; smaller is better.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import arm as board_arm
import metacylinder
import numpy as np
from frozen import Row
from scipy import stats

import geosim
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.rows import TestRows

FILE = HERE / "left_out_curves.json"
MBAR = (100, 150, 200, 250, 300, 350, 400)
ARM_MODULI = (180e3, 230e3, 290e3, 370e3)  # Young's [Pa]
BEAM_MODULI = (180e3, 260e3, 380e3)
GENT, GENT_SHARES = 31.7e3, (0.7, 1.0, 1.4)  # shear modulus of the batch's own tensile test [Pa]; what is solved with
HEIGHTS = tuple(range(10, 61, 10))  # [mm]
DRAWS, SEED = 600, 20261128
PENALTY = 2.0 / 0.05  # of the interval score at 95 %
Line = tuple[float, float, str, float]  # load_1, load_2, measure, value


# ---- what is solved


def solve_all(path: Path, data: Path) -> None:
    """Write the responses of all models: displacements of arm and beam, pressures of the membrane, wrenches of the cylinder."""
    os.environ["GEOSIM_REFERENCE_DATA"] = str(data)
    import beam
    import membrane
    import reality

    arm = board_arm.model()
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def kept(name: str, make: Callable[[], Any]) -> None:
        if name not in found:
            found[name] = make()
            path.write_text(json.dumps(found))

    def of_arm(young: float) -> list[float]:
        pressures = np.zeros((len(MBAR) + 1, 4))
        pressures[1:, 0] = 100.0 * np.array(MBAR)
        solved = geosim.solve(
            arm.arm(young, board_arm.FRAMES, board_arm.RATIO), geosim.Inflation(pressure=pressures), arm.SETTINGS[0],
            solver=arm.SETTINGS[1], throw=False,
        )  # fmt: skip
        return (1e3 * np.linalg.norm(solved.tip[1:] - solved.tip[0], axis=1)).tolist()

    def of_beam(young: float) -> list[float]:
        robot, out = beam.beam().with_materials(geosim.NeoHookean(young / 3.0)), []
        for name in reality.FORCES:
            tip = geosim.solve(robot, geosim.Passive(), reality._bent(name)[0]).tip[-1]
            out.append(1e3 * float(np.linalg.norm(tip - robot.tip_weights @ robot.vertices[robot.tip])))
        return out

    def of_membrane(share: float) -> list[float]:
        law = membrane.materials()["gent"].stiffened(share)
        height, pressure = membrane.curve(membrane.lift(membrane.membrane(law, *reality.MESH), reality.RATIOS))
        return np.interp(HEIGHTS, 1e3 * height, pressure).tolist()

    for share in GENT_SHARES:
        kept(f"membrane {share:g}", lambda share=share: of_membrane(share))
    for young in BEAM_MODULI:
        kept(f"beam {young:g}", lambda young=young: of_beam(young))
    for young in ARM_MODULI:
        kept(f"arm {young:g}", lambda young=young: of_arm(young))
    folder = data / "robots" / "metacylinder"
    model = metacylinder.read_abaqus(folder / "cylinder_linear.inp")
    for name, entry in json.loads((folder / "wrench_fit.json").read_text(encoding="utf-8")).items():
        pose = metacylinder.given(entry["input"])
        kept(f"wrench {name}", lambda pose=pose: [a.tolist() for a in metacylinder.wrenches(model, pose)[:2]])


def along(known: Mapping[float, Any], asked: np.ndarray) -> np.ndarray:
    """Return ln of values (d, m) at ln of moduli (d,), from values (m,) at moduli: polynomials of what is finite."""
    moduli = np.log(sorted(known))
    width = max(len(v) for v in known.values())
    table = np.full((len(known), width), np.nan)
    for row, key in zip(table, sorted(known)):
        row[: len(known[key])] = np.log(known[key])
    out = np.full((len(asked), width), np.nan)
    for j, column in enumerate(table.T):
        there = np.isfinite(column)
        if there.sum() > 1:
            out[:, j] = np.polyval(np.polyfit(moduli[there], column[there], min(2, there.sum() - 1)), asked)
    return out


# ---- cases


@dataclass(frozen=True)
class Case:
    """A robot that is shown.

    Parameters
    ----------
    name, unit
        Of the board; of all its measures.
    lines
        What was measured.
    folds
        Which lines are left out together, bool (folds, n).
    model, unknowns, error
        As `geosim.condition` takes them.
    inputs
        What a naive line is linear in, (n, k).
    """

    name: str
    unit: str
    lines: tuple[Line, ...]
    folds: np.ndarray
    model: Any
    unknowns: Mapping[str, Any]
    error: ModelError
    inputs: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """What was measured (n,)."""
        return np.array([line[3] for line in self.lines])

    def rows(self, kept: np.ndarray) -> TestRows:
        """Return some of the lines as rows of a test."""
        lines = [line for line, k in zip(self.lines, kept) if k]
        loads = np.array([line[:2] for line in lines])
        return TestRows(
            loads,
            tuple(line[2] for line in lines),
            np.array([line[3] for line in lines]),
            np.full(len(lines), np.nan),
            self.name,
        )

    def size(self, i: int) -> float:
        """Return what the error of a line is held against: its value, of a vector the length."""
        same = [
            line[3]
            for line in self.lines
            if line[:2] == self.lines[i][:2] and self.error.kind(line[2]) == self.error.kind(self.lines[i][2])
        ]
        return float(np.linalg.norm(same))


def each(count: int) -> np.ndarray:
    """Return folds that leave each line out."""
    return np.eye(count, dtype=bool)


def arm_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The holds of the arm: its modulus is not known, nor is the reinforcement that frames stand in for."""
    known = {m: solved[f"arm {m:g}"] for m in ARM_MODULI}

    def displacement(q: Mapping[str, np.ndarray], loads: np.ndarray, _measure: str) -> np.ndarray:
        found = along(known, np.log(q["youngs_modulus"]))
        x = np.log(np.array(MBAR))
        out = np.zeros((len(found), len(loads)))
        for i, row in enumerate(found):
            there = np.isfinite(row)
            asked = np.log(np.maximum(loads[:, 0], 1.0))
            last = np.polyfit(x[there][-2:], row[there][-2:], 1)  # on along the last slope where the wall runs away
            value = np.where(asked > x[there][-1], np.polyval(last, asked), np.interp(asked, x[there], row[there]))
            value = np.where(asked < x[0], row[0] + asked - x[0], value)
            out[i] = np.where(loads[:, 0] > 0.0, np.exp(value), 0.0)
        return out

    lines = tuple(
        (float(p), 0.0, "tip_displacement", 1e3 * board_arm.held(data / "robots" / "arm", p)) for p in (200, 300, 400)
    )
    prior = {"youngs_modulus": stats.lognorm(0.35, scale=250e3)}
    inputs = np.array([[line[0]] for line in lines])
    return Case("arm", "mm", lines, each(3), displacement, prior, ModelError(size=0.04, reading=0.02), inputs)


def beam_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The two loads of the beam; its weight counts as a force of half of it at the end."""
    import beam
    import reality

    known = {m: solved[f"beam {m:g}"] for m in BEAM_MODULI}
    robot = beam.beam()
    weight = 0.5 * 9.81 * 1070.0 * float(np.prod(beam.SIZES))
    pulls = np.array([weight, weight + 0.51012])

    def displacement(q: Mapping[str, np.ndarray], loads: np.ndarray, _measure: str) -> np.ndarray:
        found = np.exp(along(known, np.log(q["youngs_modulus"])))
        return np.array([np.interp(loads[:, 0], np.r_[0.0, pulls], np.r_[0.0, row]) for row in found])

    assert len(robot.tip)
    names = tuple(reality.FORCES)
    lines = tuple(
        (float(p), 0.0, "tip_displacement", 1e3 * float(reality._bent(n)[1].values[0])) for p, n in zip(pulls, names)
    )
    prior = {"youngs_modulus": stats.lognorm(0.35, scale=260e3)}
    # the start of the record under its weight alone may have been sagged by up to 1 mm
    return Case("beam", "mm", lines, each(2), displacement, prior, ModelError(size=0.03, reading=0.03), pulls[:, None])


def membrane_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The upper half of the membrane's heights: its thickness and modulus are not known better than its batch's test."""
    import csv

    known = {GENT * s: solved[f"membrane {s:g}"] for s in GENT_SHARES}

    def pressure(q: Mapping[str, np.ndarray], loads: np.ndarray, _measure: str) -> np.ndarray:
        found = np.exp(along(known, np.log(q["shear_modulus"])))
        x = np.r_[0.0, HEIGHTS]
        return np.array([np.interp(loads[:, 0], x, np.r_[0.0, row]) for row in found])

    with (data / "robots" / "membrane" / "design0_14.7N_summary.csv").open(encoding="utf-8") as file:
        lines = tuple(
            (float(r["contact_height_mm(+-1)"]), 0.0, "pressure", float(r["pressure_Pa_median"]))
            for r in csv.DictReader(file)
        )
    upper = np.array([line[0] > 30.0 for line in lines])
    prior = {"shear_modulus": stats.lognorm(0.15, scale=GENT)}
    inputs = np.array([[1.0, line[0]] for line in lines])  # the weight needs a pressure at no height, too
    return Case("membrane", "Pa", lines, upper[None], pressure, prior, ModelError(size=0.02, reading=0.02), inputs)


def cylinder_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The wrenches of the cylinder: a modulus and an offset of the poses."""
    text = (data / "robots" / "metacylinder" / "wrench_fit.json").read_text(encoding="utf-8")
    entries = json.loads(text)
    wrench = {float(k): tuple(np.array(a) for a in solved[f"wrench {k}"]) for k in entries}
    pose = {float(k): metacylinder.given(e["input"]) for k, e in entries.items()}
    offsets = [f"off_{i}" for i in range(6)]

    def felt(q: Mapping[str, np.ndarray], loads: np.ndarray, measure: str) -> np.ndarray:
        row = metacylinder.NAMES.index(measure)
        off = np.column_stack([q[name] for name in offsets]) * metacylinder.PRIORS[1:]
        out = np.zeros((len(off), len(loads)))
        for j, number in enumerate(loads[:, 0] - 1.0):
            if number >= 0.0:
                force, slope = wrench[number]
                out[:, j] = np.exp(q["ln_modulus"]) * (force[row] + off @ slope[row])
        return out

    lines = tuple(
        (float(k) + 1.0, 0.0, n, float(v))
        for k, e in entries.items()
        for n, v in zip(metacylinder.NAMES, e["output"].values())
    )
    folds = np.array([[line[0] == float(k) + 1.0 for line in lines] for k in entries])
    prior = {"ln_modulus": stats.norm(-0.3, 0.5)} | {name: stats.norm() for name in offsets}
    inputs = np.array([pose[line[0] - 1.0] / metacylinder.SMALL for line in lines])
    return Case("metacylinder", "N", lines, folds, felt, prior, ModelError(size=0.04, apart=True), inputs)


CASES = {"arm": arm_case, "metacylinder": cylinder_case, "beam": beam_case, "membrane": membrane_case}


# ---- scores


def naive(case: Case, fold: np.ndarray) -> np.ndarray:
    """Return what a straight line through what is left in predicts of a fold: least squares, least norm, a measure by itself."""
    out, names = np.zeros(len(case.lines)), np.array([line[2] for line in case.lines])
    for name in dict.fromkeys(names):
        mine = names == name
        seen, asked = mine & ~fold, mine & fold
        out[asked] = case.inputs[asked] @ np.linalg.lstsq(case.inputs[seen], case.values[seen], rcond=None)[0]
    return out[fold]


def predicted(case: Case, fold: np.ndarray) -> list[Row]:
    """Return the conditioned predictions of a fold."""
    found: Posterior = geosim.condition(
        case.model, case.rows(~fold), case.unknowns, draws=DRAWS, seed=SEED, error=case.error
    )
    rows = []
    for i in np.flatnonzero(fold):
        load_1, load_2, measure, _ = case.lines[i]
        bar = found.predict(measure, np.array([[load_1, load_2]]))
        rows.append(
            Row(
                case.name,
                load_1,
                load_2,
                measure,
                case.unit,
                float(bar.value[0]),
                float(bar.low[0]),
                float(bar.high[0]),
            )
        )
    return rows


def interval_score(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the interval scores of 95 % bars."""
    return np.asarray(high - low + PENALTY * (np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)))


def table(data: Path) -> list[str]:
    """Return the table of all cases beside a straight line."""
    solved = json.loads(FILE.read_text())
    found: dict[str, tuple[np.ndarray, ...]] = {}
    for name, make in CASES.items():
        case = make(data, solved)
        rows, straight, truth, size = [], [], [], []
        for fold in case.folds:
            rows += predicted(case, fold)
            straight += naive(case, fold).tolist()
            truth += case.values[fold].tolist()
            size += [case.size(i) for i in np.flatnonzero(fold)]
        bars = np.array([[r.value, r.low, r.high] for r in rows]).T
        found[name] = (*bars, np.array(straight), np.array(truth), np.array(size))
    lines = ["robot          inside   half-width   interval score   naive: half-width   interval score"]
    off = {name: np.abs(line - truth) / size for name, (_, _, _, line, truth, size) in found.items()}
    for name, (_, low, high, line, truth, size) in found.items():
        wide = float(np.mean([np.quantile(v, 0.95) for other, v in off.items() if other != name])) * size
        own, other = (np.mean(interval_score(a, b, truth) / size) for a, b in ((low, high), (line - wide, line + wide)))
        inside = int(((low <= truth) & (truth <= high)).sum())
        half = 50.0 * np.median((high - low) / size)
        lines.append(
            f"{name:14s} {inside:2d} of {len(truth):2d} {half:10.1f} % {own:14.2f} {100 * np.median(wide / size):17.0f} % {other:16.2f}"
        )
    return lines


def main() -> int:
    """Solve, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("solve", "table"))
    parser.add_argument("curves", nargs="?", type=Path, default=FILE)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data")))
    asked = parser.parse_args()
    if asked.what == "solve":
        solve_all(asked.curves, asked.data)
        return 0
    sys.stdout.write("\n".join(table(asked.data)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
