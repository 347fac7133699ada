"""The tentacle once more, with a section of rubber instead of a linear one.

The unknowns and their priors are those of `tentacle.py`; the section has none, and asks for no number that is not published:
its fibres are neo-Hookean (`rod.py`). Pulled at by 7.7 N the thin end is pressed together by an eighth, and is then half as
stiff again in bending. A bar of that thin end by finite elements, pulled at by nine cables spread over its section and
pressed together by 5 %, turns as such a rod within 2 %, where a linear one turns by more than a tenth too much
(tests/board/test_rod.py).

Two more variants were tried and given up, since they ask for numbers that nobody has published: markers of some grams and
motors that are off by some percent as further unknowns (42.7 mm at the tip in the mean over left-out holds), and channels
of 1 mm that yield to tendons which go round a bend, by the line load in an infinite solid (21.5 mm).

The rod has twice the segments of `tentacle.py` (16 move the tip by 4 mm at 7.7 N); what half of them change is in the bars.
Bars are narrower than those of `tentacle.py` for their argument alone: errors of left-out holds have the part of the unknowns
in them, which is not added to them again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tentacle
from frozen import Row
from rod import Shape, bend
from scipy.spatial.transform import Rotation

SEGMENTS, END = 32, 10  # of the cone with tendons, of the one beyond


class Markers:
    """Where the markers are by tensions and unknowns; begins from the shape found last at the same tensions, for speed."""

    def __init__(self, count: int = SEGMENTS, end: int = END) -> None:
        self.rod = tentacle.rod(count, end)
        self.last: dict[tuple[float, ...], Shape] = {}

    def __call__(self, tensions: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return places [m], (12,), at tensions [N] with unknowns in units of their priors."""
        ln_e, ln_rho, *rest = z * tentacle.PRIORS
        base = Rotation.from_rotvec(rest[3:6]).as_matrix() @ tentacle.HANGING
        at = tuple(tensions)
        shape = bend(
            self.rod, tentacle.MODULUS * np.exp(ln_e), tentacle.DENSITY * np.exp(ln_rho), tensions, base,
            max(tentacle.FRICTION + rest[6], 0.0), start=self.last.get(at), rubber=True,
        )  # fmt: skip
        self.last[at] = shape
        return np.concatenate([shape.at(self.rod, *m) + rest[:3] for m in tentacle.MARKERS])


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    fine, coarse = Markers(), Markers(SEGMENTS // 2, END // 2)
    return tentacle.left_out(data, fine, lambda pull, z: np.abs(fine(pull, z) - coarse(pull, z)))
