"""Springy, a public bellows from two STL files: how far a given volume pushes its end out, and at which pressure.

The surfaces are the public ones as they are found: six pairs of triangles cross, which `rescue` removes. Nothing measured of
it is known here. Assumed: cast of Ecoflex 00-30 by its preset, whose scatter between laboratories is the material's term;
held at its lower end, filled with a liquid (its volume is prescribed), no weight; walls within 1/50 of its height, since
surfaces come from a mould of two parts; a volume that is read within 2 % of the change; what first cycles and rate leave
out, a tenth of the change. load_1 is V/V0. Lengths are those of the files, in mm: who casts it larger scales them.
The displacement hardly asks for the modulus, which is why the volume is the load.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from frozen import Row

import geosim

RATIOS = (1.1, 1.25, 1.5)  # V/V0
VOLUME_SHARE = 0.02  # of the change of volume, that a syringe is read within
TOLERANCES = geosim.Tolerances(wall=0.1e-3, model=0.1)
SOLVER = geosim.EnergyShapeSolver(check_stability=False)
MAX_EDGE = 1.1e-3  # m: some two thousand tetrahedra, that their refinement for the bars can be solved


def robot(data: Path) -> geosim.VolumetricRobot:
    """Return the bellows of the public surfaces, held where z is least, its tip where it is largest."""
    folder = data / "meshes" / "springy_lgpl"
    made = geosim.VolumetricRobot.from_surfaces(
        folder / "Springy.stl", [folder / "Springy_Cavity.stl"], material="ecoflex-00-30", units="mm", max_edge=MAX_EDGE,
        fixed=geosim.Select.plane("z", below=0.1e-3), tip=geosim.Select.plane("z", above=4.9e-3),
        rescue=True, simplify=20e-6,
    )  # fmt: skip
    return replace(made, tolerances=TOLERANCES)


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    made = robot(data)
    rest = made.tip_weights @ made.vertices[made.tip]
    result = geosim.solve(made, geosim.Inflation(volume_ratio=RATIOS), solver=SOLVER)
    rows, lines = [], [f"{len(made.body_tets)} tetrahedra; {'; '.join(made.notices)}"]
    for frame, ratio in enumerate(RATIOS):
        read = VOLUME_SHARE * (ratio - 1.0) / (ratio - (1.0, *RATIOS)[frame])  # of the last step's change
        before = (
            (np.zeros(3), np.zeros(1))
            if frame == 0
            else (result.tip[frame - 1] - rest, result.chamber_pressures[frame - 1])
        )
        for name, unit, scale, of, start in (
            ("tip_displacement", "mm", 1e3, "tip", rest), ("pressure", "kPa", 1e-3, "chamber_pressures", np.zeros(1))
        ):  # fmt: skip
            bars = geosim.error_bars(result, of, frame=frame)
            change, last = bars.value - start, before[0] if of == "tip" else before[1]
            i = int(np.argmax(np.abs(change)))
            half = scale * float(np.hypot(bars.expected[i], read * (change[i] - last[i])))
            value = scale * float(change[i])
            rows.append(Row("springy", ratio, "", name, unit, value, value - half, value + half))
            lines.append(f"V/V0 {ratio:g}, {name}: {bars.sentence()}{'; ' + bars.note if bars.note else ''}")
    return rows, lines
