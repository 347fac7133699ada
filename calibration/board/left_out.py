"""Robots that are shown, conditioned on a part of what is shown, judged on the rest, beside a straight line.

    python calibration/board/left_out.py solve [--data REFERENCE]     solves the models again (ten minutes)
    python calibration/board/left_out.py table [NAME ...] [--data REFERENCE]      the table of the board

Left out is each load in turn, of the arm, the cylinder, the beam and the membrane; `tentacle_conditioned.folds` does so for
the holds of the tentacle. The line and the interval score are those of `naive.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import arm as board_arm
import metacylinder
import numpy as np
from frozen import Row
from naive import BEAM_WEIGHT, Key, bars, interval_score, lines, sizes
from scipy import stats
from scipy.interpolate import PchipInterpolator

import geosim
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.rows import TestRows

FILE = Path(__file__).parent / "left_out_curves.json"
MBAR = (100, 150, 200, 250, 300, 350, 400)
ARM_MODULI = (180e3, 230e3, 290e3, 370e3)  # Young's [Pa]
BEAM_MODULI = (180e3, 260e3, 380e3)
GENT, GENT_SHARES = 31.7e3, (0.7, 1.0, 1.4)  # shear modulus of the batch's own tensile test [Pa]; what is solved with
MEMBRANE_RATIOS = (1.6, 1.6, 1.4, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 4.4, 4.8, 5.2, 5.6)  # the first without the weight
HEIGHTS = (0, 5, 10, 20, 30, 40, 50, 60, 70)  # [mm]
DRAWS, SEED = 600, 20261128
BOARD_LOADS = {
    "metacylinder": -1.0,
    "beam": -BEAM_WEIGHT,
    "membrane": -1.0,
}  # loads of the board less those here, where 0 is rest
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
        height, pressure = membrane.curve(membrane.lift(membrane.membrane(law, *reality.MESH), MEMBRANE_RATIOS))
        first = int(np.argmin(height))  # from where the disc lies lowest the height rises with every command
        return PchipInterpolator(1e3 * height[first:], pressure[first:])(HEIGHTS).tolist()

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
    """

    name: str
    unit: str
    lines: tuple[Line, ...]
    folds: np.ndarray
    model: Any
    unknowns: Mapping[str, Any]
    error: ModelError

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

    def key(self, i: int) -> Key:
        """Return what a line is a value of, as the board calls it."""
        load_1, load_2, measure, _ = self.lines[i]
        return self.name, round(load_1 + BOARD_LOADS.get(self.name, 0.0), 4), load_2, measure


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
    return Case("arm", "mm", lines, each(3), displacement, prior, ModelError(size=0.04, reading=0.02, of="load"))


def beam_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The two loads of the beam; its weight counts as a force of half of it at the end."""
    import reality

    known = {m: solved[f"beam {m:g}"] for m in BEAM_MODULI}
    pulls = np.array([BEAM_WEIGHT, BEAM_WEIGHT + 0.51012])

    def displacement(q: Mapping[str, np.ndarray], loads: np.ndarray, _measure: str) -> np.ndarray:
        found = np.exp(along(known, np.log(q["youngs_modulus"])))
        return np.array([np.interp(loads[:, 0], np.r_[0.0, pulls], np.r_[0.0, row]) for row in found])

    names = tuple(reality.FORCES)
    lines = tuple(
        (float(p), 0.0, "tip_displacement", 1e3 * float(reality._bent(n)[1].values[0])) for p, n in zip(pulls, names)
    )
    prior = {"youngs_modulus": stats.lognorm(0.35, scale=260e3)}
    # the start of the record under its weight alone may have been sagged by up to 1 mm
    return Case("beam", "mm", lines, each(2), displacement, prior, ModelError(size=0.03, reading=0.03))


def membrane_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The heights of the membrane: its thickness and modulus are not known better than its batch's test.

    Heights are off by up to 1 mm, all alike. At 0 the disc may still lie on the plate, which carries part of the weight.
    Loads here are heights and 1 mm: 0 is a membrane without pressure.
    """
    import csv

    grid = np.linspace(HEIGHTS[0], HEIGHTS[-1], 141)
    fine = [PchipInterpolator(HEIGHTS, solved[f"membrane {s:g}"])(grid) for s in GENT_SHARES]
    by_modulus = np.polyfit(np.log(GENT * np.array(GENT_SHARES)), np.log(fine), 2)

    def pressure(q: Mapping[str, np.ndarray], loads: np.ndarray, _measure: str) -> np.ndarray:
        found = np.exp(np.log(q["shear_modulus"])[:, None] ** np.arange(2, -1, -1) @ by_modulus)
        place = np.clip((loads[None, :, 0] - 1.0 + q["height_mm"][:, None]) / grid[1], 0.0, len(grid) - 1.000001)
        left = place.astype(int)
        one, other = (np.take_along_axis(found, left + k, axis=1) for k in (0, 1))
        out = one + (place - left) * (other - one)
        out = np.where(loads[:, 0] == 1.0, q["lifted"][:, None] * out, out)
        return np.where(loads[:, 0] == 0.0, 0.0, out)

    with (data / "robots" / "membrane" / "design0_14.7N_summary.csv").open(encoding="utf-8") as file:
        lines = tuple(
            (float(r["contact_height_mm(+-1)"]) + 1.0, 0.0, "pressure", float(r["pressure_Pa_median"]))
            for r in csv.DictReader(file)
        )
    prior = {"shear_modulus": stats.lognorm(0.15, scale=GENT), "height_mm": stats.norm(0.0, 0.5), "lifted": (0.0, 1.0)}
    return Case("membrane", "Pa", lines, each(len(lines)), pressure, prior, ModelError(size=0.02, reading=0.02))


def cylinder_case(data: Path, solved: Mapping[str, Any]) -> Case:
    """The wrenches of the cylinder: a modulus and an offset of the poses."""
    text = (data / "robots" / "metacylinder" / "wrench_fit.json").read_text(encoding="utf-8")
    entries = json.loads(text)
    wrench = {float(k): tuple(np.array(a) for a in solved[f"wrench {k}"]) for k in entries}
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
    return Case("metacylinder", "N", lines, folds, felt, prior, ModelError(size=0.04, apart=True))


CASES = {"arm": arm_case, "metacylinder": cylinder_case, "beam": beam_case, "membrane": membrane_case}


# ---- scores


def predicted(case: Case, fold: np.ndarray) -> list[Row]:
    """Return the conditioned predictions of a fold."""
    found: Posterior = geosim.condition(
        case.model, case.rows(~fold), case.unknowns, draws=DRAWS, seed=SEED, error=case.error
    )
    rows = []
    for i in np.flatnonzero(fold):
        load_1, load_2, measure, _ = case.lines[i]
        bar = found.predict(measure, np.array([[load_1, load_2]]))
        value, low, high = (float(v[0]) for v in (bar.value, bar.low, bar.high))
        rows.append(Row(*case.key(i)[:3], measure, case.unit, value, low, high))
    return rows


def tentacle_rows(data: Path) -> tuple[list[Row], dict[Key, float]]:
    """Return each of the tentacle's six holds from the others, and what was measured."""
    import tentacle_conditioned

    holds = np.vstack([tentacle_conditioned.tentacle.read_holds(data), tentacle_conditioned.both(data)])
    made = [
        Row("tentacle", float(h[0]), float(h[1]), name, "m", float(v), float(v), float(v))
        for h in holds
        for name, v in zip(tentacle_conditioned.NAMES, h[2:])
    ]
    return tentacle_conditioned.folds(data)[0], {row.key: row.value for row in made}


def table(data: Path, names: Sequence[str]) -> list[str]:
    """Return the table of cases beside a straight line."""
    solved = json.loads(FILE.read_text())
    rows: dict[str, list[Row]] = {}
    known: dict[Key, float] = {}
    for name in names:
        if name == "tentacle":
            rows[name], found = tentacle_rows(data)
            known |= found
            continue
        case = CASES[name](data, solved)
        rows[name] = [row for fold in case.folds for row in predicted(case, fold)]
        known |= {case.key(i): value for i, value in enumerate(case.values)}
    size, line = sizes(known), lines(known, data)
    wide = bars(line, known)
    told = ["robot          inside   half-width   interval score   of a line (its bar)"]
    for name, made in rows.items():
        truth, by, straight = (np.array([of[r.key] for r in made]) for of in (known, size, line))
        low, high = np.array([[r.low, r.high] for r in made]).T
        own = interval_score(low, high, truth) / by
        half = by * wide[name]
        other = interval_score(straight - half, straight + half, truth) / by
        inside = int(((low <= truth) & (truth <= high)).sum())
        told.append(
            f"{name:13s} {inside:2d} of {len(truth):2d} {50.0 * np.median((high - low) / by):10.1f} % {own.mean():14.2f} "
            f"{other.mean():12.2f} ({100 * wide[name]:.0f} %)"
        )
    return told


def main() -> int:
    """Solve, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("solve", "table"))
    parser.add_argument("names", nargs="*", help="Robots of the table; default all.")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data")))
    asked = parser.parse_args()
    if asked.what == "solve":
        solve_all(FILE, asked.data)
        return 0
    sys.stdout.write("\n".join(table(asked.data, asked.names or [*CASES, "tentacle"])) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
