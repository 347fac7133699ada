"""The ribbed bending segment, conditioned on the lower third of its tests: see segment_conditioned.py."""

from __future__ import annotations

from pathlib import Path

import segment_conditioned
from frozen import Row


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    return segment_conditioned.predict(data, "ribbed")
