"""Where moulds part: planes across which nothing holds the halves, and ways along which cores leave their cavities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.geometry.topology import face_normals
from geosim.moulds.solids import arrays

__all__ = ["AXES", "Parting", "best_parting", "lid_planes", "undercut"]

AXES = "xyz"
TILT = 0.02  # cosine: walls within a degree of the drawing direction slide
HOLDS = 2e-3  # of the area of the box across the direction: less is the rounding of facets
HEIGHTS = 60  # planes tried along each axis


@dataclass(frozen=True)
class Parting:
    """A parting plane: axis (0, 1, 2) of its normal, height [m], undercut area [m^2] projected on it, its place [m] (3,)."""

    axis: int
    height: float
    area: float
    place: Floats
    is_free: bool


def undercut(vertices: Floats, faces: Any, axis: int, height: float) -> tuple[float, Floats]:
    """Area [m^2], projected along an axis, of faces that hold one of two mould halves that part at a height [m]; and where.

    Above the plane faces that look down hold the upper half, below it those that look up the lower one.
    """
    normals = face_normals(vertices, faces)
    size = np.linalg.norm(normals, axis=1)
    along = normals[:, axis] / np.maximum(size, np.finfo(float).tiny)
    z = vertices[faces][:, :, axis]
    low, high = z.min(axis=1), z.max(axis=1)
    above = np.clip((high - height) / np.maximum(high - low, np.finfo(float).tiny), 0.0, 1.0)
    above = np.where(high - height < 1e-6 * np.ptp(vertices), 0.0, above)
    below = np.where(height - low < 1e-6 * np.ptp(vertices), 0.0, 1.0 - above)
    held = 0.5 * np.abs(normals[:, axis]) * ((along < -TILT) * above + (along > TILT) * below)
    worst = int(np.argmax(held))
    return float(held.sum()), vertices[faces[worst]].mean(axis=0)


def best_parting(solid: Any, axes: Sequence[int] = (0, 1, 2)) -> Parting:
    """Return the plane normal to one of some axes that is held least; of several the one with the lowest halves."""
    vertices, faces = arrays(solid)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    found = []
    for axis in axes:
        levels = np.unique(np.concatenate([vertices[:, axis].round(9), [0.5 * (low[axis] + high[axis])]]))
        if len(levels) > HEIGHTS:
            levels = np.unique(
                np.append(np.quantile(levels, np.linspace(0, 1, HEIGHTS)), 0.5 * (low[axis] + high[axis]))
            )
        across = float(np.prod(np.delete(high - low, axis)))
        for height in levels:
            area, at = undercut(vertices, faces, axis, float(height))
            deep = max(height - low[axis], high[axis] - height)
            found.append(
                (max(area / across - HOLDS, 0.0), deep, Parting(axis, float(height), area, at, area <= HOLDS * across))
            )
    return min(found, key=lambda item: item[:2])[2]


def lid_planes(chambers: Sequence[Any]) -> list[tuple[int, float, float]]:
    """Axis, sense and height [m] of planes from which the cores of all chambers stand up and leave by being drawn off.

    The chambers begin at the plane, and no face of theirs beyond looks back to it. The shallowest cavities come first.
    """
    parts = [arrays(c) for c in chambers]
    everything = np.vstack([v for v, _ in parts])
    size = np.ptp(everything, axis=0)
    found = []
    for axis in (2, 1, 0):
        for sense in (1.0, -1.0):
            height = float((sense * everything[:, axis]).min())
            held = 0.0
            for vertices, faces in parts:
                mirrored = vertices.copy()
                mirrored[:, axis] *= sense
                held += undercut(mirrored, faces if sense > 0 else faces[:, ::-1], axis, height)[0]
            if held <= HOLDS * float(np.prod(np.delete(size, axis))):
                found.append((float(size[axis]), (axis, sense, sense * height)))
    return [plane for _, plane in sorted(found, key=lambda item: item[0])]
