"""How well an existing robot is known: the terms of its error bars."""

from __future__ import annotations

from dataclasses import dataclass, fields

from scipy.special import ndtri

from geosim.arguments import guarded
from geosim.arrays import number

CONFIDENCE_LEVEL = 0.95  # of every interval for which no other is asked


def half_width_factor(confidence: float = CONFIDENCE_LEVEL) -> float:
    """Return the half-width of an interval of a normal at a level of confidence, over the standard deviation."""
    return float(ndtri(0.5 + 0.5 * confidence))


@guarded
@dataclass(frozen=True)
class Tolerances:
    """How well a robot and its measurement are known, as half-widths of 95 % intervals.

    Parameters
    ----------
    wall
        How far a surface may lie along its normals from where it was drawn [m].
    gauge
        How far the pressure gauge may be off [Pa].
    clamp
        How far the support may turn under load or be mounted askew [rad].
    marker
        How far from the tip the marker may sit [m].
    model
        What the model leaves out, as a share of the measure's change from rest.
    """

    wall: float = 0.0
    gauge: float = 0.0
    clamp: float = 0.0
    marker: float = 0.0
    model: float = 0.0

    def __post_init__(self) -> None:
        for f in fields(self):
            number(getattr(self, f.name), f"Tolerances: {f.name}", low=0.0)
