"""Springy, a public bellows from two STL files: how far a given volume pushes its end out, and at which pressure.

The surfaces are the public ones as they are found: six pairs of triangles cross, which `rescue` removes. Nothing measured of
it is known here. Assumed: cast of Ecoflex 00-30 by what is known of the product (`geosim.materials.knowledge`); held at its
lower end, filled with a liquid (its volume is prescribed), no weight. load_1 is V/V0. Lengths are those of the files, in mm:
who casts it larger scales them. Without weight the displacement at a volume asks for no modulus, which is why the volume is
the load; the pressure is in proportion to it.

Terms of the bars, as half-widths of 95 % intervals, independent: the mesh, with its facets, by what another mesh of a surface
that is simplified five times less changes (the refinement that `error_bars` asks for has 850,000 unknowns); walls that lie
0.1 mm, a fiftieth of the height, from where they were drawn, skin and cavity each; a volume that is read within 2 % of what
is filled in; what first cycles and rate leave out, a tenth.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from frozen import Row
from geosim.materials import Knowledge

import geosim
from geosim.response.accuracy.tolerances import offsets

RATIOS = (1.1, 1.2)  # V/V0
WALL = 0.1e-3  # m
STEP = 10e-6  # of the offsets that are solved [m]: far above the tolerance of a solve, far below a wall
VOLUME_SHARE, MODEL_SHARE = 0.02, 0.1
PRODUCT = "ecoflex-00-30-fang2022"
# of three sources of the product, when this was frozen: median [Pa] and standard deviation of its ln
KNOWN = Knowledge("ecoflex-00-30", 36799.1059959249, 0.785612891805263, (), "3 sources")
SIMPLIFIED, CLOSER = (2.0e-3, 100e-6), (1.1e-3, 20e-6)  # longest edge, how far the surface is simplified [m]
SOLVER = geosim.EnergyShapeSolver(check_stability=False)
STILL = geosim.Environment(self_contact=False)


def robot(data: Path, max_edge: float, simplify: float) -> geosim.VolumetricRobot:
    """Return the bellows of the public surfaces, held where z is least, its tip where it is largest."""
    folder = data / "meshes" / "springy_lgpl"
    return geosim.VolumetricRobot.from_surfaces(
        folder / "Springy.stl", [folder / "Springy_Cavity.stl"], material=PRODUCT, units="mm", max_edge=max_edge,
        fixed=geosim.Select.plane("z", below=0.1e-3), tip=geosim.Select.plane("z", above=4.9e-3),
        rescue=True, simplify=simplify,
    )  # fmt: skip


def answers(made: geosim.VolumetricRobot) -> np.ndarray:
    """Return the rise of the tip [mm] and the pressure [kPa] at the volumes, (volumes, 2)."""
    result = geosim.solve(made, geosim.Inflation(volume_ratio=RATIOS), STILL, solver=SOLVER)
    rest = made.tip_weights @ made.vertices[made.tip]
    return np.column_stack([1e3 * (result.tip - rest)[:, 2], 1e-3 * result.chamber_pressures[:, 0]])


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    simplified, closer = robot(data, *SIMPLIFIED), robot(data, *CLOSER)
    found, value = answers(simplified), answers(closer)
    # a volume ratio is that of the chamber as drawn: with its walls moved the same ratio is another volume, which is filled in
    walls = [
        answers(replace(simplified, vertices=simplified.vertices + STEP * motion)) - found
        for motion in offsets(simplified)
    ]
    steps = np.diff(np.vstack([np.zeros(2), value]), axis=0) / np.diff([1.0, *RATIOS])[:, None]  # per V/V0
    read = VOLUME_SHARE * (np.array(RATIOS) - 1.0)[:, None] * np.abs(steps)
    terms = {
        "mesh": np.abs(value - found),
        "walls": WALL / STEP * np.sqrt(np.sum(np.square(walls), axis=0)),
        "volume": read,
        "model": MODEL_SHARE * np.abs(value),
    }
    half = np.sqrt(np.sum([t**2 for t in terms.values()], axis=0))
    known = KNOWN
    scale = known.median / geosim.materials.get(PRODUCT).shear_modulus
    spread = np.log(known.interval()[1] / known.median)
    rows = []
    for ratio, (rise, pressure), (around, width) in zip(RATIOS, value, half):
        rows.append(Row("springy", ratio, "", "tip_rise", "mm", rise, rise - around, rise + around))
        factor = float(np.exp(np.hypot(spread, width / pressure)))
        middle = scale * pressure
        rows.append(Row("springy", ratio, "", "pressure", "kPa", middle, middle / factor, middle * factor))
    lines = [
        f"{len(simplified.body_tets)} and {len(closer.body_tets)} tetrahedra; half-widths of the rise [mm], of the pressure [%]:"
    ]
    for i, ratio in enumerate(RATIOS):
        lines += [
            f"  V/V0 {ratio:g} {name}: {t[i, 0]:.3f}, {100 * t[i, 1] / value[i, 1]:.0f}" for name, t in terms.items()
        ]
    return rows, [*lines, f"  modulus: {known.note}"]
