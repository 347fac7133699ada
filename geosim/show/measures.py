"""Plots of any measure of the frames against another."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.result import Result
from geosim.show.summary import summary_header, summary_rows
from geosim.writing import checked_target, replacing


def plot_measure(result: Result, y: str, x: str, path: str | Path) -> Path:
    """Plot a measure of the frames against another, a point a frame.

    Parameters
    ----------
    y, x
        Columns of summary.csv ("bend_angle_deg", "pressure_kpa_1"), or `work_j`; or properties of a result
        ("bend_angle", "chamber_pressures", of several chambers all in `y`, the first in `x`).
    path
        PNG, PDF or SVG.

    Raises
    ------
    InputError
        A measure is unknown or not defined for this result, the suffix is wrong, or there is no frame.
    """
    from matplotlib.figure import Figure

    path = checked_target(path, ".png", ".pdf", ".svg")
    result.checked_frame(-1)
    across = _values(result, x)
    name, values = next(iter(across.items()))
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for label, column in _values(result, y).items():
        axes.plot(values, column, marker="o", label=label)
    axes.set(xlabel=_label(name), ylabel=_label(label), title=f"{result.robot.name}: {result.status.name}")
    if len(axes.lines) > 1:
        axes.legend()
    axes.grid(alpha=0.3)
    with replacing(path) as beside:
        figure.savefig(beside, format=path.suffix[1:].lower(), dpi=150)
    return path


def _values(result: Result, name: str) -> dict[str, Floats]:
    """Columns that a name means, those alone that are finite somewhere."""
    # Properties of a result -> their columns, or what these begin with.
    column_titles = {
        "times": "load",
        "volume_ratios": "volume_ratio",
        "chamber_volumes": "volume_mm3",
        "chamber_pressures": "pressure_kpa",
        "cable_lengths": "cable_length_mm",
        "cable_tensions": "cable_tension_n",
        "bend_angle": "bend_angle_deg",
        "twist_angle": "twist_angle_deg",
        "max_von_mises": "max_von_mises_kpa",
        "work": "work_j",
    }
    key = column_titles.get(name, name)
    header = [*summary_header(result), "work_j"]
    found = [c for c in header if c == key or re.fullmatch(rf"{re.escape(key)}_\d+", c)]
    rows = summary_rows(result)
    values = {
        c: result.work if c == "work_j" else np.array([r[c] for r in rows], dtype=float) for c in found if c != "status"
    }
    values = {c: v for c, v in values.items() if np.isfinite(v).any()}
    if not values:
        known = [
            k
            for k, c in column_titles.items()
            if any(h == c or re.fullmatch(rf"{re.escape(c)}_\d+", h) for h in header)
        ]
        words = "is not defined for this result: it is nan in all frames"
        if not found:
            words = f"is no measure; choose a property ({', '.join(known)}) or a column ({', '.join(header)})"
        raise InputError(f"plot_measure: {name!r} {words}")
    return values


def _label(column: str) -> str:
    """A column's name as an axis has it: "bend angle [degrees]"."""
    words = re.sub(r"_\d+$", "", column).split("_")
    unit_labels = {"mm": "mm", "mm3": "mm^3", "kpa": "kPa", "deg": "degrees", "n": "N", "j": "J", "g": "g"}
    unit = unit_labels.get(words[-1])
    return f"{' '.join(words[:-1])} [{unit}]" if unit else " ".join(words)
