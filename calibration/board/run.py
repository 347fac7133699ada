"""Predict a robot of the board and freeze it, or compare what is frozen with what was measured.

    python calibration/board/run.py NAME [--data FOLDER]           writes predictions/NAME.csv and its line in log.csv
    python calibration/board/run.py compare NAME DATA.csv           scores it: error, coverage, width
    python calibration/board/run.py table [--data FOLDER]           scores all whose measured values are in the reference data

DATA.csv has the columns robot, load_1, load_2, measure, value (others are passed over), in the units of the predictions.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from frozen import LOG, Row, entry, freeze, read
from naive import Key, bars, interval_score, lines, sizes

BLIND = (
    "tentacle", "metacylinder", "ribbed", "pleated", "arm", "tentacle_rods", "springy", "tentacle_rubber",
    "ribbed_conditioned", "pleated_conditioned", "tentacle_conditioned",
)  # fmt: skip
# What was measured of these is in the reference data: frozen, but nobody was blind.
SHOWN = (
    "membrane", "membrane_batch", "beam", "tensile", "tensile_batch", "tentacle_folds", "metacylinder_folds", "arm_holds",
    "cylindrical", "cylindrical_fitted", "metacylinder_lattice",
)  # fmt: skip
# What a prediction knows of the robot beside presets: other loads of the same body, or a test of its batch of rubber.
BODY = (
    "tentacle_rods", "tentacle_folds", "tentacle_rubber", "metacylinder_folds", "metacylinder_lattice", "arm_holds",
    "cylindrical_fitted", "ribbed_conditioned", "pleated_conditioned", "tentacle_conditioned",
)  # fmt: skip
BATCH = ("membrane_batch", "tensile_batch")
FIRST = {
    "tentacle_folds": "tentacle",
    "metacylinder_folds": "metacylinder",
}  # under which name a model was frozen first


@dataclass(frozen=True)
class Score:
    """How predictions compare: shares of measured values inside of their intervals, and sizes.

    Parameters
    ----------
    pairs
        How many values were measured and predicted.
    coverage
        Share inside of the intervals.
    error
        Median of |predicted - measured| / |measured|, of values that are not 0.
    width
        Median of (high - low) / |measured| likewise.
    bars
        Median of |predicted - measured| over the half-width.
    winkler
        Mean interval score (`naive.py`) over the size of what was measured.
    straight
        The same of a straight line; nan where there is none.
    """

    pairs: int
    coverage: float
    error: float
    width: float
    bars: float
    winkler: float = np.nan
    straight: float = np.nan


def measured(path: Path) -> dict[tuple[str, float, float, str], float]:
    """Read measured values by the key of a prediction."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (r["robot"], round(float(r["load_1"]), 4), round(float(r["load_2"] or 0.0), 4), r["measure"]): float(r["value"])
            for r in csv.DictReader(file)
        }  # fmt: skip


def score(rows: list[Row], known: dict[tuple[str, float, float, str], float]) -> Score:
    """Score predictions against measured values.

    Raises
    ------
    ValueError
        Nothing that was predicted was measured.
    """
    pairs = [(row, known[row.key]) for row in rows if row.key in known]
    if not pairs:
        raise ValueError(
            "nothing that was predicted was measured: compare robot, load_1, load_2 and measure of both files"
        )
    return scored_pairs(pairs)


def scored_pairs(pairs: list[tuple[Row, float]]) -> Score:
    """Score predictions beside what was measured of each."""
    value, low, high, truth = (np.array(v) for v in zip(*((r.value, r.low, r.high, t) for r, t in pairs)))
    off, some = np.abs(value - truth), truth != 0.0
    half = np.where(value >= truth, value - low, high - value)
    return Score(
        len(pairs),
        float(((low <= truth) & (truth <= high)).mean()),
        float(np.median(off[some] / np.abs(truth[some]))),
        float(np.median((high - low)[some] / np.abs(truth[some]))),
        float(np.median(off / np.where(half > 0, half, np.nan))),
    )


def compare(name: str, data: Path, log: Path = LOG) -> Score:
    """Score what was frozen under a name; the log must know it and its file be unchanged."""
    entry(name, log)
    return score(read(log.parent / "predictions" / f"{name}.csv"), measured(data))


def beside(
    found: Score, rows: list[Row], known: Mapping[Key, float], straight: tuple[dict[Key, float], dict[str, float]]
) -> Score:
    """Return a score with the interval scores of the predictions and of a straight line, over values that both speak of.

    Parameters
    ----------
    straight
        Lines, and the relative errors of their bars by robot (`naive.py`).
    """
    line, wide = straight
    size = sizes(known)
    both = [r for r in rows if r.key in line and size.get(r.key, 0.0) > 0.0]
    if not both:
        return found
    truth, by = (np.array([of[r.key] for r in both]) for of in (known, size))
    value, half = np.array([line[r.key] for r in both]), by * np.array([wide[r.robot] for r in both])
    own = interval_score(np.array([r.low for r in both]), np.array([r.high for r in both]), truth) / by
    other = interval_score(value - half, value + half, truth) / by
    return replace(found, winkler=float(own.mean()), straight=float(other.mean()))


def table(data: Path, log: Path = LOG) -> list[str]:
    """Return the scores of all frozen predictions whose measured values are in the reference data, and over all of them.

    Predictions stand in the order of their interval scores, each beside that of a straight line through the other loads.

    Several predictions may be of one value, so a line counts each value once, by that which `rank` has first. Curves and
    coordinates have many values of one robot, so the last line has each prediction alike: the mean of their coverages, in
    predictions, and the medians of the rest.
    """
    from measured import SHOWN as READERS

    scored: dict[str, tuple[list[Row], dict[tuple[str, float, float, str], float]]] = {}
    for name, values in READERS.items():
        entry(name, log)
        known = {
            (robot, round(first, 4), round(float(second or 0.0), 4), measure): value
            for robot, first, second, measure, value in values(data)
        }
        scored[name] = read(log.parent / "predictions" / f"{name}.csv"), known
    head = f"{'prediction':20s} {'inside':>11s} {'median error':>13s} {'median width':>13s} {'bars':>6s}"
    everything = {key: value for _, known in scored.values() for key, value in known.items()}
    straight = lines(everything, data)
    wide = bars(straight, everything)
    whole: list[tuple[Row, float]] = []
    found: dict[str, Score] = {}
    for name, (rows, known) in scored.items():
        found[name] = beside(score(rows, known), rows, everything, (straight, wide))
        whole += [(row, known[row.key]) for row in rows if row.key in known]
    order = sorted(found, key=lambda name: np.nan_to_num(found[name].winkler, nan=np.inf))
    each = list(found.values())
    kept = ("error", "width", "bars", "winkler", "straight")
    alike = [float(np.nanmedian([getattr(s, name) for s in each])) for name in kept]
    coverage = float(np.mean([s.coverage for s in each]))
    once: dict[tuple[str, float, float, str], tuple[Row, float]] = {}
    for name in sorted(scored, key=lambda name: rank(name, log)):  # the last one is kept
        rows, known = scored[name]
        once |= {row.key: (row, known[row.key]) for row in rows if row.key in known}
    return [
        f"{head} {'interval score':>15s} {'of a line':>10s}",
        *(_line(name, found[name]) for name in order),
        _line("all", scored_pairs(whole)),
        _line("each value once", scored_pairs(list(once.values()))),
        _line("each alike", Score(len(each), coverage, *alike)),
    ]


def rank(name: str, log: Path = LOG) -> tuple[int, str]:
    """Return what says which prediction of a value counts, the largest: what it knows, then when its model was first frozen."""
    return (2 if name in BODY else 1 if name in BATCH else 0), entry(FIRST.get(name, name), log)["utc"]


def _line(name: str, found: Score) -> str:
    inside = f"{round(found.coverage * found.pairs, 1):g} of {found.pairs}"
    told = f"{name:20s} {inside:>11s} {100 * found.error:11.0f} % {100 * found.width:11.0f} % {found.bars:6.2f}"
    return told + ("" if np.isnan(found.winkler) else f" {found.winkler:15.2f} {found.straight:10.2f}")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 when something is refused."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["compare"]:
        parser = argparse.ArgumentParser(prog="run.py compare")
        parser.add_argument("name")
        parser.add_argument("data", type=Path)
        asked = parser.parse_args(given[1:])
        try:
            found = compare(asked.name, asked.data)
        except (OSError, ValueError, KeyError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write(
            f"{asked.name}: {found.pairs} values, {100 * found.coverage:.0f} % inside of their 95 % intervals; median error "
            f"{100 * found.error:.0f} %, {found.bars:.2f} bars; median width {100 * found.width:.0f} %\n"
        )
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("table", *BLIND, *SHOWN))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data")))
    parser.add_argument("--dry", action="store_true", help="show, but freeze nothing")
    asked = parser.parse_args(given)
    if asked.name == "table":
        sys.stdout.write("\n".join(table(asked.data)) + "\n")
        return 0
    module = importlib.import_module(asked.name if asked.name in BLIND else "shown")
    predict = module.predict if asked.name in BLIND else getattr(module, asked.name)
    rows, lines = predict(asked.data)
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.dry:
        for r in rows:
            sys.stdout.write(
                f"{r.robot} {r.load_1:g} {r.load_2} {r.measure} {r.value:.4g} [{r.low:.4g}, {r.high:.4g}] {r.unit}\n"
            )
        return 0
    try:
        path = freeze(asked.name, rows)
    except FileExistsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{len(rows)} predictions frozen in {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
