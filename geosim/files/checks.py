"""Validation of archives of results: shapes, finite numbers, signs, and a status that fits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from geosim.contract import Status
from geosim.errors import InputError
from geosim.result import FIELDS, Result


def check_header(header: Any) -> None:
    """Refuse a header that is no table, or whose words are none.

    Raises
    ------
    InputError
        What is wrong.
    """
    if not isinstance(header, dict):
        raise InputError("its header is no table")
    if not isinstance(header.get("message"), str) or not isinstance(header.get("converged"), bool):
        raise InputError("its message or its `converged` is missing, or of another type")


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays that are no numbers: dates, texts, complex ones.

    Raises
    ------
    InputError
        Which.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name} holds {array.dtype}, not numbers")
        if name in ("result.times", "result.frames", "result.mid_edge_frames") and not np.isfinite(array).all():
            raise InputError(f"{name} holds nan or inf")
        if name.startswith("result.") and np.isinf(array).any():
            raise InputError(f"{name} holds inf")


def check_result(result: Result) -> None:
    """Refuse a result whose parts do not go together.

    Raises
    ------
    InputError
        Which, with the value.
    """
    n, k = len(result.robot.vertices), len(result.times)
    if result.frames.shape != (k, n, 3):
        raise InputError(f"frames have shape {result.frames.shape} for {k} times and {n} vertices")
    middle = result.mid_edge_frames.shape
    if middle not in ((k, 0, 3), (k, len(result.robot.p2_edges), 3)):
        raise InputError(f"mid_edge_frames have shape {middle} for {len(result.robot.p2_edges)} edges")
    if (np.diff(result.times) <= 0).any():
        raise InputError("times do not increase")
    positive_measures = ("volume_ratios", "chamber_volumes", "cable_lengths", "body_volume_ratio")
    non_negative_measures = (
        "cable_tensions",
        "max_penetration",
        "contact_count",
        "crossings",
        "inverted_elements",
        "residual",
    )
    for name in FIELDS:
        values = getattr(result, name)
        wrong = (
            values <= 0
            if name in positive_measures
            else values < 0
            if name in non_negative_measures
            else np.zeros(values.shape, bool)
        )
        if name == "stable":
            wrong = (values != 0) & (values != 1) & ~np.isnan(values)
        if wrong.any():
            raise InputError(f"{name} = {values[wrong][0]:g} is impossible")
    reached_statuses = (Status.CONVERGED, Status.ENERGY_GROWTH, Status.UNSTABLE, Status.CROSSED)
    if result.converged and (result.status not in reached_statuses or not k):
        raise InputError(f"it is said to have converged, with status {result.status.name} and {k} frames")
