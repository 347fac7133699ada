"""What a comparison returns: the numbers, the map and their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.compare.surface import Surface
from geosim.errors import InputError

__all__ = ["Comparison", "load_surface"]


@dataclass(frozen=True)
class Comparison:
    """A result against a measurement; all lengths in metres.

    Parameters
    ----------
    kind
        "markers" or "scan".
    rms, mean, max, percentile95
        Of the absolute distances of the points that count (markers compared; scan points that are no outliers).
    mean_signed
        Mean of the signed distances of a scan (positive: measured outside the model); nan for markers.
    size
        Bounding-box diagonal of the robot at rest, to which percentages refer.
    transform
        Rigid transform from measured to robot, (4, 4).
    points
        Measured points in the robot's frame, (p, 3).
    distances
        Of every point: signed for a scan, absolute for markers, (p,).
    outliers
        Points that do not count, (p,).
    per_vertex
        Mean signed distance (scan) near every robot vertex, or the distance of the markers attached there, (n,); nan
        where nothing was measured.
    names
        Of the markers.
    regions
        Rows (name, count, mean, rms, max) along the robot from its base to its tip, or per marker.
    noise, systematic
        Split of the rms of a scan: the scatter of neighbouring points about their mean, and what remains between
        patches; a right model has systematic near 0. nan for markers.
    pose_error
        Standard errors of the registration (position [m], rotation [rad]).
    notes
        What was detected and assumed, one sentence each.
    surface
        The model's skin; values per skin vertex of a scan in `surface_values`.
    predicted
        Where the model has the markers, (p, 3); None for a scan.
    """

    kind: str
    rms: float
    mean: float
    max: float
    percentile95: float
    mean_signed: float
    size: float
    transform: Floats
    points: Floats
    distances: Floats
    outliers: Any
    per_vertex: Floats
    names: tuple[str, ...] = ()
    regions: tuple[tuple[str, int, float, float, float], ...] = ()
    noise: float = np.nan
    systematic: float = np.nan
    pose_error: tuple[float, float] = (np.nan, np.nan)
    notes: tuple[str, ...] = ()
    surface: Surface | None = field(default=None, repr=False)
    surface_values: Any = field(default=None, repr=False)
    predicted: Any = field(default=None, repr=False)

    @property
    def percent(self) -> Mapping[str, float]:
        """Errors in percent of the robot's size, as [Fang2022, Fig. 12] states them."""
        return {k: 100.0 * getattr(self, k) / self.size for k in ("rms", "mean", "max", "percentile95")}

    @property
    def disagrees(self) -> bool:
        """Whether a scan departs from the model by more than its own noise explains."""
        return bool(self.systematic > max(0.3 * self.noise, 1e-9 * self.size))

    def lines(self) -> list[str]:
        """Return the comparison as lines of text."""
        mm = 1e3
        out = [
            f"{self.kind}: {int((~self.outliers).sum())} points compared, {int(self.outliers.sum())} left out",
            "            mm      % of size",
        ]
        for key, label in (("mean", "mean"), ("rms", "rms"), ("percentile95", "95 %"), ("max", "max")):
            out.append(f"  {label:6s} {mm * getattr(self, key):8.3f}   {self.percent[key]:8.3f}")
        if self.kind == "scan":
            out.append(f"  mean signed {mm * self.mean_signed:.3f} mm (positive: measured outside the model)")
            out.append(
                f"  noise {mm * self.noise:.3f} mm, systematic {mm * self.systematic:.3f} mm: the model "
                + ("departs from the scan" if self.disagrees else "agrees with the scan within its noise")
            )
        if np.isfinite(self.pose_error[0]):
            out.append(
                f"  pose known to {mm * self.pose_error[0]:.3f} mm, {np.degrees(self.pose_error[1]):.3f} deg "
                f"(standard error)"
            )
        out.append(f"  {'region':20s} {'count':>7s} {'mean mm':>9s} {'rms mm':>9s} {'max mm':>9s}")
        for name, count, mean, rms, largest in self.regions:
            out.append(f"  {name:20s} {count:7d} {mm * mean:9.3f} {mm * rms:9.3f} {mm * largest:9.3f}")
        return out + [f"  note: {n}" for n in self.notes]

    def save(self, folder: str | Path) -> list[Path]:
        """Write map.vtp, points.vtp, map.png, map.html, report.html and regions.csv; the paths are returned.

        Raises
        ------
        InputError
            The folder's parent does not exist.
        """
        from geosim.compare import report

        return report.write(self, Path(folder))


def load_surface(result: Any, frame: int) -> tuple[Surface, Floats]:
    """Return the skin of a frame and its robot vertex ids (-1 between vertices).

    Raises
    ------
    InputError
        There is no such frame.
    """
    count = len(result.frames)
    if not -count <= frame < count:
        raise InputError(
            f"compare: frame {frame} does not exist; the result has {count} frames (0 .. {count - 1}, or -1 = last)"
        )
    mesh = result.surface(frame, subdivide=1)
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    ids = np.asarray(mesh.metadata.get("vertex", np.arange(len(vertices))))
    return Surface(vertices, faces), ids
