"""Three bending segments: curvature and blocked force against pressure. The ribbed and the pleated one are predicted.

Published are outer sizes, and the sizes and numbers of the channels, not where they lie. The model is a grid of cells,
half of the width (it is symmetric), held at x = 0: a film below that does not stretch (0.3 mm, a shear modulus of 100
times that of the rubber), a floor, channels across with their canal, a roof. It bends towards -z. Curvature is that of
the arc through base and tip. For the blocked force the lower edge of the tip is held against moving along z.

    python calibration/board/segments.py CURVES.csv          solves every geometry again (two minutes)

The frozen predictions rest on segment_curves.csv, which this wrote when they were frozen.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import geosim

MM = 1e-3
FILM, FILM_RATIO = 0.3, 100.0  # thickness [mm], stiffness over that of the rubber
STIFFENING = (
    0.015  # c2 / c1 of Yeoh: 1 / (2 Jm) of the Gent law with Jm = 39.6 of a tensile test of Ecoflex 00-30 is 0.013
)
BODY, CHAMBER, SHEET = 0, 1, 2
# Corners of a cell 0 .. 7, bits x, y, z: six tetrahedra around its diagonal from 0 to 7 agree on common faces [Kuhn 1960].
KUHN = np.array([[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]])


@dataclass(frozen=True)
class Segment:
    """Sizes in mm: outer ones, of the channels (along x, across, high), their number, the canal (wide, high), the floor below.

    gap: depth of notches between the channels from above, 0 for none.
    """

    length: float
    width: float
    thickness: float
    count: int
    channel: tuple[float, float, float]
    canal: tuple[float, float]
    floor: float
    wall: float | None = None  # of a pleat along x, the rest of the pitch is notch; None: no notches
    roof: float | None = None  # above the notches' bottom, which lies as high as the canal's roof

    def planes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return coordinates of the grid's planes [mm]."""
        pitch = self.length / self.count
        thick, across, high = self.channel
        x = [0.0, self.length]
        for k in range(self.count):
            middle = (k + 0.5) * pitch
            cuts = [0.5 * thick] + ([0.5 * thick + self.wall] if self.wall else [])
            x += [middle + s * c for c in cuts for s in (-1, 1)]
        low, top = FILM + self.floor, FILM + self.floor + high
        z = [0.0, FILM, low, low + self.canal[1], top, self.thickness]
        y = [0.0, 0.5 * self.canal[0], 0.5 * across, 0.5 * self.width]
        return tuple(_refined(v, limit) for v, limit in ((x, 6.0), (y, 5.0), (z, 5.0)))

    def regions(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the region of places [mm], -1 where there is nothing."""
        pitch = self.length / self.count
        thick, across, high = self.channel
        off = np.abs((x % pitch) - 0.5 * pitch)
        low = FILM + self.floor
        within = (z > low) & (z < low + high) & (y < 0.5 * across) & (off < 0.5 * thick)
        ends = (x < 0.5 * pitch) | (x > self.length - 0.5 * pitch)
        joined = (z > low) & (z < low + self.canal[1]) & (y < 0.5 * self.canal[0]) & ~(ends & (off > 0.5 * thick))
        out = np.where(z < FILM, SHEET, np.where(within | joined, CHAMBER, BODY))
        if self.wall:
            notch = (off > 0.5 * thick + self.wall) & (z > low + self.canal[1] + self.roof) & ~ends
            out = np.where(notch, -1, out)
        return out


def _refined(cuts: list[float], limit: float) -> np.ndarray:
    """Return sorted cuts with cells of at most a limit between."""
    cuts = np.unique(np.round(cuts, 6))
    return np.concatenate(
        [np.linspace(a, b, max(2, int(np.ceil((b - a) / limit)) + 1))[:-1] for a, b in pairwise(cuts)] + [cuts[-1:]]
    )


def robot(segment: Segment, mu: float, rubber: geosim.Gent | None = None) -> geosim.VolumetricRobot:
    """Return half of a segment of a rubber of shear modulus mu [Pa], by default Yeoh's with STIFFENING, or as given."""
    planes = segment.planes()
    if segment.wall:
        level = FILM + segment.floor + segment.canal[1] + segment.roof
        planes = (planes[0], planes[1], np.unique(np.append(planes[2], level)))
    shape = tuple(len(p) for p in planes)
    points = np.stack(np.meshgrid(*planes, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(np.prod(shape)).reshape(shape)
    corners = np.stack([number[i : shape[0] - 1 + i, j : shape[1] - 1 + j, k : shape[2] - 1 + k].ravel()
                        for k in (0, 1) for j in (0, 1) for i in (0, 1)], axis=1)  # fmt: skip
    region = segment.regions(*points[corners].mean(axis=1).T)
    kept = region >= 0
    tets = corners[kept][:, KUHN].reshape(-1, 4)
    used, tets = np.unique(tets, return_inverse=True)
    rubber = rubber or geosim.Yeoh(0.5 * mu, STIFFENING * 0.5 * mu, 0.0)
    film = geosim.NeoHookean(FILM_RATIO * mu)
    return geosim.VolumetricRobot.from_tets(
        MM * points[used], tets.reshape(-1, 4), np.repeat(region[kept], 6), material={BODY: rubber, SHEET: film},
        fixed=geosim.Select.plane("x", below=1e-6),
        tip=geosim.Select.box((MM * segment.length - 1e-6, -1, -1), (1, 1, MM * FILM + 1e-6)),
        allow_any_size=True,
    )  # fmt: skip


def solved(
    segment: Segment,
    ratios: np.ndarray,
    mu: float,
    blocked: bool,
    element: str = "p1",
    rubber: geosim.Gent | None = None,
    seconds: float = 200.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return pressures [Pa] and curvatures [1/m] or blocked forces [N] at volume ratios, as far as they are solved."""
    half = robot(segment, mu, rubber)
    middle = np.flatnonzero((half.vertices[:, 1] < 1e-7) & (half.vertices[:, 0] > 1e-7))
    held = [geosim.Prescribed(middle, (np.nan, 0.0, np.nan))]
    edge = np.flatnonzero((half.vertices[:, 0] > MM * segment.length - 1e-6) & (half.vertices[:, 2] < 1e-7))
    if blocked:
        held = [geosim.Prescribed(np.setdiff1d(middle, edge), (np.nan, 0.0, np.nan)),
                geosim.Prescribed(np.intersect1d(edge, middle), (np.nan, 0.0, 0.0)),
                geosim.Prescribed(np.setdiff1d(edge, middle), (np.nan, np.nan, 0.0))]  # fmt: skip
    environment = geosim.Environment(prescribed=held, self_contact=False)
    solver = geosim.EnergyShapeSolver(element=element, check_stability=False, max_seconds=seconds)
    result = geosim.solve(half, geosim.Inflation(volume_ratio=ratios), environment, solver=solver, throw=False)
    pressures = result.chamber_pressures[:, 0]
    if blocked:
        return pressures, 2.0 * np.abs(result.reactions[:, edge, 2].sum(axis=1))
    dx, dz = result.tip[:, 0], result.tip[:, 2] - half.vertices[half.tip, 2].mean()
    return pressures, -2.0 * dz / (dx**2 + dz**2)


RIBBED = Segment(37.8, 32.0, 18.5, 13, (1.0, 25.4, 3.1), (0.65, 0.65), 3.0)
CYLINDER = Segment(61.2, 33.5, 19.6, 1, (40.0, 2.8, 2.8), (2.8, 2.8), 7.0)
PLEATED = Segment(107.5, 44.4, 25.4, 10, (2.8, 12.9, 12.3), (3.1, 3.5), 3.0, 2.5, 3.0)
# What is not published: how thick the floor below the channels is, and how much of the section bends. With it the shear modulus
# solved with [Pa] and a factor on curvatures: two sides, one of them passive, bend half as much as one.
RATIOS = {
    "ribbed": (1.1, 1.3, 1.6, 2.0, 2.6),
    "pleated": (1.03, 1.1, 1.2, 1.4, 1.8, 2.3),
    "cylindrical": (1.2, 1.5, 2.0, 2.7, 3.6, 5.0, 7.0, 10.0),
}
GEOMETRIES = {
    ("ribbed", "floor 3"): (RIBBED, 16e3, 1.0),
    ("ribbed", "middle"): (replace(RIBBED, floor=7.55), 20e3, 1.0),
    ("ribbed", "half"): (replace(RIBBED, thickness=9.25), 20e3, 0.5),
    ("pleated", "broad"): (PLEATED, 100e3, 1.0),
    ("pleated", "high"): (replace(PLEATED, floor=6.0), 100e3, 1.0),
    ("pleated", "narrow"): (replace(PLEATED, width=25.4, thickness=22.2), 100e3, 1.0),
    ("cylindrical", "floor 3"): (replace(CYLINDER, floor=3.0), 20e3, 1.0),
    ("cylindrical", "middle"): (replace(CYLINDER, floor=8.25), 20e3, 1.0),
    ("cylindrical", "half"): (replace(CYLINDER, thickness=9.8, floor=3.0), 20e3, 0.5),
}


def curve(name: str, geometry: str) -> np.ndarray:
    """Return rows of pressure [kPa], curvature [1/m] and blocked force over curvature [N m] of a geometry."""
    segment, mu, factor = GEOMETRIES[name, geometry]
    ratios = np.array(RATIOS[name])
    pressures, bend = solved(segment, ratios, mu, False)
    held, force = solved(segment, ratios, mu, True)
    return np.stack([1e-3 * pressures, factor * bend, np.interp(pressures, held, force) / bend], axis=1)


def main(path: Path) -> None:
    """Write the curves of all geometries."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["robot", "geometry", "modulus_pa", "pressure_kpa", "curvature", "force_over_curvature"])
        for (name, geometry), (_, mu, _) in GEOMETRIES.items():
            table.writerows([name, geometry, mu, *(f"{v:.4g}" for v in row)] for row in curve(name, geometry))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
