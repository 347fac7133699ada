"""Error bars of every frame, kept with a result: columns of summary.csv, of the table and of the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.errors import InputError
from geosim.response.accuracy.bars import bars_of
from geosim.result import Result, told


def with_error_bars(result: Result) -> tuple[Result, list[str]]:
    """Return a result that holds the bars of tip [m], bend angle [rad] and pressures [Pa], and why some are not known.

    `extra` of the result has (k,) arrays tip_error_mesh, tip_error_material, ..., pressure_error_total: of the tip the length of
    its vector, of pressures the largest. What does not apply or is not known is nan.
    """
    error_parts = ("mesh", "material", "total")
    measure_columns = {
        "tip": "tip",
        "bend_angle": "bend_angle",
        "chamber_pressures": "pressure",
    }  # measure -> its name in the columns
    found = {
        f"{name}_error_{part}": np.full(len(result.frames), np.nan)
        for name in measure_columns.values()
        for part in error_parts
    }
    present = {"tip": True, "bend_angle": result.spine is not None, "chamber_pressures": result.robot.chambers > 0}
    measures = tuple(of for of in measure_columns if present[of])
    notes: dict[str, None] = {}
    for frame in range(len(result.frames)):
        try:
            bars = bars_of(result, measures, frame=frame)
        except InputError as error:
            notes[f"frame {frame}: {error}"] = None
            continue
        for of, bar in zip(measures, bars):
            for part in error_parts:
                size = np.linalg.norm if of == "tip" else np.max
                found[f"{measure_columns[of]}_error_{part}"][frame] = size(getattr(bar, part))
            if bar.note:
                notes[f"error bars: {bar.note}"] = None
    return told(replace(result, extra={**result.extra, **found})), list(notes)
