"""What a straight line would say: the column of the board's table that a model has to beat.

A line is fitted by least squares, of least norm, to the other loads of the same robot and measure: to the lower half of a curve,
which its upper half is held against, else to all others. It goes through rest; lines of the membrane and of markers have a
constant. Its bar is the relative error that holds 95 % of what such lines say of the other robots.

The interval score [Gneiting, Raftery 2007, J. Am. Stat. Assoc. 102(477)] of a bar (l, u) is

    (u - l) + 40 max(l - y, 0) + 40 max(y - u, 0),

here over the size of what was measured; smaller is better.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from metacylinder import PRIORS, given

Key = tuple[str, float, float, str]
PENALTY = 2.0 / 0.05  # of the interval score at 95 %
CURVE = 15  # values of a curve: as many lie so near that its line is fitted to the lower half
BEAM_WEIGHT = 0.472  # half of the beam's weight [N], which bends it as a force at its end
CONSTANT = ("membrane", "tentacle", "tensile")


def interval_score(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the interval scores of 95 % bars."""
    return np.asarray(high - low + PENALTY * (np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)))


def sizes(known: Mapping[Key, float]) -> dict[Key, float]:
    """Return what errors are held against: the value, or the length of the vector that it is a component of."""
    groups: dict[tuple[str, float, float, str], list[float]] = defaultdict(list)
    for (robot, a, b, measure), value in known.items():
        groups[robot, a, b, measure.rpartition("_")[0] or measure].append(value)
    return {
        key: float(np.linalg.norm(groups[key[0], key[1], key[2], key[3].rpartition("_")[0] or key[3]])) for key in known
    }


def inputs(key: Key, data: Path) -> np.ndarray:
    """Return what a line is linear in."""
    robot, a, b, _ = key
    if robot == "metacylinder":
        text = (data / "robots" / "metacylinder" / "wrench_fit.json").read_text(encoding="utf-8")
        return np.asarray(given(json.loads(text)[f"{a:g}"]["input"]) / PRIORS[1:])
    if robot == "beam":
        return np.array([a + BEAM_WEIGHT])
    found = [a - 1.0] if robot == "tensile" else [a, b] if robot == "tentacle" else [a]
    return np.array([1.0, *found] if robot in CONSTANT else found)


def lines(known: Mapping[Key, float], data: Path) -> dict[Key, float]:
    """Return what a straight line through the others says of every value that it can be held against."""
    groups: dict[tuple[str, float, str], list[Key]] = defaultdict(list)
    for key in known:
        groups[key[0], key[2] if key[0] == "tensile" else 0.0, key[3]].append(key)
    out = {}
    for keys in groups.values():
        keys.sort(key=lambda key: key[1])
        x, y = np.array([inputs(key, data) for key in keys]), np.array([known[key] for key in keys])
        lower = np.arange(len(keys)) < len(keys) // 2
        for i, key in enumerate(keys):
            seen = lower if len(keys) > CURVE else np.arange(len(keys)) != i
            if seen[i] or not seen.any():
                continue
            out[key] = float(x[i] @ np.linalg.lstsq(x[seen], y[seen], rcond=None)[0])
    return out


def bars(found: Mapping[Key, float], known: Mapping[Key, float]) -> dict[str, float]:
    """Return the relative error of lines of every robot's bar: 95 % of the errors of the other robots, in the mean."""
    size, off = sizes(known), defaultdict(list)
    for key, line in found.items():
        if size[key] > 0.0:
            off[key[0]].append(abs(line - known[key]) / size[key])
    last = {robot: float(np.quantile(errors, 0.95)) for robot, errors in off.items()}
    return {
        robot: float(np.median([v for other, v in last.items() if other != robot] or [v0]))
        for robot, v0 in last.items()
    }
