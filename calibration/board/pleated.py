"""The pleated bending segment, nothing fitted on it: see segment_predictions.py."""

from __future__ import annotations

from pathlib import Path

import segment_predictions
from frozen import Row


def predict(_data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    return segment_predictions.predict("pleated")
